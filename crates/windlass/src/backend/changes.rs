//! What changes of a node touch of what is shown.

use async_trait::async_trait;
use windlass_api::server::{self, Touched};

use crate::node::{Change, Changes};

/// The changes of a node, as one watch hears of them.
pub(super) struct NodeChanges(pub(super) Changes);

#[async_trait]
impl server::Changes for NodeChanges {
    async fn next(&mut self) -> Option<Touched> {
        let mut touched = Touched::default();
        while touched.is_empty() {
            take(&mut touched, self.0.next().await?);
            // All that have happened by now are one batch.
            while !self.0.is_empty() {
                take(&mut touched, self.0.next().await?);
            }
        }
        Some(touched)
    }
}

fn take(touched: &mut Touched, change: Change) {
    match change {
        Change::Missed(_) | Change::Synced => touched.everything = true,
        Change::Pod { pod, .. }
        | Change::PodReleased(pod)
        | Change::VolumesReleased(pod)
        | Change::Leftover { pod, .. } => {
            touched.pods.insert(pod.to_string());
        }
        Change::Volume { volume, pod: Some(pod), .. } => {
            touched.volumes.insert(volume.to_string());
            touched.pods.insert(pod.to_string());
        }
        Change::Volume { volume, pod: None, .. } | Change::Expansion { volume, .. } => {
            touched.volumes.insert(volume.to_string());
            touched.shared_volumes.insert(volume.to_string());
        }
        Change::Driver { name, .. } | Change::DriverBack { name } | Change::DriverUnreachable { name, .. } => {
            touched.drivers.insert(name.to_string());
        }
        Change::ClaimChanged { claim } => {
            touched.claims.insert(claim.to_string());
        }
        // The volume that made it so was told just before.
        Change::PodMounted(_)
        | Change::Event(_)
        | Change::TookOver { .. }
        | Change::InUse { .. }
        | Change::DriverRefused { .. }
        | Change::Claim { .. }
        | Change::SourceLost { .. }
        | Change::PodOfTwoSources { .. }
        | Change::OperationEnded(_)
        | Change::Oddity { .. }
        | Change::Damaged { .. }
        | Change::RootCovered { .. }
        | Change::DiskUnreadable { .. } => {}
    }
}
