//! Manifests, as YAML and as JSON.

use windlass::manifest::{self, Document, Error, validate};

/// Fields as the checks name them, of which the lines are looked for.
const FIELDS: [&str; 6] =
    ["spec.volumes[0].name", "metadata.name", "spec", "data[a.b]", "spec.volumes[18446744073709551616]", "a..b[]"];

/// Any text is read or refused, and can be judged; what is plain JSON is the same object when it is read as YAML.
pub(crate) fn target(bytes: &[u8]) {
    let read = manifest::read_written(bytes);
    let lines = 1 + bytes.iter().filter(|it| **it == b'\n').count() as u64;
    match &read {
        Ok(objects) => {
            for object in objects {
                // A lone carriage return is a new line in YAML.
                let breaks = lines + bytes.iter().filter(|it| **it == b'\r').count() as u64;
                assert!((1..=breaks).contains(&object.line), "line {} of {lines}", object.line);
                for finding in validate::written(object) {
                    assert!(!finding.text.is_empty());
                    let _ = object.shape.line_of(&finding.field);
                }
                for field in FIELDS {
                    let _ = object.shape.line_of(field);
                }
            }
        }
        Err(error) => assert!(!error.to_string().is_empty()),
    }
    let text = str::from_utf8(bytes).unwrap_or_default();
    if text.trim_start().starts_with('{') && text.chars().all(is_printable) {
        // Behind a comment it is not plain JSON any more, so only the reader of YAML sees it.
        let as_yaml = manifest::read(format!("# YAML\n{text}").as_bytes()).map(objects);
        let as_json = read.map(|it| objects(it.into_iter().map(|it| it.document).collect()));
        assert_eq!(as_json.map_err(kept), as_yaml.map_err(kept), "JSON and YAML agree");
    }
}

/// Whether YAML has this character as it is. JSON has some more, such as the one for deletion, and programs write them: what
/// has one is read as JSON or not at all.
fn is_printable(it: char) -> bool {
    matches!(it, '\t' | '\n' | '\r' | ' '..='~' | '\u{a0}'..='\u{2027}' | '\u{202a}'..='\u{fefe}' | '\u{ff00}'..='\u{fffd}')
        || it > '\u{ffff}'
}

/// The objects without their lines.
fn objects(documents: Vec<Document>) -> Vec<Document> {
    let without_line = |it| match it {
        Document::Other(mut other) => {
            other.line = 0;
            Document::Other(other)
        }
        other @ (Document::Pod(_) | Document::Object(_)) => other,
    };
    documents.into_iter().map(without_line).collect()
}

/// Of an error only that it is one: its line and its words may differ.
fn kept(_: Error) {}
