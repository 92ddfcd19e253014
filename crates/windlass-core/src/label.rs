//! SELinux labels (E-80..E-88): which label a pod's use of a volume asks for, and what pods that share a volume may ask for.
//!
//! Translating container options into labels needs the system's defaults and happens outside; the rules stand here.

use alloc::sync::Arc;
use alloc::vec::Vec;

/// The label that one pod's use of a volume asks for. The default asks for none, which is right where SELinux is off.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Wish {
    /// The label the pod would have, if any (E-84, original).
    pub original: Option<Arc<str>>,
    /// Whether the volume is mounted with it (E-83). If not, it only counts for warnings.
    pub enforced: bool,
}

impl Wish {
    /// The label the volume is mounted with (E-84, effective).
    pub fn effective(&self) -> Option<&Arc<str>> {
        self.original.as_ref().filter(|_| self.enforced)
    }

    /// May a pod with this wish use the volume at the same time as one with `other` (E-87)?
    pub fn agrees_with(&self, other: &Self) -> bool {
        !(self.enforced || other.enforced) || self.original == other.original
    }
}

/// What the label of one pod's use of a volume depends on.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Circumstances {
    /// The labels of the containers that mount the volume and have SELinux options, or why one could not be translated.
    pub containers: Vec<Result<Arc<str>, Arc<str>>>,
    /// Whether the pod asks for its files to be relabelled one by one (`SELinuxChangePolicy: Recursive`).
    pub recursive: bool,
    /// Whether the plugin can mount this volume with a label.
    pub supported: bool,
    /// Whether the volume's only access mode is `ReadWriteOncePod`; `None` if it has no volume object.
    pub one_pod: Option<bool>,
    /// Whether labels are enforced for all access modes (`SELinuxMount`).
    pub all_modes: bool,
}

/// Why a pod's labels cannot be used.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum Error {
    /// A container's options could not be translated (E-85).
    #[error("failed to translate SELinux options: {0}")]
    Translation(Arc<str>),
    /// Containers of one pod ask for different labels (E-86).
    #[error("multiple SELinux labels found: \"{0}\" and \"{1}\"")]
    Several(Arc<str>, Arc<str>),
}

/// The label that a pod's use of a volume asks for, and the trouble that was only worth a warning.
///
/// Trouble is an error where the label would be enforced, else a warning and no label (E-85, E-86).
pub fn wish(circumstances: &Circumstances) -> Result<(Wish, Option<Error>), Error> {
    let enforced = circumstances.one_pod.is_some_and(|it| it || circumstances.all_modes);
    match the_one_label(&circumstances.containers) {
        Ok(label) => {
            let mountable = circumstances.supported && !circumstances.recursive;
            Ok((Wish { original: label.filter(|_| mountable), enforced }, None))
        }
        Err(error) if enforced => Err(error),
        Err(error) => Ok((Wish { original: None, enforced }, Some(error))),
    }
}

fn the_one_label(containers: &[Result<Arc<str>, Arc<str>>]) -> Result<Option<Arc<str>>, Error> {
    let mut label: Option<Arc<str>> = None;
    for container in containers {
        let this = container.clone().map_err(Error::Translation)?;
        match &label {
            Some(other) if *other != this => return Err(Error::Several(other.clone(), this)),
            Some(_) | None => label = Some(this),
        }
    }
    Ok(label)
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec;

    fn one_pod(labels: &[&str]) -> Circumstances {
        Circumstances {
            containers: labels.iter().map(|it| Ok(Arc::from(*it))).collect(),
            recursive: false,
            supported: true,
            one_pod: Some(true),
            all_modes: false,
        }
    }

    fn effective(circumstances: &Circumstances) -> Option<Arc<str>> {
        wish(circumstances).ok()?.0.effective().cloned()
    }

    /// C-11.
    #[test]
    fn a_label_is_used_where_one_pod_has_the_volume_and_the_plugin_can() {
        assert_eq!(effective(&one_pod(&["l1", "l1"])).as_deref(), Some("l1"));
        assert_eq!(effective(&one_pod(&[])), None);
        assert_eq!(effective(&Circumstances { supported: false, ..one_pod(&["l1"]) }), None);
        assert_eq!(effective(&Circumstances { one_pod: Some(false), ..one_pod(&["l1"]) }), None);
        assert_eq!(effective(&Circumstances { one_pod: None, ..one_pod(&["l1"]) }), None);
    }

    /// C-12.
    #[test]
    fn pods_with_one_label_and_different_policies_do_not_agree() {
        let recursive = wish(&Circumstances { recursive: true, ..one_pod(&["l1"]) }).unwrap().0;
        assert_eq!(recursive.effective(), None);
        assert!(!recursive.agrees_with(&wish(&one_pod(&["l1"])).unwrap().0));
    }

    /// C-13.
    #[test]
    fn different_labels_conflict_only_where_labels_are_enforced() {
        let shared =
            |label, all_modes| wish(&Circumstances { one_pod: Some(false), all_modes, ..one_pod(&[label]) }).unwrap().0;
        assert!(!shared("l1", true).agrees_with(&shared("l2", true)));
        assert!(shared("l1", false).agrees_with(&shared("l2", false)));
    }

    #[test]
    fn trouble_is_an_error_where_labels_are_enforced_and_else_a_warning() {
        let two = one_pod(&["l1", "l2"]);
        assert_eq!(wish(&two), Err(Error::Several("l1".into(), "l2".into())));
        let lax = Circumstances { one_pod: Some(false), ..two };
        let (wish_of_two, warning) = wish(&lax).unwrap();
        assert_eq!((wish_of_two.original, warning.is_some()), (None, true));
        let broken = Circumstances { containers: vec![Err("no such type".into())], ..one_pod(&[]) };
        assert_eq!(wish(&broken), Err(Error::Translation("no such type".into())));
    }
}
