//! Faults that are made on purpose: `windlass explain` names the cause of each, and when it is gone all is well again.
//!
//! What is expected stands in the tables of `docs/reasons.md`, a row for each test: the row's first column is the name of
//! the test in words, the code is that of the deepest reason, and what is said must be in its message, where `…` stands
//! for anything. So the tables cannot say what is not so.

mod claims;
mod disks;
mod kinds;
mod node;
mod objects;
mod paths;
mod removal;
mod room;
mod tokens;

use std::collections::BTreeSet;
use std::fs;

use serde_json::{Value, json};
use windlass_testing::daemon::Case;
use windlass_testing::harness::Tests;

/// A test of one fault: makes it, lets it be named, and takes it away.
pub(crate) type Test = (&'static str, fn(&Case, &Fault));

/// The tests of a file, each by the name of its function.
macro_rules! faults {
    ($($test:ident),* $(,)?) => {
        pub(crate) const FAULTS: &[crate::faults::Test] = &[$((stringify!($test), $test)),*];
    };
}
use faults;

/// Those that `windlass explain` names.
const EXPLAINED: [&[Test]; 8] = [
    objects::FAULTS,
    tokens::FAULTS,
    kinds::FAULTS,
    claims::FAULTS,
    paths::FAULTS,
    disks::FAULTS,
    room::FAULTS,
    removal::FAULTS,
];

pub(crate) fn tests(tests: &mut Tests) {
    for (name, body) in EXPLAINED.into_iter().flatten() {
        crate::add(tests, &format!("explain_names_{name}"), &[], move |case| body(case, &Fault::of("Faults", name)));
    }
    for (name, body) in node::FAULTS {
        crate::add(tests, &format!("the_daemon_names_{name}"), &[], move |case| body(case, &Fault::of(DAEMON, name)));
    }
    crate::add(tests, "the_tables_of_faults_list_what_is_tested", &[], |_| {
        let tested = |it: &[Test]| it.iter().map(|(name, _)| name.replace('_', " ")).collect::<BTreeSet<_>>();
        let listed = |title| rows(title).into_iter().map(|it| it[0].clone()).collect::<BTreeSet<_>>();
        assert_eq!(listed("Faults"), tested(&EXPLAINED.concat()));
        assert_eq!(listed(DAEMON), tested(node::FAULTS));
    });
}

/// The title of the table of faults that are not of a volume.
const DAEMON: &str = "Faults of the daemon and its manifests";

/// The rows of the table below this title.
fn rows(title: &str) -> Vec<Vec<String>> {
    let document = fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/reasons.md")).unwrap();
    let (_, section) = document.split_once(&format!("\n## {title}\n")).expect("there is such a section");
    let section = section.split("\n## ").next().unwrap_or_default();
    let table = section.lines().filter(|it| it.starts_with('|')).skip(2);
    table.map(|row| row.trim_matches('|').split('|').map(|it| it.trim().to_owned()).collect()).collect()
}

/// What the documents say of a fault.
pub(crate) struct Fault {
    /// The code of the deepest reason; for what is no volume's, the command that tells it.
    code: String,
    /// What is said, in pieces.
    says: Vec<String>,
}

impl Fault {
    fn of(title: &str, name: &str) -> Self {
        let name = name.replace('_', " ");
        let row = rows(title).into_iter().find(|it| it[0] == name);
        let row = row.unwrap_or_else(|| panic!("docs/reasons.md has no row {name:?} below {title:?}"));
        let [_, code, says, remedy] = row.as_slice() else { panic!("{row:?} has not four columns") };
        assert!(!remedy.is_empty());
        let code = code.trim_matches('`').to_owned();
        Self { code, says: says.trim_matches('`').split('…').map(str::to_owned).collect() }
    }

    /// Whether this text says it: all pieces, one after the other.
    fn is_said(&self, text: &str) -> bool {
        let mut rest = text;
        self.says.iter().all(|piece| match rest.split_once(piece.as_str()) {
            Some((_, after)) => {
                rest = after;
                true
            }
            None => false,
        })
    }

    /// That this text says it.
    pub(crate) fn is_in(&self, text: &str) {
        assert!(self.is_said(text), "{:?} is not in\n{text}", self.says);
    }

    /// Waits until the deepest reason of a pod's volume is this fault and names all of these, then asks for it as people
    /// and as programs do. Answers the codes of all reasons.
    pub(crate) fn is_named(&self, case: &Case, pod: &str, volume: &str, names: &[&str]) -> Vec<String> {
        let is_so = |reason: &Value| {
            let message = reason["message"].as_str().unwrap_or_default();
            reason["code"] == *self.code && self.is_said(message) && names.iter().all(|it| message.contains(it))
        };
        case.until_reason(pod, volume, is_so);
        let what = format!("{pod}/{volume}");
        let shown = case.json(&["explain", &what]);
        let reasons = shown[0]["reasons"].as_array().expect("reasons");
        let deepest = reasons.last().expect("a reason");
        assert!(is_so(deepest), "{shown:#}");
        // It may have been tried again meanwhile, with another message of the same kind.
        let text = case.ask(&["explain", &what]);
        self.is_in(&text);
        for part in [deepest["remedy"].as_str().unwrap(), &self.code].iter().chain(names) {
            assert!(!part.is_empty() && text.contains(part), "{part:?} is not in\n{text}");
        }
        reasons.iter().map(|it| it["code"].as_str().unwrap().to_owned()).collect()
    }
}

/// A pod with these volumes, which its container mounts.
pub(crate) fn pod(name: &str, volumes: &Value) -> Value {
    let mounts = volumes.as_array().unwrap().iter().map(|it| {
        let path = format!("/{}", it["name"].as_str().unwrap());
        json!({"name": it["name"], "mountPath": path})
    });
    json!({
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "uid": format!("{name}-1")},
        "spec": {"containers": [{"name": "main", "volumeMounts": mounts.collect::<Vec<_>>()}], "volumes": volumes},
    })
}

/// The pod `web` with one volume, `data`.
pub(crate) fn web(source: Value) -> Value {
    let mut volume = source;
    volume["name"] = "data".into();
    pod("web", &json!([volume]))
}

/// The config map `settings`.
pub(crate) fn settings(data: &Value) -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "settings"}, "data": data})
}

/// The persistent volume `disk` and the claim `data` that it is bound to.
pub(crate) fn claimed(volume: Value) -> [Value; 2] {
    let mode = volume.get("volumeMode").cloned().unwrap_or_else(|| "Filesystem".into());
    let modes = volume.get("accessModes").cloned().unwrap_or_else(|| json!(["ReadWriteOnce"]));
    let mut spec = volume;
    spec["accessModes"] = modes.clone();
    spec["capacity"] = json!({"storage": "1Gi"});
    spec["claimRef"] = json!({"namespace": "default", "name": "data", "uid": "claim-1"});
    let volume = json!({
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        "metadata": {"name": "disk"},
        "spec": spec,
        "status": {"phase": "Bound"},
    });
    let claim = json!({
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {"name": "data", "uid": "claim-1"},
        "spec": {
            "volumeName": "disk",
            "volumeMode": mode,
            "accessModes": modes,
            "resources": {"requests": {"storage": "1Gi"}},
        },
        "status": {"phase": "Bound", "capacity": {"storage": "1Gi"}},
    });
    [volume, claim]
}

/// A volume of a pod that is the claim `data`.
pub(crate) fn claim() -> Value {
    json!({"persistentVolumeClaim": {"claimName": "data"}})
}

/// Writes a manifest with all of these.
pub(crate) fn put(case: &Case, file: &str, objects: &[&Value]) {
    let documents: Vec<_> = objects.iter().map(ToString::to_string).collect();
    case.manifest(file, &documents.join("\n---\n"));
}
