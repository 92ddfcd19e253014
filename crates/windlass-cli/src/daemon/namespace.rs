//! Without the right to mount: a user and a mount namespace of our own, in which there is that right.
//!
//! Only files of this user can be owned there, and only the kernel's own kinds of file systems mounted; whatever else a
//! volume needs is refused by the kernel and told with that reason. Others see the mounts by entering the namespaces.

use std::fs;

use anyhow::{Context, anyhow};
use rustix::thread::{CapabilitySet, UnshareFlags};

/// What helps where user namespaces are not to be had.
const HINT: &str = "run windlass as root, or allow user namespaces: on Ubuntu `sysctl \
    kernel.apparmor_restrict_unprivileged_userns=0`, on old kernels `sysctl kernel.unprivileged_userns_clone=1`, in a \
    container start that with the right to mount (for example --privileged)";

/// Whether this process may mount.
pub(crate) fn may_mount() -> bool {
    rustix::thread::capabilities(None).is_ok_and(|it| it.effective.contains(CapabilitySet::SYS_ADMIN))
}

/// Enters the namespaces. The process must have one thread.
pub(crate) fn enter() -> anyhow::Result<()> {
    let (user, group) = (rustix::process::geteuid().as_raw(), rustix::process::getegid().as_raw());
    unshare(UnshareFlags::NEWUSER | UnshareFlags::NEWNS)
        .map_err(|errno| anyhow!("this process may not mount, and may not make a user namespace ({errno}): {HINT}"))?;
    let write = |file: &str, text: String| {
        fs::write(format!("/proc/self/{file}"), text).with_context(|| format!("write /proc/self/{file}: {HINT}"))
    };
    // user_namespaces(7): without this no group may be mapped.
    write("setgroups", "deny".into())?;
    write("uid_map", format!("0 {user} 1"))?;
    write("gid_map", format!("0 {group} 1"))?;
    // AppArmor on Ubuntu lets the namespace be made and takes its rights away.
    if !may_mount() {
        return Err(anyhow!("a user namespace was made, and there is no right to mount in it: {HINT}"));
    }
    Ok(())
}

#[expect(deprecated, reason = "the new one is unsafe for the sake of UnshareFlags::FILES, which is not used here")]
fn unshare(flags: UnshareFlags) -> rustix::io::Result<()> {
    rustix::thread::unshare(flags)
}
