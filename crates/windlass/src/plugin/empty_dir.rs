//! `emptyDir`: scratch space that lives and dies with its pod, on the node's disk or in memory (P-59..P-73).
//!
//! A volume on disk is a directory for everybody. One in memory is a file system of its own, and the directory it is
//! mounted on is for nobody: what would be written there while nothing is mounted would be lost from sight. Volumes that
//! windlass writes lie in scratch space too (P-74), so `set_up` and `tear_down` serve their plugin as well.

mod huge_pages;
mod marker;
mod size;

use std::num::NonZero;
use std::path::PathBuf;
use std::sync::{Arc, PoisonError};
use std::time::SystemTime;

use async_trait::async_trait;
use k8s_openapi::api::core::v1::EmptyDirVolumeSource;
use rustix::fs::{AtFlags, FileType, Mode};
use rustix::io::Errno;
use windlass_core::ids::ObjectName;
use windlass_core::operation::{Cause, Earlier, Obstacle, Proof};
use windlass_linux::mount::{self, Detached, Options, Swap, Tmpfs, Value};
use windlass_linux::name::Name;
use windlass_linux::ownership::{self, Control, Wanted, When};
use windlass_linux::path_error::PathError;
use windlass_linux::remove;
use windlass_linux::safe_path::{Fresh, Mounts, Place};
use windlass_linux::table::{self, Mount};

use super::{
    Failure, Made, Plugin, Publish, Scene, Unpublish, VolumeForm, Want, absolute, directory_proof, entry_proof,
    foreign, fresh_proof, mounted,
};
use crate::catalogue::{Attributes, Content, HeldUpBy, Limit, Refused, VolumeType};
use crate::layout::{Home, OPEN, PRIVATE, Slot};
use crate::objects::{Lookup, ObjectKind, Objects, Reference};
use crate::quantity;

pub(super) use marker::Marker;

/// The mode of a volume on disk.
const SHARED: Mode = Mode::from_bits_retain(0o777);

const TMPFS: &str = "tmpfs";
const HUGETLBFS: &str = "hugetlbfs";

/// Scratch space.
pub(super) static EMPTY_DIR: VolumeType = VolumeType {
    in_pod: |it| it.empty_dir.is_some(),
    // What is on disk cannot become memory while a pod has it. No name of a volume has a colon in it.
    variant: |it| match it.empty_dir.as_ref().and_then(|it| it.medium.as_deref()) {
        None | Some("") => String::new(),
        Some(medium) => format!(":{medium}"),
    },
    attributes: |_| OPEN_TO_ALL,
    content: Content::Scratch,
    limit: |volume| match &volume.empty_dir {
        Some(it) if it.medium.as_deref().unwrap_or_default().is_empty() => {
            it.size_limit.as_ref().map_or(Limit::OfPod, Limit::Own)
        }
        Some(_) | None => Limit::None,
    },
    held_up_by: HeldUpBy::Root,
    ..VolumeType::plain("kubernetes.io/empty-dir", &EmptyDir)
};

/// A clone of a repository, which no node makes any more (P-10): scratch space that older kubelets filled (P-208).
pub(super) static GIT_REPO: VolumeType = VolumeType {
    in_pod: |it| it.git_repo.is_some(),
    attributes: |_| OPEN_TO_ALL,
    limit: |_| Limit::OfPod,
    refusal: Some(Refused {
        text: "git-repo volume plugin has been disabled; if necessary, it may be re-enabled by enabling the \
               feature-gate `GitRepoVolumeDriver`",
        note: "there is no such gate here; clone in an init container, into an emptyDir",
    }),
    ..VolumeType::plain("kubernetes.io/git-repo", &EmptyDir)
};

const OPEN_TO_ALL: Attributes = Attributes { read_only: false, managed: true, relabel: true };

/// The calls of [`EMPTY_DIR`] and [`GIT_REPO`].
#[derive(Clone, Copy, Debug)]
pub(crate) struct EmptyDir;

#[async_trait]
impl Plugin for EmptyDir {
    async fn publish(&self, scene: &Scene, task: &Publish<'_>) -> Result<Made, Failure> {
        let Some(source) = task.want.volume().and_then(|it| it.empty_dir.as_ref()) else {
            let text = format!("volume {} is no scratch space", task.want.detail.name);
            return Err(Failure::refused(Cause::Other, text));
        };
        Ok(set_up(scene, task, Marker::Own, &Medium::of(source)?)?.made)
    }

    async fn unpublish(&self, scene: &Scene, task: &Unpublish<'_>) -> Result<(), Failure> {
        let mut marker = Marker::Own;
        if task.spec.plugin.as_str() == GIT_REPO.name {
            // A clone lay in scratch space and had a note of its own besides (P-305).
            marker::remove_from(task.home, GIT_REPO.name, &task.slot.name)?;
            marker = Marker::Wrapped;
        }
        // Without a record and without a note nobody has ever been given this: what is in it is not a pod's (I-5).
        let given = task.recorded || marker.is_there(task.home, task.slot)?;
        tear_down(scene, task.home, task.slot, marker, task.made, |_| given)
    }
}

/// What scratch space is made of (P-59).
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Medium {
    /// The disk that holds the root directory.
    Disk,
    /// Memory that is not swapped out, if the kernel can promise that.
    Memory {
        /// How much it may hold; zero and `None` leave that to the pod and the node.
        limit_bytes: Option<u64>,
    },
    /// Huge pages. Their size is read from the name when it is needed.
    HugePages {
        /// The medium as the pod has it.
        name: String,
    },
}

impl Medium {
    fn of(source: &EmptyDirVolumeSource) -> Result<Self, Failure> {
        match source.medium.as_deref().unwrap_or_default() {
            "" => Ok(Self::Disk),
            "Memory" => {
                let limit = source.size_limit.as_ref().map(|it| quantity::bytes(&it.0)).transpose();
                Ok(Self::Memory { limit_bytes: limit.map_err(|it| invalid("read the size limit", &it))? })
            }
            name if name == huge_pages::MEDIUM || name.starts_with(huge_pages::SIZED_MEDIUM) => {
                Ok(Self::HugePages { name: name.into() })
            }
            unknown => {
                let text = format!("unknown storage medium {unknown:?}");
                Err(Failure::refused(Cause::Node(Obstacle::InputInvalid), text))
            }
        }
    }
}

/// Scratch space that is ready.
pub(super) struct Scratch {
    /// Its root.
    pub(super) root: Root,
    /// What was made.
    pub(super) made: Made,
    /// It was made just now: there is nothing in it.
    pub(super) is_new: bool,
}

/// The root of scratch space.
pub(super) enum Root {
    /// It is held open.
    Open(Place),
    /// It was made just now, and nobody has opened it yet.
    Fresh(Fresh),
}

impl Root {
    /// Opens it, if it is not open.
    pub(super) fn open(self) -> Result<Place, Failure> {
        match self {
            Self::Open(place) => Ok(place),
            Self::Fresh(fresh) => Ok(fresh.open()?),
        }
    }
}

/// Makes scratch space at a pod's slot, or finds it there. Nothing in it is touched, unless it was not finished: then
/// everything is given to the pod's group (P-69).
pub(super) fn set_up(scene: &Scene, task: &Publish<'_>, marker: Marker, medium: &Medium) -> Result<Scratch, Failure> {
    let Publish { slot, want, home, .. } = *task;
    if let Some(scratch) = set_up_fresh(scene, task, marker, medium)? {
        return Ok(scratch);
    }
    // Until something is mounted or noted, all that is left behind is an empty directory, which goes with the pod.
    let parent = home.make_parent(slot, OPEN).map_err(left_nothing)?;
    // In a directory that was made for this there are no notes but of what was made since.
    let ready = !(home.is_new() && task.after == Earlier::Nothing)
        && marker.is_there(home, slot).map_err(Failure::nothing_left)?;
    let path = absolute(scene, &slot.path());
    let task = Task { scene, home, slot, marker, want, parent, path, ready, made: task.made, intend: task.intend };
    match medium {
        Medium::Disk => task.on_disk(),
        Medium::Memory { limit_bytes } => task.in_memory(*limit_bytes),
        Medium::HugePages { name } => task.in_huge_pages(name),
    }
}

/// As [`set_up`], in a directory of a pod that was made for this: there is nothing to find there, and nobody else to reckon
/// with. `None` if it is not so simple.
fn set_up_fresh(
    scene: &Scene,
    task: &Publish<'_>,
    marker: Marker,
    medium: &Medium,
) -> Result<Option<Scratch>, Failure> {
    let Publish { slot, want, home, .. } = *task;
    let limit_bytes = match medium {
        Medium::Disk => None,
        Medium::Memory { limit_bytes } => Some(*limit_bytes),
        Medium::HugePages { .. } => return Ok(None),
    };
    if task.after != Earlier::Nothing || task.made.is_some() || want.group().is_some() {
        return Ok(None);
    }
    let Some(parent) = home.fresh_parent(slot, OPEN).map_err(left_nothing)? else { return Ok(None) };
    let target = parent.directory(slot.name.as_path());
    let path = absolute(scene, &slot.path());
    let Some(limit_bytes) = limit_bytes else {
        target.make(SHARED).map_err(left_nothing)?;
        marker.write(home, slot)?;
        let made =
            Made { proof: fresh_proof(&target)?, form: VolumeForm::Directory, path, refresh_at: None, lost_at: None };
        return Ok(Some(Scratch { root: Root::Fresh(target), made, is_new: true }));
    };
    // What a node leaves that has no memory to give is another matter, and so is how it is told.
    let Ok(detached) = tmpfs(scene, want, limit_bytes) else { return Ok(None) };
    target.make(PRIVATE).map_err(left_nothing)?;
    let made = Made::new_mount(&detached, &path, TMPFS).map_err(Failure::nothing_left)?;
    (task.intend)(&made).map_err(Failure::nothing_left)?;
    let root = detached.attach_fresh(&target).map_err(left_nothing)?;
    marker.write(home, slot)?;
    Ok(Some(Scratch { root: Root::Open(root), made, is_new: true }))
}

/// Scratch space in the making.
struct Task<'a> {
    scene: &'a Scene,
    home: &'a Home,
    slot: &'a Slot,
    marker: Marker,
    want: &'a Want,
    /// The plugin's directory.
    parent: Arc<Place>,
    /// The volume.
    path: PathBuf,
    /// It was finished once.
    ready: bool,
    /// What was made here, or was going to be.
    made: Option<&'a Made>,
    intend: &'a (dyn Fn(&Made) -> Result<(), Failure> + Sync),
}

impl Task<'_> {
    fn on_disk(&self) -> Result<Scratch, Failure> {
        // With a note there should be a directory: it is not made before the note is gone that would say it is finished.
        if !self.ready
            && let Some(root) = self.make(SHARED)?
        {
            self.finish(&root)?;
            return directory(root, true);
        }
        if let Some(mount) = self.there()? {
            return Err(foreign(&mount).nothing_left());
        }
        match self.parent.directory_named(&self.slot.name, Mounts::Refuse) {
            Ok(root) => {
                check_same(directory_proof(&root)?, self.made, || root.path().into()).map_err(Failure::nothing_left)?;
                if self.ready {
                    return directory(root, false);
                }
            }
            // What the note is about is gone: it is made anew (P-61).
            Err(error) if error.is_missing() => self.marker.remove(self.home, self.slot)?,
            Err(error) => return Err(left_nothing(error)),
        }
        let root = self.shared_directory().map_err(Failure::nothing_left)?;
        self.finish(&root)?;
        let mut scratch = directory(root, false)?;
        // It was finished once, and its note is gone: to remove it had begun, so something of it may be missing.
        if self.made.is_some_and(|it| it.form == VolumeForm::Directory) {
            scratch.made.lost_at = Some(SystemTime::now());
        }
        Ok(scratch)
    }

    fn in_memory(&self, limit_bytes: Option<u64>) -> Result<Scratch, Failure> {
        let target = self.make(PRIVATE)?;
        let mount = match self.there_unless(target.is_some())? {
            Some(mount) if !self.is_ours(&mount, TMPFS) => return Err(foreign(&mount).nothing_left()),
            // P-61: whoever finished it did all there is to do.
            Some(mount) if self.ready => return self.scratch(&mount),
            Some(mount) => mount,
            None => return self.mount(target, tmpfs(self.scene, self.want, limit_bytes), TMPFS),
        };
        self.finish_mount(&mount)
    }

    fn in_huge_pages(&self, medium: &str) -> Result<Scratch, Failure> {
        let target = self.make(PRIVATE)?;
        let mount = match self.there_unless(target.is_some())? {
            Some(mount) if !self.is_ours(&mount, HUGETLBFS) => return Err(foreign(&mount).nothing_left()),
            Some(mount) => {
                check_page_size(&mount, medium)?;
                mount
            }
            None => return self.mount(target, self.hugetlbfs(medium), HUGETLBFS),
        };
        // Never cut short, also if it was finished before (P-61).
        self.finish_mount(&mount)
    }

    /// Is this mount the volume? What is recorded is the one that it is; without a record it may be a kubelet's, which
    /// leaves a note once it is finished (I-4).
    fn is_ours(&self, mount: &Mount, kind: &str) -> bool {
        match self.made {
            Some(made) => made.is_mounted_as(mount),
            None => self.ready && is_of(mount, kind),
        }
    }

    /// Makes the volume's directory, with exactly this mode; `None` if there is one.
    fn make(&self, mode: Mode) -> Result<Option<Place>, Failure> {
        self.parent.make_new_directory(&self.slot.name, mode).map_err(left_nothing)
    }

    /// What is mounted at the volume.
    fn there(&self) -> Result<Option<Arc<Mount>>, Failure> {
        mounted(&self.scene.watch, &self.path).map_err(left_nothing)
    }

    /// The same. On a directory that was made just now there is nothing.
    fn there_unless(&self, is_new: bool) -> Result<Option<Arc<Mount>>, Failure> {
        if is_new { Ok(None) } else { self.there() }
    }

    fn hugetlbfs(&self, medium: &str) -> Result<Detached, Failure> {
        let Some(pod) = &self.want.pod.spec else {
            return Err(Failure::refused(Cause::Node(Obstacle::InputInvalid), "the pod has no spec"));
        };
        let bytes = huge_pages::choose(medium, pod).map_err(|it| refused(&it))?;
        let size = Value::Plain(huge_pages::spelled(bytes).into());
        let made = mount::filesystem(HUGETLBFS, "nodev", &Options::default().and_parameter("pagesize", size));
        made.map_err(|error| match error {
            mount::Error::SetOption { source: Errno::INVAL, .. } => {
                let note = format!("this kernel has no pages of {}", huge_pages::spelled(bytes));
                Failure { cause: Cause::Node(Obstacle::AbilityMissing), ..Failure::from(error) }.noting(note)
            }
            error => error.into(),
        })
    }

    /// Puts a file system in its place, or leaves what the kubelet leaves if there is none. `target` is the directory, if
    /// it was made just now.
    fn mount(
        &self,
        target: Option<Place>,
        made: Result<Detached, Failure>,
        kind: &'static str,
    ) -> Result<Scratch, Failure> {
        let detached = match made {
            Ok(detached) => detached,
            Err(failure) => {
                if let Ok(root) = self.shared_directory() {
                    give_to_group(&root, self.want.group());
                }
                return Err(failure.nothing_left());
            }
        };
        let target = match target {
            Some(target) => target,
            None => {
                let there = self.parent.make_directory(&self.slot.name, PRIVATE, Mounts::Refuse);
                let there = there.map_err(left_nothing)?;
                there.set_mode(PRIVATE).map_err(left_nothing)?;
                there
            }
        };
        // From here on it can be told from any other that somebody puts in its place (I-4).
        let made = Made::new_mount(&detached, &self.path, kind).map_err(Failure::nothing_left)?;
        (self.intend)(&made).map_err(Failure::nothing_left)?;
        // The mount itself, whatever comes to its place; whether that is what is seen there is looked at last.
        let root = detached.attach(&target).map_err(left_nothing)?;
        self.finish(&root)?;
        Ok(Scratch { root: Root::Open(root), made, is_new: true })
    }

    /// The directory of a volume on disk: for everybody, whatever the umask (P-62).
    fn shared_directory(&self) -> Result<Place, Failure> {
        let root = self.parent.make_directory(&self.slot.name, SHARED, Mounts::Refuse)?;
        // A directory that belongs to a group keeps its set-group-id bit.
        if root.mode()? & SHARED != SHARED {
            root.set_mode(SHARED)?;
        }
        Ok(root)
    }

    fn finish_mount(&self, mount: &Mount) -> Result<Scratch, Failure> {
        let (root, made) = self.find(mount)?;
        self.finish(&root)?;
        Ok(Scratch { root: Root::Open(root), made, is_new: false })
    }

    fn scratch(&self, mount: &Mount) -> Result<Scratch, Failure> {
        let (root, made) = self.find(mount)?;
        Ok(Scratch { root: Root::Open(root), made, is_new: false })
    }

    /// What is mounted there already, by the root of this mount and of no other that took its place.
    fn find(&self, mount: &Mount) -> Result<(Place, Made), Failure> {
        let root = self.parent.directory_named(&self.slot.name, Mounts::Enter)?;
        if table::identify(&root)? == mount.id {
            return Ok((root, Made::mount(mount)));
        }
        let text = format!("{} was mounted, and something else is there now", self.path.display());
        Err(Failure::in_the_way(text))
    }

    fn finish(&self, root: &Place) -> Result<(), Failure> {
        give_to_group(root, self.want.group());
        self.marker.write(self.home, self.slot)
    }
}

/// A file system in memory for a volume of this pod.
fn tmpfs(scene: &Scene, want: &Want, limit_bytes: Option<u64>) -> Result<Detached, Failure> {
    let allocatable = allocatable_bytes(scene)?;
    let pod = want.pod.spec.as_ref().map(|it| size::choose(allocatable, it, limit_bytes));
    let size_bytes = pod.transpose().map_err(|it| invalid("read the memory limits of the pod", &it))?.flatten();
    // Without a mode the root has the kernel's, 1777 (P-63).
    Ok(mount::tmpfs(&Tmpfs { size_bytes, swap: Swap::AvoidedIfPossible, ..Tmpfs::default() })?)
}

/// The memory that the node gives to pods; `None` if this host is no node, or does not tell.
fn allocatable_bytes(scene: &Scene) -> Result<Option<u64>, Failure> {
    let name = &scene.node;
    let node = scene.objects.read().unwrap_or_else(PoisonError::into_inner).node(name);
    match node {
        Lookup::Found(node) => {
            let allocatable = node.status.as_ref().and_then(|it| it.allocatable.as_ref());
            quantity::bytes_of(allocatable, "memory").map_err(|it| invalid("read the memory of the node", &it))
        }
        Lookup::Absent => Ok(None),
        Lookup::Unavailable(text) => {
            let object = ObjectName::from(&Reference::new(ObjectKind::Node, "", name));
            Err(Failure::refused(Cause::Object(object), format!("look up node {name}: {text}")))
        }
    }
}

/// Takes scratch space away, or what is left of it. `ours` says of each file of a volume on disk whether it may go.
///
/// A file system in memory is unmounted, and then only its empty mount point is removed. Anything else that is mounted
/// at the volume, or in it, is somebody else's, and stays with all that is around it (W-20).
pub(super) fn tear_down(
    scene: &Scene,
    home: &Home,
    slot: &Slot,
    marker: Marker,
    made: Option<&Made>,
    ours: impl FnMut(remove::Entry<'_>) -> bool,
) -> Result<(), Failure> {
    if made.is_some() {
        marker.remove(home, slot)?;
        return take_away(scene, home, slot, made, ours);
    }
    // Where no record tells that a pod was given this, the note does, and goes last.
    take_away(scene, home, slot, made, ours)?;
    marker.remove(home, slot)
}

fn take_away(
    scene: &Scene,
    home: &Home,
    slot: &Slot,
    made: Option<&Made>,
    ours: impl FnMut(remove::Entry<'_>) -> bool,
) -> Result<(), Failure> {
    let Some(parent) = home.find_parent(slot)? else { return Ok(()) };
    let unmounted = unmount(scene, &parent, slot, made)?;
    let was_mount = unmounted
        || match made.map(|it| &it.form) {
            Some(VolumeForm::Mount(_)) => true,
            Some(VolumeForm::Directory) => false,
            Some(VolumeForm::Host) | None => is_mount_point(&parent, &slot.name)?,
        };
    if was_mount {
        remove::empty_directories(&parent, &slot.name)?;
    } else {
        // All or nothing: what is mounted on a file would be in the way only when its turn comes.
        if let Some(inside) = scene.watch.table().below(&absolute(scene, &slot.path())).next() {
            return Err(remove::Error::Mounted { path: inside.mount_point.clone() }.into());
        }
        // What is no directory is for the removal to say.
        if let Some(proof) = entry_proof(&parent, &slot.name) {
            check_same(proof, made, || parent.path().join(slot.name.as_path()))?;
        }
        scene.layout.remove_tree(&parent, &slot.name, ours)?;
    }
    Ok(())
}

/// Unmounts what is mounted at the volume. Answers whether anything was.
fn unmount(scene: &Scene, parent: &Place, slot: &Slot, made: Option<&Made>) -> Result<bool, Failure> {
    let path = absolute(scene, &slot.path());
    let mut unmounted = false;
    while let Some(mount) = mounted(&scene.watch, &path)? {
        // Without a record there is no telling, and whatever is at a pod's place is the pod's, as the kubelet has it.
        let is_ours = match made {
            Some(made) => made.is_mounted_as(&mount),
            None => is_of(&mount, TMPFS) || is_of(&mount, HUGETLBFS),
        };
        if !is_ours {
            return Err(foreign(&mount));
        }
        super::unmount_in(scene, parent, &slot.name, &mount)?;
        unmounted = true;
    }
    Ok(unmounted)
}

/// A directory that no volume on disk has: it was mounted on, and what is in it came there later.
fn is_mount_point(parent: &Place, name: &Name) -> Result<bool, Failure> {
    match rustix::fs::statat(parent, name.as_path(), AtFlags::SYMLINK_NOFOLLOW) {
        Ok(status) => {
            let is_directory = FileType::from_raw_mode(status.st_mode).is_dir();
            Ok(is_directory && Mode::from_raw_mode(status.st_mode) == PRIVATE)
        }
        Err(Errno::NOENT) => Ok(false),
        Err(source) => Err(PathError::new("look at", parent.path().join(name.as_path()), source).into()),
    }
}

/// A whole file system of this type, and not a part of one that is bound here.
fn is_of(mount: &Mount, kind: &str) -> bool {
    mount.kind == kind && mount.root.as_os_str() == "/"
}

/// Huge pages that are mounted already must be of the size that the medium names (P-66).
fn check_page_size(mount: &Mount, medium: &str) -> Result<(), Failure> {
    let Some(wanted) = huge_pages::named(medium).map_err(|it| refused(&it))? else { return Ok(()) };
    let option = mount.super_option("pagesize");
    let found = huge_pages::mounted(option.as_deref()).map_err(|it| refused(&it))?;
    if found == wanted {
        return Ok(());
    }
    let (found, path) = (huge_pages::spelled(found), mount.mount_point.display());
    let text = format!("{path} is mounted with pages of {found}, and its medium is {medium}");
    Err(Failure::refused(Cause::Node(Obstacle::InTheWay), text))
}

/// Gives a volume to the pod's group. That it fails is no reason to fail the volume (P-69).
fn give_to_group(root: &Place, group: Option<i64>) {
    let Some(Ok(group)) = group.map(u32::try_from) else { return };
    let wanted = Wanted { group, access: ownership::Access::ReadWrite, when: When::Always };
    // The volume is new: there is nothing that several threads could share.
    let _ = ownership::apply(root, &wanted, NonZero::<usize>::MIN, &Control::default());
}

/// Only the directory that windlass made is handed out and emptied: another one that was put in its place is somebody
/// else's, whatever is in it (I-4, I-5).
fn check_same(seen: Proof, made: Option<&Made>, path: impl FnOnce() -> PathBuf) -> Result<(), Failure> {
    if made.is_none_or(|it| it.form != VolumeForm::Directory || it.proof.holds_for(&seen)) {
        return Ok(());
    }
    let text = format!(
        "{} is another directory than the one that windlass made there, so it is neither used nor removed: move it away, \
         or remove it if nothing in it is needed",
        path().display()
    );
    Err(Failure::in_the_way(text))
}

fn directory(root: Place, is_new: bool) -> Result<Scratch, Failure> {
    let proof = directory_proof(&root)?;
    let made = Made { proof, form: VolumeForm::Directory, path: root.path().into(), refresh_at: None, lost_at: None };
    Ok(Scratch { root: Root::Open(root), made, is_new })
}

fn left_nothing(error: impl Into<Failure>) -> Failure {
    error.into().nothing_left()
}

fn refused(error: &huge_pages::Error) -> Failure {
    Failure::refused(Cause::Node(Obstacle::InputInvalid), super::chain(error))
}

fn invalid(attempt: &str, error: &quantity::Error) -> Failure {
    Failure::refused(Cause::Node(Obstacle::InputInvalid), format!("{attempt}: {error}"))
}
