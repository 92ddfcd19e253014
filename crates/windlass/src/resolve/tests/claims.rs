//! From claims to volumes, and what volumes that are no pod's own are.

use super::*;
use windlass_core::spec::Attach;

const CLAIM: &str = "persistentVolumeClaim: {claimName: data}";
const HERE: &str = "nodeAffinity: {required: {nodeSelectorTerms: [{matchExpressions: [
    {key: kubernetes.io/hostname, operator: In, values: [node-1]}]}]}}";
const ELSEWHERE: &str = "nodeAffinity: {required: {nodeSelectorTerms: [{matchExpressions: [
    {key: kubernetes.io/hostname, operator: In, values: [node-2]}]}]}}";

/// The claim and the volume of [`bound`], changed.
fn changed(volume: &str, change: impl FnOnce(&mut api::PersistentVolumeClaim, &mut PersistentVolume)) -> World {
    let mut world = claiming(volume);
    let (Lookup::Found(claim), Lookup::Found(pv)) = (world.memory.claim("default", "data"), world.memory.volume("pv"))
    else {
        panic!("both are there")
    };
    let (mut claim, mut pv) = (Arc::unwrap_or_clone(claim), Arc::unwrap_or_clone(pv));
    change(&mut claim, &mut pv);
    world.memory.put(claim.into());
    world.memory.put(pv.into());
    world
}

/// E-147, E-152a..E-152d; the golden case claim-not-usable.
#[test]
fn a_claim_that_cannot_be_used_is_waited_for_and_other_volumes_are_not() {
    let claim = |name: &str| format!("persistentVolumeClaim: {{claimName: {name}}}");
    let names = ["missing", "pending", "lost", "deleted", "nameless"];
    let sources: Vec<_> = names.iter().map(|it| claim(it)).collect();
    let mut volumes: Vec<_> = names.into_iter().zip(sources.iter().map(String::as_str)).collect();
    volumes.push(("scratch", "emptyDir: {}"));
    insta::assert_snapshot!(run(&(pod(&volumes) + "
---
kind: PersistentVolumeClaim
metadata: {name: pending}
spec: {}
status: {phase: Pending}
---
kind: PersistentVolumeClaim
metadata: {name: lost}
spec: {volumeName: vol-lost}
status: {phase: Lost}
---
kind: PersistentVolumeClaim
metadata: {name: deleted, deletionTimestamp: '2024-01-01T00:00:00Z', finalizers: [example.com/other]}
spec: {volumeName: vol-deleted}
status: {phase: Bound}
---
kind: PersistentVolumeClaim
metadata: {name: nameless}
spec: {}
status: {phase: Bound}
")), @r#"
    default/p
      missing unknown: error processing PVC default/missing: failed to fetch PVC from API server: persistentvolumeclaims "missing" not found <- PersistentVolumeClaim default/missing
      pending unknown: error processing PVC default/pending: PVC is not bound <- PersistentVolumeClaim default/pending
      lost unknown: error processing PVC default/lost: PVC is not bound <- PersistentVolumeClaim default/lost
      deleted unknown: error processing PVC default/deleted: PVC is being deleted <- PersistentVolumeClaim default/deleted
      nameless unknown: error processing PVC default/nameless: PVC has empty pvc.Spec.VolumeName <- PersistentVolumeClaim default/nameless
      scratch is kubernetes.io/empty-dir/uid-1-scratch
    "#);
}

/// E-152e..E-152g; the golden case claim-wrong-volume.
#[test]
fn a_claim_whose_volume_is_not_its_own_is_waited_for() {
    let volumes = [
        ("absent", "persistentVolumeClaim: {claimName: a}"),
        ("free", "persistentVolumeClaim: {claimName: b}"),
        ("taken", "persistentVolumeClaim: {claimName: c}"),
    ];
    insta::assert_snapshot!(run(&(pod(&volumes) + "
---
{kind: PersistentVolumeClaim, metadata: {name: a, uid: u-a}, spec: {volumeName: vol-absent}, status: {phase: Bound}}
---
{kind: PersistentVolumeClaim, metadata: {name: b, uid: u-b}, spec: {volumeName: vol-free}, status: {phase: Bound}}
---
{kind: PersistentVolumeClaim, metadata: {name: c, uid: u-c}, spec: {volumeName: vol-taken}, status: {phase: Bound}}
---
{kind: PersistentVolume, metadata: {name: vol-free}, spec: {local: {path: /x}}}
---
{kind: PersistentVolume, metadata: {name: vol-taken}, spec: {local: {path: /x}, claimRef: {uid: u-old}}}
")), @r#"
    default/p
      absent unknown: error processing PVC default/a: failed to fetch PV vol-absent from API server: persistentvolumes "vol-absent" not found <- PersistentVolume vol-absent
      free unknown: error processing PVC default/b: found PV object vol-free but it has a nil pv.Spec.ClaimRef indicating it is not yet bound to the claim <- PersistentVolume vol-free
      taken unknown: error processing PVC default/c: found PV object vol-taken but its pv.Spec.ClaimRef.UID u-old does not point to claim.UID u-c <- PersistentVolume vol-taken
    "#);
}

/// E-153; the golden case claim-deleted-protected.
#[test]
fn a_claim_that_is_being_deleted_but_protected_is_used() {
    let world = changed("local: {path: /x}", |claim, _| {
        claim.metadata.deletion_timestamp = serde_json::from_value(json!("2024-01-01T00:00:00Z")).unwrap();
        claim.metadata.finalizers = Some(vec!["kubernetes.io/pvc-protection".into()]);
    });
    insta::assert_snapshot!(world.trace(), @"
    default/p
      v is kubernetes.io/local-volume/pv
    ");
}

/// I-1: a look-up that failed says nothing, and the text is that of the failure.
#[test]
fn an_object_that_cannot_be_looked_up_leaves_the_volume_unknown() {
    let mut world = claiming(CSI);
    for (kind, name) in [
        (crate::objects::ObjectKind::Driver, "d.example.com"),
        (crate::objects::ObjectKind::Volume, "pv"),
        (crate::objects::ObjectKind::Claim, "data"),
    ] {
        world.memory.fail(&Reference::new(kind, "default", name), "connection refused");
        let Want::Unknown { text, waits_on } = &world.only().pod.volumes[0].want else { panic!("{kind:?}") };
        assert!(text.ends_with("from API server: connection refused"), "{text}");
        assert_eq!(waits_on.as_ref().map(|it| it.as_str().contains(name)), Some(true));
    }
}

/// E-150, C-25; the golden case claim-ephemeral.
#[test]
fn a_claim_of_a_pod_must_be_controlled_by_it() {
    let ephemeral = "ephemeral: {volumeClaimTemplate: {spec: {}}}";
    let claim = |owner: &str| {
        let claim = "{kind: PersistentVolumeClaim, spec: {volumeName: pv}, status: {phase: Bound}";
        format!(
            "{}\n---\n{claim}, metadata: {{name: p-v, uid: claim-1, ownerReferences: [{owner}]}}}}{}",
            pod(&[("v", ephemeral)]),
            bound("local: {path: /x}")
        )
    };
    let owner = |uid: &str, controller: bool| {
        format!("{{apiVersion: v1, kind: Pod, name: p, uid: {uid}, controller: {controller}}}")
    };
    let alien = "default/p
  v unknown: PVC default/p-v was not created for pod default/p (pod is not owner) <- PersistentVolumeClaim default/p-v
";
    assert_eq!(run(&claim(&owner("uid-1", true))), "default/p\n  v is kubernetes.io/local-volume/pv\n");
    assert_eq!(run(&claim(&owner("uid-2", true))), alien, "another pod's");
    assert_eq!(run(&claim(&owner("uid-1", false))), alien, "owned but not controlled");
    assert_eq!(run(&claim("")), alien, "nobody's");
    insta::assert_snapshot!(run(&pod(&[("v", ephemeral)])), @r#"
    default/p
      v unknown: error processing PVC default/p-v: failed to fetch PVC from API server: persistentvolumeclaims "p-v" not found <- PersistentVolumeClaim default/p-v
    "#);
}

/// E-155, C-26; the golden case claim-wrong-mode.
#[test]
fn a_volume_is_used_as_what_it_is() {
    let trace = |volume_mode: &str, mount: bool, device: bool| {
        let mounts = if mount { "volumeMounts: [{name: v, mountPath: /v}]," } else { "" };
        let devices = if device { "volumeDevices: [{name: v, devicePath: /dev/v}]," } else { "" };
        run(&format!(
            "
kind: Pod
metadata: {{name: p, uid: uid-1}}
spec: {{volumes: [{{name: v, {CLAIM}}}], containers: [{{name: main, {mounts} {devices}}}]}}
{}",
            bound(&format!("local: {{path: /x}}, volumeMode: {volume_mode}"))
        ))
        .replace("default/p\n  v ", "")
    };
    let misused =
        |mode: &str, place: &str| format!("invalid: volume v has volumeMode {mode}, but is specified in {place}\n");
    assert_eq!(trace("Filesystem", true, false), "is kubernetes.io/local-volume/pv\n");
    assert_eq!(trace("Block", false, true), "is kubernetes.io/local-volume/pv, block\n");
    assert_eq!(trace("Block", true, false), misused("Block", "volumeMounts"));
    assert_eq!(trace("Filesystem", false, true), misused("Filesystem", "volumeDevices"));
    assert_eq!(trace("Filesystem", true, true), misused("Filesystem", "volumeDevices"));
    assert_eq!(trace("Block", true, true), misused("Block", "volumeMounts"));
    assert_eq!(trace("Tape", true, false), misused("Tape", "volumeMounts"));
    assert_eq!(trace("''", true, false), "invalid: cannot get volumeMode for volume: pv\n");
}

/// P-45, P-218, E-250; the golden cases local-refused, hostpath-claim and local-mount-options.
#[test]
fn what_the_kubelet_refuses_when_it_mounts_goes_along_as_a_refusal() {
    let trace = |volume: &str| claiming(volume).trace();
    assert_eq!(trace(&format!("local: {{path: /x}}, {HERE}")), "default/p\n  v is kubernetes.io/local-volume/pv\n");
    insta::assert_snapshot!(trace(&format!("local: {{path: /x}}, {ELSEWHERE}")), @r#"
    default/p
      v is kubernetes.io/local-volume/pv
        refused: MountVolume.NodeAffinity check failed for volume "pv" : no matching NodeSelectorTerms <- Node node-1
    "#);
    insta::assert_snapshot!(trace("hostPath: {path: /x}, mountOptions: [noexec]"), @r#"
    default/p
      v is kubernetes.io/host-path/uid-1-pv
        refused: MountVolume.MountOptionSupport check failed for volume "pv" : mount options are not supported for this volume type
    "#);
    insta::assert_snapshot!(trace(&format!("hostPath: {{path: /x}}, mountOptions: [noexec], {ELSEWHERE}")), @r#"
    default/p
      v is kubernetes.io/host-path/uid-1-pv
        refused: MountVolume.NodeAffinity check failed for volume "pv" : no matching NodeSelectorTerms <- Node node-1
    "#);
    let block = |volume: &str| {
        let pod = pod(&[("v", CLAIM)]).replace("volumeMounts", "volumeDevices").replace("mountPath", "devicePath");
        run(&(pod + &bound(&format!("{volume}, volumeMode: Block"))))
    };
    insta::assert_snapshot!(block("hostPath: {path: /x}"), @r#"
    default/p
      v is kubernetes.io/host-path/uid-1-pv, block
        refused: MapVolume.FindMapperPluginBySpec failed to find BlockVolumeMapper plugin. Volume plugin is nil. for volume "pv"
    "#);
    insta::assert_snapshot!(block(&format!("local: {{path: /x}}, mountOptions: [noexec], {ELSEWHERE}")), @r#"
    default/p
      v is kubernetes.io/local-volume/pv, block
        refused: MapVolume.NodeAffinity check failed for volume "pv" : no matching NodeSelectorTerms <- Node node-1
    "#);
}

#[test]
fn a_node_that_is_not_known_is_waited_for_only_where_it_matters() {
    let mut world = claiming(&format!("local: {{path: /x}}, {HERE}"));
    let node = Reference::new(crate::objects::ObjectKind::Node, "", "node-1");
    world.memory.remove(&node);
    insta::assert_snapshot!(world.trace(), @r#"
    default/p
      v is kubernetes.io/local-volume/pv
        refused: MountVolume.NodeAffinity check failed for volume "pv" : error retrieving node: nodes "node-1" not found <- Node node-1
    "#);
    world.memory.fail(&node, "timed out");
    assert!(world.trace().contains("error retrieving node: timed out <- Node node-1"));
    let world = claiming("local: {path: /x}");
    assert!(!world.only().depends_on.contains(&"Node node-1".into()));
}

/// E-158, P-131, P-219: what counts is the claim reference's flag.
#[test]
fn a_pod_may_write_unless_its_reference_to_the_claim_says_otherwise() {
    let claim = "persistentVolumeClaim: {claimName: data, readOnly: true}";
    let world = World::new(&(pod(&[("v", claim)]) + &bound("hostPath: {path: /x}")));
    assert_eq!(world.trace(), "default/p\n  v is kubernetes.io/host-path/uid-1-pv, read-only\n");
    let mut world = claiming("hostPath: {path: /x}");
    let container = &mut world.pods[0].spec.as_mut().unwrap().containers[0];
    container.volume_mounts.as_mut().unwrap()[0].read_only = Some(true);
    assert_eq!(world.only_use().access, Access::ReadWrite, "the container's flag does not count");
}

/// E-63, E-64, E-2, C-7, C-8.
#[test]
fn a_volume_that_is_shared_has_one_name_and_others_have_one_for_each_pod() {
    let world = World::new(&(pod(&[("a", CLAIM), ("b", CLAIM), ("c", "emptyDir: {}")]) + &bound("local: {path: /x}")));
    insta::assert_snapshot!(world.trace(), @"
    default/p
      a is kubernetes.io/local-volume/pv
      b is kubernetes.io/local-volume/pv
      c is kubernetes.io/empty-dir/uid-1-c
    ");
    let resolved = world.only();
    let persistent = resolved.details.iter().map(|it| it.persistent.as_ref()?.metadata.name.as_deref());
    assert_eq!(persistent.collect::<Vec<_>>(), [Some("pv"), Some("pv"), None]);
}

/// P-216.
#[test]
fn a_group_comes_with_the_volume_as_it_is_written() {
    let group = |annotation: Option<&str>| {
        let annotations = annotation.map(|it| BTreeMap::from([("pv.beta.kubernetes.io/gid".into(), it.into())]));
        changed("local: {path: /x}", |_, pv| pv.metadata.annotations = annotations).only_use().spec.group.clone()
    };
    assert_eq!(group(Some("6000")).as_deref(), Some("6000"));
    assert_eq!(group(Some("a")).as_deref(), Some("a"), "E-37 is the engine's business");
    assert_eq!(group(Some("")), None);
    assert_eq!(group(None), None);
}

/// P-217; the golden case local-mount-options.
#[test]
fn mount_options_are_those_of_the_old_annotation_or_else_of_the_specification() {
    let options = |annotation: Option<&str>, spec: &str| {
        let annotations =
            annotation.map(|it| BTreeMap::from([("volume.beta.kubernetes.io/mount-options".into(), it.into())]));
        let world = changed(&format!("local: {{path: /x}}, mountOptions: {spec}"), |_, pv| {
            pv.metadata.annotations = annotations
        });
        world.only().details[0].mount_options.join(" ")
    };
    assert_eq!(options(None, "[nosuid, nodev, nosuid]"), "nodev nosuid");
    assert_eq!(options(Some("nodev,,noatime"), "[noexec]"), "noatime nodev");
    assert_eq!(options(Some(""), "[noexec]"), "");
    assert_eq!(options(None, "[]"), "");
}

/// E-83, E-250 step 5.
#[test]
fn a_volume_is_for_one_pod_if_that_is_its_only_access_mode() {
    let sharing = |modes: &[&str]| {
        let modes = modes.iter().map(ToString::to_string).collect();
        changed(CSI, |_, pv| pv.spec.as_mut().unwrap().access_modes = Some(modes)).only_use().spec.sharing
    };
    assert_eq!(sharing(&["ReadWriteOncePod"]), Sharing::OnePod);
    assert_eq!(sharing(&["ReadWriteOncePod", "ReadWriteOnce"]), Sharing::Shared);
    assert_eq!(sharing(&[]), Sharing::Shared);
}

/// E-158, E-283, E-284, C-27, C-110, C-111.
#[test]
fn a_claim_says_how_large_its_volume_should_be() {
    let size = |volume: &str, claim: Value| {
        let world = changed(CSI, |it, pv| {
            let capacity = serde_json::from_value(json!({ "storage": volume })).unwrap();
            pv.spec.as_mut().unwrap().capacity = Some(capacity);
            it.status = serde_json::from_value(claim["status"].clone()).unwrap();
            it.spec.as_mut().unwrap().access_modes = serde_json::from_value(claim["modes"].clone()).unwrap();
            it.metadata.annotations = serde_json::from_value(claim["annotations"].clone()).unwrap();
        });
        let expand::Size { wanted_bytes, recorded_bytes } = world.only_use().spec.size;
        (wanted_bytes, recorded_bytes)
    };
    let status = |capacity: &str| json!({"phase": "Bound", "capacity": {"storage": capacity}});
    assert_eq!(size("2", json!({"status": status("1")})), (Some(2), Some(1)), "it has grown");
    assert_eq!(size("1", json!({"status": status("2")})), (Some(2), Some(2)), "it cannot shrink");
    let resizing = |resize: &str| {
        let mut status = status("10");
        status["allocatedResources"] = json!({"storage": "20"});
        status["allocatedResourceStatuses"] = json!({ "storage": resize });
        json!({ "status": status })
    };
    assert_eq!(size("30", resizing("NodeResizePending")), (Some(20), Some(10)));
    assert_eq!(size("30", resizing("NodeResizeInProgress")), (Some(20), Some(10)));
    assert_eq!(size("30", resizing("NodeResizeInfeasible")), (Some(10), Some(10)));
    let mut grown = json!({"status": status("20"), "modes": ["ReadWriteMany"]});
    grown["status"]["allocatedResources"] = json!({"storage": "20"});
    assert_eq!(size("20", grown.clone()), (Some(20), Some(0)), "each node grows it for itself");
    grown["annotations"] = json!({"volume.kubernetes.io/node-expansion-not-required": "yes"});
    assert_eq!(size("20", grown), (Some(20), Some(20)));
    assert_eq!(size("lots", json!({"status": status("1")})), (None, None), "not readable");
    assert_eq!(size("2", json!({"status": {"phase": "Bound"}})), (None, None), "not known");
}

/// E-158.
#[test]
fn a_read_only_reference_does_not_grow_the_volume() {
    let claim = "persistentVolumeClaim: {claimName: data, readOnly: true}";
    let world = World::new(&(pod(&[("v", claim)]) + &bound(CSI)));
    assert_eq!(world.only_use().spec.size, expand::Size::default());
}

/// E-409.
#[test]
fn a_local_volume_is_staged_and_shared_and_not_attached() {
    let Capabilities { attach, stage, block, expand, identity, .. } =
        claiming("local: {path: /x}").only_use().spec.capabilities.clone();
    assert_eq!((attach, stage, block, expand, identity), (Attach::NotNeeded, true, true, true, Identity::Shared));
}

/// Everything that was asked for is named, found or not, so that its change leads back to the pod.
#[test]
fn a_pod_depends_on_all_it_asked_for() {
    let depends_on = |world: &World| world.only().depends_on.iter().map(ToString::to_string).collect::<Vec<_>>();
    assert_eq!(depends_on(&World::new(&pod(&[("v", CLAIM)]))), ["PersistentVolumeClaim default/data"]);
    let attached = depends_on(&claiming(&format!("{CSI}, {HERE}")));
    let (attachment, others) = attached.split_last().unwrap();
    assert_eq!(
        others,
        ["PersistentVolumeClaim default/data", "PersistentVolume pv", "CSIDriver d.example.com", "Node node-1"]
    );
    assert!(attachment.starts_with("VolumeAttachment csi-"), "{attachment}");
    assert_eq!(depends_on(&World::new(&pod(&[("v", "emptyDir: {}")]))), [""; 0]);
}

/// The way from an object that appears to the pod that waits for it.
#[test]
fn a_pod_is_resolved_again_when_what_it_waits_for_appears() {
    let mut world = World::new(&pod(&[("v", CLAIM)]));
    let waiting = world.only();
    world.memory.set_uses(&waiting.pod.uid, &waiting.depends_on);
    let complete = claiming("local: {path: /x}");
    let Lookup::Found(claim) = complete.memory.claim("default", "data") else { panic!() };
    assert_eq!(world.memory.put(crate::memory::Object::Claim(claim)), [waiting.pod.uid]);
    insta::assert_snapshot!(world.trace(), @r#"
    default/p
      v unknown: error processing PVC default/data: failed to fetch PV pv from API server: persistentvolumes "pv" not found <- PersistentVolume pv
    "#);
}
