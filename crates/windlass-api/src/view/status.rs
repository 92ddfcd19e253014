//! How the API says no: an object that tells what is wrong, as Kubernetes has it.

use serde::{Deserialize, Serialize};

use super::API_VERSION;

/// Why a request was not answered with what it asked for.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct Status {
    /// [`API_VERSION`].
    #[cfg_attr(test, schemars(extend("const" = API_VERSION)))]
    pub api_version: Box<str>,
    /// `Status`.
    #[cfg_attr(test, schemars(extend("const" = "Status")))]
    pub kind: Box<str>,
    /// `Failure`.
    #[cfg_attr(test, schemars(extend("const" = "Failure")))]
    pub status: Box<str>,
    /// The status code of the response.
    #[cfg_attr(test, schemars(range(min = 400, max = 599)))]
    pub code: u16,
    /// What is wrong, as a word.
    #[cfg_attr(test, schemars(extend("enum" = ["BadRequest", "Forbidden", "NotFound", "MethodNotAllowed", "Conflict", "RequestTimeout", "RequestEntityTooLarge", "ServiceUnavailable", "Timeout"])))]
    pub reason: Box<str>,
    /// What is wrong, for people.
    pub message: Box<str>,
}

impl Status {
    fn new(code: u16, reason: &str, message: impl Into<Box<str>>) -> Self {
        Self {
            api_version: API_VERSION.into(),
            kind: "Status".into(),
            status: "Failure".into(),
            code,
            reason: reason.into(),
            message: message.into(),
        }
    }

    /// The request makes no sense.
    pub fn bad_request(message: impl Into<Box<str>>) -> Self {
        Self::new(400, "BadRequest", message)
    }

    /// The caller may not do that.
    pub fn forbidden(message: impl Into<Box<str>>) -> Self {
        Self::new(403, "Forbidden", message)
    }

    /// Things are not so that it could be done.
    pub fn conflict(message: impl Into<Box<str>>) -> Self {
        Self::new(409, "Conflict", message)
    }

    /// There is no such thing.
    pub fn not_found(message: impl Into<Box<str>>) -> Self {
        Self::new(404, "NotFound", message)
    }

    /// Nothing of the kind can be done there.
    pub fn method_not_allowed(message: impl Into<Box<str>>) -> Self {
        Self::new(405, "MethodNotAllowed", message)
    }

    /// The client took too long to send its request.
    pub fn request_timeout(message: impl Into<Box<str>>) -> Self {
        Self::new(408, "RequestTimeout", message)
    }

    /// The request is larger than any that makes sense.
    pub fn too_large(message: impl Into<Box<str>>) -> Self {
        Self::new(413, "RequestEntityTooLarge", message)
    }

    /// It may be another time.
    pub fn unavailable(message: impl Into<Box<str>>) -> Self {
        Self::new(503, "ServiceUnavailable", message)
    }

    /// Something that had to be looked at did not answer.
    pub fn timeout(message: impl Into<Box<str>>) -> Self {
        Self::new(504, "Timeout", message)
    }
}
