//! What hangs, noted for whoever comes after this process: at which places operations have been at work for long.
//!
//! A process that is killed while a thread of it waits in the kernel leaves that one call behind, which may come to its end
//! at any time. The next process works at all other places at once, and at these once nothing is left of the one before (I-2).

use std::collections::BTreeSet;
use std::sync::{Mutex, PoisonError};

use serde::{Deserialize, Serialize};
use windlass_core::event::MountPlace;
use windlass_linux::name::Name;
use windlass_linux::process::{Process, Standing};
use windlass_linux::safe_path;
use windlass_linux::whole_file::{self, Survives};

/// Below the directory for records.
const FILE: &str = "under-way.json";
/// More than any number of calls that hang takes.
const BYTES_MAX: usize = 4 << 20;

/// What hangs in this process, and in those before it that are not gone.
pub(crate) struct UnderWay {
    directory: safe_path::Place,
    boot: Box<str>,
    own: Option<Process>,
    state: Mutex<State>,
    /// Whose turn it is to write, which may take for ever: the state is never locked meanwhile (I-6).
    writing: Mutex<()>,
}

#[derive(Default)]
struct State {
    own: BTreeSet<MountPlace>,
    before: Vec<(Process, BTreeSet<MountPlace>)>,
}

/// What a process was at, on disk.
#[derive(Serialize, Deserialize)]
struct Noted {
    process: u32,
    started: u64,
    boot: String,
    places: Vec<NotedPlace>,
}

#[derive(Serialize, Deserialize)]
struct NotedPlace {
    volume: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pod: Option<String>,
}

impl UnderWay {
    /// What processes of before were at, as far as they are not gone.
    pub(crate) fn read(directory: safe_path::Place, boot: &str) -> Self {
        let own = Process::own().ok();
        let noted = name().and_then(|it| whole_file::read(&directory, &it, BYTES_MAX).ok().flatten());
        let noted: Vec<Noted> = noted.and_then(|it| serde_json::from_slice(&it).ok()).unwrap_or_default();
        let of_this_boot = noted.into_iter().filter(|it| it.boot == boot);
        let before = of_this_boot.filter_map(|it| {
            let process = Process { id: it.process, started: it.started };
            // A node of this process that was stopped is not before it: its lock keeps this one out.
            let is_left = Some(process) != own && process.standing() != Standing::Gone;
            is_left.then(|| (process, it.places.iter().map(NotedPlace::place).collect()))
        });
        let state = State { own: BTreeSet::new(), before: before.collect() };
        Self { directory, boot: boot.into(), own, state: Mutex::new(state), writing: Mutex::default() }
    }

    fn state(&self) -> std::sync::MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The processes of before that something may hang in, and at how many places.
    pub(crate) fn processes(&self) -> Vec<(Process, usize)> {
        let state = self.state();
        let all = state.before.iter().map(|(process, places)| (*process, places.len()));
        all.filter(|(_, places)| *places > 0).collect()
    }

    /// The process of before that may still be at a place.
    pub(crate) fn haunting(&self, place: &MountPlace) -> Option<Process> {
        self.state().before.iter().find(|(_, places)| places.contains(place)).map(|(process, _)| *process)
    }

    pub(crate) fn has_ended(&self, process: Process) {
        self.state().before.retain(|(it, _)| *it != process);
    }

    /// This is what hangs in this process; written by [`UnderWay::write`].
    pub(crate) fn set(&self, places: BTreeSet<MountPlace>) {
        self.state().own = places;
    }

    /// Writes down what is known by now. May block.
    pub(crate) fn write(&self) {
        let Some((name, own)) = name().zip(self.own) else { return };
        // One after the other, and each what is known when its turn has come: so what is known last is written last.
        let _turn = self.writing.lock().unwrap_or_else(PoisonError::into_inner);
        let state = self.state();
        let noted = |(process, places): (&Process, &BTreeSet<MountPlace>)| Noted {
            process: process.id,
            started: process.started,
            boot: self.boot.to_string(),
            places: places.iter().map(NotedPlace::of).collect(),
        };
        let before = state.before.iter().map(|(process, places)| (process, places));
        let all = before.chain([(&own, &state.own)]).filter(|(_, places)| !places.is_empty());
        let all: Vec<Noted> = all.map(noted).collect();
        drop(state);
        // Without it the next process does not know of what hangs here, and finds an intent at most.
        let _ = match serde_json::to_vec(&all) {
            Ok(_) if all.is_empty() => whole_file::remove(&self.directory, &name),
            Ok(text) => whole_file::write(&self.directory, &name, &text, Survives::Crash),
            Err(_) => Ok(()),
        };
    }
}

fn name() -> Option<Name> {
    Name::new("file", FILE).ok()
}

impl NotedPlace {
    fn of(place: &MountPlace) -> Self {
        match place {
            MountPlace::Stage(volume) => Self { volume: volume.to_string(), pod: None },
            MountPlace::Publish(volume, pod) => Self { volume: volume.to_string(), pod: Some(pod.to_string()) },
        }
    }

    fn place(&self) -> MountPlace {
        let volume = self.volume.as_str().into();
        match &self.pod {
            None => MountPlace::Stage(volume),
            Some(pod) => MountPlace::Publish(volume, pod.as_str().into()),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::process::Stdio;

    use super::*;

    #[test]
    fn what_a_process_of_before_hangs_in_is_known_until_it_is_gone() {
        let directory = tempfile::tempdir().unwrap();
        let place = || safe_path::Place::root(directory.path()).unwrap();
        let mut child = windlass_testing::process::program("cat").stdin(Stdio::piped()).spawn().unwrap();
        let before = Process::of(child.id()).unwrap();
        let (staged, published) = (MountPlace::Stage("v".into()), MountPlace::Publish("w".into(), "p".into()));

        let first = UnderWay { own: Some(before), ..UnderWay::read(place(), "boot") };
        first.set([staged.clone(), published.clone()].into());
        first.write();
        assert_eq!(UnderWay::read(place(), "another boot").processes(), []);
        let second = UnderWay::read(place(), "boot");
        assert_eq!(second.processes(), [(before, 2)]);
        assert_eq!((second.haunting(&staged), second.haunting(&published)), (Some(before), Some(before)));
        assert_eq!(second.haunting(&MountPlace::Stage("w".into())), None);
        second.set([staged.clone()].into());
        second.write();
        assert_eq!(
            UnderWay::read(place(), "boot").haunting(&published),
            Some(before),
            "it is noted again with its own"
        );

        {
            // Somebody writes, and that hangs.
            let _turn = second.writing.lock().unwrap();
            assert_eq!(second.haunting(&staged), Some(before), "nobody else waits for it");
            second.set([staged.clone()].into());
        }

        child.kill().unwrap();
        child.wait().unwrap();
        assert_eq!(UnderWay::read(place(), "boot").processes(), []);
        second.has_ended(before);
        second.set(BTreeSet::new());
        second.write();
        assert!(!directory.path().join(FILE).exists(), "what says nothing is not kept");
    }
}
