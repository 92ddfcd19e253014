//! A call as the judge sees it: what was asked, as data without secrets, and how it was answered.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::time::Duration;

use windlass_csi::Code;
use windlass_csi::proto::csi::volume_capability::access_mode::Mode;

/// The keys below this are what Kubernetes adds for one pod; they are no part of the volume.
pub const POD_KEYS: &str = "csi.storage.k8s.io/";

/// Says in the volume context that a volume lives with its pod.
const EPHEMERAL: &str = "csi.storage.k8s.io/ephemeral";

/// Everything that an orchestrator can ask for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Asked {
    /// Who the driver is, at its registration socket.
    RegistrationInfo,
    /// It is told whether it is registered.
    RegistrationStatus {
        /// It is.
        registered: bool,
        /// Why not.
        error: String,
    },
    /// A question that concerns no volume.
    Question(Question),
    /// A volume is made.
    Create(Create),
    /// The opposite.
    Delete {
        /// The volume.
        volume: String,
        /// The secrets, by name.
        secrets: Secrets,
    },
    /// The volume is made larger, before the node follows.
    Grow(Grow),
    /// The volume is attached to a node.
    Attach(Attach),
    /// The volume is detached from a node.
    Detach {
        /// The volume.
        volume: String,
        /// From where; empty for everywhere.
        node: String,
    },
    /// The volume is made ready on the node.
    Stage(Stage),
    /// The opposite.
    Unstage {
        /// The volume.
        volume: String,
        /// From where.
        staging: String,
    },
    /// The volume is given to a pod.
    Publish(Publish),
    /// The opposite.
    Unpublish {
        /// The volume.
        volume: String,
        /// From where.
        target: String,
    },
    /// How full the volume is.
    Stats {
        /// The volume.
        volume: String,
        /// Where it is.
        path: String,
        /// Where it is staged; may be empty.
        staging: String,
    },
    /// The volume has grown, and the node is to follow.
    Expand(Expand),
    /// A call of the controller service that the judge does not have.
    Unsupported {
        /// Its name.
        method: &'static str,
        /// The volume, if it is about one.
        volume: String,
    },
}

/// Questions that concern no volume.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Question {
    /// The driver's name.
    PluginInfo,
    /// Its services.
    PluginCapabilities,
    /// Whether it is ready.
    Probe,
    /// What the node is to the driver.
    NodeInfo,
    /// What its node service can do.
    NodeCapabilities,
    /// What its controller service can do.
    ControllerCapabilities,
}

/// `CreateVolume`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Create {
    /// The volume that comes of it ([`Create::volume_of`]).
    pub volume: String,
    /// The name by which the orchestrator knows its own request.
    pub name: String,
    /// How large.
    pub range: Range,
    /// As what it is to be used.
    pub capabilities: Vec<Capability>,
    /// What the driver is told of it.
    pub parameters: Context,
    /// It is to hold what something else holds.
    pub is_copy: bool,
    /// The secrets, by name.
    pub secrets: Secrets,
}

impl Create {
    /// The volume that is made for a name. It is called otherwise than the name, as with most drivers, and always the same,
    /// so that a call that is repeated finds it.
    pub fn volume_of(name: &str) -> String {
        let hash = name
            .bytes()
            .fold(0xcbf2_9ce4_8422_2325, |sum: u64, it| (sum ^ u64::from(it)).wrapping_mul(0x0100_0000_01b3));
        format!("made-{hash:016x}")
    }
}

/// `ControllerExpandVolume`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Grow {
    /// The volume.
    pub volume: String,
    /// How large.
    pub range: Range,
    /// As what; may be missing.
    pub capability: Option<Capability>,
    /// The secrets, by name.
    pub secrets: Secrets,
}

/// How large something is to be.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Range {
    /// At least this large; 0 if nothing is said.
    pub required_bytes: i64,
    /// At most this large; 0 if nothing is said.
    pub limit_bytes: i64,
}

/// `ControllerPublishVolume`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Attach {
    /// The volume.
    pub volume: String,
    /// To where.
    pub node: String,
    /// As what.
    pub capability: Capability,
    /// It is not to be written.
    pub read_only: bool,
    /// The secrets, by name.
    pub secrets: Secrets,
    /// What the volume's author says of it.
    pub volume_context: Context,
}

/// `NodeStageVolume`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stage {
    /// The volume.
    pub volume: String,
    /// Where.
    pub staging: String,
    /// What was there when it was asked.
    pub found: AtPath,
    /// As what.
    pub capability: Capability,
    /// The secrets, by name.
    pub secrets: Secrets,
    /// What attaching it has told.
    pub publish_context: Context,
    /// What the volume's author says of it.
    pub volume_context: Context,
}

/// `NodePublishVolume`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Publish {
    /// The volume.
    pub volume: String,
    /// Where it is staged; may be empty.
    pub staging: String,
    /// Where it is to be.
    pub target: String,
    /// What was there when it was asked.
    pub found: AtPath,
    /// What was in the place of the target's parent.
    pub parent: AtPath,
    /// As what.
    pub capability: Capability,
    /// It is not to be written.
    pub read_only: bool,
    /// The secrets, by name.
    pub secrets: Secrets,
    /// What attaching it has told.
    pub publish_context: Context,
    /// What the volume's author says of it, and what is told of the pod.
    pub volume_context: Context,
}

impl Publish {
    /// Whether the volume lives and dies with its pod. Such a volume is never staged nor attached. Without pod information
    /// it is known by its handle alone.
    pub fn is_inline(&self) -> bool {
        let hash = self.volume.strip_prefix("csi-");
        let named = hash.is_some_and(|it| it.len() == 64 && it.bytes().all(|it| it.is_ascii_hexdigit()));
        match self.volume_context.get(EPHEMERAL) {
            Some(value) => value == "true",
            None => named && self.staging.is_empty(),
        }
    }
}

/// `NodeExpandVolume`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Expand {
    /// The volume.
    pub volume: String,
    /// Where it is.
    pub path: String,
    /// Where it is staged; may be empty.
    pub staging: String,
    /// How large.
    pub range: Range,
    /// As what; may be missing.
    pub capability: Option<Capability>,
    /// The secrets, by name.
    pub secrets: Secrets,
}

/// What a volume is to be used as.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Capability {
    /// A device or a directory; none if it was not said.
    pub access: Option<Access>,
    /// Who else may have it, by its number in CSI; 0 if it was not said.
    pub mode: i32,
}

impl Capability {
    /// The mode, by its name in CSI.
    pub fn mode_name(&self) -> &'static str {
        Mode::try_from(self.mode).map_or("an unknown access mode", |it| it.as_str_name())
    }

    /// Whether it is a raw device.
    pub fn is_block(&self) -> bool {
        self.access == Some(Access::Block)
    }
}

/// A device or a directory.
#[derive(Clone, PartialEq, Eq)]
pub enum Access {
    /// A raw device.
    Block,
    /// A directory.
    Mount {
        /// The file system; may be empty.
        fs_type: String,
        /// Mount options. They may have secrets in them, so they are never shown.
        flags: Vec<String>,
        /// The group that the driver gives it to; may be empty.
        group: String,
    },
}

impl fmt::Debug for Access {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Block => f.write_str("Block"),
            Self::Mount { fs_type, flags, group } => {
                write!(f, "Mount({fs_type:?}, {} flags, group {group:?})", flags.len())
            }
        }
    }
}

/// Entries that were handed over. Values may be tokens, so only keys are shown.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Context(pub BTreeMap<String, String>);

impl Context {
    /// The value of a key.
    pub fn get(&self, key: &str) -> Option<&str> {
        self.0.get(key).map(String::as_str)
    }

    /// How large it is.
    pub fn bytes(&self) -> usize {
        self.0.iter().map(|(key, value)| key.len() + value.len()).sum()
    }

    /// All of it.
    pub fn all(&self) -> BTreeMap<&str, &str> {
        self.0.iter().map(|(key, value)| (key.as_str(), value.as_str())).collect()
    }

    /// What belongs to the volume, and not to one pod.
    pub fn of_volume(&self) -> BTreeMap<&str, &str> {
        let mut all = self.all();
        all.retain(|key, _| !key.starts_with(POD_KEYS));
        all
    }
}

impl fmt::Debug for Context {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.0.keys()).finish()
    }
}

/// Secrets by their names; the values are not kept (I-12).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Secrets {
    /// Their names.
    pub names: BTreeSet<String>,
    /// How large they are, with their values.
    pub bytes: usize,
}

impl Secrets {
    /// What belongs to the volume, and not to one pod.
    pub fn of_volume(&self) -> BTreeSet<&str> {
        self.names.iter().map(String::as_str).filter(|it| !it.starts_with(POD_KEYS)).collect()
    }
}

/// What was at a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AtPath {
    /// Nothing.
    Nothing,
    /// A directory.
    Directory,
    /// Something else.
    Other,
    /// It was not looked at, or could not be.
    Unknown,
}

/// How a call ended for whoever made it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reply {
    /// Done.
    Done,
    /// By a code that says that nothing was done.
    Refused(Code),
    /// By a code that leaves open what was done.
    Open(Code),
    /// It was never answered: the caller gave up, or the connection was lost.
    Unheard,
}

impl Reply {
    /// What a code means to the caller (C-61).
    pub fn of(code: Code) -> Self {
        match code {
            Code::Ok => Self::Done,
            Code::Cancelled | Code::DeadlineExceeded | Code::ResourceExhausted | Code::Aborted | Code::Unavailable => {
                Self::Open(code)
            }
            _ => Self::Refused(code),
        }
    }
}

impl fmt::Display for Reply {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Done => f.write_str("done"),
            Self::Refused(code) => write!(f, "refused ({code:?})"),
            Self::Open(code) => write!(f, "outcome open ({code:?})"),
            Self::Unheard => f.write_str("never answered"),
        }
    }
}

impl Asked {
    /// The name of the call.
    pub fn method(&self) -> &'static str {
        match self {
            Self::RegistrationInfo => "GetInfo",
            Self::RegistrationStatus { .. } => "NotifyRegistrationStatus",
            Self::Question(Question::PluginInfo) => "GetPluginInfo",
            Self::Question(Question::PluginCapabilities) => "GetPluginCapabilities",
            Self::Question(Question::Probe) => "Probe",
            Self::Question(Question::NodeInfo) => "NodeGetInfo",
            Self::Question(Question::NodeCapabilities) => "NodeGetCapabilities",
            Self::Question(Question::ControllerCapabilities) => "ControllerGetCapabilities",
            Self::Create(_) => "CreateVolume",
            Self::Delete { .. } => "DeleteVolume",
            Self::Grow(_) => "ControllerExpandVolume",
            Self::Attach(_) => "ControllerPublishVolume",
            Self::Detach { .. } => "ControllerUnpublishVolume",
            Self::Stage(_) => "NodeStageVolume",
            Self::Unstage { .. } => "NodeUnstageVolume",
            Self::Publish(_) => "NodePublishVolume",
            Self::Unpublish { .. } => "NodeUnpublishVolume",
            Self::Stats { .. } => "NodeGetVolumeStats",
            Self::Expand(_) => "NodeExpandVolume",
            Self::Unsupported { method, .. } => method,
        }
    }

    /// The volume that it is about.
    pub fn volume(&self) -> Option<&str> {
        match self {
            Self::RegistrationInfo | Self::RegistrationStatus { .. } | Self::Question(_) => None,
            Self::Create(Create { volume, .. })
            | Self::Delete { volume, .. }
            | Self::Grow(Grow { volume, .. })
            | Self::Attach(Attach { volume, .. })
            | Self::Detach { volume, .. }
            | Self::Stage(Stage { volume, .. })
            | Self::Unstage { volume, .. }
            | Self::Publish(Publish { volume, .. })
            | Self::Unpublish { volume, .. }
            | Self::Stats { volume, .. }
            | Self::Expand(Expand { volume, .. })
            | Self::Unsupported { volume, .. } => Some(volume),
        }
    }

    /// Whether it changes something about a volume.
    pub fn is_change(&self) -> bool {
        match self {
            Self::Create(_)
            | Self::Delete { .. }
            | Self::Grow(_)
            | Self::Attach(_)
            | Self::Detach { .. }
            | Self::Stage(_)
            | Self::Unstage { .. }
            | Self::Publish(_)
            | Self::Unpublish { .. }
            | Self::Expand(_) => true,
            Self::RegistrationInfo
            | Self::RegistrationStatus { .. }
            | Self::Question(_)
            | Self::Stats { .. }
            | Self::Unsupported { .. } => false,
        }
    }

    /// The place that it is about.
    pub fn place(&self) -> &str {
        match self {
            Self::Stage(Stage { staging, .. }) | Self::Unstage { staging, .. } => staging,
            Self::Publish(Publish { target, .. }) | Self::Unpublish { target, .. } => target,
            Self::Stats { path, .. } | Self::Expand(Expand { path, .. }) => path,
            Self::Attach(Attach { node, .. }) | Self::Detach { node, .. } => node,
            Self::RegistrationInfo
            | Self::RegistrationStatus { .. }
            | Self::Question(_)
            | Self::Create(_)
            | Self::Delete { .. }
            | Self::Grow(_)
            | Self::Unsupported { .. } => "",
        }
    }

    /// What was asked, in short: no values of secrets or contexts, and no mount options (I-12).
    pub fn arguments(&self) -> String {
        let mut parts = Vec::new();
        if let Some(volume) = self.volume() {
            parts.push(shown(volume));
        }
        match self {
            Self::RegistrationInfo | Self::Question(_) | Self::Unsupported { .. } => {}
            Self::RegistrationStatus { registered: true, .. } => parts.push("registered".into()),
            Self::RegistrationStatus { error, .. } => parts.push(format!("not registered: {}", shown(error))),
            Self::Create(it) => {
                parts.push(format!("name={}", shown(&it.name)));
                parts.extend(range(it.range));
                parts.extend(it.capabilities.iter().flat_map(capability));
                parts.extend(it.is_copy.then(|| "with content".into()));
                parts.extend(names("parameters", it.parameters.0.keys()));
                parts.extend(names("secrets", it.secrets.names.iter()));
            }
            Self::Delete { secrets, .. } => parts.extend(names("secrets", secrets.names.iter())),
            Self::Grow(it) => {
                parts.extend(range(it.range));
                parts.extend(it.capability.iter().flat_map(capability));
                parts.extend(names("secrets", it.secrets.names.iter()));
            }
            Self::Attach(it) => {
                parts.push(format!("node={}", shown(&it.node)));
                parts.extend(capability(&it.capability));
                parts.extend(it.read_only.then(|| "readonly".into()));
                parts.extend(names("secrets", it.secrets.names.iter()));
                parts.extend(names("volume-context", it.volume_context.0.keys()));
            }
            Self::Detach { node, .. } => parts.push(format!("node={}", shown(node))),
            Self::Stage(it) => {
                parts.push(format!("staging={}", shown(&it.staging)));
                parts.extend(capability(&it.capability));
                parts.extend(names("secrets", it.secrets.names.iter()));
                parts.extend(names("publish-context", it.publish_context.0.keys()));
                parts.extend(names("volume-context", it.volume_context.0.keys()));
            }
            Self::Unstage { staging, .. } => parts.push(format!("staging={}", shown(staging))),
            Self::Publish(it) => {
                parts.extend((!it.staging.is_empty()).then(|| format!("staging={}", shown(&it.staging))));
                parts.push(format!("target={}", shown(&it.target)));
                parts.extend(capability(&it.capability));
                parts.extend(it.read_only.then(|| "readonly".into()));
                parts.extend(names("secrets", it.secrets.names.iter()));
                parts.extend(names("publish-context", it.publish_context.0.keys()));
                parts.extend(names("volume-context", it.volume_context.0.keys()));
            }
            Self::Unpublish { target, .. } => parts.push(format!("target={}", shown(target))),
            Self::Stats { path, staging, .. } => {
                parts.push(format!("path={}", shown(path)));
                parts.extend((!staging.is_empty()).then(|| format!("staging={}", shown(staging))));
            }
            Self::Expand(it) => {
                parts.push(format!("path={}", shown(&it.path)));
                parts.extend((!it.staging.is_empty()).then(|| format!("staging={}", shown(&it.staging))));
                parts.extend(range(it.range));
                parts.extend(it.capability.iter().flat_map(capability));
                parts.extend(names("secrets", it.secrets.names.iter()));
            }
        }
        parts.join(" ")
    }
}

fn range(it: Range) -> Vec<String> {
    let limit = (it.limit_bytes != 0).then(|| format!("limit-bytes={}", it.limit_bytes));
    [format!("required-bytes={}", it.required_bytes)].into_iter().chain(limit).collect()
}

fn capability(it: &Capability) -> Vec<String> {
    let access = match &it.access {
        None => "no access type".into(),
        Some(Access::Block) => "block".into(),
        Some(Access::Mount { fs_type, flags, group }) => {
            let mut text = "mount".to_string();
            if !fs_type.is_empty() {
                text.push_str(&format!(" fs-type={}", shown(fs_type)));
            }
            if !flags.is_empty() {
                text.push_str(&format!(" mount-flags={}", flags.len()));
            }
            if !group.is_empty() {
                text.push_str(&format!(" group={}", shown(group)));
            }
            text
        }
    };
    vec![access, it.mode_name().into()]
}

fn names<'a>(what: &str, names: impl ExactSizeIterator<Item = &'a String>) -> Option<String> {
    let list = names.map(|it| shown(it)).collect::<Vec<_>>();
    (!list.is_empty()).then(|| format!("{what}=[{}]", list.join(",")))
}

/// Somebody else's words on one line, not too long; nothing of it is taken for a command by a terminal.
pub fn shown(text: &str) -> String {
    const LENGTH_MAX: usize = 256;
    if text.is_empty() {
        return "\"\"".into();
    }
    let mut shown = text.chars().take(LENGTH_MAX).collect::<String>().escape_debug().to_string().replace("\\'", "'");
    if text.chars().nth(LENGTH_MAX).is_some() {
        shown.push('…');
    }
    shown
}

/// One call, as it is shown.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
pub struct Shown {
    /// Its number, from 1 in the order in which they came.
    pub number: u64,
    /// When it came, after the judge was started.
    #[serde(rename = "seconds", serialize_with = "seconds")]
    pub at: Duration,
    /// Its name.
    pub method: &'static str,
    /// What was asked, in short.
    pub arguments: String,
    /// How it ended; none if it has not.
    pub answer: Option<String>,
}

fn seconds<S: serde::Serializer>(at: &Duration, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_f64((at.as_secs_f64() * 1000.0).round() / 1000.0)
}

impl fmt::Display for Shown {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "#{} {:.3}s {} {}", self.number, self.at.as_secs_f64(), self.method, self.arguments)?;
        match &self.answer {
            Some(answer) => write!(f, ": {answer}"),
            None => f.write_str(": not ended"),
        }
    }
}
