//! BCLO (Boldyreva, Chenette, Lee, O'Neill, EUROCRYPT 2009): ciphertexts are numbers.

use super::Width;

/// Bytes of a ciphertext: twice the plaintext's.
#[must_use]
pub const fn bytes(width: Width) -> usize {
    width.bytes() * 2
}
