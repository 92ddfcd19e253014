//! What the judge pretends to be, and what it expects.

use std::time::Duration;

use windlass_csi::NodeCapabilities;

use crate::fault::{Call, Fault};

/// What the judge pretends to be, and what it expects.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Settings {
    /// What its node service can do.
    pub capabilities: NodeCapabilities,
    /// Volumes must be attached first.
    pub attach: bool,
    /// Its controller service makes and deletes volumes.
    pub create: bool,
    /// Its controller service makes volumes larger.
    pub grow: bool,
    /// The name of the node.
    pub node_id: String,
    /// The secrets that are due.
    pub secrets: Vec<Due>,
    /// The faults to play, for each volume anew.
    pub faults: Vec<Fault>,
    /// How long an answer takes that is slow.
    pub slow_by: Duration,
    /// Volumes that are still published at the end are in use, not forgotten.
    pub in_use_allowed: bool,
}

impl Settings {
    /// Whether it has a controller service.
    pub fn has_controller(&self) -> bool {
        self.attach || self.create || self.grow
    }
}

/// A secret that is due in a call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Due {
    /// The call.
    pub call: Call,
    /// The name of an entry that must be there; without it any will do.
    pub name: Option<String>,
}

impl std::str::FromStr for Due {
    type Err = String;

    /// `stage`, or `stage=NAME`.
    fn from_str(text: &str) -> Result<Self, String> {
        let (call, name) = match text.split_once('=') {
            Some((_, "")) => return Err(format!("{text:?} names no secret after the =")),
            Some((call, name)) => (call, Some(name.to_owned())),
            None => (text, None),
        };
        let call: Call = call.parse()?;
        match call {
            Call::Create | Call::Delete | Call::Grow | Call::Attach | Call::Stage | Call::Publish | Call::Expand => {
                Ok(Self { call, name })
            }
            Call::Detach | Call::Unstage | Call::Unpublish | Call::Stats => Err(format!(
                "{} carries no secrets that could be due; create, delete, grow, attach, stage, publish and expand do",
                call.name()
            )),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets_that_are_due_are_read_as_they_are_written() {
        assert_eq!("stage".parse(), Ok(Due { call: Call::Stage, name: None }));
        assert_eq!("publish=key".parse(), Ok(Due { call: Call::Publish, name: Some("key".into()) }));
        for wrong in ["", "stage=", "unstage", "mount=key"] {
            assert!(wrong.parse::<Due>().is_err(), "{wrong}");
        }
    }
}
