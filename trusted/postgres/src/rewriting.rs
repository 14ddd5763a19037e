//! What sessions share that rewrite statements: the schema, the keys of its columns, and how much memory they may hold.

mod catalogs;
mod changes;
mod parts;
mod restored;
mod unset;
mod watched;
mod zones;

use crate::catalog::Catalog;
use crate::checks::{self, Patience};
use crate::error::SqlError;
use crate::room::{KeptRoom, MessageRoom, Room, Share};
use crate::schema::Schema;
use crate::{Connections, Freshness};
use arras_service::columns::Columns;
use catalogs::Catalogs;
use changes::Changes;
use parts::parts;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};
use tokio::time::timeout;
use unset::Unset;
pub(crate) use zones::Zones;

/// Longest message that is held whole, to be changed, in bytes.
pub(crate) const MESSAGE_BYTES_MAX: usize = 64 * 1024 * 1024;
/// Bytes that a part of a statement takes while the statement is read: tokens, syntax and what is made of them. Measured: 570 to 670.
const PART_BYTES: usize = 768;
/// A statement of so many parts is not worth counting.
const UNCOUNTED_PARTS: usize = 4096;
/// Bytes that there are at least for statements that are read.
const READING_BYTES_MIN: usize = 128 * 1024 * 1024;
/// Bytes that there are at least for what is kept.
const KEPT_BYTES_MIN: usize = 64 * 1024 * 1024;

/// A session waits so long for columns of which nothing is kept.
const CHECKED: Patience = Patience { lock: Duration::from_millis(100), look: Duration::from_secs(1) };
/// And so long for all of them.
const CHECKED_ALL: Duration = Duration::from_secs(10);
/// For so long what cannot be read is not tried again.
const UNREAD: Duration = Duration::from_secs(60);

/// What sessions share that rewrite statements.
pub struct Rewriting {
    schema: Arc<Schema>,
    pub(crate) columns: Arc<dyn Columns>,
    /// Of messages that come from clients, until what is made of them is with the database.
    pub(crate) requests: MessageRoom,
    /// Of messages that come from the database, until what is made of them is with the client.
    pub(crate) replies: MessageRoom,
    /// Of prepared statements and portals.
    pub(crate) kept: KeptRoom,
    /// Of statements that are being read. Who waits for it holds a message, and who has it waits for nothing.
    reading: Room,
    /// What sessions know of the tables.
    pub(crate) catalogs: Catalogs,
    /// Tables were made or changed so many times.
    changes: AtomicU64,
    /// Which of them.
    pub(crate) tables: Changes,
    /// Of which tables labels could not be set anew, and why.
    unset: Unset,
    freshness: Option<Arc<Freshness>>,
    /// Time zones whose rules were compared with the server's.
    pub(crate) zones: Zones,
    /// By which checks of columns are kept that have none.
    checking: Option<Checking>,
}

/// How checks of columns are kept that have none.
struct Checking {
    connections: Arc<Connections>,
    /// Columns whose values could not be read lately, and when.
    unread: Mutex<Option<(Instant, Vec<[String; 3]>)>>,
}

impl Rewriting {
    /// Rewrites statements on the columns that `schema` declares. Of so many bytes, statements that are being read may hold
    /// seven sixteenths, what is kept a quarter, requests and replies the rest; each as much as it must have at least.
    #[must_use]
    pub fn new(schema: Arc<Schema>, columns: Arc<dyn Columns>, memory_bytes: usize) -> Self {
        let part = memory_bytes / 32;
        Self {
            schema,
            columns,
            requests: MessageRoom::new(5 * part, MESSAGE_BYTES_MAX).with_middle(),
            replies: MessageRoom::new(5 * part, MESSAGE_BYTES_MAX),
            kept: KeptRoom::new((8 * part).max(KEPT_BYTES_MIN)),
            reading: Room::new((14 * part).max(READING_BYTES_MIN)),
            catalogs: Catalogs::default(),
            changes: AtomicU64::new(0),
            tables: Changes::default(),
            unset: Unset::default(),
            freshness: None,
            zones: Zones::default(),
            checking: None,
        }
    }

    /// Has each session compare the database with what was acknowledged before it begins.
    #[must_use]
    pub fn watched(self, freshness: Arc<Freshness>) -> Self {
        Self { freshness: Some(freshness), ..self }
    }

    /// Has checks kept of columns that have none, over connections of the proxy's own.
    #[must_use]
    pub fn checked(self, connections: Arc<Connections>) -> Self {
        Self { checking: Some(Checking { connections, unread: Mutex::default() }), ..self }
    }

    /// Looks at columns of which a session finds nothing kept: tables that are of other keys. What cannot be read, as its table is being
    /// made or changed, is looked at again.
    pub(crate) async fn enter_checks(&self, missing: Vec<[String; 3]>) -> Vec<checks::Misfit> {
        let Some(Checking { connections, unread }) = &self.checking else { return Vec::new() };
        let is_known = |known: &Option<(Instant, Vec<[String; 3]>)>| {
            let lately = known.as_ref().filter(|(since, _)| since.elapsed() < UNREAD);
            lately.is_some_and(|(_, known)| missing.iter().all(|one| known.contains(one)))
        };
        if is_known(&unread.lock().unwrap_or_else(PoisonError::into_inner)) {
            return Vec::new();
        }
        let looked = checks::enter(connections, &self.schema, &*self.columns, CHECKED);
        match timeout(CHECKED_ALL, looked).await {
            Ok(Ok(looked)) => {
                if !looked.unread.is_empty() {
                    let columns = looked.unread.join(", ");
                    tracing::warn!(%columns, "under which keys columns were made is not known: their values cannot be read");
                    *unread.lock().unwrap_or_else(PoisonError::into_inner) = Some((Instant::now(), missing));
                }
                looked.misfits
            }
            Ok(Err(error)) => {
                tracing::warn!(%error, "under which keys columns were made could not be looked at; tried again");
                Vec::new()
            }
            Err(_) => {
                tracing::warn!(
                    "under which keys columns were made could not be looked at in time; tried again"
                );
                *unread.lock().unwrap_or_else(PoisonError::into_inner) = Some((Instant::now(), missing));
                Vec::new()
            }
        }
    }

    /// What says whether the database was set back.
    pub(crate) fn freshness(&self) -> Option<&Freshness> {
        self.freshness.as_deref()
    }

    /// Whether reading a text may need room that is counted: no text has more parts than bytes.
    pub(crate) fn may_count(text: &str) -> bool {
        text.len() > UNCOUNTED_PARTS
    }

    /// Waits for room to read a statement in; `None` if it is too small to count. 54000 if it needs more than there ever is, 53200 if
    /// there is none for too long.
    pub(crate) async fn read(&self, text: &str) -> Result<Option<Share>, SqlError> {
        let parts = parts(text);
        if parts <= UNCOUNTED_PARTS {
            return Ok(None);
        }
        let bytes = parts * PART_BYTES;
        if bytes > self.reading.bytes {
            let most = self.reading.bytes / PART_BYTES;
            let text = format!(
                "a statement on encrypted columns has about {parts} words, constants and signs; the proxy has memory for {most}"
            );
            return Err(SqlError::new("54000", text)
                .hint("Use COPY, or several statements, or give the proxy more memory."));
        }
        Ok(Some(self.reading.share(bytes).await?))
    }

    /// What is declared.
    pub(crate) fn schema(&self) -> &Schema {
        &self.schema
    }

    /// How many times tables were made or changed.
    pub(crate) fn changes(&self) -> u64 {
        self.changes.load(Ordering::SeqCst)
    }

    /// Why labels of tables that came past the proxy could not be set anew, by schema, table and attribute.
    pub(crate) fn not_set_anew(&self) -> BTreeMap<[String; 3], String> {
        self.unset.all()
    }

    /// Tables were made or changed: every session looks again.
    pub(crate) fn changed(&self) {
        self.changes.fetch_add(1, Ordering::SeqCst);
    }

    /// A session is about to change a declared table's columns.
    pub(crate) fn changes_begin(&self, name: &str) {
        self.tables.begin(name);
    }

    /// What a session was changing is changed, or as it was.
    pub(crate) fn changes_end(&self, names: &BTreeSet<String>) {
        self.tables.end(names, || self.changes.fetch_add(1, Ordering::SeqCst) + 1);
    }

    /// The catalogue of what the database answers to [`crate::catalog::COLUMNS`].
    pub(crate) fn catalog(&self, rows: Vec<Vec<Option<String>>>) -> Catalog {
        let row = |row: Vec<Option<String>>| {
            let texts: Option<Vec<String>> = row.into_iter().collect();
            texts.and_then(|texts| texts.try_into().ok())
        };
        let read = Catalog::read(Arc::clone(&self.schema), rows.into_iter().filter_map(row));
        read.with_defaults(|encryption, sealed| {
            crate::values::open_default(encryption, sealed, &*self.columns)
        })
    }
}
