//! What the server sees of values that come, go and come back, of constants that are not stored, and of changes beside searches.

use super::Encoded;
use crate::body::{Item, Pair, entries};
use crate::crossing::{Crossed, now};
use crate::world::{Wire, memory, run};
use arras_protocol::Order;
use arras_protocol::mope::index::{Change, Listed, Mope, Request, Response, Update};
use arras_protocol::ore::Width;
use arras_protocol::{Blob, Channel, ChannelError};
use arras_schemes::contract::{RangeQuery, RangeSearch};
use arras_schemes::mope::Kind;
use arras_schemes::ore::domain::plaintext_key;
use arras_schemes::traits::RangeIndex;
use arras_storage::{Direction, Failing, Memory, Read, Storage, Table};
use std::collections::HashMap;
use std::ops::{Bound, ControlFlow};
use std::sync::{Arc, Mutex};

const WIDTH: Width = Width::Bits32;

fn form(kind: Kind) -> Encoded {
    Encoded(kind, WIDTH, true)
}

/// All of a table.
fn table(wire: &Wire<Failing<Memory>>, name: &'static str) -> Vec<(Vec<u8>, Vec<u8>)> {
    let (mut all, everything) = (Vec::new(), (Bound::Unbounded, Bound::Unbounded));
    let reader = wire.backend().store().read().expect("memory does not fail");
    let visit = &mut |key: &[u8], value: &[u8]| {
        all.push((key.to_vec(), value.to_vec()));
        ControlFlow::Continue(())
    };
    reader.scan(Table(name), everything, Direction::Ascending, visit).expect("memory does not fail");
    all
}

/// Everything the server has of the index.
fn stored(wire: &Wire<Failing<Memory>>) -> Vec<Vec<(Vec<u8>, Vec<u8>)>> {
    ["mope_indexes", "mope_nodes", "mope_table", "mope_labels", "mope_entries"]
        .into_iter()
        .map(|name| table(wire, name))
        .collect()
}

#[test]
fn a_value_that_comes_back_is_known_again_in_mope_and_in_stope_is_not() {
    run(async {
        for kind in [Kind::Mope, Kind::Stope] {
            let world = memory();
            let pair = Pair::open(&form(kind), &world).await;
            pair.insert(&[(10, 1), (20, 2), (30, 3)]).await;
            let before = [table(&world.wire, "mope_table"), table(&world.wire, "mope_entries")];
            pair.remove(&[(20, 2)]).await;
            let without = [table(&world.wire, "mope_table"), table(&world.wire, "mope_entries")];
            assert_eq!(without[1].len(), 2);
            assert_eq!(without[0].len(), if kind == Kind::Mope { 3 } else { 2 });
            pair.insert(&[(20, 2)]).await;
            let after = [table(&world.wire, "mope_table"), table(&world.wire, "mope_entries")];
            pair.check_all().await;
            for (before, after) in before.iter().zip(&after) {
                let again =
                    after.iter().filter(|(name, _)| before.iter().any(|(old, _)| old == name)).count();
                assert_eq!((after.len(), again), (3, if kind == Kind::Mope { 3 } else { 2 }), "{kind:?}");
            }
        }
    });
}

#[test]
fn searches_leave_no_trace_whether_their_constants_are_stored_or_not() {
    run(async {
        for kind in [Kind::Mope, Kind::Stope] {
            let world = memory();
            let pair = Pair::open(&form(kind), &world).await;
            let items: Vec<Item> = (0..200).map(|number| (u64::from(number) * 3, number)).collect();
            pair.insert(&items).await;
            let before = stored(&world.wire);
            for lower in 0..60 {
                pair.check(lower, lower + 7, Order::Descending, Some(2)).await;
            }
            assert!(stored(&world.wire) == before);
        }
    });
}

/// Ciphertexts and names as numbers, and what was told of them.
type Told = (HashMap<Vec<u8>, usize>, Vec<String>);

/// What a server is told, with each ciphertext and name as the number of its first coming.
#[derive(Clone)]
struct Watched {
    wire: Wire<Failing<Memory>>,
    seen: Arc<Mutex<Told>>,
}

impl Watched {
    fn note(&self, request: &Request) {
        let (names, lines) = &mut *self.seen.lock().expect("no test panicked here");
        let mut number = |bytes: &[u8]| {
            let next = names.len();
            *names.entry(bytes.to_vec()).or_insert(next)
        };
        let mut listed = |entries: &[Listed]| {
            // They come in a random order.
            let mut numbers: Vec<_> =
                entries.iter().map(|entry| (number(&entry.ciphertext.0), number(&entry.sealed.0))).collect();
            numbers.sort_unstable();
            format!("{numbers:?}")
        };
        lines.push(match request {
            Request::Fetch { fetch, .. } => format!("fetch {:?} {}", fetch.nodes, fetch.root),
            Request::Look { entries, .. } => format!("look {}", listed(entries)),
            Request::Search { search, .. } => {
                let mut end = |bound: &Option<arras_protocol::mope::index::Bound>| {
                    bound.as_ref().map(|bound| {
                        listed(&[Listed {
                            ciphertext: bound.ciphertext.clone(),
                            sealed: arras_protocol::mope::index::SealedRow([0; 32]),
                        }])
                    })
                };
                format!("search {:?} {:?}", end(&search.lower), end(&search.upper))
            }
            Request::Change(Change::Update { update: Update { removed, tree, added }, .. }) => {
                let (removed, added) = (listed(removed), listed(added));
                let tree = tree.as_ref().map(|tree| {
                    let mut ciphertext = |ciphertext: &Blob| number(&ciphertext.0);
                    let nodes = tree.nodes.iter().map(|(node, bytes)| (*node, bytes.as_ref().map(Blob::len)));
                    format!(
                        "{:?} {:?} {:?} {:?} {:?}",
                        (tree.expected, tree.head.version, tree.head.root, tree.head.next, tree.head.values),
                        nodes.collect::<Vec<_>>(),
                        tree.left.iter().map(&mut ciphertext).collect::<Vec<_>>(),
                        tree.summaries,
                        tree.entered.iter().map(|(it, label)| (ciphertext(it), *label)).collect::<Vec<_>>(),
                    )
                });
                format!("update {removed} {tree:?} {added}")
            }
            Request::Change(change) => format!("{change:?}"),
        });
    }
}

impl Channel<Mope> for Watched {
    async fn call(&self, request: Request) -> Result<Response, ChannelError> {
        self.note(&request);
        Channel::<Mope>::call(&self.wire, request).await
    }
}

/// One step of a history: a value comes or goes, or a range is looked for.
#[derive(Clone, Copy)]
enum Event {
    Comes(u64, u8),
    Goes(u64, u8),
    Asked(u64, u64),
}

async fn view(kind: Kind, history: &[Event]) -> Vec<String> {
    let watched = Watched { wire: memory().wire, seen: Arc::default() };
    let index = form(kind).reopen(watched.clone(), None).await.expect("an empty index");
    for event in history {
        match *event {
            Event::Comes(value, row) => index.insert(entries(WIDTH, &[(value, row)])).await.expect("inserts"),
            Event::Goes(value, row) => index.remove(entries(WIDTH, &[(value, row)])).await.expect("removes"),
            Event::Asked(lower, upper) => {
                let [low, high] = [lower, upper].map(|value| plaintext_key(WIDTH, value));
                index.search(low, high, Order::Ascending, None).await.map(drop).expect("searches");
            }
        }
    }
    std::mem::take(&mut watched.seen.lock().expect("no test panicked here").1)
}

/// A history in which values come back, and another in which others come in their place: between the same neighbours.
fn histories() -> [Vec<Event>; 2] {
    use Event::{Asked, Comes, Goes};
    let common = |stretch: u64| {
        let mut events: Vec<Event> =
            (0..200_u8).map(|row| Comes(u64::from(row) * 37 % 211 * stretch, row)).collect();
        events.extend((0..200_u8).step_by(3).map(|row| Goes(u64::from(row) * 37 % 211 * stretch, row)));
        events
    };
    let [mut same, mut other] = [common(10), common(1000)];
    for row in (0..200_u8).step_by(3) {
        let value = u64::from(row) * 37 % 211;
        same.push(Comes(value * 10, row));
        // Not the value that went: one beside it.
        other.push(Comes(value * 1000 + 1 + u64::from(row), row));
    }
    same.extend([Asked(205, 333), Asked(2, 3)]);
    other.extend([Asked(20_900, 33_300), Asked(999, 999)]);
    [same, other]
}

#[test]
fn histories_of_the_same_order_at_the_same_time_look_the_same_in_stope() {
    run(async {
        let [same, other] = histories();
        let (one, two) = (view(Kind::Stope, &same).await, view(Kind::Stope, &other).await);
        for (one, two) in one.iter().zip(&two) {
            assert_eq!(one, two);
        }
        assert_eq!(one.len(), two.len());
        // In mOPE they do not: a value that comes back is known again.
        assert!(view(Kind::Mope, &same).await != view(Kind::Mope, &other).await);
    });
}

#[test]
fn histories_of_the_same_order_look_the_same_in_mope() {
    run(async {
        let [same, _] = histories();
        let stretched = same.iter().map(|event| match *event {
            Event::Comes(value, row) => Event::Comes(value * value + 3, row),
            Event::Goes(value, row) => Event::Goes(value * value + 3, row),
            Event::Asked(lower, upper) => Event::Asked(lower * lower + 3, upper * upper + 3),
        });
        let stretched: Vec<Event> = stretched.collect();
        assert_eq!(view(Kind::Mope, &same).await, view(Kind::Mope, &stretched).await);
    });
}

#[test]
fn an_end_that_leaves_the_tree_beneath_a_search_is_looked_for_again() {
    let world = memory();
    let crossed = Crossed::new(&world.wire);
    let encoded = form(Kind::Stope);
    let index = now(encoded.reopen(crossed.clone(), None)).expect("an empty index");
    let writer = now(encoded.reopen(world.wire.clone(), None)).expect("the same");
    let items: Vec<Item> = (0..10).map(|number| (u64::from(number) * 10, number)).collect();
    now(index.insert(entries(WIDTH, &items))).expect("inserts");
    // Before each of the first searches, its ends go, and what is between them changes.
    let mut turn = 0_u8;
    crossed.set(move |_, request| {
        if matches!(request, Request::Search { .. }) && turn < 2 {
            now(writer.remove(entries(WIDTH, &[(20 - u64::from(turn) * 10, 2 - turn)]))).expect("removes");
            now(writer.insert(entries(WIDTH, &[(35 + u64::from(turn), 100 + turn)]))).expect("inserts");
            turn += 1;
        }
    });
    let [low, high] = [25, 44].map(|value| plaintext_key(WIDTH, value));
    let found = now(index.search(low, high, Order::Ascending, None)).expect("searches");
    let keys: Vec<Vec<u8>> = found.into_iter().map(|(key, _)| key).collect();
    assert_eq!(keys, [30, 35, 36, 40].map(|value| plaintext_key(WIDTH, value)));
}

/// The rows of one value, page by page; the value beyond goes behind the first page.
fn found_beside_a_far_end_that_goes(order: Order) -> usize {
    let world = memory();
    let encoded = form(Kind::Stope);
    let index = Arc::new(now(encoded.reopen(world.wire.clone(), None)).expect("an empty index"));
    let writer = now(encoded.reopen(world.wire.clone(), None)).expect("the same");
    let ends = [(5, 200), (25, 201)];
    let items: Vec<Item> = (0..40).map(|number| (10, number)).chain(ends).collect();
    now(writer.insert(entries(WIDTH, &items))).expect("inserts");
    let [lower, upper] = [8, 20].map(|value| plaintext_key(WIDTH, value));
    let query = RangeQuery { lower, upper, order, limit: Some(16) };
    let mut page = now(Arc::clone(&index).search(query)).expect("searches");
    now(writer.remove(entries(WIDTH, &ends))).expect("removes");
    let mut found = page.entries.len();
    while let Some(more) = page.more.take() {
        page = now(more.next(Some(16))).expect("goes on");
        found += page.entries.len();
    }
    found
}

#[test]
fn an_end_that_leaves_the_tree_between_two_pages_takes_no_row_with_it() {
    for order in [Order::Ascending, Order::Descending] {
        assert_eq!(found_beside_a_far_end_that_goes(order), 40, "{order:?}");
    }
}

#[test]
fn two_writers_of_one_index_take_turns() {
    for kind in [Kind::Mope, Kind::Stope] {
        let world = memory();
        let pair = now(Pair::open(&form(kind), &world));
        let other = now(form(kind).reopen(world.wire.clone(), None)).expect("the same");
        for number in 0..40_u8 {
            let items = [(u64::from(number) * 3, number)];
            now(pair.insert(&items));
            let items = entries(WIDTH, &[(u64::from(number) * 5 + 1, 100 + number)]);
            now(other.insert(items.clone())).expect("inserts");
            now(pair.list.insert(items)).expect("a list does not fail");
        }
        now(pair.check_all());
    }
}
