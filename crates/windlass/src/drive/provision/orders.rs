//! Volumes of claims that go at once, because somebody says so. Whoever is told that they do need not say it again: it is on
//! disk by then, and carried out after a restart too.

use tokio::sync::oneshot;
use windlass_core::ids::PodUid;

use super::keeping::Naming;
use super::shown;
use super::work::Work;
use crate::drive::Drive;
use crate::node::{ClaimRefusal, Deleted};
use crate::objects::{Lookup, Reference};
use crate::provision::Departure;

type Answer = oneshot::Sender<Result<Deleted, ClaimRefusal>>;

/// Somebody waits for what he said to be noted.
pub(super) struct Order {
    /// Whether the claim was seen to go, apart from that, and whether that was in an earlier life.
    before: (Option<Departure>, bool),
    answers: Vec<Answer>,
}

impl Drive {
    /// Has the volume of a claim that is gone deleted now.
    pub(crate) fn delete_claim(&mut self, claim: &Reference, answer: Answer) {
        match self.order_deletion(claim) {
            Ok(Some(deleted)) => _ = answer.send(Ok(deleted)),
            Ok(None) => {
                let order = self.provisions.claims.get_mut(claim).and_then(|it| it.order.as_mut());
                if let Some(order) = order {
                    order.answers.push(answer);
                }
            }
            Err(refusal) => _ = answer.send(Err(refusal)),
        }
    }

    /// What is to be answered; `None` if that is to wait until it is on disk.
    fn order_deletion(&mut self, claim: &Reference) -> Result<Option<Deleted>, ClaimRefusal> {
        let title = || format!("{}/{}", claim.namespace(), claim.name());
        let is_there = !matches!(self.wishes.memory().get(claim), Lookup::Absent);
        let entry = self.provisions.claims.get(claim);
        if is_there || entry.is_some_and(|it| it.given.is_some()) {
            return Err(ClaimRefusal::StillThere { claim: title() });
        }
        let Some((noted, entry)) = entry.and_then(|it| Some((it.noted.as_ref()?, it))) else {
            return Err(ClaimRefusal::Unknown { claim: title() });
        };
        if !self.claims_are_known() {
            return Err(ClaimRefusal::SourceIncomplete { claim: title() });
        }
        let volume = noted.volume.as_ref().map(shown);
        if let Some(id) = noted.volume_id()
            && let Some(used) = self.engine.view_volume(&id)
        {
            let name =
                |uid: &PodUid| self.engine.view_pod(uid).map_or_else(|| uid.to_string(), |it| it.pod.name.to_string());
            let pods = used.mounts.iter().map(|it| name(&it.pod)).collect();
            return Err(ClaimRefusal::InUse { claim: title(), volume: volume.unwrap_or_default(), pods });
        }
        let naming = self.naming(noted);
        let is_shared = matches!(naming, Some(Naming::Record(_)));
        if let Some(other) = naming.filter(|_| !is_shared) {
            let (volume, other) = (volume.unwrap_or_default(), other.to_string());
            return Err(ClaimRefusal::Named { claim: title(), volume, other });
        }
        let is_noted = noted.departure.as_ref().is_some_and(|it| it.is_ordered) && entry.is_ordered();
        if is_noted || noted.is_doomed() && noted.volume.is_some() {
            if let Some(entry) = self.provisions.claims.get_mut(claim) {
                // After a restart it would have stayed for as long as orphans do.
                (entry.is_recalled, entry.due) = (false, None);
            }
            self.try_claim_now(claim);
            return Ok(Some(Deleted::Deleting { volume }));
        }
        match entry.running {
            Some(Work::Make | Work::Grow | Work::Delete) => return Err(ClaimRefusal::Busy { claim: title() }),
            // What is being noted is so in a moment.
            Some(Work::Note | Work::Release) | None => {}
        }
        let is_released = noted.volume.is_some() && (is_shared || !self.is_deleted_with_claim(noted));
        let (noted, is_idle, delay) = (noted.clone(), entry.running.is_none(), self.provisions.delete_delay);
        let Some(entry) = self.provisions.claims.get_mut(claim) else { return Ok(None) };
        let before = (entry.departure.clone(), entry.is_recalled);
        entry.order.get_or_insert_with(|| Order { before, answers: Vec::new() });
        if !is_released {
            entry.departure.get_or_insert_with(|| Departure::now(delay)).is_ordered = true;
            (entry.is_recalled, entry.due) = (false, None);
            self.try_claim_now(claim);
        } else if is_idle {
            self.release_for(claim, noted);
        }
        Ok(None)
    }

    /// Work for a claim has ended, for which orders may wait: with what could not be noted, or with a volume that was let go.
    pub(super) fn answer_order(&mut self, claim: &Reference, refusal: Option<&str>, released: Option<&str>) {
        let Some(entry) = self.provisions.claims.get_mut(claim) else { return };
        let Some(order) = entry.order.take() else { return };
        let is_noted = entry.noted.as_ref().and_then(|it| it.departure.as_ref()).is_some_and(|it| it.is_ordered);
        if entry.is_ordered() && !is_noted {
            (entry.departure, entry.is_recalled) = order.before;
        }
        for answer in order.answers {
            match (refusal, released) {
                (Some(text), _) => {
                    let claim = format!("{}/{}", claim.namespace(), claim.name());
                    let _ = answer.send(Err(ClaimRefusal::NotNoted { claim, text: text.into() }));
                }
                (None, Some(volume)) => _ = answer.send(Ok(Deleted::Released { volume: volume.into() })),
                (None, None) => self.delete_claim(claim, answer),
            }
        }
    }
}
