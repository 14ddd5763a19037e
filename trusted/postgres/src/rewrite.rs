//! Analysis of statements, and what becomes of them.

mod mention;

use crate::catalog::Catalog;
use crate::error::{SqlError, sqlstate};
use crate::plan::{Action, Planned};
use crate::text::{Lexemes, statements};
use mention::{Mention, Sensitive};

/// Plans a client's text: each of its statements in order. Statements that touch nothing encrypted may come as one.
///
/// # Errors
/// The text is not made of tokens: nothing of it is run. What is wrong with one statement is that statement's
/// [`Action::Refused`].
pub fn plan(text: &str, catalog: &Catalog) -> Result<Vec<Planned>, SqlError> {
    let sensitive = Sensitive::new(catalog);
    if !sensitive.may_be_in(text) {
        return Ok(vec![Planned { span: 0..text.len(), action: Action::Unchanged }]);
    }
    let plan_one = |statement: Lexemes| {
        let action = match sensitive.mention(&statement) {
            Mention::None => Action::Unchanged,
            Mention::Table { at } => Action::Refused(not_understood(text, &statement, at)),
        };
        Planned { span: statement.span(), action }
    };
    Ok(statements(text)?.into_iter().map(plan_one).collect())
}

/// A statement that names an encrypted table in a way that is not analysed.
fn not_understood(text: &str, statement: &Lexemes, at: usize) -> SqlError {
    let bytes = statement.bytes(at);
    let name = text.get(bytes.clone()).unwrap_or_default();
    SqlError::new(
        sqlstate::FEATURE_NOT_SUPPORTED,
        format!("{name} has encrypted columns, and this statement uses it in a way that is not understood"),
    )
    .detail("A statement that cannot be analysed is refused: it might show what is encrypted, or store it in plaintext.")
    .at(text, bytes.start)
}
