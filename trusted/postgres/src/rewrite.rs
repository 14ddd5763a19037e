//! Analysis of statements, and what becomes of them.

mod analysis;
mod comparison;
mod constant;
mod copy;
mod edits;
mod expression;
mod from;
mod layout;
mod mention;
mod recompute;
mod scope;
mod select;
mod statement;
pub(crate) mod term;
#[cfg(test)]
pub(crate) mod tests;
mod write;

use crate::catalog::Catalog;
use crate::error::SqlError;
use crate::plan::{Action, Planned};
use crate::text::{Lexemes, statements};
use mention::Sensitive;

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
            None => Action::Unchanged,
            Some(at) => statement::plan(text, &statement, catalog, at).unwrap_or_else(Action::Refused),
        };
        Planned { span: statement.span(), action }
    };
    Ok(statements(text)?.into_iter().map(plan_one).collect())
}
