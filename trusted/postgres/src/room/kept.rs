//! Room for what sessions keep: prepared statements and portals, of which no sessions may leave the others none.
//!
//! A little of each session's is not counted: with that much it can always work. Of the rest a session may have as much as it leaves
//! to all others; where many have done so in turn and there is none for one that has little, those end who have most.

use super::{PERMIT_BYTES, Room, Share};
use crate::error::SqlError;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;
use tokio::sync::Notify;
use tokio::time::timeout;

/// Bytes of a session that are not counted: its buffers cost as much.
const UNCOUNTED_BYTES: usize = 32 * 1024;
/// A session has so many bytes whatever others have, as long as there are any, and is not ended for the sake of others.
const LEAST_BYTES: usize = 256 * 1024;
/// Others end for who has that part of all at most,
const LITTLE: usize = 16;
/// and for who has far less: they have so many times as much.
const TIMES: usize = 4;
/// How long it is waited for the end of those.
const PATIENCE: Duration = Duration::from_secs(5);

/// Room for statements that are prepared under a name, and room of its own for what passes: statements without one, and portals.
pub(crate) struct KeptRoom {
    named: Part,
    passing: Part,
}

/// One of the two.
struct Part {
    room: Room,
    of: fn(&Had) -> &AtomicUsize,
    sessions: Arc<Mutex<Vec<Weak<Had>>>>,
}

/// What a session has.
#[derive(Default)]
struct Had {
    named: AtomicUsize,
    passing: AtomicUsize,
    /// It is to end.
    leaves: AtomicBool,
    told: Notify,
}

/// The bytes that one session has of it.
pub(crate) struct ConnectionPart(Arc<Had>);

impl ConnectionPart {
    /// Completes when the session is to end, since it has most where others have none; why.
    pub(crate) async fn gives_way(&self) -> SqlError {
        self.0.told.notified().await;
        let text = "this session had more of the proxy's memory for prepared statements and portals than any other, and there was none left";
        SqlError::new("53200", text).hint(HINT)
    }
}

/// A share of a session's; given back when dropped.
pub(crate) struct KeptShare {
    _share: Option<Share>,
    bytes: usize,
    session: Arc<Had>,
    of: fn(&Had) -> &AtomicUsize,
}

impl Drop for KeptShare {
    fn drop(&mut self) {
        (self.of)(&self.session).fetch_sub(self.bytes, Ordering::Relaxed);
    }
}

impl KeptRoom {
    /// So many bytes: three quarters for what has a name.
    pub(crate) fn new(bytes: usize) -> Self {
        let passing = bytes / 4;
        let sessions = Arc::default();
        let part = |bytes, of| Part { room: Room::new(bytes), of, sessions: Arc::clone(&sessions) };
        Self { named: part(bytes - passing, |had| &had.named), passing: part(passing, |had| &had.passing) }
    }

    /// A session that has nothing yet.
    pub(crate) fn session(&self) -> ConnectionPart {
        let had = Arc::new(Had::default());
        let mut sessions = self.named.sessions.lock().unwrap_or_else(PoisonError::into_inner);
        sessions.retain(|one| one.strong_count() > 0);
        sessions.push(Arc::downgrade(&had));
        ConnectionPart(had)
    }

    /// Room for a statement that is prepared under a name, which may be empty; 53200 if there is none, or the session has its part.
    pub(crate) async fn statement(
        &self,
        session: &ConnectionPart,
        name: &[u8],
        bytes: usize,
    ) -> Result<KeptShare, SqlError> {
        if name.is_empty() {
            return self.passing(session, bytes).await;
        }
        let bytes = bytes.next_multiple_of(PERMIT_BYTES);
        match self.named.within(session, bytes) {
            Ok(share) => Ok(share),
            Err(refused) => self.named.after_others(session, bytes).await.ok_or(refused),
        }
    }

    /// Room for a statement without a name, or a portal. One that is too large for their room may have some of the other, of which a
    /// session's part is not asked, as it goes with the next.
    pub(crate) async fn passing(
        &self,
        session: &ConnectionPart,
        bytes: usize,
    ) -> Result<KeptShare, SqlError> {
        let bytes = bytes.next_multiple_of(PERMIT_BYTES);
        let refused = match self.passing.within(session, bytes) {
            Ok(share) => return Ok(share),
            Err(refused) => refused,
        };
        if bytes > LEAST_BYTES
            && let Ok(share) = self.named.room.try_share(bytes)
        {
            return Ok(self.passing.had(session, bytes, Some(share)));
        }
        self.passing.after_others(session, bytes).await.ok_or(refused)
    }
}

impl Part {
    fn had(&self, session: &ConnectionPart, bytes: usize, share: Option<Share>) -> KeptShare {
        (self.of)(&session.0).fetch_add(bytes, Ordering::Relaxed);
        KeptShare { _share: share, bytes, session: Arc::clone(&session.0), of: self.of }
    }

    /// A session may have as many bytes as are left then for all others.
    fn within(&self, session: &ConnectionPart, bytes: usize) -> Result<KeptShare, SqlError> {
        let had = (self.of)(&session.0).load(Ordering::Relaxed);
        let own = had + bytes;
        if own <= UNCOUNTED_BYTES {
            return Ok(self.had(session, bytes, None));
        }
        if own > LEAST_BYTES && own > self.room.free().saturating_sub(bytes) {
            return Err(part_is_full(had));
        }
        let share = self.room.try_share(bytes).map_err(|_| full())?;
        Ok(self.had(session, bytes, Some(share)))
    }

    /// The same once those have ended who had far more, if there are any.
    async fn after_others(&self, session: &ConnectionPart, bytes: usize) -> Option<KeptShare> {
        let own = (self.of)(&session.0).load(Ordering::Relaxed) + bytes;
        // As much is to be left for others then as there is to be without them.
        let needed = if own > LEAST_BYTES { own + bytes } else { bytes };
        if own > LEAST_BYTES.max(self.room.bytes / LITTLE) || !self.have_end(own, needed) {
            return None;
        }
        let share = timeout(PATIENCE, self.room.share(bytes)).await.ok()?.ok()?;
        Some(self.had(session, bytes, Some(share)))
    }

    /// Has those end who have most of it, until there are so many bytes; false if those do not have them who have far more than
    /// that session.
    fn have_end(&self, own: usize, bytes: usize) -> bool {
        let sessions = self.sessions.lock().unwrap_or_else(PoisonError::into_inner);
        let least = LEAST_BYTES.max(own.saturating_mul(TIMES));
        let bytes_of = |had: &Arc<Had>| (self.of)(had).load(Ordering::Relaxed);
        let (mut leaving, mut others): (Vec<_>, Vec<_>) =
            sessions.iter().filter_map(Weak::upgrade).partition(|had| had.leaves.load(Ordering::Relaxed));
        others.retain(|had| bytes_of(had) > least);
        others.sort_by_key(bytes_of);
        let mut there = self.room.free() + leaving.iter().map(bytes_of).sum::<usize>();
        let chosen = leaving.len();
        while there < bytes {
            let Some(most) = others.pop() else { return false };
            there += bytes_of(&most);
            leaving.push(most);
        }
        for had in leaving.drain(chosen..) {
            had.leaves.store(true, Ordering::Relaxed);
            had.told.notify_one();
        }
        true
    }
}

const HINT: &str =
    "DEALLOCATE prepared statements and close portals that are not needed, or give the proxy more memory.";

fn part_is_full(own: usize) -> SqlError {
    let text = format!(
        "prepared statements and portals of this session hold {} KiB of the proxy's memory, which is its part beside other sessions",
        own / 1024
    );
    SqlError::new("53200", text).hint(HINT)
}

fn full() -> SqlError {
    SqlError::new("53200", "the proxy's memory for prepared statements and portals is full")
        .hint("Try again, or give the proxy more memory.")
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    const ALL: usize = 64 << 20;
    const SHORT: usize = 5000;

    async fn fill(room: &KeptRoom, session: &ConnectionPart, name: &[u8]) -> (Vec<KeptShare>, SqlError) {
        let mut kept = Vec::new();
        loop {
            match room.statement(session, name, SHORT).await {
                Ok(share) => kept.push(share),
                Err(error) => return (kept, error),
            }
        }
    }

    #[tokio::test(start_paused = true)]
    async fn one_session_leaves_room_to_others() {
        let room = KeptRoom::new(ALL);
        let (greedy, other) = (room.session(), room.session());
        let (kept, refused) = fill(&room, &greedy, b"s").await;
        assert!(refused.sqlstate == "53200" && refused.message.contains("of this session"), "{refused}");
        assert!(kept.len() * SHORT > ALL / 4, "{}", kept.len());
        let (others, _) = fill(&room, &other, b"s").await;
        assert!(others.len() * SHORT > ALL / 8, "{}", others.len());
        assert!(room.passing(&greedy, SHORT).await.is_ok() && room.passing(&other, SHORT).await.is_ok());
        drop(kept);
        assert!(room.statement(&greedy, b"s", SHORT).await.is_ok());
    }

    #[tokio::test(start_paused = true)]
    async fn whoever_has_little_works_whatever_others_have() {
        let room = KeptRoom::new(ALL);
        let mut filled = Vec::new();
        for _ in 0..1000 {
            let session = room.session();
            let kept = [fill(&room, &session, b"s").await.0, fill(&room, &session, b"").await.0];
            filled.push((session, kept));
        }
        let late = room.session();
        assert!(room.statement(&late, b"s", SHORT).await.is_ok() && room.passing(&late, SHORT).await.is_ok());
    }

    #[tokio::test(start_paused = true)]
    async fn who_has_most_ends_where_there_is_none_for_who_has_little() {
        for name in [&b"s"[..], b""] {
            let room = Arc::new(KeptRoom::new(ALL));
            let ended = Arc::new(AtomicUsize::new(0));
            for _ in 0..8 {
                let session = room.session();
                let (kept, _) = fill(&room, &session, name).await;
                let ended = Arc::clone(&ended);
                tokio::spawn(async move {
                    assert_eq!(session.gives_way().await.sqlstate, "53200");
                    ended.fetch_add(1, Ordering::Relaxed);
                    drop(kept);
                });
            }
            let (late, mut kept) = (room.session(), Vec::new());
            while kept.len() * SHORT < LEAST_BYTES {
                kept.push(room.statement(&late, name, SHORT).await.unwrap());
            }
            assert!((1..4).contains(&ended.load(Ordering::Relaxed)), "{ended:?}: what they had is enough");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn nobody_ends_for_the_sake_of_who_has_as_much() {
        let room = KeptRoom::new(ALL);
        let sessions: Vec<_> = (0..100).map(|_| room.session()).collect();
        let mut kept = Vec::new();
        'full: loop {
            for session in &sessions {
                match room.statement(session, b"s", SHORT).await {
                    Ok(share) => kept.push(share),
                    Err(refused) => {
                        assert!(refused.message.contains("proxy's memory"), "{refused}");
                        break 'full;
                    }
                }
            }
        }
        let leaves = |session: &ConnectionPart| session.0.leaves.load(Ordering::Relaxed);
        assert!(!sessions.iter().any(leaves));
    }

    #[tokio::test(start_paused = true)]
    async fn a_large_statement_without_a_name_takes_of_both() {
        let room = KeptRoom::new(ALL);
        let (session, other) = (room.session(), room.session());
        let large = room.passing(&session, ALL / 2).await.unwrap();
        assert!(room.passing(&other, SHORT).await.is_ok());
        assert!(room.passing(&session, ALL / 2).await.is_err());
        drop(large);
        assert!(room.passing(&session, ALL / 2).await.is_ok());
    }
}
