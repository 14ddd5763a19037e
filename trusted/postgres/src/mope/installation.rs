//! Tables and functions: made where they are not, brought up to date where they are older.

use super::Column;
use super::installed::differing;
use super::strangers;
use tokio_postgres::types::ToSql;
use tokio_postgres::{Client, Error};

/// What makes version n of what version n - 1 left. Steps are never changed, only added.
pub(super) const STEPS: [&str; 13] = [
    include_str!("sql/tables.sql"),
    include_str!("sql/keys.sql"),
    include_str!("sql/sorted_terms.sql"),
    include_str!("sql/compared_terms.sql"),
    include_str!("sql/sided_terms.sql"),
    include_str!("sql/rows_of_keys.sql"),
    include_str!("sql/groups.sql"),
    include_str!("sql/marks.sql"),
    include_str!("sql/column_checks.sql"),
    include_str!("sql/owners.sql"),
    include_str!("sql/stored_labels.sql"),
    include_str!("sql/doubts.sql"),
    include_str!("sql/held_columns.sql"),
];
/// The functions, made anew after any step.
pub(super) const FUNCTIONS: &str = concat!(
    include_str!("sql/comparisons.sql"),
    "CREATE OR REPLACE FUNCTION arras.stranger(relation oid) RETURNS name LANGUAGE sql STABLE STRICT AS $$\n",
    include_str!("sql/stranger.sql"),
    "$$;\n",
    include_str!("sql/trusted_tables.sql"),
    include_str!("sql/checks.sql"),
    include_str!("sql/places.sql"),
    include_str!("sql/functions.sql")
);
/// Two proxies that start at the same time install one after the other: first in each transaction that does.
pub const INSTALL_LOCK: &str = "SELECT pg_catalog.pg_advisory_xact_lock(7034525412735283921)";

/// Why tables and functions are not there.
#[derive(Debug, thiserror::Error)]
pub enum InstallError {
    /// A newer proxy made them.
    #[error(
        "the database's schema arras is of version {found}, made by a newer proxy; this one knows {known}"
    )]
    Newer {
        /// The version that is there.
        found: usize,
        /// The last version that this proxy knows.
        known: usize,
    },
    /// Somebody else's.
    #[error("the database has a schema arras that is no proxy's: rename it, or choose another database")]
    Foreign,
    /// It, or something in it, is a role's that has not the rights of the proxy's.
    #[error("{}", strangers::refusal(.0))]
    Owner(String),
    /// It, or something in it, is a role's whose rights the proxy's has not.
    #[error(
        "the schema arras, or something in it, belongs to {0}, whose rights the proxy's role has not: let the proxy log in as {0}, \
         or give it to the proxy's role, as docs/mope.md says (\"Whose code runs as the proxy's role\")"
    )]
    Rights(String),
    /// PostgreSQL refused, or cannot be reached.
    #[error("tables and functions cannot be made: {}", describe(.0))]
    Database(#[from] Error),
}

fn describe(error: &Error) -> String {
    error.as_db_error().map_or_else(|| error.to_string(), |answer| answer.message().to_owned())
}

/// How a column's order is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Protocol {
    /// mOPE: every value that was ever stored keeps its place.
    Mope,
    /// stOPE: a value goes with its last occurrence.
    Stope,
    /// The frequency-hiding form: each occurrence is a key of its own, which goes with its row.
    FrequencyHiding,
}

impl Protocol {
    /// Do keys go with the last row that has them?
    pub(super) fn same_time(self) -> bool {
        match self {
            Self::Mope => false,
            Self::Stope | Self::FrequencyHiding => true,
        }
    }

    /// Is each key one row's?
    pub(super) fn one_row(self) -> bool {
        match self {
            Self::Mope | Self::Stope => false,
            Self::FrequencyHiding => true,
        }
    }
}

/// Makes the schema `arras`, or brings it up to date, in one transaction. Returns the version that was there, 0 if none.
///
/// # Errors
/// [`InstallError`]; nothing was changed.
pub async fn install(client: &mut Client) -> Result<usize, InstallError> {
    let transaction = client.transaction().await?;
    transaction.batch_execute(INSTALL_LOCK).await?;
    if let Some(owner) = strangers::of_schema(&transaction).await? {
        return Err(InstallError::Owner(owner));
    }
    if let Some(owner) = strangers::out_of_reach(&transaction).await? {
        return Err(InstallError::Rights(owner));
    }
    let found = match there(&transaction).await? {
        Some(found) => found,
        None => {
            transaction.batch_execute("CREATE SCHEMA arras").await?;
            0
        }
    };
    if found > STEPS.len() {
        return Err(InstallError::Newer { found, known: STEPS.len() });
    }
    for step in STEPS.iter().skip(found) {
        transaction.batch_execute(step).await?;
    }
    // Also where one was lost or changed by hand.
    if found < STEPS.len() || !differing(&transaction).await?.is_empty() {
        transaction.batch_execute(FUNCTIONS).await?;
        let version = i32::try_from(STEPS.len()).unwrap_or(i32::MAX);
        transaction.execute("UPDATE arras.installation SET version = $1", &[&version]).await?;
    }
    transaction.commit().await?;
    Ok(found)
}

/// The version that is there, if any.
async fn there(transaction: &tokio_postgres::Transaction<'_>) -> Result<Option<usize>, InstallError> {
    let asked = "SELECT to_regnamespace('arras') IS NOT NULL, to_regclass('arras.installation') IS NOT NULL";
    let row = transaction.query_one(asked, &[]).await?;
    match (row.try_get(0)?, row.try_get(1)?) {
        (false, _) => Ok(None),
        (true, false) => Err(InstallError::Foreign),
        (true, true) => {
            let row = transaction.query_one("SELECT version FROM arras.installation", &[]).await?;
            Ok(Some(usize::try_from(row.try_get::<_, i32>(0)?).unwrap_or(0)))
        }
    }
}

/// Makes a column known. No effect if it is.
///
/// # Errors
/// PostgreSQL's; also if its order is kept by another protocol.
pub async fn register(client: &Client, column: Column, protocol: Protocol) -> Result<(), Error> {
    let statement = "SELECT arras.mope_register($1, $2, $3)";
    let kept: [&(dyn ToSql + Sync); 3] = [&column.number(), &protocol.same_time(), &protocol.one_row()];
    client.execute(statement, &kept).await.map(|_| ())
}

/// Says that a table's column, a `bigint`, stores the labels of `column`: they change together from then on. In the
/// transaction that makes the table's column, before anything is stored there. `relation` is a name as SQL has it.
///
/// # Errors
/// PostgreSQL's.
pub async fn store_in(client: &Client, column: Column, relation: &str, attribute: &str) -> Result<(), Error> {
    let statement = "SELECT arras.mope_store_in($1, $2::text::regclass, $3::text::name)";
    client.execute(statement, &[&column.number(), &relation, &attribute]).await.map(|_| ())
}

/// Says that a table's column stores them no longer.
///
/// # Errors
/// PostgreSQL's.
pub async fn forget(client: &Client, column: Column, relation: &str, attribute: &str) -> Result<(), Error> {
    let statement = "SELECT arras.mope_forget($1, $2::text::regclass, $3::text::name)";
    client.execute(statement, &[&column.number(), &relation, &attribute]).await.map(|_| ())
}
