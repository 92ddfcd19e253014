//! Names and numbers that identify things, and the engine's notion of time.
//!
//! Names are newtypes over `Arc<str>`: cheap to clone, impossible to mix up. Whether a name may become a path is not
//! decided here; the crates that touch paths check that.

use alloc::sync::Arc;
use core::fmt;
use core::ops::Add;
use core::time::Duration;

macro_rules! name {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
        pub struct $name(Arc<str>);

        impl $name {
            /// The name as text.
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl AsRef<str> for $name {
            fn as_ref(&self) -> &str {
                &self.0
            }
        }

        impl From<&str> for $name {
            fn from(text: &str) -> Self {
                Self(Arc::from(text))
            }
        }

        impl From<Arc<str>> for $name {
            fn from(text: Arc<str>) -> Self {
                Self(text)
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Debug::fmt(&self.0, f)
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.pad(&self.0)
            }
        }
    };
}

name! {
    /// A pod's identity on this node: its UID (E-1).
    PodUid
}
name! {
    /// A volume's identity on this node: the kubelet's unique volume name (E-63, E-64). Two pods that share a volume
    /// name the same id; a volume that is a pod's own has the pod's UID in it.
    VolumeId
}
name! {
    /// What the pod calls the volume, `pod.spec.volumes[].name`: the outer name (E-2).
    OuterName
}
name! {
    /// What the directory below the pod is called: the PV's name for a claim, else the outer name (E-2).
    InnerName
}
name! {
    /// A kind of volume, for example `kubernetes.io/csi`.
    PluginName
}
name! {
    /// A driver that registers and may go away, for example `ebs.csi.aws.com`.
    DriverName
}
name! {
    /// Where pods come from, for example a directory or an API server.
    SourceName
}
name! {
    /// Any object that something waits for, in words a person knows: `Secret default/password`.
    ObjectName
}
name! {
    /// One boot of this machine. What was mounted in another boot is not mounted now.
    BootId
}

/// One operation, quoted by its result. Never used twice in the life of an engine.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct OperationId(pub u64);

impl fmt::Display for OperationId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "#{}", self.0)
    }
}

/// One caller who waits for a pod, named by whoever drives the engine.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct WaiterId(pub u64);

/// A moment: milliseconds since a zero of the caller's choice. It never goes back.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Time(pub u64);

impl Time {
    /// The beginning.
    pub const ZERO: Self = Self(0);

    /// How long after `earlier` this is; zero if it is not after it.
    pub fn since(self, earlier: Self) -> Duration {
        Duration::from_millis(self.0.saturating_sub(earlier.0))
    }
}

impl Add<Duration> for Time {
    type Output = Self;

    fn add(self, duration: Duration) -> Self {
        let milliseconds = u64::try_from(duration.as_millis()).unwrap_or(u64::MAX);
        Self(self.0.saturating_add(milliseconds))
    }
}

/// The age of an object as its source counts it, for example a resource version: larger is newer. A source that does
/// not count gives [`Version::NONE`] to everything.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Version(pub u64);

impl Version {
    /// The source does not count.
    pub const NONE: Self = Self(0);
}
