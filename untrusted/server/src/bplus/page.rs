//! Pages as bytes: searched and changed where they lie.
//!
//! ```text
//! leaf      0 | count (2) | count x (ciphertext, name)
//! inner     level | count (2) | child | count x (ciphertext, name, child)
//! ```
//! A name is value and row, sealed: 32 bytes. A ciphertext and name of an inner page separate: what is left of them is smaller, what is right is not.

use crate::ore::{compare, not_served};
use arras_protocol::Refusal;
use arras_protocol::bplus::SealedEntry;
use arras_protocol::ore::Scheme;
use std::cmp::Ordering;

/// Bytes of the level and the count.
const HEAD_BYTES: usize = 3;

/// Bytes of a child's page number.
const CHILD_BYTES: usize = 8;

/// How an index's pages are laid out.
#[derive(Clone, Copy, Debug)]
pub(super) struct Layout {
    pub(super) scheme: Scheme,
    pub(super) page_bytes: u32,
    /// Bytes of a stored ciphertext.
    pub(super) stored_bytes: usize,
    /// Most entries of a leaf.
    pub(super) leaf_max: usize,
    /// Most separators of an inner page.
    pub(super) inner_max: usize,
}

impl Layout {
    pub(super) fn new(scheme: Scheme, page_bytes: u32) -> Result<Self, Refusal> {
        let (Some(stored_bytes), Some(_)) = (scheme.stored_bytes(), scheme.query_bytes()) else {
            return Err(Refusal::Malformed("parameters that are not of the scheme".to_owned()));
        };
        let bytes = page_bytes as usize;
        let entry_bytes = stored_bytes + SealedEntry::BYTES;
        let leaf_max = bytes.saturating_sub(HEAD_BYTES) / entry_bytes;
        let inner_max = bytes.saturating_sub(HEAD_BYTES + CHILD_BYTES) / (entry_bytes + CHILD_BYTES);
        if leaf_max.min(inner_max) < 3 {
            let least = HEAD_BYTES + CHILD_BYTES + 3 * (entry_bytes + CHILD_BYTES);
            return Err(Refusal::Malformed(format!(
                "a page of {page_bytes} bytes, which does not hold three entries: at least {least} for this scheme"
            )));
        }
        // A page's count has two bytes.
        let most = usize::from(u16::MAX) - 1;
        Ok(Self {
            scheme,
            page_bytes,
            stored_bytes,
            leaf_max: leaf_max.min(most),
            inner_max: inner_max.min(most),
        })
    }

    /// Most records of a page of this level.
    pub(super) fn most(&self, level: u8) -> usize {
        if level == 0 { self.leaf_max } else { self.inner_max }
    }

    /// Fewest records of a page that is not the root.
    pub(super) fn fewest(&self, level: u8) -> usize {
        self.most(level) / 2
    }

    /// Bytes of a leaf's record.
    pub(super) fn entry_bytes(&self) -> usize {
        self.stored_bytes + SealedEntry::BYTES
    }

    fn record_bytes(&self, level: u8) -> usize {
        self.entry_bytes() + if level == 0 { 0 } else { CHILD_BYTES }
    }

    fn base(level: u8) -> usize {
        HEAD_BYTES + if level == 0 { 0 } else { CHILD_BYTES }
    }

    /// A leaf without entries.
    pub(super) fn empty_leaf(&self) -> Page {
        Page { layout: *self, bytes: vec![0; HEAD_BYTES] }
    }

    /// An inner page without separators.
    pub(super) fn inner(&self, level: u8, child: u64) -> Page {
        let mut bytes = vec![level, 0, 0];
        bytes.extend_from_slice(&child.to_be_bytes());
        Page { layout: *self, bytes }
    }

    /// Compares a stored ciphertext with one of a query.
    pub(super) fn compare(&self, query: &[u8], stored: &[u8]) -> Result<Ordering, Refusal> {
        compare(self.scheme, query, stored).map_err(|error| {
            // Another build made the index, or it is a ciphertext that does not parse.
            let why = not_served(self.scheme);
            Refusal::Malformed(why.map_or_else(|| error.to_string(), str::to_owned))
        })
    }
}

/// A page that contradicts itself.
pub(super) fn damaged<T>(what: &str) -> Result<T, Refusal> {
    Err(Refusal::Damaged(what.to_owned()))
}

/// A page, checked: its length is that of its level and count.
#[derive(Clone, Debug)]
pub(super) struct Page {
    layout: Layout,
    bytes: Vec<u8>,
}

impl Page {
    /// Takes what the store has, if it is a page of this level.
    pub(super) fn open(layout: Layout, bytes: Vec<u8>, level: u8) -> Result<Self, Refusal> {
        let page = Self { layout, bytes };
        let fits = page.bytes.len() == Layout::base(level) + page.count() * layout.record_bytes(level);
        if page.bytes.first() != Some(&level) || page.count() > layout.most(level) || !fits {
            return damaged("a page is not one of its level");
        }
        Ok(page)
    }

    pub(super) fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    pub(super) fn level(&self) -> u8 {
        self.bytes.first().copied().unwrap_or(0)
    }

    /// Entries of a leaf, separators of an inner page.
    pub(super) fn count(&self) -> usize {
        match self.bytes.get(1..HEAD_BYTES) {
            Some([high, low]) => usize::from(u16::from_be_bytes([*high, *low])),
            _ => 0,
        }
    }

    fn set_count(&mut self, count: usize) {
        // A page is split one record over its layout's most, which is below u16::MAX.
        let count = u16::try_from(count).unwrap_or(u16::MAX);
        if let Some(bytes) = self.bytes.get_mut(1..HEAD_BYTES) {
            bytes.copy_from_slice(&count.to_be_bytes());
        }
    }

    fn offset(&self, position: usize) -> usize {
        Layout::base(self.level()) + position * self.layout.record_bytes(self.level())
    }

    /// The records from `from` to `to`, as they lie.
    pub(super) fn records(&self, from: usize, to: usize) -> Result<&[u8], Refusal> {
        match self.bytes.get(self.offset(from)..self.offset(to)) {
            Some(records) => Ok(records),
            None => damaged("a page has fewer records than its count"),
        }
    }

    /// Ciphertext and name of a record.
    pub(super) fn entry(&self, position: usize) -> Result<(&[u8], &[u8]), Refusal> {
        let record = self.records(position, position + 1)?;
        match record
            .get(..self.layout.entry_bytes())
            .and_then(|entry| entry.split_at_checked(self.layout.stored_bytes))
        {
            Some(entry) => Ok(entry),
            None => damaged("a page has fewer records than its count"),
        }
    }

    /// Page number of a child: one more of them than separators.
    pub(super) fn child(&self, position: usize) -> Result<u64, Refusal> {
        let end = self.offset(position);
        match self.bytes.get(end.saturating_sub(CHILD_BYTES)..end).and_then(|bytes| bytes.try_into().ok()) {
            Some(bytes) if self.level() > 0 => Ok(u64::from_be_bytes(bytes)),
            _ => damaged("a page has fewer children than its count"),
        }
    }

    /// How many records `before` is true of. It is true up to some record and false from there on.
    pub(super) fn partition(
        &self,
        mut before: impl FnMut(&[u8], &[u8]) -> Result<bool, Refusal>,
    ) -> Result<usize, Refusal> {
        let (mut low, mut high) = (0, self.count());
        while low < high {
            let middle = low.midpoint(high);
            let (stored, name) = self.entry(middle)?;
            if before(stored, name)? {
                low = middle + 1;
            } else {
                high = middle;
            }
        }
        Ok(low)
    }

    /// Puts records in at `position`, as they lie.
    pub(super) fn insert(&mut self, position: usize, records: &[u8]) {
        let at = self.offset(position).min(self.bytes.len());
        let tail = self.bytes.len() - at;
        self.bytes.extend_from_slice(records);
        if let Some(moved) = self.bytes.get_mut(at..) {
            moved.rotate_left(tail);
        }
        let added = records.len() / self.layout.record_bytes(self.level());
        self.set_count(self.count() + added);
    }

    /// Takes the records from `from` to `to` out and returns them.
    pub(super) fn take(&mut self, from: usize, to: usize) -> Vec<u8> {
        let to = to.min(self.count());
        let from = from.min(to);
        let end = self.offset(to).min(self.bytes.len());
        let start = self.offset(from).min(end);
        let records = self.bytes.drain(start..end).collect();
        self.set_count(self.count() - (to - from));
        records
    }

    /// Puts a separator and the child right of it in.
    pub(super) fn insert_child(&mut self, position: usize, separator: &[u8], child: u64) {
        self.insert(position, &[separator, &child.to_be_bytes()].concat());
    }

    /// Replaces a separator or an entry, keeping the child.
    pub(super) fn set_entry(&mut self, position: usize, entry: &[u8]) -> Result<(), Refusal> {
        let start = self.offset(position);
        let room = self.bytes.get_mut(start..start + self.layout.entry_bytes());
        match room {
            Some(room) if room.len() == entry.len() => {
                room.copy_from_slice(entry);
                Ok(())
            }
            _ => damaged("a page has fewer records than its count"),
        }
    }

    /// Ciphertext and name of a record, side by side.
    pub(super) fn whole_entry(&self, position: usize) -> Result<Vec<u8>, Refusal> {
        let (stored, name) = self.entry(position)?;
        Ok([stored, name].concat())
    }

    /// Replaces the first child.
    pub(super) fn set_first_child(&mut self, child: u64) {
        if let Some(room) = self.bytes.get_mut(HEAD_BYTES..HEAD_BYTES + CHILD_BYTES) {
            room.copy_from_slice(&child.to_be_bytes());
        }
    }

    /// Splits records from `from` on off, as a page of the same level. Of an inner page the separator at `from` is
    /// taken out: it goes up. Returns it and the new right page.
    pub(super) fn split(&mut self, from: usize) -> Result<(Vec<u8>, Self), Refusal> {
        let separator = self.whole_entry(from)?;
        let level = self.level();
        let mut right = if level == 0 {
            self.layout.empty_leaf()
        } else {
            self.layout.inner(level, self.child(from + 1)?)
        };
        let records = self.take(from, self.count());
        let skipped = if level == 0 { 0 } else { self.layout.record_bytes(level) };
        right.insert(0, records.get(skipped..).unwrap_or_default());
        Ok((separator, right))
    }

    /// Takes in all records of the page right of it; `separator` came between the two.
    pub(super) fn merge(&mut self, separator: &[u8], right: &Self) -> Result<(), Refusal> {
        if self.level() > 0 {
            self.insert_child(self.count(), separator, right.child(0)?);
        }
        self.insert(self.count(), right.records(0, right.count())?);
        Ok(())
    }
}

#[cfg(test)]
#[allow(clippy::expect_used, clippy::indexing_slicing, clippy::panic, reason = "a test may fail")]
mod tests;
