//! Service account tokens: what is asked for, who gives it, and how long it is used.
//!
//! A [`Provider`] gives tokens: an API server, or a key of our own ([`LocalIssuer`]). A [`Cache`] before it asks for a
//! token once and again in time before it expires. Tokens are kept in memory only and never printed (I-12).

use std::sync::Arc;
use std::time::{Duration, SystemTime};
use std::{error, fmt};
use windlass_core::ids::PodUid;

pub(crate) mod cache;
mod command;
mod local;

pub(crate) use cache::Cache;
pub use command::Program;
pub use local::{KeyError, LocalIssuer};

/// How long a token lives if nobody says, in seconds (P-125).
pub const EXPIRATION_SECONDS_DEFAULT: i64 = 3600;

/// What the API takes as the life of a token, in seconds (P-125).
pub const EXPIRATION_SECONDS: std::ops::RangeInclusive<i64> = 600..=1 << 32;

/// Which token is asked for. Two requests that are equal are for the same token (P-288).
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Request {
    /// The namespace of the pod and of its service account.
    pub namespace: String,
    /// The service account; empty if the pod names none.
    pub service_account: String,
    /// Whom the token is for; whom the provider has it for, if there are none.
    pub audiences: Vec<String>,
    /// How long it should live.
    pub expiration_seconds: i64,
    /// The pod it is bound to, by name.
    pub pod_name: String,
    /// The pod it is bound to, by UID.
    pub pod_uid: PodUid,
}

/// A token. Prints without its text (I-12).
#[derive(Clone, PartialEq, Eq)]
pub struct Token {
    text: Arc<str>,
    issued: SystemTime,
    expires: SystemTime,
}

impl Token {
    /// A token with the time from which and the time until which it counts. A provider whose answer does not say when
    /// it was issued takes the time it expires less the time it was asked to live.
    pub fn new(text: &str, issued: SystemTime, expires: SystemTime) -> Self {
        Self { text: text.into(), issued, expires }
    }

    /// The token itself: secret.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// When it was issued.
    pub fn issued(&self) -> SystemTime {
        self.issued
    }

    /// From when on it is worth nothing.
    pub fn expires(&self) -> SystemTime {
        self.expires
    }

    /// How long it lives altogether.
    fn life(&self) -> Duration {
        self.expires.duration_since(self.issued).unwrap_or_default()
    }
}

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { text: _, issued, expires } = self;
        f.debug_struct("Token").field("issued", issued).field("expires", expires).finish_non_exhaustive()
    }
}

/// Why there is no token. The texts say what is not in their source; [`Error::text`] has all of it.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// Nobody gives tokens here: neither an API server nor a key is configured.
    #[error("no provider of service account tokens is configured")]
    NoProvider,
    /// The provider said no, or could not be asked. The words are its own.
    #[error("{text}")]
    Provider {
        /// What it said.
        text: String,
    },
    /// The life that was asked for is none that the API takes.
    #[error("expirationSeconds is {seconds}, and must be from 600 to 4294967296")]
    Life {
        /// What was asked for.
        seconds: i64,
    },
    /// The token could not be signed.
    #[error("sign a token for service account {namespace}/{service_account}")]
    Sign {
        /// The namespace.
        namespace: String,
        /// The service account.
        service_account: String,
    },
    /// There was no token yet, and there is none now (P-290).
    #[error("failed to fetch token")]
    Fetch {
        /// Why.
        #[source]
        source: Box<Error>,
    },
    /// There was a token; it has expired, and there is no other (P-290).
    #[error("token of service account {namespace}/{service_account} expired and refresh failed")]
    Expired {
        /// The namespace.
        namespace: String,
        /// The service account.
        service_account: String,
        /// Why.
        #[source]
        source: Box<Error>,
    },
}

impl Error {
    /// Is it for whoever gives tokens, or should, to mend? Otherwise what was asked for cannot be.
    pub fn is_the_providers(&self) -> bool {
        match self {
            Self::NoProvider | Self::Provider { .. } | Self::Sign { .. } => true,
            Self::Life { .. } => false,
            Self::Fetch { source } | Self::Expired { source, .. } => source.is_the_providers(),
        }
    }

    /// All of it on one line: this error and what it comes from.
    pub fn text(&self) -> String {
        let mut text = self.to_string();
        let mut source = error::Error::source(self);
        while let Some(it) = source {
            text = format!("{text}: {it}");
            source = it.source();
        }
        text
    }
}

/// Gives tokens. It may block: it is called where waiting holds up only the volume that wants the token (I-6).
pub trait Provider: Send + Sync {
    /// A token for this request, issued at `now` or soon after. It may live for less time than was asked for.
    fn token(&self, request: &Request, now: SystemTime) -> Result<Token, Error>;
}

impl<P: Provider + ?Sized> Provider for Arc<P> {
    fn token(&self, request: &Request, now: SystemTime) -> Result<Token, Error> {
        (**self).token(request, now)
    }
}

/// Nobody gives tokens: whatever needs one waits until somebody does ([`Error::NoProvider`]).
#[derive(Clone, Copy, Debug)]
pub struct NoProvider;

impl Provider for NoProvider {
    fn token(&self, _: &Request, _: SystemTime) -> Result<Token, Error> {
        Err(Error::NoProvider)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// I-12.
    #[test]
    fn what_is_printed_does_not_tell_the_token() {
        let token = Token::new("hunter2", SystemTime::UNIX_EPOCH, SystemTime::UNIX_EPOCH);
        assert!(!format!("{token:?}").contains("hunter2"));
        assert_eq!(token.text(), "hunter2");
    }

    #[test]
    fn an_error_tells_what_it_comes_from() {
        let source = Box::new(Error::Provider { text: "serviceaccounts \"robot\" not found".into() });
        let error = Error::Fetch { source };
        assert_eq!(error.text(), "failed to fetch token: serviceaccounts \"robot\" not found");
        assert_eq!(Error::NoProvider.text(), Error::NoProvider.to_string());
    }

    #[test]
    fn it_is_known_who_must_mend_an_error() {
        let fetch = |source| Error::Fetch { source: Box::new(source) };
        assert!(fetch(Error::Provider { text: "the vault is sealed".into() }).is_the_providers());
        assert!(!fetch(Error::Life { seconds: 1 }).is_the_providers());
    }
}
