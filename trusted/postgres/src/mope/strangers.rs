//! Roles whose code would run with rights that they have not: those that own what the proxy uses and have not the rights of the
//! proxy's role. What triggers and expressions of theirs did, they would do as it.

use tokio_postgres::{Client, Error, GenericClient};

/// The owner of a table, by its number, or of a part or child of it, who is one.
const OF_TABLE: &str = include_str!("sql/stranger.sql");

/// An owner of the schema `arras`, or of something in it, who is one.
const OF_SCHEMA: &str = "SELECT pg_catalog.pg_get_userbyid(o.owner)::pg_catalog.text FROM (\
    SELECT n.oid, n.nspowner FROM pg_catalog.pg_namespace n \
    UNION ALL SELECT c.relnamespace, c.relowner FROM pg_catalog.pg_class c \
    UNION ALL SELECT p.pronamespace, p.proowner FROM pg_catalog.pg_proc p \
    UNION ALL SELECT t.typnamespace, t.typowner FROM pg_catalog.pg_type t \
    UNION ALL SELECT p.oprnamespace, p.oprowner FROM pg_catalog.pg_operator p) AS o (place, owner) \
    WHERE o.place OPERATOR(pg_catalog.=) \
    (SELECT n.oid FROM pg_catalog.pg_namespace n WHERE n.nspname OPERATOR(pg_catalog.=) 'arras'::pg_catalog.name) \
    AND NOT pg_catalog.pg_has_role(o.owner, current_user, 'USAGE') ORDER BY 1 LIMIT 1";

/// Why the schema `arras` is not used.
pub(super) fn refusal(owner: &str) -> String {
    format!(
        "the database has a schema arras that belongs, or in which something belongs, to {owner}, who has not the rights of the \
         proxy's role: let the proxy log in as {owner}, or give the schema and what is in it to the proxy's role"
    )
}

/// Who has something of the schema `arras` and is one; none if there is no such schema.
///
/// # Errors
/// PostgreSQL's.
pub(super) async fn of_schema(client: &impl GenericClient) -> Result<Option<String>, Error> {
    client.query_opt(OF_SCHEMA, &[]).await?.map(|row| row.try_get(0)).transpose()
}

/// Who has something of a table, of a name in SQL, and is one. In a transaction, to whose end the table is locked as for a reader.
///
/// # Errors
/// PostgreSQL's.
pub(crate) async fn of_table(client: &Client, relation: &str) -> Result<Option<String>, Error> {
    client.batch_execute(&format!("LOCK TABLE {relation} IN ACCESS SHARE MODE")).await?;
    let number = "SELECT $1::pg_catalog.text::pg_catalog.regclass::pg_catalog.oid";
    let number: u32 = client.query_one(number, &[&relation]).await?.try_get(0)?;
    client.query_opt(OF_TABLE, &[&number]).await?.map(|row| row.try_get(0)).transpose()
}
