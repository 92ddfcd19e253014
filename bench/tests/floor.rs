//! The floor must leave on disk what windlass leaves there, and make the same calls, or it would be a floor of something
//! else.

use std::collections::BTreeMap;
use std::fs;
use std::io::Write;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::{ChildStdin, Command, Stdio};

use windlass_testing::harness::{Failure, Tests};
use windlass_testing::namespace;
use windlass_testing::process::{Lines, Process};

fn main() {
    let mut tests = Tests::from_args().after(namespace::enter);
    tests.add("the_floor_makes_what_windlass_makes", &[], || compare("made"));
    tests.add("the_floor_removes_what_windlass_removes", &[], || removed("removed"));
    tests.add("the_floor_calls_a_driver_as_often_as_windlass_does", &[], || called("called", &[]));
    tests.add("a_driver_that_does_not_stage_is_called_less", &[], || called("called-less", &["--unstaged"]));
    tests.run();
}

/// A process that is asked by lines on its standard streams.
struct Asked {
    _process: Process,
    commands: ChildStdin,
    answers: Lines,
}

impl Asked {
    fn start(arguments: &[&str], paths: &[(&str, &Path)]) -> Result<Self, Failure> {
        let mut command = Command::new(env!("CARGO_BIN_EXE_windlass-bench"));
        command.args(arguments);
        for (name, path) in paths {
            command.arg(name).arg(path);
        }
        let (mut process, answers) = Process::start_for_lines(command.stdin(Stdio::piped()));
        let commands = process.0.stdin.take().ok_or("no standard input")?;
        Ok(Self { _process: process, commands, answers })
    }

    fn ask(&mut self, line: &str) -> Result<String, Failure> {
        writeln!(self.commands, "{line}")?;
        Ok(self.answers.next().ok_or("no answer")?)
    }
}

/// A system, as the harness starts it.
struct System {
    process: Asked,
    pods: PathBuf,
}

impl System {
    fn start(name: &str, test: &str, options: &[&str]) -> Result<Self, Failure> {
        let base = base(test, name);
        let [root, run] = ["root", "run"].map(|it| base.join(it));
        fs::create_dir_all(&root)?;
        fs::create_dir_all(&run)?;
        let arguments = [&["system", name], options].concat();
        let process = Asked::start(&arguments, &[("--root", &root), ("--run", &run)])?;
        let mut system = Self { process, pods: root.join("node/pods") };
        system.ask(r#"{"command":"start"}"#)?;
        Ok(system)
    }

    fn ask(&mut self, command: &str) -> Result<(), Failure> {
        let answer = self.process.ask(command)?;
        if answer.starts_with(r#"{"done":"#) { Ok(()) } else { Err(format!("{command}: {answer}").into()) }
    }
}

fn base(test: &str, system: &str) -> PathBuf {
    Path::new(namespace::BASE).join(test).join(system)
}

const UP: &str = r#"{"command":"up","pods":2}"#;

fn compare(test: &str) -> Result<(), Failure> {
    if !namespace::privileged("the comparison of the floor") {
        return Ok(());
    }
    let mut trees = Vec::new();
    for name in ["floor", "windlass-embedded"] {
        let mut system = System::start(name, test, &[])?;
        system.ask(UP)?;
        let mut tree = BTreeMap::new();
        walk(&system.pods, &system.pods, &mut tree)?;
        trees.push((tree, mounts(&system.pods)?));
    }
    let (floor, windlass) = (&trees[0], &trees[1]);
    // Both pods were there, whole.
    assert_eq!((windlass.0.len(), windlass.1.len()), (78, 4));
    assert_eq!(floor.0, windlass.0);
    assert_eq!(floor.1, windlass.1);
    Ok(())
}

fn removed(test: &str) -> Result<(), Failure> {
    if !namespace::privileged("the removal by the floor") {
        return Ok(());
    }
    for name in ["floor", "windlass-embedded"] {
        let mut system = System::start(name, test, &[])?;
        system.ask(UP)?;
        system.ask(r#"{"command":"down"}"#)?;
        assert_eq!(fs::read_dir(&system.pods)?.count(), 0, "{name} leaves pods");
        assert_eq!(mounts(&system.pods)?, BTreeMap::new(), "{name} leaves mounts");
    }
    Ok(())
}

/// After the first volume, which may come with questions.
fn called(test: &str, options: &[&str]) -> Result<(), Failure> {
    if !namespace::privileged("the calls of the floor") {
        return Ok(());
    }
    let up_and_down: &[&str] = match options {
        [] => &["NodePublishVolume", "NodeStageVolume", "NodeUnpublishVolume", "NodeUnstageVolume"],
        _ => &["NodePublishVolume", "NodeUnpublishVolume"],
    };
    for name in ["floor", "windlass-embedded"] {
        let base = base(test, name);
        fs::create_dir_all(&base)?;
        let volumes = base.join("volumes.json");
        fs::write(&volumes, r#"{"driver":"null.bench.example.com","handles":["a","b","c","d"]}"#)?;
        let volumes = volumes.to_str().ok_or("a path that is not text")?;
        let mut system = System::start(name, test, &["--csi-volumes", volumes])?;
        let (directory, registry) = (base.join("driver"), base.join("root/node/plugins_registry"));
        let arguments = [&["driver"], options].concat();
        let mut driver = Asked::start(&arguments, &[("--directory", &directory), ("--registry", &registry)])?;
        // It says when it is there.
        driver.answers.next();
        system.ask(r#"{"command":"one","count":1}"#)?;
        driver.ask(r#""settled""#)?;
        system.ask(r#"{"command":"one","count":3,"first":1}"#)?;
        let tally: BTreeMap<String, serde_json::Value> = serde_json::from_str(&driver.ask(r#""settled""#)?)?;
        assert_eq!(tally.keys().collect::<Vec<_>>(), up_and_down, "{name}");
        assert!(tally.values().all(|it| it["count"] == 3), "{name}: {tally:?}");
        assert_eq!(mounts(&base.join("root"))?, BTreeMap::new(), "{name} leaves mounts");
    }
    Ok(())
}

/// What is there, by path: type, mode, owners, and what is in it or where it leads.
fn walk(directory: &Path, base: &Path, tree: &mut BTreeMap<String, String>) -> Result<(), Failure> {
    for entry in fs::read_dir(directory)? {
        let path = entry?.path();
        let metadata = fs::symlink_metadata(&path)?;
        let what = if metadata.is_dir() {
            walk(&path, base, tree)?;
            "directory".into()
        } else if metadata.is_symlink() {
            format!("link to {}", timeless(&fs::read_link(&path)?.to_string_lossy()))
        } else {
            format!("file with {}", String::from_utf8_lossy(&fs::read(&path)?))
        };
        let (mode, user, group) = (metadata.permissions().mode(), metadata.uid(), metadata.gid());
        let name = timeless(&path.strip_prefix(base)?.to_string_lossy());
        tree.insert(name, format!("{mode:o} {user}:{group} {what}"));
    }
    Ok(())
}

/// Versions are called by the time they were made at, which is never the same.
fn timeless(path: &str) -> String {
    let part = |it: &str| match it.strip_prefix("..") {
        Some(rest) if rest.starts_with(|it: char| it.is_ascii_digit()) => "..time".to_owned(),
        _ => it.to_owned(),
    };
    path.split('/').map(part).collect::<Vec<_>>().join("/")
}

/// The mounts below a directory: their options, type and source.
fn mounts(base: &Path) -> Result<BTreeMap<String, String>, Failure> {
    let prefix = format!("{}/", base.display());
    let mut mounts = BTreeMap::new();
    for line in fs::read_to_string("/proc/self/mountinfo")?.lines() {
        // See proc_pid_mountinfo(5): what is before the hyphen is about the mount, what is after it about the file system.
        let (mount, system) = line.split_once(" - ").ok_or("a line without a hyphen")?;
        let fields: Vec<&str> = mount.split(' ').collect();
        if let Some(path) = fields.get(4).and_then(|it| it.strip_prefix(&prefix)) {
            mounts.insert(path.to_owned(), format!("{} {} - {system}", fields[3], fields[5]));
        }
    }
    Ok(mounts)
}
