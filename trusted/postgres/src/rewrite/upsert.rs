//! `INSERT ... ON CONFLICT DO UPDATE SET c = t.c + EXCLUDED.c`: new values of encrypted columns where a row is there already.
//!
//! *Races.* The client's own `INSERT` runs first, with all that it sets but what the proxy computes: PostgreSQL inserts each row,
//! or locks the one that is there, waits for whoever has it, and returns it as it is then. So the proxy computes of the row's
//! latest values, and writes them by its place, in the same transaction and under the lock: nobody can have come between.

use super::analysis::{Analysis, Reference};
use super::constant::Constant;
use super::edits::compact;
use super::insert::Columns;
use super::moment::constant_or_moment;
use super::scope::{Relation, Scope};
use super::write::{assigned, stored_forms};
use crate::catalog::Encryption;
use crate::error::{SqlError, sqlstate};
use crate::plan::{
    Computation, Expression, Form, Output, Outputs, Piece, Recompute, Rewritten, Source, Value, Verb,
};
use crate::text::{fold, quoted};
use sqlparser::ast::{
    Assignment, AssignmentTarget, Expr, Ident, Insert, ObjectName, OnConflictAction, OnInsert, SetExpr,
    TableObject,
};
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::sync::Arc;

/// Name of the row that was to be inserted.
const EXCLUDED: &str = "excluded";

/// An `INSERT` that updates what is there.
#[derive(Debug)]
pub(super) struct Upsert {
    /// The tokens of the table's name and alias.
    target: Range<usize>,
    /// What encrypted columns were to be inserted with, where that is one row of constants.
    excluded: Option<BTreeMap<String, Constant>>,
    /// Columns that are set where the row is there.
    assigned: BTreeSet<String>,
    /// Those of them that the proxy computes: name, column, and which of its computations.
    pub(super) computed: Vec<(String, Arc<Encryption>, usize)>,
    /// Columns of the row that it computes with, and the token of each.
    pub(super) reads: Vec<(String, usize)>,
}

impl Analysis<'_> {
    /// What an `INSERT` is that stands alone and has `DO UPDATE`.
    pub(super) fn upsert_of(
        &self,
        insert: &Insert,
        relation: &Relation,
        columns: Option<&Columns>,
    ) -> Option<Upsert> {
        let Some(OnInsert::OnConflict(conflict)) = &insert.on else { return None };
        let (OnConflictAction::DoUpdate(update), TableObject::TableName(name)) =
            (&conflict.action, &insert.table)
        else {
            return None;
        };
        let is_first = self.lexemes.position_of(insert.insert_token.0.span) == Some(0);
        let alone = is_first && self.inserted.is_none() && relation.is_encrypted();
        let start = name.0.first().and_then(|part| self.lexemes.position_of(part.as_ident()?.span));
        let (true, Some(start), Some(columns)) = (alone, start, columns) else { return None };
        let named = start + 2 * name.0.len() - 1;
        let end = if self.lexemes.is_word(named, "as") { named + 2 } else { named };
        let assigned = update.assignments.iter().flat_map(targets_of).filter_map(last_of).collect();
        let excluded = self.excluded_of(insert, columns);
        let (computed, reads) = (Vec::new(), Vec::new());
        Some(Upsert { target: start..end, excluded, assigned, computed, reads })
    }

    /// What encrypted columns are given by the one row of an `INSERT`.
    fn excluded_of(&self, insert: &Insert, columns: &Columns) -> Option<BTreeMap<String, Constant>> {
        let SetExpr::Values(values) = &*insert.source.as_ref()?.body else { return None };
        let [row] = &values.rows[..] else { return None };
        let mut given = BTreeMap::new();
        for (value, (name, target)) in row.content.iter().zip(&columns.targets) {
            if let (Some(found), Some(encryption)) = (constant_or_moment(self.lexemes, value), target) {
                given.insert(name.clone(), assigned(&found, encryption));
            }
        }
        given.extend(columns.missing.iter().map(|column| (column.name.clone(), column.default.clone())));
        Some(given)
    }

    /// A value that was to be inserted, as its column has it; none if it is not known here. `Err` has the reference back if it is
    /// none of that row.
    pub(super) fn excluded_read(&mut self, reference: Reference) -> Result<Option<Expression>, Reference> {
        let is_excluded = reference.relation.as_deref() == Some(EXCLUDED);
        let Some(upsert) = self.upsert.as_ref().filter(|_| is_excluded) else { return Err(reference) };
        let Some(found) = upsert.excluded.as_ref().and_then(|given| given.get(&reference.column)) else {
            return Ok(None);
        };
        let (found, of) = (found.clone(), &reference.encryption);
        let inner = match &found.source {
            // NULL.
            Source::Constant(None) => Some(Expression::Coalesce(Vec::new())),
            _ => self.computable_constant(found, of),
        };
        Ok(inner.map(|inner| Expression::Assigned(Box::new(inner), of.clone())))
    }

    /// That a column is named with its row before it: the row that is there has it, and the one that was to be inserted.
    pub(super) fn require_row_named(&self, expression: &Expr, scope: &Scope<'_>) -> Result<(), SqlError> {
        let (Expr::Identifier(identifier), Some(_)) = (expression, &self.upsert) else { return Ok(()) };
        let name = fold(&identifier.value, identifier.quote_style.is_some());
        if scope.relations.iter().all(|relation| relation.column(&name).is_none()) {
            return Ok(());
        }
        let at = self.lexemes.position_of(identifier.span).unwrap_or(0);
        let message = format!("column reference \"{name}\" is ambiguous");
        Err(self.at(SqlError::new(sqlstate::AMBIGUOUS_COLUMN, message), at))
    }

    /// Notes that a value is computed with a column of the row that is there; false if that cannot be read.
    pub(super) fn reads_of_upsert(&mut self, names: &[&Ident]) -> bool {
        let Some(upsert) = &mut self.upsert else { return true };
        let folded: Vec<String> =
            names.iter().map(|name| fold(&name.value, name.quote_style.is_some())).collect();
        let at = names.last().and_then(|name| self.lexemes.position_of(name.span)).unwrap_or(0);
        upsert.reads.extend(folded.last().map(|name| (name.clone(), at)));
        folded.len() < 2 || folded.first().is_none_or(|first| first != EXCLUDED)
    }

    /// The columns that a column is, as they are: what the first statement sets them to.
    pub(super) fn left_as_it_is(
        &mut self,
        (name, position): (&str, usize),
        encryption: &Arc<Encryption>,
        relation: &Relation,
    ) -> Option<Vec<Vec<Piece>>> {
        let upsert = self.upsert.as_mut()?;
        upsert.computed.push((name.to_owned(), encryption.clone(), position));
        let row = quoted(relation.name.as_deref().unwrap_or_default());
        let column = |(suffix, _)| vec![Piece::Text(format!("{row}.{}", quoted(&format!("{name}{suffix}"))))];
        Some(stored_forms(encryption).into_iter().map(column).collect())
    }

    /// That what is computed with is as it was before the statement, where the first statement has run.
    fn check_reads(&self, upsert: &Upsert, relation: &Relation) -> Result<(), SqlError> {
        let is_generated = |name: &str| {
            let column = relation.table.as_ref().and_then(|table| table.column(name));
            column.is_some_and(|column| column.is_generated)
        };
        let is_computed = |name: &str| upsert.computed.iter().any(|(computed, ..)| computed == name);
        let changed = upsert
            .reads
            .iter()
            .find(|(name, _)| is_generated(name) || (upsert.assigned.contains(name) && !is_computed(name)));
        match changed {
            None => Ok(()),
            Some((name, at)) => Err(self.unsupported(
                *at,
                format!("column \"{name}\" is set by the same ON CONFLICT DO UPDATE that computes an encrypted column with it"),
                "Set it in a statement of its own.",
            )),
        }
    }

    /// The statements that an `INSERT` is which computes where a row is there.
    pub(super) fn upsert_program(
        &mut self,
        upsert: &Upsert,
        relation: &Relation,
        outputs: Outputs,
    ) -> Result<Recompute, SqlError> {
        self.check_reads(upsert, relation)?;
        let end = self.lexemes.list.len();
        let returning = self.word_at("returning").unwrap_or(end);
        if let Some(at) = self.query_within(returning..end) {
            return Err(self.unsupported(
                at,
                "an INSERT that computes with encrypted columns where a row is there has a sub-query which would see the rows that \
                 it has written"
                    .into(),
                "Read what the sub-query gives in a statement of its own, in the same transaction.",
            ));
        }
        let row = format!("{}.", quoted(relation.name.as_deref().unwrap_or_default()));
        let kept: Vec<usize> = upsert
            .computed
            .iter()
            .map(|(name, encryption, _)| {
                let text = format!("{row}{}", quoted(name));
                self.computed.position_of(vec![Piece::Text(text)], Output::Sealed(encryption.clone()))
            })
            .collect();
        let count = self.computed.read.len();
        let mut read = self.edits.pieces(self.text, self.bytes(&(0..returning)))?;
        // A row that was there has been locked. What triggers do, they would do twice; those of orders count.
        read.push(Piece::Text(" RETURNING ".into()));
        read.extend(self.computed.list());
        read.push(Piece::Text(format!(
            "{row}ctid, {row}tableoid, {row}xmax::pg_catalog.text OPERATOR(pg_catalog.<>) '0', \
             EXISTS (SELECT FROM pg_catalog.pg_trigger arras_of WHERE arras_of.tgrelid OPERATOR(pg_catalog.=) {row}tableoid \
             AND NOT arras_of.tgisinternal AND arras_of.tgenabled OPERATOR(pg_catalog.<>) 'D' \
             AND arras_of.tgtype::integer OPERATOR(pg_catalog.&) 16 OPERATOR(pg_catalog.<>) 0 AND arras_of.tgfoid NOT IN \
             (SELECT arras_in.oid FROM pg_catalog.pg_proc arras_in WHERE arras_in.pronamespace OPERATOR(pg_catalog.=) \
             pg_catalog.to_regnamespace('arras')))"
        )));
        let mut computed = self.computed.computations.clone();
        for ((_, encryption, position), kept) in upsert.computed.iter().zip(&kept) {
            if let Some(Computation { expression, .. }) = computed.get_mut(*position) {
                let new = std::mem::replace(expression, Expression::Coalesce(Vec::new()));
                let kept = Box::new(Expression::Read(*kept, encryption.clone()));
                *expression = Expression::Upserted { is_there: count + 2, new: Box::new(new), kept };
            }
        }
        let write = self.write_of_upsert(upsert, (&row, count), returning)?;
        let read_outputs = self.computed.read.iter().map(|(_, output)| output.clone());
        let read_outputs = read_outputs.chain(std::iter::repeat_n(Output::Plain, 4)).collect();
        let read = self.rewritten_part(read, Outputs::Columns(read_outputs));
        let mut write = self.rewritten_part(write, outputs);
        // Held before either runs.
        write.locks.extend(read.held());
        Ok(Recompute { verb: Verb::Upsert, read, computed, write })
    }

    /// What writes a row that was read: it was there, or has been inserted.
    fn write_of_upsert(
        &mut self,
        upsert: &Upsert,
        (row, count): (&str, usize),
        returning: usize,
    ) -> Result<Vec<Piece>, SqlError> {
        let mut write = vec![Piece::Text("UPDATE ".into())];
        write.extend(self.edits.pieces(self.text, self.bytes(&upsert.target))?);
        write.push(Piece::Text(" SET ".into()));
        let mut comma = "";
        for (name, encryption, position) in &upsert.computed {
            for (suffix, form) in stored_forms(encryption) {
                let column = quoted(&format!("{name}{suffix}"));
                write.push(Piece::Text(format!("{}{column} = ", std::mem::replace(&mut comma, ", "))));
                let source = Source::Computed(*position);
                let number = self.edits.value(Value { source, form: form.clone(), sent_as: None, at: 0 });
                write.extend(super::term::form_pieces(&form, number));
            }
        }
        for (nth, (before, column, kind)) in
            [("WHERE", "ctid", "tid"), ("AND", "tableoid", "oid")].into_iter().enumerate()
        {
            let source = Source::Read(count + nth);
            let number = self.edits.value(Value { source, form: Form::Plain, sent_as: None, at: 0 });
            write.push(Piece::Text(format!(" {before} {row}{column} = ")));
            write.push(Piece::Value(number));
            write.push(Piece::Text(format!("::{kind}")));
        }
        let end = self.lexemes.list.len();
        if returning < end {
            write.push(Piece::Text(" ".into()));
            write.extend(self.edits.pieces(self.text, self.bytes(&(returning..end)))?);
        }
        Ok(write)
    }

    /// One of a program's statements.
    fn rewritten_part(&self, pieces: Vec<Piece>, outputs: Outputs) -> Rewritten {
        let (pieces, values) = compact(pieces, &self.edits.values);
        let parameters = self.parameter_types(&values);
        let locks = self.locks(&pieces, &values);
        let (defaults, layouts) = (self.defaults.clone(), self.layouts.clone());
        Rewritten { pieces, values, parameters, outputs, locks, defaults, layouts }
    }
}

fn targets_of(assignment: &Assignment) -> &[ObjectName] {
    match &assignment.target {
        AssignmentTarget::ColumnName(name) => std::slice::from_ref(name),
        AssignmentTarget::Tuple(names) => names,
    }
}

fn last_of(name: &ObjectName) -> Option<String> {
    let identifier = name.0.first()?.as_ident()?;
    Some(fold(&identifier.value, identifier.quote_style.is_some()))
}
