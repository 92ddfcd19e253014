//! Where pods and objects come from, when nobody gives them one by one.

pub mod directory;
mod ledger;
