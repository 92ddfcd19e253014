//! Why a volume is not settled (I-7): data with a stable code, the same wherever it is shown.

use crate::ids::{DriverName, ObjectName, OperationId, PodUid, SourceName, Time, VolumeId};
use alloc::string::String;
use core::fmt;

/// One link of the chain that leads from "this volume is not settled" to the deepest cause known.
#[derive(Clone, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Reason {
    /// What kind of reason.
    pub code: Code,
    /// The reason in words.
    pub text: String,
    /// Since when it holds.
    pub since: Time,
    /// How many times in a row the operation it is about failed.
    pub attempts: u32,
    /// When it is tried next, if that is a matter of time.
    pub next_try: Option<Time>,
    /// When what is here is taken away if nothing happens before.
    pub goes_at: Option<Time>,
    /// What has to happen.
    pub waits_on: WaitsOn,
}

/// What has to happen for a reason to go away.
#[derive(Clone, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub enum WaitsOn {
    /// Nothing: this is not a wait, or only a person can end it.
    Nothing,
    /// The time of the next try must come.
    Time,
    /// An operation must end.
    Operation(OperationId),
    /// A driver must register.
    Driver(DriverName),
    /// An object must appear or change.
    Object(ObjectName),
    /// The attacher must attach the volume.
    Attacher,
    /// The set of volumes in use must be reported.
    Report,
    /// Another pod must let go.
    Pod(PodUid),
    /// Another volume must go from the same place.
    Volume(VolumeId),
    /// A source must be complete.
    Source(SourceName),
    /// The disk must have been read.
    Disk,
}

/// How much a state needs somebody's attention, from none to most. The one classification of codes: colors, the log and the
/// API follow it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Urgency {
    /// It is as it should be.
    Settled,
    /// It is being done, or its turn comes by itself.
    Working,
    /// It waits for something that has to happen first, and that is nobody's fault.
    Waiting,
    /// It fails, or needs a person.
    Trouble,
}

impl Urgency {
    /// All of them, from none to most.
    pub const ALL: &[Self] = &[Self::Settled, Self::Working, Self::Waiting, Self::Trouble];

    /// The stable name.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Settled => "Settled",
            Self::Working => "Working",
            Self::Waiting => "Waiting",
            Self::Trouble => "Trouble",
        }
    }
}

impl Code {
    /// How much it needs somebody's attention.
    pub fn urgency(self) -> Urgency {
        match self {
            Self::Mounted | Self::Idle => Urgency::Settled,
            Self::Attaching
            | Self::Staging
            | Self::Publishing
            | Self::Refreshing
            | Self::Expanding
            | Self::Unpublishing
            | Self::Unstaging
            | Self::Detaching
            | Self::Queued
            | Self::VolumeBusy
            | Self::NotStaged
            | Self::NotAttached
            | Self::DiskNotRead
            | Self::SourceIncomplete
            | Self::AttachmentsUnknown
            | Self::StillInPods
            | Self::NotReported => Urgency::Working,
            Self::WaitingForAttacher
            | Self::OtherPod
            | Self::LabelMismatch
            | Self::NotInManifests
            | Self::PodStopping
            | Self::Uncertain
            | Self::WaitsForFirstPod
            | Self::Provisioning
            | Self::DeletePending
            | Self::DeletingVolume
            | Self::Resizing
            | Self::ExpansionPending => Urgency::Waiting,
            Self::Hung
            | Self::BackingOff
            | Self::Failed
            | Self::ObjectMissing
            | Self::DriverMissing
            | Self::DriverUnreachable
            | Self::NoSpace
            | Self::ReadOnlyFileSystem
            | Self::HeldOpen
            | Self::FileSystemBroken
            | Self::NotPermitted
            | Self::HostPathUnusable
            | Self::InTheWay
            | Self::TokenMissing
            | Self::AbilityMissing
            | Self::InputInvalid
            | Self::DriverLied
            | Self::AttachFailed
            | Self::AttachLimit
            | Self::AttachmentLost
            | Self::LabelConflict
            | Self::IdentityChanged
            | Self::LookupFailed
            | Self::ClassMissing
            | Self::ControllerMissing
            | Self::ProvisioningFailed
            | Self::DeletionFailed
            | Self::VolumeKept
            | Self::ResizeFailed
            | Self::Invalid
            | Self::OtherNode
            | Self::ManifestConflict
            | Self::MountVanished
            | Self::MountReplaced
            | Self::ContentLost => Urgency::Trouble,
        }
    }
}

macro_rules! codes {
    ($($(#[$doc:meta])* $code:ident = $text:literal, $remedy:literal;)*) => {
        /// How a volume, or a pod's mount of it, stands. The texts of [`Code::as_str`] are stable.
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
        #[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
        pub enum Code {
            $($(#[$doc])* $code,)*
        }

        impl Code {
            /// All codes, in the order in which they are documented.
            pub const ALL: &[Self] = &[$(Self::$code),*];

            /// The stable name.
            pub fn as_str(self) -> &'static str {
                match self {
                    $(Self::$code => stringify!($code),)*
                }
            }

            /// What it means, in one sentence.
            pub fn meaning(self) -> &'static str {
                match self {
                    $(Self::$code => $text,)*
                }
            }

            /// What a person can do about it.
            pub fn remedy(self) -> &'static str {
                match self {
                    $(Self::$code => $remedy,)*
                }
            }
        }
    };
}

codes! {
    /// Settled.
    Mounted = "The volume is mounted in the pod, or ready on the node.", "Nothing to do.";
    /// Settled.
    Idle = "Nothing of the volume is here and nothing is wanted.", "Nothing to do.";

    /// An operation runs.
    Attaching = "The volume is being attached.", "Wait; see the operation's age.";
    /// An operation runs.
    Staging = "The volume is being made ready for this node.", "Wait; see the operation's age.";
    /// An operation runs.
    Publishing = "The volume is being mounted into the pod.", "Wait; see the operation's age.";
    /// An operation runs.
    Refreshing = "The volume's content is being brought up to date; the pod keeps what it has.", "Wait; see the operation's age.";
    /// An operation runs.
    Expanding = "The volume is being grown.", "Wait; see the operation's age.";
    /// An operation runs.
    Unpublishing = "The volume is being taken from the pod.", "Wait; see the operation's age.";
    /// An operation runs.
    Unstaging = "The volume is being taken from this node.", "Wait; see the operation's age.";
    /// An operation runs.
    Detaching = "The volume is being detached.", "Wait; see the operation's age.";
    /// An operation has not begun.
    Queued = "An operation waits for its turn: others of its kind are at work, and only so many are at a time.", "Wait; see the operations that run before it, and what they wait for if they hang.";
    /// An operation runs too long.
    Hung = "An operation did not answer in its time; its result is still awaited.", "Look at the driver or the file system that it waits for; everything else goes on.";

    /// An operation failed.
    BackingOff = "An operation failed and is tried again later.", "See the failure that follows; it is tried again by itself.";
    /// An operation failed; the deepest cause known.
    Failed = "This is what the last attempt said.", "Act on the message.";
    /// An operation failed for want of an object.
    ObjectMissing = "An object that the volume needs is missing, cannot be read, or lacks what the volume needs of it.", "Create or correct the object that the message names; the volume is retried at once.";
    /// An operation cannot start, or failed, for want of a driver.
    DriverMissing = "The volume's driver is not registered on this node.", "Start the driver; the volume is retried as soon as it registers.";
    /// A call did not reach the driver.
    DriverUnreachable = "The volume's driver is registered but did not take the call.", "Look at the driver; the volume is tried again, and at once when the driver registers anew.";
    /// An operation failed for want of room.
    NoSpace = "The file system that would have to be written is full, or a quota is used up.", "Free space on it, or raise the quota.";
    /// An operation failed for want of a file system that can be written.
    ReadOnlyFileSystem = "The file system that would have to be written can only be read.", "Find out why, often an error of its disk, and make it writable.";
    /// An operation failed because of somebody who does not let go.
    HeldOpen = "Something holds the mount or the directory open.", "End the processes that have files open there or stand in it.";
    /// An operation failed on a file system that does not work.
    FileSystemBroken = "A file system is disconnected or damaged.", "Look at its server, its driver or its disk; pods that use it may see errors.";
    /// An operation failed for want of a privilege.
    NotPermitted = "windlass is not permitted to do what the volume needs.", "Give windlass the privilege, or the rights on the path, that the message names.";
    /// An operation failed because of a path that the pod or volume names.
    HostPathUnusable = "The path on this node that the volume is made from is missing or of the wrong type.", "Make the path, or correct the path or its type in the pod or the volume.";
    /// An operation failed because it would destroy what is not ours.
    InTheWay = "Something that windlass did not make is where the volume belongs; it is left alone.", "Move away what the message names.";
    /// An operation failed for want of a token.
    TokenMissing = "The volume needs a token for the pod's service account, and there is none.", "Give windlass a provider of tokens (token-command or token-key), or act on what the provider says.";
    /// An operation failed for want of something on the node.
    AbilityMissing = "This node lacks a program, or an ability of its kernel, that the volume needs.", "Install the program, or load the kernel module, that the message names.";
    /// An operation failed because of something as it is written.
    InputInvalid = "A name, key, path or option that the volume is made from cannot be used.", "Correct the pod, or the object that the message names.";
    /// An operation failed because a driver's word was not true.
    DriverLied = "A driver said that something was done, and it was not, or its answer makes no sense.", "Look at the driver's log and version; what it left is undone as far as it lets us. If something is mounted at the path that the message names, unmount it: the volume is tried again at once.";

    /// A stage or publish waits for the volume's earlier step.
    NotAttached = "The pod's mount waits until the volume is attached.", "See the reason that follows.";
    /// A publish waits for stage.
    NotStaged = "The pod's mount waits until the volume is ready on this node.", "See the reason that follows.";
    /// One volume's operations wait for each other.
    VolumeBusy = "Another operation of the same volume is running.", "Wait; see the reason that follows.";
    /// Attach waits for the report.
    NotReported = "The volume is not yet reported as in use, so its attachment cannot be relied on.", "See whether the node's status can be written.";
    /// Attach waits for the controller.
    WaitingForAttacher = "The attacher has not attached the volume to this node.", "Look at the attacher and at the volume's attachment.";
    /// The controller failed.
    AttachFailed = "The attacher could not attach the volume.", "Act on the attacher's message.";
    /// The controller failed for want of room.
    AttachLimit = "The node can take no more volumes of this kind.", "Move a pod to another node.";
    /// Detached behind our back.
    AttachmentLost = "The attacher says that the volume is detached although it is in use here.", "Look at the attacher; the pod may see errors.";

    /// `ReadWriteOncePod`.
    OtherPod = "The volume may be in one pod at a time and another pod has it.", "End the other pod, or wait until it has gone.";
    /// Unstage and detach wait for the pods.
    StillInPods = "The volume is, or may be, still in a pod, and is taken from this node after that.", "See the reasons of the pod's mount.";
    /// Two pods, two labels, at the same time.
    LabelConflict = "Pods that use the volume at the same time ask for different SELinux labels.", "Give the pods the same label.";
    /// Two pods, two labels, one after the other.
    LabelMismatch = "The volume is still mounted with another SELinux label.", "Wait until the pods that use it have gone.";
    /// One pod, two volumes, one place.
    IdentityChanged = "The pod has another volume at this place, which stays while the pod is here.", "Recreate the pod to give it the new volume.";

    /// The want is not known.
    LookupFailed = "What the volume is could not be found out; what is there stays.", "Create or correct the object that the message names; the volume is looked up again at once.";
    /// A claim waits.
    ClassMissing = "The claim's storage class is missing, or the claim names none and none is the default.", "Create the StorageClass that the message names, or write a PersistentVolume and name it in the claim's spec.volumeName.";
    /// A claim waits.
    ControllerMissing = "Nobody is set who would make the claim's volume.", "Start windlass with --controller DRIVER=SOCKET (in the configuration: drivers, controller), or write a PersistentVolume and name it in the claim's spec.volumeName.";
    /// A claim waits.
    WaitsForFirstPod = "The claim's volume is made for the first pod that uses it (volumeBindingMode: WaitForFirstConsumer).", "Start a pod that uses the claim.";
    /// A driver is asked for a volume.
    Provisioning = "The driver is asked to make the claim's volume.", "Wait; see the driver's log if it takes long.";
    /// A driver made no volume.
    ProvisioningFailed = "The driver did not make the claim's volume; it is asked again later.", "Act on the message; it is tried again by itself, and at once when the driver registers anew.";
    /// A claim is gone.
    DeletePending = "The claim is gone, and its volume is deleted when the time has come.", "Put the claim back to keep the volume; to delete it now: windlass delete claim NAMESPACE/NAME.";
    /// A driver is asked to delete a volume.
    DeletingVolume = "The driver is asked to delete the volume of a claim that is gone.", "Wait; a claim of this name gets a new volume after that.";
    /// A driver did not delete a volume.
    DeletionFailed = "The driver did not delete the volume of a claim that is gone; it is asked again later.", "Act on the message; it is tried again by itself, and at once with: windlass retry claim/NAMESPACE/NAME. To keep the volume, put the claim back; that helps as long as the driver was not asked.";
    /// A volume of before is nobody's.
    VolumeKept = "The volume was made for a claim that is not there, and is kept.", "Put the claim back to use the volume; the message says how to let go of it.";
    /// A driver is asked for more.
    Resizing = "The driver is asked to make the claim's volume larger.", "Wait; see the driver's log if it takes long.";
    /// A driver gave no more.
    ResizeFailed = "The claim's volume did not grow; it is used as it is.", "Act on the message; what can be tried again is tried again by itself.";
    /// The want makes no sense.
    Invalid = "The pod's volume cannot be what the pod says.", "Correct the pod or its claim.";
    /// The want is not known.
    SourceIncomplete = "A source of pods has not told all it has, so nothing is taken away.", "See whether the source can be read.";
    /// The want is not known.
    NotInManifests = "It is on this node's disk and no manifest in force names it, which may be an accident; it stays for a while.", "To keep it, put its manifest back. To be rid of it at once, run `windlass delete pod NAME`, with `--orphaned-volumes` if a manifest names the pod.";
    /// The want is not known.
    OtherNode = "The manifest of the pod is for another node, and the pod is here; it stays for a while.", "To keep it, start windlass with the node name that the manifest has (--node-name), or correct spec.nodeName. To be rid of it at once, run `windlass delete pod`.";
    /// The want is not known.
    ManifestConflict = "A manifest names the pod, but another of the same name is in force in its place; what is there stays.", "Remove all but one of the manifests that the message names. To be rid of it at once, run `windlass delete pod`.";
    /// The want is not known.
    DiskNotRead = "What is on this node's disk has not been read to the end, so nothing is taken away, nor given to one pod alone.", "Wait; see whether the disk can be read.";
    /// What is here is not known.
    AttachmentsUnknown = "The attacher has not told what is attached, so nothing is taken away.", "See whether the attacher's objects can be read.";
    /// The want is not known.
    PodStopping = "The pod is gone but its containers may still run, so it keeps what it has.", "End its containers.";

    /// What is here is not known.
    Uncertain = "Whether the volume is mounted is not certain.", "See the reason that follows; it is verified or undone by itself.";
    /// It was taken behind our back.
    MountVanished = "The mount was taken away by somebody else.", "Find out who; it is mounted again by itself.";
    /// It was changed behind our back.
    MountReplaced = "Something else is mounted in the place of the volume.", "Find out who mounted it, and unmount it.";
    /// It was taken behind our back, with what was in it.
    ContentLost = "What the pod had in this scratch volume is lost, or a part of it: somebody unmounted or removed it, or the pod came back while it was being removed.", "Find out who did it; restart the pod's containers, which may still have the old one, and recreate the pod to end this notice.";
    /// Growing.
    ExpansionPending = "The pod gets the volume once it has grown.", "See the reason that follows.";
}

impl fmt::Display for Code {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}
