//! Connections that break, and drivers that come and go.

use std::io::{Read, Write};
use std::os::unix::net::{UnixListener, UnixStream};

use tempfile::TempDir;
use windlass_csi::{Code, Driver, End, Limits};
use windlass_testing::scripted::Fault;
use windlass_testing::server::Server;

use crate::driver::{Answers, LONG, SHORT, but_for_questions, driver_at, publish, serve, stage};

#[tokio::test]
async fn nothing_was_sent_where_nobody_listens() {
    let directory = TempDir::new().unwrap();
    let absent = directory.path().join("absent.sock");
    let stale = directory.path().join("stale.sock");
    drop(UnixListener::bind(&stale).unwrap());
    let file = directory.path().join("file");
    std::fs::write(&file, "").unwrap();
    for path in [absent, stale, file, directory.path().to_path_buf()] {
        let error = driver_at(&path).stage(stage(), LONG).await.unwrap_err();
        assert_eq!((error.code, error.end), (Code::Unavailable, End::NotSent), "{error}");
        assert!(error.message.contains(path.to_str().unwrap()), "{error}");
    }
}

#[tokio::test]
async fn a_connection_that_is_cut_in_mid_call_leaves_the_end_unknown() {
    let it = serve();
    let mut arrivals = it.script.arrivals();
    it.script.next(Fault::NeverDone);
    let driver = it.driver.clone();
    let call = tokio::spawn(async move { driver.stage(stage(), LONG).await });
    arrivals.next().await;
    drop(it.server);
    let error = call.await.unwrap().unwrap_err();
    assert_eq!((error.code, error.end, error.lied), (Code::Unavailable, End::Unknown, false), "{error}");
    // From now on there is nobody to send anything to.
    assert_eq!(it.driver.stage(stage(), LONG).await.unwrap_err().end, End::NotSent);
}

/// Reads what a client sends up to the frame that begins its call (HEADERS): before that it is known that nothing was sent.
fn until_called(stream: &mut UnixStream) {
    let mut preface = [0; 24];
    stream.read_exact(&mut preface).unwrap();
    loop {
        let mut head = [0; 9];
        stream.read_exact(&mut head).unwrap();
        let length = u32::from_be_bytes([0, head[0], head[1], head[2]]);
        std::io::copy(&mut (&*stream).take(length.into()), &mut std::io::sink()).unwrap();
        if head[3] == 1 {
            return;
        }
    }
}

#[tokio::test]
async fn a_peer_that_closes_after_reading_leaves_the_end_unknown() {
    let directory = TempDir::new().unwrap();
    let path = directory.path().join("csi.sock");
    let listener = UnixListener::bind(&path).unwrap();
    let peer = std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        until_called(&mut stream);
    });
    let error = driver_at(&path).stage(stage(), LONG).await.unwrap_err();
    assert_eq!((error.code, error.end), (Code::Unavailable, End::Unknown), "{error}");
    peer.join().unwrap();
}

#[tokio::test]
async fn a_peer_that_does_not_speak_the_language_leaves_the_end_unknown() {
    let directory = TempDir::new().unwrap();
    let path = directory.path().join("csi.sock");
    let listener = UnixListener::bind(&path).unwrap();
    let peer = std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        until_called(&mut stream);
        stream.write_all(b"HTTP/1.1 400 Bad Request\r\n\r\n").unwrap();
        let mut rest = Vec::new();
        let _ = stream.read_to_end(&mut rest);
    });
    let error = driver_at(&path).stage(stage(), LONG).await.unwrap_err();
    assert_eq!(error.end, End::Unknown, "{error}");
    peer.join().unwrap();
}

#[tokio::test]
async fn a_driver_that_was_restarted_between_calls_is_called_as_if_nothing_had_been() {
    let mut it = serve();
    for round in 1..=20 {
        it.driver.stage(stage(), LONG).await.unwrap();
        assert_eq!(but_for_questions(it.script.effects()), vec!["NodeStageVolume"; round]);
        let path = it.server.path.clone();
        drop(it.server);
        it.server = Server::start(path, it.script.routes());
    }
}

/// Also where it is not noticed in between: the one that was called before is gone, and its connection with it.
#[tokio::test]
async fn another_driver_at_the_same_path_is_sent_nothing_but_the_question_who_it_is() {
    let mut it = serve();
    it.driver.stage(stage(), LONG).await.unwrap();
    let path = it.server.path.clone();
    drop(it.server);
    let other = Answers::new();
    other.plugin.lock().unwrap().name = "other.example.com".into();
    it.server = Server::start(path, other.routes());
    let error = it.driver.stage(stage(), LONG).await.unwrap_err();
    assert_eq!((error.code, error.end, error.lied), (Code::Unavailable, End::NotSent, true), "{error}");
    assert!(error.message.contains("is served by driver \"other.example.com\""), "{error}");
    assert_eq!(it.driver.refused(), Some(error.message));
    assert_eq!(other.calls(), ["GetPluginInfo"]);
    other.plugin.lock().unwrap().name = "disks.example.com".into();
    it.driver.stage(stage(), LONG).await.unwrap();
    assert_eq!(it.driver.refused(), None);
}

#[tokio::test]
async fn a_driver_that_is_only_expected_is_asked_who_it_is_before_anything_else() {
    let it = serve();
    let expected = Driver::expected("disks.example.com", it.server.path.clone(), Limits::default(), Default::default());
    expected.stage(stage(), LONG).await.unwrap();
    expected.stage(stage(), LONG).await.unwrap();
    assert_eq!(it.script.calls(), ["GetPluginInfo", "NodeStageVolume", "NodeStageVolume"]);
}

#[tokio::test]
async fn a_driver_that_comes_back_at_the_same_path_is_found_by_the_next_call() {
    let it = serve();
    it.driver.stage(stage(), LONG).await.unwrap();
    let path = it.server.path.clone();
    drop(it.server);
    assert_eq!(it.driver.stage(stage(), LONG).await.unwrap_err().end, End::NotSent);
    let _server = Server::start(path, it.script.routes());
    it.driver.stage(stage(), LONG).await.unwrap();
}

#[tokio::test]
async fn a_call_that_timed_out_does_not_take_the_others_with_it() {
    let it = serve();
    let mut arrivals = it.script.arrivals();
    it.script.next(Fault::NeverDone);
    it.script.next(Fault::NeverDone);
    let driver = it.driver.clone();
    let other = tokio::spawn(async move { driver.publish(publish(), LONG).await });
    arrivals.next().await;
    // The connection is given up for new calls now.
    assert_eq!(it.driver.stage(stage(), SHORT).await.unwrap_err().code, Code::DeadlineExceeded);
    it.driver.stage(stage(), LONG).await.unwrap();
    assert!(!other.is_finished());
    drop(it.server);
    assert_eq!(other.await.unwrap().unwrap_err().end, End::Unknown);
}

#[tokio::test]
async fn many_calls_share_one_connection() {
    let directory = TempDir::new().unwrap();
    let path = directory.path().join("csi.sock");
    let script = Answers::new();
    let _server = Server::start(&path, script.routes());
    let driver = driver_at(&path);
    let calls: Vec<_> = (0..200)
        .map(|_| {
            let driver = driver.clone();
            tokio::spawn(async move { driver.stage(stage(), LONG).await })
        })
        .collect();
    for call in calls {
        call.await.unwrap().unwrap();
    }
    let sockets = std::fs::read_to_string("/proc/self/net/unix").unwrap();
    let accepted = sockets.lines().filter(|it| it.ends_with(path.to_str().unwrap())).count();
    // One that listens and one that was accepted.
    assert_eq!(accepted, 2, "{sockets}");
}

#[tokio::test]
async fn a_path_that_is_longer_than_an_address_can_be_connected_to() {
    let directory = TempDir::new().unwrap();
    let deep = directory.path().join("d".repeat(120));
    std::fs::create_dir(&deep).unwrap();
    let script = Answers::new();
    let short = directory.path().join("csi.sock");
    let _server = Server::start(&short, script.routes());
    let long = deep.join("csi.sock");
    std::fs::rename(&short, &long).unwrap();
    Driver::new("disks.example.com", long, Limits::default()).stage(stage(), LONG).await.unwrap();
}
