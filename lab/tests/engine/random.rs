//! Random commands under random schemas, with indexes that come and go, compared with a scan of the plaintext.
//!
//! Every run has a seed of its own, which is printed; `ARRAS_TEST_SEED` repeats it.

mod generator;

use crate::world::{namespace, run};
use arras_documents::filter::Filter;
use arras_documents::order;
use arras_documents::sort::Sort;
use arras_documents::update::{ArrayFilters, Update};
use arras_engine::{Engine, Settings};
use arras_lab::channel::Direct;
use arras_lab::one_process;
use arras_lab::plain_store::PlainStore;
use arras_planner::schema::Schema;
use arras_server::Backend;
use arras_service::ServiceError;
use arras_service::interrupt::Interrupt;
use arras_service::store::{
    Aggregate, AggregateFunction, Cursor, DeleteStatement, IndexDefinition, InsertStatement, Modification,
    Query, Store, UpdateStatement,
};
use arras_storage::Memory;
use bson::oid::ObjectId;
use bson::{Bson, Document, doc};
use generator::{Command, Find, Generator};
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

/// Commands in all.
const COMMANDS: usize = 5000;
/// Of them under one schema.
const COMMANDS_EACH: usize = 125;
/// MongoDB's code for a duplicate key.
const DUPLICATE: i32 = 11000;
/// And for a query that the schema refuses.
const REFUSED: i32 = 291;
/// The code of a sort by two arrays beside each other.
const PARALLEL_ARRAYS: i32 = 2;
/// The constraint of the plaintext, while the engine has one.
const CONSTRAINT: &str = "constraint";

type Outcome<T> = Result<T, i32>;

fn coded<T>(outcome: Result<T, ServiceError>) -> Outcome<T> {
    outcome.map_err(|error| arras_mongo::error::code_of(error.fault).0)
}

/// The engine, and the plaintext it is compared with.
struct Twins {
    engine: Engine<Memory, Direct<Memory>>,
    plain: PlainStore,
    _directory: tempfile::TempDir,
}

fn query(find: &Find, hint: Option<Bson>) -> Query {
    Query {
        filter: Filter::parse(&find.filter).expect("a filter"),
        sort: Sort::parse(&find.sort).expect("a sort"),
        skip: find.skip,
        limit: find.limit,
        hint,
        allow_disk_use: true,
    }
}

async fn found<S: Store>(store: &S, query: Query) -> Outcome<Vec<Document>> {
    let mut cursor = coded(store.find(&namespace(), query).await)?;
    let mut documents = Vec::new();
    loop {
        let batch = coded(cursor.next_batch(17, 1 << 20).await)?;
        if batch.is_empty() {
            return Ok(documents);
        }
        documents.extend(batch);
    }
}

fn update(filter: &Document, change: &Document, multi: bool, upsert: bool) -> UpdateStatement {
    UpdateStatement {
        filter: Filter::parse(filter).expect("a filter"),
        update: Update::parse(&Bson::Document(change.clone())).expect("an update"),
        hint: None,
        array_filters: ArrayFilters::default(),
        multi,
        upsert: upsert.then(ObjectId::new),
        interrupt: Default::default(),
    }
}

fn delete(filter: &Document) -> DeleteStatement {
    let filter = Filter::parse(filter).expect("a filter");
    DeleteStatement { filter, hint: None, multi: true, interrupt: Interrupt::default() }
}

fn id(document: &Document) -> i32 {
    document.get_i32("_id").expect("documents of this test have numbers as ids")
}

/// A document as text: the order of fields is that of the update, in both.
fn text(document: &Document) -> String {
    format!("{document:?}")
}

impl Twins {
    async fn start(schema: &str) -> Self {
        let server = Arc::new(Backend::open(Memory::new(), [1; 16]).expect("memory does not fail"));
        let directory = tempfile::tempdir().expect("a folder");
        let schema = Schema::parse(schema, "schema.toml").expect("a schema");
        let settings = Settings { schema, ..Settings::default() };
        let channel = Arc::new(Direct::new(server));
        let engine = one_process::open(directory.path(), Memory::new(), channel, settings).await;
        let twins =
            Self { engine: engine.expect("an engine"), plain: PlainStore::new(), _directory: directory };
        twins.engine.create_collection(&namespace()).await.expect("there is none");
        twins.plain.create_collection(&namespace()).await.expect("there is none");
        twins.engine.apply_schema().await;
        twins.follow().await;
        twins
    }

    /// Gives the plaintext the engine's constraint, or takes it.
    async fn follow(&self) {
        let indexes = self.engine.indexes(&namespace()).await.expect("indexes");
        let constrained = indexes.iter().any(|index| index.unique && index.key.contains_key("u"));
        let plain = self.plain.indexes(&namespace()).await.expect("indexes");
        let has = plain.iter().any(|index| index.name == CONSTRAINT);
        if constrained && !has {
            let request = constraint();
            self.plain
                .create_indexes(&namespace(), vec![request], Interrupt::default())
                .await
                .expect("no duplicates");
        } else if has && !constrained {
            self.plain.drop_index(&namespace(), CONSTRAINT).await.expect("it is there");
        }
    }

    /// Runs a command on both and compares; whether the schema refused it.
    async fn compare(&self, command: &Command) -> bool {
        match command {
            Command::Find(find) => self.compare_find(find).await,
            Command::Count(find) => {
                let counted = coded(self.engine.count(&namespace(), query(find, None)).await);
                if counted == Err(REFUSED) {
                    return true;
                }
                assert_eq!(counted, coded(self.plain.count(&namespace(), query(find, None)).await));
            }
            Command::Aggregate { filter, field } => self.compare_sum(filter, field).await,
            Command::Insert(documents) => self.compare_insert(documents).await,
            Command::Update { filter, change, multi, upsert } => {
                let statement = || update(filter, change, *multi, *upsert);
                let changed = coded(self.engine.update(&namespace(), statement()).await);
                if changed.as_ref().is_err_and(|code| *code == REFUSED) {
                    return true;
                }
                let expected = coded(self.plain.update(&namespace(), statement()).await);
                let counts = |o: Outcome<arras_service::store::Updated>| o.map(|u| (u.matched, u.modified));
                assert_eq!(counts(changed), counts(expected));
            }
            Command::Delete { filter } => {
                let statement = || delete(filter);
                let deleted = coded(self.engine.delete(&namespace(), statement()).await);
                if deleted == Err(REFUSED) {
                    return true;
                }
                assert_eq!(deleted, coded(self.plain.delete(&namespace(), statement()).await));
            }
            Command::FindAndModify { find, change } => {
                let how = || Modification::Update {
                    update: Update::parse(&Bson::Document(change.clone())).expect("an update"),
                    array_filters: ArrayFilters::default(),
                    upsert: None,
                    return_new: true,
                };
                let modified = coded(
                    self.engine
                        .find_and_modify(&namespace(), query(find, None), how(), Interrupt::default())
                        .await,
                );
                if modified.as_ref().is_err_and(|code| *code == REFUSED) {
                    return true;
                }
                let expected = coded(
                    self.plain
                        .find_and_modify(&namespace(), query(find, None), how(), Interrupt::default())
                        .await,
                );
                let shown = |o: Outcome<arras_service::store::FoundAndModified>| {
                    o.map(|f| f.document.as_ref().map(text))
                };
                assert_eq!(shown(modified), shown(expected));
            }
            Command::CreateIndex(request) => self.create_index(request).await,
            Command::DropIndex(at) => {
                let indexes = self.engine.indexes(&namespace()).await.expect("indexes");
                if let Some(index) = indexes.get(1 + at % indexes.len()) {
                    self.engine.drop_index(&namespace(), &index.name).await.expect("it is there");
                    self.follow().await;
                }
            }
        }
        false
    }

    async fn compare_insert(&self, documents: &[Document]) {
        let mut outcomes = Vec::new();
        for inserted in [
            self.engine
                .insert(&namespace(), InsertStatement::of(documents.to_vec(), false).expect("documents"))
                .await,
            self.plain
                .insert(&namespace(), InsertStatement::of(documents.to_vec(), false).expect("documents"))
                .await,
        ] {
            let inserted = inserted.expect("an insert");
            let failures = inserted
                .failures
                .iter()
                .map(|failure| (failure.position, arras_mongo::error::code_of(failure.error.fault).0));
            outcomes.push((inserted.count, failures.collect::<Vec<_>>()));
        }
        assert_eq!(outcomes.first(), outcomes.last());
    }

    async fn create_index(&self, request: &IndexDefinition) {
        let made = coded(
            self.engine.create_indexes(&namespace(), vec![request.clone()], Interrupt::default()).await,
        );
        match made {
            Ok(_) => self.follow().await,
            Err(DUPLICATE) => {
                let refused = coded(
                    self.plain.create_indexes(&namespace(), vec![constraint()], Interrupt::default()).await,
                );
                assert!(refused == Err(DUPLICATE), "a constraint is refused that holds");
            }
            // One on these fields is there under another name; arrays of a document are parallel.
            Err(85 | 86 | 171) => {}
            Err(other) => panic!("an index is refused with {other}"),
        }
    }

    async fn compare_find(&self, find: &Find) {
        let indexes = self.engine.indexes(&namespace()).await.expect("indexes");
        let hint = find.hint.and_then(|at| indexes.get(at)).map(|index| Bson::String(index.name.clone()));
        let documents = match found(&self.engine, query(find, hint)).await {
            Err(REFUSED) => return,
            documents => documents,
        };
        let expected = found(&self.plain, query(find, None)).await;
        if expected == Err(PARALLEL_ARRAYS) {
            // With a limit a sort may not have read as far as them.
            assert!(find.limit.is_some() || documents == expected, "{documents:?}");
            return;
        }
        let (documents, expected) = (documents.expect("documents"), expected.expect("documents"));
        let unlimited = Find { skip: 0, limit: None, sort: Document::new(), ..find.clone() };
        let matches = found(&self.plain, query(&unlimited, None)).await.expect("documents");
        assert_eq!(documents.len(), expected.len(), "as many");
        let sort = Sort::parse(&find.sort).expect("a sort");
        for (found, expected) in documents.iter().zip(&expected) {
            let order = sort.compare_values(
                &sort.values(found).expect("one array at most"),
                &sort.values(expected).expect("one array at most"),
            );
            assert!(find.sort.is_empty() || order.is_eq(), "{found} in the place of {expected}");
        }
        let mut ids: Vec<i32> = documents.iter().map(id).collect();
        ids.sort_unstable();
        ids.dedup();
        assert_eq!(ids.len(), documents.len(), "each once");
        for document in &documents {
            let own = matches.iter().find(|other| id(other) == id(document));
            assert_eq!(own.map(text), Some(text(document)), "one that matches, as it is");
        }
    }

    async fn compare_sum(&self, filter: &Document, field: &str) {
        let parsed = Filter::parse(filter).expect("a filter");
        let of = |name: &str, function| Aggregate { name: name.into(), function };
        let asked = [of("n", AggregateFunction::Count), of("sum", AggregateFunction::Sum(field.into()))];
        let summed = Query {
            filter: parsed.clone(),
            sort: Sort::default(),
            skip: 0,
            limit: None,
            hint: None,
            allow_disk_use: true,
        };
        let answered = self.engine.aggregate(&namespace(), &summed, &asked).await;
        let Some(answer) = (match coded(answered) {
            Err(REFUSED) => return,
            answer => answer.expect("an answer"),
        }) else {
            return; // no index covers it
        };
        let all = Find { filter: filter.clone(), ..Find::default() };
        let matches = found(&self.plain, query(&all, None)).await.expect("documents");
        let values = matches.iter().filter_map(|document| document.get(field));
        let sum: f64 = values.filter_map(number).sum();
        let own = answer.get("sum").and_then(number).expect("a sum");
        assert!((sum.is_nan() && own.is_nan()) || sum == own, "{own} for {sum}");
        let count = Bson::Int32(i32::try_from(matches.len()).expect("few"));
        assert!(order::compare(answer.get("n").expect("a count"), &count).is_eq());
    }
}

fn number(value: &Bson) -> Option<f64> {
    match value {
        Bson::Int32(number) => Some(f64::from(*number)),
        Bson::Int64(number) => Some(*number as f64),
        Bson::Double(number) => Some(*number),
        _ => None,
    }
}

fn constraint() -> IndexDefinition {
    let options = Document::new();
    IndexDefinition { name: CONSTRAINT.into(), key: doc! { "u": 1 }, unique: true, sparse: false, options }
}

fn seed() -> u64 {
    let chosen = std::env::var("ARRAS_TEST_SEED").ok().and_then(|seed| seed.parse().ok());
    let now = || SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_nanos() as u64);
    let seed = chosen.unwrap_or_else(now);
    eprintln!("ARRAS_TEST_SEED={seed}");
    seed
}

#[test]
fn five_thousand_random_commands_differ_in_nothing_from_a_scan() {
    let seed = seed();
    run(async {
        let mut refused = 0;
        for schema_number in 0..COMMANDS / COMMANDS_EACH {
            let mut generator = Generator::new(seed, schema_number as u64);
            let schema = generator.schema();
            let twins = Twins::start(&schema).await;
            for number in 0..COMMANDS_EACH {
                let command = generator.command();
                // Shown if what follows fails.
                eprintln!("schema {schema_number}, command {number}: {command:?}");
                if number == 0 {
                    eprintln!("{schema}");
                }
                refused += usize::from(twins.compare(&command).await);
            }
            twins.compare(&Command::Find(Find::default())).await;
        }
        assert!(refused < COMMANDS / 5, "{refused} were refused by the schema and compared with nothing");
    });
}
