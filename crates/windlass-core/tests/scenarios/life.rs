//! The ordinary life of a volume, alone in its pod.

use crate::language::run;

/// C-28, E-189, E-191: node-side attach; each step once, in order, and undone once, in reverse order.
#[test]
fn a_volume_goes_up_step_by_step_and_down_the_same_way() {
    insta::assert_snapshot!(run("
        volume disk: attach=node stage
        pod a wants disk
        #1 done
        #2 done
        #3 done
        ? mounted a
        pod a gone
        #4 done
        #5 done
        #6 done
        ? state disk
    "), @r"
    #1 attach disk
    in use [disk]
    #2 stage disk
    #3 publish disk to a
    mounted a: disk=disk
    #4 unpublish disk from a
    #5 unstage disk
    pod a released
    #6 detach disk
    in use []
    state disk: not here
    ");
}

#[test]
fn a_pod_that_goes_while_its_stage_call_hangs_is_cleaned_up_when_the_call_returns() {
    insta::assert_snapshot!(run("
        volume disk: stage
        pod a wants disk
        pod a gone
        after 3m
        ? why disk
        #1 done
        #2 done
        ? state disk
    "), @r"
    #1 stage disk
    pod a released
    why disk: Hung (stage #1 has not answered in its time)
    #2 unstage disk
    state disk: not here
    ");
}

/// Csi §10 (3): an ephemeral volume has one step. E-157: so has an image volume.
#[test]
fn a_volume_that_needs_neither_attach_nor_stage_is_published_at_once() {
    insta::assert_snapshot!(run("
        volume tmp: own
        pod a wants tmp
        ? mounted a
        #1 done
        ? mounted a
        ? in use
        pod a gone
        #2 done
        ? state tmp
    "), @r"
    #1 publish tmp to a
    mounted a:
    mounted a: tmp=tmp
    in use:
    #2 unpublish tmp from a
    pod a released
    state tmp: not here
    ");
}

/// Csi §10 (2): a driver that needs no attachment.
#[test]
fn a_volume_that_nobody_attaches_is_staged_at_once_and_never_in_use() {
    insta::assert_snapshot!(run("
        volume disk: stage
        pod a wants disk
        #1 done
        #2 done
        ? in use
        ? attached disk
        pod a gone
        #3 done
        #4 done
        ? attached disk
    "), @r"
    #1 stage disk
    #2 publish disk to a
    in use:
    attached disk: true
    #3 unpublish disk from a
    #4 unstage disk
    pod a released
    attached disk: false
    ");
}

/// C-30, csi §10 (4): raw block, node-side attach.
#[test]
fn a_device_takes_the_same_steps_as_a_directory() {
    insta::assert_snapshot!(run("
        volume disk: attach=node stage block device
        pod a wants disk
        #1 done
        #2 done
        #3 done
        ? mounted a
        pod a gone
        #4 done
        #5 done
        #6 done
        ? state disk
    "), @r"
    #1 attach disk
    in use [disk]
    #2 stage disk
    #3 publish disk to a
    mounted a: disk=disk as a device
    #4 unpublish disk from a
    #5 unstage disk
    pod a released
    #6 detach disk
    in use []
    state disk: not here
    ");
}

/// C-30, E-268: refused before anything is called. The text names what the plugin lacks.
#[test]
fn a_device_of_a_plugin_without_devices_is_refused_in_words() {
    insta::assert_snapshot!(run("
        volume disk: stage device
        pod a wants disk
        ? status a
        pod a gone
    "), @r"
    status a: unmounted [disk], unattached [], unprocessed [disk], errors [volume disk has volumeMode Block, but plugin test/plugin has no BlockVolumeMapper: it cannot give raw devices]
    pod a released
    ");
}

/// E-158: the claim reference's flag.
#[test]
fn a_volume_that_is_only_read_is_published_and_given_read_only() {
    insta::assert_snapshot!(run("
        volume disk: stage ro
        pod a wants disk
        #1 done
        #2 done
        ? mounted a
    "), @r"
    #1 stage disk
    #2 publish disk to a read-only
    mounted a: disk=disk read-only
    ");
}

/// C-7, E-59, E-73: one volume record with both outer names.
#[test]
fn a_pod_with_two_names_for_one_volume_gets_it_once_under_both() {
    insta::assert_snapshot!(run("
        volume disk: stage
        pod a wants data=disk, logs=disk
        ? status a
        #1 done
        #2 done
        ? mounted a
        pod a gone
        #3 done
    "), @r"
    #1 stage disk
    status a: unmounted [data logs], unattached [], unprocessed [], errors []
    #2 publish disk to a
    mounted a: data=disk logs=disk
    #3 unpublish disk from a
    #4 unstage disk
    pod a released
    ");
}

/// E-59: what one of the names may do, the one mount can do.
#[test]
fn of_two_names_for_one_volume_the_one_that_writes_decides() {
    insta::assert_snapshot!(run("
        volume disk: ro
        volume writable: id=disk name=disk
        pod a wants data=disk, logs=writable
    "), @"#1 publish disk to a");
}

/// The names a pod has for a volume can come and go without the volume noticing (E-59).
#[test]
fn a_volume_that_loses_one_of_its_names_stays() {
    insta::assert_snapshot!(run("
        volume disk: stage
        pod a wants data=disk, logs=disk
        #1 done
        #2 done
        pod a wants logs=disk
        ? mounted a
        pod a wants
        ? mounted a
    "), @r"
    #1 stage disk
    #2 publish disk to a
    mounted a: logs=disk
    #3 unpublish disk from a
    mounted a:
    ");
}

/// E-35: the pod is handed nothing from the moment on at which it is not wanted any more.
#[test]
fn a_volume_that_a_pod_no_longer_names_is_taken_from_it_while_the_others_stay() {
    insta::assert_snapshot!(run("
        volume one: own
        volume two: own
        pod a wants one, two
        #1 done
        #2 done
        pod a wants two
        ? mounted a
        #3 done
        ? mounted a
    "), @r"
    #1 publish one to a
    #2 publish two to a
    #3 unpublish one from a
    mounted a: two=two
    mounted a: two=two
    ");
}

/// E-64: a pod's own volume is taken away and given again, in that order.
#[test]
fn a_pod_that_comes_back_while_its_volume_goes_gets_it_anew() {
    insta::assert_snapshot!(run("
        volume tmp: own
        pod a wants tmp
        #1 done
        pod a gone
        pod a wants tmp
        ? explain tmp in a
        #2 done
        #3 done
        ? mounted a
    "), @r"
    #1 publish tmp to a
    #2 unpublish tmp from a
    explain tmp in a: Unpublishing (unpublish #2 is running)
    #3 publish tmp to a
    mounted a: tmp=tmp
    ");
}

/// C-33, E-107, E-192: what is still attached is not attached again.
#[test]
fn a_volume_wanted_again_while_it_is_unstaged_is_staged_again_without_being_detached() {
    insta::assert_snapshot!(run("
        volume disk: attach=node stage
        pod a wants disk
        #1 done
        #2 done
        #3 done
        pod a gone
        #4 done
        pod b wants disk
        #5 done
        #6 done
        #7 done
        ? mounted b
    "), @r"
    #1 attach disk
    in use [disk]
    #2 stage disk
    #3 publish disk to a
    #4 unpublish disk from a
    #5 unstage disk
    pod a released
    #6 stage disk
    #7 publish disk to b
    mounted b: disk=disk
    ");
}

/// E-207: secret, configMap, downwardAPI, projected. The pod has the volume all the time.
#[test]
fn content_that_changes_is_brought_up_to_date_in_place() {
    insta::assert_snapshot!(run("
        volume conf: own refresh revision=1
        pod a wants conf
        #1 done
        pod a wants conf
        volume conf: own refresh revision=2
        pod a wants conf
        ? mounted a
        ? explain conf in a
        #2 done
        ? mounted a
        pod a gone
    "), @r"
    #1 publish conf to a
    #2 publish conf to a refreshing
    mounted a: conf=conf
    explain conf in a: Refreshing (publish #2 is running)
    mounted a: conf=conf
    #3 unpublish conf from a
    ");
}

/// E-207: a change during the update is not lost, and changes in between are skipped.
#[test]
fn content_that_changes_during_its_update_is_updated_once_more() {
    insta::assert_snapshot!(run("
        volume conf: own refresh revision=1
        pod a wants conf
        #1 done
        volume conf: own refresh revision=2
        pod a wants conf
        volume conf: own refresh revision=3
        pod a wants conf
        volume conf: own refresh revision=4
        pod a wants conf
        #2 done
        #3 done
    "), @r"
    #1 publish conf to a
    #2 publish conf to a refreshing
    #3 publish conf to a refreshing
    ");
}

/// The content of a volume that does not refresh is what it was when it was published.
#[test]
fn content_that_changes_in_a_volume_that_is_never_refreshed_changes_nothing() {
    insta::assert_snapshot!(run("
        volume conf: own revision=1
        pod a wants conf
        #1 done
        volume conf: own revision=2
        pod a wants conf
        ? deadline
    "), @r"
    #1 publish conf to a
    deadline: none
    ");
}

/// E-207: CSI drivers that ask to be republished.
#[test]
fn a_volume_that_is_refreshed_from_time_to_time_is_the_only_reason_to_wake_up() {
    insta::assert_snapshot!(run("
        volume token: own every=1m
        pod a wants token
        #1 done
        ? deadline
        after 59s
        after 1s
        #2 done
        ? deadline
        pod a stopping
        ? deadline
    "), @r"
    #1 publish token to a
    deadline: in 60s
    #2 publish token to a refreshing
    deadline: in 60s
    deadline: none
    ");
}

/// C-5, E-37: only decimal numbers that the pod does not have already, each once.
#[test]
fn the_groups_of_mounted_volumes_are_added_to_those_of_the_pod() {
    insta::assert_snapshot!(run("
        volume one: gid=777
        volume two: gid=777
        volume three: gid=a
        volume four:
        volume five: gid=5
        pod a wants one, two, three, four, five
        ? groups a
        #1 done
        #2 done
        #3 done
        #4 done
        #5 done
        ? groups a
        pod a has group 777
        ? groups a
        ? groups b
    "), @r"
    #1 publish one to a
    #2 publish two to a
    #3 publish three to a
    #4 publish four to a
    #5 publish five to a
    groups a:
    groups a: 5 777
    groups a: 5
    groups b:
    ");
}
