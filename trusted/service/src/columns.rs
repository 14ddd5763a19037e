//! What a front end for SQL asks of the keys of one column: it sees plaintext values and terms for the database, no key.
//!
//! A *canonical value* is the plaintext as bytes that the column's type defines (the front end's codecs): equal values have
//! equal bytes, and where the type is ordered, unsigned comparison of its *order key* is the order of the values.

use crate::ServiceError;
use std::future::Future;
use std::pin::Pin;

/// What an operation that asks the database comes to.
pub type Pending<'a, T> = Pin<Box<dyn Future<Output = Result<T, ServiceError>> + Send + 'a>>;

/// How the lengths of a column's sealed values are made to say no more than the column's type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Padding {
    /// All values of the type have one length: there is nothing to hide.
    None,
    /// Every value is sealed at one length, that of the longest, in bytes.
    To(usize),
    /// The type has no longest value: lengths show in steps of 32 bytes, from 256 bytes on of an eighth of themselves.
    InSteps,
}

/// A column whose keys are asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Declared {
    /// The 8 bytes that the schema gave it.
    pub id: [u8; 8],
    /// How its values are padded.
    pub padding: Padding,
}

/// The keys of one column, behind operations.
pub trait ColumnKeys: Send + Sync {
    /// Seals a canonical value: randomised, bound to the column, padded so that its length says what the column's type
    /// states and nothing else.
    fn seal(&self, canonical: &[u8]) -> Vec<u8>;

    /// Opens what [`Self::seal`] made.
    ///
    /// # Errors
    /// [`ServiceError`] if it was not sealed under this column's key.
    fn open(&self, sealed: &[u8]) -> Result<Vec<u8>, ServiceError>;

    /// Seals a value, of any type, for the results of one statement: randomised, bound to the column and to `context`. It does not
    /// open as a stored value of the column, nor in another context, and its length shows in steps.
    fn seal_for(&self, context: &[u8], canonical: &[u8]) -> Vec<u8>;

    /// Opens what [`Self::seal_for`] made in that context.
    ///
    /// # Errors
    /// [`ServiceError`] if it was sealed in another context, as a stored value, or not under this column's key.
    fn open_for(&self, context: &[u8], sealed: &[u8]) -> Result<Vec<u8>, ServiceError>;

    /// The equality term of a canonical value, 16 bytes: deterministic. Columns joined with one another share its key.
    fn equality(&self, canonical: &[u8]) -> [u8; 16];
}

/// Where an order key stands among a column's stored ones. What a statement carries for a bound is a stored neighbour's
/// ciphertext, never a label: labels change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    /// Ciphertext of the key itself, if it is stored under one.
    pub exact: Option<Vec<u8>>,
    /// Ciphertexts of its first and its last occurrence, if each is stored under its own.
    pub among: Option<(Vec<u8>, Vec<u8>)>,
    /// Ciphertext of the greatest stored key below it.
    pub below: Option<Vec<u8>>,
    /// Ciphertext of the least stored key above it.
    pub above: Option<Vec<u8>>,
}

impl Place {
    /// All ciphertexts that a bound may be made of.
    pub fn ciphertexts(&self) -> impl Iterator<Item = &[u8]> {
        let Self { exact, among, below, above } = self;
        let among = among.iter().flat_map(|(first, last)| [first, last]);
        [exact, below, above].into_iter().flatten().chain(among).map(Vec::as_slice)
    }
}

/// The labels that ciphertexts have at one time, and what tells that time from others: 8 bytes each, as the database's
/// functions take them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Learned {
    /// Of each ciphertext, in the order given; none of one that is not stored.
    pub labels: Vec<Option<[u8; 8]>>,
    /// How often labels of the column had changed or gone.
    pub epoch: [u8; 8],
    /// Do keys go with their last row? Then one that was there at another time may be missing beside a neighbour.
    pub keys_leave: bool,
}

/// The order-preserving encoder of one column.
pub trait OrderEncoder: Send + Sync {
    /// Makes sure that order keys are stored, and returns their ciphertexts, in the order given. Done in a short transaction
    /// of its own before the statement that stores them. `process` is the database's process of the session that asks: where
    /// the change has to wait for that session itself, it fails at once.
    fn encode<'a>(&'a self, keys: &'a [Vec<u8>], process: Option<i32>) -> Pending<'a, Vec<Vec<u8>>>;

    /// Does what is slow of encoding order keys, for those that [`Self::encode`] will soon be asked for: all in one change.
    fn prepare<'a>(&'a self, keys: &'a [Vec<u8>], process: Option<i32>) -> Pending<'a, ()> {
        Box::pin(async move { self.encode(keys, process).await.map(drop) })
    }

    /// The labels that ciphertexts have now: for a transaction that sees the database as it was before they came.
    fn learned<'a>(&'a self, ciphertexts: &'a [Vec<u8>]) -> Pending<'a, Learned>;

    /// Where order keys stand, without storing them, in the order given.
    fn places<'a>(&'a self, keys: &'a [Vec<u8>]) -> Pending<'a, Vec<Place>>;
}

/// The terms of one column's order, where they are ciphertexts that are compared as they are: neither a tree nor the database is
/// asked.
pub trait OrderTerms: Send + Sync {
    /// The ciphertext of an order key, to be stored.
    ///
    /// # Errors
    /// [`ServiceError`] if the key is not of the column's length.
    fn stored(&self, sortable: &[u8]) -> Result<Vec<u8>, ServiceError>;

    /// What stored ciphertexts are compared with, to be told on which side of an order key they are. The key need not be
    /// stored.
    ///
    /// # Errors
    /// [`ServiceError`] if the key is not of the column's length.
    fn compared(&self, sortable: &[u8]) -> Result<Vec<u8>, ServiceError>;

    /// Is it a stored ciphertext of that order key?
    fn is_of(&self, stored: &[u8], sortable: &[u8]) -> bool;
}

/// Opens the keys of columns.
pub trait Columns: Send + Sync {
    /// The keys of a column, by the 8 bytes that the schema gave it; none if it is not declared.
    fn keys(&self, column: [u8; 8]) -> Option<std::sync::Arc<dyn ColumnKeys>>;

    /// The encoder of a column's order; none if it has no labels.
    fn encoder(&self, column: [u8; 8]) -> Option<std::sync::Arc<dyn OrderEncoder>>;

    /// The ciphertexts of a column's order; none if it has none of its own.
    fn order_terms(&self, column: [u8; 8]) -> Option<std::sync::Arc<dyn OrderTerms>>;

    /// The words of a column's texts; none if they are not kept, or this program keeps none.
    fn words(&self, _column: [u8; 8]) -> Option<std::sync::Arc<dyn crate::words::Words>> {
        None
    }
}
