//! Roles whose code would run with rights that they have not: those that own what the proxy uses and have not the rights of the
//! proxy's role. What triggers and expressions of theirs did, they would do as it.

use tokio_postgres::{Client, Error, GenericClient};

/// The owner of a table, by its number, or of a part or child of it, who is one.
const OF_TABLE: &str = include_str!("sql/stranger.sql");

/// Owners of the schema `arras` and of what is in it.
const OWNERS: &str = "SELECT pg_catalog.pg_get_userbyid(o.owner)::pg_catalog.text FROM (\
    SELECT n.oid, n.nspowner FROM pg_catalog.pg_namespace n \
    UNION ALL SELECT c.relnamespace, c.relowner FROM pg_catalog.pg_class c \
    UNION ALL SELECT p.pronamespace, p.proowner FROM pg_catalog.pg_proc p \
    UNION ALL SELECT t.typnamespace, t.typowner FROM pg_catalog.pg_type t \
    UNION ALL SELECT p.oprnamespace, p.oprowner FROM pg_catalog.pg_operator p) AS o (place, owner) \
    WHERE o.place OPERATOR(pg_catalog.=) \
    (SELECT n.oid FROM pg_catalog.pg_namespace n WHERE n.nspname OPERATOR(pg_catalog.=) 'arras'::pg_catalog.name)";

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
    first_owner(client, "pg_catalog.pg_has_role(o.owner, current_user, 'USAGE')").await
}

/// Who has something of the schema `arras` and whose rights the proxy's role has not, so that it can bring nothing up to date.
///
/// # Errors
/// PostgreSQL's.
pub(super) async fn out_of_reach(client: &impl GenericClient) -> Result<Option<String>, Error> {
    first_owner(client, "pg_catalog.pg_has_role(current_user, o.owner, 'USAGE')").await
}

/// The first of the owners of whom a condition does not hold.
async fn first_owner(client: &impl GenericClient, condition: &str) -> Result<Option<String>, Error> {
    let statement = format!("{OWNERS} AND NOT {condition} ORDER BY 1 LIMIT 1");
    client.query_opt(&statement, &[]).await?.map(|row| row.try_get(0)).transpose()
}

/// Who has something of a table, of a name in SQL, and is one. In a transaction, to whose end the table is locked as for a reader.
///
/// # Errors
/// PostgreSQL's.
pub(crate) async fn of_table(client: &Client, relation: &str) -> Result<Option<String>, Error> {
    let asked = "SELECT r.oid, r.relkind OPERATOR(pg_catalog.=) 'f' FROM pg_catalog.pg_class r \
                 WHERE r.oid OPERATOR(pg_catalog.=) $1::pg_catalog.text::pg_catalog.regclass";
    let row = client.query_one(asked, &[&relation]).await?;
    let lock = match row.try_get(1)? {
        // LOCK has none; a statement that is analysed, and neither planned nor run, locks what it names.
        true => format!("PREPARE arras_locked AS SELECT FROM {relation}; DEALLOCATE arras_locked"),
        false => format!("LOCK TABLE {relation} IN ACCESS SHARE MODE"),
    };
    client.batch_execute(&lock).await?;
    let number: u32 = client.query_one(asked, &[&relation]).await?.try_get(0)?;
    client.query_opt(OF_TABLE, &[&number]).await?.map(|row| row.try_get(0)).transpose()
}
