//! Results that are computed of sums: `sum(a) - sum(b)`, `round(avg(c), 2)`. The server gathers the sealed values of all sums in
//! one array, and beside them what it has counted; the proxy adds and computes. Constants stay with the proxy.

use super::{Mode, What};
use crate::column_type::ColumnType;
use crate::error::SqlError;
use crate::plan::{Arithmetic, Piece, Source, Summed, SummedExpression, SummedPart};
use crate::rewrite::analysis::Analysis;
use crate::rewrite::constant::{Written, constant};
use crate::rewrite::expression::argument_of;
use crate::rewrite::scope::Scope;
use crate::text::quoted;
use sqlparser::ast::{BinaryOperator, Expr, Function, FunctionArguments, Ident, UnaryOperator};
use sqlparser::tokenizer::Token;
use std::ops::Range;
use std::sync::Arc;

/// What is gathered for one result.
#[derive(Default)]
struct Gathered {
    parts: Vec<SummedPart>,
    texts: Vec<Vec<Piece>>,
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

fn operator_of(op: &BinaryOperator) -> Option<Arithmetic> {
    Some(match op {
        BinaryOperator::Plus => Arithmetic::Plus,
        BinaryOperator::Minus => Arithmetic::Minus,
        BinaryOperator::Multiply => Arithmetic::Times,
        BinaryOperator::Divide => Arithmetic::Over,
        BinaryOperator::Modulo => Arithmetic::Modulo,
        _ => return None,
    })
}

/// The expressions that one is made of, where sums are looked for in it.
fn within(expression: &Expr) -> Vec<&Expr> {
    match expression {
        Expr::BinaryOp { left, op, right } if operator_of(op).is_some() => vec![left, right],
        Expr::Nested(inner)
        | Expr::Cast { expr: inner, .. }
        | Expr::UnaryOp { op: UnaryOperator::Minus | UnaryOperator::Plus, expr: inner } => vec![inner],
        Expr::Function(function) if ["round", "coalesce"].contains(&name_of(function).as_str()) => {
            arguments_of(function).unwrap_or_default()
        }
        _ => Vec::new(),
    }
}

impl Analysis<'_> {
    /// What is computed of sums of encrypted columns; none if an expression is something else.
    pub(super) fn summed_item(
        &mut self,
        expression: &Expr,
        alias: Option<&Ident>,
        (name, scope, mode): (&str, &Scope<'_>, Mode<'_>),
    ) -> Result<Option<What>, SqlError> {
        if !matches!(mode, Mode::Top) || !self.holds_sum(expression, scope)? {
            return Ok(None);
        }
        let mut gathered = Gathered::default();
        let found = self.summed(expression, &mut gathered, scope)?;
        let kind = found.as_ref().and_then(|found| found.kind(&gathered.parts));
        let column = gathered.parts.iter().find_map(|part| match part {
            SummedPart::Fold(_, encryption) => Some(encryption.clone()),
            SummedPart::Count => None,
        });
        let tokens = self.tokens_of_item(expression, alias);
        let (Some(expression), Some(kind), Some(column), Some(tokens)) = (found, kind, column, tokens) else {
            return Ok(None);
        };
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
        Ok(Some(What::Summed(Arc::new(Summed { parts: gathered.parts, expression, kind, column }))))
    }

    /// Is there a sum of an encrypted column in an expression, and more than that?
    fn holds_sum(&mut self, expression: &Expr, scope: &Scope<'_>) -> Result<bool, SqlError> {
        for part in within(expression) {
            if self.is_sum(part, scope)? || self.holds_sum(part, scope)? {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Is it the sum or mean of an encrypted column that may be summed?
    fn is_sum(&mut self, expression: &Expr, scope: &Scope<'_>) -> Result<bool, SqlError> {
        let Expr::Function(function) = expression else { return Ok(false) };
        self.is_sum_call(function, scope)
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

    /// What the proxy computes; none if it does not know how.
    fn summed(
        &mut self,
        expression: &Expr,
        gathered: &mut Gathered,
        scope: &Scope<'_>,
    ) -> Result<Option<SummedExpression>, SqlError> {
        if let Some(found) = constant(self.lexemes, expression) {
            let (Source::Constant(Some(digits)), Written::Number) = (&found.source, found.written) else {
                return Ok(None);
            };
            let number = SummedExpression::Number(digits.clone());
            return Ok(match (&found.cast, found.cast_kind()) {
                (None, _) => Some(number),
                (Some(_), Some(kind)) if kind.is_number() => {
                    Some(SummedExpression::Cast(Box::new(number), kind))
                }
                (Some(_), _) => None,
            });
        }
        match expression {
            Expr::Nested(inner) => self.summed(inner, gathered, scope),
            Expr::BinaryOp { left, op, right } => {
                let Some(operator) = operator_of(op) else { return Ok(None) };
                let both = (self.summed(left, gathered, scope)?, self.summed(right, gathered, scope)?);
                let (Some(left), Some(right)) = both else { return Ok(None) };
                Ok(Some(SummedExpression::Arithmetic(operator, Box::new(left), Box::new(right))))
            }
            Expr::UnaryOp { op: UnaryOperator::Minus, expr } => {
                let inner = self.summed(expr, gathered, scope)?;
                Ok(inner.map(|inner| SummedExpression::Negated(Box::new(inner))))
            }
            Expr::Cast { expr, data_type, format: None, .. } => {
                let Some(kind) = ColumnType::parse(&data_type.to_string()).filter(|kind| kind.is_number())
                else {
                    return Ok(None);
                };
                let inner = self.summed(expr, gathered, scope)?;
                Ok(inner.map(|inner| SummedExpression::Cast(Box::new(inner), kind)))
            }
            Expr::Function(function) => self.summed_call(function, gathered, scope),
            _ => Ok(None),
        }
    }

    fn summed_call(
        &mut self,
        function: &Function,
        gathered: &mut Gathered,
        scope: &Scope<'_>,
    ) -> Result<Option<SummedExpression>, SqlError> {
        match name_of(function).as_str() {
            "sum" | "avg" if self.is_sum_call(function, scope)? => {
                self.gathered_sum(function, gathered, scope)
            }
            "count" => self.gathered_count(function, gathered, scope),
            "nullif" => {
                let Some([counted, number]) =
                    arguments_of(function).and_then(|list| <[&Expr; 2]>::try_from(list).ok())
                else {
                    return Ok(None);
                };
                let is_counted = matches!(counted, Expr::Function(inner) if name_of(inner) == "count" && inner.over.is_none());
                let is_whole = constant(self.lexemes, number).is_some_and(|found| {
                    matches!(&found.source, Source::Constant(Some(digits)) if digits.parse::<i32>().is_ok())
                        && found.cast.is_none()
                        && found.written == Written::Number
                });
                if is_counted && is_whole { self.gathered_count(function, gathered, scope) } else { Ok(None) }
            }
            "round" => {
                let arguments = arguments_of(function).unwrap_or_default();
                let (value, digits) = match arguments[..] {
                    [value] => (value, None),
                    [value, digits] => {
                        let found = constant(self.lexemes, digits).filter(|found| found.cast.is_none());
                        let Some(Source::Constant(Some(digits))) = found.map(|found| found.source) else {
                            return Ok(None);
                        };
                        let Ok(digits) = digits.parse() else { return Ok(None) };
                        (value, Some(digits))
                    }
                    _ => return Ok(None),
                };
                let value = self.summed(value, gathered, scope)?;
                Ok(value.map(|value| SummedExpression::Round(Box::new(value), digits)))
            }
            "coalesce" => {
                let mut list = Vec::new();
                for argument in arguments_of(function).unwrap_or_default() {
                    let Some(one) = self.summed(argument, gathered, scope)? else { return Ok(None) };
                    list.push(one);
                }
                Ok((!list.is_empty()).then_some(SummedExpression::Coalesce(list)))
            }
            _ => Ok(None),
        }
    }

    /// A sum or mean: the server gathers its sealed values.
    fn gathered_sum(
        &mut self,
        function: &Function,
        gathered: &mut Gathered,
        scope: &Scope<'_>,
    ) -> Result<Option<SummedExpression>, SqlError> {
        let around = self.edits.take();
        // It has no name of its own here.
        let alias = Ident::new("sum");
        let found = self.aggregate_item(function, &name_of(function), Some(&alias), scope, Mode::Top);
        let text = self.text_of_call(function);
        self.edits.restore(around);
        let (Some(What::Fold(fold, encryption)), Some(text)) = (found?, text?) else { return Ok(None) };
        Ok(Some(gathered.part(SummedPart::Fold(fold, encryption), text)))
    }

    /// A count, which the server computes.
    fn gathered_count(
        &mut self,
        function: &Function,
        gathered: &mut Gathered,
        scope: &Scope<'_>,
    ) -> Result<Option<SummedExpression>, SqlError> {
        let around = self.edits.take();
        let found = self.function(function, scope);
        let text = self.text_of_call(function);
        self.edits.restore(around);
        found?;
        let Some(text) = text? else { return Ok(None) };
        let mut pieces = vec![Piece::Text("ARRAY[pg_catalog.convert_to((".into())];
        pieces.extend(text);
        pieces.push(Piece::Text(")::pg_catalog.text, 'UTF8')]".into()));
        Ok(Some(gathered.part(SummedPart::Count, pieces)))
    }

    /// The text of a function's call, with what is replaced in it.
    fn text_of_call(&mut self, function: &Function) -> Result<Option<Vec<Piece>>, SqlError> {
        let Some(at) = self.token_of_name(function) else { return Ok(None) };
        let Some(end) = self.end_of_function(function, at) else { return Ok(None) };
        self.place_plain_parameters_in(at..end);
        self.edits.pieces(self.text, self.bytes(&(at..end))).map(Some)
    }

    /// The tokens of a result, its alias left out.
    fn tokens_of_item(&self, expression: &Expr, alias: Option<&Ident>) -> Option<Range<usize>> {
        let is = |at: usize, words: &[&str]| words.iter().any(|word| self.lexemes.is_word(at, word));
        let mut start = super::first_token(self.lexemes, expression);
        while let Some(before) = start.checked_sub(1) {
            let belongs =
                matches!(self.lexemes.token(before), Some(Token::LParen | Token::Minus | Token::Plus))
                    || is(before, &["cast", "round", "coalesce"]);
            if !belongs {
                break;
            }
            start = before;
        }
        let before = start.checked_sub(1)?;
        let is_first = matches!(self.lexemes.token(before), Some(Token::Comma | Token::RParen))
            || is(before, &["select", "all"]);
        let alias = alias.and_then(|alias| self.lexemes.position_of(alias.span));
        let mut depth = 0_usize;
        for (at, lexeme) in self.lexemes.list.iter().enumerate().skip(start) {
            match lexeme.token.token {
                Token::LParen | Token::LBracket => depth += 1,
                Token::RParen | Token::RBracket => depth = depth.checked_sub(1)?,
                Token::Comma if depth == 0 => return is_first.then_some(start..at),
                _ if depth == 0 && (alias == Some(at) || is(at, &["as"]) || self.is_clause(at, "from")) => {
                    return is_first.then_some(start..at);
                }
                _ => {}
            }
        }
        None
    }
}

impl Gathered {
    fn part(&mut self, part: SummedPart, text: Vec<Piece>) -> SummedExpression {
        self.parts.push(part);
        self.texts.push(text);
        SummedExpression::Part(self.parts.len() - 1)
    }
}
