//! Results that are queries of one value: `SELECT (SELECT c FROM t WHERE id = 1)`.

use super::{Mode, ResultColumn, What};
use crate::error::SqlError;
use crate::rewrite::analysis::Analysis;
use crate::rewrite::comparison::subquery;
use crate::rewrite::scope::Scope;
use sqlparser::ast::Expr;

impl Analysis<'_> {
    /// What a query among results gives; none if the expression is no query. The server sends the sealed value that the
    /// query finds, or what a sum is made of, and the proxy opens it.
    pub(super) fn scalar_item(
        &mut self,
        expression: &Expr,
        scope: &Scope<'_>,
        mode: Mode<'_>,
    ) -> Result<Option<ResultColumn>, SqlError> {
        let Some(query) = subquery(expression) else { return Ok(None) };
        let inside = match mode {
            Mode::Top | Mode::Relation => Mode::Top,
            Mode::Unread => Mode::Unread,
            Mode::Term(..) | Mode::Plain => return Ok(None),
        };
        let results = self.query(query, Some(scope), inside)?;
        let name = results.first().and_then(|result| result.name.clone());
        let [ResultColumn { what, .. }] = &results[..] else {
            if results.iter().all(ResultColumn::is_plain) {
                return Ok(Some(ResultColumn::plain(name)));
            }
            let at = super::first_token(self.lexemes, expression);
            return Err(self.unsupported(
                at,
                "a query among the results gives one column, and this one more, encrypted ones among them"
                    .into(),
                "Write a query for each column.",
            ));
        };
        let what = match (what, mode) {
            // Its terms stay inside.
            (What::Sealed(encryption, _), _) => What::Sealed(encryption.clone(), false),
            (What::Fold(_, encryption), Mode::Relation | Mode::Unread) => {
                return Err(self.read_sum(expression, &encryption.label));
            }
            (What::Derived(summed), Mode::Relation | Mode::Unread) => {
                return Err(self.read_sum(expression, &summed.column.label));
            }
            (What::Fold(fold, encryption), _) => What::Fold(*fold, encryption.clone()),
            (What::Derived(summed), _) => What::Derived(std::sync::Arc::clone(summed)),
            (What::Plain | What::Rest | What::Term, _) => What::Plain,
        };
        Ok(Some(ResultColumn { name, what }))
    }

    /// That a query reads a sum which the proxy computes.
    fn read_sum(&self, expression: &Expr, label: &str) -> SqlError {
        self.unsupported(
            super::first_token(self.lexemes, expression),
            format!("a sum of column {label} is computed by the proxy, and the query around it reads it"),
            "Select the sum in the outermost query.",
        )
    }
}
