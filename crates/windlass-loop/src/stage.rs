//! Making a volume ready on this node: its image becomes a device, and a file system on it is mounted.
//!
//! The loop device of a file system clears itself with the last mount of it, so a kill between the two leaves none. That of
//! a raw device cannot, because a device that nobody has open would be gone; it is in the record before it is there.

use std::num::NonZero;
use std::path::Path;

use tonic::Status;
use windlass_linux::format::{self, Access, Fit, Patience, Prepared};
use windlass_linux::loop_device::{self, Settings};
use windlass_linux::mount::{self, Options};
use windlass_linux::ownership::{self, Control, Wanted, When};
use windlass_linux::safe_path::Place;

use crate::capability::{DEFAULT_FILESYSTEM, Wish};
use crate::disk::{self, Loops};
use crate::grow;
use crate::record::{Content, Record, Stage, Use};
use crate::store::{Store, internal, told};

/// Stages a volume.
pub fn stage(store: &Store, record: &mut Record, asked: &str, wish: Wish) -> Result<(), Status> {
    let spot = disk::directory(asked)?;
    let loops = Loops::of(store, record)?;
    if let Some(staged) = record.staged.clone() {
        if !staged.spot.is(asked, Some(&spot.path)) {
            let there = staged.spot.path.display();
            return Err(Status::failed_precondition(format!("the volume is staged at {there} already")));
        }
        let same = (&staged.usage, staged.read_only) == (&wish.usage, wish.read_only);
        if staged.done && is_there(&staged, &loops)? {
            return if same {
                Ok(())
            } else {
                Err(Status::already_exists(format!("the volume is staged at {asked} in another way")))
            };
        }
        if !same {
            undo(store, record)?;
        }
    }
    record.staged = Some(Stage { spot, usage: wish.usage, read_only: wish.read_only, done: false });
    store.save(record)?;
    match make(store, record) {
        Ok(()) => {
            if let Some(staged) = &mut record.staged {
                staged.done = true;
            }
            store.save(record)
        }
        Err(status) => {
            // A refusal leaves nothing behind. What does not go now is found by the record.
            if let Err(error) = undo(store, record) {
                tracing::warn!(volume = record.id, error = error.message(), "what a failed stage left is still there");
            }
            Err(status)
        }
    }
}

fn make(store: &Store, record: &mut Record) -> Result<(), Status> {
    let Some(Stage { spot, usage, read_only, .. }) = record.staged.clone() else { return Ok(()) };
    match usage {
        Use::Mount { filesystem, flags, group } => {
            mount(store, record, &spot.path, &Mounting { filesystem, flags, group, read_only })
        }
        Use::Block => {
            if matches!(record.content, Content::Empty | Content::Formatting) {
                record.content = Content::Raw;
                store.save(record)?;
            }
            disk::attach_raw(store, record, read_only).map(drop)
        }
    }
}

/// Whether what was staged is still there.
pub(crate) fn is_there(staged: &Stage, loops: &Loops) -> Result<bool, Status> {
    match staged.usage {
        Use::Mount { .. } => Ok(disk::ours_at(&staged.spot.path, loops)?.is_some()),
        Use::Block => Ok(loops.base.iter().any(|it| !it.autoclear)),
    }
}

/// Takes a staged volume away. That it is not staged is success.
pub fn unstage(store: &Store, record: &mut Record, asked: &str) -> Result<(), Status> {
    let Some(staged) = &record.staged else { return Ok(()) };
    let path = disk::directory(asked).ok().map(|it| it.path);
    if !staged.spot.is(asked, path.as_deref()) {
        // The orchestrator is at odds with itself; what it means is not staged.
        return Ok(());
    }
    if let Some(published) = record.published.first() {
        let there = published.spot.path.display();
        return Err(Status::failed_precondition(format!("the volume is still published at {there}")));
    }
    undo(store, record)
}

/// Takes away what is there of a stage, all or in part.
pub(crate) fn undo(store: &Store, record: &mut Record) -> Result<(), Status> {
    let Some(staged) = &record.staged else { return Ok(()) };
    let loops = Loops::of(store, record)?;
    if let Use::Mount { .. } = staged.usage {
        disk::unmount(&staged.spot.path, &loops)?;
    }
    // That of a file system went with its mount, unless somebody else has it open for a moment.
    loops.detach()?;
    record.staged = None;
    store.save(record)
}

/// How a file system is to be mounted.
pub(crate) struct Mounting {
    /// Which; empty for whatever is there.
    pub(crate) filesystem: String,
    /// Mount options.
    pub(crate) flags: Vec<String>,
    /// The group that it is given to.
    pub(crate) group: Option<u32>,
    /// It cannot be written.
    pub(crate) read_only: bool,
}

/// Mounts the file system of a volume; it is made if there was never anything. That it is mounted there is success.
pub(crate) fn mount(store: &Store, record: &mut Record, at: &Path, how: &Mounting) -> Result<(), Status> {
    let loops = Loops::of(store, record)?;
    if disk::ours_at(at, &loops)?.is_none() {
        disk::release(store, record, &loops)?;
        mount_anew(store, record, at, how)?;
    }
    if let Some(group) = how.group
        && !how.read_only
    {
        give(at, group)?;
    }
    Ok(())
}

fn mount_anew(store: &Store, record: &mut Record, at: &Path, how: &Mounting) -> Result<(), Status> {
    let patience = Patience::default();
    let settings = Settings { read_only: how.read_only, autoclear: true };
    let attached = loop_device::attach(&store.image(record)?, settings).map_err(internal)?;
    let device = attached.device().path();
    let named = [&how.filesystem, &record.filesystem].into_iter().find(|it| !it.is_empty());
    let wanted = named.map_or(DEFAULT_FILESYSTEM, String::as_str).to_owned();
    let access = if how.read_only { Access::ReadOnly } else { Access::ReadWrite };
    let prepared = match &record.content {
        Content::Formatted { kind, .. } if !how.filesystem.is_empty() && how.filesystem != *kind => {
            return Err(Status::failed_precondition(format!(
                "the volume holds {kind}, and {} was asked for",
                how.filesystem
            )));
        }
        Content::Formatted { kind, .. } => format::prepare(&device, kind, access, patience).map_err(refused)?,
        // Somebody may have put anything on it: only what is blank is formatted.
        Content::Raw => {
            let prepared = format::prepare(&device, &wanted, access, patience).map_err(refused)?;
            if prepared.fit == Fit::Wanted && !how.read_only {
                formatted(store, record, &wanted)?;
            }
            prepared
        }
        Content::Empty | Content::Formatting if how.read_only => {
            return Err(Status::failed_precondition(
                "the volume is empty and cannot be written, so there is nothing to mount",
            ));
        }
        Content::Empty | Content::Formatting => {
            record.content = Content::Formatting;
            store.save(record)?;
            format::make(&device, &wanted, patience).map_err(refused)?;
            formatted(store, record, &wanted)?;
            Prepared { device: device.clone(), kind: wanted, formatted: true, fit: Fit::Wanted, notes: Vec::new() }
        }
    };
    for note in &prepared.notes {
        tracing::warn!(volume = record.id, %note, "the file system was checked");
    }
    if access == Access::ReadWrite {
        grow::before_mount(store, record, &device)?;
    }
    let mut options = Options::parse(&how.flags);
    if how.read_only {
        options = Options::parse(how.flags.iter().map(String::as_str).chain(["ro"]));
    }
    let made = prepared.mount(&options).map_err(refused)?;
    let root = made.attach(&Place::root(at).map_err(internal)?).map_err(internal)?;
    // Held by its mount from here on.
    drop(root);
    let _ = attached.keep();
    Ok(())
}

fn formatted(store: &Store, record: &mut Record, kind: &str) -> Result<(), Status> {
    record.content = Content::Formatted { kind: kind.to_owned(), size_bytes: record.capacity_bytes };
    store.save(record)
}

/// What it means that a file system cannot be used.
fn refused(error: format::Error) -> Status {
    match &error {
        format::Error::Mount { source, .. } if matches!(**source, mount::Error::SetOption { .. }) => {
            Status::invalid_argument(told(&error))
        }
        format::Error::FilesystemMismatch { .. } | format::Error::UnformattedReadOnly { .. } => {
            Status::failed_precondition(told(&error))
        }
        _ => internal(error),
    }
}

/// Gives a file system to a group.
fn give(at: &Path, group: u32) -> Result<(), Status> {
    let root = Place::root(at).map_err(internal)?;
    let wanted = Wanted { group, access: ownership::Access::ReadWrite, when: When::OnRootMismatch };
    let summary = ownership::apply(&root, &wanted, NonZero::<usize>::MIN, &Control::default()).map_err(internal)?;
    match summary.failures.first() {
        None => Ok(()),
        Some(failure) => Err(internal(failure.clone())),
    }
}
