//! Analysis of statements, and what becomes of them.

mod analysis;
mod comparison;
mod constant;
mod constraint;
mod copy;
mod edits;
mod expression;
mod foreseen;
mod from;
mod layout;
mod mention;
mod recompute;
mod scope;
mod select;
mod shown;
mod statement;
pub(crate) mod term;
#[cfg(test)]
pub(crate) mod tests;
mod write;

pub(crate) use mention::Sensitive;

use crate::catalog::Catalog;
use crate::error::SqlError;
use crate::plan::{Action, Planned};
use crate::text::{Lexemes, statements};
use std::borrow::Cow;

/// Plans a client's text: each of its statements in order. Statements that touch nothing encrypted may come as one.
///
/// # Errors
/// The text is not made of tokens: nothing of it is run. What is wrong with one statement is that statement's
/// [`Action::Refused`].
pub fn plan(text: &str, catalog: &Catalog) -> Result<Vec<Planned>, SqlError> {
    let sensitive = catalog.sensitive();
    if !sensitive.may_be_in(text, catalog.is_shown()) {
        return Ok(vec![Planned { span: 0..text.len(), action: Action::Unchanged }]);
    }
    // Tables as they are when a statement is run: those that the text makes before are there.
    let mut catalog = Cow::Borrowed(catalog);
    let mut plan_one = |statement: Lexemes| {
        let action = match sensitive.mention(&statement) {
            None if catalog.is_shown() => shown::plan(text, &statement, &catalog),
            None => Ok(Action::Unchanged),
            Some(at) => {
                let action = statement::plan(text, &statement, &catalog, at);
                if let Some(table) = foreseen::table(text, &statement, &catalog, at) {
                    catalog.to_mut().add(table);
                }
                action
            }
        };
        Planned { span: statement.span(), action: action.unwrap_or_else(Action::Refused) }
    };
    Ok(statements(text)?.into_iter().map(&mut plan_one).collect())
}
