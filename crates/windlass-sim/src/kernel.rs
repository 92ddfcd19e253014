//! The kernel's mount table: what is mounted where, one over the other, until the next boot.

use std::collections::BTreeMap;
use windlass_core::event::MountPlace;
use windlass_core::ids::{PodUid, VolumeId};
use windlass_core::operation::Proof;

/// The type of file system of what others mount over our volumes.
const FOREIGN: u64 = 99;

/// Where the numbers begin of devices that come into being with their mount.
const NEW_DEVICES: u64 = 1 << 32;

/// All mounts of this boot.
#[derive(Clone, Debug, Default)]
pub struct Kernel {
    /// What is mounted at each place, the topmost last.
    mounts: BTreeMap<MountPlace, Vec<Mount>>,
    last_mount_id: u64,
    last_inode: u64,
}

/// One mount.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Mount {
    /// What identifies it.
    pub proof: Proof,
    /// Who made it.
    pub maker: Maker,
    /// Whether it is a directory rather than a mount, so that a reboot does not take it.
    pub lasting: bool,
}

/// Who made a mount.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Maker {
    /// A plugin or driver, because the engine asked for it.
    Ours,
    /// Somebody else.
    Foreign,
}

impl Kernel {
    /// What is seen at a place: the topmost mount.
    pub fn visible(&self, place: &MountPlace) -> Option<Mount> {
        self.mounts.get(place)?.last().copied()
    }

    /// The proof of what is seen at a place.
    pub fn seen(&self, place: &MountPlace) -> Option<Proof> {
        self.visible(place).map(|it| it.proof)
    }

    /// Mounts a file system of `device`, or a new one, over whatever is at the place.
    pub fn mount(&mut self, place: MountPlace, device: Option<u64>, kind: u64) -> Proof {
        self.last_mount_id += 1;
        let proof = Proof {
            mount_id: self.last_mount_id,
            device: device.unwrap_or(NEW_DEVICES + self.last_mount_id),
            root: 1,
            kind,
        };
        self.push(place, proof, Maker::Ours, false);
        proof
    }

    /// Makes a directory that stands for a mount.
    pub fn make_directory(&mut self, place: MountPlace, device: u64, kind: u64) -> Proof {
        self.last_inode += 1;
        let proof = Proof { mount_id: 0, device, root: self.last_inode, kind };
        self.push(place, proof, Maker::Ours, true);
        proof
    }

    /// Somebody else mounts something over a place.
    pub fn cover(&mut self, place: MountPlace) -> Proof {
        self.last_mount_id += 1;
        let proof =
            Proof { mount_id: self.last_mount_id, device: NEW_DEVICES + self.last_mount_id, root: 1, kind: FOREIGN };
        self.push(place, proof, Maker::Foreign, false);
        proof
    }

    fn push(&mut self, place: MountPlace, proof: Proof, maker: Maker, lasting: bool) {
        self.mounts.entry(place).or_default().push(Mount { proof, maker, lasting });
    }

    /// Takes away everything at a place; says whether there was anything.
    pub fn unmount_all(&mut self, place: &MountPlace) -> bool {
        self.mounts.remove(place).is_some()
    }

    /// Takes away the topmost mount of a place.
    pub fn unmount_top(&mut self, place: &MountPlace) -> bool {
        self.retain(place, |index, last, _| index != last)
    }

    /// Takes away one mount, wherever in the stack it is.
    pub fn unmount(&mut self, place: &MountPlace, mount_id: u64) -> bool {
        self.retain(place, |_, _, mount| mount.proof.mount_id != mount_id)
    }

    fn retain(&mut self, place: &MountPlace, keep: impl Fn(usize, usize, &Mount) -> bool) -> bool {
        let Some(stack) = self.mounts.get_mut(place) else {
            return false;
        };
        let (before, last, mut index) = (stack.len(), stack.len() - 1, 0);
        stack.retain(|mount| {
            index += 1;
            keep(index - 1, last, mount)
        });
        let changed = stack.len() != before;
        if stack.is_empty() {
            self.mounts.remove(place);
        }
        changed
    }

    /// The machine starts anew: only directories are left, and mounts are counted from the beginning.
    pub fn reboot(&mut self) {
        self.last_mount_id = 0;
        self.mounts.retain(|_, stack| {
            stack.retain(|it| it.lasting);
            !stack.is_empty()
        });
    }

    /// The directories that stand for mounts.
    pub fn directories(&self) -> impl Iterator<Item = &MountPlace> {
        let lasting = |stack: &&Vec<Mount>| stack.iter().any(|it| it.lasting);
        self.mounts.iter().filter(move |(_, stack)| lasting(stack)).map(|(place, _)| place)
    }

    /// The places at which we have something mounted, seen or covered.
    pub fn ours(&self) -> impl Iterator<Item = &MountPlace> {
        let made_by_us = |stack: &&Vec<Mount>| stack.iter().any(|it| it.maker == Maker::Ours);
        self.mounts.iter().filter(move |(_, stack)| made_by_us(stack)).map(|(place, _)| place)
    }

    /// All places at which anything is mounted.
    pub fn places(&self) -> impl Iterator<Item = &MountPlace> {
        self.mounts.keys()
    }

    /// The first place that somebody else covered, and with which mount.
    pub fn first_foreign(&self) -> Option<(MountPlace, u64)> {
        self.mounts.iter().find_map(|(place, stack)| {
            let foreign = stack.iter().find(|it| it.maker == Maker::Foreign)?;
            Some((place.clone(), foreign.proof.mount_id))
        })
    }

    /// Is anything of ours mounted for this volume, staged or published?
    pub fn has_volume(&self, volume: &VolumeId) -> bool {
        self.ours().any(|it| volume_of(it) == volume)
    }

    /// The pods to which this volume is published.
    pub fn published_to<'a>(&'a self, volume: &'a VolumeId) -> impl Iterator<Item = &'a PodUid> {
        self.ours().filter_map(move |it| match it {
            MountPlace::Publish(id, pod) if id == volume => Some(pod),
            MountPlace::Publish(..) | MountPlace::Stage(_) => None,
        })
    }
}

/// The volume that a place is for.
pub fn volume_of(place: &MountPlace) -> &VolumeId {
    match place {
        MountPlace::Stage(volume) | MountPlace::Publish(volume, _) => volume,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stage() -> MountPlace {
        MountPlace::Stage("v".into())
    }

    #[test]
    fn what_covers_a_mount_hides_it_until_it_is_taken_away() {
        let mut kernel = Kernel::default();
        let ours = kernel.mount(stage(), Some(7), 1);
        let cover = kernel.cover(stage());
        assert_eq!(kernel.seen(&stage()), Some(cover));
        assert!(kernel.has_volume(&"v".into()));
        assert!(kernel.unmount(&stage(), cover.mount_id));
        assert_eq!(kernel.seen(&stage()), Some(ours));
    }

    #[test]
    fn a_reboot_takes_mounts_and_leaves_directories() {
        let mut kernel = Kernel::default();
        let directory = MountPlace::Publish("d".into(), "p".into());
        kernel.mount(stage(), Some(7), 1);
        let proof = kernel.make_directory(directory.clone(), 2, 2);
        kernel.reboot();
        assert_eq!(kernel.seen(&stage()), None);
        assert_eq!(kernel.seen(&directory), Some(proof));
    }

    #[test]
    fn no_mount_id_comes_twice_in_a_boot() {
        let mut kernel = Kernel::default();
        let one = kernel.mount(stage(), Some(7), 1);
        assert!(kernel.unmount_all(&stage()));
        let other = kernel.mount(stage(), Some(7), 1);
        assert_ne!(one.mount_id, other.mount_id);
        assert!(one.holds_for(&other), "the device is the same");
    }
}
