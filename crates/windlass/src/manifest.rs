//! Manifests: bytes become pods and objects, read as `kubectl` reads them and filled as an API server fills them.
//!
//! YAML 1.1, in which `mode: 0600` is octal, or JSON; any number of documents; lists. Fields that are not known are
//! dropped. Where the bytes come from, and what a manifest that is gone means, is for others to say.

mod json;
mod shape;
mod typed;

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

pub use shape::Shape;
pub use typed::Unknown;

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
#[derive(Clone, Debug)]
pub struct Written<'a> {
    /// The object.
    pub document: Document,
    /// The line at which it begins.
    pub line: u64,
    /// Which fields it has, and where.
    pub shape: Shape<'a>,
    /// The fields that objects of its kind do not have.
    pub unknown: Vec<Unknown>,
}

/// As [`read`], and tells how each object is written: for those who have something to say about it.
pub fn read_written(manifests: &[u8]) -> Result<Vec<Written<'_>>, Error> {
    let text = str::from_utf8(manifests).map_err(|error| {
        let before = manifests.get(..error.valid_up_to()).and_then(|it| str::from_utf8(it).ok()).unwrap_or_default();
        let line = 1 + before.bytes().filter(|it| *it == b'\n').count() as u64;
        Error { document: parts(before).len(), kind: None, line, problem: Problem::NotText }
    })?;
    let mut documents = Vec::new();
    for part in parts(text) {
        documents.extend(part.read()?);
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

impl<'a> Part<'a> {
    fn read(self) -> Result<Vec<Written<'a>>, Error> {
        match self.read_json() {
            Some(objects) => Ok(objects),
            None => self.read_yaml(),
        }
    }

    /// The objects of plain JSON. `None` if there is any doubt: YAML has the last word, and the words for what is wrong.
    fn read_json(self) -> Option<Vec<Written<'a>>> {
        let shape = json::shape(self.text, self.offset)?;
        let header = |shape: &Shape<'_>, list| self.placed(shape.line, Header::of(shape)?, list).ok();
        let whole = header(&shape, None)?;
        let objects = match whole.is_list() {
            false => vec![(whole, shape)],
            true => {
                let items = shape.into_items("items")?.into_iter();
                items.map(|it| Some((header(&it, Some(&whole))?, it))).collect::<Option<_>>()?
            }
        };
        let read = |(header, shape): (Placed, Shape<'a>)| {
            let (document, unknown) = typed::read(&shape, One(&header));
            self.named(&header, document.ok()?, shape, unknown).ok()
        };
        objects.into_iter().map(read).collect()
    }

    fn read_yaml(self) -> Result<Vec<Written<'a>>, Error> {
        // What it is and how it is written come of one pass, unless something is wrong; then the pass for what it is says so.
        let shape =
            serde_saphyr::with_deserializer_from_str_with_options(self.text, options(), |it| Shape::deserialize(it));
        let shape = shape.unwrap_or_default().moved(self.offset);
        let header = match Header::of(&shape) {
            Some(header) => self.placed(shape.line, header, None)?,
            None => {
                let header: Option<Spanned<Header>> = serde_saphyr::from_str_with_options(self.text, options())
                    .map_err(|error| self.unreadable(None, &error))?;
                // Directives, comments and nothing else come before the first document.
                let Some(header) = header else { return Ok(Vec::new()) };
                self.spanned(header, None)?
            }
        };
        if header.is_list() {
            return self.read_list(&header, shape);
        }
        let document = self.parse(&header, |it| One(&header).deserialize(it))?;
        Ok(vec![self.written(&header, document, shape)?])
    }

    fn read_list(self, list: &Placed, shape: Shape<'a>) -> Result<Vec<Written<'a>>, Error> {
        #[derive(Deserialize)]
        struct List {
            items: Option<Vec<Spanned<Header>>>,
        }
        let shapes = shape.into_items("items").unwrap_or_default();
        let found = shapes.iter().map(|it| Some((it.line, Header::of(it)?))).collect::<Option<Vec<_>>>();
        let headers: Result<Vec<Placed>, _> = match found.filter(|it| !it.is_empty()) {
            Some(found) => found.into_iter().map(|(line, it)| self.placed(line, it, Some(list))).collect(),
            None => {
                let items = self.parse(list, |it| List::deserialize(it))?.items.unwrap_or_default();
                items.into_iter().map(|it| self.spanned(it, Some(list))).collect()
            }
        };
        let headers = headers?;
        let items = self.parse(list, |it| it.deserialize_map(Fields(&headers)))?;
        let shapes = shapes.into_iter().chain(std::iter::repeat_with(Shape::default));
        let objects = headers.iter().zip(items).zip(shapes);
        objects.map(|((header, document), shape)| self.written(header, document, shape)).collect()
    }

    /// An object that was read without the shape.
    fn written(self, header: &Placed, document: Document, shape: Shape<'a>) -> Result<Written<'a>, Error> {
        let (_, unknown) = typed::read(&shape, One(header));
        self.named(header, document, shape, unknown)
    }

    fn spanned(self, header: Spanned<Header>, list: Option<&Placed>) -> Result<Placed, Error> {
        self.placed(self.offset + header.referenced.line().max(1), header.value, list)
    }

    /// What a header says, and where it stands. The items of a list of one kind need not say what they are.
    fn placed(self, line: u64, header: Header, list: Option<&Placed>) -> Result<Placed, Error> {
        let Header { api_version, kind, metadata } = header;
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
    fn named(
        self,
        header: &Placed,
        document: Document,
        shape: Shape<'a>,
        unknown: Vec<Unknown>,
    ) -> Result<Written<'a>, Error> {
        let named = match &document {
            Document::Pod(pod) => pod.metadata.name.as_ref().is_some_and(|it| !it.is_empty()),
            Document::Object(object) => !object.reference().name().is_empty(),
            Document::Other(_) => true,
        };
        match named {
            true => Ok(Written { document, line: header.line, shape, unknown }),
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
        // A list may hold anything.
        let open = matches!(kind.as_deref(), Some(it) if it != Secret::KIND && !it.ends_with("List"));
        let problem = match open {
            true => Problem::Unreadable(DefaultMessageFormatter.format_message(error).into_owned()),
            false => unquoted(error).map_or(Problem::Withheld, Problem::Unreadable),
        };
        Error { document: self.number, kind, line: self.offset + line, problem }
    }
}

/// What can be said of an error without quoting what was read. The parser speaks of YAML alone; the message of a type may
/// quote a value.
fn unquoted(error: &serde_saphyr::Error) -> Option<String> {
    use serde_saphyr::Error as E;
    match error {
        E::DuplicateMappingKey { .. } => Some("the same key is there twice".into()),
        E::ExternalMessage { .. }
        | E::Eof { .. }
        | E::Unexpected { .. }
        | E::UnexpectedSequenceEnd { .. }
        | E::UnexpectedMappingEnd { .. }
        | E::ContainerEndMismatch { .. }
        | E::UnknownAnchor { .. } => Some(DefaultMessageFormatter.format_message(error).into_owned()),
        _ => None,
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

impl Header {
    /// What a shape says, if that is text and where it should be.
    fn of(shape: &Shape<'_>) -> Option<Self> {
        let text = |it: &Shape<'_>, field| match it.field(field) {
            Some(it) if !it.is_nothing() => Some(Some(it.text()?.to_owned())),
            Some(_) | None => Some(None),
        };
        if shape.line == 0 || !shape.is_map() {
            return None;
        }
        let metadata = match shape.field("metadata").filter(|it| !it.is_nothing()) {
            Some(metadata) if metadata.is_map() => Some(Metadata { name: text(metadata, "name")? }),
            Some(_) => return None,
            None => None,
        };
        Some(Self { api_version: text(shape, "apiVersion")?, kind: text(shape, "kind")?, metadata })
    }
}

/// What an object says it is, and the line at which it begins.
struct Placed {
    api_version: String,
    kind: String,
    name: Option<String>,
    line: u64,
}

impl Placed {
    fn is_list(&self) -> bool {
        self.kind.ends_with("List")
    }

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
mod tests;
