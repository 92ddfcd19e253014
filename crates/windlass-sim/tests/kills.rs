//! Small lives, killed wherever a process can be killed. All pairs of kills are for the program (`windlass-sim kills`), which
//! is faster; here are all kills, and the pairs of some lives.

use windlass_sim::{
    edge::{Comeback, Kill},
    kill_points::{Depth, Life, lives, options, play},
    life::Options,
};

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

#[test]
fn kills_come_around_every_step_of_an_operation() {
    let life = &named(&["by node, staged"])[0];
    let edges = life.killed_at(&[], &options()).edges;
    let mut text = String::new();
    for edge in 1..=edges {
        let kill = Kill { edge, comeback: Comeback::AtOnce };
        let report = life.killed_at(&[kill], &Options { trace: true, ..options() });
        text.extend(report.trace.into_iter().filter(|it| it.contains(&format!("edge {edge}: "))));
    }
    for id in 1..=6 {
        for edge in ["before Call of", "the call of", "before Look of", "before Report of", "the end of"] {
            assert!(text.contains(&format!("{edge} #{id}")), "{edge} #{id} is missing in {text}");
        }
    }
    for edge in ["WriteIntent", "WriteProof", "RemoveRecord", "the disk is read", "the report is stored"] {
        assert!(text.contains(edge), "{edge} is missing in {text}");
    }
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
