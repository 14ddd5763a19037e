//! Sorting more documents than fit memory: sorted runs are spilled and merged.
//!
//! Nothing here takes longer than a step: documents are sorted a chunk at a time and merged as they are asked for, and what moves
//! many of them is done step by step ([`Sorter::advance`], [`Sorted::open`]), between which others may have the processor.

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
/// Documents that are sorted at a time; chunks of so many are merged.
const CHUNK: usize = 512;
/// Most documents that a step moves, and most runs that it opens.
const STEP: usize = 128;
/// Bytes after which it ends, too.
const STEP_BYTES: usize = 256 * 1024;

/// A document, what it is sorted by, and its place among equals.
struct Keyed {
    values: Vec<Bson>,
    place: u64,
    bytes: usize,
    document: Document,
}

fn compare(sort: &Sort, left: &Keyed, right: &Keyed) -> Ordering {
    sort.compare_values(&left.values, &right.values)
        .then_with(|| sort.compare_places(left.place, right.place))
}

/// Takes documents in any order.
pub struct Sorter {
    sort: Arc<Sort>,
    /// Documents after which nothing is wanted.
    kept: Option<usize>,
    workspace: Workspace,
    /// The last ones, in no order.
    chunk: Vec<Keyed>,
    /// Those before, each list in order.
    chunks: Vec<VecDeque<Keyed>>,
    held: usize,
    held_bytes: usize,
    share: Held,
    runs: Vec<Arc<dyn Run>>,
    /// Values and place of the last of as many as are wanted: who is behind it is not.
    last: Option<(Vec<Bson>, u64)>,
    due: Option<Due>,
}

/// What is to be done before there is room for more.
enum Due {
    /// What is beyond those wanted is found, by finding the others.
    Cut { from: Merge, first: VecDeque<Keyed> },
    /// That is let go; if that is little, so is the rest, or each further document would cost as much.
    LetGo { sources: Vec<Source>, is_little: bool },
    /// What is held, or what many runs have, becomes a run.
    Write { from: Merge, run: Box<dyn RunWriter> },
}

impl Sorter {
    /// A sorter of which at most the first `kept` documents are wanted.
    #[must_use]
    pub fn new(sort: Sort, kept: Option<usize>, workspace: Workspace) -> Self {
        let share = Held::new(&workspace);
        Self {
            sort: Arc::new(sort),
            kept,
            workspace,
            chunk: Vec::new(),
            chunks: Vec::new(),
            held: 0,
            held_bytes: 0,
            share,
            runs: Vec::new(),
            last: None,
            due: None,
        }
    }

    /// Adds a document; of equal ones that of the lower place comes first. True if something is to be done before the next
    /// ([`Self::advance`]); else the next does it.
    ///
    /// # Errors
    /// 292 if it does not fit and nothing may be spilled; 14031 if it cannot be; 2 as [`Sort::values`].
    pub fn push(&mut self, document: Document, place: u64) -> Result<bool, QueryError> {
        while self.advance()? {}
        let bytes = held_bytes(&document)?;
        let values = self.sort.values(&document)?;
        if self.last.as_ref().is_some_and(|last| self.is_behind((&values, place), last)) {
            return Ok(false);
        }
        self.held += 1;
        self.held_bytes = self.held_bytes.saturating_add(bytes);
        self.chunk.push(Keyed { values, place, bytes, document });
        if self.chunk.len() >= CHUNK {
            self.close_chunk();
        }
        let is_full = !self.share.fits(self.held_bytes);
        let kept = self.kept.unwrap_or(usize::MAX);
        let beyond = self.held >= kept.saturating_mul(2).saturating_add(SLACK);
        if beyond || (is_full && self.held > kept) {
            self.due = Some(Due::Cut { from: self.merge_held(), first: VecDeque::new() });
        } else if is_full {
            self.spill()?;
        }
        Ok(self.due.is_some())
    }

    fn is_behind(&self, (values, place): (&[Bson], u64), last: &(Vec<Bson>, u64)) -> bool {
        let ordering = self.sort.compare_values(values, &last.0);
        ordering.then_with(|| self.sort.compare_places(place, last.1)).is_gt()
    }

    fn close_chunk(&mut self) {
        let (sort, mut chunk) = (&self.sort, std::mem::take(&mut self.chunk));
        chunk.sort_by(|left, right| compare(sort, left, right));
        if !chunk.is_empty() {
            self.chunks.push(chunk.into());
        }
    }

    /// All that is held.
    fn merge_held(&mut self) -> Merge {
        self.close_chunk();
        Merge::new(&self.sort, self.chunks.drain(..).map(Source::Held).collect())
    }

    /// Begins to write what is held as a run.
    fn spill(&mut self) -> Result<(), QueryError> {
        let run = self.workspace.run("a sort")?;
        self.due = Some(Due::Write { from: self.merge_held(), run });
        Ok(())
    }

    /// Does a step of what is to be done; true if there is more.
    ///
    /// # Errors
    /// As [`Self::push`].
    pub fn advance(&mut self) -> Result<bool, QueryError> {
        let Some(due) = self.due.take() else { return Ok(false) };
        match due {
            Due::Cut { mut from, mut first } => {
                let kept = self.kept.unwrap_or(usize::MAX);
                let most = kept.saturating_sub(first.len());
                let ended = from.step(most, &mut |keyed| {
                    first.push_back(keyed);
                    Ok(())
                })?;
                if ended || first.len() >= kept {
                    self.due = Some(self.cut(first, from.sources));
                } else {
                    self.due = Some(Due::Cut { from, first });
                }
            }
            Due::LetGo { mut sources, is_little } => {
                if sources.pop().is_some() {
                    self.due = Some(Due::LetGo { sources, is_little });
                } else if !self.share.fits(self.held_bytes) || (is_little && self.workspace.spill.is_some()) {
                    self.spill()?;
                }
            }
            Due::Write { mut from, mut run } => {
                if from.step(usize::MAX, &mut |keyed| write(&mut *run, &keyed))? {
                    self.written(run)?;
                } else {
                    self.due = Some(Due::Write { from, run });
                }
            }
        }
        Ok(self.due.is_some())
    }

    /// Keeps the first documents of those that were held.
    fn cut(&mut self, first: VecDeque<Keyed>, sources: Vec<Source>) -> Due {
        if let Some(last) = first.back().filter(|_| self.kept == Some(first.len())) {
            self.last = Some((last.values.clone(), last.place));
        }
        let is_little = first.len() > self.held - self.held / 4;
        self.held = first.len();
        self.held_bytes = first.iter().map(|keyed| keyed.bytes).sum();
        self.chunks.push(first);
        Due::LetGo { sources, is_little }
    }

    /// Takes in a run that is whole. When there are many they become one.
    fn written(&mut self, run: Box<dyn RunWriter>) -> Result<(), QueryError> {
        (self.held, self.held_bytes) = (0, 0);
        self.share.let_go();
        self.runs.push(run.finish()?);
        if self.runs.len() >= RUNS_MAX {
            let runs = self.runs.drain(..).map(|run| Source::Run(run.reader())).collect();
            let run = self.workspace.run("a sort")?;
            self.due = Some(Due::Write { from: Merge::new(&self.sort, runs), run });
        }
        Ok(())
    }

    /// Ends the adding.
    ///
    /// # Errors
    /// As [`Self::push`], for what is still to be done.
    pub fn finish(mut self) -> Result<Sorted, QueryError> {
        while self.advance()? {}
        let mut merge = self.merge_held();
        merge.sources.extend(self.runs.drain(..).map(|run| Source::Run(run.reader())));
        let (left, held_bytes) = (self.kept.unwrap_or(usize::MAX), self.held_bytes);
        Ok(Sorted { workspace: self.workspace, left, held_bytes, share: self.share, merge, going: None })
    }
}

/// The documents in order.
pub struct Sorted {
    workspace: Workspace,
    left: usize,
    held_bytes: usize,
    /// For those held.
    share: Held,
    merge: Merge,
    going: Option<Going>,
}

impl Sorted {
    /// Opens some of what is to be merged; true if there is more of it. Who asks for the first document does the rest.
    ///
    /// # Errors
    /// 14031 if it cannot be read back.
    pub fn open(&mut self) -> Result<bool, QueryError> {
        self.merge.open()
    }

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
        while self.going.is_some() && self.let_go()? {}
        while self.merge.open()? {}
        let Some((keyed, was_held)) = self.merge.next()? else { return Ok(None) };
        if was_held {
            self.held_bytes = self.held_bytes.saturating_sub(keyed.bytes);
        }
        Ok(Some(keyed.document))
    }

    /// Whether some of it was spilled.
    #[must_use]
    pub fn is_on_disk(&self) -> bool {
        self.going.is_some() || self.merge.sources.iter().any(|source| matches!(source, Source::Run(_)))
    }

    /// Bytes of the documents held in memory, but for one of each run.
    #[must_use]
    pub fn held_bytes(&self) -> usize {
        self.held_bytes
    }

    /// Does a step of spilling what is held in memory, for a time in which nobody asks for more; true if there is more of it.
    /// Without somewhere to spill to it stays.
    ///
    /// # Errors
    /// 14031 if it cannot be spilled.
    pub fn let_go(&mut self) -> Result<bool, QueryError> {
        let mut going = match self.going.take() {
            Some(going) => going,
            None if self.held_bytes == 0 || self.workspace.spill.is_none() => return Ok(false),
            None => {
                let run = self.workspace.run("a sort")?;
                Going { from: self.merge.take_held(), left: self.left, run }
            }
        };
        let Going { from, left, run } = &mut going;
        let most = *left;
        let ended = from.step(most, &mut |keyed| {
            *left = left.saturating_sub(1);
            write(&mut **run, &keyed)
        })?;
        if !ended && going.left > 0 {
            self.going = Some(going);
            return Ok(true);
        }
        self.held_bytes = 0;
        self.share.let_go();
        self.merge.sources.push(Source::Run(going.run.finish()?.reader()));
        Ok(false)
    }
}

/// What was held in memory, on its way to a run.
struct Going {
    from: Merge,
    /// Documents that may still be wanted.
    left: usize,
    run: Box<dyn RunWriter>,
}

/// Documents of one order.
enum Source {
    Held(VecDeque<Keyed>),
    Run(Box<dyn RunReader>),
}

impl Source {
    fn next(&mut self, sort: &Sort) -> Result<Option<Keyed>, QueryError> {
        match self {
            Self::Held(held) => Ok(held.pop_front()),
            Self::Run(run) => run.next()?.map(|record| read(sort, &record)).transpose(),
        }
    }
}

/// Several sources as one.
struct Merge {
    sort: Arc<Sort>,
    sources: Vec<Source>,
    /// Of those before, the next document of each is among the heads.
    opened: usize,
    heads: BinaryHeap<Head>,
}

impl Merge {
    fn new(sort: &Arc<Sort>, sources: Vec<Source>) -> Self {
        Self { sort: Arc::clone(sort), sources, opened: 0, heads: BinaryHeap::new() }
    }

    /// Opens some of the sources; true if there are more.
    fn open(&mut self) -> Result<bool, QueryError> {
        let most = self.opened.saturating_add(STEP).min(self.sources.len());
        while self.opened < most {
            self.refill(self.opened)?;
            self.opened += 1;
        }
        Ok(self.opened < self.sources.len())
    }

    /// The next document, and whether it was held in memory; the sources are open.
    fn next(&mut self) -> Result<Option<(Keyed, bool)>, QueryError> {
        let Some(head) = self.heads.pop() else { return Ok(None) };
        self.refill(head.source)?;
        let was_held = matches!(self.sources.get(head.source), Some(Source::Held(_)));
        Ok(Some((head.keyed, was_held)))
    }

    fn refill(&mut self, source: usize) -> Result<(), QueryError> {
        let next = self.sources.get_mut(source).map_or(Ok(None), |from| from.next(&self.sort))?;
        self.heads.extend(next.map(|keyed| Head { sort: Arc::clone(&self.sort), source, keyed }));
        Ok(())
    }

    /// Hands on at most so many documents, and no more than a step has; true at their end.
    fn step(
        &mut self,
        most: usize,
        each: &mut impl FnMut(Keyed) -> Result<(), QueryError>,
    ) -> Result<bool, QueryError> {
        if self.open()? {
            return Ok(false);
        }
        let mut bytes = 0;
        for _ in 0..most.min(STEP) {
            let Some((keyed, _)) = self.next()? else { return Ok(true) };
            bytes += keyed.bytes;
            each(keyed)?;
            if bytes >= STEP_BYTES {
                break;
            }
        }
        Ok(false)
    }

    /// Takes out what is held in memory.
    fn take_held(&mut self) -> Self {
        let is_held = |source: &Source| matches!(source, Source::Held(_));
        let (mut of_held, mut of_runs) = (BinaryHeap::new(), BinaryHeap::new());
        for head in self.heads.drain() {
            let of_memory = self.sources.get(head.source).is_some_and(is_held);
            if of_memory { of_held.push(head) } else { of_runs.push(head) }
        }
        self.heads = of_runs;
        let sources = self.sources.iter_mut().map(|source| match source {
            Source::Held(held) => Source::Held(std::mem::take(held)),
            Source::Run(_) => Source::Held(VecDeque::new()),
        });
        let sources = sources.collect();
        Self { sort: Arc::clone(&self.sort), sources, opened: self.opened, heads: of_held }
    }
}

/// The next document of a source; the greatest is the first in order.
struct Head {
    sort: Arc<Sort>,
    source: usize,
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
