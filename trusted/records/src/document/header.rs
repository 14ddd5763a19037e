//! The header of a stored document: what its fields cannot say themselves, and how it is laid out before it is
//! sealed.
//!
//! *Lengths.* Every number has a fixed width, so that neither a value's counter (how common it is) nor the place in
//! insertion order (how often the proxy was started) makes a header longer. What is left, the lengths of the field
//! names and how many values the equality indexes hold for the document, is padded in steps of
//! [`HEADER_STEP_BYTES`], or of about an eighth of a long header ([`padding::pad_in_proportion`]).

use super::IndexTerms;
use arras_protocol::{IndexId, codec};
use arras_schemes::contract::Held;
use arras_schemes::error::OpenFailed;
use arras_schemes::padding;
use serde::{Deserialize, Serialize};

/// Headers are padded in steps of this many bytes.
pub(super) const HEADER_STEP_BYTES: usize = 64;

/// How many times its bytes a list of short names takes in memory, at most.
const NAMES_EXPANSION: usize = 32;

/// The header.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Header {
    /// Of this sealing of the document: binds the fields to each other.
    pub(super) version: [u8; 8],
    /// Place in insertion order.
    pub(super) sequence: u64,
    /// Names of the fields, in the document's order.
    pub(super) names: Vec<String>,
    /// What the indexes hold for the document.
    pub(super) terms: IndexTerms,
}

/// The header as it is encoded. No integer may stand here as such: the codec would make small ones shorter.
#[derive(Serialize, Deserialize)]
struct Layout {
    version: [u8; 8],
    sequence: [u8; 8],
    names: Vec<String>,
    entries: Vec<(IndexId, Vec<[u8; Held::BYTES]>)>,
}

/// The header of a document that is only looked at, as it is encoded.
#[derive(Deserialize)]
struct BorrowedLayout<'b> {
    version: [u8; 8],
    _sequence: [u8; 8],
    #[serde(borrow)]
    names: Vec<&'b str>,
    _entries: Vec<(IndexId, Vec<[u8; Held::BYTES]>)>,
}

/// The version and the names in a header.
///
/// # Errors
/// [`OpenFailed`] if it is none.
pub(super) fn names(bytes: &[u8]) -> Result<([u8; 8], Vec<&str>), OpenFailed> {
    let layout: BorrowedLayout<'_> =
        codec::decode_borrowed(padding::unpad(bytes)?, NAMES_EXPANSION).map_err(|_| OpenFailed)?;
    Ok((layout.version, layout.names))
}

impl Header {
    /// The header's bytes, padded.
    pub(super) fn encode(self) -> Vec<u8> {
        let fixed = |entries: Vec<Held>| entries.into_iter().map(Held::encode).collect();
        let layout = Layout {
            version: self.version,
            sequence: self.sequence.to_be_bytes(),
            names: self.names,
            entries: self.terms.entries.into_iter().map(|(id, entries)| (id, fixed(entries))).collect(),
        };
        padding::pad_in_proportion(codec::encode(&layout), HEADER_STEP_BYTES)
    }

    /// Reads a header.
    ///
    /// # Errors
    /// [`OpenFailed`] if it is none.
    pub(super) fn decode(bytes: &[u8]) -> Result<Self, OpenFailed> {
        // This proxy's own record, sealed: names take many times their bytes in memory.
        let layout: Layout =
            codec::decode_expanding(padding::unpad(bytes)?, NAMES_EXPANSION).map_err(|_| OpenFailed)?;
        let held = |entries: Vec<[u8; Held::BYTES]>| entries.into_iter().map(Held::decode).collect();
        let entries = layout.entries.into_iter().map(|(id, entries)| (id, held(entries))).collect();
        Ok(Self {
            version: layout.version,
            sequence: u64::from_be_bytes(layout.sequence),
            names: layout.names,
            terms: IndexTerms { entries },
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn header(sequence: u64, counter: u32) -> Header {
        let names = (0..10).map(|number| format!("field {number}")).collect();
        let held = Held { tree: [7; 4], counter };
        let terms = IndexTerms { entries: vec![(IndexId([1; 8]), vec![held; 30])] };
        Header { version: [9; 8], sequence, names, terms }
    }

    #[test]
    fn a_header_comes_back() {
        for (sequence, counter) in [(0, 0), (u64::MAX, u32::MAX), (1 << 40, 300)] {
            let header = header(sequence, counter);
            let encoded = header.clone().encode();
            let borrowed: Vec<&str> = header.names.iter().map(String::as_str).collect();
            assert_eq!(names(&encoded), Ok((header.version, borrowed)));
            assert_eq!(Header::decode(&encoded), Ok(header));
        }
    }

    #[test]
    fn neither_counters_nor_the_sequence_show_in_the_length() {
        let least = header(0, 0).encode().len();
        for exponent in 0..32 {
            assert_eq!(header(u64::MAX >> exponent, u32::MAX >> exponent).encode().len(), least);
        }
    }

    #[test]
    fn names_and_numbers_of_values_show_in_steps() {
        let with = |names: &[&str], values: usize| Header {
            version: [0; 8],
            sequence: 0,
            names: names.iter().map(ToString::to_string).collect(),
            terms: IndexTerms {
                entries: vec![(IndexId([1; 8]), vec![Held { tree: [0; 4], counter: 0 }; values])],
            },
        };
        let lengths = [with(&["_id", "x"], 1), with(&["_id", "longer"], 1), with(&["_id", "x"], 3)]
            .map(|header| header.encode().len());
        assert_eq!(lengths, [64; 3]);
    }
}
