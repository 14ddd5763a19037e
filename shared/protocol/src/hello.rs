//! First call on every connection: do the peers speak the same version, and is this the same database?

use crate::channel::{Protocol, ProtocolId};
use crate::ids::OperationId;
use serde::{Deserialize, Serialize};

/// The handshake.
#[derive(Debug)]
pub struct Hello;

/// The proxy's greeting.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Request {
    /// [`crate::limits::PROTOCOL_VERSION`] of the proxy.
    pub protocol_version: u16,
}

/// The server's answer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Response {
    /// [`crate::limits::PROTOCOL_VERSION`] of the server.
    pub protocol_version: u16,
    /// Random, made with the data directory: a proxy refuses a server with another database.
    pub database: [u8; 16],
    /// Rises durably with every start of the server. When it changes, garbled circuits that were stored with
    /// relaxed durability may have been rolled back: the proxy starts a new epoch of nonces.
    pub incarnation: u64,
    /// How often since then the server's storage failed and went on from its last durable write (a full disk). When it
    /// changes, that means what a new incarnation does.
    pub setbacks: u64,
    /// The storage engine's name and version, for `doctor` and logs.
    pub engine: String,
    /// The newest durable write that was applied: a proxy that knows less was set back (a restored backup), one
    /// that knows of a later acknowledged one sees that the server was.
    pub newest: Option<OperationId>,
}

impl Protocol for Hello {
    const ID: ProtocolId = ProtocolId(1);
    const NAME: &'static str = "hello";
    type Request = Request;
    type Response = Response;
}

/// DNS name in the server's certificate; the proxy accepts no other, whatever address it connects to.
pub const SERVER_NAME: &str = "arras-server";

/// DNS name in the proxy's certificate; the server accepts no other.
pub const PROXY_NAME: &str = "arras-proxy";
