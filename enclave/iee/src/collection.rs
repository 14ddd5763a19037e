//! A collection: its keys, counters and documents.

use crate::documents::Documents;
use crate::table::{KEYWORD_BYTES, Table};
use arras_keys::Key;
use arras_primitives::Block;
use arras_primitives::bound_block::BoundBlock;
use arras_primitives::prf::Prf;
use arras_primitives::prg::Prg;
use arras_primitives::uniform::shuffle;
use arras_protocol::iee::{BATCH_MAX, put_bytes};
use arras_schemes::bisen::message::{Opened, Refused, Settings};
use arras_schemes::bisen::update::{Fence, Operation, Update};
use arras_schemes::bisen::{KeywordHash, Salt};
use postcard::fixint::le;
use serde::{Deserialize, Serialize};

/// Most entries of a collection, so that counters of 32 bits hold.
const ENTRIES_MAX: u64 = u32::MAX as u64;

/// What is small of a collection, as it is sealed: its numbers have one length, whatever they are.
#[derive(Clone, Serialize, Deserialize)]
pub(crate) struct About {
    pub(crate) name: String,
    pub(crate) settings: Settings,
    /// Grows with every change.
    #[serde(with = "le")]
    pub(crate) revision: u128,
    /// Entries of all keywords that searches see, spilled or not.
    #[serde(with = "le")]
    pub(crate) entries: u64,
}

/// Labels and sealing of a collection's entries.
pub(crate) struct EntryKeys {
    /// Makes stems of keywords' hashes, and labels of [`EntryKeys::place`]s.
    pub(crate) labels: Prf,
    /// Seals entries with their labels.
    pub(crate) entries: BoundBlock,
}

impl EntryKeys {
    pub(crate) fn derive(root: &Key, collection: u32) -> Self {
        let key = |purpose: &[u8]| root.derive(&[b"bisen", purpose, &collection.to_be_bytes()]);
        Self {
            labels: Prf::new(key(b"labels").expose_16()),
            entries: BoundBlock::new(key(b"entries").expose()),
        }
    }

    /// What the label of entry `counter` is made of.
    pub(crate) fn place(stem: &Block, epoch: u32, counter: u32) -> Block {
        let place = u128::from(epoch) << 32 | u128::from(counter);
        (u128::from_le_bytes(*stem) ^ place).to_le_bytes()
    }

    /// Entries as they are put, in a random order, of their labels' places.
    pub(crate) fn puts(&self, mut labels: Vec<Block>, mut blocks: Vec<Block>, prg: &mut Prg) -> Vec<Vec<u8>> {
        self.labels.blocks(&mut labels);
        let mut tags = vec![[0; 16]; labels.len()];
        self.entries.seal_each(&labels, &mut blocks, &mut tags);
        let mut order: Vec<u32> = (0..labels.len() as u32).collect();
        shuffle(&mut order, prg);
        let batch = |order: &[u32]| {
            let mut put = Vec::with_capacity(put_bytes(order.len()));
            for at in order.iter().map(|at| *at as usize) {
                put.extend_from_slice(&labels[at]);
                put.extend_from_slice(&blocks[at]);
                put.extend_from_slice(&tags[at]);
            }
            put
        };
        order.chunks(BATCH_MAX).map(batch).collect()
    }
}

/// A collection.
pub(crate) struct Collection {
    pub(crate) about: About,
    salt: Salt,
    pub(crate) keys: EntryKeys,
    pub(crate) table: Table,
    pub(crate) documents: Documents,
}

/// An update whose entries are ready to be stored.
pub(crate) struct Staged {
    touched: Vec<Block>,
    targets: Vec<u32>,
    /// How many entries each document has in it.
    entries: Vec<u32>,
    /// Puts of [`BATCH_MAX`] entries each.
    pub(crate) puts: Vec<Vec<u8>>,
}

/// What is sealed: operation and document number, metadata.
pub(crate) fn payload(operation: Operation, number: u32, metadata: &[u8; 12]) -> Block {
    let mut block = [0; 16];
    let head = u32::from(operation.code()) << 30 | number;
    block[..4].copy_from_slice(&head.to_le_bytes());
    block[4..].copy_from_slice(metadata);
    block
}

impl Collection {
    /// An empty one; what comes into its table is of this generation.
    pub(crate) fn new(root: &Key, number: u32, about: About, generation: u32) -> Self {
        let salt = Salt(*root.derive(&[b"bisen", b"salt", &number.to_be_bytes()]).expose_16());
        let (keys, table) = (EntryKeys::derive(root, number), Table::new(generation));
        Self { about, salt, keys, table, documents: Documents::default() }
    }

    /// Who does not change it does not hear how much in it is of use, which tells what went.
    pub(crate) fn opened(&self, number: u32, may_update: bool) -> Opened {
        Opened {
            collection: number,
            salt: self.salt,
            settings: self.about.settings.clone(),
            documents: self.documents.by_name.len() as u64,
            entries: self.about.entries,
            live_entries: if may_update { self.documents.live_entries } else { self.about.entries },
            revision: self.about.revision,
        }
    }

    pub(crate) fn bytes(&self) -> usize {
        self.table.keywords() * KEYWORD_BYTES + Documents::bytes_for(self.documents.bound())
    }

    pub(crate) fn stem(&self, keyword: &KeywordHash) -> Block {
        let mut stem = [keyword.0];
        self.keys.labels.blocks(&mut stem);
        stem[0]
    }

    /// Its revision with a change, which is the present one if that was the last.
    pub(crate) fn revision_with(&self, fence: Fence) -> Result<u128, Refused> {
        fence.next(self.about.revision).ok_or(Refused::Stale(self.about.revision))
    }

    /// Whether an update can be carried out, and by how many bytes the collection grows with it at the most.
    pub(crate) fn admit(&self, update: &Update) -> Result<usize, Refused> {
        let (_, new) = self.documents.targets(update)?;
        if self.about.entries + update.pairs.len() as u64 > ENTRIES_MAX {
            return Err(Refused::Memory { needed: ENTRIES_MAX + 1, budget: ENTRIES_MAX });
        }
        Ok(update.pairs.len() * KEYWORD_BYTES + Documents::bytes_for(new))
    }

    /// Makes the entries of an update that was admitted. Searches see nothing of it until it is published.
    pub(crate) fn stage(&mut self, update: &Update, prg: &mut Prg) -> Result<Staged, Refused> {
        let (targets, _) = self.documents.targets(update)?;
        let mut stems: Vec<Block> = update.pairs.iter().map(|pair| pair.keyword.0).collect();
        self.keys.labels.blocks(&mut stems);
        let mut touched = Vec::new();
        let mut places = Vec::with_capacity(stems.len());
        let mut blocks = Vec::with_capacity(stems.len());
        let mut entries = vec![0; targets.len()];
        for (stem, pair) in stems.iter().zip(&update.pairs) {
            let (epoch, counter, is_first) = self.table.next(stem);
            if is_first {
                touched.push(*stem);
            }
            places.push(EntryKeys::place(stem, epoch, counter));
            // The update is within bounds: its slots are.
            let slot = pair.slot as usize;
            entries[slot] += 1;
            blocks.push(payload(pair.operation, targets[slot], &pair.metadata.0));
        }
        let puts = self.keys.puts(places, blocks, prg);
        Ok(Staged { touched, targets, entries, puts })
    }

    /// From now on searches see it.
    pub(crate) fn publish(&mut self, update: &Update, staged: &Staged) {
        self.about.revision = update.fence.next(self.about.revision).unwrap_or(self.about.revision);
        self.about.entries += update.pairs.len() as u64;
        self.table.publish(&staged.touched);
        self.documents.apply(update, &staged.targets, &staged.entries);
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use arras_protocol::codec::encoded_bytes;
    use arras_protocol::iee::CLIENT_BYTES_MAX;
    use arras_schemes::bisen::update::{Metadata, Pair};
    use std::collections::BTreeMap;

    #[test]
    fn what_is_pending_is_counted_whatever_a_message_holds() {
        let pair = Pair {
            operation: Operation::Add,
            keyword: KeywordHash([0; 16]),
            slot: 0,
            metadata: Metadata([0; 12]),
        };
        assert!(encoded_bytes(&pair) * usize::from(u16::MAX) > CLIENT_BYTES_MAX);
    }

    fn bytes(hex: &str) -> Vec<u8> {
        (0..hex.len()).step_by(2).map(|at| u8::from_str_radix(&hex[at..at + 2], 16).unwrap()).collect()
    }

    #[test]
    fn entries_are_those_of_a_second_implementation() {
        let text =
            std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../../kat/bisen.txt")).unwrap();
        let mut cases = 0;
        for case in text.split("\n\n").filter(|case| case.contains("root: ")) {
            let fields: BTreeMap<&str, &str> =
                case.lines().filter_map(|line| line.split_once(": ")).collect();
            let number = |name: &str| fields[name].parse::<u32>().unwrap();
            let mut root: [u8; 32] = bytes(fields["root"]).try_into().unwrap();
            let keys = EntryKeys::derive(&Key::take_from(&mut root), number("collection"));
            let salt = Salt(bytes(fields["salt"]).try_into().unwrap());
            let hash = KeywordHash::of(&salt, &bytes(fields["keyword"]));
            assert_eq!(hash.0[..], bytes(fields["hash"]));
            let mut stem = [hash.0];
            keys.labels.blocks(&mut stem);
            let mut labels = [EntryKeys::place(&stem[0], number("epoch"), number("counter"))];
            keys.labels.blocks(&mut labels);
            let operation = Operation::of_code(number("operation") as u8).unwrap();
            let metadata = bytes(fields["metadata"]).try_into().unwrap();
            let block = payload(operation, number("document"), &metadata);
            let (mut blocks, mut tags) = ([block], [[0; 16]]);
            keys.entries.seal_each(&labels, &mut blocks, &mut tags);
            assert_eq!([labels[0], blocks[0], tags[0]].concat(), bytes(fields["stored"]));
            keys.entries.open_each(&labels, &mut blocks, &tags).unwrap();
            assert_eq!(blocks, [block]);
            cases += 1;
        }
        assert_eq!(cases, 5);
    }
}
