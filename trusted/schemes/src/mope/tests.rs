#![allow(clippy::unwrap_used)]

mod changes;
mod malicious;
mod relabellings;
mod sharing;
pub(super) mod support;
mod views;
