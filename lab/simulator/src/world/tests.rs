//! What no run by itself would show of text indexes.

use super::*;
use crate::indexes::TEXT;
use arras_service::interrupt::Interrupt;
use arras_service::store::InsertStatement;
use bson::{Document, doc};

/// Longer than a sweep takes, and its next attempt.
const SWEPT: Duration = Duration::from_secs(8);

async fn world() -> (Arc<World>, Proxy) {
    let plan = Plan { texts: true, ..Plan::without_texts(1) };
    let world = World::new(plan, None, Arc::new(Trace::new(false)));
    world.start_server();
    world.search.start();
    world.start_proxy().await.unwrap();
    let proxy = world.proxy().await.unwrap();
    (world, proxy)
}

fn text() -> IndexDefinition {
    indexes::optional(TEXT, "")
}

async fn insert(proxy: &Proxy, documents: Vec<Document>) {
    let count = documents.len() as u64;
    let inserted =
        proxy.engine.insert(&namespace(), InsertStatement::of(documents, false).unwrap()).await.unwrap();
    assert_eq!(inserted.count, count);
}

#[tokio::test(start_paused = true)]
async fn entries_of_an_index_go_when_it_is_dropped() {
    let (world, proxy) = world().await;
    for drops_all in [false, true] {
        world.made(&proxy, vec![text()]).await.unwrap();
        let documents =
            (0..20).map(|number| doc! { "_id": i32::from(drops_all) * 100 + number, "t": "whale" });
        insert(&proxy, documents.collect()).await;
        assert!(world.search.entries() > 0);
        if drops_all {
            proxy.engine.drop_all_indexes(&namespace()).await.unwrap();
        } else {
            proxy.engine.drop_index(&namespace(), &text().name).await.unwrap();
        }
        sleep(SWEPT).await;
        assert_eq!(world.search.entries(), 0);
    }
}

#[tokio::test(start_paused = true)]
async fn entries_of_an_index_go_when_it_cannot_be_made() {
    let (world, proxy) = world().await;
    let mut documents: Vec<Document> = (0..1500).map(|id| doc! { "_id": id, "t": "whale" }).collect();
    documents.push(doc! { "_id": -1, "t": "whale", "language": "klingon" });
    insert(&proxy, documents).await;
    let requests = vec![text()];
    let (namespace, mut most) = (namespace(), 0);
    let mut made = std::pin::pin!(proxy.engine.create_indexes(&namespace, requests, Interrupt::default()));
    let made = loop {
        tokio::select! {
            made = &mut made => break made,
            () = sleep(Duration::from_millis(1)) => most = most.max(world.search.entries()),
        }
    };
    assert!(made.is_err(), "{made:?}");
    assert!(most > 0, "it began");
    sleep(SWEPT).await;
    assert_eq!(world.search.entries(), 0);
}
