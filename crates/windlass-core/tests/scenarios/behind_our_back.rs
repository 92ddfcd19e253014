//! Mounts that somebody else takes away or puts in place of ours, and drivers that restart (I-4).

use crate::language::run;

/// I-4: what is not there is not handed out, and is made again without the pod being told apart.
#[test]
fn a_mount_that_vanishes_is_made_again() {
    insta::assert_snapshot!(run("
        volume disk: stage
        pod a wants disk
        #1 done
        #2 done
        mount of disk in a vanished
        ? mounted a
        #3 done
        ? mounted a
    "), @r"
    #1 stage disk
    #2 publish disk to a
    #3 publish disk to a again
    mounted a:
    mounted a: disk=disk
    ");
}

/// I-4: another mount at our place is not ours.
#[test]
fn a_mount_that_is_replaced_is_not_handed_out() {
    insta::assert_snapshot!(run("
        volume tmp: own
        pod a wants tmp
        #1 done
        mount of tmp in a replaced
        ? mounted a
        #2 done
        ? mounted a
    "), @r"
    #1 publish tmp to a
    #2 publish tmp to a again
    mounted a:
    mounted a: tmp=tmp
    ");
}

/// The mount table tells of our own mounts too.
#[test]
fn a_mount_that_is_seen_as_it_should_be_changes_nothing() {
    insta::assert_snapshot!(run("
        volume tmp: own
        pod a wants tmp
        #1 done
        mount of tmp in a seen
        mount of tmp in a seen
        ? mounted a
        ? odd
    "), @r"
    #1 publish tmp to a
    mounted a: tmp=tmp
    odd:
    ");
}

/// The pods' mounts are mounts of their own and stay; new pods wait until the volume is whole again.
#[test]
fn a_stage_that_vanishes_is_made_again_under_the_pods_that_have_it() {
    insta::assert_snapshot!(run("
        volume disk: stage
        pod a wants disk
        #1 done
        #2 done
        stage of disk vanished
        ? mounted a
        pod b wants disk
        ? explain disk in b
        #3 done
        #4 done
        ? mounted b
    "), @r"
    #1 stage disk
    #2 publish disk to a
    #3 stage disk again
    mounted a: disk=disk
    explain disk in b: NotStaged (The pod's mount waits until the volume is ready on this node.) <- Staging (stage #3 is running) <- MountVanished (The mount was taken away by somebody else.)
    #4 publish disk to b
    mounted b: disk=disk
    ");
}

/// I-10: vanished is doubt, not absence: there may be directories, records and devices to undo.
#[test]
fn a_mount_that_vanished_is_still_undone() {
    insta::assert_snapshot!(run("
        volume x: stage
        pod a wants x
        #1 done
        #2 done
        mount of x in a vanished
        stage of x vanished
        #3 refused
        #4 refused
        pod a gone
        #5 done
        #6 done
        ? state x
    "), @r"
    #1 stage x
    #2 publish x to a
    #3 publish x to a again
    #4 stage x again
    #5 unpublish x from a
    #6 unstage x
    pod a released
    state x: not here
    ");
}

/// What vanishes while it is taken away, or while it comes, is told by the operation itself.
#[test]
fn a_mount_that_vanishes_under_an_operation_is_left_to_the_operation() {
    insta::assert_snapshot!(run("
        volume tmp: own
        pod a wants tmp
        mount of tmp in a vanished
        #1 done
        ? mounted a
        pod a gone
        mount of tmp in a vanished
        #2 done
    "), @r"
    #1 publish tmp to a
    mounted a: tmp=tmp
    #2 unpublish tmp from a
    pod a released
    ");
}

/// E-131 says that a failed refresh leaves what was there; but what was there is not there any more (I-4).
#[test]
fn a_mount_that_vanishes_during_a_refresh_that_fails_is_made_again() {
    insta::assert_snapshot!(run("
        volume conf: own refresh revision=1
        pod a wants conf
        #1 done
        volume conf: own refresh revision=2
        pod a wants conf
        mount of conf in a vanished
        #2 refused
        ? mounted a
        after 500ms
        #3 done
        ? mounted a
    "), @r"
    #1 publish conf to a
    #2 publish conf to a refreshing
    mounted a:
    #3 publish conf to a again, try 2
    mounted a: conf=conf
    ");
}

/// A refresh may make the mount anew, so what is seen meanwhile is its own doing.
#[test]
fn a_mount_that_is_replaced_by_a_refresh_that_succeeds_is_the_new_one() {
    insta::assert_snapshot!(run("
        volume conf: own refresh revision=1
        pod a wants conf
        #1 done
        volume conf: own refresh revision=2
        pod a wants conf
        mount of conf in a vanished
        mount of conf in a replaced
        #2 done
        mount of conf in a seen
        ? mounted a
    "), @r"
    #1 publish conf to a
    #2 publish conf to a refreshing
    mounted a: conf=conf
    ");
}

/// E-122: a pod whose mount vanished still holds a volume that only one may hold.
#[test]
fn a_volume_for_one_pod_is_not_given_on_because_its_mount_vanished() {
    insta::assert_snapshot!(run("
        volume disk: rwop
        pod a wants disk
        #1 done
        pod b wants disk
        mount of disk in a vanished
        #2 refused
        ? explain disk in b
    "), @r"
    #1 publish disk to a
    #2 publish disk to a again
    explain disk in b: OtherPod (The volume may be in one pod at a time and another pod has it. (pod default/a))
    ");
}

/// E-143: it keeps what it has, so it gets back what it had.
#[test]
fn a_pod_that_is_stopping_gets_back_a_mount_that_vanished() {
    insta::assert_snapshot!(run("
        volume tmp: own
        pod a wants tmp
        #1 done
        pod a stopping
        mount of tmp in a vanished
        #2 done
        ? mounted a
    "), @r"
    #1 publish tmp to a
    #2 publish tmp to a again
    mounted a: tmp=tmp
    ");
}

/// E-355, E-358: a driver that restarts unregisters and registers; what it mounted stays.
#[test]
fn a_driver_that_restarts_changes_nothing_for_what_is_mounted() {
    insta::assert_snapshot!(run("
        volume disk: stage driver=ebs
        driver ebs registered
        pod a wants disk
        #1 done
        #2 done
        driver ebs unregistered
        driver ebs registered
        driver ebs registered
        ? mounted a
    "), @r"
    #1 stage disk
    #2 publish disk to a
    mounted a: disk=disk
    ");
}

/// Csi §10 (7), last row: a driver that goes during a call. Its answer still counts; the rest waits.
#[test]
fn a_driver_that_goes_during_a_call_does_not_make_its_answer_worthless() {
    insta::assert_snapshot!(run("
        volume disk: stage driver=ebs
        driver ebs registered
        pod a wants disk
        driver ebs unregistered
        #1 done
        ? explain disk in a
        driver ebs registered
    "), @r"
    #1 stage disk
    explain disk in a: DriverMissing (driver ebs is not registered on this node)
    #2 publish disk to a
    ");
}
