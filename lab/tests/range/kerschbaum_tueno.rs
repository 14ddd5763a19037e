//! Kerschbaum-Tueno.

use crate::body::Subject;
use crate::crossing::{Crossed, now};
use crate::world::{INDEX, Wire, key, memory, prg, run};
use arras_keys::Purpose;
use arras_primitives::det_pair::{DetPair, SEALED_BYTES, rank_number};
use arras_protocol::RowId;
use arras_protocol::kerschbaum_tueno::KerschbaumTueno as Protocol;
use arras_protocol::leakage::Pattern;
use arras_protocol::leakage::kerschbaum_tueno::KERSCHBAUM_TUENO;
use arras_protocol::ore::Width;
use arras_schemes::IndexError;
use arras_schemes::arx_range::RangeEntry;
use arras_schemes::kerschbaum_tueno::KerschbaumTueno;
use arras_schemes::ore::domain::plaintext_key;
use arras_schemes::traits::RangeIndex;
use arras_storage::{Direction, Read, Storage, Table};
use std::collections::BTreeSet;
use std::ops::{Bound, ControlFlow};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// A width and bytes of a page: small pages make many of few entries.
struct ArrayOf(Width, u32);

impl Subject for ArrayOf {
    type Index<S: Storage> = KerschbaumTueno<Wire<S>>;

    fn width(&self) -> Width {
        self.0
    }

    async fn open<S: Storage>(&self, wire: Wire<S>) -> Result<Self::Index<S>, IndexError> {
        KerschbaumTueno::create(wire, INDEX, &key(), self.0, self.1, prg(1)).await
    }
}

range_tests!(of_32_bits, ArrayOf(Width::Bits32, 4096));
range_tests!(of_64_bits, ArrayOf(Width::Bits64, 100));
range_tests!(of_one_entry_a_page, ArrayOf(Width::Bits32, 32));

/// The array as the server stores it.
fn stored(wire: &Wire<impl Storage>) -> Vec<u8> {
    let mut array = Vec::new();
    let reader = wire.backend().store().read().expect("no fault is planned");
    let all = (Bound::Unbounded, Bound::Unbounded);
    reader
        .scan(Table("kerschbaum_tueno_pages"), all, Direction::Ascending, &mut |_, page| {
            array.extend_from_slice(page);
            ControlFlow::Continue(())
        })
        .expect("no fault is planned");
    array
}

/// Ranks and rows in the order of the stored array.
fn entries(wire: &Wire<impl Storage>) -> Vec<(u128, [u8; 16])> {
    let pairs = DetPair::new(key().child(Purpose::KerschbaumTuenoSeal).expose_16(), *INDEX.as_bytes());
    pairs.open_each(&stored(wire)).expect("sealed under this key")
}

/// The values in the order of the stored array.
fn values(wire: &Wire<impl Storage>) -> Vec<u64> {
    entries(wire).into_iter().map(|(rank, _)| rank_number(rank)).collect()
}

fn row(number: u64) -> RowId {
    RowId(u128::from(number).wrapping_mul(0x9e37_79b9_7f4a_7c15_f39c_c060).to_be_bytes())
}

async fn array(wire: &Wire<impl Storage>, seed: u64) -> KerschbaumTueno<Wire<impl Storage>> {
    KerschbaumTueno::create(wire.clone(), INDEX, &key(), Width::Bits32, 128, prg(seed)).await.expect("made")
}

#[test]
fn equal_values_on_both_sides_of_the_arrays_end_are_found() {
    run(async {
        let mut split_runs = 0;
        for seed in 0..40 {
            let wire = memory().wire;
            let array = array(&wire, seed).await;
            for number in 0..12 {
                // One value thrice, one six times, and three others.
                let value = [5, 5, 5, 9, 9, 9, 9, 9, 9, 0, 7, u64::from(u32::MAX)][number as usize];
                array.insert_plain(value, row(number)).await.expect("inserts");
                let stored = values(&wire);
                split_runs += usize::from(stored.len() > 2 && stored.first() == stored.last());
                for (lower, upper) in [(5, 5), (9, 9), (6, 9), (0, 4), (8, 8), (9, u32::MAX.into())] {
                    let found = array.search_plain(lower, upper).await.expect("searches").len();
                    let right = stored.iter().filter(|value| (lower..=upper).contains(value)).count();
                    assert_eq!(found, right, "{lower}..={upper} in {stored:?}");
                }
            }
        }
        assert!(split_runs > 20, "the case was met: {split_runs}");
    });
}

#[test]
fn the_smallest_value_may_be_anywhere() {
    run(async {
        let mut places = [0_u32; 8];
        let runs = 1600;
        for seed in 0..runs {
            let wire = memory().wire;
            let array = array(&wire, 1000 + seed).await;
            for value in 0..8 {
                array.insert_plain(value, row(value)).await.expect("inserts");
            }
            let stored = values(&wire);
            let place = stored.iter().position(|value| *value == 0).expect("it is there");
            places[place] += 1;
            let turned: Vec<u64> = stored.iter().cycle().skip(place).take(8).copied().collect();
            assert_eq!(turned, [0, 1, 2, 3, 4, 5, 6, 7]);
        }
        let expected = runs as f64 / 8.0;
        let chi_squared: f64 =
            places.iter().map(|count| (f64::from(*count) - expected).powi(2) / expected).sum();
        // 7 degrees of freedom: exceeded once in 10,000.
        assert!(chi_squared < 29.9, "{places:?}");
    });
}

#[test]
fn equal_values_stand_in_no_order_of_insertion() {
    run(async {
        let wire = memory().wire;
        let array = array(&wire, 1).await;
        for number in 0..128 {
            array.insert_plain(7, row(number)).await.expect("inserts");
        }
        let numbers: Vec<u64> = entries(&wire)
            .into_iter()
            .map(|(_, stored)| (0..128).find(|number| row(*number).0 == stored).expect("one of them"))
            .collect();
        let rising = numbers.windows(2).filter(|two| two[0] < two[1]).count();
        assert!((40..88).contains(&rising), "{rising} of 127");
    });
}

#[test]
fn the_store_shows_the_number_of_entries_alone() {
    run(async {
        let mut lengths = Vec::new();
        for spread in [1_u64, 1_000_000] {
            let wire = memory().wire;
            let array = array(&wire, 1).await;
            for number in 0..100 {
                array.insert_plain(number * spread % 1_000, row(number)).await.expect("inserts");
            }
            lengths.push(stored(&wire).len());
        }
        assert_eq!(lengths, [100 * SEALED_BYTES; 2]);
    });
}

#[test]
fn an_insertion_takes_log_n_blocks() {
    run(async {
        let wire = memory().wire;
        let array = array(&wire, 1).await;
        for number in 0..1023 {
            array.insert_plain(number * 7 % 500, row(number)).await.expect("inserts");
        }
        wire.set_tamper(None);
        array.insert_plain(250, row(5000)).await.expect("inserts");
        // The first entry, ten probes, two neighbours, the change.
        assert!(wire.calls() <= 13, "{} messages", wire.calls());
    });
}

#[test]
fn a_change_between_a_search_and_its_edit_leaves_the_array_in_order() {
    run(async {
        let mut crossed = 0;
        for seed in 0..20_u64 {
            let wire = memory().wire;
            let channel = Crossed::<Protocol>::new(&wire);
            let mine =
                KerschbaumTueno::create(channel.clone(), INDEX, &key(), Width::Bits32, 128, prg(seed)).await;
            let mine = mine.expect("made");
            let mut expected: BTreeSet<(u64, RowId)> =
                (0..30).map(|value| (value * 10, row(value))).collect();
            for (value, row) in &expected {
                mine.insert_plain(*value, *row).await.expect("inserts");
            }
            // Of the same length afterwards: one in, one out.
            let other = array(&wire, 100 + seed).await;
            let (added, removed) = ((seed * 13 % 300 + 1, row(500)), (seed * 70 % 300, row(seed * 7 % 30)));
            let mut turn = 0;
            let (at, times) = (seed % 6, Arc::new(AtomicU64::new(0)));
            channel.set({
                let times = Arc::clone(&times);
                move |_, _| {
                    turn += 1;
                    if turn == at + 3 {
                        times.fetch_add(1, Ordering::Relaxed);
                        now(other.insert_plain(added.0, added.1)).expect("inserts");
                        now(other.remove(vec![entry(removed)])).expect("removes");
                    }
                }
            });
            expected.insert(added);
            expected.remove(&removed);
            if seed % 2 == 0 {
                mine.insert_plain(155, row(600)).await.expect("inserts");
                expected.insert((155, row(600)));
            } else {
                let gone = *expected.iter().nth(seed as usize).expect("there are more");
                mine.remove(vec![entry(gone)]).await.expect("removes");
                expected.remove(&gone);
            }
            channel.clear();
            crossed += times.load(Ordering::Relaxed);
            let found = mine.search_plain(0, 1000).await.expect("searches");
            assert_eq!(found, expected.into_iter().collect::<Vec<_>>(), "seed {seed}");
        }
        assert!(crossed >= 18, "{crossed}");
    });
}

#[test]
fn a_search_beside_changes_begins_anew() {
    run(async {
        let wire = memory().wire;
        let channel = Crossed::<Protocol>::new(&wire);
        let mine = KerschbaumTueno::create(channel.clone(), INDEX, &key(), Width::Bits32, 128, prg(1)).await;
        let mine = mine.expect("made");
        let expected: Vec<_> = (0..40).map(|value| (value, row(value))).collect();
        for (value, row) in &expected {
            mine.insert_plain(*value, *row).await.expect("inserts");
        }
        let other = array(&wire, 2).await;
        let mut turn = 0;
        channel.set(move |_, _| {
            turn += 1;
            // Longer by one, as long again, shorter by one.
            match turn {
                2 | 9 => now(other.insert_plain(900, row(900))).expect("inserts"),
                5 | 14 => now(other.remove(vec![entry((900, row(900)))])).expect("removes"),
                _ => {}
            }
        });
        for lower in [3, 0, 11] {
            let found = mine.search_plain(lower, 20).await.expect("searches");
            assert_eq!(found, expected[lower as usize..=20]);
        }
    });
}

fn entry((value, row): (u64, RowId)) -> RangeEntry {
    RangeEntry { value: plaintext_key(Width::Bits32, value), row, sums: Vec::new() }
}

/// What is stated of searches and changes is there to be seen: equal bounds probe the same places, and what is taken out and put in
/// again is the same bytes again.
#[test]
fn equal_bounds_probe_equal_places_and_an_entry_that_comes_again_is_known_again() {
    run(async {
        let wire = memory().wire;
        let array = array(&wire, 5).await;
        for number in 0..200 {
            array.insert_plain(number * 3, row(number)).await.expect("inserts");
        }
        let probes = async |bound: u64| {
            wire.listen();
            array.search_plain(bound, bound).await.expect("searches");
            wire.heard()
        };
        let (one, again, other) = (probes(30).await, probes(30).await, probes(90).await);
        assert!(one.len() > 3 && one == again && one != other, "{one:?} {other:?}");
        let sealed =
            || -> BTreeSet<[u8; SEALED_BYTES]> { stored(&wire).as_chunks().0.iter().copied().collect() };
        let before = sealed();
        let entry = RangeEntry { value: plaintext_key(Width::Bits32, 30), row: row(10), sums: Vec::new() };
        array.remove(vec![entry.clone()]).await.expect("removes");
        let without = sealed();
        assert_eq!((before.len(), without.len()), (200, 199));
        array.insert(vec![entry]).await.expect("inserts");
        assert_eq!(sealed(), before);
        let stated = [KERSCHBAUM_TUENO.search, KERSCHBAUM_TUENO.update];
        assert!(stated.iter().all(|patterns| patterns.contains(&Pattern::SearchPattern)));
    });
}
