//! What is attacked: a pod with volumes of several kinds, and the canaries in them.

use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};

use windlass_testing::daemon::{Case, Daemon};
use windlass_testing::wait::until;

/// What is in every canary.
pub(crate) const CANARY: &str = "forty fathoms of rope";
/// What must not be told.
pub(crate) const SECRET: &str = "hunter2-fathoms";

/// A config map, a secret, and a pod that shows them and has scratch space on disk and in memory. The pod is last: what cuts
/// the file short loses it first.
pub(crate) const WEB: &str = "\
apiVersion: v1
kind: ConfigMap
metadata: {name: settings}
data: {color: blue, size: large}
---
apiVersion: v1
kind: Secret
metadata: {name: keys}
stringData: {password: hunter2-fathoms}
---
apiVersion: v1
kind: Pod
metadata: {name: web, uid: web-1}
spec:
  containers:
  - name: main
    volumeMounts:
    - {name: scratch, mountPath: /scratch}
    - {name: cache, mountPath: /cache}
    - {name: settings, mountPath: /settings}
    - {name: keys, mountPath: /keys}
  volumes:
  - {name: scratch, emptyDir: {}}
  - {name: cache, emptyDir: {medium: Memory}}
  - {name: settings, configMap: {name: settings}}
  - {name: keys, secret: {secretName: keys}}
";

/// A pod with scratch space on disk and nothing else.
pub(crate) fn pod(name: &str) -> String {
    format!(
        "apiVersion: v1\nkind: Pod\nmetadata: {{name: {name}, uid: {name}-1}}\nspec:\n  containers: [{{name: main, \
         volumeMounts: [{{name: scratch, mountPath: /scratch}}]}}]\n  volumes: [{{name: scratch, emptyDir: {{}}}}]\n"
    )
}

/// Scratch space of a pod.
pub(crate) fn scratch(case: &Case, uid: &str) -> PathBuf {
    case.volume(uid, "empty-dir", "scratch")
}

/// Starts the daemon with the manifest `web.yaml`, waits until the pod is mounted and puts canaries into its volumes.
pub(crate) fn start(case: &Case) -> Daemon {
    put(&case.path("manifests"), "web.yaml", WEB);
    let daemon = case.start_until_mounted(&["web"]);
    put_canaries(case);
    daemon
}

/// Puts canaries into the scratch space of the pod `web`.
pub(crate) fn put_canaries(case: &Case) {
    for volume in ["scratch", "cache"] {
        fs::write(case.volume("web-1", "empty-dir", volume).join("canary"), CANARY).unwrap();
    }
}

/// The canaries of the pod `web` live.
pub(crate) fn canaries_live(case: &Case, after: &str) {
    for volume in ["scratch", "cache"] {
        let path = case.volume("web-1", "empty-dir", volume).join("canary");
        let found = fs::read_to_string(&path);
        assert!(
            found.as_ref().is_ok_and(|it| it == CANARY),
            "after {after}, {} is {found:?}\n{}",
            path.display(),
            log(case)
        );
    }
    let settings = case.volume("web-1", "configmap", "settings").join("size");
    let found = fs::read_to_string(&settings);
    assert!(found.as_ref().is_ok_and(|it| it == "large"), "after {after}, {} is {found:?}", settings.display());
}

/// The end of the daemon's log.
pub(crate) fn log(case: &Case) -> String {
    let log = fs::read_to_string(case.path("log")).unwrap_or_default();
    let lines: Vec<&str> = log.lines().collect();
    lines[lines.len().saturating_sub(25)..].join("\n")
}

/// Waits until whatever would have been taken away because of what was done before is taken away: another pod comes after it
/// and goes, with the same delay. Where nothing goes at all because a manifest is in doubt, that time is over all the same.
pub(crate) fn pass_the_delay(case: &Case, directory: &Path) {
    put(directory, "witness.yaml", &pod("witness"));
    let output = case.output(&["wait", "--timeout", "20s", "witness"]);
    assert!(
        output.status.success(),
        "another pod is not mounted: {}\n{}",
        String::from_utf8_lossy(&output.stderr),
        log(case)
    );
    fs::remove_file(directory.join("witness.yaml")).unwrap();
    case.output(&["wait", "--for", "unmounted", "--timeout", "2s", "witness"]);
}

/// The same, where manifests cannot be put any more: twelve times the delay, by which what would go has gone.
pub(crate) fn pass_the_delay_blindly(case: &Case) {
    case.output(&["wait", "--timeout", "2500ms", "nobody-knows-this-pod"]);
}

/// Puts a manifest into a directory in one step.
pub(crate) fn put(directory: &Path, file: &str, text: &str) {
    let temporary = directory.join(format!(".{file}.tmp"));
    fs::write(&temporary, text).unwrap();
    fs::rename(temporary, directory.join(file)).unwrap();
}

/// Writes a file as `>` does: made empty, then written.
pub(crate) fn overwrite(path: &Path, text: &str) {
    File::create(path).unwrap().write_all(text.as_bytes()).unwrap();
}

/// Waits until the daemon has said something about a file since its log had this many bytes.
pub(crate) fn until_told(case: &Case, since: usize, text: &str) {
    let log = case.path("log");
    until(&format!("the log tells of {text:?}"), &log, || {
        fs::read_to_string(&log).unwrap_or_default().get(since..).is_some_and(|it| it.contains(text))
    });
}

/// How much was logged.
pub(crate) fn logged(case: &Case) -> usize {
    fs::read_to_string(case.path("log")).unwrap_or_default().len()
}
