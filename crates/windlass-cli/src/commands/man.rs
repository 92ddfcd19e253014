//! `windlass man`: manual pages, a page for the program and one for each verb.

use std::fs;
use std::path::Path;
use std::process::ExitCode;

use anyhow::Context;
use clap::CommandFactory;
use clap_mangen::Man;
use clap_mangen::roff::{Roff, bold, roman};

use crate::args::{Arguments, EXIT_STATUS};

pub(crate) fn run(command: &crate::args::Man) -> anyhow::Result<ExitCode> {
    let directory = &command.directory;
    fs::create_dir_all(directory).with_context(|| format!("make {}", directory.display()))?;
    let mut program = Arguments::command();
    program.build();
    write(directory, "windlass", &program)?;
    write_verbs(directory, "windlass", &program)?;
    Ok(ExitCode::SUCCESS)
}

/// A page for each verb, and for each that these have.
fn write_verbs(directory: &Path, above: &str, command: &clap::Command) -> anyhow::Result<()> {
    for verb in command.get_subcommands().filter(|it| !it.is_hide_set() && it.get_name() != "help") {
        let name = format!("{above}-{}", verb.get_name());
        write(directory, &name, verb)?;
        write_verbs(directory, &name, verb)?;
    }
    Ok(())
}

fn write(directory: &Path, name: &str, command: &clap::Command) -> anyhow::Result<()> {
    let path = directory.join(format!("{name}.1"));
    let page = page(name, command).with_context(|| format!("make the page {}", path.display()))?;
    fs::write(&path, page).with_context(|| format!("write {}", path.display()))
}

fn page(name: &str, command: &clap::Command) -> std::io::Result<Vec<u8>> {
    let source = format!("windlass {}", env!("CARGO_PKG_VERSION"));
    let man = Man::new(command.clone()).title(name).source(source).manual("windlass");
    let mut page = Vec::new();
    man.render_title(&mut page)?;
    man.render_name_section(&mut page)?;
    man.render_synopsis_section(&mut page)?;
    man.render_description_section(&mut page)?;
    man.render_options_section(&mut page)?;
    if command.has_subcommands() {
        man.render_subcommands_section(&mut page)?;
    }
    exit_status().to_writer(&mut page)?;
    Ok(page)
}

fn exit_status() -> Roff {
    let mut roff = Roff::new();
    roff.control("SH", ["EXIT STATUS"]);
    for (status, meaning) in EXIT_STATUS {
        roff.control("TP", []);
        roff.text([bold(status.to_string())]);
        roff.text([roman(meaning)]);
    }
    roff
}
