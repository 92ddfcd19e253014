//! What has to be read again before anything is taken away for good.
//!
//! The clock knows that a time is over before a source has said what came in time: its thread may not have run, and of what
//! another machine does nobody tells it at all. So sources that can are asked to read all they have again, and what waits for
//! that goes on once they have said what they found (I-1, I-15).

use std::collections::{BTreeMap, VecDeque};
use std::mem;
use std::path::Path;
use std::sync::Arc;

use windlass_core::Event;
use windlass_core::ids::{SourceName, Time};
use windlass_linux::watched_files::Handle;

use super::{Drive, Message};

/// Sources that can be asked, and what waits for them.
#[derive(Default)]
pub(super) struct Reading {
    sources: BTreeMap<SourceName, Asked>,
    /// What somebody said, and when.
    orders: Vec<(Time, Message)>,
}

/// How far a source is with what it was asked.
struct Asked {
    files: Arc<Handle>,
    /// By which numbers it is known to have read everything, and when it was asked that.
    open: VecDeque<(u64, Time)>,
    /// The source has told all that it had at this moment.
    as_of: Time,
}

impl Reading {
    /// A source that has not said what it had at this moment.
    pub(super) fn unread_as_of(&self, moment: Time) -> Option<&SourceName> {
        self.sources.iter().find(|(_, it)| it.as_of < moment).map(|(name, _)| name)
    }

    /// Something was mounted or unmounted here. Sources whose files that can cover or uncover look at them again.
    pub(super) fn mounted(&self, point: &Path) {
        self.sources.values().for_each(|it| it.files.mounted(point));
    }
}

impl Drive {
    /// A source can be asked.
    pub(super) fn source_rereads(&mut self, source: &SourceName, files: Arc<Handle>) {
        let asked = Asked { files, open: VecDeque::new(), as_of: Time::ZERO };
        self.reading.sources.insert(source.clone(), asked);
        self.tell(Event::SourceRead { source: source.clone(), as_of: Time::ZERO });
    }

    /// All sources that can are to say what they have at this moment, which has come, or later.
    pub(super) fn reread(&mut self, as_of: Time) {
        let now = self.now();
        for source in self.reading.sources.values_mut() {
            let asked = source.open.back().map_or(source.as_of, |(_, at)| *at);
            if asked < as_of {
                source.open.push_back((source.files.reread(), now));
            }
        }
    }

    /// A source has read everything again, so many times with this.
    pub(super) fn source_was_read(&mut self, source: &SourceName, number: u64) {
        let Some(asked) = self.reading.sources.get_mut(source) else { return };
        while let Some((_, at)) = asked.open.front().copied().filter(|(it, _)| *it <= number) {
            asked.as_of = at;
            asked.open.pop_front();
        }
        let as_of = asked.as_of;
        self.tell(Event::SourceRead { source: source.clone(), as_of });
        self.look_at_due_claims();
        for (at, order) in mem::take(&mut self.reading.orders) {
            self.once_read(at, order);
        }
    }

    /// Does what somebody said at this moment, once it is known what sources had then.
    pub(super) fn once_read(&mut self, at: Time, order: Message) {
        if self.reading.unread_as_of(at).is_some() {
            self.reading.orders.push((at, order));
            return self.reread(at);
        }
        match order {
            // Whoever has not waited for the answer does not know what he would have said to it.
            Message::DeletePod(pod, answer) if !answer.is_closed() => _ = answer.send(self.delete_pod(&pod)),
            Message::DeleteOrphans(pod, answer) if !answer.is_closed() => _ = answer.send(self.delete_orphans(&pod)),
            Message::DeleteClaim(claim, answer) if !answer.is_closed() => self.delete_claim(&claim, answer),
            _ => {}
        }
    }
}
