//! What is in a file.

use super::HELD_BYTES_MAX;
use super::decoding::Decoder;
use super::ledger::MessageId;
use super::mbox;
use super::message::Reader;
use rustix::fs::OFlags;
use sha2::{Digest, Sha256};
use std::fs;
use std::io::{self, BufRead, BufReader, Read};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

/// Bytes of a file that are read at once, and by which its kind is told.
const PIECE_BYTES: usize = 64 << 10;
/// Bytes at the beginning among which none is zero in text.
const TEXT_BYTES: usize = 8 << 10;

/// Why what is no file is not read.
pub(super) const NO_FILE: &str = "it is no regular file";

/// What a file is.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Kind {
    Binary,
    Html,
    Mailbox,
    Message,
    Text,
}

/// A file at its beginning.
pub(super) struct Open {
    pub(super) kind: Kind,
    /// Bytes.
    pub(super) size: u64,
    file: BufReader<fs::File>,
}

impl Open {
    /// Opens a file and tells what it is.
    pub(super) fn new(path: &Path, is_message: bool) -> io::Result<Self> {
        // A pipe that nobody writes into, or a file of a device, is not waited for.
        let nonblocking = OFlags::NONBLOCK.bits() as i32;
        let file = fs::File::options().read(true).custom_flags(nonblocking).open(path)?;
        let metadata = file.metadata()?;
        if !metadata.is_file() {
            return Err(io::Error::other(NO_FILE));
        }
        let size = metadata.len();
        let mut file = BufReader::with_capacity(PIECE_BYTES, file);
        let beginning = file.fill_buf()?;
        let ending = ending(path);
        let kind = if is_message || ending == "eml" {
            Kind::Message
        } else if mbox::is_mbox(beginning) {
            Kind::Mailbox
        } else if beginning.iter().take(TEXT_BYTES).any(|byte| *byte == 0) {
            Kind::Binary
        } else if ["html", "htm"].contains(&ending.as_str()) {
            Kind::Html
        } else {
            Kind::Text
        };
        Ok(Self { kind, size, file })
    }

    /// Reads a text to its end. The first half of the SHA-256 of its bytes.
    pub(super) fn text(mut self, reader: &mut impl Reader) -> io::Result<[u8; 16]> {
        let (mut hash, mut decoder) = (Sha256::new(), Decoder::default());
        loop {
            let piece = self.file.fill_buf()?;
            if piece.is_empty() {
                break;
            }
            hash.update(piece);
            decoder.feed(piece, |text| reader.feed(text));
            let read = piece.len();
            self.file.consume(read);
        }
        decoder.end(|text| reader.feed(text));
        reader.end_text();
        Ok(half(hash))
    }

    /// The bytes, up to [`HELD_BYTES_MAX`], how many more there are, and the first half of the SHA-256 of all.
    pub(super) fn held(mut self) -> io::Result<(Vec<u8>, u64, [u8; 16])> {
        let mut bytes = Vec::new();
        self.file.by_ref().take(HELD_BYTES_MAX as u64).read_to_end(&mut bytes)?;
        let mut hash = Sha256::new();
        hash.update(&bytes);
        let mut more = 0;
        loop {
            let piece = self.file.fill_buf()?;
            if piece.is_empty() {
                return Ok((bytes, more, half(hash)));
            }
            hash.update(piece);
            let read = piece.len();
            more += read as u64;
            self.file.consume(read);
        }
    }

    /// Reads a mailbox: see [`mbox::messages`].
    pub(super) fn messages<E: From<io::Error>>(
        self,
        each: impl FnMut(&[u8], u64) -> Result<(), E>,
    ) -> Result<(), E> {
        mbox::messages(self.file, each)
    }
}

fn half(hash: Sha256) -> [u8; 16] {
    let whole: [u8; 32] = hash.finalize().into();
    let (halves, _) = whole.as_chunks::<16>();
    halves[0]
}

/// What tells a message from the others of its mailbox: not how its last line ends, which the end of the mailbox may leave out.
pub(super) fn message_id(raw: &[u8]) -> MessageId {
    let ends = raw.iter().rev().take_while(|byte| b"\r\n".contains(byte)).count();
    let mut hash = Sha256::new();
    hash.update(&raw[..raw.len() - ends]);
    MessageId(half(hash))
}

/// How a file's name ends, in lower case; empty if in nothing.
pub(super) fn ending(path: &Path) -> String {
    path.extension().map(|ending| ending.to_string_lossy().to_lowercase()).unwrap_or_default()
}
