//! The paper's own tree, as a baseline: a 4-way B-tree with keys in all nodes, and encodings that spell the path (S&P 2013,
//! sections III and VIII). Only mOPE, not verified, a round a level, a value at a time.
//!
//! *Encoding.* Six bits a level, the leaves' the lowest: a child's are its digit, with its subtree's below; a key's are those of
//! the child to its right, in a leaf its own, with zeros below. A key is so just before the subtree to its right. Above the root
//! paths go through the middle, so that a root that splits moves only what leaves it. The eleventh level has four bits.
//!
//! *Rewrites.* What makes an insertion rewrite encodings is that a node splits: the part that leaves it has another path. And
//! where digits are the places 0, 1, 2, ... all later siblings in the parent have, too, with their subtrees. So digits have gaps: who
//! comes takes one in the middle of its neighbours', and where there is none the fewest beside it move. Of a split node the part
//! moves in which fewer entries were before, with the new one if it can be; at either end of the tree it is one entry beside the
//! new one, so that values in sequence leave full nodes behind, "from left to right". All of it is a [`arras_protocol::mope::Summary::Moves`] of at most a
//! few moves a level, whatever the subtrees' sizes: `Paths` finds them by comparing where each key and each subtree of the
//! nodes on the way was and is.
//!
//! *4-way* is read as a B-tree of minimum degree four: up to eight children, four where half full (a split of nine leaves three at
//! least). The cost is about 0.4 rewrites a level, and such a tree of 1,000,000 values has eight or nine. With four children at
//! most it has thirteen, and no layout of digits that was simulated came below 4.9 rewrites there, as the moved parts alone
//! are 4.2; with digits without gaps it is 11.9.
//!
//! *Out of bits.* A root that would come to a twelfth level does not split. The lowest node on the way whose subtree has room, more
//! than a quarter if there is such a one, has it laid out anew, with the new value in it: a change whose summary has as many moves
//! as the subtree has keys at most. A tree that is full has 2^33 values, less one.

mod change;
mod repack;
mod shape;

use super::cipher::{Cipher, Form};
use super::{Place, Stored, TRIES_MAX};
use crate::error::IndexError;
use arras_keys::Key;
use arras_protocol::Blob;
use arras_protocol::mope::{Fetch, Head, Label, Node, TreeChange, TreeStore};
use change::Visit;
use repack::Room;
use shape::{LEVELS_MAX, MALFORMED, PathEntry, Shape, root_prefix, spelled};

const TOO_FAST: IndexError = IndexError::Peer("a path-encoded tree changes faster than it can be read");
const FULL: IndexError = IndexError::Caller("a path-encoded tree has as many values as there are paths");

/// The client half of one column.
pub struct PathTree<S> {
    store: S,
    cipher: Cipher,
    /// How many there may be.
    levels: u32,
}

impl<S> std::fmt::Debug for PathTree<S> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("PathTree")
    }
}

/// How a walk ended.
enum Walk {
    /// At another version than it began.
    Moved,
    Found(Stored),
    Missing(Vec<Visit>),
}

impl<S: TreeStore> PathTree<S> {
    /// Opens a column's tree under the key of its index.
    ///
    /// # Errors
    /// [`IndexError::Caller`] if no column can have such values.
    pub fn open(store: S, key: &Key, form: Form) -> Result<Self, IndexError> {
        Ok(Self { store, cipher: Cipher::new(key, form, None)?, levels: LEVELS_MAX })
    }

    /// Where the tree is kept.
    pub fn store(&self) -> &S {
        &self.store
    }

    /// Enters a value if it is not there, and tells what it is stored as.
    ///
    /// # Errors
    /// [`IndexError`].
    pub async fn encode(&self, value: &[u8]) -> Result<Stored, IndexError> {
        let plain = self.cipher.plains(&[value])?;
        for _ in 0..TRIES_MAX {
            let (head, walk) = self.walk(&plain).await?;
            let visits = match walk {
                Walk::Moved => continue,
                Walk::Found(stored) => return Ok(stored),
                Walk::Missing(visits) => visits,
            };
            let mut ciphertext = Vec::new();
            self.cipher.seal_each(std::iter::once(plain.as_slice()), &mut ciphertext);
            let made = if visits.len() == self.levels as usize && change::grows(&visits) {
                self.repack(&head, visits, &ciphertext).await?
            } else {
                Some(change::insertion(&head, visits, &ciphertext)?)
            };
            if let Some((change, label)) = made
                && self.store.commit(change).await?
            {
                return Ok(Stored { ciphertext: Blob(ciphertext), label });
            }
        }
        Err(TOO_FAST)
    }

    /// Where a value is, without a change.
    ///
    /// # Errors
    /// [`IndexError`].
    pub async fn place(&self, value: &[u8]) -> Result<Place, IndexError> {
        let plain = self.cipher.plains(&[value])?;
        for _ in 0..TRIES_MAX {
            let visits = match self.walk(&plain).await?.1 {
                Walk::Moved => continue,
                Walk::Found(stored) => return Ok(Place::At(stored)),
                Walk::Missing(visits) => visits,
            };
            let stored = |key: &PathEntry| Stored {
                ciphertext: Blob(key.ciphertext.clone()),
                label: key.was.unwrap_or(0),
            };
            let (mut below, mut above) = (None, None);
            for visit in &visits {
                let keys = &visit.shape.keys;
                below = visit.place.checked_sub(1).and_then(|at| keys.get(at)).map(stored).or(below);
                above = keys.get(visit.place).map(stored).or(above);
            }
            return Ok(Place::Between { below, above });
        }
        Err(TOO_FAST)
    }

    /// The root, and where its path leads.
    async fn root(&self) -> Result<(Head, Option<Visit>), IndexError> {
        let fetched = self.store.fetch(Fetch { root: true, ..Fetch::default() }).await?;
        let head = fetched.head;
        if head.values == 0 {
            return Ok((head, None));
        }
        let shape = self.decode(fetched.nodes.first(), None)?;
        let prefix = root_prefix(shape.level);
        Ok((head, Some(Visit { node: head.root, shape, prefix, place: 0 })))
    }

    /// A node under a path; without one the root.
    fn decode(&self, bytes: Option<&Option<Blob>>, prefix: Option<Label>) -> Result<Shape, IndexError> {
        let bytes = bytes.and_then(Option::as_ref).map_or(&[][..], Blob::as_slice);
        Shape::decode(bytes, self.cipher.ciphertext_bytes(), prefix)
    }

    /// Nodes below one that was read, in one round; none if the tree has changed since.
    async fn below(
        &self,
        head: &Head,
        above: &Visit,
        children: std::ops::Range<usize>,
    ) -> Result<Option<Vec<Visit>>, IndexError> {
        let children = above.shape.children.get(children.clone()).zip(above.shape.digits.get(children));
        let (children, digits) = children.ok_or(MALFORMED)?;
        let nodes: Vec<Node> = children.iter().map(|child| child.node).collect();
        let fetched = self.store.fetch(Fetch { nodes, ..Fetch::default() }).await?;
        if fetched.head != *head {
            return Ok(None);
        }
        let mut visits = Vec::with_capacity(children.len());
        for (at, (child, digit)) in children.iter().zip(digits).enumerate() {
            let prefix = spelled(above.prefix, above.shape.level, *digit);
            let shape = self.decode(fetched.nodes.get(at), Some(prefix))?;
            if shape.level + 1 != above.shape.level {
                return Err(MALFORMED);
            }
            visits.push(Visit { node: child.node, shape, prefix, place: 0 });
        }
        Ok(Some(visits))
    }

    /// Goes down towards a value, a round a node.
    async fn walk(&self, plain: &[u8]) -> Result<(Head, Walk), IndexError> {
        let (head, mut next) = self.root().await?;
        let mut visits: Vec<Visit> = Vec::new();
        while let Some(mut visit) = next.take() {
            let shape = &visit.shape;
            let mut plains = Vec::new();
            for key in &shape.keys {
                self.cipher.open_each(&key.ciphertext, &mut plains)?;
            }
            let place = super::cipher::lower_bound(&plains, self.cipher.plain_bytes(), plain);
            let found = plains.chunks(self.cipher.plain_bytes()).nth(place) == Some(plain);
            if found && let Some(key) = shape.keys.get(place) {
                let label = spelled(visit.prefix, shape.level, shape.key_digit(place));
                return Ok((head, Walk::Found(Stored { ciphertext: Blob(key.ciphertext.clone()), label })));
            }
            if shape.level > 0 {
                match self.below(&head, &visit, place..place + 1).await? {
                    None => return Ok((head, Walk::Moved)),
                    Some(below) => next = below.into_iter().next(),
                }
            }
            visit.place = place;
            visits.push(visit);
        }
        Ok((head, Walk::Missing(visits)))
    }

    /// A node and all below it, a round a node; none if the tree has changed since.
    async fn subtree(&self, head: &Head, top: Visit) -> Result<Option<Vec<Visit>>, IndexError> {
        let mut visits = vec![top];
        let mut at = 0;
        while let Some(visit) = visits.get(at) {
            if visit.shape.level > 0 {
                let Some(below) = self.below(head, visit, 0..visit.shape.children.len()).await? else {
                    return Ok(None);
                };
                visits.extend(below);
            }
            at += 1;
        }
        Ok(Some(visits))
    }

    /// Enters a value where a walk has ended and no node on the way has room; none if the tree has changed since.
    async fn repack(
        &self,
        head: &Head,
        visits: Vec<Visit>,
        ciphertext: &[u8],
    ) -> Result<Option<(TreeChange, Label)>, IndexError> {
        let before = |visit: &Visit| visit.shape.keys.get(visit.place.checked_sub(1)?)?.was;
        let behind = visits.iter().filter_map(before).max();
        let mut scarce = None;
        for visit in visits.into_iter().rev() {
            let top = (visit.node, visit.shape.level, visit.prefix);
            let Some(below) = self.subtree(head, visit).await? else { return Ok(None) };
            let keys = below.iter().map(|visit| visit.shape.keys.len()).sum();
            match Room::of(top.1, keys) {
                Room::Ample => return repack::repack(head, top, below, behind, ciphertext).map(Some),
                Room::Scarce => scarce = scarce.or(Some((top, below))),
                Room::Full => {}
            }
        }
        let (top, below) = scarce.ok_or(FULL)?;
        repack::repack(head, top, below, behind, ciphertext).map(Some)
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::mope::memory::MemoryStore;
    use crate::mope::tests::support::{bytes, key, run};
    use arras_protocol::mope::{Fetched, Round, Summary};
    use proptest::prelude::*;
    use std::sync::atomic::{AtomicUsize, Ordering};

    fn open() -> PathTree<MemoryStore> {
        PathTree::open(MemoryStore::default(), &key(), Form::Fixed(8)).unwrap()
    }

    /// Checks that labels are in the order of the values, and that a walk finds each value at its table's label.
    fn check(tree: &PathTree<MemoryStore>, values: &std::collections::BTreeSet<u64>) {
        let order: Vec<(Label, std::sync::Arc<[u8]>)> =
            tree.store.kept().order.iter().map(|(label, c)| (*label, c.clone())).collect();
        assert_eq!(order.len(), values.len());
        for (value, (label, ciphertext)) in bytes(values.iter().copied()).iter().zip(&order) {
            let stored = Stored { ciphertext: Blob(ciphertext.to_vec()), label: *label };
            assert_eq!(run(tree.place(value)).unwrap(), Place::At(stored));
        }
        let stored = |at: usize| Stored { ciphertext: Blob(order[at].1.to_vec()), label: order[at].0 };
        for sought in (0..1000).filter(|sought| !values.contains(sought)).step_by(37) {
            let rank = values.range(..sought).count();
            let below = rank.checked_sub(1).map(stored);
            let above = (rank < order.len()).then(|| stored(rank));
            let place = run(tree.place(&bytes([sought])[0])).unwrap();
            assert_eq!(place, Place::Between { below, above });
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(40))]

        #[test]
        fn encodings_spell_the_paths_whatever_the_order_of_insertion(
            values in proptest::collection::vec(0..1000_u64, 0..300), ascending: bool,
        ) {
            let mut values = values;
            if ascending {
                values.sort_unstable();
            }
            let tree = open();
            let mut entered = std::collections::BTreeSet::new();
            for value in values {
                let stored = run(tree.encode(&bytes([value])[0])).unwrap();
                let label = tree.store.kept().table.get(stored.ciphertext.as_slice()).copied();
                prop_assert_eq!(label, Some(stored.label));
                entered.insert(value);
            }
            check(&tree, &entered);
        }
    }

    /// Encodings rewritten an insertion, on the way of so many, and the most moves of one.
    fn rewritten(values: impl Iterator<Item = u64>) -> (f64, usize) {
        let tree = PathTree::open(Counted::default(), &key(), Form::Fixed(8)).unwrap();
        let mut count = 0;
        for value in bytes(values) {
            run(tree.encode(&value)).unwrap();
            count += 1;
        }
        let rewritten = tree.store.store.kept().rewritten as f64 / f64::from(count);
        (rewritten, tree.store.moves.load(Ordering::Relaxed))
    }

    /// Counts the moves of the longest summary.
    #[derive(Default)]
    struct Counted {
        store: MemoryStore,
        moves: AtomicUsize,
    }

    impl TreeStore for Counted {
        fn fetch(&self, fetch: Fetch) -> Round<'_, Fetched> {
            self.store.fetch(fetch)
        }

        fn commit(&self, change: TreeChange) -> Round<'_, bool> {
            for summary in &change.summaries {
                if let Summary::Moves(moves) = summary {
                    self.moves.fetch_max(moves.len(), Ordering::Relaxed);
                }
            }
            self.store.commit(change)
        }
    }

    #[test]
    fn an_insertion_rewrites_two_to_four_encodings_and_fewer_in_sequence() {
        // The paper's figure 12. The summaries are short however many encodings they rewrite.
        let scattered = |at: u64| at.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let (random, moves) = rewritten((0..10_000).map(|at| scattered(scattered(at) >> 20)));
        assert!((2.0..=4.0).contains(&random), "{random}");
        assert!(moves <= 6 * 2 * shape::CHILDREN_MAX, "{moves}");
        let (ascending, moves) = rewritten(0..10_000);
        assert!(ascending < 1.0, "{ascending}");
        assert!(moves <= 6 * 2 * shape::CHILDREN_MAX, "{moves}");
        let (descending, _) = rewritten((0..10_000).rev());
        assert!(descending < 1.0, "{descending}");
    }

    #[test]
    fn a_tree_that_is_out_of_levels_is_rebalanced_until_each_path_has_a_value() {
        for levels in 1..=3_u32 {
            let paths = 8_u64.pow(levels) - 1;
            let mut tree = open();
            tree.levels = levels;
            let mut entered = std::collections::BTreeSet::new();
            for value in (0..paths).map(|at| at * 389 % 1009) {
                let stored = run(tree.encode(&bytes([value])[0])).unwrap();
                let label = tree.store.kept().table.get(stored.ciphertext.as_slice()).copied();
                assert_eq!(label, Some(stored.label));
                entered.insert(value);
            }
            check(&tree, &entered);
            let more = run(tree.encode(&bytes([2000])[0]));
            assert!(matches!(more, Err(IndexError::Caller(_))), "{levels}: {more:?}");
            check(&tree, &entered);
        }
    }

    #[test]
    fn bytes_that_are_no_node_are_an_error() {
        let tree = open();
        run(tree.encode(&bytes([5])[0])).unwrap();
        for bytes_of_node in [vec![], vec![0, 0], vec![2, 1], vec![0, 1, 3], vec![1, 1]] {
            tree.store.kept().nodes.values_mut().for_each(|node| *node = Blob(bytes_of_node.clone()));
            assert!(matches!(run(tree.place(&bytes([5])[0])), Err(IndexError::Peer(_))));
        }
    }
}
