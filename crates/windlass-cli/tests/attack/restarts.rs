//! What a start must not take for a wish (I-1, I-11).

use std::time::Duration;
use std::{fs, thread};

use windlass_testing::daemon::{Case, Daemon};

use crate::victim::{
    CANARY, WEB, canaries_live, log, overwrite, pass_the_delay, pass_the_delay_blindly, pod, put_canaries, scratch,
    start,
};
use crate::{attacks, rounds};

attacks!["restarts":
    a_conflict_keeps_its_winner_over_a_kill,
    a_conflict_of_uids_keeps_its_winner_over_a_kill,
    a_conflict_that_arose_while_nobody_ran_takes_nothing_away,
    a_file_is_away_for_a_moment_at_the_start,
    the_manifests_are_empty_at_the_start,
    a_manifest_is_empty_at_the_start,
    a_kind_is_misspelled_at_the_start,
    the_host_is_renamed,
    a_volume_is_missing_from_its_pod_at_the_start,
    it_is_killed_in_the_middle_of_each_accident,
];

/// Starts again without mercy, and lets the time pass after which things go.
fn killed_and_started(case: &Case, daemon: Daemon) -> Daemon {
    daemon.kill();
    let daemon = case.start();
    pass_the_delay_blindly(case);
    daemon
}

/// A second manifest that cannot be in force beside the first: the first stays in force.
fn keeps_its_winner(case: &Case, other: &str, what: &str) {
    case.manifest("b.yaml", WEB);
    let mut daemon = case.start_until_mounted(&["web"]);
    put_canaries(case);
    case.manifest("a.yaml", other);
    daemon.until_logged("a.yaml");
    pass_the_delay(case, &case.path("manifests"));
    canaries_live(case, what);
    for _ in 0..2 {
        daemon = killed_and_started(case, daemon);
        canaries_live(case, &format!("{what} and a kill"));
    }
    assert!(daemon.stop().success());
}

fn a_conflict_keeps_its_winner_over_a_kill(case: &Case) {
    keeps_its_winner(case, &pod("web").replace("web-1", "web-2"), "another uid and other volumes");
}

fn a_conflict_of_uids_keeps_its_winner_over_a_kill(case: &Case) {
    keeps_its_winner(case, &pod("other").replace("other-1", "web-1"), "two pods of one uid");
}

fn a_conflict_that_arose_while_nobody_ran_takes_nothing_away(case: &Case) {
    for (what, other) in [
        ("another uid", pod("web").replace("web-1", "web-2")),
        ("the same uid", pod("other").replace("other-1", "web-1")),
        ("the same pod with fewer volumes", pod("web")),
    ] {
        case.manifest("b.yaml", WEB);
        let daemon = case.start_until_mounted(&["web"]);
        put_canaries(case);
        daemon.kill();
        case.manifest("a.yaml", &other);
        let daemon = case.start();
        pass_the_delay_blindly(case);
        canaries_live(case, what);
        case.remove_manifest("a.yaml");
        case.wait_mounted(&["web"]);
        canaries_live(case, what);
        assert!(daemon.stop().success());
    }
}

fn a_file_is_away_for_a_moment_at_the_start(case: &Case) {
    let mut daemon = start(case);
    for round in 0..rounds() {
        let away = case.path("away.yaml");
        daemon.kill();
        fs::rename(case.path("manifests/web.yaml"), &away).unwrap();
        let spawned = case.spawn(case.run());
        #[expect(
            clippy::disallowed_methods,
            reason = "the time of a save, or of a checkout, is what the attack is made of"
        )]
        thread::sleep(Duration::from_millis(150 * (round as u64 + 1)));
        fs::rename(&away, case.path("manifests/web.yaml")).unwrap();
        daemon = spawned;
        daemon.until("READY=1");
        case.wait_mounted(&["web"]);
        canaries_live(case, "a start while the file was away");
    }
    assert!(daemon.stop().success());
}

fn the_manifests_are_empty_at_the_start(case: &Case) {
    let mut daemon = start(case);
    fs::rename(case.path("manifests"), case.path("away")).unwrap();
    fs::create_dir(case.path("manifests")).unwrap();
    for _ in 0..2 {
        daemon = killed_and_started(case, daemon);
        canaries_live(case, "a start on an empty directory");
    }
    // Others come and go meanwhile.
    pass_the_delay(case, &case.path("manifests"));
    canaries_live(case, "a start on an empty directory, and another pod");
    let pods = case.ask(&["get", "pods", "--all-namespaces"]);
    assert!(pods.contains("web"), "what is held is shown: {pods}");
    assert!(daemon.stop().success());
}

fn a_manifest_is_empty_at_the_start(case: &Case) {
    let mut daemon = start(case);
    for text in ["", "# nothing\n", "---\n"] {
        overwrite(&case.path("manifests/web.yaml"), text);
        daemon = killed_and_started(case, daemon);
        canaries_live(case, &format!("a start with {text:?}"));
        case.manifest("web.yaml", WEB);
        case.wait_mounted(&["web"]);
    }
    assert!(daemon.stop().success());
}

fn a_kind_is_misspelled_at_the_start(case: &Case) {
    let mut daemon = start(case);
    for word in ["kind: pod\n", "kind: Pood\n", "kind: Pods\n"] {
        case.manifest("web.yaml", &WEB.replace("kind: Pod\n", word));
        daemon = killed_and_started(case, daemon);
        canaries_live(case, &format!("a start with {word:?}"));
    }
    assert!(daemon.stop().success());
}

fn the_host_is_renamed(case: &Case) {
    case.manifest("web.yaml", &WEB.replace("spec:\n  containers", "spec:\n  nodeName: node-1\n  containers"));
    let daemon = case.start_until_mounted(&["web"]);
    put_canaries(case);
    daemon.kill();
    let mut command = case.run();
    command.args(["--node-name", "node-2"]);
    let arguments: Vec<_> = command.get_args().map(ToOwned::to_owned).collect();
    let mut renamed = case.windlass();
    // The first of two would be refused.
    let first = arguments.iter().position(|it| it == "--node-name").unwrap();
    renamed.args(arguments.iter().enumerate().filter(|(at, _)| *at != first && *at != first + 1).map(|(_, it)| it));
    let daemon = case.start_as(renamed);
    pass_the_delay_blindly(case);
    canaries_live(case, "another name of the node");
    pass_the_delay(case, &case.path("manifests"));
    canaries_live(case, "another name of the node, and another pod");
    daemon.kill();
    let daemon = case.start_until_mounted(&["web"]);
    canaries_live(case, "the old name of the node again");
    assert!(daemon.stop().success());
}

fn a_volume_is_missing_from_its_pod_at_the_start(case: &Case) {
    let daemon = start(case);
    daemon.kill();
    // It is valid without it, as one is whose writer was killed in the right place.
    let without = WEB.replace("    - {name: cache, mountPath: /cache}\n", "");
    let without = without.replace("  - {name: cache, emptyDir: {medium: Memory}}\n", "");
    overwrite(&case.path("manifests/web.yaml"), &without);
    let daemon = case.start();
    pass_the_delay_blindly(case);
    let canary = case.volume("web-1", "empty-dir", "cache").join("canary");
    assert_eq!(fs::read_to_string(&canary).ok().as_deref(), Some(CANARY), "{}\n{}", canary.display(), log(case));
    assert!(daemon.stop().success());
}

/// The moment of the kill is spread over the delays; after all of it the pod is as it was.
fn it_is_killed_in_the_middle_of_each_accident(case: &Case) {
    let mut daemon = start(case);
    fs::write(scratch(case, "web-1").join("canary"), CANARY).unwrap();
    let manifest = case.path("manifests/web.yaml");
    for round in 0..rounds() * 4 {
        match round % 4 {
            0 => overwrite(&manifest, ""),
            1 => overwrite(&manifest, &WEB[..WEB.rfind("---\n").unwrap()]),
            2 => overwrite(&manifest, &WEB.replace("kind: Pod\n", "kind: Pood\n")),
            _ => case.manifest("another.yaml", &pod("web").replace("web-1", "web-2")),
        }
        #[expect(clippy::disallowed_methods, reason = "the moment of the kill is what the attack is made of")]
        thread::sleep(Duration::from_millis([0, 3, 30, 150, 190, 210, 260][round % 7]));
        daemon.kill();
        daemon = case.start();
        pass_the_delay_blindly(case);
        canaries_live(case, &format!("accident {} and a kill", round % 4));
        let _ = fs::remove_file(case.path("manifests/another.yaml"));
        case.manifest("web.yaml", WEB);
        case.wait_mounted(&["web"]);
    }
    assert!(daemon.stop().success());
}
