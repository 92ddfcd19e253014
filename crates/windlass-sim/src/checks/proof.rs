//! I-4, proof before hand-out: whatever the engine hands out is mounted now, and is what a publish of this boot made.
//!
//! Where an operation runs, or a change is on its way to the engine, what is there may be newer than what it knows.

use crate::kernel::Maker;
use crate::world::World;
use windlass_core::event::MountPlace;
use windlass_core::snapshot::Snapshot;

/// What the check is called.
pub const NAME: &str = "proof before hand-out (I-4)";

/// Judges everything that the engine would hand out now.
pub fn check(world: &World, snapshot: &Snapshot) -> Result<(), String> {
    let Some(process) = &world.process else {
        return Ok(());
    };
    for uid in snapshot.pods.iter().map(|it| &it.uid) {
        for (name, mounted) in process.engine.mounted_volumes(uid) {
            let place = MountPlace::Publish(mounted.volume.clone(), uid.clone());
            if process.is_unsettled(&place) {
                continue;
            }
            match world.kernel.visible(&place) {
                None => {
                    return Err(format!("{name} of pod {uid} is handed out, but nothing is mounted there"));
                }
                Some(mount) if mount.maker == Maker::Foreign => {
                    return Err(format!("{name} of pod {uid} is handed out, but it is somebody else's mount"));
                }
                Some(mount) if !mounted.proof.holds_for(&mount.proof) => {
                    return Err(format!(
                        "{name} of pod {uid} is handed out as {:?}, but {:?} is mounted",
                        mounted.proof, mount.proof
                    ));
                }
                Some(_) if world.contents.get(&place).is_none_or(|(_, boot)| *boot != world.boot) => {
                    return Err(format!("{name} of pod {uid} is handed out, but nobody published it in this boot"));
                }
                Some(_) => {}
            }
        }
    }
    Ok(())
}
