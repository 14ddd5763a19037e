//! Keyless half of: POPE (Roche, Apon, Choi, Yerukhimovich, CCS 2016), a buffer tree sorted by queries.

use arras_protocol::Refusal;
use arras_protocol::pope::{Request, Response};
use arras_storage::Storage;

/// Answers a request.
pub(crate) fn answer<S: Storage>(_store: &S, request: Request) -> Result<Response, Refusal> {
    match request {}
}
