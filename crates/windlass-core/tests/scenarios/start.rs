//! Start: what was found, what may be taken away when, restarts and reboots (E-§5.4, I-11).
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
        source s lost
        source t complete
        ? reasons of mounts of tmp
        pod a wants tmp
        source s complete
        ? mounted a
    "), @r"
    synced
    reasons of mounts of tmp:
    a:
    - SourceIncomplete: source s has not told all it has, so nothing is taken away; for 0s; waits on source s
    #1 unpublish old from b
    mounted a: tmp=tmp
    ");
}

/// C-36, E-195: two directories of one volume: two uncertain mounts, none that is handed out.
#[test]
fn what_was_found_without_proof_is_uncertain_in_each_of_its_pods() {
    insta::assert_snapshot!(start("
        volume disk: stage driver=ebs
        found stage of disk intent
        found disk in a intent
        found disk in b intent
        disk read
        pod a wants disk
        pod b wants disk
        ? state disk
        ? mounted a
        ? possibly b
    "), @r"
    state disk: attach Absent, stage Uncertain(Found), a Uncertain(Found), b Uncertain(Found)
    mounted a:
    possibly b: true
    ");
}

/// E-205, E-197, C-18: what is uncertain and wanted is made again, and is then as certain as anything.
#[test]
fn what_was_found_without_proof_is_made_again_for_those_who_want_it() {
    insta::assert_snapshot!(start("
        volume disk: stage
        found stage of disk intent
        found disk in a intent
        disk read
        pod a wants disk
        #1 done
        #2 done
        ? state disk
        ? mounted a
    "), @r"
    #1 stage disk again
    #2 publish disk to a again
    state disk: attach Absent, stage Held, a Held
    mounted a: disk=disk
    ");
}

/// C-38, E-127, E-130, E-198: a failure forgets nothing of what was found, and removal undoes it.
#[test]
fn what_was_found_stays_uncertain_when_making_it_again_is_refused() {
    insta::assert_snapshot!(start("
        volume disk: stage
        found stage of disk proven
        found disk in a intent
        disk read
        attachments complete
        pod a wants disk
        source s complete
        #1 refused
        ? state disk
        pod a gone
        #2 done
        #3 done
        ? state disk
    "), @r"
    synced
    #1 publish disk to a again
    state disk: attach Absent, stage Held, a Uncertain(Found)
    #2 unpublish disk from a
    #3 unstage disk
    pod a released
    state disk: not here
    ");
}

/// C-38: the same for the volume's own place.
#[test]
fn a_stage_that_was_found_is_undone_even_if_making_it_again_is_refused() {
    insta::assert_snapshot!(start("
        volume disk: stage
        found stage of disk intent
        disk read
        attachments complete
        pod a wants disk
        source s complete
        #1 refused
        pod a gone
        #2 done
    "), @r"
    synced
    #1 stage disk again
    #2 unstage disk
    pod a released
    ");
}

/// I-4, design §4: mount ids and device numbers begin anew with each boot, so what looks the same is not the same.
#[test]
fn a_record_of_another_boot_proves_nothing_even_if_something_alike_is_mounted() {
    insta::assert_snapshot!(start("
        volume disk: stage
        found stage of disk other boot but alike
        found disk in a other boot but alike
        disk read
        attachments complete
        ? state disk
        pod a wants disk
        #1 done
        #2 done
        ? state disk
    "), @"
    synced
    state disk: attach Absent, stage Uncertain(Found), a Uncertain(Found)
    #1 stage disk again
    #2 publish disk to a again
    state disk: attach Absent, stage Held, a Held
    ");
}

/// Design §4: what was mounted in another boot is not mounted now, whatever its record says.
#[test]
fn after_a_reboot_everything_is_made_again() {
    insta::assert_snapshot!(start("
        volume disk: attach=node stage
        found attached disk
        found stage of disk other boot
        found disk in a other boot
        disk read
        pod a wants disk
        ? mounted a
        #1 done
        #2 done
        ? mounted a
    "), @r"
    #1 stage disk again
    mounted a:
    #2 publish disk to a again
    mounted a: disk=disk
    ");
}

/// I-4: the record is proof, but the mount is not there, or is another one.
#[test]
fn a_mount_that_is_not_the_one_that_was_recorded_is_made_again() {
    insta::assert_snapshot!(start("
        volume x: own
        volume y: own
        found x in a vanished
        found y in a replaced
        disk read
        pod a wants x, y
        ? mounted a
    "), @r"
    #1 publish x to a again
    #2 publish y to a again
    mounted a:
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

/// Design §4, I-3: the kubelet forgets a staged volume that no pod has, and the attacher detaches it while it is staged.
#[test]
fn a_staged_volume_that_no_pod_has_is_found_and_unstaged() {
    insta::assert_snapshot!(start("
        volume disk: attach=controller stage
        found stage of disk intent
        disk read
        attachments complete
        ? in use
        source s complete
        #1 done
    "), @r"
    synced
    in use: disk
    #1 unstage disk
    in use []
    ");
}

/// E-191: what this node attached in an earlier life it detaches, also if only the intent is known.
#[test]
fn a_volume_that_this_node_attached_before_the_restart_is_used_or_detached() {
    insta::assert_snapshot!(start("
        volume x: attach=node
        volume y: attach=node
        volume z: attach=node
        found attached x
        found attached y
        found intent to attach z
        disk read
        attachments complete
        pod a wants x
        source s complete
    "), @r"
    synced
    #1 publish x to a
    #2 detach y
    #3 detach z
    ");
}

/// E-197: what may be attached is attached again for those who want it.
#[test]
fn a_volume_that_may_be_attached_is_attached_again() {
    insta::assert_snapshot!(start("
        volume disk: attach=node
        found intent to attach disk
        disk read
        pod a wants disk
        #1 done
    "), @r"
    #1 attach disk
    #2 publish disk to a
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

/// C-39, E-199: in a pod that names it: set up again, not torn down.
#[test]
fn something_unreadable_that_a_pod_names_is_set_up_again() {
    insta::assert_snapshot!(start("
        volume disk: own
        found unreadable disk in a
        disk read
        attachments complete
        pod a wants disk
        source s complete
        #1 done
        ? mounted a
        pod a gone
    "), @r"
    synced
    #1 publish disk to a again
    mounted a: disk=disk
    #2 unpublish disk from a
    ");
}

/// C-39: the same, told in the other order.
#[test]
fn something_unreadable_is_recognised_by_a_pod_that_came_before_it() {
    insta::assert_snapshot!(start("
        volume disk: own
        pod a wants disk
        found unreadable disk in a
        disk read
        attachments complete
        source s complete
        #1 refused
        pod a gone
    "), @r"
    #1 publish disk to a
    synced
    #2 unpublish disk from a
    ");
}

/// E-193, E-199: among the devices of a pod there may be the same names as among its directories.
#[test]
fn an_unreadable_device_is_not_taken_for_a_directory_of_that_name() {
    insta::assert_snapshot!(start("
        volume disk: stage block device
        found unreadable disk in a
        disk read
        attachments complete
        pod a wants disk
        source s complete
        #1 done
        #2 done
        ? mounted a
    "), @"
    synced
    #1 stage disk
    #2 publish disk to a again
    mounted a: disk=disk as a device
    ");
}

/// C-39, E-199, W-21: torn down once, by the names of its directories; unlike in the kubelet also if that fails at first.
#[test]
fn something_unreadable_that_nobody_names_is_taken_down() {
    insta::assert_snapshot!(start("
        volume disk: own
        found unreadable disk in a
        disk read
        attachments complete
        source s complete
        #1 refused
        after 500ms
        #2 done
    "), @"
    synced
    #1 unpublish unreadable/Filesystem/test/plugin/a/disk from a
    #2 unpublish unreadable/Filesystem/test/plugin/a/disk from a, try 2
    pod a released
    ");
}

/// E-530: the directory of a pod of which nothing is left, and that nobody has.
#[test]
fn a_pod_that_only_has_a_directory_is_released() {
    insta::assert_snapshot!(start("
        found pod a
        found pod b
        disk read
        attachments complete
        pod b wants
        source s complete
    "), @r"
    synced
    pod a released
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

/// E-417, W-25: the record has the volume under another name than its pod. The kubelet tears it down under the pod.
#[test]
fn a_pod_whose_volume_was_found_under_another_identity_keeps_it() {
    insta::assert_snapshot!(start("
        volume old: own name=data
        volume new: own name=data
        found old in a proven
        disk read
        attachments complete
        pod a wants data=new
        source s complete
        ? explain data in a
        ? state old
        pod a gone
    "), @r"
    synced
    explain data in a: IdentityChanged (the pod has volume old at this place, which stays while the pod is here)
    state old: attach Absent, stage Absent, a Held
    #1 unpublish old from a
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

/// I-3, E-199: what cannot be read is recognised by its name if the volume is known to be staged, and is then not unstaged
/// under the pod.
#[test]
fn something_unreadable_of_a_volume_that_is_staged_is_known_by_its_name() {
    insta::assert_snapshot!(start("
        volume disk: stage
        found unreadable disk in a
        found stage of disk proven
        disk read
        attachments complete
        ? state disk
        source s complete
        ? why disk
        #1 done
        #2 done
        ? state disk
    "), @"
    synced
    state disk: attach Absent, stage Held, a Uncertain(Found)
    #1 unpublish disk from a
    why disk: StillInPods (The volume is, or may be, still in a pod, and is taken from this node after that. (pod a))
    #2 unstage disk
    pod a released
    state disk: not here
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
