//! A directory that is not the one that was entered is lost, not empty (I-1).

use std::ffi::CString;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use rustix::mount::{MountFlags, UnmountFlags, mount, mount_bind, mount_move, unmount};
use rustix::process::Signal;
use windlass_testing::daemon::{Case, Daemon};
use windlass_testing::silent::Silent;
use windlass_testing::wait::until;

use crate::victim::{WEB, canaries_live, pass_the_delay_blindly, pod, put, put_canaries, start};
use crate::{attacks, skip};

attacks!["mounts":
    the_manifests_are_unmounted_and_a_file_is_touched_at_their_source,
    what_is_mounted_and_unmounted_around_the_manifests_is_noticed,
    the_manifests_are_unmounted_and_the_daemon_is_hung_up,
    the_manifests_are_unmounted_for_good_and_a_pod_is_let_go,
    an_empty_file_system_covers_the_manifests,
    an_empty_file_system_covers_a_part_of_the_manifests,
    an_overlay_covers_the_manifests,
    a_dead_file_system_covers_the_manifests,
    a_parent_of_the_manifests_is_covered,
    the_manifests_are_not_mounted_at_the_start,
    the_manifests_are_replaced_by_a_link_to_nothing_much,
    a_mount_below_the_manifests_goes_with_its_mount_point,
    an_unmount_uncovers_older_manifests,
    a_manifest_that_is_mounted_by_itself_is_unmounted,
    a_link_leads_through_a_mount_that_goes_and_comes_back_torn,
    a_directory_without_manifests_takes_their_place,
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

/// The kernel tells whoever watches files nothing of it, and nobody hangs the daemon up or touches a file.
fn what_is_mounted_and_unmounted_around_the_manifests_is_noticed(case: &Case) {
    let [files, source, aside, above] = ["files", "source", "aside", "above"].map(|it| case.path(it));
    let manifests = above.join("manifests");
    for path in [&files.join("team"), &source.join("manifests"), &aside, &above] {
        fs::create_dir_all(path).unwrap();
    }
    put(&files.join("team"), "web.yaml", WEB);
    put(&files, "other.yaml", &pod("other"));
    fs::remove_dir(case.path("manifests")).unwrap();
    symlink(&manifests, case.path("manifests")).unwrap();
    let bind = |source: &Path, target: &Path| mount_bind(source, target).unwrap();
    let unbind = |target: &Path| unmount(target, UnmountFlags::empty()).unwrap();
    let detach = |target: &Path| unmount(target, UnmountFlags::DETACH).unwrap();
    let cover = |target: &Path| mount("empty", target, "tmpfs", MountFlags::empty(), None).unwrap();
    // Below are two mounts: one of the parent, and in it one of the manifests.
    bind(&source, &above);
    bind(&files, &manifests);
    let daemon = case.start_until_mounted(&["web", "other"]);
    put_canaries(case);
    let team = manifests.join("team");
    let is_well = || {
        let node = case.ask(&["describe", "node"]);
        let is_true = |kind| node.lines().any(|it| it.split_whitespace().take(2).eq([kind, "True"]));
        is_true("SourceComplete") && is_true("ManifestsValid")
    };
    let until_well = |what: &str, is: bool| {
        until(&format!("after {what}, all is well is {is}"), &case.path("log"), || is_well() == is);
        canaries_live(case, what);
    };
    /// What is done, how, and how it is undone.
    type Round<'a> = (&'a str, &'a dyn Fn(), &'a dyn Fn());
    let rounds: [Round<'_>; 7] = [
        ("an unmount", &|| unbind(&manifests), &|| bind(&files, &manifests)),
        ("a lazy unmount", &|| detach(&manifests), &|| bind(&files, &manifests)),
        ("a move", &|| mount_move(&manifests, &aside).unwrap(), &|| mount_move(&aside, &manifests).unwrap()),
        ("a tmpfs over them", &|| cover(&manifests), &|| unbind(&manifests)),
        ("a tmpfs over a part", &|| cover(&team), &|| unbind(&team)),
        ("a tmpfs over the parent", &|| cover(&above), &|| unbind(&above)),
        ("an unmount of the parent", &|| detach(&above), &|| {
            bind(&source, &above);
            bind(&files, &manifests);
        }),
    ];
    for (what, step, back) in rounds {
        step();
        until_well(what, false);
        back();
        until_well(&format!("{what} and back"), true);
    }
    // The same is there again before anybody can look, and nothing was lost.
    bind(&files, &manifests);
    unbind(&manifests);
    put(&manifests, "third.yaml", &pod("third"));
    case.wait_mounted(&["third"]);
    until_well("a remount", true);
    assert!(daemon.stop().success());
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

/// What nobody can remove goes by a command, and nothing else with it; and if it was a mistake, the mount brings it back.
fn the_manifests_are_unmounted_for_good_and_a_pod_is_let_go(case: &Case) {
    let (daemon, source) = bound(case);
    put(&source, "other.yaml", &pod("other"));
    case.wait_mounted(&["other"]);
    let refused = case.output(&["delete", "pod", "other"]);
    assert!(!refused.status.success(), "its manifest is there, and says what is meant");
    unbind(case);
    daemon.signal(Signal::HUP);
    daemon.until_logged("let its pods go (windlass delete pod)");
    case.ask(&["delete", "pod", "other"]);
    case.wait_unmounted(&["other"]);
    pass_the_delay_blindly(case);
    canaries_live(case, "another pod was let go");
    assert!(case.ask(&["get", "pods"]).contains("web"), "it is in force");
    mount_bind(&source, case.path("manifests")).unwrap();
    case.wait_mounted(&["other"]);
    canaries_live(case, "the manifests are back");
    assert!(daemon.stop().success());
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

/// Automounters remove what they mount on.
fn a_mount_below_the_manifests_goes_with_its_mount_point(case: &Case) {
    let (source, above) = (case.path("source"), case.path("manifests/above"));
    let team = above.join("team");
    fs::create_dir_all(&source).unwrap();
    fs::create_dir_all(&team).unwrap();
    put(&source, "web.yaml", WEB);
    mount_bind(&source, &team).unwrap();
    let daemon = case.start();
    case.wait_mounted(&["web"]);
    put_canaries(case);
    let unbind = || unmount(&team, UnmountFlags::DETACH).unwrap();
    let bind = || {
        fs::create_dir_all(&team).unwrap();
        mount_bind(&source, &team).unwrap();
        case.wait_mounted(&["web"]);
    };
    steps(
        case,
        daemon,
        &[
            ("unmounted and its mount point removed at once", &|_| {
                unbind();
                fs::remove_dir(&team).unwrap();
            }),
            ("mounted again", &|_| bind()),
            ("unmounted", &|_| unbind()),
            ("its mount point removed later", &|_| fs::remove_dir(&team).unwrap()),
            ("hung up", &|daemon| daemon.signal(Signal::HUP)),
            ("another of its name", &|_| fs::create_dir(&team).unwrap()),
            ("mounted over that", &|_| bind()),
            ("unmounted, and all above removed", &|_| {
                unbind();
                fs::remove_dir_all(&above).unwrap();
            }),
            ("a file in its place", &|_| fs::write(&above, "").unwrap()),
            ("hung up again", &|daemon| daemon.signal(Signal::HUP)),
        ],
    );
}

/// The same names, and less in them: what is read where something was unmounted takes nothing away.
fn an_unmount_uncovers_older_manifests(case: &Case) {
    let without = WEB.replace("    - {name: cache, mountPath: /cache}\n", "");
    let without = without.replace("  - {name: cache, emptyDir: {medium: Memory}}\n", "");
    let pod_goes = format!("{}...\n", &WEB[..WEB.rfind("---\n").unwrap()]);
    for (what, older) in [
        ("another uid", WEB.replace("web-1", "old-1")),
        ("a volume less", without),
        ("no pod", pod_goes),
        ("an empty list", "{apiVersion: v1, kind: List, items: []}\n".into()),
    ] {
        put(&case.path("manifests"), "web.yaml", &older);
        let (daemon, source) = bound(case);
        for (step, signal) in [("touched at the source", None), ("hung up", Some(Signal::HUP))] {
            if signal.is_none() {
                unbind(case);
                touch(&source.join("web.yaml"));
            }
            signal.into_iter().for_each(|it| daemon.signal(it));
            pass_the_delay_blindly(case);
            canaries_live(case, &format!("{what}, {step}"));
        }
        // What is removed from it took nothing away before.
        fs::remove_file(case.path("manifests/web.yaml")).unwrap();
        pass_the_delay_blindly(case);
        canaries_live(case, &format!("{what}, removed"));
        mount_bind(&source, case.path("manifests")).unwrap();
        daemon.signal(Signal::HUP);
        case.wait_mounted(&["web"]);
        canaries_live(case, &format!("{what}, put right"));
        assert!(daemon.stop().success());
        unbind(case);
    }
}

fn a_manifest_that_is_mounted_by_itself_is_unmounted(case: &Case) {
    let (manifest, real) = (case.path("manifests/web.yaml"), case.path("real.yaml"));
    fs::write(&manifest, "{apiVersion: v1, kind: List, items: []}\n").unwrap();
    fs::write(&real, WEB).unwrap();
    mount_bind(&real, &manifest).unwrap();
    let daemon = case.start();
    case.wait_mounted(&["web"]);
    put_canaries(case);
    steps(
        case,
        daemon,
        &[
            ("unmounted", &|_| unmount(&manifest, UnmountFlags::DETACH).unwrap()),
            ("hung up", &|daemon| daemon.signal(Signal::HUP)),
            ("touched below", &|_| fs::write(&manifest, "{apiVersion: v1, kind: List, items: []}\n").unwrap()),
            ("mounted again", &|_| mount_bind(&real, &manifest).unwrap()),
            ("hung up again", &|daemon| daemon.signal(Signal::HUP)),
            ("unmounted and removed", &|_| {
                unmount(&manifest, UnmountFlags::DETACH).unwrap();
                fs::remove_file(&manifest).unwrap();
            }),
        ],
    );
}

fn a_link_leads_through_a_mount_that_goes_and_comes_back_torn(case: &Case) {
    let (real, source) = (case.path("real"), case.path("source"));
    fs::create_dir_all(&real).unwrap();
    fs::create_dir_all(&source).unwrap();
    fs::write(real.join("web.yaml"), WEB).unwrap();
    mount_bind(&real, &source).unwrap();
    symlink(source.join("web.yaml"), case.path("manifests/web.yaml")).unwrap();
    let daemon = case.start();
    case.wait_mounted(&["web"]);
    put_canaries(case);
    steps(
        case,
        daemon,
        &[
            ("unmounted", &|daemon| {
                unmount(&source, UnmountFlags::DETACH).unwrap();
                daemon.signal(Signal::HUP);
            }),
            ("torn and mounted again", &|daemon| {
                fs::write(real.join("web.yaml"), &WEB[..WEB.rfind("---\n").unwrap()]).unwrap();
                mount_bind(&real, &source).unwrap();
                daemon.signal(Signal::HUP);
            }),
        ],
    );
}

/// A fresh file system has a directory, and a checkout that was not finished a README.
fn a_directory_without_manifests_takes_their_place(case: &Case) {
    let (first, second, fresh) = (case.path("first"), case.path("second"), case.path("fresh"));
    fs::remove_dir_all(case.path("manifests")).unwrap();
    for directory in [&first, &second, &fresh] {
        fs::create_dir_all(directory.join("lost+found")).unwrap();
        fs::write(directory.join("README"), "work in progress").unwrap();
    }
    put(&first, "web.yaml", WEB);
    symlink(&first, case.path("manifests")).unwrap();
    let daemon = case.start();
    case.wait_mounted(&["web"]);
    put_canaries(case);
    let turn = |to: &Path| {
        symlink(to, case.path("link")).unwrap();
        fs::rename(case.path("link"), case.path("manifests")).unwrap();
    };
    steps(
        case,
        daemon,
        &[
            ("turned to a fresh file system", &|_| turn(&second)),
            ("which is filled", &|_| put(&second, "other.yaml", &crate::victim::pod("other"))),
            ("turned back", &|_| turn(&first)),
            ("another moved to where it leads", &|_| {
                fs::rename(&first, case.path("old")).unwrap();
                fs::rename(&fresh, &first).unwrap();
            }),
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
