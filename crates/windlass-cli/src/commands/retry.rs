//! `windlass retry`: what failed and waits for its next try is tried at once.

use std::{path::Path, process::ExitCode};

use windlass_api::view;

use crate::{
    args::{self, Retry},
    client,
    output::{self, plain},
};

pub(crate) async fn run(command: &Retry, socket: Option<&Path>) -> anyhow::Result<ExitCode> {
    let claim = |it: &&String| ["claim/", "claims/", "pvc/"].iter().any(|kind| it.starts_with(kind));
    if let Some(named) = command.pods.iter().find(claim) {
        anyhow::bail!(
            "{} is a claim: what waits for its next try is tried with a pod that uses it (windlass retry POD), or with \
             everything else (windlass retry --all)",
            plain(named)
        );
    }
    let client = client::connect(socket);
    let paths = match command.all {
        true => vec![client::retry(None, None)],
        false => command.pods.iter().map(|it| path(&command.namespace, args::bare(it))).collect(),
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

/// `POD` or `POD/VOLUME`: neither name has that character in it.
fn path(namespace: &str, named: &str) -> String {
    match named.split_once('/') {
        Some((pod, volume)) => client::retry(Some((namespace, pod)), Some(volume)),
        None => client::retry(Some((namespace, named)), None),
    }
}
