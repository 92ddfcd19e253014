//! Loop devices, and what is told of devices.

use std::os::unix::fs::symlink;

use rustix::fs::{Mode, OFlags};
use windlass_linux::device::{self, AtPath};
use windlass_linux::loop_device::{self, Backing, Detached, Error, Settings};
use windlass_testing::disk::MEBIBYTE;
use windlass_testing::harness::UNDISTURBED;

use crate::case::Case;

crate::tests!(
    a_file_becomes_a_device(),
    a_read_only_loop_refuses_to_be_written(),
    a_loop_grows_with_its_file(),
    a_loop_that_is_not_kept_is_detached(),
    a_failure_in_between_leaks_no_loop(),
    a_loop_that_clears_itself_is_gone_with_its_last_user(UNDISTURBED),
    a_loop_with_another_file_is_left_alone(),
    a_detached_loop_is_gone(UNDISTURBED),
    a_loop_in_use_ends_with_its_use(UNDISTURBED),
    loops_are_found_by_file_and_by_path(),
    many_at_once_get_a_loop_each(),
    a_mounted_device_is_busy("mkfs.ext4"),
);

fn a_file_becomes_a_device(case: &Case) {
    let disk = case.disk("image", 3 * MEBIBYTE);
    assert!(matches!(device::look(&disk.path).unwrap(), AtPath::Block(number) if number.major == 7));
    assert_eq!(device::size_bytes(&disk.path).unwrap(), 3 * MEBIBYTE);
    assert!(!device::is_read_only(&disk.path).unwrap());
    symlink(&disk.path, case.path("link")).unwrap();
    assert_eq!(device::size_bytes(&case.path("link")).unwrap(), 3 * MEBIBYTE);
    assert_eq!(device::resolve(&case.path("link")).unwrap(), disk.path);
    std::fs::write(&disk.path, "through the device").unwrap();
    std::fs::File::open(&disk.path).unwrap().sync_all().unwrap();
    assert!(std::fs::read(case.path("image")).unwrap().starts_with(b"through the device"));
    assert_ne!(loop_device::detach(&disk.device).unwrap(), Detached::Before);
}

fn a_read_only_loop_refuses_to_be_written(case: &Case) {
    case.image("image", MEBIBYTE);
    let disk = case.attach("image", Settings { read_only: true, ..Settings::default() });
    assert!(disk.device.read_only);
    assert!(device::is_read_only(&disk.path).unwrap());
    let opened = rustix::fs::open(&disk.path, OFlags::RDWR | OFlags::CLOEXEC, Mode::empty());
    // Old kernels open it and refuse the write.
    assert!(opened.and_then(|it| rustix::io::write(&it, b"x")).is_err());
}

fn a_loop_grows_with_its_file(case: &Case) {
    let disk = case.disk("image", 3 * MEBIBYTE);
    case.image("image", 5 * MEBIBYTE);
    assert_eq!(device::size_bytes(&disk.path).unwrap(), 3 * MEBIBYTE, "it does not look by itself");
    loop_device::resize(&disk.device).unwrap();
    assert_eq!(device::size_bytes(&disk.path).unwrap(), 5 * MEBIBYTE);
    let mut mistaken = disk.device.clone();
    mistaken.backing = Backing { inode: mistaken.backing.inode + 1, ..mistaken.backing };
    assert!(matches!(loop_device::resize(&mistaken), Err(Error::OtherFile { .. })));
}

fn a_loop_that_is_not_kept_is_detached(case: &Case) {
    case.image("image", MEBIBYTE);
    let attached = loop_device::attach(&case.hold("image"), Settings::default()).unwrap();
    assert_eq!(case.loops("image"), [attached.device().clone()]);
    drop(attached);
    assert_eq!(case.loops("image"), []);
}

fn a_failure_in_between_leaks_no_loop(case: &Case) {
    fn fails(case: &Case) -> Result<(), Box<dyn std::error::Error>> {
        let attached = loop_device::attach(&case.hold("image"), Settings::default())?;
        assert_eq!(case.loops("image").len(), 1);
        // Nothing is on it.
        windlass_linux::mount::filesystem("ext4", attached.device().path(), &Default::default())?;
        let _ = attached.keep();
        Ok(())
    }
    case.image("image", MEBIBYTE);
    fails(case).unwrap_err();
    assert_eq!(case.loops("image"), []);
    let panicked = std::panic::catch_unwind(|| {
        let _attached = loop_device::attach(&case.hold("image"), Settings::default()).unwrap();
        std::panic::resume_unwind(Box::new(()));
    });
    assert!(panicked.is_err());
    assert_eq!(case.loops("image"), []);
}

fn a_loop_that_clears_itself_is_gone_with_its_last_user(case: &Case) {
    case.image("image", MEBIBYTE);
    let settings = Settings { autoclear: true, ..Settings::default() };
    let attached = loop_device::attach(&case.hold("image"), settings).unwrap();
    assert!(attached.device().autoclear);
    let user = std::fs::File::open(attached.device().path()).unwrap();
    let kept = attached.keep();
    let backing = |number| loop_device::look(number).unwrap().map(|it| it.backing);
    assert_eq!(backing(kept.number), Some(kept.backing));
    drop(user);
    assert_ne!(backing(kept.number), Some(kept.backing));
}

fn a_loop_with_another_file_is_left_alone(case: &Case) {
    let disk = case.disk("image", MEBIBYTE);
    let mut mistaken = disk.device.clone();
    mistaken.backing = Backing { inode: mistaken.backing.inode + 1, ..mistaken.backing };
    assert!(matches!(loop_device::detach(&mistaken), Err(Error::OtherFile { path }) if path == disk.path));
    assert_eq!(case.loops("image"), std::slice::from_ref(&disk.device));
}

fn a_detached_loop_is_gone(case: &Case) {
    let disk = case.disk("image", MEBIBYTE);
    assert_eq!(loop_device::detach(&disk.device).unwrap(), Detached::Now);
    assert_eq!(loop_device::detach(&disk.device).unwrap(), Detached::Before);
}

fn a_loop_in_use_ends_with_its_use(case: &Case) {
    let disk = case.disk("image", MEBIBYTE);
    let user = std::fs::File::open(&disk.path).unwrap();
    assert_eq!(loop_device::detach(&disk.device).unwrap(), Detached::WhenUnused);
    drop(user);
    assert_eq!(loop_device::detach(&disk.device).unwrap(), Detached::Before);
}

fn loops_are_found_by_file_and_by_path(case: &Case) {
    let disk = case.disk("image", MEBIBYTE);
    let held = case.hold("image");
    assert_eq!(loop_device::of_path(&case.path("image")).unwrap(), std::slice::from_ref(&disk.device));
    assert_eq!(loop_device::of_path(&case.path("other")).unwrap(), []);
    assert_eq!(loop_device::of_file_by_name(&held).unwrap(), std::slice::from_ref(&disk.device));
    case.image("directory-image", MEBIBYTE);
    assert_eq!(loop_device::of_file_by_name(&case.hold("directory-image")).unwrap(), []);
    std::fs::hard_link(case.path("image"), case.path("other")).unwrap();
    assert_eq!(case.loops("other"), std::slice::from_ref(&disk.device), "it is the same file");
    std::fs::remove_file(case.path("other")).unwrap();
    std::fs::remove_file(case.path("image")).unwrap();
    assert_eq!(loop_device::of_path(&case.path("image")).unwrap(), std::slice::from_ref(&disk.device), "deleted");
    assert_eq!(loop_device::of_file(&held).unwrap(), std::slice::from_ref(&disk.device));
}

fn many_at_once_get_a_loop_each(case: &Case) {
    for number in 0..6 {
        case.image(&number.to_string(), MEBIBYTE);
    }
    // Files are opened here, because threads are in the namespace of whoever starts them only by their descriptors.
    let files: Vec<_> = (0..6).map(|number| case.hold(&number.to_string())).collect();
    std::thread::scope(|scope| {
        let attach = |file| move || loop_device::attach(file, Settings::default()).unwrap();
        let threads: Vec<_> = files.iter().map(|file| scope.spawn(attach(file))).collect();
        let attached: Vec<_> = threads.into_iter().map(|it| it.join().unwrap()).collect();
        let mut numbers: Vec<_> = attached.iter().map(|it| it.device().number).collect();
        numbers.sort_unstable();
        numbers.dedup();
        assert_eq!(numbers.len(), 6);
        for (attached, file) in attached.iter().zip(&files) {
            assert_eq!(loop_device::of_file(file).unwrap(), [attached.device().clone()]);
        }
    });
}

fn a_mounted_device_is_busy(case: &Case) {
    let disk = case.disk("image", 8 * MEBIBYTE);
    assert!(!device::is_busy(&disk.path).unwrap());
    disk.run("mkfs.ext4", &["-q", "-F"]);
    let made = windlass_linux::mount::filesystem("ext4", &disk.path, &Default::default()).unwrap();
    case.mount(made, "a");
    assert!(device::is_busy(&disk.path).unwrap());
    case.unmount_cleanly("a");
    assert!(!device::is_busy(&disk.path).unwrap());
}
