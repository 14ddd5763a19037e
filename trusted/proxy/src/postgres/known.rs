//! Ciphertexts that a column's order is known to have, so that what is stored again costs no round.
//!
//! For orders in which a value that was entered stays and has one ciphertext for ever: what is kept is what the database has, and
//! no value. Nothing rests on it: a statement finds labels by ciphertexts, and one that has none is the database's error. Now and
//! then a value is looked up all the same, so that a database that was set back is noticed as soon as that.

use std::collections::HashSet;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Statements whose values are known, until one's are looked up all the same. (By number and not by time: what the database sees
/// depends on what is asked.)
const BELIEVED: u32 = 256;

/// Bytes of ciphertexts that are kept, at most: where another has no room, all go.
const BYTES_MAX: usize = 1024 * 1024;
/// What one takes beside itself, about.
const OVERHEAD_BYTES: usize = 48;

/// Ciphertexts that were found to be there.
#[derive(Default)]
pub(super) struct Known(Mutex<Ciphertexts>);

#[derive(Default)]
struct Ciphertexts {
    there: HashSet<Vec<u8>>,
    bytes: usize,
    /// So many more are believed.
    left: u32,
}

impl Known {
    fn ciphertexts(&self) -> MutexGuard<'_, Ciphertexts> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Are all of a statement's there, by what was seen lately?
    pub(super) fn has_all(&self, ciphertexts: &[Vec<u8>]) -> bool {
        let mut known = self.ciphertexts();
        let has = known.left > 0 && ciphertexts.iter().all(|one| known.there.contains(one));
        if has {
            known.left -= 1;
        }
        has
    }

    /// They are there, as a look at the order has found.
    pub(super) fn found(&self, ciphertexts: &[Vec<u8>]) {
        let mut known = self.ciphertexts();
        known.left = BELIEVED;
        for one in ciphertexts {
            if known.there.contains(one) {
                continue;
            }
            if known.bytes + one.len() + OVERHEAD_BYTES > BYTES_MAX {
                known.there.clear();
                known.bytes = 0;
            }
            if one.len() + OVERHEAD_BYTES <= BYTES_MAX {
                known.bytes += one.len() + OVERHEAD_BYTES;
                known.there.insert(one.clone());
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_found_is_known_until_the_order_is_to_be_looked_at_again() {
        let known = Known::default();
        assert!(!known.has_all(&[]), "nothing was looked at");
        known.found(&[vec![1], vec![2]]);
        for _ in 0..BELIEVED {
            assert!(!known.has_all(&[vec![1], vec![3]]));
            assert!(known.has_all(&[vec![2], vec![1]]));
        }
        assert!(!known.has_all(&[vec![1]]));
        known.found(&[]);
        assert!(known.has_all(&[vec![1]]));
    }

    #[test]
    fn as_many_are_kept_as_there_is_room_for() {
        let known = Known::default();
        for number in 0..200_000_u32 {
            known.found(&[number.to_be_bytes().to_vec()]);
            assert!(known.has_all(&[number.to_be_bytes().to_vec()]));
        }
        let known = known.ciphertexts();
        assert!(known.there.len() * (4 + OVERHEAD_BYTES) <= BYTES_MAX && known.there.len() > 1000);
    }
}
