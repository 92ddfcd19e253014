//! Why there are no contents for a volume, in the words that users of the kubelet know.

use crate::objects::{ObjectKind, Reference};
use crate::{quantity, token};
use std::fmt;
use std::sync::Arc;
use windlass_linux::atomic_dir;

/// All that keeps a volume from being written: at least one flaw.
#[derive(Debug)]
pub struct Error {
    flaws: Vec<Flaw>,
}

impl Error {
    /// `None` if there is nothing wrong.
    pub(super) fn of(flaws: Vec<Flaw>) -> Option<Self> {
        if flaws.is_empty() { None } else { Some(Self { flaws }) }
    }

    /// What is wrong, in the order of the volume's sources and items.
    pub fn flaws(&self) -> &[Flaw] {
        &self.flaws
    }

    /// The object by whose change it may come right: the first, if there are several.
    pub fn waits_on(&self) -> Option<&Reference> {
        self.flaws.iter().find_map(Flaw::waits_on)
    }

    /// Does it want a token that whoever should give it does not give?
    pub fn wants_token(&self) -> bool {
        self.flaws.iter().any(|it| matches!(it, Flaw::Token(error) if error.is_the_providers()))
    }
}

impl fmt::Display for Error {
    /// One flaw as it is, several in brackets, none twice: as the kubelet does (P-114, P-123).
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut texts: Vec<String> = Vec::new();
        for text in self.flaws.iter().map(Flaw::to_string) {
            if !texts.contains(&text) {
                texts.push(text);
            }
        }
        match texts.as_slice() {
            [text] => f.write_str(text),
            texts => write!(f, "[{}]", texts.join(", ")),
        }
    }
}

impl std::error::Error for Error {}

impl From<Flaw> for Error {
    fn from(flaw: Flaw) -> Self {
        Self { flaws: vec![flaw] }
    }
}

/// One thing that is wrong. Its text is complete, with what it comes from, because several are put on one line.
#[derive(Debug, thiserror::Error)]
pub enum Flaw {
    /// An object does not exist, and must (P-104).
    #[error("{} \"{}\" not found", .0.kind().name().to_ascii_lowercase(), .0.name())]
    Missing(Reference),
    /// An object could not be looked up, which says nothing about it (P-106).
    #[error("look up {reference}: {text}")]
    Unavailable {
        /// The object.
        reference: Reference,
        /// Why.
        text: Arc<str>,
    },
    /// A key that is listed is not in its object, and must be (P-107).
    #[error("{}: {key}", no_key(.reference))]
    NoKey {
        /// The object.
        reference: Reference,
        /// The key.
        key: String,
    },
    /// A key cannot be the name of a file (P-100).
    #[error(
        "{reference}: key \"{}\" cannot be used: it must have 1 to 253 letters, digits, \"-\", \"_\" and \".\", and \
         not be \".\" or begin with \"..\"", shown(.key)
    )]
    Key {
        /// The object.
        reference: Reference,
        /// The key.
        key: String,
    },
    /// A path cannot be used (P-83, P-97).
    #[error("{field}: {cause}")]
    Path {
        /// Where it stands in the pod.
        field: String,
        /// What is wrong with it.
        cause: atomic_dir::Error,
    },
    /// A mount path leads out of its container (P-112).
    #[error("{field}: invalid container mount point {path}")]
    MountPath {
        /// Where it stands in the pod.
        field: String,
        /// The path.
        path: String,
    },
    /// No mode is given, not even the default one (P-99).
    #[error("{field}: no defaultMode used, not even the default value for it")]
    NoDefaultMode {
        /// Where it should stand in the pod.
        field: String,
    },
    /// A mode has bits other than those of permission (P-99).
    #[error("{field}: {mode} is no mode, which is from 0 to 0777 (511)")]
    Mode {
        /// Where it stands in the pod.
        field: String,
        /// The mode.
        mode: i32,
    },
    /// A number is no user or group.
    #[error("{field}: {id} is no user or group")]
    Id {
        /// Where it stands in the pod.
        field: &'static str,
        /// The number.
        id: i64,
    },
    /// A field that files cannot show (P-115).
    #[error("unsupported fieldPath: {path}")]
    Field {
        /// The field.
        path: String,
    },
    /// A field that is no map (P-116).
    #[error("fieldPath \"{path}\" does not support subscript")]
    NoSubscript {
        /// The field with its subscript.
        path: String,
    },
    /// A subscript that no label or annotation can have (P-116).
    #[error("invalid key subscript in {path}: it is not a qualified name")]
    Subscript {
        /// The field with its subscript.
        path: String,
    },
    /// A container that the pod does not have (P-117).
    #[error("container {name} not found")]
    Container {
        /// Its name.
        name: String,
    },
    /// A resource that files cannot show (P-117).
    #[error("unsupported container resource : {resource}")]
    Resource {
        /// The resource.
        resource: String,
    },
    /// A quantity is none.
    #[error("{field}: {cause}")]
    Quantity {
        /// Where it stands.
        field: String,
        /// What is wrong with it.
        cause: quantity::Error,
    },
    /// An item shows nothing.
    #[error("{field}: neither fieldRef nor resourceFieldRef is set")]
    NoReference {
        /// Where it stands in the pod.
        field: String,
    },
    /// There is no token.
    #[error("{}", .0.text())]
    Token(token::Error),
    /// A source of a projected volume that windlass does not know.
    #[error("{field}: none of configMap, secret, downwardAPI and serviceAccountToken is set")]
    Unsupported {
        /// Where it stands in the pod.
        field: String,
    },
    /// The volume is of another kind.
    #[error("volume \"{volume}\" has no configMap, secret, downwardAPI or projected source")]
    NotWritten {
        /// Its name.
        volume: String,
    },
}

impl Flaw {
    /// The object by whose change it may come right.
    pub fn waits_on(&self) -> Option<&Reference> {
        match self {
            Self::Missing(reference)
            | Self::Unavailable { reference, .. }
            | Self::NoKey { reference, .. }
            | Self::Key { reference, .. } => Some(reference),
            Self::Path { .. }
            | Self::MountPath { .. }
            | Self::NoDefaultMode { .. }
            | Self::Mode { .. }
            | Self::Id { .. }
            | Self::Field { .. }
            | Self::NoSubscript { .. }
            | Self::Subscript { .. }
            | Self::Container { .. }
            | Self::Resource { .. }
            | Self::Quantity { .. }
            | Self::NoReference { .. }
            | Self::Token(_)
            | Self::Unsupported { .. }
            | Self::NotWritten { .. } => None,
        }
    }
}

/// The kubelet's two ways to say it.
fn no_key(reference: &Reference) -> &'static str {
    match reference.kind() {
        ObjectKind::Secret => "references non-existent secret key",
        _ => "configmap references non-existent config key",
    }
}

/// A key that may hold anything, fit for a line of text.
fn shown(key: &str) -> String {
    const SHOWN_MAX: usize = 80;
    let bytes = key.as_bytes();
    let more = if bytes.len() > SHOWN_MAX { "…" } else { "" };
    format!("{}{more}", bytes[..bytes.len().min(SHOWN_MAX)].escape_ascii())
}
