//! Settings of a session that are set, reset and rolled back in a transaction: what the proxy reads statements by is what PostgreSQL
//! goes by, in the transaction, behind its COMMIT and behind its ROLLBACK.

use crate::spelled::{agree, answered, both};

const SCHEMA: &str = r#"
[tables."public.days"]
day = { id = "0a4477c1d2e8f693", type = "date", operations = ["order"] }
at = { id = "0a4477c1d2e8f694", type = "timestamptz", operations = ["order"] }
memo = { id = "91b6c0d2ee4f7a35", type = "text", operations = ["equality"] }
n = { id = "5f0c9d3e21b7a846", type = "int", operations = ["equality", "order"] }
"#;

const CREATE: &str = "CREATE SCHEMA other; CREATE TABLE days (id int PRIMARY KEY, day date, at timestamptz, memo text, n int); \
    INSERT INTO days VALUES (1, '2020-01-05', '2020-01-05 10:00+00', 'a', 10), (2, '2020-02-05', '2020-02-05 10:00+00', 'b\\', 20); \
    CREATE TABLE other.days (id int); CREATE TABLE plain (id int, day date); INSERT INTO plain VALUES (1, '2020-01-05')";

/// What a session is set to that the proxy reads statements by, or does not read them with.
const SET: &[&str] = &[
    "SET datestyle = 'German'",
    "SET datestyle = 'SQL, DMY'",
    "SET timezone = 'America/New_York'",
    "SET standard_conforming_strings = off",
    "SET client_encoding = 'LATIN1'",
    "SET LOCAL datestyle = 'German'",
    "SET LOCAL standard_conforming_strings = off",
    "SET search_path = other, public",
    "SET default_transaction_isolation = 'serializable'",
];

/// What gives it up.
const BACK: &[&[&str]] = &[
    &["BEGIN", "*", "RESET ALL", "?", "COMMIT", "?"],
    &["BEGIN", "*", "RESET ALL", "?", "ROLLBACK", "?"],
    &["BEGIN", "*", "ROLLBACK", "?"],
    &["BEGIN", "SAVEPOINT s", "*", "ROLLBACK TO s", "?", "COMMIT", "?"],
    &["*", "BEGIN", "RESET ALL", "?", "COMMIT", "?"],
    &["*", "DISCARD ALL", "?"],
    &["*", "RESET ALL; SET SESSION AUTHORIZATION DEFAULT", "?"],
    &["BEGIN", "*", "DO $$ BEGIN EXECUTE 'RESET ALL'; END $$", "?", "COMMIT", "?"],
];

const ASKED: &[&str] = &[
    "SELECT id, day, memo, n FROM public.days WHERE day < '2020-01-31' ORDER BY n",
    "SELECT id FROM public.days WHERE memo = 'b\\'",
    "SELECT id FROM public.days WHERE at < '2020-01-31' ORDER BY id",
    "SELECT day FROM plain",
    "UPDATE public.days SET n = n + 1, memo = 'b\\' WHERE id = 2 RETURNING n, memo",
];

#[tokio::test]
async fn what_is_reset_or_rolled_back_is_read_as_it_is() {
    let (_server, _proxy, clients) = both(SCHEMA, CREATE).await;
    for client in &clients {
        client.batch_execute("ALTER ROLE postgres SET timezone = 'UTC'").await.unwrap();
        client.batch_execute("SET timezone = 'UTC'").await.unwrap();
    }
    for set in SET {
        for back in BACK {
            let texts: Vec<&str> = back.iter().map(|text| if *text == "*" { *set } else { *text }).collect();
            for text in texts {
                if text == "?" {
                    agree(&clients, ASKED).await;
                    continue;
                }
                let [plain, encrypted] =
                    [answered(&clients[0], text).await, answered(&clients[1], text).await];
                assert_eq!(encrypted, plain, "{set}: {back:?}: {text}");
            }
        }
    }
}
