//! A directory whose contents change in one step, in the layout that programs know from ConfigMaps and Secrets.
//!
//! ```text
//! ..2026_11_15_12_00_00.123456/   the files
//! ..data -> ..2026_11_15_12_00_00.123456
//! name   -> ..data/name           one link for each first component
//! ```
//!
//! A new version is written beside the old one and becomes visible when `..data` is renamed over: whoever resolves
//! `..data` sees all of one version. Until then the version in use is not touched, so an update that fails, or a
//! process that is killed, leaves the old version or the new one. What is left over is swept up by the next write.
//! The old version is removed at the end; a reader that is just in it can find a file missing, and looks again.
//!
//! One writer per directory at a time is the caller's duty. Nothing is synced to a disk: after a crash of the whole
//! machine the contents are written again.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::{OsStr, OsString};
use std::fmt;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::PathBuf;

use rustix::fs::{AtFlags, Mode, OFlags};
use rustix::io::Errno;

use crate::name::{self, Name, Relative};
use crate::path_error::PathError;
use crate::remove;
use crate::safe_path::{self, Place};

mod compare;
mod stamp;
mod version;

use stamp::{is_stamp, new_stamp};
use version::Owners;

/// What can go wrong with an update. The version that was in use still is.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A system call failed.
    #[error(transparent)]
    System(#[from] PathError),
    /// A path cannot be used.
    #[error(transparent)]
    Path(#[from] name::Error),
    /// Names that begin with `..` are for the links and versions themselves.
    #[error("write {path}: names that begin with \"..\" are reserved")]
    Reserved {
        /// The path.
        path: Relative,
    },
    /// A path is wanted both as a file and as a directory.
    #[error("write {below}: {file} is a file")]
    Conflict {
        /// The file.
        file: Relative,
        /// The path through it.
        below: Relative,
    },
    /// Something could not be reached.
    #[error(transparent)]
    Reach(#[from] safe_path::Error),
}

/// One file of the contents.
#[derive(Clone, PartialEq, Eq)]
pub struct File {
    /// Its bytes. Possibly secret: they are in no message.
    pub contents: Vec<u8>,
    /// Its mode, exactly.
    pub mode: Mode,
    /// Its owner; who writes, if there is none.
    pub owner: Option<u32>,
}

impl fmt::Debug for File {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{} bytes, mode {:o}, owner {:?}", self.contents.len(), self.mode, self.owner)
    }
}

/// All contents of a directory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Contents {
    files: BTreeMap<Relative, File>,
    /// The group of files, directories and links; that of who writes, if there is none.
    pub group: Option<u32>,
    /// The mode of directories.
    pub directory_mode: Mode,
}

impl Default for Contents {
    fn default() -> Self {
        Self { files: BTreeMap::new(), group: None, directory_mode: Mode::from_raw_mode(0o755) }
    }
}

impl Contents {
    /// Adds a file. `path` is checked, cleaned, and then must not begin with `..`; `field` says what it is, for the
    /// error. A file that has this path already is replaced.
    pub fn add(&mut self, field: &'static str, path: &str, file: File) -> Result<(), Error> {
        let path = Relative::new(field, path)?;
        if path.first().as_bytes().starts_with(b"..") {
            return Err(Error::Reserved { path });
        }
        self.files.insert(path, file);
        Ok(())
    }

    /// The files, by path.
    pub fn files(&self) -> impl Iterator<Item = (&Relative, &File)> {
        self.files.iter()
    }

    /// All directories that the files need, outermost first.
    fn directories(&self) -> BTreeSet<PathBuf> {
        let parents = self.files.keys().flat_map(|path| {
            let above = path.as_path().ancestors().skip(1);
            above.filter(|it| !it.as_os_str().is_empty()).map(PathBuf::from)
        });
        parents.collect()
    }

    fn check(&self) -> Result<(), Error> {
        let mut before: Option<&Relative> = None;
        for path in self.files.keys() {
            // Paths are ordered by component, so what lies below a file follows it directly.
            if let Some(file) = before.filter(|it| path.as_path().starts_with(it.as_path())) {
                return Err(Error::Conflict { file: file.clone(), below: path.clone() });
            }
            before = Some(path);
        }
        Ok(())
    }

    /// The owner of each link: that of the first file behind it that has one.
    fn links(&self) -> BTreeMap<Name, Option<u32>> {
        let mut links = BTreeMap::new();
        for (path, file) in &self.files {
            let owner = links.entry(path.first()).or_insert(None);
            *owner = owner.or(file.owner);
        }
        links
    }
}

/// Something that a write is about to change on disk. In this order, some of them several times.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Step {
    /// Remove what an earlier write left behind.
    Sweep,
    /// Make the directory of the new version.
    MakeVersion,
    /// Write one file of it.
    WriteFile,
    /// Make the temporary link to it, if `..data` leads to another.
    MakeTemporaryLink,
    /// Rename the temporary link over `..data`, or make it if there is none: from here on the new version is the one in use.
    Swap,
    /// Make, replace or correct a link that users see.
    SetLink,
    /// Remove a link to a name that is no longer there.
    RemoveLink,
    /// Remove the version that was in use before.
    RemoveOldVersion,
}

/// What a write did.
#[derive(Debug)]
pub struct Written {
    /// Whether there is a new version. If not, the one in use was right already.
    pub changed: bool,
    /// The version in use: the directory's name.
    pub version: Name,
    /// Names that users do not see, because something that is not a link of ours is in their place.
    pub hidden: Vec<Name>,
    /// What should be gone and could not be removed. The next write tries again.
    pub leftovers: Vec<remove::Error>,
}

const DATA: &str = "..data";
const DATA_TEMPORARY: &str = "..data_tmp";

fn fixed_name(name: &'static str) -> Name {
    Name::new("fixed name", name).expect("a plain name")
}

/// The version in use, if there is one: the name that `..data` leads to. Costs one call.
pub fn version(target: &Place) -> Result<Option<Name>, Error> {
    match rustix::fs::readlinkat(target, DATA, Vec::new()) {
        // A link that leads anywhere but to a version beside it is not ours: it will be replaced, and nothing that it
        // leads to is read or removed.
        Ok(link) => Ok(Name::new("..data", OsString::from_vec(link.into_bytes())).ok().filter(is_stamp)),
        Err(Errno::NOENT) => Ok(None),
        Err(source) => Err(PathError::new("read the link", target.path().join(DATA), source).into()),
    }
}

/// Whether something in such a directory, by its path in it, was written here: a file of a version, or a link.
///
/// A link that is not ours and lies beside ours cannot be told from them; removing it removes nothing that it leads to.
#[must_use]
pub fn is_ours(entry: remove::Entry<'_>) -> bool {
    let mut components = entry.path.components().map(|it| Name::new("name", it.as_os_str()));
    match (components.next(), components.next()) {
        (Some(Ok(_)), None) => entry.kind.is_symlink(),
        (Some(Ok(first)), Some(_)) => is_stamp(&first) && entry.kind.is_file(),
        _ => false,
    }
}

/// Makes these the contents of a directory. If they are already (bytes, modes and owners), only links are repaired and
/// leftovers removed.
pub fn write(target: &Place, contents: &Contents) -> Result<Written, Error> {
    write_observed(target, contents, &mut |_| {})
}

/// As [`write()`], and tells of every step before it is taken. Tests end the process there.
pub fn write_observed(target: &Place, contents: &Contents, before: &mut dyn FnMut(Step)) -> Result<Written, Error> {
    contents.check()?;
    // What is there is listed once. Only we write here, and what we add is not of interest below.
    let there = There { version: version(target)?, names: list(target)? };
    update(target, contents, there, &Owners::of(target, contents)?, before)
}

/// As [`write()`], for a directory that was just made and has nothing in it: there is nothing to compare, to keep or to
/// sweep up, so nothing is looked for. Anything that is there all the same and in the way is an error.
pub fn write_first(target: &Place, contents: &Contents) -> Result<Written, Error> {
    contents.check()?;
    let owners = match Owners::writer(target, contents) {
        Some(writer) => writer,
        None => Owners::of(target, contents)?,
    };
    update(target, contents, There::default(), &owners, &mut |_| {})
}

/// What is in a directory before it is written.
#[derive(Default)]
struct There {
    /// The version in use.
    version: Option<Name>,
    names: BTreeSet<Name>,
}

fn update(
    target: &Place,
    contents: &Contents,
    there: There,
    owners: &Owners,
    before: &mut dyn FnMut(Step),
) -> Result<Written, Error> {
    let There { version: old, names } = there;
    let mut leftovers = Vec::new();
    let same = old.as_ref().is_some_and(|it| compare::holds(target, it, contents, owners));
    sweep(target, &names, old.as_ref(), before, &mut leftovers);
    let version = match old.as_ref().filter(|_| same) {
        Some(old) => old.clone(),
        None => replace(target, &names, contents, owners, before)?,
    };
    let links = contents.links();
    let hidden = set_links(target, &names, &links, owners, before)?;
    remove_links(target, &names, &links, before)?;
    if let Some(old) = old.filter(|it| *it != version) {
        before(Step::RemoveOldVersion);
        leftovers.extend(remove::tree_in_place(target, &old).err());
    }
    Ok(Written { changed: !same, version, hidden, leftovers })
}

/// Writes a new version and puts it into use.
fn replace(
    target: &Place,
    names: &BTreeSet<Name>,
    contents: &Contents,
    owners: &Owners,
    before: &mut dyn FnMut(Step),
) -> Result<Name, Error> {
    let name = new_stamp(target, contents, before)?;
    let result = version::fill(target, &name, contents, owners, before)
        .and_then(|()| put_into_use(target, names, &name, owners, before));
    if let Err(error) = result {
        // If this fails too, the next write sweeps it up; what counts is why there is no new version.
        let _ = remove::tree_in_place(target, &fixed_name(DATA_TEMPORARY));
        let _ = remove::tree_in_place(target, &name);
        return Err(error);
    }
    Ok(name)
}

/// Makes `..data` lead to a version, in one step.
fn put_into_use(
    target: &Place,
    names: &BTreeSet<Name>,
    version: &Name,
    owners: &Owners,
    before: &mut dyn FnMut(Step),
) -> Result<(), Error> {
    let failed = |link: &str, source| PathError::new("set the link", target.path().join(link), source);
    let make = |link: &'static str| {
        rustix::fs::symlinkat(version.as_path(), target, link).map_err(|source| failed(link, source))?;
        owners.own_new_link(target, link.as_ref(), None).map_err(|source| failed(link, source))
    };
    if !names.contains(&fixed_name(DATA)) {
        // There is nothing to take the place of.
        before(Step::Swap);
        return Ok(make(DATA)?);
    }
    before(Step::MakeTemporaryLink);
    make(DATA_TEMPORARY)?;
    before(Step::Swap);
    Ok(rustix::fs::renameat(target, DATA_TEMPORARY, target, DATA).map_err(|source| failed(DATA, source))?)
}

/// Removes what writes that did not end left behind: the temporary link, and versions that are not in use.
fn sweep(
    target: &Place,
    names: &BTreeSet<Name>,
    keep: Option<&Name>,
    before: &mut dyn FnMut(Step),
    leftovers: &mut Vec<remove::Error>,
) {
    for name in names {
        if name.as_bytes() == DATA_TEMPORARY.as_bytes() || (is_stamp(name) && Some(name) != keep) {
            before(Step::Sweep);
            leftovers.extend(remove::tree_in_place(target, name).err());
        }
    }
}

/// Makes sure that each first component has its link. Returns those that have something else in their place.
fn set_links(
    target: &Place,
    names: &BTreeSet<Name>,
    links: &BTreeMap<Name, Option<u32>>,
    owners: &Owners,
    before: &mut dyn FnMut(Step),
) -> Result<Vec<Name>, Error> {
    let mut hidden = Vec::new();
    for (name, owner) in links {
        let failed = |source| PathError::new("set the link", target.path().join(name.as_path()), source);
        let wanted = PathBuf::from(DATA).join(name.as_path());
        let found = if names.contains(name) { read_link(target, name)? } else { AtName::Nothing };
        match found {
            AtName::Link(link) if link == wanted => {
                owners.own_link(target, name.as_path(), *owner).map_err(failed)?;
            }
            AtName::Nothing => {
                before(Step::SetLink);
                rustix::fs::symlinkat(&wanted, target, name.as_path()).map_err(failed)?;
                owners.own_new_link(target, name.as_path(), *owner).map_err(failed)?;
            }
            // A link that leads elsewhere is replaced in one step, so the name is never missing.
            AtName::Link(_) => {
                before(Step::SetLink);
                rustix::fs::symlinkat(&wanted, target, DATA_TEMPORARY).map_err(failed)?;
                owners.own_new_link(target, DATA_TEMPORARY.as_ref(), *owner).map_err(failed)?;
                rustix::fs::renameat(target, DATA_TEMPORARY, target, name.as_path()).map_err(failed)?;
            }
            // Somebody's file or directory. It stays, and the file of ours behind it is not seen.
            AtName::Other => hidden.push(name.clone()),
        }
    }
    Ok(hidden)
}

/// Removes links of ours to names that the contents do not have (any more). Anything else stays.
///
/// By looking at what is there rather than at what the last version had: a write that was killed between the swap and
/// this would otherwise leave links that nobody remembers.
fn remove_links(
    target: &Place,
    names: &BTreeSet<Name>,
    links: &BTreeMap<Name, Option<u32>>,
    before: &mut dyn FnMut(Step),
) -> Result<(), Error> {
    for name in names {
        if name.as_bytes().starts_with(b"..") || links.contains_key(name) {
            continue;
        }
        if matches!(read_link(target, name)?, AtName::Link(link) if link == PathBuf::from(DATA).join(name.as_path())) {
            before(Step::RemoveLink);
            match rustix::fs::unlinkat(target, name.as_path(), AtFlags::empty()) {
                Ok(()) | Err(Errno::NOENT) => {}
                Err(source) => {
                    return Err(PathError::new("set the link", target.path().join(name.as_path()), source).into());
                }
            }
        }
    }
    Ok(())
}

/// What has a name that could be a link of ours.
enum AtName {
    Nothing,
    Link(PathBuf),
    Other,
}

fn read_link(target: &Place, name: &Name) -> Result<AtName, Error> {
    match rustix::fs::readlinkat(target, name.as_path(), Vec::new()) {
        Ok(link) => Ok(AtName::Link(OsString::from_vec(link.into_bytes()).into())),
        Err(Errno::NOENT) => Ok(AtName::Nothing),
        Err(Errno::INVAL) => Ok(AtName::Other),
        Err(source) => Err(PathError::new("read the link", target.path().join(name.as_path()), source).into()),
    }
}

/// The names in the directory.
fn list(target: &Place) -> Result<BTreeSet<Name>, Error> {
    let failed = |source| PathError::new("list", target.path(), source);
    // Opened anew: the target may be open for its path only.
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let directory = rustix::fs::openat(target, ".", flags, Mode::empty()).map_err(failed)?;
    let mut names = BTreeSet::new();
    for entry in rustix::fs::Dir::new(directory).map_err(failed)? {
        let entry = entry.map_err(failed)?;
        let name = OsStr::from_bytes(entry.file_name().to_bytes());
        names.extend(Name::new("entry", name)); // all but `.` and `..`
    }
    Ok(names)
}

#[cfg(test)]
mod tests;
