//! What the server stores is a function of the leakage: data sets of the same ranks, inserted in the same order, differ
//! in nothing but ciphertexts.

use super::{Over, OverStateful};
use crate::body::{Item, Subject, entries};
use crate::world::{key, memory, prg, run};
use arras_keys::Purpose;
use arras_lab::plain_scheme::PlainScheme;
use arras_protocol::RowId;
use arras_protocol::bplus::SealedEntry;
use arras_protocol::leakage::Pattern;
use arras_protocol::leakage::bplus::{BPLUS_CLOZ, BPLUS_LEWI_WU};
use arras_protocol::ore::{Scheme, Width};
use arras_schemes::arx_range::RangeEntry;
use arras_schemes::ore::OrderScheme;
use arras_schemes::ore::domain::plaintext_key;
use arras_schemes::ore::fh_ope::FhOpe;
use arras_schemes::ore::lewi_wu::{BlockBits, LewiWu};
use arras_schemes::traits::RangeIndex;
use arras_storage::{Direction, Read, Storage, Table};
use std::ops::{Bound, ControlFlow};

/// Names of pages, and pages without what is sealed.
type View = Vec<(Vec<u8>, Vec<u8>)>;

/// Builds a tree of `items` and takes some out; what the store then holds, without ciphertexts if they are to be blanked.
fn stored<O: OrderScheme>(make: fn(Width) -> O, items: &[Item], blank: bool) -> View {
    let over = |width, page_bytes| Over { width, page_bytes, make };
    viewed(make(Width::Bits32).scheme(), over, items, blank)
}

fn viewed<T: Subject>(scheme: Scheme, over: impl Fn(Width, u32) -> T, items: &[Item], blank: bool) -> View {
    let width = Width::Bits32;
    let stored_bytes = scheme.stored_bytes().expect("a scheme's own parameters");
    let page_bytes = u32::try_from(11 + 5 * (stored_bytes + 40)).expect("small");
    let mut view = Vec::new();
    run(async {
        let world = memory();
        let index = over(width, page_bytes).open(world.wire.clone()).await.expect("an empty index");
        for item in items {
            index.insert(entries(width, &[*item])).await.expect("inserts");
        }
        for item in items.iter().step_by(3) {
            index.remove(entries(width, &[*item])).await.expect("removes");
        }
        let reader = world.wire.backend().store().read().expect("memory does not fail");
        let everything = (Bound::Unbounded, Bound::Unbounded);
        reader
            .scan(Table("bplus_pages"), everything, Direction::Ascending, &mut |name, page| {
                let mut page = page.to_vec();
                let (base, record) =
                    if page[0] == 0 { (3, stored_bytes + 32) } else { (11, stored_bytes + 40) };
                for record in page[base..].chunks_mut(record) {
                    // What is sealed is random, and other for other values.
                    record[stored_bytes..stored_bytes + 32].fill(0);
                    if blank {
                        record[..stored_bytes].fill(0);
                    }
                }
                view.push((name.to_vec(), page));
                ControlFlow::Continue(())
            })
            .expect("memory does not fail");
    });
    assert!(view.len() > 20, "the test looks at something: {} pages", view.len());
    view
}

/// Distinct values, then their image under a monotone map that is far from linear.
fn alike() -> (Vec<Item>, Vec<Item>) {
    let mut random = prg(77);
    let mut ranks: Vec<u64> = (1..200).collect();
    for place in (1..ranks.len()).rev() {
        ranks.swap(place, (random.next_u64() % (place as u64 + 1)) as usize);
    }
    let items = |value: fn(u64) -> u64| ranks.iter().map(|rank| (value(*rank), *rank as u8)).collect();
    (items(|rank| rank), items(|rank| rank * rank * rank * 500 + (rank % 7)))
}

#[test]
fn over_fh_ope_equal_ranks_give_equal_stores() {
    let (one, other) = alike();
    let stored = |items: &[Item]| {
        let over = |width, page_bytes| OverStateful(Over { width, page_bytes, make: FhOpe::new });
        viewed(Scheme::FhOpe(Width::Bits32), over, items, false)
    };
    assert_eq!(stored(&one), stored(&other));
}

/// Right ciphertexts alone are stored, and say nothing by themselves: blanked, two stores of equal ranks are the same
/// bytes.
#[test]
fn over_lewi_wu_stores_of_equal_ranks_differ_in_right_ciphertexts_only() {
    let (one, other) = alike();
    let make = |width| LewiWu::new(&key(), width, BlockBits::Four);
    assert_eq!(stored(make, &one, true), stored(make, &other, true));
    assert_ne!(stored(make, &one, false), stored(make, &other, false));
}

#[test]
fn the_shape_of_a_tree_is_one_of_ranks() {
    let (one, other) = alike();
    assert_eq!(stored(PlainScheme, &one, true), stored(PlainScheme, &other, true));
}

#[test]
fn a_difference_shows() {
    let (one, other) = alike();
    assert_ne!(stored(PlainScheme, &one, false), stored(PlainScheme, &other, false));
    let mut moved = one.clone();
    moved.swap(3, 90);
    assert_ne!(stored(PlainScheme, &one, true), stored(PlainScheme, &moved, true));
}

/// Names of entries from left to right of a tree of values that a rank's entry has, rows drawn at random.
fn names(make: fn(Width) -> LewiWu, value: fn(u64) -> u64, load: bool) -> Vec<Vec<u8>> {
    let width = Width::Bits32;
    let mut random = prg(5);
    let mut entry = |rank: u64| {
        let mut row = RowId([0; RowId::BYTES]);
        random.fill(&mut row.0);
        RangeEntry { value: plaintext_key(width, value(rank)), row, sums: Vec::new() }
    };
    let list: Vec<_> = (0..RANKS).map(&mut entry).collect();
    let mut leaf = Vec::new();
    run(async {
        let world = memory();
        let index = Over { width, page_bytes: 1 << 16, make }.open(world.wire.clone()).await;
        let index = index.expect("an empty index");
        match load {
            true => index.load(list).await.expect("loads"),
            false => index.insert(list).await.expect("inserts"),
        }
        let reader = world.wire.backend().store().read().expect("memory does not fail");
        let everything = (Bound::Unbounded, Bound::Unbounded);
        reader
            .scan(Table("bplus_pages"), everything, Direction::Ascending, &mut |_, page| {
                leaf.extend_from_slice(&page[3..]);
                ControlFlow::Continue(())
            })
            .expect("memory does not fail");
    });
    leaf.chunks(leaf.len() / RANKS as usize)
        .map(|record| record[record.len() - SealedEntry::BYTES..].to_vec())
        .collect()
}

const RANKS: u64 = 150;

/// Names lie beside right ciphertexts that hide equality; in their own order they would show where a value ends. They
/// are as disordered among equal values as among different ones.
#[test]
fn a_snapshot_shows_order_and_nothing_of_which_are_equal() {
    let make = |width| LewiWu::new(&key(), width, BlockBits::Four);
    let descents = |names: &[Vec<u8>]| names.windows(2).filter(|two| two[0] > two[1]).count();
    for load in [true, false] {
        for value in [|rank| rank / 30, |_| 7, |rank| rank] {
            let names = names(make, value, load);
            // Of a random sequence of 150: 74.5, with a deviation of 3.6; seven of them.
            assert!((50..=99).contains(&descents(&names)), "{}", descents(&names));
        }
    }
    for leakage in [BPLUS_LEWI_WU, BPLUS_CLOZ] {
        assert!(!leakage.snapshot.contains(&Pattern::Frequency));
        assert!(leakage.search.contains(&Pattern::Frequency) && leakage.update.contains(&Pattern::Frequency));
    }
}

/// What orders entries of equal values is the key's and the value's: with another key, and for another value, it is another.
#[test]
fn the_order_among_equals_is_that_of_the_key_and_the_value() {
    let make = |width| LewiWu::new(&key(), width, BlockBits::Four);
    let other = |width| LewiWu::new(&key().child(Purpose::LewiWuBlock), width, BlockBits::Four);
    let of = |make, value| names(make, value, false);
    assert_eq!(of(make, |_| 7), of(make, |_| 7));
    assert_ne!(of(make, |_| 7), of(make, |_| 8));
    assert_ne!(of(make, |_| 7), of(other, |_| 7));
    assert_eq!(of(make, |_| 7), names(make, |_| 7, true), "loaded or inserted");
}
