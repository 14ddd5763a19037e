//! The contract between the trusted side and the server: every message, capability, ciphertext, limit,
//! version, error code and leakage statement that crosses a process, with its codec. One module a protocol.
//!
//! Nothing here is secret: a *capability* (search token, active wire label) is something the server was
//! sent and may use; secrets, from which capabilities are made, are defined in `trusted/keys`, which this
//! crate cannot depend on (`cargo xtask boundary`).
#![forbid(unsafe_code)]
#![deny(clippy::indexing_slicing, clippy::unwrap_used, clippy::expect_used, clippy::panic)]

pub mod arx_eq;
pub mod arx_range;
pub mod bplus;
pub mod bytes;
pub mod channel;
pub mod codec;
pub mod documents;
pub mod evidence;
pub mod frame;
pub mod hello;
pub mod ids;
pub mod iee;
#[cfg(feature = "lab")]
pub mod kerschbaum_tueno;
pub mod leakage;
pub mod limits;
#[cfg(feature = "lab")]
pub mod logarithmic_brc;
pub mod mope;
pub mod order;
pub mod ore;
#[cfg(feature = "lab")]
pub mod path_oram;
pub mod pope;
pub mod refusal;
pub mod table;
pub mod text;
pub mod unique;
pub mod write;

pub use bytes::Blob;
pub use channel::{Channel, ChannelError, Protocol, ProtocolId};
pub use ids::{CollectionId, IndexId, NodeId, OperationId, RowId};
pub use leakage::Leakage;
pub use order::Order;
pub use refusal::Refusal;
