//! What a column's order is kept by, and what follows from that for statements.

use super::Encryption;
use crate::mope::Protocol;
use arras_protocol::leakage::Leakage;
use arras_protocol::leakage::fh_ope::FH_OPE_TERM;
use arras_protocol::leakage::mope::{MOPE, STOPE};
use arras_protocol::leakage::sql::{COMPARED_TERM, SIDED_TERM, SORTED_TERM};
use arras_protocol::ore::{self, Width};
use arras_protocol::table::index;

/// The scheme of a column's terms of order.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Order {
    /// Mutable order-preserving encoding: every value that was ever stored keeps its place.
    #[default]
    Mope,
    /// The same, of the values that are stored at the same time.
    Stope,
    /// Frequency-hiding order-preserving encryption: each row has a place of its own, equal values at random among each other.
    FhOpe,
    /// An order-preserving function: ciphertexts in the order of the values, as bytes.
    Bclo,
    /// Order-revealing encryption: ciphertexts that a function compares.
    Clww,
    /// The same of two sides: what is stored is random by itself, and only compared with what a constant is sent as.
    LewiWu,
}

/// Longest order key, in bytes, of which schemes make a ciphertext without a tree.
pub(crate) const CIPHERTEXT_KEY_BYTES: usize = 8;

/// Bits of a block, where what is stored and what it is compared with are two sides.
const BLOCK_BITS: u8 = 4;

impl Order {
    /// All there are.
    pub const ALL: [Self; 6] = [Self::Mope, Self::Stope, Self::FhOpe, Self::Bclo, Self::Clww, Self::LewiWu];

    /// As the schema file has it.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Mope => index::MOPE,
            Self::Stope => index::STOPE,
            Self::FhOpe => "fh_ope",
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
            Self::Mope | Self::Stope | Self::FhOpe => "bigint",
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
            Self::FhOpe => Some(Protocol::FrequencyHiding),
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
            Self::Mope | Self::Stope | Self::FhOpe | Self::Bclo => None,
            Self::Clww => Some("arras.clww_compare"),
            Self::LewiWu => Some("arras.lewi_wu_compare"),
        }
    }

    /// The aggregates of the sealed value whose term is least, and greatest, where terms tell that: what they hold of a group is one
    /// value.
    #[must_use]
    pub fn extremes(self) -> Option<[&'static str; 2]> {
        match self {
            Self::Mope | Self::Stope | Self::FhOpe => Some(["arras.mope_least", "arras.mope_greatest"]),
            Self::Bclo => Some(["arras.bclo_least", "arras.bclo_greatest"]),
            Self::LewiWu => None,
            Self::Clww => Some(["arras.clww_least", "arras.clww_greatest"]),
        }
    }

    /// Have equal values one term? Then values are found equal, and grouped, by it; and a function that compares terms compares
    /// any two.
    #[must_use]
    pub fn is_deterministic(self) -> bool {
        match self {
            Self::Mope | Self::Stope | Self::Bclo | Self::Clww => true,
            Self::FhOpe | Self::LewiWu => false,
        }
    }

    /// Do terms tell the order of two rows? Those of one of two sides tell it of a row and a constant.
    #[must_use]
    pub fn compares_rows(self) -> bool {
        match self {
            Self::Mope | Self::Stope | Self::FhOpe | Self::Bclo | Self::Clww => true,
            Self::LewiWu => false,
        }
    }

    /// Has each row a term that no other has? Then a value that is stored is encrypted for each row that it is stored in, and
    /// rows of equal values stand in an order that says nothing.
    #[must_use]
    pub fn hides_frequency(self) -> bool {
        match self {
            Self::FhOpe => true,
            Self::Mope | Self::Stope | Self::Bclo | Self::Clww | Self::LewiWu => false,
        }
    }

    /// The feature of the build that this program lacks for the order; none if it has it.
    #[must_use]
    pub fn left_out(self) -> Option<&'static str> {
        (self == Self::Bclo && cfg!(not(feature = "bclo"))).then_some("bclo")
    }

    /// What a column of terms holds, in words.
    #[must_use]
    pub fn holds(self, column: &Encryption) -> String {
        let width = column.order_width();
        let label = |tree: &str| format!("the value's label in the column's {tree} tree; labels change");
        match self {
            Self::Mope => label("mOPE"),
            Self::Stope => label("stOPE"),
            Self::FhOpe => "the row's own label in the column's FH-OPE tree; labels change".into(),
            Self::Bclo => format!(
                "a BCLO ciphertext of {} bytes, in the order of the values; it never changes",
                ore::bclo::bytes(width)
            ),
            Self::Clww => format!(
                "a CLWW ciphertext of {} bytes, which a function compares; it never changes",
                ore::clww::bytes(width)
            ),
            Self::LewiWu => format!(
                "a right ciphertext of Lewi-Wu of {} bytes, random by itself; a function compares it",
                ore::lewi_wu::right_bytes(width, BLOCK_BITS).unwrap_or_default()
            ),
        }
    }

    /// What works by the terms, in words.
    #[must_use]
    pub fn serves(self) -> &'static str {
        match self {
            Self::Mope | Self::Stope | Self::Bclo => "<, <=, >, >=, BETWEEN, ORDER BY, MIN, MAX, windows",
            Self::FhOpe => "=, <>, IN, <, <=, >, >=, BETWEEN with constants, ORDER BY it last, MIN, MAX",
            Self::Clww => "<, <=, >, >=, BETWEEN, MIN, MAX, row by row; no ORDER BY, no index but for =",
            Self::LewiWu => {
                "=, <>, <, <=, >, >=, BETWEEN with constants, row by row; no ORDER BY, no MIN, no index"
            }
        }
    }

    /// What the terms show.
    #[must_use]
    pub fn leakage(self) -> Leakage {
        match self {
            Self::Mope => MOPE,
            Self::Stope => STOPE,
            Self::FhOpe => FH_OPE_TERM,
            Self::Bclo => SORTED_TERM,
            Self::Clww => COMPARED_TERM,
            Self::LewiWu => SIDED_TERM,
        }
    }
}

impl Encryption {
    /// Has each row a label of its own?
    #[must_use]
    pub fn hides_frequency(&self) -> bool {
        self.order.is_some_and(Order::hides_frequency)
    }

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
