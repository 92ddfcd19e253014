//! What a call that failed means.

use std::sync::Arc;

use tonic::Code;

/// A call that did not succeed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("driver {driver}: {method}: {code:?}: {message}")]
pub struct CallError {
    /// The call, as CSI names it: `NodeStageVolume`.
    pub method: &'static str,
    /// Who was called.
    pub driver: Arc<str>,
    /// What the driver said; where it said nothing, what gRPC would say of it.
    pub code: Code,
    /// What is known now about what the call has done.
    pub end: End,
    /// The driver's words or ours: at most one KiB, on one line, without the secrets of the request (I-12).
    pub message: String,
    /// Whether the driver's answer was nonsense: an answer that cannot be read, is too large, or says what cannot be; or
    /// whether another driver serves at its socket.
    pub lied: bool,
}

/// What is known about what a call has done.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum End {
    /// The driver has refused, in its own words, with a code after which nothing goes on (C-61); or the request was not
    /// fit to be sent (C-48). This call has left nothing behind. The same call again is likely to end the same.
    Final,
    /// Nothing was sent, for certain: there was no connection, and none could be made. This call has done nothing,
    /// and the driver is away. Told only while not one byte of the request can have left: otherwise it is
    /// [`End::Unknown`].
    NotSent,
    /// It may be done, may not be, or may still be going on: the driver said so (C-61), or nobody answered in time, or
    /// the connection broke, whatever code goes with that (C-171), or the answer was nonsense.
    Unknown,
}

impl End {
    /// What the driver's own word means (C-61).
    pub(crate) fn of(code: Code) -> Self {
        match code {
            Code::Cancelled | Code::DeadlineExceeded | Code::ResourceExhausted | Code::Aborted | Code::Unavailable => {
                Self::Unknown
            }
            Code::Ok
            | Code::Unknown
            | Code::InvalidArgument
            | Code::NotFound
            | Code::AlreadyExists
            | Code::PermissionDenied
            | Code::FailedPrecondition
            | Code::OutOfRange
            | Code::Unimplemented
            | Code::Internal
            | Code::DataLoss
            | Code::Unauthenticated => Self::Final,
        }
    }
}
