//! SELinux labels (E-80..E-88, E-118). How a pod's wish comes about is shown in `label.rs` (C-11, C-12).

use crate::language::{run, start};

/// E-84: the effective label goes with every call that mounts.
#[test]
fn a_volume_is_staged_and_published_with_the_label_of_its_pod() {
    insta::assert_snapshot!(run("
        volume disk: stage rwop label=l1
        pod a wants disk
        #1 done
    "), @r"
    #1 stage disk with label l1
    #2 publish disk to a with label l1
    ");
}

/// C-11, E-83: a label that is not enforced only counts for warnings.
#[test]
fn a_label_that_is_not_enforced_is_not_mounted_with() {
    insta::assert_snapshot!(run("
        volume disk: stage label=l1 unenforced
        pod a wants disk
        #1 done
    "), @r"
    #1 stage disk
    #2 publish disk to a
    ");
}

/// C-13, E-87: with the gate on; E-67, E-24: the second pod's volume is not processed, so it is listed as that.
#[test]
fn two_pods_with_different_labels_cannot_have_a_volume_at_the_same_time() {
    insta::assert_snapshot!(run("
        volume disk: label=l1
        pod a wants disk
        #1 done
        volume disk: label=l2
        pod b wants disk
        ? explain disk in b
        wait 1 for b mounted, 2m
        ? mounted a
        pod a gone
        #2 done
        #3 done
        ? mounted b
    "), @r#"
    #1 publish disk to a with label l1
    explain disk in b: LabelConflict (Pods that use the volume at the same time ask for different SELinux labels. (pod default/a))
    wait 1 failed: unmounted volumes=[disk], unattached volumes=[], failed to process volumes=[disk]: conflicting SELinux labels of volume disk: "l1" and "l2"
    mounted a: disk=disk
    #2 unpublish disk from a
    #3 publish disk to b with label l2
    pod a released
    mounted b: disk=disk
    "#);
}

/// C-13, E-87: with the gate off.
#[test]
fn labels_that_are_not_enforced_do_not_conflict() {
    insta::assert_snapshot!(run("
        volume disk: label=l1 unenforced
        pod a wants disk
        #1 done
        volume disk: label=l2 unenforced
        pod b wants disk
        #2 done
        ? mounted b
    "), @r"
    #1 publish disk to a
    #2 publish disk to b
    mounted b: disk=disk
    ");
}

/// C-12, E-82, E-87: the policy `Recursive` clears the second pod's label; the first pod's entry is unchanged.
#[test]
fn a_pod_without_a_label_conflicts_with_one_that_has_one() {
    insta::assert_snapshot!(run("
        volume disk: rwop label=l1
        pod a wants disk
        #1 done
        volume disk: rwop enforced
        pod b wants disk
        ? status b
        ? mounted a
    "), @r#"
    #1 publish disk to a with label l1
    status b: unmounted [disk], unattached [], unprocessed [disk], errors [conflicting SELinux labels of volume disk: "l1" and ""]
    mounted a: disk=disk
    "#);
}

/// E-118, E-187, W-23: the volume goes down and up again with the new label; the kubelet never forgets the old one.
#[test]
fn a_volume_changes_its_label_between_two_pods() {
    insta::assert_snapshot!(run("
        volume disk: stage label=l1
        pod a wants disk
        #1 done
        #2 done
        volume disk: stage label=l2
        pod a gone
        pod b wants disk
        ? explain disk in b
        ? status b
        #3 done
        #4 done
        #5 done
        #6 done
        ? status b
    "), @r#"
    #1 stage disk with label l1
    #2 publish disk to a with label l1
    #3 unpublish disk from a
    explain disk in b: LabelMismatch (The volume is still mounted with another SELinux label.)
    status b: unmounted [disk], unattached [], unprocessed [], errors [waiting for unmount of volume "disk", because it is already mounted to a different pod with a different SELinux label]
    #4 unstage disk
    pod a released
    #5 stage disk with label l2
    #6 publish disk to b with label l2
    status b: unmounted [], unattached [], unprocessed [], errors []
    "#);
}

/// E-107: what is attached stays attached while the label changes.
#[test]
fn a_volume_that_changes_its_label_is_not_detached() {
    insta::assert_snapshot!(run("
        volume disk: attach=node stage label=l1
        pod a wants disk
        #1 done
        #2 lost
        volume disk: attach=node stage label=l2
        pod a gone
        pod b wants disk
        #3 done
        #4 done
    "), @r"
    #1 attach disk
    in use [disk]
    #2 stage disk with label l1
    #3 unstage disk
    pod a released
    #4 stage disk with label l2
    #5 publish disk to b with label l2
    ");
}

/// W-23: once nothing is mounted, the old label is no obstacle.
#[test]
fn a_label_whose_mount_was_refused_is_forgotten() {
    insta::assert_snapshot!(run("
        volume disk: stage label=l1
        pod a wants disk
        #1 refused
        volume disk: stage label=l2
        pod a gone
        pod b wants disk
    "), @r"
    #1 stage disk with label l1
    pod a released
    #2 stage disk with label l2
    ");
}

/// E-112, W-23: the label is known again after a restart, also per pod.
#[test]
fn a_label_survives_a_restart() {
    insta::assert_snapshot!(start("
        volume disk: stage label=l1
        found stage of disk proven
        found disk in a intent
        disk read
        pod a wants disk
    "), @"#1 publish disk to a again with label l1");
}

/// I-1: the kubelet would take the volume from the pod (E-190); a pod keeps what it has.
#[test]
fn a_pod_whose_label_changed_keeps_what_it_has() {
    insta::assert_snapshot!(start("
        volume disk: stage label=l1
        found stage of disk proven
        found disk in a proven
        disk read
        attachments complete
        volume disk: stage label=l2
        pod a wants disk
        source s complete
        ? mounted a
    "), @r"
    synced
    mounted a: disk=disk
    ");
}

/// E-118: a pod that asks for one label is not given a volume that is mounted with another.
#[test]
fn a_pod_is_not_given_a_volume_that_is_mounted_with_another_label() {
    insta::assert_snapshot!(start("
        volume disk: stage label=l1
        found stage of disk proven
        found disk in a proven
        disk read
        attachments complete
        volume disk: stage label=l2
        pod a wants disk
        pod b wants disk
        source s complete
        ? status b
    "), @r#"
    synced
    status b: unmounted [disk], unattached [], unprocessed [], errors [waiting for unmount of volume "disk", because it is already mounted to a different pod with a different SELinux label]
    "#);
}

/// E-118, E-206: found with another label than the pod that comes asks for.
#[test]
fn a_volume_found_with_another_label_goes_down_first() {
    insta::assert_snapshot!(start("
        volume disk: stage label=l1
        found stage of disk proven
        disk read
        attachments complete
        volume disk: stage label=l2
        pod a wants disk
        ? why disk
        source s complete
        #1 done
    "), @r"
    synced
    why disk: SourceIncomplete (source s has not told all it has, so nothing is taken away)
    #1 unstage disk
    #2 stage disk with label l2
    ");
}
