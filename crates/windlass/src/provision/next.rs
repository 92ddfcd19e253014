//! What is to be done about a claim's volume: a decision, made from what is known at one moment.
//!
//! A volume is deleted only if its claim was seen to go while this node was told of everything there is, if its time has
//! come or somebody said so, if its class says so, if nothing has it, and if the claim is not there when everything is read
//! once more (I-15). Whatever is missing keeps it, and the time counts only while nothing is ([`Next::keeps`]).

use k8s_openapi::api::core::v1::PersistentVolumeClaim;
use windlass_core::ids::Time;

use super::{Departure, Provision};

/// What is known of a claim and its volume.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Facts<'a> {
    pub(crate) now: Time,
    /// The claim as it was given, if it is there.
    pub(crate) given: Option<&'a PersistentVolumeClaim>,
    /// What is on disk.
    pub(crate) noted: Option<&'a Provision>,
    /// The claim was seen to go.
    pub(crate) departure: Option<&'a Departure>,
    /// When the volume of a claim that was seen to go may be deleted, if that counts already.
    pub(crate) due: Option<Time>,
    /// What failed is not tried before this.
    pub(crate) not_before: Option<Time>,
    /// All claims there are have been given.
    pub(crate) is_complete: bool,
    /// Everything was read again since the time came.
    pub(crate) is_reread: bool,
    /// Something on this node has the volume, or may have it.
    pub(crate) is_in_use: bool,
    /// Its class says that it stays, or said so when it was made, or a persistent volume said so.
    pub(crate) is_retained: bool,
    /// A persistent volume that is the same volume says that it stays, or has said so.
    pub(crate) says_retain: bool,
    /// Somebody else names it.
    pub(crate) is_named: bool,
}

/// What is to be done.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Next {
    /// Nothing: there is nothing to be known of the claim.
    Forget,
    /// Nothing: it has its volume, which is as large as it asks for.
    Settled,
    /// Nothing before the time comes to try again.
    BackOff,
    /// Write down that the claim was seen to go, that it is back, that somebody says that its volume goes, or stays.
    Note,
    /// Have a volume made.
    Make,
    /// Have the volume made larger.
    Grow { to_bytes: u64, from_bytes: u64 },
    /// It asks for more than it has, which its class does not allow.
    MayNotGrow { to_bytes: u64, from_bytes: u64 },
    /// Nothing: whether the claim is there is not known.
    Unknown,
    /// Nothing: the volume stays.
    Keep(Kept),
    /// Nothing keeps the volume any more: the time until it is deleted begins.
    Begin,
    /// Nothing before this time, when its volume is deleted.
    Count(Time),
    /// Nothing before nobody has the volume any more.
    LetGo,
    /// Have everything read again: not all that can become of a directory is told by the kernel.
    Reread,
    /// Have the volume deleted; or found out what it is called, if it may have been made.
    Delete,
}

/// Why the volume of a claim that is not there stays.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Kept {
    /// Nobody saw that the claim went.
    NotSeen,
    /// Its class says so, or a persistent volume has said so.
    Retained,
    /// The claim names another volume.
    NamesAnother,
    /// Another persistent volume, or another claim, is or names the same volume.
    Named,
}

/// Decides.
pub(crate) fn next(facts: &Facts<'_>) -> Next {
    let Facts { given, noted, departure, .. } = *facts;
    let is_noted = |it: &Provision| it.departure.as_ref() == departure;
    match (given, noted) {
        // What was begun to be deleted is nobody's any more, whoever asks for it by now (I-10).
        (_, Some(noted)) if noted.is_doomed() && (is_noted(noted) || departure.is_none_or(|it| !it.is_ordered)) => {
            match facts.is_complete {
                true => delete(facts),
                false => Next::Unknown,
            }
        }
        (_, Some(noted)) if !is_noted(noted) || facts.says_retain && noted.is_deleted_with_claim() => {
            Next::Note.once_due(facts)
        }
        (Some(given), Some(noted)) if noted.volume.is_some() => {
            if noted.bound(given).is_none() {
                Next::Keep(Kept::NamesAnother)
            } else {
                grow(facts, given, noted)
            }
        }
        (Some(given), _) if super::asks(given) => Next::Make.once_due(facts),
        (Some(_) | None, None) => Next::Forget,
        // What is being made for it is nobody's.
        (Some(_), Some(_)) => Next::Keep(Kept::NamesAnother),
        (None, Some(_)) if !facts.is_complete => Next::Unknown,
        (None, Some(noted)) if noted.volume.is_some() && facts.is_retained => Next::Keep(Kept::Retained),
        (None, Some(_)) if facts.is_named => Next::Keep(Kept::Named),
        (None, Some(_)) if departure.is_none() => Next::Keep(Kept::NotSeen),
        (None, Some(_)) if facts.is_in_use => Next::LetGo,
        (None, Some(_)) => match facts.due {
            None => Next::Begin,
            Some(due) if due > facts.now => Next::Count(due),
            Some(_) if facts.is_reread => Next::Delete.once_due(facts),
            Some(_) => Next::Reread.once_due(facts),
        },
    }
}

fn delete(facts: &Facts<'_>) -> Next {
    if facts.is_in_use { Next::LetGo } else { Next::Delete.once_due(facts) }
}

fn grow(facts: &Facts<'_>, given: &PersistentVolumeClaim, noted: &Provision) -> Next {
    match (super::wanted(given), noted.size()) {
        (Some(to_bytes), Some(from_bytes)) if to_bytes > from_bytes => match noted.may_grow() {
            true => Next::Grow { to_bytes, from_bytes }.once_due(facts),
            false => Next::MayNotGrow { to_bytes, from_bytes },
        },
        (_, _) => Next::Settled,
    }
}

impl Next {
    /// Whether something keeps the volume, or may: then no time counts until it is deleted.
    pub(crate) fn keeps(self) -> bool {
        matches!(self, Self::Unknown | Self::Keep(_) | Self::LetGo)
    }

    /// This, if the time to try again has come.
    fn once_due(self, facts: &Facts<'_>) -> Self {
        if facts.not_before.is_some_and(|it| it > facts.now) { Self::BackOff } else { self }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use jiff::Timestamp;
    use k8s_openapi::serde_json::{from_value, json};
    use windlass_csi::proto::csi;

    use super::*;

    fn claim(megabytes: u32) -> PersistentVolumeClaim {
        from_value(json!({
            "metadata": {"namespace": "default", "name": "data"},
            "spec": {
                "accessModes": ["ReadWriteOnce"], "storageClassName": "fast",
                "resources": {"requests": {"storage": format!("{megabytes}Mi")}},
            },
        }))
        .unwrap()
    }

    /// What was asked for, and made.
    fn made(reclaim: &str) -> Provision {
        let class = from_value(json!({
            "metadata": {"name": "fast"}, "provisioner": "d", "reclaimPolicy": reclaim, "allowVolumeExpansion": true,
        }));
        let asked = Provision::new([7; 16], &claim(1), &class.unwrap(), Default::default(), Timestamp::UNIX_EPOCH);
        let volume = asked.made(csi::Volume { volume_id: "v".into(), ..Default::default() });
        asked.with_volume(volume)
    }

    fn departure() -> Departure {
        Departure::now(Duration::from_secs(600))
    }

    fn facts<'a>(given: Option<&'a PersistentVolumeClaim>, noted: Option<&'a Provision>) -> Facts<'a> {
        Facts {
            now: Time(1000),
            given,
            noted,
            departure: noted.and_then(|it| it.departure.as_ref()),
            due: None,
            not_before: None,
            is_complete: true,
            is_reread: true,
            is_in_use: false,
            is_retained: noted.is_some_and(|it| !it.is_deleted_with_claim()),
            says_retain: false,
            is_named: false,
        }
    }

    #[test]
    fn a_claim_gets_a_volume_and_more_if_it_asks_for_more() {
        let (one, two, made) = (claim(1), claim(2), made("Delete"));
        assert_eq!(next(&facts(Some(&one), None)), Next::Make);
        assert_eq!(next(&facts(Some(&one), Some(&made))), Next::Settled);
        let grow = Next::Grow { to_bytes: 2 << 20, from_bytes: 1 << 20 };
        assert_eq!(next(&facts(Some(&two), Some(&made))), grow);
        assert_eq!(
            next(&Facts { not_before: Some(Time(1001)), ..facts(Some(&two), Some(&made)) }),
            Next::BackOff,
            "not before its time"
        );
        assert_eq!(next(&facts(None, None)), Next::Forget);
    }

    /// I-15.
    #[test]
    fn a_volume_is_deleted_only_if_its_claim_was_seen_to_go_and_its_time_has_come() {
        let made = made("Delete");
        let gone = made.clone().departed(Some(departure()));
        let seen = Facts { due: Some(Time(1000)), ..facts(None, Some(&gone)) };
        assert_eq!(next(&seen), Next::Delete);
        assert_eq!(next(&Facts { due: Some(Time(1001)), ..seen }), Next::Count(Time(1001)));
        assert_eq!(next(&Facts { is_complete: false, ..seen }), Next::Unknown);
        assert_eq!(next(&Facts { is_in_use: true, ..seen }), Next::LetGo);
        assert_eq!(next(&Facts { is_reread: false, ..seen }), Next::Reread);
        assert_eq!(next(&Facts { is_named: true, ..seen }), Next::Keep(Kept::Named));
        assert_eq!(next(&Facts { due: None, ..seen }), Next::Begin);
        assert_eq!(next(&Facts { not_before: Some(Time(1001)), ..seen }), Next::BackOff);
        assert_eq!(next(&facts(None, Some(&made))), Next::Keep(Kept::NotSeen));
    }

    /// I-15: what kept it may be away by accident, as the claim may be.
    #[test]
    fn no_time_counts_while_anything_keeps_a_volume() {
        let gone = made("Delete").departed(Some(departure()));
        let counted = Facts { due: Some(Time(1001)), ..facts(None, Some(&gone)) };
        assert!(!next(&counted).keeps());
        let kept = [
            Facts { is_complete: false, ..counted },
            Facts { is_in_use: true, ..counted },
            Facts { is_named: true, ..counted },
            Facts { is_retained: true, ..counted },
        ];
        for facts in kept {
            assert!(next(&facts).keeps(), "{facts:?}");
        }
    }

    #[test]
    fn that_a_claim_went_or_came_back_is_on_disk_before_anything_else_is_done() {
        let (one, made, departure) = (claim(1), made("Delete"), departure());
        let gone = made.clone().departed(Some(departure.clone()));
        let unwritten = Facts { departure: Some(&departure), due: Some(Time(0)), ..facts(None, Some(&made)) };
        assert_eq!(next(&unwritten), Next::Note);
        assert_eq!(next(&Facts { departure: None, ..facts(Some(&one), Some(&gone)) }), Next::Note, "it is back");
        let ordered = Departure { is_ordered: true, ..departure };
        let doomed = gone.clone().released(true);
        for noted in [&gone, &doomed] {
            assert_eq!(next(&Facts { departure: Some(&ordered), ..facts(None, Some(noted)) }), Next::Note, "an order");
        }
    }

    /// I-15: it is the word of whoever wrote it about this volume, and counts when all manifests are gone.
    #[test]
    fn that_a_persistent_volume_says_retain_is_on_disk_before_anything_else_is_done() {
        let (one, made) = (claim(1), made("Delete"));
        let gone = made.clone().departed(Some(departure()));
        for (given, noted) in [(Some(&one), &made), (None, &made), (None, &gone)] {
            let told = Facts { says_retain: true, due: Some(Time(0)), ..facts(given, Some(noted)) };
            assert_eq!(next(&told), Next::Note);
            let after = noted.clone().retained();
            let retained = next(&Facts { says_retain: true, due: Some(Time(0)), ..facts(given, Some(&after)) });
            assert_eq!(retained, if given.is_some() { Next::Settled } else { Next::Keep(Kept::Retained) });
        }
        let doomed = gone.released(true);
        assert_eq!(next(&Facts { says_retain: true, ..facts(None, Some(&doomed)) }), Next::Delete, "it is too late");
    }

    #[test]
    fn a_class_that_keeps_volumes_has_none_deleted() {
        let gone = made("Retain").departed(Some(departure()));
        let facts = Facts { due: Some(Time(0)), ..facts(None, Some(&gone)) };
        assert_eq!(next(&facts), Next::Keep(Kept::Retained));
    }

    /// I-10.
    #[test]
    fn what_was_begun_to_be_deleted_is_deleted_to_the_end() {
        let (one, doomed) = (claim(1), made("Delete").released(true));
        for given in [None, Some(&one)] {
            assert_eq!(next(&facts(given, Some(&doomed))), Next::Delete);
            assert_eq!(next(&Facts { is_complete: false, ..facts(given, Some(&doomed)) }), Next::Unknown);
            assert_eq!(next(&Facts { is_in_use: true, ..facts(given, Some(&doomed)) }), Next::LetGo);
        }
    }

    #[test]
    fn a_volume_whose_claim_names_another_stays() {
        let (mut other, made) = (claim(1), made("Delete"));
        other.spec.get_or_insert_default().volume_name = Some("pv".into());
        assert_eq!(next(&facts(Some(&other), Some(&made))), Next::Keep(Kept::NamesAnother));
        assert_eq!(next(&facts(Some(&other), None)), Next::Forget);
    }
}
