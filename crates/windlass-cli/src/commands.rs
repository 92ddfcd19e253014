//! The verbs, a file each.

pub(crate) mod claims;
pub(crate) mod completion;
pub(crate) mod delete;
pub(crate) mod describe;
pub(crate) mod events;
pub(crate) mod explain;
pub(crate) mod get;
pub(crate) mod judge;
pub(crate) mod lookup;
pub(crate) mod man;
pub(crate) mod mounts;
pub(crate) mod retry;
pub(crate) mod tree;
pub(crate) mod usage;
pub(crate) mod validate;
pub(crate) mod version;
pub(crate) mod wait;
