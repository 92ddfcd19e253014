//! Takes the steps of a [`Flight`] on the real disk and with the real plugins. Their order is not decided here.

use std::sync::{Arc, Mutex, PoisonError};

use windlass_core::flight::{End, Flight, How, Known, Left, Recorded, Step, Survives, Trace, Write};
use windlass_core::ids::PodUid;
use windlass_core::operation::{Action, Cause, Done, Earlier, Obstacle, Outcome};
use windlass_core::spec::{Access, VolumeSpec};
use windlass_linux::whole_file;

use super::{Ended, Executor, Job, check_group, failed_reason, publish_failed, stage_failed};
use crate::catalogue::VolumeType;
use crate::layout::{Home, Slot};
use crate::plugin::{self, Failure, HandedOver, Made, Plugin, Publish, Stage, Unpublish, Want};
use crate::record::{self, Begun, Key, Record, State};

/// The revision of content that was being written. No other content has it, but for a chance of one in 2^64.
const UNKNOWN: u64 = u64::MAX;

/// An operation on its way, with what each step leaves for those that follow.
pub(super) struct Course<'a> {
    executor: &'a Executor,
    job: &'a Job,
    plugin: &'static dyn Plugin,
    key: Key,
    flight: Flight,
    /// The pod's directory.
    home: Option<Arc<Home>>,
    /// The record that was there before.
    before: Option<Record>,
    /// The record that this operation began.
    begun: Option<Begun>,
    /// What the driver calls this node.
    node: String,
    /// What the call brought.
    brought: Brought,
}

/// What a call brought.
enum Brought {
    Nothing,
    Made(Made),
    Attached(HandedOver),
    Grown { size_bytes: u64 },
}

impl<'a> Course<'a> {
    /// The course of an operation, unless it can be told beforehand that it cannot be done.
    pub(super) fn of(executor: &'a Executor, job: &'a Job) -> Result<Self, Failure> {
        let action = &job.operation.action;
        let (plugin, key) = executor.check_job(job).inspect_err(|_| {
            // The pod has its directory whatever becomes of its volumes; that it cannot be made matters less than this.
            if let (Action::Publish { pod, .. }, Some(_)) = (action, &job.want) {
                let _ = executor.make_home(pod, &job.together);
            }
        })?;
        if let Key::Publish(slot) = &key {
            job.together.records.get_or_init(|| executor.records.hold(&slot.pod));
        }
        let known = match action {
            Action::Stage { .. } | Action::Publish { .. } if job.is_unrecorded => Known::Unrecorded,
            Action::Unpublish { .. } if job.held.is_some() => Known::Remembered,
            Action::Attach
            | Action::Stage { .. }
            | Action::Publish { .. }
            | Action::Expand { .. }
            | Action::Unpublish { .. }
            | Action::Unstage
            | Action::Detach => Known::Unread,
        };
        let flight =
            Flight::new(action, VolumeType::of(&job.operation.spec).map_or(Trace::Record, |it| it.trace), known);
        let (home, before, begun, node, brought) = (None, None, None, String::new(), Brought::Nothing);
        Ok(Self { executor, job, plugin, key, flight, home, before, begun, node, brought })
    }

    /// Takes the steps, one after the other, to the end.
    pub(super) async fn fly(mut self) -> Result<Ended, Failure> {
        let mut failure = None;
        loop {
            let took = match self.flight.next() {
                Step::Make => self.make(),
                Step::Read => self.read(),
                Step::Inspect => self.inspect(),
                Step::Intend(write) => self.write(self.intent(None), write),
                Step::Unsettle(write) => self.unsettle(write),
                Step::Retire { with_pod } => self.retire(with_pod),
                Step::Call => self.call().await,
                Step::Look => self.look(),
                Step::Prove(write) => self.write(self.proof(), write),
                Step::Restore(write) => self.restore(write),
                Step::Forget => self.executor.records.remove(&self.key).map_err(|error| Failure::open(&error)),
                Step::End(End::Done) => return Ok(self.done()),
                Step::End(End::Refused) => return Err(self.told(failure, Left::Nothing)),
                Step::End(End::Unknown) => return Err(self.told(failure, Left::Something)),
            };
            self.flight.took(took.map_err(|it| failure.insert(it).left));
        }
    }

    fn spec(&self) -> &'a Arc<VolumeSpec> {
        &self.job.operation.spec
    }

    /// Whoever removes the directory of a pod of this name is done, or will see that the pod is back.
    fn make(&mut self) -> Result<(), Failure> {
        if let Some(pod) = self.job.operation.action.pod() {
            self.home = Some(self.executor.make_home(pod, &self.job.together)?);
        }
        Ok(())
    }

    /// A record that makes no sense counts as none; one that cannot be read may still claim something.
    fn read(&mut self) -> Result<(), Failure> {
        self.before = match self.executor.records.read(&self.key) {
            Err(record::Error::Damaged { .. }) => None,
            other => other.map_err(|error| Failure::open(&error))?,
        };
        self.flight.read(match self.before.as_ref().map(|it| &it.state) {
            None => Recorded::Nothing,
            Some(State::Proven { boot, .. }) if *boot == self.executor.boot => Recorded::Proven,
            Some(State::Proven { .. }) => Recorded::Stale,
            Some(State::Intent { .. } | State::Leaving { .. } | State::Attachment { .. }) => Recorded::Unproven,
        });
        Ok(())
    }

    fn inspect(&mut self) -> Result<(), Failure> {
        let executor = self.executor;
        match &self.job.operation.action {
            Action::Stage { .. } | Action::Publish { .. } => executor.check_place(self.spec(), self.known()),
            Action::Unpublish { .. } if executor.holds_while_in_use => {
                executor.check_unused(self.slot()?, self.known())
            }
            Action::Attach | Action::Detach => {
                self.node = match self.before.as_ref().map(|it| &it.state) {
                    // It may be attached under this name, so it is not attached under another one.
                    Some(State::Attachment { node, .. }) => node.clone(),
                    Some(State::Intent { .. } | State::Leaving { .. } | State::Proven { .. }) | None => {
                        self.plugin.node_id(&executor.scene, self.spec())?
                    }
                };
                Ok(())
            }
            Action::Expand { .. } | Action::Unpublish { .. } | Action::Unstage => Ok(()),
        }
    }

    /// What was made in this boot. What this life has made it knows as well as the record does.
    fn known(&self) -> Option<&Made> {
        self.before.as_ref().map_or(self.job.held.as_ref(), |it| it.made_in(&self.executor.boot))
    }

    fn slot(&self) -> Result<&Slot, Failure> {
        match &self.key {
            Key::Publish(slot) => Ok(slot),
            Key::Stage(id) | Key::Attach(id) => {
                Err(Failure::refused(Cause::Other, format!("{id} has no place in a pod")))
            }
        }
    }

    /// That it is going to be made: this, if that is known already.
    fn intent(&self, made: Option<Made>) -> State {
        match (&self.job.operation.action, made, &self.before) {
            (Action::Attach | Action::Detach, ..) => State::Attachment { node: self.node.clone(), context: None },
            (_, Some(made), _) => State::Intent { made: Some((self.executor.boot.clone(), made)) },
            (_, None, Some(before)) => before.intent(&self.executor.boot),
            (_, None, None) => State::Intent { made: None },
        }
    }

    /// What was made, with the content that it has.
    fn proof(&self) -> State {
        let (revision, epoch) = match &self.job.operation.action {
            Action::Publish { revision, .. } => (*revision, self.job.epoch),
            Action::Attach
            | Action::Stage { .. }
            | Action::Expand { .. }
            | Action::Unpublish { .. }
            | Action::Unstage
            | Action::Detach => (0, 0),
        };
        match &self.brought {
            Brought::Made(made) => {
                State::Proven { boot: self.executor.boot.clone(), made: made.clone(), revision, epoch }
            }
            Brought::Attached(context) => State::Attachment { node: self.node.clone(), context: Some(context.clone()) },
            Brought::Nothing | Brought::Grown { .. } => self.intent(None),
        }
    }

    fn record(&self, state: State) -> Record {
        let (label, want) = match &self.job.operation.action {
            Action::Publish { label, .. } => (label.clone(), self.job.want.as_ref()),
            Action::Stage { label, .. } => (label.clone(), None),
            Action::Attach | Action::Expand { .. } | Action::Unpublish { .. } | Action::Unstage | Action::Detach => {
                (None, None)
            }
        };
        let title = want.map(|it| [it.namespace(), "/", it.name()].concat());
        let other = self.before.as_ref().map(|it| it.other.clone()).unwrap_or_default();
        Record { spec: self.spec().clone(), state, label, title, other }
    }

    fn write(&mut self, state: State, write: Write) -> Result<(), Failure> {
        let record = self.record(state);
        put(self.executor, &self.key, &mut self.begun, &record, write)
    }

    /// What the pod has stays proven, but from now on its content may be the new one or the old.
    fn unsettle(&mut self, write: Write) -> Result<(), Failure> {
        let Some((record, made)) = self.before.as_ref().zip(self.known()) else { return Ok(()) };
        let (boot, made, epoch) = (self.executor.boot.clone(), made.clone(), self.job.epoch);
        let unsettled = Record { state: State::Proven { boot, made, revision: UNKNOWN, epoch }, ..record.clone() };
        put(self.executor, &self.key, &mut self.begun, &unsettled, write)
    }

    /// What the call did not change is as it was recorded before.
    fn restore(&mut self, write: Write) -> Result<(), Failure> {
        let Some(record) = &self.before else { return Ok(()) };
        put(self.executor, &self.key, &mut self.begun, record, write)
    }

    fn retire(&mut self, with_pod: bool) -> Result<(), Failure> {
        if self.job.operation.action == Action::Detach {
            // A mark would not outlast a power cut, as what is attached does.
            return self.write(self.intent(None), Write { how: How::Anew, survives: Survives::PowerLoss });
        }
        self.executor.records.retire(&self.key, with_pod).map_err(|error| Failure::open(&error))
    }

    async fn call(&mut self) -> Result<(), Failure> {
        let Self { job, plugin, .. } = *self;
        let (scene, spec) = (&self.executor.scene, self.spec());
        self.brought = match &job.operation.action {
            Action::Attach => {
                let task = plugin::Attach { spec, want: wanted(job)?, node_id: &self.node };
                Brought::Attached(plugin.attach(scene, &task).await?)
            }
            Action::Stage { after, label } => {
                let want = wanted(job)?;
                let task = Stage { spec, want, access: want.access(), after: *after, label: label.as_deref() };
                Brought::Made(plugin.stage(scene, &task).await?)
            }
            Action::Publish { pod, after, access, label, .. } => {
                Brought::Made(self.publish(pod, *after, *access, label.as_deref()).await?)
            }
            Action::Expand { to_bytes, .. } => match plugin.expand(scene, spec, wanted(job)?, *to_bytes).await? {
                Some(size_bytes) => Brought::Grown { size_bytes },
                None => {
                    return Err(Failure::refused(Cause::NotSupported, "there is nothing to grow on this node"));
                }
            },
            Action::Unpublish { .. } => {
                let (slot, recorded) = (self.slot()?, self.before.is_some() || job.held.is_some());
                let task = Unpublish { spec, slot, home: &self.home(slot), made: self.known(), recorded };
                plugin.unpublish(scene, &task).await?;
                Brought::Nothing
            }
            Action::Unstage => {
                plugin.unstage(scene, spec).await?;
                Brought::Nothing
            }
            Action::Detach => {
                scene.attachments.set(&spec.id, None);
                plugin.detach(scene, spec, &self.node).await?;
                Brought::Nothing
            }
        };
        Ok(())
    }

    async fn publish(
        &mut self,
        uid: &PodUid,
        after: Earlier,
        access: Access,
        label: Option<&str>,
    ) -> Result<Made, Failure> {
        let log = Mutex::new((self.flight, self.begun.take()));
        let course = &*self;
        let (spec, slot, want, made) = (course.spec(), course.slot()?, wanted(course.job)?, course.known());
        let home = course.home(slot);
        let intend = |made: &Made| {
            let lost_at = course.executor.lost_at(spec, course.before.as_ref(), made);
            let intent = course.record(course.intent(Some(Made { lost_at, ..made.clone() })));
            let mut log = log.lock().unwrap_or_else(PoisonError::into_inner);
            let (flight, begun) = &mut *log;
            put(course.executor, &course.key, begun, &intent, flight.announces())
        };
        let task = Publish { spec, slot, home: &home, uid, want, access, after, label, made, intend: &intend };
        let made = course.plugin.publish(&course.executor.scene, &task).await;
        (self.flight, self.begun) = log.into_inner().unwrap_or_else(PoisonError::into_inner);
        made
    }

    /// The pod's directory.
    fn home(&self, slot: &Slot) -> Arc<Home> {
        let shared = || self.job.together.home.get_or_init(|| Arc::new(self.executor.scene.layout.home(&slot.pod)));
        self.home.clone().unwrap_or_else(|| shared().clone())
    }

    /// Is what was made the thing that is there (I-4)? A plugin's word is not enough.
    fn look(&mut self) -> Result<(), Failure> {
        let Brought::Made(made) = &mut self.brought else { return Ok(()) };
        self.executor.check(made)?;
        let operation = &self.job.operation;
        if let (Action::Publish { pod, .. }, Some(want)) = (&operation.action, &self.job.want) {
            made.lost_at = self.executor.lost_at(&operation.spec, self.before.as_ref(), made);
            self.executor.tell_if_lost(pod, want, self.before.as_ref(), made);
        }
        Ok(())
    }

    fn done(self) -> Ended {
        let done = |done| Ended { outcome: Outcome::Done(done), made: None, obstacles: Vec::new() };
        match self.brought {
            Brought::Nothing => done(Done::Gone),
            Brought::Made(made) => {
                Ended { outcome: Outcome::Done(Done::Mounted(made.proof)), made: Some(made), obstacles: Vec::new() }
            }
            Brought::Grown { size_bytes } => done(Done::Expanded { size_bytes }),
            Brought::Attached(context) => {
                let (scene, spec) = (&self.executor.scene, &self.job.operation.spec);
                scene.attachments.set(&spec.id, Some(context));
                if let Some(want) = &self.job.want {
                    let text = format!("AttachVolume.Attach succeeded for volume \"{}\" ", spec.inner_name);
                    scene.tell.normal(&want.uid(), "SuccessfulAttachVolume", text);
                }
                done(Done::Attached { device: None })
            }
        }
    }

    /// How it failed, told to the pod's owner.
    fn told(&self, failure: Option<Failure>, left: Left) -> Failure {
        let failure = failure.unwrap_or_else(|| nobody(self.spec()));
        self.executor.tell_failure(self.job, Failure { left, ..failure })
    }
}

/// Writes a record, and keeps open what was begun, so that it can be added to.
fn put(
    executor: &Executor,
    key: &Key,
    begun: &mut Option<Begun>,
    record: &Record,
    Write { how, survives }: Write,
) -> Result<(), Failure> {
    let failed = |error| Failure::open(&error);
    let survives = match survives {
        Survives::Crash => whole_file::Survives::Crash,
        Survives::CrashWhole => whole_file::Survives::CrashWhole,
        Survives::PowerLoss => whole_file::Survives::PowerLoss,
    };
    match (how, &begun) {
        (How::Added, Some(begun)) => return begun.add(record).map_err(failed),
        (How::First, _) => *begun = executor.records.begin(key, record, survives).map_err(failed)?,
        (How::Added, None) | (How::Anew, _) => {}
    }
    match (how, &begun) {
        (How::First, Some(_)) => Ok(()),
        // Something was in its place.
        (How::First, None) | (How::Added | How::Anew, _) => {
            executor.records.write(key, record, survives).map_err(failed)
        }
    }
}

fn wanted(job: &Job) -> Result<&Want, Failure> {
    job.want.as_ref().ok_or_else(|| nobody(&job.operation.spec))
}

fn nobody(spec: &VolumeSpec) -> Failure {
    Failure::refused(Cause::Other, format!("no pod wants {} any more", spec.id))
}

impl Executor {
    /// Sees that an operation can be done at all, and says by which plugin and where it is recorded. It touches nothing.
    fn check_job(&self, job: &Job) -> Result<(&'static dyn Plugin, Key), Failure> {
        let Job { operation, .. } = job;
        let spec = &operation.spec;
        let key = match &operation.action {
            Action::Publish { pod, access, .. } => {
                let want = wanted(job)?;
                self.check_refusal(pod, want)?;
                check_group(want, *access).map_err(|it| self.tell_failure(job, it))?;
                let slot = Slot::of(pod, spec);
                let slot = slot.map_err(|error| self.tell_failure(job, Failure::open(&error).nothing_left()))?;
                Key::Publish(slot)
            }
            Action::Stage { .. } => {
                let want = wanted(job)?;
                self.check_refusal(&want.uid(), want)?;
                Key::Stage(spec.id.clone())
            }
            Action::Unpublish { pod, .. } => Key::Publish(Slot::of(pod, spec).map_err(|error| Failure::open(&error))?),
            Action::Unstage => Key::Stage(spec.id.clone()),
            // Nothing is recorded of what has grown.
            Action::Attach | Action::Expand { .. } => {
                wanted(job)?;
                Key::Attach(spec.id.clone())
            }
            Action::Detach => Key::Attach(spec.id.clone()),
        };
        let plugin = VolumeType::of(spec).map(|it| it.plugin);
        let plugin = plugin.ok_or_else(|| {
            let text = format!("no volume plugin matched name: {}", spec.plugin);
            Failure::refused(Cause::Node(Obstacle::AbilityMissing), text)
        })?;
        Ok((plugin, key))
    }

    /// Says it as the kubelet does (P-48), to the pod's owner and in the reason.
    fn tell_failure(&self, job: &Job, failure: Failure) -> Failure {
        let (action, spec) = (&job.operation.action, &job.operation.spec);
        let reason = failed_reason(spec.mode);
        match (action, &job.want) {
            (Action::Publish { pod, .. }, _) => self.tell_as(reason, pod, spec, publish_failed(spec.mode), failure),
            (Action::Stage { .. }, Some(want)) => {
                self.tell_as(reason, &want.uid(), spec, stage_failed(spec.mode), failure)
            }
            (Action::Attach, Some(want)) => {
                self.tell_as("FailedAttachVolume", &want.uid(), spec, "AttachVolume.Attach failed", failure)
            }
            (Action::Attach | Action::Stage { .. }, None)
            | (Action::Expand { .. } | Action::Unpublish { .. } | Action::Unstage | Action::Detach, _) => failure,
        }
    }
}
