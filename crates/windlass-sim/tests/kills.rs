//! Small lives, killed wherever a process can be killed. All pairs of kills are for the program (`windlass-sim kills`), which
//! is faster; here are all kills, and the pairs of some lives.

use windlass_sim::edge::{Comeback, Kill};
use windlass_sim::kill_points::{Depth, Life, lives, options, play};
use windlass_sim::life::Options;

fn jobs() -> usize {
    std::thread::available_parallelism().map_or(1, Into::into)
}

fn named(names: &[&str]) -> Vec<Life> {
    let named: Vec<Life> = lives().into_iter().filter(|it| names.contains(&it.name)).collect();
    assert_eq!(named.len(), names.len());
    named
}

#[test]
fn no_kill_breaks_a_promise() {
    let lives = lives();
    let results = play(&lives, Depth::One, jobs(), &options());
    assert!(results.failures.is_empty(), "replay these: {:#?}", results.failures);
    assert_eq!(results.lives, lives.len());
    assert!(results.kills > 100 * lives.len() as u64, "only {} kills", results.kills);
}

#[test]
fn no_pair_of_kills_breaks_a_promise() {
    let lives = named(&["deleted while it is staged", "by node, staged without a pod"]);
    let results = play(&lives, Depth::Two, jobs(), &options());
    assert!(results.failures.is_empty(), "replay these: {:#?}", results.failures);
    assert!(results.pairs > 10 * results.kills, "only {} pairs", results.pairs);
}

/// All edges at which a life is killed, in the order in which it comes to them.
fn edges(name: &str) -> String {
    let life = &named(&[name])[0];
    let mut text = String::new();
    for edge in 1..=life.killed_at(&[], &options()).edges {
        let kill = Kill { edge, comeback: Comeback::AtOnce };
        let report = life.killed_at(&[kill], &Options { trace: true, ..options() });
        let mut lines = report.trace.iter().filter_map(|it| it.split_once(&format!("edge {edge}: ")));
        text.extend(lines.next().map(|(_, it)| format!("{it}, ")));
    }
    text
}

/// The steps of an operation and of its call, in order.
fn come_around(edges: &str, id: u32, steps: &[&str]) {
    let of_it = edges.split(", ").filter(|it| it.contains(&format!("of #{id}")));
    let words = of_it.map(|it| it.replace(&format!(" of #{id}"), "").replace("before ", "").replace("the call ", ""));
    assert_eq!(words.collect::<Vec<_>>(), steps, "#{id} of {edges}");
}

const MADE: [&str; 3] = ["was made", "has taken effect", "has answered"];
const ANNOUNCED: [&str; 4] = ["was made", "has said what it will mount", MADE[1], MADE[2]];

#[test]
fn kills_come_around_every_step_of_an_operation() {
    let staged = edges("by node, staged");
    let making = ["read", "inspect", "intend", "call"];
    come_around(&staged, 1, &[&making[..], &MADE, &["prove", "end", "the end was told"]].concat());
    let first = ["inspect", "intend", "call"];
    let seen = ["look", "prove", "end", "the end was told"];
    come_around(&staged, 2, &[&first[..], &MADE, &seen].concat());
    come_around(&staged, 3, &[&["make"], &first[..], &MADE, &seen].concat());
    let taking = [&["retire", "call"], &MADE[..], &["forget", "end", "the end was told"]].concat();
    come_around(&staged, 4, &[&["inspect"], &taking[..]].concat());
    come_around(&staged, 5, &taking);
    come_around(&staged, 6, &[&["read", "inspect"], &taking[..]].concat());
    for edge in ["the disk is read", "the report is stored"] {
        assert!(staged.contains(edge), "{edge} is missing in {staged}");
    }
    let in_memory = edges("in memory, content is refused");
    come_around(&in_memory, 1, &[&["make", "inspect", "call"], &ANNOUNCED[..], &seen].concat());
    let refreshed = ["make", "read", "inspect", "unsettle", "call"];
    come_around(&in_memory, 2, &[&refreshed[..], &MADE, &["restore", "end", "the end was told"]].concat());
}

#[test]
fn how_many_threads_play_makes_no_difference() {
    let lives = named(&["deleted while it is published"]);
    let run = |jobs| play(&lives, Depth::Two, jobs, &options());
    let (one, three) = (run(1), run(3));
    assert_eq!((one.kills, one.pairs, one.operations), (three.kills, three.pairs, three.operations));
}

#[test]
fn a_kill_is_written_as_it_is_read() {
    for text in ["1:at-once", "20:later", "3:slow-disk"] {
        assert_eq!(text.parse::<Kill>().map(|it| it.to_string()), Ok(text.to_owned()));
    }
    assert_eq!("4".parse(), Ok(Kill { edge: 4, comeback: Comeback::AtOnce }));
    assert!("x".parse::<Kill>().is_err_and(|it| it.contains("'x'")));
    assert!("4:soon".parse::<Kill>().is_err_and(|it| it.contains("later")));
}
