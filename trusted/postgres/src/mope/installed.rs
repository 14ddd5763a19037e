//! Whether what was installed is there as it was installed: functions, and the triggers of columns whose values leave with
//! their last row.

use super::Column;
use super::connections::failure;
use super::examination::Snapshot;
use super::installation::{FUNCTIONS, Protocol, STEPS};
use super::strangers;
use crate::text::quoted;
use arras_protocol::ChannelError;
use std::collections::BTreeSet;
use tokio_postgres::{Error, GenericClient};

/// A place that is declared to store labels.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stored {
    /// Whose labels.
    pub column: Column,
    /// How the column's order is kept.
    pub protocol: Protocol,
    /// Schema, table and attribute.
    pub place: [String; 3],
}

/// The body that PostgreSQL has for an aggregate.
const AGGREGATE: &str = "aggregate_dummy";

/// Names and bodies of the functions and aggregates that a script makes.
fn bodies(script: &str) -> Vec<(String, String)> {
    let aggregates = script.split("CREATE OR REPLACE AGGREGATE arras.").skip(1);
    let mut found: Vec<_> = aggregates
        .filter_map(|made| made.split('(').next())
        .map(|name| (name.to_owned(), AGGREGATE.to_owned()))
        .collect();
    let mut rest = script;
    while let Some((_, made)) = rest.split_once("CREATE OR REPLACE FUNCTION arras.") {
        let (name, body) = (made.split('(').next(), made.split("$$").nth(1));
        found.extend(name.zip(body).map(|(name, body)| (name.to_owned(), body.to_owned())));
        rest = made;
    }
    found.sort_unstable();
    found
}

/// What of the schema `arras` is not as this version installs it: one line each, with what to do; empty if all is well. None if nothing
/// is installed.
///
/// # Errors
/// [`ChannelError`].
pub async fn lacking(snapshot: &Snapshot) -> Result<Option<Vec<String>>, ChannelError> {
    if !one::<bool>(snapshot, "SELECT pg_catalog.to_regnamespace('arras') IS NOT NULL").await? {
        return Ok(None);
    }
    let there = "SELECT pg_catalog.to_regclass('arras.installation') IS NOT NULL \
                 AND pg_catalog.to_regclass('arras.shown_column') IS NOT NULL";
    if !one::<bool>(snapshot, there).await? {
        return Ok(Some(vec!["the schema arras is not whole: restore it from a backup".into()]));
    }
    let mut wrong = Vec::new();
    let (known, found) = (STEPS.len(), one::<i32>(snapshot, "SELECT version FROM arras.installation").await?);
    if usize::try_from(found) != Ok(known) {
        wrong.push(format!(
            "the schema arras is of version {found}, and this program's is {known}: start the newer proxy, which brings it \
             up to date"
        ));
    }
    for (name, is_there) in differing(&*snapshot.client).await.map_err(|error| failure(&error))? {
        let is = if is_there { "not the one" } else { "not there, the one" };
        wrong.push(format!(
            "the function arras.{name} is {is} that this version installs: start the proxy, which makes it anew"
        ));
    }
    Ok(Some(wrong))
}

/// The tables that store labels and belong to roles that have not the rights of the proxy's: one line each, with what to do.
///
/// # Errors
/// [`ChannelError`].
pub async fn not_trusted(snapshot: &Snapshot, stored: &[Stored]) -> Result<Vec<String>, ChannelError> {
    let mut wrong = Vec::new();
    let tables: BTreeSet<_> =
        stored.iter().map(|Stored { place: [schema, table, _], .. }| (schema, table)).collect();
    for (schema, table) in tables {
        let relation = format!("{}.{}", quoted(schema), quoted(table));
        let asked = strangers::of_table(&snapshot.client, &relation).await;
        if let Some(owner) = asked.map_err(|error| failure(&error))? {
            wrong.push(format!(
                "{schema}.{table} stores labels and belongs to {owner}, who has not the rights of the proxy's role: labels are not \
                 changed there; let the proxy log in as the owner of the tables"
            ));
        }
    }
    Ok(wrong)
}

/// The only value of a statement's only row.
async fn one<T>(snapshot: &Snapshot, statement: &str) -> Result<T, ChannelError>
where
    T: for<'a> tokio_postgres::types::FromSql<'a>,
{
    let row = snapshot.client.query_one(statement, &[]).await.map_err(|error| failure(&error))?;
    row.try_get(0).map_err(|error| ChannelError::Malformed(error.to_string()))
}

/// The functions that are not there as this version installs them, and whether one of the name is.
pub(super) async fn differing(client: &impl GenericClient) -> Result<Vec<(String, bool)>, Error> {
    let statement = "SELECT p.proname::pg_catalog.text, p.prosrc FROM pg_catalog.pg_proc p \
                     WHERE p.pronamespace = 'arras'::pg_catalog.regnamespace";
    let mut there = Vec::new();
    for row in client.query(statement, &[]).await? {
        there.push((row.try_get::<_, String>(0)?, row.try_get::<_, String>(1)?));
    }
    let wanted = bodies(FUNCTIONS).into_iter().filter(|one| !there.contains(one));
    Ok(wanted.map(|(name, _)| (name.clone(), there.iter().any(|(other, _)| *other == name))).collect())
}

/// Does a trigger's name end so behind its event?
fn is_end(rest: &str) -> bool {
    rest.is_empty() || rest.starts_with('_')
}

/// What the places that store labels lack of what changes them: one line each, with what to do.
///
/// # Errors
/// [`ChannelError`].
pub async fn lacking_in_places(snapshot: &Snapshot, stored: &[Stored]) -> Result<Vec<String>, ChannelError> {
    let mut wrong = Vec::new();
    let statement = "SELECT EXISTS (SELECT FROM arras.stored_labels l WHERE l.column_id = $1 AND l.in_schema = $2 \
                     AND l.in_table = $3 AND l.attribute = $4), \
                     ARRAY(SELECT g.tgname::pg_catalog.text FROM pg_catalog.pg_trigger g WHERE g.tgrelid = r.oid \
                     AND g.tgenabled IN ('O', 'A')), \
                     (SELECT ARRAY[c.same_time, coalesce((pg_catalog.to_jsonb(c) ->> 'one_row')::pg_catalog.bool, false)] \
                     FROM arras.mope_column c WHERE c.id = $1) \
                     FROM pg_catalog.pg_class r JOIN pg_catalog.pg_namespace n ON n.oid = r.relnamespace \
                     WHERE n.nspname = $2 AND r.relname = $3";
    for one in stored {
        let Stored { column, protocol, place: [schema, table, attribute] } = one;
        let number = column.number();
        let asked = snapshot.client.query_opt(statement, &[&number, schema, table, attribute]).await;
        let Some(row) = asked.map_err(|error| failure(&error))? else { continue };
        let malformed = |error: Error| ChannelError::Malformed(error.to_string());
        let known: bool = row.try_get(0).map_err(malformed)?;
        let triggers: Vec<String> = row.try_get(1).map_err(malformed)?;
        let kept: Option<Vec<bool>> = row.try_get(2).map_err(malformed)?;
        let place = format!("{schema}.{table}.{attribute}");
        if kept.is_none() {
            wrong.push(format!("the order of column {column} ({place}) is not registered: start the proxy"));
        } else if kept != Some(vec![protocol.same_time(), protocol.one_row()]) {
            wrong.push(format!(
                "the order of column {column} ({place}) is kept by another protocol than the schema file says: correct the file"
            ));
        }
        if !known {
            wrong.push(format!(
                "{place} is not known to store labels of now, and statements on it are refused: its table, or labels in it, came past the \
                 proxy; a proxy that runs sets its labels anew"
            ));
        }
        if !known || !protocol.same_time() {
            continue;
        }
        for event in ["delete", "update", "truncate"] {
            let name = format!("arras_order_{column}_{event}");
            // Behind it may be the number of a table that was restored.
            if !triggers.iter().any(|there| there.strip_prefix(&name).is_some_and(is_end)) {
                wrong.push(format!(
                    "the trigger {name} of {schema}.{table} is not there or not enabled, so values whose last row goes stay: \
                     run, as the table's owner, SELECT arras.mope_store_in({number}, '{schema}.{table}', '{attribute}')"
                ));
            }
        }
    }
    Ok(wrong)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A type's name that PostgreSQL looks for on the session's path may be that of a domain, whose conditions are code of whoever made it:
    /// where no path is set, the types of variables are named with their schema, or by a word of SQL's own.
    #[test]
    fn no_type_is_looked_for_on_a_path_of_others() {
        let of_sql = ["bigint", "bit", "boolean", "integer", "numeric", "record"];
        let is_said = |kind: &str| {
            of_sql.contains(&kind) || kind.starts_with("pg_catalog.") || kind.starts_with("arras.")
        };
        let is_word = |letter: char| letter.is_ascii_alphanumeric() || "_.".contains(letter);
        let mut looked_at = 0;
        for made in FUNCTIONS.split("CREATE OR REPLACE FUNCTION arras.").skip(1) {
            let mut parts = made.split("$$");
            let (head, body) = (parts.next().unwrap_or_default(), parts.next().unwrap_or_default());
            if head.contains("SET search_path") {
                continue;
            }
            let declared = body.split_once("BEGIN").map_or("", |(declared, _)| declared);
            let lines = declared.split(';').map(|line| line.trim().trim_start_matches("DECLARE").trim());
            let variables = lines.filter_map(|line| line.split_once(' '));
            let variables = variables.map(|(_, kind)| kind.trim().trim_start_matches("CONSTANT "));
            for kind in variables.chain(body.split("::").skip(1)) {
                let kind = kind.split(|letter| !is_word(letter)).next().unwrap_or_default();
                looked_at += 1;
                assert!(is_said(kind), "{kind} in {head}");
            }
        }
        assert!(looked_at > 5, "{looked_at} types");
    }

    #[test]
    fn every_function_of_the_script_is_looked_at() {
        let found = bodies(FUNCTIONS);
        let made = ["FUNCTION", "AGGREGATE"].map(|kind| format!("CREATE OR REPLACE {kind}"));
        assert_eq!(found.len(), made.iter().map(|kind| FUNCTIONS.matches(kind).count()).sum::<usize>());
        let names: BTreeSet<&str> = found.iter().map(|(name, _)| name.as_str()).collect();
        assert!(names.contains("mope_commit") && names.contains("mope_note_truncated"), "{names:?}");
        assert!(found.iter().all(|(_, body)| body.len() > 10));
    }
}
