//! The kinds of objects that can be listed, and their columns.

use std::collections::HashMap;

use jiff::Timestamp;
use serde::Serialize;
use serde::de::DeserializeOwned;
use windlass::node::Code;
use windlass_api::view::{self, ClaimPhase, ConditionStatus, Kind, Metadata, PodPhase, Urgency};

use super::age::{age, until};
use super::paint::Tone;
use super::short;
use super::table::Cell;

/// What a row is made of besides the object.
#[derive(Debug)]
pub(crate) struct Scene<'a> {
    pub(crate) now: Timestamp,
    /// The object has gone.
    pub(crate) gone: bool,
    pub(crate) names: &'a Names,
}

/// What pods are called, by their UID.
#[derive(Debug, Default)]
pub(crate) struct Names(HashMap<String, String>);

impl Names {
    pub(crate) fn of(pods: &[view::Pod]) -> Self {
        let one = |it: &view::Pod| Some((it.metadata.uid.clone()?, title(&it.metadata)));
        Self(pods.iter().filter_map(one).collect())
    }

    pub(crate) fn knows(&self, uid: &str) -> bool {
        self.0.contains_key(uid)
    }

    /// The name, or the UID of a pod that has none here.
    pub(crate) fn name<'a>(&'a self, uid: &'a str) -> &'a str {
        self.0.get(uid).map_or(uid, String::as_str)
    }
}

/// Namespace and name in one.
pub(crate) fn title(metadata: &Metadata) -> String {
    match &metadata.namespace {
        Some(namespace) => format!("{namespace}/{}", metadata.name),
        None => metadata.name.clone(),
    }
}

/// A kind of object that can be listed.
pub(crate) trait Listed: Kind + AsRef<Metadata> + Serialize + DeserializeOwned {
    /// As it is typed, and in paths.
    const PLURAL: &str;
    /// Whether it lives in a namespace.
    const NAMESPACED: bool;
    /// The columns of a table.
    const HEADINGS: &[&'static str];
    /// Those of a wide table besides.
    const WIDE: &[&'static str];

    fn metadata(&self) -> &Metadata {
        self.as_ref()
    }

    /// Whether somebody who asks for this name means this object.
    fn is_called(&self, name: &str) -> bool {
        self.metadata().name == name
    }

    /// The UID of the pod whose name a row shows, if the object does not tell the name itself.
    fn pod_uid(&self) -> Option<&str> {
        None
    }

    /// Brings them into the order in which they are shown.
    fn sort(items: &mut [Self])
    where
        Self: Sized,
    {
        items.sort_by(|one, other| one.metadata().cmp(other.metadata()));
    }

    /// The fields of a wide table; a narrow one shows the first of them.
    fn row(&self, scene: &Scene<'_>) -> Vec<Cell>;
}

impl Listed for view::Pod {
    const PLURAL: &str = "pods";
    const NAMESPACED: bool = true;
    const HEADINGS: &[&'static str] = &["NAME", "READY", "STATUS", "AGE"];
    const WIDE: &[&'static str] = &["UID", "MESSAGE"];

    fn row(&self, scene: &Scene<'_>) -> Vec<Cell> {
        let (volumes, held) = (&self.status.volumes, held_volumes(self));
        // What a pod has besides what it names is no part of it; of one that nobody speaks for it is all there is.
        let is_spoken_for = matches!(self.status.phase, PodPhase::Wanted | PodPhase::Ending | PodPhase::Finished);
        let volumes: Vec<_> = volumes.iter().filter(|it| !(is_spoken_for && it.unnamed)).collect();
        let mounted = if scene.gone { 0 } else { volumes.iter().filter(|it| it.mounted).count() };
        let condition = stale_condition(self).or_else(|| lost_condition(self)).or_else(|| mounted_condition(self));
        let status = match (scene.gone, self.status.goes_at) {
            (true, _) => Cell::toned("Unmounted", Tone::Plain),
            (false, Some(at)) => Cell::toned(format!("Held (goes {})", until(at, scene.now)), Tone::Waiting),
            (false, None) => match (pod_status(self), held.iter().min()) {
                (status, Some(at)) => {
                    let text = format!("{} ({} held, goes {})", status.text, held.len(), until(*at, scene.now));
                    Cell::toned(text, Tone::Waiting)
                }
                (status, None) => status,
            },
        };
        vec![
            self.metadata.name.as_str().into(),
            format!("{mounted}/{}", volumes.len()).into(),
            status,
            known_since(self).map_or_else(unknown, |it| age(it, scene.now)).into(),
            self.metadata.uid.clone().unwrap_or_else(unknown).into(),
            condition.map_or_else(String::new, |it| it.message.clone()).into(),
        ]
    }
}

/// The volumes that a pod had and does not name any more, though that may be an accident: when each goes.
fn held_volumes(pod: &view::Pod) -> Vec<Timestamp> {
    let is_wanted = pod.status.goes_at.is_none();
    let volumes = pod.status.volumes.iter().filter(|it| is_wanted && !it.mounted);
    volumes.filter_map(|it| it.reasons.iter().find_map(|it| it.goes_at)).collect()
}

/// Whether all volumes of a pod are mounted, and why not.
pub(crate) fn mounted_condition(pod: &view::Pod) -> Option<&view::Condition> {
    pod.condition("VolumesMounted")
}

/// Why a pod whose volumes are all mounted has one that is not what it should be now.
pub(crate) fn stale_condition(pod: &view::Pod) -> Option<&view::Condition> {
    let current = pod.condition("VolumesCurrent");
    current.filter(|it| it.status == ConditionStatus::False && pod.is_mounted())
}

/// That what a pod had in its volumes is lost, though they are all mounted.
fn lost_condition(pod: &view::Pod) -> Option<&view::Condition> {
    let lost = pod.condition("VolumeContentLost");
    lost.filter(|it| it.status == ConditionStatus::True && pod.is_mounted())
}

/// Since when the node knows a pod; an older daemon says since when it stands as it does.
pub(crate) fn known_since(pod: &view::Pod) -> Option<Timestamp> {
    pod.status.first_seen.or_else(|| mounted_condition(pod).map(|it| it.last_transition_time))
}

/// How a pod stands in a word: of one that is to have its volumes, the deepest reason why it has not; of one that is
/// not, how far its life has gone, and what keeps it here if something does.
pub(crate) fn pod_status(pod: &view::Pod) -> Cell {
    let reason = mounted_condition(pod).map_or("Unknown", |it| it.reason.as_str());
    let phase = match pod.status.phase {
        PodPhase::Wanted if stale_condition(pod).is_some() => return stale(),
        PodPhase::Wanted => return Cell::state(lost_condition(pod).map_or(reason, |it| it.reason.as_str())),
        PodPhase::Found => "Found",
        PodPhase::Held => "Held",
        PodPhase::Ending => "Ending",
        PodPhase::Finished => "Finished",
        PodPhase::Leaving => "Leaving",
        PodPhase::Releasing => "Releasing",
    };
    let deepest = pod.status.volumes.iter().filter_map(|it| it.reasons.last());
    match deepest.filter(|it| it.urgency == Urgency::Trouble).map(|it| &it.code).next() {
        Some(stuck) => Cell::toned(format!("{phase}:{stuck}"), Tone::Bad),
        None => Cell::toned(phase, Tone::Waiting),
    }
}

/// What is mounted and cannot be brought up to date.
const STALE: &str = "Stale";

fn stale() -> Cell {
    Cell::toned(STALE, Tone::Bad)
}

/// How a volume stands in a pod in a word: the deepest reason if it is not settled.
pub(crate) fn mount_status(mount: &view::MountStatus) -> &str {
    match mount.reasons.last() {
        _ if mount.stale => STALE,
        Some(deepest) if !mount.mounted || deepest.code == Code::ContentLost.as_str() => &deepest.code,
        _ => &mount.state,
    }
}

/// How good or bad that is.
pub(crate) fn tone_of_mount(mount: &view::MountStatus) -> Tone {
    if mount.stale { Tone::Bad } else { Tone::of(mount_status(mount)) }
}

/// How a volume stands in a word: the deepest reason of its own if it is not settled, else that of a pod's mount.
pub(crate) fn volume_status(volume: &view::VolumeStatus) -> Cell {
    if let Some(deepest) = volume.reasons.last() {
        return Cell::state(&deepest.code);
    }
    if volume.pods.iter().any(|it| it.stale) {
        return stale();
    }
    let waiting = volume.pods.iter().filter(|it| !it.mounted).find_map(|it| it.reasons.last());
    match waiting {
        Some(deepest) => Cell::state(&deepest.code),
        None if volume.pods.iter().any(|it| it.mounted) => Cell::state("Mounted"),
        None if volume.staged == "Held" => Cell::toned("Staged", Tone::Good),
        None if volume.attached == "Held" => Cell::toned("Attached", Tone::Good),
        None => Cell::state("Idle"),
    }
}

/// Why a volume, or a pod's mount of it, is not settled, in words.
pub(crate) fn volume_message(volume: &view::VolumeStatus) -> &str {
    let of_pods = || volume.pods.iter().find_map(|it| it.reasons.last());
    volume.reasons.last().or_else(of_pods).map_or("", |it| it.message.as_str())
}

pub(crate) fn unknown() -> String {
    "<unknown>".into()
}

impl Listed for view::Mount {
    const PLURAL: &str = "mounts";
    const NAMESPACED: bool = true;
    const HEADINGS: &[&'static str] = &["POD", "VOLUME", "TYPE", "STATUS", "AGE"];
    const WIDE: &[&'static str] = &["PATH", "MESSAGE"];

    /// By its own name, which is `pod/volume`, or by its pod's.
    fn is_called(&self, name: &str) -> bool {
        self.metadata.name == name || self.status.pod == name
    }

    fn row(&self, scene: &Scene<'_>) -> Vec<Cell> {
        let mount = &self.status;
        let message = mount.reasons.last().map_or("", |it| it.message.as_str());
        vec![
            mount.pod.as_str().into(),
            mount.volume.as_str().into(),
            mount.plugin.as_deref().map_or_else(unknown, |it| short(it).into()).into(),
            if scene.gone {
                Cell::toned("Unmounted", Tone::Plain)
            } else {
                Cell::toned(mount_status(mount), tone_of_mount(mount))
            },
            age(mount.since, scene.now).into(),
            mount.path.as_deref().filter(|_| !scene.gone).unwrap_or("<none>").into(),
            message.into(),
        ]
    }
}

impl Listed for view::Volume {
    const PLURAL: &str = "volumes";
    const NAMESPACED: bool = false;
    const HEADINGS: &[&'static str] = &["NAME", "TYPE", "STATUS", "STAGED", "IN-USE", "PODS"];
    const WIDE: &[&'static str] = &["ATTACHED", "SIZE", "MESSAGE"];

    fn row(&self, scene: &Scene<'_>) -> Vec<Cell> {
        let volume = &self.status;
        let step = |it: &str| {
            let tone = match it {
                "Held" => Tone::Good,
                "Absent" => Tone::Plain,
                "NotNeeded" => return "-".into(),
                _ => Tone::Waiting,
            };
            Cell::toned(it, tone)
        };
        vec![
            self.metadata.name.as_str().into(),
            short(&volume.plugin).into(),
            if scene.gone { Cell::toned("Gone", Tone::Plain) } else { volume_status(volume) },
            if scene.gone { "Absent".into() } else { step(&volume.staged) },
            (volume.in_use && !scene.gone).to_string().into(),
            if scene.gone { "0".into() } else { volume.pods.len().to_string().into() },
            if scene.gone { "Absent".into() } else { step(&volume.attached) },
            volume.size_bytes.map_or_else(|| "<none>".into(), size).into(),
            volume_message(volume).into(),
        ]
    }
}

impl Listed for view::Claim {
    const PLURAL: &str = "claims";
    const NAMESPACED: bool = true;
    const HEADINGS: &[&'static str] = &["NAME", "STATUS", "VOLUME", "CAPACITY", "CLASS", "AGE"];
    const WIDE: &[&'static str] = &["HANDLE", "DRIVER", "POLICY", "PODS", "MESSAGE"];

    fn row(&self, scene: &Scene<'_>) -> Vec<Cell> {
        let claim = &self.status;
        let tone = match claim.phase {
            ClaimPhase::Bound if claim.reasons.is_empty() => Tone::Good,
            ClaimPhase::Bound | ClaimPhase::Pending | ClaimPhase::DeletePending | ClaimPhase::Deleting => Tone::Waiting,
            ClaimPhase::Failed | ClaimPhase::Kept => Tone::Bad,
        };
        let some = |text: Option<&str>| text.unwrap_or("<none>").to_owned();
        vec![
            self.metadata.name.as_str().into(),
            if scene.gone { Cell::toned("Gone", Tone::Plain) } else { Cell::toned(claim_status(claim), tone) },
            some(claim.volume.as_deref()).into(),
            claim.capacity_bytes.map_or_else(|| "<none>".into(), size).into(),
            some(claim.storage_class.as_deref()).into(),
            age(claim.since, scene.now).into(),
            some(claim.volume_handle.as_deref()).into(),
            some(claim.driver.as_deref()).into(),
            some(claim.reclaim_policy.as_deref()).into(),
            claim.pods.len().to_string().into(),
            claim.reasons.last().map_or("", |it| it.message.as_str()).into(),
        ]
    }
}

/// How a claim stands, in a few words.
pub(crate) fn claim_status(claim: &view::ClaimStatus) -> String {
    let why = claim.reasons.last().map(|it| it.code.as_str());
    match (claim.phase, claim.delete_at, why) {
        (ClaimPhase::DeletePending, Some(at), _) => format!("Deleting at {}", second(at)),
        (ClaimPhase::DeletePending, None, _) => "Deleting".into(),
        (ClaimPhase::Pending | ClaimPhase::Bound, _, Some(why)) => format!("{:?}:{why}", claim.phase),
        (phase, _, _) => format!("{phase:?}"),
    }
}

/// A time to the second.
pub(crate) fn second(time: Timestamp) -> String {
    format!("{time:.0}")
}

/// A size as Kubernetes writes it: in the largest unit that leaves no rest.
pub(crate) fn size(bytes: u64) -> String {
    let units = [(40, "Ti"), (30, "Gi"), (20, "Mi"), (10, "Ki")];
    match units.iter().find(|(shift, _)| bytes > 0 && bytes.is_multiple_of(1 << shift)) {
        Some((shift, unit)) => format!("{}{unit}", bytes >> shift),
        None => bytes.to_string(),
    }
}

impl Listed for view::Driver {
    const PLURAL: &str = "drivers";
    const NAMESPACED: bool = false;
    const HEADINGS: &[&'static str] = &["NAME", "STATUS", "VOLUMES", "NODE ID", "AGE"];
    const WIDE: &[&'static str] = &["LIMIT", "CAPABILITIES", "ENDPOINT", "CONTROLLER"];

    fn row(&self, scene: &Scene<'_>) -> Vec<Cell> {
        let driver = &self.status;
        let status = match (driver.registered && !scene.gone, driver.unreachable_since) {
            (true, None) => Cell::toned("Registered", Tone::Good),
            (true, Some(_)) => Cell::toned("Unreachable", Tone::Bad),
            (false, _) => Cell::toned("Missing", Tone::Bad),
        };
        let some = |text: Option<&str>| text.map_or("<none>".to_owned(), str::to_owned);
        vec![
            self.metadata.name.as_str().into(),
            status,
            driver.volumes.len().to_string().into(),
            some(driver.node_id.as_deref()).into(),
            driver.since.map_or_else(|| "<none>".into(), |it| age(it, scene.now)).into(),
            driver.volumes_max.map_or_else(|| "<none>".into(), |it| it.to_string()).into(),
            some(Some(driver.capabilities.join(",").as_str()).filter(|it| !it.is_empty())).into(),
            some(driver.endpoint.as_deref()).into(),
            some(driver.settings.as_ref().and_then(|it| it.controller.as_deref())).into(),
        ]
    }
}

impl Listed for view::Operation {
    const PLURAL: &str = "operations";
    const NAMESPACED: bool = false;
    const HEADINGS: &[&'static str] = &["ID", "OPERATION", "STATUS", "VOLUME", "POD", "AGE"];
    const WIDE: &[&'static str] = &["UID"];

    fn pod_uid(&self) -> Option<&str> {
        self.status.pod_uid.as_deref()
    }

    /// By age, which their numbers tell.
    fn sort(items: &mut [Self]) {
        items.sort_by_key(|it| it.status.since);
    }

    fn row(&self, scene: &Scene<'_>) -> Vec<Cell> {
        let operation = &self.status;
        let status = match (scene.gone, operation.hung, operation.queued_behind) {
            (true, ..) => Cell::toned("Ended", Tone::Plain),
            (false, true, _) => Cell::toned("Hung", Tone::Bad),
            (false, false, Some(_)) => Cell::toned("Queued", Tone::Waiting),
            (false, false, None) => Cell::toned("Running", Tone::Waiting),
        };
        vec![
            self.metadata.name.as_str().into(),
            operation.operation.as_str().into(),
            status,
            operation.volume_id.as_str().into(),
            self.pod_uid().map_or("<none>", |it| scene.names.name(it)).into(),
            age(operation.since, scene.now).into(),
            self.pod_uid().unwrap_or("<none>").into(),
        ]
    }
}

impl Listed for view::Event {
    const PLURAL: &str = "events";
    const NAMESPACED: bool = true;
    const HEADINGS: &[&'static str] = &["LAST SEEN", "TYPE", "REASON", "OBJECT", "MESSAGE"];
    const WIDE: &[&'static str] = &["COUNT", "FIRST SEEN", "NAME"];

    /// By its own name, or by its pod's or its claim's.
    fn is_called(&self, name: &str) -> bool {
        self.metadata.name == name || self.status.pod == name || self.status.claim.as_deref() == Some(name)
    }

    /// The newest last.
    fn sort(items: &mut [Self]) {
        items.sort_by_key(|it| it.status.last_time);
    }

    fn row(&self, scene: &Scene<'_>) -> Vec<Cell> {
        let event = &self.status;
        let last = age(event.last_time, scene.now);
        let first = age(event.first_time, scene.now);
        let seen = match event.count {
            ..=1 => last,
            count => format!("{last} (x{count} over {first})"),
        };
        let tone = if event.tone == "Normal" { Tone::Plain } else { Tone::Waiting };
        vec![
            seen.into(),
            Cell::toned(&event.tone, tone),
            event.reason.as_str().into(),
            event.claim.as_ref().map_or_else(|| format!("pod/{}", event.pod), |it| format!("claim/{it}")).into(),
            event.message.as_str().into(),
            event.count.to_string().into(),
            first.into(),
            self.metadata.name.as_str().into(),
        ]
    }
}

impl Listed for view::Node {
    const PLURAL: &str = "node";
    const NAMESPACED: bool = false;
    const HEADINGS: &[&'static str] = &["NAME", "STATUS", "PODS", "VOLUMES", "VERSION", "AGE"];
    const WIDE: &[&'static str] = &["ROOT", "MANIFESTS", "PROCESS"];

    fn row(&self, scene: &Scene<'_>) -> Vec<Cell> {
        let node = &self.status;
        let reasons: Vec<_> = node.conditions.iter().filter(|it| it.status != ConditionStatus::True).collect();
        let status = match reasons.is_empty() {
            true => Cell::toned("Ready", Tone::Good),
            false => {
                let reasons: Vec<_> = reasons.iter().map(|it| it.reason.as_str()).collect();
                Cell::toned(reasons.join(","), Tone::Bad)
            }
        };
        vec![
            self.metadata.name.as_str().into(),
            status,
            format!("{}/{}", node.counts.ready_pods, node.counts.pods).into(),
            node.counts.volumes.to_string().into(),
            node.version.as_str().into(),
            age(node.started, scene.now).into(),
            node.root.as_str().into(),
            node.manifests.as_str().into(),
            node.process.to_string().into(),
        ]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pod(phase: &str, reason: &str, deepest: &str) -> view::Pod {
        let (now, urgency) = ("2026-01-01T00:00:00Z", crate::output::paint::urgency(deepest));
        serde_json::from_value(serde_json::json!({
            "apiVersion": view::API_VERSION, "kind": "Pod",
            "metadata": {"namespace": "default", "name": "web", "uid": "1"},
            "status": {
                "phase": phase,
                "conditions": [{"type": "VolumesMounted", "status": "False", "reason": reason, "message": "", "lastTransitionTime": now}],
                "volumes": [{
                    "pod": "web", "podUid": "1", "volume": "data", "state": "Publishing", "since": now, "mounted": false,
                    "reasons": [{"code": deepest, "urgency": urgency, "message": "", "remedy": "", "since": now}],
                }],
            },
        }))
        .unwrap()
    }

    #[test]
    fn a_pod_that_goes_says_what_keeps_it() {
        assert_eq!(pod_status(&pod("Wanted", "NoSpace", "NoSpace")), Cell::toned("NoSpace", Tone::Bad));
        assert_eq!(pod_status(&pod("Leaving", "Idle", "Unpublishing")), Cell::toned("Leaving", Tone::Waiting));
        assert_eq!(pod_status(&pod("Leaving", "HeldOpen", "HeldOpen")), Cell::toned("Leaving:HeldOpen", Tone::Bad));
    }

    #[test]
    fn a_pod_with_volumes_that_it_names_no_more_says_when_they_go() {
        let now = "2026-01-01T00:00:00Z".parse().unwrap();
        let mut pod = pod("Wanted", "Mounted", "NotInManifests");
        pod.status.volumes[0].unnamed = true;
        pod.status.volumes[0].reasons[0].goes_at = Some("2026-01-01T00:05:00Z".parse().unwrap());
        let cells = pod.row(&Scene { now, gone: false, names: &Names::default() });
        assert_eq!(cells[1], Cell::from("0/0"), "what is held is not missing");
        assert_eq!(cells[2], Cell::toned("Mounted (1 held, goes in 5m)", Tone::Waiting));
    }

    #[test]
    fn a_pod_whose_content_is_lost_says_so() {
        let mut pod = pod("Wanted", "Mounted", "ContentLost");
        pod.status.conditions[0].status = ConditionStatus::True;
        let lost = view::Condition {
            kind: "VolumeContentLost".into(),
            reason: "ContentLost".into(),
            ..pod.status.conditions[0].clone()
        };
        pod.status.conditions.push(lost);
        pod.status.volumes[0].mounted = true;
        assert_eq!(pod_status(&pod), Cell::toned("ContentLost", Tone::Bad));
        assert_eq!(mount_status(&pod.status.volumes[0]), "ContentLost");
    }

    #[test]
    fn sizes_have_the_largest_unit_that_is_exact() {
        for (bytes, expected) in [(0, "0"), (1000, "1000"), (1024, "1Ki"), (10 << 30, "10Gi"), (1536 << 20, "1536Mi")] {
            assert_eq!(size(bytes), expected);
        }
    }

    #[test]
    fn a_row_has_a_field_for_each_heading() {
        let scene = Scene { now: Timestamp::now(), gone: false, names: &Names::default() };
        let pod = pod("Wanted", "NoSpace", "NoSpace");
        assert_eq!(pod.row(&scene).len(), view::Pod::HEADINGS.len() + view::Pod::WIDE.len());
        let mount = &view::mounts(&pod)[0];
        assert_eq!(mount.row(&scene).len(), view::Mount::HEADINGS.len() + view::Mount::WIDE.len());
        assert!(mount.is_called("web") && mount.is_called("web/data") && !mount.is_called("data"));
    }
}
