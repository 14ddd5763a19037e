//! How slow a peer may be within a message: what is held for it meanwhile is not there for others.
//!
//! A message may take the patience that the listener's limits grant, and the more the more of it has passed. So one that stands still is given up after that patience, and one that
//! trickles (a byte now and then) hardly later: bytes buy time at one rate and at no other.

use super::Limits;
use std::io;
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::time::{Instant, timeout_at};

/// One message on its way.
#[derive(Clone, Copy, Debug)]
pub(super) struct Pace {
    given_up: Instant,
    bytes_per_second: u64,
    passed: u64,
}

fn slow() -> io::Error {
    io::Error::new(io::ErrorKind::TimedOut, "the peer is too slow within a message")
}

impl Pace {
    /// A message that begins now.
    pub(super) fn new(limits: &Limits) -> Self {
        let bytes_per_second = limits.bytes_per_second.max(1);
        Self { given_up: Instant::now() + limits.stall, bytes_per_second, passed: 0 }
    }

    /// So long nothing was asked of the peer: that time is not its own.
    pub(super) fn put_off(&mut self, by: Duration) {
        self.given_up += by;
    }

    /// When the message is given up, by what of it has passed.
    fn until(&self) -> Instant {
        self.given_up + Duration::from_millis(self.passed.saturating_mul(1000) / self.bytes_per_second)
    }

    /// Reads until `buffer` holds `bytes`; fewer if the stream ends.
    ///
    /// # Errors
    /// What the stream says; [`io::ErrorKind::TimedOut`] if the peer is too slow.
    pub(super) async fn fill<R: AsyncRead + Unpin>(
        &mut self,
        stream: &mut R,
        buffer: &mut Vec<u8>,
        bytes: usize,
    ) -> io::Result<()> {
        let mut rest = stream.take(bytes.saturating_sub(buffer.len()) as u64);
        while buffer.len() < bytes {
            let read = timeout_at(self.until(), rest.read_buf(buffer)).await.map_err(|_| slow())??;
            if read == 0 {
                break;
            }
            self.passed = self.passed.saturating_add(read as u64);
        }
        Ok(())
    }

    /// Writes all of `bytes`.
    ///
    /// # Errors
    /// What the stream says; [`io::ErrorKind::TimedOut`] if the peer is too slow.
    pub(super) async fn write<W: AsyncWrite + Unpin>(
        &mut self,
        stream: &mut W,
        mut bytes: &[u8],
    ) -> io::Result<()> {
        while !bytes.is_empty() {
            let written = timeout_at(self.until(), stream.write(bytes)).await.map_err(|_| slow())??;
            if written == 0 {
                return Err(io::ErrorKind::WriteZero.into());
            }
            self.passed = self.passed.saturating_add(written as u64);
            bytes = bytes.get(written..).unwrap_or_default();
        }
        Ok(())
    }

    /// Writes what is still held on this side of the stream.
    ///
    /// # Errors
    /// What the stream says; [`io::ErrorKind::TimedOut`] if the peer is too slow.
    pub(super) async fn flush<W: AsyncWrite + Unpin>(&self, stream: &mut W) -> io::Result<()> {
        timeout_at(self.until(), stream.flush()).await.map_err(|_| slow())?
    }
}
