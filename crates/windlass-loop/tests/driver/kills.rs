//! The driver is killed at any moment, while calls of all kinds are under way. What it leaves is in order again once it has
//! been started and everything was undone: no loop device, no mount, no file. `WINDLASS_LOOP_KILLS` says how often, and
//! `WINDLASS_LOOP_SEED` when.

use std::time::Duration;

use tonic::transport::Channel;
use windlass_csi::proto::csi::controller_client::ControllerClient;
use windlass_csi::proto::csi::node_client::NodeClient;
use windlass_csi::proto::csi::{
    DeleteVolumeRequest, NodeUnpublishVolumeRequest, NodeUnstageVolumeRequest, VolumeCapability,
};

use crate::case::{self, Case, MEBIBYTE, as_block, as_mount, inline, publish};

crate::tests!(kills_at_any_moment_leak_nothing("mkfs.ext4"));

/// How often the driver is killed unless it is said.
const KILLS: u64 = 25;

/// A volume by name, and how it is used.
type Work = (&'static str, fn() -> VolumeCapability);

/// What is done meanwhile.
const WORK: [Work; 4] =
    [("one", || as_mount("ext4")), ("two", as_block), ("three", || as_mount("ext4")), ("four", as_block)];

fn number(name: &str, default: u64) -> u64 {
    std::env::var(name).ok().and_then(|it| it.parse().ok()).unwrap_or(default)
}

/// The next of a row of numbers that depend on nothing but the first (xorshift).
fn next(state: &mut u64) -> u64 {
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    *state
}

fn kills_at_any_moment_leak_nothing(case: &mut Case) {
    let seed = number("WINDLASS_LOOP_SEED", 0x9e37_79b9_7f4a_7c15).max(1);
    let mut random = seed;
    case.start(&[]);
    // What is in use all the time, and must not be touched by any of it.
    let how = as_mount("ext4");
    let kept = case.create("kept", 64 * MEBIBYTE, &how).volume_id;
    case.stage(&kept, &case.staging("kept"), &how).unwrap();
    case.publish(publish(&kept, &case.staging("kept"), &case.target("kept"), &how)).unwrap();
    std::fs::write(case.path("pods/kept/file"), "contents").unwrap();
    for (name, _) in WORK {
        case.staging(name);
    }
    for kill in 0..number("WINDLASS_LOOP_KILLS", KILLS) {
        let moment = Duration::from_micros(next(&mut random) % 200_000);
        let channel = case.channel();
        let staging = case.text("staging");
        let pods = case.text("pods");
        case.run(async {
            let live = |index: usize| {
                let (name, how) = WORK[index];
                live(channel.clone(), name, how(), format!("{staging}/{name}"), format!("{pods}/{name}"))
            };
            let inline = live_inline(channel.clone(), format!("{pods}/inline"));
            let work = async { tokio::join!(live(0), live(1), live(2), live(3), inline) };
            // The moment of the kill; whatever is under way then goes with the driver.
            let _ = tokio::time::timeout(moment, work).await;
        });
        drop(channel);
        case.kill();
        case.restart();
        check(case, &kept, &format!("kill {kill} of seed {seed}"));
    }
    case.unpublish(&kept, &case.target("kept")).unwrap();
    case.unstage(&kept, &case.staging("kept")).unwrap();
    case.delete(&kept).unwrap();
}

/// Undoes everything, as an orchestrator does that knows of no outcome, and looks what is left.
fn check(case: &Case, kept: &str, when: &str) {
    assert_eq!(std::fs::read_to_string(case.path("pods/kept/file")).unwrap(), "contents", "{when}");
    for entry in case.list() {
        let id = entry.volume.unwrap().volume_id;
        if id == kept {
            continue;
        }
        for (name, _) in WORK {
            let undone = case.unpublish(&id, &case.target(name)).and_then(|()| case.unstage(&id, &case.staging(name)));
            undone.unwrap_or_else(|status| panic!("{when}: {status}; {}", case.log()));
        }
        case.delete(&id).unwrap_or_else(|status| panic!("{when}: {status}; {}", case.log()));
    }
    case.unpublish("inline", &case.target("inline"))
        .unwrap_or_else(|status| panic!("{when}: {status}; {}", case.log()));
    assert_eq!(case.list().len(), 1, "{when}");
    assert_eq!(case.names("state/images"), [format!("{kept}.img")], "{when}; {}", case.log());
    assert_eq!(case.names("state/records"), [kept], "{when}");
    assert_eq!(case.names("pods"), ["kept"], "{when}");
    assert_eq!(case.mounts().len(), 2, "{when}: {:?}", case.mounts());
    assert_eq!(case.backing_files().len(), 1, "{when}: {:?}; {}", case.backing_files(), case.log());
}

/// A volume that goes through everything again and again, until the driver is gone.
async fn live(channel: Channel, name: &'static str, how: VolumeCapability, staging: String, target: String) {
    let (mut controller, mut node) = (ControllerClient::new(channel.clone()), NodeClient::new(channel));
    let round = async || {
        let created = controller.create_volume(case::create(name, 32 * MEBIBYTE, &how)).await?;
        let id = created.into_inner().volume.unwrap_or_default().volume_id;
        node.node_stage_volume(case::stage(&id, &staging, &how)).await?;
        node.node_publish_volume(publish(&id, &staging, &target, &how)).await?;
        let request = NodeUnpublishVolumeRequest { volume_id: id.clone(), target_path: target.clone() };
        node.node_unpublish_volume(request).await?;
        let request = NodeUnstageVolumeRequest { volume_id: id.clone(), staging_target_path: staging.clone() };
        node.node_unstage_volume(request).await?;
        controller.delete_volume(DeleteVolumeRequest { volume_id: id, ..DeleteVolumeRequest::default() }).await?;
        Ok::<_, tonic::Status>(())
    };
    repeat(round).await;
}

async fn live_inline(channel: Channel, target: String) {
    let mut node = NodeClient::new(channel);
    let round = async || {
        node.node_publish_volume(inline("inline", &target, "32Mi")).await?;
        let request = NodeUnpublishVolumeRequest { volume_id: "inline".into(), target_path: target.clone() };
        node.node_unpublish_volume(request).await?;
        Ok::<_, tonic::Status>(())
    };
    repeat(round).await;
}

/// Whatever is refused is done again: it is the kill that ends it.
async fn repeat(mut round: impl AsyncFnMut() -> Result<(), tonic::Status>) {
    loop {
        let _ = round().await;
        tokio::task::yield_now().await;
    }
}
