//! Logs to standard error: text for people, JSON for collectors.

use crate::configuration::LogFormat;
use std::io::{self, IsTerminal};
use tracing_subscriber::EnvFilter;

/// Libraries that write what they are given into the log, at whatever level: statements with the values in them, parameters.
const TELLING: [&str; 2] = ["sqlparser", "tokio_postgres"];

/// Starts the log; `RUST_LOG` overrides `level`.
pub fn start(format: LogFormat, level: &str) {
    let mut filter = EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new(level));
    for library in TELLING {
        if let Ok(off) = format!("{library}=off").parse() {
            filter = filter.add_directive(off);
        }
    }
    let colours = io::stderr().is_terminal();
    let log = tracing_subscriber::fmt().with_env_filter(filter).with_ansi(colours).with_writer(io::stderr);
    // A second start in one process (tests) keeps the first.
    let _ = match format {
        LogFormat::Json => log.json().try_init(),
        LogFormat::Text => log.try_init(),
    };
}
