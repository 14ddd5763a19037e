//! What a search found, checked entry by entry.

use super::names::{Names, Ties};
use crate::contract::Order;
use crate::error::{IndexError, OpenFailed};
use crate::ore::domain::plaintext_key;
use arras_protocol::RowId;
use arras_protocol::bplus::{SealedEntry, TieToken};
use arras_protocol::ore::Scheme;
use std::cmp::Ordering;
use std::collections::HashSet;

/// The last entry found, to go on after.
pub(super) struct Last {
    pub(super) value: u64,
    pub(super) stored: Vec<u8>,
    pub(super) sealed: SealedEntry,
}

/// An entry in a reply.
#[derive(Clone, Copy)]
struct Checked<'a> {
    value: u64,
    stored: &'a [u8],
    sealed: SealedEntry,
}

/// A search under way: its range, and what was found of it.
pub(super) struct Range {
    scheme: Scheme,
    lower: u64,
    upper: u64,
    pub(super) order: Order,
    limit: Option<usize>,
    pub(super) found: Vec<(Vec<u8>, RowId)>,
    pub(super) last: Option<Last>,
    /// Where equality is hidden, the names of the entries of the last value: ciphertexts alone do not tell that one came
    /// twice.
    alike: HashSet<SealedEntry>,
}

impl Range {
    pub(super) fn new(
        scheme: Scheme,
        (lower, upper): (u64, u64),
        order: Order,
        limit: Option<usize>,
    ) -> Self {
        Self { scheme, lower, upper, order, limit, found: Vec::new(), last: None, alike: HashSet::new() }
    }

    /// Entries that may still come.
    pub(super) fn remaining(&self) -> Option<usize> {
        self.limit.map(|limit| limit.saturating_sub(self.found.len()))
    }

    /// Takes a reply's entries in, or finds the lie in them. `agrees`: whether a ciphertext may be one of a value. `tie`:
    /// what orders the entries of a value.
    pub(super) fn take(
        &mut self,
        names: &Names,
        entries: &[u8],
        agrees: impl Fn(&[u8], u64) -> bool,
        tie: impl Fn(u64) -> Option<TieToken>,
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
        self.found.reserve(count);
        let previous = self.last.take();
        let mut last = previous.as_ref().map(|last| Checked {
            value: last.value,
            stored: &last.stored,
            sealed: last.sealed,
        });
        for (entry, (value, row)) in entries.chunks_exact(entry_bytes).zip(names.open_each(&sealed)?) {
            let (stored, sealed) = entry.split_at(stored_bytes);
            let sealed = SealedEntry(sealed.try_into().map_err(|_| IndexError::Peer("a part of an entry"))?);
            if !agrees(stored, value) {
                return Err(OpenFailed.into());
            }
            if value < self.lower || value > self.upper {
                return Err(IndexError::Peer("an entry outside the range"));
            }
            let next = Checked { value, stored, sealed };
            let follows = last.is_none_or(|last| self.follows(&tie, last, next));
            if !follows || !self.is_new(last, next) {
                return Err(IndexError::Peer("entries out of order, or twice"));
            }
            self.found.push((plaintext_key(self.scheme.width(), value), row));
            last = Some(next);
        }
        self.last =
            last.map(|last| Last { value: last.value, stored: last.stored.to_vec(), sealed: last.sealed });
        Ok(())
    }

    /// Whether an entry comes after another in the direction of the search.
    fn follows(&self, tie: impl Fn(u64) -> Option<TieToken>, last: Checked<'_>, next: Checked<'_>) -> bool {
        // Where equality is hidden, ciphertexts have an order of their own.
        let among_equals = || match self.scheme.hides_equality() {
            true => last.stored.cmp(next.stored),
            false => {
                let ties = Ties::new(tie(next.value));
                ties.place(&last.sealed).cmp(&ties.place(&next.sealed))
            }
        };
        let expected = match self.order {
            Order::Ascending => Ordering::Less,
            Order::Descending => Ordering::Greater,
        };
        last.value.cmp(&next.value).then_with(among_equals) == expected
    }

    /// Whether an entry is none of those of its value so far; where equality is shown, their order says it.
    fn is_new(&mut self, last: Option<Checked<'_>>, next: Checked<'_>) -> bool {
        if !self.scheme.hides_equality() {
            return true;
        }
        if last.is_none_or(|last| last.value != next.value) {
            self.alike.clear();
        }
        self.alike.insert(next.sealed)
    }
}
