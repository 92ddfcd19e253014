//! Directories that change in one step: killed at every step, out of space, read all the while.

use std::collections::BTreeSet;
use std::io::{Read, Write};
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::process::Stdio;
use std::sync::atomic::{AtomicBool, Ordering};

use rustix::fs::{Mode, OFlags};
use windlass_linux::atomic_dir::{Contents, File, Step, write, write_observed};
use windlass_linux::mount::{Tmpfs, tmpfs};
use windlass_linux::safe_path::Place;
use windlass_testing::namespace::has_ids;
use windlass_testing::process::copy_of_this_program;

use crate::case::{Case, Stopping};

crate::tests!(
    a_write_that_is_killed_at_any_step_leaves_the_old_or_the_new,
    a_writer_that_is_killed_at_any_moment_leaves_one_version,
    readers_never_see_a_mix,
    an_update_that_does_not_fit_leaves_the_old,
    owners_and_groups_are_as_asked_for_and_count_as_changes,
);

/// Set for a copy of this program that writes: the directory, which contents, and the step at which it ends.
const WRITE: &str = "WINDLASS_TEST_WRITE";

/// Contents that tell which version they are. Even ones and odd ones differ in names, directories and modes.
fn contents(number: usize) -> Contents {
    let mut contents = Contents::default();
    let mut add = |path: &str, mode: u32| {
        let text = format!("{path} of {number}\n").repeat(20);
        let file = File { contents: text.into_bytes(), mode: Mode::from_raw_mode(mode), owner: None };
        contents.add("path", path, file).unwrap();
    };
    add("a", 0o644);
    add("b/c", if number.is_multiple_of(2) { 0o600 } else { 0o440 });
    add(if number.is_multiple_of(2) { "even/d" } else { "odd" }, 0o644);
    contents
}

/// Does a copy's work, if this process is one.
pub(crate) fn written() -> bool {
    let Ok(what) = std::env::var(WRITE) else { return false };
    let mut words = what.splitn(3, ' ');
    let mut number = || words.next().unwrap().parse::<usize>().unwrap();
    let (first, last_step) = (number(), number());
    let target = Place::root(words.next().unwrap()).unwrap();
    if last_step > 0 {
        let mut steps = 0;
        let mut before = |step| {
            steps += 1;
            if steps == last_step {
                print!("{step:?}");
                std::io::stdout().flush().unwrap();
                rustix::process::kill_process(rustix::process::getpid(), rustix::process::Signal::KILL).unwrap();
            }
        };
        write_observed(&target, &contents(first), &mut before).unwrap();
    } else {
        for number in first.. {
            write(&target, &contents(number)).unwrap();
            if std::io::stdout().write_all(b".").and_then(|()| std::io::stdout().flush()).is_err() {
                break;
            }
        }
    }
    true
}

/// The version that a directory shows, if it shows all of one. `None` if there is none yet.
fn shown(target: &Path) -> Option<usize> {
    let data = std::fs::read_dir(target.join("..data")).ok()?;
    drop(data);
    let text = std::fs::read_to_string(target.join("..data/a")).unwrap();
    let number: usize = text.lines().next().unwrap().rsplit(' ').next().unwrap().parse().unwrap();
    for (path, file) in contents(number).files() {
        let path = target.join("..data").join(path.as_path());
        assert_eq!(std::fs::read(&path).unwrap(), file.contents, "{}", path.display());
        assert_eq!(std::fs::metadata(&path).unwrap().mode() & 0o7777, file.mode.as_raw_mode());
    }
    Some(number)
}

/// Whether the directory holds this version, its links and nothing else.
fn assert_complete(target: &Path, number: usize) {
    assert_eq!(shown(target), Some(number));
    let names = std::fs::read_dir(target).unwrap().map(|it| it.unwrap().file_name().into_string().unwrap());
    let names: BTreeSet<_> = names.map(|it| if it.starts_with("..2") { "..STAMP".into() } else { it }).collect();
    let last = if number.is_multiple_of(2) { "even" } else { "odd" };
    assert_eq!(names, ["..STAMP", "..data", "a", "b", last].map(String::from).into());
    for (path, file) in contents(number).files() {
        assert_eq!(std::fs::read(target.join(path.as_path())).unwrap(), file.contents, "through the link");
    }
}

fn a_write_that_is_killed_at_any_step_leaves_the_old_or_the_new(case: &Case) {
    let mut steps = BTreeSet::new();
    // From nothing to a first version, from one version to another, and on top of a write that was killed itself.
    for (scenario, old) in [("first", None), ("update", Some(1)), ("again", Some(1))] {
        for step in 1.. {
            let target = case.path(&format!("{scenario}{step}"));
            let place = case.place(&format!("{scenario}{step}"));
            if let Some(old) = old {
                write(&place, &contents(old)).unwrap();
            }
            if scenario == "again" {
                assert_eq!(killed(&target, 2, 4).as_deref(), Some("WriteFile"), "between two files");
            }
            let killed_at = killed(&target, 2, step);
            let seen = shown(&target);
            assert!(seen == old || seen == Some(2), "step {step}: {seen:?}");
            let Some(killed_at) = killed_at else {
                assert_complete(&target, 2);
                break;
            };
            steps.insert(killed_at);
            let next = if step % 2 == 0 { 2 } else { 3 };
            let written = write(&place, &contents(next)).unwrap();
            assert!(written.leftovers.is_empty() && written.hidden.is_empty());
            assert_complete(&target, next);
        }
    }
    let all = [
        Step::Sweep,
        Step::MakeVersion,
        Step::WriteFile,
        Step::MakeTemporaryLink,
        Step::Swap,
        Step::SetLink,
        Step::RemoveLink,
        Step::RemoveOldVersion,
    ];
    assert_eq!(steps, all.iter().map(|it| format!("{it:?}")).collect(), "at each of them one was killed");
}

/// Runs a write in another process that kills itself before a step. Returns which, or nothing if it got to the end.
fn killed(target: &Path, number: usize, step: usize) -> Option<String> {
    let what = format!("{number} {step} {}", target.display());
    let ended = copy_of_this_program().env(WRITE, what).stderr(Stdio::inherit()).output().unwrap();
    if ended.status.success() {
        return None;
    }
    assert_eq!(std::os::unix::process::ExitStatusExt::signal(&ended.status), Some(9), "{}", ended.status);
    Some(String::from_utf8(ended.stdout).unwrap())
}

fn a_writer_that_is_killed_at_any_moment_leaves_one_version(case: &Case) {
    let place = case.place("target");
    let target = case.path("target");
    for round in 0..100 {
        let what = format!("0 0 {}", target.display());
        let mut writer = copy_of_this_program().env(WRITE, what).stdout(Stdio::piped()).spawn().unwrap();
        // So many writes have ended, and another is under way.
        let mut progress = vec![0; 1 + round % 7];
        writer.stdout.as_mut().unwrap().read_exact(&mut progress).unwrap();
        writer.kill().unwrap();
        writer.wait().unwrap();
        assert!(shown(&target).is_some());
        if round % 10 == 9 {
            assert!(write(&place, &contents(round)).unwrap().leftovers.is_empty());
            assert_complete(&target, round);
        }
    }
}

fn readers_never_see_a_mix(case: &Case) {
    const UPDATES: usize = 10_000;
    let place = case.place("target");
    let pair = |number: usize| {
        let mut contents = Contents::default();
        for path in ["a", "dir/b"] {
            let text = number.to_string().repeat(1 + number % 3 * 500);
            let file = File { contents: text.into_bytes(), mode: Mode::from_raw_mode(0o644), owner: None };
            contents.add("path", path, file).unwrap();
        }
        contents
    };
    write(&place, &pair(0)).unwrap();
    let stop = AtomicBool::new(false);
    let read_all = || {
        let mut pairs = 0;
        while !stop.load(Ordering::Relaxed) {
            // Whoever wants several files of one version resolves `..data` once.
            let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
            // Between reading the link and going where it leads, the version can be replaced and removed: missing then,
            // as with every writer of this layout.
            let Ok(version) = rustix::fs::open(case.path("target/..data"), flags, Mode::empty()) else { continue };
            let read = |path: &str| {
                let file = rustix::fs::openat(&version, path, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty()).ok()?;
                std::io::read_to_string(std::fs::File::from(file)).ok()
            };
            // So can its files, one by one: missing, but never another version's.
            if let (Some(one), Some(other)) = (read("a"), read("dir/b")) {
                assert_eq!(one, other);
                assert!(!one.is_empty());
                pairs += 1;
            }
        }
        pairs
    };
    std::thread::scope(|scope| {
        let stopping = Stopping(&stop);
        let readers = [scope.spawn(read_all), scope.spawn(read_all)];
        for number in 1..=UPDATES {
            let written = write(&place, &pair(number)).unwrap();
            assert!(written.changed && written.leftovers.is_empty());
        }
        drop(stopping);
        for reader in readers {
            assert!(reader.join().unwrap() > 100);
        }
    });
}

fn an_update_that_does_not_fit_leaves_the_old(case: &Case) {
    let small = Tmpfs { size_bytes: Some(64 << 10), ..Tmpfs::default() };
    let place = tmpfs(&small).unwrap().attach(&case.place("target")).unwrap();
    let target = case.path("target");
    write(&place, &contents(1)).unwrap();
    let mut large = contents(2);
    let file = File { contents: vec![b'x'; 128 << 10], mode: Mode::RUSR, owner: None };
    large.add("path", "large", file).unwrap();
    for _ in 0..3 {
        let error = write(&place, &large).unwrap_err();
        assert!(error.to_string().starts_with("write "), "{error}");
        assert_complete(&target, 1);
    }
    write(&place, &contents(2)).unwrap();
    assert_complete(&target, 2);
}

fn owners_and_groups_are_as_asked_for_and_count_as_changes(case: &Case) {
    if !has_ids() {
        return; // only root can map other ids into the namespace
    }
    let place = case.place("target");
    let target = case.path("target");
    let owned = |owner, group| {
        let mut contents = contents(1);
        let file = File { contents: b"token".to_vec(), mode: Mode::from_raw_mode(0o600), owner };
        contents.add("path", "tokens/mine", file).unwrap();
        contents.group = group;
        contents
    };
    for (owner, group) in [(Some(1000), None), (Some(1000), Some(4000)), (None, Some(4000)), (None, None)] {
        assert!(write(&place, &owned(owner, group)).unwrap().changed, "{owner:?} {group:?}");
        assert!(!write(&place, &owned(owner, group)).unwrap().changed, "{owner:?} {group:?}");
        let (user, group) = (owner.unwrap_or(0), group.unwrap_or(0));
        let owners = |path: &str| {
            let status = std::fs::symlink_metadata(target.join(path)).unwrap();
            (status.uid(), status.gid())
        };
        assert_eq!(owners("tokens/mine"), (user, group));
        assert_eq!(std::fs::metadata(target.join("tokens/mine")).unwrap().mode() & 0o7777, 0o600);
        assert_eq!(owners("tokens"), (user, group), "the link has its file's owner");
        assert_eq!(owners("..data"), (0, group));
        assert_eq!(owners("..data/tokens"), (0, group));
        assert_eq!(owners("a"), (0, group));
    }
}
