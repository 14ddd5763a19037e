//! Requests to cancel: a client names its session by numbers that the proxy gave it, and the database's own session is
//! cancelled by the numbers that the database gave.

use rand::Rng;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// What a session is cancelled by: the number of its process and a secret.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Key {
    pub(crate) process: i32,
    pub(crate) secret: i32,
}

/// The sessions that can be cancelled.
#[derive(Clone, Default)]
pub(crate) struct Cancellable {
    keys: Arc<Mutex<HashMap<Key, Key>>>,
}

impl Cancellable {
    /// Enters a session of the database, until what is returned is dropped; what its client is to name it by. The process
    /// is the database's own, which statements can ask for; the secret is not.
    pub(crate) fn enter(&self, upstream: Key) -> Entered {
        let mut keys = self.lock();
        loop {
            let secret = rand::rng().next_u32().cast_signed();
            let shown = Key { process: upstream.process, secret };
            if let std::collections::hash_map::Entry::Vacant(place) = keys.entry(shown) {
                place.insert(upstream);
                return Entered { sessions: self.clone(), shown, upstream };
            }
        }
    }

    /// What the database knows a session by that a client names.
    pub(crate) fn upstream(&self, shown: Key) -> Option<Key> {
        self.lock().get(&shown).copied()
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<Key, Key>> {
        // Nothing panics while it is held.
        self.keys.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A session that can be cancelled.
pub(crate) struct Entered {
    sessions: Cancellable,
    pub(crate) shown: Key,
    pub(crate) upstream: Key,
}

impl Drop for Entered {
    fn drop(&mut self) {
        self.sessions.lock().remove(&self.shown);
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn a_session_is_named_by_what_its_client_was_given_while_it_lives() {
        let sessions = Cancellable::default();
        let upstream = Key { process: 7, secret: 9 };
        let entered = sessions.enter(upstream);
        let shown = entered.shown;
        assert_eq!(shown.process, 7);
        assert!(sessions.upstream(shown) == Some(upstream));
        assert!(sessions.upstream(Key { secret: shown.secret.wrapping_add(1), ..shown }).is_none());
        drop(entered);
        assert!(sessions.upstream(shown).is_none());
    }
}
