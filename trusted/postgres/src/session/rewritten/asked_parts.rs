//! Parts of declared tables that were made past the proxy: before a text goes on that names relations which are not declared, and before
//! a statement is bound that does, the database is asked whether one of them is such a part. Only names are sent.

use super::{Requests, tables};
use crate::catalog::{Catalog, is_part};
use crate::error::{SqlError, sqlstate};
use crate::fields::Bind;
use crate::pipeline::Asked;
use crate::replies;
use crate::rewrite::{Means, Relation, may_mean, means};
use crate::rewriting::Rewriting;
use crate::session::names::cut;
use crate::session::physical::{self, close, close_portal, execute, parse};
use crate::session::reading::{Exchange, Reading, Rows};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// What it asks is prepared under this name where a pipeline is under way.
const ASKS: &[u8] = b"arras asks";

/// Prepared statements of a session of which it is kept for each what it means; of others, what they mean together.
const STATEMENTS_MAX: usize = 4096;
/// Relations that are kept of a session's prepared statements.
const RELATIONS_MAX: usize = 64 * 1024;

/// A table, by schema and name.
type Table = (String, String);

/// What the statements of a session mean that is not declared.
#[derive(Default)]
pub(super) struct Meant {
    /// Of the last text.
    last: BTreeSet<Relation>,
    statements: BTreeMap<Box<[u8]>, BTreeSet<Relation>>,
    /// Of those that are too many.
    others: BTreeSet<Relation>,
    /// How many were entered into these.
    kept: usize,
    /// Statements that were asked about since the client synchronised last. What they mean is locked by them from then on.
    asked: BTreeSet<Box<[u8]>>,
}

impl Meant {
    /// Does a prepared statement of this name mean relations that are to be asked about?
    pub(super) fn has(&self, name: &[u8]) -> bool {
        !self.others.is_empty() || (!self.statements.is_empty() && self.statements.contains_key(cut(name)))
    }

    /// A message of this type comes.
    pub(super) fn before(&mut self, kind: u8) {
        if matches!(kind, b'S' | b'Q') {
            self.asked.clear();
        }
    }

    /// What a statement of this name means was asked about.
    fn has_asked(&mut self, name: &[u8]) {
        if self.asked.len() < STATEMENTS_MAX {
            self.asked.insert(cut(name).into());
        }
    }

    fn of(&self, name: &[u8]) -> BTreeSet<Relation> {
        self.statements.get(cut(name)).unwrap_or(&self.others).clone()
    }

    /// A statement of this name may be prepared; the one that had the name may still have it.
    ///
    /// # Errors
    /// 53200 if the session's statements mean too much to be kept.
    fn add(&mut self, name: &[u8], relations: &BTreeSet<Relation>) -> Result<(), SqlError> {
        if relations.is_empty() {
            return Ok(());
        }
        let kept = self.kept + relations.len();
        if kept > RELATIONS_MAX {
            let message = "the session's prepared statements name too many tables for the proxy";
            return Err(SqlError::new("53200", message).hint("Begin another session."));
        }
        self.kept = kept;
        let is_known = self.statements.contains_key(cut(name));
        if is_known || self.statements.len() < STATEMENTS_MAX {
            self.statements.entry(cut(name).into()).or_default().extend(relations.iter().cloned());
        } else {
            self.others.extend(relations.iter().cloned());
        }
        Ok(())
    }
}

/// What nothing but the end of a transaction that has failed is told, in PostgreSQL's words.
fn has_failed() -> SqlError {
    let message = "current transaction is aborted, commands ignored until end of transaction block";
    SqlError::new(sqlstate::IN_FAILED_TRANSACTION, message)
}

/// Does a text begin with the end of a transaction?
fn ends_transaction(text: &str) -> bool {
    let first = text.trim_start().split(|letter: char| !letter.is_ascii_alphabetic()).next();
    let ends = ["commit", "end", "rollback", "abort"];
    first.is_some_and(|first| ends.iter().any(|word| first.eq_ignore_ascii_case(word)))
}

fn literal(text: &str) -> String {
    format!("E'{}'::pg_catalog.text", text.replace('\\', "\\\\").replace('\'', "''"))
}

/// What asks for the tables that relations are parts of: schema and name of the part, and of the table. By the names whatever schema they are
/// in, as the catalogue knows parts; and as the session has them now, where its transaction sees the past.
fn question(relations: &BTreeSet<Relation>) -> String {
    let row = |(schema, name): &Relation| {
        let schema = schema.as_deref().map_or_else(|| "NULL::pg_catalog.text".to_owned(), literal);
        format!("({schema}, {})", literal(name))
    };
    let rows: Vec<String> = relations.iter().map(row).collect();
    format!(
        "WITH RECURSIVE asked (of_schema, name) AS (VALUES {}), \
         meant (oid, of_schema, name) AS (\
         SELECT c.oid, NULL::pg_catalog.text, a.name FROM asked a JOIN pg_catalog.pg_class c ON c.relname = a.name::pg_catalog.name \
         UNION SELECT CASE WHEN a.of_schema IS NULL THEN pg_catalog.to_regclass(pg_catalog.quote_ident(a.name)) \
         WHEN pg_catalog.has_schema_privilege(pg_catalog.to_regnamespace(pg_catalog.quote_ident(a.of_schema)), 'USAGE') \
         THEN pg_catalog.to_regclass(pg_catalog.quote_ident(a.of_schema) || '.' || pg_catalog.quote_ident(a.name)) END::pg_catalog.oid, \
         a.of_schema, a.name FROM asked a), \
         above (part, of_schema, name, whole) AS (\
         SELECT m.oid, m.of_schema, m.name, p.relid::pg_catalog.oid FROM meant m, \
         LATERAL pg_catalog.pg_partition_ancestors(m.oid::pg_catalog.regclass) AS p (relid) WHERE p.relid <> m.oid \
         UNION SELECT m.oid, m.of_schema, m.name, i.inhparent FROM meant m JOIN pg_catalog.pg_inherits i ON i.inhrelid = m.oid \
         UNION SELECT a.part, a.of_schema, a.name, i.inhparent FROM above a JOIN pg_catalog.pg_inherits i ON i.inhrelid = a.whole) \
         SELECT coalesce(n.nspname::pg_catalog.text, a.of_schema, ''), coalesce(c.relname::pg_catalog.text, a.name), \
         m.nspname::pg_catalog.text, w.relname::pg_catalog.text FROM above a \
         JOIN pg_catalog.pg_class w ON w.oid = a.whole JOIN pg_catalog.pg_namespace m ON m.oid = w.relnamespace \
         LEFT JOIN pg_catalog.pg_class c ON c.oid = a.part LEFT JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace",
        rows.join(", ")
    )
}

impl Requests<'_> {
    /// The tables once more, if a text names parts of declared tables that were not known.
    ///
    /// # Errors
    /// 42P16 for a part of which the tables cannot be read now; 25P02 in a transaction that has failed, in which nothing can be asked.
    pub(super) async fn with_new_parts(
        &mut self,
        text: &str,
        catalog: Arc<Catalog>,
    ) -> Result<Arc<Catalog>, SqlError> {
        self.meant.last.clear();
        if !catalog.has_parts() || tables::is_of_the_session(text) || !may_mean(text, &catalog) {
            return Ok(catalog);
        }
        let Some(Means { relations, executes, prepares }) = self.means(text, &catalog).await? else {
            // What its names are is not known: they are looked for among all that there is.
            self.shared.state().changed_tables = true;
            return self.catalog().await;
        };
        let executed: BTreeSet<Relation> =
            executes.iter().flat_map(|name| self.meant.of(name.as_bytes())).collect();
        prepares.iter().try_for_each(|name| self.meant.add(name.as_bytes(), &relations))?;
        let all: BTreeSet<Relation> = relations.union(&executed).cloned().collect();
        self.meant.last = relations;
        if all.is_empty() {
            return Ok(catalog);
        }
        if self.shared.state().status == b'E' {
            return if ends_transaction(text) { Ok(catalog) } else { Err(has_failed()) };
        }
        let found = match self.parts_among(&all, &catalog).await {
            // It has failed meanwhile.
            Err(error) if error.sqlstate == sqlstate::IN_FAILED_TRANSACTION && ends_transaction(text) => {
                return Ok(catalog);
            }
            found => found?,
        };
        let is_executed = |(part, _): &&(Table, Table)| executed.iter().any(|(_, name)| *name == part.1);
        if let Some((part, whole)) = found.iter().find(is_executed) {
            return Err(is_part(part, whole));
        }
        let Some((part, whole)) = found.into_iter().find(|(part, _)| !catalog.knows_part(part)) else {
            return Ok(catalog);
        };
        self.shared.state().changed_tables = true;
        let catalog = self.catalog().await?;
        // In a pipeline they are not read, and a transaction may see them as they were.
        if catalog.knows_part(&part) { Ok(catalog) } else { Err(is_part(&part, &whole)) }
    }

    /// What a text means; none if it cannot be read.
    async fn means(&self, text: &str, catalog: &Catalog) -> Result<Option<Means>, SqlError> {
        if self.shared.state().settings.require_readable().is_err() {
            return Ok(None);
        }
        let _room = match Rewriting::may_count(text) {
            true => self.behind.entered.unless_cancelled(self.rewriting.read(text)).await?,
            false => None,
        };
        Ok(means(text, catalog).ok())
    }

    /// Keeps what the last text means, which is prepared under a name.
    ///
    /// # Errors
    /// 53200 if it cannot be kept.
    pub(super) fn keep_meant(&mut self, name: &[u8]) -> Result<(), SqlError> {
        let relations = std::mem::take(&mut self.meant.last);
        // What is passed over takes nothing's place.
        if name.is_empty() && !self.shared.state().pipeline.is_skipping() {
            let before = self.meant.statements.remove(name).map_or(0, |relations| relations.len());
            self.meant.kept = self.meant.kept.saturating_sub(before);
        }
        if !relations.is_empty() {
            self.meant.has_asked(name);
        }
        self.meant.add(name, &relations)
    }

    /// That nothing which a prepared statement means has become a part of a declared table.
    ///
    /// # Errors
    /// 42P16 if it has; 25P02 in a transaction that has failed.
    pub(super) async fn require_no_part(&mut self, name: &[u8]) -> Result<(), SqlError> {
        if !self.meant.has(name) || self.meant.asked.contains(cut(name)) {
            return Ok(());
        }
        let relations = self.meant.of(name);
        let catalog = self.catalog().await?;
        if relations.is_empty() || !catalog.has_parts() {
            return Ok(());
        }
        if self.shared.state().status == b'E' {
            return Err(has_failed());
        }
        if let Some((part, whole)) = self.parts_among(&relations, &catalog).await?.first() {
            self.shared.state().changed_tables = true;
            return Err(is_part(part, whole));
        }
        self.meant.has_asked(name);
        Ok(())
    }

    /// Which of some relations are parts of declared tables, and of which.
    async fn parts_among(
        &mut self,
        relations: &BTreeSet<Relation>,
        catalog: &Catalog,
    ) -> Result<Vec<(Table, Table)>, SqlError> {
        let question = question(relations);
        let can_ask = self.shared.state().can_ask();
        let rows =
            if can_ask { self.answer(&question).await? } else { self.answer_between(&question).await? };
        let read = |row: Vec<Option<String>>| {
            let texts: Vec<String> = row.into_iter().collect::<Option<_>>()?;
            let [schema, name, of_schema, whole] = <[String; 4]>::try_from(texts).ok()?;
            Some(((schema, name), (of_schema, whole)))
        };
        let declares = |table: &Table| catalog.schema().tables.contains_key(table);
        let is_it = |(part, whole): &(Table, Table)| declares(whole) && !declares(part);
        Ok(rows.into_iter().filter_map(read).filter(is_it).collect())
    }

    /// Asks the database something between a client's messages, before it synchronises. Nothing is answered if what comes is passed over.
    async fn answer_between(&mut self, question: &str) -> Result<Rows, SqlError> {
        if self.shared.state().pipeline.is_skipping() {
            return Ok(Rows::new());
        }
        self.hidden_message(Asked::Close, |out| close_portal(out, ASKS));
        self.hidden_message(Asked::Close, |out| close(out, ASKS));
        self.hidden_message(Asked::Parse, |out| parse(out, ASKS, question, &[]));
        let bound = Bind { portal: ASKS, statement: ASKS, formats: vec![], values: vec![], results: vec![] };
        self.hidden_message(Asked::Bind, |out| physical::bind(out, &bound, &[]));
        execute(&mut self.out, ASKS);
        let (exchange, answered) = Exchange::new(true);
        self.sent(Asked::Execute, Reading::Own(Box::new(exchange)), None);
        replies::message(&mut self.out, b'H', |_| ());
        let lost = || SqlError::new(sqlstate::CONNECTION_FAILURE, "the database did not answer the proxy");
        self.write().await.map_err(|_| lost())?;
        match answered.await {
            Ok(Ok(answer)) => Ok(answer.rows),
            // It has been told by the database's own words.
            Ok(Err(_)) if self.failed_meanwhile().await => Ok(Rows::new()),
            Ok(Err(error)) => Err(error),
            Err(_) => Ok(Rows::new()),
        }
    }
}
