//! The mount table as both readers see it.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use windlass_linux::mount::{self, Attributes, Extent, Options, Propagation, Tmpfs, Value, bind, set_propagation};
use windlass_linux::safe_path::Place;
use windlass_linux::table::{Mount, MountId, Reader, Table, identify, look_up};
use windlass_testing::directory::a_tmpfs;

use crate::case::{Case, name, relative};

crate::tests!(
    both_readers_give_the_same_table,
    the_table_agrees_with_the_kernel_about_what_is_seen,
    a_mount_is_looked_up_by_its_id_until_it_is_gone,
    references_are_all_bind_mounts_of_a_directory,
);

/// One of everything that makes a line of mountinfo special.
fn clutter(case: &Case) {
    let odd: [&[u8]; 6] = [b"a space", b"a\ttab", b"a\nnewline", b"back\\slash", b"\xff\xfe", b"#hash"];
    for odd in odd {
        let path = case.path("").join(OsStr::from_bytes(odd));
        std::fs::create_dir(&path).unwrap();
        let source = Options::default().and_parameter("size", Value::Plain("64k".into()));
        let made = mount::filesystem("tmpfs", OsStr::from_bytes(odd), &source).unwrap();
        made.attach(&Place::root(path).unwrap()).unwrap();
    }
    // A source that is empty, and one that was never given (the old call can do both).
    case.place("nothing");
    let no_flags = rustix::mount::MountFlags::empty();
    rustix::mount::mount("", case.path("nothing"), "tmpfs", no_flags, None).unwrap();

    let all = Attributes::MOUNT_ATTR_RDONLY
        | Attributes::MOUNT_ATTR_NOSUID
        | Attributes::MOUNT_ATTR_NODEV
        | Attributes::MOUNT_ATTR_NOEXEC
        | Attributes::MOUNT_ATTR_NODIRATIME
        | Attributes::MOUNT_ATTR_NOSYMFOLLOW;
    for (below, attributes) in [
        ("plain", Attributes::empty()),
        ("all", all),
        ("noatime", Attributes::MOUNT_ATTR_NOATIME),
        ("strictatime", Attributes::MOUNT_ATTR_STRICTATIME),
    ] {
        a_tmpfs().with_attributes(attributes, Extent::One).unwrap().attach(&case.place(below)).unwrap();
    }
    let read_only = Tmpfs { options: Options::parse(["ro,sync,lazytime"]), ..Tmpfs::default() };
    mount::tmpfs(&read_only).unwrap().attach(&case.place("file system read-only")).unwrap();

    // A directory of a file system, a directory that is deleted, and a file.
    let plain = Place::root(case.path("plain")).unwrap();
    for below in ["part", "doomed"] {
        let part = plain.make_directories(&relative(below), rustix::fs::Mode::RWXU, mount_crossing()).unwrap();
        bind(&part, Extent::One).unwrap().attach(&case.place(&format!("bound {below}"))).unwrap();
    }
    std::fs::remove_dir(case.path("plain/doomed")).unwrap();
    case.file("plain/file", "");
    case.file("a file", "");
    let file = plain.find(&relative("file"), mount_crossing()).unwrap();
    let over = case.root.find(&relative("a file"), mount_crossing()).unwrap();
    bind(&file, Extent::One).unwrap().attach(&over).unwrap();

    // Stacked, and hidden below a directory that is covered.
    for _ in 0..3 {
        case.tmpfs("stack");
    }
    case.tmpfs("cover/hidden");
    case.tmpfs("cover");
    case.tmpfs("cover/hidden");

    // Every kind of propagation: a group, a slave of it, a slave that is shared again, a slave of that.
    let shared = case.tmpfs("shared");
    set_propagation(&shared, Propagation::Shared, Extent::One).unwrap();
    for (below, then) in [("slave", None), ("both", Some(Propagation::Shared))] {
        let copy = bind(&shared, Extent::One).unwrap().attach(&case.place(below)).unwrap();
        set_propagation(&copy, Propagation::Slave, Extent::One).unwrap();
        if let Some(then) = then {
            set_propagation(&copy, then, Extent::One).unwrap();
        }
    }
    let both = Place::root(case.path("both")).unwrap();
    let third = bind(&both, Extent::One).unwrap().attach(&case.place("third")).unwrap();
    set_propagation(&third, Propagation::Slave, Extent::One).unwrap();
    let unbindable = case.tmpfs("unbindable");
    set_propagation(&unbindable, Propagation::Unbindable, Extent::One).unwrap();
    // Mounted below the shared one, it appears below all four.
    case.tmpfs("shared/spread");
}

fn mount_crossing() -> windlass_linux::safe_path::Mounts {
    windlass_linux::safe_path::Mounts::Enter
}

/// A mount with the ids that both readers know.
fn numbered(mount: &Mount, table: &Table) -> Mount {
    let parent = table.get(mount.parent).map_or(0, |it| it.number);
    Mount { id: MountId::Reusable(mount.number), parent: MountId::Reusable(parent), ..mount.clone() }
}

fn sorted(table: &Table) -> Vec<Mount> {
    let mut all: Vec<_> = table.iter().map(|it| numbered(it, table)).collect();
    all.sort_by_key(|it| it.number);
    all
}

fn both_readers_give_the_same_table(case: &Case) {
    clutter(case);
    let mountinfo = Reader::Mountinfo.read().unwrap();
    assert!(mountinfo.below(&case.path("")).count() > 25, "the clutter is there");
    if Reader::best() != Reader::Statmount {
        return;
    }
    let statmount = Reader::Statmount.read().unwrap();
    for (one, other) in sorted(&statmount).iter().zip(&sorted(&mountinfo)) {
        assert_eq!(one, other);
    }
    assert_eq!(statmount.len(), mountinfo.len());
    for mount in mountinfo.iter() {
        let path = mount.mount_point.as_path();
        let number = |table: &Table| table.topmost(path).map(|it| it.number);
        assert_eq!(number(&statmount), number(&mountinfo), "{}", path.display());
        let below = |table: &Table| {
            let mut all: Vec<_> = table.below(path).map(|it| it.number).collect();
            all.sort_unstable();
            all
        };
        assert_eq!(below(&statmount), below(&mountinfo), "{}", path.display());
        let same = statmount.iter().find(|it| it.number == mount.number).unwrap();
        let mut references: Vec<_> = statmount.references(same).map(|it| it.number).collect();
        references.sort_unstable();
        let mut others: Vec<_> = mountinfo.references(mount).map(|it| it.number).collect();
        others.sort_unstable();
        assert_eq!(references, others);
    }
}

fn the_table_agrees_with_the_kernel_about_what_is_seen(case: &Case) {
    clutter(case);
    let table = Reader::best().read().unwrap();
    let mut paths: Vec<_> = table.below(&case.path("")).map(|it| it.mount_point.clone()).collect();
    paths.extend(["", "cover", "cover/hidden", "nowhere"].map(|it| case.path(it)));
    for path in paths {
        let Ok(place) = rustix::fs::open(&path, rustix::fs::OFlags::PATH, rustix::fs::Mode::empty()) else {
            continue; // a file or directory that does not exist, below something that covers its mount point
        };
        let seen = identify(&place).unwrap();
        assert_eq!(table.containing(&path).unwrap().id, seen, "{}", path.display());
        let flags = rustix::fs::AtFlags::EMPTY_PATH;
        let status = rustix::fs::statx(&place, "", flags, rustix::fs::StatxFlags::MNT_ID).unwrap();
        let is_root = status.stx_attributes.contains(rustix::fs::StatxAttributes::MOUNT_ROOT);
        assert_eq!(table.is_mount_point(&path), is_root, "{}", path.display());
    }
}

fn a_mount_is_looked_up_by_its_id_until_it_is_gone(case: &Case) {
    case.tmpfs("a");
    for reader in [Reader::best(), Reader::Mountinfo] {
        let mount = reader.read().unwrap().topmost(&case.path("a")).unwrap().clone();
        assert_eq!(look_up(mount.id).unwrap().as_ref(), Some(&*mount));
    }
    let mount = case.mounted("a").unwrap();
    rustix::mount::unmount(case.path("a"), rustix::mount::UnmountFlags::DETACH).unwrap();
    assert_eq!(look_up(mount.id).unwrap(), None);
}

fn references_are_all_bind_mounts_of_a_directory(case: &Case) {
    let source = case.tmpfs("source");
    let part = source.make_directory(&name("part"), rustix::fs::Mode::RWXU, mount_crossing()).unwrap();
    for target in ["one", "two"] {
        bind(&part, Extent::One).unwrap().attach(&case.place(target)).unwrap();
    }
    let table = Reader::best().read().unwrap();
    let points = |below: &str| {
        let mount = table.topmost(&case.path(below)).unwrap();
        table.references(mount).map(|it| it.mount_point.clone()).collect::<Vec<_>>()
    };
    assert_eq!(points("one"), [case.path("two")]);
    assert!(points("source").is_empty());
    assert_eq!(table.topmost(&case.path("one")).unwrap().root, Path::new("/part"));
}
