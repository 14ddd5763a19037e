//! How many documents go in one write: by what their bytes and their index entries come to.

use super::apply::Revision;
use super::index::IndexPart;
use arras_planner::terms::terms_at_most;
use bson::Document;
use std::sync::Arc;

/// Most documents of one write.
pub(super) const DOCUMENTS_MAX: usize = 4000;

/// Bytes of a write that a document comes to, about, and rather too many: its `length` and its index entries.
pub(super) fn document_bytes(parts: &[Arc<IndexPart>], document: &Document, length: usize) -> usize {
    let entries = parts
        .iter()
        .map(|part| terms_at_most(document, &part.physical).saturating_mul(part.half.entry_bytes()));
    entries.fold(length, usize::saturating_add)
}

/// The same of a revision: entries that go are steps like those that come.
fn revision_bytes(parts: &[Arc<IndexPart>], revision: &Revision) -> usize {
    let new = revision.new.as_ref().map_or(0, |new| document_bytes(parts, new, new.bytes()));
    let old = revision.old.as_ref().map_or(0, |old| document_bytes(parts, &old.document, 0));
    new.saturating_add(old)
}

/// The next revisions that make up one write: at least one, if there is any.
pub(super) fn next_write(
    parts: &[Arc<IndexPart>],
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

#[cfg(test)]
mod tests;
