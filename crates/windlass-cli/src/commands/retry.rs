//! `windlass retry`: what failed and waits for its next try is tried at once.

use std::path::Path;
use std::process::ExitCode;

use windlass_api::view;

use super::claims;
use crate::args::{self, Retry};
use crate::client;
use crate::output::{self, plain};

pub(crate) async fn run(command: &Retry, socket: Option<&Path>) -> anyhow::Result<ExitCode> {
    let client = client::connect(socket);
    let paths = match command.all {
        true => vec![client::retry(None, None)],
        false => command.pods.iter().map(|it| path(&command.namespace, it)).collect(),
    };
    let mut retried = Vec::new();
    for path in paths {
        retried.extend(client.post::<view::Retry>(&path).await?.status.retried);
    }
    if retried.is_empty() {
        output::note("Nothing of it waits for its next try.");
    }
    for view::Retried { what, attempts } in retried {
        let times = if attempts == 1 { "once".to_owned() } else { format!("{attempts} times") };
        output::data(&format!("{} is tried again, after it failed {times}\n", plain(&what)))?;
    }
    Ok(ExitCode::SUCCESS)
}

/// `POD`, `POD/VOLUME`, `claim/NAME` or `claim/NAMESPACE/NAME`: no name has that character in it.
fn path(namespace: &str, named: &str) -> String {
    if claims::named(named).is_some() {
        let (namespace, name) = claims::parts(named, namespace);
        return client::retry_claim(namespace, name);
    }
    let named = args::bare(named);
    match named.split_once('/') {
        Some((pod, volume)) => client::retry(Some((namespace, pod)), Some(volume)),
        None => client::retry(Some((namespace, named)), None),
    }
}
