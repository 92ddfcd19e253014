//! Names that came from outside, checked before they become parts of a path.
//!
//! A [`Name`] is one component, a [`Relative`] is several. Holding one is the proof that it cannot leave the
//! directory it is used in: there is no way to make one that contains `/`, `..` or NUL.

use std::ffi::{OsStr, OsString};
use std::fmt;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

/// Why something cannot be a name or a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Reason {
    /// It has no characters, or a path has no components.
    #[error("it is empty")]
    Empty,
    /// A name with a slash is a path.
    #[error("it contains a slash")]
    Slash,
    /// The kernel ends a name at NUL.
    #[error("it contains a NUL byte")]
    Nul,
    /// `.` is the directory itself.
    #[error("it is \".\"")]
    Dot,
    /// `..` leaves the directory.
    #[error("it is \"..\"")]
    DotDot,
    /// No file system takes a longer name.
    #[error("it is longer than 255 bytes")]
    LongName,
    /// The kernel takes no longer path.
    #[error("it is longer than 4096 bytes")]
    LongPath,
    /// It begins with a slash, where only a path below something makes sense.
    #[error("it is absolute")]
    Absolute,
    /// One of its components is `..`.
    #[error("it contains \"..\"")]
    ContainsDotDot,
}

/// A value from outside that cannot be a name or a path.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{field} \"{value}\" cannot be used: {reason}")]
pub struct Error {
    /// What the value is to whoever wrote it: `pod uid`, `key`.
    pub field: &'static str,
    /// The value, shortened, with bytes that are not printable escaped.
    pub value: String,
    /// What is wrong with it.
    pub reason: Reason,
}

impl Error {
    fn new(field: &'static str, value: &OsStr, reason: Reason) -> Self {
        const SHOWN_MAX: usize = 80;
        let bytes = value.as_bytes();
        let mut shown = bytes[..bytes.len().min(SHOWN_MAX)].escape_ascii().to_string();
        if bytes.len() > SHOWN_MAX {
            shown.push('…');
        }
        Self { field, value: shown, reason }
    }
}

/// One component of a path: not empty, not `.` or `..`, no `/`, no NUL, at most 255 bytes.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Name(OsString);

impl Name {
    /// The longest name that file systems take (`NAME_MAX`).
    pub const BYTES_MAX: usize = 255;

    /// Checks a value. `field` says what it is, for the error.
    pub fn new(field: &'static str, value: impl AsRef<OsStr>) -> Result<Self, Error> {
        let value = value.as_ref();
        match Self::flaw(value.as_bytes()) {
            Some(reason) => Err(Error::new(field, value, reason)),
            None => Ok(Self(value.to_owned())),
        }
    }

    fn flaw(value: &[u8]) -> Option<Reason> {
        match value {
            b"" => Some(Reason::Empty),
            b"." => Some(Reason::Dot),
            b".." => Some(Reason::DotDot),
            _ if value.contains(&b'/') => Some(Reason::Slash),
            _ if value.contains(&0) => Some(Reason::Nul),
            _ if value.len() > Self::BYTES_MAX => Some(Reason::LongName),
            _ => None,
        }
    }

    /// The name as a path of one component.
    #[must_use]
    pub fn as_path(&self) -> &Path {
        Path::new(&self.0)
    }

    /// The bytes of the name.
    #[must_use]
    pub fn as_bytes(&self) -> &[u8] {
        self.0.as_bytes()
    }
}

impl AsRef<OsStr> for Name {
    fn as_ref(&self) -> &OsStr {
        &self.0
    }
}

impl fmt::Display for Name {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}", self.0.as_bytes().escape_ascii())
    }
}

impl fmt::Debug for Name {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(formatter)
    }
}

/// A path of one or more names, to be used below a directory.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Relative(PathBuf);

impl Relative {
    /// The longest path that the kernel takes (`PATH_MAX`).
    pub const BYTES_MAX: usize = 4096;

    /// Checks and cleans a value: `.` and repeated slashes are dropped (`a/./b//c` is `a/b/c`), `..` is refused
    /// wherever it stands, also where it would cancel out. `field` says what the value is, for the error.
    pub fn new(field: &'static str, value: impl AsRef<OsStr>) -> Result<Self, Error> {
        let value = value.as_ref();
        let bytes = value.as_bytes();
        let refuse = |reason| Err(Error::new(field, value, reason));
        if bytes.len() > Self::BYTES_MAX {
            return refuse(Reason::LongPath);
        }
        if bytes.first() == Some(&b'/') {
            return refuse(Reason::Absolute);
        }
        let mut path = Vec::with_capacity(bytes.len());
        for component in bytes.split(|it| *it == b'/') {
            match Name::flaw(component) {
                None => {
                    if !path.is_empty() {
                        path.push(b'/');
                    }
                    path.extend_from_slice(component);
                }
                Some(Reason::Empty | Reason::Dot) => {}
                Some(Reason::DotDot) => return refuse(Reason::ContainsDotDot),
                Some(reason) => return refuse(reason),
            }
        }
        if path.is_empty() { refuse(Reason::Empty) } else { Ok(Self(OsString::from_vec(path).into())) }
    }

    /// The path of these names, outermost first, if there are any and they are not too long together.
    pub fn of<'a>(field: &'static str, names: impl IntoIterator<Item = &'a Name>) -> Result<Self, Error> {
        let mut path = Vec::with_capacity(128);
        for name in names {
            if !path.is_empty() {
                path.push(b'/');
            }
            path.extend_from_slice(name.as_bytes());
        }
        let path = OsString::from_vec(path);
        match path.len() {
            0 => Err(Error::new(field, &path, Reason::Empty)),
            1..=Self::BYTES_MAX => Ok(Self(path.into())),
            _ => Err(Error::new(field, &path, Reason::LongPath)),
        }
    }

    /// The names, outermost first. There is at least one.
    pub fn names(&self) -> impl DoubleEndedIterator<Item = Name> {
        self.0.as_os_str().as_bytes().split(|it| *it == b'/').map(|it| Name(OsStr::from_bytes(it).to_owned()))
    }

    /// The first name.
    #[must_use]
    pub fn first(&self) -> Name {
        self.names().next().expect("a path has at least one name")
    }

    /// The path, cleaned.
    #[must_use]
    pub fn as_path(&self) -> &Path {
        &self.0
    }
}

impl From<Name> for Relative {
    fn from(name: Name) -> Self {
        Self(name.0.into())
    }
}

impl fmt::Display for Relative {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}", self.0.as_os_str().as_bytes().escape_ascii())
    }
}

impl fmt::Debug for Relative {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(formatter)
    }
}

#[cfg(test)]
mod tests {
    use std::path::Component;

    use proptest::prelude::*;

    use super::*;

    fn reason<T: fmt::Debug>(checked: Result<T, Error>) -> Reason {
        checked.unwrap_err().reason
    }

    #[test]
    fn a_name_is_one_component() {
        let name = |value: &str| Name::new("key", value);
        assert_eq!(reason(name("")), Reason::Empty);
        assert_eq!(reason(name(".")), Reason::Dot);
        assert_eq!(reason(name("..")), Reason::DotDot);
        assert_eq!(reason(name("a/b")), Reason::Slash);
        assert_eq!(reason(name("a\0b")), Reason::Nul);
        assert_eq!(reason(name(&"a".repeat(256))), Reason::LongName);
        assert!(name(&"a".repeat(255)).is_ok());
        assert!(name("...").is_ok());
        assert!(name("..data").is_ok());
        assert!(Name::new("key", OsStr::from_bytes(b"\xff")).is_ok());
    }

    #[test]
    fn the_error_says_which_value_and_why() {
        let error = Name::new("pod uid", "../etc\n").unwrap_err();
        assert_eq!(error.to_string(), "pod uid \"../etc\\n\" cannot be used: it contains a slash");
        assert!(Name::new("pod uid", "a".repeat(5000)).unwrap_err().to_string().len() < 200);
    }

    #[test]
    fn a_path_is_cleaned_and_stays_below() {
        let path = |value: &str| Relative::new("item path", value);
        assert_eq!(path("foo/./bar//baz/").unwrap().as_path(), Path::new("foo/bar/baz"));
        assert_eq!(reason(path("a/../b")), Reason::ContainsDotDot);
        assert_eq!(reason(path("a/../../etc/passwd")), Reason::ContainsDotDot);
        assert_eq!(reason(path("/a")), Reason::Absolute);
        assert_eq!(reason(path("./.")), Reason::Empty);
        assert_eq!(reason(path(&"a/".repeat(2049))), Reason::LongPath);
        assert_eq!(reason(path(&format!("a/{}", "b".repeat(256)))), Reason::LongName);
        assert_eq!(path("./..x").unwrap().first().as_bytes(), b"..x", "cleaned before anything looks at it");
    }

    proptest! {
        #[test]
        fn whatever_is_accepted_is_made_of_plain_names(bytes in prop::collection::vec(any::<u8>(), 0..40)) {
            let value = OsStr::from_bytes(&bytes);
            if let Ok(path) = Relative::new("path", value) {
                let path = path.as_path();
                prop_assert!(path.components().all(|it| matches!(it, Component::Normal(_))));
                prop_assert!(!path.as_os_str().as_bytes().contains(&0));
            }
            if let Ok(name) = Name::new("name", value) {
                prop_assert_eq!(name.as_path().components().count(), 1);
            }
        }
    }
}
