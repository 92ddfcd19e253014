//! Several pods, one volume; several volumes, one pod, one place. What may run at the same time (I-2, E-320..E-325).

use crate::language::{run, start};

/// E-183: unpublish comes before publish, and what the next pod needs is not undone in between.
#[test]
fn a_volume_moves_between_pods_without_being_unstaged() {
    insta::assert_snapshot!(run("
        volume disk: stage
        pod a wants disk
        #1 done
        #2 done
        pod a gone
        pod b wants disk
        ? explain disk in b
        #3 done
        #4 done
        ? state disk
    "), @r"
    #1 stage disk
    #2 publish disk to a
    #3 unpublish disk from a
    explain disk in b: VolumeBusy (unpublish #3 of the same volume is running) <- Unpublishing (unpublish #3 is running)
    #4 publish disk to b
    pod a released
    state disk: attach Absent, stage Held, b Held
    ");
}

/// E-181, E-183: both facts at once; the pod that goes is served first although it came first and last.
#[test]
fn a_pod_that_goes_is_served_before_a_pod_that_waits() {
    insta::assert_snapshot!(run("
        volume disk: stage
        pod a wants disk
        #1 done
        pod b wants disk
        pod c wants disk
        pod a gone
        #2 done
        #3 done
        #4 done
        #5 done
        ? state disk
    "), @r"
    #1 stage disk
    #2 publish disk to a
    #3 unpublish disk from a
    #4 publish disk to b
    pod a released
    #5 publish disk to c
    state disk: attach Absent, stage Held, b Held, c Held
    ");
}

/// C-8, E-63: shared by all pods; the last one out takes it down.
#[test]
fn a_shared_volume_is_staged_once_and_unstaged_after_the_last_pod() {
    insta::assert_snapshot!(run("
        volume disk: stage
        pod a wants disk
        pod b wants disk
        #1 done
        #2 done
        #3 done
        pod a gone
        #4 done
        pod b gone
        #5 done
        #6 done
    "), @r"
    #1 stage disk
    #2 publish disk to a
    #3 publish disk to b
    #4 unpublish disk from a
    pod a released
    #5 unpublish disk from b
    #6 unstage disk
    pod b released
    ");
}

/// I-2: one operation per volume, what the CSI specification asks of an orchestrator. The kubelet overlaps unmounts.
#[test]
fn alone_means_one_operation_of_a_volume_at_a_time() {
    insta::assert_snapshot!(run("
        volume disk:
        pod a wants disk
        pod b wants disk
        #1 done
        #2 done
        pod a gone
        pod b gone
        pod c wants disk
        #3 done
        #4 done
        #5 done
    "), @r"
    #1 publish disk to a
    #2 publish disk to b
    #3 unpublish disk from a
    #4 unpublish disk from b
    pod a released
    #5 publish disk to c
    pod b released
    ");
}

/// E-322, E-323, E-325: as the kubelet has it: unmounts run in parallel, mounts of a shared volume are serial, and a
/// mount waits for unmounts.
#[test]
fn releases_may_overlap_each_other_but_no_publish() {
    insta::assert_snapshot!(run("
        volume disk: overlap=releases
        pod a wants disk
        pod b wants disk
        #1 done
        #2 done
        pod c wants disk
        pod a gone
        pod b gone
        #3 done
        #4 done
        pod d wants disk
        ? explain disk in d
        #5 done
        ? explain disk in d
    "), @r"
    #1 publish disk to a
    #2 publish disk to b
    #3 publish disk to c
    #4 unpublish disk from a
    #5 unpublish disk from b
    pod a released
    explain disk in d: VolumeBusy (unpublish #5 of the same volume is running) <- Unpublishing (unpublish #5 is running)
    #6 publish disk to d
    pod b released
    explain disk in d: Publishing (publish #6 is running)
    ");
}

/// W-10: one slow publish does not delay the other pods.
#[test]
fn pods_may_overlap_but_what_the_volume_does_alone_waits_for_all() {
    insta::assert_snapshot!(run("
        volume disk: stage overlap=pods
        pod a wants disk
        pod b wants disk
        #1 done
        #2 done
        pod c wants disk
        pod a gone
        pod b gone
        pod c gone
        ? state disk
        #3 done
        #4 refused
        #5 done
        #6 done
        #7 done
        ? state disk
    "), @r"
    #1 stage disk
    #2 publish disk to a
    #3 publish disk to b
    #4 publish disk to c
    #5 unpublish disk from a
    state disk: attach Absent, stage Held, a Undoing, b Doing, c Doing
    #6 unpublish disk from b
    pod c released
    pod a released
    #7 unstage disk
    pod b released
    state disk: not here
    ");
}

/// E-320, I-2: each pod's mount has one operation at a time, however freely pods overlap.
#[test]
fn one_pods_mount_has_one_operation_at_a_time() {
    insta::assert_snapshot!(run("
        volume disk: overlap=pods refresh revision=1
        pod a wants disk
        #1 done
        volume disk: overlap=pods refresh revision=2
        pod a wants disk
        pod a gone
        #2 done
        pod a wants disk
        #3 done
    "), @r"
    #1 publish disk to a
    #2 publish disk to a refreshing
    #3 unpublish disk from a
    #4 publish disk to a
    ");
}

/// E-321, E-335, I-2: nothing waits for the operations of another volume, in the same pod or not.
#[test]
fn volumes_do_not_wait_for_each_other() {
    insta::assert_snapshot!(run("
        volume one: stage
        volume two: stage
        volume three: own
        pod a wants one, two, three
        #2 done
        #4 done
        ? status a
    "), @r"
    #1 stage one
    #2 stage two
    #3 publish three to a
    #4 publish two to a
    status a: unmounted [one three], unattached [], unprocessed [], errors []
    ");
}

/// C-40, E-326: each pod's mount remembers its own failures, and what the volume does alone waits only for what runs.
#[test]
fn each_pod_has_its_own_failures() {
    insta::assert_snapshot!(run("
        volume disk: overlap=pods
        pod a wants disk
        pod b wants disk
        pod c wants disk
        #1 refused
        after 200ms
        #2 refused
        ? deadline
        after 300ms
        #4 done
        after 200ms
        #5 done
    "), @r"
    #1 publish disk to a
    #2 publish disk to b
    #3 publish disk to c
    deadline: in 300ms
    #4 publish disk to a, try 2
    #5 publish disk to b, try 2
    ");
}

/// C-40: failed for a and b, running for c: the volume is not unstaged before c is done, in whatever way.
#[test]
fn a_volume_is_not_unstaged_while_one_of_its_pods_is_served() {
    insta::assert_snapshot!(run("
        volume disk: stage overlap=pods
        pod a wants disk
        pod b wants disk
        pod c wants disk
        #1 done
        #2 refused
        #3 refused
        pod a gone
        pod b gone
        pod c gone
        #4 refused
    "), @r"
    #1 stage disk
    #2 publish disk to a
    #3 publish disk to b
    #4 publish disk to c
    pod a released
    pod b released
    #5 unstage disk
    pod c released
    ");
}

/// Csi C-80, E-250 step 5, E-122: `ReadWriteOncePod`. The kubelet fails the mount; here the pod waits and says for whom.
#[test]
fn a_volume_for_one_pod_is_given_to_the_next_when_the_first_has_let_go() {
    insta::assert_snapshot!(run("
        volume disk: stage rwop
        pod a wants disk
        #1 done
        #2 done
        pod b wants disk
        ? explain disk in b
        ? status b
        pod a gone
        #3 done
        #4 done
        ? mounted b
    "), @r"
    #1 stage disk
    #2 publish disk to a
    explain disk in b: OtherPod (The volume may be in one pod at a time and another pod has it. (pod default/a))
    status b: unmounted [disk], unattached [], unprocessed [], errors []
    #3 unpublish disk from a
    #4 publish disk to b
    pod a released
    mounted b: disk=disk
    ");
}

/// E-122: an uncertain mount elsewhere counts, also where pods overlap.
#[test]
fn a_volume_for_one_pod_is_not_given_on_while_the_first_may_have_it() {
    insta::assert_snapshot!(run("
        volume disk: rwop overlap=pods
        pod a wants disk
        pod b wants disk
        #1 lost
        pod a gone
        #2 lost
        ? explain disk in b
        after 500ms
        #3 done
    "), @r"
    #1 publish disk to a
    #2 unpublish disk from a
    explain disk in b: OtherPod (The volume may be in one pod at a time and another pod has it. (pod default/a))
    #3 unpublish disk from a, try 2
    #4 publish disk to b
    pod a released
    ");
}

/// E-122: a refusal leaves nothing behind, so the pod that waits goes first.
#[test]
fn a_volume_for_one_pod_goes_to_whoever_can_have_it_first() {
    insta::assert_snapshot!(run("
        volume disk: rwop
        pod a wants disk
        pod b wants disk
        #1 refused
        #2 done
        after 500ms
        ? explain disk in a
    "), @r"
    #1 publish disk to a
    #2 publish disk to b
    explain disk in a: OtherPod (The volume may be in one pod at a time and another pod has it. (pod default/b))
    ");
}

/// E-122: whoever is known to have it keeps it from one of whom that is doubtful, though that one came first.
#[test]
fn a_volume_for_one_pod_stays_with_the_pod_that_is_found_to_have_it() {
    insta::assert_snapshot!(start("
        volume disk: rwop
        pod a wants disk
        pod b wants disk
        source s complete
        found disk in a vanished
        found disk in b proven
        disk read
        attachments complete
        ? explain disk in a
        ? state disk
        pod b gone
        #1 done
        #2 done
    "), @r"
    synced
    explain disk in a: OtherPod (The volume may be in one pod at a time and another pod has it. (pod default/b)) <- Uncertain (found at start without proof that the publish is whole)
    state disk: attach Absent, stage Absent, a Uncertain(Found), b Held
    #1 unpublish disk from b
    #2 publish disk to a again
    pod b released
    ");
}

/// E-64: a pod's own volumes have their own names, and nothing in common.
#[test]
fn volumes_that_are_each_a_pods_own_go_their_own_ways() {
    insta::assert_snapshot!(run("
        volume tmp-of-a: own name=tmp
        volume tmp-of-b: own name=tmp
        pod a wants tmp=tmp-of-a
        pod b wants tmp=tmp-of-b
        #2 done
        #1 done
        pod b gone
        ? mounted a
    "), @r"
    #1 publish tmp-of-a to a
    #2 publish tmp-of-b to b
    #3 unpublish tmp-of-b from b
    mounted a: tmp=tmp-of-a
    ");
}

/// E-417, W-25: the identity of a volume changed under a running pod. The kubelet tears the mount down; here the pod
/// keeps what it has until it goes.
#[test]
fn a_pod_that_has_another_volume_under_a_name_keeps_it() {
    insta::assert_snapshot!(run("
        volume old: stage name=data
        volume new: stage name=data
        pod a wants data=old
        #1 done
        #2 done
        pod a wants data=new
        ? explain data in a
        ? mounted a
        ? odd
        pod a gone
        #3 done
        #4 done
    "), @r"
    #1 stage old
    #2 publish old to a
    explain data in a: IdentityChanged (volume data of pod default/a should now be new, but the pod has another and keeps it)
    mounted a: data=old
    odd: IdentityChanged=1
    #3 unpublish old from a
    #4 unstage old
    pod a released
    ");
}

/// E-417: two volumes of one name but of different kinds have different directories.
#[test]
fn volumes_of_one_name_and_different_plugins_do_not_meet() {
    insta::assert_snapshot!(run("
        volume one: own name=data plugin=test/one
        volume two: own name=data plugin=test/two
        pod a wants one, two
        #1 done
        #2 done
        ? mounted a
        ? odd
    "), @r"
    #1 publish one to a
    #2 publish two to a
    mounted a: one=one two=two
    odd:
    ");
}

/// I-1: only a pod that is there keeps the volume it has; one that had gone and comes back gets what it names now.
#[test]
fn a_pod_that_comes_back_under_the_same_name_with_another_volume_gets_that_one() {
    insta::assert_snapshot!(run("
        volume old: own
        volume new: own
        pod a wants data=old
        #1 done
        pod a gone
        pod a wants data=new
        #2 done
        #3 done
        ? mounted a
    "), @"
    #1 publish old to a
    #2 unpublish old from a
    #3 publish new to a
    mounted a: data=new
    ");
}
