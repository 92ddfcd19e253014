//! Kinds of objects that are not read: those that are nobody's business here, and those that somebody misspelt.
//!
//! A pod whose kind is misspelt is not a pod that was removed (I-1), so the two must be told apart.

/// What is read, by API version.
const READ: [(&str, &[&str]); 2] = [
    ("v1", &["Pod", "PersistentVolumeClaim", "PersistentVolume", "Node", "ConfigMap", "Secret", "List"]),
    ("storage.k8s.io/v1", &["CSIDriver", "StorageClass", "VolumeAttachment"]),
];

/// All other kinds of these API versions.
const OTHERS: [(&str, &[&str]); 2] = [
    (
        "v1",
        &[
            "APIGroup",
            "APIResourceList",
            "APIVersions",
            "Binding",
            "ComponentStatus",
            "Config",
            "DeleteOptions",
            "Endpoints",
            "Event",
            "LimitRange",
            "Namespace",
            "PodTemplate",
            "ReplicationController",
            "ResourceQuota",
            "Service",
            "ServiceAccount",
            "Status",
        ],
    ),
    ("storage.k8s.io/v1", &["CSINode", "CSIStorageCapacity", "VolumeAttributesClass"]),
];

/// Kinds of other API versions that look like one of ours and are none.
const ALIKE: [&str; 2] = ["Job", "Role"];

/// What an object that is not read is nearly, if it is: of a kind that is read, but of another API version; or of a kind
/// that its API version does not have, or that is written like one that is read.
pub(crate) fn nearly(api_version: &str, kind: &str) -> Option<String> {
    let kinds = || READ.iter().flat_map(|(version, kinds)| kinds.iter().map(move |kind| (*version, *kind)));
    let item = kind.trim().strip_suffix("List").filter(|it| !it.is_empty()).unwrap_or(kind);
    if let Some((version, kind)) = kinds().find(|(_, it)| *it == item) {
        return Some(format!("a {kind} is of {version}"));
    }
    let known = OTHERS.iter().find(|(version, _)| *version == api_version).map(|(_, kinds)| kinds);
    if known.is_some_and(|it| it.contains(&item)) || known.is_none() && ALIKE.contains(&item) {
        return None;
    }
    let plain = |it: &str| it.trim().to_lowercase();
    let written = plain(item);
    let distance = |it: &str| strsim::damerau_levenshtein(&written, &plain(it));
    let nearest = kinds().min_by_key(|(_, it)| distance(it));
    // In a short word two letters are most of it. The plural of one is one letter more.
    let near = nearest.filter(|(_, it)| distance(it) <= if it.len() < 5 { 1 } else { 2 });
    match (near, known) {
        (Some((_, kind)), _) => Some(format!("did you mean {kind}?")),
        (None, Some(_)) => Some(format!("{api_version} has no such kind")),
        (None, None) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_misspelt_is_told_from_what_is_of_no_interest() {
        for (api_version, kind) in [
            ("v1", "Pods"),
            ("v1", "pod"),
            ("v1", "POD"),
            ("v1", "Pdo"),
            ("v1", " Pod"),
            ("v1", "Pod "),
            ("v1", "ConfigMaps"),
            ("v1", "Configmap"),
            ("v1", "PersistentVolumeClaims"),
            ("v1", "PersistantVolumeClaim"),
            ("v1", "PersistentVolumClam"),
            ("v1", "Deployment"),
            ("v1", "Nonsense"),
            ("v1", "Job"),
            ("v1", "PodLists"),
            ("v1", "Lists"),
            ("v2", "Pod"),
            ("V1", "Pod"),
            ("v1 ", "Pod"),
            ("apps/v1", "Pod"),
            ("apps/v1", "Secrets"),
            ("apps/v1", "PodList"),
            ("v1", "CSIDriver"),
            ("v1", "StorageClass"),
            ("storage.k8s.io/v1beta1", "StorageClass"),
            ("storage.k8s.io/v1beta1", "CSIDrivers"),
            ("storage.k8s.io/v1", "Pod"),
            ("storage.k8s.io/v1", "StorageClas"),
            ("storage.k8s.io", "VolumeAttachment"),
            ("example.com/v1", "Secert"),
        ] {
            assert!(nearly(api_version, kind).is_some(), "{kind:?} of {api_version:?}");
        }
        for (api_version, kind) in [
            ("apps/v1", "Deployment"),
            ("apps/v1", "DaemonSet"),
            ("apps/v1", "DeploymentList"),
            ("batch/v1", "Job"),
            ("batch/v1", "CronJob"),
            ("rbac.authorization.k8s.io/v1", "Role"),
            ("rbac.authorization.k8s.io/v1", "RoleBinding"),
            ("v1", "Service"),
            ("v1", "ServiceAccount"),
            ("v1", "Namespace"),
            ("v1", "NamespaceList"),
            ("v1", "Config"),
            ("storage.k8s.io/v1", "CSINode"),
            ("storage.k8s.io/v1beta1", "VolumeAttributesClass"),
            ("snapshot.storage.k8s.io/v1", "VolumeSnapshot"),
            ("kustomize.config.k8s.io/v1beta1", "Kustomization"),
            ("example.com/v1", "Foo"),
            ("networking.k8s.io/v1", "Ingress"),
        ] {
            assert_eq!(nearly(api_version, kind), None, "{kind:?} of {api_version:?}");
        }
    }

    #[test]
    fn it_is_told_what_is_meant() {
        assert_eq!(nearly("v1", "Pods").as_deref(), Some("did you mean Pod?"));
        assert_eq!(nearly("v2", "Pod").as_deref(), Some("a Pod is of v1"));
        assert_eq!(nearly("v1", "Nonsense").as_deref(), Some("v1 has no such kind"));
    }
}
