//! What is here and named by nobody, though that may be an accident: it is held, for a while or until somebody says what is
//! meant (I-1).
//!
//! A source can look shorter than it is, and at the start nobody knows how long it was: what was found on disk and is named by
//! none is no wish to take it away. While a process runs, sources say themselves of which pods they cannot tell.

use crate::actual::PodKey;
use crate::desired::Held;
use crate::engine::{Engine, Timer};
use crate::event::{Containers, Hold};
use crate::ids::{PodUid, SourceName, Time};
use crate::notice::Notice;
use crate::oddity::Oddity;
use crate::reason::Code;
use crate::spec::Life;
use alloc::boxed::Box;
use alloc::format;
use alloc::vec::Vec;

impl Engine {
    pub(crate) fn pod_held(&mut self, uid: &PodUid, hold: Hold) {
        let Some(key) = self.world.pod(uid) else { return };
        match self.world.pods[key].life {
            Life::Found | Life::Known(_) | Life::Held => {}
            // Somebody said that it goes.
            Life::Leaving | Life::Gone => return,
        }
        self.world.pods[key].life = Life::Held;
        self.hold(key, hold);
        self.touch_pod(key);
        self.drop_pod_if_over(key);
    }

    pub(crate) fn hold_released(&mut self, uid: &PodUid) {
        match self.world.pod(uid).filter(|it| self.world.pods[*it].hold.is_some()) {
            Some(key) => self.hold_is_over(key),
            None => self.odd(Oddity::NotHeld, format!("pod {uid} is to be held no longer, but was not held")),
        }
    }

    pub(crate) fn source_read(&mut self, name: &SourceName, as_of: Time) {
        let Some(source) = self.world.sources.get_mut(name) else {
            self.odd(Oddity::UnknownSource, format!("source {name} was read, but was not announced"));
            return;
        };
        source.read = source.read.max(Some(as_of));
        self.end_holds();
    }

    /// What was found and is named by nobody, once all is known: a pod, or volumes of a pod that does not name them.
    pub(crate) fn judge_found(&mut self, key: PodKey) {
        if !(self.world.start.may_take_away && self.world.incomplete_source().is_none()) {
            return;
        }
        let pod = &self.world.pods[key];
        let (delay, is_kept) = (self.world.orphan_delay(), self.has_unclaimed(key));
        // Of a pod that had gone before, and of one of which nothing is left, nobody has to be asked.
        let is_kept = is_kept && !pod.had_gone && !delay.is_zero();
        match (pod.life, &pod.hold) {
            (Life::Found, _) if is_kept => {
                self.world.pods[key].life = Life::Held;
                let text = "no manifest that was read since the start names the pod".into();
                self.hold(key, Hold { code: Code::NotInManifests, text, delay: Some(delay) });
            }
            (Life::Found, _) => self.lose_pod(key, Containers::Stopped),
            (Life::Known(_), None) if is_kept => {
                let text = "the pod had this volume before the start, and its manifest does not name it".into();
                self.hold(key, Hold { code: Code::NotInManifests, text, delay: Some(delay) });
            }
            (Life::Known(_), Some(_)) if !is_kept => self.end_hold(key),
            (Life::Known(_) | Life::Held | Life::Leaving | Life::Gone, _) => {}
        }
    }

    /// Has the pod, or may it have, something that was found and that it has not named since?
    fn has_unclaimed(&self, key: PodKey) -> bool {
        let mounts = self.world.pods[key].mounts.iter().filter_map(|it| self.volumes[*it].mount(key));
        mounts.into_iter().any(|it| it.unclaimed && it.step.may_be_here())
    }

    /// Holds a pod, or goes on holding it.
    fn hold(&mut self, key: PodKey, hold: Hold) {
        let Hold { code, text, delay } = hold;
        let now = self.world.now;
        // What is told again does not begin anew.
        let before = self.world.pods[key].hold.as_deref().filter(|it| it.code == code);
        let (since, until) = match before {
            Some(before) if before.until.is_some() == delay.is_some() => (before.since, before.until),
            Some(_) | None => (now, delay.map(|it| now + it)),
        };
        self.end_hold(key);
        self.timers.extend(until.filter(|it| *it > now).map(|it| (it, Timer::Hold(key))));
        self.world.pods[key].hold = Some(Box::new(Held { code, text, since, until }));
        self.touch_volumes_of(key);
        if until.is_some_and(|it| it <= now) {
            self.hold_is_due(key);
        }
    }

    /// Forgets why a pod was held.
    pub(crate) fn end_hold(&mut self, key: PodKey) {
        if let Some(hold) = self.world.pods[key].hold.take() {
            if let Some(until) = hold.until {
                self.timers.remove(&(until, Timer::Hold(key)));
            }
            self.touch_volumes_of(key);
        }
    }

    /// The time for which a pod was held has passed.
    pub(crate) fn hold_is_due(&mut self, key: PodKey) {
        let until = self.world.pods[key].hold.as_ref().and_then(|it| it.until);
        // What a source cannot read, or has not read yet, may name it.
        match (self.world.all_is_known(), until) {
            (true, Some(as_of)) if !self.world.is_read_as_of(as_of) => {
                self.notices.push_back(Notice::RereadWanted { as_of });
            }
            (true, _) => self.hold_is_over(key),
            (false, _) => self.touch_volumes_of(key),
        }
    }

    /// The pod, or what it does not name, is held no longer.
    pub(crate) fn hold_is_over(&mut self, key: PodKey) {
        self.end_hold(key);
        for volume in self.world.pods[key].mounts.clone() {
            if let Some(mount) = self.volumes[volume].mount_mut(key) {
                mount.unclaimed = false;
            }
        }
        self.touch_volumes_of(key);
        if self.world.pods[key].life == Life::Held {
            self.notices.push_back(Notice::HoldEnded(self.world.pods[key].uid.clone()));
            self.lose_pod(key, Containers::Stopped);
        }
    }

    /// Ends what should have ended before; what cannot end may have another reason now.
    pub(crate) fn end_holds(&mut self) {
        let now = self.world.now;
        let is_due = |it: &PodKey| self.world.pods[*it].hold.as_ref().is_some_and(|it| it.is_due(now));
        let due: Vec<PodKey> = self.world.pods.keys().filter(is_due).collect();
        for pod in due {
            self.hold_is_due(pod);
        }
    }
}
