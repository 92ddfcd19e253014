//! What holds of every type, and of the list.

use std::collections::BTreeSet;

use async_trait::async_trait;
use k8s_openapi::serde_json::{Value, from_value, json};
use windlass_core::spec::{Attach, Refresh};

use super::*;
use crate::plugin::{Failure, Made, Publish, Scene, Unpublish};

/// One volume of a pod for each of the sources that are set up here, or may be some day.
fn pod_volumes() -> Vec<Volume> {
    let sources = json!({
        "configMap": {"name": "m"},
        "csi": {"driver": "d"},
        "downwardAPI": {},
        "emptyDir": {},
        "fc": {},
        "gitRepo": {"repository": "r"},
        "hostPath": {"path": "/"},
        "image": {},
        "iscsi": {"targetPortal": "t", "iqn": "i", "lun": 0},
        "nfs": {"server": "s", "path": "/"},
        "projected": {},
        "secret": {},
    });
    each(&sources).map(|(source, value)| from_value(json!({"name": "v", source: value})).unwrap()).collect()
}

/// The same of persistent volumes.
fn persistent_volumes() -> Vec<PersistentVolume> {
    let sources = json!({
        "csi": {"driver": "d", "volumeHandle": "h"},
        "fc": {},
        "hostPath": {"path": "/"},
        "local": {"path": "/"},
        "nfs": {"server": "s", "path": "/"},
    });
    let spec = |(source, value): (&str, &Value)| json!({"metadata": {"name": "pv"}, "spec": {source: value}});
    each(&sources).map(|it| from_value(spec(it)).unwrap()).collect()
}

fn each(sources: &Value) -> impl Iterator<Item = (&str, &Value)> {
    sources.as_object().unwrap().iter().map(|(source, value)| (source.as_str(), value))
}

fn capabilities(volume_type: &VolumeType, origin: &Origin<'_>) -> Capabilities {
    (volume_type.capabilities)(&Circumstances {
        origin,
        object: None,
        registered: None,
        attacher: Attacher::Controller,
        republish_every: Duration::ZERO,
        deadline: Duration::ZERO,
    })
}

#[test]
fn every_volume_is_of_one_type_at_most_and_every_type_has_volumes() {
    let (of_pods, persistent) = (pod_volumes(), persistent_volumes());
    let origins = of_pods.iter().map(Origin::Pod);
    let origins = origins.chain(persistent.into_iter().map(|it| Origin::Persistent(Arc::new(it))));
    let mut found = BTreeSet::new();
    for origin in origins {
        match VolumeType::find(&origin) {
            Ok(it) => _ = found.insert(it.name),
            Err(error) => assert_eq!(error, Error::NoneMatched, "{origin:?}"),
        }
    }
    assert_eq!(found, ALL.iter().map(|it| it.name).collect());
}

/// E-66, P-13.
#[test]
fn names_of_plugins_are_unique_and_qualified() {
    let names: BTreeSet<&str> = ALL.iter().map(|it| it.name).collect();
    assert_eq!(names.len(), ALL.len());
    for name in names {
        assert_eq!(name.split('/').count(), 2, "{name}");
        assert_eq!(VolumeType::named(name).map(|it| it.name), Some(name));
    }
}

/// E-381.
#[test]
fn a_volume_has_one_plugin_or_an_error_that_says_why() {
    let volume = |sources: Value| -> Volume { from_value(sources).unwrap() };
    let find = |volume: &Volume| VolumeType::find(&Origin::Pod(volume)).map(|it| it.name).map_err(|it| it.to_string());
    let scratch = volume(json!({"name": "v", "emptyDir": {}}));
    assert_eq!(find(&scratch), Ok("kubernetes.io/empty-dir"));
    assert_eq!(find(&volume(json!({"name": "v"}))).unwrap_err(), "no volume plugin matched");
    let both = volume(json!({"name": "v", "emptyDir": {}, "hostPath": {"path": "/"}}));
    assert_eq!(
        find(&both).unwrap_err(),
        "multiple volume plugins matched: kubernetes.io/empty-dir,kubernetes.io/host-path"
    );
}

/// P-27..P-37: which types are made anew when their content changes, and which take mount options. A path of the host follows
/// its manifest, which in a cluster does not change.
#[test]
fn the_table_of_types_is_the_kubelets() {
    let scratch = Volume::default();
    for it in ALL {
        let capabilities = capabilities(it, &Origin::Pod(&scratch));
        let follows = it.content == Content::Written || it.name == "kubernetes.io/host-path";
        assert_eq!(capabilities.refresh == Refresh::OnChange, follows, "{it:?}");
        let has_options = ["kubernetes.io/csi", "kubernetes.io/local-volume"].contains(&it.name);
        assert_eq!(it.mount_options, has_options, "{it:?}");
        assert_eq!(capabilities.stage, it.name == "kubernetes.io/local-volume", "{it:?}");
        assert_eq!(capabilities.attach, Attach::NotNeeded, "{it:?}");
        let writable = !(it.attributes)(Access::ReadWrite).read_only;
        assert_eq!(writable, it.content != Content::Written && it.name != "kubernetes.io/image", "{it:?}");
    }
}

/// A description and the calls are all that a type needs.
#[test]
fn a_type_that_is_added_to_the_list_is_found_and_described() {
    struct Nfs;

    #[async_trait]
    impl Plugin for Nfs {
        async fn publish(&self, _: &Scene, _: &Publish<'_>) -> Result<Made, Failure> {
            Ok(Made::untouched("/".into()))
        }

        async fn unpublish(&self, _: &Scene, _: &Unpublish<'_>) -> Result<(), Failure> {
            Ok(())
        }
    }

    static NFS: VolumeType =
        VolumeType { in_pod: |it| it.nfs.is_some(), ..VolumeType::plain("kubernetes.io/nfs", &Nfs) };

    let types: Vec<&VolumeType> = ALL.iter().copied().chain([&NFS]).collect();
    let volume: Volume = from_value(json!({"name": "v", "nfs": {"server": "s", "path": "/"}})).unwrap();
    let origin = Origin::Pod(&volume);
    assert_eq!(VolumeType::find(&origin), Err(Error::NoneMatched));
    let found = find_in(&types, &origin).unwrap();
    assert_eq!(found, &NFS);
    assert_eq!(capabilities(found, &origin), Capabilities::default());
}
