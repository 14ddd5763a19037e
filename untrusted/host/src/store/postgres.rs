//! In PostgreSQL, in a schema of its own.
//!
//! A label is a `uuid`: PostgreSQL's one type of 16 bytes without a length beside it, which it also compares fastest. Each call is
//! a statement for some thousand rows, which is a transaction and durable when it is answered. Rows are written in the order of their
//! labels, so where a row lies says of its call alone.

use super::{FIRST, Store, StoreError, checkpoint_key, is_begun_by, log_key, state_key};
use arras_protocol::Blob;
use arras_protocol::iee::{ENTRY_BYTES, LABEL_BYTES, SEALED_BYTES, StateName};
use bytes::BytesMut;
use futures_util::future::try_join_all;
use link::Link;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::error::Error;
use std::time::Duration;
use tokio_postgres::types::{IsNull, ToSql, Type, to_sql_checked};

mod link;
mod servers;
mod tables;

/// Rows of one statement: of the enclave's largest batch PostgreSQL works on a half while the other is on its way.
const STATEMENT_ROWS: usize = 4096;

/// How long a server may be away, or take to answer what the enclave waits for.
pub const PATIENCE: Duration = Duration::from_secs(60);

/// Entries and state in a schema of PostgreSQL.
pub struct PostgresStore {
    link: Link,
}

impl PostgresStore {
    /// Connects to a database (`postgres://USER:PASSWORD@HOST:PORT/DATABASE`), and makes schema and tables where they are not there. Whatever
    /// takes longer than `patience` has failed. One store at a time has a schema.
    ///
    /// # Errors
    /// [`StoreError`] if it does not answer, another store has the schema, or its name is not one. None says the password.
    pub async fn connect(uri: &str, schema: &str, patience: Duration) -> Result<Self, StoreError> {
        Ok(Self { link: Link::connect(uri, schema, patience).await? })
    }
}

/// A label as a value of type `uuid`.
#[derive(Debug)]
struct Label<'l>(&'l [u8; LABEL_BYTES]);

impl ToSql for Label<'_> {
    fn to_sql(&self, _: &Type, out: &mut BytesMut) -> Result<IsNull, Box<dyn Error + Sync + Send>> {
        out.extend_from_slice(self.0);
        Ok(IsNull::No)
    }

    fn accepts(ty: &Type) -> bool {
        *ty == Type::UUID
    }

    to_sql_checked!();
}

/// Labels by statements, each once, in order.
fn statements(labels: &Blob) -> Vec<Vec<Label<'_>>> {
    let (labels, _) = labels.as_slice().as_chunks();
    let labels: Vec<_> = labels.iter().collect::<BTreeSet<_>>().into_iter().collect();
    labels.chunks(STATEMENT_ROWS).map(|rows| rows.iter().copied().map(Label).collect()).collect()
}

impl Store for PostgresStore {
    async fn get(&self, labels: Blob) -> Result<Vec<u8>, StoreError> {
        let statements = statements(&labels);
        let asked =
            statements.iter().map(|labels| async move { self.link.ask(|all| &all.get, &[labels]).await });
        let found = try_join_all(asked).await?.into_iter().flatten().collect::<Vec<_>>();
        let found = found.iter().flat_map(|entries| entries.as_chunks::<ENTRY_BYTES>().0);
        let found: HashMap<_, _> = found.map(|entry| entry.split_at(LABEL_BYTES)).collect();
        let (labels, _) = labels.as_slice().as_chunks::<LABEL_BYTES>();
        let sealed = labels.iter().map(|label| found.get(&label[..]).copied().unwrap_or(&[0; SEALED_BYTES]));
        Ok(sealed.collect::<Vec<_>>().concat())
    }

    async fn put(&self, entries: Blob) -> Result<(), StoreError> {
        let (entries, _) = entries.as_slice().as_chunks::<ENTRY_BYTES>();
        // Of two under one label the later.
        let rows: BTreeMap<_, _> =
            entries.iter().filter_map(|entry| entry.split_first_chunk::<LABEL_BYTES>()).collect();
        let rows: Vec<_> = rows.into_iter().collect();
        let put = rows.chunks(STATEMENT_ROWS).map(|rows| async move {
            let (labels, sealed): (Vec<_>, Vec<_>) =
                rows.iter().map(|(label, sealed)| (Label(label), *sealed)).unzip();
            self.link.ask(|all| &all.put, &[&labels, &sealed]).await
        });
        try_join_all(put).await.map(drop)
    }

    async fn remove(&self, labels: Blob) -> Result<(), StoreError> {
        let statements = statements(&labels);
        let removed =
            statements.iter().map(|labels| async move { self.link.ask(|all| &all.remove, &[labels]).await });
        try_join_all(removed).await.map(drop)
    }

    async fn begin(&self, record: Blob) -> Result<(), StoreError> {
        self.link.ask(|all| &all.begin, &[&state_key(FIRST), &record.as_slice()]).await?;
        let (there, head) = (self.load(FIRST).await?, self.load(StateName::Head).await?);
        is_begun_by(&record, there.as_deref(), head.as_deref())
    }

    async fn save(&self, name: StateName, state: Blob) -> Result<(), StoreError> {
        self.link.ask(|all| &all.save, &[&state_key(name), &state.as_slice()]).await.map(drop)
    }

    async fn load(&self, name: StateName) -> Result<Option<Vec<u8>>, StoreError> {
        self.link.ask(|all| &all.load, &[&state_key(name)]).await
    }

    async fn forget(&self, until: u64) -> Result<(), StoreError> {
        let (log, checkpoints) = ([0, until].map(log_key), [0, until].map(checkpoint_key));
        let bounds = [log, checkpoints].map(|names| names.map(Vec::from));
        let [[first_log, last_log], [first_checkpoint, next_checkpoint]] = &bounds;
        let bounds: [&(dyn ToSql + Sync); 4] = [first_log, last_log, first_checkpoint, next_checkpoint];
        self.link.ask(|all| &all.forget, &bounds).await.map(drop)
    }
}
