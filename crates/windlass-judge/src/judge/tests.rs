//! Each rule with calls that break it and nothing else, and calls that keep it. Calls are lines of a script: the call, the
//! volume, what is special about it, and after `->` how it ended if not well.

mod script;

use std::time::Duration;

use windlass_csi::{Code, NodeCapabilities};

use super::*;
use crate::verdict::Outcome;
use script::{Words, play};

fn settings() -> Settings {
    let capabilities = NodeCapabilities {
        stage_unstage: true,
        volume_stats: true,
        expand: true,
        volume_condition: true,
        single_node_multi_writer: true,
        volume_mount_group: true,
    };
    Settings { capabilities, node_id: "node-1".into(), ..Settings::default() }
}

fn outcomes(judge: &Judge, is: impl Fn(Outcome) -> bool) -> Vec<&'static str> {
    judge.verdict().checks.iter().filter(|it| is(it.outcome)).map(|it| it.rule).collect()
}

/// The script breaks this rule, and no other.
#[track_caller]
fn breaks_as(settings: Settings, rule: &str, script: &str) -> Judge {
    let judge = play(settings, script);
    let broken = outcomes(&judge, |it| matches!(it, Outcome::Broken | Outcome::Unwise));
    assert_eq!(broken, [rule], "{}", judge.verdict());
    judge
}

#[track_caller]
fn breaks(rule: &str, script: &str) -> Judge {
    breaks_as(settings(), rule, script)
}

/// The script keeps this rule, and breaks none.
#[track_caller]
fn keeps_as(settings: Settings, rule: &str, script: &str) {
    let judge = play(settings, script);
    let broken = outcomes(&judge, |it| matches!(it, Outcome::Broken | Outcome::Unwise));
    assert!(broken.is_empty(), "{}", judge.verdict());
    let kept = outcomes(&judge, |it| it == Outcome::Passed);
    assert!(kept.contains(&rule), "{rule} was not seen\n{}", judge.verdict());
}

#[track_caller]
fn keeps(rule: &str, script: &str) {
    keeps_as(settings(), rule, script);
}

const LIFE: &str = "
    stage a
    publish a
    stats a
    expand a
    unpublish a
    unstage a
";

/// A life with one line more, or another in its place.
fn life(publish: &str, after: &str) -> String {
    format!("stage a\n{publish}\n{after}\nunpublish a\nunstage a")
}

fn without(change: impl FnOnce(&mut NodeCapabilities)) -> Settings {
    let mut settings = settings();
    change(&mut settings.capabilities);
    settings
}

fn attaching() -> Settings {
    Settings { attach: true, ..settings() }
}

/// With a controller service that can do everything.
fn making() -> Settings {
    Settings { create: true, grow: true, attach: true, ..settings() }
}

/// What the volume is handed over with, if it was the first call that made it and the second that attached it.
const HANDED: &str = "attachment=judge.windlass.dev/attachment:5 context=judge.windlass.dev/volume:a";

/// A life of a volume that the driver makes, with something in the middle of it.
fn made(during: &str) -> String {
    format!(
        "create a
        attach a context=judge.windlass.dev/volume:a
        stage a {HANDED}
        publish a {HANDED}
        {during}
        unpublish a
        unstage a
        detach a
        delete a"
    )
}

#[test]
fn a_plain_life_breaks_nothing() {
    for rule in ["stage-first", "unpublish-first", "required-fields", "sizes", "absolute-paths", "staging-directory"] {
        keeps(rule, LIFE);
    }
    for rule in ["target-parent", "target-free", "own-place", "one-staging-path", "agreement", "known-place", "told"] {
        keeps(rule, LIFE);
    }
    for rule in ["stats-place", "expand-place", "expand-size", "can-stage", "can-stats", "can-expand", "no-overlap"] {
        keeps(rule, LIFE);
    }
    for rule in ["can-mount-group", "can-writer-modes", "asked-first", "capabilities-first", "nothing-forgotten"] {
        keeps(rule, LIFE);
    }
    let idle = play(settings(), LIFE);
    assert_eq!(idle.verdict().outcome, Outcome::Passed);
}

#[test]
fn it_is_idle_when_volumes_have_come_and_gone() {
    let idle = |script: &str| play(settings(), script).idle_after();
    assert_eq!(idle(LIFE), Some(QUIET));
    assert_eq!(idle(""), None);
    assert_eq!(idle("stage a"), None);
    assert_eq!(idle("stage a begin"), None);
    assert_eq!(idle("stage a -> open"), None);
    assert_eq!(idle("stage a -> refused"), Some(QUIET_AFTER_FAILURE), "it may be tried again");
    assert_eq!(idle("stage a\npublish a"), None, "a pod has it");
    assert_eq!(idle("stage a\npublish a\nunpublish a"), Some(QUIET_WHEN_FORGOTTEN), "perhaps nobody comes for it");
    assert_eq!(idle("stage a\npublish a\nunpublish a -> open"), Some(QUIET_WHEN_FORGOTTEN));
    assert_eq!(idle("stage a\npublish a\nunpublish a\nstage b"), None);
    assert_eq!(idle("stage a -> open\nunstage a"), Some(QUIET));
}

#[test]
fn a_verdict_about_nothing_says_so() {
    assert_eq!(play(settings(), "").verdict().outcome, Outcome::NotSeen);
}

#[test]
fn a_driver_is_asked_who_it_is_first() {
    breaks("asked-first", &format!("bare\ncapabilities\n{LIFE}"));
}

#[test]
fn a_driver_is_told_what_came_of_its_introduction() {
    breaks("told", &format!("bare\ninfo\ncapabilities\n{LIFE}"));
    breaks("told", &format!("bare\ninfo\nrejected\ncapabilities\n{LIFE}"));
}

#[test]
fn capabilities_are_asked_for_before_they_are_used() {
    breaks("capabilities-first", &format!("bare\ninfo\nregistered\n{LIFE}"));
}

#[test]
fn required_fields_are_set() {
    for line in ["stage a untyped", "stage a mode=0", "stage a mode=99", "stage -", "publish - staging=", "unpublish -"]
    {
        let judge = play(settings(), line);
        let broken = outcomes(&judge, |it| it == Outcome::Broken);
        assert!(broken.contains(&"required-fields"), "{line}");
    }
    assert_eq!(play(settings(), "stage a mode=0").verdict().count(Outcome::Broken), 1, "nothing was done");
}

#[test]
fn fields_are_not_larger_than_allowed() {
    let long = "v".repeat(129);
    breaks("sizes", &format!("stage {long}\nunstage {long}"));
    keeps("sizes", &format!("stage {0}\nunstage {0}", &long[1..]));
    breaks("sizes", &format!("stage a flags={}\nunstage a", "f".repeat(4097)));
    breaks("sizes", &format!("stage a fs={long}\nunstage a"));
    breaks("sizes", &format!("stage a group={long}\nunstage a"));
    breaks("sizes", &format!("stage a context=k:{}\nunstage a", "v".repeat(4096)));
    breaks("sizes", "stage a secrets=k secret-bytes=4097\nunstage a");
    keeps("sizes", "stage a secrets=k secret-bytes=4096\nunstage a");
    breaks_as(attaching(), "node-id", &format!("attach a node={}", "n".repeat(256)));
}

#[test]
fn paths_are_absolute() {
    for line in ["stage a path=s", "stage a path=/s/../t"] {
        breaks("absolute-paths", line);
    }
    breaks("absolute-paths", &life("publish a", "publish a path=t"));
    keeps("absolute-paths", "stage a path=/s/..t\nunstage a path=/s/..t");
}

#[test]
fn the_staging_directory_is_there() {
    breaks("staging-directory", "stage a found=nothing");
    breaks("staging-directory", "stage a block found=file");
}

#[test]
fn the_parent_of_the_target_is_there_and_the_target_is_not() {
    breaks("target-parent", "stage a\npublish a parent=nothing\nunstage a");
    breaks("target-free", &life("publish a found=directory", ""));
    breaks("target-free", &life("publish a found=file", ""));
    keeps("target-free", &life("publish a", "publish a found=directory"));
}

#[test]
fn places_are_not_shared() {
    breaks("own-place", &life("publish a", "stage b path=/staging/a"));
    let script = "stage b\npublish b path=/target/a\nunstage b";
    breaks("own-place", &life("publish a", script));
    keeps("own-place", &format!("{LIFE}\nstage b path=/staging/a\nunstage b path=/staging/a"));
}

#[test]
fn a_volume_is_staged_in_one_place() {
    breaks("one-staging-path", "stage a\nstage a path=/other\nunstage a");
    keeps("one-staging-path", "stage a\nunstage a\nstage a path=/other\nunstage a path=/other");
    breaks("one-staging-path", "stage a -> open\nstage a path=/other\nunstage a");
}

#[test]
fn a_volume_is_staged_before_it_is_published() {
    breaks("stage-first", "publish a");
    breaks("stage-first", "stage a -> refused\npublish a");
    breaks("stage-first", "stage a\nunstage a\npublish a");
    breaks("stage-first", "stage a\npublish a staging=/other\nunstage a");
    breaks("stage-first", "stage a\npublish a staging=\nunstage a");
    let script = "publish a staging= context=csi.storage.k8s.io/ephemeral:true\nunpublish a";
    keeps("no-overlap", script);
    let handle = format!("csi-{}", "0f".repeat(32));
    keeps("no-overlap", &format!("publish {handle} staging=\nunpublish {handle}"));
    keeps_as(without(|it| it.stage_unstage = false), "known-place", "publish a staging=\nunpublish a");
}

#[test]
fn a_volume_is_unpublished_everywhere_before_it_is_unstaged() {
    let script = "publish a path=/other\nunpublish a path=/other\nunstage a";
    breaks("unpublish-first", &life("publish a", script));
    breaks("unpublish-first", &life("publish a", "unpublish a -> refused\nunstage a"));
}

#[test]
fn a_volume_is_attached_while_the_node_has_it() {
    let context = "attachment=judge.windlass.dev/attachment:4";
    let life = format!("attach a\nstage a {context}\npublish a {context}\nunpublish a\nunstage a\ndetach a");
    for rule in ["attach-first", "detach-last", "publish-context", "node-id", "can-controller"] {
        keeps_as(attaching(), rule, &life);
    }
    breaks_as(attaching(), "attach-first", "stage a");
    breaks_as(attaching(), "attach-first", "attach a -> refused\nstage a");
    breaks_as(attaching(), "detach-last", &format!("attach a\nstage a {context}\ndetach a\nunstage a\ndetach a"));
    breaks_as(attaching(), "node-id", "attach a node=node-2");
    breaks_as(attaching(), "publish-context", "attach a\nstage a\nunstage a\ndetach a");
    let other = "attach a\nstage a attachment=judge.windlass.dev/attachment:5\nunstage a\ndetach a";
    breaks_as(attaching(), "publish-context", other);
    breaks("publish-context", &format!("stage a {context}\nunstage a"));
    breaks("can-controller", "attach a");
    for line in ["create a", "delete a", "grow a", "snapshot a"] {
        breaks_as(attaching(), "can-controller", line);
    }
    // An attachment that is made again tells the same.
    keeps_as(
        attaching(),
        "publish-context",
        &format!("attach a -> open\nattach a\nstage a {context}\nunstage a\ndetach a"),
    );
}

#[test]
fn volumes_are_made_grown_and_deleted_in_order() {
    let life = made("grow a bytes=4194304\nexpand a bytes=4194304");
    for rule in ["not-deleted", "delete-last", "grow-first", "never-smaller", "volume-context", "can-controller"] {
        keeps_as(making(), rule, &life);
    }
    assert_eq!(play(making(), &life).idle_after(), Some(QUIET));
    let kept = life.replace("delete a", "");
    assert_eq!(play(making(), &kept).idle_after(), Some(QUIET_WHEN_FORGOTTEN), "it may be deleted");
    assert_eq!(play(making(), &kept).verdict().outcome, Outcome::Passed, "it may be kept");
    assert_eq!(play(making(), "create a").idle_after(), None);
}

#[test]
fn a_name_stands_for_one_request() {
    let settings = || Settings { create: true, ..settings() };
    for other in
        ["bytes=7", "limit=4194304", "mode=5", "fs=xfs", "parameters=x:2", "parameters=", "copy", "secrets=key"]
    {
        let other = if other == "parameters=" { "" } else { other };
        let script = format!("create a parameters=x:1\ncreate a {other}\ndelete a");
        breaks_as(settings(), "one-request", &script);
        breaks_as(settings(), "one-request", &script.replacen("x:1", "x:1 -> open", 1));
    }
    for before in ["create a parameters=x:1", "create a parameters=x:1 -> open"] {
        keeps_as(settings(), "one-request", &format!("{before}\ncreate a parameters=x:1\ndelete a"));
    }
    // What was refused or deleted is nobody's any more.
    keeps_as(settings(), "delete-last", "create a bytes=1 -> refused\ncreate a bytes=2\ndelete a\ncreate a\ndelete a");
    let judge = play(settings(), "create a\ncreate a bytes=7");
    assert_eq!(judge.show(5).answer.unwrap(), "refused (AlreadyExists)");
}

#[test]
fn a_volume_is_deleted_after_everybody_has_let_go_of_it() {
    breaks_as(making(), "delete-last", &made("delete a"));
    breaks_as(making(), "delete-last", &made("").replace("detach a", "delete a\ndetach a"));
    breaks_as(making(), "delete-last", &made("").replace("unstage a", "delete a\nunstage a"));
    breaks_as(making(), "not-assumed", &made("").replace("detach a", "detach a -> open\ndelete a\ndetach a"));
    let context = "context=judge.windlass.dev/volume:a";
    let open = format!("create a\nstage a {context}\nunstage a -> open\ndelete a\nunstage a\ndelete a");
    breaks_as(Settings { create: true, ..settings() }, "not-assumed", &open);
}

#[test]
fn a_volume_that_is_deleted_is_not_used() {
    for line in ["attach a", "grow a"] {
        breaks_as(making(), "not-deleted", &format!("create a\ndelete a\n{line}"));
        breaks_as(making(), "not-assumed", &format!("create a\ndelete a -> open\n{line}\ndelete a"));
    }
    let plain = || Settings { create: true, ..settings() };
    for line in ["stage a", "publish a staging= context=csi.storage.k8s.io/ephemeral:true"] {
        breaks_as(plain(), "not-deleted", &format!("create a\ndelete a\n{line}"));
    }
    breaks_as(plain(), "volume-context", "create a\nstage a\nunstage a\ndelete a");
    let more = "context=judge.windlass.dev/volume:a,storage.kubernetes.io/csiProvisionerIdentity:x";
    keeps_as(plain(), "volume-context", &format!("create a\nstage a {more}\nunstage a\ndelete a"));
    keeps_as(plain(), "stage-first", LIFE);
}

#[test]
fn the_controller_makes_a_volume_larger_first() {
    let growing = || Settings { grow: true, ..settings() };
    breaks_as(growing(), "grow-first", &life("publish a", "expand a"));
    breaks_as(growing(), "grow-first", &life("publish a", "grow a bytes=5\nexpand a bytes=6"));
    breaks_as(growing(), "grow-first", &life("publish a", "grow a bytes=5 -> refused\nexpand a bytes=5"));
    breaks_as(growing(), "not-assumed", &life("publish a", "grow a bytes=5 -> open\nexpand a bytes=5\ngrow a bytes=5"));
    keeps_as(growing(), "grow-first", &life("publish a", "grow a bytes=5 -> open\ngrow a bytes=5\nexpand a bytes=5"));
    keeps_as(making(), "grow-first", &made("expand a"));
    breaks_as(growing(), "never-smaller", "grow a bytes=5\ngrow a bytes=4");
    keeps_as(growing(), "never-smaller", "grow a bytes=9 -> refused\ngrow a bytes=5\ngrow a bytes=5");
    breaks_as(growing(), "expand-size", "grow a bytes=5 limit=4");
    breaks_as(growing(), "settled", "grow a -> open");
    breaks_as(making(), "settled", "create a -> unheard");
    breaks_as(making(), "settled", "create a\ndelete a -> unheard");
    keeps_as(making(), "settled", "create a -> unheard\ncreate a -> refused\ncreate a\ndelete a -> open\ndelete a");
}

#[test]
fn a_size_that_is_too_small_is_not_built_on() {
    let faults = vec!["grow=too-small".parse().unwrap()];
    let lying = || Settings { grow: true, faults: faults.clone(), ..settings() };
    breaks_as(lying(), "grow-first", &life("publish a", "grow a bytes=6\nexpand a bytes=6"));
    keeps_as(lying(), "grow-first", &life("publish a", "grow a bytes=6\ngrow a bytes=6\nexpand a bytes=6"));
    let mut judge = Judge::new(lying());
    let words = Words(vec!["bytes=6"]);
    assert_eq!(judge.begin(Duration::ZERO, words.asked("grow", "a")).capacity_bytes, 3);
    assert_eq!(judge.begin(Duration::ZERO, words.asked("grow", "a")).capacity_bytes, 6);
}

#[test]
fn requests_for_volumes_are_whole() {
    for line in ["create -", "create a useless", "create a mode=0", "create a untyped", "delete -", "grow -"] {
        breaks_as(making(), "required-fields", line);
    }
    let large = format!("create {} -> refused", "n".repeat(129));
    breaks_as(making(), "sizes", &large);
    breaks_as(making(), "sizes", &format!("create a parameters=x:{}\ndelete a", "y".repeat(4096)));
    let due = vec!["create=key".parse().unwrap(), "delete".parse().unwrap()];
    let due = || Settings { secrets: due.clone(), ..making() };
    breaks_as(due(), "secrets", "create a\ndelete a secrets=key");
    breaks_as(due(), "secrets", "create a secrets=key\ndelete a");
    keeps_as(due(), "secrets", "create a secrets=key\ndelete a secrets=key");
}

#[test]
fn a_volume_has_another_id_than_its_name() {
    let ids = ["pvc-1", "pvc-2", ""].map(crate::call::Create::volume_of);
    assert!(ids.iter().all(|it| it.starts_with("made-") && it.len() == 21), "{ids:?}");
    assert!(ids[0] != ids[1] && ids[0] == crate::call::Create::volume_of("pvc-1"));
}

#[test]
fn statistics_and_growth_name_the_staging_path_of_the_volume() {
    for wrong in ["staging=", "staging=/staging/b", "staging=/target/a"] {
        breaks("staging-path", &life("publish a", &format!("expand a {wrong}")));
    }
    breaks("staging-path", &life("publish a", "stats a staging=/staging/b"));
    let judge = play(settings(), &life("publish a", "stats a staging=elsewhere"));
    assert!(outcomes(&judge, |it| it == Outcome::Broken).contains(&"absolute-paths"));
    keeps("staging-path", &life("publish a", "stats a\nstats a staging=/staging/a"));
    keeps("staging-path", LIFE);
    // Whoever stages nothing has nothing to compare it with.
    let unstaged = "publish a staging=\nexpand a staging=\nexpand a staging=/staging/a\nunpublish a";
    keeps_as(without(|it| it.stage_unstage = false), "expand-place", unstaged);
}

#[test]
fn the_volume_context_stays_the_volumes() {
    breaks("volume-context", "stage a context=x:1\npublish a context=x:2\nunpublish a\nunstage a");
    breaks("volume-context", "stage a context=x:1\npublish a\nunpublish a\nunstage a");
    let script = "stage a context=x:1\npublish a context=x:1,csi.storage.k8s.io/pod.name:p\nunpublish a\nunstage a";
    keeps("volume-context", script);
    keeps("volume-context", "stage a context=x:1\nstage a context=x:1\nunstage a\nstage a context=x:2\nunstage a");
}

#[test]
fn a_call_that_is_repeated_is_the_same_call() {
    for other in ["fs=xfs", "mode=5", "flags=noatime", "group=7", "secrets=key"] {
        breaks("same-again", &format!("stage a\nstage a {other}\nunstage a"));
    }
    breaks("same-again", &life("publish a", "publish a ro"));
    breaks("same-again", "stage a flags=x -> open\nstage a flags=y\nunstage a");
    keeps("same-again", &life("publish a secrets=k", "publish a secrets=csi.storage.k8s.io/serviceAccount.tokens,k"));
    keeps("same-again", "stage a flags=x\nstage a flags=x\nunstage a\nstage a flags=y\nunstage a");
    keeps("can-stage", "stage a fs=xfs -> refused\nstage a\nunstage a");
    let judge = play(settings(), "stage a flags=password=1\nstage a flags=password=2 secrets=key\nunstage a");
    let text = judge.verdict().to_string();
    assert!(text.contains("the mount flags, the names of secrets (key)") && !text.contains("password"), "{text}");
}

#[test]
fn staging_and_publishing_agree() {
    breaks("agreement", &life("publish a block", ""));
    breaks("agreement", &life("publish a mode=5", ""));
    breaks("agreement", &life("publish a fs=xfs", ""));
    keeps("agreement", &life("publish a flags=ro", ""));
}

#[test]
fn only_what_was_made_is_undone() {
    breaks("known-place", "unpublish a");
    breaks("known-place", "stage a\nunstage a path=/other\nunstage a");
    keeps("known-place", "stage a\nunstage a\nunstage a");
    keeps("known-place", "stage a -> refused\nunstage a");
}

#[test]
fn statistics_and_growth_are_asked_for_where_the_volume_is() {
    breaks("stats-place", "stats a");
    breaks("stats-place", &life("publish a", "stats a path=/other"));
    breaks("expand-place", "expand a");
    breaks("expand-place", &format!("{LIFE}\nexpand a"));
    keeps("expand-place", "stage a\nexpand a path=/staging/a\nunstage a");
    keeps("stats-place", "stage a block\npublish a block\nstats a path=/dev/x\nunpublish a\nunstage a");
}

#[test]
fn the_size_to_grow_to_can_be() {
    for size in ["bytes=-1", "limit=-1", "bytes=3 limit=2"] {
        breaks("expand-size", &life("publish a", &format!("expand a {size}")));
    }
    keeps("expand-size", &life("publish a", "expand a bytes=2 limit=2"));
}

#[test]
fn only_what_the_driver_can_do_is_asked_of_it() {
    breaks_as(without(|it| it.stage_unstage = false), "can-stage", "stage a");
    breaks_as(without(|it| it.volume_stats = false), "can-stats", &life("publish a", "stats a"));
    breaks_as(without(|it| it.expand = false), "can-expand", &life("publish a", "expand a"));
    breaks_as(without(|it| it.volume_mount_group = false), "can-mount-group", "stage a group=7");
    keeps("can-mount-group", "stage a group=7\nunstage a");
    for mode in [6, 7] {
        breaks_as(
            without(|it| it.single_node_multi_writer = false),
            "can-writer-modes",
            &format!("stage a mode={mode}"),
        );
        keeps("can-writer-modes", &format!("stage a mode={mode}\nunstage a"));
    }
}

#[test]
fn a_volume_for_one_alone_is_published_once() {
    breaks("one-writer", "stage a mode=6\npublish a mode=6\npublish a mode=6 path=/other\nunpublish a\nunstage a");
    let script = "stage a mode=6\npublish a mode=6\nunpublish a\npublish a mode=6 path=/other\nunpublish a path=/other\nunstage a";
    keeps("one-writer", script);
    let script = "stage a mode=7\npublish a mode=7\npublish a mode=7 path=/other\nunpublish a\nunpublish a path=/other\nunstage a";
    keeps("no-overlap", script);
}

#[test]
fn calls_for_one_volume_do_not_overlap() {
    breaks(
        "no-overlap",
        "stage a\npublish a begin\npublish a path=/other\nend\nunpublish a\nunpublish a path=/other\nunstage a",
    );
    keeps("no-overlap", "stage a begin\nstage b begin\nend\nend\nunstage a\nunstage b");
    keeps("no-overlap", &life("publish a", "expand a begin\nstats a\nend"));
    // Whoever has given up a call has none under way.
    keeps("no-overlap", "stage a -> unheard\nstage a\nunstage a");
}

#[test]
fn a_call_that_fails_is_not_repeated_in_a_loop() {
    let tries = "stage a hasty -> refused\n".repeat(3);
    breaks("back-off", &format!("{tries}stage a hasty\nunstage a"));
    keeps("back-off", &format!("{tries}stage a\nunstage a"));
    keeps("back-off", &format!("stage a -> refused\nstage a\n{}unstage a", "stage a hasty\n".repeat(5)));
}

#[test]
fn secrets_are_there_where_they_are_due() {
    let due = |text: &str| Settings { secrets: vec![text.parse().unwrap()], ..settings() };
    breaks_as(due("stage"), "secrets", LIFE);
    breaks_as(due("publish"), "secrets", LIFE);
    breaks_as(due("expand"), "secrets", LIFE);
    breaks_as(due("stage=key"), "secrets", "stage a secrets=other\nunstage a");
    keeps_as(due("stage=key"), "secrets", "stage a secrets=key,other\nunstage a");
    keeps_as(due("stage"), "secrets", "stage a secrets=other\nunstage a");
}

#[test]
fn an_open_outcome_is_not_taken_for_success_or_failure() {
    for answer in ["open", "unheard"] {
        breaks("not-assumed", &format!("stage a -> {answer}\npublish a\nunstage a"));
        breaks("not-assumed", &format!("stage a\npublish a -> {answer}\nunstage a\nunpublish a\nunstage a"));
        breaks("not-assumed", &format!("stage a\npublish a -> {answer}\nexpand a\nunpublish a\nunstage a"));
        keeps("not-assumed", &format!("stage a -> {answer}\nstage a\npublish a\nunpublish a\nunstage a"));
        keeps("not-assumed", &format!("stage a\npublish a -> {answer}\nunpublish a\nunstage a"));
    }
    breaks_as(attaching(), "not-assumed", "attach a -> open\nstage a\ndetach a");
    let script = "attach a\nstage a attachment=judge.windlass.dev/attachment:4 -> open\ndetach a\nunstage a\ndetach a";
    breaks_as(attaching(), "not-assumed", script);
}

#[test]
fn what_the_judge_leaves_without_an_answer_when_it_ends_is_nobodys_to_settle() {
    for script in ["stage a begin", "stage a\npublish a begin", "stage a\nunstage a begin"] {
        let settings = Settings { in_use_allowed: true, ..settings() };
        let mut judge = play(settings.clone(), script);
        let last = judge.last;
        judge.stop();
        judge.end(last, Reply::Unheard);
        let verdict = judge.verdict();
        let settled = verdict.checks.iter().find(|it| it.rule == "settled").unwrap();
        assert!(settled.findings.is_empty(), "{script}");
        // The same without the end is the orchestrator's.
        let mut judge = play(settings, script);
        judge.end(last, Reply::Unheard);
        let settled = judge.verdict().checks.into_iter().find(|it| it.rule == "settled").unwrap();
        assert!(!settled.findings.is_empty(), "{script}");
    }
}

#[test]
fn every_open_outcome_is_settled() {
    breaks("settled", "stage a -> open");
    breaks("settled", "stage a -> unheard\nstage a -> refused");
    breaks("settled", "stage a\npublish a -> open\npublish a -> refused");
    breaks("settled", "stage a\nunstage a -> open");
    breaks("settled", "stage a\nunstage a -> open\nunstage a -> refused");
    keeps("settled", "stage a -> open\nstage a -> refused\nunstage a");
    keeps("settled", "stage a\nunstage a -> open\nunstage a");
    breaks_as(Settings { in_use_allowed: true, ..settings() }, "settled", "stage a\npublish a\nexpand a -> open");
    keeps("settled", &life("publish a", "expand a -> open"));
    keeps("settled", &life("publish a", "expand a -> open\nexpand a"));
    breaks_as(attaching(), "settled", "attach a -> open");
}

#[test]
fn nothing_is_forgotten() {
    breaks("nothing-forgotten", "stage a");
    breaks("nothing-forgotten", "stage a\npublish a\nunpublish a");
    breaks("nothing-forgotten", "stage a\nunstage a -> refused");
    breaks_as(attaching(), "nothing-forgotten", "attach a");
    let in_use = Settings { in_use_allowed: true, ..settings() };
    keeps_as(in_use.clone(), "nothing-forgotten", "stage a\npublish a");
    breaks_as(in_use, "nothing-forgotten", "stage a\npublish a\nunpublish a");
}

#[test]
fn a_breach_is_told_with_the_calls_that_show_it() {
    let judge = breaks("unpublish-first", &life("publish a", "unstage a"));
    let verdict = judge.verdict();
    let checked = verdict.checks.iter().find(|it| it.rule == "unpublish-first").unwrap();
    let calls = checked.findings[0].calls.iter().map(|it| (it.number, it.method)).collect::<Vec<_>>();
    assert_eq!(calls, [(5, "NodePublishVolume"), (6, "NodeUnstageVolume")]);
    assert_eq!(checked.findings[0].calls[1].answer.as_deref(), Some("refused (FailedPrecondition)"));
    let text = verdict.to_string();
    let line = "      #6 60.000s NodeUnstageVolume a staging=/staging/a: refused (FailedPrecondition)\n";
    assert!(text.contains(line), "{text}");
    assert!(text.contains("BROKEN unpublish-first: "), "{text}");
}

#[test]
fn the_same_breach_is_told_once_and_counted() {
    let mut judge = breaks("known-place", &"unpublish a\n".repeat(30));
    let verdict = judge.verdict();
    let checked = verdict.checks.iter().find(|it| it.rule == "known-place").unwrap();
    assert_eq!((checked.broken, checked.findings.len()), (30, 1));
    assert!(verdict.to_string().contains("and 29 more like these"));
    let many = (0..30).map(|it| format!("unpublish v{it}\n")).collect::<String>();
    let verdict = play(settings(), &many).verdict();
    let checked = verdict.checks.iter().find(|it| it.rule == "known-place").unwrap();
    assert_eq!((checked.broken, checked.findings.len()), (30, FINDINGS_MAX));
    assert_eq!(judge.news().len(), 30);
    assert_eq!(judge.news(), []);
}

#[test]
fn faults_are_played_for_each_volume_and_counted() {
    let mut judge = Judge::new(Settings { faults: vec!["stage=refused:2".parse().unwrap()], ..settings() });
    let fault = |judge: &mut Judge, volume: &str| {
        let begun = judge.begin(Duration::ZERO, Words(Vec::new()).asked("stage", volume));
        judge.end(begun.number, Reply::Refused(Code::Internal));
        begun.fault
    };
    let played = [Some(FaultKind::Refused), Some(FaultKind::Refused), None];
    assert_eq!([(); 3].map(|()| fault(&mut judge, "a")), played);
    assert_eq!([(); 3].map(|()| fault(&mut judge, "b")), played);
    assert_eq!(judge.verdict().faults, [Played { fault: "stage=refused:2".into(), played: 4 }]);
}

#[test]
fn nothing_that_is_secret_is_ever_shown() {
    let words =
        Words(vec!["context=token:hunter2", "attachment=key:hunter2", "flags=password=hunter2", "secrets=name"]);
    for call in ["attach", "stage", "publish", "expand"] {
        let asked = words.asked(call, "a");
        assert!(!format!("{asked:?} {}", asked.arguments()).contains("hunter2"), "{call}");
        assert!(asked.arguments().contains("secrets=[name]"), "{call}");
    }
}
