//! Mutable order-preserving encoding: what the keyless side keeps of one column's tree, and how it changes (Popa, Li and
//! Zeldovich, S&P 2013).
//!
//! *Tree and table.* The keyless side keeps *nodes* by number, whose bytes only the client reads, and the *OPE table*: for
//! each stored ciphertext its *label*, an unsigned 64-bit integer, the encoding. The client half finds a value's place by
//! asking for nodes from the root down, and works out for itself which nodes, labels and table entries an insertion, a
//! deletion, a split or a merge comes to; the keyless side compares versions and applies the whole, or nothing.
//!
//! *Mutable.* A label stands between its neighbours'. Where no number is left between two, a range of labels is spread
//! anew: a [`Summary`] says so in a few numbers, whatever the number of labels, and whoever stores labels elsewhere applies
//! the same summary to them.
//!
//! The same types cross to a server of ours, which keeps an index's entries beside the tree ([`index`]), and to an ordinary
//! database that keeps the tree in its tables.

pub mod index;

use crate::{Blob, ChannelError};
use serde::{Deserialize, Serialize};
use std::future::Future;
use std::pin::Pin;
use std::time::Duration;

/// Number of a node; never used again in its column.
pub type Node = u64;

/// An encoding: compared as an unsigned integer. 0 and `u64::MAX` are never given.
pub type Label = u64;

/// Bytes of a digest of nodes.
pub const DIGEST_BYTES: usize = 32;

/// What a column's tree is at a version. The client half remembers the last one it acknowledged.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Head {
    /// Raised by each change; 0 for a tree without a value.
    pub version: u64,
    /// The root; meaningless in a tree without a value.
    pub root: Node,
    /// The next node's number.
    pub next: Node,
    /// Distinct values in the tree.
    pub values: u64,
    /// What the client half recognises the root and the rest of this by, which is nobody else's business; zero in a tree
    /// that is not protected against a malicious server.
    pub digest: [u8; DIGEST_BYTES],
}

/// What a client half asks in one round.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Fetch {
    /// Nodes.
    pub nodes: Vec<Node>,
    /// True if the root is asked for, whichever node that is.
    pub root: bool,
    /// Ciphertexts whose labels are asked for.
    pub ciphertexts: Vec<Blob>,
}

/// The answer: all of one version.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Fetched {
    /// The version that the rest is of.
    pub head: Head,
    /// The nodes asked for, in that order, then the root if that was asked for; none where there is no such node.
    pub nodes: Vec<Option<Blob>>,
    /// The labels asked for, in that order.
    pub labels: Vec<Option<Label>>,
}

/// How labels change that are stored somewhere: a transformation summary (S&P 2013, section VIII).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Summary {
    /// The labels from `low` to `high` become `start`, `start + step`, ... in their order.
    Spread {
        /// The lowest label that changes.
        low: Label,
        /// The highest.
        high: Label,
        /// What the first becomes.
        start: Label,
        /// From one to the next, at least 1.
        step: u64,
    },
    /// Of the paper's own tree, whose labels spell paths: subtrees and runs of keys that move, all at the same time. Their
    /// ranges of labels do not overlap.
    Moves(Vec<Move>),
}

/// The labels of some keys with a path in common, and the path that they have from now on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Move {
    /// The lowest label that may be among them.
    pub low: Label,
    /// The highest.
    pub high: Label,
    /// What `low` becomes.
    pub start: Label,
    /// Bits by which the rest of a path, that is the distance from `low`, goes down; up if negative.
    pub down: i8,
}

impl Move {
    /// What a label becomes; none if this is not about it. A distance that leaves the 64 bits, or a label that does, is cut
    /// to them: no client half asks for that.
    #[must_use]
    pub fn transform(&self, label: Label) -> Option<Label> {
        let distance = (self.low..=self.high).contains(&label).then(|| label - self.low)?;
        let bits = u32::from(self.down.unsigned_abs());
        let shifted = if self.down < 0 { distance.checked_shl(bits) } else { distance.checked_shr(bits) };
        Some(self.start.wrapping_add(shifted.unwrap_or(0)))
    }
}

impl Summary {
    /// The lowest and the highest label that may change; none if none does.
    #[must_use]
    pub fn range(&self) -> Option<(Label, Label)> {
        match self {
            Self::Spread { low, high, .. } => Some((*low, *high)),
            Self::Moves(moves) => {
                let low = moves.iter().map(|step| step.low).min()?;
                Some((low, moves.iter().map(|step| step.high).max()?))
            }
        }
    }

    /// What a label becomes that is the `rank`-th, from 0, of the table's labels from the summary's lowest on. (Of moves the
    /// rank does not matter.)
    #[must_use]
    pub fn transform(&self, label: Label, rank: u64) -> Label {
        match self {
            Self::Spread { low, high, start, step } if (low..=high).contains(&&label) => {
                start.wrapping_add(step.wrapping_mul(rank))
            }
            Self::Spread { .. } => label,
            Self::Moves(moves) => moves.iter().find_map(|step| step.transform(label)).unwrap_or(label),
        }
    }
}

/// A change of one column's tree: applied whole, or not at all.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TreeChange {
    /// The version it was worked out from; at another one nothing is done.
    pub expected: u64,
    /// What the tree is then.
    pub head: Head,
    /// Nodes as they become; none: it goes.
    pub nodes: Vec<(Node, Option<Blob>)>,
    /// Ciphertexts that leave the table, before all else.
    pub left: Vec<Blob>,
    /// Changes of labels that stay, one after the other, before others are entered.
    pub summaries: Vec<Summary>,
    /// Ciphertexts that enter the table, and their labels.
    pub entered: Vec<(Blob, Label)>,
}

/// What a round with a [`TreeStore`] will come to.
pub type Round<'a, T> = Pin<Box<dyn Future<Output = Result<T, ChannelError>> + Send + 'a>>;

/// Carries a client half's rounds to whoever keeps one column's tree: a server of ours, or the tables of an ordinary
/// database. Not trusted with anything but keeping it.
pub trait TreeStore: Send + Sync {
    /// One round: nodes and labels, all of one version.
    ///
    /// # Errors
    /// [`ChannelError`].
    fn fetch(&self, fetch: Fetch) -> Round<'_, Fetched>;

    /// Applies a change if the tree is at the version it was worked out from. False: it is at another one, and nothing was
    /// done.
    ///
    /// # Errors
    /// [`ChannelError`]; see [`ChannelError::outcome_unknown`].
    fn commit(&self, change: TreeChange) -> Round<'_, bool>;

    /// The same for a change that can be made later: not applied if others have to be waited for longer than `wait`.
    ///
    /// # Errors
    /// [`ChannelError`].
    fn commit_within(&self, change: TreeChange, _wait: Duration) -> Round<'_, Tried> {
        Box::pin(
            async move { Ok(if self.commit(change).await? { Tried::Applied } else { Tried::OtherVersion }) },
        )
    }

    /// A node as it was read or written last, where such are kept: it may be another by now, and is told by its tag.
    fn recent(&self, _node: Node) -> Option<Blob> {
        None
    }

    /// True if changes may be applied by themselves; false if each is a part of some write of the caller's.
    fn is_alone(&self) -> bool {
        true
    }
}

/// What became of a change that could wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tried {
    /// It was applied.
    Applied,
    /// The tree is at another version; nothing was done.
    OtherVersion,
    /// Somebody holds what it changes; nothing was done.
    Busy,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_spread_gives_labels_by_rank_and_leaves_the_others() {
        let spread = Summary::Spread { low: 10, high: 20, start: 100, step: 7 };
        assert_eq!([9, 10, 15, 20, 21].map(|label| spread.transform(label, 2)), [9, 114, 114, 114, 21]);
        assert_eq!(spread.range(), Some((10, 20)));
    }

    #[test]
    fn moves_keep_the_rest_of_a_path() {
        let level = 62;
        // The root splits: what was under its digits 2 and 3 goes one level down, under digit 1, where they are 0 and 1.
        let moves = Summary::Moves(vec![
            Move { low: 2 << level, high: u64::MAX, start: 1 << level, down: 2 },
            Move { low: 0, high: (2 << level) - 1, start: 0, down: 2 },
        ]);
        let (below, above) = (1 << level | 5 << 40, 3 << level | 5 << 40);
        assert_eq!(moves.transform(below, 0), 1 << (level - 2) | 5 << 38);
        assert_eq!(moves.transform(above, 0), 1 << level | 1 << (level - 2) | 5 << 38);
        assert_eq!(moves.range(), Some((0, u64::MAX)));
        let up = Move { low: 1 << level, high: (2 << level) - 1, start: 3 << level, down: -2 };
        assert_eq!(up.transform(1 << level | 5 << 38), Some(3 << level | 5 << 40));
        assert_eq!((up.transform(0), Summary::Moves(Vec::new()).range()), (None, None));
    }
}
