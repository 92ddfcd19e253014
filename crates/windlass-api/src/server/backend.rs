//! What the server asks of whoever knows the node. `windlass` implements it for its own node, with its feature `server`.

use std::collections::BTreeSet;

use async_trait::async_trait;

use crate::view::{
    Claim, ClaimDeletion, Containers, Driver, Node, Operation, Pod, PodStatistics, Retry, Status, Volume,
};

/// Answers what is asked of a node.
///
/// A [`Status`] says why there is no answer; one that is *unavailable* from a node that has ended. Nothing here may block
/// the thread. Questions about one thing look at that thing, however many others there are (I-9).
#[async_trait]
pub trait Backend: Send + Sync + 'static {
    /// The daemon and its node.
    async fn node(&self) -> Result<Node, Status>;

    /// Pods with their volumes, all of them sorted by namespace and name.
    async fn pods(&self, which: Pods<'_>) -> Result<Vec<Pod>, Status>;

    /// The volumes of the node, or the one of this name if it is there.
    async fn volumes(&self, only: Option<&str>) -> Result<Vec<Volume>, Status>;

    /// The CSI drivers, or the one of this name if it is known.
    async fn drivers(&self, only: Option<&str>) -> Result<Vec<Driver>, Status>;

    /// The drivers that these volumes are of, in this order; `None` for a volume that is of none, or is not here.
    async fn drivers_of(&self, volumes: &[String]) -> Result<Vec<Option<String>>, Status>;

    /// The claims, or the one of this namespace and name if it is there or something was made for it.
    async fn claims(&self, only: Option<(&str, &str)>) -> Result<Vec<Claim>, Status>;

    /// The operations that run, oldest first.
    async fn operations(&self) -> Result<Vec<Operation>, Status>;

    /// What the containers of a pod are to be given. Every mount is looked at (I-4), for as long as that takes.
    async fn containers(&self, pod: &Pod) -> Result<Containers, Status>;

    /// How full the volumes of a pod are. One that does not answer in time is told of with an error in its place (I-6).
    async fn statistics(&self, pod: &Pod) -> Result<PodStatistics, Status>;

    /// Takes a pod away that is held because nobody names it.
    async fn delete_pod(&self, pod: &Pod) -> Result<(), Status>;

    /// Takes volumes away that are held because the pod had them before the start and does not name them.
    async fn delete_orphans(&self, pod: &Pod) -> Result<(), Status>;

    /// Has the volume deleted now that was made for a claim that is gone.
    async fn delete_claim(&self, namespace: &str, name: &str) -> Result<ClaimDeletion, Status>;

    /// Tries at once what failed: of a pod, or of one volume of it by the pod's name for it; of everything if no pod is
    /// given.
    async fn retry(&self, pod: Option<&Pod>, volume: Option<&str>) -> Result<Retry, Status>;

    /// Tries at once what failed for a claim.
    async fn retry_claim(&self, claim: &Claim) -> Result<Retry, Status>;

    /// Whether everything is known. That there is an answer at all shows that the node is alive.
    async fn readiness(&self) -> Result<Readiness, Status>;

    /// What is counted, as Prometheus reads it (version 0.0.4 of its text format). Walks nothing (I-9).
    async fn metrics(&self) -> Result<String, Status>;

    /// What changes from now on.
    fn changes(&self) -> Box<dyn Changes>;
}

/// Which pods are asked for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Pods<'a> {
    /// All there are.
    All,
    /// Those of this name: mostly one, and more while an earlier one of the same name goes.
    Named {
        /// The namespace.
        namespace: &'a str,
        /// The name.
        name: &'a str,
    },
    /// Those of these UIDs; one that is not there is left out.
    Uids(&'a [String]),
}

/// Whether what is shown is all there is.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Readiness {
    /// It is.
    Ready,
    /// Not yet.
    NotReady {
        /// Why not, for people.
        why: String,
    },
}

/// The changes of a node, as one watch hears of them.
#[async_trait]
pub trait Changes: Send {
    /// Waits for changes and tells what all that have happened by then touched; `None` once the node has ended. A call that
    /// is given up loses nothing that the next one does not tell.
    async fn next(&mut self) -> Option<Touched>;
}

/// What a batch of changes touched.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Touched {
    /// More than can be said.
    pub everything: bool,
    /// Pods, by UID.
    pub pods: BTreeSet<String>,
    /// Volumes, by name.
    pub volumes: BTreeSet<String>,
    /// Those of the volumes that changed as such, whoever has them.
    pub shared_volumes: BTreeSet<String>,
    /// Drivers, by name.
    pub drivers: BTreeSet<String>,
    /// Claims, as `namespace/name`.
    pub claims: BTreeSet<String>,
}

impl Touched {
    /// Nothing was.
    pub fn is_empty(&self) -> bool {
        !self.everything
            && self.pods.is_empty()
            && self.volumes.is_empty()
            && self.drivers.is_empty()
            && self.claims.is_empty()
    }
}
