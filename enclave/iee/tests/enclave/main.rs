//! The enclave, from its host's and its clients' side.
#![allow(clippy::unwrap_used)]

mod access;
mod attested;
mod checkpoint;
mod fences;
mod forks;
mod host;
mod late;
mod liar;
mod model;
mod pages;
mod random_twins;
mod spill;
mod together;
mod twins;
mod waiting;
