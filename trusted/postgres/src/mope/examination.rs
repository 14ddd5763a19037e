//! A look at all that is kept of columns, in one snapshot, while others go on.

use super::Column;
use super::connections::failure;
use super::labels::{from_database, to_database};
use super::tables::fetched;
use arras_protocol::mope::{Fetch, Fetched, Label, Round, TreeChange, TreeStore};
use arras_protocol::{Blob, ChannelError};
use std::sync::Arc;
use tokio_postgres::Client;

/// A transaction that sees one state of the database, and changes nothing; of it, one column's tree and table. As a
/// [`TreeStore`] it lets a client half walk the tree of that state; with [`Self::entries`] the walk can be compared with the
/// table.
pub struct Examination {
    client: Arc<Client>,
    column: Column,
}

impl std::fmt::Debug for Examination {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.debug_struct("Examination").field("column", &self.column).finish_non_exhaustive()
    }
}

/// The snapshot alone, whose columns are looked at one after the other.
#[derive(Clone)]
pub struct Snapshot {
    pub(crate) client: Arc<Client>,
}

impl std::fmt::Debug for Snapshot {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.debug_struct("Snapshot").finish_non_exhaustive()
    }
}

impl Snapshot {
    /// Begins one on a connection of its own, which it ends with.
    ///
    /// # Errors
    /// [`ChannelError`].
    pub async fn begin(client: Client) -> Result<Self, ChannelError> {
        let begin = "BEGIN ISOLATION LEVEL REPEATABLE READ, READ ONLY";
        client.batch_execute(begin).await.map_err(|error| failure(&error))?;
        Ok(Self { client: Arc::new(client) })
    }

    /// A column as it is in this snapshot.
    #[must_use]
    pub fn column(&self, column: Column) -> Examination {
        Examination { client: Arc::clone(&self.client), column }
    }
}

impl Examination {
    /// Begins one on a connection of its own, which it ends with.
    ///
    /// # Errors
    /// [`ChannelError`].
    pub async fn begin(client: Client, column: Column) -> Result<Self, ChannelError> {
        Ok(Snapshot::begin(client).await?.column(column))
    }

    /// What contradicts itself without a key being needed to see it: labels in rows that are no value's, labels of two
    /// values, a table and a tree of different sizes, nodes that are missing. Empty if all is well.
    ///
    /// # Errors
    /// [`ChannelError`].
    pub async fn contradictions(&self) -> Result<Vec<String>, ChannelError> {
        let rows = self.client.query("SELECT arras.mope_examine($1)", &[&self.column.number()]).await;
        let rows = rows.map_err(|error| failure(&error))?;
        rows.iter()
            .map(|row| row.try_get(0).map_err(|error| ChannelError::Malformed(error.to_string())))
            .collect()
    }

    /// The table's entries above a label, in the order of labels, `most` at most.
    ///
    /// # Errors
    /// [`ChannelError`].
    pub async fn entries(&self, above: Label, most: u16) -> Result<Vec<(Blob, Label)>, ChannelError> {
        let statement = "SELECT ciphertext, label FROM arras.mope_entry WHERE column_id = $1 AND label > $2 \
                         ORDER BY label LIMIT $3";
        let (above, most) = (to_database(above), i64::from(most));
        let rows = self.client.query(statement, &[&self.column.number(), &above, &most]).await;
        let entry = |row: &tokio_postgres::Row| {
            let entry = (row.try_get::<_, Vec<u8>>(0), row.try_get::<_, i64>(1));
            match entry {
                (Ok(ciphertext), Ok(label)) => Ok((Blob::from(ciphertext), from_database(label))),
                (Err(error), _) | (_, Err(error)) => Err(ChannelError::Malformed(error.to_string())),
            }
        };
        rows.map_err(|error| failure(&error))?.iter().map(entry).collect()
    }
}

impl TreeStore for Examination {
    fn fetch(&self, fetch: Fetch) -> Round<'_, Fetched> {
        Box::pin(async move {
            let nodes: Vec<i64> = fetch.nodes.iter().map(|node| node.cast_signed()).collect();
            let ciphertexts: Vec<&[u8]> = fetch.ciphertexts.iter().map(Blob::as_slice).collect();
            let (number, statement) = (self.column.number(), super::connections::FETCH);
            let asked = self.client.query_one(statement, &[&number, &nodes, &fetch.root, &ciphertexts]).await;
            fetched(&asked.map_err(|error| failure(&error))?, fetch.root)
        })
    }

    fn commit(&self, _: TreeChange) -> Round<'_, bool> {
        Box::pin(std::future::ready(Err(ChannelError::Halted("an examination changes nothing".into()))))
    }
}
