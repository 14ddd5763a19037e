//! Results that are one of several values of a column: `CASE`, `coalesce`. The server chooses among sealed values, the proxy
//! opens what was chosen.

use super::What;
use crate::catalog::Encryption;
use crate::error::SqlError;
use crate::plan::Form;
use crate::rewrite::analysis::Analysis;
use crate::rewrite::constant::constant;
use crate::rewrite::expression::argument_of;
use crate::rewrite::scope::Scope;
use sqlparser::ast::{Expr, FunctionArguments};
use std::sync::Arc;

/// The values among which an expression chooses, and the conditions that it chooses by.
fn choices(expression: &Expr) -> Option<(Vec<&Expr>, Vec<&Expr>)> {
    match expression {
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
        self.choose(&[expression], &encryption, scope)?;
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

    fn choose(
        &mut self,
        values: &[&Expr],
        encryption: &Arc<Encryption>,
        scope: &Scope<'_>,
    ) -> Result<(), SqlError> {
        for value in values {
            if let Some(found) = constant(self.lexemes, value) {
                self.replace_constant(&found, Form::Sealed(encryption.clone()))?;
                continue;
            }
            if let Some((inner, conditions)) = choices(value) {
                self.expressions(conditions, scope, "CASE")?;
                if let Expr::Function(function) = value {
                    self.understand_name(&function.name);
                }
                self.choose(&inner, encryption, scope)?;
                continue;
            }
            match self.reference(value, scope)? {
                Some(reference) if reference.encryption.id == encryption.id => self.keep(&reference),
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
}
