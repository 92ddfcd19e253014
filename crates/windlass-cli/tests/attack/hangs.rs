//! A hang is contained, and keeps no start out (I-6, I-11).

use std::{path::Path, time::Duration};

use rustix::process::Signal;
use tokio::time::Instant;
use windlass_testing::{
    daemon::{Case, Daemon},
    silent::Silent,
};

use crate::{
    attacks, skip,
    victim::{WEB, canaries_live, log, pass_the_delay, put_canaries},
};

attacks!["hangs":
    a_volume_hangs_and_the_others_go_on,
    a_volume_hangs_and_the_daemon_is_ended,
    a_volume_hangs_and_the_daemon_is_killed,
];

/// Longer than the daemon waits for what runs when it is told to end.
const SOON: Duration = Duration::from_secs(20);

/// The file system goes first: what hangs in it ends then, and so can its process.
struct Scene {
    silent: Silent,
    daemon: Daemon,
}

fn host(path: &Path) -> String {
    format!(
        "apiVersion: v1\nkind: Pod\nmetadata: {{name: hung, uid: hung-1}}\nspec:\n  containers: [{{name: main, volumeMounts: \
         [{{name: host, mountPath: /host}}]}}]\n  volumes: [{{name: host, hostPath: {{path: {}, type: Directory}}}}]\n",
        path.join("below").display()
    )
}

fn silent(case: &Case) -> Silent {
    let silent = Silent::mount(&case.path("silent"));
    silent.unwrap_or_else(|error| skip(&format!("there is no FUSE here: {error}"))).greeted()
}

fn hung(case: &Case) -> Scene {
    case.manifest("web.yaml", WEB);
    let mut command = case.run();
    command.args(["--stop-timeout", "1s"]);
    let daemon = case.start_as(command);
    case.wait_mounted(&["web"]);
    put_canaries(case);
    let silent = silent(case);
    let scene = Scene { silent, daemon };
    case.manifest("hung.yaml", &host(&case.path("silent")));
    scene.silent.until_asked();
    scene
}

fn a_volume_hangs_and_the_others_go_on(case: &Case) {
    let scene = hung(case);
    for _ in 0..3 {
        pass_the_delay(case, &case.path("manifests"));
    }
    canaries_live(case, "a hang");
    drop(scene);
}

/// Ends the daemon in the way that `end` does while a volume hangs; the next one comes up and works.
fn ended(case: &Case, end: impl FnOnce(&Daemon)) {
    let Scene { silent, daemon: first } = hung(case);
    end(&first);
    let began = Instant::now();
    let mut scene = Scene { silent, daemon: case.spawn(case.run()) };
    // As a service manager does: one that ends is started again. The first needs a moment to end.
    let comes_up = loop {
        let is_up = || case.output(&["wait", "--timeout", "1s", "web"]).status.success();
        if began.elapsed() > SOON {
            break false;
        }
        if scene.daemon.ended().is_some() {
            scene.daemon = case.spawn(case.run());
        } else if is_up() {
            break true;
        }
    };
    let said = log(case);
    if comes_up {
        pass_the_delay(case, &case.path("manifests"));
        canaries_live(case, "a hang and a restart");
        scene.daemon.signal(Signal::KILL);
    }
    // The file system goes first: what hangs in it ends then, and so can both processes.
    let Scene { silent, daemon } = scene;
    drop(silent);
    drop((daemon, first));
    assert!(comes_up, "the next start is kept out\n{said}");
}

fn a_volume_hangs_and_the_daemon_is_ended(case: &Case) {
    ended(case, |daemon| daemon.signal(Signal::TERM));
}

fn a_volume_hangs_and_the_daemon_is_killed(case: &Case) {
    ended(case, |daemon| daemon.signal(Signal::KILL));
}
