//! Rows of ranges, as they come page by page.
#![allow(clippy::unwrap_used)]

use super::*;
use crate::index::LiveIndex;
use crate::index::tests::{Asked, range_of};
use crate::tests::{World, randomly};
use arras_planner::access::IndexOrder;
use arras_planner::interval::{Edge, Interval};
use bson::doc;
use rand::RngExt;
use std::collections::BTreeSet;

/// A range of the index `[7; 8]` on `a`.
fn range(lower: i32, upper: i32, descending: bool) -> RangeAccess {
    let edge = |value| Edge::Included(Bson::Int32(value));
    RangeAccess {
        index: IndexId([7; 8]),
        equal: Vec::new(),
        interval: Interval { lower: edge(lower), upper: edge(upper) },
        exact: true,
        order: Some(IndexOrder { descending, first_field: 0, field_count: 1 }),
    }
}

#[tokio::test]
async fn the_rows_of_a_range_come_in_order_each_once_however_they_are_paged() {
    let mut rng = randomly();
    let physical = range_of(&["a"]);
    let layout = physical.layout().unwrap();
    let world = World::new("").await;
    for _ in 0..60 {
        let count = rng.random_range(0..200);
        let values: BTreeSet<(i32, RowId)> =
            (0..count).map(|_| (rng.random_range(0..30), RowId(rng.random()))).collect();
        let entries = values.iter().map(|(value, row)| (layout.key(&[Bson::Int32(*value)]).bytes, *row));
        let part = IndexPart::plain(7, physical.clone(), entries, rng.random_range(1..50), &Asked::default());
        let collection = world.collection(vec![LiveIndex::of_test("a_1", doc! { "a": 1 }, vec![part])], 0);
        let (lower, upper) = (rng.random_range(-3..30), rng.random_range(-3..33));
        let descending = rng.random();
        let wanted = rng.random::<bool>().then(|| rng.random_range(0..40));
        let range = range(lower, upper, descending);
        let mut rows = RangeRows::begin(&world.shared, &collection, &range, wanted).await.unwrap();
        let mut found = Vec::new();
        while let Some(further) = rows.next().await.unwrap() {
            assert!(!further.is_empty(), "an empty page is not handed on");
            found.extend(further);
        }
        assert!(rows.next().await.unwrap().is_none(), "the end stays the end");
        let within = values.iter().filter(|(value, _)| (lower..=upper).contains(value));
        let mut expected: Vec<RowId> = within.map(|(_, row)| *row).collect();
        if descending {
            expected.reverse();
        }
        assert_eq!(found, expected);
    }
}

#[tokio::test]
async fn one_who_wants_few_asks_for_few_and_then_for_more_and_more() {
    let physical = range_of(&["a"]);
    let layout = physical.layout().unwrap();
    let world = World::new("").await;
    let rows = |count: u32| {
        (0..count).map(move |number| {
            let mut row = RowId([0; 16]);
            row.0[..4].copy_from_slice(&number.to_be_bytes());
            (layout.key(&[Bson::Int32(number.cast_signed())]).bytes, row)
        })
    };
    let asked_for = async |wanted| {
        let asked = Asked::default();
        let part = IndexPart::plain(7, physical.clone(), rows(9_000), usize::MAX, &asked);
        let collection = world.collection(vec![LiveIndex::of_test("a_1", doc! { "a": 1 }, vec![part])], 0);
        let all = range(0, i32::MAX, false);
        let mut rows = RangeRows::begin(&world.shared, &collection, &all, wanted).await.unwrap();
        while rows.next().await.unwrap().is_some() {}
        std::mem::take(&mut *asked.lock().unwrap())
    };
    assert_eq!(asked_for(None).await, [None], "all that fit a reply");
    let few = asked_for(Some(3)).await;
    assert_eq!(few[0], Some(3 + ENTRIES_BEYOND));
    for pair in few.windows(2) {
        assert_eq!(pair[1], pair[0].map(|step| (2 * step).min(ROWS_PER_STEP)));
    }
    let many = asked_for(Some(5_000)).await;
    assert_eq!(many, [Some(5_000 + ENTRIES_BEYOND), Some(ROWS_PER_STEP), Some(ROWS_PER_STEP)]);
    assert_eq!(asked_for(Some(usize::MAX)).await, [Some(usize::MAX)]);
}

#[tokio::test]
async fn an_index_that_is_gone_is_said_to_be_and_an_empty_range_asks_for_nothing() {
    let world = World::new("").await;
    let asked = Asked::default();
    let part = IndexPart::plain(7, range_of(&["a"]), [], 1, &asked);
    let collection = world.collection(vec![LiveIndex::of_test("a_1", doc! { "a": 1 }, vec![part])], 0);
    let mut rows = RangeRows::begin(&world.shared, &collection, &range(5, 4, false), None).await.unwrap();
    assert!(rows.next().await.unwrap().is_none());
    assert!(asked.lock().unwrap().is_empty());
    collection.set_indexes(Vec::new());
    let failed = RangeRows::begin(&world.shared, &collection, &range(4, 5, false), None).await;
    assert_eq!(failed.err().unwrap().fault, Fault::IndexNotFound);
}

#[test]
fn what_is_passed_over_is_wanted_too() {
    let (filter, sort) = (Filter::all(), Sort::default());
    let selection = |skip, limit| Selection {
        filter: &filter,
        sort: &sort,
        skip,
        limit,
        hint: None,
        alone: false,
        allow_disk_use: true,
    };
    for (skip, limit, wanted) in [
        (0, None, None),
        (9, None, None),
        (0, Some(4), Some(4)),
        (9, Some(4), Some(13)),
        (u64::MAX, Some(4), Some(u64::MAX)),
    ] {
        assert_eq!(selection(skip, limit).request().limit, wanted);
        assert_eq!(selection(skip, limit).wanted(), wanted.map(|wanted| wanted as usize));
    }
}
