//! Manifests: bytes become pods and objects, read as `kubectl` reads them and filled as an API server fills them.
//!
//! YAML 1.1, in which `mode: 0600` is octal, or JSON; any number of documents; lists. Fields that are not known are
//! dropped. Where the bytes come from, and what a manifest that is gone means, is for others to say.

mod json;
mod kinds;
mod shape;
mod typed;
mod uid;

use std::fmt;

use k8s_openapi::api::core::v1::{Node, Pod, Secret};
use k8s_openapi::api::storage::v1::VolumeAttachment;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use k8s_openapi::{Metadata as HasMetadata, Resource};
use serde::de::{DeserializeSeed, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer};
use serde_saphyr::budget::BudgetBreach;
use serde_saphyr::{DefaultMessageFormatter, MessageFormatter, Options, Spanned};

use crate::defaults;

pub use crate::memory::Object;
pub use crate::objects::{ObjectKind, Reference};
pub(crate) use kinds::nearly;
pub use shape::Shape;
pub use typed::Unknown;
pub use uid::give_uid;

/// What is wrong with a pod or an object, by field: a node takes what has warnings, and a directory of manifests nothing
/// that has errors.
pub mod validate {
    pub use crate::validate::{DRIVER_TIMEOUT, Finding, object, pod, references, written};
}

/// How deep values may lie within each other: more than any object of Kubernetes, and few enough for the stack of any
/// thread, also in a build that was not optimized.
const DEPTH_MAX: usize = 40;
/// How many objects one file may hold. Nobody who reads or writes more of them in one file is a person.
const DOCUMENTS_MAX: usize = 10_000;
/// How many values one document may hold.
const VALUES_MAX: usize = 250_000;
/// How many values the aliases of one document may stand for.
const ALIASED_MAX: usize = 10_000;
/// How much text the values of one document may hold, with what aliases repeat of it.
const TEXT_MAX: usize = 16 << 20;

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
#[non_exhaustive]
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
#[error("reading document {document}{}, line {line}: {problem}", OfKind(.kind.as_deref()))]
#[non_exhaustive]
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
#[non_exhaustive]
pub enum Problem {
    /// There are bytes that are no text.
    #[error("this is not UTF-8")]
    NotText,
    /// There are NUL bytes, as a file system leaves them in place of what was not written before a crash.
    #[error("there is a NUL byte: this is no manifest, or it was cut by a crash; write it again")]
    Hole,
    /// There are more objects than one file may hold.
    #[error("there are more than {DOCUMENTS_MAX} objects: make several files of it")]
    TooMany,
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
struct OfKind<'a>(Option<&'a str>);

impl fmt::Display for OfKind<'_> {
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
#[derive(Clone)]
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

impl fmt::Debug for Written<'_> {
    /// Without the names of fields, of which one may be a secret that is indented wrongly (I-12).
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Written").field("document", &self.document).field("line", &self.line).finish_non_exhaustive()
    }
}

/// As [`read`], and tells how each object is written: for those who have something to say about it.
pub fn read_written(manifests: &[u8]) -> Result<Vec<Written<'_>>, Error> {
    Ok(read_whole(manifests)?.documents)
}

/// All that a text says, and how it ends.
pub(crate) struct Whole<'a> {
    pub(crate) documents: Vec<Written<'a>>,
    pub(crate) ending: Ending,
}

/// How a text ends: by that one can tell, sometimes, whether its writer came to the end.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct Ending {
    /// There is no document, not even an empty list.
    pub(crate) is_blank: bool,
    /// The last document is a list that says it is empty.
    pub(crate) is_empty_list: bool,
    /// Nothing follows the last separator.
    pub(crate) is_open: bool,
    /// It ends with the end of a line.
    pub(crate) is_line: bool,
    /// The last line is the mark that YAML has for the end of a document: `...`.
    pub(crate) is_marked: bool,
    /// There is such a mark elsewhere.
    pub(crate) has_marks: bool,
    /// It is one JSON object, of this kind and name. If any of it were missing, it would not be one.
    pub(crate) json: Option<Box<str>>,
}

/// As [`read_written`], and tells how the text ends.
pub(crate) fn read_whole(manifests: &[u8]) -> Result<Whole<'_>, Error> {
    let broken = |place: usize, problem| {
        let before = manifests.get(..place).and_then(|it| str::from_utf8(it).ok()).unwrap_or_default();
        let line = 1 + before.bytes().filter(|it| *it == b'\n').count() as u64;
        Error { document: parts(before).last().map_or(1, |it| it.number), kind: None, line, problem }
    };
    let text = str::from_utf8(manifests).map_err(|error| broken(error.valid_up_to(), Problem::NotText))?;
    // YAML allows none, and its reader takes one for the end.
    if let Some(place) = text.find('\0') {
        return Err(broken(place, Problem::Hole));
    }
    let mut documents = Vec::new();
    let mut ending = Ending { is_blank: true, ..Ending::default() };
    for part in parts(text) {
        ending.is_open = part.is_blank();
        if ending.is_open {
            continue;
        }
        let was_blank = ending.is_blank;
        let read = part.read()?;
        ending.is_blank &= read.form == Form::Nothing;
        ending.is_empty_list = read.form == Form::EmptyList;
        ending.json = match read.form {
            Form::Json(name) if was_blank => Some(name),
            Form::Json(_) | Form::Yaml | Form::EmptyList | Form::Nothing => None,
        };
        documents.extend(read.documents);
        if documents.len() > DOCUMENTS_MAX {
            let line = documents.get(DOCUMENTS_MAX).map_or(1, |it| it.line);
            return Err(Error { document: part.number, kind: None, line, problem: Problem::TooMany });
        }
    }
    ending.is_line = text.ends_with('\n');
    let mut marks = text.lines().rev().skip_while(|it| it.trim().is_empty());
    ending.is_marked = marks.next().is_some_and(is_mark);
    ending.has_marks = marks.any(is_mark);
    Ok(Whole { documents, ending })
}

/// Whether a line is the mark at the end of a document.
fn is_mark(line: &str) -> bool {
    line.trim_end() == "..."
}

/// What one document was.
#[derive(PartialEq, Eq, Debug)]
enum Form {
    /// JSON, of this kind and name.
    Json(Box<str>),
    Yaml,
    /// A list that says that it has no items.
    EmptyList,
    /// Nothing, though it takes more than blanks and comments to say so.
    Nothing,
}

#[derive(Debug)]
struct Read<'a> {
    documents: Vec<Written<'a>>,
    form: Form,
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

/// Whether a line says nothing, or nothing but where a document begins or ends.
fn is_blank(line: &str) -> bool {
    let line = match line.strip_prefix("---").or_else(|| line.strip_prefix("...")) {
        Some(rest) if rest.is_empty() || rest.starts_with([' ', '\t', '\r', '\n']) => rest,
        Some(_) | None => line,
    };
    // A comment needs a space before it only if something else is before it.
    matches!(
        line.trim_start_matches('\u{feff}').trim_start_matches([' ', '\t']).chars().next(),
        None | Some('#' | '\r' | '\n')
    )
}

fn separates(line: &str) -> bool {
    line.strip_prefix("---").is_some_and(|it| it.is_empty() || it.starts_with([' ', '\t', '\r', '\n']))
}

impl<'a> Part<'a> {
    /// Whether there is nothing but separators and comments, which is found out without a parser: there may be a million
    /// of such parts.
    fn is_blank(self) -> bool {
        self.text.split_inclusive('\n').all(|it| is_blank(it) || it.starts_with('%'))
    }

    fn read(self) -> Result<Read<'a>, Error> {
        match self.read_json() {
            Some(read) => Ok(read),
            None => self.read_yaml(),
        }
    }

    /// The objects of plain JSON. `None` if there is any doubt: YAML has the last word, and the words for what is wrong.
    fn read_json(self) -> Option<Read<'a>> {
        let shape = json::shape(self.text, self.offset)?;
        let header = |shape: &Shape<'_>, list| self.placed(shape.line, Header::of(shape)?, list).ok();
        let whole = header(&shape, None)?;
        let name = format!("{} {}", whole.kind, whole.name.as_deref().unwrap_or_default());
        let objects = match whole.is_list() {
            false => vec![(whole, shape)],
            true => {
                let items = shape.into_items("items")?.into_iter();
                items.map(|it| Some((header(&it, Some(&whole))?, it))).collect::<Option<_>>()?
            }
        };
        let form = if objects.is_empty() { Form::EmptyList } else { Form::Json(name.into()) };
        let read = |(header, shape): (Placed, Shape<'a>)| {
            let (document, unknown) = typed::read(&shape, One(&header));
            self.named(&header, document.ok()?, shape, unknown).ok()
        };
        Some(Read { documents: objects.into_iter().map(read).collect::<Option<_>>()?, form })
    }

    fn read_yaml(self) -> Result<Read<'a>, Error> {
        // What it is and how it is written come of one pass, unless something is wrong; then the pass for what it is says so.
        let shape =
            serde_saphyr::with_deserializer_from_str_with_options(self.text, options(), |it| Shape::deserialize(it));
        let shape = shape.unwrap_or_default().moved(self.offset);
        let header = match Header::of(&shape) {
            Some(header) => self.placed(shape.line, header, None)?,
            None => {
                let header: Option<Spanned<Header>> = serde_saphyr::from_str_with_options(self.text, options())
                    .map_err(|error| self.unreadable(None, &error))?;
                // `null` is no object either.
                let Some(header) = header else {
                    return Ok(Read { documents: Vec::new(), form: Form::Nothing });
                };
                self.spanned(header, None)?
            }
        };
        if header.is_list() {
            let documents = self.read_list(&header, shape)?;
            let form = if documents.is_empty() { Form::EmptyList } else { Form::Yaml };
            return Ok(Read { documents, form });
        }
        let document = self.parse(&header, |it| One(&header).deserialize(it))?;
        Ok(Read { documents: vec![self.written(&header, document, shape)?], form: Form::Yaml })
    }

    fn read_list(self, list: &Placed, shape: Shape<'a>) -> Result<Vec<Written<'a>>, Error> {
        #[derive(Deserialize)]
        struct List {
            items: Option<Vec<Spanned<Header>>>,
        }
        // Without items it was cut, or they are called by another name; one that has none says so (I-1).
        let line = shape.line.max(1);
        let Some(shapes) = shape.into_items("items") else {
            return Err(self.missing(Some(list.kind.clone()), line, "items; a list of nothing says `items: []`"));
        };
        let found = shapes.iter().map(|it| Some((it.line, Header::of(it)?))).collect::<Option<Vec<_>>>();
        let headers: Result<Vec<Placed>, _> = match found.filter(|it| !it.is_empty()) {
            Some(found) => found.into_iter().map(|(line, it)| self.placed(line, it, Some(list))).collect(),
            None => {
                let Some(items) = self.parse(list, |it| List::deserialize(it))?.items else {
                    return Err(self.missing(
                        Some(list.kind.clone()),
                        line,
                        "items; a list of nothing says `items: []`",
                    ));
                };
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
        let problem = match (unquoted(error), open) {
            (Some(told), _) => Problem::Unreadable(told),
            (None, true) => Problem::Unreadable(DefaultMessageFormatter.format_message(error).into_owned()),
            (None, false) => Problem::Withheld,
        };
        Error { document: self.number, kind, line: self.offset + line, problem }
    }
}

/// What can be said of an error without quoting what was read. The parser speaks of YAML alone; the message of a type may
/// quote a value.
fn unquoted(error: &serde_saphyr::Error) -> Option<String> {
    use serde_saphyr::Error as E;
    let repeats = || format!("its aliases stand for more than {ALIASED_MAX} values: write them out, or use fewer");
    match error {
        E::DuplicateMappingKey { .. } => Some("the same key is there twice".into()),
        E::ExternalMessage { .. }
        | E::Eof { .. }
        | E::Unexpected { .. }
        | E::UnexpectedSequenceEnd { .. }
        | E::UnexpectedMappingEnd { .. }
        | E::ContainerEndMismatch { .. }
        | E::UnknownAnchor { .. } => Some(DefaultMessageFormatter.format_message(error).into_owned()),
        E::AliasError { error, .. } | E::WithSnippet { error, .. } => unquoted(error),
        E::NonFiniteFloat { .. } => Some("a number here is too large".into()),
        E::MultipleDocuments { .. } => Some("something follows the end of this document".into()),
        E::AliasReplayCounterOverflow { .. }
        | E::AliasReplayLimitExceeded { .. }
        | E::AliasExpansionLimitExceeded { .. }
        | E::AliasReplayStackDepthExceeded { .. } => Some(repeats()),
        E::Budget { breach, .. } => Some(match breach {
            BudgetBreach::Depth { .. } => format!("its values lie within each other more than {DEPTH_MAX} deep"),
            BudgetBreach::ScalarBytes { .. } => format!("its values hold more than {TEXT_MAX} bytes"),
            BudgetBreach::Nodes { .. } | BudgetBreach::Events { .. } => {
                format!("it holds more than {VALUES_MAX} values: make several files of it")
            }
            BudgetBreach::Aliases { .. }
            | BudgetBreach::Anchors { .. }
            | BudgetBreach::AliasAnchorRatio { .. }
            | BudgetBreach::MergeKeys { .. } => repeats(),
            _ => "it asks more of the reader than a manifest needs".into(),
        }),
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
///
/// A few bytes must not make much work: aliases can repeat each other, and what lies deep needs a stack.
fn options() -> Options {
    serde_saphyr::options! {
        legacy_octal_numbers: true,
        with_snippet: false,
        budget: serde_saphyr::budget! {
            max_depth: DEPTH_MAX,
            max_nodes: VALUES_MAX,
            max_events: 4 * VALUES_MAX,
            max_total_scalar_bytes: TEXT_MAX,
            max_recorded_anchor_events: 2 * VALUES_MAX,
        },
        alias_limits: serde_saphyr::alias_limits! { max_total_replayed_events: ALIASED_MAX },
    }
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
            ("storage.k8s.io/v1", "VolumeAttachment") => filled(from, |_: &mut VolumeAttachment| {})?.into(),
            ("v1", "Node") => filled(from, |_: &mut Node| {})?.into(),
            ("v1", "ConfigMap") => filled(from, defaults::config_map)?.into(),
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

fn filled<'de, T, D: Deserializer<'de>>(from: D, fill: fn(&mut T)) -> Result<T, D::Error>
where
    T: Deserialize<'de> + HasMetadata<Ty = ObjectMeta>,
{
    let mut object = T::deserialize(from)?;
    // What a cluster counted says nothing about a file that was saved from it and edited since.
    object.metadata_mut().resource_version = None;
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
