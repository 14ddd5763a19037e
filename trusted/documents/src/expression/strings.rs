//! Strings.

use super::arrays::bound;
use super::{Value, convert, is_nullish, type_of};
use crate::error::location;
use crate::filter::Pattern;
use crate::{QueryError, limits};
use bson::{Bson, Document};

fn operand(values: &[Value], offset: usize) -> Option<&Bson> {
    values.get(offset).and_then(Option::as_ref)
}

fn text_answer(text: String) -> Result<Value, QueryError> {
    if text.len() > limits::DOCUMENT_BYTES_MAX {
        return Err(QueryError::new(
            10334,
            "BSONObjectTooLarge",
            "a string grew past the size of a document",
        ));
    }
    Ok(Some(Bson::String(text)))
}

fn int(value: usize) -> Result<Value, QueryError> {
    Ok(Some(Bson::Int32(i32::try_from(value).unwrap_or(i32::MAX))))
}

fn null() -> Result<Value, QueryError> {
    Ok(Some(Bson::Null))
}

/// The string of an operand.
fn text<'v>(operator: &str, values: &'v [Value], offset: usize) -> Result<&'v str, QueryError> {
    match operand(values, offset) {
        Some(Bson::String(text) | Bson::Symbol(text)) => Ok(text),
        other => Err(location!(
            34471,
            "{operator} requires a string argument, found: {}",
            type_of(&other.cloned())
        )),
    }
}

/// An operand as the operators see it that take numbers and dates for strings; null is empty.
fn coerced(operator: &str, values: &[Value], offset: usize) -> Result<String, QueryError> {
    let value = values.get(offset).unwrap_or(&None);
    match value {
        value if is_nullish(value) => Ok(String::new()),
        Some(Bson::String(text) | Bson::Symbol(text) | Bson::JavaScriptCode(text)) => Ok(text.clone()),
        Some(Bson::Int32(_) | Bson::Int64(_) | Bson::Double(_) | Bson::Decimal128(_) | Bson::DateTime(_)) => {
            match convert::to_string(std::slice::from_ref(value))? {
                Some(Bson::String(text)) => Ok(text),
                _ => Ok(String::new()),
            }
        }
        other => {
            Err(location!(16007, "can't convert from BSON type {} to String in {operator}", type_of(other)))
        }
    }
}

pub(super) fn concat(values: &[Value]) -> Result<Value, QueryError> {
    let mut joined = String::new();
    for value in values {
        match value {
            Some(Bson::String(text) | Bson::Symbol(text)) => joined.push_str(text),
            value if is_nullish(value) => return null(),
            other => {
                return Err(location!(16702, "$concat only supports strings, not {}", type_of(other)));
            }
        }
    }
    text_answer(joined)
}

pub(super) fn to_lower(values: &[Value]) -> Result<Value, QueryError> {
    // ASCII only, as MongoDB.
    text_answer(coerced("$toLower", values, 0)?.to_ascii_lowercase())
}

pub(super) fn to_upper(values: &[Value]) -> Result<Value, QueryError> {
    text_answer(coerced("$toUpper", values, 0)?.to_ascii_uppercase())
}

pub(super) fn compare_ignoring_case(values: &[Value]) -> Result<Value, QueryError> {
    let left = coerced("$strcasecmp", values, 0)?.to_ascii_uppercase();
    let right = coerced("$strcasecmp", values, 1)?.to_ascii_uppercase();
    Ok(Some(Bson::Int32(left.cmp(&right) as i32)))
}

pub(super) fn length_in_bytes(values: &[Value]) -> Result<Value, QueryError> {
    int(text("$strLenBytes", values, 0)?.len())
}

pub(super) fn length_in_points(values: &[Value]) -> Result<Value, QueryError> {
    int(text("$strLenCP", values, 0)?.chars().count())
}

fn offset_argument(operator: &str, values: &[Value], offset: usize) -> Result<i64, QueryError> {
    let value = operand(values, offset);
    value.and_then(crate::order::as_lossy_i64).ok_or_else(|| {
        location!(
            34450,
            "{operator}: starting index and length must be numbers, found: {}",
            type_of(&value.cloned())
        )
    })
}

pub(super) fn substring_points(values: &[Value]) -> Result<Value, QueryError> {
    let source = coerced("$substrCP", values, 0)?;
    let start = offset_argument("$substrCP", values, 1)?;
    let length = offset_argument("$substrCP", values, 2)?;
    let (Ok(start), Ok(length)) = (usize::try_from(start), usize::try_from(length)) else {
        return Err(location!(34455, "$substrCP: starting index and length must be non-negative integers"));
    };
    text_answer(source.chars().skip(start).take(length).collect())
}

pub(super) fn substring_bytes(values: &[Value]) -> Result<Value, QueryError> {
    let source = coerced("$substrBytes", values, 0)?;
    let start = offset_argument("$substrBytes", values, 1)?;
    let length = offset_argument("$substrBytes", values, 2)?;
    let Ok(start) = usize::try_from(start) else {
        return Err(location!(50752, "$substrBytes: starting index must be non-negative (got: {start})"));
    };
    if start >= source.len() {
        return text_answer(String::new());
    }
    // A negative length takes the rest.
    let stop =
        usize::try_from(length).map_or(source.len(), |length| start.saturating_add(length).min(source.len()));
    source.get(start..stop).map(str::to_owned).map_or_else(
        || {
            Err(location!(
                28656,
                "$substrBytes: Invalid range, starting or ending in the middle of a UTF-8 character."
            ))
        },
        text_answer,
    )
}

pub(super) fn index_of_bytes(values: &[Value]) -> Result<Value, QueryError> {
    if values.first().is_none_or(is_nullish) {
        return null();
    }
    let source = text("$indexOfBytes", values, 0)?.as_bytes();
    let wanted = text("$indexOfBytes", values, 1)?.as_bytes();
    let start = bound("$indexOfBytes", operand(values, 2), 0)?;
    let stop = bound("$indexOfBytes", operand(values, 3), source.len())?.min(source.len());
    Ok(Some(Bson::Int32(find(source, wanted, start, stop))))
}

pub(super) fn index_of_points(values: &[Value]) -> Result<Value, QueryError> {
    if values.first().is_none_or(is_nullish) {
        return null();
    }
    let source: Vec<char> = text("$indexOfCP", values, 0)?.chars().collect();
    let wanted: Vec<char> = text("$indexOfCP", values, 1)?.chars().collect();
    let start = bound("$indexOfCP", operand(values, 2), 0)?;
    let stop = bound("$indexOfCP", operand(values, 3), source.len())?.min(source.len());
    Ok(Some(Bson::Int32(find(&source, &wanted, start, stop))))
}

/// Offset of `wanted` within `source[start..stop]`, counted from the start of `source`; -1 if it is not there.
fn find<T: PartialEq>(source: &[T], wanted: &[T], start: usize, stop: usize) -> i32 {
    let Some(searched) = source.get(start..stop) else {
        return -1;
    };
    let position = if wanted.is_empty() {
        Some(0)
    } else {
        searched.windows(wanted.len()).position(|window| window == wanted)
    };
    position.and_then(|position| i32::try_from(position + start).ok()).unwrap_or(-1)
}

pub(super) fn split(values: &[Value]) -> Result<Value, QueryError> {
    if values.iter().any(is_nullish) {
        return null();
    }
    let (source, separator) = (text("$split", values, 0)?, text("$split", values, 1)?);
    if separator.is_empty() {
        return Err(location!(40087, "$split requires a non-empty separator"));
    }
    Ok(Some(Bson::Array(source.split(separator).map(|part| Bson::String(part.to_owned())).collect())))
}

/// White space that `$trim` removes unless told otherwise.
const WHITE_SPACE: &[char] = &[
    '\0', ' ', '\t', '\n', '\u{b}', '\u{c}', '\r', '\u{a0}', '\u{1680}', '\u{2000}', '\u{2001}', '\u{2002}',
    '\u{2003}', '\u{2004}', '\u{2005}', '\u{2006}', '\u{2007}', '\u{2008}', '\u{2009}', '\u{200a}',
];

fn trimmed(operator: &str, values: &[Value], start: bool, end: bool) -> Result<Value, QueryError> {
    if values.first().is_none_or(is_nullish) || matches!(operand(values, 1), Some(Bson::Null)) {
        return null();
    }
    let given: Vec<char>;
    let characters = match operand(values, 1) {
        None => WHITE_SPACE,
        Some(_) => {
            given = text(operator, values, 1)?.chars().collect();
            &given
        }
    };
    let mut rest = text(operator, values, 0)?;
    if start {
        rest = rest.trim_start_matches(characters);
    }
    if end {
        rest = rest.trim_end_matches(characters);
    }
    text_answer(rest.to_owned())
}

pub(super) fn trim(values: &[Value]) -> Result<Value, QueryError> {
    trimmed("$trim", values, true, true)
}

pub(super) fn trim_start(values: &[Value]) -> Result<Value, QueryError> {
    trimmed("$ltrim", values, true, false)
}

pub(super) fn trim_end(values: &[Value]) -> Result<Value, QueryError> {
    trimmed("$rtrim", values, false, true)
}

fn replaced(operator: &str, values: &[Value], count: usize) -> Result<Value, QueryError> {
    if values.iter().any(is_nullish) {
        return null();
    }
    let (source, find, with) =
        (text(operator, values, 0)?, text(operator, values, 1)?, text(operator, values, 2)?);
    // Measured before it is built: a short pattern with a long replacement multiplies.
    let hits = if find.is_empty() { source.len() + 1 } else { source.matches(find).take(count).count() };
    if hits.saturating_mul(with.len()).saturating_add(source.len()) > 2 * limits::DOCUMENT_BYTES_MAX {
        return Err(QueryError::new(
            10334,
            "BSONObjectTooLarge",
            "a string grew past the size of a document",
        ));
    }
    text_answer(source.replacen(find, with, count))
}

pub(super) fn replace_one(values: &[Value]) -> Result<Value, QueryError> {
    replaced("$replaceOne", values, 1)
}

pub(super) fn replace_all(values: &[Value]) -> Result<Value, QueryError> {
    replaced("$replaceAll", values, usize::MAX)
}

/// Input and pattern of the regular expression operators; none if one is null.
fn search<'v>(operator: &str, values: &'v [Value]) -> Result<Option<(&'v str, Pattern)>, QueryError> {
    let options = match operand(values, 2) {
        None | Some(Bson::Null) => None,
        Some(_) => Some(text(operator, values, 2)?),
    };
    let pattern = match operand(values, 1) {
        None | Some(Bson::Null | Bson::Undefined) => return Ok(None),
        Some(Bson::RegularExpression(regex)) => {
            if options.is_some() && !regex.options.as_str().is_empty() {
                return Err(location!(
                    51107,
                    "{operator}: found regex option(s) specified in both 'regex' and 'option' fields"
                ));
            }
            Pattern::new(regex.pattern.as_str(), options.unwrap_or(regex.options.as_str()))?
        }
        Some(_) => Pattern::new(text(operator, values, 1)?, options.unwrap_or_default())?,
    };
    if values.first().is_none_or(is_nullish) {
        return Ok(None);
    }
    Ok(Some((text(operator, values, 0)?, pattern)))
}

pub(super) fn regex_match(values: &[Value]) -> Result<Value, QueryError> {
    let found =
        search("$regexMatch", values)?.is_some_and(|(input, pattern)| pattern.regex().is_match(input));
    Ok(Some(Bson::Boolean(found)))
}

/// Most bytes of all matches of one text.
const FOUND_BYTES_MAX: usize = 64 << 20;

/// A match as it is returned. `counted`: a place in the input, in bytes and in characters, that is not behind it; it is moved
/// there.
fn found(
    input: &str,
    pattern: &Pattern,
    captures: &regex::Captures<'_>,
    counted: &mut (usize, usize),
) -> Result<Bson, QueryError> {
    let mut document = Document::new();
    let whole = captures.get(0).map_or((0, ""), |whole| (whole.start(), whole.as_str()));
    // Where a `$` matched before a final newline, our match has the newline in it and PCRE's has not.
    if whole.1.ends_with('\n')
        && whole.0 + whole.1.len() == input.len()
        && pattern.source().contains(['$', 'Z'])
    {
        return Err(QueryError::unsupported("the text matched by '$' before a final newline"));
    }
    let passed = input.get(counted.0..whole.0).map_or(0, |passed| passed.chars().count());
    *counted = (whole.0, counted.1 + passed);
    let offset = counted.1;
    document.insert("match", whole.1);
    document.insert("idx", i32::try_from(offset).unwrap_or(i32::MAX));
    let groups = captures.iter().skip(1);
    let groups: Vec<Bson> = groups
        .map(|group| group.map_or(Bson::Null, |group| Bson::String(group.as_str().to_owned())))
        .collect();
    document.insert("captures", groups);
    Ok(Bson::Document(document))
}

pub(super) fn regex_find(values: &[Value]) -> Result<Value, QueryError> {
    let Some((input, pattern)) = search("$regexFind", values)? else {
        return null();
    };
    match pattern.regex().captures(input) {
        Some(captures) => found(input, &pattern, &captures, &mut (0, 0)).map(Some),
        None => null(),
    }
}

pub(super) fn regex_find_all(values: &[Value]) -> Result<Value, QueryError> {
    let Some((input, pattern)) = search("$regexFindAll", values)? else {
        return Ok(Some(Bson::Array(Vec::new())));
    };
    let (mut counted, mut bytes) = ((0, 0), 0_usize);
    let mut all = Vec::new();
    for captures in pattern.regex().captures_iter(input) {
        let one = found(input, &pattern, &captures, &mut counted)?;
        bytes = bytes.saturating_add(limits::value_bytes(&one, limits::DEPTH_MAX)?);
        if bytes > FOUND_BYTES_MAX {
            return Err(location!(
                51151,
                "$regexFindAll: the size of buffer to store output exceeded the 64MB limit"
            ));
        }
        all.push(one);
    }
    Ok(Some(Bson::Array(all)))
}
