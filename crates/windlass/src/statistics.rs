//! How full volumes are: what [`Node::statistics`](crate::Node::statistics) answers.

pub use crate::measuring::{Answer, Asked};
pub use crate::plugin::{Condition, Measure, Statistics};
