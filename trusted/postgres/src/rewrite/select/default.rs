//! Sums of nothing: `coalesce(sum(c), 0)`.

use super::{Mode, What};
use crate::catalog::Encryption;
use crate::column_type::ColumnType;
use crate::error::SqlError;
use crate::plan::{Fold, Form, Piece, Source};
use crate::rewrite::analysis::Analysis;
use crate::rewrite::constant::{Constant, Written, constant};
use crate::rewrite::expression::argument_of;
use crate::rewrite::scope::Scope;
use sqlparser::ast::{Expr, Function, FunctionArguments};
use std::sync::Arc;

/// The arguments of a call of a function by its plain name, if it is one.
fn arguments<'e>(function: &'e Function, name: &str) -> Option<Vec<&'e Expr>> {
    let FunctionArguments::List(list) = &function.args else { return None };
    let is_called = function.name.to_string().eq_ignore_ascii_case(name)
        && list.duplicate_treatment.is_none()
        && list.clauses.is_empty()
        && function.filter.is_none()
        && function.over.is_none();
    is_called.then(|| list.args.iter().map(argument_of).collect()).flatten()
}

/// Is a constant one of the type that sums of a column have, as PostgreSQL finds it?
fn is_of_sum(value: &Constant, encryption: &Encryption) -> bool {
    let is_whole = |digits: &str| digits.parse::<i32>().is_ok();
    let sum = Fold::Sum.kind(encryption.kind);
    match (&value.source, &value.cast) {
        (Source::Constant(Some(digits)), None) => value.written == Written::Number && is_whole(digits),
        (Source::Constant(Some(digits)), Some(name)) => {
            is_whole(digits) && ColumnType::parse(name).is_some_and(ColumnType::is_integer)
        }
        (Source::Parameter(_), None) => true,
        (Source::Parameter(_), Some(name)) => ColumnType::parse(name)
            .is_some_and(|kind| kind.modifier() == -1 && (kind.is_integer() || kind == sum)),
        _ => false,
    }
}

impl Analysis<'_> {
    /// `coalesce(sum(c), 0)`, of no group: where there is nothing to add, the server sends the constant, sealed for the
    /// statement's results as one value to add. None if the function is something else.
    pub(super) fn sum_or_default(
        &mut self,
        function: &Function,
        scope: &Scope<'_>,
        mode: Mode<'_>,
    ) -> Result<Option<What>, SqlError> {
        let listed: Option<[&Expr; 2]> =
            arguments(function, "coalesce").and_then(|list| list.try_into().ok());
        let Some([Expr::Function(sum), default]) = listed else { return Ok(None) };
        let argument: Option<[&Expr; 1]> = arguments(sum, "sum").and_then(|list| list.try_into().ok());
        let Some([argument]) = argument else { return Ok(None) };
        let (Mode::Top, Some(default)) = (mode, constant(self.lexemes, default)) else { return Ok(None) };
        let Some(reference) = self.reference(argument, scope)? else { return Ok(None) };
        let encryption = Arc::new(reference.encryption.chosen_in(self.text));
        if !encryption.sum {
            return Err(self.undeclared(&reference, "function sum()", "sum"));
        }
        let Some(at) = self.token_of_name(sum).filter(|_| is_of_sum(&default, &encryption)) else {
            return Ok(None);
        };
        self.understand_name(&function.name);
        self.understand_name(&sum.name);
        self.keep(&reference);
        let column = self.source(&reference.tokens).to_owned();
        let close = self.lexemes.after_parentheses(at + 1).map_or(reference.tokens.end, |end| end - 1);
        self.edits.replace(self.lexemes.bytes(at), vec![Piece::Text("array_agg".into())]);
        self.edits.insert(self.lexemes.bytes(close).end, format!(" FILTER (WHERE {column} IS NOT NULL)"));
        let mut pieces = vec![Piece::Text("ARRAY[".into())];
        pieces.extend(self.value_pieces(&default, Form::Sealed(whole(&encryption)))?);
        pieces.push(Piece::Text("]::bytea[]".into()));
        let bytes = self.bytes(&default.tokens);
        self.understand_tokens(default.tokens.clone());
        self.edits.replace(bytes, pieces);
        Ok(Some(What::Fold(Fold::Sum, encryption)))
    }
}

/// The column as one whose decimals are as many as a value has: a sum of nothing is the constant itself.
fn whole(encryption: &Arc<Encryption>) -> Arc<Encryption> {
    match encryption.kind {
        ColumnType::Numeric(Some(_)) => {
            Arc::new(Encryption { kind: ColumnType::Numeric(None), ..(**encryption).clone() })
        }
        _ => encryption.clone(),
    }
}
