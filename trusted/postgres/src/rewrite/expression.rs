//! Expressions: what reads an encrypted column, and what it becomes.

use super::analysis::{Analysis, Reference};
use super::constant::{Constant, constant};
use super::moment::constant_or_moment;
use super::scope::Scope;
use super::select::Mode;
use super::term::{Term, form_pieces};
use crate::catalog::Encryption;
use crate::column_type::ColumnType;
use crate::error::SqlError;
use crate::plan::{Form, Piece, Source, Value};
use sqlparser::ast::{
    BinaryOperator, DuplicateTreatment, Expr, Function, FunctionArg, FunctionArgExpr, FunctionArgumentClause,
    FunctionArguments, NamedWindowExpr, OrderByExpr, Query, UnaryOperator, WindowFrameBound,
    WindowFrameUnits, WindowSpec, WindowType,
};

/// What is compared.
pub(super) enum Operand {
    /// An encrypted column, not touched yet.
    Column(Reference),
    /// The least or greatest value of an encrypted column, not touched yet: of the column inside.
    Extreme(Reference),
    /// A constant, not touched yet.
    Constant(Constant),
    /// Anything else, analysed.
    Other,
}

impl Analysis<'_> {
    /// An operand: encrypted columns and constants are left to whoever compares them.
    pub(super) fn operand(
        &mut self,
        expression: &Expr,
        scope: &Scope<'_>,
        reader: &str,
    ) -> Result<Operand, SqlError> {
        if let Some(found) = constant_or_moment(self.lexemes, expression) {
            return Ok(Operand::Constant(found));
        }
        if let Some(reference) = self.reference(expression, scope)? {
            return Ok(Operand::Column(reference));
        }
        if let Some(reference) = self.extreme(expression, scope)? {
            return Ok(Operand::Extreme(reference));
        }
        self.expression(expression, scope, reader)?;
        Ok(Operand::Other)
    }

    /// The encrypted column whose least or greatest value an expression is, if it is that.
    pub(super) fn extreme(
        &mut self,
        expression: &Expr,
        scope: &Scope<'_>,
    ) -> Result<Option<Reference>, SqlError> {
        let Expr::Function(function) = expression else { return Ok(None) };
        let name = function.name.to_string().to_lowercase();
        let FunctionArguments::List(list) = &function.args else { return Ok(None) };
        let plain = list.duplicate_treatment.is_none() && list.clauses.is_empty() && function.over.is_none();
        let ([argument], true, true) = (&list.args[..], matches!(name.as_str(), "min" | "max"), plain) else {
            return Ok(None);
        };
        let Some(argument) = argument_of(argument) else { return Ok(None) };
        let mut reference = self.reference(argument, scope)?;
        if let Some(reference) = &mut reference {
            reference.is_extreme = true;
            self.understand_name(&function.name);
            if let Some(order) = reference.encryption.order.filter(|order| !order.sorts()) {
                return Err(self.unsorted(reference, &format!("{name}() beside other values"), order));
            }
            self.name_extreme(function, &reference.encryption);
            if let Some(filter) = &function.filter {
                self.within_group(|analysis| analysis.expression(filter, scope, "FILTER"))?;
            }
        }
        Ok(reference)
    }

    /// `min` and `max` by the name of those of the column's terms.
    pub(super) fn name_extreme(&mut self, function: &Function, encryption: &Encryption) {
        if !encryption.order_is_ciphertext() {
            return;
        }
        let name = extreme_name(function, encryption);
        let token = match &function.name.0[..] {
            [part] => part.as_ident().and_then(|part| self.lexemes.position_of(part.span)),
            _ => None,
        };
        if let Some(at) = token {
            self.edits.replace(self.lexemes.bytes(at), vec![Piece::Text(name.into())]);
        }
    }

    pub(super) fn expressions<'e>(
        &mut self,
        list: impl IntoIterator<Item = &'e Expr>,
        scope: &Scope<'_>,
        reader: &str,
    ) -> Result<(), SqlError> {
        list.into_iter().try_for_each(|expression| self.expression(expression, scope, reader))
    }

    /// An expression whose value something reads: it may hold no encrypted column but where it is compared.
    pub(super) fn expression(
        &mut self,
        expression: &Expr,
        scope: &Scope<'_>,
        reader: &str,
    ) -> Result<(), SqlError> {
        match expression {
            Expr::Identifier(_) | Expr::CompoundIdentifier(_) => match self.reference(expression, scope)? {
                Some(reference) if is_condition(&reference, reader) => self.condition(&reference),
                Some(reference) => Err(self.unreadable(&reference, reader)),
                None => Ok(()),
            },
            Expr::BinaryOp { left, op: op @ (BinaryOperator::And | BinaryOperator::Or), right } => {
                // Long conditions lean to the left: no recursion for each of their parts.
                let (mut rest, mut parts) = (left, vec![right]);
                while let Expr::BinaryOp { left, op: BinaryOperator::And | BinaryOperator::Or, right } =
                    &**rest
                {
                    parts.push(right);
                    rest = left;
                }
                parts.push(rest);
                parts.into_iter().rev().try_for_each(|part| self.expression(part, scope, &op.to_string()))
            }
            Expr::BinaryOp { left, op, right } => self.comparison(left, op, right, scope),
            Expr::IsNull(inner) | Expr::IsNotNull(inner) => self.tested_for_null(inner, scope),
            Expr::IsDistinctFrom(left, right) | Expr::IsNotDistinctFrom(left, right) => {
                self.equal(left, right, scope, "IS DISTINCT FROM")
            }
            Expr::InList { expr, list, negated } => self.in_list(expr, list, *negated, scope),
            Expr::InSubquery { expr, subquery, negated } => {
                self.denying(*negated, |analysis| analysis.in_subquery(expr, subquery, scope))
            }
            Expr::Between { expr, low, high, negated } => {
                self.denying(*negated, |analysis| analysis.between(expr, low, high, scope))
            }
            Expr::AnyOp { left, compare_op, right, .. } => self.any(left, compare_op, right, scope, "ANY"),
            Expr::AllOp { left, compare_op, right } => {
                self.denying(true, |analysis| analysis.any(left, compare_op, right, scope, "ALL"))
            }
            Expr::IsTrue(inner)
            | Expr::IsNotFalse(inner)
            | Expr::IsUnknown(inner)
            | Expr::IsNotUnknown(inner) => self.expression(inner, scope, "IS TRUE or FALSE"),
            Expr::IsNotTrue(inner) | Expr::IsFalse(inner) => {
                self.denying(true, |analysis| analysis.expression(inner, scope, "IS TRUE or FALSE"))
            }
            Expr::Nested(inner) => self.expression(inner, scope, reader),
            Expr::UnaryOp { op: UnaryOperator::Not, expr } => {
                self.denying(true, |analysis| analysis.expression(expr, scope, "NOT"))
            }
            Expr::UnaryOp { op, expr } => self.expression(expr, scope, &format!("operator {op}")),
            Expr::Cast { expr, data_type, .. } => {
                self.expression(expr, scope, &format!("a cast to {data_type}"))
            }
            Expr::Collate { expr, .. } => self.expression(expr, scope, "COLLATE"),
            Expr::Function(function) => self.function(function, scope),
            Expr::Case { .. } => self.case(expression, scope),
            Expr::Exists { subquery, negated } => self.exists(subquery, *negated, scope),
            Expr::Subquery(subquery) => self.query(subquery, Some(scope), Mode::Plain).map(drop),
            _ => self.reading(expression, scope),
        }
    }

    /// What `IS NULL` asks of: a column, a value that may be one's, or something else.
    fn tested_for_null(&mut self, inner: &Expr, scope: &Scope<'_>) -> Result<(), SqlError> {
        if let Some(reference) = self.reference(inner, scope)? {
            self.is_null(&reference);
            return Ok(());
        }
        match constant(self.lexemes, inner).filter(|_| scope.sees_encrypted()) {
            Some(value) => self.presence(&value),
            None => self.expression(inner, scope, "IS NULL"),
        }
    }

    /// A value is NULL if what is stored of it is; of a group, if the term is by which the group is made.
    fn is_null(&mut self, reference: &Reference) {
        let shared = reference.encryption.shared_terms().next();
        match shared.filter(|_| reference.terms && self.groups.holds(reference)) {
            Some(term) => self.replace_with_term(reference, term),
            None => self.keep(reference),
        }
    }

    /// `$1 IS NULL OR c = $1`: the value itself is the column's, and is not sent.
    fn presence(&mut self, value: &Constant) -> Result<(), SqlError> {
        let oid = value.cast.as_deref().and_then(ColumnType::parse).map(ColumnType::oid);
        oid.into_iter().for_each(|oid| self.type_parameter(&value.source, oid));
        let pieces = self.value_pieces(value, Form::Presence)?;
        let bytes = self.bytes(&value.tokens);
        self.understand_tokens(value.tokens.clone());
        self.edits.replace(bytes, pieces);
        Ok(())
    }

    fn exists(&mut self, query: &Query, is_not: bool, scope: &Scope<'_>) -> Result<(), SqlError> {
        self.denying(is_not, |analysis| analysis.query(query, Some(scope), Mode::Unread)).map(drop)
    }

    /// Expressions that read whatever is in them.
    fn reading(&mut self, expression: &Expr, scope: &Scope<'_>) -> Result<(), SqlError> {
        match expression {
            Expr::Like { expr, pattern, .. } => self.expressions([&**expr, pattern], scope, "LIKE"),
            Expr::ILike { expr, pattern, .. } => self.expressions([&**expr, pattern], scope, "ILIKE"),
            Expr::SimilarTo { expr, pattern, .. } => {
                self.expressions([&**expr, pattern], scope, "SIMILAR TO")
            }
            Expr::Tuple(list) => self.expressions(list, scope, "a row"),
            Expr::Array(array) => self.expressions(&array.elem, scope, "ARRAY"),
            Expr::Extract { expr, .. } => self.expression(expr, scope, "extract()"),
            Expr::Substring { expr, substring_from, substring_for, .. } => {
                let rest = substring_from.iter().chain(substring_for).map(|part| &**part);
                self.expressions(std::iter::once(&**expr).chain(rest), scope, "substring()")
            }
            Expr::Trim { expr, trim_what, .. } => {
                let what = trim_what.iter().map(|part| &**part);
                self.expressions(std::iter::once(&**expr).chain(what), scope, "trim()")
            }
            Expr::Position { expr, r#in } => self.expressions([&**expr, r#in], scope, "position()"),
            Expr::Ceil { expr, .. } => self.expression(expr, scope, "ceil()"),
            Expr::Floor { expr, .. } => self.expression(expr, scope, "floor()"),
            Expr::AtTimeZone { timestamp, time_zone } => {
                self.expressions([&**timestamp, time_zone], scope, "AT TIME ZONE")
            }
            // What is not listed is not walked: names in it that are watched stay not understood, and the statement is
            // refused.
            _ => Ok(()),
        }
    }

    /// A column of truth values that is a condition alone: it is compared with TRUE.
    fn condition(&mut self, reference: &Reference) -> Result<(), SqlError> {
        let term = self.need(reference, "a condition", None)?;
        let at = self.lexemes.bytes(reference.tokens.start).start;
        let form = Self::equal_form(&reference.encryption, term);
        let pieces_of = form.clone();
        let position = self.edits.value(Value {
            source: Source::Constant(Some("true".into())),
            form,
            sent_as: None,
            at,
        });
        let mut pieces = vec![Piece::Text(format!("({} = ", self.term_text(reference, term)))];
        pieces.extend(form_pieces(&pieces_of, position));
        pieces.push(Piece::Text(")".into()));
        let bytes = self.bytes(&reference.tokens);
        self.understand_tokens(reference.tokens.clone());
        self.edits.replace(bytes, pieces);
        Ok(())
    }

    fn case(&mut self, expression: &Expr, scope: &Scope<'_>) -> Result<(), SqlError> {
        let Expr::Case { operand, conditions, else_result, .. } = expression else { return Ok(()) };
        for when in conditions {
            match operand {
                Some(operand) => self.operand_of_case(operand, &when.condition, scope)?,
                None => self.expression(&when.condition, scope, "CASE")?,
            }
            self.expression(&when.result, scope, "CASE")?;
        }
        else_result.iter().try_for_each(|result| self.expression(result, scope, "CASE"))
    }

    /// `CASE c WHEN 1`: nothing encrypted, as the operand stands in the text once and is compared several times.
    pub(super) fn operand_of_case(
        &mut self,
        operand: &Expr,
        when: &Expr,
        scope: &Scope<'_>,
    ) -> Result<(), SqlError> {
        self.expression(operand, scope, "CASE with an operand (write CASE WHEN column = ...)")?;
        self.expression(when, scope, "CASE")
    }

    /// A function's call. Its value is plain.
    pub(super) fn function(&mut self, function: &Function, scope: &Scope<'_>) -> Result<(), SqlError> {
        self.within_group(|analysis| analysis.call(function, scope))
    }

    fn call(&mut self, function: &Function, scope: &Scope<'_>) -> Result<(), SqlError> {
        let name = function.name.to_string().to_lowercase();
        self.understand_name(&function.name);
        let reader = format!("function {name}()");
        match &function.args {
            FunctionArguments::None => {}
            FunctionArguments::Subquery(query) => self.query(query, Some(scope), Mode::Plain).map(drop)?,
            FunctionArguments::List(list) => {
                let distinct = list.duplicate_treatment == Some(DuplicateTreatment::Distinct);
                for argument in &list.args {
                    let Some(argument) = argument_of(argument) else { continue };
                    match self.reference(argument, scope)? {
                        Some(reference) if name == "count" && !distinct => self.keep(&reference),
                        Some(reference) if name == "count" => {
                            let term = self.need(&reference, "COUNT(DISTINCT)", None)?;
                            self.replace_with_term(&reference, term);
                        }
                        Some(reference) => {
                            let is_folded =
                                matches!(name.as_str(), "sum" | "avg") && reference.encryption.sum;
                            let error = self.unreadable(&reference, &reader);
                            let hint = "The proxy adds: of sums, means, counts and numbers it computes +, -, *, /, %, round and coalesce in the outermost results.";
                            return Err(if is_folded { error.hint(hint) } else { error });
                        }
                        None => self.expression(argument, scope, &reader)?,
                    }
                }
                for clause in &list.clauses {
                    if let FunctionArgumentClause::OrderBy(order) = clause {
                        self.order(order, scope)?;
                    }
                }
            }
        }
        self.around_function(function, scope)
    }

    /// What stands behind a function's arguments.
    pub(super) fn around_function(&mut self, function: &Function, scope: &Scope<'_>) -> Result<(), SqlError> {
        if let Some(filter) = &function.filter {
            self.expression(filter, scope, "FILTER")?;
        }
        // An ordered set is computed with: its labels would be taken for values.
        let reader = format!("function {}() WITHIN GROUP", function.name.to_string().to_lowercase());
        self.expressions(function.within_group.iter().map(|item| &item.expr), scope, &reader)?;
        match &function.over {
            Some(WindowType::WindowSpec(window)) => self.window(window, Some(function), scope),
            Some(WindowType::NamedWindow(name)) => {
                self.understand(name);
                Ok(())
            }
            None => Ok(()),
        }
    }

    /// The window of a function; of any, if it is named.
    fn window(
        &mut self,
        window: &WindowSpec,
        function: Option<&Function>,
        scope: &Scope<'_>,
    ) -> Result<(), SqlError> {
        window.window_name.iter().for_each(|name| self.understand(name));
        for expression in &window.partition_by {
            match self.reference(expression, scope)? {
                Some(reference) => {
                    let term = self.need(&reference, "PARTITION BY", None)?;
                    self.replace_with_term(&reference, term);
                }
                None => self.expression(expression, scope, "PARTITION BY")?,
            }
        }
        if let Some(frame) = &window.window_frame {
            let by_distance = |bound: &WindowFrameBound| {
                matches!(bound, WindowFrameBound::Preceding(Some(_)) | WindowFrameBound::Following(Some(_)))
            };
            // Distances between labels are none between values.
            if frame.units == WindowFrameUnits::Range
                && (by_distance(&frame.start_bound) || frame.end_bound.as_ref().is_some_and(by_distance))
            {
                let order = window.order_by.iter().map(|item| &item.expr);
                return self.expressions(order, scope, "a RANGE by distance");
            }
        }
        self.check_window(window, function, scope)?;
        self.order(&window.order_by, scope)
    }

    pub(super) fn named_window(
        &mut self,
        window: &NamedWindowExpr,
        scope: &Scope<'_>,
    ) -> Result<(), SqlError> {
        match window {
            NamedWindowExpr::NamedWindow(name) => {
                self.understand(name);
                Ok(())
            }
            NamedWindowExpr::WindowSpec(window) => self.window(window, None, scope),
        }
    }

    /// An order by input columns (of a window, of an aggregate).
    pub(super) fn order(&mut self, order: &[OrderByExpr], scope: &Scope<'_>) -> Result<(), SqlError> {
        for (place, item) in order.iter().enumerate() {
            let is_last = place + 1 == order.len();
            match self.reference(&item.expr, scope)? {
                Some(reference) => {
                    let term = self.need(&reference, "ORDER BY", Some(Term::Order))?;
                    self.check_last(&reference, is_last, "ORDER BY")?;
                    self.replace_with_term(&reference, term);
                }
                None => self.order_by_value(&item.expr, is_last, scope)?,
            }
        }
        Ok(())
    }

    /// An order by what is no column: by an encrypted column's least or greatest value, or by a plain value.
    pub(super) fn order_by_value(
        &mut self,
        expression: &Expr,
        is_last: bool,
        scope: &Scope<'_>,
    ) -> Result<(), SqlError> {
        match self.extreme(expression, scope)? {
            Some(reference) => {
                let term = self.need(&reference, "ORDER BY", Some(Term::Order))?;
                self.check_last(&reference, is_last, "ORDER BY")?;
                self.replace_with_term(&reference, term);
                Ok(())
            }
            None => self.expression(expression, scope, "ORDER BY"),
        }
    }
}

/// What `min` and `max` are called that find a column's terms. Of terms that are ciphertexts PostgreSQL has none before 18, so there are
/// two of ours.
pub(super) fn extreme_name(function: &Function, encryption: &Encryption) -> &'static str {
    match (function.name.to_string().eq_ignore_ascii_case("min"), encryption.order_is_ciphertext()) {
        (true, false) => "min",
        (true, true) => "arras.bytes_min",
        (false, false) => "max",
        (false, true) => "arras.bytes_max",
    }
}

/// Is it a column of truth values where a condition stands?
fn is_condition(reference: &Reference, reader: &str) -> bool {
    reference.encryption.kind == ColumnType::Boolean
        && ["AND", "OR", "NOT", "WHERE", "HAVING", "ON", "FILTER", "CASE", "IS TRUE or FALSE"]
            .contains(&reader)
}

/// The expression that an argument is; none of `*`.
pub(super) fn argument_of(argument: &FunctionArg) -> Option<&Expr> {
    let (FunctionArg::Unnamed(argument)
    | FunctionArg::Named { arg: argument, .. }
    | FunctionArg::ExprNamed { arg: argument, .. }) = argument;
    match argument {
        FunctionArgExpr::Expr(expression) => Some(expression),
        FunctionArgExpr::Wildcard
        | FunctionArgExpr::QualifiedWildcard(_)
        | FunctionArgExpr::WildcardWithOptions(_) => None,
    }
}
