//! `tree`: from the daemon and from the disk.

use std::fs;
use std::os::unix::fs::symlink;

use crate::daemon::{Daemon, list, object};
use crate::objects::*;
use crate::program::{Run, lines, windlass};

#[test]
fn the_daemon_tells_pods_and_volumes() {
    let daemon = Daemon::new([
        ("/node", object(&node())),
        ("/pods", list("Pod", &[stuck_web(), db()])),
        ("/namespaces/default/pods", list("Pod", &[stuck_web()])),
    ]);
    assert_eq!(
        daemon.print(&["tree", "-A"]),
        lines(&[
            "node-1  /var/lib/windlass",
            "├── default/web  ObjectMissing  pods/uid-web",
            "│   ├── data       empty-dir   Mounted         volumes/kubernetes.io~empty-dir/data",
            "│   └── settings   configmap   ObjectMissing",
            "└── shop/db  Leaving",
            "    └── disk   local-volume   Mounted   pods/uid-web/volumes/kubernetes.io~local-volume/disk",
        ])
    );
    assert_eq!(daemon.print(&["tree", "pod/web"]).lines().count(), 4);
    daemon.run(&["tree", "nobody"]).failed(1, &["pod \"nobody\" not found"]);
}

/// A root with a pod of two volumes and a device.
fn root() -> tempfile::TempDir {
    let root = tempfile::tempdir().unwrap();
    let pod = root.path().join("pods/uid-1");
    for volume in ["volumes/kubernetes.io~empty-dir/cache", "volumes/kubernetes.io~configmap/settings"] {
        fs::create_dir_all(pod.join(volume)).unwrap();
    }
    let devices = pod.join("volumeDevices/kubernetes.io~local-volume");
    fs::create_dir_all(&devices).unwrap();
    symlink("/dev/loop99", devices.join("disk")).unwrap();
    // A link in the place of a directory is not followed.
    symlink("/etc", pod.join("volumes/kubernetes.io~secret")).unwrap();
    fs::create_dir(root.path().join("pods/uid-2")).unwrap();
    root
}

#[test]
fn the_disk_tells_what_is_there_without_a_daemon() {
    let root = root();
    let path = root.path().canonicalize().unwrap();
    let run = Run::of(windlass().args(["tree", "--root"]).arg(root.path()).output().unwrap());
    let expected = lines(&[
        path.to_str().unwrap(),
        "├── uid-1",
        "│   ├── disk  local-volume  device /dev/loop99  pods/uid-1/volumeDevices/kubernetes.io~local-volume/disk",
        "│   ├── settings  configmap  not mounted  pods/uid-1/volumes/kubernetes.io~configmap/settings",
        "│   └── cache  empty-dir  not mounted  pods/uid-1/volumes/kubernetes.io~empty-dir/cache",
        "└── uid-2",
    ]);
    assert_eq!((run.status, run.stdout), (Some(0), expected));
    let link = "warning: left out: open pods/uid-1/volumes/kubernetes.io~secret beneath";
    assert!(run.stderr.starts_with(link) && run.stderr.lines().count() == 1, "{}", run.stderr);
    let only = windlass().args(["tree", "--root"]).arg(root.path()).args(["uid-3"]).output().unwrap();
    Run::of(only).failed(1, &["pod \"uid-3\" not found", "hint: without a daemon"]);
    let nowhere = windlass().args(["tree", "--root", "/there/is/none"]).output().unwrap();
    Run::of(nowhere).failed(1, &["look at /there/is/none"]);
}

#[test]
fn what_is_mounted_is_seen_without_being_touched() {
    let root = root();
    fs::create_dir_all(root.path().join("pods/uid-1/volumes/kubernetes.io~csi/disk/mount")).unwrap();
    // A namespace of its own, in which this user may mount; what is mounted goes with it.
    let script = "for place in configmap/settings csi/disk/mount; do
            mount -t tmpfs -o ro none \"$2/pods/uid-1/volumes/kubernetes.io~$place\" || exit 99
        done
        exec \"$1\" tree --root \"$2\"";
    let rights: &[&str] = if rustix::process::geteuid().is_root() { &[] } else { &["--map-root-user"] };
    let run = windlass_testing::process::program("unshare")
        .args(rights)
        .args(["--mount", "--propagation", "private", "sh", "-c", script, "sh", env!("CARGO_BIN_EXE_windlass")])
        .arg(root.path())
        .output();
    let run = match run {
        Ok(run) if run.status.code() != Some(99) && !run.stdout.is_empty() => run,
        other => {
            eprintln!("skipped: nothing can be mounted here: {other:?}");
            return;
        }
    };
    let text = String::from_utf8(run.stdout).unwrap();
    assert!(text.contains("settings  configmap  mounted tmpfs ro  pods/uid-1/"), "{text}");
    assert!(text.contains("disk  csi  mounted tmpfs ro  pods/uid-1/volumes/kubernetes.io~csi/disk"), "{text}");
    assert!(text.contains("cache  empty-dir  not mounted  "), "{text}");
}

#[test]
fn without_a_daemon_the_disk_is_told_unless_a_daemon_was_named() {
    let home = tempfile::tempdir().unwrap();
    let config = home.path().join("config/windlass");
    fs::create_dir_all(&config).unwrap();
    let nowhere = home.path().join("nowhere.sock");
    let named = windlass().arg("--socket").arg(&nowhere).arg("tree").output().unwrap();
    Run::of(named).failed(3, &["no daemon answers at"]);
    if rustix::process::geteuid().is_root() {
        eprintln!("skipped: root's directories are the system's, which a test leaves alone");
        return;
    }
    let root = root();
    fs::write(config.join("config.yaml"), format!("root: {}\n", root.path().display())).unwrap();
    let mut command = windlass();
    command.env("HOME", home.path()).env("XDG_CONFIG_HOME", home.path().join("config"));
    command.env("XDG_RUNTIME_DIR", home.path().join("run")).env_remove("XDG_DATA_HOME");
    let run = Run::of(command.arg("tree").output().unwrap());
    assert_eq!(run.status, Some(0), "{run:?}");
    assert!(run.stderr.contains("this is what is on disk below"), "{run:?}");
    assert!(run.stdout.contains("uid-1"), "{run:?}");
}

#[test]
fn the_disk_is_that_of_the_environment_without_a_daemon() {
    let directory = tempfile::tempdir().unwrap();
    let config = directory.path().join("config.yaml");
    fs::write(&config, "socket: /there/is/none\n").unwrap();
    let root = root();
    let tree = || {
        let mut command = windlass();
        command.arg("tree").env("WINDLASS_CONFIG", &config);
        command
    };
    let run = Run::of(tree().env("WINDLASS_ROOT", root.path()).output().unwrap());
    assert!(run.status == Some(0) && run.stdout.contains("uid-1"), "{run:?}");
    assert!(run.stderr.contains("no daemon answers at /there/is/none"), "{run:?}");
    fs::write(&config, format!("socket: /there/is/none\nroot: {}\n", root.path().display())).unwrap();
    let run = Run::of(tree().output().unwrap());
    assert!(run.status == Some(0) && run.stdout.contains("uid-1"), "{run:?}");
}
