//! Messages as bytes: postcard, compact. What decoding may take in memory follows from the bytes at hand, not from the
//! lengths that are written in them: [`memory_max`].

mod counting;

use counting::Counting;
use postcard::ser_flavors::Size;
use serde::{Deserialize, Serialize, de::DeserializeOwned};
use std::cell::Cell;

/// How many times the size of a message its lists may take in memory, usually. Their elements are sealed values,
/// identifiers and labels, which are no smaller in a message.
pub const EXPANSION: usize = 2;

/// What the lists of a message may take in memory however short it is, in bytes: some elements are short (an absent
/// row, a value without matches), and a message of many such is still a small one.
pub const MEMORY_FLOOR_BYTES: usize = 16 * 1024 * 1024;

/// Most bytes of memory that the lists of a message of `encoded` bytes may take; strings of bytes take what they take in
/// the message, beside it.
#[must_use]
pub const fn memory_max(encoded: usize, expansion: usize) -> usize {
    encoded.saturating_mul(expansion).saturating_add(MEMORY_FLOOR_BYTES)
}

/// Room made for a message before its length is known: a small one is not moved while it is encoded.
const ROOM_BYTES: usize = 256;

/// The bytes are not a message of the expected type.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("not a valid {0}")]
pub struct DecodeError(pub &'static str);

/// Encodes a message.
///
/// # Panics
/// Never for the types of this crate: they hold no map of unknown length and no non-encodable value.
#[must_use]
pub fn encode<T: Serialize>(message: &T) -> Vec<u8> {
    encode_in(message, ROOM_BYTES)
}

/// [`encode`] of a message that takes `room` bytes, about: it is not moved while it is encoded.
#[must_use]
pub fn encode_in<T: Serialize>(message: &T, room: usize) -> Vec<u8> {
    postcard::to_extend(message, Vec::with_capacity(room)).unwrap_or_default()
}

/// Bytes of the message that [`encode`] would make.
#[must_use]
pub fn encoded_bytes<T: Serialize>(message: &T) -> usize {
    postcard::serialize_with_flavor(message, Size::default()).unwrap_or_default()
}

/// Decodes a message that must span all of `bytes`, within [`memory_max`] at the usual [`EXPANSION`].
///
/// # Errors
/// [`DecodeError`] if it does not parse, would take too much memory, or bytes are left over.
pub fn decode<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, DecodeError> {
    decode_expanding(bytes, EXPANSION)
}

/// [`decode`] at another expansion, for messages whose elements are larger in memory than their bytes are many.
///
/// # Errors
/// As [`decode`].
pub fn decode_expanding<T: DeserializeOwned>(bytes: &[u8], expansion: usize) -> Result<T, DecodeError> {
    decode_borrowed(bytes, expansion)
}

/// [`decode_expanding`] into what may borrow from the bytes.
///
/// # Errors
/// As [`decode`].
pub fn decode_borrowed<'b, T: Deserialize<'b>>(bytes: &'b [u8], expansion: usize) -> Result<T, DecodeError> {
    decode_within(bytes, memory_max(bytes.len(), expansion))
}

/// [`decode_borrowed`] of what may take so many bytes of memory in lists: where memory is short, and little is known of who speaks.
///
/// # Errors
/// As [`decode`].
pub fn decode_within<'b, T: Deserialize<'b>>(bytes: &'b [u8], memory: usize) -> Result<T, DecodeError> {
    let left = Cell::new(memory);
    let mut deserializer = postcard::Deserializer::from_bytes(bytes);
    match T::deserialize(Counting::new(&mut deserializer, &left)) {
        Ok(message) if deserializer.finalize().is_ok_and(<[u8]>::is_empty) => Ok(message),
        _ => Err(DecodeError(std::any::type_name::<T>())),
    }
}
