//! Keyless half of: Path ORAM (Stefanov et al., CCS 2013), the store of an oblivious B+ tree.

use arras_protocol::Refusal;
use arras_protocol::path_oram::{Request, Response};
use arras_storage::Storage;

/// Answers a request.
pub(crate) fn answer<S: Storage>(_store: &S, request: Request) -> Result<Response, Refusal> {
    match request {}
}
