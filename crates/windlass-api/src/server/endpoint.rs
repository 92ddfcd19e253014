//! One thing that can be asked: where, what answers it, and how the document tells of it. The router and the document are
//! made from the same list, so neither has a path that the other lacks.

use axum::{
    handler::Handler,
    routing::{self, MethodRouter},
};

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
    pub(super) fn get<H: Handler<T, Api>, T: 'static>(
        path: impl Into<String>,
        id: &'static str,
        summary: &'static str,
        answer: Returns,
        handler: H,
    ) -> Self {
        Self { path: path.into(), route: routing::get(handler), method: Method::Get, id, summary, answer }
    }

    pub(super) fn delete<H: Handler<T, Api>, T: 'static>(
        path: impl Into<String>,
        id: &'static str,
        summary: &'static str,
        answer: Returns,
        handler: H,
    ) -> Self {
        Self { path: path.into(), route: routing::delete(handler), method: Method::Delete, id, summary, answer }
    }

    pub(super) fn post<H: Handler<T, Api>, T: 'static>(
        path: impl Into<String>,
        id: &'static str,
        summary: &'static str,
        answer: Returns,
        handler: H,
    ) -> Self {
        Self { path: path.into(), route: routing::post(handler), method: Method::Post, id, summary, answer }
    }
}
