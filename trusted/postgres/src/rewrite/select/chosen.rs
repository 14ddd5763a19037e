//! Results that are one of several values of a column: `CASE`, `coalesce`. The server chooses among sealed values, the proxy
//! opens what was chosen.

use super::What;
use crate::catalog::Encryption;
use crate::error::SqlError;
use crate::plan::{Form, Piece};
use crate::rewrite::analysis::Analysis;
use crate::rewrite::constant::constant;
use crate::rewrite::expression::argument_of;
use crate::rewrite::scope::Scope;
use crate::rewrite::term::Term;
use sqlparser::ast::{Expr, FunctionArguments};
use std::ops::Range;
use std::sync::Arc;

/// The values among which an expression chooses, and the conditions that it chooses by.
fn choices(expression: &Expr) -> Option<(Vec<&Expr>, Vec<&Expr>)> {
    match expression {
        Expr::Nested(inner) => choices(inner),
        Expr::Case { operand: None, conditions, else_result, .. } => {
            let values = conditions.iter().map(|when| &when.result).chain(else_result.as_deref()).collect();
            Some((values, conditions.iter().map(|when| &when.condition).collect()))
        }
        Expr::Function(function) if function.name.to_string().eq_ignore_ascii_case("coalesce") => {
            let FunctionArguments::List(list) = &function.args else { return None };
            Some((list.args.iter().filter_map(argument_of).collect(), Vec::new()))
        }
        _ => None,
    }
}

impl Analysis<'_> {
    /// What a choice among values of an encrypted column gives; none if it is no such choice, and nothing was touched.
    pub(super) fn chosen(&mut self, expression: &Expr, scope: &Scope<'_>) -> Result<Option<What>, SqlError> {
        let Some((values, _)) = choices(expression) else { return Ok(None) };
        let Some(encryption) = self.column_of(&values, scope)? else { return Ok(None) };
        self.choose(&[expression], &Form::Sealed(encryption.clone()), &encryption, scope)?;
        Ok(Some(What::Sealed(encryption, false)))
    }

    /// The first encrypted column among values.
    fn column_of(
        &mut self,
        values: &[&Expr],
        scope: &Scope<'_>,
    ) -> Result<Option<Arc<Encryption>>, SqlError> {
        for value in values {
            if constant(self.lexemes, value).is_some() {
                continue;
            }
            let found = match choices(value) {
                Some((inner, _)) => self.column_of(&inner, scope)?,
                None => self.reference(value, scope)?.map(|reference| reference.encryption),
            };
            if found.is_some() {
                return Ok(found);
            }
        }
        Ok(None)
    }

    /// Does an expression choose among constants and values of one column only?
    pub(in crate::rewrite) fn only_chooses(
        &mut self,
        expression: &Expr,
        encryption: &Encryption,
        scope: &Scope<'_>,
    ) -> Result<bool, SqlError> {
        let Some((values, _)) = choices(expression) else { return Ok(false) };
        for value in values {
            let fits = constant(self.lexemes, value).is_some()
                || self.only_chooses(value, encryption, scope)?
                || self
                    .reference(value, scope)?
                    .is_some_and(|found| found.encryption.id == encryption.id && found.terms);
            if !fits {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// The text of some tokens that choose among values of a column, as a value in a form: the sealed one or a term.
    pub(in crate::rewrite) fn chosen_pieces(
        &mut self,
        expression: &Expr,
        tokens: &Range<usize>,
        form: &Form,
        encryption: &Arc<Encryption>,
        scope: &Scope<'_>,
    ) -> Result<Vec<Piece>, SqlError> {
        let other = self.edits.take();
        let chosen = self.choose(&[expression], form, encryption, scope);
        self.place_plain_parameters_in(tokens.clone());
        let pieces = self.edits.pieces(self.text, self.bytes(tokens));
        self.edits.restore(other);
        chosen?;
        pieces
    }

    fn choose(
        &mut self,
        values: &[&Expr],
        form: &Form,
        encryption: &Arc<Encryption>,
        scope: &Scope<'_>,
    ) -> Result<(), SqlError> {
        for value in values {
            if let Some(found) = constant(self.lexemes, value) {
                self.replace_constant(&found, form.clone())?;
                continue;
            }
            if let Some((inner, conditions)) = choices(value) {
                self.expressions(conditions, scope, "CASE")?;
                self.understand_called(value);
                self.choose(&inner, form, encryption, scope)?;
                continue;
            }
            match self.reference(value, scope)? {
                Some(reference) if reference.encryption.id == encryption.id => match form {
                    Form::Equality(_) => self.replace_with_term(&reference, Term::Equality),
                    Form::Order(_) => self.replace_with_term(&reference, Term::Order),
                    Form::Plain | Form::Sealed(_) | Form::EqualityArray(_) | Form::Bound(..) => {
                        self.keep(&reference)
                    }
                },
                Some(reference) => {
                    return Err(self.unreadable(&reference, "a choice among values of several columns"));
                }
                None => {
                    return Err(self.unsupported(
                        super::first_token(self.lexemes, value),
                        format!(
                            "a value of column {} is chosen beside one that the server computes",
                            encryption.label
                        ),
                        "Select both, and choose in the application.",
                    ));
                }
            }
        }
        Ok(())
    }

    /// The name of the function that an expression calls is understood.
    fn understand_called(&mut self, expression: &Expr) {
        match expression {
            Expr::Function(function) => self.understand_name(&function.name),
            Expr::Nested(inner) => self.understand_called(inner),
            _ => {}
        }
    }
}
