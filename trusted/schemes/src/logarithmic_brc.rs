//! Keyed half of Logarithmic-BRC: range covers over an encrypted multimap.
//!
//! *Paper.* Demertzis, Papadopoulos, Papapetrou, Deligiannakis, Garofalakis, SIGMOD 2016; as section 4.4 of the
//! comparative evaluation of VLDB 2019 has it. Covers: [`cover`]. Multimap: `arras_protocol::logarithmic_brc`.
//!
//! *Static use.* [`LogarithmicBrc::bulk_load`] builds one instance. *Updates.* The entries written last are a small
//! instance of one list, the buffer, which every search reads whole and every write replaces. When it is full it
//! becomes an instance of lists for all nodes, and merges with those that are not larger than it: sizes at least double
//! from one instance to the next older one. A removal is a record too; of the records of an entry the newest counts, and a
//! removal disappears when nothing older is left. Searches go on while instances are merged; writes wait.
//!
//! *Leakage.* `arras_protocol::leakage::logarithmic_brc::LOGARITHMIC_BRC`. Instances have keys of their own, so tokens of the past find
//! nothing in new ones (forward private). The order of tokens in a request is random. A search that finds nothing in an instance
//! gives out tokens of nodes beside its range, and with them how many records those have.
//!
//! *Cost.* A search is one request of at most `2 (n - 1)` tokens an instance, `n` being the bits of the domain, and
//! one response (more if it is long); a second trip, of at most `n` tokens an instance, if an instance has nothing in the range.
//! An entry is stored `n + 1` times an instance; a write costs one read and one
//! write of the buffer, and `n` times a logarithm of the number of entries in merges, amortised.
//!
//! *Deviations.* All records of equal value are kept. The lists hold values and rows, so there is no second trip.
//! Updates are the paper's outline made concrete: batches are instances, the client merges them.
//!
//! *Authenticity*, which the paper leaves out. A part of a list that was altered, exchanged or left out is an error, and so is a
//! list that was denied: the first cell of each names the values next to its node, so that what was found of a range is seen to be
//! all, and that nothing was found is shown by the lists beside the range, whose first cells are asked for then.
//! The lengths of the buffer and of the whole domain the client knows.

mod build;
pub mod cover;
mod fences;
mod fetch;
mod instance;
mod record;
mod state;
#[cfg(test)]
mod tests;
mod update;

pub use cover::{Cover, Node};

use crate::arx_range::RangeEntry;
use crate::error::IndexError;
use crate::ore::domain::{key_plaintext, plaintext_key};
use crate::traits::RangeIndex;
use arras_keys::Key;
use arras_primitives::prg::Prg;
use arras_protocol::Order;
use arras_protocol::logarithmic_brc::cjjjkrs::{SEAL_BYTES, Shape};
use arras_protocol::logarithmic_brc::cjjkrs::{HEADER_BYTES, LABEL_BYTES};
use arras_protocol::logarithmic_brc::{InstanceId, LogarithmicBrc as Protocol};
use arras_protocol::ore::Width;
use arras_protocol::{Channel, IndexId, RowId};
use instance::InstanceKeys;
use record::{Operation, Record, newest, record_bytes};
use state::State;
use std::sync::{Arc, Mutex, PoisonError};

/// How lists are packed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Packing {
    /// A record a cell: a snapshot shows the number of records and nothing else, and every result is a look-up.
    Basic,
    /// Cells of two records, and blocks of a page for long lists. The numbers of cells and blocks say something of
    /// how long lists are; see [`Padding`].
    #[default]
    Packed,
}

/// How the numbers of cells and blocks are padded.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Padding {
    /// Not at all.
    None,
    /// To the next number of four significant bits: at most an eighth more.
    #[default]
    Rounded,
    /// To the most that as many records can need: a snapshot shows their number and nothing else. With packed
    /// lists several times as large.
    Worst,
}

/// How an index is built and searched.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Parameters {
    /// Width of keys.
    pub width: Width,
    /// Bits of the greatest value: the height of the tree. At most the width's.
    pub domain_bits: u8,
    /// Largest bin and block, in bytes.
    pub page_bytes: u32,
    /// Which cover a search sends.
    pub cover: Cover,
    /// How lists are packed.
    pub packing: Packing,
    /// How sizes are padded.
    pub padding: Padding,
}

impl Parameters {
    /// The whole domain of a width, pages of 4 KiB, best covers, packed lists, rounded sizes.
    #[must_use]
    pub fn new(width: Width) -> Self {
        Self {
            width,
            domain_bits: u8::try_from(8 * width.bytes()).unwrap_or(u8::MAX),
            page_bytes: 4096,
            cover: Cover::default(),
            packing: Packing::default(),
            padding: Padding::default(),
        }
    }

    /// Bytes of the smallest page for keys of a width: a cell of two records.
    #[must_use]
    pub fn page_bytes_min(width: Width) -> usize {
        let fences = 2 * width.bytes();
        2 * record_bytes(width) + fences + SEAL_BYTES + LABEL_BYTES + HEADER_BYTES
    }

    /// The shape of an instance of many lists.
    fn shape(&self) -> Option<Shape> {
        let fences = u32::try_from(fences::fence_bytes(self.domain_bits)).ok()?;
        self.shape_of_cells()?.fenced(self.page_bytes, fences)
    }

    /// The shape of an instance of one list, which needs no fences.
    fn shape_of_cells(&self) -> Option<Shape> {
        let record_bytes = u32::try_from(record_bytes(self.width)).ok()?;
        match self.packing {
            Packing::Basic => Shape::basic(self.page_bytes, record_bytes),
            Packing::Packed => Shape::packed(self.page_bytes, record_bytes),
        }
    }

    /// The greatest value.
    fn greatest(&self) -> u64 {
        u64::MAX.checked_shr(64 - u32::from(self.domain_bits)).unwrap_or(0)
    }

    /// Most records of an instance that has one list only: those of a page.
    fn buffer_records(&self) -> usize {
        self.page_bytes as usize / record_bytes(self.width)
    }
}

/// The client half: knows which instances there are, and what keys each has.
pub struct LogarithmicBrc<C> {
    index: IndexId,
    parameters: Parameters,
    channel: Arc<C>,
    /// Keys that those of instances are derived from.
    roots: [Key; 2],
    prg: Mutex<Prg>,
    /// Held by the one who writes: instances of which it is not known whether the server has completed them.
    writing: tokio::sync::Mutex<Vec<InstanceId>>,
    /// Read by searches as long as they last, so that what they read is not dropped.
    state: tokio::sync::RwLock<State>,
}

impl<C> std::fmt::Debug for LogarithmicBrc<C> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "LogarithmicBrc({:?})", self.index)
    }
}

impl<C: Channel<Protocol>> LogarithmicBrc<C> {
    /// An empty index under `key`, which is that of the index. What is random in it comes from `prg`: the names of instances
    /// (which must never come again under one key) and what hides sizes and order.
    ///
    /// # Errors
    /// [`IndexError::Caller`] if the parameters make no sense.
    pub fn new(
        index: IndexId,
        parameters: Parameters,
        key: &Key,
        channel: Arc<C>,
        prg: Prg,
    ) -> Result<Self, IndexError> {
        let width_bits = 8 * parameters.width.bytes();
        if parameters.domain_bits == 0 || usize::from(parameters.domain_bits) > width_bits {
            return Err(IndexError::Caller("the domain has no bits, or more than its width"));
        }
        if parameters.shape().is_none() || parameters.buffer_records() < 2 {
            return Err(IndexError::Caller("a page is too small for two records, or above 1 MiB"));
        }
        Ok(Self {
            index,
            parameters,
            channel,
            roots: InstanceKeys::roots(key),
            prg: Mutex::new(prg),
            writing: tokio::sync::Mutex::new(Vec::new()),
            state: tokio::sync::RwLock::new(State::default()),
        })
    }

    /// An index as it was when [`LogarithmicBrc::state`] was taken. If a write was under way since, of which the state does not
    /// tell whether the server has completed it, the next write is refused until [`LogarithmicBrc::collect`] has dropped it.
    ///
    /// # Errors
    /// [`IndexError::Caller`] as with [`LogarithmicBrc::new`]; [`IndexError::State`] if `state` was not made by it.
    pub fn with_state(
        index: IndexId,
        parameters: Parameters,
        key: &Key,
        channel: Arc<C>,
        prg: Prg,
        state: &[u8],
    ) -> Result<Self, IndexError> {
        let mut restored = Self::new(index, parameters, key, channel, prg)?;
        let state = State::decode(state, &restored.roots)
            .ok_or_else(|| IndexError::State("not the state of a Logarithmic-BRC index".into()))?;
        restored.state = tokio::sync::RwLock::new(state);
        Ok(restored)
    }

    /// What the client must keep: names and sizes of the instances, 30 bytes each or so. An operation is durable once the
    /// state after it is; the server keeps the instances of the state before until the next write.
    pub async fn state(&self) -> Vec<u8> {
        self.state.read().await.encode()
    }

    /// Number of instances.
    pub async fn instance_count(&self) -> usize {
        self.state.read().await.instances.len()
    }

    fn with_prg<T>(&self, draw: impl FnOnce(&mut Prg) -> T) -> T {
        draw(&mut self.prg.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn records(&self, entries: Vec<RangeEntry>, operation: Operation) -> Result<Vec<Record>, IndexError> {
        entries
            .into_iter()
            .map(|entry| {
                let value = key_plaintext(self.parameters.width, &entry.value)
                    .filter(|value| *value <= self.parameters.greatest())
                    .ok_or(IndexError::Caller("a key is not of the index's domain"))?;
                Ok(Record { value, row: entry.row, operation })
            })
            .collect()
    }

    /// A bound of a range as a value.
    fn bound(&self, bytes: &[u8]) -> Result<u64, IndexError> {
        key_plaintext(self.parameters.width, bytes)
            .ok_or(IndexError::Caller("a bound is not of the width of keys"))
    }
}

impl<C: Channel<Protocol>> RangeIndex for LogarithmicBrc<C> {
    async fn insert(&self, entries: Vec<RangeEntry>) -> Result<(), IndexError> {
        self.update(self.records(entries, Operation::Insert)?).await
    }

    async fn remove(&self, entries: Vec<RangeEntry>) -> Result<(), IndexError> {
        self.update(self.records(entries, Operation::Remove)?).await
    }

    async fn search(
        &self,
        lower: Vec<u8>,
        upper: Vec<u8>,
        order: Order,
        limit: Option<usize>,
    ) -> Result<Vec<(Vec<u8>, RowId)>, IndexError> {
        let (lower, upper) = (self.bound(&lower)?, self.bound(&upper)?.min(self.parameters.greatest()));
        if lower > upper || limit == Some(0) {
            return Ok(Vec::new());
        }
        let records = self.read_range(lower, upper).await?;
        let width = self.parameters.width;
        let found = newest(records).into_iter().filter(|record| {
            record.operation == Operation::Insert && (lower..=upper).contains(&record.value)
        });
        let found = found.map(|record| (plaintext_key(width, record.value), record.row));
        let limit = limit.unwrap_or(usize::MAX);
        Ok(match order {
            Order::Ascending => found.take(limit).collect(),
            Order::Descending => found.rev().take(limit).collect(),
        })
    }
}
