//! Labels change while others read and write: connections stopped at every step. Each race is seen to be there without what
//! closes it.

use super::world::{Model, World, ciphertext, names, spread, until_waiting};
use arras_postgres::mope::{Bound, Protocol, store_in};
use arras_protocol::ChannelError;
use arras_protocol::mope::{Label, Summary, TreeStore};
use std::time::Duration;
use tokio::task::JoinHandle;
use tokio_postgres::Client;

/// What stops a change of labels, each at another of its steps, in their order, while it is held in another transaction. None
/// of it holds readers up.
const STOPS: [&str; 6] = [
    "SELECT FROM arras.mope_column FOR UPDATE",
    "LOCK TABLE arras.mope_epoch IN SHARE MODE",
    "LOCK TABLE arras.mope_node IN SHARE MODE",
    "LOCK TABLE arras.mope_entry IN SHARE MODE",
    "SELECT FROM t FOR UPDATE",
    "SELECT FROM u FOR UPDATE",
];

/// The last stop: labels of `t` have changed, and nobody sees it yet.
const CHANGED: &str = "SELECT FROM u FOR UPDATE";

/// A column with `a`, `b` and `c`, which `t` has, and a second table, whose labels change after those of `t`.
async fn world() -> (World, Model, Client) {
    let world = World::new(Protocol::Mope).await;
    let stopper = world.waiting_application().await;
    stopper.batch_execute("CREATE TABLE u (label bigint)").await.unwrap();
    store_in(&stopper, world.column, "u", "label").await.unwrap();
    let model = Model::store(&world.tables(), &[("a", 1000), ("b", 1001), ("c", 1002)]).await;
    world.insert(&stopper, &["a", "b", "c"]).await;
    stopper.batch_execute("BEGIN").await.unwrap();
    world.hold(&stopper).await;
    stopper.batch_execute("INSERT INTO u SELECT label FROM t WHERE name < 'b'; COMMIT").await.unwrap();
    (world, model, stopper)
}

/// All labels move down, so that the last becomes less than the first was.
fn all_down(model: &Model) -> Summary {
    let (low, high) = (*model.labels.values().min().unwrap(), *model.labels.values().max().unwrap());
    spread(low, high, low - 10, 1)
}

/// Begins a change of all labels that stops there.
async fn begin_and_stop(
    world: &World,
    model: &mut Model,
    stopper: &Client,
    stop: &str,
) -> JoinHandle<Result<bool, ChannelError>> {
    stopper.batch_execute("BEGIN").await.unwrap();
    stopper.batch_execute(stop).await.unwrap();
    let (tables, change) = (world.tables(), model.change(vec![all_down(model)], &[], &[]));
    let changing = tokio::spawn(async move { tables.commit(change).await });
    until_waiting(stopper, 1).await;
    changing
}

async fn from_bound(world: &World, client: &Client, name: &str) -> Vec<String> {
    let statement = format!(
        "SELECT name FROM t WHERE label >= arras.mope_bound({}, $1) ORDER BY label",
        world.column.number()
    );
    let ciphertext = ciphertext(name);
    names(&client.query(&statement, &[&Bound::At(&ciphertext, None).encode()]).await.unwrap())
}

async fn from_label(client: &Client, label: Label) -> Vec<String> {
    let number = (label ^ 1 << 63).cast_signed();
    let statement = "SELECT name FROM t WHERE label >= $1 ORDER BY label";
    names(&client.query(statement, &[&number]).await.unwrap())
}

#[tokio::test]
async fn a_reader_sees_labels_that_belong_together_and_never_waits() {
    let (world, mut model, stopper) = world().await;
    let fresh = world.application().await;
    for stop in STOPS {
        let before = world.application().await;
        before.batch_execute("BEGIN ISOLATION LEVEL REPEATABLE READ").await.unwrap();
        assert_eq!(from_bound(&world, &before, "b").await, ["b", "c"]);
        let learned = model.labels[&ciphertext("b")];
        let changing = begin_and_stop(&world, &mut model, &stopper, stop).await;
        for client in [&fresh, &before] {
            assert_eq!(from_bound(&world, client, "b").await, ["b", "c"], "{stop}");
            assert_eq!(from_label(client, learned).await, ["b", "c"], "{stop}");
            assert_eq!(world.ordered(client).await, ["a", "b", "c"], "{stop}");
        }
        stopper.batch_execute("COMMIT").await.unwrap();
        assert!(changing.await.unwrap().unwrap());
        for client in [&fresh, &before] {
            assert_eq!(from_bound(&world, client, "b").await, ["b", "c"], "{stop}");
            assert_eq!(world.ordered(client).await, ["a", "b", "c"], "{stop}");
        }
        // What the race is: a statement that carries a label does not know that it has changed.
        assert_eq!(from_label(&fresh, learned).await, Vec::<String>::new());
        assert_eq!(world.contradictions(&model).await, Vec::<String>::new());
    }
}

/// What a writer has done when labels are to change.
#[derive(Clone, Copy, PartialEq, Debug)]
enum Done {
    Begun,
    Held,
    Inserted,
}

#[tokio::test]
async fn labels_do_not_change_while_a_transaction_stores_them() {
    let (world, mut model, _) = world().await;
    let impatient = world.tables_with(|settings| settings.patience = Duration::from_millis(30));
    for done in [Done::Begun, Done::Held, Done::Inserted] {
        let writer = world.application().await;
        writer.batch_execute("BEGIN").await.unwrap();
        if done != Done::Begun {
            world.hold(&writer).await;
        }
        if done == Done::Inserted {
            writer.execute(&world.insertion(), &[&ciphertext("b").as_slice()]).await.unwrap();
        }
        let mut after = model.clone();
        let change = after.change(vec![all_down(&model)], &[], &[]);
        let changed = impatient.commit(change).await;
        if done == Done::Begun {
            assert!(changed.unwrap());
            model = after;
            world.hold(&writer).await;
        } else {
            assert!(matches!(changed, Err(ChannelError::Halted(_))), "{done:?}: {changed:?}");
        }
        if done != Done::Inserted {
            writer.execute(&world.insertion(), &[&ciphertext("b").as_slice()]).await.unwrap();
        }
        writer.batch_execute("COMMIT").await.unwrap();
        assert_eq!(world.contradictions(&model).await, Vec::<String>::new(), "{done:?}");
        let change = model.change(vec![all_down(&model)], &[], &[]);
        assert!(impatient.commit(change).await.unwrap());
        assert_eq!(world.contradictions(&model).await, Vec::<String>::new(), "{done:?}");
    }
    // What the race is: without the hold, the row's label stays what it was.
    let writer = world.application().await;
    writer.batch_execute("BEGIN").await.unwrap();
    writer.execute(&world.insertion(), &[&ciphertext("b").as_slice()]).await.unwrap();
    let change = model.change(vec![all_down(&model)], &[], &[]);
    assert!(impatient.commit(change).await.unwrap());
    writer.batch_execute("COMMIT").await.unwrap();
    let found = world.contradictions(&model).await;
    assert_eq!(
        found,
        [
            "1 rows of public.t have a label in label that is no value's",
            "1 rows have the label of another value"
        ]
    );
}

#[tokio::test]
async fn a_transaction_stores_the_labels_of_after_a_change_that_began_before_it() {
    for held in [true, false] {
        let (world, mut model, stopper) = world().await;
        for stop in STOPS {
            let changing = begin_and_stop(&world, &mut model, &stopper, stop).await;
            let writer = world.waiting_application().await;
            let (number, insertion) = (world.column.number(), world.insertion());
            let (released, release) = tokio::sync::oneshot::channel::<()>();
            let writing = tokio::spawn(async move {
                writer.batch_execute("BEGIN").await.unwrap();
                if held {
                    writer.execute("SELECT arras.mope_hold($1)", &[&number]).await.unwrap();
                }
                writer.execute(&insertion, &[&ciphertext("b").as_slice()]).await.unwrap();
                if !held {
                    // It ends after the change, which does not know of it.
                    release.await.unwrap();
                }
                writer.batch_execute("COMMIT").await.unwrap();
            });
            if held {
                until_waiting(&stopper, 2).await;
            } else {
                until_written(&world.application().await).await;
            }
            stopper.batch_execute("COMMIT").await.unwrap();
            assert!(changing.await.unwrap().unwrap());
            // Its receiver may be gone: only the writer without a hold waits for it.
            let _ = released.send(());
            writing.await.unwrap();
            let found = world.contradictions(&model).await;
            assert_eq!(found.is_empty(), held, "{stop}: {found:?}");
            // A row that was stored without a hold is a doubt, and a change of labels passes what is in doubt by.
            stopper.batch_execute("DELETE FROM t WHERE id > 3; DELETE FROM arras.mope_doubt").await.unwrap();
        }
    }
}

/// Waits until somebody else has written a row of `t` in a transaction that goes on. Asked outside of a transaction, which
/// would be told the same thing every time.
async fn until_written(client: &Client) {
    let written = "SELECT count(*) FROM pg_stat_activity WHERE state = 'idle in transaction' AND query LIKE 'INSERT INTO t %' \
                   AND backend_xid IS NOT NULL";
    while client.query_one(written, &[]).await.unwrap().get::<_, i64>(0) == 0 {
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
}

#[tokio::test]
async fn a_statement_that_changes_rows_finds_them_by_labels_of_one_time() {
    for held in [true, false] {
        let (world, mut model, stopper) = world().await;
        let changing = begin_and_stop(&world, &mut model, &stopper, CHANGED).await;
        let writer = world.waiting_application().await;
        let number = world.column.number();
        let deleting = tokio::spawn(async move {
            writer.batch_execute("BEGIN").await.unwrap();
            if held {
                writer.execute("SELECT arras.mope_hold($1)", &[&number]).await.unwrap();
            }
            let statement =
                format!("DELETE FROM t WHERE label >= arras.mope_bound({number}, $1) RETURNING name");
            let deleted =
                writer.query(&statement, &[&Bound::At(&ciphertext("b"), None).encode()]).await.unwrap();
            writer.batch_execute("COMMIT").await.unwrap();
            names(&deleted)
        });
        until_waiting(&stopper, 2).await;
        stopper.batch_execute("COMMIT").await.unwrap();
        assert!(changing.await.unwrap().unwrap());
        let deleted = deleting.await.unwrap();
        // Without the hold it waits for a row whose label is compared anew, with a bound that is not.
        assert_eq!(deleted == ["b", "c"], held, "{deleted:?}");
        assert_eq!(world.contradictions(&model).await, Vec::<String>::new());
    }
}
