//! Keyless half of: B+ tree over any OPE or ORE scheme.

use arras_protocol::Refusal;
use arras_protocol::bplus::{Request, Response};
use arras_storage::Storage;

/// Answers a request.
pub(crate) fn answer<S: Storage>(_store: &S, request: Request) -> Result<Response, Refusal> {
    match request {}
}
