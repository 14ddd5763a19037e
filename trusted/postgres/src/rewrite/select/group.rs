//! Duplicates, groups and orders of a query's rows.

use super::numbered::place_of;
use super::{Mode, ResultColumn, What, item};
use crate::error::SqlError;
use crate::plan::Piece;
use crate::rewrite::analysis::{Analysis, Reference};
use crate::rewrite::expression::extreme_name;
use crate::rewrite::scope::Scope;
use crate::rewrite::term::Term;
use sqlparser::ast::{Distinct, Expr, OrderBy, OrderByKind, Select, SelectItem};

/// The encrypted columns that a query's rows are grouped by: relation and column.
#[derive(Clone, Debug, Default)]
pub(in crate::rewrite) struct Grouped {
    pub(super) columns: Vec<(Option<String>, String)>,
}

impl Grouped {
    pub(in crate::rewrite) fn holds(&self, reference: &Reference) -> bool {
        self.columns
            .iter()
            .any(|(relation, column)| *relation == reference.relation && *column == reference.column)
    }
}

impl Analysis<'_> {
    /// `ORDER BY`, which names results by alias or number, or input columns. The encrypted columns ordered by.
    pub(in crate::rewrite) fn order_by(
        &mut self,
        order: Option<&OrderBy>,
        select: &Select,
        results: &[ResultColumn],
        scope: &Scope<'_>,
    ) -> Result<Vec<(Option<String>, String)>, SqlError> {
        let mut ordered = Vec::new();
        let Some(OrderBy { kind: OrderByKind::Expressions(order), .. }) = order else { return Ok(ordered) };
        for (place, by) in order.iter().enumerate() {
            let is_last = place + 1 == order.len() && !self.with_ties;
            let meant = item::meant_by(&by.expr, &select.projection);
            // A name is a result's before it is an input column's.
            let called = place_of(&by.expr, results).and_then(|place| results.get(place));
            let is_plain = called.is_some_and(|result| matches!(result.what, What::Plain));
            let reference = if meant.is_none() && is_plain {
                None
            } else {
                self.reference(meant.unwrap_or(&by.expr), scope)?
            };
            let Some(reference) = reference else {
                if self.order_by_meant_extreme(&by.expr, meant, is_last, scope)? {
                    continue;
                }
                self.order_by_result(&by.expr, (meant.is_some() || is_plain, is_last), results, scope)?;
                continue;
            };
            let term = self.need(&reference, "ORDER BY", Some(Term::Order))?;
            self.check_last(&reference, is_last, "ORDER BY")?;
            let text = self.term_text(&reference, term);
            if let Some(tokens) = item::tokens_of(self.lexemes, &by.expr) {
                let bytes = self.bytes(&tokens);
                self.understand_tokens(tokens);
                self.edits.replace(bytes, vec![Piece::Text(text)]);
            }
            ordered.push((reference.relation.clone(), reference.column.clone()));
        }
        Ok(ordered)
    }

    /// An order by a result, named or numbered, that is an encrypted column's least or greatest value. False if it is none.
    fn order_by_meant_extreme(
        &mut self,
        named: &Expr,
        meant: Option<&Expr>,
        is_last: bool,
        scope: &Scope<'_>,
    ) -> Result<bool, SqlError> {
        let (Some(meant @ Expr::Function(function)), Some(tokens)) =
            (meant, item::tokens_of(self.lexemes, named))
        else {
            return Ok(false);
        };
        // The result itself stays what it is.
        let around = self.edits.take();
        let found = self.extreme(meant, scope);
        self.edits.restore(around);
        let Some(reference) = found?.filter(|_| function.filter.is_none()) else { return Ok(false) };
        let term = self.need(&reference, "ORDER BY", Some(Term::Order))?;
        self.check_last(&reference, is_last, "ORDER BY")?;
        let name = extreme_name(function, &reference.encryption);
        let text = format!("{name}({})", self.term_text(&reference, term));
        let bytes = self.bytes(&tokens);
        self.understand_tokens(tokens);
        self.edits.replace(bytes, vec![Piece::Text(text)]);
        Ok(true)
    }

    /// An order by what is no column: an expression, or a result by its name or number.
    fn order_by_result(
        &mut self,
        expression: &Expr,
        (named, is_last): (bool, bool),
        results: &[ResultColumn],
        scope: &Scope<'_>,
    ) -> Result<(), SqlError> {
        self.named_result(expression, "ORDER BY", results)?;
        match item::tokens_of(self.lexemes, expression) {
            Some(tokens) if named => {
                self.understand_tokens(tokens);
                Ok(())
            }
            Some(_) | None => self.order_by_value(expression, is_last, scope),
        }
    }

    /// `DISTINCT`: rows that differ by their terms, or by their other columns.
    pub(super) fn distinct(
        &mut self,
        select: &Select,
        results: &[ResultColumn],
        ordered: &[(Option<String>, String)],
        scope: &Scope<'_>,
        mode: Mode<'_>,
    ) -> Result<(), SqlError> {
        match &select.distinct {
            None | Some(Distinct::All) => Ok(()),
            Some(Distinct::On(list)) => {
                for expression in list {
                    self.distinct_on(expression, select, (results, ordered), scope)?;
                }
                Ok(())
            }
            Some(Distinct::Distinct) => {
                if results.iter().all(ResultColumn::is_plain) || matches!(mode, Mode::Term(..)) {
                    return Ok(());
                }
                self.distinct_rows(select, results, ordered, scope)
            }
        }
    }

    /// One expression of `DISTINCT ON`, which names results as `ORDER BY` does.
    fn distinct_on(
        &mut self,
        expression: &Expr,
        select: &Select,
        (results, ordered): (&[ResultColumn], &[(Option<String>, String)]),
        scope: &Scope<'_>,
    ) -> Result<(), SqlError> {
        let meant = item::meant_by(expression, &select.projection);
        match self.reference(meant.unwrap_or(expression), scope)? {
            Some(reference) => {
                let by_order = self.distinct_by(&reference, ordered)?;
                let term = self.need(&reference, "DISTINCT ON", by_order)?;
                match item::tokens_of(self.lexemes, expression) {
                    Some(tokens) => {
                        let text = self.term_text(&reference, term);
                        let bytes = self.bytes(&tokens);
                        self.understand_tokens(tokens);
                        self.edits.replace(bytes, vec![Piece::Text(text)]);
                    }
                    None => self.replace_with_term(&reference, term),
                }
                Ok(())
            }
            None if place_of(expression, results).is_some() => {
                self.named_result(expression, "DISTINCT ON", results)?;
                let tokens = item::tokens_of(self.lexemes, expression);
                tokens.into_iter().for_each(|tokens| self.understand_tokens(tokens));
                Ok(())
            }
            None => self.expression(expression, scope, "DISTINCT ON"),
        }
    }

    /// The term by which rows are made distinct that are also ordered by the column: that of the order.
    fn distinct_by(
        &self,
        reference: &Reference,
        ordered: &[(Option<String>, String)],
    ) -> Result<Option<Term>, SqlError> {
        let by_order = ordered.contains(&(reference.relation.clone(), reference.column.clone()));
        if by_order && reference.encryption.hides_frequency() {
            return Err(self.scattered(reference, "DISTINCT with ORDER BY"));
        }
        Ok(by_order.then_some(Term::Order))
    }

    fn distinct_rows(
        &mut self,
        select: &Select,
        results: &[ResultColumn],
        ordered: &[(Option<String>, String)],
        scope: &Scope<'_>,
    ) -> Result<(), SqlError> {
        let start = self.lexemes.position_of(select.select_token.0.span).unwrap_or(0);
        let (mut by, mut number) = (Vec::new(), 0);
        for (item, result) in select.projection.iter().zip(results) {
            let expression = match item {
                SelectItem::UnnamedExpr(expression) | SelectItem::ExprWithAlias { expr: expression, .. } => {
                    expression
                }
                SelectItem::ExprWithAliases { .. }
                | SelectItem::QualifiedWildcard(..)
                | SelectItem::Wildcard(_) => {
                    return Err(self.unsupported(
                        start,
                        "DISTINCT of all columns, encrypted ones among them, is not rewritten".into(),
                        "Name the columns.",
                    ));
                }
            };
            match self.reference(expression, scope)? {
                Some(reference) => {
                    let by_order = self.distinct_by(&reference, ordered)?;
                    let term = self.need(&reference, "DISTINCT", by_order)?;
                    by.push(self.term_text(&reference, term));
                }
                None if result.is_plain() => by.push((number + 1).to_string()),
                None => {
                    return Err(self.unsupported(
                        start,
                        "DISTINCT cannot read what is computed of an encrypted column".into(),
                        "Leave out DISTINCT, or use GROUP BY.",
                    ));
                }
            }
            // Terms beside a sealed value are results, too.
            number += 1 + result.what.terms();
        }
        // `SELECT DISTINCT`: the word after.
        let bytes = self.lexemes.bytes(start + 1);
        let is_apart = self.text.get(bytes.end..).is_some_and(|rest| rest.starts_with(char::is_whitespace));
        let (word, space) = (self.source(&(start + 1..start + 2)), if is_apart { "" } else { " " });
        let text = format!("{word} ON ({}){space}", by.join(", "));
        self.edits.replace(bytes, vec![Piece::Text(text)]);
        Ok(())
    }
}

impl What {
    /// How many columns of terms stand beside it.
    pub(super) fn terms(&self) -> usize {
        match self {
            Self::Sealed(encryption, true) => encryption.terms().count(),
            Self::Sealed(_, false)
            | Self::Plain
            | Self::Rest
            | Self::Term
            | Self::Fold(..)
            | Self::Derived(_) => 0,
        }
    }
}

/// The number of a result that an expression is.
pub(super) fn number(expression: &Expr) -> Option<usize> {
    match expression {
        Expr::Value(value) => match &value.value {
            sqlparser::ast::Value::Number(digits, _) => digits.parse().ok(),
            _ => None,
        },
        Expr::Nested(inner) => number(inner),
        _ => None,
    }
}
