//! Ranges of keys that cover what a test can match.

use super::{MISSING, encode};
use crate::filter::Test;
use crate::order::{self, Class};
use bson::Bson;

/// An inclusive range of key bytes.
pub type KeyRange = (Vec<u8>, Vec<u8>);

/// One inclusive range of keys such that every document whose values at the path pass `test` has an
/// [`super::entries`] key in it. None: there is no such range (the test needs a scan). The caller re-checks what
/// it finds. Ranges of two tests on one path may be intersected only if the field is known to hold no arrays:
/// different elements may pass different tests.
pub fn bounds(test: &Test, body_bytes: usize) -> Option<KeyRange> {
    let ranges = ranges(test, body_bytes)?;
    match (ranges.first(), ranges.last()) {
        (Some((low, _)), Some((_, high))) => Some((low.clone(), high.clone())),
        // Nothing can match: a range below every key.
        _ => Some((vec![0; body_bytes + 1], vec![0; body_bytes + 1])),
    }
}

/// Like [`bounds`], as disjoint ascending ranges (`$in` has one a value). Empty: nothing can match.
pub fn ranges(test: &Test, body_bytes: usize) -> Option<Vec<KeyRange>> {
    let ranges = match test {
        Test::Eq(value) => equal_to(value, body_bytes),
        Test::In(values) => values.iter().flat_map(|value| equal_to(value, body_bytes)).collect(),
        Test::Gt(value) | Test::Gte(value) => compared(value, body_bytes, true)?,
        Test::Lt(value) | Test::Lte(value) => compared(value, body_bytes, false)?,
        Test::Exists(false) => vec![of_tags(MISSING, MISSING, body_bytes)],
        Test::Exists(true) => {
            vec![of_tags(0, MISSING - 1, body_bytes), of_tags(MISSING + 1, u8::MAX, body_bytes)]
        }
        Test::Regex(pattern) => {
            let strings = match pattern.literal_prefix() {
                Some(prefix) => {
                    let mut high = vec![Class::String as u8];
                    high.extend(prefix.bytes().take(body_bytes));
                    high.resize(body_bytes + 1, u8::MAX);
                    (encode(&Bson::String(prefix), body_bytes).bytes, high)
                }
                None => of_class(Class::String, body_bytes),
            };
            // A stored regular expression matches itself.
            vec![strings, of_class(Class::Regex, body_bytes)]
        }
        Test::Mod { .. } => vec![of_class(Class::Number, body_bytes)],
        Test::Bits { .. } => vec![of_class(Class::Number, body_bytes), of_class(Class::Binary, body_bytes)],
        Test::All(tests) if tests.is_empty() => Vec::new(),
        Test::All(tests) | Test::ElemMatchValue(tests) => {
            tests.iter().find_map(|test| ranges(test, body_bytes))?
        }
        Test::AnyOf(tests) => {
            let each: Option<Vec<Vec<KeyRange>>> =
                tests.iter().map(|test| ranges(test, body_bytes)).collect();
            each?.into_iter().flatten().collect()
        }
        Test::ElemMatch(_) | Test::Ne(_) | Test::Nin(_) | Test::Not(_) | Test::Size(_) | Test::Type(_) => {
            return None;
        }
    };
    Some(disjoint(ranges))
}

fn equal_to(value: &Bson, body_bytes: usize) -> Vec<KeyRange> {
    match value {
        Bson::Null | Bson::Undefined => {
            vec![of_tags(Class::Undefined as u8, Class::Null as u8, body_bytes)]
        }
        Bson::Array(elements) => {
            // A whole array equal to this one has an entry for its first element; an element equal to it is an array.
            let first = encode(elements.first().unwrap_or(&Bson::Undefined), body_bytes).bytes;
            vec![(first.clone(), first), of_class(Class::Array, body_bytes)]
        }
        _ => {
            let key = encode(value, body_bytes).bytes;
            vec![(key.clone(), key)]
        }
    }
}

fn compared(value: &Bson, body_bytes: usize, above: bool) -> Option<Vec<KeyRange>> {
    match order::class(value) {
        Class::Null | Class::Undefined => Some(equal_to(value, body_bytes)),
        // Without type bracketing: anything may match.
        Class::MinKey | Class::MaxKey => Some(vec![of_tags(0, u8::MAX, body_bytes)]),
        // Whole arrays are compared, of which the index has only the elements.
        Class::Array => None,
        class => {
            let key = encode(value, body_bytes).bytes;
            let (low, high) = of_class(class, body_bytes);
            Some(vec![if above { (key, high) } else { (low, key) }])
        }
    }
}

fn of_class(class: Class, body_bytes: usize) -> KeyRange {
    of_tags(class as u8, class as u8, body_bytes)
}

fn of_tags(low_tag: u8, high_tag: u8, body_bytes: usize) -> KeyRange {
    let mut low = vec![low_tag];
    low.resize(body_bytes + 1, 0);
    let mut high = vec![high_tag];
    high.resize(body_bytes + 1, u8::MAX);
    (low, high)
}

/// Sorts ranges and merges those that overlap.
fn disjoint(mut ranges: Vec<KeyRange>) -> Vec<KeyRange> {
    ranges.sort();
    let mut merged: Vec<KeyRange> = Vec::with_capacity(ranges.len());
    for (low, high) in ranges {
        match merged.last_mut() {
            Some((_, last)) if low <= *last => {
                if high > *last {
                    *last = high;
                }
            }
            _ => merged.push((low, high)),
        }
    }
    merged
}
