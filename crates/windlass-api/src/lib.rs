//! What windlass shows of a node.

pub mod view;
