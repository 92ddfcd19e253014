//! Places in a volume where a container mounts other volumes (P-112).
//!
//! Containers only read written volumes, so whoever starts them could not make these directories.

use super::error::{Error, Flaw};
use k8s_openapi::api::core::v1::{PodSpec, VolumeMount};
use std::collections::BTreeSet;
use windlass_linux::atomic_dir;
use windlass_linux::name::Relative;

/// The directories to be made in a volume because other mounts of a container lie below it: the outermost only, because
/// what lies below those is not in this volume.
pub(crate) fn nested_directories(spec: &PodSpec, volume: &str) -> Result<Vec<Relative>, Error> {
    let mut directories = BTreeSet::new();
    let plain = spec.containers.iter().map(|it| ("containers", &it.name, &it.volume_mounts));
    let init = spec.init_containers.iter().flatten().map(|it| ("initContainers", &it.name, &it.volume_mounts));
    let late = spec.ephemeral_containers.iter().flatten();
    let late = late.map(|it| ("ephemeralContainers", &it.name, &it.volume_mounts));
    for (kind, name, mounts) in plain.chain(init).chain(late) {
        let mounts = mounts.as_deref().unwrap_or_default();
        container(&format!("spec.{kind}[{name}]"), mounts, volume, &mut directories)?;
    }
    Ok(directories.into_iter().collect())
}

/// Where something is mounted in a container, without `.`, `..` and doubled slashes.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Cleaned<'a> {
    absolute: bool,
    names: Vec<&'a str>,
}

impl<'a> Cleaned<'a> {
    /// `None` if the path leads out of where it begins.
    fn new(path: &'a str) -> Option<Self> {
        let absolute = path.starts_with('/');
        let mut names = Vec::new();
        for name in path.split('/') {
            match name {
                "" | "." => {}
                // Above the root is the root.
                ".." => {
                    if names.pop().is_none() && !absolute {
                        return None;
                    }
                }
                _ => names.push(name),
            }
        }
        Some(Self { absolute, names })
    }

    /// The way from here to a place below.
    fn to<'b>(&self, other: &'b Cleaned<'a>) -> Option<&'b [&'a str]> {
        let below = other.names.strip_prefix(self.names.as_slice()).filter(|it| !it.is_empty())?;
        (self.absolute == other.absolute).then_some(below)
    }
}

fn container(at: &str, mounts: &[VolumeMount], volume: &str, directories: &mut BTreeSet<Relative>) -> Result<(), Flaw> {
    let field = |index: usize| format!("{at}.volumeMounts[{index}].mountPath");
    // In order of their names, so that what lies below a place follows it directly.
    let mut places: Vec<(Cleaned<'_>, usize)> =
        mounts.iter().enumerate().filter_map(|(index, it)| Some((Cleaned::new(&it.mount_path)?, index))).collect();
    places.sort();
    for (index, mount) in mounts.iter().enumerate().filter(|(_, it)| it.name == volume) {
        let here = Cleaned::new(&mount.mount_path)
            .ok_or_else(|| Flaw::MountPath { field: field(index), path: mount.mount_path.clone() })?;
        if here.names.is_empty() {
            continue; // at the root of the container, which has directories of its own
        }
        let mut outer: Option<&[&str]> = None;
        for (place, index) in &places {
            let Some(below) = here.to(place) else { continue };
            if outer.is_some_and(|it| below.starts_with(it)) {
                continue;
            }
            outer = Some(below);
            let refused = |cause| Flaw::Path { field: field(*index), cause };
            let path = Relative::new("path", below.join("/")).map_err(|it| refused(it.into()))?;
            // Whatever has such a name belongs to the one who writes the volume.
            if path.first().as_bytes().starts_with(b"..") {
                return Err(refused(atomic_dir::Error::Reserved { path }));
            }
            directories.insert(path);
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use k8s_openapi::serde_json::{self, Value, json};

    /// The directories in volume `v`, which is mounted at the first path; other volumes are at the others.
    fn nested(paths: &[&str]) -> Result<Vec<String>, String> {
        let mount = |(index, path): (usize, &&str)| -> Value {
            json!({"name": if index == 0 { "v" } else { "other" }, "mountPath": path})
        };
        let mounts: Vec<Value> = paths.iter().enumerate().map(mount).collect();
        of(json!({"containers": [{"name": "main", "volumeMounts": mounts}]}))
    }

    fn of(spec: Value) -> Result<Vec<String>, String> {
        let spec: PodSpec = serde_json::from_value(spec).unwrap();
        let directories = nested_directories(&spec, "v").map_err(|it| it.to_string())?;
        Ok(directories.iter().map(Relative::to_string).collect())
    }

    fn paths(paths: &[&str]) -> Result<Vec<String>, String> {
        Ok(paths.iter().map(ToString::to_string).collect())
    }

    #[test]
    fn t_20_only_the_outermost_directories_are_made() {
        let all = [
            "/dir",
            "/dir/nested",
            "/dir/nested/double",
            "/dir/nested-vol",
            "/dir/nested.vol",
            "/dir/nested2",
            "/dir/nested2/double",
        ];
        assert_eq!(nested(&all), paths(&["nested", "nested-vol", "nested.vol", "nested2"]));
        assert_eq!(nested(&["/dir", "/dir/a/b/c", "/dir-other", "/other/dir/x", "/"]), paths(&["a/b/c"]));
        assert_eq!(nested(&["/dir/./", "//dir/x/../cache/"]), paths(&["cache"]));
        assert_eq!(nested(&["/dir", "dir/relative"]), paths(&[]));
        assert_eq!(nested(&["dir", "dir/relative"]), paths(&["relative"]));
    }

    #[test]
    fn a_volume_at_the_root_of_its_container_gets_none() {
        assert_eq!(nested(&["/", "/var/cache"]), paths(&[]));
        assert_eq!(nested(&["/a/..", "/var/cache"]), paths(&[]));
    }

    #[test]
    fn t_21_a_mount_path_that_leads_out_of_its_container_is_refused() {
        let refused = "spec.containers[main].volumeMounts[0].mountPath: invalid container mount point foo/../../dir";
        assert_eq!(nested(&["foo/../../dir"]), Err(refused.into()));
        assert_eq!(nested(&["/foo/../../dir", "/dir/x"]), paths(&["x"]), "above the root is the root");
        assert_eq!(nested(&["/dir", "../dir/x"]), paths(&[]), "somebody else's");
    }

    #[test]
    fn names_that_the_volume_needs_for_itself_are_refused() {
        for (path, why) in [
            ("/dir/..data", "write ..data: names that begin with \"..\" are reserved"),
            ("/dir/./..data/x", "write ..data/x: names that begin with \"..\" are reserved"),
            ("/dir/a\0b", "path \"a\\x00b\" cannot be used: it contains a NUL byte"),
        ] {
            let field = "spec.containers[main].volumeMounts[1].mountPath";
            assert_eq!(nested(&["/dir", path]), Err(format!("{field}: {why}")));
        }
        assert!(nested(&["/dir", &format!("/dir/{}", "x".repeat(300))]).is_err());
        assert_eq!(nested(&["/dir", "/dir/a/..data"]), paths(&["a/..data"]), "further in nobody minds");
    }

    #[test]
    fn containers_of_all_kinds_count_each_for_itself() {
        let mounts = |path: &str| {
            let mount = |name: &str, path: &str| json!({"name": name, "mountPath": path});
            json!([mount("v", "/v"), mount("v", "/w"), mount("o", path)])
        };
        let spec = json!({
            "containers": [
                {"name": "a", "volumeMounts": mounts("/v/a")},
                {"name": "b", "volumeMounts": mounts("/w/a/b")},
                {"name": "c", "volumeMounts": [{"name": "o", "mountPath": "/v/not"}]},
            ],
            "initContainers": [{"name": "i", "volumeMounts": mounts("/v/init")}],
            "ephemeralContainers": [{"name": "e", "volumeMounts": mounts("/v/late")}],
        });
        assert_eq!(of(spec), paths(&["a", "a/b", "init", "late"]));
    }
}
