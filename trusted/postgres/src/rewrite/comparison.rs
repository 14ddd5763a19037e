//! Comparisons of encrypted columns: with constants, with one another, with what queries give.

pub(super) mod rows;

use super::analysis::{Analysis, Reference};
use super::common_type::of_one_type;
use super::constant::{Constant, constant, in_parentheses, members};
use super::expression::Operand;
use super::moment::{constant_or_moment, is_moment};
use super::scope::Scope;
use super::select::Mode;
use super::spelling::is_symmetric;
use super::term::Term;
use crate::catalog::{Encryption, Order};
use crate::error::{SqlError, sqlstate};
use crate::plan::{Form, Piece, Side, Source};
use rows::members_of_row;
use sqlparser::ast::{BinaryOperator, Expr, Query};
use std::ops::Range;

/// An operator that columns are compared with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Comparison {
    Equal,
    Ordered(Side),
}

fn comparison_of(op: &BinaryOperator) -> Option<Comparison> {
    Some(match op {
        BinaryOperator::Eq | BinaryOperator::NotEq => Comparison::Equal,
        BinaryOperator::Lt => Comparison::Ordered(Side::Less),
        BinaryOperator::LtEq => Comparison::Ordered(Side::LessOrEqual),
        BinaryOperator::Gt => Comparison::Ordered(Side::Greater),
        BinaryOperator::GtEq => Comparison::Ordered(Side::GreaterOrEqual),
        _ => return None,
    })
}

/// The side of a bound that the operator is for, if it compares by order.
pub(super) fn ordering(op: &BinaryOperator) -> Option<Side> {
    match comparison_of(op)? {
        Comparison::Ordered(side) => Some(side),
        Comparison::Equal => None,
    }
}

/// The side with the operands exchanged: `5 < c` is `c > 5`.
fn mirrored(side: Side) -> Side {
    match side {
        Side::Less => Side::Greater,
        Side::LessOrEqual => Side::GreaterOrEqual,
        Side::Greater => Side::Less,
        Side::GreaterOrEqual => Side::LessOrEqual,
        Side::Equal => Side::Equal,
    }
}

impl Analysis<'_> {
    /// Two operands and what stands between them.
    pub(super) fn comparison(
        &mut self,
        left: &Expr,
        op: &BinaryOperator,
        right: &Expr,
        scope: &Scope<'_>,
    ) -> Result<(), SqlError> {
        let reader = format!("operator {op}");
        if *op == BinaryOperator::AtAt && self.matched(left, right, scope)? {
            return Ok(());
        }
        let side = match comparison_of(op) {
            Some(Comparison::Equal) => return self.equal(left, right, scope, &reader),
            Some(Comparison::Ordered(side)) => side,
            None => return self.expressions([left, right], scope, &reader),
        };
        if self.ordered_rows(left, op, right, scope)?
            || self.compared_with_query(left, right, scope, Term::Order, &reader)?
        {
            return Ok(());
        }
        match (self.operand(left, scope, &reader)?, self.operand(right, scope, &reader)?) {
            (Operand::Column(column) | Operand::Extreme(column), Operand::Constant(value)) => {
                self.ordered(&column, &value, side, &reader)
            }
            (Operand::Constant(value), Operand::Column(column) | Operand::Extreme(column)) => {
                self.ordered(&column, &value, mirrored(side), &reader)
            }
            (
                Operand::Column(left) | Operand::Extreme(left),
                Operand::Column(right) | Operand::Extreme(right),
            ) => self.two_columns(&left, &right, Term::Order, &reader),
            (Operand::Column(column) | Operand::Extreme(column), Operand::Other)
            | (Operand::Other, Operand::Column(column) | Operand::Extreme(column)) => {
                Err(self.unreadable(&column, &format!("{reader} beside a computed value")))
            }
            (Operand::Constant(_) | Operand::Other, Operand::Constant(_) | Operand::Other) => {
                self.moments_beside_others([left, right], scope, &reader)
            }
        }
    }

    /// Beside what is not encrypted a moment is an expression like another.
    fn moments_beside_others(
        &mut self,
        both: [&Expr; 2],
        scope: &Scope<'_>,
        reader: &str,
    ) -> Result<(), SqlError> {
        let is_left = |expression: &&Expr| is_moment(self.lexemes, expression);
        let left: Vec<&Expr> = both.into_iter().filter(is_left).collect();
        self.expressions(left, scope, reader)
    }

    /// Two operands that are equal or not.
    pub(super) fn equal(
        &mut self,
        left: &Expr,
        right: &Expr,
        scope: &Scope<'_>,
        reader: &str,
    ) -> Result<(), SqlError> {
        if let (Some(members), Some(others)) = (members_of_row(left), members_of_row(right))
            && members.len() == others.len()
        {
            let mut pairs = members.into_iter().zip(others);
            return pairs.try_for_each(|(left, right)| self.equal(left, right, scope, reader));
        }
        if self.compared_with_query(left, right, scope, Term::Equality, reader)? {
            return Ok(());
        }
        match (self.operand(left, scope, reader)?, self.operand(right, scope, reader)?) {
            (Operand::Column(column), Operand::Constant(value))
            | (Operand::Constant(value), Operand::Column(column)) => {
                let by_order = column.encryption.order.filter(|_| column.encryption.equality.is_none());
                if let (Some(order), true) = (by_order, is_operator(reader)) {
                    let is_not = reader == "operator <>";
                    if self.goes_by_ends(order, is_not) && self.equals_constant(&column, &value, is_not)? {
                        return Ok(());
                    }
                    // No term is shared by equal values: the function says which are.
                    if !order.is_deterministic() {
                        return self.ordered(&column, &value, Side::Equal, reader);
                    }
                }
                let term = self.need(&column, reader, None)?;
                self.replace_with_term(&column, term);
                self.replace_compared(&value, Self::equal_form(&column.encryption, term))
            }
            (Operand::Extreme(column), Operand::Constant(_))
            | (Operand::Constant(_), Operand::Extreme(column))
                if column.encryption.hides_frequency() =>
            {
                Err(self.scattered(&column, &format!("{reader} beside a least or greatest value")))
            }
            (Operand::Extreme(column), Operand::Constant(value))
            | (Operand::Constant(value), Operand::Extreme(column)) => {
                self.ordered(&column, &value, Side::Equal, reader)
            }
            (Operand::Column(left), Operand::Column(right)) => {
                self.two_columns(&left, &right, Term::Equality, reader)
            }
            (Operand::Extreme(left), Operand::Column(right) | Operand::Extreme(right))
            | (Operand::Column(left), Operand::Extreme(right)) => {
                self.two_columns(&left, &right, Term::Order, reader)
            }
            (Operand::Column(column) | Operand::Extreme(column), Operand::Other)
            | (Operand::Other, Operand::Column(column) | Operand::Extreme(column)) => {
                Err(self.unreadable(&column, &format!("{reader} beside a computed value")))
            }
            (Operand::Constant(_) | Operand::Other, Operand::Constant(_) | Operand::Other) => {
                self.moments_beside_others([left, right], scope, reader)
            }
        }
    }

    fn ordered(
        &mut self,
        column: &Reference,
        value: &Constant,
        side: Side,
        reader: &str,
    ) -> Result<(), SqlError> {
        let term = self.need_compared(column, reader, Some(Term::Order))?;
        let form = Form::Bound(column.encryption.clone(), side, self.gap(&column.encryption));
        let Some(function) = column.encryption.order.and_then(Order::compared_by) else {
            self.replace_with_term(column, term);
            return self.replace_constant(value, form);
        };
        // `c < 5` is `compare(c, 5) < 0`, and `5 < c` is `0 < compare(c, 5)`.
        let compared = self.value_pieces(value, form)?;
        self.replace_with_call(column, function, vec![compared]);
        self.replace_with_zero(&value.tokens);
        Ok(())
    }

    /// A reference becomes the call of a function with its term and other values.
    fn replace_with_call(&mut self, column: &Reference, function: &str, others: Vec<Vec<Piece>>) {
        let mut pieces = vec![Piece::Text(format!("{function}({}", self.term_text(column, Term::Order)))];
        for other in others {
            pieces.push(Piece::Text(", ".into()));
            pieces.extend(other);
        }
        pieces.push(Piece::Text(")".into()));
        let bytes = self.bytes(&column.tokens);
        self.edits.replace(bytes, pieces);
        self.understand_tokens(column.tokens.clone());
    }

    /// What a function has compared with already becomes what its result is compared with.
    fn replace_with_zero(&mut self, tokens: &Range<usize>) {
        let bytes = self.bytes(tokens);
        self.edits.replace(bytes, vec![Piece::Text("0".into())]);
        self.understand_tokens(tokens.clone());
    }

    fn two_columns(
        &mut self,
        left: &Reference,
        right: &Reference,
        wanted: Term,
        reader: &str,
    ) -> Result<(), SqlError> {
        if let (Term::Order, Some(order)) =
            (wanted, left.encryption.order.filter(|order| !order.is_deterministic()))
        {
            return Err(self.unsorted(left, &format!("{reader} beside another column"), order));
        }
        let term = common_term(&left.encryption, &right.encryption, wanted);
        let Some(term) = term else {
            return Err(match left.encryption.id == right.encryption.id {
                true => self.undeclared(left, reader, wanted.operation()),
                false => self.no_common_key(left, &right.encryption, reader),
            });
        };
        for column in [left, right] {
            self.need_compared(column, reader, Some(term))?;
        }
        let function = left.encryption.order.and_then(Order::compared_by);
        if let (Term::Order, Some(function)) = (wanted, function) {
            let other = vec![Piece::Text(self.term_text(right, term))];
            self.replace_with_call(left, function, vec![other]);
            self.replace_with_zero(&right.tokens);
            return Ok(());
        }
        for column in [left, right] {
            self.replace_with_term(column, term);
        }
        Ok(())
    }

    /// That two columns cannot be compared with one another.
    pub(super) fn no_common_key(&self, left: &Reference, right: &Encryption, reader: &str) -> SqlError {
        let (left_label, right_label) = (&left.encryption.label, &right.label);
        let error = SqlError::new(
            sqlstate::FEATURE_NOT_SUPPORTED,
            format!("columns {left_label} and {right_label} are encrypted under different keys: {reader} cannot compare them"),
        )
        .hint(format!("Declare join = \"{right_label}\" for {left_label} in the schema file, for comparisons with =."));
        self.at(error, left.tokens.end.saturating_sub(1))
    }

    /// `c = (SELECT d ...)`: the query gives its column's term. False if neither side is a query beside a column.
    fn compared_with_query(
        &mut self,
        left: &Expr,
        right: &Expr,
        scope: &Scope<'_>,
        wanted: Term,
        reader: &str,
    ) -> Result<bool, SqlError> {
        let (column, query) = match (subquery(left), subquery(right)) {
            (None, Some(query)) => (left, query),
            (Some(query), None) => (right, query),
            (None, None) | (Some(_), Some(_)) => return Ok(false),
        };
        let Some(column) = self.reference(column, scope)? else { return Ok(false) };
        if column.encryption.hides_frequency() && wanted == Term::Order {
            return Err(self.scattered(&column, &format!("{reader} beside a query")));
        }
        // A label that equal values share finds them as well as a term does, and the least and greatest besides.
        let sorts = column.encryption.order.is_some_and(|order| order.sorts() && order.is_deterministic());
        let sorted = (sorts || wanted == Term::Order).then_some(Term::Order);
        let term = self.need(&column, reader, sorted)?;
        self.replace_with_term(&column, term);
        self.query_of_term(query, scope, term, &column)?;
        Ok(true)
    }

    pub(super) fn in_list(
        &mut self,
        left: &Expr,
        list: &[Expr],
        is_not: bool,
        scope: &Scope<'_>,
    ) -> Result<(), SqlError> {
        if let Expr::Tuple(columns) = left {
            return self.in_list_of_rows(columns, list, scope);
        }
        let Some(column) = self.reference(left, scope)? else {
            self.expression(left, scope, "IN")?;
            return self.expressions(list, scope, "IN");
        };
        let by_order = column.encryption.order.filter(|_| column.encryption.equality.is_none());
        if by_order.is_some_and(|order| self.goes_by_ends(order, is_not) || !order.is_deterministic())
            && self.in_constants(&column, list, is_not)?
        {
            return Ok(());
        }
        let term = self.need(&column, "IN", None)?;
        self.replace_with_term(&column, term);
        for value in of_one_type(Some(column.encryption.kind), self.constants(&column, list, "IN")?) {
            self.replace_compared(&value, Self::equal_form(&column.encryption, term))?;
        }
        Ok(())
    }

    /// The members of a list, each a constant.
    pub(super) fn constants(
        &self,
        column: &Reference,
        list: &[Expr],
        reader: &str,
    ) -> Result<Vec<Constant>, SqlError> {
        let found: Option<_> = list.iter().map(|member| constant_or_moment(self.lexemes, member)).collect();
        found.ok_or_else(|| self.unreadable(column, &format!("{reader} beside a computed value")))
    }

    /// `(a, c) IN ((1, 2), (3, 4))`.
    fn in_list_of_rows(
        &mut self,
        columns: &[Expr],
        list: &[Expr],
        scope: &Scope<'_>,
    ) -> Result<(), SqlError> {
        for (place, column) in columns.iter().enumerate() {
            let Some(column) = self.reference(column, scope)? else {
                self.expression(column, scope, "IN")?;
                continue;
            };
            let term = self.need(&column, "IN", None)?;
            self.replace_with_term(&column, term);
            for row in list {
                let member = match row {
                    Expr::Tuple(members) => {
                        members.get(place).and_then(|member| constant_or_moment(self.lexemes, member))
                    }
                    _ => None,
                };
                let Some(value) = member else {
                    return Err(self.unreadable(&column, "IN beside a computed value"));
                };
                self.replace_compared(&value, Self::equal_form(&column.encryption, term))?;
            }
        }
        Ok(())
    }

    pub(super) fn in_subquery(
        &mut self,
        left: &Expr,
        query: &Query,
        scope: &Scope<'_>,
    ) -> Result<(), SqlError> {
        match self.reference(left, scope)? {
            Some(column) => {
                let term = self.need(&column, "IN", None)?;
                self.replace_with_term(&column, term);
                self.query_of_term(query, scope, term, &column)
            }
            None => {
                self.expression(left, scope, "IN")?;
                self.query(query, Some(scope), Mode::Plain).map(drop)
            }
        }
    }

    pub(super) fn between(
        &mut self,
        value: &Expr,
        low: &Expr,
        high: &Expr,
        scope: &Scope<'_>,
    ) -> Result<(), SqlError> {
        let Some(column) = self.reference(value, scope)? else {
            return self.expressions([value, low, high], scope, "BETWEEN");
        };
        let term = self.need_compared(&column, "BETWEEN", Some(Term::Order))?;
        if let (Some(one), Some(other)) =
            (constant_or_moment(self.lexemes, low), constant_or_moment(self.lexemes, high))
            && one.tokens.start.checked_sub(1).is_some_and(|at| is_symmetric(self.lexemes, at))
        {
            return self.between_either(&column, [&one, &other]);
        }
        let function = column.encryption.order.and_then(Order::compared_by);
        let mut compared = Vec::new();
        for (end, side) in [(low, Side::GreaterOrEqual), (high, Side::LessOrEqual)] {
            let Some(end) = constant_or_moment(self.lexemes, end) else {
                return Err(self.unreadable(&column, "BETWEEN beside a computed value"));
            };
            let form = Form::Bound(column.encryption.clone(), side, self.gap(&column.encryption));
            if function.is_some() {
                compared.push(self.value_pieces(&end, form)?);
                self.replace_with_zero(&end.tokens);
            } else {
                self.replace_constant(&end, form)?;
            }
        }
        match function {
            // Which side of the two it is on, `BETWEEN 0 AND 0`.
            Some(compare) => {
                self.replace_with_call(&column, &compare.replace("_compare", "_between"), compared);
            }
            None => self.replace_with_term(&column, term),
        }
        Ok(())
    }

    /// `BETWEEN SYMMETRIC`: between the two, whichever is first.
    fn between_either(&mut self, column: &Reference, ends: [&Constant; 2]) -> Result<(), SqlError> {
        let function = column.encryption.order.and_then(Order::compared_by);
        let [one, other] = ends;
        let mut inner = column.tokens.clone();
        while let Some(around) = in_parentheses(self.lexemes, inner.clone()) {
            inner = around;
        }
        let is_not = self.lexemes.is_word(inner.end, "not");
        let tokens = inner.start..other.tokens.end;
        let term = self.term_text(column, Term::Order);
        let mut pieces = vec![Piece::Text(if is_not { "(NOT (" } else { "((" }.into())];
        for (place, (low, high)) in [(one, other), (other, one)].into_iter().enumerate() {
            if place > 0 {
                pieces.push(Piece::Text(" OR ".into()));
            }
            let gap = self.gap(&column.encryption);
            let form = |side| Form::Bound(column.encryption.clone(), side, gap);
            let low = self.value_pieces(low, form(Side::GreaterOrEqual))?;
            let high = self.value_pieces(high, form(Side::LessOrEqual))?;
            let (before, between, behind) = match function {
                Some(compare) => {
                    (format!("{}({term}, ", compare.replace("_compare", "_between")), ", ", ") = 0")
                }
                None => (format!("{term} BETWEEN "), " AND ", ""),
            };
            pieces.push(Piece::Text(before));
            pieces.extend(low);
            pieces.push(Piece::Text(between.into()));
            pieces.extend(high);
            pieces.push(Piece::Text(behind.into()));
        }
        pieces.push(Piece::Text("))".into()));
        let bytes = self.bytes(&tokens);
        self.understand_tokens(tokens);
        self.edits.replace(bytes, pieces);
        Ok(())
    }

    /// `c = ANY (...)`, `c <> ALL (...)`.
    pub(super) fn any(
        &mut self,
        left: &Expr,
        op: &BinaryOperator,
        right: &Expr,
        scope: &Scope<'_>,
        word: &str,
    ) -> Result<(), SqlError> {
        let reader = format!("{op} {word}");
        let Some(column) = self.reference(left, scope)? else {
            return self.expressions([left, right], scope, &reader);
        };
        if comparison_of(op) != Some(Comparison::Equal) {
            return Err(self.unreadable(&column, &reader));
        }
        if let Some(query) = subquery(right) {
            let term = self.need(&column, &reader, None)?;
            self.replace_with_term(&column, term);
            return self.query_of_term(query, scope, term, &column);
        }
        if let Some(list) = members(right) {
            // `<> ALL` is looked at as what it denies.
            let is_not = *op == BinaryOperator::NotEq && word == "ANY";
            return self.any_of_members(&column, list, is_not, &reader);
        }
        let term = self.need(&column, &reader, Some(Term::Equality))?;
        self.replace_with_term(&column, term);
        let Some(value) = constant(self.lexemes, right) else {
            return Err(self.unreadable(&column, &format!("{reader} beside a computed array")));
        };
        let value = self.array_of(value)?;
        self.replace_constant(&value, Form::EqualToArray(column.encryption.clone()))
    }

    /// `= ANY (ARRAY[1, 2])`: as `IN (1, 2)` is.
    fn any_of_members(
        &mut self,
        column: &Reference,
        list: &[Expr],
        is_not: bool,
        reader: &str,
    ) -> Result<(), SqlError> {
        let by_order = column.encryption.order.filter(|_| column.encryption.equality.is_none());
        let by_ends = by_order.is_some_and(|order| self.goes_by_ends(order, is_not));
        let term = self.need(column, reader, by_ends.then_some(Term::Equality))?;
        self.replace_with_term(column, term);
        for value in of_one_type(None, self.constants(column, list, reader)?) {
            self.replace_compared(&value, Self::equal_form(&column.encryption, term))?;
        }
        Ok(())
    }

    /// A constant as an array: the members that its text says.
    pub(super) fn array_of(&self, constant: Constant) -> Result<Constant, SqlError> {
        let Source::Constant(Some(text)) = &constant.source else { return Ok(constant) };
        let Some(list) = crate::codec::array_members(text) else {
            let message = format!("malformed array literal: \"{text}\"");
            let error = SqlError::new(sqlstate::INVALID_TEXT_REPRESENTATION, message);
            return Err(self.at(error, constant.tokens.start));
        };
        Ok(Constant { source: Source::Constants(list), ..constant })
    }
}

/// Is it an operator that is NULL where an operand is, and no `IS DISTINCT FROM`?
fn is_operator(reader: &str) -> bool {
    reader.starts_with("operator ")
}

/// The query that an expression is.
pub(super) fn subquery(expression: &Expr) -> Option<&Query> {
    match expression {
        Expr::Subquery(query) => Some(query),
        Expr::Nested(inner) => subquery(inner),
        _ => None,
    }
}

/// The term by which values of two columns are found equal or ordered, if there is one.
pub(super) fn common_term(left: &Encryption, right: &Encryption, wanted: Term) -> Option<Term> {
    let one_column = left.id == right.id;
    match wanted {
        Term::Equality if left.equality.is_some() && left.equality == right.equality => Some(Term::Equality),
        // Terms of order are of one column's tree, or key.
        Term::Equality | Term::Order => {
            let compares = left.order.is_some_and(Order::is_deterministic);
            (one_column && compares).then_some(Term::Order)
        }
        Term::Text => None,
    }
}
