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
pub use shown::{Certificate, date};
pub use watching::{Watching, ending, warn_of_ends, watch};

use std::time::{SystemTime, UNIX_EPOCH};

/// Seconds of a day.
pub const DAY_SECONDS: u64 = 24 * 60 * 60;

/// From so many days before its end a certificate is warned of.
pub const WARNING_DAYS: u64 = 30;

/// Why a certificate is not acceptable, in the same words whenever it is asked: rustls' own say how long ago it ended.
#[must_use]
pub fn judged(error: &rustls::Error) -> String {
    use rustls::CertificateError::{Expired, ExpiredContext, NotValidYet, NotValidYetContext};
    match error {
        rustls::Error::InvalidCertificate(Expired | ExpiredContext { .. }) => "it has ended".into(),
        rustls::Error::InvalidCertificate(NotValidYet | NotValidYetContext { .. }) => {
            "it is not valid yet: compare the machines' clocks".into()
        }
        other => other.to_string(),
    }
}

/// This machine's clock, in seconds since 1970.
#[must_use]
pub fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs())
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use rustls::CertificateError::ExpiredContext;
    use rustls::pki_types::UnixTime;
    use std::time::Duration;

    #[test]
    fn the_words_for_an_ended_certificate_are_the_same_at_any_time() {
        let at = |seconds| {
            let time = |seconds| UnixTime::since_unix_epoch(Duration::from_secs(seconds));
            let ended = ExpiredContext { time: time(seconds), not_after: time(10) };
            rustls::Error::InvalidCertificate(ended)
        };
        assert_ne!(at(20).to_string(), at(30).to_string(), "rustls' own words will do");
        assert_eq!(judged(&at(20)), judged(&at(30)));
    }
}
