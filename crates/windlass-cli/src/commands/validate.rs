//! `windlass validate`: what is wrong with manifests, without a daemon. The daemon's own reader says it.

use std::{
    env,
    io::{self, IsTerminal, Write},
    process::ExitCode,
};

use anyhow::Context;
use serde::Serialize;
use windlass::{
    source::directory::{self, Summary},
    view::{Problem, Severity},
};

use crate::{
    args::{Color, Look, TextFormat, Validate},
    exit,
};

/// What was found, as JSON or YAML.
#[derive(Serialize)]
struct Report<'a> {
    problems: &'a [Problem],
    files: usize,
    pods: usize,
    objects: usize,
}

pub(crate) fn run(command: &Validate, look: &Look) -> anyhow::Result<ExitCode> {
    let summary = directory::check(&command.path).context("validate manifests")?;
    let Summary { problems, files, pods, objects, .. } = &summary;
    let report = Report { problems, files: *files, pods: pods.len(), objects: *objects };
    let mut out = io::stdout().lock();
    match command.output {
        TextFormat::Text => {
            let color = match look.color {
                Color::Auto => out.is_terminal() && env::var_os("NO_COLOR").is_none_or(|it| it.is_empty()),
                Color::Always => true,
                Color::Never => false,
            };
            for problem in problems {
                writeln!(out, "{}", line(problem, color))?;
            }
            out.flush()?;
            eprintln!("{}", total(&summary));
        }
        TextFormat::Json => writeln!(out, "{}", serde_json::to_string_pretty(&report)?)?,
        TextFormat::Yaml => write!(out, "{}", serde_saphyr::to_string(&report)?)?,
    }
    let errors = summary.count(Severity::Error);
    let failed = errors > 0 || command.strict && !problems.is_empty();
    Ok(if failed { ExitCode::from(exit::FAILED) } else { ExitCode::SUCCESS })
}

/// A problem as compilers tell one: `FILE:LINE: error: OBJECT: text`.
fn line(problem: &Problem, color: bool) -> String {
    let Problem { severity, path, line, object, message } = problem;
    let (severity, begin) = match severity {
        Severity::Error => ("error", "\x1b[31m"),
        Severity::Warning => ("warning", "\x1b[33m"),
        Severity::NotOurs => ("note", ""),
    };
    let (begin, end) = if color && !begin.is_empty() { (begin, "\x1b[0m") } else { ("", "") };
    let line = line.map(|it| format!(":{it}")).unwrap_or_default();
    let object = object.as_ref().map(|it| format!("{it}: ")).unwrap_or_default();
    format!("{path}{line}: {begin}{severity}{end}: {object}{message}")
}

/// All of it in one line: `12 files, 8 pods, 20 objects: 1 error, 2 warnings`.
fn total(summary: &Summary) -> String {
    let count = |number: usize, one: &str| match number {
        1 => format!("1 {one}"),
        _ => format!("{number} {one}s"),
    };
    format!(
        "{}, {}, {}: {}, {}",
        count(summary.files, "file"),
        count(summary.pods.len(), "pod"),
        count(summary.objects, "object"),
        count(summary.count(Severity::Error), "error"),
        count(summary.count(Severity::Warning), "warning"),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_problem_is_told_as_compilers_tell_it() {
        let problem = Problem {
            severity: Severity::Error,
            path: "web.yaml".into(),
            line: Some(3),
            object: Some("Pod default/web".into()),
            message: "spec: it is missing".into(),
        };
        assert_eq!(line(&problem, false), "web.yaml:3: error: Pod default/web: spec: it is missing");
        let bare = Problem { line: None, object: None, severity: Severity::Warning, ..problem };
        assert_eq!(line(&bare, true), "web.yaml: \u{1b}[33mwarning\u{1b}[0m: spec: it is missing");
    }

    #[test]
    fn one_is_not_many() {
        let summary = Summary { files: 1, objects: 2, ..Summary::default() };
        assert_eq!(total(&summary), "1 file, 0 pods, 2 objects: 0 errors, 0 warnings");
    }
}
