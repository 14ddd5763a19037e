//! The host of an isolated execution environment (BISEN's proxy server and storage service): starts the enclave, moves bytes
//! between it and its clients, and keeps its sealed entries and sealed state. It holds no key and trusts nobody with
//! anything but time.
//!
//! *What is bounded.* Connections, how slow a client may be within a message, what of clients' messages is held until the
//! enclave takes it ([`host::Limits::held_bytes`]), how many requests a client has under way, and what of replies is held for
//! clients that do not read: beyond that, who holds most of it is cut off.
//!
//! *Log.* Connections, sizes and failures; never a label or an entry.
#![forbid(unsafe_code)]
#![deny(clippy::indexing_slicing, clippy::unwrap_used, clippy::expect_used, clippy::panic)]

#[cfg(feature = "process")]
pub mod attestation;
#[cfg(feature = "process")]
pub mod brought;
#[cfg(feature = "process")]
mod certificate;
#[cfg(feature = "process")]
pub mod counter;
#[cfg(feature = "process")]
pub mod enclave;
#[cfg(feature = "process")]
pub mod gramine;
#[cfg(feature = "process")]
pub mod host;
#[cfg(feature = "process")]
pub mod seen;
pub mod store;
#[cfg(feature = "process")]
pub mod tpm;
#[cfg(feature = "process")]
pub mod tsm;

#[cfg(feature = "process")]
mod clients;
#[cfg(feature = "process")]
mod hexadecimal;
#[cfg(feature = "process")]
mod room;
#[cfg(feature = "process")]
mod waiting;
