//! What is counted of a node, as Prometheus reads it: the kubelet's metrics under the kubelet's names, with finer buckets, and
//! windlass's own under `windlass_`. `docs/metrics.md` tells what each means.
//!
//! What happens is counted as it happens ([`Metrics::observer`]). What is so at a moment the node keeps as numbers
//! ([`Node::totals`](crate::Node::totals)), so that asking walks nothing (I-9).

use std::collections::{BTreeMap, HashMap};
use std::fmt::{self, Write as _};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use prometheus_client::encoding::{EncodeLabelSet, EncodeLabelValue, LabelValueEncoder, text};
use prometheus_client::metrics::counter::{ConstCounter, Counter};
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::{ConstGauge, Gauge};
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::{Metric, Registry};
use windlass_core::ids::{DriverName, PluginName, VolumeId};
use windlass_core::operation::OperationKind;
use windlass_core::reason::Urgency;
use windlass_core::spec::Mode;
use windlass_csi::Code;

use crate::node::Totals;
use crate::observe::{Ending, Observed, Observer, OperationReport};
use crate::plugin::Statistics;

/// The kubelet's buckets (E-502), and finer ones below them: most of what windlass does takes milliseconds.
const SECONDS: [f64; 19] = [
    0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 15.0, 25.0, 50.0, 120.0, 300.0, 600.0,
];

/// The kubelet's own for how long it takes to find out how full a volume is.
const MEASURING_SECONDS: [f64; 14] = [0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0];

/// A family of histograms of seconds.
type Durations<L> = Family<L, Histogram, fn() -> Histogram>;

/// All that is counted of one node, from its start on.
pub struct Metrics {
    registry: Registry,
    storage_operations: Durations<StorageOperation>,
    overall_mounts: Durations<OverallMount>,
    driver_calls: Durations<DriverCall>,
    measurements: Durations<Measurement>,
    reconstructed: Counter,
    not_reconstructed: Counter,
    operations: Durations<Operation>,
    queued: Durations<Queued>,
    /// How long staging a volume took, until its first mount: the kubelet's mount is both.
    staged: Mutex<HashMap<VolumeId, Duration>>,
    /// How full the volumes of claims were when that was last asked.
    claims: Mutex<Claims>,
}

/// What was found out of claims, by namespace and name.
pub type Claims = BTreeMap<(String, String), Statistics>;

impl Metrics {
    /// Nothing is counted yet.
    pub fn new() -> Self {
        let mut metrics = Self {
            registry: Registry::default(),
            storage_operations: durations(),
            overall_mounts: durations(),
            driver_calls: durations(),
            measurements: Family::new_with_constructor(|| Histogram::new(MEASURING_SECONDS)),
            reconstructed: Counter::default(),
            not_reconstructed: Counter::default(),
            operations: durations(),
            queued: durations(),
            staged: Mutex::default(),
            claims: Mutex::default(),
        };
        metrics.register();
        metrics
    }

    /// The table of what is counted as it happens. Counters get `_total` appended.
    fn register(&mut self) {
        let all = &mut self.registry;
        all.register(
            "storage_operation_duration_seconds",
            "Storage operation duration",
            self.storage_operations.clone(),
        );
        all.register(
            "volume_operation_total_seconds",
            "Storage operation end to end duration in seconds",
            self.overall_mounts.clone(),
        );
        all.register(
            "csi_operations_seconds",
            "Container Storage Interface operation duration with gRPC error code status total",
            self.driver_calls.clone(),
        );
        all.register(
            "kubelet_volume_metric_collection_duration_seconds",
            "Duration in seconds to calculate volume stats",
            self.measurements.clone(),
        );
        all.register(
            "reconstruct_volume_operations",
            "The number of volumes that were attempted to be reconstructed from the operating system during startup",
            self.reconstructed.clone(),
        );
        all.register(
            "reconstruct_volume_operations_errors",
            "The number of volumes that failed reconstruction from the operating system during startup",
            self.not_reconstructed.clone(),
        );
        all.register(
            "force_cleaned_failed_volume_operations",
            "The number of volumes that were force cleaned after their reconstruction failed during startup",
            ConstCounter::new(0_u64),
        );
        all.register(
            "force_cleaned_failed_volume_operation_errors",
            "The number of volumes that failed force cleanup after their reconstruction failed during startup",
            ConstCounter::new(0_u64),
        );
        all.register(
            "windlass_operation_duration_seconds",
            "How long operations took from when they began, each step of a volume by itself",
            self.operations.clone(),
        );
        all.register(
            "windlass_operation_queued_seconds",
            "How long operations waited for their turn before they began",
            self.queued.clone(),
        );
    }

    /// The table of what is so at this moment.
    fn gauges(&self, totals: &Totals) -> Registry {
        let mut all = Registry::default();
        let states = |actual: usize, desired: usize| {
            [("actual_state_of_world", actual), ("desired_state_of_world", desired)].into_iter().filter(|it| it.1 > 0)
        };
        let volumes = totals.tally.types.iter().flat_map(|it| {
            let plugin = Plugin { name: it.plugin.clone(), driver: it.driver.clone() };
            let of_state = move |(state, count)| (TotalVolumes { plugin_name: plugin.clone(), state }, count);
            states(it.mounted, it.wanted).map(of_state)
        });
        all.register("volume_manager_total_volumes", "Number of volumes in Volume Manager", gauges(volumes));
        let plugins = totals.sockets.iter().flat_map(|(socket, registered)| {
            let of_state = |(state, count)| (TotalPlugins { socket_path: socket.display().to_string(), state }, count);
            states(usize::from(*registered), 1).map(of_state)
        });
        all.register("plugin_manager_total_plugins", "Number of plugins in Plugin Manager", gauges(plugins));
        all.register(
            "kubelet_orphan_pod_cleaned_volumes",
            "The total number of orphaned Pods whose volumes are being cleaned up",
            gauge(totals.orphans),
        );
        all.register(
            "kubelet_orphan_pod_cleaned_volumes_errors",
            "The number of orphaned Pods whose volumes failed to be cleaned up",
            gauge(totals.leftovers),
        );
        self.register_claims(&mut all);
        let urgencies = Urgency::ALL.iter().zip(totals.tally.urgencies);
        let urgencies = urgencies.map(|(it, count)| (OfUrgency { urgency: it.as_str() }, count));
        all.register("windlass_volumes", "Volumes by how much they need attention", gauges(urgencies));
        all.register(
            "windlass_operations",
            "Operations that were given out and have not ended",
            gauge(totals.operations),
        );
        all.register("windlass_threads", "Worker threads", gauge(totals.workers.threads));
        let hung: usize = totals.workers.lanes.values().map(|it| it.slow).sum();
        all.register("windlass_hung_workers", "Worker threads whose call does not come back", gauge(hung));
        let messages = totals.messages.iter().map(|(kind, count)| (OfKind { kind: (*kind).into() }, *count));
        all.register("windlass_messages", "Messages that the engine's thread has heard", counters(messages));
        let oddities = totals.oddities.iter().map(|(kind, count)| (OfKind { kind: format!("{kind:?}") }, *count));
        all.register("windlass_oddities", "Things that were told and make no sense", counters(oddities));
        all
    }

    /// How full the volumes of claims are (E-510). What is not known is 0.
    fn register_claims(&self, all: &mut Registry) {
        let claims = self.claims();
        let mut each = |name: &str, help: &str, value: &dyn Fn(&Statistics) -> Option<u64>| {
            let values = claims.iter().filter_map(|((namespace, claim), it)| {
                let labels = OfClaim { namespace: namespace.clone(), persistentvolumeclaim: claim.clone() };
                Some((labels, value(it)?))
            });
            all.register(name, help, gauges(values));
        };
        let known = |it: Option<u64>| Some(it.unwrap_or(0));
        each("kubelet_volume_stats_capacity_bytes", "Capacity in bytes of the volume", &|it| {
            known(it.bytes.and_then(|it| it.total))
        });
        each("kubelet_volume_stats_available_bytes", "Number of available bytes in the volume", &|it| {
            known(it.bytes.and_then(|it| it.available))
        });
        each("kubelet_volume_stats_used_bytes", "Number of used bytes in the volume", &|it| {
            known(it.bytes.map(|it| it.used))
        });
        each("kubelet_volume_stats_inodes", "Maximum number of inodes in the volume", &|it| {
            known(it.inodes.and_then(|it| it.total))
        });
        each("kubelet_volume_stats_inodes_free", "Number of free inodes in the volume", &|it| {
            known(it.inodes.and_then(|it| it.available))
        });
        each("kubelet_volume_stats_inodes_used", "Number of used inodes in the volume", &|it| {
            known(it.inodes.map(|it| it.used))
        });
        each(
            "kubelet_volume_stats_health_status_abnormal",
            "Abnormal volume health status. The count is either 1 or 0",
            &|it| it.condition.as_ref().map(|it| it.abnormal.into()),
        );
    }

    /// Who is to be told what happens: [`Builder::observe`](crate::node::Builder::observe).
    pub fn observer(self: &Arc<Self>) -> Observer {
        let metrics = self.clone();
        Observer::new(move |observed| metrics.observe(observed))
    }

    fn observe(&self, observed: &Observed<'_>) {
        match *observed {
            Observed::OperationEnded(report) => self.operation_ended(report),
            Observed::DriverCalled(called) => {
                let labels = DriverCall {
                    driver_name: Text(called.driver.clone()),
                    method_name: called.method,
                    grpc_status_code: Status(called.code),
                    // Whoever calls a driver does not know how its volume was described.
                    migrated: Truth(false),
                };
                self.driver_calls.get_or_create(&labels).observe(called.took.as_secs_f64());
            }
            Observed::OwnershipApplied { plugin, driver, migrated, done, took } => {
                let plugin = Plugin { name: plugin.clone(), driver: driver.cloned() };
                self.storage_operation(plugin, "volume_apply_access_control", done, migrated, took);
            }
            Observed::Measured { source, took } => {
                let labels = Measurement { metric_source: Text(source.into()) };
                self.measurements.get_or_create(&labels).observe(took.as_secs_f64());
            }
            Observed::DiskRead { found, unreadable } => {
                self.reconstructed.inc_by(found as u64);
                self.not_reconstructed.inc_by(unreadable as u64);
            }
        }
    }

    fn operation_ended(&self, report: &OperationReport) {
        let plugin = Plugin { name: report.plugin.clone(), driver: report.driver.clone() };
        let (ending, operation) = (report.ending, kind(report.kind));
        let labels = Operation { operation, plugin: plugin.clone(), ending: ending_text(ending) };
        self.operations.get_or_create(&labels).observe(report.took.as_secs_f64());
        self.queued.get_or_create(&Queued { operation }).observe(report.queued.as_secs_f64());
        let mut took = report.queued + report.took;
        let is_done = ending == Ending::Done;
        match report.kind {
            // Its time is that of the mount which it is for.
            OperationKind::Stage if is_done => {
                self.staged().insert(report.volume.clone(), took);
                return;
            }
            OperationKind::Publish => took += self.staged().remove(&report.volume).unwrap_or_default(),
            OperationKind::Unstage => _ = self.staged().remove(&report.volume),
            OperationKind::Stage
            | OperationKind::Attach
            | OperationKind::Expand
            | OperationKind::Unpublish
            | OperationKind::Detach => {}
        }
        if let (Some(wanted), true, Mode::Filesystem) = (report.wanted, is_done, report.mode) {
            let labels = OverallMount { plugin_name: plugin.clone(), operation_name: "overall_volume_mount" };
            self.overall_mounts.get_or_create(&labels).observe(wanted.as_secs_f64());
        }
        self.storage_operation(plugin, operation_name(report.kind, report.mode), is_done, report.migrated, took);
    }

    fn storage_operation(
        &self,
        plugin: Plugin,
        operation_name: &'static str,
        is_done: bool,
        migrated: bool,
        took: Duration,
    ) {
        let status = if is_done { "success" } else { "fail-unknown" };
        let labels = StorageOperation { volume_plugin: plugin, operation_name, status, migrated: Truth(migrated) };
        self.storage_operations.get_or_create(&labels).observe(took.as_secs_f64());
    }

    /// How full the volumes of claims are now, in place of what was known before.
    pub fn set_claims(&self, claims: Claims) {
        *self.claims() = claims;
    }

    /// All of it in version 0.0.4 of Prometheus' text format, which everybody reads.
    pub fn text(&self, totals: &Totals) -> String {
        let mut text = String::new();
        for registry in [&self.registry, &self.gauges(totals)] {
            let _ = text::encode_registry(&mut text, registry);
        }
        with_total(&text)
    }

    fn staged(&self) -> MutexGuard<'_, HashMap<VolumeId, Duration>> {
        self.staged.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn claims(&self) -> MutexGuard<'_, Claims> {
        self.claims.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Default for Metrics {
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Debug for Metrics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Metrics").finish_non_exhaustive()
    }
}

/// What the kubelet calls an operation (E-233..E-242). A stage that fails is a mount that fails.
fn operation_name(kind: OperationKind, mode: Mode) -> &'static str {
    match (kind, mode) {
        (OperationKind::Attach, _) => "volume_attach",
        (OperationKind::Detach, _) => "volume_detach",
        (OperationKind::Stage | OperationKind::Publish, Mode::Filesystem) => "volume_mount",
        (OperationKind::Stage | OperationKind::Publish, Mode::Block) => "map_volume",
        (OperationKind::Unpublish, Mode::Filesystem) => "volume_unmount",
        (OperationKind::Unpublish, Mode::Block) => "unmap_volume",
        (OperationKind::Unstage, Mode::Filesystem) => "unmount_device",
        (OperationKind::Unstage, Mode::Block) => "unmap_device",
        (OperationKind::Expand, _) => "volume_fs_resize",
    }
}

fn kind(kind: OperationKind) -> &'static str {
    match kind {
        OperationKind::Attach => "attach",
        OperationKind::Stage => "stage",
        OperationKind::Publish => "publish",
        OperationKind::Expand => "expand",
        OperationKind::Unpublish => "unpublish",
        OperationKind::Unstage => "unstage",
        OperationKind::Detach => "detach",
    }
}

fn ending_text(ending: Ending) -> &'static str {
    match ending {
        Ending::Done => "done",
        Ending::Refused => "refused",
        Ending::Unknown => "unknown",
    }
}

fn durations<L: Clone + Eq + std::hash::Hash>() -> Durations<L> {
    Family::new_with_constructor(|| Histogram::new(SECONDS))
}

fn gauge(value: usize) -> impl Metric {
    ConstGauge::new(value as i64)
}

fn gauges<L: Labels, N: TryInto<i64>>(values: impl Iterator<Item = (L, N)>) -> Family<L, Gauge> {
    let all: Family<L, Gauge> = Family::default();
    for (labels, value) in values {
        all.get_or_create(&labels).inc_by(value.try_into().unwrap_or(i64::MAX));
    }
    all
}

fn counters<L: Labels>(values: impl Iterator<Item = (L, u64)>) -> Family<L, Counter> {
    let all: Family<L, Counter> = Family::default();
    for (labels, value) in values {
        all.get_or_create(&labels).inc_by(value);
    }
    all
}

/// OpenMetrics tells of a counter by its name without `_total`, and the older format with it.
fn with_total(openmetrics: &str) -> String {
    let mut text = String::with_capacity(openmetrics.len());
    let mut lines = openmetrics.lines().peekable();
    while let Some(line) = lines.next() {
        let help = line.strip_prefix("# HELP ").and_then(|it| it.split_once(' '));
        let is_counter = lines.peek().is_some_and(|it| it.starts_with("# TYPE ") && it.ends_with(" counter"));
        // Writing to memory does not fail.
        let _ = match help.filter(|_| is_counter) {
            Some((name, help)) => {
                lines.next();
                writeln!(text, "# HELP {name}_total {help}\n# TYPE {name}_total counter")
            }
            None => writeln!(text, "{line}"),
        };
    }
    text
}

/// What tells the metrics of a family apart.
trait Labels: EncodeLabelSet + Clone + Eq + std::hash::Hash + fmt::Debug + Send + Sync + 'static {}
impl<L: EncodeLabelSet + Clone + Eq + std::hash::Hash + fmt::Debug + Send + Sync + 'static> Labels for L {}

#[derive(Clone, PartialEq, Eq, Hash, Debug, EncodeLabelSet)]
struct StorageOperation {
    volume_plugin: Plugin,
    operation_name: &'static str,
    status: &'static str,
    migrated: Truth,
}

#[derive(Clone, PartialEq, Eq, Hash, Debug, EncodeLabelSet)]
struct OverallMount {
    plugin_name: Plugin,
    operation_name: &'static str,
}

#[derive(Clone, PartialEq, Eq, Hash, Debug, EncodeLabelSet)]
struct DriverCall {
    driver_name: Text,
    method_name: &'static str,
    grpc_status_code: Status,
    migrated: Truth,
}

#[derive(Clone, PartialEq, Eq, Hash, Debug, EncodeLabelSet)]
struct Measurement {
    metric_source: Text,
}

#[derive(Clone, PartialEq, Eq, Hash, Debug, EncodeLabelSet)]
struct TotalVolumes {
    plugin_name: Plugin,
    state: &'static str,
}

#[derive(Clone, PartialEq, Eq, Hash, Debug, EncodeLabelSet)]
struct TotalPlugins {
    socket_path: String,
    state: &'static str,
}

#[derive(Clone, PartialEq, Eq, Hash, Debug, EncodeLabelSet)]
struct OfClaim {
    namespace: String,
    persistentvolumeclaim: String,
}

#[derive(Clone, PartialEq, Eq, Hash, Debug, EncodeLabelSet)]
struct Operation {
    operation: &'static str,
    plugin: Plugin,
    ending: &'static str,
}

#[derive(Clone, PartialEq, Eq, Hash, Debug, EncodeLabelSet)]
struct Queued {
    operation: &'static str,
}

#[derive(Clone, PartialEq, Eq, Hash, Debug, EncodeLabelSet)]
struct OfUrgency {
    urgency: &'static str,
}

#[derive(Clone, PartialEq, Eq, Hash, Debug, EncodeLabelSet)]
struct OfKind {
    kind: String,
}

/// A volume type as the kubelet's metrics name it, with its driver if it has one (E-500).
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
struct Plugin {
    name: PluginName,
    driver: Option<DriverName>,
}

impl EncodeLabelValue for Plugin {
    fn encode(&self, encoder: &mut LabelValueEncoder<'_>) -> fmt::Result {
        match &self.driver {
            Some(driver) => write!(encoder, "{}:{driver}", self.name),
            None => write!(encoder, "{}", self.name),
        }
    }
}

/// A name that is shared and not copied.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
struct Text(Arc<str>);

impl EncodeLabelValue for Text {
    fn encode(&self, encoder: &mut LabelValueEncoder<'_>) -> fmt::Result {
        encoder.write_str(&self.0)
    }
}

/// `true` or `false`.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
struct Truth(bool);

impl EncodeLabelValue for Truth {
    fn encode(&self, encoder: &mut LabelValueEncoder<'_>) -> fmt::Result {
        write!(encoder, "{}", self.0)
    }
}

/// A gRPC code by the name that Go gives it.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
struct Status(Code);

impl EncodeLabelValue for Status {
    fn encode(&self, encoder: &mut LabelValueEncoder<'_>) -> fmt::Result {
        match self.0 {
            Code::Ok => encoder.write_str("OK"),
            Code::Cancelled => encoder.write_str("Canceled"),
            code => write!(encoder, "{code:?}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use windlass_core::ids::OperationId;
    use windlass_core::oddity::Oddity;
    use windlass_core::tally::{OfType, Tally};
    use windlass_csi::Called;
    use windlass_linux::workers::Counts;

    use super::*;
    use crate::plugin::{Condition, Measure};

    fn report(kind: OperationKind, ending: Ending, took: u64) -> OperationReport {
        OperationReport {
            id: OperationId(1),
            kind,
            plugin: "kubernetes.io/csi".into(),
            driver: Some("d.example.com".into()),
            volume: "volume".into(),
            mode: Mode::Filesystem,
            migrated: false,
            pod: None,
            ending,
            queued: Duration::from_secs(1),
            took: Duration::from_secs(took),
            wanted: Some(Duration::from_secs(60)),
        }
    }

    /// One of everything.
    fn totals() -> Totals {
        let of_type = OfType { plugin: "kubernetes.io/secret".into(), driver: None, wanted: 2, mounted: 1 };
        Totals {
            tally: Tally { types: vec![of_type], urgencies: [1, 0, 0, 1] },
            operations: 1,
            orphans: 1,
            leftovers: 1,
            sockets: [("/registry/d.sock".into(), false)].into(),
            workers: Counts { lanes: BTreeMap::new(), threads: 1, idle: 0, panicked: 0 },
            messages: [("pod given", 1)].into(),
            oddities: vec![(Oddity::UnknownPod, 1)],
        }
    }

    /// One of everything has been counted.
    fn metrics() -> Metrics {
        let metrics = Metrics::new();
        metrics.observe(&Observed::OperationEnded(&report(OperationKind::Publish, Ending::Done, 1)));
        let driver = "d.example.com".into();
        let (method, took) = ("/csi.v1.Node/NodePublishVolume", Duration::from_millis(3));
        metrics.observe(&Observed::DriverCalled(&Called { driver: &driver, method, code: Code::Cancelled, took }));
        metrics.observe(&Observed::Measured { source: "du", took });
        metrics.observe(&Observed::DiskRead { found: 3, unreadable: 1 });
        let bytes = Some(Measure { total: Some(9), available: None, used: 4 });
        let condition = Some(Condition { abnormal: true, message: String::new() });
        let statistics = Statistics { bytes, inodes: None, condition };
        metrics.set_claims([(("default".into(), "data".into()), statistics)].into());
        metrics
    }

    #[test]
    fn every_metric_has_its_name_and_type_and_is_documented() {
        let text = metrics().text(&totals());
        let types: Vec<&str> = text.lines().filter_map(|it| it.strip_prefix("# TYPE ")).collect();
        insta::assert_snapshot!(types.join("\n"), @r"
        storage_operation_duration_seconds histogram
        volume_operation_total_seconds histogram
        csi_operations_seconds histogram
        kubelet_volume_metric_collection_duration_seconds histogram
        reconstruct_volume_operations_total counter
        reconstruct_volume_operations_errors_total counter
        force_cleaned_failed_volume_operations_total counter
        force_cleaned_failed_volume_operation_errors_total counter
        windlass_operation_duration_seconds histogram
        windlass_operation_queued_seconds histogram
        volume_manager_total_volumes gauge
        plugin_manager_total_plugins gauge
        kubelet_orphan_pod_cleaned_volumes gauge
        kubelet_orphan_pod_cleaned_volumes_errors gauge
        kubelet_volume_stats_capacity_bytes gauge
        kubelet_volume_stats_available_bytes gauge
        kubelet_volume_stats_used_bytes gauge
        kubelet_volume_stats_inodes gauge
        kubelet_volume_stats_inodes_free gauge
        kubelet_volume_stats_inodes_used gauge
        kubelet_volume_stats_health_status_abnormal gauge
        windlass_volumes gauge
        windlass_operations gauge
        windlass_threads gauge
        windlass_hung_workers gauge
        windlass_messages_total counter
        windlass_oddities_total counter
        ");
        let documented = include_str!("../../../docs/metrics.md");
        for name in types.iter().filter_map(|it| it.split(' ').next()) {
            assert!(documented.contains(&format!("`{name}`")), "docs/metrics.md does not have {name}");
        }
    }

    #[test]
    fn values_have_the_labels_of_the_kubelet() {
        let text = metrics().text(&totals());
        for line in [
            r#"volume_manager_total_volumes{plugin_name="kubernetes.io/secret",state="actual_state_of_world"} 1"#,
            r#"plugin_manager_total_plugins{socket_path="/registry/d.sock",state="desired_state_of_world"} 1"#,
            r#"kubelet_volume_stats_available_bytes{namespace="default",persistentvolumeclaim="data"} 0"#,
            r#"kubelet_volume_stats_health_status_abnormal{namespace="default",persistentvolumeclaim="data"} 1"#,
            r#"csi_operations_seconds_count{driver_name="d.example.com",method_name="/csi.v1.Node/NodePublishVolume",grpc_status_code="Canceled",migrated="false"} 1"#,
            r#"volume_operation_total_seconds_sum{plugin_name="kubernetes.io/csi:d.example.com",operation_name="overall_volume_mount"} 60.0"#,
            "reconstruct_volume_operations_errors_total 1",
        ] {
            assert!(text.lines().any(|it| it == line), "{line} is not in\n{text}");
        }
        assert!(!text.contains(r#"socket_path="/registry/d.sock",state="actual_state_of_world""#), "it was refused");
    }

    #[test]
    fn the_time_that_a_volume_took_to_stage_counts_for_its_first_mount() {
        let metrics = Metrics::new();
        for (kind, ending, took) in [
            (OperationKind::Stage, Ending::Unknown, 100),
            (OperationKind::Stage, Ending::Done, 10),
            (OperationKind::Publish, Ending::Done, 1),
            (OperationKind::Publish, Ending::Done, 1),
        ] {
            metrics.observe(&Observed::OperationEnded(&report(kind, ending, took)));
        }
        let text = metrics.text(&totals());
        let sum = |status: &str| {
            let line = text.lines().find(|it| {
                it.starts_with("storage_operation_duration_seconds_sum") && it.contains(&format!("status=\"{status}\""))
            });
            line.and_then(|it| it.rsplit(' ').next()).map(str::to_owned)
        };
        assert_eq!(sum("success").as_deref(), Some("15.0"), "11 s to stage, and twice 2 s to publish");
        assert_eq!(sum("fail-unknown").as_deref(), Some("101.0"), "a stage that fails is a mount that fails");
    }
}
