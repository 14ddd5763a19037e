//! Searches: whole runs of records are copied out of the leaves.

use super::page::Page;
use super::tie::Among;
use super::tree::{Path, Tree};
use arras_protocol::Order;
use arras_protocol::Refusal;
use arras_protocol::bplus::{After, Bound, Response, SealedEntry};
use arras_protocol::limits::REPLY_BYTES_SOFT;

use arras_storage::Read;
use std::cmp::Ordering;
use std::ops::Deref;

/// A range of entries.
struct Range<'r> {
    lower: &'r Bound,
    upper: &'r Bound,
    /// The entries after which the search goes on, if either end is one.
    after_lower: Option<Among>,
    after_upper: Option<Among>,
}

impl<'r> Range<'r> {
    fn new<T: Deref<Target: Read>>(
        tree: &Tree<T>,
        lower: &'r Bound,
        upper: &'r Bound,
    ) -> Result<Self, Refusal> {
        let bytes = tree.layout.scheme.query_bytes();
        if [lower, upper].into_iter().any(|bound| Some(bound.query.len()) != bytes) {
            return super::malformed("a bound that is not of the scheme");
        }
        let after = |bound: &Bound| match &bound.after {
            Some(After { sealed, tie }) => Among::new(tree, *sealed, *tie).map(Some),
            None => Ok(None),
        };
        Ok(Self { lower, upper, after_lower: after(lower)?, after_upper: after(upper)? })
    }

    /// Whether an entry is below the range.
    fn is_below<T: Deref<Target: Read>>(
        &self,
        tree: &Tree<T>,
        stored: &[u8],
        name: &[u8],
    ) -> Result<bool, Refusal> {
        Ok(match tree.layout.compare(self.lower.query.as_slice(), stored)? {
            Ordering::Less => false,
            Ordering::Equal => {
                self.after_lower.as_ref().is_some_and(|after| after.compare(name) != Ordering::Less)
            }
            Ordering::Greater => true,
        })
    }

    /// Whether an entry is not above the range.
    fn is_within_upper<T: Deref<Target: Read>>(
        &self,
        tree: &Tree<T>,
        stored: &[u8],
        name: &[u8],
    ) -> Result<bool, Refusal> {
        Ok(match tree.layout.compare(self.upper.query.as_slice(), stored)? {
            Ordering::Less => false,
            Ordering::Equal => {
                self.after_upper.as_ref().is_none_or(|after| after.compare(name) == Ordering::Greater)
            }
            Ordering::Greater => true,
        })
    }

    /// The records of the leaf that are in the range, from `position` on in `order`, and whether the range ends
    /// among them.
    fn run<T: Deref<Target: Read>>(
        &self,
        tree: &Tree<T>,
        leaf: &Page,
        position: usize,
        order: Order,
    ) -> Result<(usize, usize, bool), Refusal> {
        match order {
            Order::Ascending => {
                // Most leaves are within the range as a whole: one comparison.
                let Some(last) = leaf.count().checked_sub(1) else { return Ok((0, 0, false)) };
                let (stored, name) = leaf.entry(last)?;
                if self.is_within_upper(tree, stored, name)? {
                    return Ok((position, leaf.count(), false));
                }
                let end = leaf.partition(|stored, name| self.is_within_upper(tree, stored, name))?;
                Ok((position.min(end), end, true))
            }
            Order::Descending => {
                if leaf.count() == 0 {
                    return Ok((0, 0, false));
                }
                let (stored, name) = leaf.entry(0)?;
                if !self.is_below(tree, stored, name)? {
                    return Ok((0, position, false));
                }
                let start = leaf.partition(|stored, name| self.is_below(tree, stored, name))?;
                Ok((start, position.max(start), true))
            }
        }
    }
}

/// Walks to where a search starts.
fn start<T: Deref<Target: Read>>(tree: &Tree<T>, range: &Range<'_>, order: Order) -> Result<Path, Refusal> {
    match order {
        Order::Ascending => tree.seek(|stored, name| range.is_below(tree, stored, name)),
        Order::Descending => tree.seek(|stored, name| range.is_within_upper(tree, stored, name)),
    }
}

/// Answers a search.
pub(super) fn answer<T: Deref<Target: Read>>(
    tree: &Tree<T>,
    lower: &Bound,
    upper: &Bound,
    order: Order,
    limit: Option<u64>,
) -> Result<Response, Refusal> {
    let range = Range::new(tree, lower, upper)?;
    let limit = limit.and_then(|limit| usize::try_from(limit).ok()).unwrap_or(usize::MAX);
    let entry_bytes = tree.layout.entry_bytes();
    let most = limit.min((REPLY_BYTES_SOFT / entry_bytes).max(1));
    let (mut found, mut count) = (Vec::new(), 0);
    let mut path = start(tree, &range, order)?;
    loop {
        let leaf = path.leaf()?;
        let (from, to, ends) = range.run(tree, &leaf.page, leaf.position, order)?;
        let taken = (to - from).min(most - count);
        match order {
            Order::Ascending => found.extend_from_slice(leaf.page.records(from, from + taken)?),
            Order::Descending => {
                let records = leaf.page.records(to - taken, to)?;
                records.chunks(entry_bytes).rev().for_each(|record| found.extend_from_slice(record));
            }
        }
        count += taken;
        let full = count == most;
        if full && taken < to - from {
            return Ok(Response::Found { entries: found.into(), more: most < limit });
        }
        if ends || full && most == limit || !tree.turn(&mut path, order == Order::Ascending)? {
            return Ok(Response::Found { entries: found.into(), more: false });
        }
    }
}

/// The first entry between two query ciphertexts that has this name, as a path to it.
pub(super) fn find_entry<T: Deref<Target: Read>>(
    tree: &Tree<T>,
    (lower, upper): (&Bound, &Bound),
    wanted: &SealedEntry,
) -> Result<Option<Path>, Refusal> {
    let range = Range::new(tree, lower, upper)?;
    let mut path = start(tree, &range, Order::Ascending)?;
    loop {
        let leaf = path.leaf()?;
        let (from, to, ends) = range.run(tree, &leaf.page, leaf.position, Order::Ascending)?;
        let records = leaf.page.records(from, to)?;
        let mut entries = records.chunks(tree.layout.entry_bytes());
        if let Some(place) = entries.position(|record| record.ends_with(wanted.as_bytes())) {
            if let Some(leaf) = path.0.last_mut() {
                leaf.position = from + place;
            }
            return Ok(Some(path));
        }
        if ends || !tree.turn(&mut path, true)? {
            return Ok(None);
        }
    }
}
