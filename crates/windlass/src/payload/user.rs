//! The user that a whole pod runs as.

use k8s_openapi::api::core::v1::{PodSpec, SecurityContext};

/// The one user that all containers of a pod run as, init and ephemeral ones too; `None` if one has no user or two have
/// different ones (P-46, E-252).
pub(crate) fn shared_user(spec: &PodSpec) -> Option<i64> {
    let pod = spec.security_context.as_ref().and_then(|it| it.run_as_user);
    let of = |context: Option<&SecurityContext>| context.and_then(|it| it.run_as_user).or(pod);
    let containers = spec.containers.iter().chain(spec.init_containers.iter().flatten());
    let ephemeral = spec.ephemeral_containers.iter().flatten().map(|it| of(it.security_context.as_ref()));
    let mut users = containers.map(|it| of(it.security_context.as_ref())).chain(ephemeral);
    let first = users.next()??;
    users.all(|it| it == Some(first)).then_some(first)
}

#[cfg(test)]
mod tests {
    use super::*;
    use k8s_openapi::serde_json::{self, json};

    /// P-46, E-252.
    #[test]
    fn a_user_is_shared_if_every_container_runs_as_it() {
        let context = |user: Option<i64>| json!({"name": "c", "securityContext": {"runAsUser": user}});
        for (pod, containers, init, ephemeral, expected) in [
            (None, vec![None], None, None, None),
            (Some(1), vec![None], None, None, Some(1)),
            (Some(1), vec![Some(2)], None, None, Some(2)),
            (Some(1), vec![Some(2), None], None, None, None),
            (None, vec![Some(0), Some(0)], None, None, Some(0)),
            (None, vec![Some(1), Some(2)], None, None, None),
            (None, vec![Some(1)], Some(None), None, None),
            (None, vec![Some(1)], Some(Some(1)), Some(Some(1)), Some(1)),
            (None, vec![Some(1)], Some(Some(1)), Some(Some(2)), None),
            (Some(1), vec![], None, None, None),
        ] {
            let spec: PodSpec = serde_json::from_value(json!({
                "securityContext": {"runAsUser": pod},
                "containers": containers.iter().map(|it| context(*it)).collect::<Vec<_>>(),
                "initContainers": init.into_iter().map(context).collect::<Vec<_>>(),
                "ephemeralContainers": ephemeral.into_iter().map(context).collect::<Vec<_>>(),
            }))
            .unwrap();
            assert_eq!(shared_user(&spec), expected, "{spec:?}");
        }
    }
}
