//! What is below a root directory, without a daemon.
//!
//! Only names in pods' directories, the mount table and windlass's records are read. No link is followed and nothing
//! that is mounted is touched, so a file system that hangs holds nothing up (I-6).

use std::collections::{BTreeMap, HashMap};
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::Context;
use windlass::inner::{Key, Record, Records, Slot, VolumeForm, unescape};
use windlass::node::Mode;
use windlass_linux::name::{Name, Relative};
use windlass_linux::safe_path::{Mounts, Place};
use windlass_linux::table::{Reader, Table};
use windlass_linux::whole_file;

use crate::exit::Failure;
use crate::output::lines::Branch;
use crate::output::paint::{Paint, Tone};
use crate::output::{self, plain, short};

/// The places of volumes in pods, by their path below the root.
type Slots = BTreeMap<PathBuf, Slot>;

/// The tree below a root; records are in `state`, without one where they are by default.
pub(super) fn tree(root: &Path, state: Option<&Path>, only: &[&str], paint: Paint) -> anyhow::Result<Branch> {
    // The mount table has paths without links.
    let path = fs::canonicalize(root).with_context(|| format!("look at {}", root.display()))?;
    let state = state.map_or_else(|| path.join("windlass"), Path::to_owned);
    let records = records(&state).unwrap_or_else(|error| {
        output::note(&format!("warning: what windlass wrote down cannot be read: {error:#}"));
        HashMap::new()
    });
    let disk = Disk { root: Place::root(&path)?, table: Reader::best().read()?, path, records, paint };
    let mut pods = disk.pods().with_context(|| format!("look at the pods in {}", disk.path.display()))?;
    for slot in disk.records.keys() {
        pods.entry(slot.pod.clone()).or_default().insert(slot.path(), slot.clone());
    }
    if let Some(missing) = only.iter().find(|only| !pods.keys().any(|it| it.to_string() == **only)) {
        let hint = "without a daemon pods are known by their UID alone".to_owned();
        return Err(Failure::new(format!("pod {:?} not found", plain(missing))).hints([hint]).into());
    }
    pods.retain(|it, _| only.is_empty() || only.contains(&it.to_string().as_str()));
    let below = pods.iter().map(|(pod, slots)| {
        let below = slots.iter().map(|(path, slot)| disk.volume(path, slot)).collect();
        Branch { text: plain(&pod.to_string()), below }
    });
    Ok(Branch { text: plain(&disk.path.display().to_string()), below: below.collect() })
}

/// What windlass wrote down of volumes in pods. A record that cannot be read is told and left out.
fn records(state: &Path) -> anyhow::Result<HashMap<Slot, Record>> {
    let state = match Place::root(state) {
        Ok(state) => state,
        Err(error) if error.is_missing() => return Ok(HashMap::new()),
        Err(error) => return Err(error.into()),
    };
    let mut records = HashMap::new();
    for (key, found) in Records::look(&state)?.unwrap_or_default() {
        match (key, found) {
            (Key::Publish(slot), Ok(record)) => drop(records.insert(slot, record)),
            (Key::Stage(_) | Key::Attach(_), Ok(_)) => {}
            (_, Err(error)) => output::note(&format!("warning: {:#}", anyhow::Error::from(error))),
        }
    }
    Ok(records)
}

struct Disk {
    root: Place,
    /// Its path without links.
    path: PathBuf,
    table: Table,
    records: HashMap<Slot, Record>,
    paint: Paint,
}

impl Disk {
    /// The pods that have a directory, each with what is in the places of its volumes.
    fn pods(&self) -> anyhow::Result<BTreeMap<Name, Slots>> {
        let mut pods = BTreeMap::new();
        for pod in self.names(Path::new("pods"))? {
            let mut slots = Slots::new();
            for mode in [Mode::Filesystem, Mode::Block] {
                let slot = |plugin: &Name, name: &Name| Slot {
                    pod: pod.clone(),
                    plugin: plugin.clone(),
                    name: name.clone(),
                    mode,
                };
                // Any volume's place is three below what holds them all.
                let Some(all) = slot(&pod, &pod).parent().parent().map(Path::to_owned) else { continue };
                for plugin in self.names_or_none(&all) {
                    for name in self.names_or_none(&all.join(plugin.as_path())) {
                        let slot = slot(&plugin, &name);
                        slots.insert(slot.path(), slot);
                    }
                }
            }
            pods.insert(pod, slots);
        }
        Ok(pods)
    }

    /// The names in a directory; none if there is none. One that cannot be looked into, or must not be because it is a link
    /// or something is mounted on it, is told and left out.
    fn names_or_none(&self, below: &Path) -> Vec<Name> {
        self.names(below).unwrap_or_else(|error| {
            output::note(&format!("warning: left out: {error:#}"));
            Vec::new()
        })
    }

    fn names(&self, below: &Path) -> anyhow::Result<Vec<Name>> {
        match self.root.directory(&Relative::new("path below the root", below)?, Mounts::Refuse) {
            Ok(place) => Ok(whole_file::names(&place)?),
            Err(error) if error.is_missing() || error.errno() == rustix::io::Errno::NOTDIR => Ok(Vec::new()),
            Err(error) => Err(error.into()),
        }
    }

    fn volume(&self, below: &Path, slot: &Slot) -> Branch {
        let plugin = unescape(&slot.plugin.to_string());
        let (status, tone) = self.status(below, slot);
        let status = self.paint.text(tone, &plain(&status));
        let path = plain(&below.display().to_string());
        Branch::leaf(format!("{}  {}  {status}  {path}", plain(&slot.name.to_string()), plain(short(&plugin))))
    }

    /// What is there, as far as the mount table, a link and the record tell.
    fn status(&self, below: &Path, slot: &Slot) -> (String, Tone) {
        if slot.mode == Mode::Block {
            return match self.link(below) {
                Some(device) => (format!("device {}", device.display()), Tone::Good),
                None => ("no device".into(), Tone::Waiting),
            };
        }
        // Drivers mount into a directory of the volume's.
        let place = self.path.join(below);
        let mounted = self.table.topmost(&place).or_else(|| self.table.topmost(&place.join("mount")));
        if let Some(mount) = mounted {
            let access = if mount.is_read_only() { "ro" } else { "rw" };
            return (format!("mounted {} {access}", mount.kind.display()), Tone::Good);
        }
        match self.records.get(slot).and_then(Record::made).map(|(_, made)| made) {
            Some(made) => match &made.form {
                VolumeForm::Host => (format!("host {}", made.path.display()), Tone::Good),
                VolumeForm::Directory => ("directory".into(), Tone::Good),
                VolumeForm::Mount(_) => ("not mounted".into(), Tone::Waiting),
            },
            None => ("not mounted".into(), Tone::Waiting),
        }
    }

    /// What a link says, without going there.
    fn link(&self, below: &Path) -> Option<PathBuf> {
        let above = self.root.directory(&Relative::new("path below the root", below.parent()?).ok()?, Mounts::Refuse);
        let target = rustix::fs::readlinkat(above.ok()?, below.file_name()?, Vec::new()).ok()?;
        Some(PathBuf::from(target.into_string().ok()?))
    }
}
