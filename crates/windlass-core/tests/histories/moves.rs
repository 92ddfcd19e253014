//! What can happen in a history, small enough for failures to shrink well.

use proptest::collection::vec;
use proptest::prelude::*;

pub(crate) const PODS: usize = 4;
pub(crate) const VOLUMES: usize = 9;

#[derive(Clone, Debug)]
pub(crate) enum Move {
    /// A pod that names the volumes whose bits are set, in this phase (0 running, 1 stopping, 2 finished).
    Apply {
        pod: usize,
        volumes: u16,
        phase: u8,
        revision: u64,
        unknown: bool,
    },
    /// A pod is gone.
    Gone {
        pod: usize,
        may_run: bool,
    },
    /// An older version of a pod, or the same pod from another source, or a pod without a name.
    OddPod {
        pod: usize,
        kind: u8,
    },
    SourceComplete,
    SourceLost,
    DiskRead,
    AttachmentsComplete,
    Driver {
        up: bool,
    },
    Object,
    /// 0 attached, 1 detached, 2 failed.
    Attachment {
        volume: usize,
        kind: u8,
    },
    Report,
    /// What is mounted at a place changed; to nothing unless it was replaced.
    Mount {
        volume: usize,
        pod: Option<usize>,
        replaced: bool,
    },
    /// Something was found on disk: 0 published, 1 staged, 2 attached, 3 unreadable, 4 only a pod's directory.
    Found {
        volume: usize,
        pod: usize,
        kind: u8,
        proven: bool,
    },
    /// One of the running operations ends: 0 done, 1 refused, 2 unknown, 3 refused for want of an object, 4 nonsense.
    End {
        which: usize,
        how: u8,
    },
    /// An operation that never was ends.
    EndOfNothing,
    /// An operation waits for its turn, is held back, or begins.
    Turn {
        which: usize,
        kind: u8,
    },
    /// What failed of a volume is to be tried at once.
    Retry {
        volume: usize,
        pod: Option<usize>,
    },
    Wait {
        pod: usize,
        goal: u8,
        seconds: u64,
    },
    Resize {
        volume: usize,
        size: u64,
    },
    Advance {
        seconds: u64,
    },
}

pub(crate) fn moves() -> impl Strategy<Value = Vec<Move>> {
    vec(one(), 1..60)
}

fn one() -> impl Strategy<Value = Move> {
    let pod = 0..PODS;
    let volume = 0..VOLUMES;
    let phase = prop_oneof![6 => Just(0u8), 1 => Just(1), 1 => Just(2)];
    let how = prop_oneof![8 => Just(0u8), 2 => Just(1), 2 => Just(2), 1 => Just(3), 1 => Just(4)];
    prop_oneof![
        8 => (pod.clone(), 0u16..1 << VOLUMES, phase, 0u64..3, prop::bool::weighted(0.1))
            .prop_map(|(pod, volumes, phase, revision, unknown)| Move::Apply { pod, volumes, phase, revision, unknown }),
        3 => (pod.clone(), prop::bool::weighted(0.2)).prop_map(|(pod, may_run)| Move::Gone { pod, may_run }),
        1 => (pod.clone(), 0u8..3).prop_map(|(pod, kind)| Move::OddPod { pod, kind }),
        2 => Just(Move::SourceComplete),
        1 => Just(Move::SourceLost),
        2 => Just(Move::DiskRead),
        2 => Just(Move::AttachmentsComplete),
        2 => prop::bool::weighted(0.7).prop_map(|up| Move::Driver { up }),
        1 => Just(Move::Object),
        3 => (volume.clone(), prop_oneof![4 => Just(0u8), 1 => Just(1), 1 => Just(2)])
            .prop_map(|(volume, kind)| Move::Attachment { volume, kind }),
        3 => Just(Move::Report),
        1 => (volume.clone(), prop::option::of(pod.clone()), any::<bool>())
            .prop_map(|(volume, pod, replaced)| Move::Mount { volume, pod, replaced }),
        1 => (volume.clone(), pod.clone(), 0u8..5, any::<bool>())
            .prop_map(|(volume, pod, kind, proven)| Move::Found { volume, pod, kind, proven }),
        24 => (any::<usize>(), how).prop_map(|(which, how)| Move::End { which, how }),
        1 => Just(Move::EndOfNothing),
        4 => (any::<usize>(), 0u8..4).prop_map(|(which, kind)| Move::Turn { which, kind }),
        1 => (volume.clone(), prop::option::of(pod.clone())).prop_map(|(volume, pod)| Move::Retry { volume, pod }),
        2 => (pod, 0u8..4, 1u64..600).prop_map(|(pod, goal, seconds)| Move::Wait { pod, goal, seconds }),
        1 => (volume, 5u64..40).prop_map(|(volume, size)| Move::Resize { volume, size }),
        5 => prop_oneof![4 => 0u64..5, 1 => 5u64..300].prop_map(|seconds| Move::Advance { seconds }),
    ]
}
