//! The dictionary of the encrypted multimap: labelled cells in bins.
//!
//! *Paper.* Cash, Jarecki, Jutla, Krawczyk, Rosu, Steiner, CRYPTO 2013 (ePrint 2013/169), whose T-set is a hash table of
//! bins; labels and cells are those of the basic construction of NDSS 2014 (ePrint 2014/853).
//!
//! A list's token seeds a stream of blocks: block 0 masks its length, block `1 + c` is the label of its cell `c`
//! (further labels are those of its blocks, see [`super::cjjjkrs`]). A cell is
//! `label || records, masked || sealed records`. Cells are ordered by label and laid into bins: a label's first 8
//! bytes, as a fraction of 2^64, say which; what a full bin cannot take goes to the front of the next. All cells are of
//! one length and all labels look random, so which bins are full says nothing but the number of cells.

use serde::{Deserialize, Serialize};
use std::fmt;

/// Bytes of a label.
pub const LABEL_BYTES: usize = 16;

/// Bytes of the masked length in a cell.
pub const HEADER_BYTES: usize = 4;

/// Capability to find one list of one instance: 16 bytes that seed the stream of its labels. It opens nothing.
#[derive(Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct SearchToken(pub [u8; 16]);

impl fmt::Debug for SearchToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SearchToken(..)")
    }
}

/// Where a cell or a block is found.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Label(pub [u8; LABEL_BYTES]);

impl Label {
    /// The bin, of `bins`, in which a search for the label begins.
    #[must_use]
    pub fn bin(&self, bins: u32) -> u32 {
        let [a, b, c, d, e, f, g, h, ..] = self.0;
        let fraction = u64::from_be_bytes([a, b, c, d, e, f, g, h]);
        u32::try_from((u128::from(fraction) * u128::from(bins)) >> 64).unwrap_or(u32::MAX)
    }
}

/// Masks the number of records of a list, or takes the mask off, with block 0 of the stream.
#[must_use]
pub fn mask_records(mask: &[u8; 16], records: u32) -> u32 {
    let [a, b, c, d, ..] = *mask;
    records ^ u32::from_le_bytes([a, b, c, d])
}
