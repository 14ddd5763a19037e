//! Key ranges.

use std::ops::Bound;

use crate::KeyRange;

/// True if no key can lie in `range` because its bounds meet or cross.
pub fn selects_nothing(range: &KeyRange<'_>) -> bool {
    match *range {
        (Bound::Unbounded, _) | (_, Bound::Unbounded) => false,
        (Bound::Included(low), Bound::Included(high)) => low > high,
        (Bound::Included(low) | Bound::Excluded(low), Bound::Included(high) | Bound::Excluded(high)) => {
            low >= high
        }
    }
}

/// The bounds of the keys that start with `prefix`. The upper bound is the shortest byte string above all of them,
/// if there is one.
pub fn prefix_range(prefix: &[u8]) -> (Bound<Vec<u8>>, Bound<Vec<u8>>) {
    let mut above = prefix.to_vec();
    while let Some(last) = above.pop() {
        if last < u8::MAX {
            above.push(last + 1);
            return (Bound::Included(prefix.to_vec()), Bound::Excluded(above));
        }
    }
    (Bound::Included(prefix.to_vec()), Bound::Unbounded)
}

/// `range` over owned bounds, borrowed.
pub(crate) fn borrowed(range: &(Bound<Vec<u8>>, Bound<Vec<u8>>)) -> KeyRange<'_> {
    (range.0.as_ref().map(Vec::as_slice), range.1.as_ref().map(Vec::as_slice))
}
