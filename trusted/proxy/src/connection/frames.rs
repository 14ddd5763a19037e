//! Frames on a byte stream.

use arras_protocol::frame::{FrameError, FrameHeader, HEADER_BYTES};
use std::io;
use tokio::io::{AsyncRead, AsyncReadExt};

/// Room made before a body has come: a header alone must not make the proxy allocate its limit.
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

/// Reads a frame; `None` where the stream ends between two.
pub(super) async fn read<R: AsyncRead + Unpin>(
    stream: &mut R,
) -> Result<Option<(FrameHeader, Vec<u8>)>, ReadError> {
    let mut bytes = Vec::with_capacity(HEADER_BYTES);
    (&mut *stream).take(HEADER_BYTES as u64).read_to_end(&mut bytes).await?;
    if bytes.is_empty() {
        return Ok(None);
    }
    let bytes = <[u8; HEADER_BYTES]>::try_from(bytes).map_err(|_| ReadError::Truncated)?;
    let header = FrameHeader::from_bytes(&bytes)?;
    let body_bytes = u64::from(header.body_bytes);
    let mut body = Vec::with_capacity(usize::try_from(body_bytes).unwrap_or(FIRST_BYTES).min(FIRST_BYTES));
    stream.take(body_bytes).read_to_end(&mut body).await?;
    if body.len() as u64 != body_bytes {
        return Err(ReadError::Truncated);
    }
    Ok(Some((header, body)))
}

#[cfg(test)]
mod tests;
