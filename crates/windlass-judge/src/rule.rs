//! The rules that an orchestrator is judged by, each with what the CSI specification says, in words of our own.

/// How binding a rule is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, serde::Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Level {
    /// The specification demands it, or drivers break without it.
    Must,
    /// The specification advises it, or good sense does.
    Should,
}

macro_rules! rules {
    ($($(#[$doc:meta])* $name:ident = $id:literal, $level:ident, $title:literal, $text:literal;)*) => {
        /// One rule.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum Rule {
            $(#[doc = $title] $name,)*
        }

        impl Rule {
            /// All of them, in the order in which they are shown.
            pub const ALL: &'static [Self] = &[$(Self::$name,)*];

            /// Its name, which stays the same.
            pub fn id(self) -> &'static str {
                match self { $(Self::$name => $id,)* }
            }

            /// How binding it is.
            pub fn level(self) -> Level {
                match self { $(Self::$name => Level::$level,)* }
            }

            /// What it is about, in a few words.
            pub fn title(self) -> &'static str {
                match self { $(Self::$name => $title,)* }
            }

            /// What the specification says.
            pub fn text(self) -> &'static str {
                match self { $(Self::$name => $text,)* }
            }
        }
    };
}

rules! {
    AskedFirst = "asked-first", Should, "the driver is asked who it is before it is given volumes",
        "A driver introduces itself at its registration socket (GetInfo); until then nobody can know that it is there.";
    Told = "told", Should, "the driver is told that it is registered",
        "Whoever asks a driver who it is tells it what came of that (NotifyRegistrationStatus); drivers wait for it, and end when they are refused.";
    CapabilitiesFirst = "capabilities-first", Should, "capabilities are asked for before they are used",
        "Staging, statistics and growth are optional. NodeGetCapabilities tells what there is, so it comes before the first of them.";
    RequiredFields = "required-fields", Must, "required fields are set",
        "The volume's id or its name, the path, and for calls that make something the capability with an access type and an access mode are required in every request that has them.";
    Sizes = "sizes", Must, "fields are not larger than allowed",
        "A text has at most 128 bytes, a map of texts at most 4 KiB, all mount flags together at most 4 KiB, a node's id at most 256 bytes. Paths may be as long as the system allows.";
    AbsolutePaths = "absolute-paths", Must, "paths are absolute",
        "The staging path, the target path and the volume path are absolute paths in the driver's root file system.";
    StagingDirectory = "staging-directory", Must, "the staging directory is there",
        "The orchestrator makes the staging directory before it calls NodeStageVolume, also for raw devices.";
    TargetParent = "target-parent", Must, "the parent of the target is there",
        "The orchestrator makes the parent directory of the target before it calls NodePublishVolume.";
    TargetFree = "target-free", Should, "the target is left to the driver",
        "What is at the target path is made by the driver, a directory or a device; the orchestrator makes only the parent.";
    OwnPlace = "own-place", Must, "no two volumes share a place",
        "Target paths and staging paths belong to one volume each.";
    OneStaging = "one-staging-path", Must, "a volume is staged in one place",
        "A volume has only one staging path on a node, from its first NodeStageVolume to the NodeUnstageVolume that succeeds.";
    StageFirst = "stage-first", Must, "a volume is staged before it is published",
        "With STAGE_UNSTAGE_VOLUME, NodePublishVolume comes only after NodeStageVolume has succeeded, and names the same staging path.";
    UnpublishFirst = "unpublish-first", Must, "a volume is unpublished everywhere before it is unstaged",
        "NodeUnstageVolume comes only after NodeUnpublishVolume has succeeded for every target of the volume on the node.";
    AttachFirst = "attach-first", Must, "a volume is attached before the node has it",
        "With PUBLISH_UNPUBLISH_VOLUME, NodeStageVolume and NodePublishVolume come only after ControllerPublishVolume has succeeded for the node.";
    DetachLast = "detach-last", Must, "a volume is detached after the node has let go of it",
        "ControllerUnpublishVolume comes only after every NodeUnstageVolume and NodeUnpublishVolume of the volume has succeeded on the node.";
    PublishContext = "publish-context", Must, "the publish context is handed over as it was given",
        "What ControllerPublishVolume returned is in every NodeStageVolume and NodePublishVolume, whole and unchanged; a driver that attaches nothing is given none.";
    NodeId = "node-id", Must, "volumes are attached to the node that the driver named",
        "The node of ControllerPublishVolume is the one that the driver gave as answer to NodeGetInfo.";
    VolumeContext = "volume-context", Must, "the volume context is the volume's",
        "The volume context is the same in all calls for a volume, and has in it what CreateVolume has answered. Keys below csi.storage.k8s.io/ are Kubernetes' own and may be added for a pod.";
    SameAgain = "same-again", Must, "a call that is repeated is the same call",
        "Calls may be repeated at any time while what they made is there. A repeated one has the same capability, read-only flag and names of secrets; with others it asks for something that cannot be.";
    Agreement = "agreement", Should, "staging and publishing agree",
        "A volume is published as what it was staged: a device or a directory, with the same file system and access mode.";
    KnownPlace = "known-place", Should, "only what was made is undone",
        "NodeUnpublishVolume and NodeUnstageVolume name a place for which the driver was asked before. They may be repeated; for a place that was never asked for, one path of the two is wrong.";
    StatsPlace = "stats-place", Should, "statistics are asked for where the volume is",
        "NodeGetVolumeStats names a path where the volume is staged or published.";
    ExpandPlace = "expand-place", Must, "a volume grows where it is",
        "NodeExpandVolume names a path where the volume is staged or published, once that has succeeded.";
    StagingPath = "staging-path", Must, "the staging path is the one where the volume is staged",
        "With STAGE_UNSTAGE_VOLUME, NodeExpandVolume of a volume that is staged names its staging path, and NodeGetVolumeStats may; one that is named is where NodeStageVolume was called.";
    ExpandSize = "expand-size", Must, "the size that is asked for can be",
        "Sizes are not negative, and the limit is not below what is required, in CreateVolume, ControllerExpandVolume and NodeExpandVolume.";
    OneRequest = "one-request", Must, "a name stands for one request to make a volume",
        "CreateVolume is repeated with the same name and the same size, capabilities, parameters, content and names of secrets, until the volume is deleted; another request has another name.";
    NotDeleted = "not-deleted", Must, "a volume that is deleted is not used",
        "After DeleteVolume has succeeded the volume is neither attached, staged, published nor made larger, unless CreateVolume has made it anew.";
    DeleteLast = "delete-last", Must, "a volume is deleted after everybody has let go of it",
        "DeleteVolume comes only after NodeUnpublishVolume, NodeUnstageVolume and ControllerUnpublishVolume have succeeded wherever the volume was.";
    GrowFirst = "grow-first", Must, "the controller makes a volume larger before the node follows",
        "With EXPAND_VOLUME of the controller service, NodeExpandVolume asks for no more than CreateVolume or ControllerExpandVolume has answered.";
    NeverSmaller = "never-smaller", Should, "a volume is not asked to be smaller than it is",
        "ControllerExpandVolume makes volumes larger; a size below the one that the driver has answered cannot be had.";
    CanStage = "can-stage", Must, "staging only with STAGE_UNSTAGE_VOLUME",
        "NodeStageVolume and NodeUnstageVolume are called only if the driver has the capability.";
    CanStats = "can-stats", Must, "statistics only with GET_VOLUME_STATS",
        "NodeGetVolumeStats is called only if the driver has the capability.";
    CanExpand = "can-expand", Must, "growth only with EXPAND_VOLUME",
        "NodeExpandVolume is called only if the driver has the capability.";
    CanMountGroup = "can-mount-group", Must, "a mount group only with VOLUME_MOUNT_GROUP",
        "The volume_mount_group of a capability is set only if the driver has the capability to use it.";
    CanWriterModes = "can-writer-modes", Must, "newer access modes only with SINGLE_NODE_MULTI_WRITER",
        "SINGLE_NODE_SINGLE_WRITER and SINGLE_NODE_MULTI_WRITER are used only if the driver knows them.";
    CanController = "can-controller", Must, "controller calls only if the driver has them",
        "Of the controller service only what ControllerGetCapabilities named is called.";
    OneWriter = "one-writer", Must, "a volume for one alone is published once",
        "A volume with SINGLE_NODE_SINGLE_WRITER is at one target at a time; the next comes after NodeUnpublishVolume has succeeded for the one before.";
    NoOverlap = "no-overlap", Should, "calls for one volume do not overlap",
        "There is at most one call under way for a volume at any time; only an orchestrator that has lost its memory may do otherwise.";
    BackOff = "back-off", Should, "a call that fails is repeated at growing intervals",
        "What failed is tried again with an exponential back-off, not in a loop.";
    Secrets = "secrets", Must, "secrets are there where they are due",
        "A driver that needs secrets is given them in every call for which they are named.";
    NotAssumed = "not-assumed", Must, "an open outcome is not taken for success or failure",
        "A call that ended without an answer, or with a code that leaves it open, may have had its effect and may not. It is repeated until it succeeds, or undone; until then nothing is built on it, and nothing below it is taken away.";
    Settled = "settled", Must, "every open outcome is settled",
        "After an open outcome the orchestrator repeats the call until it succeeds, or calls the opposite until that succeeds, also if a later try was refused.";
    Forgotten = "nothing-forgotten", Must, "nothing is forgotten",
        "What was published is unpublished and what was staged is unstaged once nobody wants it; a call to undo that failed is repeated.";
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn rules_have_names_of_their_own_and_say_something() {
        let ids = Rule::ALL.iter().map(|it| it.id()).collect::<BTreeSet<_>>();
        assert_eq!(ids.len(), Rule::ALL.len());
        for rule in Rule::ALL {
            assert!(rule.id().bytes().all(|it| it.is_ascii_lowercase() || it == b'-'), "{}", rule.id());
            assert!(rule.text().ends_with('.') && !rule.title().ends_with('.'), "{}", rule.id());
        }
    }

    #[test]
    fn the_guide_lists_every_rule_with_its_level() {
        let guide = include_str!("../../../docs/judge.md");
        for rule in Rule::ALL {
            let level = match rule.level() {
                Level::Must => "must",
                Level::Should => "should",
            };
            let row = format!("| `{}` | {level} | {} |", rule.id(), rule.title());
            assert!(guide.contains(&row), "docs/judge.md lacks: {row}");
        }
    }
}
