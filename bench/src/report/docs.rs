//! The part of a page that is written anew by each run; what people write around it stays.

use std::time::Duration;

use anyhow::Context;

use super::{machine::Machine, table::Table};

const BEGIN: &str = "<!-- bench:begin -->";
const END: &str = "<!-- bench:end -->";

/// What is written.
pub(super) fn part(machine: &Machine, works: &Table, goals: &Table, notes: &[String], took: Duration) -> String {
    let minutes = (took.as_secs_f64() / 60.0).round();
    let mut text = format!(
        "{}\nMedians of all rounds, in a run of {minutes} minutes. \
         `spread` is the least and the most of the figure that the work is about: p50 of one pod, p99 of a change, idle of \
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
pub(super) fn replace(page: &str, part: &str) -> anyhow::Result<String> {
    let (before, rest) = page.split_once(BEGIN).with_context(|| format!("there is no line {BEGIN}"))?;
    let (_, after) = rest.split_once(END).with_context(|| format!("there is no line {END}"))?;
    Ok(format!("{before}{BEGIN}\n\n{}\n\n{END}{after}", part.trim()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_people_wrote_stays() -> anyhow::Result<()> {
        let page = format!("# Title\n\n{BEGIN}\nold\n{END}\n\nWhy.\n");
        let new = replace(&page, "new\n")?;
        assert_eq!(new, format!("# Title\n\n{BEGIN}\n\nnew\n\n{END}\n\nWhy.\n"));
        assert_eq!(replace(&new, "new")?, new);
        Ok(())
    }

    #[test]
    fn a_page_without_a_place_for_it_is_left_alone() {
        assert!(replace("# Title\n", "new").is_err());
        assert!(replace(&format!("{END}\n{BEGIN}\n"), "new").is_err());
    }
}
