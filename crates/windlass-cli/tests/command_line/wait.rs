//! `wait`: what is there, what comes, what does not come in time.

use windlass_api::view::{ConditionStatus, Metadata, Node, Pod, PodPhase};

use crate::daemon::{Answer, Daemon, Ending, bookmark, in_turn, line, list, object};
use crate::objects::*;

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

/// A node that has not come so far.
fn node_without(kind: &str) -> Node {
    let mut node = node();
    let condition = node.status.conditions.iter_mut().find(|it| it.kind == kind).unwrap();
    condition.status = ConditionStatus::False;
    condition.reason = format!("{kind}Not");
    node
}

/// A pod of which only its directory was found.
fn nameless(uid: &str) -> Pod {
    let metadata = Metadata { namespace: None, name: uid.into(), uid: Some(uid.into()) };
    Pod { metadata, ..pod("", uid, PodPhase::Leaving, vec![mounted("data", "empty-dir")]) }
}

#[test]
fn what_the_daemon_does_not_know_yet_is_not_called_unmounted() {
    let leaving = pod("default", "web", PodPhase::Leaving, vec![mounted("data", "empty-dir")]);
    let there = vec![line("ADDED", &leaving), bookmark()];
    let starts = |then: Vec<String>| {
        let nothing = Answer::Watch(vec![bookmark()], Ending::Hold);
        let not_yet = [object(&node_without("Synced")), object(&node_without("SourceComplete"))];
        Daemon::new([
            ("/node", in_turn(not_yet.into_iter().chain([object(&node())]))),
            ("/pods?watch=true", in_turn([nothing, Answer::Watch(then, Ending::Hold)])),
        ])
    };
    let goes = starts([there.clone(), vec![line("DELETED", &leaving)]].concat());
    assert_eq!(goes.print(&["wait", "--for=unmounted", "web"]), "pod/web unmounted\n");
    let stays = starts(there.clone());
    stays.run(&["wait", "--for=unmounted", "web", "--timeout=1s"]).failed(4, &["pod/web to be unmounted: volume data"]);
    let all = starts(there);
    all.run(&["wait", "--for=unmounted", "--all", "--timeout=1s"]).failed(4, &["pod/web to be unmounted: volume data"]);
}

#[test]
fn a_daemon_that_never_knows_all_is_told_with_its_reason() {
    let daemon = Daemon::new([
        ("/node", object(&node_without("SourceComplete"))),
        ("/pods?watch=true", Answer::Watch(vec![bookmark()], Ending::Hold)),
    ]);
    let said = ["before the daemon knew all that is there: SourceCompleteNot: ", "torn.yaml:3: this is no YAML"];
    for timeout in ["0", "100ms"] {
        daemon.run(&["wait", "--for=unmounted", "web", "--timeout", timeout]).failed(4, &said);
        daemon.run(&["wait", "--all", "--timeout", timeout]).failed(4, &said);
    }
}

#[test]
fn while_a_pod_without_a_name_is_left_only_one_that_was_seen_is_unmounted() {
    let (old, leaving) = (nameless("uid-old"), pod("default", "db", PodPhase::Leaving, vec![stuck("settings")]));
    let there = vec![line("ADDED", &old), line("ADDED", &leaving), bookmark(), line("DELETED", &leaving)];
    let stays = daemon(there.clone());
    let run = stays.run(&["wait", "--for=unmounted", "web", "db", "uid-old", "--timeout", "100ms"]);
    assert_eq!((run.status, run.stdout.as_str()), (Some(4), "pod/db unmounted\n"), "{run:?}");
    assert!(run.stderr.contains("pod/web to be unmounted: it may be pod uid-old, of which only the"), "{}", run.stderr);
    assert!(run.stderr.contains("pod/uid-old to be unmounted: volume data: Mounted"), "{}", run.stderr);
    let goes = daemon([there.clone(), vec![line("DELETED", &old)]].concat());
    let words = ["wait", "--for=unmounted", "web", "db", "uid-old"];
    assert_eq!(goes.print(&words), "pod/db unmounted\npod/web unmounted\npod/uid-old unmounted\n");
    // It turns out to be another one.
    let named = Pod { metadata: Metadata { uid: Some("uid-old".into()), ..web().metadata }, ..web() };
    let named = Pod { metadata: Metadata { name: "other".into(), ..named.metadata }, ..named };
    let named = daemon([there, vec![line("MODIFIED", &named)]].concat());
    assert_eq!(named.print(&["wait", "--for=unmounted", "web"]), "pod/web unmounted\n");
}

#[test]
fn a_wait_for_longer_than_there_is_time_is_one_for_ever() {
    let daemon = daemon(vec![line("ADDED", &web()), bookmark()]);
    for timeout in ["18446744073709551615", "9223372036854775807"] {
        assert_eq!(daemon.print(&["wait", "web", "--timeout", timeout]), "pod/web mounted\n");
        assert_eq!(daemon.print(&["wait", "--all", "--timeout", timeout]), "pod/web mounted\n");
    }
}

#[test]
fn of_two_pods_of_a_name_both_must_go_and_one_is_enough_to_come() {
    let old = Pod { metadata: Metadata { uid: Some("old".into()), ..web().metadata }, ..web() };
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
    for goal in ["--for=unmounted", "--for=released"] {
        daemon.run(&["wait", goal, "claim/data"]).failed(2, &["\"claim/data\" is no pod", "windlass get claims"]);
    }
    assert_eq!(daemon.run(&["wait"]).status, Some(2));
    assert_eq!(daemon.run(&["wait", "web", "--all"]).status, Some(2));
}
