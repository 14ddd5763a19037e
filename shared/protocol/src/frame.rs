//! Frames: how calls share one byte stream.
//!
//! ```text
//! body_bytes: u32 LE | call: u64 LE | kind: u8 | protocol: u8 | deadline_ms: u32 LE | body
//! ```
//! Pure bytes; the sockets are in `trusted/proxy` and `untrusted/server`.

use crate::channel::ProtocolId;
use crate::limits::FRAME_BYTES_MAX;

/// Bytes before the body.
pub const HEADER_BYTES: usize = 18;

/// What a frame's body is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FrameKind {
    /// A request of the frame's protocol.
    Request,
    /// Its response.
    Response,
    /// A [`crate::Refusal`] in place of a response.
    Refusal,
}

/// The fixed part of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FrameHeader {
    /// Pairs a reply with its request; chosen by the requester, unique among calls in flight.
    pub call: u64,
    /// What the body is.
    pub kind: FrameKind,
    /// Whose message it is.
    pub protocol: ProtocolId,
    /// How long the requester will wait, in milliseconds from receipt; 0 in replies.
    pub deadline_ms: u32,
    /// Length of the body, in bytes.
    pub body_bytes: u32,
}

/// A header that cannot be followed by a frame: the connection must be closed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FrameError {
    /// The body would exceed [`FRAME_BYTES_MAX`].
    #[error("a frame of {0} bytes is over the limit")]
    TooLarge(u32),
    /// The kind is none of the known ones.
    #[error("unknown frame kind {0}")]
    UnknownKind(u8),
}

impl FrameHeader {
    /// The header's bytes.
    #[must_use]
    pub fn to_bytes(self) -> [u8; HEADER_BYTES] {
        let mut bytes = [0; HEADER_BYTES];
        let kind = match self.kind {
            FrameKind::Request => 1,
            FrameKind::Response => 2,
            FrameKind::Refusal => 3,
        };
        let parts: [&[u8]; 5] = [
            &self.body_bytes.to_le_bytes(),
            &self.call.to_le_bytes(),
            &[kind],
            &[self.protocol.0],
            &self.deadline_ms.to_le_bytes(),
        ];
        for (to, from) in bytes.iter_mut().zip(parts.into_iter().flatten()) {
            *to = *from;
        }
        bytes
    }

    /// Reads a header.
    ///
    /// # Errors
    /// [`FrameError`] if no frame can follow.
    pub fn from_bytes(bytes: &[u8; HEADER_BYTES]) -> Result<Self, FrameError> {
        let [b0, b1, b2, b3, c0, c1, c2, c3, c4, c5, c6, c7, kind, protocol, d0, d1, d2, d3] = *bytes;
        let body_bytes = u32::from_le_bytes([b0, b1, b2, b3]);
        if usize::try_from(body_bytes).is_ok_and(|len| len > FRAME_BYTES_MAX) {
            return Err(FrameError::TooLarge(body_bytes));
        }
        let kind = match kind {
            1 => FrameKind::Request,
            2 => FrameKind::Response,
            3 => FrameKind::Refusal,
            other => return Err(FrameError::UnknownKind(other)),
        };
        Ok(Self {
            call: u64::from_le_bytes([c0, c1, c2, c3, c4, c5, c6, c7]),
            kind,
            protocol: ProtocolId(protocol),
            deadline_ms: u32::from_le_bytes([d0, d1, d2, d3]),
            body_bytes,
        })
    }
}
