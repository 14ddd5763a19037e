//! Defaults of encrypted columns, as PostgreSQL keeps them: a constant is a sealed value; a moment is sealed, too, in an expression that
//! fails where the server computes it, as a row that is inserted past the proxy would hold what no row is to hold.

use super::{ConnectionKeys, Viewer, defect};
use crate::catalog::{Constant, Encryption};
use crate::codec::Datum;
use crate::column_type::ColumnType;
use crate::error::SqlError;
use crate::moment::Moment;
use crate::plan::{Output, PhysicalValue, Source, Value, hexadecimal};
use arras_service::columns::Columns;
use std::sync::Arc;

/// What stands before the digits of a moment and behind them. PostgreSQL says that no such encoding is known.
pub(crate) const MOMENT: [&str; 2] = ["pg_catalog.decode(", ", 'a default that the proxy computes')"];
/// The same as PostgreSQL shows it.
const SHOWN: [&str; 2] = ["decode('", "'::text, 'a default that the proxy computes'::text)"];

/// The digits of a moment that is sealed as a column's default.
pub(super) fn sealed(
    value: &Value,
    encryption: &Encryption,
    keys: ConnectionKeys<'_>,
) -> Result<PhysicalValue, SqlError> {
    let Source::Moment(moment) = &value.source else { return Err(defect("a constant is no moment")) };
    let sealed = keys.seal_default(encryption, &moment.to_bytes())?;
    Ok(PhysicalValue::Text(hexadecimal(&sealed)))
}

/// Opens the default of a column as PostgreSQL shows it. None: it was not sealed for the column.
pub(crate) fn open_default(
    encryption: &Arc<Encryption>,
    default: &str,
    columns: &dyn Columns,
) -> Option<Constant> {
    // It is stored, and no session's.
    let keys = ConnectionKeys::new(columns, Viewer::default());
    let shown = default.strip_prefix("pg_catalog.").unwrap_or(default);
    if let Some(digits) = shown.strip_prefix(SHOWN[0]).and_then(|rest| rest.strip_suffix(SHOWN[1])) {
        let Datum::Bytes(sealed) = Datum::from_text(ColumnType::Bytea, &format!("\\x{digits}")).ok()? else {
            return None;
        };
        return Moment::from_bytes(&keys.open_default(encryption, &sealed)?).map(Constant::Moment);
    }
    let digits = default.strip_prefix('\'')?.strip_suffix("'::bytea")?;
    let output = Output::Sealed(encryption.clone());
    let opened = output.open(Some(digits.as_bytes()), false, false, keys).ok()??;
    String::from_utf8(opened).ok().map(Constant::Opened)
}
