//! Values as they are given: of the type that is said of them, behind the cast that they are written with, then as their column has
//! them.

use super::{Argument, Inputs, argument, defect};
use crate::catalog::{Encryption, Origin};
use crate::codec::{Datum, Said, Zone, array_members, binary_members, members_said_by, said_by};
use crate::column_type::ColumnType;
use crate::error::{SqlError, sqlstate};
use crate::plan::{Source, Value};

/// A value, and the type that it is given in.
pub(super) struct Given {
    pub(super) datum: Datum,
    pub(super) kind: ColumnType,
}

/// How values of a column are read.
#[derive(Clone, Copy)]
struct Reading {
    /// What is said of their type.
    said: Said,
    /// What they are cast to.
    cast: Option<ColumnType>,
    kind: ColumnType,
    zone: Zone,
}

impl Reading {
    /// The type that they are read by; none if that is the column's, and any text of that will do.
    fn read_by(self) -> Option<ColumnType> {
        match (self.said, self.cast) {
            (Said::Of(kind), _) => Some(kind),
            (Said::Text, Some(_)) => Some(ColumnType::Text),
            (Said::Open, cast) => Some(cast.unwrap_or(self.kind).plain()),
            (Said::Text | Said::Other, _) => None,
        }
    }

    fn of_text(self, text: &str) -> Result<Given, SqlError> {
        match self.read_by() {
            Some(kind) => self.cast(self.of_type(kind, text)?, kind),
            None => self.cast(Datum::from_text(self.kind, text)?, self.kind),
        }
    }

    /// In the zone of the session where none is said.
    fn of_type(self, kind: ColumnType, text: &str) -> Result<Datum, SqlError> {
        Datum::of_type_in(kind, text, self.zone)
    }

    fn of_bytes(self, bytes: &[u8], binary: bool) -> Result<Given, SqlError> {
        let text = || {
            std::str::from_utf8(bytes).map_err(|_| {
                let message = "invalid byte sequence for encoding \"UTF8\"";
                SqlError::new(sqlstate::CHARACTER_NOT_IN_REPERTOIRE, message)
            })
        };
        match (self.said, self.read_by()) {
            (Said::Of(_) | Said::Open, Some(kind)) if binary => {
                self.cast(Datum::from_binary(kind, bytes)?, kind)
            }
            (Said::Other, _) if binary => {
                let message = format!("a parameter of this type is no value of type {}", self.kind.name());
                Err(SqlError::new(sqlstate::DATATYPE_MISMATCH, message))
            }
            _ => self.of_text(text()?),
        }
    }

    fn cast(self, datum: Datum, kind: ColumnType) -> Result<Given, SqlError> {
        Ok(match self.cast {
            Some(cast) => Given { datum: datum.cast(kind, cast, self.zone)?, kind: cast },
            None => Given { datum, kind },
        })
    }
}

/// The value of a source, read by the type that it is cast to; none is NULL.
pub(super) fn read(
    source: &Source,
    cast: Option<ColumnType>,
    encryption: &Encryption,
    inputs: Inputs<'_>,
) -> Result<Option<Given>, SqlError> {
    let kind = encryption.kind;
    let reading = |said| Reading { said, cast, kind, zone: inputs.asker.viewer.zone };
    let own = |text: &Option<String>| {
        let read = |text| match kind {
            ColumnType::TimestampTz(_) => reading(Said::Open).of_type(kind, text),
            _ => Datum::from_text(kind, text),
        };
        Ok(text.as_deref().map(read).transpose()?.map(|datum| Given { datum, kind }))
    };
    match source {
        Source::Parameter(number) => {
            let Argument { oid, binary, bytes } = argument(*number, inputs)?;
            bytes.map(|bytes| reading(said_by(oid)).of_bytes(bytes, binary)).transpose()
        }
        Source::Constant(text) => match cast {
            Some(_) => text.as_deref().map(|text| reading(Said::Open).of_text(text)).transpose(),
            None => own(text),
        },
        Source::Read(position) => {
            own(inputs.read.get(*position).ok_or_else(|| defect("a row has fewer columns than were read"))?)
        }
        Source::Computed(position) => {
            own(inputs.computed.get(*position).ok_or_else(|| defect("a value was not computed"))?)
        }
        Source::Moment(moment) => {
            let (datum, kind) = moment.value(inputs.asker.began, inputs.asker.viewer.zone)?;
            Ok(Some(Given { datum, kind }))
        }
        Source::Constants(_) => Err(defect("an array stands where one value does")),
    }
}

/// The values of an array; none is NULL.
pub(super) fn read_members(
    value: &Value,
    encryption: &Encryption,
    inputs: Inputs<'_>,
) -> Result<Option<Vec<Option<Given>>>, SqlError> {
    let (cast, kind) = (value.sent_as, encryption.kind);
    let reading = |said| Reading { said, cast, kind, zone: inputs.asker.viewer.zone };
    let texts = |list: &[Option<String>], said: Said| {
        let one = |text: &Option<String>| text.as_deref().map(|text| reading(said).of_text(text)).transpose();
        list.iter().map(one).collect::<Result<Vec<_>, _>>()
    };
    match &value.source {
        Source::Constants(list) => {
            texts(list, if cast.is_some() { Said::Open } else { Said::Text }).map(Some)
        }
        Source::Parameter(number) => {
            let Argument { oid, binary, bytes } = argument(*number, inputs)?;
            let Some(bytes) = bytes else { return Ok(None) };
            if binary {
                let wrong = || {
                    SqlError::new(sqlstate::INVALID_BINARY_REPRESENTATION, "not an array of one dimension")
                };
                let (oid, list) = binary_members(bytes).ok_or_else(wrong)?;
                let said = said_by(oid);
                let one = |member: Option<&[u8]>| {
                    member.map(|bytes| reading(said).of_bytes(bytes, true)).transpose()
                };
                return list.into_iter().map(one).collect::<Result<Vec<_>, _>>().map(Some);
            }
            let text = String::from_utf8_lossy(bytes);
            let wrong = || {
                let message = format!("malformed array literal: \"{text}\"");
                SqlError::new(sqlstate::INVALID_TEXT_REPRESENTATION, message)
            };
            texts(&array_members(&text).ok_or_else(wrong)?, members_said_by(oid)).map(Some)
        }
        Source::Constant(None) => Ok(None),
        Source::Constant(Some(_)) | Source::Read(_) | Source::Computed(_) | Source::Moment(_) => {
            Err(defect("one value stands where an array does"))
        }
    }
}

/// The value as it is stored in its column, but for what `Datum::storable` does; none is NULL.
pub(super) fn given(
    value: &Value,
    encryption: &Encryption,
    inputs: Inputs<'_>,
) -> Result<Option<Datum>, SqlError> {
    let Some(given) = read(&value.source, value.sent_as, encryption, inputs)? else { return Ok(None) };
    stored(given, value.sent_as, encryption, inputs).map(Some)
}

/// The same of an array's values.
pub(super) fn given_members(
    value: &Value,
    encryption: &Encryption,
    inputs: Inputs<'_>,
) -> Result<Option<Vec<Option<Datum>>>, SqlError> {
    let Some(list) = read_members(value, encryption, inputs)? else { return Ok(None) };
    let one = |given: Given| stored(given, value.sent_as, encryption, inputs);
    list.into_iter().map(|given| given.map(one).transpose()).collect::<Result<_, _>>().map(Some)
}

/// A value as its column's: what is cast to a type may be of any, what is said to be of one is assigned.
fn stored(
    Given { datum, kind }: Given,
    cast: Option<ColumnType>,
    encryption: &Encryption,
    inputs: Inputs<'_>,
) -> Result<Datum, SqlError> {
    let zone = inputs.asker.viewer.zone;
    match cast {
        Some(_) => datum.converted(kind, encryption.kind, zone),
        // What is shown would be of the other type.
        None if encryption.origin != Origin::Stored
            && kind.is_time()
            && encryption.kind.is_time()
            && kind.plain() != encryption.kind.plain() =>
        {
            let message =
                format!("a value of type {} is chosen beside column {}'s", kind.name(), encryption.label);
            Err(SqlError::new(sqlstate::DATATYPE_MISMATCH, message).hint("Cast it to the column's type."))
        }
        None => datum.assigned(kind, encryption.kind, zone),
    }
}
