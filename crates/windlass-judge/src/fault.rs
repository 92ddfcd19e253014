//! Faults that the judge plays: which call fails, how, and how often.

use std::str::FromStr;

use windlass_csi::Code;

use crate::call::Asked;

macro_rules! words {
    ($(#[$of:meta])* $name:ident { $($(#[$what:meta])* $variant:ident = $word:literal,)* }) => {
        $(#[$of])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
        pub enum $name {
            $($(#[$what])* $variant,)*
        }

        impl $name {
            /// All of them.
            pub const ALL: &'static [Self] = &[$(Self::$variant,)*];

            /// As it is written.
            pub fn name(self) -> &'static str {
                match self { $(Self::$variant => $word,)* }
            }
        }

        impl FromStr for $name {
            type Err = String;

            fn from_str(text: &str) -> Result<Self, String> {
                let known = || Self::ALL.iter().map(|it| it.name()).collect::<Vec<_>>().join(", ");
                let found = Self::ALL.iter().copied().find(|it| it.name() == text);
                found.ok_or_else(|| format!("{text:?} is none of {}", known()))
            }
        }
    };
}

words! {
    /// The calls that can be named on a command line.
    Call {
        /// `CreateVolume`.
        Create = "create",
        /// `DeleteVolume`.
        Delete = "delete",
        /// `ControllerExpandVolume`.
        Grow = "grow",
        /// `ControllerPublishVolume`.
        Attach = "attach",
        /// `ControllerUnpublishVolume`.
        Detach = "detach",
        /// `NodeStageVolume`.
        Stage = "stage",
        /// `NodeUnstageVolume`.
        Unstage = "unstage",
        /// `NodePublishVolume`.
        Publish = "publish",
        /// `NodeUnpublishVolume`.
        Unpublish = "unpublish",
        /// `NodeExpandVolume`.
        Expand = "expand",
        /// `NodeGetVolumeStats`.
        Stats = "stats",
    }
}

impl Call {
    /// Which one it is, if it can be named.
    pub fn of(asked: &Asked) -> Option<Self> {
        match asked {
            Asked::Create(_) => Some(Self::Create),
            Asked::Delete { .. } => Some(Self::Delete),
            Asked::Grow(_) => Some(Self::Grow),
            Asked::Attach(_) => Some(Self::Attach),
            Asked::Detach { .. } => Some(Self::Detach),
            Asked::Stage(_) => Some(Self::Stage),
            Asked::Unstage { .. } => Some(Self::Unstage),
            Asked::Publish(_) => Some(Self::Publish),
            Asked::Unpublish { .. } => Some(Self::Unpublish),
            Asked::Expand(_) => Some(Self::Expand),
            Asked::Stats { .. } => Some(Self::Stats),
            Asked::RegistrationInfo
            | Asked::RegistrationStatus { .. }
            | Asked::Question(_)
            | Asked::Unsupported { .. } => None,
        }
    }
}

words! {
    /// How a call fails.
    FaultKind {
        /// With INTERNAL, and nothing is done: a final error.
        Refused = "refused",
        /// With DEADLINE_EXCEEDED at once, and it is done.
        TimeoutWithEffect = "timeout-with-effect",
        /// With DEADLINE_EXCEEDED at once, and nothing is done.
        TimeoutWithoutEffect = "timeout-without-effect",
        /// It is done, and never answered.
        SilenceWithEffect = "silence-with-effect",
        /// Nothing is done, and it is never answered.
        SilenceWithoutEffect = "silence-without-effect",
        /// It is done, and the connection is cut.
        ConnectionLostWithEffect = "connection-lost-with-effect",
        /// Nothing is done, and the connection is cut.
        ConnectionLostWithoutEffect = "connection-lost-without-effect",
        /// It is done, and answered late.
        Slow = "slow",
        /// It is answered as if it were done, and nothing is.
        Lie = "lie",
        /// It is done, and the size in the answer is half of what was asked for.
        TooSmall = "too-small",
        /// With CANCELLED, and nothing is done.
        Cancelled = "cancelled",
        /// With UNKNOWN, and nothing is done.
        Unknown = "unknown",
        /// With INVALID_ARGUMENT, and nothing is done.
        InvalidArgument = "invalid-argument",
        /// With DEADLINE_EXCEEDED, and nothing is done.
        DeadlineExceeded = "deadline-exceeded",
        /// With NOT_FOUND, and nothing is done.
        NotFound = "not-found",
        /// With ALREADY_EXISTS, and nothing is done.
        AlreadyExists = "already-exists",
        /// With PERMISSION_DENIED, and nothing is done.
        PermissionDenied = "permission-denied",
        /// With RESOURCE_EXHAUSTED, and nothing is done.
        ResourceExhausted = "resource-exhausted",
        /// With FAILED_PRECONDITION, and nothing is done.
        FailedPrecondition = "failed-precondition",
        /// With ABORTED, and nothing is done.
        Aborted = "aborted",
        /// With OUT_OF_RANGE, and nothing is done.
        OutOfRange = "out-of-range",
        /// With UNIMPLEMENTED, and nothing is done.
        Unimplemented = "unimplemented",
        /// With INTERNAL, and nothing is done.
        Internal = "internal",
        /// With UNAVAILABLE, and nothing is done.
        Unavailable = "unavailable",
        /// With DATA_LOSS, and nothing is done.
        DataLoss = "data-loss",
        /// With UNAUTHENTICATED, and nothing is done.
        Unauthenticated = "unauthenticated",
    }
}

impl FaultKind {
    /// Whether the call is carried out all the same.
    pub fn has_effect(self) -> bool {
        matches!(
            self,
            Self::TimeoutWithEffect
                | Self::SilenceWithEffect
                | Self::ConnectionLostWithEffect
                | Self::Slow
                | Self::TooSmall
        )
    }

    /// The code that it answers with, if it answers with one.
    pub fn code(self) -> Option<Code> {
        match self {
            Self::Refused | Self::Internal => Some(Code::Internal),
            Self::TimeoutWithEffect | Self::TimeoutWithoutEffect | Self::DeadlineExceeded => {
                Some(Code::DeadlineExceeded)
            }
            Self::Cancelled => Some(Code::Cancelled),
            Self::Unknown => Some(Code::Unknown),
            Self::InvalidArgument => Some(Code::InvalidArgument),
            Self::NotFound => Some(Code::NotFound),
            Self::AlreadyExists => Some(Code::AlreadyExists),
            Self::PermissionDenied => Some(Code::PermissionDenied),
            Self::ResourceExhausted => Some(Code::ResourceExhausted),
            Self::FailedPrecondition => Some(Code::FailedPrecondition),
            Self::Aborted => Some(Code::Aborted),
            Self::OutOfRange => Some(Code::OutOfRange),
            Self::Unimplemented => Some(Code::Unimplemented),
            Self::Unavailable => Some(Code::Unavailable),
            Self::DataLoss => Some(Code::DataLoss),
            Self::Unauthenticated => Some(Code::Unauthenticated),
            Self::SilenceWithEffect
            | Self::SilenceWithoutEffect
            | Self::ConnectionLostWithEffect
            | Self::ConnectionLostWithoutEffect
            | Self::Slow
            | Self::Lie
            | Self::TooSmall => None,
        }
    }

    /// Whether a call can fail like this: a lie is about something to be seen, and not every answer has a size.
    fn fits(self, call: Call) -> Result<(), &'static str> {
        match (self, call) {
            (Self::Lie, Call::Stage | Call::Unstage | Call::Publish | Call::Unpublish) => Ok(()),
            (Self::Lie, _) => Err("stage, unstage, publish and unpublish"),
            (Self::TooSmall, Call::Create | Call::Grow | Call::Expand) => Ok(()),
            (Self::TooSmall, _) => Err("create, grow and expand"),
            _ => Ok(()),
        }
    }
}

/// A fault: written `CALL=KIND`, or `CALL=KIND:TIMES`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fault {
    /// Which call fails.
    pub call: Call,
    /// How.
    pub kind: FaultKind,
    /// How often, for each volume.
    pub times: u32,
}

impl FromStr for Fault {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let odd = || format!("{text:?} is no fault; write CALL=KIND or CALL=KIND:TIMES, such as stage=refused:2");
        let (call, rest) = text.split_once('=').ok_or_else(odd)?;
        let (kind, times) = match rest.split_once(':') {
            Some((kind, times)) => (kind, times.parse().ok().filter(|it| *it > 0).ok_or_else(odd)?),
            None => (rest, 1),
        };
        let (call, kind): (Call, FaultKind) = (call.parse()?, kind.parse()?);
        kind.fits(call).map_err(|can| format!("{} is a fault of {can}, not of {}", kind.name(), call.name()))?;
        Ok(Self { call, kind, times })
    }
}

impl std::fmt::Display for Fault {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}={}:{}", self.call.name(), self.kind.name(), self.times)
    }
}

/// Which fault is due for the call that comes after so many of its kind: those that are written first come first.
pub(crate) fn due(faults: &[Fault], call: Call, before: u32) -> Option<FaultKind> {
    let mut before = before;
    for fault in faults.iter().filter(|it| it.call == call) {
        if before < fault.times {
            return Some(fault.kind);
        }
        before -= fault.times;
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn faults_are_read_as_they_are_written() {
        let read = |text: &str| text.parse::<Fault>();
        assert_eq!(read("stage=refused"), Ok(Fault { call: Call::Stage, kind: FaultKind::Refused, times: 1 }));
        let lost = Fault { call: Call::Unpublish, kind: FaultKind::ConnectionLostWithEffect, times: 3 };
        assert_eq!(read("unpublish=connection-lost-with-effect:3"), Ok(lost));
        assert_eq!(read(&lost.to_string()), Ok(lost));
        let lost = Fault { call: Call::Create, kind: FaultKind::ResourceExhausted, times: 2 };
        assert_eq!(read("create=resource-exhausted:2"), Ok(lost));
        for wrong in ["stage=too-small", "expand=lie", "create=lie"] {
            assert!(read(wrong).unwrap_err().contains("is a fault of"), "{wrong}");
        }
        for wrong in ["", "stage", "stage=", "stage=refused:0", "stage=refused:x", "mount=refused", "stage=fine"] {
            assert!(read(wrong).is_err(), "{wrong}");
        }
        assert!(read("stage=fine").unwrap_err().contains("timeout-with-effect"));
    }

    #[test]
    fn every_code_but_success_can_be_played() {
        let codes = (1..=16).map(Code::from_i32);
        for code in codes {
            let kind = FaultKind::ALL.iter().find(|it| format!("{code:?}") == format!("{it:?}")).unwrap();
            assert_eq!((kind.code(), kind.has_effect()), (Some(code), false), "{code:?}");
        }
    }

    #[test]
    fn faults_of_one_call_are_played_one_after_the_other() {
        let faults = ["stage=refused:2", "publish=refused", "stage=silence-with-effect"];
        let faults = faults.map(|it| it.parse().unwrap());
        let played = (0..4).map(|it| due(&faults, Call::Stage, it)).collect::<Vec<_>>();
        let (refused, silence) = (Some(FaultKind::Refused), Some(FaultKind::SilenceWithEffect));
        assert_eq!(played, [refused, refused, silence, None]);
        assert_eq!(due(&faults, Call::Expand, 0), None);
    }
}
