//! A record as it is on disk: a line of JSON.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use windlass_core::ids::BootId;
use windlass_core::operation::Proof;
use windlass_core::spec::{Attach, Capabilities, Concurrency, Identity, Refresh, Sharing, VolumeSpec};
use windlass_linux::name::Name;

use super::{Record, State};
use crate::plugin::{Made, VolumeForm};

/// The version that is written. A record of a newer one is read as far as it makes sense.
const VERSION: u32 = 1;

/// A record as a line. The pod stands in it if the name of the file does not tell.
pub(crate) fn line(pod: Option<&Name>, record: &Record) -> serde_json::Result<Vec<u8>> {
    // Long enough for most, so that it need not grow.
    let mut text = Vec::with_capacity(1024);
    serde_json::to_writer(&mut text, &File::of(pod, record))?;
    text.push(b'\n');
    Ok(text)
}

/// The record in a file, and the pod that stands in it if the file's name does not tell; or what is wrong with it.
pub(crate) fn parse(contents: &[u8]) -> Result<(Record, Option<String>), String> {
    let file: File<'_> = serde_json::from_slice(last_line(contents)).map_err(|error| error.to_string())?;
    let made = file.boot.map(|it| BootId::from(it.as_ref())).zip(file.made.map(MadeFields::made));
    let state = match (file.attachment, file.proven, made) {
        (Some(AttachmentFields { node, context }), ..) => {
            State::Attachment { node: node.into_owned(), context: context.map(Cow::into_owned) }
        }
        (None, Some(Proven { revision, epoch }), Some((boot, made))) => State::Proven { boot, made, revision, epoch },
        (None, _, made) => State::Intent { made },
    };
    let spec = Arc::new(file.volume.spec());
    let label = file.label.map(|it| it.as_ref().into());
    let title = file.title.map(Cow::into_owned);
    Ok((Record { spec, state, label, title, other: file.other.into_owned() }, file.pod.map(Cow::into_owned)))
}

/// A line of a pod's file.
pub(super) enum Line<'a> {
    Record(Record),
    Mark(Mark<'a>),
}

/// What a line of a pod's file says; or what is wrong with it.
pub(super) fn parse_line(line: &[u8]) -> Result<Line<'_>, String> {
    if line.starts_with(MARK.as_bytes()) {
        return serde_json::from_slice(line).map(Line::Mark).map_err(|error| error.to_string());
    }
    parse(line).map(|(record, _)| Line::Record(record))
}

/// A mark as a line.
pub(super) fn mark(mark: &Mark<'_>) -> Vec<u8> {
    let mut text = serde_json::to_vec(mark).expect("words and names are text");
    text.push(b'\n');
    text
}

/// How a mark begins, and no record.
const MARK: &str = "{\"mark\":";

/// What happened to a record in a pod's file since it was written.
#[derive(Serialize, Deserialize)]
pub(super) struct Mark<'a> {
    #[serde(rename = "mark")]
    pub(super) word: MarkWord,
    pub(super) plugin: Cow<'a, str>,
    pub(super) name: Cow<'a, str>,
    pub(super) block: bool,
}

#[derive(Serialize, Deserialize, Clone, Copy)]
#[serde(rename_all = "snake_case")]
pub(super) enum MarkWord {
    /// Its volume is being taken away.
    Leaving,
    /// The same, because its pod has gone.
    LeavingWithPod,
    /// Its volume is gone.
    Gone,
}

/// The last line that is whole. What follows it was being added when its process ended, or is being added now.
fn last_line(contents: &[u8]) -> &[u8] {
    let end_of_line = |text: &[u8]| text.iter().rposition(|it| *it == b'\n');
    let Some(end) = end_of_line(contents) else { return contents };
    let whole = &contents[..end];
    &whole[end_of_line(whole).map_or(0, |it| it + 1)..]
}

/// A record as it is on disk.
#[derive(Serialize, Deserialize)]
struct File<'a> {
    version: u32,
    volume: Volume<'a>,
    /// The pod, if the name of the file does not tell.
    #[serde(skip_serializing_if = "Option::is_none")]
    pod: Option<Cow<'a, str>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    made: Option<MadeFields<'a>>,
    /// The boot in which it was made.
    #[serde(skip_serializing_if = "Option::is_none")]
    boot: Option<Cow<'a, str>>,
    /// Only with what was made; without it, it was only going to be.
    #[serde(skip_serializing_if = "Option::is_none")]
    proven: Option<Proven>,
    #[serde(skip_serializing_if = "Option::is_none")]
    attachment: Option<AttachmentFields<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    label: Option<Cow<'a, str>>,
    /// What the pod is called, as `namespace/name`.
    #[serde(default, rename = "pod_name", skip_serializing_if = "Option::is_none")]
    title: Option<Cow<'a, str>>,
    #[serde(flatten)]
    other: Cow<'a, Map<String, Value>>,
}

#[derive(Serialize, Deserialize)]
struct Volume<'a> {
    id: Cow<'a, str>,
    plugin: Cow<'a, str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    driver: Option<Cow<'a, str>>,
    name: Cow<'a, str>,
    block: bool,
    one_pod: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    group: Option<Cow<'a, str>>,
    can: Can,
}

/// The abilities of the volume's kind.
#[derive(Serialize, Deserialize)]
struct Can {
    attach: AttachWord,
    stage: bool,
    block: bool,
    expand: bool,
    /// Milliseconds; -1 never, 0 when it changes.
    refresh: i64,
    shared: bool,
    concurrency: ConcurrencyWord,
    patience_milliseconds: u64,
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum AttachWord {
    NotNeeded,
    ByController,
    ByNode,
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum ConcurrencyWord {
    Alone,
    ReleasesOverlap,
    PodsOverlap,
}

#[derive(Serialize, Deserialize)]
struct MadeFields<'a> {
    mount_id: u64,
    device: u64,
    root: u64,
    kind: u64,
    what: WhatWord,
    #[serde(skip_serializing_if = "Option::is_none")]
    mounted_at: Option<Cow<'a, Path>>,
    path: Cow<'a, Path>,
    #[serde(skip_serializing_if = "Option::is_none")]
    refresh_at_seconds: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    lost_at_seconds: Option<u64>,
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum WhatWord {
    Mount,
    Directory,
    Host,
}

#[derive(Serialize, Deserialize)]
struct AttachmentFields<'a> {
    node: Cow<'a, str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    context: Option<Cow<'a, BTreeMap<String, String>>>,
}

#[derive(Serialize, Deserialize)]
struct Proven {
    revision: u64,
    epoch: u64,
}

impl<'a> File<'a> {
    fn of(pod: Option<&'a Name>, record: &'a Record) -> Self {
        let pod = pod.map(|it| String::from_utf8_lossy(it.as_bytes()));
        let (mut proven, mut attachment) = (None, None);
        match &record.state {
            State::Intent { .. } | State::Leaving { .. } => {}
            State::Proven { revision, epoch, .. } => proven = Some(Proven { revision: *revision, epoch: *epoch }),
            State::Attachment { node, context } => {
                let context = context.as_ref().map(Cow::Borrowed);
                attachment = Some(AttachmentFields { node: node.into(), context });
            }
        }
        Self {
            version: VERSION,
            volume: Volume::of(&record.spec),
            pod,
            made: record.made().map(|(_, made)| MadeFields::of(made)),
            boot: record.made().map(|(boot, _)| boot.as_str().into()),
            proven,
            attachment,
            label: record.label.as_deref().map(Into::into),
            title: record.title.as_deref().map(Into::into),
            other: Cow::Borrowed(&record.other),
        }
    }
}

impl<'a> Volume<'a> {
    fn of(spec: &'a VolumeSpec) -> Self {
        let Capabilities { attach, stage, block, expand, refresh, identity, concurrency, patience } =
            &spec.capabilities;
        let milliseconds = |it: &Duration| u64::try_from(it.as_millis()).unwrap_or(u64::MAX);
        Self {
            id: spec.id.as_str().into(),
            plugin: spec.plugin.as_str().into(),
            driver: spec.driver.as_ref().map(|it| it.as_str().into()),
            name: spec.inner_name.as_str().into(),
            block: spec.mode == windlass_core::spec::Mode::Block,
            one_pod: spec.sharing == Sharing::OnePod,
            group: spec.group.as_deref().map(Into::into),
            can: Can {
                attach: match attach {
                    Attach::NotNeeded => AttachWord::NotNeeded,
                    Attach::ByController => AttachWord::ByController,
                    Attach::ByNode => AttachWord::ByNode,
                },
                stage: *stage,
                block: *block,
                expand: *expand,
                refresh: match refresh {
                    Refresh::Never => -1,
                    Refresh::OnChange => 0,
                    Refresh::Every(period) => i64::try_from(milliseconds(period).max(1)).unwrap_or(i64::MAX),
                },
                shared: *identity == Identity::Shared,
                concurrency: match concurrency {
                    Concurrency::Alone => ConcurrencyWord::Alone,
                    Concurrency::ReleasesOverlap => ConcurrencyWord::ReleasesOverlap,
                    Concurrency::PodsOverlap => ConcurrencyWord::PodsOverlap,
                },
                patience_milliseconds: milliseconds(patience),
            },
        }
    }

    fn spec(self) -> VolumeSpec {
        let can = self.can;
        VolumeSpec {
            id: self.id.as_ref().into(),
            plugin: self.plugin.as_ref().into(),
            driver: self.driver.map(|it| it.as_ref().into()),
            inner_name: self.name.as_ref().into(),
            capabilities: Capabilities {
                attach: match can.attach {
                    AttachWord::NotNeeded => Attach::NotNeeded,
                    AttachWord::ByController => Attach::ByController,
                    AttachWord::ByNode => Attach::ByNode,
                },
                stage: can.stage,
                block: can.block,
                expand: can.expand,
                refresh: match u64::try_from(can.refresh) {
                    Err(_) => Refresh::Never,
                    Ok(0) => Refresh::OnChange,
                    Ok(period) => Refresh::Every(Duration::from_millis(period)),
                },
                identity: if can.shared { Identity::Shared } else { Identity::PerPod },
                concurrency: match can.concurrency {
                    ConcurrencyWord::Alone => Concurrency::Alone,
                    ConcurrencyWord::ReleasesOverlap => Concurrency::ReleasesOverlap,
                    ConcurrencyWord::PodsOverlap => Concurrency::PodsOverlap,
                },
                patience: Duration::from_millis(can.patience_milliseconds),
            },
            mode: if self.block { windlass_core::spec::Mode::Block } else { windlass_core::spec::Mode::Filesystem },
            sharing: if self.one_pod { Sharing::OnePod } else { Sharing::Shared },
            group: self.group.map(|it| it.as_ref().into()),
            size: windlass_core::expand::Size::default(),
        }
    }
}

impl<'a> MadeFields<'a> {
    fn of(made: &'a Made) -> Self {
        let Proof { mount_id, device, root, kind } = made.proof;
        let (what, mounted_at) = match &made.form {
            VolumeForm::Mount(path) => (WhatWord::Mount, Some(path.into())),
            VolumeForm::Directory => (WhatWord::Directory, None),
            VolumeForm::Host => (WhatWord::Host, None),
        };
        let seconds = |it: SystemTime| it.duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
        let (refresh_at_seconds, lost_at_seconds) = (made.refresh_at.map(seconds), made.lost_at.map(seconds));
        let path = (&made.path).into();
        Self { mount_id, device, root, kind, what, mounted_at, path, refresh_at_seconds, lost_at_seconds }
    }

    fn made(self) -> Made {
        let time = |seconds| UNIX_EPOCH.checked_add(Duration::from_secs(seconds));
        let path = self.path.into_owned();
        let form = match self.what {
            WhatWord::Mount => VolumeForm::Mount(self.mounted_at.map_or_else(|| path.clone(), Cow::into_owned)),
            WhatWord::Directory => VolumeForm::Directory,
            WhatWord::Host => VolumeForm::Host,
        };
        Made {
            proof: Proof { mount_id: self.mount_id, device: self.device, root: self.root, kind: self.kind },
            form,
            path,
            refresh_at: self.refresh_at_seconds.and_then(time),
            lost_at: self.lost_at_seconds.and_then(time),
        }
    }
}
