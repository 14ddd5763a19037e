//! Connections that compute new values of one row at the same time: each sees what the others have written, as with plaintext.

use crate::dev::Dev;
use arras_lab::private_postgres::PrivatePostgres;
use tokio_postgres::error::SqlState;
use tokio_postgres::{Client, Error, NoTls};

/// One column that is added to only, one that has an order besides.
const SCHEMA: &str = r#"
[tables."public.counters"]
taken = { id = "5ac1000000000001", type = "bigint", operations = ["sum"] }
rank = { id = "5ac1000000000002", type = "integer", operations = ["order"] }
"#;

/// Adds to the columns that are encrypted and to one that is not, which says how often it was done.
const RAISE: &str =
    "UPDATE counters SET taken = taken + $2, rank = rank + 1, times = times + 1 WHERE id = $1";

const CONNECTIONS: i32 = 8;

/// How often each connection adds.
const TIMES: i32 = 12;

async fn connect(uri: &str) -> Client {
    let (client, connection) = tokio_postgres::connect(uri, NoTls).await.unwrap();
    tokio::spawn(connection);
    client
}

/// Adds once, in a transaction of this level; true if it was not in the way of another.
async fn raise(client: &mut Client, level: &str) -> Result<u64, Error> {
    let transaction = client.transaction().await?;
    transaction.batch_execute(&format!("SET TRANSACTION ISOLATION LEVEL {level}")).await?;
    let rows = transaction.execute(RAISE, &[&1_i32, &5_i64]).await?;
    transaction.commit().await?;
    Ok(rows)
}

/// Adds until it has been done so often: what met another transaction is run again.
async fn raise_often(uri: String, level: &'static str) -> u32 {
    let mut client = connect(&uri).await;
    let (mut done, mut again) = (0, 0);
    while done < TIMES {
        match raise(&mut client, level).await {
            Ok(rows) => {
                assert_eq!(rows, 1, "{level}");
                done += 1;
            }
            Err(error) => {
                let code = error.code().cloned();
                let conflicts = [SqlState::T_R_SERIALIZATION_FAILURE, SqlState::T_R_DEADLOCK_DETECTED];
                assert!(code.is_some_and(|code| conflicts.contains(&code)), "{level}: {error:?}");
                again += 1;
            }
        }
    }
    again
}

#[tokio::test(flavor = "multi_thread")]
async fn additions_of_several_connections_to_one_row_are_all_there() {
    let server = PrivatePostgres::start().unwrap();
    let proxy = Dev::start(&server, "postgres", SCHEMA);
    let uri = proxy.uri("postgres");
    let client = connect(&uri).await;
    let create = "CREATE TABLE counters (id int PRIMARY KEY, taken bigint, rank integer, times bigint)";
    client.batch_execute(create).await.unwrap();
    for level in ["READ COMMITTED", "REPEATABLE READ", "SERIALIZABLE"] {
        client.batch_execute("DELETE FROM counters; INSERT INTO counters VALUES (1, 7, 0, 0)").await.unwrap();
        let tasks: Vec<_> = (0..CONNECTIONS).map(|_| tokio::spawn(raise_often(uri.clone(), level))).collect();
        let mut again = 0;
        for task in tasks {
            again += task.await.unwrap();
        }
        let row =
            client.query_one("SELECT taken, rank, times FROM counters WHERE id = 1", &[]).await.unwrap();
        let times = i64::from(CONNECTIONS * TIMES);
        let found: (i64, i32, i64) = (row.get(0), row.get(1), row.get(2));
        assert_eq!(found, (7 + 5 * times, CONNECTIONS * TIMES, times), "{level}");
        // A transaction of one snapshot that finds the row changed is told so; one of READ COMMITTED waits.
        assert!(again == 0 || level != "READ COMMITTED", "{again} conflicts");
    }
}
