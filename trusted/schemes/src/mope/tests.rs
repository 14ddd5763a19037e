#![allow(clippy::unwrap_used)]

mod changes;
mod sharing;
mod support;
