use std::cell::RefCell;
use std::fs;
use std::io::Write;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::sync::mpsc;

use super::*;

fn choice(grace: Duration) -> Choice {
    let shown = |name: &OsStr| !name.as_encoded_bytes().starts_with(b".");
    let file = |it: &OsStr| it.as_encoded_bytes().ends_with(b".txt");
    let misnamed = |it: &OsStr| it.as_encoded_bytes().ends_with(b".TXT");
    Choice { file, misnamed, directory: shown, bytes_max: 100, grace }
}

/// A directory `files` in one of its own, watched.
struct Case {
    home: tempfile::TempDir,
    files: WatchedFiles,
    /// What was told, and not taken back: `content`, or `! trouble`.
    state: BTreeMap<String, String>,
    /// Everything that was told.
    history: Vec<String>,
    /// Those of which it was last told that they were moved into place.
    moved: BTreeSet<String>,
}

impl Case {
    /// With these files from the beginning; one that is away for a moment is gone.
    fn new(files: &[(&str, &str)]) -> Self {
        Self::patient(files, Duration::from_millis(20))
    }

    fn patient(files: &[(&str, &str)], grace: Duration) -> Self {
        let home = tempfile::tempdir().unwrap();
        fs::create_dir(home.path().join("files")).unwrap();
        let watched = WatchedFiles::begin(&home.path().join("files"), choice(grace)).unwrap();
        let case = Self { home, files: watched, state: BTreeMap::new(), history: Vec::new(), moved: BTreeSet::new() };
        files.iter().for_each(|(path, text)| case.write(path, text));
        case
    }

    fn path(&self, path: &str) -> PathBuf {
        self.home.path().join("files").join(path)
    }

    fn write(&self, path: &str, text: &str) {
        fs::create_dir_all(self.path(path).parent().unwrap()).unwrap();
        fs::write(self.path(path), text).unwrap();
    }

    fn rename(&self, from: &str, to: &str) {
        fs::rename(self.path(from), self.path(to)).unwrap();
    }

    /// Waits until all that was told amounts to this.
    fn until(&mut self, expected: &[(&str, &str)]) {
        let expected: BTreeMap<String, String> =
            expected.iter().map(|(path, text)| ((*path).to_owned(), (*text).to_owned())).collect();
        let (_done, waiting) = mpsc::channel::<()>();
        let handle = self.files.handle();
        // Long enough for any machine: a test that waits in vain says so.
        std::thread::spawn(move || {
            if waiting.recv_timeout(Duration::from_secs(30)) == Err(mpsc::RecvTimeoutError::Timeout) {
                handle.end();
            }
        });
        while self.state != expected {
            let Some(changes) = self.files.changes(None).unwrap() else {
                panic!("waited in vain for {expected:#?}, it is {:#?}", self.state)
            };
            for change in changes {
                self.take(change);
            }
        }
    }

    fn take(&mut self, change: Change) {
        let name = |path: PathBuf| path.to_str().unwrap().to_owned();
        let (path, text) = match change {
            Change::Content { path, bytes, origin } => {
                let path = name(path);
                match origin.moved {
                    true => _ = self.moved.insert(path.clone()),
                    false => _ = self.moved.remove(&path),
                }
                (path, Some(String::from_utf8(bytes).unwrap()))
            }
            Change::Unreadable { path, trouble } => (name(path), Some(format!("! {trouble}"))),
            Change::Gone { path, .. } => (name(path), None),
            Change::Misnamed { path } => (name(path), Some("? not read".to_owned())),
            Change::Replaced { .. } => return,
        };
        self.history.push(format!("{path}: {}", text.as_deref().unwrap_or("gone")));
        match text {
            Some(text) => self.state.insert(path, text),
            None => self.state.remove(&path),
        };
    }
}

#[test]
fn a_file_that_is_not_read_because_of_its_name_is_told_once_and_when_it_goes() {
    let mut case = Case::new(&[("a.txt", "1"), ("B.TXT", ""), (".C.TXT", "")]);
    case.until(&[("a.txt", "1"), ("B.TXT", "? not read")]);
    // A directory may have any name.
    case.write("D.TXT/d.txt", "4");
    case.rename("a.txt", "A.TXT");
    case.write("B.TXT", "2");
    case.until(&[("A.TXT", "? not read"), ("B.TXT", "? not read"), ("D.TXT/d.txt", "4")]);
    fs::remove_file(case.path("B.TXT")).unwrap();
    case.rename("A.TXT", "a.txt");
    case.until(&[("a.txt", "1"), ("D.TXT/d.txt", "4")]);
    assert_eq!(case.history.iter().filter(|it| *it == "B.TXT: ? not read").count(), 1, "{:?}", case.history);
}

/// Not of a full disk, as the kernel's words would have it.
#[test]
fn limits_of_inotify_are_named() {
    let full = Trouble::of_directory(Errno::NOSPC.into()).to_string();
    assert_eq!(full, "it cannot be watched: fs.inotify.max_user_watches limits how many directories can be");
    let none = Error::Begin { step: "begin to watch", source: Errno::MFILE }.to_string();
    assert_eq!(none, "begin to watch (fs.inotify.max_user_instances limits how many there are)");
}

#[test]
fn files_are_told_at_first_and_as_they_come_change_and_go() {
    let mut case =
        Case::new(&[("a.txt", "1"), ("x/b.txt", "2"), ("x/y/c.txt", "3"), (".hidden/d.txt", "4"), ("e", "5")]);
    case.until(&[("a.txt", "1"), ("x/b.txt", "2"), ("x/y/c.txt", "3")]);
    case.write("a.txt", "one");
    case.write("x/new.txt", "new");
    fs::remove_file(case.path("x/y/c.txt")).unwrap();
    case.until(&[("a.txt", "one"), ("x/b.txt", "2"), ("x/new.txt", "new")]);
    case.history.clear();
    case.write("a.txt", "last");
    case.until(&[("a.txt", "last"), ("x/b.txt", "2"), ("x/new.txt", "new")]);
    assert_eq!(case.history, ["a.txt: last"], "only what changed is read (I-9)");
}

thread_local! {
    /// Where files are moved, and how often a directory's name was asked about.
    static MOVING: RefCell<(PathBuf, usize)> = RefCell::default();
}

/// All names, and a file is moved from the second directory to the first just before the second is entered.
fn moving(name: &OsStr) -> bool {
    MOVING.with_borrow_mut(|(home, asked)| {
        *asked += usize::from(name == "x" || name == "y");
        // Both are asked about when the root is read, and then the first.
        if *asked == 4 && !name.as_encoded_bytes().ends_with(b".txt") {
            let name = name.to_str().unwrap();
            let other = if name == "x" { "y" } else { "x" };
            fs::rename(home.join(name).join("a.txt"), home.join(other).join("moved.txt")).unwrap();
        }
    });
    true
}

#[test]
fn a_file_that_moves_while_all_is_read_for_the_first_time_is_not_missed() {
    let home = tempfile::tempdir().unwrap();
    for directory in ["x", "y"] {
        fs::create_dir(home.path().join(directory)).unwrap();
        fs::write(home.path().join(directory).join("a.txt"), directory).unwrap();
    }
    MOVING.set((home.path().into(), 0));
    let choice = Choice { directory: moving, ..choice(Duration::from_secs(3600)) };
    let found = WatchedFiles::begin(home.path(), choice).unwrap().at_once().unwrap().unwrap();
    let content = |it: &Change| matches!(it, Change::Content { path, .. } if path.ends_with("moved.txt"));
    assert!(found.iter().any(content), "{found:?}");
}

#[test]
fn an_atomic_replace_is_one_change() {
    let mut case = Case::new(&[("a.txt", "old")]);
    case.until(&[("a.txt", "old")]);
    case.write(".a.txt.new", "new");
    case.rename(".a.txt.new", "a.txt");
    case.until(&[("a.txt", "new")]);
    assert_eq!(case.history, ["a.txt: old", "a.txt: new"]);
}

#[test]
fn a_file_that_is_being_written_is_not_read_before_it_is_closed() {
    let mut case = Case::new(&[("a.txt", "old and long"), ("b.txt", "1")]);
    case.until(&[("a.txt", "old and long"), ("b.txt", "1")]);
    // Truncates, as `cp` and a redirection do.
    let mut file = fs::File::create(case.path("a.txt")).unwrap();
    file.write_all(b"ne").unwrap();
    let mut fresh = fs::File::create(case.path("c.txt")).unwrap();
    fresh.write_all(b"ha").unwrap();
    case.write("b.txt", "2");
    case.until(&[("a.txt", "old and long"), ("b.txt", "2")]);
    // Not even if everything is looked at.
    file.write_all(b"w").unwrap();
    fs::set_permissions(case.path(""), fs::metadata(case.path("")).unwrap().permissions()).unwrap();
    case.write("b.txt", "3");
    case.until(&[("a.txt", "old and long"), ("b.txt", "3"), ("c.txt", "! it is being written")]);
    drop(file);
    fresh.write_all(b"lf").unwrap();
    drop(fresh);
    case.until(&[("a.txt", "new"), ("b.txt", "3"), ("c.txt", "half")]);
    let of_a: Vec<_> = case.history.iter().filter(|it| it.starts_with("a.txt")).collect();
    assert_eq!(of_a, ["a.txt: old and long", "a.txt: new"], "and never anything else");
}

#[test]
fn a_file_that_is_moved_away_and_made_anew_was_never_gone() {
    let mut case = Case::patient(&[("a.txt", "old"), ("b.txt", "1"), ("x/c.txt", "old")], Duration::from_secs(3600));
    case.until(&[("a.txt", "old"), ("b.txt", "1"), ("x/c.txt", "old")]);
    case.rename("a.txt", "a.txt~");
    case.rename("x", ".x");
    case.write("b.txt", "2");
    case.until(&[("a.txt", "old"), ("b.txt", "2"), ("x/c.txt", "old")]);
    case.write("a.txt", "new");
    case.write("x/c.txt", "new");
    case.until(&[("a.txt", "new"), ("b.txt", "2"), ("x/c.txt", "new")]);
    assert!(!case.history.iter().any(|it| it.ends_with("gone")), "{:?}", case.history);
}

#[test]
fn a_directory_comes_filled_and_moves_and_goes_with_all_below() {
    let mut case = Case::new(&[]);
    fs::create_dir_all(case.home.path().join("beside/deep")).unwrap();
    fs::write(case.home.path().join("beside/deep/a.txt"), "1").unwrap();
    fs::rename(case.home.path().join("beside"), case.path("x")).unwrap();
    case.until(&[("x/deep/a.txt", "1")]);
    case.rename("x", "y");
    case.until(&[("y/deep/a.txt", "1")]);
    case.write("y/deep/a.txt", "2");
    case.until(&[("y/deep/a.txt", "2")]);
    fs::remove_dir_all(case.path("y")).unwrap();
    case.until(&[]);
    case.write("y/deep/b.txt", "3");
    case.until(&[("y/deep/b.txt", "3")]);
    case.write("y/deep/b.txt", "4");
    case.until(&[("y/deep/b.txt", "4")]);
}

#[test]
fn a_directory_and_a_file_can_take_each_others_place() {
    let mut case = Case::new(&[("a.txt", "file")]);
    case.until(&[("a.txt", "file")]);
    fs::remove_file(case.path("a.txt")).unwrap();
    case.write("a.txt/b.txt", "below");
    case.until(&[("a.txt/b.txt", "below")]);
    fs::remove_dir_all(case.path("a.txt")).unwrap();
    case.write("a.txt", "file");
    case.until(&[("a.txt", "file")]);
}

#[test]
fn a_root_that_is_away_says_nothing_of_its_files_and_is_found_when_it_is_back() {
    let mut case = Case::new(&[("a.txt", "1"), ("x/b.txt", "2")]);
    case.until(&[("a.txt", "1"), ("x/b.txt", "2")]);
    let (root, aside) = (case.path(""), case.home.path().join("aside"));
    fs::rename(&root, &aside).unwrap();
    let away = "! it cannot be read: No such file or directory (os error 2)";
    case.until(&[("", away), ("a.txt", "1"), ("x/b.txt", "2")]);
    fs::write(aside.join("a.txt"), "changed meanwhile").unwrap();
    fs::remove_file(aside.join("x/b.txt")).unwrap();
    fs::rename(&aside, &root).unwrap();
    case.until(&[("a.txt", "changed meanwhile")]);
    case.write("a.txt", "noticed");
    case.until(&[("a.txt", "noticed")]);
}

/// What a directory that was made anew lacks may be on its way: nobody knows when a `git clone` is done, or whether it was
/// killed.
#[test]
fn a_root_that_is_made_anew_counts_once_all_that_was_told_is_in_it() {
    let mut case = Case::new(&[("a.txt", "1"), ("x/b.txt", "2")]);
    case.until(&[("a.txt", "1"), ("x/b.txt", "2")]);
    fs::remove_dir_all(case.path("")).unwrap();
    let away = "! it cannot be read: No such file or directory (os error 2)";
    case.until(&[("", away), ("a.txt", "1"), ("x/b.txt", "2")]);
    let lacks =
        |it: &str| format!("! this is another directory than before, and {it} is not in it: put back what was there");
    fs::create_dir(case.path("")).unwrap();
    case.until(&[("", &lacks("a.txt")), ("a.txt", "1"), ("x/b.txt", "2")]);
    case.write("new.txt", "3");
    case.write("a.txt", "changed");
    case.until(&[("", &lacks("x/b.txt")), ("a.txt", "1"), ("x/b.txt", "2")]);
    let _ = case.files.handle().reread();
    let again = case.files.now().unwrap();
    assert!(matches!(again.last(), Some(Change::Unreadable { path, .. }) if path.as_os_str().is_empty()), "{again:?}");
    case.write("x/b.txt", "changed");
    case.until(&[("a.txt", "changed"), ("new.txt", "3"), ("x/b.txt", "changed")]);
    fs::remove_file(case.path("x/b.txt")).unwrap();
    case.until(&[("a.txt", "changed"), ("new.txt", "3")]);
}

#[test]
fn a_root_that_is_moved_there_counts_unless_it_is_empty() {
    let mut case = Case::new(&[("a.txt", "1")]);
    case.until(&[("a.txt", "1")]);
    let (old, new) = (case.home.path().join("old"), case.home.path().join("new"));
    fs::create_dir(&new).unwrap();
    fs::rename(case.path(""), &old).unwrap();
    fs::rename(&new, case.path("")).unwrap();
    let lacks = "! this is another directory than before, and a.txt is not in it: put back what was there";
    case.until(&[("", lacks), ("a.txt", "1")]);
    // What nobody reads is nothing, and neither is an empty file.
    fs::rename(case.path(""), &new).unwrap();
    fs::write(new.join("README"), "text").unwrap();
    fs::create_dir(new.join("lost+found")).unwrap();
    fs::write(new.join("lost+found/c.txt"), "").unwrap();
    fs::rename(&new, case.path("")).unwrap();
    case.history.clear();
    let _ = case.files.handle().reread();
    while case.history.is_empty() {
        let changes = case.files.changes(None).unwrap().unwrap();
        changes.into_iter().for_each(|it| case.take(it));
    }
    case.until(&[("", lacks), ("a.txt", "1")]);
    fs::rename(case.path(""), &new).unwrap();
    fs::remove_dir_all(new.join("lost+found")).unwrap();
    fs::write(new.join("b.txt"), "2").unwrap();
    fs::rename(&new, case.path("")).unwrap();
    case.until(&[("b.txt", "2")]);
}

#[test]
fn a_directory_below_the_root_is_replaced_as_its_files_are() {
    let mut case = Case::new(&[("x/a.txt", "1"), ("x/y/b.txt", "2"), ("c.txt", "3")]);
    case.until(&[("x/a.txt", "1"), ("x/y/b.txt", "2"), ("c.txt", "3")]);
    fs::remove_dir_all(case.path("x")).unwrap();
    case.write("x/d.txt", "4");
    case.until(&[("x/d.txt", "4"), ("c.txt", "3")]);
    case.write(".new/e.txt", "5");
    case.rename("x", ".old");
    case.rename(".new", "x");
    case.until(&[("x/e.txt", "5"), ("c.txt", "3")]);
    assert!(case.moved.contains("x/e.txt"));
}

#[test]
fn what_was_moved_into_place_is_told_from_what_was_written_there() {
    let mut case = Case::new(&[("a.txt", "1")]);
    case.until(&[("a.txt", "1")]);
    assert!(case.moved.is_empty(), "what was there before is not known to have been moved");
    case.write("a.txt", "2");
    case.until(&[("a.txt", "2")]);
    assert!(case.moved.is_empty());
    case.write(".a.txt", "3");
    case.rename(".a.txt", "a.txt");
    case.until(&[("a.txt", "3")]);
    assert!(case.moved.contains("a.txt"));
    // Whatever comes after that is another matter.
    case.write("a.txt", "4");
    case.until(&[("a.txt", "4")]);
    assert!(case.moved.is_empty());
    case.write(".a.txt", "5");
    case.rename(".a.txt", "a.txt");
    case.write("a.txt", "6");
    case.until(&[("a.txt", "6")]);
    assert!(case.moved.is_empty());
    // Made anew as `git checkout` and `cp --remove-destination` do.
    fs::remove_file(case.path("a.txt")).unwrap();
    case.write("a.txt", "7");
    case.until(&[("a.txt", "7")]);
    assert!(case.moved.is_empty());
    // A second name of a file that was written elsewhere.
    fs::write(case.home.path().join("beside"), "8").unwrap();
    fs::remove_file(case.path("a.txt")).unwrap();
    fs::hard_link(case.home.path().join("beside"), case.path("a.txt")).unwrap();
    case.until(&[("a.txt", "8")]);
    assert!(case.moved.contains("a.txt"));
    fs::set_permissions(case.path("a.txt"), fs::Permissions::from_mode(0o600)).unwrap();
    let _ = case.files.handle().reread();
    case.history.clear();
    while case.history.is_empty() {
        let changes = case.files.changes(None).unwrap().unwrap();
        changes.into_iter().for_each(|it| case.take(it));
    }
    assert!(case.moved.is_empty(), "to be read again is no proof");
}

#[test]
fn a_link_that_is_turned_is_told_from_a_file_that_is_written() {
    let mut case = Case::new(&[]);
    for (name, text) in [("one", "1"), ("two", "2")] {
        fs::write(case.home.path().join(name), text).unwrap();
    }
    symlink("../one", case.path("a.txt")).unwrap();
    case.until(&[("a.txt", "1")]);
    symlink("../two", case.path(".a.txt")).unwrap();
    case.rename(".a.txt", "a.txt");
    case.until(&[("a.txt", "2")]);
    assert!(case.moved.contains("a.txt"));
    fs::write(case.home.path().join("two"), "3").unwrap();
    case.until(&[("a.txt", "3")]);
    assert!(case.moved.is_empty());
    fs::write(case.home.path().join("new"), "4").unwrap();
    fs::rename(case.home.path().join("new"), case.home.path().join("two")).unwrap();
    case.until(&[("a.txt", "4")]);
    assert!(case.moved.contains("a.txt"), "moved to where the link leads");
    // It led to a file, so that it leads to a directory says nothing about what was in it.
    fs::remove_file(case.home.path().join("two")).unwrap();
    fs::create_dir(case.home.path().join("two")).unwrap();
    case.until(&[("a.txt", "! it is a directory and not a file")]);
}

/// As a file that is removed and written anew in place.
#[test]
fn a_link_whose_end_was_away_is_not_turned() {
    let mut case = Case::new(&[]);
    let beside = case.home.path().join("beside");
    fs::create_dir(&beside).unwrap();
    fs::write(beside.join("real"), "1").unwrap();
    symlink("../beside/real", case.path("a.txt")).unwrap();
    case.until(&[("a.txt", "1")]);
    let nowhere = "! it cannot be read: No such file or directory (os error 2)";
    fs::remove_file(beside.join("real")).unwrap();
    case.until(&[("a.txt", nowhere)]);
    fs::write(beside.join("real"), "2").unwrap();
    case.until(&[("a.txt", "2")]);
    assert!(case.moved.is_empty());
    // The directory that it is in is no more of a proof.
    let aside = case.home.path().join("aside");
    fs::rename(&beside, &aside).unwrap();
    case.until(&[("a.txt", nowhere)]);
    fs::write(aside.join("real"), "3").unwrap();
    fs::rename(&aside, &beside).unwrap();
    case.until(&[("a.txt", "3")]);
    assert!(case.moved.is_empty());
    fs::remove_file(beside.join("real")).unwrap();
    case.until(&[("a.txt", nowhere)]);
    fs::write(beside.join("new"), "4").unwrap();
    fs::rename(beside.join("new"), beside.join("real")).unwrap();
    case.until(&[("a.txt", "4")]);
    assert!(case.moved.contains("a.txt"), "moved to where the link leads");
}

/// Nobody knows when whoever fills it is done.
#[test]
fn a_root_that_is_turned_to_an_empty_directory_counts_once_all_that_was_told_is_in_it() {
    let home = tempfile::tempdir().unwrap();
    for version in ["1", "2"] {
        fs::create_dir(home.path().join(version)).unwrap();
    }
    fs::write(home.path().join("1/a.txt"), "a").unwrap();
    fs::write(home.path().join("1/b.txt"), "b").unwrap();
    symlink("1", home.path().join("files")).unwrap();
    let files = WatchedFiles::begin(&home.path().join("files"), choice(Duration::from_millis(20))).unwrap();
    let mut case = Case { home, files, state: BTreeMap::new(), history: Vec::new(), moved: BTreeSet::new() };
    case.until(&[("a.txt", "a"), ("b.txt", "b")]);
    symlink("2", case.home.path().join("new")).unwrap();
    fs::rename(case.home.path().join("new"), case.home.path().join("files")).unwrap();
    let lacks =
        |it: &str| format!("! this is another directory than before, and {it} is not in it: put back what was there");
    case.until(&[("", &lacks("a.txt")), ("a.txt", "a"), ("b.txt", "b")]);
    case.write("a.txt", "A");
    case.until(&[("", &lacks("b.txt")), ("a.txt", "a"), ("b.txt", "b")]);
    case.write("b.txt", "B");
    case.until(&[("a.txt", "A"), ("b.txt", "B")]);
    assert!(case.moved.is_empty(), "{:?}", case.moved);
}

#[test]
fn a_file_that_is_a_directory_for_a_moment_was_never_gone() {
    let mut case = Case::patient(&[("a.txt", "old"), ("b.txt", "1")], Duration::from_secs(3600));
    case.until(&[("a.txt", "old"), ("b.txt", "1")]);
    fs::remove_file(case.path("a.txt")).unwrap();
    fs::create_dir(case.path("a.txt")).unwrap();
    case.write("b.txt", "2");
    case.until(&[("a.txt", "old"), ("b.txt", "2")]);
    fs::remove_dir(case.path("a.txt")).unwrap();
    case.write("a.txt", "new");
    case.until(&[("a.txt", "new"), ("b.txt", "2")]);
    assert!(!case.history.iter().any(|it| it.ends_with("gone")), "{:?}", case.history);
    assert!(case.moved.is_empty());
}

#[test]
fn a_directory_above_the_root_that_is_away_is_noticed_too() {
    let home = tempfile::tempdir().unwrap();
    let root = home.path().join("a/b/files");
    let files = WatchedFiles::begin(&root, choice(Duration::from_millis(20))).unwrap();
    let mut case = Case { home, files, state: BTreeMap::new(), history: Vec::new(), moved: BTreeSet::new() };
    let away = "! it cannot be read: No such file or directory (os error 2)";
    case.until(&[("", away)]);
    fs::create_dir_all(&root).unwrap();
    case.until(&[]);
    fs::write(root.join("a.txt"), "1").unwrap();
    case.until(&[("a.txt", "1")]);
    fs::rename(case.home.path().join("a"), case.home.path().join("c")).unwrap();
    case.until(&[("", away), ("a.txt", "1")]);
    fs::rename(case.home.path().join("c"), case.home.path().join("a")).unwrap();
    case.until(&[("a.txt", "1")]);
}

#[test]
fn a_root_that_is_a_link_is_followed_wherever_it_leads() {
    let home = tempfile::tempdir().unwrap();
    for version in ["1", "2"] {
        fs::create_dir(home.path().join(version)).unwrap();
        fs::write(home.path().join(version).join("a.txt"), version).unwrap();
    }
    let point = |version: &str| {
        symlink(version, home.path().join("new")).unwrap();
        fs::rename(home.path().join("new"), home.path().join("files")).unwrap();
    };
    point("1");
    let files = WatchedFiles::begin(&home.path().join("files"), choice(Duration::from_millis(20))).unwrap();
    let mut case = Case {
        home: tempfile::tempdir().unwrap(),
        files,
        state: BTreeMap::new(),
        history: Vec::new(),
        moved: BTreeSet::new(),
    };
    case.until(&[("a.txt", "1")]);
    point("2");
    case.until(&[("a.txt", "2")]);
    fs::write(home.path().join("1/a.txt"), "of no interest").unwrap();
    fs::write(home.path().join("2/a.txt"), "noticed").unwrap();
    case.until(&[("a.txt", "noticed")]);
}

/// As `..data` in a directory that Kubernetes writes.
#[test]
fn a_link_on_the_way_of_a_link_can_be_swapped() {
    let mut case = Case::new(&[("..1/a.txt", "1"), ("..1/b.txt", "1"), ("..2/a.txt", "2"), ("..2/b.txt", "2")]);
    symlink("..1", case.path("..data")).unwrap();
    symlink("..data/a.txt", case.path("a.txt")).unwrap();
    symlink("..data/b.txt", case.path("b.txt")).unwrap();
    case.until(&[("a.txt", "1"), ("b.txt", "1")]);
    symlink("..2", case.path("..data_tmp")).unwrap();
    case.rename("..data_tmp", "..data");
    fs::remove_dir_all(case.path("..1")).unwrap();
    case.until(&[("a.txt", "2"), ("b.txt", "2")]);
    assert!(!case.history.iter().any(|it| it.contains('!') || it.ends_with("gone")), "{:?}", case.history);
}

#[test]
fn a_link_that_leads_elsewhere_is_read_there() {
    let mut case = Case::new(&[]);
    let beside = case.home.path().join("beside");
    fs::create_dir(&beside).unwrap();
    symlink("../beside/real", case.path("a.txt")).unwrap();
    symlink(&beside, case.path("directory.txt")).unwrap();
    let nowhere = "! it cannot be read: No such file or directory (os error 2)";
    case.until(&[("a.txt", nowhere)]);
    fs::write(beside.join("real"), "1").unwrap();
    case.until(&[("a.txt", "1")]);
    fs::write(beside.join("real"), "2").unwrap();
    case.until(&[("a.txt", "2")]);
    fs::write(beside.join("other"), "3").unwrap();
    fs::rename(beside.join("other"), beside.join("real")).unwrap();
    case.until(&[("a.txt", "3")]);
    fs::remove_file(beside.join("real")).unwrap();
    case.until(&[("a.txt", nowhere)]);
    fs::remove_file(case.path("a.txt")).unwrap();
    case.until(&[]);
    symlink("b.txt", case.path("b.txt")).unwrap();
    case.until(&[("b.txt", "! it cannot be read: Too many levels of symbolic links (os error 40)")]);
}

#[test]
fn what_is_no_file_is_never_opened_and_what_is_too_large_is_not_read() {
    let mut case = Case::new(&[("large.txt", &"x".repeat(101)), ("fine.txt", &"x".repeat(100))]);
    rustix::fs::mkfifoat(rustix::fs::CWD, case.path("pipe.txt"), 0o600.into()).unwrap();
    let _socket = std::os::unix::net::UnixListener::bind(case.path("socket.txt")).unwrap();
    symlink("/dev/zero", case.path("device.txt")).unwrap();
    case.until(&[
        ("device.txt", "! it is a device and not a file"),
        ("fine.txt", &"x".repeat(100)),
        ("large.txt", "! it is larger than 100 bytes"),
        ("pipe.txt", "! it is a pipe and not a file"),
        ("socket.txt", "! it is a socket and not a file"),
    ]);
    // A file of unknown size, as many in /proc are.
    assert!(matches!(read(Path::new("/proc/self/status"), 10), Err(Trouble::TooLarge(10))));
}

#[test]
fn a_file_that_comes_whole_needs_nobody_to_close_it() {
    let mut case = Case::new(&[("a.txt", "1")]);
    case.until(&[("a.txt", "1")]);
    fs::hard_link(case.path("a.txt"), case.path("b.txt")).unwrap();
    case.until(&[("a.txt", "1"), ("b.txt", "1")]);
    let flags = rustix::fs::OFlags::TMPFILE | rustix::fs::OFlags::WRONLY;
    let nameless = rustix::fs::open(case.path(""), flags, 0o600.into()).unwrap();
    rustix::io::write(&nameless, b"2").unwrap();
    let name = format!("/proc/self/fd/{}", std::os::fd::AsRawFd::as_raw_fd(&nameless));
    let (here, follow) = (rustix::fs::CWD, rustix::fs::AtFlags::SYMLINK_FOLLOW);
    rustix::fs::linkat(here, name, here, case.path("c.txt"), follow).unwrap();
    drop(nameless);
    case.until(&[("a.txt", "1"), ("b.txt", "1"), ("c.txt", "2")]);
}

#[test]
fn a_directory_that_cannot_be_read_says_nothing_of_its_files() {
    let mut case = Case::new(&[("a.txt", "1"), ("x/b.txt", "2")]);
    case.until(&[("a.txt", "1"), ("x/b.txt", "2")]);
    if rustix::process::geteuid().is_root() {
        eprintln!("root may read everything: skipped");
        return;
    }
    let allow = |mode| fs::set_permissions(case.path("x"), fs::Permissions::from_mode(mode)).unwrap();
    allow(0o000);
    let forbidden = "! it cannot be read: Permission denied (os error 13)";
    case.until(&[("a.txt", "1"), ("x", forbidden), ("x/b.txt", "2")]);
    fs::set_permissions(case.path("x"), fs::Permissions::from_mode(0o700)).unwrap();
    case.until(&[("a.txt", "1"), ("x/b.txt", "2")]);
    fs::set_permissions(case.path("x/b.txt"), fs::Permissions::from_mode(0o000)).unwrap();
    case.until(&[("a.txt", "1"), ("x/b.txt", forbidden)]);
}

#[test]
fn lost_events_are_made_up_for() {
    let mut case = Case::new(&[("a.txt", "1"), ("b.txt", "1")]);
    case.until(&[("a.txt", "1"), ("b.txt", "1")]);
    let limit = fs::read_to_string("/proc/sys/fs/inotify/max_queued_events").unwrap();
    let mode = fs::Permissions::from_mode(0o600);
    for turn in 0..=limit.trim().parse::<usize>().unwrap() {
        // By turns, for the kernel counts the same twice as once.
        fs::set_permissions(case.path(if turn % 2 == 0 { "a.txt" } else { "b.txt" }), mode.clone()).unwrap();
    }
    case.write("a.txt", "2");
    fs::remove_file(case.path("b.txt")).unwrap();
    case.write("c.txt", "3");
    case.until(&[("a.txt", "2"), ("c.txt", "3")]);
    assert!(case.history.len() < 20, "and in no more than a few readings: {}", case.history.len());
}

#[test]
fn everything_is_read_again_when_that_is_asked_for() {
    let mut case = Case::new(&[("a.txt", "1"), ("x/b.txt", "2")]);
    case.until(&[("a.txt", "1"), ("x/b.txt", "2")]);
    case.history.clear();
    let _ = case.files.handle().reread();
    let changes = case.files.changes(None).unwrap().unwrap();
    changes.into_iter().for_each(|it| case.take(it));
    case.history.sort();
    assert_eq!(case.history, ["a.txt: 1", "x/b.txt: 2"]);
}

/// Also if there is nothing to be told of.
#[test]
fn it_is_known_when_everything_has_been_read_again() {
    let mut case = Case::new(&[]);
    assert_eq!(case.files.now().unwrap().len(), 0);
    let number = case.files.handle().reread();
    assert!(case.files.read() < number);
    assert_eq!(case.files.changes(None).unwrap().unwrap().len(), 0);
    assert_eq!(case.files.read(), number);
}

#[test]
fn another_hard_link_of_a_file_is_noticed_when_all_is_read_again() {
    let mut case = Case::new(&[("a.txt", "1")]);
    case.until(&[("a.txt", "1")]);
    let outside = case.home.path().join("outside");
    fs::hard_link(case.path("a.txt"), &outside).unwrap();
    fs::write(&outside, "2").unwrap();
    let _ = case.files.handle().reread();
    case.until(&[("a.txt", "2")]);
    assert!(case.moved.is_empty(), "it was written in place");
}

#[test]
fn it_ends_when_it_is_told_to() {
    let mut case = Case::new(&[]);
    case.until(&[]);
    let handle = case.files.handle();
    let ended = std::thread::spawn(move || case.files.changes(None).unwrap().is_none());
    handle.end();
    assert!(ended.join().unwrap());
}

#[test]
fn reading_once_needs_no_watch() {
    let home = tempfile::tempdir().unwrap();
    fs::create_dir(home.path().join("x")).unwrap();
    fs::write(home.path().join("x/a.txt"), "1").unwrap();
    let changes = WatchedFiles::once(home.path(), choice(Duration::ZERO)).unwrap();
    assert!(matches!(changes.as_slice(), [Change::Content { path, .. }] if path == Path::new("x/a.txt")));
    let changes = WatchedFiles::once(&home.path().join("nowhere"), choice(Duration::ZERO)).unwrap();
    assert!(matches!(changes.as_slice(), [Change::Unreadable { path, .. }] if path == Path::new("")));
}

/// Whatever else happens to it meanwhile.
#[test]
fn a_file_that_somebody_still_writes_is_not_read() {
    let mut case = Case::new(&[("a.txt", "old")]);
    case.until(&[("a.txt", "old")]);
    if crate::raw::is_written_to(fs::File::open(case.path("a.txt")).unwrap()).is_err() {
        eprintln!("skipped: there are no leases here");
        return;
    }
    let mut writer = fs::File::create(case.path("a.txt")).unwrap();
    writer.write_all(b"ne").unwrap();
    for disturb in [
        |case: &Case| _ = case.files.handle().reread(),
        |case: &Case| fs::set_permissions(case.path("a.txt"), fs::Permissions::from_mode(0o600)).unwrap(),
        |case: &Case| drop(fs::OpenOptions::new().append(true).open(case.path("a.txt")).unwrap()),
    ] {
        disturb(&case);
        case.write("b.txt", "b");
        case.until(&[("a.txt", "! it is being written"), ("b.txt", "b")]);
        fs::remove_file(case.path("b.txt")).unwrap();
        case.until(&[("a.txt", "! it is being written")]);
    }
    writer.write_all(b"w").unwrap();
    drop(writer);
    case.until(&[("a.txt", "new")]);
    assert!(!case.history.iter().any(|it| it == "a.txt: " || it == "a.txt: ne"), "{:?}", case.history);
}

#[test]
fn a_file_that_is_cut_is_read_once_nobody_has_it_open() {
    let mut case = Case::new(&[("a.txt", "long")]);
    case.until(&[("a.txt", "long")]);
    if crate::raw::is_written_to(fs::File::open(case.path("a.txt")).unwrap()).is_err() {
        eprintln!("skipped: there are no leases here");
        return;
    }
    // Closed before anything is told: an open for writing and its close would be told too.
    let writer = fs::OpenOptions::new().write(true).open(case.path("a.txt")).unwrap();
    writer.set_len(2).unwrap();
    case.files.take_in().unwrap();
    assert!(case.files.writing.contains(Path::new("a.txt")), "somebody has it open");
    drop(writer);
    case.until(&[("a.txt", "lo")]);
}

/// I-1.
#[test]
fn a_file_that_goes_while_it_is_written_to_may_be_away_for_as_long_as_any_other() {
    let mut case = Case::patient(&[("a.txt", "a")], Duration::from_secs(3600));
    case.until(&[("a.txt", "a")]);
    // It is looked at while it is open, and so once more a moment later.
    let writer = fs::File::options().append(true).open(case.path("a.txt")).unwrap();
    case.rename("a.txt", "b.txt");
    case.rename("b.txt", "a.txt");
    case.until(&[("a.txt", "! it is being written")]);
    fs::remove_file(case.path("a.txt")).unwrap();
    drop(writer);
    let end = Instant::now() + 3 * AGAIN;
    while Instant::now() < end {
        case.files.changes(Some(end)).unwrap().unwrap().into_iter().for_each(|it| case.take(it));
    }
    assert!(!case.history.contains(&"a.txt: gone".to_owned()), "{:?}", case.history);
}

#[test]
fn a_shortage_says_nothing_of_the_file_and_passes() {
    let shortage = |errno: Errno| Trouble::Unreadable(errno.into()).is_shortage();
    assert!(shortage(Errno::MFILE) && shortage(Errno::NFILE) && shortage(Errno::NOMEM));
    assert!(!shortage(Errno::ACCESS) && !shortage(Errno::IO) && !Trouble::BeingWritten.is_shortage());
}
