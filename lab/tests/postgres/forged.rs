//! A server that lies takes what a statement gives for its own results and puts it into a row, or into the results of another.

use crate::dev::Dev;
use crate::extended::connect;
use arras_lab::private_postgres::PrivatePostgres;
use tokio_postgres::Client;

const SCHEMA: &str = "[tables.\"public.accounts\"]\n\
    owner = { id = \"7a1b2c3d4e5f6e21\", type = \"text\", operations = [\"equality\"] }\n\
    balance = { id = \"7a1b2c3d4e5f6e22\", type = \"integer\", operations = [\"equality\", \"order\", \"sum\"] }\n\
    memo = { id = \"7a1b2c3d4e5f6e23\", type = \"text\" }\n";

const CREATE: &str = "CREATE TABLE accounts (id int PRIMARY KEY, owner text, balance int, memo text); \
    INSERT INTO accounts VALUES (1, NULL, NULL, NULL), (2, 'Ann', 5, 'm')";

/// The last statement of a session, as the server sees it.
async fn seen(direct: &Client, process: i32) -> String {
    let seen = "SELECT query FROM pg_stat_activity WHERE pid = $1";
    direct.query_one(seen, &[&process]).await.unwrap().get(0)
}

/// The sealed constants in a text.
fn sealed(text: &str) -> Vec<Vec<u8>> {
    let digits = text.split("'\\x").skip(1).map(|rest| rest.split('\'').next().unwrap());
    let byte = |digits: &str, at| u8::from_str_radix(&digits[at..at + 2], 16).unwrap();
    digits.map(|digits| (0..digits.len()).step_by(2).map(|at| byte(digits, at)).collect()).collect()
}

async fn code(client: &Client, statement: &str) -> String {
    match client.simple_query(statement).await {
        Ok(_) => "opens".into(),
        Err(error) => error.as_db_error().unwrap().code().code().to_owned(),
    }
}

/// Statements that only read, a column among which each gives a constant.
const READ: [(&str, &str); 7] = [
    ("SELECT coalesce(memo, 'forged') FROM accounts", "memo"),
    ("SELECT id, CASE WHEN id = 1 THEN memo ELSE 'forged' END FROM accounts", "memo"),
    ("SELECT s.o FROM (SELECT coalesce(owner, 'forged') AS o FROM accounts) s", "owner"),
    ("SELECT coalesce(balance, 77) FROM accounts", "balance"),
    ("SELECT coalesce(sum(balance), 77) FROM accounts WHERE id = 1", "balance"),
    ("SELECT balance FROM accounts UNION ALL SELECT coalesce(balance, 77) FROM accounts", "balance"),
    ("UPDATE accounts SET id = id RETURNING coalesce(memo, 'forged')", "memo"),
];

#[tokio::test]
async fn what_a_statement_gives_for_its_results_is_no_value_of_a_row() {
    let server = PrivatePostgres::start().unwrap();
    let proxy = Dev::start(&server, "postgres", SCHEMA);
    let client = connect(&proxy.uri("postgres")).await;
    let direct = connect(&server.uri("postgres")).await;
    client.batch_execute(CREATE).await.unwrap();
    let process = client.query_one("SELECT pg_backend_pid()", &[]).await.unwrap().get(0);
    for (statement, column) in READ {
        assert_eq!(code(&client, statement).await, "opens", "{statement}");
        let given = sealed(&seen(&direct, process).await);
        assert!(!given.is_empty(), "the server sees what {statement} gives");
        for given in given {
            let put = format!("UPDATE accounts SET {column} = $1 WHERE id = 1");
            direct.execute(&put, &[&given]).await.unwrap();
            let read = format!("SELECT {column} FROM accounts");
            assert_eq!(code(&client, &read).await, "XX001", "{read} reads what {statement} gave");
            // Another statement of the session, the same of another session, and what computes with it.
            let other = format!("SELECT coalesce({column}, NULL), id FROM accounts");
            assert_eq!(code(&client, &other).await, "XX001", "{other} reads what {statement} gave");
            let again = connect(&proxy.uri("postgres")).await;
            assert_eq!(code(&again, statement).await, "XX001", "{statement} reads what another session gave");
            let undone = format!("UPDATE accounts SET {column} = NULL WHERE id = 1");
            direct.batch_execute(&undone).await.unwrap();
        }
    }
}

/// What is stored is the column's own, whoever chooses it.
#[tokio::test]
async fn what_is_chosen_to_be_stored_is_a_value_for_all() {
    let server = PrivatePostgres::start().unwrap();
    let proxy = Dev::start(&server, "postgres", SCHEMA);
    let client = connect(&proxy.uri("postgres")).await;
    client.batch_execute(CREATE).await.unwrap();
    for statement in [
        "UPDATE accounts SET memo = coalesce(memo, 'chosen'), balance = CASE WHEN id = 1 THEN 7 ELSE balance END",
        "INSERT INTO accounts (id, memo, balance) SELECT 3, coalesce(memo, 'never'), coalesce(balance, 9) FROM accounts WHERE id = 1",
        "UPDATE accounts SET memo = s.m || '!' FROM (SELECT 1) t, (SELECT coalesce(memo, 'x') AS m FROM accounts WHERE id = 1) s",
    ] {
        let stored = client.batch_execute(statement).await;
        let refused =
            stored.as_ref().err().and_then(|error| error.as_db_error().map(|error| error.code().code()));
        assert!(matches!(refused, None | Some("0A000")), "{statement}: {stored:?}");
    }
    let other = connect(&proxy.uri("postgres")).await;
    let rows = other.query("SELECT id, memo, balance FROM accounts ORDER BY id", &[]).await.unwrap();
    let found: Vec<(i32, String, i32)> =
        rows.iter().map(|row| (row.get(0), row.get(1), row.get(2))).collect();
    let expected = [(1, "chosen", 7), (2, "m", 5), (3, "chosen", 7)];
    assert_eq!(found, expected.map(|(id, memo, balance)| (id, memo.to_owned(), balance)));
}

/// Also by parameters, prepared statements, cursors, COPY and steps.
#[tokio::test]
async fn what_is_given_opens_in_its_own_session_by_each_protocol() {
    let server = PrivatePostgres::start().unwrap();
    let proxy = Dev::start(&server, "postgres", SCHEMA);
    let client = connect(&proxy.uri("postgres")).await;
    client.batch_execute(CREATE).await.unwrap();
    let choice = "SELECT coalesce(memo, $1), balance + $2 FROM accounts ORDER BY id";
    let prepared = client.prepare(choice).await.unwrap();
    for (given, added) in [("one", 1), ("two", 2)] {
        let rows = client.query(&prepared, &[&given, &added]).await.unwrap();
        let found: Vec<(String, Option<i32>)> = rows.iter().map(|row| (row.get(0), row.get(1))).collect();
        assert_eq!(found, [(given.to_owned(), None), ("m".to_owned(), Some(5 + added))]);
    }
    for (statement, expected) in [
        ("PREPARE p AS SELECT coalesce(memo, $1) FROM accounts ORDER BY id; EXECUTE p ('given')", "given"),
        ("DECLARE k CURSOR WITH HOLD FOR SELECT coalesce(memo, 'held') FROM accounts ORDER BY id", ""),
        ("FETCH 1 FROM k", "held"),
        (
            "UPDATE accounts SET balance = balance + 1 WHERE id = 1 RETURNING coalesce(memo, 'returned')",
            "returned",
        ),
    ] {
        let messages = client.simple_query(statement).await.unwrap();
        let first = messages.iter().find_map(|message| match message {
            tokio_postgres::SimpleQueryMessage::Row(row) => row.get(0),
            _ => None,
        });
        assert_eq!(first.unwrap_or_default(), expected, "{statement}");
    }
    let copied =
        client.copy_out("COPY (SELECT coalesce(memo, 'copied') FROM accounts WHERE id = 1) TO STDOUT").await;
    let lines: Vec<bytes::Bytes> = futures_util::TryStreamExt::try_collect(copied.unwrap()).await.unwrap();
    assert_eq!(lines.concat(), b"copied\n");
}
