//! The mount namespace that a whole test program runs in.

use std::sync::atomic::{AtomicBool, Ordering};

use rustix::{
    mount::{MountFlags, MountPropagationFlags, mount, mount_change},
    thread::UnshareFlags,
};

/// Covered by a tmpfs in the tests' namespace, so nothing is written on this system's disk.
pub(crate) const BASE: &str = "/mnt";

/// Whether the tests have the rights of this system's root.
static PRIVILEGED: AtomicBool = AtomicBool::new(false);

/// Enters the namespace, or says why that is not possible.
pub(crate) fn enter() -> Result<(), String> {
    let (user, group) = (rustix::process::geteuid().as_raw(), rustix::process::getegid().as_raw());
    if user == 0 && unshare(UnshareFlags::NEWNS).is_ok() {
        PRIVILEGED.store(true, Ordering::Relaxed);
    } else {
        unshare(UnshareFlags::NEWUSER | UnshareFlags::NEWNS)
            .map_err(|errno| format!("no user namespace can be made here: {errno}"))?;
        let write = |file: &str, text: String| {
            std::fs::write(format!("/proc/self/{file}"), text).map_err(|error| format!("{file}: {error}"))
        };
        write("setgroups", "deny".into())?;
        write("uid_map", format!("0 {user} 1"))?;
        write("gid_map", format!("0 {group} 1"))?;
    }
    mount_change("/", MountPropagationFlags::PRIVATE | MountPropagationFlags::REC)
        .map_err(|errno| format!("nothing can be mounted here: {errno}"))?;
    mount("tests", BASE, "tmpfs", MountFlags::empty(), None).map_err(|errno| format!("mount tmpfs on {BASE}: {errno}"))
}

#[expect(deprecated, reason = "the new one is unsafe for the sake of UnshareFlags::FILES, which is not used here")]
pub(crate) fn unshare(flags: UnshareFlags) -> rustix::io::Result<()> {
    rustix::thread::unshare(flags)
}

/// Whether other ids than our own, device nodes and all file systems can be used. If not, says what is skipped.
pub(crate) fn privileged(what: &str) -> bool {
    let privileged = PRIVILEGED.load(Ordering::Relaxed);
    if !privileged {
        eprintln!("not root: skipped {what}");
    }
    privileged
}
