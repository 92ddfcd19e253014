//! Scratch space on disk, in memory and in huge pages.

use std::fs::File;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;

use k8s_openapi::api::core::v1::{Node, Pod};
use k8s_openapi::serde_json::{self, Value, json};
use windlass::inner::{Failure, Left, Made, VolumeForm, mount_proof};
use windlass::manifest::Object;
use windlass_core::operation::{Cause, Earlier, Obstacle};
use windlass_linux::abilities::Abilities;
use windlass_linux::mount::{self, Extent, Tmpfs};
use windlass_linux::safe_path::Place;
use windlass_testing::namespace::privileged;

use crate::case::Case;
use crate::tests;
use crate::volume::{POD, Volume};

tests![
    a_volume_on_disk_is_made_from_whatever_is_left_of_it,
    a_volume_in_memory_is_a_mount_with_a_size,
    a_volume_in_memory_is_made_from_whatever_is_left_of_it,
    a_volume_belongs_to_the_pods_group,
    the_content_of_a_volume_on_disk_goes_with_it_and_links_are_not_followed,
    a_mount_in_a_volume_on_disk_keeps_everything,
    a_foreign_mount_on_a_volume_is_not_touched,
    a_foreign_tmpfs_over_or_in_place_of_a_volume_in_memory_is_not_touched,
    a_file_below_an_unmounted_mount_point_survives_and_is_named,
    what_is_held_open_is_told_and_goes_later,
    a_mount_in_a_volume_in_memory_is_named,
    a_full_disk_is_told_wherever_it_is_full,
    a_disk_that_can_only_be_read_is_told,
    a_mount_point_of_the_kubelet_is_closed_before_it_is_used_again,
    a_file_beside_the_note_is_named_and_kept,
    a_file_in_place_of_a_volume_is_no_volume,
    an_unknown_medium_and_an_odd_size_are_refused,
    huge_pages_are_mounted_by_their_size,
    huge_pages_that_are_refused_leave_an_open_directory,
    what_is_left_of_a_cloned_repository_goes,
];

const PARENT: &str = "root/pods/uid/volumes/kubernetes.io~empty-dir";
const VOLUME: &str = "root/pods/uid/volumes/kubernetes.io~empty-dir/v";
const NOTE: &str = "root/pods/uid/plugins/kubernetes.io~empty-dir/v/ready";

/// All that there is before and after.
const EMPTY: &str = "\
d 0750 plugins
d 0750 pods
d 0750 pods/uid
d 0750 pods/uid/plugins
d 0750 pods/uid/plugins/kubernetes.io~empty-dir
d 0750 pods/uid/volumes
d 0755 pods/uid/volumes/kubernetes.io~empty-dir";

fn disk(case: &Case) -> Volume {
    Volume::new(case, json!({"emptyDir": {}}), json!({}))
}

fn memory(case: &Case) -> Volume {
    Volume::new(case, json!({"emptyDir": {"medium": "Memory", "sizeLimit": "1Mi"}}), json!({}))
}

#[track_caller]
fn obstacle<T: std::fmt::Debug>(outcome: Result<T, Failure>) -> (Obstacle, String) {
    let failure = outcome.unwrap_err();
    let Cause::Node(obstacle) = failure.cause else { panic!("{failure:?}") };
    (obstacle, failure.text)
}

/// T-1, P-60..P-62, P-72.
fn a_volume_on_disk_is_made_from_whatever_is_left_of_it(case: &Case) {
    let volume = disk(case);
    for (note, directory) in [(false, false), (false, true), (true, false), (true, true)] {
        if note {
            case.file(NOTE, "");
        }
        if directory {
            case.file(&format!("{VOLUME}/kept"), "contents");
            std::fs::set_permissions(case.path(VOLUME), std::fs::Permissions::from_mode(0o777)).unwrap();
        }
        let made = volume.publish(case, Earlier::Unknown).unwrap();
        assert_eq!((&made.form, &made.path), (&VolumeForm::Directory, &case.path(VOLUME)));
        assert_eq!((case.mode(VOLUME), case.mode(NOTE), case.read(NOTE)), (0o777, 0o644, String::new()));
        assert_eq!(case.mounted(VOLUME), None);
        assert_eq!(case.path(VOLUME).join("kept").exists(), directory);
        assert_eq!(volume.publish(case, Earlier::Success).unwrap(), made, "again");
        volume.unpublish(case, (note == directory).then_some(&made)).unwrap();
        if !note && !directory {
            assert_eq!(case.tree(), EMPTY);
        }
        assert!(!case.path(VOLUME).exists() && !case.path(NOTE).parent().unwrap().exists(), "{note} {directory}");
        volume.unpublish(case, None).unwrap();
    }
}

/// P-63, P-64.
fn a_volume_in_memory_is_a_mount_with_a_size(case: &Case) {
    let node: Node = serde_json::from_value(json!({
        "metadata": {"name": "node-1"},
        "status": {"allocatable": {"memory": "64Mi"}},
    }))
    .unwrap();
    case.put(Object::from(node));
    let unlimited = json!({"emptyDir": {"medium": "Memory"}});
    for (source, spec, size) in [
        (json!({"emptyDir": {"medium": "Memory", "sizeLimit": "1500k"}}), json!({}), "1468k"),
        (json!({"emptyDir": {"medium": "Memory", "sizeLimit": "16Gi"}}), json!({}), "65536k"),
        (json!({"emptyDir": {"medium": "Memory", "sizeLimit": "0"}}), json!({}), "65536k"),
        (unlimited.clone(), json!({}), "65536k"),
        (unlimited, json!({"resources": {"limits": {"memory": "32Mi"}}}), "32768k"),
    ] {
        let volume = Volume::new(case, source, spec);
        let made = volume.publish(case, Earlier::Nothing).unwrap();
        let mount = case.mounted(VOLUME).unwrap();
        assert_eq!((mount.kind.to_str(), mount.source.to_str()), (Some("tmpfs"), Some("tmpfs")));
        assert_eq!(mount.super_option("size").unwrap(), size);
        let noswap = Abilities::of_this_kernel().tmpfs_noswap.is_present();
        assert_eq!(mount.super_option("noswap").is_some(), noswap, "P-65");
        assert_eq!((&made.form, made.proof), (&VolumeForm::Mount(case.path(VOLUME)), mount_proof(&mount)));
        assert_eq!((case.mode(VOLUME), case.mode(PARENT), case.mode(NOTE)), (0o1777, 0o755, 0o644));
        case.file(&format!("{VOLUME}/file"), "contents");
        assert_eq!(volume.publish(case, Earlier::Success).unwrap(), made, "again");
        assert_eq!(case.read(&format!("{VOLUME}/file")), "contents");
        volume.unpublish(case, Some(&made)).unwrap();
        assert_eq!(case.tree(), EMPTY);
        volume.unpublish(case, Some(&made)).unwrap();
    }
}

/// P-61, P-77, P-299: a kill at any point, and a reboot.
fn a_volume_in_memory_is_made_from_whatever_is_left_of_it(case: &Case) {
    let volume = memory(case);
    for (note, directory, mount) in
        [(false, true, false), (false, true, true), (true, false, false), (true, true, false), (true, true, true)]
    {
        if note {
            case.file(NOTE, "");
        }
        if directory {
            case.directory(VOLUME);
        }
        if mount {
            case.tmpfs(VOLUME);
        }
        let before = case.mounted(VOLUME).map(|it| it.id);
        if mount && !note {
            // Neither a record nor a note tells of it, so it is somebody else's.
            assert_eq!(obstacle(volume.publish(case, Earlier::Unknown)).0, Obstacle::InTheWay);
            case.unmount(VOLUME);
            volume.unpublish(case, None).unwrap();
            continue;
        }
        let made = volume.publish(case, Earlier::Unknown).unwrap();
        let after = case.mounted(VOLUME).unwrap();
        assert!(before.is_none_or(|it| it == after.id), "what is mounted stays");
        assert_eq!(made.proof, mount_proof(&after));
        assert!(case.path(NOTE).exists());
        volume.unpublish(case, None).unwrap();
        assert!(!case.path(VOLUME).exists(), "{note} {directory} {mount}");
    }
    // What was mounted when the process ended is known by what was recorded before that.
    volume.publish(case, Earlier::Nothing).unwrap();
    std::fs::remove_file(case.path(NOTE)).unwrap();
    let before = case.mounted(VOLUME).unwrap();
    assert_eq!(volume.publish(case, Earlier::Unknown).unwrap().proof, mount_proof(&before));
    assert!(case.path(NOTE).exists(), "and it is finished");
    volume.unpublish(case, None).unwrap();
    // Between a mount and its end, by hand: nobody else can write there.
    volume.publish(case, Earlier::Nothing).unwrap();
    case.unmount(VOLUME);
    assert_eq!(case.mode(VOLUME), 0o750);
    volume.publish(case, Earlier::Success).unwrap();
    assert!(case.mounted(VOLUME).is_some(), "what was taken away is made again");
    volume.unpublish(case, None).unwrap();
}

/// P-69, P-70.
fn a_volume_belongs_to_the_pods_group(case: &Case) {
    if !privileged("volumes of other groups") {
        return;
    }
    let group = |policy: Option<&str>| json!({"securityContext": {"fsGroup": 2000, "fsGroupChangePolicy": policy}});
    for policy in [None, Some("Always"), Some("OnRootMismatch")] {
        let volume = Volume::new(case, json!({"emptyDir": {}}), group(policy));
        case.file(&format!("{VOLUME}/left"), "");
        volume.publish(case, Earlier::Unknown).unwrap();
        assert_eq!((case.mode(VOLUME), case.group(VOLUME)), (0o2777, 2000));
        assert_eq!(case.group(&format!("{VOLUME}/left")), 2000);
        volume.publish(case, Earlier::Success).unwrap();
        assert_eq!(case.mode(VOLUME), 0o2777, "again");
        volume.unpublish(case, None).unwrap();

        let volume = Volume::new(case, json!({"emptyDir": {"medium": "Memory"}}), group(policy));
        volume.publish(case, Earlier::Nothing).unwrap();
        assert_eq!((case.mode(VOLUME), case.group(VOLUME)), (0o3777, 2000));
        volume.unpublish(case, None).unwrap();
        assert!(!case.path(VOLUME).exists());
    }
    assert_eq!(case.group(PARENT), 0);
}

fn the_content_of_a_volume_on_disk_goes_with_it_and_links_are_not_followed(case: &Case) {
    case.file("kept/file", "contents");
    let volume = disk(case);
    let made = volume.publish(case, Earlier::Nothing).unwrap();
    for record in [Some(&made), None] {
        volume.publish(case, Earlier::Unknown).unwrap();
        case.file(&format!("{VOLUME}/deep/er/file"), "contents");
        symlink(case.path("kept"), case.path(VOLUME).join("link")).unwrap();
        volume.unpublish(case, record).unwrap();
        assert_eq!(case.tree(), EMPTY);
        assert_eq!(case.read("kept/file"), "contents");
    }
}

/// W-20.
fn a_mount_in_a_volume_on_disk_keeps_everything(case: &Case) {
    let volume = disk(case);
    let made = volume.publish(case, Earlier::Nothing).unwrap();
    case.file(&format!("{VOLUME}/file"), "contents");
    case.tmpfs(&format!("{VOLUME}/inside"));
    case.file(&format!("{VOLUME}/inside/file"), "contents");
    for record in [None, Some(&made)] {
        let (obstacle, text) = obstacle(volume.unpublish(case, record));
        assert_eq!(obstacle, Obstacle::InTheWay);
        assert!(text.contains("v/inside: it is a mount point"), "{text}");
        assert_eq!(case.read(&format!("{VOLUME}/file")), "contents");
        assert_eq!(case.read(&format!("{VOLUME}/inside/file")), "contents");
    }
    case.unmount(&format!("{VOLUME}/inside"));
    volume.unpublish(case, Some(&made)).unwrap();
    assert_eq!(case.tree(), EMPTY);
}

/// W-20.
fn a_foreign_mount_on_a_volume_is_not_touched(case: &Case) {
    case.file("host/file", "contents");
    let host = Place::root(case.path("host")).unwrap();
    for volume in [disk(case), memory(case)] {
        let made = volume.publish(case, Earlier::Nothing).unwrap();
        if made.form != VolumeForm::Directory {
            case.unmount(VOLUME);
        }
        // A part of a tmpfs, and no whole one.
        let target = Place::root(case.path(VOLUME)).unwrap();
        mount::bind(&host, Extent::One).unwrap().attach(&target).unwrap();
        for record in [Some(&made), None] {
            let (obstacle, text) = obstacle(volume.unpublish(case, record));
            assert_eq!(obstacle, Obstacle::InTheWay);
            assert!(text.contains("v is the mount point of something that is not ours: tmpfs tests"), "{text}");
        }
        for after in [Earlier::Nothing, Earlier::Unknown, Earlier::Success] {
            let failure = volume.publish(case, after).unwrap_err();
            assert_eq!((failure.left, failure.cause), (Left::Nothing, Cause::Node(Obstacle::InTheWay)));
        }
        assert_eq!(case.read(&format!("{VOLUME}/file")), "contents");
        case.unmount(VOLUME);
        volume.unpublish(case, Some(&made)).unwrap();
        assert_eq!(case.tree(), EMPTY);
    }
    assert_eq!(case.read("host/file"), "contents");
    let volume = disk(case);
    let made = volume.publish(case, Earlier::Nothing).unwrap();
    case.tmpfs(VOLUME);
    case.file(&format!("{VOLUME}/file"), "contents");
    assert_eq!(obstacle(volume.unpublish(case, Some(&made))).0, Obstacle::InTheWay, "a directory was made");
    assert_eq!(case.read(&format!("{VOLUME}/file")), "contents");
}

/// I-4.
fn a_foreign_tmpfs_over_or_in_place_of_a_volume_in_memory_is_not_touched(case: &Case) {
    for over in [true, false] {
        let volume = memory(case);
        let made = volume.publish(case, Earlier::Nothing).unwrap();
        if !over {
            case.unmount(VOLUME);
        }
        case.tmpfs(VOLUME);
        case.file(&format!("{VOLUME}/file"), "contents");
        assert_eq!(obstacle(volume.unpublish(case, Some(&made))).0, Obstacle::InTheWay);
        for after in [Earlier::Unknown, Earlier::Success] {
            assert_eq!(obstacle(volume.publish(case, after)).0, Obstacle::InTheWay);
        }
        assert_eq!(case.read(&format!("{VOLUME}/file")), "contents");
        case.unmount(VOLUME);
        assert_eq!(volume.publish(case, Earlier::Unknown).unwrap() == made, over);
        let made = Made::mount(&case.mounted(VOLUME).unwrap());
        volume.unpublish(case, Some(&made)).unwrap();
        assert_eq!(case.tree(), EMPTY);
    }
}

/// I-5.
fn a_file_below_an_unmounted_mount_point_survives_and_is_named(case: &Case) {
    let volume = memory(case);
    let made = volume.publish(case, Earlier::Nothing).unwrap();
    case.unmount(VOLUME);
    case.file(&format!("{VOLUME}/deep/diary"), "contents");
    for record in [Some(&made), None] {
        let (obstacle, text) = obstacle(volume.unpublish(case, record));
        assert_eq!(obstacle, Obstacle::InTheWay);
        assert!(text.ends_with("v/deep/diary: a file that is not ours"), "{text}");
    }
    // The same if it is found only once the volume is unmounted.
    volume.publish(case, Earlier::Unknown).unwrap();
    assert_eq!(obstacle(volume.unpublish(case, None)).0, Obstacle::InTheWay);
    assert_eq!(case.mounted(VOLUME), None);
    assert_eq!(case.read(&format!("{VOLUME}/deep/diary")), "contents");
    std::fs::remove_file(case.path(VOLUME).join("deep/diary")).unwrap();
    volume.unpublish(case, None).unwrap();
    assert_eq!(case.tree(), EMPTY);
}

fn what_is_held_open_is_told_and_goes_later(case: &Case) {
    let volume = memory(case);
    let made = volume.publish(case, Earlier::Nothing).unwrap();
    let held = File::create(case.path(VOLUME).join("file")).unwrap();
    let (obstacle, text) = obstacle(volume.unpublish(case, Some(&made)));
    assert_eq!(obstacle, Obstacle::HeldOpen, "{text}");
    assert!(case.mounted(VOLUME).is_some());
    assert!(!case.path(NOTE).exists(), "P-296: no longer finished");
    drop(held);
    volume.unpublish(case, Some(&made)).unwrap();
    assert_eq!(case.tree(), EMPTY);
}

fn a_mount_in_a_volume_in_memory_is_named(case: &Case) {
    let volume = memory(case);
    let made = volume.publish(case, Earlier::Nothing).unwrap();
    case.tmpfs(&format!("{VOLUME}/inside"));
    case.file(&format!("{VOLUME}/inside/file"), "contents");
    let (obstacle, text) = obstacle(volume.unpublish(case, Some(&made)));
    assert_eq!(obstacle, Obstacle::HeldOpen);
    assert!(text.ends_with(&format!("(mounted in it: {}/inside)", case.path(VOLUME).display())), "{text}");
    assert_eq!(case.read(&format!("{VOLUME}/inside/file")), "contents");
}

fn a_full_disk_is_told_wherever_it_is_full(case: &Case) {
    let mut failures = 0;
    // The root directory, `pods` and `plugins` are there in any case.
    for inodes in 3..=12 {
        let settings = Tmpfs { inodes_max: Some(inodes), ..Tmpfs::default() };
        let small = case.on(&format!("small-{inodes}"), &settings);
        for volume in [disk(&small), memory(&small)] {
            let made = volume.publish(&small, Earlier::Nothing);
            match &made {
                Ok(made) => assert_eq!(made.path, small.path(VOLUME)),
                Err(failure) => {
                    assert_eq!(failure.cause, Cause::Node(Obstacle::NoSpace), "{failure}");
                    assert!(failure.left == Left::Something || small.mounted(VOLUME).is_none());
                    failures += 1;
                }
            }
            volume.unpublish(&small, made.as_ref().ok()).unwrap();
            assert!(!small.path(VOLUME).exists() && !small.path(NOTE).exists());
        }
    }
    // Three directories of the pod, one of the plugin, the volume, two directories and a file for the note.
    assert_eq!(failures, 2 * 8);
}

fn a_disk_that_can_only_be_read_is_told(case: &Case) {
    let other = case.on("other", &Tmpfs::default());
    let root = Place::root(other.path("root")).unwrap();
    let read_only = mount::Attributes::MOUNT_ATTR_RDONLY;
    let volume = disk(&other);
    let made = volume.publish(&other, Earlier::Nothing).unwrap();
    mount::set_attributes(&root, read_only, mount::Attributes::empty(), Extent::One).unwrap();
    assert_eq!(obstacle(volume.unpublish(&other, Some(&made))).0, Obstacle::ReadOnlyFileSystem);
    assert_eq!(volume.publish(&other, Earlier::Success).unwrap(), made, "what is there needs no writing");
    let pod: Pod = serde_json::from_value(json!({
        "metadata": {"namespace": "default", "name": "other", "uid": "other"},
        "spec": {
            "containers": [{"name": "main", "volumeMounts": [{"name": "v", "mountPath": "/v"}]}],
            "volumes": [{"name": "v", "emptyDir": {}}],
        },
    }))
    .unwrap();
    let failure = Volume::of(&other, pod).publish(&other, Earlier::Nothing).unwrap_err();
    assert_eq!((failure.left, failure.cause), (Left::Nothing, Cause::Node(Obstacle::ReadOnlyFileSystem)));
}

fn a_mount_point_of_the_kubelet_is_closed_before_it_is_used_again(case: &Case) {
    case.directory(VOLUME);
    std::fs::set_permissions(case.path(VOLUME), std::fs::Permissions::from_mode(0o777)).unwrap();
    case.file(NOTE, "");
    let volume = memory(case);
    volume.publish(case, Earlier::Unknown).unwrap();
    case.unmount(VOLUME);
    assert_eq!(case.mode(VOLUME), 0o750);
}

fn a_file_beside_the_note_is_named_and_kept(case: &Case) {
    let volume = disk(case);
    let made = volume.publish(case, Earlier::Nothing).unwrap();
    case.file(&NOTE.replace("ready", "diary"), "contents");
    let (obstacle, text) = obstacle(volume.unpublish(case, Some(&made)));
    assert_eq!(obstacle, Obstacle::InTheWay);
    assert!(text.ends_with("v/diary: a file that is not ours"), "{text}");
    assert!(case.path(VOLUME).exists(), "the note comes first");
}

fn a_file_in_place_of_a_volume_is_no_volume(case: &Case) {
    case.file(VOLUME, "contents");
    case.file("kept", "");
    for volume in [disk(case), memory(case)] {
        for ready in [false, true] {
            if ready {
                case.file(NOTE, "");
            }
            let failure = volume.publish(case, Earlier::Nothing).unwrap_err();
            assert_eq!(failure.left, Left::Nothing);
            assert_eq!(failure.cause, Cause::Node(Obstacle::InTheWay), "{failure}");
        }
        std::fs::remove_file(case.path(NOTE)).unwrap();
    }
    assert_eq!(case.read(VOLUME), "contents");
}

/// P-71.
fn an_unknown_medium_and_an_odd_size_are_refused(case: &Case) {
    let before = case.tree();
    let refused = |source: Value| {
        let failure = Volume::new(case, json!({"emptyDir": source}), json!({})).publish(case, Earlier::Nothing);
        obstacle(failure)
    };
    let text = "unknown storage medium \"Bubble\"".to_owned();
    assert_eq!(refused(json!({"medium": "Bubble"})), (Obstacle::InputInvalid, text));
    let (obstacle, text) = refused(json!({"medium": "Memory", "sizeLimit": "lots"}));
    assert_eq!(obstacle, Obstacle::InputInvalid);
    assert!(text.starts_with("read the size limit: quantity \"lots\""), "{text}");
    assert_eq!(case.tree(), before);
}

fn huge(case: &Case, medium: &str, requests: &[&str]) -> Volume {
    let requests: serde_json::Map<String, Value> =
        requests.iter().map(|it| (format!("hugepages-{it}"), Value::from("4Mi"))).collect();
    let spec = json!({"resources": {"requests": requests}, "securityContext": {"fsGroup": 2000}});
    Volume::new(case, json!({"emptyDir": {"medium": medium}}), spec)
}

/// T-7, P-66, P-68.
fn huge_pages_are_mounted_by_their_size(case: &Case) {
    if !privileged("huge pages") {
        return;
    }
    if !Path::new("/sys/kernel/mm/hugepages/hugepages-2048kB").exists() {
        eprintln!("this machine has none of 2Mi: skipped huge pages");
        return;
    }
    let volume = huge(case, "HugePages", &["2Mi"]);
    let made = volume.publish(case, Earlier::Nothing).unwrap();
    let mount = case.mounted(VOLUME).unwrap();
    assert_eq!((mount.kind.to_str(), mount.source.to_str()), (Some("hugetlbfs"), Some("nodev")));
    assert_eq!(mount.super_option("pagesize").unwrap(), "2M");
    assert_eq!(mount.super_option("size"), None);
    assert_eq!((case.mode(VOLUME), case.group(VOLUME)), (0o2775, 2000));
    assert_eq!(made.proof, mount_proof(&mount));
    assert_eq!(volume.publish(case, Earlier::Success).unwrap(), made);
    let named = |medium| huge(case, medium, &["2Mi", "1Gi"]).publish(case, Earlier::Unknown);
    let (obstacle, text) = obstacle(named("HugePages-1Gi"));
    assert_eq!(obstacle, Obstacle::InTheWay);
    assert!(text.ends_with("is mounted with pages of 2Mi, and its medium is HugePages-1Gi"), "{text}");
    assert_eq!(named("HugePages-2Mi").unwrap(), made);
    assert_eq!(named("HugePages").unwrap(), made, "what is mounted need not be chosen");
    volume.unpublish(case, None).unwrap();
    assert_eq!(case.tree(), EMPTY);
}

/// T-5: the kubelet leaves them, group and all.
fn huge_pages_that_are_refused_leave_an_open_directory(case: &Case) {
    for (medium, requests) in [("HugePages", &[][..]), ("HugePages", &["2Mi", "1Gi"]), ("HugePages-x", &["2Mi"])] {
        let failure = huge(case, medium, requests).publish(case, Earlier::Nothing).unwrap_err();
        assert_eq!((failure.left, failure.cause), (Left::Nothing, Cause::Node(Obstacle::InputInvalid)));
        assert!(!case.path(NOTE).exists());
        if privileged("the group of what is left of huge pages") {
            assert_eq!((case.mode(VOLUME), case.group(VOLUME)), (0o2777, 2000));
        } else {
            assert_eq!(case.mode(VOLUME) & 0o777, 0o777);
        }
    }
    // A size that no kernel has.
    if privileged("huge pages of an odd size") {
        let failure = huge(case, "HugePages-3Mi", &["3Mi"]).publish(case, Earlier::Nothing).unwrap_err();
        assert_eq!((failure.left, case.mode(VOLUME)), (Left::Nothing, 0o2777), "{failure}");
    }
    huge(case, "HugePages", &[]).unpublish(case, None).unwrap();
    assert!(!case.path(VOLUME).exists());
}

/// P-208, P-305.
fn what_is_left_of_a_cloned_repository_goes(case: &Case) {
    let volume = Volume::new(case, json!({"gitRepo": {"repository": "https://git.example.com/repo.git"}}), json!({}));
    let pod = format!("root/pods/{POD}");
    case.file(&format!("{pod}/volumes/kubernetes.io~git-repo/v/repo/.git/config"), "contents");
    case.file(&format!("{pod}/plugins/kubernetes.io~git-repo/v/ready"), "");
    case.file(&format!("{pod}/plugins/kubernetes.io~empty-dir/wrapped_v/ready"), "");
    volume.unpublish(case, None).unwrap();
    let tree = case.tree();
    assert!(!tree.contains("v/") && !tree.contains("ready"), "{tree}");
    volume.unpublish(case, None).unwrap();
}
