//! Tokens of service accounts.

use std::fs;
use std::io::Write;
use std::path::PathBuf;
use std::process::Stdio;

use serde_json::{Value, json};
use windlass_testing::daemon::Case;

use super::{Fault, put, web};

super::faults![
    a_token_that_nobody_gives,
    a_token_program_that_fails,
    a_token_program_that_is_missing,
    a_life_that_no_token_has,
];

fn token(seconds: u64) -> Value {
    let source = json!({"serviceAccountToken": {"path": "token", "expirationSeconds": seconds}});
    web(json!({"projected": {"sources": [source]}}))
}

/// A program, written by a shell of its own: one that this process has open for writing cannot be run, and another test
/// may fork while it is.
fn program(case: &Case, script: &str) -> PathBuf {
    let (temporary, path) = (case.path("program.new"), case.path("program"));
    let mut shell = windlass_testing::process::program("/bin/sh")
        .args(["-c", "cat > \"$0\" && chmod 700 \"$0\""])
        .arg(&temporary)
        .stdin(Stdio::piped())
        .spawn()
        .unwrap();
    write!(shell.stdin.take().unwrap(), "#!/bin/sh\n{script}\n").unwrap();
    assert!(shell.wait().unwrap().success());
    fs::rename(temporary, &path).unwrap();
    path
}

const GIVES: &str =
    r#"cat >&-; echo '{"status": {"token": "hunter2", "expirationTimestamp": "2100-01-01T00:00:00Z"}}'"#;

fn a_token_that_nobody_gives(case: &Case, fault: &Fault) {
    put(case, "pod.yaml", &[&token(3600)]);
    let daemon = case.start();
    fault.is_named(case, "web", "data", &[]);
    assert!(daemon.stop().success());
    let mut command = case.run();
    command.arg("--token-command").arg(program(case, GIVES));
    let daemon = case.start_as(command);
    case.wait_mounted(&["web"]);
    assert!(daemon.stop().success());
}

/// I-12: of what it prints only standard error is told.
fn a_token_program_that_fails(case: &Case, fault: &Fault) {
    put(case, "pod.yaml", &[&token(3600)]);
    let path = program(case, "echo hunter2; echo 'the vault is sealed' >&2; exit 3");
    let mut command = case.run();
    command.arg("--token-command").arg(&path);
    let daemon = case.start_as(command);
    fault.is_named(case, "web", "data", &[path.to_str().unwrap()]);
    program(case, GIVES);
    case.wait_mounted(&["web"]);
    let told = case.ask(&["events", "-o", "json"]) + &daemon.log();
    assert!(!told.contains("hunter2"), "{told}");
    assert!(daemon.stop().success());
}

fn a_token_program_that_is_missing(case: &Case, fault: &Fault) {
    put(case, "pod.yaml", &[&token(3600)]);
    let path = case.path("program");
    let mut command = case.run();
    command.arg("--token-command").arg(&path);
    let daemon = case.start_as(command);
    fault.is_named(case, "web", "data", &[path.to_str().unwrap()]);
    program(case, GIVES);
    case.wait_mounted(&["web"]);
    assert!(daemon.stop().success());
}

fn a_life_that_no_token_has(case: &Case, fault: &Fault) {
    put(case, "pod.yaml", &[&token(10)]);
    let mut command = case.run();
    command.arg("--token-command").arg(program(case, GIVES));
    let daemon = case.start_as(command);
    fault.is_named(case, "web", "data", &[]);
    put(case, "pod.yaml", &[&token(600)]);
    case.wait_mounted(&["web"]);
    assert!(daemon.stop().success());
}
