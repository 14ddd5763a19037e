//! Room for messages on their way: what clients have begun to say and the enclave has not taken yet.
//!
//! A message has its room before it is read. So whoever announces much and says little keeps room from others: when there is none
//! left, the slowest of those that are being read is cut off, once it had a second. Short messages have room of their own, and
//! never wait for long ones.

use arras_protocol::iee::{CLIENT_BYTES_MAX, ConnectionId};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore};
use tokio::time::{Instant, timeout};

/// The longest of the short messages.
const SHORT_BYTES: usize = 64 << 10;

/// What room is counted in.
const UNIT_BYTES: usize = 1024;

/// How long a message may be on its way before it can be the one that is given up.
const GRACE: Duration = Duration::from_secs(1);

/// All room, for short and for long messages.
pub(crate) struct Room {
    short: Pool,
    long: Pool,
}

struct Pool {
    free: Arc<Semaphore>,
    coming: Arc<Mutex<BTreeMap<ConnectionId, Coming>>>,
}

/// A message that is being read.
#[derive(Clone)]
struct Coming {
    began: Instant,
    passed: Arc<AtomicU64>,
    given_up: Arc<Notify>,
}

/// A message's claim on room.
pub(crate) struct Claim {
    room: Option<OwnedSemaphorePermit>,
    connection: ConnectionId,
    coming: Coming,
    all: Arc<Mutex<BTreeMap<ConnectionId, Coming>>>,
}

impl Room {
    /// Of so many bytes in all; the greatest message fits, whatever is said.
    pub(crate) fn new(bytes: usize) -> Self {
        let short = (bytes / 4).max(2 * SHORT_BYTES);
        let long = bytes.saturating_sub(short).max(CLIENT_BYTES_MAX);
        Self { short: Pool::new(short), long: Pool::new(long) }
    }

    /// Waits for room for a message of so many bytes.
    pub(crate) async fn claim(&self, connection: ConnectionId, bytes: usize) -> Option<Claim> {
        let pool = if bytes <= SHORT_BYTES { &self.short } else { &self.long };
        pool.claim(connection, bytes).await
    }
}

impl Pool {
    fn new(bytes: usize) -> Self {
        Self { free: Arc::new(Semaphore::new(bytes.div_ceil(UNIT_BYTES))), coming: Arc::default() }
    }

    async fn claim(&self, connection: ConnectionId, bytes: usize) -> Option<Claim> {
        let units = u32::try_from(bytes.div_ceil(UNIT_BYTES)).ok()?;
        let taking = Arc::clone(&self.free).acquire_many_owned(units);
        tokio::pin!(taking);
        let room = loop {
            match timeout(GRACE / 4, &mut taking).await {
                Ok(room) => break room.ok()?,
                Err(_) => self.give_up_the_slowest(),
            }
        };
        let coming = Coming { began: Instant::now(), passed: Arc::default(), given_up: Arc::default() };
        lock(&self.coming).insert(connection, coming.clone());
        Some(Claim { room: Some(room), connection, coming, all: Arc::clone(&self.coming) })
    }

    fn give_up_the_slowest(&self) {
        let mut coming = lock(&self.coming);
        let pace = |coming: &Coming| {
            let passed = coming.passed.load(Ordering::Relaxed) as f64;
            passed / coming.began.elapsed().as_secs_f64()
        };
        let old = coming.iter().filter(|(_, coming)| coming.began.elapsed() >= GRACE);
        let slowest = old.min_by(|(_, one), (_, other)| pace(one).total_cmp(&pace(other)));
        if let Some(connection) = slowest.map(|(connection, _)| *connection)
            && let Some(slowest) = coming.remove(&connection)
        {
            slowest.given_up.notify_one();
        }
    }
}

impl Claim {
    /// So many bytes of the message have come.
    pub(crate) fn passed(&self, bytes: usize) {
        self.coming.passed.fetch_add(bytes as u64, Ordering::Relaxed);
    }

    /// Waits until the message is given up for others.
    pub(crate) async fn given_up(&self) {
        self.coming.given_up.notified().await;
    }

    /// The message is there: its room, to be given back when the enclave has taken it.
    pub(crate) fn settle(mut self) -> Option<OwnedSemaphorePermit> {
        self.room.take()
    }
}

impl Drop for Claim {
    fn drop(&mut self) {
        lock(&self.all).remove(&self.connection);
    }
}

/// Nothing is half done under these locks.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn who_announces_much_and_says_little_gives_way() {
        let room = Room::new(3 * CLIENT_BYTES_MAX);
        let (slow, fast) = (ConnectionId(1), ConnectionId(2));
        let slow = room.claim(slow, CLIENT_BYTES_MAX).await.unwrap();
        let fast = room.claim(fast, CLIENT_BYTES_MAX).await.unwrap();
        slow.passed(10);
        fast.passed(CLIENT_BYTES_MAX / 2);
        // Short messages have room of their own.
        assert!(room.claim(ConnectionId(3), SHORT_BYTES).await.is_some());
        let begun = Instant::now();
        let next = room.claim(ConnectionId(4), CLIENT_BYTES_MAX);
        let gives_way = async {
            slow.given_up().await;
            assert!(begun.elapsed() >= GRACE);
            drop(slow);
        };
        let (next, ()) = tokio::join!(next, gives_way);
        assert!(timeout(GRACE, fast.given_up()).await.is_err());
        // What has come and was not taken yet keeps its room, and is no longer slow.
        let (settled, next) = (fast.settle(), next.unwrap());
        next.passed(1);
        let last = room.claim(ConnectionId(5), CLIENT_BYTES_MAX);
        let (last, ()) = tokio::join!(last, async {
            next.given_up().await;
            drop(next);
        });
        assert!(last.is_some() && settled.is_some());
    }
}
