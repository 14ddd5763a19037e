//! Who gives way when there are too many that have not said yet who they are.
//!
//! Anybody who reaches the port can begin a handshake and leave it at that. A newcomer at the limit is never turned away: the
//! oldest handshake of the address that has the most of them is dropped in its favour. So whoever opens half a handshake after
//! another drops their own, and who goes on, which takes milliseconds, comes through.

use std::collections::{BTreeMap, HashMap};
use std::hash::Hash;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::sync::Notify;

/// Handshakes by the order in which they began.
type UnderWay<P> = BTreeMap<u64, (P, Arc<Notify>)>;

/// The handshakes under way, each with who is at the other end: an address, say.
#[derive(Debug)]
pub struct Handshakes<P> {
    count_max: usize,
    begun: AtomicU64,
    under_way: Mutex<UnderWay<P>>,
}

/// One handshake; over when this is dropped.
#[derive(Debug)]
pub struct Handshake<P> {
    all: Arc<Handshakes<P>>,
    number: u64,
    dropped: Arc<Notify>,
}

impl<P> Handshakes<P> {
    fn lock(&self) -> MutexGuard<'_, UnderWay<P>> {
        // Nothing panics while it is held, and the map is consistent between any two statements.
        self.under_way.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<P: Copy + Eq + Hash> Handshakes<P> {
    /// So many at once.
    #[must_use]
    pub fn new(count_max: usize) -> Arc<Self> {
        Arc::new(Self { count_max, begun: AtomicU64::new(0), under_way: Mutex::default() })
    }

    /// Begins a handshake with `address`, dropping another if there are too many.
    #[must_use]
    pub fn begin(self: &Arc<Self>, address: P) -> Handshake<P> {
        let number = self.begun.fetch_add(1, Ordering::Relaxed);
        let dropped = Arc::new(Notify::new());
        let mut under_way = self.lock();
        if under_way.len() >= self.count_max.max(1)
            && let Some((_, other)) =
                Self::least_entitled(&under_way).and_then(|it| under_way.remove_entry(&it))
        {
            other.1.notify_one();
        }
        under_way.insert(number, (address, Arc::clone(&dropped)));
        drop(under_way);
        Handshake { all: Arc::clone(self), number, dropped }
    }

    /// The oldest of the address that has the most.
    fn least_entitled(under_way: &UnderWay<P>) -> Option<u64> {
        // How many, and the oldest.
        let mut addresses: HashMap<P, (usize, u64)> = HashMap::new();
        for (number, (address, _)) in under_way {
            addresses.entry(*address).or_insert((0, *number)).0 += 1;
        }
        let most = addresses.into_values().max_by_key(|(count, oldest)| (*count, u64::MAX - *oldest));
        most.map(|(_, oldest)| oldest)
    }
}

impl<P> Handshake<P> {
    /// Completes when this handshake was dropped in favour of another.
    pub async fn dropped(&self) {
        self.dropped.notified().await;
    }
}

impl<P> Drop for Handshake<P> {
    fn drop(&mut self) {
        self.all.lock().remove(&self.number);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::IpAddr;

    fn numbers(all: &Handshakes<IpAddr>) -> Vec<u64> {
        all.lock().keys().copied().collect()
    }

    #[test]
    fn who_has_most_handshakes_drops_the_oldest_of_them() {
        let all = Handshakes::new(3);
        let (crowd, proxy) = (IpAddr::from([10, 0, 0, 1]), IpAddr::from([10, 0, 0, 2]));
        let first = all.begin(proxy);
        let crowded: Vec<Handshake<IpAddr>> = (0..50).map(|_| all.begin(crowd)).collect();
        assert_eq!(numbers(&all), [0, 49, 50], "the proxy's is the oldest, and stays");
        drop(first);
        let again = all.begin(proxy);
        assert_eq!(numbers(&all), [49, 50, 51]);
        drop(crowded);
        assert_eq!(numbers(&all), [51]);
        drop(again);
    }
}
