//! Words of columns' texts: how far the host of boolean search had come, and what is done behind.

use super::Postgres;
use crate::cli::Failure;
use crate::configuration::Search;
use arras_engine::text::RevisionsOfStart;
use arras_postgres::Schema;
use arras_postgres::words::{ColumnWords, Pauses, Registered, Swept, TextPlace, WordTables};
use arras_service::columns::Columns as Keys;
use arras_text::columns::Columns;
use rand::Rng;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

/// Name of the record in the folder of heads.
const RECORD: &str = "words.json";
/// Between two looks what there is to be noted, and whether a column is to be swept.
const EVERY: Duration = Duration::from_secs(1);
/// Between two attempts at what failed.
const AGAIN: Duration = Duration::from_secs(5);

/// What is kept of the host of boolean search apart from it: it must not fall behind. Columns whose texts are all entered.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Record {
    /// The revision that it has acknowledged last, 32 hexadecimal digits.
    acknowledged: String,
    /// Numbers of revisions that changes of earlier starts were to bring are below.
    issued: u64,
    /// Numbers of columns, 16 hexadecimal digits each.
    whole: BTreeSet<String>,
}

impl Record {
    fn load(path: &Path) -> io::Result<Option<Self>> {
        match std::fs::read(path) {
            Ok(bytes) => serde_json::from_slice(&bytes).map(Some).map_err(io::Error::other),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// In place of the one that is there, whole or not at all.
    fn save(&self, path: &Path) -> io::Result<()> {
        let folder = path.parent().unwrap_or(Path::new("."));
        let mut file = tempfile::NamedTempFile::new_in(folder)?;
        serde_json::to_writer(&mut file, self).map_err(io::Error::other)?;
        file.flush()?;
        file.as_file().sync_all()?;
        file.persist(path).map_err(|error| error.error)?;
        std::fs::File::open(folder)?.sync_all()
    }

    fn acknowledged(&self) -> u128 {
        u128::from_str_radix(&self.acknowledged, 16).unwrap_or(0)
    }
}

/// The columns whose texts are found by their words.
pub(super) struct Words {
    columns: Arc<Columns>,
    by_id: BTreeMap<[u8; 8], Arc<ColumnWords>>,
    path: PathBuf,
    record: Record,
}

impl Words {
    /// Those that a schema declares; none if it declares none.
    ///
    /// # Errors
    /// No host is named; the record cannot be read or written.
    pub(super) fn open(
        schema: &Schema,
        search: Option<&Search>,
        (tables, folder): (Arc<WordTables>, &Path),
    ) -> Result<Option<Self>, Failure> {
        let Some(first) = schema.columns().find(|column| column.text.is_some()) else {
            return Ok(None);
        };
        let Some(search) = search else {
            let label = &first.label;
            return Err(Postgres::wrong(format!(
                "the words of column {label} are kept by a host of boolean search: name one under [search] in the configuration"
            )));
        };
        let path = folder.join(RECORD);
        let failed = |source| Failure::Io { path: path.clone(), source };
        let mut record = Record::load(&path).map_err(failed)?.unwrap_or_default();
        let columns = Arc::new(Columns::new(crate::text::host(search)?));
        let acknowledged = record.acknowledged();
        let start = RevisionsOfStart::behind(acknowledged, record.issued, rand::rng().next_u64());
        record.issued = start.issued;
        record.save(&path).map_err(failed)?;
        columns.expect(acknowledged, start.first);
        let mut by_id = BTreeMap::new();
        for ((in_schema, table), declared) in &schema.tables {
            for (column, encryption) in declared {
                let Some(configuration) = encryption.text else { continue };
                let store = columns
                    .column(encryption.id, configuration)
                    .map_err(|error| Postgres::wrong(format!("{}: {error}", encryption.label)))?;
                let place =
                    TextPlace { schema: in_schema.clone(), table: table.clone(), column: column.clone() };
                let is_whole = record.whole.contains(&digits(encryption.id));
                let of = (Arc::clone(encryption), place);
                let words = ColumnWords::new(of, Arc::clone(&tables), Arc::new(store), is_whole);
                by_id.insert(encryption.id, Arc::new(words));
            }
        }
        Ok(Some(Self { columns, by_id, path, record }))
    }

    /// By column.
    pub(super) fn by_id(&self) -> BTreeMap<[u8; 8], Arc<ColumnWords>> {
        self.by_id.clone()
    }

    /// Makes the columns known to the database; one that its store reads otherwise than it did is entered anew.
    ///
    /// # Errors
    /// The database cannot be asked.
    pub(super) async fn register(&mut self) -> Result<Vec<(Arc<ColumnWords>, Registered)>, Failure> {
        let mut unready = Vec::new();
        for words in self.by_id.values() {
            let registered = words.register().await.map_err(|error| Failure::Check(error.to_string()))?;
            // The record may be of another database, or its schema was dropped: nothing is known of names then.
            if registered != Registered::Same {
                words.doubt();
                self.record.whole.remove(&digits(words.encryption().id));
            }
            if !words.is_whole() {
                unready.push((Arc::clone(words), registered));
            }
        }
        Ok(unready)
    }

    /// Enters what is missing, notes how far the host has come and sweeps, for as long as the process runs.
    pub(super) async fn keep(mut self, unready: Vec<(Arc<ColumnWords>, Registered)>, keys: Arc<dyn Keys>) {
        for (words, registered) in unready {
            tokio::spawn(mend(words, registered, Arc::clone(&keys)));
        }
        for words in self.by_id.values() {
            tokio::spawn(sweep(Arc::clone(words)));
        }
        loop {
            tokio::time::sleep(EVERY).await;
            if let Err(error) = self.note() {
                tracing::warn!(%error, path = %self.path.display(), "how far the host of boolean search has come could not be noted");
            }
        }
    }

    fn note(&mut self) -> io::Result<()> {
        let acknowledged = format!("{:032x}", self.columns.acknowledged());
        let is_whole = |(_, words): &(&[u8; 8], &Arc<ColumnWords>)| words.is_whole();
        let whole: BTreeSet<String> = self.by_id.iter().filter(is_whole).map(|(id, _)| digits(*id)).collect();
        let record = Record { acknowledged, whole, issued: self.record.issued };
        if record != self.record {
            record.save(&self.path)?;
            self.record = record;
        }
        Ok(())
    }
}

fn digits(id: [u8; 8]) -> String {
    format!("{:016x}", u64::from_be_bytes(id))
}

/// Enters texts of a table that are not, until that is done.
async fn mend(words: Arc<ColumnWords>, registered: Registered, keys: Arc<dyn Keys>) {
    let column = words.encryption().label.clone();
    loop {
        match words.mend(&*keys, registered).await {
            Ok(mended) => {
                if mended.texts > 0 {
                    tracing::info!(
                        column,
                        texts = mended.texts,
                        entered = mended.entered,
                        "the words of the column's texts are entered"
                    );
                }
                if mended.odd > 0 {
                    tracing::warn!(
                        column,
                        values = mended.odd,
                        "values without a name, or that do not open, are not found by words"
                    );
                }
                return;
            }
            Err(error) => {
                tracing::warn!(column, %error, "the words of the column's texts could not be entered; tried again");
                tokio::time::sleep(AGAIN).await;
            }
        }
    }
}

/// Removes what no row has, now and then.
async fn sweep(words: Arc<ColumnWords>) {
    let column = words.encryption().label.clone();
    loop {
        tokio::time::sleep(EVERY).await;
        if !words.is_to_be_swept() {
            continue;
        }
        match words.sweep(Pauses::default()).await {
            Ok(Swept::Removed(removed, left)) => {
                tracing::debug!(column, removed, left, "words of texts that no row has were removed");
            }
            Ok(Swept::NoTable | Swept::Waiting) => tokio::time::sleep(60 * AGAIN).await,
            Err(error) => {
                tracing::warn!(column, %error, "words of texts that no row has could not be removed; tried again");
                tokio::time::sleep(60 * AGAIN).await;
            }
        }
    }
}
