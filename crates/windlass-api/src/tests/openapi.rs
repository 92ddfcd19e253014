//! The schemas of what is generic over kinds, and of the codes; all others are derived where the types are.

use std::borrow::Cow;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};

use crate::view::{API_VERSION, Kind, List, Metadata, Object, WatchEvent};

/// How a volume stands: the engine's codes, of which the types know only that they are text.
pub(crate) struct Code;

impl JsonSchema for Code {
    fn schema_name() -> Cow<'static, str> {
        "Code".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        let codes: Vec<&str> = windlass_core::reason::Code::ALL.iter().map(|it| it.as_str()).collect();
        let about = "How a volume stands, as a word; docs/reasons.md tells what each means.";
        json_schema!({"type": "string", "description": about, "enum": codes})
    }
}

impl<S: JsonSchema> JsonSchema for Object<S>
where
    Self: Kind,
{
    fn schema_name() -> Cow<'static, str> {
        Self::KIND.into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "type": "object",
            "description": Self::ABOUT,
            "properties": {
                "apiVersion": {"const": API_VERSION},
                "kind": {"const": Self::KIND},
                "metadata": generator.subschema_for::<Metadata>(),
                "status": generator.subschema_for::<S>(),
            },
            "required": ["apiVersion", "kind", "metadata", "status"],
        })
    }
}

impl<T: Kind + JsonSchema> JsonSchema for List<T> {
    fn schema_name() -> Cow<'static, str> {
        format!("{}List", T::KIND).into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "type": "object",
            "description": "Many of them.",
            "properties": {
                "apiVersion": {"const": API_VERSION},
                "kind": {"const": format!("{}List", T::KIND)},
                "items": {"type": "array", "items": generator.subschema_for::<T>()},
            },
            "required": ["apiVersion", "kind", "items"],
        })
    }
}

impl<T: Kind + JsonSchema> JsonSchema for WatchEvent<T> {
    fn schema_name() -> Cow<'static, str> {
        format!("{}WatchEvent", T::KIND).into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "description":
                "One step of a watch: an object that came, changed or went, or the bookmark that ends the beginning.",
            "oneOf": [
                {
                    "type": "object",
                    "description": "An object that came, changed or went; one that went as it last was.",
                    "properties": {
                        "type": {"enum": ["ADDED", "MODIFIED", "DELETED"]},
                        "object": generator.subschema_for::<T>(),
                    },
                    "required": ["type", "object"],
                },
                {
                    "type": "object",
                    "description": "Everything that was there at the beginning has been told.",
                    "properties": {"type": {"const": "BOOKMARK"}},
                    "required": ["type"],
                },
            ],
        })
    }
}
