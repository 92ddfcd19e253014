//! Where pods come from, how they end, and what is not known of them (I-1): only what is positively not wanted is taken.

use crate::language::{run, run_keeping_terminated};

/// C-20, E-143, E-161: it keeps what it has and gets nothing new.
#[test]
fn a_pod_that_is_stopping_keeps_its_volumes_and_gets_no_new_ones() {
    insta::assert_snapshot!(run("
        volume one: own
        volume two: own
        pod a wants one
        #1 done
        pod a stopping
        pod a wants one, two
        ? mounted a
        pod a finished
        #2 done
        ? status a
        pod a gone
    "), @r"
    #1 publish one to a
    mounted a: one=one
    #2 unpublish one from a
    status a: unmounted [one two], unattached [], unprocessed [], errors []
    pod a released
    ");
}

/// E-143: what was begun for it and succeeds is kept; what fails is not tried again.
#[test]
fn a_pod_that_stops_while_its_volumes_come_keeps_those_that_came() {
    insta::assert_snapshot!(run("
        volume x: own
        volume y: own
        volume z: stage
        pod a wants x, y, z
        pod a stopping
        #1 done
        #2 refused
        #3 done
        after 10s
        ? mounted a
    "), @r"
    #1 publish x to a
    #2 publish y to a
    #3 stage z
    #4 unstage z
    mounted a: x=x
    ");
}

/// E-207: content is brought up to date for pods that run.
#[test]
fn a_pod_that_is_stopping_is_not_refreshed() {
    insta::assert_snapshot!(run("
        volume conf: own refresh revision=1
        pod a wants conf
        #1 done
        pod a stopping
        volume conf: own refresh revision=2
        pod a wants conf
        ? explain conf in a
    "), @r"
    #1 publish conf to a
    explain conf in a: settled
    ");
}

/// C-23, E-164, W-9: the kubelet keeps trying to mount for a finished pod whose volume never mounted.
#[test]
fn a_finished_pod_whose_volume_never_mounted_wants_nothing() {
    insta::assert_snapshot!(run("
        volume disk: attach=controller stage
        pod a wants disk
        pod a finished
        attached disk
        reported
        ? explain disk in a
        ? in use
    "), @r"
    in use [disk]
    in use []
    explain disk in a: settled
    in use:
    ");
}

/// C-23, E-165: uncertain is enough to be taken away.
#[test]
fn a_finished_pod_gives_back_what_it_may_have() {
    insta::assert_snapshot!(run("
        volume x: own
        volume y: own
        pod a wants x, y
        #1 done
        #2 lost
        pod a finished
        #3 done
        #4 done
        ? possibly a
    "), @r"
    #1 publish x to a
    #2 publish y to a
    #3 unpublish x from a
    #4 unpublish y from a
    possibly a: false
    ");
}

/// E-167: the kubelet's old switch `keepTerminatedPodVolumes`, for those who still want it.
#[test]
fn a_finished_pod_may_keep_its_volumes_until_it_is_gone() {
    insta::assert_snapshot!(run_keeping_terminated("
        volume x: own
        volume y: own
        pod a wants x
        #1 done
        pod a finished
        pod a wants x, y
        ? mounted a
        pod a gone
    "), @r"
    #1 publish x to a
    mounted a: x=x
    #2 unpublish x from a
    ");
}

/// C-22, E-162, E-166: gone from its source while its containers run.
#[test]
fn a_pod_that_left_its_source_keeps_its_volumes_while_its_containers_may_run() {
    insta::assert_snapshot!(run("
        volume x: own
        volume y: own
        pod a wants x, y
        #1 done
        pod a gone but may run
        #2 refused
        after 10s
        ? mounted a
        pod a gone
        #3 done
        ? status a
        pod a gone
        ? odd
    "), @r"
    #1 publish x to a
    #2 publish y to a
    mounted a: x=x
    #3 unpublish x from a
    pod a released
    status a: not known
    odd: UnknownPod=1
    ");
}

/// I-1: a source that cannot be read says nothing; once it is complete, what it did not give again is gone.
#[test]
fn a_source_that_is_lost_takes_nothing_away_until_it_is_complete_again() {
    insta::assert_snapshot!(run("
        volume x: own
        volume y: own
        pod a wants x
        pod b wants y
        #1 done
        #2 done
        source s lost
        after 60m
        ? mounted b
        pod a wants x
        source s complete
        ? mounted a
    "), @r"
    #1 publish x to a
    #2 publish y to b
    mounted b: y=y
    #3 unpublish y from b
    mounted a: x=x
    ");
}

/// E-162, E-166: the same, when nobody knows whether containers run.
#[test]
fn a_pod_that_a_source_does_not_give_again_may_still_run() {
    insta::assert_snapshot!(run("
        volume x: own
        pod a wants x
        #1 done
        source s lost
        source s complete but may run
        ? mounted a
        pod a gone
    "), @r"
    #1 publish x to a
    mounted a: x=x
    #2 unpublish x from a
    ");
}

/// A source that says so twice has not lost anything in between.
#[test]
fn a_source_that_is_complete_twice_takes_nothing_away() {
    insta::assert_snapshot!(run("
        volume x: own
        pod a wants x
        #1 done
        source s complete
        source s complete
        ? mounted a
    "), @r"
    #1 publish x to a
    mounted a: x=x
    ");
}

/// I-1: a pod that goes is positively known to go, whatever became of its source since.
#[test]
fn a_pod_that_is_gone_is_taken_down_although_its_source_is_lost() {
    insta::assert_snapshot!(run("
        volume x: own
        pod a wants x
        #1 done
        source s lost
        pod a gone
    "), @r"
    #1 publish x to a
    #2 unpublish x from a
    ");
}

/// An older version than the one known is stale, in either direction.
#[test]
fn what_is_older_than_what_is_known_of_a_pod_is_ignored() {
    insta::assert_snapshot!(run("
        volume x: own
        pod a in 5 wants x
        #1 done
        pod a in 4 wants
        pod a gone in 4
        ? mounted a
        ? odd
        pod a gone in 6
    "), @r"
    #1 publish x to a
    mounted a: x=x
    odd: StaleVersion=2
    #2 unpublish x from a
    ");
}

/// A list does not speak of a pod that came after it was made.
#[test]
fn a_complete_list_does_not_judge_a_pod_that_is_newer_than_it() {
    insta::assert_snapshot!(run("
        volume x: own
        pod a in 7 wants x
        #1 done
        source s lost
        source s complete in 5
        ? mounted a
        source s lost
        source s complete in 8
    "), @r"
    #1 publish x to a
    mounted a: x=x
    #2 unpublish x from a
    ");
}

/// C-21, E-148: a look-up that fails is made again by whoever resolves, not by the engine.
#[test]
fn a_volume_that_cannot_be_looked_up_waits_until_it_can() {
    insta::assert_snapshot!(run(r#"
        volume disk: stage
        volume tmp: own
        pod a wants tmp, disk unknown "PVC is not bound"
        ? status a
        ? deadline
        pod a wants tmp, disk
        ? status a
    "#), @r"
    #1 publish tmp to a
    status a: unmounted [disk tmp], unattached [], unprocessed [disk], errors [PVC is not bound]
    deadline: in 150s
    #2 stage disk
    status a: unmounted [disk tmp], unattached [], unprocessed [], errors []
    ");
}

/// C-21, E-148, I-1: what a running pod has stays while it is not known what it should have.
#[test]
fn a_volume_stays_while_one_of_its_pods_volumes_cannot_be_looked_up() {
    insta::assert_snapshot!(run(r#"
        volume x: own
        volume y: own
        pod a wants one=x, two=y
        #1 done
        #2 done
        pod a wants one=x, three unknown "the server is away"
        ? state y
        pod a wants one=x
        ? state x
    "#), @r"
    #1 publish x to a
    #2 publish y to a
    state y: attach Absent, stage Absent, a Held
    #3 unpublish y from a
    state x: attach Absent, stage Absent, a Held
    ");
}

/// E-147, E-165, I-1: in the kubelet a volume that no longer makes sense stays while its pod runs; so it does here.
#[test]
fn a_volume_that_no_longer_makes_sense_stays_in_the_pod_that_has_it() {
    insta::assert_snapshot!(run(r#"
        volume x: own
        pod a wants x
        #1 done
        pod a wants x invalid "x has volumeMode Block, but is specified in volumeMounts"
        ? state x
        pod a gone
    "#), @r"
    #1 publish x to a
    state x: attach Absent, stage Absent, a Held
    #2 unpublish x from a
    ");
}

/// E-165: a pod that is over wants nothing, whatever could not be looked up.
#[test]
fn a_pod_that_is_over_gives_back_its_volumes_whatever_is_not_known_of_them() {
    insta::assert_snapshot!(run(r#"
        volume x: own
        volume y: own
        pod a wants x
        pod b wants y
        #1 done
        #2 done
        pod a wants x unknown "the server is away"
        pod b wants y unknown "the server is away"
        pod a finished
        pod b gone
    "#), @r"
    #1 publish x to a
    #2 publish y to b
    #3 unpublish x from a
    #4 unpublish y from b
    ");
}

/// Late news of a pod that is on its way out.
#[test]
fn a_pod_that_is_gone_does_not_come_back_by_old_news() {
    insta::assert_snapshot!(run("
        volume x: own
        pod a in 5 wants x
        #1 done
        pod a gone in 6
        pod a in 5 wants x
        #2 done
        ? odd
    "), @r"
    #1 publish x to a
    #2 unpublish x from a
    pod a released
    odd: StaleVersion=1
    ");
}

/// E-1: the pod of another source under the same uid, once the first has let go.
#[test]
fn a_pod_may_move_to_another_source() {
    insta::assert_snapshot!(run("
        volume x: own
        pod a of t wants x
        #1 done
        pod a gone but may run
        pod a of s wants x
        ? mounted a
        source s complete
        ? mounted a
    "), @r"
    #1 publish x to a
    mounted a: x=x
    mounted a: x=x
    ");
}
