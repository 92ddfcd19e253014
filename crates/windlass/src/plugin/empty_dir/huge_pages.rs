//! Which size of huge pages a volume is made of (P-66..P-68).

use std::collections::BTreeMap;
use std::ffi::OsStr;

use k8s_openapi::api::core::v1::{PodSpec, ResourceRequirements};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;

use crate::quantity;

/// The medium whose page size is that of the pod's requests.
pub(super) const MEDIUM: &str = "HugePages";
/// How a medium begins that names its page size itself.
pub(super) const SIZED_MEDIUM: &str = "HugePages-";
/// How the name of a request for huge pages begins.
const RESOURCE: &str = "hugepages-";

/// Why a volume has no page size.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub(super) enum Error {
    /// The medium leaves the size to the pod, and the pod does not decide.
    #[error("medium: {medium} can't be used if container requests multiple huge page sizes")]
    Several { medium: String },
    /// No part of the pod requests pages of this size, or of any.
    #[error("medium {medium}: hugePages storage requested, but there is no resource request for huge pages")]
    NotRequested { medium: String },
    /// The name of the medium, or of a request, holds no size.
    #[error("read the page size in {name}")]
    Size {
        name: String,
        #[source]
        source: quantity::Error,
    },
    /// A mount does not tell its page size.
    #[error("the mount has no page size among its options")]
    NoOption,
}

/// The page size for a volume of this medium in this pod (P-67).
pub(super) fn choose(medium: &str, pod: &PodSpec) -> Result<u64, Error> {
    let named = named(medium)?;
    let mut found = None;
    for name in requests(pod) {
        let Some(size) = name.strip_prefix(RESOURCE) else { continue };
        let bytes = parse(name, size)?;
        match (named, found) {
            (Some(named), _) if bytes != named => {}
            (None, Some(other)) if bytes != other => return Err(Error::Several { medium: medium.into() }),
            _ => found = Some(bytes),
        }
    }
    found.ok_or_else(|| Error::NotRequested { medium: medium.into() })
}

/// The page size that a medium names; `None` if it leaves that to the pod.
pub(super) fn named(medium: &str) -> Result<Option<u64>, Error> {
    medium.strip_prefix(SIZED_MEDIUM).map(|size| parse(medium, size)).transpose()
}

/// The page size of a mount, by its option `pagesize`, which the kernel writes as `2M` and means `2Mi` (P-68).
pub(super) fn mounted(option: Option<&OsStr>) -> Result<u64, Error> {
    let option = option.ok_or(Error::NoOption)?.to_string_lossy();
    let size = if option.ends_with(['K', 'M', 'G']) { format!("{option}i") } else { option.to_string() };
    parse(&format!("pagesize={option}"), &size)
}

/// A page size in the words of Kubernetes, which the kernel understands as well: `2Mi`.
pub(super) fn spelled(bytes: u64) -> String {
    let mut units = ["", "Ki", "Mi", "Gi", "Ti"].into_iter().peekable();
    let mut count = bytes;
    while count > 0 && count.is_multiple_of(1024) && units.len() > 1 {
        count /= 1024;
        units.next();
    }
    format!("{count}{}", units.next().unwrap_or_default())
}

fn parse(name: &str, size: &str) -> Result<u64, Error> {
    quantity::bytes(size).map_err(|source| Error::Size { name: name.into(), source })
}

/// The names of all requests of a pod: of the pod as a whole (P-11) and of its containers.
fn requests(pod: &PodSpec) -> impl Iterator<Item = &str> {
    fn of(resources: Option<&ResourceRequirements>) -> Option<&BTreeMap<String, Quantity>> {
        resources?.requests.as_ref()
    }
    let containers = pod.containers.iter().chain(pod.init_containers.iter().flatten());
    let lists = std::iter::once(pod.resources.as_ref()).chain(containers.map(|it| it.resources.as_ref()));
    lists.filter_map(of).flat_map(BTreeMap::keys).map(String::as_str)
}

#[cfg(test)]
mod tests {
    use k8s_openapi::serde_json::{self, Value, json};

    use super::*;

    fn requests(sizes: &[&str]) -> Value {
        let requests: serde_json::Map<String, Value> = sizes
            .iter()
            .map(|it| (format!("hugepages-{it}"), "4Mi".into()))
            .chain([("cpu".into(), "1".into())])
            .collect();
        json!({"requests": requests})
    }

    fn container(sizes: &[&str]) -> Value {
        json!({"name": "c", "resources": requests(sizes)})
    }

    fn chosen(medium: &str, spec: Value) -> Result<String, String> {
        let spec: PodSpec = serde_json::from_value(spec).unwrap();
        choose(medium, &spec).map(spelled).map_err(|it| it.to_string())
    }

    /// T-4.
    #[test]
    fn one_page_size_over_all_containers_is_taken() {
        let pod = json!({
            "containers": [container(&["2Mi"]), {"name": "none"}],
            "initContainers": [container(&["2Mi"]), container(&[])],
        });
        assert_eq!(chosen("HugePages", pod).unwrap(), "2Mi");
        assert_eq!(chosen("HugePages", json!({"containers": [container(&["1Gi"])]})).unwrap(), "1Gi");
        let init = json!({"containers": [], "initContainers": [container(&["1Gi"])]});
        assert_eq!(chosen("HugePages", init).unwrap(), "1Gi");
        let alike = json!({"containers": [container(&["2Mi"]), container(&["2048Ki"])]});
        assert_eq!(chosen("HugePages", alike).unwrap(), "2Mi", "two names of one size");
    }

    /// T-5.
    #[test]
    fn without_one_page_size_there_is_no_volume() {
        let several = "medium: HugePages can't be used if container requests multiple huge page sizes";
        let none = "hugePages storage requested, but there is no resource request for huge pages";
        let two = json!({"containers": [container(&["2Mi"]), container(&["1Gi"])]});
        assert_eq!(chosen("HugePages", two.clone()).unwrap_err(), several);
        assert_eq!(chosen("HugePages", json!({"containers": [container(&["2Mi", "1Gi"])]})).unwrap_err(), several);
        let nothing = json!({"containers": [container(&[])]});
        assert_eq!(chosen("HugePages", nothing.clone()).unwrap_err(), format!("medium HugePages: {none}"));
        assert_eq!(chosen("HugePages-2Mi", nothing).unwrap_err(), format!("medium HugePages-2Mi: {none}"));
        assert_eq!(chosen("HugePages-64Ki", two.clone()).unwrap_err(), format!("medium HugePages-64Ki: {none}"));
        assert_eq!(chosen("HugePages-", two.clone()).unwrap_err(), "read the page size in HugePages-");
        assert_eq!(chosen("HugePages-large", two).unwrap_err(), "read the page size in HugePages-large");
        let odd = json!({"containers": [container(&["large"])]});
        assert_eq!(chosen("HugePages", odd).unwrap_err(), "read the page size in hugepages-large");
    }

    /// T-6.
    #[test]
    fn a_medium_that_names_its_size_finds_it_among_several() {
        for pod in [
            json!({"containers": [container(&["2Mi", "1Gi"])]}),
            json!({"containers": [container(&["2Mi"])], "initContainers": [container(&["1Gi"])]}),
            json!({"containers": [], "resources": requests(&["2Mi", "1Gi"])}),
        ] {
            assert_eq!(chosen("HugePages-2Mi", pod.clone()).unwrap(), "2Mi");
            assert_eq!(chosen("HugePages-1Gi", pod).unwrap(), "1Gi");
        }
        let pod = json!({"containers": [container(&[])], "resources": requests(&["2Mi"])});
        assert_eq!(chosen("HugePages", pod).unwrap(), "2Mi", "P-11");
    }

    /// P-68.
    #[test]
    fn the_kernels_words_for_a_page_size_are_understood() {
        let mounted = |option: &str| mounted(Some(OsStr::new(option)));
        assert_eq!(mounted("2M"), Ok(2 << 20));
        assert_eq!(mounted("1024M"), Ok(1 << 30));
        assert_eq!(mounted("1G"), Ok(1 << 30));
        assert_eq!(mounted("64K"), Ok(64 << 10));
        assert!(matches!(mounted("M"), Err(Error::Size { .. })));
        assert_eq!(super::mounted(None), Err(Error::NoOption));
    }

    #[test]
    fn a_page_size_is_spelled_with_its_largest_unit() {
        for (bytes, text) in [(0, "0"), (1000, "1000"), (1 << 16, "64Ki"), (2 << 20, "2Mi"), (1 << 30, "1Gi")] {
            assert_eq!(spelled(bytes), text);
        }
        assert_eq!(spelled(1 << 50), "1024Ti");
    }
}
