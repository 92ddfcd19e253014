//! The part of a page that is written anew by each run; what people write around it stays.

use std::time::Duration;

use anyhow::Context;

use super::machine::Machine;
use super::table::Table;

/// A part of a page, which stands between two lines that have its name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Place {
    /// Everything but what follows.
    Bench,
    /// Volumes of CSI drivers.
    Csi,
}

impl Place {
    /// Whether a work is told of there.
    pub(super) fn has(self, work: &str) -> bool {
        work.starts_with("csi-") == (self == Self::Csi)
    }

    fn line(self, what: &str) -> String {
        let name = match self {
            Self::Bench => "bench",
            Self::Csi => "bench-csi",
        };
        format!("<!-- {name}:{what} -->")
    }
}

/// What is written.
pub(super) fn part(machine: &Machine, works: &Table, goals: &Table, notes: &[String], took: Duration) -> String {
    let minutes = (took.as_secs_f64() / 60.0).round();
    let mut text = format!(
        "{}\nMedians of all rounds, in a run of {minutes} minutes. \
         `spread` is the least and the most of the figure that the work is about: p50 of one pod or volume, p99 of a change, idle of \
         idle, and wall of all others; `under kubelet` and `over floor` are ratios of the same figure.\n\n{}\n{}",
        machine.text(),
        goals.for_page(),
        works.for_page()
    );
    for note in notes {
        text.push_str(&format!("\n- {note}"));
    }
    text
}

/// The page with another part.
pub(super) fn replace(page: &str, place: Place, part: &str) -> anyhow::Result<String> {
    let [begin, end] = ["begin", "end"].map(|it| place.line(it));
    let (before, rest) = page.split_once(&begin).with_context(|| format!("there is no line {begin}"))?;
    let (_, after) = rest.split_once(&end).with_context(|| format!("there is no line {end}"))?;
    Ok(format!("{before}{begin}\n\n{}\n\n{end}{after}", part.trim()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_people_wrote_stays() -> anyhow::Result<()> {
        let page = "# Title\n\n<!-- bench:begin -->\nold\n<!-- bench:end -->\n\nWhy.\n";
        let new = replace(page, Place::Bench, "new\n")?;
        assert_eq!(new, "# Title\n\n<!-- bench:begin -->\n\nnew\n\n<!-- bench:end -->\n\nWhy.\n");
        assert_eq!(replace(&new, Place::Bench, "new")?, new);
        Ok(())
    }

    #[test]
    fn a_page_without_a_place_for_it_is_left_alone() {
        assert!(replace("# Title\n", Place::Bench, "new").is_err());
        assert!(replace("<!-- bench:end -->\n<!-- bench:begin -->\n", Place::Bench, "new").is_err());
        assert!(replace("<!-- bench:begin -->\n<!-- bench:end -->\n", Place::Csi, "new").is_err());
    }

    #[test]
    fn every_work_has_one_place() {
        for (work, place) in [("up-100", Place::Bench), ("csi-500", Place::Csi)] {
            assert_eq!([Place::Bench, Place::Csi].map(|it| it.has(work)), [place == Place::Bench, place == Place::Csi]);
        }
    }
}
