//! What the client halves report.

use arras_protocol::ChannelError;

/// Something sealed did not open: wrong key, moved or altered. Says no more on purpose.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("stored data does not open under this key: it was altered, moved, or sealed under another key")]
pub struct OpenFailed;

/// Why a client half could not do its work.
#[derive(Debug, thiserror::Error)]
pub enum IndexError {
    /// The server could not be reached or refused.
    #[error(transparent)]
    Channel(#[from] ChannelError),
    /// The server's data does not open.
    #[error(transparent)]
    Open(#[from] OpenFailed),
    /// The peer's reply contradicts the protocol.
    #[error("the server's reply is not of the protocol: {0}")]
    Peer(&'static str),
    /// What the server holds contradicts what is on record of it.
    #[error("{0}")]
    Contradicted(&'static str),
    /// The caller asked for something the index cannot hold.
    #[error("{0}")]
    Caller(&'static str),
    /// The client's own durable state failed.
    #[error("the proxy's own store failed: {0}")]
    State(String),
}
