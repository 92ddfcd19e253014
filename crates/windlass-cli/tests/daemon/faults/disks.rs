//! Devices as persistent volumes: with another file system than is said, with a damaged one, with none.

use serde_json::{Value, json};
use windlass_testing::daemon::Case;
use windlass_testing::disk::{self, Disk, MEBIBYTE};

use super::{Fault, claim, claimed, put, web};

super::faults![
    a_device_with_another_file_system,
    an_empty_device_that_may_only_be_read,
    a_file_system_that_is_damaged,
    a_program_to_format_with_that_is_missing,
    a_type_of_file_system_that_cannot_be,
];

/// A device of zeroes. Where there is none to be had, that is said.
fn disk(case: &Case) -> Option<Disk> {
    match disk::possible() {
        Ok(()) => Some(Disk::new(&case.path("image"), 16 * MEBIBYTE)),
        Err(reason) => {
            eprintln!("skipped: {reason}");
            None
        }
    }
}

/// The volume has this type of file system, and then the right one; meanwhile the device may be mended.
fn is_named(case: &Case, fault: &Fault, disk: &Disk, kind: &str, pod: &Value, mend: impl Fn(&Disk)) {
    let volume =
        |kind: &str| claimed(json!({"local": {"path": disk.path, "fsType": kind}, "volumeMode": "Filesystem"}));
    let [wrong, claimed] = volume(kind);
    let [right, _] = volume("ext4");
    put(case, "disk.yaml", &[&wrong, &claimed]);
    put(case, "pod.yaml", &[pod]);
    let daemon = case.start();
    fault.is_named(case, "web", "data", &[]);
    mend(disk);
    put(case, "disk.yaml", &[&right, &claimed]);
    put(case, "pod.yaml", &[&web(claim())]);
    case.wait_mounted(&["web"]);
    case.take_away("pod.yaml", &["web"]);
    assert!(daemon.stop().success());
    assert!(case.mounts().is_empty());
}

fn a_device_with_another_file_system(case: &Case, fault: &Fault) {
    let Some(disk) = disk(case) else { return };
    disk.run("mkfs.ext4", &["-q"]);
    is_named(case, fault, &disk, "iso9660", &web(claim()), |_| {});
}

fn an_empty_device_that_may_only_be_read(case: &Case, fault: &Fault) {
    let Some(disk) = disk(case) else { return };
    let pod = web(json!({"persistentVolumeClaim": {"claimName": "data", "readOnly": true}}));
    is_named(case, fault, &disk, "ext4", &pod, |_| {});
}

fn a_file_system_that_is_damaged(case: &Case, fault: &Fault) {
    let Some(disk) = disk(case) else { return };
    disk.run("mkfs.ext4", &["-q"]);
    for request in ["clri <2>", "set_super_value state 0"] {
        disk.run("debugfs", &["-w", "-R", request]);
    }
    is_named(case, fault, &disk, "ext4", &web(claim()), |disk| drop(disk.run("mkfs.ext4", &["-q", "-F"])));
}

fn a_program_to_format_with_that_is_missing(case: &Case, fault: &Fault) {
    let Some(disk) = disk(case) else { return };
    is_named(case, fault, &disk, "no-such-type", &web(claim()), |_| {});
}

fn a_type_of_file_system_that_cannot_be(case: &Case, fault: &Fault) {
    let Some(disk) = disk(case) else { return };
    is_named(case, fault, &disk, "../../bin/sh", &web(claim()), |_| {});
}
