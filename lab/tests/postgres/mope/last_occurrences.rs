//! Same-time encodings: values go with their last occurrence, and never while a row has them.

use super::world::{Model, World, ciphertext, spread};
use arras_postgres::mope::{Protocol, Reach, TreeTables};
use arras_protocol::mope::TreeStore;
use arras_protocol::{ChannelError, Refusal};
use std::time::Duration;
use tokio_postgres::Client;

async fn unused(tables: &TreeTables, reach: Reach) -> Vec<String> {
    let found = tables.unused(reach, 100).await.unwrap();
    let mut names: Vec<String> = found
        .iter()
        .map(|name| String::from_utf8(name.as_slice().to_vec()).unwrap().trim_end().to_owned())
        .collect();
    names.sort_unstable();
    names
}

async fn delete(client: &Client, world: &World, rows: &str) {
    client.batch_execute("BEGIN").await.unwrap();
    world.hold(client).await;
    client.batch_execute(rows).await.unwrap();
    client.batch_execute("COMMIT").await.unwrap();
}

#[tokio::test]
async fn statements_note_what_lost_an_occurrence_and_only_unused_values_leave() {
    let world = World::new(Protocol::Stope).await;
    let tables = world.tables();
    let values = [("a", 10), ("b", 20), ("c", 30), ("z", 40)];
    let mut model = Model::store(&tables, &values).await;
    let client = world.application().await;
    world.insert(&client, &["a", "a", "b", "c"]).await;
    assert_eq!(unused(&tables, Reach::Noted).await, Vec::<String>::new());
    // Its statement was rolled back, or never came.
    assert_eq!(unused(&tables, Reach::All).await, ["z"]);
    delete(&client, &world, "DELETE FROM t WHERE id = 1").await;
    assert_eq!(unused(&tables, Reach::Noted).await, Vec::<String>::new());
    let notes = "SELECT count(*) FROM arras.mope_left";
    assert_eq!(client.query_one(notes, &[]).await.unwrap().get::<_, i64>(0), 0, "struck: a row has it");
    // A change of all labels is no loss.
    assert!(tables.commit(model.change(vec![spread(10, 40, 100, 10)], &[], &[])).await.unwrap());
    delete(&client, &world, "UPDATE t SET name = name").await;
    assert_eq!(client.query_one(notes, &[]).await.unwrap().get::<_, i64>(0), 0);
    let other = format!(
        "UPDATE t SET label = arras.mope_order({0}, '{1}') WHERE id = 3",
        world.column.number(),
        "c               "
    );
    delete(&client, &world, &format!("DELETE FROM t WHERE id = 2; {other}")).await;
    assert_eq!(unused(&tables, Reach::Noted).await, ["a", "b"]);
    assert_eq!(unused(&tables, Reach::Noted).await, ["a", "b"], "noted until they leave");
    let stored = tables.commit(model.clone().change(Vec::new(), &[], &["a", "c"])).await.unwrap_err();
    assert!(matches!(stored, ChannelError::Refused(Refusal::Conflict { .. })), "{stored}");
    assert_eq!(
        client.query_one("SELECT version FROM arras.mope_column", &[]).await.unwrap().get::<_, i64>(0),
        2
    );
    assert!(tables.commit(model.change(Vec::new(), &[], &["a", "b", "z"])).await.unwrap());
    assert_eq!(client.query_one(notes, &[]).await.unwrap().get::<_, i64>(0), 0);
    assert_eq!(unused(&tables, Reach::All).await, Vec::<String>::new());
    // Who had learned it before is told so.
    let late = client.execute(&world.insertion(), &[&ciphertext("z").as_slice()]).await.unwrap_err();
    assert_eq!(late.code().map(tokio_postgres::error::SqlState::code), Some("40001"));
    client.batch_execute("TRUNCATE t").await.unwrap();
    assert_eq!(unused(&tables, Reach::All).await, ["c"]);
}

#[tokio::test]
async fn a_value_does_not_leave_while_a_transaction_stores_it() {
    let world = World::new(Protocol::Stope).await;
    let tables = world.tables_with(|settings| settings.patience = Duration::from_millis(30));
    let mut model = Model::store(&tables, &[("a", 10), ("b", 20)]).await;
    let writer = world.application().await;
    writer.batch_execute("BEGIN").await.unwrap();
    world.hold(&writer).await;
    assert_eq!(unused(&tables, Reach::All).await, ["a", "b"]);
    writer.execute(&world.insertion(), &[&ciphertext("a").as_slice()]).await.unwrap();
    let held = tables.commit(model.clone().change(Vec::new(), &[], &["a"])).await.unwrap_err();
    assert!(matches!(held, ChannelError::Halted(_)), "{held}");
    writer.batch_execute("COMMIT").await.unwrap();
    let stored = tables.commit(model.clone().change(Vec::new(), &[], &["a"])).await.unwrap_err();
    assert!(matches!(stored, ChannelError::Refused(Refusal::Conflict { .. })), "{stored}");
    assert!(tables.commit(model.change(Vec::new(), &[], &["b"])).await.unwrap());
    // The contents compared: the row has its own value's label, the table what the client knows.
    assert_eq!(world.contradictions(&model).await, Vec::<String>::new());
}
