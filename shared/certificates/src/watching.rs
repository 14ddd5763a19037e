//! What a running process does about its certificates: reads them again, and warns of their end.

use crate::{Certificate, DAY_SECONDS, Looked, Reloading, WARNING_DAYS, date};
use std::io;
use std::path::PathBuf;
use std::time::Duration;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::time::{MissedTickBehavior, interval};

/// Pause between two looks at the files.
const LOOK: Duration = Duration::from_secs(10);

/// What [`watch`] does beside looking at the files from time to time.
#[derive(Debug)]
pub struct Watching {
    hangup: Option<Signal>,
}

impl Watching {
    /// Reads the files at a SIGHUP, too, which from now on does not end the process.
    ///
    /// # Errors
    /// What the operating system says. Must be called in a runtime.
    pub fn with_hangup() -> io::Result<Self> {
        Ok(Self { hangup: Some(signal(SignalKind::hangup())?) })
    }

    /// Leaves SIGHUP as it is: what runs in a terminal ends with it.
    #[must_use]
    pub fn without_hangup() -> Self {
        Self { hangup: None }
    }

    async fn hung_up(&mut self) {
        let received = match &mut self.hangup {
            Some(hangup) => hangup.recv().await,
            None => None,
        };
        if received.is_none() {
            std::future::pending::<()>().await;
        }
    }
}

/// Certificates that have ended or end within [`WARNING_DAYS`] of `now` (seconds since 1970), a line each that says what
/// to do; files that cannot be read, too. Others than certificates are to be left out of `files`.
#[must_use]
pub fn ending(files: &[PathBuf], now: u64) -> Vec<String> {
    let mut lines = Vec::new();
    for path in files {
        let read = match Certificate::read_all(path) {
            Ok(read) => read,
            Err(error) => {
                lines.push(error.to_string());
                continue;
            }
        };
        // An authority that ends is no matter while another one is there beside it, which signs.
        let Some(first) = read.first() else { continue };
        if first.until >= now.saturating_add(WARNING_DAYS * DAY_SECONDS) {
            continue;
        }
        let (path, name, until) = (path.display(), &first.subject, date(first.until));
        let ends = match (first.has_ended(now), first.days_left(now)) {
            (true, _) => format!("ended on {until}"),
            (false, 0) => format!("ends within a day, on {until}"),
            (false, 1) => format!("ends in 1 day, on {until}"),
            (false, days) => format!("ends in {days} days, on {until}"),
        };
        lines.push(format!(
            "{path}: the certificate of {name:?} {ends}; run `arras certificates renew` where the proxy runs"
        ));
    }
    lines
}

/// Logs what [`ending`] says.
pub fn warn_of_ends(files: &[PathBuf], now: u64) {
    for line in ending(files, now) {
        tracing::warn!("{line}");
    }
}

/// Looks at the files for as long as it is polled, and logs what comes of it; warns of ends at once, once a day, and when
/// certificates were read anew. `clock` tells seconds since 1970.
pub async fn watch<T>(
    reloading: &Reloading<T>,
    certificates: &[PathBuf],
    mut watching: Watching,
    clock: impl Fn() -> u64,
) {
    let mut looks = interval(LOOK);
    let mut days = interval(Duration::from_secs(DAY_SECONDS));
    looks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        let looked = tokio::select! {
            _ = looks.tick() => reloading.look(false),
            () = watching.hung_up() => reloading.look(true),
            _ = days.tick() => {
                warn_of_ends(certificates, clock());
                continue;
            }
        };
        match looked {
            Looked::Loaded => {
                tracing::info!("certificates were read again; new connections use them");
                warn_of_ends(certificates, clock());
            }
            Looked::Kept { what, news: true } => {
                tracing::error!(
                    "the certificates cannot be read again, those from before stay in use: {what}"
                );
            }
            Looked::Same | Looked::Kept { news: false, .. } => {}
        }
    }
}

#[cfg(test)]
mod tests;
