//! A table that is restored alone has labels of another time than its order: no statement takes them for those of now.

use crate::dev::Dev;
use crate::extended::connect;
use crate::proxy::outputs;
use arras_lab::private_postgres::PrivatePostgres;
use tokio_postgres::Client;
use tokio_postgres::error::SqlState;

/// Tables with an order of each kind by labels.
pub(crate) const SCHEMA: &str = r#"
[tables."public.m"]
n = { id = "51c2a04be6f98d01", type = "integer", operations = ["order"] }
[tables."public.s"]
n = { id = "51c2a04be6f98d02", type = "integer", operations = ["order"], order = "stope" }
[tables."public.f"]
n = { id = "51c2a04be6f98d03", type = "integer", operations = ["order"], order = "fh_ope" }
"#;

/// How many keys the orders of `s` and `f` have.
pub(crate) const KEYS: &str = "SELECT count(*) FROM arras.mope_entry WHERE column_id IN (x'51c2a04be6f98d02'::bigint, x'51c2a04be6f98d03'::bigint)";
/// What a statement finds once it is not refused for labels of another time.
pub(crate) async fn found(client: &Client, statement: &str) -> Vec<i32> {
    loop {
        match client.query(statement, &[]).await {
            Ok(rows) => return rows.iter().map(|row| row.get(0)).collect(),
            Err(error) => assert_eq!(error.code(), Some(&SqlState::INVALID_TABLE_DEFINITION), "{error:?}"),
        }
        tokio::time::sleep(std::time::Duration::from_millis(50)).await;
    }
}

/// Everything has the rows of the dump, and takes others.
async fn is_right(client: &Client) {
    for table in ["m", "s", "f"] {
        let equal = format!("SELECT id FROM {table} WHERE n = 20");
        assert_eq!(found(client, &equal).await, [2], "{table}");
        let more = format!("INSERT INTO {table} VALUES (5, 15), (6, 31), (7, 20)");
        client.batch_execute(&more).await.unwrap();
        let sorted = format!("SELECT n FROM {table} WHERE n IS NOT NULL ORDER BY n");
        assert_eq!(found(client, &sorted).await, [10, 15, 20, 20, 30, 31, 40], "{table}");
        let below = format!("SELECT count(*)::int FROM {table} WHERE n < 30");
        assert_eq!(found(client, &below).await, [4], "{table}");
        assert_eq!(found(client, &format!("SELECT id FROM {table} WHERE n IS NULL")).await, [9], "{table}");
    }
}

fn restore(server: &PrivatePostgres, file: &str) {
    let mut run = server.command("psql");
    run.args(["-X", "-q", "-v", "ON_ERROR_STOP=1", "-f", file, &server.uri("postgres")]);
    let (ended, said, errors) = outputs(run);
    assert!(ended, "{said} {errors}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_table_that_is_restored_alone_gives_right_answers_or_none() {
    let server = PrivatePostgres::start().unwrap();
    let direct = connect(&server.uri("postgres")).await;
    let mut proxy = Dev::start(&server, "postgres", SCHEMA);
    let client = connect(&proxy.uri("postgres")).await;
    for table in ["m", "s", "f"] {
        let made = format!(
            "CREATE TABLE {table} (id integer, n integer); \
             INSERT INTO {table} VALUES (1, 10), (2, 20), (3, 30), (4, 40), (9, NULL)"
        );
        client.batch_execute(&made).await.unwrap();
    }
    let file = server.socket_folder().join("dump.sql");
    let mut dump = server.command("pg_dump");
    dump.args(["-t", "m", "-t", "s", "-t", "f", &server.uri("postgres")]);
    let (ended, dumped, errors) = outputs(dump);
    assert!(ended, "{errors}");
    std::fs::write(&file, dumped).unwrap();
    let file = file.to_str().unwrap();
    // Keys leave, and others take their labels.
    client.batch_execute("DELETE FROM s WHERE id IN (2, 3); DELETE FROM f WHERE id IN (2, 3)").await.unwrap();
    drop(client);
    proxy.killed_and_restarted(&server, "postgres");
    while direct.query_one(KEYS, &[]).await.unwrap().get::<_, i64>(0) > 4 {
        tokio::time::sleep(std::time::Duration::from_millis(50)).await;
    }
    let client = connect(&proxy.uri("postgres")).await;
    for value in [25, 22] {
        client
            .batch_execute(&format!("INSERT INTO s VALUES (6, {value}); INSERT INTO f VALUES (6, {value})"))
            .await
            .unwrap();
    }
    let other = connect(&proxy.uri("postgres")).await;
    direct.batch_execute("DROP TABLE m, s, f").await.unwrap();
    restore(&server, file);
    is_right(&other).await;
    assert_eq!(found(&client, "SELECT id FROM s WHERE n = 31").await, [6], "who was there before");
    let (well, said) = tokio::task::block_in_place(|| proxy.doctor(&server, "postgres", true));
    assert!(well, "{said}");
    // The same before a proxy starts.
    proxy.kill();
    direct.batch_execute("DROP TABLE m, s, f").await.unwrap();
    restore(&server, file);
    let (well, said) = tokio::task::block_in_place(|| proxy.doctor(&server, "postgres", true));
    assert!(!well && said.contains("public.s.n$ord is not known to store labels"), "{said}");
    assert!(said.contains("table public.s"), "it goes on: {said}");
    proxy.killed_and_restarted(&server, "postgres");
    is_right(&connect(&proxy.uri("postgres")).await).await;
    let left = "SELECT count(*) FROM pg_class WHERE relname LIKE 'restored\\_%'";
    assert_eq!(direct.query_one(left, &[]).await.unwrap().get::<_, i64>(0), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_row_that_does_not_open_is_named_and_the_table_is_right_without_it() {
    let server = PrivatePostgres::start().unwrap();
    let direct = connect(&server.uri("postgres")).await;
    let proxy = Dev::start(&server, "postgres", SCHEMA);
    let client = connect(&proxy.uri("postgres")).await;
    client.batch_execute("CREATE TABLE m (id integer, n integer)").await.unwrap();
    client.batch_execute("INSERT INTO m VALUES (1, 10), (2, 20), (3, 30)").await.unwrap();
    let damaged = "UPDATE m SET n = set_byte(n, 20, (get_byte(n, 20) + 1) % 256) WHERE id = 2";
    direct.batch_execute(&format!("{damaged}; INSERT INTO m SELECT * FROM m WHERE id = 1")).await.unwrap();
    let place = direct.query_one("SELECT ctid::text FROM m WHERE id = 2", &[]).await.unwrap();
    let named = format!("does not open as one of its column, in the row of ctid {}", place.get::<_, &str>(0));
    let log = proxy.directory().join("log.txt");
    while !std::fs::read_to_string(&log).unwrap().contains("does not open") {
        tokio::time::sleep(std::time::Duration::from_millis(50)).await;
    }
    let said = std::fs::read_to_string(&log).unwrap();
    assert!(said.contains(&named), "{said}");
    direct.batch_execute(&format!("DELETE FROM m WHERE ctid = '{}'", place.get::<_, &str>(0))).await.unwrap();
    assert_eq!(found(&client, "SELECT id FROM m WHERE n = 10").await, [1, 1]);
}
