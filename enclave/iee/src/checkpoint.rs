//! The state in pieces, so that the log before it can be forgotten.

use crate::collection::Collection;
use crate::documents::Standing;
use crate::fault::Fault;
use crate::journal::Link;
use crate::state::State;
use crate::table::SEGMENTS;
use arras_keys::Key;
use arras_primitives::Block;
use arras_primitives::aead::{Aead, NONCE_BYTES};
use arras_primitives::prg::Prg;
use arras_protocol::codec;
use arras_schemes::bisen::message::Settings;
use arras_schemes::bisen::update::Facts;
use arras_schemes::bisen::{DocumentName, FIELDS_MAX, Salt};
use arras_schemes::padding::{pad_in_proportion, unpad};
use serde::{Deserialize, Serialize};

/// Records in a piece, about.
const PIECE_RECORDS: usize = 16_384;

/// Lengths of pieces are multiples of so many bytes, or of an eighth of themselves.
const STEP_BYTES: usize = 4096;

/// Names a checkpoint among all that any run of the enclave made.
type CheckpointId = [u8; 16];

/// Which checkpoint is the newest.
#[derive(Serialize, Deserialize)]
pub(crate) struct Head {
    pub(crate) generation: u64,
    pub(crate) pieces: u32,
    pub(crate) id: CheckpointId,
    pub(crate) link: Link,
}

/// A document's version in a checkpoint.
#[derive(Serialize, Deserialize)]
struct Version {
    name: DocumentName,
    length: u32,
    visibility: u32,
    fields: [i64; FIELDS_MAX],
    standing: u8,
}

#[derive(Serialize, Deserialize)]
enum Piece {
    /// Everything that is small: the first piece.
    Rest {
        collections: Vec<(String, Settings, Salt)>,
        policy: Vec<u8>,
        epochs: u32,
    },
    Keywords {
        collection: u32,
        keywords: Vec<(Block, u32, u32)>,
    },
    Versions {
        collection: u32,
        versions: Vec<Version>,
    },
}

/// A checkpoint that is being written.
pub(crate) struct Writer {
    id: CheckpointId,
    pub(crate) generation: u64,
    link: Link,
    pieces: u32,
    /// Which collection is next, and where in it: segments first, then documents.
    at: Option<(usize, usize)>,
    pub(crate) bytes: usize,
}

/// Seals and opens pieces and heads.
pub(crate) struct Sealer(Aead);

fn associated(id: &CheckpointId, piece: u32) -> Vec<u8> {
    [b"arras bisen piece".as_slice(), id, &piece.to_be_bytes()].concat()
}

const HEAD: &[u8] = b"arras bisen head";

impl Sealer {
    pub(crate) fn new(root: &Key) -> Self {
        Self(Aead::new(root.derive(&[b"bisen", b"checkpoint"]).expose()))
    }

    fn seal<T: Serialize>(&self, content: &T, associated: &[u8], prg: &mut Prg) -> Vec<u8> {
        let mut nonce = [0; NONCE_BYTES];
        prg.fill(&mut nonce);
        self.0.seal(&nonce, associated, &pad_in_proportion(codec::encode(content), STEP_BYTES))
    }

    fn open<T: serde::de::DeserializeOwned>(&self, associated: &[u8], sealed: &[u8]) -> Result<T, Fault> {
        let padded = self.0.open(associated, sealed).map_err(|_| Fault::StateAltered)?;
        let content = unpad(&padded).map_err(|_| Fault::StateAltered)?;
        codec::decode(content).map_err(|_| Fault::StateAltered)
    }

    pub(crate) fn open_head(&self, sealed: &[u8]) -> Result<Head, Fault> {
        self.open(HEAD, sealed)
    }

    /// Takes a piece into the state.
    pub(crate) fn restore(
        &self,
        root: &Key,
        state: &mut State,
        (id, piece): (&CheckpointId, u32),
        sealed: &[u8],
    ) -> Result<(), Fault> {
        match self.open(&associated(id, piece), sealed)? {
            Piece::Rest { collections, policy, epochs } => {
                for ((name, settings, salt), number) in collections.into_iter().zip(0..) {
                    state.collections.push(Collection::new(root, number, name, settings, salt));
                }
                state.policy = codec::decode(&policy).map_err(|_| Fault::StateAltered)?;
                state.epochs = epochs;
            }
            Piece::Keywords { collection, keywords } => {
                let collection = state.collection_mut(collection).map_err(|_| Fault::StateAltered)?;
                let set =
                    |(stem, count, epoch): &(Block, u32, u32)| collection.table.set(stem, *count, *epoch);
                keywords.iter().for_each(set);
            }
            Piece::Versions { collection, versions } => {
                let collection = state.collection_mut(collection).map_err(|_| Fault::StateAltered)?;
                for version in versions {
                    let Version { name, length, visibility, fields, standing } = version;
                    let standing = match standing {
                        0 => Standing::Draft,
                        1 => Standing::Published,
                        _ => Standing::Retired,
                    };
                    collection.documents.restore(name, &Facts { length, visibility, fields }, standing);
                }
            }
        }
        Ok(())
    }
}

impl Writer {
    pub(crate) fn begin(generation: u64, link: Link, prg: &mut Prg) -> Self {
        let mut id = [0; 16];
        prg.fill(&mut id);
        Self { id, generation, link, pieces: 0, at: None, bytes: 0 }
    }

    /// The next piece, sealed, and which it is.
    pub(crate) fn next(&mut self, sealer: &Sealer, state: &State, prg: &mut Prg) -> Option<(u32, Vec<u8>)> {
        let piece = self.content(state)?;
        let number = self.pieces;
        let sealed = sealer.seal(&piece, &associated(&self.id, number), prg);
        self.pieces += 1;
        self.bytes += sealed.len();
        Some((number, sealed))
    }

    /// What says that all pieces are there.
    pub(crate) fn head(&self, sealer: &Sealer, prg: &mut Prg) -> Vec<u8> {
        let (generation, pieces, id) = (self.generation, self.pieces, self.id);
        sealer.seal(&Head { generation, pieces, id, link: self.link }, HEAD, prg)
    }

    fn content(&mut self, state: &State) -> Option<Piece> {
        let Some((mut number, mut at)) = self.at else {
            self.at = Some((0, 0));
            let described = |collection: &Collection| {
                (collection.name.clone(), collection.settings.clone(), collection.salt)
            };
            return Some(Piece::Rest {
                collections: state.collections.iter().map(described).collect(),
                policy: codec::encode(&state.policy),
                epochs: state.epochs,
            });
        };
        while let Some(collection) = state.collections.get(number) {
            if at < SEGMENTS {
                let mut keywords = Vec::new();
                while at < SEGMENTS && keywords.len() < PIECE_RECORDS {
                    let slots = collection.table.segment(at);
                    keywords.extend(slots.map(|slot| (slot.stem, slot.count, slot.epoch)));
                    at += 1;
                }
                self.at = Some((number, at));
                return Some(Piece::Keywords { collection: number as u32, keywords });
            }
            let first = at - SEGMENTS;
            let until = collection.documents.bound().min(first + PIECE_RECORDS);
            if first < until {
                let version = |number| {
                    let (name, facts, standing) = collection.documents.version(number)?;
                    let Facts { length, visibility, fields } = facts;
                    let standing = match standing {
                        Standing::Draft => 0,
                        Standing::Published => 1,
                        Standing::Retired => 2,
                    };
                    Some(Version { name, length, visibility, fields, standing })
                };
                let versions = (first as u32..until as u32).filter_map(version).collect();
                self.at = Some((number, SEGMENTS + until));
                return Some(Piece::Versions { collection: number as u32, versions });
            }
            (number, at) = (number + 1, 0);
        }
        self.at = Some((number, at));
        None
    }
}
