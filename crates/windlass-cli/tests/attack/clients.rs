//! One client does not keep others out.

use std::fs;
use std::io::{Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::process::Stdio;
use std::time::Duration;

use tokio::time::Instant;
use windlass_testing::daemon::Case;
use windlass_testing::namespace::privileged;
use windlass_testing::process::Process;

use crate::victim::{canaries_live, pass_the_delay, start};
use crate::{attacks, skip};

attacks!["clients":
    watches_of_root_that_nobody_reads_keep_root_not_out,
    watches_that_nobody_reads_keep_root_not_out,
    requests_that_never_end_keep_root_not_out,
    requests_are_hostile,
];

/// As many as the API serves at a time, and some more.
const MANY: usize = 80;

const WATCH: &str = "GET /apis/windlass/v1alpha1/pods?watch=true HTTP/1.1\r\nHost: localhost\r\n\r\n";

/// Set for the copy of this program that is another user's clients: what they ask.
const CLIENT: &str = "WINDLASS_ATTACK_CLIENT";

/// Is many clients that do not read, until its input ends, if this process is the one.
pub(crate) fn lived() -> bool {
    let Ok(request) = std::env::var(CLIENT) else { return false };
    let socket = std::env::args().next_back().expect("the socket is the last argument");
    let streams: Vec<_> = (0..MANY)
        .filter_map(|_| {
            let mut stream = UnixStream::connect(&socket).ok()?;
            stream.write_all(request.as_bytes()).ok()?;
            Some(stream)
        })
        .collect();
    println!("{}", streams.len());
    let _ = std::io::stdin().read_to_end(&mut Vec::new());
    true
}

/// Many clients of the user nobody, who may talk to the daemon.
fn of_nobody(case: &Case, request: &str) -> Process {
    if !privileged("clients of another user") {
        skip("clients of another user need root");
    }
    // The program may lie where another user cannot reach it.
    let program = case.path("clients");
    let copied = windlass_testing::process::program("cp").arg(std::env::current_exe().unwrap()).arg(&program).status();
    assert!(copied.unwrap().success());
    let socket = case.path("run/api.sock");
    for path in [&socket, &case.path("run"), &case.path(""), &program] {
        fs::set_permissions(path, fs::Permissions::from_mode(0o777)).unwrap();
    }
    let mut command = windlass_testing::process::program(program);
    command.env(CLIENT, request).arg(&socket).uid(65534).gid(65534).stdin(Stdio::piped());
    let (clients, line) = Process::start_until_it_speaks(&mut command);
    assert!(line.trim().parse::<usize>().is_ok_and(|it| it > 0), "{line:?} clients of nobody's came through");
    clients
}

fn connect(case: &Case, request: &str) -> UnixStream {
    let mut stream = UnixStream::connect(case.path("run/api.sock")).unwrap();
    let _ = stream.write_all(request.as_bytes());
    stream
}

/// Whoever is root is served, and soon.
fn root_is_served(case: &Case, while_what: &str) {
    let began = Instant::now();
    let output = case.output(&["get", "pods"]);
    let (said, took) = (String::from_utf8_lossy(&output.stderr).into_owned(), began.elapsed());
    assert!(output.status.success() && took < Duration::from_secs(10), "{while_what}, after {took:?}: {said}");
}

fn watches_of_root_that_nobody_reads_keep_root_not_out(case: &Case) {
    let daemon = start(case);
    let watches: Vec<UnixStream> = (0..MANY).map(|_| connect(case, WATCH)).collect();
    // The first of them is known to be a watch, or this attack would show nothing.
    let mut answer = [0; 64];
    let count = (&watches[0]).read(&mut answer).unwrap();
    let answer = String::from_utf8_lossy(&answer[..count]).into_owned();
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    root_is_served(case, "80 watches of root are not read");
    canaries_live(case, "watches that nobody reads");
    drop(watches);
    assert!(daemon.stop().success());
}

fn watches_that_nobody_reads_keep_root_not_out(case: &Case) {
    let daemon = start(case);
    let clients = of_nobody(case, WATCH);
    root_is_served(case, "80 watches of nobody are not read");
    pass_the_delay(case, &case.path("manifests"));
    drop(clients);
    assert!(daemon.stop().success());
}

fn requests_that_never_end_keep_root_not_out(case: &Case) {
    let daemon = start(case);
    let clients = of_nobody(case, "GET /apis HTTP/1.1\r\nHost: x");
    root_is_served(case, "80 requests of nobody do not end");
    drop(clients);
    assert!(daemon.stop().success());
}

fn requests_are_hostile(case: &Case) {
    let daemon = start(case);
    for request in [
        "GET /../../etc/passwd HTTP/1.1\r\nHost: x\r\n\r\n".to_owned(),
        format!("GET /{} HTTP/1.1\r\nHost: x\r\n\r\n", "x".repeat(1 << 20)),
        format!("GET / HTTP/1.1\r\n{}\r\n\r\n", "A: b\r\n".repeat(100_000)),
        "POST /apis/windlass/v1alpha1/pods HTTP/1.1\r\nHost: x\r\nContent-Length: 99999999999\r\n\r\n".to_owned(),
        "\0\0\0\0\0\0".to_owned(),
        "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".to_owned(),
    ] {
        let mut stream = connect(case, &request);
        stream.set_read_timeout(Some(Duration::from_millis(200))).unwrap();
        let mut answer = Vec::new();
        let _ = stream.read_to_end(&mut answer);
        root_is_served(case, &format!("after {:.40}", request.escape_debug().to_string()));
    }
    canaries_live(case, "hostile requests");
    assert!(daemon.stop().success());
}
