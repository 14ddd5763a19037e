//! The state in pieces, so that the log before it can be forgotten.
//!
//! Everything that there is more of with more data takes the same number of bytes whatever it says, so that lengths show numbers alone.

use crate::collection::Collection;
use crate::documents::Standing;
use crate::fault::Fault;
use crate::journal::Place;
use crate::sealer::Sealer;
use crate::state::State;
use crate::table::SEGMENTS;
use arras_keys::Key;
use arras_primitives::Block;
use arras_primitives::prg::Prg;
use arras_protocol::iee::StateName;
use arras_protocol::{Blob, codec};
use arras_schemes::bisen::message::Settings;
use arras_schemes::bisen::update::{FACTS_BYTES, Facts};
use arras_schemes::bisen::{DocumentName, Salt};
use serde::{Deserialize, Serialize};

/// Most records in a piece.
const PIECE_RECORDS: usize = 16_384;

/// Lengths of pieces are multiples of so many bytes, or of an eighth of themselves.
const STEP_BYTES: usize = 4096;

/// Bytes of a document's version: its name, facts and standing.
const VERSION_BYTES: usize = 16 + FACTS_BYTES + 1;

/// Names a checkpoint among all that any run of the enclave made.
type CheckpointId = [u8; 16];

/// Which checkpoint is the newest.
#[derive(Serialize, Deserialize)]
pub(crate) struct Head {
    /// How far the log is in it.
    pub(crate) place: Place,
    pub(crate) pieces: u32,
    pub(crate) id: CheckpointId,
}

#[derive(Serialize, Deserialize)]
enum Piece {
    /// Everything that is small: the first piece.
    Rest {
        collections: Vec<(String, Settings, Salt)>,
        policy: Vec<u8>,
        epochs: u32,
    },
    /// Stems with their counts and epochs, little endian.
    Keywords {
        collection: u32,
        keywords: Vec<(Block, [u8; 4], [u8; 4])>,
    },
    Versions {
        collection: u32,
        versions: Blob,
    },
}

/// A checkpoint that is being written.
pub(crate) struct Writer {
    head: Head,
    /// What is next: of which collection, of its segments which and where in it; behind them, which version.
    collection: usize,
    segment: usize,
    at: usize,
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
            Piece::Rest { collections, policy, epochs } => {
                for ((name, settings, salt), number) in collections.into_iter().zip(0..) {
                    state.collections.push(Collection::new(root, number, name, settings, salt));
                }
                state.policy = codec::decode(&policy).map_err(|_| Fault::StateAltered)?;
                state.epochs = epochs;
            }
            Piece::Keywords { collection, keywords } => {
                let collection = state.collection_mut(collection).map_err(|_| Fault::StateAltered)?;
                for (stem, count, epoch) in keywords {
                    collection.table.set(&stem, u32::from_le_bytes(count), u32::from_le_bytes(epoch));
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
}

impl Writer {
    pub(crate) fn begin(place: Place, prg: &mut Prg) -> Self {
        let mut id = [0; 16];
        prg.fill(&mut id);
        let head = Head { place, pieces: 0, id };
        Self { head, collection: 0, segment: 0, at: 0, is_whole: false, bytes: 0 }
    }

    /// The next piece, sealed, and its name; the head, which says that all are there, behind the last.
    pub(crate) fn next(
        &mut self,
        pieces: &Pieces,
        state: &State,
        prg: &mut Prg,
    ) -> Option<(StateName, Vec<u8>)> {
        if self.is_whole {
            return None;
        }
        let Some(piece) = self.piece(state) else {
            self.is_whole = true;
            return Some((StateName::Head, pieces.0.seal(&self.head, HEAD, prg)));
        };
        let number = self.head.pieces;
        let sealed = pieces.0.seal(&piece, &associated(&self.head.id, number), prg);
        self.head.pieces += 1;
        self.bytes += sealed.len();
        Some((StateName::Checkpoint { generation: self.head.place.number, piece: number }, sealed))
    }

    fn piece(&mut self, state: &State) -> Option<Piece> {
        if self.head.pieces == 0 {
            let described = |collection: &Collection| {
                (collection.name.clone(), collection.settings.clone(), collection.salt)
            };
            let collections = state.collections.iter().map(described).collect();
            return Some(Piece::Rest {
                collections,
                policy: codec::encode(&state.policy),
                epochs: state.epochs,
            });
        }
        while let Some(collection) = state.collections.get(self.collection) {
            let number = self.collection as u32;
            let keywords = self.keywords(collection);
            if !keywords.is_empty() {
                return Some(Piece::Keywords { collection: number, keywords });
            }
            let versions = self.versions(collection);
            if !versions.is_empty() {
                return Some(Piece::Versions { collection: number, versions: Blob(versions) });
            }
            (self.collection, self.segment, self.at) = (self.collection + 1, 0, 0);
        }
        None
    }

    fn keywords(&mut self, collection: &Collection) -> Vec<(Block, [u8; 4], [u8; 4])> {
        let mut keywords = Vec::new();
        while self.segment < SEGMENTS && keywords.len() < PIECE_RECORDS {
            let before = keywords.len();
            let rest = collection.table.segment(self.segment).skip(self.at).take(PIECE_RECORDS - before);
            keywords.extend(rest.map(|slot| (slot.stem, slot.count.to_le_bytes(), slot.epoch.to_le_bytes())));
            self.at += keywords.len() - before;
            if keywords.len() < PIECE_RECORDS {
                (self.segment, self.at) = (self.segment + 1, 0);
            }
        }
        keywords
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
    use arras_schemes::bisen::query::Padding;

    /// A state of two collections: many keywords in one segment, and versions with these facts.
    fn state(root: &Key, count: u32, facts: &Facts) -> State {
        let mut state = State::default();
        for number in 0..2 {
            let settings = Settings { fields: 4, padding: Padding::None, profile: Blob::default() };
            let mut collection = Collection::new(root, number, format!("{number}"), settings, Salt([1; 16]));
            for keyword in 0..40_000_u32 {
                let mut stem = [7; 16];
                stem[12..].copy_from_slice(&keyword.to_le_bytes());
                collection.table.set(&stem, count, number);
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
        let mut writer = Writer::begin(place, &mut prg);
        let mut sealed: Vec<Vec<u8>> =
            std::iter::from_fn(|| writer.next(pieces, state, &mut prg).map(|(_, sealed)| sealed)).collect();
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
