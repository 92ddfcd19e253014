//! Start: reads what earlier lives of the process left on disk, and tells it as events. It judges nothing.
//!
//! Pods' directories, their device maps, the records, and what is staged though no pod has it (E-193..E-199; the kubelet
//! forgets the last).

mod pods;

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::SystemTime;

use windlass_core::Event;
use windlass_core::event::{Found, MountPlace};
use windlass_core::ids::{PluginName, PodUid, VolumeId};
use windlass_core::operation::Proof;
use windlass_core::spec::VolumeSpec;
use windlass_linux::remove::Aside;

use crate::catalogue::VolumeType;
use crate::executor::Executor;
use crate::layout::{self, Slot};
use crate::plugin::{self, Failure, Made, VolumeForm};
use crate::provision::Provision;
use crate::record::{self, Key, Record, State};
use pods::Seen;

/// What was found.
#[derive(Default)]
pub(crate) struct Remains {
    /// What the engine is to be told, in order.
    pub(crate) events: Vec<Event>,
    /// What was made and is recorded.
    pub(crate) made: Vec<Remainder>,
    /// The pods whose directories have all that a pod's directory has.
    pub(crate) whole: HashSet<PodUid>,
    /// When the pods' directories were made, of those whose file system tells.
    pub(crate) born: HashMap<PodUid, SystemTime>,
    /// What was made for claims.
    pub(crate) provisions: Vec<Provision>,
    /// What could not be read, for people.
    pub(crate) troubles: Vec<String>,
}

/// Something that was made in an earlier life.
pub(crate) struct Remainder {
    pub(crate) place: MountPlace,
    pub(crate) made: Made,
    /// How often its content was renewed though nothing changed.
    pub(crate) epoch: u64,
}

/// Reads it all. What is odd is told and left alone; an error means that nothing could be read, and that it must be read
/// again before anything is taken away.
pub(crate) fn read(executor: &Executor) -> Result<Remains, Failure> {
    executor.scene.watch.catch_up()?;
    let mut remains = Remains::default();
    remains.sweep(executor);
    let records = executor.records.all().map_err(|error| Failure::open(&error))?;
    // Records are large, and not to be moved around.
    let mut published: HashMap<Slot, Record> = HashMap::with_capacity(records.len());
    let (mut staged, mut damaged) = (Vec::new(), Vec::new());
    for (key, found) in records {
        match (key, found) {
            (Key::Publish(slot), Ok(record)) => drop(published.insert(slot, record)),
            (Key::Stage(_), Ok(record)) => staged.push(record),
            (Key::Attach(_), Ok(record)) => remains.attach(executor, record),
            (Key::Publish(slot), Err(error)) => {
                remains.troubles.push(plugin::chain(&error));
                damaged.push(slot);
            }
            (_, Err(error @ record::Error::Line { .. })) => remains.troubles.push(plugin::chain(&error)),
            (Key::Stage(_) | Key::Attach(_), Err(error)) => remains.troubles.push(format!(
                "{}; it is written anew when its volume is used again: if no volume is missing, remove the file",
                plugin::chain(&error)
            )),
        }
    }
    let pods = remains.pods(executor, published.keys())?;
    published.retain(|slot, record| {
        remains.agrees(executor, slot, record) || {
            damaged.push(slot.clone());
            false
        }
    });
    for record in &staged {
        remains.stage(executor, record);
    }
    // What no record tells, what lies beside the volume may.
    let mut noted: HashMap<Slot, Arc<VolumeSpec>> = HashMap::new();
    for Seen { slot, .. } in pods.iter().flat_map(|(_, slots)| slots).filter(|it| !published.contains_key(&it.slot)) {
        if let Some(spec) = remains.noted(executor, slot) {
            noted.insert(slot.clone(), spec.into());
        }
    }
    let recorded: HashSet<&VolumeId> = staged.iter().map(|it| &it.spec.id).collect();
    let in_pods: HashMap<VolumeId, Arc<VolumeSpec>> = noted.values().map(|it| (it.id.clone(), it.clone())).collect();
    for volume_type in plugin::ALL {
        let staged_there = match volume_type.plugin.staged(&executor.scene) {
            Ok(staged) => staged,
            Err(failure) => {
                remains.troubles.push(format!("what {} has staged cannot be read: {failure}", volume_type.name));
                continue;
            }
        };
        for (spec, seen) in staged_there {
            if !recorded.contains(&spec.id) {
                // A pod that has it knows what it is called.
                let in_pod = in_pods.get(&spec.id).cloned();
                remains.events.push(Event::FoundStaged(intended(in_pod.unwrap_or_else(|| spec.into()), seen)));
            }
        }
    }
    let mut names: HashMap<PodUid, Arc<str>> = HashMap::new();
    for (slot, record) in &published {
        if let Some(title) = &record.title {
            names.insert(PodUid::from(slot.pod.to_string().as_str()), title.as_str().into());
        }
    }
    for (uid, slots) in pods {
        remains.events.push(Event::FoundPod { name: names.remove(&uid), uid: uid.clone() });
        for Seen { slot, directory } in slots {
            damaged.retain(|it| *it != slot);
            match published.remove(&slot) {
                Some(record) => remains.publish(executor, &uid, &record, Some((&slot, directory))),
                None => match noted.remove(&slot) {
                    Some(spec) => {
                        remains.events.push(Event::FoundPublished { pod: uid.clone(), found: intended(spec, None) });
                    }
                    None => remains.unreadable(&uid, &slot),
                },
            }
        }
    }
    // What left neither a directory nor a record that can be read: it goes with its pod, or is made again.
    damaged.sort_by_key(Slot::path);
    for slot in damaged {
        remains.unreadable(&PodUid::from(slot.pod.to_string().as_str()), &slot);
    }
    // What left no directory: paths of the host, and directories that somebody removed.
    let mut rest: Vec<_> = published.into_iter().collect();
    rest.sort_by_key(|(slot, _)| slot.path());
    for (slot, record) in rest {
        let uid = PodUid::from(slot.pod.to_string().as_str());
        if let Some(name) = names.remove(&uid) {
            remains.events.push(Event::FoundPod { uid: uid.clone(), name: Some(name) });
        }
        remains.publish(executor, &uid, &record, None);
    }
    Ok(remains)
}

/// Something of which no record tells how far it got.
fn intended(spec: Arc<VolumeSpec>, seen: Option<Proof>) -> Found {
    Found { spec, record: windlass_core::event::Record::Intent, seen, label: None }
}

impl Remains {
    /// Removes what an earlier life had taken aside to remove it (I-5).
    fn sweep(&mut self, executor: &Executor) {
        match executor.scene.layout.aside().map_or_else(|| Ok(Vec::new()), Aside::sweep) {
            Ok(kept) => self.troubles.extend(kept.iter().map(|it| {
                let path = it.display();
                format!(
                    "{path} is of a volume that was moved away while it was being removed: move it to the rest of it"
                )
            })),
            Err(error) => self.troubles.push(plugin::chain(&error)),
        }
    }

    fn attach(&mut self, executor: &Executor, record: Record) {
        let State::Attachment { context, .. } = record.state else {
            return self
                .troubles
                .push(format!("the record of the attachment of {} says nothing of it", record.spec.id));
        };
        let device = context.is_some().then(|| record.spec.id.as_str().into());
        executor.scene.attachments.set(&record.spec.id, context);
        self.events.push(Event::FoundAttached { spec: record.spec, device });
    }

    /// Does what lies beside a driver's volume name the same volume as its record? It was written by the same call, and
    /// nothing else tells what the driver calls it.
    fn agrees(&mut self, executor: &Executor, slot: &Slot, record: &Record) -> bool {
        if record.spec.driver.is_none() {
            return true;
        }
        let Some(noted) = self.noted(executor, slot).filter(|it| it.id != record.spec.id) else { return true };
        let (path, id) = (slot.path(), &record.spec.id);
        let text = format!("the record of {} tells of {id}, and the note beside it of {}", path.display(), noted.id);
        self.troubles.push(format!("{text}: the note is believed, and the record is written anew"));
        false
    }

    /// Which volume is at a place, as far as what lies there tells.
    fn noted(&mut self, executor: &Executor, slot: &Slot) -> Option<VolumeSpec> {
        let plugin = std::str::from_utf8(slot.plugin.as_bytes()).ok()?;
        let volume_type = VolumeType::named(&layout::unescape(plugin))?;
        volume_type.plugin.published(&executor.scene, slot).unwrap_or_else(|failure| {
            self.troubles.push(failure.text);
            None
        })
    }

    fn stage(&mut self, executor: &Executor, record: &Record) {
        let found = self.found(executor, record, MountPlace::Stage(record.spec.id.clone()), None);
        self.events.push(Event::FoundStaged(found));
    }

    /// What was seen of its directory, if that was looked at, need not be looked at again.
    fn publish(&mut self, executor: &Executor, uid: &PodUid, record: &Record, seen: Option<(&Slot, Option<Proof>)>) {
        let place = MountPlace::Publish(record.spec.id.clone(), uid.clone());
        let found = self.found(executor, record, place, seen);
        self.events.push(Event::FoundPublished { pod: uid.clone(), found });
    }

    fn found(
        &mut self,
        executor: &Executor,
        record: &Record,
        place: MountPlace,
        seen: Option<(&Slot, Option<Proof>)>,
    ) -> Found {
        let mounted = |path| executor.scene.watch.table().topmost(path).map(|it| plugin::mount_proof(it));
        let looked = record.made_in(&executor.boot).map(|made| match (&made.form, seen) {
            // What changes from now on the drive is told.
            (VolumeForm::Mount(path), _) => Ok(mounted(path)),
            (VolumeForm::Directory, Some((slot, directory)))
                if made.path == plugin::absolute(&executor.scene, &slot.path()) =>
            {
                Ok(mounted(&made.path).or(directory))
            }
            (VolumeForm::Directory | VolumeForm::Host, _) => executor.look(made),
        });
        // What cannot be looked at is uncertain, and so is all that another boot made.
        let seen = match looked.transpose() {
            Ok(seen) => seen.flatten(),
            Err(failure) => {
                self.troubles.push(failure.text);
                None
            }
        };
        if let State::Proven { boot, made, epoch, .. } = &record.state
            && *boot == executor.boot
        {
            self.made.push(Remainder { place, made: made.clone(), epoch: *epoch });
        }
        Found { spec: record.spec.clone(), record: record.for_engine(), seen, label: record.label.clone() }
    }

    fn unreadable(&mut self, uid: &PodUid, slot: &Slot) {
        let (Ok(plugin), Ok(name)) =
            (std::str::from_utf8(slot.plugin.as_bytes()), std::str::from_utf8(slot.name.as_bytes()))
        else {
            self.troubles.push(format!("the name of {} is no text", slot.path().display()));
            return;
        };
        self.events.push(Event::FoundUnreadable {
            pod: uid.clone(),
            plugin: PluginName::from(layout::unescape(plugin).as_str()),
            inner_name: name.into(),
            mode: slot.mode,
        });
    }
}
