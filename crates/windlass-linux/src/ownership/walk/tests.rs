//! How the walk comes back to a directory that it had to close.

use super::*;
use crate::ownership::{Access, When};

const WANTED: Wanted = Wanted { group: 0, access: Access::ReadWrite, when: When::Always };

/// The directories `a`, `a/b` and `a/b/c` as a walk knows them, with none of them open.
fn known(root: &Place) -> [Arc<Directory>; 4] {
    let path = root.path().to_owned();
    let status = |below: &str| rustix::fs::stat(path.join(below)).unwrap();
    let top = Directory::new(0, None, OsString::new(), &status(""));
    let a = Directory::new(1, Some(top.clone()), "a".into(), &status("a"));
    let b = Directory::new(2, Some(a.clone()), "b".into(), &status("a/b"));
    let c = Directory::new(3, Some(b.clone()), "c".into(), &status("a/b/c"));
    [top, a, b, c]
}

fn in_a_tree(test: impl FnOnce(&Walk<'_>, &Path, [Arc<Directory>; 4])) {
    let directory = tempfile::tempdir().unwrap();
    std::fs::create_dir_all(directory.path().join("a/b/c")).unwrap();
    let root = Place::root(directory.path()).unwrap();
    let control = Control::default();
    let walk = Walk::new(&root, Some(read(&root).unwrap()), &WANTED, NonZero::<usize>::MIN, &control);
    test(&walk, directory.path(), known(&root));
}

#[test]
fn a_directory_that_was_closed_is_found_again() {
    in_a_tree(|walk, _, [_, _, b, c]| {
        let fd = walk.open(&c).unwrap();
        assert!(is_same(&fd, &c) && walk.held(&c).is_some());
        assert!(walk.held(&b).is_none());
        let fd = walk.go_up(&b, &fd).unwrap();
        assert!(is_same(&fd, &b) && walk.held(&b).is_some());
    });
}

#[test]
fn a_directory_is_found_from_above_when_what_was_in_it_moved() {
    in_a_tree(|walk, path, [_, _, b, c]| {
        let fd = walk.open(&c).unwrap();
        std::fs::rename(path.join("a/b/c"), path.join("c")).unwrap();
        assert!(is_same(&walk.go_up(&b, &fd).unwrap(), &b));
    });
}

#[test]
fn another_directory_in_its_place_is_not_taken_for_it() {
    in_a_tree(|walk, path, [_, _, _, c]| {
        std::fs::rename(path.join("a/b"), path.join("elsewhere")).unwrap();
        let error = walk.open(&c).unwrap_err();
        assert!(matches!(&error, Error::Moved { path: told } if *told == path.join("a/b/c")), "{error}");
        std::fs::create_dir_all(path.join("a/b/c")).unwrap();
        assert!(matches!(walk.open(&c), Err(Error::Moved { .. })));
        std::fs::remove_dir_all(path.join("a/b")).unwrap();
        std::os::unix::fs::symlink(path.join("elsewhere"), path.join("a/b")).unwrap();
        assert!(matches!(walk.open(&c), Err(Error::Moved { .. })), "through a link");
    });
}

#[test]
fn no_more_directories_are_kept_open_than_allowed() {
    in_a_tree(|walk, path, [_, a, ..]| {
        for number in 1..=2 * Descriptors::OPEN_MAX as u64 {
            walk.descriptors.keep(number, Arc::new(read(Place::root(path).unwrap()).unwrap()));
        }
        let held = (1..=2 * Descriptors::OPEN_MAX as u64).filter(|it| walk.descriptors.get(*it).is_some());
        assert_eq!(held.count(), Descriptors::OPEN_MAX);
        assert!(walk.held(&a).is_none(), "the oldest goes first");
        let newest = 2 * Descriptors::OPEN_MAX as u64;
        walk.descriptors.forget(newest);
        assert!(walk.descriptors.get(newest).is_none());
    });
}
