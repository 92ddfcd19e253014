//! JSON, which is most of what programs write: its shape, with its values, in one pass.
//!
//! Whatever is not plain JSON (RFC 8259) is left to the reader of YAML, which understands all of it and knows how to say
//! what is wrong.

use std::borrow::Cow;

use super::shape::{Node, Shape};
use super::{DEPTH_MAX, VALUES_MAX};

/// The shape of a text that is one JSON object and nothing else, of which this many lines of the file come before.
pub(super) fn shape(text: &str, lines_before: u64) -> Option<Shape<'_>> {
    let mut scanner = Scanner { text, place: 0, line: 1 + lines_before, values: 0 };
    scanner.space()?;
    if scanner.peek() != Some(b'{') {
        return None;
    }
    let shape = scanner.value(0)?;
    scanner.space()?;
    (scanner.place == text.len()).then_some(shape)
}

struct Scanner<'a> {
    text: &'a str,
    place: usize,
    line: u64,
    values: usize,
}

impl<'a> Scanner<'a> {
    fn peek(&self) -> Option<u8> {
        self.text.as_bytes().get(self.place).copied()
    }

    fn take(&mut self, byte: u8) -> Option<()> {
        (self.peek() == Some(byte)).then(|| self.place += 1)
    }

    /// Passes over white space and counts lines.
    fn space(&mut self) -> Option<()> {
        loop {
            match self.peek() {
                Some(b' ' | b'\t') => {}
                Some(b'\n') => self.line += 1,
                // Alone it is a new line in YAML and none for those who count lines.
                Some(b'\r') if self.text.as_bytes().get(self.place + 1) == Some(&b'\n') => {}
                Some(b'\r') => return None,
                Some(_) | None => return Some(()),
            }
            self.place += 1;
        }
    }

    fn value(&mut self, depth: usize) -> Option<Shape<'a>> {
        let line = self.line;
        self.values += 1;
        if self.values > VALUES_MAX {
            return None;
        }
        let node = match self.peek()? {
            b'{' if depth < DEPTH_MAX => self.map(depth)?,
            b'[' if depth < DEPTH_MAX => self.list(depth)?,
            b'"' => Node::Text(self.string()?),
            b't' => self.word("true", Node::Truth(true))?,
            b'f' => self.word("false", Node::Truth(false))?,
            b'n' => self.word("null", Node::Nothing)?,
            _ => self.number()?,
        };
        Some(Shape { line, node })
    }

    fn word(&mut self, word: &str, node: Node<'a>) -> Option<Node<'a>> {
        self.text[self.place..].starts_with(word).then(|| {
            self.place += word.len();
            node
        })
    }

    fn map(&mut self, depth: usize) -> Option<Node<'a>> {
        self.take(b'{')?;
        self.space()?;
        let mut fields = Vec::new();
        if self.take(b'}').is_some() {
            return Some(Node::Map(fields));
        }
        loop {
            self.space()?;
            let line = self.line;
            let key = self.string()?;
            self.space()?;
            self.take(b':')?;
            self.space()?;
            // A field is where its name is; its value may begin on the next line.
            let shape = Shape { line, ..self.value(depth + 1)? };
            fields.push((key, shape));
            self.space()?;
            if self.take(b',').is_none() {
                break;
            }
        }
        self.take(b'}')?;
        are_plain(&fields).then_some(Node::Map(fields))
    }

    fn list(&mut self, depth: usize) -> Option<Node<'a>> {
        self.take(b'[')?;
        self.space()?;
        let mut items = Vec::new();
        if self.take(b']').is_some() {
            return Some(Node::List(items));
        }
        loop {
            self.space()?;
            items.push(self.value(depth + 1)?);
            self.space()?;
            if self.take(b',').is_none() {
                break;
            }
        }
        self.take(b']')?;
        Some(Node::List(items))
    }

    fn number(&mut self) -> Option<Node<'a>> {
        let begin = self.place;
        let _ = self.take(b'-');
        // YAML reads what begins with a zero in a way of its own.
        if self.take(b'0').is_none() {
            self.digits()?;
        }
        if self.take(b'.').is_some() {
            self.digits()?;
        }
        if let Some(b'e' | b'E') = self.peek() {
            self.place += 1;
            if let Some(b'+' | b'-') = self.peek() {
                self.place += 1;
            }
            self.digits()?;
        }
        Some(Node::Number(&self.text[begin..self.place]))
    }

    fn digits(&mut self) -> Option<()> {
        let begin = self.place;
        while self.peek().is_some_and(|it| it.is_ascii_digit()) {
            self.place += 1;
        }
        (self.place > begin).then_some(())
    }

    fn string(&mut self) -> Option<Cow<'a, str>> {
        self.take(b'"')?;
        let plain = self.plain()?;
        if self.take(b'"').is_some() {
            return Some(plain.into());
        }
        let mut text = plain.to_owned();
        loop {
            match self.peek()? {
                b'"' => {
                    self.place += 1;
                    return Some(text.into());
                }
                _ => {
                    text.push(self.escape()?);
                    text.push_str(self.plain()?);
                }
            }
        }
    }

    /// As much of a string as stands for itself.
    fn plain(&mut self) -> Option<&'a str> {
        let begin = self.place;
        while self.peek().is_some_and(|it| it >= b' ' && it != b'"' && it != b'\\') {
            self.place += 1;
        }
        self.text.get(begin..self.place)
    }

    fn escape(&mut self) -> Option<char> {
        self.take(b'\\')?;
        let escaped = self.peek()?;
        self.place += 1;
        Some(match escaped {
            b'"' | b'\\' | b'/' => char::from(escaped),
            b'b' => '\u{8}',
            b'f' => '\u{c}',
            b'n' => '\n',
            b'r' => '\r',
            b't' => '\t',
            b'u' => {
                let unit = self.unit()?;
                // One half of a character is none (RFC 8259, 8.2).
                if !(0xd800..0xe000).contains(&unit) {
                    return char::from_u32(unit.into());
                }
                self.take(b'\\')?;
                self.take(b'u')?;
                return char::decode_utf16([unit, self.unit()?]).next()?.ok();
            }
            _ => return None,
        })
    }

    fn unit(&mut self) -> Option<u16> {
        let digits = self.text.get(self.place..self.place + 4)?;
        self.place += 4;
        let hexadecimal = digits.bytes().all(|it| it.is_ascii_hexdigit());
        hexadecimal.then(|| u16::from_str_radix(digits, 16).ok()).flatten()
    }
}

/// Whether each key is there once, and none has a meaning in YAML.
fn are_plain(fields: &[(Cow<'_, str>, Shape<'_>)]) -> bool {
    let mut keys: Vec<&str> = fields.iter().map(|(key, _)| &**key).collect();
    keys.sort_unstable();
    keys.windows(2).all(|it| it[0] != it[1]) && keys.binary_search(&"<<").is_err()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_plain_json_is_left_to_yaml() {
        for text in [
            "",
            "[]",
            "\"a\"",
            "{a: 1}",
            "{\"a\": 0600}",
            "{\"a\": 1,}",
            "{\"a\": 1} # comment",
            "{\"a\": 1, \"a\": 2}",
            "{\"<<\": {}}",
            "{\"a\": \"\\x41\"}",
            "{\"a\": \"\\ud800\"}",
            "{\"a\": \"\\ud800\\u0041\"}",
            "{\"a\": \"\\u+123\"}",
            "{\"a\": \"one\ntwo\"}",
            "{\"a\": +1}",
            "{\"a\": .5}",
            "{\"a\": 1.}",
            "{\"a\": yes}",
            "{\"a\": 'b'}",
            "{\"a\":\r1}",
            "{\"a\"",
            "{\"a\": \"",
            "{\"a\": \"\\",
            "{\"a\": \"\\u12é\"}",
        ] {
            assert_eq!(shape(text, 0), None, "{text}");
        }
        let deep = format!("{{\"a\": {}{}}}", "[".repeat(DEPTH_MAX), "]".repeat(DEPTH_MAX));
        assert_eq!(shape(&deep, 0), None);
    }

    #[test]
    fn values_are_those_that_are_written() {
        let text = r#" {"a\n": "\u00e9\ud83d\ude00\/ü", "b": [-1.5e+3, 0, true, false, null], "c": {}, "d": []} "#;
        let values = vec![
            ("a\n".into(), Node::Text("é😀/ü".into())),
            ("b".into(), {
                let items =
                    [Node::Number("-1.5e+3"), Node::Number("0"), Node::Truth(true), Node::Truth(false), Node::Nothing];
                Node::List(items.into_iter().map(|node| Shape { line: 8, node }).collect())
            }),
            ("c".into(), Node::Map(Vec::new())),
            ("d".into(), Node::List(Vec::new())),
        ];
        let fields = values.into_iter().map(|(key, node)| (key, Shape { line: 8, node })).collect();
        assert_eq!(shape(text, 7), Some(Shape { line: 8, node: Node::Map(fields) }));
    }
}
