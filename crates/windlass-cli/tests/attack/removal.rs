//! Removal deletes what was the volume's, and nothing else, whoever moves what meanwhile (I-5).

use std::fs::{self, File};
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;

use rustix::fs::{CWD, Mode, OFlags, RenameFlags};
use rustix::mount::{UnmountFlags, mount_bind, unmount};
use windlass_testing::daemon::Case;
use windlass_testing::process::Process;
use windlass_testing::wait::until;

use crate::victim::{CANARY, log, pod, scratch};
use crate::{attacks, rounds};

attacks!["removal":
    directories_are_moved_out_by_path_while_a_volume_is_emptied,
    directories_are_moved_out_by_descriptor_while_a_volume_is_emptied,
    directories_are_exchanged_with_links_while_a_volume_is_emptied,
    hard_links_of_a_volume_lead_outside,
    links_of_a_volume_lead_outside,
    names_in_a_volume_are_hostile,
    something_is_mounted_in_a_volume,
    a_container_still_has_a_volume_that_is_to_go,
    gone_means_gone,
];

const DIRECTORIES: usize = 24;
const FILES: usize = 200;

/// Scratch space of the pod `web` with many files in directories.
fn fill(case: &Case) -> PathBuf {
    let volume = scratch(case, "web-1");
    for directory in 0..DIRECTORIES {
        let directory = volume.join(format!("d{directory}/deep"));
        fs::create_dir_all(&directory).unwrap();
        for file in 0..FILES {
            File::create(directory.join(format!("f{file}"))).unwrap();
        }
    }
    volume
}

/// Starts with the pod `web`, fills its volume, and removes the pod while `mover` works, which is told when to end.
fn removed_while(case: &Case, mover: impl Fn(&Path, &AtomicBool) + Sync) {
    case.manifest("web.yaml", &pod("web"));
    case.wait_mounted(&["web"]);
    let volume = fill(case);
    let over = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| mover(&volume, &over));
        case.remove_manifest("web.yaml");
        // A mover may keep it from ever being empty.
        case.output(&["wait", "--for", "unmounted", "--timeout", "4s", "web"]);
        over.store(true, Ordering::Relaxed);
    });
}

/// What was moved out is whole: a directory that was moved before its removal began has all of its files.
fn saved_is_whole(case: &Case, saved: &Path, counts: &[(PathBuf, usize)]) {
    for (directory, was) in counts {
        let left = fs::read_dir(directory.join("deep")).map_or(0, Iterator::count);
        assert!(
            left >= *was,
            "{} had {was} files when it was out of the volume and has {left}: {} was emptied outside\n{}",
            directory.display(),
            saved.display(),
            log(case)
        );
    }
}

fn directories_are_moved_out_by_path_while_a_volume_is_emptied(case: &Case) {
    let daemon = case.start();
    let moved = AtomicUsize::new(0);
    for round in 0..rounds() * 2 {
        let saved = case.path(&format!("saved-{round}"));
        fs::create_dir(&saved).unwrap();
        let counts = std::sync::Mutex::new(Vec::new());
        removed_while(case, |volume, over| {
            // The last first: the removal comes to them last, so most are moved while others are emptied.
            let mut number = DIRECTORIES;
            // Begins when the removal has begun.
            until_begun(volume, over);
            while number > 0 && !over.load(Ordering::Relaxed) {
                number -= 1;
                let target = saved.join(format!("d{number}"));
                if fs::rename(volume.join(format!("d{number}")), &target).is_ok() {
                    let count = fs::read_dir(target.join("deep")).map_or(0, Iterator::count);
                    counts.lock().unwrap().push((target, count));
                    moved.fetch_add(1, Ordering::Relaxed);
                }
            }
        });
        saved_is_whole(case, &saved, &counts.lock().unwrap());
    }
    drop(daemon);
}

/// Waits until something is missing from the volume, or all of it.
fn until_begun(volume: &Path, over: &AtomicBool) {
    let count = || fs::read_dir(volume).map_or(0, Iterator::count);
    while count() == DIRECTORIES && !over.load(Ordering::Relaxed) {
        thread::yield_now();
    }
}

fn directories_are_moved_out_by_descriptor_while_a_volume_is_emptied(case: &Case) {
    let daemon = case.start();
    for round in 0..rounds() * 2 {
        let saved = case.path(&format!("saved-{round}"));
        fs::create_dir(&saved).unwrap();
        let counts = std::sync::Mutex::new(Vec::new());
        removed_while(case, |volume, over| {
            // As a shell does whose working directory is in the volume.
            let inside = rustix::fs::open(volume, OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty()).unwrap();
            until_begun(volume, over);
            for number in (0..DIRECTORIES).rev() {
                let (name, target) = (format!("d{number}"), saved.join(format!("d{number}")));
                if rustix::fs::renameat(&inside, &name, CWD, &target).is_ok() {
                    let count = fs::read_dir(target.join("deep")).map_or(0, Iterator::count);
                    counts.lock().unwrap().push((target, count));
                }
            }
        });
        saved_is_whole(case, &saved, &counts.lock().unwrap());
    }
    drop(daemon);
}

fn directories_are_exchanged_with_links_while_a_volume_is_emptied(case: &Case) {
    let daemon = case.start();
    let outside = case.path("outside");
    fs::create_dir(&outside).unwrap();
    for file in 0..50 {
        fs::write(outside.join(format!("f{file}")), CANARY).unwrap();
    }
    for _ in 0..rounds() {
        removed_while(case, |volume, over| {
            let link = volume.join("link");
            let _ = symlink(&outside, &link);
            let mut number = 0;
            while !over.load(Ordering::Relaxed) {
                number = (number + 1) % DIRECTORIES;
                let directory = volume.join(format!("d{number}"));
                let _ = rustix::fs::renameat_with(CWD, &link, CWD, &directory, RenameFlags::EXCHANGE);
                let deep = volume.join(format!("d{number}/deep"));
                let _ = rustix::fs::renameat_with(CWD, &link, CWD, &deep, RenameFlags::EXCHANGE);
            }
        });
        assert_eq!(fs::read_dir(&outside).unwrap().count(), 50, "what is outside was emptied\n{}", log(case));
        // What the mover left may keep the pod from going: its next life has it gone.
        let _ = fs::remove_dir_all(case.path("root/pods/web-1"));
    }
    drop(daemon);
}

fn hard_links_of_a_volume_lead_outside(case: &Case) {
    case.manifest("web.yaml", &pod("web"));
    let daemon = case.start_until_mounted(&["web"]);
    let outside = case.path("outside");
    fs::write(&outside, CANARY).unwrap();
    fs::hard_link(&outside, scratch(case, "web-1").join("linked")).unwrap();
    case.take_away("web.yaml", &["web"]);
    assert_eq!(fs::read_to_string(&outside).unwrap(), CANARY);
    assert!(daemon.stop().success());
}

fn links_of_a_volume_lead_outside(case: &Case) {
    case.manifest("web.yaml", &pod("web"));
    let daemon = case.start_until_mounted(&["web"]);
    let outside = case.path("outside");
    fs::create_dir(&outside).unwrap();
    fs::write(outside.join("canary"), CANARY).unwrap();
    let volume = scratch(case, "web-1");
    symlink(&outside, volume.join("link")).unwrap();
    symlink("../../../../../../outside", volume.join("relative")).unwrap();
    symlink("/proc/self/root/mnt/a/outside", volume.join("magic")).unwrap();
    case.take_away("web.yaml", &["web"]);
    assert_eq!(fs::read_to_string(outside.join("canary")).unwrap(), CANARY);
    assert!(daemon.stop().success());
}

fn names_in_a_volume_are_hostile(case: &Case) {
    case.manifest("web.yaml", &pod("web"));
    let daemon = case.start_until_mounted(&["web"]);
    let volume = scratch(case, "web-1");
    let mut deep = volume.clone();
    for name in ["line\nbreak", "\u{1b}[2J", "-rf", " ", "..data", "...", "\u{202e}txt.exe"] {
        fs::write(volume.join(format!("{name}.file")), "x").unwrap();
        deep = deep.join(name);
        fs::create_dir(&deep).unwrap();
    }
    // Deeper than a path can be long.
    let below = rustix::fs::open(&deep, OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty()).unwrap();
    let mut below = below;
    for _ in 0..40 {
        let name = "x".repeat(200);
        rustix::fs::mkdirat(&below, &name, Mode::RWXU).unwrap();
        below = rustix::fs::openat(&below, &name, OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty()).unwrap();
    }
    drop(below);
    case.take_away("web.yaml", &["web"]);
    assert!(!volume.exists());
    assert!(!log(case).contains('\u{1b}'), "a name reaches the terminal of whoever reads the log");
    assert!(daemon.stop().success());
}

fn something_is_mounted_in_a_volume(case: &Case) {
    case.manifest("web.yaml", &pod("web"));
    let daemon = case.start_until_mounted(&["web"]);
    let (outside, inside) = (case.path("outside"), scratch(case, "web-1").join("deep/inside"));
    fs::create_dir(&outside).unwrap();
    fs::create_dir_all(&inside).unwrap();
    fs::write(outside.join("canary"), CANARY).unwrap();
    mount_bind(&outside, &inside).unwrap();
    case.remove_manifest("web.yaml");
    case.output(&["wait", "--for", "unmounted", "--timeout", "3s", "web"]);
    assert_eq!(fs::read_to_string(outside.join("canary")).unwrap(), CANARY);
    let told = case.ask(&["get", "pods", "--all-namespaces"]);
    assert!(told.contains("web"), "a pod that cannot go is shown: {told}");
    unmount(&inside, UnmountFlags::DETACH).unwrap();
    case.wait_unmounted(&["web"]);
    assert_eq!(fs::read_to_string(outside.join("canary")).unwrap(), CANARY);
    assert!(daemon.stop().success());
}

/// With the setting that holds volumes back which somebody still uses.
fn a_container_still_has_a_volume_that_is_to_go(case: &Case) {
    case.manifest("web.yaml", &pod("web"));
    let mut command = case.run();
    command.arg("--hold-while-in-use");
    let daemon = case.start_as(command);
    case.wait_mounted(&["web"]);
    let volume = scratch(case, "web-1");
    fs::write(volume.join("canary"), CANARY).unwrap();
    let inside = case.path("inside");
    fs::create_dir(&inside).unwrap();
    // A container: a mount namespace of its own in which the volume is mounted elsewhere.
    let script = format!("mount --bind '{}' '{}' && echo begun && exec cat", volume.display(), inside.display());
    let mut container = windlass_testing::process::program("unshare");
    container.args(["--mount", "--propagation", "private", "sh", "-c", &script]);
    let (container, line) = Process::start_until_it_speaks(container.stdin(Stdio::piped()));
    assert_eq!(line, "begun\n");
    case.remove_manifest("web.yaml");
    case.output(&["wait", "--for", "unmounted", "--timeout", "3s", "web"]);
    assert_eq!(fs::read_to_string(volume.join("canary")).ok().as_deref(), Some(CANARY), "{}", log(case));
    drop(container);
    case.wait_unmounted(&["web"]);
    assert!(!volume.exists());
    assert!(daemon.stop().success());
}

/// Whoever is told that nothing is left finds nothing.
fn gone_means_gone(case: &Case) {
    let daemon = case.start();
    let tries = 10 * rounds();
    for number in 0..tries {
        let name = format!("web{number}");
        let text = crate::victim::WEB.replace("name: web, uid: web-1", &format!("name: {name}, uid: {name}-1"));
        case.manifest("web.yaml", &text);
        case.wait_mounted(&[&name]);
        case.take_away("web.yaml", &[&name]);
        let left = case.path("root/pods").join(format!("{name}-1"));
        assert!(!left.exists(), "try {number} of {tries}: {} is still there", left.display());
        let records = case.path("root/windlass/records");
        let of_pod = |it: &fs::DirEntry| it.file_name().to_string_lossy().starts_with(&format!("{name}-1"));
        let entries = |it: PathBuf| fs::read_dir(it).unwrap().map(Result::unwrap);
        let left = entries(records.clone()).chain(entries(records.join("pods"))).filter(of_pod).count();
        assert_eq!(left, 0, "try {number} of {tries}: records are still there");
    }
    let pods = case.path("root/pods");
    until("all is gone", &pods, || fs::read_dir(&pods).unwrap().count() == 0);
    assert!(daemon.stop().success());
}
