//! How many documents go in one write: by what their bytes and their index entries come to.

use super::apply::Revision;
use super::index::{Half, Part};
use arras_documents::limits;
use arras_planner::terms::terms_at_most;
use bson::Document;
use std::sync::Arc;

/// Most documents of one write.
pub(super) const DOCUMENTS_MAX: usize = 4000;

/// Bytes of one entry's steps in a unique index, about.
const UNIQUE_ENTRY_BYTES: usize = 50;
/// Bytes of one entry's steps in an equality index, about, with its counter in the document's header.
const EQ_ENTRY_BYTES: usize = 70;
/// Bytes of an entry in a range index, besides its key.
const RANGE_ENTRY_BYTES: usize = 20;

/// Bytes of one entry's steps, about: a range index writes the entry's whole bucket.
fn entry_bytes<C>(part: &Part<C>) -> usize {
    match &part.half {
        Half::Unique(_) => UNIQUE_ENTRY_BYTES,
        Half::Eq(_) => EQ_ENTRY_BYTES,
        Half::Range(_) => {
            let entry = part.physical.key_bytes().unwrap_or_default().saturating_add(RANGE_ENTRY_BYTES);
            let entries = usize::try_from(part.bucket_factor).unwrap_or(usize::MAX).saturating_add(1);
            entry.saturating_mul(entries)
        }
    }
}

/// Bytes of a write that a document comes to, about, and rather too many: its `length` and its index entries.
pub(super) fn document_bytes<C>(parts: &[Arc<Part<C>>], document: &Document, length: usize) -> usize {
    let entries =
        parts.iter().map(|part| terms_at_most(document, &part.physical).saturating_mul(entry_bytes(part)));
    entries.fold(length, usize::saturating_add)
}

/// The same of a revision: entries that go are steps like those that come.
fn revision_bytes<C>(parts: &[Arc<Part<C>>], revision: &Revision) -> usize {
    // One that is too large to be stored fails in its turn.
    let new = revision
        .new
        .as_ref()
        .map_or(0, |new| document_bytes(parts, new, limits::check_built(new).unwrap_or_default()));
    let old = revision.old.as_ref().map_or(0, |old| document_bytes(parts, &old.document, 0));
    new.saturating_add(old)
}

/// Entries of one write of a range index when they come in the order of their keys, and share buckets.
pub(super) fn entries_in_order<C>(part: &Part<C>, write_bytes: usize) -> usize {
    let entry = part.physical.key_bytes().unwrap_or_default().saturating_add(RANGE_ENTRY_BYTES);
    // Half a bucket more than its entries, and the node and links of each bucket.
    (write_bytes / entry.saturating_mul(2).saturating_add(16)).max(1)
}

/// The next revisions that make up one write: at least one, if there is any.
pub(super) fn next_write<C>(
    parts: &[Arc<Part<C>>],
    revisions: &mut impl Iterator<Item = Revision>,
    write_bytes: usize,
) -> Vec<Revision> {
    let (mut write, mut bytes) = (Vec::new(), 0_usize);
    while write.len() < DOCUMENTS_MAX && bytes < write_bytes {
        let Some(revision) = revisions.next() else { break };
        bytes = bytes.saturating_add(revision_bytes(parts, &revision));
        write.push(revision);
    }
    write
}
