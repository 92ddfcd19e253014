//! Growing a volume on the node (E-119, E-280..E-289).
//!
//! Whether the node may grow a volume is written in its claim; that decision is a table and stands here, apart from the
//! engine, for whoever looks claims up. The engine is told the sizes and asks for the call.

/// How large a volume should be and is, as its claim and its volume object say.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Size {
    /// How large it should be: what [`decide`] said, else the capacity of the volume object.
    pub wanted_bytes: Option<u64>,
    /// How large the claim says it is. Counts only until this node knows better (E-115).
    pub recorded_bytes: Option<u64>,
}
