//! How a volume is meant to be used, as CSI says it, checked and in our words.

use tonic::Status;
use windlass_csi::proto::csi::volume_capability::access_mode::Mode;
use windlass_csi::proto::csi::volume_capability::{AccessMode, AccessType};
use windlass_csi::proto::csi::{CapacityRange, VolumeCapability};

use crate::record::Use;

/// The file systems that volumes can have, with the least that each can live on.
///
/// Newer versions of mkfs.xfs refuse what is smaller than 300 MiB; ext4 has room for a journal from 8 MiB on.
pub const FILESYSTEMS: [(&str, u64); 2] = [("ext4", 8 << 20), ("xfs", 300 << 20)];

/// The file system where none is named.
pub const DEFAULT_FILESYSTEM: &str = "ext4";

/// What is made where no size is asked for.
pub const DEFAULT_BYTES: u64 = 1 << 30;

/// Sizes are whole multiples of this: the size of a block of the file systems.
pub const BLOCK_BYTES: u64 = 4096;

/// How somebody wants to use a volume.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Wish {
    /// As what.
    pub usage: Use,
    /// It is not to be written.
    pub read_only: bool,
    /// Nobody else may have it.
    pub alone: bool,
}

/// What a capability wishes for, or why that cannot be.
pub fn read(capability: Option<&VolumeCapability>) -> Result<Wish, Status> {
    let capability = capability.ok_or_else(|| Status::invalid_argument("the volume capability is missing"))?;
    let usage = match &capability.access_type {
        None => {
            return Err(Status::invalid_argument(
                "the volume capability is neither for a mount nor for a block device",
            ));
        }
        Some(AccessType::Block(_)) => Use::Block,
        Some(AccessType::Mount(mount)) => Use::Mount {
            filesystem: filesystem(&mount.fs_type)?,
            flags: mount.mount_flags.clone(),
            group: group(&mount.volume_mount_group)?,
        },
    };
    let mode = capability.access_mode.as_ref().map_or(Mode::Unknown, AccessMode::mode);
    let (read_only, alone) = match mode {
        Mode::SingleNodeWriter | Mode::SingleNodeMultiWriter => (false, false),
        Mode::SingleNodeSingleWriter => (false, true),
        Mode::SingleNodeReaderOnly => (true, false),
        Mode::Unknown => return Err(Status::invalid_argument("the access mode is missing or not known")),
        Mode::MultiNodeReaderOnly | Mode::MultiNodeSingleWriter | Mode::MultiNodeMultiWriter => {
            let name = mode.as_str_name();
            return Err(Status::invalid_argument(format!(
                "{name} cannot be: a volume is on the one node that has its image"
            )));
        }
    };
    let read_only = read_only || matches!(&usage, Use::Mount { flags, .. } if flags.iter().any(|it| it == "ro"));
    Ok(Wish { usage, read_only, alone })
}

/// A file system that volumes can have; empty stays empty.
pub fn filesystem(name: &str) -> Result<String, Status> {
    if name.is_empty() || FILESYSTEMS.iter().any(|(it, _)| *it == name) {
        return Ok(name.to_owned());
    }
    let name = name.chars().take(40).collect::<String>();
    Err(Status::invalid_argument(format!(
        "\"{}\" is not a file system of this driver: ext4 or xfs",
        name.escape_debug()
    )))
}

fn group(text: &str) -> Result<Option<u32>, Status> {
    if text.is_empty() {
        return Ok(None);
    }
    let number = text
        .parse()
        .map_err(|_| Status::invalid_argument(format!("the group \"{}\" is not a number", text.escape_debug())))?;
    Ok(Some(number))
}

/// The size that fits a range and is at least this, or why there is none.
pub fn fit(range: Option<&CapacityRange>, default: u64, least: u64) -> Result<u64, Status> {
    let negative = |_| Status::invalid_argument("a capacity is negative");
    let (required, limit) = match range {
        Some(range) => (
            u64::try_from(range.required_bytes).map_err(negative)?,
            u64::try_from(range.limit_bytes).map_err(negative)?,
        ),
        None => (0, 0),
    };
    let limit = if limit == 0 { i64::MAX.unsigned_abs() } else { limit };
    if required > limit {
        return Err(Status::invalid_argument(format!("{required} bytes are required, and {limit} are the limit")));
    }
    let wanted = if required == 0 { default.min(limit) } else { required }.max(least);
    let rounded = wanted.checked_next_multiple_of(BLOCK_BYTES).filter(|it| *it <= limit);
    rounded.ok_or_else(|| {
        Status::out_of_range(format!(
            "the least that a volume for this can be is {wanted} bytes, in multiples of {BLOCK_BYTES}"
        ))
    })
}

/// The least that a volume can be which is used in these ways.
#[must_use]
pub fn least_bytes<'a>(uses: impl IntoIterator<Item = &'a Use>, filesystem: &str) -> u64 {
    let least = |usage: &Use| match usage {
        Use::Block => BLOCK_BYTES,
        Use::Mount { filesystem: named, .. } => {
            let kind = [named.as_str(), filesystem, DEFAULT_FILESYSTEM].into_iter().find(|it| !it.is_empty());
            FILESYSTEMS.iter().find(|(it, _)| Some(*it) == kind).map_or(BLOCK_BYTES, |(_, bytes)| *bytes)
        }
    };
    uses.into_iter().map(least).max().unwrap_or(BLOCK_BYTES)
}

#[cfg(test)]
mod tests {
    use windlass_csi::proto::csi::volume_capability::{BlockVolume, MountVolume};

    use super::*;

    fn capability(kind: &str, mode: Mode) -> VolumeCapability {
        let mount = MountVolume { fs_type: kind.into(), ..MountVolume::default() };
        VolumeCapability {
            access_type: Some(AccessType::Mount(mount)),
            access_mode: Some(AccessMode { mode: mode.into() }),
        }
    }

    #[test]
    fn only_modes_of_one_node_are_taken() {
        let read = |mode| read(Some(&capability("", mode))).map(|it| (it.read_only, it.alone));
        assert_eq!(read(Mode::SingleNodeWriter).unwrap(), (false, false));
        assert_eq!(read(Mode::SingleNodeMultiWriter).unwrap(), (false, false));
        assert_eq!(read(Mode::SingleNodeSingleWriter).unwrap(), (false, true));
        assert_eq!(read(Mode::SingleNodeReaderOnly).unwrap(), (true, false));
        for mode in [Mode::Unknown, Mode::MultiNodeReaderOnly, Mode::MultiNodeSingleWriter, Mode::MultiNodeMultiWriter]
        {
            assert_eq!(read(mode).unwrap_err().code(), tonic::Code::InvalidArgument, "{mode:?}");
        }
    }

    #[test]
    fn what_is_missing_or_not_known_is_refused() {
        let code = |it: Option<&VolumeCapability>| read(it).unwrap_err().code();
        assert_eq!(code(None), tonic::Code::InvalidArgument);
        let mut odd = capability("ext4", Mode::SingleNodeWriter);
        odd.access_type = None;
        assert_eq!(code(Some(&odd)), tonic::Code::InvalidArgument);
        odd.access_type = Some(AccessType::Block(BlockVolume {}));
        assert_eq!(read(Some(&odd)).unwrap().usage, Use::Block);
        odd.access_mode = None;
        assert_eq!(code(Some(&odd)), tonic::Code::InvalidArgument);
        assert_eq!(code(Some(&capability("../../bin/sh", Mode::SingleNodeWriter))), tonic::Code::InvalidArgument);
    }

    #[test]
    fn a_size_fits_its_range_or_there_is_none() {
        let range = |required_bytes, limit_bytes| CapacityRange { required_bytes, limit_bytes };
        let fit = |required, limit| super::fit(Some(&range(required, limit)), DEFAULT_BYTES, 1 << 20);
        assert_eq!(super::fit(None, DEFAULT_BYTES, 1 << 20).unwrap(), DEFAULT_BYTES);
        assert_eq!(fit(0, 0).unwrap(), DEFAULT_BYTES);
        assert_eq!(fit(5_000_000, 0).unwrap(), 5_001_216);
        assert_eq!(fit(1, 0).unwrap(), 1 << 20, "the least");
        assert_eq!(fit(0, 2 << 20).unwrap(), 2 << 20, "a limit below what is usual");
        assert_eq!(fit(5_000_000, 5_000_000).unwrap_err().code(), tonic::Code::OutOfRange);
        assert_eq!(fit(0, 4096).unwrap_err().code(), tonic::Code::OutOfRange);
        assert_eq!(fit(2, 1).unwrap_err().code(), tonic::Code::InvalidArgument);
        assert_eq!(fit(-1, 0).unwrap_err().code(), tonic::Code::InvalidArgument);
        assert_eq!(fit(i64::MAX, 0).unwrap_err().code(), tonic::Code::OutOfRange);
    }

    #[test]
    fn a_file_system_needs_room() {
        let mount = |name: &str| Use::Mount { filesystem: name.into(), flags: Vec::new(), group: None };
        assert_eq!(least_bytes(&[Use::Block], "xfs"), BLOCK_BYTES);
        assert_eq!(least_bytes(&[mount("")], ""), 8 << 20);
        assert_eq!(least_bytes(&[mount(""), Use::Block], "xfs"), 300 << 20);
        assert_eq!(least_bytes(&[mount("ext4")], "xfs"), 8 << 20);
    }
}
