//! Mount options as people write them, sorted into what the kernel takes: attributes of the mount, parameters of the
//! file system. Values that are secret stay out of every text.

use std::ffi::{OsStr, OsString};
use std::fmt;
use std::os::unix::ffi::OsStrExt;

use rustix::mount::MountAttrFlags;

/// The value of a parameter of a file system.
#[derive(Clone, PartialEq, Eq)]
pub enum Value {
    /// It has none: `noswap`.
    None,
    /// It can be shown: `size=1048576`.
    Plain(OsString),
    /// It can not: `password=…`.
    Secret(OsString),
}

impl Value {
    pub(super) fn as_text(&self) -> Option<&OsStr> {
        match self {
            Self::None => None,
            Self::Plain(text) | Self::Secret(text) => Some(text),
        }
    }
}

impl fmt::Debug for Value {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::None => formatter.write_str("None"),
            Self::Plain(text) => text.fmt(formatter),
            Self::Secret(_) => formatter.write_str(MASK),
        }
    }
}

/// What is written in place of a secret.
const MASK: &str = "<masked>";

/// Options of a mount. The default has none.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Options {
    /// What holds for this mount of the file system.
    pub attributes: MountAttrFlags,
    /// What the file system is told, in order.
    pub parameters: Vec<(String, Value)>,
}

impl Default for Options {
    fn default() -> Self {
        Self { attributes: MountAttrFlags::empty(), parameters: Vec::new() }
    }
}

/// Words that turn attributes of the mount on (`set`) after turning others off (`clear`).
const ATTRIBUTES: [(&str, MountAttrFlags, MountAttrFlags); 17] = {
    use MountAttrFlags as Flags;
    const NOTHING: Flags = Flags::empty();
    const ATIME: Flags = Flags::MOUNT_ATTR__ATIME;
    [
        ("suid", NOTHING, Flags::MOUNT_ATTR_NOSUID),
        ("nosuid", Flags::MOUNT_ATTR_NOSUID, NOTHING),
        ("dev", NOTHING, Flags::MOUNT_ATTR_NODEV),
        ("nodev", Flags::MOUNT_ATTR_NODEV, NOTHING),
        ("exec", NOTHING, Flags::MOUNT_ATTR_NOEXEC),
        ("noexec", Flags::MOUNT_ATTR_NOEXEC, NOTHING),
        ("atime", NOTHING, ATIME),
        ("noatime", Flags::MOUNT_ATTR_NOATIME, ATIME),
        ("relatime", NOTHING, ATIME),
        ("norelatime", Flags::MOUNT_ATTR_STRICTATIME, ATIME),
        ("strictatime", Flags::MOUNT_ATTR_STRICTATIME, ATIME),
        ("nostrictatime", NOTHING, ATIME),
        ("diratime", NOTHING, Flags::MOUNT_ATTR_NODIRATIME),
        ("nodiratime", Flags::MOUNT_ATTR_NODIRATIME, NOTHING),
        ("symfollow", NOTHING, Flags::MOUNT_ATTR_NOSYMFOLLOW),
        ("nosymfollow", Flags::MOUNT_ATTR_NOSYMFOLLOW, NOTHING),
        ("rw", NOTHING, Flags::MOUNT_ATTR_RDONLY),
    ]
};

/// Words of `/etc/fstab` that are for tools, not for the kernel. So is everything that begins with `x-` or `X-`.
const FOR_TOOLS: [&str; 10] =
    ["defaults", "auto", "noauto", "user", "nouser", "users", "owner", "group", "nofail", "_netdev"];

impl Options {
    /// Reads options as given to mount(8), one or several (`a,b`) per text. The later one wins.
    pub fn parse<Text: AsRef<OsStr>>(texts: impl IntoIterator<Item = Text>) -> Self {
        let mut options = Self::default();
        for text in texts {
            options.add(text.as_ref(), Value::Plain);
        }
        options
    }

    /// Adds options whose values must not be shown anywhere.
    #[must_use]
    pub fn and_secret<Text: AsRef<OsStr>>(mut self, texts: impl IntoIterator<Item = Text>) -> Self {
        for text in texts {
            self.add(text.as_ref(), Value::Secret);
        }
        self
    }

    /// Adds one parameter of the file system as it is, without looking for words that mean something else.
    #[must_use]
    pub fn and_parameter(mut self, name: impl Into<String>, value: Value) -> Self {
        self.parameters.push((name.into(), value));
        self
    }

    fn add(&mut self, text: &OsStr, value: fn(OsString) -> Value) {
        // Commas within double quotes belong to the value: context="u:object_r:t:s0:c1,c2".
        let mut quoted = false;
        let words = text.as_bytes().split(|it| {
            quoted ^= *it == b'"';
            *it == b',' && !quoted
        });
        for word in words.filter(|it| !it.is_empty()) {
            let (name, given) = match word.iter().position(|it| *it == b'=') {
                Some(equals) => (&word[..equals], Some(&word[equals + 1..])),
                None => (word, None),
            };
            let name = String::from_utf8_lossy(name).into_owned();
            let unquoted = |it: &[u8]| {
                let inner = it.strip_prefix(b"\"").and_then(|it| it.strip_suffix(b"\"")).unwrap_or(it);
                OsStr::from_bytes(inner).to_owned()
            };
            match given {
                Some(given) => self.parameters.push((name, value(unquoted(given)))),
                None => self.add_word(name),
            }
        }
    }

    fn add_word(&mut self, name: String) {
        if FOR_TOOLS.contains(&name.as_str()) || name.starts_with("x-") || name.starts_with("X-") {
            return;
        }
        if let Some((_, set, clear)) = ATTRIBUTES.iter().find(|(word, _, _)| *word == name) {
            self.attributes = (self.attributes - *clear) | *set;
        }
        // `ro` and `rw` are for both: this mount, and the file system, which may then skip recovery of its journal.
        if name == "ro" {
            self.attributes |= MountAttrFlags::MOUNT_ATTR_RDONLY;
        }
        if name == "ro" || name == "rw" || !ATTRIBUTES.iter().any(|(word, _, _)| *word == name) {
            self.parameters.push((name, Value::None));
        }
    }

    /// A text with every secret value in it masked.
    pub(super) fn masked(&self, text: &str) -> String {
        let mut text = text.to_owned();
        let secrets = self.parameters.iter().filter_map(|(_, value)| match value {
            Value::Secret(secret) if !secret.is_empty() => Some(secret.to_string_lossy()),
            Value::Secret(_) | Value::Plain(_) | Value::None => None,
        });
        let mut secrets: Vec<_> = secrets.collect();
        // Longest first: a secret that contains another would be left in parts.
        secrets.sort_by_key(|it| std::cmp::Reverse(it.len()));
        for secret in secrets {
            text = text.replace(&*secret, MASK);
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plain(name: &str, value: &str) -> (String, Value) {
        (name.into(), Value::Plain(value.into()))
    }

    #[test]
    fn words_are_sorted_into_attributes_and_parameters() {
        let options = Options::parse(["nosuid,nodev", "size=1k", "noswap", "defaults", "x-gvfs-hide,_netdev"]);
        assert_eq!(options.attributes, MountAttrFlags::MOUNT_ATTR_NOSUID | MountAttrFlags::MOUNT_ATTR_NODEV);
        assert_eq!(options.parameters, [plain("size", "1k"), ("noswap".into(), Value::None)]);
    }

    #[test]
    fn the_later_word_wins() {
        assert_eq!(Options::parse(["nosuid,suid"]).attributes, MountAttrFlags::empty());
        let options = Options::parse(["noatime,strictatime"]);
        assert_eq!(options.attributes, MountAttrFlags::MOUNT_ATTR_STRICTATIME);
        let options = Options::parse(["ro,rw"]);
        assert_eq!(options.attributes, MountAttrFlags::empty());
        assert_eq!(options.parameters, [("ro".into(), Value::None), ("rw".into(), Value::None)]);
    }

    #[test]
    fn read_only_is_for_the_mount_and_for_the_file_system() {
        let options = Options::parse(["ro"]);
        assert_eq!(options.attributes, MountAttrFlags::MOUNT_ATTR_RDONLY);
        assert_eq!(options.parameters, [("ro".into(), Value::None)]);
    }

    #[test]
    fn quotes_keep_a_value_together() {
        let options = Options::parse(["context=\"u:r:t:s0:c1,c2\",size=1"]);
        assert_eq!(options.parameters, [plain("context", "u:r:t:s0:c1,c2"), plain("size", "1")]);
    }

    #[test]
    fn a_secret_is_in_no_text() {
        let options = Options::parse(["user=me"]).and_secret(["password=hunter2,pin=hunter"]);
        assert!(!format!("{options:?}").contains("hunter"), "{options:?}");
        assert_eq!(options.masked("bad value hunter2, hunter"), "bad value <masked>, <masked>");
    }
}
