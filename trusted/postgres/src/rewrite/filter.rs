//! Conditions by which a join's rows are filtered: what a label is compared with is found once, not for each row.
//!
//! PostgreSQL calls the function of a bound for each row that it filters by it, and a join filters most of its rows so: another
//! relation's key has found them. In a sub-query it is called once, but then the planner does not know what comes of it, and
//! takes no index for a narrow range. So a join is told both: it filters by the first, which costs less, and plans by the
//! second, which is called for the rows that are left. A query of one table is told the second alone: that mostly goes by an
//! index, where the function is called once in any case.

use super::analysis::Analysis;
use super::comparison::ordering;
use super::constant::constant;
use super::scope::Scope;
use super::term::Term;
use crate::error::SqlError;
use crate::plan::Piece;
use sqlparser::ast::{BinaryOperator, Expr};

impl Analysis<'_> {
    /// The condition of a query's rows.
    pub(super) fn filter(&mut self, condition: &Expr, scope: &Scope<'_>) -> Result<(), SqlError> {
        self.expression(condition, scope, "WHERE")?;
        if scope.relations.len() > 1 {
            for part in conjuncts(condition) {
                self.bound_once(part, scope)?;
            }
        }
        Ok(())
    }

    /// Behind `c < 5`, which is rewritten: the same with the bound in a sub-query. Only as it is written without parentheses.
    fn bound_once(&mut self, part: &Expr, scope: &Scope<'_>) -> Result<(), SqlError> {
        let Expr::BinaryOp { left, op, right } = part else { return Ok(()) };
        let (true, Some(value)) = (ordering(op).is_some(), constant(self.lexemes, right)) else {
            return Ok(());
        };
        let Some(column) = self.reference(left, scope)? else { return Ok(()) };
        // A ciphertext is compared with as it is: no function is called.
        if column.tokens.end + 1 != value.tokens.start || column.encryption.labels().is_none() {
            return Ok(());
        }
        let bytes = self.bytes(&value.tokens);
        let mut pieces =
            vec![Piece::Text(format!(" AND {} {op} (SELECT ", self.term_text(&column, Term::Order)))];
        pieces.extend(self.edits.pieces(self.text, bytes.clone())?);
        pieces.push(Piece::Text(")".into()));
        self.edits.replace(bytes.end..bytes.end, pieces);
        Ok(())
    }
}

/// The parts of a condition that all must hold, from the last to the first.
fn conjuncts(condition: &Expr) -> Vec<&Expr> {
    let (mut rest, mut parts) = (condition, Vec::new());
    while let Expr::BinaryOp { left, op: BinaryOperator::And, right } = rest {
        parts.push(&**right);
        rest = left;
    }
    parts.push(rest);
    parts
}
