//! Words of encrypted texts, which an enclave keeps beside the database.
//!
//! *Names.* Each value of such a column gets a random name, which is stored beside it (`c$text`), and its words are entered under the
//! name before the statement that stores it is sent. What is entered never changes, and a search asks the database for the rows of the
//! names that the enclave finds: so the statement's own snapshot says which of them it finds, and a transaction that is rolled back, a crash
//! or a deletion leaves entries that no row has, and no wrong result. Names that were entered behind the question are not among them, though
//! the statement may see their rows: it is asked before its snapshot is taken.
//!
//! *Sweeping.* Entries that no row has are removed when they may be many ([`ColumnWords::sweep`]).
//!
//! *Mending.* Where it is not known that all names of the table are entered, those that are not are, from the table
//! ([`ColumnWords::mend`]); until then searches are refused.

mod mend;
mod sweep;
mod tables;

use crate::catalog::Encryption;
use arras_service::ServiceError;
use arras_service::columns::Columns;
use arras_service::words::{Answer, FOUND_MAX, TextName, Which, WordQuery, WordStore, Words, WordsError};
pub use mend::Mended;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
pub use sweep::{Pauses, Swept};
pub use tables::{Registered, WordTables};
use tokio::sync::watch;

/// Makes what the database keeps of such columns, or makes it anew; by the owner of the schema `arras`.
pub const INSTALL: &str = include_str!("words/text.sql");

/// Names that were entered since the last sweep, of which some may have come to nothing: fewer are not worth one.
const SWEPT_MIN: u64 = 10_000;

/// How long a search waits for texts that are being entered: few are soon, as in a proxy that has just begun.
const ENTERING_MAX: Duration = Duration::from_secs(10);

/// Where a column's texts are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TextPlace {
    /// The table's schema.
    pub schema: String,
    /// The table.
    pub table: String,
    /// The column's name.
    pub column: String,
}

/// The words of one column.
pub struct ColumnWords {
    encryption: Arc<Encryption>,
    place: TextPlace,
    tables: Arc<WordTables>,
    store: Arc<dyn WordStore>,
    /// Are all names of the table known to be entered?
    is_whole: watch::Sender<bool>,
    /// Names that were entered since the last sweep.
    entered: AtomicU64,
    /// Names that the last sweep left.
    left: AtomicU64,
}

impl std::fmt::Debug for ColumnWords {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.debug_struct("ColumnWords").field("column", &self.encryption.label).finish_non_exhaustive()
    }
}

impl ColumnWords {
    /// Those of a column in its place. `is_whole`: all names of the table are known to be entered.
    #[must_use]
    pub fn new(
        (encryption, place): (Arc<Encryption>, TextPlace),
        tables: Arc<WordTables>,
        store: Arc<dyn WordStore>,
        is_whole: bool,
    ) -> Self {
        let (is_whole, entered, left) = (watch::Sender::new(is_whole), AtomicU64::new(0), AtomicU64::new(0));
        Self { encryption, place, tables, store, is_whole, entered, left }
    }

    /// The column.
    #[must_use]
    pub fn encryption(&self) -> &Encryption {
        &self.encryption
    }

    fn number(&self) -> i64 {
        i64::from_be_bytes(self.encryption.id)
    }

    /// Makes the column known to the database, with the fingerprint of its store.
    ///
    /// # Errors
    /// The database cannot be asked.
    pub async fn register(&self) -> Result<Registered, ServiceError> {
        self.tables.register(self.number(), self.store.fingerprint()).await
    }

    /// Are all names of the table known to be entered?
    #[must_use]
    pub fn is_whole(&self) -> bool {
        *self.is_whole.borrow()
    }

    /// It is not known any more.
    pub fn doubt(&self) {
        self.is_whole.send_replace(false);
    }

    /// Waits a while until all names of the table are known to be entered; are they?
    async fn entered_all(&self) -> bool {
        let mut watched = self.is_whole.subscribe();
        let entered = tokio::time::timeout(ENTERING_MAX, watched.wait_for(|is_whole| *is_whole)).await;
        matches!(entered, Ok(Ok(_)))
    }

    /// May so many entries be of no use that it is worth looking for them?
    #[must_use]
    pub fn is_to_be_swept(&self) -> bool {
        let least = SWEPT_MIN.max(self.left.load(Ordering::Relaxed) / 2);
        self.is_whole() && self.entered.load(Ordering::Relaxed) >= least
    }
}

impl Words for ColumnWords {
    fn enter(&self, texts: Vec<String>) -> Answer<'_, Vec<Vec<u8>>> {
        Box::pin(async move {
            // Before anything is entered: a sweep that knows of it has begun another epoch.
            let epoch = self.tables.epoch(self.number()).await?.to_be_bytes();
            let named: Vec<(TextName, String)> =
                texts.into_iter().map(|text| (rand::random(), text)).collect();
            let names = named.iter().map(|(name, _)| [&epoch[..], name].concat()).collect();
            let count = u64::try_from(named.len()).unwrap_or(u64::MAX);
            self.store.enter(named).await?;
            self.entered.fetch_add(count, Ordering::Relaxed);
            Ok(names)
        })
    }

    fn find<'a>(&'a self, query: &'a str, written: WordQuery, which: Which) -> Answer<'a, Vec<TextName>> {
        Box::pin(async move {
            if !self.entered_all().await {
                let label = &self.encryption.label;
                return Err(WordsError::NotReady(format!(
                    "the words of column {label} are being entered from the table"
                )));
            }
            let mut names = self.store.find(query, written, which).await?;
            if names.len() > FOUND_MAX {
                return Err(WordsError::TooMany(format!(
                    "more than {FOUND_MAX} texts of column {} are found, and a statement takes no more",
                    self.encryption.label
                )));
            }
            // The database is not told in which order they came.
            names.sort_unstable();
            Ok(names)
        })
    }

    fn finds_nothing_said(&self, query: &str, written: WordQuery) -> Result<bool, WordsError> {
        self.store.finds_nothing_said(query, written)
    }
}

/// The words of a text that was opened; none if the value is no text of the column.
fn opened(encryption: &Encryption, sealed: &[u8], columns: &dyn Columns) -> Option<String> {
    let stored = columns.keys(encryption.id)?.open(sealed).ok()?;
    match crate::codec::Datum::from_stored(encryption.kind, &stored).ok()? {
        crate::codec::Datum::Text(text) => Some(text),
        _ => None,
    }
}
