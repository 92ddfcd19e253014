//! File systems that are mounted for the first time: `fsopen`, a `fsconfig` per option, `fsmount`.
//!
//! The kernel explains itself in messages that it leaves on the context; they are part of the error.

use std::ffi::OsString;
use std::os::fd::OwnedFd;

use rustix::fs::Mode;
use rustix::mount::{FsMountFlags, FsOpenFlags};

use super::options::{Options, Value};
use super::{Detached, Error};
use crate::abilities::Abilities;

/// Mounts a file system of any type the kernel has, without showing it anywhere yet.
///
/// `source` is the device, server or word that the type wants. The options are handed over one by one.
pub fn filesystem(kind: &str, source: impl Into<OsString>, options: &Options) -> Result<Detached, Error> {
    let context = Context::open(kind, options)?;
    let source = source.into();
    context.set("source", &Value::Plain(source.clone()))?;
    for (name, value) in &options.parameters {
        context.set(name, value)?;
    }
    context.create()?;
    let made = rustix::mount::fsmount(&context.fd, FsMountFlags::FSMOUNT_CLOEXEC, options.attributes);
    let fd = made.map_err(|source| Error::Make { kind: kind.into(), source })?;
    let what = if source == kind { kind.to_owned() } else { format!("{kind} {}", source.display()) };
    Ok(Detached { fd, what })
}

/// Whether memory of a tmpfs may be written to swap space.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Swap {
    /// It may.
    #[default]
    Allowed,
    /// It may not, where the kernel can promise that (Linux 6.4, outside user namespaces).
    AvoidedIfPossible,
    /// It may not; otherwise nothing is mounted.
    Refused,
}

/// A tmpfs. The default has the kernel's defaults: half of the memory, mode 1777, owned by who mounts it.
#[derive(Debug, Clone, Default)]
pub struct Tmpfs {
    /// The most that its files may hold.
    pub size_bytes: Option<u64>,
    /// The most files and directories that it may hold.
    pub inodes_max: Option<u64>,
    /// The mode of its root.
    pub mode: Option<Mode>,
    /// The owner of its root.
    pub uid: Option<u32>,
    /// The group of its root.
    pub gid: Option<u32>,
    /// Whether it may be swapped out.
    pub swap: Swap,
    /// Further options and attributes.
    pub options: Options,
}

/// Mounts a new, empty tmpfs, without showing it anywhere yet.
pub fn tmpfs(settings: &Tmpfs) -> Result<Detached, Error> {
    let mut options = settings.options.clone();
    let mut set = |name: &str, value: Option<String>| {
        options.parameters.extend(value.map(|it| (name.to_owned(), Value::Plain(it.into()))));
    };
    set("size", settings.size_bytes.map(|it| it.to_string()));
    set("nr_inodes", settings.inodes_max.map(|it| it.to_string()));
    set("mode", settings.mode.map(|it| format!("{:o}", it.as_raw_mode())));
    set("uid", settings.uid.map(|it| it.to_string()));
    set("gid", settings.gid.map(|it| it.to_string()));
    let avoid = match settings.swap {
        Swap::Allowed => false,
        Swap::AvoidedIfPossible => Abilities::of_this_kernel().tmpfs_noswap.is_present(),
        Swap::Refused => true,
    };
    if avoid {
        options.parameters.push(("noswap".into(), Value::None));
    }
    filesystem("tmpfs", "tmpfs", &options)
}

/// A file system that is being described to the kernel.
struct Context<'options> {
    fd: OwnedFd,
    kind: &'options str,
    /// For the secrets in it, which must not come back in a message.
    options: &'options Options,
}

impl<'options> Context<'options> {
    fn open(kind: &'options str, options: &'options Options) -> Result<Self, Error> {
        match rustix::mount::fsopen(kind, FsOpenFlags::FSOPEN_CLOEXEC) {
            Ok(fd) => Ok(Self { fd, kind, options }),
            Err(source) => Err(Error::Prepare { kind: kind.into(), source }),
        }
    }

    fn set(&self, name: &str, value: &Value) -> Result<(), Error> {
        let set = match value.as_text() {
            None => rustix::mount::fsconfig_set_flag(&self.fd, name),
            Some(text) => rustix::mount::fsconfig_set_string(&self.fd, name, text),
        };
        set.map_err(|source| Error::SetOption {
            kind: self.kind.into(),
            option: self.options.masked(name),
            log: self.log(),
            source,
        })
    }

    fn create(&self) -> Result<(), Error> {
        let created = rustix::mount::fsconfig_create(&self.fd);
        created.map_err(|source| Error::Create { kind: self.kind.into(), log: self.log(), source })
    }

    /// What the kernel left to say: `e message` for an error, `w` for a warning, `i` for information.
    fn log(&self) -> Vec<String> {
        // The kernel keeps the last eight messages.
        const MESSAGES_MAX: usize = 8;
        let mut messages = Vec::new();
        let mut buffer = [0; 1024];
        while messages.len() < MESSAGES_MAX {
            match rustix::io::read(&self.fd, &mut buffer) {
                Ok(0) => break,
                Ok(length) => {
                    let message = String::from_utf8_lossy(&buffer[..length]);
                    let kinds = ["e ", "w ", "i "];
                    let text = kinds.iter().find_map(|it| message.strip_prefix(it)).unwrap_or(&message);
                    messages.push(self.options.masked(text.trim_end()));
                }
                // ENODATA: that was all. EMSGSIZE: one is longer than the buffer, and stays in the way.
                Err(_) => break,
            }
        }
        messages
    }
}
