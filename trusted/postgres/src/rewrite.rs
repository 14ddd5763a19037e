//! Analysis of statements, and what becomes of them.

mod analysis;
mod comparison;
mod constant;
mod constraint;
mod copy;
mod edits;
mod expression;
mod fh_ope;
mod filter;
mod foreseen;
mod from;
mod insert;
mod insert_listed;
mod insert_rows;
mod layout;
mod mention;
mod naming;
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
pub(crate) use naming::may_be_in as may_name;

use crate::catalog::Catalog;
use crate::error::{SqlError, sqlstate};
use crate::named::Named;
use crate::plan::{Action, Planned};
use crate::text::{Lexemes, statements};
use std::borrow::Cow;

/// A setting that pg_dump makes before it reads the catalogue: with it the server shows no views, ours neither.
const OF_PG_DUMP: &str = "restrict_nonsystem_relation_kind";

/// Plans a client's text: each of its statements in order. Statements that touch nothing encrypted may come as one.
///
/// # Errors
/// The text is not made of tokens: nothing of it is run. What is wrong with one statement is that statement's
/// [`Action::Refused`].
pub fn plan(text: &str, catalog: &Catalog) -> Result<Vec<Planned>, SqlError> {
    plan_in(text, catalog, &Named::default())
}

/// Whether a text is read into tokens; else it goes on as it is.
pub(crate) fn is_read(text: &str, catalog: &Catalog, named: &Named) -> bool {
    (!named.is_empty() && may_name(text)) || catalog.sensitive().may_be_in(text, catalog.is_shown())
}

/// The same in a session that has named statements and cursors.
pub(crate) fn plan_in(text: &str, catalog: &Catalog, named: &Named) -> Result<Vec<Planned>, SqlError> {
    if catalog.is_shown() && text.contains(OF_PG_DUMP) {
        let error = SqlError::new(sqlstate::FEATURE_NOT_SUPPORTED, "pg_dump does not go through the proxy");
        let hint = "Run it at the database: a dump holds ciphertext, and is served by the same keys where it is restored.";
        let action = Action::Refused(error.hint(hint));
        return Ok(vec![Planned { span: 0..text.len(), action, naming: None }]);
    }
    if !is_read(text, catalog, named) {
        return Ok(vec![Planned { span: 0..text.len(), action: Action::Unchanged, naming: None }]);
    }
    // Tables and names as they are when a statement is run: what the text makes before is there.
    let (mut catalog, mut named) = (Cow::Borrowed(catalog), named.clone());
    let mut planned = Vec::new();
    for statement in statements(text)? {
        let outcome = match naming::plan(text, &statement, &catalog, &named) {
            Ok(None) => plan_one(text, &statement, &catalog).map(|action| (action, None)),
            Ok(Some(found)) => Ok(found),
            Err(error) => Err(error),
        };
        let (action, naming) = outcome.unwrap_or_else(|error| (Action::Refused(error), None));
        leave(text, &statement, &mut catalog, !matches!(action, Action::Refused(_)));
        naming.iter().for_each(|naming| named.apply(naming));
        planned.push(Planned { span: statement.span(), action, naming });
    }
    Ok(planned)
}

/// Tables as a statement leaves them: those that it names may be others, but for what is foreseen of a declared one. Of one that is
/// not run nothing is: it may be too deep to be read, too.
fn leave(text: &str, statement: &Lexemes, catalog: &mut Cow<'_, Catalog>, is_run: bool) {
    let changed = mention::changed_tables(statement);
    if changed.is_empty() {
        return;
    }
    catalog.to_mut().doubt_each(changed);
    if is_run
        && let Some(at) = catalog.sensitive().mention(statement)
        && let Some(table) = foreseen::table(text, statement, catalog, at)
    {
        catalog.to_mut().add(table);
    }
}

fn plan_one(text: &str, statement: &Lexemes, catalog: &Catalog) -> Result<Action, SqlError> {
    if let Some(at) = mention::changes_own_schema(statement) {
        let message = "permission denied for schema arras";
        return Err(SqlError::new(sqlstate::INSUFFICIENT_PRIVILEGE, message)
            .detail("It holds the orders of encrypted columns, which the proxy alone changes.")
            .at(text, statement.bytes(at).start));
    }
    match catalog.sensitive().mention(statement) {
        None if catalog.is_shown() => shown::plan(text, statement, catalog),
        None => Ok(Action::Unchanged),
        Some(at) => statement::plan(text, statement, catalog, at),
    }
}
