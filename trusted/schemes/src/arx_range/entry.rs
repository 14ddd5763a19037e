//! Entries, and how buckets and node records are laid out before they are sealed. Lengths are functions of the
//! schema and, in steps of eight entries or more, of the number of entries; a sum has one length whatever it is.

use super::ArxRangeParameters;
use super::aggregate::{Aggregate, PART_BYTES, decode_sum, encode_sum};
use super::secrets::{Place, TIE_BYTES};
use crate::error::OpenFailed;
use arras_numbers::NumberSum;
use arras_protocol::RowId;

/// Buckets are padded to a multiple of this many bytes at least, so that their lengths show little of their counts.
const BUCKET_STEP_BYTES: usize = 256;

/// And to a multiple of so many entries' bytes: entries that carry sums are long, and fewer would fit in a step.
const BUCKET_STEP_ENTRIES: usize = 8;

/// Bytes of a bucket's entry count.
const COUNT_BYTES: usize = 4;

/// An entry of the index.
#[derive(Clone, Debug, PartialEq)]
pub struct RangeEntry {
    /// The value in its order-preserving encoding: [`ArxRangeParameters::key_bytes`] bytes, compared as a
    /// big-endian number.
    pub value: Vec<u8>,
    /// The document.
    pub row: RowId,
    /// The document's part of each summed field: the sum of one number at most.
    pub sums: Vec<NumberSum>,
}

/// An entry in its place.
#[derive(Clone)]
pub(super) struct Entry {
    pub(super) place: Place,
    pub(super) row: RowId,
    pub(super) sums: Vec<NumberSum>,
}

impl Entry {
    /// What entries are ordered by.
    pub(super) fn rank(&self) -> (&[u8], RowId) {
        (&self.place, self.row)
    }

    /// The value, without the tie-break.
    pub(super) fn value(&self) -> &[u8] {
        self.place.get(..self.place.len().saturating_sub(TIE_BYTES)).unwrap_or_default()
    }
}

fn entry_bytes(parameters: &ArxRangeParameters) -> usize {
    parameters.place_bytes() + RowId::BYTES + parameters.sums * PART_BYTES
}

/// What the lengths of buckets are multiples of.
fn bucket_step_bytes(parameters: &ArxRangeParameters) -> usize {
    BUCKET_STEP_BYTES.max(BUCKET_STEP_ENTRIES * entry_bytes(parameters))
}

/// Lays out a bucket.
pub(super) fn encode_bucket(parameters: &ArxRangeParameters, entries: &[Entry]) -> Vec<u8> {
    let content_bytes = COUNT_BYTES + entries.len() * entry_bytes(parameters);
    encode_padded(entries, content_bytes.next_multiple_of(bucket_step_bytes(parameters)))
}

fn encode_padded(entries: &[Entry], bytes: usize) -> Vec<u8> {
    let mut output = Vec::with_capacity(bytes);
    output.extend_from_slice(&u32::try_from(entries.len()).unwrap_or(u32::MAX).to_be_bytes());
    for entry in entries {
        output.extend_from_slice(&entry.place);
        output.extend_from_slice(entry.row.as_bytes());
        entry.sums.iter().for_each(|sum| encode_sum(sum, PART_BYTES, &mut output));
    }
    output.resize(bytes, 0);
    output
}

/// Lays out entries that are added to a bucket: room for a power of two of them.
pub(super) fn encode_added(parameters: &ArxRangeParameters, entries: &[Entry]) -> Vec<u8> {
    let bytes = COUNT_BYTES + entries.len().next_power_of_two() * entry_bytes(parameters);
    encode_padded(entries, bytes)
}

/// Reads a bucket, or entries that were added to one.
pub(super) fn decode_bucket(
    parameters: &ArxRangeParameters,
    mut bytes: &[u8],
) -> Result<Vec<Entry>, OpenFailed> {
    let count = u32::from_be_bytes(take(&mut bytes)?) as usize;
    if count > bytes.len() / entry_bytes(parameters) {
        return Err(OpenFailed);
    }
    let mut entries: Vec<Entry> = Vec::with_capacity(count);
    for _ in 0..count {
        let (place, rest) = bytes.split_at_checked(parameters.place_bytes()).ok_or(OpenFailed)?;
        bytes = rest;
        let row = RowId(take(&mut bytes)?);
        let sums =
            (0..parameters.sums).map(|_| decode_sum(&mut bytes, PART_BYTES)).collect::<Result<_, _>>()?;
        entries.push(Entry { place: place.into(), row, sums });
    }
    Ok(entries)
}

fn take<const N: usize>(bytes: &mut &[u8]) -> Result<[u8; N], OpenFailed> {
    let (head, rest) = bytes.split_first_chunk::<N>().ok_or(OpenFailed)?;
    *bytes = rest;
    Ok(*head)
}

/// What a node's sealed record holds. A top node's left subtree is always empty; its right one is its gap's tree.
pub(super) struct Record {
    pub(super) separator: Place,
    pub(super) own: Aggregate,
    pub(super) left: Aggregate,
    pub(super) right: Aggregate,
}

impl Record {
    pub(super) fn encode(
        parameters: &ArxRangeParameters,
        separator: &[u8],
        own: &Aggregate,
        left: &Aggregate,
        right: &Aggregate,
    ) -> Vec<u8> {
        let aggregates = 3 * Aggregate::encoded_bytes(parameters);
        let mut output = Vec::with_capacity(separator.len() + aggregates);
        output.extend_from_slice(separator);
        [own, left, right].into_iter().for_each(|aggregate| aggregate.encode(parameters, &mut output));
        output
    }

    pub(super) fn decode(parameters: &ArxRangeParameters, mut bytes: &[u8]) -> Result<Self, OpenFailed> {
        let (separator, rest) = bytes.split_at_checked(parameters.place_bytes()).ok_or(OpenFailed)?;
        bytes = rest;
        let mut aggregate = || Aggregate::decode(parameters, &mut bytes);
        let record =
            Self { separator: separator.into(), own: aggregate()?, left: aggregate()?, right: aggregate()? };
        if bytes.is_empty() { Ok(record) } else { Err(OpenFailed) }
    }
}
