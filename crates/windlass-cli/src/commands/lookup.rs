//! Finds a pod by its name, or says what else was perhaps meant.

use windlass_api::view::{self, List, Severity};

use crate::client::{self, Client};
use crate::exit::Failure;
use crate::output::plain;

/// How alike names must be for one to be meant by the other.
const LIKENESS: f64 = 0.8;
/// So many names, and so many problems, are shown.
const SHOWN: usize = 3;

/// The pod of this name, or of this UID: of several of one name only that tells which.
pub(crate) async fn pod(client: &Client, namespace: &str, name: &str) -> anyhow::Result<view::Pod> {
    if let Some(pod) = client.find(&client::pod(namespace, name)).await? {
        return Ok(pod);
    }
    // Not by going through all there are (I-9).
    match client.find::<view::Pod>(&client::pod_by_uid(name)).await? {
        Some(pod) => Ok(pod),
        None => Err(unknown(client, namespace, name).await?.into()),
    }
}

/// That there is no such pod: with names that are near, and with what the daemon could not read.
pub(crate) async fn unknown(client: &Client, namespace: &str, name: &str) -> anyhow::Result<Failure> {
    let failure = Failure::new(format!("pod {:?} not found in {} namespace", plain(name), plain(namespace)));
    let pods: List<view::Pod> = client.get(&client::list(None, "pods")).await?;
    let node: view::Node = client.get(&client::node()).await?;
    let problems = problems(&node, namespace, name);
    Ok(failure.hints(near(&pods.items, namespace, name)).hints(problems))
}

fn near(pods: &[view::Pod], namespace: &str, name: &str) -> Option<String> {
    let mut places =
        pods.iter().filter(|it| it.metadata.name == name).filter_map(|it| it.metadata.namespace.as_deref());
    if let Some(other) = places.find(|it| *it != namespace) {
        return Some(format!("there is one in another namespace: use --namespace {}", plain(other)));
    }
    let here = pods.iter().filter(|it| it.metadata.namespace.as_deref() == Some(namespace));
    let alike = here.map(|it| (strsim::jaro_winkler(&it.metadata.name, name), it.metadata.name.as_str()));
    let mut alike: Vec<_> = alike.filter(|(likeness, _)| *likeness > LIKENESS).collect();
    alike.sort_by(|one, other| other.0.total_cmp(&one.0));
    // There may be several of one name.
    alike.dedup_by_key(|(_, name)| *name);
    let names: Vec<_> = alike.iter().take(SHOWN).map(|(_, name)| plain(name)).collect();
    (!names.is_empty()).then(|| format!("did you mean {}?", names.join(" or ")))
}

/// What is wrong with the pod's manifest, and with those that could not be read so far that they tell of whom they are.
fn problems(node: &view::Node, namespace: &str, name: &str) -> Vec<String> {
    let object = format!("Pod {namespace}/{name}");
    let own = node.status.problems.iter().filter(|it| it.object.as_deref() == Some(&object));
    let own: Vec<_> = own.map(|it| format!("its manifest has a problem: {}", problem(it))).collect();
    if !own.is_empty() {
        return own;
    }
    let unread = |it: &&view::Problem| it.object.is_none() && it.severity == Severity::Error;
    let unread = node.status.problems.iter().filter(unread).take(SHOWN);
    unread.map(|it| format!("a manifest that cannot be read may be its own: {}", problem(it))).collect()
}

/// A problem on one line, in the form that editors understand.
pub(crate) fn problem(problem: &view::Problem) -> String {
    let line = problem.line.map(|it| format!(":{it}")).unwrap_or_default();
    let object = problem.object.as_ref().map(|it| format!("{}: ", plain(it))).unwrap_or_default();
    format!("{}{line}: {object}{}", plain(&problem.path), plain(&problem.message))
}

#[cfg(test)]
mod tests {
    use super::*;
    use windlass_api::view::{Metadata, Object, PodPhase, PodStatus};

    fn pod(namespace: &str, name: &str) -> view::Pod {
        let metadata = Metadata { namespace: Some(namespace.into()), name: name.into(), uid: None };
        let status = PodStatus {
            phase: PodPhase::Wanted,
            releasing: Vec::new(),
            first_seen: None,
            conditions: Vec::new(),
            goes_at: None,
            volumes: Vec::new(),
        };
        Object::new(metadata, status)
    }

    #[test]
    fn another_namespace_is_named_before_another_name() {
        let pods = [pod("default", "webb"), pod("shop", "web"), pod("shop", "web"), pod("shop", "wet")];
        assert_eq!(near(&pods, "default", "web").unwrap(), "there is one in another namespace: use --namespace shop");
        assert_eq!(near(&pods, "shop", "wep").unwrap(), "did you mean web or wet?");
        assert_eq!(near(&pods, "shop", "database"), None);
    }
}
