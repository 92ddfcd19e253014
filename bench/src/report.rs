//! What is told of the results: a table on the terminal, files for programs, and a part of the documentation.

mod docs;
mod machine;
mod plot;
mod table;

use std::fs;
use std::path::Path;
use std::time::Duration;

use anyhow::Context;
use serde::Serialize;

use crate::goals;
use crate::results::Results;

use self::machine::Machine;
use self::table::Table;

/// A whole run, for those who want to look at it again.
#[derive(Serialize)]
struct Everything<'a> {
    machine: &'a Machine,
    quick: bool,
    took_seconds: f64,
    notes: &'a [String],
    results: Vec<crate::results::Rounds<'a>>,
}

/// Prints the table and writes the files: into the directory of results, and into that of the documentation if it is named.
pub(crate) fn report(
    results: &Results,
    quick: bool,
    took: Duration,
    output: &Path,
    docs: Option<&Path>,
) -> anyhow::Result<()> {
    let machine = Machine::this();
    let (works, goals) = (Table::of_works(results), Table::of_goals(&goals::verdicts(results)));
    println!("{}\n\n{}\n{}", machine.text(), works.for_terminal(), goals.for_terminal());
    let notes = results.notes();
    for note in &notes {
        println!("{note}");
    }
    write(&output.join("results.json"), &serde_json::to_string_pretty(&results.lines())?)?;
    let everything = Everything {
        machine: &machine,
        quick,
        took_seconds: took.as_secs_f64(),
        notes: &notes,
        results: results.all(),
    };
    write(&output.join("rounds.json"), &serde_json::to_string_pretty(&everything)?)?;
    println!("{} has these figures, rounds.json beside it those of every round", output.join("results.json").display());
    if let Some(directory) = docs {
        write_docs(results, &machine, took, directory)?;
    }
    Ok(())
}

/// Writes what was measured into its places of the page, and leaves those of everything else as they are.
fn write_docs(results: &Results, machine: &Machine, took: Duration, directory: &Path) -> anyhow::Result<()> {
    let page = directory.join("performance.md");
    let mut text = fs::read_to_string(&page).with_context(|| format!("read {}", page.display()))?;
    for place in [docs::Place::Bench, docs::Place::Csi] {
        let results = results.of(|it| place.has(it));
        if results.is_empty() {
            continue;
        }
        let (works, goals) = (Table::of_works(&results), Table::of_goals(&goals::verdicts(&results)));
        let mut part = docs::part(machine, &works, &goals, &results.notes(), took);
        if let Some(picture) = plot::growth(&results) {
            write(&directory.join(plot::FILE), &picture)?;
            part.push_str(&format!("\n\n![What a pod costs among ever more pods]({})\n", plot::FILE));
        }
        text = docs::replace(&text, place, &part).with_context(|| format!("write into {}", page.display()))?;
    }
    write(&page, &text)?;
    println!("{} has the same tables", page.display());
    Ok(())
}

fn write(path: &Path, text: &str) -> anyhow::Result<()> {
    let directory = path.parent().context("a file is in a directory")?;
    fs::create_dir_all(directory).with_context(|| format!("make {}", directory.display()))?;
    fs::write(path, format!("{}\n", text.trim_end())).with_context(|| format!("write {}", path.display()))
}
