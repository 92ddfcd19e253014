//! Text between quotes, as Go writes it: how the downward API shows the values of labels and annotations (P-116).

use std::fmt::Write;

/// The text as a Go string literal. What can be printed stays, whatever its language; everything else is escaped.
///
/// Which characters can be printed is a matter of the version of Unicode: those that were added after version 15.0 are
/// escaped by the kubelet and stay here.
pub(super) fn quote(text: &str) -> String {
    let mut quoted = String::with_capacity(text.len() + 2);
    quoted.push('"');
    for character in text.chars() {
        match character {
            '"' | '\\' => quoted.extend(['\\', character]),
            '\u{7}' => quoted.push_str("\\a"),
            '\u{8}' => quoted.push_str("\\b"),
            '\u{c}' => quoted.push_str("\\f"),
            '\n' => quoted.push_str("\\n"),
            '\r' => quoted.push_str("\\r"),
            '\t' => quoted.push_str("\\t"),
            '\u{b}' => quoted.push_str("\\v"),
            _ if is_printable(character) => quoted.push(character),
            _ => escape(&mut quoted, u32::from(character)),
        }
    }
    quoted.push('"');
    quoted
}

fn escape(quoted: &mut String, number: u32) {
    let written = match number {
        0..0x80 => write!(quoted, "\\x{number:02x}"),
        0x80..0x1_0000 => write!(quoted, "\\u{number:04x}"),
        0x1_0000.. => write!(quoted, "\\U{number:08x}"),
    };
    written.expect("a string takes everything");
}

/// A letter, mark, number, punctuation or symbol of any language, or a space: what `escape_debug` leaves as it is.
fn is_printable(character: char) -> bool {
    if character.is_ascii() {
        return matches!(character, ' '..='~');
    }
    // On its own a combining mark is escaped, because it would combine with the quote; after a letter it is not.
    let mut buffer = [b'a', 0, 0, 0, 0];
    let length = 1 + character.encode_utf8(&mut buffer[1..]).len();
    std::str::from_utf8(&buffer[..length]).is_ok_and(|it| it.escape_debug().nth(1) == Some(character))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// P-116. As Go's `strconv.Quote` has them.
    #[test]
    fn text_is_quoted_as_go_does() {
        for (text, expected) in [
            ("", r#""""#),
            ("plain text", r#""plain text""#),
            ("she said \"hi\" \\ back", r#""she said \"hi\" \\ back""#),
            ("it's", r#""it's""#),
            ("first\nsecond\ttabbed\n", r#""first\nsecond\ttabbed\n""#),
            ("\u{7}\u{8}\u{c}\r\u{b}", r#""\a\b\f\r\v""#),
            ("\0\u{1}\u{1b}\u{7f}", r#""\x00\x01\x1b\x7f""#),
            ("\u{80}\u{a0}\u{ad}\u{200b}\u{2028}\u{feff}", r#""\u0080\u00a0\u00ad\u200b\u2028\ufeff""#),
            ("\u{e000}\u{e0001}\u{10ffff}", r#""\ue000\U000e0001\U0010ffff""#),
            ("naïve 世界 🚢 e\u{301} \u{fffd}", "\"naïve 世界 🚢 e\u{301} \u{fffd}\""),
            ("\u{301}first", "\"\u{301}first\""),
        ] {
            assert_eq!(quote(text), expected, "{text:?}");
        }
    }

    fn character_of(rest: &mut std::str::Chars<'_>, digits: usize) -> Option<char> {
        let digits: String = rest.take(digits).collect();
        char::from_u32(u32::from_str_radix(&digits, 16).ok()?)
    }

    /// What was quoted.
    fn unquote(quoted: &str) -> Option<String> {
        let mut text = String::new();
        let mut rest = quoted.strip_prefix('"')?.strip_suffix('"')?.chars();
        while let Some(character) = rest.next() {
            if character == '"' {
                return None;
            }
            if character != '\\' {
                text.push(character);
                continue;
            }
            let meant = match rest.next()? {
                'a' => '\u{7}',
                'b' => '\u{8}',
                'f' => '\u{c}',
                'n' => '\n',
                'r' => '\r',
                't' => '\t',
                'v' => '\u{b}',
                'x' => character_of(&mut rest, 2)?,
                'u' => character_of(&mut rest, 4)?,
                'U' => character_of(&mut rest, 8)?,
                itself @ ('"' | '\\') => itself,
                _ => return None,
            };
            text.push(meant);
        }
        Some(text)
    }

    proptest! {
        #[test]
        fn quoting_loses_nothing(text in any::<String>()) {
            prop_assert_eq!(unquote(&quote(&text)), Some(text));
        }

        #[test]
        fn what_is_quoted_is_one_line_that_can_be_printed(text in "(?s).{0,40}|[\\x00-\\x7f]{0,40}") {
            prop_assert!(quote(&text).chars().all(is_printable));
        }

        #[test]
        fn printable_ascii_is_itself_between_quotes(text in "[ !#-\\[\\]-~]{0,40}") {
            prop_assert_eq!(quote(&text), format!("\"{text}\""));
        }
    }
}
