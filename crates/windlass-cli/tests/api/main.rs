//! The API on a real node. Each test has a mount namespace, a node and a server of its own, and all of it is gone when the
//! test's thread ends.

mod client;
mod contract;
mod limits;
mod resources;
mod socket_file;
mod watches;

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, mpsc};
use std::time::{Duration, SystemTime};

use client::Answer;
use k8s_openapi::api::core::v1 as api;
use rustix::mount::{MountFlags, MountPropagationFlags, mount, mount_change};
use rustix::thread::UnshareFlags;
use serde_json::{Value, json};
use tokio::sync::watch;
use tokio::task::JoinHandle;
use windlass::backend::{About, NodeBackend, Recorder};
use windlass::ids::PodUid;
use windlass::source::directory::Directory;
use windlass::{Node, token};
use windlass_api::server::{Journal, Limits, SocketFile, bind, serve};

/// Covered by a tmpfs in the test's namespace, so nothing is written on this system's disk.
const HERE: &str = "/mnt";
/// Set for a copy of this program that was started in a user namespace.
const INSIDE: &str = "WINDLASS_TEST_INSIDE";

/// A node and the server that shows it.
struct Case {
    node: Node,
    source: Directory,
    journal: Arc<Journal>,
    socket: PathBuf,
    stop: watch::Sender<bool>,
    serving: JoinHandle<()>,
    file: SocketFile,
    /// Each one lets somebody who waits for a token go on.
    tokens: mpsc::Sender<()>,
}

/// Gives a token when the test says so: a way to see an operation run.
struct WhenTold(Mutex<mpsc::Receiver<()>>);

impl token::Provider for WhenTold {
    fn token(&self, _: &token::Request, now: SystemTime) -> Result<token::Token, token::Error> {
        let told = self.0.lock().unwrap().recv();
        told.map_err(|_| token::Error::Provider { text: "the test has ended".into() })?;
        Ok(token::Token::new("token", now, now + Duration::from_secs(36_000)))
    }
}

impl Case {
    fn start(limits: Limits) -> Self {
        let directory = Path::new(HERE);
        let manifests = directory.join("manifests");
        std::fs::create_dir(&manifests).unwrap();
        let node = Node::builder(directory.join("root")).runtime_directory(directory.join("run"));
        let (tokens, told) = mpsc::channel();
        let node = node.node_name("node-1").token_provider(WhenTold(Mutex::new(told))).start().unwrap();
        // What the tests give, beside the manifests.
        node.source("test").complete();
        let source = Directory::watch(&manifests, &node).unwrap();
        let about = About::new(directory.join("root"));
        let record = Recorder::new(&about).record();
        let journal = record.journal.clone();
        let backend = NodeBackend::new(node.clone(), record, about);
        let backend = Arc::new(backend.with_manifests(&manifests, &source));
        let socket = directory.join("sockets/api.sock");
        let (listener, file) = bind(&socket, None).unwrap();
        let (stop, told) = watch::channel(false);
        let serving = tokio::spawn(serve(listener, backend, journal.clone(), limits, told));
        Self { node, source, journal, socket, stop, serving, file, tokens }
    }

    /// Asks for a path, which must be answered as the contract says.
    async fn get(&self, path: &str) -> Answer {
        let answer = client::ask(&self.socket, "GET", path).await;
        contract::check(path, &answer);
        answer
    }

    /// Adds a pod whose only container mounts all its volumes.
    fn add(&self, uid: &str, name: &str, volumes: &Value) -> PodUid {
        self.node.source("test").apply(pod(uid, name, volumes)).unwrap()
    }

    /// Adds a pod with an empty directory, and waits until it is mounted.
    async fn add_mounted(&self, uid: &str, name: &str) -> PodUid {
        let uid = self.add(uid, name, &json!([{"name": "data", "emptyDir": {}}]));
        self.node.ready(&uid).await.unwrap();
        uid
    }
}

fn pod(uid: &str, name: &str, volumes: &Value) -> api::Pod {
    let names = volumes.as_array().unwrap().iter().map(|it| it["name"].as_str().unwrap());
    let mounts: Vec<Value> = names.map(|it| json!({"name": it, "mountPath": format!("/{it}")})).collect();
    serde_json::from_value(json!({
        "metadata": {"namespace": "default", "name": name, "uid": uid},
        "spec": {"containers": [{"name": "main", "volumeMounts": mounts}], "volumes": volumes},
    }))
    .unwrap()
}

/// Runs a test of a server with the usual limits.
fn with_server(test: impl AsyncFnOnce(&Case) + Send + 'static) {
    with_limits(Limits::new(64), test);
}

/// Runs a test of a server, and ends all of it in order.
fn with_limits(limits: Limits, test: impl AsyncFnOnce(&Case) + Send + 'static) {
    in_namespace(move || {
        run(async {
            let case = Case::start(limits);
            test(&case).await;
            let Case { node, source, socket, stop, serving, file, tokens, .. } = case;
            drop(tokens);
            stop.send_replace(true);
            serving.await.unwrap();
            drop(file);
            assert!(!socket.exists(), "the socket goes with the server");
            drop(source);
            assert_eq!(node.stop(Duration::from_secs(30)).await, Ok(0), "nothing runs any more");
        });
    });
}

/// So many connections, and what differs from what suits everybody else.
fn limits(connections_max: usize, differ: impl FnOnce(&mut Limits)) -> Limits {
    let mut limits = Limits::new(connections_max);
    differ(&mut limits);
    limits
}

fn run<T>(future: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
        // Long enough for any machine: a test that waits in vain says so.
        tokio::time::timeout(Duration::from_secs(60), future).await.expect("it took longer than a minute")
    })
}

/// Runs this in a mount namespace of its own, where [`HERE`] is empty. Only root can enter one from a program that has
/// threads; for everybody else the test is started once more as a program that `unshare` has given one.
fn in_namespace(body: impl FnOnce() + Send + 'static) {
    let test = std::thread::current().name().unwrap_or_default().to_owned();
    if !rustix::process::geteuid().is_root() {
        return start_inside(&test);
    }
    // On a thread of its own: the harness uses its threads again.
    let thread = std::thread::Builder::new().name(test.clone()).spawn(move || {
        if let Err(errno) = enter() {
            assert!(std::env::var_os(INSIDE).is_none(), "the namespace that was made for this is of no use: {errno}");
            eprintln!("SKIPPED: {test}: no mount namespace can be made here: {errno}");
            return;
        }
        body();
    });
    if let Err(panic) = thread.unwrap().join() {
        std::panic::resume_unwind(panic);
    }
}

fn enter() -> rustix::io::Result<()> {
    // With FS goes the working directory, which threads share; the kernel wants both at once.
    unshare(UnshareFlags::NEWNS | UnshareFlags::FS)?;
    mount_change("/", MountPropagationFlags::PRIVATE | MountPropagationFlags::REC)?;
    mount("tests", HERE, "tmpfs", MountFlags::empty(), None)
}

#[expect(deprecated, reason = "the new one is unsafe for the sake of UnshareFlags::FILES, which is not used here")]
fn unshare(flags: UnshareFlags) -> rustix::io::Result<()> {
    rustix::thread::unshare(flags)
}

fn start_inside(test: &str) {
    let unshare = || {
        let mut command = windlass_testing::process::program("unshare");
        command.args(["--map-root-user", "--mount", "--propagation", "private"]);
        command
    };
    let possible = unshare().arg("true").output().is_ok_and(|it| it.status.success());
    if !possible {
        eprintln!("SKIPPED: {test}: this user can make no user namespace");
        return;
    }
    let program = std::env::current_exe().unwrap();
    let output = unshare().arg(program).args(["--exact", test, "--nocapture"]).env(INSIDE, "yes").output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let ran = String::from_utf8_lossy(&output.stdout).contains("1 passed");
    assert!(ran, "the test of that name was not run");
}
