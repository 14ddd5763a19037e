//! Frames on a stream of bytes.

use crate::pace::{Pace, Passing};
use arras_protocol::frame::{FrameError, FrameHeader, HEADER_BYTES};
use std::io;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite};
use tokio::time::Instant;

/// Room made before a body has come: a header alone must not make the receiver allocate its limit.
const FIRST_BYTES: usize = 64 * 1024;

/// Why no frame could be read.
#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    /// What came is no frame's header.
    #[error("{0}")]
    Frame(#[from] FrameError),
    /// The stream failed, or the peer is too slow.
    #[error("{0}")]
    Stream(#[from] io::Error),
    /// It ended in the middle.
    #[error("the stream ended within a frame")]
    Truncated,
}

/// A frame whose first bytes have come.
#[derive(Debug)]
pub struct Begun {
    head: Vec<u8>,
    passing: Passing,
}

/// Waits for the beginning of a frame, for as long as it takes; `None` where the stream ends between two. The rest must
/// come at `pace`.
///
/// # Errors
/// What the stream says.
pub async fn begin<R: AsyncRead + Unpin>(stream: &mut R, pace: Pace) -> Result<Option<Begun>, ReadError> {
    let mut head = Vec::with_capacity(HEADER_BYTES);
    let came = (&mut *stream).take(HEADER_BYTES as u64).read_buf(&mut head).await?;
    Ok((came > 0).then(|| Begun { head, passing: pace.begin() }))
}

/// Reads a frame; `None` where the stream ends between two.
///
/// # Errors
/// [`ReadError`]: nothing more can be read from the stream.
pub async fn read<R: AsyncRead + Unpin>(
    stream: &mut R,
    pace: Pace,
) -> Result<Option<(FrameHeader, Vec<u8>)>, ReadError> {
    let Some(begun) = begin(stream, pace).await? else { return Ok(None) };
    let announced = begun.header(stream).await?;
    Ok(Some((announced.header, announced.body(stream).await?)))
}

/// Writes a frame; it may still be held on this side of the stream. The header says how long `body` is.
///
/// # Errors
/// What the stream says; [`TooSlow`](crate::pace::TooSlow).
pub async fn write<W: AsyncWrite + Unpin>(
    stream: &mut W,
    pace: Pace,
    header: FrameHeader,
    body: &[u8],
) -> io::Result<Passing> {
    let mut passing = pace.begin();
    passing.write(stream, &header.to_bytes(), || ()).await?;
    passing.write(stream, body, || ()).await?;
    Ok(passing)
}

impl Begun {
    /// Reads the rest of the header. It and the body together must come without too long a stop.
    ///
    /// # Errors
    /// [`ReadError`]: nothing more can be read from the stream.
    pub async fn header<R: AsyncRead + Unpin>(mut self, stream: &mut R) -> Result<Announced, ReadError> {
        self.passing.fill(stream, &mut self.head, HEADER_BYTES, |_| ()).await?;
        let head = self.head.first_chunk::<HEADER_BYTES>().ok_or(ReadError::Truncated)?;
        let header = FrameHeader::from_bytes(head)?;
        let body_bytes = usize::try_from(header.body_bytes).map_err(|_| ReadError::Truncated)?;
        Ok(Announced { header, body_bytes, passing: self.passing })
    }
}

/// A frame whose header has come.
#[derive(Debug)]
pub struct Announced {
    /// What it says.
    pub header: FrameHeader,
    /// The length of the body that follows.
    pub body_bytes: usize,
    passing: Passing,
}

impl Announced {
    /// Waits for something before the body is read; the peer's time stands still meanwhile.
    pub async fn after<T>(&mut self, turn: impl Future<Output = T>) -> T {
        let began = Instant::now();
        let came = turn.await;
        self.passing.put_off(began.elapsed());
        came
    }

    /// Reads the body.
    ///
    /// # Errors
    /// [`ReadError`]: nothing more can be read from the stream.
    pub async fn body<R: AsyncRead + Unpin>(mut self, stream: &mut R) -> Result<Vec<u8>, ReadError> {
        let mut body = Vec::with_capacity(self.body_bytes.min(FIRST_BYTES));
        self.passing.fill(stream, &mut body, self.body_bytes, |_| ()).await?;
        if body.len() == self.body_bytes { Ok(body) } else { Err(ReadError::Truncated) }
    }
}

#[cfg(test)]
mod tests;
