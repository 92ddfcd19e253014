use proptest::prelude::*;

use super::*;

/// A ledger, and what it told a node.
struct Case {
    ledger: Ledger,
    summary: Summary,
    /// What the node has by now: `kind name: value`.
    world: BTreeMap<String, String>,
    complete: bool,
}

impl Case {
    fn new() -> Self {
        let ledger = Ledger::new(Path::new("/m"), Some("node-1"));
        Self { ledger, summary: Summary::default(), world: BTreeMap::new(), complete: false }
    }

    fn with(files: &[(&str, &str)]) -> Self {
        let mut case = Self::new();
        for (path, text) in files {
            case.ledger.content(Path::new(path), text.as_bytes());
        }
        case.settle();
        case
    }

    /// A file is written; tells what the node was told.
    fn write(&mut self, path: &str, text: &str) -> Vec<String> {
        self.ledger.content(Path::new(path), text.as_bytes());
        self.settle()
    }

    fn remove(&mut self, path: &str) -> Vec<String> {
        self.ledger.gone(Path::new(path));
        self.settle()
    }

    fn settle(&mut self) -> Vec<String> {
        let (gives, _) = self.ledger.settle(&mut self.summary);
        gives.into_iter().map(|it| self.take(it)).collect()
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
                self.world.insert(format!("Pod {uid}"), text.clone());
                format!("pod {uid} = {text}")
            }
            Give::PodGone(uid) | Give::PodReplaced(uid) => {
                assert!(self.world.remove(&format!("Pod {uid}")).is_some(), "{uid} was there");
                format!("pod {uid} gone")
            }
            Give::ObjectGone(reference) => {
                assert!(self.world.remove(&reference.to_string()).is_some(), "{reference} was there");
                format!("{reference} gone")
            }
            Give::Complete => {
                assert!(!self.complete, "once");
                self.complete = true;
                "complete".into()
            }
        }
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
        self.summary.pods.iter().map(|(name, _)| name.as_str()).collect()
    }
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

#[test]
fn what_did_not_change_is_not_told_again() {
    let mut case = Case::with(&[("f.yaml", &(pod("a", "1", "x") + &map("m", "1") + &map("n", "1")))]);
    assert_eq!(
        case.write("f.yaml", &("# a comment\n".to_owned() + &map("n", "2") + &map("m", "1") + &pod("a", "1", "x"))),
        ["ConfigMap default/n = 2"]
    );
    assert_eq!(case.write("g.yaml", ""), [""; 0]);
    assert_eq!(case.remove("f.yaml"), ["pod 1 gone", "ConfigMap default/m gone", "ConfigMap default/n gone"]);
    assert_eq!(case.remove("f.yaml"), [""; 0]);
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
    assert_eq!(case.write("f.yaml", "# nothing\n"), ["ConfigMap default/m gone"], "a file may be empty");
}

/// I-1.
#[test]
fn a_source_is_complete_once_every_file_was_read_or_has_gone() {
    let mut case = Case::new();
    case.ledger.content(Path::new("a.yaml"), map("m", "1").as_bytes());
    case.ledger.content(Path::new("b.yaml"), b"kind: [");
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

#[test]
fn a_pod_that_changes_its_uid_is_another_pod() {
    let mut case = Case::with(&[("a.yaml", &pod("a", "1", "x"))]);
    assert_eq!(case.write("a.yaml", &pod("a", "2", "x")), ["pod 2 = a x", "pod 1 gone"]);
    assert_eq!(case.summary.pods, [("default/a".to_owned(), "2".into())]);
}

#[test]
fn a_pod_without_a_uid_is_the_same_pod_through_edits_and_moves_and_restarts() {
    let mut case = Case::with(&[("a.yaml", &pod("a", "", "x"))]);
    let uid = case.summary.pods[0].1.clone();
    // Must never change: directories are called so, on disks that outlive any version of this.
    assert_eq!(uid.as_str(), "95d4cf26-8931-8523-bf79-1730a37fbc04");
    assert_eq!(case.write("a.yaml", &pod("a", "", "y")), [format!("pod {uid} = a y")]);
    case.ledger.gone(Path::new("a.yaml"));
    case.ledger.content(Path::new("b.yaml"), pod("a", "", "y").as_bytes());
    assert_eq!(case.settle(), [""; 0], "moved to another file");
    let other = pod("a", "", "y").replace("name: a,", "name: a, namespace: other,");
    assert_ne!(Case::with(&[("a.yaml", &other)]).summary.pods[0].1, uid);
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

/// What may be in a file: good, empty, torn.
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
                    case.ledger.content(Path::new(&path), text.as_bytes());
                    if text != "kind: [\n" {
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
                let before = case.world.clone();
                let told = case.settle();
                prop_assert!(case.settle().is_empty(), "nothing is told twice");
                prop_assert_eq!(told.iter().filter(|it| *it != "complete").count() == 0, before == case.world, "only what is new");
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
            prop_assert_eq!(&case.summary.pods, &fresh.summary.pods);
        }
        // Objects are there for each name that a file has; who wins says one of those that have it.
        let objects = |it: &Case| it.world.keys().filter(|it| it.starts_with("Config")).cloned().collect::<Vec<_>>();
        prop_assert_eq!(objects(&case), objects(&fresh));
        for (name, value) in case.world.iter().filter(|(it, _)| it.starts_with("Config")) {
            let name = name.rsplit('/').next().unwrap();
            prop_assert!(good.values().any(|it| it.contains(&map(name, value))), "{} = {}", name, value);
        }
        // What is broken now is told, and nothing else of it.
        let broken = last.values().filter(|it| *it == "kind: [\n").count();
        let told = case.summary.problems.iter().filter(|it| it.object.is_none()).count();
        prop_assert_eq!(told, broken);
        // Nothing is left behind once all files have gone.
        for file in 0..4 {
            case.ledger.gone(Path::new(&format!("{file}.yaml")));
        }
        case.settle();
        prop_assert!(case.world.is_empty() && case.summary.problems.is_empty() && case.summary.pods.is_empty());
        prop_assert!(case.ledger.claims.is_empty() && case.ledger.bearers.is_empty() && case.ledger.named.is_empty());
    }
}
