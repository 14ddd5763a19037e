//! Where both halves meet: two-party tests, measurements, attacks.
#![forbid(unsafe_code)]

pub mod channel;
pub mod plain_store;
pub mod wire_client;
