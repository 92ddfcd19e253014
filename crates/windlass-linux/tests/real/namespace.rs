//! Where the tests run: namespaces of their own, and an empty tmpfs over a directory that every system has.

use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};

use rustix::mount::{MountFlags, MountPropagationFlags, mount, mount_change};
use rustix::thread::UnshareFlags;
use windlass_linux::mount::{Detached, Tmpfs, tmpfs};
use windlass_linux::name::{Name, Relative};
use windlass_linux::safe_path::Place;
use windlass_linux::table::{Mount, MountId, Reader, identify};

/// Set for the copy of this program that stays outside and writes the id maps of the one that went inside.
const MAPS_FOR: &str = "WINDLASS_TEST_WRITE_MAPS_FOR";

/// Covered by a tmpfs in the tests' namespace, so nothing is written on this system's disk.
const BASE: &str = "/mnt";

/// How many user and group ids there are inside, if this is root. Everybody else may map one.
const IDS: u32 = 65_536;

/// Does the helper's work, if this process is the helper.
pub(crate) fn helped() -> bool {
    let Ok(process) = std::env::var(MAPS_FOR) else { return false };
    // End of input: the other process is in its namespace.
    std::io::stdin().read_to_end(&mut Vec::new()).unwrap();
    for map in ["uid_map", "gid_map"] {
        std::fs::write(format!("/proc/{process}/{map}"), format!("0 0 {IDS}")).unwrap();
    }
    true
}

/// Enters the namespaces, or says why that is not possible.
pub(crate) fn enter() -> Result<(), String> {
    let (user, group) = (rustix::process::geteuid().as_raw(), rustix::process::getegid().as_raw());
    // Only who is outside may map more than one id.
    let helper = (user == 0).then(|| {
        let mut command = Command::new("/proc/self/exe");
        command.env(MAPS_FOR, std::process::id().to_string()).stdin(Stdio::piped());
        command.spawn().expect("start a copy of this program")
    });
    unshare(UnshareFlags::NEWUSER | UnshareFlags::NEWNS)
        .map_err(|errno| format!("no user namespace can be made here: {errno}"))?;
    match helper {
        Some(mut helper) => {
            drop(helper.stdin.take());
            let ended = helper.wait().expect("wait for the copy of this program");
            assert!(ended.success(), "the id maps could not be written");
        }
        None => {
            let write = |file: &str, text: String| std::fs::write(format!("/proc/self/{file}"), text);
            write("setgroups", "deny".into()).map_err(|error| format!("setgroups: {error}"))?;
            write("uid_map", format!("0 {user} 1")).map_err(|error| format!("uid_map: {error}"))?;
            write("gid_map", format!("0 {group} 1")).map_err(|error| format!("gid_map: {error}"))?;
        }
    }
    mount_change("/", MountPropagationFlags::PRIVATE | MountPropagationFlags::REC)
        .map_err(|errno| format!("nothing can be mounted in a user namespace here: {errno}"))?;
    mount("tests", BASE, "tmpfs", MountFlags::empty(), None).map_err(|errno| format!("mount tmpfs on {BASE}: {errno}"))
}

#[expect(deprecated, reason = "the new one is unsafe for the sake of UnshareFlags::FILES, which is not used here")]
fn unshare(flags: UnshareFlags) -> rustix::io::Result<()> {
    rustix::thread::unshare(flags)
}

/// Whether other ids than our own can be used inside.
pub(crate) fn has_ids() -> bool {
    std::fs::read_to_string("/proc/self/uid_map").unwrap().contains(&IDS.to_string())
}

/// One test: a mount namespace that is its thread's alone (and of threads it starts), and a directory.
pub(crate) struct Case {
    directory: PathBuf,
    pub(crate) root: Place,
}

impl Case {
    pub(crate) fn new(name: &str) -> std::io::Result<Self> {
        // With FS goes the working directory, which threads share; the kernel wants both at once.
        unshare(UnshareFlags::NEWNS | UnshareFlags::FS)?;
        let directory = Path::new(BASE).join(name);
        std::fs::create_dir(&directory)?;
        let root = Place::root(&directory).map_err(std::io::Error::other)?;
        Ok(Self { directory, root })
    }

    pub(crate) fn path(&self, below: &str) -> PathBuf {
        self.directory.join(below)
    }

    /// Makes a directory and holds it open for its path alone.
    pub(crate) fn directory(&self, below: &str) -> Place {
        std::fs::create_dir_all(self.path(below)).unwrap();
        Place::root(self.path(below)).unwrap()
    }

    /// Makes a file.
    pub(crate) fn file(&self, below: &str, contents: &str) {
        std::fs::create_dir_all(self.path(below).parent().unwrap()).unwrap();
        std::fs::write(self.path(below), contents).unwrap();
    }

    pub(crate) fn read(&self, below: &str) -> String {
        std::fs::read_to_string(self.path(below)).unwrap()
    }

    /// Mounts an empty tmpfs on a directory, which is made.
    pub(crate) fn tmpfs(&self, below: &str) -> Place {
        a_tmpfs().attach(&self.directory(below)).unwrap()
    }

    /// The mount that is seen at a path.
    pub(crate) fn mounted(&self, below: &str) -> Option<Mount> {
        Reader::best().read().unwrap().topmost(&self.path(below)).map(|it| Mount::clone(it))
    }

    pub(crate) fn id(&self, below: &str) -> MountId {
        identify(Place::root(self.path(below)).unwrap()).unwrap()
    }
}

pub(crate) fn a_tmpfs() -> Detached {
    tmpfs(&Tmpfs::default()).unwrap()
}

pub(crate) fn name(value: &str) -> Name {
    Name::new("name", value).unwrap()
}

pub(crate) fn relative(value: &str) -> Relative {
    Relative::new("path", value).unwrap()
}

/// Starts a copy of this program, which then does what the environment says.
pub(crate) fn copy_of_this_program() -> Command {
    Command::new("/proc/self/exe")
}

/// Tells other threads to stop when it goes, also when it goes because an assertion failed: a scope waits for them.
pub(crate) struct Stopping<'stop>(pub(crate) &'stop AtomicBool);

impl Drop for Stopping<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}
