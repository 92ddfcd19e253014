//! What the engine asks to be done, and how it can end.
//!
//! An operation is plain data: it can be logged, compared, replayed and shown. Every operation may safely run twice.
//!
//! What whoever runs operations owes the engine:
//!
//! 1. Each operation is answered with exactly one [`OperationEnded`](crate::Event::OperationEnded), however late.
//! 2. Before attach, stage or publish is called, a record of the intent is on disk; before unpublish, unstage or detach is
//!    called, the record no longer claims to be proof. After [`Done`] the record holds the proof, or is gone.
//! 3. [`Outcome::Refused`] only if this very call left nothing behind: the record and the directory that it made are gone
//!    too, older ones stay. In doubt it is [`Outcome::Unknown`].
//! 4. A mount counts as done only if it is seen in the mount table; a driver's word is not enough.
//! 5. What is [seen](crate::Event::MountSeen) at a place while an operation runs there is told after the operation's end.

use crate::ids::{ObjectName, OperationId, PodUid, Time, VolumeId};
use crate::reason::Code;
use crate::spec::{Access, VolumeSpec};
use alloc::sync::Arc;
use core::fmt;

/// One unit of work.
#[derive(Clone, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Operation {
    /// Quoted by its result, so that a late result is recognised.
    pub id: OperationId,
    /// The volume it is about.
    pub spec: Arc<VolumeSpec>,
    /// What to do.
    pub action: Action,
    /// How many times in a row this failed before.
    pub failures: u32,
    /// When it counts as hung if it begins at once; if it has to [wait](crate::Event::OperationQueued), that much later.
    /// Its result is wanted nevertheless.
    pub deadline: Time,
}

impl Operation {
    /// The volume's identity.
    pub fn volume(&self) -> &VolumeId {
        &self.spec.id
    }
}

/// What to do with a volume. The verbs are CSI's, for every plugin.
#[derive(Clone, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub enum Action {
    /// Attach the volume to this node.
    Attach,
    /// Make it ready once for this node.
    Stage {
        /// Was there an earlier attempt whose end is not known?
        after: Earlier,
        /// The SELinux label to mount it with.
        label: Option<Arc<str>>,
    },
    /// Give it to a pod.
    Publish {
        /// The pod.
        pod: PodUid,
        /// First time, again, or while the pod has it?
        after: Earlier,
        /// Whether the pod may write.
        access: Access,
        /// The content it is published with.
        revision: u64,
        /// The SELinux label to mount it with.
        label: Option<Arc<str>>,
    },
    /// Grow it while a pod has it.
    Expand {
        /// A pod that has it, through whose mount it is grown.
        pod: PodUid,
        /// The size it has.
        from_bytes: u64,
        /// The size it shall have.
        to_bytes: u64,
    },
    /// Take it from a pod.
    Unpublish {
        /// The pod.
        pod: PodUid,
        /// Because the pod itself has gone. Whoever writes down that this begins writes that down too: a start that finds no
        /// trace of the pod in any source can then tell that it has not just been overlooked (I-1, I-11).
        with_pod: bool,
    },
    /// Undo stage.
    Unstage,
    /// Undo attach.
    Detach,
}

impl Action {
    /// Which action it is, without its arguments.
    pub fn kind(&self) -> OperationKind {
        match self {
            Self::Attach => OperationKind::Attach,
            Self::Stage { .. } => OperationKind::Stage,
            Self::Publish { .. } => OperationKind::Publish,
            Self::Expand { .. } => OperationKind::Expand,
            Self::Unpublish { .. } => OperationKind::Unpublish,
            Self::Unstage => OperationKind::Unstage,
            Self::Detach => OperationKind::Detach,
        }
    }

    /// The pod it is for, if it is for one.
    pub fn pod(&self) -> Option<&PodUid> {
        match self {
            Self::Publish { pod, .. } | Self::Unpublish { pod, .. } => Some(pod),
            Self::Attach | Self::Stage { .. } | Self::Expand { .. } | Self::Unstage | Self::Detach => None,
        }
    }
}

/// The name of an action.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum OperationKind {
    /// [`Action::Attach`]
    Attach,
    /// [`Action::Stage`]
    Stage,
    /// [`Action::Publish`]
    Publish,
    /// [`Action::Expand`]
    Expand,
    /// [`Action::Unpublish`]
    Unpublish,
    /// [`Action::Unstage`]
    Unstage,
    /// [`Action::Detach`]
    Detach,
}

impl fmt::Display for OperationKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Attach => "attach",
            Self::Stage => "stage",
            Self::Publish => "publish",
            Self::Expand => "expand",
            Self::Unpublish => "unpublish",
            Self::Unstage => "unstage",
            Self::Detach => "detach",
        })
    }
}

/// What came before a stage or publish. A plugin that fails may clean up after itself only after `Nothing` (E-198, E-256).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub enum Earlier {
    /// Nothing: there should be nothing here yet.
    Nothing,
    /// An attempt whose end is not known, in this life of the process or an earlier one.
    Unknown,
    /// A success: it is there and in use, and is only brought up to date.
    Success,
}

/// How an operation ended. There is no fourth way (I-10).
#[derive(Clone, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub enum Outcome {
    /// It did what it should.
    Done(Done),
    /// It failed and this call left nothing behind.
    Refused(Trouble),
    /// Whether it did anything, and what, is not known.
    Unknown(Trouble),
}

/// What a finished operation brought.
#[derive(Clone, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub enum Done {
    /// Unpublished, unstaged or detached.
    Gone,
    /// Attached, as this device if that is known.
    Attached {
        /// The path of the device, or whatever stands for it.
        device: Option<Arc<str>>,
    },
    /// Staged or published: this is the mount that was made.
    Mounted(Proof),
    /// Grown to this size.
    Expanded {
        /// The size it has now.
        size_bytes: u64,
    },
}

/// Why an operation failed.
#[derive(Clone, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Trouble {
    /// What kind of trouble, where that changes what the engine does or what it explains.
    pub cause: Cause,
    /// What happened, for people.
    pub text: Arc<str>,
}

/// The kinds of trouble that the engine tells apart.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub enum Cause {
    /// The driver is not there. It is tried again as soon as the driver registers.
    Driver,
    /// This object is missing. It is tried again as soon as the object changes.
    Object(ObjectName),
    /// Expand only: the volume cannot grow while it is in use (gRPC `FAILED_PRECONDITION`, E-286).
    InUse,
    /// Expand only: the volume can never have this size (E-286).
    Infeasible,
    /// Expand only: there is nothing to do on this node (E-288).
    NotSupported,
    /// Something on this node is in the way. It is treated as [`Cause::Other`] and explained by a code of its own.
    Node(Obstacle),
    /// Anything else.
    Other,
}

impl Cause {
    /// The code that explains a failure with this cause.
    pub fn code(&self) -> Code {
        match self {
            Self::Driver => Code::DriverUnreachable,
            Self::Object(_) => Code::ObjectMissing,
            Self::Node(obstacle) => obstacle.code(),
            Self::InUse | Self::Infeasible | Self::NotSupported | Self::Other => Code::Failed,
        }
    }
}

macro_rules! obstacles {
    ($($(#[$doc:meta])* $obstacle:ident;)*) => {
        /// What on this node can be in the way of an operation. Each has the [`Code`] of the same name, and the text of the
        /// [`Trouble`] names the path, the mount, the key or the program.
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
        #[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
        pub enum Obstacle {
            $($(#[$doc])* $obstacle,)*
        }

        impl Obstacle {
            /// All of them, in the order in which their codes are documented.
            pub const ALL: &[Self] = &[$(Self::$obstacle),*];

            /// The code that explains it.
            pub fn code(self) -> Code {
                match self {
                    $(Self::$obstacle => Code::$obstacle,)*
                }
            }
        }
    };
}

obstacles! {
    /// A file system is full, or a quota is used up (`ENOSPC`, `EDQUOT`).
    NoSpace;
    /// A file system that would have to be written can only be read (`EROFS`).
    ReadOnlyFileSystem;
    /// Something holds the mount or the directory open (`EBUSY`).
    HeldOpen;
    /// A file system is disconnected or damaged (`ENOTCONN`, `ESTALE`, `EIO`, `EHOSTDOWN` and their like, E-435).
    FileSystemBroken;
    /// windlass lacks a privilege, or rights on a path (`EPERM`, `EACCES`).
    NotPermitted;
    /// A path on this node that the volume is made from is missing or of the wrong type.
    HostPathUnusable;
    /// Something that windlass did not make, a file of a user or a foreign mount, is where the volume belongs (I-5).
    InTheWay;
    /// The volume needs a token, and nobody gives one.
    TokenMissing;
    /// A program, or an ability of the kernel, is missing.
    AbilityMissing;
    /// A name, key or path in the pod or in an object that it names cannot be used.
    InputInvalid;
    /// A driver said that something was done, and it was not, or its answer makes no sense.
    DriverLied;
}

/// What identifies a mount, so that it can be told from another one at the same place (I-4).
///
/// The engine only compares; the values are whatever the layer that reads the mount table says. For a volume that is a
/// plain directory it is the directory's own device and inode.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Proof {
    /// A number that no other mount of this boot has or had; zero where there is none.
    pub mount_id: u64,
    /// The file system's device.
    pub device: u64,
    /// What of the file system is mounted: a number made of the root's path or inode.
    pub root: u64,
    /// The type of the file system, as a number.
    pub kind: u64,
}

impl Proof {
    /// Is what is `seen` now the mount that this proof is of? Same mount id, or same device, root and type.
    pub fn holds_for(&self, seen: &Self) -> bool {
        (self.mount_id != 0 && self.mount_id == seen.mount_id)
            || (self.device, self.root, self.kind) == (seen.device, seen.root, seen.kind)
    }
}
