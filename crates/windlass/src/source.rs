//! Where pods and objects come from, for programs that do not have them themselves.

pub mod directory;
