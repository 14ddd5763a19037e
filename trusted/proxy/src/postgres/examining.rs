//! What `arras doctor` looks at of encrypted columns in PostgreSQL, in one snapshot, beside a proxy that runs: what is
//! installed, whether tables fit the schema file, how trees stand to the proxy's own record of them; and, in depth, that table,
//! tree and rows agree with one another. Changes nothing, there or here.

use super::columns::{KeyedColumns, tree};
use super::{HEADS, Postgres, opening};
use crate::cli::Failure;
use arras_keys::{Key, Keyring};
use arras_postgres::catalog::{Catalog, Encryption};
use arras_postgres::checks;
use arras_postgres::examined::{self, Judge};
use arras_postgres::mope::{
    self, Column, Connections, Examination, FileHeads, Freshness, FreshnessError, Heads, Protocol, Snapshot,
};
use arras_postgres::{Schema, Upstream};
use arras_protocol::mope::{Fetch, Head, TreeStore};
use arras_protocol::{Blob, ChannelError};
use arras_schemes::mope::{Kind, Place, Stored, Tree};
use std::collections::HashMap;
use std::path::Path;
use std::sync::Arc;
use zeroize::Zeroizing;

/// Entries of an OPE table that are compared at a time.
const ENTRIES: u16 = 256;
/// Lines about one thing: what is wrong with the rest is then wrong alike.
const TOLD_MAX: usize = 20;

/// What is wrong with one thing, a line each, not too many.
#[derive(Default)]
pub(crate) struct Wrongs {
    lines: Vec<String>,
    more: u64,
}

impl Wrongs {
    fn tell(&mut self, line: String) {
        if self.lines.len() < TOLD_MAX {
            self.lines.push(line);
        } else {
            self.more += 1;
        }
    }

    /// The lines, the last one of how many are not there.
    pub(crate) fn lines(self) -> impl Iterator<Item = String> {
        let Self { lines, more } = self;
        lines.into_iter().chain((more > 0).then(|| format!("and {more} more")))
    }
}

/// The database, as it is in one moment.
pub(crate) struct Examining {
    schema: Arc<Schema>,
    /// What a proxy had seen of each order, from before the moment: one that runs goes on meanwhile.
    seen: HashMap<[u8; 8], Result<Option<Head>, String>>,
    keyed: KeyedColumns,
    snapshot: Snapshot,
    /// The proxy's mark, or what is wrong with it.
    mark: Result<Option<i64>, FreshnessError>,
    /// Where it is, without the password.
    pub(crate) upstream: Upstream,
}

/// The schema file of a listener, if it has one.
///
/// # Errors
/// What is wrong with it.
pub(crate) fn schema(postgres: &Postgres) -> Result<Option<(Arc<Schema>, &Path)>, Failure> {
    let Some(path) = postgres.schema.as_deref() else { return Ok(None) };
    Ok(Some((Arc::new(opening::read(path)?), path)))
}

/// The keyring's oldest root, which trees are under.
fn oldest(keyring: &Keyring) -> Option<&Key> {
    keyring.versions().find_map(|(version, _)| keyring.root(version))
}

fn failed(error: &ChannelError) -> Failure {
    Failure::Check(error.to_string())
}

impl Examining {
    /// Connects.
    ///
    /// # Errors
    /// The database cannot be reached.
    pub(crate) async fn begin(
        postgres: &Postgres,
        schema: Arc<Schema>,
        keyring: &Keyring,
    ) -> Result<Self, Failure> {
        let upstream = postgres.upstream()?;
        let connections = Arc::new(Connections::new(upstream.keeping(opening::DEADLINE, opening::PATIENCE)));
        let folder = postgres.heads.as_deref().unwrap_or(Path::new(HEADS));
        let heads: Arc<dyn Heads> = Arc::new(FileHeads::new(folder.to_path_buf()));
        let roots: Vec<(u32, &Key)> =
            keyring.versions().filter_map(|(version, _)| Some((version, keyring.root(version)?))).collect();
        let schema = Arc::new(opening::checked(Arc::unwrap_or_clone(schema), &roots));
        let columns: Vec<Arc<Encryption>> = schema.columns().cloned().collect();
        let keyed = KeyedColumns::new(&columns, &roots, &connections, &heads)
            .map_err(|error| Failure::Check(error.to_string()))?;
        let ordered = columns.iter().filter(|column| column.labels().is_some());
        let seen = |id: [u8; 8]| heads.load(Column::from(id)).map_err(|error| error.to_string());
        let seen = ordered.map(|column| (column.id, seen(column.id))).collect();
        let client = connections.open().await.map_err(|error| failed(&error))?;
        let mark = Freshness::examine(&client, folder).await;
        let snapshot = Snapshot::begin(client).await.map_err(|error| failed(&error))?;
        Ok(Self { schema, seen, keyed, snapshot, mark, upstream })
    }

    /// The tables, if they fit the schema file, and their columns were made under the keyring's keys.
    ///
    /// # Errors
    /// They do not, or were not.
    pub(crate) async fn tables(&self) -> Result<Catalog, Failure> {
        let tables = examined::tables(&self.snapshot, Arc::clone(&self.schema)).await;
        let tables = tables.map_err(|error| match error {
            ChannelError::Halted(said) => Failure::Check(said),
            other => failed(&other),
        })?;
        let looked = checks::examine(&self.snapshot, &self.schema, &self.keyed).await;
        opening::not_of_other_keys(&looked.map_err(|error| failed(&error))?)?;
        Ok(tables)
    }

    /// What is not there of what is installed; none if nothing was installed yet.
    ///
    /// # Errors
    /// The database cannot be asked.
    pub(crate) async fn lacking(&self) -> Result<Option<Vec<String>>, Failure> {
        mope::lacking(&self.snapshot).await.map_err(|error| failed(&error))
    }

    /// What tables that store labels lack of what changes them.
    ///
    /// # Errors
    /// The database cannot be asked.
    pub(crate) async fn lacking_in_places(&self, catalog: &Catalog) -> Result<Vec<String>, Failure> {
        let asked = mope::lacking_in_places(&self.snapshot, &examined::stored(catalog)).await;
        asked.map_err(|error| failed(&error))
    }

    /// The tables whose labels are not changed, for their owners' sake.
    ///
    /// # Errors
    /// The database cannot be asked.
    pub(crate) async fn not_trusted(&self, catalog: &Catalog) -> Result<Vec<String>, Failure> {
        let asked = mope::not_trusted(&self.snapshot, &examined::stored(catalog)).await;
        asked.map_err(|error| failed(&error))
    }

    /// How the database stands to the proxy's record of how far it had come; none if it was not set back and the proxy has no
    /// record, or none is installed.
    ///
    /// # Errors
    /// It was set back.
    pub(crate) fn mark(&self) -> Result<Option<i64>, Failure> {
        self.mark.as_ref().copied().map_err(|error| Failure::Check(error.to_string()))
    }

    /// The columns that have labels, and how their trees are kept.
    pub(crate) fn ordered(&self) -> Vec<(Arc<Encryption>, Protocol)> {
        self.schema.columns().filter_map(|column| Some((Arc::clone(column), column.labels()?))).collect()
    }

    /// Compares a column's tree with the proxy's record of it; says how it stands.
    ///
    /// # Errors
    /// It is not the one that was acknowledged, or cannot be read.
    pub(crate) async fn standing(&self, column: &Encryption) -> Result<String, Failure> {
        let id = Column::from(column.id);
        let examination = self.snapshot.column(id);
        let asked = examination.fetch(Fetch::default()).await;
        let Head { version, values, .. } = asked.as_ref().map_err(failed)?.head;
        let known = self.seen.get(&column.id).unwrap_or(&Ok(None)).as_ref().map_err(|error| {
            Failure::Check(format!(
                "the proxy's record cannot be read: {error}; restore it from a backup of the proxy"
            ))
        })?;
        match known {
            Some(known) if known.version > version => Err(Failure::Check(format!(
                "the database is at version {version} of this order, and the proxy has seen version {}: it was set back; \
                 restore what is newer",
                known.version
            ))),
            Some(known)
                if known.version == version && *known != asked.map_err(|error| failed(&error))?.head =>
            {
                Err(Failure::Check(format!(
                    "the tree at version {version} is not the one that the proxy has seen: restore the database"
                )))
            }
            Some(_) => Ok(format!("version {version}, {values} values")),
            None => Ok(format!("version {version}, {values} values, not seen by this proxy yet")),
        }
    }

    /// Compares a column's tree with its table of labels, entry by entry.
    ///
    /// # Errors
    /// The database cannot be asked.
    pub(crate) async fn order(
        &self,
        column: &Encryption,
        protocol: Protocol,
        keyring: &Keyring,
    ) -> Result<(u64, Wrongs), Failure> {
        let examination = self.snapshot.column(column.id.into());
        let mut wrongs = Wrongs::default();
        for contradiction in examination.contradictions().await.map_err(|error| failed(&error))? {
            wrongs.tell(contradiction);
        }
        let walked = self.tree_of(column, protocol, keyring)?;
        let mut compared = Compared { walked, values: 0 };
        // The greatest value so far.
        let mut greatest = None;
        let mut above = 0;
        loop {
            let entries = examination.entries(above, ENTRIES).await.map_err(|error| failed(&error))?;
            let Some((_, label)) = entries.last() else { break };
            above = *label;
            if !compared.compare(&entries, &mut greatest, &mut wrongs).await {
                break;
            }
        }
        Ok((compared.values, wrongs))
    }

    fn tree_of(
        &self,
        column: &Encryption,
        protocol: Protocol,
        keyring: &Keyring,
    ) -> Result<Tree<Examination>, Failure> {
        let root = oldest(keyring).ok_or_else(|| Failure::Check("the keyring has no root".into()))?;
        tree(column, protocol, root, self.snapshot.column(column.id.into()))
            .map_err(|error| Failure::Check(error.to_string()))
    }

    /// Looks at the rows of every table that has encrypted columns: name, rows, and what is wrong with them.
    ///
    /// # Errors
    /// The database cannot be asked.
    pub(crate) async fn rows(
        &self,
        catalog: &Catalog,
        keyring: &Keyring,
    ) -> Result<Vec<(String, u64, Wrongs)>, Failure> {
        let mut trees = HashMap::new();
        for (column, protocol) in self.ordered() {
            trees.insert(column.id, self.tree_of(&column, protocol, keyring)?);
        }
        let opens_to =
            |id: [u8; 8], ciphertext: &[u8]| trees.get(&id)?.value(&Blob::from(ciphertext.to_vec())).ok();
        let judge = Judge { columns: &self.keyed, opens_to: &opens_to };
        let mut found = Vec::new();
        for table in catalog.tables().filter(|table| table.is_encrypted()) {
            let mut wrongs = Wrongs::default();
            let looked = examined::rows(&self.snapshot, table, &judge, &mut |line| wrongs.tell(line)).await;
            let count = looked.map_err(|error| failed(&error))?;
            found.push((format!("{}.{}", table.schema, table.name), count, wrongs));
        }
        Ok(found)
    }
}

/// A label as the database's tables have it.
fn shown(label: u64) -> i64 {
    (label ^ (1 << 63)).cast_signed()
}

const MEND: &str = "restore the database from a backup, or copy the column's values to a new one";

/// A walk along a table of labels, beside the tree.
struct Compared {
    walked: Tree<Examination>,
    values: u64,
}

impl Compared {
    /// Compares entries, in the order of their labels, with the greatest value before, with one another and with the tree's keys; false if the tree cannot be
    /// read.
    async fn compare(
        &mut self,
        entries: &[(Blob, u64)],
        greatest: &mut Option<Zeroizing<Vec<u8>>>,
        wrongs: &mut Wrongs,
    ) -> bool {
        let mut opened = Vec::with_capacity(entries.len());
        for (ciphertext, label) in entries {
            self.values += 1;
            let shown = shown(*label);
            let Ok(value) = self.walked.value(ciphertext) else {
                wrongs.tell(format!(
                    "the table's entry of label {shown} is no value of this column under this key; {MEND}"
                ));
                continue;
            };
            let value = Zeroizing::new(value);
            // Occurrences of one value are beside each other, where each has a key.
            let is_last = |greatest: &Zeroizing<Vec<u8>>| match self.walked.kind() {
                Kind::Mope | Kind::Stope => **greatest >= *value,
                Kind::FrequencyHiding => **greatest > *value,
            };
            if greatest.as_ref().is_some_and(is_last) {
                wrongs.tell(format!("the label {shown} is above that of a value which is not less; {MEND}"));
            }
            *greatest = Some(value.clone());
            opened.push((value, ciphertext, *label));
        }
        if self.walked.kind() == Kind::FrequencyHiding {
            return self.compare_keys(entries, wrongs).await;
        }
        let values: Vec<&[u8]> = opened.iter().map(|(value, ..)| value.as_slice()).collect();
        let places = match self.walked.places(&values).await {
            Ok(places) => places,
            Err(error) => {
                wrongs.tell(format!("the tree cannot be walked: {error}; {MEND}"));
                return false;
            }
        };
        for ((_, ciphertext, label), place) in opened.iter().zip(places) {
            let here = shown(*label);
            match place {
                Place::At(stored) if stored.ciphertext == **ciphertext && stored.label == *label => {}
                Place::At(stored) if stored.ciphertext == **ciphertext => {
                    let other = shown(stored.label);
                    wrongs.tell(format!("the table has the label {here} for a value whose label is {other} in the tree; {MEND}"));
                }
                Place::At(_) | Place::Among { .. } | Place::Between { .. } => {
                    wrongs.tell(format!(
                        "the table has an entry, of label {here}, that the tree has not; {MEND}"
                    ));
                }
            }
        }
        true
    }

    /// The same of keys of occurrences, which no value tells from one another: by their labels.
    async fn compare_keys(&self, entries: &[(Blob, u64)], wrongs: &mut Wrongs) -> bool {
        let stored: Vec<Stored> = entries
            .iter()
            .map(|(ciphertext, label)| Stored { ciphertext: ciphertext.clone(), label: *label })
            .collect();
        match self.walked.holds(&stored).await {
            Ok(held) => {
                for (Stored { label, .. }, _) in stored.iter().zip(held).filter(|(_, held)| !held) {
                    let here = shown(*label);
                    wrongs.tell(format!(
                        "the table has an entry, of label {here}, that the tree has not; {MEND}"
                    ));
                }
                true
            }
            Err(error) => {
                wrongs.tell(format!("the tree cannot be walked: {error}; {MEND}"));
                false
            }
        }
    }
}
