//! The judge is judged: what must not happen is done by hand, and has to be noticed.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use rustix::mount::{MountFlags, UnmountFlags, mount, unmount};
use windlass_testing::daemon::Case;

use crate::life::{Life, Trouble};
use crate::schedule::{STEADY, Schedule};
use crate::world::{Kind, VERSION};

pub(crate) fn whatever_is_wrong_is_noticed() {
    let case = Case::new(crate::PROGRAM, "judge");
    let (life, daemon) = Life::begin(&case, Schedule::new(1, 0).world).unwrap_or_else(|Trouble(text)| panic!("{text}"));
    assert!(daemon.stop().success());
    let root = case.path("root");
    let steady = life.world.pods[STEADY].clone();
    let volume = |kind: Kind| root.join(steady.place(kind).unwrap());
    let differs = |text: &str| noticed(&life.differences(), text);
    let damaged = |text: &str| noticed(&life.damage(), text);
    let nothing = || assert_eq!((life.differences(), life.damage()), (Vec::new(), Vec::new()));
    nothing();

    let tmpfs = |at: &Path| mount("chaos", at, "tmpfs", MountFlags::empty(), None).unwrap();
    tmpfs(&volume(Kind::Memory));
    differs("is mounted 2 times");
    unmount(volume(Kind::Memory), UnmountFlags::empty()).unwrap();
    nothing();
    tmpfs(&volume(Kind::Disk));
    differs("mount left");
    damaged("was mounted again");
    unmount(volume(Kind::Disk), UnmountFlags::empty()).unwrap();

    let version = volume(Kind::Config).join(VERSION);
    fs::write(&version, "0").unwrap();
    differs("reads \"0\", not \"1\"");
    fs::write(&version, "1").unwrap();
    fs::set_permissions(&version, Permissions::from_mode(0o600)).unwrap();
    differs("has mode 600, not 644");
    fs::set_permissions(&version, Permissions::from_mode(0o644)).unwrap();
    fs::write(volume(Kind::Config).join("other"), "").unwrap();
    differs("\"other\"");
    fs::remove_file(volume(Kind::Config).join("other")).unwrap();
    nothing();

    fs::create_dir(root.join("pods/gone-1")).unwrap();
    differs("pod left: pods/gone-1");
    fs::remove_dir(root.join("pods/gone-1")).unwrap();
    let record = root.join("windlass/records").join(steady.record(Kind::Host));
    fs::rename(&record, record.with_extension("away")).unwrap();
    differs("record missing");
    differs("record left");
    fs::rename(record.with_extension("away"), &record).unwrap();
    nothing();

    let (data, copy) = (volume(Kind::Labels).join("..data"), volume(Kind::Labels).join("..other"));
    fs::rename(volume(Kind::Labels).join(fs::read_link(&data).unwrap()), &copy).unwrap();
    fs::remove_file(&data).unwrap();
    std::os::unix::fs::symlink("..other", &data).unwrap();
    damaged("was written again");
    fs::remove_dir_all(volume(Kind::Disk).join("deep")).unwrap();
    damaged("is lost");
    unmount(volume(Kind::Memory), UnmountFlags::empty()).unwrap();
    differs("mount missing");
    tmpfs(&volume(Kind::Memory));
    damaged("was mounted again");
}

fn noticed(told: &[String], text: &str) {
    assert!(told.iter().any(|it| it.contains(text)), "{text:?} is not among {told:#?}");
}
