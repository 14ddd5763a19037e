//! Keyed half of ArxEq (Arx, VLDB'19, §5): equality with forward privacy.
//!
//! *Scheme.* The occurrences of a value `v` are numbered by counters. `T = PRF(k_index, v)` is the root of a
//! tree of 2^32 leaves whose children are one-way derivations (`primitives::ggm`, figure 3 of the paper). The
//! entry of counter `c` stands under a label derived from leaf `c`, its row masked by another. A search for `v`
//! with `count` occurrences sends the covering set of `[0, count)`: O(log count) tokens, which say nothing of
//! entries added later.
//!
//! *State.* One counter a distinct value, kept by the caller under [`ArxEq::slot`]. A counter must be durable
//! before its entry is sent: then a lost insert wastes a counter, and none is ever used twice.
//!
//! *Deviations.* Deletions leave holes (the paper's cleanup of §5.3 is not done yet): answers stay right, a
//! later search shows how many occurrences were removed.

use arras_keys::{Key, Purpose};
use arras_primitives::ggm;
use arras_primitives::prf::Prf;
use arras_protocol::arx_eq::{Change, Label, MaskedRow, SearchToken};
use arras_protocol::limits::{ARX_EQ_LEVELS, STEPS_MAX};
use arras_protocol::{IndexId, RowId};

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

    /// The index.
    #[must_use]
    pub fn index(&self) -> IndexId {
        self.index
    }

    /// Where the client keeps the counter of a value (in canonical form).
    #[must_use]
    pub fn slot(&self, canonical: &[u8]) -> CounterSlot {
        CounterSlot(self.slots.mac(canonical))
    }

    fn leaf(&self, canonical: &[u8], counter: u32) -> [u8; 16] {
        ggm::leaf(&self.roots.mac(canonical), ARX_EQ_LEVELS, u64::from(counter))
    }

    /// The step that enters `row` as occurrence `counter` of a value.
    #[must_use]
    pub fn insert(&self, canonical: &[u8], counter: u32, row: RowId) -> Change {
        let leaf = self.leaf(canonical, counter);
        let mut masked = row.0;
        masked.iter_mut().zip(ggm::leaf_mask(&leaf)).for_each(|(byte, mask)| *byte ^= mask);
        Change::Insert { index: self.index, label: Label(ggm::leaf_label(&leaf)), row: MaskedRow(masked) }
    }

    /// The step that removes occurrence `counter` of a value.
    #[must_use]
    pub fn remove(&self, canonical: &[u8], counter: u32) -> Change {
        let label = Label(ggm::leaf_label(&self.leaf(canonical, counter)));
        Change::Remove { index: self.index, label }
    }

    /// The search token of a value with `count` occurrences: its covering set, empty for none. Nodes that cover
    /// more counters than one search may are given as those below them.
    #[must_use]
    pub fn tokens(&self, canonical: &[u8], count: u32) -> Vec<SearchToken> {
        let mut tokens = Vec::new();
        for (node, height) in ggm::cover(&self.roots.mac(canonical), ARX_EQ_LEVELS, u64::from(count)) {
            push_below(SearchToken { node, height }, &mut tokens);
        }
        tokens
    }
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
mod tests {
    use super::*;

    #[test]
    fn tokens_are_logarithmic_and_name_no_later_entry() {
        let index = ArxEq::new(IndexId([1; 8]), &Key::generate());
        for count in [0_u32, 1, 2, 3, 7, 8, 100, 1000] {
            let tokens = index.tokens(b"flu", count);
            assert_eq!(tokens.len(), count.count_ones() as usize);
            assert_eq!(tokens.iter().map(|token| 1_u64 << token.height).sum::<u64>(), u64::from(count));
        }
    }

    #[test]
    fn a_value_of_many_occurrences_is_searched_in_parts() {
        let index = ArxEq::new(IndexId([1; 8]), &Key::generate());
        let counts = [2_600_000_u32, 1, 0, 999_999, 700_000];
        let values: Vec<Vec<SearchToken>> =
            counts.iter().map(|count| index.tokens(&count.to_be_bytes(), *count)).collect();
        for (count, tokens) in counts.iter().zip(&values).filter(|(count, _)| **count > 0) {
            let ends = [(tokens.first(), 0), (tokens.last(), count - 1)];
            for (token, counter) in ends {
                let token = token.expect("there are tokens");
                let mut leaves = ggm::expand(&token.node, token.height, 1 << token.height);
                let leaf = if counter == 0 { leaves.next() } else { leaves.last() }.expect("covers a leaf");
                let Change::Insert { label, .. } =
                    index.insert(&count.to_be_bytes(), counter, RowId([0; 16]))
                else {
                    unreachable!("insert makes an insert");
                };
                assert_eq!(label, Label(ggm::leaf_label(&leaf)));
            }
        }
        let searches = searches(values.clone());
        let counters =
            |tokens: &[SearchToken]| tokens.iter().map(|token| 1_usize << token.height).sum::<usize>();
        for search in &searches {
            let all: usize = search.iter().map(|tokens| counters(tokens)).sum();
            assert!(all > 0 && all <= STEPS_MAX);
        }
        assert_eq!(searches.concat().concat(), values.concat());
        assert!(searches.len() >= 5, "4.3 million counters");
    }

    #[test]
    fn every_occurrence_has_its_own_label_and_removal_finds_it() {
        let index = ArxEq::new(IndexId([1; 8]), &Key::generate());
        let mut labels = std::collections::BTreeSet::new();
        for value in [b"flu".as_slice(), b"gout"] {
            for counter in 0..50 {
                let Change::Insert { label, .. } = index.insert(value, counter, RowId([0; 16])) else {
                    unreachable!("insert makes an insert");
                };
                assert!(labels.insert(label));
                assert_eq!(index.remove(value, counter), Change::Remove { index: IndexId([1; 8]), label });
            }
        }
    }
}
