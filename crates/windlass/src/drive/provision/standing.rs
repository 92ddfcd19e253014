//! How claims stand, as it is said to the pods that wait for them and to whoever looks or listens (I-7).

use windlass_core::ids::SourceName;
use windlass_core::reason::{Code, Reason, WaitsOn};
use windlass_core::snapshot::{SourceState, SourceView};

use super::work::Work;
use super::{Entry, shown};
use crate::drive::Drive;
use crate::drive::alarms::Alarm;
use crate::node::Change;
use crate::objects::Reference;
use crate::provision::Provision;
use crate::provision::next::{Kept, Next};
use crate::tell::Tone;

impl Drive {
    /// There is nothing to be done about a claim now, but something to be said.
    pub(super) fn stand_by(&mut self, claim: &Reference, next: Next, noted: Option<&Provision>) {
        let volume = noted.and_then(|it| it.volume.as_ref()).map_or_else(|| "its volume".into(), shown);
        match next {
            Next::Forget => {
                self.provisions.claims.remove(claim);
                self.wishes.memory_mut().set_pending(claim, None);
            }
            Next::Settled => self.set_stand(claim, None),
            // What failed still stands.
            Next::BackOff => {}
            Next::Unknown => {
                let then = self.by_order(claim).map(|it| format!("; it is deleted then{it}")).unwrap_or_default();
                let text = format!("whether the claim is there is not known yet, and {volume} stays until it is{then}");
                self.stand(claim, Code::SourceIncomplete, &text, self.waits_on_source());
            }
            Next::MayNotGrow { to_bytes, from_bytes } => {
                let text =
                    format!("it asks for {to_bytes} bytes and has {from_bytes}; its class does not let volumes grow");
                self.stand(claim, Code::ResizeFailed, &text, WaitsOn::Nothing);
                self.warn_once(claim, Work::Grow.failure_event(), text);
            }
            Next::Keep(why) => {
                let Some(noted) = noted else { return };
                let text = format!("{volume} is kept: {}", self.explain_keeping(claim, noted, why));
                self.stand(claim, Code::VolumeKept, &text, WaitsOn::Nothing);
                if why == Kept::NotSeen {
                    self.warn_once(claim, "VolumeKept", format!("{text}. {}", Code::VolumeKept.remedy()));
                }
            }
            Next::Count(due) => {
                self.alarms.set(due, Alarm::Provision(claim.clone()));
                self.say_when_deleted(claim, &volume);
            }
            Next::LetGo => {
                let text = format!(
                    "the claim is gone, and {volume} is deleted when nothing has had it for all of the delete-delay"
                );
                self.stand(claim, Code::StillInPods, &text, WaitsOn::Nothing);
            }
            Next::Make | Next::Grow { .. } | Next::Note | Next::Begin | Next::Reread | Next::Delete => {
                unreachable!("{next:?} is done, not waited for")
            }
        }
    }

    /// The source that has not told all it has, or cannot read something.
    pub(super) fn silent_source(&self) -> Option<SourceName> {
        let is_silent = |it: &SourceView| it.state != SourceState::Complete { doubt: None };
        self.engine.sources().into_iter().find(is_silent).map(|it| it.name)
    }

    pub(super) fn waits_on_source(&self) -> WaitsOn {
        self.silent_source().map_or(WaitsOn::Nothing, WaitsOn::Source)
    }

    /// Says when the volume of a claim that is gone is deleted, and how to stop that (I-15).
    pub(super) fn say_when_deleted(&mut self, claim: &Reference, volume: &str) {
        let Some((due, at)) = self.provisions.claims.get(claim).and_then(|it| it.due) else { return };
        let order = self.by_order(claim).unwrap_or_default();
        let text = format!("the claim is gone, and {volume} is deleted at {at:.0}{order}");
        let mut reason = self.reason(claim, Code::DeletePending, &text, WaitsOn::Time);
        reason.goes_at = Some(due);
        self.set_stand(claim, Some(reason));
        self.warn_once(claim, "DeletePending", format!("{text}. {}", Code::DeletePending.remedy()));
    }

    /// What is said of a volume that goes because somebody said so.
    pub(super) fn by_order(&self, claim: &Reference) -> Option<&'static str> {
        let is_ordered = self.provisions.claims.get(claim).is_some_and(Entry::is_ordered);
        is_ordered.then_some(", as somebody said (windlass delete claim)")
    }

    /// What can be done about a driver that lies about a volume of which nothing else is known.
    pub(super) fn remedy_for_lie(&self, claim: &Reference) -> Option<String> {
        let entry = self.provisions.claims.get(claim)?;
        let title = format!("{}/{}", claim.namespace(), claim.name());
        let is_made = entry.noted.as_ref()?.volume.is_some();
        (!is_made).then(|| match entry.given {
            Some(_) => format!("; mend the driver, then: windlass retry claim/{title}; or remove the claim"),
            None => {
                format!("; mend the driver, or to leave what it may have made with it: windlass delete claim {title}")
            }
        })
    }

    /// A driver is asked. What it said the last time is still said, until it says something else.
    pub(super) fn say_begun(&mut self, claim: &Reference, code: Code, text: &str) {
        let text = match self.provisions.claims.get(claim).and_then(|it| it.failure.as_ref()) {
            Some(failure) => format!("{text} once more; the last time: {failure}"),
            None => text.to_owned(),
        };
        self.stand(claim, code, &text, WaitsOn::Nothing);
    }

    pub(super) fn stand(&mut self, claim: &Reference, code: Code, text: &str, waits_on: WaitsOn) {
        let reason = self.reason(claim, code, text, waits_on);
        self.set_stand(claim, Some(reason));
    }

    /// A reason of a claim: since when it holds, and how often that failed, follow from what is known of the claim.
    pub(super) fn reason(&self, claim: &Reference, code: Code, text: &str, waits_on: WaitsOn) -> Reason {
        let entry = self.provisions.claims.get(claim);
        let before = entry.and_then(|it| it.stand.as_ref()).filter(|it| it.code == code || it.attempts > 0);
        let since = before.map_or_else(|| self.now(), |it| it.since);
        let attempts = entry.map_or(0, |it| it.failures);
        Reason { code, text: text.into(), since, attempts, next_try: None, goes_at: None, waits_on }
    }

    /// Says how a claim stands, to the pods that wait for it and to whoever looks.
    pub(super) fn set_stand(&mut self, claim: &Reference, stand: Option<Reason>) {
        let Some(entry) = self.provisions.claims.get_mut(claim) else { return };
        if entry.stand == stand {
            return;
        }
        entry.stand = stand;
        self.claim_has_changed(claim);
        self.show_claim(claim);
    }

    /// Whoever watches claims looks at this one again.
    pub(in crate::drive) fn claim_has_changed(&self, claim: &Reference) {
        let claim = format!("{}/{}", claim.namespace(), claim.name()).into();
        self.outside.say(Change::ClaimChanged { claim });
    }

    /// Tells bad news that was not the last to be told.
    pub(super) fn warn_once(&mut self, claim: &Reference, reason: &'static str, text: String) {
        let Some(entry) = self.provisions.claims.get_mut(claim) else { return };
        if entry.told.as_deref() != Some(text.as_str()) {
            entry.told = Some(text.as_str().into());
            self.tell_claim(claim, Tone::Warning, reason, text);
        }
    }

    pub(super) fn tell_claim(&self, claim: &Reference, tone: Tone, reason: &'static str, text: String) {
        for pod in self.wishes.memory().users(claim) {
            match tone {
                Tone::Normal => self.outside.executor.scene.tell.normal(&pod, reason, text.as_str()),
                Tone::Warning => self.outside.executor.scene.tell.warning(&pod, reason, text.as_str()),
            }
        }
        let claim = format!("{}/{}", claim.namespace(), claim.name()).into();
        self.outside.say(Change::Claim { claim, tone, reason, text: text.into() });
    }
}
