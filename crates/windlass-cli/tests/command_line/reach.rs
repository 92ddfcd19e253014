//! What the program says when the daemon is not as it should be, and how it ends otherwise.

use std::io::pipe;
use std::os::unix::net::UnixListener;

use serde_json::{Value, json};

use crate::daemon::{Answer, Daemon, list, object};
use crate::objects::*;
use crate::program::{Run, windlass};

fn at(socket: &std::path::Path) -> Run {
    Run::of(windlass().arg("--socket").arg(socket).args(["get", "pods"]).output().unwrap())
}

#[test]
fn a_daemon_that_cannot_be_reached_has_a_status_and_a_hint_of_its_own() {
    let directory = tempfile::tempdir().unwrap();
    let socket = directory.path().join("api.sock");
    at(&socket).failed(3, &["no daemon answers at", "hint: start it with `windlass run`"]);
    // A socket that nobody listens at any more.
    drop(UnixListener::bind(&socket).unwrap());
    at(&socket).failed(3, &["Connection refused", "hint: it has ended without removing its socket"]);
    // Something else at its place is not taken for one.
    let file = directory.path().join("file");
    std::fs::write(&file, "").unwrap();
    at(&file).failed(3, &["no daemon answers at", "hint: that is no socket"]);
    at(directory.path()).failed(3, &["no daemon answers at", "hint: that is no socket"]);
    let hangs_up = Daemon::new([("/namespaces/default/pods", Answer::HangUp)]);
    hangs_up.run(&["get", "pods"]).failed(3, &["broke off", "hint: see whether it still runs"]);
    let busy = Answer::Status(503, "ServiceUnavailable", "64 clients are served already");
    let busy = Daemon::new([("/namespaces/default/pods", busy)]);
    busy.run(&["get", "pods"]).failed(3, &["64 clients are served already", "--connections-max"]);
}

#[test]
fn a_daemon_is_found_where_its_configuration_puts_it() {
    let daemon = Daemon::new([("/namespaces/default/pods", list("Pod", &[web()]))]);
    let directory = tempfile::tempdir().unwrap();
    let config = directory.path().join("config.yaml");
    let socket = daemon.socket();
    let runtime = socket.parent().unwrap();
    for text in [format!("socket: {}\n", socket.display()), format!("runtime-directory: {}\n", runtime.display())] {
        std::fs::write(&config, text).unwrap();
        let run = Run::of(windlass().env("WINDLASS_CONFIG", &config).args(["get", "pods"]).output().unwrap());
        assert!(run.status == Some(0) && run.stdout.contains("web"), "{run:?}");
    }
    // What is wrong with it is for the daemon to say.
    std::fs::write(&config, "nonsense: 1\n").unwrap();
    let run = Run::of(windlass().env("WINDLASS_CONFIG", &config).args(["get", "pods"]).output().unwrap());
    assert!(!run.stderr.contains("nonsense"), "{run:?}");
}

#[test]
fn an_answer_that_is_no_is_told_in_the_daemons_words() {
    let refused = Answer::Status(400, "BadRequest", "watch must be true or false");
    let daemon = Daemon::new([
        ("/namespaces/default/pods", refused.clone()),
        ("/volumes", Answer::Object(json!({"items": 7}))),
        ("/namespaces/default/pods?watch=true", refused),
    ]);
    let said = ["error: the daemon says: watch must be true or false (BadRequest)"];
    daemon.run(&["get", "pods"]).failed(1, &said);
    daemon.run(&["get", "pods", "-w"]).failed(1, &said);
    daemon
        .run(&["get", "volumes"])
        .failed(1, &["the daemon's answer to /apis/windlass/v1alpha1/volumes makes no sense"]);
}

#[test]
fn what_makes_no_sense_is_wrong_usage() {
    let daemon = Daemon::new([]);
    for words in [
        &["get"][..],
        &["get", "pots"],
        &["get", "pods", "-o", "xml"],
        &["describe", "operations"],
        &["wait", "web", "--for=joy"],
        &["wait", "web", "--timeout=soon"],
        &["frobnicate"],
    ] {
        daemon.run(words).failed(2, &["error:"]);
    }
}

#[test]
fn a_reader_who_has_seen_enough_is_no_failure() {
    let daemon = Daemon::new([("/namespaces/default/pods", list("Pod", &[web()]))]);
    let (reader, writer) = pipe().unwrap();
    drop(reader);
    let run = windlass().arg("--socket").arg(daemon.socket()).args(["get", "pods"]).stdout(writer).output().unwrap();
    let run = Run::of(run);
    assert_eq!((run.status, run.stderr.as_str()), (Some(0), ""));
}

#[test]
fn versions_are_told_of_both_sides() {
    let own = env!("CARGO_PKG_VERSION");
    let daemon = Daemon::new([("//version", object(&json!({"version": "9.9.9", "more": 1})))]);
    assert_eq!(daemon.print(&["version"]), format!("Client Version: {own}\nDaemon Version: 9.9.9\n"));
    assert_eq!(daemon.print(&["version", "--client"]), format!("Client Version: {own}\n"));
    let versions: Value = serde_json::from_str(&daemon.print(&["version", "-o", "json"])).unwrap();
    assert_eq!(versions, json!({"clientVersion": {"version": own}, "daemonVersion": {"version": "9.9.9"}}));
    // The one that is known is told even if the other is not.
    let run = Run::of(windlass().args(["--socket", "/there/is/none", "version"]).output().unwrap());
    assert_eq!((run.status, run.stdout), (Some(3), format!("Client Version: {own}\n")));
}

#[test]
fn completions_and_manual_pages_are_made_without_a_daemon() {
    for shell in ["bash", "zsh", "fish"] {
        let run = Run::of(windlass().args(["completion", shell]).output().unwrap());
        assert_eq!(run.status, Some(0));
        assert!(run.stdout.contains("windlass") && run.stdout.contains("operations"), "{shell}");
    }
    let directory = tempfile::tempdir().unwrap();
    let run = windlass().arg("man").arg(directory.path()).output().unwrap();
    assert_eq!(Run::of(run), Run { status: Some(0), stdout: String::new(), stderr: String::new() });
    let names = std::fs::read_dir(directory.path()).unwrap().map(|it| it.unwrap().file_name().into_string().unwrap());
    let mut names: Vec<_> = names.collect();
    names.sort();
    let verbs = "completion csi-judge csi delete-claim delete-pod delete describe events explain get mounts retry run tree usage validate version wait";
    let pages = verbs.split(' ').map(|it| format!("windlass-{it}.1")).chain(["windlass.1".into()]);
    assert_eq!(names, pages.collect::<Vec<_>>());
    for name in names {
        let page = std::fs::read_to_string(directory.path().join(&name)).unwrap();
        assert!(page.contains(".SH \"EXIT STATUS\"") || page.contains(".SH EXIT STATUS"), "{name}:\n{page}");
        assert!(page.contains(".SH NAME") && page.contains(".SH SYNOPSIS"), "{name}");
    }
}
