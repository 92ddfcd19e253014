//! The ordinary life of a volume.

use crate::language::run;

#[test]
fn a_volume_goes_up_step_by_step_and_down_the_same_way() {
    insta::assert_snapshot!(run("
        volume disk: attach=node stage
        pod a wants disk
        #1 done
        #2 done
        #3 done
        ? mounted a
        pod a gone
        #4 done
        #5 done
        #6 done
        ? state disk
    "), @r"");
}

#[test]
fn a_pod_that_goes_while_its_stage_call_hangs_is_cleaned_up_when_the_call_returns() {
    insta::assert_snapshot!(run("
        volume disk: stage
        pod a wants disk
        pod a gone
        after 3m
        ? why disk
        #1 done
        #2 done
        ? state disk
    "), @r"");
}
