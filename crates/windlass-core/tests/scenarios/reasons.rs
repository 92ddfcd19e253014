//! Why a volume is not settled (I-7): for each code the text, since when, what was tried, when next, and what it waits for.

use crate::language::{run, run_telling_changes, start};
use windlass_core::operation::Obstacle;

/// The codes of operations that run, and of waiting for one's own volume.
#[test]
fn every_step_says_what_runs() {
    insta::assert_snapshot!(run("
        volume disk: attach=node stage
        pod a wants disk
        after 1s
        ? reasons of disk
        ? reasons of disk in a
        #1 done
        after 1s
        ? reasons of disk in a
        #2 done
        after 1s
        ? reasons of disk in a
        #3 done
        ? reasons of disk in a
        ? reasons of disk
        pod a gone
        after 1s
        ? reasons of mounts of disk
        #4 done
        ? reasons of disk
        #5 done
        ? reasons of disk
    "), @r"
    #1 attach disk
    in use [disk]
    reasons of disk:
    - Attaching: attach #1 is running; for 1s; waits on operation #1
    reasons of disk in a:
    - NotAttached: The pod's mount waits until the volume is attached.; for 1s
    - Attaching: attach #1 is running; for 1s; waits on operation #1
    #2 stage disk
    reasons of disk in a:
    - NotStaged: The pod's mount waits until the volume is ready on this node.; for 1s
    - Staging: stage #2 is running; for 1s; waits on operation #2
    #3 publish disk to a
    reasons of disk in a:
    - Publishing: publish #3 is running; for 1s; waits on operation #3
    reasons of disk in a: settled
    reasons of disk: settled
    #4 unpublish disk from a
    reasons of mounts of disk:
    a:
    - Unpublishing: unpublish #4 is running; for 1s; waits on operation #4
    #5 unstage disk
    pod a released
    reasons of disk:
    - Unstaging: unstage #5 is running; for 0s; waits on operation #5
    #6 detach disk
    reasons of disk:
    - Detaching: detach #6 is running; for 0s; waits on operation #6
    ");
}

/// Refreshing and Expanding: the pod has the volume meanwhile.
#[test]
fn a_volume_that_is_brought_up_to_date_says_so() {
    insta::assert_snapshot!(run("
        volume conf: own refresh revision=1
        volume disk: expand size=10/10
        pod a wants conf, disk
        #1 done
        #2 done
        volume conf: own refresh revision=2
        volume disk: expand size=10/20
        pod a wants conf, disk
        ? reasons of conf in a
        ? reasons of disk
        ? reasons of disk in a
    "), @r"
    #1 publish conf to a
    #2 publish disk to a
    #3 publish conf to a refreshing
    #4 expand disk from 10 to 20
    reasons of conf in a:
    - Refreshing: publish #3 is running; for 0s; waits on operation #3
    reasons of disk:
    - Expanding: expand #4 is running; for 0s; waits on operation #4
    reasons of disk in a: settled
    ");
}

/// BackingOff, Uncertain, Failed: what was tried, how often, when next, and what doubt is left.
#[test]
fn a_failure_says_what_failed_and_when_it_is_tried_again() {
    insta::assert_snapshot!(run(r#"
        volume tmp: own
        pod a wants tmp
        #1 refused "no such device"
        after 200ms
        ? reasons of tmp in a
        after 300ms
        #2 lost "no answer"
        after 1ms
        ? reasons of tmp in a
        after 999ms
        ? reasons of tmp in a
    "#), @"
    #1 publish tmp to a
    reasons of tmp in a:
    - BackingOff: publish failed; for 200ms; failures 1; next in 300ms; waits on time
    - Failed: no such device; for 200ms; failures 1
    #2 publish tmp to a, try 2
    reasons of tmp in a:
    - BackingOff: publish failed 2 times in a row; for 501ms; failures 2; next in 999ms; waits on time
    - Uncertain: an earlier publish ended without a clear answer; for 1ms
    - Failed: no answer; for 501ms; failures 2
    #3 publish tmp to a again, try 3
    reasons of tmp in a:
    - Publishing: publish #3 is running; for 0s; failures 2; waits on operation #3
    - Uncertain: an earlier publish ended without a clear answer; for 0s
    - Failed: no answer; for 1.5s; failures 2
    ");
}

/// NoSpace and the other codes of what can be in the way on the node, in place of Failed.
#[test]
fn trouble_on_the_node_is_explained_by_its_own_code() {
    insta::assert_snapshot!(run(r#"
        volume disk: stage
        pod a wants disk
        #1 refused as NoSpace "write /var/lib/w/disk: no space left on device"
        after 200ms
        ? reasons of disk
        after 300ms
        ? explain disk in a
        #2 lost as FileSystemBroken "read /var/lib/w/disk: input/output error"
        ? reasons of disk
        ? explain disk in a
        after 1s
        #3 done
        ? reasons of disk
    "#), @"
    #1 stage disk
    reasons of disk:
    - BackingOff: stage failed; for 200ms; failures 1; next in 300ms; waits on time
    - NoSpace: write /var/lib/w/disk: no space left on device; for 200ms; failures 1
    #2 stage disk, try 2
    explain disk in a: NotStaged (The pod's mount waits until the volume is ready on this node.) <- Staging (stage #2 is running) <- NoSpace (write /var/lib/w/disk: no space left on device)
    reasons of disk:
    - BackingOff: stage failed 2 times in a row; for 500ms; failures 2; next in 1s; waits on time
    - Uncertain: an earlier stage ended without a clear answer; for 0s
    - FileSystemBroken: read /var/lib/w/disk: input/output error; for 500ms; failures 2
    explain disk in a: NotStaged (The pod's mount waits until the volume is ready on this node.) <- BackingOff (stage failed 2 times in a row) <- Uncertain (an earlier stage ended without a clear answer) <- FileSystemBroken (read /var/lib/w/disk: input/output error)
    #3 stage disk again, try 3
    #4 publish disk to a
    reasons of disk: settled
    ");
}

/// All of them: each has the chain BackingOff, its own code, and the message; nothing else is waited for.
#[test]
fn every_obstacle_is_explained_by_the_code_of_its_name() {
    for obstacle in Obstacle::ALL {
        let code = obstacle.code();
        assert_eq!(format!("{obstacle:?}"), code.as_str());
        let trace = run(&format!(
            "
            volume tmp: own
            pod a wants tmp
            #1 refused as {code} \"this is why\"
            ? reasons of tmp in a
            "
        ));
        let told = format!("\n- {code}: this is why; for 0s; failures 1\n");
        assert!(trace.ends_with(&told), "{trace}");
        assert!(trace.contains("- BackingOff: publish failed; "), "{trace}");
    }
}

/// What is in the way is for people to know: the engine does the same, at the same times, whatever it is.
#[test]
fn an_obstacle_changes_nothing_but_the_explanation() {
    let trace = |cause: &str| {
        run(&format!(
            "
            volume disk: attach=node stage expand size=10/20
            pod a wants disk
            #1 lost{cause}
            after 500ms
            #2 done
            #3 refused{cause}
            after 500ms
            #4 lost{cause}
            after 1s
            #5 done
            #6 refused{cause}
            ? deadline
            after 500ms
            #7 done
            #8 refused{cause}
            ? status a
            after 500ms
            #9 done
            pod a gone
            #10 refused{cause}
            ? state disk
            after 500ms
            #11 done
            #12 lost{cause}
            ? deadline
            after 500ms
            #13 done
            #14 refused{cause}
            after 500ms
            #15 done
            ? state disk
            "
        ))
    };
    let other = trace("");
    assert!(other.ends_with("state disk: not here\n"), "{other}");
    for obstacle in Obstacle::ALL {
        assert_eq!(trace(&format!(" as {}", obstacle.code())), other, "{obstacle:?}");
    }
}

/// A retry that runs still tells what the last one said.
#[test]
fn a_retry_that_runs_tells_of_the_failure_before_it() {
    insta::assert_snapshot!(run(r#"
        volume disk: stage
        pod a wants disk
        #1 refused "no such device"
        after 500ms
        ? explain disk in a
    "#), @r"
    #1 stage disk
    #2 stage disk, try 2
    explain disk in a: NotStaged (The pod's mount waits until the volume is ready on this node.) <- Staging (stage #2 is running) <- Failed (no such device)
    ");
}

/// Hung: since the operation began.
#[test]
fn an_operation_that_hangs_says_for_how_long() {
    insta::assert_snapshot!(run("
        volume disk: stage patience=1m
        pod a wants disk
        after 1m
        after 1m
        ? reasons of disk in a
    "), @r"
    #1 stage disk
    reasons of disk in a:
    - NotStaged: The pod's mount waits until the volume is ready on this node.; for 120s
    - Hung: stage #1 has not answered in its time; for 120s; waits on operation #1
    ");
}

/// VolumeBusy.
#[test]
fn a_pod_that_waits_for_another_pods_operation_says_for_which() {
    insta::assert_snapshot!(run("
        volume disk:
        pod a wants disk
        after 1s
        pod b wants disk
        after 1s
        ? reasons of disk in b
    "), @r"
    #1 publish disk to a
    reasons of disk in b:
    - VolumeBusy: publish #1 of the same volume is running; for 1s; waits on operation #1
    - Publishing: publish #1 is running; for 2s; waits on operation #1
    ");
}

/// DriverMissing, ObjectMissing: and who can help.
#[test]
fn a_volume_for_want_of_something_names_it() {
    insta::assert_snapshot!(run(r#"
        volume x: own driver=ebs
        volume y: own
        volume z: stage driver=nfs
        driver nfs registered
        pod a wants x, y, z
        #1 refused for want of Secret/s "secret s not found"
        #2 refused without driver "no client for nfs"
        ? reasons of x in a
        ? reasons of y in a
        ? reasons of z
    "#), @"
    #1 publish y to a
    #2 stage z
    reasons of x in a:
    - DriverMissing: driver ebs is not registered on this node; for 0s; waits on driver ebs
    reasons of y in a:
    - BackingOff: publish failed; for 0s; failures 1; next in 500ms; waits on time
    - ObjectMissing: secret s not found; for 0s; failures 1; waits on object Secret/s
    reasons of z:
    - BackingOff: stage failed; for 0s; failures 1; next in 500ms; waits on time
    - DriverUnreachable: no client for nfs; for 0s; failures 1; waits on time
    ");
}

/// NotReported, WaitingForAttacher, AttachFailed, AttachLimit, AttachmentLost.
#[test]
fn a_volume_that_is_not_attached_says_whose_turn_it_is() {
    insta::assert_snapshot!(run(r#"
        volume disk: attach=controller
        pod a wants disk
        attached disk
        ? reasons of disk in a
        detached disk
        reported
        ? reasons of disk in a
        attach of disk failed "on another node"
        ? reasons of disk
        attach of disk failed exhausted "too many volumes"
        ? reasons of disk
        attached disk
        #1 done
        detached disk
        ? reasons of disk
        ? reasons of disk in a
    "#), @r"
    in use [disk]
    reasons of disk in a:
    - NotAttached: The pod's mount waits until the volume is attached.; for 0s
    - NotReported: The volume is not yet reported as in use, so its attachment cannot be relied on.; for 0s; waits on the report
    reasons of disk in a:
    - NotAttached: The pod's mount waits until the volume is attached.; for 0s
    - WaitingForAttacher: The attacher has not attached the volume to this node.; for 0s; waits on the attacher
    reasons of disk:
    - WaitingForAttacher: The attacher has not attached the volume to this node.; for 0s; waits on the attacher
    - AttachFailed: on another node; for 0s; waits on the attacher
    reasons of disk:
    - WaitingForAttacher: The attacher has not attached the volume to this node.; for 0s; waits on the attacher
    - AttachLimit: too many volumes; for 0s; waits on the attacher
    #1 publish disk to a
    reasons of disk:
    - AttachmentLost: The attacher says that the volume is detached although it is in use here.; for 0s; waits on the attacher
    reasons of disk in a: settled
    ");
}

/// OtherPod, LabelConflict: the pod that came first. LabelMismatch: what is left of it.
#[test]
fn a_pod_that_another_one_keeps_from_its_volume_names_it() {
    insta::assert_snapshot!(run("
        volume x: rwop
        volume y: label=l1
        pod a wants x, y
        #1 done
        #2 done
        volume y: label=l2
        pod b wants x, y
        ? reasons of x in b
        ? reasons of y in b
        pod a gone
        ? reasons of y in b
    "), @r"
    #1 publish x to a
    #2 publish y to a with label l1
    reasons of x in b:
    - OtherPod: The volume may be in one pod at a time and another pod has it. (pod default/a); for 0s; waits on pod a
    reasons of y in b:
    - LabelConflict: Pods that use the volume at the same time ask for different SELinux labels. (pod default/a); for 0s; waits on pod a
    #3 unpublish x from a
    #4 unpublish y from a
    reasons of y in b:
    - LabelMismatch: The volume is still mounted with another SELinux label.; for 0s
    ");
}

/// IdentityChanged, for the new volume and for the old.
#[test]
fn a_pod_with_two_volumes_at_one_place_says_so_of_both() {
    insta::assert_snapshot!(run("
        volume old: own name=data
        volume new: own name=data
        pod a wants one=old
        #1 done
        pod a wants two=new
        ? reasons of two in a
        ? reasons of mounts of old
        ? status a
        ? mounted a
    "), @r"
    #1 publish old to a
    reasons of two in a:
    - IdentityChanged: the pod has volume old at this place, which stays while the pod is here; for 0s; waits on volume old
    reasons of mounts of old:
    a:
    - IdentityChanged: The pod has another volume at this place, which stays while the pod is here.; for 0s
    status a: unmounted [two], unattached [], unprocessed [two], errors [pod default/a already has another volume at the place of volume new]
    mounted a:
    ");
}

/// LookupFailed, Invalid: of names that are no volume yet, and of what stays because of them.
#[test]
fn a_volume_that_could_not_be_looked_up_says_why() {
    insta::assert_snapshot!(run(r#"
        volume tmp: own
        pod a wants tmp
        #1 done
        after 1s
        pod a wants x unknown for want of PVC/x "PVC x not found", y invalid "y is a block volume"
        after 1s
        pod a wants x unknown for want of PVC/x "PVC x is not bound", y invalid "y is a block volume"
        ? reasons of x in a
        ? reasons of y in a
        ? reasons of mounts of tmp
    "#), @r"
    #1 publish tmp to a
    reasons of x in a:
    - LookupFailed: PVC x is not bound; for 1s; waits on object PVC/x
    reasons of y in a:
    - Invalid: y is a block volume; for 1s
    reasons of mounts of tmp:
    a:
    - LookupFailed: What the volume is could not be found out; what is there stays.; for 1s
    ");
}

/// DiskNotRead, SourceIncomplete and AttachmentsUnknown of a mount are shown in `start.rs`; these are of the volume.
#[test]
fn a_volume_that_must_not_be_taken_away_yet_says_why() {
    insta::assert_snapshot!(start("
        volume disk: stage
        found stage of disk proven
        ? reasons of disk
        disk read
        ? reasons of disk
        source s complete
        ? reasons of disk
    "), @"
    reasons of disk:
    - DiskNotRead: What is on this node's disk has not been read to the end, so nothing is taken away, nor given to one pod alone.; for 0s; waits on the disk
    reasons of disk:
    - SourceIncomplete: source s has not told all it has, so nothing is taken away; for 0s; waits on source s
    reasons of disk:
    - AttachmentsUnknown: The attacher has not told what is attached, so nothing is taken away.; for 0s; waits on the attacher
    ");
}

/// MountVanished, MountReplaced, and Uncertain in its three ways, where something keeps it from being made good at once.
#[test]
fn doubt_says_where_it_comes_from() {
    insta::assert_snapshot!(run("
        volume v: own driver=ebs
        volume w: own driver=ebs
        volume x: own driver=ebs
        volume y: stage driver=ebs
        volume z: stage driver=ebs
        driver ebs registered
        pod a wants v, w, x
        pod b wants y
        #1 done
        #2 done
        #3 lost
        #4 done
        #5 done
        pod b gone
        #6 lost
        driver ebs unregistered
        mount of v in a vanished
        mount of w in a replaced
        found stage of z intent
        pod c wants z
        ? explain v in a
        ? explain w in a
        ? explain x in a
        ? reasons of mounts of y
        ? why z
    "), @r"
    #1 publish v to a
    #2 publish w to a
    #3 publish x to a
    #4 stage y
    #5 publish y to b
    #6 unpublish y from b
    explain v in a: DriverMissing (driver ebs is not registered on this node) <- MountVanished (The mount was taken away by somebody else.)
    explain w in a: DriverMissing (driver ebs is not registered on this node) <- MountReplaced (Something else is mounted in the place of the volume.)
    explain x in a: DriverMissing (driver ebs is not registered on this node) <- Uncertain (an earlier publish ended without a clear answer)
    reasons of mounts of y:
    b:
    - DriverMissing: driver ebs is not registered on this node; for 0s; failures 1; waits on driver ebs
    - Uncertain: undoing publish failed, so it may be half gone; for 0s
    why z: DriverMissing (driver ebs is not registered on this node) <- Uncertain (found at start without proof that the stage is whole)
    ");
}

/// I-7: a refusal answers clearly; the doubt is older than it, and is told as what it is.
#[test]
fn doubt_that_outlasts_a_refusal_is_explained_by_its_cause() {
    insta::assert_snapshot!(run(r#"
        volume tmp: own
        pod a wants tmp
        #1 done
        mount of tmp in a vanished
        #2 refused "no such device"
        ? explain tmp in a
    "#), @"
    #1 publish tmp to a
    #2 publish tmp to a again
    explain tmp in a: BackingOff (publish failed) <- MountVanished (The mount was taken away by somebody else.) <- Failed (no such device)
    ");
}

/// ExpansionPending leads to what the volume waits for.
#[test]
fn a_pod_that_waits_for_its_volume_to_grow_says_what_that_waits_for() {
    insta::assert_snapshot!(run("
        volume disk: expand size=10/20 driver=ebs
        driver ebs registered
        pod a wants disk
        driver ebs unregistered
        #1 done
        ? reasons of disk in a
    "), @r"
    #1 publish disk to a
    reasons of disk in a:
    - ExpansionPending: The pod gets the volume once it has grown.; for 0s
    - DriverMissing: driver ebs is not registered on this node; for 0s; waits on driver ebs
    ");
}

/// I-7: also of a pod that has gone, by the name it had.
#[test]
fn a_pod_that_has_gone_can_still_say_why_its_volume_is_here() {
    insta::assert_snapshot!(run(r#"
        volume disk: stage
        pod a wants data=disk
        #1 done
        #2 done
        pod a gone
        #3 refused "target is busy"
        ? explain data in a
    "#), @"
    #1 stage disk
    #2 publish disk to a
    #3 unpublish disk from a
    explain data in a: BackingOff (unpublish failed) <- Uncertain (undoing publish failed, so it may be half gone) <- Failed (target is busy)
    ");
}

/// Mounted and Idle are how settled things stand; each change is told once.
#[test]
fn every_change_is_told_once() {
    insta::assert_snapshot!(run_telling_changes("
        volume disk: stage
        pod a wants disk
        pod a wants disk
        #1 done
        #2 done
        pod a stopping
        pod a finished
        #3 done
        #4 done
    "), @"
    #1 stage disk
    disk is Staging
    disk in a is NotStaged
    #2 publish disk to a
    disk is Mounted
    disk in a is Publishing
    disk in a is Mounted
    #3 unpublish disk from a
    disk is StillInPods
    disk in a is Unpublishing
    #4 unstage disk
    disk is Unstaging
    disk in a is Idle
    disk is Idle
    ");
}

/// I-7, I-1: what has yet to be made has the reason of whoever makes it, and takes nothing away.
#[test]
fn a_volume_that_is_yet_to_be_made_says_what_its_maker_says() {
    insta::assert_snapshot!(run("
        pod a wants disk pending 3 times \"the driver is full\"
        after 1s
        ? reasons of disk in a
        ? status a
        volume disk:
        pod a wants disk
        #1 done
        pod a wants disk pending 1 times \"its volume of before is being deleted\"
        ? mounted a
        ? reasons of disk in a
    "), @r"
    reasons of disk in a:
    - ProvisioningFailed: the driver is full; for 1s; failures 3; next in 7s; waits on time
    status a: unmounted [disk], unattached [], unprocessed [disk], errors [the driver is full]
    #1 publish disk to a
    mounted a: disk=disk
    reasons of disk in a:
    - ProvisioningFailed: its volume of before is being deleted; for 0s; failures 1; next in 8s; waits on time
    ");
}
