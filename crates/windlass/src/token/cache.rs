//! Tokens that were given, until it is time to ask again (P-288..P-291).
//!
//! Time comes as an argument, and nothing runs by itself: whoever uses a token sets a timer for [`Cache::refresh_at`].

use super::{Error, Provider, Request, Token};
use crate::fingerprint::Fingerprint;
use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime};
use windlass_core::ids::PodUid;

/// No token is used for longer, however long it lives (P-289).
const AGE_MAX: Duration = Duration::from_secs(24 * 60 * 60);

/// How soon a refresh that failed is tried again while the old token still counts: about as soon as the kubelet would,
/// which tries when it next looks at the pod (P-52).
const RETRY: Duration = Duration::from_secs(60);

/// Nobody is asked to come back sooner than this, whatever times a provider gives.
const PAUSE_MIN: Duration = Duration::from_secs(10);

/// How often expired tokens of others are dropped (P-291).
const SWEEP: Duration = Duration::from_secs(60);

/// Tokens by request. May be used from many threads: one that waits for the provider holds up no other.
pub struct Cache {
    provider: Arc<dyn Provider>,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    pods: BTreeMap<PodUid, BTreeMap<Request, Entry>>,
    sweep_at: Option<SystemTime>,
}

struct Entry {
    token: Token,
    refresh_at: SystemTime,
    /// Why the last refresh failed.
    failure: Option<Arc<str>>,
}

impl fmt::Debug for Cache {
    /// How much there is, but not what (I-12).
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Cache").field("pods", &self.state().pods.len()).finish_non_exhaustive()
    }
}

impl Cache {
    /// Nothing yet; tokens will come from this provider.
    pub fn new(provider: Arc<dyn Provider>) -> Self {
        Self { provider, state: Mutex::default() }
    }

    /// The token for a request: the one that is known, unless it is time for another. May block for as long as the
    /// provider does. If there is no other, the known one is used until it expires (P-290).
    pub fn token(&self, request: &Request, now: SystemTime) -> Result<Token, Error> {
        if let Some(entry) = self.state().entry(request)
            && now < entry.refresh_at
            && now < entry.token.expires
        {
            return Ok(entry.token.clone());
        }
        let answer = self.provider.token(request, now);
        let mut state = self.state();
        state.sweep(request, now);
        match (answer, state.entry(request)) {
            (Ok(token), _) => {
                let refresh_at = refresh_at(request, &token).max(later(now, PAUSE_MIN));
                let entry = Entry { token: token.clone(), refresh_at, failure: None };
                state.pods.entry(request.pod_uid.clone()).or_default().insert(request.clone(), entry);
                Ok(token)
            }
            (Err(error), Some(entry)) => entry.refused(request, error, now),
            (Err(Error::NoProvider), None) => Err(Error::NoProvider),
            (Err(error), None) => Err(Error::Fetch { source: Box::new(error) }),
        }
    }

    /// When to ask for this token again: in time before it expires, or after a refresh that failed. `None` if there is
    /// no such token.
    pub fn refresh_at(&self, request: &Request) -> Option<SystemTime> {
        self.state().entry(request).map(|it| it.refresh_at)
    }

    /// Why the last refresh of this token failed, while the old one goes on being used.
    pub fn failure(&self, request: &Request) -> Option<Arc<str>> {
        self.state().entry(request).and_then(|it| it.failure.clone())
    }

    /// Drops all tokens that are bound to a pod (P-129).
    pub fn forget(&self, pod: &PodUid) {
        self.state().pods.remove(pod);
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // Nothing is left half done under the lock, so what a thread that panicked left behind is whole.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn entry(&mut self, request: &Request) -> Option<&mut Entry> {
        self.pods.get_mut(&request.pod_uid)?.get_mut(request)
    }

    /// Drops what has expired, now and then. Not the one that is asked for: that there was one is told.
    fn sweep(&mut self, asked: &Request, now: SystemTime) {
        if self.sweep_at.is_some_and(|it| now < it) {
            return;
        }
        self.sweep_at = Some(later(now, SWEEP));
        self.pods.retain(|_, entries| {
            entries.retain(|request, entry| now < entry.token.expires || request == asked);
            !entries.is_empty()
        });
    }
}

impl Entry {
    /// There is no other token.
    fn refused(&mut self, request: &Request, error: Error, now: SystemTime) -> Result<Token, Error> {
        let Token { expires, .. } = self.token;
        self.failure = Some(error.text().into());
        let retry_at = later(now, RETRY);
        if now < expires {
            self.refresh_at = retry_at.min(expires.max(later(now, PAUSE_MIN)));
            return Ok(self.token.clone());
        }
        self.refresh_at = retry_at;
        let Request { namespace, service_account, .. } = request.clone();
        Err(Error::Expired { namespace, service_account, source: Box::new(error) })
    }
}

/// When a token is due: with a fifth of its life left, or after a day (P-289). A little earlier by an amount of its
/// own, so that tokens that were issued together are not all asked for together. It does not change from look to look
/// (W-17), and it never takes more than half of a short life.
fn refresh_at(request: &Request, token: &Token) -> SystemTime {
    let life = token.life();
    let used = (life - life / 5).min(AGE_MAX);
    later(token.issued, used.saturating_sub(jitter(request)).max(life.min(AGE_MAX) / 2))
}

/// Whole seconds, 0 to 9.
fn jitter(request: &Request) -> Duration {
    let Request { namespace, service_account, audiences, expiration_seconds, pod_name, pod_uid } = request;
    // Nothing secret is in it, so it needs no key.
    let mut fingerprint = Fingerprint::new([0, 0]);
    for field in [namespace, service_account, pod_name] {
        fingerprint.field(field.as_bytes());
    }
    fingerprint.field(pod_uid.as_str().as_bytes());
    fingerprint.field(&expiration_seconds.to_le_bytes());
    audiences.iter().for_each(|it| fingerprint.field(it.as_bytes()));
    Duration::from_secs(fingerprint.finish() % 10)
}

/// `time` plus `by`; `time` itself if the sum is no time.
fn later(time: SystemTime, by: Duration) -> SystemTime {
    time.checked_add(by).unwrap_or(time)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const HOUR: u64 = 3600;

    /// Gives tokens that count up, or nothing.
    #[derive(Default)]
    struct Counter {
        given: Mutex<u32>,
        away: Mutex<bool>,
    }

    impl Provider for Counter {
        fn token(&self, request: &Request, now: SystemTime) -> Result<Token, Error> {
            if *self.away.lock().unwrap() {
                return Err(Error::Provider { text: "connection refused".into() });
            }
            let mut given = self.given.lock().unwrap();
            *given += 1;
            let life = Duration::from_secs(request.expiration_seconds.unsigned_abs());
            Ok(Token::new(&given.to_string(), now, now + life))
        }
    }

    fn request(expiration_seconds: u64) -> Request {
        Request {
            namespace: "default".into(),
            service_account: "robot".into(),
            audiences: vec!["vault".into()],
            expiration_seconds: expiration_seconds.cast_signed(),
            pod_name: "web".into(),
            pod_uid: "uid-1".into(),
        }
    }

    fn at(seconds: u64) -> SystemTime {
        SystemTime::UNIX_EPOCH + Duration::from_secs(1_000_000 + seconds)
    }

    fn cache() -> (Arc<Counter>, Cache) {
        let provider = Arc::new(Counter::default());
        (provider.clone(), Cache::new(provider))
    }

    /// T-25.
    #[test]
    fn a_token_is_refreshed_with_a_fifth_of_its_life_left_or_after_a_day() {
        for (life, second, expected) in [
            (HOUR, 10 * 60, "1"),
            (HOUR, 47 * 60, "1"),
            (HOUR, 48 * 60, "2"),
            (HOUR, 50 * 60, "2"),
            (HOUR, 2 * HOUR, "2"),
            (60 * HOUR, 23 * HOUR, "1"),
            (60 * HOUR, 25 * HOUR, "2"),
        ] {
            let (_, cache) = cache();
            cache.token(&request(life), at(0)).unwrap();
            let token = cache.token(&request(life), at(second)).unwrap();
            assert_eq!(token.text(), expected, "a life of {life} s after {second} s");
        }
    }

    /// T-26, P-290.
    #[test]
    fn a_token_that_cannot_be_refreshed_is_used_until_it_expires() {
        let (provider, cache) = cache();
        let request = request(HOUR);
        cache.token(&request, at(0)).unwrap();
        *provider.away.lock().unwrap() = true;
        assert_eq!(cache.token(&request, at(50 * 60)).unwrap().text(), "1");
        assert_eq!(cache.failure(&request).as_deref(), Some("connection refused"));
        assert_eq!(cache.refresh_at(&request), Some(at(51 * 60)), "it is tried again");
        assert_eq!(cache.token(&request, at(3599)).unwrap().text(), "1");
        let error = cache.token(&request, at(3600)).unwrap_err();
        assert_eq!(
            error.text(),
            "token of service account default/robot expired and refresh failed: connection refused"
        );
        assert_eq!(cache.refresh_at(&request), Some(at(3660)));
        *provider.away.lock().unwrap() = false;
        assert_eq!(cache.token(&request, at(3601)).unwrap().text(), "2", "an expired one is asked for at each use");
        assert_eq!(cache.failure(&request), None);
    }

    #[test]
    fn a_token_that_was_never_given_says_so() {
        let (provider, cache) = cache();
        *provider.away.lock().unwrap() = true;
        let error = cache.token(&request(HOUR), at(0)).unwrap_err();
        assert_eq!(error.text(), "failed to fetch token: connection refused");
        assert_eq!(cache.refresh_at(&request(HOUR)), None);
        let nobody = Cache::new(Arc::new(super::super::NoProvider));
        assert_eq!(nobody.token(&request(HOUR), at(0)), Err(Error::NoProvider));
    }

    /// T-27, P-288.
    #[test]
    fn a_request_that_differs_in_anything_has_a_token_of_its_own() {
        let (_, cache) = cache();
        let base = request(HOUR);
        let requests = [
            base.clone(),
            Request { namespace: "other".into(), ..base.clone() },
            Request { service_account: "other".into(), ..base.clone() },
            Request { audiences: Vec::new(), ..base.clone() },
            Request { expiration_seconds: 7200, ..base.clone() },
            Request { pod_name: "other".into(), ..base.clone() },
            Request { pod_uid: "uid-2".into(), ..base.clone() },
        ];
        for _ in 0..2 {
            let texts: Vec<_> = requests.iter().map(|it| cache.token(it, at(0)).unwrap().text().to_owned()).collect();
            assert_eq!(texts, ["1", "2", "3", "4", "5", "6", "7"]);
        }
    }

    /// P-129, P-291.
    #[test]
    fn tokens_go_with_their_pod_and_when_they_expire() {
        let (_, cache) = cache();
        let other = |pod: &str| Request { pod_uid: pod.into(), ..request(HOUR) };
        for pod in ["a", "b", "c"] {
            cache.token(&other(pod), at(0)).unwrap();
        }
        cache.forget(&"a".into());
        assert_eq!(cache.refresh_at(&other("a")), None);
        assert!(cache.refresh_at(&other("b")).is_some());
        cache.token(&other("c"), at(2 * HOUR)).unwrap();
        assert_eq!(cache.state().pods.keys().map(PodUid::as_str).collect::<Vec<_>>(), ["c"]);
    }

    #[test]
    fn a_provider_that_gives_strange_times_does_not_keep_anybody_busy() {
        struct Strange(SystemTime, SystemTime);
        impl Provider for Strange {
            fn token(&self, _: &Request, _: SystemTime) -> Result<Token, Error> {
                Ok(Token::new("x", self.0, self.1))
            }
        }
        for (issued, expires) in [(at(0), at(0)), (at(10), at(0)), (at(0), at(1)), (SystemTime::UNIX_EPOCH, at(5))] {
            let cache = Cache::new(Arc::new(Strange(issued, expires)));
            cache.token(&request(HOUR), at(100)).unwrap();
            assert!(cache.refresh_at(&request(HOUR)) >= Some(at(110)), "{issued:?} to {expires:?}");
        }
    }

    proptest! {
        /// P-289, W-17.
        #[test]
        fn a_timer_finds_work_to_do_and_not_before(life in 600..200_000_u64, pod in "[a-z]{1,8}", early in 1..999_u64) {
            let (_, cache) = cache();
            let request = Request { pod_uid: pod.as_str().into(), ..request(life) };
            cache.token(&request, at(0)).unwrap();
            let due = cache.refresh_at(&request).unwrap();
            let latest = at((life - life / 5).min(24 * HOUR));
            prop_assert!(due <= latest && due + Duration::from_secs(10) > latest);
            let before = cache.token(&request, due - Duration::from_millis(early)).unwrap();
            prop_assert_eq!(before.text(), "1");
            prop_assert_eq!(cache.refresh_at(&request), Some(due), "looking does not move it");
            let after = cache.token(&request, due).unwrap();
            prop_assert_eq!(after.text(), "2");
        }
    }
}
