//! Everything that planning one volume looks at besides the volume itself.

use crate::actual::{PodKey, Running, VolumeKey};
use crate::desired::Pod;
use crate::event::Attachment;
use crate::ids::{DriverName, OperationId, SourceName, Time, VolumeId};
use crate::snapshot::SourceState;
use crate::table::{Named, Table};
use crate::titles::Titles;
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::format;
use alloc::string::String;
use alloc::sync::Arc;
use core::time::Duration;

#[derive(Clone)]
pub(crate) struct World {
    pub(crate) now: Time,
    pub(crate) keep_terminated: bool,
    pub(crate) start: Start,
    pub(crate) pods: Table<Pod>,
    /// The pods by `namespace/name`.
    pub(crate) titles: Titles,
    pub(crate) sources: BTreeMap<SourceName, Source>,
    pub(crate) drivers: BTreeMap<DriverName, DriverState>,
    /// What the attacher says, also of volumes that nobody wants at the moment.
    pub(crate) attachments: Table<Attached>,
    pub(crate) operations: BTreeMap<OperationId, Running>,
    /// The newest version of the set of volumes in use that is known to be reported.
    pub(crate) reported_version: u64,
}

/// How far the start has come. Each is told once.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Start {
    pub(crate) disk_read: bool,
    pub(crate) attachments_complete: bool,
    /// All was known at one moment: things may be taken away (E-182). Never goes back.
    pub(crate) may_take_away: bool,
}

/// A source of pods.
#[derive(Clone, Debug, Default)]
pub(crate) struct Source {
    pub(crate) state: SourceState,
    /// Since when it is in that state.
    pub(crate) since: Time,
    /// How often it was lost. A pod that it gave in an earlier life and not in this one is gone once it is complete.
    pub(crate) life: u64,
    /// How long what no source has named since the start stays.
    pub(crate) orphan_delay: Duration,
    /// The last moment of which it has told all it had, if it can be asked.
    pub(crate) read: Option<Time>,
}

impl Source {
    /// The source is in this state from now on.
    pub(crate) fn enter(&mut self, state: SourceState, now: Time) {
        if self.state != state {
            (self.state, self.since) = (state, now);
        }
    }
}

/// A driver, and the volumes that wait for something and might be glad to see it come back.
#[derive(Clone, Debug, Default)]
pub(crate) struct DriverState {
    pub(crate) registered: bool,
    pub(crate) parked: BTreeSet<VolumeKey>,
}

/// The attacher's word on one volume.
#[derive(Clone)]
pub(crate) struct Attached {
    pub(crate) volume: VolumeId,
    pub(crate) attachment: Attachment,
}

impl Named for Attached {
    fn name(&self) -> &str {
        self.volume.as_str()
    }
}

impl World {
    pub(crate) fn attachment(&self, volume: &VolumeId) -> Option<&Attachment> {
        let key = self.attachments.find(volume.as_str())?;
        Some(&self.attachments[key].attachment)
    }

    pub(crate) fn driver_is_registered(&self, driver: Option<&DriverName>) -> bool {
        driver.is_none_or(|it| self.drivers.get(it).is_some_and(|it| it.registered))
    }

    /// The first source that has not told all it has.
    pub(crate) fn incomplete_source(&self) -> Option<&SourceName> {
        self.sources.iter().find(|(_, source)| !source.state.is_complete()).map(|(name, _)| name)
    }

    /// Why it is not known what all sources have: the source, since when, and what it cannot tell. One that has not told all
    /// it has comes before one that cannot read something.
    pub(crate) fn silence(&self) -> Option<(&SourceName, Time, String)> {
        let doubtful = |it: &&SourceName| matches!(self.sources[*it].state, SourceState::Complete { doubt: Some(_) });
        let name = self.incomplete_source().or_else(|| self.sources.keys().find(doubtful))?;
        let Source { state, since, .. } = self.sources.get(name)?;
        let why = match state {
            SourceState::Incomplete => format!("source {name} has not told all it has"),
            SourceState::Lost(text) => format!("source {name} is lost: {text}"),
            SourceState::Complete { doubt } => doubt.as_deref()?.into(),
        };
        Some((name, *since, why))
    }

    /// Is it known what all sources have?
    pub(crate) fn all_is_known(&self) -> bool {
        self.start.may_take_away && self.sources.values().all(|it| it.state == SourceState::Complete { doubt: None })
    }

    /// Have all sources that can be asked told all they had at this moment?
    pub(crate) fn is_read_as_of(&self, moment: Time) -> bool {
        self.sources.values().filter_map(|it| it.read).all(|it| it >= moment)
    }

    /// How long what no source has named since the start stays: as long as the most careful of them says.
    pub(crate) fn orphan_delay(&self) -> Duration {
        self.sources.values().map(|it| it.orphan_delay).max().unwrap_or_default()
    }

    pub(crate) fn pod(&self, uid: &crate::ids::PodUid) -> Option<PodKey> {
        self.pods.find(uid.as_str())
    }

    pub(crate) fn add_pod(&mut self, pod: Pod) -> PodKey {
        let key = self.pods.insert(pod);
        self.titles.insert(&self.pods, key);
        key
    }

    pub(crate) fn remove_pod(&mut self, key: PodKey) -> Pod {
        self.titles.remove(&self.pods, key);
        self.pods.remove(key)
    }

    /// The pod is called this.
    pub(crate) fn set_title(&mut self, key: PodKey, title: Arc<str>) {
        self.titles.remove(&self.pods, key);
        self.pods[key].title = title;
        self.titles.insert(&self.pods, key);
    }
}
