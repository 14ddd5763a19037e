//! Order-preserving and order-revealing encryption: what the server is told of a scheme, and the ciphertexts.
//!
//! A *stored* ciphertext lies in the index; a *query* ciphertext comes with a request and is compared with stored
//! ones. For most schemes they are the same; Lewi-Wu stores right ciphertexts and asks with left ones. Both are
//! byte strings of a length fixed by the [`Scheme`], so that an index can lay them out.

pub mod bclo;
pub mod cloz;
pub mod clww;
pub mod fh_ope;
pub mod lewi_wu;

use serde::{Deserialize, Serialize};

/// Bits of a plaintext.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Width {
    /// 32 bits.
    Bits32,
    /// 64 bits.
    Bits64,
}

impl Width {
    /// Bits of a plaintext.
    #[must_use]
    pub const fn bits(self) -> u32 {
        match self {
            Self::Bits32 => 32,
            Self::Bits64 => 64,
        }
    }

    /// Bytes of a plaintext.
    #[must_use]
    pub const fn bytes(self) -> usize {
        match self {
            Self::Bits32 => 4,
            Self::Bits64 => 8,
        }
    }

    /// The key of a plaintext in a range index: big endian, [`Self::bytes`] long.
    #[must_use]
    pub fn key(self, plaintext: u64) -> Vec<u8> {
        plaintext.to_be_bytes().into_iter().skip(8_usize.saturating_sub(self.bytes())).collect()
    }

    /// The plaintext of a range index's key; `None` if its length is not the width's.
    #[must_use]
    pub fn plaintext(self, encoded: &[u8]) -> Option<u64> {
        (encoded.len() == self.bytes())
            .then(|| encoded.iter().fold(0, |plaintext, byte| plaintext << 8 | u64::from(*byte)))
    }

    /// The greatest plaintext, as an unsigned number.
    #[must_use]
    pub const fn greatest(self) -> u64 {
        match self {
            Self::Bits32 => u32::MAX as u64,
            Self::Bits64 => u64::MAX,
        }
    }
}

/// A scheme and its public parameters: all that the server needs to compare ciphertexts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Scheme {
    /// Ciphertexts of twice the width, big endian, compared as numbers.
    Bclo(Width),
    /// Ciphertexts of PPH hashes, compared by pairings.
    Cloz(Width),
    /// Ciphertexts of trits.
    Clww(Width),
    /// Ciphertexts of 64 bits, big endian, compared as numbers.
    FhOpe(Width),
    /// Left against right ciphertexts.
    LewiWu {
        /// Bits of a plaintext.
        width: Width,
        /// Bits of a block: 2, 4 or 8.
        block_bits: u8,
    },
    /// No encryption: the baseline. Big endian, compared as numbers.
    Plain(Width),
}

impl Scheme {
    /// Its name in results.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Bclo(_) => "bclo",
            Self::Cloz(_) => "cloz",
            Self::Clww(_) => "clww",
            Self::FhOpe(_) => "fh_ope",
            Self::LewiWu { .. } => "lewi_wu",
            Self::Plain(_) => "plain",
        }
    }

    /// Bits of a plaintext.
    #[must_use]
    pub const fn width(self) -> Width {
        match self {
            Self::Bclo(width)
            | Self::Cloz(width)
            | Self::Clww(width)
            | Self::FhOpe(width)
            | Self::LewiWu { width, .. }
            | Self::Plain(width) => width,
        }
    }

    /// Whether equal plaintexts compare as different, so that each stored ciphertext is one entry's own.
    #[must_use]
    pub const fn hides_equality(self) -> bool {
        matches!(self, Self::FhOpe(_))
    }

    /// Whether stored ciphertexts show nothing by themselves and compare as equal with the query ciphertexts of equal
    /// plaintexts. What orders the entries of one value must then not show which they are.
    #[must_use]
    pub const fn breaks_ties(self) -> bool {
        matches!(self, Self::Cloz(_) | Self::LewiWu { .. })
    }

    /// Bytes of a stored ciphertext; `None` if the parameters are not of the scheme.
    #[must_use]
    pub fn stored_bytes(self) -> Option<usize> {
        match self {
            Self::Bclo(width) => Some(bclo::bytes(width)),
            Self::Cloz(width) => Some(cloz::stored_bytes(width)),
            Self::Clww(width) => Some(clww::bytes(width)),
            Self::FhOpe(_) => Some(fh_ope::BYTES),
            Self::LewiWu { width, block_bits } => lewi_wu::right_bytes(width, block_bits),
            Self::Plain(width) => Some(width.bytes()),
        }
    }

    /// Bytes of a query ciphertext; `None` if the parameters are not of the scheme.
    #[must_use]
    pub fn query_bytes(self) -> Option<usize> {
        match self {
            Self::Cloz(width) => Some(cloz::query_bytes(width)),
            Self::LewiWu { width, block_bits } => lewi_wu::left_bytes(width, block_bits),
            _ => self.stored_bytes(),
        }
    }
}

/// A ciphertext is not one of its scheme: wrong length, or bytes that no encryption gives.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("not a ciphertext of the scheme: {0}")]
pub struct MalformedCiphertext(pub &'static str);
