//! What lies below a directory, as the cases store it.

use std::collections::{BTreeMap, BTreeSet};
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::{fs, io};

use ring::digest::{SHA256, digest};
use serde::Serialize;

/// A file with more is not repeated for the reader.
const TEXT_BYTES_MAX: usize = 1024;

/// One name on disk. Mode and owner of a device are the host's and left out.
#[derive(Serialize)]
pub(crate) struct Entry {
    path: String,
    kind: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    mode: Option<String>,
    uid: u32,
    gid: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    target: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    sha256: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    text: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    fstype: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    opts: Option<String>,
}

/// Everything below a directory, sorted. What vanishes meanwhile counts as absent.
pub(crate) fn read(root: &Path) -> io::Result<Vec<Entry>> {
    let mounts = mounts_below(root, &fs::read_to_string("/proc/self/mountinfo")?);
    let mut entries = Vec::new();
    let mut ahead = vec![root.to_owned()];
    while let Some(directory) = ahead.pop() {
        let Some(names) = present(fs::read_dir(&directory))? else { continue };
        for name in names {
            let path = name?.path();
            let Some(mut entry) = present(entry(root, &path))? else { continue };
            if let Some((kind, options)) = mounts.get(&path) {
                (entry.fstype, entry.opts) = (Some(kind.clone()), Some(options.clone()));
            }
            if entry.kind == "dir" {
                ahead.push(path);
            }
            entries.push(entry);
        }
    }
    entries.sort_by(|one, other| one.path.cmp(&other.path));
    Ok(entries)
}

fn present<T>(result: io::Result<T>) -> io::Result<Option<T>> {
    match result {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        other => other.map(Some),
    }
}

fn entry(root: &Path, path: &Path) -> io::Result<Entry> {
    let metadata = fs::symlink_metadata(path)?;
    let below = path.strip_prefix(root).unwrap_or(path);
    let mut entry = Entry {
        path: fold(root, &below.to_string_lossy()),
        kind: "file",
        mode: Some(format!("{:04o}", metadata.mode() & 0o7777)),
        uid: metadata.uid(),
        gid: metadata.gid(),
        target: None,
        sha256: None,
        text: None,
        fstype: None,
        opts: None,
    };
    let kind = metadata.file_type();
    if kind.is_file() {
        let bytes = fs::read(path)?;
        entry.sha256 = Some(digest(&SHA256, &bytes).as_ref().iter().map(|it| format!("{it:02x}")).collect());
        entry.text = String::from_utf8(bytes).ok().filter(|it| (1..=TEXT_BYTES_MAX).contains(&it.len()));
    } else if kind.is_dir() {
        entry.kind = "dir";
    } else if kind.is_symlink() {
        entry.kind = "link";
        entry.target = Some(fold(root, &fs::read_link(path)?.to_string_lossy()));
    } else if kind.is_fifo() {
        entry.kind = "fifo";
    } else if kind.is_socket() {
        entry.kind = "socket";
    } else {
        entry.kind = if kind.is_block_device() { "block" } else { "char" };
        (entry.mode, entry.uid, entry.gid) = (None, 0, 0);
    }
    Ok(entry)
}

/// A text without what differs from run to run.
pub(crate) fn fold(root: &Path, text: &str) -> String {
    let text = text.replace(&*root.to_string_lossy(), "ROOT");
    let text = replace_each(&text, "/dev/loop", digits, "/dev/loopN");
    replace_each(&text, "..", stamp, "..STAMP")
}

/// Puts a text in place of each occurrence of another that is followed by something of which `length` tells the end.
fn replace_each(text: &str, begin: &str, length: impl Fn(&str) -> Option<usize>, by: &str) -> String {
    let (mut folded, mut rest) = (String::new(), text);
    while let Some(at) = rest.find(begin) {
        let (before, after) = (&rest[..at], &rest[at + begin.len()..]);
        folded.push_str(before);
        match length(after) {
            Some(length) => {
                folded.push_str(by);
                rest = &after[length..];
            }
            None => {
                folded.push_str(begin);
                rest = after;
            }
        }
    }
    folded + rest
}

/// How many digits a text begins with.
fn digits(text: &str) -> Option<usize> {
    let count = text.bytes().take_while(u8::is_ascii_digit).count();
    (count > 0).then_some(count)
}

/// The length of a time like `2026_01_31_12_00_00.123`, with which a text begins.
fn stamp(text: &str) -> Option<usize> {
    let mut length = 0;
    for (part, count) in [4, 2, 2, 2, 2, 2].into_iter().enumerate() {
        if part > 0 {
            length += text[length..].starts_with('_').then_some(1)?;
        }
        digits(&text[length..]).filter(|it| *it == count)?;
        length += count;
    }
    length += text[length..].starts_with('.').then_some(1)?;
    Some(length + digits(&text[length..])?)
}

/// Type and options of each mount below a directory. A file system that is mounted elsewhere too is the host's, and its own
/// options say nothing of us.
fn mounts_below(root: &Path, table: &str) -> BTreeMap<PathBuf, (String, String)> {
    let prefix = format!("{}/", root.display());
    let (mut below, mut outside) = (Vec::new(), BTreeSet::new());
    for line in table.lines() {
        let Some((left, right)) = line.split_once(" - ") else { continue };
        let (left, right): (Vec<_>, Vec<_>) = (left.split(' ').collect(), right.split(' ').collect());
        let ([_, _, device, _, point, flags, ..], [kind, _, own, ..]) = (&left[..], &right[..]) else { continue };
        if point.starts_with(&prefix) {
            below.push((*device, *point, *flags, *kind, *own));
        } else {
            outside.insert(*device);
        }
    }
    let described = below.into_iter().map(|(device, point, flags, kind, own)| {
        let is_hosts = outside.contains(device);
        let mut options: BTreeSet<&str> = flags.split(',').collect();
        if !is_hosts && ["tmpfs", "hugetlbfs"].contains(&kind) {
            options.extend(own.split(','));
        }
        options.retain(|it| !["relatime", "inode64", "inode32", "seclabel"].contains(it));
        let kind = if is_hosts { "host" } else { kind };
        (point.into(), (kind.to_owned(), Vec::from_iter(options).join(",")))
    });
    described.collect()
}
