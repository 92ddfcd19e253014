//! Damaged records heal, or are told of, and nothing is lost by them (I-5, I-10, I-11).

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use windlass_testing::daemon::Case;
use windlass_testing::wait::until;

use crate::attacks;
use crate::victim::{WEB, canaries_live, log, put_canaries};

attacks!["records":
    records_are_damaged_while_nobody_runs,
    a_damaged_record_of_a_path_of_the_host_heals,
    a_record_names_another_volume,
    a_damaged_record_of_a_pod_that_went_meanwhile_goes_too,
    the_directory_of_records_is_gone,
    the_state_directory_is_removed_while_the_daemon_runs,
    records_are_of_somebody_else,
];

fn records(case: &Case) -> Vec<PathBuf> {
    let directory = case.path("root/windlass/records");
    let entries = |directory: PathBuf| {
        let entries = fs::read_dir(&directory).unwrap_or_else(|error| panic!("{}: {error}", directory.display()));
        entries.map(|it| it.unwrap().path())
    };
    let files = entries(directory.clone()).chain(entries(directory.join("pods")));
    let mut files: Vec<_> = files.filter(|it| it.is_file()).collect();
    files.sort();
    files
}

fn with_host(case: &Case) -> String {
    let host = case.path("host");
    fs::create_dir_all(&host).unwrap();
    fs::write(host.join("canary"), crate::victim::CANARY).unwrap();
    let mounted = WEB.replace("    volumeMounts:\n", "    volumeMounts:\n    - {name: host, mountPath: /host}\n");
    format!("{mounted}  - {{name: host, hostPath: {{path: {}, type: Directory}}}}\n", host.display())
}

/// What is done to a record, and how.
type Damage<'a> = (&'a str, &'a dyn Fn(&Path));

/// Kills, damages each record, starts; the pod comes up with all that it had. Then the same without damage: nothing of it
/// is left to see.
fn damaged(case: &Case, damages: &[Damage<'_>]) {
    case.manifest("web.yaml", &with_host(case));
    let mut daemon = case.start_until_mounted(&["web"]);
    put_canaries(case);
    for (what, damage) in damages {
        daemon.kill();
        records(case).iter().for_each(|it| damage(it));
        daemon = case.start_until_mounted(&["web"]);
        canaries_live(case, what);
        daemon.kill();
        let since = crate::victim::logged(case);
        daemon = case.start_until_mounted(&["web"]);
        canaries_live(case, &format!("{what}, and another start"));
        let said = daemon.log();
        let said = &said[since..];
        assert!(
            !said.contains("record") || !said.contains("WARN"),
            "after {what} it is not healed at the next start: {said}"
        );
    }
    case.take_away("web.yaml", &["web"]);
    assert_eq!(fs::read_to_string(case.path("host/canary")).unwrap(), crate::victim::CANARY);
    assert_eq!(records(case), Vec::<PathBuf>::new(), "records are left: {}", log(case));
    assert!(daemon.stop().success());
}

fn records_are_damaged_while_nobody_runs(case: &Case) {
    damaged(
        case,
        &[
            ("empty records", &|it| fs::write(it, "").unwrap()),
            ("records cut in half", &|it| {
                let whole = fs::read(it).unwrap();
                fs::write(it, &whole[..whole.len() / 2]).unwrap();
            }),
            ("records of zeros", &|it| fs::write(it, [0; 300]).unwrap()),
            ("records of something else", &|it| fs::write(it, "{\"version\":1}\n").unwrap()),
        ],
    );
}

fn a_damaged_record_of_a_path_of_the_host_heals(case: &Case) {
    damaged(
        case,
        &[("a damaged record of a path of the host", &|it| {
            if it.to_string_lossy().contains("host-path") {
                fs::write(it, "nonsense\n").unwrap();
            }
        })],
    );
}

fn a_record_names_another_volume(case: &Case) {
    damaged(
        case,
        &[("records that name other volumes", &|it| {
            let text = fs::read_to_string(it).unwrap();
            fs::write(it, text.replace("\"id\":\"", "\"id\":\"x")).unwrap();
        })],
    );
}

/// The pod goes while nobody runs and its records say nothing: what is left of it goes all the same, and nothing else.
fn a_damaged_record_of_a_pod_that_went_meanwhile_goes_too(case: &Case) {
    for damage in ["", "nonsense\n", "{\"version\":1}\n"] {
        case.manifest("web.yaml", &with_host(case));
        let daemon = case.start_until_mounted(&["web"]);
        daemon.kill();
        records(case).iter().for_each(|it| fs::write(it, damage).unwrap());
        case.remove_manifest("web.yaml");
        let mut command = case.run();
        command.args(["--orphan-delay", "0s"]);
        let daemon = case.start_as(command);
        let directory = case.path("root/windlass/records");
        until(&format!("the records of {damage:?} are gone"), &directory, || records(case).is_empty());
        case.wait_unmounted(&["web-1"]);
        assert_eq!(fs::read_to_string(case.path("host/canary")).unwrap(), crate::victim::CANARY);
        assert!(daemon.stop().success());
    }
}

fn the_directory_of_records_is_gone(case: &Case) {
    case.manifest("web.yaml", &with_host(case));
    let daemon = case.start_until_mounted(&["web"]);
    put_canaries(case);
    daemon.kill();
    fs::remove_dir_all(case.path("root/windlass")).unwrap();
    let daemon = case.start_until_mounted(&["web"]);
    canaries_live(case, "all records are gone");
    case.take_away("web.yaml", &["web"]);
    assert_eq!(fs::read_to_string(case.path("host/canary")).unwrap(), crate::victim::CANARY);
    assert!(daemon.stop().success());
}

/// The daemon says so and ends, and the next one finds out what there is.
fn the_state_directory_is_removed_while_the_daemon_runs(case: &Case) {
    case.manifest("web.yaml", &with_host(case));
    let mut daemon = case.start_until_mounted(&["web"]);
    put_canaries(case);
    fs::remove_dir_all(case.path("root/windlass")).unwrap();
    assert!(!daemon.says("nothing, for it ends"));
    assert!(daemon.log().contains("was removed, moved or emptied while the node ran"), "{}", daemon.log());
    canaries_live(case, "the state directory was removed");
    let daemon = case.start_until_mounted(&["web"]);
    canaries_live(case, "the state directory was removed, and a start");
    case.take_away("web.yaml", &["web"]);
    assert_eq!(fs::read_to_string(case.path("host/canary")).unwrap(), crate::victim::CANARY);
    assert!(daemon.stop().success());
}

/// A record that nobody can have written leads nowhere outside.
fn records_are_of_somebody_else(case: &Case) {
    case.manifest("web.yaml", &with_host(case));
    let daemon = case.start_until_mounted(&["web"]);
    put_canaries(case);
    daemon.kill();
    let outside = case.path("outside");
    fs::create_dir(&outside).unwrap();
    fs::write(outside.join("canary"), crate::victim::CANARY).unwrap();
    for record in records(case) {
        let text = fs::read_to_string(&record).unwrap();
        let moved = text
            .replace(&case.path("root/pods/web-1").display().to_string(), &outside.display().to_string())
            .replace("kubernetes.io/", "../../../../../outside/");
        let name = record.file_name().unwrap().to_string_lossy().replace("web-1", "..");
        let odd = record.with_file_name(name.replace("kubernetes.io~empty-dir", "..").replace("scratch", "outside"));
        let _ = fs::write(&odd, &moved);
        let _ = fs::set_permissions(&odd, fs::Permissions::from_mode(0o400));
        fs::write(&record, &moved).unwrap();
    }
    let daemon = case.start();
    case.output(&["wait", "--timeout", "3s", "web"]);
    assert_eq!(fs::read_to_string(outside.join("canary")).unwrap(), crate::victim::CANARY);
    case.remove_manifest("web.yaml");
    case.output(&["wait", "--for", "unmounted", "--timeout", "3s", "web"]);
    assert_eq!(fs::read_to_string(outside.join("canary")).unwrap(), crate::victim::CANARY, "{}", log(case));
    daemon.kill();
}
