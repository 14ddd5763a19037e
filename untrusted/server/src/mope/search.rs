//! Searches: the labels between two bounds, and the entries under the ciphertext of each.

use super::store::{ENTRIES, Index, LABELS};
use crate::backend::storage;
use crate::keyspace::{borrow, key, prefix_range};
use arras_protocol::Order;
use arras_protocol::limits::REPLY_BYTES_SOFT;
use arras_protocol::mope::Label;
use arras_protocol::mope::index::{Bound as End, Group, Response, SealedRow, Search, Side};
use arras_protocol::{Blob, Refusal};
use arras_storage::{Direction, Read};
use std::ops::{Bound, ControlFlow};

/// Bytes of a group beside ciphertext and names.
const GROUP_BYTES: usize = 8;

/// An end of the range, as labels.
fn bound(reader: &impl Read, index: &Index, end: Option<&End>, open: Label) -> Result<Bound<Label>, Refusal> {
    let Some(end) = end else { return Ok(Bound::Included(open)) };
    index.check_ciphertexts(std::iter::once(&end.ciphertext))?;
    let label = index.label(reader, end.ciphertext.as_slice())?.ok_or_else(|| index.other_version())?;
    Ok(match end.side {
        Side::Beyond => Bound::Excluded(label),
        Side::With | Side::After(_) => Bound::Included(label),
    })
}

/// What is found, and how much more there may be.
struct Found<'s> {
    search: &'s Search,
    groups: Vec<Group>,
    entries_left: u64,
    bytes: usize,
    more: bool,
}

impl Found<'_> {
    fn is_full(&self) -> bool {
        self.entries_left == 0 || self.bytes >= REPLY_BYTES_SOFT
    }

    /// The entry behind which those of a ciphertext begin.
    fn after(&self, ciphertext: &[u8]) -> Option<SealedRow> {
        let first = match self.search.order {
            Order::Ascending => &self.search.lower,
            Order::Descending => &self.search.upper,
        };
        match first {
            Some(End { ciphertext: own, side: Side::After(sealed) }) if own.as_slice() == ciphertext => {
                Some(*sealed)
            }
            _ => None,
        }
    }

    /// Takes the entries of a ciphertext; false where the reply is full.
    fn take(&mut self, reader: &impl Read, index: &Index, ciphertext: &[u8]) -> Result<bool, Refusal> {
        let prefix = index.entries_prefix(ciphertext);
        let (mut low, mut high) = prefix_range(&prefix, None);
        let direction = match self.search.order {
            Order::Ascending => Direction::Ascending,
            Order::Descending => Direction::Descending,
        };
        if let Some(sealed) = self.after(ciphertext) {
            let after = Bound::Excluded(key(&[&prefix, &sealed.0]));
            match direction {
                Direction::Ascending => low = after,
                Direction::Descending => high = after,
            }
        }
        let (mut names, mut failure) = (Vec::new(), None);
        reader
            .scan(ENTRIES, borrow(&(low, high)), direction, &mut |entry, _| {
                if self.is_full() {
                    self.more = true;
                    return ControlFlow::Break(());
                }
                match index.name_in(entry) {
                    Ok(name) => names.extend_from_slice(name),
                    Err(refusal) => {
                        failure = Some(refusal);
                        return ControlFlow::Break(());
                    }
                }
                self.entries_left = self.entries_left.saturating_sub(1);
                self.bytes = self.bytes.saturating_add(SealedRow::BYTES);
                ControlFlow::Continue(())
            })
            .map_err(storage)?;
        if let Some(refusal) = failure {
            return Err(refusal);
        }
        if !names.is_empty() {
            self.bytes = self.bytes.saturating_add(ciphertext.len() + GROUP_BYTES);
            self.groups.push(Group { ciphertext: Blob(ciphertext.to_vec()), sealed: Blob(names) });
        }
        Ok(!self.more)
    }
}

/// Answers a search.
pub(super) fn answer(reader: &impl Read, index: &Index, search: &Search) -> Result<Response, Refusal> {
    let low = bound(reader, index, search.lower.as_ref(), Label::MIN)?;
    let high = bound(reader, index, search.upper.as_ref(), Label::MAX)?;
    let (low, high) = (low.map(|label| index.label_key(label)), high.map(|label| index.label_key(label)));
    let direction = match search.order {
        Order::Ascending => Direction::Ascending,
        Order::Descending => Direction::Descending,
    };
    let entries_left = search.limit.unwrap_or(u64::MAX);
    let mut found = Found { search, groups: Vec::new(), entries_left, bytes: 0, more: false };
    let mut failure = None;
    reader
        .scan(LABELS, borrow(&(low, high)), direction, &mut |_, ciphertext| {
            // What is full at the last entry of a ciphertext may have none behind it: the next search tells.
            if found.is_full() {
                found.more = true;
                return ControlFlow::Break(());
            }
            match found.take(reader, index, ciphertext) {
                Ok(true) => ControlFlow::Continue(()),
                Ok(false) => ControlFlow::Break(()),
                Err(refusal) => {
                    failure = Some(refusal);
                    ControlFlow::Break(())
                }
            }
        })
        .map_err(storage)?;
    if let Some(refusal) = failure {
        return Err(refusal);
    }
    let more = found.more && found.entries_left > 0;
    Ok(Response::Found { groups: found.groups, more })
}
