//! Labels as PostgreSQL's integers: unsigned numbers whose order that of signed ones is to be.

use arras_protocol::mope::Label;

const SIGN: u64 = 1 << 63;

/// A label as `bigint`.
pub(super) fn to_database(label: Label) -> i64 {
    (label ^ SIGN).cast_signed()
}

/// The label that a `bigint` is.
pub(super) fn from_database(number: i64) -> Label {
    number.cast_unsigned() ^ SIGN
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn order_is_kept_and_nothing_is_lost() {
        let labels = [0, 1, (1 << 63) - 1, 1 << 63, (1 << 63) + 1, u64::MAX];
        let numbers = labels.map(to_database);
        assert!(numbers.is_sorted());
        assert_eq!((numbers[0], numbers[3], numbers[5]), (i64::MIN, 0, i64::MAX));
        assert_eq!(numbers.map(from_database), labels);
    }
}
