//! Values of a column that are folded into one as they come: sums and means of groups of any size, and what is computed of them.

use super::arithmetic::Typed;
use super::{ConnectionKeys, bytea, derived, not_sealed, opened};
use crate::catalog::Encryption;
use crate::codec::{Datum, Members, NotAnArray, Numeric, Zone};
use crate::column_type::ColumnType;
use crate::error::SqlError;
use crate::plan::{Derived, DerivedPart, Fold, Output};
use std::sync::Arc;

/// What values come to, so far.
enum Total {
    Exact(Numeric),
    Real(f32),
    Double(f64),
}

/// Values of one column, folded.
struct One {
    fold: Fold,
    encryption: Arc<Encryption>,
    total: Total,
    count: u64,
}

/// A part of what comes.
enum Part {
    Fold(One),
    /// What the server has counted.
    Count(Option<i64>),
    /// One sealed value.
    Value(Arc<Encryption>, Option<Typed>),
    /// What the server sends as it is.
    Plain(ColumnType, Option<Typed>),
}

/// An array of sealed values, opened and folded as it comes.
pub(crate) struct Folding {
    parts: Vec<Part>,
    /// The part that comes.
    at: usize,
    binary: bool,
    members: Members,
    derived: Option<Arc<Derived>>,
    encryption: Arc<Encryption>,
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

impl Output {
    /// Is it made of any number of values, which are opened as they come?
    pub(crate) fn folds(&self) -> bool {
        match self {
            Self::Plain | Self::PlainRest | Self::Sealed(_) => false,
            Self::Fold(..) => true,
            Self::Derived(derived) => derived.parts.iter().any(|part| matches!(part, DerivedPart::Fold(..))),
        }
    }
}

impl Folding {
    /// Begins with what is folded for a column of a result, in an array that comes in binary or as text; none if nothing is.
    pub(crate) fn of(output: &Output, binary: bool) -> Option<Self> {
        let (parts, derived, encryption) = match output {
            Output::Plain | Output::PlainRest | Output::Sealed(_) => return None,
            Output::Fold(fold, encryption) => {
                (vec![Part::Fold(One::new(*fold, encryption.clone()))], None, encryption.clone())
            }
            Output::Derived(derived) => {
                let part = |part: &DerivedPart| match part {
                    DerivedPart::Fold(fold, encryption) => Part::Fold(One::new(*fold, encryption.clone())),
                    DerivedPart::Count => Part::Count(None),
                    DerivedPart::Value(encryption) => Part::Value(encryption.clone(), None),
                    DerivedPart::Plain(kind) => Part::Plain(*kind, None),
                };
                let parts = derived.parts.iter().map(part).collect();
                (parts, Some(Arc::clone(derived)), derived.column.clone())
            }
        };
        // What is not folded is held whole, in room that is counted.
        let folds = output.folds();
        let members = if folds { Members::new(binary) } else { Members::of_any_length(binary) };
        Some(Self { parts, at: 0, binary, members, derived, encryption })
    }

    /// Adds what is whole of a piece of the array.
    ///
    /// # Errors
    /// It is no array of values that were sealed for the column.
    pub(crate) fn read(&mut self, piece: &[u8], keys: ConnectionKeys<'_>) -> Result<(), SqlError> {
        let Self { parts, at, binary, members, derived, encryption } = self;
        let read = members.read(piece, &mut |member| {
            let member = bytea(member, *binary).ok_or(Ended::NotAnArray)?;
            if derived.is_some() && member.is_empty() {
                *at += 1;
                return Ok(());
            }
            match parts.get_mut(*at).ok_or(Ended::NotAnArray)? {
                Part::Fold(one) => one.add(&member, keys).map_err(Ended::Failed),
                Part::Count(count) => {
                    let digits = std::str::from_utf8(&member).ok().and_then(|digits| digits.parse().ok());
                    *count = Some(digits.ok_or(Ended::NotAnArray)?);
                    Ok(())
                }
                Part::Value(encryption, value) => {
                    let kind = encryption.kind;
                    let datum = opened(&member, encryption, keys).map_err(Ended::Failed)?;
                    *value = Some(Typed { datum, kind });
                    Ok(())
                }
                Part::Plain(kind, value) => {
                    let sent = member.get(1..).ok_or(Ended::NotAnArray)?;
                    let datum = Datum::from_binary(*kind, sent).map_err(Ended::Failed)?;
                    *value = Some(Typed { datum, kind: *kind });
                    Ok(())
                }
            }
        });
        read.map_err(|ended| match ended {
            Ended::NotAnArray => not_sealed(encryption),
            Ended::Failed(error) => error,
        })
    }

    /// What the values come to in a session's time zone, and its type; NULL where there are none.
    ///
    /// # Errors
    /// The array is not whole; a sum leaves its type.
    pub(crate) fn end(self, zone: Zone) -> Result<Option<(Datum, ColumnType)>, SqlError> {
        self.members.end().map_err(|NotAnArray| not_sealed(&self.encryption))?;
        if self.at + 1 != self.parts.len() {
            return Err(not_sealed(&self.encryption));
        }
        self.whole(zone)
    }

    /// The same where the array is NULL.
    pub(crate) fn end_of_nothing(self, zone: Zone) -> Result<Option<(Datum, ColumnType)>, SqlError> {
        self.whole(zone)
    }

    fn whole(self, zone: Zone) -> Result<Option<(Datum, ColumnType)>, SqlError> {
        let mut values = Vec::with_capacity(self.parts.len());
        for part in self.parts {
            values.push(match part {
                Part::Fold(one) => one.end()?,
                Part::Count(count) => {
                    let kind = ColumnType::BigInt;
                    count.map(|count| Typed { datum: Datum::Integer(count), kind })
                }
                Part::Value(_, value) | Part::Plain(_, value) => value,
            });
        }
        let found = match &self.derived {
            Some(derived) => derived::computed(derived, &values, zone)?,
            None => values.pop().flatten(),
        };
        Ok(found.map(|Typed { datum, kind }| (datum, kind)))
    }
}

impl One {
    fn new(fold: Fold, encryption: Arc<Encryption>) -> Self {
        let total = match fold.kind(encryption.kind) {
            ColumnType::Real => Total::Real(0.0),
            ColumnType::DoublePrecision => Total::Double(0.0),
            _ => Total::Exact(Numeric::integer(0)),
        };
        Self { fold, encryption, total, count: 0 }
    }

    fn add(&mut self, sealed: &[u8], keys: ConnectionKeys<'_>) -> Result<(), SqlError> {
        self.total.add(&opened(sealed, &self.encryption, keys)?);
        self.count += 1;
        Ok(())
    }

    fn end(self) -> Result<Option<Typed>, SqlError> {
        if self.count == 0 {
            return Ok(None);
        }
        let kind = self.fold.kind(self.encryption.kind);
        let datum = match (self.total, self.fold) {
            (Total::Real(sum), _) => Datum::Real(sum),
            (Total::Double(sum), Fold::Sum) => Datum::Double(sum),
            #[allow(clippy::cast_precision_loss, reason = "PostgreSQL divides in this type, too")]
            (Total::Double(sum), Fold::Average) => Datum::Double(sum / self.count as f64),
            (Total::Exact(sum), Fold::Average) => Datum::Numeric(sum.mean(self.count)),
            (Total::Exact(sum), Fold::Sum) if kind == ColumnType::BigInt => {
                Datum::from_text(kind, &sum.to_string())?
            }
            (Total::Exact(sum), Fold::Sum) => Datum::Numeric(sum),
        };
        Ok(Some(Typed { datum, kind }))
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
