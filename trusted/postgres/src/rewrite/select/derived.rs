//! Results that the proxy computes: of a row's sealed values (`balance + 1`), of sums (`sum(a) - sum(b)`), and of what stands
//! beside them. The server sends in one array what they are computed of. Constants stay with the proxy, and parameters are sealed.

mod built;
mod conditions;

use super::{Mode, What};
use crate::catalog::{Encryption, Origin, StatementDigest};
use crate::column_type::ColumnType;
use crate::error::SqlError;
use crate::plan::{Derived, DerivedExpression, DerivedPart, Form, Piece, Source};
use crate::rewrite::analysis::{Analysis, Reference};
use crate::rewrite::constant::{Constant, constant};
use crate::rewrite::expression::argument_of;
use crate::rewrite::scope::Scope;
use crate::text::{fold, quoted};
pub(in crate::rewrite) use built::operator_of;
pub(in crate::rewrite) use conditions::is_safe;
use sqlparser::ast::{BinaryOperator, Expr, Function, FunctionArguments, Ident, UnaryOperator};
use sqlparser::tokenizer::Token;
use std::ops::Range;
use std::sync::Arc;

/// What is gathered for one result.
pub(super) struct Gathered {
    parts: Vec<DerivedPart>,
    texts: Vec<Vec<Piece>>,
    /// The column whose key seals the parameters.
    column: Arc<Encryption>,
    /// Is what is looked at computed for some rows only?
    lazy: bool,
}

/// The arguments of a call of a plain function.
fn arguments_of(function: &Function) -> Option<Vec<&Expr>> {
    let FunctionArguments::List(list) = &function.args else { return None };
    let is_plain = list.duplicate_treatment.is_none()
        && list.clauses.is_empty()
        && function.filter.is_none()
        && function.over.is_none();
    is_plain.then(|| list.args.iter().map(argument_of).collect()).flatten()
}

fn name_of(function: &Function) -> String {
    function.name.to_string().to_lowercase()
}

/// The expressions that an expression is computed of.
fn within(expression: &Expr) -> Vec<&Expr> {
    match expression {
        Expr::BinaryOp { left, right, .. }
        | Expr::IsDistinctFrom(left, right)
        | Expr::IsNotDistinctFrom(left, right) => vec![left, right],
        Expr::Nested(inner)
        | Expr::Cast { expr: inner, .. }
        | Expr::UnaryOp { expr: inner, .. }
        | Expr::Ceil { expr: inner, .. }
        | Expr::Floor { expr: inner, .. }
        | Expr::Extract { expr: inner, .. }
        | Expr::AtTimeZone { timestamp: inner, .. }
        | Expr::IsNull(inner)
        | Expr::IsNotNull(inner)
        | Expr::IsTrue(inner)
        | Expr::IsNotTrue(inner)
        | Expr::IsFalse(inner)
        | Expr::IsNotFalse(inner) => vec![inner],
        Expr::InList { expr, list, .. } => std::iter::once(&**expr).chain(list).collect(),
        Expr::Between { expr, low, high, .. } => vec![expr, low, high],
        Expr::Case { operand, conditions, else_result, .. } => {
            let of_when = conditions.iter().flat_map(|when| [&when.condition, &when.result]);
            operand.as_deref().into_iter().chain(of_when).chain(else_result.as_deref()).collect()
        }
        Expr::Function(function) if built::is_called(&name_of(function)) => {
            arguments_of(function).unwrap_or_default()
        }
        _ => Vec::new(),
    }
}

/// Is it a condition, which the server looks at where it can?
fn is_condition(expression: &Expr) -> bool {
    match expression {
        Expr::Nested(inner) => is_condition(inner),
        Expr::BinaryOp { op, .. } => {
            matches!(op, BinaryOperator::And | BinaryOperator::Or) || conditions::compared_of(op).is_some()
        }
        Expr::UnaryOp { op: UnaryOperator::Not, .. }
        | Expr::IsNull(_)
        | Expr::IsNotNull(_)
        | Expr::IsTrue(_)
        | Expr::IsNotTrue(_)
        | Expr::IsFalse(_)
        | Expr::IsNotFalse(_)
        | Expr::IsDistinctFrom(..)
        | Expr::IsNotDistinctFrom(..)
        | Expr::InList { .. }
        | Expr::Between { .. } => true,
        _ => false,
    }
}

/// The value's parts of an expression: conditions left out.
fn values_within(expression: &Expr) -> Vec<&Expr> {
    match expression {
        Expr::Case { operand, conditions, else_result, .. } => {
            let results = conditions.iter().map(|when| &when.result);
            operand.as_deref().into_iter().chain(results).chain(else_result.as_deref()).collect()
        }
        other if is_condition(other) => Vec::new(),
        other => within(other),
    }
}

impl Analysis<'_> {
    /// What the proxy computes of encrypted columns; none if nothing in it is encrypted, or the proxy does not know how.
    /// What the server can look at is left to it, unless it has refused.
    pub(super) fn derived_item(
        &mut self,
        expression: &Expr,
        alias: Option<&Ident>,
        (name, scope, mode): (&str, &Scope<'_>, Mode<'_>),
        refused: bool,
    ) -> Result<Option<What>, SqlError> {
        let look = if refused { within } else { values_within };
        if !matches!(mode, Mode::Top) || look(expression).is_empty() {
            return Ok(None);
        }
        let Some(column) = self.column_within(expression, look, scope)? else { return Ok(None) };
        let mark = self.edits.mark();
        let mut gathered = Gathered { parts: Vec::new(), texts: Vec::new(), column, lazy: false };
        let found = self.built(expression, &mut gathered, scope)?;
        let kind = found.as_ref().and_then(|found| found.kind(&gathered.parts));
        let tokens = self.tokens_of_item(expression, alias);
        let (Some(expression), Some(kind), Some(tokens)) = (found, kind, tokens) else {
            self.edits.back_to(mark);
            return Ok(None);
        };
        if gathered.parts.is_empty() {
            self.edits.back_to(mark);
            return Ok(None);
        }
        let mut pieces = Vec::new();
        for (place, text) in gathered.texts.into_iter().enumerate() {
            let between = if place > 0 { " || ARRAY[''::bytea] || " } else { "" };
            pieces.push(Piece::Text(between.into()));
            pieces.extend(text);
        }
        if alias.is_none() {
            pieces.push(Piece::Text(format!(" AS {}", quoted(name))));
        }
        let bytes = self.bytes(&tokens);
        self.understand_tokens(tokens);
        self.edits.replace(bytes, pieces);
        let column = gathered.column;
        Ok(Some(What::Derived(Arc::new(Derived { parts: gathered.parts, expression, kind, column }))))
    }

    /// Does an expression choose among constants by conditions that read encrypted columns?
    pub(super) fn chooses_constants(
        &mut self,
        expression: &Expr,
        scope: &Scope<'_>,
    ) -> Result<bool, SqlError> {
        if let Expr::Case { operand, conditions, else_result, .. } = expression {
            let mut results = conditions.iter().map(|when| &when.result).chain(else_result.as_deref());
            let gives = results.any(|result| {
                constant(self.lexemes, result).is_some_and(|found| found.source != Source::Constant(None))
            });
            let looked_at = conditions.iter().map(|when| &when.condition).chain(operand.as_deref());
            for condition in looked_at.filter(|_| gives) {
                if self.column_within(condition, within, scope)?.is_some() {
                    return Ok(true);
                }
            }
        }
        for part in within(expression) {
            if self.chooses_constants(part, scope)? {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// The first encrypted column that an expression's value is computed of.
    fn column_within(
        &mut self,
        expression: &Expr,
        look: fn(&Expr) -> Vec<&Expr>,
        scope: &Scope<'_>,
    ) -> Result<Option<Arc<Encryption>>, SqlError> {
        if constant(self.lexemes, expression).is_some() {
            return Ok(None);
        }
        if let Some(reference) = self.reference(expression, scope)? {
            return Ok(Some(reference.encryption));
        }
        if let Expr::Function(function) = expression
            && let Some(encryption) = self.aggregated(function, scope)?
        {
            return Ok(Some(encryption));
        }
        for part in look(expression) {
            if let Some(found) = self.column_within(part, look, scope)? {
                return Ok(Some(found));
            }
        }
        Ok(None)
    }

    /// The encrypted column whose sum, mean, least or greatest value a function gives.
    fn aggregated(
        &mut self,
        function: &Function,
        scope: &Scope<'_>,
    ) -> Result<Option<Arc<Encryption>>, SqlError> {
        let is_extreme = ["min", "max"].contains(&name_of(function).as_str());
        if !is_extreme && !self.is_sum_call(function, scope)? {
            return Ok(None);
        }
        let FunctionArguments::List(list) = &function.args else { return Ok(None) };
        let [argument] = &list.args[..] else { return Ok(None) };
        let Some(argument) = argument_of(argument) else { return Ok(None) };
        Ok(self.reference(argument, scope)?.map(|reference| reference.encryption))
    }

    fn is_sum_call(&mut self, function: &Function, scope: &Scope<'_>) -> Result<bool, SqlError> {
        let FunctionArguments::List(list) = &function.args else { return Ok(false) };
        let ([argument], true) = (&list.args[..], ["sum", "avg"].contains(&name_of(function).as_str()))
        else {
            return Ok(false);
        };
        let Some(argument) = argument_of(argument) else { return Ok(false) };
        Ok(self.reference(argument, scope)?.is_some_and(|reference| reference.encryption.sum))
    }

    /// A sum or mean, whose sealed values the server gathers, or the least or greatest value.
    fn gathered_aggregate(
        &mut self,
        function: &Function,
        gathered: &mut Gathered,
        scope: &Scope<'_>,
    ) -> Result<Option<DerivedExpression>, SqlError> {
        let around = self.edits.take();
        // It has no name of its own here.
        let alias = Ident::new("sum");
        let found = self.aggregate_item(function, &name_of(function), Some(&alias), scope, Mode::Top);
        let text = self.text_of_call(function);
        self.edits.restore(around);
        match (found?, text?) {
            (Some(What::Fold(fold, encryption)), Some(text)) => {
                Ok(Some(gathered.part(DerivedPart::Fold(fold, encryption), text)))
            }
            (Some(What::Sealed(encryption, _)), Some(text)) => Ok(Some(gathered.value(encryption, text))),
            _ => Ok(None),
        }
    }

    /// A count, which the server computes.
    fn gathered_count(
        &mut self,
        function: &Function,
        gathered: &mut Gathered,
        scope: &Scope<'_>,
    ) -> Result<Option<DerivedExpression>, SqlError> {
        let around = self.edits.take();
        let found = self.function(function, scope);
        let text = self.text_of_call(function);
        self.edits.restore(around);
        found?;
        let Some(text) = text? else { return Ok(None) };
        let mut pieces = vec![Piece::Text("ARRAY[pg_catalog.convert_to((".into())];
        pieces.extend(text);
        pieces.push(Piece::Text(")::pg_catalog.text, 'UTF8')]".into()));
        Ok(Some(gathered.part(DerivedPart::Count, pieces)))
    }

    /// The text of a function's call, with what is replaced in it.
    fn text_of_call(&mut self, function: &Function) -> Result<Option<Vec<Piece>>, SqlError> {
        let Some(at) = self.token_of_name(function) else { return Ok(None) };
        let Some(end) = self.end_of_function(function, at) else { return Ok(None) };
        self.place_plain_parameters_in(at..end);
        self.edits.pieces(self.text, self.bytes(&(at..end))).map(Some)
    }

    /// One encrypted value of a row, or of its group.
    fn gathered_value(
        &mut self,
        reference: &Reference,
        gathered: &mut Gathered,
    ) -> Result<DerivedExpression, SqlError> {
        let around = self.edits.take();
        self.keep(reference);
        let bytes = self.bytes(&reference.tokens);
        let text = self.edits.pieces(self.text, bytes);
        self.edits.restore(around);
        let mut pieces = text?;
        if self.groups.holds(reference) {
            pieces.insert(0, Piece::Text("arras.any_of(".into()));
            pieces.push(Piece::Text(")".into()));
        }
        Ok(gathered.value(reference.encryption.clone(), pieces))
    }

    /// A plain column of a type that is known.
    fn gathered_plain(
        &mut self,
        expression: &Expr,
        gathered: &mut Gathered,
        scope: &Scope<'_>,
    ) -> Option<DerivedExpression> {
        let (parts, width): (Vec<&Ident>, usize) = match expression {
            Expr::Identifier(name) => (vec![name], 1),
            Expr::CompoundIdentifier(parts) => (parts.iter().collect(), 2 * parts.len() - 1),
            _ => return None,
        };
        let names: Vec<String> =
            parts.iter().map(|part| fold(&part.value, part.quote_style.is_some())).collect();
        let kind = scope.plain_kind(&names)?;
        let start = super::first_token(self.lexemes, expression);
        let text = self.source(&(start..start + width)).to_owned();
        Some(gathered.plain(kind, vec![Piece::Text(text)]))
    }

    /// A parameter, sealed as a value of a type for the statement's results.
    fn gathered_parameter(
        &mut self,
        found: &Constant,
        kind: ColumnType,
        gathered: &mut Gathered,
    ) -> Result<DerivedExpression, SqlError> {
        if let Source::Parameter(number) = found.source
            && self.parameters.get(&number).is_some_and(|oid| *oid != kind.oid())
        {
            let message = format!("${number} is of two types, in two places");
            let hint = "Give each of them a parameter of its own.";
            return Err(self.unsupported(found.tokens.start, message, hint));
        }
        let origin = Origin::Given(StatementDigest::new(self.text, Some(kind)));
        let column = Encryption { origin, kind, max_bytes: None, ..(*gathered.column).clone() };
        let column = Arc::new(Encryption { equality: None, order: None, sum: false, text: None, ..column });
        let mut pieces = vec![Piece::Text("(".into())];
        pieces.extend(self.value_pieces(found, Form::Sealed(column.clone()))?);
        pieces.push(Piece::Text(")::bytea".into()));
        Ok(gathered.value(column, pieces))
    }

    /// A condition that the server looks at.
    fn gathered_condition(
        &mut self,
        condition: &Expr,
        tokens: Range<usize>,
        gathered: &mut Gathered,
        scope: &Scope<'_>,
    ) -> Result<DerivedExpression, SqlError> {
        let around = self.edits.take();
        let found = self.expression(condition, scope, "CASE");
        // Those of the whole result are taken for understood, with the condition in it.
        let unread = self.not_understood_in(tokens.clone());
        self.place_plain_parameters_in(tokens.clone());
        let text = self.edits.pieces(self.text, self.bytes(&tokens));
        self.edits.restore(around);
        found?;
        if let Some(at) = unread {
            return Err(self.refusal(at));
        }
        Ok(gathered.plain(ColumnType::Boolean, text?))
    }

    /// The tokens of a result, its alias left out.
    fn tokens_of_item(&self, expression: &Expr, alias: Option<&Ident>) -> Option<Range<usize>> {
        let is = |at: usize, words: &[&str]| words.iter().any(|word| self.lexemes.is_word(at, word));
        let mut start = super::first_token(self.lexemes, expression);
        // What stands before the first value of an expression is no comma, and no word that begins a list.
        while let Some(before) = start.checked_sub(1) {
            let is_distinct =
                is(before, &["distinct"]) && before.checked_sub(1).is_some_and(|at| is(at, &["select"]));
            let ends = matches!(self.lexemes.token(before), Some(Token::Comma | Token::RParen));
            if ends || is_distinct || is(before, &["select", "all", "returning"]) {
                break;
            }
            start = before;
        }
        start.checked_sub(1)?;
        let alias = alias.and_then(|alias| self.lexemes.position_of(alias.span));
        let mut depth = 0_usize;
        for (at, lexeme) in self.lexemes.list.iter().enumerate().skip(start) {
            match lexeme.token.token {
                Token::LParen | Token::LBracket => depth += 1,
                Token::RParen | Token::RBracket if depth == 0 => return Some(start..at),
                Token::RParen | Token::RBracket => depth -= 1,
                Token::Comma if depth == 0 => return Some(start..at),
                _ if depth == 0 && (alias == Some(at) || is(at, &["as"]) || self.is_clause(at, "from")) => {
                    return Some(start..at);
                }
                _ => {}
            }
        }
        Some(start..self.lexemes.list.len())
    }
}

impl Gathered {
    fn part(&mut self, part: DerivedPart, text: Vec<Piece>) -> DerivedExpression {
        self.parts.push(part);
        self.texts.push(text);
        DerivedExpression::Part(self.parts.len() - 1)
    }

    /// One sealed value.
    fn value(&mut self, encryption: Arc<Encryption>, text: Vec<Piece>) -> DerivedExpression {
        let part = DerivedPart::Value(encryption);
        self.array("array[", part, text, "]")
    }

    /// One plain value, as the server sends it in binary.
    fn plain(&mut self, kind: ColumnType, text: Vec<Piece>) -> DerivedExpression {
        let sent = match kind {
            ColumnType::SmallInt => "int2send",
            ColumnType::Integer => "int4send",
            ColumnType::BigInt => "int8send",
            ColumnType::Real => "float4send",
            ColumnType::DoublePrecision => "float8send",
            ColumnType::Numeric(_) => "numeric_send",
            ColumnType::Text | ColumnType::Varchar(_) => "convert_to",
            ColumnType::Date => "date_send",
            ColumnType::Timestamp(_) => "timestamp_send",
            ColumnType::TimestampTz(_) => "timestamptz_send",
            ColumnType::Uuid => "uuid_send",
            ColumnType::Boolean => "boolsend",
            ColumnType::Bytea => "byteasend",
            ColumnType::Json => "json_send",
            ColumnType::Jsonb => "jsonb_send",
        };
        let coded = if sent == "convert_to" { "::pg_catalog.text, 'UTF8'" } else { "" };
        let before = format!("ARRAY['\\x00'::bytea || pg_catalog.{sent}((");
        self.array(&before, DerivedPart::Plain(kind), text, &format!("){coded})]"))
    }

    /// A part that is an array of one member; one that is there already is not sent again.
    fn array(
        &mut self,
        before: &str,
        part: DerivedPart,
        text: Vec<Piece>,
        behind: &str,
    ) -> DerivedExpression {
        let mut pieces = vec![Piece::Text(before.into())];
        pieces.extend(text);
        pieces.push(Piece::Text(behind.into()));
        let known = self.texts.iter().position(|other| *other == pieces);
        match known.filter(|known| self.parts.get(*known) == Some(&part)) {
            Some(known) => DerivedExpression::Part(known),
            None => self.part(part, pieces),
        }
    }

    fn mark(&self) -> (usize, bool) {
        (self.parts.len(), self.lazy)
    }

    fn back_to(&mut self, (parts, lazy): (usize, bool)) {
        self.parts.truncate(parts);
        self.texts.truncate(parts);
        self.lazy = lazy;
    }
}
