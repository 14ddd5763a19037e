//! Nodes of a path-encoded tree, their digits, and their bytes.
//!
//! *Bytes.* Level (0: a leaf), number of keys, then the keys' ciphertexts, the children's numbers (64 bits each, big-endian), and
//! a byte for each digit: of the keys in a leaf, of the children in an inner node.

use crate::error::IndexError;
use arras_protocol::mope::{Label, Node};

/// Most children of a node; a leaf has a key less.
pub(super) const CHILDREN_MAX: usize = 8;

/// Fewest children of a node that was split, but at the ends of the tree; a leaf has a key less.
const CHILDREN_MIN: usize = 3;

/// Bits of a digit; the highest level has what is left of the 64.
const DIGIT_BITS: u32 = 6;

/// Levels that an encoding has room for.
pub(super) const LEVELS_MAX: u32 = u64::BITS.div_ceil(DIGIT_BITS);

pub(super) const MALFORMED: IndexError = IndexError::Peer("a node of a path-encoded tree is malformed");

/// A key, and where it was; none: it is new.
pub(super) struct PathEntry {
    pub(super) ciphertext: Vec<u8>,
    pub(super) was: Option<Label>,
}

/// A child, and where it was: its path with zeros behind. None: a node that itself changes.
#[derive(Clone, Copy)]
pub(super) struct PathChild {
    pub(super) node: Node,
    pub(super) was: Option<Label>,
}

/// A node.
pub(super) struct Shape {
    pub(super) level: u32,
    pub(super) keys: Vec<PathEntry>,
    pub(super) children: Vec<PathChild>,
    /// Ascending: of the keys in a leaf; else of the children, and a key has that of the child to its right.
    pub(super) digits: Vec<u8>,
}

/// Where in a tree something is entered, if that is one of its ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum End {
    First,
    Last,
}

/// A node that a split made.
pub(super) struct Half {
    pub(super) shape: Shape,
    /// It is to the left of what stays under the old number.
    pub(super) left: bool,
    /// The key between the two.
    pub(super) between: PathEntry,
}

/// The encoding of a digit of a level under a path.
pub(super) fn spelled(prefix: Label, level: u32, digit: u8) -> Label {
    prefix | u64::from(digit) << (DIGIT_BITS * level)
}

/// Labels of a path that ends at a level.
pub(super) fn labels_below(level: u32) -> Label {
    (1 << (DIGIT_BITS * level)) - 1
}

/// The lowest and the highest digit of a level. Of the keys in leaves neither is given that all others have nothing of.
fn bounds(level: u32) -> (i32, i32) {
    let bits = DIGIT_BITS.min(u64::BITS - DIGIT_BITS * level);
    let last = (1 << bits) - 1;
    if level == 0 { (1, last - 1) } else { (0, last) }
}

/// The digit in the middle of a level, which all nodes above a root are passed by.
fn middle(level: u32) -> u8 {
    let (low, high) = bounds(level);
    ((low + high + 1) / 2) as u8
}

/// The path to a root of a level.
pub(super) fn root_prefix(level: u32) -> Label {
    (level + 1..LEVELS_MAX).fold(0, |prefix, above| spelled(prefix, above, middle(above)))
}

/// From one digit to the next where entries come at an end only.
fn end_step(level: u32) -> i32 {
    let (low, high) = bounds(level);
    (high - low + 1) / CHILDREN_MAX as i32
}

/// Digits for so many entries of a node that is new: evenly, or close to an end beyond which others will come.
pub(super) fn spread(entries: usize, level: u32, end: Option<End>) -> Vec<u8> {
    let (low, high) = bounds(level);
    let (step, count) = (end_step(level), entries as i32);
    let digit = |at: i32| match end {
        None => low + (2 * at + 1) * (high - low + 1) / (2 * count),
        Some(End::Last) => low + step / 2 + at * step,
        Some(End::First) => high - step / 2 - (count - 1 - at) * step,
    };
    (0..count).map(|at| digit(at) as u8).collect()
}

/// Gives an entry that comes to a place a digit between its neighbours'. Where there is none, the fewest of those beside it
/// move, by half of the next gap.
fn enter(digits: &mut Vec<u8>, at: usize, level: u32) {
    let (low, high) = bounds(level);
    let digit = |place: usize| digits.get(place).map_or(high + 1, |digit| i32::from(*digit));
    let before = |place: usize| place.checked_sub(1).map_or(low - 1, digit);
    let (below, above, step) = (before(at), digit(at), end_step(level));
    let gap = (above - below) / 2;
    if gap > 0 {
        let new = match (at == 0, at == digits.len()) {
            (false, true) => below + gap.min(step).max(1),
            (true, false) => above - gap.min(step).max(1),
            (true, true) | (false, false) => below + gap,
        };
        digits.insert(at, new as u8);
        return;
    }
    // The next gaps: behind the entry of a place, and before that of another.
    let right = (at..digits.len()).find(|place| digit(place + 1) - digit(*place) > 1);
    let left = (0..at).rev().find(|place| digit(*place) - before(*place) > 1);
    let nearer = |right: usize| left.is_none_or(|left| right - at < at - left);
    match (right.filter(|right| nearer(*right)), left) {
        (Some(right), _) => {
            let by = ((digit(right + 1) - digit(right)) / 2) as u8;
            digits[at..=right].iter_mut().for_each(|digit| *digit += by);
        }
        (None, Some(left)) => {
            let by = ((digit(left) - before(left)) / 2) as u8;
            digits[left..at].iter_mut().for_each(|digit| *digit -= by);
        }
        // More digits than entries: there is a gap.
        (None, None) => return,
    }
    enter(digits, at, level);
}

impl Shape {
    /// A leaf without a key.
    pub(super) fn leaf() -> Self {
        Self { level: 0, keys: Vec::new(), children: Vec::new(), digits: Vec::new() }
    }

    /// A root over a node that keeps its place and one that left it, to its left or not.
    pub(super) fn root(
        level: u32,
        stays: Node,
        (other, left): (Node, bool),
        between: PathEntry,
        end: Option<End>,
    ) -> Self {
        let child = |node| PathChild { node, was: None };
        let middle = middle(level);
        let step = if end.is_some() { end_step(level) as u8 } else { middle / 2 };
        let (children, digits) = if left {
            (vec![child(other), child(stays)], vec![middle - step, middle])
        } else {
            (vec![child(stays), child(other)], vec![middle, middle + step])
        };
        Self { level, keys: vec![between], children, digits }
    }

    /// A node of a store, under a path.
    pub(super) fn decode(bytes: &[u8], key_bytes: usize, prefix: Option<Label>) -> Result<Self, IndexError> {
        let (header, columns) = bytes.split_first_chunk::<2>().ok_or(MALFORMED)?;
        let (level, keys) = (u32::from(header[0]), usize::from(header[1]));
        let children = if level > 0 { keys + 1 } else { 0 };
        let entries = children.max(keys);
        let whole = columns.len() == keys * key_bytes + children * size_of::<Node>() + entries;
        if level >= LEVELS_MAX || keys == 0 || keys >= CHILDREN_MAX || !whole {
            return Err(MALFORMED);
        }
        let (ciphertexts, columns) = columns.split_at(keys * key_bytes);
        let (numbers, digits) = columns.split_at(children * size_of::<Node>());
        let (low, high) = bounds(level);
        let within = digits.iter().all(|digit| (low..=high).contains(&i32::from(*digit)));
        if !within || !digits.is_sorted_by(|one, next| one < next) {
            return Err(MALFORMED);
        }
        let prefix = prefix.unwrap_or_else(|| root_prefix(level));
        let key = |(ciphertext, digit): (&[u8], &u8)| PathEntry {
            ciphertext: ciphertext.to_vec(),
            was: Some(spelled(prefix, level, *digit)),
        };
        let child = |(number, digit): (&[u8; 8], &u8)| PathChild {
            node: u64::from_be_bytes(*number),
            was: Some(spelled(prefix, level, *digit)),
        };
        let of_keys = digits.iter().skip(usize::from(level > 0));
        Ok(Self {
            level,
            keys: ciphertexts.chunks(key_bytes).zip(of_keys).map(key).collect(),
            children: numbers.as_chunks().0.iter().zip(digits).map(child).collect(),
            digits: digits.to_vec(),
        })
    }

    pub(super) fn encode(&self) -> Vec<u8> {
        let mut bytes = vec![self.level as u8, self.keys.len() as u8];
        self.keys.iter().for_each(|key| bytes.extend_from_slice(&key.ciphertext));
        self.children.iter().for_each(|child| bytes.extend_from_slice(&child.node.to_be_bytes()));
        bytes.extend_from_slice(&self.digits);
        bytes
    }

    /// The digit of a key.
    pub(super) fn key_digit(&self, at: usize) -> u8 {
        self.digits.get(at + usize::from(self.level > 0)).copied().unwrap_or_default()
    }

    /// Enters a key at a place, and in an inner node the half that a child was split into, whose other half is at that place;
    /// what is too much becomes a node of its own.
    pub(super) fn enter(
        &mut self,
        at: usize,
        key: PathEntry,
        other: Option<(Node, bool)>,
        end: Option<End>,
    ) -> Option<Half> {
        let mut entry = at;
        if let Some((node, left)) = other {
            if let Some(stays) = self.children.get_mut(at) {
                stays.was = None;
            }
            entry += usize::from(!left);
            self.children.insert(entry, PathChild { node, was: None });
        }
        self.keys.insert(at, key);
        if self.keys.len() < CHILDREN_MAX {
            enter(&mut self.digits, entry, self.level);
            return None;
        }
        Some(self.split(entry, end))
    }

    /// Splits a node of which one entry, at a place, has no digit yet. The half moves in which fewer entries were before; at
    /// an end of the tree as few as can be, so that what ascends leaves full nodes behind.
    fn split(&mut self, entry: usize, end: Option<End>) -> Half {
        let entries = self.children.len().max(self.keys.len());
        // In a leaf one key is on neither side.
        let apart = usize::from(self.level == 0);
        let before = |cut: usize| {
            let left = cut - usize::from(entry < cut);
            let from = cut + apart;
            let right = entries - from - usize::from(entry >= from);
            (left, right)
        };
        let cuts = CHILDREN_MIN - apart..=entries - CHILDREN_MIN;
        let best =
            cuts.min_by_key(|cut| (before(*cut).0.min(before(*cut).1), (2 * cut + apart).abs_diff(entries)));
        let (cut, left) = match end {
            Some(End::Last) => (entries - 2, false),
            Some(End::First) => (2 - apart, true),
            None => {
                let cut = best.unwrap_or(entries / 2);
                (cut, before(cut).0 < before(cut).1)
            }
        };
        let mut digits: Vec<Option<u8>> = self.digits.iter().copied().map(Some).collect();
        digits.insert(entry, None);
        let kept = if left { &digits[cut + apart..] } else { &digits[..cut] };
        self.digits = kept.iter().copied().flatten().collect();
        if let Some(new) = kept.iter().position(Option::is_none) {
            enter(&mut self.digits, new, self.level);
        }
        let mut keys = self.keys.split_off(cut + apart);
        let mut children = self.children.split_off(cut.min(self.children.len()));
        let between = self.keys.pop().unwrap_or(PathEntry { ciphertext: Vec::new(), was: None });
        if left {
            std::mem::swap(&mut keys, &mut self.keys);
            std::mem::swap(&mut children, &mut self.children);
        }
        let digits = spread(children.len().max(keys.len()), self.level, end);
        Half { shape: Self { level: self.level, keys, children, digits }, left, between }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn the_levels_take_all_bits_and_paths_to_roots_lead_to_the_middle() {
        assert_eq!(LEVELS_MAX, 11);
        assert_eq!([0, 9, 10].map(bounds), [(1, 62), (0, 63), (0, 15)]);
        assert_eq!(root_prefix(LEVELS_MAX - 1), 0);
        assert_eq!(root_prefix(9), 8 << 60);
        assert_eq!(root_prefix(8), 8 << 60 | 32 << 54);
        assert_eq!(labels_below(10), u64::MAX >> 4);
    }

    proptest! {
        #[test]
        fn digits_ascend_within_their_bounds_whatever_comes_where(
            places in proptest::collection::vec(0..CHILDREN_MAX, 1..=CHILDREN_MAX), level in 0..LEVELS_MAX,
        ) {
            let mut digits = Vec::new();
            for place in places {
                let at = place.min(digits.len());
                enter(&mut digits, at, level);
                let (low, high) = bounds(level);
                prop_assert!(digits.is_sorted_by(|one, next| one < next), "{digits:?}");
                prop_assert!(digits.iter().all(|digit| (low..=high).contains(&i32::from(*digit))), "{digits:?}");
            }
            for end in [None, Some(End::First), Some(End::Last)] {
                let digits = spread(digits.len(), level, end);
                let (low, high) = bounds(level);
                prop_assert!(digits.is_sorted_by(|one, next| one < next), "{digits:?}");
                prop_assert!(digits.iter().all(|digit| (low..=high).contains(&i32::from(*digit))), "{digits:?}");
            }
        }
    }
}
