//! What this side sees, written down: every request and response, for demonstrations and audits.
//!
//! The transcript is what a persistent attacker on the server's machine would have anyway. One JSON object a
//! line: protocol, sizes in bytes, time in microseconds, and the first bytes of both messages in hexadecimal.

use crate::Caller;
use crate::listener::Handler;
use arras_protocol::{ProtocolId, Refusal};
use arras_storage::private;
use serde::Serialize;
use std::fmt::Write as _;
use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::Path;
use std::sync::{Mutex, PoisonError};
use std::time::Instant;

/// A handler whose messages are written down.
#[derive(Debug)]
pub struct Transcript<H> {
    inner: H,
    file: Mutex<BufWriter<File>>,
    bytes_max: usize,
}

/// One line.
#[derive(Debug, Serialize)]
struct Line<'l> {
    protocol: u8,
    request_bytes: usize,
    response_bytes: usize,
    microseconds: u128,
    refused: Option<String>,
    request: &'l str,
    response: &'l str,
}

fn hexadecimal(bytes: &[u8], bytes_max: usize) -> String {
    let mut text = String::with_capacity(bytes.len().min(bytes_max) * 2);
    for byte in bytes.iter().take(bytes_max) {
        // Writing to a string does not fail.
        let _ = write!(text, "{byte:02x}");
    }
    text
}

impl<H: Handler> Transcript<H> {
    /// Appends to the file at `path`, which is made if need be and is its owner's only; keeps `bytes_max` bytes of each message.
    ///
    /// # Errors
    /// If the file cannot be opened.
    pub fn append(inner: H, path: &Path, bytes_max: usize) -> io::Result<Self> {
        private::close_file(path)?;
        let file = private::file_options().create(true).append(true).open(path)?;
        Ok(Self { inner, file: Mutex::new(BufWriter::new(file)), bytes_max })
    }

    fn write(&self, line: &Line<'_>) -> io::Result<()> {
        let mut file = self.file.lock().unwrap_or_else(PoisonError::into_inner);
        serde_json::to_writer(&mut *file, line)?;
        file.write_all(b"\n")?;
        file.flush()
    }
}

impl<H: Handler> Handler for Transcript<H> {
    fn held_beside(&self, protocol: ProtocolId, body: &[u8]) -> usize {
        self.inner.held_beside(protocol, body)
    }

    fn sweep(&self) -> Result<bool, Refusal> {
        self.inner.sweep()
    }

    fn setbacks(&self) -> u64 {
        self.inner.setbacks()
    }

    fn handle(&self, protocol: ProtocolId, body: &[u8]) -> Result<Vec<u8>, Refusal> {
        self.written_down(protocol, body, || self.inner.handle(protocol, body))
    }

    fn handle_for(&self, caller: &Caller, protocol: ProtocolId, body: &[u8]) -> Result<Vec<u8>, Refusal> {
        self.written_down(protocol, body, || self.inner.handle_for(caller, protocol, body))
    }

    fn ended(&self, caller: &Caller) {
        self.inner.ended(caller);
    }
}

impl<H: Handler> Transcript<H> {
    /// Answers, and writes down both messages.
    fn written_down(
        &self,
        protocol: ProtocolId,
        body: &[u8],
        answer: impl FnOnce() -> Result<Vec<u8>, Refusal>,
    ) -> Result<Vec<u8>, Refusal> {
        let began = Instant::now();
        let answer = answer();
        let microseconds = began.elapsed().as_micros();
        let response = answer.as_deref().unwrap_or_default();
        let line = Line {
            protocol: protocol.0,
            request_bytes: body.len(),
            response_bytes: response.len(),
            microseconds,
            refused: answer.as_ref().err().map(ToString::to_string),
            request: &hexadecimal(body, self.bytes_max),
            response: &hexadecimal(response, self.bytes_max),
        };
        if let Err(error) = self.write(&line) {
            tracing::warn!(%error, "the transcript cannot be written");
        }
        answer
    }
}
