//! Rows with their sealed columns opened, and the memory that they take until their client has them.

use super::{malformed, output, put_count};
use crate::error::SqlError;
use crate::fields::Fields;
use crate::plan::{Output, Outputs};
use crate::replies;
use crate::rewriting::MESSAGE_BYTES_MAX;
use crate::room::{MessageRoom, Share, UNCOUNTED_BYTES};
use crate::values::ConnectionKeys;

/// What rows are opened with.
pub(in crate::session) struct Opening<'r> {
    /// The keys.
    pub(in crate::session) keys: ConnectionKeys<'r>,
    /// The memory of all sessions' rows.
    pub(in crate::session) room: &'r MessageRoom,
    /// What has been taken of it, until what was made is written.
    pub(in crate::session) shares: &'r mut Vec<Share>,
}

/// A row of a client's that is being made of a message.
struct Made {
    /// Bytes of the message, which have room already where they are many.
    came: usize,
    /// Bytes beyond those, of which room has been taken.
    counted: usize,
}

impl Made {
    /// Has memory for a row of so many bytes: what is computed may be longer than what it is computed of.
    fn count(&mut self, bytes: usize, opening: &mut Opening<'_>) -> Result<(), SqlError> {
        if bytes > MESSAGE_BYTES_MAX {
            return Err(too_long(bytes));
        }
        let longer = bytes.saturating_sub(self.came);
        if longer > self.counted + UNCOUNTED_BYTES {
            opening.shares.push(opening.room.try_share(longer - self.counted)?);
            self.counted = longer;
        }
        Ok(())
    }
}

/// A row that was read as text, with its sealed columns opened.
pub(in crate::session) fn opened_texts(
    row: &[Option<String>],
    outputs: &Outputs,
    keys: ConnectionKeys<'_>,
) -> Result<Vec<Option<String>>, SqlError> {
    let count = row.len();
    let mut bytes = 0;
    let mut open = |(at, value): (usize, &Option<String>)| match output(outputs, at, count) {
        Output::Plain | Output::PlainRest => Ok(value.clone()),
        sealed => {
            let opened = sealed.open(value.as_deref().map(str::as_bytes), false, false, keys)?;
            bytes += opened.as_ref().map_or(0, Vec::len);
            if bytes > MESSAGE_BYTES_MAX {
                return Err(too_long(bytes));
            }
            opened.map(|text| String::from_utf8(text).map_err(|_| malformed())).transpose()
        }
    };
    row.iter().enumerate().map(&mut open).collect()
}

/// The same on its way to a client's `COPY`: `write` makes its line of it.
pub(super) fn copied_row(
    row: &[Option<String>],
    outputs: &Outputs,
    opening: &mut Opening<'_>,
    write: impl FnOnce(&[Option<&str>]) -> Vec<u8>,
) -> Result<Vec<u8>, SqlError> {
    let length = |row: &[Option<String>]| row.iter().flatten().map(String::len).sum::<usize>();
    let opened = opened_texts(row, outputs, opening.keys)?;
    let mut made = Made { came: length(row), counted: 0 };
    made.count(length(&opened), opening)?;
    let texts: Vec<Option<&str>> = opened.iter().map(Option::as_deref).collect();
    Ok(write(&texts))
}

/// That a row is longer than the proxy makes one, computed of a shorter one as it may be.
pub(in crate::session) fn too_long(bytes: usize) -> SqlError {
    let text = format!("a row of {bytes} bytes is more than the proxy can open ({MESSAGE_BYTES_MAX})");
    SqlError::new("54000", text)
}

/// `DataRow`, with its sealed columns opened.
pub(super) fn row(
    frame: &[u8],
    outputs: &Outputs,
    formats: &[i16],
    opening: &mut Opening<'_>,
    out: &mut Vec<u8>,
) -> Result<(), SqlError> {
    if *outputs == Outputs::AsSent {
        out.extend_from_slice(frame);
        return Ok(());
    }
    let mut fields = Fields::new(frame.get(5..).unwrap_or_default());
    let count = fields.count().ok_or_else(malformed)?;
    let begun = out.len();
    let mut made = Made { came: frame.len(), counted: 0 };
    let mut failed = None;
    replies::message(out, b'D', |out| {
        put_count(out, count);
        for at in 0..count {
            let Some(value) = fields.value() else {
                failed = Some(malformed());
                return;
            };
            let binary = match formats {
                [] => false,
                [all] => *all == 1,
                each => each.get(at).is_some_and(|format| *format == 1),
            };
            match output(outputs, at, count) {
                Output::Plain | Output::PlainRest => put_value(out, value),
                sealed => match sealed.open(value, binary, binary, opening.keys) {
                    Ok(opened) => {
                        let bytes = out.len() - begun + opened.as_ref().map_or(0, |opened| opened.len());
                        if let Err(error) = made.count(bytes, opening) {
                            failed = Some(error);
                            return;
                        }
                        put_value(out, opened.as_deref());
                    }
                    Err(error) => {
                        failed = Some(error);
                        return;
                    }
                },
            }
        }
    });
    match failed {
        None => Ok(()),
        Some(error) => {
            out.truncate(begun);
            Err(error)
        }
    }
}

/// A value behind its length.
pub(in crate::session) fn put_value(out: &mut Vec<u8>, value: Option<&[u8]>) {
    match value {
        None => out.extend_from_slice(&(-1_i32).to_be_bytes()),
        Some(value) => {
            out.extend_from_slice(&i32::try_from(value.len()).unwrap_or(i32::MAX).to_be_bytes());
            out.extend_from_slice(value);
        }
    }
}
