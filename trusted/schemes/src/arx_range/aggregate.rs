//! Partial aggregates (§6): a count, and one exact mergeable sum for each summed field.
//!
//! Always put together from parts, never taken apart by subtraction: a sum of doubles stays what it is.

use super::ArxRangeParameters;
use super::entry::Entry;
use crate::error::OpenFailed;
use arras_numbers::NumberSum;

/// Bytes of one field's sum in an aggregate: a function of the schema, not of the values.
const SUM_BYTES: usize = NumberSum::ENCODED_BYTES_MAX;

/// Bytes of one document's part of a sum: room for one number of any type.
pub(super) const PART_BYTES: usize = 64;

/// An aggregate of some entries.
#[derive(Clone, PartialEq)]
pub(super) struct Aggregate {
    pub(super) count: u64,
    pub(super) sums: Vec<NumberSum>,
}

impl Aggregate {
    /// Of no entries.
    pub(super) fn zero(parameters: &ArxRangeParameters) -> Self {
        Self { count: 0, sums: vec![NumberSum::default(); parameters.sums] }
    }

    /// Of some entries; zero if the index keeps none.
    pub(super) fn of<'e>(
        parameters: &ArxRangeParameters,
        entries: impl IntoIterator<Item = &'e Entry>,
    ) -> Self {
        let mut aggregate = Self::zero(parameters);
        if parameters.aggregated() {
            for entry in entries {
                aggregate.count += 1;
                for (sum, part) in aggregate.sums.iter_mut().zip(&entry.sums) {
                    sum.merge(part);
                }
            }
        }
        aggregate
    }

    /// Adds another.
    pub(super) fn merge(&mut self, other: &Self) {
        self.count = self.count.saturating_add(other.count);
        for (sum, part) in self.sums.iter_mut().zip(&other.sums) {
            sum.merge(part);
        }
    }

    /// Bytes of an aggregate.
    pub(super) fn encoded_bytes(parameters: &ArxRangeParameters) -> usize {
        if parameters.aggregated() { 8 + parameters.sums * SUM_BYTES } else { 0 }
    }

    /// Appends the aggregate.
    pub(super) fn encode(&self, parameters: &ArxRangeParameters, output: &mut Vec<u8>) {
        if parameters.aggregated() {
            output.extend_from_slice(&self.count.to_be_bytes());
            for sum in &self.sums {
                encode_sum(sum, SUM_BYTES, output);
            }
        }
    }

    /// Reads an aggregate off the front of `bytes`.
    pub(super) fn decode(parameters: &ArxRangeParameters, bytes: &mut &[u8]) -> Result<Self, OpenFailed> {
        let mut aggregate = Self::zero(parameters);
        if parameters.aggregated() {
            let (count, rest) = bytes.split_first_chunk::<8>().ok_or(OpenFailed)?;
            *bytes = rest;
            aggregate.count = u64::from_be_bytes(*count);
            for sum in &mut aggregate.sums {
                *sum = decode_sum(bytes, SUM_BYTES)?;
            }
        }
        Ok(aggregate)
    }
}

/// Appends a sum, padded.
pub(super) fn encode_sum(sum: &NumberSum, width_bytes: usize, output: &mut Vec<u8>) {
    let end = output.len() + width_bytes;
    output.extend_from_slice(&sum.to_bytes());
    output.resize(end, 0);
}

/// Reads a sum off the front of `bytes`.
pub(super) fn decode_sum(bytes: &mut &[u8], width_bytes: usize) -> Result<NumberSum, OpenFailed> {
    let (sum, rest) = bytes.split_at_checked(width_bytes).ok_or(OpenFailed)?;
    *bytes = rest;
    NumberSum::from_bytes(sum).map_err(|_| OpenFailed)
}
