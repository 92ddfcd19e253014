//! The CSI drivers of this node: who is registered, and how their calls are made from threads that may block.
//!
//! One thread runs what must not block: it watches for drivers that come and go, and makes all calls, those together that
//! come together ([`carrier`]). An operation that makes a call has no thread until that has ended (`task.rs`), so a driver
//! that hangs holds up its own volumes and nothing else (I-6). How many are under way at a time is for each driver to show
//! ([`pace`]).

mod carrier;
mod pace;

use std::collections::BTreeMap;
use std::io;
use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, OnceLock, PoisonError, RwLock};
use std::time::{Duration, SystemTime};

use tokio::net::UnixStream;
use tokio::runtime;
use tokio::sync::watch;
use tokio::task::AbortHandle;
use windlass_core::operation::Cause;
use windlass_csi::{CallError, Called, Code, Driver, End, Endpoint, Limits, NodeCapabilities, NodeInfo, registration};

use self::carrier::Carrier;
pub(crate) use self::pace::Pace;
use crate::observe::{Observed, Observer};
use crate::plugin::Failure;

/// How long a call may take, if nobody says otherwise (C-46).
pub const DEADLINE_DEFAULT: Duration = Duration::from_secs(120);

/// How many operations of one driver are under way at a time, if nobody says otherwise. They have no thread while they wait
/// for the driver, so this is what drivers are to be spared, and what a kubelet does not spare them at all.
const CALLS_AT_ONCE_DEFAULT: NonZeroUsize = NonZeroUsize::new(256).unwrap();

/// How the drivers of a node are found and called.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Settings {
    /// Where they register. Without it there are none.
    pub(crate) registry: Option<PathBuf>,
    /// How long a call may take.
    pub(crate) deadline: Duration,
    /// What is set for some of them, by name.
    pub(crate) drivers: BTreeMap<String, DriverSettings>,
}

impl Default for Settings {
    fn default() -> Self {
        Self { registry: None, deadline: DEADLINE_DEFAULT, drivers: BTreeMap::new() }
    }
}

/// What is set for one driver.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct DriverSettings {
    /// The socket of its controller service, if this node is to attach and provision its volumes itself. In a cluster
    /// others do that, and there must be none.
    pub controller: Option<PathBuf>,
    /// How long one of its calls may take, if not as long as those of other drivers.
    pub deadline: Option<Duration>,
    /// How many of its calls are under way at a time at most, if not 256.
    pub calls_at_once: Option<NonZeroUsize>,
    /// It publishes without mounting, as drivers do that are made for tests alone: a directory at the place of a volume
    /// is the volume. Of any other driver that is a lie.
    pub unmounted_publish: bool,
}

/// The drivers of a node.
pub struct Drivers {
    calls: Option<Calls>,
    registered: RwLock<BTreeMap<String, Registered>>,
    settings: Settings,
    /// Who is told of every call.
    observer: windlass_csi::Observer,
    paces: Arc<Paces>,
    /// Where drivers register, and whether one has.
    sockets: Mutex<BTreeMap<PathBuf, bool>>,
    /// How controller services are called.
    controllers: RwLock<BTreeMap<String, Driver>>,
    /// Who notices that a driver was started again, or that nobody takes its calls, by its name.
    watches: Mutex<BTreeMap<String, Vec<AbortHandle>>>,
    /// By its name, held by the one who asks a driver anew; others wait for the answer.
    asking: Mutex<BTreeMap<String, Arc<tokio::sync::Mutex<()>>>>,
    tell: OnceLock<Box<dyn Fn(News) + Send + Sync>>,
}

/// What came of looking whether a driver is still the one that was asked.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Refreshed {
    /// It is, or there is none, or it says what it said before; or nobody takes calls, which the next call finds out.
    Same,
    /// It says something else than before.
    Changed,
}

/// By the name of a driver, how many of its operations are under way at a time.
type Paces = Mutex<BTreeMap<Arc<str>, Pace>>;

/// How calls are made.
struct Calls {
    runtime: runtime::Handle,
    carrier: Arc<Carrier>,
    /// Ends the thread with the last who has it.
    _stop: watch::Sender<()>,
}

/// A driver that is registered.
#[derive(Clone, Debug)]
pub struct Registered {
    /// How it is called.
    pub driver: Driver,
    /// What it can do on this node.
    pub capabilities: NodeCapabilities,
    /// What it says of this node.
    pub info: NodeInfo,
    /// Since when.
    pub since: SystemTime,
    /// Since when nobody takes calls at its socket, or nobody to whom any may be sent, if that is so.
    pub unreachable: Option<SystemTime>,
    /// Why nothing is sent to whoever serves at its socket, if that is another driver.
    pub refused: Option<Arc<str>>,
}

/// What became of a driver.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum News {
    Registered {
        name: Arc<str>,
        capabilities: NodeCapabilities,
        topology: BTreeMap<String, String>,
    },
    /// It was started again, and nobody registered it anew. This is what it says now.
    Returned {
        name: Arc<str>,
        capabilities: NodeCapabilities,
        topology: BTreeMap<String, String>,
    },
    /// Nobody takes calls at its socket any more; or another driver does, to which nothing is sent.
    Unreachable {
        name: Arc<str>,
        refused: Option<Arc<str>>,
    },
    Unregistered {
        name: Arc<str>,
    },
    Refused {
        text: Arc<str>,
    },
}

impl Drivers {
    /// None, ever: for a node that is not asked to look for any.
    pub fn none() -> Arc<Self> {
        Arc::new(Self::new(None, Settings::default(), windlass_csi::Observer::default(), Arc::default()))
    }

    fn new(calls: Option<Calls>, settings: Settings, observer: windlass_csi::Observer, paces: Arc<Paces>) -> Self {
        let registered = RwLock::default();
        let drivers = Self {
            calls,
            registered,
            settings,
            observer,
            paces,
            sockets: Mutex::default(),
            controllers: RwLock::default(),
            watches: Mutex::default(),
            asking: Mutex::default(),
            tell: OnceLock::new(),
        };
        for name in drivers.settings.drivers.keys() {
            drivers.meet_controller(name);
        }
        drivers
    }

    /// Whoever serves there now is asked anew what it can do.
    fn meet_controller(&self, name: &str) {
        if let Some(endpoint) = self.settings.drivers.get(name).and_then(|it| it.controller.as_ref()) {
            let driver = Driver::expected(name, endpoint, Limits::default(), self.observer.clone());
            self.controllers.write().unwrap_or_else(PoisonError::into_inner).insert(name.into(), driver);
        }
    }

    /// Looks for drivers from now on, and tells what becomes of them.
    pub(crate) fn begin(
        settings: Settings,
        observer: &Observer,
        tell: impl Fn(News) + Send + Sync + 'static,
    ) -> io::Result<Arc<Self>> {
        let paces = Arc::new(Paces::default());
        let observer = {
            let (observer, paces) = (observer.clone(), paces.clone());
            windlass_csi::Observer::new(move |called| {
                note_answer(&paces, called);
                observer.tell(&Observed::DriverCalled(called));
            })
        };
        let Some(registry) = &settings.registry else {
            return Ok(Arc::new(Self::new(None, settings, observer, paces)));
        };
        let (stop, mut stopped) = watch::channel(());
        let registry = registration::Settings { observer: observer.clone(), ..registration::Settings::new(registry) };
        // All of it happens on a thread of its own: whoever calls this may be within a runtime, where nothing may block.
        let (begun, beginning) = std::sync::mpsc::sync_channel(1);
        let carrier = Arc::new(Carrier::default());
        let carries = carrier.clone();
        let run = move || {
            let runtime = match runtime::Builder::new_current_thread().enable_all().build() {
                Ok(runtime) => runtime,
                Err(error) => return drop(begun.send(Err(error))),
            };
            runtime.block_on(async move {
                let watched = registration::watch(registry);
                let _ = begun.send(watched.map(|news| (runtime::Handle::current(), news)));
                tokio::spawn(async move { carries.run().await });
                // Calls hold on to the drivers, so none is under way when this ends.
                let _ = stopped.changed().await;
            });
        };
        std::thread::Builder::new().name("windlass-csi".into()).spawn(run)?;
        let (runtime, mut news) = beginning.recv().map_err(io::Error::other)??;
        let calls = Some(Calls { runtime: runtime.clone(), carrier, _stop: stop });
        let drivers = Arc::new(Self::new(calls, settings, observer, paces));
        let _ = drivers.tell.set(Box::new(tell));
        let known = Arc::downgrade(&drivers);
        runtime.spawn(async move {
            while let Some(next) = news.recv().await
                && let Some(drivers) = known.upgrade()
            {
                if let Some(next) = drivers.take_in(next) {
                    drivers.watch_driver(&next);
                    drivers.tell(next);
                }
            }
        });
        Ok(drivers)
    }

    fn take_in(&self, news: registration::News) -> Option<News> {
        let mut registered = self.registered.write().unwrap_or_else(PoisonError::into_inner);
        let mut sockets = self.sockets.lock().unwrap_or_else(PoisonError::into_inner);
        Some(match news {
            registration::News::Registered { driver, info, capabilities, socket } => {
                sockets.insert(socket, true);
                let name: Arc<str> = driver.name().into();
                self.meet_controller(&name);
                let (since, topology) = (SystemTime::now(), info.topology.clone());
                let entry = Registered { driver, capabilities, info, since, unreachable: None, refused: None };
                registered.insert(name.to_string(), entry);
                News::Registered { name, capabilities, topology }
            }
            registration::News::Unregistered { name, socket } => {
                sockets.remove(&socket);
                registered.remove(&*name)?;
                News::Unregistered { name }
            }
            registration::News::Refused { socket, text, .. } => {
                let text = format!("{}: {text}", socket.display()).into();
                sockets.entry(socket).or_insert(false);
                News::Refused { text }
            }
            registration::News::Vanished { socket } => {
                sockets.remove(&socket);
                return None;
            }
        })
    }

    fn tell(&self, news: News) {
        if let Some(tell) = self.tell.get() {
            tell(news);
        }
    }

    /// Looks after a driver that has registered: if its socket is made anew, it is asked anew; if its connection ends and
    /// nobody else takes calls, that is known at once and not by the next call. Nothing is asked in between (I-8).
    fn watch_driver(self: &Arc<Self>, news: &News) {
        let (News::Registered { name, .. } | News::Unregistered { name }) = news else { return };
        let mut watches = self.watches.lock().unwrap_or_else(PoisonError::into_inner);
        for watch in watches.remove(&**name).into_iter().flatten() {
            watch.abort();
        }
        let Ok(Registered { driver, .. }) = self.get(name) else { return };
        let mut begun = Vec::new();
        // Without a watch, what waits is tried again when its time comes.
        if let Ok(mut endpoint) = Endpoint::watch(driver.endpoint()) {
            let (drivers, name) = (Arc::downgrade(self), name.clone());
            let watch = tokio::spawn(async move {
                while endpoint.made_anew().await.is_ok()
                    && let Some(drivers) = drivers.upgrade()
                {
                    drivers.ask_anew(&name, true).await;
                }
            });
            begun.push(watch.abort_handle());
        }
        begun.push(self.watch_connection(name, driver));
        watches.insert(name.to_string(), begun);
    }

    fn watch_connection(self: &Arc<Self>, name: &Arc<str>, driver: Driver) -> AbortHandle {
        let (drivers, name) = (Arc::downgrade(self), name.clone());
        let watch = tokio::spawn(async move {
            driver.disconnected().await;
            // A driver may close what it does not need; then the next operation asks it anew.
            let is_there = UnixStream::connect(driver.endpoint()).await.is_ok();
            if let Some(drivers) = drivers.upgrade().filter(|_| !is_there) {
                drivers.is_unreachable(&name, &driver, None);
            }
        });
        watch.abort_handle()
    }

    /// Nobody took a call of this driver. By now another may have registered, or the driver may have come back.
    fn is_unreachable(&self, name: &Arc<str>, driver: &Driver, refused: Option<Arc<str>>) {
        let mut registered = self.registered.write().unwrap_or_else(PoisonError::into_inner);
        let Some(entry) = registered.get_mut(&**name).filter(|it| it.driver.is(driver)) else { return };
        if entry.unreachable.is_some() && entry.refused == refused {
            return;
        }
        entry.unreachable.get_or_insert_with(SystemTime::now);
        entry.refused = refused.clone();
        drop(registered);
        self.tell(News::Unreachable { name: name.clone(), refused });
    }

    /// Asks a driver anew what it can do, if it is not the process any more that was asked before: to be done before it is
    /// called.
    pub(crate) async fn refresh(self: &Arc<Self>, name: &str) -> Refreshed {
        match self.get(name) {
            Ok(it) if it.driver.is_same_process() && it.unreachable.is_none() => Refreshed::Same,
            Ok(_) => self.ask_anew(&name.into(), false).await,
            // That it is missing is for the call to say.
            Err(_) => Refreshed::Same,
        }
    }

    /// The same; whether or not it is another process, if its socket was made anew.
    async fn ask_anew(self: &Arc<Self>, name: &Arc<str>, is_new: bool) -> Refreshed {
        let asking =
            self.asking.lock().unwrap_or_else(PoisonError::into_inner).entry(name.to_string()).or_default().clone();
        let _turn = asking.lock().await;
        let Ok(before) = self.get(name) else { return Refreshed::Same };
        if before.driver.is_same_process() && before.unreachable.is_none() && !is_new {
            return Refreshed::Same;
        }
        let (driver, info, capabilities) =
            match self.call(&before.driver, |it| async move { it.asked_anew().await }).await {
                Ok(asked) => asked,
                Err(error) => {
                    if error.end == End::NotSent {
                        self.is_unreachable(name, &before.driver, error.lied.then(|| error.message.into()));
                    }
                    return Refreshed::Same;
                }
            };
        let has_changed = info != before.info || capabilities != before.capabilities;
        let mut registered = self.registered.write().unwrap_or_else(PoisonError::into_inner);
        // It may have registered anew meanwhile, or gone.
        let Some(entry) = registered.get_mut(&**name).filter(|it| it.since == before.since) else {
            return Refreshed::Same;
        };
        let topology = info.topology.clone();
        let (driver_now, since) = (driver.clone(), before.since);
        *entry = Registered { driver: driver_now, capabilities, info, since, unreachable: None, refused: None };
        drop(registered);
        self.meet_controller(name);
        if let Some(calls) = &self.calls {
            let _within = calls.runtime.enter();
            let watch = self.watch_connection(name, driver);
            let mut watches = self.watches.lock().unwrap_or_else(PoisonError::into_inner);
            let of_driver = watches.entry(name.to_string()).or_default();
            of_driver.retain(|it| !it.is_finished());
            of_driver.push(watch);
        }
        self.tell(News::Returned { name: name.clone(), capabilities, topology });
        if has_changed { Refreshed::Changed } else { Refreshed::Same }
    }

    /// Where drivers register, and whether one has.
    pub(crate) fn sockets(&self) -> BTreeMap<PathBuf, bool> {
        self.sockets.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// All that are registered, by name.
    pub fn all(&self) -> Vec<Registered> {
        self.registered.read().unwrap_or_else(PoisonError::into_inner).values().cloned().collect()
    }

    /// A driver, if it is registered.
    pub fn get(&self, name: &str) -> Result<Registered, Failure> {
        let registered = self.registered.read().unwrap_or_else(PoisonError::into_inner);
        registered.get(name).cloned().ok_or_else(|| {
            let text = format!("driver name {name} not found in the list of registered CSI drivers");
            Failure::refused(Cause::Driver, text)
        })
    }

    /// How its controller service is called.
    pub(crate) fn controller(&self, name: &str) -> Result<Driver, Failure> {
        let controllers = self.controllers.read().unwrap_or_else(PoisonError::into_inner);
        // Without anybody who looks for drivers there is nobody to carry calls.
        controllers.get(name).filter(|_| self.calls.is_some()).cloned().ok_or_else(|| {
            let text = format!("nothing is set for driver {name} that says where its controller service is");
            Failure::refused(Cause::Driver, text)
        })
    }

    /// Why nothing is sent to those who serve at a driver's sockets, where that is another driver.
    pub(crate) fn refused(&self, name: &str) -> Vec<String> {
        let node = self.get(name).ok().and_then(|it| Some(it.refused?.to_string()));
        let controller = self.controllers.read().unwrap_or_else(PoisonError::into_inner).get(name).cloned();
        let controller = controller.and_then(|it| it.refused()).filter(|it| node.as_ref() != Some(it));
        node.into_iter().chain(controller).collect()
    }

    /// What is set for some drivers.
    pub(crate) fn settings(&self) -> &BTreeMap<String, DriverSettings> {
        &self.settings.drivers
    }

    /// Whether this node attaches and provisions volumes of any driver itself.
    pub(crate) fn has_controllers(&self) -> bool {
        self.settings.drivers.values().any(|it| it.controller.is_some())
    }

    /// The pace of a driver, to look at or to change.
    pub(crate) fn with_pace<T>(&self, name: &str, look: impl FnOnce(&mut Pace) -> T) -> T {
        let mut paces = self.paces.lock().unwrap_or_else(PoisonError::into_inner);
        let most = || self.settings.drivers.get(name).and_then(|it| it.calls_at_once).unwrap_or(CALLS_AT_ONCE_DEFAULT);
        match paces.get_mut(name) {
            Some(pace) => look(pace),
            None => look(paces.entry(name.into()).or_insert_with(|| Pace::new(most()))),
        }
    }

    /// How long a call of a driver may take.
    pub(crate) fn deadline(&self, name: &str) -> Duration {
        let of_driver = self.settings.drivers.get(name).and_then(|it| it.deadline);
        of_driver.unwrap_or(self.settings.deadline)
    }

    /// Makes a call, on the thread that makes all calls. Whoever awaits it may do so on any thread, or on one after the other.
    pub(crate) async fn call<T, F>(&self, driver: &Driver, call: impl FnOnce(Driver) -> F) -> Result<T, CallError>
    where
        T: Send + 'static,
        F: Future<Output = Result<T, CallError>> + Send + 'static,
    {
        match self.calls().carrier.carry(call(driver.clone())).await {
            Ok(answer) => answer,
            // It is dropped without an answer only by a panic, and so is the operation.
            Err(_) => panic!("a call of driver {} broke off", driver.name()),
        }
    }

    /// Makes a call, and blocks until it has ended.
    pub(crate) fn wait<T>(&self, call: impl Future<Output = Result<T, CallError>>) -> Result<T, CallError> {
        self.calls().runtime.block_on(call)
    }

    fn calls(&self) -> &Calls {
        match &self.calls {
            Some(calls) => calls,
            // Nobody is registered, so there is nobody to call.
            None => unreachable!("a driver was called on a node that has none"),
        }
    }
}

/// Notes how long a call took that is one of an operation. Until a driver has had an operation there is nothing to note.
fn note_answer(paces: &Paces, called: &Called<'_>) {
    let mut paces = paces.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(pace) = paces.get_mut(called.driver) {
        match called.code {
            Code::Ok => pace.answered(called.method, called.took),
            _ => pace.failed(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Both happen on threads that know nothing of each other.
    #[test]
    fn a_driver_that_has_come_back_is_not_unreachable_by_what_was_found_out_before() {
        let drivers = Drivers::none();
        let (name, driver): (Arc<str>, _) = ("d".into(), |at: &str| Driver::new("d", at, Limits::default()));
        let (before, now) = (driver("/run/d/csi.sock"), driver("/run/d/csi.sock"));
        let info = NodeInfo { id: "node".into(), limit: None, topology: BTreeMap::new() };
        let capabilities = NodeCapabilities::default();
        for (found, is_so) in [(&before, false), (&now, true)] {
            let (driver, info, socket) = (now.clone(), info.clone(), "/run/r.sock".into());
            drivers.take_in(registration::News::Registered { driver, info, capabilities, socket });
            drivers.is_unreachable(&name, found, None);
            assert_eq!(drivers.get("d").unwrap().unreachable.is_some(), is_so);
        }
    }

    #[test]
    fn a_controller_is_not_called_where_nobody_looks_for_drivers() {
        let settings = DriverSettings { controller: Some("/run/d/csi.sock".into()), ..DriverSettings::default() };
        let settings = Settings { drivers: [("d".into(), settings)].into(), ..Settings::default() };
        let drivers = Drivers::begin(settings, &Observer::default(), |_| ()).unwrap();
        assert!(drivers.controller("d").is_err());
    }
}
