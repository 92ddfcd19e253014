//! Paths that stay beneath a directory, while somebody works against it.

use std::os::unix::fs::symlink;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use rustix::fs::{Mode, OFlags, RenameFlags};
use rustix::io::Errno;
use windlass_linux::mount::{Extent, bind};
use windlass_linux::safe_path::{Mounts, Place};

use crate::case::{Case, Stopping, relative};

crate::tests!(
    a_mount_is_entered_only_when_asked_for,
    no_swap_of_links_leads_outside,
    no_mount_in_between_is_entered,
    neither_links_nor_mounts_together_lead_outside,
);

fn a_mount_is_entered_only_when_asked_for(case: &Case) {
    case.tmpfs("volume/mounted");
    case.file("volume/mounted/file", "");
    case.place("volume/plain");
    // A bind mount of the same file system looks the same to everything that compares devices.
    let source = case.place("volume/source");
    bind(&source, Extent::One).unwrap().attach(&case.place("volume/bound")).unwrap();
    let root = Place::root(case.path("volume")).unwrap();
    for below in ["mounted", "mounted/file", "bound"] {
        let error = root.find(&relative(below), Mounts::Refuse).unwrap_err();
        assert_eq!(error.errno(), Errno::XDEV);
        assert!(error.to_string().ends_with("(there is a mount or a way out)"), "{error}");
        root.find(&relative(below), Mounts::Enter).unwrap();
    }
    let made = root.make_directories(&relative("mounted/a"), Mode::RWXU, Mounts::Refuse);
    assert_eq!(made.unwrap_err().errno(), Errno::XDEV);
    assert!(!case.path("volume/mounted/a").exists());
}

const ROUNDS: usize = 10_000;

/// Exchanges two names of a directory until told to stop.
fn exchange(directory: &Place, stop: &AtomicBool) {
    while !stop.load(Ordering::Relaxed) {
        rustix::fs::renameat_with(directory, "a", directory, "b", RenameFlags::EXCHANGE).unwrap();
    }
}

fn no_swap_of_links_leads_outside(case: &Case) {
    case.file("outside/deep/file", "secret");
    case.file("volume/a/deep/file", "mine");
    symlink(case.path("outside"), case.path("volume/b")).unwrap();
    let root = Place::root(case.path("volume")).unwrap();
    let stop = AtomicBool::new(false);
    let (mut inside, mut refused) = (0, 0);
    std::thread::scope(|scope| {
        let _stopping = Stopping(&stop);
        scope.spawn(|| exchange(&root, &stop));
        for round in 0..ROUNDS {
            match root.open(&relative("a/deep/file"), OFlags::RDONLY, Mounts::Refuse) {
                Ok(file) => {
                    let mut text = [0; 16];
                    let length = rustix::io::read(&file, &mut text).unwrap();
                    assert_eq!(&text[..length], b"mine");
                    inside += 1;
                }
                Err(error) => {
                    assert_eq!(error.errno(), Errno::LOOP, "{error}");
                    refused += 1;
                }
            }
            let new = relative(&format!("a/deep/new{}/er", round % 50));
            match root.make_directories(&new, Mode::RWXU, Mounts::Refuse) {
                Ok(_) => {}
                // With O_DIRECTORY a link is not a directory before it is a link.
                Err(error) => assert!(matches!(error.errno(), Errno::LOOP | Errno::NOTDIR | Errno::EXIST), "{error}"),
            }
        }
    });
    assert!(inside > 0 && refused > 0, "{inside} inside, {refused} refused: there was no race");
    assert_eq!(names(case, "outside/deep"), ["file"]);
    assert_eq!(case.read("outside/deep/file"), "secret");
}

fn no_mount_in_between_is_entered(case: &Case) {
    case.file("outside/file", "secret");
    case.file("volume/a/file", "mine");
    let root = Place::root(case.path("volume")).unwrap();
    let outside = Place::root(case.path("outside")).unwrap();
    let stop = AtomicBool::new(false);
    let (mut inside, mut refused) = (0, 0);
    let seen = AtomicUsize::new(0);
    std::thread::scope(|scope| {
        let _stopping = Stopping(&stop);
        scope.spawn(|| {
            let target = Place::root(case.path("volume/a")).unwrap();
            while !stop.load(Ordering::Relaxed) {
                bind(&outside, Extent::One).unwrap().attach(&target).unwrap();
                // There for at least one look, so that some look meets it however threads are scheduled.
                let now = seen.load(Ordering::Relaxed);
                while seen.load(Ordering::Relaxed) < now + 2 && !stop.load(Ordering::Relaxed) {
                    std::thread::yield_now();
                }
                rustix::mount::unmount(case.path("volume/a"), rustix::mount::UnmountFlags::DETACH).unwrap();
            }
        });
        for round in 0..ROUNDS {
            match root.open(&relative("a/file"), OFlags::RDONLY, Mounts::Refuse) {
                Ok(file) => {
                    let mut text = [0; 16];
                    let length = rustix::io::read(&file, &mut text).unwrap();
                    assert_eq!(&text[..length], b"mine");
                    inside += 1;
                }
                Err(error) => {
                    assert_eq!(error.errno(), Errno::XDEV, "{error}");
                    refused += 1;
                }
            }
            let new = relative(&format!("a/new{}/er", round % 50));
            if let Err(error) = root.make_directories(&new, Mode::RWXU, Mounts::Refuse) {
                assert_eq!(error.errno(), Errno::XDEV, "{error}");
            }
            seen.fetch_add(1, Ordering::Relaxed);
        }
    });
    assert!(inside > 0 && refused > 0, "{inside} inside, {refused} refused: there was no race");
    assert_eq!(names(case, "outside"), ["file"]);
    assert_eq!(case.read("outside/file"), "secret");
}

fn neither_links_nor_mounts_together_lead_outside(case: &Case) {
    case.file("outside/deep/file", "secret");
    case.file("volume/a/deep/file", "mine");
    symlink(case.path("outside"), case.path("volume/b")).unwrap();
    let root = Place::root(case.path("volume")).unwrap();
    let outside = Place::root(case.path("outside")).unwrap();
    let stop = AtomicBool::new(false);
    let (mut inside, mut links, mut mounts) = (0, 0, 0);
    std::thread::scope(|scope| {
        let _stopping = Stopping(&stop);
        scope.spawn(|| exchange(&root, &stop));
        scope.spawn(|| {
            while !stop.load(Ordering::Relaxed) {
                // Held before it is mounted on, so the mount is in the volume, whatever has its name by then.
                if let Ok(target) = root.find(&relative("a/deep"), Mounts::Refuse) {
                    let _ = bind(&outside, Extent::One).unwrap().attach(&target);
                }
                for below in ["volume/a/deep", "volume/b/deep"] {
                    let _ = rustix::mount::unmount(case.path(below), rustix::mount::UnmountFlags::DETACH);
                }
            }
        });
        let mut round = 0;
        while round < ROUNDS || links == 0 || mounts == 0 || inside == 0 {
            round += 1;
            match root.open(&relative("a/deep/file"), OFlags::RDWR, Mounts::Refuse) {
                Ok(file) => {
                    let mut text = [0; 16];
                    let length = rustix::io::read(&file, &mut text).unwrap();
                    assert_eq!(&text[..length], b"mine");
                    inside += 1;
                }
                Err(error) => match error.errno() {
                    Errno::LOOP => links += 1,
                    Errno::XDEV => mounts += 1,
                    // So many things move that the kernel gave up being sure.
                    errno => assert_eq!(errno, Errno::AGAIN, "{error}"),
                },
            }
            let _ = root.make_directories(&relative("a/deep/new"), Mode::RWXU, Mounts::Refuse);
        }
    });
    assert_eq!((names(case, "outside"), names(case, "outside/deep")), (vec!["deep".into()], vec!["file".into()]));
    assert_eq!(case.read("outside/deep/file"), "secret");
}

/// What is in a directory.
fn names(case: &Case, below: &str) -> Vec<String> {
    let entries = std::fs::read_dir(case.path(below)).unwrap();
    let mut names: Vec<_> = entries.map(|it| it.unwrap().file_name().into_string().unwrap()).collect();
    names.sort_unstable();
    names
}
