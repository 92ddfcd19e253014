//! One socket is asked who is there, as often as it takes.

use std::os::unix::fs::FileTypeExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use super::socket::File;
use super::{Settings, version};
use crate::call::{self, Failure};
use crate::connection::{Asks, Connection, Target};
use crate::proto::registration::{InfoRequest, PluginInfo, RegistrationStatus, RegistrationStatusResponse};
use crate::text::{self, Secrets};
use crate::{Driver, End, NodeCapabilities, NodeInfo, check_name};

const GET_INFO: &str = "/pluginregistration.Registration/GetInfo";
const NOTIFY: &str = "/pluginregistration.Registration/NotifyRegistrationStatus";

/// How long a plugin may take to say who it is (C-6).
const GET_INFO_MAX: Duration = Duration::from_secs(1);
/// How long a plugin may take to hear what has become of it (C-6).
const NOTIFY_MAX: Duration = Duration::from_secs(5);
/// The type of plugin that a CSI driver is (C-9).
const TYPE: &str = "CSIPlugin";

/// The first waits for a socket that refuses connections: it is seen when it is made, and whoever made it listens a moment
/// later.
const SOON: Duration = Duration::from_millis(2);
const SOON_MAX: Duration = Duration::from_millis(128);

/// A driver that has introduced itself.
#[derive(Clone, Debug)]
pub(super) struct Introduced {
    pub(super) driver: Driver,
    pub(super) info: NodeInfo,
    pub(super) capabilities: NodeCapabilities,
}

/// Why a plugin is not accepted.
#[derive(Clone, Debug)]
pub(super) struct Refusal {
    pub(super) name: Option<Arc<str>>,
    pub(super) text: String,
    /// Whether another try can end differently.
    retry: Retry,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Retry {
    /// Nobody takes calls there yet, or any more.
    NobodyThere,
    Later,
    Never,
}

/// Waits that double.
#[derive(Clone, Debug)]
pub(super) struct BackOff {
    next: Duration,
    max: Duration,
}

impl BackOff {
    pub(super) fn new(first: Duration, max: Duration) -> Self {
        Self { next: first.min(max), max }
    }

    pub(super) fn next(&mut self) -> Duration {
        let wait = self.next;
        self.next = wait.saturating_mul(2).min(self.max);
        wait
    }
}

/// Asks a socket until it is accepted or never will be. What it says goes to `tell`; the end of this too.
pub(super) async fn introduce(
    socket: PathBuf,
    file: File,
    settings: Arc<Settings>,
    mut tell: impl FnMut(Result<Introduced, Refusal>),
) {
    let mut back_off = BackOff::new(settings.back_off, settings.back_off_max);
    let mut soon = SOON;
    loop {
        match once(&socket, &file, &settings).await {
            Ok(introduced) => return tell(Ok(introduced)),
            Err(refusal) if refusal.retry == Retry::NobodyThere && soon <= SOON_MAX => {
                tokio::time::sleep(soon).await;
                soon *= 2;
            }
            Err(refusal) => {
                let retry = refusal.retry;
                tell(Err(refusal));
                if retry == Retry::Never {
                    return;
                }
                tokio::time::sleep(back_off.next()).await;
            }
        }
    }
}

/// Asks once: who it is, and, at the driver's own socket, what it says of this node and what it can do. It counts when the
/// plugin has heard that it does (C-7).
async fn once(socket: &Path, file: &File, settings: &Settings) -> Result<Introduced, Refusal> {
    let connection =
        Arc::new(Connection::new(Target::File(file.descriptor.clone()), Asks::Never, settings.limits.connect));
    let bytes_max = settings.limits.message_bytes;
    let plugin: PluginInfo = call::unary(&connection, GET_INFO, InfoRequest::default(), GET_INFO_MAX, bytes_max)
        .await
        .map_err(|failure| Refusal::of_call("GetInfo", &failure))?;
    match accept(socket, &plugin, settings).await {
        Ok(introduced) => {
            let status = RegistrationStatus { plugin_registered: true, error: String::new() };
            let RegistrationStatusResponse {} =
                call::unary(&connection, NOTIFY, status, NOTIFY_MAX, bytes_max).await.map_err(|failure| Refusal {
                    name: Some(introduced.driver.name().into()),
                    ..Refusal::of_call("NotifyRegistrationStatus", &failure)
                })?;
            Ok(introduced)
        }
        Err(refusal) => {
            let status = RegistrationStatus { plugin_registered: false, error: refusal.text.clone() };
            // It is refused whether it hears of it or not.
            let _: Result<RegistrationStatusResponse, _> =
                call::unary(&connection, NOTIFY, status, NOTIFY_MAX, bytes_max).await;
            Err(refusal)
        }
    }
}

/// Judges what a plugin says of itself, and asks the driver.
async fn accept(socket: &Path, plugin: &PluginInfo, settings: &Settings) -> Result<Introduced, Refusal> {
    let PluginInfo { r#type, name, endpoint, supported_versions } = plugin;
    if r#type != TYPE {
        let text = format!("it is a plugin of type {type:?}, and only {TYPE} is served here");
        return Err(Refusal { retry: Retry::Never, ..Refusal::new(None, &text) });
    }
    check_name(name).map_err(|error| Refusal::new(None, &format!("its name is {name:?}: {error}")))?;
    let name: Arc<str> = name.as_str().into();
    let refuse = |text: String| Refusal::new(Some(name.clone()), &text);
    version::check(supported_versions).map_err(|error| refuse(format!("{error}: {supported_versions:?}")))?;
    let endpoint = checked_endpoint(socket, endpoint).map_err(refuse)?;
    let driver = Driver::observed(name.clone(), endpoint, settings.limits, settings.observer.clone());
    let info = driver.node_info().await.map_err(|error| refuse(error.to_string()))?;
    let capabilities = driver.node_capabilities().await.map_err(|error| refuse(error.to_string()))?;
    Ok(Introduced { driver, info, capabilities })
}

/// Where the driver serves: a socket, at a path that does not depend on who reads it.
pub(crate) fn checked_endpoint(socket: &Path, endpoint: &str) -> Result<PathBuf, String> {
    let path = match endpoint.strip_prefix("unix://").unwrap_or(endpoint) {
        // Both services at one socket (C-6).
        "" => return Ok(socket.to_path_buf()),
        path => Path::new(path),
    };
    if !path.is_absolute() {
        return Err(format!("its endpoint {endpoint:?} is not an absolute path"));
    }
    match std::fs::metadata(path) {
        Ok(it) if it.file_type().is_socket() => Ok(path.to_path_buf()),
        Ok(_) => Err(format!("its endpoint {endpoint:?} is not a socket")),
        Err(error) => Err(format!("its endpoint {endpoint:?} cannot be reached: {error}")),
    }
}

impl Refusal {
    fn new(name: Option<Arc<str>>, text: &str) -> Self {
        Self { name, text: text::shown(text, &Secrets::default()), retry: Retry::Later }
    }

    fn of_call(method: &str, failure: &Failure) -> Self {
        let Failure { code, end, message, lied: _ } = failure;
        let retry = match end {
            End::NotSent => Retry::NobodyThere,
            End::Final | End::Unknown => Retry::Later,
        };
        Self { retry, ..Self::new(None, &format!("{method}: {code:?}: {message}")) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_double_from_half_a_second_to_two_minutes_and_two_seconds() {
        let settings = Settings::new("/nowhere");
        let mut back_off = BackOff::new(settings.back_off, settings.back_off_max);
        let waits: Vec<_> = (0..10).map(|_| back_off.next().as_millis()).collect();
        assert_eq!(waits, [500, 1000, 2000, 4000, 8000, 16_000, 32_000, 64_000, 122_000, 122_000]);
    }
}
