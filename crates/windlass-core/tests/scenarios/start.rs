//! Start: what may be taken away when, and pods across restarts (E-§5.4, I-11). What was found is in `found.rs`.
//!
//! Unlike in the kubelet (E-197), a mount whose record is proof, and which is there, is not made again.

use crate::language::{start, start_with_two_sources, start_without_sources};

/// E-205, I-11, I-4: the pod notices nothing and no call is made.
#[test]
fn a_restart_under_a_running_pod_calls_nothing() {
    insta::assert_snapshot!(start("
        volume disk: attach=controller stage
        found stage of disk proven
        found disk in a proven
        disk read
        ? in use
        pod a wants disk
        ? mounted a
        ? synced
        attached disk
        attachments complete
        ? synced
        source s complete
        ? in use
        ? why disk
        ? deadline
    "), @r"
    in use: not to be reported yet
    mounted a: disk=disk
    synced: false
    synced
    synced: true
    in use: disk
    why disk: settled
    deadline: none
    ");
}

/// E-206, C-37, E-204: nothing before all is known, then down in order; in use until it is down (I-3).
#[test]
fn a_pod_that_went_during_the_restart_is_taken_down_once_all_is_known() {
    insta::assert_snapshot!(start("
        volume disk: attach=controller stage
        found stage of disk proven
        found disk in a proven
        disk read
        attached disk
        attachments complete
        ? in use
        source s complete
        #1 done
        ? in use
        #2 done
    "), @r"
    synced
    in use: disk
    #1 unpublish disk from a
    #2 unstage disk
    pod a released
    in use: disk
    in use []
    ");
}

/// E-182, I-1: the disk, each source, the attacher, in whatever order.
#[test]
fn nothing_is_taken_away_before_everything_was_told() {
    insta::assert_snapshot!(start("
        volume tmp: own
        found tmp in a proven
        ? reasons of mounts of tmp
        source s complete
        attachments complete
        ? reasons of mounts of tmp
        disk read
    "), @"
    reasons of mounts of tmp:
    a:
    - DiskNotRead: What is on this node's disk has not been read to the end, so nothing is taken away, nor given to one pod alone.; for 0s; waits on the disk
    reasons of mounts of tmp:
    a:
    - DiskNotRead: What is on this node's disk has not been read to the end, so nothing is taken away, nor given to one pod alone.; for 0s; waits on the disk
    #1 unpublish tmp from a
    synced
    ");
}

/// E-182: the same with the others last.
#[test]
fn the_start_says_what_it_waits_for() {
    insta::assert_snapshot!(start("
        volume tmp: own
        found tmp in a proven
        disk read
        ? reasons of mounts of tmp
        source s complete
        ? reasons of mounts of tmp
        attachments complete
    "), @r"
    reasons of mounts of tmp:
    a:
    - SourceIncomplete: source s has not told all it has, so nothing is taken away; for 0s; waits on source s
    reasons of mounts of tmp:
    a:
    - AttachmentsUnknown: The attacher has not told what is attached, so nothing is taken away.; for 0s; waits on the attacher
    #1 unpublish tmp from a
    synced
    ");
}

/// E-182: mounts are never gated.
#[test]
fn pods_get_their_volumes_before_anything_was_told() {
    insta::assert_snapshot!(start("
        volume disk: stage
        pod a wants disk
        #1 done
        #2 done
        ? mounted a
        pod a gone
        ? reasons of mounts of disk
        disk read
        attachments complete
        source s complete
    "), @"
    #1 stage disk
    #2 publish disk to a
    mounted a: disk=disk
    reasons of mounts of disk:
    a:
    - DiskNotRead: What is on this node's disk has not been read to the end, so nothing is taken away, nor given to one pod alone.; for 0s; waits on the disk
    synced
    #3 unpublish disk from a
    ");
}

/// I-1: every source, at one moment. One that was complete and got lost again does not count.
#[test]
fn all_sources_must_be_complete_at_one_moment() {
    insta::assert_snapshot!(start_with_two_sources("
        volume tmp: own
        volume old: own
        found tmp in a proven
        found old in b proven
        disk read
        source s complete
        source s lost \"it went away\"
        source t complete
        ? reasons of mounts of tmp
        pod a wants tmp
        source s complete
        ? mounted a
    "), @r"
    synced
    reasons of mounts of tmp:
    a:
    - SourceIncomplete: source s is lost: it went away, so nothing is taken away; for 0s; waits on source s
    #1 unpublish old from b
    mounted a: tmp=tmp
    ");
}

/// I-1: what was found may be a pod of a source that is announced later, as long as nothing was judged before.
#[test]
fn a_source_that_is_announced_late_is_waited_for() {
    insta::assert_snapshot!(start("
        volume tmp: own
        volume old: own
        found tmp in a proven
        found old in b proven
        disk read
        attachments complete
        source t announced
        source s complete
        ? reasons of mounts of tmp
        pod a of t wants tmp
        source t complete
        source t announced
        ? mounted a
    "), @r"
    synced
    reasons of mounts of tmp:
    a:
    - SourceIncomplete: source t has not told all it has, so nothing is taken away; for 0s; waits on source t
    #1 unpublish old from b
    mounted a: tmp=tmp
    ");
}

/// I-1: one that is lost takes nothing away, and says why; what others say counts.
#[test]
fn a_source_that_is_lost_says_why_and_does_not_hold_up_others() {
    insta::assert_snapshot!(start_with_two_sources("
        volume tmp: own
        volume disk: own
        disk read
        source s complete
        source t complete
        pod a wants tmp
        pod b of t wants disk
        #1 done
        #2 done
        source t lost \"the server is away\"
        pod a gone
        #3 done
        source t complete
    "), @r"
    synced
    #1 publish tmp to a
    #2 publish disk to b
    #3 unpublish tmp from a
    pod a released
    #4 unpublish disk from b
    ");
}

/// E-207, I-11: content that changed while nobody looked is brought up to date in place.
#[test]
fn content_that_changed_during_the_restart_is_refreshed() {
    insta::assert_snapshot!(start("
        volume conf: own refresh revision=1
        found conf in a proven
        disk read
        volume conf: own refresh revision=2
        pod a wants conf
        ? mounted a
    "), @r"
    #1 publish conf to a refreshing
    mounted a: conf=conf
    ");
}

/// E-197, E-39: staged in an earlier life, so reported then; a new pod need not wait for the attacher.
#[test]
fn a_volume_that_was_staged_before_the_restart_is_published_before_the_attacher_speaks() {
    insta::assert_snapshot!(start("
        volume disk: attach=controller stage
        volume other: attach=controller stage
        found stage of disk proven
        disk read
        pod b wants disk, other
        attachments complete
        ? status b
    "), @r"
    #1 publish disk to b
    synced
    status b: unmounted [disk other], unattached [disk other], unprocessed [], errors []
    ");
}

/// C-37, E-196: what the attacher does not list after a restart is not attached; the pod keeps what it has.
#[test]
fn a_volume_that_the_attacher_does_not_list_stays_in_its_pod() {
    insta::assert_snapshot!(start("
        volume disk: attach=controller stage
        found stage of disk proven
        found disk in a proven
        disk read
        pod a wants disk
        attachments complete
        source s complete
        ? mounted a
        ? why disk
        ? attached disk
    "), @r"
    synced
    mounted a: disk=disk
    why disk: AttachmentLost (The attacher says that the volume is detached although it is in use here.)
    attached disk: false
    ");
}

/// C-20, E-143: a pod that is being ended keeps what it has across a restart; one that is over does not.
#[test]
fn a_pod_that_was_stopping_before_the_restart_keeps_what_was_found_of_it() {
    insta::assert_snapshot!(start("
        volume x: own
        volume y: own
        volume z: own
        volume w: own
        found x in a proven
        found y in a intent
        found w in b proven
        disk read
        attachments complete
        pod a stopping
        pod a wants x, y, z
        pod b finished
        pod b wants w
        source s complete
        #1 done
        ? mounted a
    "), @r"
    synced
    #1 publish y to a again
    #2 unpublish w from b
    mounted a: x=x y=y
    ");
}

/// E-162: known to nobody but the container runtime.
#[test]
fn a_pod_of_which_only_containers_are_known_keeps_what_was_found_of_it() {
    insta::assert_snapshot!(start("
        volume tmp: own
        found tmp in a proven
        pod a gone but may run
        disk read
        attachments complete
        source s complete
        ? reasons of mounts of tmp
        pod a gone
    "), @r"
    synced
    reasons of mounts of tmp:
    a:
    - PodStopping: The pod is gone but its containers may still run, so it keeps what it has.; for 0s
    #1 unpublish tmp from a
    ");
}

/// I-10, I-11: a first call that runs is no first call if something was here before it.
#[test]
fn a_call_that_began_before_the_disk_was_read_is_undone_even_if_it_was_refused() {
    insta::assert_snapshot!(start("
        volume disk: stage
        pod a wants disk
        found stage of disk intent
        disk read
        attachments complete
        source s complete
        #1 refused
        pod a gone
        #2 done
        ? state disk
    "), @r"
    #1 stage disk
    synced
    #2 unstage disk
    pod a released
    state disk: not here
    ");
}

/// Csi §10 (7): a crash between any two steps of the way up, with the pod still there.
#[test]
fn a_crash_between_two_steps_is_made_good_for_a_pod_that_is_still_there() {
    insta::assert_snapshot!(start("
        volume x: stage
        volume y: stage
        volume z: stage
        found stage of x intent
        found stage of y intent
        found y in a intent
        found stage of z proven
        found z in a vanished
        disk read
        pod a wants x, y, z
        #1 done
        #2 done
    "), @r"
    #1 stage x again
    #2 stage y again
    #3 publish z to a again
    #4 publish x to a
    #5 publish y to a again
    ");
}

/// Csi §10 (7): the same with the pod gone. The kubelet leaks the first of them.
#[test]
fn a_crash_between_two_steps_is_undone_for_a_pod_that_is_gone() {
    insta::assert_snapshot!(start("
        volume x: stage
        volume y: stage
        volume z: stage
        found stage of x intent
        found stage of y intent
        found y in a intent
        found stage of z proven
        found z in a vanished
        disk read
        attachments complete
        source s complete
        #1 done
        #2 done
        #3 done
        #4 done
        #5 done
        ? state y
    "), @r"
    synced
    #1 unstage x
    #2 unpublish y from a
    #3 unpublish z from a
    #4 unstage y
    #5 unstage z
    pod a released
    state y: not here
    ");
}

/// E-39, E-41: before the states are merged nothing may be reported, so nothing new is staged.
#[test]
fn nothing_that_a_controller_attaches_is_staged_before_the_first_report() {
    insta::assert_snapshot!(start("
        volume disk: attach=controller stage
        pod a wants disk
        attached disk
        reported
        ? why disk
        disk read
        attachments complete
        ? in use
        reported
    "), @r"
    why disk: NotReported (The volume is not yet reported as in use, so its attachment cannot be relied on.)
    synced
    in use: disk
    #1 stage disk
    ");
}

/// I-1: an API server that is away during the restart; any volume of the pod may be the one that cannot be looked up.
#[test]
fn a_pod_whose_volumes_cannot_be_looked_up_after_a_restart_keeps_what_was_found_of_it() {
    insta::assert_snapshot!(start(r#"
        volume disk: stage
        volume tmp: own
        found stage of disk proven
        found disk in a proven
        found tmp in a intent
        disk read
        attachments complete
        pod a wants data unknown "the server is away"
        source s complete
        ? state disk
        ? state tmp
        pod a wants data=disk
        ? mounted a
    "#), @r"
    synced
    state disk: attach Absent, stage Held, a Held
    state tmp: attach Absent, stage Absent, a Uncertain(Found)
    #1 unpublish tmp from a
    mounted a: data=disk
    ");
}

/// E-182: a pod that goes before the start is over goes when it is.
#[test]
fn a_pod_that_is_gone_before_the_start_is_over_is_taken_down_after_it() {
    insta::assert_snapshot!(start("
        volume tmp: own
        found tmp in a proven
        pod a wants tmp
        pod a gone
        disk read
        attachments complete
        ? state tmp
        source s complete
    "), @r"
    synced
    state tmp: attach Absent, stage Absent, a Held
    #1 unpublish tmp from a
    ");
}

/// E-180, E-250 step 5: mounts do not wait for the disk to be read, unless that decides who may have the volume.
#[test]
fn a_volume_for_one_pod_is_not_given_away_before_it_is_known_who_has_it() {
    insta::assert_snapshot!(start("
        volume disk: stage rwop
        volume tmp: stage
        pod b wants disk, tmp
        ? explain disk in b
        found disk in a proven
        disk read
        ? explain disk in b
    "), @"
    #1 stage disk
    #2 stage tmp
    explain disk in b: DiskNotRead (What is on this node's disk has not been read to the end, so nothing is taken away, nor given to one pod alone.)
    explain disk in b: OtherPod (The volume may be in one pod at a time and another pod has it. (pod a))
    ");
}

/// I-1: where nobody can say that a pod is not wanted, what was found of it stays.
#[test]
fn without_any_source_nothing_is_ever_taken_away() {
    insta::assert_snapshot!(start_without_sources("
        volume tmp: own
        found tmp in a proven
        disk read
        ? reasons of mounts of tmp
    "), @"
    synced
    reasons of mounts of tmp:
    a:
    - SourceIncomplete: A source of pods has not told all it has, so nothing is taken away.; for 0s
    ");
}
