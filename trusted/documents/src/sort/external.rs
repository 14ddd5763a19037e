//! Sorting more documents than fit memory: sorted runs are spilled and merged.

use super::Sort;
use crate::QueryError;
use crate::spill::{Held, Run, RunReader, RunWriter, Workspace, decode, encode, held_bytes};
use bson::{Bson, Document};
use std::cmp::Ordering;
use std::collections::{BinaryHeap, VecDeque};
use std::sync::Arc;

/// Runs merged at a time: each has a block in memory.
const RUNS_MAX: usize = 128;
/// Documents beyond a limit that are gathered before the rest is cut off.
const SLACK: usize = 1024;

/// A document, what it is sorted by, and its place among equals.
struct Keyed {
    values: Vec<Bson>,
    place: u64,
    bytes: usize,
    document: Document,
}

fn compare(sort: &Sort, left: &Keyed, right: &Keyed) -> Ordering {
    sort.compare_values(&left.values, &right.values).then_with(|| left.place.cmp(&right.place))
}

/// Takes documents in any order.
pub struct Sorter {
    sort: Arc<Sort>,
    /// Documents after which nothing is wanted.
    kept: Option<usize>,
    workspace: Workspace,
    held: Vec<Keyed>,
    held_bytes: usize,
    share: Held,
    runs: Vec<Arc<dyn Run>>,
}

impl Sorter {
    /// A sorter of which at most the first `kept` documents are wanted.
    #[must_use]
    pub fn new(sort: Sort, kept: Option<usize>, workspace: Workspace) -> Self {
        let (share, held, runs) = (Held::new(&workspace), Vec::new(), Vec::new());
        Self { sort: Arc::new(sort), kept, workspace, held, held_bytes: 0, share, runs }
    }

    /// Adds a document; of equal ones that of the lower place comes first.
    ///
    /// # Errors
    /// 292 if it does not fit and nothing may be spilled; 14031 if it cannot be.
    pub fn push(&mut self, document: Document, place: u64) -> Result<(), QueryError> {
        let bytes = held_bytes(&document)?;
        self.held_bytes = self.held_bytes.saturating_add(bytes);
        self.held.push(Keyed { values: self.sort.values(&document)?, place, bytes, document });
        let mut full = !self.share.fits(self.held_bytes);
        if let Some(kept) = self.kept
            && (full || self.held.len() >= kept.saturating_mul(2).saturating_add(SLACK))
        {
            self.sort_held();
            self.held.truncate(kept);
            self.held_bytes = self.held.iter().map(|keyed| keyed.bytes).sum();
            full = !self.share.fits(self.held_bytes);
        }
        if full { self.spill() } else { Ok(()) }
    }

    fn sort_held(&mut self) {
        let sort = &self.sort;
        self.held.sort_by(|left, right| compare(sort, left, right));
    }

    /// Writes what is held as a run.
    fn spill(&mut self) -> Result<(), QueryError> {
        let mut writer = self.workspace.run("a sort")?;
        self.sort_held();
        for keyed in self.held.drain(..) {
            write(&mut *writer, &keyed)?;
        }
        self.held_bytes = 0;
        self.share.let_go();
        self.runs.push(writer.finish()?);
        if self.runs.len() >= RUNS_MAX {
            let mut merged = self.merge(VecDeque::new())?;
            let mut writer = self.workspace.run("a sort")?;
            while let Some(keyed) = merged.next_keyed()? {
                write(&mut *writer, &keyed)?;
            }
            self.runs.push(writer.finish()?);
        }
        Ok(())
    }

    fn merge(&mut self, held: VecDeque<Keyed>) -> Result<Sorted, QueryError> {
        let mut sorted = Sorted {
            sort: Arc::clone(&self.sort),
            workspace: self.workspace.clone(),
            left: self.kept.unwrap_or(usize::MAX),
            held,
            share: Held::new(&self.workspace),
            heads: BinaryHeap::new(),
            runs: self.runs.drain(..).map(Run::reader).collect(),
        };
        for run in 0..sorted.runs.len() {
            sorted.refill(run)?;
        }
        Ok(sorted)
    }

    /// Ends the adding.
    ///
    /// # Errors
    /// 14031 if what was spilled cannot be read back.
    pub fn finish(mut self) -> Result<Sorted, QueryError> {
        self.sort_held();
        let held = std::mem::take(&mut self.held).into();
        let mut sorted = self.merge(held)?;
        std::mem::swap(&mut sorted.share, &mut self.share);
        Ok(sorted)
    }
}

/// The documents in order.
pub struct Sorted {
    sort: Arc<Sort>,
    workspace: Workspace,
    left: usize,
    held: VecDeque<Keyed>,
    /// For those held.
    share: Held,
    heads: BinaryHeap<Head>,
    runs: Vec<Box<dyn RunReader>>,
}

/// The next document of a run; the greatest is the first in order.
struct Head {
    sort: Arc<Sort>,
    run: usize,
    keyed: Keyed,
}

impl Ord for Head {
    fn cmp(&self, other: &Self) -> Ordering {
        compare(&self.sort, &other.keyed, &self.keyed)
    }
}

impl PartialOrd for Head {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Head {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for Head {}

impl Sorted {
    /// The next document; none at the end.
    ///
    /// # Errors
    /// 14031 if it cannot be read back.
    #[allow(clippy::should_implement_trait, reason = "an iterator would have to go on after an error")]
    pub fn next(&mut self) -> Result<Option<Document>, QueryError> {
        if self.left == 0 {
            return Ok(None);
        }
        self.left -= 1;
        Ok(self.next_keyed()?.map(|keyed| keyed.document))
    }

    /// Bytes of the documents held in memory.
    #[must_use]
    pub fn held_bytes(&self) -> usize {
        self.held.iter().map(|keyed| keyed.bytes).sum()
    }

    /// Spills what is held in memory, for a time in which nobody asks for more. Without somewhere to spill to it stays.
    ///
    /// # Errors
    /// 14031 if it cannot be spilled.
    pub fn let_go(&mut self) -> Result<(), QueryError> {
        if self.held.is_empty() || self.workspace.spill.is_none() {
            return Ok(());
        }
        let mut writer = self.workspace.run("a sort")?;
        for keyed in self.held.iter().take(self.left) {
            write(&mut *writer, keyed)?;
        }
        self.held = VecDeque::new();
        self.share.let_go();
        self.runs.push(writer.finish()?.reader());
        self.refill(self.runs.len() - 1)
    }

    fn next_keyed(&mut self) -> Result<Option<Keyed>, QueryError> {
        let from_run = match (self.held.front(), self.heads.peek()) {
            (_, None) => false,
            (None, Some(_)) => true,
            (Some(held), Some(head)) => compare(&self.sort, &head.keyed, held).is_lt(),
        };
        if !from_run {
            return Ok(self.held.pop_front());
        }
        let Some(head) = self.heads.pop() else {
            return Ok(None);
        };
        self.refill(head.run)?;
        Ok(Some(head.keyed))
    }

    fn refill(&mut self, run: usize) -> Result<(), QueryError> {
        let record = self.runs.get_mut(run).map_or(Ok(None), |reader| reader.next())?;
        if let Some(record) = record {
            let keyed = read(&self.sort, &record)?;
            self.heads.push(Head { sort: Arc::clone(&self.sort), run, keyed });
        }
        Ok(())
    }
}

fn write(writer: &mut dyn RunWriter, keyed: &Keyed) -> Result<(), QueryError> {
    let mut record = keyed.place.to_le_bytes().to_vec();
    record.extend(encode(&keyed.document)?);
    writer.append(&record)
}

fn read(sort: &Sort, record: &[u8]) -> Result<Keyed, QueryError> {
    let (place, document) = record
        .split_first_chunk()
        .ok_or_else(|| QueryError::invalid_bson("a spilled record is too short"))?;
    let bytes = document.len();
    let document = decode(document)?;
    Ok(Keyed { values: sort.values(&document)?, place: u64::from_le_bytes(*place), bytes, document })
}
