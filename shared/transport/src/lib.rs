//! How two of our processes talk over a stream of bytes: frames, how slow a peer may be within one, many calls at once on
//! one stream, and what TLS goes by.
//!
//! It works over any stream and opens none: who listens, who connects, and whom either accepts is each side's own.
#![forbid(unsafe_code)]
#![deny(clippy::indexing_slicing, clippy::unwrap_used, clippy::expect_used, clippy::panic)]

pub mod frames;
pub mod handshakes;
pub mod link;
pub mod pace;
pub mod room;
#[cfg(feature = "tcp")]
pub mod tcp;
#[cfg(feature = "tls")]
pub mod tls;
