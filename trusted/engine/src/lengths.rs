//! How long a collection's sealed documents are on average: of those that came or went since the start. What plans are
//! said to cost goes by it.

use arras_protocol::documents::SealedDocument;
use std::sync::atomic::{AtomicU64, Ordering};

/// Number and bytes of the documents seen; the two may be of slightly different moments.
#[derive(Debug, Default)]
pub(super) struct Lengths {
    documents: AtomicU64,
    bytes: AtomicU64,
}

impl Lengths {
    /// Notes documents that were read or are to be written.
    pub(super) fn note<'d>(&self, documents: impl IntoIterator<Item = &'d SealedDocument>) {
        let (mut count, mut bytes) = (0_u64, 0_u64);
        for document in documents {
            count += 1;
            bytes += (document.header.0.len() + document.values.0.len()) as u64;
        }
        self.documents.fetch_add(count, Ordering::Relaxed);
        self.bytes.fetch_add(bytes, Ordering::Relaxed);
    }

    /// Bytes of one, on average; `None` if none was seen.
    pub(super) fn mean(&self) -> Option<u64> {
        let documents = self.documents.load(Ordering::Relaxed);
        self.bytes.load(Ordering::Relaxed).checked_div(documents)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use arras_protocol::{Blob, RowId};

    #[test]
    fn the_mean_is_of_all_that_were_seen() {
        let document = |header: usize, values: usize| SealedDocument {
            row: RowId([0; RowId::BYTES]),
            header: Blob(vec![0; header]),
            values: Blob(vec![0; values]),
        };
        let lengths = Lengths::default();
        assert_eq!(lengths.mean(), None);
        lengths.note(&[document(10, 90), document(20, 180)]);
        lengths.note(&[document(100, 200)]);
        assert_eq!(lengths.mean(), Some(200));
    }
}
