//! The API server as far as this node's status goes: which volumes it reports in use, and which are listed as attached.

use crate::faults::Fault;
use crate::life::Sabotage;
use crate::script::ReportTrouble;
use crate::world::{Happening, World};
use std::collections::{BTreeMap, BTreeSet};
use windlass_core::Event;
use windlass_core::event::Attachment;
use windlass_core::ids::VolumeId;

/// What stands in the node's status.
#[derive(Clone, Debug, Default)]
pub struct ApiServer {
    /// The volumes that the node reported in use.
    pub in_use: BTreeSet<VolumeId>,
    /// The life of the process that wrote the report. What an earlier one wrote comes too late.
    writer: u64,
    /// The volumes that the attacher lists as attached, or once did, with how new that is.
    listed: BTreeMap<VolumeId, (u64, bool)>,
    version: u64,
}

impl ApiServer {
    /// Is a volume listed as attached?
    pub fn is_listed(&self, volume: &VolumeId) -> bool {
        self.listed.get(volume).is_some_and(|(_, listed)| *listed)
    }

    /// The volumes that are listed as attached.
    pub fn listed(&self) -> impl Iterator<Item = &VolumeId> {
        self.listed.iter().filter(|(_, (_, listed))| *listed).map(|(volume, _)| volume)
    }
}

impl World {
    /// The attacher lists a volume as attached or not; the process hears of it.
    pub(crate) fn list_attachment(&mut self, volume: &VolumeId, listed: bool) {
        self.apiserver.version += 1;
        let version = self.apiserver.version;
        self.apiserver.listed.insert(volume.clone(), (version, listed));
        self.note(|| format!("true: {volume} is {}listed as attached", if listed { "" } else { "not " }));
        self.tell_attachment(volume, version, attachment(listed));
    }

    /// Sends word of an attachment to the process.
    pub(crate) fn tell_attachment(&mut self, volume: &VolumeId, version: u64, attachment: Attachment) {
        if let Some(process) = &self.process {
            let (life, volume) = (process.life, volume.clone());
            let delay = 1 + self.luck(&[30, version]).below(500);
            self.schedule_in(delay, Happening::AttachmentTold { life, volume, version, attachment });
        }
    }

    /// A number for news about attachments that is newer than all before.
    pub(crate) fn next_attachment_version(&mut self) -> u64 {
        self.apiserver.version += 1;
        self.apiserver.version
    }

    /// Word of an attachment arrives. What is older than what is known is dropped, as any reader of versioned objects does.
    pub(crate) fn attachment_told(&mut self, volume: VolumeId, version: u64, attachment: Attachment) {
        let Some(process) = &mut self.process else {
            return;
        };
        if process.attachments.get(&volume).is_some_and(|(known, _)| *known >= version) {
            return;
        }
        process.attachments.insert(volume.clone(), (version, attachment.clone()));
        self.tell(Event::AttachmentChanged { volume, attachment });
    }

    /// Start: the process reads which volumes are attached.
    pub(crate) fn attachments_told(&mut self) {
        let listed: Vec<(VolumeId, u64)> = self
            .apiserver
            .listed
            .iter()
            .filter(|(_, (_, listed))| *listed)
            .map(|(volume, (version, _))| (volume.clone(), *version))
            .collect();
        for (volume, version) in listed {
            self.attachment_told(volume, version, attachment(true));
        }
        if let Some(process) = &mut self.process {
            process.attachments_complete = true;
        }
        self.tell(Event::AttachmentsComplete);
    }

    /// The set of volumes in use wants to be reported.
    pub(crate) fn report_soon(&mut self) {
        let Some(process) = &mut self.process else {
            return;
        };
        if process.reporting {
            process.report_again = true;
            return;
        }
        process.reporting = true;
        let life = process.life;
        let delay = 1 + self.luck(&[31, self.steps]).spread(1, 3_000);
        self.schedule_in(delay, Happening::ReportSent { life });
    }

    /// The process sends its report.
    pub(crate) fn report_sent(&mut self) {
        let Some(process) = &mut self.process else {
            return;
        };
        process.report_again = false;
        let Some(in_use) = process.engine.volumes_in_use() else {
            process.reporting = false;
            return;
        };
        let life = process.life;
        let mut rng = self.luck(&[32, self.steps]);
        if self.conditions.report_trouble(self.now) == Some(ReportTrouble::NotStored) {
            self.faults.add(Fault::ReportFailed);
            return self.schedule_in(rng.between(1_000, 20_000), Happening::ReportSent { life });
        }
        let (version, mut volumes) = (in_use.version, in_use.volumes);
        // A shell that only knows what pods name; to see that it is noticed.
        if self.sabotage == Some(Sabotage::ReportsPodsOnly) {
            let named = self.process.as_ref().map(|it| it.resolved.values().cloned().collect()).unwrap_or_default();
            let named: BTreeSet<VolumeId> = named;
            volumes.retain(|it| named.contains(it));
        }
        self.schedule_in(1 + rng.spread(1, 500), Happening::ReportStored { life, version, volumes });
    }

    /// The report is stored, also if its sender is no more, unless its successor has written already.
    pub(crate) fn report_stored(&mut self, life: u64, version: u64, volumes: Vec<VolumeId>) {
        if self.apiserver.writer > life {
            return;
        }
        self.apiserver.writer = life;
        self.holdings_changed = true;
        // An API server that only says so; to see that it is noticed.
        if self.sabotage != Some(Sabotage::ForgetsReports) {
            let before = std::mem::take(&mut self.apiserver.in_use);
            self.apiserver.in_use = volumes.into_iter().collect();
            for volume in before.difference(&self.apiserver.in_use).cloned().collect::<Vec<_>>() {
                self.attacher_soon(&volume);
            }
        }
        let in_use = self.apiserver.in_use.len();
        self.note(|| format!("true: {in_use} volumes stand reported in use, version {version}"));
        let mut rng = self.luck(&[33, self.steps]);
        if self.conditions.report_trouble(self.now) == Some(ReportTrouble::AnswerLost) {
            self.faults.add(Fault::ReportUnanswered);
            return self.schedule_in(rng.between(1_000, 20_000), Happening::ReportSent { life });
        }
        let listed = self.apiserver.listed.iter();
        let listed = listed.map(|(volume, (version, listed))| (volume.clone(), *version, *listed)).collect();
        self.schedule_in(1 + rng.spread(1, 500), Happening::ReportAnswered { life, version, listed });
    }

    /// The answer comes, with what was attached when the report was stored.
    pub(crate) fn report_answered(&mut self, version: u64, listed: Vec<(VolumeId, u64, bool)>) {
        for (volume, version, listed) in listed {
            self.attachment_told(volume, version, attachment(listed));
        }
        self.tell(Event::InUseReported { version });
        if let Some(process) = &mut self.process {
            process.reporting = false;
            if std::mem::take(&mut process.report_again) {
                self.report_soon();
            }
        }
    }
}

fn attachment(listed: bool) -> Attachment {
    if listed { Attachment::Attached { device: None } } else { Attachment::Detached }
}
