//! `now()` and its like where an encrypted column is compared with them, or given them: the proxy computes what they say, so that the
//! server does not see it.

use super::constant::{Constant, Written, cast_tokens, constant, in_parentheses};
use super::expression::argument_of;
use crate::catalog::Encryption;
use crate::codec::{Interval, Unit};
use crate::column_type::ColumnType;
use crate::moment::Moment;
use crate::plan::Source;
use crate::text::Lexemes;
use sqlparser::ast::{BinaryOperator, DateTimeField, Expr, Function, FunctionArguments, Value};
use sqlparser::tokenizer::Token;
use std::ops::Range;

/// The constant or the moment that an expression is, if it is one.
pub(super) fn constant_or_moment(lexemes: &Lexemes, expression: &Expr) -> Option<Constant> {
    constant(lexemes, expression).or_else(|| {
        let (moment, tokens) = moment(lexemes, expression)?;
        Some(of_moment(moment, tokens))
    })
}

/// Does an expression hang on when the transaction began, and on nothing else?
pub(super) fn is_moment(lexemes: &Lexemes, expression: &Expr) -> bool {
    moment(lexemes, expression).is_some()
}

/// A moment as it is assigned to a column's type.
pub(super) fn assigned_moment(value: &Constant, kind: ColumnType) -> Option<Constant> {
    let Source::Moment(moment) = &value.source else { return None };
    Some(of_moment(moment.clone().cast_to(kind)?, value.tokens.clone()))
}

/// A moment as it is compared with a column's type.
pub(super) fn compared_moment(value: &Constant, kind: ColumnType) -> Option<Constant> {
    let Source::Moment(moment) = &value.source else { return None };
    Some(of_moment(moment.clone().compared_as(kind)?, value.tokens.clone()))
}

/// A moment that some tokens say.
pub(super) fn of_moment(moment: Moment, tokens: Range<usize>) -> Constant {
    let cast = Some(moment.kind().name());
    Constant { tokens, source: Source::Moment(moment), written: Written::Any, cast }
}

/// A constant among days and moments that one is chosen of, or that are listed: where these are of another type than the column, one
/// that says none is of theirs first.
pub(super) fn beside_times(found: Constant, among: Option<ColumnType>, encryption: &Encryption) -> Constant {
    let is_open = found.cast.is_none() && found.written == Written::Any;
    let has_value = matches!(found.source, Source::Constant(Some(_)) | Source::Parameter(_));
    let other = among.filter(|kind| kind.is_time() && *kind != encryption.kind.plain());
    match other.filter(|_| is_open && has_value) {
        Some(kind) => found.clone().cast_to(kind.name()).unwrap_or(found),
        None => found,
    }
}

fn moment(lexemes: &Lexemes, expression: &Expr) -> Option<(Moment, Range<usize>)> {
    match expression {
        Expr::Function(function) => called(lexemes, function),
        Expr::Nested(inner) => {
            let (moment, tokens) = moment(lexemes, inner)?;
            Some((moment, in_parentheses(lexemes, tokens)?))
        }
        Expr::Cast { kind, expr, data_type: _, format: None } => {
            let (moment, tokens) = moment(lexemes, expr)?;
            let (tokens, name) = cast_tokens(lexemes, kind, &tokens)?;
            Some((moment.cast_to(ColumnType::parse(&name)?)?, tokens))
        }
        Expr::AtTimeZone { timestamp, time_zone } => {
            let (moment, tokens) = moment(lexemes, timestamp)?;
            let (name, at) = string(lexemes, time_zone)?;
            let words = ["at", "time", "zone"].iter().zip(tokens.end..);
            let is_behind = words.into_iter().all(|(word, at)| lexemes.is_word(at, word));
            (name.eq_ignore_ascii_case("utc") && is_behind && at == tokens.end + 3).then_some(())?;
            Some((moment.in_utc()?, tokens.start..at + 1))
        }
        Expr::BinaryOp { left, op, right } => moved(lexemes, left, op, right),
        _ => None,
    }
}

/// `now()`, `current_date`, `current_timestamp(3)`, `date_trunc('day', now())`.
fn called(lexemes: &Lexemes, function: &Function) -> Option<(Moment, Range<usize>)> {
    let is_plain = function.over.is_none()
        && function.filter.is_none()
        && function.null_treatment.is_none()
        && function.within_group.is_empty()
        && matches!(function.parameters, FunctionArguments::None);
    let [part] = &function.name.0[..] else { return None };
    let name = part.as_ident().filter(|name| is_plain && name.quote_style.is_none())?;
    let at = lexemes.position_of(name.span)?;
    let now = Moment::now();
    let name = name.value.to_lowercase();
    let given = match &function.args {
        FunctionArguments::None => None,
        FunctionArguments::List(list) => {
            let is_plain = list.clauses.is_empty() && list.duplicate_treatment.is_none();
            let opens = matches!(lexemes.token(at + 1), Some(Token::LParen));
            Some(
                (is_plain && opens)
                    .then(|| list.args.iter().map(argument_of).collect::<Option<Vec<_>>>())??,
            )
        }
        FunctionArguments::Subquery(_) => return None,
    };
    let closes = |at: usize| matches!(lexemes.token(at), Some(Token::RParen));
    let moment = match (name.as_str(), given.as_deref()) {
        ("now" | "transaction_timestamp", Some([])) | ("current_timestamp", None | Some([_])) => now,
        ("statement_timestamp", Some([])) => Moment::of_statement(),
        ("localtimestamp", None | Some([_])) => now.cast_to(ColumnType::Timestamp(None))?,
        ("current_date", None) => now.cast_to(ColumnType::Date)?,
        ("date_trunc", Some([unit, of])) => return truncated(lexemes, at, unit, of),
        ("timezone", Some([zone, of])) => return in_zone(lexemes, at, zone, of),
        _ => return None,
    };
    match given.as_deref() {
        None => Some((moment, at..at + 1)),
        Some([]) => closes(at + 2).then_some((moment, at..at + 3)),
        Some([digits, ..]) => {
            let (digits, digits_at) = value(lexemes, digits)?;
            let Value::Number(digits, false) = digits else { return None };
            // Of more than six PostgreSQL takes six, and warns.
            let digits = digits.to_string().parse().ok().filter(|digits| *digits <= 6)?;
            (digits_at == at + 2 && closes(at + 3)).then_some((moment.rounded(digits), at..at + 4))
        }
    }
}

/// A string and a moment that the function whose name is at a token is called with.
fn string_and_moment<'e>(
    lexemes: &Lexemes,
    at: usize,
    first: &'e Expr,
    second: &Expr,
) -> Option<(&'e str, Moment, Range<usize>)> {
    let (text, text_at) = string(lexemes, first)?;
    let (moment, tokens) = moment(lexemes, second)?;
    let is_behind = text_at == at + 2
        && tokens.start == at + 4
        && matches!(lexemes.token(tokens.end), Some(Token::RParen));
    is_behind.then_some((text, moment, at..tokens.end + 1))
}

/// `date_trunc('month', now())`.
fn truncated(lexemes: &Lexemes, at: usize, unit: &Expr, of: &Expr) -> Option<(Moment, Range<usize>)> {
    let (unit, moment, tokens) = string_and_moment(lexemes, at, unit, of)?;
    Some((moment.truncated(Unit::parse(unit)?), tokens))
}

/// `timezone('utc', now())`: `AT TIME ZONE`.
fn in_zone(lexemes: &Lexemes, at: usize, zone: &Expr, of: &Expr) -> Option<(Moment, Range<usize>)> {
    let (zone, moment, tokens) = string_and_moment(lexemes, at, zone, of)?;
    zone.eq_ignore_ascii_case("utc").then_some((moment.in_utc()?, tokens))
}

/// A moment and an interval, or a day and a number of days.
fn moved(
    lexemes: &Lexemes,
    left: &Expr,
    op: &BinaryOperator,
    right: &Expr,
) -> Option<(Moment, Range<usize>)> {
    let is_minus = match op {
        BinaryOperator::Plus => false,
        BinaryOperator::Minus => true,
        _ => return None,
    };
    let (first, second) = match moment(lexemes, left) {
        Some(found) => (found, right),
        // An interval or a number has no moment taken from it.
        None if is_minus => return None,
        None => (moment(lexemes, right)?, left),
    };
    let (found, tokens) = first;
    // Beside a moment and `+` a text is an interval; beside a day it may be a number of them.
    let is_open = !is_minus && found.kind() != ColumnType::Date;
    let (found, other) = match interval(lexemes, second).or_else(|| open_interval(lexemes, second, is_open)) {
        Some((by, other)) => (found.plus(if is_minus { by.negated()? } else { by }), other),
        None => {
            let number = constant(lexemes, second)?;
            let Source::Constant(Some(digits)) = &number.source else { return None };
            let is_integer = number.written == Written::Number && number.kind() == Some(ColumnType::Integer);
            let days = digits.parse::<i32>().ok().filter(|_| is_integer)?;
            (found.plus_days(if is_minus { days.checked_neg()? } else { days })?, number.tokens)
        }
    };
    let (one, two) = if tokens.start < other.start { (tokens, other) } else { (other, tokens) };
    // The operator alone stands between them.
    (two.start == one.end + 1).then_some((found, one.start..two.end))
}

/// An interval that says nothing of its type.
fn open_interval(lexemes: &Lexemes, expression: &Expr, is_one: bool) -> Option<(Interval, Range<usize>)> {
    let (text, at) = string(lexemes, expression).filter(|_| is_one)?;
    Some((Interval::read(text)?, at..at + 1))
}

/// An interval that is written down: `interval '1 day'`, `'1 day'::interval`, `interval '1' day`.
pub(super) fn interval(lexemes: &Lexemes, expression: &Expr) -> Option<(Interval, Range<usize>)> {
    match expression {
        Expr::Nested(inner) => {
            let (found, tokens) = interval(lexemes, inner)?;
            Some((found, in_parentheses(lexemes, tokens)?))
        }
        Expr::Cast { kind, expr, data_type: _, format: None } => {
            let (text, at) = string(lexemes, expr)?;
            let (tokens, name) = cast_tokens(lexemes, kind, &(at..at + 1))?;
            (name == "interval").then_some((Interval::read(text)?, tokens))
        }
        Expr::Interval(interval) => {
            let (text, at) = string(lexemes, &interval.value)?;
            let start = at.checked_sub(1).filter(|start| lexemes.is_word(*start, "interval"))?;
            let is_plain = interval.leading_precision.is_none()
                && interval.last_field.is_none()
                && interval.fractional_seconds_precision.is_none();
            let unit = match (&interval.leading_field, is_plain) {
                (None, true) => return Some((Interval::read(text)?, start..at + 1)),
                (Some(DateTimeField::Year), true) => "year",
                (Some(DateTimeField::Month), true) => "month",
                (Some(DateTimeField::Day), true) => "day",
                (Some(DateTimeField::Hour), true) => "hour",
                (Some(DateTimeField::Minute), true) => "minute",
                (Some(DateTimeField::Second), true) => "second",
                _ => return None,
            };
            lexemes.is_word(at + 1, unit).then_some((Interval::of(text.trim(), unit)?, start..at + 2))
        }
        _ => None,
    }
}

/// A string, and its token.
pub(super) fn string<'e>(lexemes: &Lexemes, expression: &'e Expr) -> Option<(&'e str, usize)> {
    match value(lexemes, expression)? {
        (Value::SingleQuotedString(text), at) => Some((text, at)),
        _ => None,
    }
}

fn value<'e>(lexemes: &Lexemes, expression: &'e Expr) -> Option<(&'e Value, usize)> {
    let Expr::Value(value) = expression else { return None };
    Some((&value.value, lexemes.position_of(value.span)?))
}
