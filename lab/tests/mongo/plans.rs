//! What `arras lab bench plans` measures, over few documents and without times.

use crate::client::Running;
use arras_engine::Settings;
use arras_lab::bench::plans::{self, Fetched, RATIO_MAX};
use arras_lab::channel::Direct;
use arras_lab::one_process;
use arras_mongo::Options;
use arras_server::Backend;
use arras_storage::Memory;
use std::sync::Arc;

/// Keys are drawn at random, and what an index of ranges can say of its entries is drawn with them: one of a few sets may say of a
/// range that it has half or twice what it has.
const KEYS: usize = 5;

async fn fetched_under_fresh_keys() -> Vec<Fetched> {
    let directory = tempfile::tempdir().unwrap();
    let channel = Arc::new(Direct::new(Arc::new(Backend::open(Memory::new(), [1; 16]).unwrap())));
    let engine = one_process::open(directory.path(), Memory::new(), channel, Settings::default()).await;
    let running = Running::start(engine.unwrap(), Options::default()).await;
    let address = running.address.to_string();
    let measured = tokio::task::spawn_blocking(move || plans::fetched(&address, 4000, 1, false, &|_| {}));
    measured.await.unwrap().unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn queries_of_sixteen_shapes_fetch_at_most_twice_what_the_best_plan_fetches() {
    let mut under = Vec::new();
    for _ in 0..KEYS {
        under.push(fetched_under_fresh_keys().await);
    }
    let shapes = under[0].len();
    assert_eq!(shapes, 16);
    let mut worse = Vec::new();
    for shape in 0..shapes {
        let mut of_shape: Vec<&Fetched> = under.iter().map(|fetched| &fetched[shape]).collect();
        of_shape.sort_by(|left, right| left.ratio().total_cmp(&right.ratio()));
        let median = of_shape[KEYS / 2];
        if median.ratio() > RATIO_MAX {
            worse.push(format!("{}: {} for {} ({})", median.shape, median.fetched, median.best, median.plan));
        }
    }
    assert!(worse.is_empty(), "{worse:#?}");
}
