//! Labels that are set anew, and cannot be, while other things happen: what is wrong is told, and all is right in the end.

use crate::dev::Dev;
use crate::extended::connect;
use crate::restored::{SCHEMA, found};
use arras_lab::private_postgres::PrivatePostgres;
use std::time::Duration;
use tokio_postgres::Client;

/// Holds up whoever begins to set labels anew.
const STOP: &str = "BEGIN; LOCK TABLE arras.mope_place IN SHARE MODE";
/// Who is held up so.
const STOPPED: &str = "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND query LIKE '%arras.mope_place%'";
/// The tables that are not known to store labels.
const NOT_KNOWN: &str =
    "SELECT count(*) FROM arras.stored_labels WHERE column_id IS NULL AND in_table IN ('m', 's', 'f')";
/// Has the labels of a table set anew, of the column whose number ends so.
fn doubted(table: &str) -> String {
    let number = ["m", "s", "f"].iter().position(|one| *one == table).unwrap() + 1;
    format!("SELECT arras.mope_set_anew(x'51c2a04be6f98d0{number}'::bigint, '{table}', 'n$ord')")
}

async fn pause() {
    tokio::time::sleep(Duration::from_millis(50)).await;
}

async fn number(client: &Client, statement: &str) -> i64 {
    client.query_one(statement, &[]).await.unwrap().get(0)
}

async fn until(client: &Client, statement: &str, wanted: i64) {
    while number(client, statement).await != wanted {
        pause().await;
    }
}

/// What the proxy has logged, once it says something.
async fn logged(proxy: &Dev, what: &str) -> String {
    loop {
        let said = std::fs::read_to_string(proxy.directory().join("log.txt")).unwrap();
        if said.contains(what) {
            return said;
        }
        pause().await;
    }
}

/// Tables with so many rows, numbered from 1, of ten times their number.
async fn filled(proxy: &Dev, tables: &[&str], rows: usize) -> Client {
    let client = connect(&proxy.uri("postgres")).await;
    let rows: Vec<String> = (1..=rows).map(|row| format!("({row}, {row}0)")).collect();
    for table in tables {
        let made = format!(
            "CREATE TABLE {table} (id integer, n integer); INSERT INTO {table} VALUES {}",
            rows.join(", ")
        );
        client.batch_execute(&made).await.unwrap();
    }
    client
}

/// Changes what a row has sealed; where the row then is.
async fn damage(direct: &Client, table: &str, row: usize) -> String {
    let damaged = format!(
        "UPDATE {table} SET n = set_byte(n, 20, (get_byte(n, 20) + 1) % 256) WHERE id = {row} RETURNING ctid::text"
    );
    direct.query_one(&damaged, &[]).await.unwrap().get(0)
}

#[tokio::test(flavor = "multi_thread")]
async fn of_several_damaged_tables_each_is_told_once_and_to_who_asks_for_it() {
    let server = PrivatePostgres::start().unwrap();
    let direct = connect(&server.uri("postgres")).await;
    let proxy = Dev::start(&server, "postgres", SCHEMA);
    filled(&proxy, &["m", "s"], 3).await;
    let places = [("m", damage(&direct, "m", 2).await), ("s", damage(&direct, "s", 3).await)];
    direct.batch_execute(&format!("BEGIN; {}; {}; COMMIT", doubted("m"), doubted("s"))).await.unwrap();
    for (table, ctid) in &places {
        let named = format!("in the row of ctid {ctid} in public.{table}");
        let said = logged(&proxy, &named).await;
        assert!(said.contains(&format!("public.{table}.n$ord")), "{said}");
        let client = connect(&proxy.uri("postgres")).await;
        let refused = loop {
            let refused = client.query(&format!("SELECT n FROM {table}"), &[]).await.unwrap_err();
            let refused = refused.as_db_error().unwrap().clone();
            if refused.detail().is_some() {
                break refused;
            }
            pause().await;
        };
        assert_eq!(refused.code().code(), "42P16");
        assert!(refused.detail().unwrap().contains(&named), "{refused:?}");
        assert!(refused.hint().unwrap().contains("mended or deleted"), "{refused:?}");
    }
    // The attempt in which `s` is mended comes to `m` before.
    for (table, ctid) in places.iter().rev() {
        direct.batch_execute(&format!("DELETE FROM {table} WHERE ctid = '{ctid}'")).await.unwrap();
        until(&direct, &format!("{NOT_KNOWN} AND in_table = '{table}'"), 0).await;
    }
    let client = connect(&proxy.uri("postgres")).await;
    assert_eq!(found(&client, "SELECT n FROM m WHERE n > 1 ORDER BY n").await, [10, 30]);
    let said = std::fs::read_to_string(proxy.directory().join("log.txt")).unwrap();
    for (table, _) in &places {
        let told = |line: &&str| {
            line.contains("could not be set anew") && line.contains(&format!("public.{table}.n"))
        };
        assert_eq!(said.lines().filter(told).count(), 1, "{table}: {said}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_came_of_setting_labels_anew_is_told_while_no_look_succeeds() {
    let server = PrivatePostgres::start().unwrap();
    let direct = connect(&server.uri("postgres")).await;
    let elsewhere = connect(&server.uri("template1")).await;
    let stopper = connect(&server.uri("postgres")).await;
    let proxy = Dev::start(&server, "postgres", SCHEMA);
    // More than are read at a time, so that labels are asked for before the row is found.
    filled(&proxy, &["m"], 600).await;
    let ctid = damage(&direct, "m", 600).await;
    stopper.batch_execute(STOP).await.unwrap();
    direct.batch_execute(&doubted("m")).await.unwrap();
    until(&direct, STOPPED, 1).await;
    elsewhere.batch_execute("ALTER DATABASE postgres ALLOW_CONNECTIONS false").await.unwrap();
    let looking = "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity WHERE state = 'idle' AND query LIKE '%relation = ANY%'";
    while number(&direct, looking).await == 0 {
        pause().await;
    }
    logged(&proxy, "not currently accepting connections").await;
    stopper.batch_execute("ROLLBACK").await.unwrap();
    logged(&proxy, &format!("in the row of ctid {ctid} in public.m")).await;
    elsewhere.batch_execute("ALTER DATABASE postgres ALLOW_CONNECTIONS true").await.unwrap();
    direct.batch_execute(&format!("DELETE FROM m WHERE ctid = '{ctid}'")).await.unwrap();
    until(&direct, NOT_KNOWN, 0).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_doubt_that_comes_while_labels_are_set_anew_is_no_less_one() {
    let server = PrivatePostgres::start().unwrap();
    let direct = connect(&server.uri("postgres")).await;
    let stopper = connect(&server.uri("postgres")).await;
    let proxy = Dev::start(&server, "postgres", SCHEMA);
    filled(&proxy, &["m", "s", "f"], 3).await;
    for table in ["m", "s", "f"] {
        stopper.batch_execute(STOP).await.unwrap();
        direct.batch_execute(&doubted(table)).await.unwrap();
        until(&direct, STOPPED, 1).await;
        // One that nothing was written for, and one whose rows wait for these labels.
        direct.batch_execute(&doubted(table)).await.unwrap();
        let past = connect(&server.uri("postgres")).await;
        let swapped = format!(
            "UPDATE {table} t SET \"n$ord\" = o.\"n$ord\" FROM {table} o WHERE t.id + o.id = 4 AND t.id <> o.id"
        );
        let writing = tokio::spawn(async move { past.batch_execute(&swapped).await });
        let waiting =
            "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND query LIKE 'UPDATE%'";
        until(&direct, waiting, 1).await;
        stopper.batch_execute("ROLLBACK").await.unwrap();
        writing.await.unwrap().unwrap();
        let client = connect(&proxy.uri("postgres")).await;
        let sorted = format!("SELECT n FROM {table} ORDER BY n");
        assert_eq!(found(&client, &sorted).await, [10, 20, 30], "{table}");
    }
    until(&direct, NOT_KNOWN, 0).await;
    assert_eq!(number(&direct, "SELECT count(*) FROM arras.mope_doubt").await, 0);
    let (well, said) = tokio::task::block_in_place(|| proxy.doctor(&server, "postgres", true));
    assert!(well, "{said}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_table_is_looked_at_while_labels_of_another_are_set_anew() {
    let server = PrivatePostgres::start().unwrap();
    let direct = connect(&server.uri("postgres")).await;
    let stopper = connect(&server.uri("postgres")).await;
    let proxy = Dev::start(&server, "postgres", SCHEMA);
    let client = filled(&proxy, &["m", "s"], 3).await;
    stopper.batch_execute(STOP).await.unwrap();
    direct.batch_execute(&doubted("m")).await.unwrap();
    until(&direct, STOPPED, 1).await;
    let sorted = "SELECT n FROM s ORDER BY n";
    assert_eq!(found(&client, sorted).await, [10, 20, 30]);
    let swapped = "UPDATE s t SET \"n$ord\" = o.\"n$ord\" FROM s o WHERE t.id + o.id = 4 AND t.id <> o.id";
    direct.batch_execute(swapped).await.unwrap();
    // Who was there before is told.
    let refused = loop {
        match client.query(sorted, &[]).await {
            Ok(_) => pause().await,
            Err(error) => break error,
        }
    };
    assert_eq!(refused.code().unwrap().code(), "42P16");
    assert_eq!(number(&direct, STOPPED).await, 1);
    stopper.batch_execute("ROLLBACK").await.unwrap();
    assert_eq!(found(&client, sorted).await, [10, 20, 30]);
    assert_eq!(found(&client, "SELECT n FROM m ORDER BY n").await, [10, 20, 30]);
}

/// Who owns the tables has the proxy's rights, and the proxy's role not his: it makes triggers, and can neither enable them always nor drop them.
#[tokio::test(flavor = "multi_thread")]
async fn a_proxy_that_does_not_own_the_tables_notices_and_sets_labels_anew() {
    let server = PrivatePostgres::start().unwrap();
    let direct = connect(&server.uri("postgres")).await;
    let roles = "CREATE ROLE keeper LOGIN; GRANT CREATE ON DATABASE postgres TO keeper; GRANT CREATE ON SCHEMA public TO keeper; \
                 CREATE ROLE owner LOGIN IN ROLE keeper";
    direct.batch_execute(roles).await.unwrap();
    let [as_keeper, as_owner] =
        ["keeper", "owner"].map(|role| server.uri("postgres").replacen("postgres@", &format!("{role}@"), 1));
    let proxy = Dev::in_front_of(&as_keeper, SCHEMA, "warn");
    filled(&proxy, &["m", "s", "f"], 3).await;
    let owner = connect(&as_owner).await;
    for table in ["m", "s", "f"] {
        let given =
            format!("ALTER TABLE {table} OWNER TO owner; GRANT SELECT, UPDATE, TRIGGER ON {table} TO keeper");
        direct.batch_execute(&given).await.unwrap();
        let watched =
            format!("SELECT watched::text FROM arras.mope_place WHERE relation = '{table}'::regclass");
        let swapped = format!(
            "UPDATE {table} t SET \"n$ord\" = o.\"n$ord\" FROM {table} o WHERE t.id + o.id = 4 AND t.id <> o.id"
        );
        let disabled = format!("ALTER TABLE {table} DISABLE TRIGGER ALL; {swapped}");
        for (past, then) in [(&swapped, "A"), (&disabled, "O"), (&swapped, "O"), (&disabled, "O")] {
            let stopper = connect(&server.uri("postgres")).await;
            stopper.batch_execute(STOP).await.unwrap();
            owner.batch_execute(past).await.unwrap();
            let not_known = format!("{NOT_KNOWN} AND in_table = '{table}'");
            assert_eq!(number(&direct, &not_known).await, 1, "{past}");
            stopper.batch_execute("ROLLBACK").await.unwrap();
            until(&direct, &not_known, 0).await;
            assert_eq!(direct.query_one(&watched, &[]).await.unwrap().get::<_, &str>(0), then, "{past}");
            let client = connect(&proxy.uri("postgres")).await;
            let sorted = format!("SELECT n FROM {table} ORDER BY n");
            assert_eq!(found(&client, &sorted).await, [10, 20, 30], "{past}");
        }
    }
}
