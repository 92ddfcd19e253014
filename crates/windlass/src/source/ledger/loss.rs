//! What of an object is missing in a later version of it, which may be one that nobody finished writing.
//!
//! A text that is cut between two lines is often still YAML, of an object that lacks what came after. So what matters is
//! what a cut can cause: a field that is not there, a list that is shorter, a value that ends earlier. Nothing here is told
//! of a value, for it may be secret (I-12).

use serde_json::Value;

/// The fields by which items of a list are told apart, the better one first: several mounts can be of one volume.
const NAMES: [&str; 5] = ["mountPath", "devicePath", "name", "path", "key"];

/// Where a text was cut, if it was.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Cut {
    /// Anywhere.
    Anywhere,
    /// At the end of a line, so no value ends within one.
    BetweenLines,
}

/// The field that is missing or shorter in the second, for example `.spec.volumes[scratch].emptyDir`; the first one found.
pub(super) fn lost(before: &Value, after: &Value, cut: Cut) -> Option<String> {
    match (before, after) {
        // An API server takes a field that says nothing for one that is not there, and so do the types.
        (Value::Null, _) => None,
        (Value::Object(before), Value::Object(after)) => before.iter().find_map(|(key, value)| match after.get(key) {
            Some(now) => lost(value, now, cut).map(|it| format!(".{key}{it}")),
            None => (!is_nothing(value)).then(|| format!(".{key}")),
        }),
        (Value::Array(before), Value::Array(after)) => lost_item(before, after, cut),
        (Value::Object(_) | Value::Array(_), _) => Some(String::new()),
        (_, Value::Null) => Some(String::new()),
        (Value::Bool(_) | Value::Number(_) | Value::String(_), _) => {
            let (before, after) = (text(before), text(after));
            // A cut text has lost the line break at its end, or got it there.
            let rest = before.trim_end().strip_prefix(after.trim_end()).filter(|it| !it.is_empty())?;
            // A line break within a value is one, or a space.
            (cut == Cut::Anywhere || rest.starts_with(char::is_whitespace) || after.trim().is_empty()).then(String::new)
        }
    }
}

fn lost_item(before: &[Value], after: &[Value], cut: Cut) -> Option<String> {
    let is_name = |name: &&str| {
        let mut names: Vec<Option<&str>> = before.iter().map(|it| it.get(name).and_then(Value::as_str)).collect();
        names.sort_unstable();
        names.iter().all(Option::is_some) && names.windows(2).all(|it| it[0] != it[1])
    };
    if let Some(field) = NAMES.iter().find(|it| is_name(it)) {
        return before.iter().find_map(|item| {
            let name = item.get(field).and_then(Value::as_str).unwrap_or_default();
            match after.iter().find(|it| it.get(field).and_then(Value::as_str) == Some(name)) {
                Some(now) => lost(item, now, cut).map(|it| format!("[{name}]{it}")),
                None => Some(format!("[{name}]")),
            }
        });
    }
    if before.iter().all(|it| !it.is_object() && !it.is_array()) {
        return before.iter().position(|it| !after.contains(it)).map(|index| format!("[{index}]"));
    }
    before.iter().enumerate().find_map(|(index, item)| match after.get(index) {
        Some(now) => lost(item, now, cut).map(|it| format!("[{index}]{it}")),
        None => Some(format!("[{index}]")),
    })
}

fn is_nothing(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Object(fields) => fields.is_empty(),
        Value::Array(items) => items.is_empty(),
        Value::Bool(_) | Value::Number(_) | Value::String(_) => false,
    }
}

fn text(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_a_cut_takes_away_is_found() {
        for (before, after, missing) in [
            (json!({"a": 1}), json!({}), ".a"),
            (json!({"a": {"b": "c"}}), json!({"a": {}}), ".a.b"),
            (json!({"a": {"b": "c"}}), json!({"a": null}), ".a"),
            (json!({"a": "long text\n"}), json!({"a": "long te\n"}), ".a"),
            (json!({"a": "text"}), json!({"a": ""}), ".a"),
            (json!({"a": 1024}), json!({"a": 10}), ".a"),
            (json!({"a": "10Gi"}), json!({"a": 10}), ".a"),
            (json!({"a": [{"name": "x"}, {"name": "y"}]}), json!({"a": [{"name": "x"}]}), ".a[y]"),
            (json!({"a": [{"name": "xyz"}]}), json!({"a": [{"name": "xy"}]}), ".a[xyz]"),
            (json!({"a": [{"name": "x", "e": {"b": 1}}]}), json!({"a": [{"name": "x"}]}), ".a[x].e"),
            (json!({"a": ["x", "y"]}), json!({"a": ["x"]}), ".a[1]"),
            (json!({"a": [{"b": 1}, {"b": 2}]}), json!({"a": [{"b": 1}]}), ".a[1]"),
            (
                json!([{"name": "v", "mountPath": "/a"}, {"name": "v", "mountPath": "/b"}]),
                json!([{"name": "v", "mountPath": "/a"}]),
                "[/b]",
            ),
        ] {
            assert_eq!(lost(&before, &after, Cut::Anywhere).as_deref(), Some(missing), "{before} {after}");
        }
    }

    #[test]
    fn what_is_another_or_more_or_in_another_order_is_not_lost() {
        for (before, after) in [
            (json!({"a": 1}), json!({"a": 1, "b": 2})),
            (json!({"a": "old"}), json!({"a": "new"})),
            (json!({"a": "text"}), json!({"a": "text\n"})),
            (json!({"a": {}, "b": [], "c": null}), json!({})),
            (json!({"a": true}), json!({"a": false})),
            (json!([{"name": "x"}, {"name": "y"}]), json!([{"name": "y"}, {"name": "z"}, {"name": "x"}])),
            (json!(["x", "y"]), json!(["y", "x"])),
        ] {
            assert_eq!(lost(&before, &after, Cut::Anywhere), None, "{before} {after}");
        }
    }
    /// A number that somebody made smaller is one of its own; a text of several lines that ends earlier may be cut.
    #[test]
    fn between_lines_only_texts_of_several_lines_end_earlier() {
        let lost = |before: &str, after: &str| lost(&json!(before), &json!(after), Cut::BetweenLines).is_some();
        assert!(!lost("100", "10") && !lost("v1.10", "v1.1"));
        assert!(lost("one\ntwo\n", "one\n") && lost("one two", "one") && lost("one", ""));
    }
}
