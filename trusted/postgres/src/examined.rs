//! Whether what tables store of encrypted columns is what the proxy stored there: every sealed value opens, its terms are those
//! of its value, and its label is that of its value in the OPE table. Read row by row, in the memory of a few.

use crate::catalog::{COLUMNS, Catalog, Encryption, ORDER_SUFFIX, Table};
use crate::codec::Datum;
use crate::mope::{Snapshot, Stored, stranger_of_table};
use crate::rewrite::term::Term;
use crate::schema::Schema;
use crate::text::quoted;
use arras_protocol::ChannelError;
use arras_service::columns::Columns;
use arras_service::words::TextName;
use std::fmt::Write;
use std::sync::Arc;
use tokio_postgres::{Error, Row, SimpleQueryMessage};

/// Bytes of rows that are held, about.
const HELD_BYTES: usize = 4 << 20;
/// Rows of the first look, and the most of any.
const ROWS: (usize, usize) = (16, 1024);

/// The order key that a ciphertext of a column's OPE table is of; none if it is of none.
pub type Opens<'a> = &'a dyn Fn([u8; 8], &[u8]) -> Option<Vec<u8>>;

/// What rows are judged by.
pub struct Judge<'a> {
    /// The keys of columns.
    pub columns: &'a dyn Columns,
    /// What ciphertexts of tables open to.
    pub opens_to: Opens<'a>,
}

/// The tables that are there, if they fit what is declared. A part of a declared table that is not declared itself is looked at with
/// the whole.
///
/// # Errors
/// The database cannot be asked, or [`crate::SqlError`]'s words say what does not fit and what to do.
pub async fn tables(snapshot: &Snapshot, schema: Arc<Schema>) -> Result<Catalog, ChannelError> {
    let answered = snapshot.client.simple_query(COLUMNS).await.map_err(|error| lost(&error))?;
    let rows = answered.iter().filter_map(|message| match message {
        SimpleQueryMessage::Row(row) => {
            let texts: Option<Vec<String>> =
                (0..row.len()).map(|at| row.get(at).map(str::to_owned)).collect();
            texts?.try_into().ok()
        }
        _ => None,
    });
    let catalog = Catalog::read(schema, rows);
    if let Some(error) = catalog.misfits().next() {
        let hint = error.hint.as_ref().map_or_else(String::new, |hint| format!(": {hint}"));
        return Err(ChannelError::Halted(format!("{}{hint}", error.message)));
    }
    Ok(catalog)
}

/// Where labels are stored, by what is declared and there.
#[must_use]
pub fn stored(catalog: &Catalog) -> Vec<Stored> {
    catalog.places()
}

/// Columns that are read of each encrypted one.
const COLUMNS_OF_ONE: usize = 5;

/// Looks at every row of a table; tells what is wrong, a line each, and returns how many rows there are.
///
/// # Errors
/// The database cannot be asked.
pub async fn rows(
    snapshot: &Snapshot,
    table: &Table,
    judge: &Judge<'_>,
    tell: &mut dyn FnMut(String),
) -> Result<u64, ChannelError> {
    let encrypted: Vec<(&str, &Arc<Encryption>)> = table
        .columns
        .iter()
        .filter_map(|column| Some((column.name.as_str(), column.encryption.as_ref()?)))
        .collect();
    let client = &snapshot.client;
    let relation = format!("{}.{}", quoted(&table.schema), quoted(&table.name));
    if let Some(owner) = stranger_of_table(client, &relation).await.map_err(|error| lost(&error))? {
        tell(format!(
            "{}.{} belongs to {owner}, who has not the rights of the role that looks, and whose code would have them: its rows are not \
             looked at; let its owner run this",
            table.schema, table.name
        ));
        return Ok(0);
    }
    let keys = plain_keys(snapshot, table).await?;
    let open = format!("DECLARE arras_examined NO SCROLL CURSOR FOR {}", select(table, &encrypted, &keys));
    client.batch_execute(&open).await.map_err(|error| lost(&error))?;
    let (mut count, mut most) = (0, ROWS.0);
    loop {
        let fetch = format!("FETCH FORWARD {most} FROM arras_examined");
        let rows = client.query(&fetch, &[]).await.map_err(|error| lost(&error))?;
        let mut bytes = 0;
        for row in &rows {
            bytes += row.raw_size_bytes();
            count += 1;
            let place: String = value(row, 0)?;
            for (at, (name, encryption)) in encrypted.iter().enumerate() {
                let held = Held::read(row, 1 + COLUMNS_OF_ONE * at)?;
                if let Some(wrong) = judge.wrong(encryption, &held) {
                    let (schema, table) = (&table.schema, &table.name);
                    let what = wrong.said(encryption, &relation, name);
                    tell(format!("{schema}.{table}.{name}, row {place}: {what}"));
                }
            }
        }
        if rows.is_empty() {
            break;
        }
        most = (HELD_BYTES / (bytes / rows.len()).max(1)).clamp(1, ROWS.1);
    }
    client.batch_execute("CLOSE arras_examined").await.map_err(|error| lost(&error))?;
    Ok(count)
}

fn lost(error: &Error) -> ChannelError {
    let said = error.as_db_error().map_or_else(|| error.to_string(), |said| said.message().to_owned());
    ChannelError::Halted(format!("PostgreSQL: {said}"))
}

fn value<'r, T: tokio_postgres::types::FromSql<'r>>(row: &'r Row, at: usize) -> Result<T, ChannelError> {
    row.try_get(at).map_err(|error| ChannelError::Malformed(error.to_string()))
}

/// The columns of a table's primary key that hold plaintext.
async fn plain_keys(snapshot: &Snapshot, table: &Table) -> Result<Vec<String>, ChannelError> {
    let statement = "SELECT a.attname::pg_catalog.text FROM pg_catalog.pg_index i \
                     JOIN pg_catalog.pg_class r ON r.oid = i.indrelid JOIN pg_catalog.pg_namespace n ON n.oid = r.relnamespace \
                     JOIN pg_catalog.pg_attribute a ON a.attrelid = r.oid AND a.attnum = ANY (i.indkey) \
                     WHERE i.indisprimary AND n.nspname = $1 AND r.relname = $2 ORDER BY a.attnum";
    let asked = snapshot.client.query(statement, &[&table.schema, &table.name]).await;
    let mut names = Vec::new();
    for row in asked.map_err(|error| lost(&error))? {
        let name: String = value(&row, 0)?;
        names.extend(table.column(&name).filter(|column| column.encryption.is_none()).map(|_| name));
    }
    Ok(names)
}

/// Reads of each row where it is, and of each encrypted column: sealed value, equality term, label, and the ciphertext of its
/// order: what the OPE table has for the label, or the term itself.
fn select(table: &Table, encrypted: &[(&str, &Arc<Encryption>)], keys: &[String]) -> String {
    let mut list = String::from("t.ctid::pg_catalog.text");
    for key in keys {
        let name = format!("{key} = ").replace('\'', "''");
        let _ = write!(list, " || ', {name}' || t.{}::pg_catalog.text", quoted(key));
    }
    let mut from = format!("{}.{} AS t", quoted(&table.schema), quoted(&table.name));
    for (at, (name, encryption)) in encrypted.iter().enumerate() {
        let term = |term: Term, absent: &str| {
            let there = encryption.terms().any(|other| other == term);
            if there {
                format!("t.{}", quoted(&format!("{name}{}", term.suffix())))
            } else {
                absent.to_owned()
            }
        };
        let equal = term(Term::Equality, "NULL::pg_catalog.bytea");
        let (labelled, order) = (encryption.labels().is_some(), term(Term::Order, "NULL"));
        let label = if labelled { order.as_str() } else { "NULL::pg_catalog.int8" };
        let _ = write!(list, ", t.{}, {equal}, {label}", quoted(name));
        if labelled {
            let number = i64::from_be_bytes(encryption.id);
            let _ = write!(list, ", e{at}.ciphertext");
            let _ = write!(
                from,
                " LEFT JOIN arras.mope_entry AS e{at} ON e{at}.column_id = {number} AND e{at}.label = {label}"
            );
        } else {
            let _ = write!(list, ", {order}::pg_catalog.bytea");
        }
        let _ = write!(list, ", {}", term(Term::Text, "NULL::pg_catalog.bytea"));
    }
    format!("SELECT {list} FROM {from}")
}

/// What a row has of one column.
struct Held<'r> {
    sealed: Option<&'r [u8]>,
    equality: Option<&'r [u8]>,
    label: Option<i64>,
    /// What the OPE table has for the label; or the term of order itself.
    ciphertext: Option<&'r [u8]>,
    /// The name that the words of a text are entered under.
    name: Option<&'r [u8]>,
}

impl<'r> Held<'r> {
    fn read(row: &'r Row, at: usize) -> Result<Self, ChannelError> {
        let (sealed, equality) = (value(row, at)?, value(row, at + 1)?);
        let (label, ciphertext) = (value(row, at + 2)?, value(row, at + 3)?);
        Ok(Self { sealed, equality, label, ciphertext, name: value(row, at + 4)? })
    }
}

/// What contradicts itself in a column of a row.
enum Wrong {
    /// What is sealed cannot be relied on, or a term of it: the value has to be written again.
    Value(String),
    /// The label alone.
    Label(String),
    /// The schema file.
    Declared(String),
}

impl Wrong {
    /// In words, and what to do about it.
    fn said(self, encryption: &Encryption, relation: &str, name: &str) -> String {
        match self {
            Self::Value(what) => {
                format!("{what}; write the value again through the proxy, or restore the row from a backup")
            }
            Self::Label(what) => format!(
                "{what}; while a proxy runs have the labels of the table set anew: as the table's owner, SELECT \
                 arras.mope_set_anew({}, {}, {})",
                i64::from_be_bytes(encryption.id),
                constant(relation),
                constant(&format!("{name}{ORDER_SUFFIX}"))
            ),
            Self::Declared(what) => what,
        }
    }
}

/// A text as a constant of SQL.
fn constant(text: &str) -> String {
    format!("'{}'", text.replace('\'', "''"))
}

impl Judge<'_> {
    /// What contradicts itself in a column of a row.
    fn wrong(&self, encryption: &Encryption, held: &Held<'_>) -> Option<Wrong> {
        let value = |what: &str| Some(Wrong::Value(what.into()));
        let Some(sealed) = held.sealed else {
            let terms = [held.equality, held.ciphertext, held.name];
            let bare = held.label.is_some() || terms.iter().any(Option::is_some);
            return if bare { value("a term is there and no sealed value") } else { None };
        };
        let opened = self.columns.keys(encryption.id).and_then(|keys| keys.open(sealed).ok());
        let Some(opened) = opened else {
            return value(
                "the sealed value does not open: it was altered, comes from another column, or is under another key",
            );
        };
        let Ok(datum) = Datum::from_stored(encryption.kind, &opened) else {
            let kind = encryption.kind.name();
            let what = format!(
                "the sealed value is none of type {kind}: give the column the type again that it had"
            );
            return Some(Wrong::Declared(what));
        };
        if let Some(shared) = encryption.equality {
            let term = self.columns.keys(shared).map(|keys| keys.equality(&datum.canonical()));
            if held.equality != term.as_ref().map(<[u8; 16]>::as_slice) {
                return value("the equality term is not that of the sealed value");
            }
        }
        if encryption.text.is_some() && held.name.is_none_or(|name| name.len() != size_of::<TextName>()) {
            return value("there is no name under which its words are entered");
        }
        let own = datum.order_key(encryption).ok();
        if encryption.order_is_ciphertext() {
            let terms = self.columns.order_terms(encryption.id);
            let agrees = match (terms, held.ciphertext, own) {
                (Some(terms), Some(term), Some(key)) => terms.is_of(term, &key),
                _ => false,
            };
            return if agrees { None } else { value("the term of order is not that of the sealed value") };
        }
        encryption.order?;
        let Some(label) = held.label else {
            return Some(Wrong::Label("there is a sealed value and no label".into()));
        };
        let Some(ciphertext) = held.ciphertext else {
            return Some(Wrong::Label(format!("the label {label} is no value's")));
        };
        let agrees = own.is_some() && (self.opens_to)(encryption.id, ciphertext) == own;
        (!agrees).then(|| Wrong::Label(format!("the label {label} is another value's than the sealed one")))
    }
}
