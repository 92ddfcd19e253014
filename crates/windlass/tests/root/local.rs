//! Devices of the node as persistent volumes (P-141..P-150, P-247..P-252).

use std::ops::Deref;
use std::os::unix::fs::{FileTypeExt, MetadataExt, symlink};
use std::path::PathBuf;

use k8s_openapi::serde_json::json;
use windlass::inner::{Failure, Left, Local, Plugin, VolumeForm, mount_proof};
use windlass_core::operation::{Cause, Earlier, Obstacle};
use windlass_linux::name::Name;
use windlass_linux::safe_path::Place;
use windlass_linux::{block_map, device, loop_device};

use windlass_testing::disk::{self, MEBIBYTE};
use windlass_testing::harness::{FUSE, RESIZE};
use windlass_testing::silent::Silent;

use crate::case::Case;
use crate::claimed::Claim;

crate::tests! {
    a_device_is_formatted_once_and_shared_by_two_pods("blkid", "mkfs.ext4", "fsck"),
    an_xfs_is_made_and_grows_with_its_device("blkid", "mkfs.xfs", "xfs_growfs", "losetup"),
    an_ext4_grows_with_its_device(RESIZE, "blkid", "mkfs.ext4", "resize2fs", "losetup"),
    staging_twice_is_staging_once("blkid", "mkfs.ext4"),
    mount_options_reach_the_file_system("blkid", "mkfs.ext4"),
    an_empty_device_is_not_formatted_to_be_read("blkid"),
    another_type_of_file_system_is_told("blkid", "mkfs.ext4"),
    a_type_that_cannot_be_is_refused("blkid"),
    what_a_pod_still_has_is_not_unmounted("blkid", "mkfs.ext4"),
    another_device_in_its_place_is_in_the_way("blkid", "mkfs.ext4"),
    a_volume_that_is_not_staged_is_not_published("blkid", "mkfs.ext4"),
    a_device_whose_path_vanished_is_taken_away("blkid", "mkfs.ext4"),
    what_is_staged_is_found_with_its_proof("blkid", "mkfs.ext4"),
    a_raw_device_is_mapped_and_taken_away(),
    a_raw_device_is_mapped_for_two_pods(),
    mapping_twice_is_mapping_once(),
    a_file_in_place_of_the_link_survives_and_the_device_is_not_left_mapped(),
    another_raw_device_in_its_place_stays(),
    what_holds_a_device_for_a_kubelet_goes_with_it(),
    a_path_that_hangs_holds_up_nobody_else(FUSE),
}

const MOUNTS: &str = "root/plugins/kubernetes.io/local-volume/mounts";
const STAGED: &str = "root/plugins/kubernetes.io/local-volume/mounts/pv";
const MAPPED: &str = "root/plugins/kubernetes.io~local-volume/volumeDevices/pv";

const SMALL: u64 = 16 * MEBIBYTE;
/// The smallest that mkfs.xfs takes is 300 MiB.
const XFS: u64 = 320 * MEBIBYTE;

const OBSTACLE: Cause = Cause::Node(Obstacle::InTheWay);
const UNUSABLE: Cause = Cause::Node(Obstacle::HostPathUnusable);

fn expect(failure: &Failure, left: Left, cause: &Cause, text: &str) {
    assert_eq!((failure.left, &failure.cause), (left, cause), "{failure}");
    assert!(failure.text.contains(text), "{failure}");
}

/// A device, with a link to it as an administrator would make one.
struct Disk {
    device: disk::Disk,
    link: PathBuf,
}

impl Deref for Disk {
    type Target = disk::Disk;

    fn deref(&self) -> &disk::Disk {
        &self.device
    }
}

impl Disk {
    /// A device of zeroes, with a link to it of this name.
    fn new(case: &Case, name: &str, size_bytes: u64) -> Self {
        let disk =
            Self { device: disk::Disk::new(&case.path(&format!("{name}.img")), size_bytes), link: case.path(name) };
        symlink(&disk.path, &disk.link).unwrap();
        disk
    }
}

/// A claim to a device with a file system of this type.
fn typed(disk: &Disk, kind: &str) -> Claim {
    Claim::to(&disk.link).volume("local", json!({"path": disk.link, "fsType": kind}))
}

/// As the golden case local-device.
fn a_device_is_formatted_once_and_shared_by_two_pods(case: &Case) {
    let disk = Disk::new(case, "device", SMALL);
    let [one, two] = ["a", "b"].map(|uid| Claim::to(&disk.link).group(7000).by(case, uid));
    let staged = one.stage().unwrap();
    assert_eq!((&staged.path, &staged.form), (&case.path(STAGED), &VolumeForm::Mount(case.path(STAGED))));
    let (first, second) = (one.make(), two.make());
    let mounts = [STAGED.to_owned(), one.place(), two.place()].map(|it| case.mounted(&it).unwrap());
    for mount in &mounts {
        assert_eq!((mount.kind.to_str(), mount.attribute_words().as_str()), (Some("ext4"), "rw,relatime"));
        assert_eq!(mount.source, *disk.path.as_os_str());
    }
    for below in [STAGED, &one.place(), &two.place()] {
        assert_eq!((case.mode(below), case.group(below)), (0o2775, 7000));
        let inside = format!("{below}/lost+found");
        assert_eq!((case.mode(&inside), case.group(&inside)), (0o2770, 7000));
    }
    assert_eq!(two.told("AlreadyMountedVolume"), [""; 0]);
    case.file(&one.inside("file"), "kept");
    assert_eq!(case.read(&two.inside("file")), "kept");
    one.unpublish(Some(&first)).unwrap();
    assert_eq!(case.read(&two.inside("file")), "kept");
    two.unpublish(Some(&second)).unwrap();
    two.unstage().unwrap();
    assert!(case.path(MOUNTS).exists() && !case.path(STAGED).exists());
    assert!(!device::is_busy(&disk.path).unwrap());
    // Not formatted again.
    let reader = Claim::to(&disk.link).read_only().by(case, "c");
    let made = reader.make();
    assert_eq!(case.read(&reader.inside("file")), "kept");
    assert!(std::fs::write(case.path(&reader.inside("new")), "").is_err());
    assert!(case.mounted(STAGED).unwrap().is_read_only());
    reader.unpublish(Some(&made)).unwrap();
    reader.unstage().unwrap();
}

fn an_xfs_is_made_and_grows_with_its_device(case: &Case) {
    let disk = Disk::new(case, "device", XFS);
    grows(case, &disk, "xfs", XFS + 64 * MEBIBYTE);
}

fn an_ext4_grows_with_its_device(case: &Case) {
    let disk = Disk::new(case, "device", SMALL);
    grows(case, &disk, "ext4", 2 * SMALL);
}

fn grows(case: &Case, disk: &Disk, kind: &str, to_bytes: u64) {
    let volume = typed(disk, kind).by(case, "a");
    let made = volume.make();
    assert_eq!(case.mounted(STAGED).unwrap().kind.to_str(), Some(kind));
    let blocks = || rustix::fs::statvfs(case.path(&volume.place())).unwrap().f_blocks;
    let before = blocks();
    disk.grow(to_bytes);
    assert_eq!(blocks(), before);
    for _ in 0..2 {
        assert_eq!(volume.expand(to_bytes).unwrap(), Some(to_bytes));
    }
    assert!(blocks() > before);
    volume.unpublish(Some(&made)).unwrap();
    volume.unstage().unwrap();
    expect(&volume.expand(to_bytes).unwrap_err(), Left::Nothing, &Cause::Other, "is not mounted at");
}

fn staging_twice_is_staging_once(case: &Case) {
    let disk = Disk::new(case, "device", SMALL);
    let volume = Claim::to(&disk.link).by(case, "a");
    let (staged, made) = (volume.stage().unwrap(), volume.make());
    let before = [case.mounted(STAGED).unwrap().id, case.mounted(&volume.place()).unwrap().id];
    for after in [Earlier::Nothing, Earlier::Unknown, Earlier::Success] {
        assert_eq!(volume.stage().unwrap(), staged);
        assert_eq!(volume.publish(after).unwrap(), made);
    }
    assert_eq!([case.mounted(STAGED).unwrap().id, case.mounted(&volume.place()).unwrap().id], before);
    for _ in 0..2 {
        volume.unpublish(Some(&made)).unwrap();
        volume.unstage().unwrap();
    }
    assert!(case.mounted(STAGED).is_none());
}

fn mount_options_reach_the_file_system(case: &Case) {
    let disk = Disk::new(case, "device", SMALL);
    let options = ["noatime", "data=journal", "defaults"];
    let volume = Claim::to(&disk.link).volume("mountOptions", options.as_slice().into()).by(case, "a");
    volume.make();
    for place in [STAGED.to_owned(), volume.place()] {
        let mount = case.mounted(&place).unwrap();
        assert_eq!(mount.attribute_words(), "rw,noatime");
        assert_eq!(mount.super_option("data"), Some("journal".into()));
    }
}

fn an_empty_device_is_not_formatted_to_be_read(case: &Case) {
    let disk = Disk::new(case, "device", MEBIBYTE);
    let claims =
        [Claim::to(&disk.link).read_only(), Claim::to(&disk.link).volume("mountOptions", ["ro"].as_slice().into())];
    for claim in claims {
        let volume = claim.by(case, "a");
        expect(&volume.stage().unwrap_err(), Left::Nothing, &UNUSABLE, "holds no file system");
        // As the kubelet leaves it.
        assert!(case.path(MOUNTS).exists() && !case.path(STAGED).exists());
        volume.unstage().unwrap();
    }
    assert!(std::fs::read(&disk.path).unwrap().iter().all(|it| *it == 0));
}

fn another_type_of_file_system_is_told(case: &Case) {
    let disk = Disk::new(case, "device", SMALL);
    disk.run("mkfs.ext4", &["-q"]);
    let volume = typed(&disk, "iso9660").by(case, "a");
    let failure = volume.stage().unwrap_err();
    expect(&failure, Left::Nothing, &UNUSABLE, "as iso9660: it holds ext4");
    assert!(!case.path(STAGED).exists());
    assert!(!device::is_busy(&disk.path).unwrap());
}

fn a_type_that_cannot_be_is_refused(case: &Case) {
    let disk = Disk::new(case, "device", MEBIBYTE);
    let volume = typed(&disk, "../../bin/sh").by(case, "a");
    let invalid = Cause::Node(Obstacle::InputInvalid);
    expect(&volume.stage().unwrap_err(), Left::Nothing, &invalid, "as a file system type");
    let volume = typed(&disk, "no-such-type").by(case, "a");
    let missing = Cause::Node(Obstacle::AbilityMissing);
    expect(&volume.stage().unwrap_err(), Left::Nothing, &missing, "mkfs.no-such-type");
}

/// E-262, E-263.
fn what_a_pod_still_has_is_not_unmounted(case: &Case) {
    let disk = Disk::new(case, "device", SMALL);
    let volume = Claim::to(&disk.link).by(case, "a");
    let made = volume.make();
    let (staged, pod) = (case.path(STAGED), case.path(&volume.place()));
    let text = format!(
        "the device mount path \"{}\" is still mounted by other references [{}]",
        staged.display(),
        pod.display()
    );
    expect(&volume.unstage().unwrap_err(), Left::Something, &Cause::Node(Obstacle::HeldOpen), &text);
    assert!(case.mounted(STAGED).is_some());
    volume.unpublish(Some(&made)).unwrap();
    let open = std::fs::File::open(case.path(&format!("{STAGED}/lost+found"))).unwrap();
    let failure = volume.unstage().unwrap_err();
    expect(&failure, Left::Something, &Cause::Node(Obstacle::HeldOpen), "unmount");
    drop(open);
    volume.unstage().unwrap();
}

fn another_device_in_its_place_is_in_the_way(case: &Case) {
    let (disk, other) = (Disk::new(case, "device", SMALL), Disk::new(case, "other", SMALL));
    Claim::to(&other.link).by(case, "a").stage().unwrap();
    let volume = Claim::to(&disk.link).by(case, "a");
    let before = case.mounted(STAGED).unwrap();
    expect(&volume.stage().unwrap_err(), Left::Nothing, &OBSTACLE, STAGED);
    expect(&volume.publish(Earlier::Nothing).unwrap_err(), Left::Nothing, &OBSTACLE, STAGED);
    assert_eq!(case.mounted(STAGED).unwrap(), before);
    // A directory of the right device is not the device.
    volume.unstage().unwrap();
    volume.stage().unwrap();
    let part = Place::root(case.path(&format!("{STAGED}/lost+found"))).unwrap();
    let part = windlass_linux::mount::bind(&part, windlass_linux::mount::Extent::One).unwrap();
    drop(part.attach(&Place::root(case.path(STAGED)).unwrap()).unwrap());
    expect(&volume.stage().unwrap_err(), Left::Nothing, &OBSTACLE, STAGED);
}

fn a_volume_that_is_not_staged_is_not_published(case: &Case) {
    let disk = Disk::new(case, "device", SMALL);
    let volume = Claim::to(&disk.link).by(case, "a");
    expect(&volume.publish(Earlier::Nothing).unwrap_err(), Left::Nothing, &Cause::Other, "is not mounted at");
    assert!(!case.path(&volume.place()).exists());
}

/// P-148.
fn a_device_whose_path_vanished_is_taken_away(case: &Case) {
    let (disk, raw) = (Disk::new(case, "device", SMALL), Disk::new(case, "raw", MEBIBYTE));
    let volume = Claim::to(&disk.link).by(case, "a");
    let mapped = Claim::to(&raw.link).raw().named("raw").by(case, "a");
    let made = [volume.make(), mapped.make()];
    for link in [&disk.link, &raw.link] {
        std::fs::remove_file(link).unwrap();
    }
    expect(&volume.stage().unwrap_err(), Left::Nothing, &UNUSABLE, "does not exist");
    for (volume, made) in [&volume, &mapped].into_iter().zip(&made) {
        volume.unpublish(Some(made)).unwrap();
        volume.unstage().unwrap();
        assert!(!case.path(&volume.place()).exists());
    }
    assert!(!case.path(STAGED).exists());
}

fn what_is_staged_is_found_with_its_proof(case: &Case) {
    let (disk, raw) = (Disk::new(case, "device", SMALL), Disk::new(case, "raw", MEBIBYTE));
    let volume = Claim::to(&disk.link).by(case, "a");
    let staged = volume.stage().unwrap();
    Claim::to(&raw.link).raw().named("raw").by(case, "a").make();
    let found = Local.staged(&case.scene).unwrap();
    let found: Vec<_> = found.iter().map(|(spec, proof)| (spec.id.as_str(), *proof)).collect();
    let id = volume.spec.id.as_str();
    assert_eq!(found, [(id, Some(staged.proof)), ("kubernetes.io/local-volume/raw", None)]);
}

/// As the golden case local-device-raw.
fn a_raw_device_is_mapped_and_taken_away(case: &Case) {
    let disk = Disk::new(case, "device", MEBIBYTE);
    let volume = Claim::to(&disk.link).raw().read_only().by(case, "a");
    let staged = volume.stage().unwrap();
    assert_eq!((&staged.form, &staged.path), (&VolumeForm::Host, &disk.link));
    let made = volume.publish(Earlier::Nothing).unwrap();
    let mapped = format!("{MAPPED}/a");
    assert_eq!((&made.form, &made.path), (&VolumeForm::Mount(case.path(&mapped)), &case.path(&volume.place())));
    assert_eq!(made.proof, mount_proof(&case.mounted(&mapped).unwrap()));
    assert!(case.mounted(&mapped).unwrap().attribute_words().starts_with("rw"), "also for a pod that may only read");
    assert_eq!(std::fs::read_link(&made.path).unwrap(), disk.path, "not the administrator's link");
    let node = std::fs::metadata(case.path(&mapped)).unwrap();
    assert!(node.file_type().is_block_device());
    assert_eq!(node.rdev(), std::fs::metadata(&disk.path).unwrap().rdev());
    let root = case.path("root");
    let root = root.display();
    let text = "MapVolume.MapPodDevice succeeded for volume \"pv\"";
    assert_eq!(
        volume.told("SuccessfulMountVolume"),
        [
            format!("{text} globalMapPath \"{root}/plugins/kubernetes.io~local-volume/volumeDevices/pv\""),
            format!("{text} volumeMapPath \"{root}/pods/a/volumeDevices/kubernetes.io~local-volume\""),
        ]
    );
    for below in [MAPPED, "root/pods/a/volumeDevices/kubernetes.io~local-volume", "root/pods/a/volumeDevices"] {
        assert_eq!(case.mode(below), 0o750);
    }
    assert_eq!(volume.expand(1 << 40).unwrap(), Some(1 << 40));
    for _ in 0..2 {
        volume.unpublish(Some(&made)).unwrap();
        volume.unstage().unwrap();
    }
    assert!(!case.path(MAPPED).exists() && !made.path.is_symlink());
    assert!(case.path(MAPPED).parent().unwrap().exists());
}

/// E-276.
fn a_raw_device_is_mapped_for_two_pods(case: &Case) {
    let disk = Disk::new(case, "device", MEBIBYTE);
    let [one, two] = ["a", "b"].map(|uid| Claim::to(&disk.link).raw().by(case, uid));
    let (first, second) = (one.make(), two.make());
    one.unpublish(Some(&first)).unwrap();
    let directory = case.path(MAPPED);
    let directory = directory.display();
    let text = format!("the device \"{directory}\" is still referenced from other Pods [{directory}/b]");
    expect(&one.unstage().unwrap_err(), Left::Something, &Cause::Node(Obstacle::HeldOpen), &text);
    assert!(case.mounted(&format!("{MAPPED}/b")).is_some());
    two.unpublish(Some(&second)).unwrap();
    two.unstage().unwrap();
}

fn mapping_twice_is_mapping_once(case: &Case) {
    let disk = Disk::new(case, "device", MEBIBYTE);
    let volume = Claim::to(&disk.link).raw().by(case, "a");
    let made = volume.make();
    for after in [Earlier::Nothing, Earlier::Unknown, Earlier::Success] {
        assert_eq!(volume.publish(after).unwrap(), made);
    }
    // After a boot the link is there and the mount is not (P-298).
    case.unmount(&format!("{MAPPED}/a"));
    let again = volume.publish(Earlier::Unknown).unwrap();
    assert_eq!((again.form, again.path), (made.form, made.path));
    volume.unpublish(None).unwrap();
    volume.unstage().unwrap();
}

fn a_file_in_place_of_the_link_survives_and_the_device_is_not_left_mapped(case: &Case) {
    let disk = Disk::new(case, "device", MEBIBYTE);
    let volume = Claim::to(&disk.link).raw().by(case, "a");
    case.file(&volume.place(), "a user's");
    expect(&volume.publish(Earlier::Nothing).unwrap_err(), Left::Something, &OBSTACLE, &volume.place());
    assert!(!case.path(&format!("{MAPPED}/a")).exists());
    expect(&volume.unpublish(None).unwrap_err(), Left::Something, &OBSTACLE, &volume.place());
    assert_eq!(case.read(&volume.place()), "a user's");
    assert_eq!(volume.told("SuccessfulMountVolume"), [""; 0]);
}

fn another_raw_device_in_its_place_stays(case: &Case) {
    let (disk, other) = (Disk::new(case, "device", MEBIBYTE), Disk::new(case, "other", MEBIBYTE));
    let foreign = Claim::to(&other.link).raw().by(case, "a").make();
    let volume = Claim::to(&disk.link).raw().by(case, "a");
    let mapped = format!("{MAPPED}/a");
    let before = case.mounted(&mapped).unwrap();
    expect(&volume.publish(Earlier::Unknown).unwrap_err(), Left::Something, &OBSTACLE, &mapped);
    assert_eq!(case.mounted(&mapped).unwrap(), before);
    let mut ours = foreign.clone();
    (ours.proof.mount_id, ours.proof.root) = (0, 0);
    expect(&volume.unpublish(Some(&ours)).unwrap_err(), Left::Something, &OBSTACLE, "is not ours");
    assert_eq!(case.mounted(&mapped).unwrap(), before);
    volume.unpublish(Some(&foreign)).unwrap();
}

/// P-250, P-251.
fn what_holds_a_device_for_a_kubelet_goes_with_it(case: &Case) {
    let disk = Disk::new(case, "device", MEBIBYTE);
    let volume = Claim::to(&disk.link).raw().by(case, "a");
    let made = volume.make();
    let directory = Place::root(case.path(MAPPED)).unwrap();
    let held = block_map::hold(&directory, &Name::new("pod", "a").unwrap()).unwrap();
    volume.unpublish(Some(&made)).unwrap();
    assert!(loop_device::look(held.number).unwrap().is_none_or(|it| it.backing != held.backing));
    volume.unstage().unwrap();
}

/// I-6.
fn a_path_that_hangs_holds_up_nobody_else(case: &Case) {
    case.directory("data");
    let stuck = Claim::to(case.path("hung")).named("hung").by(case, "a");
    let volume = Claim::to(case.path("data")).by(case, "b");
    std::thread::scope(|scope| {
        // Ours to drop: an assertion that fails must not leave the other thread waiting.
        let server = Silent::mount(&case.path("hung")).unwrap().greeted();
        let call = scope.spawn(|| stuck.stage());
        server.until_asked();
        let made = volume.make();
        assert_eq!(volume.publish(Earlier::Unknown).unwrap(), made);
        volume.unpublish(Some(&made)).unwrap();
        stuck.unpublish(None).unwrap();
        stuck.unstage().unwrap();
        assert!(!call.is_finished());
        drop(server);
        assert_eq!(call.join().unwrap().unwrap_err().left, Left::Nothing);
    });
}
