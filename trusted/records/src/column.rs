//! Values of columns of SQL tables as the database stores them: a sealed value, and a term that equal values share.
//!
//! *Parameters.* Values are sealed with AES-256-GCM-SIV under a key of the column's own, at a random nonce; associated data
//! is the column's id. What is sealed begins with the version of the root that it was sealed under: the keyring's newest,
//! while values of older ones still open. Equality terms are AES-SIV tags under the *oldest* root, as a term that changed
//! with the keyring would not be equal to itself. A column's check is HKDF-SHA256 of a key of its own under the oldest root.
//!
//! What a statement gives for its own results is sealed so, too, under another key of the column's, of the newest root; associated data
//! is the id and the context, of a length that is the caller's for good.
//!
//! *Leakage.* Sealed values: their lengths, which are one for a column whose type or declaration has a longest value, and
//! show steps for one that has none ([`Padding`]); the version. Equality terms: which values of the columns that share a
//! key are equal, and so how often each is there.

#[cfg(test)]
mod tests;

use arras_keys::{Key, Purpose};
use arras_primitives::aead::{Aead, NONCE_BYTES};
use arras_primitives::det_aead::DetAead;
use arras_primitives::kdf::hkdf_sha256;
use arras_schemes::padding::{pad, pad_in_proportion, unpad};
use arras_schemes::random::{Randomness, SYSTEM};
use arras_service::columns::{ColumnKeys, Declared, Padding};
use arras_service::{Fault, ServiceError};
use rand::Rng;
use std::collections::BTreeMap;
use std::sync::Arc;
use zeroize::Zeroizing;

/// Bytes of a version before what is sealed.
const VERSION_BYTES: usize = 4;
/// What lengths are rounded up to where they have no limit.
const STEP: usize = 32;

/// Salt of checks.
const CHECK_SALT: &[u8] = b"arras column check 1";
/// Bytes of a check.
pub const COLUMN_CHECK_BYTES: usize = 16;

/// What the database keeps of a column, by which it is noticed that other keys are used for it: pseudo-random, of a key of the
/// column's own under the keyring's oldest root, and of what it is bound to.
#[must_use]
pub fn column_check(root: &Key, column: &[u8; 8], bound: &[&[u8]]) -> [u8; COLUMN_CHECK_BYTES] {
    let key = root.child(Purpose::Column(column)).child(Purpose::ColumnCheck);
    let mut check = [0; COLUMN_CHECK_BYTES];
    hkdf_sha256(key.expose(), CHECK_SALT, bound, &mut check);
    check
}

/// Seals and opens the values of one column.
pub struct ColumnSealer {
    declared: Declared,
    /// By the version of the root, the newest last.
    seals: Vec<(u32, Aead)>,
    /// Of what statements give for their own results, which none keeps: under the newest root.
    results: Aead,
    equality: DetAead,
    random: Randomness,
}

impl std::fmt::Debug for ColumnSealer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "ColumnSealer({:?})", self.declared)
    }
}

impl ColumnSealer {
    /// Derives the ciphers of a column from the keyring's roots: versions and roots, the oldest first. None without a root.
    /// Nonces are the operating system's.
    #[must_use]
    pub fn new<'k>(declared: Declared, roots: impl IntoIterator<Item = (u32, &'k Key)>) -> Option<Self> {
        let (mut seals, mut equality, mut results) = (Vec::new(), None, None);
        for (version, root) in roots {
            let column = root.child(Purpose::Column(&declared.id));
            seals.push((version, Aead::new(column.child(Purpose::ColumnSeal).expose())));
            results = Some(Aead::new(column.child(Purpose::ColumnResultSeal).expose()));
            equality.get_or_insert_with(|| DetAead::new(column.child(Purpose::ColumnEquality).expose()));
        }
        let (results, equality) = (results?, equality?);
        Some(Self { declared, seals, results, equality, random: SYSTEM.clone() })
    }

    /// The same with nonces from another source.
    #[must_use]
    pub fn drawing_from(self, random: Randomness) -> Self {
        Self { random, ..self }
    }

    fn nonce(&self) -> [u8; NONCE_BYTES] {
        let mut nonce = [0; NONCE_BYTES];
        self.random.rng().fill_bytes(&mut nonce);
        nonce
    }

    /// How a value for results is padded, which may be of another type than the column's.
    fn padding_of_result(&self, canonical: &[u8]) -> Padding {
        match self.declared.padding {
            Padding::To(longest) if canonical.len() <= longest => Padding::To(longest),
            Padding::None | Padding::To(_) | Padding::InSteps => Padding::InSteps,
        }
    }

    fn padded(canonical: &[u8], padding: Padding) -> Zeroizing<Vec<u8>> {
        // With room for all of the padding, so that no copy of the value is left behind by a growing vector.
        let room = canonical.len() + canonical.len() / 8 + 2 * STEP;
        let plaintext = |room| {
            let mut plaintext = Vec::with_capacity(room);
            plaintext.extend_from_slice(canonical);
            plaintext
        };
        Zeroizing::new(match padding {
            Padding::None => canonical.to_vec(),
            Padding::To(longest) => {
                let length = longest.max(canonical.len()) + 1;
                pad(plaintext(length), length)
            }
            Padding::InSteps => pad_in_proportion(plaintext(room), STEP),
        })
    }
}

fn refused() -> ServiceError {
    ServiceError::new(
        Fault::Corruption,
        "a value of an encrypted column does not open: it was altered, moved, or sealed under another key",
    )
}

impl ColumnKeys for ColumnSealer {
    fn seal(&self, canonical: &[u8]) -> Vec<u8> {
        let Some((version, seal)) = self.seals.last() else { return Vec::new() };
        let padded = Self::padded(canonical, self.declared.padding);
        let sealed = seal.seal(&self.nonce(), &self.declared.id, &padded);
        [&version.to_be_bytes()[..], &sealed].concat()
    }

    fn open(&self, sealed: &[u8]) -> Result<Vec<u8>, ServiceError> {
        let (version, sealed) = sealed.split_first_chunk::<VERSION_BYTES>().ok_or_else(refused)?;
        let version = u32::from_be_bytes(*version);
        let (_, seal) = self.seals.iter().find(|(known, _)| *known == version).ok_or_else(refused)?;
        let padded = Zeroizing::new(seal.open(&self.declared.id, sealed).map_err(|_| refused())?);
        match self.declared.padding {
            Padding::None => Ok(padded.to_vec()),
            Padding::To(_) | Padding::InSteps => Ok(unpad(&padded).map_err(|_| refused())?.to_vec()),
        }
    }

    fn seal_for(&self, context: &[u8], canonical: &[u8]) -> Vec<u8> {
        let padded = Self::padded(canonical, self.padding_of_result(canonical));
        self.results.seal(&self.nonce(), &[&self.declared.id, context].concat(), &padded)
    }

    fn open_for(&self, context: &[u8], sealed: &[u8]) -> Result<Vec<u8>, ServiceError> {
        let opened = self.results.open(&[&self.declared.id, context].concat(), sealed);
        let padded = Zeroizing::new(opened.map_err(|_| refused())?);
        Ok(unpad(&padded).map_err(|_| refused())?.to_vec())
    }

    fn equality(&self, canonical: &[u8]) -> [u8; 16] {
        self.equality.tag(&[&self.declared.id], canonical)
    }
}

/// The sealers of a schema's columns.
#[derive(Debug, Default)]
pub struct ColumnSealers {
    by_id: BTreeMap<[u8; 8], Arc<ColumnSealer>>,
}

impl ColumnSealers {
    /// The sealers of columns, from the keyring's roots, the oldest first.
    #[must_use]
    pub fn new(declared: impl IntoIterator<Item = Declared>, roots: &[(u32, &Key)]) -> Self {
        let sealer = |declared: Declared| {
            let sealer = ColumnSealer::new(declared, roots.iter().copied())?;
            Some((declared.id, Arc::new(sealer)))
        };
        Self { by_id: declared.into_iter().filter_map(sealer).collect() }
    }

    /// The sealer of a column; none if it is not one of them.
    #[must_use]
    pub fn get(&self, column: [u8; 8]) -> Option<Arc<ColumnSealer>> {
        self.by_id.get(&column).cloned()
    }
}
