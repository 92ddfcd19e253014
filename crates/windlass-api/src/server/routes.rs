//! The resources: which path answers with what.

use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use axum::extract::{FromRequestParts, RawPathParams, Request, State};
use axum::http::request::Parts;
use axum::http::{Method, StatusCode, Uri, header};
use axum::middleware::{self, Next};
use axum::response::{IntoResponse, Response};
use axum::{Json, Router, routing};
use http_body_util::{BodyExt, LengthLimitError, Limited};
use hyper::body::Body as _;
use serde::Serialize;
use serde_json::json;
use tokio::sync::watch as told;

use super::backend::{Backend, Pods, Readiness};
use super::caller::MayChange;
use super::endpoint::{self, Endpoint};
use super::journal::Journal;
use super::query::{Listing, OneVolume, Plain};
use super::watch;
use crate::view::{self, Kind, List, PodPhase, Status};
use crate::{BASE, OPENAPI};

/// How much may be sent along with a request. Nothing reads it.
const BODY_MAX: usize = 64 * 1024;
/// How long a client may take to send it.
const BODY_TIMEOUT: Duration = Duration::from_secs(10);
/// How long looking at a pod's mounts may take: one of them may hang (I-6).
const LOOK_TIMEOUT: Duration = Duration::from_secs(10);

/// What Prometheus calls its text format.
const METRICS_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";

/// What requests are answered from.
#[derive(Clone)]
pub(super) struct Api {
    pub(super) backend: Arc<dyn Backend>,
    pub(super) journal: Arc<Journal>,
    /// Becomes true when the daemon stops.
    pub(super) stop: told::Receiver<bool>,
}

/// Everything that can be asked.
pub(super) fn endpoints() -> Vec<Endpoint> {
    use endpoint::Method::{Delete, Get, Post};
    use endpoint::Returns::{About, Document, List, Looked, Metrics, One};
    let at = |below: &str| format!("{BASE}{below}");
    vec![
        Endpoint::new(Get, at(""), discovery, About("APIResourceList")).told("discover", "What can be asked for"),
        Endpoint::new(Get, at("/node"), node, One(view::Node::KIND)).told("getNode", "The daemon and its node"),
        Endpoint::new(Get, at("/pods"), pods, List(view::Pod::KIND)).told("listPods", "All pods"),
        Endpoint::new(Get, at("/pods/{name}"), pod, One(view::Pod::KIND))
            .told("getPodByUid", "One pod by its UID, also if nobody knows what it is called"),
        Endpoint::new(Delete, at("/pods/{name}"), delete_pod, One(view::Pod::KIND))
            .told("deletePodByUid", "The same by its UID"),
        Endpoint::new(Delete, at("/pods/{name}/orphans"), delete_orphans, One(view::Pod::KIND)).told(
            "deleteOrphans",
            "Take volumes away at once that are held because the pod had them before the start and does not name them",
        ),
        Endpoint::new(Get, at("/namespaces/{namespace}/pods"), pods, List(view::Pod::KIND))
            .told("listNamespacedPods", "The pods of one namespace"),
        Endpoint::new(Get, at("/namespaces/{namespace}/pods/{name}"), pod, One(view::Pod::KIND))
            .told("getPod", "One pod; of two of the same name the one that is wanted"),
        Endpoint::new(Delete, at("/namespaces/{namespace}/pods/{name}"), delete_pod, One(view::Pod::KIND))
            .told("deletePod", "Take a pod away at once that is held because no manifest names it"),
        Endpoint::new(
            Get,
            at("/namespaces/{namespace}/pods/{name}/containers"),
            pod_containers,
            Looked(view::Containers::KIND),
        )
        .told("getContainers", "What the containers of one pod are to be given"),
        Endpoint::new(
            Get,
            at("/namespaces/{namespace}/pods/{name}/statistics"),
            pod_statistics,
            One(view::PodStatistics::KIND),
        )
        .told("getStatistics", "How full the volumes of one pod are, and how they are doing"),
        Endpoint::new(Post, at("/namespaces/{namespace}/pods/{name}/retry"), retry_pod, One(view::Retry::KIND)).told(
            "retryPod",
            "Try at once what failed of a pod and waits for its next try; for root and the user whose daemon it is",
        ),
        Endpoint::new(Post, at("/retry"), retry_all, One(view::Retry::KIND)).told(
            "retryAll",
            "Try at once whatever failed and waits for its next try; for root and the user whose daemon it is",
        ),
        Endpoint::new(Get, at("/mounts"), mounts, List(view::Mount::KIND)).told("listMounts", "All mounts"),
        Endpoint::new(Get, at("/namespaces/{namespace}/mounts"), mounts, List(view::Mount::KIND))
            .told("listNamespacedMounts", "The mounts of one namespace"),
        Endpoint::new(Get, at("/volumes"), volumes, List(view::Volume::KIND)).told("listVolumes", "All volumes"),
        Endpoint::new(Get, at("/drivers"), drivers, List(view::Driver::KIND)).told("listDrivers", "All CSI drivers"),
        Endpoint::new(Get, at("/claims"), claims, List(view::Claim::KIND))
            .told("listClaims", "All claims, and the volumes of claims that are gone"),
        Endpoint::new(Get, at("/namespaces/{namespace}/claims"), claims, List(view::Claim::KIND))
            .told("listNamespacedClaims", "The claims of one namespace"),
        Endpoint::new(Get, at("/namespaces/{namespace}/claims/{name}"), claim, One(view::Claim::KIND))
            .told("getClaim", "One claim, or the volume that was made for it"),
        Endpoint::new(
            Delete,
            at("/namespaces/{namespace}/claims/{name}"),
            delete_claim,
            One(view::ClaimDeletion::KIND),
        )
        .told("deleteClaim", "Delete the volume now that was made for a claim that is gone"),
        Endpoint::new(
            Post,
            at("/namespaces/{namespace}/claims/{name}/retry"),
            retry_claim,
            One(view::Retry::KIND),
        )
        .told(
            "retryClaim",
            "Try at once what failed for a claim and waits for its next try; for root and the user whose daemon it is",
        ),
        Endpoint::new(Get, at("/operations"), operations, List(view::Operation::KIND))
            .told("listOperations", "All operations"),
        Endpoint::new(Get, at("/events"), events, List(view::Event::KIND)).told("listEvents", "All events"),
        Endpoint::new(Get, at("/namespaces/{namespace}/events"), events, List(view::Event::KIND))
            .told("listNamespacedEvents", "The events of one namespace"),
        Endpoint::new(Get, "/healthz", healthz, About("Health"))
            .told("healthz", "Whether the process and its engine answer"),
        Endpoint::new(Get, "/readyz", readyz, About("Health"))
            .told("readyz", "Whether everything is known: the disk was read and every manifest was"),
        Endpoint::new(Get, "/version", version, About("Version")).told("version", "Which windlass it is"),
        Endpoint::new(Get, "/metrics", metrics, Metrics)
            .told("metrics", "What is counted, for Prometheus; docs/metrics.md has all of it"),
        Endpoint::new(Get, "/openapi.json", openapi, Document).told("openapi", "This document"),
    ]
}

pub(super) fn router(api: Api) -> Router {
    let all = endpoints().into_iter().fold(Router::new(), |router, it| router.route(&it.path, it.route));
    all.fallback(nothing_there)
        .method_not_allowed_fallback(not_possible)
        .layer(middleware::from_fn(read_body))
        .with_state(api)
}

/// Metrics, and nothing else.
pub(super) fn metrics_router(backend: Arc<dyn Backend>) -> Router {
    let (journal, (_, stop)) = (Arc::default(), told::channel(false));
    let metrics = Router::new().route("/metrics", routing::get(metrics));
    let metrics = metrics.fallback(async || Status::not_found("only /metrics is served here"));
    metrics.method_not_allowed_fallback(not_possible).layer(middleware::from_fn(read_body)).with_state(Api {
        backend,
        journal,
        stop,
    })
}

/// Answers everybody that there is no room.
pub(super) fn refusing() -> Router {
    Router::new().fallback(async || closing(no_place()))
}

/// The same as a whole response, for somebody whose request is not even read.
pub(super) fn refusal() -> String {
    let body = json!(no_place()).to_string();
    let length = body.len();
    format!(
        "HTTP/1.1 503 Service Unavailable\r\ncontent-type: application/json\r\ncontent-length: {length}\r\n\
         connection: close\r\n\r\n{body}"
    )
}

fn no_place() -> Status {
    Status::unavailable("too many clients use the API at the moment; try again later")
}

/// The connection ends with this answer.
pub(super) fn closing(status: Status) -> Response {
    ([(header::CONNECTION, "close")], status).into_response()
}

/// Reads what was sent along, which is of no use, so that the connection can be used again.
async fn read_body(request: Request, next: Next) -> Response {
    let (parts, body) = request.into_parts();
    let too_large =
        || closing(Status::too_large(format!("nothing here takes a body, and {BODY_MAX} bytes are too many")));
    if body.size_hint().lower() > BODY_MAX as u64 {
        return too_large();
    }
    if !body.is_end_stream() {
        match tokio::time::timeout(BODY_TIMEOUT, Limited::new(body, BODY_MAX).collect()).await {
            Ok(Ok(_)) => {}
            Ok(Err(error)) if error.is::<LengthLimitError>() => return too_large(),
            Ok(Err(error)) => return closing(Status::bad_request(format!("the body cannot be read: {error}"))),
            Err(_) => return closing(Status::request_timeout("the body did not come to an end")),
        }
    }
    next.run(Request::from_parts(parts, Body::empty())).await
}

async fn nothing_there(uri: Uri) -> Status {
    nothing_at(&uri)
}

fn nothing_at(uri: &Uri) -> Status {
    Status::not_found(format!("there is nothing at {:?}; see /openapi.json", uri.path()))
}

/// What is possible the router adds.
async fn not_possible(method: Method) -> Status {
    Status::method_not_allowed(format!("{method} is not possible here; see /openapi.json"))
}

impl IntoResponse for Status {
    fn into_response(self) -> Response {
        let code = StatusCode::from_u16(self.code).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        (code, Json(self)).into_response()
    }
}

/// The names in the path, as far as it has them.
struct Names {
    namespace: Option<String>,
    name: String,
}

impl<S: Send + Sync> FromRequestParts<S> for Names {
    type Rejection = Status;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Status> {
        let names = RawPathParams::from_request_parts(parts, state);
        let names = names.await.map_err(|it| Status::bad_request(it.body_text()))?;
        let named = |key: &str| names.iter().find(|(name, _)| *name == key).map(|(_, value)| value.to_owned());
        if names.iter().any(|(_, value)| value.is_empty()) {
            return Err(nothing_at(&parts.uri));
        }
        Ok(Self { namespace: named("namespace"), name: named("name").unwrap_or_default() })
    }
}

impl Names {
    /// A pod of which only the UID is known may be of any namespace.
    fn holds(&self, metadata: &view::Metadata) -> bool {
        self.namespace.is_none() || metadata.namespace.is_none() || self.namespace == metadata.namespace
    }

    /// The claim of this name, or the volume that was made for it.
    async fn claim(&self, api: &Api) -> Result<view::Claim, Status> {
        let namespace = self.namespace.as_deref().unwrap_or_default();
        let claim = api.backend.claims(Some((namespace, &self.name))).await?.pop();
        claim.ok_or_else(|| Status::not_found(format!("there is no claim {:?} in namespace {namespace:?}", self.name)))
    }

    /// The pod of this name, or without a namespace the pod of this UID. While an earlier one of the same name still goes, it
    /// is the later one.
    async fn pod(&self, api: &Api) -> Result<view::Pod, Status> {
        // Not by going through all there are (I-9).
        let named = match &self.namespace {
            Some(namespace) => api.backend.pods(Pods::Named { namespace, name: &self.name }).await?,
            None => api.backend.pods(Pods::Uids(std::slice::from_ref(&self.name))).await?,
        };
        let first = |it: &view::Pod| match it.status.phase {
            PodPhase::Wanted => 0,
            PodPhase::Ending => 1,
            PodPhase::Finished => 2,
            PodPhase::Held => 3,
            PodPhase::Found => 4,
            PodPhase::Leaving => 5,
            PodPhase::Releasing => 6,
        };
        named.into_iter().min_by_key(first).ok_or_else(|| {
            Status::not_found(match &self.namespace {
                Some(namespace) => format!("there is no pod {:?} in namespace {namespace:?}", self.name),
                None => format!("there is no pod whose UID is {:?}", self.name),
            })
        })
    }
}

type Shown<T> = Result<Json<T>, Status>;

fn list<T: Kind + Serialize>(items: Vec<T>) -> Response {
    Json(List::new(items)).into_response()
}

async fn node(_: Plain, State(api): State<Api>) -> Shown<view::Node> {
    Ok(Json(api.backend.node().await?))
}

async fn pods(names: Names, listing: Listing, State(api): State<Api>) -> Result<Response, Status> {
    if let Some(watching) = listing.watch {
        return Ok(watch::respond(watch::pods(&api.backend, names.namespace), watching, api.stop));
    }
    let mut pods = api.backend.pods(Pods::All).await?;
    pods.retain(|it| names.holds(&it.metadata));
    Ok(list(pods))
}

async fn mounts(names: Names, listing: Listing, State(api): State<Api>) -> Result<Response, Status> {
    if let Some(watching) = listing.watch {
        return Ok(watch::respond(watch::mounts(&api.backend, names.namespace), watching, api.stop));
    }
    let pods = api.backend.pods(Pods::All).await?;
    Ok(list(pods.iter().filter(|it| names.holds(&it.metadata)).flat_map(view::mounts).collect()))
}

async fn volumes(listing: Listing, State(api): State<Api>) -> Result<Response, Status> {
    if let Some(watching) = listing.watch {
        return Ok(watch::respond(watch::volumes(&api.backend), watching, api.stop));
    }
    Ok(list(api.backend.volumes(None).await?))
}

async fn drivers(listing: Listing, State(api): State<Api>) -> Result<Response, Status> {
    if let Some(watching) = listing.watch {
        return Ok(watch::respond(watch::drivers(&api.backend), watching, api.stop));
    }
    Ok(list(api.backend.drivers(None).await?))
}

async fn claims(names: Names, listing: Listing, State(api): State<Api>) -> Result<Response, Status> {
    if let Some(watching) = listing.watch {
        return Ok(watch::respond(watch::claims(&api.backend, names.namespace), watching, api.stop));
    }
    let mut claims = api.backend.claims(None).await?;
    claims.retain(|it| names.holds(&it.metadata));
    Ok(list(claims))
}

async fn claim(names: Names, _: Plain, State(api): State<Api>) -> Shown<view::Claim> {
    names.claim(&api).await.map(Json)
}

/// Tries at once what failed for a claim.
async fn retry_claim(_: MayChange, names: Names, _: Plain, State(api): State<Api>) -> Shown<view::Retry> {
    let shown = names.claim(&api).await?;
    api.backend.retry_claim(&shown).await.map(Json)
}

/// Has the volume deleted now that was made for a claim that is gone.
async fn delete_claim(_: MayChange, names: Names, _: Plain, State(api): State<Api>) -> Shown<view::ClaimDeletion> {
    let namespace = names.namespace.as_deref().unwrap_or_default();
    api.backend.delete_claim(namespace, &names.name).await.map(Json)
}

async fn operations(listing: Listing, State(api): State<Api>) -> Result<Response, Status> {
    if let Some(watching) = listing.watch {
        return Ok(watch::respond(watch::operations(&api.backend), watching, api.stop));
    }
    Ok(list(api.backend.operations().await?))
}

async fn events(names: Names, listing: Listing, State(api): State<Api>) -> Response {
    if let Some(watching) = listing.watch {
        return watch::respond(watch::events(&api.journal, names.namespace), watching, api.stop);
    }
    let mut events = api.journal.events();
    events.retain(|it| names.holds(&it.metadata));
    list(events)
}

async fn pod(names: Names, _: Plain, State(api): State<Api>) -> Shown<view::Pod> {
    names.pod(&api).await.map(Json)
}

/// Takes a pod away that nobody names. One that somebody does is told by whom.
async fn delete_pod(_: MayChange, names: Names, _: Plain, State(api): State<Api>) -> Shown<view::Pod> {
    let shown = names.pod(&api).await?;
    api.backend.delete_pod(&shown).await?;
    let uid = shown.metadata.uid.as_deref().unwrap_or_default();
    tracing::info!(pod = shown.metadata.name, uid, "somebody said that the pod may go");
    names.pod(&api).await.or(Ok(shown)).map(Json)
}

/// Takes volumes away that a pod had before the start and does not name.
async fn delete_orphans(_: MayChange, names: Names, _: Plain, State(api): State<Api>) -> Shown<view::Pod> {
    let shown = names.pod(&api).await?;
    api.backend.delete_orphans(&shown).await?;
    names.pod(&api).await.or(Ok(shown)).map(Json)
}

async fn pod_containers(names: Names, _: Plain, State(api): State<Api>) -> Shown<view::Containers> {
    let shown = names.pod(&api).await?;
    let looked = tokio::time::timeout(LOOK_TIMEOUT, api.backend.containers(&shown)).await;
    let containers = looked.map_err(|_| {
        let seconds = LOOK_TIMEOUT.as_secs();
        Status::timeout(format!("the mounts of pod {:?} could not be looked at within {seconds} s", names.name))
    })?;
    containers.map(Json)
}

async fn pod_statistics(names: Names, _: Plain, State(api): State<Api>) -> Shown<view::PodStatistics> {
    let shown = names.pod(&api).await?;
    api.backend.statistics(&shown).await.map(Json)
}

/// Tries at once what failed of a pod, or of one volume of it.
async fn retry_pod(_: MayChange, names: Names, volume: OneVolume, State(api): State<Api>) -> Shown<view::Retry> {
    let shown = names.pod(&api).await?;
    if let Some(name) = &volume.0
        && !shown.status.volumes.iter().any(|it| it.volume == *name)
    {
        return Err(Status::not_found(format!("pod {:?} has no volume {name:?}", names.name)));
    }
    api.backend.retry(Some(&shown), volume.0.as_deref()).await.map(Json)
}

/// Tries at once whatever failed.
async fn retry_all(_: MayChange, _: Plain, State(api): State<Api>) -> Shown<view::Retry> {
    api.backend.retry(None, None).await.map(Json)
}

/// The process answers, and so does its engine: without that it does nothing for anybody.
async fn healthz(_: Plain, State(api): State<Api>) -> Shown<view::Health> {
    readiness(&api).await?;
    Ok(Json(view::Health::ok()))
}

/// Everything is known, so what is shown is all there is.
async fn readyz(_: Plain, State(api): State<Api>) -> Shown<view::Health> {
    match readiness(&api).await? {
        Readiness::Ready => Ok(Json(view::Health::ok())),
        Readiness::NotReady { why } => Err(Status::unavailable(why)),
    }
}

async fn readiness(api: &Api) -> Result<Readiness, Status> {
    let answered = tokio::time::timeout(LOOK_TIMEOUT, api.backend.readiness()).await;
    let seconds = LOOK_TIMEOUT.as_secs();
    answered.map_err(|_| Status::unavailable(format!("the engine has not answered within {seconds} s")))?
}

async fn version(_: Plain) -> Json<view::Version> {
    Json(view::Version { version: env!("CARGO_PKG_VERSION").into(), api_version: view::API_VERSION.into() })
}

async fn metrics(_: Plain, State(api): State<Api>) -> Result<Response, Status> {
    let metrics = api.backend.metrics().await?;
    Ok(([(header::CONTENT_TYPE, METRICS_TYPE)], metrics).into_response())
}

async fn openapi(_: Plain) -> Response {
    ([(header::CONTENT_TYPE, "application/json")], OPENAPI).into_response()
}

/// What there is, in the form in which Kubernetes tells.
async fn discovery(_: Plain) -> Json<view::ApiResourceList> {
    let resource = |name: &str, kind: &str, namespaced: bool, verbs: &[&str]| view::ApiResource {
        name: name.into(),
        kind: kind.into(),
        namespaced,
        verbs: verbs.iter().map(|it| (*it).into()).collect(),
    };
    let all = ["get", "list", "watch", "delete"];
    let some = ["list", "watch"];
    Json(view::ApiResourceList::new(vec![
        resource("node", view::Node::KIND, false, &all[..1]),
        resource("pods", view::Pod::KIND, true, &all),
        resource("pods/containers", view::Containers::KIND, true, &all[..1]),
        resource("pods/statistics", view::PodStatistics::KIND, true, &all[..1]),
        resource("mounts", view::Mount::KIND, true, &some),
        resource("volumes", view::Volume::KIND, false, &some),
        resource("drivers", view::Driver::KIND, false, &some),
        resource("claims", view::Claim::KIND, true, &all),
        resource("operations", view::Operation::KIND, false, &some),
        resource("events", view::Event::KIND, true, &some),
    ]))
}
