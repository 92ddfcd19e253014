//! What this kernel can do for us, found out once by asking it rather than by its version.
//!
//! Distributions carry calls back to older kernels, and sandboxes take calls away from newer ones.

use std::fmt;
use std::sync::OnceLock;

use linux_raw_sys::general as linux;
use rustix::fs::{AtFlags, CWD, Mode, OFlags, ResolveFlags, StatxFlags};
use rustix::io::Errno;
use rustix::mount::FsOpenFlags;

use crate::{raw, table};

/// Whether one thing works.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ability {
    /// It works.
    Present,
    /// The kernel does not know it.
    Missing,
    /// The kernel knows it, and refuses it to this process.
    Refused,
}

impl Ability {
    /// Whether it can be used.
    #[must_use]
    pub fn is_present(self) -> bool {
        self == Self::Present
    }

    fn of<T>(tried: &Result<T, Errno>) -> Self {
        match tried {
            Ok(_) => Self::Present,
            Err(Errno::PERM | Errno::ACCESS) => Self::Refused,
            Err(_) => Self::Missing,
        }
    }
}

/// What this kernel can do, for this process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Abilities {
    /// Paths that stay beneath a directory: `openat2`. Needed.
    pub openat2: Ability,
    /// File systems by the new mount calls: `fsopen`, `fsconfig`, `fsmount`. Needed to mount.
    pub fsopen: Ability,
    /// Attributes before a mount is visible: `mount_setattr`. Needed to bind mount read-only.
    pub mount_setattr: Ability,
    /// Mount ids that are not used again: `STATX_MNT_ID_UNIQUE`.
    pub unique_mount_ids: Ability,
    /// The mount table by call: `listmount`, and `statmount` with all that mountinfo tells.
    pub statmount: Ability,
    /// Events that name the mount: fanotify on a mount namespace.
    pub mount_events: Ability,
    /// tmpfs that is never swapped out. Refused in a user namespace.
    pub tmpfs_noswap: Ability,
}

impl Abilities {
    /// What the kernel that this process runs on can do; asked on the first call.
    pub fn of_this_kernel() -> &'static Self {
        static ONCE: OnceLock<Abilities> = OnceLock::new();
        ONCE.get_or_init(Self::probe)
    }

    /// Asks again. Changes nothing on the system.
    #[must_use]
    pub fn probe() -> Self {
        let unique = unique_id_of_root();
        // A change of nothing is accepted once the caller may mount at all.
        let mount_setattr = Ability::of(&raw::mount_setattr(CWD, "", AtFlags::EMPTY_PATH, &raw::MountAttr::default()));
        Self {
            openat2: Ability::of(&rustix::fs::openat2(
                CWD,
                ".",
                OFlags::PATH | OFlags::CLOEXEC,
                Mode::empty(),
                ResolveFlags::BENEATH,
            )),
            fsopen: Ability::of(&rustix::mount::fsopen("tmpfs", FsOpenFlags::FSOPEN_CLOEXEC)),
            mount_setattr,
            unique_mount_ids: Ability::of(&unique),
            statmount: Ability::of(&unique.and_then(full_statmount)),
            // To hear of the mounts of a namespace takes the right to mount there. Nothing is marked to try it: the kernel
            // takes its time to let go of a mark.
            mount_events: match Ability::of(&table::fanotify_group()) {
                Ability::Present => mount_setattr,
                other => other,
            },
            tmpfs_noswap: noswap(),
        }
    }

    /// Each ability by name, with the first kernel that has it.
    fn list(&self) -> [(&'static str, Ability, &'static str); 7] {
        [
            ("openat2", self.openat2, "5.6"),
            ("fsopen", self.fsopen, "5.2"),
            ("mount_setattr", self.mount_setattr, "5.12"),
            ("unique mount ids", self.unique_mount_ids, "6.8"),
            ("statmount", self.statmount, "6.13"),
            ("mount events", self.mount_events, "6.15"),
            ("tmpfs noswap", self.tmpfs_noswap, "6.4"),
        ]
    }
}

/// One line, for the log: `openat2 yes, fsopen yes, mount events no (since Linux 6.15), …`
impl fmt::Display for Abilities {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, (name, ability, since)) in self.list().into_iter().enumerate() {
            let comma = if index == 0 { "" } else { ", " };
            match ability {
                Ability::Present => write!(formatter, "{comma}{name} yes")?,
                Ability::Missing => write!(formatter, "{comma}{name} no (since Linux {since})")?,
                Ability::Refused => write!(formatter, "{comma}{name} not permitted")?,
            }
        }
        Ok(())
    }
}

fn unique_id_of_root() -> Result<u64, Errno> {
    let unique = StatxFlags::from_bits_retain(linux::STATX_MNT_ID_UNIQUE);
    let status = rustix::fs::statx(CWD, "/", AtFlags::STATX_DONT_SYNC, unique)?;
    if status.stx_mask & linux::STATX_MNT_ID_UNIQUE == 0 {
        return Err(Errno::OPNOTSUPP);
    }
    Ok(status.stx_mnt_id)
}

/// `statmount` came with Linux 6.8, the last field that we need (the source) with 6.13.
fn full_statmount(root: u64) -> Result<(), Errno> {
    raw::listmount(raw::LSMT_ROOT, 0, &mut [0])?;
    let mut buffer = Vec::new();
    let answer = raw::statmount(root, linux::STATMOUNT_SB_SOURCE.into(), &mut buffer)?;
    if answer.fixed.mask & u64::from(linux::STATMOUNT_SB_SOURCE) == 0 { Err(Errno::OPNOTSUPP) } else { Ok(()) }
}

/// Options are checked when they are set, so nothing needs to be mounted to know.
fn noswap() -> Ability {
    let context = match rustix::mount::fsopen("tmpfs", FsOpenFlags::FSOPEN_CLOEXEC) {
        Ok(context) => context,
        Err(errno) => return Ability::of::<()>(&Err(errno)),
    };
    match rustix::mount::fsconfig_set_flag(&context, "noswap") {
        Ok(()) => Ability::Present,
        // An unknown option and one that is refused in a user namespace are both EINVAL; the kernel's words differ.
        Err(_) => {
            let mut message = [0; 256];
            let length = rustix::io::read(&context, &mut message).unwrap_or(0);
            let refused = message[..length].windows(12).any(|it| it.eq_ignore_ascii_case(b"unprivileged"));
            if refused { Ability::Refused } else { Ability::Missing }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_report_names_what_is_missing_and_since_when_it_exists() {
        let abilities = Abilities {
            openat2: Ability::Present,
            fsopen: Ability::Refused,
            mount_setattr: Ability::Present,
            unique_mount_ids: Ability::Present,
            statmount: Ability::Missing,
            mount_events: Ability::Missing,
            tmpfs_noswap: Ability::Present,
        };
        assert_eq!(
            abilities.to_string(),
            "openat2 yes, fsopen not permitted, mount_setattr yes, unique mount ids yes, \
             statmount no (since Linux 6.13), mount events no (since Linux 6.15), tmpfs noswap yes"
        );
    }
}
