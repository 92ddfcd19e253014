//! Directories of the node as persistent volumes (P-141..P-148). Devices are in `tests/root`.

mod claimed;

use std::os::unix::fs::symlink;
use std::path::Path;

use rustix::io::Errno;
use windlass::inner::{Failure, Left, Local, Plugin, VolumeForm};
use windlass_core::operation::{Cause, Earlier, Obstacle};
use windlass_core::spec::Mode;
use windlass_testing::namespace::privileged;

use crate::case::{Case, now};
use claimed::Claim;

crate::tests! {
    a_directory_is_bound_into_a_pod_and_stays_when_the_pod_goes,
    binding_twice_is_binding_once,
    a_pod_that_may_only_read_cannot_write,
    mount_options_become_attributes_of_the_mount,
    attributes_of_the_source_are_kept,
    a_link_is_followed_once_and_the_directory_is_what_counts,
    what_is_no_directory_is_refused_and_nothing_is_made,
    the_first_pod_decides_on_the_group,
    two_volumes_of_one_directory_are_shared_too,
    only_a_root_that_does_not_match_is_given_to_the_group_if_the_pod_says_so,
    a_change_of_the_group_that_was_cut_off_is_finished,
    a_group_that_cannot_be_is_refused,
    a_file_below_an_unmounted_directory_survives_and_is_named,
    something_in_place_of_the_mount_point_survives,
    a_foreign_mount_over_a_directory_stays,
    another_directory_at_the_pods_place_is_not_taken_for_the_volume,
    what_is_mounted_in_a_volume_is_named,
    without_a_record_the_bind_at_the_pods_place_goes,
    a_path_that_vanished_takes_nothing_away_and_keeps_nothing,
    what_was_staged_and_is_not_recorded_is_found_and_removed,
    a_file_where_devices_are_mounted_survives,
    a_directory_does_not_grow,
}

const OBSTACLE: Cause = Cause::Node(Obstacle::InTheWay);

fn expect(failure: &Failure, left: Left, cause: &Cause, text: &str) {
    assert_eq!((failure.left, &failure.cause), (left, cause), "{failure}");
    assert!(failure.text.contains(text), "{failure}");
}

/// A directory with something in it.
fn data(case: &Case) -> Claim {
    case.file("data/file", "kept");
    Claim::to(case.path("data"))
}

fn a_directory_is_bound_into_a_pod_and_stays_when_the_pod_goes(case: &Case) {
    let volume = data(case).by(case, "a");
    let staged = volume.stage().unwrap();
    assert_eq!((&staged.form, &staged.path), (&VolumeForm::Host, &case.path("data")));
    let made = volume.publish(Earlier::Nothing).unwrap();
    assert_eq!(made.path, case.path(&volume.place()));
    assert_eq!(made.form, VolumeForm::Mount(made.path.clone()));
    assert_eq!(case.read(&volume.inside("file")), "kept");
    case.file(&volume.inside("new"), "by the pod");
    assert_eq!(case.read("data/new"), "by the pod");
    volume.unpublish(Some(&made)).unwrap();
    volume.unstage().unwrap();
    let left = "d 0750 plugins\nd 0750 pods\nd 0750 pods/a\nd 0750 pods/a/plugins\nd 0750 pods/a/volumes\n\
                d 0750 pods/a/volumes/kubernetes.io~local-volume";
    assert_eq!(case.tree(), left);
    assert_eq!((case.read("data/file"), case.read("data/new")), ("kept".into(), "by the pod".into()));
}

fn binding_twice_is_binding_once(case: &Case) {
    let volume = data(case).by(case, "a");
    let made = volume.make();
    let mount = case.mounted(&volume.place()).unwrap();
    for after in [Earlier::Nothing, Earlier::Unknown, Earlier::Success] {
        volume.stage().unwrap();
        assert_eq!(volume.publish(after).unwrap(), made);
    }
    assert_eq!(case.mounted(&volume.place()).unwrap().id, mount.id);
    for _ in 0..2 {
        volume.unpublish(Some(&made)).unwrap();
        volume.unstage().unwrap();
    }
    assert!(!case.path(&volume.place()).exists());
}

fn a_pod_that_may_only_read_cannot_write(case: &Case) {
    let writer = data(case).by(case, "a");
    let reader = data(case).read_only().group(5000).by(case, "b");
    writer.make();
    let before = (case.mode("data"), case.group("data"));
    reader.make();
    let error = std::fs::write(case.path(&reader.inside("new")), "").unwrap_err();
    assert_eq!(Errno::from_io_error(&error), Some(Errno::ROFS));
    assert!(case.mounted(&reader.place()).unwrap().attribute_words().starts_with("ro"));
    case.file(&writer.inside("new"), "");
    assert_eq!((case.mode("data"), case.group("data")), before, "P-215");
}

fn mount_options_become_attributes_of_the_mount(case: &Case) {
    let options = ["nodev", "noexec", "noatime", "data=ordered", "_netdev"];
    let volume = data(case).volume("mountOptions", options.as_slice().into()).by(case, "a");
    volume.make();
    assert_eq!(case.mounted(&volume.place()).unwrap().attribute_words(), "rw,nodev,noexec,noatime");
    assert!(case.mounted("data").is_none(), "the source has no options");
}

fn attributes_of_the_source_are_kept(case: &Case) {
    use windlass_linux::mount;
    use windlass_linux::safe_path::Place;
    let root = case.tmpfs("data");
    let on = mount::Attributes::MOUNT_ATTR_NOSUID;
    mount::set_attributes(&root, on, mount::Attributes::empty(), mount::Extent::One).unwrap();
    drop::<Place>(root);
    let volume = data(case).volume("mountOptions", ["suid", "noexec"].as_slice().into()).by(case, "a");
    volume.make();
    assert_eq!(case.mounted(&volume.place()).unwrap().attribute_words(), "rw,nosuid,noexec,relatime");
}

fn a_link_is_followed_once_and_the_directory_is_what_counts(case: &Case) {
    case.file("one/file", "one");
    case.file("other/file", "other");
    symlink("one", case.path("link")).unwrap();
    let volume = Claim::to(case.path("link")).by(case, "a");
    let made = volume.make();
    std::fs::remove_file(case.path("link")).unwrap();
    symlink("other", case.path("link")).unwrap();
    assert_eq!(case.read(&volume.inside("file")), "one");
    expect(&volume.publish(Earlier::Unknown).unwrap_err(), Left::Nothing, &OBSTACLE, &volume.place());
    volume.unpublish(Some(&made)).unwrap();
    volume.make();
    assert_eq!(case.read(&volume.inside("file")), "other");
}

fn what_is_no_directory_is_refused_and_nothing_is_made(case: &Case) {
    case.file("file", "");
    case.directory("data");
    let (path, dots) = (case.path(""), case.path("data/../data"));
    let absent = format!("path \"{}absent\" does not exist", path.display());
    let dots_text = format!("invalid path: {} must not contain '..'", dots.display());
    let unusable = Cause::Node(Obstacle::HostPathUnusable);
    for (claim, text, staged) in [
        (Claim::to(case.path("absent")), absent.as_str(), false),
        (Claim::to(case.path("file")), "only directory and block device are supported", false),
        (Claim::to(dots), dots_text.as_str(), true),
        (Claim::to(case.path("data")).raw(), "is not a block device", false),
    ] {
        let volume = claim.by(case, "a");
        assert_eq!(volume.stage().is_ok(), staged, "{text}");
        expect(&volume.publish(Earlier::Nothing).unwrap_err(), Left::Nothing, &unusable, text);
        volume.unpublish(None).unwrap();
        volume.unstage().unwrap();
        assert_eq!(case.tree(), "d 0750 plugins\nd 0750 pods");
    }
}

/// P-145, E-308.
fn the_first_pod_decides_on_the_group(case: &Case) {
    if !privileged("other groups") {
        return;
    }
    let [first, same, second] =
        [("a", 5000), ("b", 5000), ("c", 6000)].map(|(uid, group)| data(case).group(group).by(case, uid));
    let all: Vec<_> = [&first, &same, &second].map(|it| it.make()).into_iter().collect();
    assert_eq!((case.group("data/file"), case.mode("data/file")), (5000, 0o664));
    assert_eq!((case.group("data"), case.mode("data")), (5000, 0o2775));
    let text = "The requested fsGroup is 6000, but the volume pv has GID 5000. The volume may not be shareable.";
    assert_eq!(second.told("AlreadyMountedVolume"), [text]);
    assert_eq!(same.told("AlreadyMountedVolume"), [""; 0]);
    second.publish(Earlier::Unknown).unwrap();
    assert_eq!((case.group("data"), second.told("AlreadyMountedVolume").len()), (5000, 1), "told once");
    for (volume, made) in [&first, &same, &second].into_iter().zip(&all) {
        volume.unpublish(Some(made)).unwrap();
    }
    second.make();
    assert_eq!((case.group("data/file"), case.group("data")), (6000, 6000));
}

fn two_volumes_of_one_directory_are_shared_too(case: &Case) {
    if !privileged("other groups") {
        return;
    }
    data(case).group(5000).by(case, "a").make();
    let second = data(case).group(6000).named("other").by(case, "b");
    second.make();
    assert_eq!(case.group("data"), 5000);
    assert!(second.told("AlreadyMountedVolume")[0].contains("the volume other has GID 5000"));
}

/// P-210.
fn only_a_root_that_does_not_match_is_given_to_the_group_if_the_pod_says_so(case: &Case) {
    if !privileged("other groups") {
        return;
    }
    let claim = || data(case).group(5000).group_policy("OnRootMismatch");
    let volume = claim().by(case, "a");
    let made = volume.make();
    assert_eq!(case.group("data/file"), 5000, "the root did not match");
    volume.unpublish(Some(&made)).unwrap();
    case.file("data/later", "");
    std::os::unix::fs::chown(case.path("data/later"), None, Some(0)).unwrap();
    let made = volume.make();
    assert_eq!(case.group("data/later"), 0, "the root matches");
    volume.unpublish(Some(&made)).unwrap();
    data(case).group(5000).group_policy("Always").by(case, "a").make();
    assert_eq!(case.group("data/later"), 5000);
}

fn a_change_of_the_group_that_was_cut_off_is_finished(case: &Case) {
    if !privileged("other groups") {
        return;
    }
    let made = data(case).by(case, "a").make();
    let volume = data(case).group(5000).by(case, "a");
    volume.publish(Earlier::Success).unwrap();
    assert_eq!(case.group("data"), 0, "after a success the pod has it, and it is left alone");
    assert_eq!(volume.publish(Earlier::Unknown).unwrap(), made);
    assert_eq!((case.group("data"), case.group("data/file")), (5000, 5000));
    case.file("data/later", "");
    std::os::unix::fs::chown(case.path("data/later"), None, Some(0)).unwrap();
    volume.publish(Earlier::Unknown).unwrap();
    assert_eq!(case.group("data/later"), 0, "what was finished is not done again below a running pod");
}

fn a_group_that_cannot_be_is_refused(case: &Case) {
    for group in [-1, i64::from(u32::MAX), i64::MAX] {
        let volume = data(case).group(group).by(case, "a");
        let failure = volume.publish(Earlier::Nothing).unwrap_err();
        expect(&failure, Left::Nothing, &Cause::Node(Obstacle::InputInvalid), "is no group");
    }
    assert_eq!(case.tree(), "d 0750 plugins\nd 0750 pods");
}

fn a_file_below_an_unmounted_directory_survives_and_is_named(case: &Case) {
    let volume = data(case).by(case, "a");
    let made = volume.make();
    case.unmount(&volume.place());
    case.file(&volume.inside("note"), "a user's");
    for made in [Some(&made), None] {
        expect(&volume.unpublish(made).unwrap_err(), Left::Something, &OBSTACLE, &volume.inside("note"));
    }
    assert_eq!(case.read(&volume.inside("note")), "a user's");
    assert_eq!(case.read("data/file"), "kept");
    // What a file hides is the pod's business no more than before: the volume can be made over it, and goes again.
    let made = volume.make();
    assert!(volume.unpublish(Some(&made)).is_err());
    assert_eq!(case.read(&volume.inside("note")), "a user's");
}

fn something_in_place_of_the_mount_point_survives(case: &Case) {
    let volume = data(case).by(case, "a");
    case.file(&volume.place(), "a user's");
    expect(&volume.publish(Earlier::Nothing).unwrap_err(), Left::Nothing, &OBSTACLE, "kubernetes.io~local-volume");
    expect(&volume.unpublish(None).unwrap_err(), Left::Something, &OBSTACLE, &volume.place());
    assert_eq!(case.read(&volume.place()), "a user's");
}

fn a_foreign_mount_over_a_directory_stays(case: &Case) {
    let volume = data(case).by(case, "a");
    let made = volume.make();
    drop(case.tmpfs(&volume.place()));
    case.file(&volume.inside("note"), "a user's");
    expect(&volume.unpublish(Some(&made)).unwrap_err(), Left::Something, &OBSTACLE, "is not ours: tmpfs");
    for after in [Earlier::Nothing, Earlier::Unknown, Earlier::Success] {
        expect(&volume.publish(after).unwrap_err(), Left::Nothing, &OBSTACLE, "is not ours: tmpfs");
    }
    assert_eq!(case.read(&volume.inside("note")), "a user's");
    case.unmount(&volume.place());
    assert_eq!(case.read(&volume.inside("file")), "kept", "ours is still below");
    volume.unpublish(Some(&made)).unwrap();
}

fn another_directory_at_the_pods_place_is_not_taken_for_the_volume(case: &Case) {
    case.file("other/file", "other");
    Claim::to(case.path("other")).by(case, "a").make();
    let volume = data(case).by(case, "a");
    expect(&volume.publish(Earlier::Unknown).unwrap_err(), Left::Nothing, &OBSTACLE, &volume.place());
    assert_eq!(case.read(&volume.inside("file")), "other");
}

fn what_is_mounted_in_a_volume_is_named(case: &Case) {
    let volume = data(case).by(case, "a");
    let made = volume.make();
    drop(case.tmpfs(&volume.inside("nested")));
    let failure = volume.unpublish(Some(&made)).unwrap_err();
    expect(&failure, Left::Something, &Cause::Node(Obstacle::HeldOpen), &volume.inside("nested"));
    case.unmount(&volume.inside("nested"));
    volume.unpublish(Some(&made)).unwrap();
    assert!(case.path("data/nested").exists());
}

fn without_a_record_the_bind_at_the_pods_place_goes(case: &Case) {
    let volume = data(case).by(case, "a");
    volume.make();
    volume.unpublish(None).unwrap();
    assert!(!case.path(&volume.place()).exists());
    assert_eq!(case.read("data/file"), "kept");
}

/// P-148.
fn a_path_that_vanished_takes_nothing_away_and_keeps_nothing(case: &Case) {
    let volume = data(case).by(case, "a");
    let made = volume.make();
    std::fs::rename(case.path("data"), case.path("elsewhere")).unwrap();
    let failure = volume.publish(Earlier::Unknown).unwrap_err();
    expect(&failure, Left::Nothing, &Cause::Node(Obstacle::HostPathUnusable), "does not exist");
    assert_eq!(case.read(&volume.inside("file")), "kept", "the pod still has it");
    volume.unpublish(Some(&made)).unwrap();
    volume.unstage().unwrap();
    assert!(!case.path(&volume.place()).exists());
    assert_eq!(case.read("elsewhere/file"), "kept");
}

const MOUNTS: &str = "root/plugins/kubernetes.io/local-volume/mounts";
const MAPS: &str = "root/plugins/kubernetes.io~local-volume/volumeDevices";

fn what_was_staged_and_is_not_recorded_is_found_and_removed(case: &Case) {
    assert_eq!(Local.staged(&case.scene).unwrap(), []);
    case.directory(&format!("{MOUNTS}/one"));
    case.directory(&format!("{MAPS}/two"));
    // What a map that was cut off leaves.
    case.file(&format!("{MAPS}/two/pod"), "");
    let found = Local.staged(&case.scene).unwrap();
    let names: Vec<_> = found.iter().map(|(spec, proof)| (spec.id.as_str(), spec.mode, proof.is_some())).collect();
    let (one, two) = ("kubernetes.io/local-volume/one", "kubernetes.io/local-volume/two");
    assert_eq!(names, [(one, Mode::Filesystem, false), (two, Mode::Block, false)]);
    for (spec, _) in &found {
        now(Local.unstage(&case.scene, spec)).unwrap();
        now(Local.unstage(&case.scene, spec)).unwrap();
    }
    assert_eq!(Local.staged(&case.scene).unwrap(), []);
    assert!(case.path(MOUNTS).exists() && case.path(MAPS).exists());
}

fn a_file_where_devices_are_mounted_survives(case: &Case) {
    for directory in [MOUNTS, MAPS] {
        let note = format!("{directory}/one/note");
        case.file(&note, "a user's");
        let (spec, _) = Local.staged(&case.scene).unwrap().into_iter().next_back().unwrap();
        expect(&now(Local.unstage(&case.scene, &spec)).unwrap_err(), Left::Something, &OBSTACLE, &note);
        assert_eq!(case.read(&note), "a user's");
    }
    // A mount that is not of a device is not ours.
    std::fs::remove_file(case.path(MOUNTS).join("one/note")).unwrap();
    drop(case.tmpfs(&format!("{MOUNTS}/one")));
    let (spec, proof) = Local.staged(&case.scene).unwrap().remove(0);
    assert!(proof.is_some());
    expect(&now(Local.unstage(&case.scene, &spec)).unwrap_err(), Left::Something, &OBSTACLE, "is not ours: tmpfs");
    assert!(case.mounted(&format!("{MOUNTS}/one")).is_some());
}

/// P-150.
fn a_directory_does_not_grow(case: &Case) {
    let volume = data(case).by(case, "a");
    assert_eq!(volume.expand(1 << 40).unwrap(), Some(1 << 40));
    assert!(Path::new(&case.path("data")).exists());
}
