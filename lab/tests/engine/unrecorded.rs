//! What the proxy has in memory and its own store failed to record: the next start goes by the record.

use crate::world::{namespace, run};
use arras_documents::filter::Filter;
use arras_documents::sort::Sort;
use arras_documents::update::{ArrayFilters, Update};
use arras_engine::{Engine, Settings};
use arras_lab::channel::Direct;
use arras_lab::one_process;
use arras_server::Backend;
use arras_service::ServiceError;
use arras_service::interrupt::Interrupt;
use arras_service::store::{
    Cursor, DeleteStatement, IndexDefinition, InsertStatement, Query, Store, UpdateStatement,
};
use arras_storage::{Embedded, Failing, Faults, Memory};
use bson::{Bson, Document, doc};
use std::sync::Arc;

type Local = Failing<Embedded>;

/// How a commit of the proxy's store goes wrong.
#[derive(Clone, Copy, Debug)]
enum Fault {
    Refused,
    /// Nobody can tell whether it is there. It is, or not.
    Undecided(bool),
}

const FAULTS: [Fault; 3] = [Fault::Refused, Fault::Undecided(false), Fault::Undecided(true)];

impl Fault {
    fn after(self, faults: &Faults, passing: u64) {
        match self {
            Self::Refused => faults.fail_commit_after(passing),
            Self::Undecided(stored) => faults.leave_commit_undecided_after(passing, stored),
        }
    }
}

/// A proxy whose store can be made to fail, and that can be started again.
struct Proxy {
    directory: tempfile::TempDir,
    channel: Arc<Direct<Memory>>,
    running: Option<(Engine<Local, Direct<Memory>>, Faults)>,
}

impl Proxy {
    async fn start() -> Self {
        let server = Arc::new(Backend::open(Memory::new(), [1; 16]).expect("memory does not fail"));
        let channel = Arc::new(Direct::new(server));
        let mut proxy = Self { directory: tempfile::tempdir().expect("a folder"), channel, running: None };
        proxy.restart().await;
        proxy
    }

    async fn restart(&mut self) {
        drop(self.running.take());
        let local = loop {
            match Embedded::open(&self.directory.path().join("local")) {
                Ok(local) => break Failing::new(local),
                // What the engine before had begun in the background lets go of the store.
                Err(_) => tokio::task::yield_now().await,
            }
        };
        let faults = local.faults();
        let channel = Arc::clone(&self.channel);
        let engine = one_process::open(self.directory.path(), local, channel, Settings::default());
        let engine = engine.await.expect("an engine");
        engine.apply_schema().await;
        self.running = Some((engine, faults));
    }

    fn engine(&self) -> &Engine<Local, Direct<Memory>> {
        &self.running.as_ref().expect("it is started").0
    }

    fn faults(&self) -> &Faults {
        &self.running.as_ref().expect("it is started").1
    }

    async fn insert(&self, document: Document) -> Result<(), i32> {
        let inserted = self
            .engine()
            .insert(&namespace(), InsertStatement::of(vec![document], true).expect("documents"))
            .await;
        let inserted = inserted.map_err(|error| arras_mongo::error::code_of(error.fault).0)?;
        inserted
            .failures
            .into_iter()
            .next()
            .map_or(Ok(()), |failure| Err(arras_mongo::error::code_of(failure.error.fault).0))
    }

    async fn create(&self, field: &str, unique: bool) -> Result<(usize, usize), ServiceError> {
        let (name, key) = (format!("{field}_1"), doc! { field: 1 });
        let request = IndexDefinition { name, key, unique, sparse: false, options: Document::new() };
        self.engine().create_indexes(&namespace(), vec![request], Interrupt::default()).await
    }

    /// What `explain` says against the index of `a`, for a range.
    async fn inexact(&self) -> String {
        let filter = Filter::parse(&doc! { "a": { "$gte": 5, "$lt": 7 } }).expect("a filter");
        let query =
            Query { filter, sort: Sort::default(), skip: 0, limit: None, hint: None, allow_disk_use: true };
        let explanation = self.engine().explain(&namespace(), query, &[]).await.expect("a plan");
        assert!(!explanation.scan, "{explanation}");
        explanation.inexact.join("; ")
    }

    async fn try_remove(&self, id: i32) -> Result<u64, ServiceError> {
        let filter = Filter::parse(&doc! { "_id": id }).expect("a filter");
        let statement = DeleteStatement { filter, hint: None, multi: false, interrupt: Default::default() };
        self.engine().delete(&namespace(), statement).await
    }

    async fn remove(&self, id: i32) {
        assert_eq!(self.try_remove(id).await.expect("a delete"), 1);
    }

    async fn set(&self, id: i32, fields: Document) {
        let statement = UpdateStatement {
            filter: Filter::parse(&doc! { "_id": id }).expect("a filter"),
            update: Update::parse(&Bson::Document(doc! { "$set": fields })).expect("an update"),
            hint: None,
            array_filters: ArrayFilters::default(),
            multi: false,
            upsert: None,
            interrupt: Default::default(),
        };
        assert_eq!(self.engine().update(&namespace(), statement).await.expect("an update").modified, 1);
    }

    /// The `_id`s of what matches, in order.
    async fn ids(&self, filter: Document) -> Vec<i32> {
        let query = Query {
            filter: Filter::parse(&filter).expect("a filter"),
            sort: Sort::default(),
            skip: 0,
            limit: None,
            hint: None,
            allow_disk_use: true,
        };
        let mut cursor = self.engine().find(&namespace(), query).await.expect("a cursor");
        let documents = cursor.next_batch(usize::MAX, usize::MAX).await.expect("documents");
        let mut ids: Vec<i32> = documents.iter().map(|d| d.get_i32("_id").expect("an id")).collect();
        ids.sort_unstable();
        ids
    }
}

#[test]
fn an_index_whose_drop_was_not_recorded_misses_no_later_document() {
    run(async {
        for fault in FAULTS {
            let mut proxy = Proxy::start().await;
            proxy.create("a", false).await.expect("an index");
            proxy.insert(doc! { "_id": 1, "a": 1 }).await.expect("a document");
            fault.after(proxy.faults(), 0);
            proxy.engine().drop_index(&namespace(), "a_1").await.expect_err("it cannot be recorded");
            proxy.faults().heal();
            proxy.insert(doc! { "_id": 2, "a": 2 }).await.expect("another");
            proxy.restart().await;
            assert_eq!(proxy.ids(doc! { "a": 2 }).await, [2], "{fault:?}");
            assert_eq!(proxy.ids(doc! { "a": { "$gte": 1 } }).await, [1, 2], "{fault:?}");
        }
    });
}

#[test]
fn a_unique_index_that_is_said_to_be_there_is_there_after_a_start() {
    run(async {
        for fault in FAULTS {
            let mut failed = 0;
            loop {
                let mut proxy = Proxy::start().await;
                proxy.insert(doc! { "_id": 1, "u": 1 }).await.expect("a document");
                fault.after(proxy.faults(), failed);
                let made = proxy.create("u", true).await;
                proxy.faults().heal();
                if made.is_ok() {
                    break;
                }
                proxy.create("u", true).await.expect("nothing is in the way");
                proxy.restart().await;
                let refused = proxy.insert(doc! { "_id": 2, "u": 1 }).await;
                assert_eq!(refused, Err(11000), "{fault:?} of commit {failed}");
                failed += 1;
            }
            assert!(failed >= 3, "made, filled, ready: {failed}");
        }
    });
}

#[test]
fn that_a_document_has_several_entries_is_recorded_before_one_that_has() {
    run(async {
        for fault in FAULTS {
            let mut proxy = Proxy::start().await;
            proxy.create("a", false).await.expect("an index");
            proxy.insert(doc! { "_id": 1, "a": 1 }).await.expect("a document");
            fault.after(proxy.faults(), 0);
            proxy.insert(doc! { "_id": 2, "a": [1, 9] }).await.expect_err("it cannot be recorded");
            proxy.faults().heal();
            proxy.insert(doc! { "_id": 3, "a": [1, 9] }).await.expect("the store is back");
            proxy.restart().await;
            // One element is less than 3, another more than 6.
            let expected = if matches!(fault, Fault::Undecided(true)) { vec![2, 3] } else { vec![3] };
            assert_eq!(proxy.ids(doc! { "a": { "$lt": 3, "$gt": 6 } }).await, expected, "{fault:?}");
        }
    });
}

#[test]
fn an_array_that_is_gone_degrades_no_index() {
    run(async {
        let mut proxy = Proxy::start().await;
        proxy.create("a", false).await.expect("an index");
        for id in 0..30 {
            proxy.insert(doc! { "_id": id, "a": id }).await.expect("a document");
        }
        for (round, strange) in
            [Bson::from(vec![3, 40]), Bson::from("a string too long for a key")].iter().enumerate()
        {
            assert_eq!(proxy.inexact().await, "", "round {round}: one entry each");
            proxy.insert(doc! { "_id": 100, "a": strange.clone() }).await.expect("a document");
            proxy.insert(doc! { "_id": 101, "a": strange.clone() }).await.expect("another");
            assert_ne!(
                proxy.inexact().await,
                "",
                "{strange} has more than one entry, or one for more than one value"
            );
            assert!(proxy.ids(doc! { "a": strange.clone() }).await.contains(&101));
            proxy.restart().await;
            proxy.remove(100).await;
            assert_ne!(proxy.inexact().await, "", "one is left");
            // Changed, not removed.
            proxy.set(101, doc! { "a": 5 }).await;
            assert_eq!(proxy.inexact().await, "", "none is left");
            proxy.restart().await;
            assert_eq!(proxy.inexact().await, "", "nor after a start");
            assert_eq!(proxy.ids(doc! { "a": { "$gte": 5, "$lt": 7 } }).await, [5, 6, 101]);
            proxy.remove(101).await;
        }
        // An index that is made over one, and one whose arrays go while nothing can be recorded.
        proxy.insert(doc! { "_id": 100, "b": [1, 2] }).await.expect("a document");
        proxy.create("b", false).await.expect("an index");
        for fault in FAULTS {
            fault.after(proxy.faults(), 0);
            let removed = proxy.try_remove(100).await;
            proxy.faults().heal();
            assert!(removed.is_err(), "{fault:?}");
            proxy.restart().await;
            let left = proxy.ids(doc! { "b": { "$lt": 2, "$gt": 1 } }).await;
            let there = proxy.ids(doc! { "_id": 100 }).await;
            assert_eq!(left, there, "{fault:?}: found by both elements as long as it is there");
            if there.is_empty() {
                proxy.insert(doc! { "_id": 100, "b": [1, 2] }).await.expect("again");
            }
        }
    });
}
