//! PostgreSQL's `numeric` in its binary form, where it is a whole number: what a sum of `bigint` comes as.

use std::error::Error;
use tokio_postgres::types::{FromSql, Type};

/// A whole number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Whole(pub(super) i64);

impl<'a> FromSql<'a> for Whole {
    fn from_sql(_: &Type, raw: &'a [u8]) -> Result<Self, Box<dyn Error + Sync + Send>> {
        let words: Vec<i16> = raw.as_chunks::<2>().0.iter().map(|word| i16::from_be_bytes(*word)).collect();
        let [count, weight, sign, _scale, digits @ ..] = words.as_slice() else {
            return Err("a numeric of less than its header".into());
        };
        if digits.len() != usize::try_from(*count)? || (*count > 0 && count - 1 > *weight) {
            return Err("a numeric that is not whole".into());
        }
        let places = if *count == 0 { 0 } else { usize::try_from(*weight)? + 1 };
        let mut digits = digits.iter().copied().chain(std::iter::repeat(0)).take(places);
        let value = digits
            .try_fold(0_i64, |sum, digit| sum.checked_mul(10_000)?.checked_add(i64::from(digit)))
            .ok_or("a numeric beyond 64 bits")?;
        match sign {
            0 => Ok(Self(value)),
            0x4000 => Ok(Self(-value)),
            _ => Err("not a number".into()),
        }
    }

    fn accepts(ty: &Type) -> bool {
        *ty == Type::NUMERIC
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    fn read(words: &[i16]) -> Option<i64> {
        let raw: Vec<u8> = words.iter().flat_map(|word| word.to_be_bytes()).collect();
        Whole::from_sql(&Type::NUMERIC, &raw).ok().map(|whole| whole.0)
    }

    #[test]
    fn whole_numbers_are_read_and_others_are_not() {
        assert_eq!(read(&[0, 0, 0, 0]), Some(0));
        assert_eq!(read(&[2, 1, 0, 0, 12, 3456]), Some(123_456));
        assert_eq!(read(&[1, 1, 0x4000, 0, 12]), Some(-120_000));
        assert_eq!(read(&[2, 0, 0, 4, 12, 5000]), None);
        assert_eq!(read(&[1, 0]), None);
    }
}
