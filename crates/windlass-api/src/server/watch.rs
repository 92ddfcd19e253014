//! Watches: what is there, then what changes, a line each.
//!
//! A watch hears of changes before it looks for the first time, so it misses none, and looks only at what a change touched
//! (I-9). It is driven by the response that it is the body of: while the client does not read, nothing is looked up, and
//! changes that pile up meanwhile become one "look at everything". When the connection goes, the watch is gone with it.

use std::collections::{BTreeMap, BTreeSet};
use std::convert::Infallible;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use axum::body::{Body, Bytes};
use axum::http::header;
use axum::response::{IntoResponse, Response};
use hyper::body::Frame;
use serde::Serialize;
use tokio::sync::{mpsc, watch};

use super::backend::{Backend, Changes, Pods};
use super::connections::told;
use super::journal::Journal;
use super::query::Watching;
use super::seen::{Entries, Seen};
use crate::view;

/// What a watch says it is, as Kubernetes does.
const CONTENT_TYPE: &str = "application/json;stream=watch";
/// Lines are sent once there are this many bytes of them, and whenever there are no more for now.
const CHUNK: usize = 32 * 1024;
/// Groups are looked up this many at a time: few enough that the node is not kept from its work.
const LOOK_MAX: usize = 64;
/// The only group of kinds that are looked up as a whole.
const ALL: &str = "";

/// A kind of object that can be watched.
pub(super) trait Watched: Send + 'static {
    type Object: Serialize + Send + Sync;

    /// Everything there is, by group; `None` once the node has ended, which must not look as if all were gone.
    fn list(&mut self) -> impl Future<Output = Option<Groups<Self::Object>>> + Send;

    /// Waits until something changes and says where to look; `None` once nothing can change any more.
    fn touched(&mut self) -> impl Future<Output = Option<Look>> + Send;

    /// These groups as they are now; `None` as above.
    fn look(&mut self, groups: &[String]) -> impl Future<Output = Option<Groups<Self::Object>>> + Send;
}

/// Objects, by group.
type Groups<T> = Vec<(String, Entries<T>)>;

/// Where to look after a change.
pub(super) enum Look {
    Everywhere,
    At(BTreeSet<String>),
}

/// A response that goes on until the time is over, the daemon stops or the client goes.
pub(super) fn respond(watched: impl Watched, watching: Watching, mut stop: watch::Receiver<bool>) -> Response {
    let (sender, chunks) = mpsc::channel(1);
    let Watching { within, place } = watching;
    let watching = async move {
        // Free again when this ends, or is dropped with its connection.
        let _place = place;
        let time_is_over = async {
            match within {
                Some(within) => tokio::time::sleep(within).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            _ = follow(watched, sender) => {}
            () = told(&mut stop) => {}
            () = time_is_over => {}
        }
    };
    let lines = Lines { watching: Some(Box::pin(watching)), chunks };
    ([(header::CONTENT_TYPE, CONTENT_TYPE)], Body::new(lines)).into_response()
}

/// Tells what is there and then what changes; `None` when nobody listens or nothing can change any more.
async fn follow<W: Watched>(mut watched: W, chunks: mpsc::Sender<Bytes>) -> Option<()> {
    let mut seen = Seen::default();
    let mut lines = Vec::new();
    for (group, entries) in watched.list().await? {
        seen.update(&group, entries, &mut lines);
        send(&chunks, &mut lines, CHUNK).await?;
    }
    Seen::bookmark(&mut lines);
    loop {
        send(&chunks, &mut lines, 1).await?;
        match watched.touched().await? {
            Look::At(groups) => {
                let groups: Vec<String> = groups.into_iter().collect();
                for groups in groups.chunks(LOOK_MAX) {
                    for (group, entries) in watched.look(groups).await? {
                        seen.update(&group, entries, &mut lines);
                    }
                    send(&chunks, &mut lines, CHUNK).await?;
                }
            }
            Look::Everywhere => {
                let mut gone: BTreeSet<String> = seen.groups().map(ToOwned::to_owned).collect();
                for (group, entries) in watched.list().await? {
                    gone.remove(&group);
                    seen.update(&group, entries, &mut lines);
                    send(&chunks, &mut lines, CHUNK).await?;
                }
                for group in gone {
                    seen.update::<W::Object>(&group, Vec::new(), &mut lines);
                }
            }
        }
    }
}

/// Sends the lines if they are at least so many bytes. Always whole lines, so a watch ends between two of them.
async fn send(chunks: &mpsc::Sender<Bytes>, lines: &mut Vec<u8>, bytes_min: usize) -> Option<()> {
    if lines.len() >= bytes_min {
        chunks.send(std::mem::take(lines).into()).await.ok()?;
    }
    Some(())
}

/// The body of a watch: polled by the connection, it goes on with the watch and takes what that sends.
struct Lines {
    watching: Option<Pin<Box<dyn Future<Output = ()> + Send>>>,
    chunks: mpsc::Receiver<Bytes>,
}

impl hyper::body::Body for Lines {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        if let Some(watching) = &mut self.watching
            && watching.as_mut().poll(context).is_ready()
        {
            // What it has sent is still to be taken.
            self.watching = None;
        }
        self.chunks.poll_recv(context).map(|it| it.map(|it| Ok(Frame::data(it))))
    }
}

/// What is made of pods: the pods themselves, or their mounts. Each pod is a group.
pub(super) struct OfPods<T> {
    backend: Arc<dyn Backend>,
    namespace: Option<String>,
    changes: Box<dyn Changes>,
    shape: fn(view::Pod) -> Entries<T>,
}

/// The pods, of one namespace or all.
pub(super) fn pods(backend: &Arc<dyn Backend>, namespace: Option<String>) -> OfPods<view::Pod> {
    let shape = |pod: view::Pod| vec![(ALL.to_owned(), pod)];
    OfPods { backend: backend.clone(), namespace, changes: backend.changes(), shape }
}

/// The mounts, of one namespace or all.
pub(super) fn mounts(backend: &Arc<dyn Backend>, namespace: Option<String>) -> OfPods<view::Mount> {
    let shape = |pod: view::Pod| {
        // Of one name there can be two for a while: the volume that the pod has there, and the one that it wants.
        let key = |it: &view::Mount| format!("{}\n{:?}", it.metadata.name, it.status.volume_id);
        view::mounts(&pod).into_iter().map(|it| (key(&it), it)).collect()
    };
    OfPods { backend: backend.clone(), namespace, changes: backend.changes(), shape }
}

impl<T> OfPods<T> {
    fn shape(&self, pod: view::Pod) -> Entries<T> {
        // A pod of which only the UID is known may be of any namespace.
        let namespace = &pod.metadata.namespace;
        if self.namespace.is_none() || namespace.is_none() || self.namespace == *namespace {
            (self.shape)(pod)
        } else {
            Vec::new()
        }
    }
}

impl<T: Serialize + Send + Sync + 'static> Watched for OfPods<T> {
    type Object = T;

    async fn list(&mut self) -> Option<Groups<T>> {
        let pods = self.backend.pods(Pods::All).await.ok()?.into_iter();
        Some(pods.map(|it| (it.metadata.uid.clone().unwrap_or_default(), self.shape(it))).collect())
    }

    async fn touched(&mut self) -> Option<Look> {
        let touched = self.changes.next().await?;
        if touched.everything {
            return Some(Look::Everywhere);
        }
        let mut pods = touched.pods;
        for name in &touched.shared_volumes {
            let volumes = self.backend.volumes(Some(name)).await.ok()?;
            pods.extend(volumes.into_iter().flat_map(|it| it.status.pods).map(|it| it.uid));
        }
        Some(Look::At(pods))
    }

    async fn look(&mut self, groups: &[String]) -> Option<Groups<T>> {
        let pods = self.backend.pods(Pods::Uids(groups)).await.ok()?;
        // What is not there any more has nothing.
        let mut shaped: BTreeMap<String, Entries<T>> = groups.iter().map(|it| (it.clone(), Vec::new())).collect();
        shaped.extend(pods.into_iter().filter_map(|it| Some((it.metadata.uid.clone()?, self.shape(it)))));
        Some(shaped.into_iter().collect())
    }
}

/// The volumes; each is a group.
pub(super) struct Volumes {
    backend: Arc<dyn Backend>,
    changes: Box<dyn Changes>,
    /// The volumes that were told with a pod, by its UID.
    of_pods: BTreeMap<String, BTreeSet<String>>,
}

pub(super) fn volumes(backend: &Arc<dyn Backend>) -> Volumes {
    Volumes { backend: backend.clone(), changes: backend.changes(), of_pods: BTreeMap::new() }
}

impl Volumes {
    fn entries(&mut self, volume: view::Volume) -> Entries<view::Volume> {
        for user in &volume.status.pods {
            self.of_pods.entry(user.uid.clone()).or_default().insert(volume.metadata.name.clone());
        }
        vec![(ALL.to_owned(), volume)]
    }
}

impl Watched for Volumes {
    type Object = view::Volume;

    async fn list(&mut self) -> Option<Groups<view::Volume>> {
        self.of_pods.clear();
        let volumes = self.backend.volumes(None).await.ok()?.into_iter();
        Some(volumes.map(|it| (it.metadata.name.clone(), self.entries(it))).collect())
    }

    async fn touched(&mut self) -> Option<Look> {
        let touched = self.changes.next().await?;
        if touched.everything {
            return Some(Look::Everywhere);
        }
        let mut volumes = touched.volumes;
        // Both those that pods had when they were looked at last, and those that they have now.
        for pod in &touched.pods {
            volumes.extend(self.of_pods.remove(pod).into_iter().flatten());
        }
        let pods: Vec<String> = touched.pods.into_iter().collect();
        for pods in pods.chunks(LOOK_MAX) {
            let now = self.backend.pods(Pods::Uids(pods)).await.ok()?.into_iter();
            volumes.extend(now.flat_map(|it| it.status.volumes).filter_map(|it| it.volume_id));
        }
        Some(Look::At(volumes))
    }

    async fn look(&mut self, groups: &[String]) -> Option<Groups<view::Volume>> {
        let mut volumes = Vec::with_capacity(groups.len());
        for group in groups {
            let volume = self.backend.volumes(Some(group)).await.ok()?.pop();
            volumes.push((group.clone(), volume.map(|it| self.entries(it)).unwrap_or_default()));
        }
        Some(volumes)
    }
}

/// The CSI drivers; each is a group.
pub(super) struct Drivers {
    backend: Arc<dyn Backend>,
    changes: Box<dyn Changes>,
    /// The drivers of the volumes that were told last: of most changes of volumes no driver has to be looked at.
    of_volumes: BTreeMap<String, String>,
}

pub(super) fn drivers(backend: &Arc<dyn Backend>) -> Drivers {
    Drivers { backend: backend.clone(), changes: backend.changes(), of_volumes: BTreeMap::new() }
}

impl Drivers {
    fn entries(&mut self, driver: view::Driver) -> Entries<view::Driver> {
        let name = driver.metadata.name.clone();
        self.of_volumes.extend(driver.status.volumes.iter().map(|it| (it.clone(), name.clone())));
        vec![(ALL.to_owned(), driver)]
    }

    /// The drivers that have got or lost one of these volumes.
    async fn changed(&mut self, volumes: BTreeSet<String>) -> Option<BTreeSet<String>> {
        let volumes: Vec<String> = volumes.into_iter().collect();
        let mut changed = BTreeSet::new();
        for volumes in volumes.chunks(LOOK_MAX) {
            let drivers = self.backend.drivers_of(volumes).await.ok()?;
            for (volume, driver) in volumes.iter().zip(drivers) {
                if self.of_volumes.get(volume) != driver.as_ref() {
                    changed.extend(self.of_volumes.remove(volume));
                    changed.extend(driver);
                }
            }
        }
        Some(changed)
    }
}

impl Watched for Drivers {
    type Object = view::Driver;

    async fn list(&mut self) -> Option<Groups<view::Driver>> {
        self.of_volumes.clear();
        let drivers = self.backend.drivers(None).await.ok()?.into_iter();
        Some(drivers.map(|it| (it.metadata.name.clone(), self.entries(it))).collect())
    }

    async fn touched(&mut self) -> Option<Look> {
        loop {
            let touched = self.changes.next().await?;
            if touched.everything {
                return Some(Look::Everywhere);
            }
            // A volume that comes or goes is told; what pods want of it is nothing to its driver.
            let mut drivers = touched.drivers;
            drivers.extend(self.changed(touched.volumes).await?);
            if !drivers.is_empty() {
                return Some(Look::At(drivers));
            }
        }
    }

    async fn look(&mut self, groups: &[String]) -> Option<Groups<view::Driver>> {
        let mut drivers = Vec::with_capacity(groups.len());
        for group in groups {
            let driver = self.backend.drivers(Some(group)).await.ok()?.pop();
            drivers.push((group.clone(), driver.map(|it| self.entries(it)).unwrap_or_default()));
        }
        Some(drivers)
    }
}

/// The claims; each is a group, by namespace and name.
pub(super) struct Claims {
    backend: Arc<dyn Backend>,
    namespace: Option<String>,
    changes: Box<dyn Changes>,
}

/// The claims, of one namespace or all.
pub(super) fn claims(backend: &Arc<dyn Backend>, namespace: Option<String>) -> Claims {
    Claims { backend: backend.clone(), namespace, changes: backend.changes() }
}

impl Claims {
    fn holds(&self, namespace: Option<&str>) -> bool {
        self.namespace.is_none() || self.namespace.as_deref() == namespace
    }
}

impl Watched for Claims {
    type Object = view::Claim;

    async fn list(&mut self) -> Option<Groups<view::Claim>> {
        let mut claims = self.backend.claims(None).await.ok()?;
        claims.retain(|it| self.holds(it.metadata.namespace.as_deref()));
        let group =
            |it: &view::Claim| format!("{}/{}", it.metadata.namespace.as_deref().unwrap_or_default(), it.metadata.name);
        Some(claims.into_iter().map(|it| (group(&it), vec![(ALL.to_owned(), it)])).collect())
    }

    async fn touched(&mut self) -> Option<Look> {
        loop {
            let touched = self.changes.next().await?;
            if touched.everything {
                return Some(Look::Everywhere);
            }
            let mut claims = touched.claims;
            claims.retain(|it| self.holds(it.split('/').next()));
            if !claims.is_empty() {
                return Some(Look::At(claims));
            }
        }
    }

    async fn look(&mut self, groups: &[String]) -> Option<Groups<view::Claim>> {
        let mut claims = Vec::with_capacity(groups.len());
        for group in groups {
            let named = group.split_once('/').unwrap_or_default();
            let claim = self.backend.claims(Some(named)).await.ok()?.pop();
            claims.push((group.clone(), claim.map(|it| (ALL.to_owned(), it)).into_iter().collect()));
        }
        Some(claims)
    }
}

/// The operations that run. There are few, so all are looked at.
pub(super) struct Operations {
    backend: Arc<dyn Backend>,
    changes: Box<dyn Changes>,
}

pub(super) fn operations(backend: &Arc<dyn Backend>) -> Operations {
    Operations { backend: backend.clone(), changes: backend.changes() }
}

impl Watched for Operations {
    type Object = view::Operation;

    async fn list(&mut self) -> Option<Groups<view::Operation>> {
        let operations = self.backend.operations().await.ok()?;
        Some(vec![(ALL.into(), operations.into_iter().map(|it| (it.metadata.name.clone(), it)).collect())])
    }

    async fn touched(&mut self) -> Option<Look> {
        self.changes.next().await.map(|_| Look::Everywhere)
    }

    async fn look(&mut self, _: &[String]) -> Option<Groups<view::Operation>> {
        self.list().await
    }
}

/// What happened to pods. The journal is short, so all of it is looked at.
pub(super) struct Events {
    journal: Arc<Journal>,
    namespace: Option<String>,
    changes: watch::Receiver<u64>,
}

/// The events, of one namespace or all.
pub(super) fn events(journal: &Arc<Journal>, namespace: Option<String>) -> Events {
    Events { changes: journal.changes(), journal: journal.clone(), namespace }
}

impl Watched for Events {
    type Object = view::Event;

    async fn list(&mut self) -> Option<Groups<view::Event>> {
        let mut events = self.journal.events();
        events.retain(|it| self.namespace.is_none() || self.namespace == it.metadata.namespace);
        Some(vec![(ALL.into(), events.into_iter().map(|it| (it.metadata.name.clone(), it)).collect())])
    }

    async fn touched(&mut self) -> Option<Look> {
        self.changes.changed().await.ok()?;
        Some(Look::Everywhere)
    }

    async fn look(&mut self, _: &[String]) -> Option<Groups<view::Event>> {
        self.list().await
    }
}
