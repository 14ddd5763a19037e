//! Who this server is.

use crate::backend::storage;
use crate::lease::{Lease, Writer};
use crate::write;
use arras_protocol::Refusal;
use arras_protocol::hello::{Request, Response};
use arras_protocol::limits::PROTOCOL_VERSION;
use arras_storage::Storage;

/// What the handshake tells.
#[derive(Clone, Debug)]
pub(crate) struct Identity {
    /// Name of the database in the data directory.
    pub(crate) database: [u8; 16],
    /// Which start of it this is.
    pub(crate) incarnation: u64,
    /// Storage engine.
    pub(crate) engine: String,
}

/// Answers the handshake, having granted what it asks for.
pub(crate) fn answer<S: Storage>(
    store: &S,
    identity: &Identity,
    lease: &Lease,
    writer: Writer<'_>,
    request: &Request,
) -> Result<Response, Refusal> {
    if request.protocol_version != PROTOCOL_VERSION {
        return Err(Refusal::Version { asked: request.protocol_version, served: PROTOCOL_VERSION });
    }
    if let Writer::Connected(session) = writer {
        lease.grant(store, session, request.purpose)?;
    }
    let reader = store.read().map_err(storage)?;
    Ok(Response {
        protocol_version: PROTOCOL_VERSION,
        database: identity.database,
        incarnation: identity.incarnation,
        setbacks: store.setbacks(),
        engine: identity.engine.clone(),
        newest: write::newest(&reader)?,
        commits: write::commits(&reader)?,
        generation: lease.generation(),
    })
}
