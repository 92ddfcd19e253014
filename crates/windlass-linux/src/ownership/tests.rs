//! With one's own group, as any user may.

use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::Path;

use super::*;

const ONE: NonZero<usize> = NonZero::<usize>::MIN;

fn wanted(access: Access, when: When) -> Wanted {
    Wanted { group: rustix::process::getegid().as_raw(), access, when }
}

fn file(path: &Path, mode: u32) {
    std::fs::write(path, "").unwrap();
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
}

fn directory(path: &Path, mode: u32) {
    std::fs::create_dir(path).unwrap();
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
}

fn mode_of(path: &Path) -> u32 {
    std::fs::metadata(path).unwrap().mode() & 0o7777
}

#[test]
fn what_was_changed_is_right_the_next_time() {
    let tree = tempfile::tempdir().unwrap();
    let path = |below: &str| tree.path().join(below);
    std::fs::set_permissions(tree.path(), std::fs::Permissions::from_mode(0o700)).unwrap();
    directory(&path("directory"), 0o755);
    file(&path("directory/file"), 0o600);
    file(&path("open"), 0o666);
    symlink("open", path("link")).unwrap();
    let root = Place::root(tree.path()).unwrap();
    let control = Control::default();
    let wanted = wanted(Access::ReadWrite, When::Always);
    let first = apply(&root, &wanted, ONE, &control).unwrap();
    assert_eq!((first.changed, first.right_already, first.failed), (3, 2, 0));
    assert_eq!(mode_of(&path("directory")), 0o2775);
    assert_eq!(mode_of(&path("directory/file")), 0o660);
    assert_eq!(mode_of(&path("open")), 0o666);
    assert_eq!(mode_of(tree.path()), 0o2770);
    assert_eq!(control.processed(), 5);
    let second = apply(&root, &wanted, ONE, &control).unwrap();
    assert_eq!((second.changed, second.right_already, second.root_matched), (0, 5, false));
    assert_eq!(control.processed(), 10);
}

#[test]
fn a_root_that_matches_is_all_that_is_looked_at() {
    let tree = tempfile::tempdir().unwrap();
    let root = Place::root(tree.path()).unwrap();
    let control = Control::default();
    let wanted = wanted(Access::ReadOnly, When::OnRootMismatch);
    assert!(!root_matches(&root, &wanted));
    assert!(!apply(&root, &wanted, ONE, &control).unwrap().root_matched);
    file(&tree.path().join("rogue"), 0o600);
    assert!(root_matches(&root, &wanted));
    assert!(apply(&root, &wanted, ONE, &control).unwrap().root_matched);
    assert_eq!(mode_of(&tree.path().join("rogue")), 0o600);
}

#[test]
fn the_root_can_be_a_file_and_then_never_matches() {
    let tree = tempfile::tempdir().unwrap();
    let path = tree.path().join("file");
    file(&path, 0o2600);
    let fd = rustix::fs::open(&path, rustix::fs::OFlags::PATH, rustix::fs::Mode::empty()).unwrap();
    let root = Place::of(fd, &path);
    let wanted = wanted(Access::ReadWrite, When::OnRootMismatch);
    for changed in [1, 0] {
        assert!(!root_matches(&root, &wanted));
        let summary = apply(&root, &wanted, ONE, &Control::default()).unwrap();
        assert_eq!((summary.changed, summary.right_already), (changed, 1 - changed));
    }
    assert_eq!(mode_of(&path), 0o2660);
}

#[test]
fn what_was_stopped_before_it_began_changes_nothing() {
    let tree = tempfile::tempdir().unwrap();
    file(&tree.path().join("file"), 0o600);
    let root = Place::root(tree.path()).unwrap();
    let control = Control::default();
    control.stop();
    let error = apply(&root, &wanted(Access::ReadWrite, When::Always), ONE, &control).unwrap_err();
    assert!(matches!(error, Error::Stopped { processed: 0, .. }), "{error}");
    assert!(error.to_string().ends_with("to a group: stopped after 0 entries"), "{error}");
    assert_eq!(mode_of(&tree.path().join("file")), 0o600);
    assert!(!root_matches(&root, &wanted(Access::ReadWrite, When::Always)));
}

#[test]
fn the_number_that_means_no_change_is_no_group() {
    let tree = tempfile::tempdir().unwrap();
    let root = Place::root(tree.path()).unwrap();
    let wanted = Wanted { group: u32::MAX, access: Access::ReadWrite, when: When::Always };
    let error = apply(&root, &wanted, ONE, &Control::default()).unwrap_err();
    assert!(error.to_string().ends_with("to the group 4294967295: there is no such group"), "{error}");
}

#[test]
fn a_group_is_mapped_if_a_line_of_the_map_holds_it() {
    let whole = "         0          0 4294967295\n";
    assert!(maps(whole, 0) && maps(whole, 2000));
    let own = "         0       1000          1\n      1000     100000      65536\n";
    assert!(maps(own, 0) && maps(own, 1000) && maps(own, 66_535));
    assert!(!maps(own, 1) && !maps(own, 66_536) && !maps("", 0) && !maps("a b c\n0 1", 0));
}
