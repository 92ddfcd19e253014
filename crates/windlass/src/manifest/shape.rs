//! How an object is written: which fields it has and on which lines.
//!
//! An object's type drops fields that it does not know, and everything that it keeps has lost its place. Its shape still
//! has both. `typed.rs` reads it as its type.

use std::borrow::Cow;
use std::fmt;

use serde::de::{MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer};
use serde_saphyr::Spanned;

/// A value as it is written. What the value is it tells nobody (I-12).
#[derive(Clone, PartialEq, Default)]
pub struct Shape<'a> {
    /// Zero if it is not known.
    pub(super) line: u64,
    pub(super) node: Node<'a>,
}

#[derive(Clone, PartialEq, Default)]
pub(super) enum Node<'a> {
    #[default]
    Nothing,
    /// A text, a number or a truth: in YAML it depends on what it should be. What can only be text is here.
    Leaf(Option<Box<str>>),
    Text(Cow<'a, str>),
    /// As JSON writes it.
    Number(&'a str),
    Truth(bool),
    List(Vec<Shape<'a>>),
    Map(Vec<(Cow<'a, str>, Shape<'a>)>),
}

impl fmt::Debug for Shape<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:", self.line)?;
        match &self.node {
            Node::Nothing => f.write_str("nothing"),
            Node::Leaf(_) | Node::Text(_) | Node::Number(_) | Node::Truth(_) => f.write_str("leaf"),
            Node::List(items) => f.debug_list().entries(items).finish(),
            Node::Map(fields) => f.debug_map().entries(fields.iter().map(|(key, shape)| (key, shape))).finish(),
        }
    }
}

impl<'a> Shape<'a> {
    /// The line of a field, for example of `spec.volumes[0].name`, or of the nearest that is around it.
    pub fn line_of(&self, field: &str) -> Option<u64> {
        let within = match &self.node {
            Node::Nothing | Node::Leaf(_) | Node::Text(_) | Node::Number(_) | Node::Truth(_) => None,
            Node::List(items) => field.strip_prefix('[').and_then(|it| it.split_once(']')).and_then(|(index, rest)| {
                items.get(index.parse::<usize>().ok()?)?.line_of(rest.strip_prefix('.').unwrap_or(rest))
            }),
            // Keys may have dots in them: the longest that fits is meant.
            Node::Map(fields) => fields
                .iter()
                .filter_map(|(key, shape)| Some((key, shape, field.strip_prefix(&**key)?)))
                .filter(|(_, _, rest)| rest.is_empty() || rest.starts_with(['.', '[']))
                .max_by_key(|(key, _, _)| key.len())
                .and_then(|(_, shape, rest)| shape.line_of(rest.strip_prefix('.').unwrap_or(rest))),
        };
        within.or((self.line > 0).then_some(self.line))
    }

    /// The same, that many lines further down.
    pub(super) fn moved(mut self, lines: u64) -> Self {
        self.line += if self.line > 0 { lines } else { 0 };
        match &mut self.node {
            Node::Nothing | Node::Leaf(_) | Node::Text(_) | Node::Number(_) | Node::Truth(_) => {}
            Node::List(items) => items.iter_mut().for_each(|it| *it = std::mem::take(it).moved(lines)),
            Node::Map(fields) => fields.iter_mut().for_each(|(_, it)| *it = std::mem::take(it).moved(lines)),
        }
        self
    }

    /// What is written there, if it is text.
    pub(super) fn text(&self) -> Option<&str> {
        match &self.node {
            Node::Text(text) => Some(text),
            Node::Leaf(text) => text.as_deref(),
            Node::Nothing | Node::Number(_) | Node::Truth(_) | Node::List(_) | Node::Map(_) => None,
        }
    }

    pub(super) fn is_nothing(&self) -> bool {
        self.node == Node::Nothing
    }

    pub(super) fn is_map(&self) -> bool {
        matches!(self.node, Node::Map(_))
    }

    pub(super) fn is_leaf_of_yaml(&self) -> bool {
        matches!(self.node, Node::Leaf(_))
    }

    pub(super) fn field(&self, field: &str) -> Option<&Self> {
        let Node::Map(fields) = &self.node else { return None };
        fields.iter().find(|(key, _)| key == field).map(|(_, it)| it)
    }

    /// The items of a field that is a list; `None` if it is something else.
    pub(super) fn into_items(self, field: &str) -> Option<Vec<Self>> {
        let Node::Map(fields) = self.node else { return None };
        match fields.into_iter().find(|(key, _)| key == field).map(|(_, it)| it.node) {
            Some(Node::List(items)) => Some(items),
            Some(Node::Nothing | Node::Leaf(_) | Node::Text(_) | Node::Number(_) | Node::Truth(_) | Node::Map(_))
            | None => None,
        }
    }
}

/// Reads YAML.
impl<'de> Deserialize<'de> for Shape<'static> {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let Spanned { value, referenced, .. } = Spanned::<Node>::deserialize(from)?;
        Ok(Self { line: referenced.line(), node: value })
    }
}

impl<'de> Deserialize<'de> for Node<'static> {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        from.deserialize_any(AnyNode)
    }
}

struct AnyNode;

impl<'de> Visitor<'de> for AnyNode {
    type Value = Node<'static>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("anything")
    }

    fn visit_unit<E>(self) -> Result<Node<'static>, E> {
        Ok(Node::Nothing)
    }

    fn visit_none<E>(self) -> Result<Node<'static>, E> {
        Ok(Node::Nothing)
    }

    fn visit_some<D: Deserializer<'de>>(self, from: D) -> Result<Node<'static>, D::Error> {
        from.deserialize_any(self)
    }

    fn visit_bool<E>(self, _: bool) -> Result<Node<'static>, E> {
        Ok(Node::Leaf(None))
    }

    fn visit_i64<E>(self, _: i64) -> Result<Node<'static>, E> {
        Ok(Node::Leaf(None))
    }

    fn visit_i128<E>(self, _: i128) -> Result<Node<'static>, E> {
        Ok(Node::Leaf(None))
    }

    fn visit_u64<E>(self, _: u64) -> Result<Node<'static>, E> {
        Ok(Node::Leaf(None))
    }

    fn visit_u128<E>(self, _: u128) -> Result<Node<'static>, E> {
        Ok(Node::Leaf(None))
    }

    fn visit_f64<E>(self, _: f64) -> Result<Node<'static>, E> {
        Ok(Node::Leaf(None))
    }

    fn visit_str<E>(self, text: &str) -> Result<Node<'static>, E> {
        Ok(Node::Leaf(Some(text.into())))
    }

    fn visit_bytes<E>(self, _: &[u8]) -> Result<Node<'static>, E> {
        Ok(Node::Leaf(None))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Node<'static>, A::Error> {
        let mut list = Vec::new();
        while let Some(item) = items.next_element()? {
            list.push(item);
        }
        Ok(Node::List(list))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut fields: A) -> Result<Node<'static>, A::Error> {
        let mut map = Vec::new();
        while let Some((key, shape)) = fields.next_entry::<Spanned<String>, Shape<'static>>()? {
            // A field is where its name is; its value may begin on the next line.
            let line = Some(key.referenced.line()).filter(|it| *it > 0).unwrap_or(shape.line);
            map.push((key.value.into(), Shape { line, ..shape }));
        }
        Ok(Node::Map(map))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// I-12.
    #[test]
    fn a_shape_tells_no_values() {
        let text = r#"{"stringData": {"password": "hunter2", "list": ["hunter2"]}}"#;
        let yaml: Shape<'_> = serde_saphyr::from_str(text).unwrap();
        let json = super::super::json::shape(text, 0).unwrap();
        assert_eq!(format!("{yaml:?}"), format!("{json:?}"));
        assert!(!format!("{json:?}").contains("hunter2"));
    }
}
