//! What becomes of the volumes of claims that go, grow or cannot have one, where this node has them made: volumes are deleted
//! late, or because somebody says so (I-15), and whatever is not as it should be says why (I-7).

use std::fs::{self, DirEntry};
use std::path::Path;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::{PersistentVolume, PersistentVolumeClaim};
use k8s_openapi::api::storage::v1::StorageClass;
use k8s_openapi::serde_json::{Value, json};
use rustix::mount::{UnmountFlags, mount_bind, unmount};
use windlass::Node;
use windlass::manifest::{ObjectKind, Reference};
use windlass::node::{Change, ClaimRefusal, Deleted, Tone};
use windlass::view::{Claim, ClaimPhase, ClaimStatus};
use windlass_testing::scripted::Fault;
use windlass_testing::wait::{self, run};

use crate::controlled::{claim, class, delete, explained, give, reference, start, until};
use crate::driver::{Driver, Memory};
use crate::giving::Giving as _;
use crate::host::{GROWN, Host, NAME, bring_up, of, pod, take_down, uid};

crate::tests! {
    a_deletion_that_was_not_sent_can_still_be_stopped,
    a_claim_that_comes_back_in_time_has_its_volume_as_before,
    a_class_that_keeps_volumes_has_them_forgotten_and_not_deleted,
    a_driver_is_asked_for_its_services_once,
    another_driver_at_the_controllers_socket_is_sent_nothing,
    a_resize_that_fails_on_the_node_says_so_to_the_pods_that_have_the_volume,
    a_resize_that_fails_says_so_everywhere_and_is_tried_again,
    a_volume_grows_by_its_node_alone,
    a_volume_that_its_controller_grew_alone_shows_its_size,
    a_volume_whose_claim_went_is_deleted_at_once_if_somebody_says_so,
    a_volume_that_another_persistent_volume_names_is_not_deleted,
    a_volume_that_another_claim_names_is_not_deleted,
    a_driver_that_answers_two_claims_with_one_volume_is_found_out,
    a_claim_whose_driver_lies_is_tried_again_or_let_go_of_if_somebody_says_so,
    a_persistent_volume_that_says_retain_keeps_the_volume_when_both_are_gone,
    a_persistent_volume_of_the_same_name_that_says_retain_keeps_the_volume_too,
    an_order_to_delete_that_cannot_be_noted_is_refused_and_changes_nothing,
    an_order_to_delete_outlives_a_restart_and_not_the_claim,
    what_keeps_a_volume_says_what_lets_go_of_it,
    a_class_that_is_changed_to_keep_volumes_keeps_those_that_it_has_made,
    a_volume_whose_claim_an_earlier_life_saw_go_stays_as_long_as_orphans_do,
    a_volume_whose_claim_was_not_seen_to_go_is_listed_and_told_of_once,
    a_volume_whose_notes_are_lost_is_not_replaced_by_another,
    claims_without_a_controller_say_so,
    claims_without_pods_are_listed,
    the_time_until_a_volume_is_deleted_begins_anew_after_a_source_was_lost,
    the_end_of_whatever_keeps_a_volume_begins_the_whole_time_anew,
    the_time_until_a_volume_is_deleted_begins_anew_at_a_start,
    what_a_claim_says_of_its_own_provisioning_is_nothing_to_go_by,
    what_is_wanted_or_in_use_is_not_deleted_whoever_says_so,
}

/// CSI: `DeleteVolume` of a volume that a driver does not know is a success.
fn another_driver_at_the_controllers_socket_is_sent_nothing(host: &Host) {
    let memory = Memory::new();
    let services = Driver::start_at(host, &memory, ["csi.sock", "unused.sock"]);
    let _registrar = Driver::start_at(host, &memory, ["other.sock", "registry/scripted.sock"]);
    let node = start(host);
    let changes = node.changes();
    give(&node, &class("Delete", "Immediate"), &claim());
    node.complete();
    until(changes, "was made");
    drop(services);
    let stranger = Memory::of_another_driver();
    let other = Driver::start_at(host, &stranger, ["csi.sock", "unused.sock"]);
    let changes = node.changes();
    node.remove_object(&reference());
    until(changes, r#"is served by driver "other.example.com""#);
    assert_eq!(code(&node), "DeletionFailed");
    assert_eq!(stranger.calls(), Vec::<&str>::new());
    let refused = run(node.show_driver(NAME)).unwrap().unwrap().status.refused;
    assert!(refused.iter().any(|it| it.contains("other.example.com")), "{refused:?}");
    drop(other);
    let changes = node.changes();
    let _services = Driver::start_at(host, &memory, ["csi.sock", "unused.sock"]);
    until(changes, "was deleted");
    assert_eq!(memory.mounts(), Vec::<std::path::PathBuf>::new());
    host.end(node);
}

const LONG: Duration = Duration::from_secs(600);

fn patient(host: &Host) -> Node {
    host.controlling().delete_delay(LONG).start().expect("a node")
}

fn shown(node: &Node) -> Option<Claim> {
    run(node.show_claim("default", "claim")).unwrap()
}

fn phase(node: &Node) -> Option<ClaimPhase> {
    shown(node).map(|it| it.status.phase)
}

fn code(node: &Node) -> String {
    shown(node).and_then(|it| it.status.reasons.last().map(|it| it.code.clone())).unwrap_or_default()
}

/// Waits until the claim is so.
fn until_shown(node: &Node, what: &str, is_so: impl Fn(Option<&Claim>) -> bool) -> Option<Claim> {
    let mut changes = node.changes();
    let mut last = None;
    let waiting = async {
        loop {
            last = node.show_claim("default", "claim").await.unwrap();
            if is_so(last.as_ref()) {
                return;
            }
            changes.next().await;
        }
    };
    if run(async { tokio::time::timeout(Duration::from_secs(20), waiting).await }).is_err() {
        panic!("it never was {what}: {last:#?}");
    }
    last
}

fn until_phase(node: &Node, phase: ClaimPhase) -> Claim {
    until_shown(node, &format!("{phase:?}"), |it| it.is_some_and(|it| it.status.phase == phase)).expect("a claim")
}

/// A claim of this size.
fn sized(storage: &str) -> Value {
    let mut claim = claim();
    claim["spec"]["resources"]["requests"]["storage"] = json!(storage);
    claim
}

fn growing() -> Value {
    let mut class = class("Delete", "Immediate");
    class["allowVolumeExpansion"] = json!(true);
    class
}

fn ask_for(node: &Node, storage: &str) {
    node.update_object(of::<PersistentVolumeClaim>(&sized(storage)));
}

/// I-15.
fn a_claim_that_comes_back_in_time_has_its_volume_as_before(host: &Host) {
    let (memory, _driver) = Driver::of(host);
    let node = patient(host);
    give(&node, &class("Delete", "Immediate"), &claim());
    node.complete();
    until_phase(&node, ClaimPhase::Bound);
    let before = Timestamp::now();
    node.remove_object(&reference());
    let gone = until_phase(&node, ClaimPhase::DeletePending).status;
    // Between what the two clocks say a moment may pass: times are counted by one and shown by the other.
    let (due, ten) = (gone.delete_at.expect("a time"), SignedDuration::from_mins(10));
    let moment = SignedDuration::from_secs(1);
    assert!(due >= before + ten - moment && due <= Timestamp::now() + ten + moment, "{before} {due}");
    let reason = gone.reasons.last().expect("a reason");
    assert_eq!(reason.code, "DeletePending");
    assert!(reason.remedy.contains("Put the claim back") && reason.remedy.contains("windlass delete claim"));
    assert_eq!((gone.capacity_bytes, gone.reclaim_policy.as_deref()), (Some(1 << 30), Some("Delete")));

    let changes = node.changes();
    node.update_object(of::<PersistentVolumeClaim>(&claim()));
    until(changes, "the claim is back");
    let back = until_phase(&node, ClaimPhase::Bound).status;
    assert_eq!((back.delete_at, back.gone_since, back.reasons.len()), (None, None, 0));
    bring_up(&node);
    assert_eq!(memory.calls().iter().filter(|it| it.contains("eVolume") && !it.contains("Stage")).count(), 1);
    assert!(!memory.calls().contains(&"DeleteVolume"));
    take_down(&node);
    assert_eq!(run(node.stop(Duration::from_secs(30))), Ok(0));
}

/// I-15, I-11: that the claim went is on disk. But what a start reads is no proof that it is still gone.
fn the_time_until_a_volume_is_deleted_begins_anew_at_a_start(host: &Host) {
    let (memory, _driver) = Driver::of(host);
    let node = patient(host);
    give(&node, &class("Delete", "Immediate"), &claim());
    node.complete();
    until_phase(&node, ClaimPhase::Bound);
    node.remove_object(&reference());
    let before = until_phase(&node, ClaimPhase::DeletePending).status.delete_at.unwrap();
    assert_eq!(run(node.stop(Duration::from_secs(30))), Ok(0));

    // Whatever is set by then, what was said counts.
    let node = start(host);
    let started = Timestamp::now();
    node.complete();
    let is_counted = |it: Option<&Claim>| it.is_some_and(|it| it.status.delete_at.is_some());
    let after = until_shown(&node, "counted", is_counted).unwrap().status.delete_at.unwrap();
    assert!(after > before && after.duration_since(started) >= SignedDuration::from_secs(590), "{before} {after}");
    assert!(!memory.calls().contains(&"DeleteVolume"));
    // And a claim that is there again stops it, also for the next start.
    node.update_object(of::<PersistentVolumeClaim>(&claim()));
    until_phase(&node, ClaimPhase::Bound);
    assert_eq!(run(node.stop(Duration::from_secs(30))), Ok(0));
    let node = start(host);
    node.complete();
    until_phase(&node, ClaimPhase::Kept);
    assert_eq!(memory.calls(), ["CreateVolume"]);
    assert_eq!(run(node.stop(Duration::from_secs(30))), Ok(0));
}

/// I-1, I-15: whoever puts right what was wrong with the source sees then what is missing in it, and has time to put it back.
fn the_time_until_a_volume_is_deleted_begins_anew_after_a_source_was_lost(host: &Host) {
    let (memory, _driver) = Driver::of(host);
    let node = patient(host);
    give(&node, &class("Delete", "Immediate"), &claim());
    node.complete();
    until_phase(&node, ClaimPhase::Bound);
    node.remove_object(&reference());
    let before = until_phase(&node, ClaimPhase::DeletePending).status.delete_at.unwrap();
    node.test().lost("the server is away");
    until_shown(&node, "unknown", |it| it.is_some_and(|it| it.status.reasons[0].code == "SourceIncomplete"));
    node.complete();
    let is_later = |it: Option<&Claim>| it.and_then(|it| it.status.delete_at).is_some_and(|it| it > before);
    until_shown(&node, "later", |it| is_later(it) && it.is_some_and(|it| it.status.reasons[0].code == "DeletePending"));
    assert_eq!(run(node.stop(Duration::from_secs(30))), Ok(0));
    // That is on disk, too.
    let node = patient(host);
    node.complete();
    until_shown(&node, "later after a start", is_later);
    assert!(!memory.calls().contains(&"DeleteVolume"));
    assert_eq!(run(node.stop(Duration::from_secs(30))), Ok(0));
}

/// I-1, I-15: it may have come back while nobody looked, and be missing by accident now.
fn a_volume_whose_claim_an_earlier_life_saw_go_stays_as_long_as_orphans_do(host: &Host) {
    let memory = Memory::new();
    let _driver = Driver::start(host, &memory);
    let node = patient(host);
    give(&node, &class("Delete", "Immediate"), &claim());
    node.complete();
    until_phase(&node, ClaimPhase::Bound);
    node.remove_object(&reference());
    until_phase(&node, ClaimPhase::DeletePending);
    assert_eq!(run(node.stop(Duration::from_secs(30))), Ok(0));

    let node = start(host);
    let before = Timestamp::now();
    node.test().complete_holding(2 * LONG);
    let is_spared = |it: Option<&Claim>| {
        let at = it.and_then(|it| it.status.delete_at);
        at.is_some_and(|it| it.duration_since(before) > SignedDuration::from_secs(1100))
    };
    until_shown(&node, "spared", is_spared);
    assert!(!memory.calls().contains(&"DeleteVolume"));
    // Whoever says that it goes need not wait.
    let changes = node.changes();
    run(node.delete_claim("default", "claim")).expect("nothing has it");
    until(changes, "was deleted");
    host.end(node);
}

/// The volume that was made for the claim, as a persistent volume that somebody writes.
fn persistent(bound: &ClaimStatus, name: &str, policy: Option<&str>) -> PersistentVolume {
    of(&json!({
        "metadata": {"name": name},
        "spec": {
            "capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteOnce"], "persistentVolumeReclaimPolicy": policy,
            "csi": {"driver": bound.driver, "volumeHandle": bound.volume_handle},
        },
    }))
}

/// A volume as messages call it.
fn described(bound: &ClaimStatus) -> String {
    let (volume, handle) = (bound.volume.as_ref().unwrap(), bound.volume_handle.as_ref().unwrap());
    format!("{volume} ({handle} of driver {NAME})")
}

/// What is said of the claim's volume, once it is kept.
fn until_kept(node: &Node, words: &str) -> String {
    let message = |it: &Claim| it.status.reasons.last().map(|it| it.message.clone()).unwrap_or_default();
    let is_so = |it: &Claim| it.status.phase == ClaimPhase::Kept && message(it).contains(words);
    message(&until_shown(node, words, |it| it.is_some_and(is_so)).unwrap())
}

/// I-15: whatever its own claim says, it is somebody's.
fn a_volume_that_another_persistent_volume_names_is_not_deleted(host: &Host) {
    let memory = Memory::new();
    let _driver = Driver::start(host, &memory);
    let node = start(host);
    give(&node, &class("Delete", "Immediate"), &claim());
    node.complete();
    let bound = until_phase(&node, ClaimPhase::Bound).status;
    node.update_object(persistent(&bound, "mine", Some("Delete")));
    node.remove_object(&reference());
    until_kept(&node, "the PersistentVolume mine is the same volume");
    let other = "the PersistentVolume mine is the same volume of the driver".into();
    let (claim, volume) = ("default/claim".into(), described(&bound));
    assert_eq!(run(node.delete_claim("default", "claim")), Err(ClaimRefusal::Named { claim, volume, other }));
    assert_eq!(memory.calls(), ["CreateVolume"]);
    let changes = node.changes();
    node.remove_object(&Reference::new(ObjectKind::Volume, "", "mine"));
    until(changes, "was deleted");
    host.end(node);
}

/// I-15: what kept it may be away for a moment only, as the claim may be.
fn the_end_of_whatever_keeps_a_volume_begins_the_whole_time_anew(host: &Host) {
    let memory = Memory::new();
    let _driver = Driver::start(host, &memory);
    let node = patient(host);
    give(&node, &class("Delete", "Immediate"), &claim());
    node.complete();
    let bound = until_phase(&node, ClaimPhase::Bound).status;
    bring_up(&node);
    node.remove_object(&reference());
    until_shown(&node, "in use", |it| it.is_some_and(|it| it.status.delete_at.is_none()));
    let counted_since = |moment: Timestamp| {
        let is_whole = |it: Timestamp| it.duration_since(moment) > SignedDuration::from_secs(599);
        let is_counted = |it: &Claim| it.status.phase == ClaimPhase::DeletePending && !it.status.reasons.is_empty();
        until_shown(&node, "counted", |it| {
            it.is_some_and(|it| is_counted(it) && it.status.delete_at.is_some_and(is_whole))
        });
    };
    let before = Timestamp::now();
    take_down(&node);
    counted_since(before);
    node.update_object(persistent(&bound, "mine", Some("Delete")));
    assert_eq!(until_phase(&node, ClaimPhase::Kept).status.delete_at, None, "what was counted counts for nothing");
    let before = Timestamp::now();
    node.remove_object(&Reference::new(ObjectKind::Volume, "", "mine"));
    counted_since(before);
    assert!(!memory.calls().contains(&"DeleteVolume"));
    let changes = node.changes();
    run(node.delete_claim("default", "claim")).expect("nothing has it");
    until(changes, "was deleted");
    host.end(node);
}

/// I-15: that is how one renames a claim.
fn a_volume_that_another_claim_names_is_not_deleted(host: &Host) {
    let memory = Memory::new();
    let _driver = Driver::start(host, &memory);
    let node = start(host);
    give(&node, &class("Delete", "Immediate"), &claim());
    node.complete();
    let bound = until_phase(&node, ClaimPhase::Bound).status;
    let mut renamed = claim();
    renamed["metadata"]["name"] = json!("renamed");
    renamed["spec"]["volumeName"] = json!(bound.volume);
    renamed["status"] = json!({"phase": "Bound"});
    node.update_object(of::<PersistentVolumeClaim>(&renamed));
    node.remove_object(&reference());
    until_kept(&node, "claim default/renamed names it");
    let all = run(node.show_claims()).unwrap();
    let shown = all.iter().find(|it| it.metadata.name == "renamed").unwrap();
    assert_eq!(shown.status.phase, ClaimPhase::Pending, "it is the other's");
    assert!(shown.status.reasons[0].message.contains("is bound to claim default/claim"), "{shown:#?}");
    let (claim, volume, other) = ("default/claim".into(), described(&bound), "claim default/renamed names it".into());
    assert_eq!(run(node.delete_claim("default", "claim")), Err(ClaimRefusal::Named { claim, volume, other }));
    assert_eq!(memory.calls(), ["CreateVolume"]);
    let changes = node.changes();
    node.remove_object(&Reference::new(ObjectKind::Claim, "default", "renamed"));
    until(changes, "was deleted");
    host.end(node);
}

/// I-15: whoever says that volumes are to stay says so of those that are there.
fn a_class_that_is_changed_to_keep_volumes_keeps_those_that_it_has_made(host: &Host) {
    let (memory, _driver) = Driver::of(host);
    let node = start(host);
    give(&node, &class("Delete", "Immediate"), &claim());
    node.complete();
    until_phase(&node, ClaimPhase::Bound);
    node.update_object(of::<StorageClass>(&class("Retain", "Immediate")));
    until_shown(&node, "kept", |it| it.is_some_and(|it| it.status.reclaim_policy.as_deref() == Some("Retain")));
    node.remove_object(&reference());
    until_phase(&node, ClaimPhase::Kept);
    until_shown(&node, "noted", |it| it.is_some_and(|it| !it.status.reasons.is_empty()));
    assert_eq!(memory.calls(), ["CreateVolume"]);
    let changes = node.changes();
    node.update_object(of::<StorageClass>(&class("Delete", "Immediate")));
    until(changes, "was deleted");
    host.end(node);
}

/// I-15, I-4: two claims would share one disk, and lose it when one of them goes.
fn a_driver_that_answers_two_claims_with_one_volume_is_found_out(host: &Host) {
    let memory = Memory::new();
    let _driver = Driver::start(host, &memory);
    let node = start(host);
    give(&node, &class("Delete", "Immediate"), &claim());
    node.complete();
    until_phase(&node, ClaimPhase::Bound);
    memory.answer_with_one();
    let mut second = claim();
    second["metadata"]["name"] = json!("second");
    let changes = node.changes();
    node.update_object(of::<PersistentVolumeClaim>(&second));
    until(changes, "for claim default/claim already");
    let claims = || run(node.show_claims()).unwrap();
    let failed = claims().into_iter().find(|it| it.metadata.name == "second").unwrap().status;
    let reason = &failed.reasons[0];
    assert_eq!((reason.code.as_str(), failed.phase, failed.volume_handle), ("DriverLied", ClaimPhase::Failed, None));
    assert!(
        reason.message.ends_with("mend the driver, then: windlass retry claim/default/second; or remove the claim"),
        "{reason:?}"
    );
    // Nothing was made for it, so nothing is left of it when it goes.
    let changes = node.changes();
    node.remove_object(&Reference::new(ObjectKind::Claim, "default", "second"));
    until(changes, "is forgotten");
    assert!(claims().iter().all(|it| it.metadata.name != "second"), "{:#?}", claims());
    assert_eq!(phase(&node), Some(ClaimPhase::Bound));
    assert_eq!(run(node.stop(Duration::from_secs(30))), Ok(0));
    assert!(!memory.calls().contains(&"DeleteVolume"), "{:?}", memory.calls());
}

/// I-7, I-10: what a driver that makes no sense has made is not known, so it is forgotten only because somebody says so.
fn a_claim_whose_driver_lies_is_tried_again_or_let_go_of_if_somebody_says_so(host: &Host) {
    let (memory, _driver) = Driver::of(host);
    let node = start(host);
    let until_lied = |words: &str| {
        let has_lied =
            |it: &Claim| it.status.reasons.iter().any(|it| it.code == "DriverLied" && it.message.ends_with(words));
        until_shown(&node, words, |it| it.is_some_and(has_lied));
    };
    memory.answer_with_none(true);
    give(&node, &class("Delete", "Immediate"), &claim());
    node.complete();
    until_lied("mend the driver, then: windlass retry claim/default/claim; or remove the claim");
    memory.answer_with_none(false);
    let retried = run(node.retry_claim("default", "claim")).unwrap();
    assert_eq!(retried.map(|it| (it.what, it.attempts)), Some(("claim default/claim".into(), 1)));
    until_phase(&node, ClaimPhase::Bound);
    delete(&node);

    memory.answer_with_none(true);
    node.update_object(of::<PersistentVolumeClaim>(&claim()));
    until_lied("or remove the claim");
    node.remove_object(&reference());
    until_lied("to leave what it may have made with it: windlass delete claim default/claim");
    let mut changes = node.changes();
    // While the driver is asked, there is something to be awaited.
    while run(node.delete_claim("default", "claim")) == Err(ClaimRefusal::Busy { claim: "default/claim".into() }) {
        run(changes.next());
    }
    until_shown(&node, "forgotten", |it| it.is_none());
    assert_eq!(memory.calls().iter().filter(|it| **it == "DeleteVolume").count(), 1, "of the first");
    assert_eq!(run(node.retry_claim("default", "claim")).unwrap(), None);
    host.end(node);
}

/// I-15: of the two only the persistent volume was ever seen by whoever wrote it.
fn a_persistent_volume_that_says_retain_keeps_the_volume_when_both_are_gone(host: &Host) {
    let mine = Reference::new(ObjectKind::Volume, "", "mine");
    for (policy, first, second) in [(None, reference(), mine.clone()), (Some("Retain"), mine, reference())] {
        let (memory, driver) = Driver::of(host);
        let node = start(host);
        give(&node, &class("Delete", "Immediate"), &claim());
        node.complete();
        let bound = until_phase(&node, ClaimPhase::Bound).status;
        let mut fixed = claim();
        fixed["spec"]["volumeName"] = json!("mine");
        node.update_object(persistent(&bound, "mine", policy));
        node.update_object(of::<PersistentVolumeClaim>(&fixed));
        node.remove_object(&first);
        node.remove_object(&second);
        let words = "a PersistentVolume of it said persistentVolumeReclaimPolicy: Retain";
        until_kept(&node, words);
        assert_eq!(run(node.stop(Duration::from_secs(30))), Ok(0));
        let node = start(host);
        node.complete();
        until_kept(&node, words);
        assert_eq!(shown(&node).unwrap().status.reclaim_policy.as_deref(), Some("Retain"));
        assert_eq!(memory.calls(), ["CreateVolume"], "{policy:?}");
        let done = run(node.delete_claim("default", "claim"));
        assert_eq!(done, Ok(Deleted::Released { volume: described(&bound) }));
        until_shown(&node, "forgotten", |it| it.is_none());
        assert_eq!(memory.calls(), ["CreateVolume"], "{policy:?}");
        assert_eq!(run(node.stop(Duration::from_secs(30))), Ok(0));
        drop(driver);
    }
}

/// As one edits it in Kubernetes. It may be given before what was noted is read.
fn a_persistent_volume_of_the_same_name_that_says_retain_keeps_the_volume_too(host: &Host) {
    let (memory, _driver) = Driver::of(host);
    let node = start(host);
    give(&node, &class("Delete", "Immediate"), &claim());
    node.complete();
    let bound = until_phase(&node, ClaimPhase::Bound).status;
    assert_eq!(run(node.stop(Duration::from_secs(30))), Ok(0));
    let (name, node) = (bound.volume.clone().unwrap(), start(host));
    give(&node, &class("Delete", "Immediate"), &claim());
    node.update_object(persistent(&bound, &name, None));
    node.complete();
    until_shown(&node, "kept", |it| it.is_some_and(|it| it.status.reclaim_policy.as_deref() == Some("Retain")));
    node.remove_object(&Reference::new(ObjectKind::Volume, "", &name));
    node.remove_object(&reference());
    until_kept(&node, "a PersistentVolume of it said persistentVolumeReclaimPolicy: Retain");
    assert_eq!(memory.calls(), ["CreateVolume"]);
    assert_eq!(run(node.stop(Duration::from_secs(30))), Ok(0));
}

/// I-11: whoever is told that it is being deleted need not say it again after a restart.
fn an_order_to_delete_that_cannot_be_noted_is_refused_and_changes_nothing(host: &Host) {
    let (memory, _driver) = Driver::of(host);
    let node = patient(host);
    give(&node, &class("Delete", "Immediate"), &claim());
    node.complete();
    until_phase(&node, ClaimPhase::Bound);
    node.remove_object(&reference());
    until_shown(&node, "counted", |it| it.is_some_and(|it| !it.status.reasons.is_empty()));
    let notes = host.path("node").join("windlass/provisions");
    until_noted(&notes, "delayMilliseconds");
    // What is below a mount is not written to.
    mount_bind(&notes, &notes).unwrap();
    let refused = run(node.delete_claim("default", "claim"));
    assert!(matches!(&refused, Err(ClaimRefusal::NotNoted { claim, .. }) if claim == "default/claim"), "{refused:?}");
    unmount(&notes, UnmountFlags::empty()).unwrap();
    assert_eq!(phase(&node), Some(ClaimPhase::DeletePending));
    assert!(!memory.calls().contains(&"DeleteVolume"));
    let changes = node.changes();
    run(node.delete_claim("default", "claim")).expect("it can be noted");
    until(changes, "was deleted");
    host.end(node);
}

/// I-15: while nobody is there to hear of it nothing has begun, whenever its time came.
fn a_deletion_that_was_not_sent_can_still_be_stopped(host: &Host) {
    for (stopped_by, phase) in
        [("claim", ClaimPhase::Bound), ("class", ClaimPhase::Kept), ("PersistentVolume", ClaimPhase::Kept)]
    {
        let (memory, driver) = Driver::of(host);
        let node = start(host);
        give(&node, &class("Delete", "Immediate"), &claim());
        node.complete();
        let made = until_phase(&node, ClaimPhase::Bound);
        drop(driver);
        node.remove_object(&reference());
        until_phase(&node, ClaimPhase::Failed);
        match stopped_by {
            "claim" => node.update_object(of::<PersistentVolumeClaim>(&claim())),
            "class" => node.update_object(of::<StorageClass>(&class("Retain", "Immediate"))),
            _ => node.update_object(persistent(&made.status, "mine", None)),
        }
        until_phase(&node, phase);
        let _driver = Driver::start(host, &memory);
        run(node.retry_claim("default", "claim")).unwrap();
        until_phase(&node, phase);
        assert!(!memory.calls().contains(&"DeleteVolume"), "{stopped_by}: {:?}", memory.calls());
        host.end(node);
    }
}

/// Waits until a note says this.
fn until_noted(notes: &Path, word: &str) {
    let says = |it: std::io::Result<DirEntry>| {
        it.is_ok_and(|it| fs::read_to_string(it.path()).is_ok_and(|it| it.contains(word)))
    };
    wait::until(word, notes, || fs::read_dir(notes).is_ok_and(|mut it| it.any(says)));
}

/// I-11, I-15: as after a kill between the answer and the deletion.
fn an_order_to_delete_outlives_a_restart_and_not_the_claim(host: &Host) {
    let (memory, _driver) = Driver::of(host);
    for comes_back in [true, false] {
        let node = patient(host);
        give(&node, &class("Delete", "Immediate"), &claim());
        node.complete();
        until_phase(&node, ClaimPhase::Bound);
        node.remove_object(&reference());
        until_shown(&node, "counted", |it| it.is_some_and(|it| !it.status.reasons.is_empty()));
        assert_eq!(run(node.stop(Duration::from_secs(30))), Ok(0));
        let notes = host.path("node").join("windlass/provisions");
        let note = std::fs::read_dir(notes).unwrap().next().unwrap().unwrap().path();
        let text = std::fs::read_to_string(&note).unwrap();
        let ordered = text.replace(r#""delayMilliseconds":600000"#, r#""delayMilliseconds":600000,"ordered":true"#);
        assert_ne!(text, ordered);
        std::fs::write(&note, ordered).unwrap();

        let node = patient(host);
        let is_told = |it: &Claim, words: &str| {
            let told = it.status.reasons.last().is_some_and(|it| it.message.ends_with(words));
            told && it.status.phase == ClaimPhase::DeletePending
        };
        let words = "as somebody said (windlass delete claim)";
        until_shown(&node, "told while not all is known", |it| it.is_some_and(|it| is_told(it, words)));
        assert_eq!(code(&node), "SourceIncomplete");
        if comes_back {
            // The orphan delay is for whoever put it back where this start does not see it.
            node.test().complete_holding(LONG);
            until_shown(&node, "told with its time", |it| {
                it.is_some_and(|it| is_told(it, words) && it.status.delete_at.is_some())
            });
            node.update_object(of::<PersistentVolumeClaim>(&claim()));
            until_phase(&node, ClaimPhase::Bound);
            assert!(!memory.calls().contains(&"DeleteVolume"));
        } else {
            let changes = node.changes();
            node.complete();
            until(changes, "was deleted");
        }
        assert_eq!(run(node.stop(Duration::from_secs(30))), Ok(0));
    }
    assert_eq!(memory.calls(), ["CreateVolume", "DeleteVolume"]);
}

/// I-7: what is advised is not refused.
fn what_keeps_a_volume_says_what_lets_go_of_it(host: &Host) {
    let (memory, _driver) = Driver::of(host);
    let node = start(host);
    give(&node, &class("Delete", "Immediate"), &claim());
    node.complete();
    let bound = until_phase(&node, ClaimPhase::Bound).status;
    assert_eq!(run(node.stop(Duration::from_secs(30))), Ok(0));

    let node = start(host);
    node.complete();
    let volume = described(&bound);
    let order = "windlass delete claim default/claim";
    assert_eq!(
        until_kept(&node, "nobody"),
        format!("{volume} is kept: nobody saw that the claim went; to have it deleted: {order}")
    );
    let mut renamed = claim();
    renamed["metadata"]["name"] = json!("renamed");
    renamed["spec"]["volumeName"] = json!(bound.volume);
    node.update_object(of::<PersistentVolumeClaim>(&renamed));
    let kept = until_kept(&node, "renamed");
    assert!(
        kept.ends_with(&format!("to have it deleted, remove claim default/renamed first, then: {order}")),
        "{kept}"
    );
    node.remove_object(&Reference::new(ObjectKind::Claim, "default", "renamed"));
    node.update_object(persistent(&bound, "mine", None));
    let kept = until_kept(&node, "Retain");
    let mine = "the PersistentVolume mine";
    assert!(
        kept.ends_with(&format!("to forget it and leave it with its driver, remove {mine} first, then: {order}")),
        "{kept}"
    );
    let mut fixed = claim();
    fixed["spec"]["volumeName"] = json!("mine");
    node.update_object(of::<PersistentVolumeClaim>(&fixed));
    let names = |it: &Claim| {
        it.status
            .reasons
            .iter()
            .any(|it| it.message.ends_with(&format!("remove the claim and {mine} first, then: {order}")))
    };
    until_shown(&node, "named", |it| it.is_some_and(names));
    node.remove_object(&reference());
    node.remove_object(&Reference::new(ObjectKind::Volume, "", "mine"));
    until_shown(&node, "free", |it| {
        it.is_some_and(|it| it.status.reasons.iter().any(|it| it.message.ends_with(&format!("driver: {order}"))))
    });
    let released = run(node.delete_claim("default", "claim"));
    assert_eq!(released, Ok(Deleted::Released { volume }));
    assert_eq!((shown(&node), memory.calls()), (None, vec!["CreateVolume"]));
    assert_eq!(run(node.stop(Duration::from_secs(30))), Ok(0));
}

/// I-10: another, empty one in its place would look as if all were well.
fn a_volume_whose_notes_are_lost_is_not_replaced_by_another(host: &Host) {
    let memory = Memory::new();
    let _driver = Driver::start(host, &memory);
    let node = start(host);
    give(&node, &class("Delete", "Immediate"), &claim());
    node.complete();
    node.add_pod(pod()).unwrap();
    run(node.ready(&uid())).unwrap();
    assert_eq!(run(node.stop(Duration::from_secs(30))), Ok(0));
    let state = host.path("node").join("windlass");
    std::fs::rename(&state, host.path("elsewhere")).unwrap();

    // The claim is given before the pod, as a directory of manifests does it.
    let node = start(host);
    give(&node, &class("Delete", "Immediate"), &claim());
    until_shown(&node, "known", |it| it.is_some_and(|it| !it.status.reasons.is_empty()));
    node.add_pod(pod()).unwrap();
    node.test().complete_holding(LONG);
    explained(&node, "has a volume of the driver here that nobody names");
    assert_eq!(memory.calls().iter().filter(|it| **it == "CreateVolume").count(), 1);
    assert_eq!(run(node.stop(Duration::from_secs(30))), Ok(0));
    // Once they are back, all is as before.
    std::fs::remove_dir_all(&state).unwrap();
    std::fs::rename(host.path("elsewhere"), &state).unwrap();
    let node = start(host);
    give(&node, &class("Delete", "Immediate"), &claim());
    node.add_pod(pod()).unwrap();
    node.complete();
    run(node.ready(&uid())).unwrap();
    node.remove_pod(&uid());
    delete(&node);
    host.end(node);
}

fn a_volume_whose_claim_went_is_deleted_at_once_if_somebody_says_so(host: &Host) {
    let (memory, _driver) = Driver::of(host);
    let node = patient(host);
    give(&node, &class("Delete", "Immediate"), &claim());
    node.complete();
    until_phase(&node, ClaimPhase::Bound);
    node.remove_object(&reference());
    until_phase(&node, ClaimPhase::DeletePending);
    let changes = node.changes();
    let done = run(node.delete_claim("default", "claim")).expect("nothing has it");
    assert!(matches!(done, Deleted::Deleting { volume: Some(it) } if it.contains("pvc-")));
    until(changes, "was deleted");
    assert_eq!(memory.calls(), ["CreateVolume", "DeleteVolume"]);
    assert_eq!(shown(&node), None);
    let again = run(node.delete_claim("default", "claim"));
    assert_eq!(again, Err(ClaimRefusal::Unknown { claim: "default/claim".into() }));
    host.end(node);
}

/// I-1.
fn what_is_wanted_or_in_use_is_not_deleted_whoever_says_so(host: &Host) {
    let (memory, _driver) = Driver::of(host);
    let node = patient(host);
    give(&node, &class("Delete", "Immediate"), &claim());
    node.complete();
    bring_up(&node);
    let refused = run(node.delete_claim("default", "claim"));
    assert_eq!(refused, Err(ClaimRefusal::StillThere { claim: "default/claim".into() }));
    node.remove_object(&reference());
    let refused = run(node.delete_claim("default", "claim")).expect_err("a pod has it");
    assert!(matches!(&refused, ClaimRefusal::InUse { pods, .. } if pods == &["default/app"]), "{refused}");
    assert!(!memory.calls().contains(&"DeleteVolume"));
    take_down(&node);
    assert_eq!(phase(&node), Some(ClaimPhase::DeletePending), "its time has not come");
    assert_eq!(run(node.stop(Duration::from_secs(30))), Ok(0));

    // While not all that there is was told, the claim may be there.
    let node = patient(host);
    until_shown(&node, "read", |it| it.is_some());
    let refused = run(node.delete_claim("default", "claim"));
    assert_eq!(refused, Err(ClaimRefusal::SourceIncomplete { claim: "default/claim".into() }));
    assert_eq!(code(&node), "SourceIncomplete");
    node.complete();
    let changes = node.changes();
    run(node.delete_claim("default", "claim")).expect("nothing has it");
    until(changes, "was deleted");
    host.end(node);
}

fn a_volume_whose_claim_was_not_seen_to_go_is_listed_and_told_of_once(host: &Host) {
    let (memory, driver) = Driver::of(host);
    let node = start(host);
    give(&node, &class("Delete", "Immediate"), &claim());
    node.complete();
    until_phase(&node, ClaimPhase::Bound);
    assert_eq!(run(node.stop(Duration::from_secs(30))), Ok(0));
    drop(driver);

    let node = start(host);
    let mut changes = node.changes_since_start().unwrap();
    node.complete();
    let kept = until_phase(&node, ClaimPhase::Kept).status;
    assert!(kept.volume.is_some_and(|it| it.starts_with("pvc-")) && kept.volume_handle.is_some());
    assert_eq!(kept.reasons.last().unwrap().code, "VolumeKept");
    // Whatever comes and goes meanwhile.
    for _ in 0..3 {
        let mut came = node.changes();
        let driver = Driver::start(host, &memory);
        run(async { while !matches!(came.next().await, Some(Change::Driver { registered: true, .. })) {} });
        drop(driver);
        run(async { while !matches!(came.next().await, Some(Change::Driver { registered: false, .. })) {} });
    }
    let _driver = Driver::start(host, &memory);
    run(node.delete_claim("default", "claim")).expect("nothing has it");
    let mut told = 0;
    run(async {
        loop {
            match changes.next().await {
                Some(Change::Claim { text, .. }) if text.contains("was deleted") => return,
                Some(Change::Claim { tone: Tone::Warning, reason: "VolumeKept", .. }) => told += 1,
                Some(_) => {}
                None => panic!("the node ended"),
            }
        }
    });
    assert_eq!((told, memory.calls()), (1, vec!["CreateVolume", "DeleteVolume"]));
    host.end(node);
}

fn a_class_that_keeps_volumes_has_them_forgotten_and_not_deleted(host: &Host) {
    let (memory, _driver) = Driver::of(host);
    let node = start(host);
    give(&node, &class("Retain", "Immediate"), &claim());
    node.complete();
    until_phase(&node, ClaimPhase::Bound);
    node.remove_object(&reference());
    until_phase(&node, ClaimPhase::Kept);
    until_shown(&node, "noted", |it| it.is_some_and(|it| !it.status.reasons.is_empty()));
    let changes = node.changes();
    let done = run(node.delete_claim("default", "claim")).expect("nothing has it");
    assert!(matches!(done, Deleted::Released { volume } if volume.contains("id of pvc-")));
    until(changes, "its driver keeps it");
    assert_eq!((shown(&node), memory.calls()), (None, vec!["CreateVolume"]));
    host.end(node);
}

fn claims_without_pods_are_listed(host: &Host) {
    let node = start(host);
    let fixed = json!({
        "metadata": {"namespace": "shop", "name": "fixed"},
        "spec": {
            "volumeName": "pv", "accessModes": ["ReadOnlyMany"], "storageClassName": "",
            "resources": {"requests": {"storage": "1Gi"}},
        },
        "status": {"phase": "Bound", "capacity": {"storage": "2Gi"}},
    });
    let pv = json!({
        "metadata": {"name": "pv"},
        "spec": {"capacity": {"storage": "2Gi"}, "accessModes": ["ReadOnlyMany"], "csi": {"driver": "d", "volumeHandle": "h"}},
    });
    let mut nowhere = fixed.clone();
    nowhere["metadata"]["name"] = json!("nowhere");
    nowhere["spec"]["volumeName"] = json!("none");
    for one in [&fixed, &nowhere, &claim()] {
        node.update_object(of::<PersistentVolumeClaim>(one));
    }
    node.update_object(of::<PersistentVolume>(&pv));
    node.complete();
    until_shown(&node, "waiting", |it| it.is_some_and(|it| !it.status.reasons.is_empty()));
    let all = run(node.show_claims()).unwrap();
    let shown: Vec<_> = all.iter().map(|it| (it.metadata.name.as_str(), it.status.phase)).collect();
    let (pending, bound) = (ClaimPhase::Pending, ClaimPhase::Bound);
    assert_eq!(shown, [("claim", pending), ("fixed", bound), ("nowhere", pending)]);
    let unbound = &all[2].status.reasons;
    assert!(matches!(&unbound[..], [it] if it.message.contains("persistentvolumes \"none\" not found")), "{unbound:?}");
    assert_eq!((all[1].status.volume.as_deref(), all[1].status.capacity_bytes), (Some("pv"), Some(2 << 30)));
    assert_eq!((code(&node), all[0].status.requested_bytes), ("ClassMissing".into(), Some(1 << 30)));
    assert_eq!(run(node.stop(Duration::from_secs(30))), Ok(0));
}

fn claims_without_a_controller_say_so(host: &Host) {
    let node = host.bare();
    node.update_object(of::<PersistentVolumeClaim>(&claim()));
    node.complete();
    node.add_pod(pod()).unwrap();
    explained(&node, "PVC is not bound: nothing makes its volume");
    assert_eq!(code(&node), "ControllerMissing");
    node.update_object(of::<StorageClass>(&class("Delete", "Immediate")));
    explained(&node, "no controller service of driver scripted.example.com is set");
    assert!(shown(&node).unwrap().status.reasons[0].remedy.contains("--controller"));
    take_down(&node);
    host.end(node);
}

fn what_a_claim_says_of_its_own_provisioning_is_nothing_to_go_by(host: &Host) {
    let node = host.bare();
    let mut liar = claim();
    liar["metadata"]["annotations"] = json!({"windlass.dev/provisioning": "all is well"});
    liar["spec"]["volumeName"] = json!("pv");
    node.update_object(of::<PersistentVolumeClaim>(&liar));
    node.complete();
    node.add_pod(pod()).unwrap();
    explained(&node, "PVC is not bound");
    let reasons = run(node.explain(&uid())).unwrap();
    assert!(!format!("{reasons:?}").contains("all is well"), "{reasons:?}");
    take_down(&node);
    host.end(node);
}

/// CSI: a plugin that cannot grow volumes by its controller may still do so on nodes.
fn a_volume_grows_by_its_node_alone(host: &Host) {
    let (memory, _driver) = Driver::of(host);
    let node = start(host);
    give(&node, &growing(), &claim());
    node.complete();
    bring_up(&node);
    ask_for(&node, "2Gi");
    until_shown(&node, "grown", |it| it.is_some_and(|it| it.status.capacity_bytes == Some(GROWN)));
    assert_eq!(memory.size(), GROWN);
    assert!(!memory.calls().contains(&"ControllerExpandVolume"));
    take_down(&node);
    delete(&node);
    host.end(node);
}

fn a_volume_that_its_controller_grew_alone_shows_its_size(host: &Host) {
    let memory = Memory::new();
    memory.grow_by_controller(false);
    let _driver = Driver::start(host, &memory);
    let node = start(host);
    give(&node, &growing(), &claim());
    node.complete();
    bring_up(&node);
    let changes = node.changes();
    ask_for(&node, "2Gi");
    until(changes, &format!("its volume has {GROWN} bytes"));
    let claim = until_shown(&node, "grown", |it| it.is_some_and(|it| it.status.capacity_bytes == Some(GROWN)));
    let volume = claim.unwrap().status.volume_id.unwrap();
    let mut changes = node.changes();
    run(async {
        while node.show_volume(&volume.as_str().into()).await.unwrap().unwrap().status.size_bytes != Some(GROWN) {
            changes.next().await;
        }
    });
    assert!(!memory.calls().contains(&"NodeExpandVolume"), "{:?}", memory.calls());
    take_down(&node);
    delete(&node);
    host.end(node);
}

/// I-7.
fn a_resize_that_fails_says_so_everywhere_and_is_tried_again(host: &Host) {
    let memory = Memory::new();
    memory.grow_by_controller(true);
    let _driver = Driver::start(host, &memory);
    let node = start(host);
    give(&node, &growing(), &claim());
    node.complete();
    bring_up(&node);
    memory.plan("ControllerExpandVolume", Fault::Refusal);
    let mut changes = node.changes();
    ask_for(&node, "2Gi");
    let failed = until_shown(&node, "failed", |it| {
        it.is_some_and(|it| it.status.reasons.iter().any(|it| it.code == "ResizeFailed"))
    });
    let failed = failed.unwrap().status;
    let reason = failed.reasons.last().unwrap();
    assert_eq!((failed.phase, reason.attempts, reason.next_try.is_some()), (ClaimPhase::Bound, 1, true));
    assert!(reason.message.contains("as the test wants it"), "{}", reason.message);
    explained(&node, "as the test wants it");
    let pod_shown = run(node.show_pod(&uid())).unwrap().unwrap();
    assert!(pod_shown.status.volumes[0].mounted);
    assert!(pod_shown.status.volumes[0].reasons.iter().any(|it| it.code.starts_with("Resiz")));
    run(async {
        while !matches!(changes.next().await, Some(Change::Event(it)) if it.reason == "VolumeResizeFailed") {}
    });
    until_shown(&node, "grown", |it| {
        it.is_some_and(|it| it.status.capacity_bytes == Some(GROWN) && it.status.reasons.is_empty())
    });
    assert_eq!(run(node.explain(&uid())).unwrap(), []);
    take_down(&node);
    delete(&node);
    host.end(node);
}

/// I-7, E-306.
fn a_resize_that_fails_on_the_node_says_so_to_the_pods_that_have_the_volume(host: &Host) {
    for fault in [Fault::Refusal, Fault::NeverDone] {
        let (memory, driver) = Driver::of(host);
        let node = start(host);
        give(&node, &growing(), &claim());
        node.complete();
        bring_up(&node);
        memory.plan("NodeExpandVolume", fault);
        let mut changes = node.changes();
        ask_for(&node, "2Gi");
        explained(&node, "NodeExpandVolume");
        let reasons = run(node.explain(&uid())).unwrap();
        let reasons = &reasons[0].reasons;
        assert!(reasons.iter().any(|it| it.attempts == 1), "{fault:?}: {reasons:?}");
        let told = run(async {
            loop {
                match changes.next().await {
                    Some(Change::Event(it)) if it.reason == "VolumeResizeFailed" => return it.message,
                    Some(_) => {}
                    None => panic!("the node ended"),
                }
            }
        });
        assert!(told.starts_with("NodeExpandVolume.NodeExpandVolume failed for volume \"pvc-"), "{fault:?}: {told}");
        until_shown(&node, "grown", |it| it.is_some_and(|it| it.status.capacity_bytes == Some(GROWN)));
        assert_eq!(run(node.explain(&uid())).unwrap(), [], "{fault:?}");
        take_down(&node);
        delete(&node);
        host.end(node);
        drop(driver);
    }
}

fn a_driver_is_asked_for_its_services_once(host: &Host) {
    let (memory, _driver) = Driver::of(host);
    let node = start(host);
    node.update_object(of::<StorageClass>(&class("Delete", "Immediate")));
    node.complete();
    for number in 0..3 {
        let mut one = claim();
        one["metadata"]["name"] = json!(format!("claim-{number}"));
        let changes = node.changes();
        node.update_object(of::<PersistentVolumeClaim>(&one));
        until(changes, "was made");
    }
    let asked = memory.questions().iter().filter(|it| **it == "GetPluginCapabilities").count();
    assert_eq!((asked, memory.calls().len()), (1, 3));
    assert_eq!(run(node.stop(Duration::from_secs(30))), Ok(0));
}
