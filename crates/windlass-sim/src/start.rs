//! How a process begins and ends: what a shell reads from the disk at start and tells the engine, kills, reboots, power
//! losses, and drivers that come and go.

use crate::checks::records;
use crate::disk::Published;
use crate::faults::Fault;
use crate::life::Sabotage;
use crate::process::Process;
use crate::script::Start;
use crate::setting::Setting;
use crate::world::{Happening, PlannedKill, World};
use windlass_core::event::{Found, MountPlace, Record};
use windlass_core::ids::{PodUid, VolumeId};
use windlass_core::operation::Proof;
use windlass_core::{Config, Engine, Event};

/// How long a planned kill waits for an operation before it comes anyway.
const KILL_PATIENCE: u64 = 10 * 60 * 1000;

/// From how many milliseconds on reading the disk or the attachments counts as slow.
const LONG: u64 = 1_000;

impl World {
    /// A process starts.
    pub(crate) fn process_starts(&mut self, start: Start) {
        if self.process.is_some() {
            return;
        }
        self.life += 1;
        let (life, sources) = (self.life, self.setting.sources.len());
        self.note(|| format!("the process starts, life {life}"));
        let config = Config {
            sources: self.setting.sources.iter().map(|it| it.name.clone()).collect(),
            boot: Setting::boot(self.boot),
            attacher: self.setting.attacher,
            keep_terminated: self.setting.keep_terminated,
            planning: self.planning,
            seed: self.setting.seed,
        };
        let mut process = Process::new(Engine::new(config), life, sources);
        process.attachments_complete = !self.setting.attacher;
        self.process = Some(process);
        let mut rng = self.luck(&[50, life]);
        for driver in 0..self.drivers.len() {
            self.schedule_in(rng.below(200), Happening::DriverTold { life, driver });
        }
        self.schedule_in(start.scan, Happening::ScanRuns(life));
        for source in 0..sources {
            self.connect(source, start.list + rng.below(100));
        }
        if self.setting.attacher {
            if start.attachments >= LONG {
                self.faults.add(Fault::AttachmentsLate);
            }
            self.schedule_in(start.attachments, Happening::AttachmentsTold { life });
        }
    }

    /// The process reads the disk and the mount table and tells what it finds. It leaves the judgement to the engine.
    pub(crate) fn scan_runs(&mut self) {
        let mut events: Vec<Event> = self.disk.pods().cloned().map(|uid| Event::FoundPod { uid, name: None }).collect();
        for record in self.disk.attached() {
            events.push(Event::FoundAttached { spec: record.spec.clone(), device: record.device.clone() });
        }
        for record in self.disk.staged() {
            // A shell that looks below pods alone; only to see that it is noticed.
            let is_in_a_pod = || self.disk.published().any(|it| *it.volume == record.spec.id);
            if self.sabotage == Some(Sabotage::ForgetsStaged) && !is_in_a_pod() {
                continue;
            }
            let place = MountPlace::Stage(record.spec.id.clone());
            events.push(Event::FoundStaged(Found {
                spec: record.spec.clone(),
                record: record.record.clone(),
                seen: self.scanned(&place),
                label: record.label.clone(),
            }));
        }
        for Published { pod, volume, plugin, inner_name, mode, record } in self.disk.published() {
            let place = MountPlace::Publish(volume.clone(), pod.clone());
            events.push(match record {
                Some(record) => Event::FoundPublished {
                    pod: pod.clone(),
                    found: Found {
                        spec: record.spec.clone(),
                        record: record.record.clone(),
                        seen: self.scanned(&place),
                        label: record.label.clone(),
                    },
                },
                None => Event::FoundUnreadable {
                    pod: pod.clone(),
                    plugin: plugin.clone(),
                    inner_name: inner_name.clone(),
                    mode,
                },
            });
        }
        self.remember_what_is_proven();
        if let Some(process) = &mut self.process {
            process.found = true;
            if process.slow_scan {
                self.faults.add(Fault::SlowScan);
            }
            let life = process.life;
            for event in events {
                self.tell(event);
            }
            let delay = self.luck(&[51, life]).below(20);
            self.schedule_in(delay, Happening::ScanEnds(life));
        }
    }

    /// What a scan sees at a place.
    fn scanned(&self, place: &MountPlace) -> Option<Proof> {
        // A shell that does not look; only to see that it is noticed.
        if self.sabotage == Some(Sabotage::ScansBlindly) {
            return None;
        }
        self.kernel.seen(place)
    }

    /// The mounts that are as their records say: a new life has no reason to touch them (I-11).
    fn remember_what_is_proven(&mut self) {
        let boot = Setting::boot(self.boot);
        let staged = self.disk.staged().map(|it| (MountPlace::Stage(it.spec.id.clone()), it));
        let published = self
            .disk
            .published()
            .filter_map(|it| Some((MountPlace::Publish(it.volume.clone(), it.pod.clone()), it.record?)));
        // What an earlier life told its engine is done is as good as recorded, and nothing has touched it since.
        let mut proven: Vec<_> = self.made.iter().map(|(place, made)| (place.clone(), *made)).collect();
        proven.retain(|(place, (proof, _))| self.kernel.seen(place).is_some_and(|it| proof.holds_for(&it)));
        for (place, record) in staged.chain(published) {
            if let Record::Proven { boot: in_boot, proof, revision } = &record.record
                && *in_boot == boot
                && self.kernel.seen(&place).is_some_and(|it| proof.holds_for(&it))
            {
                proven.push((place, (*proof, *revision)));
            }
        }
        if let Some(process) = &mut self.process
            && !process.slow_scan
        {
            process.proven.extend(proven);
        }
    }

    /// The process has told all that is on disk.
    pub(crate) fn scan_ends(&mut self) {
        if let Some(process) = &mut self.process {
            process.disk_read = true;
        }
        self.tell(Event::DiskRead);
    }

    /// A kill is planned for one of the next steps.
    pub(crate) fn plan_kill(&mut self, steps: u32, start: Start) {
        if self.process.is_none() {
            return;
        }
        self.kill = Some(PlannedKill { steps, start });
        if steps == 0 {
            self.kill_now();
        } else {
            self.schedule_in(KILL_PATIENCE, Happening::KillAnyway);
        }
    }

    /// Whether the process dies before the step that would come now; counts the step if not.
    pub(crate) fn kill_is_due(&mut self) -> bool {
        match &mut self.kill {
            None => false,
            Some(kill) => {
                kill.steps = kill.steps.saturating_sub(1);
                kill.steps == 0
            }
        }
    }

    /// No operation came for the kill to fall into.
    pub(crate) fn kill_anyway(&mut self) {
        if self.kill.is_some() {
            self.kill_now();
        }
    }

    /// The process is killed, as planned.
    pub(crate) fn kill_now(&mut self) {
        if let Some(kill) = self.kill.take()
            && self.process.is_some()
        {
            self.kill_and_start(kill.start);
        }
    }

    /// The process is killed, and starts again.
    pub(crate) fn kill_and_start(&mut self, start: Start) {
        self.note(|| "the process is killed".into());
        self.process_dies();
        self.start_again(start);
    }

    /// Everything in the process is gone; what it asked of drivers is not.
    fn process_dies(&mut self) {
        let Some(process) = self.process.take() else {
            return;
        };
        if process.flights.is_empty() {
            self.faults.add(Fault::KillIdle);
        }
        for flight in process.flights.values() {
            self.faults.add(flight.kill());
        }
        self.drop_local_calls();
        // What is reported must cover what is here while nobody can report anything (I-3).
        self.holdings_changed = true;
    }

    fn start_again(&mut self, start: Start) {
        if start.corrupt {
            self.damage_a_record();
        }
        self.schedule_in(start.down, Happening::ProcessStarts(start));
    }

    fn damage_a_record(&mut self) {
        let pick = self.luck(&[52, self.life]).number();
        // With the record of a mount that a driver is still making, nobody could ever find out whom to ask to undo it.
        let calls = &self.calls;
        let may = |pod: &PodUid, volume: &VolumeId| {
            let place = MountPlace::Publish(volume.clone(), pod.clone());
            !calls.values().any(|it| it.place.as_ref() == Some(&place))
        };
        if let Some((pod, volume)) = self.disk.corrupt(pick, may) {
            self.faults.add(Fault::CorruptRecord);
            self.note(|| format!("the record of {volume} in pod {pod} is damaged"));
            self.made.remove(&MountPlace::Publish(volume.clone(), pod));
            // One that is staged is known by the name that its directory has in common with the record of the stage.
            if !self.disk.staged().any(|it| it.spec.id == volume) {
                self.unrecognisable.insert(volume);
            }
        }
    }

    /// The machine starts anew, after an orderly shutdown.
    pub(crate) fn reboot(&mut self, start: Start) {
        self.note(|| "the machine is shut down and started".into());
        self.faults.add(Fault::Reboot);
        self.process_dies();
        self.disk.sync();
        self.machine_starts(start);
    }

    /// The machine loses its power and starts anew.
    pub(crate) fn lose_power(&mut self, start: Start) {
        self.note(|| "the machine loses its power".into());
        self.faults.add(Fault::PowerLoss);
        self.process_dies();
        let mut rng = self.luck(&[53, self.boot]);
        let told = records::told_durably(self);
        self.disk.lose_power(&mut rng, &mut self.faults);
        let result = records::check_power_loss(self, &told);
        self.verdict(records::NAME, result);
        // Directories may be gone, and what was written into those that are not was not synced either.
        let directories: Vec<MountPlace> = self.kernel.directories().cloned().collect();
        for place in directories {
            if !self.disk.has_directory(&place) {
                self.kernel.unmount_all(&place);
            }
            if rng.chance(500) {
                self.contents.remove(&place);
            }
        }
        self.machine_starts(start);
    }

    fn machine_starts(&mut self, start: Start) {
        self.boot += 1;
        self.kill = None;
        self.made.clear();
        self.kernel.reboot();
        self.calls.clear();
        for driver in 0..self.drivers.len() {
            self.drivers[driver].sessions.clear();
            self.drivers[driver].up = false;
            let delay = self.luck(&[54, self.boot, driver as u64]).spread(10, 300_000);
            self.schedule_in(delay, Happening::DriverUp { driver });
        }
        self.start_again(start);
    }

    /// A driver can be called again.
    pub(crate) fn driver_up(&mut self, driver: usize) {
        if !std::mem::replace(&mut self.drivers[driver].up, true) {
            let name = self.setting.drivers[driver].clone();
            self.note(|| format!("true: driver {name} is there"));
        }
        self.driver_changed(driver);
    }

    /// The process will hear how a driver stands.
    pub(crate) fn driver_changed(&mut self, driver: usize) {
        if let Some(process) = &self.process {
            let life = process.life;
            let delay = 1 + self.luck(&[55, self.steps]).below(200);
            self.schedule_in(delay, Happening::DriverTold { life, driver });
        }
    }

    /// The process hears how a driver stands.
    pub(crate) fn driver_told(&mut self, driver: usize) {
        let up = self.drivers[driver].up;
        let Some(process) = &mut self.process else {
            return;
        };
        let name = self.setting.drivers[driver].clone();
        if up {
            process.drivers.insert(driver);
            self.tell(Event::DriverRegistered(name));
        } else if process.drivers.remove(&driver) {
            self.tell(Event::DriverUnregistered(name));
        }
    }
}
