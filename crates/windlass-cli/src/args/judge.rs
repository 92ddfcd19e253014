//! What can be typed after `windlass csi judge`.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, ValueEnum};
use windlass_judge::fault::Fault;
use windlass_judge::settings::Due;

use super::{TextFormat, duration};

/// What the judge's node service can do.
#[derive(ValueEnum, Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Ability {
    /// Volumes are staged (STAGE_UNSTAGE_VOLUME)
    Stage,
    /// It tells how full volumes are (GET_VOLUME_STATS)
    Stats,
    /// Volumes grow (EXPAND_VOLUME)
    Expand,
    /// It tells whether volumes are well (VOLUME_CONDITION)
    Condition,
    /// It knows the newer access modes (SINGLE_NODE_MULTI_WRITER)
    SingleNodeMultiWriter,
    /// It gives volumes to a group itself (VOLUME_MOUNT_GROUP)
    MountGroup,
    /// Nothing of these
    None,
}

/// When the judge ends by itself.
#[derive(ValueEnum, Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Until {
    /// Volumes have come, and all of them are gone again
    Idle,
}

/// What the judge is to be, to expect and to play, and when it ends.
#[derive(Args, Debug)]
#[command(after_help = AFTER)]
pub(crate) struct Judge {
    /// The directory in which drivers register, such as /var/lib/kubelet/plugins_registry [default: plugins_registry below
    /// the root of windlass]
    #[arg(long, value_name = "DIR", conflicts_with = "unregistered")]
    pub(crate) registry: Option<PathBuf>,

    /// Register nowhere: whoever calls finds the endpoint otherwise
    #[arg(long)]
    pub(crate) unregistered: bool,

    /// The socket to serve on [default: judge/csi.sock in the runtime directory]
    #[arg(long, value_name = "SOCKET")]
    pub(crate) endpoint: Option<PathBuf>,

    /// Where its volumes are mounted while it runs [default: judge in the runtime directory]
    #[arg(long, value_name = "DIR")]
    pub(crate) state: Option<PathBuf>,

    /// The name of the driver
    #[arg(long, default_value = "judge.csi.windlass.dev", value_parser = driver_name)]
    pub(crate) name: String,

    /// The name of this node to the driver [default: the name of this machine]
    #[arg(long, value_name = "NAME")]
    pub(crate) node_id: Option<String>,

    /// Volumes must be attached first (ControllerPublishVolume)
    #[arg(long)]
    pub(crate) attach: bool,

    /// The driver makes and deletes volumes (CreateVolume, DeleteVolume)
    #[arg(long)]
    pub(crate) create: bool,

    /// Its controller service makes volumes larger before the node does (ControllerExpandVolume)
    #[arg(long)]
    pub(crate) grow: bool,

    /// What the driver says that its node service can do
    #[arg(long, value_name = "LIST", value_delimiter = ',',
        default_values = ["stage", "stats", "expand", "condition", "single-node-multi-writer"])]
    pub(crate) capabilities: Vec<Ability>,

    /// Calls that must bring secrets (create, delete, grow, attach, stage, publish, expand), or one by name as in stage=key
    #[arg(long, value_name = "CALL[=NAME]", value_delimiter = ',')]
    pub(crate) require_secret: Vec<Due>,

    /// Play a fault, for each volume anew. CALL is create, delete, grow, attach, detach, stage, unstage, publish, unpublish,
    /// expand or stats; KIND is refused, or timeout, silence or connection-lost with -with-effect or -without-effect after
    /// it, a code of gRPC such as not-found, slow, lie, or too-small
    #[arg(long, value_name = "CALL=KIND[:TIMES]", value_delimiter = ',')]
    pub(crate) fault: Vec<Fault>,

    /// How long slow answers take, for example 500ms or 5s
    #[arg(long, value_name = "TIME", value_parser = duration, default_value = "2s")]
    pub(crate) slow_by: Duration,

    /// End by itself when this is so
    #[arg(long, value_name = "WHEN")]
    pub(crate) until: Option<Until>,

    /// End by itself after this time, for example 30s, 5m or 1h
    #[arg(long = "for", value_name = "TIME", value_parser = duration)]
    pub(crate) time: Option<Duration>,

    /// What is still published at the end is in use, not forgotten
    #[arg(long)]
    pub(crate) in_use_allowed: bool,

    /// Fail also for what is only unwise
    #[arg(long)]
    pub(crate) strict: bool,

    /// Print every call as it comes, and every rule when it is broken, to standard error
    #[arg(long)]
    pub(crate) log: bool,

    /// How to print the verdict
    #[arg(short, long, value_name = "FORMAT", default_value = "text")]
    pub(crate) output: TextFormat,
}

const AFTER: &str = "\
Example:
  windlass csi judge --registry /var/lib/kubelet/plugins_registry --log \\
      --fault stage=timeout-with-effect,publish=connection-lost-without-effect:2

Exit status: 0 nothing is broken, 1 something is (with --strict also if something is unwise), 4 no call for a volume came.";

fn driver_name(text: &str) -> Result<String, String> {
    windlass_csi::check_name(text).map(|()| text.to_owned()).map_err(|error| error.to_string())
}
