//! What a cursor has left, beside a plain queue.
#![allow(clippy::unwrap_used)]

use super::*;
use crate::Settings;
use crate::tests::{World, document, randomly};
use rand::RngExt;

#[tokio::test]
async fn documents_come_as_they_were_left_whether_there_is_memory_for_them_or_not() {
    let mut rng = randomly();
    for memory_bytes in [0, 16 * 1024, 1 << 30] {
        let world = World::with(Settings { memory_bytes, ..Settings::default() }).await;
        for _ in 0..30 {
            let (mut leftover, mut model) = (Leftover::default(), VecDeque::new());
            for _ in 0..60 {
                match rng.random_range(0..8) {
                    0 => leftover.rest(&world.shared).unwrap(),
                    1 if model.is_empty() => {
                        assert_eq!(leftover.pop().unwrap(), None);
                        let documents: Vec<Document> =
                            (0..rng.random_range(0..20)).map(|_| document(&mut rng, 2)).collect();
                        model.extend(documents.iter().cloned());
                        leftover.extend(documents);
                    }
                    2 => {
                        // It did not fit the batch.
                        if let Some(popped) = leftover.pop().unwrap() {
                            leftover.put_back(popped);
                        }
                    }
                    _ => assert_eq!(leftover.pop().unwrap(), model.pop_front()),
                }
            }
            leftover.rest(&world.shared).unwrap();
            while let Some(expected) = model.pop_front() {
                assert_eq!(leftover.pop().unwrap(), Some(expected));
            }
            assert_eq!(leftover.pop().unwrap(), None);
            leftover.rest(&world.shared).unwrap();
            assert_eq!(world.shared.budget.held_bytes(), 0, "nothing is held of nothing");
        }
    }
}

#[tokio::test]
async fn what_is_held_while_nobody_asks_has_a_share_and_what_has_none_is_put_down() {
    let world = World::with(Settings { memory_bytes: 64 * 1024, ..Settings::default() }).await;
    let documents = |count: usize| vec![bson::doc! { "text": "x".repeat(100) }; count];
    let held = || world.shared.budget.held_bytes();
    let mut few = Leftover::default();
    few.extend(documents(10));
    few.rest(&world.shared).unwrap();
    let of_few = held();
    assert!(of_few >= 10 * 100 && few.held.len() == 10);
    let mut many = Leftover::default();
    many.extend(documents(1_000));
    many.rest(&world.shared).unwrap();
    assert_eq!((many.held.len(), held()), (0, of_few), "they are on the disk");
    assert_eq!(std::iter::from_fn(|| many.pop().unwrap()).count(), 1_000);
    few.pop().unwrap();
    few.rest(&world.shared).unwrap();
    assert!((1..of_few).contains(&held()), "the share is of what is left");
    drop(few);
    assert_eq!(held(), 0);
}
