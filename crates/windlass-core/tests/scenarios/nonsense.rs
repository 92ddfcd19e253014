//! Facts that make no sense: each is counted and explained, none loses anything. One test for each kind of oddity.

use crate::language::run;

#[test]
fn the_end_of_an_operation_that_does_not_run_is_ignored() {
    insta::assert_snapshot!(run("
        volume tmp: own
        pod a wants tmp
        #7 done
        #1 done
        #1 refused
        ? mounted a
        ? odd
        ? odd in words
    "), @r"
    #1 publish tmp to a
    mounted a: tmp=tmp
    odd: UnknownOperation=2
    odd in words:
    UnknownOperation: operation #7 ended but does not run
    UnknownOperation: operation #1 ended but does not run
    ");
}

/// I-10: an answer that does not fit its question says nothing, so it is doubt.
#[test]
fn an_answer_that_does_not_fit_its_question_is_doubt() {
    insta::assert_snapshot!(run("
        volume w: attach=node
        volume x: stage
        volume y: own
        pod a wants w, x, y
        #1 gone
        #2 attached
        #3 grown to 5
        ? state w
        ? state x
        ? state y
        ? odd
        pod a gone
    "), @r"
    #1 attach w
    #2 stage x
    #3 publish y to a
    in use [w]
    state w: attach Uncertain(Unanswered), stage Absent, a Absent
    state x: attach Absent, stage Uncertain(Unanswered), a Absent
    state y: attach Absent, stage Absent, a Uncertain(Unanswered)
    odd: OutcomeMismatch=3
    #4 detach w
    #5 unstage x
    #6 unpublish y from a
    ");
}

/// E-133: the same on the way down.
#[test]
fn an_answer_that_does_not_fit_an_unpublish_is_doubt_too() {
    insta::assert_snapshot!(run("
        volume tmp: own
        pod a wants tmp
        #1 done
        pod a gone
        #2 grown to 5
        ? state tmp
        ? odd in words
        after 500ms
    "), @r"
    #1 publish tmp to a
    #2 unpublish tmp from a
    state tmp: attach Absent, stage Absent, a Uncertain(HalfGone)
    odd in words:
    OutcomeMismatch: unpublish #2 was answered with Expanded { size_bytes: 5 }
    #3 unpublish tmp from a, try 2
    ");
}

/// E-131: the pod keeps what it had.
#[test]
fn an_answer_that_does_not_fit_a_refresh_or_an_expansion_changes_nothing() {
    insta::assert_snapshot!(run("
        volume conf: own refresh revision=1
        volume disk: expand size=10/10
        pod a wants conf, disk
        #1 done
        #2 done
        volume conf: own refresh revision=2
        volume disk: expand size=10/20
        pod a wants conf, disk
        #3 gone
        #4 gone
        ? mounted a
        ? size disk
        ? odd
        after 500ms
    "), @r"
    #1 publish conf to a
    #2 publish disk to a
    #3 publish conf to a refreshing
    #4 expand disk from 10 to 20
    mounted a: conf=conf disk=disk
    size disk: 10
    odd: OutcomeMismatch=2
    #5 publish conf to a refreshing, try 2
    #6 expand disk from 10 to 20, try 2
    ");
}

#[test]
fn a_pod_without_a_uid_is_ignored() {
    insta::assert_snapshot!(run("
        volume tmp: own
        pod _ wants tmp
        pod _ gone
        pod _ gone but may run
        found pod _
        found tmp in _ proven
        found unreadable tmp in _
        ? state tmp
        ? odd
    "), @r"
    state tmp: not here
    odd: EmptyName=4 UnknownPod=2
    ");
}

#[test]
fn a_volume_without_a_name_or_an_identity_is_an_error_of_its_pod() {
    insta::assert_snapshot!(run("
        volume tmp: own
        volume nameless: own name=
        volume identityless: own id=
        pod a wants tmp, nameless, identityless, =tmp
        #1 done
        ? mounted a
        wait 1 for a mounted, 2m
        found stage of identityless proven
        ? odd
    "), @r#"
    #1 publish tmp to a
    mounted a: tmp=tmp
    wait 1 failed: unmounted volumes=[ identityless nameless], unattached volumes=[], failed to process volumes=[ identityless nameless]: volume "" of pod default/a has an empty name or identity; volume "identityless" of pod default/a has an empty name or identity; volume "nameless" of pod default/a has an empty name or identity
    odd: EmptyName=4
    "#);
}

#[test]
fn a_driver_or_an_attachment_without_a_name_is_ignored() {
    insta::assert_snapshot!(run("
        driver _ registered
        driver _ unregistered
        attached _
        ? odd in words
    "), @r#"
    odd in words:
    EmptyName: a driver without a name, registered: true
    EmptyName: a driver without a name, registered: false
    EmptyName: an attachment of a volume without a name: Attached { device: Some("/dev/x") }
    "#);
}

#[test]
fn of_two_volumes_with_one_name_the_first_counts() {
    insta::assert_snapshot!(run("
        volume x: own
        volume y: own
        pod a wants data=x, data=y
        #1 done
        ? mounted a
        ? odd in words
    "), @r"
    #1 publish x to a
    mounted a: data=x
    odd in words:
    DuplicateName: pod a has two volumes named data
    ");
}

#[test]
fn a_pod_that_is_told_twice_is_one_pod() {
    insta::assert_snapshot!(run("
        volume tmp: own
        pod a wants tmp
        pod a wants tmp
        #1 done
        pod a wants tmp
        ? mounted a
        ? odd
        pod a gone
        pod a gone
        #2 done
        pod a gone
        ? odd
    "), @r"
    #1 publish tmp to a
    mounted a: tmp=tmp
    odd:
    #2 unpublish tmp from a
    pod a released
    odd: UnknownPod=1
    ");
}

#[test]
fn a_pod_that_another_source_has_given_stays_with_that_source() {
    insta::assert_snapshot!(run("
        volume x: own
        volume y: own
        pod a wants x
        #1 done
        pod a of t wants y
        ? mounted a
        ? odd
    "), @r"
    #1 publish x to a
    mounted a: x=x
    odd: OtherSource=1 UnknownSource=1
    ");
}

/// Its pods are as good as any; but nothing waits for it, and it takes nothing away.
#[test]
fn a_source_that_was_not_announced_is_heard_but_not_obeyed() {
    insta::assert_snapshot!(run("
        volume tmp: own
        pod a of t wants tmp
        #1 done
        source t lost
        source t complete
        ? mounted a
        ? odd in words
        pod a gone
    "), @r"
    #1 publish tmp to a
    mounted a: tmp=tmp
    odd in words:
    UnknownSource: pod default/a comes from source t, which was not announced
    UnknownSource: source t is lost (it failed), but was not announced
    UnknownSource: source t is complete, but was not announced
    #2 unpublish tmp from a
    ");
}

#[test]
fn a_pod_that_nobody_knows_cannot_go() {
    insta::assert_snapshot!(run("
        pod a gone
        ? odd in words
    "), @r"
    odd in words:
    UnknownPod: pod a is gone, but was not known
    ");
}

/// E-64: and gets it when the first has gone and it asks again.
#[test]
fn a_volume_that_is_one_pods_own_is_not_given_to_another() {
    insta::assert_snapshot!(run("
        volume tmp: own
        pod a wants tmp
        #1 done
        pod b wants tmp
        ? status b
        ? odd
        ? mounted a
        pod a gone
        #2 done
        pod b wants tmp
    "), @r"
    #1 publish tmp to a
    status b: unmounted [tmp], unattached [], unprocessed [tmp], errors [volume tmp belongs to pod default/a alone]
    odd: NotShared=1
    mounted a: tmp=tmp
    #2 unpublish tmp from a
    pod a released
    #3 publish tmp to b
    ");
}

/// E-90: kind and plugin never change while anything of it is here.
#[test]
fn a_volume_does_not_become_another_kind_while_it_is_here() {
    insta::assert_snapshot!(run("
        volume disk: stage
        pod a wants disk
        #1 done
        #2 done
        volume disk: stage plugin=test/other
        pod a wants disk
        ? explain disk in a
        ? mounted a
        ? odd
        pod a gone
        #3 done
        #4 done
        ? state disk
    "), @r"
    #1 stage disk
    #2 publish disk to a
    explain disk in a: IdentityChanged (volume disk of pod default/a should now be a file system of test/other called disk, but the pod has a file system of test/plugin called disk and keeps that)
    mounted a: disk=disk
    odd: SpecChanged=1 IdentityChanged=1
    #3 unpublish disk from a
    #4 unstage disk
    pod a released
    state disk: not here
    ");
}

/// C-30.
#[test]
fn a_device_of_a_plugin_without_devices_is_counted() {
    insta::assert_snapshot!(run("
        volume disk: device
        pod a wants disk
        ? odd
    "), @"odd: NoBlock=1");
}

/// E-119: volumes do not shrink.
#[test]
fn a_volume_that_should_shrink_stays_as_it_is() {
    insta::assert_snapshot!(run("
        volume disk: expand size=20/20
        pod a wants disk
        #1 done
        volume disk: expand size=20/15
        pod a wants disk
        ? mounted a
        ? size disk
        ? odd
    "), @r"
    #1 publish disk to a
    mounted a: disk=disk
    size disk: 20
    odd: SizeShrunk=1
    ");
}

/// E-206: what is found late of a pod that nobody has is taken away like what was found in time.
#[test]
fn what_is_found_late_is_not_forgotten() {
    insta::assert_snapshot!(run("
        volume tmp: own
        found tmp in z proven
        #1 done
        ? odd in words
    "), @r"
    #1 unpublish tmp from z
    pod z released
    odd in words:
    FoundLate: volume tmp
    ");
}

/// I-1: but not while its source may have it.
#[test]
fn what_is_found_late_stays_while_a_source_cannot_be_read() {
    insta::assert_snapshot!(run("
        volume tmp: own
        source s lost
        found tmp in z proven
        ? state tmp
        source s complete
    "), @r"
    state tmp: attach Absent, stage Absent, z Held
    #1 unpublish tmp from z
    ");
}

/// E-198: found late under a pod that has it, it adds nothing but doubt about a first call.
#[test]
fn what_is_found_late_of_a_pod_that_is_known_is_merged() {
    insta::assert_snapshot!(run("
        volume x: own
        volume y: own
        pod a wants x, y
        #1 done
        found x in a intent
        found y in a intent
        #2 refused
        ? mounted a
        pod a gone
    "), @r"
    #1 publish x to a
    #2 publish y to a
    mounted a: x=x
    #3 unpublish x from a
    #4 unpublish y from a
    ");
}

/// I-5: what is not ours is left alone.
#[test]
fn a_mount_at_a_place_that_is_not_ours_is_left_alone() {
    insta::assert_snapshot!(run("
        volume tmp: own
        pod a wants tmp
        #1 done
        mount of other in a replaced
        mount of tmp in b replaced
        mount of other in a vanished
        ? mounted a
        ? odd
    "), @r"
    #1 publish tmp to a
    mounted a: tmp=tmp
    odd: UnknownPlace=2
    ");
}

/// E-41: a report of what was never given out proves nothing.
#[test]
fn a_report_that_was_never_given_out_does_not_count() {
    insta::assert_snapshot!(run("
        volume disk: attach=controller
        attached disk
        reported version 9
        pod a wants disk
        reported version 9
        ? odd
        reported
    "), @r"
    in use [disk]
    odd: UnknownReport=2
    #1 publish disk to a
    ");
}

#[test]
fn somebody_who_waits_twice_or_not_at_all_is_told_once_or_not_at_all() {
    insta::assert_snapshot!(run("
        volume tmp: own
        pod a wants tmp
        wait 1 for a mounted, 2m
        wait 1 for a gone, 1s
        wait 2 cancelled
        after 1s
        #1 done
        ? odd
    "), @r"
    #1 publish tmp to a
    wait 1 ended well
    odd: UnknownWaiter=2
    ");
}

/// Time stands still instead.
#[test]
fn time_that_goes_back_moves_nothing() {
    insta::assert_snapshot!(run("
        volume disk: stage
        pod a wants disk
        after 10s
        #1 refused
        time goes back 5s
        ? deadline
        after 500ms
        ? odd
    "), @r"
    #1 stage disk
    deadline: in 500ms
    #2 stage disk, try 2
    odd: TimeWentBack=1
    ");
}

/// I-8: a period of nothing would keep the engine, and whoever runs its operations, busy for ever.
#[test]
fn a_volume_that_wants_to_be_refreshed_all_the_time_is_refreshed_once_a_second() {
    insta::assert_snapshot!(run("
        volume x: every=0s
        pod a wants x
        #1 done
        ? deadline
        after 1s
        #2 done
        ? deadline
    "), @"
    #1 publish x to a
    deadline: in 1s
    #2 publish x to a refreshing
    deadline: in 1s
    ");
}
