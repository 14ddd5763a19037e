//! What a search found, checked entry by entry.

use crate::error::{IndexError, OpenFailed};
use crate::ore::OrderScheme;
use crate::ore::domain::plaintext_key;
use arras_primitives::det_pair::{DetPair, rank_number};
use arras_primitives::tie::TieOrder;
use arras_protocol::RowId;
use arras_protocol::arx_range::Order;
use arras_protocol::bplus::{SealedEntry, TieToken};
use arras_protocol::ore::Scheme;
use std::cmp::Ordering;

/// An entry found.
#[derive(Clone, Copy)]
pub(super) struct Checked<'a> {
    pub(super) value: u64,
    pub(super) stored: &'a [u8],
    pub(super) sealed: SealedEntry,
}

/// The last entry found, to go on after.
pub(super) struct Last {
    value: u64,
    stored: Vec<u8>,
    sealed: SealedEntry,
}

impl Last {
    pub(super) fn entry(&self) -> Checked<'_> {
        Checked { value: self.value, stored: &self.stored, sealed: self.sealed }
    }
}

/// The order of the entries of one value: that of their names, or of what the value's key makes of them.
pub(super) struct Ties(Option<TieOrder>);

impl Ties {
    pub(super) fn new(token: Option<TieToken>) -> Self {
        Self(token.map(|TieToken(key)| TieOrder::new(&key)))
    }

    /// Places compare as the entries do.
    pub(super) fn place(&self, sealed: &SealedEntry) -> [u8; SealedEntry::BYTES] {
        let mut place = sealed.0;
        if let (Some(order), Some(first)) = (&self.0, place.first_chunk_mut()) {
            *first = order.place(first);
        }
        place
    }
}

/// A search under way: its range, and what was found of it.
pub(super) struct Range {
    scheme: Scheme,
    lower: u64,
    upper: u64,
    order: Order,
    limit: Option<usize>,
    pub(super) found: Vec<(Vec<u8>, RowId)>,
    pub(super) last: Option<Last>,
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
    pub(super) fn take(
        &mut self,
        scheme: &impl OrderScheme,
        names: &DetPair,
        entries: &[u8],
    ) -> Result<(), IndexError> {
        let stored_bytes =
            self.scheme.stored_bytes().ok_or(IndexError::Caller("no scheme has these parameters"))?;
        let entry_bytes = stored_bytes + SealedEntry::BYTES;
        let count = entries.len() / entry_bytes;
        if !entries.len().is_multiple_of(entry_bytes) {
            return Err(IndexError::Peer("a part of an entry"));
        }
        if self.remaining().is_some_and(|remaining| count > remaining) {
            return Err(IndexError::Peer("more entries than asked for"));
        }
        let mut sealed = Vec::with_capacity(count * SealedEntry::BYTES);
        entries.chunks_exact(entry_bytes).for_each(|entry| sealed.extend_from_slice(&entry[stored_bytes..]));
        let opened = names.open_each(&sealed).map_err(|_| OpenFailed)?;
        self.found.reserve(count);
        let previous = self.last.take();
        let mut last = previous.as_ref().map(Last::entry);
        for (entry, (rank, row)) in entries.chunks_exact(entry_bytes).zip(opened) {
            let (stored, sealed) = entry.split_at(stored_bytes);
            let sealed = SealedEntry(sealed.try_into().map_err(|_| IndexError::Peer("a part of an entry"))?);
            let value = rank_number(rank);
            if scheme.decrypt(stored)? != value {
                return Err(OpenFailed.into());
            }
            if value < self.lower || value > self.upper {
                return Err(IndexError::Peer("an entry outside the range"));
            }
            let next = Checked { value, stored, sealed };
            if last.is_some_and(|last| !self.follows(scheme, last, next)) {
                return Err(IndexError::Peer("entries out of order, or twice"));
            }
            self.found.push((plaintext_key(self.scheme.width(), value), RowId(row)));
            last = Some(next);
        }
        self.last =
            last.map(|last| Last { value: last.value, stored: last.stored.to_vec(), sealed: last.sealed });
        Ok(())
    }

    /// Whether an entry comes after another in the direction of the search.
    fn follows(&self, scheme: &impl OrderScheme, last: Checked<'_>, next: Checked<'_>) -> bool {
        // Where equality is hidden, ciphertexts have an order of their own.
        let among_equals = || match self.scheme.hides_equality() {
            true => last.stored.cmp(next.stored),
            false => {
                let ties = Ties::new(scheme.tie(next.value));
                ties.place(&last.sealed).cmp(&ties.place(&next.sealed))
            }
        };
        let expected = match self.order {
            Order::Ascending => Ordering::Less,
            Order::Descending => Ordering::Greater,
        };
        last.value.cmp(&next.value).then_with(among_equals) == expected
    }
}
