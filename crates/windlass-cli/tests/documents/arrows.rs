//! Which crate knows of which, and which module of which: the tables of `ARCHITECTURE.md` are the rule.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use serde_json::Value;
use windlass_testing::process::program;

use crate::text::{spans, table};
use crate::{files, read, root};

type Arrows = BTreeMap<String, BTreeSet<String>>;

/// The arrows between the crates of the workspace, without those of tests.
fn found() -> Arrows {
    let mut cargo = program(env!("CARGO"));
    cargo.args(["metadata", "--no-deps", "--offline", "--format-version", "1"]).current_dir(root());
    let output = cargo.output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let workspace: Value = serde_json::from_slice(&output.stdout).unwrap();
    let list = |value: &Value| value.as_array().expect("a list").clone();
    let text = |value: &Value| value.as_str().expect("a text").to_owned();
    let packages = list(&workspace["packages"]);
    let names: BTreeSet<String> = packages.iter().map(|it| text(&it["name"])).collect();
    let arrows = packages.iter().map(|package| {
        let normal = list(&package["dependencies"]).into_iter().filter(|it| it["kind"].is_null());
        (text(&package["name"]), normal.map(|it| text(&it["name"])).filter(|it| names.contains(it)).collect())
    });
    arrows.collect()
}

/// What differs between the arrows that there are and those that are allowed.
fn differences(found: &Arrows, allowed: &Arrows) -> Vec<String> {
    let mut differences = Vec::new();
    for (name, uses) in found {
        let Some(may) = allowed.get(name) else {
            differences.push(format!("{name} is not in the table"));
            continue;
        };
        differences.extend(uses.difference(may).map(|it| format!("{name} must not use {it}")));
        differences.extend(may.difference(uses).map(|it| format!("{name} does not use {it}, and the table says so")));
    }
    differences.extend(allowed.keys().filter(|it| !found.contains_key(*it)).map(|it| format!("there is no {it}")));
    differences
}

#[test]
fn crates_know_of_those_that_the_table_says() {
    let document = read("ARCHITECTURE.md");
    let set = |cell: &str| spans(cell).into_iter().map(str::to_owned).collect::<BTreeSet<_>>();
    let rows = table(&document, "### Which crate uses which");
    let allowed = rows.iter().map(|it| (spans(it[0])[0].to_owned(), set(it[1]))).collect();
    assert_eq!(differences(&found(), &allowed), [""; 0]);
}

#[test]
fn an_arrow_too_many_and_one_too_few_are_told() {
    let arrows = |of: &[(&str, &[&str])]| -> Arrows {
        of.iter().map(|(name, uses)| (name.to_string(), uses.iter().map(ToString::to_string).collect())).collect()
    };
    let found = arrows(&[("core", &["linux"]), ("cli", &["core"]), ("new", &[])]);
    let allowed = arrows(&[("core", &[]), ("cli", &["core", "csi"]), ("old", &[])]);
    let told = [
        "cli does not use csi, and the table says so",
        "core must not use linux",
        "new is not in the table",
        "there is no old",
    ];
    assert_eq!(differences(&found, &allowed), told);
}

/// What a source says outside of its tests and comments.
fn code(source: &str) -> String {
    let code = source.split("#[cfg(test)]").next().unwrap_or_default();
    code.lines().filter(|it| !it.trim_start().starts_with("//")).map(|it| format!("{it}\n")).collect()
}

/// The modules of its own crate that a source names.
fn modules(source: &str) -> BTreeSet<String> {
    let code = code(source);
    let mut modules = BTreeSet::new();
    for after in code.split("crate::").skip(1) {
        let word =
            |text: &str| text.chars().take_while(|it| it.is_ascii_alphanumeric() || *it == '_').collect::<String>();
        let Some(group) = after.strip_prefix('{') else {
            modules.insert(word(after));
            continue;
        };
        // The names at the top of the group.
        let mut depth = 0;
        let mut is_first = true;
        for (at, letter) in group.char_indices() {
            match letter {
                '{' => depth += 1,
                '}' if depth == 0 => break,
                '}' => depth -= 1,
                ',' if depth == 0 => is_first = true,
                _ if is_first && !letter.is_whitespace() => {
                    modules.insert(word(&group[at..]));
                    is_first = false;
                }
                _ => {}
            }
        }
    }
    modules
}

/// The sources of a module by their paths: its file, and those below its directory but for tests.
fn sources(module: &str) -> Vec<(String, String)> {
    let mut paths = files(module, ".rs");
    paths.push(root().join(module).with_extension("rs"));
    let shown = |path: &Path| path.strip_prefix(root()).unwrap().display().to_string();
    let paths = paths.iter().filter(|it| it.is_file()).map(|it| (shown(it), std::fs::read_to_string(it).unwrap()));
    let sources: Vec<_> = paths.filter(|(path, _)| !path.ends_with("/tests.rs") && !path.contains("/tests/")).collect();
    assert!(!sources.is_empty(), "there is no module {module}");
    sources
}

#[test]
fn modules_do_not_know_of_those_that_the_table_forbids() {
    let document = read("ARCHITECTURE.md");
    let mut wrong = Vec::new();
    for row in table(&document, "### Which module must not use which") {
        for module in spans(row[0]) {
            for (path, source) in sources(&format!("crates/windlass/src/{module}")) {
                let used = modules(&source);
                wrong.extend(
                    spans(row[1]).iter().filter(|it| used.contains(**it)).map(|it| format!("{path} uses {it}")),
                );
            }
        }
    }
    assert_eq!(wrong, [""; 0]);
}

/// A volume type is one file and one line: what others need to know of it they ask its description, which outside of
/// `plugin` cannot be named.
#[test]
fn no_module_but_those_of_plugins_names_a_volume_type() {
    let quoted = |source: &str| -> BTreeSet<String> {
        let code = code(source);
        let words = code.split('"').filter(|it| it.starts_with("kubernetes.io/") && !it.contains(' '));
        words.map(str::to_owned).collect()
    };
    let plugins = sources("crates/windlass/src/plugin");
    let names: BTreeSet<String> = plugins.iter().flat_map(|(_, source)| quoted(source)).collect();
    assert_eq!(names.len(), 10, "{names:?}");
    let others = sources("crates/windlass/src").into_iter().filter(|it| !plugins.contains(it));
    let wrong: Vec<String> = others
        .flat_map(|(path, source)| {
            names.intersection(&quoted(&source)).map(|it| format!("{path} names {it}")).collect::<Vec<_>>()
        })
        .collect();
    assert_eq!(wrong, [""; 0]);
}

#[test]
fn modules_that_get_the_time_ask_no_clock() {
    let document = read("ARCHITECTURE.md");
    let mut wrong = Vec::new();
    for row in table(&document, "### Who asks no clock") {
        for module in spans(row[0]) {
            for (path, source) in sources(module.trim_end_matches(".rs")) {
                let code = code(&source);
                let asked =
                    ["Instant::now", "SystemTime::now", "Timestamp::now"].into_iter().filter(|it| code.contains(it));
                wrong.extend(asked.map(|it| format!("{path} asks {it}")));
            }
        }
    }
    assert_eq!(wrong, [""; 0]);
}

#[test]
fn modules_are_found_in_all_ways_of_naming_them() {
    let source = "
        use crate::{
            layout::{Slot, home::Home},
            plugin::Plugin, quantity,
        };
        use crate::tell::Tell;
        // crate::comment
        fn a() -> crate::drive::Drive {}
        #[cfg(test)]
        mod tests { use crate::node; }
    ";
    let found: Vec<String> = modules(source).into_iter().collect();
    assert_eq!(found, ["drive", "layout", "plugin", "quantity", "tell"]);
}
