//! What written volumes show: fields of the pod by their paths, keys at paths in the volume.

use std::path::Component;

use k8s_openapi::api::core::v1::{
    ConfigMap, ConfigMapProjection, DownwardAPIVolumeFile, DownwardAPIVolumeSource, KeyToPath, ObjectFieldSelector,
    Pod, PodSpec, ProjectedVolumeSource, Volume, VolumeProjection,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use windlass::inner::{self, Memory, Surroundings};
use windlass::token;

use crate::parts;

/// Whatever a pod asks to be shown, and where: what comes of it stays within the volume, and is the same the second time.
pub(crate) fn target(bytes: &[u8]) {
    let text = |it: &[u8]| String::from_utf8_lossy(it).into_owned();
    let [field, path, key, key_path, value] = parts::<5>(bytes).map(text);
    let metadata = ObjectMeta {
        name: Some("web".into()),
        namespace: Some("default".into()),
        uid: Some("web-1".into()),
        labels: Some([("app".to_owned(), value.clone()), (key.clone(), value.clone())].into()),
        annotations: Some([("note".to_owned(), value.clone())].into()),
        ..ObjectMeta::default()
    };
    let fields = vec![DownwardAPIVolumeFile {
        path: path.clone(),
        field_ref: Some(ObjectFieldSelector { field_path: field, ..ObjectFieldSelector::default() }),
        ..DownwardAPIVolumeFile::default()
    }];
    let map = ConfigMapProjection {
        name: "settings".into(),
        items: (!key_path.is_empty())
            .then(|| vec![KeyToPath { key: key.clone(), path: key_path, ..KeyToPath::default() }]),
        optional: None,
    };
    let projected = ProjectedVolumeSource {
        default_mode: Some(0o644),
        sources: Some(vec![VolumeProjection { config_map: Some(map), ..VolumeProjection::default() }]),
        ..ProjectedVolumeSource::default()
    };
    let downward = DownwardAPIVolumeSource {
        default_mode: Some(0o644),
        items: Some(fields),
        ..DownwardAPIVolumeSource::default()
    };
    let volumes = [
        Volume { name: "info".into(), downward_api: Some(downward), ..Volume::default() },
        Volume { name: "all".into(), projected: Some(projected), ..Volume::default() },
    ];
    let spec = PodSpec { volumes: Some(volumes.to_vec()), ..PodSpec::default() };
    let pod = Pod { metadata, spec: Some(spec), status: None };
    let mut memory = Memory::new([1, 2]);
    let named =
        ObjectMeta { name: Some("settings".into()), namespace: Some("default".into()), ..ObjectMeta::default() };
    memory.put(ConfigMap { metadata: named, data: Some([(key, value)].into()), ..ConfigMap::default() }.into());
    for volume in &volumes {
        let contents = || {
            let tokens = &|_: &_| Err(token::Error::NoProvider);
            inner::contents(&pod, volume, Surroundings { node: "node-1", sources: &memory, tokens })
        };
        let (Ok(once), Ok(again)) = (contents(), contents()) else { continue };
        let mut others = again.files();
        for (path, file) in once.files() {
            let mut parts = path.as_path().components();
            assert!(parts.all(|it| matches!(it, Component::Normal(_))), "{path:?} leads elsewhere");
            assert!(!path.first().as_bytes().starts_with(b".."), "{path:?} is where links of our own are");
            let (other_path, other) = others.next().expect("as many files as before");
            assert!(path == other_path && file.contents == other.contents, "{path:?} is the same the second time");
        }
    }
}
