//! Namespaces in which tests mount what they like: nobody else sees it, and it is gone when the last process of them ends.

use std::io::{self, Read};
use std::process::Stdio;
use std::sync::atomic::{AtomicBool, Ordering};

use rustix::mount::{MountFlags, MountPropagationFlags, mount, mount_change};
use rustix::thread::UnshareFlags;

use crate::process::{Process, copy_of_this_program};

/// A directory that every system has. It is covered by a tmpfs in the tests' namespace, so nothing is written on this
/// system's disk.
pub const BASE: &str = "/mnt";

/// Whether the tests have the rights of this system's root.
static PRIVILEGED: AtomicBool = AtomicBool::new(false);

/// Enters a mount namespace with an empty [`BASE`], as anybody but root in a user namespace; or says why that is not
/// possible. There must be no other thread yet.
pub fn enter() -> Result<(), String> {
    if rustix::process::geteuid().is_root() && unshare(UnshareFlags::NEWNS).is_ok() {
        PRIVILEGED.store(true, Ordering::Relaxed);
    } else {
        enter_as_root_of_one()?;
    }
    cover().map_err(|errno| format!("nothing can be mounted here: {errno}"))
}

/// Whether other ids than our own, device nodes and all file systems can be used after [`enter`]. If not, says what is
/// skipped.
pub fn privileged(what: &str) -> bool {
    let privileged = PRIVILEGED.load(Ordering::Relaxed);
    if !privileged {
        eprintln!("not root: skipped {what}");
    }
    privileged
}

/// A user namespace in which this user is root, and there is nobody else.
fn enter_as_root_of_one() -> Result<(), String> {
    let (user, group) = (rustix::process::geteuid().as_raw(), rustix::process::getegid().as_raw());
    enter_user_namespace()?;
    let write = |file: &str, text: String| {
        std::fs::write(format!("/proc/self/{file}"), text).map_err(|error| format!("{file}: {error}"))
    };
    write("setgroups", "deny".into())?;
    write("uid_map", format!("0 {user} 1"))?;
    write("gid_map", format!("0 {group} 1"))
}

fn enter_user_namespace() -> Result<(), String> {
    let entered = unshare(UnshareFlags::NEWUSER | UnshareFlags::NEWNS);
    entered.map_err(|errno| format!("no user namespace can be made here: {errno}"))
}

/// Set for the copy of this program that stays outside and writes the id maps of the one that went inside.
const MAPS_FOR: &str = "WINDLASS_TEST_WRITE_MAPS_FOR";

/// How many user and group ids there are inside, if this is root. Everybody else may map one.
const IDS: u32 = 65_536;

/// The same as [`enter`] but in a user namespace for everybody, so that root's tests see what others' see. Root has many ids
/// in it, for which a copy of this program is started: its `main` must ask [`wrote_maps`] first.
pub fn enter_as_anybody() -> Result<(), String> {
    if rustix::process::geteuid().is_root() {
        // Only who is outside may map more than one id.
        let mut command = copy_of_this_program();
        let mut copy = Process::start(command.env(MAPS_FOR, std::process::id().to_string()).stdin(Stdio::piped()));
        enter_user_namespace()?;
        drop(copy.0.stdin.take());
        let ended = copy.0.wait().expect("wait for the copy of this program");
        assert!(ended.success(), "the id maps could not be written");
    } else {
        enter_as_root_of_one()?;
    }
    cover().map_err(|errno| format!("nothing can be mounted in a user namespace here: {errno}"))
}

/// Does the work of the copy that writes id maps, if this process is the copy.
pub fn wrote_maps() -> bool {
    let Ok(process) = std::env::var(MAPS_FOR) else { return false };
    // End of input: the other process is in its namespace.
    io::stdin().read_to_end(&mut Vec::new()).expect("read standard input");
    for map in ["uid_map", "gid_map"] {
        std::fs::write(format!("/proc/{process}/{map}"), format!("0 0 {IDS}")).expect("write an id map");
    }
    true
}

/// Whether other ids than our own can be used after [`enter_as_anybody`].
pub fn has_ids() -> bool {
    std::fs::read_to_string("/proc/self/uid_map").expect("read the id map").contains(&IDS.to_string())
}

/// Gives the calling thread, and threads that it starts, a mount namespace of its own.
pub fn separate() {
    // With FS goes the working directory, which threads share; the kernel wants both at once.
    unshare(UnshareFlags::NEWNS | UnshareFlags::FS).expect("a mount namespace for this thread");
}

/// The same, with an empty [`BASE`]: for programs that have not entered a namespace as a whole. Needs root.
pub fn separate_with_base() {
    separate();
    cover().expect("a tmpfs for this thread");
}

fn cover() -> rustix::io::Result<()> {
    mount_change("/", MountPropagationFlags::PRIVATE | MountPropagationFlags::REC)?;
    mount("tests", BASE, "tmpfs", MountFlags::empty(), None)
}

#[expect(deprecated, reason = "the new one is unsafe for the sake of UnshareFlags::FILES, which is not used here")]
fn unshare(flags: UnshareFlags) -> rustix::io::Result<()> {
    rustix::thread::unshare(flags)
}
