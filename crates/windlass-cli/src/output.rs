//! How answers are printed: the one way to print a table, JSON, YAML and text.
//!
//! Data goes to standard output, everything else to standard error.

pub(crate) mod age;
pub(crate) mod columns;
pub(crate) mod lines;
pub(crate) mod paint;
pub(crate) mod reasons;
pub(crate) mod sections;
pub(crate) mod table;

use std::io::{self, Write};

use serde::Serialize;

/// Prints data. That nobody reads it any more is an error, which ends the program in peace.
pub(crate) fn data(text: &str) -> io::Result<()> {
    let mut output = io::stdout().lock();
    output.write_all(text.as_bytes())?;
    output.flush()
}

/// Says something to the person at the terminal, on a line of its own.
pub(crate) fn note(text: &str) {
    // Nobody is left to be told that it cannot be told.
    let _ = writeln!(io::stderr(), "{text}");
}

/// As JSON for people and programs.
pub(crate) fn json(object: &impl Serialize) -> anyhow::Result<String> {
    Ok(serde_json::to_string_pretty(object)? + "\n")
}

/// As JSON on one line, for streams.
pub(crate) fn json_line(object: &impl Serialize) -> anyhow::Result<String> {
    Ok(serde_json::to_string(object)? + "\n")
}

/// As YAML.
pub(crate) fn yaml(object: &impl Serialize) -> anyhow::Result<String> {
    // Through JSON's model, so that both say the same.
    let mut text = serde_saphyr::to_string(&serde_json::to_value(object)?)?;
    if !text.ends_with('\n') {
        text.push('\n');
    }
    Ok(text)
}

/// Text that others wrote, fit for one line of a terminal: it moves no cursor and paints nothing.
pub(crate) fn plain(text: &str) -> String {
    let mut plain = String::with_capacity(text.len());
    for letter in text.trim_end().chars() {
        match letter {
            '\n' | '\r' | '\t' => plain.push(' '),
            // Those that turn the direction of writing make a line read otherwise than it is.
            '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' => plain.extend(letter.escape_unicode()),
            // Those that nobody sees make two names look like one.
            '\u{200b}' | '\u{2060}'..='\u{2064}' | '\u{feff}' => plain.extend(letter.escape_unicode()),
            it if it.is_control() => plain.extend(it.escape_unicode()),
            it => plain.push(it),
        }
    }
    plain
}

/// A number of things, in words: `1 volume`, `3 volumes`.
pub(crate) fn count(number: usize, thing: &str) -> String {
    if number == 1 { format!("1 {thing}") } else { format!("{number} {thing}s") }
}

/// A kind of volume as people say it: without the domain that all built-in ones have.
pub(crate) fn short(plugin: &str) -> &str {
    plugin.strip_prefix("kubernetes.io/").unwrap_or(plugin)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_of_others_cannot_command_the_terminal() {
        assert_eq!(plain("two\nlines\u{1b}[31m"), "two lines\\u{1b}[31m");
        assert_eq!(plain("a\u{2061}b"), "a\\u{2061}b");
        assert_eq!(plain("a\u{202e}b\u{2069}"), "a\\u{202e}b\\u{2069}");
        assert_eq!(plain("größer"), "größer");
    }

    #[test]
    fn yaml_can_be_read_back() {
        let object =
            serde_json::json!({"a": "yes", "b": ["1", 2], "c": {}, "d": "x: y\n", "e": "2024-01-01T00:00:00Z"});
        let back: serde_json::Value = serde_saphyr::from_str(&yaml(&object).unwrap()).unwrap();
        assert_eq!(back, object);
    }
}
