//! How large a volume in memory may grow (P-64).

use k8s_openapi::api::core::v1::{Container, PodSpec};

use crate::quantity;

const RESOURCE: &str = "memory";

/// The size of a tmpfs: the least of what the node gives to pods, what the pod may use and what the volume may hold.
/// What is zero limits nothing. `None` leaves it to the kernel.
///
/// The kubelet heeds neither pod nor volume where its node gives nothing at all; a host that is no node still can limit
/// its volumes.
pub(super) fn choose(
    allocatable: Option<u64>,
    pod: &PodSpec,
    limit: Option<u64>,
) -> Result<Option<u64>, quantity::Error> {
    Ok([allocatable, of_pod(pod)?, limit].into_iter().flatten().filter(|it| *it > 0).min())
}

/// The memory that a whole pod may use: what it says itself, or what its containers say if none leaves it open.
fn of_pod(pod: &PodSpec) -> Result<Option<u64>, quantity::Error> {
    let own = quantity::bytes_of(pod.resources.as_ref().and_then(|it| it.limits.as_ref()), RESOURCE)?;
    let limit = match own {
        Some(own) => Some(own),
        None => of_containers(pod)?,
    };
    let overhead = quantity::bytes_of(pod.overhead.as_ref(), RESOURCE)?.unwrap_or_default();
    Ok(limit.map(|it| it.saturating_add(overhead).min(quantity::MAX)))
}

/// The containers that run together, or the init container that needs most with the sidecars before it, if that is
/// more.
fn of_containers(pod: &PodSpec) -> Result<Option<u64>, quantity::Error> {
    let mut together: u64 = 0;
    for container in &pod.containers {
        let Some(limit) = of_container(container)? else { return Ok(None) };
        together = together.saturating_add(limit);
    }
    let (mut sidecars, mut most): (u64, u64) = (0, 0);
    for container in pod.init_containers.iter().flatten() {
        let Some(limit) = of_container(container)? else { return Ok(None) };
        if container.restart_policy.as_deref() == Some("Always") {
            together = together.saturating_add(limit);
            sidecars = sidecars.saturating_add(limit);
            most = most.max(sidecars);
        } else {
            most = most.max(sidecars.saturating_add(limit));
        }
    }
    Ok(Some(together.max(most)))
}

/// A limit of zero is none.
fn of_container(container: &Container) -> Result<Option<u64>, quantity::Error> {
    let limits = container.resources.as_ref().and_then(|it| it.limits.as_ref());
    Ok(quantity::bytes_of(limits, RESOURCE)?.filter(|it| *it > 0))
}

#[cfg(test)]
mod tests {
    use k8s_openapi::serde_json::{self, Value, json};

    use super::*;

    fn limited(memory: &str) -> Value {
        json!({"name": "c", "resources": {"limits": {"memory": memory}}})
    }

    fn chosen(allocatable: Option<u64>, pod: Value, limit: Option<u64>) -> Option<u64> {
        let pod: PodSpec = serde_json::from_value(pod).unwrap();
        let gibibytes = |it: u64| it << 30;
        let chosen = choose(allocatable.map(gibibytes), &pod, limit.map(gibibytes)).unwrap();
        chosen.map(|it| it >> 30)
    }

    /// T-2.
    #[test]
    fn the_least_of_node_pod_and_volume_counts() {
        let pod = json!({"containers": [limited("10Gi")]});
        assert_eq!(chosen(Some(16), pod.clone(), Some(1)), Some(1));
        assert_eq!(chosen(Some(16), pod.clone(), Some(0)), Some(10));
        assert_eq!(chosen(Some(16), pod.clone(), None), Some(10));
        assert_eq!(chosen(Some(16), pod.clone(), Some(12)), Some(10), "more than the pod can use");
        assert_eq!(chosen(Some(8), pod, None), Some(8), "more than the node gives");
        let request = json!({"containers": [{"name": "c", "resources": {"requests": {"memory": "10Gi"}}}]});
        assert_eq!(chosen(Some(16), request, Some(0)), Some(16), "a request is no limit");
    }

    /// T-3: the size is an option of the mount only if there is one.
    #[test]
    fn without_any_limit_the_kernel_decides() {
        assert_eq!(chosen(None, json!({"containers": []}), None), None);
        assert_eq!(chosen(Some(0), json!({"containers": [{"name": "c"}]}), Some(0)), None);
        assert_eq!(chosen(None, json!({"containers": [{"name": "c"}]}), Some(3)), Some(3));
    }

    /// P-64, P-11.
    #[test]
    fn a_pod_has_a_limit_if_every_container_has_or_itself() {
        let of = |pod| chosen(Some(100), pod, None).unwrap();
        assert_eq!(of(json!({"containers": [limited("1Gi"), limited("2Gi")]})), 3);
        assert_eq!(of(json!({"containers": [limited("1Gi"), {"name": "open"}]})), 100);
        assert_eq!(of(json!({"containers": [limited("1Gi"), limited("0")]})), 100, "zero is no limit");
        assert_eq!(of(json!({"containers": [limited("1Gi")], "initContainers": [{"name": "open"}]})), 100);
        let resources = json!({"limits": {"memory": "5Gi"}});
        assert_eq!(of(json!({"containers": [{"name": "open"}], "resources": resources})), 5);
        assert_eq!(of(json!({"containers": [limited("9Gi")], "resources": resources})), 5);
        assert_eq!(of(json!({"containers": [limited("1Gi")], "overhead": {"memory": "1Gi"}})), 2);
    }

    #[test]
    fn init_containers_and_sidecars_count_as_they_run() {
        let mut sidecar = limited("1Gi");
        sidecar["restartPolicy"] = "Always".into();
        let of =
            |init: Value| chosen(None, json!({"containers": [limited("2Gi")], "initContainers": init}), None).unwrap();
        assert_eq!(of(json!([limited("1Gi")])), 2, "the containers need more");
        assert_eq!(of(json!([limited("5Gi"), limited("4Gi")])), 5, "the largest");
        assert_eq!(of(json!([sidecar])), 3, "a sidecar runs with the containers");
        assert_eq!(of(json!([sidecar, limited("5Gi")])), 6, "and with later init containers");
        assert_eq!(of(json!([limited("5Gi"), sidecar])), 5, "but not with earlier ones");
    }

    #[test]
    fn a_limit_that_is_no_quantity_is_an_error() {
        let pod: PodSpec = serde_json::from_value(json!({"containers": [limited("lots")]})).unwrap();
        assert!(choose(None, &pod, None).is_err());
    }
}
