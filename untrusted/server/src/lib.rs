//! The keyless side: halves of every protocol over an ordinary store, and the listener that serves them to
//! the one proxy it accepts.
#![forbid(unsafe_code)]
#![deny(clippy::indexing_slicing, clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod arx_eq;
pub mod arx_range;
pub mod backend;
mod bplus;
#[cfg(feature = "process")]
pub mod configuration;
mod documents;
mod halves;
mod hello;
#[cfg(feature = "lab")]
mod kerschbaum_tueno;
mod keyspace;
mod lease;
mod leftovers;
#[cfg(feature = "process")]
pub mod listener;
#[cfg(feature = "lab")]
mod logarithmic_brc;
mod mope;
pub mod ore;
#[cfg(feature = "lab")]
mod path_oram;
mod pope;
#[cfg(feature = "process")]
pub mod tls;
#[cfg(feature = "process")]
pub mod transcript;
mod unique;
mod write;

pub use backend::Backend;
pub use lease::Caller;
