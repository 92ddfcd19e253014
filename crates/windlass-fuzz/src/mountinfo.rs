//! The kernel's table of mounts as text.

use std::ffi::OsStr;
use std::fmt::Write as _;
use std::os::unix::ffi::OsStrExt;

use windlass_linux::fuzzing;

use crate::parts;

/// Any text is read or refused; a line that the kernel would write is read as what it was written of.
pub(crate) fn target(bytes: &[u8]) {
    if let Ok(mounts) = fuzzing::mounts(bytes) {
        let lines = bytes.split(|it| *it == b'\n').filter(|it| !it.is_empty()).count();
        assert!(mounts.len() <= lines, "no mount comes of nothing");
        for mount in &mounts {
            let _ = (mount.attribute_words(), mount.super_option("context"));
        }
    }
    let [root, point, kind, source, options] = parts::<5>(bytes);
    let line = format!(
        "36 35 98:0 {} {} rw,noatime shared:1 - {} {} {}",
        escaped(root),
        escaped(point),
        escaped(kind),
        escaped(source),
        escaped(options)
    );
    let mounts = fuzzing::mounts(line.as_bytes()).expect("a line of the kernel is read");
    let [mount] = mounts.as_slice() else { panic!("one line is one mount: {line}") };
    let same = |field: &OsStr, was: &[u8]| assert_eq!(field.as_bytes(), was, "{line}");
    same(mount.root.as_os_str(), root);
    same(mount.mount_point.as_os_str(), point);
    same(&mount.kind, kind);
    same(&mount.source, source);
}

/// As the kernel's `mangle` writes it; a byte that is no text too, which the kernel writes as it is.
fn escaped(plain: &[u8]) -> String {
    plain.iter().fold(String::new(), |mut text, byte| {
        match byte {
            b' ' | b'\t' | b'\n' | b'\\' | b'#' | 0x80.. => _ = write!(text, "\\{byte:03o}"),
            _ => text.push(char::from(*byte)),
        }
        text
    })
}
