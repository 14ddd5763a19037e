//! Where both halves meet: two-party tests, measurements, attacks.
//!
//! The measurements, from the ground up: [`datasets`] and [`queries`] from a [`seed`]; [`channel`] counts messages
//! and bytes, [`pages`] counts page I/O, the primitives count themselves; [`protocols`] is the table of what can be
//! measured; [`run`] measures it and checks every answer; [`attacks`] measures what the server could learn.
#![forbid(unsafe_code)]

pub mod attacks;
pub mod bench;
pub mod channel;
pub mod cli;
pub mod compare;
pub mod datasets;
pub mod one_process;
pub mod pages;
pub mod plain_scheme;
pub mod plain_store;
pub mod plots;
pub mod private_cassandra;
pub mod private_redis;
pub mod private_tpm;
pub mod protocols;
pub mod queries;
pub mod run;
pub mod schemes;
pub mod seed;
pub mod tpcc;
pub mod web;

pub use arras_proxy::private_postgres;
pub use arras_proxy::wire_client;
