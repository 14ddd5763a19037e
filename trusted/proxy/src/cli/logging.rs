//! Logs to standard error: text for people, JSON for collectors.

use crate::configuration::LogFormat;
use std::io::{self, IsTerminal};
use tracing_subscriber::EnvFilter;

/// Starts the log; `RUST_LOG` overrides `level`.
pub fn start(format: LogFormat, level: &str) {
    let filter = EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new(level));
    let colours = io::stderr().is_terminal();
    let log = tracing_subscriber::fmt().with_env_filter(filter).with_ansi(colours).with_writer(io::stderr);
    // A second start in one process (tests) keeps the first.
    let _ = match format {
        LogFormat::Json => log.json().try_init(),
        LogFormat::Text => log.try_init(),
    };
}
