use super::*;

/// E-146, P-43; the golden case usage-containers.
#[test]
fn only_volumes_that_a_container_uses_count() {
    insta::assert_snapshot!(run("
kind: Pod
metadata: {name: selective, uid: uid-1}
spec:
  initContainers:
  - {name: first, volumeMounts: [{name: init-only, mountPath: /init}]}
  - {name: side, restartPolicy: Always, volumeMounts: [{name: sidecar-only, mountPath: /side}]}
  ephemeralContainers:
  - {name: debug, volumeMounts: [{name: ephemeral-only, mountPath: /config}]}
  containers:
  - name: one
    volumeMounts: [{name: everywhere, mountPath: /a}, {name: everywhere, mountPath: /b, subPath: below}]
  - {name: two, envFrom: [{configMapRef: {name: settings}}], volumeMounts: [{name: everywhere, mountPath: /c}]}
  volumes:
  - {name: everywhere, emptyDir: {}}
  - {name: init-only, emptyDir: {}}
  - {name: sidecar-only, emptyDir: {medium: Memory}}
  - {name: ephemeral-only, configMap: {name: settings}}
  - {name: unused, emptyDir: {}}
  - {name: unused-config, configMap: {name: settings}}
  - {name: unused-missing, configMap: {name: absent}}
  - {name: unused-claim, persistentVolumeClaim: {claimName: absent}}
---
kind: Pod
metadata: {name: none, uid: uid-2}
spec: {containers: [{name: main}], volumes: [{name: unused, emptyDir: {}}]}
---
kind: Pod
metadata: {name: nothing, uid: uid-3}
spec: {containers: [{name: main}]}
"), @"
    default/selective
      everywhere is kubernetes.io/empty-dir/uid-1-everywhere
      init-only is kubernetes.io/empty-dir/uid-1-init-only
      sidecar-only is kubernetes.io/empty-dir/uid-1-sidecar-only:Memory
      ephemeral-only is kubernetes.io/configmap/uid-1-ephemeral-only, read-only
    default/none
    default/nothing
    ");
}

/// An emptyDir listed among the devices is set up as a directory, as the kubelet does.
#[test]
fn what_a_pod_describes_itself_is_a_directory_even_among_the_devices() {
    insta::assert_snapshot!(run("
kind: Pod
metadata: {name: p, uid: uid-1}
spec:
  containers: [{name: main, volumeDevices: [{name: v, devicePath: /dev/v}]}]
  volumes: [{name: v, emptyDir: {}}]
"), @"
    default/p
      v is kubernetes.io/empty-dir/uid-1-v
    ");
}

#[test]
fn names_that_do_not_fit_together_are_trouble_of_their_own_volume() {
    insta::assert_snapshot!(run("
kind: Pod
metadata: {name: p, uid: uid-1}
spec:
  containers:
  - name: main
    volumeMounts: [{name: twice, mountPath: /a}, {name: fine, mountPath: /b}, {name: nowhere, mountPath: /c}]
    volumeDevices: [{name: nowhere-either, devicePath: /dev/x}]
  volumes: [{name: twice, emptyDir: {}}, {name: fine, emptyDir: {}}, {name: twice, emptyDir: {}}]
"), @"
    default/p
      twice invalid: volume twice is listed more than once in the pod
      fine is kubernetes.io/empty-dir/uid-1-fine
      nowhere invalid: volume nowhere is used by a container but not listed in the pod
      nowhere-either invalid: volume nowhere-either is used by a container but not listed in the pod
    ");
}

#[test]
fn a_manifest_that_is_no_pod_says_why() {
    let World { settings, drivers, memory, .. } = World::new("");
    let resolver = Resolver { settings: &settings, drivers: &drivers, objects: &memory };
    let error = |pod: Value| {
        let pod: api::Pod = serde_json::from_value(pod).unwrap();
        let given = Given { source: "test".into(), version: Version::NONE, phase: Phase::Running };
        resolver.resolve(&pod, given).unwrap_err().to_string()
    };
    assert_eq!(error(json!({"metadata": {"namespace": "a", "name": "b"}})), "pod a/b has no uid");
    assert_eq!(error(json!({"metadata": {"uid": "1"}})), "pod with uid 1 has no name");
    assert_eq!(error(json!({"metadata": {"namespace": "a", "name": "b", "uid": "1"}})), "pod a/b has no spec");
}

#[test]
fn what_the_source_says_and_the_pods_own_groups_are_passed_on() {
    let world = World::new(
        "
kind: Pod
metadata: {name: p, namespace: apps, uid: uid-1}
spec: {containers: [], securityContext: {supplementalGroups: [7, 8]}}
",
    );
    let given = Given { source: "files".into(), version: Version(9), phase: Phase::Stopping };
    let World { settings, drivers, memory, pods } = &world;
    let resolver = Resolver { settings, drivers, objects: memory };
    let pod = resolver.resolve(&pods[0], given).unwrap().pod;
    let expected = Pod {
        uid: "uid-1".into(),
        name: "apps/p".into(),
        source: "files".into(),
        version: Version(9),
        phase: Phase::Stopping,
        groups: vec![7, 8],
        volumes: vec![],
    };
    assert_eq!(pod, expected);
}
