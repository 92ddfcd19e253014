//! Whose group a volume is given to: that of the first pod (P-145, P-209..P-215).

use std::num::NonZero;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::{Duration, Instant};

use windlass_core::ids::PodUid;
use windlass_core::operation::{Cause, Obstacle};
use windlass_core::spec::Access;
use windlass_linux::ownership::{self, Control, Wanted, When};
use windlass_linux::path_error::PathError;
use windlass_linux::safe_path::Place;
use windlass_linux::table::Mount;

use super::{Failure, Publish, Scene, Want, chain};
use crate::observe::Observed;
use crate::tell::Tell;

/// More threads would be waiting for the same disk.
const THREADS_MAX: usize = 4;

/// When the pod's owner is told that it takes long, and how often after that (E-6l).
const PATIENCE: (Duration, Duration) = (Duration::from_secs(30), Duration::from_secs(60));

const HELP: &str = "https://kubernetes.io/docs/tasks/configure-pod-container/security-context/\
                    #configure-volume-permission-and-ownership-change-policy-for-pods";

/// The group that the pod names.
pub(crate) fn wanted(want: &Want) -> Result<Option<u32>, Failure> {
    let Some(group) = want.group() else { return Ok(None) };
    // The greatest number means «leave it as it is» to the kernel.
    match u32::try_from(group) {
        Ok(group) if group != u32::MAX => Ok(Some(group)),
        _ => Err(Failure::refused(Cause::Node(Obstacle::InputInvalid), format!("fsGroup {group} is no group"))),
    }
}

/// Gives what was just mounted to the group, unless another pod has it: then a difference is only told (E-308).
pub(super) fn give(scene: &Scene, task: &Publish<'_>, root: &Place, mount: &Mount, group: u32) -> Result<(), Failure> {
    if is_shared(scene, mount) {
        let look = |source| PathError::new("look at", root.path(), source);
        let found = rustix::fs::fstat(root).map_err(look)?.st_gid;
        if found != group {
            let text = format!(
                "The requested fsGroup is {group}, but the volume {} has GID {found}. The volume may not be shareable.",
                task.spec.inner_name
            );
            scene.tell.warning(task.uid, "AlreadyMountedVolume", text);
        }
        return Ok(());
    }
    give_all(scene, task, root, group)
}

/// Gives what was just mounted to the group, as the pod's policy says (P-210).
pub(super) fn give_all(scene: &Scene, task: &Publish<'_>, root: &Place, group: u32) -> Result<(), Failure> {
    let policy = task.want.pod.spec.as_ref().and_then(|it| it.security_context.as_ref());
    let when = match policy.and_then(|it| it.fs_group_change_policy.as_deref()) {
        Some("OnRootMismatch") => When::OnRootMismatch,
        // Whatever else it may say (P-210).
        Some(_) | None => When::Always,
    };
    apply(scene, task, root, group, when)
}

/// Gives what was found mounted to the group, if whoever mounted it did not get to the end: the root comes last, so it
/// tells. A pod that is running may have made files of other groups since then; those stay.
pub(super) fn finish(
    scene: &Scene,
    task: &Publish<'_>,
    root: &Place,
    mount: &Mount,
    group: u32,
) -> Result<(), Failure> {
    if is_shared(scene, mount) { Ok(()) } else { apply(scene, task, root, group, When::OnRootMismatch) }
}

/// Does another pod have this directory (P-259)?
fn is_shared(scene: &Scene, mount: &Mount) -> bool {
    let pods = scene.layout.path().join("pods");
    scene.watch.table().references(mount).any(|it| it.mount_point.starts_with(&pods))
}

fn apply(scene: &Scene, task: &Publish<'_>, root: &Place, group: u32, when: When) -> Result<(), Failure> {
    // P-215.
    if task.access == Access::ReadOnly {
        return Ok(());
    }
    let wanted = Wanted { group, access: ownership::Access::ReadWrite, when };
    let threads = std::thread::available_parallelism().map_or(1, NonZero::get).min(THREADS_MAX);
    let threads = NonZero::new(threads).unwrap_or(NonZero::<usize>::MIN);
    let control = Control::default();
    let shown = shown(root, task.uid);
    let began = Instant::now();
    let applied = reporting(&scene.tell, task.uid, &shown, PATIENCE, &control, || {
        ownership::apply(root, &wanted, threads, &control)
    });
    scene.observer.tell(&Observed::OwnershipApplied {
        plugin: &task.spec.plugin,
        driver: task.spec.driver.as_ref(),
        migrated: task.want.detail.migrated,
        done: applied.is_ok(),
        took: began.elapsed(),
    });
    let summary = applied.map_err(|error| Failure::open(&error))?;
    // Entries that could not be changed are no failure (P-212), but the pod's owner is told, which the kubelet does not (W-6).
    if let Some(first) = summary.failures.first() {
        let text = format!(
            "{} entries of {shown} could not be given to group {group}, the first: {}",
            summary.failed,
            chain(first)
        );
        scene.tell.warning(task.uid, "VolumePermissionChangeIncomplete", text);
    }
    Ok(())
}

/// The path from the pod's uid on.
fn shown(root: &Place, uid: &PodUid) -> String {
    let path = root.path().display().to_string();
    match path.find(uid.as_str()) {
        Some(begin) => path[begin..].to_owned(),
        None => path,
    }
}

/// Does the work, and tells the pod's owner while it takes long (P-214, E-487).
fn reporting<T>(
    tell: &Tell,
    uid: &PodUid,
    shown: &str,
    (first, then): (Duration, Duration),
    control: &Control,
    work: impl FnOnce() -> T,
) -> T {
    std::thread::scope(|scope| {
        // Goes with this closure, however it ends, and with it the thread.
        let (_working, ended) = mpsc::channel::<()>();
        let report = move || {
            let say = |text: String| tell.progress(uid, "VolumePermissionChangeInProgress", text);
            let mut wait = first;
            let mut is_first = true;
            while let Err(RecvTimeoutError::Timeout) = ended.recv_timeout(wait) {
                if is_first {
                    say(format!(
                        "Setting volume ownership for {shown} is taking longer than expected, \
                         consider using OnRootMismatch - {HELP}"
                    ));
                } else {
                    say(format!("Setting volume ownership for {shown}, processed {} files.", control.processed()));
                }
                (wait, is_first) = (then, false);
            }
        };
        // Without a thread to spare, the work matters more than the report.
        let _ = std::thread::Builder::new().name("ownership-report".into()).spawn_scoped(scope, report);
        work()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const LONG: Duration = Duration::from_secs(3600);

    /// What is told until so many events are out, with these waits.
    fn told(count: usize, patience: (Duration, Duration)) -> Vec<String> {
        let (sender, receiver) = mpsc::channel();
        let tell = Tell::new(move |event| sender.send(event).unwrap_or_default());
        let uid = PodUid::from("uid");
        let work = || (0..count).map(|_| receiver.recv().unwrap()).collect::<Vec<_>>();
        let told = reporting(&tell, &uid, "uid/volumes/data", patience, &Control::default(), work);
        assert!(told.iter().all(|it| it.reason == "VolumePermissionChangeInProgress" && it.pod == uid));
        told.iter().map(|it| it.message.to_string()).collect()
    }

    /// E-487.
    #[test]
    fn what_takes_long_is_told_and_then_counted() {
        let first = "Setting volume ownership for uid/volumes/data is taking longer than expected, consider using \
                     OnRootMismatch - https://kubernetes.io/docs/tasks/configure-pod-container/security-context/\
                     #configure-volume-permission-and-ownership-change-policy-for-pods";
        let later = "Setting volume ownership for uid/volumes/data, processed 0 files.";
        assert_eq!(told(1, (Duration::ZERO, LONG)), [first]);
        assert_eq!(told(3, (Duration::ZERO, Duration::ZERO)), [first, later, later]);
    }

    #[test]
    fn what_takes_no_time_is_not_told_and_nobody_waits() {
        assert_eq!(told(0, (LONG, LONG)), [""; 0]);
    }

    #[test]
    fn work_that_panics_ends_the_report() {
        let tell = Tell::new(|_| ());
        let work = || reporting(&tell, &"uid".into(), "", (LONG, LONG), &Control::default(), || panic!("as it should"));
        let ended = std::thread::scope(|scope| scope.spawn(work).join());
        assert!(ended.is_err());
    }
}
