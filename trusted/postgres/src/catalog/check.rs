//! By what it is noticed that a column was made under other keys, or as another column, than this proxy has for it.

use super::{Catalog, Encryption};
use crate::column_type::ColumnType;
use crate::error::{SqlError, sqlstate};
use std::collections::BTreeMap;
use subtle::{Choice, ConstantTimeEq};

/// Bytes of each part.
const BYTES: usize = 16;

/// What the database keeps of a column: pseudo-random bytes under a key of the column's own, of what decides its ciphertexts. Names
/// of tables and columns do not: what is kept is kept with the column, whatever it is called.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyCheck {
    /// Of its sealed values.
    pub sealed: [u8; BYTES],
    /// Of its equality terms, if it has any.
    pub equality: Option<[u8; BYTES]>,
    /// Of its terms of order, if it has any.
    pub order: Option<[u8; BYTES]>,
}

/// How a column stands to what is kept of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Standing {
    /// It is what it is declared as, under these keys.
    Own,
    /// Another key, id or type.
    OfOtherKeys,
    /// These keys, and other terms.
    OfOtherTerms,
}

impl KeyCheck {
    /// What is kept of a column, by a pseudo-random function under its key.
    pub fn of(column: &Encryption, random: impl Fn(&[&[u8]]) -> [u8; BYTES]) -> Self {
        let kind = kind(column.kind);
        let kind = kind.as_bytes();
        let order = column.order.map(|order| {
            let width = u64::try_from(column.order_key_bytes()).unwrap_or(u64::MAX).to_be_bytes();
            random(&[b"order", kind, order.name().as_bytes(), &width])
        });
        let equality = column.equality.map(|shared| random(&[b"equality", kind, &shared]));
        Self { sealed: random(&[b"sealed", kind]), equality, order }
    }

    /// Reads hexadecimal digits, empty for a part that there is not.
    fn read(parts: [&str; 3]) -> Option<Self> {
        let [sealed, equality, order] = parts;
        let optional = |digits: &str| if digits.is_empty() { Some(None) } else { part(digits).map(Some) };
        Some(Self { sealed: part(sealed)?, equality: optional(equality)?, order: optional(order)? })
    }

    /// Compares it with what is kept, in constant time. A term that was added or dropped is the layout's to notice.
    fn standing(&self, kept: &Self) -> Standing {
        let term = |own: &Option<[u8; BYTES]>, kept: &Option<[u8; BYTES]>| match (own, kept) {
            (Some(own), Some(kept)) => own.ct_eq(kept),
            _ => Choice::from(1),
        };
        let terms = term(&self.equality, &kept.equality) & term(&self.order, &kept.order);
        match (bool::from(self.sealed.ct_eq(&kept.sealed)), bool::from(terms)) {
            (true, true) => Standing::Own,
            (true, false) => Standing::OfOtherTerms,
            (false, _) => Standing::OfOtherKeys,
        }
    }

    /// What is wrong with a column, `schema.table.column`, of which that is kept.
    pub(crate) fn misfit(&self, kept: &Self, column: &str) -> Option<SqlError> {
        match self.standing(kept) {
            Standing::Own => None,
            Standing::OfOtherKeys => Some(of_other_keys(column)),
            Standing::OfOtherTerms => Some(
                SqlError::new(
                    sqlstate::INVALID_TABLE_DEFINITION,
                    format!(
                        "column {column} was made under this keyring, with another join or order than the schema file has"
                    ),
                )
                .hint("Give it the join, order and max_bytes again that it had, or add a column of another name and id and copy the values."),
            ),
        }
    }
}

/// A column is none of these keys.
pub(crate) fn of_other_keys(column: &str) -> SqlError {
    let message = format!(
        "column {column} was made under another keyring than this proxy has, or with another id or type than the schema file has"
    );
    SqlError::new(sqlstate::INVALID_TABLE_DEFINITION, message).hint(
        "Start the proxy with the keyring that the column was made under, and give the column the id and the type again that it had.",
    )
}

fn part(digits: &str) -> Option<[u8; BYTES]> {
    let byte = |at: usize| u8::from_str_radix(digits.get(2 * at..2 * at + 2)?, 16).ok();
    let bytes: Option<Vec<u8>> = (0..digits.len().div_ceil(2)).map(byte).collect();
    bytes?.try_into().ok()
}

/// A type by what it decides of ciphertexts.
fn kind(kind: ColumnType) -> String {
    match kind {
        ColumnType::Text | ColumnType::Varchar(_) => "text".into(),
        ColumnType::Numeric(Some((_, scale))) => format!("numeric of scale {scale}"),
        other => other.plain().name(),
    }
}

impl Catalog {
    /// Does the database keep checks of columns?
    pub(crate) fn keeps_checks(&self) -> bool {
        self.keeps_checks
    }

    /// Encrypted columns that have a check: schema, table and column, and the check.
    pub(crate) fn checked(&self) -> impl Iterator<Item = ([&str; 3], &KeyCheck)> {
        let columns = self.tables().flat_map(|table| table.columns.iter().map(move |column| (table, column)));
        columns.filter_map(|(table, column)| {
            let check = column.encryption.as_ref()?.check.as_ref()?;
            Some(([table.schema.as_str(), table.name.as_str(), column.name.as_str()], check))
        })
    }

    /// Compares encrypted columns with what is kept of them: schema, table, column and three parts a row. Those of which nothing
    /// is kept.
    pub(crate) fn compare_checks(&mut self, kept: &[[String; 6]]) -> Vec<[String; 3]> {
        let kept: BTreeMap<[&str; 3], [&str; 3]> = kept
            .iter()
            .map(|[schema, table, column, sealed, equality, order]| {
                ([schema.as_str(), table, column], [sealed.as_str(), equality, order])
            })
            .collect();
        let (mut missing, mut misfits) = (Vec::new(), Vec::new());
        for (place, check) in self.checked() {
            let Some(parts) = kept.get(&place) else {
                missing.push(place.map(str::to_owned));
                continue;
            };
            let name = place.join(".");
            let wrong = match KeyCheck::read(*parts) {
                Some(kept) => check.misfit(&kept, &name),
                None => Some(of_other_keys(&name)),
            };
            let [schema, table, _] = place;
            misfits.extend(wrong.map(|wrong| ((schema.to_owned(), table.to_owned()), wrong)));
        }
        self.refuse(misfits);
        missing
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::schema::Schema;
    use std::sync::Arc;

    /// As a function under a key, which is given.
    fn check(schema: &str, key: u8) -> KeyCheck {
        let schema =
            Schema::parse(&format!("[tables.t]\nc = {{ id = \"0000000000000001\", {schema} }}"), "s")
                .unwrap();
        let random = |bound: &[&[u8]]| {
            let mut out = [key; BYTES];
            let bytes = bound.iter().flat_map(|part| part.iter().chain(&[0xff]));
            bytes.enumerate().for_each(|(at, byte)| out[at % BYTES] = out[at % BYTES].rotate_left(3) ^ byte);
            out
        };
        KeyCheck::of(schema.columns().next().unwrap(), random)
    }

    #[test]
    fn what_decides_ciphertexts_is_compared_and_nothing_else() {
        let ordered = |kind: &str, rest: &str| {
            check(&format!("type = \"{kind}\", operations = [\"equality\", \"order\"]{rest}"), 1)
        };
        let text = ordered("text", ", max_bytes = 20");
        let standing = |other: &KeyCheck| other.standing(&text);
        assert_eq!(standing(&ordered("varchar(30)", ", max_bytes = 20")), Standing::Own);
        assert_eq!(standing(&check("type = \"text\"", 1)), Standing::Own);
        assert_eq!(standing(&check("type = \"text\"", 2)), Standing::OfOtherKeys);
        assert_eq!(standing(&check("type = \"bytea\"", 1)), Standing::OfOtherKeys);
        assert_eq!(standing(&ordered("text", ", max_bytes = 21")), Standing::OfOtherTerms);
        let numeric = |kind: &str| check(&format!("type = \"{kind}\""), 1);
        assert_eq!(numeric("numeric(12,2)"), numeric("numeric(14,2)"));
        assert_ne!(numeric("numeric(12,2)"), numeric("numeric(12,3)"));
    }

    #[test]
    fn a_catalogue_refuses_tables_whose_columns_are_of_other_keys() {
        let own = check("type = \"text\"", 1);
        let schema = "[tables.t]\nc = { id = \"0000000000000001\", type = \"text\" }\nd = { id = \"0000000000000002\", type = \"text\" }";
        let schema = Arc::new(Schema::parse(schema, "s").unwrap().checked(|_| own.clone()));
        let rows = ["c", "d"].map(|name| ["public", "t", name, "bytea", "", ""].map(str::to_owned));
        let digits = |byte: u8| crate::plan::hexadecimal(&[byte; BYTES]);
        for (kept, missing, is_refused) in [
            (crate::plan::hexadecimal(&own.sealed), 1, false),
            (digits(9), 1, true),
            ("odd".to_owned(), 1, true),
        ] {
            let mut catalog = Catalog::read(schema.clone(), rows.clone());
            let kept = ["public", "t", "c", &kept, "", ""].map(str::to_owned);
            assert_eq!(catalog.compare_checks(&[kept]).len(), missing);
            assert_eq!(catalog.misfit("t").is_some(), is_refused);
        }
    }
}
