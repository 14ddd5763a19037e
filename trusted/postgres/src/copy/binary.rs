//! Rows of `COPY` in PostgreSQL's binary format: a header, rows of as many fields as they say, and what ends them.

use super::{Line, MAX_ROW_BYTES};
use crate::codec::Datum;
use crate::column_type::ColumnType;
use crate::error::{SqlError, sqlstate};

/// What a stream begins with; flags and the length of what else is in the header follow.
const SIGNATURE: &[u8; 11] = b"PGCOPY\n\xff\r\n\0";
/// Flags of the header, and the length of its extension, in bytes.
const FIXED_BYTES: usize = 8;
/// A flag: rows have numbers of their own, which PostgreSQL has no longer.
const WITH_NUMBERS: u32 = 1 << 16;
/// Flags that whoever does not know them does not read past.
const CRITICAL: u32 = 0xffff_0000;
/// In the place of a row's count of fields: the end.
const END: i16 = -1;

/// Reads rows from pieces of a stream. It holds the row that is not complete, and no other.
#[derive(Debug)]
pub struct BinaryReader {
    /// The table's name, and those of the columns.
    table: String,
    columns: Vec<String>,
    /// Types of those whose values are read; the others go on as they came.
    kinds: Vec<Option<ColumnType>>,
    /// Bytes of a header or a row that has not ended.
    held: Vec<u8>,
    begun: bool,
    ended: bool,
    rows: u64,
}

/// What lies at a place of a stream.
enum Found {
    /// What has not come whole, to the column of a place.
    Part(Option<usize>),
    /// A row's fields, and where it ends.
    Row(Vec<Option<std::ops::Range<usize>>>, usize),
    /// The end of the rows.
    End(usize),
}

impl BinaryReader {
    /// A reader of rows of a table's columns.
    #[must_use]
    pub fn new(table: String, columns: Vec<String>, kinds: Vec<Option<ColumnType>>) -> Self {
        Self { table, columns, kinds, held: Vec::new(), begun: false, ended: false, rows: 0 }
    }

    /// Bytes that are held of a row that has not ended.
    #[must_use]
    pub fn held_bytes(&self) -> usize {
        self.held.len()
    }

    /// The rows that a piece of the stream completes.
    ///
    /// # Errors
    /// 22P04: it is no such stream; a value is none of its type; 54000: a row is too long.
    pub fn read(&mut self, piece: &[u8]) -> Result<Vec<Line>, SqlError> {
        self.held.extend_from_slice(piece);
        let mut start = 0;
        if !self.begun {
            let Some(end) = self.end_of_header()? else { return Ok(Vec::new()) };
            (self.begun, start) = (true, end);
        }
        let mut lines = Vec::new();
        while !self.ended {
            match self.found(start)? {
                Found::Part(_) => break,
                Found::End(end) => (self.ended, start) = (true, end),
                Found::Row(fields, end) => {
                    lines.push(self.line(&fields)?);
                    start = end;
                }
            }
        }
        self.held.drain(..start);
        if self.ended && !self.held.is_empty() {
            return Err(self.wrong("received copy data after EOF marker".into()));
        }
        Ok(lines)
    }

    /// That the stream ends where it may.
    ///
    /// # Errors
    /// 22P04: it does not.
    pub fn finish(&self) -> Result<(), SqlError> {
        match (self.begun, self.held.len()) {
            (false, there) => Err(self.wrong(missing_of_header(there).into())),
            // PostgreSQL takes less than a count for the end, too.
            (true, 0 | 1) => Ok(()),
            (true, _) => {
                let column = match self.found(0)? {
                    Found::Part(column) => column,
                    Found::Row(..) | Found::End(_) => None,
                };
                Err(self.wrong_at("unexpected EOF in COPY data", column))
            }
        }
    }

    /// Where the header ends, once it has come.
    fn end_of_header(&self) -> Result<Option<usize>, SqlError> {
        let there = self.held.len().min(SIGNATURE.len());
        if self.held.get(..there) != SIGNATURE.get(..there) {
            return Err(self.wrong("COPY file signature not recognized".into()));
        }
        let word = |at: usize| {
            let bytes = self.held.get(at..at + 4)?;
            bytes.try_into().ok().map(u32::from_be_bytes)
        };
        let Some(flags) = word(SIGNATURE.len()) else { return Ok(None) };
        if flags & WITH_NUMBERS != 0 {
            return Err(self.wrong("invalid COPY file header (WITH OIDS)".into()));
        }
        if flags & CRITICAL != 0 {
            return Err(self.wrong("unrecognized critical flags in COPY file header".into()));
        }
        let Some(length) = word(SIGNATURE.len() + 4) else { return Ok(None) };
        // A length with a sign is none to PostgreSQL.
        let Some(length) = i32::try_from(length).ok().and_then(|length| usize::try_from(length).ok()) else {
            return Err(self.wrong("invalid COPY file header (missing length)".into()));
        };
        if length > MAX_ROW_BYTES {
            return Err(self.wrong("invalid COPY file header (wrong length)".into()));
        }
        let end = SIGNATURE.len() + FIXED_BYTES + length;
        Ok((self.held.len() >= end).then_some(end))
    }

    /// What lies at a place.
    fn found(&self, start: usize) -> Result<Found, SqlError> {
        let count = self.held.get(start..start + 2).and_then(|bytes| bytes.try_into().ok());
        let Some(count) = count.map(i16::from_be_bytes) else { return Ok(Found::Part(None)) };
        let mut at = start + 2;
        if count == END {
            return Ok(Found::End(at));
        }
        let expected = self.columns.len();
        if usize::try_from(count) != Ok(expected) {
            return Err(self.wrong(format!("row field count is {count}, expected {expected}")));
        }
        let mut fields = Vec::with_capacity(expected);
        for place in 0..expected {
            let length = self.held.get(at..at + 4).and_then(|bytes| bytes.try_into().ok());
            let Some(length) = length.map(i32::from_be_bytes) else {
                return Ok(Found::Part(Some(place)));
            };
            at += 4;
            let Ok(length) = usize::try_from(length) else {
                if length != -1 {
                    return Err(self.wrong_at("invalid field size", Some(place)));
                }
                fields.push(None);
                continue;
            };
            if at - start + length > MAX_ROW_BYTES {
                let text = format!("a row of COPY is longer than the proxy takes ({MAX_ROW_BYTES} bytes)");
                return Err(self.placed(SqlError::new("54000", text), Some(place)));
            }
            fields.push(Some(at..at + length));
            at += length;
            if at > self.held.len() {
                return Ok(Found::Part(Some(place)));
            }
        }
        Ok(Found::Row(fields, at))
    }

    /// A row: what is read of it as text, the rest as it came.
    fn line(&mut self, fields: &[Option<std::ops::Range<usize>>]) -> Result<Line, SqlError> {
        self.rows += 1;
        let (mut row, mut sent) = (Vec::with_capacity(fields.len()), Vec::with_capacity(fields.len()));
        for (place, (field, kind)) in fields.iter().zip(&self.kinds).enumerate() {
            let bytes = field.clone().and_then(|field| self.held.get(field));
            let read = |bytes: &[u8], kind: ColumnType| {
                let datum = from_binary(kind, bytes).map_err(|error| {
                    let column = self.columns.get(place).map_or("", String::as_str);
                    error.context(|| format!("COPY {}, line {}, column {column}", self.table, self.rows))
                });
                datum.map(|datum| datum.to_text(kind))
            };
            match kind {
                Some(kind) => {
                    row.push(bytes.map(|bytes| read(bytes, *kind)).transpose()?);
                    sent.push(None);
                }
                None => {
                    row.push(None);
                    sent.push(bytes.map(<[u8]>::to_vec));
                }
            }
        }
        Ok(Line { number: self.rows, shown: String::new(), row, sent })
    }

    /// What is wrong with the header, or with the row behind those that were read.
    fn wrong(&self, what: String) -> SqlError {
        let error = SqlError::new(sqlstate::BAD_COPY_FILE_FORMAT, what);
        match self.begun {
            true => error.context(|| format!("COPY {}, line {}", self.table, self.rows + 1)),
            false => error,
        }
    }

    /// The same of the column of a place.
    fn wrong_at(&self, what: &str, place: Option<usize>) -> SqlError {
        self.placed(SqlError::new(sqlstate::BAD_COPY_FILE_FORMAT, what), place)
    }

    /// An error of the row behind those that were read, with the column of a place.
    fn placed(&self, error: SqlError, place: Option<usize>) -> SqlError {
        let column = place.and_then(|place| self.columns.get(place));
        let column = column.map_or_else(String::new, |column| format!(", column {column}"));
        error.context(|| format!("COPY {}, line {}{column}", self.table, self.rows + 1))
    }
}

/// What is missing of a header of which so many bytes came.
fn missing_of_header(there: usize) -> &'static str {
    match there.checked_sub(SIGNATURE.len()) {
        None => "COPY file signature not recognized",
        Some(..4) => "invalid COPY file header (missing flags)",
        Some(4..FIXED_BYTES) => "invalid COPY file header (missing length)",
        Some(_) => "invalid COPY file header (wrong length)",
    }
}

/// A value of a type. What is to be text and is not in UTF-8 is no such text, as PostgreSQL says.
fn from_binary(kind: ColumnType, bytes: &[u8]) -> Result<Datum, SqlError> {
    let is_text =
        matches!(kind, ColumnType::Text | ColumnType::Varchar(_) | ColumnType::Json | ColumnType::Jsonb);
    match std::str::from_utf8(bytes) {
        Err(wrong) if is_text => {
            let rest = bytes.get(wrong.valid_up_to()..).unwrap_or_default();
            // As many as the first of them says.
            let shown = match rest.first() {
                Some(0xc0..=0xdf) => 2,
                Some(0xe0..=0xef) => 3,
                Some(0xf0..=0xf7) => 4,
                _ => 1,
            };
            let shown: Vec<String> = rest.iter().take(shown).map(|byte| format!("0x{byte:02x}")).collect();
            let message = format!("invalid byte sequence for encoding \"UTF8\": {}", shown.join(" "));
            Err(SqlError::new(sqlstate::CHARACTER_NOT_IN_REPERTOIRE, message))
        }
        _ => Datum::from_binary(kind, bytes),
    }
}

/// Writes what a stream begins with.
pub fn write_header(out: &mut Vec<u8>) {
    out.extend_from_slice(SIGNATURE);
    out.extend_from_slice(&[0; FIXED_BYTES]);
}

/// Writes what ends the rows.
pub fn write_end(out: &mut Vec<u8>) {
    out.extend_from_slice(&END.to_be_bytes());
}
