//! What the machine runs out of costs nobody his data (I-1, I-10).

use std::fs::{self, File};
use std::io::Write;

use rustix::mount::{MountFlags, mount};
use windlass_testing::daemon::Case;
use windlass_testing::wait::until;

use crate::attacks;
use crate::victim::{WEB, canaries_live, log, pod, put_canaries, start};

attacks!["resources":
    the_disk_of_the_root_is_full,
    the_root_has_no_inodes_left,
    descriptors_run_out,
];

/// The root on a small file system of its own.
fn small_root(case: &Case, options: &std::ffi::CStr) {
    fs::create_dir_all(case.path("root")).unwrap();
    mount("root", case.path("root"), "tmpfs", MountFlags::empty(), Some(options)).unwrap();
}

fn the_disk_of_the_root_is_full(case: &Case) {
    small_root(case, c"size=1m");
    let mut daemon = start(case);
    let mut filler = File::create(case.path("root/filler")).unwrap();
    while filler.write_all(&[b'x'; 4096]).is_ok() {}
    case.manifest("web.yaml", &WEB.replace("size: large", "size: large, more: text"));
    case.manifest("other.yaml", &pod("other"));
    case.output(&["wait", "--timeout", "1s", "other"]);
    canaries_live(case, "a full disk");
    daemon.kill();
    daemon = case.start();
    case.output(&["wait", "--timeout", "1s", "web"]);
    canaries_live(case, "a full disk and a restart");
    drop(filler);
    fs::remove_file(case.path("root/filler")).unwrap();
    case.wait_mounted(&["web", "other"]);
    canaries_live(case, "room again");
    let more = case.volume("web-1", "configmap", "settings");
    until("the new content is there", &more, || more.join("more").exists());
    assert!(daemon.stop().success());
}

fn the_root_has_no_inodes_left(case: &Case) {
    small_root(case, c"size=8m,nr_inodes=120");
    let mut daemon = start(case);
    let fillers = case.path("root/fillers");
    fs::create_dir(&fillers).unwrap();
    let mut count = 0;
    while File::create(fillers.join(count.to_string())).is_ok() {
        count += 1;
    }
    case.manifest("other.yaml", &pod("other"));
    case.output(&["wait", "--timeout", "1s", "other"]);
    canaries_live(case, "no inodes");
    daemon.kill();
    // It may refuse to start, which takes nothing away.
    let refused = case.spawn(case.run());
    case.output(&["wait", "--timeout", "2s", "web"]);
    canaries_live(case, "no inodes and a restart");
    refused.kill();
    fs::remove_dir_all(&fillers).unwrap();
    daemon = case.start_until_mounted(&["web", "other"]);
    canaries_live(case, "inodes again");
    assert!(daemon.stop().success());
}

/// A daemon that may have few files open: more than it needs for some pods at once, and fewer than clients can take.
fn descriptors_run_out(case: &Case) {
    case.manifest("web.yaml", WEB);
    let run = case.run();
    let mut limited = windlass_testing::process::program("sh");
    limited.env_clear().arg("-c").arg("ulimit -n 80; exec \"$0\" \"$@\"").arg(run.get_program()).args(run.get_args());
    for (name, value) in run.get_envs() {
        limited.env(name, value.unwrap_or_default());
    }
    let daemon = case.start_as(limited);
    case.wait_mounted(&["web"]);
    put_canaries(case);
    let hogs: Vec<_> =
        (0..120).filter_map(|_| std::os::unix::net::UnixStream::connect(case.path("run/api.sock")).ok()).collect();
    for number in 0..10 {
        case.manifest(&format!("more-{number}.yaml"), &pod(&format!("more-{number}")));
    }
    case.output(&["wait", "--timeout", "2s", "more-9"]);
    canaries_live(case, "no descriptors");
    assert!(daemon.log().contains("Too many open files"), "nothing ran out\n{}", log(case));
    drop(hogs);
    // Nobody need wait for the next try of what has failed often.
    case.ask(&["retry", "--all"]);
    for number in 0..10 {
        let name = format!("more-{number}");
        let output = case.output(&["wait", "--timeout", "30s", &name]);
        assert!(output.status.success(), "{name} does not come once there are descriptors again\n{}", log(case));
    }
    canaries_live(case, "descriptors again");
    daemon.kill();
}
