//! The keys of a collection, at work.

use arras_keys::Key;
use arras_primitives::Block;
use arras_primitives::bound_block::BoundBlock;
use arras_primitives::prf::Prf;

/// Labels and sealing of a collection's entries.
pub(crate) struct EntryKeys {
    labels: Prf,
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

    /// Hashes of keywords to their stems.
    pub(crate) fn stems(&self, hashes: &mut [Block]) {
        self.labels.blocks(hashes);
    }

    /// What [`EntryKeys::labels`] makes the label of entry `counter` of.
    pub(crate) fn place(stem: &Block, epoch: u32, counter: u32) -> Block {
        let place = u128::from(epoch) << 32 | u128::from(counter);
        (u128::from_le_bytes(*stem) ^ place).to_le_bytes()
    }

    /// Places to labels.
    pub(crate) fn labels(&self, places: &mut [Block]) {
        self.labels.blocks(places);
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::collection::payload;
    use arras_schemes::bisen::update::Operation;
    use arras_schemes::bisen::{KeywordHash, Salt};
    use std::collections::BTreeMap;

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
            keys.stems(&mut stem);
            let mut labels = [EntryKeys::place(&stem[0], number("epoch"), number("counter"))];
            keys.labels(&mut labels);
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
