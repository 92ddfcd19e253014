//! `windlass explain` without a name: all that is not well on the node, by its cause.

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;
use serde::Serialize;
use windlass::node::Code;
use windlass_api::view::{self, ConditionStatus, List, PodPhase, Reason, Severity, Urgency};

use crate::client::{self, Client};
use crate::commands::lookup;
use crate::output::columns::title;
use crate::output::paint::Tone;
use crate::output::reasons::Style;
use crate::output::{self, plain};

/// So many of those that a cause holds up are named.
const NAMED_MAX: usize = 10;

/// Something that is not well, and all that it holds up.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Cause {
    /// A code of `docs/reasons.md`, or the reason of a condition or the severity of a problem.
    code: String,
    message: String,
    remedy: String,
    /// Since when, if that is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    since: Option<Timestamp>,
    /// Pods whose volumes it holds up, each as `namespace/name/volume`.
    #[serde(skip_serializing_if = "BTreeSet::is_empty")]
    pods: BTreeSet<String>,
    /// Volumes that it holds up, apart from any pod.
    #[serde(skip_serializing_if = "BTreeSet::is_empty")]
    volumes: BTreeSet<String>,
    /// Claims that it holds up, each as `namespace/name`.
    #[serde(skip_serializing_if = "BTreeSet::is_empty")]
    claims: BTreeSet<String>,
    #[serde(skip)]
    details: Option<Reason>,
}

/// All that there is to say.
#[derive(Debug, Default)]
pub(crate) struct Everything {
    causes: BTreeMap<(String, String), Cause>,
    /// Volumes of pods that an operation runs for, and nothing is known to be wrong with.
    on_the_way: usize,
    pods: usize,
    ready_pods: usize,
}

pub(crate) async fn ask(client: &Client) -> anyhow::Result<Everything> {
    let node: view::Node = client.get(&client::node()).await?;
    let pods: List<view::Pod> = client.get(&client::list(None, "pods")).await?;
    let volumes: List<view::Volume> = client.get(&client::list(None, "volumes")).await?;
    // An older daemon has no list of them.
    let claims: Option<List<view::Claim>> = client.find(&client::list(None, "claims")).await?;
    Ok(Everything::of(&node, &pods.items, &volumes.items, &claims.map(|it| it.items).unwrap_or_default()))
}

impl Everything {
    fn of(node: &view::Node, pods: &[view::Pod], volumes: &[view::Volume], claims: &[view::Claim]) -> Self {
        let wanted = pods.iter().filter(|it| it.status.phase == PodPhase::Wanted);
        let mut all = Self {
            pods: wanted.clone().count(),
            ready_pods: wanted.filter(|it| it.is_mounted()).count(),
            ..Self::default()
        };
        for pod in pods {
            all.pod(pod);
        }
        for volume in volumes {
            // What it waits for until its pods have let it go is said of them.
            let deepest = volume.status.reasons.last().filter(|it| it.code != Code::StillInPods.as_str());
            if let Some(deepest) = deepest.filter(|it| it.urgency > Urgency::Working) {
                all.reason(deepest).volumes.insert(volume.metadata.name.clone());
            }
        }
        for claim in claims {
            if let Some(deepest) = claim.status.reasons.last().filter(|it| it.urgency > Urgency::Working) {
                all.reason(deepest).claims.insert(title(&claim.metadata));
            }
        }
        for condition in node.status.conditions.iter().filter(|it| it.status == ConditionStatus::False) {
            // Each problem with a manifest is told by itself.
            if condition.kind != "ManifestsValid" {
                let remedy = "See `windlass describe node` and the daemon's log.";
                let cause = all.cause(&condition.reason, &condition.message, remedy);
                cause.since = Some(condition.last_transition_time);
            }
        }
        for problem in &node.status.problems {
            let (code, remedy) = match problem.severity {
                Severity::Error => {
                    ("ManifestInvalid", "Correct the manifest; until then what was in force before stays so.")
                }
                Severity::Warning => {
                    ("ManifestWarning", "Correct it; an API server would not have taken it, or it is not read.")
                }
                Severity::NotOurs => ("NotOurs", "It is left alone; move it away if it is not needed."),
            };
            all.cause(code, &lookup::problem(problem), remedy);
        }
        all
    }

    fn pod(&mut self, pod: &view::Pod) {
        let goes = matches!(pod.status.phase, PodPhase::Finished | PodPhase::Leaving | PodPhase::Releasing);
        for mount in &pod.status.volumes {
            let well = mount.mounted && !mount.stale && !goes;
            let name = format!("{}/{}", title(&pod.metadata), mount.volume);
            match mount.reasons.last() {
                _ if well && mount.reasons.iter().all(|it| it.urgency <= Urgency::Working) => {}
                Some(deepest) if deepest.urgency <= Urgency::Working => self.on_the_way += 1,
                Some(deepest) => drop(self.reason(deepest).pods.insert(name)),
                None if well || goes => {}
                None if output::paint::urgency(&mount.state).is_some_and(|it| it <= Urgency::Working) => {
                    self.on_the_way += 1
                }
                None => {
                    let cause =
                        self.cause(&mount.state, "the volume is not mounted, and has given no reason yet", "Wait.");
                    cause.since = Some(mount.since);
                    cause.pods.insert(name);
                }
            }
        }
    }

    fn cause(&mut self, code: &str, message: &str, remedy: &str) -> &mut Cause {
        self.causes.entry((code.into(), message.into())).or_insert_with(|| Cause {
            code: code.into(),
            message: message.into(),
            remedy: remedy.into(),
            since: None,
            pods: BTreeSet::new(),
            volumes: BTreeSet::new(),
            claims: BTreeSet::new(),
            details: None,
        })
    }

    fn reason(&mut self, reason: &Reason) -> &mut Cause {
        let cause = self.cause(&reason.code, &reason.message, &reason.remedy);
        // The same for many is told with the one that has it longest.
        if cause.since.is_none_or(|it| reason.since < it) {
            cause.since = Some(reason.since);
            cause.details = Some(reason.clone());
        }
        cause
    }

    /// The causes, those that hold up most first.
    pub(crate) fn causes(&self) -> Vec<&Cause> {
        let mut causes: Vec<&Cause> = self.causes.values().collect();
        causes.sort_by_key(|it| (std::cmp::Reverse(it.pods.len() + it.volumes.len() + it.claims.len()), it.since));
        causes
    }

    /// In words.
    pub(crate) fn text(&self, style: Style) -> String {
        let causes = self.causes();
        let mut text = match (causes.len(), self.pods) {
            (0, 0) => "Nothing is wrong, and there are no pods.\n".to_owned(),
            (0, _) => format!(
                "Nothing is wrong: {} of {} have all their volumes.\n",
                self.ready_pods,
                output::count(self.pods, "pod")
            ),
            (1, _) => "1 thing is not well:\n".to_owned(),
            (some, _) => format!("{some} things are not well:\n"),
        };
        if self.on_the_way > 0 {
            text.push_str(&format!("{} on the way.\n", on_the_way(self.on_the_way)));
        }
        for cause in causes {
            text.push('\n');
            text.push_str(&cause.text(style));
        }
        text
    }
}

fn on_the_way(count: usize) -> String {
    if count == 1 { "1 volume is".into() } else { format!("{count} volumes are") }
}

impl Cause {
    fn text(&self, style: Style) -> String {
        let code = style.paint.text(Tone::of(&self.code), &plain(&self.code));
        let mut text = format!("{code}: {}\n", plain(&self.message));
        match (&self.details, self.since) {
            (Some(reason), _) => text.push_str(&format!("  {}\n", style.details(reason))),
            (None, Some(since)) => text.push_str(&format!("  (for {})\n", output::age::age(since, style.now))),
            (None, None) => {}
        }
        for (heading, names) in [("Pods", &self.pods), ("Volumes", &self.volumes), ("Claims", &self.claims)] {
            let mut named: Vec<String> = names.iter().take(NAMED_MAX).map(|it| plain(it)).collect();
            if names.len() > NAMED_MAX {
                named.push(format!("and {} more", names.len() - NAMED_MAX));
            }
            if !named.is_empty() {
                text.push_str(&format!("  {heading}: {}\n", named.join(", ")));
            }
        }
        text.push_str(&format!("  What to do: {}\n", plain(&self.remedy)));
        text
    }
}
