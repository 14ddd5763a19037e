//! Words of texts in columns of a SQL database: each text is a document of its own, which never changes.
//!
//! *Together.* Texts that come while others are being entered go with the next that are: a change of the collection takes as long
//! for many as for one.
//!
//! *Denials.* The enclave takes what does not match among all documents of its collection, those of other columns too. So a
//! condition that a text without any word would meet is looked for among the documents that bear the column's mark.

use super::Names;
use super::analysis::{Analysis, marked};
use super::client::{Client, Use};
use super::talk::Host;
use arras_engine::aside;
use arras_protocol::RowId;
use arras_search::condition::Condition;
use arras_search::language::{Language, UnknownLanguage};
use arras_search::tsquery::{self, TsQueryError};
use arras_service::words::{Answer, FOUND_MAX, TextName, Which, WordQuery, WordStore, WordsError};
use arras_service::{Fault, ServiceError};
use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::sync::oneshot;

/// Columns of texts.
const COLUMNS: Use = Use {
    collection: "arras text columns",
    waits: "@@, and statements that store texts whose words are found,",
    mended_by: "remove words.json from the proxy's folder of heads and start it again: it enters the texts that are there",
};

/// Results of a search: with one more than a statement takes, it is known that they are too many.
#[allow(clippy::cast_possible_truncation, reason = "it is far below")]
const MOST: u32 = FOUND_MAX as u32 + 1;

/// PostgreSQL's configuration without a language.
const SIMPLE: &str = "simple";

/// All columns of a proxy, at one host.
#[derive(Debug)]
pub struct Columns {
    client: Arc<Client>,
    analysis: Arc<Analysis>,
}

impl Columns {
    /// Those at a host; it is spoken to when something is asked of it.
    #[must_use]
    pub fn new(host: Arc<dyn Host>) -> Self {
        Self { client: Arc::new(Client::new(host, COLUMNS)), analysis: Arc::default() }
    }

    /// The words of the column with an id, which PostgreSQL's configuration of that name reads.
    ///
    /// # Errors
    /// There is no such language.
    pub fn column(&self, id: [u8; 8], configuration: &str) -> Result<Column, UnknownLanguage> {
        let language = if configuration == SIMPLE { Language::None } else { configuration.parse()? };
        let (client, analysis) = (Arc::clone(&self.client), Arc::clone(&self.analysis));
        let (waiting, lane) = (Mutex::default(), tokio::sync::Mutex::default());
        Ok(Column(Arc::new(Entries { names: Names(id), language, client, analysis, waiting, lane })))
    }

    /// As [`arras_engine::text::TextService::expect`].
    pub fn expect(&self, acknowledged: u128, issued: u128) {
        self.client.expect(acknowledged, issued);
    }

    /// The revision that the host has acknowledged last, or was found to be at.
    #[must_use]
    pub fn acknowledged(&self) -> u128 {
        self.client.acknowledged()
    }
}

/// One column.
pub struct Column(Arc<Entries>);

/// What a column has at the host.
struct Entries {
    names: Names,
    language: Language,
    client: Arc<Client>,
    analysis: Arc<Analysis>,
    waiting: Mutex<Waiting>,
    /// Held by who enters what waits.
    lane: tokio::sync::Mutex<()>,
}

/// Texts that are to be entered next, in the order that they came in.
#[derive(Default)]
struct Waiting {
    next: u64,
    callers: BTreeMap<u64, Caller>,
}

/// Who waits for texts to be entered.
struct Caller {
    texts: Vec<(RowId, String)>,
    told: oneshot::Sender<Result<(), ServiceError>>,
}

/// A place among those that wait. Texts of one that is given up, as by a cancellation, are not kept.
struct Place<'e> {
    entries: &'e Entries,
    number: u64,
}

impl Drop for Place<'_> {
    fn drop(&mut self) {
        self.entries.waiting().callers.remove(&self.number);
    }
}

impl fmt::Debug for Column {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Column")
    }
}

/// Why a query cannot be asked.
fn unreadable(error: TsQueryError) -> WordsError {
    let said = error.to_string();
    match error {
        TsQueryError::Syntax(_) => WordsError::Syntax(said),
        TsQueryError::TooLong(_)
        | TsQueryError::TooManyParts
        | TsQueryError::TooDeep
        | TsQueryError::Unsupported(_) => WordsError::Unsupported(said),
    }
}

/// What a query asks for; none if it finds nothing.
fn condition(query: &str, written: WordQuery, language: Language) -> Result<Option<Condition>, WordsError> {
    let read = match written {
        WordQuery::Formula => tsquery::formula(query, language),
        WordQuery::All => tsquery::all(query, language),
        WordQuery::Phrase => tsquery::phrase(query, language),
        WordQuery::Web => tsquery::web(query, language),
    };
    read.map_err(unreadable)
}

/// Whether a text without any word meets a condition.
fn holds_of_nothing(condition: &Condition) -> bool {
    match condition {
        Condition::Keyword(_) | Condition::Phrase(_) | Condition::Range(_) => false,
        Condition::All(parts) => parts.iter().all(holds_of_nothing),
        Condition::Any(parts) => parts.iter().any(holds_of_nothing),
        Condition::Not(part) => !holds_of_nothing(part),
    }
}

impl Entries {
    fn waiting(&self) -> MutexGuard<'_, Waiting> {
        // Nothing panics while it is held.
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn wait(&self, caller: Caller) -> Place<'_> {
        let mut waiting = self.waiting();
        let number = waiting.next;
        waiting.next = number.wrapping_add(1);
        waiting.callers.insert(number, caller);
        Place { entries: self, number }
    }

    /// Enters texts, over one connection, in one change of the collection or a few.
    async fn enter_now(&self, texts: Vec<(RowId, String)>) -> Result<(), ServiceError> {
        let (names, language, texts) = (self.names, self.language, Arc::new(texts));
        let (analysis, updates) = (Arc::clone(&self.analysis), Arc::default());
        self.client
            .run_change(move |connection| {
                let (salt, collection) = (names.salt(&connection.opened), connection.opened.collection);
                let (texts, analysis) = (Arc::clone(&texts), Arc::clone(&analysis));
                let analyse = move || {
                    aside::run(move || Ok(analysis.entries(&texts, language, (names, collection, salt))))
                };
                connection.update_all(Arc::clone(&updates), analyse)
            })
            .await?;
        self.client.tidy();
        Ok(())
    }

    /// Enters what waits, if anything does: whoever comes first for all.
    async fn enter_waiting(&self) {
        let _one_at_a_time = self.lane.lock().await;
        let callers = std::mem::take(&mut self.waiting().callers);
        if callers.is_empty() {
            return;
        }
        let (texts, told): (Vec<_>, Vec<_>) =
            callers.into_values().map(|caller| (caller.texts, caller.told)).unzip();
        let entered = self.enter_now(texts.into_iter().flatten().collect()).await;
        for caller in told {
            // One that has gone does not ask.
            let _ = caller.send(entered.clone());
        }
    }
}

impl WordStore for Column {
    fn fingerprint(&self) -> [u8; 8] {
        self.0.analysis.fingerprint(self.0.language)
    }

    fn enter(&self, texts: Vec<(TextName, String)>) -> Answer<'_, ()> {
        Box::pin(async move {
            if texts.is_empty() {
                return Ok(());
            }
            let (told, entered) = oneshot::channel();
            let texts = texts.into_iter().map(|(name, text)| (RowId(name), text)).collect();
            let _place = self.0.wait(Caller { texts, told });
            let entries = Arc::clone(&self.0);
            tokio::spawn(async move { entries.enter_waiting().await });
            let gone = |_| ServiceError::new(Fault::Internal, "what enters texts has ended");
            Ok(entered.await.map_err(gone)??)
        })
    }

    fn find<'a>(&'a self, query: &'a str, written: WordQuery, which: Which) -> Answer<'a, Vec<TextName>> {
        Box::pin(async move {
            let asked = condition(query, written, self.0.language)?;
            let asked = match (asked, which) {
                (Some(asked), Which::Found) => Some(asked),
                (Some(asked), Which::Others) => Some(Condition::Not(Box::new(asked))),
                (None, Which::Found) => return Ok(Vec::new()),
                (None, Which::Others) => None,
            };
            let asked = match (asked, marked()) {
                (Some(asked), Some(mark)) if holds_of_nothing(&asked) => Condition::All(vec![mark, asked]),
                (Some(asked), _) => asked,
                (None, Some(mark)) => mark,
                (None, None) => return Ok(Vec::new()),
            };
            let (asked, names) = (Arc::new(asked), self.0.names);
            let rows =
                self.0.client.run(|connection| connection.search(Arc::clone(&asked), names, MOST)).await?;
            Ok(rows.into_iter().map(|row| row.0).collect())
        })
    }

    fn finds_nothing_said(&self, query: &str, written: WordQuery) -> Result<bool, WordsError> {
        let asked = condition(query, written, self.0.language)?;
        Ok(asked.is_some_and(|asked| holds_of_nothing(&asked)))
    }

    fn all(&self) -> Answer<'_, Vec<TextName>> {
        Box::pin(async move {
            let rows = self.0.client.run_change(|connection| connection.left_of(self.0.names)).await?;
            Ok(rows.into_iter().map(|row| row.0).collect())
        })
    }

    fn retire(&self, names: Vec<TextName>) -> Answer<'_, ()> {
        Box::pin(async move {
            let rows: Vec<RowId> = names.into_iter().map(RowId).collect();
            self.0.client.retire_all(self.0.names, &rows).await?;
            self.0.client.tidy();
            Ok(())
        })
    }
}
