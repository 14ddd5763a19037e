//! Keyed half of ArxEq (Arx, VLDB'19, §5): equality with forward privacy.
//!
//! *Scheme.* The occurrences of a value `v` are numbered by counters. `T = PRF(k_index, salt || v)` is the root of a
//! tree of 2^32 leaves whose children are one-way derivations (`primitives::ggm`, figure 3 of the paper). The
//! entry of counter `c` stands under a label derived from leaf `c`, its row masked by another. A search for `v`
//! sends the covering set of the counters that may have entries: O(log) tokens, which say nothing of entries added
//! later.
//!
//! *State.* One record a value that has entries ([`Occurrences`]), kept by the caller under [`ArxEq::slot`]; a value
//! without entries needs none, and gets another salt when it comes back. A counter must be durable before its entry
//! is sent: then a lost insert wastes a counter, and none is ever used twice.
//!
//! *Cleanup* (§5.3). Removed entries leave holes, which a search shows and pays for. Entries are numbered anew by
//! removing them and entering them, in a random order, under counters or a salt that no token has told of. The paper
//! re-keys all entries of a value; here those of a part of the counters may move alone, since counters not yet taken
//! are as fresh as another key.

mod index;
pub mod occurrences;
mod renumbering;
mod search;
mod staging;

pub use index::ArxEqIndex;

use arras_keys::{Key, Purpose};
use arras_primitives::ggm;
use arras_primitives::prf::Prf;
use arras_protocol::arx_eq::{Change, Label, MaskedRow, SearchToken};
use arras_protocol::limits::{ARX_EQ_LEVELS, STEPS_MAX};
use arras_protocol::{IndexId, RowId};
use occurrences::{Occurrences, Salt};
use std::ops::Range;

/// Height of the highest token: what it covers is within a search's limit of counters.
const TOKEN_HEIGHT_MAX: u32 = STEPS_MAX.ilog2();

/// Name of a value's counter in the client's state: says nothing of the value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CounterSlot(pub [u8; 16]);

/// Tokens and entries of one index.
pub struct ArxEq {
    index: IndexId,
    roots: Prf,
    slots: Prf,
}

impl std::fmt::Debug for ArxEq {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "ArxEq({:?})", self.index)
    }
}

impl ArxEq {
    /// Derives the index's functions from its key.
    #[must_use]
    pub fn new(index: IndexId, key: &Key) -> Self {
        Self {
            index,
            roots: Prf::new(key.child(Purpose::ArxEqValueRoots).expose_16()),
            slots: Prf::new(key.child(Purpose::ArxEqCounterSlots).expose_16()),
        }
    }

    /// What the server knows it by.
    #[must_use]
    pub fn index(&self) -> IndexId {
        self.index
    }

    /// Where the client keeps the counter of a value (in canonical form).
    #[must_use]
    pub fn slot(&self, canonical: &[u8]) -> CounterSlot {
        CounterSlot(self.slots.mac(canonical))
    }

    fn root(&self, canonical: &[u8], salt: Salt) -> [u8; 16] {
        self.roots.mac(&[&salt.0, canonical].concat())
    }

    fn leaf(&self, canonical: &[u8], salt: Salt, counter: u32) -> [u8; 16] {
        ggm::leaf(&self.root(canonical, salt), ARX_EQ_LEVELS, u64::from(counter))
    }

    /// The step that enters `row` as occurrence `counter` of a value.
    #[must_use]
    pub fn insert(&self, canonical: &[u8], salt: Salt, counter: u32, row: RowId) -> Change {
        let leaf = self.leaf(canonical, salt, counter);
        let mut masked = row.0;
        masked.iter_mut().zip(ggm::leaf_mask(&leaf)).for_each(|(byte, mask)| *byte ^= mask);
        Change::Insert { index: self.index, label: Label(ggm::leaf_label(&leaf)), row: MaskedRow(masked) }
    }

    /// The step that removes occurrence `counter` of a value.
    #[must_use]
    pub fn remove(&self, canonical: &[u8], salt: Salt, counter: u32) -> Change {
        let label = Label(ggm::leaf_label(&self.leaf(canonical, salt, counter)));
        Change::Remove { index: self.index, label }
    }

    /// The search token of a value: the covering set of its runs, from left to right. Nodes that cover more counters
    /// than one search may are given as those below them.
    #[must_use]
    pub fn tokens(&self, canonical: &[u8], occurrences: &Occurrences) -> Vec<SearchToken> {
        let runs = occurrences.runs().iter();
        runs.flat_map(|run| self.tokens_of(canonical, occurrences.salt(), run.start..run.end)).collect()
    }

    /// The same for some of a value's counters.
    #[must_use]
    pub fn tokens_of(&self, canonical: &[u8], salt: Salt, counters: Range<u32>) -> Vec<SearchToken> {
        let root = self.root(canonical, salt);
        let counters = u64::from(counters.start)..u64::from(counters.end);
        let mut tokens = Vec::new();
        for (node, height) in ggm::cover_range(&root, ARX_EQ_LEVELS, counters) {
            push_below(SearchToken { node, height }, &mut tokens);
        }
        tokens
    }
}

/// Counters that tokens cover.
#[must_use]
pub fn covered(tokens: &[SearchToken]) -> u64 {
    tokens.iter().map(|token| 1 << token.height).sum()
}

/// Adds a token, or those below it that are not too high.
fn push_below(token: SearchToken, tokens: &mut Vec<SearchToken>) {
    if u32::from(token.height) <= TOKEN_HEIGHT_MAX {
        tokens.push(token);
        return;
    }
    let (left, right) = ggm::both(&token.node);
    for node in [left, right] {
        push_below(SearchToken { node, height: token.height - 1 }, tokens);
    }
}

/// Deals the tokens of some values out to searches of at most [`STEPS_MAX`] counters each.
#[must_use]
pub fn searches(values: Vec<Vec<SearchToken>>) -> Vec<Vec<Vec<SearchToken>>> {
    let limit = u64::try_from(STEPS_MAX).unwrap_or(u64::MAX);
    let mut searches: Vec<Vec<Vec<SearchToken>>> = Vec::new();
    let mut counters = limit;
    for tokens in values {
        let mut begun = false;
        for token in tokens {
            let covered = 1 << token.height;
            if counters + covered > limit {
                searches.push(Vec::new());
                (counters, begun) = (0, false);
            }
            counters += covered;
            let Some(search) = searches.last_mut() else {
                continue;
            };
            match search.last_mut().filter(|_| begun) {
                Some(tokens) => tokens.push(token),
                None => search.push(vec![token]),
            }
            begun = true;
        }
    }
    searches
}

#[cfg(test)]
mod tests;
