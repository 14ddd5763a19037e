//! The log: what changes the state, sealed and chained, a record a change.

use crate::fault::Fault;
use arras_keys::Key;
use arras_primitives::Block;
use arras_primitives::aead::{Aead, NONCE_BYTES, OVERHEAD_BYTES, TAG_BYTES};
use arras_primitives::prg::Prg;
use arras_protocol::codec;
use arras_schemes::bisen::Salt;
use arras_schemes::bisen::message::{Rights, Settings};
use arras_schemes::bisen::update::Update;
use arras_schemes::padding::{pad_in_proportion, unpad};
use serde::{Deserialize, Serialize};

/// Lengths of records are multiples of so many bytes, or of an eighth of themselves.
const STEP_BYTES: usize = 1024;

/// A change of the state.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) enum Change {
    /// The enclave began, with this administrator: what a former run left unfinished behind this is void.
    Start {
        administrator: String,
    },
    Create {
        name: String,
        settings: Settings,
        salt: Salt,
    },
    Update(Update),
    Grant {
        identity: String,
        collection: String,
        rights: Rights,
    },
    Revoke {
        identity: String,
    },
    /// An epoch number is used up.
    Epoch,
    /// Keywords' entries are now so many, of this epoch.
    Compacted {
        collection: u32,
        epoch: u32,
        keywords: Vec<(Block, u32)>,
    },
}

/// What a record's successor is bound to: its nonce and its tag.
pub(crate) type Link = [u8; OVERHEAD_BYTES];

/// Where the log stands.
pub(crate) struct Journal {
    sealer: Aead,
    number: u64,
    link: Link,
    /// Bytes of records since the last checkpoint.
    pub(crate) since_checkpoint: usize,
}

fn associated(number: u64, link: &Link) -> Vec<u8> {
    [b"arras bisen log".as_slice(), &number.to_be_bytes(), link].concat()
}

fn link_of(sealed: &[u8]) -> Option<Link> {
    let (nonce, rest) = sealed.split_first_chunk::<NONCE_BYTES>()?;
    let (_, tag) = rest.split_last_chunk::<TAG_BYTES>()?;
    let mut link = [0; OVERHEAD_BYTES];
    link[..NONCE_BYTES].copy_from_slice(nonce);
    link[NONCE_BYTES..].copy_from_slice(tag);
    Some(link)
}

impl Journal {
    /// An empty log.
    pub(crate) fn new(root: &Key) -> Self {
        let sealer = Aead::new(root.derive(&[b"bisen", b"log"]).expose());
        Self { sealer, number: 0, link: [0; OVERHEAD_BYTES], since_checkpoint: 0 }
    }

    /// The number of the last record.
    pub(crate) fn number(&self) -> u64 {
        self.number
    }

    pub(crate) fn link(&self) -> &Link {
        &self.link
    }

    /// Goes on behind a checkpoint.
    pub(crate) fn resume(&mut self, number: u64, link: Link) {
        (self.number, self.link) = (number, link);
    }

    /// Seals the next record.
    pub(crate) fn seal(&mut self, change: &Change, prg: &mut Prg) -> Vec<u8> {
        let record = pad_in_proportion(codec::encode(change), STEP_BYTES);
        let mut nonce = [0; NONCE_BYTES];
        prg.fill(&mut nonce);
        let sealed = self.sealer.seal(&nonce, &associated(self.number + 1, &self.link), &record);
        self.advance(&sealed);
        sealed
    }

    /// Opens the next record.
    pub(crate) fn open(&mut self, sealed: &[u8]) -> Result<Change, Fault> {
        let opened = self.sealer.open(&associated(self.number + 1, &self.link), sealed);
        let record = opened.map_err(|_| Fault::StateAltered)?;
        let record = unpad(&record).map_err(|_| Fault::StateAltered)?;
        let change = codec::decode(record).map_err(|_| Fault::StateAltered)?;
        self.advance(sealed);
        Ok(change)
    }

    fn advance(&mut self, sealed: &[u8]) {
        self.link = link_of(sealed).unwrap_or(self.link);
        self.number += 1;
        self.since_checkpoint += sealed.len();
    }
}
