//! A set of keys that answers "not there" or "perhaps": a Bloom filter of split blocks (Putze, Sanders and Singler,
//! 2007; the variant and the constants are those of Apache Parquet), which grows in parts (Almeida, Baquero, Preguiça
//! and Hutchison, 2007).
//!
//! A key sets one bit in each of the eight words of one block, so that a look touches a single cache line for each
//! part. A part has 16 bits for each key that it is made for, which has it answer "perhaps" for about one absent key in
//! a thousand; the last part takes what comes after that, and answers "perhaps" more and more often.

use std::hash::{BuildHasher, RandomState};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};

const WORDS: usize = 8;

/// Keys that a block is made for.
const KEYS_PER_BLOCK: usize = 16;

/// Blocks of the first part; each further one has twice as many as the one before.
const FIRST_BLOCKS: usize = 1 << 11;

/// Parts, at most: 16 MiB in all, for 8 million keys.
const PARTS: usize = 8;

/// Odd numbers by which a key's hash is multiplied, one for each word.
const SALTS: [u32; WORDS] =
    [0x47b6_137b, 0x4497_4d91, 0x8824_ad5b, 0xa2b7_289d, 0x7054_95c7, 0x2df1_424b, 0x9efc_4947, 0x5c6b_fb31];

/// 256 bits.
#[derive(Default)]
struct Block([AtomicU32; WORDS]);

impl Block {
    /// The words, with the bit of each that stands for a hash.
    fn bits(&self, hash: u64) -> impl Iterator<Item = (&AtomicU32, u32)> {
        // The lower half; the upper one chose the block.
        let low = hash as u32;
        self.0.iter().zip(SALTS).map(move |(word, salt)| (word, 1_u32 << (low.wrapping_mul(salt) >> 27)))
    }
}

/// Blocks made together.
struct Part {
    blocks: Box<[Block]>,
    keys: AtomicUsize,
}

impl Part {
    fn new(number: usize) -> Self {
        let blocks = (0..FIRST_BLOCKS << number).map(|_| Block::default()).collect();
        Self { blocks, keys: AtomicUsize::new(0) }
    }

    fn block(&self, hash: u64) -> Option<&Block> {
        let place = ((hash >> 32) * self.blocks.len() as u64) >> 32;
        self.blocks.get(usize::try_from(place).ok()?)
    }

    fn may_hold(&self, hash: u64) -> bool {
        // Who sees a key in the engine has synchronized with who added it here before.
        self.block(hash)
            .is_none_or(|block| block.bits(hash).all(|(word, bit)| word.load(Ordering::Relaxed) & bit != 0))
    }

    /// True if it has taken as many keys as it was made for.
    fn add(&self, hash: u64) -> bool {
        for (word, bit) in self.block(hash).into_iter().flat_map(|block| block.bits(hash)) {
            word.fetch_or(bit, Ordering::Relaxed);
        }
        self.keys.fetch_add(1, Ordering::Relaxed) + 1 >= self.blocks.len() * KEYS_PER_BLOCK
    }
}

/// See the module. Keys are added and looked for side by side; none is taken out.
pub(super) struct Filter {
    /// Of this filter alone: nobody who chooses keys can choose where they fall.
    hashing: RandomState,
    parts: [OnceLock<Part>; PARTS],
    /// The part that takes keys.
    last: AtomicUsize,
    keys: AtomicUsize,
}

impl std::fmt::Debug for Filter {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Filter({} keys)", self.keys())
    }
}

impl Filter {
    /// An empty one whose first part is made for so many keys, as far as there may be such a part.
    pub(super) fn new(keys: u64) -> Self {
        let of_part = |part: usize| ((FIRST_BLOCKS * KEYS_PER_BLOCK) << part) as u64;
        let first = (0..PARTS).find(|part| of_part(*part) >= keys).unwrap_or(PARTS - 1);
        Self {
            hashing: RandomState::new(),
            parts: [const { OnceLock::new() }; PARTS],
            last: AtomicUsize::new(first),
            keys: AtomicUsize::new(0),
        }
    }

    /// How many keys were added of which it was not known yet.
    pub(super) fn keys(&self) -> u64 {
        self.keys.load(Ordering::Relaxed) as u64
    }

    /// False only if `key` was not added.
    pub(super) fn may_hold(&self, key: &[u8]) -> bool {
        self.may_hold_hash(self.hashing.hash_one(key))
    }

    fn may_hold_hash(&self, hash: u64) -> bool {
        self.parts.iter().rev().filter_map(OnceLock::get).any(|part| part.may_hold(hash))
    }

    /// Adds a key.
    pub(super) fn add(&self, key: &[u8]) {
        let hash = self.hashing.hash_one(key);
        if self.may_hold_hash(hash) {
            return;
        }
        let last = self.last.load(Ordering::Acquire);
        let Some(part) = self.parts.get(last) else { return };
        let is_full = part.get_or_init(|| Part::new(last)).add(hash);
        if is_full && last + 1 < PARTS {
            // Who is later has found it raised.
            let _raised = self.last.compare_exchange(last, last + 1, Ordering::AcqRel, Ordering::Acquire);
        }
        self.keys.fetch_add(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Distinct keys.
    fn key(number: u64) -> [u8; 16] {
        u128::from(number).to_be_bytes()
    }

    /// Of `absent` keys, how many are perhaps there.
    fn perhaps(filter: &Filter, absent: std::ops::Range<u64>) -> usize {
        absent.filter(|number| filter.may_hold(&key(*number))).count()
    }

    #[test]
    fn no_key_that_was_added_is_denied_while_it_grows() {
        let filter = Filter::new(0);
        (0..400_000).for_each(|number| filter.add(&key(number)));
        assert!((0..400_000).all(|number| filter.may_hold(&key(number))));
        let parts = filter.parts.iter().filter(|part| part.get().is_some()).count();
        assert_eq!(parts, 4, "of 32,768 keys, and twice as many each time");
        // About one in a thousand for each part: far from one in fifty, and from none.
        let wrong = perhaps(&filter, 1 << 32..(1 << 32) + 100_000);
        assert!((10..2000).contains(&wrong), "{wrong} of 100,000");
    }

    #[test]
    fn what_is_added_again_takes_no_room() {
        let filter = Filter::new(0);
        for _ in 0..100 {
            (0..1000).for_each(|number| filter.add(&key(number)));
        }
        assert!((990..=1000).contains(&filter.keys()), "{}", filter.keys());
    }

    #[test]
    fn beyond_its_bound_it_denies_less_and_nothing_that_is_there() {
        let filter = Filter::new(u64::MAX);
        // As if it had grown so far; what the largest part holds four times over would take a test too long.
        filter.last.store(PARTS - 1, Ordering::Release);
        let part = filter.parts[PARTS - 1].get_or_init(|| Part::new(PARTS - 1));
        assert_eq!(part.blocks.len() * KEYS_PER_BLOCK, 1 << 22);
        part.keys.store(1 << 30, Ordering::Relaxed);
        (0..10_000).for_each(|number| filter.add(&key(number)));
        assert!((0..10_000).all(|number| filter.may_hold(&key(number))));
        let bytes: usize = (0..PARTS).map(|part| (FIRST_BLOCKS << part) * size_of::<Block>()).sum();
        assert!(bytes < 16 << 20, "{bytes}");
    }

    #[test]
    fn keys_may_be_added_and_looked_for_side_by_side() {
        let filter = Filter::new(0);
        std::thread::scope(|scope| {
            for first in 0..4_u64 {
                let filter = &filter;
                scope.spawn(move || {
                    for number in (first * 20_000..).take(30_000) {
                        filter.add(&key(number));
                        assert!(filter.may_hold(&key(number)));
                    }
                });
            }
        });
        assert!((0..90_000).all(|number| filter.may_hold(&key(number))));
    }

    proptest! {
        #[test]
        fn no_key_that_was_added_is_denied(
            keys in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..40), 0..200),
            made_for in 0..200_000_u64,
        ) {
            let filter = Filter::new(made_for);
            for (added, key) in keys.iter().enumerate() {
                filter.add(key);
                prop_assert!(keys.iter().take(added + 1).all(|key| filter.may_hold(key)));
            }
        }
    }
}
