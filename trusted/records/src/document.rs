//! Documents as the server stores them: one AEAD ciphertext for all values (Arx's BASE, whose ciphertexts are one a
//! field: as a document is read and written whole, one shows less and costs less), and a sealed header.
//!
//! *Parameters.* AES-256-GCM-SIV under two keys derived from the collection's; associated data is (collection, row, what
//! it is, version), so a ciphertext moved to another document, or mixed with one of another version of the same
//! document, does not open.
//!
//! *Leakage.* Snapshot: the length of all values together (`values`), and the header's length, which shows in steps of 64
//! bytes how long the names are and how many values the equality indexes hold for the document together (`header`). Row
//! ids are a deterministic function of `_id` (EQunique): unique by definition, so they show no frequency, but an attacker
//! who sees the same `_id` come back sees that it did.

mod header;
mod values;

use arras_documents::order;
use arras_keys::{Key, Purpose};
use arras_primitives::aead::{Aead, NONCE_BYTES};
use arras_primitives::det_aead::DetAead;
use arras_protocol::documents::SealedDocument;
use arras_protocol::{Blob, CollectionId, IndexId, RowId};
use arras_schemes::contract::Held;
use arras_schemes::error::OpenFailed;
use bson::{Bson, Document, RawDocumentBuf};
use header::Header;
use rand::CryptoRng;

const PART_BYTES: usize = 6;
/// The two parts, in associated data.
const HEADER: &[u8; PART_BYTES] = b"header";
const VALUES: &[u8; PART_BYTES] = b"values";
const ASSOCIATED_BYTES: usize = CollectionId::BYTES + RowId::BYTES + PART_BYTES + 8;

/// What the indexes hold for a document, so that a later removal finds it: for each ArxEq index where the entries
/// of its values are, in the order of the document's sorted distinct values.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct IndexTerms {
    /// Index and entries.
    pub entries: Vec<(IndexId, Vec<Held>)>,
}

impl IndexTerms {
    /// The entries of one index; empty if the document is not in it.
    #[must_use]
    pub fn of(&self, index: IndexId) -> &[Held] {
        self.entries.iter().find(|(id, _)| *id == index).map_or(&[], |(_, entries)| entries)
    }
}

/// A document out of the server's store.
#[derive(Clone, Debug, PartialEq)]
pub struct OpenDocument {
    /// Its name there.
    pub row: RowId,
    /// Of its sealing: its header may be replaced alone ([`DocumentSealer::header`]), but not its values.
    pub version: [u8; 8],
    /// Its place in insertion order.
    pub sequence: u64,
    /// What the indexes hold for it.
    pub terms: IndexTerms,
    /// The document.
    pub document: Document,
    /// Its size as BSON.
    pub bytes: usize,
}

/// A document cannot be stored: as BSON it would not be what it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a field name or a regular expression holds a null byte, which BSON cannot store")]
pub struct NotStorable;

/// Seals and opens the documents of one collection.
pub struct DocumentSealer {
    collection: CollectionId,
    rows: DetAead,
    header: Aead,
    values: Aead,
}

impl std::fmt::Debug for DocumentSealer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "DocumentSealer({:?})", self.collection)
    }
}

impl DocumentSealer {
    /// Derives the ciphers of a collection from its key.
    #[must_use]
    pub fn new(collection: CollectionId, key: &Key) -> Self {
        Self {
            collection,
            rows: DetAead::new(key.child(Purpose::CollectionRowId).expose()),
            header: Aead::new(key.child(Purpose::CollectionHeaderSeal).expose()),
            values: Aead::new(key.child(Purpose::CollectionValuesSeal).expose()),
        }
    }

    /// The row of a document, from its `_id`. Ids that are equal in MongoDB's sense (1 and 1.0) meet.
    #[must_use]
    pub fn row_id(&self, id: &Bson) -> RowId {
        RowId(self.rows.tag(&[self.collection.as_bytes()], &order::canonical(id)))
    }

    /// Seals a document.
    ///
    /// # Errors
    /// [`NotStorable`]: what was sealed could not be read again.
    pub fn seal(
        &self,
        row: RowId,
        sequence: u64,
        terms: IndexTerms,
        document: &Document,
        rng: &mut impl CryptoRng,
    ) -> Result<SealedDocument, NotStorable> {
        let mut version = [0; 8];
        rng.fill_bytes(&mut version);
        let values = values::encode(document)?;
        let values = self.values.seal(&nonce(rng), &self.associated(row, VALUES, version), &values).into();
        let header = Header { version, sequence, names: document.keys().cloned().collect(), terms };
        let header = self.seal_header(row, header, rng);
        Ok(SealedDocument { row, header, values })
    }

    /// Seals a document's header again, with other terms, to stand with the values that are stored: of the same
    /// length if there are as many of them.
    #[must_use]
    pub fn header(&self, document: &OpenDocument, terms: IndexTerms, rng: &mut impl CryptoRng) -> Blob {
        let OpenDocument { row, version, sequence, terms: _, document, bytes: _ } = document;
        let names = document.keys().cloned().collect();
        self.seal_header(*row, Header { version: *version, sequence: *sequence, names, terms }, rng)
    }

    fn seal_header(&self, row: RowId, header: Header, rng: &mut impl CryptoRng) -> Blob {
        let associated = self.associated(row, HEADER, [0; 8]);
        self.header.seal(&nonce(rng), &associated, &header.encode()).into()
    }

    /// Opens a document.
    ///
    /// # Errors
    /// [`OpenFailed`] if anything is not what [`Self::seal`] made for this collection and row.
    pub fn open(&self, sealed: &SealedDocument) -> Result<OpenDocument, OpenFailed> {
        let associated = self.associated(sealed.row, HEADER, [0; 8]);
        let header = self.header.open(&associated, sealed.header.as_slice()).map_err(|_| OpenFailed)?;
        let Header { version, sequence, names, terms } = Header::decode(&header)?;
        let associated = self.associated(sealed.row, VALUES, version);
        let values = self.values.open(&associated, sealed.values.as_slice()).map_err(|_| OpenFailed)?;
        // Values are stored under names of no length.
        let bytes = names.iter().map(String::len).sum::<usize>() + values.len();
        let document = values::decode(names, &values)?;
        Ok(OpenDocument { row: sealed.row, version, sequence, terms, document, bytes })
    }

    /// Opens a document that is only handed on: as BSON, the same as [`Self::open`] would find.
    ///
    /// # Errors
    /// [`OpenFailed`] as of [`Self::open`].
    pub fn open_encoded(&self, sealed: &SealedDocument) -> Result<RawDocumentBuf, OpenFailed> {
        let associated = self.associated(sealed.row, HEADER, [0; 8]);
        let header = self.header.open(&associated, sealed.header.as_slice()).map_err(|_| OpenFailed)?;
        let (version, names) = header::names(&header)?;
        let associated = self.associated(sealed.row, VALUES, version);
        let values = self.values.open(&associated, sealed.values.as_slice()).map_err(|_| OpenFailed)?;
        values::join(&names, &values)
    }

    /// What binds a ciphertext to its place. Its length is one for each part.
    fn associated(&self, row: RowId, part: &[u8; PART_BYTES], version: [u8; 8]) -> [u8; ASSOCIATED_BYTES] {
        let mut associated = [0; ASSOCIATED_BYTES];
        let (collection, rest) = associated.split_at_mut(CollectionId::BYTES);
        let (name, rest) = rest.split_at_mut(RowId::BYTES);
        let (what, sealing) = rest.split_at_mut(PART_BYTES);
        collection.copy_from_slice(self.collection.as_bytes());
        name.copy_from_slice(row.as_bytes());
        what.copy_from_slice(part);
        sealing.copy_from_slice(&version);
        associated
    }
}

fn nonce(rng: &mut impl CryptoRng) -> [u8; NONCE_BYTES] {
    let mut nonce = [0; NONCE_BYTES];
    rng.fill_bytes(&mut nonce);
    nonce
}

#[cfg(test)]
mod tests;
