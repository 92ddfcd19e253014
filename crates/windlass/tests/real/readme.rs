//! The program in the README, as it stands there, on the examples that it names.

use std::error::Error;
use std::fs;
use std::path::Path;
use std::time::Duration;

use rustix::mount::{MountFlags, mount};
use windlass::Node;
use windlass::manifest::{self, Document};

use crate::case::Case;
use crate::tests;

tests![the_program_in_the_readme_mounts_what_the_examples_say];

const REPOSITORY: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");

async fn program() -> Result<(), Box<dyn Error>> {
    // As in the README.
    let node = Node::builder("/var/lib/example").node_name("node-1").start()?;
    let source = node.source("manifests");

    let mut pods = Vec::new();
    for file in ["web.yaml", "settings.yaml", "keys.yaml", "disk.yaml"] {
        for document in manifest::read(&std::fs::read(file)?)? {
            match document {
                Document::Pod(mut pod) => {
                    // Manifests rarely have one; this follows from the pod's name, as for the daemon.
                    manifest::give_uid(&mut pod);
                    pods.push(source.apply(*pod)?);
                }
                Document::Object(object) => node.update_object(object),
                Document::Other(other) => eprintln!("skipped: {other}"),
            }
        }
    }
    // That was all: what is on disk of other pods may go.
    source.complete();

    for pod in &pods {
        // `ready` would wait through any trouble, for any time.
        if let Err(error) = node.sync(pod, Duration::from_secs(2)).await {
            eprintln!("{error}");
        }
        for volume in node.volumes(pod).await? {
            println!("{} is at {:?}, read-only: {}", volume.name, volume.path, volume.read_only);
        }
    }
    // Ends in order and leaves the volumes mounted; the next start finds them.
    node.stop(Duration::from_secs(10)).await?;
    // To here.
    Ok(())
}

fn the_program_in_the_readme_mounts_what_the_examples_say(_: &Case) {
    let readme = fs::read_to_string(Path::new(REPOSITORY).join("README.md")).unwrap();
    let (_, section) = readme.split_once("\n## Embed\n").unwrap();
    let (_, text) = section.split_once("let node = ").unwrap();
    let (text, _) = text.split_once("```").unwrap();
    let own = include_str!("readme.rs");
    let (_, own) = own.split_once("    // As in the README.\n").unwrap();
    let (own, _) = own.split_once("    // To here.\n").unwrap();
    let own: String = own.lines().map(|it| format!("{}\n", it.strip_prefix("    ").unwrap_or(it))).collect();
    assert_eq!(own, format!("let node = {text}"), "this test runs what the README says");

    // The thread has a mount namespace and a working directory to itself.
    mount("tests", "/var/lib", "tmpfs", MountFlags::empty(), None).unwrap();
    std::env::set_current_dir(Path::new(REPOSITORY).join("examples")).unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
    runtime.block_on(program()).unwrap();
    let volumes = Path::new("/var/lib/example/pods/965ecbee-30fe-8e80-afd2-ea1dfcd02a45/volumes");
    assert!(volumes.join("kubernetes.io~configmap/settings").is_dir());
    assert!(volumes.join("kubernetes.io~secret/keys").is_dir());
    assert!(volumes.join("kubernetes.io~empty-dir/scratch").is_dir());
}
