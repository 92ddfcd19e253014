//! CSI volumes, volumes that are CSI volumes today, and SELinux labels, which only CSI volumes have.

use super::*;
use windlass_core::spec::{Attach, Refresh};

const DRIVER: &str = "
---
kind: CSIDriver
metadata: {name: d.example.com}
";
const INLINE: &str = "csi: {driver: d.example.com}";

fn with_driver(spec: &str) -> World {
    let mut world = claiming(CSI);
    world.apply(&format!("{DRIVER}spec: {spec}"));
    world
}

/// C-67, E-412.
#[test]
fn a_persistent_volume_is_named_by_its_driver_and_handle() {
    let used = claiming(CSI).only_use();
    assert_eq!(used.spec.id.as_str(), "kubernetes.io/csi/d.example.com^vol-1");
    assert_eq!((used.spec.driver.as_ref().unwrap().as_str(), used.spec.inner_name.as_str()), ("d.example.com", "pv"));
    let Capabilities { attach, stage, block, expand, identity, refresh, .. } = &used.spec.capabilities;
    assert_eq!((*attach, *stage, *block, *expand), (Attach::ByController, true, true, true));
    assert_eq!((*identity, *refresh), (Identity::Shared, Refresh::Never));
}

/// C-68, C-99, C-101.
#[test]
fn a_volume_of_a_pod_is_the_pods_own_and_its_driver_must_allow_it() {
    let run = |modes: Option<&str>| {
        let driver = modes.map(|it| format!("{DRIVER}spec: {{volumeLifecycleModes: {it}}}")).unwrap_or_default();
        super::run(&(pod(&[("v", INLINE)]) + &driver))
    };
    assert_eq!(run(Some("[Ephemeral]")), "default/p\n  v is kubernetes.io/csi/uid-1-v\n");
    insta::assert_snapshot!(run(None), @r#"
    default/p
      v is kubernetes.io/csi/uid-1-v
        refused: MountVolume.SetUp failed for volume "v" : kubernetes.io/csi: mounter.SetupAt failed to check volume lifecycle mode: volume mode "Ephemeral" not supported by driver d.example.com (no CSIDriver object) <- CSIDriver d.example.com
    "#);
    insta::assert_snapshot!(run(Some("[Persistent]")), @r#"
    default/p
      v is kubernetes.io/csi/uid-1-v
        refused: MountVolume.SetUp failed for volume "v" : kubernetes.io/csi: mounter.SetupAt failed to check volume lifecycle mode: volume mode "Ephemeral" not supported by driver d.example.com (only supports ["Persistent"]) <- CSIDriver d.example.com
    "#);
}

/// C-36.
#[test]
fn a_driver_for_volumes_of_pods_alone_takes_no_persistent_ones() {
    insta::assert_snapshot!(with_driver("{volumeLifecycleModes: [Ephemeral]}").trace(), @r#"
    default/p
      v is kubernetes.io/csi/d.example.com^vol-1
        refused: MountVolume.SetUp failed for volume "pv" : kubernetes.io/csi: mounter.SetupAt failed to check volume lifecycle mode: volume mode "Persistent" not supported by driver d.example.com (only supports ["Ephemeral"]) <- CSIDriver d.example.com
    "#);
}

/// C-88.
#[test]
fn a_volume_of_a_pod_may_be_read_only() {
    let world = World::new(&pod(&[("v", "csi: {driver: d.example.com, readOnly: true}")]));
    assert_eq!(world.only_use().access, Access::ReadOnly);
}

/// C-34, C-40.
#[test]
fn the_drivers_object_decides_on_attach_and_republish() {
    let world = with_driver("{attachRequired: false, requiresRepublish: true}");
    let Capabilities { attach, refresh, .. } = world.only_use().spec.capabilities.clone();
    assert_eq!((attach, refresh), (Attach::NotNeeded, Refresh::Every(Duration::from_secs(60))));
}

#[test]
fn the_driver_itself_decides_on_stage_and_growth_once_it_has_registered() {
    let mut world = claiming(CSI);
    world.drivers.insert("d.example.com".into(), RegisteredDriver::default());
    let Capabilities { stage, expand, identity, .. } = world.only_use().spec.capabilities.clone();
    assert_eq!((stage, expand, identity), (false, false, Identity::Shared));
}

/// C-25.
#[test]
fn where_a_driver_says_that_the_node_is_counts_as_labels_of_the_node() {
    let zone = |zone: &str| {
        format!(
            "{CSI}, nodeAffinity: {{required: {{nodeSelectorTerms: [{{matchExpressions: [
                {{key: d.example.com/zone, operator: In, values: [{zone}]}}]}}]}}}}"
        )
    };
    let is_refused = |value: &str, says: &str| {
        let mut world = claiming(&zone(value));
        let topology = [("d.example.com/zone".to_owned(), says.to_owned())].into();
        world.drivers.insert("d.example.com".into(), RegisteredDriver { topology, ..RegisteredDriver::default() });
        world.only().details[0].refusal.is_some()
    };
    assert!(!is_refused("a", "a"));
    assert!(is_refused("a", "b"));
    assert!(claiming(&zone("a")).only().details[0].refusal.is_some(), "nobody says where the node is");
}

#[test]
fn a_volume_without_a_handle_has_no_name() {
    insta::assert_snapshot!(claiming("csi: {driver: d.example.com, volumeHandle: ''}").trace(), @r#"
    default/p
      v invalid: failed to GetUniqueVolumeNameFromSpec for volumeSpec "pv" using volume plugin "kubernetes.io/csi" err=it has no name of its own
    "#);
}

/// E-154, C-153; the golden case migrated-ebs.
#[test]
fn an_in_tree_volume_is_its_drivers_volume() {
    let world = claiming("awsElasticBlockStore: {volumeID: 'aws://us-east-1a/vol-1'}");
    assert_eq!(world.trace(), "default/p\n  v is kubernetes.io/csi/ebs.csi.aws.com^vol-1\n");
    let resolved = world.only();
    assert!(resolved.details[0].migrated && resolved.details[0].claim.is_some());
    assert_eq!(world.only_use().spec.inner_name.as_str(), "pv");
}

/// E-154, C-88, C-163: a pod's own volume becomes a shared one that never grows, and is published for writing.
#[test]
fn an_in_tree_volume_of_a_pod_counts_as_a_persistent_volume() {
    let world = World::new(&pod(&[("v", "awsElasticBlockStore: {volumeID: vol-1, readOnly: true}")]));
    let used = world.only_use();
    assert_eq!(used.spec.id.as_str(), "kubernetes.io/csi/ebs.csi.aws.com^vol-1");
    assert_eq!(used.spec.inner_name.as_str(), "ebs.csi.aws.com-vol-1");
    assert_eq!((used.access, used.spec.size), (Access::ReadWrite, expand::Size::default()));
    insta::assert_snapshot!(run(&pod(&[("v", "awsElasticBlockStore: {volumeID: 'aws://z/disk'}")])), @"
    default/p
      v invalid: failed to translate in-tree pv to CSI: invalid format for AWS volume (aws://z/disk)
    ");
}

/// A pod with SELinux options whose volume has these access modes and whose driver mounts with labels.
fn labelled(pod_options: &str, container_options: &str, modes: &str) -> World {
    let mut world = with_driver("{seLinuxMount: true}");
    world.apply(&bound(&format!("{CSI}, accessModes: {modes}")).replace("accessModes: [ReadWriteOnce], csi", "csi"));
    world.settings.selinux = Some(SelinuxDefaults::default());
    let spec = world.pods[0].spec.as_mut().unwrap();
    spec.security_context = serde_saphyr::from_str(pod_options).unwrap();
    spec.containers[0].security_context = serde_saphyr::from_str(container_options).unwrap();
    world
}

const ONE_POD: &str = "[ReadWriteOncePod]";

/// E-80, E-83, E-84, C-11.
#[test]
fn a_label_is_asked_for_where_one_pod_has_the_volume_and_the_driver_can() {
    let label = |world: &World| world.only_use().label.effective().map(ToString::to_string);
    let options = "{seLinuxOptions: {level: 's0:c1'}}";
    let expected = Some("system_u:object_r:container_file_t:s0:c1".to_string());
    assert_eq!(label(&labelled(options, "{}", ONE_POD)), expected, "from the pod");
    assert_eq!(label(&labelled("{}", options, ONE_POD)), expected, "from the container");
    assert_eq!(label(&labelled("{seLinuxOptions: {level: s1}}", options, ONE_POD)), expected, "the container wins");
    assert_eq!(label(&labelled("{}", "{}", ONE_POD)), None, "no options");
    assert_eq!(label(&labelled(options, "{}", "[ReadWriteMany]")), None, "other pods may have it");
    let recursive = "{seLinuxOptions: {level: 's0:c1'}, seLinuxChangePolicy: Recursive}";
    assert_eq!(label(&labelled(recursive, "{}", ONE_POD)), None, "E-82");
    let mut world = labelled(options, "{}", "[ReadWriteMany]");
    world.settings.selinux_all_modes = true;
    assert_eq!(label(&world), expected, "P-5");
    let mut world = labelled(options, "{}", ONE_POD);
    world.settings.selinux = None;
    assert_eq!(label(&world), None, "E-80: SELinux is off");
    world = labelled(options, "{}", ONE_POD);
    world.apply(&format!("{DRIVER}spec: {{seLinuxMount: false}}"));
    assert_eq!(label(&world), None, "E-82: the driver cannot");
}

/// E-85, E-86.
#[test]
fn labels_that_do_not_agree_are_an_error_where_they_would_be_enforced_and_else_a_warning() {
    let two = |modes: &str| {
        let mut world = labelled("{}", "{seLinuxOptions: {level: 's0:c1'}}", modes);
        let containers = &mut world.pods[0].spec.as_mut().unwrap().containers;
        let mut other = containers[0].clone();
        other.security_context = serde_saphyr::from_str("{seLinuxOptions: {level: 's0:c2'}}").unwrap();
        containers.push(other);
        world
    };
    insta::assert_snapshot!(two(ONE_POD).trace(), @r#"
    default/p
      v invalid: multiple SELinux labels found: "system_u:object_r:container_file_t:s0:c1" and "system_u:object_r:container_file_t:s0:c2"
    "#);
    let warned = two("[ReadWriteMany]");
    assert_eq!(warned.only_use().label.original, None);
    assert_eq!(warned.only().warnings.len(), 1);
    let broken = labelled("{seLinuxOptions: {user: 'a:b'}}", "{}", ONE_POD);
    insta::assert_snapshot!(broken.trace(), @r#"
    default/p
      v invalid: failed to translate SELinux options: invalid SELinux option "a:b"
    "#);
}
