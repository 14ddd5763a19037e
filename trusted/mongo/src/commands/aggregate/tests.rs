#![allow(clippy::unwrap_used)]

use super::*;
use arras_documents::sort::Sort;
use arras_service::ServiceError;
use arras_service::store::{Cursor, Turn};
use proptest::prelude::*;
use std::sync::{Arc, LazyLock};
use std::time::Duration;
use tokio::sync::{Barrier, Semaphore};

/// What a store answers to a query, as its trait says: filter, sort, skip, limit.
fn answer(query: &Query, documents: &[Document]) -> Vec<Document> {
    let matching = documents.iter().filter(|document| query.filter.matches(document).unwrap()).cloned();
    let sorted = query.sort.sort(matching.collect()).unwrap();
    let skip = usize::try_from(query.skip).unwrap();
    let limit = query.limit.map_or(usize::MAX, |limit| usize::try_from(limit).unwrap());
    sorted.into_iter().skip(skip).take(limit).collect()
}

fn split(stages: &[Document]) -> (Query, Vec<Stage>) {
    push_down(Pipeline::parse(stages).unwrap().stages().to_vec(), None)
}

#[test]
fn leading_stages_become_the_query() {
    let (query, rest) = split(&[
        doc! { "$match": { "a": 1 } },
        doc! { "$sort": { "b": 1 } },
        doc! { "$match": { "c": 2 } },
        doc! { "$skip": 3 },
        doc! { "$limit": 10 },
        doc! { "$skip": 2 },
        doc! { "$limit": 100 },
    ]);
    assert!(rest.is_empty());
    assert!(matches!(query.filter.expr(), Expr::And(both) if both.len() == 2));
    assert_eq!(query.sort, Sort::parse(&doc! { "b": 1 }).unwrap());
    assert_eq!((query.skip, query.limit), (5, Some(8)));
}

#[test]
fn stages_that_would_change_meaning_stay() {
    let stays = |stages: &[Document]| split(stages).1.len();
    assert_eq!(stays(&[doc! { "$limit": 2 }, doc! { "$match": { "a": 1 } }]), 1);
    assert_eq!(stays(&[doc! { "$limit": 2 }, doc! { "$sort": { "a": 1 } }]), 1);
    assert_eq!(stays(&[doc! { "$skip": 2 }, doc! { "$match": { "a": 1 } }]), 1);
    assert_eq!(stays(&[doc! { "$sort": { "a": 1 } }, doc! { "$sort": { "b": 1 } }]), 1);
    assert_eq!(stays(&[doc! { "$limit": 2 }, doc! { "$skip": 2 }]), 1);
    assert_eq!(stays(&[doc! { "$project": { "a": 1 } }, doc! { "$limit": 2 }]), 2);
}

#[test]
fn groups_an_index_may_answer() {
    let recognised = |group: Document| match split(&[doc! { "$group": group }]).1.first() {
        Some(Stage::Group(group)) => whole_group(group).map(|whole| whole.aggregates.len()),
        _ => None,
    };
    let sums = doc! { "_id": null, "n": { "$sum": 1 }, "s": { "$sum": "$a" }, "m": { "$avg": "$a.b" } };
    assert_eq!(recognised(sums), Some(3));
    assert_eq!(recognised(doc! { "_id": 1, "n": { "$count": {} } }), Some(1));
    for other in [
        doc! { "_id": "$a", "n": { "$sum": 1 } },
        doc! { "_id": null, "n": { "$sum": 2 } },
        doc! { "_id": null, "n": { "$sum": { "$add": ["$a", 1] } } },
        doc! { "_id": null, "n": { "$max": "$a" } },
        doc! { "_id": null, "n": { "$sum": 1 }, "all": { "$push": "$a" } },
        doc! { "_id": null },
    ] {
        assert_eq!(recognised(other.clone()), None, "{other}");
    }
}

/// Opens its one batch on a thread of the runtime, as a store does, once all of its kind have a pipeline.
struct Opening {
    all: Arc<Barrier>,
    batches: usize,
}

impl Cursor for Opening {
    async fn next_batch(&mut self, _: usize, _: usize) -> Result<Vec<Document>, ServiceError> {
        if self.batches == 0 {
            return Ok(Vec::new());
        }
        self.batches -= 1;
        self.all.wait().await;
        let opened = tokio::task::spawn_blocking(|| vec![doc! { "a": 1 }, doc! { "a": 2 }]).await;
        Ok(opened.unwrap())
    }
}

#[test]
fn pipelines_leave_the_threads_that_open_their_documents() {
    const PIPELINES: usize = 6;
    let mut runtime = tokio::runtime::Builder::new_multi_thread();
    let runtime = runtime.worker_threads(2).max_blocking_threads(2).enable_time().build().unwrap();
    let (done, waiting) = std::sync::mpsc::channel();
    let all = Arc::new(Barrier::new(PIPELINES));
    for _ in 0..PIPELINES {
        let (done, all) = (done.clone(), Arc::clone(&all));
        runtime.spawn(async move {
            let source = Batches::of_store(Opening { all, batches: 1 }, Shape::Whole, None);
            let group = doc! { "$group": { "_id": null, "sum": { "$sum": "$a" } } };
            let made = run_over(source, Pipeline::parse(&[group]).unwrap(), Workspace::default()).await;
            done.send(made.unwrap().next().unwrap().unwrap()).unwrap();
        });
    }
    for _ in 0..PIPELINES {
        // Without threads for the documents it never comes; waiting for that alone takes so long.
        let made = waiting.recv_timeout(Duration::from_secs(60));
        if made.is_err() {
            runtime.shutdown_background();
            panic!("pipelines and documents wait for each other");
        }
        assert_eq!(made.unwrap().get_i32("sum").unwrap(), 3);
    }
}

/// A store's one batch, where there is one turn, which this test alone takes.
struct OneTurn(Vec<Document>);

static THE_TURN: LazyLock<Arc<Semaphore>> = LazyLock::new(|| Arc::new(Semaphore::new(1)));

impl Cursor for OneTurn {
    async fn turn() -> Option<Turn> {
        Arc::clone(&THE_TURN).acquire_owned().await.ok().map(Turn::new)
    }

    async fn next_batch(&mut self, _: usize, _: usize) -> Result<Vec<Document>, ServiceError> {
        Ok(std::mem::take(&mut self.0))
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_result_that_waits_to_be_asked_for_keeps_no_turn() {
    let documents = (0..10).map(|a| doc! { "a": a }).collect();
    let source = Batches::of_store(OneTurn(documents), Shape::Whole, None);
    let group = Pipeline::parse(&[doc! { "$group": { "_id": "$a" } }]).unwrap();
    let mut result = run_over(source, group, Workspace::default()).await.unwrap();
    assert!(result.next().unwrap().is_some());
    assert_eq!(THE_TURN.available_permits(), 1);
    drop(result);
}

fn stage() -> impl Strategy<Value = Document> {
    prop_oneof![
        (0..4).prop_map(|a| doc! { "$match": { "a": { "$gte": a } } }),
        (0..4).prop_map(|b| doc! { "$match": { "$or": [{ "b": b }, { "a": b }] } }),
        prop_oneof![Just(1), Just(-1)].prop_map(|d| doc! { "$sort": { "a": d, "_id": 1 } }),
        prop_oneof![Just(1), Just(-1)].prop_map(|d| doc! { "$sort": { "b": d, "_id": d } }),
        (0..6).prop_map(|count| doc! { "$skip": count }),
        (1..8).prop_map(|count| doc! { "$limit": count }),
        Just(doc! { "$addFields": { "a": "$b" } }),
        Just(doc! { "$count": "n" }),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    #[test]
    fn a_split_pipeline_returns_what_the_whole_one_does(
        stages in prop::collection::vec(stage(), 0..7),
        values in prop::collection::vec((0..5, 0..5), 0..15),
    ) {
        let documents: Vec<Document> =
            values.iter().enumerate().map(|(id, (a, b))| doc! { "_id": id as i32, "a": *a, "b": *b }).collect();
        let whole = Pipeline::parse(&stages).unwrap().run(documents.clone()).unwrap();
        let (query, rest) = split(&stages);
        let parts = Pipeline::from_stages(rest).run(answer(&query, &documents)).unwrap();
        prop_assert_eq!(whole, parts);
    }
}
