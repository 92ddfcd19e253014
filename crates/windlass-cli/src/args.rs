//! What can be typed. Help, completions and manual pages are made from this.

use std::ffi::OsStr;
use std::path::PathBuf;

use clap::builder::{EnumValueParser, PossibleValue, TypedValueParser};
use clap::{Args, Parser, Subcommand, ValueEnum};

use crate::daemon::config::Settings;

mod judge;

pub(crate) use judge::{Ability, Judge, Until};

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

/// What each exit status means; `exit.rs` has them by name.
pub(crate) const EXIT_STATUS: [(u8, &str); 5] = [
    (0, "done"),
    (1, "failed, or not so"),
    (2, "wrong usage"),
    (3, "the daemon cannot be reached, or ended on the way"),
    (4, "not true in time, or not yet"),
];

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
    /// List pods, claims, volumes, mounts, drivers, operations or the node
    Get(Get),
    /// Show everything about a pod, a claim, a volume, a driver or the node
    Describe(Describe),
    /// Say why the volumes of a pod are not mounted, or a claim has none, and what to do
    Explain(Explain),
    /// Wait until the volumes of pods are mounted, or gone
    Wait(Wait),
    /// Try at once what failed and waits for its next try
    Retry(Retry),
    /// Take away what is kept only because nobody said that it may go
    Delete(Delete),
    /// Show pods and their volumes as a tree
    Tree(Tree),
    /// List what happened to pods, in the kubelet's words
    Events(Events),
    /// Print what to give the containers of a pod
    Mounts(Mounts),
    /// Show how full the volumes of pods are, and how they are doing
    #[command(visible_alias = "df")]
    Usage(Usage),
    /// Check a directory of manifests without a daemon
    Validate(Validate),
    /// Look into what happens between orchestrators and CSI drivers
    Csi(Csi),
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
    #[arg(short, long, value_name = "NAME", default_value = "default", env = "WINDLASS_NAMESPACE", value_parser = name)]
    pub(crate) namespace: String,

    /// All namespaces, whatever --namespace says
    #[arg(short = 'A', long)]
    pub(crate) all_namespaces: bool,
}

impl Namespaces {
    /// The one namespace that is asked for; none for all.
    pub(crate) fn one(&self) -> Option<&str> {
        (!self.all_namespaces).then_some(self.namespace.as_str())
    }
}

/// A kind of object, and perhaps the name of one: `pods`, `pod/web`.
#[derive(Debug, Clone)]
pub(crate) struct Target<R> {
    pub(crate) resource: R,
    pub(crate) name: Option<String>,
}

impl<R> Target<R> {
    /// The names that are asked for: the one after the slash, and those that follow, with or without a kind of their own.
    pub(crate) fn names<'a>(&'a self, others: &'a [String]) -> Vec<&'a str> {
        self.name.iter().chain(others).map(|it| bare(it)).collect()
    }
}

/// Reads a [`Target`]; help and completions show the kinds.
#[derive(Debug, Clone, Copy)]
pub(crate) struct TargetParser<R>(std::marker::PhantomData<R>);

fn target<R>() -> TargetParser<R> {
    TargetParser(std::marker::PhantomData)
}

impl<R: ValueEnum + Clone + Send + Sync + 'static> TypedValueParser for TargetParser<R> {
    type Value = Target<R>;

    fn parse_ref(
        &self,
        command: &clap::Command,
        argument: Option<&clap::Arg>,
        value: &OsStr,
    ) -> Result<Target<R>, clap::Error> {
        let text = value.to_string_lossy();
        let (kind, name) = match text.split_once('/') {
            Some((kind, name)) if !name.is_empty() => (kind, Some(name.to_owned())),
            _ => (&*text, None),
        };
        let resource = EnumValueParser::<R>::new().parse_ref(command, argument, OsStr::new(kind))?;
        Ok(Target { resource, name })
    }

    fn possible_values(&self) -> Option<Box<dyn Iterator<Item = PossibleValue> + '_>> {
        Some(Box::new(R::value_variants().iter().filter_map(ValueEnum::to_possible_value)))
    }
}

/// A name that somebody typed: a variable that is empty by mistake must not be taken for everything, or for nothing.
fn name(text: &str) -> Result<String, String> {
    match text.split('/').any(str::is_empty) {
        true => Err("a name is empty".into()),
        false => Ok(text.into()),
    }
}

/// A pod's name without the kind that may stand before it, as in `pod/web`: a name has no slash.
pub(crate) fn bare(name: &str) -> &str {
    ["pod/", "pods/", "po/"].iter().find_map(|it| name.strip_prefix(it)).unwrap_or(name)
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
    /// Claims, and volumes that were made for claims that are gone
    #[value(alias = "claim", alias = "pvc", alias = "pvcs")]
    Claims,
    /// CSI drivers that are registered, wanted by volumes, or set up
    #[value(alias = "driver")]
    Drivers,
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
    /// What to list; one by name as in pod/web
    #[arg(value_name = "RESOURCE", value_parser = target::<Resource>())]
    pub(crate) target: Target<Resource>,

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

    /// With --watch and -o json, print what happened with each object
    #[arg(long, requires = "watch")]
    pub(crate) output_watch_events: bool,

    /// Without a heading
    #[arg(long)]
    pub(crate) no_headers: bool,
}

#[derive(ValueEnum, Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Described {
    /// A pod, its volumes and what happened to it
    #[value(alias = "pods", alias = "po")]
    Pod,
    /// A claim, its volume, and what becomes of it
    #[value(alias = "claims", alias = "pvc", alias = "pvcs")]
    Claim,
    /// A volume of this node, and the pods that use it
    #[value(alias = "volumes", alias = "vol")]
    Volume,
    /// A CSI driver, what it can do, and its volumes
    #[value(alias = "drivers")]
    Driver,
    /// The daemon, and what is wrong with its manifests
    #[value(alias = "nodes", alias = "no")]
    Node,
}

#[derive(Args, Debug)]
pub(crate) struct Describe {
    /// What to show; one by name as in pod/web
    #[arg(value_name = "RESOURCE", value_parser = target::<Described>())]
    pub(crate) target: Target<Described>,

    /// Only these; without a name all
    #[arg(value_name = "NAME")]
    pub(crate) names: Vec<String>,

    #[command(flatten)]
    pub(crate) namespaces: Namespaces,
}

#[derive(Args, Debug)]
pub(crate) struct Explain {
    /// A pod, one volume of a pod as in web/data, or a claim as in claim/data; without it, all that is not well on the node,
    /// by cause
    #[arg(value_name = "POD[/VOLUME]")]
    pub(crate) what: Option<String>,

    /// The namespace of the pod
    #[arg(short, long, value_name = "NAME", default_value = "default", env = "WINDLASS_NAMESPACE", value_parser = name)]
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
    #[value(alias = "condition=VolumesMounted", alias = "condition=volumesmounted", alias = "condition=mounted")]
    Mounted,
    /// Nothing of the pod is left: no volume, no record, no directory
    #[value(alias = "delete")]
    Unmounted,
    /// The same, and the volumes that it alone had are unstaged, detached and deleted, as far as they are to be
    Released,
}

#[derive(Args, Debug)]
pub(crate) struct Wait {
    /// What to wait for
    #[arg(long = "for", value_name = "GOAL", default_value = "mounted")]
    pub(crate) goal: Goal,

    /// The pods
    #[arg(value_name = "POD", required_unless_present = "all", conflicts_with = "all", value_parser = name)]
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
pub(crate) struct Delete {
    #[command(subcommand)]
    pub(crate) command: DeleteCommand,
}

#[derive(Subcommand, Debug)]
pub(crate) enum DeleteCommand {
    /// Take pods away at once that are on disk and that no manifest names
    ///
    /// Such pods are held for a while (--orphan-delay of windlass run), because their manifests may be missing by accident;
    /// `windlass get pods` shows them. With them goes what is in their volumes, as when a manifest is removed. A pod that a
    /// manifest names is refused: remove the manifest. Where that cannot be done, because the file system with the manifest
    /// is not mounted any more or covered by another, the pod goes, and comes back with its manifest.
    #[command(visible_alias = "pods", alias = "po")]
    Pod(DeletePod),
    /// Delete the volume at once that was made for a claim that is gone
    ///
    /// Such a volume is deleted by itself when its time has come (--delete-delay of windlass run), or is kept; `windlass get
    /// claims` shows which. Its driver is asked to delete it, and what is in it is lost. One whose class keeps volumes
    /// (reclaimPolicy: Retain) is forgotten instead, and stays with its driver. A claim that is still in a manifest is
    /// refused, and so is a volume that something on this node has.
    #[command(visible_alias = "pvc", alias = "claims")]
    Claim(DeleteClaim),
}

#[derive(Args, Debug)]
pub(crate) struct DeletePod {
    /// The pods, by name or by UID
    #[arg(value_name = "POD", required_unless_present = "all_orphans", conflicts_with = "all_orphans", value_parser = name)]
    pub(crate) pods: Vec<String>,

    /// All pods of all namespaces that no manifest has named since the start
    #[arg(long)]
    pub(crate) all_orphans: bool,

    /// Only volumes that the pods had before the start and that their manifests do not name
    #[arg(long, conflicts_with = "all_orphans")]
    pub(crate) orphaned_volumes: bool,

    /// The namespace
    #[arg(short, long, value_name = "NAME", default_value = "default", env = "WINDLASS_NAMESPACE", value_parser = name)]
    pub(crate) namespace: String,
}

#[derive(Args, Debug)]
pub(crate) struct Retry {
    /// The pods, volumes of pods by the pod's names for them, or claims as in claim/data or claim/NAMESPACE/NAME
    #[arg(value_name = "POD[/VOLUME]|claim/NAME", required_unless_present = "all", conflicts_with = "all", value_parser = name)]
    pub(crate) pods: Vec<String>,

    /// Everything of all namespaces, volumes without pods and claims too
    #[arg(long)]
    pub(crate) all: bool,

    /// The namespace
    #[arg(short, long, value_name = "NAME", default_value = "default", env = "WINDLASS_NAMESPACE", value_parser = name)]
    pub(crate) namespace: String,
}

#[derive(Args, Debug)]
pub(crate) struct DeleteClaim {
    /// The claims, each as NAME, NAMESPACE/NAME, claim/NAME or claim/NAMESPACE/NAME
    #[arg(value_name = "CLAIM", required = true, value_parser = name)]
    pub(crate) claims: Vec<String>,

    /// The namespace of those that name none
    #[arg(short, long, value_name = "NAME", default_value = "default", env = "WINDLASS_NAMESPACE", value_parser = name)]
    pub(crate) namespace: String,
}

#[derive(Args, Debug)]
pub(crate) struct Tree {
    /// Only these pods
    #[arg(value_name = "POD", value_parser = name)]
    pub(crate) pods: Vec<String>,

    #[command(flatten)]
    pub(crate) namespaces: Namespaces,

    /// Look at the disk below this directory, without a daemon; pods are then known by their UID alone
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
    #[arg(value_name = "POD", value_parser = name)]
    pub(crate) pod: String,

    /// The namespace
    #[arg(short, long, value_name = "NAME", default_value = "default", env = "WINDLASS_NAMESPACE", value_parser = name)]
    pub(crate) namespace: String,

    /// The container; needed for oci, podman and docker if the pod has several
    #[arg(short, long, value_name = "NAME")]
    pub(crate) container: Option<String>,

    /// How to print it
    #[arg(short, long, value_name = "FORMAT", default_value = "table")]
    pub(crate) output: MountsFormat,
}

#[derive(ValueEnum, Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum UsageFormat {
    /// A table
    Table,
    /// A table with inodes too
    Wide,
    /// JSON
    Json,
    /// YAML
    Yaml,
}

#[derive(Args, Debug)]
pub(crate) struct Usage {
    /// Only these pods; without a name all
    #[arg(value_name = "POD", value_parser = name)]
    pub(crate) pods: Vec<String>,

    #[command(flatten)]
    pub(crate) namespaces: Namespaces,

    /// How to print it
    #[arg(short, long, value_name = "FORMAT", default_value = "table")]
    pub(crate) output: UsageFormat,

    /// Without a heading
    #[arg(long)]
    pub(crate) no_headers: bool,
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
pub(crate) struct Csi {
    #[command(subcommand)]
    pub(crate) command: CsiCommand,
}

#[derive(Subcommand, Debug)]
pub(crate) enum CsiCommand {
    /// Be a CSI driver that judges its orchestrator by every call, and say what was found
    ///
    /// It registers as any driver does, and takes any volume handle: write a PersistentVolume and a claim, or an inline
    /// volume, that name it as their driver, and a pod that uses them. Its volumes are in memory and gone when it ends. It
    /// judges until it is interrupted, or as --until and --for say, and prints its verdict then. It needs to be root.
    Judge(Box<Judge>),
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

#[cfg(test)]
mod tests {
    use super::*;

    fn get(words: &[&str]) -> Result<Get, clap::Error> {
        let all = ["windlass", "get"].iter().chain(words);
        match Arguments::try_parse_from(all)?.command {
            Command::Get(get) => Ok(get),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn the_definition_of_the_command_line_makes_sense() {
        <Arguments as clap::CommandFactory>::command().debug_assert();
    }

    #[test]
    fn things_can_be_named_as_for_kubectl() {
        for (words, resource, names) in [
            (&["pods"][..], Resource::Pods, &[][..]),
            (&["po", "web", "pod/db"], Resource::Pods, &["web", "db"]),
            (&["pod/web"], Resource::Pods, &["web"]),
            (&["vol"], Resource::Volumes, &[]),
            (&["mount/web/data"], Resource::Mounts, &["web/data"]),
            (&["nodes"], Resource::Node, &[]),
        ] {
            let get = get(words).unwrap();
            assert_eq!((get.target.resource, get.target.names(&get.names)), (resource, names.to_vec()), "{words:?}");
        }
        let error = get(&["pots"]).unwrap_err().to_string();
        assert!(error.contains("'pots'") && error.contains("pods, volumes"), "{error}");
    }

    #[test]
    fn all_namespaces_win_over_one() {
        let get = get(&["pods", "-A", "-n", "other"]).unwrap();
        assert_eq!(get.namespaces.one(), None);
    }

    #[test]
    fn times_are_read_as_people_write_them() {
        let seconds = |text: &str| duration(text).map(|it| it.as_secs());
        assert_eq!(seconds("0"), Ok(0));
        assert_eq!(seconds("90"), Ok(90));
        assert_eq!(seconds("1h30m"), Ok(5400));
        for wrong in ["", "-5s", "soon", "5 parsecs"] {
            assert!(seconds(wrong).is_err(), "{wrong:?}");
        }
    }

    #[test]
    fn help_and_the_table_of_exit_statuses_agree() {
        for (status, _) in EXIT_STATUS {
            assert!(AFTER.contains(&format!(" {status} ")), "{status}");
        }
    }
}
