use std::sync::atomic::{AtomicU64, Ordering};

use k8s_openapi::api::core::v1::Pod;
use proptest::prelude::*;

use super::*;

/// A ledger, and what it told a node.
struct Case {
    ledger: Ledger,
    summary: Summary,
    /// What the node has by now: `kind name: value`.
    world: BTreeMap<String, String>,
    /// Pods that it was told to hold, and why.
    held: BTreeMap<String, Holding>,
    complete: bool,
    /// What is not known, as it was told last.
    doubt: Option<Arc<str>>,
    /// What would be kept for the next start.
    kept: Vec<u8>,
}

impl Case {
    fn new() -> Self {
        let ledger = Ledger::new(Path::new("/m"), Some("node-1"));
        let (summary, world, held) = (Summary::default(), BTreeMap::new(), BTreeMap::new());
        Self { ledger, summary, world, held, complete: false, doubt: None, kept: Vec::new() }
    }

    fn with(files: &[(&str, &str)]) -> Self {
        let mut case = Self::new();
        for (path, text) in files {
            case.ledger.content(Path::new(path), text.as_bytes(), origin(false));
        }
        case.settle();
        case
    }

    /// A file is moved into place; tells what the node was told.
    fn write(&mut self, path: &str, text: &str) -> Vec<String> {
        self.ledger.content(Path::new(path), text.as_bytes(), origin(true));
        self.settle()
    }

    /// A file is written in place; tells what the node was told.
    fn write_in_place(&mut self, path: &str, text: &str) -> Vec<String> {
        self.ledger.content(Path::new(path), text.as_bytes(), origin(false));
        self.settle()
    }

    fn remove(&mut self, path: &str) -> Vec<String> {
        self.ledger.gone(Path::new(path));
        self.settle()
    }

    fn settle(&mut self) -> Vec<String> {
        let (gives, _) = self.ledger.settle(&mut self.summary);
        let told = gives.into_iter().map(|it| self.take(it)).filter(|it| it != "holders" && it != "doubt");
        told.collect()
    }

    fn take(&mut self, give: Give) -> String {
        match give {
            Give::Object(object) => {
                let text = format!("{} = {}", object.reference(), value(&object));
                self.world.insert(object.reference().to_string(), value(&object));
                text
            }
            Give::Pod(pod, _) => {
                let uid = pod.metadata.uid.clone().unwrap();
                let text = format!("{} {}", pod.metadata.name.as_ref().unwrap(), label(&pod));
                self.held.remove(&uid);
                self.world.insert(format!("Pod {uid}"), text.clone());
                format!("pod {uid} = {text}")
            }
            Give::PodGone(uid, _) | Give::PodReplaced(uid) => {
                assert!(self.world.remove(&format!("Pod {uid}")).is_some(), "{uid} was there");
                format!("pod {uid} gone")
            }
            Give::ObjectGone(reference, doubt) => {
                assert!(self.world.remove(&reference.to_string()).is_some(), "{reference} was there");
                format!("{reference} gone{}", if doubt.is_some() { "?" } else { "" })
            }
            Give::PodHeld(uid, holding) => {
                self.world.remove(&format!("Pod {uid}"));
                self.held.insert(uid.to_string(), holding.clone());
                format!("pod {uid} held: {holding:?}")
            }
            Give::Holders(holders) => {
                self.kept = holders.text();
                "holders".into()
            }
            Give::Replaced { meant } => {
                format!("replaced, {}", if meant { "as somebody meant" } else { "by accident" })
            }
            Give::Read(_) => unreachable!("nobody is told here how often files are read"),
            Give::BrokenOff(text) => panic!("{text}"),
            Give::Complete(doubt) => {
                let is_news = !std::mem::replace(&mut self.complete, true);
                self.doubt = doubt;
                if is_news { "complete".into() } else { "doubt".into() }
            }
            Give::Lost(why) => {
                self.complete = false;
                format!("lost: {why}")
            }
        }
    }

    /// The time is over after which objects are gone, though that may be an accident.
    fn believe_all(&mut self) {
        for reference in self.ledger.doubted.keys().cloned().collect::<Vec<_>>() {
            self.ledger.believe(&reference);
        }
        assert!(self.ledger.tell_problems(&mut self.summary));
    }

    fn problems(&self) -> Vec<String> {
        let tell = |it: &Problem| {
            let line = it.line.map(|it| format!(":{it}")).unwrap_or_default();
            let object = it.object.as_ref().map(|it| format!("{it}: ")).unwrap_or_default();
            format!("{:?} {}{line}: {object}{}", it.severity, it.path, it.message)
        };
        self.summary.problems.iter().map(tell).collect()
    }

    fn pods(&self) -> Vec<&str> {
        self.summary.pods.iter().map(|it| it.name.as_str()).collect()
    }
}

/// A file that is written or moved into place, and none that was there before.
fn origin(moved: bool) -> Origin {
    static COUNT: AtomicU64 = AtomicU64::new(0);
    let file = ((0, 0), COUNT.fetch_add(1, Ordering::Relaxed));
    Origin { moved, file, ..Origin::default() }
}

fn value(object: &Object) -> String {
    match object {
        Object::ConfigMap(map) => map.data.as_ref().and_then(|it| it.get("k")).cloned().unwrap_or_default(),
        Object::Node(_) => "node".into(),
        _ => "object".into(),
    }
}

fn label(pod: &Pod) -> String {
    pod.metadata.labels.as_ref().and_then(|it| it.get("v")).cloned().unwrap_or_default()
}

fn map(name: &str, value: &str) -> String {
    format!("---\n{{apiVersion: v1, kind: ConfigMap, metadata: {{name: {name}}}, data: {{k: \"{value}\"}}}}\n")
}

fn pod(name: &str, uid: &str, value: &str) -> String {
    let uid = if uid.is_empty() { String::new() } else { format!(", uid: {uid}") };
    format!(
        "---\n{{apiVersion: v1, kind: Pod, metadata: {{name: {name}, labels: {{v: \"{value}\"}}{uid}}}, \
         spec: {{containers: [{{name: c}}]}}}}\n"
    )
}

const NODE: &str = "---\n{apiVersion: v1, kind: Node, metadata: {name: node-1}}\n";

#[test]
fn the_node_is_told_in_an_order_in_which_no_pod_sees_a_world_that_never_was() {
    let mut case = Case::new();
    let all = pod("a", "1", "x") + &map("m", "1") + NODE;
    assert_eq!(
        case.write("f.yaml", &all),
        ["Node node-1 = node", "ConfigMap default/m = 1", "pod 1 = a x", "complete"]
    );
    let next = pod("b", "2", "y") + &map("n", "2") + NODE;
    assert_eq!(
        case.write("f.yaml", &next),
        ["ConfigMap default/n = 2", "pod 2 = b y", "pod 1 gone", "ConfigMap default/m gone"]
    );
    assert_eq!((case.summary.files, case.summary.objects, case.pods()), (1, 2, vec!["default/b"]));
}

/// I-1: what the one in force has on disk is not to become nobody's because the process was started again.
#[test]
fn who_wins_a_conflict_wins_it_after_a_restart() {
    let files = [
        ("a.yaml", pod("web", "1", "from a") + &map("m", "from a") + &pod("other", "3", "from a")),
        ("b.yaml", pod("web", "2", "from b") + &map("m", "from b") + &pod("db", "3", "from b")),
    ];
    let mut case = Case::with(&[("b.yaml", &files[1].1)]);
    let outdone = r#"pod 1 held: Conflict("/m/a.yaml:2 names it, and /m/b.yaml:2 another Pod default/web")"#;
    assert_eq!(case.write("a.yaml", &files[0].1), [outdone]);
    assert!(!case.kept.is_empty());
    let world = case.world.clone();
    for start in 0..3 {
        let mut again = Case::new();
        again.ledger.recall(Holders::parse(Path::new("/m"), &case.kept));
        // Whatever is read first, and also if the one that was in force cannot be read at first.
        if start == 2 {
            again.ledger.content(Path::new("b.yaml"), b"kind: [", origin(false));
            again.ledger.content(Path::new("a.yaml"), files[0].1.as_bytes(), origin(false));
            assert_eq!(again.settle(), [""; 0]);
        }
        for (path, text) in &files {
            again.ledger.content(Path::new(path), text.as_bytes(), origin(false));
        }
        again.settle();
        assert_eq!(again.world, world);
        assert!(again.kept.is_empty(), "nothing changed");
    }
    // Of another directory it says nothing.
    let mut other = Case::new();
    other.ledger.recall(Holders::parse(Path::new("/n"), &case.kept));
    assert_eq!(other.write("a.yaml", &files[0].1).len(), 4);
    case.remove("a.yaml");
    assert_eq!(Holders::parse(Path::new("/m"), &case.kept), Holders::parse(Path::new("/m"), b""));
}

#[test]
fn what_did_not_change_is_not_told_again() {
    let mut case = Case::with(&[("f.yaml", &(pod("a", "1", "x") + &map("m", "1") + &map("n", "1")))]);
    assert_eq!(
        case.write("f.yaml", &("# a comment\n".to_owned() + &map("n", "2") + &map("m", "1") + &pod("a", "1", "x"))),
        ["ConfigMap default/n = 2"]
    );
    assert_eq!(case.write("g.yaml", ""), [""; 0]);
    assert_eq!(case.doubt.as_deref(), Some("it may be in /m/g.yaml, which cannot be read"));
    assert_eq!(case.remove("f.yaml"), ["pod 1 gone", "ConfigMap default/m gone", "ConfigMap default/n gone"]);
    assert_eq!(case.remove("f.yaml"), [""; 0]);
}

/// I-1: what is held may be in the version that is not in force, as where somebody has just put it back.
#[test]
fn while_a_file_has_an_error_there_is_doubt() {
    let good = pod("a", "1", "x") + &map("m", "1");
    let mut case = Case::with(&[("f.yaml", &good)]);
    for wrong in ["", "{", "nonsense", &pod("a", "1", "x")] {
        assert_eq!(case.write_in_place("f.yaml", wrong), [""; 0], "{wrong}");
        assert_eq!(case.doubt.as_deref(), Some("it may be in /m/f.yaml, which has an error"), "{wrong}");
        case.write_in_place("f.yaml", &good);
        assert_eq!(case.doubt, None, "{wrong}");
    }
    case.write_in_place("f.yaml", "{");
    case.remove("f.yaml");
    assert_eq!(case.doubt, None, "it is gone");
}

/// I-1: a text that is not in force may be the beginning of one that names the pod, so it does not matter what it names.
#[test]
fn a_pod_that_leaves_while_a_newer_text_has_an_error_may_be_on_its_way_there() {
    for wrong in ["{", "", &pod("z", "9", "x")] {
        let mut case = Case::with(&[("f.yaml", &pod("a", "1", "x")), ("g.yaml", &map("m", "1"))]);
        case.write_in_place("g.yaml", wrong);
        assert_eq!(case.summary.count(Severity::Error), 1, "{wrong}");
        case.write("later.yaml", &pod("b", "2", "x"));
        case.ledger.gone(Path::new("f.yaml"));
        case.ledger.gone(Path::new("later.yaml"));
        let (gives, _) = case.ledger.settle(&mut case.summary);
        let mut departed = gives.into_iter().filter_map(|it| match it {
            Give::PodGone(uid, departed) => Some((uid, departed)),
            _ => None,
        });
        let (_, a) = departed.next().unwrap();
        let (_, b) = departed.next().unwrap();
        assert_eq!(case.ledger.holding(&a), Some(Holding::Removed), "{wrong}");
        assert_eq!(case.ledger.holding(&b), None, "{wrong}: it came after that");
        case.write("g.yaml", &map("m", "2"));
        assert_eq!(case.ledger.holding(&a), None, "{wrong}: it was put right");
    }
}

/// I-1: a writer that wanted other pods before the last one, and was interrupted after what was the last one before, leaves
/// what looks like a removal from the middle.
#[test]
fn a_pod_that_is_missing_in_a_file_written_in_place_may_be_one_that_its_writer_did_not_come_to() {
    let (a, b, c) = (pod("a", "1", "x"), pod("b", "2", "x"), pod("c", "3", "x"));
    let good = [&*a, &b, &c].concat();
    let departed = |case: &mut Case, moved: bool, text: &str| {
        case.ledger.content(Path::new("f.yaml"), text.as_bytes(), origin(moved));
        let (gives, _) = case.ledger.settle(&mut case.summary);
        let departed = gives.into_iter().filter_map(|it| match it {
            Give::PodGone(uid, departed) => Some((uid.to_string(), case.ledger.holding(&departed))),
            _ => None,
        });
        departed.collect::<Vec<_>>()
    };
    let text = "/m/f.yaml was written in place without it, which an interrupted writer can leave too";
    let held = Some(Holding::Rewritten(text.into()));
    let mut case = Case::with(&[("f.yaml", &good)]);
    assert_eq!(departed(&mut case, false, &c), [("1".into(), held.clone()), ("2".into(), held)]);
    assert_eq!(case.problems(), [""; 0]);
    // Where it is known that the writer came to the end, it is a wish.
    let mut case = Case::with(&[("f.yaml", &good)]);
    assert_eq!(departed(&mut case, true, &c), [("1".into(), None), ("2".into(), None)]);
    let mut case = Case::with(&[("f.yaml", &good)]);
    assert_eq!(departed(&mut case, false, &(c.clone() + "...\n")), [("1".into(), None), ("2".into(), None)]);
    // What another file has is not missing, and what was put back and removed with the file is a wish.
    let mut case = Case::with(&[("f.yaml", &good), ("g.yaml", &a)]);
    assert_eq!(departed(&mut case, false, &[&*b, &c].concat()), []);
    departed(&mut case, false, &c);
    departed(&mut case, false, &[&*b, &c].concat());
    case.ledger.gone(Path::new("f.yaml"));
    let (gives, _) = case.ledger.settle(&mut case.summary);
    assert!(
        gives
            .iter()
            .any(|it| matches!(it, Give::PodGone(uid, Departed { rewritten: None, .. }) if uid.as_str() == "2"))
    );
}

/// I-1.
#[test]
fn the_last_good_version_stays_in_force() {
    let good = pod("a", "1", "x") + &map("m", "1");
    let mut case = Case::with(&[("f.yaml", &good)]);
    let torn = &good[..good.len() - 5];
    let invalid = good.clone() + "---\n{apiVersion: v1, kind: Pod, metadata: {name: b}}\n";
    for bad in [torn, &invalid, "\u{0}", "kind: [\n"] {
        assert_eq!(case.write("f.yaml", bad), [""; 0], "{bad}");
        assert_eq!(case.summary.count(Severity::Error), 1, "{bad}");
        assert_eq!((case.summary.files, case.summary.complete), (1, true));
    }
    case.write("f.yaml", &invalid);
    assert_eq!(case.problems()[0], "Error /m/f.yaml:6: Pod default/b: spec: it is missing");
    case.ledger.unreadable(Path::new("f.yaml"), "it cannot be read");
    assert_eq!(case.settle(), [""; 0]);
    assert_eq!(case.problems(), ["Error /m/f.yaml: it cannot be read; its last good version stays in force"]);
    assert_eq!(case.write("f.yaml", &map("m", "2")), ["ConfigMap default/m = 2", "pod 1 gone"]);
    assert_eq!(case.problems(), [""; 0]);
}

const BLANK: [&str; 6] = ["", "\n", " \n# nothing\n", "---\n", "---\n---\n...\n", "null\n"];

/// I-1. As a full disk, `truncate` and a writer that was killed leave it.
#[test]
fn a_file_that_says_nothing_is_no_wish() {
    for blank in BLANK {
        let mut case = Case::with(&[("f.yaml", &(pod("a", "1", "x") + &map("m", "1")))]);
        assert_eq!(case.write(" g.yaml", &map("n", "1")), ["ConfigMap default/n = 1"]);
        for moved in [false, true, false] {
            case.ledger.content(Path::new("f.yaml"), blank.as_bytes(), origin(moved));
            assert_eq!(case.settle(), [""; 0], "{blank:?}");
            assert_eq!(
                case.problems(),
                [
                    "Error /m/f.yaml: it says nothing, as files do whose writer was interrupted or found the disk full; its last \
                  good version stays in force; if that is meant, write `{apiVersion: v1, kind: List, items: []}`, or remove it"
                ]
            );
        }
        assert!(case.ledger.is_whole(), "what it said is known");
        assert_eq!(case.write_in_place("f.yaml", &(pod("a", "1", "y") + &map("m", "1"))), ["pod 1 = a y"]);
        assert_eq!(case.problems(), [""; 0]);
    }
    // At the start nothing is known of what it said.
    for blank in BLANK {
        let mut case = Case::with(&[("f.yaml", blank), ("g.yaml", &map("n", "1"))]);
        assert!(!case.complete && !case.ledger.is_whole(), "{blank:?}");
        assert_eq!(
            case.problems(),
            [
                "Error /m/f.yaml: it says nothing, as files do whose writer was interrupted or found the disk full; if that is \
              meant, write `{apiVersion: v1, kind: List, items: []}`, or remove it"
            ]
        );
        assert_eq!(case.remove("f.yaml"), ["complete"]);
    }
}

#[test]
fn a_list_that_says_it_is_empty_is_a_wish() {
    for empty in [
        "{apiVersion: v1, kind: List, items: []}",
        "apiVersion: v1\nkind: List\nitems: []\n",
        r#"{"apiVersion": "v1", "kind": "PodList", "items": []}"#,
    ] {
        let mut case = Case::with(&[("f.yaml", &map("m", "1"))]);
        assert_eq!(case.write_in_place("f.yaml", empty), ["ConfigMap default/m gone"]);
        assert_eq!(case.problems(), [""; 0]);
        assert!(Case::with(&[("f.yaml", empty)]).complete);
    }
}

const BLOCK: &str = "\
apiVersion: v1
kind: ConfigMap
metadata:
  name: settings
data:
  greeting: hello
  long: |
    one
    two
  last: 100
---
apiVersion: v1
kind: Secret
metadata: {name: key}
stringData:
  password: correct horse
data:
  more: Y29ycmVjdCBob3JzZQ==
---
apiVersion: v1
kind: PersistentVolumeClaim
metadata:
  name: data
  namespace: default
spec:
  storageClassName: fast
  accessModes:
  - ReadWriteOnce
  - ReadOnlyMany
  resources:
    requests:
      storage: 10Gi
---
apiVersion: v1
kind: Pod
spec:
  containers:
  - name: app
    volumeMounts:
    - name: data
      mountPath: /data
    - name: data
      mountPath: /data-too
  volumes:
  - name: settings
    configMap:
      name: settings
      items:
      - key: greeting
        path: a
      - key: last
        path: b
  - name: scratch
    emptyDir:
      medium: Memory
      sizeLimit: 100Mi
  - name: data
    persistentVolumeClaim:
      claimName: data
metadata:
  labels:
    v: web
  name: web
  namespace: front
  uid: 11111111-2222-3333-4444-555555555555
";

/// All that is in force of a file, as trees.
fn trees(case: &Case, path: &str) -> BTreeMap<String, serde_json::Value> {
    let file = &case.ledger.files[Path::new(path)];
    file.good.iter().flat_map(|it| &it.items).map(|it| (it.key.to_string(), it.value.tree())).collect()
}

const SHORT: &str = "\
apiVersion: v1
kind: ConfigMap
metadata: {name: settings}
data:
  a: b
  c: d
---
apiVersion: v1
kind: Pod
metadata: {name: web}
spec:
  containers:
  - name: app
  volumes:
  - name: scratch
  - name: settings
    configMap:
      name: settings
";

/// Cuts what would be written in place at every byte: nothing of the good version is lost, or it stays in force whole.
fn cut_everywhere(good: &str, written: &str) {
    let mut case = Case::with(&[("f.yaml", good)]);
    assert_eq!(case.summary.count(Severity::Error), 0, "{good}");
    let before = trees(&case, "f.yaml");
    let mut refused = 0;
    for end in (0..written.len()).filter(|it| written.is_char_boundary(*it)) {
        let told = case.write_in_place("f.yaml", &written[..end]);
        if case.summary.count(Severity::Error) > 0 {
            assert_eq!(told, [""; 0]);
            refused += 1;
            continue;
        }
        let after = trees(&case, "f.yaml");
        for (key, tree) in &before {
            let Some(now) = after.get(key) else { panic!("{key} is lost by a cut at {end}: {}", &written[..end]) };
            let lost = loss::lost(tree, now, loss::Cut::Anywhere);
            assert_eq!(lost, None, "{key}, cut at {end}: {}", &written[..end]);
            assert_eq!(tree.pointer("/metadata/uid"), now.pointer("/metadata/uid"), "cut at {end}");
        }
        case.write("f.yaml", good);
    }
    assert!(refused > written.len() / 2, "{refused}");
}

/// I-1. A writer that is killed, a full disk, a crash: whatever is cut off, nothing is taken away.
#[test]
fn a_file_that_is_cut_at_any_byte_loses_nothing() {
    cut_everywhere(BLOCK, BLOCK);
    let documents: Vec<&str> = SHORT.split("---\n").collect();
    let backwards = format!("{}---\n{}", documents[1], documents[0]);
    let marked: String = documents.iter().map(|it| format!("---\n{it}...\n")).collect();
    let items: String = documents.iter().map(|it| format!("- {}\n", it.trim_end().replace('\n', "\n  "))).collect();
    let node = "{\"apiVersion\": \"v1\", \"kind\": \"Node\", \"metadata\": {\"name\": \"n\"}}\n";
    for text in [
        backwards,
        SHORT.trim_end().to_owned(),
        SHORT.to_owned() + "---\n# the end\n",
        marked,
        SHORT.replace('\n', "\r\n"),
        format!("apiVersion: v1\nkind: List\nitems:\n{items}"),
        pod("a", "1", "x") + &map("m", "1") + &map("n", "2"),
        format!("{node}---\n{}", node.replace("\"n\"", "\"o\"")),
    ] {
        cut_everywhere(&text, &text);
    }
}

/// As a file system leaves them in place of what was not written before a crash.
#[test]
fn a_file_that_ends_in_a_hole_loses_nothing() {
    let mut case = Case::with(&[("f.yaml", SHORT)]);
    for end in 0..=SHORT.len() {
        for moved in [false, true] {
            let hole = format!("{}\0\0\0\0", &SHORT[..end]);
            case.ledger.content(Path::new("f.yaml"), hole.as_bytes(), origin(moved));
            assert_eq!(case.settle(), [""; 0]);
            assert_eq!(case.summary.count(Severity::Error), 1);
        }
    }
}

/// As when somebody changes a file, and the new version is what is cut.
#[test]
fn a_changed_file_that_is_cut_at_any_byte_loses_nothing() {
    let more = format!("{}---\n{}---\n{SHORT}", &map("before", "1")[4..], &pod("first", "7", "x")[4..]);
    cut_everywhere(SHORT, &more);
    cut_everywhere(SHORT, &(SHORT.to_owned() + &map("after", "1")));
    cut_everywhere(
        SHORT,
        &SHORT.replace("a: b", "a: better").replace("scratch\n", "scratch\n    emptyDir: {medium: Memory}\n"),
    );
}

#[test]
fn what_is_removed_from_the_middle_in_place_is_in_force_and_doubted() {
    let mut case = Case::with(&[("f.yaml", &(map("a", "1") + &map("b", "1") + &map("c", "1")))]);
    assert_eq!(case.write_in_place("f.yaml", &(map("a", "1") + &map("c", "1"))), ["ConfigMap default/b gone?"]);
    assert_eq!(case.write_in_place("f.yaml", &map("c", "2")), ["ConfigMap default/c = 2", "ConfigMap default/a gone?"]);
    assert_eq!(case.summary.count(Severity::Error), 0);
    assert_eq!(case.write_in_place("f.yaml", &(map("b", "1") + &map("c", "2"))), ["ConfigMap default/b = 1"]);
    assert_eq!(
        case.problems(),
        [
            "Warning /m: ConfigMap default/a: /m/f.yaml was written in place without it, which an interrupted writer can \
          leave too; it stays for orphan-delay"
        ]
    );
    case.believe_all();
    assert_eq!(case.problems(), [""; 0]);
    // Of an object, what is not at the end.
    let mut case = Case::with(&[("f.yaml", BLOCK)]);
    case.write_in_place("f.yaml", &BLOCK.replacen("  greeting: hello\n", "", 1));
    assert_eq!(case.summary.count(Severity::Error), 0);
    assert_eq!(trees(&case, "f.yaml")["ConfigMap default/settings"]["data"].as_object().unwrap().len(), 2);
}

#[test]
fn what_is_removed_from_the_end_is_meant_if_the_writer_is_known_to_have_finished() {
    let (good, less) = (map("a", "1") + &map("b", "1"), map("a", "1"));
    let refusal = "Error /m/f.yaml: it ends without ConfigMap default/b, perhaps because its writer was interrupted; its last \
                   good version stays in force; if that is meant, move the file into place (mv), end it with a line of \
                   three dots (...), or remove it";
    let mut case = Case::with(&[("f.yaml", &good)]);
    for _ in 0..2 {
        // As often as it is read.
        assert_eq!(case.write_in_place("f.yaml", &less), [""; 0]);
        assert_eq!(case.problems(), [refusal]);
    }
    assert_eq!(case.write("f.yaml", &less), ["ConfigMap default/b gone"], "moved into place");
    assert_eq!(case.problems(), [""; 0]);
    let mut case = Case::with(&[("f.yaml", &good)]);
    assert_eq!(case.write_in_place("f.yaml", &(less.clone() + "...\n")), ["ConfigMap default/b gone"], "marked");
    let mut case = Case::with(&[("f.yaml", &good)]);
    case.write_in_place("f.yaml", &less);
    assert_eq!(
        case.remove("f.yaml"),
        ["ConfigMap default/a gone?", "ConfigMap default/b gone?"],
        "removed, with an error"
    );
    assert_eq!(
        case.problems()[0],
        "Warning /m: ConfigMap default/a: /m/f.yaml had an error when it vanished; it stays for orphan-delay"
    );
    case.believe_all();
    assert_eq!(case.problems(), [""; 0]);
    // JSON says itself where it ends.
    let json = |data: &str| {
        format!(
            "{{\"apiVersion\": \"v1\", \"kind\": \"ConfigMap\", \"metadata\": {{\"name\": \"m\"}}, \"data\": {{{data}}}}}"
        )
    };
    let mut case = Case::with(&[("f.json", &json("\"k\": \"1\", \"l\": \"2\""))]);
    assert_eq!(case.write_in_place("f.json", &json("\"k\": \"1\"")), ["ConfigMap default/m = 1"]);
    assert_eq!(case.problems(), [""; 0]);
}

#[test]
fn what_a_cut_took_from_within_an_object_is_named_unless_it_may_be_secret() {
    let mut case = Case::with(&[("f.yaml", BLOCK)]);
    let cut = &BLOCK[..BLOCK.find("      sizeLimit").unwrap()];
    case.write_in_place("f.yaml", cut);
    assert!(case.problems()[0].contains("Pod"), "{:?}", case.problems());
    let of = |text: &str, cut: &str| {
        let mut case = Case::with(&[("f.yaml", text)]);
        case.write_in_place("f.yaml", cut);
        case.problems().join("")
    };
    let told = of(
        "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: m}\ndata:\n  a: b\n  c: d\n",
        "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: m}\ndata:\n  a: b\n",
    );
    assert!(told.contains("it ends without data.c of ConfigMap default/m, perhaps"), "{told}");
    let told = of(
        "apiVersion: v1\nkind: Secret\nmetadata: {name: m}\nstringData:\n  a: b\n  hunter2: d\n",
        "apiVersion: v1\nkind: Secret\nmetadata: {name: m}\nstringData:\n  a: b\n",
    );
    assert!(told.contains("it ends without something of Secret default/m, perhaps"), "{told}");
}

/// As `git checkout` does it, one file after the other, in either order.
#[test]
fn what_moves_from_the_end_of_one_file_to_another_in_place_is_not_lost() {
    let (both, one, other) = (pod("a", "1", "x") + &pod("b", "2", "x"), pod("a", "1", "x"), pod("b", "2", "x"));
    let mut case = Case::with(&[("f.yaml", &both)]);
    assert_eq!(case.write_in_place("f.yaml", &one), [""; 0]);
    assert_eq!(case.problems().len(), 1);
    assert_eq!(case.write_in_place("g.yaml", &other), [""; 0], "it was never gone");
    assert_eq!(case.problems(), [""; 0]);
    assert_eq!(case.remove("f.yaml"), ["pod 1 gone"]);
    let mut case = Case::with(&[("f.yaml", &both)]);
    case.write_in_place("g.yaml", &other);
    assert_eq!(case.write_in_place("f.yaml", &one), [""; 0]);
    assert_eq!(case.problems(), [""; 0]);
}

/// A pod with volumes of these names.
fn with_volumes(uid: &str, volumes: &[&str]) -> String {
    let volumes: Vec<String> = volumes.iter().map(|it| format!("{{name: {it}, emptyDir: {{}}}}")).collect();
    let volumes = format!("spec: {{volumes: [{}], containers", volumes.join(", "));
    pod("web", uid, "x").replace("spec: {containers", &volumes)
}

/// I-1: a file that has only the name of an object has not taken it over.
#[test]
fn what_is_cut_off_is_elsewhere_only_if_all_of_it_is() {
    let good = map("m", "1") + &with_volumes("1", &["a", "b"]);
    for (beside, is_kept) in [
        (with_volumes("1", &["a", "b"]), true),
        (with_volumes("1", &["b", "c", "a"]), true),
        (with_volumes("2", &["a", "b"]), false),
        (with_volumes("1", &["a"]), false),
    ] {
        // The other comes before or after the cut.
        for first in [true, false] {
            let mut case = Case::with(&[("f.yaml", &good)]);
            if first {
                case.write("a.yaml", &beside);
            }
            case.write_in_place("f.yaml", &map("m", "1"));
            if !first {
                case.write("a.yaml", &beside);
            }
            let told = case.problems().iter().any(|it| it.contains("it ends without Pod default/web"));
            assert_eq!(told, !is_kept, "{beside} {:?}", case.problems());
            assert!(case.world.contains_key("Pod 1"), "{beside}");
            assert_eq!(
                case.summary.manifest_of(&"1".into()),
                Some(Path::new(if is_kept { "a.yaml" } else { "f.yaml" }))
            );
        }
    }
    let mut case = Case::with(&[("f.yaml", &(pod("a", "1", "x") + &map("m", "1")))]);
    case.write_in_place("f.yaml", &pod("a", "1", "x"));
    case.write("g.yaml", "{apiVersion: v1, kind: ConfigMap, metadata: {name: m}}");
    assert!(case.problems()[0].contains("it ends without ConfigMap default/m"), "{:?}", case.problems());
}

/// I-1: what the good version said is nobody's wish to lose, whatever becomes of the version that is not in force.
#[test]
fn a_file_that_vanishes_with_an_error_takes_nothing_away_at_once() {
    let good = map("m", "1") + &map("n", "1") + &pod("a", "1", "x");
    let torn = map("m", "1");
    let text = "/m/f.yaml had an error when it vanished";
    for wrong in [&*torn, "", "kind: ["] {
        let mut case = Case::with(&[("f.yaml", &good)]);
        case.write_in_place("f.yaml", wrong);
        // It is renamed.
        case.write("g.yaml", &torn);
        case.ledger.gone(Path::new("f.yaml"));
        let (gives, _) = case.ledger.settle(&mut case.summary);
        let [.., Give::PodGone(_, departed), Give::ObjectGone(_, Some(doubt)), Give::Complete(None)] = &*gives else {
            panic!("{wrong:?}: {gives:?}")
        };
        assert_eq!(
            (case.ledger.holding(departed), &**doubt),
            (Some(Holding::Rewritten(text.into())), text),
            "{wrong:?}"
        );
        let warning = format!("Warning /m: ConfigMap default/n: {text}; it stays for orphan-delay");
        assert_eq!(case.problems(), [warning]);
        assert_eq!(case.write("g.yaml", &good), ["ConfigMap default/n = 1", "pod 1 = a x"], "all is as before");
        assert_eq!(case.problems(), [""; 0]);
    }
    // Another that has less of the pod does not take it over.
    let mut case = Case::with(&[("f.yaml", &with_volumes("1", &["a", "b"]))]);
    case.write("a.yaml", &with_volumes("1", &["a"]));
    case.write_in_place("f.yaml", "");
    assert_eq!(case.remove("f.yaml"), [""; 0]);
    assert!(case.problems().iter().any(|it| it.contains("it vanished while it had an error")), "{:?}", case.problems());
}

/// I-1: moving it away and back proves nothing.
#[test]
fn a_file_that_was_refused_is_not_whole_because_it_is_moved() {
    let good = map("m", "1") + &pod("a", "1", "x");
    let mut case = Case::with(&[("f.yaml", &good), ("g.yaml", &(map("n", "1") + &map("o", "1")))]);
    let torn = origin(false);
    for (path, moved) in [("f.yaml", false), ("f.yaml", true), ("f.yaml", true)] {
        case.ledger.content(Path::new(path), map("m", "1").as_bytes(), Origin { moved, ..torn });
        assert_eq!(case.settle(), [""; 0]);
        assert_eq!(case.summary.count(Severity::Error), 1);
    }
    // Nor does moving it over another.
    case.ledger.content(Path::new("g.yaml"), map("m", "1").as_bytes(), Origin { moved: true, ..torn });
    assert_eq!(case.settle(), [""; 0]);
    assert_eq!(case.summary.count(Severity::Error), 2);
    assert_eq!(case.write("f.yaml", &map("m", "1")), ["pod 1 gone"], "another file is a wish");
}

/// I-1: what is read where something was mounted or unmounted may add and change, and takes nothing away.
#[test]
fn a_file_of_another_mount_takes_nothing_away() {
    let good = map("m", "1") + &with_volumes("1", &["a", "b"]);
    let at = |mount, place| Origin { mount, place: ((0, 0), place), ..origin(false) };
    let begin = || {
        let mut case = Case::new();
        case.ledger.content(Path::new("f.yaml"), good.as_bytes(), at(1, 10));
        case.settle();
        case
    };
    for (other, lost) in [
        (map("m", "1"), "Pod default/web"),
        (
            map("m", "1")
                + "...
",
            "Pod default/web",
        ),
        (map("m", "1") + &with_volumes("2", &["a", "b"]), "metadata.uid of Pod default/web"),
        (map("m", "1") + &with_volumes("1", &["b"]), "spec.volumes[a] of Pod default/web"),
        (
            with_volumes("1", &["a", "b"])
                + "...
",
            "ConfigMap default/m",
        ),
        ("{apiVersion: v1, kind: List, items: []}".into(), "ConfigMap default/m"),
        (good.replace("spec: {", "spec: {nodeName: node-2, "), "Pod default/web"),
    ] {
        let mut case = begin();
        for _ in 0..2 {
            case.ledger.content(Path::new("f.yaml"), other.as_bytes(), at(2, 20));
            assert_eq!(case.settle(), [""; 0], "{other}");
            assert!(
                case.problems().iter().any(|it| it.contains(&format!("lacks {lost}, or"))),
                "{:?}",
                case.problems()
            );
        }
        // What is back is judged as before: what was mounted again has another mount.
        case.ledger.content(
            Path::new("f.yaml"),
            (map("m", "2")
                + "...
")
            .as_bytes(),
            at(3, 10),
        );
        assert_eq!(case.settle(), ["ConfigMap default/m = 2", "pod 1 gone"], "{other}");
    }
    // It may add, and then it is what is in force.
    let mut case = begin();
    case.ledger.content(Path::new("f.yaml"), (good.clone() + &map("n", "1")).as_bytes(), at(2, 20));
    assert_eq!(case.settle(), ["replaced, by accident", "ConfigMap default/n = 1"]);
    case.ledger.content(
        Path::new("f.yaml"),
        (good.clone()
            + "...
")
        .as_bytes(),
        at(2, 20),
    );
    assert_eq!(case.settle(), ["ConfigMap default/n gone"]);
    // Whoever moves it there means it.
    let mut case = begin();
    case.ledger.content(Path::new("f.yaml"), map("m", "1").as_bytes(), Origin { moved: true, ..at(2, 20) });
    assert_eq!(case.settle(), ["pod 1 gone"]);
}

/// I-1: the winner of a conflict that is renamed is the winner still.
#[test]
fn where_the_winner_of_a_conflict_goes_the_same_comes_before_another() {
    for loser in [pod("a", "2", "x"), pod("a", "1", "less")] {
        let mut case = Case::with(&[("b.yaml", &pod("a", "1", "x"))]);
        case.write("a.yaml", &loser);
        case.write("c.yaml", &pod("a", "1", "x"));
        assert!(!case.remove("b.yaml").iter().any(|it| it.contains(" = ") || it.contains(" gone")), "{loser}");
        assert_eq!(case.summary.manifest_of(&"1".into()), Some(Path::new("c.yaml")));
    }
    let mut case = Case::with(&[("b.yaml", &map("m", "1"))]);
    case.write("a.yaml", &map("m", "2"));
    case.write("c.yaml", &map("m", "1"));
    assert_eq!(case.remove("b.yaml"), [""; 0]);
    // Where nobody says the same, the other comes, and what was there goes as if it had been removed.
    let gives = |case: &mut Case| case.ledger.settle(&mut case.summary).0;
    let mut case = Case::with(&[("b.yaml", &(pod("a", "1", "x") + &map("m", "1")))]);
    case.write("a.yaml", &pod("a", "2", "x"));
    case.ledger.content(Path::new("b.yaml"), map("m", "1").as_bytes(), origin(true));
    assert!(gives(&mut case).iter().any(|it| matches!(it, Give::PodGone(uid, _) if uid.as_str() == "1")));
    // In its own file it is replaced at once, if that is known to be whole.
    for moved in [true, false] {
        let mut case = Case::with(&[("b.yaml", &(pod("a", "1", "x") + &map("m", "1")))]);
        case.ledger.content(Path::new("b.yaml"), (pod("a", "2", "x") + &map("m", "1")).as_bytes(), origin(moved));
        let gives = gives(&mut case);
        let is_replaced = gives.iter().any(|it| matches!(it, Give::PodReplaced(uid) if uid.as_str() == "1"));
        let is_held = |it: &Give| matches!(it, Give::PodGone(uid, it) if uid.as_str() == "1" && it.rewritten.is_some());
        assert_eq!((is_replaced, gives.iter().any(is_held)), (moved, !moved));
    }
}

/// I-1: as with a kind, whoever misspells a field has not taken away what it held.
#[test]
fn a_field_that_is_misspelt_is_no_removal() {
    let good = map("m", "1") + &with_volumes("1", &["a", "b"]);
    for (right, wrong) in
        [("uid: 1", "udi: 1"), ("volumes:", "volumess:"), ("data:", "dta:"), ("name: web", "name: web, namspace: x")]
    {
        let mut case = Case::with(&[("f.yaml", &good)]);
        let is_lost = !wrong.contains("namspace");
        for moved in [true, false] {
            case.ledger.content(Path::new("f.yaml"), good.replace(right, wrong).as_bytes(), origin(moved));
            assert_eq!(case.settle(), [""; 0], "{wrong}");
            assert_eq!(case.summary.count(Severity::Error) > 0, is_lost, "{wrong}: {:?}", case.problems());
        }
    }
    let mut case = Case::with(&[("f.yaml", &good)]);
    case.write("f.yaml", &good.replace("uid: 1", "udi: 1"));
    assert_eq!(
        case.problems()[0],
        "Error /m/f.yaml:4: Pod default/web: metadata.udi: there is no such field, and metadata.uid of Pod default/web is not \
         here any more; its last good version stays in force; did you mean uid? If not, take the field out"
    );
    // The namespace of what was elsewhere.
    let namespaced = good.replace("name: web", "name: web, namespace: x");
    let mut case = Case::with(&[("f.yaml", &namespaced)]);
    case.write("f.yaml", &namespaced.replace("namespace: x", "namspace: x"));
    assert!(case.problems()[0].contains("Pod x/web is not here any more"), "{:?}", case.problems());
    // What was misspelt before keeps nothing from being removed.
    let wrong = with_volumes("1", &["a", "b"]).replace("labels:", "lables:");
    let mut case = Case::with(&[("f.yaml", &wrong)]);
    case.write("f.yaml", &with_volumes("1", &["a"]).replace("labels:", "lables:"));
    assert_eq!(case.summary.count(Severity::Error), 0, "{:?}", case.problems());
}

/// I-1.
#[test]
fn a_kind_that_is_misspelt_is_no_removal() {
    let good = pod("a", "1", "x") + &map("m", "1");
    for (right, wrong) in [
        ("kind: Pod", "kind: Pods"),
        ("kind: Pod", "kind: pod"),
        ("kind: Pod", "kind: 'Pod '"),
        ("kind: Pod", "kind: PodTemplate"),
        ("kind: Pod", "kind: Deployment"),
        ("apiVersion: v1, kind: Pod", "apiVersion: v2, kind: Pod"),
        ("apiVersion: v1, kind: Pod", "apiVersion: apps/v1, kind: Deployment"),
        ("apiVersion: v1, kind: Pod", "apiVersion: example.com/v1, kind: Whatever"),
        ("apiVersion: v1, kind: ConfigMap", "apiVersion: apps/v1, kind: Deployment"),
    ] {
        let mut case = Case::with(&[("f.yaml", &good)]);
        for moved in [true, false] {
            case.ledger.content(Path::new("f.yaml"), good.replace(right, wrong).as_bytes(), origin(moved));
            assert_eq!(case.settle(), [""; 0], "{wrong}");
            assert_eq!(case.summary.count(Severity::Error), 1, "{wrong}: {:?}", case.problems());
        }
        assert_eq!(case.write("f.yaml", &good), [""; 0]);
        assert_eq!(case.problems(), [""; 0]);
    }
    let mut case = Case::with(&[("f.yaml", &good)]);
    case.write("f.yaml", &good.replace("kind: Pod", "kind: Pods"));
    assert_eq!(case.problems(), ["Error /m/f.yaml:2: Pods a: there is no \"Pods\" of \"v1\": did you mean Pod?"]);
    case.write("f.yaml", &good.replace("apiVersion: v1, kind: Pod", "apiVersion: apps/v1, kind: Deployment"));
    assert_eq!(
        case.problems()[0],
        "Error /m/f.yaml:2: Deployment a: Pod default/a is not here any more, and this, which is not read, is here in its \
         place; its last good version stays in force; if that is meant, take Pod default/a out of the file first"
    );
    // At the start too, so that nothing is complete.
    let case = Case::with(&[("f.yaml", &good.replace("kind: Pod", "kind: Pdo"))]);
    assert!(!case.complete);
}

#[test]
fn an_object_that_is_not_read_does_not_keep_others_from_being_removed() {
    let deployment = "---\n{apiVersion: apps/v1, kind: Deployment, metadata: {name: web}}\n";
    let mut case = Case::with(&[("f.yaml", &(map("a", "1") + deployment + &map("b", "1")))]);
    assert_eq!(case.write("f.yaml", &(deployment.to_owned() + &map("b", "1"))), ["ConfigMap default/a gone"]);
    assert_eq!(case.summary.count(Severity::Error), 0);
}

/// As when a host is renamed: what is there is not missing.
#[test]
fn a_pod_that_names_another_node_now_is_not_cut_off() {
    let on = |node: &str| pod("a", "1", "x").replace("spec: {", &format!("spec: {{nodeName: {node}, "));
    let mut case = Case::with(&[("f.yaml", &on("node-1"))]);
    case.write_in_place("f.yaml", &on("node-2"));
    assert_eq!(case.summary.count(Severity::Error), 0, "{:?}", case.problems());
}

#[test]
fn of_many_findings_the_first_are_told() {
    let keys: String = (0..100_000).map(|it| format!("\"!{it}\": x, ")).collect();
    let text = format!("{{apiVersion: v1, kind: ConfigMap, metadata: {{name: m}}, data: {{{keys}}}}}");
    let case = Case::with(&[("f.yaml", &text)]);
    assert_eq!(case.summary.problems.len(), 101);
    let many = "there are 99900 more such findings, which are not told";
    assert!(case.summary.problems.iter().any(|it| it.message.ends_with(many)));
}

/// I-1.
#[test]
fn a_source_is_complete_once_every_file_was_read_or_has_gone() {
    let mut case = Case::new();
    case.ledger.content(Path::new("a.yaml"), map("m", "1").as_bytes(), origin(true));
    case.ledger.content(Path::new("b.yaml"), b"kind: [", origin(true));
    case.ledger.unreadable(Path::new("c"), "it cannot be read");
    case.settle();
    assert!(!case.complete && !case.summary.complete && case.summary.files == 3);
    case.write("b.yaml", &map("n", "1"));
    assert!(!case.complete);
    assert_eq!(case.remove("c"), ["complete"]);
    case.write("d.yaml", "kind: [");
    assert!(case.summary.complete, "what comes later takes nothing back");
    assert!(Case::with(&[]).complete, "an empty directory is all there is");
}

/// I-1: nothing is known of what is in it, and what it has when it is back is all there is.
#[test]
fn a_directory_that_cannot_be_read_is_lost_and_gives_everything_again_when_it_is_back() {
    let mut case = Case::with(&[("a.yaml", &(pod("a", "1", "x") + &map("m", "1"))), ("b.yaml", &pod("b", "2", "x"))]);
    case.ledger.unreadable(Path::new(""), "it is away");
    assert_eq!(case.settle(), ["lost: it is away"]);
    assert_eq!((case.summary.complete, case.summary.lost.as_deref()), (false, Some("it is away")));
    case.ledger.gone(Path::new(""));
    case.ledger.content(Path::new("b.yaml"), pod("b", "2", "y").as_bytes(), origin(true));
    assert_eq!(case.settle(), ["pod 1 = a x", "pod 2 = b y", "complete"]);
    assert_eq!((case.summary.complete, case.summary.lost.as_deref()), (true, None));
    // What is below it may be unreadable without that.
    case.ledger.unreadable(Path::new("c"), "it is away");
    assert_eq!(case.settle(), [""; 0]);
    assert_eq!(case.doubt.as_deref(), Some("it may be in /m/c, which cannot be read"));
}

#[test]
fn a_name_that_is_taken_is_a_conflict_that_names_both_places() {
    let mut case = Case::with(&[("b.yaml", &map("m", "b")), ("a.yaml", &(map("x", "") + &map("m", "a")))]);
    assert_eq!(case.world["ConfigMap default/m"], "a", "at first the first file");
    assert_eq!(
        case.problems(),
        [
            "Error /m/b.yaml:2: ConfigMap default/m: it is defined in /m/a.yaml:4 already, which stays in force; remove one"
        ]
    );
    assert_eq!(case.write("b.yaml", &map("m", "bb")), [""; 0]);
    assert_eq!(case.write("a.yaml", &(map("x", "") + &map("m", "aa"))), ["ConfigMap default/m = aa"]);
    assert_eq!(case.write("a.yaml", &map("x", "")), ["ConfigMap default/m = bb"], "the other takes over");
    assert_eq!(case.problems(), [""; 0]);
    assert_eq!(case.write("a.yaml", &map("m", "again")), ["ConfigMap default/x gone"], "and keeps it");
    assert_eq!(case.summary.problems[0].path, "/m/a.yaml");
    case.remove("a.yaml");
    case.write("b.yaml", &(map("m", "first") + &map("m", "second")));
    assert_eq!(case.world["ConfigMap default/m"], "first");
    assert_eq!(
        case.problems(),
        [
            "Error /m/b.yaml:4: ConfigMap default/m: it is defined in /m/b.yaml:2 already, which stays in force; remove one"
        ]
    );
    assert!(case.summary.complete);
}

#[test]
fn a_uid_that_is_taken_is_a_conflict_too() {
    let mut case = Case::with(&[("a.yaml", &pod("a", "1", "x")), ("b.yaml", &pod("b", "1", "y"))]);
    assert_eq!((case.world["Pod 1"].as_str(), case.pods()), ("a x", vec!["default/a"]));
    assert_eq!(
        case.problems(),
        [
            "Error /m/b.yaml:2: Pod default/b: metadata.uid: Pod default/a in /m/a.yaml:2 has it already, and stays in force"
        ]
    );
    assert_eq!(case.write("a.yaml", &pod("a", "2", "x")), ["pod 1 = b y", "pod 2 = a x"]);
    assert_eq!((case.problems().len(), case.pods()), (0, vec!["default/a", "default/b"]));
    assert_eq!(case.write("a.yaml", &pod("a", "1", "x")), ["pod 2 gone"], "b has it now");
    assert_eq!(case.summary.problems[0].path, "/m/a.yaml");
    assert_eq!(case.remove("b.yaml"), ["pod 1 = a x"]);
}

/// I-1: somebody names it, and it may be here.
#[test]
fn a_pod_whose_name_another_has_is_held() {
    let mut case = Case::with(&[("a.yaml", &pod("a", "1", "x"))]);
    let held = r#"pod 2 held: Conflict("/m/b.yaml:2 names it, and /m/a.yaml:2 another Pod default/a")"#;
    assert_eq!(case.write("b.yaml", &pod("a", "2", "y")), [held]);
    assert_eq!(case.write("b.yaml", &pod("a", "2", "z")), [""; 0], "it is told once");
    assert_eq!(case.remove("b.yaml"), ["pod 2 held: ConflictOver"]);
    case.write("b.yaml", &pod("a", "2", "y"));
    assert_eq!(case.remove("a.yaml"), ["pod 2 = a y", "pod 1 gone"]);
    // One that was in force does not go while another file names it.
    case.write("c.yaml", &pod("a", "2", "y"));
    let held = r#"pod 2 held: Conflict("/m/c.yaml:2 names it, and /m/b.yaml:2 another Pod default/a")"#;
    assert_eq!(case.write("b.yaml", &pod("a", "3", "y")), ["pod 3 = a y", held]);
}

/// I-1: it is still named by a file that is not in force, so it does not go by time.
#[test]
fn a_pod_that_is_in_another_conflict_than_before_is_held_for_that_one() {
    let mut case = Case::with(&[("0.yaml", &(pod("p2", "2", "x") + &pod("p2", "1", "x")))]);
    case.write("1.yaml", &pod("p0", "2", "x"));
    case.write("0.yaml", &pod("p0", "1", "x"));
    assert_eq!(
        case.held.get("1"),
        Some(&Holding::Conflict("/m/0.yaml:2 names it, and /m/1.yaml:2 another Pod default/p0".into()))
    );
    case.remove("0.yaml");
    assert_eq!(case.held.get("1"), Some(&Holding::ConflictOver));
}

#[test]
fn a_pod_that_changes_its_uid_is_another_pod() {
    let mut case = Case::with(&[("a.yaml", &pod("a", "1", "x"))]);
    assert_eq!(case.write("a.yaml", &pod("a", "2", "x")), ["pod 2 = a x", "pod 1 gone"]);
    let pod = &case.summary.pods[0];
    assert_eq!((pod.name.as_str(), pod.uid.as_str(), case.summary.pods.len()), ("default/a", "2", 1));
}

#[test]
fn a_pod_without_a_uid_is_the_same_pod_through_edits_and_moves_and_restarts() {
    let mut case = Case::with(&[("a.yaml", &pod("a", "", "x"))]);
    let uid = case.summary.pods[0].uid.clone();
    // Must never change: directories are called so, on disks that outlive any version of this.
    assert_eq!(uid.as_str(), "95d4cf26-8931-8523-bf79-1730a37fbc04");
    assert_eq!(case.write("a.yaml", &pod("a", "", "y")), [format!("pod {uid} = a y")]);
    case.ledger.gone(Path::new("a.yaml"));
    case.ledger.content(Path::new("b.yaml"), pod("a", "", "y").as_bytes(), origin(true));
    assert_eq!(case.settle(), [""; 0], "moved to another file");
    let other = pod("a", "", "y").replace("name: a,", "name: a, namespace: other,");
    assert_ne!(Case::with(&[("a.yaml", &other)]).summary.pods[0].uid, uid);
}

#[test]
fn pods_of_other_nodes_and_kinds_that_nobody_needs_are_told_and_not_given() {
    let on = |node: &str| pod("a", "1", "x").replace("spec: {", &format!("spec: {{nodeName: {node}, "));
    assert_eq!(Case::with(&[("a.yaml", &on("node-1"))]).problems(), [""; 0]);
    let case = Case::with(&[("a.yaml", &on("node-2"))]);
    assert_eq!(case.pods(), [""; 0]);
    assert_eq!(
        case.problems(),
        [
            "Warning /m/a.yaml:2: Pod default/a: spec.nodeName: it is for the node \"node-2\"; this is \"node-1\", so it is not in force"
        ]
    );
    let case = Case::with(&[("a.yaml", "{apiVersion: apps/v1, kind: Deployment, metadata: {name: web}}")]);
    assert_eq!(
        case.problems(),
        ["Warning /m/a.yaml:1: Deployment web: a Deployment of apps/v1 is nothing that volumes need: it is not read"]
    );
    assert!(case.complete);
}

#[test]
fn what_no_file_has_is_told_of_a_whole() {
    let text = "{apiVersion: v1, kind: Pod, metadata: {name: p}, spec: {containers: [], volumes: [{name: v, configMap: {name: m}}]}}";
    let mut case = Case::with(&[("a.yaml", text)]);
    assert_eq!(
        case.ledger.unmet()[0].message,
        "spec.volumes[0].configMap.name: there is no ConfigMap default/m in these manifests"
    );
    case.write("b.yaml", &map("m", "1"));
    assert_eq!(case.ledger.unmet(), []);
}

/// What may be in a file: good, empty, broken.
fn any_content() -> impl Strategy<Value = String> {
    let object = prop_oneof![
        (0..3_u8, 0..3_u8).prop_map(|(name, value)| map(&format!("m{name}"), &value.to_string())),
        (0..3_u8, 0..3_u8, 0..3_u8).prop_map(|(name, uid, value)| {
            let uid = if uid == 0 { String::new() } else { uid.to_string() };
            pod(&format!("p{name}"), &uid, &value.to_string())
        }),
    ];
    prop_oneof![
        6 => proptest::collection::vec(object, 0..4).prop_map(|it| it.concat()),
        1 => Just("kind: [\n".to_owned()),
    ]
}

/// Files are written, vanish and become unreadable, some at once.
fn any_history() -> impl Strategy<Value = Vec<(u8, Option<String>, bool)>> {
    proptest::collection::vec((0..4_u8, proptest::option::weighted(0.8, any_content()), any::<bool>()), 0..24)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(100))]

    /// However files came to be as they are, the node has what they say, up to which of two that conflict was first; and
    /// where nothing conflicts, it is exactly what reading them for the first time gives.
    #[test]
    fn any_history_ends_in_the_world_that_its_files_describe(history in any_history()) {
        let mut case = Case::new();
        let mut good: BTreeMap<String, String> = BTreeMap::new();
        let mut last: BTreeMap<String, String> = BTreeMap::new();
        for (file, content, settle) in history {
            let path = format!("{file}.yaml");
            match &content {
                Some(text) => {
                    case.ledger.content(Path::new(&path), text.as_bytes(), origin(true));
                    if text != "kind: [\n" && !text.is_empty() {
                        good.insert(path.clone(), text.clone());
                    }
                    last.insert(path, text.clone());
                }
                None => {
                    case.ledger.gone(Path::new(&path));
                    good.remove(&path);
                    last.remove(&path);
                }
            }
            if settle {
                let before = (case.world.clone(), case.held.clone());
                let told = case.settle();
                prop_assert!(case.settle().is_empty(), "nothing is told twice");
                prop_assert_eq!(told.iter().all(|it| it == "complete"), before == (case.world.clone(), case.held.clone()), "only what is new");
            }
        }
        case.settle();
        let files: Vec<(&str, &str)> = good.iter().map(|(path, text)| (path.as_str(), text.as_str())).collect();
        let fresh = Case::with(&files);
        prop_assert_eq!(case.summary.pods.len(), case.world.keys().filter(|it| it.starts_with("Pod")).count());
        prop_assert_eq!(case.summary.objects + case.summary.pods.len(), case.world.len());
        prop_assert_eq!(case.summary.files, last.len());
        if fresh.summary.problems.iter().all(|it| it.severity != Severity::Error) {
            prop_assert_eq!(&case.world, &fresh.world);
            let named = |it: &Summary| it.pods.iter().map(|it| (it.name.clone(), it.uid.clone())).collect::<Vec<_>>();
            prop_assert_eq!(named(&case.summary), named(&fresh.summary));
        }
        // Objects are there for each name that a file has; who wins says one of those that have it.
        let objects = |it: &Case| it.world.keys().filter(|it| it.starts_with("Config")).cloned().collect::<Vec<_>>();
        prop_assert_eq!(objects(&case), objects(&fresh));
        for (name, value) in case.world.iter().filter(|(it, _)| it.starts_with("Config")) {
            let name = name.rsplit('/').next().unwrap();
            prop_assert!(good.values().any(|it| it.contains(&map(name, value))), "{} = {}", name, value);
        }
        // What is broken now is told, and nothing else of it.
        let broken = last.values().filter(|it| *it == "kind: [\n" || it.is_empty()).count();
        let told = case.summary.problems.iter().filter(|it| it.object.is_none()).count();
        prop_assert_eq!(told, broken);
        // Nothing is left behind once all files have gone.
        for file in 0..4 {
            case.ledger.gone(Path::new(&format!("{file}.yaml")));
        }
        case.settle();
        for reference in case.ledger.doubted.keys().cloned().collect::<Vec<_>>() {
            case.ledger.believe(&reference);
        }
        case.ledger.tell_problems(&mut case.summary);
        prop_assert!(case.world.is_empty() && case.summary.problems.is_empty() && case.summary.pods.is_empty());
        prop_assert!(case.ledger.outdone.is_empty() && !case.held.values().any(|it| matches!(it, Holding::Conflict(_))));
        prop_assert!(case.ledger.claims.is_empty() && case.ledger.bearers.is_empty() && case.ledger.named.is_empty());
    }
}
