//! Watched files whose directory is covered, uncovered, unmounted and mounted again: what is found instead is not believed.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::sync::mpsc;
use std::time::Duration;

use rustix::mount::{UnmountFlags, mount_bind, mount_move, unmount};
use windlass_linux::watched_files::{Change, Choice, Origin, WatchedFiles};

use crate::case::Case;

crate::tests!(
    a_bind_mount_that_is_unmounted_takes_no_file_away,
    a_file_system_that_is_unmounted_takes_no_file_away,
    an_empty_file_system_over_the_directory_takes_no_file_away,
    a_file_system_that_is_mounted_after_the_start_is_noticed,
    an_empty_file_system_that_covered_the_directory_at_the_start_goes,
    a_mount_over_or_under_a_directory_below_takes_no_file_away,
    a_mount_on_the_way_to_the_root_that_goes_takes_no_file_away,
    a_mount_that_is_moved_away_takes_no_file_away,
    what_is_below_a_mount_is_not_told_in_its_place,
    another_file_system_with_all_that_was_told_takes_its_place,
    a_mount_below_that_goes_with_its_mount_point_takes_no_file_away,
    a_mount_below_that_moves_with_its_directory_is_followed,
    a_file_that_is_mounted_is_told_from_the_one_below,
);

struct Files<'case> {
    case: &'case Case,
    files: WatchedFiles,
    /// What was told, and not taken back.
    state: BTreeMap<String, String>,
    /// Where contents were read.
    origins: BTreeMap<String, Origin>,
    /// Directories that took the places of others, and whether that was meant.
    replaced: Vec<(String, bool)>,
}

impl<'case> Files<'case> {
    fn watch(case: &'case Case, root: &str) -> Self {
        let shown = |name: &OsStr| !name.as_encoded_bytes().starts_with(b".");
        let grace = Duration::from_millis(5);
        let choice = Choice {
            file: |it| it.as_encoded_bytes().ends_with(b".txt"),
            misnamed: |_| false,
            directory: shown,
            bytes_max: 100,
            grace,
        };
        let files = WatchedFiles::begin(&case.path(root), choice).unwrap();
        Self { case, files, state: BTreeMap::new(), origins: BTreeMap::new(), replaced: Vec::new() }
    }

    /// Waits until all that was told amounts to this.
    fn until(&mut self, expected: &[(&str, &str)]) {
        let expected: BTreeMap<String, String> =
            expected.iter().map(|(path, text)| ((*path).to_owned(), (*text).to_owned())).collect();
        let (_done, waiting) = mpsc::channel::<()>();
        let handle = self.files.handle();
        std::thread::spawn(move || {
            if waiting.recv_timeout(Duration::from_secs(20)) == Err(mpsc::RecvTimeoutError::Timeout) {
                handle.end();
            }
        });
        while self.state != expected {
            let changes = self.files.changes(None).unwrap();
            let changes = changes.unwrap_or_else(|| panic!("waited for {expected:#?}, it is {:#?}", self.state));
            changes.into_iter().for_each(|it| self.take(it));
        }
    }

    fn take(&mut self, change: Change) {
        match change {
            Change::Content { path, bytes, origin } => {
                self.origins.insert(path.to_str().unwrap().into(), origin);
                self.state.insert(path.to_str().unwrap().into(), String::from_utf8(bytes).unwrap());
            }
            Change::Unreadable { path, trouble } => {
                let told = trouble.to_string();
                self.state.insert(path.to_str().unwrap().into(), format!("! {}", told.split(':').next().unwrap()));
            }
            Change::Gone { path, .. } => _ = self.state.remove(path.to_str().unwrap()),
            Change::Misnamed { path } => panic!("{}", path.display()),
            Change::Replaced { path, meant } => self.replaced.push((path.to_str().unwrap().into(), meant)),
        }
    }

    /// Whatever makes it look, all of it stays and the trouble is told.
    fn holds(&mut self, trouble: (&str, &str), files: &[(&str, &str)], touch: &str) {
        let expected: Vec<_> = [trouble].into_iter().chain(files.iter().copied()).collect();
        self.files.handle().reread();
        self.until(&expected);
        self.case.file(touch, "touched");
        std::fs::remove_file(self.case.path(touch)).unwrap();
        for _ in 0..3 {
            self.files.handle().reread();
            let changes = self.files.changes(None).unwrap().unwrap();
            changes.into_iter().for_each(|it| self.take(it));
            std::thread::yield_now();
        }
        self.until(&expected);
    }
}

const FILES: [(&str, &str); 2] = [("a.txt", "1"), ("x/b.txt", "2")];

/// Two files in a directory.
fn fill(case: &Case, directory: &str) {
    for (path, text) in FILES {
        case.file(&format!("{directory}/{path}"), text);
    }
}

fn bind(case: &Case, from: &str, to: &str) {
    std::fs::create_dir_all(case.path(to)).unwrap();
    mount_bind(case.path(from), case.path(to)).unwrap();
}

fn lazily_unmount(case: &Case, path: &str) {
    unmount(case.path(path), UnmountFlags::DETACH).unwrap();
}

const MOUNTED: &str = "! another file system is there than before, and a.txt is not in it";

fn a_bind_mount_that_is_unmounted_takes_no_file_away(case: &Case) {
    fill(case, "source");
    bind(case, "source", "files");
    let mut files = Files::watch(case, "files");
    files.until(&FILES);
    lazily_unmount(case, "files");
    // The watch is on the source, so what happens there is heard, and looked up at the bare mount point.
    case.file("source/x/new.txt", "new");
    std::fs::remove_file(case.path("source/x/new.txt")).unwrap();
    let expected: Vec<_> = [("", MOUNTED)].into_iter().chain(FILES).collect();
    files.until(&expected);
    files.holds(("", MOUNTED), &FILES, "files/new.txt");
    case.file("source/a.txt", "changed");
    bind(case, "source", "files");
    files.until(&[("a.txt", "changed"), ("x/b.txt", "2")]);
    std::fs::remove_file(case.path("files/a.txt")).unwrap();
    files.until(&[("x/b.txt", "2")]);
}

fn a_file_system_that_is_unmounted_takes_no_file_away(case: &Case) {
    case.tmpfs("files");
    fill(case, "files");
    let mut files = Files::watch(case, "files");
    files.until(&FILES);
    unmount(case.path("files"), UnmountFlags::empty()).unwrap();
    let expected: Vec<_> = [("", MOUNTED)].into_iter().chain(FILES).collect();
    files.until(&expected);
    files.holds(("", MOUNTED), &FILES, "files/new.txt");
}

fn an_empty_file_system_over_the_directory_takes_no_file_away(case: &Case) {
    fill(case, "files");
    bind(case, "files", "beside");
    let mut files = Files::watch(case, "files");
    files.until(&FILES);
    case.tmpfs("files");
    case.file("beside/x/b.txt", "changed below");
    let expected: Vec<_> = [("", MOUNTED)].into_iter().chain(FILES).collect();
    files.until(&expected);
    files.holds(("", MOUNTED), &FILES, "files/new.txt");
    lazily_unmount(case, "files");
    files.until(&[("a.txt", "1"), ("x/b.txt", "changed below")]);
}

/// What is not mounted at the start has nothing in it that could be lost.
fn a_file_system_that_is_mounted_after_the_start_is_noticed(case: &Case) {
    fill(case, "source");
    for directory in ["files/empty/x", "files/other"] {
        case.directory(directory);
    }
    case.file("files/other/what is mounted here", "");
    let mut files = Files::watch(case, "files");
    assert!(files.files.now().unwrap().is_empty());
    bind(case, "source/x", "files/empty/x");
    files.until(&[("empty/x/b.txt", "2")]);
    bind(case, "source", "files/other");
    files.until(&[("empty/x/b.txt", "2"), ("other/a.txt", "1"), ("other/x/b.txt", "2")]);
}

fn an_empty_file_system_that_covered_the_directory_at_the_start_goes(case: &Case) {
    fill(case, "files");
    case.directory("empty");
    bind(case, "empty", "files");
    let mut files = Files::watch(case, "files");
    assert!(files.files.now().unwrap().is_empty());
    lazily_unmount(case, "files");
    files.until(&FILES);
}

fn a_mount_over_or_under_a_directory_below_takes_no_file_away(case: &Case) {
    fill(case, "files");
    let mut files = Files::watch(case, "files");
    files.until(&FILES);
    let lost = ("x", "! another file system is there than before, and x/b.txt is not in it");
    case.tmpfs("files/x");
    files.holds(lost, &FILES, "files/x/new.txt");
    // The rest is followed meanwhile.
    case.file("files/a.txt", "one");
    files.until(&[("a.txt", "one"), lost, ("x/b.txt", "2")]);
    lazily_unmount(case, "files/x");
    files.until(&[("a.txt", "one"), ("x/b.txt", "2")]);
    // And the other way round: what is read is on a mount, which goes.
    case.file("source/b.txt", "2");
    bind(case, "source", "files/x");
    files.files.handle().reread();
    let changes = files.files.changes(None).unwrap().unwrap();
    changes.into_iter().for_each(|it| files.take(it));
    std::fs::remove_file(case.path("files/x/b.txt")).unwrap();
    files.until(&[("a.txt", "one")]);
    case.file("files/x/c.txt", "3");
    files.until(&[("a.txt", "one"), ("x/c.txt", "3")]);
    lazily_unmount(case, "files/x");
    let lost = ("x", "! another file system is there than before, and x/c.txt is not in it");
    files.holds(lost, &[("a.txt", "one"), ("x/c.txt", "3")], "files/x/new.txt");
}

fn a_mount_on_the_way_to_the_root_that_goes_takes_no_file_away(case: &Case) {
    fill(case, "source/deep/files");
    std::fs::create_dir_all(case.path("above/deep/files")).unwrap();
    bind(case, "source", "above");
    let mut files = Files::watch(case, "above/deep/files");
    files.until(&FILES);
    lazily_unmount(case, "above");
    files.holds(("", MOUNTED), &FILES, "above/deep/files/new.txt");
    bind(case, "source", "above");
    files.until(&FILES);
}

fn a_mount_that_is_moved_away_takes_no_file_away(case: &Case) {
    case.tmpfs("files");
    fill(case, "files");
    let mut files = Files::watch(case, "files");
    files.until(&FILES);
    case.place("elsewhere");
    mount_move(case.path("files"), case.path("elsewhere")).unwrap();
    case.file("elsewhere/x/b.txt", "changed");
    let expected: Vec<_> = [("", MOUNTED)].into_iter().chain(FILES).collect();
    files.until(&expected);
    mount_move(case.path("elsewhere"), case.path("files")).unwrap();
    files.until(&[("a.txt", "1"), ("x/b.txt", "changed")]);
}

fn what_is_below_a_mount_is_not_told_in_its_place(case: &Case) {
    case.file("files/a.txt", "old");
    case.file("files/z.txt", "old");
    case.tmpfs("files");
    fill(case, "files");
    let mut files = Files::watch(case, "files");
    files.until(&FILES);
    lazily_unmount(case, "files");
    let lost = ("", "! another file system is there than before, and x/b.txt is not in it");
    files.holds(lost, &FILES, "files/new.txt");
}

fn another_file_system_with_all_that_was_told_takes_its_place(case: &Case) {
    case.tmpfs("files");
    fill(case, "files");
    let mut files = Files::watch(case, "files");
    files.until(&FILES);
    case.tmpfs("files");
    case.file("files/a.txt", "one");
    case.file("files/c.txt", "three");
    files.holds(("", "! another file system is there than before, and x/b.txt is not in it"), &FILES, "files/new.txt");
    case.file("files/x/b.txt", "two");
    files.until(&[("a.txt", "one"), ("c.txt", "three"), ("x/b.txt", "two")]);
    files.replaced.sort();
    assert_eq!(files.replaced, [(String::new(), false), ("x".into(), false)], "nobody meant that");
}

/// As automounters do it, which remove what they mount on.
fn a_mount_below_that_goes_with_its_mount_point_takes_no_file_away(case: &Case) {
    let lost = ("y/x", "! what was mounted there is not any more");
    let told = [("a.txt", "1"), ("y/x/b.txt", "2")];
    for reported in [false, true] {
        case.file("files/a.txt", "1");
        case.file("source/b.txt", "2");
        bind(case, "source", "files/y/x");
        let mut files = Files::watch(case, "files");
        files.until(&told);
        let before = files.origins["y/x/b.txt"];
        lazily_unmount(case, "files/y/x");
        if reported {
            let bare = ("y/x", "! another file system is there than before, and y/x/b.txt is not in it");
            files.holds(bare, &told, "files/new.txt");
        }
        // With all that is above it, too.
        std::fs::remove_dir_all(case.path("files/y")).unwrap();
        files.until(&[told[0], lost, told[1]]);
        files.holds(lost, &told, "files/new.txt");
        std::fs::create_dir_all(case.path("files/y")).unwrap();
        files.holds(lost, &told, "files/y/new.txt");
        // Another of its name is another.
        std::fs::create_dir_all(case.path("files/y/x")).unwrap();
        files.holds(
            ("y/x", "! another file system is there than before, and y/x/b.txt is not in it"),
            &told,
            "files/new.txt",
        );
        std::fs::remove_dir_all(case.path("files/y")).unwrap();
        files.until(&[told[0], lost, told[1]]);
        case.file("source/b.txt", "two");
        bind(case, "source", "files/y/x");
        files.until(&[("a.txt", "1"), ("y/x/b.txt", "two")]);
        assert!(files.origins["y/x/b.txt"].is_at(&before), "mounted again it is the same");
        // Now it is there, and what is removed from it is removed.
        std::fs::remove_file(case.path("files/y/x/b.txt")).unwrap();
        files.until(&[("a.txt", "1")]);
        lazily_unmount(case, "files/y/x");
        std::fs::remove_dir_all(case.path("files")).unwrap();
    }
}

fn a_mount_below_that_moves_with_its_directory_is_followed(case: &Case) {
    case.file("files/a.txt", "1");
    case.file("source/b.txt", "2");
    bind(case, "source", "files/y/x");
    let mut files = Files::watch(case, "files");
    files.until(&[("a.txt", "1"), ("y/x/b.txt", "2")]);
    std::fs::rename(case.path("files/y"), case.path("files/z")).unwrap();
    files.until(&[("a.txt", "1"), ("z/x/b.txt", "2")]);
}

fn a_file_that_is_mounted_is_told_from_the_one_below(case: &Case) {
    case.file("files/a.txt", "below");
    case.file("files/c.txt", "1");
    case.file("real.txt", "mounted");
    mount_bind(case.path("real.txt"), case.path("files/a.txt")).unwrap();
    let mut files = Files::watch(case, "files");
    files.until(&[("a.txt", "mounted"), ("c.txt", "1")]);
    let mounted = files.origins["a.txt"];
    lazily_unmount(case, "files/a.txt");
    files.files.handle().reread();
    files.until(&[("a.txt", "below"), ("c.txt", "1")]);
    let below = files.origins["a.txt"];
    assert!(!below.is_at(&mounted) && below.is_at(&files.origins["c.txt"]));
    mount_bind(case.path("real.txt"), case.path("files/a.txt")).unwrap();
    files.files.handle().reread();
    files.until(&[("a.txt", "mounted"), ("c.txt", "1")]);
    assert!(files.origins["a.txt"].is_at(&mounted) && files.origins["a.txt"].is_of(&mounted));
    // It goes with what it was mounted on.
    lazily_unmount(case, "files/a.txt");
    std::fs::remove_file(case.path("files/a.txt")).unwrap();
    files.until(&[("a.txt", "! what was mounted there is not any more"), ("c.txt", "1")]);
    case.file("files/.new", "");
    std::fs::rename(case.path("files/.new"), case.path("files/a.txt")).unwrap();
    mount_bind(case.path("real.txt"), case.path("files/a.txt")).unwrap();
    files.until(&[("a.txt", "mounted"), ("c.txt", "1")]);
}
