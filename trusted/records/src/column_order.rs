//! Terms of the order of a SQL column that are ciphertexts by themselves, where no tree is kept.
//!
//! *Parameters.* Order keys are unsigned numbers, big endian, of one length a column, 8 bytes at most; a scheme takes them
//! as numbers of 32 or 64 bits. Its key is the column's own, below the keyring's *oldest* root, as a term must stay
//! comparable with those before it.
//!
//! *Leakage.* The scheme's ([`arras_schemes::ore`]), of all values that the column ever held and all that it was compared
//! with.

#[cfg(test)]
mod tests;

use arras_keys::{Key, Purpose};
use arras_primitives::prg::Prg;
use arras_protocol::ore::Width;
#[cfg(feature = "bclo")]
use arras_schemes::ore::bclo::Bclo;
use arras_schemes::ore::clww::Clww;
use arras_schemes::ore::lewi_wu::{BlockBits, LewiWu, SlotHash};
use arras_schemes::ore::{EncryptFailed, End, OrderScheme};
use arras_schemes::random::SYSTEM;
use arras_service::columns::OrderTerms;
use arras_service::{Fault, ServiceError};
use rand::Rng;

/// A scheme of such terms.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TermScheme {
    /// Ciphertexts in the order of the values. Only where this crate is built with it.
    Bclo,
    /// Ciphertexts that a function compares.
    Clww,
    /// Stored ciphertexts that are random by themselves, and others that a function compares them with: blocks of 4 bits, slots
    /// masked by SHA-256, which a database computes.
    LewiWu,
}

impl TermScheme {
    /// The scheme of a name, as schema files have it.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        match name {
            "bclo" => Some(Self::Bclo),
            "clww" => Some(Self::Clww),
            "lewi_wu" => Some(Self::LewiWu),
            _ => None,
        }
    }
}

/// Makes the terms of one column's order.
#[derive(Debug)]
pub struct ColumnOrder {
    key_bytes: usize,
    cipher: Cipher,
}

/// How a scheme's ciphertexts come about.
enum Cipher {
    /// A value has one ciphertext, which is stored and compared with.
    One(Box<dyn OrderScheme>),
    /// What is stored is drawn anew for each row; what it is compared with is a function of the value.
    Sides(Box<LewiWu>),
}

impl std::fmt::Debug for Cipher {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::One(scheme) => write!(f, "Cipher({:?})", scheme.scheme()),
            Self::Sides(scheme) => write!(f, "Cipher({:?})", scheme.scheme()),
        }
    }
}

/// A generator for what draws nothing.
fn unused() -> Prg {
    Prg::new(&[0; 16])
}

/// A generator for one ciphertext.
fn drawn() -> Prg {
    let mut seed = [0; 16];
    SYSTEM.rng().fill_bytes(&mut seed);
    Prg::new(&seed)
}

impl ColumnOrder {
    /// Derives the keys of a column's order from the keyring's oldest root and the column's id. None: the keys are longer than
    /// 8 bytes, or the scheme was left out of this program.
    #[must_use]
    pub fn new(scheme: TermScheme, key_bytes: usize, oldest: &Key, id: &[u8; 8]) -> Option<Self> {
        let width = match key_bytes {
            1..=4 => Width::Bits32,
            5..=8 => Width::Bits64,
            _ => return None,
        };
        let column = oldest.child(Purpose::Column(id));
        let cipher = match scheme {
            #[cfg(feature = "bclo")]
            TermScheme::Bclo => Cipher::One(Box::new(Bclo::new(&column, width))),
            #[cfg(not(feature = "bclo"))]
            TermScheme::Bclo => return None,
            TermScheme::Clww => Cipher::One(Box::new(Clww::new(&column, width))),
            TermScheme::LewiWu => {
                Cipher::Sides(Box::new(LewiWu::with_hash(&column, width, BlockBits::Four, SlotHash::Sha256)))
            }
        };
        Some(Self { key_bytes, cipher })
    }

    fn number(&self, sortable: &[u8]) -> Result<u64, ServiceError> {
        if sortable.len() != self.key_bytes {
            return Err(internal("an order key is not of its column's length"));
        }
        Ok(sortable.iter().fold(0, |number, byte| number << 8 | u64::from(*byte)))
    }
}

fn internal(what: &str) -> ServiceError {
    ServiceError::new(Fault::Internal, what)
}

fn outside(error: EncryptFailed) -> ServiceError {
    ServiceError::new(Fault::Internal, error.to_string())
}

impl OrderTerms for ColumnOrder {
    fn stored(&self, sortable: &[u8]) -> Result<Vec<u8>, ServiceError> {
        let number = self.number(sortable)?;
        match &self.cipher {
            Cipher::One(scheme) => scheme.bound(number, End::Lower, &mut unused()).map_err(outside),
            Cipher::Sides(scheme) => {
                let mut right = vec![0; scheme.right_bytes()];
                scheme.encrypt_right(number, &mut drawn(), &mut right).map_err(outside)?;
                Ok(right)
            }
        }
    }

    fn compared(&self, sortable: &[u8]) -> Result<Vec<u8>, ServiceError> {
        let number = self.number(sortable)?;
        match &self.cipher {
            Cipher::One(scheme) => scheme.bound(number, End::Lower, &mut unused()).map_err(outside),
            Cipher::Sides(scheme) => scheme.bound(number, End::Lower, &mut unused()).map_err(outside),
        }
    }

    fn is_of(&self, stored: &[u8], sortable: &[u8]) -> bool {
        let Ok(number) = self.number(sortable) else { return false };
        match &self.cipher {
            Cipher::One(scheme) => {
                scheme.bound(number, End::Lower, &mut unused()).is_ok_and(|own| own == stored)
            }
            Cipher::Sides(scheme) => scheme.decrypt_right(stored).is_ok_and(|own| own == number),
        }
    }
}
