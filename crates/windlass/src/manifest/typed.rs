//! A shape read as a type: with the values that are written there, or with made-up ones where those are not known. Either
//! way the fields that the type does not have are found.

use std::borrow::Cow;
use std::cell::RefCell;
use std::fmt;

use serde::de::value::{Error, StrDeserializer};
use serde::de::{self, DeserializeSeed, IntoDeserializer, MapAccess, SeqAccess, Visitor};
use serde::{Deserializer, forward_to_deserialize_any};

use super::shape::{Node, Shape};

/// A field that the type of its object does not have.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Unknown {
    /// For example `spec.volumes[0].configMap.defaultmode`.
    pub field: String,
    /// What may be meant.
    pub nearest: Option<&'static str>,
}

/// What came of a shape, and the fields that its type does not have. Made-up values do not please every type: what was
/// found until then is told.
pub(super) fn read<'de, S: DeserializeSeed<'de>>(
    shape: &Shape<'_>,
    seed: S,
) -> (Result<S::Value, Error>, Vec<Unknown>) {
    let unknown = RefCell::default();
    let value = seed.deserialize(Typed { shape, field: Field::Whole, unknown: &unknown });
    (value, unknown.into_inner())
}

/// Where a value is in its object. Written out only if there is something to say about it.
#[derive(Clone, Copy)]
enum Field<'a> {
    Whole,
    Named(&'a Field<'a>, &'a str),
    Item(&'a Field<'a>, usize),
}

impl fmt::Display for Field<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Whole => Ok(()),
            Self::Named(Field::Whole, name) => f.write_str(name),
            Self::Named(above, name) => write!(f, "{above}.{name}"),
            Self::Item(above, index) => write!(f, "{above}[{index}]"),
        }
    }
}

struct Typed<'a> {
    shape: &'a Shape<'a>,
    field: Field<'a>,
    unknown: &'a RefCell<Vec<Unknown>>,
}

impl<'de> Deserializer<'de> for Typed<'_> {
    type Error = Error;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        match &self.shape.node {
            Node::Nothing => visitor.visit_unit(),
            Node::Leaf(_) => visitor.visit_i64(0),
            Node::Text(text) => visitor.visit_str(text),
            Node::Number(text) => number(text, visitor),
            Node::Truth(truth) => visitor.visit_bool(*truth),
            Node::List(items) => visitor.visit_seq(Items { whole: self, rest: items.iter().enumerate() }),
            Node::Map(fields) => visitor.visit_map(Fields { whole: self, rest: fields.iter(), value: None }),
        }
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        if self.shape.is_nothing() { visitor.visit_none() } else { visitor.visit_some(self) }
    }

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        names: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Error> {
        if let Node::Map(fields) = &self.shape.node {
            for (key, _) in fields.iter().filter(|(key, _)| !names.contains(&&**key)) {
                let field = Field::Named(&self.field, key).to_string();
                self.unknown.borrow_mut().push(Unknown { field, nearest: nearest(key, names) });
            }
        }
        self.deserialize_any(visitor)
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(self, name: &'static str, visitor: V) -> Result<V::Value, Error> {
        match name {
            "Time" | "MicroTime" if self.shape.is_leaf_of_yaml() => {
                let epoch: StrDeserializer<'_, Error> = "1970-01-01T00:00:00.000000Z".into_deserializer();
                visitor.visit_newtype_struct(epoch)
            }
            _ => visitor.visit_newtype_struct(self),
        }
    }

    fn deserialize_bool<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        if self.shape.is_leaf_of_yaml() { visitor.visit_bool(false) } else { self.deserialize_any(visitor) }
    }

    fn deserialize_str<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        if self.shape.is_leaf_of_yaml() { visitor.visit_str("") } else { self.deserialize_any(visitor) }
    }

    fn deserialize_string<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        self.deserialize_str(visitor)
    }

    fn deserialize_ignored_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        visitor.visit_unit()
    }

    forward_to_deserialize_any! {
        i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char bytes byte_buf unit unit_struct seq tuple tuple_struct map
        enum identifier
    }
}

fn number<'de, V: Visitor<'de>>(text: &str, visitor: V) -> Result<V::Value, Error> {
    if let Ok(number) = text.parse() {
        return visitor.visit_i64(number);
    }
    if let Ok(number) = text.parse() {
        return visitor.visit_u64(number);
    }
    match text.parse() {
        Ok(number) if f64::is_finite(number) => visitor.visit_f64(number),
        _ => Err(de::Error::custom("this number is too large")),
    }
}

struct Items<'a, I> {
    whole: Typed<'a>,
    rest: I,
}

impl<'de, 'a, I: Iterator<Item = (usize, &'a Shape<'a>)>> SeqAccess<'de> for Items<'a, I> {
    type Error = Error;

    fn next_element_seed<S: DeserializeSeed<'de>>(&mut self, seed: S) -> Result<Option<S::Value>, Error> {
        let Some((index, shape)) = self.rest.next() else { return Ok(None) };
        let field = Field::Item(&self.whole.field, index);
        seed.deserialize(Typed { shape, field, unknown: self.whole.unknown }).map(Some)
    }

    fn size_hint(&self) -> Option<usize> {
        self.rest.size_hint().1
    }
}

struct Fields<'a, I> {
    whole: Typed<'a>,
    rest: I,
    value: Option<&'a (Cow<'a, str>, Shape<'a>)>,
}

impl<'de, 'a, I: Iterator<Item = &'a (Cow<'a, str>, Shape<'a>)>> MapAccess<'de> for Fields<'a, I> {
    type Error = Error;

    fn next_key_seed<S: DeserializeSeed<'de>>(&mut self, seed: S) -> Result<Option<S::Value>, Error> {
        // What an object is was looked at before; a type would find a made-up text wrong.
        let whole = matches!(self.whole.field, Field::Whole);
        let is_known =
            |key: &str, shape: &Shape<'_>| whole && shape.is_leaf_of_yaml() && (key == "apiVersion" || key == "kind");
        self.value = self.rest.find(|(key, shape)| !is_known(key, shape));
        let Some((key, _)) = self.value else { return Ok(None) };
        let key: StrDeserializer<'_, Error> = (&**key).into_deserializer();
        seed.deserialize(key).map(Some)
    }

    fn next_value_seed<S: DeserializeSeed<'de>>(&mut self, seed: S) -> Result<S::Value, Error> {
        let (key, shape) = self.value.take().ok_or_else(|| de::Error::custom("a value without a key"))?;
        seed.deserialize(Typed { shape, field: Field::Named(&self.whole.field, key), unknown: self.whole.unknown })
    }
}

/// The name that is most like this one, if it is like it at all.
fn nearest(key: &str, names: &[&'static str]) -> Option<&'static str> {
    let distance = |name: &str| strsim::damerau_levenshtein(&key.to_lowercase(), &name.to_lowercase());
    let best = names.iter().min_by_key(|it| distance(it))?;
    (distance(best) <= 1 + key.len() / 5).then_some(*best)
}

#[cfg(test)]
mod tests {
    use std::marker::PhantomData;

    use k8s_openapi::api::core::v1::{ConfigMap, Pod, Secret};
    use serde::de::DeserializeOwned;

    use super::*;

    fn unknown<T: DeserializeOwned>(text: &str) -> Vec<String> {
        let shape: Shape<'_> = serde_saphyr::from_str(text).unwrap();
        let told = |it: Unknown| match it.nearest {
            Some(nearest) => format!("{} ({nearest}?)", it.field),
            None => it.field,
        };
        read(&shape, PhantomData::<T>).1.into_iter().map(told).collect()
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
}
