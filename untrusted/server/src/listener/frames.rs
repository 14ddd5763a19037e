//! Frames on a byte stream.

use super::Limits;
use super::pace::Pace;
use arras_protocol::frame::{FrameError, FrameHeader, HEADER_BYTES};
use std::future::Future;
use std::io;
use tokio::io::{AsyncRead, AsyncReadExt};
use tokio::time::Instant;

/// Room made before a body has come: a header alone must not make the server allocate its limit.
const FIRST_BYTES: usize = 64 * 1024;

/// Why no frame could be read.
#[derive(Debug, thiserror::Error)]
pub(super) enum ReadError {
    #[error("{0}")]
    Frame(#[from] FrameError),
    #[error("{0}")]
    Stream(#[from] io::Error),
    #[error("the stream ended within a frame")]
    Truncated,
}

/// A frame whose first bytes have come.
#[derive(Debug)]
pub(super) struct Begun {
    head: Vec<u8>,
    pace: Pace,
}

/// Waits for the beginning of a frame, for as long as it takes; `None` where the stream ends between two.
pub(super) async fn begin<R: AsyncRead + Unpin>(
    stream: &mut R,
    limits: &Limits,
) -> Result<Option<Begun>, ReadError> {
    let mut head = Vec::with_capacity(HEADER_BYTES);
    let came = (&mut *stream).take(HEADER_BYTES as u64).read_buf(&mut head).await?;
    Ok((came > 0).then(|| Begun { head, pace: Pace::new(limits) }))
}

impl Begun {
    /// Reads the rest of the header. It and the body together must come without too long a stop.
    pub(super) async fn header<R: AsyncRead + Unpin>(
        mut self,
        stream: &mut R,
    ) -> Result<Announced, ReadError> {
        self.pace.fill(stream, &mut self.head, HEADER_BYTES).await?;
        let head = self.head.first_chunk::<HEADER_BYTES>().ok_or(ReadError::Truncated)?;
        let header = FrameHeader::from_bytes(head)?;
        let body_bytes = usize::try_from(header.body_bytes).map_err(|_| ReadError::Truncated)?;
        Ok(Announced { header, body_bytes, pace: self.pace })
    }
}

/// A frame whose header has come.
#[derive(Debug)]
pub(super) struct Announced {
    pub(super) header: FrameHeader,
    pub(super) body_bytes: usize,
    pace: Pace,
}

impl Announced {
    /// Waits for something before the body is read; the peer's time stands still meanwhile.
    pub(super) async fn after<T>(&mut self, turn: impl Future<Output = T>) -> T {
        let began = Instant::now();
        let came = turn.await;
        self.pace.put_off(began.elapsed());
        came
    }

    /// Reads the body.
    pub(super) async fn body<R: AsyncRead + Unpin>(mut self, stream: &mut R) -> Result<Vec<u8>, ReadError> {
        let mut body = Vec::with_capacity(self.body_bytes.min(FIRST_BYTES));
        self.pace.fill(stream, &mut body, self.body_bytes).await?;
        if body.len() == self.body_bytes { Ok(body) } else { Err(ReadError::Truncated) }
    }
}

#[cfg(test)]
mod tests;
