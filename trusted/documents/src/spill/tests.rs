#![allow(clippy::unwrap_used)]

use super::*;
use crate::pipeline::Pipeline;
use crate::sort::Sort;
use crate::sort::external::Sorter;
use bson::{Bson, doc};
use std::cell::Cell;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Runs in memory, counted.
#[derive(Default)]
pub(crate) struct Heap(pub(crate) AtomicUsize);

#[derive(Default)]
struct HeapRun(Vec<Vec<u8>>);

struct HeapReader(Arc<HeapRun>, usize);

/// Records that runs in memory took and gave, of all tests on this thread.
fn moved() -> usize {
    MOVED.with(Cell::get)
}

thread_local! {
    static MOVED: Cell<usize> = const { Cell::new(0) };
}

pub(crate) struct Runs(pub(crate) Arc<Heap>);

impl Spill for Runs {
    fn run(&self) -> Result<Box<dyn RunWriter>, QueryError> {
        self.0.0.fetch_add(1, Ordering::SeqCst);
        Ok(Box::<HeapRun>::default())
    }
}

impl RunWriter for HeapRun {
    fn append(&mut self, record: &[u8]) -> Result<(), QueryError> {
        MOVED.set(moved() + 1);
        self.0.push(record.to_vec());
        Ok(())
    }
    fn finish(self: Box<Self>) -> Result<Arc<dyn Run>, QueryError> {
        Ok(Arc::new(*self))
    }
}

impl Run for HeapRun {
    fn reader(self: Arc<Self>) -> Box<dyn RunReader> {
        Box::new(HeapReader(self, 0))
    }
}

impl RunReader for HeapReader {
    fn next(&mut self) -> Result<Option<Vec<u8>>, QueryError> {
        MOVED.set(moved() + 1);
        self.1 += 1;
        Ok(self.0.0.get(self.1 - 1).cloned())
    }
}

pub(crate) fn small() -> (Workspace, Arc<Heap>) {
    let heap = Arc::new(Heap::default());
    let spill: Arc<dyn Spill> = Arc::new(Runs(Arc::clone(&heap)));
    (Workspace { memory_bytes: 500, spill: Some(spill), pool: None, pause: None }, heap)
}

fn documents(count: i32) -> Vec<Document> {
    (0..count).map(|id| doc! { "_id": id, "a": id * 7919 % 31, "b": id % 3 }).collect()
}

#[test]
fn spilled_sorts_equal_those_in_memory() {
    for (count, kept) in [(0, None), (5, None), (3000, None), (3000, Some(100)), (700, Some(5)), (9, Some(0))]
    {
        let (workspace, heap) = small();
        let sort = Sort::parse(&doc! { "a": -1, "b": 1 }).expect("a sort");
        let mut sorter = Sorter::new(sort.clone(), kept, workspace);
        for (place, document) in documents(count).into_iter().enumerate() {
            sorter.push(document, place as u64).expect("room");
        }
        let mut sorted = sorter.finish().expect("room");
        let mut found = Vec::new();
        while let Some(document) = sorted.next().expect("read back") {
            found.push(document);
            if found.len() == 3 {
                while sorted.let_go().expect("room") {}
                assert_eq!(sorted.held_bytes(), 0);
            }
        }
        let mut wanted = sort.sort(documents(count)).unwrap();
        wanted.truncate(kept.unwrap_or(usize::MAX));
        assert_eq!(found, wanted, "{count} {kept:?}");
        assert_eq!(heap.0.load(Ordering::SeqCst) > 128, count == 3000 && kept != Some(5), "{count} {kept:?}");
    }
}

/// Most records that one call of a sort may move: a step's, each read and written, and one for each run that is opened.
const MOVED_MAX: usize = 3 * 128;

#[test]
fn no_call_of_a_sort_moves_more_than_a_step() {
    for (count, kept) in [(30_000, None), (30_000, Some(5000)), (5000, Some(400))] {
        let (workspace, _) = small();
        let workspace = Workspace { memory_bytes: 20_000, ..workspace };
        let sort = Sort::parse(&doc! { "a": -1, "b": 1 }).unwrap();
        let mut sorter = Sorter::new(sort.clone(), kept, workspace);
        let (mut before, mut most) = (moved(), 0);
        let mut step = || {
            most = most.max(moved() - before);
            before = moved();
        };
        let mut steps = 0;
        for (place, document) in documents(count).into_iter().enumerate() {
            let mut more = sorter.push(document, place as u64).unwrap();
            step();
            while more {
                more = sorter.advance().unwrap();
                steps += 1;
                step();
            }
        }
        let mut sorted = sorter.finish().unwrap();
        step();
        while sorted.open().unwrap() {
            step();
        }
        let mut found = Vec::new();
        while let Some(document) = sorted.next().unwrap() {
            step();
            found.push(document);
            while found.len() == 10 && sorted.let_go().unwrap() {
                step();
            }
        }
        let mut wanted = sort.sort(documents(count)).unwrap();
        wanted.truncate(kept.unwrap_or(usize::MAX));
        assert_eq!(found, wanted);
        assert!(most <= MOVED_MAX, "{most} records in one call");
        assert!(steps > 10, "{steps}");
    }
}

/// Counts how often it is asked, and says after so often that nobody waits.
struct Asked(AtomicUsize, usize);

impl Pause for Asked {
    fn pause(&self) -> Result<(), QueryError> {
        let asked = self.0.fetch_add(1, Ordering::SeqCst);
        if asked < self.1 { Ok(()) } else { Err(QueryError::new(11601, "Interrupted", "nobody waits")) }
    }
}

#[test]
fn stages_that_hold_documents_pause_between_steps() {
    for stages in [
        vec![doc! { "$sort": { "a": 1 } }, doc! { "$match": { "a": -1 } }],
        vec![doc! { "$sortByCount": "$_id" }, doc! { "$match": { "a": -1 } }],
        vec![doc! { "$group": { "_id": "$_id" } }, doc! { "$match": { "a": -1 } }],
        vec![doc! { "$facet": { "x": [{ "$match": { "a": -1 } }] } }],
    ] {
        let pipeline = Pipeline::parse(&stages).unwrap();
        let run = |most| {
            let asked = Arc::new(Asked(AtomicUsize::new(0), most));
            let pause = Some(Arc::clone(&asked) as Arc<dyn Pause>);
            let workspace = Workspace { memory_bytes: 20_000, pause, ..small().0 };
            let before = moved();
            let outcome = pipeline.run_in(documents(20_000).into_iter().map(Ok), &workspace).map(drop);
            (asked.0.load(Ordering::SeqCst), outcome.map_err(|error| error.code), moved() - before)
        };
        let (asked, outcome, moved) = run(usize::MAX);
        assert_eq!(outcome, Ok(()), "{stages:?}");
        assert!(asked >= moved / MOVED_MAX && asked > 20, "{asked} for {moved}: {stages:?}");
        let (_, outcome, _) = run(asked / 2);
        assert_eq!(outcome, Err(11601), "{stages:?}");
    }
}

#[test]
fn spilled_pipelines_equal_those_in_memory() {
    for stages in [
        vec![doc! { "$sort": { "a": 1 } }],
        vec![doc! { "$group": { "_id": "$a", "n": { "$sum": "$b" }, "all": { "$push": "$_id" } } }],
        vec![doc! { "$group": { "_id": "$_id", "n": { "$sum": "$missing" }, "l": { "$last": "$missing" } } }],
        vec![doc! { "$group": { "_id": null, "n": { "$sum": 1 } } }],
        vec![
            doc! { "$sortByCount": "$_id" },
            doc! { "$limit": 3 },
            doc! { "$project": { "count": 1, "_id": 0 } },
        ],
        vec![
            doc! { "$facet": { "n": [{ "$count": "n" }], "top": [{ "$sort": { "_id": -1 } }, { "$limit": 2 }] } },
        ],
        vec![doc! { "$match": { "b": { "$lt": 2 } } }],
    ] {
        let pipeline = Pipeline::parse(&stages).expect("a pipeline");
        let whole = pipeline.run(documents(2000)).expect("room");
        let (workspace, heap) = small();
        let input = documents(2000).into_iter().map(Ok);
        let mut spilled = pipeline.run_in(input, &workspace).expect("room");
        let mut found = Vec::new();
        while let Some(document) = spilled.next().expect("read back") {
            found.push(document);
        }
        let key = |document: &Document| crate::order::canonical(&Bson::Document(document.clone()));
        let (mut whole, mut found) = (whole, found);
        if stages.iter().all(|stage| stage.contains_key("$group")) {
            // Groups have no order.
            whole.sort_by_key(key);
            found.sort_by_key(key);
        }
        assert_eq!(found, whole, "{stages:?}");
        let grouped_by_nothing = stages == [doc! { "$group": { "_id": null, "n": { "$sum": 1 } } }];
        assert_eq!(heap.0.load(Ordering::SeqCst) == 0, grouped_by_nothing, "{stages:?}");
        let alone = Workspace { memory_bytes: 500, spill: None, pool: None, pause: None };
        let input = documents(2000).into_iter().map(Ok);
        let refused = pipeline.run_in(input, &alone).err().map(|error| error.code);
        assert_eq!(refused, (!grouped_by_nothing).then_some(292), "{stages:?}");
    }
}

/// So many bytes for everybody.
struct SharedMemory(std::sync::Mutex<usize>);

impl Pool for SharedMemory {
    fn take(&self, bytes: usize) -> bool {
        let mut left = self.0.lock().unwrap();
        let enough = bytes <= *left;
        *left -= if enough { bytes } else { 0 };
        enough
    }

    fn give_back(&self, bytes: usize) {
        *self.0.lock().unwrap() += bytes;
    }
}

#[test]
fn work_spills_when_others_leave_little_and_gives_back_what_it_had() {
    let body = "x".repeat(1000);
    let documents: Vec<Document> =
        (0..1000).map(|n| doc! { "_id": n, "n": n * 7919 % 1000, "body": &body }).collect();
    for stages in [
        vec![doc! { "$sort": { "n": 1 } }],
        vec![
            doc! { "$group": { "_id": "$n", "body": { "$first": "$body" } } },
            doc! { "$sort": { "_id": 1 } },
        ],
    ] {
        let pipeline = Pipeline::parse(&stages).unwrap();
        let expected = pipeline.run(documents.clone()).unwrap();
        for (left, spills) in [(4_000_000, false), (200_000, true), (0, true)] {
            let (_, heap) = small();
            let pool = Arc::new(SharedMemory(std::sync::Mutex::new(left)));
            let workspace = Workspace {
                memory_bytes: 10_000_000,
                spill: Some(Arc::new(Runs(Arc::clone(&heap)))),
                pool: Some(Arc::clone(&pool) as Arc<dyn Pool>),
                pause: None,
            };
            let mut result = pipeline.run_in(documents.iter().cloned().map(Ok), &workspace).unwrap();
            assert!(spills || *pool.0.lock().unwrap() < left, "what is held is taken");
            let made: Vec<Document> = std::iter::from_fn(|| result.next().unwrap()).collect();
            drop(result);
            assert_eq!(made, expected);
            assert_eq!(heap.0.load(Ordering::SeqCst) > 0, spills, "{left} bytes left by others");
            assert_eq!(*pool.0.lock().unwrap(), left);
        }
    }
}

#[test]
fn a_limit_whose_documents_just_fit_costs_no_more_than_another() {
    let next =
        |place: i32, way: i32| doc! { "a": if way == 0 { place * 7919 % 20_011 } else { place * way } };
    let bytes = held_bytes(&next(1, 1)).unwrap();
    for way in [0, 1, -1] {
        let documents: Vec<Document> = (0..20_000).map(|place| next(place, way)).collect();
        let sort = Sort::parse(&doc! { "a": 1 }).unwrap();
        let (workspace, heap) = small();
        let workspace = Workspace { memory_bytes: 2000 * bytes, ..workspace };
        let mut sorter = Sorter::new(sort.clone(), Some(2000), workspace);
        let mut steps = 0;
        for (place, document) in documents.iter().enumerate() {
            let mut more = sorter.push(document.clone(), place as u64).unwrap();
            while more {
                more = sorter.advance().unwrap();
                steps += 1;
            }
        }
        let mut sorted = sorter.finish().unwrap();
        let found: Vec<Document> = std::iter::from_fn(|| sorted.next().unwrap()).collect();
        assert_eq!(found, sort.sort(documents).unwrap()[..2000], "{way}");
        // Each document is moved about as often as it is let go of and written, a hundred at a time.
        assert!(steps < 20_000 * 5 / 100, "{steps} steps, {way}");
        assert!(heap.0.load(Ordering::SeqCst) < 15, "{way}");
    }
}
