//! The tables as the way to the database knows them.

use super::Requests;
use crate::catalog::{COLUMNS, Catalog};
use crate::error::{SqlError, sqlstate};
use crate::pipeline::Asked;
use crate::replies;
use crate::session::reading::{Exchange, Reading, Rows};
use std::sync::Arc;

/// Is a text `SET TRANSACTION` alone? It comes before any query of its transaction, the proxy's own among them, and names no table.
pub(super) fn sets_transaction(text: &[u8]) -> bool {
    let text = text.trim_ascii();
    let text = text.strip_suffix(b";").unwrap_or(text);
    let words = text.split(u8::is_ascii_whitespace).filter(|word| !word.is_empty());
    let first: Vec<&[u8]> = words.take(2).collect();
    let [set, transaction] = first[..] else { return false };
    set.eq_ignore_ascii_case(b"set")
        && transaction.eq_ignore_ascii_case(b"transaction")
        && !text.contains(&b';')
}

/// Does a text begin as one that makes, changes or drops something?
pub(super) fn begins_with_a_change(text: &str) -> bool {
    let first =
        text.trim_start().split(|letter: char| !letter.is_ascii_alphabetic()).next().unwrap_or_default();
    ["create", "alter", "drop"].iter().any(|word| first.eq_ignore_ascii_case(word))
}

/// Is a text one statement about the session or its transaction, whatever names it has within? It holds no semicolon but at its end.
pub(super) fn is_of_the_session(text: &str) -> bool {
    const WORDS: [&str; 11] = [
        "set",
        "reset",
        "show",
        "begin",
        "start",
        "commit",
        "end",
        "rollback",
        "abort",
        "savepoint",
        "release",
    ];
    let text = text.trim();
    let text = text.strip_suffix(';').unwrap_or(text);
    let first = text.split(|letter: char| !letter.is_ascii_alphabetic()).next().unwrap_or_default();
    !text.contains(';') && WORDS.iter().any(|word| first.eq_ignore_ascii_case(word))
}

impl Requests<'_> {
    /// The tables as they are now.
    pub(super) async fn catalog(&mut self) -> Result<Arc<Catalog>, SqlError> {
        let changes = self.rewriting.changes();
        let stale = self.shared.state().changed_tables;
        if let Some((known, catalog)) = &self.catalog {
            // What waits for more of the client's messages, or fails anyway, is read with what is known.
            let can_ask = self.shared.state().can_ask();
            if (*known == changes && !stale) || !can_ask {
                return Ok(Arc::clone(catalog));
            }
        }
        self.changes_sent = false;
        let mut rows = self.ask(&format!("SHOW default_transaction_isolation; {COLUMNS}")).await?;
        if let [Some(level)] = rows.first().map(Vec::as_slice).unwrap_or_default() {
            self.sees_the_past |= !level.starts_with("read ");
            rows.remove(0);
        }
        let catalog = Arc::new(self.rewriting.catalog(rows));
        self.catalog = Some((changes, Arc::clone(&catalog)));
        Ok(catalog)
    }

    /// Asks the database something of the proxy's own.
    async fn ask(&mut self, statement: &str) -> Result<Rows, SqlError> {
        let (exchange, answered) = Exchange::new(false);
        self.shared.state().changed_tables = false;
        self.sent(Asked::Query, Reading::Own(Box::new(exchange)), None);
        replies::message(&mut self.out, b'Q', |out| replies::string(out, statement.as_bytes()));
        let lost = || SqlError::new(sqlstate::CONNECTION_FAILURE, "the database did not answer the proxy");
        self.write().await.map_err(|_| lost())?;
        answered.await.map_err(|_| lost())?.map(|answer| answer.rows)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_of_the_session_alone_is_known() {
        for text in ["SET client_encoding = 'UTF8';", " rollback", "reset ALL", "SAVEPOINT clients"] {
            assert!(is_of_the_session(text), "{text}");
        }
        for text in [
            "SET a = 'x\\'; INSERT INTO t VALUES (1)",
            "settle",
            "",
            "SELECT 1",
            "INSERT INTO sets VALUES (1)",
        ] {
            assert!(!is_of_the_session(text), "{text}");
        }
    }

    #[test]
    fn what_sets_a_transaction_s_level_alone_is_known() {
        assert!(sets_transaction(b" set  TRANSACTION isolation level serializable ; "));
        for other in
            ["SET TRANSACTION READ ONLY; SELECT 1", "SET x = 1", "SELECT 1", "", "set transactional = 1"]
        {
            assert!(!sets_transaction(other.as_bytes()), "{other}");
        }
    }
}
