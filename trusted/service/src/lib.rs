//! What a front end may ask of the trusted side: logical operations on plaintext, and how they went. Front ends see no key,
//! no index and no server; who answers is `trusted/engine`, or a store in plain memory as a baseline.
#![forbid(unsafe_code)]

pub mod columns;
pub mod error;
pub mod examined;
pub mod explanation;
pub mod interrupt;
pub mod store;
pub mod words;

pub use error::{Blame, Fault, ServiceError};

/// Name of the index that every collection has on `_id`.
pub const ID_INDEX: &str = "_id_";
