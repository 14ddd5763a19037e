//! Where values are, or would be, without a change: for the constants of queries.

use super::cipher::Cipher;
use super::work::{Path, Work};
use super::{Kind, Miss, Stored, TRIES_MAX, Tree};
use crate::error::IndexError;
use crate::random::Randomness;
use arras_primitives::wipe::Wiped;
use arras_protocol::Blob;
use arras_protocol::mope::TreeStore;
use rand::seq::SliceRandom;

/// Where a value is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Place {
    /// It is in the tree.
    At(Stored),
    /// It is there, under keys of its occurrences ([`super::Kind::FrequencyHiding`]).
    Among {
        /// The last key of the values that are less; none if none is.
        below: Option<Stored>,
        /// The first of its keys.
        first: Stored,
        /// The last of them.
        last: Stored,
        /// The first key of the values that are greater.
        above: Option<Stored>,
    },
    /// It is not.
    Between {
        /// The greatest value of the tree that is less; none if none is.
        below: Option<Stored>,
        /// The least that is greater.
        above: Option<Stored>,
    },
}

/// Values in order, each once, or each of their occurrences.
pub(super) struct Sorted {
    /// One after the other.
    pub(super) plains: Wiped,
    /// Of each value as it came: which of the sorted ones it is.
    pub(super) ranks: Vec<usize>,
    /// How many there are.
    pub(super) count: usize,
}

impl Sorted {
    /// Each once.
    pub(super) fn new(cipher: &Cipher, values: &[impl AsRef<[u8]>]) -> Result<Self, IndexError> {
        let bytes = cipher.plain_bytes();
        let unsorted = cipher.plains(values)?;
        if values.len() == 1 {
            return Ok(Self { plains: unsorted, ranks: vec![0], count: 1 });
        }
        let plain = |at: usize| &unsorted[at * bytes..(at + 1) * bytes];
        let mut order: Vec<(u64, usize)> =
            (0..values.len()).map(|at| (super::cipher::number(plain(at)), at)).collect();
        if bytes == size_of::<u64>() {
            order.sort_unstable();
        } else {
            order.sort_unstable_by(|one, other| {
                one.0.cmp(&other.0).then_with(|| plain(one.1).cmp(plain(other.1)))
            });
        }
        let mut plains = Wiped::with_capacity(unsorted.len());
        let (mut ranks, mut count) = (vec![0; values.len()], 0);
        for (_, at) in order {
            if count == 0 || plains[(count - 1) * bytes..] != *plain(at) {
                plains.extend_from_slice(plain(at));
                count += 1;
            }
            ranks[at] = count - 1;
        }
        Ok(Self { plains, ranks, count })
    }

    /// Each as often as it is given; equal ones in random order.
    pub(super) fn occurrences(
        cipher: &Cipher,
        values: &[impl AsRef<[u8]>],
        randomness: &Randomness,
    ) -> Result<Self, IndexError> {
        let bytes = cipher.plain_bytes();
        let unsorted = cipher.plains(values)?;
        let plain = |at: usize| &unsorted[at * bytes..(at + 1) * bytes];
        let mut order: Vec<usize> = (0..values.len()).collect();
        order.shuffle(&mut randomness.rng());
        order.sort_by(|one, other| plain(*one).cmp(plain(*other)));
        let mut plains = Wiped::with_capacity(unsorted.len());
        let mut ranks = vec![0; values.len()];
        for (rank, at) in order.into_iter().enumerate() {
            plains.extend_from_slice(plain(at));
            ranks[at] = rank;
        }
        Ok(Self { plains, ranks, count: values.len() })
    }
}

impl<S: TreeStore> Tree<S> {
    /// Where values are, in the order in which they are given: one walk for all of them, which changes nothing. Waits for no
    /// writer.
    ///
    /// # Errors
    /// [`IndexError`].
    pub async fn places<V: AsRef<[u8]>>(&self, values: &[V]) -> Result<Vec<Place>, IndexError> {
        let sorted = Sorted::new(&self.cipher, values)?;
        // Of a tree that was found empty nothing would be read that shows that it is another by now.
        let mut again = self.shared.cache().start().is_some_and(|head| head.values == 0).then(Vec::new);
        for _ in 0..TRIES_MAX {
            let mut work = Work::start(self, again.take()).await?;
            match work.places(&sorted).await {
                Ok(places) => return Ok(in_order(places, &sorted.ranks)),
                Err(Miss::Moved) => again = Some(work.seen()),
                Err(Miss::Crowded(_)) => return Err(IndexError::Caller("a look-up needs no room")),
                Err(Miss::Failed(error)) => return Err(error),
            }
        }
        Err(IndexError::Peer("an order-preserving tree changes faster than it can be read"))
    }
}

/// What was found, for the values as they came.
fn in_order(places: Vec<Place>, ranks: &[usize]) -> Vec<Place> {
    if ranks.len() == places.len() && ranks.is_sorted() {
        return places;
    }
    ranks.iter().filter_map(|rank| places.get(*rank).cloned()).collect()
}

impl<S: TreeStore> Work<'_, S> {
    async fn places(&mut self, sorted: &Sorted) -> Result<Vec<Place>, Miss> {
        if self.head.values == 0 || sorted.count == 0 {
            return Ok(vec![Place::Between { below: None, above: None }; sorted.count]);
        }
        if self.tree.kind == Kind::FrequencyHiding {
            return self.ends(sorted).await;
        }
        let bytes = self.tree.layout.plain_bytes;
        let mut places = Vec::with_capacity(sorted.count);
        for landing in self.descend(&sorted.plains, sorted.count).await? {
            let leaf = &self.leaf(landing.path)?.body;
            for at in landing.values {
                let plain = &sorted.plains[at * bytes..(at + 1) * bytes];
                places.push(match self.tree.locate(leaf, plain)? {
                    Ok(at) => Place::At(self.stored(landing.path, at)?),
                    Err(at) => Place::Between {
                        below: at.checked_sub(1).map(|below| self.stored(landing.path, below)).transpose()?,
                        above: self.stored_or_next(landing.path, at)?,
                    },
                });
            }
        }
        Ok(places)
    }

    /// A key of a leaf.
    pub(super) fn stored(&self, path: Path, at: usize) -> Result<Stored, IndexError> {
        let leaf = &self.leaf(path)?.body;
        let ciphertext = Blob(leaf.ciphertext(at, &self.tree.layout).to_vec());
        Ok(Stored { ciphertext, label: leaf.labels[at] })
    }

    /// The same, or the next leaf's first where the leaf ends.
    pub(super) fn stored_or_next(&self, path: Path, at: usize) -> Result<Option<Stored>, IndexError> {
        if at < self.leaf(path)?.body.len() {
            return self.stored(path, at).map(Some);
        }
        let stored = |ciphertext: &[u8], label| Stored { ciphertext: Blob(ciphertext.to_vec()), label };
        Ok(self.next_first(path)?.map(|first| stored(first.ciphertext, first.label)))
    }
}
