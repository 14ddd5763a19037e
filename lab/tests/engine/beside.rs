//! Reads beside the drop of the index that they read, and an index that waits for a write.

use crate::world::{namespace, run};
use arras_documents::filter::Filter;
use arras_documents::sort::Sort;
use arras_documents::update::{ArrayFilters, Update};
use arras_engine::{Engine, Settings};
use arras_lab::channel::Direct;
use arras_lab::one_process;
use arras_protocol::{Channel, ChannelError, Protocol, ProtocolId, documents, hello, write};
use arras_server::Backend;
use arras_service::Fault;
use arras_service::interrupt::{Interrupt, Reason};
use arras_service::store::{
    Cursor, DeleteStatement, IndexDefinition, InsertStatement, Query, Store, UpdateStatement,
};
use arras_storage::Memory;
use bson::{Bson, Document, doc};
use std::sync::{Arc, Mutex};
use tokio::sync::oneshot;

/// A request that is held until it may go on.
struct Gate {
    reached: oneshot::Sender<()>,
    go: oneshot::Receiver<()>,
}

/// A channel that holds the next request to an index.
struct Gated {
    server: Direct<Memory>,
    gate: Mutex<Option<Gate>>,
    /// The same of the next write.
    write_gate: Mutex<Option<Gate>>,
    /// And of the next read of documents.
    read_gate: Mutex<Option<Gate>>,
}

/// Protocols that are no index's.
const OTHERS: [ProtocolId; 3] = [documents::Documents::ID, write::Write::ID, hello::Hello::ID];

impl<P: Protocol> Channel<P> for Gated {
    async fn call(&self, request: P::Request) -> Result<P::Response, ChannelError> {
        let gate = match P::ID {
            write::Write::ID => Some(&self.write_gate),
            documents::Documents::ID => Some(&self.read_gate),
            other => (!OTHERS.contains(&other)).then_some(&self.gate),
        };
        if let Some(gate) = gate {
            let gate = gate.lock().expect("no test panics with it").take();
            if let Some(Gate { reached, go }) = gate {
                reached.send(()).expect("the test waits");
                go.await.expect("the test lets it go on");
            }
        }
        Channel::<P>::call(&self.server, request).await
    }
}

impl Gated {
    /// Holds the next request to an index: a sign that it has come, and what lets it go on.
    fn hold(&self) -> (oneshot::Receiver<()>, oneshot::Sender<()>) {
        Self::close(&self.gate)
    }

    fn close(gate: &Mutex<Option<Gate>>) -> (oneshot::Receiver<()>, oneshot::Sender<()>) {
        let ((reached, has_reached), (let_go, go)) = (oneshot::channel(), oneshot::channel());
        *gate.lock().expect("no test panics with it") = Some(Gate { reached, go });
        (has_reached, let_go)
    }
}

struct World {
    channel: Arc<Gated>,
    engine: Engine<Memory, Gated>,
    _directory: tempfile::TempDir,
}

const DOCUMENTS: i32 = 3000;

async fn world() -> World {
    let server = Direct::new(Arc::new(Backend::open(Memory::new(), [1; 16]).expect("memory does not fail")));
    let channel = Arc::new(Gated {
        server,
        gate: Mutex::default(),
        write_gate: Mutex::default(),
        read_gate: Mutex::default(),
    });
    let directory = tempfile::tempdir().expect("a folder");
    let engine =
        one_process::open(directory.path(), Memory::new(), Arc::clone(&channel), Settings::default());
    let engine = engine.await.expect("both halves are new");
    let documents =
        (0..DOCUMENTS).map(|id| doc! { "_id": id, "v": id * 7 % DOCUMENTS, "w": id % 10 }).collect();
    engine
        .insert(&namespace(), InsertStatement::of(documents, true).expect("documents"))
        .await
        .expect("documents");
    World { channel, engine, _directory: directory }
}

impl World {
    async fn create(&self, unique: bool, options: Document) {
        let index =
            IndexDefinition { name: "by_v".into(), key: doc! { "v": 1 }, unique, sparse: false, options };
        self.engine.create_indexes(&namespace(), vec![index], Interrupt::default()).await.expect("an index");
    }

    async fn drop_index(&self) {
        self.engine.drop_index(&namespace(), "by_v").await.expect("drops");
    }
}

fn query(filter: &Document, sort: &Document, limit: Option<u64>) -> Query {
    Query {
        filter: Filter::parse(filter).expect("a filter"),
        sort: Sort::parse(sort).expect("a sort"),
        skip: 0,
        limit,
        hint: None,
        allow_disk_use: true,
    }
}

fn order(name: &str) -> Document {
    doc! { "storageEngine": { "arras": { "order": name, "operations": ["range", "order"] } } }
}

#[test]
fn a_read_whose_index_is_dropped_before_its_answer_is_answered_without_it() {
    run(async {
        let world = world().await;
        let range = doc! { "v": { "$gte": 100, "$lt": 140 } };
        let point = doc! { "v": 700 };
        let indexes = [
            (false, order("arx_range"), &range),
            (false, order("bplus_lewi_wu"), &range),
            (false, order("pope"), &range),
            (false, doc! { "storageEngine": { "arras": { "operations": ["eq"] } } }, &point),
            (true, Document::new(), &point),
        ];
        for (unique, options, filter) in indexes {
            // The proxy knows by itself how many entries a value has.
            let ways = if filter == &range { vec![false, true] } else { vec![false] };
            for counts in ways {
                world.create(unique, options.clone()).await;
                let (reached, go) = world.channel.hold();
                let (engine, query) = (world.engine.clone(), query(filter, &doc! {}, None));
                let read = tokio::spawn(async move {
                    if counts {
                        return engine.count(&namespace(), query).await;
                    }
                    let mut cursor = engine.find(&namespace(), query).await?;
                    Ok(cursor.next_batch(usize::MAX, usize::MAX).await?.len() as u64)
                });
                reached.await.expect("the index is asked");
                world.drop_index().await;
                go.send(()).expect("the read waits");
                let found = read.await.expect("no panic");
                let found = found.unwrap_or_else(|failure| panic!("{options}: {failure:?}"));
                assert_eq!(found, if filter == &range { 40 } else { 1 }, "{options}");
            }
        }
    });
}

#[test]
fn a_read_whose_index_is_dropped_in_its_middle_is_ended_and_nobody_is_blamed() {
    run(async {
        let world = world().await;
        for name in ["arx_range", "bplus_lewi_wu", "pope"] {
            world.create(false, order(name)).await;
            // The filter passes one document of ten: more of the index is read as they are asked for.
            let mut ordered = query(&doc! { "w": 0 }, &doc! { "v": 1 }, Some(DOCUMENTS as u64 / 10));
            ordered.hint = Some(Bson::from("by_v"));
            let mut cursor = world.engine.find(&namespace(), ordered).await.expect("a cursor");
            assert_eq!(cursor.next_batch(1, usize::MAX).await.expect("a document").len(), 1, "{name}");
            world.drop_index().await;
            let failure = loop {
                match cursor.next_batch(100, usize::MAX).await {
                    Ok(documents) => assert!(!documents.is_empty(), "{name}: the index is read to its end"),
                    Err(failure) => break failure,
                }
            };
            assert_eq!(failure.fault, Fault::Dropped, "{name}: {failure:?}");
        }
    });
}

#[test]
fn a_read_whose_collection_is_dropped_is_ended_and_nobody_is_blamed() {
    run(async {
        for sort in [doc! {}, doc! { "v": 1 }] {
            let world = world().await;
            world.create(false, order("arx_range")).await;
            let of_ten = query(&doc! { "w": 0 }, &sort, Some(DOCUMENTS as u64 / 10));
            let mut cursor = world.engine.find(&namespace(), of_ten.clone()).await.expect("a cursor");
            assert_eq!(cursor.next_batch(1, usize::MAX).await.expect("a document").len(), 1, "by {sort}");
            world.engine.drop_collection(&namespace()).await.expect("drops");
            let failure = loop {
                match cursor.next_batch(100, usize::MAX).await {
                    Ok(documents) => assert!(!documents.is_empty(), "by {sort}: it is read to its end"),
                    Err(failure) => break failure,
                }
            };
            assert_eq!(failure.fault, Fault::Dropped, "by {sort}: {failure:?}");
        }
    });
}

#[test]
fn an_index_that_waits_for_a_write_or_for_another_is_not_made_once_its_request_is_killed() {
    // Of one thread: when it has had its turns, so has everything.
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    runtime.block_on(async {
        let world = world().await;
        let (reached, go) = Gated::close(&world.channel.write_gate);
        let engine = world.engine.clone();
        let document = InsertStatement::of(vec![doc! { "_id": -1, "v": 1 }], true).expect("a document");
        let writing = tokio::spawn(async move { engine.insert(&namespace(), document).await });
        reached.await.expect("the write is sent");
        // The first waits for the write, the second for the first.
        let making = ["one", "other"].map(|name| {
            let interrupt = Interrupt::default();
            let (engine, sign) = (world.engine.clone(), interrupt.clone());
            let (name, key, options) = (name.to_owned(), doc! { name: 1 }, Document::new());
            let index = IndexDefinition { name, key, unique: false, sparse: false, options };
            let made =
                tokio::spawn(async move { engine.create_indexes(&namespace(), vec![index], sign).await });
            (interrupt, made)
        });
        let turns = async || {
            for _ in 0..1000 {
                tokio::task::yield_now().await;
            }
        };
        turns().await;
        for (interrupt, made) in making.into_iter().rev() {
            assert!(!made.is_finished(), "the write is under way");
            interrupt.raise(Reason::Killed);
            turns().await;
            assert!(made.is_finished(), "it waits though it is killed");
            let failure = made.await.expect("no panic").expect_err("an interruption");
            assert_eq!(failure.fault, Fault::Interrupted(Reason::Killed));
        }
        go.send(()).expect("the write waits");
        assert_eq!(writing.await.expect("no panic").expect("an insert").count, 1);
        assert_eq!(world.engine.indexes(&namespace()).await.expect("a list").len(), 1);
    });
}

#[test]
fn a_document_that_is_changed_behind_the_answer_of_an_index_comes_in_its_new_place() {
    // One of the first becomes one of the last, that is asked for or not, and one comes nearer, but is still to come.
    let moves = [
        (1, 20, (101, 138), 0),
        (-1, 20, (138, 101), 0),
        (1, 31, (101, 138), 2),
        (-1, 31, (138, 101), 2),
        (1, 31, (120, 115), 1),
        (-1, 31, (110, 115), 1),
    ];
    run(async {
        for order in ["arx_range", "bplus_lewi_wu", "pope", "mope"] {
            for (direction, limit, (from, to), times) in moves {
                let world = world().await;
                let filter = Filter::parse(&doc! { "v": { "$gt": 110, "$lt": 120 } }).expect("a filter");
                let gap =
                    DeleteStatement { filter, hint: None, multi: true, interrupt: Interrupt::default() };
                assert_eq!(world.engine.delete(&namespace(), gap).await.expect("a delete"), 9);
                world.create(false, self::order(order)).await;
                let (reached, go) = Gated::close(&world.channel.read_gate);
                let (engine, filter) = (world.engine.clone(), doc! { "v": { "$gte": 100, "$lt": 140 } });
                let sorted = query(&filter, &doc! { "v": direction }, Some(limit));
                let read = tokio::spawn(async move {
                    let mut cursor = engine.find(&namespace(), sorted).await.expect("a cursor");
                    cursor.next_batch(usize::MAX, usize::MAX).await.expect("documents")
                });
                reached.await.expect("documents are read");
                let update = UpdateStatement {
                    filter: Filter::parse(&doc! { "v": from }).expect("a filter"),
                    update: Update::parse(&bson::bson!({ "$set": { "v": to } })).expect("an update"),
                    hint: None,
                    array_filters: ArrayFilters::default(),
                    multi: false,
                    upsert: None,
                    interrupt: Interrupt::default(),
                };
                let updated = world.engine.update(&namespace(), update).await.expect("an update");
                assert_eq!(updated.modified, 1);
                go.send(()).expect("the read waits");
                let found = read.await.expect("no panic");
                let values: Vec<i32> = found
                    .iter()
                    .map(|document| direction * document.get_i32("v").expect("a number"))
                    .collect();
                assert!(values.is_sorted(), "{order}: {values:?}");
                let moved = values.iter().filter(|value| value.abs() == to).count();
                assert_eq!(moved, times, "{order}: {values:?}");
                assert_eq!(values.len() as u64, limit, "{order}: {values:?}");
            }
        }
    });
}
