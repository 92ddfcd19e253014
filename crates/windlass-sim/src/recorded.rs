//! What a daemon recorded (`windlass run --record-events`), played to a fresh engine and told line by line.

use std::io::{self, BufRead};

use windlass_core::recording::{Entry, Replay};

use crate::describe::{describe, describe_notice, describe_operation};

/// How a recording was played.
#[derive(Debug, Default)]
pub struct Played {
    /// What happened, a line each.
    pub trace: Vec<String>,
    /// How many engines there were, one after the other.
    pub engines: usize,
    /// How many operations they gave out: those that were recorded, and no others.
    pub operations: usize,
    /// The line that is not what it should be, and why.
    pub difference: Option<(usize, String)>,
}

/// Plays a recording up to its end, or to where it is not what was recorded.
pub fn play(recording: impl BufRead) -> io::Result<Played> {
    let (mut replay, mut played) = (Replay::default(), Played::default());
    // A process that is killed may leave half a line, after which another one begins, or nothing comes.
    let mut torn: Option<(usize, String)> = None;
    for (number, line) in (1..).zip(recording.lines()) {
        let line = line?;
        if line.is_empty() {
            continue;
        }
        let entry = serde_json::from_str::<Entry>(&line);
        let is_beginning = matches!(entry, Ok(Entry::Began(_)));
        if let Some(torn) = torn.take().filter(|_| !is_beginning) {
            played.difference = Some(torn);
            break;
        }
        let entry = match entry {
            Ok(entry) => entry,
            Err(error) => {
                torn = Some((number, error.to_string()));
                continue;
            }
        };
        match &entry {
            Entry::Began(_) => {
                played.engines += 1;
                played.trace.push("an engine begins".into());
            }
            Entry::Told { at, event } => played.trace.push(format!("{:>9} ms  {}", at.0, describe(event))),
            Entry::Gave(operation) => {
                played.operations += 1;
                played.trace.push(format!("{:13} {}", "", describe_operation(operation)));
            }
        }
        match replay.play(entry) {
            Ok(notices) => {
                let told = notices.iter().filter_map(describe_notice);
                played.trace.extend(told.map(|it| format!("{:13} {it}", "")));
            }
            Err(difference) => {
                played.difference = Some((number, difference.to_string()));
                break;
            }
        }
    }
    Ok(played)
}

#[cfg(test)]
mod tests {
    use windlass_core::ids::Time;
    use windlass_core::{Config, Engine, Event};

    use super::*;

    /// A life in which a pod comes, wants something, and gets it.
    fn life() -> Vec<String> {
        let config = Config {
            sources: vec!["source".into()],
            boot: "boot".into(),
            attacher: false,
            keep_terminated: false,
            planning: Default::default(),
            seed: 7,
        };
        let mut entries = vec![Entry::began(&config)];
        let mut engine = Engine::new(config);
        let events = [
            Event::DiskRead,
            Event::FoundUnreadable {
                pod: "pod".into(),
                plugin: "kubernetes.io/empty-dir".into(),
                inner_name: "disk".into(),
                mode: Default::default(),
            },
            Event::SourceComplete {
                source: "source".into(),
                version: Default::default(),
                containers: windlass_core::event::Containers::Stopped,
                orphan_delay: Default::default(),
                doubt: None,
            },
        ];
        for (at, event) in (0..).map(Time).zip(events) {
            engine.handle(at, event.clone());
            entries.push(Entry::Told { at, event });
            entries.extend(std::iter::from_fn(|| engine.next_operation()).map(Entry::Gave));
        }
        entries.iter().map(|it| serde_json::to_string(it).unwrap()).collect()
    }

    fn play(lines: &[String]) -> Played {
        super::play(lines.join("\n").as_bytes()).unwrap()
    }

    #[test]
    fn a_recording_is_played_and_told() {
        let life = life();
        assert_eq!(life.iter().filter(|it| it.contains("Gave")).count(), 1, "{life:#?}");
        let played = play(&[life.clone(), life].concat());
        assert_eq!((played.engines, played.operations, &played.difference), (2, 2, &None));
        assert!(played.trace.iter().any(|it| it.contains("start: #1 unpublish")), "{:#?}", played.trace);
    }

    #[test]
    fn where_the_engine_does_something_else_that_is_told() {
        let mut life = life();
        let given = life.iter().position(|it| it.contains("Gave")).unwrap();
        life[given] = life[given].replace("disk", "disc");
        let (line, why) = play(&life).difference.unwrap();
        assert_eq!(line, given + 1);
        assert!(why.contains("disk") && why.contains("disc"), "{why}");
        assert_eq!(play(&life[1..]).difference.unwrap().0, 1, "it begins with the configuration");
    }

    #[test]
    fn half_a_line_is_the_end_of_a_process_and_nothing_else() {
        let life = life();
        let torn = "{\"Told\":{\"at".to_owned();
        let killed = [life.clone(), vec![torn.clone()], life.clone()].concat();
        assert_eq!((play(&killed).engines, play(&killed).difference), (2, None));
        assert_eq!(play(&killed[..=life.len()]).difference, None);
        let damaged = [life[..1].to_vec(), vec![torn], life[1..].to_vec()].concat();
        assert_eq!(play(&damaged).difference.unwrap().0, 2);
    }
}
