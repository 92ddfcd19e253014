//! How many volumes there are of each type and how they stand: counted as they change, so that asking walks nothing (I-9).

use crate::actual::{Volume, VolumeKey};
use crate::desired::{NamedVolume, Wanting, wanting};
use crate::engine::Engine;
use crate::ids::{DriverName, PluginName};
use crate::reason::Urgency;
use crate::world::World;
use alloc::vec::Vec;

/// The counts at this moment.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Tally {
    /// Pods' mounts by the type of their volume, sorted; types of which there are none are left out.
    pub types: Vec<OfType>,
    /// How many volumes need how much attention, by [`Urgency`] as a number: each counts with the most urgent of its own
    /// standing and those of its mounts. What a pod names and cannot be made into a volume counts for itself.
    pub urgencies: [usize; Urgency::ALL.len()],
}

/// How many mounts there are of volumes of one type.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct OfType {
    /// The type.
    pub plugin: PluginName,
    /// Its driver, if it has one.
    pub driver: Option<DriverName>,
    /// How many mounts pods want.
    pub wanted: usize,
    /// How many mounts pods have.
    pub mounted: usize,
}

/// What one volume adds to the counts.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct Share {
    wanted: usize,
    mounted: usize,
    urgency: Urgency,
}

impl Share {
    fn of(volume: &Volume, world: &World) -> Self {
        let codes = volume.mounts.iter().map(|it| it.standing.code).chain([volume.standing.code]);
        let is_wanted = |it: &&_| wanting(it, world) != Wanting::NotWanted;
        Self {
            wanted: volume.mounts.iter().filter(|it| it.used.is_some()).filter(is_wanted).count(),
            mounted: volume.mounts.iter().filter(|it| it.step.is_still_here()).count(),
            urgency: codes.map(|it| it.urgency()).max().unwrap_or(Urgency::Settled),
        }
    }
}

impl Tally {
    /// A pod names others than before.
    pub(crate) fn exchange_names(&mut self, before: &[NamedVolume], now: &[NamedVolume]) {
        for trouble in now.iter().filter_map(|it| it.trouble.as_ref()) {
            self.urgencies[trouble.code.urgency() as usize] += 1;
        }
        for trouble in before.iter().filter_map(|it| it.trouble.as_ref()) {
            self.urgencies[trouble.code.urgency() as usize] -= 1;
        }
    }

    fn exchange(&mut self, volume: &Volume, before: Option<Share>, now: Option<Share>) {
        if before == now {
            return;
        }
        let (plugin, driver) = (&volume.spec.plugin, &volume.spec.driver);
        let found = self.types.binary_search_by(|it| (&it.plugin, &it.driver).cmp(&(plugin, driver)));
        let index = found.unwrap_or_else(|index| {
            let new = OfType { plugin: plugin.clone(), driver: driver.clone(), wanted: 0, mounted: 0 };
            self.types.insert(index, new);
            index
        });
        let of_type = &mut self.types[index];
        for it in now.iter() {
            of_type.wanted += it.wanted;
            of_type.mounted += it.mounted;
            self.urgencies[it.urgency as usize] += 1;
        }
        for it in before.iter() {
            of_type.wanted -= it.wanted;
            of_type.mounted -= it.mounted;
            self.urgencies[it.urgency as usize] -= 1;
        }
        if (of_type.wanted, of_type.mounted) == (0, 0) {
            self.types.remove(index);
        }
    }
}

impl Engine {
    /// How many volumes there are of each type, and how they stand.
    pub fn tally(&self) -> &Tally {
        &self.tally
    }

    /// A volume may stand differently than before.
    pub(crate) fn count(&mut self, key: VolumeKey) {
        let volume = &mut self.volumes[key];
        let now = Some(Share::of(volume, &self.world));
        let before = core::mem::replace(&mut volume.share, now);
        self.tally.exchange(volume, before, now);
    }

    /// A volume goes, or becomes one of another type.
    pub(crate) fn discount(&mut self, key: VolumeKey) {
        let volume = &mut self.volumes[key];
        let before = volume.share.take();
        self.tally.exchange(volume, before, None);
    }
}
