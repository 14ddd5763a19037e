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
    let mut bytes = [0; HEADER_BYTES];
    let first = stream.read(&mut bytes).await?;
    if first == 0 {
        return Ok(None);
    }
    if let Some(rest) = bytes.get_mut(first..) {
        stream.read_exact(rest).await.map_err(ended)?;
    }
    let header = FrameHeader::from_bytes(&bytes)?;
    let body_bytes = u64::from(header.body_bytes);
    let mut body = Vec::with_capacity(usize::try_from(body_bytes).unwrap_or(FIRST_BYTES).min(FIRST_BYTES));
    let mut rest = stream.take(body_bytes);
    while rest.limit() > 0 {
        if rest.read_buf(&mut body).await? == 0 {
            return Err(ReadError::Truncated);
        }
    }
    Ok(Some((header, body)))
}

/// What an end of the stream within a frame is.
fn ended(error: io::Error) -> ReadError {
    match error.kind() {
        io::ErrorKind::UnexpectedEof => ReadError::Truncated,
        _ => ReadError::Stream(error),
    }
}

#[cfg(test)]
mod tests;
