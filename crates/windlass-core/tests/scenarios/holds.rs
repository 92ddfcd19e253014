//! What is here and named by nobody is held, because that may be an accident (I-1).

use crate::language::{run, start, start_with_two_sources};

/// I-1: the manifests may not be mounted yet. Only that pod is held.
#[test]
fn a_pod_on_disk_that_no_source_names_stays_until_the_delay_is_over() {
    insta::assert_snapshot!(start("
        volume disk: stage
        volume tmp: own
        volume other: own
        found pod a named ns/web
        found stage of disk proven
        found disk in a proven
        found tmp in a intent
        found other in b leaving with its pod
        disk read
        attachments complete
        source s complete orphans stay 10m
        ? pod a
        ? reasons of mounts of disk
        ? reasons of disk
        ? deadline
        after 9m
        ? reasons of mounts of tmp
        after 1m
        #2 done
        #3 done
        #4 done
    "), @"
    synced
    #1 unpublish other from b
    pod a: ns/web is Held
    reasons of mounts of disk:
    a:
    - NotInManifests: no manifest that was read since the start names the pod; for 0s; goes in 600s; waits on time
    reasons of disk:
    - StillInPods: The volume is, or may be, still in a pod, and is taken from this node after that. (pod ns/web); for 0s; waits on pod a
    - NotInManifests: no manifest that was read since the start names the pod; for 0s; goes in 600s; waits on time
    deadline: in 150s
    reasons of mounts of tmp:
    a:
    - NotInManifests: no manifest that was read since the start names the pod; for 540s; goes in 60s; waits on time
    #2 unpublish disk from a
    #3 unpublish tmp from a
    pod a is held no longer
    #4 unstage disk
    pod a released
    ");
}

/// I-1, I-11: nothing is called for a pod that comes back.
#[test]
fn a_pod_that_a_source_names_in_time_notices_nothing() {
    insta::assert_snapshot!(start("
        volume tmp: own
        found tmp in a proven
        disk read
        attachments complete
        source s complete orphans stay 10m
        after 599s
        pod a wants tmp
        ? mounted a
        after 10m
        ? pod a
        ? deadline
    "), @"
    synced
    mounted a: tmp=tmp
    pod a: default/a is Known(Running)
    deadline: none
    ");
}

/// I-1: the manifest may have been cut. The volumes that it names are the pod's as ever.
#[test]
fn a_volume_on_disk_that_its_pod_does_not_name_at_start_stays_until_the_delay_is_over() {
    insta::assert_snapshot!(start("
        volume tmp: own
        volume logs: own
        found tmp in a proven
        found logs in a proven
        pod a wants tmp
        disk read
        attachments complete
        source s complete orphans stay 10m
        ? mounted a
        ? reasons of mounts of logs
        after 5m
        pod a wants tmp
        after 5m
        #1 done
        ? deadline
    "), @"
    synced
    mounted a: tmp=tmp
    reasons of mounts of logs:
    a:
    - NotInManifests: the pod had this volume before the start, and its manifest does not name it; for 0s; goes in 600s; waits on time
    #1 unpublish logs from a
    deadline: none
    ");
}

#[test]
fn a_volume_that_its_pod_names_again_is_held_no_longer() {
    insta::assert_snapshot!(start("
        volume tmp: own
        volume logs: own
        found tmp in a proven
        found logs in a proven
        pod a wants tmp
        disk read
        attachments complete
        source s complete orphans stay 10m
        pod a wants tmp, logs
        ? mounted a
        ? deadline
        pod a wants tmp
    "), @"
    synced
    mounted a: logs=logs tmp=tmp
    deadline: none
    #1 unpublish logs from a
    ");
}

/// I-11: what was begun goes on.
#[test]
fn what_was_being_taken_away_goes_on_at_once() {
    insta::assert_snapshot!(start("
        volume tmp: own
        volume logs: own
        volume cache: own
        found tmp in a leaving with its pod
        found logs in a proven
        found cache in b leaving
        found pod c
        disk read
        attachments complete
        source s complete orphans stay 10m
        #1 done
        #2 done
        #3 done
        ? deadline
    "), @"
    synced
    #1 unpublish tmp from a
    #2 unpublish logs from a
    #3 unpublish cache from b
    pod c released
    pod a released
    pod b released
    deadline: none
    ");
}

/// A volume that was taken from a pod says nothing of the pod.
#[test]
fn a_pod_of_which_one_volume_was_being_taken_away_is_held_with_the_others() {
    insta::assert_snapshot!(start("
        volume tmp: own
        volume logs: own
        found tmp in a leaving
        found logs in a proven
        disk read
        attachments complete
        source s complete orphans stay 10m
        #1 done
        ? pod a
        after 10m
        #2 done
    "), @"
    synced
    #1 unpublish tmp from a
    pod a: a is Held
    #2 unpublish logs from a
    pod a is held no longer
    pod a released
    ");
}

#[test]
fn somebody_who_says_so_ends_a_hold_at_once() {
    insta::assert_snapshot!(start("
        volume tmp: own
        found tmp in a proven
        disk read
        attachments complete
        source s complete orphans stay 10m
        pod a gone
        #1 done
        ? deadline
    "), @"
    synced
    #1 unpublish tmp from a
    pod a released
    deadline: none
    ");
}

/// I-1: what cannot be read may name it.
#[test]
fn no_hold_ends_while_a_source_cannot_read_all() {
    insta::assert_snapshot!(start("
        volume tmp: own
        found tmp in a proven
        disk read
        attachments complete
        source s complete orphans stay 10m
        source s complete with doubt \"web.yaml cannot be read\"
        after 10m
        ? reasons of mounts of tmp
        ? deadline
        source s complete orphans stay 10m
        #1 done
    "), @"
    synced
    reasons of mounts of tmp:
    a:
    - SourceIncomplete: no manifest that was read since the start names the pod; it stays because web.yaml cannot be read; for 600s; waits on source s
    deadline: none
    #1 unpublish tmp from a
    pod a is held no longer
    pod a released
    ");
}

/// I-1: nor while a source is lost.
#[test]
fn no_hold_ends_while_a_source_is_lost() {
    insta::assert_snapshot!(start_with_two_sources("
        volume tmp: own
        found tmp in a proven
        disk read
        attachments complete
        source s complete
        source t complete orphans stay 10m
        source s lost
        after 10m
        ? reasons of mounts of tmp
        source s complete
        #1 done
    "), @"
    synced
    reasons of mounts of tmp:
    a:
    - SourceIncomplete: no manifest that was read since the start names the pod; it stays because source s is lost: it failed; for 600s; waits on source s
    #1 unpublish tmp from a
    pod a is held no longer
    pod a released
    ");
}

/// I-1: that a source was away does not count as its word on what it could not tell before.
#[test]
fn a_source_that_was_lost_and_is_back_keeps_its_holds_and_their_times() {
    insta::assert_snapshot!(run("
        volume tmp: own
        pod a wants tmp
        #1 done
        pod a held for 10m
        after 5m
        source s lost \"it went away\"
        after 1m
        source s complete
        ? reasons of mounts of tmp
        after 4m
        #2 done
    "), @"
    #1 publish tmp to a
    reasons of mounts of tmp:
    a:
    - OtherNode: it failed; for 360s; goes in 240s; waits on time
    #2 unpublish tmp from a
    pod a is held no longer
    pod a released
    ");
}

/// I-1: it keeps what it has and gets nothing new.
#[test]
fn a_source_can_hold_a_pod_that_it_had() {
    insta::assert_snapshot!(run("
        volume disk: stage
        volume tmp: own
        pod a wants disk
        #1 done
        #2 done
        pod a held for 10m \"web.yaml is for node-2\"
        ? reasons of mounts of disk
        ? pod a
        after 5m
        pod a held for 10m \"web.yaml is for node-3\"
        ? reasons of mounts of disk
        pod a wants disk, tmp
        #3 done
        ? mounted a
        pod a held for ever \"web.yaml is for node-2\"
        ? deadline
        pod a gone
    "), @"
    #1 stage disk
    #2 publish disk to a
    reasons of mounts of disk:
    a:
    - OtherNode: web.yaml is for node-2; for 0s; goes in 600s; waits on time
    pod a: default/a is Held
    reasons of mounts of disk:
    a:
    - OtherNode: web.yaml is for node-3; for 300s; goes in 300s; waits on time
    #3 publish tmp to a
    mounted a: disk=disk tmp=tmp
    deadline: none
    #4 unpublish disk from a
    #5 unpublish tmp from a
    ");
}

#[test]
fn when_the_time_is_over_a_held_pod_is_gone() {
    insta::assert_snapshot!(run("
        volume tmp: own
        pod a wants tmp
        #1 done
        pod a held for 10m
        after 10m
        #2 done
        pod b held for 10m
        pod c wants
        pod c held for 10m
        ? odd
        ? deadline
    "), @"
    #1 publish tmp to a
    #2 unpublish tmp from a
    pod a is held no longer
    pod a released
    pod c is held no longer
    pod c released
    odd:
    deadline: none
    ");
}

/// Whether the disk was read before or after that makes no difference: it was seen to go.
#[test]
fn a_pod_that_went_before_the_disk_was_read_is_not_held() {
    insta::assert_snapshot!(start("
        volume tmp: own
        pod a gone
        found pod a named ns/web
        found tmp in a proven
        disk read
        attachments complete
        ? pod a
        source s complete orphans stay 10m
        #1 done
        ? odd in words
    "), @"
    synced
    pod a: ns/web is Gone
    #1 unpublish tmp from a
    pod a released
    odd in words:
    ");
}

/// I-1: the clock knows that the time is over before the source has said that the manifest is back.
#[test]
fn what_was_held_goes_only_once_the_sources_have_read_all_they_have_again() {
    insta::assert_snapshot!(start("
        volume tmp: own
        found tmp in a proven
        found tmp in b proven
        disk read
        attachments complete
        source s was read
        source s complete orphans stay 10m
        after 9m
        source s was read
        after 2m
        ? pod a
        pod a wants tmp
        source s was read
        ? pod a
        ? pod b
    "), @"
    synced
    sources are to be read again
    sources are to be read again
    pod a: a is Held
    #1 unpublish tmp from b
    pod b is held no longer
    pod a: default/a is Known(Running)
    pod b: b is Gone
    ");
}
