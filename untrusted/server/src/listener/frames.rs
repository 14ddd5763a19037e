//! Frames on a byte stream.

use super::Limits;
use super::pace::Pace;
use arras_protocol::frame::{FrameError, FrameHeader, HEADER_BYTES};
use std::io;
use tokio::io::{AsyncRead, AsyncReadExt};

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
    /// Reads the rest of the frame, which must come without too long a stop.
    pub(super) async fn finish<R: AsyncRead + Unpin>(
        mut self,
        stream: &mut R,
    ) -> Result<(FrameHeader, Vec<u8>), ReadError> {
        self.pace.fill(stream, &mut self.head, HEADER_BYTES).await?;
        let head = self.head.first_chunk::<HEADER_BYTES>().ok_or(ReadError::Truncated)?;
        let header = FrameHeader::from_bytes(head)?;
        let body_bytes = usize::try_from(header.body_bytes).map_err(|_| ReadError::Truncated)?;
        let mut body = Vec::with_capacity(body_bytes.min(FIRST_BYTES));
        self.pace.fill(stream, &mut body, body_bytes).await?;
        if body.len() != body_bytes {
            return Err(ReadError::Truncated);
        }
        Ok((header, body))
    }
}

#[cfg(test)]
mod tests;
