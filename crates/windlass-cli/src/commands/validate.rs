//! `windlass validate`: what is wrong with manifests, without a daemon. The daemon's own reader says it.

use std::process::ExitCode;

use anyhow::Context;
use serde::Serialize;
use windlass::source::directory::{self, Summary};
use windlass::view::{Problem, Severity};

use crate::args::{Look, TextFormat, Validate};
use crate::exit;
use crate::output::paint::{Paint, Tone};
use crate::output::{self, count, plain};

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
    match command.output {
        TextFormat::Text => {
            let paint = Paint::of(look);
            output::data(&problems.iter().map(|it| line(it, paint) + "\n").collect::<String>())?;
            output::note(&total(&summary));
        }
        TextFormat::Json => output::data(&output::json(&report)?)?,
        TextFormat::Yaml => output::data(&output::yaml(&report)?)?,
    }
    let errors = summary.count(Severity::Error);
    let failed = errors > 0 || command.strict && !problems.is_empty();
    Ok(if failed { ExitCode::from(exit::FAILED) } else { ExitCode::SUCCESS })
}

/// A problem as compilers tell one: `FILE:LINE: error: OBJECT: text`.
fn line(problem: &Problem, paint: Paint) -> String {
    let Problem { severity, path, line, object, message } = problem;
    let (severity, tone) = match severity {
        Severity::Error => ("error", Tone::Bad),
        Severity::Warning => ("warning", Tone::Waiting),
        Severity::NotOurs => ("note", Tone::Plain),
    };
    let severity = paint.text(tone, severity);
    let line = line.map(|it| format!(":{it}")).unwrap_or_default();
    let object = object.as_ref().map(|it| format!("{}: ", plain(it))).unwrap_or_default();
    format!("{}{line}: {severity}: {object}{}", plain(path), plain(message))
}

/// All of it in one line: `12 files, 8 pods, 20 objects: 1 error, 2 warnings`.
fn total(summary: &Summary) -> String {
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
    use crate::args::Color;

    #[test]
    fn a_problem_is_told_as_compilers_tell_it() {
        let problem = Problem {
            severity: Severity::Error,
            path: "web.yaml".into(),
            line: Some(3),
            object: Some("Pod default/web".into()),
            message: "spec: it is missing".into(),
        };
        let paint = |color| Paint::of(&Look { color });
        assert_eq!(line(&problem, paint(Color::Never)), "web.yaml:3: error: Pod default/web: spec: it is missing");
        let bare = Problem { line: None, object: None, severity: Severity::Warning, ..problem };
        assert_eq!(line(&bare, paint(Color::Always)), "web.yaml: \u{1b}[33mwarning\u{1b}[0m: spec: it is missing");
    }

    #[test]
    fn what_a_manifest_says_cannot_command_the_terminal() {
        let problem = Problem {
            severity: Severity::Error,
            path: "a\u{1b}.yaml".into(),
            line: None,
            object: Some("Pod a\nb".into()),
            message: "\u{202e}".into(),
        };
        let line = line(&problem, Paint::of(&Look { color: Color::Never }));
        assert_eq!(line, "a\\u{1b}.yaml: error: Pod a b: \\u{202e}");
    }

    #[test]
    fn one_is_not_many() {
        let mut summary = Summary::default();
        (summary.files, summary.objects) = (1, 2);
        assert_eq!(total(&summary), "1 file, 0 pods, 2 objects: 0 errors, 0 warnings");
    }
}
