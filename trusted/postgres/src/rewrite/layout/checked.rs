//! Checks of new columns, kept in the transaction that makes them.

use super::Beside;
use crate::catalog::{Encryption, KeyCheck};
use crate::plan::{Rewritten, hexadecimal};
use crate::rewrite::analysis::Analysis;

impl Analysis<'_> {
    /// Has the check of a column kept. `is_new`: it is for certain, or if it holds nothing; or it is not looked for values, which would
    /// take as long as to read the table, and is left to who finds it without a check if the database does not see that it is new.
    pub(super) fn check_column(
        &self,
        table: &str,
        name: &str,
        encryption: &Encryption,
        (is_new, beside): (Option<bool>, &mut Beside),
    ) {
        let Some(KeyCheck { sealed, equality, order }) = encryption.check.as_ref() else { return };
        if !self.catalog.keeps_checks() {
            return;
        }
        let is_new = is_new.map_or("NULL".to_owned(), |is_new| is_new.to_string());
        let text = |text: &str| text.replace('\'', "''");
        let bytes = |part: Option<&[u8; 16]>| {
            part.map_or("NULL".to_owned(), |part| {
                format!("pg_catalog.decode('{}', 'hex')", hexadecimal(part))
            })
        };
        beside.after.push(Rewritten::plain(format!(
            "SELECT arras.check_column('{}'::regclass, '{}', {is_new}, {}, {}, {})",
            text(table),
            text(name),
            bytes(Some(sealed)),
            bytes(equality.as_ref()),
            bytes(order.as_ref())
        )));
    }
}
