//! How slow a peer may be within a message: what is held for it meanwhile is not there for others.
//!
//! A message may take [`PATIENCE`], and a second more for every [`BYTES_PER_SECOND`] of it that have passed. So one that
//! stands still is given up after [`PATIENCE`], and one that trickles (a byte now and then) hardly later: bytes buy
//! time at that rate and at no other.

use std::io;
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::time::{Instant, timeout_at};

/// How long a message may stand still.
pub(crate) const PATIENCE: Duration = Duration::from_secs(30);
/// Slowest that a message may pass in the long run, in bytes a second.
pub(crate) const BYTES_PER_SECOND: u64 = 64 * 1024;

/// Why a message did not pass.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Broken {
    #[error("{0}")]
    Io(#[from] io::Error),
    /// So many bytes had passed.
    #[error("too slow within a message: {0} bytes in 30 s and 1 s for every 64 KiB")]
    Slow(usize),
}

/// When a message that `began` then, and of which so many bytes have passed, is given up.
fn given_up(began: Instant, passed: usize) -> Instant {
    let bought = (passed as u64).saturating_mul(1000) / BYTES_PER_SECOND;
    began + PATIENCE + Duration::from_millis(bought)
}

/// Reads until `buffer` holds `until` bytes; `progress` is told whenever that takes another wait.
pub(crate) async fn fill<IO: AsyncRead + Unpin>(
    stream: &mut IO,
    buffer: &mut Vec<u8>,
    until: usize,
    progress: impl Fn(),
) -> Result<(), Broken> {
    let (began, before) = (Instant::now(), buffer.len());
    let mut rest = stream.take(until.saturating_sub(before) as u64);
    while buffer.len() < until {
        let passed = buffer.len() - before;
        let read = timeout_at(given_up(began, passed), rest.read_buf(buffer)).await;
        if read.map_err(|_| Broken::Slow(passed))?? == 0 {
            return Err(io::Error::from(io::ErrorKind::UnexpectedEof).into());
        }
        if buffer.len() < until {
            progress();
        }
    }
    Ok(())
}

/// Writes and flushes all of `bytes`; `progress` is told whenever that takes another wait.
pub(crate) async fn send<IO: AsyncWrite + Unpin>(
    stream: &mut IO,
    bytes: &[u8],
    progress: impl Fn(),
) -> Result<(), Broken> {
    let began = Instant::now();
    let mut rest = bytes;
    while !rest.is_empty() {
        let passed = bytes.len() - rest.len();
        let written = timeout_at(given_up(began, passed), stream.write(rest)).await;
        let written = written.map_err(|_| Broken::Slow(passed))??;
        if written == 0 {
            return Err(io::Error::from(io::ErrorKind::WriteZero).into());
        }
        rest = rest.get(written..).unwrap_or_default();
        if !rest.is_empty() {
            progress();
        }
    }
    let flushed = timeout_at(given_up(began, bytes.len()), stream.flush()).await;
    Ok(flushed.map_err(|_| Broken::Slow(bytes.len()))??)
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use std::cell::Cell;
    use tokio::time::sleep;

    const MESSAGE_BYTES: usize = 8 << 20;
    /// What a pipe between the two sides holds.
    const PIPE_BYTES: usize = 4096;

    /// Sends a byte and takes one, if there is one, again and again, until the other side is gone,
    /// or until it has been so slow for hours.
    async fn trickle(peer: impl AsyncRead + AsyncWrite, pause: Duration) {
        let (mut from, mut to) = tokio::io::split(peer);
        for _ in 0..1000 {
            sleep(pause).await;
            let mut byte = [0];
            let taken = timeout_at(Instant::now(), from.read(&mut byte)).await;
            if matches!(taken, Ok(Ok(0) | Err(_))) || to.write_all(&[1]).await.is_err() {
                return;
            }
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_message_that_trickles_is_given_up_hardly_later_than_one_that_stands_still() {
        let began = Instant::now();
        let (mut near, far) = tokio::io::duplex(PIPE_BYTES);
        tokio::spawn(trickle(far, Duration::from_secs(29)));
        let filled = fill(&mut near, &mut Vec::new(), MESSAGE_BYTES, || ()).await;
        assert!(matches!(filled, Err(Broken::Slow(1))), "{filled:?}");
        assert!(began.elapsed() < PATIENCE + Duration::from_secs(1), "{:?}", began.elapsed());

        let began = Instant::now();
        let (mut near, far) = tokio::io::duplex(PIPE_BYTES);
        tokio::spawn(trickle(far, Duration::from_secs(29)));
        let sent = send(&mut near, &vec![7; MESSAGE_BYTES], || ()).await;
        assert!(matches!(sent, Err(Broken::Slow(_))), "{sent:?}");
        assert!(began.elapsed() < PATIENCE + Duration::from_secs(1), "{:?}", began.elapsed());
    }

    #[tokio::test(start_paused = true)]
    async fn a_slow_line_gets_the_time_that_its_bytes_take() {
        let began = Instant::now();
        let (mut near, mut far) = tokio::io::duplex(PIPE_BYTES);
        tokio::spawn(async move {
            for _ in 0..MESSAGE_BYTES / PIPE_BYTES {
                sleep(Duration::from_millis(62)).await;
                far.write_all(&[3; PIPE_BYTES]).await.unwrap();
            }
        });
        let (mut buffer, told) = (Vec::new(), Cell::new(0));
        fill(&mut near, &mut buffer, MESSAGE_BYTES, || told.set(told.get() + 1)).await.unwrap();
        assert_eq!(buffer.len(), MESSAGE_BYTES);
        assert!(told.get() >= MESSAGE_BYTES / PIPE_BYTES - 1, "{}", told.get());
        assert!(began.elapsed() > 2 * PATIENCE, "slower than the patience alone: {:?}", began.elapsed());
    }
}
