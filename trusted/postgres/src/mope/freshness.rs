//! Whether the database is still the one that this proxy knows, where no order says so: a number in it that the proxy raises
//! while sessions write, and the proxy's own record of how far it came. A database that was restored from a backup, or failed
//! over to a replica that lagged, is behind the record, and no session begins there.

mod record;

use super::Connections;
use super::connections::failure;
use crate::error::{SqlError, sqlstate};
use arras_protocol::ChannelError;
use record::Record;
use std::io;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::time::Duration;
use tokio::sync::watch;
use tokio_postgres::Client;

/// Between two looks whether anything was written, and the mark is to be raised: what a set-back may take away unnoticed, where no order is asked.
const EVERY: Duration = Duration::from_secs(1);

/// Numbers of proxies: of one length as text, in which sessions ask by them.
const NUMBERS: Range<i64> = 1_000_000_000_000_000_000..i64::MAX;

/// Why a database is not to be used, or cannot be told from another.
#[derive(Debug, thiserror::Error)]
pub enum FreshnessError {
    /// It is behind what was acknowledged.
    #[error("{0}")]
    SetBack(#[from] SetBack),
    /// The proxy's record cannot be read or written.
    #[error("the proxy's record of the database, {}: {source}", path.display())]
    Record {
        /// Where it is.
        path: PathBuf,
        /// What is wrong with it.
        source: io::Error,
    },
    /// The database cannot be asked.
    #[error("{0}")]
    Database(#[from] ChannelError),
}

/// The database is behind what was acknowledged.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the database was set back: {}, and this proxy has seen it at {known}", match found {
    Some(found) => format!("it is at mark {found} of this proxy"),
    None => "it does not know this proxy".to_owned(),
})]
pub struct SetBack {
    /// The mark that it has; none if it does not know the proxy.
    pub found: Option<i64>,
    /// The mark that was acknowledged.
    pub known: i64,
}

impl SetBack {
    /// What a client is told.
    pub(crate) fn told(self) -> SqlError {
        SqlError::new(sqlstate::DATA_CORRUPTED, self.to_string()).hint(
            "Restore what is newer. To go on with what is there, stop the proxy and remove its record, the folder of heads.",
        )
    }
}

/// A proxy's mark in a database.
pub struct Freshness {
    path: PathBuf,
    proxy: i64,
    /// The last mark that the database acknowledged, as the record has it.
    acknowledged: AtomicI64,
    /// Sessions may have written since it was raised last.
    written: AtomicBool,
    /// The last raise's own transaction, if no other was under way beside it; else 0. Nothing was written since if the next one is still to
    /// come.
    alone: AtomicI64,
    /// What the last raise found wrong.
    set_back: watch::Sender<Option<SetBack>>,
}

impl std::fmt::Debug for Freshness {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.debug_struct("Freshness").field("path", &self.path).finish_non_exhaustive()
    }
}

/// What a session asks, and doctor.
fn question(proxy: i64) -> String {
    format!("SELECT arras.mark_of({proxy})")
}

/// Compares what a database answered with a mark that was acknowledged before it was asked.
fn compare(found: Option<i64>, known: i64) -> Result<i64, SetBack> {
    found.filter(|found| *found >= known).ok_or(SetBack { found, known })
}

impl Freshness {
    /// Compares the database with the record in `folder`; makes both where this proxy was never here. `client` is of the role
    /// that owns the schema `arras`, which is installed.
    ///
    /// # Errors
    /// [`FreshnessError`].
    pub async fn open(client: &Client, folder: &Path) -> Result<Self, FreshnessError> {
        let path = record::path(folder);
        let unreadable = |source| FreshnessError::Record { path: path.clone(), source };
        let record = match Record::load(&path).map_err(unreadable)? {
            Some(record) => {
                compare(found(client, record.proxy).await?, record.raised)?;
                record
            }
            None => {
                let record = Record { proxy: rand::random_range(NUMBERS), raised: 0 };
                let statement = "INSERT INTO arras.mark VALUES ($1, $2)";
                let entered = client.execute(statement, &[&record.proxy, &record.raised]).await;
                entered.map_err(|error| failure(&error))?;
                record.save(&path).map_err(unreadable)?;
                record
            }
        };
        let (proxy, acknowledged) = (record.proxy, AtomicI64::new(record.raised));
        // Whether something was written before this process began is not known.
        let (written, alone) = (AtomicBool::new(true), AtomicI64::new(0));
        let set_back = watch::Sender::new(None);
        Ok(Self { path, proxy, acknowledged, written, alone, set_back })
    }

    /// Compares the database with the record in `folder` and changes neither; the mark, none if this proxy was never here.
    ///
    /// # Errors
    /// [`FreshnessError`].
    pub async fn examine(client: &Client, folder: &Path) -> Result<Option<i64>, FreshnessError> {
        let path = record::path(folder);
        let record = Record::load(&path).map_err(|source| FreshnessError::Record { path, source })?;
        let Some(record) = record else { return Ok(None) };
        Ok(Some(compare(found(client, record.proxy).await?, record.raised)?))
    }

    /// A session's statement came to an end that may have changed something.
    pub(crate) fn wrote(&self) {
        // Most have been told before: the cache line is left where it is.
        if !self.written.load(Ordering::Relaxed) {
            self.written.store(true, Ordering::Relaxed);
        }
    }

    /// Ends when the database is found to have been set back: at once if it is now.
    pub(crate) async fn set_back(&self) -> SqlError {
        let mut found = self.set_back.subscribe();
        loop {
            if let Some(set_back) = *found.borrow_and_update() {
                return set_back.told();
            }
            // The sender is this one's.
            let _ = found.changed().await;
        }
    }

    /// What a session is to ask the database, and how the answer, the text of a number, is judged.
    pub(crate) fn question(&self) -> Question {
        Question { statement: question(self.proxy), known: self.acknowledged.load(Ordering::SeqCst) }
    }

    /// Raises the mark while sessions write, for as long as the process runs.
    pub async fn keep(self: Arc<Self>, connections: Arc<Connections>) {
        let mut standing: Option<Client> = None;
        let mut is_told = false;
        loop {
            tokio::time::sleep(EVERY).await;
            if !self.written.swap(false, Ordering::Relaxed) {
                continue;
            }
            let client = match standing.take().filter(|client| !client.is_closed()) {
                Some(client) => Ok(client),
                None => connections.open().await.map_err(FreshnessError::from),
            };
            let raised = match client {
                Ok(client) => {
                    let raised = connections.within(async { Ok(self.raise(&client).await) }).await;
                    // One that does not answer in time is given up.
                    standing = raised.is_ok().then_some(client);
                    raised.unwrap_or_else(|error| Err(error.into()))
                }
                Err(error) => Err(error),
            };
            let failed = raised.err();
            // Every session ends: what it read before and what it would read now are of two histories.
            self.set_back.send_replace(match &failed {
                Some(FreshnessError::SetBack(set_back)) => Some(*set_back),
                Some(_) => *self.set_back.borrow(),
                None => None,
            });
            let was_told = std::mem::replace(&mut is_told, failed.is_some());
            if failed.is_some() {
                self.wrote();
            }
            if let Some(error) = failed.filter(|_| !was_told) {
                tracing::warn!(%error, "the proxy's mark in the database could not be raised; tried again");
            }
        }
    }

    async fn raise(&self, client: &Client) -> Result<(), FreshnessError> {
        let alone = self.alone.load(Ordering::Relaxed);
        if alone > 0 && snapshot(client).await? == ended_before(alone + 1) {
            return Ok(());
        }
        let known = self.acknowledged.load(Ordering::SeqCst);
        // A database that was set back must not catch up by being raised.
        let statement = "UPDATE arras.mark SET raised = raised + 1 WHERE proxy = $1 AND raised >= $2 \
                         RETURNING raised, pg_catalog.pg_current_xact_id()::pg_catalog.text::pg_catalog.int8, \
                         pg_catalog.pg_current_snapshot()::pg_catalog.text";
        let raised =
            client.query_opt(statement, &[&self.proxy, &known]).await.map_err(|error| failure(&error))?;
        let Some(row) = raised else {
            return Err(SetBack { found: found(client, self.proxy).await?, known }.into());
        };
        let malformed = |error: tokio_postgres::Error| ChannelError::Malformed(error.to_string());
        let raised = row.try_get(0).map_err(malformed)?;
        let (transaction, seen): (i64, String) =
            (row.try_get(1).map_err(malformed)?, row.try_get(2).map_err(malformed)?);
        let record = Record { proxy: self.proxy, raised };
        let saved = record.save(&self.path);
        saved.map_err(|source| FreshnessError::Record { path: self.path.clone(), source })?;
        self.acknowledged.store(raised, Ordering::SeqCst);
        let alone = if seen == ended_before(transaction) { transaction } else { 0 };
        self.alone.store(alone, Ordering::Relaxed);
        Ok(())
    }
}

/// What a session asks before it begins.
pub(crate) struct Question {
    /// A statement of one row with one value.
    pub(crate) statement: String,
    known: i64,
}

impl Question {
    /// Judges the value, as text.
    pub(crate) fn judge(&self, answer: Option<&str>) -> Result<(), SetBack> {
        compare(answer.and_then(|answer| answer.parse().ok()), self.known).map(|_| ())
    }
}

/// Which transactions of the database that write are at their end, which are not, and the next one.
async fn snapshot(client: &Client) -> Result<String, ChannelError> {
    let row = client.query_one("SELECT pg_catalog.pg_current_snapshot()::pg_catalog.text", &[]).await;
    let row = row.map_err(|error| failure(&error))?;
    row.try_get(0).map_err(|error| ChannelError::Malformed(error.to_string()))
}

/// A snapshot in which all transactions before one are at their end, and none has begun since.
fn ended_before(transaction: i64) -> String {
    format!("{transaction}:{transaction}:")
}

async fn found(client: &Client, proxy: i64) -> Result<Option<i64>, ChannelError> {
    let row = client.query_one(&question(proxy), &[]).await.map_err(|error| failure(&error))?;
    row.try_get(0).map_err(|error| ChannelError::Malformed(error.to_string()))
}
