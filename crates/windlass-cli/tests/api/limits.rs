//! Clients that take too much, send nonsense, or do not go on.

use std::io::{BufRead, BufReader, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::time::Duration;

use rustix::fs::Uid;
use rustix::thread::set_thread_res_uid;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::UnixStream;
use windlass_api::BASE;

use super::client::{self, Watch, say};
use super::{INSIDE, contract, limits, with_limits, with_server};

#[test]
fn a_watcher_that_does_not_read_is_dropped_and_another_goes_on() {
    let limits = limits(2, |it| {
        it.stall_timeout = Duration::from_millis(300);
        it.patience = Duration::from_secs(30);
        it.watches_max = 2;
    });
    with_limits(limits, async |case| {
        let mut stalled = UnixStream::connect(&case.socket).await.unwrap();
        let request = format!("GET {BASE}/pods?watch=true HTTP/1.1\r\nhost: a\r\n\r\n");
        stalled.write_all(request.as_bytes()).await.unwrap();
        let mut watch = Watch::open(&case.socket, &format!("{BASE}/pods?watch=true")).await;
        watch.until(|it| it["type"] == "BOOKMARK").await;

        // More than the kernel keeps for somebody who does not read, while the other one reads it all.
        let long = "x".repeat(50);
        let volumes: Vec<Value> =
            (0..60).map(|it| json!({"name": format!("{long}{it}"), "secret": {"secretName": "absent"}})).collect();
        for number in 0..40 {
            let name = format!("pod-{number}");
            case.add(&name, &name, &json!(volumes));
            watch.until(|it| it["object"]["metadata"]["name"] == name).await;
        }
        // There are two places, so this is answered once the server has given up the one that does not read.
        assert_eq!(case.get("/healthz").await.code, 200);
        let mut kept = Vec::new();
        let _ = stalled.read_to_end(&mut kept).await;
        let kept = String::from_utf8_lossy(&kept);
        assert!(kept.contains("pod-0") && !kept.contains("pod-39"), "it was dropped in the middle");
        case.add_mounted("last", "last").await;
        watch.until(|it| it["object"]["metadata"]["name"] == "last").await;
    });
}

#[test]
fn one_client_too_many_is_told_so_and_comes_in_when_there_is_room() {
    let limits = limits(2, |it| {
        it.patience = Duration::from_millis(100);
        it.watches_max = 2;
    });
    with_limits(limits, async |case| {
        let path = format!("{BASE}/pods?watch=true");
        let mut watches = [Watch::open(&case.socket, &path).await, Watch::open(&case.socket, &path).await];
        for watch in &mut watches {
            watch.next().await.unwrap();
        }
        let answer = case.get(&format!("{BASE}/pods")).await;
        assert_eq!((answer.code.as_u16(), answer.json()["reason"].clone()), (503, json!("ServiceUnavailable")));
        assert_eq!(answer.headers["connection"], "close");
        drop(watches);
        // The server may see their end a moment later.
        while case.get("/healthz").await.code != 200 {}
    });
}

/// Connections of this user that ask for a watch and read nothing of it.
async fn unread_watches(socket: &Path, user: u32, count: usize) -> Vec<std::os::unix::net::UnixStream> {
    let socket = socket.to_owned();
    // Only the thread becomes that user.
    let connecting = std::thread::spawn(move || {
        let user = Uid::from_raw(user);
        set_thread_res_uid(user, user, user).unwrap();
        let connect = |_| {
            let mut stream = std::os::unix::net::UnixStream::connect(&socket).unwrap();
            let request = format!("GET {BASE}/pods?watch=true HTTP/1.1\r\nhost: a\r\n\r\n");
            // One that is turned away may be closed before it has asked.
            let _ = stream.write_all(request.as_bytes());
            stream
        };
        (0..count).map(connect).collect()
    });
    tokio::task::spawn_blocking(move || connecting.join().unwrap()).await.unwrap()
}

/// What the server said to this connection, once it says something.
async fn first_line(stream: &std::os::unix::net::UnixStream) -> String {
    let stream = stream.try_clone().unwrap();
    let reading = tokio::task::spawn_blocking(move || {
        let mut line = String::new();
        BufReader::new(stream).read_line(&mut line).map(|_| line)
    });
    reading.await.unwrap().unwrap()
}

#[test]
fn watches_that_nobody_reads_leave_room_for_everybody_else() {
    with_limits(
        limits(64, |it| {
            it.patience = Duration::from_millis(100);
        }),
        async |case| {
            let watches = unread_watches(&case.socket, 0, 64).await;
            assert!(first_line(&watches[47]).await.starts_with("HTTP/1.1 200"));
            for turned_away in &watches[48..] {
                assert!(first_line(turned_away).await.starts_with("HTTP/1.1 503"));
            }
            assert_eq!(case.get("/healthz").await.code, 200);
            assert_eq!(case.get(&format!("{BASE}/pods")).await.code, 200);
            let refused = client::ask(&case.socket, "GET", &format!("{BASE}/pods?watch=true")).await;
            assert_eq!(refused.code, 503);
            assert!(refused.message().contains("48 may be open at a time"), "{}", refused.message());
            drop(watches);
            // The server may see their end a moment later.
            while client::status(&case.socket, &format!("{BASE}/pods?watch=true")).await != 200 {}
        },
    );
}

#[test]
fn one_user_cannot_lock_out_another_and_nobody_root() {
    with_limits(
        limits(64, |it| {
            it.patience = Duration::from_millis(100);
        }),
        async |case| {
            std::fs::set_permissions(&case.socket, std::fs::Permissions::from_mode(0o666)).unwrap();
            if std::env::var_os(INSIDE).is_some() {
                eprintln!("SKIPPED: other users are not mapped into this namespace");
                return;
            }
            // As many as they like, at once: most of them do not get a place even to wait in.
            let crowd = [unread_watches(&case.socket, 1000, 300).await, unread_watches(&case.socket, 1001, 300).await];
            assert!(first_line(&crowd[0][0]).await.starts_with("HTTP/1.1 200"));
            assert!(first_line(&crowd[1][0]).await.starts_with("HTTP/1.1 200"));
            assert_eq!(case.get("/healthz").await.code, 200);
            let mut watch = Watch::open(&case.socket, &format!("{BASE}/pods?watch=true")).await;
            watch.until(|it| it["type"] == "BOOKMARK").await;
        },
    );
}

#[test]
fn a_watch_that_is_not_read_is_ended_also_when_there_is_little_to_tell() {
    let limits = limits(4, |it| {
        it.stall_timeout = Duration::from_millis(300);
        it.watches_max = 1;
    });
    with_limits(limits, async |case| {
        let path = format!("{BASE}/pods?watch=true");
        let stalled = unread_watches(&case.socket, 0, 1).await;
        // Its first line, the only one that there is, fits into the kernel's buffers.
        while client::status(&case.socket, &path).await != 503 {}
        while client::status(&case.socket, &path).await != 200 {}
        drop(stalled);
        // One that reads stays, though it has read everything long ago.
        let mut watch = Watch::open(&case.socket, &path).await;
        watch.until(|it| it["type"] == "BOOKMARK").await;
        tokio::time::timeout(Duration::from_millis(900), watch.next()).await.expect_err("it has nothing to tell");
        case.add("late", "late", &json!([]));
        watch.until(|it| it["object"]["metadata"]["name"] == "late").await;
    });
}

#[test]
fn many_short_requests_at_once_all_get_their_turn() {
    with_limits(
        limits(2, |it| {
            it.patience = Duration::from_secs(30);
        }),
        async |case| {
            let asked = (0..40).map(|_| {
                let socket = case.socket.clone();
                tokio::spawn(async move { client::ask(&socket, "GET", "/healthz").await.code })
            });
            for answer in asked.collect::<Vec<_>>() {
                assert_eq!(answer.await.unwrap(), 200);
            }
        },
    );
}

#[test]
fn nonsense_is_refused_and_hurts_nobody() {
    with_server(async |case| {
        assert!(say(&case.socket, b"\x16\x03\x01 what is this\r\n\r\n").await.starts_with("HTTP/1.1 400"));
        assert!(say(&case.socket, b"GET / HTTP/1.1\r\nno colon here\r\n\r\n").await.starts_with("HTTP/1.1 400"));
        let long = format!("GET /healthz HTTP/1.1\r\nx: {}\r\n\r\n", "y".repeat(40_000));
        assert!(say(&case.socket, long.as_bytes()).await.starts_with("HTTP/1.1 431"));
        let many = format!("GET /healthz HTTP/1.1\r\n{}\r\n", "x: y\r\n".repeat(200));
        assert!(say(&case.socket, many.as_bytes()).await.starts_with("HTTP/1.1 431"));
        assert_eq!(case.get("/healthz").await.code, 200);
    });
}

#[test]
fn a_body_is_ignored_up_to_a_size() {
    with_server(async |case| {
        let small = "GET /healthz HTTP/1.1\r\nhost: a\r\nconnection: close\r\ncontent-length: 5\r\n\r\nhello";
        assert!(say(&case.socket, small.as_bytes()).await.starts_with("HTTP/1.1 200"));
        let large = "GET /healthz HTTP/1.1\r\nhost: a\r\ncontent-length: 65537\r\n\r\n";
        let answer = say(&case.socket, large.as_bytes()).await;
        assert!(answer.starts_with("HTTP/1.1 413"), "{answer}");
        assert!(answer.contains("RequestEntityTooLarge"), "{answer}");
        let chunk = format!("8000\r\n{}\r\n", "x".repeat(0x8000));
        let chunked =
            format!("GET /healthz HTTP/1.1\r\nhost: a\r\ntransfer-encoding: chunked\r\n\r\n{}", chunk.repeat(3));
        assert!(say(&case.socket, chunked.as_bytes()).await.starts_with("HTTP/1.1 413"));
    });
}

#[test]
fn a_client_that_says_nothing_is_let_go() {
    with_limits(
        limits(1, |it| {
            it.head_timeout = Duration::from_millis(200);
        }),
        async |case| {
            let mut silent = UnixStream::connect(&case.socket).await.unwrap();
            silent.write_all(b"GET /heal").await.unwrap();
            let mut end = Vec::new();
            silent.read_to_end(&mut end).await.unwrap();
            assert_eq!(case.get("/healthz").await.code, 200);
            contract::check("/healthz", &case.get("/healthz").await);
        },
    );
}

#[test]
fn a_connection_can_be_used_again() {
    with_server(async |case| {
        let two =
            "GET /healthz HTTP/1.1\r\nhost: a\r\n\r\nGET /version HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n";
        let answers = say(&case.socket, two.as_bytes()).await;
        assert_eq!(answers.matches("HTTP/1.1 200").count(), 2, "{answers}");
    });
}
