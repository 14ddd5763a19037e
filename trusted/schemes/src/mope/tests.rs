#![allow(clippy::unwrap_used)]

mod changes;
mod fh_ope;
mod malicious;
mod relabellings;
mod sharing;
pub(super) mod support;
mod views;
