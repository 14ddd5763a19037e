//! All entries of some keywords, in one random order over all of them.

use crate::bitmap::Bitmap;
use crate::keys::EntryKeys;
use crate::table::Counted;
use arras_primitives::Block;
use arras_primitives::prg::Prg;
use arras_primitives::uniform::uniform;
use arras_protocol::iee::{AskId, BATCH_MAX, SEALED_BYTES};
use arras_schemes::bisen::message::Tampering;
use arras_schemes::bisen::update::{METADATA_BYTES, Metadata, Operation};

/// Questions under way at once: one is answered while the other is worked on.
const FLIGHTS_MAX: usize = 2;

/// Bytes of a question and its answer.
const FLIGHT_BYTES: usize = BATCH_MAX * (16 + 4 + SEALED_BYTES + 32);

/// A keyword as it was when the fetch began.
pub(crate) struct Word {
    pub(crate) stem: Block,
    pub(crate) count: u32,
    /// How many of them only what is spilled says.
    pub(crate) spilled: u32,
    /// Entries of the words before it.
    first: u32,
}

/// A word's entries under one epoch.
struct Run {
    stem: Block,
    epoch: u32,
    /// Entries of the runs before it.
    first: u32,
}

struct Flight {
    ask: AskId,
    labels: Vec<Block>,
    /// Which entry each is.
    entries: Vec<u32>,
}

/// Entries on their way.
pub(crate) struct Fetch {
    words: Vec<Word>,
    runs: Vec<Run>,
    /// Entries in the order in which they are asked for; what is behind `drawn` is not decided yet.
    order: Vec<u32>,
    drawn: usize,
    arrived: usize,
    flights: Vec<Flight>,
    /// Operation and document number of each entry, by word and counter.
    heads: Vec<u32>,
    metadata: Vec<[u8; METADATA_BYTES]>,
}

impl Fetch {
    /// Bytes that a fetch takes.
    pub(crate) fn bytes_for(entries: u64, with_metadata: bool) -> usize {
        let each = 4 + 4 + if with_metadata { METADATA_BYTES } else { 0 };
        usize::try_from(entries)
            .unwrap_or(usize::MAX)
            .saturating_mul(each)
            .saturating_add(FLIGHTS_MAX * FLIGHT_BYTES)
    }

    /// Begins; the keywords have fewer than 2^32 entries together.
    pub(crate) fn new(keywords: impl Iterator<Item = Counted>, with_metadata: bool) -> Self {
        let (mut words, mut runs, mut total) = (Vec::new(), Vec::new(), 0);
        for Counted { stem, runs: counts, spilled } in keywords {
            let first = total;
            for (epoch, count) in counts {
                runs.push(Run { stem, epoch, first: total });
                total += count;
            }
            words.push(Word { stem, count: total - first, spilled, first });
        }
        let total = total as usize;
        let metadata = if with_metadata { vec![[0; METADATA_BYTES]; total] } else { Vec::new() };
        let order = (0..total as u32).collect();
        Self {
            words,
            runs,
            order,
            drawn: 0,
            arrived: 0,
            flights: Vec::new(),
            heads: vec![0; total],
            metadata,
        }
    }

    pub(crate) fn is_done(&self) -> bool {
        self.arrived == self.order.len()
    }

    /// The same entries once more, without what was fetched: for their removal.
    pub(crate) fn again(self) -> Self {
        let (heads, metadata) = (Vec::new(), Vec::new());
        Self { drawn: 0, arrived: 0, flights: Vec::new(), heads, metadata, ..self }
    }

    /// How many entries there are.
    pub(crate) fn entries(&self) -> usize {
        self.order.len()
    }

    pub(crate) fn words(&self) -> &[Word] {
        &self.words
    }

    /// The labels of the next question, if one may be asked now.
    pub(crate) fn next(&mut self, keys: &EntryKeys, ask: AskId, prg: &mut Prg) -> Option<Vec<u8>> {
        let until = self.order.len().min(self.drawn + BATCH_MAX);
        if self.drawn == until || self.flights.len() == FLIGHTS_MAX {
            return None;
        }
        // Fisher and Yates, as far as it is needed.
        for at in self.drawn..until {
            let last = self.order.len() - 1 - at;
            self.order.swap(at, at + uniform(last as u128, prg) as usize);
        }
        let entries = self.order[self.drawn..until].to_vec();
        let place = |entry: &u32| {
            // An empty run begins where the next one does: the last of those is the entry's.
            let run = &self.runs[self.runs.partition_point(|run| run.first <= *entry) - 1];
            EntryKeys::place(&run.stem, run.epoch, entry - run.first)
        };
        let mut labels: Vec<Block> = entries.iter().map(place).collect();
        keys.labels(&mut labels);
        let question = labels.as_flattened().to_vec();
        self.flights.push(Flight { ask, labels, entries });
        self.drawn = until;
        Some(question)
    }

    /// Takes an answer.
    pub(crate) fn arrive(&mut self, keys: &EntryKeys, ask: AskId, answer: &[u8]) -> Result<(), Tampering> {
        let Some(at) = self.flights.iter().position(|flight| flight.ask == ask) else { return Ok(()) };
        let flight = self.flights.swap_remove(at);
        let (sealed, rest) = answer.as_chunks::<SEALED_BYTES>();
        if sealed.len() != flight.labels.len() || !rest.is_empty() {
            return Err(Tampering::Length);
        }
        let halves = |entry: &[u8; SEALED_BYTES]| {
            let (halves, _) = entry.as_chunks::<16>();
            (halves[0], halves[1])
        };
        let (mut blocks, tags): (Vec<Block>, Vec<Block>) = sealed.iter().map(halves).unzip();
        keys.open(&flight.labels, &mut blocks, &tags).map_err(|wrong| {
            if sealed[wrong] == [0; SEALED_BYTES] { Tampering::Missing } else { Tampering::Altered }
        })?;
        for (entry, block) in flight.entries.iter().zip(&blocks) {
            let entry = *entry as usize;
            let (head, metadata) = block.split_at(4);
            self.heads[entry] = u32::from_le_bytes([head[0], head[1], head[2], head[3]]);
            if let Some(place) = self.metadata.get_mut(entry) {
                place.copy_from_slice(metadata);
            }
        }
        self.arrived += blocks.len();
        Ok(())
    }

    /// A question was answered that wants no entries: a removal.
    pub(crate) fn removed(&mut self, ask: AskId) {
        if let Some(at) = self.flights.iter().position(|flight| flight.ask == ask) {
            self.arrived += self.flights.swap_remove(at).labels.len();
        }
    }

    fn range(&self, word: usize) -> std::ops::Range<usize> {
        let Some(word) = self.words.get(word) else { return 0..0 };
        word.first as usize..word.first as usize + word.count as usize
    }

    /// Entries of a word, oldest first.
    pub(crate) fn oldest_first(&self, word: usize) -> impl Iterator<Item = (Operation, u32)> {
        self.heads[self.range(word)].iter().filter_map(|head| operation(*head))
    }

    /// Entries of a word with their metadata, newest first.
    pub(crate) fn newest_first(&self, word: usize) -> impl Iterator<Item = (Operation, u32, Metadata)> {
        self.range(word).rev().filter_map(|at| {
            let (operation, number) = operation(*self.heads.get(at)?)?;
            Some((operation, number, Metadata(*self.metadata.get(at)?)))
        })
    }

    /// The documents, of numbers below a bound, whose last operation on a word is an addition, with its metadata.
    pub(crate) fn current(&self, word: usize, bound: usize) -> impl Iterator<Item = (u32, Metadata)> {
        let mut closed = Bitmap::empty(bound);
        let last = move |(operation, number, metadata): (Operation, u32, Metadata)| {
            let is_last = operation != Operation::Continue && closed.enter(number);
            (is_last && operation == Operation::Add).then_some((number, metadata))
        };
        self.newest_first(word).filter_map(last)
    }
}

fn operation(head: u32) -> Option<(Operation, u32)> {
    Some((Operation::of_code((head >> 30) as u8)?, head & ((1 << 30) - 1)))
}
