//! Rows that are too long to be held whole for the sealed values that a sum is made of: those are opened and added as they
//! come, and only the rest of the row is kept.

use super::reading::{Part, Reading, output, put_count, put_value, too_long};
use crate::codec::Datum;
use crate::column_type::ColumnType;
use crate::error::SqlError;
use crate::plan::{Output, Outputs};
use crate::replies;
use crate::rewriting::{MESSAGE_BYTES_MAX, Rewriting};
use crate::room::Share;
use crate::session::physical::format_of;
use crate::values::{ConnectionKeys, Folding, Viewer};

/// Bytes before the first column: the message's head and the number of columns.
const HEAD: usize = 7;

/// Bytes that are kept before room is taken for more.
const COUNTED_BYTES: usize = 64 * 1024;

/// How the rows of a result are shown.
#[derive(Clone)]
pub(super) struct RowForm {
    pub(super) outputs: Outputs,
    pub(super) formats: Vec<i16>,
}

/// What of a column has come.
enum Column {
    /// Nothing but so much of its length.
    Length(Vec<u8>),
    /// It lacks so many bytes, and is kept.
    Kept(usize, Vec<u8>),
    /// It lacks so many bytes, and is folded.
    Folded(usize, Box<Folding>),
}

/// A `DataRow` that is read as it comes.
pub(super) struct FoldedRow {
    form: RowForm,
    viewer: Viewer,
    /// Bytes of the message that have not come.
    left: usize,
    head: Vec<u8>,
    columns: usize,
    column: Column,
    /// The row as the client is shown it, as far as it has come, and how many columns of it.
    shown: Vec<u8>,
    done: usize,
    counted: usize,
    shares: Vec<Share>,
}

impl FoldedRow {
    /// A row of so many bytes, of which nothing has been read.
    pub(super) fn new(form: RowForm, viewer: Viewer, total: usize) -> Self {
        let column = Column::Length(Vec::new());
        let (head, shown, shares) = (Vec::new(), Vec::new(), Vec::new());
        Self { form, viewer, left: total, head, columns: 0, column, shown, done: 0, counted: 0, shares }
    }

    /// The room that it has had the longest.
    pub(super) fn had(&self) -> Option<&Share> {
        self.shares.first()
    }

    /// The room of what is shown of it.
    pub(super) fn into_room(self) -> Vec<Share> {
        self.shares
    }

    /// Bytes of it that have not come.
    pub(super) fn left(&self) -> usize {
        self.left
    }

    /// Reads what has come of it; how many bytes that was, and whether it opens: not if a value was changed, or the memory is
    /// full.
    pub(super) fn read(&mut self, there: &[u8], rewriting: &Rewriting) -> (usize, Result<(), SqlError>) {
        let there = there.get(..self.left).unwrap_or(there);
        self.left -= there.len();
        (there.len(), self.parts(there, rewriting))
    }

    fn parts(&mut self, mut rest: &[u8], rewriting: &Rewriting) -> Result<(), SqlError> {
        while let Some((byte, behind)) = rest.split_first() {
            if self.head.len() < HEAD {
                self.head.push(*byte);
                rest = behind;
                if let [.., high, low] = self.head[..] {
                    self.columns = usize::from(u16::from_be_bytes([high, low]));
                }
                continue;
            }
            rest = self.part(rest, rewriting)?;
        }
        Ok(())
    }

    /// Reads what has come of a column; what is left.
    fn part<'r>(&mut self, rest: &'r [u8], rewriting: &Rewriting) -> Result<&'r [u8], SqlError> {
        let keys = ConnectionKeys::new(&*rewriting.columns, self.viewer);
        match &mut self.column {
            Column::Length(length) => {
                let (taken, behind) = rest.split_at((4 - length.len()).min(rest.len()));
                length.extend_from_slice(taken);
                if let Some(length) = length.first_chunk::<4>().map(|length| i32::from_be_bytes(*length)) {
                    self.begin(length, rewriting)?;
                }
                Ok(behind)
            }
            Column::Kept(lacking, kept) => {
                let (taken, behind) = rest.split_at((*lacking).min(rest.len()));
                kept.extend_from_slice(taken);
                *lacking -= taken.len();
                if *lacking == 0 {
                    let kept = std::mem::take(kept);
                    self.end_kept(Some(&kept), rewriting)?;
                }
                Ok(behind)
            }
            Column::Folded(lacking, folding) => {
                let (taken, behind) = rest.split_at((*lacking).min(rest.len()));
                folding.read(taken, keys)?;
                *lacking -= taken.len();
                if *lacking == 0 {
                    self.end_folded(rewriting)?;
                }
                Ok(behind)
            }
        }
    }

    fn is_binary(&self) -> bool {
        format_of(&self.form.formats, self.done) == 1
    }

    /// Has memory for a row of so many bytes.
    fn count(&mut self, bytes: usize, rewriting: &Rewriting) -> Result<(), SqlError> {
        if bytes > MESSAGE_BYTES_MAX {
            return Err(too_long(bytes));
        }
        if bytes > self.counted + COUNTED_BYTES {
            self.shares.push(rewriting.replies.try_share(bytes - self.counted)?);
            self.counted = bytes;
        }
        Ok(())
    }

    /// The length of a column has come.
    fn begin(&mut self, length: i32, rewriting: &Rewriting) -> Result<(), SqlError> {
        let Ok(length) = usize::try_from(length) else { return self.end_kept(None, rewriting) };
        let binary = self.is_binary();
        let output = output(&self.form.outputs, self.done, self.columns);
        match Folding::of(output, binary).filter(|_| length > 0) {
            Some(folding) => {
                self.column = Column::Folded(length, Box::new(folding));
                Ok(())
            }
            None => {
                self.count(self.shown.len() + length, rewriting)?;
                self.column = Column::Kept(length, Vec::with_capacity(length));
                if length == 0 { self.end_kept(Some(&[]), rewriting) } else { Ok(()) }
            }
        }
    }

    fn end_kept(&mut self, value: Option<&[u8]>, rewriting: &Rewriting) -> Result<(), SqlError> {
        let binary = self.is_binary();
        match output(&self.form.outputs, self.done, self.columns) {
            Output::Plain | Output::PlainRest => put_value(&mut self.shown, value),
            sealed => {
                let keys = ConnectionKeys::new(&*rewriting.columns, self.viewer);
                let opened = sealed.open(value, binary, binary, keys)?;
                // What is computed may be longer than what it is computed of.
                self.count(self.shown.len() + opened.as_ref().map_or(0, |opened| opened.len()), rewriting)?;
                put_value(&mut self.shown, opened.as_deref());
            }
        }
        self.next();
        Ok(())
    }

    fn end_folded(&mut self, rewriting: &Rewriting) -> Result<(), SqlError> {
        let binary = self.is_binary();
        let Column::Folded(_, folding) = std::mem::replace(&mut self.column, Column::Length(Vec::new()))
        else {
            return Ok(());
        };
        let written = |(value, kind): (Datum, ColumnType)| {
            if binary { value.to_binary(kind) } else { value.to_text_in(kind, self.viewer.zone).into_bytes() }
        };
        let value = folding.end(self.viewer.zone)?.map(written);
        self.count(self.shown.len() + value.as_ref().map_or(0, Vec::len), rewriting)?;
        put_value(&mut self.shown, value.as_deref());
        self.next();
        Ok(())
    }

    fn next(&mut self) {
        self.done += 1;
        self.column = Column::Length(Vec::new());
    }

    /// Appends the row as the client is shown it, once it has come.
    pub(super) fn show(&self, out: &mut Vec<u8>) {
        replies::message(out, b'D', |out| {
            put_count(out, self.columns);
            out.extend_from_slice(&self.shown);
        });
    }
}

impl Reading {
    /// How a row's sums are read as it comes, if it has any and is shown.
    pub(super) fn folded_rows(&self) -> Option<RowForm> {
        let (outputs, formats): (&Outputs, &[i16]) = match self {
            Self::Portal(portal) if portal.statement.program.is_none() => {
                (&portal.statement.rewritten.outputs, &portal.formats)
            }
            Self::Query(query) => match query.parts.get(query.at)? {
                Part::Shown(outputs, _) => (outputs, &[]),
                Part::Hidden => return None,
            },
            Self::Step(step) => (&step.outputs, &[]),
            Self::Cursor(outputs) => (outputs, &[]),
            Self::Plain
            | Self::Refused(_)
            | Self::Statement(_)
            | Self::Portal(_)
            | Self::Hidden
            | Self::Holding(_)
            | Self::Kept(..)
            | Self::Closed(_)
            | Self::Silent
            | Self::Shape(_)
            | Self::Emit(_)
            | Self::EmitShape(_)
            | Self::Returning(_)
            | Self::EmitWritten(..)
            | Self::CopyRow(_)
            | Self::CopyOut(_)
            | Self::Own(_) => return None,
        };
        let Outputs::Columns(list) = outputs else { return None };
        let folds = list.iter().any(Output::folds);
        folds.then(|| RowForm { outputs: outputs.clone(), formats: formats.to_vec() })
    }
}
