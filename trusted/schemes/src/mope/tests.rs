#![allow(clippy::unwrap_used)]

mod changes;
mod malicious;
mod fh_ope;
mod relabellings;
mod sharing;
pub(super) mod support;
mod views;
