//! The resources: which path answers with what.

use std::{sync::Arc, time::Duration};

use axum::{
    Json, Router,
    body::Body,
    extract::{FromRequestParts, RawPathParams, Request, State},
    http::{HeaderValue, Method, Uri, header, request::Parts},
    middleware::{self, Next},
    response::{IntoResponse, Response},
    routing::get,
};
use http_body_util::{BodyExt, LengthLimitError, Limited};
use hyper::body::Body as _;
use serde::Serialize;
use serde_json::json;
use tokio::sync::watch as told;
use windlass::view::{self, ConditionStatus, List, PodPhase, containers::containers};
use windlass_core::ids::PodUid;

use super::{
    BASE, OPENAPI,
    query::{Listing, Plain},
    statistics,
    status::Status,
    watch,
};
use crate::daemon::shared::Shared;

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
        .route("/mounts", get(mounts))
        .route("/volumes", get(volumes))
        .route("/drivers", get(drivers))
        .route("/operations", get(operations))
        .route("/events", get(events))
        .route("/namespaces/{namespace}/pods", get(pods))
        .route("/namespaces/{namespace}/pods/{name}", get(pod))
        .route("/namespaces/{namespace}/pods/{name}/containers", get(pod_containers))
        .route("/namespaces/{namespace}/pods/{name}/statistics", get(pod_statistics))
        .route("/namespaces/{namespace}/mounts", get(mounts))
        .route("/namespaces/{namespace}/events", get(events));
    Router::new()
        .nest(BASE, resources)
        .route(BASE, get(discovery))
        .route("/healthz", get(healthz))
        .route("/readyz", get(readyz))
        .route("/version", get(version))
        .route("/openapi.json", get(openapi))
        .fallback(nothing_there)
        .method_not_allowed_fallback(only_get)
        .layer(middleware::from_fn(read_body))
        .with_state(api)
}

/// Answers everybody that there is no room.
pub(super) fn refusing() -> Router {
    Router::new().fallback(async || {
        let status = Status::unavailable("too many clients use the API at the moment; try again later");
        closing(status)
    })
}

/// The connection ends with this answer.
fn closing(status: Status) -> Response {
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

async fn only_get(method: Method) -> Response {
    let status = Status::method_not_allowed(format!("{method} is not possible: everything here can only be read"));
    let mut response = status.into_response();
    response.headers_mut().insert(header::ALLOW, HeaderValue::from_static("GET,HEAD"));
    response
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
    fn holds(&self, metadata: &view::Metadata) -> bool {
        self.namespace.is_none() || self.namespace == metadata.namespace
    }

    /// The pod of this name. While an earlier one of the same name still goes, it is the later one.
    async fn pod(&self, shared: &Shared) -> Result<view::Pod, Status> {
        let pods = shared.node.show_pods().await.into_iter();
        let named = pods.filter(|it| self.holds(&it.metadata) && it.metadata.name == self.name);
        let first = |it: &view::Pod| match it.status.phase {
            PodPhase::Wanted => 0,
            PodPhase::Ending => 1,
            PodPhase::Finished => 2,
            PodPhase::Found => 3,
            PodPhase::Leaving => 4,
        };
        named.min_by_key(first).ok_or_else(|| {
            let namespace = self.namespace.as_deref().unwrap_or_default();
            Status::not_found(format!("there is no pod {:?} in namespace {namespace:?}", self.name))
        })
    }
}

type Answer<T> = Result<Json<T>, Status>;

fn list<T: Serialize>(kind: &str, items: Vec<T>) -> Response {
    Json(List::new(kind, items)).into_response()
}

async fn node(_: Plain, State(api): State<Api>) -> Json<view::Node> {
    Json(api.shared.show_node().await)
}

async fn pods(place: Place, listing: Listing, State(api): State<Api>) -> Response {
    let node = &api.shared.node;
    if listing.watch {
        return watch::respond(watch::pods(node, place.namespace), listing.within, api.stop);
    }
    let mut pods = node.show_pods().await;
    pods.retain(|it| place.holds(&it.metadata));
    list("Pod", pods)
}

async fn mounts(place: Place, listing: Listing, State(api): State<Api>) -> Response {
    let node = &api.shared.node;
    if listing.watch {
        return watch::respond(watch::mounts(node, place.namespace), listing.within, api.stop);
    }
    let pods = node.show_pods().await;
    list("Mount", pods.iter().filter(|it| place.holds(&it.metadata)).flat_map(view::mounts).collect())
}

async fn volumes(listing: Listing, State(api): State<Api>) -> Response {
    let node = &api.shared.node;
    if listing.watch {
        return watch::respond(watch::volumes(node), listing.within, api.stop);
    }
    list("Volume", node.show_volumes().await)
}

async fn drivers(listing: Listing, State(api): State<Api>) -> Response {
    let node = &api.shared.node;
    if listing.watch {
        return watch::respond(watch::drivers(node), listing.within, api.stop);
    }
    list("Driver", node.show_drivers().await)
}

async fn operations(listing: Listing, State(api): State<Api>) -> Response {
    let node = &api.shared.node;
    if listing.watch {
        return watch::respond(watch::operations(node), listing.within, api.stop);
    }
    list("Operation", node.show_operations().await)
}

async fn events(place: Place, listing: Listing, State(api): State<Api>) -> Response {
    if listing.watch {
        return watch::respond(watch::events(&api.shared, place.namespace), listing.within, api.stop);
    }
    let mut events = api.shared.journal.events();
    events.retain(|it| place.holds(&it.metadata));
    list("Event", events)
}

async fn pod(place: Place, _: Plain, State(api): State<Api>) -> Answer<view::Pod> {
    place.pod(&api.shared).await.map(Json)
}

async fn pod_containers(place: Place, _: Plain, State(api): State<Api>) -> Answer<view::Containers> {
    let shown = place.pod(&api.shared).await?;
    let uid = PodUid::from(shown.metadata.uid.as_deref().unwrap_or_default());
    let node = &api.shared.node;
    let Some(pod) = node.pod(&uid).await else {
        let gone = format!("no manifest of pod {:?} is in force any more, so its containers are not known", place.name);
        return Err(Status::not_found(gone));
    };
    let looking = async { (node.volumes(&uid).await, node.groups(&uid).await) };
    let (volumes, groups) = tokio::time::timeout(LOOK_TIMEOUT, looking).await.map_err(|_| {
        let seconds = LOOK_TIMEOUT.as_secs();
        Status::timeout(format!("the mounts of pod {:?} could not be looked at within {seconds} s", place.name))
    })?;
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
    let asked = api.shared.node.ask_statistics(&uid).await;
    let questions = asked.into_iter().map(|(name, asked)| (name.to_string(), asked.answer()));
    Ok(Json(view::statistics(&shown, statistics::answers(questions, statistics::TIMEOUT).await)))
}

/// The process answers, and that is all it says.
async fn healthz(_: Plain) -> Response {
    Json(json!({"status": "ok"})).into_response()
}

/// Everything is known, so what is shown is all there is.
async fn readyz(_: Plain, State(api): State<Api>) -> Response {
    let node = api.shared.show_node().await;
    let needed = |kind: &str| matches!(kind, "Synced" | "SourceComplete");
    let missing = node.status.conditions.iter().find(|it| needed(&it.kind) && it.status != ConditionStatus::True);
    match missing {
        None => Json(json!({"status": "ok"})).into_response(),
        Some(condition) => Status::unavailable(format!("{}: {}", condition.reason, condition.message)).into_response(),
    }
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
    let all = ["get", "list", "watch"];
    let some = ["list", "watch"];
    let resources = [
        resource("node", "Node", false, &all[..1]),
        resource("pods", "Pod", true, &all),
        resource("pods/containers", "Containers", true, &all[..1]),
        resource("pods/statistics", "PodStatistics", true, &all[..1]),
        resource("mounts", "Mount", true, &some),
        resource("volumes", "Volume", false, &some),
        resource("drivers", "Driver", false, &some),
        resource("operations", "Operation", false, &some),
        resource("events", "Event", true, &some),
    ];
    let kind = "APIResourceList";
    Json(json!({"apiVersion": view::API_VERSION, "kind": kind, "groupVersion": view::API_VERSION, "resources": resources}))
        .into_response()
}
