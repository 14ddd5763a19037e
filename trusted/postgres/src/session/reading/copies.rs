//! Rows of `COPY`, on their way out and on their way in.

use super::rows::{Opening, copied_row, row};
use super::{Stored, error_fields, hidden, malformed, text_row};
use crate::copy::{beginning, write_end, write_header, write_row};
use crate::error::SqlError;
use crate::fields::Fields;
use crate::plan::{CopyFormat, CopyIn, Outputs, Source};
use crate::replies;
use crate::session::programs;
use std::sync::Arc;

/// What PostgreSQL says of the parameter that it does not take, behind the portal's name.
const PARAMETER: &str = " parameter $";

/// Row of a `COPY` that is written.
pub(in crate::session) struct CopyRow {
    table: Arc<CopiedTable>,
    number: u64,
    /// What its line begins with.
    line: String,
    /// What its plain fields begin with.
    fields: Vec<Option<String>>,
    pub(in crate::session) stored: Stored,
}

/// What errors name of a `COPY`.
pub(in crate::session) struct CopiedTable {
    name: String,
    columns: Vec<String>,
    /// Its rows come in binary: none of them is shown.
    binary: bool,
    /// For each value that a row is written with, the column of the client's row that it is of.
    values: Vec<Option<usize>>,
}

impl CopiedTable {
    pub(in crate::session) fn new(copy: &CopyIn) -> Self {
        let column = |source: &Source| match source {
            Source::Read(column) => Some(*column),
            Source::Parameter(_)
            | Source::Constant(_)
            | Source::Constants(_)
            | Source::Computed(_)
            | Source::Moment(_) => None,
        };
        let values = copy.insert.values.iter().map(|value| column(&value.source)).collect();
        let binary = copy.format.binary;
        Self { name: copy.table.clone(), columns: copy.names.clone(), binary, values }
    }

    /// Where a value of a row is.
    pub(in crate::session) fn place(&self, number: u64, column: usize, value: Option<&str>) -> String {
        let Self { name, columns, .. } = self;
        let column = columns.get(column).map_or("", String::as_str);
        match value {
            _ if self.binary => format!("COPY {name}, line {number}, column {column}"),
            Some(value) => format!("COPY {name}, line {number}, column {column}: \"{}\"", beginning(value)),
            None => format!("COPY {name}, line {number}, column {column}: null input"),
        }
    }
}

impl CopyRow {
    pub(in crate::session) fn new(
        table: &Arc<CopiedTable>,
        copy: &CopyIn,
        line: &crate::copy::Line,
        stored: Stored,
    ) -> Self {
        // What is encrypted was read before.
        let field = |(field, sealed): (&Option<String>, &Option<_>)| match sealed {
            None => field.as_deref().map(beginning),
            Some(_) => None,
        };
        let fields = line.row.iter().zip(&copy.columns).map(field).collect();
        Self { table: Arc::clone(table), number: line.number, line: line.shown.clone(), fields, stored }
    }

    /// An error of the row, in the course of what PostgreSQL's own `COPY` has it.
    pub(super) fn error(&self, frame: &[u8], out: &mut Vec<u8>) {
        let Some(fields) = error_fields(frame) else {
            out.extend_from_slice(frame);
            return;
        };
        let text = |wanted: u8| fields.iter().find(|(kind, _)| *kind == wanted).map(|(_, text)| *text);
        let said = text(b'W').map(String::from_utf8_lossy);
        let of_parameter = said.as_deref().and_then(|said| self.column_of(said));
        let Self { table, number, line, .. } = self;
        let place = match (of_parameter, text(b'C')) {
            (Some(column), _) => {
                table.place(*number, column, self.fields.get(column).and_then(Option::as_deref))
            }
            // What a whole row is checked for before it is stored.
            (None, Some(b"23502" | b"23514")) if !table.binary => {
                format!("COPY {}, line {number}: \"{line}\"", table.name)
            }
            (None, _) => format!("COPY {}, line {number}", table.name),
        };
        let place = match said.filter(|_| of_parameter.is_none()) {
            Some(said) => format!("{said}\n{place}"),
            None => place,
        };
        replies::message(out, b'E', |out| {
            for (kind, text) in fields.iter().filter(|(kind, _)| !matches!(kind, b'W' | b'P')) {
                out.push(*kind);
                replies::string(out, text);
            }
            out.push(b'W');
            replies::string(out, place.as_bytes());
            out.push(0);
        });
    }

    /// The column of the parameter that the database says it does not take.
    fn column_of(&self, said: &str) -> Option<usize> {
        let (_, rest) = said.split_once(PARAMETER)?;
        let digits = rest.split(|c: char| !c.is_ascii_digit()).next()?;
        let value = digits.parse::<usize>().ok()?.checked_sub(1)?;
        *self.table.values.get(value)?
    }
}

/// Rows on their way to the client's stream.
pub(in crate::session) struct CopyingOut {
    pub(in crate::session) outputs: Outputs,
    pub(in crate::session) format: CopyFormat,
    pub(in crate::session) rows: u64,
}

impl CopyingOut {
    /// The header goes with what comes first.
    fn begin_binary(&self, out: &mut Vec<u8>) {
        if self.rows == 0 {
            write_header(out);
        }
    }

    pub(super) fn reply(
        &mut self,
        kind: u8,
        frame: &[u8],
        opening: &mut Opening<'_>,
        out: &mut Vec<u8>,
    ) -> Result<(), SqlError> {
        let data = |row: &[Option<&str>], format: &CopyFormat, out: &mut Vec<u8>| {
            replies::message(out, b'd', |out| out.extend_from_slice(&write_row(format, row)));
        };
        match kind {
            b'T' => {
                let mut fields = Fields::new(frame.get(5..).unwrap_or_default());
                let count = fields.count().ok_or_else(malformed)?;
                let mut names = Vec::with_capacity(count);
                for _ in 0..count {
                    let mut one = || Some((fields.string()?, fields.bytes(18)?));
                    let (name, _) = one().ok_or_else(malformed)?;
                    names.push(std::str::from_utf8(name).ok());
                }
                replies::message(out, b'H', |out| programs::copy_formats(out, count, self.format.binary));
                if self.format.header {
                    data(&names, &self.format, out);
                }
            }
            b'D' if self.format.binary => {
                let mut shown = Vec::new();
                row(frame, &self.outputs, &[1], opening, &mut shown)?;
                replies::message(out, b'd', |out| {
                    self.begin_binary(out);
                    out.extend_from_slice(shown.get(5..).unwrap_or_default());
                });
                self.rows += 1;
            }
            b'D' => {
                let row = text_row(frame).ok_or_else(malformed)?;
                let line = copied_row(&row, &self.outputs, opening, |row| write_row(&self.format, row))?;
                replies::message(out, b'd', |out| out.extend_from_slice(&line));
                self.rows += 1;
            }
            b'C' => {
                if self.format.binary {
                    replies::message(out, b'd', |out| {
                        self.begin_binary(out);
                        write_end(out);
                    });
                }
                replies::message(out, b'c', |_| ());
                out.extend_from_slice(&programs::tag(&format!("COPY {}", self.rows)));
            }
            _ => hidden(kind, frame, out),
        }
        Ok(())
    }
}
