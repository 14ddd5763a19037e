#![allow(clippy::unwrap_used)]

use super::super::tests::world::{Kept, VALUE, World, now, row};
use super::*;
use crate::contract::EqualitySearch;
use arras_keys::Key;
use arras_protocol::IndexId;
use std::sync::Arc;

#[test]
fn values_with_entries_are_asked_for_once_each_and_the_others_not_at_all() {
    let (index, state) = (ArxEq::new(IndexId([1; 8]), &Key::generate()), Kept::default());
    let mut recorded = BTreeMap::new();
    for value in 0_u8..30 {
        if rand::random() {
            let mut occurrences = Occurrences::new(&mut rand::rng());
            (0..=value).for_each(|_| assert!(occurrences.take().is_some()));
            state.set(index.record_name(&[value]), Some(occurrences.encode()));
            recorded.insert(vec![value], occurrences);
        }
    }
    let mut orders = BTreeSet::new();
    let asked_for: BTreeSet<Vec<u8>> = (10..40).map(|value| vec![value]).collect();
    for _ in 0..5 {
        let asked = index.asked(&asked_for, &state).unwrap();
        for asked in &asked {
            assert_eq!(asked.record, index.record_name(asked.value));
            assert_eq!(recorded.get(asked.value), Some(&asked.occurrences));
        }
        let order: Vec<Vec<u8>> = asked.iter().map(|asked| asked.value.to_vec()).collect();
        let mut values = order.clone();
        values.sort();
        let expected = recorded.keys().filter(|value| asked_for.contains(*value));
        assert_eq!(values, expected.cloned().collect::<Vec<_>>());
        orders.insert(order);
    }
    assert!(orders.len() > 1 || recorded.len() < 6, "they come in a random order");
}

#[test]
fn an_answer_is_every_entry_on_record_or_names_the_record_that_it_differs_from() {
    let mut world = World::new();
    world.enter(0..20);
    world.remove((0..20).filter(|number| number % 5 == 2));
    let rows = world.headers.keys().copied().collect();
    assert_eq!(world.search().unwrap(), EqualityAnswer::Exact { rows, worn: Vec::new() });
    assert_eq!(world.server.asked.lock().unwrap().len(), 1, "for both values, of which one has no entries");
    let lies: [fn(&mut Vec<RowId>); 4] =
        [|rows| rows.truncate(9), |rows| rows.push(row(99)), |rows| rows[0] = rows[1], |rows| rows.clear()];
    for lie in lies {
        world.lie(move |response| lie(&mut response.values[0].rows));
        assert_eq!(world.search().unwrap(), EqualityAnswer::Differs(world.name()));
    }
    // As many counters as were asked for, but one row in place of none.
    world.lie(|response| {
        response.values[0].rows.push(row(99));
        response.values[0].missing -= 1;
    });
    assert_eq!(world.search().unwrap(), EqualityAnswer::Differs(world.name()));
    world.lie(|response| response.values.clear());
    assert!(matches!(world.search(), Err(IndexError::Peer(_))));
}

#[test]
fn a_value_of_more_holes_than_entries_is_said_to_be_worn_with_the_record_that_the_search_went_by() {
    let mut world = World::new();
    world.enter(0..60);
    world.remove((1..59).filter(|number| number % 7 != 0));
    assert!(world.occurrences().holes() > 16);
    let EqualityAnswer::Exact { worn, .. } = world.search().unwrap() else { panic!("it is exact") };
    let searched = world.occurrences().encode();
    assert_eq!(worn, [Worn { value: VALUE.to_vec(), searched }]);
}

#[test]
fn an_inspection_counts_what_lacks_what_is_foreign_and_what_is_not_on_record() {
    let mut world = World::new();
    world.enter(0..20);
    let inspect = |world: &World, rows: std::ops::Range<u32>, other: &[&[u8]]| {
        let mut expected = BTreeMap::from([(VALUE.to_vec(), rows.map(row).collect())]);
        expected.extend(other.iter().map(|other| (other.to_vec(), vec![row(50)])));
        let found = now(Arc::clone(&world.index).inspect(expected, &*world.state)).unwrap();
        (found.lacking, found.foreign, found.unrecorded)
    };
    assert_eq!(inspect(&world, 0..20, &[]), (0, 0, 0));
    assert_eq!(inspect(&world, 2..25, &[]), (5, 2, 0));
    assert_eq!(inspect(&world, 0..20, &[b"gout"]), (0, 0, 1));
    assert_eq!(now(Arc::clone(&world.index).inspect(BTreeMap::new(), &*world.state)).unwrap().foreign, 20);
    let first = *world.server.entries.lock().unwrap().keys().next().unwrap();
    world.server.entries.lock().unwrap().remove(&first);
    assert_eq!(inspect(&world, 0..20, &[]), (1, 0, 0));
}
