//! Drivers introduce themselves.

use std::os::unix::net::UnixListener;
use std::time::Duration;

use rustix::fs::{AtFlags, CWD, Timespec, Timestamps};
use tokio::time::Instant;
use windlass_csi::Code;
use windlass_csi::proto::csi;
use windlass_csi::proto::registration::PluginInfo;
use windlass_csi::registration::News;
use windlass_testing::scripted::Fault;
use windlass_testing::server::Server;

use crate::driver::{Answers, LONG, stage};
use crate::registrar::{Plugin, Watched, info};

#[tokio::test]
async fn a_driver_is_registered_when_its_socket_appears_and_is_told() {
    let mut it = Watched::start();
    let script = Answers::new();
    script.capabilities.lock().unwrap().push(1);
    let mut plugin = Plugin::start_as(it.path("a-reg.sock"), info("a.example.com"), script, false);
    let News::Registered { driver, info, capabilities, socket } = it.next_whole().await else {
        panic!("not registered")
    };
    assert_eq!((driver.name(), driver.endpoint(), &socket), ("a.example.com", &*socket, &it.path("a-reg.sock")));
    assert_eq!((info.id.as_str(), capabilities.stage_unstage), ("node-1", true));
    let status = plugin.hears().await;
    assert!(status.plugin_registered && status.error.is_empty());
    // What was asked at registration is known.
    assert_eq!(driver.node_capabilities().await.unwrap(), capabilities);
    driver.stage(stage(), LONG).await.unwrap();
    assert_eq!(plugin.script.calls(), ["NodeGetInfo", "NodeGetCapabilities", "NodeStageVolume"]);
}

/// T-3.
#[tokio::test]
async fn sockets_that_were_there_first_and_sockets_in_directories_are_found() {
    let mut it = Watched::prepare();
    std::fs::create_dir_all(it.path("one/two")).unwrap();
    let _first = Plugin::start(it.path("one/two/a.sock"), info("a.example.com"));
    it.watch();
    assert_eq!(it.next().await, "+a.example.com at one/two/a.sock");
    std::fs::create_dir_all(it.path("three/four")).unwrap();
    let _second = Plugin::start(it.path("three/four/b.sock"), info("b.example.com"));
    assert_eq!(it.next().await, "+b.example.com at three/four/b.sock");
    let _third = Plugin::start(it.path("c.sock"), info("c.example.com"));
    assert_eq!(it.next().await, "+c.example.com at c.sock");
    // A directory with all that is in it.
    std::fs::rename(it.path("three"), it.path(".three")).unwrap();
    assert_eq!(it.next().await, "-b.example.com at three/four/b.sock");
    std::fs::rename(it.path(".three"), it.path("five")).unwrap();
    assert_eq!(it.next().await, "+b.example.com at five/four/b.sock");
}

#[tokio::test]
async fn a_socket_that_is_moved_into_place_counts_and_one_with_a_dot_does_not() {
    let mut it = Watched::start();
    let mut plugin = Plugin::start(it.path(".a.sock"), info("a.example.com"));
    let _other = Plugin::start(it.path("b.sock"), info("b.example.com"));
    assert_eq!(it.next().await, "+b.example.com at b.sock");
    assert_eq!(*plugin.registrar.asked.lock().unwrap(), 0);
    std::fs::rename(it.path(".a.sock"), it.path("a.sock")).unwrap();
    assert_eq!(it.next().await, "+a.example.com at a.sock");
    assert!(plugin.hears().await.plugin_registered);
}

#[tokio::test]
async fn a_socket_that_goes_takes_its_driver_along() {
    let mut it = Watched::start();
    let _plugin = Plugin::start(it.path("a.sock"), info("a.example.com"));
    assert_eq!(it.next().await, "+a.example.com at a.sock");
    std::fs::remove_file(it.path("a.sock")).unwrap();
    assert_eq!(it.next().await, "-a.example.com at a.sock");
}

/// T-3, W-11.
#[tokio::test]
async fn a_driver_that_was_restarted_is_registered_again_and_was_never_away() {
    let mut it = Watched::prepare();
    it.watch_with(|it| it.grace = LONG);
    let first = Plugin::start(it.path("a.sock"), info("a.example.com"));
    let News::Registered { driver: old, .. } = it.next_whole().await else { panic!("not registered") };
    drop(first);
    let second = Plugin::start(it.path("a.sock"), info("a.example.com"));
    let News::Registered { driver, .. } = it.next_whole().await else { panic!("not registered again") };
    driver.stage(stage(), LONG).await.unwrap();
    // Asked anew, for it may be another version.
    old.node_capabilities().await.unwrap();
    assert_eq!(second.script.calls(), ["NodeGetInfo", "NodeGetCapabilities", "NodeStageVolume"]);
}

#[tokio::test]
async fn a_driver_that_comes_back_is_there_without_any_back_off() {
    let mut it = Watched::prepare();
    it.watch_with(|it| it.back_off = LONG * 10);
    for _ in 0..3 {
        let plugin = Plugin::start(it.path("a.sock"), info("a.example.com"));
        assert_eq!(it.next().await, "+a.example.com at a.sock");
        drop(plugin);
        std::fs::remove_file(it.path("a.sock")).unwrap();
        assert_eq!(it.next().await, "-a.example.com at a.sock");
    }
}

/// Made as programs make it: seen when it is bound, and listened at later.
#[tokio::test]
async fn a_socket_that_is_seen_before_anybody_listens_is_not_given_up() {
    let mut it = Watched::prepare();
    it.watch_with(|it| it.back_off = LONG * 10);
    let socket = tokio::net::UnixSocket::new_stream().unwrap();
    socket.bind(it.path("a.sock")).unwrap();
    // By now it has been looked at, and refuses.
    let _other = Plugin::start(it.path("b.sock"), info("b.example.com"));
    assert_eq!(it.next().await, "+b.example.com at b.sock");
    let listener = socket.listen(8).unwrap().into_std().unwrap();
    let _plugin = Plugin::start_at(listener, it.path("a.sock"), info("a.example.com"));
    assert_eq!(it.next().await, "+a.example.com at a.sock");
}

#[tokio::test]
async fn a_driver_whose_successor_is_refused_is_away() {
    let mut it = Watched::prepare();
    it.watch_with(|it| it.grace = Duration::ZERO);
    let first = Plugin::start(it.path("a.sock"), info("a.example.com"));
    assert_eq!(it.next().await, "+a.example.com at a.sock");
    drop(first);
    let _second =
        Plugin::start(it.path("a.sock"), PluginInfo { supported_versions: Vec::new(), ..info("a.example.com") });
    let mut news = vec![it.next().await, it.next().await];
    news.sort();
    let wanted = ["!a.sock: it names no version of CSI that it supports: []", "-a.example.com at a.sock"];
    assert_eq!(news, wanted);
}

#[tokio::test]
async fn a_socket_that_speaks_for_another_driver_now_gives_up_the_first() {
    let mut it = Watched::start();
    let first = Plugin::start(it.path("a.sock"), info("a.example.com"));
    assert_eq!(it.next().await, "+a.example.com at a.sock");
    drop(first);
    let _second = Plugin::start(it.path("a.sock"), info("b.example.com"));
    let mut news = vec![it.next().await, it.next().await];
    news.sort();
    assert_eq!(news, ["+b.example.com at a.sock", "-a.example.com at a.sock"]);
}

/// T-2, and W-10: other than the kubelet, which refuses the second unless its version is greater.
#[tokio::test]
async fn the_newest_socket_of_a_name_wins_and_the_removal_of_the_older_one_changes_nothing() {
    let mut it = Watched::start();
    let _old = Plugin::start(it.path("old.sock"), info("a.example.com"));
    assert_eq!(it.next().await, "+a.example.com at old.sock");
    let new = Plugin::start(it.path("new.sock"), info("a.example.com"));
    assert_eq!(it.next().await, "+a.example.com at new.sock");
    std::fs::remove_file(it.path("old.sock")).unwrap();
    // Nothing is told of that, or it would be told before this.
    let _other = Plugin::start(it.path("b.sock"), info("b.example.com"));
    assert_eq!(it.next().await, "+b.example.com at b.sock");
    drop(new);
    std::fs::remove_file(it.path("new.sock")).unwrap();
    assert_eq!(it.next().await, "-a.example.com at new.sock");
}

#[tokio::test]
async fn when_the_newest_socket_of_a_name_goes_the_older_one_has_it_again() {
    let mut it = Watched::start();
    let _old = Plugin::start(it.path("old.sock"), info("a.example.com"));
    assert_eq!(it.next().await, "+a.example.com at old.sock");
    let _new = Plugin::start(it.path("new.sock"), info("a.example.com"));
    assert_eq!(it.next().await, "+a.example.com at new.sock");
    std::fs::remove_file(it.path("new.sock")).unwrap();
    assert_eq!(it.next().await, "+a.example.com at old.sock");
}

#[tokio::test]
async fn of_two_sockets_that_were_there_first_the_one_made_last_has_the_name() {
    for _ in 0..3 {
        let mut it = Watched::prepare();
        let _old = Plugin::start(it.path("z.sock"), info("a.example.com"));
        // The clock of files is too coarse to tell two that are made one after the other.
        let long_ago = Timespec { tv_sec: 1_000_000_000, tv_nsec: 0 };
        let times = Timestamps { last_access: long_ago, last_modification: long_ago };
        rustix::fs::utimensat(CWD, it.path("z.sock"), &times, AtFlags::empty()).unwrap();
        let mut new = Plugin::start(it.path("a.sock"), info("a.example.com"));
        it.watch();
        // In whatever order they answer, the last word is the right one.
        let mut last = it.next().await;
        assert!(new.hears().await.plugin_registered);
        if last != "+a.example.com at a.sock" {
            last = it.next().await;
        }
        assert_eq!(last, "+a.example.com at a.sock");
    }
}

/// T-4.
#[tokio::test]
async fn a_socket_that_is_touched_while_it_is_asked_is_asked_once() {
    let mut it = Watched::start();
    let script = Answers::new();
    script.next(Fault::NeverDone);
    let mut arrivals = script.arrivals();
    let plugin = Plugin::start_as(it.path("a.sock"), info("a.example.com"), script, false);
    arrivals.next().await;
    std::fs::set_permissions(it.path("a.sock"), std::os::unix::fs::PermissionsExt::from_mode(0o600)).unwrap();
    // Comes after, so what was touched has been looked at.
    let _other = Plugin::start(it.path("b.sock"), info("b.example.com"));
    assert_eq!(it.next().await, "+b.example.com at b.sock");
    assert_eq!(*plugin.registrar.asked.lock().unwrap(), 1);
}

#[tokio::test]
async fn a_socket_that_hangs_and_one_that_is_stale_delay_no_other() {
    let mut it = Watched::prepare();
    drop(UnixListener::bind(it.path("a-stale.sock")).unwrap());
    let _mute = UnixListener::bind(it.path("b-mute.sock")).unwrap();
    let _hangs = Plugin::start_hanging(it.path("c-hangs.sock"));
    let _live = Plugin::start(it.path("d-live.sock"), info("live.example.com"));
    it.watch();
    let mut news = Vec::new();
    for _ in 0..4 {
        news.push(it.next().await);
    }
    let live = news.iter().position(|it| it == "+live.example.com at d-live.sock");
    // Only that nobody listens can be known sooner.
    assert!(live.is_some_and(|it| it <= 1), "{news:?}");
    news.sort();
    assert!(news[0].starts_with("!a-stale.sock: GetInfo: Unavailable: the socket does not take calls: "), "{news:?}");
    assert_eq!(news[1], "!b-mute.sock: GetInfo: DeadlineExceeded: no answer in 1s");
    assert_eq!(news[2], "!c-hangs.sock: GetInfo: DeadlineExceeded: no answer in 1s");
}

#[tokio::test]
async fn a_stale_socket_that_is_made_anew_is_asked_at_once() {
    let mut it = Watched::prepare();
    drop(UnixListener::bind(it.path("a.sock")).unwrap());
    it.watch_with(|it| it.back_off = LONG * 10);
    assert!(it.next().await.starts_with("!a.sock: "));
    let _plugin = Plugin::start(it.path("a.sock"), info("a.example.com"));
    assert_eq!(it.next().await, "+a.example.com at a.sock");
}

#[tokio::test]
async fn what_is_no_socket_of_ours_is_refused_with_a_reason() {
    let mut it = Watched::start();
    let elsewhere = Watched::prepare();
    let outside = Plugin::start(elsewhere.path("a.sock"), info("a.example.com"));
    std::os::unix::fs::symlink(elsewhere.path("a.sock"), it.path("link.sock")).unwrap();
    assert_eq!(it.next().await, "!link.sock: it is a symbolic link and not a socket");
    std::os::unix::fs::symlink(elsewhere.directory.path(), it.path("directory-link")).unwrap();
    assert_eq!(it.next().await, "!directory-link: it is a symbolic link and not a socket");
    std::fs::write(it.path("file.sock"), "").unwrap();
    assert_eq!(it.next().await, "!file.sock: it is a file and not a socket");
    std::fs::create_dir(it.path("directory.sock")).unwrap();
    assert_eq!(it.next().await, "!directory.sock: it is a directory and not a socket");
    assert_eq!(*outside.registrar.asked.lock().unwrap(), 0);
}

#[tokio::test]
async fn the_socket_of_another_user_is_refused() {
    if !rustix::process::geteuid().is_root() {
        eprintln!("SKIPPED: giving a socket to another user takes root");
        return;
    }
    let mut it = Watched::start();
    let plugin = Plugin::start(it.path(".a.sock"), info("a.example.com"));
    std::os::unix::fs::chown(it.path(".a.sock"), Some(12345), None).unwrap();
    std::fs::rename(it.path(".a.sock"), it.path("a.sock")).unwrap();
    assert_eq!(it.next().await, "!a.sock: it belongs to user 12345, and neither to root nor to user 0");
    assert_eq!(*plugin.registrar.asked.lock().unwrap(), 0);
}

#[tokio::test]
async fn a_plugin_that_is_not_accepted_hears_why() {
    let mut it = Watched::start();
    let cases = [
        (
            PluginInfo { supported_versions: vec!["0.3.0".into(), "2.0.1".into()], ..info("a.example.com") },
            "no version 1.x",
        ),
        (PluginInfo { supported_versions: Vec::new(), ..info("a.example.com") }, "names no version"),
        (info("../../etc"), "its name is \"../../etc\""),
        (info(""), "must not be empty"),
        (info(&"a".repeat(64)), "at most 63 bytes"),
        (PluginInfo { endpoint: "run/csi.sock".into(), ..info("a.example.com") }, "not an absolute path"),
        (PluginInfo { endpoint: "unix:///etc/passwd".into(), ..info("a.example.com") }, "is not a socket"),
        (PluginInfo { endpoint: "/nowhere/csi.sock".into(), ..info("a.example.com") }, "cannot be reached"),
        (PluginInfo { r#type: "DRAPlugin".into(), ..info("a.example.com") }, "type \"DRAPlugin\""),
    ];
    for (number, (info, words)) in cases.into_iter().enumerate() {
        let mut plugin = Plugin::start(it.path(&format!("{number}.sock")), info);
        let status = plugin.hears().await;
        assert!(!status.plugin_registered && status.error.contains(words), "{status:?}, not {words}");
        assert!(it.next().await.contains(words));
        std::fs::remove_file(&plugin.server.path).unwrap();
        assert_eq!(it.next().await, format!("?{number}.sock"), "who keeps count hears that it is gone");
    }
}

#[tokio::test]
async fn a_driver_that_lies_or_fails_when_it_is_asked_is_refused_until_it_does_better() {
    let mut it = Watched::start();
    let script = Answers::new();
    script.node.lock().unwrap().node_id.clear();
    let mut plugin = Plugin::start_as(it.path("a.sock"), info("a.example.com"), script, false);
    let News::Refused { name, text, .. } = it.next_whole().await else { panic!("not refused") };
    assert_eq!(name.as_deref(), Some("a.example.com"));
    assert_eq!(text, "driver a.example.com: NodeGetInfo: Internal: its id of this node is empty");
    assert!(!plugin.hears().await.plugin_registered);
    plugin.script.refuse(Code::Unavailable, "not yet");
    *plugin.script.node.lock().unwrap() = csi::NodeGetInfoResponse { node_id: "n".into(), ..Default::default() };
    let mut last = it.next().await;
    while last.starts_with('!') {
        assert_eq!(last, "!a.sock: driver a.example.com: NodeGetInfo: Unavailable: not yet");
        last = it.next().await;
    }
    assert_eq!(last, "+a.example.com at a.sock");
}

#[tokio::test]
async fn a_plugin_of_another_type_is_told_once_and_left_alone() {
    let mut it = Watched::start();
    let mut other = Plugin::start(it.path("a.sock"), PluginInfo { r#type: "DevicePlugin".into(), ..info("a") });
    assert!(!other.hears().await.plugin_registered);
    assert!(it.next().await.contains("only CSIPlugin is served here"));
    // One that is asked again and again beside it shows that time passes.
    let broken = Plugin::start(it.path("b.sock"), PluginInfo { supported_versions: Vec::new(), ..info("b") });
    let mut broken = broken;
    for _ in 0..3 {
        assert!(!broken.hears().await.plugin_registered);
    }
    assert_eq!(*other.registrar.asked.lock().unwrap(), 1);
}

#[tokio::test]
async fn a_driver_at_a_socket_of_its_own_is_called_there() {
    let mut it = Watched::start();
    let elsewhere = Watched::prepare();
    let script = Answers::new();
    let server = Server::start(elsewhere.path("csi.sock"), script.routes());
    let endpoint = format!("unix://{}", server.path.display());
    let _plugin = Plugin::start(it.path("a-reg.sock"), PluginInfo { endpoint, ..info("a.example.com") });
    let News::Registered { driver, .. } = it.next_whole().await else { panic!("not registered") };
    assert_eq!(driver.endpoint(), server.path);
    assert_eq!(script.calls(), ["NodeGetInfo", "NodeGetCapabilities"]);
}

#[tokio::test]
async fn the_directory_is_made_if_it_is_not_there_and_again_if_it_is_removed() {
    use std::os::unix::fs::PermissionsExt;
    let mut it = Watched::prepare();
    let directory = it.path("registry");
    it.watch_with(|settings| settings.directory = directory.clone());
    assert_eq!(directory.metadata().unwrap().permissions().mode() & 0o777, 0o750);
    let _plugin = Plugin::start(it.path("registry/a.sock"), info("a.example.com"));
    assert_eq!(it.next().await, "+a.example.com at registry/a.sock");
    let away = it.path("away");
    std::fs::rename(&directory, &away).unwrap();
    assert_eq!(it.next().await, "-a.example.com at registry/a.sock");
    let _other = Plugin::start(it.path("registry/b.sock"), info("b.example.com"));
    assert_eq!(it.next().await, "+b.example.com at registry/b.sock");
    std::fs::remove_dir_all(&directory).unwrap();
    assert_eq!(it.next().await, "-b.example.com at registry/b.sock");
    eventually(|| directory.is_dir()).await;
}

#[tokio::test]
async fn the_watch_ends_when_nobody_reads_its_news() {
    let mut it = Watched::start();
    let plugin = Plugin::start_hanging(it.path("a.sock"));
    let _other = Plugin::start(it.path("b.sock"), info("b.example.com"));
    assert_eq!(it.next().await, "+b.example.com at b.sock");
    drop(it.news.take());
    // All that it had going ends, so the tasks of this runtime are those of connections, which end too.
    let tasks = || tokio::runtime::Handle::current().metrics().num_alive_tasks();
    eventually(|| tasks() == 0).await;
    drop(plugin);
}

/// Waits for something that nothing tells of.
async fn eventually(is_so: impl Fn() -> bool) {
    let deadline = Instant::now() + LONG;
    while !is_so() {
        assert!(Instant::now() < deadline, "it does not happen");
        tokio::task::yield_now().await;
    }
}
