//! One way across the trust line: a protocol is a pair of request and response types, and a channel
//! carries one request to the half that runs on the server and its reply back.

use crate::refusal::Refusal;
use crate::table::Row;
use serde::{Serialize, de::DeserializeOwned};
use std::future::Future;

/// Number of a protocol on the wire (one byte of every frame).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ProtocolId(pub u8);

/// A protocol: what the client half asks and what the server half answers.
pub trait Protocol: Send + Sync + 'static {
    /// Its row of the [table](crate::table), which the constants below are taken from.
    const ROW: &'static Row;
    /// Its number on the wire.
    const ID: ProtocolId = Self::ROW.id();
    /// Its name in logs and reports.
    const NAME: &'static str = Self::ROW.name();
    /// How many times its size the lists of a request may take in memory: [`crate::codec::memory_max`].
    const REQUEST_EXPANSION: usize = Self::ROW.request_expansion();
    /// What crosses towards the server.
    type Request: Serialize + DeserializeOwned + Send + Sync + 'static;
    /// What comes back.
    type Response: Serialize + DeserializeOwned + Send + Sync + 'static;

    /// Bytes of the encoded response that are the very records a search asked for, whatever the protocol: what the
    /// literature excludes when it compares the cost of protocols. 0 where it has none.
    fn result_bytes(response: &Self::Response) -> usize {
        let _ = response;
        0
    }
}

/// Why a call brought no response.
#[derive(Debug, thiserror::Error)]
pub enum ChannelError {
    /// The server understood and declined.
    #[error("the server refused: {0}")]
    Refused(#[from] Refusal),
    /// The connection is gone. Whether the server acted on the request is unknown.
    #[error("the connection to the server is lost: {0}")]
    Lost(String),
    /// No answer within the deadline. Whether the server acted on the request is unknown.
    #[error("the server did not answer within {0} ms")]
    Deadline(u64),
    /// This proxy asks the server nothing more, for the reason given; nothing was sent.
    #[error("{0}")]
    Halted(String),
    /// The peer sent something that is not of the protocol.
    #[error("the server broke the protocol: {0}")]
    Malformed(String),
    /// The request is larger than a frame may be; nothing was sent.
    #[error("the request of {request_bytes} bytes is over the limit of {limit_bytes}")]
    TooLarge {
        /// Encoded size of the request, in bytes.
        request_bytes: usize,
        /// Largest frame, in bytes.
        limit_bytes: usize,
    },
}

impl ChannelError {
    /// True if the server may or may not have acted: a write must be resolved before the next one.
    #[must_use]
    pub fn outcome_unknown(&self) -> bool {
        matches!(self, Self::Lost(_) | Self::Deadline(_) | Self::Malformed(_))
    }
}

/// Carries one request to the half of `P` that runs on the server, and its reply back.
///
/// Implemented by the in-process channel (tests, `lab`), the counting and delaying ones (`lab`) and the
/// real connection (`trusted/proxy`). Many calls may be in flight at once.
pub trait Channel<P: Protocol>: Send + Sync {
    /// Sends `request` and waits for the reply.
    ///
    /// # Errors
    /// [`ChannelError`]; see [`ChannelError::outcome_unknown`].
    fn call(&self, request: P::Request) -> impl Future<Output = Result<P::Response, ChannelError>> + Send;
}

impl<P: Protocol, C: Channel<P>> Channel<P> for std::sync::Arc<C> {
    fn call(&self, request: P::Request) -> impl Future<Output = Result<P::Response, ChannelError>> + Send {
        (**self).call(request)
    }
}
