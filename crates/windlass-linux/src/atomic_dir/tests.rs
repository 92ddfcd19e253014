//! What a write leaves on disk. Being killed, and being read meanwhile, is in `tests/real/atomic.rs`.

use std::collections::BTreeMap;
use std::os::unix::fs::{MetadataExt, symlink};

use proptest::prelude::*;

use super::*;

struct Case {
    directory: tempfile::TempDir,
    target: Place,
}

impl Case {
    fn new() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let target = Place::root(directory.path()).unwrap();
        Self { directory, target }
    }

    fn path(&self, below: &str) -> PathBuf {
        self.directory.path().join(below)
    }

    fn write(&self, files: &[(&str, &str)]) -> Written {
        write(&self.target, &contents(files)).unwrap()
    }

    fn read(&self, path: &str) -> String {
        std::fs::read_to_string(self.path(path)).unwrap()
    }

    /// All names in the directory, with where links lead; versions are `..STAMP`.
    fn listing(&self) -> BTreeMap<String, String> {
        let entries = std::fs::read_dir(self.directory.path()).unwrap().map(|it| it.unwrap().file_name());
        let shown = |name: &str| if name.starts_with("..2") { "..STAMP".to_owned() } else { name.to_owned() };
        let lead = |name: &OsString| std::fs::read_link(self.directory.path().join(name)).unwrap_or_default();
        entries.map(|it| (shown(it.to_str().unwrap()), shown(lead(&it).to_str().unwrap()))).collect()
    }
}

fn contents(files: &[(&str, &str)]) -> Contents {
    let mut contents = Contents::default();
    for (path, text) in files {
        let file = File { contents: text.as_bytes().to_vec(), mode: Mode::from_raw_mode(0o644), owner: None };
        contents.add("path", path, file).unwrap();
    }
    contents
}

fn listing(entries: &[(&str, &str)]) -> BTreeMap<String, String> {
    entries.iter().map(|(name, link)| (String::from(*name), String::from(*link))).collect()
}

#[test]
fn the_layout_is_the_known_one() {
    let case = Case::new();
    case.write(&[("a", "1"), ("foo/bar/x", "2"), ("foo/./y//z", "3")]);
    let expected = [("..STAMP", ""), ("..data", "..STAMP"), ("a", "..data/a"), ("foo", "..data/foo")];
    assert_eq!(case.listing(), listing(&expected));
    assert_eq!((case.read("a"), case.read("foo/bar/x"), case.read("foo/y/z")), ("1".into(), "2".into(), "3".into()));
    let mode = |path| std::fs::metadata(case.path(path)).unwrap().mode() & 0o7777;
    assert_eq!((mode("..data"), mode("foo"), mode("foo/bar"), mode("a")), (0o755, 0o755, 0o755, 0o644));
}

#[test]
fn a_first_write_is_a_write() {
    let (case, first) = (Case::new(), Case::new());
    let files = [("a", "1"), ("foo/bar/x", "2")];
    case.write(&files);
    let written = write_first(&first.target, &contents(&files)).unwrap();
    assert!(written.changed && written.hidden.is_empty() && written.leftovers.is_empty());
    assert_eq!(first.listing(), case.listing());
    assert!(!first.write(&files).changed, "modes and owners too");
    let error = write_first(&first.target, &contents(&files)).unwrap_err();
    assert!(matches!(&error, Error::System(PathError { attempt: "set the link", .. })), "{error}");
    assert_eq!(first.listing(), case.listing(), "what was there stays, and nothing is left over");
    assert_eq!(first.read("a"), "1");
}

#[test]
fn the_same_contents_are_not_written_again() {
    let case = Case::new();
    let first = case.write(&[("a", "1"), ("b/c", "2")]);
    let second = case.write(&[("a", "1"), ("b/c", "2")]);
    assert!(first.changed && !second.changed);
    assert_eq!(first.version, second.version);
    assert_eq!(version(&case.target).unwrap(), Some(first.version));
}

#[test]
fn every_difference_makes_a_new_version() {
    let case = Case::new();
    let mut version = case.write(&[("a", "1"), ("b/c", "2")]).version;
    let steps: [&[(&str, &str)]; 5] = [
        &[("a", "x"), ("b/c", "2")],
        &[("a", "xy"), ("b/c", "2")],
        &[("a", "xy"), ("b/c", "2"), ("b/d", "")],
        &[("a", "xy")],
        &[],
    ];
    for step in steps {
        let written = case.write(step);
        assert!(written.changed && written.leftovers.is_empty());
        assert_ne!(written.version, version);
        version = written.version;
    }
    assert_eq!(case.listing(), listing(&[("..STAMP", ""), ("..data", "..STAMP")]));
}

#[test]
fn a_mode_alone_is_a_difference() {
    let case = Case::new();
    let mut wanted = contents(&[("a", "1"), ("b/c", "2")]);
    write(&case.target, &wanted).unwrap();
    wanted.files.values_mut().next().unwrap().mode = Mode::from_raw_mode(0o400);
    assert!(write(&case.target, &wanted).unwrap().changed);
    assert_eq!(std::fs::metadata(case.path("a")).unwrap().mode() & 0o7777, 0o400);
    wanted.directory_mode = Mode::from_raw_mode(0o2755);
    assert!(write(&case.target, &wanted).unwrap().changed);
    assert_eq!(std::fs::metadata(case.path("b")).unwrap().mode() & 0o7777, 0o2755);
    assert!(!write(&case.target, &wanted).unwrap().changed);
}

#[test]
fn a_version_that_was_tampered_with_is_written_again() {
    let case = Case::new();
    let files = [("a", "1"), ("b/c", "2")];
    let tamper: [fn(&Case); 4] = [
        |case| std::fs::write(case.path("..data/extra"), "").unwrap(),
        |case| std::fs::create_dir(case.path("..data/b/empty")).unwrap(),
        |case| std::fs::remove_file(case.path("..data/a")).unwrap(),
        |case| {
            std::fs::remove_file(case.path("..data/a")).unwrap();
            symlink("/etc/hostname", case.path("..data/a")).unwrap();
        },
    ];
    for tamper in tamper {
        case.write(&files);
        tamper(&case);
        assert!(case.write(&files).changed);
        assert_eq!(case.read("a"), "1");
        assert!(!case.path("..data/extra").exists() && !case.path("..data/b/empty").exists());
    }
}

#[test]
fn links_that_were_lost_or_bent_are_repaired() {
    let case = Case::new();
    case.write(&[("a", "1"), ("b/c", "2")]);
    std::fs::remove_file(case.path("a")).unwrap();
    std::fs::remove_file(case.path("b")).unwrap();
    symlink("/etc", case.path("b")).unwrap();
    let written = case.write(&[("a", "1"), ("b/c", "2")]);
    assert!(!written.changed);
    assert_eq!((case.read("a"), case.read("b/c")), ("1".into(), "2".into()));
}

#[test]
fn what_a_crash_left_is_swept_up() {
    let case = Case::new();
    case.write(&[("a", "1"), ("gone", "")]);
    std::fs::create_dir_all(case.path("..2020_01_01_00_00_00.5/sub")).unwrap();
    std::fs::write(case.path("..2020_01_01_00_00_00.5/sub/half"), "").unwrap();
    symlink("..2020_01_01_00_00_00.5", case.path("..data_tmp")).unwrap();
    symlink("..data/older", case.path("older")).unwrap();
    let written = case.write(&[("a", "2")]);
    assert!(written.changed && written.leftovers.is_empty(), "{:?}", written.leftovers);
    assert_eq!(case.listing(), listing(&[("..STAMP", ""), ("..data", "..STAMP"), ("a", "..data/a")]));
}

#[test]
fn what_is_not_ours_stays_and_is_reported() {
    let case = Case::new();
    std::fs::write(case.path("a"), "a user's").unwrap();
    std::fs::create_dir(case.path("b")).unwrap();
    std::fs::write(case.path("..2x"), "").unwrap();
    symlink("/etc/hostname", case.path("theirs")).unwrap();
    let written = case.write(&[("a", "1"), ("b/c", "2"), ("d", "3")]);
    let hidden: Vec<_> = written.hidden.iter().map(ToString::to_string).collect();
    assert_eq!(hidden, ["a", "b"]);
    assert_eq!((case.read("a"), case.read("d")), ("a user's".into(), "3".into()));
    case.write(&[]);
    assert_eq!(case.read("a"), "a user's");
    assert!(case.path("..2x").exists() && case.path("b").exists());
    assert!(std::fs::symlink_metadata(case.path("theirs")).is_ok());
}

#[test]
fn a_data_link_that_leads_elsewhere_is_replaced_and_not_followed() {
    let case = Case::new();
    let elsewhere = tempfile::tempdir().unwrap();
    std::fs::write(elsewhere.path().join("a"), "kept").unwrap();
    symlink(elsewhere.path(), case.path("..data")).unwrap();
    case.write(&[("a", "1")]);
    assert_eq!(case.read("a"), "1");
    assert_eq!(std::fs::read_to_string(elsewhere.path().join("a")).unwrap(), "kept");
}

#[test]
fn reserved_names_and_conflicts_are_refused() {
    let file = || File { contents: Vec::new(), mode: Mode::RUSR, owner: None };
    let mut contents = Contents::default();
    for path in ["..x", "./..x", "..data", "..data/x"] {
        assert!(matches!(contents.add("key", path, file()), Err(Error::Reserved { .. })), "{path}");
    }
    for path in ["", "/a", "a/../b", "a\0", "a/../../etc/passwd"] {
        assert!(matches!(contents.add("key", path, file()), Err(Error::Path(_))), "{path}");
    }
    contents.add("key", "a", file()).unwrap();
    contents.add("key", "a-b", file()).unwrap();
    contents.add("key", "a/b/c", file()).unwrap();
    let case = Case::new();
    let error = write(&case.target, &contents).unwrap_err();
    assert_eq!(error.to_string(), "write a/b/c: a is a file");
    assert!(case.listing().is_empty(), "nothing was written");
}

#[test]
fn contents_are_in_no_message() {
    let contents = contents(&[("a", "hunter2")]);
    assert!(!format!("{contents:?}").contains("hunter2"));
}

#[test]
fn a_missing_target_is_an_error() {
    let case = Case::new();
    let gone = Place::root(case.directory.path()).unwrap();
    drop(case);
    assert!(write(&gone, &contents(&[("a", "1")])).is_err());
}

/// What is wanted one after the other: for some paths, a text and a mode.
fn histories() -> impl Strategy<Value = Vec<BTreeMap<&'static str, (u8, bool)>>> {
    let paths = prop::sample::select(vec!["a", "b/c", "b/d/e", "f", "g/h"]);
    let contents = prop::collection::btree_map(paths, (0u8..3, any::<bool>()), 0..5);
    prop::collection::vec(contents, 1..6)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(32))]

    #[test]
    fn after_every_write_the_directory_is_what_was_asked_for(history in histories()) {
        let case = Case::new();
        let mut before = None;
        for wanted in history {
            let mut contents = Contents::default();
            for (path, (text, is_private)) in &wanted {
                let mode = Mode::from_raw_mode(if *is_private { 0o600 } else { 0o644 });
                contents.add("path", path, File { contents: vec![*text; 9], mode, owner: None }).unwrap();
            }
            let written = write(&case.target, &contents).unwrap();
            prop_assert_eq!(written.changed, before.as_ref() != Some(&wanted));
            prop_assert!(written.leftovers.is_empty() && written.hidden.is_empty());
            let mut expected = listing(&[("..STAMP", ""), ("..data", "..STAMP")]);
            for (path, (text, is_private)) in &wanted {
                let first = path.split('/').next().unwrap();
                expected.insert(first.into(), format!("..data/{first}"));
                prop_assert_eq!(std::fs::read(case.path(path)).unwrap(), vec![*text; 9]);
                let mode = std::fs::metadata(case.path(path)).unwrap().mode() & 0o7777;
                prop_assert_eq!(mode, if *is_private { 0o600 } else { 0o644 });
            }
            prop_assert_eq!(case.listing(), expected);
            prop_assert!(!write(&case.target, &contents).unwrap().changed);
            before = Some(wanted);
        }
    }
}
