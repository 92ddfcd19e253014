//! The socket's file: who may use it, what it replaces, and that it goes.

use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt};

use windlass_api::server::bind;

use super::run;

#[test]
fn a_socket_is_made_for_its_owner_and_its_group_and_goes_again() {
    run(async {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("made/for/it/api.sock");
        let group = rustix::process::getegid().as_raw();
        let (listener, file) = bind(&path, Some(&group.to_string())).unwrap();
        let metadata = std::fs::metadata(&path).unwrap();
        assert!(metadata.file_type().is_socket());
        assert_eq!((metadata.permissions().mode() & 0o7777, metadata.gid()), (0o660, group));
        drop((listener, file));
        assert!(!path.exists());
    });
}

#[test]
fn a_socket_that_somebody_answers_on_is_left_alone() {
    run(async {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("api.sock");
        let (_listener, _file) = bind(&path, None).unwrap();
        let error = bind(&path, None).unwrap_err().to_string();
        let expected = format!("another daemon answers at {}; end it, or name another path", path.display());
        assert_eq!(error, expected);
        assert!(path.exists());
    });
}

#[test]
fn the_socket_of_a_dead_daemon_is_replaced() {
    run(async {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("api.sock");
        let (listener, dead) = bind(&path, None).unwrap();
        drop(listener);
        let (_listener, _file) = bind(&path, None).unwrap();
        drop(dead);
        assert!(path.exists(), "the new one is not the old one's to remove");
    });
}

#[test]
fn a_file_that_is_no_socket_is_left_alone() {
    run(async {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("api.sock");
        std::fs::write(&path, "precious").unwrap();
        let error = bind(&path, None).unwrap_err().to_string();
        assert!(error.contains("is there and is no socket"), "{error}");
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "precious");
    });
}

#[test]
fn a_path_that_is_too_long_and_a_group_that_is_not_there_are_said() {
    run(async {
        let directory = tempfile::tempdir().unwrap();
        let error = bind(&directory.path().join("x".repeat(120)), None).unwrap_err().to_string();
        assert!(error.contains("at most 107 fit"), "{error}");
        let error = bind(&directory.path().join("api.sock"), Some("no such group")).unwrap_err().to_string();
        assert_eq!(error, "there is no group no such group in /etc/group for the socket");
    });
}
