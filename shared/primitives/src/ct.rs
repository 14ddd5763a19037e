//! Comparison in time that does not depend on the content (crate `subtle`).

use subtle::ConstantTimeEq;

/// Whether the strings are equal. Only their lengths may be learnt from the time it takes.
#[must_use]
pub fn equal(left: &[u8], right: &[u8]) -> bool {
    left.ct_eq(right).into()
}

#[cfg(test)]
mod tests;
