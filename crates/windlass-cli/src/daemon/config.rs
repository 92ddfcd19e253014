//! Settings as they are written, on the command line, in the environment or in a file, and as they are meant.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;
use std::{fmt, fs, io};

use anyhow::{Context, bail};
use clap::{Args, ValueEnum};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::{Map, Value};
use serde_saphyr::{DefaultMessageFormatter, MessageFormatter};

use windlass::node::DriverSettings;
use windlass::source::directory;

use super::drivers::{self, Controller, Drivers};
use crate::paths::Paths;
use crate::{args, output};

/// Not in the documentation itself, which would take the address for a link.
const ISSUER_HELP: &str = "What the tokens say of who made them [default: https://windlass.local]";

/// Whoever wants to keep a pod for longer leaves its manifest where it is.
const REMOVAL_DELAY_MAX: Duration = Duration::from_secs(60 * 60);

/// Settings as they are written. The file has the same names as the options, without the hyphens before them; what the
/// command line or the environment says comes before what the file says.
#[derive(Args, Serialize, Deserialize, Debug, Clone, Default, PartialEq)]
#[serde(rename_all = "kebab-case", deny_unknown_fields, default)]
pub(crate) struct Settings {
    /// Read manifests (YAML or JSON) in this directory and below, and follow their changes [default:
    /// /etc/windlass/manifests; for a user ~/.config/windlass/manifests]
    #[arg(long, value_name = "DIR", env = "WINDLASS_MANIFESTS", help_heading = "Places")]
    pub(crate) manifests: Option<PathBuf>,

    /// Keep the volumes below this directory, in the kubelet's layout [default: /var/lib/windlass; for a user
    /// ~/.local/share/windlass]
    #[arg(long, value_name = "DIR", env = "WINDLASS_ROOT", help_heading = "Places")]
    pub(crate) root: Option<PathBuf>,

    /// The socket of the API; an option of all verbs.
    #[arg(skip)]
    pub(crate) socket: Option<PathBuf>,

    /// The group that may use the socket besides its owner
    #[arg(long, value_name = "GROUP", help_heading = "Places")]
    pub(crate) socket_group: Option<String>,

    /// Keep records in this directory [default: windlass below the root]
    #[arg(long, value_name = "DIR", help_heading = "Places")]
    pub(crate) state_directory: Option<PathBuf>,

    /// Keep what a reboot may forget in this directory, which should be in memory [default: /run/windlass; for a user
    /// $XDG_RUNTIME_DIR/windlass]
    #[arg(long, value_name = "DIR", help_heading = "Places")]
    pub(crate) runtime_directory: Option<PathBuf>,

    /// Look for CSI drivers in this directory, where they register [default: plugins_registry below the root]
    #[arg(long, value_name = "DIR", help_heading = "Places")]
    pub(crate) driver_registry: Option<PathBuf>,

    /// Attach volumes of this CSI driver, and make volumes for claims, by its controller service at this socket: where no
    /// cluster does it. May be given for several drivers
    #[arg(long = "controller", value_name = "DRIVER=SOCKET", help_heading = "Places")]
    #[serde(skip)]
    pub(crate) controllers: Vec<Controller>,

    /// What holds for single CSI drivers, by name: in a file only.
    #[arg(skip)]
    pub(crate) drivers: Drivers,

    /// The name of this node [default: the name of the host]
    #[arg(long, value_name = "NAME", env = "WINDLASS_NODE_NAME")]
    pub(crate) node_name: Option<String>,

    /// Let pods that have finished keep their volumes until their manifests are removed
    #[arg(long, num_args = 0..=1, default_missing_value = "true", value_name = "BOOL")]
    pub(crate) keep_terminated: Option<bool>,

    /// Take nothing from a pod whose manifest is gone while a container, or any other process, still has it mounted or open
    #[arg(long, num_args = 0..=1, default_missing_value = "true", value_name = "BOOL")]
    pub(crate) hold_while_in_use: Option<bool>,

    /// Add everything that the engine is told and asks for to this file, which `windlass-sim events` plays again: for reports of
    /// defects. It grows without end
    #[arg(long, value_name = "FILE")]
    pub(crate) record_events: Option<PathBuf>,

    /// How long what no manifest says any more stays before it is taken away, so that manifests can be replaced and moved;
    /// 0 for not at all [default: 200ms]
    #[arg(long, value_name = "TIME", value_parser = time)]
    pub(crate) removal_delay: Option<Time>,

    /// How long what is on disk stays that no manifest has named since the start, so that manifests that are not there yet, or
    /// not whole, cost nothing; `windlass delete pod` is faster [default: 10m]
    #[arg(long, value_name = "TIME", value_parser = time)]
    pub(crate) orphan_delay: Option<Time>,

    /// How long a volume that was made for a claim stays after the claim's manifest was removed, before its driver is asked
    /// to delete it; `windlass delete claim` does it at once [default: 10m]
    #[arg(long, value_name = "TIME", value_parser = time)]
    pub(crate) delete_delay: Option<Time>,

    /// Get service account tokens from this program: a TokenRequest on its standard input, one with a status on its output
    #[arg(long, value_name = "PROGRAM", conflicts_with = "token_key", help_heading = "Tokens")]
    pub(crate) token_command: Option<PathBuf>,

    /// Sign service account tokens with this key: ECDSA P-256 as PKCS#8 in PEM
    #[arg(long, value_name = "FILE", help_heading = "Tokens")]
    pub(crate) token_key: Option<PathBuf>,

    /// What the tokens say of who made them.
    #[arg(long, value_name = "URL", help_heading = "Tokens", help = ISSUER_HELP)]
    pub(crate) token_issuer: Option<String>,

    /// Whom tokens are for that name no audience [default: the issuer]
    #[arg(long, value_name = "NAME", help_heading = "Tokens")]
    pub(crate) token_audience: Option<String>,

    /// How to write the log, on standard error or to journald [default: journald under systemd, else text]
    #[arg(long, value_name = "FORMAT", help_heading = "Log")]
    pub(crate) log_format: Option<LogFormat>,

    /// How much to log: error, warn, info, debug or trace, or by part as in windlass=debug [default: info]
    #[arg(long, value_name = "LEVEL", env = "WINDLASS_LOG", help_heading = "Log")]
    pub(crate) log_level: Option<String>,

    /// Serve metrics, and nothing else, at this address and port too, for example 127.0.0.1:9750; only a loopback address
    /// can be used [default: on the socket alone, at /metrics]
    #[arg(long, value_name = "ADDRESS", help_heading = "Places")]
    pub(crate) metrics_address: Option<SocketAddr>,

    /// How many clients the API serves at a time [default: 64]
    #[arg(long, value_name = "NUMBER", help_heading = "Limits")]
    pub(crate) connections_max: Option<usize>,

    /// How many threads work on volumes at most [default: 512]
    #[arg(long, value_name = "NUMBER", help_heading = "Limits")]
    pub(crate) threads_max: Option<usize>,

    /// How long a call of a CSI driver may take before its outcome counts as unknown [default: 2m]
    #[arg(long, value_name = "TIME", value_parser = time, help_heading = "Limits")]
    pub(crate) driver_timeout: Option<Time>,

    /// How long to wait at the end for what runs [default: 10s]
    #[arg(long, value_name = "TIME", value_parser = time, help_heading = "Limits")]
    pub(crate) stop_timeout: Option<Time>,

    /// Bring up what is there, print it and exit: with status 0 only if all is mounted
    #[arg(long)]
    #[serde(skip)]
    pub(crate) once: bool,

    /// With --once, give up after this time
    #[arg(long, value_name = "TIME", value_parser = args::duration, default_value = "2m", requires = "once")]
    #[serde(skip)]
    pub(crate) timeout: Option<Duration>,

    /// Read settings from this file [default: /etc/windlass/config.yaml if it is there; for a user in ~/.config/windlass]
    #[arg(long, value_name = "FILE", env = "WINDLASS_CONFIG")]
    #[serde(skip)]
    pub(crate) config: Option<PathBuf>,

    /// Print all settings as a configuration file and exit
    #[arg(long)]
    #[serde(skip)]
    pub(crate) print_config: bool,
}

/// How the log is written.
#[derive(ValueEnum, Serialize, Deserialize, Debug, Clone, Copy, PartialEq, Eq)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum LogFormat {
    /// Lines for people
    Text,
    /// A JSON object a line
    Json,
    /// The journal of systemd, with fields
    Journald,
}

/// A length of time that is written as people write it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Time(pub(crate) Duration);

fn time(text: &str) -> Result<Time, String> {
    args::duration(text).map(Time)
}

impl fmt::Display for Time {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match jiff::SignedDuration::try_from(self.0) {
            Ok(duration) => write!(f, "{duration:#}"),
            Err(_) => write!(f, "{}s", self.0.as_secs()),
        }
    }
}

impl Serialize for Time {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Time {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        time(&String::deserialize(deserializer)?).map_err(serde::de::Error::custom)
    }
}

/// Settings as they are meant.
#[derive(Debug, Clone)]
pub(crate) struct Config {
    pub(crate) manifests: PathBuf,
    pub(crate) root: PathBuf,
    pub(crate) socket: PathBuf,
    pub(crate) socket_group: Option<String>,
    pub(crate) state: PathBuf,
    pub(crate) runtime: PathBuf,
    pub(crate) driver_registry: PathBuf,
    pub(crate) driver_timeout: Duration,
    pub(crate) drivers: BTreeMap<String, DriverSettings>,
    pub(crate) node_name: String,
    pub(crate) keep_terminated: bool,
    pub(crate) hold_while_in_use: bool,
    pub(crate) record_events: Option<PathBuf>,
    pub(crate) source: directory::Config,
    pub(crate) delete_delay: Duration,
    pub(crate) tokens: Tokens,
    pub(crate) log_format: LogFormat,
    pub(crate) log_level: String,
    pub(crate) metrics_address: Option<SocketAddr>,
    pub(crate) connections_max: usize,
    pub(crate) threads_max: usize,
    pub(crate) stop_timeout: Duration,
    /// Bring up what is there, and at most for this long.
    pub(crate) once: Option<Duration>,
}

/// Where service account tokens come from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Tokens {
    /// Nowhere.
    None,
    /// A program gives them.
    Command(PathBuf),
    /// They are signed here.
    Key { file: PathBuf, issuer: String, audience: String },
}

impl Settings {
    /// With what the configuration file says where the command line and the environment say nothing.
    pub(crate) fn with_file(self, paths: &Paths) -> anyhow::Result<Self> {
        let (path, asked) = match &self.config {
            Some(path) => (path.clone(), true),
            None => (paths.config.clone(), false),
        };
        let text = match fs::read_to_string(&path) {
            Ok(text) => text,
            Err(error) if !asked && error.kind() == io::ErrorKind::NotFound => return Ok(self),
            Err(error) => return Err(error).with_context(|| format!("read the configuration {}", path.display())),
        };
        let file = parse(&text).with_context(|| format!("the configuration {} cannot be used", path.display()))?;
        Ok(self.or(file))
    }

    /// As a configuration file; what is not set is left out.
    pub(crate) fn to_yaml(&self) -> anyhow::Result<String> {
        let mut value = serde_json::to_value(self)?;
        leave_out_unset(&mut value);
        if let Value::Object(fields) = &mut value
            && self.drivers.is_empty()
        {
            fields.remove("drivers");
        }
        output::yaml(&value)
    }

    fn or(self, file: Self) -> Self {
        // A way to get tokens on the command line replaces the one of the file, not only a part of it.
        let tokens = self.token_command.is_some() || self.token_key.is_some();
        let file = if tokens { Self { token_command: None, token_key: None, ..file } } else { file };
        Self {
            manifests: self.manifests.or(file.manifests),
            root: self.root.or(file.root),
            socket: self.socket.or(file.socket),
            socket_group: self.socket_group.or(file.socket_group),
            state_directory: self.state_directory.or(file.state_directory),
            runtime_directory: self.runtime_directory.or(file.runtime_directory),
            driver_registry: self.driver_registry.or(file.driver_registry),
            driver_timeout: self.driver_timeout.or(file.driver_timeout),
            drivers: drivers::joined(self.controllers.clone(), file.drivers),
            node_name: self.node_name.or(file.node_name),
            keep_terminated: self.keep_terminated.or(file.keep_terminated),
            hold_while_in_use: self.hold_while_in_use.or(file.hold_while_in_use),
            record_events: self.record_events.or(file.record_events),
            removal_delay: self.removal_delay.or(file.removal_delay),
            orphan_delay: self.orphan_delay.or(file.orphan_delay),
            delete_delay: self.delete_delay.or(file.delete_delay),
            token_command: self.token_command.or(file.token_command),
            token_key: self.token_key.or(file.token_key),
            token_issuer: self.token_issuer.or(file.token_issuer),
            token_audience: self.token_audience.or(file.token_audience),
            log_format: self.log_format.or(file.log_format),
            log_level: self.log_level.or(file.log_level),
            metrics_address: self.metrics_address.or(file.metrics_address),
            connections_max: self.connections_max.or(file.connections_max),
            threads_max: self.threads_max.or(file.threads_max),
            stop_timeout: self.stop_timeout.or(file.stop_timeout),
            ..self
        }
    }

    /// What is meant, with what nobody said filled in.
    pub(crate) fn mean(self, paths: &Paths) -> anyhow::Result<Config> {
        let absolute = |path: PathBuf| {
            std::path::absolute(&path).with_context(|| format!("{} cannot be made absolute", path.display()))
        };
        let root = absolute(self.root.unwrap_or_else(|| paths.root.clone()))?;
        if self.token_key.is_none() && (self.token_issuer.is_some() || self.token_audience.is_some()) {
            bail!("token-issuer and token-audience go with token-key, and there is none");
        }
        let issuer = self.token_issuer.unwrap_or_else(|| "https://windlass.local".into());
        let tokens = match (self.token_command, self.token_key) {
            (None, None) => Tokens::None,
            (Some(program), None) => Tokens::Command(absolute(program)?),
            (None, Some(file)) => {
                let audience = self.token_audience.unwrap_or_else(|| issuer.clone());
                Tokens::Key { file: absolute(file)?, issuer, audience }
            }
            (Some(_), Some(_)) => bail!("token-command and token-key exclude each other: take one of them out"),
        };
        let (limits, usual) = (windlass::node::Limits::default(), directory::Config::default());
        let runtime = absolute(self.runtime_directory.unwrap_or_else(|| paths.runtime.clone()))?;
        let config = Config {
            manifests: absolute(self.manifests.unwrap_or_else(|| paths.manifests.clone()))?,
            socket: absolute(self.socket.unwrap_or_else(|| runtime.join("api.sock")))?,
            socket_group: self.socket_group,
            state: absolute(self.state_directory.unwrap_or_else(|| root.join("windlass")))?,
            runtime,
            driver_registry: absolute(self.driver_registry.unwrap_or_else(|| root.join("plugins_registry")))?,
            driver_timeout: self.driver_timeout.map_or(windlass::node::DEADLINE_DEFAULT, |it| it.0),
            drivers: drivers::mean(drivers::joined(self.controllers, self.drivers), absolute)?,
            node_name: self.node_name.unwrap_or_else(host_name),
            keep_terminated: self.keep_terminated.unwrap_or(false),
            hold_while_in_use: self.hold_while_in_use.unwrap_or(false),
            record_events: self.record_events.map(absolute).transpose()?,
            source: directory::Config {
                removal_delay: self.removal_delay.map_or(usual.removal_delay, |it| it.0),
                orphan_delay: self.orphan_delay.map_or(usual.orphan_delay, |it| it.0),
            },
            delete_delay: self.delete_delay.map_or(windlass::node::DELETE_DELAY_DEFAULT, |it| it.0),
            tokens,
            log_format: self.log_format.unwrap_or_else(log_format),
            log_level: self.log_level.unwrap_or_else(|| "info".into()),
            metrics_address: self.metrics_address,
            connections_max: self.connections_max.unwrap_or(64),
            threads_max: self.threads_max.unwrap_or(limits.threads_max),
            stop_timeout: self.stop_timeout.map_or(Duration::from_secs(10), |it| it.0),
            once: self.once.then(|| self.timeout.unwrap_or(Duration::from_secs(120))),
            root,
        };
        if config.driver_timeout.is_zero() {
            bail!("driver-timeout must be more than nothing");
        }
        if let Some(address) = config.metrics_address.filter(|it| !it.ip().is_loopback()) {
            bail!(
                "metrics-address must be a loopback address, such as 127.0.0.1:{}: nobody is asked who they are, and {} can \
                 be reached from elsewhere",
                address.port(),
                address.ip()
            );
        }
        if config.connections_max == 0 || config.threads_max == 0 {
            bail!("connections-max and threads-max must be at least 1");
        }
        if config.source.removal_delay > REMOVAL_DELAY_MAX {
            bail!("removal-delay must be at most {}", Time(REMOVAL_DELAY_MAX));
        }
        if config.node_name.is_empty() {
            bail!("node-name must not be empty");
        }
        // Whoever could write manifests from within a volume could have anything mounted.
        let (manifests, root) = (real(&config.manifests), real(&config.root));
        if manifests.starts_with(&root) || root.starts_with(&manifests) {
            bail!(
                "the manifests ({}) and the root ({}) must not be inside each other",
                config.manifests.display(),
                config.root.display()
            );
        }
        Ok(config)
    }
}

/// Takes away the keys without a value.
fn leave_out_unset(value: &mut Value) {
    if let Value::Object(fields) = value {
        fields.retain(|_, it| !it.is_null());
        fields.values_mut().for_each(leave_out_unset);
    }
}

/// A path without links, as far as it exists.
fn real(path: &Path) -> PathBuf {
    let mut ancestors = path.ancestors();
    let found = ancestors.find_map(|it| Some((it, it.canonicalize().ok()?)));
    match found {
        Some((above, real)) => path.strip_prefix(above).map_or(real.clone(), |rest| real.join(rest)),
        None => path.into(),
    }
}

impl Config {
    /// As a configuration file that says the same.
    pub(crate) fn to_settings(&self) -> Settings {
        let (mut command, mut key, mut issuer, mut audience) = (None, None, None, None);
        match self.tokens.clone() {
            Tokens::None => {}
            Tokens::Command(program) => command = Some(program),
            Tokens::Key { file, issuer: by, audience: whom } => {
                (key, issuer, audience) = (Some(file), Some(by), Some(whom))
            }
        }
        Settings {
            manifests: Some(self.manifests.clone()),
            root: Some(self.root.clone()),
            socket: Some(self.socket.clone()),
            socket_group: self.socket_group.clone(),
            state_directory: Some(self.state.clone()),
            runtime_directory: Some(self.runtime.clone()),
            driver_registry: Some(self.driver_registry.clone()),
            driver_timeout: Some(Time(self.driver_timeout)),
            drivers: drivers::write(&self.drivers),
            node_name: Some(self.node_name.clone()),
            keep_terminated: Some(self.keep_terminated),
            hold_while_in_use: Some(self.hold_while_in_use),
            record_events: self.record_events.clone(),
            removal_delay: Some(Time(self.source.removal_delay)),
            orphan_delay: Some(Time(self.source.orphan_delay)),
            delete_delay: Some(Time(self.delete_delay)),
            token_command: command,
            token_key: key,
            token_issuer: issuer,
            token_audience: audience,
            log_format: Some(self.log_format),
            log_level: Some(self.log_level.clone()),
            metrics_address: self.metrics_address,
            connections_max: Some(self.connections_max),
            threads_max: Some(self.threads_max),
            stop_timeout: Some(Time(self.stop_timeout)),
            ..Settings::default()
        }
    }
}

/// Reads a configuration file. A key that is not known is refused, with the nearest one that is.
fn parse(text: &str) -> anyhow::Result<Settings> {
    if text.lines().all(|it| it.trim().is_empty() || it.trim_start().starts_with('#')) {
        return Ok(Settings::default());
    }
    let value: Value = yaml(text)?;
    let Value::Object(given) = value else { bail!("it is no list of names and values") };
    only(&given, &known(), "")?;
    if let Some(drivers) = given.get("drivers") {
        drivers::check(drivers)?;
    }
    yaml(text)
}

/// Reads YAML; an error is one line that says where.
fn yaml<T: DeserializeOwned>(text: &str) -> anyhow::Result<T> {
    let options = serde_saphyr::options! { with_snippet: false };
    serde_saphyr::from_str_with_options(text, options).map_err(|error| {
        let message = DefaultMessageFormatter.format_message(&error);
        match error.location().map(|it| it.line()).filter(|it| *it > 0) {
            Some(line) => anyhow::anyhow!("line {line}: {message}"),
            None => anyhow::anyhow!("{message}"),
        }
    })
}

/// Refuses a key that is not known, with the nearest one that is. `of` says of what these are the keys.
pub(super) fn only(given: &Map<String, Value>, known: &[String], of: &str) -> anyhow::Result<()> {
    let Some(key) = given.keys().find(|it| !known.contains(it)) else { return Ok(()) };
    let near =
        known.iter().map(|it| (strsim::jaro_winkler(key, it), it)).max_by(|one, other| one.0.total_cmp(&other.0));
    match near.filter(|(likeness, _)| *likeness > 0.75) {
        Some((_, near)) => bail!("unknown key {key:?}{of}; did you mean {near:?}?"),
        None => bail!("unknown key {key:?}{of}; there are {}", known.join(", ")),
    }
}

/// The keys that a file may have.
fn known() -> Vec<String> {
    keys(&Settings::default())
}

/// The keys of something that leaves out none of them.
pub(super) fn keys(all: &impl Serialize) -> Vec<String> {
    match serde_json::to_value(all) {
        Ok(Value::Object(all)) => all.keys().cloned().collect(),
        _ => Vec::new(),
    }
}

fn host_name() -> String {
    let name = rustix::system::uname().nodename().to_string_lossy().to_lowercase();
    if name.is_empty() { "localhost".into() } else { name }
}

/// Under systemd standard error goes to the journal already, and better with fields than as text.
fn log_format() -> LogFormat {
    // systemd.exec(5): only if the variable names what standard error is, for children inherit the variable.
    let named = std::env::var("JOURNAL_STREAM").unwrap_or_default();
    let is = rustix::fs::fstat(io::stderr()).map(|it| format!("{}:{}", it.st_dev, it.st_ino));
    if is.is_ok_and(|it| it == named) { LogFormat::Journald } else { LogFormat::Text }
}

#[cfg(test)]
mod tests;
