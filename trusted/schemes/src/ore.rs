//! Keyed halves of the order-preserving and order-revealing encryption schemes, behind one trait. Comparison is
//! keyless and lives with the server ([`arras_protocol::ore`] says what crosses).

#[cfg(feature = "bclo")]
pub mod bclo;
#[cfg(feature = "cloz")]
pub mod cloz;
pub mod clww;
pub mod domain;
pub mod fh_ope;
pub mod lewi_wu;
mod tie;

use crate::error::OpenFailed;
use arras_primitives::prg::Prg;
use arras_protocol::bplus::TieToken;
use arras_protocol::ore::Scheme;

/// Which end of a range a query ciphertext stands for. Matters where equal plaintexts have several ciphertexts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// Compares as less than or equal to every stored ciphertext of the value or of a greater one, and as greater
    /// than those of smaller values.
    Lower,
    /// Compares as greater than or equal to every stored ciphertext of the value or of a smaller one, and as less
    /// than those of greater values.
    Upper,
}

/// A new ciphertext, and what it did to earlier ones.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Encrypted {
    /// The ciphertext to store.
    pub stored: Vec<u8>,
    /// The ciphertext to compare with stored ones while `stored` finds its place.
    pub query: Vec<u8>,
    /// Stored ciphertexts that are different from now on, (old, new), ascending, their order unchanged. Empty but
    /// for a rebalanced FH-OPE. To be applied before `stored` is inserted.
    pub replaced: Vec<(Vec<u8>, Vec<u8>)>,
}

/// Why a plaintext was not encrypted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum EncryptFailed {
    /// The plaintext is greater than the scheme's domain has.
    #[error("the value is outside the scheme's domain")]
    OutsideDomain,
    /// A stateful scheme has no ciphertext left between two neighbours, not even after rebalancing.
    #[error("the scheme holds as many values as it can")]
    Full,
}

/// The keyed half of an OPE or ORE scheme. Plaintexts are unsigned numbers below 2^width; [`domain`] maps signed
/// ones and byte strings to them, order preserved.
pub trait OrderScheme: Send + Sync {
    /// What the server is told.
    fn scheme(&self) -> Scheme;

    /// Encrypts a value for storing. A stateful scheme remembers it.
    ///
    /// # Errors
    /// [`EncryptFailed`].
    fn encrypt(&mut self, value: u64, prg: &mut Prg) -> Result<Encrypted, EncryptFailed>;

    /// The query ciphertext of one end of a range. The value need not have been encrypted before.
    ///
    /// # Errors
    /// [`EncryptFailed::OutsideDomain`].
    fn bound(&self, value: u64, end: End, prg: &mut Prg) -> Result<Vec<u8>, EncryptFailed>;

    /// The value of a stored ciphertext.
    ///
    /// # Errors
    /// [`OpenFailed`]: wrong length, or made under another key, or altered as far as the scheme can tell.
    fn decrypt(&self, stored: &[u8]) -> Result<u64, OpenFailed>;

    /// For schemes whose ties a key breaks ([`Scheme::breaks_ties`]): what orders the rows of a value, from the key and
    /// the value alone. None for others.
    fn tie(&self, value: u64) -> Option<TieToken>;

    /// Tells a stateful scheme that a stored ciphertext is gone. No effect on others, nor for an unknown one.
    fn forget(&mut self, stored: &[u8]) {
        let _ = stored;
    }

    /// Bytes of state that the client keeps beside the key.
    fn state_bytes(&self) -> usize {
        0
    }
}

/// What an index needs of a scheme with state beside encryption, so that the state follows what became of its changes.
/// Stored ciphertexts are numbers here. None of these calls is one of the scheme's: they cost no primitive.
pub trait StatefulScheme: OrderScheme {
    /// How many values it has.
    fn values(&self) -> usize;

    /// The value of a ciphertext, if it is one.
    fn value(&self, ciphertext: u64) -> Option<u64>;

    /// Takes in a ciphertext made before; false, and nothing changes, if it does not belong between its neighbours.
    fn restore(&mut self, value: u64, ciphertext: u64) -> bool;

    /// Gives ciphertexts new numbers, (old, new), ascending in both and among all others; false, and nothing changes, if
    /// one is not there.
    fn rename(&mut self, moves: &[(u64, u64)]) -> bool;
}
