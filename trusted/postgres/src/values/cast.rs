//! Values behind the casts that they are written with: one to the column's own type rounds or cuts, whatever is made of the value then.

use super::{Inputs, datum, members};
use crate::catalog::Encryption;
use crate::codec::Datum;
use crate::error::SqlError;
use crate::plan::Value;

fn cast(datum: Datum, value: &Value) -> Result<Datum, SqlError> {
    match value.sent_as {
        Some(kind) => datum.cast(kind),
        None => Ok(datum),
    }
}

/// The value, of a column's type; none is NULL.
pub(super) fn given(
    value: &Value,
    encryption: &Encryption,
    inputs: Inputs<'_>,
) -> Result<Option<Datum>, SqlError> {
    datum(&value.source, encryption, inputs)?.map(|datum| cast(datum, value)).transpose()
}

/// The values of an array; none is NULL.
pub(super) fn given_members(
    value: &Value,
    encryption: &Encryption,
    inputs: Inputs<'_>,
) -> Result<Option<Vec<Option<Datum>>>, SqlError> {
    let Some(list) = members(&value.source, encryption, inputs)? else { return Ok(None) };
    let each = list.into_iter().map(|member| member.map(|datum| cast(datum, value)).transpose());
    each.collect::<Result<_, _>>().map(Some)
}
