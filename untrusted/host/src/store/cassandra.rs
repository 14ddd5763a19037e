//! In Cassandra, or `ScyllaDB`: one node, or a ring.
//!
//! Labels are pseudo-random, and a batch has thousands: a row of its own partition each would be a request each. They lie in a
//! fixed number of partitions, by a byte of theirs, so that a batch is some dozens of requests of a hundred rows and more.

use super::{
    CHECKPOINT, FIRST, HEAD, LOG, Store, StoreError, checkpoint_key, is_begun_by, log_key, state_key,
};
use arras_protocol::Blob;
use arras_protocol::iee::{ENTRY_BYTES, LABEL_BYTES, SEALED_BYTES, StateName};
use futures_util::stream::{self, StreamExt, TryStreamExt};
use scylla::client::session::Session;
use scylla::client::session_builder::SessionBuilder;
use scylla::errors::{DbError, ExecutionError, RequestAttemptError};
use scylla::policies::timestamp_generator::TimestampGenerator;
use scylla::statement::Consistency;
use scylla::statement::batch::{Batch, BatchType};
use scylla::statement::prepared::PreparedStatement;
use std::collections::{BTreeMap, HashMap};
use std::fmt::Display;
use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Requests under way at a time for one batch.
const REQUESTS: usize = 64;

/// How many partitions the entries lie in: with more, requests have fewer rows and the server works more for each; with fewer,
/// each grows beyond what Cassandra wants of one (100 MB) the sooner. These hold 100 million entries.
const PARTITIONS: u8 = 64;

/// Rows of one request, of 48 bytes: far below the 16 MiB that a change of one partition may have.
const REQUEST_ROWS: usize = 512;

/// For how long a request is sent again that too few nodes answer in time: a ring that does much else answers late, and it takes
/// some seconds until it knows of a node that it is lost.
const PATIENCE: Duration = Duration::from_secs(60);

/// Which servers, and how many of them keep each entry.
#[derive(Clone, Debug)]
pub struct Ring {
    /// Some of the nodes, `HOST:PORT`.
    pub nodes: Vec<String>,
    /// The keyspace, which is made if it is not there.
    pub keyspace: String,
    /// How many nodes keep each entry. Reads and writes ask a majority of them.
    pub replicas: u8,
}

/// Entries and state in a keyspace of Cassandra.
pub struct CassandraStore {
    session: Session,
    get: PreparedStatement,
    put: PreparedStatement,
    remove: PreparedStatement,
    begin: PreparedStatement,
    save: PreparedStatement,
    load: PreparedStatement,
    forget: [PreparedStatement; 2],
}

fn failed(error: impl Display) -> StoreError {
    StoreError::Failed(format!("Cassandra: {error}"))
}

fn away(error: impl Display) -> StoreError {
    StoreError::Away(format!("Cassandra: {error}"))
}

/// Microseconds in which entries are written behind the record of the update that they are of.
const MARGIN: i64 = 60_000_000;

/// Which of two changes of one row is the later one says this clock, not those of the nodes that happen to take them. It
/// never goes back: not behind what an earlier host has written, either, whose clock was ahead.
#[derive(Default)]
struct Clock(AtomicI64);

impl Clock {
    /// Microseconds, of which each call has its own.
    fn next(&self, now: i64) -> i64 {
        let later = |last: i64| Some(now.max(last.saturating_add(1)));
        let last = self.0.fetch_update(Ordering::SeqCst, Ordering::SeqCst, later);
        last.ok().and_then(later).unwrap_or(now)
    }

    /// Goes on behind the times at which the newest state was written.
    async fn go_on_behind(&self, session: &Session, keyspace: &str) -> Result<(), StoreError> {
        let text = format!(
            "SELECT WRITETIME(sealed) FROM {keyspace}.iee_state WHERE kind = ? ORDER BY name DESC LIMIT 1"
        );
        let mut newest = session.prepare(text).await.map_err(failed)?;
        newest.set_consistency(Consistency::Quorum);
        newest.set_is_idempotent(true);
        for kind in [HEAD, LOG, CHECKPOINT] {
            let kind = i8::try_from(kind).unwrap_or_default();
            let found = patiently(|| session.execute_unpaged(&newest, (kind,))).await?;
            let found = found.into_rows_result().map_err(failed)?;
            if let Some((written,)) = found.maybe_first_row::<(i64,)>().map_err(failed)? {
                self.pass(written, microseconds());
            }
        }
        Ok(())
    }

    /// Goes on behind a time. If that is still to come, entries may have been written a little later.
    fn pass(&self, written: i64, now: i64) {
        let margin = if written < now { 0 } else { MARGIN };
        self.0.fetch_max(written.saturating_add(margin), Ordering::SeqCst);
    }
}

/// Now, since 1970.
fn microseconds() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_micros()).unwrap_or(i64::MAX)
}

impl TimestampGenerator for Clock {
    fn next_timestamp(&self) -> i64 {
        self.next(microseconds())
    }
}

/// Whether the same request may succeed a little later.
fn is_passing(error: &ExecutionError) -> bool {
    match error {
        ExecutionError::ConnectionPoolError(_) | ExecutionError::RequestTimeout(_) => true,
        ExecutionError::LastAttemptError(RequestAttemptError::DbError(error, _)) => matches!(
            error,
            DbError::Unavailable { .. }
                | DbError::Overloaded
                | DbError::IsBootstrapping
                | DbError::ReadTimeout { .. }
                | DbError::WriteTimeout { .. }
                | DbError::ReadFailure { .. }
                | DbError::WriteFailure { .. }
        ),
        ExecutionError::LastAttemptError(
            RequestAttemptError::BrokenConnectionError(_) | RequestAttemptError::UnableToAllocStreamId,
        ) => true,
        _ => false,
    }
}

/// See [`super::patience`].
async fn patiently<T, R>(request: impl Fn() -> R) -> Result<T, StoreError>
where
    R: Future<Output = Result<T, ExecutionError>>,
{
    super::patience::patiently(PATIENCE, is_passing, request).await.map_err(failed)
}

impl CassandraStore {
    /// Connects, and makes keyspace and tables where they are not there.
    ///
    /// # Errors
    /// [`StoreError`] if no node answers, or the keyspace's name is not one.
    pub async fn connect(ring: &Ring) -> Result<Self, StoreError> {
        let Ring { nodes, keyspace, replicas } = ring;
        let letters = |name: &str| name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
        if keyspace.is_empty() || keyspace.len() > 48 || !letters(keyspace) {
            return Err(failed(format!(
                "{keyspace:?} is no name of a keyspace: letters, digits and _, at most 48"
            )));
        }
        let clock = Arc::new(Clock::default());
        let session = SessionBuilder::new()
            .known_nodes(nodes)
            .timestamp_generator(Arc::clone(&clock) as _)
            .build()
            .await;
        let session = session.map_err(away)?;
        let tables = [
            format!(
                "CREATE KEYSPACE IF NOT EXISTS {keyspace} WITH replication = \
                 {{'class': 'SimpleStrategy', 'replication_factor': {replicas}}}"
            ),
            // Neither labels nor sealed entries can be compressed.
            format!(
                "CREATE TABLE IF NOT EXISTS {keyspace}.iee_entries (part tinyint, label blob, sealed blob, \
                 PRIMARY KEY (part, label)) WITH compression = {{'enabled': false}}"
            ),
            format!(
                "CREATE TABLE IF NOT EXISTS {keyspace}.iee_state (kind tinyint, name blob, sealed blob, \
                 PRIMARY KEY (kind, name)) WITH compression = {{'enabled': false}}"
            ),
        ];
        for statement in tables {
            session.query_unpaged(statement, &[]).await.map_err(failed)?;
            session.await_schema_agreement().await.map_err(failed)?;
        }
        clock.go_on_behind(&session, keyspace).await?;
        let prepare = async |text: String| {
            let mut prepared = session.prepare(text).await.map_err(failed)?;
            prepared.set_consistency(Consistency::Quorum);
            prepared.set_is_idempotent(true);
            Ok::<_, StoreError>(prepared)
        };
        Ok(Self {
            get: prepare(format!(
                "SELECT label, sealed FROM {keyspace}.iee_entries WHERE part = ? AND label IN ?"
            ))
            .await?,
            put: prepare(format!(
                "INSERT INTO {keyspace}.iee_entries (part, label, sealed) VALUES (?, ?, ?)"
            ))
            .await?,
            remove: prepare(format!("DELETE FROM {keyspace}.iee_entries WHERE part = ? AND label IN ?"))
                .await?,
            begin: prepare(format!(
                "INSERT INTO {keyspace}.iee_state (kind, name, sealed) VALUES (?, ?, ?) IF NOT EXISTS"
            ))
            .await?,
            save: prepare(format!("INSERT INTO {keyspace}.iee_state (kind, name, sealed) VALUES (?, ?, ?)"))
                .await?,
            load: prepare(format!("SELECT sealed FROM {keyspace}.iee_state WHERE kind = ? AND name = ?"))
                .await?,
            forget: [
                prepare(format!("DELETE FROM {keyspace}.iee_state WHERE kind = ? AND name <= ?")).await?,
                prepare(format!("DELETE FROM {keyspace}.iee_state WHERE kind = ? AND name < ?")).await?,
            ],
            session,
        })
    }

    /// Labels of one partition that are there, with their entries.
    async fn get_part(
        &self,
        part: i8,
        labels: Vec<&[u8; LABEL_BYTES]>,
    ) -> Result<Vec<(Vec<u8>, Vec<u8>)>, StoreError> {
        let get = || self.session.execute_unpaged(&self.get, (part, slices(&labels)));
        let found = patiently(get).await?;
        let rows = found.into_rows_result().map_err(failed)?;
        let rows = rows.rows::<(Vec<u8>, Vec<u8>)>().map_err(failed)?;
        rows.collect::<Result<Vec<_>, _>>().map_err(failed)
    }

    /// Removes what belongs to one partition.
    async fn remove_part(&self, part: i8, labels: Vec<&[u8; LABEL_BYTES]>) -> Result<(), StoreError> {
        let remove = || self.session.execute_unpaged(&self.remove, (part, slices(&labels)));
        patiently(remove).await.map(drop)
    }

    /// Writes what belongs to one partition.
    async fn put_part(&self, part: i8, entries: Vec<&[u8; ENTRY_BYTES]>) -> Result<(), StoreError> {
        // Of one partition: it is one change there, without a log of the batch.
        let mut batch = Batch::new(BatchType::Unlogged);
        batch.set_consistency(Consistency::Quorum);
        batch.set_is_idempotent(true);
        let mut values = Vec::with_capacity(entries.len());
        for entry in entries {
            batch.append_statement(self.put.clone());
            let (label, sealed) = entry.split_at(LABEL_BYTES);
            values.push((part, label, sealed));
        }
        patiently(|| self.session.batch(&batch, &values)).await.map(drop)
    }
}

/// The partition of a label.
fn part(label: &[u8; LABEL_BYTES]) -> i8 {
    i8::try_from(label[LABEL_BYTES - 1] % PARTITIONS).unwrap_or_default()
}

/// Labels, or entries, by the partitions of their labels, those of one request together.
fn parted<const BYTES: usize>(rows: &[[u8; BYTES]]) -> Vec<(i8, Vec<&[u8; BYTES]>)> {
    let mut parts: BTreeMap<i8, Vec<&[u8; BYTES]>> = BTreeMap::new();
    for row in rows {
        if let Some(label) = row.first_chunk() {
            parts.entry(part(label)).or_default().push(row);
        }
    }
    let requests = |(part, rows): (i8, Vec<_>)| {
        rows.chunks(REQUEST_ROWS).map(|rows| (part, rows.to_vec())).collect::<Vec<_>>()
    };
    parts.into_iter().flat_map(requests).collect()
}

/// Labels as the driver takes them.
fn slices<'l>(labels: &[&'l [u8; LABEL_BYTES]]) -> Vec<&'l [u8]> {
    labels.iter().map(|label| &label[..]).collect()
}

/// The kind of a piece of state, and what names it among its kind.
fn named(key: &[u8]) -> (i8, &[u8]) {
    let (kind, name) = key.split_first().unwrap_or((&0, &[]));
    (i8::try_from(*kind).unwrap_or_default(), name)
}

impl Store for CassandraStore {
    async fn get(&self, labels: Blob) -> Result<Vec<u8>, StoreError> {
        let (labels, _) = labels.as_slice().as_chunks();
        let asked: Vec<_> =
            parted(labels).into_iter().map(|(part, labels)| self.get_part(part, labels)).collect();
        let found: Vec<Vec<_>> = stream::iter(asked).buffer_unordered(REQUESTS).try_collect().await?;
        let found: HashMap<Vec<u8>, Vec<u8>> = found.into_iter().flatten().collect();
        let mut entries = Vec::with_capacity(labels.len() * SEALED_BYTES);
        for label in labels {
            let sealed = found.get(&label[..]).filter(|sealed| sealed.len() == SEALED_BYTES);
            entries.extend_from_slice(sealed.map_or(&[0; SEALED_BYTES], Vec::as_slice));
        }
        Ok(entries)
    }

    async fn put(&self, entries: Blob) -> Result<(), StoreError> {
        let (entries, _) = entries.as_slice().as_chunks();
        let put: Vec<_> =
            parted(entries).into_iter().map(|(part, entries)| self.put_part(part, entries)).collect();
        stream::iter(put).buffer_unordered(REQUESTS).try_collect().await
    }

    async fn remove(&self, labels: Blob) -> Result<(), StoreError> {
        let (labels, _) = labels.as_slice().as_chunks();
        let removed: Vec<_> =
            parted(labels).into_iter().map(|(part, labels)| self.remove_part(part, labels)).collect();
        stream::iter(removed).buffer_unordered(REQUESTS).try_collect().await
    }

    async fn begin(&self, record: Blob) -> Result<(), StoreError> {
        let key = state_key(FIRST);
        let (kind, name) = named(&key);
        patiently(|| self.session.execute_unpaged(&self.begin, (kind, name, record.as_slice()))).await?;
        let (there, head) = (self.load(FIRST).await?, self.load(StateName::Head).await?);
        is_begun_by(&record, there.as_deref(), head.as_deref())
    }

    async fn save(&self, name: StateName, state: Blob) -> Result<(), StoreError> {
        let key = state_key(name);
        let (kind, name) = named(&key);
        let save = || self.session.execute_unpaged(&self.save, (kind, name, state.as_slice()));
        patiently(save).await.map(drop)
    }

    async fn load(&self, name: StateName) -> Result<Option<Vec<u8>>, StoreError> {
        let key = state_key(name);
        let found = patiently(|| self.session.execute_unpaged(&self.load, named(&key))).await?;
        let found = found.into_rows_result().map_err(failed)?;
        Ok(found.maybe_first_row::<(Vec<u8>,)>().map_err(failed)?.map(|(state,)| state))
    }

    async fn forget(&self, until: u64) -> Result<(), StoreError> {
        for (statement, last) in self.forget.iter().zip([log_key(until), checkpoint_key(until)]) {
            patiently(|| self.session.execute_unpaged(statement, named(&last))).await?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::{Clock, MARGIN};

    #[test]
    fn the_clock_goes_on_behind_what_was_written() {
        let clock = Clock::default();
        assert_eq!([5, 9, 3, 9, 20].map(|now| clock.next(now)), [5, 9, 10, 11, 20]);
        clock.pass(30, 40);
        assert_eq!(clock.next(25), 31);
        // The last host's clock was ahead.
        clock.pass(50, 40);
        assert_eq!(clock.next(41), 51 + MARGIN);
    }
}
