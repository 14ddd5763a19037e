//! Keyless half of ArxRange.

use arras_protocol::Refusal;
use arras_protocol::arx_range::{Change, Request, Response};
use arras_storage::{Storage, Write};

/// Answers a request.
///
/// # Errors
/// [`Refusal`] if it cannot be answered.
pub fn answer<S: Storage>(_store: &S, _request: &Request) -> Result<Response, Refusal> {
    Err(Refusal::UnknownIndex)
}

/// Applies a step of a write.
///
/// # Errors
/// [`Refusal`] if it cannot be applied.
pub fn apply(_writer: &mut impl Write, _change: &Change) -> Result<(), Refusal> {
    Err(Refusal::UnknownIndex)
}
