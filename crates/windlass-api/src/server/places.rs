//! Places: how many clients may have something at a time, and how many of them may be one user's.
//!
//! Some are kept for root, and no other user can have more than half of the rest, so nobody can lock the others out.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::Notify;

/// One place in so many is kept for root.
const ROOT_SHARE: usize = 8;

/// Places of one kind.
#[derive(Debug, Clone)]
pub(super) struct Places(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    max: usize,
    taken: Mutex<BTreeMap<u32, usize>>,
    freed: Notify,
}

impl Inner {
    fn taken(&self) -> MutexGuard<'_, BTreeMap<u32, usize>> {
        self.taken.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A place of one client; free again when this goes.
#[derive(Debug)]
pub(super) struct Seat {
    places: Arc<Inner>,
    user: u32,
}

impl Drop for Seat {
    fn drop(&mut self) {
        let mut taken = self.places.taken();
        if let Some(count) = taken.get_mut(&self.user) {
            *count -= 1;
            if *count == 0 {
                taken.remove(&self.user);
            }
        }
        drop(taken);
        self.places.freed.notify_waiters();
    }
}

impl Places {
    pub(super) fn new(max: usize) -> Self {
        Self(Arc::new(Inner { max, taken: Mutex::default(), freed: Notify::new() }))
    }

    pub(super) fn max(&self) -> usize {
        self.0.max
    }

    /// How many all users but root may have together: of a single place none can be kept.
    fn others_max(&self) -> usize {
        let kept = if self.0.max > 1 { (self.0.max / ROOT_SHARE).max(1) } else { 0 };
        self.0.max - kept
    }

    /// How many this user may have.
    pub(super) fn max_of(&self, user: u32) -> usize {
        if user == 0 { self.0.max } else { (self.others_max() / 2).max(1) }
    }

    /// A place for this user, if there is one now.
    pub(super) fn take(&self, user: u32) -> Option<Seat> {
        let mut taken = self.0.taken();
        let all: usize = taken.values().sum();
        let others = all - taken.get(&0).copied().unwrap_or(0);
        let own = taken.get(&user).copied().unwrap_or(0);
        let is_free = all < self.0.max && own < self.max_of(user) && (user == 0 || others < self.others_max());
        if !is_free {
            return None;
        }
        *taken.entry(user).or_default() += 1;
        Some(Seat { places: self.0.clone(), user })
    }

    /// A place for this user, if there is one within this time.
    pub(super) async fn wait(&self, user: u32, within: Duration) -> Option<Seat> {
        let waiting = async {
            loop {
                let freed = self.0.freed.notified();
                let mut freed = std::pin::pin!(freed);
                // One that is freed between the look and the wait is heard of too.
                freed.as_mut().enable();
                if let Some(place) = self.take(user) {
                    return place;
                }
                freed.await;
            }
        };
        tokio::time::timeout(within, waiting).await.ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_user_cannot_take_what_is_kept_for_others_and_all_together_not_what_is_kept_for_root() {
        let places = Places::new(64);
        let mut taken: Vec<Seat> = Vec::new();
        let mut take = |user, count| {
            taken.extend((0..count).map_while(|_| places.take(user)));
            taken.iter().filter(|it| it.user == user).count()
        };
        assert_eq!(take(1000, 64), 28);
        assert_eq!(take(1001, 64), 28);
        assert_eq!(take(1002, 64), 0, "the rest is kept for root");
        assert_eq!(take(0, 64), 8);
        taken.retain(|it| it.user != 1000);
        assert_eq!(places.take(1002).map(|it| it.user), Some(1002));
        taken.clear();
        assert_eq!((0..100).map_while(|_| places.take(0)).collect::<Vec<_>>().len(), 64, "root may have all");
    }

    #[test]
    fn a_single_place_is_for_everybody() {
        let places = Places::new(1);
        let place = places.take(7).unwrap();
        assert!(places.take(0).is_none());
        drop(place);
        assert!(places.take(0).is_some());
    }

    #[tokio::test]
    async fn a_place_that_is_freed_goes_to_one_who_waits() {
        let places = Places::new(1);
        let place = places.take(0).unwrap();
        assert!(places.wait(0, Duration::ZERO).await.is_none());
        let waiting = tokio::spawn({
            let places = places.clone();
            async move { places.wait(0, Duration::from_secs(60)).await.is_some() }
        });
        tokio::task::yield_now().await;
        drop(place);
        assert!(waiting.await.unwrap());
    }
}
