//! Where pods come from: a handle for whoever has them, and a directory of manifests as one of those.

pub mod directory;
mod ledger;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1 as api;
use windlass_core::event::Hold;
use windlass_core::ids::{PodUid, SourceName};
use windlass_linux::name::Name;
use windlass_linux::watched_files::Handle;

pub use windlass_core::event::Containers;
pub use windlass_core::ids::Version;

use crate::node::PodError;
use crate::packed::Packed;
use crate::{Node, defaults, resolve};

/// Somebody who has pods for this node, made by [`Node::source`]. Cheap to clone.
///
/// There may be several at once, each with pods of its own: a pod is the source's that gave it first, until that source says
/// that it is gone. Nothing that is found on disk is taken away before every source is complete (I-1), so announce all of
/// them before the first one is.
#[derive(Clone)]
pub struct Source {
    node: Node,
    name: SourceName,
    version: Version,
}

impl Source {
    pub(crate) fn announce(node: &Node, name: &str) -> Self {
        let source = Self { node: node.clone(), name: name.into(), version: Version::NONE };
        source.say(Said::Announced);
        source
    }

    /// What it is called where something waits for it.
    pub fn name(&self) -> &str {
        self.name.as_str()
    }

    /// The same source, whose next words are of this version: what it says of a pod in an older one than before is not
    /// believed. Without versions the last word counts.
    pub fn at(&self, version: Version) -> Self {
        Self { version, ..self.clone() }
    }

    /// The source has this pod, for the first time or changed. The API server's defaults are filled in; a pod that is shared
    /// and has them stays shared.
    ///
    /// The objects that it uses may be given before or after it. Only the `Node` is better given first: the size of a volume
    /// in memory follows from what the node allots to pods, and stays as it was when it was mounted (P-64).
    pub fn apply(&self, pod: impl Into<Arc<api::Pod>>) -> Result<PodUid, PodError> {
        let pod = defaults::shared(pod.into(), defaults::pod);
        let packed = Packed::new(pod.clone());
        packed.lend();
        self.apply_packed(pod, packed)
    }

    /// The source has a pod that is packed already and has the API server's defaults.
    pub(crate) fn apply_packed(&self, pod: Arc<api::Pod>, packed: Packed) -> Result<PodUid, PodError> {
        let (uid, _, _) = resolve::identify(&pod)?;
        Name::new("metadata.uid", uid.as_str())?;
        self.node.check()?;
        self.say(Said::Pod { uid: uid.clone(), version: self.version, packed, pod });
        Ok(uid)
    }

    /// The source has the pod no longer. If its containers may still run it keeps its volumes, until this is said again with
    /// [`Containers::Stopped`]; otherwise they are taken away, once every source is complete.
    pub fn gone(&self, pod: &PodUid, containers: Containers) {
        self.say(Said::PodGone { uid: pod.clone(), version: self.version, containers });
    }

    /// The source has said all it has: the pods that are to be here, and the objects they name. What it had before it was
    /// lost and has not given again is gone, and once all sources are complete what is found on disk of other pods is taken
    /// away, which nothing is before (I-1); a config map or secret that nobody gave does not exist then.
    pub fn complete(&self) {
        self.complete_holding(Duration::ZERO);
    }

    /// As [`Source::complete`], of a source in which something can be missing by accident. What is found on disk of other
    /// pods, and volumes of these pods that they do not name, is shown as held and stays for this long: it is taken away
    /// then, and before that only by [`Node::delete_pod`] (I-1).
    pub fn complete_holding(&self, orphan_delay: Duration) {
        self.complete_doubting(orphan_delay, None);
    }

    /// As [`Source::complete_holding`], of a source that has given all it can read. If there is something that it cannot read,
    /// and that may name further pods, nothing that is held is taken away before it is complete without doubt.
    pub(crate) fn complete_doubting(&self, orphan_delay: Duration, doubt: Option<Arc<str>>) {
        self.say(Said::Complete { version: self.version, orphan_delay, doubt });
    }

    /// The source cannot be read any more, for this reason. What it gave stays, and what it has now is not known until it has
    /// given everything again and is complete.
    pub fn lost(&self, reason: &str) {
        self.say(Said::Lost(reason.into()));
    }

    /// It cannot be told whether this pod is to be on this node: what is here of it stays, for this long if that is a matter
    /// of time.
    pub(crate) fn hold(&self, pod: &PodUid, hold: Hold) {
        self.say(Said::PodHeld { uid: pod.clone(), hold });
    }

    /// What the source has can be read again when that is asked for: all of it has been once [`Source::read`] says so with a
    /// number that is not less than the one that [`Handle::reread`] returned. It is told of mounts, too.
    pub(crate) fn rereads(&self, files: Arc<Handle>) {
        self.say(Said::Rereads(files));
    }

    /// All that the source has was read again, so many times with this.
    pub(crate) fn read(&self, number: u64) {
        self.say(Said::Read(number));
    }

    /// What the source reads is at another place than before, and nothing is missing there that it gave; and whether somebody
    /// meant that.
    pub(crate) fn replaced(&self, meant: bool) {
        self.say(Said::Replaced { meant });
    }

    fn say(&self, said: Said) {
        self.node.hear(self.name.clone(), said);
    }
}

/// What a source says of its pods.
pub(crate) enum Said {
    /// It is there, and will say more.
    Announced,
    /// It has this pod, for the first time or changed.
    Pod { uid: PodUid, version: Version, packed: Packed, pod: Arc<api::Pod> },
    /// It has the pod no longer.
    PodGone { uid: PodUid, version: Version, containers: Containers },
    /// It cannot tell whether it has the pod.
    PodHeld { uid: PodUid, hold: Hold },
    /// It can read everything again.
    Rereads(Arc<Handle>),
    /// It has read everything again.
    Read(u64),
    /// It reads at another place than before.
    Replaced { meant: bool },
    /// It cannot be read any more.
    Lost(Arc<str>),
    /// It has said all it can read. What is on disk besides stays for this long, and for as long as there is doubt.
    Complete { version: Version, orphan_delay: Duration, doubt: Option<Arc<str>> },
}

impl Said {
    /// What kind of word it is, as it is counted.
    pub(crate) fn kind(&self) -> &'static str {
        match self {
            Self::Announced => "source announced",
            Self::Pod { .. } => "pod given",
            Self::PodGone { .. } => "pod gone",
            Self::PodHeld { .. } => "pod held",
            Self::Rereads(_) => "source rereads",
            Self::Read(_) => "source read",
            Self::Replaced { .. } => "source replaced",
            Self::Lost(_) => "source lost",
            Self::Complete { .. } => "source complete",
        }
    }
}

impl fmt::Debug for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Source").field("name", &self.name).field("version", &self.version).finish_non_exhaustive()
    }
}
