//! One volume of a pod, and what it has in common with a persistent volume.

use k8s_openapi::api::core::v1::{
    DownwardAPIVolumeFile, HostPathVolumeSource, KeyToPath, ProjectedVolumeSource, Volume, VolumeProjection,
};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use serde::Serialize;
use windlass_linux::name::Relative;

use super::Findings;
use crate::catalogue::{Origin, VolumeType};
use crate::quantity;

/// Kinds that CSI drivers have taken over.
const MIGRATED: [&str; 7] = [
    "awsElasticBlockStore",
    "azureDisk",
    "azureFile",
    "cinder",
    "gcePersistentDisk",
    "portworxVolume",
    "vsphereVolume",
];

/// The fields that a value has, as they are written.
pub(super) fn fields_of(value: &impl Serialize) -> Vec<String> {
    match serde_json::to_value(value) {
        Ok(serde_json::Value::Object(fields)) => fields.into_iter().map(|(name, _)| name).collect(),
        Ok(_) | Err(_) => Vec::new(),
    }
}

impl Findings {
    pub(super) fn volume(&mut self, field: &str, volume: &Volume) {
        let mut sources = fields_of(volume);
        sources.retain(|it| it != "name");
        if sources.len() > 1 {
            let text = format!("it has {} sources, {}; keep one of them", sources.len(), sources.join(", "));
            self.warning(field, text);
        }
        if volume.persistent_volume_claim.is_none() && volume.ephemeral.is_none() {
            self.mountable(field, &sources, &Origin::Pod(volume));
        }
        let required = |value: &str| value.is_empty().then_some("it is missing");
        if let Some(it) = &volume.config_map {
            let field = format!("{field}.configMap");
            self.missing(format!("{field}.name"), required(&it.name));
            self.mode(&format!("{field}.defaultMode"), it.default_mode);
            self.items(&field, it.items.as_deref());
        }
        if let Some(it) = &volume.secret {
            let field = format!("{field}.secret");
            self.missing(format!("{field}.secretName"), required(it.secret_name.as_deref().unwrap_or_default()));
            self.mode(&format!("{field}.defaultMode"), it.default_mode);
            self.items(&field, it.items.as_deref());
        }
        if let Some(it) = &volume.downward_api {
            let field = format!("{field}.downwardAPI");
            self.mode(&format!("{field}.defaultMode"), it.default_mode);
            self.downward(&field, it.items.as_deref());
        }
        if let Some(it) = &volume.projected {
            self.projected(&format!("{field}.projected"), it);
        }
        if let Some(it) = &volume.empty_dir {
            let medium = it.medium.as_deref().unwrap_or_default();
            let known = ["", "Memory", "HugePages"].contains(&medium) || medium.starts_with("HugePages-");
            if !known {
                let text = format!("{medium:?} is none of \"\", Memory, HugePages and HugePages-<size>");
                self.warning(format!("{field}.emptyDir.medium"), text);
            }
            self.quantity(format!("{field}.emptyDir.sizeLimit"), it.size_limit.as_ref());
        }
        if let Some(it) = &volume.host_path {
            self.host_path(&format!("{field}.hostPath"), it);
        }
        if let Some(it) = &volume.persistent_volume_claim {
            self.missing(format!("{field}.persistentVolumeClaim.claimName"), required(&it.claim_name));
        }
        if let Some(it) = &volume.csi {
            self.missing(format!("{field}.csi.driver"), required(&it.driver));
        }
        if let Some(it) = &volume.image {
            self.missing(format!("{field}.image.reference"), required(it.reference.as_deref().unwrap_or_default()));
        }
    }

    /// Whether windlass can mount such a volume.
    pub(super) fn mountable(&mut self, field: &str, sources: &[String], origin: &Origin<'_>) {
        let migrated = sources.iter().find(|it| MIGRATED.contains(&it.as_str()));
        match VolumeType::find(origin) {
            Ok(it) if it.refusal.is_none() => {}
            Err(_) if migrated.is_some() => {}
            Ok(_) | Err(_) => {
                if let [source] = sources {
                    self.warning(format!("{field}.{source}"), "windlass cannot mount volumes of this kind");
                }
            }
        }
    }

    fn missing(&mut self, field: String, text: Option<&str>) {
        if let Some(text) = text {
            self.warning(field, text);
        }
    }

    pub(super) fn quantity(&mut self, field: String, quantity: Option<&Quantity>) {
        if let Some(Err(error)) = quantity.map(|it| quantity::bytes(&it.0)) {
            self.warning(field, error.to_string());
        }
    }

    pub(super) fn host_path(&mut self, field: &str, source: &HostPathVolumeSource) {
        const TYPES: [&str; 8] =
            ["", "DirectoryOrCreate", "Directory", "FileOrCreate", "File", "Socket", "CharDevice", "BlockDevice"];
        let kind = source.type_.as_deref().unwrap_or_default();
        if !TYPES.contains(&kind) {
            let text = format!("{kind:?} is no type of a path; it is one of {}", TYPES[1..].join(", "));
            self.warning(format!("{field}.type"), text);
        }
        self.host_file(format!("{field}.path"), &source.path);
    }

    /// A path of the host.
    pub(super) fn host_file(&mut self, field: String, path: &str) {
        if path.is_empty() {
            self.warning(field, "it is missing");
        } else if path.split('/').any(|it| it == "..") {
            self.warning(field, format!("{path:?} contains \"..\""));
        } else if !path.starts_with('/') {
            self.warning(field, format!("{path:?} does not begin with a slash"));
        }
    }

    fn mode(&mut self, field: &str, mode: Option<i32>) {
        if let Some(mode) = mode
            && !(0..=0o777).contains(&mode)
        {
            let text =
                format!("{mode} ({mode:#o}) is not between 0 and 0777; in YAML an octal mode begins with a zero");
            self.warning(field, text);
        }
    }

    fn items(&mut self, field: &str, items: Option<&[KeyToPath]>) {
        for (index, item) in items.unwrap_or_default().iter().enumerate() {
            let field = format!("{field}.items[{index}]");
            if item.key.is_empty() {
                self.warning(format!("{field}.key"), "it is missing");
            }
            self.item_path(format!("{field}.path"), &item.path);
            self.mode(&format!("{field}.mode"), item.mode);
        }
    }

    /// A path below the volume.
    fn item_path(&mut self, field: String, path: &str) {
        if let Err(error) = Relative::new("path", path) {
            self.warning(field, format!("{path:?} cannot be used: {}", error.reason));
        } else if path.split('/').next().is_some_and(|it| it.starts_with("..")) {
            self.warning(field, format!("{path:?} begins with \"..\", which is kept for links"));
        }
    }

    fn downward(&mut self, field: &str, items: Option<&[DownwardAPIVolumeFile]>) {
        for (index, item) in items.unwrap_or_default().iter().enumerate() {
            let field = format!("{field}.items[{index}]");
            self.item_path(format!("{field}.path"), &item.path);
            self.mode(&format!("{field}.mode"), item.mode);
            if item.field_ref.is_some() == item.resource_field_ref.is_some() {
                self.warning(field, "it needs either a fieldRef or a resourceFieldRef");
            }
        }
    }

    fn projected(&mut self, field: &str, source: &ProjectedVolumeSource) {
        self.mode(&format!("{field}.defaultMode"), source.default_mode);
        for (index, source) in source.sources.iter().flatten().enumerate() {
            self.projection(&format!("{field}.sources[{index}]"), source);
        }
    }

    fn projection(&mut self, field: &str, source: &VolumeProjection) {
        let kinds = fields_of(source);
        if kinds.len() != 1 {
            self.warning(field, format!("it has {} sources, and each entry needs one", kinds.len()));
        }
        if let Some(it) = &source.config_map {
            self.items(&format!("{field}.configMap"), it.items.as_deref());
        }
        if let Some(it) = &source.secret {
            self.items(&format!("{field}.secret"), it.items.as_deref());
        }
        if let Some(it) = &source.downward_api {
            self.downward(&format!("{field}.downwardAPI"), it.items.as_deref());
        }
        if let Some(it) = &source.service_account_token {
            let field = format!("{field}.serviceAccountToken");
            self.item_path(format!("{field}.path"), &it.path);
            if it.expiration_seconds.is_some_and(|it| it < 600) {
                self.warning(format!("{field}.expirationSeconds"), "it is less than 600, ten minutes");
            }
        }
    }
}
