//! The short run of the fuzzer's targets, on any toolchain: all of the corpus, and changes of it.
//!
//! The changes are the same in every run, so a failure can be repeated. `WINDLASS_FUZZ_CHANGES` says how many there are for
//! each target.

use std::fs;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;

use windlass_fuzz::TARGETS;

/// Some seconds for all targets together.
const CHANGES: usize = 2000;

/// No input of a fuzzer is longer.
const BYTES_MAX: usize = 4096;

#[test]
fn what_was_found_worth_keeping_and_changes_of_it_break_no_promise() {
    let changes = std::env::var("WINDLASS_FUZZ_CHANGES").ok().filter(|it| !it.is_empty());
    let changes = changes.map_or(CHANGES, |it| it.parse().expect("WINDLASS_FUZZ_CHANGES is a number"));
    for (name, target) in TARGETS {
        let corpus = corpus(name);
        assert!(!corpus.is_empty(), "the corpus of {name} is empty");
        let tried = |bytes: &[u8]| {
            let tried = catch_unwind(AssertUnwindSafe(|| target(bytes)));
            assert!(tried.is_ok(), "target {name}, input {}", bytes.escape_ascii());
        };
        corpus.iter().for_each(|it| tried(it));
        let mut chance = Chance(0x5eed_0000 + name.len() as u64);
        for _ in 0..changes {
            tried(&changed(&corpus, &mut chance));
        }
    }
}

fn corpus(name: &str) -> Vec<Vec<u8>> {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus").join(name);
    let entries = fs::read_dir(&directory).unwrap_or_else(|error| panic!("{}: {error}", directory.display()));
    let mut files: Vec<_> = entries.map(|it| it.unwrap().path()).collect();
    files.sort();
    files.iter().map(|it| fs::read(it).unwrap()).collect()
}

/// An input like those of the corpus: one of them with bytes that are flipped, cut out, repeated or taken from another.
fn changed(corpus: &[Vec<u8>], chance: &mut Chance) -> Vec<u8> {
    let mut bytes = corpus[chance.below(corpus.len())].clone();
    for _ in 0..1 + chance.below(4) {
        let place = chance.below(bytes.len() + 1);
        let end = (place + 1 + chance.below(8)).min(bytes.len());
        match chance.below(5) {
            0 if place < bytes.len() => bytes[place] ^= 1 << chance.below(8),
            1 => drop(bytes.drain(place..end)),
            2 => bytes.truncate(place),
            3 => {
                let part = bytes[place..end].to_vec();
                bytes.splice(place..place, part);
            }
            _ => {
                let other = &corpus[chance.below(corpus.len())];
                let from = chance.below(other.len() + 1);
                let part = other[from..(from + chance.below(64)).min(other.len())].to_vec();
                bytes.splice(place..end, part);
            }
        }
    }
    bytes.truncate(BYTES_MAX);
    bytes
}

/// Numbers that look random and are the same each time (xorshift).
struct Chance(u64);

impl Chance {
    fn below(&mut self, end: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        usize::try_from(self.0 >> 16).unwrap_or_default() % end.max(1)
    }
}
