//! What a plugin says of itself when it registers.

use std::path::{Component, Path};

use prost::Message as _;
use windlass_csi::proto::registration::PluginInfo;
use windlass_csi::{check_name, fuzzing, registration_socket};
use windlass_linux::name::Name;

/// Any message is read or refused; a name that passes is one plain part of a path; an endpoint that passes is absolute.
pub(crate) fn target(bytes: &[u8]) {
    let Ok(info) = PluginInfo::decode(bytes) else { return };
    assert_eq!(PluginInfo::decode(info.encode_to_vec().as_slice()).as_ref(), Ok(&info), "what was written is read");
    if check_name(&info.name).is_ok() {
        Name::new("driver", &info.name).expect("a driver's name is a part of a path");
        let socket = registration_socket(&info.name);
        let parts: Vec<_> = Path::new(&socket).components().collect();
        assert!(matches!(parts.as_slice(), [Component::Normal(_)]), "{socket} is one part of a path");
    }
    if fuzzing::speaks(&info.supported_versions) {
        let has_ours = |it: &String| it.trim_start().trim_start_matches('v').starts_with("1.");
        assert!(info.supported_versions.iter().any(has_ours), "{:?}", info.supported_versions);
    }
    let socket = Path::new("/run/plugin-reg.sock");
    if let Ok(endpoint) = fuzzing::endpoint(socket, &info.endpoint) {
        assert!(endpoint.is_absolute(), "{}", endpoint.display());
    }
}
