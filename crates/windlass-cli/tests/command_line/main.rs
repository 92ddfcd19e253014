//! The real program against a daemon that answers what it is told to: what is printed, where, and with which exit status.
//!
//! The fake stands below the client: it speaks HTTP on a socket, so everything above is as it is in use.

mod daemon;
mod describe;
mod explain;
mod get;
mod judge;
mod mounts;
mod objects;
mod program;
mod reach;
mod tree;
mod usage;
mod wait;
mod watch;
