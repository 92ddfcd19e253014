//! `windlass validate` as people and scripts use it: what it prints where, and how it ends.

use std::fs;
use std::path::Path;
use std::process::Output;

fn validate(directory: &Path, arguments: &[&str]) -> (Option<i32>, String, String) {
    let mut command = windlass_testing::process::program(env!("CARGO_BIN_EXE_windlass"));
    let Output { status, stdout, stderr } =
        command.arg("validate").args(arguments).current_dir(directory).output().unwrap();
    (status.code(), String::from_utf8(stdout).unwrap(), String::from_utf8(stderr).unwrap())
}

fn manifests(files: &[(&str, &str)]) -> tempfile::TempDir {
    let home = tempfile::tempdir().unwrap();
    for (path, text) in files {
        let path = home.path().join("m").join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }
    home
}

const MAP: &str = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: settings}\ndata: {a: b}\n";
const POD: &str = "apiVersion: v1
kind: Pod
metadata: {name: web}
spec:
  containers:
  - name: main
    volumeMounts:
    - {name: settings, mountPath: /etc/settings}
  volumes:
  - name: settings
    configMap: {name: settings}
";

#[test]
fn what_is_in_order_is_counted_and_nothing_else() {
    let home = manifests(&[("a.yaml", MAP), ("deep/b.yml", POD), ("notes.txt", "kind: [")]);
    let (code, stdout, stderr) = validate(home.path(), &["m"]);
    assert_eq!((code, stdout.as_str()), (Some(0), ""));
    assert_eq!(stderr, "2 files, 1 pod, 1 object: 0 errors, 0 warnings\n");
    assert_eq!(validate(home.path(), &["m", "--strict"]).0, Some(0));
}

#[test]
fn errors_fail_and_warnings_fail_when_they_are_asked_to() {
    let pod = POD.replace("configMap: {name: settings}", "configMap: {name: other, defaultmode: 0600}");
    let broken = "kind: Pod\napiVersion: v1\nmetadata: [\n";
    let home = manifests(&[("a.yaml", MAP), ("b.yaml", &pod), ("c.yaml", broken)]);
    let (code, stdout, stderr) = validate(home.path(), &["m"]);
    assert_eq!(code, Some(1));
    let lines: Vec<&str> = stdout.lines().collect();
    assert_eq!(
        lines[..2],
        [
            "m/b.yaml:1: warning: Pod default/web: spec.volumes[0].configMap.name: there is no ConfigMap default/other \
             in these manifests",
            "m/b.yaml:11: warning: Pod default/web: spec.volumes[0].configMap.defaultmode: there is no such field, so \
             it is ignored; did you mean defaultMode?",
        ]
    );
    assert!(lines[2].starts_with("m/c.yaml:") && lines[2].contains(": error: "), "{stdout}");
    assert_eq!((lines.len(), stderr.as_str()), (3, "3 files, 1 pod, 1 object: 1 error, 2 warnings\n"));
    fs::remove_file(home.path().join("m/c.yaml")).unwrap();
    assert_eq!(validate(home.path(), &["m"]).0, Some(0));
    assert_eq!(validate(home.path(), &["m", "--strict"]).0, Some(1));
}

#[test]
fn two_objects_of_one_name_are_an_error_that_names_both_files() {
    let home = manifests(&[("a.yaml", MAP), ("b.yaml", MAP)]);
    let (code, stdout, _) = validate(home.path(), &["m"]);
    assert_eq!(code, Some(1));
    assert_eq!(
        stdout,
        "m/b.yaml:1: error: ConfigMap default/settings: it is defined in m/a.yaml:1 already, which stays in force; \
         remove one\n"
    );
}

#[test]
fn machines_get_all_of_it_at_once() {
    let home = manifests(&[("a.yaml", POD)]);
    let (code, stdout, stderr) = validate(home.path(), &["m/a.yaml", "-o", "json"]);
    assert_eq!((code, stderr.as_str()), (Some(0), ""));
    let report: serde_json::Value = serde_json::from_str(&stdout).unwrap();
    assert_eq!((&report["files"], &report["pods"], &report["objects"]), (&1.into(), &1.into(), &0.into()));
    assert_eq!(report["problems"][0]["severity"], "Warning");
    assert_eq!(report["problems"][0]["path"], "m/a.yaml");
    let (_, yaml, _) = validate(home.path(), &["m/a.yaml", "-o", "yaml"]);
    assert!(
        yaml.starts_with("files: 1\nobjects: 0\npods: 1\nproblems:\n") && yaml.ends_with("severity: Warning\n"),
        "{yaml}"
    );
}

#[test]
fn a_path_that_does_not_exist_is_an_error() {
    let home = manifests(&[("a.yaml", MAP)]);
    let (code, stdout, stderr) = validate(home.path(), &["nowhere"]);
    assert_eq!((code, stdout.as_str()), (Some(1), ""));
    assert!(stderr.contains("nowhere") && stderr.contains("No such file"), "{stderr}");
    assert_eq!(validate(home.path(), &[]).0, Some(2), "wrong usage");
}

#[test]
fn the_examples_are_without_fault() {
    let repository = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let (code, out, error) = validate(&repository, &["--strict", "examples"]);
    assert_eq!((code, out.as_str()), (Some(0), ""), "{error}");
    assert!(error.contains("3 pods, 8 objects"), "{error}");
}
