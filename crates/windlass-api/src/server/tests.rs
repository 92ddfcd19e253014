//! Tests of the server as a whole.

mod document;
