//! The state in pieces, so that the log before it can be forgotten.
//!
//! Behind the pieces that a start loads are those of counters that are not in tables (the module `spill`).
//!
//! Everything that there is more of with more data takes the same number of bytes whatever it says, so that lengths show numbers alone.

use crate::collection::{Collection, Described};
use crate::documents::Standing;
use crate::fault::Fault;
use crate::journal::Place;
use crate::sealer::Sealer;
use crate::spill::{RECORD_BYTES, Record, Spilled};
use crate::state::State;
use crate::table::{SEGMENTS, Slot};
use arras_keys::Key;
use arras_primitives::prg::Prg;
use arras_protocol::iee::StateName;
use arras_protocol::{Blob, codec};
use arras_schemes::bisen::DocumentName;
use arras_schemes::bisen::update::{FACTS_BYTES, Facts};
use serde::{Deserialize, Serialize};

/// Most records in a piece.
pub(crate) const PIECE_RECORDS: usize = 16_384;

const PIECE_BYTES: usize = PIECE_RECORDS * RECORD_BYTES;

/// Lengths of pieces are multiples of so many bytes, or of an eighth of themselves.
const STEP_BYTES: usize = 4096;

/// Bytes of a document's version: its name, facts and standing.
const VERSION_BYTES: usize = 16 + FACTS_BYTES + 1;

/// Names a checkpoint among all that any run of the enclave made.
pub(crate) type CheckpointId = [u8; 16];

/// Which checkpoint is the newest.
#[derive(Serialize, Deserialize)]
pub(crate) struct Head {
    /// How far the log is in it.
    pub(crate) place: Place,
    pub(crate) pieces: u32,
    /// Pieces from this one on are of what is spilled.
    pub(crate) loaded: u32,
    pub(crate) id: CheckpointId,
}

impl Head {
    pub(crate) fn spilled(&self) -> Option<Spilled> {
        let Self { place, pieces: until, loaded: first, id } = *self;
        (first < until).then_some(Spilled { number: place.number, id, first, until })
    }
}

#[derive(Serialize, Deserialize)]
enum Piece {
    /// Everything that is small: the first piece.
    Rest {
        /// Each with the number of its entries (little endian) that only what is spilled says.
        collections: Vec<(Described, [u8; 8])>,
        policy: Vec<u8>,
        epochs: u32,
        generation: u32,
    },
    /// Records of what is in tables.
    Keywords(Blob),
    Versions {
        collection: u32,
        versions: Blob,
    },
    /// Records of what is spilled.
    Spilled(Blob),
}

/// What a checkpoint needs next.
pub(crate) enum Next {
    Save(StateName, Vec<u8>),
    /// A piece of the one before it, for [`Writer::copy`].
    Load(StateName),
    Nothing,
}

/// A checkpoint that is being written.
pub(crate) struct Writer {
    pub(crate) head: Head,
    /// The generation of the state that it is of.
    pub(crate) generation: u32,
    /// What is next: of which collection, which of its segments; behind them, which version.
    collection: usize,
    segment: usize,
    at: usize,
    /// What is spilled already, and not copied yet.
    old: Option<Spilled>,
    /// Records for the next piece.
    records: Vec<u8>,
    is_whole: bool,
    pub(crate) bytes: usize,
}

/// Seals and opens pieces and heads.
pub(crate) struct Pieces(Sealer);

fn associated(id: &CheckpointId, piece: u32) -> Vec<u8> {
    [b"arras bisen piece".as_slice(), id, &piece.to_be_bytes()].concat()
}

const HEAD: &[u8] = b"arras bisen head";

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
                for ((described, spilled), number) in collections.into_iter().zip(0..) {
                    let mut collection = Collection::new(root, number, described, generation);
                    collection.table.spilled = u64::from_le_bytes(spilled);
                    state.collections.push(collection);
                }
                state.policy = codec::decode(&policy).map_err(|_| Fault::StateAltered)?;
                (state.epochs, state.generation) = (epochs, generation);
            }
            Piece::Spilled(_) => return Err(Fault::StateAltered),
            Piece::Keywords(records) => {
                for Record { stem, count, epoch, collection } in Record::all(records.as_slice()) {
                    let collection =
                        state.collection_mut(collection.into()).map_err(|_| Fault::StateAltered)?;
                    collection.table.set(&stem, count, epoch, false);
                }
            }
            Piece::Versions { collection, versions } => {
                let collection = state.collection_mut(collection).map_err(|_| Fault::StateAltered)?;
                for version in versions.as_slice().as_chunks::<VERSION_BYTES>().0 {
                    let (name, rest) = version.split_first_chunk().ok_or(Fault::StateAltered)?;
                    let (facts, standing) = rest.split_first_chunk().ok_or(Fault::StateAltered)?;
                    let standing = Standing::of_code(standing.first().copied().unwrap_or_default());
                    collection.documents.restore(DocumentName(*name), &Facts::of_bytes(facts), standing);
                }
            }
        }
        Ok(())
    }

    /// The records of a piece of what is spilled.
    pub(crate) fn spilled(&self, of: &Spilled, piece: u32, sealed: Option<&[u8]>) -> Result<Vec<u8>, Fault> {
        match self.0.open(&associated(&of.id, piece), sealed.ok_or(Fault::StateSetBack)?)? {
            Piece::Spilled(Blob(records)) => Ok(records),
            Piece::Rest { .. } | Piece::Keywords(_) | Piece::Versions { .. } => Err(Fault::StateAltered),
        }
    }
}

impl Writer {
    /// Begins; keywords that are marked as leaving are spilled, and the generation is the state's or, then, a new one.
    pub(crate) fn begin(place: Place, state: &State, generation: u32, prg: &mut Prg) -> Self {
        let mut id = [0; 16];
        prg.fill(&mut id);
        let head = Head { place, pieces: 0, loaded: 0, id };
        let (old, records) = (state.spilled, Vec::new());
        Self { head, generation, collection: 0, segment: 0, at: 0, old, records, is_whole: false, bytes: 0 }
    }

    /// The next piece, sealed, and its name; the head, which says that all are there, behind the last.
    pub(crate) fn next(&mut self, pieces: &Pieces, state: &State, prg: &mut Prg) -> Next {
        if self.is_whole {
            return Next::Nothing;
        }
        let piece = match self.piece(state) {
            Some(piece) => {
                self.head.loaded = self.head.pieces + 1;
                piece
            }
            None => match self.spill(state) {
                Ok(Some(piece)) => piece,
                Ok(None) => {
                    self.is_whole = true;
                    return Next::Save(StateName::Head, pieces.0.seal(&self.head, HEAD, prg));
                }
                Err(name) => return Next::Load(name),
            },
        };
        let number = self.head.pieces;
        let sealed = pieces.0.seal(&piece, &associated(&self.head.id, number), prg);
        self.head.pieces += 1;
        self.bytes += sealed.len();
        Next::Save(StateName::Checkpoint { generation: self.head.place.number, piece: number }, sealed)
    }

    fn piece(&mut self, state: &State) -> Option<Piece> {
        if self.head.pieces == 0 {
            let described = |collection: &Collection| {
                let spilled = collection.table.spilled + collection.table.leaving();
                let described = (collection.name.clone(), collection.settings.clone(), collection.salt);
                (described, spilled.to_le_bytes())
            };
            return Some(Piece::Rest {
                collections: state.collections.iter().map(described).collect(),
                policy: codec::encode(&state.policy),
                epochs: state.epochs.max(self.generation),
                generation: self.generation,
            });
        }
        while let Some(collection) = state.collections.get(self.collection) {
            self.gather(collection, self.collection, false);
            if let Some(records) = self.take_records() {
                return Some(Piece::Keywords(records));
            }
            let versions = self.versions(collection);
            if !versions.is_empty() {
                let collection = self.collection as u32;
                return Some(Piece::Versions { collection, versions: Blob(versions) });
            }
            (self.collection, self.segment, self.at) = (self.collection + 1, 0, 0);
        }
        None
    }

    /// The next piece of what is spilled, once all others are written: first what was so before, piece by piece, which is to be loaded.
    fn spill(&mut self, state: &State) -> Result<Option<Piece>, StateName> {
        while self.records.len() < PIECE_BYTES {
            if let Some(old) = &self.old {
                return Err(old.name(old.first));
            }
            // All of them were gone through once: behind the last one it begins anew.
            let number = self.collection - state.collections.len();
            let Some(collection) = state.collections.get(number) else { break };
            self.gather(collection, number, true);
            if self.segment == SEGMENTS {
                (self.collection, self.segment) = (self.collection + 1, 0);
            }
        }
        Ok(self.take_records().map(Piece::Spilled))
    }

    /// Goes on through a collection's keywords that leave or stay, until there are records for a piece.
    fn gather(&mut self, collection: &Collection, number: usize, is_leaving: bool) {
        while self.segment < SEGMENTS && self.records.len() < PIECE_BYTES {
            let slots = collection.table.segment(self.segment).filter(|slot| slot.is_leaving == is_leaving);
            for Slot { stem, count, epoch, .. } in slots.copied() {
                self.records.extend(Record { stem, count, epoch, collection: number as u8 }.bytes());
            }
            self.segment += 1;
        }
    }

    fn take_records(&mut self) -> Option<Blob> {
        let rest = self.records.split_off(self.records.len().min(PIECE_BYTES));
        let records = std::mem::replace(&mut self.records, rest);
        (!records.is_empty()).then_some(Blob(records))
    }

    /// Takes over a piece of what was spilled before, without what is void by now.
    pub(crate) fn copy(
        &mut self,
        pieces: &Pieces,
        state: &State,
        sealed: Option<&[u8]>,
    ) -> Result<(), Fault> {
        let mut old = self.old.take().ok_or(Fault::Unasked)?;
        let records = pieces.spilled(&old, old.first, sealed)?;
        for record in Record::all(&records) {
            let collection =
                state.collection(u32::from(record.collection)).map_err(|_| Fault::StateAltered)?;
            if !collection.table.is_whole(&record.stem) {
                self.records.extend(record.bytes());
            }
        }
        old.first += 1;
        self.old = Some(old).filter(|old| old.first < old.until);
        Ok(())
    }

    fn versions(&mut self, collection: &Collection) -> Vec<u8> {
        let until = collection.documents.bound().min(self.at + PIECE_RECORDS);
        let numbers = self.at as u32..until as u32;
        self.at = until;
        let mut versions = Vec::with_capacity(numbers.len() * VERSION_BYTES);
        for (name, facts, standing) in numbers.filter_map(|number| collection.documents.version(number)) {
            versions.extend_from_slice(&name.0);
            versions.extend_from_slice(&facts.bytes());
            versions.push(standing as u8);
        }
        versions
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use arras_protocol::iee::STATE_BYTES_MAX;
    use arras_schemes::bisen::Salt;
    use arras_schemes::bisen::message::Settings;
    use arras_schemes::bisen::query::Padding;

    /// A state of two collections: many keywords in one segment, and versions with these facts.
    fn state(root: &Key, count: u32, facts: &Facts) -> State {
        let mut state = State::default();
        for number in 0..2 {
            let settings = Settings { fields: 4, padding: Padding::None, profile: Blob::default() };
            let described = (format!("{number}"), settings, Salt([1; 16]));
            let mut collection = Collection::new(root, number, described, 0);
            for keyword in 0..40_000_u32 {
                let mut stem = [7; 16];
                stem[12..].copy_from_slice(&keyword.to_le_bytes());
                collection.table.set(&stem, count, number, false);
            }
            for version in 0..20_000_u32 {
                let mut name = [1; 16];
                name[..4].copy_from_slice(&version.to_le_bytes());
                let standing = Standing::of_code((version % 3) as u8);
                collection.documents.restore(DocumentName(name), facts, standing);
            }
            state.collections.push(collection);
        }
        state
    }

    fn written(pieces: &Pieces, state: &State) -> (Head, Vec<Vec<u8>>) {
        let mut prg = Prg::new(&[3; 16]);
        let place = crate::journal::Journal::new(&Key::take_from(&mut [1; 32])).place;
        let mut writer = Writer::begin(place, state, 0, &mut prg);
        let mut next = || match writer.next(pieces, state, &mut prg) {
            Next::Save(_, sealed) => Some(sealed),
            Next::Load(_) | Next::Nothing => None,
        };
        let mut sealed: Vec<Vec<u8>> = std::iter::from_fn(&mut next).collect();
        let head = pieces.open_head(&sealed.pop().unwrap()).unwrap();
        (head, sealed)
    }

    #[test]
    fn what_is_written_comes_back_in_pieces_whose_lengths_show_numbers_alone() {
        let root = Key::take_from(&mut [9; 32]);
        let pieces = Pieces::new(&root);
        let facts = Facts { length: 5, visibility: 2, fields: [1, -1, 0, 3] };
        let before = state(&root, 1, &facts);
        let (head, sealed) = written(&pieces, &before);
        assert_eq!(head.pieces as usize, sealed.len());
        assert!(sealed.iter().all(|piece| piece.len() <= STATE_BYTES_MAX));
        let mut after = State::default();
        for (piece, number) in sealed.iter().zip(0..) {
            pieces.restore(&root, &mut after, (&head.id, number), piece).unwrap();
        }
        for (one, other) in before.collections.iter().zip(&after.collections) {
            assert_eq!((one.table.entries(), other.table.entries()), (40_000, 40_000));
            assert_eq!(other.documents.bound(), 20_000);
            for number in 0..20_000 {
                let (one, other) = (one.documents.version(number), other.documents.version(number));
                assert!(one.is_some() && one == other);
            }
        }
        let large = Facts { length: u32::MAX, visibility: u32::MAX, fields: [i64::MIN; 4] };
        let (_, others) = written(&pieces, &state(&root, 100_000, &large));
        let lengths = |pieces: &[Vec<u8>]| pieces.iter().map(Vec::len).collect::<Vec<_>>();
        assert_eq!(lengths(&sealed), lengths(&others));
    }
}
