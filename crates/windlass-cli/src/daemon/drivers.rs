//! What is set for single CSI drivers, as it is written and as it is meant.

use std::collections::BTreeMap;
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use anyhow::{Context, bail};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use windlass::node::DriverSettings;

use super::config::{Time, keys, only};

/// Of all drivers for which something is set, by name.
pub(crate) type Drivers = BTreeMap<String, Written>;

/// What is set for a driver, in a file.
#[derive(Serialize, Deserialize, Debug, Clone, Default, PartialEq, Eq)]
#[serde(rename_all = "kebab-case", deny_unknown_fields, default)]
pub(crate) struct Written {
    /// The socket of its controller service.
    controller: Option<PathBuf>,
    /// How long one of its calls may take.
    timeout: Option<Time>,
    /// How many of its calls are made at a time.
    calls_at_once: Option<NonZeroUsize>,
    /// It publishes without mounting.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    unmounted_publish: bool,
}

/// Refuses what a file says of drivers if it cannot be read as that, and says of which.
pub(super) fn check(drivers: &Value) -> anyhow::Result<()> {
    let Value::Object(drivers) = drivers else {
        bail!("drivers is no list of names of drivers, with what is set for each")
    };
    let known = keys(&Written { unmounted_publish: true, ..Written::default() });
    for (name, settings) in drivers {
        let Value::Object(given) = settings else {
            bail!("what is set for driver {name:?} is no list of names and values; there are {}", known.join(", "));
        };
        only(given, &known, &format!(" of driver {name:?}"))?;
        Written::deserialize(settings).with_context(|| format!("what is set for driver {name:?}"))?;
    }
    Ok(())
}

/// A driver and the socket of its controller service, on the command line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Controller {
    driver: String,
    socket: PathBuf,
}

impl FromStr for Controller {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text.split_once('=') {
            Some((driver, socket)) if !driver.is_empty() && !socket.is_empty() => {
                Ok(Self { driver: driver.into(), socket: socket.into() })
            }
            Some(_) | None => Err("it is not like name.of.driver=/path/of/socket".into()),
        }
    }
}

/// What the file says, with what the command line says in its place.
pub(crate) fn joined(controllers: Vec<Controller>, mut file: Drivers) -> Drivers {
    for Controller { driver, socket } in controllers {
        file.entry(driver).or_default().controller = Some(socket);
    }
    file
}

/// What is meant.
pub(crate) fn mean(
    written: Drivers,
    absolute: impl Fn(PathBuf) -> anyhow::Result<PathBuf>,
) -> anyhow::Result<BTreeMap<String, DriverSettings>> {
    let one = |(name, it): (String, Written)| {
        let Written { controller, timeout, calls_at_once, unmounted_publish } = it;
        if timeout.is_some_and(|it| it.0.is_zero()) {
            bail!("drivers.{name}.timeout must be more than nothing");
        }
        let controller = controller.map(&absolute).transpose().with_context(|| format!("drivers.{name}.controller"))?;
        let deadline = timeout.map(|it| it.0);
        Ok((name, DriverSettings { controller, deadline, calls_at_once, unmounted_publish }))
    };
    written.into_iter().map(one).collect()
}

/// As it is written.
pub(crate) fn write(meant: &BTreeMap<String, DriverSettings>) -> Drivers {
    let one = |(name, it): (&String, &DriverSettings)| {
        let DriverSettings { controller, deadline, calls_at_once, unmounted_publish } = it;
        let controller = controller.as_deref().map(Path::to_owned);
        let (calls_at_once, unmounted_publish) = (*calls_at_once, *unmounted_publish);
        (name.clone(), Written { controller, timeout: deadline.map(Time), calls_at_once, unmounted_publish })
    };
    meant.iter().map(one).collect()
}
