//! As what values go to the database.

use crate::catalog::Encryption;
use arras_service::words::{Which, WordQuery};
use std::sync::Arc;

/// As what a value goes to the database.
#[derive(Clone, Debug, PartialEq)]
pub enum Form {
    /// As it came: an unencrypted parameter.
    Plain,
    /// True, or NULL if the value is: all that `IS NULL` asks of one.
    Presence,
    /// Sealed: `bytea`.
    Sealed(Arc<Encryption>),
    /// A moment itself, sealed, as the default that the column has: hexadecimal digits, which no row holds.
    Default(Arc<Encryption>),
    /// The equality term: `bytea`.
    Equality(Arc<Encryption>),
    /// What equality terms are compared with: that of the value as it is sent, which a stored one may be no more, rounded or cut.
    EqualTo(Arc<Encryption>),
    /// The members of an array, each sealed: `bytea[]`.
    SealedArray(Arc<Encryption>),
    /// The equality terms of an array's members: `bytea[]`.
    EqualityArray(Arc<Encryption>),
    /// The same for what they are compared with: `bytea[]`.
    EqualToArray(Arc<Encryption>),
    /// The ciphertexts that an array's members have in the column's order, made where they have none: `bytea[]`.
    OrderArray(Arc<Encryption>),
    /// The ciphertext that the value has in the column's order, made if it has none: `bytea`.
    Order(Arc<Encryption>),
    /// What the database compares the column's terms of order with: `bytea`. Where they are labels, for the function that finds a bound among these.
    Bound(Arc<Encryption>, Side, Gap),
    /// The name that the words of the text are entered under: `bytea`, for `arras.text_name`.
    Text(Arc<Encryption>),
    /// The same of an array's members: `bytea[]`.
    TextArray(Arc<Encryption>),
    /// The names of the texts that a query, which the value is, finds, or does not: `bytea[]`.
    Found(Arc<Encryption>, WordQuery, Which),
    /// Whether such a query finds a text without a word: a truth value.
    FoundEmpty(Arc<Encryption>, WordQuery),
}

impl Form {
    /// Is it good at the time when it is made only: a bound among labels that are there, or a key that one row has?
    #[must_use]
    pub fn is_of_one_time(&self) -> bool {
        match self {
            Self::Bound(encryption, ..) => encryption.labels().is_some(),
            Self::Order(encryption) | Self::OrderArray(encryption) => encryption.hides_frequency(),
            Self::Text(_) | Self::TextArray(_) | Self::Found(..) => true,
            Self::FoundEmpty(..) => false,
            Self::Plain
            | Self::Presence
            | Self::Sealed(_)
            | Self::Default(_)
            | Self::Equality(_)
            | Self::EqualTo(_)
            | Self::SealedArray(_)
            | Self::EqualityArray(_)
            | Self::EqualToArray(_) => false,
        }
    }

    /// The column that the value is of; none of a plain one.
    pub(crate) fn encryption(&self) -> Option<&Arc<Encryption>> {
        match self {
            Self::Plain | Self::Presence => None,
            Self::Sealed(encryption)
            | Self::Default(encryption)
            | Self::Equality(encryption)
            | Self::EqualTo(encryption)
            | Self::SealedArray(encryption)
            | Self::EqualityArray(encryption)
            | Self::EqualToArray(encryption)
            | Self::OrderArray(encryption)
            | Self::Order(encryption)
            | Self::Text(encryption)
            | Self::TextArray(encryption)
            | Self::Found(encryption, ..)
            | Self::FoundEmpty(encryption, _)
            | Self::Bound(encryption, ..) => Some(encryption),
        }
    }

    /// Is it of an array's members?
    #[must_use]
    pub fn is_array(&self) -> bool {
        match self {
            Self::SealedArray(_)
            | Self::EqualityArray(_)
            | Self::EqualToArray(_)
            | Self::OrderArray(_)
            | Self::TextArray(_) => true,
            Self::Plain
            | Self::Presence
            | Self::Sealed(_)
            | Self::Default(_)
            | Self::Equality(_)
            | Self::EqualTo(_)
            | Self::Order(_)
            | Self::Text(_)
            // One text is asked for.
            | Self::Found(..)
            | Self::FoundEmpty(..)
            | Self::Bound(..) => false,
        }
    }

    /// The number of PostgreSQL's type that the value is sent as; none for what the client's own is.
    #[must_use]
    pub fn oid(&self) -> Option<u32> {
        match self {
            Self::Plain => None,
            Self::Presence | Self::FoundEmpty(..) => Some(16),
            Self::Default(_) => Some(25),
            Self::Sealed(_)
            | Self::Equality(_)
            | Self::EqualTo(_)
            | Self::Order(_)
            | Self::Bound(..)
            | Self::Text(_) => Some(17),
            Self::SealedArray(_)
            | Self::EqualityArray(_)
            | Self::EqualToArray(_)
            | Self::OrderArray(_)
            | Self::TextArray(_)
            | Self::Found(..) => Some(1001),
        }
    }
}

/// How a column's labels are compared with a value.
///
/// Only labels of stored keys can be compared, so a value that is not stored is replaced by its neighbour inside the range
/// that is asked for: `c >= 5` by the least stored key above 5, `c < 5` by the greatest below it, that one included. What is
/// stored in the gap between the two meanwhile ([`Gap`]) is missed by a statement that began before; it never matches wrongly.
/// The operator in the text stays, and NULL compares as ever.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// `<`
    Less,
    /// `<=`
    LessOrEqual,
    /// `>`
    Greater,
    /// `>=`
    GreaterOrEqual,
    /// `=`, `<>`
    Equal,
}

/// Whether a comparison holds for what is stored in the gap around its constant, between the look-up and the statement: nobody
/// knows on which side of the constant that is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Gap {
    /// It does not: the rows are missed.
    Outside,
    /// It does, as its result is denied: so the rows are missed.
    Inside,
}
