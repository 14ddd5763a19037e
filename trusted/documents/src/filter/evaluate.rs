//! Evaluation of filters.

use super::{BitTest, Expr, Test, TypeTest};
use crate::order::{self, Class};
use crate::path::{self, LeafArray};
use crate::{QueryError, expression};
use bson::{Bson, Document};
use std::cmp::Ordering;

pub(super) fn expr(expr: &Expr, document: &Document) -> Result<bool, QueryError> {
    Ok(match expr {
        Expr::Always => true,
        Expr::Never => false,
        Expr::And(inner) => {
            for expr in inner {
                if !self::expr(expr, document)? {
                    return Ok(false);
                }
            }
            true
        }
        Expr::Or(inner) => any_of(inner, document)?,
        Expr::Nor(inner) => !any_of(inner, document)?,
        Expr::Field { path, test } => at_path(document, path, test)?,
        Expr::Expression(expression) => expression::truthy(expression.evaluate(document)?.as_ref()),
        Expr::Text(condition) => condition.score(document)?.is_some(),
    })
}

fn any_of(inner: &[Expr], document: &Document) -> Result<bool, QueryError> {
    for expr in inner {
        if self::expr(expr, document)? {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Whether the values of `document` at `path` pass `test`.
fn at_path(document: &Document, path: &str, test: &Test) -> Result<bool, QueryError> {
    match test {
        Test::Ne(value) => Ok(!found(document, path, &|candidate| equals(candidate, value))),
        Test::Nin(values) => Ok(!found(document, path, &|candidate| values.contain(candidate))),
        Test::Exists(false) => Ok(!found(document, path, &|candidate| candidate.is_some())),
        Test::Not(tests) => {
            for test in tests {
                if !at_path(document, path, test)? {
                    return Ok(true);
                }
            }
            Ok(false)
        }
        Test::All(tests) => {
            for test in tests {
                if !at_path(document, path, test)? {
                    return Ok(false);
                }
            }
            Ok(!tests.is_empty())
        }
        Test::AnyOf(tests) => {
            for test in tests {
                if at_path(document, path, test)? {
                    return Ok(true);
                }
            }
            Ok(false)
        }
        _ => {
            let mut failure = None;
            let matched = path::any(document, path, leaf(test), &mut |found| {
                value(test, found.value).unwrap_or_else(|error| {
                    failure = Some(error);
                    true
                })
            });
            failure.map_or(Ok(matched), Err)
        }
    }
}

fn found(document: &Document, path: &str, test: &dyn Fn(Option<&Bson>) -> bool) -> bool {
    path::any(document, path, LeafArray::Elements, &mut |found| test(found.value))
}

/// Tests about an array as a whole do not look at its elements.
fn leaf(test: &Test) -> LeafArray {
    match test {
        Test::Size(_) | Test::ElemMatch(_) | Test::ElemMatchValue(_) => LeafArray::Whole,
        _ => LeafArray::Elements,
    }
}

/// Whether one value, its elements not looked at, passes `test`. None is a missing value.
pub(crate) fn value(test: &Test, candidate: Option<&Bson>) -> Result<bool, QueryError> {
    Ok(match test {
        Test::Eq(operand) => equals(candidate, operand),
        Test::Ne(operand) => !equals(candidate, operand),
        Test::Gt(operand) => in_order(candidate, operand, Ordering::is_gt, false),
        Test::Gte(operand) => in_order(candidate, operand, Ordering::is_ge, true),
        Test::Lt(operand) => in_order(candidate, operand, Ordering::is_lt, false),
        Test::Lte(operand) => in_order(candidate, operand, Ordering::is_le, true),
        Test::In(values) => values.contain(candidate),
        Test::Nin(values) => !values.contain(candidate),
        Test::Exists(wanted) => candidate.is_some() == *wanted,
        Test::Type(types) => {
            candidate.is_some_and(|candidate| types.iter().any(|test| has_type(*test, candidate)))
        }
        Test::Regex(pattern) => candidate.is_some_and(|candidate| pattern.matches(candidate)),
        Test::Size(size) => {
            matches!(candidate, Some(Bson::Array(array)) if i64::try_from(array.len()) == Ok(*size))
        }
        Test::Mod { divisor, remainder } => {
            let number = candidate.and_then(order::as_lossy_i64);
            // i64::MIN % -1 overflows the quotient; its remainder is 0.
            number.is_some_and(|number| number.checked_rem(*divisor).unwrap_or(0) == *remainder)
        }
        Test::Bits { want, positions } => {
            candidate.is_some_and(|candidate| bits(*want, positions, candidate))
        }
        Test::Not(tests) => !all(tests, candidate)?,
        Test::All(tests) => !tests.is_empty() && all(tests, candidate)?,
        Test::AnyOf(tests) => {
            for test in tests {
                if value(test, candidate)? {
                    return Ok(true);
                }
            }
            false
        }
        Test::ElemMatch(_) | Test::ElemMatchValue(_) => match candidate {
            Some(Bson::Array(array)) => element_offset(test, array)?.is_some(),
            _ => false,
        },
    })
}

fn all(tests: &[Test], candidate: Option<&Bson>) -> Result<bool, QueryError> {
    for test in tests {
        if !value(test, candidate)? {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Offset of the first element of `array` that passes an element match.
pub(crate) fn element_offset(test: &Test, array: &[Bson]) -> Result<Option<usize>, QueryError> {
    for (offset, element) in array.iter().enumerate() {
        let passes = match (test, element) {
            (Test::ElemMatch(inner), Bson::Document(document)) => expr(inner, document)?,
            (Test::ElemMatch(inner), Bson::Array(elements)) => expr(inner, &as_document(elements))?,
            (Test::ElemMatchValue(tests), _) => all(tests, Some(element))?,
            _ => false,
        };
        if passes {
            return Ok(Some(offset));
        }
    }
    Ok(None)
}

/// An array seen as a document with its offsets for names, as MongoDB's element match sees nested arrays.
fn as_document(elements: &[Bson]) -> Document {
    elements.iter().enumerate().map(|(offset, element)| (offset.to_string(), element.clone())).collect()
}

fn is_nullish(value: Option<&Bson>) -> bool {
    matches!(value, None | Some(Bson::Null | Bson::Undefined))
}

fn equals(candidate: Option<&Bson>, operand: &Bson) -> bool {
    match candidate {
        _ if is_nullish(Some(operand)) => is_nullish(candidate),
        Some(candidate) => order::equal(candidate, operand),
        None => false,
    }
}

/// A range comparison with type bracketing.
fn in_order(candidate: Option<&Bson>, operand: &Bson, test: fn(Ordering) -> bool, or_equal: bool) -> bool {
    let operand_class = order::class(operand);
    if matches!(operand_class, Class::Null | Class::Undefined) {
        return or_equal && is_nullish(candidate);
    }
    if candidate.map(order::class) != Some(operand_class) {
        // The ends of the order have no bracket: every other type is above the one and below the other.
        return match operand_class {
            Class::MinKey => test(Ordering::Greater),
            Class::MaxKey => test(Ordering::Less),
            _ => false,
        };
    }
    candidate.is_some_and(|candidate| match (order::is_nan(candidate), order::is_nan(operand)) {
        (false, false) => test(order::compare(candidate, operand)),
        // NaN is equal to itself and neither less nor greater than any number.
        (true, true) => or_equal,
        _ => false,
    })
}

fn has_type(test: TypeTest, value: &Bson) -> bool {
    match test {
        TypeTest::Number => order::class(value) == Class::Number,
        TypeTest::Alias(alias) => order::type_name(value) == alias,
    }
}

fn bits(want: BitTest, positions: &[u32], value: &Bson) -> bool {
    let set: Box<dyn Fn(u32) -> bool + '_> = match value {
        Bson::Binary(binary) => Box::new(|position| {
            let byte = binary.bytes.get((position / 8) as usize).copied().unwrap_or(0);
            (byte >> (position % 8)) & 1 == 1
        }),
        number => match order::as_exact_i64(number) {
            // Positions past the 64th repeat the sign.
            Some(number) => Box::new(move |position| (number >> position.min(63)) & 1 == 1),
            None => return false,
        },
    };
    match want {
        BitTest::AllSet => positions.iter().all(|position| set(*position)),
        BitTest::AllClear => !positions.iter().any(|position| set(*position)),
        BitTest::AnySet => positions.iter().any(|position| set(*position)),
        BitTest::AnyClear => !positions.iter().all(|position| set(*position)),
    }
}

/// See [`super::Filter::array_offset`].
pub(super) fn array_offset(expr: &Expr, document: &Document, array_path: &str) -> Option<usize> {
    let mut fallback = None;
    let hit = offset_in(expr, document, array_path, &mut fallback);
    hit.or(fallback)
}

fn offset_in(
    expr: &Expr,
    document: &Document,
    array_path: &str,
    fallback: &mut Option<usize>,
) -> Option<usize> {
    match expr {
        Expr::And(inner) => inner.iter().find_map(|expr| offset_in(expr, document, array_path, fallback)),
        Expr::Or(inner) => inner
            .iter()
            .filter(|inner| self::expr(inner, document).unwrap_or(false))
            .find_map(|expr| offset_in(expr, document, array_path, fallback)),
        Expr::Field { path, test } => {
            let offset = field_offset(document, path, test)?;
            let rest = path.strip_prefix(array_path);
            if rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('.')) {
                return Some(offset);
            }
            fallback.get_or_insert(offset);
            None
        }
        Expr::Always | Expr::Never | Expr::Nor(_) | Expr::Expression(_) | Expr::Text(_) => None,
    }
}

fn field_offset(document: &Document, path: &str, test: &Test) -> Option<usize> {
    match test {
        Test::Ne(_) | Test::Nin(_) | Test::Exists(false) | Test::Not(_) => None,
        Test::All(tests) | Test::AnyOf(tests) => {
            tests.iter().rev().find_map(|test| field_offset(document, path, test))
        }
        _ => {
            let mut offset = None;
            path::any(document, path, leaf(test), &mut |found| {
                let passes = value(test, found.value).unwrap_or(false);
                if passes {
                    offset = match (test, found.value) {
                        (Test::ElemMatch(_) | Test::ElemMatchValue(_), Some(Bson::Array(array))) => {
                            found.array_offset.or_else(|| element_offset(test, array).ok().flatten())
                        }
                        _ => found.array_offset,
                    };
                }
                passes
            });
            offset
        }
    }
}

/// Whether an array element passes a test as a field holding it would.
pub(crate) fn element_passes(test: &Test, element: &Bson) -> Result<bool, QueryError> {
    let mut holder = Document::new();
    holder.insert("", element.clone());
    at_path(&holder, "", test)
}
