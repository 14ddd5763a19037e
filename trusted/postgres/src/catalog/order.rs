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
    /// Order-revealing encryption: ciphertexts that a function compares.
    Clww,
    /// The same of two sides: what is stored is random by itself, and only compared with what a constant is sent as.
    LewiWu,
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
            Self::Clww => "clww",
            Self::LewiWu => "lewi_wu",
        }
    }

    /// PostgreSQL's type of the column of terms. Ciphertexts have a domain over `bytea` for each scheme, so that a table says by
    /// which scheme its terms were made.
    #[must_use]
    pub fn kind(self) -> &'static str {
        match self {
            Self::Mope | Self::Stope => "bigint",
            Self::Bclo => "arras.bclo",
            Self::Clww => "arras.clww",
            Self::LewiWu => "arras.lewi_wu",
        }
    }

    /// How a tree keeps the labels that its terms are; none if they are ciphertexts, which never change.
    #[must_use]
    pub fn labels(self) -> Option<Protocol> {
        match self {
            Self::Mope => Some(Protocol::Mope),
            Self::Stope => Some(Protocol::Stope),
            Self::Bclo | Self::Clww | Self::LewiWu => None,
        }
    }

    /// Are the terms sorted as the values are, so that PostgreSQL's own operators order them? None of a scheme whose terms a
    /// function compares is: to sort by that function takes an operator class, which only a superuser makes.
    #[must_use]
    pub fn sorts(self) -> bool {
        self.compared_by().is_none()
    }

    /// The function that compares a term with what [`arras_service::columns::OrderTerms::compared`] gives, if PostgreSQL's
    /// operators do not. Beside it is one of the same name with `_between` for `_compare`.
    #[must_use]
    pub fn compared_by(self) -> Option<&'static str> {
        match self {
            Self::Mope | Self::Stope | Self::Bclo => None,
            Self::Clww => Some("arras.clww_compare"),
            Self::LewiWu => Some("arras.lewi_wu_compare"),
        }
    }

    /// The aggregates of the sealed value whose term is least, and greatest, where a function compares terms with one another.
    #[must_use]
    pub fn extremes(self) -> Option<[&'static str; 2]> {
        match self {
            Self::Mope | Self::Stope | Self::Bclo | Self::LewiWu => None,
            Self::Clww => Some(["arras.clww_least", "arras.clww_greatest"]),
        }
    }

    /// Have equal values one term? Then values are found equal, and grouped, by it; and a function that compares terms compares
    /// any two.
    #[must_use]
    pub fn is_deterministic(self) -> bool {
        match self {
            Self::Mope | Self::Stope | Self::Bclo | Self::Clww => true,
            Self::LewiWu => false,
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
