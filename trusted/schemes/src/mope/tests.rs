#![allow(clippy::unwrap_used)]

mod changes;
mod malicious;
mod sharing;
mod support;
mod views;
