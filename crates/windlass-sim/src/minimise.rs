//! Makes a failing life shorter: leaves out entries of its script as long as the same check still fails.

use crate::life::{Options, Report, run};
use crate::script::{Entry, Script};
use crate::setting::Setting;

/// How many lives are tried at most.
const TRIES: usize = 600;

/// A life that breaks a promise, as short as could be found.
#[derive(Clone, Debug)]
pub struct Minimised {
    /// The entries that are left.
    pub entries: Vec<Entry>,
    /// What comes of them, with the trace.
    pub report: Report,
}

/// Makes a failing life shorter. `None` if it does not fail.
pub fn minimise(setting: &Setting, script: &Script, options: &Options) -> Option<Minimised> {
    let fails = |entries: &[Entry], trace: bool| {
        let options = Options { trace, ..*options };
        run(setting.clone(), script.with(entries.to_vec()), &options)
    };
    let first = fails(&script.entries, false).failure?;
    let still_fails = |entries: &[Entry]| {
        let failure = fails(entries, false).failure;
        failure.is_some_and(|it| it.is_like(&first))
    };
    // What comes after the failure cannot have caused it.
    let mut entries = script.entries.clone();
    let before: Vec<Entry> = entries.iter().filter(|it| it.at <= first.at).cloned().collect();
    if still_fails(&before) {
        entries = before;
    }
    let entries = shorten(entries, still_fails, TRIES);
    let report = fails(&entries, true);
    Some(Minimised { entries, report })
}

/// Leaves out what can be left out, in large pieces first (Zeller's delta debugging, without the search for subsets).
fn shorten<T: Clone>(mut entries: Vec<T>, still_fails: impl Fn(&[T]) -> bool, tries_max: usize) -> Vec<T> {
    let mut tries = 0;
    let mut size = entries.len().div_ceil(2).max(1);
    loop {
        let mut left_out = false;
        let mut begin = 0;
        while begin < entries.len() && tries < tries_max {
            let end = (begin + size).min(entries.len());
            let rest = [&entries[..begin], &entries[end..]].concat();
            tries += 1;
            if still_fails(&rest) {
                entries = rest;
                left_out = true;
            } else {
                begin = end;
            }
        }
        if tries >= tries_max || (size == 1 && !left_out) {
            return entries;
        }
        size = size.div_ceil(2).max(1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_needed_is_left() {
        let all: Vec<u32> = (0..100).collect();
        let needed = |it: &[u32]| it.contains(&17) && it.contains(&61);
        assert_eq!(shorten(all, needed, TRIES), [17, 61]);
    }

    #[test]
    fn tries_are_limited() {
        let all: Vec<u32> = (0..1000).collect();
        let few = shorten(all, |it| it.len() >= 3, 5);
        assert!(few.len() >= 3);
    }
}
