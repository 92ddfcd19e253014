//! What pods' owners should know: the kubelet's events, with its reasons and texts (P-48, E-300..E-309).
//!
//! What fails is tried again and again, and fails again. It is told when it happens first, and while it goes on every five
//! minutes; in between, who wants to know asks for the reason (I-7). What is told anew is anything that was not told before.

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use windlass_core::ids::{PodUid, Time, VolumeId};

/// How long bad news is not told again.
const AGAIN: Duration = Duration::from_secs(5 * 60);

/// Something that happened to a pod or its volume.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct Event {
    /// The pod.
    pub pod: PodUid,
    /// Good or bad news.
    pub tone: Tone,
    /// The kubelet's word for it, for example `FailedMount`.
    pub reason: &'static str,
    /// What happened.
    pub message: Arc<str>,
}

/// Good or bad news.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Tone {
    /// As it should be.
    Normal,
    /// Somebody should look.
    Warning,
}

impl fmt::Display for Tone {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Normal => "Normal",
            Self::Warning => "Warning",
        })
    }
}

/// What is the same when bad news is told again.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
enum Matter {
    /// It is told in the same words.
    Words(Arc<str>),
    /// The driver of this volume is away or gives no clear answer, whatever the words: it may hang, then refuse, then be
    /// gone, and all that is one matter.
    NoAnswer(VolumeId),
}

/// What was told, so that it is not told at every try. Its time comes from whoever asks.
#[derive(Default)]
struct Told {
    last: HashMap<(PodUid, &'static str, Matter), Time>,
    /// When what is old was forgotten last.
    swept: Time,
}

impl Told {
    /// Whether this is to be told now; if so, it counts as told.
    fn admits(&mut self, pod: &PodUid, reason: &'static str, matter: Matter, now: Time) -> bool {
        let is_old = |told: Time| now.since(told) >= AGAIN;
        if is_old(self.swept) {
            self.last.retain(|_, told| !is_old(*told));
            self.swept = now;
        }
        let key = (pod.clone(), reason, matter);
        let admitted = self.last.get(&key).is_none_or(|told| is_old(*told));
        if admitted {
            self.last.insert(key, now);
        }
        admitted
    }
}

/// Takes events to whoever listens.
#[derive(Clone)]
pub struct Tell {
    listener: Arc<dyn Fn(Event) + Send + Sync>,
    told: Arc<Mutex<Told>>,
    began: Instant,
}

impl Tell {
    /// Events go to this function, which must not block.
    pub fn new(listener: impl Fn(Event) + Send + Sync + 'static) -> Self {
        Self { listener: Arc::new(listener), told: Arc::default(), began: Instant::now() }
    }

    /// Good news.
    pub fn normal(&self, pod: &PodUid, reason: &'static str, message: impl Into<Arc<str>>) {
        (self.listener)(Event { pod: pod.clone(), tone: Tone::Normal, reason, message: message.into() });
    }

    /// Bad news. The same words are not told again for five minutes.
    pub fn warning(&self, pod: &PodUid, reason: &'static str, message: impl Into<Arc<str>>) {
        let message = message.into();
        self.warn(pod, reason, Matter::Words(message.clone()), message);
    }

    /// How far something is that takes long, as often as its teller sees fit: no progress is news too.
    pub(crate) fn progress(&self, pod: &PodUid, reason: &'static str, message: impl Into<Arc<str>>) {
        (self.listener)(Event { pod: pod.clone(), tone: Tone::Warning, reason, message: message.into() });
    }

    /// The driver of a volume is away or gives no clear answer. That is told once in five minutes, in whatever words.
    pub(crate) fn no_answer(
        &self,
        pod: &PodUid,
        reason: &'static str,
        volume: &VolumeId,
        message: impl Into<Arc<str>>,
    ) {
        self.warn(pod, reason, Matter::NoAnswer(volume.clone()), message.into());
    }

    fn warn(&self, pod: &PodUid, reason: &'static str, matter: Matter, message: Arc<str>) {
        let now = Time(u64::try_from(self.began.elapsed().as_millis()).unwrap_or(u64::MAX));
        let admitted = self.told.lock().unwrap_or_else(PoisonError::into_inner).admits(pod, reason, matter, now);
        if admitted {
            (self.listener)(Event { pod: pod.clone(), tone: Tone::Warning, reason, message });
        }
    }
}

impl fmt::Debug for Tell {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Tell")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use windlass_core::backoff::Backoff;
    use windlass_core::operation::{Cause, OperationKind, Trouble};

    const HOUR: u64 = 60 * 60;

    /// The seconds at which this matter is told, if it is told at these.
    fn told(at: impl IntoIterator<Item = u64>, matter: impl Fn(u64) -> Matter) -> Vec<u64> {
        let mut told = Told::default();
        let admits = |it: &u64| told.admits(&"pod".into(), "FailedMount", matter(*it), Time(*it * 1000));
        at.into_iter().filter(admits).collect()
    }

    /// The seconds at which a call fails that takes so long and is tried again as the engine does, within an hour.
    fn tries(each_takes: Duration) -> Vec<u64> {
        let trouble = Trouble { cause: Cause::Driver, text: "it does not answer".into() };
        let (mut at, mut backoff, mut tries) = (Time::ZERO, None, Vec::new());
        while at < Time(HOUR * 1000) {
            at = at + each_takes;
            tries.push(at.0 / 1000);
            let failed = Backoff::failed(backoff.as_ref(), OperationKind::Stage, at, trouble.clone());
            at = failed.retry_at;
            backoff = Some(failed);
        }
        tries
    }

    fn is_seldom(told: &[u64]) -> bool {
        told.windows(2).all(|it| it[1] - it[0] >= AGAIN.as_secs())
    }

    #[test]
    fn a_driver_that_refuses_every_call_is_told_at_once_and_then_every_five_minutes_at_most() {
        let told = told(tries(Duration::ZERO), |_| Matter::NoAnswer("v".into()));
        assert_eq!(told[0], 0);
        assert!(is_seldom(&told), "{told:?}");
        assert!((8..=12).contains(&told.len()), "{told:?}");
    }

    #[test]
    fn a_driver_that_hangs_call_after_call_is_told_every_five_minutes_at_most() {
        let told = told(tries(Duration::from_secs(120)), |_| Matter::NoAnswer("v".into()));
        assert_eq!(told[0], 120);
        assert!(is_seldom(&told) && told.len() > 5, "{told:?}");
    }

    #[test]
    fn what_fails_in_the_same_words_is_told_every_five_minutes_and_other_words_at_once() {
        let words = |it: u64| Matter::Words(if it < 100 { "no space" } else { "no such file" }.into());
        assert_eq!(told([0, 10, 99, 100, 200, 299, 399, 400], words), [0, 100, 400]);
    }

    #[test]
    fn each_pod_and_each_volume_is_told_for_itself() {
        let mut told = Told::default();
        let mut admits = |pod: &str, volume: &str| {
            let matter = Matter::NoAnswer(volume.into());
            told.admits(&pod.into(), "FailedMount", matter, Time(1))
        };
        assert!(admits("a", "v") && admits("b", "v") && admits("a", "w"));
        assert!(!admits("a", "v") && !admits("b", "v") && !admits("a", "w"));
    }

    #[test]
    fn what_is_old_is_forgotten() {
        let mut told = Told::default();
        for second in 0..HOUR {
            let matter = Matter::Words(format!("words of second {second}").into());
            assert!(told.admits(&"pod".into(), "FailedMount", matter, Time(second * 1000)));
        }
        assert!(told.last.len() <= 2 * AGAIN.as_secs() as usize, "{} are kept", told.last.len());
    }

    #[test]
    fn good_news_is_always_told() {
        let (sender, events) = std::sync::mpsc::channel();
        let tell = Tell::new(move |event| sender.send(event).unwrap_or_default());
        for _ in 0..2 {
            tell.normal(&"pod".into(), "SuccessfulMountVolume", "it is there");
            tell.warning(&"pod".into(), "FailedMount", "it is not there");
        }
        drop(tell);
        let tones: Vec<Tone> = events.iter().map(|it| it.tone).collect();
        assert_eq!(tones, [Tone::Normal, Tone::Warning, Tone::Normal]);
    }
}
