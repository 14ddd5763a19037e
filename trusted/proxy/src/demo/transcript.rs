//! Reads the server's transcript: what the untrusted process received, answered and therefore knows.

use crate::cli::Failure;
use serde::Deserialize;
use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::Path;

/// One message pair as the server saw it.
#[derive(Debug, Deserialize)]
pub(crate) struct Observation {
    pub(crate) protocol: u8,
    pub(crate) request_bytes: usize,
    pub(crate) response_bytes: usize,
    pub(crate) microseconds: u64,
    pub(crate) request: String,
    pub(crate) response: String,
}

/// What the server saw between two moments.
pub(crate) type Observations = Vec<Observation>;

/// A transcript being read while it is written.
pub(crate) struct Seen {
    lines: BufReader<File>,
    partial: String,
}

impl Seen {
    pub(crate) fn open(path: &Path) -> Result<Self, Failure> {
        let file = File::open(path).map_err(|source| Failure::Io { path: path.to_path_buf(), source })?;
        Ok(Self { lines: BufReader::new(file), partial: String::new() })
    }

    /// Everything since the last call.
    pub(crate) fn since(&mut self) -> Result<Observations, Failure> {
        let mut observations = Vec::new();
        while self.lines.read_line(&mut self.partial)? > 0 {
            if self.partial.ends_with('\n') {
                let parsed = serde_json::from_str(&self.partial);
                observations
                    .push(parsed.map_err(|e| Failure::Check(format!("the server's transcript: {e}")))?);
                self.partial.clear();
            }
        }
        Ok(observations)
    }
}
