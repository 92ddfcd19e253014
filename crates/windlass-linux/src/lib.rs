//! What windlass needs of Linux: mounts, the mount table, paths that cannot escape, directories that change in one
//! step, removal that cannot delete data.
//!
//! Blocking calls and nothing else: no async, no threads but those of [`workers`] and [`ownership`], and no word of
//! Kubernetes. Whatever can hang on a dead server hangs the calling thread, so callers give it one of these. To read
//! it, start with [`table`], [`mount`] and [`safe_path`]; [`abilities`] says what all of it finds on this kernel.
//!
//! ```no_run
//! use windlass_linux::mount::{self, Extent, Tmpfs, UnmountPolicy};
//! use windlass_linux::name::Relative;
//! use windlass_linux::safe_path::{Mounts, Place};
//! use windlass_linux::table::Watch;
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let watch = Watch::begin()?;
//! let root = Place::root("/var/lib/example")?;
//! let target = root.make_directories(&Relative::new("volume", "cache")?, 0o750.into(), Mounts::Refuse)?;
//!
//! let small = Tmpfs { size_bytes: Some(1 << 20), ..Tmpfs::default() };
//! mount::tmpfs(&small)?.read_only(Extent::One)?.attach(&target)?;
//!
//! watch.catch_up()?;
//! let mount = watch.table().topmost(target.path()).cloned().ok_or("something unmounted it")?;
//! mount::unmount(&mount, UnmountPolicy::Clean)?;
//! # Ok(())
//! # }
//! ```
//!
//! Linux 5.12 is the oldest kernel that can do everything needed; newer ones do it better.

pub mod abilities;

pub mod holders;
pub mod mount;
pub mod table;

pub mod name;
pub mod path_error;
pub mod safe_path;

pub mod atomic_dir;
pub mod ownership;
pub mod remove;
pub mod watched_files;
pub mod whole_file;

pub mod block_map;
pub mod device;
pub mod format;
pub mod loop_device;
pub mod tools;

pub mod process;
pub mod usage;
pub mod workers;
pub mod working_directory;

pub mod raw;

#[doc(hidden)]
pub mod fuzzing;
