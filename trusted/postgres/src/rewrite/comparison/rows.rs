//! `(a, b) > (1, 2)`: rows by their order, as keyset pagination reads them.

use crate::error::SqlError;
use crate::plan::Piece;
use crate::rewrite::analysis::Analysis;
use crate::rewrite::expression::argument_of;
use crate::rewrite::moment::constant_or_moment;
use crate::rewrite::naming::parts;
use crate::rewrite::scope::Scope;
use crate::text::Lexemes;
use sqlparser::ast::{BinaryOperator, Expr, FunctionArguments};
use sqlparser::tokenizer::Token;
use std::ops::Range;

/// The members of a row: `(1, 2)`, `ROW(1, 2)`.
pub(in crate::rewrite) fn members_of_row(value: &Expr) -> Option<Vec<&Expr>> {
    match value {
        Expr::Tuple(list) => Some(list.iter().collect()),
        Expr::Function(function) if function.name.to_string().eq_ignore_ascii_case("row") => {
            let FunctionArguments::List(list) = &function.args else { return None };
            list.args.iter().map(argument_of).collect()
        }
        _ => None,
    }
}

/// The members of the row that ends before a token, and where it begins: `ROW (`, `(`.
fn row_before(lexemes: &Lexemes, end: usize) -> Option<Row> {
    let close = end.checked_sub(1)?;
    let open = (0..close).rev().find(|open| {
        matches!(lexemes.token(*open), Some(Token::LParen)) && lexemes.after_parentheses(*open) == Some(end)
    })?;
    Some(Row::of(lexemes, open, end))
}

/// The members of the row that begins at a token.
fn row_at(lexemes: &Lexemes, start: usize) -> Option<Row> {
    let open = if lexemes.is_word(start, "row") { start + 1 } else { start };
    matches!(lexemes.token(open), Some(Token::LParen)).then_some(())?;
    Some(Row::of(lexemes, open, lexemes.after_parentheses(open)?))
}

/// A row that is written out.
struct Row {
    tokens: Range<usize>,
    members: Vec<Range<usize>>,
}

impl Row {
    fn of(lexemes: &Lexemes, open: usize, end: usize) -> Self {
        let named = open.checked_sub(1).filter(|at| lexemes.is_word(*at, "row"));
        Self { tokens: named.unwrap_or(open)..end, members: parts(lexemes, open + 1..end - 1) }
    }
}

/// Two members and what stands between them.
struct Pair<'e> {
    left: (&'e Expr, Range<usize>),
    right: (&'e Expr, Range<usize>),
}

impl Analysis<'_> {
    /// Two rows of equally many members, an encrypted column among them, that are compared by order: `(a, b) > (x, y)` is
    /// `(a >= x AND (a > x OR b > y))`, for NULLs as well. No member is compared for equality. False if they are not such rows.
    pub(super) fn ordered_rows(
        &mut self,
        left: &Expr,
        op: &BinaryOperator,
        right: &Expr,
        scope: &Scope<'_>,
    ) -> Result<bool, SqlError> {
        let (Some(left), Some(right)) = (members_of_row(left), members_of_row(right)) else {
            return Ok(false);
        };
        if left.len() != right.len() || left.len() < 2 {
            return Ok(false);
        }
        let Some((row, other)) = self.written_rows(&left, &right, scope)? else { return Ok(false) };
        let whole = row.tokens.start..other.tokens.end;
        let pairs: Vec<Pair<'_>> = left
            .into_iter()
            .zip(right)
            .zip(row.members.into_iter().zip(other.members))
            .map(|((left, right), (at_left, at_right))| Pair {
                left: (left, at_left),
                right: (right, at_right),
            })
            .collect();
        // All but the last are written twice.
        let twice = pairs.split_last().map_or(&[][..], |(_, before)| before);
        if !twice.iter().all(|pair| self.is_same_twice(pair.left.0) && self.is_same_twice(pair.right.0)) {
            return Ok(false);
        }
        let pieces = self.pieces_of_rows(&pairs, op, scope)?;
        if let Some(at) = self.not_understood_in(whole.clone()) {
            return Err(self.refusal(at));
        }
        let bytes = self.bytes(&whole);
        self.understand_tokens(whole);
        self.edits.replace(bytes, pieces);
        Ok(true)
    }

    /// Does an expression say the same and do nothing else when it is looked at twice?
    fn is_same_twice(&self, expression: &Expr) -> bool {
        match expression {
            Expr::Identifier(_) | Expr::CompoundIdentifier(_) => true,
            Expr::Nested(inner) => self.is_same_twice(inner),
            _ => constant_or_moment(self.lexemes, expression).is_some(),
        }
    }

    /// Two rows as they are written: found from the encrypted column that is among their members.
    fn written_rows(
        &mut self,
        left: &[&Expr],
        right: &[&Expr],
        scope: &Scope<'_>,
    ) -> Result<Option<(Row, Row)>, SqlError> {
        // Between the rows stands the operator.
        let rows = if let Some(column) = self.first_encrypted(left, scope)? {
            self.row_around(&column, left.len())
                .and_then(|row| row_at(self.lexemes, row.tokens.end + 1).map(|other| (row, other)))
        } else if let Some(column) = self.first_encrypted(right, scope)? {
            self.row_around(&column, left.len()).and_then(|row| {
                row_before(self.lexemes, row.tokens.start.checked_sub(1)?).map(|other| (other, row))
            })
        } else {
            None
        };
        Ok(rows.filter(|(row, other)| [row, other].iter().all(|row| row.members.len() == left.len())))
    }

    /// The tokens of the first encrypted column among members.
    fn first_encrypted(
        &mut self,
        members: &[&Expr],
        scope: &Scope<'_>,
    ) -> Result<Option<Range<usize>>, SqlError> {
        for member in members {
            if let Some(column) = self.reference(member, scope)? {
                return Ok(Some(column.tokens));
            }
        }
        Ok(None)
    }

    /// The innermost list in parentheses of so many members that a column is in.
    fn row_around(&self, column: &Range<usize>, members: usize) -> Option<Row> {
        (0..column.start).rev().find_map(|open| {
            matches!(self.lexemes.token(open), Some(Token::LParen)).then_some(())?;
            let end = self.lexemes.after_parentheses(open).filter(|end| *end > column.end)?;
            Some(Row::of(self.lexemes, open, end)).filter(|row| row.members.len() == members)
        })
    }

    /// The condition that compares the first members of the pairs, then the next.
    fn pieces_of_rows(
        &mut self,
        pairs: &[Pair<'_>],
        op: &BinaryOperator,
        scope: &Scope<'_>,
    ) -> Result<Vec<Piece>, SqlError> {
        let (strict, weak) = match op {
            BinaryOperator::Lt | BinaryOperator::LtEq => (BinaryOperator::Lt, BinaryOperator::LtEq),
            _ => (BinaryOperator::Gt, BinaryOperator::GtEq),
        };
        let mut pieces = Vec::new();
        for (number, pair) in pairs.iter().enumerate() {
            if number + 1 == pairs.len() {
                pieces.extend(self.compared_apart(pair, op, scope)?);
                continue;
            }
            pieces.push(Piece::Text("(".into()));
            pieces.extend(self.compared_apart(pair, &weak, scope)?);
            pieces.push(Piece::Text(" AND (".into()));
            pieces.extend(self.compared_apart(pair, &strict, scope)?);
            pieces.push(Piece::Text(" OR ".into()));
        }
        pieces.push(Piece::Text("))".repeat(pairs.len() - 1)));
        Ok(pieces)
    }

    /// One pair by one operator, whatever else is made of the same members.
    fn compared_apart(
        &mut self,
        pair: &Pair<'_>,
        op: &BinaryOperator,
        scope: &Scope<'_>,
    ) -> Result<Vec<Piece>, SqlError> {
        let around = self.edits.take();
        let looked_at = self.comparison(pair.left.0, op, pair.right.0, scope);
        let mut pieces = Vec::new();
        for (between, (_, tokens)) in [(String::new(), &pair.left), (format!(" {op} "), &pair.right)] {
            self.place_plain_parameters_in(tokens.clone());
            pieces.push(Ok(vec![Piece::Text(between)]));
            pieces.push(self.edits.pieces(self.text, self.bytes(tokens)));
        }
        self.edits.restore(around);
        looked_at?;
        Ok(pieces.into_iter().collect::<Result<Vec<_>, _>>()?.concat())
    }
}
