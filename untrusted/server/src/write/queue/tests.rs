//! Writes that share a commit.
#![allow(clippy::indexing_slicing, clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use super::*;
use crate::documents;
use arras_protocol::write::Step;
use arras_protocol::{Blob, CollectionId, OperationId, RowId};
use arras_storage::{Accounted, Failing, Memory};
use std::thread::ScopedJoinHandle;

const COLLECTION: CollectionId = CollectionId([7; 8]);
const NOTHING_FINISHED: OperationId = OperationId { epoch: 0, sequence: 0 };

fn insert(sequence: u64, rows: &[u8]) -> Request {
    let put = |row: &u8| {
        let row = RowId([*row; RowId::BYTES]);
        let document =
            arras_protocol::documents::SealedDocument { row, header: Blob(vec![1]), values: Blob(vec![]) };
        let collection = COLLECTION;
        Step::Documents(arras_protocol::documents::Change::Put { collection, document, insert: true })
    };
    let operation = Some(OperationId { epoch: 1, sequence });
    Request {
        operation,
        finished_below: NOTHING_FINISHED,
        acknowledged: 0,
        steps: rows.iter().map(put).collect(),
    }
}

/// Whether a write was applied.
fn alone<S: Storage>(store: &S, queue: &Queue, request: Request) -> Result<bool, Refusal> {
    queue.answer(store, Writer::InProcess, request, 100).map(|response| response.applied)
}

/// A store with an empty collection.
fn prepared<S: Storage>(store: &S, queue: &Queue) {
    let create = arras_protocol::documents::Change::CreateCollection { collection: COLLECTION };
    let operation = Some(OperationId { epoch: 1, sequence: 0 });
    let steps = vec![Step::Documents(create)];
    let request = Request { operation, finished_below: NOTHING_FINISHED, acknowledged: 0, steps };
    assert_eq!(alone(store, queue, request), APPLIED);
}

fn rows(store: &impl Storage) -> Vec<u8> {
    let request = arras_protocol::documents::Request::Scan {
        collection: COLLECTION,
        after: None,
        documents_max: u32::MAX,
    };
    match arras_protocol::codec::decode::<arras_protocol::documents::Response>(
        &documents::answer(store, request).unwrap(),
    )
    .unwrap()
    {
        arras_protocol::documents::Response::Documents { documents, .. } => {
            documents.iter().map(|document| document.row.0[0]).collect()
        }
        other => panic!("{other:?}"),
    }
}

/// Sends the requests while the store is held by somebody else, one after the other, so that all wait for it.
fn together<S: Storage>(store: &S, queue: &Queue, requests: Vec<Request>) -> Vec<Result<bool, Refusal>> {
    let held = store.write().unwrap();
    std::thread::scope(|scope| {
        let mut senders: Vec<ScopedJoinHandle<'_, _>> = Vec::new();
        for request in requests {
            senders.push(scope.spawn(|| alone(store, queue, request)));
            while queue.state().waiting.len() < senders.len() {
                std::thread::yield_now();
            }
        }
        drop(held);
        senders.into_iter().map(|sender| sender.join().unwrap()).collect()
    })
}

const APPLIED: Result<bool, Refusal> = Ok(true);

#[test]
fn writes_that_wait_share_one_durable_commit() {
    let (store, queue) = (Accounted::new(Memory::new()), Queue::default());
    prepared(&store, &queue);
    let before = store.tally().counts();
    let requests = (1..=20).map(|number| insert(number, &[number as u8])).collect();
    assert_eq!(together(&store, &queue, requests), vec![APPLIED; 20]);
    assert_eq!((store.tally().counts() - before).durable_commits, 1);
    assert_eq!(rows(&store), (1..=20).collect::<Vec<u8>>());
    // Nobody is left leading.
    assert_eq!(alone(&store, &queue, insert(30, &[30])), APPLIED);
}

#[test]
fn a_refused_write_among_others_is_rolled_back_alone() {
    let (store, queue) = (Memory::new(), Queue::default());
    prepared(&store, &queue);
    // The second one's first row is new, its second one is the first's.
    let requests = vec![insert(1, &[1]), insert(2, &[2, 1]), insert(3, &[3]), insert(4, &[2])];
    let answers = together(&store, &queue, requests);
    assert_eq!(answers, [APPLIED, Err(Refusal::Conflict { step: 1 }), APPLIED, APPLIED]);
    assert_eq!(rows(&store), [1, 2, 3]);
    // The refused one was not remembered as applied.
    assert_eq!(alone(&store, &queue, insert(2, &[9])), APPLIED);
}

/// Whatever connection it comes on: a store that was put back under a running server is found out by the next write.
#[test]
fn a_write_to_a_store_that_counts_fewer_than_were_acknowledged_changes_nothing() {
    let (store, queue) = (Memory::new(), Queue::default());
    prepared(&store, &queue);
    let after = |acknowledged, number: u64| Request { acknowledged, ..insert(number, &[number as u8]) };
    assert_eq!(alone(&store, &queue, after(1, 1)), APPLIED);
    assert_eq!(alone(&store, &queue, after(3, 2)), Err(Refusal::SetBack));
    let answers = together(&store, &queue, vec![after(2, 3), after(9, 4), after(2, 5)]);
    assert_eq!(answers, [APPLIED, Err(Refusal::SetBack), APPLIED]);
    assert_eq!(rows(&store), [1, 3, 5]);
}

#[test]
fn one_operation_that_comes_twice_is_applied_once() {
    let (store, queue) = (Memory::new(), Queue::default());
    prepared(&store, &queue);
    let answers = together(&store, &queue, vec![insert(1, &[1]), insert(1, &[1]), insert(2, &[2])]);
    assert_eq!(answers, [APPLIED, Ok(false), APPLIED]);
    assert_eq!(rows(&store), [1, 2]);
}

#[test]
fn a_commit_that_fails_is_everybodys_refusal_and_nobodys_write() {
    let (store, queue) = (Failing::new(Memory::new()), Queue::default());
    prepared(&store, &queue);
    store.faults().fail_commit_after(0);
    // What refuses the second one was never committed: it hears of the store like the others.
    for answer in together(&store, &queue, vec![insert(1, &[1]), insert(2, &[1]), insert(3, &[3])]) {
        assert!(matches!(answer, Err(Refusal::Storage(_))), "{answer:?}");
    }
    assert!(rows(&store).is_empty());
    assert_eq!(together(&store, &queue, vec![insert(1, &[1]), insert(3, &[3])]), [APPLIED, APPLIED]);
    assert_eq!(rows(&store), [1, 3]);
}

#[test]
fn the_lead_passes_on_when_its_holder_panics() {
    let (store, queue) = (Memory::new(), Queue::default());
    prepared(&store, &queue);
    let (signal, signals) = sync_channel(2);
    assert!(queue.join(Waiting {
        by: Author::InProcess,
        request: insert(1, &[1]),
        request_bytes: 1,
        signal
    }));
    let lead = Lead { queue: &queue };
    std::thread::scope(|scope| {
        let other = scope.spawn(|| alone(&store, &queue, insert(2, &[2])));
        while queue.state().waiting.len() < 2 {
            std::thread::yield_now();
        }
        let panicked = scope.spawn(move || {
            let _lead = lead;
            drop(lead_taken(signals));
        });
        panicked.join().unwrap_err();
        assert_eq!(other.join().unwrap(), APPLIED);
    });
    assert_eq!(rows(&store), [2]);
}

/// Gives up what the panicking leader waited with.
fn lead_taken(signals: Receiver<Signal>) -> Receiver<Signal> {
    drop(signals);
    panic!("a leader's panic, on purpose");
}
