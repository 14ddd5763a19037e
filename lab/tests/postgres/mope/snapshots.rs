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
        let learned = tables.learn(std::slice::from_ref(&ciphertext)).await.unwrap().of[0];
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
        let learned: Option<Learned> = tables.learn(std::slice::from_ref(&unknown)).await.unwrap().of[0];
        let refused = late.query(&reading, &[&Bound::At(&unknown, learned).encode()]).await.unwrap_err();
        assert_eq!(refused.code(), Some(&SqlState::T_R_SERIALIZATION_FAILURE));
        let change = model.change(vec![spread(11, 11 + model.head.values, 10, 1)], &[], &[level]);
        assert!(tables.commit(change).await.unwrap());
    }
}

/// Behind a ciphertext, as behind a bound's, a label may be carried; a transaction with a snapshot of its own sees the newer.
#[tokio::test]
async fn a_new_value_is_stored_with_the_label_that_it_brings() {
    let world = World::new(Protocol::Mope).await;
    let tables = world.tables();
    let mut model = Model::store(&tables, &[("a", 10), ("c", 1 << 40)]).await;
    let setup = world.application().await;
    world.insert(&setup, &["a", "c"]).await;
    let storing =
        format!("INSERT INTO t (name, label) SELECT $1, arras.mope_order({}, $2)", world.column.number());
    for (level, new) in LEVELS.into_iter().chain(["READ COMMITTED"]).zip(["b1", "b2", "b3"]) {
        let transaction = begin(&world, level).await;
        let label = model.labels.values().filter(|label| **label < 1 << 40).max().unwrap() + 1;
        assert!(tables.commit(model.change(Vec::new(), &[(new, label)], &[])).await.unwrap());
        let stored = ciphertext(new);
        let learned = tables.learn(std::slice::from_ref(&stored)).await.unwrap().of[0].unwrap();
        world.hold(&transaction).await;
        let carried = [&stored[..], &learned.encode()].concat();
        transaction.execute(&storing, &[&stored, &carried]).await.unwrap();
        transaction.batch_execute("COMMIT").await.unwrap();
        assert_eq!(world.contradictions(&model).await, Vec::<String>::new(), "{level}");
    }
    assert_eq!(world.ordered(&setup).await, ["a", "b1", "b2", "b3", "c"]);
    // One that is of another time is refused by who cannot see that it is.
    let late = begin(&world, LEVELS[0]).await;
    let label = model.labels.values().filter(|label| **label < 1 << 40).max().unwrap() + 1;
    assert!(tables.commit(model.change(Vec::new(), &[("b4", label)], &[])).await.unwrap());
    assert!(tables.commit(model.change(vec![spread(10, 1 << 40, 11, 1)], &[], &[])).await.unwrap());
    let stored = ciphertext("b4");
    let learned = tables.learn(std::slice::from_ref(&stored)).await.unwrap().of[0].unwrap();
    let carried = [&stored[..], &learned.encode()].concat();
    let refused = late.execute(&storing, &[&stored, &carried]).await.unwrap_err();
    assert_eq!(refused.code(), Some(&SqlState::T_R_SERIALIZATION_FAILURE));
}

/// A session waits for an encoder whose change waits for the labels that the session holds.
#[tokio::test]
async fn a_transaction_that_waits_for_itself_is_told_so_at_once() {
    let world = World::new(Protocol::Mope).await;
    // Far longer than the test may take: without the look it is for this that is waited.
    let tables = world.tables_with(|settings| settings.patience = std::time::Duration::from_secs(20));
    let mut model = Model::store(&tables, &[("a", 10), ("b", 11)]).await;
    let held = world.application().await;
    held.batch_execute("BEGIN").await.unwrap();
    world.hold(&held).await;
    let process: i32 = held.query_one("SELECT pg_backend_pid()", &[]).await.unwrap().get(0);
    let session = tables.encoding(Some(process));
    let change = model.clone().change(vec![spread(10, 11, 11, 1)], &[], &[]);
    let refused = tables.commit(change.clone()).await.unwrap_err().to_string();
    assert!(refused.contains("holds them itself") && refused.contains(&process.to_string()), "{refused}");
    drop(session);
    held.batch_execute("ROLLBACK").await.unwrap();
    model.change(vec![spread(10, 11, 11, 1)], &[], &[]);
    assert!(tables.commit(change).await.unwrap());
    assert_eq!(world.contradictions(&model).await, Vec::<String>::new());
}

/// A transaction sees rows of a value that has left since: what it is compared with now is not between what it sees.
#[tokio::test]
async fn a_bound_beside_a_value_that_left_is_refused_to_who_sees_its_rows() {
    let world = World::new(Protocol::Stope).await;
    let tables = world.tables();
    let mut model = Model::store(&tables, &[("a", 10), ("b", 20), ("c", 30), ("d", 40)]).await;
    let (setup, number) = (world.application().await, world.column.number());
    world.insert(&setup, &["a", "b", "c", "d"]).await;
    for (level, (gone, neighbour)) in LEVELS.into_iter().zip([("b", "c"), ("d", "c")]) {
        let transaction = begin(&world, level).await;
        setup.batch_execute("BEGIN").await.unwrap();
        world.hold(&setup).await;
        setup.execute("DELETE FROM t WHERE name = $1", &[&ciphertext(gone)]).await.unwrap();
        setup.batch_execute("COMMIT").await.unwrap();
        assert!(tables.commit(model.change(Vec::new(), &[], &[gone])).await.unwrap());
        let beside = ciphertext(neighbour);
        let learned = tables.learn(std::slice::from_ref(&beside)).await.unwrap();
        let greater = |bound: Vec<u8>| {
            let reading =
                format!("SELECT name FROM t WHERE label >= arras.mope_bound({number}, $1) ORDER BY label");
            let transaction = &transaction;
            async move { transaction.query(&reading, &[&bound]).await }
        };
        // What is not less than the value that left, as the tree has it now.
        let bound = if gone < neighbour { Bound::At(&beside, learned.of[0]) } else { Bound::Greatest };
        let seen = names(&greater(bound.encode()).await.unwrap());
        assert!(!seen.contains(&gone.to_owned()), "{level}: it misses the row that it sees: {seen:?}");
        let refused = greater(bound.encode_of_epoch(learned.epoch).unwrap()).await.unwrap_err();
        assert_eq!(refused.code(), Some(&SqlState::T_R_SERIALIZATION_FAILURE), "{level}");
        transaction.batch_execute("ROLLBACK").await.unwrap();
        // Who sees the rows as they are now goes by it.
        transaction.batch_execute(&format!("BEGIN ISOLATION LEVEL {level}")).await.unwrap();
        let expected: &[&str] = if gone < neighbour { &["c", "d"] } else { &[] };
        assert_eq!(names(&greater(bound.encode_of_epoch(learned.epoch).unwrap()).await.unwrap()), expected);
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
    let learned = tables.learn(&[b.clone(), ciphertext("no")]).await.unwrap().of;
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
