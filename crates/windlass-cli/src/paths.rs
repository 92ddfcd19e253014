//! Where things are when nobody says where: the system's directories for root, the user's own for everybody else.

use std::env;
use std::path::PathBuf;

/// The directories of one installation.
pub(crate) struct Paths {
    pub(crate) root: PathBuf,
    pub(crate) manifests: PathBuf,
    /// In memory: the socket and a key are here.
    pub(crate) runtime: PathBuf,
    pub(crate) config: PathBuf,
}

impl Paths {
    /// Those of whoever runs this.
    pub(crate) fn own() -> Self {
        if rustix::process::geteuid().is_root() { Self::system() } else { Self::user() }
    }

    pub(crate) fn system() -> Self {
        Self {
            root: "/var/lib/windlass".into(),
            manifests: "/etc/windlass/manifests".into(),
            runtime: "/run/windlass".into(),
            config: "/etc/windlass/config.yaml".into(),
        }
    }

    /// By the XDG base directories.
    fn user() -> Self {
        let absolute = |name: &str| env::var_os(name).map(PathBuf::from).filter(|it| it.is_absolute());
        let home = absolute("HOME").unwrap_or_else(|| "/".into());
        let config = absolute("XDG_CONFIG_HOME").unwrap_or_else(|| home.join(".config")).join("windlass");
        Self {
            root: absolute("XDG_DATA_HOME").unwrap_or_else(|| home.join(".local/share")).join("windlass"),
            manifests: config.join("manifests"),
            // Elsewhere than in the user's own directories somebody else could be there first.
            runtime: absolute("XDG_RUNTIME_DIR")
                .or_else(|| absolute("XDG_CACHE_HOME"))
                .unwrap_or_else(|| home.join(".cache"))
                .join("windlass"),
            config: config.join("config.yaml"),
        }
    }

    pub(crate) fn socket(&self) -> PathBuf {
        self.runtime.join("api.sock")
    }
}
