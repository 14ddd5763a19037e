//! A server that repeats, drops, reorders, withholds and invents, in every kind of reply: each query gives the right
//! answer or an error, never a wrong one.

mod beside;
mod channel;
mod equality;
mod world;

use bson::{Bson, Document, doc};
use channel::{Lie, Told};
use world::World;

/// What one command came to.
#[derive(Debug, PartialEq)]
enum Outcome {
    Answer(Document),
    Error(String),
}

/// A command, and what must hold after it.
struct Shape {
    command: Document,
    /// It asks by `_id` or by a unique value alone: nothing the proxy keeps says whether there is one, so a denial
    /// cannot be told from the truth (THREATS.md).
    deniable: bool,
}

fn shape(command: Document) -> Shape {
    Shape { command, deniable: false }
}

fn deniable(command: Document) -> Shape {
    Shape { command, deniable: true }
}

/// The queries: every way to get at documents.
fn queries() -> Vec<Shape> {
    let group = doc! { "$group": { "_id": Bson::Null, "sum": { "$sum": "$n" }, "count": { "$sum": 1 } } };
    vec![
        shape(doc! { "find": "c" }),
        shape(doc! { "find": "c", "filter": { "n": { "$gte": 10 } } }),
        shape(doc! { "find": "c", "limit": 3 }),
        shape(doc! { "find": "c", "skip": 55 }),
        shape(doc! { "find": "c", "sort": { "n": -1 } }),
        shape(doc! { "find": "c", "sort": { "a": -1, "_id": 1 }, "limit": 7 }),
        shape(doc! { "find": "c", "filter": { "a": 2 } }),
        shape(doc! { "find": "c", "filter": { "a": { "$in": [1, 3, 9] } } }),
        shape(doc! { "find": "c", "filter": { "a": { "$gte": 1, "$lt": 3 } } }),
        shape(doc! { "find": "c", "filter": { "$or": [{ "a": 1 }, { "a": { "$gt": 3 } }] } }),
        deniable(doc! { "find": "c", "filter": { "u": { "$in": [5, 6, 7] } } }),
        deniable(doc! { "find": "c", "filter": { "_id": { "$in": [1, 2, 3] } } }),
        shape(doc! { "count": "c" }),
        shape(doc! { "count": "c", "query": { "n": { "$lt": 5 } } }),
        shape(doc! { "count": "c", "query": { "a": 4 } }),
        shape(doc! { "distinct": "c", "key": "n" }),
        shape(doc! { "aggregate": "c", "pipeline": [group.clone()], "cursor": {} }),
        shape(
            doc! { "aggregate": "c", "pipeline": [{ "$match": { "a": { "$gte": 2 } } }, group], "cursor": {} },
        ),
    ]
}

#[tokio::test(flavor = "multi_thread")]
async fn no_query_gives_a_wrong_answer() {
    let world = World::new(60).await;
    let mut client = world.connect().await;
    for shape in queries() {
        let honest = world.outcome(&mut client, &shape.command).await;
        assert!(matches!(honest, Outcome::Answer(_)), "{honest:?}");
        let mut told = Told::default();
        for lie in Lie::ALL {
            for turn in 0..12 {
                world.channel.arm(lie, turn, shape.deniable);
                let outcome = world.outcome(&mut client, &shape.command).await;
                let was_told = world.channel.disarm();
                told.note(was_told, matches!(outcome, Outcome::Error(_)));
                let right = outcome == honest || matches!(outcome, Outcome::Error(_));
                assert!(right, "{lie:?} at {turn} in {}\n{outcome:?}\nis not\n{honest:?}", shape.command);
                assert!(was_told > 0 || outcome == honest, "an honest server was refused: {outcome:?}");
            }
        }
        assert_eq!(world.outcome(&mut client, &shape.command).await, honest, "a lie lasts");
        // The proxy knows how many documents there are, and how many entries a value has.
        let counts = [doc! { "count": "c" }, doc! { "count": "c", "query": { "a": 4 } }];
        if !counts.contains(&shape.command) {
            assert!(told.lies > 0 && told.refused > 0, "{told:?} in {}", shape.command);
        }
    }
    assert_eq!(world.channel.counts_asked(), 0, "the proxy's counts are its own");
}

#[tokio::test(flavor = "multi_thread")]
async fn no_change_is_made_to_what_a_lie_shows() {
    let world = World::new(60).await;
    let mut client = world.connect().await;
    let increment = |query: Document| {
        doc! { "update": "c", "updates": [{ "q": query, "u": { "$inc": { "m": 1 } }, "multi": true }] }
    };
    let one = doc! { "findAndModify": "c", "query": { "n": 5 }, "update": { "$inc": { "m": 1 } } };
    let commands = [
        (increment(doc! {}), 60),
        (increment(doc! { "n": { "$lt": 30 } }), 30),
        (increment(doc! { "a": 3 }), 12),
        (increment(doc! { "a": { "$gte": 3 } }), 24),
        (one, 1),
    ];
    let mut told = Told::default();
    for (command, changes) in commands {
        for lie in Lie::ALL {
            for turn in 0..6 {
                let before = world.sum(&mut client, "m").await;
                world.channel.forget();
                world.channel.arm(lie, turn, false);
                let outcome = world.outcome(&mut client, &command).await;
                let was_told = world.channel.disarm();
                told.note(was_told, matches!(outcome, Outcome::Error(_)));
                let done = world.sum(&mut client, "m").await - before;
                let expected = if matches!(outcome, Outcome::Answer(_)) { changes } else { 0 };
                assert_eq!(done, expected, "{lie:?} at {turn} in {command}: {outcome:?}");
                assert!(was_told > 0 || matches!(outcome, Outcome::Answer(_)), "{outcome:?}");
            }
        }
    }
    assert!(told.lies > 0 && told.refused > 0, "{told:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_deletion_removes_all_or_nothing_and_an_index_holds_all_or_is_not_made() {
    let world = World::new(60).await;
    let mut client = world.connect().await;
    let count = doc! { "count": "c" };
    let by_n = doc! { "find": "c", "filter": { "n": { "$gte": 20, "$lt": 40 } }, "sort": { "_id": 1 } };
    let honest = world.outcome(&mut client, &by_n).await;
    let mut told = Told::default();
    for lie in Lie::ALL {
        for turn in 0..10 {
            let delete = doc! { "delete": "c", "deletes": [{ "q": { "a": 2 }, "limit": 0 }] };
            world.channel.forget();
            world.channel.arm(lie, turn, false);
            let outcome = world.outcome(&mut client, &delete).await;
            told.note(world.channel.disarm(), matches!(outcome, Outcome::Error(_)));
            let left = if matches!(outcome, Outcome::Answer(_)) { 48 } else { 60 };
            let Outcome::Answer(counted) = world.outcome(&mut client, &count).await else {
                panic!("a count")
            };
            assert_eq!(counted.get_i32("n").unwrap(), left, "{lie:?} at {turn}: {outcome:?}");
            assert_eq!(world.all(&mut client).await.len(), usize::try_from(left).unwrap());
            if left < 60 {
                client.ok(world::insert((0..60).filter(|number| number % 5 == 2))).await;
            }

            let index = doc! { "createIndexes": "c", "indexes": [{ "key": { "n": 1 }, "name": "n" }] };
            world.channel.forget();
            world.channel.arm(lie, turn, false);
            let outcome = world.outcome(&mut client, &index).await;
            told.note(world.channel.disarm(), matches!(outcome, Outcome::Error(_)));
            assert_eq!(world.outcome(&mut client, &by_n).await, honest, "{lie:?} at {turn}: {outcome:?}");
            if matches!(outcome, Outcome::Answer(_)) {
                client.ok(doc! { "dropIndexes": "c", "index": "n" }).await;
            }
        }
    }
    assert!(told.lies > 0 && told.refused > 0, "{told:?}");
}
