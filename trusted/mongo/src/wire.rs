//! The MongoDB wire protocol as pure functions on bytes: messages in, messages out, no I/O.
//!
//! Spoken: `OP_MSG` (sections 0 and 1, checksums checked, `moreToCome` honoured, `exhaustAllowed` permitted
//! and never used, as the protocol lets a server do) and, because drivers open every connection with it,
//! `OP_QUERY` for the legacy hello. Compression is never negotiated, so `OP_COMPRESSED` is a broken peer.
//!
//! Every length is checked before it is used; documents become owned only through [`owned`], which bounds
//! nesting depth.

pub mod owned;
#[cfg(test)]
mod tests;

use crate::answer::{self, CursorBatch};
use arras_documents::limits;
use bson::Document;
use bson::raw::RawDocument;

/// Largest message, in bytes, header included; announced as `maxMessageSizeBytes`.
pub const MESSAGE_BYTES_MAX: usize = 48_000_000;
/// Largest document a client may store, in bytes; announced as `maxBsonObjectSize`.
pub const DOCUMENT_BYTES_MAX: usize = limits::DOCUMENT_BYTES_MAX;
/// Largest command document, in bytes: a stored document and room for the command around it.
pub const BODY_BYTES_MAX: usize = DOCUMENT_BYTES_MAX + 16 * 1024;
/// Most documents in one write command; announced as `maxWriteBatchSize`.
pub const WRITE_BATCH_MAX: usize = 100_000;
/// Bytes of a message header.
pub const HEADER_BYTES: usize = 16;

/// Bytes at the beginning of a message that say how long it is.
const LENGTH_BYTES: usize = 4;

const OP_REPLY: i32 = 1;
const OP_QUERY: i32 = 2004;
const OP_COMPRESSED: i32 = 2012;
const OP_MSG: i32 = 2013;

const CHECKSUM_PRESENT: u32 = 1;
const MORE_TO_COME: u32 = 1 << 1;
const EXHAUST_ALLOWED: u32 = 1 << 16;
/// The lower half of the flags is "required": an unknown bit there must be refused.
const REQUIRED_FLAGS: u32 = 0xffff;
const CHECKSUM_BYTES: usize = 4;
/// `OP_REPLY` flag every MongoDB server sets.
const AWAIT_CAPABLE: i32 = 8;

/// A message header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// Bytes of the whole message, header included; within the limits.
    pub message_bytes: usize,
    /// The peer's number for the message.
    pub request_id: i32,
    /// The number of the message it answers.
    pub response_to: i32,
    /// What kind of message.
    pub opcode: i32,
}

/// A request, parsed.
#[derive(Clone, Debug, PartialEq)]
pub struct Message {
    /// The peer's number for it, to be named in the reply.
    pub request_id: i32,
    /// What it asks.
    pub body: MessageBody,
}

/// What a message asks.
#[derive(Clone, Debug, PartialEq)]
pub enum MessageBody {
    /// `OP_MSG`: a command.
    Command {
        /// The command document; its first field names the command.
        command: Document,
        /// Document sequences that belong to it.
        sequences: Vec<Sequence>,
        /// The peer does not want a reply (`moreToCome`).
        unacknowledged: bool,
    },
    /// `OP_QUERY` on a `$cmd` collection: a command in the old form.
    LegacyCommand {
        /// Database it is addressed to.
        database: String,
        /// The command document.
        command: Document,
    },
}

/// A section of kind 1: a field of the command, sent as documents one after another.
#[derive(Clone, Debug, PartialEq)]
pub struct Sequence {
    /// Name of the field it stands for.
    pub identifier: String,
    /// Its documents.
    pub documents: Vec<Document>,
}

/// Why a message could not be understood. The peer is to blame for all of them.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum WireError {
    /// The framing can no longer be trusted, or there is no way to answer: close the connection.
    #[error("{0}")]
    Broken(String),
    /// The message is well framed; what is in it is not acceptable. Answer with MongoDB's error.
    #[error("{message}")]
    Refused {
        /// MongoDB's error code.
        code: i32,
        /// That of the code in MongoDB's table, such as `BadValue`.
        code_name: &'static str,
        /// One line a person can act on.
        message: String,
        /// How the peer expects an answer.
        reply: ReplyForm,
    },
}

/// The form an answer takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReplyForm {
    /// `OP_MSG`.
    Message,
    /// `OP_REPLY`, to an `OP_QUERY`.
    Legacy,
    /// None: the request said `moreToCome`.
    Silent,
}

/// Parses a header. [`WireError::Broken`] if the length is impossible or over the limit.
pub fn parse_header(bytes: &[u8; HEADER_BYTES]) -> Result<Header, WireError> {
    let mut reader = Reader { bytes };
    let length = reader.int32()?;
    let message_bytes = usize::try_from(length)
        .ok()
        .filter(|length| (HEADER_BYTES..=MESSAGE_BYTES_MAX).contains(length))
        .ok_or_else(|| {
            WireError::Broken(format!(
                "message length {length} is not between {HEADER_BYTES} and {MESSAGE_BYTES_MAX}"
            ))
        })?;
    Ok(Header {
        message_bytes,
        request_id: reader.int32()?,
        response_to: reader.int32()?,
        opcode: reader.int32()?,
    })
}

/// Parses one whole message, header included.
pub fn parse_message(bytes: &[u8]) -> Result<Message, WireError> {
    let (head, rest) =
        bytes.split_first_chunk::<HEADER_BYTES>().ok_or_else(|| broken("message shorter than its header"))?;
    let header = parse_header(head)?;
    if header.message_bytes != bytes.len() {
        return Err(broken("message length does not match the bytes received"));
    }
    let body = match header.opcode {
        OP_MSG => parse_msg(bytes, rest)?,
        OP_QUERY => parse_query(rest)?,
        OP_COMPRESSED => return Err(broken("OP_COMPRESSED, but compression was not negotiated")),
        other => return Err(WireError::Broken(format!("unknown or removed opcode {other}"))),
    };
    Ok(Message { request_id: header.request_id, body })
}

/// An `OP_MSG` reply holding one document. `Err` if the document cannot be written as BSON or is too long for a
/// message.
pub fn encode_reply(request_id: i32, response_to: i32, document: &Document) -> Result<Vec<u8>, WireError> {
    encode(request_id, response_to, OP_MSG, &[0; 5], document)
}

/// An `OP_MSG` reply holding a batch of a cursor.
pub(crate) fn encode_batch(
    request_id: i32,
    response_to: i32,
    batch: &CursorBatch,
) -> Result<Vec<u8>, WireError> {
    let mut message = begun([request_id, response_to, OP_MSG], &[0; 5], batch.room_bytes());
    batch.append_to(&mut message)?;
    ended(message)
}

/// An `OP_REPLY` holding one document.
pub fn encode_legacy_reply(
    request_id: i32,
    response_to: i32,
    document: &Document,
) -> Result<Vec<u8>, WireError> {
    let mut prefix = Vec::with_capacity(20);
    prefix.extend_from_slice(&AWAIT_CAPABLE.to_le_bytes());
    prefix.extend_from_slice(&0_i64.to_le_bytes()); // cursor id
    prefix.extend_from_slice(&0_i32.to_le_bytes()); // starting from
    prefix.extend_from_slice(&1_i32.to_le_bytes()); // number returned
    encode(request_id, response_to, OP_REPLY, &prefix, document)
}

/// An `OP_MSG` request without sequences: what a client sends. For tests and tools that speak to a server.
pub fn encode_command(request_id: i32, command: &Document) -> Result<Vec<u8>, WireError> {
    encode_reply(request_id, 0, command)
}

fn encode(
    request_id: i32,
    response_to: i32,
    opcode: i32,
    prefix: &[u8],
    document: &Document,
) -> Result<Vec<u8>, WireError> {
    let body = answer::encoded(document)?;
    let mut message = begun([request_id, response_to, opcode], prefix, body.len());
    message.extend_from_slice(&body);
    ended(message)
}

/// A message up to its document, with room for so many bytes of it.
fn begun(numbers: [i32; 3], prefix: &[u8], room: usize) -> Vec<u8> {
    let mut message = Vec::with_capacity(HEADER_BYTES + prefix.len() + room);
    message.extend_from_slice(&[0; LENGTH_BYTES]);
    for number in numbers {
        message.extend_from_slice(&number.to_le_bytes());
    }
    message.extend_from_slice(prefix);
    message
}

/// A whole message, which says how long it is.
fn ended(mut message: Vec<u8>) -> Result<Vec<u8>, WireError> {
    let length = i32::try_from(message.len()).ok().filter(|_| message.len() <= MESSAGE_BYTES_MAX);
    let length = length.ok_or_else(|| broken("reply longer than a message may be"))?;
    if let Some(announced) = message.first_chunk_mut::<LENGTH_BYTES>() {
        *announced = length.to_le_bytes();
    }
    Ok(message)
}

fn parse_msg(message: &[u8], rest: &[u8]) -> Result<MessageBody, WireError> {
    let mut reader = Reader { bytes: rest };
    let flags = reader.int32()?.cast_unsigned();
    let unknown = flags & REQUIRED_FLAGS & !(CHECKSUM_PRESENT | MORE_TO_COME | EXHAUST_ALLOWED);
    if unknown != 0 {
        return Err(WireError::Broken(format!("OP_MSG with unknown required flags {unknown:#x}")));
    }
    if flags & CHECKSUM_PRESENT != 0 {
        reader.bytes = verify_checksum(message, reader.bytes)?;
    }
    let unacknowledged = flags & MORE_TO_COME != 0;
    let reply = if unacknowledged { ReplyForm::Silent } else { ReplyForm::Message };
    let mut command = None;
    let mut sequences: Vec<Sequence> = Vec::new();
    while !reader.bytes.is_empty() {
        match reader.byte()? {
            0 if command.is_none() => command = Some(to_owned(reader.document()?, BODY_BYTES_MAX, reply)?),
            0 => {
                return Err(refused(40430, "Location40430", "Multiple body sections in message", reply));
            }
            1 => {
                let sequence = parse_sequence(&mut reader, reply)?;
                if sequences.iter().any(|other| other.identifier == sequence.identifier) {
                    let text = format!("Duplicate document sequence: {}", sequence.identifier);
                    return Err(refused(40431, "Location40431", &text, reply));
                }
                sequences.push(sequence);
            }
            kind => {
                return Err(WireError::Broken(format!("OP_MSG section of unknown kind {kind}")));
            }
        }
    }
    let command = command.ok_or_else(|| {
        refused(40587, "Location40587", "OP_MSG messages must have a body", ReplyForm::Message)
    })?;
    Ok(MessageBody::Command { command, sequences, unacknowledged })
}

/// Checks the CRC-32C at the end of a message and returns `sections` without it.
fn verify_checksum<'a>(message: &[u8], sections: &'a [u8]) -> Result<&'a [u8], WireError> {
    let covered = message.split_last_chunk::<CHECKSUM_BYTES>();
    let sections = sections.split_last_chunk::<CHECKSUM_BYTES>();
    match (covered, sections) {
        (Some((covered, sent)), Some((sections, _))) => {
            if crc32c::crc32c(covered) != u32::from_le_bytes(*sent) {
                return Err(broken("OP_MSG checksum does not match contents"));
            }
            Ok(sections)
        }
        _ => Err(broken("OP_MSG too short for the checksum it announces")),
    }
}

fn parse_sequence(reader: &mut Reader<'_>, reply: ReplyForm) -> Result<Sequence, WireError> {
    let length = reader.int32()?;
    let inside = usize::try_from(length).ok().and_then(|length| length.checked_sub(4));
    let inside = inside.ok_or_else(|| broken("document sequence with an impossible length"))?;
    let mut section = Reader { bytes: reader.take(inside)? };
    let identifier = section.cstring()?.to_owned();
    let mut documents = Vec::new();
    while !section.bytes.is_empty() {
        if documents.len() == WRITE_BATCH_MAX {
            let text = format!("Write batch sizes must be between 1 and {WRITE_BATCH_MAX}.");
            return Err(refused(16, "InvalidLength", &text, reply));
        }
        documents.push(to_owned(section.document()?, BODY_BYTES_MAX, reply)?);
    }
    Ok(Sequence { identifier, documents })
}

fn parse_query(rest: &[u8]) -> Result<MessageBody, WireError> {
    let mut reader = Reader { bytes: rest };
    let _flags = reader.int32()?;
    let namespace = reader.cstring()?;
    let database = namespace.strip_suffix(".$cmd").map(str::to_owned);
    let _skip = reader.int32()?;
    let _count = reader.int32()?;
    let command = to_owned(reader.document()?, BODY_BYTES_MAX, ReplyForm::Legacy)?;
    if !reader.bytes.is_empty() {
        reader.document()?; // a field selector, which commands do not use
    }
    if !reader.bytes.is_empty() {
        return Err(broken("bytes after the end of an OP_QUERY"));
    }
    match database {
        Some(database) if !database.is_empty() => Ok(MessageBody::LegacyCommand { database, command }),
        _ => Err(refused(
            352,
            "UnsupportedOpQueryCommand",
            "OP_QUERY is no longer supported. The client driver may require an upgrade.",
            ReplyForm::Legacy,
        )),
    }
}

fn to_owned(bytes: &[u8], bytes_max: usize, reply: ReplyForm) -> Result<Document, WireError> {
    if bytes.len() > bytes_max {
        let text = format!("BSON size: {} is invalid. Size must be between 0 and {bytes_max}", bytes.len());
        return Err(refused(10334, "BSONObjectTooLarge", &text, reply));
    }
    RawDocument::from_bytes(bytes)
        .map_err(|error| owned::Unacceptable::Malformed(error.to_string()))
        .and_then(owned::document)
        .map_err(|error| refused(error.code(), error.code_name(), &error.to_string(), reply))
}

fn broken(text: &str) -> WireError {
    WireError::Broken(text.to_owned())
}

fn refused(code: i32, code_name: &'static str, message: &str, reply: ReplyForm) -> WireError {
    WireError::Refused { code, code_name, message: message.to_owned(), reply }
}

/// Takes fields off the front of a byte string.
struct Reader<'a> {
    bytes: &'a [u8],
}

impl<'a> Reader<'a> {
    fn take(&mut self, count: usize) -> Result<&'a [u8], WireError> {
        let (head, rest) =
            self.bytes.split_at_checked(count).ok_or_else(|| broken("message ends too early"))?;
        self.bytes = rest;
        Ok(head)
    }

    fn byte(&mut self) -> Result<u8, WireError> {
        let (first, rest) = self.bytes.split_first().ok_or_else(|| broken("message ends too early"))?;
        self.bytes = rest;
        Ok(*first)
    }

    fn int32(&mut self) -> Result<i32, WireError> {
        let (head, rest) =
            self.bytes.split_first_chunk::<4>().ok_or_else(|| broken("message ends too early"))?;
        self.bytes = rest;
        Ok(i32::from_le_bytes(*head))
    }

    fn cstring(&mut self) -> Result<&'a str, WireError> {
        let end = self.bytes.iter().position(|byte| *byte == 0);
        let end = end.ok_or_else(|| broken("string without an end"))?;
        let text = self.take(end)?;
        self.byte()?;
        std::str::from_utf8(text).map_err(|_| broken("string is not UTF-8"))
    }

    /// The bytes of one document, by its own length.
    fn document(&mut self) -> Result<&'a [u8], WireError> {
        let length = Reader { bytes: self.bytes }.int32()?;
        let length = usize::try_from(length).map_err(|_| broken("document with a negative length"))?;
        self.take(length.max(4))
    }
}
