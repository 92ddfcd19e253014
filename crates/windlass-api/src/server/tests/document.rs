//! The document that describes the API, `docs/openapi.json`: paths from what the router has, schemas from the types. It is
//! made here, by a test that compares it with the one that is checked in and served, or writes that one anew.

use std::path::Path;

use schemars::generate::SchemaSettings;
use schemars::transform::{Transform, transform_subschemas};
use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde_json::{Map, Value, json};

use super::super::endpoint::{Endpoint, Method, Returns};
use super::super::query::SECONDS_MAX;
use super::super::routes;
use crate::OPENAPI;
use crate::view::{
    API_VERSION, ApiResourceList, Claim, ClaimDeletion, Containers, Driver, Event, Health, List, Mount, Node,
    Operation, Pod, PodStatistics, Retry, Status, Version, Volume, WatchEvent,
};

const WRITE: &str = "WINDLASS_WRITE_OPENAPI";

#[test]
fn the_document_is_made_from_the_types() {
    let made = document();
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/openapi.json");
    if std::env::var_os(WRITE).is_some() {
        std::fs::write(Path::new(path), serde_json::to_string_pretty(&made).unwrap() + "\n").unwrap();
        return;
    }
    let there: Value = serde_json::from_str(OPENAPI).unwrap();
    assert!(made == there, "docs/openapi.json is not what the types say; `make openapi` writes it anew");
}

fn document() -> Value {
    let mut paths: Map<String, Value> = Map::new();
    for endpoint in routes::endpoints() {
        let path = paths.entry(endpoint.path.clone()).or_insert_with(|| json!({}));
        let method = match endpoint.method {
            Method::Get => "get",
            Method::Delete => "delete",
            Method::Post => "post",
        };
        path[method] = operation(&endpoint);
    }
    let document = json!({
        "openapi": "3.1.0",
        "info": {
            "title": "windlass",
            "version": API_VERSION.rsplit('/').next(),
            "description":
                "What the volume manager of a node holds, and why. It is read with GET (or HEAD) on a unix socket, by \
                 whoever may open it; DELETE and POST are for root and the user that the daemon runs as. See docs/api.md.",
            "license": {"name": "Apache-2.0", "identifier": "Apache-2.0"},
        },
        "servers": [
            {"url": "http://localhost", "description": "The socket; the name of the host does not matter."},
        ],
        "tags": [
            {"name": "resources", "description": "What there is."},
            {"name": "about", "description": "The server itself."},
        ],
        "paths": paths,
        "components": {"parameters": parameters(), "responses": refusals(), "schemas": schemas()},
    });
    check_references(&document, &document);
    document
}

/// Everything that is referred to is there.
fn check_references(document: &Value, part: &Value) {
    match part {
        Value::Object(fields) => {
            if let Some(Value::String(reference)) = fields.get("$ref") {
                let at = reference.strip_prefix('#').unwrap();
                assert!(document.pointer(at).is_some(), "there is nothing at {reference}");
            }
            fields.values().for_each(|it| check_references(document, it));
        }
        Value::Array(items) => items.iter().for_each(|it| check_references(document, it)),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

fn operation(endpoint: &Endpoint) -> Value {
    let Endpoint { path, method, id, summary, answer, .. } = endpoint;
    let of = |schema: String| json!({"schema": {"$ref": format!("#/components/schemas/{schema}")}});
    let (about, content) = match answer {
        Returns::One(kind) | Returns::Looked(kind) | Returns::About(kind) => {
            ("What was asked for, or what becomes of it.", json!({"application/json": of((*kind).into())}))
        }
        Returns::List(kind) => (
            "The list; with watch=true a stream of lines, each of them one WatchEvent.",
            json!({
                "application/json": of(format!("{kind}List")),
                "application/json;stream=watch": of(format!("{kind}WatchEvent")),
            }),
        ),
        Returns::Metrics => ("The text format of Prometheus.", json!({"text/plain": {"schema": {"type": "string"}}})),
        Returns::Document => ("This document.", json!({"application/json": {"schema": {"type": "object"}}})),
    };
    let mut responses = json!({"200": {"description": about, "content": content}});
    let mut refused = vec![("400", "BadRequest"), ("503", "Unavailable")];
    if path.contains("{name}") {
        refused.push(("404", "NotFound"));
    }
    match method {
        Method::Get => {}
        Method::Delete => refused.extend([("403", "Forbidden"), ("409", "Conflict")]),
        Method::Post => refused.push(("403", "Forbidden")),
    }
    if matches!(answer, Returns::Looked(_)) {
        refused.push(("504", "Timeout"));
    }
    for (code, name) in refused {
        responses[code] = json!({"$ref": format!("#/components/responses/{name}")});
    }
    let shared = |name: &str| json!({"$ref": format!("#/components/parameters/{name}")});
    let mut parameters = Vec::new();
    let is_namespaced = path.contains("{namespace}");
    if is_namespaced {
        parameters.push(shared("namespace"));
    }
    match path.contains("{name}") {
        true if is_namespaced => parameters.push(shared("name")),
        true => parameters.push(shared("uid")),
        false => {}
    }
    if matches!(answer, Returns::List(_)) {
        parameters.extend([shared("watch"), shared("timeoutSeconds")]);
    }
    if *method == Method::Post && path.contains("/pods/{name}") {
        parameters.push(shared("volume"));
    }
    let tag = match answer {
        Returns::One(_) | Returns::Looked(_) | Returns::List(_) => "resources",
        Returns::About(_) | Returns::Document | Returns::Metrics => "about",
    };
    let mut operation = json!({"operationId": id, "summary": summary, "tags": [tag], "responses": responses});
    if !parameters.is_empty() {
        operation["parameters"] = parameters.into();
    }
    operation
}

fn parameters() -> Value {
    let name = |name: &str, about: &str, example: Option<&str>| {
        let mut parameter = json!({
            "name": name, "in": "path", "required": true, "description": about,
            "schema": {"type": "string", "minLength": 1},
        });
        if let Some(example) = example {
            parameter["example"] = example.into();
        }
        parameter
    };
    json!({
        "namespace": name("namespace", "The namespace.", Some("default")),
        "name": name("name", "The name of the pod or the claim.", Some("web")),
        "uid": name("name", "The pod's UID.", None),
        "watch": {
            "name": "watch", "in": "query",
            "description":
                "Go on with the changes: first ADDED for everything that is there, then BOOKMARK, then what changes.",
            "schema": {"type": "boolean", "default": false},
        },
        "timeoutSeconds": {
            "name": "timeoutSeconds", "in": "query",
            "description":
                "Ends a watch after so many seconds. Without it, it goes on until the client or the daemon ends.",
            "schema": {"type": "integer", "minimum": 1, "maximum": SECONDS_MAX},
        },
        "volume": {
            "name": "volume", "in": "query", "description": "Only this volume, by the pod's name for it.",
            "schema": {"type": "string"},
        },
    })
}

fn refusals() -> Value {
    let all = [
        ("BadRequest", "A query parameter is not known or makes no sense; the message names it."),
        ("Forbidden", "The caller may not change anything: it is neither root nor the user whose daemon this is."),
        ("NotFound", "There is no such thing."),
        ("Conflict", "Things are not so that it could be done; the message says why."),
        ("Unavailable", "Not now: too many clients, or not everything is known yet."),
        ("Timeout", "A mount that had to be looked at did not answer."),
    ];
    let status = json!({"application/json": {"schema": {"$ref": "#/components/schemas/Status"}}});
    let one = |(name, about): (&str, &str)| (name.to_owned(), json!({"description": about, "content": status}));
    Value::Object(all.into_iter().map(one).collect())
}

fn schemas() -> Map<String, Value> {
    let settings = SchemaSettings::draft2020_12().for_serialize();
    let settings = settings.with(|it| it.definitions_path = "/components/schemas".into()).with_transform(AsServed);
    let mut generator = settings.into_generator();
    listed::<Pod>(&mut generator);
    listed::<Mount>(&mut generator);
    listed::<Volume>(&mut generator);
    listed::<Driver>(&mut generator);
    listed::<Claim>(&mut generator);
    listed::<Operation>(&mut generator);
    listed::<Event>(&mut generator);
    generator.subschema_for::<Node>();
    generator.subschema_for::<Containers>();
    generator.subschema_for::<PodStatistics>();
    generator.subschema_for::<ClaimDeletion>();
    generator.subschema_for::<Retry>();
    generator.subschema_for::<Status>();
    generator.subschema_for::<Health>();
    generator.subschema_for::<Version>();
    generator.subschema_for::<ApiResourceList>();
    generator.take_definitions(true)
}

fn listed<T: JsonSchema>(generator: &mut SchemaGenerator)
where
    List<T>: JsonSchema,
    WatchEvent<T>: JsonSchema,
{
    generator.subschema_for::<List<T>>();
    generator.subschema_for::<WatchEvent<T>>();
}

/// Says what the types leave open: what is not there is left out and never null, words are an enumeration, numbers are
/// numbers, and nothing is sent that is not described.
#[derive(Clone, Debug)]
struct AsServed;

impl Transform for AsServed {
    fn transform(&mut self, schema: &mut Schema) {
        without_null(schema);
        words_as_enumeration(schema);
        let is_number = |it: &Value| it.as_str().is_some_and(|it| it.starts_with("int") || it.starts_with("uint"));
        if schema.get("format").is_some_and(is_number) {
            schema.remove("format");
        }
        schema.remove("default");
        if schema.get("const").is_some() {
            schema.remove("type");
        }
        if schema.get("properties").is_some() && schema.get("additionalProperties").is_none() {
            schema.insert("additionalProperties".into(), false.into());
        }
        if let Some(Value::String(about)) = schema.get_mut("description") {
            // As a sentence: without the marks and the line ends of a comment.
            *about = about.split_whitespace().collect::<Vec<_>>().join(" ").replace(['`', '[', ']'], "");
        }
        transform_subschemas(self, schema);
    }
}

fn without_null(schema: &mut Schema) {
    if let Some(Value::Array(types)) = schema.get_mut("type") {
        types.retain(|it| it != "null");
        if let [one] = types.as_slice() {
            let one = one.clone();
            schema.insert("type".into(), one);
        }
    }
    if let Some(Value::Array(cases)) = schema.get_mut("anyOf") {
        cases.retain(|it| *it != json!({"type": "null"}));
        if let [Value::Object(one)] = cases.as_slice() {
            let one = one.clone();
            schema.remove("anyOf");
            one.into_iter().for_each(|(word, rule)| {
                schema.insert(word, rule);
            });
        }
    }
    if let Some(Value::Array(words)) = schema.get_mut("enum") {
        words.retain(|it| !it.is_null());
    }
}

/// Each variant that has a comment is a case of its own; what they mean goes into the description.
fn words_as_enumeration(schema: &mut Schema) {
    let Some(Value::Array(cases)) = schema.get("oneOf") else { return };
    let Some(words) = cases.iter().map(|it| it.get("const").cloned()).collect::<Option<Vec<Value>>>() else { return };
    let meaning = |it: &Value| Some(format!("{}: {}", it["const"].as_str()?, it["description"].as_str()?));
    let meanings: Vec<String> = cases.iter().filter_map(meaning).collect();
    let about = schema.get("description").and_then(Value::as_str).unwrap_or_default();
    let about = format!("{about} {}", meanings.join(" "));
    schema.remove("oneOf");
    schema.insert("type".into(), "string".into());
    schema.insert("enum".into(), words.into());
    schema.insert("description".into(), about.into());
}
