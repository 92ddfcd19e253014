//! The deletion primitive against mounts, depth and an adversary (promise I-5).

use std::collections::BTreeSet;
use std::os::fd::AsRawFd;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use rustix::fs::{Mode, OFlags, RenameFlags};
use windlass_linux::mount::{Extent, bind};
use windlass_linux::remove::{self, Aside, Error};
use windlass_linux::safe_path::{Mounts, Place};

use crate::case::{Case, Stopping, name};

crate::tests!(
    a_mount_anywhere_in_the_tree_stops_everything,
    a_bind_mount_of_the_same_file_system_is_a_mount,
    a_tree_deeper_than_any_stack_is_removed,
    no_swap_of_links_leads_to_the_canary,
    no_mount_over_a_directory_leads_to_the_canary,
    neither_links_nor_mounts_together_lead_to_the_canary,
    no_directory_that_moves_leads_to_the_canary,
    what_is_moved_out_of_a_tree_that_is_being_removed_stays_whole,
    a_tree_that_is_moved_while_it_is_being_removed_stays_whole,
    nobody_who_moves_directories_out_of_a_tree_loses_a_file,
    what_a_process_had_taken_aside_goes_at_the_next_start_and_what_it_kept_stays,
);

fn a_mount_anywhere_in_the_tree_stops_everything(case: &Case) {
    case.file("tree/a/file", "");
    case.tmpfs("tree/b/mounted");
    case.file("tree/b/mounted/data", "kept");
    case.file("tree/z", "");
    let error = remove::tree(&case.root, &name("tree"), |_| true).unwrap_err();
    assert!(matches!(&error, Error::Mounted { path } if *path == case.path("tree/b/mounted")), "{error}");
    assert!(case.path("tree/a/file").exists() && case.path("tree/z").exists(), "nothing was removed");
    let error = remove::tree(&Place::root(case.path("tree/b")).unwrap(), &name("mounted"), |_| true).unwrap_err();
    assert!(matches!(error, Error::Mounted { .. }), "the top itself: {error}");
    assert_eq!(case.read("tree/b/mounted/data"), "kept");
}

fn a_bind_mount_of_the_same_file_system_is_a_mount(case: &Case) {
    case.file("canary/data", "kept");
    case.file("canary file", "kept");
    let canary = Place::root(case.path("canary")).unwrap();
    bind(&canary, Extent::One).unwrap().attach(&case.place("tree/bound")).unwrap();
    case.file("files/bound", "");
    let open = |below: &str| {
        let fd = rustix::fs::open(case.path(below), OFlags::PATH, Mode::empty()).unwrap();
        Place::of(fd, case.path(below))
    };
    bind(&open("canary file"), Extent::One).unwrap().attach(&open("files/bound")).unwrap();
    for tree in ["tree", "files"] {
        let error = remove::tree(&case.root, &name(tree), |_| true).unwrap_err();
        assert!(matches!(&error, Error::Mounted { path } if path.ends_with("bound")), "{error}");
    }
    assert_eq!((case.read("canary/data"), case.read("canary file")), ("kept".into(), "kept".into()));
}

fn a_tree_deeper_than_any_stack_is_removed(case: &Case) {
    let mut place = Place::root(case.path("")).unwrap();
    for _ in 0..20_000 {
        let next = place.make_directory(&name("deep"), Mode::RWXU, Mounts::Refuse).unwrap();
        place = Place::of(next.into(), "deep"); // or the path for messages would grow for ever
    }
    rustix::fs::openat(&place, "file", OFlags::CREATE | OFlags::WRONLY, Mode::RUSR).unwrap();
    drop(place);
    remove::tree(&case.root, &name("deep"), |_| true).unwrap();
    assert!(!case.path("deep").exists());
}

const ROUNDS: usize = 10_000;

/// Removes a tree again and again, filling it each time, while `adversary` works against it: it is told how often it
/// struck already, and can wait until a whole removal has passed. Returns how many times the tree was removed, and how
/// many times refused.
fn race(case: &Case, adversary: impl Fn(usize, &dyn Fn()) + Send + Sync) -> (usize, usize) {
    let stop = AtomicBool::new(false);
    let (mut removed, mut refused) = (0, 0);
    let (strikes, removals) = (AtomicUsize::new(0), AtomicUsize::new(0));
    let wait = || {
        let now = removals.load(Ordering::Relaxed);
        while removals.load(Ordering::Relaxed) < now + 2 && !stop.load(Ordering::Relaxed) {
            std::thread::yield_now();
        }
    };
    std::thread::scope(|scope| {
        let _stopping = Stopping(&stop);
        scope.spawn(|| {
            while !stop.load(Ordering::Relaxed) {
                adversary(strikes.load(Ordering::Relaxed), &wait);
                strikes.fetch_add(1, Ordering::Relaxed);
            }
        });
        while removed + refused < ROUNDS || strikes.load(Ordering::Relaxed) < 100 {
            // What the adversary does can make any of this fail, which is fine: it only has to be tried.
            let _ = std::fs::create_dir_all(case.path("tree/sub/dir"));
            let _ = std::fs::write(case.path("tree/mine"), "ours");
            // Every file but `data` is declared ours.
            match remove::tree(&case.root, &name("tree"), |entry| entry.path.file_name().is_some_and(|it| it != "data"))
            {
                Ok(()) => removed += 1,
                Err(_) => refused += 1,
            }
            removals.fetch_add(1, Ordering::Relaxed);
        }
    });
    (removed, refused)
}

fn no_swap_of_links_leads_to_the_canary(case: &Case) {
    // Everything in the canary may be removed by its name; only that it is behind a link protects it.
    case.file("canary/file", "kept");
    case.file("canary/dir/file", "kept");
    symlink(case.path("canary"), case.path("link")).unwrap();
    let (removed, refused) = race(case, |_, _| {
        for target in ["tree/sub", "tree/sub/dir", "tree/mine", "tree"] {
            swap_with_link(case, target);
        }
    });
    assert!(removed > 0, "{removed} removed, {refused} refused");
    assert_eq!((case.read("canary/file"), case.read("canary/dir/file")), ("kept".into(), "kept".into()));
}

/// Puts a link to the canary in place of something, and that back.
fn swap_with_link(case: &Case, target: &str) {
    for _ in 0..2 {
        let _ = rustix::fs::renameat_with(&case.root, "link", &case.root, target, RenameFlags::EXCHANGE);
    }
    // If the link went with the tree, another takes its place.
    let _ = std::fs::remove_dir_all(case.path("link"));
    let _ = std::fs::remove_file(case.path("link"));
    let _ = symlink(case.path("canary"), case.path("link"));
}

fn no_mount_over_a_directory_leads_to_the_canary(case: &Case) {
    // Everything in the canary may be removed by its name; only the mount protects it.
    case.file("canary/file", "kept");
    case.file("canary/dir/file", "kept");
    let canary = Place::root(case.path("canary")).unwrap();
    let (removed, refused) = race(case, |strike, wait| {
        for target in ["tree/sub/dir", "tree/sub", "tree"] {
            if let Ok(target) = Place::root(case.path(target)) {
                let _ = bind(&canary, Extent::One).unwrap().attach(&target);
            }
            // Gone again at once, which is the race, or there for a while, so that some removal meets it.
            if strike.is_multiple_of(3) {
                wait();
            }
            let _ = rustix::mount::unmount(case.path(target), rustix::mount::UnmountFlags::DETACH);
        }
    });
    assert!(removed > 0 && refused > 0, "{removed} removed, {refused} refused: there was no race");
    assert_eq!((case.read("canary/file"), case.read("canary/dir/file")), ("kept".into(), "kept".into()));
}

fn neither_links_nor_mounts_together_lead_to_the_canary(case: &Case) {
    case.file("canary/file", "kept");
    case.file("canary/dir/file", "kept");
    case.file("canary file", "kept");
    symlink(case.path("canary"), case.path("link")).unwrap();
    let canary = Place::root(case.path("canary")).unwrap();
    let file = rustix::fs::open(case.path("canary file"), OFlags::PATH, Mode::empty()).unwrap();
    let canary_file = Place::of(file, case.path("canary file"));
    let (removed, refused) = race(case, |strike, wait| {
        // A bind mount of the canary, or of one of its files, where the walk is about to go, and links around it.
        let (source, target) =
            if strike.is_multiple_of(2) { (&canary, "tree/sub") } else { (&canary_file, "tree/mine") };
        if let Ok(target) = rustix::fs::open(case.path(target), OFlags::PATH | OFlags::NOFOLLOW, Mode::empty()) {
            let _ = bind(source, Extent::One).unwrap().attach(&Place::of(target, "target"));
        }
        swap_with_link(case, "tree/sub/dir");
        if strike.is_multiple_of(3) {
            wait();
        }
        let flags = rustix::mount::UnmountFlags::DETACH | rustix::mount::UnmountFlags::NOFOLLOW;
        let _ = rustix::mount::unmount(case.path(target), flags);
        swap_with_link(case, "tree");
    });
    assert!(removed > 0 && refused > 0, "{removed} removed, {refused} refused: there was no race");
    assert_eq!((case.read("canary/file"), case.read("canary/dir/file")), ("kept".into(), "kept".into()));
    // Who fills the tree again writes through the mount; that it is still there is what counts.
    assert!(case.path("canary file").exists());
}

fn no_directory_that_moves_leads_to_the_canary(case: &Case) {
    case.file("canary/data", "kept");
    std::fs::create_dir_all(case.path("elsewhere")).unwrap();
    let (removed, refused) = race(case, |_, _| {
        // Out of the tree while it is being emptied, back in, and the canary's neighbour in its place.
        let _ = std::fs::rename(case.path("tree/sub/dir"), case.path("elsewhere/dir"));
        let _ = std::fs::rename(case.path("canary"), case.path("tree/sub/dir"));
        let _ = std::fs::rename(case.path("tree/sub/dir"), case.path("canary"));
        let _ = std::fs::rename(case.path("elsewhere/dir"), case.path("tree/sub/dir"));
    });
    assert!(removed > 0, "{removed} removed, {refused} refused");
    // Wherever it was left, the file that nobody declared theirs is there.
    let left = ["canary/data", "tree/sub/dir/data", "elsewhere/dir/data"].map(|it| case.path(it).exists());
    assert_eq!(left.iter().filter(|it| **it).count(), 1, "{left:?}");
}

/// A tree that is too large to be kept in mind: this many directories with this many files each, and some in the top.
const DIRECTORIES: usize = 20;
const FILES: usize = 60;

fn fill(case: &Case) {
    for directory in 0..DIRECTORIES {
        let below = case.path(&format!("root/volumes/tree/{directory}/in"));
        std::fs::create_dir_all(&below).unwrap();
        for file in 0..FILES {
            std::fs::write(below.join(format!("file-{file}")), "data").unwrap();
        }
    }
}

fn aside(case: &Case) -> Aside {
    case.place("root/windlass");
    let root = Arc::new(Place::root(case.path("root")).unwrap());
    let above = Place::root(case.path("root/windlass")).unwrap();
    Aside::open(root, &above, &name("removing")).unwrap()
}

/// All files below a directory.
fn files(path: &Path) -> BTreeSet<PathBuf> {
    let Ok(entries) = std::fs::read_dir(path) else { return BTreeSet::new() };
    let (directories, files): (Vec<_>, Vec<_>) = entries.map(|it| it.unwrap().path()).partition(|it| it.is_dir());
    directories.iter().flat_map(|it| self::files(it)).chain(files).collect()
}

/// Both ways of removing the tree: with a directory of one's own, and with one that is made beside it.
fn remove_both_ways(
    case: &Case,
    aside: Option<&Aside>,
    ours: impl FnMut(remove::Entry<'_>) -> bool,
) -> Result<(), Error> {
    let parent = Place::root(case.path("root/volumes")).unwrap();
    match aside {
        Some(aside) => remove::tree_by(aside, &parent, &name("tree"), ours),
        None => remove::tree(&parent, &name("tree"), ours),
    }
}

fn what_is_moved_out_of_a_tree_that_is_being_removed_stays_whole(case: &Case) {
    let own = aside(case);
    for aside in [Some(&own), None] {
        for at in [1, 2, 17, FILES - 1] {
            fill(case);
            let out = case.path("out");
            let (mut asked, mut seen_of_last) = (0, BTreeSet::new());
            let error = remove_both_ways(case, aside, |entry| {
                asked += 1;
                // Everything is asked about once before, and each file again when its turn comes.
                if asked == DIRECTORIES * FILES + at {
                    let directory = case.path("root/volumes/tree").join(entry.path.parent().unwrap());
                    std::fs::rename(directory, &out).unwrap();
                    seen_of_last = files(&out);
                }
                true
            })
            .unwrap_err();
            assert!(matches!(error, Error::Moved { .. }), "{error}");
            let left = files(&out);
            assert!(left.is_superset(&seen_of_last), "{:?}", seen_of_last.difference(&left).collect::<Vec<_>>());
            // Those that were on their way when it was moved are back too.
            assert!(left.len() >= FILES - at / 16 * 16, "{} of {FILES} left when {at} was asked about", left.len());
            std::fs::remove_dir_all(&out).unwrap();
            remove_both_ways(case, aside, |_| true).unwrap();
            assert!(!case.path("root/volumes/tree").exists());
            assert_eq!(std::fs::read_dir(case.path("root/volumes")).unwrap().count(), 0, "nothing is left beside it");
            assert_eq!(std::fs::read_dir(case.path("root/windlass/removing")).unwrap().count(), 0);
        }
    }
}

fn a_tree_that_is_moved_while_it_is_being_removed_stays_whole(case: &Case) {
    let aside = aside(case);
    // The tree under another name beside itself, the tree elsewhere, and a directory above it in both ways; with and
    // without a link that leads there from the old path.
    let moves = [
        ("root/volumes/tree", "root/volumes/saved"),
        ("root/volumes/tree", "saved"),
        ("root/volumes", "root/saved"),
        ("root/volumes", "saved"),
    ];
    for (from, to) in moves {
        for links in [false, true] {
            fill(case);
            let mut asked = 0;
            let error = remove_both_ways(case, Some(&aside), |_| {
                asked += 1;
                if asked == DIRECTORIES * FILES + 1 {
                    std::fs::rename(case.path(from), case.path(to)).unwrap();
                    if links {
                        symlink(case.path(to), case.path(from)).unwrap();
                    }
                }
                true
            })
            .unwrap_err();
            assert!(matches!(error, Error::Moved { .. }), "{from} to {to}: {error}");
            assert_eq!(files(&case.path(to)).len(), DIRECTORIES * FILES, "{from} to {to}, links: {links}");
            if links {
                std::fs::remove_file(case.path(from)).unwrap();
            }
            std::fs::remove_dir_all(case.path(to)).unwrap();
        }
    }
}

fn nobody_who_moves_directories_out_of_a_tree_loses_a_file(case: &Case) {
    /// How the one who moves things reaches them.
    #[derive(Clone, Copy, PartialEq, Debug)]
    enum By {
        Path,
        Descriptor,
        /// Asks the kernel where a directory is now, and moves it from there.
        WhereverItIs,
    }
    let aside = aside(case);
    let mut moved_in_all = 0;
    for round in 0..20 {
        for by in [By::Path, By::Descriptor, By::WhereverItIs] {
            fill(case);
            std::fs::create_dir_all(case.path("out")).unwrap();
            let open = |below: &str| {
                rustix::fs::open(case.path(below), OFlags::PATH | OFlags::DIRECTORY, Mode::empty()).unwrap()
            };
            let out = open("out");
            let held: Vec<_> = (0..DIRECTORIES).map(|it| open(&format!("root/volumes/tree/{it}"))).collect();
            let begun = AtomicBool::new(false);
            let mut moved = BTreeSet::new();
            std::thread::scope(|scope| {
                let mover = scope.spawn(|| {
                    while !begun.load(Ordering::Acquire) {
                        std::hint::spin_loop();
                    }
                    let mut moved = BTreeSet::new();
                    for at in 0..DIRECTORIES {
                        let (number, to) = ((at * 7 + round) % DIRECTORIES, format!("{at}"));
                        let done = match by {
                            By::Path => {
                                let from = case.path(&format!("root/volumes/tree/{number}/in"));
                                std::fs::rename(from, case.path(&format!("out/{to}"))).is_ok()
                            }
                            By::Descriptor => rustix::fs::renameat(&held[number], "in", &out, &to).is_ok(),
                            By::WhereverItIs => {
                                let link = format!("/proc/self/fd/{}", held[number].as_raw_fd());
                                let now = std::fs::read_link(link).unwrap();
                                std::fs::rename(now.join("in"), case.path(&format!("out/{to}"))).is_ok()
                            }
                        };
                        if done {
                            moved.extend(files(&case.path(&format!("out/{to}"))));
                        }
                    }
                    moved
                });
                let mut asked = 0;
                let _ = remove_both_ways(case, (round % 2 == 0).then_some(&aside), |_| {
                    asked += 1;
                    if asked > DIRECTORIES * FILES {
                        begun.store(true, Ordering::Release);
                    }
                    true
                });
                moved = mover.join().unwrap();
            });
            moved_in_all += moved.len();
            let lost: Vec<_> = moved.iter().filter(|it| !it.exists()).collect();
            assert!(lost.is_empty(), "round {round}, {by:?}: {} of {} lost: {lost:?}", lost.len(), moved.len());
            std::fs::remove_dir_all(case.path("out")).unwrap();
            remove_both_ways(case, Some(&aside), |_| true).unwrap();
        }
    }
    assert!(moved_in_all > 0, "there was no race");
}

fn what_a_process_had_taken_aside_goes_at_the_next_start_and_what_it_kept_stays(case: &Case) {
    let aside = aside(case);
    case.file("root/windlass/removing/0000000000000001", "on its way");
    case.file("root/windlass/removing/kept-0000000000000002", "could not be put back");
    let kept = aside.sweep().unwrap();
    assert_eq!(kept, [case.path("root/windlass/removing/kept-0000000000000002")]);
    assert_eq!(files(&case.path("root/windlass")), kept.into_iter().collect());
}
