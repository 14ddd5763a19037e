//! The keyed half of every scheme and protocol, free of I/O: requests out through a `Channel`, replies in.
#![forbid(unsafe_code)]

#[cfg(feature = "indexes")]
pub mod arx_eq;
#[cfg(feature = "indexes")]
pub mod arx_range;
#[cfg(feature = "bisen")]
pub mod bisen;
#[cfg(feature = "indexes")]
pub mod bplus;
#[cfg(feature = "indexes")]
pub mod contract;
pub mod error;
#[cfg(feature = "lab")]
pub mod kerschbaum_tueno;
#[cfg(feature = "lab")]
pub mod logarithmic_brc;
#[cfg(feature = "indexes")]
pub mod mope;
#[cfg(feature = "bisen")]
mod opaque;
#[cfg(feature = "indexes")]
pub mod ore;
pub mod padding;
#[cfg(feature = "lab")]
pub mod path_oram;
#[cfg(feature = "indexes")]
pub mod pope;
#[cfg(feature = "indexes")]
pub mod random;
#[cfg(feature = "indexes")]
pub mod traits;
#[cfg(feature = "indexes")]
pub mod unique;

pub use error::{IndexError, OpenFailed};
