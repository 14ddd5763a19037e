//! What sessions share that rewrite statements: the schema, the keys of its columns, and how much memory they may hold.

use crate::Freshness;
use crate::catalog::Catalog;
use crate::error::SqlError;
use crate::schema::Schema;
use arras_service::columns::Columns;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::timeout;

/// Longest message that is held whole, to be changed, in bytes.
pub(crate) const MESSAGE_BYTES_MAX: usize = 64 * 1024 * 1024;
/// Messages up to this size, in bytes, are not worth counting: a session's buffers cost as much.
const UNCOUNTED_BYTES: usize = 64 * 1024;
/// Bytes of a permit.
const PERMIT_BYTES: usize = 1024;
/// Bytes that a part of a statement takes while the statement is read: tokens, syntax and what is made of them. Measured: 570 to 670.
const PART_BYTES: usize = 768;
/// A statement of so many parts is not worth counting.
const UNCOUNTED_PARTS: usize = 4096;
/// Bytes that there are at least for statements that are read.
const READING_BYTES_MIN: usize = 128 * 1024 * 1024;
/// How long somebody waits for memory.
const PATIENCE: Duration = Duration::from_secs(30);

/// What sessions share that rewrite statements.
pub struct Rewriting {
    schema: Arc<Schema>,
    pub(crate) columns: Arc<dyn Columns>,
    room: Arc<Semaphore>,
    /// Of statements that are being read, in permits. Who waits for it holds a message, and who has it waits for nothing.
    reading: Arc<Semaphore>,
    reading_permits: usize,
    /// Tables were made or changed so many times.
    changes: AtomicU64,
    freshness: Option<Arc<Freshness>>,
}

/// A share of the memory; given back when dropped.
pub(crate) struct Share(#[allow(dead_code, reason = "held for its end")] OwnedSemaphorePermit);

impl Rewriting {
    /// Rewrites statements on the columns that `schema` declares. Of so many bytes, messages and prepared statements may hold half, and
    /// statements that are being read the other.
    #[must_use]
    pub fn new(schema: Arc<Schema>, columns: Arc<dyn Columns>, memory_bytes: usize) -> Self {
        let permits = |bytes: usize| (bytes / PERMIT_BYTES).min(Semaphore::MAX_PERMITS);
        let half = memory_bytes / 2;
        let room = Arc::new(Semaphore::new(permits(half.max(2 * MESSAGE_BYTES_MAX))));
        let reading_permits = permits(half.max(READING_BYTES_MIN));
        let reading = Arc::new(Semaphore::new(reading_permits));
        Self { schema, columns, room, reading, reading_permits, changes: AtomicU64::new(0), freshness: None }
    }

    /// Has each session compare the database with what was acknowledged before it begins.
    #[must_use]
    pub fn watched(self, freshness: Arc<Freshness>) -> Self {
        Self { freshness: Some(freshness), ..self }
    }

    /// What says whether the database was set back.
    pub(crate) fn freshness(&self) -> Option<&Freshness> {
        self.freshness.as_deref()
    }

    /// Waits for room for a message; `None` if it is too small to count. 53200 if there is none for too long.
    pub(crate) async fn share(&self, bytes: usize) -> Result<Option<Share>, SqlError> {
        if bytes <= UNCOUNTED_BYTES {
            return Ok(None);
        }
        of(&self.room, bytes.div_ceil(PERMIT_BYTES)).await.map(Some)
    }

    /// Room for what is kept for later; 53200 if there is none.
    pub(crate) fn keep(&self, bytes: usize) -> Result<Share, SqlError> {
        let permits = u32::try_from(bytes.div_ceil(PERMIT_BYTES)).unwrap_or(u32::MAX);
        Arc::clone(&self.room).try_acquire_many_owned(permits).map(Share).map_err(|_| full())
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
        let permits = (parts * PART_BYTES).div_ceil(PERMIT_BYTES);
        if permits > self.reading_permits {
            let most = self.reading_permits * PERMIT_BYTES / PART_BYTES;
            let text = format!(
                "a statement on encrypted columns has about {parts} words, constants and signs; the proxy has memory for {most}"
            );
            return Err(SqlError::new("54000", text)
                .hint("Use COPY, or several statements, or give the proxy more memory."));
        }
        of(&self.reading, permits).await.map(Some)
    }

    /// What is declared.
    pub(crate) fn schema(&self) -> &Schema {
        &self.schema
    }

    /// How many times tables were made or changed.
    pub(crate) fn changes(&self) -> u64 {
        self.changes.load(Ordering::SeqCst)
    }

    /// Tables were made or changed: every session looks again.
    pub(crate) fn changed(&self) {
        self.changes.fetch_add(1, Ordering::SeqCst);
    }

    /// The catalogue of what the database answers to [`crate::catalog::COLUMNS`].
    pub(crate) fn catalog(&self, rows: Vec<Vec<Option<String>>>) -> Catalog {
        let row = |row: Vec<Option<String>>| {
            let texts: Option<Vec<String>> = row.into_iter().collect();
            texts.and_then(|texts| texts.try_into().ok())
        };
        let read = Catalog::read(Arc::clone(&self.schema), rows.into_iter().filter_map(row));
        read.with_defaults(|encryption, sealed| {
            crate::values::open_constant(encryption, sealed, &*self.columns)
        })
    }
}

/// Waits for so many permits.
async fn of(room: &Arc<Semaphore>, permits: usize) -> Result<Share, SqlError> {
    let permits = u32::try_from(permits).unwrap_or(u32::MAX);
    match timeout(PATIENCE, Arc::clone(room).acquire_many_owned(permits)).await {
        Ok(Ok(permit)) => Ok(Share(permit)),
        // It is never closed.
        Ok(Err(_)) | Err(_) => Err(full()),
    }
}

/// How many parts a text has at most: each is a sign, or letters or digits that follow one another, and what is between quotes is one.
/// Behind a comment or a dollar's quote, where a quote may be something else than it seems, all counts.
fn parts(text: &str) -> usize {
    let bytes = text.as_bytes();
    let at = |index: usize| bytes.get(index).copied().unwrap_or_default();
    let (mut parts, mut before, mut is_certain) = (0, None, true);
    let mut next = 0;
    while let Some(byte) = bytes.get(next).copied() {
        let is_digit = byte.is_ascii_digit();
        let run = (is_digit || byte.is_ascii_alphabetic() || !byte.is_ascii()).then_some(is_digit);
        parts += usize::from(run.is_none() || run != before);
        is_certain &= match byte {
            b'-' => at(next + 1) != b'-',
            b'/' => at(next + 1) != b'*',
            // Behind a word, it may end a tag.
            b'$' => at(next + 1).is_ascii_digit() && before.is_none(),
            b'\'' => Quotes::before(bytes, next) != Quotes::Unknown,
            _ => true,
        };
        before = run;
        let is_quote = is_certain && matches!(byte, b'\'' | b'"');
        next = if is_quote { behind_quotes(bytes, next) } else { next + 1 };
    }
    parts
}

/// What quotes are by what stands before them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Quotes {
    Usual,
    /// A backslash takes the next sign as it is.
    Escaping,
    /// The end of a word, or what begins such quotes.
    Unknown,
}

impl Quotes {
    fn before(bytes: &[u8], open: usize) -> Self {
        let at = |back: usize| open.checked_sub(back).and_then(|index| bytes.get(index)).copied();
        let is_word =
            |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'$') || !byte.is_ascii();
        match (at(2), at(1)) {
            (Some(before), Some(b'e' | b'E')) if is_word(before) => Self::Unknown,
            (_, Some(b'e' | b'E')) => Self::Escaping,
            (_, Some(b'&' | b'x' | b'X')) => Self::Unknown,
            _ => Self::Usual,
        }
    }
}

/// Behind the quotes that open at an index. What is doubled in them is one sign.
fn behind_quotes(bytes: &[u8], open: usize) -> usize {
    let quote = bytes.get(open).copied().unwrap_or_default();
    let escapes = quote == b'\'' && Quotes::before(bytes, open) == Quotes::Escaping;
    let mut next = open + 1;
    while let Some(byte) = bytes.get(next).copied() {
        next += 1;
        match byte {
            b'\\' if escapes => next += 1,
            byte if byte == quote && bytes.get(next) == Some(&quote) => next += 1,
            byte if byte == quote => return next,
            _ => {}
        }
    }
    bytes.len()
}

fn full() -> SqlError {
    SqlError::new("53200", "the proxy's memory is full of messages under way").hint("Try again.")
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::text::statements;
    use proptest::prelude::*;

    #[test]
    fn what_is_between_quotes_is_one_part_wherever_that_is_certain() {
        assert_eq!(parts("SELECT 'a, b, c' , \"d e\" FROM t"), 11);
        let bytes = format!("INSERT INTO t VALUES ('\\x{}'), ('-- /* $$ \\')", "a1".repeat(1000));
        assert!(parts(&bytes) < 30);
        let many = "1, ".repeat(1000);
        let doubled = ["SELECT E'''", "\\", "'', ", &many, "1"].concat();
        assert!(parts(&doubled) >= 2000, "doubled, and taken as it is");
        let quoted = format!("SELECT '{}'", "a, ".repeat(1000));
        assert!(parts(&quoted) < 8);
        for hidden in [
            "X'\\' ', ",
            "$1$1' $1$1, ",
            "1e'\\'', ",
            "U&'\\'', ",
            "$$'$$, ",
            "-- '\n, ",
            "/*'*/, ",
            "$a$\"$a$, ",
        ] {
            let text = format!("SELECT {hidden}{}'", "1, ".repeat(1000));
            assert!(parts(&text) >= 2000, "{hidden}");
        }
    }

    proptest! {
        #[test]
        fn there_are_no_fewer_parts_than_tokens(text in "[a-cExuN&1 ,'\"$\\\\()é*/\n-]{0,40}") {
            let text = text + &"1,".repeat(60);
            if let Ok(statements) = statements(&text) {
                let tokens: usize = statements.iter().map(|lexemes| lexemes.tokens().len()).sum();
                prop_assert!(parts(&text) >= tokens, "{tokens} tokens, {} parts", parts(&text));
            }
        }
    }
}
