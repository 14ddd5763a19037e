//! How a run goes, on standard error: a line that changes in a terminal, a line now and then elsewhere.

use arras_search::corpus::{Counts, Progress};
use std::io::{self, IsTerminal, Write};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

/// Between two lines in a terminal.
const OFTEN: Duration = Duration::from_millis(100);
/// Between two lines elsewhere.
const SELDOM: Duration = Duration::from_secs(10);

/// Shows how a run goes, and stops it when asked to.
pub(crate) struct Shown {
    stop: Arc<AtomicBool>,
    terminal: bool,
    files: u64,
    bytes: u64,
    begun: Instant,
    shown: Instant,
}

impl Shown {
    pub(crate) fn new(stop: Arc<AtomicBool>) -> Self {
        let now = Instant::now();
        Self { stop, terminal: io::stderr().is_terminal(), files: 0, bytes: 0, begun: now, shown: now }
    }

    /// Takes the last line away.
    pub(crate) fn clear(&self) {
        if self.terminal {
            // Nobody looking is no reason to stop.
            let _ = write!(io::stderr(), "\r\x1b[K");
        }
    }
}

impl Progress for Shown {
    fn begin(&mut self, files: u64, bytes: u64) {
        (self.files, self.bytes, self.begun) = (files, bytes, Instant::now());
    }

    fn advance(&mut self, done: &Counts) {
        let pause = if self.terminal { OFTEN } else { SELDOM };
        if self.shown.elapsed() < pause {
            return;
        }
        self.shown = Instant::now();
        let line = line(done, self.files, self.bytes, self.begun.elapsed());
        let (before, after) = if self.terminal { ("\r\x1b[K", "") } else { ("", "\n") };
        let _ = write!(io::stderr(), "{before}{line}{after}");
        let _ = io::stderr().flush();
    }

    fn stop(&self) -> Arc<AtomicBool> {
        Arc::clone(&self.stop)
    }
}

/// `120 of 2000 files, 5%, 310,000 pairs/s, 12 s left`: by bytes, as files differ.
fn line(done: &Counts, files: u64, bytes: u64, elapsed: Duration) -> String {
    let seconds = elapsed.as_secs_f64().max(1e-3);
    let part = if bytes == 0 { 1.0 } else { (done.bytes as f64 / bytes as f64).clamp(0.0, 1.0) };
    let left = if part > 0.0 { seconds * (1.0 - part) / part } else { 0.0 };
    let rate = (done.pairs as f64 / seconds) as u64;
    format!(
        "{} of {}, {:.0}%, {} pairs/s, {} left",
        done.files,
        counted(files, "file", "files"),
        part * 100.0,
        grouped(rate),
        span(left)
    )
}

/// A number with its thousands apart.
pub(crate) fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut grouped = String::new();
    for (place, digit) in digits.chars().enumerate() {
        if place > 0 && (digits.len() - place).is_multiple_of(3) {
            grouped.push(',');
        }
        grouped.push(digit);
    }
    grouped
}

/// A number with what is counted: one, or several.
pub(crate) fn counted(number: u64, one: &str, several: &str) -> String {
    format!("{} {}", grouped(number), if number == 1 { one } else { several })
}

fn span(seconds: f64) -> String {
    let seconds = seconds.round() as u64;
    match seconds {
        0..60 => format!("{seconds} s"),
        60..3600 => format!("{} min {} s", seconds / 60, seconds % 60),
        _ => format!("{} h {} min", seconds / 3600, seconds % 3600 / 60),
    }
}

#[cfg(test)]
mod tests {
    use super::{counted, grouped, line};
    use arras_search::corpus::Counts;
    use std::time::Duration;

    #[test]
    fn a_line_says_files_rate_and_time_left() {
        let done = Counts { files: 3, bytes: 250, pairs: 1_234_000, ..Counts::default() };
        let shown = line(&done, 12, 1000, Duration::from_secs(30));
        assert_eq!(shown, "3 of 12 files, 25%, 41,133 pairs/s, 1 min 30 s left");
        let end = line(&Counts::default(), 0, 0, Duration::ZERO);
        assert_eq!(end, "0 of 0 files, 100%, 0 pairs/s, 0 s left");
        assert_eq!(
            [0, 1, 2000].map(|number| counted(number, "file", "files")),
            ["0 files", "1 file", "2,000 files"]
        );
        assert_eq!([0, 999, 1000, 1_234_567].map(grouped), ["0", "999", "1,000", "1,234,567"]);
    }
}
