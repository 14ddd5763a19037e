//! Keyless half of: Logarithmic-BRC (Demertzis et al., SIGMOD 2016), range covers over an encrypted multimap.

use arras_protocol::Refusal;
use arras_protocol::logarithmic_brc::{Request, Response};
use arras_storage::Storage;

/// Answers a request.
pub(crate) fn answer<S: Storage>(_store: &S, request: Request) -> Result<Response, Refusal> {
    match request {}
}
