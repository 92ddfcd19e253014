//! Start: reads what earlier lives of the process left on disk, and tells it as events. It judges nothing.
//!
//! Pods' directories, their device maps, the records, and what is staged though no pod has it (E-193..E-199; the kubelet
//! forgets the last).

use std::{collections::HashMap, path::Path};

use windlass_core::{
    Event,
    event::{Found, Place},
    ids::{PluginName, PodUid},
    spec::Mode,
};
use windlass_linux::{name::Name, whole_file};

use crate::{
    catalogue::Kind,
    executor::Executor,
    layout::{self, Slot},
    plugin::{self, Failure, Made},
    record::{Key, Record, State},
};

/// What was found.
#[derive(Default)]
pub(crate) struct Remains {
    /// What the engine is to be told, in order.
    pub(crate) events: Vec<Event>,
    /// What was made and is recorded.
    pub(crate) made: Vec<Remainder>,
    /// What could not be read, for people.
    pub(crate) troubles: Vec<String>,
}

/// Something that was made in an earlier life.
pub(crate) struct Remainder {
    pub(crate) place: Place,
    pub(crate) made: Made,
    /// How often its content was renewed though nothing changed.
    pub(crate) epoch: u64,
}

/// Reads it all. What is odd is told and left alone; an error means that nothing could be read, and that it must be read
/// again before anything is taken away.
pub(crate) fn read(executor: &Executor) -> Result<Remains, Failure> {
    let mut remains = Remains::default();
    let mut published: HashMap<Slot, Record> = HashMap::new();
    let mut staged = Vec::new();
    for (key, found) in executor.records.all().map_err(|error| Failure::open(&error))? {
        match (key, found) {
            (Key::Publish(slot), Ok(record)) => drop(published.insert(slot, record)),
            (Key::Stage(_), Ok(record)) => staged.push(record),
            (_, Err(error)) => remains.troubles.push(plugin::chain(&error)),
        }
    }
    for record in &staged {
        remains.stage(executor, record);
    }
    for kind in Kind::ALL {
        let Some(plugin) = plugin::of(kind) else { continue };
        let staged_there = match plugin.staged(&executor.scene) {
            Ok(staged) => staged,
            Err(failure) => {
                remains.troubles.push(format!("what {} has staged cannot be read: {failure}", kind.plugin_name()));
                continue;
            }
        };
        for (spec, seen) in staged_there {
            if !staged.iter().any(|it| it.spec.id == spec.id) {
                let record = windlass_core::event::Record::Intent;
                remains.events.push(Event::FoundStaged(Found { spec: spec.into(), record, seen, label: None }));
            }
        }
    }
    let pods = executor.scene.layout.pods()?;
    for pod in whole_file::names(&pods)? {
        let Ok(uid) = std::str::from_utf8(pod.as_bytes()).map(PodUid::from) else {
            remains.troubles.push(format!("the name of {}/{pod} is no text", pods.path().display()));
            continue;
        };
        let below = Path::new("pods").join(pod.as_path());
        if remains.directory(executor, &below).is_none() {
            continue;
        }
        remains.events.push(Event::FoundPod(uid.clone()));
        for slot in remains.slots(executor, &pod) {
            match published.remove(&slot) {
                Some(record) => remains.publish(executor, &uid, &record),
                None => remains.unreadable(&uid, &slot),
            }
        }
    }
    // What left no directory: paths of the host, and directories that somebody removed.
    let mut rest: Vec<_> = published.into_iter().collect();
    rest.sort_by_key(|(slot, _)| slot.path());
    for (slot, record) in rest {
        let uid = PodUid::from(slot.pod.to_string().as_str());
        remains.publish(executor, &uid, &record);
    }
    Ok(remains)
}

impl Remains {
    fn stage(&mut self, executor: &Executor, record: &Record) {
        let found = self.found(executor, record, Place::Stage(record.spec.id.clone()));
        self.events.push(Event::FoundStaged(found));
    }

    fn publish(&mut self, executor: &Executor, uid: &PodUid, record: &Record) {
        let found = self.found(executor, record, Place::Publish(record.spec.id.clone(), uid.clone()));
        self.events.push(Event::FoundPublished { pod: uid.clone(), found });
    }

    fn found(&mut self, executor: &Executor, record: &Record, place: Place) -> Found {
        let looked = record.made_in(&executor.boot).map(|it| executor.look(it));
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

    /// A directory below the root. Whatever else is there is not ours, and is told.
    fn directory(&mut self, executor: &Executor, below: &Path) -> Option<windlass_linux::safe_path::Place> {
        match executor.scene.layout.find(below) {
            Ok(place) => place,
            Err(error) => {
                self.troubles.push(plugin::chain(&error));
                None
            }
        }
    }

    fn names(&mut self, directory: &windlass_linux::safe_path::Place) -> Vec<Name> {
        whole_file::names(directory).unwrap_or_else(|error| {
            self.troubles.push(plugin::chain(&error));
            Vec::new()
        })
    }

    /// The places in a pod's directory that may hold a volume (E-193).
    fn slots(&mut self, executor: &Executor, pod: &Name) -> Vec<Slot> {
        let mut slots = Vec::new();
        for (mode, kind) in [(Mode::Filesystem, "volumes"), (Mode::Block, "volumeDevices")] {
            let below = Path::new("pods").join(pod.as_path()).join(kind);
            let Some(plugins) = self.directory(executor, &below) else { continue };
            for plugin in self.names(&plugins) {
                let Some(volumes) = self.directory(executor, &below.join(plugin.as_path())) else { continue };
                for name in self.names(&volumes) {
                    slots.push(Slot { pod: pod.clone(), plugin: plugin.clone(), name, mode });
                }
            }
        }
        slots
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
