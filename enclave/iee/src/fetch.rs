//! All entries of some keywords, in one random order over all of them.

use crate::collection::EntryKeys;
use crate::documents::Set;
use crate::server::Enclave;
use crate::table::Counted;
use crate::tasks::{FLIGHTS_MAX, in_flights};
use arras_primitives::Block;
use arras_primitives::prg::Prg;
use arras_primitives::uniform::uniform;
use arras_protocol::Blob;
use arras_protocol::iee::{BATCH_MAX, Outgoing, SEALED_BYTES};
use arras_schemes::bisen::message::{Refused, Tampering};
use arras_schemes::bisen::update::{Metadata, Operation};

/// Bytes of a question and its answer.
const FLIGHT_BYTES: usize = BATCH_MAX * (16 + 4 + SEALED_BYTES + 32);

/// Bytes that are kept of an entry's block: all, or operation and document number.
const fn kept_of_each(with_metadata: bool) -> usize {
    if with_metadata { size_of::<Block>() } else { size_of::<u32>() }
}

/// A keyword as it was when the fetch began.
pub(crate) struct Word {
    pub(crate) stem: Block,
    pub(crate) count: u32,
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

/// What an entry says of a document.
pub(crate) type Entry = (Operation, u32, Metadata);

/// A question: which entries, and their labels.
pub(crate) struct Question {
    entries: Vec<u32>,
    pub(crate) labels: Vec<Block>,
}

/// In which order entries are asked for, or removed.
#[derive(Default)]
pub(crate) struct Order {
    runs: Vec<Run>,
    /// What is behind `drawn` is not decided yet.
    entries: Vec<u32>,
    drawn: usize,
}

impl Order {
    /// The next question, if there is one more.
    fn draw(&mut self, keys: &EntryKeys, prg: &mut Prg) -> Option<Question> {
        let until = self.entries.len().min(self.drawn + BATCH_MAX);
        // Fisher and Yates, as far as it is needed.
        for at in self.drawn..until {
            let last = self.entries.len() - 1 - at;
            self.entries.swap(at, at + uniform(last as u128, prg) as usize);
        }
        let entries = self.entries[self.drawn..until].to_vec();
        self.drawn = until;
        let place = |entry: &u32| {
            // An empty run begins where the next one does: the last of those is the entry's.
            let run = &self.runs[self.runs.partition_point(|run| run.first <= *entry) - 1];
            EntryKeys::place(&run.stem, run.epoch, entry - run.first)
        };
        let mut labels: Vec<Block> = entries.iter().map(place).collect();
        keys.labels.blocks(&mut labels);
        (!entries.is_empty()).then_some(Question { entries, labels })
    }
}

/// Entries as they have come, by word and counter: in a random order, and each goes to one place of memory.
#[derive(Default)]
struct Arrived {
    entries: Vec<u8>,
    /// Bytes of each: those of a block, or only its head's.
    each: usize,
    /// Documents' numbers are below.
    bound: usize,
}

impl Arrived {
    fn take(&mut self, keys: &EntryKeys, question: &Question, answer: &[u8]) -> Result<(), Tampering> {
        let (sealed, rest) = answer.as_chunks::<SEALED_BYTES>();
        if sealed.len() != question.labels.len() || !rest.is_empty() {
            return Err(Tampering::Length);
        }
        let halves = |entry: &[u8; SEALED_BYTES]| {
            let (halves, _) = entry.as_chunks::<16>();
            (halves[0], halves[1])
        };
        let (mut blocks, tags): (Vec<Block>, Vec<Block>) = sealed.iter().map(halves).unzip();
        keys.entries.open_each(&question.labels, &mut blocks, &tags).map_err(|wrong| {
            if sealed[wrong] == [0; SEALED_BYTES] { Tampering::Missing } else { Tampering::Altered }
        })?;
        for (entry, block) in question.entries.iter().zip(&blocks) {
            if operation(block).is_some_and(|(_, number)| number as usize >= self.bound) {
                // Of another life of these keys.
                return Err(Tampering::Altered);
            }
            self.entries[*entry as usize * self.each..][..self.each].copy_from_slice(&block[..self.each]);
        }
        Ok(())
    }
}

/// Entries on their way.
#[derive(Default)]
pub(crate) struct Fetch {
    pub(crate) words: Vec<Word>,
    order: Order,
    arrived: Arrived,
}

impl Enclave {
    /// The next question of entries of a collection.
    pub(crate) fn draw(&self, order: &mut Order, collection: u32) -> Option<Question> {
        let core = &mut *self.core();
        order.draw(&core.state.collection(collection).ok()?.keys, &mut core.prg)
    }

    /// Fetches all entries.
    pub(crate) async fn fetch(&self, fetch: &mut Fetch, collection: u32) -> Result<(), Refused> {
        let ask = || {
            let question = self.draw(&mut fetch.order, collection)?;
            let labels = Blob(question.labels.as_flattened().to_vec());
            Some((question, self.ask(|ask| Outgoing::Get { ask, labels })))
        };
        let take = |question: Question, answer: Option<Blob>| {
            let core = self.core();
            let keys = &core.state.collection(collection)?.keys;
            fetch.arrived.take(keys, &question, &answer.unwrap_or_default().0).map_err(Refused::Storage)
        };
        in_flights(ask, take).await
    }
}

impl Fetch {
    /// Bytes that a fetch takes.
    pub(crate) fn bytes_for(entries: u64, with_metadata: bool) -> usize {
        let each = size_of::<u32>() + kept_of_each(with_metadata);
        let all = usize::try_from(entries).unwrap_or(usize::MAX).saturating_mul(each);
        all.saturating_add(FLIGHTS_MAX * FLIGHT_BYTES)
    }

    /// Begins, in a collection whose documents' numbers are below a bound; the keywords have fewer than 2^32 entries together.
    pub(crate) fn new(keywords: impl Iterator<Item = Counted>, with_metadata: bool, bound: usize) -> Self {
        let (mut words, mut runs, mut total) = (Vec::new(), Vec::new(), 0);
        for Counted { stem, runs: counts } in keywords {
            let first = total;
            for (epoch, count) in counts {
                runs.push(Run { stem, epoch, first: total });
                total += count;
            }
            words.push(Word { stem, count: total - first, first });
        }
        let each = kept_of_each(with_metadata);
        let arrived = Arrived { entries: vec![0; total as usize * each], each, bound };
        Self { words, order: Order { runs, entries: (0..total).collect(), drawn: 0 }, arrived }
    }

    /// The same entries once more, without what was fetched: for their removal.
    pub(crate) fn into_order(self) -> Order {
        Order { drawn: 0, ..self.order }
    }

    /// How many entries there are.
    pub(crate) fn entries(&self) -> usize {
        self.order.entries.len()
    }

    /// Entries of a word, oldest first.
    fn entries_of(&self, word: usize) -> std::slice::ChunksExact<'_, u8> {
        let (Arrived { entries, each, .. }, word) = (&self.arrived, self.words.get(word));
        let bytes = word
            .and_then(|word| entries.get(word.first as usize * each..)?.get(..word.count as usize * each));
        bytes.unwrap_or_default().chunks_exact(*each)
    }

    /// What entries of a word say, oldest first.
    pub(crate) fn oldest_first(&self, word: usize) -> impl Iterator<Item = (Operation, u32)> {
        self.entries_of(word).filter_map(operation)
    }

    /// The same with their metadata, newest first.
    pub(crate) fn newest_first(&self, word: usize) -> impl Iterator<Item = Entry> {
        self.entries_of(word).rev().filter_map(|block| {
            let (operation, number) = operation(block)?;
            Some((operation, number, Metadata(*block.last_chunk()?)))
        })
    }

    /// What is so of documents, newest first: of each the last addition of a word, behind its continuations. `is_open` says whether a document
    /// is among those that are meant, and is told when no more of it is.
    pub(crate) fn live(
        &self,
        word: usize,
        mut is_open: impl FnMut(u32, bool) -> bool,
    ) -> impl Iterator<Item = Entry> {
        self.newest_first(word).filter(move |(operation, number, _)| {
            is_open(*number, *operation != Operation::Continue) && *operation != Operation::Delete
        })
    }

    /// The same of documents among some.
    pub(crate) fn live_among(&self, word: usize, mut among: Set) -> impl Iterator<Item = Entry> {
        self.live(word, move |number, closes| {
            let is_open = among.contains(number as usize);
            if is_open && closes {
                among.remove(number as usize);
            }
            is_open
        })
    }

    /// The documents among some whose last operation on a word is an addition, with its metadata.
    pub(crate) fn current(&self, word: usize, among: &Set) -> impl Iterator<Item = (u32, Metadata)> {
        let additions = self.live_among(word, among.clone()).filter(|entry| entry.0 == Operation::Add);
        additions.map(|(_, number, metadata)| (number, metadata))
    }
}

/// What a block says, or its head.
fn operation(block: &[u8]) -> Option<(Operation, u32)> {
    let head = u32::from_le_bytes(*block.first_chunk()?);
    Some((Operation::of_code((head >> 30) as u8)?, head & ((1 << 30) - 1)))
}
