//! One history: an engine, what it was told, and the checks.

use crate::model::{Given, Places, ToldPod, Turn, catalogue, may_overlap, place, wish};
use crate::moves::{Move, PODS};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;
use windlass_core::event::{Attachment, Containers, Found, Goal, MountPlace, Record, Wait};
use windlass_core::ids::{OperationId, PodUid, Time, Version, VolumeId, WaiterId};
use windlass_core::notice::Notice;
use windlass_core::operation::{Action, Cause, Done, Earlier, Obstacle, OperationKind, Outcome, Proof, Trouble};
use windlass_core::reason::{Code, Reason, WaitsOn};
use windlass_core::snapshot::{MountView, Snapshot, StepView};
use windlass_core::spec::{Access, Attach, Identity, Life, Phase, Pod, PodVolume, Use, VolumeSpec, Want};
use windlass_core::{Config, Engine, Event, Operation, Planning};

pub(crate) struct History {
    pub(crate) engine: Engine,
    now: Time,
    specs: Vec<Arc<VolumeSpec>>,
    pods: BTreeMap<usize, ToldPod>,
    running: BTreeMap<OperationId, Given>,
    places: Places,
    /// What the attacher last said.
    attachments: BTreeMap<VolumeId, bool>,
    source_complete: bool,
    source_life: u64,
    disk_read: bool,
    attachments_complete: bool,
    gate: bool,
    driver: bool,
    mounts: u64,
    waiters: BTreeSet<WaiterId>,
    next_waiter: u64,
    /// What the engine asked for and told during the present move.
    log: Vec<String>,
}

fn config(planning: Planning) -> Config {
    Config {
        sources: vec!["source".into()],
        boot: "boot".into(),
        attacher: true,
        keep_terminated: false,
        planning,
        seed: 0,
    }
}

fn uid(pod: usize) -> PodUid {
    PodUid::from(format!("pod-{pod}").as_str())
}

impl History {
    pub(crate) fn new() -> Self {
        Self::with(Planning::Touched)
    }

    pub(crate) fn planning_everything() -> Self {
        Self::with(Planning::Everything)
    }

    fn with(planning: Planning) -> Self {
        Self {
            engine: Engine::new(config(planning)),
            now: Time(0),
            specs: catalogue().into_iter().map(Arc::new).collect(),
            pods: BTreeMap::new(),
            running: BTreeMap::new(),
            places: Places::default(),
            attachments: BTreeMap::new(),
            source_complete: false,
            source_life: 0,
            disk_read: false,
            attachments_complete: false,
            gate: false,
            driver: false,
            mounts: 0,
            waiters: BTreeSet::new(),
            next_waiter: 0,
            log: Vec::new(),
        }
    }

    /// Plays one move and returns what the engine asked for and told.
    pub(crate) fn play(&mut self, it: &Move) -> Vec<String> {
        self.log.clear();
        for event in self.events(it) {
            self.tell(event);
        }
        std::mem::take(&mut self.log)
    }

    fn tell(&mut self, event: Event) {
        self.engine.handle(self.now, event);
        self.gate |= self.source_complete && self.disk_read && self.attachments_complete;
        while let Some(operation) = self.engine.next_operation() {
            self.log.push(format!("{operation:?}"));
            self.begun(operation);
        }
        while let Some(notice) = self.engine.next_notice() {
            self.log.push(format!("{notice:?}"));
            if let Notice::WaitEnded { waiter, .. } = notice {
                assert!(self.waiters.remove(&waiter), "a wait ends once");
            }
        }
    }

    fn events(&mut self, it: &Move) -> Vec<Event> {
        match *it {
            Move::Apply { pod, volumes, phase, revision, unknown } => {
                vec![self.apply(pod, volumes, phase, revision, unknown)]
            }
            Move::Gone { pod, may_run } => {
                let containers = if may_run { Containers::MayRun } else { Containers::Stopped };
                if may_run {
                    let absent = || ToldPod {
                        phase: Phase::Stopping,
                        volumes: BTreeSet::new(),
                        unknown: false,
                        confirmed: 0,
                        leaving: true,
                    };
                    self.pods.entry(pod).or_insert_with(absent).leaving = true;
                } else {
                    self.pods.remove(&pod);
                }
                vec![Event::PodGone { uid: uid(pod), version: Version::NONE, containers }]
            }
            Move::OddPod { pod, kind } => vec![Event::PodApplied(Pod {
                uid: if kind == 0 { "".into() } else { uid(pod) },
                name: "odd".into(),
                source: if kind == 1 { "nowhere".into() } else { "source".into() },
                version: Version(1),
                phase: Phase::Finished,
                groups: vec![],
                volumes: vec![],
            })]
            .into_iter()
            // An odd pod is odd only if there is a right one that it must not disturb.
            .filter(|_| kind == 0 || self.pods.get(&pod).is_some_and(|it| !it.leaving))
            .collect(),
            Move::SourceComplete => {
                self.source_complete = true;
                let life = self.source_life;
                self.pods.retain(|_, it| it.confirmed >= life || it.leaving);
                let version = Version::NONE;
                vec![Event::SourceComplete {
                    source: "source".into(),
                    version,
                    containers: Containers::Stopped,
                    orphan_delay: Duration::ZERO,
                    doubt: None,
                }]
            }
            Move::SourceLost => {
                self.source_complete = false;
                self.source_life += 1;
                vec![Event::SourceLost { source: "source".into(), text: "lost".into() }]
            }
            Move::DiskRead => {
                self.disk_read = true;
                vec![Event::DiskRead]
            }
            Move::AttachmentsComplete => {
                self.attachments_complete = true;
                vec![Event::AttachmentsComplete]
            }
            Move::Driver { up } => {
                self.driver = up;
                let driver = "driver".into();
                vec![if up { Event::DriverRegistered(driver) } else { Event::DriverUnregistered(driver) }]
            }
            Move::Object => vec![Event::ObjectChanged("Secret a/b".into())],
            Move::Attachment { volume, kind } => {
                let volume = self.specs[volume].id.clone();
                self.attachments.insert(volume.clone(), kind == 0);
                let attachment = match kind {
                    0 => Attachment::Attached { device: None },
                    1 => Attachment::Detached,
                    _ => Attachment::Failed { text: "failed".into(), exhausted: true },
                };
                vec![Event::AttachmentChanged { volume, attachment }]
            }
            Move::Report => {
                let in_use = self.engine.volumes_in_use();
                in_use.map(|it| Event::InUseReported { version: it.version }).into_iter().collect()
            }
            Move::Mount { volume, pod, replaced } => {
                let volume = self.specs[volume].id.clone();
                let place = match pod {
                    Some(pod) => MountPlace::Publish(volume, uid(pod)),
                    None => MountPlace::Stage(volume),
                };
                if self.running.values().any(|it| crate::model::place(&it.operation).as_ref() == Some(&place)) {
                    // Duty of whoever tells: such news waits for the end of the operation.
                    return vec![];
                }
                let proof = replaced.then(|| self.new_proof());
                vec![Event::MountSeen { place, proof }]
            }
            Move::Found { volume, pod, kind, proven } => self.found(volume, pod, kind, proven),
            Move::End { which, how } => self.end(which, how),
            Move::Turn { which, kind } => {
                let count = self.running.len().max(1);
                let running = self.running.keys().nth(which % count).copied();
                // Of nothing that runs too.
                let id = running.unwrap_or(OperationId(1 << 40));
                if let Some(given) = running.and_then(|it| self.running.get_mut(&it)) {
                    let until = self.now + given.operation.spec.capabilities.patience;
                    given.turn = match (kind, given.turn) {
                        (0, _) => Turn::Queued,
                        (1, _) => Turn::Blocked,
                        (_, Turn::Queued | Turn::Blocked) => Turn::Runs { until },
                        (_, running) => running,
                    };
                }
                vec![match kind {
                    0 => Event::OperationQueued { id, ahead: 3 },
                    1 => Event::OperationBlocked { id, by: "a process of before".into() },
                    _ => Event::OperationStarted { id },
                }]
            }
            Move::Retry { volume, pod } => {
                vec![Event::RetryWanted { volume: self.specs[volume].id.clone(), pod: pod.map(uid) }]
            }
            Move::EndOfNothing => {
                vec![Event::OperationEnded { id: OperationId(1 << 40), outcome: Outcome::Done(Done::Gone) }]
            }
            Move::Wait { pod, goal, seconds } => {
                self.next_waiter += 1;
                let waiter = WaiterId(self.next_waiter);
                self.waiters.insert(waiter);
                let goal = [Goal::Mounted, Goal::MountedAtLast, Goal::Unmounted, Goal::Gone][usize::from(goal)];
                let until = self.now + Duration::from_secs(seconds);
                vec![Event::WaitStarted(Wait { waiter, pod: uid(pod), goal, until })]
            }
            Move::Resize { volume, size } => {
                let mut spec = (*self.specs[volume]).clone();
                if spec.capabilities.expand {
                    spec.size.wanted_bytes = Some(size);
                    self.specs[volume] = Arc::new(spec);
                }
                vec![]
            }
            Move::Advance { seconds } => {
                self.now = self.now + Duration::from_secs(seconds);
                vec![Event::TimePassed]
            }
        }
    }

    fn apply(&mut self, pod: usize, volumes: u16, phase: u8, revision: u64, unknown: bool) -> Event {
        let phase = [Phase::Running, Phase::Stopping, Phase::Finished][usize::from(phase)];
        let named = self.specs.iter().enumerate().filter(|(index, _)| volumes & (1 << index) != 0);
        let mut wants: Vec<PodVolume> = named
            .map(|(_, spec)| {
                let mut spec = spec.clone();
                if spec.capabilities.identity == Identity::PerPod {
                    let own = VolumeSpec { id: format!("{}-{}", spec.id, pod).as_str().into(), ..(*spec).clone() };
                    spec = Arc::new(own);
                }
                let access = if pod == 3 { Access::ReadOnly } else { Access::ReadWrite };
                let label = wish(&spec.id, pod);
                let name = spec.id.as_str().into();
                PodVolume { name, want: Want::Volume(Use { spec, access, revision, label }) }
            })
            .collect();
        let ids = wants.iter().filter_map(|it| match &it.want {
            Want::Volume(it) => Some(it.spec.id.clone()),
            Want::Unknown { .. } | Want::Pending(_) | Want::Invalid { .. } => None,
        });
        let volumes = ids.collect();
        if unknown {
            wants.push(PodVolume {
                name: "unknown".into(),
                want: Want::Unknown { text: "PVC is not bound".into(), waits_on: None },
            });
        }
        let confirmed = self.source_life;
        self.pods.insert(pod, ToldPod { phase, volumes, unknown, confirmed, leaving: false });
        Event::PodApplied(Pod {
            uid: uid(pod),
            // As if one had been made anew before the other was gone.
            name: format!("default/pod-{}", pod / 2).as_str().into(),
            source: "source".into(),
            version: Version(5),
            phase,
            groups: vec![],
            volumes: wants,
        })
    }

    fn found(&mut self, volume: usize, pod: usize, kind: u8, proven: bool) -> Vec<Event> {
        let spec = self.specs[volume].clone();
        if self.disk_read || spec.capabilities.identity == Identity::PerPod {
            return vec![];
        }
        let proof = self.new_proof();
        let record = if proven { Record::Proven { boot: "boot".into(), proof, revision: 0 } } else { Record::Intent };
        let found = Found { spec: spec.clone(), record, seen: Some(proof), label: None };
        let kept = proven.then_some((proof, 0));
        let mut note = |place: MountPlace| {
            let fresh = self.places.maybe.insert(place.clone());
            for given in
                self.running.values_mut().filter(|it| crate::model::place(&it.operation).as_ref() == Some(&place))
            {
                given.before = true;
            }
            if fresh {
                self.places.records.insert(place, kept);
            }
        };
        match kind {
            0 => {
                note(MountPlace::Publish(spec.id.clone(), uid(pod)));
                vec![Event::FoundPublished { pod: uid(pod), found }]
            }
            1 if spec.capabilities.stage => {
                note(MountPlace::Stage(spec.id.clone()));
                vec![Event::FoundStaged(found)]
            }
            2 if spec.capabilities.attach == Attach::ByNode => {
                self.places.attached.entry(spec.id.clone()).or_insert(proven);
                for given in self.running.values_mut().filter(|it| *it.operation.volume() == spec.id) {
                    given.before |= given.operation.action == Action::Attach;
                }
                vec![Event::FoundAttached { spec, device: proven.then(|| "/dev/x".into()) }]
            }
            4 => vec![Event::FoundPod { uid: uid(pod), name: None }],
            _ => vec![],
        }
    }

    fn new_proof(&mut self) -> Proof {
        self.mounts += 1;
        Proof { mount_id: self.mounts, device: self.mounts, root: 0, kind: 0 }
    }

    /// An operation was given out: it must be allowed to begin, and something may be at its place from now on.
    fn begun(&mut self, operation: Operation) {
        assert!(may_overlap(&operation, &self.running), "I-2: {operation:?} while {:?}", self.running);
        self.check_taking(&operation);
        let place = place(&operation);
        let before = match (&place, &operation.action) {
            (Some(place), _) => self.places.maybe.contains(place),
            (None, _) => self.places.attached.contains_key(operation.volume()),
        };
        match &operation.action {
            Action::Attach => {
                self.places.attached.entry(operation.volume().clone()).or_insert(false);
            }
            Action::Detach => {
                self.places.attached.insert(operation.volume().clone(), false);
            }
            Action::Stage { .. } | Action::Publish { .. } => {
                let place = place.expect("it has a place");
                self.places.maybe.insert(place.clone());
                self.places.records.entry(place).or_insert(None);
            }
            Action::Unpublish { .. } | Action::Unstage => {
                self.places.records.insert(place.expect("it has a place"), None);
            }
            Action::Expand { from_bytes, to_bytes, .. } => assert!(from_bytes < to_bytes),
        }
        self.check_preconditions(&operation);
        let turn = Turn::Runs { until: operation.deadline };
        self.running.insert(operation.id, Given { operation, before, turn });
    }

    /// I-1: nothing is taken from a pod that wants it, nor before all is known.
    fn check_taking(&self, operation: &Operation) {
        let takes = matches!(
            operation.action.kind(),
            OperationKind::Unpublish | OperationKind::Unstage | OperationKind::Detach
        );
        if !takes {
            return;
        }
        assert!(self.gate, "I-1: {operation:?} before all was known");
        if let Action::Unpublish { pod: from, .. } = &operation.action {
            let Some((_, told)) = self.pods.iter().find(|(pod, _)| uid(**pod) == *from) else {
                return;
            };
            let names_it = told.volumes.contains(operation.volume());
            let ended = told.phase == Phase::Finished && !told.leaving;
            assert!(ended || (!names_it && !told.unknown && !told.leaving), "I-1: {operation:?} although {told:?}");
        }
    }

    fn check_preconditions(&self, operation: &Operation) {
        let spec = &operation.spec;
        assert!(spec.driver.is_none() || self.driver, "no driver for {operation:?}");
        let volume = operation.volume();
        let staged = MountPlace::Stage(volume.clone());
        match &operation.action {
            Action::Stage { .. } | Action::Publish { .. } => {
                let held = matches!(self.places.records.get(&staged), Some(Some(_)));
                if spec.capabilities.attach == Attach::ByController && !held {
                    let refresh = matches!(operation.action, Action::Publish { after: Earlier::Success, .. });
                    assert!(refresh || self.attachments.get(volume) == Some(&true), "not attached: {operation:?}");
                }
            }
            Action::Unstage | Action::Detach => {
                let in_pods = |it: &&MountPlace| matches!(it, MountPlace::Publish(of, _) if of == volume);
                assert_eq!(self.places.maybe.iter().find(in_pods), None, "{operation:?} while a pod may have it");
                if operation.action == Action::Detach {
                    assert!(!self.places.maybe.contains(&staged), "{operation:?} while staged");
                }
            }
            Action::Attach | Action::Expand { .. } | Action::Unpublish { .. } => {}
        }
    }

    fn end(&mut self, which: usize, how: u8) -> Vec<Event> {
        if self.running.is_empty() {
            return vec![];
        }
        let id = *self.running.keys().nth(which % self.running.len()).expect("one of those that run");
        let Given { operation, before, .. } = self.running.remove(&id).expect("it runs");
        let trouble = |cause| Trouble { cause, text: "it failed".into() };
        let outcome = match how {
            0 => Outcome::Done(self.done(&operation)),
            1 if operation.action.kind() == OperationKind::Expand && which.is_multiple_of(2) => {
                Outcome::Refused(trouble(Cause::Infeasible))
            }
            1 => Outcome::Refused(trouble(Cause::Other)),
            2 if which.is_multiple_of(2) => Outcome::Unknown(trouble(Cause::Node(Obstacle::FileSystemBroken))),
            2 => Outcome::Unknown(trouble(Cause::Other)),
            3 => Outcome::Refused(trouble(Cause::Object("Secret a/b".into()))),
            _ => Outcome::Done(Done::Expanded { size_bytes: 1 << 40 }),
        };
        let fits = how < 4 || operation.action.kind() == OperationKind::Expand;
        let counts_as = if fits { outcome.clone() } else { Outcome::Unknown(trouble(Cause::Other)) };
        self.ended(&operation, before, &counts_as);
        vec![Event::OperationEnded { id, outcome }]
    }

    fn done(&mut self, operation: &Operation) -> Done {
        match operation.action {
            Action::Attach => Done::Attached { device: Some("/dev/x".into()) },
            Action::Stage { .. } | Action::Publish { .. } => Done::Mounted(self.new_proof()),
            Action::Expand { to_bytes, .. } => Done::Expanded { size_bytes: to_bytes },
            Action::Unpublish { .. } | Action::Unstage | Action::Detach => Done::Gone,
        }
    }

    /// What the end of an operation leaves at its place, and in the record.
    fn ended(&mut self, operation: &Operation, before: bool, outcome: &Outcome) {
        let volume = operation.volume().clone();
        let place = place(operation);
        match (&operation.action, outcome) {
            (Action::Publish { revision, .. }, Outcome::Done(Done::Mounted(proof))) => {
                self.places.records.insert(place.expect("a place"), Some((*proof, *revision)));
            }
            (Action::Stage { .. }, Outcome::Done(Done::Mounted(proof))) => {
                self.places.records.insert(place.expect("a place"), Some((*proof, 0)));
            }
            (Action::Stage { .. } | Action::Publish { .. }, Outcome::Refused(_)) if !before => {
                let place = place.expect("a place");
                self.places.maybe.remove(&place);
                self.places.records.remove(&place);
            }
            (Action::Unpublish { .. } | Action::Unstage, Outcome::Done(_)) => {
                let place = place.expect("a place");
                self.places.maybe.remove(&place);
                self.places.records.remove(&place);
            }
            (Action::Attach, Outcome::Done(_)) => {
                self.places.attached.insert(volume, true);
            }
            (Action::Attach, Outcome::Refused(_)) if !before => {
                self.places.attached.remove(&volume);
            }
            (Action::Detach, Outcome::Done(_)) => {
                self.places.attached.remove(&volume);
            }
            _ => {}
        }
    }

    /// All that must hold at any moment.
    pub(crate) fn check(&mut self) {
        let snapshot = self.engine.snapshot();
        assert!(self.engine.deadline().is_none_or(|it| it > self.now), "a deadline is in the future");
        self.check_known(&snapshot);
        self.check_in_use();
        check_reasons(&snapshot, &self.running, self.now);
        self.check_answers(&snapshot);
        self.check_names(&snapshot);
        self.check_tally(&snapshot);
        // Planning is at rest: nothing happens when nothing happens.
        self.engine.handle(self.now, Event::TimePassed);
        assert_eq!(self.engine.next_operation(), None);
        assert_eq!(self.engine.next_notice(), None);
        assert_eq!(self.engine.snapshot(), snapshot);
    }

    /// I-10: what may be here is known, and what is known to be here may be.
    fn check_known(&self, snapshot: &Snapshot) {
        let mut known = BTreeSet::new();
        for volume in &snapshot.volumes {
            if volume.stage != StepView::Absent {
                known.insert(MountPlace::Stage(volume.id.clone()));
            }
            for mount in volume.mounts.iter().filter(|it| it.publish != StepView::Absent) {
                known.insert(MountPlace::Publish(volume.id.clone(), mount.pod.clone()));
            }
            let attached = self.places.attached.contains_key(&volume.id);
            assert_eq!(volume.attach != StepView::Absent, attached, "attach of {}", volume.id);
        }
        assert_eq!(known, self.places.maybe, "I-10");
    }

    /// What is counted as it changes is what counting it now gives.
    fn check_tally(&self, snapshot: &Snapshot) {
        let tally = self.engine.tally();
        let unresolved: usize = snapshot.pods.iter().map(|it| it.unresolved.len()).sum();
        let all = snapshot.volumes.len() + unresolved;
        assert_eq!(tally.urgencies.iter().sum::<usize>(), all, "every volume and every name without one counts once");
        let count = |which: &dyn Fn(&MountView) -> bool| {
            snapshot.volumes.iter().flat_map(|it| &it.mounts).filter(|it| which(it)).count()
        };
        let held = count(&|it| it.publish == StepView::Held);
        let leaving = count(&|it| it.publish == StepView::Undoing);
        let mounted: usize = tally.types.iter().map(|it| it.mounted).sum();
        assert!((held..=held + leaving).contains(&mounted), "{mounted} of {held} and {leaving}: {snapshot:#?}");
        let wanted: usize = tally.types.iter().map(|it| it.wanted).sum();
        assert!(wanted <= count(&|it| !it.names.is_empty()), "{wanted} are wanted: {snapshot:#?}");
        assert!(tally.types.is_sorted_by_key(|it| (&it.plugin, &it.driver)));
    }

    /// I-3: what may be here and must be attached is in the set.
    fn check_in_use(&self) {
        let Some(in_use) = self.engine.volumes_in_use() else {
            return;
        };
        for place in &self.places.maybe {
            let (MountPlace::Stage(volume) | MountPlace::Publish(volume, _)) = place;
            let spec = self.specs.iter().find(|it| it.id == *volume);
            if spec.is_some_and(|it| it.capabilities.attach != Attach::NotNeeded) {
                assert!(in_use.volumes.contains(volume), "I-3: {volume} is not in {in_use:?}");
            }
        }
        for volume in self.places.attached.keys() {
            assert!(in_use.volumes.contains(volume), "I-3: {volume} is not in {in_use:?}");
        }
    }

    fn check_answers(&self, snapshot: &Snapshot) {
        for pod in 0..PODS {
            let uid = uid(pod);
            let mounted = self.engine.mounted_volumes(&uid);
            for (name, volume) in &mounted {
                let view = snapshot.volumes.iter().find(|it| it.id == volume.volume).expect("a volume that is there");
                let mount = view.mounts.iter().find(|it| it.pod == uid).expect("a mount that is there");
                assert!(mount.publish == StepView::Held && mount.names.contains(name), "I-4: {name} {mount:?}");
            }
            let possibly = self.places.maybe.iter().any(|it| matches!(it, MountPlace::Publish(_, of) if *of == uid));
            assert_eq!(self.engine.has_possibly_mounted_volumes(&uid), possibly, "E-36");
            let Some(status) = self.engine.pod_status(&uid) else {
                assert!(mounted.is_empty(), "E-35");
                continue;
            };
            for name in &status.unmounted {
                assert!(!mounted.contains_key(name));
                let told = &self.pods[&pod];
                if told.phase == Phase::Running && !told.leaving {
                    assert!(!self.engine.explain(&uid, name).is_empty(), "I-7: {uid} {name}");
                }
            }
        }
    }

    /// Whoever asks for a pod by its name is told what going through all of them would tell.
    fn check_names(&self, snapshot: &Snapshot) {
        let called = (0..PODS).flat_map(|it| [format!("default/pod-{it}"), uid(it).to_string()]);
        for name in called {
            let expected: Vec<PodUid> =
                snapshot.pods.iter().filter(|it| *it.name == *name).map(|it| it.uid.clone()).collect();
            assert_eq!(self.engine.pods_named(&name), expected, "{name}");
        }
    }

    /// A new engine that is told what the records hold knows the same, up to uncertainty (I-11).
    pub(crate) fn check_restart(&mut self) {
        let before = self.engine.snapshot();
        let mut after = Engine::new(config(Planning::Touched));
        for (volume, proven) in &self.places.attached {
            let spec = self.spec_of(volume);
            after.handle(Time(0), Event::FoundAttached { spec, device: proven.then(|| "/dev/x".into()) });
        }
        for (place, record) in &self.places.records {
            let (MountPlace::Stage(volume) | MountPlace::Publish(volume, _)) = place;
            let seen = record.map(|(proof, _)| proof);
            let record = match record {
                Some((proof, revision)) => Record::Proven { boot: "boot".into(), proof: *proof, revision: *revision },
                None => Record::Intent,
            };
            let found = Found { spec: self.spec_of(volume), record, seen, label: None };
            after.handle(
                Time(0),
                match place {
                    MountPlace::Stage(_) => Event::FoundStaged(found),
                    MountPlace::Publish(_, pod) => Event::FoundPublished { pod: pod.clone(), found },
                },
            );
        }
        after.handle(Time(0), Event::DiskRead);
        assert_eq!(after.next_operation(), None, "nothing happens before pods are known");
        let after = after.snapshot();
        for volume in &before.volumes {
            let same = after.volumes.iter().find(|it| it.id == volume.id);
            let step = |it: Option<StepView>| it.unwrap_or(StepView::Absent);
            assert!(recovers(volume.attach, step(same.map(|it| it.attach))), "attach of {}", volume.id);
            assert!(recovers(volume.stage, step(same.map(|it| it.stage))), "stage of {}", volume.id);
            for mount in &volume.mounts {
                let again = same.and_then(|it| it.mounts.iter().find(|it| it.pod == mount.pod));
                let again = step(again.map(|it| it.publish));
                assert!(
                    recovers(mount.publish, again),
                    "{} of {}: {:?} {again:?}",
                    volume.id,
                    mount.pod,
                    mount.publish
                );
            }
        }
        for volume in &after.volumes {
            assert!(before.volumes.iter().any(|it| it.id == volume.id), "{} was not there before", volume.id);
        }
    }

    fn spec_of(&self, volume: &VolumeId) -> Arc<VolumeSpec> {
        let known = self.specs.iter().find(|it| it.id == *volume).cloned();
        known.unwrap_or_else(|| Arc::new(VolumeSpec { id: volume.clone(), ..(*self.specs[0]).clone() }))
    }

    /// Once all is well everywhere, everything comes to rest where it should.
    pub(crate) fn check_convergence(&mut self) {
        let volumes: Vec<VolumeId> = self.specs.iter().map(|it| it.id.clone()).collect();
        // Pods that cannot all have what they ask for would wait for each other for ever, and rightly.
        for pod in 0..PODS {
            let keeps = [0b0_0111_1011u16, 0b0_0111_1001, 0, 0b0_0111_1001][pod];
            self.play(&Move::Gone { pod, may_run: false });
            self.play(&Move::Apply { pod, volumes: keeps, phase: 0, revision: 2, unknown: false });
        }
        self.play(&Move::DiskRead);
        self.play(&Move::AttachmentsComplete);
        self.play(&Move::Driver { up: true });
        self.play(&Move::SourceComplete);
        for volume in 0..volumes.len() {
            self.play(&Move::Attachment { volume, kind: 0 });
        }
        for _ in 0..400 {
            self.play(&Move::Report);
            self.play(&Move::Advance { seconds: 1 });
            while !self.running.is_empty() {
                self.play(&Move::End { which: 0, how: 0 });
            }
        }
        for pod in 0..PODS {
            let status = self.engine.pod_status(&uid(pod)).expect("a pod that is known");
            // Two of the pods ask for different labels of one volume: the second waits, and says so.
            let waits_for_label = status.unmounted.iter().all(|it| it.as_str() == "labelled");
            let conflict = status.errors.iter().all(|it| it.starts_with("conflicting SELinux labels"));
            assert!(waits_for_label && conflict, "pod {pod} ends as {status:?}: {:#?}", self.engine.snapshot());
        }
        for pod in 0..PODS {
            self.play(&Move::Gone { pod, may_run: false });
        }
        for _ in 0..50 {
            while !self.running.is_empty() {
                self.play(&Move::End { which: 0, how: 0 });
            }
            self.play(&Move::Advance { seconds: 300 });
        }
        assert!(self.places.maybe.is_empty() && self.places.attached.is_empty(), "left behind: {:?}", self.places);
        let snapshot = self.engine.snapshot();
        assert!(snapshot.volumes.is_empty() && snapshot.pods.is_empty(), "not forgotten: {snapshot:#?}");
        assert!(self.waiters.is_empty(), "not answered: {:?}", self.waiters);
        assert_eq!(self.engine.deadline(), None, "idle is idle");
    }
}

/// Is `after` what a step that stood at `before` must be after a restart?
fn recovers(before: StepView, after: StepView) -> bool {
    match before {
        StepView::Absent => after == StepView::Absent,
        StepView::Held => after == StepView::Held,
        // A call that runs, or an end that is not known: in doubt, unless the record still proves an earlier success.
        StepView::Doing | StepView::Uncertain(_) => {
            matches!(after, StepView::Uncertain(_) | StepView::Held)
        }
        StepView::Undoing => matches!(after, StepView::Uncertain(_)),
    }
}

/// I-7: whoever is not settled says why, and what is said is true.
fn check_reasons(snapshot: &Snapshot, running: &BTreeMap<OperationId, Given>, now: Time) {
    let told = |chain: &[Reason]| {
        for reason in chain {
            assert!(!reason.text.is_empty() && reason.since <= now, "I-7: {reason:?}");
            if let WaitsOn::Operation(operation) = &reason.waits_on {
                assert!(running.contains_key(operation), "I-7: {reason:?} but it does not run");
            }
            if reason.code == Code::BackingOff {
                assert!(reason.next_try.is_some_and(|it| it > now) && reason.attempts > 0, "I-7: {reason:?}");
            }
            if matches!(reason.code, Code::Hung | Code::Queued) {
                let WaitsOn::Operation(operation) = reason.waits_on else { panic!("I-7: {reason:?}") };
                let expected = match running[&operation].turn {
                    Turn::Queued => Some(Code::Queued),
                    Turn::Blocked => Some(Code::Hung),
                    Turn::Runs { until } => (until <= now).then_some(Code::Hung),
                };
                assert_eq!(Some(reason.code), expected, "I-6, I-7: {reason:?}");
            }
            if let WaitsOn::Driver(driver) = &reason.waits_on {
                assert!(!snapshot.drivers.contains(driver), "I-7: {reason:?}");
            }
        }
    };
    for volume in &snapshot.volumes {
        told(&volume.reasons);
        let busy = matches!(volume.stage, StepView::Doing | StepView::Undoing);
        assert!(!busy || !volume.reasons.is_empty(), "I-7: {} works without a reason", volume.id);
        for mount in &volume.mounts {
            told(&mount.reasons);
            let settled = match mount.publish {
                StepView::Held => true,
                StepView::Absent => mount.names.is_empty() || !mount.reasons.is_empty() || !wanted(snapshot, mount),
                StepView::Doing | StepView::Uncertain(_) | StepView::Undoing => !mount.reasons.is_empty(),
            };
            assert!(settled, "I-7: {} of {} has no reason", volume.id, mount.pod);
        }
    }
}

/// A pod that is ending names volumes that it no longer gets.
fn wanted(snapshot: &Snapshot, mount: &MountView) -> bool {
    snapshot.pods.iter().any(|it| it.uid == mount.pod && it.life == Life::Known(Phase::Running))
}
