//! Messages as bytes: postcard, compact and self-bounded (a length can never exceed the bytes at hand).

use postcard::ser_flavors::Size;
use serde::{Serialize, de::DeserializeOwned};

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
    postcard::to_stdvec(message).unwrap_or_default()
}

/// Bytes of the message that [`encode`] would make.
#[must_use]
pub fn encoded_bytes<T: Serialize>(message: &T) -> usize {
    postcard::serialize_with_flavor(message, Size::default()).unwrap_or_default()
}

/// Decodes a message that must span all of `bytes`.
///
/// # Errors
/// [`DecodeError`] if it does not parse or bytes are left over.
pub fn decode<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, DecodeError> {
    match postcard::take_from_bytes(bytes) {
        Ok((message, [])) => Ok(message),
        _ => Err(DecodeError(std::any::type_name::<T>())),
    }
}
