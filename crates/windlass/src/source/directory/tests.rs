mod shorter;

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::symlink;
use std::sync::mpsc::{Receiver, channel};

use super::*;

/// Long enough for any machine: a test that waits in vain says so.
const LONG: Duration = Duration::from_secs(30);
const SOON: Config = Config { removal_delay: Duration::from_millis(50), orphan_delay: Duration::ZERO };

/// A watched directory of manifests, and what a node would have been told.
struct Case {
    home: tempfile::TempDir,
    source: Directory,
    given: Receiver<Give>,
    /// What a node would have by now.
    world: BTreeSet<String>,
    /// What it keeps although it was removed.
    held: Vec<String>,
    history: Vec<String>,
    /// How long the history was whenever all was said to be known, without a doubt.
    certain: Vec<usize>,
}

impl Case {
    fn new(files: &[(&str, &str)]) -> Self {
        Self::with(files, SOON)
    }

    fn with(files: &[(&str, &str)], config: Config) -> Self {
        let home = tempfile::tempdir().unwrap();
        let root = home.path().join("manifests");
        fs::create_dir(&root).unwrap();
        for (path, text) in files {
            write(&root.join(path), text);
        }
        let (sender, given) = channel();
        let give = move |give| _ = sender.send(give);
        let source = Directory::read(&root, "node-1", config).unwrap().give(Box::new(give)).unwrap();
        Self { home, source, given, world: BTreeSet::new(), held: Vec::new(), history: Vec::new(), certain: Vec::new() }
    }

    fn path(&self, path: &str) -> PathBuf {
        self.home.path().join("manifests").join(path)
    }

    fn write(&self, path: &str, text: &str) {
        write(&self.path(path), text);
    }

    /// Writes it beside its place and moves it there, as careful programs do.
    fn move_in(&self, path: &str, text: &str) {
        let beside = self.home.path().join("beside");
        write(&beside, text);
        fs::rename(beside, self.path(path)).unwrap();
    }

    /// Waits until the node has exactly this.
    fn until(&mut self, expected: &[&str]) {
        let expected: BTreeSet<String> = expected.iter().map(|it| (*it).to_owned()).collect();
        while self.world != expected {
            let Ok(give) = self.given.recv_timeout(LONG) else {
                panic!("waited in vain for {expected:?}, it is {:?}, {:#?}", self.world, self.summary())
            };
            self.take(give);
        }
    }

    fn take(&mut self, give: Give) {
        let (name, there) = match give {
            Give::Object(object) => (object.reference().name().to_owned(), true),
            Give::Pod(pod, _) => (pod.metadata.uid.clone().unwrap(), true),
            Give::PodGone(uid, _) | Give::PodReplaced(uid) => (uid.to_string(), false),
            Give::PodHeld(uid, Holding::Removed) => {
                self.history.push(format!("={uid}"));
                return self.held.push(uid.to_string());
            }
            Give::PodHeld(uid, Holding::OtherNode(text) | Holding::Conflict(text) | Holding::Rewritten(text)) => {
                return self.history.push(format!("={uid}: {text}"));
            }
            Give::PodHeld(uid, Holding::ConflictOver) => return self.history.push(format!("={uid}: over")),
            Give::Holders(_) | Give::Replaced { .. } | Give::Read(_) => return,
            Give::ObjectGone(reference, _) => (reference.name().to_owned(), false),
            // As the engine does it.
            Give::Complete(doubt) => {
                self.certain.extend(doubt.is_none().then_some(self.history.len()));
                let held = self.held.drain(..).filter(|_| doubt.is_none());
                held.for_each(|it| _ = self.world.remove(&it));
                if self.world.contains("complete") {
                    return;
                }
                ("complete".into(), true)
            }
            Give::Lost(_) => {
                if self.world.remove("complete") {
                    self.history.push("lost".into());
                }
                return;
            }
            Give::BrokenOff(text) => panic!("{text}"),
        };
        self.held.retain(|it| *it != name);
        self.history.push(format!("{}{name}", if there { '+' } else { '-' }));
        match there {
            true => _ = self.world.insert(name),
            false => _ = self.world.remove(&name),
        }
    }

    fn summary(&self) -> Summary {
        self.source.summary().now().clone()
    }

    /// Waits until the summary is as it should be.
    fn summary_until(&self, right: impl Fn(&Summary) -> bool) -> Summary {
        let mut summary = self.source.summary();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
        let waited = runtime.block_on(async { tokio::time::timeout(LONG, summary.wait_for(right)).await });
        assert!(waited.is_ok(), "waited in vain, it is {:#?}", self.summary());
        self.summary()
    }
}

fn write(path: &Path, text: &str) {
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, text).unwrap();
}

fn pod(name: &str) -> String {
    format!(
        "apiVersion: v1\nkind: Pod\nmetadata: {{name: {name}, uid: {name}}}\nspec: {{containers: [{{name: c}}]}}\n---\n"
    )
}

#[test]
fn pods_come_and_go_with_their_manifests() {
    let mut case = Case::new(&[("a.yaml", &pod("a")), ("deep/er/b.yml", &pod("b")), ("README.md", "no manifest")]);
    case.until(&["a", "b", "complete"]);
    assert_eq!(case.summary().pods.len(), 2);
    case.write("c.json", r#"{"apiVersion": "v1", "kind": "Node", "metadata": {"name": "c"}}"#);
    case.until(&["a", "b", "c", "complete"]);
    fs::remove_file(case.path("a.yaml")).unwrap();
    case.until(&["b", "c", "complete"]);
    fs::remove_dir_all(case.path("deep")).unwrap();
    case.until(&["c", "complete"]);
    case.write("deep/er/b.yml", &pod("b"));
    case.until(&["b", "c", "complete"]);
}

/// I-1.
#[test]
fn a_pod_can_move_from_one_file_to_another() {
    let mut case = Case::new(&[("1.yaml", &format!("{}{}", pod("a"), pod("b"))), ("2.yaml", &pod("c"))]);
    case.until(&["a", "b", "c", "complete"]);
    case.move_in("1.yaml", &pod("a"));
    case.summary_until(|it| it.pods.len() == 2);
    case.write("2.yaml", &format!("{}{}", pod("c"), pod("b")));
    case.summary_until(|it| it.pods.len() == 3);
    // By the time that this one is gone, the other would be.
    fs::remove_file(case.path("1.yaml")).unwrap();
    case.until(&["b", "c", "complete"]);
    assert!(!case.history.contains(&"-b".to_owned()), "{:?}", case.history);
}

/// I-1: what the file would have named, had it been written to the end, is not known.
#[test]
fn a_pod_that_moves_to_a_file_with_an_error_stays_until_it_is_mended() {
    for wrong in [format!("{}{}{{", pod("c"), pod("b")), format!("{}kind: [", pod("c")), String::new()] {
        let both = format!("{}{}", pod("a"), pod("b"));
        let mut case = Case::new(&[("1.yaml", &both), ("2.yaml", &pod("c"))]);
        case.until(&["a", "b", "c", "complete"]);
        case.move_in("2.yaml", &wrong);
        case.summary_until(|it| it.count(Severity::Error) == 1);
        case.move_in("1.yaml", &pod("a"));
        case.summary_until(|it| it.pods.len() == 2);
        // What came after the error comes and goes meanwhile.
        case.move_in("3.yaml", &pod("d"));
        case.until(&["a", "b", "c", "d", "complete"]);
        fs::remove_file(case.path("3.yaml")).unwrap();
        case.until(&["a", "b", "c", "complete"]);
        assert!(case.history.contains(&"=b".to_owned()), "{:?}", case.history);
        case.move_in("2.yaml", &format!("{}{}", pod("c"), pod("b")));
        case.summary_until(|it| it.pods.len() == 3 && it.count(Severity::Error) == 0);
        fs::remove_file(case.path("1.yaml")).unwrap();
        case.until(&["b", "c", "complete"]);
        assert!(!case.history.contains(&"-b".to_owned()), "{:?}", case.history);
    }
}

#[test]
fn without_a_delay_a_pod_goes_at_once_also_if_its_manifest_is_only_moved() {
    let mut case =
        Case::with(&[("a.yaml", &pod("a")), ("b.yaml", &pod("b"))], Config { removal_delay: Duration::ZERO, ..SOON });
    case.until(&["a", "b", "complete"]);
    fs::rename(case.path("a.yaml"), case.path("a.yaml~")).unwrap();
    case.until(&["b", "complete"]);
    fs::rename(case.path("a.yaml~"), case.path("a.yaml")).unwrap();
    case.until(&["a", "b", "complete"]);
    case.move_in("a.yaml", "{apiVersion: v1, kind: List, items: []}");
    case.until(&["b", "complete"]);
    // A new file is still waited for until it is closed.
    let file = fs::File::create(case.path("c.yaml")).unwrap();
    case.write("d.yaml", &pod("d"));
    case.until(&["b", "d", "complete"]);
    assert!(case.summary().problems.is_empty(), "{:?}", case.summary());
    drop(file);
}

/// I-1.
#[test]
fn with_a_delay_nothing_goes_before_it_is_over() {
    // As if for ever, and longer than can be added to a time.
    let mut case = Case::with(&[("a.yaml", &pod("a"))], Config { removal_delay: Duration::MAX, ..SOON });
    case.until(&["a", "complete"]);
    fs::rename(case.path("a.yaml"), case.path("a.yaml~")).unwrap();
    case.write("b.yaml", &pod("b"));
    case.until(&["a", "b", "complete"]);
    case.move_in("b.yaml", &pod("c"));
    case.until(&["a", "b", "c", "complete"]);
    assert!(!case.history.iter().any(|it| it.starts_with('-')), "{:?}", case.history);
}

const HOUR: Duration = Duration::from_secs(60 * 60);

/// A reader that is told what changed, with an hour of removal delay, and what it gives. The files that it could read are in
/// an empty directory.
fn patient_reader() -> (Reader, WatchedFiles, Receiver<Give>, tempfile::TempDir) {
    let (sender, given) = channel();
    let give = move |give| _ = sender.send(give);
    let sink: SharedSink = Arc::new(Mutex::new(Some(Box::new(give))));
    let empty = tempfile::tempdir().unwrap();
    let watched = WatchedFiles::begin(empty.path(), choice(HOUR)).unwrap();
    let reader = Reader {
        ledger: Ledger::new(Path::new("/manifests"), None),
        summary: watch::Sender::default(),
        sink: sink.clone(),
        grace: HOUR,
        orphan_delay: HOUR,
        leaving: Vec::new(),
        lost: None,
        read: watched.read(),
        let_go: LetGo::default(),
        aside: Aside::new(watched.handle(), sink),
    };
    (reader, watched, given, empty)
}

fn content(path: &str, pods: &[&str]) -> Change {
    Change::Content {
        path: path.into(),
        bytes: pods.iter().map(|it| pod(it)).collect::<String>().into_bytes(),
        origin: Origin { moved: true, ..Origin::default() },
    }
}

fn gone(path: &str, since: Instant) -> Change {
    Change::Gone { path: path.into(), since }
}

/// I-1: a pod whose removal is not believed yet is not gone because the directory was away for a moment.
#[test]
fn a_directory_that_was_lost_is_complete_again_after_what_waits_to_go() {
    let told = |reader: &mut Reader,
                watched: &mut WatchedFiles,
                given: &Receiver<Give>,
                changes: Vec<Change>|
     -> Vec<String> {
        // What the kernel has told by now is known.
        assert!(watched.now().unwrap().is_empty());
        reader.take(changes, watched);
        let told = given.try_iter().filter_map(|it| match it {
            Give::Pod(pod, _) => Some(format!("+{}", pod.metadata.uid.clone().unwrap())),
            Give::PodGone(uid, _) => Some(format!("-{uid}")),
            Give::PodHeld(uid, _) => Some(format!("={uid}")),
            Give::Complete(doubt) => {
                Some(format!("complete{}", doubt.map(|it| format!(", but {it}")).unwrap_or_default()))
            }
            Give::Lost(_) => Some("lost".into()),
            Give::Read(_) => None,
            other => panic!("{other:?}"),
        });
        told.collect()
    };
    let lost = || Change::Unreadable { path: "".into(), trouble: Trouble::BeingWritten };
    let an_hour_passes = |reader: &mut Reader| reader.leaving.iter_mut().for_each(|(at, _)| *at = Instant::now());
    for passes_meanwhile in [false, true] {
        let (mut reader, mut watched, given, _empty) = patient_reader();
        let files = vec![content("a.yaml", &["a"]), content("b.yaml", &["b"]), content("c.yaml", &["c"])];
        assert_eq!(told(&mut reader, &mut watched, &given, files), ["+a", "+b", "+c", "complete"]);
        let now = Instant::now();
        assert_eq!(told(&mut reader, &mut watched, &given, vec![gone("b.yaml", now)]), [""; 0]);
        assert_eq!(told(&mut reader, &mut watched, &given, vec![lost()]), ["lost"]);
        assert!(reader.summary.borrow().lost.is_some() && !reader.summary.borrow().complete);
        if passes_meanwhile {
            an_hour_passes(&mut reader);
            assert_eq!(told(&mut reader, &mut watched, &given, Vec::new()), ["=b"]);
            assert_eq!(told(&mut reader, &mut watched, &given, vec![gone("", now)]), ["+a", "+c"]);
            // What the kernel told of while the directory was read comes first.
            assert_eq!(told(&mut reader, &mut watched, &given, Vec::new()), ["complete"]);
        } else {
            assert_eq!(told(&mut reader, &mut watched, &given, vec![gone("", now)]), ["+a", "+c"]);
            assert!(reader.summary.borrow().lost.is_some(), "as the node knows it");
            // What it cannot read by now is told with it, and another loss in between takes its place.
            let broken = || Change::Unreadable { path: "d.yaml".into(), trouble: Trouble::BeingWritten };
            assert_eq!(told(&mut reader, &mut watched, &given, vec![lost()]), ["lost"]);
            assert_eq!(told(&mut reader, &mut watched, &given, vec![gone("", now), broken()]), ["+a", "+c"]);
            an_hour_passes(&mut reader);
            let doubt = "complete, but it may be in /manifests/d.yaml, which cannot be read";
            assert_eq!(told(&mut reader, &mut watched, &given, Vec::new()), ["=b", doubt]);
        }
        assert!(reader.summary.borrow().lost.is_none() && reader.summary.borrow().complete);
    }
}

#[test]
fn the_delay_of_a_manifest_is_also_that_of_its_pods() {
    let (mut reader, mut watched, given, _empty) = patient_reader();
    let uids = |gives: Vec<Give>| -> Vec<String> {
        let gone = gives.into_iter().filter_map(|it| if let Give::PodGone(uid, _) = it { Some(uid) } else { None });
        gone.map(|it| it.to_string()).collect()
    };
    let now = Instant::now();
    let Some(before) = now.checked_sub(HOUR) else { return eprintln!("skipped: this machine has just started") };
    let files = vec![content("1.yaml", &["a"]), content("2.yaml", &["b"]), content("3.yaml", &["c", "d"])];
    reader.take(files, &watched);
    assert_eq!(uids(given.try_iter().collect()), [""; 0]);
    // The first was missed an hour ago and has no more to wait; the second just now, and so has what left the third.
    reader.take(vec![gone("1.yaml", before), gone("2.yaml", now), content("3.yaml", &["c"])], &watched);
    assert_eq!(uids(given.try_iter().collect()), [""; 0], "it may be in a file of which the kernel has told by now");
    assert!(watched.now().unwrap().is_empty());
    reader.take(Vec::new(), &watched);
    assert_eq!(uids(given.try_iter().collect()), ["a"]);
    // What left one file is in another by the time that it is believed.
    reader.take(vec![gone("3.yaml", before), content("4.yaml", &["c"])], &watched);
    assert_eq!(uids(given.try_iter().collect()), [""; 0]);
    assert_eq!(reader.leaving.len(), 2);
}

/// I-1.
#[test]
fn nothing_goes_while_there_is_a_file_of_which_nothing_is_known() {
    let mut case = Case::new(&[("a.yaml", &pod("a")), ("b.yaml", &pod("b"))]);
    case.until(&["a", "b", "complete"]);
    case.write("b.yaml", "kind: [");
    case.summary_until(|it| it.count(Severity::Error) == 1);
    fs::rename(case.path("b.yaml"), case.path("c.yaml")).unwrap();
    fs::remove_file(case.path("a.yaml")).unwrap();
    case.summary_until(|it| it.pods.is_empty());
    case.write("d.yaml", &pod("d"));
    case.until(&["a", "b", "d", "complete"]);
    // What had an error when it was renamed may name it still.
    while case.held.is_empty() || !case.history.iter().any(|it| it.starts_with("=b: ")) {
        let give = case.given.recv_timeout(LONG).unwrap();
        case.take(give);
    }
    assert_eq!(case.world.len(), 4, "{:?}", case.world);
    case.write("c.yaml", &pod("b"));
    case.until(&["b", "d", "complete"]);
    assert!(!case.history.contains(&"-b".to_owned()), "{:?}", case.history);
}

/// A sink that fails as a defect would when it is given this pod, and what it is told afterwards.
fn breaking(uid: &'static str) -> (Sink, Receiver<Give>) {
    let (sender, told) = channel();
    let sink = move |give: Give| match &give {
        Give::Pod(pod, _) if pod.metadata.uid.as_deref() == Some(uid) => panic!("on purpose"),
        Give::BrokenOff(_) => _ = sender.send(give),
        _ => {}
    };
    (Box::new(sink), told)
}

/// Otherwise the daemon would seem to be well, and never notice another manifest.
#[test]
fn a_reader_that_breaks_off_tells_the_node() {
    let home = tempfile::tempdir().unwrap();
    write(&home.path().join("a.yaml"), &pod("a"));
    let (sink, told) = breaking("b");
    let source = Directory::read(home.path(), "node-1", SOON).unwrap().give(sink).unwrap();
    write(&home.path().join("b.yaml"), &pod("b"));
    let text = "the thread windlass-source, which reads manifests, broke off: on purpose";
    assert_eq!(told.recv_timeout(LONG), Ok(Give::BrokenOff(text.into())));
    drop(source);
    assert!(told.recv_timeout(LONG).is_err(), "it is told once");
}

#[test]
fn a_thread_that_reads_aside_and_breaks_off_tells_the_node() {
    let (sink, told) = breaking("none");
    let sink: SharedSink = Arc::new(Mutex::new(Some(sink)));
    begin("windlass-parse", sink.clone(), || panic!("on purpose")).unwrap();
    let text = "the thread windlass-parse, which reads manifests, broke off: on purpose";
    assert_eq!(told.recv_timeout(LONG), Ok(Give::BrokenOff(text.into())));
    // Whoever let go of the source hears no more of it.
    sink.lock().unwrap().take();
    begin("windlass-parse", sink, || panic!("on purpose")).unwrap();
    assert!(told.recv_timeout(LONG).is_err());
}

/// As many objects as one file may hold.
fn costly() -> String {
    let map = |it: usize| format!("--- {{apiVersion: v1, kind: ConfigMap, metadata: {{name: m{it}}}}}\n");
    (0..2_000).map(map).collect()
}

#[test]
fn a_costly_file_does_not_delay_others() {
    let mut case = Case::new(&[("a.yaml", &pod("a"))]);
    case.until(&["a", "complete"]);
    let costly = costly();
    assert!(costly.len() > COSTLY);
    case.write("costly.yaml", &costly);
    case.write("b.yaml", &pod("b"));
    while case.history.last().is_none_or(|it| it != "+b") {
        let give = case.given.recv_timeout(LONG).unwrap();
        case.take(give);
    }
    assert!(!case.world.contains("m0"), "it is being read still");
    case.summary_until(|it| it.objects == 2_000);
    // What takes its place meanwhile is newer.
    case.move_in("costly.yaml", &(costly + &pod("late")));
    case.move_in("costly.yaml", &pod("c"));
    let summary = case.summary_until(|it| it.objects == 0 && it.pods.len() == 3);
    assert!(summary.problems.is_empty(), "{:?}", summary.problems);
    case.until(&["a", "b", "c", "complete"]);
    assert!(!case.world.contains("late"));
}

/// I-1. What left one file may be in the one that is being read.
#[test]
fn nothing_goes_while_a_costly_file_is_being_read() {
    let mut case = Case::new(&[("a.yaml", &pod("a")), ("b.yaml", &pod("b"))]);
    case.until(&["a", "b", "complete"]);
    case.write("costly.yaml", &(costly() + "---\n" + &pod("a")));
    fs::remove_file(case.path("a.yaml")).unwrap();
    case.summary_until(|it| it.objects == 2_000 && it.pods.len() == 2 && it.problems.is_empty());
    fs::remove_file(case.path("costly.yaml")).unwrap();
    case.until(&["b", "complete"]);
    let gone = case.history.iter().filter(|it| *it == "-a").count();
    assert_eq!(gone, 1, "once, with the last file that had it");
}

/// I-1: it may have been moved there, or somebody made a mistake.
#[test]
fn a_pod_that_is_edited_to_be_on_another_node_is_held() {
    let mut case = Case::new(&[("a.yaml", &pod("a")), ("b.yaml", &pod("b"))]);
    case.until(&["a", "b", "complete"]);
    case.write("a.yaml", &pod("a").replace("containers:", "nodeName: node-2, containers:"));
    let summary = case.summary_until(|it| it.pods.len() == 1);
    assert_eq!((summary.problems.len(), summary.count(Severity::Warning)), (1, 1));
    case.write("a.yaml", &pod("a").replace("containers:", "nodeName: node-1, containers:"));
    case.summary_until(|it| it.pods.len() == 2);
    case.write("a.yaml", &pod("a").replace("containers:", "nodeName: node-2, containers:"));
    case.summary_until(|it| it.pods.len() == 1);
    fs::remove_file(case.path("b.yaml")).unwrap();
    case.until(&["a", "complete"]);
    let text = format!(
        "=a: {}:4: spec.nodeName: it is for the node \"node-2\"; this is \"node-1\", so it is not in force",
        case.path("a.yaml").display()
    );
    assert_eq!(case.history, ["+a", "+b", "+complete", &text, "+a", &text, "-b"]);
}

#[test]
fn editors_can_save_as_they_like() {
    let mut case = Case::new(&[("a.yaml", &pod("a"))]);
    case.until(&["a", "complete"]);
    // vim: tries the directory, moves the file away, writes anew, removes the old one.
    case.write("4913", "");
    fs::remove_file(case.path("4913")).unwrap();
    case.write(".a.yaml.swp", "kind: [");
    fs::rename(case.path("a.yaml"), case.path("a.yaml~")).unwrap();
    case.write("a.yaml", &(pod("a") + &pod("b")));
    fs::remove_file(case.path("a.yaml~")).unwrap();
    case.until(&["a", "b", "complete"]);
    // emacs and sed: a file beside it is moved over it.
    case.write("#a.yaml#", "kind: [");
    case.write("sedUbQrtz", &(pod("a") + &pod("c")));
    fs::rename(case.path("sedUbQrtz"), case.path("a.yaml")).unwrap();
    case.until(&["a", "c", "complete"]);
    // nano and cp: in place.
    case.write("a.yaml", &(pod("a") + &pod("b") + &pod("c")));
    case.until(&["a", "b", "c", "complete"]);
    assert!(!case.history.contains(&"-a".to_owned()), "{:?}", case.history);
    assert!(case.summary().problems.is_empty());
}

/// I-1.
#[test]
fn a_broken_file_keeps_what_it_had_and_a_mended_one_makes_it_complete() {
    let mut case = Case::new(&[("a.yaml", &pod("a")), ("b.yaml", "kind: [\n")]);
    case.until(&["a"]);
    let summary = case.summary();
    assert!(!summary.complete);
    assert_eq!(summary.problems[0].path, case.path("b.yaml").display().to_string());
    case.write("b.yaml", &pod("b"));
    case.until(&["a", "b", "complete"]);
    case.write("b.yaml", &pod("b")[..20]);
    case.summary_until(|it| it.problems.len() == 1);
    case.move_in("b.yaml", &pod("c"));
    case.until(&["a", "c", "complete"]);
    assert!(case.summary().problems.is_empty());
}

/// As the volume of a config map is written.
#[test]
fn a_directory_that_kubernetes_keeps_current_can_be_the_source() {
    let home = tempfile::tempdir().unwrap();
    let root = home.path().join("manifests");
    write(&root.join("..2026_1/a.yaml"), &pod("a"));
    symlink("..2026_1", root.join("..data")).unwrap();
    symlink("..data/a.yaml", root.join("a.yaml")).unwrap();
    let (sender, given) = channel();
    let give = move |give| _ = sender.send(give);
    let source = ReadDirectory::read(&root, None, SOON).unwrap().give(Box::new(give)).unwrap();
    let mut case = Case {
        home,
        source,
        given,
        world: BTreeSet::new(),
        held: Vec::new(),
        history: Vec::new(),
        certain: Vec::new(),
    };
    case.until(&["a", "complete"]);
    case.write("..2026_2/a.yaml", &(pod("a") + &pod("b")));
    symlink("..2026_2", case.path("..data_tmp")).unwrap();
    fs::rename(case.path("..data_tmp"), case.path("..data")).unwrap();
    fs::remove_dir_all(case.path("..2026_1")).unwrap();
    case.until(&["a", "b", "complete"]);
    assert_eq!(case.history, ["+a", "+complete", "+b"]);
}

/// I-1.
#[test]
fn a_directory_that_is_away_takes_nothing_away() {
    let mut case = Case::new(&[("a.yaml", &pod("a"))]);
    case.until(&["a", "complete"]);
    let aside = case.home.path().join("aside");
    fs::rename(case.path(""), &aside).unwrap();
    let problems = case.summary_until(|it| !it.problems.is_empty()).problems;
    assert_eq!(problems[0].path, case.home.path().join("manifests").display().to_string());
    write(&aside.join("b.yaml"), &pod("b"));
    fs::rename(&aside, case.path("")).unwrap();
    case.until(&["a", "b", "complete"]);
    // A process that was begun meanwhile may have inherited the new file, and then it is still being written to.
    let history: Vec<&str> = case.history.iter().map(String::as_str).filter(|it| *it != "+b").collect();
    assert_eq!(history, ["+a", "+complete", "lost", "+a", "+complete"]);
    let at = |what: &str| case.history.iter().position(|it| it == what).unwrap();
    let is_early = |it: &usize| (at("lost")..=at("+b")).contains(it);
    assert!(!case.certain.iter().any(is_early), "not certain before it was read: {:?}", case.history);
}

/// I-1. As `git clone` makes it: at first it is empty, then one file comes after the other, and it may be killed any time.
#[test]
fn a_directory_that_is_cloned_anew_takes_nothing_away_until_all_is_back() {
    let mut case = Case::new(&[("a.yaml", &pod("a")), ("b.yaml", &pod("b"))]);
    case.until(&["a", "b", "complete"]);
    fs::remove_dir_all(case.path("")).unwrap();
    case.write("a.yaml", &pod("a"));
    let lost = case.summary_until(|it| it.problems.iter().any(|it| it.message.contains("b.yaml"))).problems;
    assert_eq!(
        lost[0].message,
        "this is another directory than before, and b.yaml is not in it: put back what was there; what was \
         read there stays in force. If it is gone for good, let its pods go (windlass delete pod), or start anew"
    );
    case.source.reread();
    case.write("b.yaml", &(pod("b") + &pod("c")));
    case.until(&["a", "b", "c", "complete"]);
    case.summary_until(|it| it.problems.is_empty());
    // The new pod may be read on the way or after all that was there before: its file is written in place.
    let history: Vec<&str> = case.history.iter().map(String::as_str).filter(|it| *it != "+c").collect();
    assert_eq!(history, ["+a", "+b", "+complete", "lost", "+a", "+b", "+complete"]);
    // Now it is the directory, and what is removed from it is removed.
    fs::remove_file(case.path("a.yaml")).unwrap();
    case.until(&["b", "c", "complete"]);
}

#[test]
fn a_directory_that_is_moved_into_place_is_meant() {
    let mut case = Case::new(&[("a.yaml", &pod("a"))]);
    case.until(&["a", "complete"]);
    let new = case.home.path().join("new");
    write(&new.join("c.yaml"), &pod("c"));
    fs::rename(case.path(""), case.home.path().join("old")).unwrap();
    fs::rename(&new, case.path("")).unwrap();
    case.until(&["c", "complete"]);
    case.summary_until(|it| it.problems.is_empty());
    let first = case.history.iter().position(|it| it == "-a").unwrap();
    assert!(first > case.history.iter().position(|it| it == "+c").unwrap(), "{:?}", case.history);
}

#[test]
fn a_conflict_lasts_until_one_of_the_two_is_removed() {
    let mut case = Case::new(&[
        ("a.yaml", &pod("a")),
        ("b.yaml", &pod("a").replace("containers:", "nodeName: node-1, containers:")),
    ]);
    case.until(&["a", "complete"]);
    assert_eq!(case.summary().count(Severity::Error), 1);
    fs::remove_file(case.path("a.yaml")).unwrap();
    let summary = case.summary_until(|it| it.problems.is_empty());
    assert_eq!(summary.pods.len(), 1, "the other took over");
}

#[test]
fn a_directory_that_is_not_there_is_refused_by_name() {
    let home = tempfile::tempdir().unwrap();
    let error = ReadDirectory::read(&home.path().join("x"), None, SOON).unwrap_err();
    assert!(matches!(&error, Error::Unreadable { path, .. } if path.ends_with("x")), "{error}");
    write(&home.path().join("file"), "");
    assert!(ReadDirectory::read(&home.path().join("file"), None, SOON).is_err());
    assert!(check(&home.path().join("x")).is_err());
}

/// I-8.
#[test]
fn nothing_happens_while_nothing_changes() {
    let home = tempfile::tempdir().unwrap();
    let root = home.path().join("manifests");
    write(&root.join("deep/a.yaml"), &pod("a"));
    let (sender, given) = channel();
    let give = move |_| _ = sender.send(rustix::thread::gettid());
    let _source = ReadDirectory::read(&root, None, SOON).unwrap().give(Box::new(give)).unwrap();
    write(&root.join("b.yaml"), &pod("b"));
    let here = rustix::thread::gettid();
    // The first is given by whoever began, the rest by the thread that watches.
    let mut watcher = here;
    while watcher == here {
        watcher = given.recv_timeout(LONG).unwrap();
    }
    let wake_ups = || -> u64 {
        let status = fs::read_to_string(format!("/proc/self/task/{}/status", watcher.as_raw_nonzero())).unwrap();
        let count = status.lines().find_map(|it| it.strip_prefix("voluntary_ctxt_switches:")).unwrap();
        count.trim().parse().unwrap()
    };
    let before = wake_ups();
    // What is beside the directory or is no manifest's business wakes nobody.
    for turn in 0..500 {
        write(&home.path().join(format!("neighbor-{turn}")), "");
        fs::read(root.join("b.yaml")).unwrap();
    }
    assert!(given.recv_timeout(Duration::from_millis(500)).is_err(), "nothing is given");
    let woke = wake_ups() - before;
    // It may still have been on its way to sleep, and have been put off while it was.
    assert!(woke <= 3, "it woke {woke} times");
}

#[test]
fn one_file_can_be_checked_whatever_it_is_called() {
    let home = tempfile::tempdir().unwrap();
    let path = home.path().join("manifest");
    write(&path, "apiVersion: v1\nkind: Pod\nmetadata:\n  name: a\nspec:\n  containers: []\n  volume: []\n");
    let summary = check(&path).unwrap();
    assert_eq!((summary.files, summary.pods.len()), (1, 1));
    let told: Vec<_> = summary.problems.iter().map(|it| (it.line, it.message.as_str())).collect();
    assert_eq!(told[1], (Some(7), "spec.volume: there is no such field, so it is ignored; did you mean volumes?"));
}

#[test]
fn names_of_temporary_files_are_passed_over() {
    for name in ["a.yaml", "a.yml", "a.json", "a.b.yaml", "#a.yaml"] {
        assert!(is_manifest(OsStr::new(name)), "{name}");
    }
    for name in
        [".a.yaml", "..data", "a.yaml~", "a.yaml.swp", "a.yaml.tmp", "#a.yaml#", "4913", "a.txt", "yaml", "a.yaml.bak"]
    {
        assert!(!is_manifest(OsStr::new(name)), "{name}");
    }
}

/// A manifest that is renamed so goes as if it were removed, and whoever did it is told why.
#[test]
fn a_name_in_capitals_is_not_read_and_that_is_told() {
    let warning = |name: &str, summary: &Summary| {
        let of_it = summary.problems.iter().filter(|it| it.path.ends_with(name));
        of_it.map(|it| format!("{:?} {}", it.severity, it.message)).collect::<Vec<_>>()
    };
    let told = "Warning it is not read: the name of a manifest ends in .yaml, .yml or .json, in small letters";
    let mut case = Case::new(&[("web.yaml", &pod("web")), ("A.Json", "")]);
    for name in ["a.yaml.bak", ".B.YAML", "C.YAML~", "#D.YAML#"] {
        case.write(name, &pod("passed-over"));
    }
    case.until(&["web", "complete"]);
    assert_eq!(warning("A.Json", &case.summary()), [told]);
    fs::rename(case.path("web.yaml"), case.path("WEB.YAML")).unwrap();
    case.until(&["complete"]);
    let summary = case.summary_until(|it| it.problems.len() == 2);
    assert_eq!(warning("WEB.YAML", &summary), [told]);
    assert_eq!(check(&case.path("")).unwrap().problems.len(), 2);
    fs::rename(case.path("WEB.YAML"), case.path("web.yaml")).unwrap();
    case.until(&["web", "complete"]);
    fs::remove_file(case.path("A.Json")).unwrap();
    case.summary_until(|it| it.problems.is_empty());
}

/// I-1: a reader that does not run for a while hears of what has come in the meantime only after it knows what went.
#[test]
fn what_moved_while_the_reader_did_not_run_is_not_gone() {
    let home = tempfile::tempdir().unwrap();
    write(&home.path().join("one.yaml"), &pod("web"));
    let (sender, given) = channel();
    let give: Sink = Box::new(move |give| _ = sender.send(give));
    let sink = Arc::new(Mutex::new(Some(give)));
    let config = Config { removal_delay: Duration::ZERO, ..SOON };
    let (mut reader, mut files) = Directory::read(home.path(), "node-1", config).unwrap().reader(sink);
    fs::rename(home.path().join("one.yaml"), home.path().join("aside")).unwrap();
    let gone = files.changes(None).unwrap().unwrap();
    assert!(matches!(&gone[..], [Change::Gone { .. }]), "{gone:?}");
    fs::rename(home.path().join("aside"), home.path().join("two.yaml")).unwrap();
    reader.take(gone, &files);
    let come = files.changes(None).unwrap().unwrap();
    reader.take(come, &files);
    let went: Vec<Give> = given.try_iter().filter(|it| matches!(it, Give::PodGone(..))).collect();
    assert!(went.is_empty(), "{} went", went.len());
}
