//! Walks beside all documents sorted.
#![allow(clippy::unwrap_used)]

use super::*;
use crate::Settings;
use crate::index::LiveIndex;
use crate::index::tests::{Asked, range_of};
use crate::tests::{World, randomly};
use arras_planner::access::IndexOrder;
use arras_planner::interval::Interval;
use arras_protocol::IndexId;
use arras_records::IndexTerms;
use bson::doc;
use rand::RngExt;
use rand::rngs::StdRng;

const MANY: usize = 1 << 40;

/// A walk along an index on `a` for a sort by `a` and `b`, and the world that it is in.
async fn walk(world: &World, descending: bool, limit: Option<u64>) -> Walk {
    let part = IndexPart::plain(7, range_of(&["a"]), [], 1, &Asked::default());
    let collection = world.collection(vec![LiveIndex::of_test("a_1", doc! { "a": 1 }, vec![part])], 0);
    let order = Some(IndexOrder { descending, first_field: 0, field_count: 1 });
    let index = IndexId([7; 8]);
    let range = RangeAccess { index, equal: Vec::new(), interval: Interval::ALL, exact: true, order };
    let sort = Sort::parse(&doc! { "a": if descending { -1 } else { 1 }, "b": 1 }).unwrap();
    let filter = Filter::all();
    let selection = Selection {
        filter: &filter,
        sort: &sort,
        skip: 0,
        limit,
        hint: None,
        alone: false,
        allow_disk_use: true,
    };
    let filter = Arc::new(filter.clone());
    Walk::begin(&world.shared, &collection, &[&range], selection, filter).await.unwrap()
}

async fn world(memory_bytes: usize) -> World {
    World::with(Settings { memory_bytes, ..Settings::default() }).await
}

fn document(rng: &mut StdRng, a: i32, bytes: usize) -> OpenDocument {
    OpenDocument {
        row: RowId(rng.random()),
        version: [0; 8],
        sequence: rng.random(),
        terms: IndexTerms::default(),
        document: doc! { "a": a, "b": rng.random_range(0..4) },
        bytes,
    }
}

impl Walk {
    fn place(&self, a: i32) -> Vec<u8> {
        self.part.physical.layout().unwrap().part(&Bson::Int32(a)).bytes
    }

    /// The index names a document at a place, which lies where its own value says.
    fn meet(
        &mut self,
        named: i32,
        document: OpenDocument,
        ordered: &mut Vec<OpenDocument>,
    ) -> Result<(), ServiceError> {
        let key = self.range.run(&document.document, &self.part.physical);
        self.take_in(Some(self.place(named)), key, document, ordered)
    }

    fn end(&mut self, ordered: &mut Vec<OpenDocument>) {
        self.arrive(None, ordered).unwrap();
        ordered.append(&mut self.whole_run().unwrap());
    }
}

fn a_of(document: &OpenDocument) -> i32 {
    document.document.get_i32("a").unwrap()
}

/// By the sort, and among equals by insertion.
fn sorted(mut documents: Vec<OpenDocument>, descending: bool) -> Vec<RowId> {
    let place = |document: &OpenDocument| if descending { -a_of(document) } else { a_of(document) };
    documents.sort_by_key(|one| (place(one), one.document.get_i32("b").unwrap(), one.sequence));
    rows(&documents)
}

fn rows(documents: &[OpenDocument]) -> Vec<RowId> {
    documents.iter().map(|document| document.row).collect()
}

#[tokio::test]
async fn documents_come_in_the_order_of_the_sort_and_each_once_though_some_have_moved() {
    let (mut rng, world) = (randomly(), world(MANY).await);
    for turn in 0..300 {
        let descending = rng.random();
        let mut walk = walk(&world, descending, None).await;
        let mut named: Vec<i32> = (0..rng.random_range(0..60)).map(|_| rng.random_range(0..12)).collect();
        named.sort_unstable();
        if descending {
            named.reverse();
        }
        let (mut met, mut ordered, mut moved_back) = (Vec::new(), Vec::new(), HashSet::new());
        for named in named {
            let forward = if descending { -1 } else { 1 };
            let moved = match rng.random_range(0..6) {
                0 => forward * rng.random_range(1..5),
                1 if turn % 2 == 0 => -forward * rng.random_range(1..5),
                _ => 0,
            };
            let document = document(&mut rng, named + moved, 100);
            if moved * forward < 0 {
                moved_back.insert(document.row);
            }
            met.push(document.clone());
            walk.meet(named, document, &mut ordered).unwrap();
        }
        walk.end(&mut ordered);
        let [mut came, mut expected] = [rows(&ordered), rows(&met)];
        came.sort();
        expected.sort();
        assert_eq!(came, expected, "each once");
        let stayed = |documents: &[OpenDocument]| -> Vec<OpenDocument> {
            documents.iter().filter(|document| !moved_back.contains(&document.row)).cloned().collect()
        };
        assert_eq!(rows(&stayed(&ordered)), sorted(stayed(&met), descending));
        assert_eq!((walk.run_bytes, walk.ahead_bytes, walk.ahead.len()), (0, 0, 0));
    }
}

#[tokio::test]
async fn one_that_has_moved_back_comes_in_its_order_if_its_place_is_not_passed() {
    let (mut rng, world) = (randomly(), world(MANY).await);
    let mut walk = walk(&world, false, None).await;
    let mut ordered = Vec::new();
    walk.meet(2, document(&mut rng, 2, 100), &mut ordered).unwrap();
    walk.meet(9, document(&mut rng, 5, 100), &mut ordered).unwrap();
    walk.meet(9, document(&mut rng, 9, 100), &mut ordered).unwrap();
    walk.meet(12, document(&mut rng, 3, 100), &mut ordered).unwrap();
    walk.meet(12, document(&mut rng, 12, 100), &mut ordered).unwrap();
    walk.end(&mut ordered);
    let came: Vec<i32> = ordered.iter().map(a_of).collect();
    let mut at_place: Vec<i32> = came.iter().copied().filter(|a| *a != 3).collect();
    assert_eq!(at_place, [2, 5, 9, 12]);
    at_place.push(3);
    assert_eq!(came.len(), at_place.len(), "what lay behind comes late");
}

#[tokio::test]
async fn of_a_run_that_nobody_will_ask_for_only_the_first_are_held() {
    let (mut rng, world) = (randomly(), world(MANY).await);
    for limit in [1, 3, 700] {
        let mut walk = walk(&world, false, Some(limit as u64)).await;
        let (mut met, mut ordered, mut most) = (Vec::new(), Vec::new(), 0);
        for _ in 0..3_000 {
            let document = document(&mut rng, 1, 100);
            met.push(document.clone());
            walk.meet(1, document, &mut ordered).unwrap();
            most = most.max(walk.run.len());
        }
        assert!(most <= 2 * limit.max(SLACK) + 2, "{most} for {limit}");
        walk.end(&mut ordered);
        let wanted = &rows(&ordered)[..limit];
        assert_eq!(wanted, &sorted(met, false)[..limit]);
        assert_eq!(walk.left, 0);
    }
}

#[tokio::test]
async fn where_memory_is_scarce_a_limit_still_serves_and_what_has_none_is_refused() {
    // An eighth of it, about, for what a query cannot do without, and four bytes for each of a document.
    let (mut rng, world) = (randomly(), world(1 << 20).await);
    let mut limited = walk(&world, false, Some(2)).await;
    let (mut met, mut ordered) = (Vec::new(), Vec::new());
    for _ in 0..400 {
        let document = document(&mut rng, 1, 1_000);
        met.push(document.clone());
        limited.meet(1, document, &mut ordered).unwrap();
    }
    limited.end(&mut ordered);
    assert_eq!(rows(&ordered)[..2], sorted(met, false)[..2]);
    limited.rest();
    assert_eq!(world.shared.budget.held_bytes(), 0, "all of it is given back");
    let mut whole = walk(&world, false, None).await;
    let refused = (0..400).find_map(|_| whole.meet(1, document(&mut rng, 1, 1_000), &mut ordered).err());
    assert_eq!(refused.unwrap().fault, Fault::MemoryExceeded);
    drop(whole);
    assert_eq!(world.shared.budget.held_bytes(), 0);
}

#[tokio::test]
async fn runs_longer_than_a_sort_may_hold_are_refused_and_what_waits_for_its_place_is_bounded() {
    let (mut rng, world) = (randomly(), world(MANY).await);
    let mut one = walk(&world, false, None).await;
    let mut ordered = Vec::new();
    one.meet(1, document(&mut rng, 1, HELD_BYTES_MAX), &mut ordered).unwrap();
    let refused = one.meet(1, document(&mut rng, 1, 1), &mut ordered).unwrap_err();
    assert_eq!(refused.fault, Fault::DiskUseForbidden);
    let mut one = walk(&world, false, None).await;
    one.meet(1, document(&mut rng, 5, AHEAD_BYTES_MAX), &mut ordered).unwrap();
    one.meet(1, document(&mut rng, 4, 1), &mut ordered).unwrap();
    assert_eq!(ordered.iter().map(a_of).collect::<Vec<_>>(), [4], "there is no room for it to wait");
    one.end(&mut ordered);
    assert_eq!(ordered.iter().map(a_of).collect::<Vec<_>>(), [4, 5]);
}

#[tokio::test]
async fn rows_are_read_run_by_run_and_no_more_than_a_step_at_once() {
    let (mut rng, world) = (randomly(), world(MANY).await);
    for _ in 0..300 {
        let mut walk = walk(&world, false, None).await;
        let mut keys: Vec<u16> = (0..rng.random_range(0..4_000)).map(|_| rng.random_range(0..40)).collect();
        keys.sort_unstable();
        walk.named = keys.iter().map(|key| (key.to_be_bytes().to_vec(), RowId(rng.random()))).collect();
        walk.step = rng.random_range(1..3_000);
        let wanted = rng.random_range(0..100);
        let next = walk.next_rows(wanted);
        let all: Vec<RowId> = walk.named.iter().map(|(_, row)| *row).collect();
        assert_eq!(next, all[..next.len()], "in their order");
        let least = wanted.max(walk.step).min(DOCUMENTS_PER_STEP);
        assert!(next.len() >= least.min(all.len()) && next.len() <= DOCUMENTS_PER_STEP);
        if next.len() > least {
            assert_eq!(keys[least - 1], keys[next.len() - 1], "beyond what is wanted those of one run");
        }
        if (1..DOCUMENTS_PER_STEP).contains(&next.len()) && next.len() < keys.len() {
            assert_ne!(keys[next.len() - 1], keys[next.len()], "the run is read to its end");
        }
    }
}

#[tokio::test]
async fn a_walk_along_nothing_ends_and_one_whose_server_is_away_says_so() {
    let (mut rng, world) = (randomly(), world(MANY).await);
    let mut empty = walk(&world, false, None).await;
    assert!(empty.next(&world.shared, 10).await.unwrap().is_none());
    let mut one = walk(&world, false, None).await;
    one.named.push_back((one.place(1), RowId(rng.random())));
    assert_eq!(one.next(&world.shared, 10).await.unwrap_err().fault, Fault::Unreachable);
}
