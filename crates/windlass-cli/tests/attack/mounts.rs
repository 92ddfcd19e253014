//! A directory that is not the one that was entered is lost, not empty (I-1).

use std::{
    ffi::CString,
    fs,
    os::unix::fs::symlink,
    path::{Path, PathBuf},
};

use rustix::{
    mount::{MountFlags, UnmountFlags, mount, mount_bind, unmount},
    process::Signal,
};
use windlass_testing::{
    daemon::{Case, Daemon},
    silent::Silent,
};

use crate::{
    attacks, skip,
    victim::{WEB, canaries_live, pass_the_delay_blindly, put, put_canaries, start},
};

attacks!["mounts":
    the_manifests_are_unmounted_and_a_file_is_touched_at_their_source,
    the_manifests_are_unmounted_and_the_daemon_is_hung_up,
    an_empty_file_system_covers_the_manifests,
    an_empty_file_system_covers_a_part_of_the_manifests,
    an_overlay_covers_the_manifests,
    a_dead_file_system_covers_the_manifests,
    a_parent_of_the_manifests_is_covered,
    the_manifests_are_not_mounted_at_the_start,
    the_manifests_are_replaced_by_a_link_to_nothing_much,
    the_root_is_replaced_by_a_link,
];

/// The manifests are a bind mount of `source`; the pod is mounted and has canaries.
fn bound(case: &Case) -> (Daemon, PathBuf) {
    let source = case.path("source");
    fs::create_dir_all(&source).unwrap();
    put(&source, "web.yaml", WEB);
    mount_bind(&source, case.path("manifests")).unwrap();
    let daemon = case.start_until_mounted(&["web"]);
    put_canaries(case);
    (daemon, source)
}

/// What is done, and how.
type Step<'a> = (&'a str, &'a dyn Fn(&Daemon));

/// After each step the canaries live, and so they do after a restart.
fn steps(case: &Case, mut daemon: Daemon, steps: &[Step<'_>]) {
    let mut so_far = String::new();
    for (what, step) in steps {
        step(&daemon);
        so_far = format!("{so_far}{what}, ");
        pass_the_delay_blindly(case);
        canaries_live(case, &so_far);
    }
    daemon.kill();
    // It may refuse to start where there are no manifests, which takes nothing away either.
    let mut command = case.run();
    command.args(["--stop-timeout", "1s"]);
    daemon = case.spawn(command);
    pass_the_delay_blindly(case);
    canaries_live(case, &format!("{so_far}a restart"));
    daemon.kill();
}

fn unbind(case: &Case) {
    unmount(case.path("manifests"), UnmountFlags::DETACH).unwrap();
}

fn touch(path: &Path) {
    fs::write(path, format!("{WEB}# touched\n")).unwrap();
}

fn the_manifests_are_unmounted_and_a_file_is_touched_at_their_source(case: &Case) {
    let (daemon, source) = bound(case);
    steps(
        case,
        daemon,
        &[
            ("unmounted", &|_| unbind(case)),
            ("touched at the source", &|_| touch(&source.join("web.yaml"))),
            ("a new file at the source", &|_| put(&source, "other.yaml", "apiVersion: v1\nkind: List\nitems: []\n")),
            ("removed at the source", &|_| fs::remove_file(source.join("other.yaml")).unwrap()),
            ("a file at the bare mount point", &|_| {
                put(&case.path("manifests"), "other.yaml", "apiVersion: v1\nkind: List\nitems: []\n");
            }),
        ],
    );
}

fn the_manifests_are_unmounted_and_the_daemon_is_hung_up(case: &Case) {
    let (daemon, source) = bound(case);
    steps(
        case,
        daemon,
        &[
            ("unmounted", &|_| unbind(case)),
            ("hung up", &|daemon| daemon.signal(Signal::HUP)),
            ("touched at the source", &|_| touch(&source.join("web.yaml"))),
            ("hung up again", &|daemon| daemon.signal(Signal::HUP)),
        ],
    );
}

fn an_empty_file_system_covers_the_manifests(case: &Case) {
    // Its source lies beside, so that events come from below.
    let (daemon, source) = bound(case);
    let manifests = case.path("manifests");
    steps(
        case,
        daemon,
        &[
            ("covered", &|_| mount("empty", &manifests, "tmpfs", MountFlags::empty(), None).unwrap()),
            ("touched below", &|_| touch(&source.join("web.yaml"))),
            ("hung up", &|daemon| daemon.signal(Signal::HUP)),
            ("written above", &|_| put(&manifests, "other.yaml", "apiVersion: v1\nkind: List\nitems: []\n")),
            ("removed above", &|_| fs::remove_file(manifests.join("other.yaml")).unwrap()),
        ],
    );
}

fn an_empty_file_system_covers_a_part_of_the_manifests(case: &Case) {
    case.manifest("team/web.yaml", WEB);
    let daemon = case.start_until_mounted(&["web"]);
    put_canaries(case);
    let (team, manifests) = (case.path("manifests/team"), case.path("manifests"));
    steps(
        case,
        daemon,
        &[
            ("covered", &|_| mount("empty", &team, "tmpfs", MountFlags::empty(), None).unwrap()),
            ("a file beside", &|_| put(&manifests, "other.yaml", "apiVersion: v1\nkind: List\nitems: []\n")),
            ("a file in it", &|_| put(&team, "other2.yaml", "apiVersion: v1\nkind: List\nitems: []\n")),
            ("hung up", &|daemon| daemon.signal(Signal::HUP)),
        ],
    );
}

/// An overlay shows what is below it: over something else it is lost, over the manifests it has all of them.
fn an_overlay_covers_the_manifests(case: &Case) {
    let (daemon, source) = bound(case);
    let manifests = case.path("manifests");
    // Its own layer must be on a file system that can hold it, which an overlay may not be.
    let layers = case.path("layers");
    fs::create_dir_all(&layers).unwrap();
    mount("layers", &layers, "tmpfs", MountFlags::empty(), None).unwrap();
    for below in ["empty", "upper", "work"] {
        fs::create_dir_all(layers.join(below)).unwrap();
    }
    let overlay = |lower: &Path| {
        let [upper, work] = ["upper", "work"].map(|it| layers.join(it).display().to_string());
        let options = format!("lowerdir={},upperdir={upper},workdir={work}", lower.display());
        mount("overlay", &manifests, "overlay", MountFlags::empty(), Some(&*CString::new(options).unwrap())).unwrap();
    };
    steps(
        case,
        daemon,
        &[
            ("covered by an empty overlay", &|_| overlay(&layers.join("empty"))),
            ("touched below", &|_| touch(&source.join("web.yaml"))),
            ("hung up", &|daemon| daemon.signal(Signal::HUP)),
            ("uncovered", &|_| unbind(case)),
            ("covered by an overlay of the manifests", &|_| overlay(&source)),
            ("uncovered again", &|_| unbind(case)),
        ],
    );
}

fn a_dead_file_system_covers_the_manifests(case: &Case) {
    let (daemon, source) = bound(case);
    // Its server has ended: every call fails at once, as on a stale file system of a network.
    match Silent::mount(&case.path("manifests")) {
        Ok(silent) => drop(silent),
        Err(error) => skip(&format!("there is no FUSE here: {error}")),
    }
    steps(
        case,
        daemon,
        &[
            ("dead", &|_| {}),
            ("touched below", &|_| touch(&source.join("web.yaml"))),
            ("hung up", &|daemon| daemon.signal(Signal::HUP)),
        ],
    );
}

fn a_parent_of_the_manifests_is_covered(case: &Case) {
    let above = case.path("above");
    let manifests = above.join("manifests");
    fs::create_dir_all(&manifests).unwrap();
    put(&manifests, "web.yaml", WEB);
    let mut command = case.run();
    command.arg("--removal-delay").arg("200ms");
    let arguments: Vec<_> = command
        .get_args()
        .map(|it| if it == case.path("manifests") { manifests.clone().into_os_string() } else { it.to_owned() })
        .collect();
    let mut daemon = case.windlass();
    daemon.args(arguments);
    let daemon = case.start_as(daemon);
    case.wait_mounted(&["web"]);
    put_canaries(case);
    mount("empty", &above, "tmpfs", MountFlags::empty(), None).unwrap();
    fs::create_dir(&manifests).unwrap();
    for (what, signal) in [("covered", None), ("covered and hung up", Some(Signal::HUP))] {
        signal.into_iter().for_each(|it| daemon.signal(it));
        put(&manifests, "other.yaml", "apiVersion: v1\nkind: List\nitems: []\n");
        pass_the_delay_blindly(case);
        canaries_live(case, what);
    }
    daemon.kill();
}

fn the_manifests_are_not_mounted_at_the_start(case: &Case) {
    let (daemon, source) = bound(case);
    daemon.kill();
    unbind(case);
    let daemon = case.start();
    pass_the_delay_blindly(case);
    canaries_live(case, "a start on the bare mount point");
    // Others come and go meanwhile.
    put(&case.path("manifests"), "other.yaml", &crate::victim::pod("other"));
    case.wait_mounted(&["other"]);
    daemon.signal(Signal::HUP);
    pass_the_delay_blindly(case);
    canaries_live(case, "a start on the bare mount point, a pod and a hangup");
    daemon.kill();
    mount_bind(&source, case.path("manifests")).unwrap();
    let daemon = case.start_until_mounted(&["web"]);
    canaries_live(case, "a start with everything in its place again");
    assert!(daemon.stop().success());
}

fn the_manifests_are_replaced_by_a_link_to_nothing_much(case: &Case) {
    let daemon = start(case);
    let (manifests, empty) = (case.path("manifests"), case.path("empty"));
    fs::create_dir(&empty).unwrap();
    steps(
        case,
        daemon,
        &[
            ("moved away", &|_| fs::rename(&manifests, case.path("away")).unwrap()),
            ("a link in its place", &|_| symlink(&empty, &manifests).unwrap()),
            ("hung up", &|daemon| daemon.signal(Signal::HUP)),
            ("touched where it is now", &|_| touch(&case.path("away/web.yaml"))),
        ],
    );
}

/// Whoever replaces the root by a link to somewhere else has nothing written or removed there.
fn the_root_is_replaced_by_a_link(case: &Case) {
    let daemon = start(case);
    let elsewhere = case.path("elsewhere");
    fs::create_dir_all(elsewhere.join("pods/web-1/volumes/kubernetes.io~empty-dir/scratch")).unwrap();
    let canary = elsewhere.join("pods/web-1/volumes/kubernetes.io~empty-dir/scratch/canary");
    fs::write(&canary, crate::victim::CANARY).unwrap();
    fs::rename(case.path("root"), case.path("root-moved")).unwrap();
    symlink(&elsewhere, case.path("root")).unwrap();
    case.manifest("other.yaml", &crate::victim::pod("other"));
    case.remove_manifest("web.yaml");
    case.output(&["wait", "--for", "unmounted", "--timeout", "3s", "web"]);
    assert_eq!(fs::read_to_string(&canary).unwrap(), crate::victim::CANARY);
    assert!(!elsewhere.join("pods/other-1").exists(), "nothing is made where the link leads");
    daemon.kill();
}
