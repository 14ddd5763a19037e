//! What replies to a scan must be, beside what the proxy counts.
#![allow(clippy::unwrap_used)]

use super::*;
use crate::tests::{World, randomly};
use arras_protocol::write::Step;
use arras_protocol::{Blob, OperationId};
use rand::RngExt;

fn row(number: u8) -> RowId {
    RowId([number; 16])
}

fn accept(scan: &mut Scan, rows: &[u8], more: bool) -> Result<(), ServiceError> {
    scan.accept(rows.iter().map(|number| row(*number)), more)
}

fn is_lie(outcome: Result<(), ServiceError>) -> bool {
    outcome.is_err_and(|error| error.fault == Fault::Corruption)
}

/// A write that inserts or deletes a document, under way.
fn write(world: &World, collection: &Collection, sequence: u64, insert: bool) -> OperationId {
    let operation = OperationId { epoch: 9, sequence };
    let (id, row) = (collection.id, RowId([sequence as u8; 16]));
    let document = documents::SealedDocument { row, header: Blob(Vec::new()), values: Blob(Vec::new()) };
    let change = match insert {
        true => documents::Change::Put { collection: id, document, insert: true },
        false => documents::Change::Delete { collection: id, row },
    };
    world.shared.intents.ledger.begin(operation, &[Step::Documents(change)], &[]);
    operation
}

#[tokio::test]
async fn rows_that_do_not_ascend_over_all_replies_are_refused() {
    let world = World::new("").await;
    let collection = world.collection(Vec::new(), 100);
    let scan = || Scan::new(&world.shared, &collection, 10);
    assert!(accept(&mut scan(), &[1, 2, 9], true).is_ok());
    for first in [&[2_u8, 1][..], &[1, 1], &[1, 2, 2, 3], &[3, 5, 4]] {
        assert!(is_lie(accept(&mut scan(), first, true)), "{first:?}");
    }
    for (second, lies) in
        [(&[4_u8, 5][..], false), (&[3, 4], true), (&[1], true), (&[5, 4], true), (&[], true)]
    {
        let mut scan = scan();
        accept(&mut scan, &[1, 3], true).unwrap();
        assert_eq!(is_lie(accept(&mut scan, second, true)), lies, "{second:?}");
    }
}

#[tokio::test]
async fn a_scan_must_meet_as_many_documents_as_there_can_be() {
    let mut rng = randomly();
    let world = World::new("").await;
    let collection = world.collection(Vec::new(), 20);
    let ledger = &world.shared.intents.ledger;
    let mut sequence = 0;
    for _ in 0..300 {
        let documents = ledger.documents(collection.id).unwrap();
        let (mut inserts, mut deletes, mut under_way) = (0, 0, Vec::new());
        let mut begin = |is_insert: bool, under_way: &mut Vec<OperationId>| {
            sequence += 1;
            under_way.push(write(&world, &collection, sequence, is_insert));
            if is_insert { inserts += 1 } else { deletes += 1 }
        };
        for _ in 0..rng.random_range(0..3) {
            begin(rng.random::<bool>() || documents < 15, &mut under_way);
        }
        let mut scan = Scan::new(&world.shared, &collection, 10);
        for _ in 0..rng.random_range(0..3) {
            begin(rng.random::<bool>() && documents < 25, &mut under_way);
        }
        // Whatever becomes of them, and whenever.
        let (ended, left) = under_way.split_at(rng.random_range(0..=under_way.len()));
        ended.iter().for_each(|operation| drop(ledger.end(*operation, rng.random(), &world.shared.local)));
        let met = rng.random_range(documents - 5..documents + 6);
        let rows: Vec<u8> = (1..=met as u8).collect();
        let split = rng.random_range(1..rows.len());
        accept(&mut scan, &rows[..split], true).unwrap();
        let is_possible = (documents - deletes..=documents + inserts).contains(&met);
        assert_eq!(is_lie(accept(&mut scan, &rows[split..], false)), !is_possible, "{met} of {documents}");
        left.iter().for_each(|operation| drop(ledger.end(*operation, true, &world.shared.local)));
    }
}

#[tokio::test]
async fn a_scan_of_who_writes_alone_meets_what_there_was_when_it_began() {
    let world = World::new("").await;
    let collection = world.collection(Vec::new(), 3);
    let ledger = &world.shared.intents.ledger;
    let scan = |alone| Scan::new(&world.shared, &collection, 10).alone(alone);
    let [mut alone, mut beside] = [true, false].map(scan);
    // What it changes as it goes changes nothing about what it meets.
    let operation = write(&world, &collection, 1, true);
    ledger.end(operation, true, &world.shared.local);
    assert!(is_lie(accept(&mut alone, &[1, 2, 3, 4], false)));
    assert!(accept(&mut beside, &[1, 2, 3, 4], false).is_ok());
    // A write of which nobody knows the outcome is nobody's who is alone.
    let operation = write(&world, &collection, 2, true);
    for met in [&[1_u8, 2, 3, 4][..], &[1, 2, 3, 4, 5]] {
        assert!(accept(&mut scan(true), met, false).is_ok(), "{met:?}");
    }
    ledger.end(operation, false, &world.shared.local);
    assert!(accept(&mut scan(true), &[1, 2, 3, 4], false).is_ok());
    assert!(is_lie(accept(&mut scan(true), &[1, 2, 3], false)));
}

#[tokio::test]
async fn a_collection_that_is_gone_has_no_count_and_one_that_is_counted_is_not_read() {
    let world = World::new("").await;
    let collection = world.collection(Vec::new(), 3);
    assert_eq!(world.shared.document_count(&collection).unwrap(), 3);
    // The server is away: it is not asked.
    world.shared.count_once(&collection).await.unwrap();
    let operation = OperationId { epoch: 9, sequence: 1 };
    let drop = documents::Change::DropCollection { collection: collection.id };
    world.shared.intents.ledger.begin(operation, &[Step::Documents(drop)], &[]);
    world.shared.intents.ledger.end(operation, true, &world.shared.local);
    assert_eq!(world.shared.document_count(&collection).unwrap_err().fault, Fault::NamespaceNotFound);
    assert_eq!(world.shared.count_once(&collection).await.unwrap_err().fault, Fault::Unreachable);
}
