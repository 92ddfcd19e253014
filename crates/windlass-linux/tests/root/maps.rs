//! Raw block volumes (P-248 to P-251).

use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::Path;

use windlass_linux::block_map::{self, Change, Error, bind_device, link, unbind, unlink};
use windlass_linux::device::{self, AtPath};
use windlass_linux::loop_device;
use windlass_linux::safe_path::Place;
use windlass_testing::disk::{Disk, MEBIBYTE};

use crate::case::{Case, name};

crate::tests!(
    a_device_is_mapped_and_taken_away(),
    another_device_in_its_place_is_an_error(),
    a_node_that_is_not_mounted_is_in_the_way(),
    one_device_is_mapped_for_two(),
    a_map_that_was_cut_off_is_finished(),
    a_device_is_held_and_released(),
    a_mapped_device_in_use_stays(),
);

fn number(disk: &Disk) -> device::Device {
    match device::look(&disk.path).unwrap() {
        AtPath::Block(number) => number,
        other => panic!("{other:?}"),
    }
}

fn is_block_device(path: &Path) -> bool {
    std::fs::metadata(path).unwrap().file_type().is_block_device()
}

fn a_device_is_mapped_and_taken_away(case: &Case) {
    let disk = case.disk("image", MEBIBYTE);
    let (global, pods) = (case.place("global"), case.place("pods"));
    assert_eq!(bind_device(&disk.path, &global, &name("uid")).unwrap(), Change::Made);
    assert_eq!(bind_device(&disk.path, &global, &name("uid")).unwrap(), Change::Nothing);
    assert!(is_block_device(&case.path("global/uid")));
    assert_eq!(case.mounted("global/uid").unwrap().attribute_words().split(',').next(), Some("rw"));
    let references = block_map::references(&global).unwrap();
    assert_eq!(references.len(), 1);
    assert_eq!((references[0].name.to_str(), references[0].device), (Some("uid"), number(&disk)));
    assert_eq!(link(&pods, &name("disk"), &disk.path).unwrap(), Change::Made);
    assert!(is_block_device(&case.path("pods/disk")));
    std::fs::write(case.path("global/uid"), "through the map").unwrap();
    assert!(std::fs::read(&disk.path).unwrap().starts_with(b"through the map"));
    assert_eq!(unlink(&pods, &name("disk")).unwrap(), Change::Made);
    assert_eq!(unbind(&global, &name("uid")).unwrap(), Change::Made);
    assert_eq!(unbind(&global, &name("uid")).unwrap(), Change::Nothing);
    assert!(!case.path("global/uid").exists());
    assert_eq!(block_map::references(&global).unwrap(), []);
    assert!(is_block_device(&disk.path), "the device itself stays");
}

fn another_device_in_its_place_is_an_error(case: &Case) {
    let (one, other) = (case.disk("one", MEBIBYTE), case.disk("other", MEBIBYTE));
    let global = case.place("global");
    bind_device(&one.path, &global, &name("uid")).unwrap();
    let error = bind_device(&other.path, &global, &name("uid")).unwrap_err();
    assert!(
        matches!(error, Error::OtherDevice { wanted, found, .. } if wanted == number(&other) && found == number(&one)),
        "{error:?}"
    );
}

fn a_node_that_is_not_mounted_is_in_the_way(case: &Case) {
    let disk = case.disk("image", MEBIBYTE);
    let global = case.place("global");
    let device = std::fs::metadata(&disk.path).unwrap().rdev();
    let mode = rustix::fs::Mode::from_raw_mode(0o600);
    rustix::fs::mknodat(&global, "uid", rustix::fs::FileType::BlockDevice, mode, device).unwrap();
    assert!(matches!(bind_device(&disk.path, &global, &name("uid")), Err(Error::InTheWay { .. })));
    assert!(matches!(unbind(&global, &name("uid")), Err(Error::InTheWay { .. })));
    assert_eq!(block_map::references(&global).unwrap().len(), 1, "but it keeps the directory from going");
}

fn one_device_is_mapped_for_two(case: &Case) {
    let disk = case.disk("image", MEBIBYTE);
    let global = case.place("global");
    for pod in ["a", "b"] {
        bind_device(&disk.path, &global, &name(pod)).unwrap();
    }
    unbind(&global, &name("a")).unwrap();
    let left: Vec<_> = block_map::references(&global).unwrap().into_iter().map(|it| it.name).collect();
    assert_eq!(left, ["b"]);
    unbind(&global, &name("b")).unwrap();
}

fn a_map_that_was_cut_off_is_finished(case: &Case) {
    let disk = case.disk("image", MEBIBYTE);
    let global = case.place("global");
    std::fs::write(case.path("global/uid"), "").unwrap();
    assert_eq!(bind_device(&disk.path, &global, &name("uid")).unwrap(), Change::Made);
    unbind(&global, &name("uid")).unwrap();
    std::fs::write(case.path("global/uid"), "somebody's").unwrap();
    assert!(matches!(bind_device(&disk.path, &global, &name("uid")), Err(Error::InTheWay { .. })));
    assert_eq!(std::fs::read_to_string(case.path("global/uid")).unwrap(), "somebody's");
}

/// Releases what is held when the test ends, however it ends.
struct Held<'case>(&'case Place, &'static str);

impl Drop for Held<'_> {
    fn drop(&mut self) {
        let _ = block_map::release(self.0, &name(self.1));
    }
}

fn a_device_is_held_and_released(case: &Case) {
    let disk = case.disk("image", MEBIBYTE);
    let global = case.place("global");
    let _guards = [Held(&global, "a"), Held(&global, "b")];
    for pod in ["a", "b"] {
        bind_device(&disk.path, &global, &name(pod)).unwrap();
    }
    let first = block_map::hold(&global, &name("a")).unwrap();
    assert_eq!(block_map::hold(&global, &name("a")).unwrap(), first, "one is enough");
    let second = block_map::hold(&global, &name("b")).unwrap();
    assert_eq!(first.backing, second.backing, "only the path tells them apart");
    assert_ne!(first.number, second.number);
    let found = loop_device::of_path(&case.path("global/a")).unwrap();
    assert_eq!(found, std::slice::from_ref(&first), "as the kubelet finds it");
    assert_eq!(block_map::release(&global, &name("a")).unwrap(), Change::Made);
    assert_eq!(block_map::release(&global, &name("a")).unwrap(), Change::Nothing);
    unbind(&global, &name("a")).unwrap();
    assert_eq!(loop_device::look(second.number).unwrap().map(|it| it.backing), Some(second.backing));
    block_map::release(&global, &name("b")).unwrap();
    unbind(&global, &name("b")).unwrap();
    assert_eq!(block_map::release(&global, &name("b")).unwrap(), Change::Nothing);
}

fn a_mapped_device_in_use_stays(case: &Case) {
    let disk = case.disk("image", MEBIBYTE);
    let global = case.place("global");
    bind_device(&disk.path, &global, &name("uid")).unwrap();
    // Opened through the map, the file belongs to the mount, and the kernel says so.
    let user = std::fs::File::open(case.path("global/uid")).unwrap();
    let error = unbind(&global, &name("uid")).unwrap_err();
    assert!(matches!(&error, Error::Mount { source, .. } if source.is_busy()), "{error:?}");
    drop(user);
    unbind(&global, &name("uid")).unwrap();
}
