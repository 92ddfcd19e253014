//! Real file systems on real devices (T-40, P-262, P-263).

use std::io::{Read, Write};
use std::path::Path;
use std::time::Duration;

use windlass_linux::format::{
    self, Access, Error, Fit, Format, Grown, Note, Patience, Prepared, check, detect, grow, prepare,
};
use windlass_linux::loop_device::{self, Settings};
use windlass_linux::mount::Options;
use windlass_linux::{device, tools};
use windlass_testing::disk::{Disk, MEBIBYTE};
use windlass_testing::harness::RESIZE;

use crate::case::Case;

crate::tests!(
    an_empty_device_is_formatted_once("blkid", "mkfs.ext4", "fsck", "debugfs"),
    an_ext3_is_made_without_reserve_and_mounts_as_ext4("blkid", "mkfs.ext3", "fsck", "debugfs"),
    an_xfs_is_made_and_mounted("blkid", "mkfs.xfs"),
    other_types_are_made_without_arguments("blkid", "mkfs.ext2"),
    an_empty_device_is_not_formatted_to_be_read("blkid"),
    a_partition_table_is_never_formatted("blkid"),
    a_device_that_cannot_be_read_is_never_formatted("blkid"),
    a_device_with_two_marks_is_never_formatted("blkid", "mkfs.xfs"),
    another_type_is_told_when_it_cannot_be_mounted("blkid", "mkfs.xfs"),
    errors_that_can_be_corrected_are("blkid", "mkfs.ext4", "fsck", "debugfs"),
    errors_that_cannot_be_corrected_are_an_error("blkid", "mkfs.ext4", "fsck", "debugfs"),
    what_is_read_only_is_not_repaired("blkid", "mkfs.ext4", "debugfs"),
    a_type_without_a_check_is_mounted("mkfs.xfs", "fsck"),
    a_format_that_is_cut_off_is_done_again("blkid", "mkfs.ext4"),
    a_missing_program_is_named("blkid"),
    a_mounted_ext4_grows_with_its_device(RESIZE, "blkid", "mkfs.ext4", "resize2fs", "losetup"),
    an_ext4_grows_with_its_device("blkid", "mkfs.ext4", "resize2fs", "losetup"),
    an_xfs_grows_with_its_device("blkid", "mkfs.xfs", "xfs_growfs", "losetup"),
    a_btrfs_grows_with_its_device("blkid", "mkfs.btrfs", "btrfs", "losetup"),
    what_cannot_grow_is_told_apart("blkid", "mkfs.ext2", "mkfs.ext4"),
);

/// The smallest that mkfs.xfs takes is 300 MiB.
const XFS: u64 = 320 * MEBIBYTE;

fn write_at(path: &Path, offset: u64, bytes: &[u8]) {
    use std::os::unix::fs::FileExt;
    let file = std::fs::File::options().write(true).open(path).unwrap();
    file.write_all_at(bytes, offset).unwrap();
    file.sync_all().unwrap();
}

/// A partition table with one partition.
fn partition_table() -> Vec<u8> {
    let mut sector = vec![0; 512];
    sector[446..462].copy_from_slice(&[0, 0, 0, 0, 0x83, 0, 0, 0, 0, 8, 0, 0, 0, 16, 0, 0]);
    sector[510..].copy_from_slice(&[0x55, 0xaa]);
    sector
}

fn contents(path: &Path) -> Vec<u8> {
    let mut bytes = Vec::new();
    std::fs::File::open(path).unwrap().take(MEBIBYTE).read_to_end(&mut bytes).unwrap();
    bytes
}

fn prepare_to_write(case: &Case, disk: &Disk, kind: &str) -> Prepared {
    prepare(&disk.path, kind, Access::ReadWrite, case.patience).unwrap()
}

fn reserved_blocks(disk: &Disk) -> String {
    let stats = disk.run("debugfs", &["-R", "show_super_stats -h"]).stdout;
    let line = stats.lines().find_map(|it| it.strip_prefix("Reserved block count:"));
    line.unwrap_or_else(|| panic!("{stats}")).trim().to_owned()
}

fn an_empty_device_is_formatted_once(case: &Case) {
    let disk = case.disk("image", 16 * MEBIBYTE);
    assert_eq!(detect(&disk.path, case.patience).unwrap(), Format::None);
    let prepared = prepare_to_write(case, &disk, "");
    assert!(prepared.formatted);
    assert_eq!((prepared.kind.as_str(), &prepared.fit), ("ext4", &Fit::Wanted));
    assert_eq!(detect(&disk.path, case.patience).unwrap(), Format::Filesystem("ext4".into()));
    assert_eq!(reserved_blocks(&disk), "0");
    case.mount(prepared.mount(&Options::parse(["noatime", "defaults"])).unwrap(), "a");
    assert_eq!(case.mounted("a").unwrap().attribute_words(), "rw,noatime");
    std::fs::write(case.path("a/file"), "kept").unwrap();
    case.unmount_cleanly("a");
    let again = prepare_to_write(case, &disk, "ext4");
    assert_eq!((again.formatted, &again.notes[..]), (false, &[][..]));
    case.mount(again.mount(&Options::parse(["defaults"])).unwrap(), "a");
    assert_eq!(std::fs::read_to_string(case.path("a/file")).unwrap(), "kept");
    case.unmount_cleanly("a");
}

fn an_ext3_is_made_without_reserve_and_mounts_as_ext4(case: &Case) {
    let disk = case.disk("image", 16 * MEBIBYTE);
    assert!(prepare_to_write(case, &disk, "ext3").formatted);
    assert_eq!(reserved_blocks(&disk), "0");
    let prepared = prepare_to_write(case, &disk, "ext4");
    assert_eq!(prepared.fit, Fit::Other(Format::Filesystem("ext3".into())));
    case.mount(prepared.mount(&Options::default()).unwrap(), "a");
    case.unmount_cleanly("a");
}

fn an_xfs_is_made_and_mounted(case: &Case) {
    let disk = case.disk("image", XFS);
    let prepared = prepare_to_write(case, &disk, "xfs");
    assert_eq!(detect(&disk.path, case.patience).unwrap(), Format::Filesystem("xfs".into()));
    case.mount(prepared.mount(&Options::parse(["ro"])).unwrap(), "a");
    assert_eq!(case.mounted("a").unwrap().kind, "xfs");
    case.unmount_cleanly("a");
}

fn other_types_are_made_without_arguments(case: &Case) {
    let disk = case.disk("image", 16 * MEBIBYTE);
    assert!(prepare_to_write(case, &disk, "ext2").formatted);
    assert_eq!(detect(&disk.path, case.patience).unwrap(), Format::Filesystem("ext2".into()));
}

fn an_empty_device_is_not_formatted_to_be_read(case: &Case) {
    let disk = case.disk("image", 4 * MEBIBYTE);
    let error = prepare(&disk.path, "", Access::ReadOnly, case.patience).unwrap_err();
    assert!(matches!(error, Error::UnformattedReadOnly { .. }), "{error:?}");
    assert!(contents(&disk.path).iter().all(|it| *it == 0));
}

fn a_partition_table_is_never_formatted(case: &Case) {
    let disk = case.disk("image", 4 * MEBIBYTE);
    write_at(&disk.path, 0, &partition_table());
    assert_eq!(detect(&disk.path, case.patience).unwrap(), Format::Partitions);
    let before = contents(&disk.path);
    for access in [Access::ReadWrite, Access::ReadOnly] {
        let prepared = prepare(&disk.path, "ext4", access, case.patience).unwrap();
        assert_eq!((prepared.formatted, &prepared.fit), (false, &Fit::Other(Format::Partitions)));
        let error = prepared.mount(&Options::default()).unwrap_err();
        assert!(matches!(error, Error::FilesystemMismatch { .. }), "{error:?}");
    }
    assert!(contents(&disk.path) == before);
}

fn a_device_that_cannot_be_read_is_never_formatted(case: &Case) {
    let disk = case.disk("image", 4 * MEBIBYTE);
    // The device keeps its size, and there is nothing below it.
    case.image("image", 0);
    if std::fs::File::open(&disk.path).unwrap().read(&mut [0; 4096]).is_ok() {
        eprintln!("skipped: this kernel reads zeroes where a loop device has nothing below it");
        return;
    }
    let error = prepare(&disk.path, "ext4", Access::ReadWrite, case.patience).unwrap_err();
    assert!(matches!(error, Error::Unreadable { .. }), "{error:?}");
    assert_eq!(std::fs::metadata(case.path("image")).unwrap().len(), 0, "nothing was written");
}

fn a_device_with_two_marks_is_never_formatted(case: &Case) {
    let disk = case.disk("image", XFS);
    prepare_to_write(case, &disk, "xfs");
    // The mark of a swap space, in the page of an xfs that holds nothing there.
    write_at(&disk.path, 4086, b"SWAPSPACE2");
    write_at(&disk.path, 1024, &[1, 0, 0, 0, 255, 0, 0, 0]);
    let error = prepare(&disk.path, "ext4", Access::ReadWrite, case.patience).unwrap_err();
    assert!(matches!(&error, Error::Detect { source: tools::Error::Failed { .. }, .. }), "{error:?}");
    assert!(contents(&disk.path).starts_with(b"XFSB"));
}

fn another_type_is_told_when_it_cannot_be_mounted(case: &Case) {
    let disk = case.disk("image", XFS);
    prepare_to_write(case, &disk, "xfs");
    let prepared = prepare_to_write(case, &disk, "ext4");
    let error = prepared.mount(&Options::default()).unwrap_err();
    assert!(
        matches!(&error, Error::FilesystemMismatch { wanted, found, .. } if wanted == "ext4" && found == "xfs"),
        "{error:?}"
    );
    assert_eq!(detect(&disk.path, case.patience).unwrap(), Format::Filesystem("xfs".into()));
}

/// An ext4 that says it was not unmounted, with something else wrong with it.
fn damaged(case: &Case, damage: &str) -> Disk {
    let disk = case.disk("image", 16 * MEBIBYTE);
    prepare_to_write(case, &disk, "ext4");
    for request in [damage, "set_super_value state 0"] {
        disk.run("debugfs", &["-w", "-R", request]);
    }
    disk
}

fn errors_that_can_be_corrected_are(case: &Case) {
    let disk = damaged(case, "set_super_value free_inodes_count 1");
    let prepared = prepare_to_write(case, &disk, "ext4");
    assert!(matches!(&prepared.notes[..], [Note::Corrected { .. }]), "{:?}", prepared.notes);
    assert_eq!(prepare_to_write(case, &disk, "ext4").notes, [], "and stay corrected");
    drop(prepared.mount(&Options::default()).unwrap());
}

fn errors_that_cannot_be_corrected_are_an_error(case: &Case) {
    let disk = damaged(case, "clri <2>");
    let error = prepare(&disk.path, "ext4", Access::ReadWrite, case.patience).unwrap_err();
    assert!(matches!(&error, Error::HasFilesystemErrors { said, .. } if said.contains("INCONSISTENCY")), "{error:?}");
}

fn what_is_read_only_is_not_repaired(case: &Case) {
    let disk = damaged(case, "set_super_value free_inodes_count 1");
    let before = contents(&disk.path);
    let prepared = prepare(&disk.path, "ext4", Access::ReadOnly, case.patience).unwrap();
    assert_eq!(prepared.notes, []);
    assert!(contents(&disk.path) == before);
}

fn a_type_without_a_check_is_mounted(case: &Case) {
    let disk = case.disk("image", XFS);
    format::make(&disk.path, "xfs", case.patience).unwrap();
    // fsck.xfs does nothing and succeeds; where it is missing, fsck says so with status 8.
    let note = check(&disk.path, case.patience).unwrap();
    assert!(matches!(note, None | Some(Note::CheckFailed { .. })), "{note:?}");
}

fn a_format_that_is_cut_off_is_done_again(case: &Case) {
    let disk = case.disk("image", 16 * MEBIBYTE);
    let impatient = Patience { work: Duration::ZERO, ..case.patience };
    let error = prepare(&disk.path, "ext4", Access::ReadWrite, impatient).unwrap_err();
    assert!(matches!(&error, Error::Format { source: tools::Error::Deadline { remains: false, .. }, .. }), "{error:?}");
    assert!(!device::is_busy(&disk.path).unwrap(), "nothing of it runs any more");
    assert!(prepare_to_write(case, &disk, "ext4").formatted);
}

fn a_missing_program_is_named(case: &Case) {
    let disk = case.disk("image", 4 * MEBIBYTE);
    let error = prepare(&disk.path, "nosuchfs", Access::ReadWrite, case.patience).unwrap_err();
    let Error::Format { source, .. } = &error else { panic!("{error:?}") };
    assert!(source.is_missing(), "{error:?}");
    assert!(source.to_string().contains("mkfs.nosuchfs"), "{source}");
}

/// Makes the file below a loop device larger, and tells the device, as a real one would notice by itself.
fn enlarge(disk: &Disk, size_bytes: u64) {
    disk.grow(size_bytes);
    assert_eq!(device::size_bytes(&disk.path).unwrap(), size_bytes);
}

fn size_of_filesystem(case: &Case) -> u64 {
    let status = rustix::fs::statvfs(case.path("a")).unwrap();
    status.f_blocks * status.f_frsize
}

/// Makes, mounts, enlarges and grows a file system of a type.
fn grows(case: &Case, kind: &str, before: u64, after: u64) {
    let disk = case.disk("image", before);
    let prepared = prepare_to_write(case, &disk, kind);
    case.mount(prepared.mount(&Options::default()).unwrap(), "a");
    std::fs::File::create(case.path("a/file")).unwrap().write_all(b"kept").unwrap();
    let grow = || grow(&disk.path, &case.path("a"), case.patience).unwrap();
    let small = size_of_filesystem(case);
    assert_eq!(grow(), Grown::Full(kind.into()));
    assert_eq!(size_of_filesystem(case), small, "it filled its device before");
    enlarge(&disk, after);
    assert_eq!(grow(), Grown::Full(kind.into()));
    assert!(size_of_filesystem(case) > small + (after - before) / 2);
    assert_eq!(std::fs::read_to_string(case.path("a/file")).unwrap(), "kept");
    case.unmount_cleanly("a");
}

fn a_mounted_ext4_grows_with_its_device(case: &Case) {
    grows(case, "ext4", 32 * MEBIBYTE, 64 * MEBIBYTE);
}

fn an_ext4_grows_with_its_device(case: &Case) {
    let disk = case.disk("image", 32 * MEBIBYTE);
    let prepared = prepare_to_write(case, &disk, "ext4");
    enlarge(&disk, 64 * MEBIBYTE);
    let grown = grow(&disk.path, &case.path("a"), case.patience).unwrap();
    assert_eq!(grown, Grown::Full("ext4".into()));
    case.mount(prepared.mount(&Options::default()).unwrap(), "a");
    assert!(size_of_filesystem(case) > 48 * MEBIBYTE);
    case.unmount_cleanly("a");
}

fn an_xfs_grows_with_its_device(case: &Case) {
    grows(case, "xfs", XFS, 2 * XFS);
}

fn a_btrfs_grows_with_its_device(case: &Case) {
    // The kernel takes no btrfs to less than 256 MiB.
    grows(case, "btrfs", 256 * MEBIBYTE, 512 * MEBIBYTE);
}

fn what_cannot_grow_is_told_apart(case: &Case) {
    let disk = case.disk("image", 16 * MEBIBYTE);
    let grow_it = |disk: &Disk| grow(&disk.path, &case.path("a"), case.patience);
    assert_eq!(grow_it(&disk).unwrap(), Grown::Unformatted);
    prepare_to_write(case, &disk, "ext2");
    assert!(matches!(grow_it(&disk), Err(Error::NotGrowable { found, .. }) if found == "ext2"));
    let table = case.disk("table", 4 * MEBIBYTE);
    write_at(&table.path, 0, &partition_table());
    assert!(matches!(grow_it(&table), Err(Error::NotGrowable { .. })));
    loop_device::detach(&disk.device).unwrap();
    let read_only = case.attach("image", Settings { read_only: true, ..Settings::default() });
    assert_eq!(grow_it(&read_only).unwrap(), Grown::ReadOnly, "whatever is on it");
}
