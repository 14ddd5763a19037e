//! The state in pieces, so that the log before it can be forgotten.
//!
//! Behind the pieces that a start loads are those of counters that are not in tables (the module `spill`).
//!
//! Everything that there is more of with more data takes the same number of bytes whatever it says, so that lengths show numbers alone.

use crate::collection::{Collection, Described};
use crate::documents::Standing;
use crate::fault::Fault;
use crate::journal::{Change, Place};
use crate::sealer::Sealer;
use crate::server::Enclave;
use crate::spill::{RECORD_BYTES, Record};
use crate::state::State;
use crate::table::{SEGMENTS, Slot};
use arras_keys::Key;
use arras_protocol::iee::{Outgoing, StateName};
use arras_protocol::{Blob, codec};
use arras_schemes::bisen::DocumentName;
use arras_schemes::bisen::update::{FACTS_BYTES, Facts};
use serde::{Deserialize, Serialize};
use std::ops::Range;

/// Most records in a piece.
const PIECE_RECORDS: usize = 16_384;

const PIECE_BYTES: usize = PIECE_RECORDS * RECORD_BYTES;

/// Lengths of pieces are multiples of so many bytes, or of an eighth of themselves.
const STEP_BYTES: usize = 4096;

/// Bytes of a document's version: its name, facts, number of entries and standing.
const VERSION_BYTES: usize = 16 + FACTS_BYTES + 4 + 1;

/// Names a checkpoint among all that any run of the enclave made.
pub(crate) type CheckpointId = [u8; 16];

/// Which checkpoint is the newest.
#[derive(Clone, Copy, Serialize, Deserialize)]
pub(crate) struct Head {
    /// How far the log is in it.
    pub(crate) place: Place,
    pub(crate) pieces: u32,
    /// Pieces from this one on are of what is spilled.
    pub(crate) loaded: u32,
    pub(crate) id: CheckpointId,
    /// How often tables were spilled into these: no keyword has more records.
    pub(crate) spills: u32,
}

impl Head {
    /// Pieces of what is spilled.
    pub(crate) fn spilled(&self) -> Range<u32> {
        self.loaded..self.pieces
    }

    /// How many records are in them, at most: what the host knows of it.
    pub(crate) fn records_max(&self) -> usize {
        self.spilled().len() * PIECE_RECORDS
    }

    /// Itself, if there are any.
    pub(crate) fn if_spilled(&self) -> Option<Self> {
        Some(*self).filter(|head| !head.spilled().is_empty())
    }

    pub(crate) fn name(&self, piece: u32) -> StateName {
        StateName::Checkpoint { generation: self.place.number, piece }
    }
}

#[derive(Serialize, Deserialize)]
enum Piece {
    /// Everything that is small: the first piece.
    Rest {
        /// Each with its entries, and its revision (little endian).
        collections: Vec<(Described, [u8; 8], [u8; 16])>,
        policy: Vec<u8>,
        epochs: u32,
        generation: u32,
    },
    /// Records of keywords: of what is in tables, or of what is spilled, as the head says.
    Keywords(Blob),
    Versions {
        collection: u32,
        versions: Blob,
    },
}

/// Seals and opens pieces and heads.
pub(crate) struct Pieces(Sealer);

fn associated(id: &CheckpointId, piece: u32) -> Vec<u8> {
    [b"arras bisen piece".as_slice(), id, &piece.to_be_bytes()].concat()
}

const HEAD: &[u8] = b"arras bisen head 3";

impl Pieces {
    pub(crate) fn new(root: &Key) -> Self {
        Self(Sealer::new(root, b"checkpoint", STEP_BYTES))
    }

    pub(crate) fn open_head(&self, sealed: &[u8]) -> Result<Head, Fault> {
        self.0.open(HEAD, sealed)
    }

    /// Takes a piece into the state.
    pub(crate) fn restore(
        &self,
        root: &Key,
        state: &mut State,
        (id, piece): (&CheckpointId, u32),
        sealed: &[u8],
    ) -> Result<(), Fault> {
        match self.0.open(&associated(id, piece), sealed)? {
            Piece::Rest { collections, policy, epochs, generation } => {
                state.policy = codec::decode(&policy).map_err(|_| Fault::StateAltered)?;
                let root = state.policy.root(root);
                for ((described, entries, revision), at) in collections.into_iter().zip(0..) {
                    let mut collection = Collection::new(&root, at, described, generation);
                    collection.table.entries = u64::from_le_bytes(entries);
                    collection.revision = u128::from_le_bytes(revision);
                    state.collections.push(collection);
                }
                (state.epochs, state.generation) = (epochs, generation);
            }
            Piece::Keywords(records) => {
                for Record { stem, count, epoch, collection } in Record::all(records.as_slice()) {
                    state.kept(collection.into())?.table.set(&stem, count, epoch, false);
                }
            }
            Piece::Versions { collection, versions } => {
                let documents = &mut state.kept(collection)?.documents;
                for version in versions.as_slice().as_chunks::<VERSION_BYTES>().0 {
                    let (name, rest) = version.split_first_chunk().ok_or(Fault::StateAltered)?;
                    let (facts, rest) = rest.split_first_chunk().ok_or(Fault::StateAltered)?;
                    let (entries, standing) = rest.split_first_chunk().ok_or(Fault::StateAltered)?;
                    let standing = Standing::of_code(standing.first().copied().unwrap_or_default());
                    let (facts, entries) = (Facts::of_bytes(facts), u32::from_le_bytes(*entries));
                    documents.restore(DocumentName(*name), &facts, standing, entries);
                }
            }
        }
        Ok(())
    }

    /// The records of a piece of what is spilled.
    pub(crate) fn spilled(&self, of: &Head, piece: u32, sealed: Option<Blob>) -> Result<Vec<u8>, Fault> {
        match self.0.open(&associated(&of.id, piece), sealed.ok_or(Fault::StateSetBack)?.as_slice())? {
            Piece::Keywords(Blob(records)) => Ok(records),
            Piece::Rest { .. } | Piece::Versions { .. } => Err(Fault::StateAltered),
        }
    }
}

/// A checkpoint that is being written.
struct Writer<'a> {
    enclave: &'a Enclave,
    head: Head,
    /// Records for the next piece.
    records: Vec<u8>,
    bytes: usize,
}

impl Writer<'_> {
    async fn save(&mut self, piece: Piece) {
        let name = self.head.name(self.head.pieces);
        let sealed = {
            let core = &mut *self.enclave.core();
            core.pieces.0.seal(&piece, &associated(&self.head.id, self.head.pieces), &mut core.prg)
        };
        self.head.pieces += 1;
        self.bytes += sealed.len();
        self.enclave.save(name, sealed).await;
    }

    /// Saves full pieces of records; behind the last record, what is left, too.
    async fn save_records(&mut self, are_all: bool) {
        while self.records.len() >= PIECE_BYTES || are_all && !self.records.is_empty() {
            let rest = self.records.split_off(self.records.len().min(PIECE_BYTES));
            let records = std::mem::replace(&mut self.records, rest);
            self.save(Piece::Keywords(Blob(records))).await;
        }
    }

    /// Saves records of all keywords of a collection's table; less than a piece of them may wait.
    async fn save_keywords(&mut self, number: usize) {
        for segment in 0..SEGMENTS {
            if let Some(collection) = self.enclave.core().state.collections.get(number) {
                for (stem, Slot { count, epoch, .. }) in collection.table.segment(segment) {
                    let (stem, count, epoch, collection) = (*stem, *count, *epoch, number as u8);
                    self.records.extend(Record { stem, count, epoch, collection }.bytes());
                }
            }
            self.save_records(false).await;
        }
    }

    async fn save_versions(&mut self, number: usize) {
        for first in (0..).step_by(PIECE_RECORDS) {
            let versions = self.enclave.core().state.versions(number, first);
            if versions.is_empty() {
                return;
            }
            self.save(Piece::Versions { collection: number as u32, versions: Blob(versions) }).await;
        }
    }

    /// Takes over what was spilled before, piece by piece, without what is void by now.
    async fn copy(&mut self, old: Head) -> Result<(), Fault> {
        for piece in old.spilled() {
            let sealed = self.enclave.load(old.name(piece)).await;
            {
                let mut core = self.enclave.core();
                for record in Record::all(&core.pieces.spilled(&old, piece, sealed)?) {
                    if !core.state.kept(record.collection.into())?.table.is_whole(&record.stem) {
                        self.records.extend(record.bytes());
                    }
                }
            }
            self.save_records(false).await;
        }
        Ok(())
    }
}

impl State {
    /// Everything that is small.
    fn rest(&self, generation: u32) -> Piece {
        let described = |Collection { name, settings, revision, table, .. }: &Collection| {
            ((name.clone(), settings.clone()), table.entries.to_le_bytes(), revision.to_le_bytes())
        };
        Piece::Rest {
            collections: self.collections.iter().map(described).collect(),
            policy: codec::encode(&self.policy),
            epochs: self.epochs.max(generation),
            generation,
        }
    }

    /// Versions of a collection from one on, as many as a piece has.
    fn versions(&self, collection: usize, first: usize) -> Vec<u8> {
        let Some(Collection { documents, .. }) = self.collections.get(collection) else { return Vec::new() };
        let numbers = first as u32..documents.bound().min(first + PIECE_RECORDS) as u32;
        let mut versions = Vec::with_capacity(numbers.len() * VERSION_BYTES);
        for (name, facts, standing, entries) in numbers.filter_map(|number| documents.version(number)) {
            versions.extend_from_slice(&name.0);
            versions.extend_from_slice(&facts.bytes());
            versions.extend_from_slice(&entries.to_le_bytes());
            versions.push(standing as u8);
        }
        versions
    }
}

impl Enclave {
    /// Writes the state whole, and has the log before it forgotten. Where tables are full, it spills them.
    pub(crate) async fn checkpoint(&self) -> Result<(), Fault> {
        let (head, generation, spills, rest) = {
            let core = &mut *self.core();
            let state = &core.state;
            core.journal.since_checkpoint = 0;
            core.fill.set_known(state.keywords(), state.spilled);
            let spills = state.epochs < u32::MAX && core.fill.spills(state.spilled.is_some());
            let generation = if spills { state.epochs + 1 } else { state.generation };
            let mut id = [0; 16];
            core.prg.fill(&mut id);
            let times = state.spilled.map_or(0, |old| old.spills) + u32::from(spills);
            let head = Head { place: core.journal.place, pieces: 0, loaded: 0, id, spills: times };
            (head, generation, spills, state.rest(generation))
        };
        let mut writer = Writer { enclave: self, head, records: Vec::new(), bytes: 0 };
        writer.save(rest).await;
        let old = self.core().state.spilled;
        let collections = 0..self.core().state.collections.len();
        for number in collections.clone().filter(|_| !spills) {
            writer.save_keywords(number).await;
        }
        writer.save_records(true).await;
        for number in collections.clone() {
            writer.save_versions(number).await;
        }
        writer.head.loaded = writer.head.pieces;
        if let Some(old) = old {
            writer.copy(old).await?;
        }
        for number in collections.filter(|_| spills) {
            writer.save_keywords(number).await;
        }
        writer.save_records(true).await;
        let Writer { head, bytes, .. } = writer;
        let sealed = {
            let core = &mut *self.core();
            core.pieces.0.seal(&head, HEAD, &mut core.prg)
        };
        self.save(StateName::Head, sealed).await;
        self.settle(&head, generation, bytes).await
    }

    /// From now on a checkpoint that is whole counts, once nobody reads what is spilled in the last; then the log before it, and the last
    /// one, can go.
    async fn settle(&self, head: &Head, generation: u32, bytes: usize) -> Result<(), Fault> {
        self.core().readings.is_settling = true;
        self.until(|core| (!core.readings.is_under_way()).then_some(())).await;
        let is_new = {
            let core = &mut *self.core();
            core.readings.is_settling = false;
            let is_new = generation != core.state.generation;
            core.state.spilled = head.if_spilled();
            if is_new {
                core.state.begin_generation(generation);
                core.budget.kept = core.state.bytes();
            }
            core.fill.set_known(core.state.keywords(), core.state.spilled);
            core.journal.checkpoint_bytes = bytes;
            is_new
        };
        let until = head.place.number;
        self.have_done(|ask| Outgoing::Forget { ask, until }).await;
        if is_new { self.log(&Change::Generation(generation)).await } else { Ok(()) }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::{Channels, Iee};
    use arras_primitives::prg::Prg;
    use arras_protocol::iee::{Incoming, STATE_BYTES_MAX};
    use arras_schemes::bisen::message::Settings;
    use arras_schemes::bisen::query::Padding;

    /// A state of two collections: many keywords in one segment, and versions with these facts.
    fn state(root: &Key, count: u32, facts: &Facts) -> State {
        let mut state = State::default();
        for number in 0..2 {
            let settings = Settings { fields: 4, padding: Padding::None, profile: Blob::default() };
            let described = (format!("{number}"), settings);
            let mut collection = Collection::new(root, number as usize, described, 0);
            for keyword in 0..40_000_u32 {
                let mut stem = [7; 16];
                stem[12..].copy_from_slice(&keyword.to_le_bytes());
                collection.table.set(&stem, count, number, false);
            }
            for version in 0..20_000_u32 {
                let mut name = [1; 16];
                name[..4].copy_from_slice(&version.to_le_bytes());
                let standing = Standing::of_code((version % 3) as u8);
                collection.documents.restore(DocumentName(name), facts, standing, version % 5);
            }
            state.collections.push(collection);
        }
        state
    }

    /// The sealed pieces of a checkpoint of a state, and its head.
    fn written(root: &Key, state: State) -> (Head, Vec<Vec<u8>>) {
        let mut iee =
            Iee::new(Key::take_from(&mut root.expose().to_owned()), Channels::Attested { debug: true });
        let enclave = iee.enclave.clone();
        enclave.core().state = state;
        let task = enclave.clone();
        enclave.core().tasks.spawn(None, async move { task.checkpoint().await });
        let mut sealed = Vec::new();
        enclave.run().unwrap();
        let mut said = enclave.core().tasks.take_out();
        while let Some(Outgoing::Save { ask, state, .. }) = said.pop() {
            sealed.push(state.0);
            said = iee.receive(Incoming::Done(ask)).unwrap();
        }
        let head = Pieces::new(root).open_head(&sealed.pop().unwrap()).unwrap();
        (head, sealed)
    }

    #[test]
    fn what_is_written_comes_back_in_pieces_whose_lengths_show_numbers_alone() {
        let root = Key::take_from(&mut [9; 32]);
        let pieces = Pieces::new(&root);
        let facts = Facts { length: 5, visibility: 2, fields: [1, -1, 0, 3] };
        let before = state(&root, 1, &facts);
        let (head, sealed) = written(&root, state(&root, 1, &facts));
        assert_eq!(head.pieces as usize, sealed.len());
        assert!(sealed.iter().all(|piece| piece.len() <= STATE_BYTES_MAX));
        let mut after = State::default();
        for (piece, number) in sealed.iter().zip(0..) {
            pieces.restore(&root, &mut after, (&head.id, number), piece).unwrap();
        }
        for (one, other) in before.collections.iter().zip(&after.collections) {
            assert_eq!((one.table.keywords(), other.table.keywords()), (40_000, 40_000));
            assert_eq!(other.documents.bound(), 20_000);
            for number in 0..20_000 {
                let (one, other) = (one.documents.version(number), other.documents.version(number));
                assert!(one.is_some() && one == other);
            }
        }
        // What an earlier build sealed means something else.
        let earlier = pieces.0.seal(&head, b"arras bisen head 2", &mut Prg::new(&[1; 16]));
        assert!(pieces.open_head(&earlier).is_err());
        let large = Facts { length: u32::MAX, visibility: u32::MAX, fields: [i64::MIN; 4] };
        let (_, others) = written(&root, state(&root, 100_000, &large));
        let lengths = |pieces: &[Vec<u8>]| pieces.iter().map(Vec::len).collect::<Vec<_>>();
        assert_eq!(lengths(&sealed), lengths(&others));
    }
}
