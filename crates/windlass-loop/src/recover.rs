//! The start after whatever end: what was about to be done and is not finished is taken away, what is gone is forgotten, and
//! loop devices of our images that nothing uses are detached.
//!
//! The orchestrator knows nothing of a call that was cut off, and makes it again or undoes it; either finds nothing here, or
//! all of it. Trouble with one volume is said and keeps no other from being used.

use tonic::Status;

use crate::disk::Loops;
use crate::record::{Life, Record};
use crate::store::Store;
use crate::{publish, stage};

/// Puts the state directory in order. Nobody else may be at work.
pub fn recover(store: &Store) {
    match store.strays() {
        Err(error) => tracing::error!(error = error.message(), "the images cannot be listed"),
        Ok(strays) => {
            for (name, image) in strays {
                // What a killed driver has started may still have it open, and then the loop device goes when that ends.
                let removed = Loops::of_image(&image).and_then(|loops| {
                    loops.detach()?;
                    drop(image);
                    store.remove_stray(&name)
                });
                match removed {
                    Ok(()) => tracing::info!(image = %name, "removed an image that was not finished, or not gone"),
                    Err(error) => tracing::error!(image = %name, error = error.message(), "this image stays"),
                }
            }
        }
    }
    for record in store.volumes() {
        let id = record.id.clone();
        if let Err(error) = volume(store, record) {
            tracing::error!(volume = id, error = error.message(), "this volume is not in order");
        }
    }
}

fn volume(store: &Store, mut record: Record) -> Result<(), Status> {
    let loops = Loops::of(store, &record)?;
    for published in record.published.clone() {
        let there = published.done && publish::is_there(&published, &loops)?;
        // A volume that lives with a pod ends by unpublish alone: its data may be there.
        let waits = record.life == Life::Ephemeral && published.done;
        if !there && !waits {
            tracing::info!(volume = record.id, path = %published.spot.path.display(), "was not published, or is not any more");
            publish::undo(store, &mut record, &published.spot)?;
        }
    }
    if let Some(staged) = &record.staged
        && !(staged.done && stage::is_there(staged, &loops)?)
        && record.published.is_empty()
    {
        tracing::info!(volume = record.id, path = %staged.spot.path.display(), "was not staged, or is not any more");
        stage::undo(store, &mut record)?;
    }
    if !record.is_used() && !loops.is_empty() {
        loops.detach()?;
    }
    // Nobody got it, so nobody has put anything into it.
    if record.life == Life::Ephemeral && record.published.is_empty() {
        publish::end(store, &record)?;
    }
    Ok(())
}
