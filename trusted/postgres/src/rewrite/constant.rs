//! Constants and parameters in expressions: what they say, and which tokens they are made of.

use crate::column_type::ColumnType;
use crate::plan::Source;
use crate::text::Lexemes;
use sqlparser::ast::{CastKind, Expr, UnaryOperator, Value};
use sqlparser::tokenizer::Token;
use std::ops::Range;

/// A constant or a parameter.
#[derive(Clone, Debug)]
pub(super) struct Constant {
    /// Its tokens.
    pub(super) tokens: Range<usize>,
    /// What it says.
    pub(super) source: Source,
    /// How it is written.
    pub(super) written: Written,
    /// The type that it is cast to, as written.
    pub(super) cast: Option<String>,
}

/// How a constant is written, and so what it may be a value of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Written {
    /// A string, a parameter, NULL: of any type.
    Any,
    /// Digits.
    Number,
    /// `true` or `false`.
    Boolean,
}

/// The constant that an expression is, if it is one.
pub(super) fn constant(lexemes: &Lexemes, expression: &Expr) -> Option<Constant> {
    match expression {
        Expr::Value(value) => {
            let at = lexemes.position_of(value.span)?;
            let (source, written) = said(&value.value)?;
            Some(Constant { tokens: at..at + 1, source, written, cast: None })
        }
        Expr::Nested(inner) => {
            let inner = constant(lexemes, inner)?;
            let tokens = in_parentheses(lexemes, inner.tokens.clone())?;
            Some(Constant { tokens, ..inner })
        }
        Expr::UnaryOp { op: op @ (UnaryOperator::Minus | UnaryOperator::Plus), expr } => {
            let inner = constant(lexemes, expr)?;
            let Source::Constant(Some(digits)) = &inner.source else { return None };
            if inner.written != Written::Number
                || !inner.cast.as_deref().is_none_or(|name| holds(name, digits))
            {
                return None;
            }
            let sign = if *op == UnaryOperator::Minus && !is_zero(digits) { "-" } else { "" };
            let digits = match (digits.strip_prefix('-'), sign) {
                (Some(positive), "-") => positive.to_owned(),
                (Some(_) | None, _) => format!("{sign}{digits}"),
            };
            let start = inner.tokens.start.checked_sub(1)?;
            matches!(lexemes.token(start), Some(Token::Minus | Token::Plus)).then_some(())?;
            Some(Constant {
                tokens: start..inner.tokens.end,
                source: Source::Constant(Some(digits)),
                ..inner
            })
        }
        Expr::Cast { kind, expr, data_type: _, format: None } => {
            let inner = constant(lexemes, expr)?;
            cast(lexemes, kind, inner)
        }
        Expr::TypedString(typed) => {
            let value = lexemes.position_of(typed.value.span)?;
            let (source, written) = said(&typed.value.value)?;
            let start = (value.saturating_sub(6)..value)
                .find(|start| type_name(lexemes, *start).is_some_and(|(_, end)| end == value))?;
            let (name, _) = type_name(lexemes, start)?;
            Some(Constant { tokens: start..value + 1, source, written, cast: Some(name) })
        }
        _ => None,
    }
}

/// Does a type hold a number as it is written, so that its negative is the same before the cast and behind it?
fn holds(name: &str, digits: &str) -> bool {
    match ColumnType::parse(name) {
        Some(ColumnType::SmallInt) => digits.parse::<i16>().is_ok(),
        Some(ColumnType::Integer) => digits.parse::<i32>().is_ok(),
        Some(ColumnType::BigInt) => digits.parse::<i64>().is_ok(),
        Some(ColumnType::Numeric(None) | ColumnType::Real | ColumnType::DoublePrecision) => true,
        _ => false,
    }
}

/// Is a number in digits zero? PostgreSQL reads digits as integers or `numeric`, which have no negative one.
fn is_zero(digits: &str) -> bool {
    let mantissa = digits.split(['e', 'E']).next().unwrap_or_default();
    mantissa.bytes().all(|byte| matches!(byte, b'0' | b'.' | b'-'))
}

/// The members of an array constant: `ARRAY[1, 2]`.
pub(super) fn members(expression: &Expr) -> Option<&[Expr]> {
    match expression {
        Expr::Array(array) if array.named => Some(&array.elem),
        Expr::Nested(inner) => members(inner),
        _ => None,
    }
}

fn said(value: &Value) -> Option<(Source, Written)> {
    let text = |text: &str| Source::Constant(Some(text.to_owned()));
    Some(match value {
        Value::Number(digits, false) => (text(&digits.replace('_', "")), Written::Number),
        Value::SingleQuotedString(string)
        | Value::EscapedStringLiteral(string)
        | Value::UnicodeStringLiteral(string) => (text(string), Written::Any),
        Value::DollarQuotedString(string) => (text(&string.value), Written::Any),
        Value::Boolean(true) => (text("true"), Written::Boolean),
        Value::Boolean(false) => (text("false"), Written::Boolean),
        Value::Null => (Source::Constant(None), Written::Any),
        Value::Placeholder(name) => {
            (Source::Parameter(name.strip_prefix('$')?.parse().ok().filter(|n| *n > 0)?), Written::Any)
        }
        _ => return None,
    })
}

pub(super) fn in_parentheses(lexemes: &Lexemes, tokens: Range<usize>) -> Option<Range<usize>> {
    let start = tokens.start.checked_sub(1)?;
    let around = matches!(lexemes.token(start), Some(Token::LParen))
        && matches!(lexemes.token(tokens.end), Some(Token::RParen));
    around.then_some(start..tokens.end + 1)
}

fn cast(lexemes: &Lexemes, kind: &CastKind, inner: Constant) -> Option<Constant> {
    let (tokens, name) = cast_tokens(lexemes, kind, &inner.tokens)?;
    let name = match inner.cast {
        None => name,
        // `'5'::int2::integer`: the parameter or string is what the first says, and the second changes nothing.
        Some(first) if casts_agree(&first, &name) => first,
        Some(_) => return None,
    };
    Some(Constant { tokens, cast: Some(name), ..inner })
}

/// The tokens of a cast of what some tokens say, and the name of the type.
pub(super) fn cast_tokens(
    lexemes: &Lexemes,
    kind: &CastKind,
    inner: &Range<usize>,
) -> Option<(Range<usize>, String)> {
    match kind {
        CastKind::DoubleColon => {
            matches!(lexemes.token(inner.end), Some(Token::DoubleColon)).then_some(())?;
            let (name, end) = type_name(lexemes, inner.end + 1)?;
            Some((inner.start..end, name))
        }
        CastKind::Cast => {
            let start = inner.start.checked_sub(2)?;
            let (name, end) = type_name(lexemes, inner.end + 1)?;
            let around = lexemes.is_word(start, "cast")
                && matches!(lexemes.token(start + 1), Some(Token::LParen))
                && lexemes.is_word(inner.end, "as")
                && matches!(lexemes.token(end), Some(Token::RParen));
            around.then_some((start..end + 1, name))
        }
        CastKind::TryCast | CastKind::SafeCast => None,
    }
}

/// Is a cast to a type, of a value that was cast to another, the same value?
fn casts_agree(first: &str, second: &str) -> bool {
    let is_array = |name: &str| name.ends_with("[]");
    let kind = ColumnType::parse(second.strip_suffix("[]").unwrap_or(second));
    is_array(first) == is_array(second)
        && kind.is_some_and(|kind| kind.modifier() == -1 && cast_agrees(first, kind))
}

/// Words that are more than one token of a type's name.
const LONG_NAMES: [&[&str]; 9] = [
    &["timestamp", "without", "time", "zone"],
    &["timestamp", "with", "time", "zone"],
    &["time", "without", "time", "zone"],
    &["time", "with", "time", "zone"],
    &["double", "precision"],
    &["character", "varying"],
    &["bit", "varying"],
    &["char", "varying"],
    &["national", "character"],
];

/// The name of a type that begins at a token, with its modifiers, in small letters, and where it ends. An array's ends in
/// `[]`.
pub(super) fn type_name(lexemes: &Lexemes, start: usize) -> Option<(String, usize)> {
    let Some(Token::Word(first)) = lexemes.token(start) else { return None };
    let long = LONG_NAMES
        .iter()
        .find(|words| words.iter().enumerate().all(|(place, word)| lexemes.is_word(start + place, word)));
    let (mut name, mut at) = match long {
        Some(words) => (words.join(" "), start + words.len()),
        None => (first.value.to_lowercase(), start + 1),
    };
    if let (Some(Token::LParen), Some(Token::Number(digits, _))) = (lexemes.token(at), lexemes.token(at + 1))
    {
        name.push_str(&format!("({digits}"));
        at += 2;
        if let (Some(Token::Comma), Some(Token::Number(digits, _))) =
            (lexemes.token(at), lexemes.token(at + 1))
        {
            name.push_str(&format!(",{digits}"));
            at += 2;
        }
        matches!(lexemes.token(at), Some(Token::RParen)).then_some(())?;
        name.push(')');
        at += 1;
    }
    while let (Some(Token::LBracket), Some(Token::RBracket)) = (lexemes.token(at), lexemes.token(at + 1)) {
        name.push_str("[]");
        at += 2;
    }
    Some((name, at))
}

/// Whether a constant cast to a type is a value of a column as it would be without the cast.
pub(super) fn cast_agrees(name: &str, kind: ColumnType) -> bool {
    let name = name.strip_suffix("[]").unwrap_or(name);
    let Some(cast) = ColumnType::parse(name) else { return name == "unknown" };
    let family = |kind: ColumnType| match kind {
        ColumnType::SmallInt | ColumnType::Integer | ColumnType::BigInt => 0,
        ColumnType::Real => 1,
        ColumnType::DoublePrecision => 2,
        ColumnType::Numeric(_) => 3,
        ColumnType::Text | ColumnType::Varchar(_) => 4,
        ColumnType::Date => 5,
        ColumnType::Timestamp => 6,
        ColumnType::TimestampTz => 7,
        ColumnType::Uuid => 8,
        ColumnType::Boolean => 9,
        ColumnType::Bytea => 10,
        ColumnType::Json => 11,
        ColumnType::Jsonb => 12,
    };
    // A cast with a length or digits cuts or rounds: only the column's own does to the value what storing it does.
    family(cast) == family(kind) && (cast == kind || cast.modifier() == -1)
}
