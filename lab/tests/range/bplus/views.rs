//! What the server stores is a function of the leakage: data sets of the same ranks, inserted in the same order, differ
//! in nothing but ciphertexts.

use super::Over;
use crate::body::{Item, Subject, entries};
use crate::world::{key, memory, prg, run};
use arras_client::arx_range::RangeEntry;
use arras_client::ore::OrderScheme;
use arras_client::ore::domain::plaintext_key;
use arras_client::ore::fh_ope::FhOpe;
use arras_client::ore::lewi_wu::{BlockBits, LewiWu};
use arras_client::traits::RangeIndex;
use arras_lab::plain_scheme::PlainScheme;
use arras_protocol::RowId;
use arras_protocol::leakage::Pattern;
use arras_protocol::leakage::bplus::{BPLUS_CLOZ, BPLUS_LEWI_WU};
use arras_protocol::ore::Width;
use arras_storage::{Direction, Read, Storage, Table};
use std::ops::{Bound, ControlFlow};

/// Names of pages, and pages with their ciphertexts blanked.
type View = Vec<(Vec<u8>, Vec<u8>)>;

/// Builds a tree of `items` and takes some out; what the store then holds.
fn stored<O: OrderScheme + Sync>(make: fn(Width) -> O, items: &[Item], blank: bool) -> View {
    let width = Width::Bits32;
    let stored_bytes = make(width).scheme().stored_bytes().expect("a scheme's own parameters");
    let page_bytes = u32::try_from(11 + 5 * (stored_bytes + 24)).expect("small");
    let mut view = Vec::new();
    run(async {
        let world = memory();
        let index = Over { width, page_bytes, make }.open(world.wire.clone()).await.expect("an empty index");
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
                if blank {
                    let (base, record) =
                        if page[0] == 0 { (3, stored_bytes + 16) } else { (11, stored_bytes + 24) };
                    page[base..].chunks_mut(record).for_each(|record| record[..stored_bytes].fill(0));
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
    assert_eq!(stored(FhOpe::new, &one, false), stored(FhOpe::new, &other, false));
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

/// Equal values are ordered by row, and rows lie open beside right ciphertexts that hide equality: where rows stop
/// ascending, a value ends.
#[test]
fn a_snapshot_shows_which_values_are_equal_as_is_stated() {
    let width = Width::Bits32;
    let make = |width| LewiWu::new(&key(), width, BlockBits::Four);
    let mut random = prg(5);
    let mut row = || {
        let mut row = RowId([0; RowId::BYTES]);
        random.fill(&mut row.0);
        row
    };
    let entry =
        |value: u64| RangeEntry { value: plaintext_key(width, value / 30), row: row(), sums: Vec::new() };
    let list: Vec<_> = (0..150).map(entry).collect();
    let mut leaf = Vec::new();
    run(async {
        let world = memory();
        let index = Over { width, page_bytes: 1 << 16, make }.open(world.wire.clone()).await;
        index.expect("an empty index").load(list).await.expect("loads");
        let reader = world.wire.backend().store().read().expect("memory does not fail");
        let everything = (Bound::Unbounded, Bound::Unbounded);
        reader
            .scan(Table("bplus_pages"), everything, Direction::Ascending, &mut |_, page| {
                leaf.extend_from_slice(&page[3..]);
                ControlFlow::Continue(())
            })
            .expect("memory does not fail");
    });
    let rows: Vec<&[u8]> =
        leaf.chunks(leaf.len() / 150).map(|record| &record[record.len() - RowId::BYTES..]).collect();
    let ends = rows.windows(2).zip(1..).filter(|(two, _)| two[0] > two[1]).map(|(_, end)| end);
    assert_eq!(ends.collect::<Vec<_>>(), [30, 60, 90, 120]);
    for leakage in [BPLUS_LEWI_WU, BPLUS_CLOZ] {
        assert!(leakage.snapshot.contains(&Pattern::Frequency));
    }
}
