//! A manifest that became shorter, empty or strange by accident is no wish (I-1).

use std::{
    fs::{self, File},
    io::Write,
    os::unix::{fs::symlink, net::UnixListener},
    path::Path,
};

use rustix::fs::{CWD, FileType, Mode};
use windlass_testing::{daemon::Case, wait::until};

use crate::{
    attacks,
    victim::{WEB, canaries_live, log, logged, overwrite, pass_the_delay, pod, start, until_told},
};

attacks!["files":
    a_manifest_is_truncated,
    a_manifest_is_emptied_to_comments_and_separators,
    a_manifest_is_cut_at_each_of_many_places,
    a_manifest_is_copied_onto_a_full_disk,
    the_writer_of_a_manifest_is_killed_between_two_documents,
    the_writer_of_a_manifest_in_another_order_is_killed,
    a_pod_moves_to_a_manifest_that_is_torn,
    a_manifest_is_a_hole_after_a_crash,
    a_kind_is_misspelled,
    an_api_version_is_misspelled,
    a_manifest_becomes_something_that_is_no_file,
    a_manifest_is_read_while_an_editor_saves_it,
    names_of_files_are_hostile,
];

/// What happens to a manifest, and how.
type Accident<'a> = (&'a str, &'a dyn Fn(&Path));

/// Plays accidents in one life of the daemon: after each the canaries live; then the manifest is put right.
fn accidents(case: &Case, accidents: &[Accident<'_>]) {
    let daemon = start(case);
    let manifest = case.path("manifests/web.yaml");
    for (what, accident) in accidents {
        let since = logged(case);
        accident(&manifest);
        until_told(case, since, "web.yaml");
        pass_the_delay(case, &case.path("manifests"));
        canaries_live(case, what);
        case.manifest("web.yaml", WEB);
        pass_the_delay(case, &case.path("manifests"));
        canaries_live(case, &format!("{what}, put right"));
    }
    assert!(daemon.stop().success());
}

fn a_manifest_is_truncated(case: &Case) {
    let truncate = |path: &Path| File::options().write(true).open(path).unwrap().set_len(0).unwrap();
    let redirect = |path: &Path| overwrite(path, "");
    let newline = |path: &Path| overwrite(path, "\n");
    accidents(case, &[("truncate", &truncate), ("> web.yaml", &redirect), ("echo > web.yaml", &newline)]);
}

fn a_manifest_is_emptied_to_comments_and_separators(case: &Case) {
    let comments = |path: &Path| overwrite(path, "# nothing here\n");
    let separators = |path: &Path| overwrite(path, "---\n---\n# x\n---\n");
    let nothing = |path: &Path| overwrite(path, "null\n");
    accidents(case, &[("comments", &comments), ("separators", &separators), ("null", &nothing)]);
}

fn a_manifest_is_cut_at_each_of_many_places(case: &Case) {
    let daemon = start(case);
    let manifest = case.path("manifests/web.yaml");
    let places: Vec<usize> = (0..WEB.len()).step_by(23).collect();
    for place in &places {
        overwrite(&manifest, &WEB[..*place]);
        // Nothing need be said of a cut, so the daemon is known to have read it by what it says of another file.
        let marker = format!("marker-{place}.yaml");
        let since = logged(case);
        case.manifest(&marker, "kind: [");
        until_told(case, since, &marker);
        case.remove_manifest(&marker);
    }
    pass_the_delay(case, &case.path("manifests"));
    canaries_live(case, "cuts at every 23rd byte");
    case.manifest("web.yaml", WEB);
    pass_the_delay(case, &case.path("manifests"));
    canaries_live(case, "cuts, put right");
    assert!(daemon.stop().success());
}

fn a_manifest_is_copied_onto_a_full_disk(case: &Case) {
    let small = case.path("manifests");
    rustix::mount::mount("small", &small, "tmpfs", rustix::mount::MountFlags::empty(), Some(c"size=64k,nr_inodes=64"))
        .unwrap();
    let daemon = start(case);
    // A page stays for another pod, so that something positive can be waited for.
    let mut filler = File::create(small.join("filler")).unwrap();
    while filler.write_all(&[b'x'; 4096]).is_ok() {}
    // What comes through ends before the pod.
    let pod = WEB.rfind("---\n").unwrap();
    let text = format!("{}{}{}", &WEB[..pod], "# more text than there is room for\n".repeat(500), &WEB[pod..]);
    fs::write(case.path("new.yaml"), text).unwrap();
    let since = logged(case);
    let copied = windlass_testing::process::program("cp")
        .arg(case.path("new.yaml"))
        .arg(small.join("web.yaml"))
        .output()
        .unwrap();
    assert!(!copied.status.success(), "the disk is full");
    let left = fs::metadata(small.join("web.yaml")).unwrap().len();
    assert!(left < fs::metadata(case.path("new.yaml")).unwrap().len(), "what was copied is cut");
    filler.set_len(0).unwrap();
    if left == 0 {
        until_told(case, since, "web.yaml");
    }
    pass_the_delay(case, &small);
    canaries_live(case, &format!("a copy of which {left} bytes came through"));
    assert!(daemon.stop().success());
}

fn the_writer_of_a_manifest_is_killed_between_two_documents(case: &Case) {
    let daemon = start(case);
    let manifest = case.path("manifests/web.yaml");
    // A process of its own, so that its file is closed by the kernel.
    let end = WEB.rfind("---\n").unwrap();
    fs::write(case.path("part"), &WEB[..end]).unwrap();
    let script = format!("exec cat '{}' - > '{}'", case.path("part").display(), manifest.display());
    let mut writer = windlass_testing::process::program("sh")
        .args(["-c", &script])
        .stdin(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    until("the part is written", &case.path("manifests"), || {
        fs::metadata(&manifest).is_ok_and(|it| it.len() == end as u64)
    });
    writer.kill().unwrap();
    writer.wait().unwrap();
    pass_the_delay(case, &case.path("manifests"));
    canaries_live(case, "a write that ended between two documents");
    // Neither a signal nor a start makes it a wish.
    daemon.signal(rustix::process::Signal::HUP);
    pass_the_delay(case, &case.path("manifests"));
    canaries_live(case, "a write that ended between two documents, and a hangup");
    daemon.kill();
    let daemon = case.start();
    pass_the_delay(case, &case.path("manifests"));
    canaries_live(case, "a write that ended between two documents, and a restart");
    assert!(daemon.stop().success());
}

/// What is left ends as the file ended before, so it looks like a removal from the middle.
fn the_writer_of_a_manifest_in_another_order_is_killed(case: &Case) {
    let last = format!("---\n{}", pod("last"));
    case.manifest("web.yaml", &format!("{WEB}{last}"));
    let daemon = case.start_until_mounted(&["web", "last"]);
    crate::victim::put_canaries(case);
    overwrite(&case.path("manifests/web.yaml"), &last);
    pass_the_delay(case, &case.path("manifests"));
    canaries_live(case, "a write in another order that was interrupted");
    let told = String::from_utf8(case.output(&["explain", "web"]).stdout).unwrap();
    assert!(told.contains("NotInManifests") && told.contains("was written in place without it"), "{told}");
    // It is killed before the writer comes back.
    daemon.kill();
    let daemon = case.start();
    pass_the_delay(case, &case.path("manifests"));
    canaries_live(case, "the same, and a restart");
    overwrite(&case.path("manifests/web.yaml"), &format!("{last}---\n{WEB}"));
    case.wait_mounted(&["web", "last"]);
    canaries_live(case, "the same, put right");
    assert!(daemon.stop().success());
}

/// The file to which the pod moves is cut before the pod, and then the pod is taken out of the other.
fn a_pod_moves_to_a_manifest_that_is_torn(case: &Case) {
    let daemon = start(case);
    let other = case.path("manifests/other.yaml");
    case.manifest("other.yaml", &pod("other"));
    case.wait_mounted(&["other"]);
    for torn in [String::new(), "kind: [".to_owned(), format!("{}---\napiVersion: v1\nkind: P", pod("other"))] {
        let since = logged(case);
        overwrite(&other, &torn);
        until_told(case, since, "other.yaml");
        case.remove_manifest("web.yaml");
        pass_the_delay(case, &case.path("manifests"));
        canaries_live(case, &format!("a move to a manifest that is cut: {torn:?}"));
        case.manifest("other.yaml", &format!("{}---\n{WEB}", pod("other")));
        case.wait_mounted(&["web", "other"]);
        case.manifest("web.yaml", WEB);
        case.manifest("other.yaml", &pod("other"));
        pass_the_delay(case, &case.path("manifests"));
        canaries_live(case, "the same, put right");
    }
    assert!(daemon.stop().success());
}

fn a_manifest_is_a_hole_after_a_crash(case: &Case) {
    let hole = |path: &Path| {
        let file = File::create(path).unwrap();
        file.set_len(WEB.len() as u64).unwrap();
    };
    let half = |path: &Path| overwrite(path, &format!("{}{}", &WEB[..60], "\0".repeat(WEB.len() - 60)));
    accidents(case, &[("a file of zero bytes", &hole), ("half a file and zero bytes", &half)]);
}

fn a_kind_is_misspelled(case: &Case) {
    let kind = |word: &'static str| move |path: &Path| overwrite(path, &WEB.replace("kind: Pod\n", word));
    accidents(
        case,
        &[
            ("kind: pod", &kind("kind: pod\n")),
            ("kind: Pods", &kind("kind: Pods\n")),
            ("kind: Pood", &kind("kind: Pood\n")),
            ("kind: Deployment", &kind("kind: Deployment\n")),
        ],
    );
}

fn an_api_version_is_misspelled(case: &Case) {
    let version = |word: &'static str| {
        move |path: &Path| {
            let at = WEB.rfind("apiVersion: v1").unwrap();
            let moved = format!("{}{word}{}", &WEB[..at], &WEB[at + "apiVersion: v1".len()..]);
            // Moved into place, as careful programs do: known to be whole, and not meant all the same.
            fs::write(path.with_extension("new"), moved).unwrap();
            fs::rename(path.with_extension("new"), path).unwrap();
        }
    };
    accidents(
        case,
        &[
            ("apiVersion: v2", &version("apiVersion: v2")),
            ("apiVersion: v1beta1", &version("apiVersion: v1beta1")),
            ("apiVersion: apps/v1", &version("apiVersion: apps/v1")),
        ],
    );
}

/// What is there is not the file that was, and cannot be read as one: unknown, not empty.
fn a_manifest_becomes_something_that_is_no_file(case: &Case) {
    let daemon = start(case);
    let manifest = case.path("manifests/web.yaml");
    let odd = case.path("odd");
    type Make<'a> = &'a dyn Fn(&Path);
    let kinds: [(&str, Make<'_>); 4] = [
        ("a pipe", &|path| rustix::fs::mknodat(CWD, path, FileType::Fifo, Mode::RUSR, 0).unwrap()),
        ("a link to nothing", &|path| symlink("/nowhere/at/all", path).unwrap()),
        ("a link to itself", &|path| symlink(path.file_name().unwrap(), path).unwrap()),
        ("a socket", &|path| drop(UnixListener::bind(path).unwrap())),
    ];
    for (what, make) in kinds {
        let _ = fs::remove_file(&odd);
        make(&odd);
        fs::rename(&odd, &manifest).unwrap();
        pass_the_delay(case, &case.path("manifests"));
        canaries_live(case, what);
        case.manifest("web.yaml", WEB);
    }
    case.wait_mounted(&["web"]);
    canaries_live(case, "all of them, put right");
    assert!(daemon.stop().success());
}

fn a_manifest_is_read_while_an_editor_saves_it(case: &Case) {
    let daemon = start(case);
    let manifests = case.path("manifests");
    let manifest = manifests.join("web.yaml");
    for round in 0..crate::rounds() * 10 {
        match round % 3 {
            // vim: the old file is moved away, the new one is made and written.
            0 => {
                fs::rename(&manifest, manifests.join("web.yaml~")).unwrap();
                overwrite(&manifest, WEB);
                fs::remove_file(manifests.join("web.yaml~")).unwrap();
            }
            // git: the file is removed, made and written.
            1 => {
                fs::remove_file(&manifest).unwrap();
                let mut file = File::create(&manifest).unwrap();
                for part in WEB.as_bytes().chunks(64) {
                    file.write_all(part).unwrap();
                }
            }
            // nano: written in place.
            _ => overwrite(&manifest, WEB),
        }
    }
    pass_the_delay(case, &manifests);
    canaries_live(case, "saves");
    assert!(daemon.stop().success());
}

fn names_of_files_are_hostile(case: &Case) {
    let daemon = start(case);
    for (number, name) in
        ["line\nbreak.yaml", "\u{1b}[31mred.yaml", "-rf.yaml", "a b;c.yaml", "ä.yaml"].iter().enumerate()
    {
        case.manifest(name, &pod(&format!("odd-{number}")));
        case.wait_mounted(&[&format!("odd-{number}")]);
        fs::write(case.path("manifests").join(name), "kind: [").unwrap();
    }
    pass_the_delay(case, &case.path("manifests"));
    canaries_live(case, "hostile names");
    let log = log(case);
    assert!(!log.contains('\u{1b}'), "a name reaches the terminal of whoever reads the log: {log:?}");
    assert!(daemon.stop().success());
}
