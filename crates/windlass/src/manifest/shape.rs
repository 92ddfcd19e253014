//! How an object is written: which fields it has and on which lines, without what is in them (I-12).
//!
//! An object's type drops fields that it does not know, and everything that it keeps has lost its place. Its shape still
//! has both. It is compared with the type by being read as that type once more, with made-up values.

use std::{cell::RefCell, fmt};

use serde::{
    Deserialize, Deserializer,
    de::{
        self, DeserializeOwned, DeserializeSeed, IntoDeserializer, MapAccess, SeqAccess, Visitor,
        value::{Error, StrDeserializer},
    },
    forward_to_deserialize_any,
};
use serde_saphyr::Spanned;

/// A value as it is written, without the value.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Shape {
    /// Zero if it is not known.
    line: u64,
    node: Node,
}

#[derive(Clone, PartialEq, Eq, Debug, Default)]
enum Node {
    #[default]
    Nothing,
    /// A text, a number, a truth.
    Leaf,
    List(Vec<Shape>),
    Map(Vec<(String, Shape)>),
}

/// A field that the type of its object does not have.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Unknown {
    /// For example `spec.volumes[0].configMap.defaultmode`.
    pub field: String,
    /// What may be meant.
    pub nearest: Option<&'static str>,
}

impl Shape {
    /// The line of a field, for example of `spec.volumes[0].name`, or of the nearest that is around it.
    pub fn line_of(&self, field: &str) -> Option<u64> {
        let within = match &self.node {
            Node::Nothing | Node::Leaf => None,
            Node::List(items) => field.strip_prefix('[').and_then(|it| it.split_once(']')).and_then(|(index, rest)| {
                items.get(index.parse::<usize>().ok()?)?.line_of(rest.strip_prefix('.').unwrap_or(rest))
            }),
            // Keys may have dots in them: the longest that fits is meant.
            Node::Map(fields) => fields
                .iter()
                .filter_map(|(key, shape)| Some((key, shape, field.strip_prefix(key.as_str())?)))
                .filter(|(_, _, rest)| rest.is_empty() || rest.starts_with(['.', '[']))
                .max_by_key(|(key, _, _)| key.len())
                .and_then(|(_, shape, rest)| shape.line_of(rest.strip_prefix('.').unwrap_or(rest))),
        };
        within.or((self.line > 0).then_some(self.line))
    }

    /// The fields that an object of this type does not have.
    pub fn unknown<T: DeserializeOwned>(&self) -> Vec<Unknown> {
        let unknown = RefCell::default();
        // Made-up values do not please every type. What was found until then is told.
        let _ = T::deserialize(Probe { shape: self, field: String::new(), unknown: &unknown });
        unknown.into_inner()
    }

    /// The same, that many lines further down.
    pub(super) fn moved(mut self, lines: u64) -> Self {
        self.line += if self.line > 0 { lines } else { 0 };
        match &mut self.node {
            Node::Nothing | Node::Leaf => {}
            Node::List(items) => items.iter_mut().for_each(|it| *it = std::mem::take(it).moved(lines)),
            Node::Map(fields) => fields.iter_mut().for_each(|(_, it)| *it = std::mem::take(it).moved(lines)),
        }
        self
    }

    /// The items of a field that is a list.
    pub(super) fn into_items(self, field: &str) -> Vec<Self> {
        let Node::Map(fields) = self.node else { return Vec::new() };
        match fields.into_iter().find(|(key, _)| key == field).map(|(_, it)| it.node) {
            Some(Node::List(items)) => items,
            Some(Node::Nothing | Node::Leaf | Node::Map(_)) | None => Vec::new(),
        }
    }
}

impl<'de> Deserialize<'de> for Shape {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let Spanned { value, referenced, .. } = Spanned::<Node>::deserialize(from)?;
        Ok(Self { line: referenced.line(), node: value })
    }
}

impl<'de> Deserialize<'de> for Node {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        from.deserialize_any(AnyNode)
    }
}

struct AnyNode;

impl<'de> Visitor<'de> for AnyNode {
    type Value = Node;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("anything")
    }

    fn visit_unit<E>(self) -> Result<Node, E> {
        Ok(Node::Nothing)
    }

    fn visit_none<E>(self) -> Result<Node, E> {
        Ok(Node::Nothing)
    }

    fn visit_some<D: Deserializer<'de>>(self, from: D) -> Result<Node, D::Error> {
        from.deserialize_any(self)
    }

    fn visit_bool<E>(self, _: bool) -> Result<Node, E> {
        Ok(Node::Leaf)
    }

    fn visit_i64<E>(self, _: i64) -> Result<Node, E> {
        Ok(Node::Leaf)
    }

    fn visit_i128<E>(self, _: i128) -> Result<Node, E> {
        Ok(Node::Leaf)
    }

    fn visit_u64<E>(self, _: u64) -> Result<Node, E> {
        Ok(Node::Leaf)
    }

    fn visit_u128<E>(self, _: u128) -> Result<Node, E> {
        Ok(Node::Leaf)
    }

    fn visit_f64<E>(self, _: f64) -> Result<Node, E> {
        Ok(Node::Leaf)
    }

    fn visit_str<E>(self, _: &str) -> Result<Node, E> {
        Ok(Node::Leaf)
    }

    fn visit_bytes<E>(self, _: &[u8]) -> Result<Node, E> {
        Ok(Node::Leaf)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Node, A::Error> {
        let mut list = Vec::new();
        while let Some(item) = items.next_element()? {
            list.push(item);
        }
        Ok(Node::List(list))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut fields: A) -> Result<Node, A::Error> {
        let mut map = Vec::new();
        while let Some((key, shape)) = fields.next_entry::<Spanned<String>, Shape>()? {
            // A field is where its name is; its value may begin on the next line.
            let line = Some(key.referenced.line()).filter(|it| *it > 0).unwrap_or(shape.line);
            map.push((key.value, Shape { line, ..shape }));
        }
        Ok(Node::Map(map))
    }
}

/// Gives a type what it asks for, made up, and notes which fields it does not ask for.
struct Probe<'a> {
    shape: &'a Shape,
    field: String,
    unknown: &'a RefCell<Vec<Unknown>>,
}

impl<'a> Probe<'a> {
    fn fields<'de, V: Visitor<'de>>(self, fields: &'a [(String, Shape)], visitor: V) -> Result<V::Value, Error> {
        // What an object is was looked at before; a type would find the made-up text wrong.
        let whole = self.field.is_empty();
        let rest = fields.iter().filter(|(key, _)| !whole || (key != "apiVersion" && key != "kind"));
        let rest: Vec<_> = rest.collect();
        visitor.visit_map(Entries { probe: self, rest: rest.into_iter(), value: None })
    }
}

impl<'de> Deserializer<'de> for Probe<'_> {
    type Error = Error;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        let shape = self.shape;
        match &shape.node {
            Node::Nothing => visitor.visit_unit(),
            Node::Leaf => visitor.visit_i64(0),
            Node::List(items) => visitor.visit_seq(Items { probe: self, rest: items.iter().enumerate() }),
            Node::Map(fields) => self.fields(fields, visitor),
        }
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        if self.shape.node == Node::Nothing { visitor.visit_none() } else { visitor.visit_some(self) }
    }

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        names: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Error> {
        if let Node::Map(fields) = &self.shape.node {
            for (key, _) in fields.iter().filter(|(key, _)| !names.contains(&key.as_str())) {
                let unknown = Unknown { field: below(&self.field, key), nearest: nearest(key, names) };
                self.unknown.borrow_mut().push(unknown);
            }
        }
        self.deserialize_any(visitor)
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(self, name: &'static str, visitor: V) -> Result<V::Value, Error> {
        match name {
            "Time" | "MicroTime" => {
                let epoch: StrDeserializer<'_, Error> = "1970-01-01T00:00:00.000000Z".into_deserializer();
                visitor.visit_newtype_struct(epoch)
            }
            _ => visitor.visit_newtype_struct(self),
        }
    }

    fn deserialize_bool<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        visitor.visit_bool(false)
    }

    fn deserialize_str<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        visitor.visit_str("")
    }

    fn deserialize_string<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        visitor.visit_str("")
    }

    forward_to_deserialize_any! {
        i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char bytes byte_buf unit unit_struct seq tuple tuple_struct map
        enum identifier ignored_any
    }
}

struct Items<'a, I> {
    probe: Probe<'a>,
    rest: I,
}

impl<'de, 'a, I: Iterator<Item = (usize, &'a Shape)>> SeqAccess<'de> for Items<'a, I> {
    type Error = Error;

    fn next_element_seed<S: DeserializeSeed<'de>>(&mut self, seed: S) -> Result<Option<S::Value>, Error> {
        let Some((index, shape)) = self.rest.next() else { return Ok(None) };
        let field = format!("{}[{index}]", self.probe.field);
        seed.deserialize(Probe { shape, field, unknown: self.probe.unknown }).map(Some)
    }
}

struct Entries<'a, I> {
    probe: Probe<'a>,
    rest: I,
    value: Option<&'a (String, Shape)>,
}

impl<'de, 'a, I: Iterator<Item = &'a (String, Shape)>> MapAccess<'de> for Entries<'a, I> {
    type Error = Error;

    fn next_key_seed<S: DeserializeSeed<'de>>(&mut self, seed: S) -> Result<Option<S::Value>, Error> {
        self.value = self.rest.next();
        let Some((key, _)) = self.value else { return Ok(None) };
        let key: StrDeserializer<'_, Error> = key.as_str().into_deserializer();
        seed.deserialize(key).map(Some)
    }

    fn next_value_seed<S: DeserializeSeed<'de>>(&mut self, seed: S) -> Result<S::Value, Error> {
        let (key, shape) = self.value.take().ok_or_else(|| de::Error::custom("a value without a key"))?;
        seed.deserialize(Probe { shape, field: below(&self.probe.field, key), unknown: self.probe.unknown })
    }
}

fn below(field: &str, key: &str) -> String {
    if field.is_empty() { key.into() } else { format!("{field}.{key}") }
}

/// The name that is most like this one, if it is like it at all.
fn nearest(key: &str, names: &[&'static str]) -> Option<&'static str> {
    let distance = |name: &str| strsim::damerau_levenshtein(&key.to_lowercase(), &name.to_lowercase());
    let best = names.iter().min_by_key(|it| distance(it))?;
    (distance(best) <= 1 + key.len() / 5).then_some(*best)
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::{ConfigMap, Pod, Secret};

    use super::*;

    fn unknown<T: DeserializeOwned>(text: &str) -> Vec<String> {
        let shape: Shape = serde_saphyr::from_str(text).unwrap();
        let told = |it: Unknown| match it.nearest {
            Some(nearest) => format!("{} ({nearest}?)", it.field),
            None => it.field,
        };
        shape.unknown::<T>().into_iter().map(told).collect()
    }

    #[test]
    fn fields_that_a_type_does_not_have_are_found_with_what_may_be_meant() {
        let text = "
apiVersion: v1
kind: Pod
metadata: {name: p, label: {a: b}, labels: {anything: goes}, creationTimestamp: 2020-01-01T00:00:00Z, zebra: 1}
spec:
  terminationGracePeriodSeconds: 5
  containers:
  - name: c
    resources: {limits: {memory: 1Gi, cpu: 2}}
    ports: [{containerPort: 80}]
    livenessProbe: {httpGet: {port: http}}
    volumeMount: []
  volumes:
  - {name: a, configMap: {name: c, defaultmode: 0600, items: [{key: k, path: p, modes: 1}]}}
  - {name: b, secret:}
";
        assert_eq!(
            unknown::<Pod>(text),
            [
                "metadata.label (labels?)",
                "metadata.zebra",
                "spec.containers[0].volumeMount (volumeMounts?)",
                "spec.volumes[0].configMap.defaultmode (defaultMode?)",
                "spec.volumes[0].configMap.items[0].modes (mode?)",
            ]
        );
    }

    #[test]
    fn keys_of_maps_are_free() {
        let text = "{apiVersion: v1, kind: ConfigMap, data: {a.b: c}, binaryData: {d: eA==}, immutable: true}";
        assert!(unknown::<ConfigMap>(text).is_empty());
        let text = "{apiVersion: v1, kind: Secret, data: {a: '*'}, stringdata: {b: c}}";
        assert_eq!(unknown::<Secret>(text), ["stringdata (stringData?)"]);
    }

    /// I-12.
    #[test]
    fn a_shape_holds_no_values() {
        let shape: Shape = serde_saphyr::from_str("{stringData: {password: hunter2}}").unwrap();
        assert!(!format!("{shape:?}").contains("hunter2"));
    }
}
