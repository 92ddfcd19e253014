//! A manifest that became shorter, empty or strange by accident is no wish (I-1).

use std::fs::{self, File};
use std::io::Write;
use std::os::unix::fs::symlink;
use std::os::unix::net::UnixListener;
use std::path::Path;

use rustix::fs::{CWD, FileType, Mode};
use windlass_testing::daemon::Case;
use windlass_testing::wait::until;

use crate::attacks;
use crate::victim::{WEB, canaries_live, log, logged, overwrite, pass_the_delay, pod, start, until_told};

attacks!["files":
    a_manifest_is_truncated,
    a_manifest_is_emptied_to_comments_and_separators,
    a_manifest_is_cut_at_each_of_many_places,
    a_manifest_is_copied_onto_a_full_disk,
    the_writer_of_a_manifest_is_killed_between_two_documents,
    the_writer_of_a_manifest_in_another_order_is_killed,
    a_pod_moves_to_a_manifest_that_is_torn,
    a_manifest_is_a_hole_after_a_crash,
    a_torn_manifest_is_renamed,
    a_torn_manifest_is_moved_away_and_back,
    a_manifest_is_a_directory_for_a_moment,
    the_end_of_a_link_is_away_and_comes_back_torn,
    the_winner_of_a_conflict_is_torn,
    a_torn_manifest_meets_another_of_the_same_pod,
    the_winner_of_a_conflict_is_renamed,
    a_field_is_misspelled,
    a_kind_is_misspelled,
    an_api_version_is_misspelled,
    a_manifest_becomes_something_that_is_no_file,
    a_manifest_is_read_while_an_editor_saves_it,
    names_of_files_are_hostile,
];

/// What is done to a path.
type Make<'a> = &'a dyn Fn(&Path);

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

/// All but the pod, as a writer leaves it that is interrupted between two documents.
fn torn() -> &'static str {
    &WEB[..WEB.rfind("---\n").unwrap()]
}

/// Tears a manifest, and waits until that is told.
fn tear(case: &Case, path: &str) {
    let since = logged(case);
    overwrite(&case.path(path), torn());
    until_told(case, since, "it ends without Pod default/web");
}

/// To give it another name, or its directory, is not to say that it is whole.
fn a_torn_manifest_is_renamed(case: &Case) {
    let manifests = case.path("manifests");
    case.manifest("team/web.yaml", WEB);
    let mut daemon = case.start();
    case.wait_mounted(&["web"]);
    crate::victim::put_canaries(case);
    for (what, from, to) in [("renamed", "team/web.yaml", "team/10-web.yaml"), ("with its directory", "team", "team-2")]
    {
        tear(case, "manifests/team/web.yaml");
        fs::rename(manifests.join(from), manifests.join(to)).unwrap();
        pass_the_delay(case, &manifests);
        canaries_live(case, what);
        let told = String::from_utf8(case.output(&["explain", "web"]).stdout).unwrap();
        assert!(told.contains("NotInManifests") && told.contains("had an error when it vanished"), "{told}");
        daemon.kill();
        daemon = case.start();
        pass_the_delay(case, &manifests);
        canaries_live(case, &format!("{what}, and a restart"));
        fs::rename(manifests.join(to), manifests.join(from)).unwrap();
        case.manifest("team/web.yaml", WEB);
        case.wait_mounted(&["web"]);
        canaries_live(case, &format!("{what}, put right"));
    }
    assert!(daemon.stop().success());
}

fn a_torn_manifest_is_moved_away_and_back(case: &Case) {
    let daemon = start(case);
    let (manifests, away) = (case.path("manifests"), case.path("away"));
    tear(case, "manifests/web.yaml");
    for moved in ["web.yaml", ""] {
        for _ in 0..crate::rounds() {
            fs::rename(manifests.join(moved), &away).unwrap();
            fs::rename(&away, manifests.join(moved)).unwrap();
            pass_the_delay(case, &manifests);
            canaries_live(case, &format!("{moved:?} moved away and back"));
        }
    }
    // Removed, it may be a mistake of whoever saw the error.
    fs::remove_file(manifests.join("web.yaml")).unwrap();
    pass_the_delay(case, &manifests);
    canaries_live(case, "torn and removed");
    case.manifest("web.yaml", WEB);
    case.wait_mounted(&["web"]);
    canaries_live(case, "put right");
    assert!(daemon.stop().success());
}

fn a_manifest_is_a_directory_for_a_moment(case: &Case) {
    let daemon = start(case);
    let manifest = case.path("manifests/web.yaml");
    for _ in 0..crate::rounds() {
        let since = logged(case);
        fs::remove_file(&manifest).unwrap();
        fs::create_dir(&manifest).unwrap();
        fs::remove_dir(&manifest).unwrap();
        overwrite(&manifest, torn());
        until_told(case, since, "it ends without Pod default/web");
        pass_the_delay(case, &case.path("manifests"));
        canaries_live(case, "a directory in its place, then torn");
        case.manifest("web.yaml", WEB);
        case.wait_mounted(&["web"]);
    }
    assert!(daemon.stop().success());
}

/// What a link leads to is away, and what comes back is no more whole than if it had been written in place.
fn the_end_of_a_link_is_away_and_comes_back_torn(case: &Case) {
    let (source, aside) = (case.path("source"), case.path("aside"));
    let end = source.join("web.yaml");
    fs::create_dir(&source).unwrap();
    overwrite(&end, WEB);
    symlink(&end, case.path("manifests/web.yaml")).unwrap();
    let daemon = case.start();
    case.wait_mounted(&["web"]);
    crate::victim::put_canaries(case);
    let away: [(&str, Make<'_>, Make<'_>); 3] = [
        ("the file", &|_| fs::remove_file(&end).unwrap(), &|_| overwrite(&end, torn())),
        ("its directory, moved", &|_| fs::rename(&source, &aside).unwrap(), &|_| {
            overwrite(&aside.join("web.yaml"), torn());
            fs::rename(&aside, &source).unwrap();
        }),
        ("its directory, removed", &|_| fs::remove_dir_all(&source).unwrap(), &|_| {
            fs::create_dir(&source).unwrap();
            overwrite(&end, torn());
        }),
    ];
    for (what, go, come) in away {
        let since = logged(case);
        go(&end);
        until_told(case, since, "it cannot be read");
        come(&end);
        until_told(case, since, "it ends without Pod default/web");
        pass_the_delay(case, &case.path("manifests"));
        canaries_live(case, &format!("{what} was away and is back torn"));
        overwrite(&end, WEB);
        pass_the_delay(case, &case.path("manifests"));
        canaries_live(case, "put right");
    }
    assert!(daemon.stop().success());
}

/// Others of the pod's name: with another uid, and with fewer volumes.
fn others() -> [String; 2] {
    [pod("web").replace("web-1", "other-1"), pod("web")]
}

fn the_winner_of_a_conflict_is_torn(case: &Case) {
    case.manifest("b.yaml", WEB);
    let daemon = case.start();
    case.wait_mounted(&["web"]);
    crate::victim::put_canaries(case);
    for other in others() {
        let since = logged(case);
        case.manifest("a.yaml", &other);
        until_told(case, since, "a.yaml");
        tear(case, "manifests/b.yaml");
        pass_the_delay(case, &case.path("manifests"));
        canaries_live(case, &format!("a conflict with {other}, whose winner is torn"));
        case.remove_manifest("a.yaml");
        case.manifest("b.yaml", WEB);
        pass_the_delay(case, &case.path("manifests"));
        canaries_live(case, "put right");
    }
    assert!(daemon.stop().success());
}

fn a_torn_manifest_meets_another_of_the_same_pod(case: &Case) {
    let daemon = start(case);
    for other in others() {
        tear(case, "manifests/web.yaml");
        let since = logged(case);
        case.manifest("backup.yaml", &other);
        until_told(case, since, "backup.yaml");
        pass_the_delay(case, &case.path("manifests"));
        canaries_live(case, &format!("torn, then {other}"));
        case.remove_manifest("backup.yaml");
        case.manifest("web.yaml", WEB);
        pass_the_delay(case, &case.path("manifests"));
        canaries_live(case, "put right");
    }
    assert!(daemon.stop().success());
}

fn the_winner_of_a_conflict_is_renamed(case: &Case) {
    case.manifest("b.yaml", WEB);
    let daemon = case.start();
    case.wait_mounted(&["web"]);
    crate::victim::put_canaries(case);
    let manifests = case.path("manifests");
    for other in others() {
        let since = logged(case);
        case.manifest("a.yaml", &other);
        until_told(case, since, "a.yaml");
        fs::rename(manifests.join("b.yaml"), manifests.join("c.yaml")).unwrap();
        pass_the_delay(case, &manifests);
        canaries_live(case, &format!("a conflict with {other}, whose winner is renamed"));
        case.remove_manifest("a.yaml");
        fs::rename(manifests.join("c.yaml"), manifests.join("b.yaml")).unwrap();
        pass_the_delay(case, &manifests);
        canaries_live(case, "put right");
    }
    assert!(daemon.stop().success());
}

fn a_field_is_misspelled(case: &Case) {
    // Moved into place: known to be whole, and not meant all the same.
    let field = |right: &'static str, wrong: &'static str| {
        move |path: &Path| crate::victim::put(path.parent().unwrap(), "web.yaml", &WEB.replace(right, wrong))
    };
    accidents(
        case,
        &[
            ("udi", &field("uid: web-1", "udi: web-1")),
            ("volumess", &field("  volumes:", "  volumess:")),
            ("medum", &field("medium: Memory", "medum: Memory")),
            ("spce", &field("spec:\n", "spce:\n")),
        ],
    );
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
