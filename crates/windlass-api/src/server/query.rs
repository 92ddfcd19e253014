//! What may stand after the question mark. Everything else is refused by name, so that a slip is not taken for an answer.

use std::time::Duration;

use axum::extract::{FromRequestParts, Query};
use axum::http::request::Parts;
use axum::response::{IntoResponse, Response};

use super::connections::Asker;
use super::places::Seat;
use super::routes::closing;
use crate::view::Status;

/// The longest watch that can be asked for by `timeoutSeconds`: a day.
pub(super) const SECONDS_MAX: u64 = 86_400;

/// A list that is asked for.
#[derive(Debug)]
pub(super) struct Listing {
    /// It is to be followed by its changes.
    pub(super) watch: Option<Watching>,
}

/// A watch that may begin.
#[derive(Debug)]
pub(super) struct Watching {
    /// For how long.
    pub(super) within: Option<Duration>,
    /// Its own until it ends.
    pub(super) place: Seat,
}

/// What a list may be asked for with.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
struct Asked {
    watch: bool,
    within: Option<Duration>,
}

impl Asked {
    fn read(pairs: Vec<(String, String)>) -> Result<Self, Status> {
        let (mut watch, mut seconds) = (None, None);
        for (name, value) in pairs {
            let twice = match name.as_str() {
                "watch" => watch.replace(truth(&value)?).is_some(),
                "timeoutSeconds" => seconds.replace(number(&value)?).is_some(),
                _ => return Err(unknown(&name, "watch and timeoutSeconds are")),
            };
            if twice {
                return Err(Status::bad_request(format!("the query parameter {name} is given twice")));
            }
        }
        Ok(Self { watch: watch.unwrap_or(false), within: seconds.map(Duration::from_secs) })
    }
}

impl<S: Send + Sync> FromRequestParts<S> for Listing {
    type Rejection = Response;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Response> {
        let asked = pairs(parts).and_then(Asked::read).map_err(IntoResponse::into_response);
        let Asked { watch, within } = asked?;
        if !watch {
            return Ok(Self { watch: None });
        }
        let asker = parts.extensions.get::<Asker>();
        let asker = asker.ok_or_else(|| Status::unavailable("it is not known who asks").into_response())?;
        // One that is turned away is not to keep a connection either.
        let place = asker.watch().map_err(closing)?;
        Ok(Self { watch: Some(Watching { within, place }) })
    }
}

/// Nothing may be asked for with it.
pub(super) struct Plain;

impl<S: Send + Sync> FromRequestParts<S> for Plain {
    type Rejection = Status;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Status> {
        match pairs(parts)?.first() {
            None => Ok(Self),
            Some((name, _)) => Err(unknown(name, "none is")),
        }
    }
}

/// A volume of a pod, by the pod's name for it: `volume`.
pub(super) struct OneVolume(pub(super) Option<String>);

impl<S: Send + Sync> FromRequestParts<S> for OneVolume {
    type Rejection = Status;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Status> {
        let mut volume = None;
        for (name, value) in pairs(parts)? {
            match name.as_str() {
                "volume" => volume = Some(value),
                _ => return Err(unknown(&name, "volume is")),
            }
        }
        Ok(Self(volume))
    }
}

fn pairs(parts: &Parts) -> Result<Vec<(String, String)>, Status> {
    let query = Query::try_from_uri(&parts.uri).map_err(|it| Status::bad_request(it.body_text()))?;
    Ok(query.0)
}

fn unknown(name: &str, known: &str) -> Status {
    Status::bad_request(format!("the query parameter {name:?} is not known here; {known}"))
}

fn truth(value: &str) -> Result<bool, Status> {
    match value {
        "true" => Ok(true),
        "false" => Ok(false),
        _ => Err(Status::bad_request(format!("the query parameter watch is {value:?}; it must be true or false"))),
    }
}

fn number(value: &str) -> Result<u64, Status> {
    let number = Some(value).filter(|it| it.bytes().all(|it| it.is_ascii_digit())).and_then(|it| it.parse().ok());
    number.filter(|it| (1..=SECONDS_MAX).contains(it)).ok_or_else(|| {
        let wrong = format!("the query parameter timeoutSeconds is {value:?}");
        Status::bad_request(format!("{wrong}; it must be a whole number from 1 to {SECONDS_MAX}"))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(pairs: &[(&str, &str)]) -> Result<Asked, String> {
        let pairs = pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
        Asked::read(pairs).map_err(|it| it.message.into())
    }

    #[test]
    fn a_watch_is_asked_for_by_name_and_for_a_time() {
        assert_eq!(read(&[]), Ok(Asked::default()));
        let within = Some(Duration::from_secs(7));
        assert_eq!(read(&[("watch", "true"), ("timeoutSeconds", "7")]), Ok(Asked { watch: true, within }));
    }

    #[test]
    fn what_is_not_known_or_makes_no_sense_is_named() {
        for (pairs, expected) in [
            (&[("wach", "true")][..], "the query parameter \"wach\" is not known here; watch and timeoutSeconds are"),
            (&[("watch", "yes")], "the query parameter watch is \"yes\"; it must be true or false"),
            (&[("watch", "true"), ("watch", "true")], "the query parameter watch is given twice"),
            (
                &[("timeoutSeconds", "+5")],
                "the query parameter timeoutSeconds is \"+5\"; it must be a whole number from 1 to 86400",
            ),
            (
                &[("timeoutSeconds", "")],
                "the query parameter timeoutSeconds is \"\"; it must be a whole number from 1 to 86400",
            ),
        ] {
            assert_eq!(read(pairs), Err(expected.to_owned()));
        }
    }
}
