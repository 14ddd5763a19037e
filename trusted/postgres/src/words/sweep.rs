//! Entries that no row has, and none will have.
//!
//! A name of the store may be in a row that another transaction sees, or is about to store. So (1) the names are read; (2) two
//! epochs begin, one after the other, behind which no statement that begins stores any of them for the first time; (3) what was
//! under way then ends; (4) those that no row has now are picked out; (5) what was under way then ends, which may see a row that has
//! gone, or have copied it; (6) those that still no row has are removed.

use super::ColumnWords;
use super::tables::refused;
use crate::text::quoted;
use arras_service::ServiceError;
use arras_service::words::{TextName, WordsError};
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};
use tokio_postgres::Client;

/// Names that are looked for at a time.
const LOOKED_FOR: usize = 4_096;

/// Transactions that are under way in this database, but for the one that asks; and which of some still are.
const UNDER_WAY: [&str; 2] = [
    "SELECT ARRAY(SELECT l.virtualxid::pg_catalog.text FROM pg_catalog.pg_locks l \
     JOIN pg_catalog.pg_stat_activity a ON a.pid = l.pid WHERE l.locktype = 'virtualxid' AND l.granted \
     AND a.datname = pg_catalog.current_database() AND l.pid <> pg_catalog.pg_backend_pid())",
    "SELECT EXISTS (SELECT FROM pg_catalog.pg_locks l WHERE l.locktype = 'virtualxid' \
     AND l.virtualxid::pg_catalog.text = ANY ($1))",
];

/// The same of transactions that are prepared to be committed: what was under way may have become one.
const PREPARED: [&str; 2] = [
    "SELECT ARRAY(SELECT p.transaction::pg_catalog.text FROM pg_catalog.pg_prepared_xacts p \
     WHERE p.database = pg_catalog.current_database())",
    "SELECT EXISTS (SELECT FROM pg_catalog.pg_prepared_xacts p WHERE p.transaction::pg_catalog.text = ANY ($1))",
];

/// For how long a sweep waits.
#[derive(Clone, Copy, Debug)]
pub struct Pauses {
    /// Between the two epochs: for so long a name is good at least.
    pub epochs: Duration,
    /// Between two looks whether transactions have ended.
    pub look: Duration,
    /// For transactions to end: behind it the sweep is given up.
    pub patience: Duration,
}

impl Default for Pauses {
    fn default() -> Self {
        Self {
            epochs: Duration::from_secs(5),
            look: Duration::from_millis(500),
            patience: Duration::from_secs(600),
        }
    }
}

/// What a sweep came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Swept {
    /// So many names were removed, and so many are left.
    Removed(u64, u64),
    /// The table is not there.
    NoTable,
    /// Transactions did not end.
    Waiting,
}

impl ColumnWords {
    /// Removes what is kept of names that no row has.
    ///
    /// # Errors
    /// The store or the database cannot be asked, or the proxy's role may not read the table.
    pub async fn sweep(&self, pauses: Pauses) -> Result<Swept, WordsError> {
        let client = self.tables.open().await?;
        if !self.is_there(&client).await? {
            return Ok(Swept::NoTable);
        }
        let entered = self.entered.load(Ordering::Relaxed);
        let all = self.store.all().await?;
        let count = u64::try_from(all.len()).unwrap_or(u64::MAX);
        for pause in [pauses.epochs, Duration::ZERO] {
            let begun = client
                .execute("UPDATE arras.text_column SET epoch = epoch + 1 WHERE id = $1", &[&self.number()])
                .await;
            begun.map_err(|error| refused(&error))?;
            tokio::time::sleep(pause).await;
        }
        let mut unused = all;
        for _ in 0..2 {
            if !ended(&client, pauses).await? {
                return Ok(Swept::Waiting);
            }
            unused = self.without_rows(&client, unused).await?;
        }
        let removed = u64::try_from(unused.len()).unwrap_or(u64::MAX);
        if !unused.is_empty() {
            self.store.retire(unused).await?;
        }
        self.left.store(count.saturating_sub(removed), Ordering::Relaxed);
        self.entered.fetch_sub(entered, Ordering::Relaxed);
        Ok(Swept::Removed(removed, count.saturating_sub(removed)))
    }

    /// Is there a table that has the column and its names? The proxy touches no other than one of who has its rights.
    pub(super) async fn is_there(&self, client: &Client) -> Result<bool, ServiceError> {
        let statement = "SELECT count(*) = 2 FROM pg_catalog.pg_class r JOIN pg_catalog.pg_namespace n ON n.oid = r.relnamespace \
                         JOIN pg_catalog.pg_attribute a ON a.attrelid = r.oid WHERE n.nspname = $1 AND r.relname = $2 \
                         AND r.relkind IN ('r', 'p') AND a.atttypid = 17 AND NOT a.attisdropped AND a.attname = ANY ($3::pg_catalog.text[])";
        let names = [self.place.column.clone(), self.name_column()];
        let asked = client.query_one(statement, &[&self.place.schema, &self.place.table, &&names[..]]).await;
        asked.and_then(|row| row.try_get(0)).map_err(|error| refused(&error))
    }

    /// The name of the column of names.
    pub(super) fn name_column(&self) -> String {
        format!("{}{}", self.place.column, crate::catalog::TEXT_SUFFIX)
    }

    /// The table as SQL has it.
    pub(super) fn relation(&self) -> String {
        format!("{}.{}", quoted(&self.place.schema), quoted(&self.place.table))
    }

    /// Those of the names that no row has, of the table or of another that has such a column: it may have been the table's rows, under
    /// another name or as a part.
    async fn without_rows(
        &self,
        client: &Client,
        names: Vec<TextName>,
    ) -> Result<Vec<TextName>, ServiceError> {
        let statement = "SELECT pg_catalog.format('%I.%I', n.nspname, r.relname) FROM pg_catalog.pg_class r \
                         JOIN pg_catalog.pg_namespace n ON n.oid = r.relnamespace \
                         JOIN pg_catalog.pg_attribute a ON a.attrelid = r.oid WHERE r.relkind = 'r' AND r.relpersistence <> 't' \
                         AND a.atttypid = 17 AND NOT a.attisdropped AND a.attname = $1";
        let rows = client.query(statement, &[&self.name_column()]).await.map_err(|error| refused(&error))?;
        let mut unused = names;
        for row in rows {
            let relation: String = row.try_get(0).map_err(|error| refused(&error))?;
            unused = self.not_in(client, &relation, unused).await?;
        }
        Ok(unused)
    }

    /// Those of the names that no row of a table has.
    async fn not_in(
        &self,
        client: &Client,
        relation: &str,
        names: Vec<TextName>,
    ) -> Result<Vec<TextName>, ServiceError> {
        let statement = format!(
            "SELECT n.name FROM pg_catalog.unnest($1::pg_catalog.bytea[]) AS n (name) \
             WHERE NOT EXISTS (SELECT FROM {relation} AS t WHERE t.{} = n.name)",
            quoted(&self.name_column())
        );
        let mut unused = Vec::new();
        for names in names.chunks(LOOKED_FOR) {
            let names: Vec<&[u8]> = names.iter().map(<[u8; 16]>::as_slice).collect();
            client.batch_execute(&reading(relation)).await.map_err(|error| refused(&error))?;
            let rows = client.query(&statement, &[&names]).await.map_err(|error| refused(&error))?;
            client.batch_execute("COMMIT").await.map_err(|error| refused(&error))?;
            for row in rows {
                let name: &[u8] = row.try_get(0).map_err(|error| refused(&error))?;
                unused.extend(TextName::try_from(name));
            }
        }
        Ok(unused)
    }
}

/// Begins a transaction that reads a table, all rows of it or none.
pub(super) fn reading(relation: &str) -> String {
    format!(
        "BEGIN; SET LOCAL row_security = off; SET LOCAL lock_timeout = '10s'; \
         SELECT arras.trusted_table('{}'::pg_catalog.regclass, 'ACCESS SHARE')",
        relation.replace('\'', "''")
    )
}

/// Waits until all transactions have ended that are under way; false if they do not.
async fn ended(client: &Client, pauses: Pauses) -> Result<bool, ServiceError> {
    let begun = Instant::now();
    for [listed, still] in [UNDER_WAY, PREPARED] {
        let asked = client.query_one(listed, &[]).await;
        let list: Vec<String> = asked.and_then(|row| row.try_get(0)).map_err(|error| refused(&error))?;
        loop {
            let asked = client.query_one(still, &[&list]).await;
            if !asked.and_then(|row| row.try_get::<_, bool>(0)).map_err(|error| refused(&error))? {
                break;
            }
            if begun.elapsed() >= pauses.patience {
                return Ok(false);
            }
            tokio::time::sleep(pauses.look).await;
        }
    }
    Ok(true)
}
