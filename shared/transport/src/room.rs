//! Memory that connections share: of what comes, of what goes out, and of what is kept.
//!
//! Who waits for room holds none of the same kind, so nobody waits in a circle. Who has room and waits for a peer, to send more or
//! to take what is there, gives it up after a time if others wait for it. Messages of usual sizes have a part of their own, so that
//! a few very large ones do not hold up all others, and those between may have one, too; a larger one has to begin first, in a part for
//! that. Whoever sends a message goes on sending it, or has no room for it while others wait.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::{Instant, sleep, sleep_until, timeout};

/// Messages up to this size, in bytes, are not worth counting: a session's buffers cost as much.
pub const UNCOUNTED_BYTES: usize = 64 * 1024;
/// Messages up to this size have a third of the room for themselves.
const USUAL_BYTES: usize = 1024 * 1024;
/// Messages up to this size do not come after larger ones, where there is a part for them.
const MIDDLE_BYTES: usize = 8 * 1024 * 1024;
/// Bytes that there are for them, beside what is free of the part for the largest,
const MIDDLES_BYTES: usize = 2 * MIDDLE_BYTES;
/// and for their beginnings.
const MIDDLE_BEGINNINGS_BYTES: usize = 8 * BEGINNING_BYTES;
/// Bytes that a larger one has sent before it may ask for room for all of it: to announce one costs its sender nothing.
pub const BEGINNING_BYTES: usize = USUAL_BYTES;
/// Bytes that there are for beginnings.
const BEGINNINGS_BYTES: usize = 16 * BEGINNING_BYTES;
/// Bytes that there are for messages of usual sizes at least.
const USUAL_BYTES_MIN: usize = 16 * 1024 * 1024;
/// Room is had in so many bytes.
pub const PERMIT_BYTES: usize = 1024;
/// How long somebody waits for memory.
const PATIENCE: Duration = Duration::from_secs(30);
/// For how long a share is had whatever its peer does, while others wait: as much less as more is waited for than there is, so that whoever
/// reads does not come after many who do not, each for so long.
const SLOWEST: Duration = Duration::from_secs(10);
/// So many times is what is waited for counted against what there is.
const WANTED: usize = 4;
/// And for so long at least.
const SLOWEST_MIN: Duration = Duration::from_secs(1);
/// How often it is looked whether others wait, then.
const LOOK: Duration = Duration::from_millis(500);
/// While others wait, of a message that comes there come in each so long, which is longer than it takes to most peers and back,
const WINDOW: Duration = Duration::from_millis(250);
/// so many bytes at least.
const WINDOW_BYTES: usize = 16 * 1024;

/// Why there is no room.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refused {
    /// None came free for too long, or too much is waited for already.
    #[error("the proxy's memory is full of messages under way")]
    Full,
    /// A share is to be given up.
    #[error("a large message was sent or taken too slowly while others waited for its memory in the proxy")]
    GivenUp,
}

/// So many bytes, in shares.
#[derive(Debug)]
pub struct Room {
    permits: Arc<Semaphore>,
    /// Bytes that there are in all.
    pub bytes: usize,
    /// How long somebody waits.
    patience: Duration,
    /// Bytes that may be waited for.
    waiting_max: usize,
    /// Bytes that are waited for.
    waiting: AtomicUsize,
    /// How often there was none for somebody.
    refused: AtomicUsize,
}

/// Room for messages on their way.
#[derive(Debug)]
pub struct MessageRoom {
    usual: Room,
    middle: Option<Begun>,
    large: Begun,
}

/// Room for messages that have begun, and for their beginnings.
#[derive(Debug)]
struct Begun {
    whole: Room,
    beginnings: Room,
}

impl Begun {
    fn new(bytes: usize, beginnings_bytes: usize) -> Self {
        Self { whole: Room::new(bytes), beginnings: Room::new(beginnings_bytes) }
    }
}

/// Room for the beginning of a large message: kept while it waits for the rest, which nobody who has that waits for.
#[derive(Debug)]
pub struct Beginning(Share);

impl MessageRoom {
    /// So many bytes, or as many as one message of the largest size needs.
    #[must_use]
    pub fn new(bytes: usize, message_bytes_max: usize) -> Self {
        let (usual, large) = (bytes / 3, (bytes - bytes / 3).max(message_bytes_max));
        let usual = Room::new(usual.max(USUAL_BYTES_MIN));
        Self { usual, middle: None, large: Begun::new(large, BEGINNINGS_BYTES) }
    }

    /// The same with a part beside for messages of some MiB, which then do not wait for larger ones.
    #[must_use]
    pub fn with_middle(self) -> Self {
        Self { middle: Some(Begun::new(MIDDLES_BYTES, MIDDLE_BEGINNINGS_BYTES)), ..self }
    }

    /// The same, in which whoever waits does so for that long at most.
    #[must_use]
    pub fn with_patience(self, patience: Duration) -> Self {
        let of = |room| Room { patience, ..room };
        let begun = |begun: Begun| Begun { whole: of(begun.whole), beginnings: of(begun.beginnings) };
        Self { usual: of(self.usual), middle: self.middle.map(begun), large: begun(self.large) }
    }

    /// The same for those who hold what they wait for room for: no more is waited for than there is room.
    #[must_use]
    pub fn with_holders(self) -> Self {
        let of = |room: Room| Room { waiting_max: room.bytes, ..room };
        let large = Begun { whole: of(self.large.whole), ..self.large };
        Self { usual: of(self.usual), large, ..self }
    }

    /// Bytes of the largest messages that nobody has.
    #[must_use]
    pub fn free(&self) -> usize {
        self.large.whole.free()
    }

    /// Where a message of so many bytes waits for room.
    fn class(&self, bytes: usize) -> Class {
        match bytes {
            0..=USUAL_BYTES => Class::Usual,
            ..=MIDDLE_BYTES if self.middle.is_some() => Class::Middle,
            _ => Class::Large,
        }
    }

    fn part(&self, class: Class) -> &Room {
        if class == Class::Usual { &self.usual } else { &self.begun(class).whole }
    }

    /// The part for those that are not usual.
    fn begun(&self, class: Class) -> &Begun {
        let middle = self.middle.as_ref().filter(|_| class == Class::Middle);
        middle.unwrap_or(&self.large)
    }

    /// Waits for room for a message of so many bytes; `None` if it is too small to count.
    ///
    /// # Errors
    /// There is none for too long.
    pub async fn share(&self, bytes: usize) -> Result<Option<Share>, Refused> {
        if bytes <= UNCOUNTED_BYTES {
            return Ok(None);
        }
        let class = self.class(bytes);
        match self.unused(class, bytes) {
            Some(share) => Ok(Some(share)),
            None => Ok(Some(self.part(class).share(bytes).await?.of_class(class))),
        }
    }

    /// Waits for room for the beginning of a message of so many bytes; `None` if it is of a usual size.
    ///
    /// # Errors
    /// There is none for too long.
    pub async fn beginning(&self, bytes: usize) -> Result<Option<Beginning>, Refused> {
        if bytes <= USUAL_BYTES {
            return Ok(None);
        }
        let class = self.class(bytes);
        let share = self.begun(class).beginnings.share(BEGINNING_BYTES).await?;
        Ok(Some(Beginning(share.of_class(class))))
    }

    /// Does what waits for a peer to begin.
    ///
    /// # Errors
    /// As of [`Self::giving_up`].
    pub async fn beginning_with<T>(
        &self,
        beginning: &Beginning,
        work: impl Future<Output = T>,
    ) -> Result<T, Refused> {
        self.begun(beginning.0.class).beginnings.coming(&beginning.0, work).await
    }

    /// The same for who has some already, and waits for no more.
    ///
    /// # Errors
    /// There is none.
    pub fn try_message(&self, bytes: usize) -> Result<Option<Share>, Refused> {
        if bytes <= UNCOUNTED_BYTES { Ok(None) } else { self.try_share(bytes).map(Some) }
    }

    /// Room for so many bytes if it is there.
    ///
    /// # Errors
    /// It is not.
    pub fn try_share(&self, bytes: usize) -> Result<Share, Refused> {
        let class = self.class(bytes);
        match self.unused(class, bytes) {
            Some(share) => Ok(share),
            None => self.part(class).try_share(bytes).map(|share| share.of_class(class)),
        }
    }

    /// Of the part for the largest what nobody waits for, for those between.
    fn unused(&self, class: Class, bytes: usize) -> Option<Share> {
        let share = if class == Class::Middle { self.large.whole.take(bytes) } else { None };
        share.map(|share| share.of_class(Class::Large))
    }

    /// Does what waits for a peer.
    ///
    /// # Errors
    /// A share is to be given up meanwhile, since it has been had for long and others wait.
    pub async fn giving_up<T>(
        &self,
        share: Option<&Share>,
        work: impl Future<Output = T>,
    ) -> Result<T, Refused> {
        match share {
            None => Ok(work.await),
            Some(share) => self.part(share.class).giving_up(share, work).await,
        }
    }

    /// Does what waits for more of a message. Each part that comes is told to the share ([`Share::came`]).
    ///
    /// # Errors
    /// As of [`Self::giving_up`]; or little has come for a while.
    pub async fn coming<T>(
        &self,
        share: Option<&Share>,
        work: impl Future<Output = T>,
    ) -> Result<T, Refused> {
        match share {
            None => Ok(work.await),
            Some(share) => self.part(share.class).coming(share, work).await,
        }
    }
}

impl Beginning {
    /// So many bytes more of its message have come.
    pub fn came(&self, bytes: usize) {
        self.0.came(bytes);
    }
}

/// A share of it; given back when dropped.
#[derive(Debug)]
pub struct Share {
    permit: OwnedSemaphorePermit,
    bytes: usize,
    class: Class,
    since: Instant,
    window: Mutex<Window>,
}

/// The part of the room for messages that a share is of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Class {
    Usual,
    Middle,
    Large,
}

/// What came lately of a message.
#[derive(Debug)]
struct Window {
    begun: Instant,
    bytes: usize,
}

/// The bytes that somebody waits for, as long as that waits.
struct Waiting<'r>(&'r AtomicUsize, usize);

impl<'r> Waiting<'r> {
    fn among(all: &'r AtomicUsize, bytes: usize) -> Self {
        all.fetch_add(bytes, Ordering::Relaxed);
        Self(all, bytes)
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(self.1, Ordering::Relaxed);
    }
}

impl Room {
    /// So many bytes.
    #[must_use]
    pub fn new(bytes: usize) -> Self {
        let permits = (bytes / PERMIT_BYTES).min(Semaphore::MAX_PERMITS);
        Self {
            patience: PATIENCE,
            waiting_max: usize::MAX,
            permits: Arc::new(Semaphore::new(permits)),
            bytes,
            waiting: AtomicUsize::new(0),
            refused: AtomicUsize::new(0),
        }
    }

    /// Waits for so many bytes.
    ///
    /// # Errors
    /// There are none for too long.
    pub async fn share(&self, bytes: usize) -> Result<Share, Refused> {
        if let Some(share) = self.take(bytes) {
            return Ok(share);
        }
        let waiting = Waiting::among(&self.waiting, bytes);
        if self.waiting.load(Ordering::Relaxed) > self.waiting_max {
            drop(waiting);
            self.refused.fetch_add(1, Ordering::Relaxed);
            return Err(Refused::Full);
        }
        match timeout(self.patience, Arc::clone(&self.permits).acquire_many_owned(permits(bytes))).await {
            Ok(Ok(permit)) => Ok(Share::of(permit, bytes)),
            // It is never closed.
            Ok(Err(_)) | Err(_) => Err(Refused::Full),
        }
    }

    /// So many bytes if they are there.
    ///
    /// # Errors
    /// They are not.
    pub fn try_share(&self, bytes: usize) -> Result<Share, Refused> {
        self.take(bytes).ok_or_else(|| {
            self.refused.fetch_add(1, Ordering::Relaxed);
            Refused::Full
        })
    }

    /// The same of who waits if they are not.
    fn take(&self, bytes: usize) -> Option<Share> {
        let permit = Arc::clone(&self.permits).try_acquire_many_owned(permits(bytes)).ok()?;
        Some(Share::of(permit, bytes))
    }

    /// Bytes that nobody has.
    #[must_use]
    pub fn free(&self) -> usize {
        self.permits.available_permits() * PERMIT_BYTES
    }

    /// Does what waits for a peer.
    async fn giving_up<T>(&self, share: &Share, work: impl Future<Output = T>) -> Result<T, Refused> {
        tokio::select! {
            biased;
            done = work => Ok(done),
            () = self.others_wait(share.since) => Err(Refused::GivenUp),
        }
    }

    /// Does what waits for more of a message.
    async fn coming<T>(&self, share: &Share, work: impl Future<Output = T>) -> Result<T, Refused> {
        tokio::select! {
            biased;
            done = work => Ok(done),
            () = self.others_wait(share.since) => Err(Refused::GivenUp),
            () = self.others_wait_for(share) => Err(Refused::GivenUp),
        }
    }

    /// Comes to an end when others wait and little has come for a while.
    async fn others_wait_for(&self, share: &Share) {
        loop {
            let ends = share.window().begun + WINDOW;
            sleep_until(ends).await;
            let window = share.next_window();
            if window.bytes < WINDOW_BYTES && self.waiting.load(Ordering::Relaxed) > 0 {
                return;
            }
        }
    }

    /// Comes to an end when a share that was had since then is to be given up.
    async fn others_wait(&self, since: Instant) {
        let refused = self.refused.load(Ordering::Relaxed);
        sleep_until(since + SLOWEST_MIN).await;
        loop {
            let waiting = self.waiting.load(Ordering::Relaxed);
            // Who does not wait has gone away with nothing.
            let is_wanted = waiting > 0 || self.refused.load(Ordering::Relaxed) != refused;
            if is_wanted && since.elapsed() >= self.slowest(waiting) {
                return;
            }
            sleep(LOOK).await;
        }
    }

    /// For how long a share is had while so many bytes are waited for.
    fn slowest(&self, waiting: usize) -> Duration {
        let share = |bytes: usize| u32::try_from(bytes / PERMIT_BYTES).unwrap_or(u32::MAX);
        let (all, beside) = (share(self.bytes), share(waiting.saturating_mul(WANTED)));
        let less = SLOWEST.saturating_mul(all) / all.saturating_add(beside).max(1);
        less.max(SLOWEST_MIN)
    }
}

impl Share {
    fn of(permit: OwnedSemaphorePermit, bytes: usize) -> Self {
        let since = Instant::now();
        let window = Mutex::new(Window { begun: since, bytes: 0 });
        Self { permit, bytes, class: Class::Usual, since, window }
    }

    fn of_class(self, class: Class) -> Self {
        Self { class, ..self }
    }

    /// So many bytes more of its message have come.
    pub fn came(&self, bytes: usize) {
        self.window().bytes += bytes;
    }

    fn window(&self) -> MutexGuard<'_, Window> {
        // Nothing panics while it is held.
        self.window.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Begins another window; the one before.
    fn next_window(&self) -> Window {
        std::mem::replace(&mut self.window(), Window { begun: Instant::now(), bytes: 0 })
    }

    /// The bytes that it is of.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Gives back what is beyond so many bytes.
    pub fn shrink(&mut self, bytes: usize) {
        let beyond = self.permit.num_permits().saturating_sub(permits(bytes) as usize);
        drop(self.permit.split(beyond));
    }

    /// It is had from now on: its peer had nothing to do with it before.
    pub fn begin(&mut self) {
        self.since = Instant::now();
    }
}

fn permits(bytes: usize) -> u32 {
    u32::try_from(bytes.div_ceil(PERMIT_BYTES)).unwrap_or(u32::MAX)
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    const ALL: usize = 64 << 20;

    fn nothing_comes() -> std::future::Pending<()> {
        std::future::pending()
    }

    #[tokio::test(start_paused = true)]
    async fn room_is_given_up_when_its_peer_is_slow_and_others_wait() {
        let room = MessageRoom::new(3 * ALL / 2, ALL);
        let share = room.share(ALL).await.unwrap().unwrap();
        let alone = timeout(10 * SLOWEST, room.giving_up(Some(&share), nothing_comes())).await;
        assert!(alone.is_err(), "nobody waits");
        let (other, given_up) = tokio::join!(room.share(ALL), room.giving_up(Some(&share), nothing_comes()));
        assert_eq!(given_up.unwrap_err(), Refused::GivenUp);
        assert_eq!(other.err(), Some(Refused::Full), "it is given back by who has it");
        assert!(room.try_share(2 * USUAL_BYTES).is_err());
        drop(share);
        let share = room.share(ALL).await.unwrap();
        let work = async { sleep(Duration::from_secs(1)).await };
        assert!(room.giving_up(share.as_ref(), work).await.is_ok());
        assert!(timeout(10 * SLOWEST, room.giving_up(None, nothing_comes())).await.is_err(), "it has none");
    }

    #[tokio::test(start_paused = true)]
    async fn who_reads_does_not_wait_for_all_who_do_not_one_after_the_other() {
        let room = Arc::new(MessageRoom::new(3 * ALL / 2, ALL));
        // Ten times as many as there is room for.
        for _ in 0..10 * ALL / (8 << 20) {
            let room = Arc::clone(&room);
            tokio::spawn(async move {
                let Ok(share) = room.share(8 << 20).await else { return };
                let _ = room.giving_up(share.as_ref(), nothing_comes()).await;
            });
        }
        sleep(LOOK).await;
        let began = Instant::now();
        assert!(room.share(8 << 20).await.is_ok(), "it waited for too long");
        // One after the other they would take ten times as long as one.
        assert!(began.elapsed() < 5 * SLOWEST / 2, "{:?}", began.elapsed());
    }

    #[tokio::test(start_paused = true)]
    async fn whoever_stops_sending_has_no_room_while_others_wait() {
        let room = Arc::new(MessageRoom::new(3 * ALL / 2, ALL));
        let slow = room.share(ALL).await.unwrap().unwrap();
        let second = Duration::from_secs(1);
        assert!(timeout(second, room.coming(Some(&slow), nothing_comes())).await.is_err(), "nobody waits");
        let waits = Arc::clone(&room);
        let other = tokio::spawn(async move { waits.share(ALL).await });
        let began = Instant::now();
        // A little now and then is as nothing.
        while room.coming(Some(&slow), sleep(WINDOW / 5)).await.is_ok() {
            slow.came(50);
        }
        assert!(began.elapsed() < 3 * WINDOW, "{:?}", began.elapsed());
        drop(slow);
        let share = other.await.unwrap().unwrap().unwrap();
        let waits = Arc::clone(&room);
        tokio::spawn(async move { waits.share(ALL).await });
        let (began, mut refused) = (Instant::now(), None);
        while refused.is_none() {
            refused = room.coming(Some(&share), sleep(WINDOW / 5)).await.err();
            share.came(WINDOW_BYTES / 2);
        }
        assert!(began.elapsed() > SLOWEST_MIN, "who sends has its time");
    }

    #[tokio::test(start_paused = true)]
    async fn those_of_some_mib_do_not_come_after_all_larger_ones() {
        let room = Arc::new(MessageRoom::new(3 * ALL / 2, ALL).with_middle());
        let middle = room.share(MIDDLE_BYTES).await.unwrap().unwrap();
        assert_eq!(middle.class, Class::Large, "nobody is there, and no room is left unused");
        // So many that send a little of it again and again.
        for _ in 0..300 {
            let room = Arc::clone(&room);
            tokio::spawn(async move {
                loop {
                    // As long as they wait they hold what they have sent.
                    let Ok(_beginning) = room.beginning(ALL / 2).await else { continue };
                    let Ok(share) = room.share(ALL / 2).await else { continue };
                    let _ = room.coming(share.as_ref(), nothing_comes()).await;
                }
            });
        }
        sleep(PATIENCE / 2).await;
        let began = Instant::now();
        assert!(room.beginning(MIDDLE_BYTES).await.is_ok_and(|beginning| beginning.is_some()));
        let shares = [room.share(MIDDLE_BYTES).await, room.share(MIDDLE_BYTES).await];
        assert!(shares.iter().all(|share| share.as_ref().is_ok_and(Option::is_some)), "{shares:?}");
        assert!(began.elapsed() < WINDOW, "{:?}", began.elapsed());
        assert_eq!(room.try_share(MIDDLE_BYTES).err(), Some(Refused::Full));
        drop(shares);
        assert!(room.try_share(MIDDLE_BYTES).is_ok());
    }

    #[tokio::test(start_paused = true)]
    async fn large_messages_do_not_hold_up_those_of_usual_sizes() {
        let room = MessageRoom::new(3 * ALL / 2, ALL);
        let _large = room.share(ALL).await.unwrap();
        let mut usual = Vec::new();
        for _ in 0..ALL / 2 / USUAL_BYTES {
            usual.push(room.try_share(USUAL_BYTES).unwrap());
        }
        assert!(room.try_share(USUAL_BYTES).is_err() && room.share(UNCOUNTED_BYTES).await.unwrap().is_none());
        let least = MessageRoom::new(0, ALL);
        assert!(least.try_share(ALL).is_ok() && least.try_share(USUAL_BYTES).is_ok(), "one fits always");
    }
}
