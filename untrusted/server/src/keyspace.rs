//! How names become ordered keys: fixed-width ids side by side.

use std::ops::Bound;

/// Concatenates the parts of a key.
pub(crate) fn key(parts: &[&[u8]]) -> Vec<u8> {
    parts.concat()
}

/// The first key after every key that starts with `prefix`; none if there is no such key.
fn after_prefix(prefix: &[u8]) -> Option<Vec<u8>> {
    let mut end = prefix.to_vec();
    while let Some(last) = end.pop() {
        if last < u8::MAX {
            end.push(last + 1);
            return Some(end);
        }
    }
    None
}

/// Bounds of the keys that start with `prefix`, after `after` if given.
pub(crate) fn prefix_range(prefix: &[u8], after: Option<&[u8]>) -> (Bound<Vec<u8>>, Bound<Vec<u8>>) {
    let start = match after {
        Some(rest) => Bound::Excluded(key(&[prefix, rest])),
        None => Bound::Included(prefix.to_vec()),
    };
    (start, after_prefix(prefix).map_or(Bound::Unbounded, Bound::Excluded))
}

/// The same bounds, borrowed.
pub(crate) fn borrow(range: &(Bound<Vec<u8>>, Bound<Vec<u8>>)) -> (Bound<&[u8]>, Bound<&[u8]>) {
    (range.0.as_ref().map(Vec::as_slice), range.1.as_ref().map(Vec::as_slice))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_prefix_range_ends_before_the_next_prefix() {
        assert_eq!(after_prefix(&[1, 2]), Some(vec![1, 3]));
        assert_eq!(after_prefix(&[1, 255]), Some(vec![2]));
        assert_eq!(after_prefix(&[255, 255]), None);
    }
}
