use crate::manifest;

use super::*;

/// What is wrong with the manifests, a line each.
fn found(text: &str) -> Vec<String> {
    let all = manifest::read_written(text.as_bytes()).unwrap();
    let told = |it: Finding| format!("{:?} {}: {}", it.severity, it.field, it.text);
    all.iter().flat_map(|it| written(it).into_iter().map(told)).collect()
}

/// Where the manifests are wrong, and nothing else.
fn fields(text: &str) -> Vec<String> {
    let all = manifest::read_written(text.as_bytes()).unwrap();
    all.iter().flat_map(|it| written(it).into_iter().map(|it| it.field)).collect()
}

/// A pod whose container mounts these volumes.
fn with_volumes(volumes: &[&str]) -> String {
    let name =
        |it: &str| it.split("name: ").nth(1).and_then(|it| it.split([',', '}']).next()).unwrap_or_default().to_owned();
    let mount = |it: &&str| format!("{{name: {0}, mountPath: /{0}}}", name(it));
    let mounts: Vec<String> = volumes.iter().map(mount).collect();
    format!(
        "{{apiVersion: v1, kind: Pod, metadata: {{name: p}}, spec: {{containers: [{{name: c, volumeMounts: [{}]}}], volumes: [{}]}}}}",
        mounts.join(", "),
        volumes.join(", ")
    )
}

#[test]
fn what_is_in_order_is_not_remarked_on() {
    let text = with_volumes(&[
        "{name: a, configMap: {name: c, defaultMode: 0777, items: [{key: k, path: a/b..c, mode: 0}]}}",
        "{name: b, secret: {secretName: s, optional: true}}",
        "{name: c, emptyDir: {medium: Memory, sizeLimit: 1Gi}}",
        "{name: d, emptyDir: {medium: HugePages-2Mi}}",
        "{name: e}",
        "{name: f, hostPath: {path: /var/log, type: Directory}}",
        "{name: g, projected: {sources: [{configMap: {name: c}}, {serviceAccountToken: {path: token}}]}}",
        "{name: h, downwardAPI: {items: [{path: labels, fieldRef: {fieldPath: metadata.labels}}]}}",
        "{name: i, persistentVolumeClaim: {claimName: data}}",
    ]);
    assert_eq!(found(&text), [""; 0]);
}

#[test]
fn names_that_cannot_be_used_are_errors_and_strange_ones_are_not() {
    let of = |metadata: &str| found(&format!("{{apiVersion: v1, kind: ConfigMap, metadata: {{{metadata}}}}}"));
    assert_eq!(of("name: a.b-c, namespace: d-e, uid: f_G"), [""; 0]);
    for (metadata, error) in [
        ("name: a/b", "Error metadata.name: \"a/b\" cannot be used: it contains a slash"),
        ("name: ..", "Error metadata.name: \"..\" cannot be used: it is \"..\""),
        (
            "name: \"a\\nb\"",
            "Error metadata.name: \"a\\nb\" cannot be used: it contains characters that cannot be printed",
        ),
        ("name: a, namespace: ../x", "Error metadata.namespace: \"../x\" cannot be used: it contains a slash"),
        ("name: a, uid: x/y", "Error metadata.uid: \"x/y\" cannot be used: it contains a slash"),
    ] {
        assert_eq!(of(metadata), [error]);
    }
    for metadata in
        ["name: A", "name: -a", "name: a..b", "name: a, namespace: b.c", &format!("name: {}", "a".repeat(254))]
    {
        assert!(of(metadata)[0].starts_with("Warning metadata.name"), "{metadata}");
    }
}

#[test]
fn a_pod_needs_a_specification_and_volumes_that_can_be_told_apart() {
    assert_eq!(found("{apiVersion: v1, kind: Pod, metadata: {name: p}}"), ["Error spec: it is missing"]);
    assert_eq!(
        found(&with_volumes(&["{name: a}", "{name: b}", "{name: a}"]))[..1],
        ["Error spec.volumes[2].name: \"a\" is the name of spec.volumes[0] too; rename one of them"]
    );
}

#[test]
fn what_is_wrong_with_a_volume_is_told_by_field() {
    for (volume, field) in [
        ("{name: A}", "name"),
        ("{name: v, emptyDir: {}, secret: {secretName: s}}", ""),
        ("{name: v, configMap: {}}", "configMap.name"),
        ("{name: v, configMap: {name: c, defaultMode: 777}}", "configMap.defaultMode"),
        ("{name: v, configMap: {name: c, items: [{key: k, path: /a}]}}", "configMap.items[0].path"),
        ("{name: v, configMap: {name: c, items: [{key: k, path: a/../b}]}}", "configMap.items[0].path"),
        ("{name: v, configMap: {name: c, items: [{key: k, path: ..data}]}}", "configMap.items[0].path"),
        ("{name: v, configMap: {name: c, items: [{key: k, path: a, mode: -1}]}}", "configMap.items[0].mode"),
        ("{name: v, configMap: {name: c, items: [{path: a}]}}", "configMap.items[0].key"),
        ("{name: v, secret: {}}", "secret.secretName"),
        ("{name: v, secret: {secretName: s, defaultMode: 1000}}", "secret.defaultMode"),
        ("{name: v, emptyDir: {medium: memory}}", "emptyDir.medium"),
        ("{name: v, emptyDir: {sizeLimit: 1GB}}", "emptyDir.sizeLimit"),
        ("{name: v, hostPath: {path: /a, type: directory}}", "hostPath.type"),
        ("{name: v, hostPath: {path: a}}", "hostPath.path"),
        ("{name: v, hostPath: {path: /a/../b}}", "hostPath.path"),
        ("{name: v, hostPath: {}}", "hostPath.path"),
        ("{name: v, downwardAPI: {items: [{path: a}]}}", "downwardAPI.items[0]"),
        ("{name: v, projected: {sources: [{}]}}", "projected.sources[0]"),
        (
            "{name: v, projected: {sources: [{serviceAccountToken: {path: t, expirationSeconds: 60}}]}}",
            "projected.sources[0].serviceAccountToken.expirationSeconds",
        ),
        ("{name: v, persistentVolumeClaim: {}}", "persistentVolumeClaim.claimName"),
        ("{name: v, nfs: {server: s, path: /}}", "nfs"),
        ("{name: v, gitRepo: {repository: r}}", "gitRepo"),
        ("{name: v, image: {}}", "image.reference"),
        ("{name: v, configMap: {name: c, defaultmode: 0600}}", "configMap.defaultmode"),
    ] {
        let field = if field.is_empty() { String::new() } else { format!(".{field}") };
        assert_eq!(fields(&with_volumes(&[volume])), [format!("spec.volumes[0]{field}")], "{volume}");
    }
}

#[test]
fn what_is_wrong_with_a_container_is_told_by_field() {
    let of = |container: &str| {
        found(&format!(
            "{{apiVersion: v1, kind: Pod, metadata: {{name: p}}, spec: {{containers: [{{name: c, {container}}}], \
             initContainers: [{{name: i, volumeMounts: [{{name: v, mountPath: /v}}]}}], volumes: [{{name: v}}]}}}}"
        ))
    };
    for (container, finding) in [
        ("volumeMounts: [{name: w, mountPath: /w}]", "[0].name: the pod has no volume \"w\"; add one to spec.volumes"),
        ("volumeMounts: [{mountPath: /w}]", "[0].name: it is missing"),
        ("volumeMounts: [{name: v}]", "[0].mountPath: it is missing"),
        ("volumeMounts: [{name: v, mountPath: v}]", "[0].mountPath: \"v\" does not begin with a slash"),
        (
            "volumeMounts: [{name: v, mountPath: /a}, {name: v, mountPath: /a}]",
            "[1].mountPath: \"/a\" is where the container has something else already",
        ),
        (
            "volumeMounts: [{name: v, mountPath: /a, subPath: b}]",
            "[0].subPath: it is not supported yet: mount the whole volume, or name the file with items",
        ),
        (
            "volumeMounts: [{name: v, mountPath: /a, mountPropagation: Both}]",
            "[0].mountPropagation: \"Both\" is none of None, HostToContainer and Bidirectional",
        ),
    ] {
        assert_eq!(of(container), [format!("Warning spec.containers[0].volumeMounts{finding}")]);
    }
    assert_eq!(
        of("volumeDevices: [{name: v, devicePath: /dev/x}]"),
        [
            "Warning spec.containers[0].volumeDevices[0].name: \"v\" is no claim, and only a claimed volume can be a device"
        ]
    );
    let unused =
        "{apiVersion: v1, kind: Pod, metadata: {name: p}, spec: {containers: [{name: c}], volumes: [{name: v}]}}";
    assert_eq!(found(unused), ["Warning spec.volumes[0]: no container uses \"v\", so it is not mounted"]);
    let nobody = "{apiVersion: v1, kind: Pod, metadata: {name: p}, spec: {volumes: [{name: v}]}}";
    assert_eq!(fields(nobody), ["spec.containers"]);
}

#[test]
fn what_is_wrong_with_an_object_is_told_by_field() {
    let volume = "capacity: {storage: 1Gi}, accessModes: [ReadWriteOnce]";
    let affinity = "nodeAffinity: {required: {nodeSelectorTerms: []}}";
    let claim = "accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Gi}}";
    let mebibyte = "x".repeat(1 << 20);
    for (kind, rest, wrong) in [
        ("ConfigMap", "data: {a b: c}", &["data.a b"][..]),
        ("ConfigMap", "data: {..a: c}", &["data...a"]),
        ("ConfigMap", "data: {a: c}, binaryData: {a: Yw==}", &["binaryData.a"]),
        ("ConfigMap", &format!("data: {{a: {mebibyte}}}"), &["data"]),
        ("ConfigMap", "data: {a: c}, inmutable: true", &["inmutable"]),
        ("ConfigMap", "data: {a/b: c}", &["data.a/b"]),
        // Of a Secret the key may be the value, if somebody swapped them (I-12).
        ("Secret", "stringData: {a/b: c}", &["data"]),
        ("PersistentVolume", &format!("spec: {{{volume}, local: {{path: /a}}, {affinity}}}"), &[]),
        ("PersistentVolume", &format!("spec: {{{volume}, local: {{path: /a}}}}"), &["spec.nodeAffinity"]),
        ("PersistentVolume", &format!("spec: {{{volume}}}"), &["spec"]),
        (
            "PersistentVolume",
            &format!("spec: {{{volume}, hostPath: {{path: /a}}, nfs: {{server: s, path: /}}}}"),
            &["spec"],
        ),
        ("PersistentVolume", "spec: {hostPath: {path: /a}}", &["spec.capacity", "spec.accessModes"]),
        (
            "PersistentVolume",
            "spec: {hostPath: {path: /a}, capacity: {storage: much}, accessModes: [RWO], volumeMode: block}",
            &["spec.capacity.storage", "spec.accessModes[0]", "spec.volumeMode"],
        ),
        ("PersistentVolumeClaim", &format!("spec: {{{claim}, volumeName: v}}, status: {{phase: Bound}}"), &[]),
        ("PersistentVolumeClaim", &format!("spec: {{{claim}, volumeName: v}}"), &["status.phase"]),
        ("PersistentVolumeClaim", "spec: {}", &["spec.accessModes", "spec.resources.requests", "spec.volumeName"]),
        ("Node", "status: {allocatable: {memory: lots}}", &["status.allocatable.memory"]),
    ] {
        let text = format!("{{apiVersion: v1, kind: {kind}, metadata: {{name: x}}, {rest}}}");
        assert_eq!(fields(&text), wrong, "{kind} {}", &rest[..rest.len().min(200)]);
    }
    for (kind, rest, wrong) in [
        ("StorageClass", "provisioner: p", &[][..]),
        ("StorageClass", "parameters: {}", &["provisioner"]),
        ("VolumeAttachment", "spec: {source: {}}", &["spec.attacher", "spec.nodeName"]),
        ("CSIDriver", "spec: {attachrequired: false}", &["spec.attachrequired"]),
    ] {
        let text = format!("{{apiVersion: storage.k8s.io/v1, kind: {kind}, metadata: {{name: x}}, {rest}}}");
        assert_eq!(fields(&text), wrong, "{kind} {rest}");
    }
}

/// I-12.
#[test]
fn nothing_of_a_secret_is_quoted() {
    let big = "hunter2".repeat(200_000);
    let text = format!(
        "{{apiVersion: v1, kind: Secret, metadata: {{name: s}}, stringData: {{hunter2 y: {big}}}, extra: hunter2}}"
    );
    let found = found(&text);
    assert_eq!(found.len(), 3);
    assert!(!found.concat().contains("hunter2"));
}

/// They hold what an API server refuses too, but nothing that cannot be used.
#[test]
fn the_golden_cases_have_no_errors() {
    let cases = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/golden");
    let mut count = 0;
    for case in std::fs::read_dir(cases).unwrap() {
        for manifests in ["manifests.yaml", "update/manifests.yaml"] {
            let path = case.as_ref().unwrap().path().join(manifests);
            let Ok(text) = std::fs::read_to_string(&path) else { continue };
            let found = found(&text);
            assert!(!found.iter().any(|it| it.starts_with("Error")), "{}: {found:#?}", path.display());
            count += 1;
        }
    }
    assert!(count > 50, "{count} manifests");
}

#[test]
fn what_a_pod_cannot_do_without_is_known() {
    let text = with_volumes(&[
        "{name: a, configMap: {name: c}}",
        "{name: b, configMap: {name: d, optional: true}}",
        "{name: c, projected: {sources: [{secret: {name: s}}, {configMap: {name: e, optional: true}}]}}",
        "{name: d, persistentVolumeClaim: {claimName: data}}",
        "{name: e, ephemeral: {volumeClaimTemplate: {spec: {}}}}",
    ]);
    let mut documents = manifest::read(text.as_bytes()).unwrap();
    let Some(Document::Pod(pod)) = documents.pop() else { panic!("one pod") };
    let told: Vec<String> = references(&pod).iter().map(|(it, field)| format!("{it} at {field}")).collect();
    assert_eq!(
        told,
        [
            "ConfigMap default/c at spec.volumes[0].configMap.name",
            "Secret default/s at spec.volumes[2].projected.sources[0].secret.name",
            "PersistentVolumeClaim default/data at spec.volumes[3].persistentVolumeClaim.claimName",
            "PersistentVolumeClaim default/p-e at spec.volumes[4].ephemeral",
        ]
    );
}

/// Each would make all pods wait for one.
#[test]
fn more_volumes_containers_or_mounts_than_anybody_needs_are_errors() {
    let pod = |spec: &str| found(&format!("{{apiVersion: v1, kind: Pod, metadata: {{name: p}}, spec: {{{spec}}}}}"));
    let many = |count: usize, item: &str| {
        (0..count).map(|it| item.replace('N', &it.to_string())).collect::<Vec<_>>().join(", ")
    };
    let volumes = pod(&format!("containers: [{{name: c}}], volumes: [{}]", many(20_000, "{name: vN}")));
    assert_eq!(
        volumes,
        ["Error spec.volumes: there are 20000 volumes, and a pod may have 1000: make several pods of it"]
    );
    assert!(
        !pod(&format!("containers: [{{name: c}}], volumes: [{}]", many(1000, "{name: vN}")))[0].starts_with("Error")
    );
    let containers = pod(&format!("containers: [{}]", many(1001, "{name: cN}")));
    assert_eq!(
        containers,
        ["Error spec.containers: there are 1001 containers, and a pod may have 1000: make several pods of it"]
    );
    let mounts =
        pod(&format!("containers: [{{name: c, volumeMounts: [{}]}}]", many(10_001, "{name: v, mountPath: /N}")));
    assert!(mounts[0].contains("10001 mounts of volumes, and a pod may have 10000"), "{mounts:?}");
    let items = many(10_001, "{key: k, path: pN}");
    for source in [
        format!("configMap: {{name: c, items: [{items}]}}"),
        format!("projected: {{sources: [{{secret: {{name: c, items: [{items}]}}}}]}}"),
    ] {
        let told = pod(&format!("containers: [{{name: c}}], volumes: [{{name: v, {source}}}]"));
        assert!(told[0].contains("items and sources in volumes, and a pod may have 10000"), "{:?}", told.first());
    }
}

/// I-12: found by the fuzzer.
#[test]
fn a_secret_that_became_the_name_of_a_field_is_not_told() {
    let text = "apiVersion: v1\nkind: Secret\nmetadata: {name: keys}\nstringData:\n  password: x\n? hunter2\n";
    let written = crate::manifest::read_written(text.as_bytes()).unwrap();
    let findings: Vec<Finding> = written.iter().flat_map(super::written).collect();
    assert_eq!(findings.len(), 1);
    assert!(!format!("{findings:?} {written:?}").contains("hunter2"), "{findings:?}");
}
