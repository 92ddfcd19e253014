//! Giving a tree to a group: every kind of entry, mounts, depth, several threads, and an adversary.

use std::collections::BTreeMap;
use std::fs::Permissions;
use std::num::NonZero;
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt, lchown, symlink};
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use rustix::fs::{CWD, FileType, Gid, Mode, OFlags, RenameFlags, Uid};
use rustix::io::Errno;
use windlass_linux::mount::{Extent, bind};
use windlass_linux::ownership::{Access, Attempt, Control, Error, Summary, Wanted, When, apply, root_matches};
use windlass_linux::path_error::PathError;
use windlass_linux::safe_path::{Mounts, Place};
use windlass_testing::namespace::has_ids;

use crate::case::{Case, Stopping, name};

crate::tests!(
    every_kind_of_entry_gets_what_it_needs,
    only_a_root_that_is_right_in_everything_spares_the_rest,
    what_a_link_leads_to_is_left_alone,
    what_is_mounted_below_is_left_alone,
    what_cannot_be_changed_is_told_and_the_rest_goes_on,
    a_directory_that_cannot_be_read_leaves_the_root_as_it_was,
    a_change_that_was_stopped_goes_on_the_next_time,
    a_tree_deeper_than_any_stack_is_changed,
    many_threads_come_to_what_one_comes_to,
    one_large_directory_is_changed_by_many_threads,
    what_vanishes_meanwhile_is_nobodys_business,
    no_swap_of_links_leads_a_change_to_the_canary,
    no_mount_leads_a_change_to_the_canary,
);

/// A group that is not ours, or ours if there is no other.
fn group() -> u32 {
    if has_ids() { 4000 } else { 0 }
}

fn read_write() -> Wanted {
    Wanted { group: group(), access: Access::ReadWrite, when: When::Always }
}

fn threads(count: usize) -> NonZero<usize> {
    NonZero::new(count).unwrap()
}

/// Gives a tree away with a thread or two, and without trouble.
fn give(root: &Place, wanted: &Wanted, count: usize) -> Summary {
    let summary = apply(root, wanted, threads(count), &Control::default()).unwrap();
    assert_eq!((summary.failed, summary.failures.as_slice()), (0, &[][..]));
    summary
}

/// The group and mode of something, which may be a link.
fn owned(path: &Path) -> (u32, u32) {
    let status = std::fs::symlink_metadata(path).unwrap();
    (status.gid(), status.mode() & 0o7777)
}

fn set_mode(path: &Path, mode: u32) {
    std::fs::set_permissions(path, Permissions::from_mode(mode)).unwrap();
}

/// All entries of a tree, the root included, with group and mode.
fn listed(root: &Path) -> BTreeMap<PathBuf, (u32, u32)> {
    let mut found = BTreeMap::new();
    let mut left = vec![root.to_owned()];
    while let Some(path) = left.pop() {
        if std::fs::symlink_metadata(&path).unwrap().is_dir() {
            left.extend(std::fs::read_dir(&path).unwrap().map(|it| it.unwrap().path()));
        }
        found.insert(path.strip_prefix(root).unwrap().to_owned(), owned(&path));
    }
    found
}

fn every_kind_of_entry_gets_what_it_needs(case: &Case) {
    let root = case.place("tree");
    let fifo = |name: &str| {
        rustix::fs::mknodat(CWD, case.path(name), FileType::Fifo, Mode::from_raw_mode(0o600), 0).unwrap();
    };
    case.file("tree/file", "");
    case.file("tree/program", "");
    case.file("tree/script", "");
    case.file("tree/directory/inner", "");
    symlink("nowhere", case.path("tree/link")).unwrap();
    fifo("tree/fifo");
    let _socket = UnixListener::bind(case.path("tree/socket")).unwrap();
    // The one device that a user namespace may make: 0:0, as overlay uses it.
    let device = case.path("tree/device");
    rustix::fs::mknodat(CWD, &device, FileType::CharacterDevice, Mode::from_raw_mode(0o600), 0).unwrap();
    std::fs::hard_link(case.path("tree/file"), case.path("tree/directory/same")).unwrap();
    for (below, mode) in [
        ("tree", 0o755),
        ("tree/file", 0o600),
        ("tree/program", 0o6755),
        ("tree/script", 0o666),
        ("tree/directory", 0o1700),
        ("tree/directory/inner", 0o000),
        ("tree/fifo", 0o620),
        ("tree/socket", 0o755),
        ("tree/device", 0o600),
    ] {
        set_mode(&case.path(below), mode);
    }
    let before = listed(&case.path("tree"));
    for (access, modes) in [
        // Read-only first: bits are only added, so it would not show after the other.
        (Access::ReadOnly, [0o2755, 0o640, 0o6755, 0o666, 0o3750, 0o440, 0o660, 0o755, 0o640]),
        (Access::ReadWrite, [0o2775, 0o660, 0o6775, 0o666, 0o3770, 0o660, 0o660, 0o775, 0o660]),
    ] {
        let summary = give(&root, &Wanted { access, ..read_write() }, 1);
        // The hard link is seen twice, and is right the second time.
        let all = u64::try_from(before.len()).unwrap();
        assert_eq!(summary.changed + summary.right_already, all);
        let after = listed(&case.path("tree"));
        let names = ["", "file", "program", "script", "directory", "directory/inner", "fifo", "socket", "device"];
        for (name, mode) in names.into_iter().zip(modes) {
            assert_eq!(after[Path::new(name)], (group(), mode), "{name} {access:?}");
        }
        assert_eq!(after[Path::new("link")], (group(), before[Path::new("link")].1));
        assert_eq!(after[Path::new("directory/same")], after[Path::new("file")]);
        assert_eq!(give(&root, &Wanted { access, ..read_write() }, 1).right_already, all);
    }
    assert!(std::fs::symlink_metadata(case.path("tree/fifo")).unwrap().file_type().is_fifo());
}

fn only_a_root_that_is_right_in_everything_spares_the_rest(case: &Case) {
    // T-33.
    let mut roots = vec![
        (Access::ReadWrite, group(), 0o2770, true),
        (Access::ReadWrite, group(), 0o3777, true),
        (Access::ReadWrite, group(), 0o0770, false),
        (Access::ReadWrite, group(), 0o2750, false),
        (Access::ReadWrite, group(), 0o2760, false),
        (Access::ReadWrite, group(), 0o2670, false),
        (Access::ReadOnly, group(), 0o2550, true),
        (Access::ReadOnly, group(), 0o2770, true),
        (Access::ReadOnly, group(), 0o0550, false),
        (Access::ReadOnly, group(), 0o2540, false),
    ];
    if has_ids() {
        roots.push((Access::ReadWrite, group() + 1, 0o2770, false));
    }
    for (number, (access, owner, mode, matches)) in roots.into_iter().enumerate() {
        let tree = format!("tree{number}");
        let root = case.place(&tree);
        case.file(&format!("{tree}/rogue"), "");
        set_mode(&case.path(&format!("{tree}/rogue")), 0o600);
        lchown(case.path(&tree), None, Some(owner)).unwrap();
        set_mode(&case.path(&tree), mode);
        let wanted = Wanted { group: group(), access, when: When::OnRootMismatch };
        assert_eq!(root_matches(&root, &wanted), matches, "{owner} {mode:o} {access:?}");
        let summary = give(&root, &wanted, 1);
        assert_eq!(summary.root_matched, matches, "{owner} {mode:o} {access:?}");
        let rogue = owned(&case.path(&format!("{tree}/rogue")));
        let bits = if access == Access::ReadWrite { 0o660 } else { 0o640 };
        assert_eq!(rogue, if matches { (0, 0o600) } else { (group(), bits) }, "{owner} {mode:o} {access:?}");
        assert!(root_matches(&root, &wanted), "it does now");
        give(&root, &Wanted { when: When::Always, ..wanted }, 1);
        assert_eq!(owned(&case.path(&format!("{tree}/rogue"))), (group(), bits), "always is always");
    }
}

fn what_a_link_leads_to_is_left_alone(case: &Case) {
    case.file("canary/file", "");
    set_mode(&case.path("canary"), 0o700);
    set_mode(&case.path("canary/file"), 0o600);
    let before = listed(&case.path("canary"));
    let root = case.place("tree");
    for (link, target) in [("file", "canary/file"), ("directory", "canary"), ("loop", "tree/loop"), ("above", "")] {
        symlink(case.path(target), case.path(&format!("tree/{link}"))).unwrap();
    }
    let summary = give(&root, &read_write(), 2);
    assert_eq!(summary.changed + summary.right_already, 5);
    assert_eq!(listed(&case.path("canary")), before);
    for link in ["file", "directory", "loop", "above"] {
        assert_eq!(owned(&case.path(&format!("tree/{link}"))).0, group());
    }
}

/// Binds a file over a file, or a directory over a directory.
fn bind_over(case: &Case, source: &str, target: &str) {
    let open = |below: &str| {
        let fd = rustix::fs::open(case.path(below), OFlags::PATH, Mode::empty()).unwrap();
        Place::of(fd, case.path(below))
    };
    bind(&open(source), Extent::One).unwrap().attach(&open(target)).unwrap();
}

fn what_is_mounted_below_is_left_alone(case: &Case) {
    case.file("canary/file", "");
    set_mode(&case.path("canary"), 0o700);
    set_mode(&case.path("canary/file"), 0o600);
    let before = listed(&case.path("canary"));
    let root = case.place("tree");
    case.tmpfs("tree/other");
    case.file("tree/other/file", "");
    set_mode(&case.path("tree/other/file"), 0o600);
    // Of the same file system, so that no device number tells.
    case.place("tree/bound");
    bind_over(case, "canary", "tree/bound");
    case.file("tree/bound file", "");
    bind_over(case, "canary/file", "tree/bound file");
    case.file("tree/own", "");
    assert_eq!(give(&root, &read_write(), 1).mounts_skipped, 3);
    assert_eq!(listed(&case.path("canary")), before);
    assert_eq!(owned(&case.path("tree/other/file")), (0, 0o600));
    assert_eq!(owned(&case.path("tree/own")).0, group());
    // The root may be a mount point itself, and mostly is.
    assert_eq!(give(&Place::root(case.path("tree/other")).unwrap(), &read_write(), 1).mounts_skipped, 0);
    assert_eq!(owned(&case.path("tree/other/file")), (group(), 0o660));
}

/// Does something as another user, who has no capabilities.
fn as_nobody<T: Send>(body: impl FnOnce() -> T + Send) -> T {
    const NOBODY: u32 = 1000;
    std::thread::scope(|scope| {
        let thread = scope.spawn(|| {
            let (user, group) = (Uid::from_raw(NOBODY), Gid::from_raw(NOBODY));
            // May give files to the group that is wanted.
            rustix::thread::set_thread_groups(&[Gid::from_raw(read_write().group)]).unwrap();
            rustix::thread::set_thread_res_gid(group, group, group).unwrap();
            rustix::thread::set_thread_res_uid(user, user, user).unwrap();
            body()
        });
        thread.join().unwrap()
    })
}

fn what_cannot_be_changed_is_told_and_the_rest_goes_on(case: &Case) {
    if !has_ids() {
        return; // there is no other user
    }
    let root = case.place("tree");
    lchown(case.path("tree"), Some(1000), Some(1000)).unwrap();
    for number in 0..40 {
        let path = format!("tree/{number}");
        case.file(&path, "");
        set_mode(&case.path(&path), 0o640);
        // Half of them are somebody else's.
        let owner = if number % 2 == 0 { 1000 } else { 0 };
        lchown(case.path(&path), Some(owner), Some(owner)).unwrap();
    }
    let wanted = read_write();
    let summary = as_nobody(|| apply(&root, &wanted, threads(2), &Control::default())).unwrap();
    assert_eq!((summary.changed, summary.failed), (21, 20));
    assert_eq!(summary.failures.len(), Summary::FAILURES_MAX);
    for failure in &summary.failures {
        assert_eq!((failure.attempt, failure.source), (Attempt::Group, Errno::PERM));
        assert_eq!(failure.to_string(), format!("change the group of {}", failure.path.display()));
        assert_eq!(owned(&failure.path), (0, 0o640));
    }
    assert_eq!(owned(&case.path("tree/0")), (group(), 0o660));
    assert!(root_matches(&root, &wanted), "as it does after a plain walk (P-212)");
}

fn a_directory_that_cannot_be_read_leaves_the_root_as_it_was(case: &Case) {
    if !has_ids() {
        return; // there is no other user
    }
    let root = case.place("tree");
    case.file("tree/above/closed/file", "");
    set_mode(&case.path("tree/above/closed"), 0o700);
    for below in ["tree", "tree/above"] {
        lchown(case.path(below), Some(1000), Some(1000)).unwrap();
    }
    let before = listed(&case.path("tree"));
    let error = as_nobody(|| apply(&root, &read_write(), threads(2), &Control::default())).unwrap_err();
    assert!(
        matches!(&error, Error::System(PathError { path, source: Errno::ACCESS, .. }) if *path == case.path("tree/above/closed")),
        "{error}"
    );
    assert_eq!(listed(&case.path("tree")), before);
}

fn a_change_that_was_stopped_goes_on_the_next_time(case: &Case) {
    let root = case.place("tree");
    let files = 4_000;
    for number in 0..files {
        let path = case.path(&format!("tree/{}/{number}", number / 100));
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, "").unwrap();
    }
    let reset = || {
        for path in listed(&case.path("tree")).into_keys() {
            let path = case.path("tree").join(path);
            set_mode(&path, if path.is_dir() { 0o700 } else { 0o600 });
        }
    };
    let wanted = Wanted { when: When::OnRootMismatch, ..read_write() };
    // Whoever stops it can come too late; then once more.
    loop {
        reset();
        let control = Control::default();
        let ended = std::thread::scope(|scope| {
            let change = scope.spawn(|| apply(&root, &wanted, threads(3), &control));
            while control.processed() < 50 && !change.is_finished() {
                std::thread::yield_now();
            }
            control.stop();
            change.join().unwrap()
        });
        let Err(error) = ended else { continue };
        assert!(matches!(error, Error::Stopped { processed, .. } if processed >= 50), "{error}");
        assert!(control.is_stopped());
        break;
    }
    assert!(!root_matches(&root, &wanted));
    let control = Control::default();
    let summary = apply(&root, &wanted, threads(3), &control).unwrap();
    assert!(summary.right_already >= 50 && summary.changed > 0, "{summary:?}");
    assert_eq!(summary.right_already + summary.changed, files + 40 + 1);
    assert_eq!(control.processed(), files + 40 + 1);
    for (path, found) in listed(&case.path("tree")) {
        let mode = if case.path("tree").join(&path).is_dir() { 0o2770 } else { 0o660 };
        assert_eq!(found, (group(), mode), "{}", path.display());
    }
}

fn a_tree_deeper_than_any_stack_is_changed(case: &Case) {
    const LEVELS: u64 = 20_000;
    let root = case.place("tree");
    let mut place = Place::root(case.path("tree")).unwrap();
    for _ in 0..LEVELS {
        // Beside the way down, so that there is something to come back for at each level.
        rustix::fs::mkdirat(&place, "side", Mode::RWXU).unwrap();
        let next = place.make_directory(&name("deep"), Mode::RWXU, Mounts::Refuse).unwrap();
        place = Place::of(next.into(), "deep"); // or the path for messages would grow for ever
    }
    for count in [1, 4] {
        rustix::fs::fchmod(&place, Mode::RWXU).unwrap();
        let summary = give(&root, &read_write(), count);
        assert_eq!(summary.changed + summary.right_already, 2 * LEVELS + 1);
        let status = rustix::fs::fstat(&place).unwrap();
        assert_eq!((status.st_gid, status.st_mode & 0o7777), (group(), 0o2770));
    }
    // What is stopped with all of that pending must not use up the stack either.
    let control = Control::default();
    std::thread::scope(|scope| {
        let change = scope.spawn(|| apply(&root, &read_write(), threads(2), &control));
        while control.processed() < LEVELS / 2 && !change.is_finished() {
            std::thread::yield_now();
        }
        control.stop();
        let _ = change.join().unwrap();
    });
}

/// A tree that is the same for the same seed: files, links and directories with all sorts of modes.
fn grow(root: &Path, seed: u64) {
    let mut state = seed;
    let mut random = |below: u64| {
        // xorshift64
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state % below
    };
    let mut directories = vec![root.to_owned()];
    for number in 0..1_500 {
        let above = &directories[usize::try_from(random(u64::try_from(directories.len()).unwrap())).unwrap()];
        let path = above.join(number.to_string());
        let mode = u32::try_from(random(0o10000)).unwrap();
        match random(5) {
            0 => {
                symlink("/etc", &path).unwrap();
                continue;
            }
            1 | 2 => {
                std::fs::create_dir(&path).unwrap();
                directories.push(path.clone());
            }
            _ => std::fs::write(&path, "").unwrap(),
        }
        if has_ids() {
            lchown(&path, None, Some(group() * u32::try_from(random(2)).unwrap())).unwrap();
        }
        set_mode(&path, mode);
    }
}

fn many_threads_come_to_what_one_comes_to(case: &Case) {
    for seed in 1..=6 {
        let access = if seed % 2 == 0 { Access::ReadWrite } else { Access::ReadOnly };
        let wanted = Wanted { access, ..read_write() };
        let results = [1, 2, 8].map(|count| {
            let tree = format!("tree {seed} {count}");
            let root = case.place(&tree);
            grow(&case.path(&tree), seed * 0x9E37_79B9);
            let before = listed(&case.path(&tree));
            let summary = give(&root, &wanted, count);
            assert_eq!(summary.changed + summary.right_already, 1_501);
            (before, listed(&case.path(&tree)), summary.changed)
        });
        let (before, after, changed) = &results[0];
        assert!(*changed > 500, "{changed}");
        for (path, (_, mode)) in before {
            assert_eq!(after[path].1 & mode, *mode, "bits are only added");
            assert_eq!(after[path].1 & 0o440, 0o440);
            assert_eq!(after[path].0, group());
        }
        assert!(results.iter().all(|it| it == &results[0]), "seed {seed}");
    }
}

fn one_large_directory_is_changed_by_many_threads(case: &Case) {
    let root = case.place("tree");
    for number in 0..5_000 {
        case.file(&format!("tree/{number}"), "");
    }
    let summary = give(&root, &read_write(), 4);
    assert_eq!(summary.changed + summary.right_already, 5_001);
    assert!(listed(&case.path("tree")).values().all(|it| it.0 == group() && it.1 & 0o660 == 0o660));
}

/// Runs `adversary` again and again beside changes of one tree, until there were enough of both. The tree goes to one
/// group and to another in turn, if there are two, so that there is something to do each time. Returns how many of
/// the changes succeeded.
fn race(case: &Case, adversary: impl Fn() + Send + Sync) -> usize {
    const CHANGES: usize = 4_000;
    let root = case.place("tree");
    let stop = AtomicBool::new(false);
    let strikes = AtomicUsize::new(0);
    let mut succeeded = 0;
    std::thread::scope(|scope| {
        let _stopping = Stopping(&stop);
        let adversary = scope.spawn(|| {
            while !stop.load(Ordering::Relaxed) {
                adversary();
                strikes.fetch_add(1, Ordering::Relaxed);
            }
        });
        let mut changes = 0;
        while (changes < CHANGES || strikes.load(Ordering::Relaxed) < 1_000) && !adversary.is_finished() {
            let other = if has_ids() { u32::from(changes % 2 == 0) } else { 0 };
            let wanted = Wanted { group: group() + other, ..read_write() };
            match apply(&root, &wanted, threads(1 + changes % 2), &Control::default()) {
                Ok(_) => succeeded += 1,
                Err(Error::System(_) | Error::Moved { .. }) => {}
                Err(error) => panic!("{error}"),
            }
            changes += 1;
        }
    });
    succeeded
}

fn what_vanishes_meanwhile_is_nobodys_business(case: &Case) {
    case.file("tree/stays", "");
    let root = case.place("tree");
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let _stopping = Stopping(&stop);
        scope.spawn(|| {
            while !stop.load(Ordering::Relaxed) {
                for number in 0..20 {
                    case.file(&format!("tree/{number}/a/b/file"), "");
                    case.file(&format!("tree/{number}/file"), "");
                }
                for number in 0..20 {
                    std::fs::remove_dir_all(case.path(&format!("tree/{number}"))).unwrap();
                }
            }
        });
        for changes in 0..2_000 {
            give(&root, &read_write(), 1 + changes % 2);
        }
    });
}

/// What nothing may change, outside of the tree, and what it is.
fn canary(case: &Case) -> BTreeMap<PathBuf, (u32, u32)> {
    case.file("canary/file", "");
    case.file("canary/directory/file", "");
    for (below, mode) in [("", 0o701), ("/file", 0o600), ("/directory", 0o700), ("/directory/file", 0o400)] {
        set_mode(&case.path(&format!("canary{below}")), mode);
    }
    listed(&case.path("canary"))
}

fn no_swap_of_links_leads_a_change_to_the_canary(case: &Case) {
    let before = canary(case);
    case.file("tree/file", "");
    case.file("tree/directory/file", "");
    case.file("tree/directory/directory/file", "");
    // Enough for a second thread to be started.
    for number in 0..150 {
        case.file(&format!("tree/directory/{number}"), "");
    }
    symlink(case.path("canary/file"), case.path("file")).unwrap();
    symlink(case.path("canary"), case.path("directory")).unwrap();
    let swaps = AtomicUsize::new(0);
    let succeeded = race(case, || {
        for (link, target) in [
            ("file", "tree/file"),
            ("directory", "tree/directory/directory"),
            ("directory", "tree/file"),
            ("file", "tree/directory/file"),
            ("directory", "tree/directory"),
        ] {
            for _ in 0..2 {
                rustix::fs::renameat_with(&case.root, link, &case.root, target, RenameFlags::EXCHANGE).unwrap();
                swaps.fetch_add(1, Ordering::Relaxed);
            }
        }
    });
    assert!(succeeded > 1_000 && swaps.into_inner() > 5_000, "{succeeded}");
    assert_eq!(listed(&case.path("canary")), before);
}

fn no_mount_leads_a_change_to_the_canary(case: &Case) {
    let before = canary(case);
    case.file("tree/directory/directory/file", "");
    case.file("tree/directory/file", "");
    let succeeded = race(case, || {
        for (source, target) in [
            ("canary", "tree/directory"),
            ("canary", "tree/directory/directory"),
            ("canary/file", "tree/directory/file"),
        ] {
            bind_over(case, source, target);
            rustix::mount::unmount(case.path(target), rustix::mount::UnmountFlags::DETACH).unwrap();
        }
    });
    assert!(succeeded > 1_000, "{succeeded}");
    assert_eq!(listed(&case.path("canary")), before);
}
