//! `wait`: what is there, what comes, what does not come in time.

use windlass::view::{Pod, PodPhase};

use crate::{
    daemon::{Answer, Daemon, Ending, bookmark, line, list, object},
    objects::*,
};

/// A daemon whose pods change in these steps, and which then falls silent.
fn daemon(steps: Vec<String>) -> Daemon {
    Daemon::new([
        ("/namespaces/default/pods?watch=true", Answer::Watch(steps.clone(), Ending::Hold)),
        ("/pods?watch=true", Answer::Watch(steps, Ending::Hold)),
        ("/pods", list("Pod", &[stuck_web()])),
        ("/node", object(&node())),
    ])
}

fn named(name: &str, phase: PodPhase) -> Pod {
    pod("default", name, phase, vec![mounted("data", "empty-dir")])
}

#[test]
fn what_is_mounted_already_is_not_waited_for() {
    let daemon = daemon(vec![line("ADDED", &web()), bookmark()]);
    for words in [
        &["wait", "web"][..],
        &["wait", "pod/web", "--for=mounted"],
        &["wait", "--for=condition=VolumesMounted", "pod/web", "--timeout=0"],
        &["wait", "--all", "--timeout", "5m"],
        &["wait", "--all", "-A"],
    ] {
        assert_eq!(daemon.print(words), "pod/web mounted\n", "{words:?}");
    }
}

#[test]
fn a_pod_is_waited_for_until_it_is_mounted_even_one_that_is_not_there_yet() {
    let later = named("later", PodPhase::Wanted);
    let daemon = daemon(vec![
        line("ADDED", &stuck_web()),
        bookmark(),
        line("ADDED", &later),
        line("MODIFIED", &stuck_web()),
        line("MODIFIED", &web()),
    ]);
    assert_eq!(daemon.print(&["wait", "web", "later"]), "pod/later mounted\npod/web mounted\n");
}

#[test]
fn time_that_is_up_is_told_with_the_deepest_reason() {
    let daemon = daemon(vec![line("ADDED", &stuck_web()), line("ADDED", &named("good", PodPhase::Wanted)), bookmark()]);
    for timeout in ["0", "100ms"] {
        let run = daemon.run(&["wait", "good", "web", "nobody", "--timeout", timeout]);
        assert_eq!((run.status, run.stdout.as_str()), (Some(4), "pod/good mounted\n"), "{run:?}");
        let why = "pod/web to be mounted: volume settings: ObjectMissing: configmap \"settings\" not found\n";
        assert!(run.stderr.contains(&format!("error: timed out waiting for {why}")), "{}", run.stderr);
        assert!(run.stderr.contains("pod/nobody to be mounted: there is no such pod\n"), "{}", run.stderr);
        assert!(run.stderr.contains("hint: a manifest that cannot be read may be its own"), "{}", run.stderr);
    }
}

#[test]
fn a_pod_is_unmounted_when_nothing_of_it_is_left() {
    let finished = pod("default", "job", PodPhase::Finished, Vec::new());
    let there = vec![line("ADDED", &web()), line("ADDED", &finished), bookmark()];
    let leaving = pod("default", "web", PodPhase::Leaving, vec![mounted("data", "empty-dir")]);
    let steps = vec![line("MODIFIED", &leaving), line("DELETED", &leaving)];
    let goes = daemon([there.clone(), steps].concat());
    for words in [&["wait", "--for=unmounted", "job", "web"][..], &["wait", "--for=delete", "pod/job", "pod/web"]] {
        assert_eq!(goes.print(words), "pod/job unmounted\npod/web unmounted\n");
    }
    assert_eq!(goes.print(&["wait", "--for=unmounted", "--all"]), "pod/job unmounted\npod/web unmounted\n");
    assert_eq!(goes.print(&["wait", "--for=unmounted", "was-never-there"]), "pod/was-never-there unmounted\n");
    let stays = daemon(there);
    let run = stays.run(&["wait", "--for=unmounted", "web", "--timeout", "0"]);
    run.failed(4, &["pod/web to be unmounted: it is still wanted: take its manifest away"]);
}

#[test]
fn of_two_pods_of_a_name_both_must_go_and_one_is_enough_to_come() {
    let old = Pod { metadata: windlass::view::Metadata { uid: Some("old".into()), ..web().metadata }, ..web() };
    let mut leaving = pod("default", "web", PodPhase::Leaving, vec![stuck("settings")]);
    leaving.metadata = old.metadata;
    let daemon = daemon(vec![line("ADDED", &leaving), line("ADDED", &web()), bookmark(), line("DELETED", &web())]);
    assert_eq!(daemon.print(&["wait", "web"]), "pod/web mounted\n");
    let run = daemon.run(&["wait", "--for=unmounted", "web", "--timeout", "100ms"]);
    run.failed(4, &["volume settings: ObjectMissing"]);
}

#[test]
fn all_pods_are_those_that_are_there_and_stay() {
    let leaving = pod("default", "old", PodPhase::Leaving, vec![stuck("settings")]);
    let daemon = daemon(vec![
        line("ADDED", &leaving),
        line("ADDED", &stuck_web()),
        line("ADDED", &named("good", PodPhase::Wanted)),
        bookmark(),
        line("ADDED", &named("late", PodPhase::Wanted)),
        line("DELETED", &stuck_web()),
    ]);
    let run = daemon.run(&["wait", "--all"]);
    assert_eq!((run.status, run.stdout.as_str()), (Some(0), "pod/good mounted\n"), "{run:?}");
    assert_eq!(run.stderr, "pod/web goes, and is not waited for\n");
}

#[test]
fn all_of_none_are_unmounted_and_not_mounted() {
    let daemon = daemon(vec![bookmark()]);
    daemon.run(&["wait", "--all"]).failed(1, &["error: no pods found in default namespace"]);
    assert_eq!(daemon.run(&["wait", "--all", "--for=unmounted"]).status, Some(0));
}

#[test]
fn a_daemon_that_ends_is_told_apart_from_time_that_is_up() {
    let steps = vec![line("ADDED", &stuck_web()), bookmark()];
    let daemon = Daemon::new([("/namespaces/default/pods?watch=true", Answer::Watch(steps, Ending::End))]);
    daemon.run(&["wait", "web"]).failed(3, &["has ended the watch"]);
}

#[test]
fn a_name_says_nothing_of_its_namespace() {
    let daemon = daemon(vec![bookmark()]);
    daemon.run(&["wait", "web", "-A"]).failed(2, &["--all-namespaces goes with --all"]);
    assert_eq!(daemon.run(&["wait"]).status, Some(2));
    assert_eq!(daemon.run(&["wait", "web", "--all"]).status, Some(2));
}
