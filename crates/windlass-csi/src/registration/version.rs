//! Which versions of CSI a driver speaks (C-12).

/// The major version that we speak.
const MAJOR: u64 = 1;

/// Why none of a driver's versions will do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum VersionError {
    #[error("it names no version of CSI that it supports")]
    None,
    #[error("it supports no version 1.x of CSI")]
    NotOurs,
}

/// Whether one of the versions is one that we speak.
pub(crate) fn check(versions: &[String]) -> Result<(), VersionError> {
    if versions.is_empty() {
        return Err(VersionError::None);
    }
    // The highest of those up to ours must be ours: so one that is ours is all it takes.
    if versions.iter().any(|it| major(it) == Some(MAJOR)) { Ok(()) } else { Err(VersionError::NotOurs) }
}

/// The major version, read as leniently as the kubelet does: white space and a `v` may stand before the numbers, and
/// anything behind them. There must be two numbers at least.
fn major(version: &str) -> Option<u64> {
    let version = version.trim_start_matches([' ', '\t', '\n', '\r', '\u{c}']);
    let version = version.strip_prefix('v').unwrap_or(version);
    let mut parts = Vec::new();
    let mut rest = version;
    loop {
        let end = rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len());
        let (number, after) = rest.split_at(end);
        if number.is_empty() {
            break;
        }
        parts.push(number);
        match after.strip_prefix('.') {
            Some(it) => rest = it,
            None => break,
        }
    }
    let (first, others) = parts.split_first()?;
    if others.is_empty() || (first.len() > 1 && first.starts_with('0')) {
        return None;
    }
    // A number that is beyond counting makes it no version.
    if others.iter().any(|it| it.parse::<u64>().is_err()) {
        return None;
    }
    first.parse().ok()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn versions(given: &[&str]) -> Result<(), VersionError> {
        check(&given.iter().map(ToString::to_string).collect::<Vec<_>>())
    }

    /// T-1.
    #[test]
    fn one_version_that_is_ours_is_enough_and_necessary() {
        assert_eq!(versions(&[]), Err(VersionError::None));
        for given in
            [&["0.3.0"][..], &["4.9.12", "2.0.1"], &["var", "boo"], &["1"], &["01.0"], &["1.99999999999999999999"]]
        {
            assert_eq!(versions(given), Err(VersionError::NotOurs), "{given:?}");
        }
        for given in [&["v1.2.3", "boo", "0.3.0", "2.0.1"][..], &["0.2.0", "1.0"], &[" 1.0.0-rc1"], &["1.0."]] {
            assert_eq!(versions(given), Ok(()), "{given:?}");
        }
    }

    proptest! {
        #[test]
        fn numbers_that_were_written_are_read(major_was: u32, minor: u32, patch in proptest::option::of(0u32..), after in "[-+ a-z]*") {
            let patch = patch.map(|it| format!(".{it}")).unwrap_or_default();
            for before in ["", "v", " v", "\t"] {
                prop_assert_eq!(major(&format!("{before}{major_was}.{minor}{patch}{after}")), Some(major_was.into()));
            }
        }

        #[test]
        fn nothing_that_is_written_does_harm(version in "\\PC{0,40}|[v0-9. ]{0,40}") {
            if major(&version).is_some() {
                prop_assert!(version.contains('.') && version.chars().any(|it| it.is_ascii_digit()));
            }
        }
    }
}
