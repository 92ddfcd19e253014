//! What can be typed. Help, completions and manual pages are made from this.

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand, ValueEnum};

use crate::daemon::config::Settings;

/// Mounts the volumes of pods and keeps them current, without a kubelet.
#[derive(Parser, Debug)]
#[command(name = "windlass", version, propagate_version = true, max_term_width = 100, after_help = AFTER)]
pub(crate) struct Arguments {
    /// The daemon's socket [default: /run/windlass/api.sock; for a user $XDG_RUNTIME_DIR/windlass/api.sock]
    #[arg(long, global = true, value_name = "PATH", env = "WINDLASS_SOCKET")]
    pub(crate) socket: Option<PathBuf>,

    #[command(flatten)]
    pub(crate) look: Look,

    #[command(subcommand)]
    pub(crate) command: Command,
}

const AFTER: &str = "\
Exit status: 0 done, 1 failed or not so, 2 wrong usage, 3 the daemon cannot be reached, 4 not true in time.
Data goes to standard output, everything else to standard error.";

/// How output looks.
#[derive(Args, Debug)]
pub(crate) struct Look {
    /// When to use color
    #[arg(long, global = true, value_name = "WHEN", default_value = "auto", hide_possible_values = false)]
    pub(crate) color: Color,
}

/// When to use color.
#[derive(ValueEnum, Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Color {
    /// On a terminal, unless NO_COLOR is set
    Auto,
    /// Always
    Always,
    /// Never
    Never,
}

#[derive(Subcommand, Debug)]
pub(crate) enum Command {
    /// Run the daemon on a directory of manifests
    Run(Box<Settings>),
    /// List pods, volumes, mounts, operations or the node
    Get(Get),
    /// Show everything about a pod, a volume or the node
    Describe(Describe),
    /// Say why the volumes of a pod are not mounted, and what to do
    Explain(Explain),
    /// Wait until the volumes of pods are mounted, or gone
    Wait(Wait),
    /// Show pods and their volumes as a tree
    Tree(Tree),
    /// List what happened to pods, in the kubelet's words
    Events(Events),
    /// Print what to give the containers of a pod
    Mounts(Mounts),
    /// Check a directory of manifests without a daemon
    Validate(Validate),
    /// Print the versions of this program and of the daemon
    Version(Version),
    /// Print a completion script for a shell
    Completion(Completion),
    /// Write manual pages to a directory
    #[command(hide = true)]
    Man(Man),
}

/// Which namespaces.
#[derive(Args, Debug, Clone)]
pub(crate) struct Namespaces {
    /// The namespace
    #[arg(short, long, value_name = "NAME", default_value = "default", env = "WINDLASS_NAMESPACE")]
    pub(crate) namespace: String,

    /// All namespaces
    #[arg(short = 'A', long, conflicts_with = "namespace")]
    pub(crate) all_namespaces: bool,
}

#[derive(ValueEnum, Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Resource {
    /// Pods and whether their volumes are mounted
    #[value(alias = "pod", alias = "po")]
    Pods,
    /// Volumes of this node, whoever uses them
    #[value(alias = "volume", alias = "vol")]
    Volumes,
    /// Volumes as pods have them
    #[value(alias = "mount")]
    Mounts,
    /// Work that runs
    #[value(alias = "operation", alias = "op", alias = "ops")]
    Operations,
    /// What happened to pods
    #[value(alias = "event", alias = "ev")]
    Events,
    /// The daemon, and what is wrong with its manifests
    #[value(alias = "nodes", alias = "no")]
    Node,
}

#[derive(ValueEnum, Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum Format {
    /// A table
    #[default]
    Table,
    /// A table with more columns
    Wide,
    /// JSON
    Json,
    /// YAML
    Yaml,
    /// Only kind and name
    Name,
}

#[derive(Args, Debug)]
pub(crate) struct Get {
    /// What to list
    #[arg(value_name = "RESOURCE")]
    pub(crate) resource: Resource,

    /// Only these
    #[arg(value_name = "NAME")]
    pub(crate) names: Vec<String>,

    #[command(flatten)]
    pub(crate) namespaces: Namespaces,

    /// How to print it
    #[arg(short, long, value_name = "FORMAT", default_value = "table")]
    pub(crate) output: Format,

    /// Go on and print what changes
    #[arg(short, long)]
    pub(crate) watch: bool,

    /// Without a heading
    #[arg(long)]
    pub(crate) no_headers: bool,
}

#[derive(Args, Debug)]
pub(crate) struct Describe {
    /// The kind: pod, volume or node
    #[arg(value_name = "RESOURCE", value_parser = ["pod", "pods", "volume", "volumes", "node"])]
    pub(crate) resource: String,

    /// Only these; without a name all
    #[arg(value_name = "NAME")]
    pub(crate) names: Vec<String>,

    #[command(flatten)]
    pub(crate) namespaces: Namespaces,
}

#[derive(Args, Debug)]
pub(crate) struct Explain {
    /// A pod, or one volume of a pod
    #[arg(value_name = "POD[/VOLUME]")]
    pub(crate) what: String,

    /// The namespace
    #[arg(short, long, value_name = "NAME", default_value = "default", env = "WINDLASS_NAMESPACE")]
    pub(crate) namespace: String,

    /// How to print it
    #[arg(short, long, value_name = "FORMAT", default_value = "text")]
    pub(crate) output: TextFormat,
}

#[derive(ValueEnum, Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum TextFormat {
    /// For people
    Text,
    /// JSON
    Json,
    /// YAML
    Yaml,
}

#[derive(ValueEnum, Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Goal {
    /// All volumes are mounted
    Mounted,
    /// No volume is left
    Unmounted,
}

#[derive(Args, Debug)]
pub(crate) struct Wait {
    /// What to wait for
    #[arg(long = "for", value_name = "GOAL", default_value = "mounted")]
    pub(crate) goal: Goal,

    /// The pods
    #[arg(value_name = "POD", required_unless_present = "all", conflicts_with = "all")]
    pub(crate) pods: Vec<String>,

    /// All pods there are
    #[arg(long)]
    pub(crate) all: bool,

    #[command(flatten)]
    pub(crate) namespaces: Namespaces,

    /// Give up after this time, for example 30s, 5m or 1h; 0 only looks
    #[arg(long, value_name = "TIME", default_value = "30s", value_parser = duration)]
    pub(crate) timeout: std::time::Duration,
}

#[derive(Args, Debug)]
pub(crate) struct Tree {
    /// Only these pods
    #[arg(value_name = "POD")]
    pub(crate) pods: Vec<String>,

    #[command(flatten)]
    pub(crate) namespaces: Namespaces,

    /// Look at the disk below this directory, without a daemon
    #[arg(long, value_name = "DIR")]
    pub(crate) root: Option<PathBuf>,
}

#[derive(Args, Debug)]
pub(crate) struct Events {
    /// Only of this pod
    #[arg(value_name = "POD")]
    pub(crate) pod: Option<String>,

    #[command(flatten)]
    pub(crate) namespaces: Namespaces,

    /// Go on and print what happens
    #[arg(short, long)]
    pub(crate) watch: bool,

    /// How to print it
    #[arg(short, long, value_name = "FORMAT", default_value = "table")]
    pub(crate) output: Format,
}

#[derive(ValueEnum, Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum MountsFormat {
    /// For people
    Table,
    /// JSON
    Json,
    /// The mounts and devices of an OCI runtime configuration (config.json)
    Oci,
    /// Arguments of podman run, one a line
    Podman,
    /// Arguments of docker run, one a line
    Docker,
}

#[derive(Args, Debug)]
pub(crate) struct Mounts {
    /// The pod
    #[arg(value_name = "POD")]
    pub(crate) pod: String,

    /// The namespace
    #[arg(short, long, value_name = "NAME", default_value = "default", env = "WINDLASS_NAMESPACE")]
    pub(crate) namespace: String,

    /// The container; needed for oci, podman and docker if the pod has several
    #[arg(short, long, value_name = "NAME")]
    pub(crate) container: Option<String>,

    /// How to print it
    #[arg(short, long, value_name = "FORMAT", default_value = "table")]
    pub(crate) output: MountsFormat,
}

#[derive(Args, Debug)]
pub(crate) struct Validate {
    /// A directory of manifests, or one file
    #[arg(value_name = "DIR")]
    pub(crate) path: PathBuf,

    /// Fail on warnings too
    #[arg(long)]
    pub(crate) strict: bool,

    /// How to print it
    #[arg(short, long, value_name = "FORMAT", default_value = "text")]
    pub(crate) output: TextFormat,
}

#[derive(Args, Debug)]
pub(crate) struct Version {
    /// How to print it
    #[arg(short, long, value_name = "FORMAT", default_value = "text")]
    pub(crate) output: TextFormat,

    /// Only of this program
    #[arg(long)]
    pub(crate) client: bool,
}

#[derive(Args, Debug)]
pub(crate) struct Completion {
    /// The shell
    pub(crate) shell: clap_complete::Shell,
}

#[derive(Args, Debug)]
pub(crate) struct Man {
    /// Where to write them
    #[arg(value_name = "DIR")]
    pub(crate) directory: PathBuf,
}

/// A time as people write it: a number and s, m or h, or several of these.
pub(crate) fn duration(text: &str) -> Result<std::time::Duration, String> {
    let seconds = text.parse::<u64>().ok().map(std::time::Duration::from_secs);
    let friendly = || text.parse::<jiff::SignedDuration>().ok().and_then(|it| it.try_into().ok());
    seconds.or_else(friendly).ok_or_else(|| format!("{text:?} is no time; write for example 30s, 5m or 1h30m"))
}
