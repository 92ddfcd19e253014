//! The resources: which path answers with what.

use std::{sync::Arc, time::Duration};

use axum::{
    Json, Router,
    body::Body,
    extract::{FromRequestParts, RawPathParams, Request, State},
    http::{Method, Uri, header, request::Parts},
    middleware::{self, Next},
    response::{IntoResponse, Response},
    routing::{delete, get, post},
};
use http_body_util::{BodyExt, LengthLimitError, Limited};
use hyper::body::Body as _;
use serde::Serialize;
use serde_json::json;
use tokio::sync::watch as told;
use windlass::{
    node::{ClaimRefusal, DeleteError, Deleted, Ended},
    view::{self, Kind, List, PodPhase, RetryStatus, containers::containers},
};
use windlass_core::ids::PodUid;

use super::{
    BASE, OPENAPI,
    caller::MayChange,
    query::{Listing, OneVolume, Plain},
    statistics,
    status::Status,
    watch,
};
use crate::daemon::shared::{self, Shared};

/// How much may be sent along with a request. Nothing reads it.
const BODY_MAX: usize = 64 * 1024;
/// How long a client may take to send it.
const BODY_TIMEOUT: Duration = Duration::from_secs(10);
/// How long looking at a pod's mounts may take: one of them may hang (I-6).
const LOOK_TIMEOUT: Duration = Duration::from_secs(10);

/// What requests are answered from.
#[derive(Clone)]
pub(super) struct Api {
    pub(super) shared: Arc<Shared>,
    /// Becomes true when the daemon stops.
    pub(super) stop: told::Receiver<bool>,
}

/// Everything that can be asked.
pub(super) fn router(api: Api) -> Router {
    let resources = Router::new()
        .route("/node", get(node))
        .route("/pods", get(pods))
        .route("/pods/{name}", get(pod_by_uid).delete(delete_pod))
        .route("/pods/{name}/orphans", delete(delete_orphans))
        .route("/mounts", get(mounts))
        .route("/volumes", get(volumes))
        .route("/drivers", get(drivers))
        .route("/claims", get(claims))
        .route("/operations", get(operations))
        .route("/events", get(events))
        .route("/namespaces/{namespace}/pods", get(pods))
        .route("/namespaces/{namespace}/pods/{name}", get(pod).delete(delete_pod))
        .route("/namespaces/{namespace}/pods/{name}/containers", get(pod_containers))
        .route("/namespaces/{namespace}/pods/{name}/statistics", get(pod_statistics))
        .route("/namespaces/{namespace}/pods/{name}/retry", post(retry_pod))
        .route("/retry", post(retry_all))
        .route("/namespaces/{namespace}/mounts", get(mounts))
        .route("/namespaces/{namespace}/claims", get(claims))
        .route("/namespaces/{namespace}/claims/{name}", get(claim).delete(delete_claim))
        .route("/namespaces/{namespace}/events", get(events));
    Router::new()
        .nest(BASE, resources)
        .route(BASE, get(discovery))
        .route("/healthz", get(healthz))
        .route("/readyz", get(readyz))
        .route("/version", get(version))
        .route("/openapi.json", get(openapi))
        .fallback(nothing_there)
        .method_not_allowed_fallback(not_possible)
        .layer(middleware::from_fn(read_body))
        .with_state(api)
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

/// The names in the path, as far as it has them.
struct Place {
    namespace: Option<String>,
    name: String,
}

impl<S: Send + Sync> FromRequestParts<S> for Place {
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

impl Place {
    /// A pod of which only the UID is known may be of any namespace.
    fn holds(&self, metadata: &view::Metadata) -> bool {
        self.namespace.is_none() || metadata.namespace.is_none() || self.namespace == metadata.namespace
    }

    /// The pod of this name, or without a namespace the pod of this UID. While an earlier one of the same name still goes, it is the later one.
    async fn pod(&self, shared: &Shared) -> Result<view::Pod, Status> {
        // Not by going through all there are (I-9).
        let named = match &self.namespace {
            Some(namespace) => shared.node.show_pods_named(namespace, &self.name).await?,
            None => shared.node.show_pod(&PodUid::from(&*self.name)).await?.into_iter().collect(),
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

type Answer<T> = Result<Json<T>, Status>;

fn list<T: Kind + Serialize>(items: Vec<T>) -> Response {
    Json(List::new(items)).into_response()
}

async fn node(_: Plain, State(api): State<Api>) -> Answer<view::Node> {
    Ok(Json(api.shared.show_node().await?))
}

async fn pods(place: Place, listing: Listing, State(api): State<Api>) -> Result<Response, Status> {
    let node = &api.shared.node;
    if let Some(watching) = listing.watch {
        return Ok(watch::respond(watch::pods(node, place.namespace), watching, api.stop));
    }
    let mut pods = node.show_pods().await?;
    pods.retain(|it| place.holds(&it.metadata));
    Ok(list(pods))
}

async fn mounts(place: Place, listing: Listing, State(api): State<Api>) -> Result<Response, Status> {
    let node = &api.shared.node;
    if let Some(watching) = listing.watch {
        return Ok(watch::respond(watch::mounts(node, place.namespace), watching, api.stop));
    }
    let pods = node.show_pods().await?;
    Ok(list(pods.iter().filter(|it| place.holds(&it.metadata)).flat_map(view::mounts).collect()))
}

async fn volumes(listing: Listing, State(api): State<Api>) -> Result<Response, Status> {
    let node = &api.shared.node;
    if let Some(watching) = listing.watch {
        return Ok(watch::respond(watch::volumes(node), watching, api.stop));
    }
    Ok(list(node.show_volumes().await?))
}

async fn drivers(listing: Listing, State(api): State<Api>) -> Result<Response, Status> {
    let node = &api.shared.node;
    if let Some(watching) = listing.watch {
        return Ok(watch::respond(watch::drivers(node), watching, api.stop));
    }
    Ok(list(node.show_drivers().await?))
}

async fn claims(place: Place, listing: Listing, State(api): State<Api>) -> Result<Response, Status> {
    let node = &api.shared.node;
    if let Some(watching) = listing.watch {
        return Ok(watch::respond(watch::claims(node, place.namespace), watching, api.stop));
    }
    let mut claims = node.show_claims().await?;
    claims.retain(|it| place.holds(&it.metadata));
    Ok(list(claims))
}

async fn claim(place: Place, _: Plain, State(api): State<Api>) -> Answer<view::Claim> {
    let namespace = place.namespace.as_deref().unwrap_or_default();
    let claim = api.shared.node.show_claim(namespace, &place.name).await?;
    claim
        .map(Json)
        .ok_or_else(|| Status::not_found(format!("there is no claim {:?} in namespace {namespace:?}", place.name)))
}

/// Has the volume deleted now that was made for a claim that is gone.
async fn delete_claim(_: MayChange, place: Place, _: Plain, State(api): State<Api>) -> Answer<view::ClaimDeletion> {
    let namespace = place.namespace.clone().unwrap_or_default();
    let deleted = api.shared.node.delete_claim(&namespace, &place.name).await.map_err(|refusal| {
        let text = refusal.to_string();
        match refusal {
            ClaimRefusal::Unknown { .. } => Status::not_found(text),
            ClaimRefusal::StillThere { .. }
            | ClaimRefusal::InUse { .. }
            | ClaimRefusal::SourceIncomplete { .. }
            | ClaimRefusal::Busy { .. } => Status::conflict(text),
            ClaimRefusal::Ended(ended) => ended.into(),
        }
    })?;
    let (outcome, volume) = match deleted {
        Deleted::Deleting { volume } => ("Deleting", volume),
        Deleted::Released { volume } => ("Released", Some(volume)),
    };
    let metadata = view::Metadata { namespace: Some(namespace), name: place.name, uid: None };
    let status = view::ClaimDeletionStatus { outcome: outcome.into(), volume };
    Ok(Json(view::Object::new(metadata, status)))
}

async fn operations(listing: Listing, State(api): State<Api>) -> Result<Response, Status> {
    let node = &api.shared.node;
    if let Some(watching) = listing.watch {
        return Ok(watch::respond(watch::operations(node), watching, api.stop));
    }
    Ok(list(node.show_operations().await?))
}

async fn events(place: Place, listing: Listing, State(api): State<Api>) -> Response {
    if let Some(watching) = listing.watch {
        return watch::respond(watch::events(&api.shared, place.namespace), watching, api.stop);
    }
    let mut events = api.shared.journal.events();
    events.retain(|it| place.holds(&it.metadata));
    list(events)
}

async fn pod(place: Place, _: Plain, State(api): State<Api>) -> Answer<view::Pod> {
    place.pod(&api.shared).await.map(Json)
}

async fn pod_by_uid(place: Place, query: Plain, api: State<Api>) -> Answer<view::Pod> {
    pod(place, query, api).await
}

/// Takes a pod away that nobody names. One that somebody does is told by whom.
async fn delete_pod(_: MayChange, place: Place, _: Plain, State(api): State<Api>) -> Answer<view::Pod> {
    let shown = place.pod(&api.shared).await?;
    let uid = PodUid::from(shown.metadata.uid.as_deref().unwrap_or_default());
    let deleted = api.shared.node.delete_pod(&uid).await;
    deleted.map_err(|error| {
        if let DeleteError::Ended(ended) = error {
            return Status::from(ended);
        }
        let manifests = &api.shared.about.manifests;
        let manifest = api.shared.source.summary().borrow().manifest_of(&uid).map(|it| manifests.join(it));
        Status::conflict(match (error, manifest) {
            (DeleteError::Wanted, Some(file)) => {
                format!(
                    "pod {:?} is in the manifest {}, and goes when it is removed there",
                    shown.metadata.name,
                    file.display()
                )
            }
            (error, _) => format!("pod {:?} cannot be deleted: {error}", shown.metadata.name),
        })
    })?;
    tracing::info!(pod = shown.metadata.name, uid = uid.as_str(), "somebody said that the pod may go");
    place.pod(&api.shared).await.or(Ok(shown)).map(Json)
}

/// Takes volumes away that a pod had before the start and does not name.
async fn delete_orphans(_: MayChange, place: Place, _: Plain, State(api): State<Api>) -> Answer<view::Pod> {
    let shown = place.pod(&api.shared).await?;
    let uid = PodUid::from(shown.metadata.uid.as_deref().unwrap_or_default());
    if !api.shared.node.delete_orphans(&uid).await? {
        let text = format!("pod {:?} has no volume that is held because it does not name it", shown.metadata.name);
        return Err(Status::conflict(text));
    }
    place.pod(&api.shared).await.or(Ok(shown)).map(Json)
}

async fn pod_containers(place: Place, _: Plain, State(api): State<Api>) -> Answer<view::Containers> {
    let shown = place.pod(&api.shared).await?;
    let uid = PodUid::from(shown.metadata.uid.as_deref().unwrap_or_default());
    let node = &api.shared.node;
    let Some(pod) = node.pod(&uid).await? else {
        let gone = format!("no manifest of pod {:?} is in force any more, so its containers are not known", place.name);
        return Err(Status::not_found(gone));
    };
    let looking = async { Ok::<_, Ended>((node.volumes(&uid).await?, node.groups(&uid).await?)) };
    let (volumes, groups) = tokio::time::timeout(LOOK_TIMEOUT, looking).await.map_err(|_| {
        let seconds = LOOK_TIMEOUT.as_secs();
        Status::timeout(format!("the mounts of pod {:?} could not be looked at within {seconds} s", place.name))
    })??;
    let why = |name: &str| {
        let volume = shown.status.volumes.iter().find(|it| it.volume == name)?;
        volume.reasons.last().map(|it| format!("the volume is not mounted: {}", it.message))
    };
    Ok(Json(containers(&pod, &volumes, groups, why)))
}

/// Whoever does not answer in time is told of with an error in its place, and holds up no other (I-6).
async fn pod_statistics(place: Place, _: Plain, State(api): State<Api>) -> Answer<view::PodStatistics> {
    let shown = place.pod(&api.shared).await?;
    let uid = PodUid::from(shown.metadata.uid.as_deref().unwrap_or_default());
    let asked = api.shared.node.ask_statistics(&uid).await?;
    let questions = asked.into_iter().map(|(name, asked)| (name.to_string(), asked.answer()));
    Ok(Json(view::statistics(&shown, statistics::answers(questions, statistics::TIMEOUT).await)))
}

/// Tries at once what failed of a pod, or of one volume of it.
async fn retry_pod(_: MayChange, place: Place, volume: OneVolume, State(api): State<Api>) -> Answer<view::Retry> {
    let shown = place.pod(&api.shared).await?;
    let uid = PodUid::from(shown.metadata.uid.as_deref().unwrap_or_default());
    if let Some(name) = &volume.0
        && !shown.status.volumes.iter().any(|it| it.volume == *name)
    {
        return Err(Status::not_found(format!("pod {:?} has no volume {name:?}", place.name)));
    }
    let retried = api.shared.node.retry(Some(&uid), volume.0.as_deref()).await?;
    Ok(Json(view::Object::new(shown.metadata, RetryStatus { retried })))
}

/// Tries at once whatever failed.
async fn retry_all(_: MayChange, _: Plain, State(api): State<Api>) -> Answer<view::Retry> {
    let retried = api.shared.node.retry(None, None).await?;
    let metadata = view::Metadata { name: api.shared.about.node_name.clone(), ..view::Metadata::default() };
    Ok(Json(view::Object::new(metadata, RetryStatus { retried })))
}

/// The process answers, and so does its engine: without that it does nothing for anybody.
async fn healthz(_: Plain, State(api): State<Api>) -> Result<Response, Status> {
    alive(&api).await?;
    Ok(Json(json!({"status": "ok"})).into_response())
}

async fn alive(api: &Api) -> Result<(), Status> {
    let answered = tokio::time::timeout(LOOK_TIMEOUT, api.shared.node.ping()).await;
    let seconds = LOOK_TIMEOUT.as_secs();
    Ok(answered.map_err(|_| Status::unavailable(format!("the engine has not answered within {seconds} s")))??)
}

/// Everything is known, so what is shown is all there is.
async fn readyz(_: Plain, State(api): State<Api>) -> Result<Response, Status> {
    alive(&api).await?;
    let is_synced = api.shared.node.is_synced().await?;
    let is_complete = api.shared.source.summary().borrow().complete;
    // Not by showing all there is: this is asked often, whatever the number of pods (I-9).
    let (reason, message) = match (is_synced, is_complete) {
        (true, true) => return Ok(Json(json!({"status": "ok"})).into_response()),
        (false, _) => shared::NOT_SYNCED,
        (true, false) => shared::NOT_COMPLETE,
    };
    Err(Status::unavailable(format!("{reason}: {message}")))
}

async fn version(_: Plain) -> Response {
    Json(json!({"version": env!("CARGO_PKG_VERSION"), "apiVersion": view::API_VERSION})).into_response()
}

async fn openapi(_: Plain) -> Response {
    ([(header::CONTENT_TYPE, "application/json")], OPENAPI).into_response()
}

/// What there is, in the form in which Kubernetes tells.
async fn discovery(_: Plain) -> Response {
    let resource = |name: &str, kind: &str, namespaced: bool, verbs: &[&str]| json!({"name": name, "kind": kind, "namespaced": namespaced, "verbs": verbs});
    let all = ["get", "list", "watch", "delete"];
    let some = ["list", "watch"];
    let resources = [
        resource("node", "Node", false, &all[..1]),
        resource("pods", "Pod", true, &all),
        resource("pods/containers", "Containers", true, &all[..1]),
        resource("pods/statistics", "PodStatistics", true, &all[..1]),
        resource("mounts", "Mount", true, &some),
        resource("volumes", "Volume", false, &some),
        resource("drivers", "Driver", false, &some),
        resource("claims", "Claim", true, &["get", "list", "watch", "delete"]),
        resource("operations", "Operation", false, &some),
        resource("events", "Event", true, &some),
    ];
    let kind = "APIResourceList";
    Json(json!({"apiVersion": view::API_VERSION, "kind": kind, "groupVersion": view::API_VERSION, "resources": resources}))
        .into_response()
}
