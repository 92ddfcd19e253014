//! One thing that can be asked: where, what answers it, and how the document tells of it. The router and the document are
//! made from the same list, so neither has a path that the other lacks.

use axum::handler::Handler;
use axum::routing::{self, MethodFilter, MethodRouter};

use super::routes::Api;

/// A path and a method.
#[cfg_attr(not(test), expect(dead_code, reason = "the document is made by a test; only the route is needed to serve"))]
pub(super) struct Endpoint {
    pub(super) path: String,
    pub(super) route: MethodRouter<Api>,
    pub(super) method: Method,
    /// What generated clients call it.
    pub(super) id: &'static str,
    pub(super) summary: &'static str,
    pub(super) answer: Returns,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Method {
    /// Reads.
    Get,
    /// Takes something away; what is not so that it could be done is a conflict.
    Delete,
    /// Does something.
    Post,
}

/// What a good answer is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Returns {
    /// An object of this kind.
    One(&'static str),
    /// The same, for which mounts are looked at that may hang.
    Looked(&'static str),
    /// A list of this kind, which can be watched.
    List(&'static str),
    /// What is told of the server itself, by the name of its schema.
    About(&'static str),
    /// The document.
    Document,
    /// What is counted.
    Metrics,
}

impl Endpoint {
    /// What is at this path, answered by this handler.
    pub(super) fn new<H: Handler<T, Api>, T: 'static>(
        method: Method,
        path: impl Into<String>,
        handler: H,
        answer: Returns,
    ) -> Self {
        let filter = match method {
            Method::Get => MethodFilter::GET,
            Method::Delete => MethodFilter::DELETE,
            Method::Post => MethodFilter::POST,
        };
        Self { path: path.into(), route: routing::on(filter, handler), method, id: "", summary: "", answer }
    }

    /// How the document tells of it.
    pub(super) fn told(self, id: &'static str, summary: &'static str) -> Self {
        Self { id, summary, ..self }
    }
}
