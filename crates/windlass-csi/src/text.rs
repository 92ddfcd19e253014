//! Words of others, made fit to be shown: on one line, not too long, and without secrets (I-12).

use std::collections::BTreeMap;

/// As much of somebody else's words as is kept.
const BYTES_MAX: usize = 1024;
/// What stands for what is not shown.
const HIDDEN: &str = "…";
/// Shorter secrets are hidden where they stand alone: hidden inside of words they would be told by what is missing.
const ANYWHERE_BYTES: usize = 4;
/// A part of a secret that is as long as this is a secret.
const PART_BYTES: usize = 16;

/// The values that must not be shown, if somebody repeats them.
#[derive(Default)]
pub(crate) struct Secrets(Vec<String>);

impl Secrets {
    /// Of a request: the values of its secrets.
    pub(crate) fn of(secrets: &BTreeMap<String, String>) -> Self {
        Self::default().and(secrets.values())
    }

    /// And these.
    pub(crate) fn and<'a>(mut self, values: impl IntoIterator<Item = &'a String>) -> Self {
        for value in values {
            // A key is many lines, and tokens come as JSON: a part that somebody quotes tells enough.
            let parts = value.split(['"', '\n', '\r']).filter(|it| it.len() >= PART_BYTES && *it != value);
            self.0.extend(parts.chain([value.as_str()]).filter(|it| !it.trim().is_empty()).map(str::to_string));
        }
        // The longest first: a secret that is in another would leave the rest of it to be seen.
        self.0.sort_by_key(|it| std::cmp::Reverse(it.len()));
        self
    }

    fn hide(&self, words: &str) -> String {
        let mut words = words.to_string();
        for secret in &self.0 {
            if secret.len() >= ANYWHERE_BYTES {
                words = words.replace(secret.as_str(), HIDDEN);
            } else {
                words = replace_alone(&words, secret);
            }
        }
        words
    }
}

/// Replaces what is not a part of a longer word.
fn replace_alone(words: &str, secret: &str) -> String {
    let mut kept = String::with_capacity(words.len());
    let mut at = 0;
    for (start, found) in words.match_indices(secret) {
        let end = start + found.len();
        let alone =
            !words[..start].ends_with(char::is_alphanumeric) && !words[end..].starts_with(char::is_alphanumeric);
        kept.push_str(&words[at..start]);
        kept.push_str(if alone { HIDDEN } else { found });
        at = end;
    }
    kept.push_str(&words[at..]);
    kept
}

/// Somebody's words as they can be shown.
pub(crate) fn shown(words: &str, secrets: &Secrets) -> String {
    // Hidden before anything else, for a secret that was cut or changed is not found any more.
    let words = secrets.hide(words);
    let mut kept = String::with_capacity(words.len().min(BYTES_MAX));
    for c in words.trim().chars() {
        let c = match c {
            _ if c.is_whitespace() => ' ',
            _ if is_unshowable(c) => char::REPLACEMENT_CHARACTER,
            _ => c,
        };
        if kept.len() + c.len_utf8() > BYTES_MAX - HIDDEN.len() {
            kept.push_str(HIDDEN);
            break;
        }
        kept.push(c);
    }
    kept
}

/// What moves the cursor, colors a terminal, or makes text read in another order than it is written.
pub(crate) fn is_unshowable(c: char) -> bool {
    c.is_control()
        || matches!(c, '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}')
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn secrets(values: &[&str]) -> Secrets {
        Secrets::default().and(&values.iter().map(ToString::to_string).collect::<Vec<_>>())
    }

    #[test]
    fn a_secret_is_hidden_wherever_it_is_repeated() {
        let secrets = secrets(&["swordfish", "sword", "a"]);
        assert_eq!(shown("login a:swordfish@host: bad sword, swordfish!", &secrets), "login …:…@host: bad …, …!");
    }

    #[test]
    fn a_line_of_a_key_and_a_token_inside_of_json_are_hidden() {
        let key = "-----BEGIN KEY-----\nMIIEvQIBADANBgkqhkiG9w0B\n-----END KEY-----\n";
        let token = r#"{"":{"token":"eyJhbGciOiJSUzI1NiIsImtpZCI6","expirationTimestamp":"2026-01-01T00:00:00Z"}}"#;
        let secrets = secrets(&[key, token]);
        let words = "line MIIEvQIBADANBgkqhkiG9w0B of eyJhbGciOiJSUzI1NiIsImtpZCI6 is bad";
        assert_eq!(shown(words, &secrets), "line … of … is bad");
    }

    #[test]
    fn nothing_of_a_message_moves_the_cursor_or_starts_a_line() {
        let words = "\u{1b}[2Jno\r\nsuch\tvolume\u{202e}\u{7}";
        assert_eq!(shown(words, &Secrets::default()), "\u{fffd}[2Jno  such volume\u{fffd}\u{fffd}");
    }

    proptest! {
        #[test]
        fn whatever_is_said_is_short_and_on_one_line(words in "(?s).{0,400}", secret in ".{4,40}") {
            let words = format!("{words}{secret}{words}");
            let shown = shown(&words, &secrets(&[&secret]));
            prop_assert!(shown.len() <= BYTES_MAX);
            prop_assert!(!shown.chars().any(is_unshowable));
        }
    }
}
