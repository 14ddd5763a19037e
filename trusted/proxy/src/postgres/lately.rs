//! Keys that were given out lately, for statements that may still come: they are not taken out, though no row has them.

use std::collections::{HashSet, VecDeque};
use std::hash::{BuildHasher, RandomState};
use std::time::{Duration, Instant};

/// For how long a key that was given out stays at least.
const GRACE: Duration = Duration::from_secs(60);
/// Keys given out in so long go together.
const GENERATION: Duration = Duration::from_secs(10);

/// By hashes, 64 bits each, in generations: whatever a column enters in 70 seconds takes some 12 bytes a key. One that shares another's
/// hash stays as long as that.
#[derive(Default)]
pub(super) struct Lately {
    /// When each began, the latest last.
    generations: VecDeque<(Instant, HashSet<u64>)>,
    hasher: RandomState,
}

impl Lately {
    /// A key is given out.
    pub(super) fn note(&mut self, ciphertext: &[u8], now: Instant) {
        let hash = self.hasher.hash_one(ciphertext);
        match self.generations.back_mut() {
            Some((since, keys)) if now.duration_since(*since) < GENERATION => drop(keys.insert(hash)),
            Some(_) | None => self.generations.push_back((now, HashSet::from([hash]))),
        }
    }

    /// Was it, and does it stay?
    pub(super) fn has(&self, ciphertext: &[u8]) -> bool {
        let hash = self.hasher.hash_one(ciphertext);
        self.generations.iter().any(|(_, keys)| keys.contains(&hash))
    }

    /// Forgets those that were given out too long ago.
    pub(super) fn let_go(&mut self, now: Instant) {
        while self
            .generations
            .front()
            .is_some_and(|(since, _)| now.duration_since(*since) >= GRACE + GENERATION)
        {
            self.generations.pop_front();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_stays_for_a_minute_from_when_it_was_given_out_last() {
        let (start, second) = (Instant::now(), Duration::from_secs(1));
        let mut lately = Lately::default();
        lately.note(b"a", start);
        lately.note(b"b", start + 9 * second);
        lately.note(b"a", start + 30 * second);
        lately.let_go(start + 69 * second);
        assert!(lately.has(b"a") && lately.has(b"b") && !lately.has(b"c"));
        lately.let_go(start + 70 * second);
        assert!(lately.has(b"a") && !lately.has(b"b"));
        lately.let_go(start + 99 * second);
        assert!(lately.has(b"a"));
        lately.let_go(start + 100 * second);
        assert!(!lately.has(b"a") && lately.generations.is_empty());
    }
}
