//! How large the scratch space of a pod may grow (E-89).

use crate::catalogue::Limit;
use crate::quantity;
use k8s_openapi::api::core::v1::{PodSpec, ResourceRequirements};

const RESOURCE: &str = "ephemeral-storage";

/// The limit of one volume of a pod; `None` if it has none of its own kind, zero if it may grow without limit.
pub(super) fn limit(spec: &PodSpec, of_volume: Limit<'_>) -> Result<Option<u64>, quantity::Error> {
    let own = match of_volume {
        Limit::None => return Ok(None),
        Limit::OfPod => None,
        Limit::Own(limit) => Some(limit),
    };
    let pod = of_pod(spec)?;
    let own = own.map(|it| quantity::bytes(&it.0)).transpose()?.filter(|it| *it > 0);
    Ok(Some(own.filter(|it| pod == 0 || *it < pod).unwrap_or(pod)))
}

/// The limit of a whole pod: of the containers that run together, or of the init container that needs most, if that is
/// more. Zero if there is none.
fn of_pod(spec: &PodSpec) -> Result<u64, quantity::Error> {
    let of = |it: &Option<ResourceRequirements>| {
        let limits = it.as_ref().and_then(|it| it.limits.as_ref());
        quantity::bytes_of(limits, RESOURCE).map(Option::unwrap_or_default)
    };
    let mut together: u64 = 0;
    for container in &spec.containers {
        together = together.saturating_add(of(&container.resources)?);
    }
    let (mut sidecars, mut most): (u64, u64) = (0, 0);
    for container in spec.init_containers.iter().flatten() {
        let limit = of(&container.resources)?;
        if container.restart_policy.as_deref() == Some("Always") {
            together = together.saturating_add(limit);
            sidecars = sidecars.saturating_add(limit);
            most = most.max(sidecars);
        } else {
            most = most.max(sidecars.saturating_add(limit));
        }
    }
    match together.max(most) {
        0 => Ok(0),
        limit => {
            let overhead = quantity::bytes_of(spec.overhead.as_ref(), RESOURCE)?.unwrap_or_default();
            Ok(limit.saturating_add(overhead).min(quantity::MAX))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::catalogue::{Origin, VolumeType};
    use k8s_openapi::api::core::v1::Volume;
    use k8s_openapi::serde_json::{self, Value, json};

    fn container(limit: &str) -> Value {
        json!({"name": "c", "resources": {"limits": {"ephemeral-storage": limit}}})
    }

    fn of(spec: Value, volume: Value) -> Result<Option<u64>, String> {
        let spec: PodSpec = serde_json::from_value(spec).unwrap();
        let volume: Volume = serde_json::from_value(volume).unwrap();
        let volume_type = VolumeType::find(&Origin::Pod(&volume)).unwrap();
        limit(&spec, (volume_type.limit)(&volume)).map_err(|it| it.to_string())
    }

    fn scratch(size: Option<&str>) -> Value {
        json!({"name": "v", "emptyDir": {"sizeLimit": size}})
    }

    /// C-10.
    #[test]
    fn scratch_space_has_the_smaller_of_its_own_and_the_pods_limit() {
        let limited = json!({"containers": [container("1Gi"), container("1Gi")]});
        for (size, with_pod, without) in
            [(Some("1Gi"), 1, 1), (Some("2Gi"), 2, 2), (Some("3Gi"), 2, 3), (Some("0"), 2, 0), (None, 2, 0)]
        {
            let volume = scratch(size);
            assert_eq!(of(limited.clone(), volume.clone()), Ok(Some(with_pod << 30)), "{size:?}");
            assert_eq!(of(json!({"containers": []}), volume), Ok(Some(without << 30)), "{size:?}");
        }
    }

    /// E-89.
    #[test]
    fn only_what_lies_on_the_nodes_disk_is_limited() {
        let limited = json!({"containers": [container("1Gi")]});
        let of = |volume| of(limited.clone(), volume);
        assert_eq!(of(json!({"name": "v", "configMap": {"name": "m"}})), Ok(Some(1 << 30)));
        assert_eq!(of(json!({"name": "v", "gitRepo": {"repository": "r"}})), Ok(Some(1 << 30)));
        for source in [
            json!({"name": "v", "secret": {}}),
            json!({"name": "v", "projected": {}}),
            json!({"name": "v", "hostPath": {"path": "/"}}),
            json!({"name": "v", "csi": {"driver": "d"}}),
        ] {
            assert_eq!(of(source.clone()), Ok(None), "{source}");
        }
        let memory = json!({"name": "v", "emptyDir": {"medium": "Memory", "sizeLimit": "1Mi"}});
        assert_eq!(of(memory), Ok(None));
    }

    #[test]
    fn init_containers_and_sidecars_count_as_they_run() {
        let mut sidecar = container("1Gi");
        sidecar["restartPolicy"] = "Always".into();
        let pod = |init: Value, overhead: Value| {
            let spec = json!({"containers": [container("2Gi")], "initContainers": init, "overhead": overhead});
            of(spec, scratch(None)).unwrap().unwrap() >> 30
        };
        assert_eq!(pod(json!([container("1Gi")]), json!({})), 2, "the containers need more");
        assert_eq!(pod(json!([container("5Gi"), container("4Gi")]), json!({})), 5, "the largest");
        assert_eq!(pod(json!([sidecar]), json!({})), 3, "a sidecar runs with the containers");
        assert_eq!(pod(json!([sidecar, container("5Gi")]), json!({})), 6, "and with later init containers");
        assert_eq!(pod(json!([container("5Gi"), sidecar]), json!({})), 5, "but not with earlier ones");
        assert_eq!(pod(json!([]), json!({"ephemeral-storage": "1Gi"})), 3, "overhead");
    }

    #[test]
    fn a_limit_that_is_no_quantity_is_an_error() {
        let text = of(json!({"containers": []}), scratch(Some("lots"))).unwrap_err();
        assert_eq!(text, "quantity \"lots\" does not begin with a number");
    }
}
