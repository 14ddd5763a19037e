//! The engine over a server's half in this process: that it holds little, whatever the results.
#![allow(clippy::unwrap_used)]

mod budget;
mod id_order;
mod results;
mod world;
