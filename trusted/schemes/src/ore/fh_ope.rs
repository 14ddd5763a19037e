//! FH-OPE, frequency-hiding order-preserving encryption: a search tree at the client gives each value, equal ones
//! included, a ciphertext of its own. Keyed half; the "key" is the tree.
//!
//! *Paper.* Kerschbaum, "Frequency-hiding order-preserving encryption", CCS 2015; Maffei, Reinert, Schröder, "On
//! the security of frequency-hiding order-preserving encryption", CANS 2017.
//!
//! *Parameters.* Plaintexts of 32 or 64 bits; ciphertexts are numbers from 1 to 2^64 - 2.
//!
//! *How.* The numbers of 64 bits are the places of a binary tree: 2^63 is the root, 2^62 and 3 * 2^62 its
//! children, odd numbers the leaves. A new value descends as in a search tree, to a random side at an equal value,
//! and takes the first free place: the middle between its neighbours. So the tree's shape is in its ciphertexts,
//! and the list of them is all that is kept.
//!
//! *Leakage.* The order of all values and when each came, nothing of which are equal: a ciphertext, and what a
//! rebalancing changes, is a function of the ciphertexts before and of the rank at which the value came in. The
//! server knows both. A bound of a query is the neighbouring stored ciphertext, so it tells a rank, no more.
//! Attacks: Grubbs et al., S&P 2017 (binomial attack).
//!
//! *Cost.* One walk an encryption, decryption or bound. Values in ascending or descending order exhaust the places
//! between two neighbours; see [`FhOpe::encrypt`].
//!
//! *Deviations.* A rebalancing renews the smallest subtree with enough room, where the paper renews the tree. This
//! tells nobody more: which subtree it is follows from the ciphertexts alone, which the server has. Forgotten
//! values leave their places free; the paper deletes nothing.

mod list;
mod state;

use self::list::{Gap, List};
pub use self::state::MalformedState;
use super::{EncryptFailed, Encrypted, End, OrderScheme, StatefulScheme};
use crate::error::OpenFailed;
use arras_primitives::meter::{Primitive, count};
use arras_primitives::prg::Prg;
use arras_protocol::bplus::TieToken;
use arras_protocol::ore::{Scheme, Width};

/// A search tree over plaintexts.
pub struct FhOpe {
    width: Width,
    /// Ciphertexts are below: the tree's places are the numbers between.
    end: u64,
    list: List,
}

impl std::fmt::Debug for FhOpe {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "FhOpe({:?}, {} values)", self.width, self.list.len())
    }
}

/// The place nearest to the root among those greater than `after` and not greater than `until`, where
/// `after < until`.
fn topmost(after: u64, until: u64) -> u64 {
    let level = (after ^ until).ilog2();
    until >> level << level
}

/// Ciphertexts of `count` values spread over the subtree at `root` as a balanced tree: the median at the root, and
/// so on below. Ascending.
fn spread(root: u64, count: usize, places: &mut Vec<u64>) {
    if count == 0 {
        return;
    }
    let half = 1 << root.trailing_zeros() >> 1;
    spread(root - half, count / 2, places);
    places.push(root);
    spread(root + half, count - 1 - count / 2, places);
}

impl FhOpe {
    /// An empty tree.
    #[must_use]
    pub fn new(width: Width) -> Self {
        Self { width, end: u64::MAX, list: List::new() }
    }

    /// The same tree with few places, 2^levels less one, so that few values make others move: for tests.
    ///
    /// # Panics
    /// `levels` is not between 1 and 63.
    #[must_use]
    pub fn with_levels(self, levels: u32) -> Self {
        assert!((1..u64::BITS).contains(&levels), "levels of numbers of 64 bits");
        Self { end: 1 << levels, ..self }
    }

    /// The ciphertext behind a gap; the end of all places if there is none.
    fn behind(&self, gap: Gap) -> u64 {
        self.list.ciphertext_behind(gap).min(self.end)
    }

    /// Values remembered.
    #[must_use]
    pub fn len(&self) -> usize {
        self.list.len()
    }

    /// Whether no value is remembered.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.list.len() == 0
    }

    /// Where a new ciphertext of `value` goes: for a value that is there, as far as coins lead from the topmost of
    /// its places.
    fn descend(&self, value: u64, prg: &mut Prg) -> Gap {
        let behind = self.list.behind(value);
        match self.list.last_before(behind) {
            Some((last, greatest)) if last == value => {
                let before = self.list.before(value);
                let least = self.list.ciphertext_behind(before);
                let smaller = self.list.ciphertext_before(before);
                let greater = Some(self.behind(behind)).filter(|greater| *greater < self.end);
                self.list.behind_ciphertext(coins(smaller, least, greatest, greater, prg))
            }
            _ => behind,
        }
    }

    /// Makes room in a gap between adjacent numbers: spreads the values of the smallest subtree around it that
    /// holds few enough. (old, new) of those that moved, ascending.
    ///
    /// A subtree of h levels is taken if it holds less than 2^(3h/8) values. Then each of its halves can take as
    /// many again before the subtree's turn comes, whatever the order of insertion (Bender, Cole, Demaine,
    /// Farach-Colton, Zito, "Two simplified algorithms for maintaining order in a list", ESA 2002).
    fn rebalance(&mut self, gap: Gap) -> Result<Vec<(u64, u64)>, EncryptFailed> {
        let (before, behind) = (self.list.ciphertext_before(gap), self.behind(gap));
        // The deeper neighbour: the value to insert would be its child.
        let deeper = if before.trailing_zeros() < behind.trailing_zeros() { before } else { behind };
        let top = topmost(0, self.end - 1).trailing_zeros();
        for level in 1..=top {
            let root = deeper >> level << level | 1 << level;
            let reach = (1 << level) - 1;
            let room = if level == top { usize::MAX } else { 1 << (3 * (level + 1) / 8) };
            let (left, right) = self.list.count_around(gap, root - reach, root + reach, room);
            if left + right < room.min(usize::try_from(reach).unwrap_or(usize::MAX)) {
                let mut places = Vec::with_capacity(left + right);
                spread(root, left + right, &mut places);
                let old = self.list.rewrite(gap, left, &places);
                return Ok(old.into_iter().zip(places).filter(|(old, new)| old != new).collect());
            }
        }
        Err(EncryptFailed::Full)
    }
}

/// A number whose descent from the topmost of the places `least..=greatest` takes a random side at each of them
/// and the right side at others: `smaller` and `greater` are the stored neighbours of these places, the first 0 if there
/// is none. A number n stands for n + 1/2, so that it is no place itself.
fn coins(smaller: u64, least: u64, greatest: u64, greater: Option<u64>, prg: &mut Prg) -> u64 {
    let root = topmost(least - 1, greatest);
    let half = 1 << root.trailing_zeros();
    let mut drawn = root - half + (prg.next_u64() & (half | (half - 1)));
    loop {
        // Where coins led past the equal values, go to the other side of the first place that is not theirs.
        let (from, half) = if drawn < smaller {
            let passed = topmost(drawn, smaller);
            (passed, 1 << passed.trailing_zeros())
        } else if let Some(greater) = greater.filter(|greater| drawn >= *greater) {
            let passed = topmost(greater - 1, drawn);
            let half = 1 << passed.trailing_zeros();
            (passed - half, half)
        } else {
            return drawn;
        };
        drawn = from + (prg.next_u64() & (half - 1));
    }
}

impl OrderScheme for FhOpe {
    fn scheme(&self) -> Scheme {
        Scheme::FhOpe(self.width)
    }

    /// Where neighbours leave no place between them, part of the tree is rebalanced and `replaced` lists the
    /// ciphertexts that moved: for 100,000 values in ascending order about 9 an insertion on average.
    fn encrypt(&mut self, value: u64, prg: &mut Prg) -> Result<Encrypted, EncryptFailed> {
        if value > self.width.greatest() {
            return Err(EncryptFailed::OutsideDomain);
        }
        count(Primitive::Traversal, 1);
        let gap = self.descend(value, prg);
        let mut replaced = Vec::new();
        let (mut before, mut behind) = (self.list.ciphertext_before(gap), self.behind(gap));
        if behind - before < 2 {
            replaced = self.rebalance(gap)?;
            (before, behind) = (self.list.ciphertext_before(gap), self.behind(gap));
            if behind - before < 2 {
                return Err(EncryptFailed::Full);
            }
        }
        let ciphertext = topmost(before, behind - 1);
        self.list.insert(gap, value, ciphertext);
        let stored = ciphertext.to_be_bytes().to_vec();
        let bytes = |number: u64| number.to_be_bytes().to_vec();
        let replaced = replaced.into_iter().map(|(old, new)| (bytes(old), bytes(new))).collect();
        Ok(Encrypted { query: stored.clone(), stored, replaced })
    }

    /// The least ciphertext of the value or else of the next greater one, or for the upper end the greatest of the
    /// value or else of the next smaller one. The greatest number and 0 are the bounds where there is none.
    fn bound(&self, value: u64, end: End, _prg: &mut Prg) -> Result<Vec<u8>, EncryptFailed> {
        if value > self.width.greatest() {
            return Err(EncryptFailed::OutsideDomain);
        }
        count(Primitive::Traversal, 1);
        let bound = match end {
            End::Lower => self.list.ciphertext_behind(self.list.before(value)),
            End::Upper => self.list.ciphertext_before(self.list.behind(value)),
        };
        Ok(bound.to_be_bytes().to_vec())
    }

    fn tie(&self, _: u64) -> Option<TieToken> {
        None
    }

    fn decrypt(&self, stored: &[u8]) -> Result<u64, OpenFailed> {
        count(Primitive::Traversal, 1);
        let ciphertext = u64::from_be_bytes(stored.try_into().map_err(|_| OpenFailed)?);
        self.list.plaintext(ciphertext).ok_or(OpenFailed)
    }

    fn forget(&mut self, stored: &[u8]) {
        if let Ok(ciphertext) = stored.try_into() {
            count(Primitive::Traversal, 1);
            self.list.remove(u64::from_be_bytes(ciphertext));
        }
    }

    /// Eight bytes a ciphertext, ten a run of equal plaintexts (compaction: they are held once).
    fn state_bytes(&self) -> usize {
        self.list.len() * 8 + self.list.run_count() * 10
    }
}

impl StatefulScheme for FhOpe {
    fn values(&self) -> usize {
        self.len()
    }

    fn value(&self, ciphertext: u64) -> Option<u64> {
        self.list.plaintext(ciphertext)
    }

    fn restore(&mut self, value: u64, ciphertext: u64) -> bool {
        value <= self.width.greatest() && self.list.restore(value, ciphertext)
    }

    fn rename(&mut self, moves: &[(u64, u64)]) -> bool {
        self.list.rename(moves)
    }
}

#[cfg(test)]
mod tests;
