//! What is left out because it is known: labels that a transaction holds, values that an order has, statements that are prepared.

use crate::dev::Dev;
use crate::extended::connect;
use arras_lab::private_postgres::{Options, PrivatePostgres};
use bytes::Bytes;
use futures_util::SinkExt;
use tokio_postgres::{Client, Statement};

const SCHEMA: &str = r#"
[tables."public.stock"]
quantity = { id = "5f0c9d3e21b7a846", type = "integer", operations = ["order"] }
sold = { id = "5f0c9d3e21b7a847", type = "bigint", operations = ["sum"] }
"#;

const CREATE: &str = "CREATE TABLE stock (id int PRIMARY KEY, quantity int, sold bigint); \
                      INSERT INTO stock VALUES (1, 10, 100), (2, 20, 200), (3, 30, 300)";

async fn number(client: &Client, text: &str) -> i64 {
    client.query_one(text, &[]).await.unwrap().get(0)
}

struct World {
    direct: Client,
    client: Client,
    update: Statement,
    process: i64,
    _proxy: Dev,
    server: PrivatePostgres,
}

impl World {
    async fn new() -> Self {
        let settings = vec![("log_statement".to_owned(), "all".to_owned())];
        let server = PrivatePostgres::start_with(&Options { settings, ..Options::default() }).unwrap();
        let proxy = Dev::start(&server, "postgres", SCHEMA);
        let direct = connect(&server.uri("postgres")).await;
        let client = connect(&proxy.uri("postgres")).await;
        client.batch_execute(CREATE).await.unwrap();
        let update = client.prepare("UPDATE stock SET quantity = $2 WHERE id = $1").await.unwrap();
        let process = number(&client, "SELECT pg_backend_pid()::bigint").await;
        Self { direct, client, update, process, _proxy: proxy, server }
    }

    async fn set(&self, id: i32, quantity: i32) {
        assert_eq!(self.client.execute(&self.update, &[&id, &quantity]).await.unwrap(), 1);
    }

    /// How often the database was sent a statement with such a part, by its log.
    fn sent(&self, part: &str) -> usize {
        let log = std::fs::read_to_string(self.server.log()).unwrap();
        let sent = |line: &&str| line.contains("LOG:  execute") || line.contains("LOG:  statement");
        log.lines().filter(sent).filter(|line| line.contains(part)).count()
    }

    /// Does the client's transaction hold labels?
    async fn holds(&self) -> bool {
        let locks =
            "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND mode = 'ShareLock' AND granted";
        number(&self.direct, &format!("{locks} AND pid = {}", self.process)).await > 0
    }
}

#[tokio::test]
async fn labels_are_held_once_in_a_transaction() {
    let world = World::new().await;
    let before = world.sent("mope_hold");
    world.client.batch_execute("BEGIN").await.unwrap();
    for quantity in [20, 30, 10, 20] {
        world.set(1, quantity).await;
        assert!(world.holds().await);
    }
    world.client.batch_execute("COMMIT").await.unwrap();
    assert!(!world.holds().await);
    assert_eq!(world.sent("mope_hold"), before + 1);
    world.client.batch_execute("BEGIN").await.unwrap();
    world.set(1, 30).await;
    assert!(world.holds().await, "another transaction holds them anew");
    world.client.batch_execute("ROLLBACK").await.unwrap();
    world.set(1, 10).await;
    world.set(1, 20).await;
    assert_eq!(world.sent("mope_hold"), before + 4, "outside of a block each statement is a transaction");
}

/// What is held since a savepoint goes with it.
#[tokio::test]
async fn labels_are_held_again_after_a_return_to_a_savepoint() {
    let world = World::new().await;
    for back in ["ROLLBACK TO s", "SELECT broken; ROLLBACK TO s", "ROLLBACK AND CHAIN", "COMMIT AND CHAIN"] {
        world.client.batch_execute("BEGIN; SAVEPOINT s").await.unwrap();
        world.set(1, 20).await;
        assert!(world.holds().await);
        for part in back.split("; ") {
            let _ = world.client.batch_execute(part).await;
        }
        assert!(!world.holds().await, "{back}");
        world.set(1, 30).await;
        assert!(world.holds().await, "{back}");
        world.client.batch_execute("ROLLBACK").await.unwrap();
    }
    // The way out of a transaction is sent ahead, and what is behind it is another.
    world.client.batch_execute("BEGIN").await.unwrap();
    world.set(1, 20).await;
    let commit = world.client.prepare("COMMIT").await.unwrap();
    let begin = world.client.prepare("BEGIN").await.unwrap();
    let (one, two, three) = tokio::join!(
        world.client.execute(&commit, &[]),
        world.client.execute(&begin, &[]),
        world.client.execute(&world.update, &[&2, &30])
    );
    one.unwrap();
    two.unwrap();
    three.unwrap();
    assert!(world.holds().await);
    world.client.batch_execute("ROLLBACK").await.unwrap();
}

/// What a transaction's triggers know it holds by is taken away with the session's settings; its locks stay.
#[tokio::test]
async fn labels_that_are_held_are_no_doubt_behind_settings_that_are_reset() {
    let world = World::new().await;
    let reset = world.client.prepare("RESET ALL").await.unwrap();
    let forget = "CREATE PROCEDURE forget() LANGUAGE plpgsql AS $$ BEGIN EXECUTE 'RESET ALL'; END $$";
    world.direct.batch_execute(forget).await.unwrap();
    for (place, text) in [
        "RESET ALL",
        "DO $$ BEGIN EXECUTE 'RESET ALL'; END $$",
        "CALL forget()",
        "SET SESSION AUTHORIZATION DEFAULT",
        "RESET SESSION AUTHORIZATION",
        "RESET search_path",
        "SAVEPOINT s; RESET ALL; ROLLBACK TO s",
        "SAVEPOINT s; RESET ALL; RELEASE s",
        "",
    ]
    .into_iter()
    .enumerate()
    {
        world.client.batch_execute("BEGIN").await.unwrap();
        world.set(1, 20 + i32::try_from(place).unwrap()).await;
        if text.is_empty() {
            // Prepared, and sent ahead.
            let next = world.client.execute(&world.update, &[&2, &10]);
            let (done, next) = tokio::join!(world.client.execute(&reset, &[]), next);
            assert!(done.is_ok() && next.unwrap() == 1);
        }
        world.client.batch_execute(text).await.unwrap();
        world.set(2, 30).await;
        let doubts = number(&world.client, "SELECT count(*) FROM arras.mope_doubt").await;
        assert!(doubts == 0 && world.holds().await, "{text}: {doubts}");
        world.client.batch_execute("COMMIT").await.unwrap();
        assert!(!world.holds().await, "{text}");
        world.set(3, 10).await;
        assert_eq!(number(&world.direct, "SELECT count(*) FROM arras.mope_doubt").await, 0, "{text}");
    }
}

/// A value that the order has costs no look at it, but for one from time to time; one that it lacks does.
#[tokio::test]
async fn a_value_that_is_stored_again_is_not_looked_up_again() {
    let world = World::new().await;
    for id in [1, 2, 3] {
        world.set(id, 10).await;
    }
    let before = world.sent("mope_fetch");
    for _ in 0..100 {
        world.set(1, 20).await;
        world.set(2, 10).await;
        world.set(3, 30).await;
    }
    let looked = world.sent("mope_fetch") - before;
    // It was 300 times.
    assert!((1..10).contains(&looked), "{looked}");
    world.set(1, 40).await;
    assert!(world.sent("mope_commit") > 0);
    assert_eq!(number(&world.client, "SELECT count(*) FROM stock WHERE quantity = 40").await, 1);
}

/// A value beside the last one is entered in one round.
#[tokio::test]
async fn values_side_by_side_are_entered_without_a_look_before() {
    let world = World::new().await;
    // The tree has an inner node, so that its root is no leaf.
    let values: Vec<String> =
        (0..1000).map(|value| format!("({}, {}, 0)", value + 10, value * 1000)).collect();
    let insert = format!("INSERT INTO stock VALUES {}", values.join(", "));
    world.client.batch_execute(&insert).await.unwrap();
    let (before, entered) = (world.sent("mope_fetch"), world.sent("mope_commit"));
    for value in 0..100 {
        world.set(1, 2_000_000 + value).await;
    }
    let looked = world.sent("mope_fetch") - before;
    assert!(world.sent("mope_commit") >= entered + 100);
    assert!(looked < 20, "{looked}");
    assert_eq!(number(&world.client, "SELECT count(*) FROM stock WHERE quantity >= 2000000").await, 1);
}

/// Statements from old values that take turns stay prepared beside one another, and write what they are to.
#[tokio::test]
async fn statements_from_old_values_take_turns() {
    let world = World::new().await;
    let mut statements = Vec::new();
    for at in 0..20 {
        let text = format!("UPDATE stock SET sold = sold + $1 /* {at} */ WHERE id = $2");
        statements.push(world.client.prepare(&text).await.unwrap());
    }
    for round in 0..3_i64 {
        for (at, statement) in statements.iter().enumerate() {
            let amount = at as i64 + round;
            assert_eq!(world.client.execute(statement, &[&amount, &2]).await.unwrap(), 1);
        }
    }
    let sold = number(&world.client, "SELECT sold FROM stock WHERE id = 2").await;
    assert_eq!(sold, 200 + 3 * (0..20).sum::<i64>() + 20 * (1 + 2));
}

/// Rows that a client sends together are entered together.
#[tokio::test]
async fn copied_rows_are_entered_in_their_order_together() {
    let world = World::new().await;
    let before = world.sent("mope_commit");
    let lines: String =
        (0..1000).map(|row| format!("{}\t{}\t0\n", row + 10, (row * 7919) % 1000 + 100)).collect();
    let sink = world.client.copy_in::<_, Bytes>("COPY stock FROM STDIN").await.unwrap();
    let mut sink = std::pin::pin!(sink);
    sink.send(Bytes::from(lines)).await.unwrap();
    assert_eq!(sink.finish().await.unwrap(), 1000);
    let changes = world.sent("mope_commit") - before;
    assert!((1..100).contains(&changes), "{changes} changes for 1000 values");
    assert_eq!(
        number(&world.client, "SELECT count(*) FROM stock WHERE quantity BETWEEN 200 AND 299").await,
        100
    );
    // What is no value of its column is an error of its row, as ever.
    let sink = world.client.copy_in::<_, Bytes>("COPY stock FROM STDIN").await.unwrap();
    let mut sink = std::pin::pin!(sink);
    sink.send(Bytes::from("5000\t1\t0\n5001\tnone\t0\n")).await.unwrap();
    let refused = sink.finish().await.unwrap_err();
    assert_eq!(refused.code().map(|code| code.code()), Some("22P02"));
    assert_eq!(number(&world.client, "SELECT count(*) FROM stock").await, 1003);
}

#[tokio::test]
async fn what_a_join_is_filtered_by_is_found_once() {
    let world = World::new().await;
    let rows: Vec<String> = (4..=80).map(|id| format!("({id}, {})", 40 + id % 3)).collect();
    world
        .client
        .batch_execute(&format!("INSERT INTO stock (id, quantity) VALUES {}", rows.join(", ")))
        .await
        .unwrap();
    // Each row is filtered: there is no index to find them by.
    world.direct.batch_execute("DROP INDEX arras_5f0c9d3e21b7a846_order").await.unwrap();
    world
        .client
        .batch_execute(
            "CREATE TABLE line (item int); INSERT INTO line SELECT generate_series(1, 80); SET track_functions = 'all'; BEGIN",
        )
        .await
        .unwrap();
    let low = "SELECT count(*) FROM line, stock WHERE id = item AND quantity < $1";
    assert_eq!(world.client.query_one(low, &[&25_i32]).await.unwrap().get::<_, i64>(0), 2);
    let calls = "SELECT calls FROM pg_stat_xact_user_functions WHERE funcname = 'mope_bound'";
    let calls = number(&world.client, calls).await;
    // To plan, in the sub-query, and for each of the two rows that it leaves.
    assert!((1..10).contains(&calls), "{calls} calls for 80 rows");
}
