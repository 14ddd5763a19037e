//! The keyed half of every scheme and protocol, free of I/O: requests out through a `Channel`, replies in.
#![forbid(unsafe_code)]

pub mod arx_eq;
pub mod arx_range;
pub mod bplus;
pub mod contract;
pub mod error;
#[cfg(feature = "lab")]
pub mod kerschbaum_tueno;
#[cfg(feature = "lab")]
pub mod logarithmic_brc;
pub mod mope;
pub mod ore;
pub mod padding;
#[cfg(feature = "lab")]
pub mod path_oram;
pub mod pope;
pub mod random;
pub mod traits;
pub mod unique;

pub use error::{IndexError, OpenFailed};
