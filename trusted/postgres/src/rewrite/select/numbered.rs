//! Results that `ORDER BY`, `GROUP BY` and `DISTINCT ON` name, by number or name.

use super::{ResultColumn, What, item};
use crate::error::SqlError;
use crate::plan::Piece;
use crate::rewrite::analysis::Analysis;
use crate::rewrite::scope::Scope;
use sqlparser::ast::{Expr, GroupByExpr, Select};
use std::ops::Range;

/// The place of the result that an expression names, if it does: its number, or the first of its name.
pub(super) fn place_of(expression: &Expr, results: &[ResultColumn]) -> Option<usize> {
    if let Some(number) = item::ordinal(expression) {
        return number.checked_sub(1).filter(|place| *place < results.len());
    }
    let name = item::identifier(expression)?;
    results.iter().position(|result| result.name.as_ref() == Some(&name))
}

impl Analysis<'_> {
    /// What names a result that is no column: the number of a plain one is changed by the terms that stand before it, and what is computed
    /// of an encrypted column is refused.
    pub(super) fn named_result(
        &mut self,
        expression: &Expr,
        reader: &str,
        results: &[ResultColumn],
    ) -> Result<(), SqlError> {
        if let Some(number) = item::ordinal(expression) {
            let rest = results.iter().position(|result| matches!(result.what, What::Rest));
            if let Some(rest) = rest.filter(|rest| number > *rest) {
                return self.number_behind_rest(expression, number, results.split_at(rest), reader);
            }
        }
        let Some(place) = place_of(expression, results) else { return Ok(()) };
        let (before, from) = results.split_at(place);
        let Some(result) = from.first() else { return Ok(()) };
        let at = item::tokens_of(self.lexemes, expression);
        if !result.is_plain() {
            let name = result.name.clone().unwrap_or_default();
            return Err(self.unsupported(
                at.map_or(0, |tokens| tokens.start),
                format!("\"{name}\" is computed of an encrypted column: {reader} cannot read it"),
                "Name the column itself, or do it in the application.",
            ));
        }
        let terms: usize = before.iter().map(|result| result.what.terms()).sum();
        if let (Some(number), Some(tokens), 1..) = (item::ordinal(expression), at, terms) {
            self.renumber(tokens, number + terms);
        }
        Ok(())
    }

    fn renumber(&mut self, tokens: Range<usize>, number: usize) {
        let bytes = self.bytes(&tokens);
        self.understand_tokens(tokens);
        self.edits.replace(bytes, vec![Piece::Text(number.to_string())]);
    }

    /// A number that counts columns of a relation that is not known: where all terms stand before these, it is as many more.
    fn number_behind_rest(
        &mut self,
        expression: &Expr,
        number: usize,
        (before, from): (&[ResultColumn], &[ResultColumn]),
        reader: &str,
    ) -> Result<(), SqlError> {
        let terms =
            |results: &[ResultColumn]| results.iter().map(|result| result.what.terms()).sum::<usize>();
        let Some(tokens) = item::tokens_of(self.lexemes, expression) else { return Ok(()) };
        if from.iter().any(|result| !result.is_plain()) {
            return Err(self.unsupported(
                tokens.start,
                format!("{reader} counts columns that are not known, encrypted ones behind them"),
                "Name the columns.",
            ));
        }
        if terms(before) > 0 {
            self.renumber(tokens, number + terms(before));
        }
        Ok(())
    }

    /// What `GROUP BY` names of the results and is no column.
    pub(super) fn grouped_results(
        &mut self,
        select: &Select,
        results: &[ResultColumn],
        scope: &Scope<'_>,
    ) -> Result<(), SqlError> {
        let GroupByExpr::Expressions(list, _) = &select.group_by else { return Ok(()) };
        for expression in list {
            let (parts, in_sets) = match expression {
                Expr::Rollup(sets) | Expr::Cube(sets) | Expr::GroupingSets(sets) => {
                    (sets.iter().flatten().collect(), true)
                }
                Expr::Tuple(list) => (list.iter().collect(), false),
                one => (vec![one], false),
            };
            for part in parts {
                self.grouped_result(part, in_sets, select, results, scope)?;
            }
        }
        Ok(())
    }

    fn grouped_result(
        &mut self,
        part: &Expr,
        in_sets: bool,
        select: &Select,
        results: &[ResultColumn],
        scope: &Scope<'_>,
    ) -> Result<(), SqlError> {
        // A name is an input column's before it is a result's.
        if item::identifier(part).is_some_and(|name| scope.knows(&name)) {
            return Ok(());
        }
        let Some(meant) = item::meant_by(part, &select.projection) else {
            return self.named_result(part, "GROUP BY", results);
        };
        match self.reference(meant, scope)? {
            Some(reference) if in_sets => {
                let error = self.unreadable(&reference, "ROLLUP, CUBE or GROUPING SETS");
                let at = item::tokens_of(self.lexemes, part).map_or(0, |tokens| tokens.start);
                Err(self.at(error, at))
            }
            Some(_) => Ok(()),
            None => self.named_result(part, "GROUP BY", results),
        }
    }
}
