//! Room for what sessions keep: prepared statements and portals, of which no session may leave the others none.

use super::{Room, Share};
use crate::error::SqlError;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// A session has so many bytes whatever others have, as long as there are any.
const LEAST_BYTES: usize = 256 * 1024;

/// Room for statements that are prepared under a name, and room of its own for what passes: statements without one, and portals.
pub(crate) struct KeptRoom {
    named: Room,
    passing: Room,
}

/// The bytes that one session has of it.
#[derive(Default)]
pub(crate) struct ConnectionPart {
    named: Arc<AtomicUsize>,
    passing: Arc<AtomicUsize>,
}

/// A share of a session's; given back when dropped.
pub(crate) struct KeptShare {
    share: Share,
    session: Arc<AtomicUsize>,
}

impl KeptShare {
    fn of(share: Share, session: &Arc<AtomicUsize>) -> Self {
        session.fetch_add(share.bytes(), Ordering::Relaxed);
        Self { share, session: Arc::clone(session) }
    }
}

impl Drop for KeptShare {
    fn drop(&mut self) {
        self.session.fetch_sub(self.share.bytes(), Ordering::Relaxed);
    }
}

impl KeptRoom {
    /// So many bytes: three quarters for what has a name.
    pub(crate) fn new(bytes: usize) -> Self {
        let passing = bytes / 4;
        Self { named: Room::new(bytes - passing), passing: Room::new(passing) }
    }

    /// Room for a statement that is prepared under a name, which may be empty.
    pub(crate) fn statement(
        &self,
        session: &ConnectionPart,
        name: &[u8],
        bytes: usize,
    ) -> Result<KeptShare, SqlError> {
        if name.is_empty() { self.passing(session, bytes) } else { self.named(session, bytes) }
    }

    /// Room for a statement with a name; 53200 if there is none, or the session has its part.
    fn named(&self, session: &ConnectionPart, bytes: usize) -> Result<KeptShare, SqlError> {
        within_part(&self.named, &session.named, bytes)
    }

    /// Room for a statement without a name, or a portal. One that is too large for their room may have some of the other, of which a
    /// session's part is not asked, as it goes with the next.
    pub(crate) fn passing(&self, session: &ConnectionPart, bytes: usize) -> Result<KeptShare, SqlError> {
        let found = within_part(&self.passing, &session.passing, bytes);
        if found.is_ok() || bytes <= LEAST_BYTES {
            return found;
        }
        self.named.try_share(bytes).map(|share| KeptShare::of(share, &session.passing)).or(found)
    }
}

/// A session may have as many bytes as are left then for all others.
fn within_part(room: &Room, session: &Arc<AtomicUsize>, bytes: usize) -> Result<KeptShare, SqlError> {
    let own = session.load(Ordering::Relaxed) + bytes;
    if own > LEAST_BYTES && own > room.free().saturating_sub(bytes) {
        return Err(part_is_full(session.load(Ordering::Relaxed)));
    }
    room.try_share(bytes).map(|share| KeptShare::of(share, session)).map_err(|_| full())
}

fn part_is_full(own: usize) -> SqlError {
    let text = format!(
        "prepared statements and portals of this session hold {} KiB of the proxy's memory, which is its part beside other sessions",
        own / 1024
    );
    SqlError::new("53200", text)
        .hint("DEALLOCATE prepared statements and close portals that are not needed, or give the proxy more memory.")
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

    fn fill(
        session: &ConnectionPart,
        take: impl Fn(&ConnectionPart, usize) -> Result<KeptShare, SqlError>,
    ) -> (Vec<KeptShare>, SqlError) {
        let mut kept = Vec::new();
        loop {
            match take(session, SHORT) {
                Ok(share) => kept.push(share),
                Err(error) => return (kept, error),
            }
        }
    }

    #[test]
    fn one_session_leaves_room_to_others() {
        let room = KeptRoom::new(ALL);
        let (greedy, other) = (ConnectionPart::default(), ConnectionPart::default());
        let (kept, refused) = fill(&greedy, |of, bytes| room.named(of, bytes));
        assert!(refused.sqlstate == "53200" && refused.message.contains("of this session"), "{refused}");
        assert!(kept.len() * SHORT > ALL / 4, "{}", kept.len());
        let (others, _) = fill(&other, |of, bytes| room.named(of, bytes));
        assert!(others.len() * SHORT > ALL / 8, "{}", others.len());
        assert!(room.passing(&greedy, SHORT).is_ok() && room.passing(&other, SHORT).is_ok());
        drop(kept);
        assert!(room.named(&greedy, SHORT).is_ok());
    }

    #[test]
    fn what_has_a_name_leaves_room_to_what_has_none() {
        let room = KeptRoom::new(ALL);
        let sessions: Vec<ConnectionPart> = (0..1000).map(|_| ConnectionPart::default()).collect();
        let filled: Vec<_> =
            sessions.iter().map(|one| fill(one, |of, bytes| room.named(of, bytes))).collect();
        let (_, refused) = filled.last().unwrap();
        assert!(refused.message.ends_with("is full"), "{refused}");
        assert!(sessions.iter().all(|one| room.passing(one, SHORT).is_ok()));
    }

    #[test]
    fn a_large_statement_without_a_name_takes_of_both() {
        let room = KeptRoom::new(ALL);
        let session = ConnectionPart::default();
        let large = room.passing(&session, ALL / 2).unwrap();
        assert!(room.passing(&ConnectionPart::default(), SHORT).is_ok());
        assert!(room.passing(&session, ALL / 2).is_err());
        drop(large);
        assert!(room.passing(&session, ALL / 2).is_ok());
    }
}
