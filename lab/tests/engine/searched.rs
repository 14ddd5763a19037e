//! Many searches beside a writer, by every protocol that a field may have its order by: what stays is found by each, once, as it is
//! and in its order, whatever comes and goes around it.

use crate::world::namespace;
use arras_documents::filter::Filter;
use arras_documents::sort::Sort;
use arras_documents::update::{ArrayFilters, Update};
use arras_engine::{Engine, Settings};
use arras_lab::channel::Direct;
use arras_lab::{one_process, seed};
use arras_planner::kinds;
use arras_primitives::prg::Prg;
use arras_server::Backend;
use arras_service::interrupt::Interrupt;
use arras_service::store::{
    Cursor, DeleteStatement, IndexDefinition, InsertStatement, Query, Store, UpdateStatement,
};
use arras_storage::Memory;
use bson::{Bson, Document, doc};
use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Values, of which documents that stay have the even ones: the others are between them.
const VALUES: u64 = 200;

/// How much there is of it.
#[derive(Clone, Copy)]
struct Load {
    stay: i32,
    writes: i32,
    searchers: u64,
    /// At least, of each: they go on for as long as the writer writes.
    searches: usize,
}

const USUAL: Load = Load { stay: 100, writes: 120, searchers: 6, searches: 20 };
/// By comparisons that take pairings.
const OF_PAIRINGS: Load = Load { stay: 8, writes: 4, searchers: 2, searches: 1 };

type Tested = Engine<Memory, Direct<Memory>>;

fn value(of: i32) -> i32 {
    of * 2 % i32::try_from(VALUES).expect("few")
}

fn filter(low: i32, high: i32) -> Filter {
    Filter::parse(&doc! { "v": { "$gte": low, "$lt": high } }).expect("a filter")
}

async fn engine(directory: &tempfile::TempDir, order: &str, stay: i32) -> Tested {
    let server = Backend::open(Memory::new(), [1; 16]).expect("memory does not fail");
    let channel = Arc::new(Direct::new(Arc::new(server)));
    let engine = one_process::open(directory.path(), Memory::new(), channel, Settings::default());
    let engine = engine.await.expect("both halves are new");
    engine.create_collection(&namespace()).await.expect("there is none");
    let options = doc! { "storageEngine": { "arras": { "order": order, "operations": ["range", "order"] } } };
    let (name, key) = ("by_v".into(), doc! { "v": 1 });
    let index = IndexDefinition { name, key, unique: false, sparse: false, options };
    engine.create_indexes(&namespace(), vec![index], Interrupt::default()).await.expect("an index");
    let documents = (0..stay).map(|id| doc! { "_id": id, "v": value(id), "stays": true }).collect();
    let documents = InsertStatement::of(documents, true).expect("documents");
    engine.insert(&namespace(), documents).await.expect("an insert");
    engine
}

/// Inserts, moves and takes out documents whose values are those between.
async fn write(engine: &Tested, Load { stay, writes, .. }: Load) {
    let mut dice = seed::prg(9, "a writer beside searches");
    let mut odd = || i32::try_from(seed::below(&mut dice, VALUES / 2)).expect("few") * 2 + 1;
    for number in 0..writes {
        let id = stay + number;
        match number % 4 {
            0 | 1 => {
                let (first, second) = (odd(), odd());
                let documents =
                    vec![doc! { "_id": id, "v": first }, doc! { "_id": id + 10_000, "v": second }];
                let insert = InsertStatement::of(documents, true).expect("documents");
                assert_eq!(engine.insert(&namespace(), insert).await.expect("an insert").count, 2);
            }
            2 => {
                let update = Bson::Document(doc! { "$set": { "v": odd() } });
                let statement = UpdateStatement {
                    filter: Filter::parse(&doc! { "_id": id - 1 }).expect("a filter"),
                    update: Update::parse(&update).expect("an update"),
                    hint: None,
                    array_filters: ArrayFilters::default(),
                    multi: false,
                    upsert: None,
                    interrupt: Interrupt::default(),
                };
                engine.update(&namespace(), statement).await.expect("an update");
            }
            _ => {
                let filter = Filter::parse(&doc! { "_id": id + 10_000 - 3 }).expect("a filter");
                let statement =
                    DeleteStatement { filter, hint: None, multi: true, interrupt: Interrupt::default() };
                engine.delete(&namespace(), statement).await.expect("a delete");
            }
        }
    }
}

/// What a search finds, batch by batch.
async fn found(engine: &Tested, query: Query) -> Vec<Document> {
    let mut cursor = engine.find(&namespace(), query).await.expect("a cursor");
    let mut documents = Vec::new();
    loop {
        let batch = cursor.next_batch(7, usize::MAX).await.expect("documents");
        if batch.is_empty() {
            return documents;
        }
        documents.extend(batch);
    }
}

/// A search, and whether it found what it must.
async fn search(engine: &Tested, stay: i32, dice: &mut Prg) {
    let mut number = |below: u64| i32::try_from(seed::below(dice, below)).expect("few");
    let (low, width) = (number(VALUES), 1 + number(60));
    let direction = [0, 1, -1][usize::try_from(number(3)).expect("few")];
    let limit = (direction != 0 && number(2) == 0).then(|| 1 + number(9));
    let sort = if direction == 0 {
        doc! {}
    } else {
        doc! { "v": direction }
    };
    let query = Query {
        filter: filter(low, low + width),
        sort: Sort::parse(&sort).expect("a sort"),
        skip: 0,
        limit: limit.map(|limit| u64::from(limit.unsigned_abs())),
        hint: None,
        allow_disk_use: true,
    };
    let found = found(engine, query).await;
    let told = format!(
        "{low} and {width} on, sorted by {sort}, {limit:?}: {:?}",
        found
            .iter()
            .map(|it| (it.get_i32("_id").unwrap_or(-1), it.get_i32("v").unwrap_or(-1)))
            .collect::<Vec<_>>()
    );
    let values: Vec<i32> = found.iter().map(|document| document.get_i32("v").expect("a number")).collect();
    assert!(values.iter().all(|value| (low..low + width).contains(value)), "{told}");
    let ids: BTreeSet<i32> = found.iter().map(|document| document.get_i32("_id").expect("one")).collect();
    assert_eq!(ids.len(), found.len(), "each once: {told}");
    // What is moved behind where a search is comes late; what stays, and what is moved ahead, in its order.
    let late = |pair: &[i32]| direction * pair[0].cmp(&pair[1]) as i32 > 0;
    let staying: Vec<i32> = values.iter().copied().filter(|value| value % 2 == 0).collect();
    assert!(!staying.windows(2).any(late), "{told}");
    // Of a limited search, what lies before its last value.
    let passed = match (limit, values.last()) {
        (Some(limit), Some(last)) if values.len() == usize::try_from(limit).expect("few") => {
            if direction == 1 { low..*last } else { last + 1..low + width }
        }
        _ => low..low + width,
    };
    let mut staying = (0..stay).filter(|id| passed.contains(&value(*id)));
    assert!(staying.all(|id| ids.contains(&id)), "what stays: {told}");
    assert!(limit.is_none_or(|limit| values.len() <= usize::try_from(limit).expect("few")), "{told}");
}

#[test]
fn what_stays_is_found_by_each_of_many_searches_beside_a_writer() {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(4).build().expect("a runtime");
    for order in kinds::of_orders().filter(|order| order.kind().is_available()) {
        let order = order.name();
        let load = if order.ends_with("cloz") { OF_PAIRINGS } else { USUAL };
        runtime.block_on(async {
            let directory = tempfile::tempdir().expect("a folder");
            let engine = engine(&directory, order, load.stay).await;
            let writes = Arc::new(AtomicBool::new(true));
            let searching: Vec<_> = (0..load.searchers)
                .map(|searcher| {
                    let (engine, writes) = (engine.clone(), Arc::clone(&writes));
                    tokio::spawn(async move {
                        let mut dice = seed::prg(searcher, "searches beside a writer");
                        let mut done = 0;
                        while done < load.searches || writes.load(Ordering::Relaxed) {
                            search(&engine, load.stay, &mut dice).await;
                            done += 1;
                        }
                        done
                    })
                })
                .collect();
            write(&engine, load).await;
            writes.store(false, Ordering::Relaxed);
            let mut done = 0;
            for searching in searching {
                done += searching.await.unwrap_or_else(|error| panic!("{order}: {error}"));
            }
            eprintln!("{order}: {done} searches beside {} writes", load.writes);
        });
    }
}
