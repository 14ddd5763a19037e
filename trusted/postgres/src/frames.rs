//! Messages as they come: a type, a length, and so many bytes; in buffers that are read into and passed on from.

use std::io;
use tokio::io::{AsyncRead, AsyncReadExt};

/// Bytes of a message's type and length.
pub(crate) const HEAD_BYTES: usize = 5;

/// Bytes of a buffer before anything has come, and at most for what is passed on as it comes.
const BUFFER_BYTES_MIN: usize = 4 * 1024;
const BUFFER_BYTES_MAX: usize = 32 * 1024;

/// What a message begins with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Head {
    pub(crate) kind: u8,
    /// Bytes of the whole message, the head among them.
    pub(crate) total: usize,
}

impl Head {
    /// Reads a head; `None` if the length is none that a message can have.
    pub(crate) fn read(bytes: &[u8]) -> Option<Self> {
        let (kind, rest) = bytes.split_first()?;
        let length = i32::from_be_bytes(*rest.first_chunk::<4>()?);
        let length = usize::try_from(length).ok().filter(|length| *length >= 4)?;
        Some(Self { kind: *kind, total: length + 1 })
    }
}

/// What has come from one side and is not passed on yet.
pub(crate) struct Inbox {
    bytes: Vec<u8>,
    start: usize,
    end: usize,
    /// Bytes of the message that is to be whole.
    whole: usize,
}

impl Inbox {
    pub(crate) fn new() -> Self {
        Self { bytes: vec![0; BUFFER_BYTES_MIN], start: 0, end: 0, whole: 0 }
    }

    /// What is there.
    pub(crate) fn there(&self) -> &[u8] {
        self.bytes.get(self.start..self.end).unwrap_or_default()
    }

    /// So many bytes of it are passed on.
    pub(crate) fn passed(&mut self, bytes: usize) {
        self.start = (self.start + bytes).min(self.end);
        if self.start == self.end {
            (self.start, self.end) = (0, 0);
        }
    }

    /// Makes room for a message of so many bytes, which is taken as they come: most of what is announced may never do so.
    pub(crate) fn make_room(&mut self, bytes: usize) {
        self.move_to_front();
        self.whole = bytes;
    }

    /// Gives back what a large message took.
    pub(crate) fn shrink(&mut self) {
        if self.bytes.len() > BUFFER_BYTES_MAX && self.end - self.start <= BUFFER_BYTES_MAX {
            self.move_to_front();
            self.bytes.truncate(BUFFER_BYTES_MAX);
            self.bytes.shrink_to_fit();
        }
    }

    fn move_to_front(&mut self) {
        if self.start > 0 {
            self.bytes.copy_within(self.start..self.end, 0);
            (self.start, self.end) = (0, self.end - self.start);
        }
    }

    /// Reads what there is to read; 0 at the end of the stream. Abandoned, it has read nothing.
    pub(crate) async fn fill<R: AsyncRead + Unpin>(&mut self, from: &mut R) -> io::Result<usize> {
        if self.end == self.bytes.len() {
            self.move_to_front();
        }
        if self.end == self.bytes.len() {
            // Never for a message that need not be whole: what there was of it has been passed on.
            let twice = self.bytes.len() * 2;
            let bytes = if self.whole > self.bytes.len() { twice.min(self.whole) } else { twice };
            self.bytes.reserve_exact(bytes - self.bytes.len());
            self.bytes.resize(bytes, 0);
        }
        let read = from.read(self.bytes.get_mut(self.end..).unwrap_or_default()).await?;
        self.end += read;
        if self.end == self.bytes.len() && self.bytes.len() < BUFFER_BYTES_MAX {
            // Whoever sends that much sends more.
            self.bytes.resize(BUFFER_BYTES_MAX, 0);
        }
        Ok(read)
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn lengths_that_no_message_has() {
        assert_eq!(Head::read(b"Q\0\0\0\x04"), Some(Head { kind: b'Q', total: 5 }));
        assert_eq!(Head::read(b"Q\0\0\0\x03"), None);
        assert_eq!(Head::read(b"Q\xff\xff\xff\xff"), None);
        assert_eq!(Head::read(b"Q\0\0\0"), None);
    }

    #[tokio::test]
    async fn bytes_come_out_as_they_came_in_whatever_the_pieces() {
        let sent: Vec<u8> = (0..200_000_u32).map(|number| (number % 251) as u8).collect();
        let mut from = sent.as_slice();
        let mut inbox = Inbox::new();
        let mut came = Vec::new();
        let mut step = 1;
        while inbox.fill(&mut from).await.unwrap() > 0 {
            let take = inbox.there().len().min(step);
            came.extend_from_slice(&inbox.there()[..take]);
            inbox.passed(take);
            step = step * 3 % 40_009;
            inbox.shrink();
        }
        came.extend_from_slice(inbox.there());
        assert_eq!(came, sent);
    }
}
