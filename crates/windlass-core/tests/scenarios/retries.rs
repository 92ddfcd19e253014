//! When failed operations are tried again (E-§7): back-off, what resets it, what hangs, and that idle is idle (I-8).

use crate::language::run;

/// E-6e, E-329: 0.5, 1, 2, 4, 8, 16, 32, 64, 122, 122 … s.
#[test]
fn failures_are_tried_again_after_twice_the_time_each_up_to_two_minutes_and_two_seconds() {
    insta::assert_snapshot!(run("
        volume disk: stage
        pod a wants disk
        #1 refused
        ? deadline
        after 500ms
        #2 lost
        ? deadline
        after 1s
        #3 refused
        ? deadline
        after 2s
        #4 refused
        ? deadline
        after 4s
        #5 refused
        ? deadline
        after 8s
        #6 refused
        ? deadline
        after 16s
        #7 refused
        ? deadline
        after 32s
        #8 refused
        ? deadline
        after 64s
        #9 refused
        ? deadline
        after 122s
        #10 refused
        ? deadline
    "), @r"
    #1 stage disk
    deadline: in 500ms
    #2 stage disk, try 2
    deadline: in 1s
    #3 stage disk again, try 3
    deadline: in 2s
    #4 stage disk again, try 4
    deadline: in 4s
    #5 stage disk again, try 5
    deadline: in 8s
    #6 stage disk again, try 6
    deadline: in 16s
    #7 stage disk again, try 7
    deadline: in 32s
    #8 stage disk again, try 8
    deadline: in 64s
    #9 stage disk again, try 9
    deadline: in 122s
    #10 stage disk again, try 10
    deadline: in 122s
    ");
}

/// E-329: the window counts from the end of the operation, not from its start.
#[test]
fn nothing_is_tried_before_its_time() {
    insta::assert_snapshot!(run("
        volume disk: stage
        pod a wants disk
        after 60s
        #1 refused
        after 499ms
        ? deadline
        after 1ms
    "), @r"
    #1 stage disk
    deadline: in 1ms
    #2 stage disk, try 2
    ");
}

/// I-8: no wake-ups when all is settled, nor while only others can do something.
#[test]
fn with_nothing_to_do_there_is_no_deadline() {
    insta::assert_snapshot!(run("
        ? deadline
        volume disk: stage driver=ebs
        pod a wants disk
        ? deadline
        driver ebs registered
        #1 done
        #2 done
        ? deadline
        pod a gone
        #3 done
        #4 done
        ? deadline
    "), @r"
    deadline: none
    deadline: none
    #1 stage disk
    #2 publish disk to a
    deadline: none
    #3 unpublish disk from a
    #4 unstage disk
    pod a released
    deadline: none
    ");
}

/// I-6: the only deadline of an operation that runs is the moment at which it counts as hung.
#[test]
fn an_operation_that_runs_has_a_deadline_of_its_own() {
    insta::assert_snapshot!(run("
        volume disk: stage patience=1m
        pod a wants disk
        after 10s
        ? deadline
        after 50s
        ? deadline
    "), @r"
    #1 stage disk
    deadline: in 50s
    deadline: none
    ");
}

/// I-6: while it waits for its turn no time of its own passes; then it has all of it.
#[test]
fn an_operation_that_is_queued_never_hangs_and_has_its_whole_time_when_it_begins() {
    insta::assert_snapshot!(run("
        volume disk: stage patience=1m
        pod a wants disk
        #1 queued behind 3
        ? deadline
        after 10m
        ? reasons of disk in a
        #1 queued behind 0
        ? reasons of disk in a
        #1 started
        ? deadline
        ? reasons of disk in a
        after 1m
        ? reasons of disk in a
        #1 done
    "), @r"
    #1 stage disk
    deadline: none
    reasons of disk in a:
    - NotStaged: The pod's mount waits until the volume is ready on this node.; for 600s
    - Queued: stage #1 waits for its turn behind 3 others; for 600s; waits on operation #1
    reasons of disk in a:
    - NotStaged: The pod's mount waits until the volume is ready on this node.; for 600s
    - Queued: stage #1 is the next to begin; for 600s; waits on operation #1
    deadline: in 60s
    reasons of disk in a:
    - NotStaged: The pod's mount waits until the volume is ready on this node.; for 600s
    - Staging: stage #1 is running; for 0s; waits on operation #1
    reasons of disk in a:
    - NotStaged: The pod's mount waits until the volume is ready on this node.; for 660s
    - Hung: stage #1 has not answered in its time; for 60s; waits on operation #1
    #2 publish disk to a
    ");
}

/// I-2: whoever of before may be at the place is waited for, and named.
#[test]
fn an_operation_that_is_held_back_is_hung_until_it_can_begin() {
    insta::assert_snapshot!(run("
        volume disk: stage patience=1m
        pod a wants disk
        #1 blocked
        ? deadline
        ? reasons of disk in a
        pod a gone
        #1 started
        ? deadline
        #1 refused
    "), @r"
    #1 stage disk
    deadline: none
    reasons of disk in a:
    - NotStaged: The pod's mount waits until the volume is ready on this node.; for 0s
    - Hung: stage #1 has not begun: process 7 hangs in it; for 0s; waits on operation #1
    pod a released
    deadline: in 60s
    ");
}

/// What removed the cause may come from outside, or a person may know it.
#[test]
fn what_failed_is_tried_at_once_when_somebody_wants_it() {
    insta::assert_snapshot!(run("
        volume disk: stage
        pod a wants disk
        pod b wants disk
        #1 refused
        retry disk in a
        #2 done
        #3 refused
        #4 refused
        retry disk in b
        #5 refused
        retry disk
        retry nothing
        ? deadline
    "), @r"
    #1 stage disk
    #2 stage disk
    #3 publish disk to a
    #4 publish disk to b
    #5 publish disk to b
    #6 publish disk to a
    deadline: in 150s
    ");
}

/// E-327, E-328: another operation begins at once and with a fresh back-off.
#[test]
fn another_kind_of_operation_does_not_wait_for_the_failures_of_the_last() {
    insta::assert_snapshot!(run("
        volume disk: stage
        pod a wants disk
        #1 lost
        after 500ms
        #2 lost
        pod a gone
        #3 lost
        pod a wants disk
        #4 refused
        ? deadline
    "), @r"
    #1 stage disk
    #2 stage disk again, try 2
    #3 unstage disk
    pod a released
    #4 stage disk again
    deadline: in 500ms
    ");
}

/// E-329: a success ends the row of failures.
#[test]
fn a_success_forgets_the_failures_before_it() {
    insta::assert_snapshot!(run("
        volume conf: own refresh revision=1
        pod a wants conf
        #1 refused
        after 500ms
        #2 refused
        after 1s
        #3 done
        volume conf: own refresh revision=2
        pod a wants conf
        #4 refused
        ? deadline
    "), @r"
    #1 publish conf to a
    #2 publish conf to a, try 2
    #3 publish conf to a, try 3
    #4 publish conf to a refreshing
    deadline: in 500ms
    ");
}

/// W-15: the kubelet keeps the failed keys of vanished pods.
#[test]
fn the_failures_of_a_pod_go_with_it() {
    insta::assert_snapshot!(run("
        volume disk:
        pod a wants disk
        #1 refused
        pod a gone
        ? deadline
        pod a wants disk
    "), @r"
    #1 publish disk to a
    pod a released
    deadline: none
    #2 publish disk to a
    ");
}

/// E-359: a driver that registers, for the first time or anew, is worth a new try at once.
#[test]
fn a_driver_that_registers_ends_the_back_off_of_its_volumes() {
    insta::assert_snapshot!(run("
        volume x: stage driver=ebs
        volume y: own driver=ebs
        volume z: own driver=nfs
        driver ebs registered
        driver nfs registered
        pod a wants x, y, z
        #1 refused
        #2 refused
        #3 refused
        driver ebs registered
        #4 refused
        #5 refused
        ? deadline
    "), @r"
    #1 stage x
    #2 publish y to a
    #3 publish z to a
    #4 stage x
    #5 publish y to a
    deadline: in 500ms
    ");
}

/// E-138, E-359: for want of a driver nothing is called, in neither direction.
#[test]
fn a_volume_whose_driver_is_away_waits_for_it_without_trying() {
    insta::assert_snapshot!(run("
        volume disk: stage driver=ebs
        pod a wants disk
        ? why disk
        driver ebs registered
        #1 done
        #2 done
        driver ebs unregistered
        ? mounted a
        pod a gone
        ? reasons of mounts of disk
        ? deadline
        driver ebs registered
    "), @r"
    why disk: DriverMissing (driver ebs is not registered on this node)
    #1 stage disk
    #2 publish disk to a
    mounted a: disk=disk
    reasons of mounts of disk:
    a:
    - DriverMissing: driver ebs is not registered on this node; for 0s; waits on driver ebs
    deadline: none
    #3 unpublish disk from a
    ");
}

/// E-138: a call that found no driver is tried again when one registers, or after its time.
#[test]
fn a_call_that_found_its_driver_gone_is_repeated_when_it_registers() {
    insta::assert_snapshot!(run(r#"
        volume disk: stage driver=ebs
        driver ebs registered
        pod a wants disk
        #1 refused without driver "no client for ebs"
        ? why disk
        driver ebs registered
    "#), @"
    #1 stage disk
    why disk: BackingOff (stage failed) <- DriverUnreachable (no client for ebs)
    #2 stage disk
    ");
}

/// E-138: missing secret, missing VolumeAttachment.
#[test]
fn an_object_that_appears_ends_the_back_off_of_those_who_missed_it() {
    insta::assert_snapshot!(run(r#"
        volume x: own
        volume y: own
        volume z: stage
        pod a wants x, y, z
        #1 refused for want of Secret/s "secret s not found"
        #2 refused for want of Secret/other "secret other not found"
        #3 lost for want of Secret/s "secret s not found"
        ? explain x in a
        object Secret/s changed
        #4 refused for want of Secret/s "secret s not found"
        ? deadline
    "#), @"
    #1 publish x to a
    #2 publish y to a
    #3 stage z
    explain x in a: BackingOff (publish failed) <- ObjectMissing (secret s not found)
    #4 publish x to a
    #5 stage z again
    deadline: in 500ms
    ");
}

/// Design §3: an attachment that is seen anew retries at once.
#[test]
fn an_attachment_that_is_seen_ends_the_back_off() {
    insta::assert_snapshot!(run("
        volume disk: attach=controller stage
        attached disk
        pod a wants disk
        reported
        #1 refused
        after 500ms
        #2 refused
        attached disk
        #3 refused
        ? deadline
    "), @r"
    in use [disk]
    #1 stage disk
    #2 stage disk, try 2
    #3 stage disk
    deadline: in 500ms
    ");
}

/// E-149: being told the same again is no reason to try again; other content is.
#[test]
fn a_pod_that_is_told_again_is_tried_again_only_if_something_is_new() {
    insta::assert_snapshot!(run("
        volume conf: own refresh revision=1
        pod a wants conf
        #1 refused
        pod a wants conf
        pod a version 2
        volume conf: own refresh revision=2
        pod a wants conf
    "), @r"
    #1 publish conf to a
    #2 publish conf to a
    ");
}

/// I-6: what hangs holds up its own volume and nothing else.
#[test]
fn a_hang_holds_up_only_its_own_volume() {
    insta::assert_snapshot!(run("
        volume x: patience=1m
        volume y: patience=1m
        pod a wants x, y
        after 1m
        #2 done
        pod b wants x, y
        #3 done
        ? mounted b
        ? explain x in a
        ? explain x in b
        ? deadline
    "), @r"
    #1 publish x to a
    #2 publish y to a
    #3 publish y to b
    mounted b: y=y
    explain x in a: Hung (publish #1 has not answered in its time)
    explain x in b: VolumeBusy (publish #1 of the same volume is running) <- Hung (publish #1 has not answered in its time)
    deadline: none
    ");
}
