//! Names and paths that become parts of paths on disk.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Component, Path};

use windlass::inner;
use windlass_linux::name::{Name, Relative};

/// Whatever is accepted stays below the directory it is used in, and is accepted as it is when it is seen again.
pub(crate) fn target(bytes: &[u8]) {
    let text = OsStr::from_bytes(bytes);
    if let Ok(name) = Name::new("name", text) {
        let parts: Vec<_> = name.as_path().components().collect();
        assert!(matches!(parts.as_slice(), [Component::Normal(it)] if *it == text), "{text:?} is one part of a path");
        assert!(name.as_bytes().len() <= Name::BYTES_MAX && !name.as_bytes().contains(&0));
        assert!(!name.to_string().contains('\n'), "what is shown of {text:?} is one line");
    }
    if let Ok(relative) = Relative::new("path", text) {
        let is_normal = |it: Component<'_>| matches!(it, Component::Normal(_));
        assert!(relative.as_path().components().all(is_normal), "{text:?} leads nowhere else");
        let again = Relative::new("path", relative.as_path()).expect("what is clean is accepted");
        assert_eq!(again, relative, "what is clean stays as it is");
        let names: Vec<Name> = relative.names().collect();
        assert_eq!(Relative::of("path", &names).expect("its names make it up"), relative);
        let kept = |it: &Path| it.components().filter(|it| *it != Component::CurDir).count();
        assert_eq!(names.len(), kept(Path::new(text)), "{text:?} loses no name");
    }
    if let Ok(plugin) = str::from_utf8(bytes)
        && !plugin.contains('~')
    {
        assert_eq!(inner::unescape(&inner::escape(plugin)), plugin);
    }
}
