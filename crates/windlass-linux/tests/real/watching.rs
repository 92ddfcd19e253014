//! Watching the mount table change.

use std::collections::BTreeSet;
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::mount::UnmountFlags;
use windlass_linux::mount::{Extent, bind, relocate};
use windlass_linux::safe_path::Place;
use windlass_linux::table::{Change, Events, Reader, Table, Watch};
use windlass_testing::directory::a_tmpfs;

use crate::case::Case;

crate::tests!(
    mounts_of_another_thread_are_noticed,
    a_waiter_is_woken_and_the_descriptor_is_readable,
    what_one_thread_catches_up_with_another_still_hears_of,
    a_mount_that_moves_takes_those_below_along,
    a_tree_that_goes_goes_whole,
    a_watched_table_equals_a_fresh_one_after_any_history,
    a_queue_that_ran_over_is_made_up_for,
    nothing_happens_and_nothing_is_told,
);

/// All ways to watch that this kernel has. Each begins when its turn comes.
fn watches() -> impl Iterator<Item = Watch> {
    let mut ways = vec![(Reader::Mountinfo, Events::Poll)];
    if Reader::best() == Reader::Statmount {
        ways.push((Reader::Statmount, Events::Poll));
    }
    if Events::best() == Events::Fanotify {
        ways.push((Reader::Statmount, Events::Fanotify));
    }
    ways.into_iter().map(|(reader, events)| Watch::begin_with(reader, events).unwrap())
}

/// Long enough for any machine; only a test that fails waits for it.
const LONG: Option<Duration> = Some(Duration::from_secs(20));

/// Which mount points appeared and vanished, in words.
fn told(changes: &[Change]) -> Vec<String> {
    let name = |path: &Path| path.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let word = |change: &Change| match change {
        Change::Appeared(mount) => format!("+{}", name(&mount.mount_point)),
        Change::Vanished(mount) => format!("-{}", name(&mount.mount_point)),
    };
    changes.iter().map(word).collect()
}

fn lazily_unmount(path: impl AsRef<Path>) {
    rustix::mount::unmount(path.as_ref(), UnmountFlags::DETACH | UnmountFlags::NOFOLLOW).unwrap();
}

/// The mounts of this test, by everything but the ids, which readers see differently. Others are the system's, which goes on meanwhile: where a directory is deleted, what was
/// mounted on it goes in every namespace.
fn shape(case: &Case, table: &Table) -> BTreeSet<(u32, PathBuf, PathBuf, u32)> {
    let parent = |it: &windlass_linux::table::Mount| table.get(it.parent).map_or(0, |parent| parent.number);
    let directory = case.path("");
    table.below(&directory).map(|it| (it.number, it.mount_point.clone(), it.root.clone(), parent(it))).collect()
}

fn mounts_of_another_thread_are_noticed(case: &Case) {
    for watch in watches() {
        let paths: BTreeSet<_> = (0..50).map(|it| case.path(&format!("dir{it}"))).collect();
        // By polling mountinfo, a mount that comes and goes between two looks is not seen at all. So they stay until
        // all were seen.
        let (all_seen, wait_until_all_seen) = std::sync::mpsc::channel::<()>();
        std::thread::scope(|scope| {
            let (mounted, case) = (&paths, &case);
            scope.spawn(move || {
                for path in mounted {
                    case.tmpfs(path.file_name().unwrap().to_str().unwrap());
                }
                // An error: the other side failed, and is about to say so.
                let _ = wait_until_all_seen.recv();
                for path in mounted {
                    lazily_unmount(path);
                }
            });
            let mut appeared = BTreeSet::new();
            while appeared != paths {
                let changes = watch.changes(LONG).unwrap();
                assert!(!changes.is_empty(), "{} appeared, {watch:?}", appeared.len());
                for change in changes {
                    let Change::Appeared(mount) = change else { panic!("{change:?}") };
                    assert!(appeared.insert(mount.mount_point.clone()), "{mount:?} appeared twice");
                }
            }
            drop(all_seen);
            let mut left = appeared;
            while !left.is_empty() {
                let changes = watch.changes(LONG).unwrap();
                assert!(!changes.is_empty(), "{} did not vanish, {watch:?}", left.len());
                for change in changes {
                    let Change::Vanished(mount) = change else { panic!("{change:?}") };
                    assert!(left.remove(&mount.mount_point), "{mount:?} vanished twice");
                }
            }
        });
        assert_eq!(watch.table().below(&case.path("")).count(), 0);
    }
}

fn a_waiter_is_woken_and_the_descriptor_is_readable(case: &Case) {
    for watch in watches() {
        let poll = |timeout: &Timespec| {
            rustix::event::poll(&mut [PollFd::new(&watch.as_fd(), PollFlags::IN)], Some(timeout)).unwrap()
        };
        let now = Timespec { tv_sec: 0, tv_nsec: 0 };
        assert_eq!(poll(&now), 0, "{watch:?}");
        let changes = std::thread::scope(|scope| {
            let waiter = scope.spawn(|| watch.changes(LONG).unwrap());
            case.tmpfs("a");
            waiter.join().unwrap()
        });
        assert_eq!(told(&changes), ["+a"]);
        lazily_unmount(case.path("a"));
        assert_eq!(poll(&Timespec { tv_sec: 20, tv_nsec: 0 }), 1, "{watch:?}");
        assert_eq!(told(&watch.changes(LONG).unwrap()), ["-a"], "also when the poll used the event up");
        assert_eq!(poll(&now), 0, "{watch:?}");
    }
}

fn what_one_thread_catches_up_with_another_still_hears_of(case: &Case) {
    for watch in watches() {
        case.tmpfs("a");
        assert!(!watch.table().is_mount_point(&case.path("a")));
        watch.catch_up().unwrap();
        assert!(watch.table().is_mount_point(&case.path("a")), "what was mounted before is in the table");
        lazily_unmount(case.path("a"));
        watch.catch_up().unwrap();
        let ready = rustix::event::poll(&mut [PollFd::new(&watch.as_fd(), PollFlags::IN)], None).unwrap();
        assert_eq!(ready, 1);
        assert_eq!(told(&watch.changes(LONG).unwrap()), ["+a", "-a"]);
    }
}

fn a_mount_that_moves_takes_those_below_along(case: &Case) {
    for watch in watches() {
        let from = case.tmpfs("from");
        case.tmpfs("from/inner");
        case.tmpfs("from/inner/most");
        watch.changes(LONG).unwrap();
        relocate(&from, &case.place("to")).unwrap();
        let mut words = told(&watch.changes(LONG).unwrap());
        words.sort_unstable();
        assert_eq!(words, ["+inner", "+most", "+to", "-from", "-inner", "-most"], "{watch:?}");
        let table = watch.table();
        let points: Vec<_> = table.below(&case.path("")).map(|it| it.mount_point.clone()).collect();
        assert_eq!(points, ["to", "to/inner", "to/inner/most"].map(|it| case.path(it)));
        drop(table);
        lazily_unmount(case.path("to"));
        std::fs::remove_dir(case.path("from")).unwrap();
    }
}

fn a_tree_that_goes_goes_whole(case: &Case) {
    for watch in watches() {
        for below in ["a", "a/b", "a/b/c", "a/d", "a"] {
            case.tmpfs(below);
        }
        assert_eq!(watch.changes(LONG).unwrap().len(), 5);
        lazily_unmount(case.path("a"));
        assert_eq!(told(&watch.changes(LONG).unwrap()), ["-a"], "the one on top");
        lazily_unmount(case.path("a"));
        let mut words = told(&watch.changes(LONG).unwrap());
        words.sort_unstable();
        assert_eq!(words, ["-a", "-b", "-c", "-d"]);
    }
}

/// Numbers that look random and are the same in every run.
struct Dice(u64);

impl Dice {
    fn below(&mut self, bound: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        usize::try_from(self.0 >> 33).unwrap() % bound
    }
}

fn a_watched_table_equals_a_fresh_one_after_any_history(case: &Case) {
    let watches: Vec<_> = watches().collect();
    // On a shared mount, so that mounts spread, tuck in below others, and go in ways that no call names.
    let shared = case.tmpfs("shared");
    windlass_linux::mount::set_propagation(&shared, windlass_linux::mount::Propagation::Shared, Extent::One).unwrap();
    bind(&shared, Extent::One).unwrap().attach(&case.place("peer")).unwrap();
    let places = ["shared/a", "shared/a/b", "shared/c", "peer/a", "peer/c", "own", "own/a"];
    let mut dice = Dice(7);
    for round in 0..400 {
        let place = case.path(places[dice.below(places.len())]);
        let _ = std::fs::create_dir_all(&place);
        let Ok(target) = Place::root(&place) else { continue };
        match dice.below(5) {
            0 | 1 => drop(a_tmpfs().attach(&target)),
            2 => {
                let from = case.path(places[dice.below(places.len())]);
                if let Ok(from) = Place::root(from)
                    && let Ok(copy) = bind(&from, Extent::Tree)
                {
                    let _ = copy.attach(&target);
                }
            }
            3 => {
                let from = case.path(places[dice.below(places.len())]);
                if let Ok(from) = Place::root(from) {
                    let _ = relocate(&from, &target);
                }
            }
            _ => drop(rustix::mount::unmount(&place, UnmountFlags::DETACH | UnmountFlags::NOFOLLOW)),
        }
        drop(target);
        let fresh = Reader::Mountinfo.read().unwrap();
        // Bind mounts of trees into each other double them; begin again before there are too many.
        if fresh.len() > 400 {
            for below in ["shared/a", "shared/c", "own"] {
                while rustix::mount::unmount(case.path(below), UnmountFlags::DETACH).is_ok() {}
            }
        }
        if round % 4 == 0 {
            let fresh = Reader::Mountinfo.read().unwrap();
            for (kind, watch) in watches.iter().enumerate() {
                watch.catch_up().unwrap();
                assert_eq!(shape(case, &watch.table()), shape(case, &fresh), "round {round}, watch {kind}");
            }
        }
    }
    for watch in &watches {
        // What was told, applied to what was there at the beginning, is what is there now.
        let mut held = BTreeSet::new();
        for change in watch.changes(Some(Duration::ZERO)).unwrap() {
            match change {
                Change::Appeared(mount) => assert!(held.insert((mount.id, mount.mount_point.clone(), mount.parent))),
                Change::Vanished(mount) => {
                    assert!(held.remove(&(mount.id, mount.mount_point.clone(), mount.parent)));
                }
            }
        }
        let now: BTreeSet<_> =
            watch.table().below(&case.path("")).map(|it| (it.id, it.mount_point.clone(), it.parent)).collect();
        assert_eq!(held, now);
    }
}

fn a_queue_that_ran_over_is_made_up_for(case: &Case) {
    if Events::best() != Events::Fanotify {
        return;
    }
    let limit = std::fs::read_to_string("/proc/sys/fs/fanotify/max_queued_events");
    let Some(limit) = limit.ok().and_then(|it| it.trim().parse::<usize>().ok()).filter(|it| *it <= 20_000) else {
        return; // somebody raised it beyond what a test should fill
    };
    let source = case.tmpfs("source");
    let many = 500;
    for number in 0..many {
        case.tmpfs(&format!("source/{number}"));
    }
    let watch = Watch::begin().unwrap();
    let target = case.place("target");
    for _ in 0..=limit / (2 * many) {
        bind(&source, Extent::Tree).unwrap().attach(&target).unwrap();
        lazily_unmount(case.path("target"));
    }
    case.tmpfs("last");
    watch.catch_up().unwrap();
    assert_eq!(shape(case, &watch.table()), shape(case, &Reader::Mountinfo.read().unwrap()));
    let changes = watch.changes(LONG).unwrap();
    assert!(told(&changes).contains(&"+last".to_owned()));
}

fn nothing_happens_and_nothing_is_told(_: &Case) {
    for watch in watches() {
        assert!(watch.changes(Some(Duration::ZERO)).unwrap().is_empty());
        assert!(watch.changes(Some(Duration::from_millis(5))).unwrap().is_empty());
    }
}
