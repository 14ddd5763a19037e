//! How a value becomes its part of a range key.

use crate::schema::FieldType;
use crate::terms::RangeKey;
use arras_documents::keys::{self, OrderedKey};
use arras_documents::order::{self, Class};
use bson::Bson;
use std::cmp::Ordering;

/// The form of one field's part of a key.
///
/// Without a type a part is a tag of the value's class in the BSON order, then what fits of the value. With a declared
/// type it is the value alone, so that 32 bits hold an `int32` and 64 bits an `int64`, a `date` or a `double` exactly;
/// what is of another type (a field that is absent, or was written before the type was declared) is at the end of the keys
/// where its class is in the order, and not exact. Both are monotone: a value that compares less never has greater
/// bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KeyLayout {
    /// Bytes of a part.
    pub part_bytes: usize,
    /// The declared type, if parts have no tag.
    pub typed: Option<FieldType>,
}

impl KeyLayout {
    /// The key of a term: a part for each value.
    #[must_use]
    pub fn key(&self, term: &[Bson]) -> RangeKey {
        let mut key = RangeKey { bytes: Vec::with_capacity(term.len() * self.part_bytes), exact: true };
        for value in term {
            let part = self.part(value);
            key.exact &= part.exact;
            key.bytes.extend(part.bytes);
        }
        key
    }

    /// One value's part.
    #[must_use]
    pub fn part(&self, value: &Bson) -> OrderedKey {
        let Some(kind) = self.typed else {
            return keys::encode(value, self.part_bytes.saturating_sub(1));
        };
        let outside = |fill: u8| OrderedKey { bytes: vec![fill; self.part_bytes], exact: false };
        match order::class(value).cmp(&class(kind)) {
            Ordering::Less => outside(0x00),
            Ordering::Greater => outside(0xFF),
            Ordering::Equal => match kind {
                FieldType::Int32 => self.integer(value, i64::from(i32::MIN), i64::from(i32::MAX), 4),
                FieldType::Int64 => self.integer(value, i64::MIN, i64::MAX, 8),
                FieldType::Binary
                | FieldType::Bool
                | FieldType::Date
                | FieldType::Decimal
                | FieldType::Double
                | FieldType::ObjectId
                | FieldType::String => {
                    let OrderedKey { mut bytes, exact } = keys::encode(value, self.part_bytes);
                    bytes.remove(0);
                    OrderedKey { bytes, exact }
                }
            },
        }
    }

    /// What all parts of a bound's class begin with: its tag, or nothing.
    pub(crate) fn bracket(&self, bound: &Bson) -> Vec<u8> {
        match self.typed {
            None => self.part(bound).bytes.into_iter().take(1).collect(),
            Some(_) => Vec::new(),
        }
    }

    /// Bytes of a value that a part keeps.
    pub(crate) fn value_bytes(&self) -> usize {
        if self.typed.is_some() { self.part_bytes } else { self.part_bytes.saturating_sub(1) }
    }

    /// The greatest integer of a type that is no greater than a number, of which the first bytes are kept.
    fn integer(&self, value: &Bson, least: i64, greatest: i64, bytes: usize) -> OrderedKey {
        let found = order::as_exact_i64(value).filter(|number| (least..=greatest).contains(number));
        let number = found.unwrap_or_else(|| floor(value, least, greatest));
        // The least becomes 0: what is negative comes before what is not.
        let offset = number.wrapping_sub(least).cast_unsigned();
        let mut key: Vec<u8> = offset.to_be_bytes().into_iter().skip(8 - bytes).collect();
        let cut = key.iter().skip(self.part_bytes).any(|byte| *byte != 0);
        key.resize(self.part_bytes, 0);
        OrderedKey { bytes: key, exact: found.is_some() && !cut }
    }
}

/// The greatest integer between two that is no greater than a number; the least if none is.
fn floor(value: &Bson, least: i64, greatest: i64) -> i64 {
    let is_below = |number: i64| order::compare(&Bson::Int64(number), value) != Ordering::Greater;
    let (mut low, mut high) = (i128::from(least), i128::from(greatest));
    while low < high {
        let middle = low + (high - low + 1) / 2;
        match i64::try_from(middle) {
            Ok(number) if is_below(number) => low = middle,
            _ => high = middle - 1,
        }
    }
    i64::try_from(low).unwrap_or(least)
}

fn class(kind: FieldType) -> Class {
    match kind {
        FieldType::Binary => Class::Binary,
        FieldType::Bool => Class::Boolean,
        FieldType::Date => Class::Date,
        FieldType::Decimal | FieldType::Double | FieldType::Int32 | FieldType::Int64 => Class::Number,
        FieldType::ObjectId => Class::ObjectId,
        FieldType::String => Class::String,
    }
}

#[cfg(test)]
mod tests;
