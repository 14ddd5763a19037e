//! Sums.

use crate::QueryError;
use bson::Bson;

/// A mergeable sum of numbers.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct NumberSum {}

impl NumberSum {
    /// Most bytes of [`NumberSum::to_bytes`].
    pub const ENCODED_BYTES_MAX: usize = 320;

    /// The empty sum: zero.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a value; what is no number counts nothing.
    pub fn add(&mut self, value: &Bson) {
        let _ = value;
    }

    /// Adds what another sum has added.
    pub fn merge(&mut self, other: &NumberSum) {
        let _ = other;
    }

    /// The sum, typed as MongoDB's `$sum`.
    pub fn finish(&self) -> Bson {
        Bson::Int32(0)
    }

    /// How many numbers were added.
    pub fn count(&self) -> u64 {
        0
    }

    /// The mean, typed as MongoDB's `$avg`; null if no number was added.
    pub fn average(&self) -> Bson {
        Bson::Null
    }

    /// Compact encoding. Its length depends on the values: pad it with zeros to hide that.
    pub fn to_bytes(&self) -> Vec<u8> {
        Vec::new()
    }

    /// Reads [`NumberSum::to_bytes`], with zero padding behind it or not.
    ///
    /// # Errors
    /// 22 `InvalidBSON` if the bytes are no such encoding.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, QueryError> {
        let _ = bytes;
        Ok(NumberSum {})
    }
}
