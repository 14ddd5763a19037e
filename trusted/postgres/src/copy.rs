//! Rows of `COPY`, in PostgreSQL's text format, in CSV and in binary: read from a stream of any length, and written.

mod binary;
#[cfg(test)]
mod tests;

pub use binary::{BinaryReader, write_end, write_header};

use crate::error::{SqlError, sqlstate};
use crate::plan::{CopyFormat, CopyIn};

/// A row: its fields, none for NULL.
pub type Row = Vec<Option<String>>;

/// Bytes of a line or a field that an error shows.
const SHOWN_BYTES: usize = 100;

/// A row and the line that it stood on.
#[derive(Debug, PartialEq, Eq)]
pub struct Line {
    /// Counted from 1.
    pub number: u64,
    /// What the line begins with.
    pub shown: String,
    /// What lies between its delimiters, unescaped; none for NULL.
    pub row: Row,
    /// In binary, fields that are not read, as they came; none for NULL, and for what is read.
    pub sent: Vec<Option<Vec<u8>>>,
}

/// Reads rows of any of the formats.
#[derive(Debug)]
pub enum Reader {
    /// In text or CSV.
    Text(RowReader),
    /// In binary.
    Binary(BinaryReader),
}

impl Reader {
    /// A reader of what a `COPY` is given.
    #[must_use]
    pub fn of(copy: &CopyIn) -> Self {
        let (table, names) = (copy.table.clone(), copy.names.clone());
        if !copy.format.binary {
            return Self::Text(RowReader::new(copy.format.clone(), table, names));
        }
        let kinds = copy.columns.iter().map(|column| column.as_ref().map(|of| of.kind)).collect();
        Self::Binary(BinaryReader::new(table, names, kinds))
    }

    /// Bytes that are held of a row that has not ended.
    #[must_use]
    pub fn held_bytes(&self) -> usize {
        match self {
            Self::Text(reader) => reader.held_bytes(),
            Self::Binary(reader) => reader.held_bytes(),
        }
    }

    /// The rows that a piece of the stream completes.
    ///
    /// # Errors
    /// As of each of them.
    pub fn read(&mut self, piece: &[u8]) -> Result<Vec<Line>, SqlError> {
        match self {
            Self::Text(reader) => reader.read(piece),
            Self::Binary(reader) => reader.read(piece),
        }
    }

    /// The last row, if the stream's end completes one.
    ///
    /// # Errors
    /// As of each of them.
    pub fn finish(&mut self) -> Result<Option<Line>, SqlError> {
        match self {
            Self::Text(reader) => reader.finish(),
            Self::Binary(reader) => reader.finish().map(|()| None),
        }
    }
}

/// The beginning of a text, as PostgreSQL cuts what it shows of lines and fields.
#[must_use]
pub fn beginning(text: &str) -> String {
    if text.len() <= SHOWN_BYTES {
        return text.to_owned();
    }
    let end = (0..=SHOWN_BYTES).rev().find(|end| text.is_char_boundary(*end)).unwrap_or(0);
    format!("{}...", text.get(..end).unwrap_or_default())
}

/// Longest row that is held, in bytes: that of the longest message.
const MAX_ROW_BYTES: usize = 64 * 1024 * 1024;

/// Reads rows from pieces of a stream. It holds the row that is not complete, and no other.
#[derive(Debug)]
pub struct RowReader {
    format: CopyFormat,
    /// The table's name, and those of the columns.
    table: String,
    columns: Vec<String>,
    /// Bytes of a row that has not ended.
    held: Vec<u8>,
    /// How many of them were looked at, and whether a quote was open there.
    looked: usize,
    in_quotes: bool,
    header_is_due: bool,
    ended: bool,
    lines: u64,
}

impl RowReader {
    /// A reader of rows of a table's columns.
    #[must_use]
    pub fn new(format: CopyFormat, table: String, columns: Vec<String>) -> Self {
        let header_is_due = format.header;
        Self {
            format,
            table,
            columns,
            held: Vec::new(),
            looked: 0,
            in_quotes: false,
            header_is_due,
            ended: false,
            lines: 0,
        }
    }

    /// Bytes that are held of a row that has not ended.
    #[must_use]
    pub fn held_bytes(&self) -> usize {
        self.held.len()
    }

    /// The rows that a piece of the stream completes.
    ///
    /// # Errors
    /// A row that has other columns, is not UTF-8, with the number of its line; 54000: one that is too long.
    pub fn read(&mut self, piece: &[u8]) -> Result<Vec<Line>, SqlError> {
        if self.ended {
            return Ok(Vec::new());
        }
        self.held.extend_from_slice(piece);
        let (mut rows, mut start) = (Vec::new(), 0);
        while let Some(end) = self.end_of_row() {
            let mut line = self.held.get(start..end).unwrap_or_default().to_vec();
            start = end + 1;
            self.looked = start;
            if line.last() == Some(&b'\r') {
                line.pop();
            }
            rows.extend(self.row(&line)?);
            if self.ended {
                break;
            }
        }
        self.held.drain(..start.min(self.held.len()));
        self.looked -= start.min(self.looked);
        if self.held.len() > MAX_ROW_BYTES {
            let text = format!("a row of COPY is longer than the proxy takes ({MAX_ROW_BYTES} bytes)");
            return Err(SqlError::new("54000", text));
        }
        Ok(rows)
    }

    /// The last row, if the stream ends without a line's end.
    ///
    /// # Errors
    /// As [`Self::read`]; a quote that does not end.
    pub fn finish(&mut self) -> Result<Option<Line>, SqlError> {
        if self.in_quotes {
            self.lines += self.lines_of(&self.held);
            return Err(self.wrong("unterminated CSV quoted field".into(), &self.held));
        }
        let line = std::mem::take(&mut self.held);
        if line.is_empty() || self.ended { Ok(None) } else { self.row(&line) }
    }

    /// The place of the next line's end that is not inside quotes or behind a backslash.
    fn end_of_row(&mut self) -> Option<usize> {
        while let Some(byte) = self.held.get(self.looked).copied() {
            if self.format.csv {
                // An escape that is not the quote hides the byte behind it, inside quotes.
                if self.in_quotes && byte == self.format.escape && self.format.escape != self.format.quote {
                    self.held.get(self.looked + 1)?;
                    self.looked += 2;
                    continue;
                }
                // A doubled quote closes and opens again.
                if byte == self.format.quote {
                    self.in_quotes = !self.in_quotes;
                } else if byte == b'\n' && !self.in_quotes {
                    return Some(self.looked);
                }
            } else if byte == b'\\' {
                self.held.get(self.looked + 1)?;
                self.looked += 2;
                continue;
            } else if byte == b'\n' {
                return Some(self.looked);
            }
            self.looked += 1;
        }
        None
    }

    /// Lines that a row stands on: in quotes a CSV's fields have ends of lines. As PostgreSQL counts: it does not know the
    /// first row's before that has ended.
    fn lines_of(&self, row: &[u8]) -> u64 {
        let inside = if self.format.csv && self.lines > 0 {
            row.iter().filter(|byte| **byte == b'\n').count()
        } else {
            0
        };
        1 + u64::try_from(inside).unwrap_or(u64::MAX)
    }

    fn row(&mut self, line: &[u8]) -> Result<Option<Line>, SqlError> {
        self.lines += self.lines_of(line);
        if self.header_is_due {
            self.header_is_due = false;
            return Ok(None);
        }
        if line == b"\\." {
            self.ended = true;
            return Ok(None);
        }
        let fields = if self.format.csv { self.csv(line) } else { self.text(line) };
        let row = fields.into_iter().map(|field| {
            field.map(|bytes| String::from_utf8(bytes).map_err(|_| self.not_utf8())).transpose()
        });
        let row: Row = row.collect::<Result<_, _>>()?;
        match row.len().cmp(&self.columns.len()) {
            std::cmp::Ordering::Equal => {
                let shown = beginning(&String::from_utf8_lossy(line));
                Ok(Some(Line { number: self.lines, shown, row, sent: Vec::new() }))
            }
            std::cmp::Ordering::Less => {
                let column = self.columns.get(row.len()).map_or("", String::as_str);
                Err(self.wrong(format!("missing data for column \"{column}\""), line))
            }
            std::cmp::Ordering::Greater => {
                Err(self.wrong("extra data after last expected column".into(), line))
            }
        }
    }

    fn wrong(&self, what: String, line: &[u8]) -> SqlError {
        let line = beginning(&String::from_utf8_lossy(line));
        SqlError::new(sqlstate::BAD_COPY_FILE_FORMAT, what)
            .context(|| format!("COPY {}, line {}: \"{line}\"", self.table, self.lines))
    }

    fn not_utf8(&self) -> SqlError {
        SqlError::new(sqlstate::CHARACTER_NOT_IN_REPERTOIRE, "invalid byte sequence for encoding \"UTF8\"")
            .context(|| format!("COPY {}, line {}", self.table, self.lines))
    }

    fn text(&self, line: &[u8]) -> Vec<Option<Vec<u8>>> {
        let mut fields = Vec::new();
        let mut start = 0;
        let mut at = 0;
        loop {
            match line.get(at) {
                Some(b'\\') => at += 2,
                Some(byte) if *byte != self.format.delimiter => at += 1,
                ended => {
                    let raw = line.get(start..at.min(line.len())).unwrap_or_default();
                    fields.push((raw != self.format.null.as_bytes()).then(|| unescaped(raw)));
                    if ended.is_none() {
                        return fields;
                    }
                    at += 1;
                    start = at;
                }
            }
        }
    }

    fn csv(&self, line: &[u8]) -> Vec<Option<Vec<u8>>> {
        let CopyFormat { quote, escape, delimiter, .. } = self.format;
        let (mut fields, mut field, mut quoted, mut inside) = (Vec::new(), Vec::new(), false, false);
        let mut bytes = line.iter().copied().peekable();
        let null = self.format.null.as_bytes();
        let finished = |field: Vec<u8>, quoted: bool| (quoted || field != null).then_some(field);
        while let Some(byte) = bytes.next() {
            if inside && byte == escape && bytes.peek().is_some_and(|next| *next == quote || *next == escape)
            {
                field.extend(bytes.next());
            } else if byte == quote {
                inside = !inside;
                quoted = true;
            } else if byte == delimiter && !inside {
                fields.push(finished(std::mem::take(&mut field), quoted));
                quoted = false;
            } else {
                field.push(byte);
            }
        }
        fields.push(finished(field, quoted));
        fields
    }
}

/// A field of the text format without its backslashes.
fn unescaped(raw: &[u8]) -> Vec<u8> {
    let mut field = Vec::with_capacity(raw.len());
    let mut rest = raw;
    let digit =
        |byte: u8, radix: u32| char::from(byte).to_digit(radix).and_then(|digit| u8::try_from(digit).ok());
    while let [byte, after @ ..] = rest {
        rest = after;
        if *byte != b'\\' {
            field.push(*byte);
            continue;
        }
        let [escaped, after @ ..] = rest else {
            field.push(b'\\');
            break;
        };
        rest = after;
        let (radix, most, first) = match escaped {
            b'b' => (0, 0, 8),
            b'f' => (0, 0, 12),
            b'n' => (0, 0, b'\n'),
            b'r' => (0, 0, b'\r'),
            b't' => (0, 0, b'\t'),
            b'v' => (0, 0, 11),
            b'x' if rest.first().is_some_and(|byte| digit(*byte, 16).is_some()) => (16, 2, 0),
            b'0'..=b'7' => (8, 2, escaped - b'0'),
            other => (0, 0, *other),
        };
        let mut value = first;
        for _ in 0..most {
            let Some((next, after)) = rest.split_first() else { break };
            let Some(number) = digit(*next, radix) else { break };
            value = value.wrapping_mul(if radix == 16 { 16 } else { 8 }).wrapping_add(number);
            rest = after;
        }
        field.push(value);
    }
    field
}

/// Writes a row, with the end of its line.
#[must_use]
pub fn write_row(format: &CopyFormat, row: &[Option<&str>]) -> Vec<u8> {
    let mut line = Vec::new();
    for (place, field) in row.iter().enumerate() {
        if place > 0 {
            line.push(format.delimiter);
        }
        match field {
            None => line.extend_from_slice(format.null.as_bytes()),
            Some(text) if format.csv => csv_field(format, text, row.len() == 1, &mut line),
            Some(text) => text.bytes().for_each(|byte| text_byte(format, byte, &mut line)),
        }
    }
    line.push(b'\n');
    line
}

fn text_byte(format: &CopyFormat, byte: u8, line: &mut Vec<u8>) {
    let escaped = match byte {
        8 => b'b',
        9 => b't',
        10 => b'n',
        11 => b'v',
        12 => b'f',
        13 => b'r',
        b'\\' => b'\\',
        byte if byte == format.delimiter => byte,
        byte => {
            line.push(byte);
            return;
        }
    };
    line.extend([b'\\', escaped]);
}

fn csv_field(format: &CopyFormat, text: &str, alone: bool, line: &mut Vec<u8>) {
    let special =
        |byte: u8| byte == format.delimiter || byte == format.quote || byte == b'\n' || byte == b'\r';
    let quoted = text == format.null || (alone && text == "\\.") || text.bytes().any(special);
    if !quoted {
        line.extend_from_slice(text.as_bytes());
        return;
    }
    line.push(format.quote);
    for byte in text.bytes() {
        if byte == format.quote || byte == format.escape {
            line.push(format.escape);
        }
        line.push(byte);
    }
    line.push(format.quote);
}
