//! The deletion primitive against mounts, depth and an adversary (promise I-5).

use std::os::unix::fs::symlink;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use rustix::fs::{Mode, OFlags, RenameFlags};
use windlass_linux::mount::{Extent, bind};
use windlass_linux::remove::{self, Error};
use windlass_linux::safe_path::{Mounts, Place};

use crate::namespace::{Case, Stopping, name};

crate::tests!(
    a_mount_anywhere_in_the_tree_stops_everything,
    a_bind_mount_of_the_same_file_system_is_a_mount,
    a_tree_deeper_than_any_stack_is_removed,
    no_swap_of_links_leads_to_the_canary,
    no_mount_over_a_directory_leads_to_the_canary,
    neither_links_nor_mounts_together_lead_to_the_canary,
    no_directory_that_moves_leads_to_the_canary,
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
    bind(&canary, Extent::One).unwrap().attach(&case.directory("tree/bound")).unwrap();
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
