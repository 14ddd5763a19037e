//! What is stored of an index, and under which keys.

use super::{damaged, malformed};
use crate::backend::storage;
use crate::keyspace::key;
use crate::leftovers;
use arras_protocol::mope::index::{CIPHERTEXT_BYTES_MAX, Listed, SealedRow};
use arras_protocol::mope::{Head, Label, Node};
use arras_protocol::{Blob, IndexId, Refusal, codec};
use arras_storage::{Read, Table, Write};
use serde::{Deserialize, Serialize};

/// Index id to what an index is.
const INDEXES: Table = Table("mope_indexes");
/// Index id and number to a node.
pub(super) const NODES: Table = Table("mope_nodes");
/// Index id and ciphertext to its label.
pub(super) const TABLE: Table = Table("mope_table");
/// Index id and label to its ciphertext.
pub(super) const LABELS: Table = Table("mope_labels");
/// Index id, ciphertext and name of an entry to nothing.
pub(super) const ENTRIES: Table = Table("mope_entries");
/// Tables that a drop empties of what begins with the index's id.
pub(crate) const EMPTIED: &[Table] = &[NODES, TABLE, LABELS, ENTRIES];

/// What is stored of an index itself.
#[derive(Serialize, Deserialize)]
struct Record {
    ciphertext_bytes: u16,
    head: Head,
}

/// An index as it is.
pub(super) struct Index {
    pub(super) id: IndexId,
    pub(super) head: Head,
    ciphertext_bytes: u16,
}

/// A label as it is stored.
pub(super) fn label_of(stored: &[u8]) -> Result<Label, Refusal> {
    let bytes = stored.try_into().map_err(|_| Refusal::Damaged("a label is not 8 bytes".into()))?;
    Ok(Label::from_be_bytes(bytes))
}

impl Index {
    pub(super) fn open(reader: &impl Read, id: IndexId) -> Result<Self, Refusal> {
        let stored = reader.get(INDEXES, id.as_bytes()).map_err(storage)?.ok_or(Refusal::UnknownIndex)?;
        let Record { ciphertext_bytes, head } =
            codec::decode(&stored).map_err(|_| damaged(id, "what is stored of the index itself"))?;
        Ok(Self { id, head, ciphertext_bytes })
    }

    pub(super) fn save(&self, writer: &mut impl Write) -> Result<(), Refusal> {
        let record = Record { ciphertext_bytes: self.ciphertext_bytes, head: self.head };
        writer.put(INDEXES, self.id.as_bytes(), &codec::encode(&record)).map_err(storage)
    }

    /// The tree is at another version than a request takes it to be at.
    pub(super) fn other_version(&self) -> Refusal {
        Refusal::OtherVersion { version: self.head.version }
    }

    /// Entries lie under their ciphertexts, of which none may begin with another.
    pub(super) fn check_ciphertexts<'c>(
        &self,
        mut ciphertexts: impl Iterator<Item = &'c Blob>,
    ) -> Result<(), Refusal> {
        if ciphertexts.all(|ciphertext| ciphertext.len() == usize::from(self.ciphertext_bytes)) {
            return Ok(());
        }
        Err(malformed("a ciphertext of another length than the index's"))
    }

    pub(super) fn node_key(&self, node: Node) -> Vec<u8> {
        key(&[self.id.as_bytes(), &node.to_be_bytes()])
    }

    pub(super) fn table_key(&self, ciphertext: &[u8]) -> Vec<u8> {
        key(&[self.id.as_bytes(), ciphertext])
    }

    pub(super) fn label_key(&self, label: Label) -> Vec<u8> {
        key(&[self.id.as_bytes(), &label.to_be_bytes()])
    }

    /// The label in a key of [`LABELS`].
    pub(super) fn label_in(&self, key: &[u8]) -> Result<Label, Refusal> {
        label_of(key.get(IndexId::BYTES..).unwrap_or_default())
    }

    pub(super) fn entry_key(&self, entry: &Listed) -> Vec<u8> {
        key(&[self.id.as_bytes(), entry.ciphertext.as_slice(), &entry.sealed.0])
    }

    /// What the keys of a ciphertext's entries begin with.
    pub(super) fn entries_prefix(&self, ciphertext: &[u8]) -> Vec<u8> {
        key(&[self.id.as_bytes(), ciphertext])
    }

    /// The name in a key of [`ENTRIES`].
    pub(super) fn name_in<'k>(&self, key: &'k [u8]) -> Result<&'k [u8], Refusal> {
        let before = IndexId::BYTES + usize::from(self.ciphertext_bytes);
        let name = key.get(before..).filter(|name| name.len() == SealedRow::BYTES);
        name.ok_or_else(|| damaged(self.id, "an entry's name is of another length"))
    }

    /// The label of a ciphertext; none if the table is without it.
    pub(super) fn label(&self, reader: &impl Read, ciphertext: &[u8]) -> Result<Option<Label>, Refusal> {
        let stored = reader.get(TABLE, &self.table_key(ciphertext)).map_err(storage)?;
        stored.map(|label| label_of(&label)).transpose()
    }
}

pub(super) fn create(writer: &mut impl Write, id: IndexId, ciphertext_bytes: u16) -> Result<(), Refusal> {
    if ciphertext_bytes == 0 || ciphertext_bytes > CIPHERTEXT_BYTES_MAX {
        return Err(malformed("ciphertexts of no bytes, or of too many"));
    }
    match Index::open(writer, id) {
        Ok(index) if index.ciphertext_bytes == ciphertext_bytes => Ok(()),
        Ok(_) => Err(malformed("the index is there, with ciphertexts of another length")),
        Err(Refusal::UnknownIndex) => {
            leftovers::none_of(writer, EMPTIED, id.as_bytes())?;
            Index { id, head: Head::default(), ciphertext_bytes }.save(writer)
        }
        Err(other) => Err(other),
    }
}

pub(super) fn drop_index(writer: &mut impl Write, id: IndexId) -> Result<(), Refusal> {
    writer.delete(INDEXES, id.as_bytes()).map_err(storage)?;
    EMPTIED.iter().try_for_each(|table| leftovers::remove(writer, *table, id.as_bytes()))
}
