//! Keys of single occurrences that were entered for rows yet to be written: those of a batch, in one change, and those of statements
//! that have to be tried again. Whatever stores such a value next in the same session takes one; which, says nothing. Another session
//! does not: whoever watches would see that its value is that of the session which had the key entered.

use arras_protocol::Blob;
use std::collections::{HashMap, VecDeque};
use std::time::{Duration, Instant};

/// For how long they are handed out: less than they stay in the tree without a row.
const FRESH: Duration = Duration::from_secs(30);
/// How many are kept; more are swept out, and made anew.
const KEYS_MAX: usize = 1 << 16;

/// For whom a key is: the database's process of a session, and the value.
type Wanted = (Option<i32>, Vec<u8>);

/// A key, and when it was entered or given out last, or before: from then on it is counted how long it stays.
pub(super) type Key = (Blob, Instant);

/// Ciphertexts by the sessions and values that they are for.
#[derive(Default)]
pub(super) struct Ready {
    keys: HashMap<Wanted, VecDeque<Key>>,
    count: usize,
}

impl Ready {
    /// Keeps a value's key for a session.
    pub(super) fn keep(&mut self, process: Option<i32>, value: &[u8], key: Key) {
        if self.count < KEYS_MAX {
            self.keys.entry((process, value.to_vec())).or_default().push_back(key);
            self.count += 1;
        }
    }

    /// A key of a value, which is from then on the caller's.
    pub(super) fn take(&mut self, process: Option<i32>, value: &[u8], now: Instant) -> Option<Key> {
        let wanted = (process, value.to_vec());
        let keys = self.keys.get_mut(&wanted)?;
        let mut taken = None;
        while taken.is_none()
            && let Some(key) = keys.pop_front()
        {
            self.count -= 1;
            taken = is_fresh(&key, now).then_some(key);
        }
        if keys.is_empty() {
            self.keys.remove(&wanted);
        }
        taken
    }

    /// Lets those go that are too old.
    pub(super) fn let_go(&mut self, now: Instant) {
        self.keys.retain(|_, keys| {
            keys.retain(|key| is_fresh(key, now));
            !keys.is_empty()
        });
        self.count = self.keys.values().map(VecDeque::len).sum();
    }
}

fn is_fresh((_, since): &Key, now: Instant) -> bool {
    now.duration_since(*since) < FRESH
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ciphertext(byte: u8) -> Blob {
        Blob(vec![byte])
    }

    #[test]
    fn each_key_is_taken_once_and_in_its_session() {
        let (mut ready, now) = (Ready::default(), Instant::now());
        for (process, value, byte) in [(Some(7), b"a", 1), (Some(7), b"a", 2), (Some(8), b"b", 3)] {
            ready.keep(process, value, (ciphertext(byte), now));
        }
        let mut take = |process, value: &[u8]| ready.take(process, value, now).map(|(key, _)| key);
        assert_eq!([take(Some(7), b"a"), take(Some(7), b"c")], [Some(ciphertext(1)), None]);
        assert_eq!([take(Some(8), b"a"), take(None, b"a"), take(Some(7), b"b")], [None, None, None]);
        assert_eq!([take(Some(7), b"a"), take(Some(7), b"a")], [Some(ciphertext(2)), None]);
        assert_eq!(take(Some(8), b"b"), Some(ciphertext(3)));
        assert_eq!((ready.count, ready.keys.len()), (0, 0));
    }

    /// As one that its taker could not use.
    #[test]
    fn a_key_that_comes_back_is_as_old_as_before() {
        let (mut ready, start) = (Ready::default(), Instant::now());
        ready.keep(None, b"a", (ciphertext(1), start));
        let key = ready.take(None, b"a", start + FRESH / 2).expect("it is fresh");
        ready.keep(None, b"a", key);
        assert_eq!(ready.take(None, b"a", start + FRESH), None);
        ready.keep(None, b"a", (ciphertext(2), start));
        ready.let_go(start + FRESH);
        assert_eq!((ready.count, ready.keys.len()), (0, 0));
    }

    #[test]
    fn no_more_are_kept_than_there_is_room_for() {
        let (mut ready, now) = (Ready::default(), Instant::now());
        for _ in 0..=KEYS_MAX {
            ready.keep(None, b"a", (ciphertext(1), now));
        }
        assert_eq!(ready.count, KEYS_MAX);
    }
}
