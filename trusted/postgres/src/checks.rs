//! Whether encrypted columns were made under the keys that this proxy has, as the columns that the schema file says they are.
//!
//! The schema `arras` keeps a check of each column ([`KeyCheck`]), by the table and the column's place in it, so that it follows a
//! table whatever it is called and goes with it. It is kept in the transaction that makes the column (`arras.check_column`). Of a
//! column that has none, as of an older version, or of a dump of its table alone, it is kept by the first proxy that can open
//! one of its values, or finds none in it ([`enter`]).

use crate::catalog::{KeyCheck, of_other_keys};
use crate::error::SqlError;
use crate::schema::Schema;
use crate::text::quoted;
use crate::{Connections, Snapshot, failure};
use arras_protocol::ChannelError;
use arras_service::columns::Columns;
use std::time::Duration;
use tokio_postgres::types::ToSql;
use tokio_postgres::{Client, Error, Row};

/// What a session asks: six texts a row.
pub(crate) const ASK: &str = "SELECT * FROM arras.column_checks()";

/// Proxies look one after the other at columns of which nothing is kept.
const LOCK: &str = "SELECT pg_catalog.pg_advisory_xact_lock(7034525412735283922)";

/// How long a column of which nothing is kept is waited for.
#[derive(Clone, Copy)]
pub struct Patience {
    /// For whoever changes its table.
    pub lock: Duration,
    /// For a value in it: a table in which there is none is read to its end.
    pub look: Duration,
}

/// At a start, and where the database is examined.
pub const PATIENCE: Patience = Patience { lock: Duration::from_secs(10), look: Duration::from_secs(30) };
/// So many values are opened, of which one must.
const VALUES_MAX: usize = 8;

/// Declared columns that are there, and what is kept of each. Before version 9 of the schema nothing was.
const KEPT: &str = "SELECT u.number, k.sealed, k.equality, k.\"order\" \
    FROM ROWS FROM (pg_catalog.unnest($1::pg_catalog.text[]), pg_catalog.unnest($2::pg_catalog.text[]), \
    pg_catalog.unnest($3::pg_catalog.text[])) WITH ORDINALITY AS u (in_schema, in_table, name, number) \
    JOIN pg_catalog.pg_namespace n ON n.nspname = u.in_schema \
    JOIN pg_catalog.pg_class r ON r.relnamespace = n.oid AND r.relname = u.in_table AND r.relkind IN ('r', 'p', 'f') \
    JOIN pg_catalog.pg_attribute a ON a.attrelid = r.oid AND a.attname = u.name AND a.attnum > 0 AND a.atttypid = 17 \
    LEFT JOIN LATERAL (SELECT * FROM arras.column_check c WHERE (c.relation, c.place, c.attribute) \
    = (r.oid, a.attnum, a.attname) ORDER BY c.number LIMIT 1) k ON true ORDER BY u.number";

const ENTER: &str = "INSERT INTO arras.column_check (relation, place, attribute, sealed, equality, \"order\") \
    SELECT a.attrelid, a.attnum, a.attname, $3, $4, $5 FROM pg_catalog.pg_attribute a \
    WHERE a.attrelid = $1::pg_catalog.text::pg_catalog.regclass AND a.attname = $2::pg_catalog.text::pg_catalog.name";

/// Those whose columns are gone, or are others.
const FORGET: &str = "SELECT arras.forget_checks()";

/// A declared column that is there.
struct Place<'s> {
    schema: &'s str,
    table: &'s str,
    column: &'s str,
    id: [u8; 8],
    check: &'s KeyCheck,
}

impl Place<'_> {
    fn name(&self) -> String {
        [self.schema, self.table, self.column].join(".")
    }

    fn relation(&self) -> String {
        format!("{}.{}", quoted(self.schema), quoted(self.table))
    }
}

/// A table, by schema and name, and what is wrong with a column of it.
pub type Misfit = ((String, String), SqlError);

/// What a look found.
#[derive(Default)]
pub struct Looked {
    /// Tables that have columns of other keys.
    pub misfits: Vec<Misfit>,
    /// Columns of which nothing is kept, and whose values could not be read.
    pub unread: Vec<String>,
}

/// Looks at the declared columns that are there, and keeps checks of those of which none is kept: unless one of them is of other
/// keys, who had better keep nothing. By the owner of the schema `arras`.
///
/// # Errors
/// The database cannot be asked; nothing was changed.
pub async fn enter(
    connections: &Connections,
    schema: &Schema,
    columns: &dyn Columns,
    patience: Patience,
) -> Result<Looked, ChannelError> {
    let client = connections.open().await?;
    let work = async {
        client.batch_execute(&format!("BEGIN; SET LOCAL lock_timeout = '30s'; {LOCK}")).await?;
        let (looked, new) = look(&client, schema, columns, patience).await?;
        if looked.misfits.is_empty() {
            client.batch_execute(FORGET).await?;
            for place in &new {
                let KeyCheck { sealed, equality, order } = place.check;
                let [equality, order] = [equality, order].map(|part| part.as_ref().map(|part| &part[..]));
                let kept: [&(dyn ToSql + Sync); 5] =
                    [&place.relation(), &place.column, &&sealed[..], &equality, &order];
                client.execute(ENTER, &kept).await?;
            }
        }
        client.batch_execute("COMMIT").await?;
        Ok::<Looked, Error>(looked)
    };
    work.await.map_err(|error| failure(&error))
}

/// The same in a snapshot, in which nothing is kept.
///
/// # Errors
/// The database cannot be asked.
pub async fn examine(
    snapshot: &Snapshot,
    schema: &Schema,
    columns: &dyn Columns,
) -> Result<Looked, ChannelError> {
    let client = &snapshot.client;
    let there = "SELECT pg_catalog.to_regclass('arras.column_check') IS NOT NULL";
    let asked = client.query_one(there, &[]).await.and_then(|row| row.try_get(0));
    if !asked.map_err(|error| failure(&error))? {
        return Ok(Looked::default());
    }
    let looked = look(client, schema, columns, PATIENCE).await;
    looked.map(|(looked, _)| looked).map_err(|error| failure(&error))
}

/// What is found, and the columns of which something may be kept now.
async fn look<'s>(
    client: &Client,
    schema: &'s Schema,
    columns: &dyn Columns,
    patience: Patience,
) -> Result<(Looked, Vec<Place<'s>>), Error> {
    let places = declared(schema);
    let names = |of: fn(&Place<'s>) -> &'s str| places.iter().map(of).collect::<Vec<&str>>();
    let names = [names(|place| place.schema), names(|place| place.table), names(|place| place.column)];
    let rows = client.query(KEPT, &[&names[0], &names[1], &names[2]]).await?;
    let (mut looked, mut new) = (Looked::default(), Vec::new());
    let mut places: Vec<Option<Place<'s>>> = places.into_iter().map(Some).collect();
    for row in rows {
        let number = usize::try_from(row.try_get::<_, i64>(0)?).unwrap_or(0);
        let Some(place) = places.get_mut(number.wrapping_sub(1)).and_then(Option::take) else { continue };
        let wrong = match row.try_get::<_, Option<&[u8]>>(1)? {
            Some(_) => match kept(&row)? {
                Some(kept) => place.check.misfit(&kept, &place.name()),
                None => Some(of_other_keys(&place.name())),
            },
            None => match held(client, &place, columns, patience).await? {
                Held::Unread => {
                    looked.unread.push(place.name());
                    continue;
                }
                Held::Own => {
                    new.push(place);
                    continue;
                }
                Held::Foreign => Some(of_other_keys(&place.name())),
            },
        };
        let table = || (place.schema.to_owned(), place.table.to_owned());
        looked.misfits.extend(wrong.map(|wrong| (table(), wrong)));
    }
    Ok((looked, new))
}

fn declared(schema: &Schema) -> Vec<Place<'_>> {
    let mut places = Vec::new();
    for ((in_schema, table), columns) in &schema.tables {
        for (column, encryption) in columns {
            let Some(check) = &encryption.check else { continue };
            places.push(Place { schema: in_schema, table, column, id: encryption.id, check });
        }
    }
    places
}

/// What a row of [`KEPT`] has; none if it is no check.
fn kept(row: &Row) -> Result<Option<KeyCheck>, Error> {
    let sealed: &[u8] = row.try_get(1)?;
    let (equality, order): (Option<&[u8]>, Option<&[u8]>) = (row.try_get(2)?, row.try_get(3)?);
    let part = |part: Option<&[u8]>| part.map(TryInto::try_into).transpose().ok();
    let read =
        || Some(KeyCheck { sealed: sealed.try_into().ok()?, equality: part(equality)?, order: part(order)? });
    Ok(read())
}

/// What a column without a check holds.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Held {
    /// Nothing, or a value of these keys.
    Own,
    /// Values that do not open.
    Foreign,
    /// It cannot be read now.
    Unread,
}

/// Reads a column's values until one opens, some at most.
async fn held(
    client: &Client,
    place: &Place<'_>,
    columns: &dyn Columns,
    patience: Patience,
) -> Result<Held, Error> {
    let (column, relation) = (quoted(place.column), place.relation());
    let begin = format!(
        "SAVEPOINT arras_look; SET LOCAL row_security = off; SET LOCAL lock_timeout = {}; SET LOCAL statement_timeout = {}; \
         SELECT arras.trusted_table('{}'::pg_catalog.regclass, 'ACCESS SHARE'); \
         DECLARE arras_look NO SCROLL CURSOR FOR SELECT t.{column} FROM {relation} AS t WHERE t.{column} IS NOT NULL",
        patience.lock.as_millis(),
        patience.look.as_millis(),
        relation.replace('\'', "''"),
    );
    let reading = async {
        client.batch_execute(&begin).await?;
        for read in 0..VALUES_MAX {
            let Some(row) = client.query_opt("FETCH NEXT FROM arras_look", &[]).await? else {
                return Ok::<Held, Error>(if read == 0 { Held::Own } else { Held::Foreign });
            };
            let value: &[u8] = row.try_get(0)?;
            if columns.keys(place.id).is_some_and(|keys| keys.open(value).is_ok()) {
                return Ok(Held::Own);
            }
        }
        Ok(Held::Foreign)
    };
    let held = match reading.await {
        Err(error) if error.as_db_error().is_some() => Held::Unread,
        ended => ended?,
    };
    // Cursor and settings go with it.
    client.batch_execute("ROLLBACK TO SAVEPOINT arras_look; RELEASE SAVEPOINT arras_look").await?;
    Ok(held)
}
