//! Names whose `PREPARE` was refused: `EXECUTE` of one goes no further, as what it gives was meant for an encrypted column.

use super::tables::holds_word;
use crate::error::SqlError;
use crate::plan::{Action, Planned};
use crate::text::{Lexemes, name_of, statements};
use sqlparser::tokenizer::Token;
use std::collections::BTreeSet;

/// Names that are kept of a session.
const NAMES_MAX: usize = 1024;

/// Names whose `PREPARE` was refused, and that name nothing since.
#[derive(Default)]
pub(super) struct RefusedNames(BTreeSet<String>);

/// The name behind the first word of a statement.
fn name(statement: &Lexemes, first: &str) -> Option<String> {
    match statement.token(1) {
        Some(Token::Word(word)) if statement.is_word(0, first) => Some(name_of(word)),
        _ => None,
    }
}

impl RefusedNames {
    /// Notes what became of a text.
    pub(super) fn note(&mut self, text: &str, planned: &[Planned]) {
        for one in planned {
            let is_refused = matches!(one.action, Action::Refused(_));
            let part = text.get(one.span.clone()).unwrap_or_default();
            if (self.0.is_empty() && !is_refused) || !holds_word(part, "prepare") {
                continue;
            }
            for name in statements(part).unwrap_or_default().iter().filter_map(|one| name(one, "prepare")) {
                if !is_refused {
                    self.0.remove(&name);
                } else if self.0.len() < NAMES_MAX {
                    self.0.insert(name);
                }
            }
        }
    }

    /// That a text executes none of them.
    ///
    /// # Errors
    /// It does.
    pub(super) fn require_none_in(&self, text: &str) -> Result<(), SqlError> {
        if self.0.is_empty() || !holds_word(text, "execute") {
            return Ok(());
        }
        let statements = statements(text).unwrap_or_default();
        match statements.iter().filter_map(|one| name(one, "execute")).find(|name| self.0.contains(name)) {
            None => Ok(()),
            Some(name) => {
                let message = format!("prepared statement \"{name}\" does not exist");
                Err(SqlError::new("26000", message).detail("Its PREPARE was refused."))
            }
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::RefusedNames;

    #[test]
    fn what_was_not_prepared_is_not_executed() {
        let catalog = crate::rewrite::tests::catalog();
        let mut refused = RefusedNames::default();
        let mut note = |text: &str| {
            refused.note(text, &crate::plan(text, &catalog).unwrap());
            refused.require_none_in("SELECT 1; execute p ('secret')").is_err()
        };
        assert!(!note("PREPARE p AS SELECT id FROM notes WHERE id = $1"));
        assert!(note("PREPARE p AS SELECT id FROM accounts WHERE memo = $1"));
        assert!(note("PREPARE other AS SELECT id FROM notes WHERE id = $1"));
        assert!(!note("PREPARE p AS SELECT id FROM accounts WHERE owner = $1"));
    }
}
