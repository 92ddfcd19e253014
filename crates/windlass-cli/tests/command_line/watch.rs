//! `-w`: what is there, and then what changes.

use std::io::{BufRead, BufReader};
use std::process::Stdio;

use serde_json::Value;
use windlass_api::view::PodPhase;

use crate::daemon::{Answer, Daemon, Ending, bookmark, line, list};
use crate::objects::*;
use crate::program::{lines, windlass};

fn story(ending: Ending) -> Answer {
    let leaving = pod("default", "web", PodPhase::Leaving, Vec::new());
    let other = pod("default", "another", PodPhase::Wanted, Vec::new());
    let steps = vec![
        line("ADDED", &stuck_web()),
        line("ADDED", &other),
        bookmark(),
        line("MODIFIED", &web()),
        line("MODIFIED", &leaving),
        line("DELETED", &leaving),
    ];
    Answer::Watch(steps, ending)
}

#[test]
fn changes_stand_below_what_was_there() {
    let daemon = Daemon::new([("/namespaces/default/pods?watch=true", story(Ending::End))]);
    let run = daemon.run(&["get", "pods", "-w"]);
    let rows = [
        "NAME      READY   STATUS          AGE",
        "another   0/0     Mounted         2d",
        "web       1/2     ObjectMissing   2d",
        "web       2/2     Mounted         2d",
        "web       0/0     Leaving         2d",
        "web       0/0     Unmounted       2d",
    ];
    assert_eq!(run.stdout, lines(&rows));
    // A watch has no end of its own, so the daemon's end is told.
    assert_eq!(run.status, Some(3));
    assert!(run.stderr.contains("has ended the watch\nhint: it is stopping"), "{}", run.stderr);
}

#[test]
fn only_what_is_asked_for_is_followed_in_any_format() {
    let daemon = Daemon::new([("/namespaces/default/pods?watch=true", story(Ending::End))]);
    let json = daemon.run(&["get", "pods", "web", "-w", "-o", "json"]).stdout;
    let objects: Vec<Value> = json.lines().map(|it| serde_json::from_str(it).unwrap()).collect();
    assert_eq!(objects.len(), 4);
    assert!(objects.iter().all(|it| it["metadata"]["name"] == "web"));
    assert_eq!(daemon.run(&["get", "pod/web", "-w", "-o", "name"]).stdout, "pod/web\n".repeat(4));
    let yaml = daemon.run(&["get", "pod/web", "-w", "-o", "yaml"]).stdout;
    assert_eq!(yaml.matches("---\n").count(), 4);
}

#[test]
fn a_line_that_breaks_off_is_told() {
    let daemon = Daemon::new([("/namespaces/default/pods?watch=true", story(Ending::Torn))]);
    let run = daemon.run(&["get", "pods", "-w", "-o", "name"]);
    assert_eq!((run.status, run.stdout.lines().count()), (Some(3), 5));
    assert!(run.stderr.contains("broke off"), "{}", run.stderr);
}

#[test]
fn rows_come_while_the_watch_goes_on_and_a_reader_who_has_seen_enough_ends_it() {
    let steps = vec![line("ADDED", &event(1)), bookmark(), line("MODIFIED", &event(2)), line("DELETED", &event(2))];
    let daemon = Daemon::new([
        ("/namespaces/default/events?watch=true", Answer::Watch(steps, Ending::Hold)),
        ("/namespaces/default/events", list("Event", &[event(1)])),
    ]);
    let mut command = windlass();
    command.arg("--socket").arg(daemon.socket()).args(["events", "-w"]);
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut rows = BufReader::new(child.stdout.take().unwrap()).lines().map(Result::unwrap);
    let seen: Vec<_> = rows.by_ref().take(3).collect();
    // It waits for more, which does not come: that an old event is forgotten is no news.
    child.kill().unwrap();
    assert_eq!(rows.count(), 0);
    child.wait().unwrap();
    assert!(seen[0].starts_with("LAST SEEN   TYPE"), "{seen:?}");
    assert!(seen[1].starts_with("2d          Warning"), "{seen:?}");
    assert!(seen[2].starts_with("2d (x2 over 2d)   Warning"), "{seen:?}");
}

#[test]
fn the_node_cannot_be_watched() {
    Daemon::new([]).run(&["get", "node", "-w"]).failed(2, &["the node cannot be watched"]);
}
