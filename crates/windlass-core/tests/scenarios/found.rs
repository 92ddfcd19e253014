//! Start: what was found counts for as much as it proves (E-193..E-199, I-4): without proof it is uncertain, whatever it is.

use crate::language::start;

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
        ? mounted a
        ? state old
        pod a gone
    "), @r"
    synced
    explain data in a: IdentityChanged (volume data of pod default/a should now be new, but the pod has another and keeps it)
    mounted a: data=old
    state old: attach Absent, stage Absent, a Held
    #1 unpublish old from a
    ");
}

/// E-90: as if it had changed while the process ran, under however many names.
#[test]
fn a_volume_that_was_found_as_another_kind_stays_what_it_was() {
    insta::assert_snapshot!(start("
        volume disk: stage block driver=one
        found stage of disk proven
        found disk in a proven
        disk read
        attachments complete
        driver one registered
        driver two registered
        volume disk: stage block driver=two
        pod a wants one=disk, two=disk
        source s complete
        ? explain one in a
        ? explain two in a
        ? mounted a
        volume disk: stage block device driver=one
        pod a wants one=disk
        ? explain one in a
        volume disk: stage block driver=one
        pod a wants one=disk
        ? explain one in a
    "), @r"
    synced
    explain one in a: IdentityChanged (volume one of pod default/a should now be a file system of two called disk, but the pod has a file system of one called disk and keeps that)
    explain two in a: IdentityChanged (volume two of pod default/a should now be a file system of two called disk, but the pod has a file system of one called disk and keeps that)
    mounted a: one=disk two=disk
    explain one in a: IdentityChanged (volume one of pod default/a should now be a raw device of one called disk, but the pod has a file system of one called disk and keeps that)
    explain one in a: settled
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

/// A stage that was found without a record is called after the volume alone, and pods call it by another name.
#[test]
fn a_drivers_volume_that_was_found_staged_is_called_as_its_first_pod_calls_it() {
    insta::assert_snapshot!(start("
        volume disk: stage driver=ebs name=handle
        found stage of disk intent
        disk read
        attachments complete
        volume disk: stage driver=ebs name=pv
        driver ebs registered
        pod a wants disk
        source s complete
        #1 done
        #2 done
        ? mounted a
        ? odd
    "), @r"
    synced
    #1 stage disk again
    #2 publish disk to a
    mounted a: disk=disk
    odd:
    ");
}

/// The same, of a volume that nobody wanted when it was found.
#[test]
fn a_drivers_volume_that_is_being_unstaged_is_called_as_the_pod_calls_it_that_comes_meanwhile() {
    insta::assert_snapshot!(start("
        volume disk: stage driver=ebs name=handle
        found stage of disk intent
        disk read
        attachments complete
        driver ebs registered
        source s complete
        volume disk: stage driver=ebs name=pv
        pod a wants disk
        #1 done
        #2 done
        #3 done
        ? mounted a
        ? odd
    "), @r"
    synced
    #1 unstage disk
    #2 stage disk
    #3 publish disk to a
    mounted a: disk=disk
    odd:
    ");
}
