//! Values of a column that are folded into one as they come: sums and means of groups of any size.

use super::{bytea, not_sealed, opened};
use crate::catalog::Encryption;
use crate::codec::{Datum, Members, NotAnArray, Numeric};
use crate::column_type::ColumnType;
use crate::error::SqlError;
use crate::plan::Fold;
use arras_service::columns::Columns;
use std::sync::Arc;

/// What values come to, so far.
enum Total {
    Exact(Numeric),
    Real(f32),
    Double(f64),
}

/// An array of sealed values, opened and folded as it comes.
pub(crate) struct Folding {
    fold: Fold,
    encryption: Arc<Encryption>,
    binary: bool,
    members: Members,
    total: Total,
    count: u64,
}

/// Why a fold ends.
enum Ended {
    NotAnArray,
    Failed(SqlError),
}

impl From<NotAnArray> for Ended {
    fn from(_: NotAnArray) -> Self {
        Self::NotAnArray
    }
}

impl Folding {
    /// Begins with the values of a column, in an array that comes in binary or as text.
    pub(crate) fn new(fold: Fold, encryption: Arc<Encryption>, binary: bool) -> Self {
        let total = match fold.kind(encryption.kind) {
            ColumnType::Real => Total::Real(0.0),
            ColumnType::DoublePrecision => Total::Double(0.0),
            _ => Total::Exact(Numeric::integer(0)),
        };
        Self { fold, encryption, binary, members: Members::new(binary), total, count: 0 }
    }

    /// Adds what is whole of a piece of the array.
    ///
    /// # Errors
    /// It is no array of values that were sealed for the column.
    pub(crate) fn read(&mut self, piece: &[u8], columns: &dyn Columns) -> Result<(), SqlError> {
        let Self { encryption, binary, members, total, count, .. } = self;
        let read = members.read(piece, &mut |member| {
            let sealed = bytea(member, *binary).ok_or(Ended::NotAnArray)?;
            total.add(&opened(&sealed, encryption, columns).map_err(Ended::Failed)?);
            *count += 1;
            Ok(())
        });
        read.map_err(|ended| match ended {
            Ended::NotAnArray => not_sealed(encryption),
            Ended::Failed(error) => error,
        })
    }

    /// What the values come to; NULL where there are none.
    ///
    /// # Errors
    /// The array is not whole; a sum leaves its type.
    pub(crate) fn end(self) -> Result<Option<Datum>, SqlError> {
        self.members.end().map_err(|NotAnArray| not_sealed(&self.encryption))?;
        if self.count == 0 {
            return Ok(None);
        }
        let kind = self.fold.kind(self.encryption.kind);
        match (self.total, self.fold) {
            (Total::Real(sum), _) => Ok(Some(Datum::Real(sum))),
            (Total::Double(sum), Fold::Sum) => Ok(Some(Datum::Double(sum))),
            #[allow(clippy::cast_precision_loss, reason = "PostgreSQL divides in this type, too")]
            (Total::Double(sum), Fold::Average) => Ok(Some(Datum::Double(sum / self.count as f64))),
            (Total::Exact(sum), Fold::Average) => Ok(Some(Datum::Numeric(sum.mean(self.count)))),
            (Total::Exact(sum), Fold::Sum) if kind == ColumnType::BigInt => {
                Datum::from_text(kind, &sum.to_string()).map(Some)
            }
            (Total::Exact(sum), Fold::Sum) => Ok(Some(Datum::Numeric(sum))),
        }
    }
}

impl Total {
    #[allow(
        clippy::cast_possible_truncation,
        clippy::cast_precision_loss,
        reason = "PostgreSQL adds in these types, too"
    )]
    fn add(&mut self, value: &Datum) {
        match self {
            Self::Exact(sum) => {
                let number = match value {
                    Datum::Integer(number) => Numeric::integer(*number),
                    Datum::Numeric(number) => number.clone(),
                    _ => Numeric::Nan,
                };
                *sum = sum.plus(&number);
            }
            Self::Real(sum) => *sum += real(value) as f32,
            Self::Double(sum) => *sum += real(value),
        }
    }
}

fn real(value: &Datum) -> f64 {
    match value {
        Datum::Real(number) => f64::from(*number),
        Datum::Double(number) => *number,
        _ => f64::NAN,
    }
}
