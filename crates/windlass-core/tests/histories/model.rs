//! What a history has been told and what follows from it, kept in the simplest way that can be checked against.

use std::collections::{BTreeMap, BTreeSet};
use windlass_core::event::MountPlace;
use windlass_core::expand::Size;
use windlass_core::ids::{OperationId, Time, VolumeId};
use windlass_core::label::Wish;
use windlass_core::operation::{Action, Operation, OperationKind, Proof};
use windlass_core::spec::{Attach, Capabilities, Concurrency, Identity, Mode, Phase, Refresh, Sharing, VolumeSpec};

/// The volumes of every history: one of each interesting kind.
pub(crate) fn catalogue() -> Vec<VolumeSpec> {
    let shared = Capabilities { identity: Identity::Shared, ..Capabilities::default() };
    let spec = |name: &str, capabilities| VolumeSpec {
        id: VolumeId::from(name),
        plugin: "test/plugin".into(),
        driver: None,
        inner_name: name.into(),
        capabilities,
        mode: Mode::Filesystem,
        sharing: Sharing::Shared,
        group: Some("7".into()),
        size: Size::default(),
    };
    let driver = Some("driver".into());
    let minute = std::time::Duration::from_secs(60);
    let staged = Capabilities { stage: true, ..shared.clone() };
    let attached = Capabilities { attach: Attach::ByController, ..staged.clone() };
    let releases = Concurrency::ReleasesOverlap;
    let pods = Concurrency::PodsOverlap;
    let overlapping = Capabilities { expand: true, concurrency: pods, ..staged.clone() };
    let size = Size { wanted_bytes: Some(10), recorded_bytes: Some(10) };
    vec![
        spec("own", Capabilities { refresh: Refresh::OnChange, ..Capabilities::default() }),
        VolumeSpec { driver: driver.clone(), ..spec("attached", attached.clone()) },
        VolumeSpec {
            sharing: Sharing::OnePod,
            ..spec("one-pod", Capabilities { concurrency: releases, ..staged.clone() })
        },
        VolumeSpec { size, ..spec("growing", overlapping) },
        spec("by-node", Capabilities { attach: Attach::ByNode, refresh: Refresh::Every(minute), ..staged.clone() }),
        VolumeSpec {
            driver,
            ..spec("unstaged", Capabilities { concurrency: pods, refresh: Refresh::OnChange, ..shared })
        },
        spec("attached-unstaged", Capabilities { stage: false, ..attached }),
        spec("labelled", staged.clone()),
        VolumeSpec { inner_name: "labelled".into(), ..spec("same-place", staged) },
    ]
}

/// The label that a pod asks for: only one volume has labels, and two kinds of pods use it.
pub(crate) fn wish(volume: &VolumeId, pod: usize) -> Wish {
    if volume.as_str() == "labelled" {
        Wish { original: Some(if pod.is_multiple_of(2) { "even".into() } else { "odd".into() }), enforced: true }
    } else {
        Wish::default()
    }
}

/// What was last told of a pod.
#[derive(Clone, Debug)]
pub(crate) struct ToldPod {
    pub(crate) phase: Phase,
    pub(crate) volumes: BTreeSet<VolumeId>,
    pub(crate) unknown: bool,
    pub(crate) confirmed: u64,
    /// Its source no longer has it but its containers may run.
    pub(crate) leaving: bool,
}

/// What a place may hold, by what was asked for and answered.
#[derive(Clone, Debug, Default)]
pub(crate) struct Places {
    /// Something may be here.
    pub(crate) maybe: BTreeSet<MountPlace>,
    /// What a record would say: the proof, or only the intent.
    pub(crate) records: BTreeMap<MountPlace, Option<(Proof, u64)>>,
    /// Attachments by this node: with device, or only the intent.
    pub(crate) attached: BTreeMap<VolumeId, bool>,
}

/// An operation that was given out.
#[derive(Clone, Debug)]
pub(crate) struct Given {
    pub(crate) operation: Operation,
    /// Whether something may have been at its place before it began.
    pub(crate) before: bool,
    pub(crate) turn: Turn,
}

/// Whether an operation that was given out has begun.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Turn {
    Queued,
    Blocked,
    Runs { until: Time },
}

pub(crate) fn place(operation: &Operation) -> Option<MountPlace> {
    let volume = operation.volume().clone();
    match &operation.action {
        Action::Stage { .. } | Action::Unstage => Some(MountPlace::Stage(volume)),
        Action::Publish { pod, .. } | Action::Unpublish { pod, .. } => Some(MountPlace::Publish(volume, pod.clone())),
        Action::Attach | Action::Detach | Action::Expand { .. } => None,
    }
}

/// I-2: may this operation begin while those run?
pub(crate) fn may_overlap(new: &Operation, running: &BTreeMap<OperationId, Given>) -> bool {
    running.values().map(|it| &it.operation).filter(|it| it.volume() == new.volume()).all(|old| {
        let (Some(mine), Some(other)) = (new.action.pod(), old.action.pod()) else {
            return false;
        };
        let releases = [new.action.kind(), old.action.kind()].iter().all(|it| *it == OperationKind::Unpublish);
        mine != other
            && match new.spec.capabilities.concurrency {
                Concurrency::Alone => false,
                Concurrency::ReleasesOverlap => releases,
                Concurrency::PodsOverlap => true,
            }
    })
}
