//! `windlass-loop`: a small CSI driver whose volumes are sparse files on loop devices, with ext4 or xfs on them or raw.
//!
//! It is a whole driver (identity, controller, node and registration), made to be looked into: a volume is one image and
//! one record below the state directory, and nothing else is remembered. All calls are idempotent, one at a time for each
//! volume. A record of what is about to be done is written before it is done, so a process that is killed at any moment
//! leaves nothing that the next one, or the next call, does not find ([`recover`]).
//!
//! To read it, start with [`record`] and [`store`], then [`stage`] and [`publish`]; [`controller`] and [`node`] are what
//! CSI asks, [`serve`] the sockets. README.md says how to run it.

pub mod size;

pub mod record;
pub mod store;

pub mod capability;
pub mod disk;
pub mod stage;

pub mod publish;

pub mod grow;
pub mod health;

pub mod recover;

pub mod driver;

pub mod controller;
pub mod identity;
pub mod node;
pub mod registration;

pub mod serve;
