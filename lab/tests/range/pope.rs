//! POPE.

mod crossed;
mod field;

use crate::body::{Subject, Tampering};
use crate::world::{INDEX, Wire, blames_caller, key, memory, prg, run};
use arras_protocol::RowId;
use arras_protocol::ore::Width;
use arras_schemes::IndexError;
use arras_schemes::pope::{Keyed, Standalone};
use arras_storage::{Direction, Read, Storage, Table};
use std::collections::BTreeSet;
use std::ops::{Bound, ControlFlow};

/// A width and bytes of a page: a small page makes deep trees of few entries.
struct PopeOf(Width, u32);

impl Subject for PopeOf {
    type Index<S: Storage> = Standalone<Wire<S>>;

    fn width(&self) -> Width {
        self.0
    }

    async fn open<S: Storage>(&self, wire: Wire<S>) -> Result<Self::Index<S>, IndexError> {
        Standalone::create(wire, Keyed { index: INDEX, key: &key(), width: self.0 }, self.1, prg(1)).await
    }

    /// Where elements lie is the server's word.
    fn tampering(&self) -> Tampering {
        Tampering::Bounded
    }
}

range_tests!(of_32_bits, PopeOf(Width::Bits32, 4096));
range_tests!(of_64_bits, PopeOf(Width::Bits64, 512));
range_tests!(of_three_labels, PopeOf(Width::Bits32, 230));

/// An index of 32-bit values.
async fn made<S: Storage>(wire: &Wire<S>, page_bytes: u32) -> Result<Standalone<Wire<S>>, IndexError> {
    let key = key();
    let keyed = Keyed { index: INDEX, key: &key, width: Width::Bits32 };
    Standalone::create(wire.clone(), keyed, page_bytes, prg(1)).await
}

/// Keys and lengths of values of one of the server's tables.
fn shape(wire: &Wire<impl Storage>, table: &'static str) -> Vec<(Vec<u8>, usize)> {
    let mut shape = Vec::new();
    let reader = wire.backend().store().read().expect("no fault is planned");
    let all = (Bound::Unbounded, Bound::Unbounded);
    reader
        .scan(Table(table), all, Direction::Ascending, &mut |name, value| {
            shape.push((name.to_vec(), value.len()));
            ControlFlow::Continue(())
        })
        .expect("no fault is planned");
    shape
}

/// Everything that the server's store shows of an index but for sealed bytes.
fn shapes(wire: &Wire<impl Storage>) -> [Vec<(Vec<u8>, usize)>; 3] {
    ["pope_heads", "pope_nodes", "pope_buffers"].map(|table| shape(wire, table))
}

/// Inner nodes with elements in their buffers.
fn buffered_inner_nodes(wire: &Wire<impl Storage>) -> usize {
    let buffered: BTreeSet<Vec<u8>> =
        shape(wire, "pope_buffers").into_iter().map(|(name, _)| name[..16].to_vec()).collect();
    shape(wire, "pope_nodes").iter().filter(|(name, _)| buffered.contains(name)).count()
}

fn rows(count: u64) -> impl Iterator<Item = RowId> {
    (0..count)
        .map(|number| RowId(u128::from(number).wrapping_mul(0x9e37_79b9_7f4a_7c15_f39c_c060).to_be_bytes()))
}

/// Values in an order that has nothing to do with them.
fn scattered(count: u64) -> Vec<u64> {
    let mut random = prg(4);
    (0..count).map(|_| random.next_u64() % count).collect()
}

#[test]
fn inner_buffers_between_the_ends_are_returned() {
    run(async {
        let world = memory();
        let wire = world.wire.clone();
        let pope = made(&wire, 512).await.expect("made");
        let mut expected: BTreeSet<(u64, RowId)> = BTreeSet::new();
        let mut seen_buffered = 0;
        let entries: Vec<_> = scattered(3000).into_iter().zip(rows(3000)).collect();
        for (turn, batch) in entries.chunks(300).enumerate() {
            pope.insert_plain(batch).await.expect("inserts");
            expected.extend(batch);
            // The narrow range pushes everything out of the root; what it does not lead to stays half way.
            let narrow = turn as u64 * 290;
            for (lower, upper) in [(narrow, narrow + 3), (100, 2900), (0, 3000), (narrow, 2000)] {
                seen_buffered += buffered_inner_nodes(&wire);
                let found = pope.search_plain(lower, upper).await.expect("searches");
                let right: Vec<_> =
                    expected.iter().filter(|(value, _)| (lower..=upper).contains(value)).copied().collect();
                assert_eq!(found, right, "{lower}..={upper} in turn {turn}");
            }
        }
        assert!(seen_buffered > 20, "inner nodes with buffers were searched: {seen_buffered}");
    });
}

/// Inserts `values`, searches the ranges, and says what the store then shows.
async fn shown(values: &[u64], ranges: &[(u64, u64)]) -> [Vec<(Vec<u8>, usize)>; 3] {
    let wire = memory().wire;
    let pope = made(&wire, 512).await.expect("made");
    let entries: Vec<_> = values.iter().copied().zip(rows(values.len() as u64)).collect();
    for batch in entries.chunks(7) {
        pope.insert_plain(batch).await.expect("inserts");
    }
    for (lower, upper) in ranges {
        pope.search_plain(*lower, *upper).await.expect("searches");
    }
    shapes(&wire)
}

#[test]
fn before_the_first_search_the_store_shows_the_number_of_elements_alone() {
    run(async {
        let values = scattered(500);
        let others: Vec<u64> = (0..500).map(|number| number / 100).collect();
        assert_eq!(shown(&values, &[]).await, shown(&others, &[]).await);
        assert_ne!(shown(&values, &[]).await, shown(&others[1..], &[]).await);
    });
}

#[test]
fn searches_show_nothing_but_order() {
    run(async {
        let values = scattered(500);
        let ranges = [(10, 30), (200, 210), (0, 499), (77, 401)];
        // Other values and other gaps between them, in the same order.
        let stretch = |value: u64| value * 1_000 + value * value;
        let stretched: Vec<u64> = values.iter().map(|value| stretch(*value)).collect();
        let stretched_ranges = ranges.map(|(lower, upper)| (stretch(lower), stretch(upper)));
        let before = shown(&values, &ranges).await;
        assert_eq!(before, shown(&stretched, &stretched_ranges).await);
        // Another order shows: the comparison would see more than order as well.
        let reversed: Vec<u64> = values.iter().map(|value| 499 - value).collect();
        assert_ne!(before, shown(&reversed, &ranges).await);
    });
}

#[test]
fn a_page_too_small_is_the_callers_fault() {
    run(async {
        let made = made(&memory().wire, 200).await;
        assert!(blames_caller(&made), "{made:?}");
    });
}

#[test]
fn a_warm_search_takes_one_message_a_level_and_one_for_the_results() {
    run(async {
        let wire = memory().wire;
        let pope = made(&wire, 4096).await.expect("made");
        let entries: Vec<_> = scattered(20_000).into_iter().zip(rows(20_000)).collect();
        pope.insert_plain(&entries).await.expect("inserts");
        for lower in (0..20_000).step_by(50) {
            pope.search_plain(lower, lower + 100).await.expect("searches");
        }
        wire.set_tamper(None);
        pope.search_plain(7_000, 7_100).await.expect("searches");
        assert!(wire.calls() <= 5, "{} messages", wire.calls());
    });
}
