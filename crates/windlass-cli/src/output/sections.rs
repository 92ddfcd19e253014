//! Names and values below each other, as `describe` prints them.

use super::plain;

/// Lines of `Name:   value`, the values below each other. A value without text is `<none>`.
pub(crate) fn fields(indent: usize, fields: &[(&str, String)]) -> String {
    let width = fields.iter().map(|(name, _)| name.len() + 1).max().unwrap_or(0);
    let mut text = String::new();
    for (name, value) in fields {
        let value = if value.is_empty() { "<none>" } else { value };
        text.push_str(&format!("{:indent$}{:width$}  {value}\n", "", format!("{name}:")));
    }
    text
}

/// The same lines, farther in.
pub(crate) fn indented(indent: usize, text: &str) -> String {
    text.lines().map(|it| format!("{:indent$}{it}\n", "")).collect()
}

/// Text of others that may be missing.
pub(crate) fn optional(text: Option<&str>) -> String {
    text.map(plain).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_stand_below_each_other() {
        let text = fields(2, &[("Name", "web".into()), ("Namespace", String::new())]);
        assert_eq!(text, "  Name:       web\n  Namespace:  <none>\n");
        assert_eq!(indented(1, "a\nb\n"), " a\n b\n");
    }
}
