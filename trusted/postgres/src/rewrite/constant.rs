//! Constants and parameters in expressions: what they say, and which tokens they are made of.

use super::folded::folded;
use super::moment::assigned_moment;
use crate::codec::{Datum, Zone};
use crate::column_type::ColumnType;
use crate::error::{SqlError, sqlstate};
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
    /// What it says, as a value of the type that it is cast to where it is one.
    pub(super) source: Source,
    /// How it is written.
    pub(super) written: Written,
    /// The type that it is cast to at last, as written.
    pub(super) cast: Option<String>,
}

impl Constant {
    /// The type of a column that it is cast to, or its members are.
    pub(super) fn cast_kind(&self) -> Option<ColumnType> {
        let name = self.cast.as_deref()?;
        ColumnType::parse(name.strip_suffix("[]").unwrap_or(name))
    }

    /// Is it cast to a type that no column is of, which may make another value of it?
    pub(super) fn is_cast_elsewhere(&self) -> bool {
        self.cast.as_deref().is_some_and(|name| name != "unknown") && self.cast_kind().is_none()
    }

    /// The type that it has before anything is made of it; none if its text may be of any.
    pub(super) fn kind(&self) -> Option<ColumnType> {
        let source = |digits: &str| match digits.parse::<i64>() {
            Ok(number) if i32::try_from(number).is_ok() => ColumnType::Integer,
            Ok(_) => ColumnType::BigInt,
            Err(_) => ColumnType::Numeric(None),
        };
        match (self.written, &self.source) {
            _ if self.cast.is_some() => self.cast_kind(),
            (Written::Number, Source::Constant(Some(digits))) => Some(source(digits)),
            (Written::Boolean, _) => Some(ColumnType::Boolean),
            _ => None,
        }
    }

    /// What a text of it, its own or a member's, is as it is assigned to a parameter's type, and then cast in the prepared text.
    ///
    /// # Errors
    /// It is none of the types'.
    pub(super) fn assigned_to(
        &self,
        text: &str,
        parameter: ColumnType,
        cast: Option<ColumnType>,
    ) -> Result<String, SqlError> {
        let value = match self.kind() {
            None => Datum::of_type(parameter, text)?,
            Some(kind) => Datum::cast_text(kind, text)?.assigned(kind, parameter, Zone::Unknown)?,
        };
        let (value, kind) = match cast {
            Some(cast) => (value.cast(parameter, cast, Zone::Unknown)?, cast),
            None => (value, parameter),
        };
        Ok(value.cast_to_text(kind))
    }

    /// It as it is cast to another type: already that value, unless it is none, which is said where it is read. None: there is no
    /// such cast, or the proxy does not know what it makes.
    pub(super) fn cast_to(self, name: String) -> Option<Self> {
        if let Source::Moment(_) = &self.source {
            return assigned_moment(&self, ColumnType::parse(&name)?);
        }
        let is_array = |name: &str| name.ends_with("[]");
        let (Source::Constant(Some(text)), Some(to), false) =
            (&self.source, ColumnType::parse(&name), self.cast.as_deref().is_some_and(is_array))
        else {
            let cast = match &self.cast {
                None => name,
                Some(first) => one_cast(first, name)?,
            };
            return Some(Self { cast: Some(cast), ..self });
        };
        if self.is_cast_elsewhere() {
            return None;
        }
        let cast = match self.kind().map(|from| (from, Datum::cast_text(from, text))) {
            None => Datum::cast_text(to, text),
            Some((from, Ok(value))) => value.cast(from, to, Zone::Unknown),
            // What it is cast to first says so where it is read.
            Some((_, Err(_))) => return Some(self),
        };
        let source = match cast {
            Ok(value) => Source::Constant(Some(value.cast_to_text(to))),
            Err(error) if error.sqlstate == sqlstate::DATATYPE_MISMATCH => return None,
            Err(_) => self.source,
        };
        let written = match self.written {
            Written::Number if to.is_number() => Written::Number,
            Written::Boolean if to == ColumnType::Boolean => Written::Boolean,
            _ => Written::Any,
        };
        Some(Self { source, written, cast: Some(name), ..self })
    }

    /// The same of the members of an array.
    pub(super) fn members_cast_to(self, name: &str) -> Option<Self> {
        let cast = self.cast.as_deref().and_then(|name| name.strip_suffix("[]")).map(str::to_owned);
        let one = |member: Option<String>| {
            let source = Source::Constant(member);
            let member = Self { tokens: 0..0, source, written: Written::Any, cast: cast.clone() };
            match member.cast_to(name.to_owned())?.source {
                Source::Constant(text) => Some(text),
                _ => None,
            }
        };
        let array = format!("{name}[]");
        match self.source {
            Source::Constants(list) => {
                let list = list.into_iter().map(one).collect::<Option<_>>()?;
                Some(Self { source: Source::Constants(list), cast: Some(array), ..self })
            }
            _ => self.cast_to(array),
        }
    }
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
            let has_zeros = matches!(inner.cast_kind(), Some(ColumnType::Real | ColumnType::DoublePrecision));
            let is_negative = *op == UnaryOperator::Minus && (has_zeros || !is_zero(digits));
            let sign = if is_negative { "-" } else { "" };
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
        Expr::BinaryOp { left, op, right } => folded(lexemes, left, op, right),
        Expr::TypedString(typed) => {
            let value = lexemes.position_of(typed.value.span)?;
            let (source, written) = said(&typed.value.value)?;
            let start = (value.saturating_sub(8)..value)
                .find(|start| type_name(lexemes, *start).is_some_and(|(_, end)| end == value))?;
            let (name, _) = type_name(lexemes, start)?;
            Constant { tokens: start..value + 1, source, written, cast: None }.cast_to(name)
        }
        _ => None,
    }
}

/// Does a type hold a number as it is written, so that its negative is the same before the cast and behind it?
fn holds(name: &str, digits: &str) -> bool {
    let Some(kind) = ColumnType::parse(name) else { return false };
    kind.is_number() && Datum::cast_text(kind, digits).is_ok_and(|value| value.to_text(kind) == digits)
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
        Value::Number(digits, false) => (text(digits), Written::Number),
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
    Some(Constant { tokens, ..inner.cast_to(name)? })
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

/// The one cast that two are, one behind the other, if there is one: `$1::varchar(3)::text` is cut, and is a text anyway.
pub(super) fn one_cast(first: &str, second: String) -> Option<String> {
    let is_array = |name: &str| name.ends_with("[]");
    let plain = |name: &str| ColumnType::parse(name.strip_suffix("[]").unwrap_or(name));
    let (from, to) = (plain(first)?, plain(&second)?);
    if is_array(first) != is_array(&second) || !cast_agrees(first, to) {
        return None;
    }
    let bytes = |kind| match kind {
        ColumnType::SmallInt => 2,
        ColumnType::Integer => 4,
        _ => 8,
    };
    if bytes(to) < bytes(from) {
        return None;
    }
    match (from.modifier(), to.modifier()) {
        (_, -1) => Some(first.to_owned()),
        (-1, _) => Some(second),
        (one, other) if one == other => Some(first.to_owned()),
        // What is cut twice has the lesser length.
        (one, other) if matches!(to, ColumnType::Varchar(_)) => {
            Some(if one < other { first.to_owned() } else { second })
        }
        _ => None,
    }
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

const ZONED: [&[&str]; 2] = [&["without", "time", "zone"], &["with", "time", "zone"]];

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
        // Of moments, the digits stand within the name.
        let is_behind = |words: &&[&str]| {
            let behind = words.iter().zip(at..).all(|(word, at)| lexemes.is_word(at, word));
            behind && (lexemes.is_word(start, "timestamp") || lexemes.is_word(start, "time"))
        };
        if let Some(words) = ZONED.iter().copied().find(is_behind).filter(|_| long.is_none()) {
            name.push_str(&format!(" {}", words.join(" ")));
            at += words.len();
        }
    }
    while let (Some(Token::LBracket), Some(Token::RBracket)) = (lexemes.token(at), lexemes.token(at + 1)) {
        name.push_str("[]");
        at += 2;
    }
    Some((name, at))
}

/// Whether a cast to a type makes of a value of a column one of the same kind, with other digits or another length at most.
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
        ColumnType::Timestamp(_) => 6,
        ColumnType::TimestampTz(_) => 7,
        ColumnType::Uuid => 8,
        ColumnType::Boolean => 9,
        ColumnType::Bytea => 10,
        ColumnType::Json => 11,
        ColumnType::Jsonb => 12,
    };
    family(cast) == family(kind)
}
