//! Every name in a document exists.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Component, Path, PathBuf};

use windlass::node::Code as Reason;
use windlass_testing::process::program;

use crate::text::{Code, anchor, parts};
use crate::{files, read, root};

/// Options of other programs. One counts only where its program is named in the same line or block.
const OTHERS: &[(&str, &[&str])] = &[
    ("cargo", &["--locked", "--package", "--release", "--test", "--features"]),
    ("curl", &["--unix-socket", "--no-buffer"]),
    ("docker", &["--group-add", "--mount"]),
    ("jq", &["--slurpfile"]),
    ("journalctl", &["--unit"]),
    ("mount", &["--make-rshared"]),
    ("my-driver", &["--endpoint", "--nodeid"]),
    ("node-driver-registrar", &["--csi-address", "--kubelet-registration-path", "--plugin-registration-path"]),
    ("nsenter", &["--mount", "--preserve-credentials", "--target", "--user"]),
    ("podman", &["--group-add", "--mount", "--name", "--rm"]),
    ("rsync", &["--inplace"]),
    ("systemctl", &["--now"]),
];

/// Settings of systemd that are left out of the unit.
const OF_SYSTEMD: [&str; 3] = ["PrivateTmp", "ProtectSystem", "ReadWritePaths"];

/// Directories of the repository whose files documents name.
const TOP: [&str; 9] = ["bench", "crates", "deploy", "docs", "examples", "fuzz", "proto", "scripts", "tests"];

/// What there is.
struct Known {
    /// The options of all programs of this repository.
    flags: BTreeSet<String>,
    /// What can come after `windlass`, by what comes before.
    commands: BTreeMap<String, BTreeSet<String>>,
    targets: BTreeSet<String>,
    /// Every word in the sources that could be a name, and every code of a reason.
    words: BTreeSet<String>,
    /// Whether there is a command that no list shows: another name of one, or one for packagers.
    is_hidden_command: Box<dyn Fn(&str) -> bool>,
    /// Whether there is a file or a directory.
    exists: Box<dyn Fn(&Path) -> bool>,
    /// The directories in which modules are.
    sources: Vec<PathBuf>,
}

/// Everything in a document that does not exist, with its line.
fn missing(name: &str, document: &str, known: &Known) -> Vec<String> {
    let (codes, links) = parts(document);
    let directory = Path::new(name).parent().expect("a document in a directory");
    let mut missing = Vec::new();
    let mut tell = |line: usize, what: String| missing.push(format!("{name}:{line}: {what}"));
    for (line, link) in links {
        let (path, heading) = link.split_once('#').unwrap_or((link, ""));
        if path.contains("://") {
            continue;
        }
        let target = if path.is_empty() { PathBuf::from(name) } else { plain(&directory.join(path)) };
        if !path.is_empty() && !(known.exists)(&target) {
            tell(line, format!("there is no {}", target.display()));
        } else if !heading.is_empty() {
            let text = if path.is_empty() { document.to_owned() } else { read(target.to_str().expect("text")) };
            if !text.lines().any(|it| it.starts_with('#') && anchor(it) == heading) {
                tell(line, format!("{} has no heading {heading}", target.display()));
            }
        }
    }
    for code in codes {
        for flag in flags(code.text).filter(|it| !known.flags.contains(*it) && !is_anothers(it, code.around)) {
            tell(code.line, format!("no program has the option {flag}"));
        }
        for target in makes(&code).filter(|it| !known.targets.contains(*it)) {
            tell(code.line, format!("the Makefile has no {target}"));
        }
        for command in unknown_commands(&code, known) {
            tell(code.line, format!("there is no command `windlass {command}`"));
        }
        if !code.is_block {
            if let Some(path) = path(code.text)
                && !is_there(&path, directory, known)
            {
                tell(code.line, format!("there is no {path}"));
            }
            if (is_camel_case(code.text) || is_snake_case(code.text)) && !known.words.contains(code.text) {
                tell(code.line, format!("{} is neither a reason nor in any source", code.text));
            }
        }
    }
    missing
}

/// The options in a text, without their values.
fn flags(text: &str) -> impl Iterator<Item = &str> {
    let words = text.split(|it: char| it.is_whitespace() || "[](){}|,;'\"".contains(it));
    words.filter_map(|word| {
        let word = word.split('=').next().unwrap_or(word).trim_end_matches(['.', ':']);
        let name = word.strip_prefix("--")?;
        let is_name = name.starts_with(|it: char| it.is_ascii_lowercase())
            && name.chars().all(|it| it.is_ascii_alphanumeric() || it == '-');
        is_name.then_some(word)
    })
}

fn is_anothers(flag: &str, around: &str) -> bool {
    OTHERS.iter().any(|(program, flags)| around.contains(program) && flags.contains(&flag))
}

/// The words of each command in a piece of code: the parts of a line between pipes and the like.
fn commands<'text>(code: &Code<'text>) -> impl Iterator<Item = Vec<&'text str>> {
    code.text.split(['|', ';', '&', '(']).map(|command| {
        let words = command.split_whitespace().skip_while(|it| ["$", "#", "sudo"].contains(it));
        // Variables of the environment come first.
        words.skip_while(|it| it.contains('=') && !it.starts_with('-')).collect()
    })
}

/// What make is to make.
fn makes<'text>(code: &Code<'text>) -> impl Iterator<Item = &'text str> {
    let commands = commands(code).filter(|it| it.first() == Some(&"make"));
    commands.flat_map(|it| it.into_iter().skip(1).filter(|it| !it.contains('=') && !it.starts_with('-')).take(1))
}

/// The commands of windlass that are not known.
fn unknown_commands(code: &Code<'_>, known: &Known) -> Vec<String> {
    let mut unknown = Vec::new();
    for words in commands(code).filter(|it| it.first().is_some_and(|it| Path::new(it).ends_with("windlass"))) {
        let mut before = String::new();
        for word in &words[1..] {
            let Some(next) = known.commands.get(&before).filter(|it| !it.is_empty()) else { break };
            let is_command = word.chars().all(|it| it.is_ascii_lowercase() || it == '-') && !word.starts_with('-');
            if !is_command {
                // An option, a placeholder or a path.
                break;
            }
            let command = format!("{before} {word}").trim().to_owned();
            if !next.contains(*word) && !(known.is_hidden_command)(&command) {
                unknown.push(command);
                break;
            }
            before = command;
        }
    }
    unknown
}

/// A span that is meant as a path of the repository.
fn path(span: &str) -> Option<String> {
    let is_plain = span.chars().all(|it| it.is_ascii_alphanumeric() || "/._-{},".contains(it));
    // What is built lies in `target`.
    if !is_plain || span.starts_with(['/', '.']) || span.starts_with("target/") {
        return None;
    }
    let top = span.split('/').next().unwrap_or_default();
    let is_source = [".rs", ".sh", ".py", ".proto", ".go"].iter().any(|it| span.ends_with(it) && span != *it);
    let is_directory = span.strip_suffix('/').is_some_and(|it| !it.contains('.'));
    let is_named = span.contains('/') && TOP.contains(&top);
    (is_source || is_directory || is_named).then(|| span.trim_end_matches('/').to_owned())
}

fn is_there(path: &str, directory: &Path, known: &Known) -> bool {
    if let Some((before, rest)) = path.split_once('{')
        && let Some((choices, after)) = rest.split_once('}')
    {
        return choices.split(',').all(|it| is_there(&format!("{before}{it}{after}"), directory, known));
    }
    // The documents call a crate by its short name where they name many of its files.
    let (first, rest) = path.split_once('/').unwrap_or((path, ""));
    let of_crate = ["", "windlass-"].map(|it| PathBuf::from(format!("crates/{it}{first}/src/{rest}")));
    let places = known.sources.iter().map(|it| it.join(path));
    [PathBuf::from(path), Path::new("crates").join(path), plain(&directory.join(path))]
        .into_iter()
        .chain(of_crate)
        .chain(places)
        .any(|it| (known.exists)(&it))
}

/// A path without `..`.
fn plain(path: &Path) -> PathBuf {
    let mut plain = PathBuf::new();
    for part in path.components() {
        match part {
            Component::ParentDir => drop(plain.pop()),
            part => plain.push(part),
        }
    }
    plain
}

/// Whether this is written as names of reasons are, and of types: at least two words.
fn is_camel_case(span: &str) -> bool {
    let humps = span.chars().filter(char::is_ascii_uppercase).count();
    span.starts_with(|it: char| it.is_ascii_uppercase())
        && span.chars().all(|it| it.is_ascii_alphanumeric())
        && span.chars().any(|it| it.is_ascii_lowercase())
        && humps > 1
}

/// Whether this is written as names of functions are, tests above all: at least three words.
fn is_snake_case(span: &str) -> bool {
    span.chars().all(|it| it.is_ascii_lowercase() || it.is_ascii_digit() || it == '_') && span.matches('_').count() > 1
}

/// What `windlass` says of itself: its commands and their options.
fn ask(words: &[String], known: &mut Known) {
    let output = program(env!("CARGO_BIN_EXE_windlass")).arg("help").args(words).output().unwrap();
    assert!(output.status.success(), "windlass help {words:?}");
    let help = String::from_utf8(output.stdout).unwrap();
    known.flags.extend(flags(&help).map(str::to_owned));
    let listed = help.lines().skip_while(|it| *it != "Commands:").skip(1).take_while(|it| !it.is_empty());
    let names = listed.filter(|it| it.starts_with("  ") && !it.starts_with("   "));
    let next: BTreeSet<String> = names.filter_map(|it| it.split_whitespace().next()).map(str::to_owned).collect();
    for word in next.iter().filter(|it| *it != "help") {
        ask(&[words, std::slice::from_ref(word)].concat(), known);
    }
    known.commands.insert(words.join(" "), next);
}

/// The options that a program's source defines: `#[arg(long)]` above a field, or with a name of its own.
fn defined(source: &str) -> BTreeSet<String> {
    let mut defined = BTreeSet::new();
    let mut rest = source;
    while let Some((_, after)) = rest.split_once("#[arg(") {
        let Some((attribute, next)) = after.split_once(")]") else { break };
        rest = next;
        if let Some((_, name)) = attribute.split_once("long = \"") {
            defined.extend(name.split('"').next().map(|it| format!("--{it}")));
        } else if attribute.split(|it: char| !it.is_alphanumeric() && it != '_').any(|it| it == "long") {
            let field = next.lines().map(str::trim).find(|it| !it.is_empty() && !it.starts_with(['#', '/']));
            let name = field.and_then(|it| it.split(':').next()).and_then(|it| it.split_whitespace().last());
            defined.extend(name.map(|it| format!("--{}", it.replace('_', "-"))));
        }
    }
    defined
}

fn known() -> Known {
    let top = root();
    let mut known = Known {
        flags: BTreeSet::new(),
        commands: BTreeMap::new(),
        targets: BTreeSet::new(),
        words: Reason::ALL.iter().map(ToString::to_string).chain(OF_SYSTEMD.map(str::to_owned)).collect(),
        is_hidden_command: Box::new(|words| {
            let mut help = program(env!("CARGO_BIN_EXE_windlass"));
            help.arg("help").args(words.split(' ')).output().is_ok_and(|it| it.status.success())
        }),
        exists: Box::new(move |path| top.join(path).exists()),
        sources: Vec::new(),
    };
    ask(&[], &mut known);
    let sources: Vec<PathBuf> = ["crates", "bench"].iter().flat_map(|it| files(it, ".rs")).collect();
    for path in &sources {
        let text = std::fs::read_to_string(path).unwrap();
        known.flags.extend(defined(&text));
        let words = text.split(|it: char| !it.is_ascii_alphanumeric() && it != '_');
        let words = words.filter(|it| is_camel_case(it) || is_snake_case(it));
        known.words.extend(words.map(str::to_owned));
        let directory = path.parent().expect("a file in a directory").to_owned();
        if directory.components().any(|it| it.as_os_str() == "src") && !known.sources.contains(&directory) {
            known.sources.push(directory);
        }
    }
    let makefile = read("Makefile");
    let targets = makefile.lines().filter_map(|it| it.strip_prefix(".PHONY:")).flat_map(str::split_whitespace);
    known.targets = targets.map(str::to_owned).collect();
    known
}

#[test]
fn everything_that_the_documents_name_exists() {
    let known = known();
    let top = ["README.md", "ARCHITECTURE.md", "CONTRIBUTING.md"].map(str::to_owned);
    let pages =
        files("docs", ".md").into_iter().map(|it| it.strip_prefix(root()).unwrap().to_str().unwrap().to_owned());
    let missing: Vec<String> = top.into_iter().chain(pages).flat_map(|it| missing(&it, &read(&it), &known)).collect();
    assert!(missing.is_empty(), "{}", missing.join("\n"));
}

/// What is wrong with one line of a made-up document.
fn wrong(line: &str) -> Vec<String> {
    let set = |words: &[&str]| words.iter().map(ToString::to_string).collect::<BTreeSet<_>>();
    let known = Known {
        flags: set(&["--manifests", "--root"]),
        commands: [("".to_owned(), set(&["run", "csi"])), ("csi".to_owned(), set(&["judge"]))].into(),
        targets: set(&["test", "sim"]),
        words: set(&["DriverMissing", "NodeStageVolume", "a_pod_comes_and_goes"]),
        is_hidden_command: Box::new(|it| it == "csi referee"),
        exists: Box::new(|it| {
            ["docs/cli.md", "docs", "crates/windlass-core/src/plan.rs", "scripts/demo.sh"]
                .iter()
                .any(|there| it == Path::new(there))
        }),
        sources: vec!["crates/windlass-core/src".into()],
    };
    missing("docs/made-up.md", line, &known)
}

#[test]
fn what_exists_is_not_told() {
    for line in [
        "See [the command line](cli.md), [a site](https://example.com/none.md) and [here](#a-heading).\n## A heading",
        "`windlass run --manifests DIRECTORY --root=/tmp` and `sudo windlass csi judge`, `windlass VERB`, `windlass csi referee`",
        "`--manifests`, and `cargo test --release`; `make test SEEDS=3` and `make sim`",
        "`plan.rs`, `core/plan.rs`, `crates/windlass-core/src/{plan}.rs`, `scripts/demo.sh`, `/etc/passwd`, `docs/`",
        "`DriverMissing` in `NodeStageVolume`, `POD`, `Pod`, `a_pod_comes_and_goes`, `a_name`",
        "```yaml\nargs: [--no-such-option]\n```\n",
    ] {
        assert_eq!(wrong(line), [""; 0], "{line}");
    }
}

#[test]
fn what_does_not_exist_is_told_with_its_line() {
    for (line, told) in [
        ("See [it](cly.md).", "there is no docs/cly.md"),
        ("See [it](#no-heading).", "docs/made-up.md has no heading no-heading"),
        ("`windlass run --manifest x`", "no program has the option --manifest"),
        ("`--rooot`", "no program has the option --rooot"),
        ("`test --release`", "no program has the option --release"),
        ("```sh\nwindlass run --manifest\n```", "no program has the option --manifest"),
        ("`make tests`", "the Makefile has no tests"),
        ("```console\n$ make tests\n```", "the Makefile has no tests"),
        ("`windlass runn`", "there is no command `windlass runn`"),
        ("`windlass csi judges`", "there is no command `windlass csi judges`"),
        ("`plans.rs`", "there is no plans.rs"),
        ("`core/plans.rs`", "there is no core/plans.rs"),
        ("`crates/windlass-core/src/{plan,plans}.rs`", "there is no crates/windlass-core/src/{plan,plans}.rs"),
        ("`scripts/demos.sh`", "there is no scripts/demos.sh"),
        ("`a_pod_comes_and_stays`", "a_pod_comes_and_stays is neither a reason nor in any source"),
        ("`DriverMising`", "DriverMising is neither a reason nor in any source"),
    ] {
        let found = wrong(&format!("# Title\n\n{line}"));
        assert_eq!(found.len(), 1, "{line}: {found:?}");
        assert!(found[0].starts_with("docs/made-up.md:") && found[0].ends_with(told), "{line}: {found:?}");
    }
}
