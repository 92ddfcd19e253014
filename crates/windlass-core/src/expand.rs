//! Growing a volume on the node (E-119, E-280..E-289).
//!
//! Whether this node should grow a volume is written in its claim. That is a table, and stands here for whoever looks
//! claims up: it turns a claim into a [`Size`], and the way an attempt ended into what the claim should say. The engine
//! itself only compares sizes.

use crate::operation::Cause;

/// How large a volume should be and is.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Size {
    /// How large it should be; not known if `None`, and then it is not grown.
    pub wanted_bytes: Option<u64>,
    /// How large its claim says it is. Counts only until this node knows better (E-115), if this node is to grow it at all.
    pub recorded_bytes: Option<u64>,
}

/// What a claim says of its volume's size.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Claim {
    /// The capacity of the volume object.
    pub volume_bytes: u64,
    /// `status.capacity`.
    pub capacity_bytes: u64,
    /// `status.allocatedResources`, by which a resize is recovered (E-283).
    pub allocated_bytes: Option<u64>,
    /// `status.allocatedResourceStatuses`.
    pub resize: Resize,
    /// Whether it is `ReadWriteMany`, so that each node grows it for itself.
    pub many_writers: bool,
    /// Whether the annotation `volume.kubernetes.io/node-expansion-not-required` is set.
    pub not_required: bool,
}

/// Where a resize stands, as far as the node cares.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Resize {
    /// No resize is under way.
    None,
    /// The node may begin: `NodeResizePending` or `NodeResizeInProgress`.
    Node,
    /// It is not the node's turn, or it has been given up: any other status.
    Other,
}

impl Size {
    /// The size that this node should give a claim's volume (E-283, E-284).
    pub fn of(claim: &Claim) -> Self {
        let has = claim.capacity_bytes;
        let size = |wanted, recorded| Self { wanted_bytes: Some(wanted), recorded_bytes: Some(recorded) };
        let recovers = claim.allocated_bytes.is_some() || claim.resize != Resize::None;
        if !recovers {
            return size(claim.volume_bytes.max(has), has);
        }
        let wanted = claim.allocated_bytes.unwrap_or(claim.volume_bytes);
        let reached = has >= wanted && claim.resize == Resize::None;
        if claim.resize == Resize::Node {
            // Also if the capacity says that it is there: the claim says that it is not done.
            size(wanted, has.min(wanted.saturating_sub(1)))
        } else if reached && claim.many_writers && !claim.not_required {
            // Another node has grown it; this one has not, as far as is known.
            size(wanted, 0)
        } else {
            size(has, has)
        }
    }

    /// How large a volume is as far as this node knows, that was `known` to be so large before. What a node does not grow
    /// is as large as its claim says.
    pub(crate) fn known(&self, known: Option<u64>, grows_here: bool) -> Option<u64> {
        if grows_here { known.or(self.recorded_bytes) } else { known.max(self.recorded_bytes) }
    }
}

impl Claim {
    /// Whether a node has nothing to do about the size: whoever grew the volume says that it is done. The kubelet takes
    /// that for the size that it knows, and calls nobody (E-284).
    pub fn is_done(&self) -> bool {
        let recovers = self.allocated_bytes.is_some() || self.resize != Resize::None;
        let reached = self.capacity_bytes >= self.allocated_bytes.unwrap_or(self.volume_bytes);
        recovers && reached && self.resize == Resize::None && (self.not_required || !self.many_writers)
    }
}

/// What a claim should say after an attempt to grow its volume failed for good (E-286).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ClaimUpdate {
    /// Nothing.
    None,
    /// The condition `NodeResizeError`.
    Condition,
    /// The condition, and the status `NodeResizeInfeasible`.
    Infeasible,
}

impl ClaimUpdate {
    /// After a refusal. `requested` is whether the claim still asks for the size that was tried, `before` whether an
    /// earlier attempt failed for good too.
    pub fn after_refusal(cause: &Cause, requested: bool, before: bool) -> Self {
        match cause {
            Cause::Infeasible => Self::Infeasible,
            Cause::InUse | Cause::NotSupported | Cause::Driver | Cause::Object(_) => Self::None,
            Cause::Node(_) | Cause::Other if !requested && before => Self::Infeasible,
            Cause::Node(_) | Cause::Other => Self::Condition,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::operation::Obstacle;

    const GROWING: Claim = Claim {
        volume_bytes: 20,
        capacity_bytes: 10,
        allocated_bytes: Some(20),
        resize: Resize::Node,
        many_writers: false,
        not_required: false,
    };

    fn grows(claim: Claim) -> Option<(u64, u64)> {
        let size = Size::of(&claim);
        let (from, to) = size.recorded_bytes.zip(size.wanted_bytes)?;
        (to > from).then_some((from, to))
    }

    /// C-35.
    #[test]
    fn a_claim_says_whether_its_node_grows_it() {
        let reached = Claim { capacity_bytes: 20, resize: Resize::None, ..GROWING };
        assert_eq!(grows(GROWING), Some((10, 20)), "pending");
        assert_eq!(grows(Claim { resize: Resize::Other, ..GROWING }), None, "infeasible");
        assert_eq!(grows(reached), None, "already there");
        assert_eq!(grows(Claim { many_writers: true, ..reached }), Some((0, 20)), "each node of a shared volume");
        assert_eq!(grows(Claim { many_writers: true, not_required: true, ..reached }), None, "not required");
    }

    #[test]
    fn a_claim_that_has_grown_leaves_nothing_to_a_node_but_of_a_shared_volume() {
        let reached = Claim { capacity_bytes: 20, resize: Resize::None, ..GROWING };
        assert!(reached.is_done());
        assert!(!GROWING.is_done() && !Claim { capacity_bytes: 10, ..reached }.is_done());
        assert!(!Claim { resize: Resize::Other, ..reached }.is_done());
        assert!(!Claim { many_writers: true, ..reached }.is_done());
        assert!(Claim { many_writers: true, not_required: true, ..reached }.is_done());
        assert!(!Claim { allocated_bytes: None, ..reached }.is_done(), "then the kubelet asks once more");
    }

    #[test]
    fn a_claim_without_recovery_grows_to_its_volume() {
        let legacy = Claim { allocated_bytes: None, resize: Resize::None, ..GROWING };
        assert_eq!(grows(legacy), Some((10, 20)));
        assert_eq!(grows(Claim { capacity_bytes: 30, ..legacy }), None);
    }

    /// C-35.
    #[test]
    fn a_refusal_is_infeasible_if_it_says_so_or_if_the_request_has_moved_on() {
        use ClaimUpdate::{Condition, Infeasible, None};
        assert_eq!(ClaimUpdate::after_refusal(&Cause::Infeasible, true, false), Infeasible);
        assert_eq!(ClaimUpdate::after_refusal(&Cause::Other, true, true), Condition);
        assert_eq!(ClaimUpdate::after_refusal(&Cause::Other, false, false), Condition);
        assert_eq!(ClaimUpdate::after_refusal(&Cause::Other, false, true), Infeasible);
        assert_eq!(ClaimUpdate::after_refusal(&Cause::InUse, false, true), None);
        for obstacle in Obstacle::ALL {
            let cause = Cause::Node(*obstacle);
            assert_eq!(ClaimUpdate::after_refusal(&cause, true, true), Condition, "{obstacle:?}");
            assert_eq!(ClaimUpdate::after_refusal(&cause, false, true), Infeasible, "{obstacle:?}");
        }
    }
}
