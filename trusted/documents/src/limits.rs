//! Bounds on documents: size, nesting, well-formedness. Checked on bytes before anything recurses over them.

use crate::QueryError;
use bson::{Bson, Document};

/// Most bytes of one document (16 MiB, MongoDB's own limit).
pub const DOCUMENT_BYTES_MAX: usize = 16 * 1024 * 1024;

/// Most levels of documents and arrays inside a document, the document itself included. MongoDB documents 100.
pub const DEPTH_MAX: usize = 100;

/// Checks one document as received: complete, well formed, at most [`DOCUMENT_BYTES_MAX`] bytes and
/// [`DEPTH_MAX`] levels. Runs without recursion. A document that passes is safe to decode with `bson`.
///
/// # Errors
/// 22 `InvalidBSON`: malformed. 15 `Overflow`: nested too deeply. 10334 `BSONObjectTooLarge`: too large.
pub fn check_document(bytes: &[u8]) -> Result<(), QueryError> {
    if bytes.len() > DOCUMENT_BYTES_MAX {
        return Err(too_large(bytes.len()));
    }
    // For each open document: offset just after its terminating zero byte.
    let mut ends: Vec<usize> = Vec::new();
    let mut reader = Reader { bytes, offset: 0 };
    reader.open(&mut ends, bytes.len())?;
    if ends.first() != Some(&bytes.len()) {
        return Err(malformed("length differs from the document's own"));
    }
    while let Some(&end) = ends.last() {
        let element = reader.byte()?;
        if element == 0 {
            if reader.offset != end {
                return Err(malformed("document ends before its length"));
            }
            ends.pop();
            continue;
        }
        reader.skip_name()?;
        if matches!(element, 0x03 | 0x04) {
            reader.open(&mut ends, end)?;
        } else {
            reader.skip_value(element, &mut ends, end)?;
        }
        if reader.offset >= end && ends.last() == Some(&end) {
            return Err(malformed("element runs past its document"));
        }
    }
    Ok(())
}

/// Checks size and nesting of a document built in memory, and returns about how many bytes it takes encoded.
///
/// # Errors
/// 15 `Overflow`: nested too deeply. 10334 `BSONObjectTooLarge`: too large.
pub fn check_built(document: &Document) -> Result<usize, QueryError> {
    let bytes = document_bytes(document, DEPTH_MAX)?;
    if bytes > DOCUMENT_BYTES_MAX { Err(too_large(bytes)) } else { Ok(bytes) }
}

/// A document that is neither too large nor too deep, and its encoded size: measured once, where it comes in.
#[derive(Clone, Debug, PartialEq)]
pub struct Measured {
    document: Document,
    bytes: usize,
}

impl Measured {
    /// Measures a document.
    ///
    /// # Errors
    /// Those of [`check_built`].
    pub fn new(document: Document) -> Result<Self, QueryError> {
        let bytes = check_built(&document)?;
        Ok(Self { document, bytes })
    }

    /// A document whose encoded size is known from where it was stored.
    #[must_use]
    pub fn known(document: Document, bytes: usize) -> Self {
        Self { document, bytes }
    }

    /// Its size as BSON.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// The document alone.
    #[must_use]
    pub fn into_document(self) -> Document {
        self.document
    }
}

impl std::ops::Deref for Measured {
    type Target = Document;

    fn deref(&self) -> &Document {
        &self.document
    }
}

/// Encoded size of `document` in bytes, refusing more than `depth` levels.
pub(crate) fn document_bytes(document: &Document, depth: usize) -> Result<usize, QueryError> {
    let depth = depth.checked_sub(1).ok_or_else(too_deep)?;
    let mut total: usize = 5;
    for (name, value) in document {
        total = total.saturating_add(name.len() + 2).saturating_add(value_bytes(value, depth)?);
    }
    Ok(total)
}

/// Encoded size of `value` in bytes (without tag and name), refusing more than `depth` levels.
pub(crate) fn value_bytes(value: &Bson, depth: usize) -> Result<usize, QueryError> {
    Ok(match value {
        Bson::Document(inner) => document_bytes(inner, depth)?,
        Bson::Array(values) => {
            let depth = depth.checked_sub(1).ok_or_else(too_deep)?;
            let mut total: usize = 5;
            for (position, inner) in values.iter().enumerate() {
                let digits = position.checked_ilog10().unwrap_or(0) as usize + 1;
                total = total.saturating_add(digits + 2).saturating_add(value_bytes(inner, depth)?);
            }
            total
        }
        Bson::String(text) | Bson::Symbol(text) | Bson::JavaScriptCode(text) => text.len() + 5,
        Bson::JavaScriptCodeWithScope(code) => code.code.len() + 9 + document_bytes(&code.scope, depth)?,
        Bson::Binary(binary) => binary.bytes.len() + 5,
        Bson::RegularExpression(regex) => regex.pattern.as_str().len() + regex.options.as_str().len() + 2,
        Bson::Decimal128(_) => 16,
        Bson::ObjectId(_) => 12,
        Bson::DbPointer(_) => 17,
        Bson::Int32(_) => 4,
        Bson::Boolean(_) => 1,
        Bson::Double(_) | Bson::Int64(_) | Bson::DateTime(_) | Bson::Timestamp(_) => 8,
        Bson::Null | Bson::Undefined | Bson::MinKey | Bson::MaxKey => 0,
    })
}

fn too_deep() -> QueryError {
    QueryError::overflow(format!("BSONObj exceeds maximum nested object depth: {DEPTH_MAX}"))
}

pub(crate) fn too_large(bytes: usize) -> QueryError {
    QueryError::new(
        10334,
        "BSONObjectTooLarge",
        format!("BSONObj size: {bytes} is invalid. Size must be between 0 and {DOCUMENT_BYTES_MAX}"),
    )
}

fn malformed(what: &str) -> QueryError {
    QueryError::invalid_bson(format!("malformed BSON: {what}"))
}

struct Reader<'b> {
    bytes: &'b [u8],
    offset: usize,
}

impl Reader<'_> {
    fn take(&mut self, count: usize) -> Result<&[u8], QueryError> {
        let end = self.offset.checked_add(count).ok_or_else(|| malformed("length overflows"))?;
        let taken = self.bytes.get(self.offset..end).ok_or_else(|| malformed("truncated"))?;
        self.offset = end;
        Ok(taken)
    }

    fn byte(&mut self) -> Result<u8, QueryError> {
        Ok(self.take(1)?.first().copied().unwrap_or(0))
    }

    fn length(&mut self) -> Result<usize, QueryError> {
        let bytes: [u8; 4] = self.take(4)?.try_into().map_err(|_| malformed("truncated"))?;
        usize::try_from(i32::from_le_bytes(bytes)).map_err(|_| malformed("negative length"))
    }

    fn open(&mut self, ends: &mut Vec<usize>, outer_end: usize) -> Result<(), QueryError> {
        let start = self.offset;
        let end = start.checked_add(self.length()?).ok_or_else(|| malformed("length overflows"))?;
        if end < start + 5 || end > outer_end {
            return Err(malformed("document length out of range"));
        }
        if ends.len() >= DEPTH_MAX {
            return Err(too_deep());
        }
        ends.push(end);
        Ok(())
    }

    fn skip_name(&mut self) -> Result<(), QueryError> {
        let rest = self.bytes.get(self.offset..).unwrap_or_default();
        let length =
            rest.iter().position(|&byte| byte == 0).ok_or_else(|| malformed("name without an end"))?;
        if std::str::from_utf8(rest.get(..length).unwrap_or_default()).is_err() {
            return Err(malformed("name is not UTF-8"));
        }
        self.offset += length + 1;
        Ok(())
    }

    fn skip_text(&mut self) -> Result<(), QueryError> {
        let length = self.length()?;
        let (last, text) =
            self.take(length)?.split_last().ok_or_else(|| malformed("string without an end"))?;
        if *last != 0 {
            return Err(malformed("string without an end"));
        }
        std::str::from_utf8(text).map(|_| ()).map_err(|_| malformed("string is not UTF-8"))
    }

    fn skip_value(&mut self, element: u8, ends: &mut Vec<usize>, end: usize) -> Result<(), QueryError> {
        match element {
            0x01 | 0x09 | 0x11 | 0x12 => self.take(8).map(|_| ()),
            0x02 | 0x0D | 0x0E => self.skip_text(),
            0x05 => {
                let length = self.length()?;
                let subtype = self.byte()?;
                // The old binary subtype repeats its length inside.
                if subtype == 0x02 && self.length()?.checked_add(4) != Some(length) {
                    return Err(malformed("binary length"));
                }
                self.take(if subtype == 0x02 { length - 4 } else { length }).map(|_| ())
            }
            0x06 | 0x0A | 0x7F | 0xFF => Ok(()),
            0x07 => self.take(12).map(|_| ()),
            0x08 => match self.byte()? {
                0 | 1 => Ok(()),
                _ => Err(malformed("boolean is neither 0 nor 1")),
            },
            0x0B => {
                self.skip_name()?;
                self.skip_name()
            }
            0x0C => {
                self.skip_text()?;
                self.take(12).map(|_| ())
            }
            0x0F => {
                let start = self.offset;
                let length = self.length()?;
                let stop = start.checked_add(length).ok_or_else(|| malformed("length overflows"))?;
                self.skip_text()?;
                self.open(ends, end)?;
                // The scope ends where the code with scope ends.
                if ends.last() == Some(&stop) { Ok(()) } else { Err(malformed("code with scope length")) }
            }
            0x10 => self.take(4).map(|_| ()),
            0x13 => self.take(16).map(|_| ()),
            _ => Err(malformed("unknown element type")),
        }
    }
}

#[cfg(test)]
mod tests;
