//! Certificates of a deployment as both sides keep them: what is in them, how long they last, and how they are read
//! again while a process runs.
//!
//! Nothing here judges a peer's certificate: that is rustls' work, set up by each side's own `tls` module. What is read
//! here are files that an administrator put there; they may be damaged, half written or of another deployment.
#![forbid(unsafe_code)]
#![deny(clippy::indexing_slicing, clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod reloading;
mod shown;
mod watching;

pub use reloading::{Looked, Reloading};
pub use shown::{Certificate, ReadError, date};
pub use watching::{Watching, ending, warn_of_ends, watch};

use std::time::{SystemTime, UNIX_EPOCH};

/// Seconds of a day.
pub const DAY_SECONDS: u64 = 24 * 60 * 60;

/// From so many days before its end a certificate is warned of.
pub const WARNING_DAYS: u64 = 30;

/// This machine's clock, in seconds since 1970.
#[must_use]
pub fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs())
}
