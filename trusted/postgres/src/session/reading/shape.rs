//! What is learned of the statement that writes a program's rows: types of its parameters, and the columns that it returns.

use super::{Statement, description, hidden, malformed};
use crate::error::SqlError;
use crate::fields::Fields;
use crate::plan::Outputs;
use crate::replies;
use crate::session::{physical, programs};
use std::sync::PoisonError;

/// What a statement that writes rows takes and returns.
#[derive(Clone, Default)]
pub(in crate::session) struct Shape {
    /// Types of its parameters.
    pub(super) parameters: Vec<u32>,
    /// `RowDescription` or `NoData`, as it was first.
    returned: Vec<u8>,
    /// It returns something else by now: what the client was told does not hold.
    is_another: bool,
}

impl Statement {
    /// Learns what writes a program's rows.
    pub(super) fn learn(&self, kind: u8, frame: &[u8], out: &mut Vec<u8>) -> Result<(), SqlError> {
        let mut shape = self.shape.lock().unwrap_or_else(PoisonError::into_inner);
        match kind {
            b't' => {
                let mut fields = Fields::new(frame.get(5..).unwrap_or_default());
                let types = fields.list(Fields::int32).ok_or_else(malformed)?;
                shape.parameters = types.into_iter().map(i32::cast_unsigned).collect();
            }
            b'T' => {
                let mut described = Vec::new();
                let outputs = self.program.as_deref().and_then(programs::writes).map(|write| &write.outputs);
                description(frame, outputs.unwrap_or(&Outputs::AsSent), &mut described)?;
                shape.describe(described)?;
            }
            b'n' => shape.describe(frame.to_vec())?,
            _ => hidden(kind, frame, out),
        }
        Ok(())
    }

    /// Does what writes a program's rows return something else than it did?
    pub(in crate::session) fn returns_another(&self) -> bool {
        self.shape.lock().unwrap_or_else(PoisonError::into_inner).is_another
    }

    /// It stands for another of the same text, of which the client knows what it returns.
    pub(in crate::session) fn take_shape(&self, other: &Self) {
        let shape = other.shape.lock().unwrap_or_else(PoisonError::into_inner).clone();
        *self.shape.lock().unwrap_or_else(PoisonError::into_inner) = shape;
    }

    /// Types of the client's parameters: those that it declared, else those that it was told; 0 where neither is known.
    pub(in crate::session) fn known_types(&self) -> Vec<u32> {
        let mut types = self.types.clone();
        let told = self.told.lock().unwrap_or_else(PoisonError::into_inner);
        types.resize(types.len().max(told.len()), 0);
        for (declared, told) in types.iter_mut().zip(told.iter()).filter(|(declared, _)| **declared == 0) {
            *declared = *told;
        }
        types
    }

    /// What a program returns, for whoever asks before it runs: columns in these formats, or nothing.
    pub(super) fn shown(&self, formats: &[i16], out: &mut Vec<u8>) -> Result<(), SqlError> {
        let shape = self.shape.lock().unwrap_or_else(PoisonError::into_inner);
        let copies = self.program.as_deref().is_some_and(programs::shows_nothing);
        if copies || shape.returned.first() != Some(&b'T') {
            replies::message(out, b'n', |_| ());
            return Ok(());
        }
        let columns = columns_of(&shape.returned)?;
        replies::message(out, b'T', |out| {
            super::put_count(out, columns.len());
            for (at, (name, rest)) in columns.iter().enumerate() {
                replies::string(out, name);
                out.extend_from_slice(rest);
                out.extend_from_slice(&physical::format_of(formats, at).to_be_bytes());
            }
        });
        Ok(())
    }

    /// What a program returns, for a client of the simple protocol: nothing is said of no columns.
    pub(super) fn returned(&self, out: &mut Vec<u8>) {
        let shape = self.shape.lock().unwrap_or_else(PoisonError::into_inner);
        if shape.returned.first() == Some(&b'T') {
            out.extend_from_slice(&shape.returned);
        }
    }
}

impl Shape {
    /// What is returned is kept as it was first, and compared from then on.
    fn describe(&mut self, returned: Vec<u8>) -> Result<(), SqlError> {
        if self.returned.is_empty() {
            self.returned = returned;
            return Ok(());
        }
        let (first, now) = (columns_of(&self.returned)?, columns_of(&returned)?);
        let is_same = |((name, rest), (other, others)): (&Column<'_>, &Column<'_>)| {
            name == other && rest.get(OF_TABLE..) == others.get(OF_TABLE..)
        };
        self.is_another = first.len() != now.len() || !first.iter().zip(&now).all(is_same);
        Ok(())
    }
}

/// A column's name, and what is said of it but its format.
type Column<'a> = (&'a [u8], &'a [u8]);

/// Bytes of a column's description that say of which table's it is; its type follows.
const OF_TABLE: usize = 6;

/// The columns of a `RowDescription`; none of `NoData`.
fn columns_of(frame: &[u8]) -> Result<Vec<Column<'_>>, SqlError> {
    if frame.first() != Some(&b'T') {
        return Ok(Vec::new());
    }
    let mut fields = Fields::new(frame.get(5..).unwrap_or_default());
    let count = fields.count().ok_or_else(malformed)?;
    let mut one = || {
        let column = (fields.string()?, fields.bytes(16)?);
        fields.bytes(2)?;
        Some(column)
    };
    (0..count).map(|_| one().ok_or_else(malformed)).collect()
}
