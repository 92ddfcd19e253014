//! The kinds of objects that can be listed, and their columns.

use std::collections::HashMap;

use jiff::Timestamp;
use serde::{Serialize, de::DeserializeOwned};
use windlass::view::{self, ConditionStatus, Metadata, PodPhase};

use super::{age::age, paint::Tone, short, table::Cell};

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
pub(crate) trait Listed: Serialize + DeserializeOwned {
    /// `Pod`.
    const KIND: &str;
    /// As it is typed, and in paths.
    const PLURAL: &str;
    /// Whether it lives in a namespace.
    const NAMESPACED: bool;
    /// The columns of a table.
    const HEADINGS: &[&'static str];
    /// Those of a wide table besides.
    const WIDE: &[&'static str];

    fn metadata(&self) -> &Metadata;

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
    const KIND: &str = "Pod";
    const PLURAL: &str = "pods";
    const NAMESPACED: bool = true;
    const HEADINGS: &[&'static str] = &["NAME", "READY", "STATUS", "AGE"];
    const WIDE: &[&'static str] = &["UID", "MESSAGE"];

    fn metadata(&self) -> &Metadata {
        &self.metadata
    }

    fn row(&self, scene: &Scene<'_>) -> Vec<Cell> {
        let volumes = &self.status.volumes;
        let mounted = if scene.gone { 0 } else { volumes.iter().filter(|it| it.mounted).count() };
        let condition = mounted_condition(self);
        let status = if scene.gone { Cell::toned("Unmounted", Tone::Plain) } else { pod_status(self) };
        vec![
            self.metadata.name.as_str().into(),
            format!("{mounted}/{}", volumes.len()).into(),
            status,
            condition.map_or_else(unknown, |it| age(it.last_transition_time, scene.now)).into(),
            self.metadata.uid.clone().unwrap_or_else(unknown).into(),
            condition.map_or_else(String::new, |it| it.message.clone()).into(),
        ]
    }
}

/// Whether all volumes of a pod are mounted, and why not.
pub(crate) fn mounted_condition(pod: &view::Pod) -> Option<&view::Condition> {
    pod.status.conditions.iter().find(|it| it.kind == "VolumesMounted")
}

/// Whether all volumes of a pod are mounted.
pub(crate) fn is_mounted(pod: &view::Pod) -> bool {
    mounted_condition(pod).is_some_and(|it| it.status == ConditionStatus::True)
}

/// How a pod stands in a word: of one that is to have its volumes, the deepest reason why it has not; of one that is
/// not, how far its life has gone, and what keeps it here if something does.
pub(crate) fn pod_status(pod: &view::Pod) -> Cell {
    let reason = mounted_condition(pod).map_or("Unknown", |it| it.reason.as_str());
    let phase = match pod.status.phase {
        PodPhase::Wanted => return Cell::state(reason),
        PodPhase::Found => "Found",
        PodPhase::Ending => "Ending",
        PodPhase::Finished => "Finished",
        PodPhase::Leaving => "Leaving",
    };
    let deepest = pod.status.volumes.iter().filter_map(|it| it.reasons.last());
    match deepest.map(|it| it.code.as_str()).find(|it| Tone::of(it) == Tone::Bad) {
        Some(stuck) => Cell::toned(format!("{phase}:{stuck}"), Tone::Bad),
        None => Cell::toned(phase, Tone::Waiting),
    }
}

/// How a volume stands in a pod in a word: the deepest reason if it is not settled.
pub(crate) fn mount_status(mount: &view::MountStatus) -> &str {
    match mount.reasons.last() {
        Some(deepest) if !mount.mounted => &deepest.code,
        _ => &mount.state,
    }
}

pub(crate) fn unknown() -> String {
    "<unknown>".into()
}

impl Listed for view::Mount {
    const KIND: &str = "Mount";
    const PLURAL: &str = "mounts";
    const NAMESPACED: bool = true;
    const HEADINGS: &[&'static str] = &["POD", "VOLUME", "TYPE", "STATUS", "AGE"];
    const WIDE: &[&'static str] = &["PATH", "MESSAGE"];

    fn metadata(&self) -> &Metadata {
        &self.metadata
    }

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
            if scene.gone { Cell::toned("Unmounted", Tone::Plain) } else { Cell::state(mount_status(mount)) },
            age(mount.since, scene.now).into(),
            mount.path.as_deref().filter(|_| !scene.gone).unwrap_or("<none>").into(),
            message.into(),
        ]
    }
}

impl Listed for view::Volume {
    const KIND: &str = "Volume";
    const PLURAL: &str = "volumes";
    const NAMESPACED: bool = false;
    const HEADINGS: &[&'static str] = &["NAME", "TYPE", "STAGED", "IN-USE", "PODS"];
    const WIDE: &[&'static str] = &["ATTACHED", "SIZE", "MESSAGE"];

    fn metadata(&self) -> &Metadata {
        &self.metadata
    }

    fn row(&self, scene: &Scene<'_>) -> Vec<Cell> {
        let volume = &self.status;
        let step = |it: &str| {
            let tone = match it {
                "Held" => Tone::Good,
                "Absent" => Tone::Plain,
                _ => Tone::Waiting,
            };
            Cell::toned(it, tone)
        };
        vec![
            self.metadata.name.as_str().into(),
            short(&volume.plugin).into(),
            if scene.gone { "Absent".into() } else { step(&volume.staged) },
            (volume.in_use && !scene.gone).to_string().into(),
            if scene.gone { "0".into() } else { volume.pods.len().to_string().into() },
            if scene.gone { "Absent".into() } else { step(&volume.attached) },
            volume.size_bytes.map_or_else(|| "<none>".into(), size).into(),
            volume.reasons.last().map_or("", |it| it.message.as_str()).into(),
        ]
    }
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
    const KIND: &str = "Driver";
    const PLURAL: &str = "drivers";
    const NAMESPACED: bool = false;
    const HEADINGS: &[&'static str] = &["NAME", "STATUS", "VOLUMES", "NODE ID", "AGE"];
    const WIDE: &[&'static str] = &["LIMIT", "CAPABILITIES", "ENDPOINT", "CONTROLLER"];

    fn metadata(&self) -> &Metadata {
        &self.metadata
    }

    fn row(&self, scene: &Scene<'_>) -> Vec<Cell> {
        let driver = &self.status;
        let status = match driver.registered && !scene.gone {
            true => Cell::toned("Registered", Tone::Good),
            false => Cell::toned("Missing", Tone::Bad),
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
    const KIND: &str = "Operation";
    const PLURAL: &str = "operations";
    const NAMESPACED: bool = false;
    const HEADINGS: &[&'static str] = &["ID", "OPERATION", "STATUS", "VOLUME", "POD", "AGE"];
    const WIDE: &[&'static str] = &["UID"];

    fn metadata(&self) -> &Metadata {
        &self.metadata
    }

    fn pod_uid(&self) -> Option<&str> {
        self.status.pod_uid.as_deref()
    }

    /// By age, which their numbers tell.
    fn sort(items: &mut [Self]) {
        items.sort_by_key(|it| it.status.since);
    }

    fn row(&self, scene: &Scene<'_>) -> Vec<Cell> {
        let operation = &self.status;
        let status = match (scene.gone, operation.hung) {
            (true, _) => Cell::toned("Ended", Tone::Plain),
            (false, true) => Cell::toned("Hung", Tone::Bad),
            (false, false) => Cell::toned("Running", Tone::Waiting),
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
    const KIND: &str = "Event";
    const PLURAL: &str = "events";
    const NAMESPACED: bool = true;
    const HEADINGS: &[&'static str] = &["LAST SEEN", "TYPE", "REASON", "OBJECT", "MESSAGE"];
    const WIDE: &[&'static str] = &["COUNT", "FIRST SEEN", "NAME"];

    fn metadata(&self) -> &Metadata {
        &self.metadata
    }

    /// By its own name, or by its pod's.
    fn is_called(&self, name: &str) -> bool {
        self.metadata.name == name || self.status.pod == name
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
            format!("pod/{}", event.pod).into(),
            event.message.as_str().into(),
            event.count.to_string().into(),
            first.into(),
            self.metadata.name.as_str().into(),
        ]
    }
}

impl Listed for view::Node {
    const KIND: &str = "Node";
    const PLURAL: &str = "node";
    const NAMESPACED: bool = false;
    const HEADINGS: &[&'static str] = &["NAME", "STATUS", "PODS", "VOLUMES", "VERSION", "AGE"];
    const WIDE: &[&'static str] = &["ROOT", "MANIFESTS", "PROCESS"];

    fn metadata(&self) -> &Metadata {
        &self.metadata
    }

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
        let now = "2026-01-01T00:00:00Z";
        serde_json::from_value(serde_json::json!({
            "apiVersion": view::API_VERSION, "kind": "Pod",
            "metadata": {"namespace": "default", "name": "web", "uid": "1"},
            "status": {
                "phase": phase,
                "conditions": [{"type": "VolumesMounted", "status": "False", "reason": reason, "message": "", "lastTransitionTime": now}],
                "volumes": [{
                    "pod": "web", "podUid": "1", "volume": "data", "state": "Publishing", "since": now, "mounted": false,
                    "reasons": [{"code": deepest, "message": "", "remedy": "", "since": now}],
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
