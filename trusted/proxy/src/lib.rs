//! The trusted proxy: configuration, keyring, connection to the server, the engine over encrypted indexes, and
//! the command line that puts them together.
#![forbid(unsafe_code)]

pub mod address;
pub mod certificates;
pub mod cli;
pub mod configuration;
pub mod connection;
#[cfg(feature = "demo")]
pub mod demo;
pub mod init;
pub mod postgres;
#[cfg(feature = "demo")]
pub mod private_postgres;
pub mod running;
#[cfg(feature = "search")]
pub mod text;
#[cfg(feature = "demo")]
pub mod wire_client;
