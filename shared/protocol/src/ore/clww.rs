//! CLWW (Chenette, Lewi, Weis, Wu, FSE 2016): one trit a bit, two bits a trit.

use super::Width;

/// Bytes of a ciphertext: two bits a bit.
#[must_use]
pub const fn bytes(width: Width) -> usize {
    width.bytes() * 2
}
