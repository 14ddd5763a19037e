//! Duplicates, groups and orders of a query's rows.

use super::{Mode, ResultColumn, What, item};
use crate::error::SqlError;
use crate::plan::Piece;
use crate::rewrite::analysis::{Analysis, Reference};
use crate::rewrite::scope::Scope;
use crate::rewrite::term::Term;
use sqlparser::ast::{Distinct, Expr, OrderBy, OrderByKind, Select, SelectItem};

/// The encrypted columns that a query's rows are grouped by: relation and column.
#[derive(Debug, Default)]
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
        (results, grouped): (&[ResultColumn], &Grouped),
        scope: &Scope<'_>,
    ) -> Result<Vec<(Option<String>, String)>, SqlError> {
        let mut ordered = Vec::new();
        let Some(OrderBy { kind: OrderByKind::Expressions(order), .. }) = order else { return Ok(ordered) };
        for (place, by) in order.iter().enumerate() {
            let is_last = place + 1 == order.len() && !self.with_ties;
            let meant = item::meant_by(&by.expr, &select.projection);
            let Some(reference) = self.reference(meant.unwrap_or(&by.expr), scope)? else {
                self.order_by_result(&by.expr, (meant.is_some(), is_last), results, scope)?;
                continue;
            };
            let term = self.need(&reference, "ORDER BY", Some(Term::Order))?;
            self.check_last(&reference, is_last, "ORDER BY")?;
            let mut text = self.term_text(&reference, term);
            if reference.encryption.hides_frequency() && grouped.holds(&reference) {
                // Any of the group's stands where the group does.
                text = format!("min({text})");
            }
            if let Some(tokens) = item::tokens_of(self.lexemes, &by.expr) {
                let bytes = self.bytes(&tokens);
                self.understand_tokens(tokens);
                self.edits.replace(bytes, vec![Piece::Text(text)]);
            }
            ordered.push((reference.relation.clone(), reference.column.clone()));
        }
        Ok(ordered)
    }

    /// An order by what is no column: an expression, or a result by its name or number.
    fn order_by_result(
        &mut self,
        expression: &Expr,
        (named, is_last): (bool, bool),
        results: &[ResultColumn],
        scope: &Scope<'_>,
    ) -> Result<(), SqlError> {
        let numbered = item::ordinal(expression).and_then(|number| results.get(number.saturating_sub(1)));
        let name = item::identifier(expression);
        let called = results.iter().find(|result| name.is_some() && result.name == name);
        if let Some(result) = numbered.or(called).filter(|result| !result.is_plain()) {
            let at = item::tokens_of(self.lexemes, expression).map_or(0, |tokens| tokens.start);
            let name = result.name.clone().unwrap_or_default();
            return Err(self.unsupported(
                at,
                format!("\"{name}\" is computed of an encrypted column: ORDER BY cannot read it"),
                "Order the rows in the application.",
            ));
        }
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
                    match self.reference(expression, scope)? {
                        Some(reference) => {
                            let by_order = self.distinct_by(&reference, ordered)?;
                            let term = self.need(&reference, "DISTINCT ON", by_order)?;
                            self.replace_with_term(&reference, term);
                        }
                        None => self.expression(expression, scope, "DISTINCT ON")?,
                    }
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
        let start = self.lexemes.index_of(select.select_token.0.span).unwrap_or(0);
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
        let end = self.lexemes.bytes(start + 1).end;
        self.edits.insert(end, format!(" ON ({})", by.join(", ")));
        Ok(())
    }
}

impl What {
    /// How many columns of terms stand beside it.
    fn terms(&self) -> usize {
        match self {
            Self::Sealed(encryption, true) => encryption.terms().count(),
            Self::Sealed(_, false) | Self::Plain | Self::Rest | Self::Term | Self::Fold(..) => 0,
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
        _ => None,
    }
}
