//! Who may change something: root, and the user whose daemon it is. Whoever may open the socket may read; its group is made
//! of those who are to see.

use axum::extract::FromRequestParts;
use axum::http::request::Parts;

use super::connections::Asker;
use crate::view::Status;

/// That the caller may change something; asked for by whatever does.
pub(super) struct MayChange;

impl<S: Send + Sync> FromRequestParts<S> for MayChange {
    type Rejection = Status;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Status> {
        match parts.extensions.get::<Asker>().map(Asker::user) {
            Some(user) if user == 0 || user == rustix::process::geteuid().as_raw() => Ok(Self),
            Some(_) | None => {
                Err(Status::forbidden("only root, and the user whose daemon this is, may change something; use sudo"))
            }
        }
    }
}
