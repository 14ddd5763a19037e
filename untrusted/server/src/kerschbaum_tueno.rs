//! Keyless half of: Kerschbaum-Tueno (ESORICS 2019), a rotated array searched by the client.

use arras_protocol::Refusal;
use arras_protocol::kerschbaum_tueno::{Request, Response};
use arras_storage::Storage;

/// Answers a request.
pub(crate) fn answer<S: Storage>(_store: &S, request: Request) -> Result<Response, Refusal> {
    match request {}
}
