//! The transport's two halves over real sockets: calls, faults, certificates.
#![allow(clippy::unwrap_used, clippy::expect_used)]

mod calls;
mod certificates;
mod malice;
mod memory;
mod renewal;
mod stopping;
mod world;
