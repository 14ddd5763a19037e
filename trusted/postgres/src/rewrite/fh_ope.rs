//! Columns ordered by FH-OPE, where each row has a place of its own: what equal values would share.
//!
//! *Constants.* Rows that equal a constant are those between its first key and its last: `c = 5` is `c$ord BETWEEN` the bounds of
//! `c >= 5` and `c <= 5`, of which the first is above the second where no row has the value.
//!
//! *Rows.* Of two rows of equal values one is before the other, and which says nothing. So by order alone nothing is
//! done that takes equal rows for equal: it is refused, or done by the equality term, where there is one.
//!
//! *Writes.* A value is encrypted for each row that it is stored in. What would store one value's term in several rows is
//! done row by row, or refused.

use super::analysis::{Analysis, Reference};
use super::common_type::of_one_type;
use super::constant::{Constant, constant};
use super::expression::argument_of;
use super::scope::{Relation, Scope};
use super::term::Term;
use crate::catalog::{Encryption, Order};
use crate::error::SqlError;
use crate::plan::{Form, Gap, Piece, Side, Source};
use crate::text::fold;
use sqlparser::ast::{Expr, Function, FunctionArguments, OrderByExpr, WindowFrameUnits, WindowSpec};
use sqlparser::tokenizer::Token;
use std::ops::Range;

/// Functions over a window that count or look at rows, whichever of them are equal, and whatever the window's frame.
const BY_ROWS: [&str; 4] = ["lag", "lead", "ntile", "row_number"];
/// Functions that count which are equal, whatever the window's frame.
const BY_PEERS: [&str; 4] = ["cume_dist", "dense_rank", "percent_rank", "rank"];

impl Analysis<'_> {
    /// That what reads a column would have rows of equal values be equal in order.
    pub(super) fn scattered(&self, reference: &Reference, reader: &str) -> SqlError {
        let label = &reference.encryption.label;
        let message = format!(
            "column {label} is encrypted with order = \"fh_ope\", in which rows of equal values stand in random order: {reader} \
             needs another"
        );
        let other = Order::default().name();
        let hint = format!(
            "Order by {label} alone or last, group by \"equality\", or add a column with order = \"{other}\" to the schema file and \
             copy the values of {label}."
        );
        self.unsupported(reference.tokens.end.saturating_sub(1), message, &hint)
    }

    /// Of an order by a column: nothing that comes behind would tell rows of equal values apart.
    pub(super) fn check_last(
        &self,
        reference: &Reference,
        is_last: bool,
        reader: &str,
    ) -> Result<(), SqlError> {
        if is_last || !reference.encryption.hides_frequency() {
            return Ok(());
        }
        Err(self.scattered(reference, &format!("{reader} with more behind it")))
    }

    /// Are values found equal to a constant by the ends of what equals it? Also where equal values share a label, if that they are
    /// equal is denied: a value that is stored only now has a label that is no constant's yet.
    pub(super) fn goes_by_ends(&self, order: Order, is_not: bool) -> bool {
        order.hides_frequency() || order.labels().is_some() && self.denies(is_not)
    }

    /// `c = 5`, `5 <> c`: true of the rows between the ends of the value's keys. False if it is written in another form, and
    /// goes by the value's label as well.
    pub(super) fn equals_constant(
        &mut self,
        column: &Reference,
        value: &Constant,
        is_not: bool,
    ) -> Result<bool, SqlError> {
        let (first, last) = match column.tokens.start < value.tokens.start {
            true => (&column.tokens, &value.tokens),
            false => (&value.tokens, &column.tokens),
        };
        if first.end + 1 != last.start {
            return self.in_other_words(column, "a comparison");
        }
        self.among(column, std::slice::from_ref(value), first.start..last.end, is_not)
    }

    /// `c IN (1, 2)`, `c NOT IN (1, 2)`.
    pub(super) fn in_constants(
        &mut self,
        column: &Reference,
        list: &[Expr],
        is_not: bool,
    ) -> Result<bool, SqlError> {
        self.need_compared(column, "IN", Some(Term::Order))?;
        let at = column.tokens.end + usize::from(is_not);
        let opens = matches!(self.lexemes.token(at + 1), Some(Token::LParen));
        let end = self.lexemes.after_parentheses(at + 1).filter(|_| opens && self.lexemes.is_word(at, "in"));
        let Some(end) = end else { return self.in_other_words(column, "IN") };
        let values = of_one_type(Some(column.encryption.kind), self.constants(column, list, "IN")?);
        self.among(column, &values, column.tokens.start..end, is_not)
    }

    fn in_other_words(&self, column: &Reference, what: &str) -> Result<bool, SqlError> {
        if !column.encryption.hides_frequency() {
            return Ok(false);
        }
        let message = format!("{what} of column {} is not rewritten in this form", column.encryption.label);
        let hint = "Write the column, the operator and the constant, without parentheses around the column.";
        Err(self.unsupported(column.tokens.end.saturating_sub(1), message, hint))
    }

    /// Some tokens become the condition that a row's value is one of several constants, or none of them.
    fn among(
        &mut self,
        column: &Reference,
        values: &[Constant],
        tokens: Range<usize>,
        is_not: bool,
    ) -> Result<bool, SqlError> {
        self.need_compared(column, "a comparison", Some(Term::Order))?;
        let term = self.term_text(column, Term::Order);
        let gap = if self.denies(is_not) { Gap::Inside } else { Gap::Outside };
        let mut pieces = vec![Piece::Text(if is_not { "(NOT (" } else { "((" }.into())];
        let random = column.encryption.order.filter(|order| !order.is_deterministic());
        let compared_by = random.and_then(Order::compared_by);
        for (place, value) in values.iter().enumerate() {
            let or = if place > 0 { " OR " } else { "" };
            if let Some(function) = compared_by {
                pieces.push(Piece::Text(format!("{or}{function}({term}, ")));
                let form = Form::Bound(column.encryption.clone(), Side::Equal, Gap::Outside);
                pieces.extend(self.value_pieces(value, form)?);
                pieces.push(Piece::Text(") = 0".into()));
                continue;
            }
            pieces.push(Piece::Text(format!("{or}{term} BETWEEN ")));
            let form = |side| Form::Bound(column.encryption.clone(), side, gap);
            pieces.extend(self.value_pieces(value, form(Side::GreaterOrEqual))?);
            pieces.push(Piece::Text(" AND ".into()));
            pieces.extend(self.value_pieces(value, form(Side::LessOrEqual))?);
        }
        pieces.push(Piece::Text("))".into()));
        let bytes = self.bytes(&tokens);
        self.understand_tokens(tokens);
        self.edits.replace(bytes, pieces);
        Ok(true)
    }

    /// Of a window ordered by a column: equal rows are peers, which the function, or its frame, would have to know.
    pub(super) fn check_window(
        &mut self,
        window: &WindowSpec,
        function: Option<&Function>,
        scope: &Scope<'_>,
    ) -> Result<(), SqlError> {
        let last = function.and_then(|function| function.name.0.last()).and_then(|part| part.as_ident());
        let name = last.map(|name| fold(&name.value, name.quote_style.is_some())).unwrap_or_default();
        let fits = BY_ROWS.contains(&name.as_str())
            || match &window.window_frame {
                // The first row of the partition.
                None => name == "first_value",
                Some(frame) => frame.units == WindowFrameUnits::Rows && !BY_PEERS.contains(&name.as_str()),
            };
        if fits && function.is_some() {
            return Ok(());
        }
        for OrderByExpr { expr, .. } in &window.order_by {
            let of_extreme = extreme_of(expr).unwrap_or(expr);
            let Some(reference) = self.reference(of_extreme, scope)? else { continue };
            if reference.encryption.hides_frequency() {
                let reader = if name.is_empty() { "a window".to_owned() } else { format!("{name}() OVER") };
                return Err(self.scattered(&reference, &reader));
            }
        }
        Ok(())
    }

    /// Is what a column is set to stored with a term of its own as it stands: NULL, the row's own value, or the one that the
    /// row was to be inserted with?
    pub(super) fn keeps_terms(
        &mut self,
        value: &Expr,
        encryption: &Encryption,
        relation: &Relation,
        scope: &Scope<'_>,
    ) -> Result<bool, SqlError> {
        if let Some(found) = constant(self.lexemes, value) {
            return Ok(found.source == Source::Constant(None));
        }
        let Some(reference) = self.reference(value, scope)? else { return Ok(false) };
        let is_excluded = scope.outer.is_some_and(|outer| {
            outer.relations.iter().any(|other| other.name.as_deref() == Some("excluded"))
        }) && reference.relation.as_deref() == Some("excluded");
        let is_own = reference.encryption.id == encryption.id && reference.terms;
        Ok(is_own && (reference.relation == relation.name || is_excluded))
    }

    /// That one value would be stored in several rows.
    pub(super) fn one_for_many(&self, at: usize, encryption: &Encryption) -> SqlError {
        let label = &encryption.label;
        let message = format!(
            "column {label} is encrypted with order = \"fh_ope\", where each row has a term of its own: what is set here may be \
             stored in several rows"
        );
        let hint = format!(
            "Set {label} in an UPDATE by itself to a constant, a parameter, a CASE or what is computed of them; in ON CONFLICT, \
             to EXCLUDED's value."
        );
        self.unsupported(at, message, &hint)
    }
}

/// The argument of a least or greatest value.
fn extreme_of(expression: &Expr) -> Option<&Expr> {
    let Expr::Function(function) = expression else { return None };
    let FunctionArguments::List(list) = &function.args else { return None };
    let is_extreme = matches!(function.name.to_string().to_lowercase().as_str(), "min" | "max");
    list.args.first().filter(|_| is_extreme).and_then(argument_of)
}
