//! Growing: a volume that said it cannot grow while in use is not asked again while it is here, and one that cannot have a
//! size is not asked for that size again (E-286).

use crate::process::RefusedGrowth;
use crate::world::World;
use windlass_core::Operation;
use windlass_core::operation::Action;

/// What the check is called.
pub const NAME: &str = "growth";

/// Judges an operation that is about to start.
pub fn check(world: &World, operation: &Operation) -> Result<(), String> {
    let (Some(process), Action::Expand { from_bytes, to_bytes, .. }) = (&world.process, &operation.action) else {
        return Ok(());
    };
    let volume = operation.volume();
    if from_bytes >= to_bytes {
        return Err(format!("{volume} is asked to grow from {from_bytes} to {to_bytes} bytes"));
    }
    match process.refused_growth.get(volume) {
        Some(RefusedGrowth::InUse) => Err(format!("{volume} is asked to grow in use, which it cannot")),
        Some(RefusedGrowth::To(bytes)) if bytes == to_bytes => {
            Err(format!("{volume} is asked again to grow to {to_bytes} bytes, which it cannot"))
        }
        Some(RefusedGrowth::To(_)) | None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::checks::tests::world_in_which;
    use windlass_core::ids::{OperationId, Time};

    #[test]
    fn asking_again_for_what_cannot_be_is_noticed() {
        let refused = |world: &World| {
            let process = world.process.as_ref()?;
            let (volume, refused) = process.refused_growth.iter().next()?;
            let record = world.disk.published().find_map(|it| it.record.filter(|it| it.spec.id == *volume))?;
            let to_bytes = match refused {
                RefusedGrowth::InUse => 2,
                RefusedGrowth::To(bytes) => *bytes,
            };
            let action = Action::Expand { pod: "p".into(), from_bytes: 1, to_bytes };
            let (spec, deadline) = (record.spec.clone(), Time(u64::MAX));
            Some(Operation { id: OperationId(1 << 40), spec, action, failures: 0, deadline })
        };
        let world = world_in_which(|it| refused(it).is_some());
        let operation = refused(&world).expect("it was just there");
        assert!(check(&world, &operation).is_err());
    }
}
