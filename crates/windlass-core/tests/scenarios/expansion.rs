//! Growing volumes on the node (E-§6.8). What a claim allows is a table in `expand.rs` (C-35).

use crate::language::{run, start};

/// Csi §10 (1) step 6, E-281: the pod gets the volume when it has its size.
#[test]
fn a_volume_that_is_too_small_grows_before_its_pod_gets_it() {
    insta::assert_snapshot!(run("
        volume disk: stage expand size=10/20
        pod a wants disk
        #1 done
        #2 done
        ? mounted a
        ? explain disk in a
        #3 done
        ? mounted a
        ? size disk
        ? deadline
    "), @r"
    #1 stage disk
    #2 publish disk to a
    #3 expand disk from 10 to 20
    mounted a:
    explain disk in a: ExpansionPending (The pod gets the volume once it has grown.) <- Expanding (expand #3 is running)
    expansion of disk grown to 20
    mounted a: disk=disk
    size disk: 20
    deadline: none
    ");
}

/// C-27, C-34, csi §10 (5), E-289: in use. The pod has it all the time, and no second call follows.
#[test]
fn a_volume_grows_while_a_pod_has_it() {
    insta::assert_snapshot!(run("
        volume disk: stage expand size=10/10
        pod a wants disk
        #1 done
        #2 done
        volume disk: stage expand size=10/20
        pod a wants disk
        ? mounted a
        ? explain disk in a
        #3 done
        pod a wants disk
        ? mounted a
    "), @r"
    #1 stage disk
    #2 publish disk to a
    #3 expand disk from 10 to 20
    mounted a: disk=disk
    explain disk in a: settled
    expansion of disk grown to 20
    mounted a: disk=disk
    ");
}

/// C-27, C-34: a device grows as a directory does.
#[test]
fn a_device_grows_while_a_pod_has_it() {
    insta::assert_snapshot!(run("
        volume disk: stage expand block device size=10/10
        pod a wants disk
        #1 done
        #2 done
        volume disk: stage expand block device size=10/20
        pod a wants disk
        #3 done
    "), @r"
    #1 stage disk
    #2 publish disk to a
    #3 expand disk from 10 to 20
    expansion of disk grown to 20
    ");
}

/// C-27, E-119, E-158, E-280: no growth, already larger, read-only, not able to, sizes not known.
#[test]
fn a_volume_that_need_not_or_cannot_grow_is_handed_over_as_it_is() {
    insta::assert_snapshot!(run("
        volume equal: expand size=10/10
        volume larger: expand size=20/10
        volume reader: expand size=10/20 ro
        volume unable: size=10/20
        volume sizeless: expand size=-/20
        volume wantless: expand size=10/-
        pod a wants equal, larger, reader, unable, sizeless, wantless
        #1 done
        #2 done
        #3 done
        #4 done
        #5 done
        #6 done
        ? mounted a
    "), @r"
    #1 publish equal to a
    #2 publish larger to a
    #3 publish reader to a read-only
    #4 publish unable to a
    #5 publish sizeless to a
    #6 publish wantless to a
    mounted a: equal=equal larger=larger reader=reader read-only sizeless=sizeless unable=unable wantless=wantless
    ");
}

/// E-158: one who only reads does not make it grow, but one who writes does, and grows it for both.
#[test]
fn a_volume_grows_when_a_pod_that_writes_comes() {
    insta::assert_snapshot!(run("
        volume disk: expand size=10/20 ro
        pod a wants disk
        #1 done
        ? mounted a
        volume disk: expand size=10/20
        pod b wants disk
        #2 done
        ? mounted a
        ? mounted b
        #3 done
        ? mounted b
    "), @r"
    #1 publish disk to a read-only
    mounted a: disk=disk read-only
    #2 publish disk to b
    #3 expand disk from 10 to 20
    mounted a: disk=disk read-only
    mounted b:
    expansion of disk grown to 20
    mounted b: disk=disk
    ");
}

/// C-34, E-96, E-286: failed precondition does not block the pod, and is not asked for again while the volume is here.
#[test]
fn a_volume_that_cannot_grow_in_use_is_not_asked_again_while_it_is_here() {
    insta::assert_snapshot!(run(r#"
        volume disk: expand size=10/20
        pod a wants disk
        #1 done
        #2 in use "unmount it first"
        ? mounted a
        ? deadline
        volume disk: expand size=10/30
        pod a wants disk
        pod a gone
        #3 done
        pod b wants disk
        #4 done
    "#), @r"
    #1 publish disk to a
    #2 expand disk from 10 to 20
    expansion of disk in use: unmount it first
    mounted a: disk=disk
    deadline: none
    #3 unpublish disk from a
    pod a released
    #4 publish disk to b
    #5 expand disk from 10 to 30
    ");
}

/// E-286, W-8: the kubelet asks ten times a second whether it is still impossible; here another size must be wanted.
#[test]
fn a_size_that_is_impossible_is_not_tried_again_but_another_is() {
    insta::assert_snapshot!(run(r#"
        volume disk: expand size=10/20
        pod a wants disk
        #1 done
        #2 infeasible "no room"
        ? mounted a
        ? deadline
        pod a wants disk
        volume disk: expand size=10/15
        pod a wants disk
        #3 done
        ? size disk
    "#), @r"
    #1 publish disk to a
    #2 expand disk from 10 to 20
    expansion of disk infeasible: no room
    mounted a: disk=disk
    deadline: none
    #3 expand disk from 10 to 15
    expansion of disk grown to 15
    size disk: 15
    ");
}

/// C-34, E-288: a driver with nothing to do on the node.
#[test]
fn a_driver_that_does_not_grow_volumes_on_the_node_counts_as_done() {
    insta::assert_snapshot!(run("
        volume disk: expand size=10/20
        pod a wants disk
        #1 done
        #2 unsupported
        ? mounted a
        ? size disk
    "), @r"
    #1 publish disk to a
    #2 expand disk from 10 to 20
    expansion of disk grown to 20
    mounted a: disk=disk
    size disk: 20
    ");
}

/// C-32, E-132: set-up ok but expansion fails: the pod cannot start, and clean-up runs.
#[test]
fn a_pod_does_not_get_a_volume_that_fails_to_grow_and_it_is_cleaned_up() {
    insta::assert_snapshot!(run(r#"
        volume disk: stage expand size=10/20
        pod a wants disk
        #1 done
        #2 done
        #3 refused "no"
        ? mounted a
        ? explain disk in a
        after 500ms
        #4 refused "no"
        pod a gone
        #5 done
        #6 done
        ? state disk
    "#), @"
    #1 stage disk
    #2 publish disk to a
    #3 expand disk from 10 to 20
    expansion of disk failed: no
    mounted a:
    explain disk in a: ExpansionPending (The pod gets the volume once it has grown.) <- BackingOff (expand failed) <- Failed (no)
    #4 expand disk from 10 to 20, try 2
    expansion of disk failed: no
    #5 unpublish disk from a
    #6 unstage disk
    pod a released
    state disk: not here
    ");
}

/// E-306, csi §10 (6) of 5: a failed resize never unmounts.
#[test]
fn a_volume_that_fails_to_grow_in_use_stays_in_use() {
    insta::assert_snapshot!(run(r#"
        volume disk: expand size=10/10
        pod a wants disk
        #1 done
        volume disk: expand size=10/20
        pod a wants disk
        #2 refused "no"
        ? mounted a
        ? why disk
        ? explain disk in a
    "#), @"
    #1 publish disk to a
    #2 expand disk from 10 to 20
    expansion of disk failed: no
    mounted a: disk=disk
    why disk: BackingOff (expand failed) <- Failed (no)
    explain disk in a: settled
    ");
}

/// W-20: the kubelet records a time-out as final; here it is no verdict, and is tried again.
#[test]
fn an_expansion_that_was_lost_is_no_verdict() {
    insta::assert_snapshot!(run("
        volume disk: expand size=10/20
        pod a wants disk
        #1 done
        #2 lost
        ? size disk
        after 500ms
        #3 done
    "), @r"
    #1 publish disk to a
    #2 expand disk from 10 to 20
    size disk: 10
    #3 expand disk from 10 to 20, try 2
    expansion of disk grown to 20
    ");
}

/// E-289: the driver may round up; if it stops short it has done what it can.
#[test]
fn a_driver_that_grows_to_another_size_is_not_asked_again() {
    insta::assert_snapshot!(run("
        volume x: expand size=10/20
        volume y: expand size=10/20
        pod a wants x, y
        #1 done
        #2 done
        #3 grown to 24
        #4 grown to 15
        ? size x
        ? mounted a
        ? deadline
    "), @r"
    #1 publish x to a
    #2 publish y to a
    #3 expand x from 10 to 20
    #4 expand y from 10 to 20
    expansion of x grown to 24
    expansion of y grown to 15
    size x: 24
    mounted a: x=x y=y
    deadline: none
    ");
}

/// E-325: growing excludes everything else on the volume; what comes meanwhile waits, and what went goes after it.
#[test]
fn nothing_else_happens_to_a_volume_while_it_grows() {
    insta::assert_snapshot!(run("
        volume disk: expand overlap=pods size=10/20
        pod a wants disk
        #1 done
        pod b wants disk
        ? explain disk in b
        pod a gone
        #2 done
        #3 done
        #4 done
        ? mounted b
    "), @r"
    #1 publish disk to a
    #2 expand disk from 10 to 20
    explain disk in b: VolumeBusy (expand #2 of the same volume is running) <- Expanding (expand #2 is running)
    #3 unpublish disk from a
    #4 publish disk to b
    expansion of disk grown to 20
    pod a released
    mounted b: disk=disk
    ");
}

/// E-325: pods that come and go cannot keep a volume from growing.
#[test]
fn no_pod_is_served_before_a_volume_that_waits_to_grow() {
    insta::assert_snapshot!(run("
        volume disk: expand overlap=pods size=10/20
        pod a wants disk
        pod b wants disk
        #1 done
        pod c wants disk
        ? explain disk in c
        #2 done
        #3 done
        ? mounted a
        ? mounted b
    "), @r"
    #1 publish disk to a
    #2 publish disk to b
    explain disk in c: VolumeBusy (publish #2 of the same volume is running) <- Publishing (publish #2 is running)
    #3 expand disk from 10 to 20
    #4 publish disk to c
    expansion of disk grown to 20
    mounted a: disk=disk
    mounted b: disk=disk
    ");
}

/// E-115, I-11: after a restart the claim's size counts again; the pod that runs keeps the volume while it grows.
#[test]
fn a_volume_that_should_have_grown_before_a_restart_grows_after_it() {
    insta::assert_snapshot!(start("
        volume disk: stage expand size=10/20
        found stage of disk proven
        found disk in a proven
        disk read
        pod a wants disk
        ? mounted a
        #1 done
        ? size disk
    "), @r"
    #1 expand disk from 10 to 20
    mounted a: disk=disk
    expansion of disk grown to 20
    size disk: 20
    ");
}

/// E-284: what was grown elsewhere, and leaves nothing to this node, is as large as its claim says.
#[test]
fn a_volume_that_others_have_grown_shows_its_size_and_is_not_grown_once_more() {
    insta::assert_snapshot!(run("
        volume disk: expand size=10/10
        pod a wants disk
        #1 done
        volume disk: size=20/20
        pod a wants disk
        ? size disk
        ? reasons of disk in a
    "), @r"
    #1 publish disk to a
    size disk: 20
    reasons of disk in a: settled
    ");
}
