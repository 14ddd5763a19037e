//! The enclave, from its host's and its clients' side.
#![allow(clippy::unwrap_used)]

mod access;
mod checkpoint;
mod host;
mod liar;
mod model;
mod together;
mod twins;
