//! `windlass events`: what happened to pods.

use std::path::Path;
use std::process::ExitCode;

use windlass_api::view;

use super::get::Question;
use crate::args::{self, Events, Look};
use crate::client;
use crate::output::paint::Paint;

pub(crate) async fn run(command: &Events, socket: Option<&Path>, look: &Look) -> anyhow::Result<ExitCode> {
    let client = client::connect(socket);
    let question = Question {
        names: command.pod.iter().map(|it| args::bare(it)).collect(),
        // A pod to which nothing happened is nothing bad.
        must_exist: false,
        namespace: command.namespaces.one(),
        output: command.output,
        headings: true,
        with_kinds: false,
        paint: Paint::of(look),
    };
    question.ask::<view::Event>(&client, command.watch).await
}
