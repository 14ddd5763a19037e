//! Defaults of encrypted columns: PostgreSQL keeps a sealed constant, and the proxy seals it anew for each row that it is
//! stored in.

use crate::catalog::{Encryption, Order};
use crate::error::SqlError;
use crate::plan::{Form, Piece, Rewritten, Source};
use crate::rewrite::analysis::Analysis;
use crate::rewrite::constant::{Constant, constant};
use crate::rewrite::term::Term;
use crate::rewrite::write::assigned;
use crate::text::quoted;
use sqlparser::ast::{ColumnDef, ColumnOption, Expr, Ident};
use std::sync::Arc;

/// A value of a column as one of its terms.
pub(super) fn term_form(term: Term, encryption: &Arc<Encryption>) -> Form {
    match term {
        Term::Equality => Form::Equality(encryption.clone()),
        Term::Order => Form::Order(encryption.clone()),
        Term::Text => Form::Text(encryption.clone()),
    }
}

/// Has a column's definition a default other than NULL?
pub(super) fn has_default(column: &ColumnDef) -> bool {
    column.options.iter().any(|option| match &option.option {
        ColumnOption::Default(Expr::Value(value)) => value.value != sqlparser::ast::Value::Null,
        ColumnOption::Default(_) => true,
        _ => false,
    })
}

/// Takes the defaults of a new column's terms away, which the rows had that were there before it.
pub(super) fn terms_without_default(table: &str, name: &str, encryption: &Encryption) -> Option<Rewritten> {
    let dropped = encryption
        .terms()
        .map(|term| format!("ALTER COLUMN {} DROP DEFAULT", quoted(&format!("{name}{}", term.suffix()))));
    let dropped: Vec<String> = dropped.collect();
    (!dropped.is_empty()).then(|| Rewritten::plain(format!("ALTER TABLE {table} {}", dropped.join(", "))))
}

impl Analysis<'_> {
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
        let found = constant(self.lexemes, value).filter(|found| matches!(found.source, Source::Constant(_)));
        found.map(|found| assigned(&found, encryption)).ok_or_else(|| {
            self.unsupported(
                at,
                format!(
                    "the default of column {} is no constant: the server would compute it, and see it",
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
        self.replace_constant(&default, Form::Sealed(encryption.clone()))
    }
}
