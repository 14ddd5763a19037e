//! Defaults of encrypted columns: PostgreSQL keeps a sealed constant or moment, and the proxy seals the constant, or what the moment is by
//! then, anew for each row that it is stored in.

use crate::catalog::{Encryption, Order};
use crate::error::SqlError;
use crate::plan::{Form, Piece, Rewritten, Source, Value};
use crate::rewrite::analysis::Analysis;
use crate::rewrite::constant::Constant;
use crate::rewrite::moment::{assigned_moment, constant_or_moment};
use crate::rewrite::term::{Term, form_pieces};
use crate::rewrite::write::assigned;
use crate::text::{fold, quoted};
use sqlparser::ast::{AlterTableOperation, Expr, Ident};
use std::collections::BTreeSet;
use std::sync::Arc;

/// A value of a column as one of its terms.
pub(super) fn term_form(term: Term, encryption: &Arc<Encryption>) -> Form {
    match term {
        Term::Equality => Form::Equality(encryption.clone()),
        Term::Order => Form::Order(encryption.clone()),
        Term::Text => Form::Text(encryption.clone()),
    }
}

/// Takes the defaults of a new column's terms away, which the rows had that were there before it.
pub(super) fn terms_without_default(table: &str, name: &str, encryption: &Encryption) -> Option<Rewritten> {
    let dropped = encryption
        .terms()
        .map(|term| format!("ALTER COLUMN {} DROP DEFAULT", quoted(&format!("{name}{}", term.suffix()))));
    let dropped: Vec<String> = dropped.collect();
    (!dropped.is_empty()).then(|| Rewritten::plain(format!("ALTER TABLE {table} {}", dropped.join(", "))))
}

/// As what a column's default is kept: a moment as itself, not as what it is now.
pub(super) fn kept_form(default: &Constant, encryption: &Arc<Encryption>) -> Form {
    match default.source {
        Source::Moment(_) => Form::Default(encryption.clone()),
        _ => Form::Sealed(encryption.clone()),
    }
}

/// A new column of a table gets the moment as its default that the rows which were there have as it was. That of a constant is the
/// same for all.
pub(super) fn later_default(
    table: &str,
    name: &str,
    encryption: &Arc<Encryption>,
    default: &Constant,
) -> Option<Rewritten> {
    let Source::Moment(_) = default.source else { return None };
    let column = quoted(name);
    let form = Form::Default(encryption.clone());
    let set = Piece::Text(format!("ALTER TABLE {table} ALTER COLUMN {column} SET DEFAULT "));
    let pieces = std::iter::once(set).chain(form_pieces(&form, 0)).collect();
    let value = Value { source: default.source.clone(), form, sent_as: None, at: 0 };
    Some(Rewritten { pieces, values: vec![value], ..Rewritten::default() })
}

/// Columns of which an `ALTER TABLE` says several things.
pub(super) fn named_twice(operations: &[AlterTableOperation]) -> BTreeSet<String> {
    let names = operations.iter().flat_map(|operation| match operation {
        AlterTableOperation::AddColumn { column_def, .. } => vec![&column_def.name],
        AlterTableOperation::AlterColumn { column_name, .. } => vec![column_name],
        AlterTableOperation::DropColumn { column_names, .. } => column_names.iter().collect(),
        _ => Vec::new(),
    });
    let mut seen = BTreeSet::new();
    let names = names.map(|name| fold(&name.value, name.quote_style.is_some()));
    names.filter(|name| !seen.insert(name.clone())).collect()
}

impl Analysis<'_> {
    /// That a new column may get a moment as its default once the rest of the statement is done: nothing else there is about it.
    pub(super) fn check_later_default(
        &self,
        default: &Constant,
        encryption: &Encryption,
        is_named_twice: bool,
    ) -> Result<(), SqlError> {
        match default.source {
            Source::Moment(_) if is_named_twice => Err(self.unsupported(
                0,
                format!(
                    "an ALTER TABLE adds column {} with a moment as its default, and says more of it",
                    encryption.label
                ),
                "Say it in statements of their own.",
            )),
            _ => Ok(()),
        }
    }

    /// `DEFAULT` and a constant as a value of a column in a form.
    pub(super) fn default_clause(
        &mut self,
        default: Option<&Constant>,
        form: Form,
    ) -> Result<Vec<Piece>, SqlError> {
        let Some(default) = default else { return Ok(Vec::new()) };
        let mut pieces = vec![Piece::Text(" DEFAULT ".into())];
        pieces.extend(self.value_pieces(default, form)?);
        Ok(pieces)
    }

    /// The constant that a column's default is. Parameters are none: a definition has no values bound to it.
    pub(super) fn default_constant(
        &self,
        value: &Expr,
        encryption: &Encryption,
        at: usize,
    ) -> Result<Constant, SqlError> {
        let is_one = |found: &Constant| match found.source {
            // What another type of days and moments says hangs on the zone of each statement that stores it.
            Source::Constant(_) => found
                .cast_kind()
                .is_none_or(|kind| !kind.is_time() || kind.plain() == encryption.kind.plain()),
            Source::Moment(_) => assigned_moment(found, encryption.kind).is_some(),
            _ => false,
        };
        let found = constant_or_moment(self.lexemes, value).filter(is_one);
        found.map(|found| assigned(&found, encryption)).ok_or_else(|| {
            self.unsupported(
                at,
                format!(
                    "the default of column {} is no constant or moment: the server would compute it, and see it",
                    encryption.label
                ),
                "Let the application give the value, or use a constant.",
            )
        })
    }

    /// That a column may be added with a default.
    pub(super) fn check_added(&self, encryption: &Encryption, at: usize) -> Result<(), SqlError> {
        let why = match encryption.order {
            Some(Order::Stope) => "ordered by stOPE, which counts the rows that have a value",
            Some(order) if order.hides_frequency() => "ordered so that each row has a place of its own",
            _ if encryption.text.is_some() => "found by its words, which are entered with each value",
            Some(_) | None => return Ok(()),
        };
        Err(self.unsupported(
            at,
            format!("column {} is {why}: it is not added with a default", encryption.label),
            "Add it without one, SET DEFAULT, and UPDATE the rows that are there.",
        ))
    }

    /// `ALTER COLUMN c SET DEFAULT 5`.
    pub(super) fn set_default(
        &mut self,
        column: &Ident,
        encryption: &Arc<Encryption>,
        value: &Expr,
    ) -> Result<(), SqlError> {
        let at = self.lexemes.position_of(column.span).unwrap_or(0);
        let default = self.default_constant(value, encryption, at)?;
        self.understand(column);
        if default.source == Source::Constant(None) {
            return Ok(());
        }
        let form = kept_form(&default, encryption);
        self.replace_constant(&default, form)
    }
}
