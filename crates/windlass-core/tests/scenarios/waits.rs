//! Those who wait for a pod's volumes (E-20..E-33): when they are answered, and in which words.
//!
//! The errors are those of the present moment: a stale one never fails a fresh wait, and two who wait do not take errors
//! from each other (W-22).

use crate::language::{run, start};

/// E-20.
#[test]
fn a_pod_without_volumes_has_them_all() {
    insta::assert_snapshot!(run("
        pod a wants
        wait 1 for a mounted, 2m
        ? deadline
    "), @r"
    wait 1 ended well
    deadline: none
    ");
}

/// E-21, E-23: an event, not a poll, ends the wait.
#[test]
fn a_wait_ends_with_the_last_of_the_pods_volumes() {
    insta::assert_snapshot!(run("
        volume x: own
        volume y: own
        wait 1 for a mounted, 2m
        pod a wants x, y
        #1 done
        #2 done
        wait 2 for a mounted, 2m
    "), @r"
    #1 publish x to a
    #2 publish y to a
    wait 1 ended well
    wait 2 ended well
    ");
}

/// E-25: the three lists, sorted, and the cause. E-23: uncertain counts as unmounted.
#[test]
fn a_wait_that_takes_too_long_says_what_is_missing() {
    insta::assert_snapshot!(run("
        volume disk: attach=controller
        volume doubt: own
        volume tmp: own
        volume good: own
        pod a wants tmp, good, doubt, disk
        wait 1 for a mounted, 123s
        #2 done
        #3 lost
        after 122s
        after 1s
        ? deadline
    "), @r"
    #1 publish tmp to a
    #2 publish good to a
    #3 publish doubt to a
    in use [disk]
    #4 publish doubt to a again, try 2
    wait 1 failed: unmounted volumes=[disk doubt tmp], unattached volumes=[disk], failed to process volumes=[]: context deadline exceeded
    deadline: in 27s
    ");
}

/// E-20, E-25: a pod that never came.
#[test]
fn a_wait_for_a_pod_that_never_comes_ends_when_its_time_is_up() {
    insta::assert_snapshot!(run("
        wait 1 for a mounted, 2m
        ? deadline
        after 2m
    "), @r"
    deadline: in 120s
    wait 1 failed: unmounted volumes=[], unattached volumes=[], failed to process volumes=[]: context deadline exceeded
    ");
}

/// C-3, E-22, E-24: one mount that fails, two that are never attached, two without a plugin.
#[test]
fn a_wait_for_a_pod_whose_volumes_make_no_sense_fails_at_once() {
    insta::assert_snapshot!(run(r#"
        volume vol1: own
        volume vol2: attach=controller
        volume vol02: attach=controller
        pod a wants vol1, vol2, vol02, vol3 invalid "no plugin for vol3", vol03 invalid "no plugin for vol03"
        #1 refused
        wait 1 for a mounted, 2m
    "#), @r"
    #1 publish vol1 to a
    in use [vol02 vol2]
    wait 1 failed: unmounted volumes=[vol02 vol03 vol1 vol2 vol3], unattached volumes=[vol02 vol2], failed to process volumes=[vol03 vol3]: no plugin for vol03; no plugin for vol3
    ");
}

/// E-22, E-78: each error once, and all of them (the kubelet keeps eleven).
#[test]
fn the_same_error_of_two_volumes_is_told_once() {
    insta::assert_snapshot!(run(r#"
        pod a wants x unknown "the server is away", y unknown "the server is away", z unknown "PVC is not bound"
        wait 1 for a mounted, 2m
    "#), @"wait 1 failed: unmounted volumes=[x y z], unattached volumes=[], failed to process volumes=[x y z]: PVC is not bound; the server is away");
}

/// E-22, W-22: the error is gone once its cause is.
#[test]
fn a_fresh_wait_is_not_failed_by_an_old_error() {
    insta::assert_snapshot!(run(r#"
        volume disk:
        pod a wants disk unknown "PVC is not bound"
        pod a wants disk
        wait 1 for a mounted, 2m
        #1 done
    "#), @r"
    #1 publish disk to a
    wait 1 ended well
    ");
}

/// W-22: in the kubelet the first to look takes the error away from the others.
#[test]
fn everybody_who_waits_is_told_the_error() {
    insta::assert_snapshot!(run(r#"
        volume disk:
        wait 1 for a mounted, 2m
        wait 2 for a mounted, 3m
        pod a wants disk unknown "PVC is not bound"
        wait 3 for a mounted, 2m
        ? deadline
    "#), @r"
    wait 1 failed: unmounted volumes=[disk], unattached volumes=[], failed to process volumes=[disk]: PVC is not bound
    wait 2 failed: unmounted volumes=[disk], unattached volumes=[], failed to process volumes=[disk]: PVC is not bound
    wait 3 failed: unmounted volumes=[disk], unattached volumes=[], failed to process volumes=[disk]: PVC is not bound
    deadline: none
    ");
}

/// Goal::MountedAtLast: for those who would only ask again.
#[test]
fn a_wait_that_is_patient_outlasts_errors() {
    insta::assert_snapshot!(run(r#"
        volume disk:
        pod a wants disk unknown "PVC is not bound"
        wait 1 for a at last, 2m
        wait 2 for a at last, 1s
        after 1s
        pod a wants disk
        #1 done
    "#), @r"
    wait 2 failed: unmounted volumes=[disk], unattached volumes=[], failed to process volumes=[disk]: context deadline exceeded
    #1 publish disk to a
    wait 1 ended well
    ");
}

/// E-27: a failing operation is told as an event; the wait goes on.
#[test]
fn an_operation_that_fails_does_not_end_the_wait() {
    insta::assert_snapshot!(run("
        volume disk: stage
        pod a wants disk
        wait 1 for a mounted, 2m
        #1 refused
        after 500ms
        #2 done
        #3 lost
        after 500ms
        #4 done
    "), @r"
    #1 stage disk
    #2 stage disk, try 2
    #3 publish disk to a
    #4 publish disk to a again, try 2
    wait 1 ended well
    ");
}

/// E-24, E-35, E-148, I-1: an API server that is away makes no difference to a pod that has its volumes.
#[test]
fn a_pod_that_has_its_volumes_has_them_in_spite_of_a_failing_look_up() {
    insta::assert_snapshot!(run(r#"
        volume disk:
        pod a wants disk
        #1 done
        pod a wants disk unknown "the server is away"
        ? mounted a
        wait 1 for a mounted, 2m
    "#), @r"
    #1 publish disk to a
    mounted a: disk=disk
    wait 1 ended well
    ");
}

/// C-4, E-26.
#[test]
fn a_wait_for_a_volume_that_the_node_has_no_room_for_says_so() {
    insta::assert_snapshot!(run(r#"
        volume disk: attach=controller
        pod a wants disk
        wait 1 for a mounted, 1s
        attach of disk failed exhausted "too many volumes"
        after 1s
    "#), @r"
    in use [disk]
    wait 1 failed: Node has reached its volume attachment limit, rejecting pod. unmounted volumes=[disk], unattached volumes=[disk], failed to process volumes=[]: context deadline exceeded
    ");
}

/// E-26: any other failure of the attacher is no reason to reject the pod.
#[test]
fn a_wait_for_a_volume_that_could_not_be_attached_is_an_ordinary_time_out() {
    insta::assert_snapshot!(run(r#"
        volume disk: attach=controller
        pod a wants disk
        wait 1 for a mounted, 1s
        attach of disk failed exhausted "too many volumes"
        attach of disk failed "on another node"
        after 1s
    "#), @r"
    in use [disk]
    wait 1 failed: unmounted volumes=[disk], unattached volumes=[disk], failed to process volumes=[]: context deadline exceeded
    ");
}

/// E-28: the volume counts as mounted until its unpublish has succeeded.
#[test]
fn a_wait_for_unmount_ends_when_the_last_volume_is_unpublished() {
    insta::assert_snapshot!(run("
        volume disk: stage
        pod a wants disk
        #1 done
        #2 done
        wait 1 for a unmounted, 2m
        pod a gone
        #3 done
    "), @r"
    #1 stage disk
    #2 publish disk to a
    #3 unpublish disk from a
    #4 unstage disk
    pod a released
    wait 1 ended well
    ");
}

/// C-6, E-29, E-30: one error for each pod, which names its volumes, sorted.
#[test]
fn a_wait_for_unmount_that_takes_too_long_names_the_volumes() {
    insta::assert_snapshot!(run("
        volume y:
        volume x:
        pod a wants y, x
        pod b wants y
        pod c wants
        #1 done
        #2 done
        #3 done
        wait 1 for a unmounted, 1s
        wait 2 for b unmounted, 1s
        wait 3 for c unmounted, 1s
        after 1s
    "), @r"
    #1 publish y to a
    #2 publish x to a
    #3 publish y to b
    wait 3 ended well
    wait 1 failed: mounted volumes=[x y]: context deadline exceeded
    wait 2 failed: mounted volumes=[y]: context deadline exceeded
    ");
}

/// C-17, E-28, E-33: an uncertain mount does not keep the pod from being ended, but its directory from going.
#[test]
fn doubt_ends_a_wait_for_unmount_but_not_a_wait_until_all_is_gone() {
    insta::assert_snapshot!(run("
        volume tmp: own
        pod a wants tmp
        #1 done
        pod a gone
        wait 1 for a unmounted, 2m
        wait 2 for a gone, 1s
        wait 3 for a gone, 2m
        #2 refused
        after 500ms
        after 500ms
        #3 done
    "), @r"
    #1 publish tmp to a
    #2 unpublish tmp from a
    wait 1 ended well
    #3 unpublish tmp from a, try 2
    wait 2 failed: mounted volumes=[tmp]: context deadline exceeded
    pod a released
    wait 3 ended well
    ");
}

/// E-28, E-33: of a pod that nobody knows nothing is left, once the disk was read.
#[test]
fn a_wait_for_the_end_of_an_unknown_pod_ends_when_the_disk_was_read() {
    insta::assert_snapshot!(start("
        wait 1 for a gone, 2m
        wait 2 for a unmounted, 2m
        disk read
        wait 3 for b gone, 2m
    "), @r"
    wait 1 ended well
    wait 2 ended well
    wait 3 ended well
    ");
}

/// E-21: the caller may stop waiting.
#[test]
fn a_wait_that_is_cancelled_is_not_answered() {
    insta::assert_snapshot!(run("
        volume tmp: own
        wait 1 for a mounted, 2m
        wait 1 cancelled
        ? deadline
        pod a wants tmp
        #1 done
        ? odd
    "), @r"
    deadline: none
    #1 publish tmp to a
    odd:
    ");
}

/// Csi C-80: the pod that waits for another is told when its time is up, and is not rejected before.
#[test]
fn a_wait_for_a_volume_that_another_pod_has_ends_when_that_pod_goes() {
    insta::assert_snapshot!(run("
        volume disk: rwop
        pod a wants disk
        #1 done
        pod b wants disk
        wait 1 for b mounted, 1s
        wait 2 for b mounted, 2m
        after 1s
        pod a gone
        #2 done
        #3 done
    "), @r"
    #1 publish disk to a
    wait 1 failed: unmounted volumes=[disk], unattached volumes=[], failed to process volumes=[]: context deadline exceeded
    #2 unpublish disk from a
    #3 publish disk to b
    pod a released
    wait 2 ended well
    ");
}
