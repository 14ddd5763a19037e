//! MongoDB wire protocol and commands in front of a [`Store`](arras_service::store::Store); cannot see keys.
//!
//! Follows MongoDB 7.0 as a standalone server. What it does not do is refused with an error that names it:
//! an option that would change a result is never ignored.
#![forbid(unsafe_code)]

mod answer;
mod arguments;
mod commands;
mod connection;
mod cursors;
mod deadline;
mod dispatch;
pub mod error;
mod memory;
mod operations;
mod roster;
mod server;
mod slices;
pub mod wire;

pub use server::{Options, Server};
