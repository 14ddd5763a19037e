//! The engines, each as the least code that makes it an [`Engine`].

use std::path::Path;
use std::time::Instant;

use arras_storage::{Durability, Embedded, Engine, Read, Staged, Storage, StorageError, Turn};

use crate::{Outcome, workload};

const CACHE_BYTES: usize = 256 << 20;

/// Any [`Engine`] as a [`Storage`].
struct Store<E> {
    engine: E,
    turn: Turn,
}

impl<E: Engine + 'static> Storage for Store<E> {
    type Reader<'a> = E::Snapshot<'a>;
    type Writer<'a> = Staged<'a, E>;

    fn read(&self) -> Result<Self::Reader<'_>, StorageError> {
        self.engine.snapshot()
    }

    fn write(&self) -> Result<Self::Writer<'_>, StorageError> {
        Staged::begin(&self.engine, &self.turn)
    }

    fn engine(&self) -> String {
        "compared".to_owned()
    }
}

fn store<E>(engine: E) -> Store<E> {
    Store { engine, turn: Turn::default() }
}

fn failed(error: impl std::fmt::Display) -> StorageError {
    StorageError::Environment(error.to_string())
}

/// Runs `phase` on `engine`.
pub fn run(engine: &str, phase: &str, directory: &Path) -> Outcome {
    match engine {
        "embedded" => {
            phases(phase, directory, || Embedded::open(directory), |mut store| store.compact().map(|_| ()))
        }
        "redb" => phases(phase, directory, || redb_engine::open(directory, false), redb_engine::compact),
        "redb-quick-repair" => {
            phases(phase, directory, || redb_engine::open(directory, true), redb_engine::compact)
        }
        "fjall" => phases(phase, directory, || fjall_engine::open(directory, false), fjall_engine::compact),
        "fjall-blobs" => {
            phases(phase, directory, || fjall_engine::open(directory, true), fjall_engine::compact)
        }
        "canopydb" => phases(phase, directory, || canopydb_engine::open(directory), canopydb_engine::compact),
        _ => Err(format!("no engine {engine}").into()),
    }
}

fn phases<S: Storage>(
    phase: &str,
    directory: &Path,
    open: impl Fn() -> Result<S, StorageError>,
    compact: impl Fn(S) -> Result<(), StorageError>,
) -> Outcome {
    let start = Instant::now();
    let store = open()?;
    let took = start.elapsed();
    match phase {
        "work" => workload::work(&store, directory)?,
        "rewrite-forever" => workload::rewrite_forever(&store)?,
        "reopen" => workload::reopened(&store, took)?,
        "compact" => {
            println!("open_clean_ms {}", took.as_millis());
            let start = Instant::now();
            compact(store)?;
            println!("compact_ms {}", start.elapsed().as_millis());
            println!("bytes_compacted {}", workload::bytes_in(directory));
            return Ok(());
        }
        _ => return Err(format!("no phase {phase}").into()),
    }
    let start = Instant::now();
    drop(store);
    println!("{phase}_close_ms {}", start.elapsed().as_millis());
    Ok(())
}

mod redb_engine {
    use super::{CACHE_BYTES, Durability, Engine, Path, Read, StorageError, Store, failed, store};
    use arras_storage::{Bytes, Changes, Direction, KeyRange, Table, Visit};
    use redb::ReadableDatabase as _;

    pub(super) struct Redb {
        database: redb::Database,
        quick_repair: bool,
    }

    pub(super) fn open(directory: &Path, quick_repair: bool) -> Result<Store<Redb>, StorageError> {
        let mut builder = redb::Builder::new();
        let database = builder.set_cache_size(CACHE_BYTES).create(directory.join("data")).map_err(failed)?;
        Ok(store(Redb { database, quick_repair }))
    }

    pub(super) fn compact(mut store: Store<Redb>) -> Result<(), StorageError> {
        store.engine.database.compact().map(|_| ()).map_err(failed)
    }

    pub(super) struct View(redb::ReadTransaction);

    fn definition(table: Table) -> redb::TableDefinition<'static, &'static [u8], &'static [u8]> {
        redb::TableDefinition::new(table.0)
    }

    impl Read for View {
        fn get(&self, table: Table, key: &[u8]) -> Result<Option<Bytes>, StorageError> {
            let table = self.0.open_table(definition(table)).map_err(failed)?;
            Ok(table.get(key).map_err(failed)?.map(|value| Bytes::copy_from_slice(value.value())))
        }

        fn scan(
            &self,
            table: Table,
            range: KeyRange<'_>,
            direction: Direction,
            visit: &mut Visit<'_>,
        ) -> Result<(), StorageError> {
            let table = self.0.open_table(definition(table)).map_err(failed)?;
            let mut entries = table.range::<&[u8]>(range).map_err(failed)?;
            let mut next = || match direction {
                Direction::Ascending => entries.next(),
                Direction::Descending => entries.next_back(),
            };
            while let Some(entry) = next() {
                let (key, value) = entry.map_err(failed)?;
                if visit(key.value(), value.value()).is_break() {
                    break;
                }
            }
            Ok(())
        }
    }

    impl Engine for Redb {
        type Snapshot<'a> = View;

        fn snapshot(&self) -> Result<View, StorageError> {
            self.database.begin_read().map(View).map_err(failed)
        }

        fn apply(&self, changes: Changes, durability: Durability) -> Result<(), StorageError> {
            let mut transaction = self.database.begin_write().map_err(failed)?;
            match durability {
                Durability::Durable => transaction.set_quick_repair(self.quick_repair),
                Durability::Relaxed => transaction.set_durability(redb::Durability::None).map_err(failed)?,
            }
            for (table, changes) in changes {
                let mut table = transaction.open_table(definition(table)).map_err(failed)?;
                for (key, value) in changes {
                    match value {
                        Some(value) => table.insert(key.as_slice(), value.as_ref()).map_err(failed)?,
                        None => table.remove(key.as_slice()).map_err(failed)?,
                    };
                }
            }
            transaction.commit().map_err(failed)
        }
    }
}

mod fjall_engine {
    use super::{CACHE_BYTES, Durability, Engine, Path, Read, StorageError, Store, failed, store};
    use arras_storage::{Bytes, Changes, Direction, KeyRange, Table, Visit};
    use fjall::{KeyspaceCreateOptions, KvSeparationOptions, PersistMode, Readable as _};

    /// One keyspace: a relaxed commit over several could be torn by a power loss between their flushes.
    pub(super) struct Fjall {
        database: fjall::Database,
        entries: fjall::Keyspace,
    }

    pub(super) fn open(directory: &Path, blobs: bool) -> Result<Store<Fjall>, StorageError> {
        let builder = fjall::Database::builder(directory).cache_size(CACHE_BYTES as u64);
        let database = builder.open().map_err(failed)?;
        let entries = database.keyspace("entries", || {
            let options = KeyspaceCreateOptions::default().manual_journal_persist(true);
            options.with_kv_separation(blobs.then(KvSeparationOptions::default))
        });
        let entries = entries.map_err(failed)?;
        Ok(store(Fjall { database, entries }))
    }

    pub(super) fn compact(store: Store<Fjall>) -> Result<(), StorageError> {
        store.engine.entries.major_compact().map_err(failed)
    }

    fn full_key(table: Table, key: &[u8]) -> Vec<u8> {
        [table.0.as_bytes(), b"\0", key].concat()
    }

    pub(super) struct View<'a> {
        snapshot: fjall::Snapshot,
        entries: &'a fjall::Keyspace,
    }

    impl Read for View<'_> {
        fn get(&self, table: Table, key: &[u8]) -> Result<Option<Bytes>, StorageError> {
            let value = self.snapshot.get(self.entries, full_key(table, key)).map_err(failed)?;
            Ok(value.map(|value| Bytes::copy_from_slice(&value)))
        }

        fn scan(
            &self,
            table: Table,
            (low, high): KeyRange<'_>,
            direction: Direction,
            visit: &mut Visit<'_>,
        ) -> Result<(), StorageError> {
            use std::ops::Bound;
            let low = match low.map(|key| full_key(table, key)) {
                Bound::Unbounded => Bound::Included(full_key(table, b"")),
                low => low,
            };
            let high = match high.map(|key| full_key(table, key)) {
                Bound::Unbounded => Bound::Excluded([table.0.as_bytes(), b"\x01"].concat()),
                high => high,
            };
            let skip = table.0.len() + 1;
            let mut entries = self.snapshot.range(self.entries, (low, high));
            let mut next = || match direction {
                Direction::Ascending => entries.next(),
                Direction::Descending => entries.next_back(),
            };
            while let Some(entry) = next() {
                let (key, value) = entry.into_inner().map_err(failed)?;
                if visit(&key[skip..], &value).is_break() {
                    break;
                }
            }
            Ok(())
        }
    }

    impl Engine for Fjall {
        type Snapshot<'a> = View<'a>;

        fn snapshot(&self) -> Result<View<'_>, StorageError> {
            Ok(View { snapshot: self.database.snapshot(), entries: &self.entries })
        }

        fn apply(&self, changes: Changes, durability: Durability) -> Result<(), StorageError> {
            let durable = (durability == Durability::Durable).then_some(PersistMode::SyncData);
            let mut batch = self.database.batch().durability(durable);
            for (table, changes) in changes {
                for (key, value) in changes {
                    let key = full_key(table, &key);
                    match value {
                        Some(value) => batch.insert(&self.entries, key, value.as_ref()),
                        None => batch.remove(&self.entries, key),
                    }
                }
            }
            if batch.is_empty() && durable.is_some() {
                return self.database.persist(PersistMode::SyncData).map_err(failed);
            }
            batch.commit().map_err(failed)
        }
    }
}

mod canopydb_engine {
    use super::{CACHE_BYTES, Durability, Engine, Path, Read, StorageError, Store, failed, store};
    use arras_storage::{Bytes, Changes, Direction, KeyRange, Table, Visit};

    pub(super) struct Canopydb(canopydb::Database);

    pub(super) fn open(directory: &Path) -> Result<Store<Canopydb>, StorageError> {
        let mut environment = canopydb::EnvOptions::new(directory);
        environment.page_cache_size = CACHE_BYTES;
        environment.use_checksums = true;
        let options = canopydb::DbOptions::new();
        canopydb::Database::with_options(environment, options)
            .map(|database| store(Canopydb(database)))
            .map_err(failed)
    }

    pub(super) fn compact(store: Store<Canopydb>) -> Result<(), StorageError> {
        store.engine.0.compact().map_err(failed)?;
        store.engine.0.checkpoint().map_err(failed)
    }

    pub(super) struct View(canopydb::ReadTransaction);

    impl Read for View {
        fn get(&self, table: Table, key: &[u8]) -> Result<Option<Bytes>, StorageError> {
            let Some(tree) = self.0.get_tree(table.0.as_bytes()).map_err(failed)? else {
                return Ok(None);
            };
            Ok(tree.get(key).map_err(failed)?.map(|value| Bytes::copy_from_slice(&value)))
        }

        fn scan(
            &self,
            table: Table,
            range: KeyRange<'_>,
            direction: Direction,
            visit: &mut Visit<'_>,
        ) -> Result<(), StorageError> {
            let Some(tree) = self.0.get_tree(table.0.as_bytes()).map_err(failed)? else {
                return Ok(());
            };
            let mut entries = tree.range::<&[u8]>(range).map_err(failed)?;
            let mut next = || match direction {
                Direction::Ascending => entries.next(),
                Direction::Descending => entries.next_back(),
            };
            while let Some(entry) = next() {
                let (key, value) = entry.map_err(failed)?;
                if visit(&key, &value).is_break() {
                    break;
                }
            }
            Ok(())
        }
    }

    impl Engine for Canopydb {
        type Snapshot<'a> = View;

        fn snapshot(&self) -> Result<View, StorageError> {
            self.0.begin_read().map(View).map_err(failed)
        }

        fn apply(&self, changes: Changes, durability: Durability) -> Result<(), StorageError> {
            if changes.is_empty() && durability == Durability::Durable {
                return self.0.sync().map_err(failed);
            }
            let transaction = self.0.begin_write().map_err(failed)?;
            for (table, changes) in changes {
                let mut options = canopydb::TreeOptions::new();
                options.compress_overflow_values = None;
                let mut tree =
                    transaction.get_or_create_tree_with(table.0.as_bytes(), options).map_err(failed)?;
                for (key, value) in changes {
                    match value {
                        Some(value) => tree.insert(&key, &value).map_err(failed)?,
                        None => tree.delete(&key).map(|_| ()).map_err(failed)?,
                    }
                }
            }
            let committed = transaction.commit_with(durability == Durability::Durable);
            committed.map(|_| ()).map_err(failed)
        }
    }
}
