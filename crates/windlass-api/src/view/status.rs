//! How the API says no: an object that tells what is wrong, as Kubernetes has it.

use axum::{
    Json,
    http::StatusCode,
    response::{IntoResponse, Response},
};
use serde::{Deserialize, Serialize};
use windlass::{node::Ended, view};

/// Why a request was not answered with what it asked for.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Status {
    pub(crate) api_version: Box<str>,
    /// `Status`.
    pub(crate) kind: Box<str>,
    /// `Failure`.
    pub(crate) status: Box<str>,
    /// The status code of the response.
    pub(crate) code: u16,
    /// What is wrong, as a word.
    pub(crate) reason: Box<str>,
    /// What is wrong, for people.
    pub(crate) message: Box<str>,
}

impl Status {
    fn new(code: StatusCode, reason: &str, message: impl Into<Box<str>>) -> Self {
        Self {
            api_version: view::API_VERSION.into(),
            kind: "Status".into(),
            status: "Failure".into(),
            code: code.as_u16(),
            reason: reason.into(),
            message: message.into(),
        }
    }

    /// The request makes no sense.
    pub(super) fn bad_request(message: impl Into<Box<str>>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, "BadRequest", message)
    }

    /// The caller may not do that.
    pub(super) fn forbidden(message: impl Into<Box<str>>) -> Self {
        Self::new(StatusCode::FORBIDDEN, "Forbidden", message)
    }

    /// Things are not so that it could be done.
    pub(super) fn conflict(message: impl Into<Box<str>>) -> Self {
        Self::new(StatusCode::CONFLICT, "Conflict", message)
    }

    pub(super) fn not_found(message: impl Into<Box<str>>) -> Self {
        Self::new(StatusCode::NOT_FOUND, "NotFound", message)
    }

    pub(super) fn method_not_allowed(message: impl Into<Box<str>>) -> Self {
        Self::new(StatusCode::METHOD_NOT_ALLOWED, "MethodNotAllowed", message)
    }

    /// The client took too long to send its request.
    pub(super) fn request_timeout(message: impl Into<Box<str>>) -> Self {
        Self::new(StatusCode::REQUEST_TIMEOUT, "RequestTimeout", message)
    }

    pub(super) fn too_large(message: impl Into<Box<str>>) -> Self {
        Self::new(StatusCode::PAYLOAD_TOO_LARGE, "RequestEntityTooLarge", message)
    }

    /// It may be another time.
    pub(super) fn unavailable(message: impl Into<Box<str>>) -> Self {
        Self::new(StatusCode::SERVICE_UNAVAILABLE, "ServiceUnavailable", message)
    }

    /// Something that had to be looked at did not answer.
    pub(super) fn timeout(message: impl Into<Box<str>>) -> Self {
        Self::new(StatusCode::GATEWAY_TIMEOUT, "Timeout", message)
    }
}

impl From<Ended> for Status {
    fn from(ended: Ended) -> Self {
        Self::unavailable(ended.to_string())
    }
}

impl IntoResponse for Status {
    fn into_response(self) -> Response {
        let code = StatusCode::from_u16(self.code).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        (code, Json(self)).into_response()
    }
}
