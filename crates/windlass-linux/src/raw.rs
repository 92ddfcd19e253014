//! System calls that no crate wraps yet, behind safe and typed functions. All `unsafe` of windlass is in this file.
//!
//! The signatures are those a future rustix could have, so that a function here can be replaced by an import:
//! borrowed descriptors in, owned descriptors out, `rustix::io::Result`. Nothing here decides anything.
#![allow(unsafe_code)]

use std::ffi::c_int;
use std::mem::size_of;
use std::os::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd};

use linux_raw_sys::general as linux;
use linux_raw_sys::ioctl::BLKROGET;
use linux_raw_sys::loop_device::{
    LOOP_CLR_FD, LOOP_CONFIGURE, LOOP_CTL_GET_FREE, LOOP_GET_STATUS64, LOOP_SET_CAPACITY, loop_config, loop_info64,
};
use rustix::fs::{AtFlags, Mode};
use rustix::io::{Errno, Result};
use rustix::mount::{MountAttrFlags, MountPropagationFlags};
use rustix::path::Arg;

/// Turns what `libc::syscall` returned into a result.
fn checked(returned: libc::c_long) -> Result<libc::c_long> {
    if returned >= 0 {
        return Ok(returned);
    }
    // `libc::syscall` keeps the number of the error in `errno`, which std reads for us.
    let number = std::io::Error::last_os_error().raw_os_error().unwrap_or(libc::EIO);
    Err(Errno::from_raw_os_error(number))
}

/// `mallopt(3)` with `M_ARENA_MAX`: over how many heaps the threads of this process are spread at most. Without glibc, which
/// alone has them, nothing happens.
pub fn limit_heaps(count: u16) {
    #[cfg(target_env = "gnu")]
    // SAFETY: it takes two numbers and touches nothing but the settings of the allocator, which it locks.
    unsafe {
        libc::mallopt(libc::M_ARENA_MAX, c_int::from(count));
    }
    #[cfg(not(target_env = "gnu"))]
    let _ = count;
}

/// `malloc_trim(3)`: gives memory that was freed back to the system. Without glibc nothing happens.
pub fn trim_heaps() {
    #[cfg(target_env = "gnu")]
    // SAFETY: it touches nothing but memory that is free, and locks what it works on.
    unsafe {
        libc::malloc_trim(0);
    }
}

/// `madvise(2)` with `MADV_DONTNEED` of this program's code and constants: what of them is used again is mapped again from
/// the page cache, and the rest, which is most of it after a start, counts no longer as this process's. What debuggers have
/// put into the code goes too.
pub fn let_go_of_program() {
    /// No page is larger.
    const PAGE_MAX: u64 = 64 * 1024;
    unsafe extern "C" fn each(object: *mut libc::dl_phdr_info, _: usize, _: *mut libc::c_void) -> c_int {
        // SAFETY: the loader gives a description that is valid during this call, with as many headers as it says.
        let (base, headers) = unsafe {
            let object = &*object;
            (object.dlpi_addr, std::slice::from_raw_parts(object.dlpi_phdr, object.dlpi_phnum.into()))
        };
        for header in headers.iter().filter(|it| it.p_type == libc::PT_LOAD && it.p_flags & libc::PF_W == 0) {
            let begin = (base + header.p_vaddr).next_multiple_of(PAGE_MAX);
            let end = (base + header.p_vaddr + header.p_memsz) / PAGE_MAX * PAGE_MAX;
            if begin < end {
                // SAFETY: what is not writable is mapped from the program's file and was never changed, so it is the same
                // when it is mapped again. Whoever runs in it or reads it meanwhile waits for that.
                unsafe { libc::madvise(begin as *mut libc::c_void, (end - begin) as usize, libc::MADV_DONTNEED) };
            }
        }
        // The first one is the program; libraries are shared with others.
        1
    }
    // SAFETY: the function has the type that is wanted, and keeps nothing of what it is given.
    unsafe { libc::dl_iterate_phdr(Some(each), std::ptr::null_mut()) };
}

/// `ioctl(2)` with `SIOCOUTQ`: how much memory the kernel holds of what was written to this socket and not read by the other
/// side. It is zero once all of it was read.
pub fn unread_by_peer<Fd: AsFd>(socket: Fd) -> Result<u32> {
    let mut bytes: c_int = 0;
    // SAFETY: the call writes one `c_int` to where the pointer shows, which lives longer than the call.
    let returned = unsafe { libc::ioctl(socket.as_fd().as_raw_fd(), libc::TIOCOUTQ, &raw mut bytes) };
    checked(returned.into())?;
    Ok(u32::try_from(bytes).unwrap_or(0))
}

/// What `mount_setattr` changes. The default changes nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MountAttr {
    /// Attributes to turn on.
    pub set: MountAttrFlags,
    /// Attributes to turn off. To choose a kind of access time, clear `MOUNT_ATTR__ATIME` and set the kind.
    pub clear: MountAttrFlags,
    /// The new propagation; empty leaves it as it is.
    pub propagation: MountPropagationFlags,
}

impl Default for MountAttr {
    fn default() -> Self {
        Self {
            set: MountAttrFlags::empty(),
            clear: MountAttrFlags::empty(),
            propagation: MountPropagationFlags::empty(),
        }
    }
}

/// `mount_setattr(2)`, Linux 5.12: changes a mount, or with `AT_RECURSIVE` all mounts of a tree.
///
/// rustix has no name for `AT_RECURSIVE`; [`AT_RECURSIVE`] is it.
pub fn mount_setattr<Fd: AsFd, P: Arg>(dirfd: Fd, path: P, flags: AtFlags, attr: &MountAttr) -> Result<()> {
    let attr = linux::mount_attr {
        attr_set: attr.set.bits().into(),
        attr_clr: attr.clear.bits().into(),
        propagation: attr.propagation.bits().into(),
        userns_fd: 0,
    };
    path.into_with_c_str(|path| {
        // SAFETY: the path ends in NUL and the structure has the size that is passed with it; both live across the
        // call, and the kernel only reads them.
        checked(unsafe {
            libc::syscall(
                linux::__NR_mount_setattr.into(),
                dirfd.as_fd().as_raw_fd(),
                path.as_ptr(),
                flags.bits(),
                &raw const attr,
                size_of::<linux::mount_attr>(),
            )
        })?;
        Ok(())
    })
}

/// `AT_RECURSIVE`: a whole tree of mounts instead of one.
pub const AT_RECURSIVE: AtFlags = AtFlags::from_bits_retain(linux::AT_RECURSIVE);

/// `fchmodat2(2)`, Linux 6.6: sets a mode, and unlike `fchmodat` heeds flags. With `AT_EMPTY_PATH` it sets that of what
/// is open, also if it is open for its path alone.
pub fn fchmodat2<Fd: AsFd, P: Arg>(dirfd: Fd, path: P, mode: Mode, flags: AtFlags) -> Result<()> {
    path.into_with_c_str(|path| {
        // SAFETY: the path ends in NUL, lives across the call, and is only read.
        checked(unsafe {
            libc::syscall(
                linux::__NR_fchmodat2.into(),
                dirfd.as_fd().as_raw_fd(),
                path.as_ptr(),
                mode.as_raw_mode(),
                flags.bits(),
            )
        })?;
        Ok(())
    })
}

/// `unshare(2)` with `CLONE_FS`: the calling thread has a root, a working directory and a umask of its own from now on.
pub fn unshare_fs() -> Result<()> {
    // SAFETY: the call takes a number. What it takes apart is no memory and no descriptor.
    checked(unsafe { libc::unshare(libc::CLONE_FS) }.into()).map(drop)
}

/// `LSMT_ROOT`: what to pass as `parent` to [`listmount`] to list from the caller's root.
pub const LSMT_ROOT: u64 = u64::MAX;

/// The request that `statmount` and `listmount` share. The kernel knows the structure's age by `size`; the oldest
/// is all we need, and is what every kernel that has the calls accepts.
fn mount_request(mount: u64, parameter: u64) -> linux::mnt_id_req {
    const MNT_ID_REQ_SIZE_VER0: u32 = 24;
    linux::mnt_id_req { size: MNT_ID_REQ_SIZE_VER0, spare: 0, mnt_id: mount, param: parameter, mnt_ns_id: 0 }
}

/// `listmount(2)`, Linux 6.8: the unique ids of the mounts below `parent`, oldest first, beginning after `last`.
///
/// Fills `ids` and returns how many there were; fewer than fit means the end. Mounts that cannot be reached from the
/// caller's root are left out.
pub fn listmount(parent: u64, last: u64, ids: &mut [u64]) -> Result<usize> {
    let request = mount_request(parent, last);
    // SAFETY: the request lives across the call and is only read; the kernel writes at most `ids.len()` numbers.
    let count = checked(unsafe {
        libc::syscall(linux::__NR_listmount.into(), &raw const request, ids.as_mut_ptr(), ids.len(), 0)
    })?;
    Ok(usize::try_from(count).expect("a count that fits the buffer"))
}

/// What [`statmount`] found, as the kernel wrote it into the caller's buffer.
#[derive(Debug, Clone, Copy)]
pub struct StatMount<'buffer> {
    /// The fixed part. Only fields whose bit is in `mask` mean anything; the offsets of texts are for [`Self::text`].
    pub fixed: &'buffer linux::statmount,
    texts: &'buffer [u8],
}

impl<'buffer> StatMount<'buffer> {
    /// A text of the answer, if the kernel gave it: `flag` is its bit in the mask and `offset` its field.
    #[must_use]
    pub fn text(&self, flag: u32, offset: u32) -> Option<&'buffer [u8]> {
        if self.fixed.mask & u64::from(flag) == 0 {
            return None;
        }
        let text = self.texts.get(usize::try_from(offset).ok()?..)?;
        Some(&text[..text.iter().position(|it| *it == 0)?])
    }
}

/// `statmount(2)`, Linux 6.8: what the mount with this unique id is, without touching its file system.
///
/// `mask` is made of the `STATMOUNT_*` bits. The buffer grows as needed; keep it for the next call.
pub fn statmount(mount: u64, mask: u64, buffer: &mut Vec<u64>) -> Result<StatMount<'_>> {
    const FIXED: usize = size_of::<linux::statmount>();
    // Options can be long (overlay's), but not without bound: a page per option, generously.
    const LARGEST: usize = 1 << 20;
    let request = mount_request(mount, mask);
    if buffer.len() * size_of::<u64>() < FIXED + 512 {
        buffer.resize((FIXED + 1024) / size_of::<u64>(), 0);
    }
    loop {
        let size = buffer.len() * size_of::<u64>();
        // SAFETY: the request lives across the call and is only read; the kernel writes at most `size` bytes.
        let answer = checked(unsafe {
            libc::syscall(linux::__NR_statmount.into(), &raw const request, buffer.as_mut_ptr(), size, 0)
        });
        match answer {
            Ok(_) => break,
            Err(Errno::OVERFLOW) if size < LARGEST => buffer.resize(buffer.len() * 2, 0),
            Err(errno) => return Err(errno),
        }
    }
    // SAFETY: the buffer is aligned for u64, which is the structure's alignment, is longer than the structure, is
    // initialised throughout, and the structure is made of integers, for which every bit pattern is valid.
    let fixed = unsafe { &*buffer.as_ptr().cast::<linux::statmount>() };
    let written = usize::try_from(fixed.size).unwrap_or(0).clamp(FIXED, buffer.len() * size_of::<u64>());
    // SAFETY: the bytes after the structure lie within the same initialised buffer, which the result borrows.
    let texts = unsafe { std::slice::from_raw_parts(buffer.as_ptr().cast::<u8>().add(FIXED), written - FIXED) };
    Ok(StatMount { fixed, texts })
}

/// Flags for [`fanotify_init`].
pub mod init {
    /// `FAN_CLOEXEC`.
    pub const CLOEXEC: u32 = 0x1;
    /// `FAN_NONBLOCK`.
    pub const NONBLOCK: u32 = 0x2;
    /// `FAN_REPORT_MNT`, Linux 6.15: report the mount's unique id. Leaves no other kind of event.
    pub const REPORT_MNT: u32 = 0x4000;
}

/// Flags for [`fanotify_mark`].
pub mod mark {
    /// `FAN_MARK_ADD`.
    pub const ADD: u32 = 0x1;
    /// `FAN_MARK_MNTNS`, Linux 6.15: the descriptor names a mount namespace.
    pub const MNTNS: u32 = 0x110;
}

/// `FAN_MNT_ATTACH`, Linux 6.15: a mount was attached. A move sets this and [`FAN_MNT_DETACH`] in one event.
pub const FAN_MNT_ATTACH: u64 = 0x0100_0000;
/// `FAN_MNT_DETACH`, Linux 6.15: a mount was detached.
pub const FAN_MNT_DETACH: u64 = 0x0200_0000;
/// `FAN_Q_OVERFLOW`: events were lost because nobody read them in time.
pub const FAN_Q_OVERFLOW: u64 = 0x4000;

/// `fanotify_init(2)`: makes a group, whose events are read from the descriptor.
pub fn fanotify_init(flags: u32) -> Result<OwnedFd> {
    // SAFETY: the call takes two integers.
    let fd = checked(unsafe { libc::syscall(linux::__NR_fanotify_init.into(), flags, 0) })?;
    let fd = c_int::try_from(fd).expect("a descriptor");
    // SAFETY: the kernel has just made this descriptor, and nobody else knows it.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// `fanotify_mark(2)` on what a descriptor names.
pub fn fanotify_mark<Group: AsFd, Fd: AsFd>(group: Group, flags: u32, mask: u64, object: Fd) -> Result<()> {
    // The libc function, because the mask takes two registers on 32-bit machines.
    // SAFETY: the two descriptors are open for the time of the call, and a null path is allowed.
    let returned = unsafe {
        libc::fanotify_mark(group.as_fd().as_raw_fd(), flags, mask, object.as_fd().as_raw_fd(), std::ptr::null())
    };
    checked(returned.into()).map(drop)
}

/// One event about a mount.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MountEvent {
    /// What happened: `FAN_MNT_ATTACH`, `FAN_MNT_DETACH`, both, or `FAN_Q_OVERFLOW`.
    pub mask: u64,
    /// The mount's unique id; an overflow has none.
    pub mount: Option<u64>,
}

/// The events in a buffer that was read from a fanotify descriptor.
///
/// Stops at the first event that is cut short, which the kernel never writes.
pub fn mount_events(mut buffer: &[u8]) -> impl Iterator<Item = MountEvent> {
    std::iter::from_fn(move || {
        let (event, rest) = split_event(buffer)?;
        buffer = rest;
        Some(event)
    })
}

/// `struct fanotify_event_metadata` and the records after it: the first event, and the bytes behind it.
fn split_event(buffer: &[u8]) -> Option<(MountEvent, &[u8])> {
    const METADATA: usize = 24;
    const INFO_HEADER: usize = 4;
    const FAN_EVENT_INFO_TYPE_MNT: u8 = 7;
    let length = usize::try_from(u32::from_ne_bytes(field(buffer, 0)?)).ok()?;
    let metadata_length = usize::from(u16::from_ne_bytes(field(buffer, 6)?));
    let mask = u64::from_ne_bytes(field(buffer, 8)?);
    if length < METADATA || metadata_length > length {
        return None;
    }
    let (event, rest) = (buffer.get(..length)?, &buffer[length..]);
    let mut records = &event[metadata_length..];
    let mut mount = None;
    while records.len() >= INFO_HEADER {
        let record_length = usize::from(u16::from_ne_bytes(field(records, 2)?)).max(INFO_HEADER);
        let record = records.get(..record_length)?;
        if record[0] == FAN_EVENT_INFO_TYPE_MNT {
            // The id is aligned, so four bytes of padding follow the header.
            mount = Some(u64::from_ne_bytes(field(record, 8)?));
        }
        records = &records[record_length..];
    }
    Some((MountEvent { mask, mount }, rest))
}

/// `N` bytes at an offset.
fn field<const N: usize>(bytes: &[u8], offset: usize) -> Option<[u8; N]> {
    bytes.get(offset..offset.checked_add(N)?)?.try_into().ok()
}

/// `LOOP_CTL_GET_FREE` of loop-control(4): the number of a loop device that has no file; one is made if there is none.
///
/// Somebody else may take it first: see [`loop_configure`].
pub fn loop_get_free<Fd: AsFd>(control: Fd) -> Result<u32> {
    // SAFETY: the request takes no argument.
    let number = checked(unsafe { libc::ioctl(control.as_fd().as_raw_fd(), LOOP_CTL_GET_FREE as _, 0) }.into())?;
    u32::try_from(number).map_err(|_| Errno::RANGE)
}

/// `LOOP_CONFIGURE` of loop(4), Linux 5.8: gives a loop device its file and settings in one step.
///
/// [`Errno::BUSY`]: it has one already.
pub fn loop_configure<Loop: AsFd, File: AsFd>(device: Loop, file: File, info: &loop_info64) -> Result<()> {
    let fd = u32::try_from(file.as_fd().as_raw_fd()).map_err(|_| Errno::BADF)?;
    let config = loop_config { fd, block_size: 0, info: *info, __reserved: [0; 8] };
    // SAFETY: the structure is the one that this request reads, and it lives across the call.
    let done = unsafe { libc::ioctl(device.as_fd().as_raw_fd(), LOOP_CONFIGURE as _, &raw const config) };
    checked(done.into()).map(drop)
}

/// `LOOP_GET_STATUS64` of loop(4). [`Errno::NXIO`]: the loop device has no file.
pub fn loop_status<Fd: AsFd>(device: Fd) -> Result<loop_info64> {
    let mut info = loop_information();
    // SAFETY: the structure is the one that this request writes, and it lives across the call.
    checked(unsafe { libc::ioctl(device.as_fd().as_raw_fd(), LOOP_GET_STATUS64 as _, &raw mut info) }.into())?;
    Ok(info)
}

/// `LOOP_CLR_FD` of loop(4): takes the file away, at once or when the last one who has the loop device open closes it.
pub fn loop_clear<Fd: AsFd>(device: Fd) -> Result<()> {
    // SAFETY: the request takes no argument.
    checked(unsafe { libc::ioctl(device.as_fd().as_raw_fd(), LOOP_CLR_FD as _, 0) }.into()).map(drop)
}

/// `LOOP_SET_CAPACITY` of loop(4): gives the loop device the size that its file has by now.
pub fn loop_set_capacity<Fd: AsFd>(device: Fd) -> Result<()> {
    // SAFETY: the request takes no argument.
    checked(unsafe { libc::ioctl(device.as_fd().as_raw_fd(), LOOP_SET_CAPACITY as _, 0) }.into()).map(drop)
}

/// What is told of a loop device, empty.
#[must_use]
pub fn loop_information() -> loop_info64 {
    loop_info64 {
        lo_device: 0,
        lo_inode: 0,
        lo_rdevice: 0,
        lo_offset: 0,
        lo_sizelimit: 0,
        lo_number: 0,
        lo_encrypt_type: 0,
        lo_encrypt_key_size: 0,
        lo_flags: 0,
        lo_file_name: [0; 64],
        lo_crypt_name: [0; 64],
        lo_encrypt_key: [0; 32],
        lo_init: [0; 2],
    }
}

/// `BLKROGET`: whether a block device refuses to be written.
pub fn block_is_read_only<Fd: AsFd>(device: Fd) -> Result<bool> {
    let mut answer: c_int = 0;
    // SAFETY: the request writes one int, which lives across the call.
    checked(unsafe { libc::ioctl(device.as_fd().as_raw_fd(), BLKROGET as _, &raw mut answer) }.into())?;
    Ok(answer != 0)
}

/// Whether anybody has a file open for writing: then nobody is given a lease on it, see fcntl(2). What is given is given
/// back at once. The descriptor must be open for reading alone. `INVAL`: this file system has no leases; `ACCESS`: the
/// file is somebody else's.
pub fn is_written_to(file: impl AsFd) -> Result<bool> {
    let fd = file.as_fd().as_raw_fd();
    // A writer who comes while we have the lease makes the kernel send a signal, which by default ends the process;
    // this one is ignored by default.
    // SAFETY: the descriptor is open, and the arguments are numbers.
    checked(unsafe { libc::fcntl(fd, linux::F_SETSIG as _, libc::SIGURG) }.into())?;
    // SAFETY: as before.
    match checked(unsafe { libc::fcntl(fd, libc::F_SETLEASE, libc::F_RDLCK) }.into()) {
        Ok(_) => {
            // SAFETY: as before.
            checked(unsafe { libc::fcntl(fd, libc::F_SETLEASE, libc::F_UNLCK) }.into())?;
            Ok(false)
        }
        Err(Errno::AGAIN) => Ok(true),
        Err(errno) => Err(errno),
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};

    use proptest::prelude::*;

    use super::*;

    #[test]
    fn the_program_goes_on_when_it_was_let_go_of() {
        let of_files = || {
            let status = std::fs::read_to_string("/proc/self/status").unwrap();
            let line = status.lines().find_map(|it| it.strip_prefix("RssFile:")).unwrap().to_owned();
            line.split_whitespace().next().unwrap().parse::<u64>().unwrap()
        };
        let before = of_files();
        let_go_of_program();
        let after = of_files();
        assert!(after < before, "{before} KiB and then {after} KiB");
        assert_eq!("constants are as they were".len(), 26);
    }

    #[test]
    fn what_the_other_side_has_not_read_is_known() {
        let (mut one, mut other) = std::os::unix::net::UnixStream::pair().unwrap();
        assert_eq!(unread_by_peer(&one).unwrap(), 0);
        one.write_all(b"hello").unwrap();
        assert!(unread_by_peer(&one).unwrap() >= 5);
        other.read_exact(&mut [0; 5]).unwrap();
        assert_eq!(unread_by_peer(&one).unwrap(), 0);
    }

    /// An event as the kernel writes it.
    fn event(mask: u64, mount: Option<u64>) -> Vec<u8> {
        let length: u32 = if mount.is_some() { 40 } else { 24 };
        let mut bytes = length.to_ne_bytes().to_vec();
        bytes.extend([3, 0]);
        bytes.extend(24u16.to_ne_bytes());
        bytes.extend(mask.to_ne_bytes());
        bytes.extend((-1i32).to_ne_bytes());
        bytes.extend(1i32.to_ne_bytes());
        if let Some(mount) = mount {
            bytes.extend([7, 0]);
            bytes.extend(16u16.to_ne_bytes());
            bytes.extend([0; 4]);
            bytes.extend(mount.to_ne_bytes());
        }
        bytes
    }

    #[test]
    fn events_are_read_one_after_the_other() {
        let mut bytes = event(FAN_MNT_ATTACH, Some(0x1_0000_0007));
        bytes.extend(event(FAN_Q_OVERFLOW, None));
        bytes.extend(event(FAN_MNT_DETACH, Some(9)));
        let events: Vec<_> = mount_events(&bytes).collect();
        assert_eq!(
            events,
            [
                MountEvent { mask: FAN_MNT_ATTACH, mount: Some(0x1_0000_0007) },
                MountEvent { mask: FAN_Q_OVERFLOW, mount: None },
                MountEvent { mask: FAN_MNT_DETACH, mount: Some(9) },
            ]
        );
    }

    #[test]
    fn a_mount_is_described_without_a_path() {
        let root = rustix::fs::statx(
            rustix::fs::CWD,
            "/",
            AtFlags::empty(),
            rustix::fs::StatxFlags::from_bits_retain(linux::STATX_MNT_ID_UNIQUE),
        )
        .unwrap();
        if root.stx_mask & linux::STATX_MNT_ID_UNIQUE == 0 {
            eprintln!("skipped: statmount needs Linux 6.8");
            return;
        }
        let mut buffer = Vec::new();
        let mask = linux::STATMOUNT_MNT_POINT | linux::STATMOUNT_FS_TYPE;
        let answer = match statmount(root.stx_mnt_id, mask.into(), &mut buffer) {
            Ok(answer) => answer,
            Err(Errno::NOSYS) => {
                eprintln!("skipped: this sandbox knows statx and not statmount");
                return;
            }
            Err(errno) => panic!("statmount: {errno}"),
        };
        assert_eq!(answer.text(linux::STATMOUNT_MNT_POINT, answer.fixed.mnt_point), Some(&b"/"[..]));
        assert!(answer.text(linux::STATMOUNT_FS_TYPE, answer.fixed.fs_type).is_some_and(|it| !it.is_empty()));
        assert_eq!(answer.text(linux::STATMOUNT_MNT_OPTS, 0), None, "what was not asked for");
        assert_eq!(statmount(u64::MAX - 1, mask.into(), &mut Vec::new()).unwrap_err(), Errno::NOENT);
    }

    proptest! {
        #[test]
        fn no_bytes_make_the_event_reader_stumble(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            for _ in mount_events(&bytes) {}
        }

        #[test]
        fn a_cut_event_is_no_event(cut in 0usize..40) {
            prop_assert_eq!(mount_events(&event(FAN_MNT_ATTACH, Some(1))[..cut]).count(), 0);
        }
    }
}
