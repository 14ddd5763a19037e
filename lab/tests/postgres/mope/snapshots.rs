//! Transactions that see the database as it was when they began.

use super::world::{Model, World, ciphertext, names, spread};
use arras_postgres::mope::{Bound, Learned, Protocol};
use arras_protocol::mope::TreeStore;
use tokio_postgres::Client;
use tokio_postgres::error::SqlState;

const LEVELS: [&str; 2] = ["REPEATABLE READ", "SERIALIZABLE"];

async fn begin(world: &World, level: &str) -> Client {
    let client = world.application().await;
    client.batch_execute(&format!("BEGIN ISOLATION LEVEL {level}; SELECT count(*) FROM t")).await.unwrap();
    client
}

#[tokio::test]
async fn labels_that_changed_since_are_not_stored() {
    let world = World::new(Protocol::Mope).await;
    let tables = world.tables();
    let mut model = Model::store(&tables, &[("a", 10), ("b", 11)]).await;
    for level in LEVELS {
        let (held, careless) = (begin(&world, level).await, begin(&world, level).await);
        let first = *model.labels.values().min().unwrap();
        let change = model.change(vec![spread(first, first + 1, first + 1, 1)], &[], &[]);
        assert!(tables.commit(change).await.unwrap());
        let refused =
            held.execute("SELECT arras.mope_hold($1)", &[&world.column.number()]).await.unwrap_err();
        assert_eq!(refused.code(), Some(&SqlState::T_R_SERIALIZATION_FAILURE), "{level}");
        assert_eq!(world.contradictions(&model).await, Vec::<String>::new());
        // What it would have done: a's label as it was is nobody's, b's is a's.
        careless.execute(&world.insertion(), &[&ciphertext("b").as_slice()]).await.unwrap();
        careless.batch_execute("COMMIT").await.unwrap();
        assert_eq!(world.contradictions(&model).await, ["1 rows have the label of another value"], "{level}");
        careless.batch_execute("DELETE FROM t").await.unwrap();
    }
}

#[tokio::test]
async fn values_that_are_newer_are_stored_and_compared_by_labels_that_were_learned() {
    let world = World::new(Protocol::Mope).await;
    let tables = world.tables();
    let mut model = Model::store(&tables, &[("a", 10), ("c", 20)]).await;
    let number = world.column.number();
    let setup = world.application().await;
    world.insert(&setup, &["a", "c"]).await;
    for (level, new) in LEVELS.into_iter().zip(["b1", "b2"]) {
        let transaction = begin(&world, level).await;
        let label = model.labels.values().filter(|label| **label < 20).max().unwrap() + 1;
        assert!(tables.commit(model.change(Vec::new(), &[(new, label)], &[])).await.unwrap());
        world.hold(&transaction).await;
        let ciphertext = ciphertext(new);
        let learned = tables.learn(std::slice::from_ref(&ciphertext)).await.unwrap()[0];
        assert_eq!(learned.unwrap().label, label);
        let reading = format!("SELECT name FROM t WHERE label > arras.mope_bound({number}, $1)");
        let bound = Bound::At(&ciphertext, learned).encode();
        assert_eq!(names(&transaction.query(&reading, &[&bound]).await.unwrap()), ["c"], "{level}");
        let storing = format!("INSERT INTO t (name, label) SELECT $1, arras.mope_bound({number}, $2)");
        transaction.execute(&storing, &[&ciphertext, &bound]).await.unwrap();
        transaction.batch_execute("COMMIT").await.unwrap();
        assert_eq!(world.contradictions(&model).await, Vec::<String>::new(), "{level}");
    }
    assert_eq!(world.ordered(&setup).await, ["a", "b1", "b2", "c"]);
    // Without a label that was learned there is nothing to go by; with one that is not of its time, neither.
    for level in LEVELS {
        let plain = begin(&world, level).await;
        let late = begin(&world, level).await;
        let label = model.labels[&ciphertext("c")] + 1;
        assert!(tables.commit(model.change(Vec::new(), &[(level, label)], &[])).await.unwrap());
        let unknown = ciphertext(level);
        let reading = format!("SELECT name FROM t WHERE label < arras.mope_bound({number}, $1)");
        let refused = plain.query(&reading, &[&Bound::At(&unknown, None).encode()]).await.unwrap_err();
        assert_eq!(refused.code().map(SqlState::code), Some("40001"));
        let high = *model.labels.values().max().unwrap();
        let change = model.change(vec![spread(10, high, 11, 1)], &[], &[]);
        assert!(tables.commit(change).await.unwrap());
        let learned: Option<Learned> = tables.learn(std::slice::from_ref(&unknown)).await.unwrap()[0];
        let refused = late.query(&reading, &[&Bound::At(&unknown, learned).encode()]).await.unwrap_err();
        assert_eq!(refused.code(), Some(&SqlState::T_R_SERIALIZATION_FAILURE));
        let change = model.change(vec![spread(11, 11 + model.head.values, 10, 1)], &[], &[level]);
        assert!(tables.commit(change).await.unwrap());
    }
}

#[tokio::test]
async fn bounds_stand_where_they_say() {
    let world = World::new(Protocol::Mope).await;
    let tables = world.tables();
    Model::store(&tables, &[("a", 1), ("b", 1 << 63), ("c", u64::MAX - 1)]).await;
    let client = world.application().await;
    world.insert(&client, &["a", "b", "c"]).await;
    let (a, b, c) = (ciphertext("a"), ciphertext("b"), ciphertext("c"));
    let learned = tables.learn(&[b.clone(), ciphertext("no")]).await.unwrap();
    assert_eq!(learned[1], None);
    let expected: [(Bound<'_>, &str, &[&str]); 9] = [
        (Bound::Least, ">", &["a", "b", "c"]),
        (Bound::Greatest, "<", &["a", "b", "c"]),
        (Bound::Least, "=", &[]),
        (Bound::At(&b, None), ">", &["c"]),
        (Bound::JustBelow(&b, None), ">", &["b", "c"]),
        (Bound::JustAbove(&b, None), "<", &["a", "b"]),
        (Bound::JustAbove(&b, learned[0]), ">", &["c"]),
        (Bound::JustAbove(&c, None), "<", &["a", "b", "c"]),
        (Bound::JustBelow(&a, None), ">", &["a", "b", "c"]),
    ];
    for (bound, operator, rows) in expected {
        let number = world.column.number();
        let statement = format!(
            "SELECT name FROM t WHERE label {operator} arras.mope_bound({number}, $1) ORDER BY label"
        );
        let found = client.query(&statement, &[&bound.encode()]).await.unwrap();
        assert_eq!(names(&found), rows, "{operator} {bound:?}");
    }
}
