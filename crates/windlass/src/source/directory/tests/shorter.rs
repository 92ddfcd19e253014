//! Everything that can make a directory of manifests look shorter, as `docs/standalone.md` lists it, but for mounts, which
//! need a namespace. Each is done with the system calls that the program in question makes.

use std::io::Write;

use super::*;

/// Three pods in one file, and one in another.
fn three() -> Case {
    let mut case = Case::new(&[("web.yaml", &(pod("a") + &pod("b") + &pod("c"))), ("other.yaml", &pod("other"))]);
    case.until(&["a", "b", "c", "complete", "other"]);
    case
}

impl Case {
    /// The file is told to be in trouble, for this reason, and nothing went.
    fn keeps(&mut self, path: &str, why: &str) {
        let path = self.path(path).display().to_string();
        self.summary_until(|it| it.problems.iter().any(|it| it.path == path && it.message.contains(why)));
        // To read it again changes nothing; what is put there after it is in force.
        self.source.reread();
        self.move_in("later.yaml", &pod("later"));
        self.until(&["a", "b", "c", "complete", "later", "other"]);
        // And once it is whole again, all is well.
        self.move_in("web.yaml", &(pod("a") + &pod("b") + &pod("c") + &pod("d")));
        self.until(&["a", "b", "c", "complete", "d", "later", "other"]);
        self.summary_until(|it| it.problems.is_empty());
        assert!(!self.history.iter().any(|it| it.starts_with('-')), "{:?}", self.history);
    }

    /// Waits until the node was told this, or something that begins with it, once more.
    fn until_told(&mut self, beginning: &str) {
        let told = |it: &Self| it.history.iter().filter(|it| it.starts_with(beginning)).count();
        let before = told(self);
        while told(self) == before {
            let Ok(give) = self.given.recv_timeout(LONG) else {
                panic!("waited in vain for {beginning:?}, it was told {:?}", self.history)
            };
            self.take(give);
        }
    }

    /// Opened as it is, cut and written, as `cp`, `tee`, `scp`, nano and VS Code do.
    fn write_in_place(&self, path: &str, text: &str) {
        fs::write(self.path(path), text).unwrap();
    }

    /// Removed, made anew and written, as `git` does.
    fn check_out(&self, path: &str, text: &str) {
        fs::remove_file(self.path(path)).unwrap();
        let mut file = fs::OpenOptions::new().write(true).create_new(true).open(self.path(path)).unwrap();
        file.write_all(text.as_bytes()).unwrap();
    }

    /// Moved away and made anew, and the old one removed, as vim and emacs do.
    fn save_beside(&self, path: &str, text: &str) {
        fs::rename(self.path(path), self.path(&format!("{path}~"))).unwrap();
        fs::write(self.path(path), text).unwrap();
        fs::remove_file(self.path(&format!("{path}~"))).unwrap();
    }
}

const NOTHING: &str = "it says nothing";
const CUT: &str = "it ends without Pod default/c, perhaps because its writer was interrupted";

#[test]
fn a_file_that_was_cut_to_nothing() {
    let mut case = three();
    fs::OpenOptions::new().write(true).open(case.path("web.yaml")).unwrap().set_len(0).unwrap();
    case.keeps("web.yaml", NOTHING);
}

#[test]
fn a_file_that_was_cut_in_the_middle() {
    let mut case = three();
    let length = pod("a").len() as u64;
    fs::OpenOptions::new().write(true).open(case.path("web.yaml")).unwrap().set_len(length).unwrap();
    case.keeps("web.yaml", "it ends without Pod default/b and 1 more");
}

#[test]
fn a_redirection_whose_program_failed() {
    let mut case = three();
    drop(fs::File::create(case.path("web.yaml")).unwrap());
    case.keeps("web.yaml", NOTHING);
}

#[test]
fn a_copy_that_found_the_disk_full() {
    for save in [Case::write_in_place, Case::check_out, Case::save_beside] {
        let mut case = three();
        save(&case, "web.yaml", "");
        case.keeps("web.yaml", NOTHING);
        let mut case = three();
        save(&case, "web.yaml", &(pod("a") + &pod("b")));
        case.keeps("web.yaml", CUT);
    }
}

#[test]
fn a_writer_that_was_killed() {
    let mut case = three();
    let mut file = fs::File::create(case.path("web.yaml")).unwrap();
    file.write_all(pod("a").as_bytes()).unwrap();
    file.write_all(pod("b").as_bytes()).unwrap();
    // The kernel closes what a process had open.
    drop(file);
    case.keeps("web.yaml", CUT);
}

#[test]
fn a_crash_that_left_a_hole() {
    let mut case = three();
    let file = fs::File::create(case.path("web.yaml")).unwrap();
    file.set_len(4096).unwrap();
    drop(file);
    case.keeps("web.yaml", "there is a NUL byte");
}

/// In force, but the pod is held: a writer in another order that was interrupted leaves the same.
#[test]
fn an_editor_that_removes_from_the_middle() {
    for save in [Case::write_in_place, Case::check_out, Case::save_beside] {
        let mut case = three();
        save(&case, "web.yaml", &(pod("a") + &pod("c")));
        case.summary_until(|it| it.pods.len() == 3 && it.problems.is_empty());
        case.until_told("=b: ");
        assert!(case.world.contains("b"));
        // It is as before once it is put back.
        save(&case, "web.yaml", &(pod("a") + &pod("b") + &pod("c")));
        case.until_told("+b");
        let mut case = three();
        save(&case, "web.yaml", &(pod("a") + &pod("c").replace("---\n", "...\n")));
        case.until(&["a", "c", "complete", "other"]);
    }
}

/// What was meant is c, d, b: the last one was the last before, too.
#[test]
fn a_writer_in_another_order_that_was_killed() {
    let mut case = three();
    case.write_in_place("web.yaml", &pod("c"));
    case.until_told("=a: ");
    case.until_told("=b: ");
    case.write_in_place("web.yaml", &(pod("c") + &pod("d") + &pod("b") + &pod("a")));
    case.until_told("+a");
    case.until(&["a", "b", "c", "complete", "d", "other"]);
    assert!(!case.history.iter().any(|it| it.starts_with('-')), "{:?}", case.history);
}

#[test]
fn an_editor_that_removes_from_the_end() {
    for save in [Case::write_in_place, Case::check_out, Case::save_beside] {
        let mut case = three();
        save(&case, "web.yaml", &(pod("a") + &pod("b")));
        case.keeps("web.yaml", CUT);
        let mut case = three();
        save(&case, "web.yaml", &(pod("a") + &pod("b").replace("---\n", "...\n")));
        case.until(&["a", "b", "complete", "other"]);
    }
}

/// `sed -i`, ansible, puppet, rsync, `mv`.
#[test]
fn a_program_that_moves_the_new_file_into_place() {
    let mut case = three();
    case.move_in("web.yaml", &pod("b"));
    case.until(&["b", "complete", "other"]);
    assert!(case.summary().problems.is_empty());
}

#[test]
fn a_file_that_was_replaced_by_something_else() {
    let mut case = three();
    fs::remove_file(case.path("web.yaml")).unwrap();
    rustix::fs::mkfifoat(rustix::fs::CWD, case.path("web.yaml"), 0o600.into()).unwrap();
    case.keeps("web.yaml", "it is a pipe and not a file");
    let mut case = three();
    fs::remove_file(case.path("web.yaml")).unwrap();
    symlink("nowhere", case.path("web.yaml")).unwrap();
    case.keeps("web.yaml", "it cannot be read: No such file or directory");
    let mut case = three();
    fs::remove_file(case.path("web.yaml")).unwrap();
    symlink("/", case.path("web.yaml")).unwrap();
    case.keeps("web.yaml", "it is a directory and not a file");
}

/// That is as good as removing it.
#[test]
fn a_file_that_was_renamed_to_a_name_that_is_not_read() {
    for name in ["web.yaml~", ".web.yaml.swp", "web.yaml.bak", ".web.yaml", "web.txt"] {
        let mut case = three();
        fs::rename(case.path("web.yaml"), case.path(name)).unwrap();
        case.until(&["complete", "other"]);
        assert!(case.summary().problems.is_empty());
    }
}

#[test]
fn a_file_that_became_too_large() {
    let mut case = three();
    let text = pod("a") + "# " + &"x".repeat(usize::try_from(BYTES_MAX).unwrap());
    case.write_in_place("web.yaml", &text);
    case.keeps("web.yaml", "it is larger than 8388608 bytes");
}

#[test]
fn a_kind_that_was_misspelt() {
    let mut case = three();
    let wrong = (pod("a") + &pod("b") + &pod("c")).replacen("kind: Pod", "kind: Pdo", 1);
    case.move_in("web.yaml", &wrong);
    case.keeps("web.yaml", "there is no \"Pdo\" of \"v1\": did you mean Pod?");
}

#[test]
fn a_directory_below_that_was_removed_or_moved_away() {
    let remove: [fn(&Path); 2] =
        [|it| fs::remove_dir_all(it).unwrap(), |it| fs::rename(it, it.with_file_name(".x")).unwrap()];
    for remove in remove {
        let mut case = Case::new(&[("x/a.yaml", &pod("a")), ("b.yaml", &pod("b"))]);
        case.until(&["a", "b", "complete"]);
        remove(&case.path("x"));
        case.until(&["b", "complete"]);
        assert!(case.summary().problems.is_empty());
    }
}

/// It may also be one that somebody has just made and not written yet.
#[test]
fn an_empty_file_that_somebody_made() {
    let mut case = three();
    case.write_in_place("new.yaml", "");
    case.summary_until(|it| it.problems.iter().any(|it| it.message.contains(NOTHING)));
    // Anything may come to be in it, so nothing goes meanwhile.
    fs::remove_file(case.path("other.yaml")).unwrap();
    case.summary_until(|it| it.pods.len() == 3);
    case.write_in_place("new.yaml", &pod("other"));
    case.summary_until(|it| it.problems.is_empty() && it.pods.len() == 4);
    case.move_in("last.yaml", &pod("last"));
    case.until(&["a", "b", "c", "complete", "last", "other"]);
    assert!(!case.history.iter().any(|it| it.starts_with('-')), "{:?}", case.history);
}

/// As `git` does it when it goes to another branch: files are removed and made one by one.
#[test]
fn a_branch_in_which_pods_are_in_other_files() {
    let mut case = three();
    case.check_out("web.yaml", &(pod("a") + &pod("b")));
    case.summary_until(|it| it.problems.iter().any(|it| it.message.contains(CUT)));
    case.check_out("other.yaml", &(pod("other") + &pod("c")));
    case.summary_until(|it| it.problems.is_empty());
    case.move_in("last.yaml", &pod("last"));
    case.until(&["a", "b", "c", "complete", "last", "other"]);
    assert!(!case.history.iter().any(|it| it.starts_with('-')), "{:?}", case.history);
}

/// A file that `git` removed before it was killed is removed.
#[test]
fn a_checkout_that_was_killed() {
    let mut case = three();
    fs::remove_file(case.path("web.yaml")).unwrap();
    case.until(&["complete", "other"]);
}
