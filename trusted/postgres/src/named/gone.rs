//! Names of prepared statements that named one of encrypted columns and do not any more, or were to and were refused: what is given
//! to one of them was meant for encrypted columns.

use crate::text::NAME_BYTES;
use std::collections::{HashSet, VecDeque};
use std::hash::{BuildHasher, RandomState};

/// Names that are kept of a session, the last ones.
const NAMES_MAX: usize = 8192;

/// Such names, each as its hash: that two have one is as good as impossible, and a session may have had names without end.
#[derive(Clone, Debug, Default)]
pub(crate) struct Gone {
    hasher: RandomState,
    names: HashSet<u64>,
    /// In the order in which they went.
    order: VecDeque<u64>,
}

impl Gone {
    fn hash(&self, name: &[u8]) -> u64 {
        self.hasher.hash_one(name.get(..NAME_BYTES).unwrap_or(name))
    }

    /// It names no statement of encrypted columns any more.
    pub(crate) fn note(&mut self, name: &[u8]) {
        let hash = self.hash(name);
        if !self.names.insert(hash) {
            return;
        }
        self.order.push_back(hash);
        if self.order.len() > NAMES_MAX
            && let Some(oldest) = self.order.pop_front()
        {
            self.names.remove(&oldest);
        }
    }

    /// It names another statement.
    pub(crate) fn is_back(&mut self, name: &[u8]) {
        let hash = self.hash(name);
        if self.names.remove(&hash) {
            self.order.retain(|other| *other != hash);
        }
    }

    pub(crate) fn has(&self, name: &[u8]) -> bool {
        !self.names.is_empty() && self.names.contains(&self.hash(name))
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.names.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::{Gone, NAMES_MAX};

    #[test]
    fn the_last_names_are_known_as_postgresql_compares_them() {
        let mut gone = Gone::default();
        gone.note(&[b'n'; 70]);
        assert!(gone.has(&[b'n'; 63]) && gone.has(&[b'n'; 64]) && !gone.has(&[b'n'; 62]));
        gone.is_back(&[b'n'; 80]);
        assert!(gone.is_empty());
        for number in 0..NAMES_MAX + 2 {
            gone.note(number.to_string().as_bytes());
        }
        assert!(!gone.has(b"1") && gone.has(b"2") && gone.has((NAMES_MAX + 1).to_string().as_bytes()));
        gone.note(b"2");
        gone.note(b"another");
        assert_eq!((gone.names.len(), gone.order.len()), (NAMES_MAX, NAMES_MAX));
    }
}
