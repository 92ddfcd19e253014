//! A program that embeds windlass, in short: the volumes of two pods on real mounts, told line by line as they come,
//! change and go.
//!
//! It enters no mount namespace by itself: whoever runs it as root sees the mounts come and go in a temporary directory.
//! Anybody else runs it as `unshare --map-root-user --mount cargo run --package windlass --example embed`.

use std::error::Error;
use std::fs;
use std::io::{self, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, Instant};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use ring::rand::SystemRandom;
use ring::signature::{ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair};
use rustix::mount::UnmountFlags;
use windlass::Node;
use windlass::ids::PodUid;
use windlass::manifest::{self, Document};
use windlass::node::{Change, Code, StartError, Volume};
use windlass::source::{Containers, Source};
use windlass::token::LocalIssuer;
use windlass_linux::table::Reader;

/// What the node is given first. Its uid is what a pod is known by; here it is short, so that paths are.
const MANIFESTS: &str = "
apiVersion: v1
kind: ConfigMap
metadata: {name: settings}
data: {color: blue}
---
apiVersion: v1
kind: Secret
metadata: {name: keys}
stringData: {password: correct horse battery staple}
---
apiVersion: v1
kind: Pod
metadata: {name: web, uid: web-1, labels: {app: shop}}
spec:
  serviceAccountName: shop
  containers:
  - name: main
    volumeMounts:
    - {name: scratch, mountPath: /scratch}
    - {name: cache, mountPath: /cache}
    - {name: settings, mountPath: /settings}
    - {name: keys, mountPath: /keys}
    - {name: identity, mountPath: /identity}
  volumes:
  - {name: scratch, emptyDir: {}}
  - {name: cache, emptyDir: {medium: Memory, sizeLimit: 16Mi}}
  - {name: settings, configMap: {name: settings}}
  - {name: keys, secret: {secretName: keys, defaultMode: 0400}}
  - name: identity
    projected:
      sources:
      - serviceAccountToken: {path: token, audience: vault}
      - downwardAPI: {items: [{path: labels, fieldRef: {fieldPath: metadata.labels}}]}
";

/// The same config map, later.
const CHANGED: &str = "{apiVersion: v1, kind: ConfigMap, metadata: {name: settings}, data: {color: green}}";

/// A pod whose config map is not there.
const LATE: &str = "
apiVersion: v1
kind: Pod
metadata: {name: late, uid: late-1}
spec:
  containers: [{name: main, volumeMounts: [{name: flags, mountPath: /flags}]}]
  volumes: [{name: flags, configMap: {name: flags}}]
";

/// The config map that it waits for.
const FLAGS: &str = "{apiVersion: v1, kind: ConfigMap, metadata: {name: flags}, data: {beta: 'yes'}}";

/// Long enough for any machine; usually all of it takes less than a second.
const PATIENCE: Duration = Duration::from_secs(60);

/// What can be done where mounting is refused.
const REFUSED: &str =
    "Mounting takes root, or a user namespace with all its rights, such as `unshare --map-root-user --mount` makes.";

type Result<T> = std::result::Result<T, Box<dyn Error>>;

fn main() -> ExitCode {
    let told = run(&mut io::stdout().lock());
    let Err(error) = told else { return ExitCode::SUCCESS };
    // A reader who has seen enough, such as `head`, is no failure.
    if error.downcast_ref::<io::Error>().is_some_and(|it| it.kind() == io::ErrorKind::BrokenPipe) {
        return ExitCode::SUCCESS;
    }
    eprintln!("embed: {error}");
    let mut source = error.source();
    while let Some(it) = source {
        eprintln!("  because: {it}");
        source = it.source();
    }
    if matches!(error.downcast_ref(), Some(StartError::Abilities(_))) {
        eprintln!("{REFUSED}");
    }
    ExitCode::FAILURE
}

/// Starts a node in a directory of its own, and leaves neither behind, however the story ends.
fn run(out: &mut impl Write) -> Result<()> {
    let directory = tempfile::Builder::new().prefix("windlass-embed-").tempdir()?;
    let root = directory.path().canonicalize()?.join("node");
    // A real node keeps its runtime directory in memory; here it goes at the end like everything else.
    let node = Node::builder(&root)
        .runtime_directory(directory.path().join("run"))
        .node_name("node-1")
        .token_provider(LocalIssuer::new("https://node-1.example", "https://node-1.example", &new_key()?)?)
        .start()?;
    // The node works on threads of its own; this runtime only waits for it.
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build()?;
    let source = node.source("story");
    let mut pods = Vec::new();
    let (told, cleared) = runtime.block_on(async {
        let told = tokio::time::timeout(PATIENCE, story(&node, &source, &root, &mut pods, out)).await;
        (told, clear(node, &source, &pods).await)
    });
    told.map_err(|_| "something that should have happened did not, in a minute")??;
    cleared?;
    let mounts = Reader::best().read()?.below(&root).count();
    let pods = fs::read_dir(root.join("pods"))?.count();
    writeln!(out, "   left below {}: {mounts} mounts, {pods} pods", root.display())?;
    directory.close()?;
    writeln!(out, "\nThat was all. README.md says how to put it into a program of your own.")?;
    Ok(())
}

/// Tells it, and notes which pods were added.
async fn story(node: &Node, source: &Source, root: &Path, pods: &mut Vec<PodUid>, out: &mut impl Write) -> Result<()> {
    writeln!(out, "A node whose volumes are below {}", root.display())?;

    writeln!(out, "\n1. A pod, and the ConfigMap and the Secret that it names, are given to the node")?;
    let begin = Instant::now();
    give(node, source, MANIFESTS, pods)?;
    // That was all there is: what is named and was not given does not exist.
    source.complete();
    let web = pods.first().ok_or("the manifests have no pod")?.clone();
    let volumes = node.ready(&web).await?;
    writeln!(out, "   {} volumes are there after {}", volumes.len(), since(begin))?;
    for volume in &volumes {
        show(volume, root, out)?;
    }

    writeln!(out, "\n2. The ConfigMap changes")?;
    let color = path(&volumes, "settings")?.join("color");
    writeln!(out, "   settings/color says {}", fs::read_to_string(&color)?)?;
    let mut changes = node.changes();
    let begin = Instant::now();
    give(node, source, CHANGED, pods)?;
    while fs::read_to_string(&color)? != "green" {
        changes.next().await.ok_or("the node has stopped")?;
    }
    writeln!(out, "   settings/color says green after {}", since(begin))?;

    writeln!(out, "\n3. Somebody unmounts the Secret")?;
    let keys = path(&volumes, "keys")?;
    let begin = Instant::now();
    rustix::mount::unmount(&keys, UnmountFlags::empty())?;
    loop {
        let Change::Volume { volume, code, .. } = changes.next().await.ok_or("the node has stopped")? else { continue };
        // What the change of the config map brought may still be on its way.
        if !volume.as_str().ends_with("-keys") {
            continue;
        }
        writeln!(out, "   after {} {code}: {}", since(begin), code.meaning())?;
        if code == Code::Mounted {
            break;
        }
    }
    let again = node.ready(&web).await?;
    let password = path(&again, "keys")?.join("password");
    writeln!(out, "   keys/password has its {} bytes again", fs::metadata(password)?.len())?;

    writeln!(out, "\n4. A pod comes whose ConfigMap does not exist")?;
    give(node, source, LATE, pods)?;
    let late = pods.last().ok_or("the manifests have no pod")?.clone();
    explain(node, &late, out).await?;
    let begin = Instant::now();
    give(node, source, FLAGS, pods)?;
    let volumes = node.ready(&late).await?;
    writeln!(out, "   Now it is made, and the volume is there after {}", since(begin))?;
    for volume in &volumes {
        show(volume, root, out)?;
    }

    writeln!(out, "\n5. The pods go")?;
    let begin = Instant::now();
    for pod in pods.iter() {
        source.gone(pod, Containers::Stopped);
    }
    for pod in pods.drain(..) {
        node.gone(&pod).await?;
    }
    writeln!(out, "   all volumes are gone after {}", since(begin))?;
    Ok(())
}

/// Takes away what a story that broke off has left, and ends the node.
async fn clear(node: Node, source: &Source, pods: &[PodUid]) -> Result<()> {
    for pod in pods {
        source.gone(pod, Containers::Stopped);
    }
    for pod in pods {
        tokio::time::timeout(PATIENCE, node.gone(pod)).await.map_err(|_| format!("pod {pod} does not go"))??;
    }
    node.stop(PATIENCE).await?;
    Ok(())
}

/// Gives everything in these manifests to the node.
fn give(node: &Node, source: &Source, manifests: &str, pods: &mut Vec<PodUid>) -> Result<()> {
    for document in manifest::read(manifests.as_bytes())? {
        match document {
            Document::Pod(pod) => pods.push(source.apply(*pod)?),
            Document::Object(object) => node.update_object(object),
            Document::Other(other) => return Err(other.to_string().into()),
        }
    }
    Ok(())
}

/// Shows a volume: what is mounted there, where it is, and the files in it.
fn show(volume: &Volume, root: &Path, out: &mut impl Write) -> Result<()> {
    let Some(path) = &volume.path else { return Ok(()) };
    let table = Reader::best().read()?;
    let what = match table.topmost(path) {
        Some(mount) => mount.kind.to_string_lossy().into_owned(),
        None => "directory".into(),
    };
    let below = path.strip_prefix(root).unwrap_or(path);
    writeln!(out, "   {:9} {what:9}  {:04o}  {}", volume.name, mode(path)?, below.display())?;
    let mut files: Vec<PathBuf> = fs::read_dir(path)?.map(|it| Ok(it?.path())).collect::<io::Result<_>>()?;
    files.sort();
    for file in files {
        let name = file.file_name().unwrap_or_default().to_string_lossy();
        // By these, content is replaced in one step.
        if name.starts_with("..") {
            continue;
        }
        let content = match name.as_ref() {
            "password" | "token" => format!("({} bytes, secret)", fs::metadata(&file)?.len()),
            _ => fs::read_to_string(&file)?,
        };
        writeln!(out, "   {:9} {:9}  {:04o}    {name}: {content}", "", "file", mode(&file)?)?;
    }
    Ok(())
}

/// Waits until the node knows what a pod waits for, and says it.
async fn explain(node: &Node, pod: &PodUid, out: &mut impl Write) -> Result<()> {
    let mut changes = node.changes();
    let explained = loop {
        let explained = node.explain(pod).await?;
        if explained.iter().flat_map(|it| &it.reasons).any(|it| it.code == Code::ObjectMissing) {
            break explained;
        }
        changes.next().await.ok_or("the node has stopped")?;
    };
    for it in explained {
        writeln!(out, "   {} waits:", it.volume)?;
        for reason in &it.reasons {
            writeln!(out, "     {}: {}", reason.code, reason.text)?;
        }
        if let Some(deepest) = it.reasons.last() {
            writeln!(out, "     what to do: {}", deepest.code.remedy())?;
        }
    }
    Ok(())
}

fn path(volumes: &[Volume], name: &str) -> Result<PathBuf> {
    let volume = volumes.iter().find(|it| it.name.as_str() == name);
    Ok(volume.and_then(|it| it.path.clone()).ok_or_else(|| format!("volume {name} is not there"))?)
}

fn mode(path: &Path) -> io::Result<u32> {
    Ok(fs::metadata(path)?.permissions().mode() & 0o7777)
}

fn since(begin: Instant) -> String {
    format!("{:.1} ms", begin.elapsed().as_secs_f64() * 1000.0)
}

/// A key to sign tokens with, as PEM.
fn new_key() -> Result<String> {
    let key = EcdsaKeyPair::generate_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, &SystemRandom::new())
        .map_err(|_| "no key could be made")?;
    Ok(format!("-----BEGIN PRIVATE KEY-----\n{}\n-----END PRIVATE KEY-----\n", STANDARD.encode(key)))
}
