//! FH-OPE (Kerschbaum, CCS 2015): ciphertexts are 64-bit numbers.

/// Bytes of a ciphertext.
pub const BYTES: usize = 8;
