//! Manifests: bytes become pods and objects, read as `kubectl` reads them and filled as an API server fills them.
//!
//! YAML 1.1, in which `mode: 0600` is octal, or JSON; any number of documents; lists. Fields that are not known are
//! dropped. Where the bytes come from, and what a manifest that is gone means, is for others to say.

mod shape;

use std::fmt;

use k8s_openapi::{
    Resource,
    api::{
        core::v1::{ConfigMap, Node, Pod, Secret},
        storage::v1::VolumeAttachment,
    },
};
use serde::{
    Deserialize, Deserializer,
    de::{DeserializeSeed, IgnoredAny, MapAccess, SeqAccess, Visitor},
};
use serde_saphyr::{DefaultMessageFormatter, MessageFormatter, Options, Spanned};

use crate::{defaults, memory::Object};

pub use shape::{Shape, Unknown};

/// One object of a manifest, with the API server's defaults.
#[derive(Clone, PartialEq, Debug)]
pub enum Document {
    /// A pod.
    Pod(Box<Pod>),
    /// An object that volumes may need.
    Object(Object),
    /// Something that no volume needs, or a version of the API that is not known: it was not read.
    Other(Other),
}

/// An object that was not read.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Other {
    /// For example `apps/v1`.
    pub api_version: String,
    /// For example `Deployment`.
    pub kind: String,
    /// Its name, if it has one.
    pub name: Option<String>,
    /// The line at which it begins.
    pub line: u64,
}

impl fmt::Display for Other {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { api_version, kind, name, line } = self;
        write!(f, "line {line}: {kind} {} of {api_version} is not read", name.as_deref().unwrap_or("without a name"))
    }
}

/// Why manifests could not be read. Its text quotes nothing of a secret (I-12).
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("reading document {document}{}, line {line}: {problem}", Kind(.kind.as_deref()))]
pub struct Error {
    /// Which document, counted from one; those that hold nothing count too.
    pub document: usize,
    /// What it says it is, if that could be read.
    pub kind: Option<String>,
    /// The line of the file, counted from one.
    pub line: u64,
    /// What is wrong there.
    pub problem: Problem,
}

/// What is wrong with a manifest.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum Problem {
    /// There are bytes that are no text.
    #[error("this is not UTF-8")]
    NotText,
    /// It is no YAML, or no object of its kind; the text says why.
    #[error("{0}")]
    Unreadable(String),
    /// The same, of a document that holds secrets: saying why could quote them.
    #[error("this cannot be read, and what it is stays untold because it may be secret")]
    Withheld,
    /// It does not say what it is.
    #[error("this has no {0}")]
    Missing(&'static str),
}

/// In brackets what a document says it is.
struct Kind<'a>(Option<&'a str>);

impl fmt::Display for Kind<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.map_or(Ok(()), |kind| write!(f, " ({kind})"))
    }
}

/// Reads manifests: all of them, or none if one cannot be read, so that a torn file is not taken for a shorter one (I-1).
///
/// ```
/// use windlass::manifest::{self, Document};
///
/// let text = "
/// apiVersion: v1
/// kind: Pod
/// metadata: {name: web, uid: 1}
/// spec: {containers: [], volumes: [{name: keys, secret: {secretName: keys, defaultMode: 0400}}]}
/// ";
/// let documents = manifest::read(text.as_bytes())?;
/// let [Document::Pod(pod)] = documents.as_slice() else { panic!("one pod") };
/// assert_eq!(pod.metadata.namespace.as_deref(), Some("default"));
/// let keys = pod.spec.as_ref().unwrap().volumes.as_ref().unwrap()[0].secret.as_ref().unwrap();
/// assert_eq!(keys.default_mode, Some(0o400));
/// # Ok::<(), manifest::Error>(())
/// ```
pub fn read(manifests: &[u8]) -> Result<Vec<Document>, Error> {
    Ok(read_written(manifests)?.into_iter().map(|it| it.document).collect())
}

/// An object of a manifest, and how it is written there.
#[derive(Clone, PartialEq, Debug)]
pub struct Written {
    /// The object.
    pub document: Document,
    /// The line at which it begins.
    pub line: u64,
    /// Which fields it has, and where.
    pub shape: Shape,
}

/// As [`read`], and tells how each object is written: for those who have something to say about it.
pub fn read_written(manifests: &[u8]) -> Result<Vec<Written>, Error> {
    let text = str::from_utf8(manifests).map_err(|error| {
        let before = manifests.get(..error.valid_up_to()).and_then(|it| str::from_utf8(it).ok()).unwrap_or_default();
        let line = 1 + before.bytes().filter(|it| *it == b'\n').count() as u64;
        Error { document: parts(before).len(), kind: None, line, problem: Problem::NotText }
    })?;
    let mut documents = Vec::new();
    for part in parts(text) {
        part.read(&mut documents)?;
    }
    Ok(documents)
}

/// The text of one document.
#[derive(Clone, Copy)]
struct Part<'a> {
    text: &'a str,
    number: usize,
    /// How many lines come before it.
    offset: u64,
}

/// The documents of a text, apart, so that each can be read as the type that it says it is.
///
/// YAML knows no other meaning of three hyphens at the beginning of a line: a block of text is indented.
fn parts(text: &str) -> Vec<Part<'_>> {
    let mut parts = Vec::new();
    let (mut part, mut begin, mut place) = (Part { text, number: 1, offset: 0 }, 0, 0);
    // Directives belong to the document that follows; where there are any, the separator after them is its beginning.
    let mut directives = text.trim_start_matches('\u{feff}').starts_with('%');
    for (offset, line) in (0..).zip(text.split_inclusive('\n')) {
        if separates(line) {
            if place > 0 && !directives {
                parts.push(Part { text: &text[begin..place], ..part });
                part = Part { text: &text[place..], number: part.number + 1, offset };
                begin = place;
            }
            directives = false;
        }
        place += line.len();
    }
    parts.push(part);
    parts
}

fn separates(line: &str) -> bool {
    line.strip_prefix("---").is_some_and(|it| it.is_empty() || it.starts_with([' ', '\t', '\r', '\n']))
}

impl Part<'_> {
    fn read(self, documents: &mut Vec<Written>) -> Result<(), Error> {
        // Directives, comments and nothing else come before the first document.
        let header: Option<Spanned<Header>> =
            serde_saphyr::from_str_with_options(self.text, options()).map_err(|error| self.unreadable(None, &error))?;
        let Some(header) = header else { return Ok(()) };
        let header = self.placed(header, None)?;
        if header.kind.ends_with("List") {
            return self.read_list(&header, documents);
        }
        let document = self.parse(&header, |it| One(&header).deserialize(it))?;
        documents.push(self.named(&header, document, self.shape(&header))?);
        Ok(())
    }

    /// The fields of the whole text. It could be read as what it is, so it can be read as this.
    fn shape(self, header: &Placed) -> Shape {
        let shape = self.parse(header, |it| Shape::deserialize(it));
        shape.unwrap_or_default().moved(self.offset)
    }

    fn read_list(self, list: &Placed, documents: &mut Vec<Written>) -> Result<(), Error> {
        #[derive(Deserialize)]
        struct List {
            items: Option<Vec<Spanned<Header>>>,
        }
        let items = self.parse(list, |it| List::deserialize(it))?.items.unwrap_or_default();
        let headers: Vec<Placed> = items.into_iter().map(|it| self.placed(it, Some(list))).collect::<Result<_, _>>()?;
        let items = self.parse(list, |it| it.deserialize_map(Fields(&headers)))?;
        let shapes = self.shape(list).into_items("items").into_iter().chain(std::iter::repeat_with(Shape::default));
        for ((header, document), shape) in headers.iter().zip(items).zip(shapes) {
            documents.push(self.named(header, document, shape)?);
        }
        Ok(())
    }

    /// What a header says, and where it stands. The items of a list of one kind need not say what they are.
    fn placed(self, header: Spanned<Header>, list: Option<&Placed>) -> Result<Placed, Error> {
        let line = self.offset + header.referenced.line().max(1);
        let Header { api_version, kind, metadata } = header.value;
        let (api_version_of_list, kind_of_list) = list.and_then(Placed::of_items).unzip();
        let Some(kind) = kind.filter(|it| !it.is_empty()).or(kind_of_list) else {
            return Err(self.missing(None, line, "kind"));
        };
        let Some(api_version) = api_version.filter(|it| !it.is_empty()).or(api_version_of_list) else {
            return Err(self.missing(Some(kind), line, "apiVersion"));
        };
        Ok(Placed { api_version, kind, name: metadata.and_then(|it| it.name), line })
    }

    /// The document, if it has a name or needs none.
    fn named(self, header: &Placed, document: Document, shape: Shape) -> Result<Written, Error> {
        let named = match &document {
            Document::Pod(pod) => pod.metadata.name.as_ref().is_some_and(|it| !it.is_empty()),
            Document::Object(object) => !object.reference().name().is_empty(),
            Document::Other(_) => true,
        };
        match named {
            true => Ok(Written { document, line: header.line, shape }),
            false => Err(self.missing(Some(header.kind.clone()), header.line, "metadata.name")),
        }
    }

    fn missing(self, kind: Option<String>, line: u64, what: &'static str) -> Error {
        Error { document: self.number, kind, line, problem: Problem::Missing(what) }
    }

    fn parse<T>(
        self,
        header: &Placed,
        parse: impl FnOnce(serde_saphyr::Deserializer<'_, '_>) -> Result<T, serde_saphyr::Error>,
    ) -> Result<T, Error> {
        serde_saphyr::with_deserializer_from_str_with_options(self.text, options(), parse)
            .map_err(|error| self.unreadable(Some(header), &error))
    }

    fn unreadable(self, header: Option<&Placed>, error: &serde_saphyr::Error) -> Error {
        let line = error.location().map_or(1, |it| it.line().max(1));
        let kind = header.map(|it| it.kind.clone());
        // The parser speaks of YAML alone; the message of a type may quote a value. A list may hold anything.
        let speaks = matches!(error, serde_saphyr::Error::ExternalMessage { .. })
            || matches!(kind.as_deref(), Some(it) if it != Secret::KIND && !it.ends_with("List"));
        let problem = match speaks {
            true => Problem::Unreadable(DefaultMessageFormatter.format_message(error).into_owned()),
            false => Problem::Withheld,
        };
        Error { document: self.number, kind, line: self.offset + line, problem }
    }
}

/// What every object begins with.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Header {
    api_version: Option<String>,
    kind: Option<String>,
    metadata: Option<Metadata>,
}

#[derive(Deserialize)]
struct Metadata {
    name: Option<String>,
}

/// What an object says it is, and the line at which it begins.
struct Placed {
    api_version: String,
    kind: String,
    name: Option<String>,
    line: u64,
}

impl Placed {
    /// The API version and kind of this list's items, if it is a list of one kind and not a plain `List`.
    fn of_items(&self) -> Option<(String, String)> {
        let kind = self.kind.strip_suffix("List").filter(|it| !it.is_empty())?;
        Some((self.api_version.clone(), kind.to_owned()))
    }
}

/// As `kubectl` reads: YAML 1.1. No error quotes the text around it, for that may be a secret (I-12).
fn options() -> Options {
    serde_saphyr::options! { legacy_octal_numbers: true, with_snippet: false }
}

/// Reads one object as what its header says it is.
struct One<'a>(&'a Placed);

impl<'de> DeserializeSeed<'de> for One<'_> {
    type Value = Document;

    fn deserialize<D: Deserializer<'de>>(self, from: D) -> Result<Document, D::Error> {
        let Placed { api_version, kind, name, line } = self.0;
        let object = match (api_version.as_str(), kind.as_str()) {
            ("v1", "Pod") => return Ok(Document::Pod(Box::new(filled(from, defaults::pod)?))),
            ("v1", "PersistentVolumeClaim") => filled(from, defaults::claim)?.into(),
            ("v1", "PersistentVolume") => filled(from, defaults::persistent_volume)?.into(),
            ("storage.k8s.io/v1", "CSIDriver") => filled(from, defaults::csi_driver)?.into(),
            ("storage.k8s.io/v1", "StorageClass") => filled(from, defaults::storage_class)?.into(),
            ("storage.k8s.io/v1", "VolumeAttachment") => VolumeAttachment::deserialize(from)?.into(),
            ("v1", "Node") => Node::deserialize(from)?.into(),
            ("v1", "ConfigMap") => filled(from, |it: &mut ConfigMap| defaults::namespace(&mut it.metadata))?.into(),
            ("v1", "Secret") => filled(from, defaults::secret)?.into(),
            _ => {
                IgnoredAny::deserialize(from)?;
                let (api_version, kind, name) = (api_version.clone(), kind.clone(), name.clone());
                return Ok(Document::Other(Other { api_version, kind, name, line: *line }));
            }
        };
        Ok(Document::Object(object))
    }
}

fn filled<'de, T: Deserialize<'de>, D: Deserializer<'de>>(from: D, fill: fn(&mut T)) -> Result<T, D::Error> {
    let mut object = T::deserialize(from)?;
    fill(&mut object);
    Ok(object)
}

/// Reads the fields of a list, of which only the items are of interest.
struct Fields<'a>(&'a [Placed]);

impl<'de> Visitor<'de> for Fields<'_> {
    type Value = Vec<Document>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a list of objects")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut fields: A) -> Result<Vec<Document>, A::Error> {
        let mut documents = Vec::new();
        while let Some(field) = fields.next_key::<String>()? {
            // A list without items may say so.
            match field == "items" && !self.0.is_empty() {
                true => documents = fields.next_value_seed(Items(self.0))?,
                false => _ = fields.next_value::<IgnoredAny>()?,
            }
        }
        Ok(documents)
    }
}

/// Reads the items of a list, each as what its header says it is.
struct Items<'a>(&'a [Placed]);

impl<'de> DeserializeSeed<'de> for Items<'_> {
    type Value = Vec<Document>;

    fn deserialize<D: Deserializer<'de>>(self, from: D) -> Result<Vec<Document>, D::Error> {
        from.deserialize_seq(self)
    }
}

impl<'de> Visitor<'de> for Items<'_> {
    type Value = Vec<Document>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("objects")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Vec<Document>, A::Error> {
        let mut documents = Vec::with_capacity(self.0.len());
        for header in self.0 {
            documents.extend(items.next_element_seed(One(header))?);
        }
        Ok(documents)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// What was read, a line each.
    fn told(text: &str) -> Vec<String> {
        let tell = |it: Document| match it {
            Document::Pod(pod) => format!("Pod {}", pod.metadata.name.unwrap_or_default()),
            Document::Object(object) => object.reference().to_string(),
            Document::Other(other) => other.to_string(),
        };
        read(text.as_bytes()).unwrap().into_iter().map(tell).collect()
    }

    fn failure(text: &str) -> String {
        read(text.as_bytes()).unwrap_err().to_string()
    }

    fn pod(volumes: &str) -> Pod {
        let text = format!("{{apiVersion: v1, kind: Pod, metadata: {{name: p}}, spec: {{containers: [], {volumes}}}}}");
        let mut documents = read(text.as_bytes()).unwrap();
        let Some(Document::Pod(pod)) = documents.pop() else { panic!("one pod") };
        *pod
    }

    fn secret(text: &str) -> std::sync::Arc<Secret> {
        let mut documents = read(text.as_bytes()).unwrap();
        let Some(Document::Object(Object::Secret(secret))) = documents.pop() else { panic!("one secret") };
        secret
    }

    #[test]
    fn modes_are_octal_or_decimal_as_in_yaml_1_1() {
        for (written, mode) in [("0600", 0o600), ("0o600", 0o600), ("384", 384), ("0x180", 384), ("420", 0o644)] {
            let pod = pod(&format!("volumes: [{{name: v, secret: {{secretName: s, defaultMode: {written}}}}}]"));
            let volume = &pod.spec.unwrap().volumes.unwrap()[0];
            assert_eq!(volume.secret.as_ref().unwrap().default_mode, Some(mode), "{written}");
        }
    }

    #[test]
    fn text_is_kept_as_it_is_written() {
        let data = "a: 0600, b: '0600', c: 1e3, d: yes, e: 2001-01-01, f: 'null', g: ~x";
        let text = format!("{{apiVersion: v1, kind: ConfigMap, metadata: {{name: c}}, data: {{{data}}}}}");
        let mut documents = read(text.as_bytes()).unwrap();
        let Some(Document::Object(Object::ConfigMap(map))) = documents.pop() else { panic!("one map") };
        let values: Vec<_> = map.data.as_ref().unwrap().values().map(String::as_str).collect();
        assert_eq!(values, ["0600", "0600", "1e3", "yes", "2001-01-01", "null", "~x"]);
    }

    #[test]
    fn what_an_api_server_fills_in_is_filled_in() {
        let pod = pod("serviceAccount: robot, volumes: [{name: scratch}]");
        assert_eq!(pod.metadata.namespace.as_deref(), Some("default"));
        let spec = pod.spec.unwrap();
        assert!(spec.volumes.unwrap()[0].empty_dir.is_some());
        assert_eq!(spec.service_account_name.as_deref(), Some("robot"));
        let secret = secret(
            "{apiVersion: v1, kind: Secret, metadata: {name: s}, data: {a: b2xk}, stringData: {a: new, b: text}}",
        );
        let data: Vec<_> = secret.data.as_ref().unwrap().values().map(|it| it.0.as_slice()).collect();
        assert_eq!((data, secret.string_data.as_ref()), (vec![&b"new"[..], b"text"], None));
    }

    #[test]
    fn documents_that_hold_nothing_are_passed_over() {
        let text = "# nothing\n---\n---\n# still nothing\n--- # a node\napiVersion: v1\nkind: Node\nmetadata: {name: n}\n...\n";
        assert_eq!(told(text), ["Node n"]);
        assert_eq!(told("--- {apiVersion: v1, kind: Node, metadata: {name: n}}\n---\n"), ["Node n"]);
        assert_eq!(told("%YAML 1.1\n---\napiVersion: v1\r\nkind: Node\r\nmetadata: {name: n}\r\n---\r\n"), ["Node n"]);
        assert_eq!(told("\u{feff}apiVersion: v1\nkind: Node\nmetadata: {name: n}"), ["Node n"]);
        assert!(told("").is_empty() && told("\n---\n").is_empty() && told("null").is_empty());
    }

    #[test]
    fn hyphens_inside_a_text_separate_nothing() {
        let text = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: c}\ndata:\n  a: |\n    ---\n    x\n---x: 1\n";
        assert_eq!(told(text), ["ConfigMap default/c"]);
    }

    #[test]
    fn fields_that_nobody_knows_are_dropped() {
        assert_eq!(
            told("{apiVersion: v1, kind: Node, metadata: {name: n, colour: red}, extra: [1, {a: b}]}"),
            ["Node n"]
        );
    }

    #[test]
    fn kinds_that_no_volume_needs_are_told_and_not_read() {
        let text = "apiVersion: v1\nkind: Node\nmetadata: {name: n}\n---\n\napiVersion: apps/v1\nkind: Deployment\nmetadata: {name: web}\nspec: 5\n\
                    ---\n{apiVersion: v2, kind: Pod}";
        assert_eq!(
            told(text),
            [
                "Node n",
                "line 6: Deployment web of apps/v1 is not read",
                "line 11: Pod without a name of v2 is not read"
            ]
        );
    }

    #[test]
    fn kinds_of_storage_are_read() {
        let of = |kind: &str, rest: &str| {
            told(&format!("{{apiVersion: storage.k8s.io/v1, kind: {kind}, metadata: {{name: x}}, {rest}}}"))
        };
        assert_eq!(of("CSIDriver", "spec: {}"), ["CSIDriver x"]);
        assert_eq!(of("StorageClass", "provisioner: p"), ["StorageClass x"]);
        let spec = "spec: {attacher: a, nodeName: n, source: {persistentVolumeName: v}}";
        assert_eq!(of("VolumeAttachment", spec), ["VolumeAttachment x"]);
    }

    #[test]
    fn an_object_says_where_it_and_its_fields_stand() {
        let text = "
apiVersion: v1
kind: List
items:
- apiVersion: v1
  kind: Node
  metadata:
    name: n
---
apiVersion: v1
kind: ConfigMap
metadata:
  name: c
data:
  a.b: |
    text
  c: d
";
        let written = read_written(text.as_bytes()).unwrap();
        assert_eq!(written.iter().map(|it| it.line).collect::<Vec<_>>(), [5, 10]);
        assert_eq!(written[0].shape.line_of("metadata.name"), Some(8));
        assert_eq!(written[1].shape.line_of("metadata.name"), Some(13));
        assert_eq!(written[1].shape.line_of("data.a.b"), Some(15));
        assert_eq!(written[1].shape.line_of("data.c"), Some(17));
        assert_eq!(written[1].shape.line_of("data.x"), Some(14), "what is missing is missing there");
    }

    #[test]
    fn a_list_is_its_items() {
        let text = "
apiVersion: v1
kind: List
metadata: {resourceVersion: ''}
items:
- {apiVersion: v1, kind: Node, metadata: {name: n}}
- {apiVersion: v1, kind: Pod, metadata: {name: p}, spec: {containers: [], volumes: [{name: v, configMap: {defaultMode: 0400}}]}}
- {apiVersion: batch/v1, kind: Job}
";
        assert_eq!(told(text), ["Node n", "Pod p", "line 8: Job without a name of batch/v1 is not read"]);
        let typed =
            "{apiVersion: v1, kind: SecretList, items: [{metadata: {name: a}}, {metadata: {name: b, namespace: x}}]}";
        assert_eq!(told(typed), ["Secret default/a", "Secret x/b"]);
        for empty in ["items: []", "items: ", "metadata: {}"] {
            assert!(told(&format!("{{apiVersion: v1, kind: List, {empty}}}")).is_empty(), "{empty}");
        }
    }

    #[test]
    fn json_is_read_too() {
        let text = "{\n\t\"apiVersion\": \"v1\",\n\t\"kind\": \"Node\",\n\t\"metadata\": {\"name\": \"n\"}\n}\n";
        assert_eq!(told(text), ["Node n"]);
    }

    #[test]
    fn an_error_says_which_document_and_line_it_is_about() {
        let good = "apiVersion: v1\nkind: Node\nmetadata: {name: n}\n---\n";
        for (bad, error) in [
            ("kind: Pod", "reading document 2 (Pod), line 5: this has no apiVersion"),
            ("\nmetadata: {name: p}", "reading document 2, line 6: this has no kind"),
            ("apiVersion: v1\nkind: Pod", "reading document 2 (Pod), line 5: this has no metadata.name"),
            (
                "apiVersion: v1\nkind: List\nitems:\n- {apiVersion: v1, kind: Secret}",
                "reading document 2 (Secret), line 8: this has no metadata.name",
            ),
        ] {
            assert_eq!(failure(&format!("{good}{bad}")), error);
        }
        let mode = failure(&format!(
            "{good}apiVersion: v1\nkind: Pod\nmetadata: {{name: p}}\nspec:\n  containers: []\n  volumes:\n  - {{name: v, configMap: {{defaultMode: rwx}}}}\n"
        ));
        assert!(mode.starts_with("reading document 2 (Pod), line 11: "), "{mode}");
        let syntax = failure(&format!("{good}kind: Pod\nmetadata: {{name\nspec: [\n"));
        assert!(syntax.starts_with("reading document 2, line "), "{syntax}");
        let bytes = read(b"kind: Pod\n---\n# \xff\n").unwrap_err();
        assert_eq!(bytes.to_string(), "reading document 2, line 3: this is not UTF-8");
    }

    #[test]
    fn one_bad_document_spoils_them_all() {
        failure("{apiVersion: v1, kind: Node, metadata: {name: n}}\n---\nkind: [\n");
        failure("{apiVersion: v1, kind: Node, metadata: {name: n}}\n--- {kind: 1, kind: 2}");
        failure("just text");
        failure("- a\n- b");
    }

    /// I-12.
    #[test]
    fn an_error_quotes_nothing_of_a_secret() {
        for text in [
            "{apiVersion: v1, kind: Secret, metadata: {name: s}, data: {password: hunter2!}}",
            "{apiVersion: v1, kind: Secret, metadata: {name: s}, immutable: hunter2}",
            "{apiVersion: v1, kind: Secret, metadata: {name: s}, stringData: hunter2}",
            "{apiVersion: v1, kind: SecretList, items: [{metadata: {name: s}, immutable: hunter2}]}",
            "{apiVersion: v1, kind: List, items: [{apiVersion: v1, kind: Secret, metadata: hunter2}]}",
            "{apiVersion: v1, kind: Secret, metadata: {name: s}, stringData: {password: hunter2",
            "apiVersion: v1\nkind: Secret\nstringData:\n  password: hunter2: x\n",
            "apiVersion: v1\nkind: Secret\nstringData:\n  password: \"hunter2\n",
            "apiVersion: v1\nkind: Secret\nstringData:\n  password: *hunter2\n",
            "apiVersion: v1\nkind: Secret\nstringData:\n  password: !hunter2!x y\n",
            "hunter2",
            "[hunter2]",
        ] {
            let error = read(text.as_bytes()).unwrap_err();
            assert!(!format!("{error} {error:?}").contains("hunter2"), "{error}");
        }
    }

    /// The golden cases are manifests as people write them.
    #[test]
    fn every_golden_case_can_be_read() {
        let cases = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/golden");
        let mut count = 0;
        for case in std::fs::read_dir(cases).unwrap() {
            for manifests in ["manifests.yaml", "update/manifests.yaml"] {
                let path = case.as_ref().unwrap().path().join(manifests);
                let Ok(text) = std::fs::read(&path) else { continue };
                let documents = read(&text).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
                assert!(!documents.iter().any(|it| matches!(it, Document::Other(_))), "{}", path.display());
                count += 1;
            }
        }
        assert!(count > 50, "{count} manifests");
    }

    proptest! {
        /// Whatever the bytes, there is an answer.
        #[test]
        fn nothing_makes_it_panic(
            pieces in proptest::collection::vec(prop_oneof![
                Just("---\n".to_owned()), Just("apiVersion: v1\n".into()), Just("kind: Pod\n".into()), Just("kind: List\n".into()),
                Just("items:\n- ".into()), Just("metadata: {name: x}\n".into()), Just("&a ".into()), Just("*a\n".into()), Just("  ".into()),
                Just("spec: {containers: []}\n".into()), "\\PC{0,12}", "[-:{}\\[\\]\n ]{0,6}",
            ], 0..12),
            bytes in proptest::collection::vec(any::<u8>(), 0..8),
        ) {
            let mut text = pieces.concat().into_bytes();
            let _ = read(&text);
            text.extend(bytes);
            let _ = read(&text);
        }

        /// What separates documents changes nothing in them.
        #[test]
        fn lines_are_counted_across_documents(before in 0..20_usize, documents in 0..5_usize) {
            let filler = "# nothing\n".repeat(before);
            let text = format!("{}{filler}kind: Pod", format!("{filler}---\n").repeat(documents));
            let error = read(text.as_bytes()).unwrap_err();
            prop_assert_eq!(error.line as usize, (before + 1) * documents + before + 1);
            // A separator on the first line opens the first document instead of ending it.
            let opened = usize::from(before == 0 && documents > 0);
            prop_assert_eq!(error.document, documents + 1 - opened);
        }
    }
}
