//! A driver's volume is deleted by an act, never by an accident (I-1, I-15).
//!
//! The canary is the driver's: its volume, with a file in it. The daemon is told to delete without delay, so that nothing but
//! its caution keeps the volume.

use std::fs;
use std::path::Path;

use rustix::mount::{MountFlags, UnmountFlags, mount, mount_bind, unmount};
use rustix::process::Signal;
use windlass_testing::daemon::Case;

use crate::attacks;
use crate::driver::{APP, CLAIM, DRIVER, Disk};
use crate::victim::{log, logged, overwrite, pass_the_delay, pass_the_delay_blindly, pod, put, until_told};

attacks!["claims":
    the_manifest_of_a_claim_is_truncated,
    the_writer_of_a_claim_is_killed_between_two_documents,
    a_claims_kind_is_misspelled,
    the_manifests_of_a_claim_are_unmounted,
    an_empty_file_system_covers_the_manifests_of_a_claim,
    the_manifests_of_a_claim_are_empty_at_the_start,
    what_was_made_for_a_claim_is_damaged_on_disk,
    a_removed_claim_that_comes_back_keeps_its_volume,
    the_torn_manifest_of_a_claim_is_renamed,
    the_writer_of_a_claim_in_another_order_is_killed,
    the_mount_of_a_claim_goes_with_its_mount_point,
    the_manifests_are_swapped_while_a_claim_waits_for_its_deletion,
    the_manifests_are_covered_while_a_claim_waits_for_its_deletion,
    a_manifest_is_torn_and_mended_while_a_claim_waits_for_its_deletion,
    the_volume_that_keeps_the_volume_of_a_claim_is_away_for_a_moment,
    a_claim_goes_together_with_the_persistent_volume_that_said_retain,
    the_manifests_are_not_mounted_at_a_start_while_a_claim_waits_for_its_deletion,
    the_state_directory_is_removed_while_a_claim_has_a_volume,
    the_notes_of_a_claim_are_removed_while_it_has_a_volume,
];

/// Comes before them in the file.
const MAP: &str = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: settings}\ndata: {color: blue}\n";

/// The claim and its pod in one file.
fn all() -> String {
    format!("{MAP}---\n{APP}---\n{CLAIM}")
}

fn one_file() -> Vec<(&'static str, String)> {
    vec![("all.yaml", all())]
}

const AT_ONCE: [&str; 2] = ["--delete-delay", "0s"];

fn the_manifest_of_a_claim_is_truncated(case: &Case) {
    let mut disk = Disk::make(case, &AT_ONCE, &one_file());
    for text in ["", "\n", "# nothing\n", "---\n"] {
        overwrite(&case.path("manifests/all.yaml"), text);
        pass_the_delay(case, &case.path("manifests"));
        disk.canary_lives(case, &format!("{text:?}"));
        disk.pod_has_it(case, &format!("{text:?}"));
        disk.kill();
        disk.start(case);
        pass_the_delay_blindly(case);
        disk.canary_lives(case, &format!("{text:?} and a kill"));
        case.manifest("all.yaml", &all());
        case.wait_mounted(&["app"]);
    }
    disk.end(case);
}

fn the_writer_of_a_claim_is_killed_between_two_documents(case: &Case) {
    let mut disk = Disk::make(case, &AT_ONCE, &one_file());
    for (what, text) in [("nothing but the map", MAP.to_owned()), ("the pod and no claim", format!("{MAP}---\n{APP}"))]
    {
        overwrite(&case.path("manifests/all.yaml"), &text);
        pass_the_delay(case, &case.path("manifests"));
        disk.canary_lives(case, what);
        disk.pod_has_it(case, what);
        disk.kill();
        disk.start(case);
        pass_the_delay_blindly(case);
        disk.canary_lives(case, &format!("{what}, and a kill"));
        disk.pod_has_it(case, &format!("{what}, and a kill"));
        case.manifest("all.yaml", &all());
        case.wait_mounted(&["app"]);
    }
    disk.end(case);
}

fn a_claims_kind_is_misspelled(case: &Case) {
    let mut disk = Disk::make(case, &AT_ONCE, &one_file());
    let wrong =
        format!("{APP}---\n{CLAIM}").replace("kind: Persist", "kind: Presist").replace("kind: Pod", "kind: Pot");
    case.manifest("all.yaml", &wrong);
    pass_the_delay(case, &case.path("manifests"));
    disk.canary_lives(case, "kind: PresistentVolumeClaim");
    disk.pod_has_it(case, "kind: Pot");
    disk.kill();
    disk.start(case);
    pass_the_delay_blindly(case);
    disk.canary_lives(case, "kind: PresistentVolumeClaim and a kill");
    disk.end(case);
}

fn the_manifests_of_a_claim_are_unmounted(case: &Case) {
    let source = case.path("source");
    fs::create_dir_all(&source).unwrap();
    mount_bind(&source, case.path("manifests")).unwrap();
    let mut disk = Disk::make(case, &AT_ONCE, &one_file());
    unmount(case.path("manifests"), UnmountFlags::DETACH).unwrap();
    let daemon = disk.daemon.as_ref().unwrap();
    for (what, signal) in [("unmounted", None), ("unmounted and hung up", Some(Signal::HUP))] {
        overwrite(&source.join("class.yaml"), crate::driver::CLASS);
        signal.into_iter().for_each(|it| daemon.signal(it));
        pass_the_delay_blindly(case);
        disk.canary_lives(case, what);
        disk.pod_has_it(case, what);
    }
    disk.kill();
    disk.start(case);
    pass_the_delay_blindly(case);
    disk.canary_lives(case, "a start on the bare mount point");
    disk.pod_has_it(case, "a start on the bare mount point");
    disk.end(case);
}

fn an_empty_file_system_covers_the_manifests_of_a_claim(case: &Case) {
    let disk = Disk::make(case, &AT_ONCE, &one_file());
    let source = case.path("source");
    fs::create_dir_all(&source).unwrap();
    mount_bind(case.path("manifests"), &source).unwrap();
    mount("empty", case.path("manifests"), "tmpfs", MountFlags::empty(), None).unwrap();
    let touches: [(&str, &Path); 2] = [("below", &source), ("above", &case.path("manifests"))];
    for (what, directory) in touches {
        put(directory, "other.yaml", "apiVersion: v1\nkind: List\nitems: []\n");
        pass_the_delay_blindly(case);
        disk.canary_lives(case, what);
        disk.pod_has_it(case, what);
    }
    disk.end(case);
}

fn the_manifests_of_a_claim_are_empty_at_the_start(case: &Case) {
    let mut disk = Disk::make(case, &AT_ONCE, &one_file());
    disk.kill();
    fs::rename(case.path("manifests"), case.path("away")).unwrap();
    fs::create_dir(case.path("manifests")).unwrap();
    disk.start(case);
    pass_the_delay(case, &case.path("manifests"));
    disk.canary_lives(case, "a start on an empty directory");
    disk.pod_has_it(case, "a start on an empty directory");
    // The claim was not seen to go: it merely is not there.
    disk.kill();
    disk.start(case);
    pass_the_delay(case, &case.path("manifests"));
    disk.canary_lives(case, "two starts on an empty directory");
    disk.end(case);
}

fn what_was_made_for_a_claim_is_damaged_on_disk(case: &Case) {
    let mut disk = Disk::make(case, &AT_ONCE, &one_file());
    let provisions = case.path("root/windlass/provisions");
    let files: Vec<_> = fs::read_dir(&provisions).unwrap().map(|it| it.unwrap().path()).collect();
    assert!(!files.is_empty(), "what was made is noted in {}", provisions.display());
    let whole: Vec<_> = files.iter().map(|it| fs::read(it).unwrap()).collect();
    for (what, damage) in [("emptied", &b""[..]), ("cut", &whole[0][..whole[0].len() / 2]), ("zeros", &[0; 400])] {
        disk.kill();
        files.iter().for_each(|it| fs::write(it, damage).unwrap());
        disk.start(case);
        pass_the_delay(case, &case.path("manifests"));
        disk.canary_lives(case, what);
        disk.pod_has_it(case, what);
        disk.kill();
        files.iter().zip(&whole).for_each(|(it, whole)| fs::write(it, whole).unwrap());
        disk.start(case);
    }
    case.wait_mounted(&["app"]);
    disk.pod_has_it(case, "what was noted is put right");
    disk.end(case);
}

/// With the delay that is there unless somebody says otherwise.
fn a_removed_claim_that_comes_back_keeps_its_volume(case: &Case) {
    let mut disk = Disk::make(case, &[], &[("app.yaml", APP.into()), ("data.yaml", CLAIM.into())]);
    case.remove_manifest("app.yaml");
    case.take_away("data.yaml", &["app"]);
    pass_the_delay(case, &case.path("manifests"));
    disk.canary_lives(case, "the claim was removed a moment ago");
    disk.kill();
    disk.start(case);
    pass_the_delay(case, &case.path("manifests"));
    disk.canary_lives(case, "the claim was removed a moment ago, and a kill");
    case.manifest("data.yaml", CLAIM);
    case.manifest("app.yaml", APP);
    case.wait_mounted(&["app"]);
    disk.pod_has_it(case, "the claim is back");
    assert!(!log(case).contains("was deleted"));
    disk.end(case);
}

fn the_torn_manifest_of_a_claim_is_renamed(case: &Case) {
    let mut disk = Disk::make(case, &AT_ONCE, &one_file());
    let manifests = case.path("manifests");
    overwrite(&manifests.join("all.yaml"), MAP);
    pass_the_delay(case, &manifests);
    fs::rename(manifests.join("all.yaml"), manifests.join("10-all.yaml")).unwrap();
    pass_the_delay(case, &manifests);
    disk.canary_lives(case, "torn and renamed");
    disk.pod_has_it(case, "torn and renamed");
    disk.kill();
    disk.start(case);
    pass_the_delay(case, &manifests);
    disk.canary_lives(case, "torn and renamed, and a kill");
    case.remove_manifest("10-all.yaml");
    case.manifest("all.yaml", &all());
    case.wait_mounted(&["app"]);
    disk.pod_has_it(case, "put right");
    disk.end(case);
}

/// What is left ends as the file ended before, so it looks like a removal from the middle.
fn the_writer_of_a_claim_in_another_order_is_killed(case: &Case) {
    let disk = Disk::make(case, &AT_ONCE, &[("all.yaml", format!("{APP}---\n{CLAIM}---\n{MAP}"))]);
    overwrite(&case.path("manifests/all.yaml"), MAP);
    pass_the_delay(case, &case.path("manifests"));
    disk.canary_lives(case, "a write in another order that was interrupted");
    disk.pod_has_it(case, "a write in another order that was interrupted");
    let told = case.ask(&["describe", "node"]);
    assert!(told.contains("was written in place without it"), "{told}");
    disk.end(case);
}

fn the_mount_of_a_claim_goes_with_its_mount_point(case: &Case) {
    let (source, below) = (case.path("source"), case.path("manifests/below"));
    fs::create_dir_all(&source).unwrap();
    fs::create_dir_all(&below).unwrap();
    mount_bind(&source, &below).unwrap();
    put(&source, "all.yaml", &all());
    let disk = Disk::make(case, &AT_ONCE, &[]);
    unmount(&below, UnmountFlags::DETACH).unwrap();
    fs::remove_dir(&below).unwrap();
    pass_the_delay(case, &case.path("manifests"));
    disk.canary_lives(case, "unmounted, and its mount point removed");
    disk.pod_has_it(case, "unmounted, and its mount point removed");
    disk.end(case);
}

/// Long enough to do something in, and short enough to wait for.
const SOON: [&str; 2] = ["--delete-delay", "4s"];

/// The pod and the claim are removed, and the volume waits for its deletion.
fn remove_both(case: &Case, manifests: &Path) {
    fs::remove_file(manifests.join("app.yaml")).unwrap();
    fs::remove_file(manifests.join("data.yaml")).unwrap();
    case.wait_unmounted(&["app"]);
    until_told(case, 0, "DeletePending");
}

fn two_files() -> [(&'static str, String); 2] {
    [("app.yaml", APP.into()), ("data.yaml", CLAIM.into())]
}

/// All other files are at the bare mount point too, so nothing that is in force is missing there.
fn the_manifests_are_swapped_while_a_claim_waits_for_its_deletion(case: &Case) {
    let (source, manifests) = (case.path("source"), case.path("manifests"));
    fs::create_dir_all(&source).unwrap();
    put(&manifests, "class.yaml", crate::driver::CLASS);
    mount_bind(&source, &manifests).unwrap();
    let disk = Disk::make(case, &SOON, &two_files());
    remove_both(case, &source);
    unmount(&manifests, UnmountFlags::DETACH).unwrap();
    put(&source, "data.yaml", CLAIM);
    put(&source, "app.yaml", APP);
    for what in ["swapped", "swapped, a while later", "swapped, a long while later"] {
        pass_the_delay_blindly(case);
        disk.canary_lives(case, what);
    }
    mount_bind(&source, &manifests).unwrap();
    disk.daemon.as_ref().unwrap().signal(Signal::HUP);
    case.wait_mounted(&["app"]);
    disk.pod_has_it(case, "the manifests are back");
    disk.end(case);
}

/// Nothing tells of a file system that covers a directory, nor of what is done in it.
fn the_manifests_are_covered_while_a_claim_waits_for_its_deletion(case: &Case) {
    let manifests = case.path("manifests");
    let disk = Disk::make(case, &SOON, &two_files());
    remove_both(case, &manifests);
    mount("new", &manifests, "tmpfs", MountFlags::empty(), None).unwrap();
    for (file, text) in [("class.yaml", crate::driver::CLASS), ("data.yaml", CLAIM), ("app.yaml", APP)] {
        put(&manifests, file, text);
    }
    for what in ["covered", "covered, a while later"] {
        pass_the_delay_blindly(case);
        disk.canary_lives(case, what);
    }
    disk.daemon.as_ref().unwrap().signal(Signal::HUP);
    case.wait_mounted(&["app"]);
    disk.pod_has_it(case, "the claim is there again");
    disk.end(case);
}

/// Whoever sees that something is wrong has all of the time once it is right again.
fn a_manifest_is_torn_and_mended_while_a_claim_waits_for_its_deletion(case: &Case) {
    let manifests = case.path("manifests");
    let disk = Disk::make(case, &SOON, &two_files());
    put(&manifests, "more.yaml", MAP);
    remove_both(case, &manifests);
    overwrite(&manifests.join("more.yaml"), "");
    pass_the_delay_blindly(case);
    pass_the_delay_blindly(case);
    put(&manifests, "more.yaml", MAP);
    pass_the_delay_blindly(case);
    disk.canary_lives(case, "a manifest that was torn is mended");
    put(&manifests, "data.yaml", CLAIM);
    put(&manifests, "app.yaml", APP);
    case.wait_mounted(&["app"]);
    disk.pod_has_it(case, "the claim is back");
    disk.end(case);
}

/// The volume of the claim as a persistent volume that somebody writes, who says this of it, too.
fn persistent(case: &Case, policy: &str) -> String {
    let claim = case.json(&["get", "claim", "data"]);
    let handle = claim["status"]["volumeHandle"].as_str().unwrap();
    format!(
        "apiVersion: v1\nkind: PersistentVolume\nmetadata: {{name: mine}}\nspec:\n  capacity: {{storage: 16Mi}}\n  \
         accessModes: [ReadWriteOnce]\n  csi: {{driver: {DRIVER}, volumeHandle: {handle}}}\n  {policy}\n"
    )
}

/// A claim is moved over to a persistent volume that is written by hand, which says Retain or nothing, and both go.
fn a_claim_goes_together_with_the_persistent_volume_that_said_retain(case: &Case) {
    let manifests = case.path("manifests");
    let mut disk = Disk::make(case, &AT_ONCE, &two_files());
    fs::remove_file(manifests.join("app.yaml")).unwrap();
    case.wait_unmounted(&["app"]);
    let fixed = CLAIM.replace("spec:", "spec:\n  volumeName: mine");
    assert_ne!(fixed, CLAIM);
    put(&manifests, "data.yaml", &format!("{}---\n{fixed}", persistent(case, "")));
    pass_the_delay(case, &manifests);
    fs::remove_file(manifests.join("data.yaml")).unwrap();
    for what in ["both are gone", "both are gone, and a kill"] {
        pass_the_delay(case, &manifests);
        disk.canary_lives(case, what);
        assert!(case.ask(&["get", "claims", "-o", "wide"]).contains("Retain"), "{what}");
        disk.kill();
        disk.start(case);
    }
    disk.end(case);
}

/// What keeps a volume may be away by accident, as its claim may be.
fn the_volume_that_keeps_the_volume_of_a_claim_is_away_for_a_moment(case: &Case) {
    let manifests = case.path("manifests");
    let disk = Disk::make(case, &SOON, &two_files());
    let mine = persistent(case, "persistentVolumeReclaimPolicy: Delete");
    remove_both(case, &manifests);
    put(&manifests, "mine.yaml", &mine);
    for _ in 0..2 {
        pass_the_delay_blindly(case);
    }
    disk.canary_lives(case, "another volume names it");
    let since = logged(case);
    fs::remove_file(manifests.join("mine.yaml")).unwrap();
    until_told(case, since, "DeletePending");
    put(&manifests, "mine.yaml", &mine);
    for what in ["away for a moment", "away for a moment, a while ago"] {
        pass_the_delay_blindly(case);
        disk.canary_lives(case, what);
    }
    disk.end(case);
}

/// What an earlier life saw go may be back in manifests that this one does not see: it has all of the time to be seen.
fn the_manifests_are_not_mounted_at_a_start_while_a_claim_waits_for_its_deletion(case: &Case) {
    let (source, manifests) = (case.path("source"), case.path("manifests"));
    fs::create_dir_all(&source).unwrap();
    mount_bind(&source, &manifests).unwrap();
    let mut disk = Disk::make(case, &SOON, &two_files());
    remove_both(case, &source);
    for _ in 0..5 {
        disk.kill();
        put(&source, "data.yaml", CLAIM);
        put(&source, "app.yaml", APP);
        unmount(&manifests, UnmountFlags::DETACH).unwrap();
        let since = logged(case);
        disk.start(case);
        until_told(case, since, "DeletePending");
        disk.canary_lives(case, "a start on a bare mount point");
        mount_bind(&source, &manifests).unwrap();
    }
    disk.kill();
    disk.start(case);
    case.wait_mounted(&["app"]);
    disk.pod_has_it(case, "the manifests are back");
    disk.end(case);
}

/// How the state directory, or a part of it, goes while the daemon runs.
type Removal<'a> = (&'a str, &'a dyn Fn());

/// Removes something of the state directory while the daemon runs and no pod has the volume. Whether the daemon goes on or
/// ends, it says so, and the claim has its volume after the next start.
fn removed_below_the_state(case: &Case, removals: &[Removal<'_>], ends: bool) {
    let mut disk = Disk::make(case, &AT_ONCE, &two_files());
    for (what, remove) in removals {
        fs::remove_file(case.path("manifests/app.yaml")).unwrap();
        case.wait_unmounted(&["app"]);
        let since = logged(case);
        remove();
        let mut daemon = disk.daemon.take().unwrap();
        if ends {
            assert!(!daemon.says("nothing, for it ends"), "after {what} it goes on");
            until_told(case, since, "was removed, moved or emptied while the node ran");
        } else {
            until_told(case, since, "was removed, and is written anew");
            put(&case.path("manifests"), "witness.yaml", &pod("witness"));
            case.wait_mounted(&["witness"]);
            case.take_away("witness.yaml", &["witness"]);
        }
        disk.canary_lives(case, what);
        daemon.kill();
        disk.start(case);
        put(&case.path("manifests"), "app.yaml", APP);
        let output = case.output(&["wait", "--timeout", "20s", "app"]);
        assert!(output.status.success(), "after {what} {}\n{}", case.ask(&["explain"]), log(case));
        disk.canary_lives(case, &format!("{what}, and a start"));
        disk.pod_has_it(case, &format!("{what}, and a start"));
    }
    disk.end(case);
}

fn the_state_directory_is_removed_while_a_claim_has_a_volume(case: &Case) {
    let state = case.path("root/windlass");
    removed_below_the_state(
        case,
        &[
            ("the state directory was removed", &|| while fs::remove_dir_all(&state).is_err() {}),
            ("the state directory was moved away", &|| fs::rename(&state, case.path("away")).unwrap()),
            ("the records were removed", &|| fs::remove_dir_all(state.join("records")).unwrap()),
        ],
        true,
    );
}

fn the_notes_of_a_claim_are_removed_while_it_has_a_volume(case: &Case) {
    let notes = case.path("root/windlass/provisions");
    removed_below_the_state(
        case,
        &[
            ("the notes were removed", &|| {
                for note in fs::read_dir(&notes).unwrap() {
                    fs::remove_file(note.unwrap().path()).unwrap();
                }
            }),
            ("the directory of the notes was moved away", &|| fs::rename(&notes, case.path("away")).unwrap()),
        ],
        false,
    );
}
