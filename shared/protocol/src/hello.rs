//! First call on every connection: do the peers speak the same version, is this the same database and of the same
//! history, and may this proxy write to it?
//!
//! *Lease.* One proxy at a time holds a database. A newcomer is refused while the holder is connected, unless it says
//! that it takes over. Each new holder has a *generation*, which rises durably; requests on connections of an earlier
//! one are refused ([`crate::Refusal::Fenced`]), writes inside their own transaction. So of two proxies that go by
//! copies of one state, one works.
//!
//! *History.* The server counts the durable writes it has applied. A proxy that was told of more than the server
//! counts knows that the server was set back (a restored backup); at every hello, and in every write.

use crate::channel::Protocol;
use crate::ids::OperationId;
use crate::table::{self, Row};
use crate::text::decode_line;
use serde::{Deserialize, Serialize};

/// The handshake.
#[derive(Debug)]
pub struct Hello;

/// The proxy's greeting.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Request {
    /// [`crate::limits::PROTOCOL_VERSION`] of the proxy.
    pub protocol_version: u16,
    /// What the connection is for.
    pub purpose: Purpose,
}

/// What a connection is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Purpose {
    /// To look: it may not write, and leaves the lease alone.
    Observe,
    /// To read and write as the one proxy of the database.
    Hold {
        /// Names one start of a proxy: random.
        instance: [u8; 16],
        /// The generation this instance was given by an earlier hello; none at its first.
        generation: Option<u64>,
        /// Ends the lease of another instance even if that is connected.
        take_over: bool,
    },
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
    #[serde(deserialize_with = "decode_line")]
    pub engine: String,
    /// The newest durable write that was applied: a proxy that knows less was set back (a restored backup), one
    /// that knows of a later acknowledged one sees that the server was.
    pub newest: Option<OperationId>,
    /// Durable writes applied since the database was made.
    pub commits: u64,
    /// Generation of the lease: this connection's own, if it holds it. 0 before the first.
    pub generation: u64,
}

impl Protocol for Hello {
    const ROW: &'static Row = &table::HELLO;
    type Request = Request;
    type Response = Response;
}

/// DNS name in the server's certificate; the proxy accepts no other, whatever address it connects to.
pub const SERVER_NAME: &str = "arras-server";

/// DNS name in the proxy's certificate; the server accepts no other.
pub const PROXY_NAME: &str = "arras-proxy";
