//! What things are called: a type for each kind of name, so that none can be taken for another.
//!
//! ```
//! use windlass::ids::PodUid;
//!
//! let uid = PodUid::from("2d61a2b7-9b0c-4b8a-bbd2-5d3a6a4e3a0f");
//! assert_eq!(uid.as_str().len(), 36);
//! ```

pub use windlass_core::ids::{
    DriverName, ObjectName, OperationId, OuterName, PluginName, PodUid, SourceName, Time, Version, VolumeId,
};
