//! Values of many rows, entered in the orders of their columns together.

use super::{Inputs, given};
use crate::error::{SqlError, sqlstate};
use crate::plan::{Form, Value};
use arras_service::columns::Columns;
use std::collections::BTreeMap;

/// Enters what rows store in columns that have an order, all of a column in one change: computed one by one, their values are
/// found there then. Rows from the first on that has a value which is none of its column's are left to whoever computes them,
/// and says so.
///
/// # Errors
/// The database cannot be asked.
pub(crate) async fn enter(
    values: &[Value],
    rows: &[Inputs<'_>],
    columns: &dyn Columns,
) -> Result<(), SqlError> {
    let ordered: Vec<_> = values
        .iter()
        .filter_map(|value| match &value.form {
            Form::Order(encryption) => encryption.labels().map(|_| (value, encryption)),
            Form::Plain
            | Form::Presence
            | Form::Sealed(_)
            | Form::Default(_)
            | Form::SealedArray(_)
            | Form::Equality(_)
            | Form::EqualTo(_)
            | Form::EqualityArray(_)
            | Form::EqualToArray(_)
            // Its members are entered together anyway.
            | Form::OrderArray(_)
            | Form::Text(_)
            | Form::TextArray(_)
            | Form::Found(..)
            | Form::FoundEmpty(..)
            | Form::Bound(..) => None,
        })
        .collect();
    if rows.len() < 2 || ordered.is_empty() {
        return Ok(());
    }
    let mut keys: BTreeMap<[u8; 8], Vec<Vec<u8>>> = BTreeMap::new();
    'rows: for inputs in rows {
        for (value, encryption) in &ordered {
            let key = || {
                let Some(datum) = given(value, encryption, *inputs)? else { return Ok(None) };
                datum.storable(encryption)?.order_key(encryption).map(Some)
            };
            match key() {
                Ok(None) => {}
                Ok(Some(key)) => keys.entry(encryption.id).or_default().push(key),
                Err::<_, SqlError>(_) => break 'rows,
            }
        }
    }
    let process = rows.first().and_then(|inputs| inputs.asker.process);
    for (column, keys) in keys {
        let missing = || SqlError::new(sqlstate::INTERNAL_ERROR, "a column has no encoder of its order");
        columns.encoder(column).ok_or_else(missing)?.prepare(&keys, process).await?;
    }
    Ok(())
}
