//! Tables that an older version has noted, and that have none of the triggers which this one makes.

use tokio_postgres::{Client, Error};

/// Those that have none: column, table by its number, table by its name, attribute. Tables of ours need none.
const OLDER: &str = "SELECT p.column_id, p.relation::pg_catalog.oid, p.relation::pg_catalog.text, p.attribute::pg_catalog.text \
                     FROM arras.mope_place p JOIN pg_catalog.pg_class r ON r.oid = p.relation \
                     WHERE (p.watched IS NULL OR NOT p.by_column) AND r.relnamespace <> 'arras'::pg_catalog.regnamespace";

/// A table that could not be had.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NotWatched {
    /// Table and attribute.
    pub place: String,
    /// Why not.
    pub why: String,
}

/// Makes the triggers that note what is written past the proxy in tables that an older version has noted: each in a transaction of its own,
/// which waits for others a second at most. Returns those that could not be had.
///
/// # Errors
/// PostgreSQL's, where it says nothing of a table.
pub async fn watch_older(client: &Client) -> Result<Vec<NotWatched>, Error> {
    let mut left = Vec::new();
    for row in client.query(OLDER, &[]).await? {
        let (column, relation): (i64, u32) = (row.try_get(0)?, row.try_get(1)?);
        let (table, attribute): (String, String) = (row.try_get(2)?, row.try_get(3)?);
        let watch = format!(
            "BEGIN; SET LOCAL lock_timeout = '1s'; \
             SELECT arras.mope_watch_older({column}, {relation}::oid::regclass, '{}'); COMMIT",
            attribute.replace('\'', "''")
        );
        if let Err(error) = client.batch_execute(&watch).await {
            let Some(answer) = error.as_db_error() else { return Err(error) };
            let why = format!("{} ({})", answer.message(), answer.code().code());
            left.push(NotWatched { place: format!("{table}.{attribute}"), why });
            client.batch_execute("ROLLBACK").await?;
        }
    }
    Ok(left)
}
