//! Cryptographic primitives over maintained crates: bytes in, bytes out.
//!
//! Nothing here holds a policy, names a trust zone or does I/O. Types that expand a secret (a cipher's key
//! schedule, a generator's state) are wiped on drop and show nothing in `Debug`; what a caller does with the
//! bytes it passes in is the caller's business (`trusted/keys` defines the secret types).
//!
//! `unsafe` lives in [`lanes`], where AES instructions are called through `core::arch`, in `avx2`, [`trit`] and [`prp`],
//! where vector instructions are, in [`gcm`], which wipes
//! another crate's key schedule, in [`mod@wipe`], which sees bytes as words, and in [`pairing`], where a library of C and assembly is.

pub mod aead;
#[cfg(target_arch = "x86_64")]
#[allow(unsafe_code)]
mod avx2;
pub mod bound_block;
pub mod ct;
pub mod det_aead;
pub mod det_pair;
pub mod garble;
pub mod gcm;
pub mod ggm;
pub mod hash;
#[cfg(feature = "bclo")]
pub mod hypergeometric;
pub mod kdf;
pub mod lanes;
pub mod light_mac;
pub mod meter;
pub mod number_block;
#[cfg(feature = "cloz")]
pub mod pairing;
#[cfg(feature = "cloz")]
pub mod pph;
pub mod prf;
pub mod prg;
pub mod prp;
pub mod symmetric;
pub mod tie;
pub mod trit;
pub mod uniform;
#[cfg(test)]
mod vectors;
pub mod wipe;

/// One AES block, wire label or tree node: 16 bytes.
pub type Block = [u8; 16];

/// Bytes in a [`Block`].
pub const BLOCK_BYTES: usize = 16;

/// Opening failed: what was sealed, its associated data or the material are not the ones it was made with.
/// Deliberately says no more.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("failed to open")]
pub struct OpenError;
