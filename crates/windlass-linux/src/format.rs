//! File systems on block devices: recognise, make, check and grow them (P-262, P-263, E-455 to E-461).
//!
//! [`prepare`] makes a device ready to be mounted: it looks what is there ([`detect`]), decides ([`decide`], a table
//! without effects), and formats or checks. The mount itself is `mount::filesystem`; [`Prepared::mount`] calls it and
//! knows what a failure means. Nothing is ever formatted on which anything was recognised, nor anything that cannot be
//! read.

use std::fmt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::io::Errno;

use crate::device;
use crate::mount::{self, Detached, Options};
use crate::tools::{self, Call, End, Tool};

/// Why a device cannot be used with a file system.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The device itself is the trouble.
    #[error(transparent)]
    Device(#[from] device::Error),
    /// This cannot be the name of a file system type.
    #[error(
        "use \"{kind}\" as a file system type: it has other characters than letters, digits, \"-\", \"_\" and \".\""
    )]
    BadKind {
        /// The name, with bytes that are not printable escaped.
        kind: String,
    },
    /// What is on the device could not be found out.
    #[error("find out what is on {}", device.display())]
    Detect {
        /// The device.
        device: PathBuf,
        /// Why.
        #[source]
        source: tools::Error,
    },
    /// What was said of the device makes no sense.
    #[error("find out what is on {}: blkid printed \"{line}\"", device.display())]
    Understand {
        /// The device.
        device: PathBuf,
        /// The line.
        line: String,
    },
    /// Nothing was recognised on the device because it cannot be read: it may hold data.
    #[error("find out what is on {}: it cannot be read", device.display())]
    Unreadable {
        /// The device.
        device: PathBuf,
        /// Why.
        #[source]
        source: Errno,
    },
    /// There is nothing to mount, and a file system must not be made.
    #[error("format {} with {kind}: it is to be used read-only and holds no file system", device.display())]
    UnformattedReadOnly {
        /// The device.
        device: PathBuf,
        /// The type that was wanted.
        kind: String,
    },
    /// A file system could not be made.
    #[error("format {} with {kind}", device.display())]
    Format {
        /// The device.
        device: PathBuf,
        /// The type.
        kind: String,
        /// Why.
        #[source]
        source: tools::Error,
    },
    /// The file system is damaged, and not in a way that is repaired without asking.
    #[error("check {}: it has errors that were not corrected: {said}", device.display())]
    HasFilesystemErrors {
        /// The device.
        device: PathBuf,
        /// What the check said last.
        said: String,
    },
    /// The check was not finished, and what it began may be half done.
    #[error("check {}", device.display())]
    Check {
        /// The device.
        device: PathBuf,
        /// Why.
        #[source]
        source: tools::Error,
    },
    /// The mount failed, and the device holds something else than was asked for.
    #[error("mount {} as {wanted}: it holds {found}", device.display())]
    FilesystemMismatch {
        /// The device.
        device: PathBuf,
        /// The type that was wanted.
        wanted: String,
        /// What was found on it.
        found: String,
        /// Why the mount failed.
        #[source]
        source: Box<mount::Error>,
    },
    /// The mount failed.
    #[error("mount {} as {kind}", device.display())]
    Mount {
        /// The device.
        device: PathBuf,
        /// The type.
        kind: String,
        /// Why.
        #[source]
        source: Box<mount::Error>,
    },
    /// A file system of this type cannot be grown.
    #[error("grow the file system on {}: there is no way for {found}", device.display())]
    NotGrowable {
        /// The device.
        device: PathBuf,
        /// What is on it.
        found: String,
    },
    /// The file system could not be grown.
    #[error("grow the {kind} on {}", device.display())]
    Grow {
        /// The device.
        device: PathBuf,
        /// The type.
        kind: String,
        /// Why.
        #[source]
        source: tools::Error,
    },
}

/// The type that is meant where none is given (E-455).
pub const DEFAULT_KIND: &str = "ext4";

/// How long programs are given.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Patience {
    /// To look at a device.
    pub look: Duration,
    /// To make, check or grow a file system. Generous: one that is killed may leave its work half done.
    pub work: Duration,
}

impl Default for Patience {
    fn default() -> Self {
        Self { look: Duration::from_secs(60), work: Duration::from_secs(2 * 60 * 60) }
    }
}

/// What is on a device.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Format {
    /// Nothing that is known, and all of it can be read.
    None,
    /// A file system, or anything else that is recognised as a whole: `ext4`, `crypto_LUKS`.
    Filesystem(String),
    /// A partition table, whatever else.
    Partitions,
}

impl fmt::Display for Format {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::None => "nothing",
            Self::Filesystem(kind) => kind,
            Self::Partitions => "unknown data, probably partitions",
        })
    }
}

/// Whether a device is to be written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Access {
    /// It may be.
    ReadWrite,
    /// It may not, not even to repair it.
    ReadOnly,
}

/// What is to be done with a device before it is mounted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Decision {
    /// Make a file system of the wanted type.
    Make,
    /// Check and repair what is there.
    Check(Fit),
    /// Mount it as it is.
    Mount(Fit),
    /// Nothing: it is empty and must not be written.
    Refuse,
}

/// Whether a device holds what was asked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Fit {
    /// It does.
    Wanted,
    /// It holds something else. It is mounted as the wanted type anyway, which may well work (ext3 as ext4).
    Other(Format),
}

/// The table of P-262: what to do with a device that holds this.
#[must_use]
pub fn decide(found: &Format, wanted: &str, access: Access) -> Decision {
    match (found, access) {
        (Format::None, Access::ReadWrite) => Decision::Make,
        (Format::None, Access::ReadOnly) => Decision::Refuse,
        (Format::Filesystem(kind), _) => {
            let fit = if kind == wanted { Fit::Wanted } else { Fit::Other(found.clone()) };
            match access {
                Access::ReadWrite => Decision::Check(fit),
                Access::ReadOnly => Decision::Mount(fit),
            }
        }
        // The kubelet lets fsck loose on it. There is nothing to gain: what it would repair is not known.
        (Format::Partitions, _) => Decision::Mount(Fit::Other(Format::Partitions)),
    }
}

/// Something that went other than it should, and was no reason to stop.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Note {
    /// The check corrected errors.
    Corrected {
        /// What it said last.
        said: String,
    },
    /// There was no check: the program that does it is not there, or could not be started.
    NotChecked {
        /// Why.
        reason: String,
    },
    /// The check did not come to a result.
    CheckFailed {
        /// How it ended.
        end: End,
        /// What it said last.
        said: String,
    },
}

impl fmt::Display for Note {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Corrected { said } => write!(formatter, "the check corrected errors: {said}"),
            Self::NotChecked { reason } => write!(formatter, "there was no check: {reason}"),
            Self::CheckFailed { end, said } => write!(formatter, "the check failed, {end}: {said}"),
        }
    }
}

/// A device that can be mounted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Prepared {
    /// The device.
    pub device: PathBuf,
    /// The type to mount it as.
    pub kind: String,
    /// Whether it was formatted just now.
    pub formatted: bool,
    /// Whether it holds what was asked for.
    pub fit: Fit,
    /// What did not go as it should.
    pub notes: Vec<Note>,
}

impl Prepared {
    /// Mounts it, without showing it anywhere yet.
    pub fn mount(&self, options: &Options) -> Result<Detached, Error> {
        mount::filesystem(&self.kind, &self.device, options).map_err(|source| self.failed(source))
    }

    /// What it means that a mount of it failed (E-459).
    #[must_use]
    pub fn failed(&self, source: mount::Error) -> Error {
        let (device, kind, source) = (self.device.clone(), self.kind.clone(), Box::new(source));
        match &self.fit {
            Fit::Wanted => Error::Mount { device, kind, source },
            Fit::Other(found) => Error::FilesystemMismatch { device, wanted: kind, found: found.to_string(), source },
        }
    }
}

/// Makes a device ready to be mounted as `wanted` (empty: [`DEFAULT_KIND`]): formats it if it is empty and may be
/// written, checks it if it is not empty and may be written.
pub fn prepare(device: &Path, wanted: &str, access: Access, patience: Patience) -> Result<Prepared, Error> {
    let kind = checked_kind(wanted)?;
    let found = detect(device, patience)?;
    let prepared =
        |formatted, fit, notes| Ok(Prepared { device: device.into(), kind: kind.to_owned(), formatted, fit, notes });
    match decide(&found, kind, access) {
        Decision::Refuse => Err(Error::UnformattedReadOnly { device: device.into(), kind: kind.to_owned() }),
        Decision::Make => {
            make(device, kind, patience)?;
            prepared(true, Fit::Wanted, Vec::new())
        }
        Decision::Check(fit) => prepared(false, fit, check(device, patience)?.into_iter().collect()),
        Decision::Mount(fit) => prepared(false, fit, Vec::new()),
    }
}

/// The type that is meant by a name from outside. It becomes part of the name of a program, so it must be plain.
fn checked_kind(kind: &str) -> Result<&str, Error> {
    const LENGTH_MAX: usize = 32;
    if kind.is_empty() {
        return Ok(DEFAULT_KIND);
    }
    let plain = kind.bytes().all(|it| it.is_ascii_alphanumeric() || matches!(it, b'-' | b'_' | b'.'));
    if !plain || kind.len() > LENGTH_MAX || kind.starts_with(['-', '.']) {
        return Err(Error::BadKind {
            kind: kind.chars().take(LENGTH_MAX).collect::<String>().escape_debug().to_string(),
        });
    }
    Ok(kind)
}

/// What is on a device.
pub fn detect(device: &Path, patience: Patience) -> Result<Format, Error> {
    // blkid reports what is missing, or no device, in the same way as an empty one.
    let opened = device::open(device)?;
    let call = Call::new(Tool::new("blkid", Some("util-linux")), patience.look);
    let call = ["-p", "-s", "TYPE", "-s", "PTTYPE", "-o", "export"].into_iter().fold(call, Call::argument);
    let failed = |source| Error::Detect { device: device.into(), source };
    let output = call.argument(device).run().map_err(failed)?;
    let found = match output.end {
        End::Exit(0) => parse(&output.stdout).map_err(|line| Error::Understand { device: device.into(), line })?,
        End::Exit(2) => Format::None,
        End::Exit(_) | End::Signal(_) => return Err(failed(output.failed())),
    };
    if found == Format::None {
        readable(opened).map_err(|source| Error::Unreadable { device: device.into(), source })?;
    }
    Ok(found)
}

/// What blkid printed, or the line of it that makes no sense.
fn parse(text: &str) -> Result<Format, String> {
    let (mut kind, mut partitions) = ("", "");
    for line in text.lines().map(str::trim).filter(|it| !it.is_empty()) {
        match line.split_once('=') {
            Some(("TYPE", value)) => kind = value,
            Some(("PTTYPE", value)) => partitions = value,
            Some(_) => {}
            None => return Err(line.chars().take(80).collect::<String>().escape_debug().to_string()),
        }
    }
    Ok(match (kind, partitions) {
        ("", "") => Format::None,
        (kind, "") => Format::Filesystem(kind.to_owned()),
        _ => Format::Partitions,
    })
}

/// Reads where file systems, partition tables and volume managers leave their marks. blkid reports a device that fails
/// to be read in the same way as an empty one, and then a moment of trouble would end in a new file system.
fn readable(device: impl std::os::fd::AsFd) -> Result<(), Errno> {
    const EDGE: usize = 128 * 1024;
    let size = device::size_of(&device)?;
    if size == 0 {
        return Err(Errno::NOMEDIUM);
    }
    let mut buffer = vec![0; EDGE];
    for begin in [0, size.saturating_sub(EDGE as u64)] {
        let mut done = 0;
        while done < EDGE && begin + (done as u64) < size {
            match rustix::io::pread(&device, &mut buffer[done..], begin + done as u64) {
                // It is smaller by now.
                Ok(0) => return Err(Errno::IO),
                Ok(length) => done += length,
                Err(Errno::INTR) => {}
                Err(errno) => return Err(errno),
            }
        }
    }
    Ok(())
}

/// Makes a file system, whatever is there. [`prepare`] does so only if nothing is.
pub fn make(device: &Path, kind: &str, patience: Patience) -> Result<(), Error> {
    let kind = checked_kind(kind)?;
    device::find(device)?;
    let call = Call::new(Tool::new(format!("mkfs.{kind}"), package(kind)), patience.work);
    let call = make_arguments(kind).iter().copied().fold(call, Call::argument).argument(device);
    let made = call.run().and_then(tools::Output::success);
    made.map_err(|source| Error::Format { device: device.into(), kind: kind.to_owned(), source })?;
    Ok(())
}

/// What goes before the device. `-m0` keeps no blocks for root: the space is the pods'.
fn make_arguments(kind: &str) -> &'static [&'static str] {
    match kind {
        "ext3" | "ext4" => &["-F", "-m0"],
        "xfs" => &["-f"],
        _ => &[],
    }
}

/// What Debian calls the package with the programs for a type.
fn package(kind: &str) -> Option<&'static str> {
    match kind {
        "ext2" | "ext3" | "ext4" => Some("e2fsprogs"),
        "xfs" => Some("xfsprogs"),
        "btrfs" => Some("btrfs-progs"),
        "f2fs" => Some("f2fs-tools"),
        "exfat" => Some("exfatprogs"),
        "fat" | "msdos" | "vfat" => Some("dosfstools"),
        "ntfs" => Some("ntfs-3g"),
        _ => None,
    }
}

/// Checks a file system that is not mounted, and repairs what can be repaired without asking.
///
/// An error only if damage is left (exit status 4) or the check was cut off; anything else that keeps it from a result
/// is no reason not to mount (E-458), and comes back as a note.
pub fn check(device: &Path, patience: Patience) -> Result<Option<Note>, Error> {
    device::find(device)?;
    let call = Call::new(Tool::new("fsck", Some("util-linux")), patience.work).argument("-a").argument(device);
    match call.run() {
        Ok(output) => checked(device, output.end, output.said()),
        Err(error @ (tools::Error::Missing { .. } | tools::Error::Start { .. })) => {
            Ok(Some(Note::NotChecked { reason: error.to_string() }))
        }
        Err(source) => Err(Error::Check { device: device.into(), source }),
    }
}

/// What the end of a check means.
fn checked(device: &Path, end: End, said: String) -> Result<Option<Note>, Error> {
    match end {
        End::Exit(0) => Ok(None),
        End::Exit(1) => Ok(Some(Note::Corrected { said })),
        End::Exit(4) => Err(Error::HasFilesystemErrors { device: device.into(), said }),
        End::Exit(_) | End::Signal(_) => Ok(Some(Note::CheckFailed { end, said })),
    }
}

/// What growing a file system came to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Grown {
    /// The file system of this type fills its device now, as it may have done before.
    Full(String),
    /// The device cannot be written, so there is nothing to do (E-461).
    ReadOnly,
    /// There is no file system.
    Unformatted,
}

/// Grows a mounted file system to the size of its device (P-263).
pub fn grow(device: &Path, mount_point: &Path, patience: Patience) -> Result<Grown, Error> {
    if device::is_read_only(device)? {
        return Ok(Grown::ReadOnly);
    }
    let kind = match detect(device, patience)? {
        Format::None => return Ok(Grown::Unformatted),
        Format::Filesystem(kind) => kind,
        found @ Format::Partitions => {
            return Err(Error::NotGrowable { device: device.into(), found: found.to_string() });
        }
    };
    let call = |tool: &str| Call::new(Tool::new(tool, package(&kind)), patience.work);
    let call = match kind.as_str() {
        "ext3" | "ext4" => call("resize2fs").argument(device),
        "xfs" => call("xfs_growfs").argument("-d").argument(mount_point),
        "btrfs" => {
            ["filesystem", "resize", "max"].into_iter().fold(call("btrfs"), Call::argument).argument(mount_point)
        }
        _ => return Err(Error::NotGrowable { device: device.into(), found: kind }),
    };
    match call.run().and_then(tools::Output::success) {
        Ok(_) => Ok(Grown::Full(kind)),
        Err(source) => Err(Error::Grow { device: device.into(), kind, source }),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn filesystem(kind: &str) -> Format {
        Format::Filesystem(kind.into())
    }

    #[test]
    fn only_an_empty_device_that_may_be_written_is_formatted() {
        use Access::{ReadOnly, ReadWrite};
        let other = |found: Format| Fit::Other(found);
        let table = [
            (Format::None, ReadWrite, Decision::Make),
            (Format::None, ReadOnly, Decision::Refuse),
            (filesystem("ext4"), ReadWrite, Decision::Check(Fit::Wanted)),
            (filesystem("ext4"), ReadOnly, Decision::Mount(Fit::Wanted)),
            (filesystem("xfs"), ReadWrite, Decision::Check(other(filesystem("xfs")))),
            (filesystem("xfs"), ReadOnly, Decision::Mount(other(filesystem("xfs")))),
            (Format::Partitions, ReadWrite, Decision::Mount(other(Format::Partitions))),
            (Format::Partitions, ReadOnly, Decision::Mount(other(Format::Partitions))),
        ];
        for (found, access, decision) in table {
            assert_eq!(decide(&found, "ext4", access), decision, "{found} {access:?}");
        }
    }

    #[test]
    fn what_blkid_prints_is_understood() {
        assert_eq!(parse("DEVNAME=/dev/loop0\nTYPE=ext4\n"), Ok(filesystem("ext4")));
        assert_eq!(parse("\nDEVNAME=/dev/loop0\n\nPTTYPE=dos\n"), Ok(Format::Partitions));
        assert_eq!(parse("TYPE=iso9660\nPTTYPE=dos\n"), Ok(Format::Partitions), "partitions win");
        assert_eq!(parse("DEVNAME=/dev/loop0\n"), Ok(Format::None));
        assert_eq!(parse("TYPE=\n"), Ok(Format::None));
        assert_eq!(parse("TYPE=ext4\nnonsense\n"), Err("nonsense".into()));
    }

    #[test]
    fn what_a_check_means_is_its_exit_status() {
        let checked = |end| checked(Path::new("/dev/a"), end, "words".into());
        assert_eq!(checked(End::Exit(0)).unwrap(), None);
        assert_eq!(checked(End::Exit(1)).unwrap().unwrap().to_string(), "the check corrected errors: words");
        let error = checked(End::Exit(4)).unwrap_err();
        assert_eq!(error.to_string(), "check /dev/a: it has errors that were not corrected: words");
        for end in [End::Exit(2), End::Exit(8), End::Exit(127), End::Signal(9)] {
            assert_eq!(checked(end).unwrap(), Some(Note::CheckFailed { end, said: "words".into() }));
        }
    }

    #[test]
    fn a_type_is_a_plain_name() {
        assert_eq!(checked_kind("").unwrap(), "ext4");
        assert_eq!(checked_kind("fuse.x-y_1").unwrap(), "fuse.x-y_1");
        for kind in ["-F", ".ext4", "a/b", "../../bin/sh", "a b", "é", "a\n", &"a".repeat(33)] {
            assert!(matches!(checked_kind(kind), Err(Error::BadKind { .. })), "{kind}");
        }
    }

    #[test]
    fn the_arguments_of_mkfs_are_those_of_the_kubelet() {
        assert_eq!(make_arguments("ext4"), ["-F", "-m0"]);
        assert_eq!(make_arguments("ext3"), ["-F", "-m0"]);
        assert_eq!(make_arguments("xfs"), ["-f"]);
        assert!(make_arguments("ext2").is_empty());
        assert!(make_arguments("btrfs").is_empty());
    }

    #[test]
    fn what_is_no_device_is_neither_looked_at_nor_formatted() {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("file");
        std::fs::write(&file, "data").unwrap();
        let patience = Patience::default();
        assert!(matches!(prepare(&file, "", Access::ReadWrite, patience), Err(Error::Device(_))));
        assert!(matches!(make(&file, "ext4", patience), Err(Error::Device(_))));
        assert!(matches!(check(&file, patience), Err(Error::Device(_))));
        assert!(matches!(grow(&file, directory.path(), patience), Err(Error::Device(_))));
        assert_eq!(std::fs::read(&file).unwrap(), b"data");
    }

    #[test]
    fn a_failed_mount_of_something_else_is_told_apart() {
        let source = || mount::Error::Prepare { kind: "ext4".into(), source: Errno::INVAL };
        let prepared =
            |fit| Prepared { device: "/dev/a".into(), kind: "ext4".into(), formatted: false, fit, notes: Vec::new() };
        assert_eq!(prepared(Fit::Wanted).failed(source()).to_string(), "mount /dev/a as ext4");
        let error = prepared(Fit::Other(Format::Partitions)).failed(source());
        assert_eq!(error.to_string(), "mount /dev/a as ext4: it holds unknown data, probably partitions");
        let error = prepared(Fit::Other(filesystem("xfs"))).failed(source());
        assert!(matches!(error, Error::FilesystemMismatch { found, .. } if found == "xfs"));
    }

    #[test]
    fn what_can_be_read_is_read_to_both_ends() {
        use std::io::Write;
        let mut file = tempfile::tempfile().unwrap();
        assert_eq!(readable(&file), Err(Errno::NOMEDIUM), "a device without a size");
        for size in [1, 4096, 128 * 1024, 300_000] {
            file.write_all(&vec![1; size]).unwrap();
            assert_eq!(readable(&file), Ok(()));
        }
    }

    proptest! {
        #[test]
        fn no_output_makes_the_reader_stumble(text in ".{0,80}") {
            let _ = parse(&text);
        }

        #[test]
        fn nothing_recognised_is_ever_formatted(kind in "[a-z0-9_]{1,12}", wanted in "[a-z0-9]{1,6}") {
            for access in [Access::ReadWrite, Access::ReadOnly] {
                for found in [Format::Filesystem(kind.clone()), Format::Partitions] {
                    prop_assert_ne!(decide(&found, &wanted, access), Decision::Make);
                }
            }
        }
    }
}
