//! Whether the database knows of the tables that store labels: a table that came past the proxy has labels of another time, and a
//! change of labels passes it over.

use super::{Catalog, ORDER_SUFFIX, Table};
use crate::Stored;
use crate::error::{SqlError, sqlstate};
use crate::schema::Schema;
use std::collections::BTreeMap;
use std::sync::Arc;

/// What a session asks: schema, table, column of labels, and the column whose labels it is known to store, or nothing.
pub(crate) const ASK_PLACES: &str = "SELECT in_schema, in_table, attribute, coalesce(column_id::pg_catalog.text, '') FROM arras.stored_labels";

/// Those of the places that are declared to store labels that are there and not known to, by what [`ASK_PLACES`] gives.
pub(crate) fn not_known(declared: Vec<Stored>, there: &[[String; 4]]) -> Vec<Stored> {
    let mut known: BTreeMap<[&str; 3], Vec<&str>> = BTreeMap::new();
    for [schema, table, attribute, column] in there {
        known.entry([schema, table, attribute]).or_default().push(column);
    }
    let is_passed_over = |stored: &Stored| {
        let columns = known.get(&stored.place.each_ref().map(String::as_str));
        let number = stored.column.number().to_string();
        columns.is_some_and(|columns| !columns.contains(&number.as_str()))
    };
    declared.into_iter().filter(is_passed_over).collect()
}

/// Where labels are to be stored by a schema file, there or not.
pub(crate) fn declared_places(schema: &Schema) -> Vec<Stored> {
    let mut places = Vec::new();
    for ((in_schema, table), columns) in &schema.tables {
        for (name, encryption) in columns {
            let Some(protocol) = encryption.labels() else { continue };
            let place = [in_schema.clone(), table.clone(), format!("{name}{ORDER_SUFFIX}")];
            places.push(Stored { column: encryption.id.into(), protocol, place });
        }
    }
    places
}

impl Catalog {
    /// Does the database tell where labels are stored?
    pub(crate) fn keeps_places(&self) -> bool {
        self.keeps_places
    }

    /// Where labels are stored, by what is declared and there.
    pub(crate) fn places(&self) -> Vec<Stored> {
        let of_table = |table: &Arc<Table>| {
            let columns = table.columns.iter().filter_map(|column| {
                let encryption = column.encryption.as_ref()?;
                let protocol = encryption.labels()?;
                let place =
                    [table.schema.clone(), table.name.clone(), format!("{}{ORDER_SUFFIX}", column.name)];
                Some(Stored { column: encryption.id.into(), protocol, place })
            });
            columns.collect::<Vec<_>>()
        };
        self.tables().flat_map(of_table).collect()
    }

    /// Has statements refused on tables that are passed over when labels change. `reasons` says why labels could not be set anew.
    pub(crate) fn compare_places(&mut self, there: &[[String; 4]], reasons: &BTreeMap<[String; 3], String>) {
        // Of a table's columns, one of which it is known why comes first.
        let mut places = not_known(self.places(), there);
        places.sort_by_key(|stored| !reasons.contains_key(&stored.place));
        let misfits = places.into_iter().map(|stored| {
            let reason = reasons.get(&stored.place);
            let [schema, table, attribute] = stored.place;
            let column = attribute.strip_suffix(ORDER_SUFFIX).unwrap_or(&attribute);
            let message = format!(
                "column {schema}.{table}.{column} may have labels of another time than its order: its table was not made through the \
                 proxy, but restored, say, without the schema arras"
            );
            let why = SqlError::new(sqlstate::INVALID_TABLE_DEFINITION, message);
            let why = match reason {
                Some(reason) => why.detail(format!("The labels could not be set anew: {reason}")).hint(
                    "The proxy tries again. A row that is named is mended or deleted at the database; `arras doctor` says what else is wrong.",
                ),
                None => why.hint(
                    "Try again soon: a running proxy sets the labels anew. Where it cannot, its log says why, and `arras doctor` what is wrong.",
                ),
            };
            ((schema, table), why)
        });
        let misfits: Vec<_> = misfits.collect();
        self.refuse(misfits);
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn a_table_that_is_passed_over_is_refused_and_no_other() {
        let schema = "[tables.t]\nc = { id = \"0000000000000001\", type = \"int\", operations = [\"order\"] }\n\
                      [tables.u]\nc = { id = \"0000000000000002\", type = \"int\", operations = [\"order\"] }";
        let schema = Arc::new(Schema::parse(schema, "s").unwrap());
        let rows = ["t", "u"].into_iter().flat_map(|table| {
            [("c", "bytea"), ("c$ord", "bigint")]
                .map(|(name, kind)| ["public", table, name, kind, "", ""].map(str::to_owned))
        });
        let catalog = Catalog::read(schema.clone(), rows);
        let place = |table: &str, column: &str| ["public", table, "c$ord", column].map(str::to_owned);
        let refused = |there: &[[String; 4]]| {
            let mut catalog = catalog.clone();
            catalog.compare_places(there, &BTreeMap::new());
            ["t", "u"].map(|name| catalog.misfit(name).is_some())
        };
        assert_eq!(refused(&[place("t", "1"), place("u", "2")]), [false, false]);
        assert_eq!(refused(&[place("t", ""), place("u", "2")]), [true, false]);
        assert_eq!(refused(&[place("t", "2"), place("u", "1"), place("u", "2")]), [true, false], "another's");
        assert_eq!(refused(&[]), [false, false], "views store none");
        assert_eq!(not_known(declared_places(&schema), &[place("u", "")])[0].place[1], "u");
        let mut told = catalog.clone();
        let why = BTreeMap::from([(["public", "t", "c$ord"].map(str::to_owned), "row 7".to_owned())]);
        told.compare_places(&[place("t", ""), place("u", "")], &why);
        let detail = |table| told.misfit(table).unwrap().detail.clone();
        assert_eq!(&*detail("t").unwrap(), "The labels could not be set anew: row 7");
        assert_eq!(detail("u"), None);
    }
}
