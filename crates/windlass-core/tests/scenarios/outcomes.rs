//! How operations end, and what each end means (E-§3.4): done, refused or unknown, for a pod that stays and one that went.
//!
//! Here, unlike in the kubelet, a refusal says only that *this* call left nothing behind: doubt from before it stays until
//! the step is held or undone (I-10).

use crate::language::run;

/// E-126, with the pod still there.
#[test]
fn a_first_stage_is_held_absent_or_uncertain_by_how_it_ended() {
    insta::assert_snapshot!(run("
        volume x: stage
        volume y: stage
        volume z: stage
        pod a wants x, y, z
        #1 done
        #2 refused
        #3 lost
        ? state x
        ? state y
        ? state z
        after 500ms
    "), @r"
    #1 stage x
    #2 stage y
    #3 stage z
    #4 publish x to a
    state x: attach Absent, stage Held, a Doing
    state y: attach Absent, stage Absent, a Absent
    state z: attach Absent, stage Uncertain(Unanswered), a Absent
    #5 stage y, try 2
    #6 stage z again, try 2
    ");
}

/// E-126, C-31, with the pod gone meanwhile: what may be there is undone, once.
#[test]
fn a_stage_whose_pod_went_is_undone_unless_it_was_refused() {
    insta::assert_snapshot!(run("
        volume x: stage
        volume y: stage
        volume z: stage
        pod a wants x, y, z
        pod a gone
        #1 done
        #2 refused
        #3 lost
        ? state y
        #4 done
        #5 done
        ? state x
        ? state z
    "), @r"
    #1 stage x
    #2 stage y
    #3 stage z
    pod a released
    #4 unstage x
    #5 unstage z
    state y: not here
    state x: not here
    state z: not here
    ");
}

/// C-31: a final failure leaves nothing, so nothing is undone.
#[test]
fn a_volume_whose_stage_was_refused_is_just_forgotten() {
    insta::assert_snapshot!(run("
        volume disk: stage
        pod a wants disk
        #1 refused
        pod a gone
        ? state disk
        ? deadline
    "), @r"
    #1 stage disk
    pod a released
    state disk: not here
    deadline: none
    ");
}

/// C-31: time-out, then the pod goes: one unstage.
#[test]
fn a_volume_whose_stage_was_lost_is_unstaged_at_once_when_its_pod_goes() {
    insta::assert_snapshot!(run("
        volume disk: stage
        pod a wants disk
        #1 lost
        pod a gone
        #2 done
        ? state disk
    "), @r"
    #1 stage disk
    #2 unstage disk
    pod a released
    state disk: not here
    ");
}

/// E-127, C-31: time-out then final. The kubelet forgets the time-out here and leaks what it left; we undo it (I-10).
#[test]
fn a_stage_that_was_lost_and_then_refused_is_still_undone() {
    insta::assert_snapshot!(run("
        volume disk: stage
        pod a wants disk
        #1 lost
        after 500ms
        #2 refused
        ? state disk
        pod a gone
        #3 done
        ? state disk
    "), @r"
    #1 stage disk
    #2 stage disk again, try 2
    state disk: attach Absent, stage Uncertain(Unanswered), a Absent
    #3 unstage disk
    pod a released
    state disk: not here
    ");
}

/// E-127.
#[test]
fn a_stage_that_was_lost_is_certain_once_it_succeeds() {
    insta::assert_snapshot!(run("
        volume disk: stage
        pod a wants disk
        #1 lost
        after 500ms
        #2 lost
        after 1s
        #3 done
        ? state disk
    "), @r"
    #1 stage disk
    #2 stage disk again, try 2
    #3 stage disk again, try 3
    #4 publish disk to a
    state disk: attach Absent, stage Held, a Doing
    ");
}

/// E-128, E-131, C-31: success, then a failing remount: still staged and published, undone once each.
#[test]
fn a_volume_whose_refresh_fails_is_still_staged_and_published() {
    insta::assert_snapshot!(run("
        volume disk: stage refresh revision=1
        pod a wants disk
        #1 done
        #2 done
        volume disk: stage refresh revision=2
        pod a wants disk
        #3 refused
        ? state disk
        ? mounted a
        pod a gone
        #4 done
        #5 done
        ? state disk
    "), @r"
    #1 stage disk
    #2 publish disk to a
    #3 publish disk to a refreshing
    state disk: attach Absent, stage Held, a Held
    mounted a: disk=disk
    #4 unpublish disk from a
    #5 unstage disk
    pod a released
    state disk: not here
    ");
}

/// E-129, with the pod still there.
#[test]
fn a_first_publish_is_held_absent_or_uncertain_by_how_it_ended() {
    insta::assert_snapshot!(run("
        volume x: own
        volume y: own
        volume z: own
        pod a wants x, y, z
        #1 done
        #2 refused
        #3 lost
        ? mounted a
        ? state y
        ? state z
        after 500ms
    "), @r"
    #1 publish x to a
    #2 publish y to a
    #3 publish z to a
    mounted a: x=x
    state y: attach Absent, stage Absent, a Absent
    state z: attach Absent, stage Absent, a Uncertain(Unanswered)
    #4 publish y to a, try 2
    #5 publish z to a again, try 2
    ");
}

/// E-129, C-32, with the pod gone meanwhile.
#[test]
fn a_publish_whose_pod_went_is_undone_unless_it_was_refused() {
    insta::assert_snapshot!(run("
        volume x: own
        volume y: own
        volume z: own
        pod a wants x, y, z
        pod a gone
        #1 done
        #2 refused
        #3 lost
        ? state y
        #4 done
        #5 done
    "), @r"
    #1 publish x to a
    #2 publish y to a
    #3 publish z to a
    #4 unpublish x from a
    #5 unpublish z from a
    state y: not here
    pod a released
    ");
}

/// C-32: a final set-up failure: no unpublish, but the stage is undone.
#[test]
fn a_volume_whose_publish_was_refused_is_only_unstaged() {
    insta::assert_snapshot!(run("
        volume disk: stage
        pod a wants disk
        #1 done
        #2 refused
        pod a gone
        #3 done
        ? state disk
    "), @r"
    #1 stage disk
    #2 publish disk to a
    #3 unstage disk
    pod a released
    state disk: not here
    ");
}

/// C-17, C-32, E-118: uncertain is not mounted, is possibly mounted, and is torn down.
#[test]
fn a_volume_whose_publish_was_lost_is_not_handed_out_but_unpublished() {
    insta::assert_snapshot!(run("
        volume disk: stage
        pod a wants disk
        #1 done
        #2 lost
        ? mounted a
        ? possibly a
        pod a gone
        #3 done
        #4 done
        ? possibly a
    "), @r"
    #1 stage disk
    #2 publish disk to a
    mounted a:
    possibly a: true
    #3 unpublish disk from a
    #4 unstage disk
    pod a released
    possibly a: false
    ");
}

/// E-130, C-32: time-out then final. The kubelet drops the entry here; we undo it (I-10).
#[test]
fn a_publish_that_was_lost_and_then_refused_is_still_undone() {
    insta::assert_snapshot!(run("
        volume tmp: own
        pod a wants tmp
        #1 lost
        after 500ms
        #2 refused
        ? state tmp
        pod a gone
        #3 done
        ? state tmp
    "), @r"
    #1 publish tmp to a
    #2 publish tmp to a again, try 2
    state tmp: attach Absent, stage Absent, a Uncertain(Unanswered)
    #3 unpublish tmp from a
    pod a released
    state tmp: not here
    ");
}

/// E-131, C-32, E-256: whatever becomes of a refresh, the pod keeps what it has, and the refresh is tried again.
#[test]
fn a_refresh_that_fails_in_whatever_way_leaves_the_pod_what_it_had() {
    insta::assert_snapshot!(run("
        volume conf: own refresh revision=1
        pod a wants conf
        #1 done
        volume conf: own refresh revision=2
        pod a wants conf
        #2 refused
        ? mounted a
        after 500ms
        #3 lost
        ? mounted a
        ? state conf
        after 1s
        #4 done
        ? deadline
    "), @r"
    #1 publish conf to a
    #2 publish conf to a refreshing
    mounted a: conf=conf
    #3 publish conf to a refreshing, try 2
    mounted a: conf=conf
    state conf: attach Absent, stage Absent, a Held
    #4 publish conf to a refreshing, try 3
    deadline: none
    ");
}

/// E-131, with the pod gone meanwhile: the mount was there before the refresh, so it is undone however that ended.
#[test]
fn a_refresh_whose_pod_went_is_always_followed_by_an_unpublish() {
    insta::assert_snapshot!(run("
        volume x: own refresh revision=1
        volume y: own refresh revision=1
        volume z: own refresh revision=1
        pod a wants x, y, z
        #1 done
        #2 done
        #3 done
        volume x: own refresh revision=2
        volume y: own refresh revision=2
        volume z: own refresh revision=2
        pod a wants x, y, z
        pod a gone
        #4 done
        #5 refused
        #6 lost
    "), @r"
    #1 publish x to a
    #2 publish y to a
    #3 publish z to a
    #4 publish x to a refreshing
    #5 publish y to a refreshing
    #6 publish z to a refreshing
    #7 unpublish x from a
    #8 unpublish y from a
    #9 unpublish z from a
    ");
}

/// E-133: a tear-down that fails leaves the mount uncertain, in whatever way it failed, and blocks what follows.
#[test]
fn an_unpublish_that_fails_is_tried_again_before_the_volume_is_unstaged() {
    insta::assert_snapshot!(run("
        volume disk: stage
        pod a wants disk
        #1 done
        #2 done
        pod a gone
        #3 refused
        ? state disk
        after 500ms
        #4 lost
        after 1s
        #5 done
        #6 done
        ? state disk
    "), @r"
    #1 stage disk
    #2 publish disk to a
    #3 unpublish disk from a
    state disk: attach Absent, stage Held, a Uncertain(HalfGone)
    #4 unpublish disk from a, try 2
    #5 unpublish disk from a, try 3
    #6 unstage disk
    pod a released
    state disk: not here
    ");
}

/// E-133, E-327: what is half gone is published again, at once, for a pod that comes back.
#[test]
fn a_pod_that_comes_back_after_a_failed_unpublish_gets_its_volume_made_whole() {
    insta::assert_snapshot!(run("
        volume disk: stage
        pod a wants disk
        #1 done
        #2 done
        pod a gone
        #3 refused
        pod a wants disk
        ? mounted a
        #4 done
        ? mounted a
    "), @r"
    #1 stage disk
    #2 publish disk to a
    #3 unpublish disk from a
    #4 publish disk to a again
    mounted a:
    mounted a: disk=disk
    ");
}

/// E-134, E-264, E-265: a failed unstage leaves doubt; the next pod stages again before it gets anything.
#[test]
fn an_unstage_that_fails_is_tried_again_or_made_good_for_the_next_pod() {
    insta::assert_snapshot!(run("
        volume disk: stage
        pod a wants disk
        #1 done
        #2 done
        pod a gone
        #3 done
        #4 refused
        ? state disk
        after 500ms
        #5 lost
        pod b wants disk
        #6 done
        ? state disk
    "), @r"
    #1 stage disk
    #2 publish disk to a
    #3 unpublish disk from a
    #4 unstage disk
    pod a released
    state disk: attach Absent, stage Uncertain(HalfGone)
    #5 unstage disk, try 2
    #6 stage disk again
    #7 publish disk to b
    state disk: attach Absent, stage Held, b Doing
    ");
}

/// E-247, E-248: attach by this node is a step like the others.
#[test]
fn an_attach_that_was_lost_is_detached_and_one_that_was_refused_is_not() {
    insta::assert_snapshot!(run("
        volume x: attach=node
        volume y: attach=node
        pod a wants x, y
        #1 lost
        #2 refused
        ? in use
        pod a gone
        #3 refused
        after 500ms
        #4 lost
        after 1s
        #5 done
        ? state x
    "), @r"
    #1 attach x
    #2 attach y
    in use [x y]
    in use: x y
    #3 detach x
    pod a released
    in use [x]
    #4 detach x, try 2
    #5 detach x, try 3
    in use []
    state x: not here
    ");
}

/// I-6, E-331: late is not never, and a panic of whoever runs the operation is an unknown end.
#[test]
fn a_result_that_comes_after_its_time_is_used() {
    insta::assert_snapshot!(run("
        volume disk: stage patience=1m
        pod a wants disk
        after 1m
        ? why disk
        ? deadline
        after 60m
        #1 done
        #2 done
        ? mounted a
    "), @r"
    #1 stage disk
    why disk: Hung (stage #1 has not answered in its time)
    deadline: none
    #2 publish disk to a
    mounted a: disk=disk
    ");
}

/// E-247, E-191, with the pod gone meanwhile.
#[test]
fn an_attach_whose_pod_went_is_undone_unless_it_was_refused() {
    insta::assert_snapshot!(run("
        volume x: attach=node stage
        volume y: attach=node stage
        volume z: attach=node stage
        pod a wants x, y, z
        pod a gone
        #1 done
        #2 refused
        #3 lost
        ? in use
    "), @r"
    #1 attach x
    #2 attach y
    #3 attach z
    in use [x y z]
    pod a released
    #4 detach x
    in use [x z]
    #5 detach z
    in use: x z
    ");
}
