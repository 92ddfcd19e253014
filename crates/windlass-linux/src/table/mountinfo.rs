//! The text of `/proc/<pid>/mountinfo`, byte for byte. See proc_pid_mountinfo(5).
//!
//! Paths are bytes, not text: a mount point can have any name. Fields are separated by exactly one space, and a
//! field may be empty (the source of `mount("", …)`), so runs of spaces are not skipped.

use std::borrow::Cow;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::PathBuf;

use rustix::mount::MountAttrFlags;

use super::{Device, Mount, MountId, Propagation};

/// Why a line of mountinfo could not be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Flaw {
    /// The line ends before this field.
    #[error("it ends before the {0}")]
    Missing(&'static str),
    /// This field is not a number, or not a pair of numbers.
    #[error("the {0} is not a number")]
    Number(&'static str),
}

/// Reads one line, without its newline.
pub(crate) fn line(line: &[u8]) -> Result<Mount, Flaw> {
    let mut fields = line.split(|it| *it == b' ');
    let mut next = |name| fields.next().ok_or(Flaw::Missing(name));
    let number = self::number(next("mount id")?, "mount id")?;
    let parent = self::number(next("parent id")?, "parent id")?;
    let device = device(next("device")?)?;
    let root = next("root")?;
    let mount_point = next("mount point")?;
    let attributes = attributes(next("mount options")?);
    let mut propagation = Propagation::default();
    loop {
        match next("separator")? {
            b"-" => break,
            tag => optional(tag, &mut propagation)?,
        }
    }
    let kind = next("file system type")?;
    let source = next("source")?;
    // The last field, whatever is in it: not every file system escapes the spaces in its options.
    let super_options = fields.collect::<Vec<_>>().join(&b' ');
    Ok(Mount {
        id: MountId::Reusable(number),
        number,
        parent: MountId::Reusable(parent),
        device,
        root: path(root),
        mount_point: path(mount_point),
        kind: text(kind),
        source: text(source),
        attributes,
        super_options: OsString::from_vec(super_options),
        propagation,
    })
}

fn number<T: std::str::FromStr>(field: &[u8], name: &'static str) -> Result<T, Flaw> {
    // `parse` would take a plus sign, the kernel writes none.
    let digits = field.first().is_some_and(u8::is_ascii_digit);
    let text = std::str::from_utf8(field).ok().filter(|_| digits);
    text.and_then(|it| it.parse().ok()).ok_or(Flaw::Number(name))
}

fn device(field: &[u8]) -> Result<Device, Flaw> {
    let colon = field.iter().position(|it| *it == b':').ok_or(Flaw::Number("device"))?;
    Ok(Device { major: number(&field[..colon], "device")?, minor: number(&field[colon + 1..], "device")? })
}

/// One of the optional fields before the separator. Tags that are not known are skipped, as the manual asks.
fn optional(field: &[u8], propagation: &mut Propagation) -> Result<(), Flaw> {
    let (tag, value) = match field.iter().position(|it| *it == b':') {
        Some(colon) => (&field[..colon], &field[colon + 1..]),
        None => (field, &b""[..]),
    };
    match tag {
        b"shared" => propagation.peers = Some(number(value, "peer group")?),
        b"master" => propagation.master = Some(number(value, "master's group")?),
        b"propagate_from" => propagation.from = Some(number(value, "dominating group")?),
        b"unbindable" => propagation.unbindable = true,
        _ => {}
    }
    Ok(())
}

/// The words of the options field, in the order in which the kernel writes them.
const ATTRIBUTES: [(&str, MountAttrFlags); 8] = [
    ("ro", MountAttrFlags::MOUNT_ATTR_RDONLY),
    ("nosuid", MountAttrFlags::MOUNT_ATTR_NOSUID),
    ("nodev", MountAttrFlags::MOUNT_ATTR_NODEV),
    ("noexec", MountAttrFlags::MOUNT_ATTR_NOEXEC),
    ("noatime", MountAttrFlags::MOUNT_ATTR_NOATIME),
    ("nodiratime", MountAttrFlags::MOUNT_ATTR_NODIRATIME),
    ("nosymfollow", MountAttrFlags::MOUNT_ATTR_NOSYMFOLLOW),
    ("idmapped", MountAttrFlags::MOUNT_ATTR_IDMAP),
];

/// The attributes that an options field spells. Words that are not known are skipped.
fn attributes(field: &[u8]) -> MountAttrFlags {
    let mut attributes = MountAttrFlags::empty();
    let mut relative = false;
    for word in field.split(|it| *it == b',') {
        relative |= word == b"relatime";
        let known = ATTRIBUTES.iter().find(|(name, _)| name.as_bytes() == word);
        attributes |= known.map_or(MountAttrFlags::empty(), |(_, flag)| *flag);
    }
    // Strict access times are spelled by silence, relative ones are the absence of a bit.
    if !relative && !attributes.contains(MountAttrFlags::MOUNT_ATTR_NOATIME) {
        attributes |= MountAttrFlags::MOUNT_ATTR_STRICTATIME;
    }
    attributes
}

/// Attributes in mountinfo's words.
pub(super) fn spell(attributes: MountAttrFlags) -> String {
    let mut words = vec![if attributes.contains(MountAttrFlags::MOUNT_ATTR_RDONLY) { "ro" } else { "rw" }];
    for (word, flag) in &ATTRIBUTES[1..] {
        if *word == "nosymfollow" && !attributes.intersects(MountAttrFlags::MOUNT_ATTR__ATIME) {
            words.push("relatime");
        }
        if attributes.contains(*flag) {
            words.push(word);
        }
    }
    words.join(",")
}

fn text(field: &[u8]) -> OsString {
    OsString::from_vec(unescape(field).into_owned())
}

fn path(field: &[u8]) -> PathBuf {
    PathBuf::from(text(field))
}

/// Undoes the kernel's escapes: a backslash and three octal digits. Any other backslash stands for itself.
pub(super) fn unescape(field: &[u8]) -> Cow<'_, [u8]> {
    if !field.contains(&b'\\') {
        return Cow::Borrowed(field);
    }
    let mut plain = Vec::with_capacity(field.len());
    let mut rest = field;
    while let Some((first, others)) = rest.split_first() {
        match others {
            [a @ b'0'..=b'3', b @ b'0'..=b'7', c @ b'0'..=b'7', after @ ..] if *first == b'\\' => {
                plain.push((a - b'0') << 6 | (b - b'0') << 3 | (c - b'0'));
                rest = after;
            }
            _ => {
                plain.push(*first);
                rest = others;
            }
        }
    }
    Cow::Owned(plain)
}

/// The value of one option in a list as mountinfo has it, with its escapes undone: `None` if it is not there, empty
/// if it has no value. Commas within double quotes do not separate (`context="a,b"`), and the quotes are dropped.
pub(super) fn option(list: &OsStr, name: &str) -> Option<OsString> {
    let mut quoted = false;
    let words = list.as_bytes().split(|it| {
        quoted ^= *it == b'"';
        *it == b',' && !quoted
    });
    for word in words {
        let value = match word.strip_prefix(name.as_bytes()) {
            Some([]) => &b""[..],
            Some([b'=', value @ ..]) => value,
            Some(_) | None => continue,
        };
        let value = value.strip_prefix(b"\"").and_then(|it| it.strip_suffix(b"\"")).unwrap_or(value);
        return Some(text(value));
    }
    None
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Escapes as the kernel's `mangle` does.
    fn escape(plain: &[u8]) -> Vec<u8> {
        let mut escaped = Vec::new();
        for byte in plain {
            match byte {
                b' ' | b'\t' | b'\n' | b'\\' | b'#' => escaped.extend(format!("\\{byte:03o}").bytes()),
                _ => escaped.push(*byte),
            }
        }
        escaped
    }

    /// A line as `show_mountinfo` in fs/proc_namespace.c writes it.
    fn write(mount: &Mount) -> Vec<u8> {
        let MountId::Reusable(parent) = mount.parent else { panic!("a number") };
        let mut line = format!("{} {parent} {} ", mount.number, mount.device).into_bytes();
        line.extend(escape(mount.root.as_os_str().as_bytes()));
        line.push(b' ');
        line.extend(escape(mount.mount_point.as_os_str().as_bytes()));
        line.extend(format!(" {}", spell(mount.attributes)).bytes());
        let Propagation { peers, master, from, unbindable } = mount.propagation;
        for (tag, group) in [("shared", peers), ("master", master), ("propagate_from", from)] {
            line.extend(group.map(|it| format!(" {tag}:{it}")).unwrap_or_default().bytes());
        }
        line.extend(if unbindable { &b" unbindable"[..] } else { b"" });
        line.extend(b" - ");
        line.extend(escape(mount.kind.as_bytes()));
        line.push(b' ');
        line.extend(escape(mount.source.as_bytes()));
        line.push(b' ');
        line.extend(mount.super_options.as_bytes());
        line
    }

    fn bytes() -> impl Strategy<Value = Vec<u8>> {
        // Mostly what needs care, now and then anything. NUL never occurs in a path.
        let byte = prop_oneof![4 => prop::sample::select(b" \t\n\\#,-/a0\xff\xe9".to_vec()), 1 => 1u8..];
        prop::collection::vec(byte, 0..20)
    }

    fn mounts() -> impl Strategy<Value = Mount> {
        let group = || prop::option::of(1u64..1000);
        let flags = prop::sample::subsequence(ATTRIBUTES.to_vec(), 0..=ATTRIBUTES.len());
        let propagation = (group(), group(), group(), any::<bool>());
        let texts = (bytes(), bytes(), bytes(), bytes(), prop::sample::select(vec!["rw", "rw,size=1k,mode=755", ""]));
        (any::<(u32, u32, u32, u32)>(), flags, any::<bool>(), propagation, texts).prop_map(
            |((number, parent, major, minor), flags, strict, (peers, master, from, unbindable), texts)| {
                let mut attributes = flags.iter().fold(MountAttrFlags::empty(), |all, (_, flag)| all | *flag);
                if strict && !attributes.contains(MountAttrFlags::MOUNT_ATTR_NOATIME) {
                    attributes |= MountAttrFlags::MOUNT_ATTR_STRICTATIME;
                }
                let path = |it: Vec<u8>| PathBuf::from(OsString::from_vec([b"/".to_vec(), it].concat()));
                Mount {
                    id: MountId::Reusable(number),
                    number,
                    parent: MountId::Reusable(parent),
                    device: Device { major, minor },
                    root: path(texts.0),
                    mount_point: path(texts.1),
                    kind: OsString::from_vec(texts.2),
                    source: OsString::from_vec(texts.3),
                    attributes,
                    super_options: texts.4.into(),
                    propagation: Propagation { peers, master, from, unbindable },
                }
            },
        )
    }

    proptest! {
        #[test]
        fn what_the_kernel_writes_is_read_back(mount in mounts()) {
            prop_assert_eq!(line(&write(&mount)).unwrap(), mount);
        }

        #[test]
        fn no_bytes_make_the_parser_stumble(bytes in prop::collection::vec(any::<u8>(), 0..120)) {
            let _ = line(&bytes);
            let _ = option(OsStr::from_bytes(&bytes), "a");
        }

        #[test]
        fn unescaping_undoes_escaping(plain in bytes()) {
            prop_assert_eq!(unescape(&escape(&plain)).into_owned(), plain);
        }
    }

    #[test]
    fn the_manuals_example_is_read() {
        let text = b"36 35 98:0 /mnt1 /mnt2 rw,noatime master:1 propagate_from:7 - ext3 /dev/root rw,errors=continue";
        let mount = line(text).unwrap();
        assert_eq!((mount.number, mount.parent), (36, MountId::Reusable(35)));
        assert_eq!(mount.device, Device { major: 98, minor: 0 });
        assert_eq!((mount.root.to_str(), mount.mount_point.to_str()), (Some("/mnt1"), Some("/mnt2")));
        assert_eq!(mount.attributes, MountAttrFlags::MOUNT_ATTR_NOATIME);
        let propagation = Propagation { master: Some(1), from: Some(7), ..Propagation::default() };
        assert_eq!(mount.propagation, propagation);
        assert_eq!((mount.kind.to_str(), mount.source.to_str()), (Some("ext3"), Some("/dev/root")));
        assert_eq!(mount.super_option("errors").unwrap(), "continue");
    }

    #[test]
    fn an_empty_source_and_unknown_tags_do_not_shift_the_fields() {
        let mount = line(b"1 0 0:5 / /a rw,relatime,shiny shared:2 new_tag:9 later - tmpfs  rw,size=4k").unwrap();
        assert_eq!(mount.source, "");
        assert_eq!(mount.propagation, Propagation { peers: Some(2), ..Propagation::default() });
        assert_eq!(mount.attributes, MountAttrFlags::empty());
        assert_eq!(mount.super_options, "rw,size=4k");
    }

    #[test]
    fn spaces_in_the_last_field_stay_in_it() {
        assert_eq!(line(b"1 0 0:5 / /a rw - odd src rw,note=a b").unwrap().super_options, "rw,note=a b");
        assert_eq!(line(b"1 0 0:5 / /a rw - odd src").unwrap().super_options, "");
    }

    #[test]
    fn a_line_that_is_cut_short_says_where() {
        assert_eq!(line(b""), Err(Flaw::Number("mount id")));
        assert_eq!(line(b"1 0"), Err(Flaw::Missing("device")));
        assert_eq!(line(b"1 0 0-5 / /a rw - a b c"), Err(Flaw::Number("device")));
        assert_eq!(line(b"1 +0 0:5 / /a rw - a b c"), Err(Flaw::Number("parent id")));
        assert_eq!(line(b"1 0 0:5 / /a rw shared:1"), Err(Flaw::Missing("separator")));
        assert_eq!(line(b"1 0 0:5 / /a rw shared:x - a b c"), Err(Flaw::Number("peer group")));
        assert_eq!(line(b"1 0 0:5 / /a rw - ext4"), Err(Flaw::Missing("source")));
    }

    #[test]
    fn escapes_are_three_octal_digits_of_one_byte() {
        assert_eq!(&*unescape(b"a\\040b\\134\\011"), b"a b\\\t");
        assert_eq!(&*unescape(b"\\400 \\08 \\0 \\"), b"\\400 \\08 \\0 \\");
        assert_eq!(&*unescape(b"\\377"), b"\xff");
    }

    #[test]
    fn an_option_is_found_by_its_whole_name() {
        let list = OsStr::new("rw,context=\"u:r:t:s0:c1,c2\",size=1k,sizes=2k,lower=a\\054b");
        assert_eq!(option(list, "size").unwrap(), "1k");
        assert_eq!(option(list, "context").unwrap(), "u:r:t:s0:c1,c2");
        assert_eq!(option(list, "rw").unwrap(), "");
        assert_eq!(option(list, "lower").unwrap(), "a,b");
        assert_eq!(option(list, "c2\""), None);
        assert_eq!(option(list, "siz"), None);
    }
}
