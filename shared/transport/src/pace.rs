//! How slow a peer may be within a message: what is held for it meanwhile is not there for others.
//!
//! A message may take the patience that its receiver grants, and the more the more of it has passed. So one that stands
//! still is given up after that patience, and one that trickles (a byte now and then) hardly later: bytes buy time at one
//! rate and at no other.

use std::io;
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::time::{Instant, timeout_at};

/// What is asked of a peer within each message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pace {
    /// Nothing: whoever waits for the message bounds the time.
    Any,
    /// It may stand still for a while, and take longer for what has passed.
    AtLeast {
        /// How long it may stand still.
        stall: Duration,
        /// It may take a second more for so many bytes of the message that have passed.
        bytes_per_second: u64,
    },
}

/// A message that was given up: its peer is too slow. It is the inner error of an [`io::ErrorKind::TimedOut`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "the peer is too slow within a message: {passed} bytes in {} s and 1 s for every {bytes_per_second} bytes",
    stall.as_secs()
)]
pub struct TooSlow {
    /// Bytes of the message that had passed.
    pub passed: u64,
    /// How long it might have stood still.
    pub stall: Duration,
    /// The bytes that would have bought a second more.
    pub bytes_per_second: u64,
}

impl TooSlow {
    /// True if that is what an error says.
    #[must_use]
    pub fn is_in(error: &io::Error) -> bool {
        error.get_ref().is_some_and(|inner| inner.is::<Self>())
    }
}

/// One message on its way.
#[derive(Clone, Copy, Debug)]
pub struct Passing {
    pace: Pace,
    /// When it began, later by what was put off.
    began: Instant,
    passed: u64,
}

impl Pace {
    /// A message that begins now.
    #[must_use]
    pub fn begin(self) -> Passing {
        Passing { pace: self, began: Instant::now(), passed: 0 }
    }
}

impl Passing {
    /// So long nothing was asked of the peer: that time is not its own.
    pub fn put_off(&mut self, by: Duration) {
        self.began += by;
    }

    /// Waits for a step, until the message is to be given up by what of it has passed.
    async fn within<T>(&self, step: impl Future<Output = io::Result<T>>) -> io::Result<T> {
        let Pace::AtLeast { stall, bytes_per_second } = self.pace else { return step.await };
        let bought = Duration::from_millis(self.passed.saturating_mul(1000) / bytes_per_second.max(1));
        let too_slow = TooSlow { passed: self.passed, stall, bytes_per_second };
        timeout_at(self.began + stall + bought, step)
            .await
            .map_err(|_| io::Error::new(io::ErrorKind::TimedOut, too_slow))?
    }

    /// Reads until `buffer` holds `bytes`; fewer if the stream ends. `progress` is told how many came whenever that takes another
    /// wait.
    ///
    /// # Errors
    /// What the stream says; [`TooSlow`].
    pub async fn fill<R: AsyncRead + Unpin>(
        &mut self,
        stream: &mut R,
        buffer: &mut Vec<u8>,
        bytes: usize,
        progress: impl Fn(usize),
    ) -> io::Result<()> {
        let mut rest = stream.take(bytes.saturating_sub(buffer.len()) as u64);
        while buffer.len() < bytes {
            let read = self.within(rest.read_buf(buffer)).await?;
            if read == 0 {
                break;
            }
            self.passed = self.passed.saturating_add(read as u64);
            if buffer.len() < bytes {
                progress(read);
            }
        }
        Ok(())
    }

    /// Writes all of `bytes`. `progress` is told whenever that takes another wait.
    ///
    /// # Errors
    /// What the stream says; [`TooSlow`].
    pub async fn write<W: AsyncWrite + Unpin>(
        &mut self,
        stream: &mut W,
        mut bytes: &[u8],
        progress: impl Fn(),
    ) -> io::Result<()> {
        while !bytes.is_empty() {
            let written = self.within(stream.write(bytes)).await?;
            if written == 0 {
                return Err(io::ErrorKind::WriteZero.into());
            }
            self.passed = self.passed.saturating_add(written as u64);
            bytes = bytes.get(written..).unwrap_or_default();
            if !bytes.is_empty() {
                progress();
            }
        }
        Ok(())
    }

    /// Writes what is still held on this side of the stream.
    ///
    /// # Errors
    /// What the stream says; [`TooSlow`].
    pub async fn flush<W: AsyncWrite + Unpin>(&self, stream: &mut W) -> io::Result<()> {
        self.within(stream.flush()).await
    }
}

#[cfg(test)]
mod tests;
