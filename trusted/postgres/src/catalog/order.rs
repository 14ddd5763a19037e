//! What a column's order is kept by, and what follows from that for statements.

use super::Encryption;
use crate::mope::Protocol;
use arras_protocol::ore::Width;

/// The scheme of a column's terms of order.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Order {
    /// Mutable order-preserving encoding: every value that was ever stored keeps its place.
    #[default]
    Mope,
    /// The same, of the values that are stored at the same time.
    Stope,
    /// An order-preserving function: ciphertexts in the order of the values, as bytes.
    Bclo,
}

/// Longest order key, in bytes, of which schemes make a ciphertext without a tree.
pub(crate) const CIPHERTEXT_KEY_BYTES: usize = 8;

impl Order {
    /// As the schema file has it.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Mope => "mope",
            Self::Stope => "stope",
            Self::Bclo => "bclo",
        }
    }

    /// PostgreSQL's type of the column of terms. Ciphertexts have a domain over `bytea` for each scheme, so that a table says by
    /// which scheme its terms were made.
    #[must_use]
    pub fn kind(self) -> &'static str {
        match self {
            Self::Mope | Self::Stope => "bigint",
            Self::Bclo => "arras.bclo",
        }
    }

    /// How a tree keeps the labels that its terms are; none if they are ciphertexts, which never change.
    #[must_use]
    pub fn labels(self) -> Option<Protocol> {
        match self {
            Self::Mope => Some(Protocol::Mope),
            Self::Stope => Some(Protocol::Stope),
            Self::Bclo => None,
        }
    }
}

impl Encryption {
    /// How the labels of the column's order are kept, if it has labels.
    #[must_use]
    pub fn labels(&self) -> Option<Protocol> {
        self.order?.labels()
    }

    /// How wide the numbers are that ciphertexts of the column's order are made of.
    #[must_use]
    pub fn order_width(&self) -> Width {
        if self.order_key_bytes() <= Width::Bits32.bytes() { Width::Bits32 } else { Width::Bits64 }
    }

    /// Are the column's terms of order ciphertexts, which the proxy makes by itself?
    #[must_use]
    pub fn order_is_ciphertext(&self) -> bool {
        self.order.is_some_and(|order| order.labels().is_none())
    }
}
