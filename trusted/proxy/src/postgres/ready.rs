//! Keys of single occurrences that were entered for rows yet to be written: those of a batch, in one change, and those of statements that have
//! to be tried again. Whoever stores such a value next takes one; which, says nothing.

use arras_protocol::Blob;
use std::collections::{HashMap, VecDeque};
use std::time::{Duration, Instant};

/// For how long they are handed out: less than they stay in the tree without a row.
const FRESH: Duration = Duration::from_secs(30);
/// How many are kept; more are swept out, and made anew.
const KEYS_MAX: usize = 1 << 16;

/// Ciphertexts by the values that they are of, and when each was entered.
#[derive(Default)]
pub(super) struct Ready {
    keys: HashMap<Vec<u8>, VecDeque<(Blob, Instant)>>,
    count: usize,
}

impl Ready {
    /// Keeps a value's key.
    pub(super) fn keep(&mut self, value: &[u8], ciphertext: Blob) {
        if self.count < KEYS_MAX {
            self.keys.entry(value.to_vec()).or_default().push_back((ciphertext, Instant::now()));
            self.count += 1;
        }
    }

    /// A key of a value, which is from then on the caller's.
    pub(super) fn take(&mut self, value: &[u8]) -> Option<Blob> {
        let keys = self.keys.get_mut(value)?;
        let mut taken = None;
        while taken.is_none()
            && let Some((ciphertext, since)) = keys.pop_front()
        {
            self.count -= 1;
            taken = (since.elapsed() < FRESH).then_some(ciphertext);
        }
        if keys.is_empty() {
            self.keys.remove(value);
        }
        taken
    }

    /// Lets those go that are too old.
    pub(super) fn let_go(&mut self) {
        self.keys.retain(|_, keys| {
            keys.retain(|(_, since)| since.elapsed() < FRESH);
            !keys.is_empty()
        });
        self.count = self.keys.values().map(VecDeque::len).sum();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_key_is_taken_once() {
        let mut ready = Ready::default();
        let ciphertext = |byte: u8| Blob(vec![byte]);
        ready.keep(b"a", ciphertext(1));
        ready.keep(b"a", ciphertext(2));
        ready.keep(b"b", ciphertext(3));
        assert_eq!([ready.take(b"a"), ready.take(b"c")], [Some(ciphertext(1)), None]);
        ready.let_go();
        assert_eq!(
            [ready.take(b"a"), ready.take(b"a"), ready.take(b"b")],
            [Some(ciphertext(2)), None, Some(ciphertext(3))]
        );
        assert_eq!((ready.count, ready.keys.len()), (0, 0));
    }

    #[test]
    fn no_more_are_kept_than_there_is_room_for() {
        let mut ready = Ready::default();
        for _ in 0..=KEYS_MAX {
            ready.keep(b"a", Blob(vec![1]));
        }
        assert_eq!(ready.count, KEYS_MAX);
    }
}
