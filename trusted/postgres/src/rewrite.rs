//! Analysis of statements, and what becomes of them.

mod analysis;
mod assigned_row;
mod changed;
mod common_type;
mod comparison;
mod constant;
mod constraint;
mod copy;
mod course;
mod defined;
mod edits;
mod expression;
mod fh_ope;
mod filled;
mod filter;
mod folded;
mod foreseen;
mod from;
mod insert;
mod insert_listed;
mod insert_rows;
mod layout;
mod matched;
mod means;
mod meant;
mod mention;
mod moment;
mod naming;
mod of_time;
mod places;
mod recompute;
mod relations;
mod scope;
mod select;
mod shown;
mod spelling;
mod statement;
mod substrings;
pub(crate) mod term;
#[cfg(test)]
pub(crate) mod tests;
mod upsert;
mod views;
mod write;

pub(crate) use means::{Means, may_mean, means};
pub(crate) use mention::Sensitive;
pub(crate) use naming::may_be_in as may_name;
pub(crate) use relations::Relation;
pub(crate) use substrings::Substrings;

use crate::catalog::{Catalog, Tables};
use crate::error::{SqlError, sqlstate};
use crate::named::Named;
use crate::plan::{Action, Planned};
use crate::text::{Lexemes, statements};
use course::Course;
use std::collections::BTreeSet;

/// A setting that pg_dump makes before it reads the catalogue: with it the server shows no views, ours neither.
const OF_PG_DUMP: &str = "restrict_nonsystem_relation_kind";

/// Plans a client's text: each of its statements in order. Statements that touch nothing encrypted may come as one.
///
/// # Errors
/// The text is not made of tokens: nothing of it is run. What is wrong with one statement is that statement's
/// [`Action::Refused`].
pub fn plan(text: &str, catalog: &Catalog) -> Result<Vec<Planned>, SqlError> {
    plan_in(text, catalog, (&Named::default(), false))
}

/// Relations of a text that the catalogue does not know: one may be a view that was made meanwhile. `is_read`: the text may be read.
pub(crate) fn unknown_relations(text: &str, catalog: &Catalog, is_read: bool) -> BTreeSet<String> {
    if !is_read {
        return relations::rough(text, |name| catalog.knows(None, name));
    }
    let is_known = |schema: Option<&str>, name: &str| catalog.knows(schema, name);
    let statements = statements(text).unwrap_or_default();
    statements.iter().flat_map(|statement| relations::unknown(statement, is_known)).collect()
}

/// Quickly: may a text name one?
pub(crate) fn may_name_unknown(text: &str, catalog: &Catalog) -> bool {
    !catalog.sensitive().is_empty()
        && relations::may_name_unknown(text, |schema, name| catalog.knows(schema, name))
}

/// Whether a text is read into tokens; else it goes on as it is.
pub(crate) fn is_read(text: &str, catalog: &Catalog, named: &Named) -> bool {
    (!named.is_empty() && may_name(text)) || catalog.sensitive().may_be_in(text, catalog.is_shown())
}

/// The same in a session that has named statements and cursors; `is_changed`: the transaction that is under way may have changed tables.
pub(crate) fn plan_in(
    text: &str,
    catalog: &Catalog,
    (named, is_changed): (&Named, bool),
) -> Result<Vec<Planned>, SqlError> {
    let whole = |action| {
        let (span, changes) = (0..text.len(), Tables::default());
        Ok(vec![Planned { span, action, naming: None, prepares: None, changes }])
    };
    if catalog.is_shown() && text.contains(OF_PG_DUMP) {
        let error = SqlError::new(sqlstate::FEATURE_NOT_SUPPORTED, "pg_dump does not go through the proxy");
        let hint = "Run it at the database: a dump holds ciphertext, and is served by the same keys where it is restored.";
        return whole(Action::Refused(error.hint(hint)));
    }
    if !is_read(text, catalog, named) {
        return whole(Action::Unchanged);
    }
    // Tables and names as they are when a statement is run: what the text makes before is there.
    let (mut course, mut named) = (Course::new(catalog, is_changed), named.clone());
    let mut planned = Vec::new();
    for statement in statements(text)? {
        let outcome = match naming::plan(text, &statement, &course.catalog, &named) {
            Ok(None) => plan_one(text, &statement, &course.catalog).map(|action| (action, None)),
            Ok(Some(found)) => Ok(found),
            Err(error) => Err(error),
        };
        let (action, naming) = outcome.unwrap_or_else(|error| (Action::Refused(error), None));
        let changes = course.leave(text, &statement, !matches!(action, Action::Refused(_)));
        naming.iter().for_each(|naming| named.apply(naming));
        let prepares = naming::prepares(&statement);
        let one = Planned { span: statement.span(), action, naming, prepares, changes };
        named.note_prepared(&one);
        planned.push(one);
    }
    Ok(planned)
}

fn plan_one(text: &str, statement: &Lexemes, catalog: &Catalog) -> Result<Action, SqlError> {
    if let Some(at) = mention::changes_own_schema(statement) {
        let message = "permission denied for schema arras";
        return Err(SqlError::new(sqlstate::INSUFFICIENT_PRIVILEGE, message)
            .detail("It holds the orders of encrypted columns, which the proxy alone changes.")
            .at(text, statement.bytes(at).start));
    }
    filled::refused(text, statement, catalog)?;
    match catalog.sensitive().mention(statement) {
        None if catalog.is_shown() => shown::plan(text, statement, catalog),
        None => Ok(Action::Unchanged),
        Some(at) => statement::plan(text, statement, catalog, at),
    }
}
