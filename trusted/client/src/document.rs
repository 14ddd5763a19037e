//! Documents as the server stores them: one AEAD ciphertext a top-level field (Arx's BASE), and a sealed
//! header.
//!
//! *Parameters.* AES-256-GCM-SIV under one key a field, derived from the collection's key; associated data is
//! (collection, row, field label, version), so a ciphertext moved to another document or field, or mixed with
//! those of another version of the same document, does not open.
//!
//! *Leakage.* Snapshot: number of fields, length of each, which documents have a field in common (its label is one
//! for the collection), and the header's length, which shows in steps of 64 bytes how long the names are and how
//! many values the equality indexes hold for the document together (`header`). Row ids are a deterministic function
//! of `_id` (EQunique): unique by definition, so they show no frequency, but an attacker who sees the same `_id`
//! come back sees that it did.

mod header;

use crate::error::OpenFailed;
use arras_documents::order;
use arras_keys::{Key, Purpose};
use arras_primitives::aead::{Aead, NONCE_BYTES};
use arras_primitives::det_aead::DetAead;
use arras_primitives::prf::Prf;
use arras_protocol::documents::SealedDocument;
use arras_protocol::{Blob, CollectionId, FieldLabel, IndexId, RowId};
use bson::{Bson, Document};
use header::Header;
use rand::CryptoRng;
use std::collections::HashMap;
use std::sync::{Arc, RwLock};

/// Fields whose ciphers are kept ready; past this number the least costly thing is to start over.
const FIELDS_KEPT: usize = 4096;

/// What the indexes hold for a document, so that a later removal finds it: for each ArxEq index the counters
/// its values were entered under, in the order of the document's sorted distinct values.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct IndexTerms {
    /// Index and counters.
    pub counters: Vec<(IndexId, Vec<u32>)>,
}

impl IndexTerms {
    /// The counters of one index; empty if the document is not in it.
    #[must_use]
    pub fn of(&self, index: IndexId) -> &[u32] {
        self.counters.iter().find(|(id, _)| *id == index).map_or(&[], |(_, counters)| counters)
    }
}

/// A document out of the server's store.
#[derive(Clone, Debug, PartialEq)]
pub struct OpenDocument {
    /// Its name there.
    pub row: RowId,
    /// Of its sealing: its header may be replaced alone ([`DocumentSealer::header`]), but not its fields.
    pub version: [u8; 8],
    /// Its place in insertion order.
    pub sequence: u64,
    /// What the indexes hold for it.
    pub terms: IndexTerms,
    /// The document.
    pub document: Document,
}

/// A document cannot be stored: as BSON it would not be what it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a field name or a regular expression holds a null byte, which BSON cannot store")]
pub struct NotStorable;

/// Cipher and label of one field.
struct FieldCipher {
    label: FieldLabel,
    aead: Aead,
}

/// Seals and opens the documents of one collection.
pub struct DocumentSealer {
    collection: CollectionId,
    rows: DetAead,
    labels: Prf,
    header: Aead,
    key: Key,
    fields: RwLock<HashMap<String, Arc<FieldCipher>>>,
}

impl std::fmt::Debug for DocumentSealer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "DocumentSealer({:?})", self.collection)
    }
}

impl DocumentSealer {
    /// Derives the ciphers of a collection from its key.
    #[must_use]
    pub fn new(collection: CollectionId, key: Key) -> Self {
        Self {
            collection,
            rows: DetAead::new(key.child(Purpose::CollectionRowId).expose()),
            labels: Prf::new(key.child(Purpose::CollectionFieldLabels).expose_16()),
            header: Aead::new(key.child(Purpose::CollectionHeaderSeal).expose()),
            key,
            fields: RwLock::default(),
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
        let mut fields: Vec<(FieldLabel, Blob)> = document
            .iter()
            .map(|(name, value)| {
                let value = value_bytes(value)?;
                if name.contains('\0') {
                    return Err(NotStorable);
                }
                let cipher = self.cipher(name);
                let associated = self.associated(row, &cipher.label.0, version);
                Ok((cipher.label, cipher.aead.seal(&nonce(rng), &associated, &value).into()))
            })
            .collect::<Result<_, _>>()?;
        fields.sort_unstable_by_key(|(label, _)| *label);
        let header = Header { version, sequence, names: document.keys().cloned().collect(), terms };
        let header = self.seal_header(row, header, rng);
        Ok(SealedDocument { row, header, fields })
    }

    /// Seals a document's header again, with other terms, to stand with the fields that are stored: of the same
    /// length if there are as many of them.
    #[must_use]
    pub fn header(&self, document: &OpenDocument, terms: IndexTerms, rng: &mut impl CryptoRng) -> Blob {
        let OpenDocument { row, version, sequence, terms: _, document } = document;
        let names = document.keys().cloned().collect();
        self.seal_header(*row, Header { version: *version, sequence: *sequence, names, terms }, rng)
    }

    fn seal_header(&self, row: RowId, header: Header, rng: &mut impl CryptoRng) -> Blob {
        let associated = self.associated(row, b"header", [0; 8]);
        self.header.seal(&nonce(rng), &associated, &header.encode()).into()
    }

    /// Opens a document.
    ///
    /// # Errors
    /// [`OpenFailed`] if anything is not what [`Self::seal`] made for this collection and row.
    pub fn open(&self, sealed: &SealedDocument) -> Result<OpenDocument, OpenFailed> {
        let associated = self.associated(sealed.row, b"header", [0; 8]);
        let header = self.header.open(&associated, sealed.header.as_slice()).map_err(|_| OpenFailed)?;
        let header = Header::decode(&header)?;
        if header.names.len() != sealed.fields.len() {
            return Err(OpenFailed);
        }
        let mut document = Document::new();
        for name in &header.names {
            let cipher = self.cipher(name);
            let place = sealed.fields.binary_search_by_key(&cipher.label, |(label, _)| *label);
            let (_, value) = place.ok().and_then(|place| sealed.fields.get(place)).ok_or(OpenFailed)?;
            let associated = self.associated(sealed.row, &cipher.label.0, header.version);
            let value = cipher.aead.open(&associated, value.as_slice()).map_err(|_| OpenFailed)?;
            document.insert(name.clone(), value_from_bytes(&value)?);
        }
        let Header { version, sequence, names: _, terms } = header;
        Ok(OpenDocument { row: sealed.row, version, sequence, terms, document })
    }

    fn associated(&self, row: RowId, field: &[u8], version: [u8; 8]) -> Vec<u8> {
        [self.collection.as_bytes(), row.as_bytes().as_slice(), field, &version].concat()
    }

    /// The cipher of a field, derived on first use.
    fn cipher(&self, name: &str) -> Arc<FieldCipher> {
        if let Some(cipher) = self.fields.read().ok().and_then(|fields| fields.get(name).cloned()) {
            return cipher;
        }
        let mut label = [0; FieldLabel::BYTES];
        let tag = self.labels.mac(name.as_bytes());
        label.iter_mut().zip(tag).for_each(|(to, from)| *to = from);
        let aead = Aead::new(self.key.child(Purpose::CollectionFieldSeal(name)).expose());
        let cipher = Arc::new(FieldCipher { label: FieldLabel(label), aead });
        if let Ok(mut fields) = self.fields.write() {
            if fields.len() >= FIELDS_KEPT {
                fields.clear();
            }
            fields.insert(name.to_owned(), Arc::clone(&cipher));
        }
        cipher
    }
}

fn nonce(rng: &mut impl CryptoRng) -> [u8; NONCE_BYTES] {
    let mut nonce = [0; NONCE_BYTES];
    rng.fill_bytes(&mut nonce);
    nonce
}

/// A value as bytes: a BSON document with one unnamed element.
fn value_bytes(value: &Bson) -> Result<Vec<u8>, NotStorable> {
    let mut document = Document::new();
    document.insert("", value.clone());
    document.to_vec().map_err(|_| NotStorable)
}

fn value_from_bytes(bytes: &[u8]) -> Result<Bson, OpenFailed> {
    let mut document = Document::from_reader(bytes).map_err(|_| OpenFailed)?;
    document.remove("").ok_or(OpenFailed)
}

#[cfg(test)]
#[path = "document_tests.rs"]
mod tests;
