//! A CSI driver that does as it is told. What its volumes are is up to [`Volumes`]; how a call goes wrong, and what was
//! called, is the [`Script`]'s.

mod services;

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::mpsc::{self, UnboundedReceiver, UnboundedSender};
use tonic::metadata::MetadataMap;
use tonic::{Code, Request, Response, Status, async_trait};
use windlass_csi::proto::csi;
use windlass_csi::proto::registration::registration_server::Registration;
use windlass_csi::proto::registration::{InfoRequest, PluginInfo, RegistrationStatus, RegistrationStatusResponse};

use crate::server::Death;

pub use services::{Volumes, routes};

/// What goes wrong with a call.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Fault {
    /// It is refused, and nothing was done.
    Refusal,
    /// It is done, and never answered.
    DoneTooLate,
    /// It is neither done nor answered.
    NeverDone,
    /// It is done, and the driver dies before it has answered.
    DoneAndDead,
    /// The driver dies before it has done it.
    Dead,
    /// The driver says that it is done, and has done nothing.
    Lie,
}

/// A call that is to go wrong, once.
struct Planned {
    /// The next of this name, or the next of all.
    call: Option<&'static str>,
    fault: Fault,
    /// What is said if it is refused.
    refusal: Status,
}

/// What a driver is to do, and what it has done; it outlives the server.
#[derive(Default)]
pub struct Script {
    faults: Mutex<VecDeque<Planned>>,
    calls: Mutex<Vec<&'static str>>,
    effects: Mutex<Vec<&'static str>>,
    headers: Mutex<MetadataMap>,
    arrived: Mutex<Option<UnboundedSender<&'static str>>>,
    /// That of the server by which the driver is reached.
    death: Mutex<Death>,
}

fn refusal() -> Status {
    Status::internal("as the test wants it")
}

/// Locks what a test that failed may have left locked.
pub fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Script {
    /// The next call for which nothing is planned yet goes wrong.
    pub fn next(&self, fault: Fault) {
        lock(&self.faults).push_back(Planned { call: None, fault, refusal: refusal() });
    }

    /// The same: it is refused with these words.
    pub fn refuse(&self, code: Code, text: impl Into<String>) {
        let refusal = Status::new(code, text);
        lock(&self.faults).push_back(Planned { call: None, fault: Fault::Refusal, refusal });
    }

    /// The next call of this name goes wrong, in place of any that was named before.
    pub fn plan(&self, call: &'static str, fault: Fault) {
        let mut faults = lock(&self.faults);
        faults.retain(|it| it.call.is_none());
        faults.push_back(Planned { call: Some(call), fault, refusal: refusal() });
    }

    /// All that was called, in order.
    pub fn calls(&self) -> Vec<&'static str> {
        lock(&self.calls).clone()
    }

    /// What took effect, in order.
    pub fn effects(&self) -> Vec<&'static str> {
        lock(&self.effects).clone()
    }

    /// The headers of the last call.
    pub fn headers(&self) -> MetadataMap {
        lock(&self.headers).clone()
    }

    /// Tells of each call when it has arrived, and is done if it is done at all.
    pub fn arrivals(&self) -> Arrivals {
        let (tell, arrivals) = mpsc::unbounded_channel();
        *lock(&self.arrived) = Some(tell);
        Arrivals(arrivals)
    }

    /// The driver is served anew, by a server with this death.
    pub fn live_until(&self, death: Death) {
        *lock(&self.death) = death;
    }

    /// Does the work of a call as it is planned, and answers if it is to be answered.
    async fn act<A: Default>(
        &self,
        call: &'static str,
        headers: &MetadataMap,
        work: impl FnOnce() -> Result<A, Status>,
    ) -> Result<Response<A>, Status> {
        lock(&self.calls).push(call);
        *lock(&self.headers) = headers.clone();
        let planned = {
            let mut faults = lock(&self.faults);
            let planned = faults.iter().position(|it| it.call.is_none_or(|it| it == call));
            planned.and_then(|it| faults.remove(it))
        };
        let fault = planned.as_ref().map(|it| it.fault);
        let answer = match planned {
            None | Some(Planned { fault: Fault::DoneTooLate | Fault::DoneAndDead, .. }) => {
                work().inspect(|_| lock(&self.effects).push(call))
            }
            Some(Planned { fault: Fault::Refusal, refusal, .. }) => Err(refusal),
            Some(Planned { fault: Fault::NeverDone | Fault::Dead | Fault::Lie, .. }) => Ok(A::default()),
        };
        if let Some(tell) = &*lock(&self.arrived) {
            let _ = tell.send(call);
        }
        match fault {
            None | Some(Fault::Refusal | Fault::Lie) => answer.map(Response::new),
            Some(Fault::DoneTooLate | Fault::NeverDone) => std::future::pending().await,
            Some(Fault::DoneAndDead | Fault::Dead) => {
                lock(&self.death).come();
                std::future::pending().await
            }
        }
    }
}

/// Calls, as they arrive.
pub struct Arrivals(UnboundedReceiver<&'static str>);

impl Arrivals {
    /// Waits for the next call, where nothing else is to be done meanwhile.
    pub fn wait(&mut self) -> &'static str {
        self.0.blocking_recv().expect("a driver that is called")
    }

    /// The next call.
    pub async fn next(&mut self) -> &'static str {
        self.0.recv().await.expect("a driver that is called")
    }
}

/// A plugin that introduces itself: what it says, and what it heard.
pub struct Registrar {
    /// What it says of itself.
    pub info: Mutex<PluginInfo>,
    /// How often it was asked.
    pub asked: Mutex<u32>,
    heard: UnboundedSender<RegistrationStatus>,
    hangs: bool,
}

/// What a driver of this name says of itself when its services are at this path, or at the socket where it is asked.
pub fn info(name: &str, endpoint: &str) -> PluginInfo {
    PluginInfo {
        r#type: "CSIPlugin".into(),
        name: name.into(),
        endpoint: endpoint.into(),
        supported_versions: vec!["1.0.0".into()],
    }
}

impl Registrar {
    /// It says this, or nothing at all if it hangs; with what it is told.
    pub fn new(info: PluginInfo, hangs: bool) -> (Arc<Self>, UnboundedReceiver<RegistrationStatus>) {
        let (heard, hears) = mpsc::unbounded_channel();
        (Arc::new(Self { info: Mutex::new(info), asked: Mutex::default(), heard, hangs }), hears)
    }
}

#[async_trait]
impl Registration for Registrar {
    async fn get_info(&self, _: Request<InfoRequest>) -> Result<Response<PluginInfo>, Status> {
        *lock(&self.asked) += 1;
        if self.hangs {
            std::future::pending::<()>().await;
        }
        Ok(Response::new(lock(&self.info).clone()))
    }

    async fn notify_registration_status(
        &self,
        request: Request<RegistrationStatus>,
    ) -> Result<Response<RegistrationStatusResponse>, Status> {
        let _ = self.heard.send(request.into_inner());
        Ok(Response::new(RegistrationStatusResponse::default()))
    }
}

/// What a driver says that can do this on the node, by the numbers of CSI.
pub fn node_capabilities(numbers: &[i32]) -> csi::NodeGetCapabilitiesResponse {
    use csi::node_service_capability::{Rpc, Type};
    let one = |it: &i32| csi::NodeServiceCapability { r#type: Some(Type::Rpc(Rpc { r#type: *it })) };
    csi::NodeGetCapabilitiesResponse { capabilities: numbers.iter().map(one).collect() }
}
