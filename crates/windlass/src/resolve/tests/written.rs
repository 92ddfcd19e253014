//! Volumes that a pod describes itself: which kinds there are, and when their content is another.

use super::*;

fn revision(world: &World) -> u64 {
    world.only_use().revision
}

/// E-157, E-381, E-414, P-12; the golden cases source-none, source-git-repo and source-image.
#[test]
fn each_source_has_its_kind_and_unknown_ones_say_so() {
    insta::assert_snapshot!(run(&pod(&[
        ("empty", "emptyDir: {}"),
        ("none", ""),
        ("host", "hostPath: {path: /x}"),
        ("config", "configMap: {name: c}"),
        ("secret", "secret: {secretName: s}"),
        ("downward", "downwardAPI: {items: []}"),
        ("projected", "projected: {sources: []}"),
        ("image", "image: {reference: r}"),
        ("git", "gitRepo: {repository: r}"),
        ("gluster", "glusterfs: {endpoints: nodes, path: volume}"),
        ("nfs", "nfs: {server: s, path: /}"),
        ("both", "emptyDir: {}, hostPath: {path: /x}"),
    ])), @r#"
    default/p
      empty is kubernetes.io/empty-dir/uid-1-empty
      none is kubernetes.io/empty-dir/uid-1-none
      host is kubernetes.io/host-path/uid-1-host
      config is kubernetes.io/configmap/uid-1-config, read-only
      secret is kubernetes.io/secret/uid-1-secret, read-only
      downward is kubernetes.io/downward-api/uid-1-downward, read-only
      projected is kubernetes.io/projected/uid-1-projected, read-only
      image is kubernetes.io/image/uid-1-image, read-only
      git is kubernetes.io/git-repo/uid-1-git
        refused: MountVolume.SetUp failed for volume "git" : git-repo volume plugin has been disabled; if necessary, it may be re-enabled by enabling the feature-gate `GitRepoVolumeDriver`
      gluster invalid: failed to get Plugin from volumeSpec for volume "gluster" err=no volume plugin matched
      nfs invalid: failed to get Plugin from volumeSpec for volume "nfs" err=no volume plugin matched: windlass has no volumes of type nfs
      both invalid: failed to get Plugin from volumeSpec for volume "both" err=multiple volume plugins matched: kubernetes.io/empty-dir,kubernetes.io/host-path
    "#);
}

/// The golden case usage-part-fails: what is missing in a secret is found when it is written, not before.
#[test]
fn a_secret_that_is_missing_leaves_the_volume_known() {
    let world = World::new(&pod(&[("v", "secret: {secretName: absent}")]));
    assert_eq!(world.trace(), "default/p\n  v is kubernetes.io/secret/uid-1-v, read-only\n");
    assert_eq!(world.only().depends_on, ["Secret default/absent".into()]);
}

/// C-10, E-89.
#[test]
fn a_size_limit_goes_along_with_scratch_space() {
    let limit = |source: &str| World::new(&pod(&[("v", source)])).only().details[0].size_limit_bytes;
    assert_eq!(limit("emptyDir: {sizeLimit: 1Ki}"), Some(1024));
    assert_eq!(limit("emptyDir: {}"), Some(0));
    assert_eq!(limit("emptyDir: {medium: Memory, sizeLimit: 1Ki}"), None);
    assert_eq!(limit("secret: {secretName: s}"), None);
    insta::assert_snapshot!(run(&pod(&[("v", "emptyDir: {sizeLimit: lots}")])), @r#"
    default/p
      v invalid: volume v has no usable size limit: quantity "lots" does not begin with a number
    "#);
}

/// E-207: a change of what is shown is a new revision, anything else is not.
#[test]
fn a_revision_follows_what_the_volume_shows() {
    for (kind, source) in [
        ("ConfigMap", "configMap: {name: x}"),
        ("Secret", "secret: {secretName: x}"),
        ("ConfigMap", "projected: {sources: [{configMap: {name: x}}]}"),
        ("Secret", "projected: {sources: [{downwardAPI: {items: []}}, {secret: {name: x}}]}"),
    ] {
        let mut world = World::new(&pod(&[("v", source)]));
        let object = |data: &str| format!("{{kind: {kind}, metadata: {{name: x}}, data: {{key: {data}}}}}");
        let absent = revision(&world);
        world.apply(&object("b25l"));
        let one = revision(&world);
        world.apply(&format!("{{kind: {kind}, metadata: {{name: other}}, data: {{key: b25l}}}}"));
        assert_eq!(revision(&world), one, "{source}: another object");
        world.apply(&object("dHdv"));
        let two = revision(&world);
        assert!(absent != one && one != two && absent != two, "{source}");
        world.apply(&object("b25l"));
        assert_eq!(revision(&world), one, "{source}: as before");
    }
}

#[test]
fn a_revision_stays_while_the_objects_cannot_be_read() {
    let mut world = World::new(&pod(&[("v", "configMap: {name: x}")]));
    world.apply("{kind: ConfigMap, metadata: {name: x}, data: {key: value}}");
    let before = revision(&world);
    let reference = Reference::new(crate::objects::ObjectKind::ConfigMap, "default", "x");
    world.memory.fail(&reference, "timed out");
    assert_eq!(revision(&world), before);
}

#[test]
fn a_revision_follows_how_the_volume_is_described() {
    let of = |source: &str| revision(&World::new(&pod(&[("v", source)])));
    assert_ne!(of("configMap: {name: x}"), of("configMap: {name: x, defaultMode: 256}"));
    assert_ne!(of("configMap: {name: x}"), of("configMap: {name: x, items: [{key: a, path: b}]}"));
}

/// It is kept on disk, so it must not change with the version of windlass or of anything it stands on.
#[test]
fn a_revision_is_the_same_for_ever() {
    let world = World::new(&pod(&[("v", "configMap: {name: x}")]));
    assert_eq!(revision(&world), 12_493_816_239_771_819_130);
}

/// P-115, P-117, P-118, P-120.
#[test]
fn a_revision_follows_what_the_volume_shows_of_the_pod() {
    let world = |item: &str| World::new(&pod(&[("v", &format!("downwardAPI: {{items: [{{path: p, {item}}}]}}"))]));
    let changes = |item: &str, change: fn(&mut World)| {
        let mut world = world(item);
        let before = revision(&world);
        change(&mut world);
        revision(&world) != before
    };
    let label: fn(&mut World) = |it| it.pods[0].metadata.labels = Some(BTreeMap::from([("a".into(), "b".into())]));
    let annotation: fn(&mut World) =
        |it| it.pods[0].metadata.annotations = Some(BTreeMap::from([("a".into(), "b".into())]));
    let limits: fn(&mut World) = |it| {
        let resources = serde_json::from_value(json!({"limits": {"cpu": "2"}})).unwrap();
        it.pods[0].spec.as_mut().unwrap().containers[0].resources = Some(resources);
    };
    let allocatable: fn(&mut World) =
        |it| it.apply("{kind: Node, metadata: {name: node-1}, status: {allocatable: {cpu: 4}}}");
    let resource = |it: &str| format!("resourceFieldRef: {{containerName: main, resource: {it}}}");
    let field = |it: &str| format!("fieldRef: {{fieldPath: \"{it}\"}}");
    for (item, change, expected) in [
        (field("metadata.labels"), label, true),
        (field("metadata.labels['a']"), label, true),
        (field("metadata.annotations"), label, false),
        (field("metadata.annotations"), annotation, true),
        (field("metadata.name"), annotation, false),
        (resource("limits.cpu"), limits, true),
        (resource("requests.cpu"), limits, true),
        (resource("limits.cpu"), allocatable, true),
        (resource("requests.cpu"), allocatable, false),
        (field("metadata.name"), limits, false),
    ] {
        assert_eq!(changes(&item, change), expected, "{item}");
    }
}

/// P-125.
#[test]
fn a_revision_follows_whose_token_is_in_the_volume() {
    let mut world = World::new(&pod(&[("v", "projected: {sources: [{serviceAccountToken: {path: token}}]}")]));
    let before = revision(&world);
    world.pods[0].spec.as_mut().unwrap().service_account_name = Some("other".into());
    assert_ne!(revision(&world), before);
}

/// A manifest of a pod that is as odd as a manifest can be.
fn any_pod() -> impl Strategy<Value = Value> {
    let name = || prop::sample::select(vec!["", "a", "b", "a/b", "..", "ä"]);
    let source = prop::sample::select(vec![
        json!({}),
        json!({"emptyDir": {"sizeLimit": "-1"}}),
        json!({"emptyDir": {"sizeLimit": "1e99"}, "secret": {}}),
        json!({"persistentVolumeClaim": {"claimName": ""}}),
        json!({"persistentVolumeClaim": {"claimName": "data"}}),
        json!({"ephemeral": {}}),
        json!({"csi": {"driver": ""}}),
        json!({"projected": {"sources": [{}, {"secret": {}}, {"downwardAPI": {"items": [{"path": ""}]}}]}}),
        json!({"downwardAPI": {"items": [{"path": "", "resourceFieldRef": {"resource": ""}}]}}),
        json!({"awsElasticBlockStore": {"volumeID": "aws://"}}),
        json!({"gcePersistentDisk": {"pdName": ""}}),
        json!({"azureFile": {"secretName": "azure-storage-account--secret", "shareName": ""}}),
    ]);
    let volumes = prop::collection::vec((name(), source), 0..5);
    let uses = prop::collection::vec((name(), any::<bool>()), 0..5);
    (name(), volumes, uses).prop_map(|(pod, volumes, uses)| {
        let volumes: Vec<Value> = volumes
            .into_iter()
            .map(|(name, mut source)| {
                source["name"] = name.into();
                source
            })
            .collect();
        let of = |device: bool| uses.iter().filter(move |it| it.1 == device).map(|it| it.0);
        let mounts: Vec<Value> = of(false).map(|it| json!({"name": it, "mountPath": "/"})).collect();
        let devices: Vec<Value> = of(true).map(|it| json!({"name": it, "devicePath": "/"})).collect();
        let container = json!({"name": "main", "volumeMounts": mounts, "volumeDevices": devices});
        json!({"metadata": {"name": pod, "uid": "uid-1"}, "spec": {"containers": [container], "volumes": volumes}})
    })
}

proptest! {
    /// Whatever a pod says, every volume that its containers name is answered for, once.
    #[test]
    fn no_pod_makes_it_panic_and_every_name_is_answered_for(manifest in any_pod(), fill in any::<bool>()) {
        let world = claiming(CSI);
        let mut pod: api::Pod = serde_json::from_value(manifest).unwrap();
        if fill {
            defaults::pod(&mut pod);
        }
        let World { settings, drivers, memory, .. } = &world;
        let given = Given { source: "test".into(), version: Version::NONE, phase: Phase::Running };
        let resolved = Resolver { settings, drivers, objects: memory }.resolve(&pod, given);
        let Ok(resolved) = resolved else {
            prop_assert_eq!(pod.metadata.name.as_deref(), Some(""));
            return Ok(());
        };
        let container = &pod.spec.as_ref().unwrap().containers[0];
        let mounts = container.volume_mounts.iter().flatten().map(|it| it.name.as_str());
        let named: BTreeSet<&str> = mounts.chain(container.volume_devices.iter().flatten().map(|it| it.name.as_str())).collect();
        let answered: Vec<&str> = resolved.pod.volumes.iter().map(|it| it.name.as_str()).collect();
        prop_assert_eq!(answered.len(), named.len());
        prop_assert_eq!(answered.into_iter().collect::<BTreeSet<_>>(), named);
        let known = resolved.pod.volumes.iter().filter(|it| matches!(it.want, Want::Volume(_)));
        prop_assert_eq!(known.map(|it| it.name.clone()).collect::<Vec<_>>(), resolved.details.iter().map(|it| it.name.clone()).collect::<Vec<_>>());
    }
}
