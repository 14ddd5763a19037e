//! Bad input and faults, on encrypted columns and with the processes that a person runs: what comes of each is PostgreSQL's own
//! error or a clear one, and afterwards trees, labels and rows agree.

use crate::dev::Dev;
use crate::differential::{Choices, Side, Statement, compare};
use crate::extended::{cancel_to_the_end, connect};
use crate::small_disk::SmallDisk;
use arras_lab::private_postgres::{Options, PrivatePostgres};
use tokio_postgres::{Client, Error, SimpleQueryMessage};

const SCHEMA: &str = r#"
[tables."public.accounts"]
owner = { id = "91b6c0d2ee4f7a35", type = "text", operations = ["equality"] }
balance = { id = "5f0c9d3e21b7a846", type = "bigint", operations = ["equality", "order", "sum"] }
opened = { id = "0a4477c1d2e8f693", type = "date", operations = ["order"], order = "stope" }
"#;

const CREATE: &str = "CREATE TABLE accounts (id int PRIMARY KEY, owner text, balance bigint, opened date)";

/// SQLSTATE, message and hint.
fn told(error: &Error) -> (String, String) {
    let said = error.as_db_error().unwrap_or_else(|| panic!("{error:?}"));
    (said.code().code().to_owned(), format!("{} {}", said.message(), said.hint().unwrap_or_default()))
}

async fn balances(client: &Client) -> Vec<i64> {
    let rows = client.simple_query("SELECT balance FROM accounts ORDER BY balance").await.unwrap();
    let value = |message| match message {
        SimpleQueryMessage::Row(row) => Some(row.get(0).unwrap().parse().unwrap()),
        _ => None,
    };
    rows.into_iter().filter_map(value).collect()
}

/// That nothing contradicts itself.
fn assert_well(proxy: &Dev, server: &PrivatePostgres, database: &str) {
    let (well, said) = proxy.doctor(server, database, true);
    assert!(well, "{said}");
}

#[tokio::test]
async fn a_declaration_that_does_not_fit_the_table_is_an_error_that_says_so() {
    let server = PrivatePostgres::start().unwrap();
    let direct = connect(&server.uri("postgres")).await;
    direct.batch_execute(CREATE).await.unwrap();
    let proxy = Dev::start(&server, "postgres", SCHEMA);
    let client = connect(&proxy.uri("postgres")).await;
    let (code, text) = told(&client.simple_query("SELECT owner FROM accounts").await.unwrap_err());
    assert_eq!(code, "42P16");
    assert!(text.contains("holds bigint in plaintext") || text.contains("holds text in plaintext"), "{text}");
    let (well, said) = proxy.doctor(&server, "postgres", false);
    assert!(!well && said.contains("FAIL  tables: column public.accounts"), "{said}");
    // Mended, it goes on without a restart.
    direct.batch_execute("DROP TABLE accounts").await.unwrap();
    client.batch_execute(CREATE).await.unwrap();
    client.batch_execute("INSERT INTO accounts VALUES (1, 'Ann', 5, '2020-01-01')").await.unwrap();
    assert_well(&proxy, &server, "postgres");
}

/// An insertion that is tried again where it is to be.
async fn insert(client: &Client, id: usize, balance: i64) {
    let text = format!("INSERT INTO accounts VALUES ({id}, 'o', {balance}, '2020-01-01')");
    while let Err(error) = client.simple_query(&text).await {
        assert_eq!(told(&error).0, "40001", "{error:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn two_proxies_keep_one_column() {
    let server = PrivatePostgres::start().unwrap();
    let proxy = Dev::start(&server, "postgres", SCHEMA);
    let beside = proxy.beside(&server, "postgres");
    let mut clients = vec![connect(&proxy.uri("postgres")).await];
    clients[0].batch_execute(CREATE).await.unwrap();
    clients.push(connect(&beside.uri("postgres")).await);
    clients.push(connect(&proxy.uri("postgres")).await);
    clients.push(connect(&beside.uri("postgres")).await);
    let mut inserting = Vec::new();
    for (number, client) in clients.into_iter().enumerate() {
        inserting.push(tokio::spawn(async move {
            let mut choices = Choices::new(number as u64);
            let mut inserted = Vec::new();
            for id in 0..60 {
                // Few, so that both enter the same ones, too.
                let balance = i64::try_from(choices.below(100)).unwrap();
                insert(&client, 1000 * number + id, balance).await;
                inserted.push(balance);
            }
            inserted
        }));
    }
    let mut expected = Vec::new();
    for one in inserting {
        expected.extend(one.await.unwrap());
    }
    expected.sort_unstable();
    for uri in [proxy.uri("postgres"), beside.uri("postgres")] {
        assert_eq!(balances(&connect(&uri).await).await, expected);
    }
    assert_well(&proxy, &server, "postgres");
}

/// What would be told of one snapshot in plaintext is told of one here: values that came after it are stored, too.
#[tokio::test]
async fn a_transaction_with_one_snapshot_stores_and_compares_values_that_are_newer() {
    let server = PrivatePostgres::start().unwrap();
    let proxy = Dev::start(&server, "postgres", SCHEMA);
    let client = connect(&proxy.uri("postgres")).await;
    client.batch_execute(CREATE).await.unwrap();
    client
        .batch_execute("INSERT INTO accounts VALUES (1, 'Ann', 5, '2020-01-01'), (2, 'Bob', 9, '2020-05-01')")
        .await
        .unwrap();
    for (round, level) in ["REPEATABLE READ", "SERIALIZABLE"].into_iter().enumerate() {
        let new = |of: usize| 100 * (round + 1) + of;
        let begin = format!("BEGIN ISOLATION LEVEL {level}; SELECT count(*) FROM accounts");
        client.batch_execute(&begin).await.unwrap();
        for text in [
            format!("INSERT INTO accounts VALUES ({}, 'x', {}, '2021-01-{:02}')", new(1), new(7), round + 1),
            format!("UPDATE accounts SET balance = {} WHERE id = 1", new(8)),
            format!("UPDATE accounts SET balance = balance + 1000 WHERE balance > {}", new(7)),
            format!("SELECT id FROM accounts WHERE balance BETWEEN {} AND {} FOR UPDATE", new(3), new(9)),
            format!("DELETE FROM accounts WHERE opened < '2019-01-{:02}'", round + 1),
        ] {
            client.simple_query(&text).await.unwrap_or_else(|error| panic!("{level}: {text}: {error:?}"));
        }
        let insert = client.prepare("INSERT INTO accounts (id, balance) VALUES ($1, $2)").await.unwrap();
        let (id, balance) = (i32::try_from(new(2)).unwrap(), i64::try_from(new(50)).unwrap());
        client.execute(&insert, &[&id, &balance]).await.unwrap();
        client.batch_execute("COMMIT").await.unwrap();
    }
    // By a default of the session, of which no statement speaks.
    let direct = connect(&server.uri("postgres")).await;
    direct
        .batch_execute("ALTER ROLE postgres SET default_transaction_isolation = 'serializable'")
        .await
        .unwrap();
    let client = connect(&proxy.uri("postgres")).await;
    client.batch_execute("BEGIN; SELECT count(*) FROM accounts").await.unwrap();
    client.batch_execute("INSERT INTO accounts (id, balance) VALUES (900, 77777)").await.unwrap();
    client.batch_execute("COMMIT").await.unwrap();
    assert_eq!(balances(&client).await, [9, 107, 150, 207, 250, 1208, 77777]);
    assert_well(&proxy, &server, "postgres");
}

/// Random transactions of one snapshot on two connections, with the same in plaintext: they fail where those do.
#[tokio::test(flavor = "multi_thread")]
async fn transactions_of_one_snapshot_fail_where_they_fail_in_plaintext() {
    let seed = std::env::var("ARRAS_TEST_SEED").map_or(1, |seed| seed.parse().unwrap());
    eprintln!("ARRAS_TEST_SEED={seed}");
    let server = PrivatePostgres::start().unwrap();
    let admin = Side::connect(&server.uri("postgres"), 1).await;
    for database in ["plain", "encrypted"] {
        admin.create_database(database).await;
    }
    let proxy = Dev::start(&server, "encrypted", SCHEMA);
    let mut sides =
        [Side::connect(&server.uri("plain"), 2).await, Side::connect(&proxy.uri("encrypted"), 2).await];
    let mut choices = Choices::new(seed);
    let mut open = [false; 2];
    let mut text = CREATE.to_owned();
    let (mut at, mut failures, mut done) = (0, 0, 0);
    for number in 0..500 {
        let statement = Statement { text: text.clone(), is_ordered: false, bound: None };
        let [plain, encrypted] = &mut sides;
        let (expected, found) = (plain.ask(at, &statement).await, encrypted.ask(at, &statement).await);
        let (one, other) = (compare::comparable(&expected, false), compare::comparable(&found, false));
        assert_eq!(one, other, "seed {seed}, statement {number}, connection {at}: {text}\n{found:?}");
        failures += usize::from(expected.is_to_be_tried_again());
        done += usize::from(!expected.is_error());
        at = choices.below(2);
        text = if !open[at] {
            open[at] = true;
            "BEGIN ISOLATION LEVEL REPEATABLE READ".to_owned()
        } else {
            // A wide domain, so that most values are new.
            let (id, value) = (choices.below(30), choices.below(100_000));
            match choices.below(12) {
                0..=3 => format!(
                    "INSERT INTO accounts VALUES ({id}, 'o{}', {value}, NULL) ON CONFLICT (id) DO NOTHING",
                    value % 5
                ),
                4 => format!("UPDATE accounts SET balance = {value} WHERE id = {id}"),
                5 => {
                    format!("UPDATE accounts SET balance = balance + 1 WHERE balance > {value} AND id < {id}")
                }
                6 => format!("DELETE FROM accounts WHERE balance BETWEEN {value} AND {}", value + 3000),
                7 | 8 => format!("SELECT id, balance FROM accounts WHERE balance >= {value}"),
                9 => "SELECT count(*), sum(balance), min(balance) FROM accounts".to_owned(),
                _ => {
                    open[at] = false;
                    (*choices.one(&["COMMIT", "COMMIT", "ROLLBACK"])).to_owned()
                }
            }
        };
    }
    assert!(done > 200 && failures > 0, "{done} came to a result, {failures} were to be tried again");
}

/// In one transaction each value goes between the last two: there is half the room each time, until labels must change that
/// the transaction holds itself.
#[tokio::test]
async fn a_transaction_whose_own_labels_are_in_the_way_succeeds_when_it_is_tried_again() {
    let schema = "[tables.\"public.deep\"]\nn = { id = \"5f0c9d3e21b7a8aa\", type = \"numeric(38,0)\", operations = [\"order\"] }\n";
    let server = PrivatePostgres::start().unwrap();
    let proxy = Dev::start(&server, "postgres", schema);
    let client = connect(&proxy.uri("postgres")).await;
    client.batch_execute("CREATE TABLE deep (id int PRIMARY KEY, n numeric(38,0))").await.unwrap();
    let (mut low, mut high) = (0_u128, 10_u128.pow(36));
    client.batch_execute(&format!("INSERT INTO deep VALUES (0, {low}), (1, {high})")).await.unwrap();
    let mut values = Vec::new();
    // Labels have 64 bits: not all of these find room.
    while values.len() < 66 {
        let middle = u128::midpoint(low, high);
        values.push(middle);
        if values.len() % 2 == 0 { low = middle } else { high = middle }
    }
    let mut tries = 0;
    'again: loop {
        tries += 1;
        assert!(tries <= values.len(), "no try gets further than the one before");
        client.batch_execute("BEGIN").await.unwrap();
        for (id, value) in values.iter().enumerate() {
            let text = format!("INSERT INTO deep VALUES ({}, {value})", id + 2);
            if let Err(error) = client.simple_query(&text).await {
                let (code, said) = told(&error);
                assert!(code == "40001" && said.contains("holds them itself"), "{error:?}");
                client.batch_execute("ROLLBACK").await.unwrap();
                continue 'again;
            }
        }
        break client.batch_execute("COMMIT").await.unwrap();
    }
    assert!(tries > 1, "labels of the transaction were in the way");
    values.extend([0, 10_u128.pow(36)]);
    values.sort_unstable();
    let rows = client.simple_query("SELECT n FROM deep ORDER BY n").await.unwrap();
    let found: Vec<u128> = rows
        .into_iter()
        .filter_map(|message| match message {
            SimpleQueryMessage::Row(row) => Some(row.get(0).unwrap().parse().unwrap()),
            _ => None,
        })
        .collect();
    assert_eq!(found, values);
    assert_well(&proxy, &server, "postgres");
}

#[tokio::test]
async fn a_serialization_failure_is_postgresqls_own() {
    let server = PrivatePostgres::start().unwrap();
    let proxy = Dev::start(&server, "postgres", SCHEMA);
    let clients = [connect(&proxy.uri("postgres")).await, connect(&proxy.uri("postgres")).await];
    clients[0].batch_execute(CREATE).await.unwrap();
    for client in &clients {
        client.batch_execute("BEGIN ISOLATION LEVEL SERIALIZABLE").await.unwrap();
        client.simple_query("SELECT sum(balance) FROM accounts").await.unwrap();
    }
    for (id, client) in clients.iter().enumerate() {
        let text = format!("INSERT INTO accounts (id, balance) VALUES ({id}, {})", 100 + id);
        client.batch_execute(&text).await.unwrap();
    }
    clients[0].batch_execute("COMMIT").await.unwrap();
    let (code, text) = told(&clients[1].batch_execute("COMMIT").await.unwrap_err());
    assert_eq!(code, "40001");
    assert!(text.contains("read/write dependencies among transactions"), "{text}");
    assert_eq!(balances(&clients[1]).await, [100]);
    assert_well(&proxy, &server, "postgres");
}

#[tokio::test]
async fn a_query_that_is_cancelled_ends_and_the_session_goes_on() {
    let server = PrivatePostgres::start().unwrap();
    let proxy = Dev::start(&server, "postgres", SCHEMA);
    let client = connect(&proxy.uri("postgres")).await;
    client.batch_execute(CREATE).await.unwrap();
    client.batch_execute("INSERT INTO accounts (id, balance) VALUES (1, 5)").await.unwrap();
    let watch = connect(&server.uri("postgres")).await;
    let gate = connect(&server.uri("postgres")).await;
    gate.batch_execute("BEGIN; LOCK accounts").await.unwrap();
    for text in
        ["SELECT balance FROM accounts WHERE balance < 9", "INSERT INTO accounts (id, balance) VALUES (2, 6)"]
    {
        let token = client.cancel_token();
        let cancel = async {
            let waiting = "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock'";
            while watch.query_one(waiting, &[]).await.unwrap().get::<_, i64>(0) == 0 {
                tokio::task::yield_now().await;
            }
            cancel_to_the_end(&token, &proxy.uri("postgres")).await;
        };
        let (ended, ()) = tokio::join!(client.simple_query(text), cancel);
        assert_eq!(told(&ended.unwrap_err()).0, "57014", "{text}");
    }
    gate.batch_execute("COMMIT").await.unwrap();
    assert_eq!(balances(&client).await, [5]);
    client.batch_execute("INSERT INTO accounts (id, balance) VALUES (2, 6)").await.unwrap();
    assert_eq!(balances(&client).await, [5, 6]);
    assert_well(&proxy, &server, "postgres");
}

/// While the proxy looks for a value's place in an order, the database runs nothing that it could cancel.
#[tokio::test]
async fn a_query_is_cancelled_while_the_proxy_works_for_it() {
    let server = PrivatePostgres::start().unwrap();
    let proxy = Dev::start(&server, "postgres", SCHEMA);
    let client = connect(&proxy.uri("postgres")).await;
    client.batch_execute(CREATE).await.unwrap();
    client.batch_execute("INSERT INTO accounts (id, balance) VALUES (1, 5)").await.unwrap();
    let watch = connect(&server.uri("postgres")).await;
    let gate = connect(&server.uri("postgres")).await;
    let insert = client.prepare("INSERT INTO accounts (id, balance) VALUES ($1, $2)").await.unwrap();
    for (prepared, id) in [(false, 2_i32), (true, 3)] {
        gate.batch_execute("BEGIN; LOCK arras.mope_column, arras.mope_node, arras.mope_entry").await.unwrap();
        let token = client.cancel_token();
        let cancel = async {
            let waiting = "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock'";
            while watch.query_one(waiting, &[]).await.unwrap().get::<_, i64>(0) == 0 {
                tokio::task::yield_now().await;
            }
            cancel_to_the_end(&token, &proxy.uri("postgres")).await;
        };
        let balance = 1000 + i64::from(id);
        let run = async {
            if prepared {
                return client.execute(&insert, &[&id, &balance]).await.map(drop);
            }
            let text = format!("INSERT INTO accounts (id, balance) VALUES ({id}, {balance})");
            client.simple_query(&text).await.map(drop)
        };
        let (ended, ()) = tokio::join!(run, cancel);
        assert_eq!(told(&ended.unwrap_err()).0, "57014", "prepared: {prepared}");
        gate.batch_execute("COMMIT").await.unwrap();
        assert_eq!(balances(&client).await, [5], "prepared: {prepared}");
    }
    client.execute(&insert, &[&2, &6_i64]).await.unwrap();
    assert_eq!(balances(&client).await, [5, 6]);
    assert_well(&proxy, &server, "postgres");
}

/// What the proxy was told is in its trees must outlive a crash, whatever the database takes for committed.
#[tokio::test]
async fn a_crash_of_a_database_that_does_not_wait_for_its_disk_leaves_the_orders_usable() {
    let mut settings = Options::default();
    // Its log would go to the disk within a fifth of a second else.
    settings.settings.push(("synchronous_commit".into(), "off".into()));
    settings.settings.push(("wal_writer_delay".into(), "10s".into()));
    settings.settings.push(("wal_writer_flush_after".into(), "1GB".into()));
    let mut server = PrivatePostgres::start_with(&settings).unwrap();
    let proxy = Dev::start(&server, "postgres", SCHEMA);
    let client = connect(&proxy.uri("postgres")).await;
    client.batch_execute(CREATE).await.unwrap();
    for round in 0..3 {
        let client = connect(&proxy.uri("postgres")).await;
        for id in 0..20 {
            let number = 100 * round + id;
            let text =
                format!("INSERT INTO accounts (id, balance) VALUES ({number}, {})", number * 7919 % 1000);
            client.batch_execute(&text).await.unwrap();
        }
        server.kill().unwrap();
        server.restart().unwrap();
        let client = connect(&proxy.uri("postgres")).await;
        // The last rows may be gone, as in any such database; what is there is in its order, and more can come.
        let there = balances(&client).await;
        assert!(there.is_sorted(), "{there:?}");
    }
    assert_well(&proxy, &server, "postgres");
}

#[tokio::test]
async fn a_database_that_is_restarted_within_a_transaction_has_what_was_committed() {
    let mut server = PrivatePostgres::start().unwrap();
    let proxy = Dev::start(&server, "postgres", SCHEMA);
    let client = connect(&proxy.uri("postgres")).await;
    client.batch_execute(CREATE).await.unwrap();
    for stop in [true, false] {
        let client = connect(&proxy.uri("postgres")).await;
        client
            .batch_execute("INSERT INTO accounts (id, balance) VALUES (1, 5) ON CONFLICT (id) DO NOTHING")
            .await
            .unwrap();
        client.batch_execute("BEGIN; INSERT INTO accounts (id, balance) VALUES (2, 6)").await.unwrap();
        if stop {
            server.stop().unwrap();
        } else {
            server.kill().unwrap();
        }
        assert!(client.batch_execute("COMMIT").await.is_err());
        server.restart().unwrap();
        let again = connect(&proxy.uri("postgres")).await;
        // The proxy's own connections are made anew, too.
        assert_eq!(balances(&again).await, [5]);
        again.batch_execute("INSERT INTO accounts (id, balance) VALUES (3, 4), (4, 6)").await.unwrap();
        assert_eq!(balances(&again).await, [4, 5, 6]);
        again.batch_execute("DELETE FROM accounts WHERE id > 1").await.unwrap();
    }
    assert_well(&proxy, &server, "postgres");
}

#[tokio::test]
async fn a_database_from_an_old_backup_is_noticed() {
    let server = PrivatePostgres::start().unwrap();
    let admin = connect(&server.uri("postgres")).await;
    admin.batch_execute("CREATE DATABASE shop").await.unwrap();
    let mut proxy = Dev::start(&server, "shop", SCHEMA);
    {
        let client = connect(&proxy.uri("shop")).await;
        client.batch_execute(CREATE).await.unwrap();
        client.batch_execute("INSERT INTO accounts (id, balance) VALUES (1, 5)").await.unwrap();
    }
    let backup = server.socket_folder().join("backup.sql");
    let dumped =
        server.command("pg_dump").args(["--no-sync", "-f"]).arg(&backup).arg(server.uri("shop")).status();
    assert!(dumped.unwrap().success());
    {
        let client = connect(&proxy.uri("shop")).await;
        client.batch_execute("INSERT INTO accounts (id, balance) VALUES (2, 7)").await.unwrap();
    }
    admin.batch_execute("CREATE DATABASE old").await.unwrap();
    let restored = server.command("psql").args(["-Xq", "-f"]).arg(&backup).arg(server.uri("old")).output();
    assert!(restored.unwrap().status.success());
    proxy.kill();
    admin.batch_execute("DROP DATABASE shop WITH (FORCE)").await.unwrap();
    admin.batch_execute("ALTER DATABASE old RENAME TO shop").await.unwrap();
    // The database's mark tells it, too, if it was raised between: the order tells it without.
    std::fs::remove_file(proxy.directory().join("data/postgres-heads/database.mark")).unwrap();
    proxy.killed_and_restarted(&server, "shop");
    let client = connect(&proxy.uri("shop")).await;
    for text in
        ["INSERT INTO accounts (id, balance) VALUES (2, 6)", "SELECT id FROM accounts WHERE balance < 6"]
    {
        let (code, said) = told(&client.simple_query(text).await.unwrap_err());
        assert_eq!(code, "XX001", "{said}");
        assert!(said.contains("accounts.balance") && said.contains("older"), "{said}");
    }
    let (well, said) = proxy.doctor(&server, "shop", false);
    assert!(!well && said.contains("FAIL  order of accounts.balance") && said.contains("set back"), "{said}");
}

#[tokio::test]
async fn an_order_is_kept_in_the_upstreams_database_and_elsewhere_that_is_said() {
    let server = PrivatePostgres::start().unwrap();
    let admin = connect(&server.uri("postgres")).await;
    admin.batch_execute("CREATE DATABASE other").await.unwrap();
    let proxy = Dev::start(&server, "postgres", SCHEMA);
    let client = connect(&proxy.uri("other")).await;
    client.batch_execute("CREATE TABLE plain (n int); INSERT INTO plain VALUES (1)").await.unwrap();
    let (code, said) = told(&client.batch_execute(CREATE).await.unwrap_err());
    assert_eq!(code, "0A000", "{said}");
    assert!(said.contains("kept in database \"postgres\"") && said.contains("\"other\""), "{said}");
}

#[tokio::test]
async fn a_full_disk_is_postgresqls_own_error_and_once_there_is_room_writing_goes_on() {
    let server = PrivatePostgres::start().unwrap();
    let folder = server.socket_folder().join("small");
    let Some(disk) = SmallDisk::mount(&folder, 48) else { return };
    let admin = connect(&server.uri("postgres")).await;
    admin.batch_execute(&format!("CREATE TABLESPACE small LOCATION '{}'", folder.display())).await.unwrap();
    admin.batch_execute("CREATE DATABASE shop TABLESPACE small").await.unwrap();
    let proxy = Dev::start(&server, "shop", SCHEMA);
    let client = connect(&proxy.uri("shop")).await;
    client.batch_execute(CREATE).await.unwrap();
    let ballast = disk.fill();
    let (mut written, mut id) = (Vec::new(), 0);
    // New values need room in the tree, then rows in their table: whatever is full first says so.
    let refused = loop {
        let text = format!("INSERT INTO accounts VALUES ({id}, '{}', {id}, '2020-01-01')", "o".repeat(2000));
        match client.simple_query(&text).await {
            Ok(_) => written.push(id),
            Err(error) => break told(&error),
        }
        id += 1;
    };
    assert!(refused.0.starts_with("53"), "{refused:?}");
    assert!(refused.1.contains("No space left on device"), "{refused:?}");
    assert_eq!(balances(&client).await, written);
    std::fs::remove_file(ballast).unwrap();
    for id in id..id + 50 {
        client
            .batch_execute(&format!("INSERT INTO accounts VALUES ({id}, 'o', {id}, '2020-01-01')"))
            .await
            .unwrap();
        written.push(id);
    }
    assert_eq!(balances(&client).await, written);
    assert_well(&proxy, &server, "shop");
}
