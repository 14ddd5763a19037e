//! Values of a column, and their ciphertexts.
//!
//! *Values* are byte strings whose order is the bytes' (numbers: big-endian, with the sign turned where there is one), all of
//! one [`Form`]. Inside they have one length, the *plain*, so that nodes have columns of fixed width.
//!
//! *Ciphertexts*, all of one length in a column and bound to it by the key. Up to 8 bytes: one AES block
//! ([`arras_primitives::number_block`]; 24 bytes where randomised). Longer: AES-SIV, 16 bytes more than the plain (32 where
//! randomised: with a nonce). In mOPE they are deterministic: equal values share a key of the tree. In stOPE a value is
//! encrypted under a fresh nonce when it enters, and again when it comes back: lifetimes are not linked. Where frequency is
//! hidden, each occurrence is encrypted under a nonce of its own.

use crate::error::{IndexError, OpenFailed};
use crate::random::Randomness;
use arras_keys::{Key, Purpose};
use arras_primitives::det_aead::{self, DetAead};
use arras_primitives::number_block::{self, NumberBlock};
use arras_primitives::wipe::Wiped;
use arras_primitives::{BLOCK_BYTES, Block};
use rand::Rng;

/// Bytes of a plain that one block holds.
const NUMBER_BYTES: usize = 8;

/// Bytes of a text's length behind its padding.
const LENGTH_BYTES: usize = 2;

/// Longest value, in bytes.
pub const VALUE_BYTES_MAX: u16 = 1024;

/// What the values of a column are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// All of so many bytes, from 1 to [`VALUE_BYTES_MAX`].
    Fixed(u16),
    /// Of any length up to so many bytes, from 1 to [`VALUE_BYTES_MAX`]: padded, so that ciphertexts say nothing of it.
    Text(u16),
}

impl Form {
    /// Bytes of a plain.
    fn plain_bytes(self) -> usize {
        match self {
            Self::Fixed(bytes) => usize::from(bytes).max(NUMBER_BYTES),
            Self::Text(most) => (usize::from(most) + LENGTH_BYTES).max(NUMBER_BYTES),
        }
    }

    /// The value of a plain.
    fn value(self, plain: &[u8]) -> Option<&[u8]> {
        match self {
            Self::Fixed(bytes) => plain.get(plain.len().checked_sub(usize::from(bytes))?..),
            Self::Text(most) => {
                let (rest, length) = plain.split_last_chunk::<LENGTH_BYTES>()?;
                let text = rest.get(rest.len().checked_sub(usize::from(most))?..)?;
                text.get(..usize::from(u16::from_be_bytes(*length)))
            }
        }
    }

    /// Appends a value's plain.
    fn append(self, value: &[u8], plains: &mut Vec<u8>) -> Result<(), IndexError> {
        let padding = |bytes: usize| std::iter::repeat_n(0, bytes);
        match self {
            Self::Fixed(bytes) if value.len() == usize::from(bytes) => {
                plains.extend(padding(self.plain_bytes() - value.len()));
                plains.extend_from_slice(value);
                Ok(())
            }
            Self::Text(most) if value.len() <= usize::from(most) => {
                plains.extend(padding(self.plain_bytes() - usize::from(most) - LENGTH_BYTES));
                plains.extend_from_slice(value);
                plains.extend(padding(usize::from(most) - value.len()));
                plains.extend_from_slice(&(value.len() as u16).to_be_bytes());
                Ok(())
            }
            Self::Fixed(_) | Self::Text(_) => {
                Err(IndexError::Caller("a value is not of its column's length"))
            }
        }
    }
}

/// Encrypts and decrypts the values of one column.
pub(super) struct Cipher {
    form: Form,
    method: Method,
    /// None: deterministic.
    nonces: Option<Randomness>,
}

enum Method {
    Number(Box<NumberBlock>),
    Long(DetAead),
}

impl Cipher {
    /// Under the key of a column's index; randomised (all but mOPE) if a source of nonces is given.
    pub(super) fn new(key: &Key, form: Form, nonces: Option<Randomness>) -> Result<Self, IndexError> {
        let (Form::Fixed(bytes) | Form::Text(bytes)) = form;
        if bytes == 0 || bytes > VALUE_BYTES_MAX {
            return Err(IndexError::Caller("the values of an mOPE column have from 1 to 1024 bytes"));
        }
        let key = key.child(Purpose::MopeSeal);
        let method = if form.plain_bytes() == NUMBER_BYTES {
            Method::Number(Box::new(NumberBlock::new(key.expose())))
        } else {
            Method::Long(DetAead::new(key.expose()))
        };
        Ok(Self { form, method, nonces })
    }

    /// Bytes of a plain.
    pub(super) fn plain_bytes(&self) -> usize {
        self.form.plain_bytes()
    }

    /// Bytes of a ciphertext.
    pub(super) fn ciphertext_bytes(&self) -> usize {
        match (&self.method, &self.nonces) {
            (Method::Number(_), None) => BLOCK_BYTES,
            (Method::Number(_), Some(_)) => number_block::FRESH_BYTES,
            (Method::Long(_), None) => det_aead::OVERHEAD_BYTES + self.plain_bytes(),
            (Method::Long(_), Some(_)) => BLOCK_BYTES + det_aead::OVERHEAD_BYTES + self.plain_bytes(),
        }
    }

    /// True if a node's values are opened faster all at once than the few on a search's way one by one.
    pub(super) fn opens_nodes(&self) -> bool {
        matches!(self.method, Method::Number(_))
    }

    /// The plains of values, one after the other.
    pub(super) fn plains(&self, values: &[impl AsRef<[u8]>]) -> Result<Wiped, IndexError> {
        let mut plains = Wiped::with_capacity(values.len() * self.plain_bytes());
        for value in values {
            self.form.append(value.as_ref(), &mut plains)?;
        }
        Ok(plains)
    }

    /// Appends the ciphertexts of plains.
    pub(super) fn seal_each<'a>(&self, plains: impl Iterator<Item = &'a [u8]>, sealed: &mut Vec<u8>) {
        match (&self.method, &self.nonces) {
            (Method::Number(cipher), None) => cipher.seal_each(plains.map(number), sealed),
            (Method::Number(cipher), Some(source)) => {
                for plain in plains {
                    cipher.seal_fresh(number(plain), source.rng().next_u64().to_be_bytes(), sealed);
                }
            }
            (Method::Long(cipher), None) => {
                plains.for_each(|plain| sealed.extend_from_slice(&cipher.seal(&[], plain)));
            }
            (Method::Long(cipher), Some(source)) => {
                for plain in plains {
                    let mut nonce: Block = [0; BLOCK_BYTES];
                    source.rng().fill_bytes(&mut nonce);
                    sealed.extend_from_slice(&nonce);
                    sealed.extend_from_slice(&cipher.seal(&[&nonce], plain));
                }
            }
        }
    }

    /// The value that a ciphertext is of.
    pub(super) fn value(&self, ciphertext: &[u8]) -> Result<Vec<u8>, OpenFailed> {
        if ciphertext.len() != self.ciphertext_bytes() {
            return Err(OpenFailed);
        }
        let mut plain = Wiped::with_capacity(self.plain_bytes());
        self.open_each(ciphertext, &mut plain)?;
        self.form.value(&plain).map(<[u8]>::to_vec).ok_or(OpenFailed)
    }

    /// Appends the plains of ciphertexts that follow each other.
    pub(super) fn open_each(&self, sealed: &[u8], plains: &mut Vec<u8>) -> Result<(), OpenFailed> {
        match (&self.method, &self.nonces) {
            (Method::Number(cipher), None) => cipher.open_each(sealed, plains).map_err(|_| OpenFailed),
            (Method::Number(cipher), Some(_)) => {
                cipher.open_fresh_each(sealed, plains).map_err(|_| OpenFailed)
            }
            (Method::Long(cipher), nonces) => {
                for sealed in sealed.chunks(self.ciphertext_bytes()) {
                    let (nonce, sealed) = match nonces {
                        None => (None, sealed),
                        Some(_) => {
                            let (nonce, sealed) = sealed.split_at_checked(BLOCK_BYTES).ok_or(OpenFailed)?;
                            (Some(nonce), sealed)
                        }
                    };
                    let plain = cipher.open(nonce.as_slice(), sealed).map_err(|_| OpenFailed)?;
                    let plain = Wiped::from(plain);
                    if plain.len() != self.plain_bytes() {
                        return Err(OpenFailed);
                    }
                    plains.extend_from_slice(&plain);
                }
                Ok(())
            }
        }
    }
}

/// The number of a plain of 8 bytes.
pub(super) fn number(plain: &[u8]) -> u64 {
    plain.first_chunk().map_or(0, |bytes| u64::from_be_bytes(*bytes))
}

/// How many of `plains`, which are in ascending order and of `bytes` each, are less than `plain`.
pub(super) fn lower_bound(plains: &[u8], bytes: usize, plain: &[u8]) -> usize {
    if bytes == NUMBER_BYTES {
        let (plains, _) = plains.as_chunks::<NUMBER_BYTES>();
        let wanted = number(plain);
        return plains.partition_point(|plain| u64::from_be_bytes(*plain) < wanted);
    }
    first_not(plains, bytes, |other| other < plain)
}

/// How many of them are not greater.
pub(super) fn upper_bound(plains: &[u8], bytes: usize, plain: &[u8]) -> usize {
    first_not(plains, bytes, |other| other <= plain)
}

/// The place of the first plain for which a condition does not hold that holds for all before it.
fn first_not(plains: &[u8], bytes: usize, holds: impl Fn(&[u8]) -> bool) -> usize {
    let (mut from, mut until) = (0, plains.len() / bytes);
    while from < until {
        let middle = from.midpoint(until);
        if holds(&plains[middle * bytes..(middle + 1) * bytes]) {
            from = middle + 1;
        } else {
            until = middle;
        }
    }
    from
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn key() -> Key {
        Key::take_from(&mut [3; 32])
    }

    #[test]
    fn lengths_are_those_of_the_form_alone() {
        let cases = [
            (Form::Fixed(4), 16, 24),
            (Form::Fixed(8), 16, 24),
            (Form::Text(6), 16, 24),
            (Form::Fixed(16), 32, 48),
            (Form::Fixed(32), 48, 64),
            (Form::Text(20), 38, 54),
        ];
        for (form, same, fresh) in cases {
            let cipher = Cipher::new(&key(), form, None).unwrap();
            let randomised = Cipher::new(&key(), form, Some(Randomness::default())).unwrap();
            assert_eq!((cipher.ciphertext_bytes(), randomised.ciphertext_bytes()), (same, fresh), "{form:?}");
        }
        for form in [Form::Fixed(0), Form::Text(0), Form::Fixed(1025)] {
            assert!(matches!(Cipher::new(&key(), form, None), Err(IndexError::Caller(_))));
        }
        let cipher = Cipher::new(&key(), Form::Fixed(4), None).unwrap();
        assert!(matches!(cipher.plains(&[[0; 5]]), Err(IndexError::Caller(_))));
    }

    fn round_trip(form: Form, values: &[Vec<u8>]) -> Result<(), TestCaseError> {
        for nonces in [None, Some(Randomness::default())] {
            let fresh = nonces.is_some();
            let cipher = Cipher::new(&key(), form, nonces).unwrap();
            let plains = cipher.plains(values).unwrap();
            let bytes = cipher.plain_bytes();
            prop_assert_eq!(plains.len(), values.len() * bytes);
            for (one, plain) in values.iter().zip(plains.chunks(bytes)) {
                for (other, of_other) in values.iter().zip(plains.chunks(bytes)) {
                    prop_assert_eq!(one.cmp(other), plain.cmp(of_other));
                }
            }
            let (mut sealed, mut again, mut opened) = (Vec::new(), Vec::new(), Vec::new());
            cipher.seal_each(plains.chunks(bytes), &mut sealed);
            cipher.seal_each(plains.chunks(bytes), &mut again);
            prop_assert_eq!(sealed.len(), values.len() * cipher.ciphertext_bytes());
            prop_assert_eq!(sealed == again, !fresh);
            cipher.open_each(&sealed, &mut opened).unwrap();
            prop_assert_eq!(&opened[..], &plains[..]);
            for (value, sealed) in values.iter().zip(sealed.chunks(cipher.ciphertext_bytes())) {
                prop_assert_eq!(&cipher.value(sealed).unwrap(), value);
            }
            let other = Cipher::new(&Key::take_from(&mut [4; 32]), form, cipher.nonces).unwrap();
            prop_assert!(other.open_each(&sealed, &mut opened).is_err(), "another column's key");
        }
        Ok(())
    }

    proptest! {
        #[test]
        fn values_keep_their_order_and_open(
            short in proptest::collection::vec(proptest::collection::vec(any::<u8>(), 4), 1..20),
            long in proptest::collection::vec(proptest::collection::vec(any::<u8>(), 16), 1..20),
            text in proptest::collection::vec(proptest::collection::vec(0_u8..3, 0..=12), 1..20),
        ) {
            round_trip(Form::Fixed(4), &short)?;
            round_trip(Form::Fixed(16), &long)?;
            round_trip(Form::Text(12), &text)?;
        }

        #[test]
        fn the_bounds_are_those_of_a_sorted_list(mut values in proptest::collection::vec(0_u64..60, 0..40)) {
            values.sort_unstable();
            for bytes in [8, 12] {
                let plain = |value: &u64| {
                    let mut plain = vec![0; bytes - 8];
                    plain.extend_from_slice(&value.to_be_bytes());
                    plain
                };
                let plains: Vec<u8> = values.iter().flat_map(plain).collect();
                for wanted in 0..60 {
                    let expected = values.iter().filter(|value| **value < wanted).count();
                    prop_assert_eq!(lower_bound(&plains, bytes, &plain(&wanted)), expected);
                    let expected = values.iter().filter(|value| **value <= wanted).count();
                    prop_assert_eq!(upper_bound(&plains, bytes, &plain(&wanted)), expected);
                }
            }
        }
    }
}
