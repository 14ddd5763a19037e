//! What `arras lab bench plans` measures, over few documents and without times.

use crate::client::Running;
use arras_engine::Settings;
use arras_lab::bench::plans::{self, RATIO_MAX};
use arras_lab::channel::Direct;
use arras_lab::one_process;
use arras_mongo::Options;
use arras_server::Backend;
use arras_storage::Memory;
use std::sync::Arc;

#[tokio::test(flavor = "multi_thread")]
async fn queries_of_sixteen_shapes_fetch_at_most_twice_what_the_best_plan_fetches() {
    let directory = tempfile::tempdir().unwrap();
    let channel = Arc::new(Direct::new(Arc::new(Backend::open(Memory::new(), [1; 16]).unwrap())));
    let engine = one_process::open(directory.path(), Memory::new(), channel, Settings::default()).await;
    let running = Running::start(engine.unwrap(), Options::default()).await;
    let address = running.address.to_string();
    let measured = tokio::task::spawn_blocking(move || plans::fetched(&address, 4000, 1, false, &|_| {}));
    let fetched = measured.await.unwrap().unwrap();
    assert_eq!(fetched.len(), 16);
    let worse: Vec<String> = fetched
        .iter()
        .filter(|shape| shape.ratio() > RATIO_MAX)
        .map(|shape| format!("{}: {} for {} ({})", shape.shape, shape.fetched, shape.best, shape.plan))
        .collect();
    assert!(worse.is_empty(), "{worse:#?}");
}
