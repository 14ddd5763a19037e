//! Changes of labels that are made before there is no room: in a real PostgreSQL, by a client half that has the key.

use super::world::{Model, World, spread};
use arras_keys::Key;
use arras_postgres::mope::{Protocol, TreeTables};
use arras_protocol::mope::{Fetch, Fetched, Round, TreeChange, TreeStore, Tried};
use arras_schemes::mope::{Form, Kind, Settings, Tree};
use arras_schemes::random::Randomness;
use std::sync::{Arc, Mutex};
use std::time::Duration;

#[tokio::test]
async fn a_change_that_can_wait_is_made_only_where_nobody_holds_labels_or_rows() {
    let world = World::new(Protocol::Mope).await;
    let tables = world.tables();
    let mut model = Model::store(&tables, &[("a", 10), ("b", 11)]).await;
    let thinking = world.application().await;
    world.insert(&thinking, &["a", "b"]).await;
    // With the labels held, and with a row locked that is to change by somebody who does not hold them.
    for held in [true, false] {
        thinking.batch_execute("BEGIN").await.unwrap();
        if held {
            world.hold(&thinking).await;
        } else {
            thinking.batch_execute("SELECT FROM t FOR UPDATE").await.unwrap();
        }
        let before = model.clone();
        let change = model.change(vec![spread(10, 11, 100, 100)], &[], &[]);
        assert_eq!(tables.commit_within(change, Duration::from_millis(1)).await.unwrap(), Tried::Busy);
        model = before;
        thinking.batch_execute("COMMIT").await.unwrap();
        assert_eq!(world.contradictions(&model).await, Vec::<String>::new());
    }
    let late = model.clone().change(vec![spread(10, 11, 300, 100)], &[], &[]);
    let change = model.change(vec![spread(10, 11, 100, 100)], &[], &[]);
    assert_eq!(tables.commit_within(change, Duration::from_millis(1)).await.unwrap(), Tried::Applied);
    assert_eq!(tables.commit_within(late, Duration::from_millis(1)).await.unwrap(), Tried::OtherVersion);
    assert_eq!(world.contradictions(&model).await, Vec::<String>::new());
}

/// Tables that count the labels of each change.
struct Counted {
    tables: TreeTables,
    /// Rows whose label was another one after a change than before it, of each change of labels.
    changed: Arc<Mutex<Vec<i64>>>,
    client: tokio_postgres::Client,
}

impl Counted {
    async fn counted<T>(&self, is_spread: bool, round: impl Future<Output = T>) -> T {
        if !is_spread {
            return round.await;
        }
        let remember =
            "DROP TABLE IF EXISTS before; CREATE TEMPORARY TABLE before AS SELECT id, label FROM t";
        self.client.batch_execute(remember).await.unwrap();
        let done = round.await;
        let count = "SELECT count(*) FROM t JOIN before b USING (id) WHERE t.label <> b.label";
        let changed = self.client.query_one(count, &[]).await.unwrap().get(0);
        self.changed.lock().unwrap().push(changed);
        done
    }
}

impl TreeStore for Counted {
    fn fetch(&self, fetch: Fetch) -> Round<'_, Fetched> {
        self.tables.fetch(fetch)
    }

    fn commit(&self, change: TreeChange) -> Round<'_, bool> {
        Box::pin(self.counted(!change.summaries.is_empty(), self.tables.commit(change)))
    }

    fn commit_within(&self, change: TreeChange, wait: Duration) -> Round<'_, Tried> {
        Box::pin(self.counted(true, self.tables.commit_within(change, wait)))
    }
}

fn open<S: TreeStore>(store: S) -> Tree<S> {
    let settings = Settings { form: Form::Fixed(8), kind: Kind::Mope, verified: true };
    Tree::open(store, &Key::take_from(&mut [7; 32]), settings, None, Randomness::default()).unwrap()
}

/// From both ends towards the middle.
fn medians(values: std::ops::Range<u64>) -> Vec<[u8; 8]> {
    values.flat_map(|at| [at, u64::MAX - at]).map(u64::to_be_bytes).collect()
}

impl World {
    /// Stores a row for each value of a tree.
    async fn store_rows<S: TreeStore>(
        &self,
        client: &tokio_postgres::Client,
        tree: &Tree<S>,
        values: &[[u8; 8]],
    ) {
        let stored = tree.encode(values).await.unwrap();
        let names: Vec<&[u8]> = stored.iter().map(|stored| stored.ciphertext.as_slice()).collect();
        client.batch_execute("BEGIN").await.unwrap();
        self.hold(client).await;
        let insertion =
            "INSERT INTO t (name, label) SELECT n, arras.mope_order($1, n) FROM unnest($2::bytea[]) n";
        client.execute(insertion, &[&self.column.number(), &names]).await.unwrap();
        client.batch_execute("COMMIT").await.unwrap();
    }

    /// Checks that rows are in the order of their values.
    async fn check_order<S: TreeStore>(&self, client: &tokio_postgres::Client, tree: &Tree<S>, rows: usize) {
        let found = client.query("SELECT name FROM t ORDER BY label", &[]).await.unwrap();
        let values: Vec<Vec<u8>> =
            found.iter().map(|row| tree.value(&row.get::<_, Vec<u8>>(0).into()).unwrap()).collect();
        assert!(values.is_sorted_by(|one, next| one < next));
        assert_eq!(values.len(), rows);
        let examination =
            arras_postgres::mope::Examination::begin(self.connections.open().await.unwrap(), self.column);
        assert_eq!(examination.await.unwrap().contradictions().await.unwrap(), Vec::<String>::new());
    }
}

#[tokio::test]
async fn a_wide_range_is_spread_in_pieces_in_table_and_rows() {
    const MOST: i64 = 4096;
    let world = World::new(Protocol::Mope).await;
    let client = world.waiting_application().await;
    let changed = Arc::default();
    let store = || async {
        let client = world.waiting_application().await;
        Counted { tables: world.tables(), changed: Arc::clone(&changed), client }
    };
    let mut tree = open(store().await);
    let mut rows = 0;
    for batch in medians(0..6000).chunks(600) {
        world.store_rows(&client, &tree, batch).await;
        rows += batch.len();
    }
    // Pieces are paid by later values, and a client that knows nothing of them goes on as well.
    for at in 6000..6080 {
        if at % 20 == 0 {
            tree = open(store().await);
        }
        world.store_rows(&client, &tree, &medians(at..at + 1)).await;
        rows += 2;
    }
    world.check_order(&client, &tree, rows).await;
    let changed = changed.lock().unwrap();
    let (most, all) = (changed.iter().max().copied().unwrap(), changed.iter().sum::<i64>());
    assert!(most <= MOST, "{most} labels in one transaction");
    assert!(all > 10_000, "the whole was spread: {all}");
}

#[tokio::test]
async fn transactions_that_hold_labels_and_store_values_in_one_place_do_not_wait_for_themselves() {
    let world = World::new(Protocol::Mope).await;
    let tree = open(world.tables_with(|settings| settings.patience = Duration::from_millis(50)));
    let client = world.waiting_application().await;
    world.store_rows(&client, &tree, &medians(0..500)).await;
    let mut stored = 1000;
    // Transactions of a few statements, each of which stores a value in the same place.
    for transaction in 0..40 {
        client.batch_execute("BEGIN").await.unwrap();
        for statement in 0..2 {
            // As the proxy does: what is new is entered first.
            let at = 500 + transaction * 2 + statement;
            let entered = tree.encode(&medians(at..at + 1)).await.unwrap();
            let names: Vec<&[u8]> = entered.iter().map(|stored| stored.ciphertext.as_slice()).collect();
            world.hold(&client).await;
            let insertion =
                "INSERT INTO t (name, label) SELECT n, arras.mope_order($1, n) FROM unnest($2::bytea[]) n";
            client.execute(insertion, &[&world.column.number(), &names]).await.unwrap();
            stored += 2;
        }
        client.batch_execute("COMMIT").await.unwrap();
    }
    world.check_order(&client, &tree, stored).await;
}
