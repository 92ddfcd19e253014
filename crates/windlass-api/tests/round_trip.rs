//! The client asks the server, with a node behind it that is nothing but a list of pods: the library needs no other.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use tokio::sync::{broadcast, watch};
use windlass_api::client::Client;
use windlass_api::paths;
use windlass_api::server::{self, Backend, Changes, Journal, Limits, Pods, Readiness, Touched};
use windlass_api::view::{
    Claim, ClaimDeletion, Containers, Driver, Event, List, Metadata, Node, Object, Operation, Pod, PodPhase,
    PodStatistics, PodStatus, Retry, RetryStatus, Status, Volume, WatchKind,
};

/// A node that has pods and no volumes.
struct Fake {
    pods: Mutex<Vec<Pod>>,
    touched: broadcast::Sender<Touched>,
}

impl Fake {
    fn new() -> Arc<Self> {
        Arc::new(Self { pods: Mutex::default(), touched: broadcast::Sender::new(16) })
    }

    fn add(&self, name: &str) {
        let uid = format!("uid-{name}");
        let metadata = Metadata { namespace: Some("default".into()), name: name.into(), uid: Some(uid.clone()) };
        let status = PodStatus {
            phase: PodPhase::Wanted,
            releasing: Vec::new(),
            first_seen: None,
            conditions: Vec::new(),
            goes_at: None,
            volumes: Vec::new(),
        };
        self.pods.lock().unwrap().push(Object::new(metadata, status));
        let _ = self.touched.send(Touched { pods: [uid].into(), ..Touched::default() });
    }
}

struct Heard(broadcast::Receiver<Touched>);

#[async_trait]
impl Changes for Heard {
    async fn next(&mut self) -> Option<Touched> {
        self.0.recv().await.ok()
    }
}

#[async_trait]
impl Backend for Fake {
    async fn node(&self) -> Result<Node, Status> {
        Err(Status::unavailable("there is none"))
    }

    async fn pods(&self, which: Pods<'_>) -> Result<Vec<Pod>, Status> {
        let is_meant = |it: &Metadata| match which {
            Pods::All => true,
            Pods::Named { namespace, name } => it.namespace.as_deref() == Some(namespace) && it.name == name,
            Pods::Uids(uids) => it.uid.as_ref().is_some_and(|it| uids.contains(it)),
        };
        Ok(self.pods.lock().unwrap().iter().filter(|it| is_meant(&it.metadata)).cloned().collect())
    }

    async fn volumes(&self, _: Option<&str>) -> Result<Vec<Volume>, Status> {
        Ok(Vec::new())
    }

    async fn drivers(&self, _: Option<&str>) -> Result<Vec<Driver>, Status> {
        Ok(Vec::new())
    }

    async fn drivers_of(&self, volumes: &[String]) -> Result<Vec<Option<String>>, Status> {
        Ok(vec![None; volumes.len()])
    }

    async fn claims(&self, _: Option<(&str, &str)>) -> Result<Vec<Claim>, Status> {
        Ok(Vec::new())
    }

    async fn operations(&self) -> Result<Vec<Operation>, Status> {
        Ok(Vec::new())
    }

    async fn containers(&self, _: &Pod) -> Result<Containers, Status> {
        std::future::pending().await
    }

    async fn statistics(&self, _: &Pod) -> Result<PodStatistics, Status> {
        Err(Status::not_found("there are no volumes"))
    }

    async fn delete_pod(&self, pod: &Pod) -> Result<(), Status> {
        Err(Status::conflict(format!("pod {:?} is wanted", pod.metadata.name)))
    }

    async fn delete_orphans(&self, _: &Pod) -> Result<(), Status> {
        Ok(())
    }

    async fn delete_claim(&self, _: &str, name: &str) -> Result<ClaimDeletion, Status> {
        Err(Status::not_found(format!("there is no claim {name:?}")))
    }

    async fn retry(&self, pod: Option<&Pod>, _: Option<&str>) -> Result<Retry, Status> {
        let metadata = pod.map(|it| it.metadata.clone()).unwrap_or_default();
        Ok(Object::new(metadata, RetryStatus { retried: Vec::new() }))
    }

    async fn retry_claim(&self, claim: &Claim) -> Result<Retry, Status> {
        Ok(Object::new(claim.metadata.clone(), RetryStatus { retried: Vec::new() }))
    }

    async fn readiness(&self) -> Result<Readiness, Status> {
        Ok(Readiness::NotReady { why: "the list is not complete".into() })
    }

    async fn metrics(&self) -> Result<String, Status> {
        Ok(String::new())
    }

    fn changes(&self) -> Box<dyn Changes> {
        Box::new(Heard(self.touched.subscribe()))
    }
}

/// Runs a test of a client and the server that it asks.
async fn with_server(test: impl AsyncFnOnce(&Client, &Fake, &Journal)) {
    let directory = tempfile::tempdir().unwrap();
    let socket = directory.path().join("api.sock");
    let (fake, journal) = (Fake::new(), Arc::new(Journal::new()));
    let (listener, _file) = server::bind(&socket, None).unwrap();
    let (stop, stopped) = watch::channel(false);
    let serving = tokio::spawn(server::serve(listener, fake.clone(), journal.clone(), Limits::new(8), stopped));
    let client = Client::new(&socket);
    let tested = test(&client, &fake, &journal);
    tokio::time::timeout(Duration::from_secs(60), tested).await.expect("it took longer than a minute");
    stop.send_replace(true);
    serving.await.unwrap();
}

#[tokio::test]
async fn what_is_shown_arrives_as_it_was() {
    with_server(async |client, fake, journal| {
        fake.add("web");
        let pods: List<Pod> = client.get(&paths::list(None, "pods")).await.unwrap();
        assert_eq!(pods.items, *fake.pods.lock().unwrap());
        let one: Pod = client.get(&paths::pod("default", "web")).await.unwrap();
        assert_eq!(client.get::<Pod>(&paths::pod_by_uid("uid-web")).await.unwrap(), one);
        assert_eq!(client.find::<Pod>(&paths::pod("other", "web")).await.unwrap(), None);
        journal.pod_event("default/web", "uid-web", "Warning", "FailedMount", "it failed");
        journal.pod_event("default/web", "uid-web", "Warning", "FailedMount", "it failed");
        let events: List<Event> = client.get(&paths::list(Some("default"), "events")).await.unwrap();
        assert_eq!(events.items[0].status.count, 2);
        let retried: Retry = client.post(&paths::retry(Some(("default", "web")), None)).await.unwrap();
        assert_eq!(retried.metadata, one.metadata);
    })
    .await;
}

#[tokio::test]
async fn a_watch_tells_what_is_there_and_then_what_comes() {
    with_server(async |client, fake, _| {
        let mut watch = client.watch::<Pod>(&paths::list(None, "pods")).await.unwrap();
        assert_eq!(watch.next().await.unwrap().kind, WatchKind::Bookmark);
        fake.add("web");
        let added = watch.next().await.unwrap();
        assert_eq!((added.kind, added.object.unwrap().metadata.name), (WatchKind::Added, "web".into()));
    })
    .await;
}

#[tokio::test]
async fn errors_answer_questions() {
    with_server(async |client, fake, _| {
        fake.add("web");
        let refused = client.delete::<Pod>(&paths::pod("default", "web")).await.unwrap_err();
        assert!(refused.is_refused() && !refused.is_not_found() && !refused.is_retryable(), "{refused}");
        let absent = client.get::<Pod>(&paths::pod("default", "none")).await.unwrap_err();
        assert!(absent.is_not_found() && !absent.is_unreachable(), "{absent}");
        let busy = client.get::<Node>("/readyz").await.unwrap_err();
        assert!(busy.is_unreachable() && busy.is_retryable(), "{busy}");
        assert!(busy.to_string().ends_with("the list is not complete"), "{busy}");
        let nobody = Client::new(client.socket().with_extension("none")).get::<Node>(&paths::node()).await.unwrap_err();
        assert!(nobody.is_unreachable() && nobody.is_retryable(), "{nobody}");
    })
    .await;
}
