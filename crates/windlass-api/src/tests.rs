//! What only tests need.

pub(crate) mod openapi;
