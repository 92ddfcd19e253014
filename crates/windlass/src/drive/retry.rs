//! What failed and waits for its next try is tried at once, because somebody knows better than the clock.

use std::collections::BTreeSet;

use windlass_core::Event;
use windlass_core::ids::{OuterName, PodUid};

use super::Drive;
use crate::view;

impl Drive {
    /// Tries at once what failed: of one volume of a pod by the pod's name for it, of a pod, or everything. Says what that is.
    pub(super) fn retry(&mut self, pod: Option<&PodUid>, volume: Option<&str>) -> Vec<view::Retried> {
        let uids = pod.map_or_else(|| self.engine.pod_uids(), |it| vec![it.clone()]);
        let mut retried = Vec::new();
        let mut wanted = BTreeSet::new();
        for uid in uids {
            let Some(detail) = self.engine.view_pod(&uid) else { continue };
            for it in &detail.volumes {
                let name = it.name.as_ref().map(OuterName::as_str);
                let failures = it.reasons.iter().map(|it| it.attempts).max().unwrap_or_default();
                let (Some(here), true) = (&it.volume, failures > 0 && (volume.is_none() || volume == name)) else {
                    continue;
                };
                wanted.insert((here.id.clone(), Some(uid.clone())));
                retried.push(view::Retried {
                    what: format!("pod {}, volume {}", detail.pod.name, name.unwrap_or(here.inner_name.as_str())),
                    attempts: failures,
                });
            }
        }
        if pod.is_none() {
            for it in self.engine.snapshot().volumes.iter().filter(|it| it.mounts.is_empty()) {
                let failures = it.reasons.iter().map(|it| it.attempts).max().unwrap_or_default();
                if failures > 0 {
                    wanted.insert((it.id.clone(), None));
                    retried.push(view::Retried { what: format!("volume {}", it.id), attempts: failures });
                }
            }
        }
        for (volume, pod) in wanted {
            self.tell(Event::RetryWanted { volume, pod });
        }
        if volume.is_none() {
            retried.extend(self.retry_claims(|memory, claim| pod.is_none_or(|it| memory.users(claim).contains(it))));
        }
        retried.sort_by(|one, other| one.what.cmp(&other.what));
        retried
    }
}
