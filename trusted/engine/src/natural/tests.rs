//! Matches that were met, until they are handed out.
#![allow(clippy::unwrap_used)]

use super::*;
use crate::Settings;
use crate::tests::{World, randomly};
use arras_records::IndexTerms;
use arras_service::Fault;
use bson::doc;
use rand::RngExt;
use rand::rngs::StdRng;

const BYTES: usize = 1_000;

/// Matches that are all met, with their documents.
fn met(world: &World, rng: &mut StdRng, count: u64) -> Natural {
    let collection = world.collection(Vec::new(), count);
    let budget = &world.shared.budget;
    let mut natural = Natural {
        collection,
        filter: Arc::new(Filter::all()),
        pending: VecDeque::new(),
        pending_bytes: 0,
        named: Rows::new(budget),
        rest: None,
        watch: Arc::new(world.shared.intents.ledger.watch()),
        alone: false,
        chunk: usize::MAX,
        share: budget.no_share(),
        places: budget.claim(),
    };
    let mut pending = Vec::new();
    for sequence in 0..count {
        let (row, terms) = (RowId(rng.random()), IndexTerms::default());
        let document = doc! { "a": sequence as i64 };
        let document = OpenDocument { row, version: [0; 8], sequence, terms, document, bytes: BYTES };
        pending.push(natural.pending(document));
    }
    natural.pending_bytes = held_bytes(&pending);
    natural.pending = pending.into();
    natural
}

#[tokio::test]
async fn documents_that_are_held_are_handed_out_in_their_order_without_being_asked_for_again() {
    let mut rng = randomly();
    let world = World::with(Settings { memory_bytes: 1 << 30, ..Settings::default() }).await;
    for _ in 0..20 {
        let count = rng.random_range(0..5_000);
        let mut natural = met(&world, &mut rng, count);
        let held = world.shared.budget.held_bytes();
        assert!(held >= count as usize * BYTES);
        let of_one = held / (count as usize).max(1);
        let mut came = Vec::new();
        loop {
            let wanted = rng.random_range(0..2_500);
            let Some(documents) = natural.next(&world.shared, wanted).await.unwrap() else { break };
            assert!((1..=wanted.clamp(1, DOCUMENTS_PER_STEP)).contains(&documents.len()));
            came.extend(documents.iter().map(|document| document.sequence));
            // What was handed out is not held for.
            assert_eq!(world.shared.budget.held_bytes(), (count as usize - came.len()) * of_one);
        }
        assert_eq!(came, (0..count).collect::<Vec<_>>());
        assert_eq!((natural.pending_bytes, world.shared.budget.held_bytes()), (0, 0));
    }
}

#[tokio::test]
async fn what_is_let_go_while_nobody_asks_is_left_by_name_in_its_order() {
    let mut rng = randomly();
    let world = World::with(Settings { memory_bytes: 1 << 20, ..Settings::default() }).await;
    let mut natural = met(&world, &mut rng, 10);
    natural.rest().unwrap();
    assert_eq!((natural.pending.len(), natural.named.len()), (10, 0), "others leave room for them");
    let _others = world.shared.budget.share(20_000).unwrap();
    let rows: Vec<RowId> = natural.pending.iter().map(|next| next.row).collect();
    natural.rest().unwrap();
    assert_eq!((natural.pending.len(), natural.pending_bytes), (0, 0));
    assert_eq!(*natural.named, rows);
    // They have to be read again, and the server is away.
    assert_eq!(natural.next(&world.shared, 3).await.unwrap_err().fault, Fault::Unreachable);
}

#[tokio::test]
async fn documents_that_there_is_no_room_for_keep_their_places() {
    let mut rng = randomly();
    let world = World::with(Settings { memory_bytes: 256 * 1024, ..Settings::default() }).await;
    let mut natural = met(&world, &mut rng, 50);
    let held = natural.pending.iter().take_while(|next| next.document.is_some()).count();
    assert!((1..50).contains(&held), "{held}");
    let documents = natural.next(&world.shared, 50).await.unwrap().unwrap();
    let sequences: Vec<u64> = documents.iter().map(|document| document.sequence).collect();
    assert_eq!(sequences, (0..held as u64).collect::<Vec<_>>(), "those before the first that is let go");
    assert_eq!(natural.next(&world.shared, 50).await.unwrap_err().fault, Fault::Unreachable);
}

#[tokio::test]
async fn one_that_changes_documents_meets_them_in_the_order_of_their_rows() {
    let mut rng = randomly();
    let world = World::with(Settings { memory_bytes: 1 << 30, ..Settings::default() }).await;
    let mut together = met(&world, &mut rng, 100);
    together.forget_order(100);
    let documents = together.next(&world.shared, 100).await.unwrap().unwrap();
    assert!(
        documents.is_sorted_by_key(|document| document.sequence),
        "what is written together is mixed then"
    );
    let mut natural = met(&world, &mut rng, 100);
    natural.forget_order(99);
    let mut found = Found::All(Box::new(natural));
    let documents = found.next(&world.shared, 100).await.unwrap().unwrap();
    assert!(documents.is_sorted_by_key(|document| document.row));
    assert!(!documents.is_sorted_by_key(|document| document.sequence));
    assert_eq!(documents.len(), 100);
    let mut one = Found::One(Some(Box::new(documents[0].clone())));
    one.forget_order(0);
    assert_eq!(one.next(&world.shared, 9).await.unwrap().unwrap(), documents[..1]);
    assert!(one.next(&world.shared, 9).await.unwrap().is_none());
}
