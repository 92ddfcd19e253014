//! How much a volume holds, with mounts in it, deeper than any stack, and while it changes.

use std::sync::atomic::{AtomicBool, Ordering};

use rustix::fs::{Mode, OFlags};
use windlass_linux::mount::{Extent, Tmpfs, bind, tmpfs};
use windlass_linux::safe_path::{Mounts, Place};
use windlass_linux::usage::{Budget, Walked, statfs, walk};

use crate::case::{Case, Stopping, name};

crate::tests!(
    a_file_system_says_exactly_how_full_it_is,
    what_is_mounted_in_a_volume_is_not_of_it,
    a_tree_deeper_than_any_stack_is_counted,
    what_comes_and_goes_meanwhile_is_no_error,
    a_tree_that_is_moved_away_gives_a_lower_bound_or_all,
);

fn walk_all(place: &Place) -> Walked {
    walk(place, &Budget { entries_max: u64::MAX, stop: &AtomicBool::new(false) }).unwrap()
}

fn a_file_system_says_exactly_how_full_it_is(case: &Case) {
    let settings = Tmpfs { size_bytes: Some(1 << 20), inodes_max: Some(50), ..Tmpfs::default() };
    let place = tmpfs(&settings).unwrap().attach(&case.place("volume")).unwrap();
    let space = statfs(&place).unwrap();
    assert_eq!((space.capacity_bytes, space.available_bytes, space.used_bytes), (1 << 20, 1 << 20, 0));
    assert_eq!((space.inodes, space.inodes_free, space.inodes_used), (50, 49, 1));
    case.file("volume/dir/file", &"x".repeat(256 << 10));
    let space = statfs(&place).unwrap();
    assert_eq!((space.available_bytes, space.used_bytes), (768 << 10, 256 << 10));
    assert_eq!((space.inodes_free, space.inodes_used), (47, 3));
    let walked = walk_all(&place);
    assert_eq!(walked, Walked { used_bytes: 256 << 10, inodes_used: 3, complete: true });
}

fn what_is_mounted_in_a_volume_is_not_of_it(case: &Case) {
    case.file("volume/file", &"x".repeat(64 << 10));
    let volume = Place::root(case.path("volume")).unwrap();
    case.file("volume/covered", "");
    case.file("large", &"x".repeat(1 << 20));
    for below in ["volume/mounted", "volume/bound"] {
        case.place(below);
    }
    let before = walk_all(&volume);
    assert_eq!((before.inodes_used, before.complete), (5, true));
    // Another file system, a directory of the same, and a file of the same over a file.
    case.tmpfs("volume/mounted");
    case.file("volume/mounted/file", &"x".repeat(1 << 20));
    case.file("elsewhere/file", &"x".repeat(1 << 20));
    let elsewhere = Place::root(case.path("elsewhere")).unwrap();
    bind(&elsewhere, Extent::One).unwrap().attach(&case.place("volume/bound")).unwrap();
    let open = |below: &str| {
        let fd = rustix::fs::open(case.path(below), OFlags::PATH, Mode::empty()).unwrap();
        Place::of(fd, case.path(below))
    };
    bind(&open("large"), Extent::One).unwrap().attach(&open("volume/covered")).unwrap();
    let walked = walk_all(&volume);
    assert_eq!((walked.used_bytes, walked.inodes_used, walked.complete), (before.used_bytes, 2, true));
    let mounted = Place::root(case.path("volume/mounted")).unwrap();
    assert_eq!(walk_all(&mounted), Walked { used_bytes: 1 << 20, inodes_used: 2, complete: true });
}

/// Makes a chain of directories, each with a file in it.
fn chain(top: &Place, length: usize) {
    let mut place = Place::of(rustix::io::dup(top).unwrap(), "top");
    for _ in 0..length {
        let next = place.make_directory(&name("deep"), Mode::RWXU, Mounts::Refuse).unwrap();
        place = Place::of(next.into(), "deep"); // or the path for messages would grow for ever
        rustix::fs::openat(&place, "file", OFlags::CREATE | OFlags::WRONLY, Mode::RUSR).unwrap();
    }
}

fn a_tree_deeper_than_any_stack_is_counted(case: &Case) {
    let top = case.place("top");
    chain(&top, 20_000);
    let walked = walk_all(&top);
    assert_eq!((walked.inodes_used, walked.complete), (40_001, true));
    let budget = Budget { entries_max: 1_000, stop: &AtomicBool::new(false) };
    let walked = walk(&top, &budget).unwrap();
    assert!(walked.inodes_used <= 1_000 && !walked.complete, "{walked:?}");
}

fn what_comes_and_goes_meanwhile_is_no_error(case: &Case) {
    for number in 0..50 {
        case.file(&format!("volume/kept{number}/file"), "");
    }
    let volume = Place::root(case.path("volume")).unwrap();
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let _stopping = Stopping(&stop);
        scope.spawn(|| {
            while !stop.load(Ordering::Relaxed) {
                for number in 0..5 {
                    case.file(&format!("volume/kept{number}/dir/file"), "");
                    std::fs::remove_dir_all(case.path(&format!("volume/kept{number}/dir"))).unwrap();
                    // The same name as a file, so that a directory is no directory any more.
                    case.file(&format!("volume/kept{number}/dir"), "");
                    std::fs::remove_file(case.path(&format!("volume/kept{number}/dir"))).unwrap();
                }
            }
        });
        for _ in 0..500 {
            let walked = walk_all(&volume);
            assert!(walked.complete && (101..=111).contains(&walked.inodes_used), "{walked:?}");
        }
    });
}

fn a_tree_that_is_moved_away_gives_a_lower_bound_or_all(case: &Case) {
    const DEPTH: usize = 100;
    let top = case.place("top");
    chain(&top, DEPTH);
    case.file("outside/secret", "");
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let _stopping = Stopping(&stop);
        scope.spawn(|| {
            // From far down, where the directories above are closed, to outside and back.
            let down = case.path("top").join(["deep"; 50].join("/"));
            while !stop.load(Ordering::Relaxed) {
                std::fs::rename(&down, case.path("outside/deep")).unwrap();
                std::fs::rename(case.path("outside/deep"), &down).unwrap();
            }
        });
        let all = u64::try_from(2 * DEPTH + 1).unwrap();
        let (mut rounds, mut lost) = (0, 0);
        while rounds < 500 || lost == 0 {
            let walked = walk_all(&top);
            assert!(walked.inodes_used <= all, "nothing outside is counted: {walked:?}");
            rounds += 1;
            lost += usize::from(!walked.complete);
        }
    });
    assert!(walk_all(&top).complete);
}
