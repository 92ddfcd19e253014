//! Where the daemon is that is asked, and what may help if it does not answer. The asking is [`windlass_api::client`]'s.

use std::os::unix::fs::FileTypeExt;
use std::path::{Path, PathBuf};
use std::{env, io};

pub(crate) use windlass_api::client::{Client, DEADLINE, Error};
pub(crate) use windlass_api::paths::{
    claim, containers, list, node, orphans, pod, pod_by_uid, retry, retry_claim, statistics,
};

use crate::daemon::config::Settings;
use crate::paths::Paths;

/// The daemon at this socket; without one the user's own if it is there, else the system's. Each is where its
/// configuration file says.
pub(crate) fn connect(socket: Option<&Path>) -> Client {
    let own = || Some(configured(&Paths::own())).filter(|it| it.exists());
    Client::new(socket.map(Path::to_owned).or_else(own).unwrap_or_else(|| configured(&Paths::system())))
}

/// The socket of a daemon with these paths. What is wrong with its configuration is the daemon's to tell: here it counts
/// as none.
fn configured(paths: &Paths) -> PathBuf {
    let named = |name: &str| env::var_os(name).filter(|it| !it.is_empty()).map(Into::into);
    let settings = Settings { config: named("WINDLASS_CONFIG"), ..Settings::default() };
    let settings = settings.with_file(paths).unwrap_or_default();
    let below = |it: PathBuf| it.join("api.sock");
    settings.socket.or(settings.runtime_directory.map(below)).unwrap_or_else(|| paths.socket())
}

/// What may help if the daemon cannot be reached.
pub(crate) fn hint(error: &Error) -> Option<&'static str> {
    Some(match error {
        Error::Connect { socket, .. } if std::fs::metadata(socket).is_ok_and(|it| !it.file_type().is_socket()) => {
            "that is no socket: see that --socket names the socket of a windlass daemon"
        }
        Error::Connect { source, .. } => match source.kind() {
            io::ErrorKind::NotFound => "start it with `windlass run`, or name its socket with --socket",
            io::ErrorKind::PermissionDenied => "the socket belongs to root and its group: use sudo, or join the group",
            io::ErrorKind::ConnectionRefused => {
                "it has ended without removing its socket: start it again with `windlass run`"
            }
            _ => "see that --socket names the socket of a windlass daemon",
        },
        Error::Silent { .. } => "see whether it is stopped or overloaded, and what its log says",
        Error::BrokeOff { .. } => "see whether it still runs, and what its log says",
        Error::Ended { .. } => "it is stopping or starting anew: ask again once it runs",
        Error::Busy { .. } => "end some of its clients, or start it with a higher --connections-max",
        _ => return None,
    })
}
