//! Which connection gives way when there are too many.
//!
//! Only who has shown a certificate has one. A newcomer at the limit takes the place of the one that has been unused for
//! longest, and is turned away if all have requests under way. A request is under way from its first byte to the last of its
//! reply.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::sync::{Notify, Semaphore};

/// Things under way, by the order in which they began.
type Numbered<T> = Mutex<BTreeMap<u64, T>>;

fn lock<T>(numbered: &Numbered<T>) -> MutexGuard<'_, BTreeMap<u64, T>> {
    // Nothing panics while it is held, and the map is consistent between any two statements.
    numbered.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The connections of peers that have shown a certificate.
pub(super) struct Seats {
    count_max: usize,
    in_flight_max: usize,
    /// Counts admissions and requests: a clock that orders them.
    clock: AtomicU64,
    taken: Numbered<Arc<Use>>,
}

/// How a connection is used.
struct Use {
    in_flight: Arc<Semaphore>,
    /// A frame has begun to come whose request is not in flight yet.
    is_sending: AtomicBool,
    last: AtomicU64,
    given_up: Notify,
}

/// A connection's seat; free when this is dropped.
pub(super) struct Seat {
    all: Arc<Seats>,
    number: u64,
    used: Arc<Use>,
}

impl Seats {
    pub(super) fn new(count_max: usize, in_flight_max: usize) -> Arc<Self> {
        Arc::new(Self { count_max, in_flight_max, clock: AtomicU64::new(0), taken: Mutex::default() })
    }

    /// Takes a seat, another's if need be; `None` if all have requests under way.
    pub(super) fn take(self: &Arc<Self>) -> Option<Seat> {
        let number = self.clock.fetch_add(1, Ordering::Relaxed);
        let mut taken = lock(&self.taken);
        if taken.len() >= self.count_max {
            let unused = |used: &Use| {
                !used.is_sending.load(Ordering::Relaxed)
                    && used.in_flight.available_permits() >= self.in_flight_max
            };
            let (_, longest) = taken
                .iter()
                .filter(|(_, used)| unused(used))
                .map(|(number, used)| (used.last.load(Ordering::Relaxed), *number))
                .min()?;
            if let Some(used) = taken.remove(&longest) {
                used.given_up.notify_one();
            }
        }
        let used = Arc::new(Use {
            in_flight: Arc::new(Semaphore::new(self.in_flight_max)),
            is_sending: AtomicBool::new(false),
            last: AtomicU64::new(number),
            given_up: Notify::new(),
        });
        taken.insert(number, Arc::clone(&used));
        drop(taken);
        Some(Seat { all: Arc::clone(self), number, used })
    }
}

impl Seat {
    /// Permits for requests in flight.
    pub(super) fn in_flight(&self) -> Arc<Semaphore> {
        Arc::clone(&self.used.in_flight)
    }

    /// A request has begun to come: the seat is in use until it is dropped.
    pub(super) fn in_use(&self) -> Sending<'_> {
        self.used.last.store(self.all.clock.fetch_add(1, Ordering::Relaxed), Ordering::Relaxed);
        self.used.is_sending.store(true, Ordering::Relaxed);
        Sending(&self.used)
    }

    /// Completes when the seat was given to another connection.
    pub(super) async fn given_up(&self) {
        self.used.given_up.notified().await;
    }
}

/// A request on its way to the server.
pub(super) struct Sending<'s>(&'s Use);

impl Drop for Sending<'_> {
    fn drop(&mut self) {
        self.0.is_sending.store(false, Ordering::Relaxed);
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        lock(&self.all.taken).remove(&self.number);
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::expect_used)]

    use super::*;

    fn numbers<T>(numbered: &Numbered<T>) -> Vec<u64> {
        lock(numbered).keys().copied().collect()
    }

    #[test]
    fn the_connection_unused_for_longest_gives_its_seat_and_none_in_use_does() {
        let all = Seats::new(2, 1);
        let first = all.take().expect("room");
        let second = all.take().expect("room");
        drop(first.in_use());
        let third = all.take().expect("the second's");
        assert_eq!(numbers(&all.taken), [first.number, third.number]);
        let busy = first.in_flight().try_acquire_owned().expect("a permit");
        let fourth = all.take().expect("the third's");
        let also_busy = fourth.in_flight().try_acquire_owned().expect("a permit");
        assert!(all.take().is_none());
        drop((busy, also_busy, second));
        let sending = first.in_use();
        let fifth = all.take().expect("the fourth's");
        let also_sending = fifth.in_use();
        assert!(all.take().is_none(), "a request that is coming is one under way");
        drop((sending, also_sending));
        assert!(all.take().is_some());
    }
}
