//! Paths of the host, and images.

use std::os::unix::fs::symlink;
use std::os::unix::net::UnixListener;

use k8s_openapi::serde_json::json;
use rustix::fs::{CWD, FileType, Mode, mkfifoat, mknodat};
use windlass::inner::{Failure, Left, Made, VolumeForm};
use windlass_core::operation::{Cause, Earlier, Obstacle};
use windlass_linux::mount::{Options, Tmpfs, tmpfs};
use windlass_linux::safe_path::Place;
use windlass_testing::namespace::privileged;

use crate::case::Case;
use crate::tests;
use crate::volume::Volume;

tests![
    every_type_against_every_kind_of_file,
    what_is_made_has_the_kubelets_mode,
    a_link_that_leads_nowhere_is_a_directory_and_becomes_a_file,
    a_path_that_steps_back_is_refused,
    what_is_in_the_way_of_making_a_path_is_told,
    a_path_on_a_file_system_that_can_only_be_read_says_so,
    an_image_is_nothing_on_this_node,
];

fn publish(case: &Case, path: &str, kind: Option<&str>) -> Result<Made, Failure> {
    let volume = Volume::new(case, json!({"hostPath": {"path": path, "type": kind}}), json!({}));
    let before = case.tree();
    let made = volume.publish(case, Earlier::Nothing);
    volume.unpublish(case, made.as_ref().ok()).unwrap();
    assert_eq!(case.tree(), before, "P-130: nothing below the pod");
    if let Ok(made) = &made {
        assert_eq!((made.path.to_str().unwrap(), &made.form), (path, &VolumeForm::Host));
        assert_eq!(Ok(&made.proof), volume.publish(case, Earlier::Success).as_ref().map(|it| &it.proof).map_err(drop));
    }
    made
}

fn refused(case: &Case, path: &str, kind: Option<&str>) -> (Obstacle, String) {
    let failure = publish(case, path, kind).unwrap_err();
    assert_eq!(failure.left, Left::Nothing);
    let Cause::Node(obstacle) = failure.cause else { panic!("{failure:?}") };
    (obstacle, failure.text)
}

fn host(case: &Case, below: &str) -> String {
    case.path("host").join(below).to_str().unwrap().to_owned()
}

/// T-39, P-132..P-139.
fn every_type_against_every_kind_of_file(case: &Case) {
    case.directory("host/directory");
    case.file("host/file", "contents");
    let _socket = UnixListener::bind(host(case, "socket")).unwrap();
    mkfifoat(CWD, host(case, "fifo"), Mode::RWXU).unwrap();
    let mut kinds = vec!["directory", "file", "socket", "fifo"];
    if privileged("device nodes as host paths") {
        for (name, kind) in [("char", FileType::CharacterDevice), ("block", FileType::BlockDevice)] {
            mknodat(CWD, host(case, name), kind, Mode::RWXU, rustix::fs::makedev(1, 3)).unwrap();
            kinds.push(name);
        }
    }
    let types = [
        ("Directory", "directory", "directory"),
        ("DirectoryOrCreate", "directory", "directory"),
        ("File", "file", "file"),
        ("FileOrCreate", "file", "file"),
        ("Socket", "socket", "socket file"),
        ("CharDevice", "char", "character device"),
        ("BlockDevice", "block", "block device"),
    ];
    for kind in kinds {
        symlink(host(case, kind), host(case, &format!("link-to-{kind}"))).unwrap();
        for path in [host(case, kind), host(case, &format!("link-to-{kind}"))] {
            for (wanted, fits, words) in types {
                if fits == kind {
                    publish(case, &path, Some(wanted)).unwrap();
                } else {
                    let text = format!("hostPath type check failed: {path} is not a {words}");
                    assert_eq!(refused(case, &path, Some(wanted)), (Obstacle::HostPathUnusable, text));
                }
            }
            publish(case, &path, None).unwrap();
            publish(case, &path, Some("")).unwrap();
            let text = "Wormhole is an invalid volume type".to_owned();
            assert_eq!(refused(case, &path, Some("Wormhole")), (Obstacle::HostPathUnusable, text), "P-139");
        }
    }
    let absent = host(case, "absent");
    for (wanted, _, words) in types.into_iter().filter(|(it, ..)| !it.ends_with("OrCreate")) {
        let text = format!("hostPath type check failed: {absent} is not a {words}");
        assert_eq!(refused(case, &absent, Some(wanted)), (Obstacle::HostPathUnusable, text));
    }
    publish(case, &absent, None).unwrap();
    publish(case, &absent, Some("")).unwrap();
    assert!(!case.path("host/absent").exists());
    publish(case, &format!("{}/", host(case, "directory")), Some("Directory")).unwrap();
    assert_eq!(case.read("host/file"), "contents");
}

/// P-134, P-136.
fn what_is_made_has_the_kubelets_mode(case: &Case) {
    // The thread of a test has one to itself.
    rustix::process::umask(rustix::fs::Mode::from_raw_mode(0o077));
    publish(case, &host(case, "new/deep/directory"), Some("DirectoryOrCreate")).unwrap();
    publish(case, &host(case, "new/file"), Some("FileOrCreate")).unwrap();
    for made in ["host/new", "host/new/deep", "host/new/deep/directory"] {
        assert_eq!(case.mode(made), 0o755, "{made}");
    }
    assert_eq!(case.mode("host/new/file"), 0o644);
    publish(case, &host(case, "new/deep/directory"), Some("DirectoryOrCreate")).unwrap();
    publish(case, &host(case, "new/file"), Some("FileOrCreate")).unwrap();
}

fn a_link_that_leads_nowhere_is_a_directory_and_becomes_a_file(case: &Case) {
    case.directory("host");
    symlink("nowhere", host(case, "link")).unwrap();
    publish(case, &host(case, "link"), Some("DirectoryOrCreate")).unwrap();
    assert!(!case.path("host/nowhere").exists());
    assert_eq!(refused(case, &host(case, "link"), Some("Directory")).0, Obstacle::HostPathUnusable);
    publish(case, &host(case, "link"), Some("FileOrCreate")).unwrap();
    assert_eq!(case.read("host/nowhere"), "");
    assert!(case.path("host/link").is_symlink());
}

/// P-130.
fn a_path_that_steps_back_is_refused(case: &Case) {
    case.directory("host/a");
    for path in ["a/../b", "..", "a/.."] {
        for kind in [None, Some("Directory"), Some("DirectoryOrCreate")] {
            let path = host(case, path);
            let text = format!("invalid HostPath `{path}`: must not contain '..'");
            assert_eq!(refused(case, &path, kind), (Obstacle::HostPathUnusable, text));
        }
    }
    publish(case, &host(case, "a/..b"), Some("DirectoryOrCreate")).unwrap();
    assert!(refused(case, "", None).1.starts_with("invalid HostPath"));
}

fn what_is_in_the_way_of_making_a_path_is_told(case: &Case) {
    case.file("host/file", "contents");
    let path = host(case, "absent/file");
    let text = format!("open {path}: no such file or directory");
    assert_eq!(refused(case, &path, Some("FileOrCreate")), (Obstacle::HostPathUnusable, text));
    let path = host(case, "file/directory");
    let text = format!("mkdir {path}: not a directory");
    assert_eq!(refused(case, &path, Some("DirectoryOrCreate")), (Obstacle::HostPathUnusable, text));
    assert_eq!(case.read("host/file"), "contents");
}

fn a_path_on_a_file_system_that_can_only_be_read_says_so(case: &Case) {
    let read_only = Tmpfs { options: Options::parse(["ro"]), ..Tmpfs::default() };
    let place = Place::root(case.directory("host")).unwrap();
    tmpfs(&read_only).unwrap().attach(&place).unwrap();
    for kind in ["DirectoryOrCreate", "FileOrCreate"] {
        assert_eq!(refused(case, &host(case, "new"), Some(kind)).0, Obstacle::ReadOnlyFileSystem);
    }
}

/// P-184.
fn an_image_is_nothing_on_this_node(case: &Case) {
    let volume = Volume::new(case, json!({"image": {"reference": "registry.example.com/model:1"}}), json!({}));
    let before = case.tree();
    let made = volume.publish(case, Earlier::Nothing).unwrap();
    assert_eq!((made.path.as_os_str().len(), &made.form), (0, &VolumeForm::Host));
    volume.unpublish(case, Some(&made)).unwrap();
    assert_eq!(case.tree(), before);
}
