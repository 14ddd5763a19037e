//! What a search found, checked entry by entry.

use crate::error::IndexError;
use crate::ore::OrderScheme;
use crate::ore::domain::plaintext_key;
use arras_primitives::tie::TieOrder;
use arras_protocol::RowId;
use arras_protocol::arx_range::Order;
use arras_protocol::bplus::TieToken;
use arras_protocol::ore::Scheme;
use std::cmp::Ordering;

/// An entry found.
pub(super) struct Checked {
    pub(super) value: u64,
    pub(super) stored: Vec<u8>,
    pub(super) row: RowId,
}

/// A search under way: its range, and what was found of it.
pub(super) struct Range {
    scheme: Scheme,
    lower: u64,
    upper: u64,
    order: Order,
    limit: Option<usize>,
    pub(super) found: Vec<(Vec<u8>, RowId)>,
    pub(super) last: Option<Checked>,
}

impl Range {
    pub(super) fn new(scheme: Scheme, lower: u64, upper: u64, order: Order, limit: Option<usize>) -> Self {
        Self { scheme, lower, upper, order, limit, found: Vec::new(), last: None }
    }

    /// Entries that may still come.
    pub(super) fn remaining(&self) -> Option<usize> {
        self.limit.map(|limit| limit.saturating_sub(self.found.len()))
    }

    /// Takes a reply's entries in, or finds the lie in them.
    pub(super) fn take(&mut self, scheme: &impl OrderScheme, entries: &[u8]) -> Result<(), IndexError> {
        let stored_bytes =
            self.scheme.stored_bytes().ok_or(IndexError::Caller("no scheme has these parameters"))?;
        let entry_bytes = stored_bytes + RowId::BYTES;
        let count = entries.len() / entry_bytes;
        if !entries.len().is_multiple_of(entry_bytes) {
            return Err(IndexError::Peer("a part of an entry"));
        }
        if self.remaining().is_some_and(|remaining| count > remaining) {
            return Err(IndexError::Peer("more entries than asked for"));
        }
        self.found.reserve(count);
        let previous = self.last.take();
        let mut last = previous.as_ref().map(|last| (last.value, last.stored.as_slice(), last.row));
        for entry in entries.chunks_exact(entry_bytes) {
            let (stored, row) = entry.split_at(stored_bytes);
            let row = RowId(row.try_into().map_err(|_| IndexError::Peer("a part of an entry"))?);
            let value = scheme.decrypt(stored)?;
            if value < self.lower || value > self.upper {
                return Err(IndexError::Peer("an entry outside the range"));
            }
            if last.is_some_and(|last| !self.follows(scheme, last, (value, stored, row))) {
                return Err(IndexError::Peer("entries out of order, or twice"));
            }
            self.found.push((plaintext_key(self.scheme.width(), value), row));
            last = Some((value, stored, row));
        }
        self.last = last.map(|(value, stored, row)| Checked { value, stored: stored.to_vec(), row });
        Ok(())
    }

    /// Whether an entry comes after another in the direction of the search.
    fn follows(
        &self,
        scheme: &impl OrderScheme,
        last: (u64, &[u8], RowId),
        next: (u64, &[u8], RowId),
    ) -> bool {
        // Where equality is hidden, ciphertexts have an order of their own; elsewhere rows order equal values, or what
        // the value's key makes of them.
        let among_equals = || match scheme.tie(next.0) {
            Some(TieToken(key)) => TieOrder::new(&key).compare(last.2.as_bytes(), next.2.as_bytes()),
            None if self.scheme.hides_equality() => last.1.cmp(next.1),
            None => last.2.cmp(&next.2),
        };
        let expected = match self.order {
            Order::Ascending => Ordering::Less,
            Order::Descending => Ordering::Greater,
        };
        last.0.cmp(&next.0).then_with(among_equals) == expected
    }
}
