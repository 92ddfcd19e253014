//! Mounts that are made and taken away.

use std::os::unix::fs::{MetadataExt, symlink};

use rustix::fs::Mode;
use rustix::io::Errno;
use windlass_linux::abilities::{Abilities, Ability};
use windlass_linux::mount::{
    Attributes, Error, Extent, Options, Propagation, Swap, Tmpfs, UnmountPolicy, Unmounted, bind, filesystem, relocate,
    set_attributes, set_propagation, tmpfs, unmount, unmount_watched,
};
use windlass_linux::path_error::PathError;
use windlass_linux::safe_path::Place;
use windlass_linux::table::{Events, Reader, Watch, identify};
use windlass_linux::working_directory;
use windlass_testing::directory::a_tmpfs;
use windlass_testing::namespace::has_ids;

use crate::case::Case;

crate::tests!(
    a_tmpfs_is_as_it_was_asked_for,
    a_tmpfs_that_must_not_swap_is_refused_where_the_kernel_cannot_promise_it,
    a_mount_that_is_dropped_was_never_there,
    a_bind_mount_is_read_only_from_its_first_moment,
    a_tree_is_bound_with_or_without_what_is_mounted_in_it,
    a_bind_mount_is_of_what_was_opened_and_not_of_its_path,
    a_file_is_bound_over_a_file,
    the_kernel_says_what_is_wrong_with_an_option,
    a_secret_is_in_no_error,
    an_unknown_type_is_an_error,
    attributes_of_a_mount_change,
    propagation_spreads_or_does_not,
    a_mount_is_moved,
    an_unmount_is_certain,
    a_busy_mount_stays_unless_policy_says_otherwise,
    a_mount_under_another_is_not_mistaken_for_it,
    an_unmount_follows_no_link,
);

fn a_tmpfs_is_as_it_was_asked_for(case: &Case) {
    let ids = has_ids();
    let settings = Tmpfs {
        size_bytes: Some(1 << 20),
        inodes_max: Some(77),
        mode: Some(Mode::from_raw_mode(0o2770)),
        uid: ids.then_some(1000),
        gid: ids.then_some(2000),
        swap: Swap::AvoidedIfPossible,
        options: Options { attributes: Attributes::MOUNT_ATTR_NOSUID, ..Options::default() },
    };
    let made = tmpfs(&settings).unwrap();
    let id = made.id().unwrap();
    let root = made.attach(&case.place("a")).unwrap();
    assert_eq!(identify(&root).unwrap(), id, "it keeps its id");
    let mount = case.mounted("a").unwrap();
    assert_eq!(mount.id, id);
    assert_eq!((mount.kind.to_str(), mount.source.to_str()), (Some("tmpfs"), Some("tmpfs")));
    assert_eq!(mount.super_option("size").unwrap(), "1024k");
    assert_eq!(mount.super_option("nr_inodes").unwrap(), "77");
    assert_eq!(mount.attribute_words(), "rw,nosuid,relatime");
    let status = std::fs::metadata(case.path("a")).unwrap();
    assert_eq!(status.mode() & 0o7777, 0o2770);
    if ids {
        assert_eq!((status.uid(), status.gid()), (1000, 2000));
    }
    let noswap = Abilities::of_this_kernel().tmpfs_noswap == Ability::Present;
    assert_eq!(mount.super_option("noswap").is_some(), noswap);
}

fn a_tmpfs_that_must_not_swap_is_refused_where_the_kernel_cannot_promise_it(_: &Case) {
    let made = tmpfs(&Tmpfs { swap: Swap::Refused, ..Tmpfs::default() });
    match Abilities::of_this_kernel().tmpfs_noswap {
        Ability::Present => drop(made.unwrap()),
        Ability::Missing | Ability::Refused => {
            let error = made.unwrap_err();
            assert!(matches!(&error, Error::SetOption { option, log, .. } if option == "noswap" && !log.is_empty()));
        }
    }
}

fn a_mount_that_is_dropped_was_never_there(case: &Case) {
    let before = Reader::best().read().unwrap().len();
    let target = case.place("a");
    drop(a_tmpfs());
    drop(bind(&target, Extent::One).unwrap());
    assert_eq!(Reader::best().read().unwrap().len(), before);
}

fn a_bind_mount_is_read_only_from_its_first_moment(case: &Case) {
    let source = case.place("source");
    let copy = bind(&source, Extent::One).unwrap().read_only(Extent::One).unwrap();
    let target = case.place("target");
    let root = copy.attach(&target).unwrap();
    assert_eq!(rustix::fs::mkdirat(&root, "x", Mode::RWXU), Err(Errno::ROFS));
    assert!(case.mounted("target").unwrap().is_read_only());
    case.file("source/x", "through the other one");
    assert_eq!(case.read("target/x"), "through the other one");
}

fn a_tree_is_bound_with_or_without_what_is_mounted_in_it(case: &Case) {
    let source = case.tmpfs("source");
    case.tmpfs("source/inner");
    case.file("source/inner/file", "");
    bind(&source, Extent::One).unwrap().attach(&case.place("one")).unwrap();
    assert!(!case.path("one/inner/file").exists());
    let tree = bind(&source, Extent::Tree).unwrap().read_only(Extent::Tree).unwrap();
    tree.attach(&case.place("tree")).unwrap();
    assert!(case.path("tree/inner/file").exists());
    assert!(case.mounted("tree/inner").unwrap().is_read_only());
    assert!(!case.mounted("source/inner").unwrap().is_read_only());
    let top = bind(&source, Extent::Tree).unwrap().read_only(Extent::One).unwrap();
    top.attach(&case.place("top")).unwrap();
    assert!(case.mounted("top").unwrap().is_read_only());
    assert!(!case.mounted("top/inner").unwrap().is_read_only());
}

fn a_bind_mount_is_of_what_was_opened_and_not_of_its_path(case: &Case) {
    case.file("secret/file", "not for you");
    case.file("volume/file", "yours");
    let source = Place::root(case.path("volume")).unwrap();
    let target = case.place("target");
    std::fs::rename(case.path("volume"), case.path("moved")).unwrap();
    symlink(case.path("secret"), case.path("volume")).unwrap();
    std::fs::rename(case.path("target"), case.path("target moved")).unwrap();
    symlink(case.path("secret"), case.path("target")).unwrap();
    bind(&source, Extent::One).unwrap().attach(&target).unwrap();
    assert_eq!(case.read("target moved/file"), "yours");
    assert!(case.mounted("secret").is_none());
}

fn a_file_is_bound_over_a_file(case: &Case) {
    case.file("source", "contents");
    case.file("target", "");
    let open = |below: &str| {
        let fd = rustix::fs::open(case.path(below), rustix::fs::OFlags::PATH, Mode::empty()).unwrap();
        Place::of(fd, case.path(below))
    };
    bind(&open("source"), Extent::One).unwrap().attach(&open("target")).unwrap();
    assert_eq!(case.read("target"), "contents");
    let onto_directory = bind(&open("source"), Extent::One).unwrap().attach(&case.place("directory"));
    assert!(matches!(onto_directory, Err(Error::Attach { .. })));
}

fn the_kernel_says_what_is_wrong_with_an_option(_: &Case) {
    let error = filesystem("tmpfs", "none", &Options::parse(["size=enormous"])).unwrap_err();
    let text = error.to_string();
    assert!(text.starts_with("set option size of a tmpfs file system: "), "{text}");
    assert!(text.contains("size"), "{text}");
    let error = filesystem("tmpfs", "none", &Options::parse(["nonsense"])).unwrap_err();
    assert!(error.to_string().contains("nonsense"), "{error}");
    // Each is fine alone; the file system refuses them together, when it is opened.
    let error = filesystem("overlay", "none", &Options::parse(["lowerdir=/nowhere/at/all"])).err();
    if let Some(error @ Error::Create { .. }) = error {
        assert!(error.to_string().starts_with("open a overlay file system: "), "{error}");
    }
}

fn a_secret_is_in_no_error(_: &Case) {
    // The kernel repeats the value of an option it takes for a key.
    for texts in [["size=hunter2"], ["hunter2=hunter2"], ["mode=hunter2"]] {
        let options = Options::default().and_secret(texts);
        let error = filesystem("tmpfs", "none", &options).unwrap_err();
        let shown = format!("{error} {error:?}");
        assert!(!shown.contains("hunter2"), "{shown}");
    }
}

fn an_unknown_type_is_an_error(_: &Case) {
    let error = filesystem("nosuchfs", "none", &Options::default()).unwrap_err();
    assert_eq!(error.to_string(), "prepare a nosuchfs file system");
    assert!(matches!(error, Error::Prepare { source: Errno::NODEV, .. }));
}

fn attributes_of_a_mount_change(case: &Case) {
    let root = case.tmpfs("a");
    let (read_only, nothing) = (Attributes::MOUNT_ATTR_RDONLY, Attributes::empty());
    set_attributes(&root, read_only, nothing, Extent::One).unwrap();
    assert_eq!(case.mounted("a").unwrap().attribute_words(), "ro,relatime");
    set_attributes(&root, nothing, read_only, Extent::One).unwrap();
    assert_eq!(case.mounted("a").unwrap().attribute_words(), "rw,relatime");
    let copy = bind(&root, Extent::One).unwrap();
    let copy = copy.with_attributes(Attributes::MOUNT_ATTR_NOATIME, Extent::One).unwrap();
    copy.attach(&case.place("b")).unwrap();
    assert_eq!(case.mounted("b").unwrap().attribute_words(), "rw,noatime");
}

fn propagation_spreads_or_does_not(case: &Case) {
    let shared = case.tmpfs("shared");
    set_propagation(&shared, Propagation::Shared, Extent::One).unwrap();
    bind(&shared, Extent::One).unwrap().attach(&case.place("peer")).unwrap();
    let private = bind(&shared, Extent::One).unwrap().with_propagation(Propagation::Private, Extent::One).unwrap();
    private.attach(&case.place("private")).unwrap();
    case.tmpfs("shared/new");
    assert!(case.mounted("peer/new").is_some());
    assert!(case.mounted("private/new").is_none());
    let unbindable = case.tmpfs("unbindable");
    set_propagation(&unbindable, Propagation::Unbindable, Extent::One).unwrap();
    assert!(matches!(bind(&unbindable, Extent::One), Err(Error::System(PathError { source: Errno::INVAL, .. }))));
}

fn a_mount_is_moved(case: &Case) {
    let root = case.tmpfs("from");
    let id = case.id("from");
    relocate(&root, &case.place("to")).unwrap();
    assert!(case.mounted("from").is_none());
    assert_eq!(case.mounted("to").unwrap().id, id);
    let inside = case.place("to/inside");
    assert!(matches!(relocate(&root, &inside), Err(Error::Move { source: Errno::LOOP, .. })));
}

fn an_unmount_is_certain(case: &Case) {
    for reader in [Reader::best(), Reader::Mountinfo] {
        drop(case.tmpfs("a"));
        let mount = reader.read().unwrap().topmost(&case.path("a")).unwrap().clone();
        assert_eq!(unmount(&mount, UnmountPolicy::Clean).unwrap(), Unmounted::Now);
        assert!(case.mounted("a").is_none());
        assert_eq!(unmount(&mount, UnmountPolicy::Clean).unwrap(), Unmounted::Before);
        // Another one in its place is not touched. Without unique ids it must differ to be told apart.
        let kind = if reader == Reader::Mountinfo { "another" } else { "tmpfs" };
        drop(filesystem("tmpfs", kind, &Options::default()).unwrap().attach(&case.place("a")).unwrap());
        assert_eq!(unmount(&mount, UnmountPolicy::Lazy).unwrap(), Unmounted::Before);
        unmount(&case.mounted("a").unwrap(), UnmountPolicy::Clean).unwrap();
    }
}

fn a_busy_mount_stays_unless_policy_says_otherwise(case: &Case) {
    let root = case.tmpfs("a");
    case.file("a/file", "in use");
    let file = std::fs::File::open(case.path("a/file")).unwrap();
    drop(root);
    let mount = case.mounted("a").unwrap();
    for policy in [UnmountPolicy::Clean, UnmountPolicy::Force] {
        let error = unmount(&mount, policy).unwrap_err();
        assert!(error.is_busy(), "{error:?}");
        assert_eq!(case.read("a/file"), "in use");
    }
    assert_eq!(unmount(&mount, UnmountPolicy::Lazy).unwrap(), Unmounted::Now);
    assert_eq!(std::io::read_to_string(file).unwrap(), "in use");
    assert!(!case.path("a/file").exists());
}

fn a_mount_under_another_is_not_mistaken_for_it(case: &Case) {
    for reader in [Reader::best(), Reader::Mountinfo] {
        drop(case.tmpfs("a"));
        let below = reader.read().unwrap().topmost(&case.path("a")).unwrap().clone();
        drop(case.tmpfs("a"));
        let above = case.mounted("a").unwrap();
        let watch = Watch::begin_with(reader, Events::Poll).unwrap();
        for policy in [UnmountPolicy::Clean, UnmountPolicy::ForceLazy] {
            assert!(matches!(unmount(&below, policy), Err(Error::Covered { .. })));
            assert!(matches!(unmount_watched(&watch, &below, policy), Err(Error::Covered { .. })));
        }
        assert_eq!(case.mounted("a").unwrap().id, above.id);
        unmount(&above, UnmountPolicy::Clean).unwrap();
        assert_eq!(unmount_watched(&watch, &below, UnmountPolicy::Clean).unwrap(), Unmounted::Now);
        assert_eq!(unmount_watched(&watch, &below, UnmountPolicy::Clean).unwrap(), Unmounted::Before);
    }
}

fn an_unmount_follows_no_link(case: &Case) {
    drop(case.tmpfs("real/a"));
    // By way of `/proc`, and from within the directory.
    for moved in ["moved", "moved too"] {
        drop(case.tmpfs("other/a"));
        let mount = case.mounted("other/a").unwrap();
        // The directory with the mount point moves, and a link to another one takes its place: by its path, the mount
        // would be taken for the one in `real`.
        std::fs::rename(case.path("other"), case.path(moved)).unwrap();
        symlink(case.path("real"), case.path("other")).unwrap();
        assert_eq!(unmount(&mount, UnmountPolicy::Clean).unwrap(), Unmounted::Now, "it is found where it is now");
        assert!(case.mounted(&format!("{moved}/a")).is_none());
        assert!(case.mounted("real/a").is_some());
        std::fs::remove_file(case.path("other")).unwrap();
        working_directory::make_own();
    }
    let mount = case.mounted("real/a").unwrap();
    let busy = std::fs::File::create(case.path("real/a/file")).unwrap();
    assert!(unmount(&mount, UnmountPolicy::Clean).unwrap_err().is_busy());
    drop(busy);
    assert_eq!(unmount(&mount, UnmountPolicy::Clean).unwrap(), Unmounted::Now);
}
