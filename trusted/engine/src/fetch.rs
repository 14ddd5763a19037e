//! Documents by row, and what a server's replies to that must be.
//!
//! Each reply brings the documents of the rows it was asked for, in their order and once. A row without a document
//! is left out if nothing said that there is one, or if a write explains that it is gone; a row that an index named
//! and no write removed is withheld.

use super::channel::ServerChannel;
use super::collection::Collection;
use super::ledger::{Explained, Watch};
use super::{Shared, error};
use arras_protocol::{Channel, RowId, documents};
use arras_records::OpenDocument;
use arras_service::examined;
use arras_service::{Fault, ServiceError};
use arras_storage::Storage;
use std::collections::HashMap;

/// What it means that a row has no document.
#[derive(Clone, Copy)]
pub(super) enum Absent<'w> {
    /// Nothing: the row was computed from an `_id`, which need not exist.
    Allowed,
    /// An index named it, asked since this watch began.
    Named(&'w Watch),
}

/// A difference between the server's answers that only a write explains.
pub(super) fn explain(collection: &Collection, explained: Explained, what: &str) -> Result<(), ServiceError> {
    match explained {
        Explained::Yes => Ok(()),
        Explained::No => Err(error::lying(&collection.ns, what)),
        Explained::Unknown => {
            let message =
                "the query lasted beside too many writes to tell what became of its documents; run it again";
            Err(error::of(Fault::Dropped, message))
        }
    }
}

impl<S: Storage, C: ServerChannel> Shared<S, C> {
    /// Documents by row, in an order of its own.
    pub(super) async fn read_rows(
        &self,
        collection: &Collection,
        rows: &[RowId],
        absent: Absent<'_>,
    ) -> Result<Vec<OpenDocument>, ServiceError> {
        let mut rows = rows.to_vec();
        rows.sort_unstable();
        rows.dedup();
        let mut found = Vec::with_capacity(rows.len());
        let mut rest = rows.as_slice();
        while !rest.is_empty() {
            let (documents, served) = self.read_some(collection, rest, absent).await?;
            rest = rest.get(served..).unwrap_or_default();
            found.extend(documents);
        }
        Ok(found)
    }

    /// The documents of the first of some rows, opened: see [`Self::read_sealed`].
    pub(super) async fn read_some(
        &self,
        collection: &Collection,
        rows: &[RowId],
        absent: Absent<'_>,
    ) -> Result<(Vec<OpenDocument>, usize), ServiceError> {
        let (documents, served) = self.read_sealed(collection, rows, absent).await?;
        Ok((collection.open_all(documents).await?, served))
    }

    /// The documents of the first of some rows, as many as one reply holds: in the order asked for, and of how many
    /// rows (one at least) they are. The order in which an index named them is the order of their values and not for
    /// the server to see (Arx, §4.3): callers ask in that of the rows, which are pseudorandom.
    pub(super) async fn read_sealed(
        &self,
        collection: &Collection,
        rows: &[RowId],
        absent: Absent<'_>,
    ) -> Result<(Vec<documents::SealedDocument>, usize), ServiceError> {
        let request = documents::Request::Read { collection: collection.id, rows: rows.to_vec() };
        let reply = Channel::<documents::Documents>::call(&*self.channel, request).await;
        let documents::Response::Documents { documents, served, .. } = reply.map_err(error::channel)? else {
            return Err(error::not_of_protocol());
        };
        examined::documents(documents.len());
        let served = usize::try_from(served).unwrap_or(usize::MAX);
        let (Some(asked), true) = (rows.get(..served), served > 0) else {
            return Err(error::not_of_protocol());
        };
        let missing = missing(asked, documents.iter().map(|document| document.row));
        let missing = missing.ok_or_else(|| {
            error::lying(&collection.ns, "documents come repeated, out of order or without being asked for")
        })?;
        if let Absent::Named(watch) = absent {
            for row in missing {
                let explained = watch.deleted(collection.id, row);
                explain(collection, explained, "an index names a document that is withheld")?;
            }
        }
        Ok((documents, served))
    }

    /// The documents of the first of `rows`, in their order, and how many rows those are: fewer than all if their
    /// documents are more than one reply holds. They are asked for in an order of their own.
    pub(super) async fn read_in_order(
        &self,
        collection: &Collection,
        rows: &[RowId],
        absent: Absent<'_>,
    ) -> Result<(Vec<OpenDocument>, usize), ServiceError> {
        let mut asked = rows;
        while !asked.is_empty() {
            let mut ascending = asked.to_vec();
            ascending.sort_unstable();
            ascending.dedup();
            let (documents, served) = self.read_some(collection, &ascending, absent).await?;
            if served == ascending.len() {
                return Ok((in_order_of(asked, documents), asked.len()));
            }
            asked = asked.get(..asked.len() / 2).unwrap_or_default();
        }
        Err(error::not_of_protocol())
    }
}

/// Documents in the order of `rows`.
fn in_order_of(rows: &[RowId], documents: Vec<OpenDocument>) -> Vec<OpenDocument> {
    let mut by_row: HashMap<RowId, OpenDocument> =
        documents.into_iter().map(|document| (document.row, document)).collect();
    rows.iter().filter_map(|row| by_row.remove(row)).collect()
}

/// The rows asked for that did not come; none if what came is not a part of them, in their order.
fn missing(asked: &[RowId], came: impl IntoIterator<Item = RowId>) -> Option<Vec<RowId>> {
    let mut came = came.into_iter().peekable();
    let missing = asked.iter().copied().filter(|row| came.next_if_eq(row).is_none()).collect();
    came.next().is_none().then_some(missing)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_comes_is_a_part_of_what_was_asked_for_in_its_order() {
        let rows = |numbers: &[u8]| numbers.iter().map(|number| RowId([*number; 16])).collect::<Vec<_>>();
        let found = |asked: &[u8], came: &[u8]| missing(&rows(asked), rows(came));
        assert_eq!(found(&[3, 1, 2], &[3, 1, 2]), Some(rows(&[])));
        assert_eq!(found(&[3, 1, 2], &[1]), Some(rows(&[3, 2])));
        assert_eq!(found(&[3, 1, 2], &[]), Some(rows(&[3, 1, 2])));
        for lie in [&[1_u8, 3][..], &[3, 3], &[3, 1, 2, 2], &[4], &[3, 1, 2, 4]] {
            assert_eq!(found(&[3, 1, 2], lie), None, "{lie:?}");
        }
    }
}
