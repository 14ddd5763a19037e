//! Ranges side by side, beside all of their entries sorted.
#![allow(clippy::unwrap_used)]

use super::*;
use crate::index::tests::{Asked, range_of};
use crate::index::{IndexPart, LiveIndex};
use crate::tests::{World, randomly};
use arras_planner::access::IndexOrder;
use arras_planner::interval::Interval;
use arras_protocol::IndexId;
use bson::{Bson, doc};
use rand::RngExt;
use std::collections::BTreeSet;

fn range(group: i32, order: Option<IndexOrder>) -> RangeAccess {
    let (index, equal, interval) = (IndexId([7; 8]), vec![Bson::Int32(group)], Interval::ALL);
    RangeAccess { index, equal, interval, exact: true, order }
}

fn by_second(descending: bool) -> Option<IndexOrder> {
    Some(IndexOrder { descending, first_field: 1, field_count: 1 })
}

#[tokio::test]
async fn rows_of_several_ranges_come_in_the_order_of_the_sort_and_each_once() {
    let mut rng = randomly();
    let physical = range_of(&["g", "a"]);
    let layout = physical.layout().unwrap();
    let world = World::new("").await;
    for _ in 0..60 {
        let count = rng.random_range(0..300);
        let values: BTreeSet<(i32, i32, RowId)> = (0..count)
            .map(|_| (rng.random_range(0..4), rng.random_range(0..20), RowId(rng.random())))
            .collect();
        let key = |group, value| layout.key(&[Bson::Int32(group), Bson::Int32(value)]).bytes;
        let entries = values.iter().map(|(group, value, row)| (key(*group, *value), *row));
        let part = IndexPart::plain(7, physical.clone(), entries, rng.random_range(1..40), &Asked::default());
        let collection =
            world.collection(vec![LiveIndex::of_test("g_a", doc! { "g": 1, "a": 1 }, vec![part])], 0);
        let descending = rng.random();
        let groups: Vec<i32> = (0..4).filter(|_| rng.random()).collect();
        let ranges: Vec<RangeAccess> =
            groups.iter().map(|group| range(*group, by_second(descending))).collect();
        let ranges: Vec<&RangeAccess> = ranges.iter().collect();
        let wanted = rng.random::<bool>().then(|| rng.random_range(0..10));
        let merged =
            OrderedRows::begin(&world.shared, &collection, &ranges, &physical, wanted).await.unwrap();
        let Some(mut merged) = merged else {
            assert!(groups.is_empty());
            continue;
        };
        assert!(merged.watch().is_some());
        let mut found = Vec::new();
        while let Some(further) = merged.next().await.unwrap() {
            assert!(!further.is_empty());
            found.extend(further);
        }
        let in_order = found.windows(2).all(|pair| match descending {
            true => pair[0].0 >= pair[1].0,
            false => pair[0].0 <= pair[1].0,
        });
        assert!(in_order, "{found:?}");
        let expected = values.iter().filter(|(group, ..)| groups.contains(group));
        let mut expected: Vec<(Vec<u8>, RowId)> =
            expected.map(|(_, value, row)| (layout.part(&Bson::Int32(*value)).bytes, *row)).collect();
        expected.sort();
        found.sort();
        assert_eq!(found, expected);
    }
}

#[test]
fn an_access_comes_in_the_order_of_the_sort_if_all_its_branches_are_ranges_that_do() {
    let index = IndexId([7; 8]);
    let of = |group, order| Access::Range(Box::new(range(group, order)));
    let groups = |access: &Access| ordered(access).map(|ranges| ranges.len());
    let (up, none) = (by_second(false), None);
    assert_eq!(groups(&of(1, up)), Some(1));
    assert_eq!(groups(&of(1, none)), None);
    assert_eq!(groups(&Access::Union(vec![of(1, up), of(2, up), of(3, up)])), Some(3));
    assert_eq!(groups(&Access::Union(vec![of(1, up), of(2, none)])), None);
    assert_eq!(groups(&Access::Union(Vec::new())), None);
    let others = [
        Access::Scan,
        Access::Text,
        Access::Rows { ids: Vec::new() },
        Access::Eq { index, values: Vec::new() },
        Access::Unique { index, values: Vec::new() },
        Access::Union(vec![of(1, up)]),
    ];
    for other in others {
        assert_eq!(groups(&Access::Union(vec![of(1, up), other.clone()])), None, "{other:?}");
        assert_eq!(groups(&other).is_some(), matches!(other, Access::Union(_)), "{other:?}");
    }
}
