//! A hang is contained, and keeps no start out (I-6, I-11).

use std::path::Path;
use std::time::Duration;

use rustix::process::Signal;
use tokio::time::Instant;
use windlass_testing::daemon::{Case, Daemon};
use windlass_testing::silent::Silent;

use crate::victim::{WEB, canaries_live, log, pass_the_delay, put_canaries};
use crate::{attacks, skip};

attacks!["hangs":
    a_volume_hangs_and_the_others_go_on,
    every_thread_hangs_and_questions_are_answered,
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
    hung_with(case, &[])
}

fn hung_with(case: &Case, options: &[&str]) -> Scene {
    case.manifest("web.yaml", WEB);
    let mut command = case.run();
    command.args(["--stop-timeout", "1s"]).args(options);
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

/// Whoever asks about a pod has its volumes looked at, for which there is no thread.
fn every_thread_hangs_and_questions_are_answered(case: &Case) {
    let scene = hung_with(case, &["--threads-max", "1"]);
    let said = case.ask(&["explain", "web"]);
    assert!(said.contains("mounted"), "{said}");
    canaries_live(case, "a hang of every thread");
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
