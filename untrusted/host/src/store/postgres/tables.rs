//! The tables, and what is asked of them.

use tokio_postgres::{Client, Error, Statement};

/// What the statements go by, and what the server's own settings must not change: an acknowledged change is durable, a
/// statement on labels goes by their index, names are those of PostgreSQL, and who holds the schema and is gone is noticed in half a
/// minute.
pub(super) const SETTINGS: &str = "\
    SET search_path = pg_catalog; \
    SET client_min_messages = warning; \
    SET statement_timeout = 0; \
    SET jit = off; \
    SET plan_cache_mode = force_generic_plan; \
    SET enable_seqscan = off; \
    SET tcp_keepalives_idle = 15; \
    SET tcp_keepalives_interval = 5; \
    SET tcp_keepalives_count = 3; \
    SET tcp_user_timeout = 30000; \
    SELECT set_config('synchronous_commit', 'on', false) WHERE current_setting('synchronous_commit') = 'off'";

/// Makes schema and tables. Who may not make any can be given them: then nothing is asked for. Values of PLAIN and EXTERNAL are stored
/// as they are: nothing sealed can be compressed.
pub(super) async fn make(client: &Client, schema: &str) -> Result<(), Error> {
    let names = [format!("\"{schema}\".iee_entries"), format!("\"{schema}\".iee_state")];
    let there = "SELECT to_regclass($1) IS NOT NULL AND to_regclass($2) IS NOT NULL";
    if client.query_one(there, &[&names[0], &names[1]]).await?.try_get(0)? {
        return Ok(());
    }
    let [entries, state] = names;
    // Who may not make a schema may have been given one: IF NOT EXISTS would ask for the right first.
    let there = "SELECT to_regnamespace($1) IS NOT NULL";
    let is_there = client.query_one(there, &[&format!("\"{schema}\"")]).await?.try_get(0)?;
    let make = if is_there { String::new() } else { format!("CREATE SCHEMA \"{schema}\"; ") };
    let text = format!(
        "BEGIN; {make}\
         CREATE TABLE IF NOT EXISTS {entries} \
            (label uuid PRIMARY KEY, sealed bytea NOT NULL CHECK (octet_length(sealed) = 32)); \
         ALTER TABLE {entries} ALTER sealed SET STORAGE PLAIN; \
         CREATE TABLE IF NOT EXISTS {state} (name bytea PRIMARY KEY, sealed bytea NOT NULL); \
         ALTER TABLE {state} ALTER sealed SET STORAGE EXTERNAL; \
         COMMIT"
    );
    client.batch_execute(&text).await
}

/// What is asked, prepared on one connection.
pub(super) struct Statements {
    /// Entries of labels, each behind its label, in one value.
    pub(super) get: Statement,
    pub(super) put: Statement,
    pub(super) remove: Statement,
    pub(super) begin: Statement,
    pub(super) save: Statement,
    pub(super) load: Statement,
    /// By the first and last name of log records, and of checkpoints the first and the one behind the last.
    pub(super) forget: Statement,
}

impl Statements {
    pub(super) async fn prepare(client: &Client, schema: &str) -> Result<Self, Error> {
        let prepare =
            async |text: &str| client.prepare(&text.replace("SCHEMA", &format!("\"{schema}\""))).await;
        Ok(Self {
            get: prepare(
                "SELECT string_agg(uuid_send(label) || sealed, '') FROM SCHEMA.iee_entries WHERE label = ANY ($1)",
            )
            .await?,
            put: prepare(
                "INSERT INTO SCHEMA.iee_entries SELECT * FROM unnest($1::uuid[], $2::bytea[]) \
                 ON CONFLICT (label) DO UPDATE SET sealed = EXCLUDED.sealed",
            )
            .await?,
            remove: prepare("DELETE FROM SCHEMA.iee_entries WHERE label = ANY ($1)").await?,
            begin: prepare("INSERT INTO SCHEMA.iee_state VALUES ($1, $2) ON CONFLICT DO NOTHING").await?,
            save: prepare(
                "INSERT INTO SCHEMA.iee_state VALUES ($1, $2) \
                 ON CONFLICT (name) DO UPDATE SET sealed = EXCLUDED.sealed",
            )
            .await?,
            load: prepare("SELECT sealed FROM SCHEMA.iee_state WHERE name = $1").await?,
            forget: prepare(
                "DELETE FROM SCHEMA.iee_state WHERE name BETWEEN $1 AND $2 OR name >= $3 AND name < $4",
            )
            .await?,
        })
    }
}
