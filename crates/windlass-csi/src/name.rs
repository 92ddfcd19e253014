//! What a driver may be called.

/// The longest name of a driver.
const BYTES_MAX: usize = 63;

/// Why something is not a driver's name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NameError {
    /// There is none.
    #[error("a driver's name must not be empty")]
    Empty,
    /// It is too long.
    #[error("a driver's name is at most {BYTES_MAX} bytes long")]
    TooLong,
    /// It is not like a name in the DNS.
    #[error(
        "a driver's name is made of letters, digits, `-` and `.`, and each part begins and ends with a letter or digit"
    )]
    NotLikeDns,
}

/// Whether this can be a driver's name: like a name in the DNS, in letters of either case, and not too long. Names become
/// parts of paths, so nothing else may pass.
pub fn check_name(name: &str) -> Result<(), NameError> {
    if name.is_empty() {
        return Err(NameError::Empty);
    }
    if name.len() > BYTES_MAX {
        return Err(NameError::TooLong);
    }
    let edge = |c: Option<char>| c.is_some_and(|it| it.is_ascii_alphanumeric());
    let fine = name.split('.').all(|part| {
        edge(part.chars().next())
            && edge(part.chars().next_back())
            && part.chars().all(|it| it.is_ascii_alphanumeric() || it == '-')
    });
    if fine { Ok(()) } else { Err(NameError::NotLikeDns) }
}

/// What a driver calls the socket on which it introduces itself.
///
/// A kubelet names the whole path in every call, as the host that it calls (`:authority`), with each `/` as `%2F`. Servers
/// that take the word for a host refuse that, those of this workspace among them; but what stands before an `@` is not the
/// host, and may have such signs in it.
pub fn registration_socket(name: &str) -> String {
    format!("@{name}-reg.sock")
}

#[cfg(test)]
mod tests {
    use std::path::{Component, Path};

    use proptest::prelude::*;

    use super::*;

    #[test]
    fn names_of_drivers_that_exist_are_names() {
        for name in ["ebs.csi.aws.com", "hostpath.csi.k8s.io", "a", "Disk-2.example", "x--y"] {
            assert_eq!(check_name(name), Ok(()), "{name}");
        }
        assert_eq!(check_name(&"a".repeat(63)), Ok(()));
    }

    #[test]
    fn names_that_could_lead_elsewhere_are_not() {
        for name in
            ["..", ".", "a/b", "/", "a..b", ".a", "a.", "-a", "a-", "a_b", "a b", "a\0", "ä.example", "a^b", "~"]
        {
            assert_eq!(check_name(name), Err(NameError::NotLikeDns), "{name}");
        }
        assert_eq!(check_name(""), Err(NameError::Empty));
        assert_eq!(check_name(&"a".repeat(64)), Err(NameError::TooLong));
    }

    #[test]
    fn a_kubelets_words_for_the_socket_are_a_host_to_us() {
        use tonic::codegen::http::uri::Authority;
        let words = |socket: &str| format!("/var/lib/kubelet/plugins_registry/{socket}").replace('/', "%2F");
        let read = Authority::try_from(words(&registration_socket("disks.example.com"))).unwrap();
        assert_eq!(read.host(), "disks.example.com-reg.sock");
        assert!(Authority::try_from(words("disks.example.com-reg.sock")).is_err());
    }

    proptest! {
        #[test]
        fn whatever_passes_is_one_plain_part_of_a_path(name in "[-a-zA-Z0-9._/~^\\x00-\\x20ä]{0,70}|\\PC{0,10}") {
            if check_name(&name).is_ok() {
                let parts: Vec<_> = Path::new(&name).components().collect();
                prop_assert!(matches!(parts.as_slice(), [Component::Normal(it)] if *it == name.as_str()));
                prop_assert!(name.is_ascii() && name.len() <= BYTES_MAX && !name.starts_with(['.', '-']));
            }
        }
    }
}
