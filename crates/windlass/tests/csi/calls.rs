//! How many calls a volume takes, questions included: what it costs where a driver is far away. No clock is asked, so a
//! busy machine disturbs nothing; bench/ has the times.

use std::sync::Arc;
use windlass_testing::harness::Tests;

use crate::driver::{Driver, Memory};
use crate::giving::Giving as _;
use crate::host::{Host, bring_up, take_down};

pub(crate) fn tests(tests: &mut Tests) {
    crate::add(tests, "a_volume_that_is_not_staged_takes_one_call_to_come_and_one_to_go", &[], |host| {
        let calls = ["NodePublishVolume", "NodeUnpublishVolume"];
        each_life_takes(host, &Memory::unstaged(), &calls);
    });
    crate::add(tests, "a_volume_that_is_staged_takes_two_calls_to_come_and_two_to_go", &[], |host| {
        let calls = ["NodeStageVolume", "NodePublishVolume", "NodeUnpublishVolume", "NodeUnstageVolume"];
        each_life_takes(host, &Memory::new(), &calls);
    });
}

/// The volume comes and goes, again and again. What a driver can do is asked once, when it registers.
fn each_life_takes(host: &Host, memory: &Arc<Memory>, calls: &[&str]) {
    const LIVES: usize = 3;
    let _driver = Driver::start(host, memory);
    let node = host.node();
    node.complete();
    for life in 1..=LIVES {
        bring_up(&node);
        take_down(&node);
        assert_eq!(memory.calls(), calls.repeat(life));
        assert_eq!(memory.questions(), ["NodeGetInfo", "NodeGetCapabilities"]);
    }
    host.end(node);
}
