//! What rewriting statements takes: the schema, its columns' keys, and what is kept in the database itself.

use super::Postgres;
use super::columns::{Encoder, KeyedColumns, Swept};
use super::words::Words;
use crate::cli::Failure;
use crate::configuration::Search;
use arras_keys::{Key, Keyring};
use arras_postgres::catalog::{Encryption, KeyCheck};
use arras_postgres::checks::{self, Looked};
use arras_postgres::mope::{self, Column, Connections, FileHeads, Freshness, FreshnessError, Heads, Reach};
use arras_postgres::words::{self as text_columns, WordTables};
use arras_postgres::{Rewriting, Schema, Upstream, shown};
use arras_records::column_check;
use arras_service::columns::Columns;
use arras_storage::private;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

/// For an answer of the database to the proxy's own statements.
pub(super) const DEADLINE: Duration = Duration::from_secs(30);
/// For transactions that hold labels that must change.
pub(super) const PATIENCE: Duration = Duration::from_secs(10);
/// Between two looks for keys that no row has.
const SWEEP: Duration = Duration::from_secs(5);
/// The same, while others are in the way.
const BUSY: Duration = Duration::from_millis(500);
/// Every so many looks are at all values, also those that a statement which was rolled back left behind.
const SWEEPS_OF_NOTED: u32 = 120;
/// So many columns of other keys are named: what is wrong with the rest is then wrong alike.
const MISFITS_TOLD: usize = 8;

/// What rewriting is opened from.
pub(super) struct Asked<'a> {
    /// The schema file.
    pub(super) schema: &'a Path,
    /// What the keys are derived from.
    pub(super) keyring: &'a Keyring,
    /// The database.
    pub(super) upstream: &'a Upstream,
    /// Where it is noted how far each tree had come: apart from the database, which may be set back.
    pub(super) folder: &'a Path,
    /// The host of boolean search, if one is named.
    pub(super) search: Option<&'a Search>,
    /// What messages and prepared statements may hold.
    pub(super) memory_bytes: usize,
}

/// Reads a schema of tables.
pub(super) fn read(file: &Path) -> Result<Schema, Failure> {
    let text =
        std::fs::read_to_string(file).map_err(|source| Failure::Io { path: file.to_path_buf(), source })?;
    Schema::parse(&text, &file.to_string_lossy()).map_err(|error| Postgres::wrong(error.to_string()))
}

/// Installs in the database what it lacks, and opens the keys of the schema's columns. Must run in a runtime: values that no
/// row has any more are swept out behind.
///
/// # Errors
/// The schema file is wrong; the database cannot be reached, or is not to be used.
pub(super) async fn open(asked: Asked<'_>) -> Result<Arc<Rewriting>, Failure> {
    let Asked { schema, keyring, upstream, folder, search, memory_bytes } = asked;
    let roots: Vec<(u32, &Key)> =
        keyring.versions().filter_map(|(version, _)| Some((version, keyring.root(version)?))).collect();
    let schema = checked(read(schema)?, &roots);
    let columns: Vec<Arc<Encryption>> = schema.columns().cloned().collect();
    let connections = Arc::new(Connections::new(upstream.keeping(DEADLINE, PATIENCE)));
    private::make_directory(folder).map_err(|source| Failure::Io { path: folder.into(), source })?;
    let freshness = Arc::new(install(&schema, &columns, &connections, folder).await?);
    let heads: Arc<dyn Heads> = Arc::new(FileHeads::new(folder.to_path_buf()));
    let keyed = KeyedColumns::new(&columns, &roots, &connections, &heads)
        .map_err(|error| Failure::Check(error.to_string()))?;
    check(&connections, &schema, &keyed).await?;
    let tables = Arc::new(WordTables::new(Arc::clone(&connections)));
    let mut words = Words::open(&schema, search, (tables, folder))?;
    let mut unready = Vec::new();
    let keyed = match &mut words {
        Some(words) => {
            unready = words.register().await?;
            keyed.with_words(words.by_id())
        }
        None => keyed,
    };
    tokio::spawn(Arc::clone(&freshness).keep(Arc::clone(&connections)));
    for encoder in keyed.ordered() {
        tokio::spawn(async move { encoder.enter_owed().await });
    }
    for encoder in keyed.swept() {
        tokio::spawn(sweep(encoder));
    }
    let keyed = Arc::new(keyed);
    if let Some(words) = words {
        tokio::spawn(words.keep(unready, Arc::clone(&keyed) as Arc<dyn Columns>));
    }
    let rewriting = Rewriting::new(Arc::new(schema), keyed, memory_bytes);
    let rewriting = Arc::new(rewriting.watched(freshness).checked(connections));
    tokio::spawn(Arc::clone(&rewriting).keep_labels());
    tokio::spawn(Arc::clone(&rewriting).watch_tables());
    Ok(rewriting)
}

/// The schema with what the database is to keep of each column under these roots, the oldest first.
pub(super) fn checked(schema: Schema, roots: &[(u32, &Key)]) -> Schema {
    let Some((_, root)) = roots.first() else { return schema };
    schema.checked(|column| KeyCheck::of(column, |bound| column_check(root, &column.id, bound)))
}

/// Compares the columns that are there with what the database keeps of them.
async fn check(connections: &Connections, schema: &Schema, keyed: &KeyedColumns) -> Result<(), Failure> {
    let looked = checks::enter(connections, schema, keyed, checks::PATIENCE).await;
    let looked =
        looked.map_err(|error| Failure::Check(format!("the columns' keys cannot be looked at: {error}")))?;
    if !looked.unread.is_empty() {
        let columns = looked.unread.join(", ");
        tracing::warn!(%columns, "under which keys columns were made is not known: their values cannot be read");
    }
    not_of_other_keys(&looked)
}

/// # Errors
/// Columns are of other keys.
pub(super) fn not_of_other_keys(looked: &Looked) -> Result<(), Failure> {
    let told: Vec<String> =
        looked.misfits.iter().take(MISFITS_TOLD).map(|(_, error)| error.message.clone()).collect();
    let Some((_, first)) = looked.misfits.first() else { return Ok(()) };
    let hint = first.hint.as_deref().unwrap_or_default();
    let more = match looked.misfits.len() - told.len() {
        0 => String::new(),
        more => format!("; and {more} more"),
    };
    Err(Failure::Check(format!("{}{more}. {hint}", told.join("; "))))
}

/// Makes the tables and functions that orders need, and the views that show the catalogue as applications see it; the proxy's
/// mark in a database that was not set back.
async fn install(
    schema: &Schema,
    columns: &[Arc<Encryption>],
    connections: &Connections,
    folder: &Path,
) -> Result<Freshness, Failure> {
    let unusable = |what: String| Failure::Check(format!("the database behind the proxy: {what}"));
    let mut client = connections.open().await.map_err(|error| unusable(error.to_string()))?;
    let before = mope::install(&mut client).await.map_err(|error| unusable(error.to_string()))?;
    if before == 0 {
        tracing::info!(
            "made the schema arras in the database: orders of columns, and the catalogue as it is shown"
        );
    }
    let freshness = Freshness::open(&client, folder).await.map_err(|error| match error {
        FreshnessError::SetBack(_) => Failure::Check(format!(
            "{error}; restore what is newer, or, to go on with what is there, remove the folder {}",
            folder.display()
        )),
        error => unusable(error.to_string()),
    })?;
    let texts = columns.iter().any(|column| column.text.is_some()).then(|| text_columns::INSTALL.to_owned());
    for made in [shown::INSTALL.to_owned(), shown::declare(schema)].into_iter().chain(texts) {
        let made = format!("{}; {made}", mope::INSTALL_LOCK);
        client.batch_execute(&made).await.map_err(|error| {
            let said =
                error.as_db_error().map_or_else(|| error.to_string(), |said| said.message().to_owned());
            unusable(format!("the catalogue's views, and names of texts: {said}"))
        })?;
    }
    for column in columns {
        let Some(protocol) = column.labels() else { continue };
        let registered = mope::register(&client, Column::from(column.id), protocol).await;
        registered.map_err(|error| {
            let said =
                error.as_db_error().map_or_else(|| error.to_string(), |said| said.message().to_owned());
            unusable(format!("the order of column {}: {said}", column.label))
        })?;
    }
    Ok(freshness)
}

/// Takes values out that no row has any more, for as long as the process runs.
async fn sweep(encoder: Arc<Encoder>) {
    let mut sweeps = 0_u32;
    loop {
        let reach = if sweeps.is_multiple_of(SWEEPS_OF_NOTED) { Reach::All } else { Reach::Noted };
        sweeps = sweeps.wrapping_add(1);
        match encoder.sweep(reach).await {
            Ok(Swept { is_busy: true, .. }) => {
                tokio::time::sleep(BUSY).await;
                continue;
            }
            // There are more: where each row is a key, as many as rows went.
            Ok(Swept { gone, is_all: false, .. }) if gone > 0 => {
                tokio::task::yield_now().await;
                continue;
            }
            Ok(_) => {}
            Err(error) => {
                tracing::warn!(%error, "values that no row has any more could not be taken out of their column's order; tried again");
            }
        }
        tokio::time::sleep(SWEEP).await;
    }
}
