//! What is in a file: to index it, and again to show where it matches.

use super::decoding::{self, Decoder};
use super::html;
use super::ledger::{MessageId, Place};
use super::mbox;
use super::message::{Messages, Reader};
use super::{HELD_BYTES_MAX, Stamp};
use crate::formula::Field;
use sha2::{Digest, Sha256};
use std::fs;
use std::io::{self, BufRead, BufReader, Read};
use std::path::Path;

/// Bytes of a file that are read at once, and by which its kind is told.
const PIECE_BYTES: usize = 64 << 10;
/// Bytes at the beginning among which none is zero in text.
const TEXT_BYTES: usize = 8 << 10;

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
    file: BufReader<fs::File>,
}

impl Open {
    /// Opens a file and tells what it is.
    pub(super) fn new(path: &Path, is_message: bool) -> io::Result<Self> {
        let mut file = BufReader::with_capacity(PIECE_BYTES, fs::File::open(path)?);
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
        Ok(Self { kind, file })
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

/// What became of a document that was found.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Reread {
    /// It was read.
    Whole,
    /// The file is gone, or another than was indexed, or cannot be read.
    Changed,
}

/// Passes the pieces of only the texts on.
struct Texts<'f, F: FnMut(&str)>(&'f mut F);

impl<F: FnMut(&str)> Reader for Texts<'_, F> {
    fn field(&mut self, _: Field, _: &str) {}

    fn feed(&mut self, piece: &str) {
        self.0(piece);
    }

    fn end_text(&mut self) {
        self.0("\n");
    }
}

/// Reads the text of a document that was found again, as it is where it was indexed, by pieces.
pub fn reread(place: &Place, mut each: impl FnMut(&str)) -> Reread {
    let is_unchanged = || {
        let now = fs::metadata(&place.path).ok()?;
        let stamp: Stamp = place.stamp?;
        // The size alone: times of files that were copied back differ, and a mailbox grows at its end.
        Some(place.message.is_some() || now.len() == stamp.size)
    };
    let mut read = || -> io::Result<bool> {
        let open = Open::new(&place.path, is_maildir_message(place))?;
        let mut texts = Texts(&mut each);
        if let Some(wanted) = place.message {
            return found_message(open, wanted, &mut texts);
        }
        match open.kind {
            Kind::Binary | Kind::Mailbox => return Ok(false),
            Kind::Html => texts.feed(&html::text(&decoding::text(&open.held()?.0))),
            Kind::Message => {
                Messages::default().read(&open.held()?.0, &mut texts);
            }
            Kind::Text => {
                open.text(&mut texts)?;
            }
        }
        Ok(true)
    };
    let whole = is_unchanged() == Some(true) && read().unwrap_or(false);
    if whole { Reread::Whole } else { Reread::Changed }
}

fn is_maildir_message(place: &Place) -> bool {
    Path::new(&place.name) != place.path
}

fn found_message(open: Open, wanted: MessageId, texts: &mut impl Reader) -> io::Result<bool> {
    let mut found = false;
    if open.kind == Kind::Mailbox {
        open.messages(|raw, _| -> io::Result<()> {
            if !found && message_id(raw) == wanted {
                found = true;
                Messages::default().read(raw, texts);
            }
            Ok(())
        })?;
    }
    Ok(found)
}
