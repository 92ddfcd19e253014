//! What is typed after `windlass csi judge`, as far as it comes without mounting anything.

use crate::program::{Run, windlass};

#[test]
fn what_makes_no_sense_to_the_judge_is_told() {
    for (words, told) in [
        (&["--fault", "stage=fine"][..], "timeout-with-effect"),
        (&["--fault", "stage"], "write CALL=KIND"),
        (&["--fault", "stage=too-small"], "a fault of create, grow and expand"),
        (&["--slow-by", "soon"], "is no time"),
        (&["--require-secret", "unstage"], "carries no secrets"),
        (&["--capabilities", "none,stage"], "none, and something else"),
        (&["--capabilities", "everything"], "single-node-multi-writer"),
        (&["--name", "a/b"], "a driver's name"),
        (&["--unregistered", "--registry", "/there/is/none"], "cannot be used with"),
        (&["--for", "soon"], "is no time"),
    ] {
        let run = Run::of(windlass().args(["csi", "judge"]).args(words).output().unwrap());
        assert_eq!((run.status, run.stdout.as_str()), (Some(2), ""), "{words:?}");
        assert!(run.stderr.contains(told), "{words:?}: {}", run.stderr);
    }
}
