//! Attachment: by a controller, with the report of volumes in use as the handshake, or by this node.
//!
//! There is no operation that verifies an attachment, as the kubelet has: what the attacher says comes as an event, and
//! is acted on at once (W-7).

use crate::language::run;

/// C-1, E-203: reported in use, attached by the controller, staged, published.
#[test]
fn a_volume_of_a_controller_is_reported_then_attached_then_mounted() {
    insta::assert_snapshot!(run("
        volume disk: attach=controller stage
        pod a wants disk
        wait 1 for a mounted, 2m
        reported
        ? explain disk in a
        ? attached disk
        attached disk
        ? attached disk
        #1 done
        #2 done
        ? mounted a
        ? in use
    "), @r"
    in use [disk]
    explain disk in a: NotAttached (The pod's mount waits until the volume is attached.) <- WaitingForAttacher (The attacher has not attached the volume to this node.)
    attached disk: false
    #1 stage disk
    attached disk: true
    #2 publish disk to a
    wait 1 ended well
    mounted a: disk=disk
    in use: disk
    ");
}

/// C-2, E-188: attached, but not reported: an attacher that looked before the report may take it away again.
#[test]
fn a_volume_that_is_attached_but_not_reported_waits_for_the_report() {
    insta::assert_snapshot!(run("
        volume disk: attach=controller stage
        attached disk
        pod a wants disk
        ? explain disk in a
        ? in use
        reported
    "), @r"
    in use [disk]
    explain disk in a: NotAttached (The pod's mount waits until the volume is attached.) <- NotReported (The volume is not yet reported as in use, so its attachment cannot be relied on.)
    in use: disk
    #1 stage disk
    ");
}

/// C-29, E-249: reported, but not attached: nothing is called, and nothing polls (W-7).
#[test]
fn a_volume_that_is_never_attached_is_never_touched() {
    insta::assert_snapshot!(run("
        volume disk: attach=controller stage
        pod a wants disk
        reported
        after 60m
        ? deadline
        pod a gone
        ? state disk
    "), @r"
    in use [disk]
    deadline: none
    pod a released
    in use []
    state disk: not here
    ");
}

/// C-28, E-204, csi §10 (6): in controller mode neither attach nor detach is called, and the volume stays in use until
/// nothing of it is here.
#[test]
fn a_volume_leaves_the_report_only_when_it_is_unstaged() {
    insta::assert_snapshot!(run("
        volume disk: attach=controller stage
        attached disk
        pod a wants disk
        reported
        #1 done
        #2 done
        pod a gone
        ? in use
        #3 done
        ? in use
        #4 done
        detached disk
        ? state disk
    "), @r"
    in use [disk]
    #1 stage disk
    #2 publish disk to a
    #3 unpublish disk from a
    in use: disk
    #4 unstage disk
    pod a released
    in use: disk
    in use []
    state disk: not here
    ");
}

/// I-3, C-17: doubt is use.
#[test]
fn a_volume_that_may_be_here_is_in_use() {
    insta::assert_snapshot!(run("
        volume disk: attach=controller stage
        attached disk
        pod a wants disk
        reported
        #1 lost
        pod a gone
        #2 lost
        ? in use
        after 500ms
        #3 done
    "), @r"
    in use [disk]
    #1 stage disk
    #2 unstage disk
    pod a released
    in use: disk
    #3 unstage disk, try 2
    in use []
    ");
}

/// C-9, E-41: what was reported before the volume left the set counts for nothing when it comes back.
#[test]
fn a_volume_that_left_the_report_must_be_reported_again() {
    insta::assert_snapshot!(run("
        volume disk: attach=controller
        attached disk
        pod a wants disk
        reported
        #1 done
        pod a gone
        #2 done
        pod a wants disk
        ? why disk
        reported
    "), @r"
    in use [disk]
    #1 publish disk to a
    #2 unpublish disk from a
    pod a released
    in use []
    in use [disk]
    why disk: NotReported (The volume is not yet reported as in use, so its attachment cannot be relied on.)
    #3 publish disk to a
    ");
}

/// C-9, E-41: a report counts for the volumes that were in it.
#[test]
fn a_report_that_is_older_than_the_volume_does_not_count_for_it() {
    insta::assert_snapshot!(run("
        volume x: attach=controller
        volume y: attach=controller
        attached x
        attached y
        pod a wants x
        pod b wants y
        reported version 1
        reported version 1
        reported version 2
    "), @r"
    in use [x]
    in use [x y]
    #1 publish x to a
    #2 publish y to b
    ");
}

/// C-14, E-102: the attacher may say the same as often as it likes.
#[test]
fn an_attachment_that_is_told_twice_changes_nothing() {
    insta::assert_snapshot!(run("
        volume disk: attach=controller stage
        pod a wants disk
        reported
        attached disk
        attached disk
        #1 done
        attached disk
        #2 done
        attached disk
        ? mounted a
    "), @r"
    in use [disk]
    #1 stage disk
    #2 publish disk to a
    mounted a: disk=disk
    ");
}

/// E-26: why the attacher could not, and that it could in the end.
#[test]
fn an_attachment_that_fails_is_explained_and_used_once_it_succeeds() {
    insta::assert_snapshot!(run(r#"
        volume disk: attach=controller stage
        pod a wants disk
        reported
        attach of disk failed "disk is on another node"
        ? why disk
        attach of disk failed exhausted "too many volumes"
        ? why disk
        attached disk
    "#), @r"
    in use [disk]
    why disk: WaitingForAttacher (The attacher has not attached the volume to this node.) <- AttachFailed (disk is on another node)
    why disk: WaitingForAttacher (The attacher has not attached the volume to this node.) <- AttachLimit (too many volumes)
    #1 stage disk
    ");
}

/// I-1: detached behind our back. Nothing is taken from the pod; new pods wait; clean-up is not hindered.
#[test]
fn a_volume_that_loses_its_attachment_stays_where_it_is() {
    insta::assert_snapshot!(run("
        volume disk: attach=controller stage
        attached disk
        pod a wants disk
        reported
        #1 done
        #2 done
        detached disk
        ? why disk
        ? mounted a
        pod b wants disk
        ? explain disk in b
        attached disk
        #3 done
        detached disk
        pod a gone
        pod b gone
        #4 done
        #5 done
        #6 done
    "), @r"
    in use [disk]
    #1 stage disk
    #2 publish disk to a
    why disk: AttachmentLost (The attacher says that the volume is detached although it is in use here.)
    mounted a: disk=disk
    explain disk in b: NotAttached (The pod's mount waits until the volume is attached.) <- AttachmentLost (The attacher says that the volume is detached although it is in use here.)
    #3 publish disk to b
    #4 unpublish disk from a
    #5 unpublish disk from b
    pod a released
    #6 unstage disk
    pod b released
    in use []
    ");
}

/// C-24, E-163. That it stays in the report until it is gone is more than E-38 asks for, and safe (I-3).
#[test]
fn a_volume_that_stops_being_attachable_no_longer_waits_for_the_attacher() {
    insta::assert_snapshot!(run("
        volume disk: attach=controller stage
        pod a wants disk
        reported
        volume disk: stage
        pod a wants disk
        ? in use
        #1 refused
        pod a gone
        ? in use
    "), @r"
    in use [disk]
    #1 stage disk
    in use: disk
    in use []
    pod a released
    in use:
    ");
}

/// C-24, E-38, I-3: what was attached for us and is still staged stays in use, so that nobody detaches it under us.
#[test]
fn a_volume_that_stops_being_attachable_stays_in_use_while_it_is_here() {
    insta::assert_snapshot!(run("
        volume disk: attach=controller stage
        attached disk
        pod a wants disk
        reported
        #1 done
        #2 done
        volume disk: stage
        pod a wants disk
        ? mounted a
        ? in use
        pod a gone
        #3 done
        #4 done
        ? in use
    "), @r"
    in use [disk]
    #1 stage disk
    #2 publish disk to a
    mounted a: disk=disk
    in use: disk
    #3 unpublish disk from a
    #4 unstage disk
    pod a released
    in use []
    in use:
    ");
}

/// C-24, C-28: what this node attached it detaches, whatever the plugin says of itself today.
#[test]
fn a_volume_that_this_node_attached_is_detached_even_if_it_is_no_longer_attachable() {
    insta::assert_snapshot!(run("
        volume disk: attach=node
        pod a wants disk
        #1 done
        #2 done
        volume disk:
        pod a wants disk
        ? mounted a
        ? in use
        pod a gone
        #3 done
        #4 done
        ? state disk
    "), @r"
    #1 attach disk
    in use [disk]
    #2 publish disk to a
    mounted a: disk=disk
    in use: disk
    #3 unpublish disk from a
    #4 detach disk
    pod a released
    in use []
    state disk: not here
    ");
}

/// E-51 knows only the other way; a pod that has the volume keeps it (I-1), and from now on it is reported (I-3).
#[test]
fn a_volume_that_becomes_attachable_stays_in_its_pod_and_comes_into_the_report() {
    insta::assert_snapshot!(run("
        volume disk: stage
        pod a wants disk
        #1 done
        #2 done
        volume disk: attach=controller stage
        pod a wants disk
        ? mounted a
        attached disk
        reported
        ? why disk
    "), @r"
    #1 stage disk
    #2 publish disk to a
    in use [disk]
    mounted a: disk=disk
    why disk: settled
    ");
}

/// C-16, E-105: not while a pod may have it.
#[test]
fn a_volume_is_not_detached_while_a_pod_may_have_it() {
    insta::assert_snapshot!(run("
        volume disk: attach=node
        pod a wants disk
        #1 done
        #2 done
        pod a gone
        #3 refused
        after 10s
        ? attached disk
        #4 done
        #5 done
    "), @r"
    #1 attach disk
    in use [disk]
    #2 publish disk to a
    #3 unpublish disk from a
    #4 unpublish disk from a, try 2
    attached disk: true
    #5 detach disk
    pod a released
    in use []
    ");
}

/// C-15, E-108: nothing is published before it is attached, however often it is asked for.
#[test]
fn nothing_is_published_before_the_node_has_attached_it() {
    insta::assert_snapshot!(run("
        volume disk: attach=node
        pod a wants disk
        pod b wants disk
        ? explain disk in b
        #1 refused
        after 500ms
        #2 done
    "), @r"
    #1 attach disk
    in use [disk]
    explain disk in b: NotAttached (The pod's mount waits until the volume is attached.) <- Attaching (attach #1 is running)
    #2 attach disk, try 2
    #3 publish disk to a
    ");
}
