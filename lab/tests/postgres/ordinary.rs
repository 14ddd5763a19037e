//! Statements as applications write them: what PostgreSQL answers to the same in plaintext, names of columns and all.

use crate::dev::Dev;
use crate::extended::connect;
use crate::spelled::answered;
use arras_lab::private_postgres::PrivatePostgres;

const SCHEMA: &str = r#"
[tables."public.accounts"]
owner = { id = "7a1b2c3d4e5f6b01", type = "varchar(12)", operations = ["equality", "order"], max_bytes = 40 }
balance = { id = "7a1b2c3d4e5f6b02", type = "integer", operations = ["equality", "order", "sum"] }
rate = { id = "7a1b2c3d4e5f6b03", type = "real", operations = ["equality"] }
opened = { id = "7a1b2c3d4e5f6b05", type = "integer", operations = ["order"] }

[tables."public.payments"]
owner = { id = "7a1b2c3d4e5f6b04", type = "varchar(12)", join = "accounts.owner" }
"#;

const CREATE: &str = "CREATE TABLE accounts (id int PRIMARY KEY, owner varchar(12), balance int, rate real, note text, opened int); \
    CREATE TABLE payments (number int, owner varchar(12), amount int); \
    INSERT INTO accounts VALUES (1, 'Ann', 5, 0.1, 'a', 3), (2, 'Bob', 7, 2, NULL, 1), (3, NULL, NULL, NULL, 'c', NULL), (4, 'Ann', 7, 0.7, 'd', 8); \
    INSERT INTO payments VALUES (1, 'Ann', 10), (2, 'Cid', 20), (3, NULL, 30), (4, 'Bob', 40)";

const STATEMENTS: &[&str] = &[
    // Of groups.
    "SELECT owner, count(*) FROM accounts GROUP BY owner HAVING owner IS NOT NULL ORDER BY owner",
    "SELECT coalesce(owner, 'none'), count(*) FROM accounts GROUP BY owner ORDER BY 2 DESC, min(id)",
    "SELECT owner IS NULL AS gone, count(*) FROM accounts GROUP BY owner ORDER BY min(id)",
    "SELECT CASE WHEN balance > 5 THEN owner ELSE 'low' END, balance FROM accounts GROUP BY owner, balance ORDER BY min(id)",
    "SELECT count(*) FILTER (WHERE balance IS NULL) FROM accounts GROUP BY owner ORDER BY min(id)",
    "SELECT balance, max(owner) FROM accounts GROUP BY balance HAVING max(balance) > 4 ORDER BY balance",
    // Of a column that two tables share.
    "SELECT owner, amount FROM accounts JOIN payments USING (owner) ORDER BY id",
    "SELECT owner, count(*) FROM accounts LEFT JOIN payments USING (owner) GROUP BY owner ORDER BY owner NULLS FIRST",
    "SELECT id FROM accounts JOIN payments USING (owner) WHERE owner = 'Ann' ORDER BY owner DESC, id",
    // Of arrays whose members are written out.
    "SELECT id FROM accounts WHERE balance = ANY(ARRAY[5, 7, NULL]) ORDER BY id",
    "SELECT id FROM accounts WHERE opened = ANY(ARRAY[3, 9]) OR opened = ANY(ARRAY[1]) ORDER BY id",
    "SELECT id FROM accounts WHERE opened = ANY(ARRAY[77]) ORDER BY id",
    // Of queries whose results have no names.
    "SELECT * FROM (SELECT owner, id::text FROM accounts) x ORDER BY 2",
    "SELECT * FROM (SELECT owner, count(*)::int, 5::bigint, pg_catalog.upper('x'), trim(' y ') FROM accounts GROUP BY owner) x ORDER BY count, owner",
    "WITH x AS (SELECT balance, CASE WHEN id > 2 THEN 1 ELSE id END, extract(year FROM DATE '2020-02-03') FROM accounts) SELECT * FROM x ORDER BY id, balance",
    "SELECT * FROM (SELECT owner, id + 1 FROM accounts) x ORDER BY 2",
    "SELECT * FROM payments p, (SELECT 1, 2) x ORDER BY number",
    "SELECT * FROM accounts a, (SELECT substr('abc', 1, 2), '{1}'::int[], NOT EXISTS (SELECT 1), (VALUES (1))) x ORDER BY id",
    "SELECT * FROM (SELECT owner, '{1}'::int[], (SELECT 1)::text, substr('abc', 2), 5::float(3) FROM accounts) x ORDER BY owner",
    "SELECT DISTINCT(owner) FROM accounts GROUP BY owner ORDER BY owner",
    "SELECT DISTINCT owner FROM accounts ORDER BY owner",
    "SELECT CASE WHEN id > 1 THEN owner ELSE owner END FROM accounts ORDER BY id",
    // A parameter that nobody binds.
    "UPDATE accounts SET owner = 'x', note = $1 WHERE id = 4",
    "INSERT INTO accounts (id, note, owner) VALUES (5, $1, 'x')",
    "UPDATE accounts SET balance = balance + 1, note = $1",
    "SELECT id FROM accounts WHERE owner = $1",
    "SELECT id FROM accounts WHERE owner = '$1' OR note = '$2'",
    "PREPARE by_owner AS SELECT id FROM accounts WHERE owner = $1",
    "EXECUTE by_owner ('Bob')",
    // What is changed is a table.
    "WITH accounts AS (SELECT 1 AS id) INSERT INTO accounts (id, owner) VALUES (6, 'Eve')",
    "WITH accounts AS (SELECT 6 AS id) UPDATE accounts SET owner = 'Fay' WHERE owner = 'Eve'",
    "WITH accounts AS (SELECT 6 AS id) DELETE FROM accounts WHERE owner = 'Fay' RETURNING id, owner",
    // Comments of every kind.
    "SELECT id /* ' -- */ FROM accounts -- owner = 'x'\n WHERE owner = 'Ann' /* /* */ */ ORDER BY id",
    "SELECT owner, 'ä' /* €𝄞 */ AS \"ä\" FROM accounts WHERE owner = 'Ann' AND nothing = 1 /* é */",
    // Numbers of other types than their columns.
    "UPDATE accounts SET rate = rate * 0.1 RETURNING id, rate",
    "UPDATE accounts SET rate = rate + 1e-3 WHERE id = 1 RETURNING rate",
    "UPDATE accounts SET rate = rate * 3 - 1 RETURNING id, rate",
    "UPDATE accounts SET rate = rate * 1e30 * 1e30 WHERE id = 1",
    "UPDATE accounts SET balance = balance * 1.5 RETURNING id, balance",
    "UPDATE accounts SET balance = balance * 0.5 - 0.5 WHERE balance > 2 RETURNING id, balance",
    "UPDATE accounts SET balance = 2.5 WHERE id = 2 RETURNING balance",
    "UPDATE accounts SET balance = -2.5 WHERE id = 2 RETURNING balance",
    "INSERT INTO accounts (id, balance) VALUES (7, 1e3), (8, 3.49) RETURNING balance",
    "UPDATE accounts SET balance = '2.5' WHERE id = 2",
    "UPDATE accounts SET balance = balance * '1.5' WHERE id = 2",
    "UPDATE accounts SET balance = balance * 1e10 WHERE id = 2",
    "UPDATE accounts SET balance = balance * 2000000000 * 0.001 WHERE id = 1",
    "UPDATE accounts SET balance = balance + 2147483643 - 2 WHERE id = 1",
    "UPDATE accounts SET balance = balance * 9223372036854775808 * 0 WHERE id = 1 RETURNING balance",
    "UPDATE accounts SET balance = coalesce(balance, 0) - 1 WHERE id = 3 RETURNING balance",
    "UPDATE accounts SET rate = coalesce(rate, 0.1) - 0.1 WHERE id = 3 RETURNING rate",
    "UPDATE accounts SET rate = rate * 1e-300 * 1e-300 WHERE id = 1",
    "UPDATE accounts SET rate = rate - balance + 0.1 WHERE id = 2 RETURNING rate",
    "UPDATE accounts SET balance = rate * 3 WHERE id = 2 RETURNING balance",
    "UPDATE accounts SET rate = -rate * -0.5 WHERE id = 2 RETURNING rate",
    "UPDATE accounts SET balance = balance + 2147483647::bigint - 2147483647::bigint WHERE id = 4 RETURNING balance",
    "UPDATE accounts SET balance = CASE WHEN note IS DISTINCT FROM ('zz') THEN 4 ELSE 5 END WHERE id = 4 RETURNING balance",
    "UPDATE accounts SET owner = owner || 1e3 WHERE id = 1 RETURNING owner",
    "UPDATE accounts SET owner = 'x' || owner || 05 || .5 WHERE id = 2 RETURNING owner",
    // Tables alone, names that are none, values that are there or not.
    "SELECT id FROM ONLY accounts WHERE owner = 'Ann' ORDER BY id",
    "UPDATE ONLY accounts SET note = 'only' WHERE owner = 'Ann' RETURNING id, owner, note",
    "SELECT a.owner FROM only accounts a ORDER BY id",
    "SELECT owner, amount FROM ONLY accounts JOIN ONLY payments USING (owner) ORDER BY id",
    "DELETE FROM ONLY payments WHERE owner = 'Cid' RETURNING number",
    "UPDATE accounts SET onwer = 'x'",
    "UPDATE accounts a SET onwer = 'x'",
    "SELECT id FROM accounts WHERE onwer = 'x'",
    "SELECT a.onwer FROM accounts a WHERE a.owner = 'x'",
    "SELECT b.owner FROM accounts a WHERE a.owner = 'x'",
    "INSERT INTO accounts (id, owner) VALUES (1, 'Z') ON CONFLICT (id) DO UPDATE SET nope = 'x'",
    "SELECT id FROM accounts WHERE ('Ann' IS NULL OR owner = 'Ann') AND NULL::text IS NULL ORDER BY id",
    "SELECT ctid IS NULL, owner FROM accounts WHERE tableoid IS NOT NULL ORDER BY id LIMIT 1",
    // Results in parentheses, and in sets.
    "SELECT balance AS m FROM accounts ORDER BY (m) NULLS FIRST LIMIT 2",
    "SELECT owner AS m, id FROM accounts ORDER BY ((m)) DESC NULLS LAST, (2)",
    "SELECT DISTINCT ON ((m)) balance AS m FROM accounts ORDER BY (m)",
    "SELECT balance AS m, count(*) FROM accounts GROUP BY (m) ORDER BY min(id)",
    "SELECT a.id, (SELECT p.number AS owner FROM payments p GROUP BY owner LIMIT 1) FROM accounts a WHERE false",
    "SELECT id AS owner, count(*) FROM accounts WHERE balance > 1 GROUP BY (1) ORDER BY (1)",
    "SELECT lower(note), count(*) FROM accounts WHERE balance > 1 GROUP BY (lower) ORDER BY lower",
    "SELECT id % 2 AS odd, note AS n, count(*) FROM accounts WHERE balance > 1 GROUP BY (odd, n) ORDER BY odd, n",
    "SELECT id % 2 AS odd, count(*) FROM accounts WHERE balance > 1 GROUP BY ROLLUP (odd) ORDER BY odd",
    // What EXECUTE gives becomes what the parameter is.
    "PREPARE by_numeric (numeric) AS SELECT id FROM accounts WHERE balance = $1 ORDER BY id",
    "EXECUTE by_numeric (7.0)",
    "EXECUTE by_numeric (7.5)",
    "PREPARE below (float8) AS SELECT id FROM accounts WHERE balance < $1 ORDER BY id",
    "EXECUTE below (6.5)",
    "PREPARE by_int (int) AS SELECT id FROM accounts WHERE opened < $1 ORDER BY id",
    "EXECUTE by_int (2.6)",
    "PREPARE by_small (smallint) AS SELECT id FROM accounts WHERE balance = $1",
    "EXECUTE by_small (70000)",
    "EXECUTE by_small (6.7)",
    "PREPARE by_whole AS SELECT id FROM accounts WHERE balance = $1 ORDER BY id",
    "EXECUTE by_whole (6.5)",
    "PREPARE enter AS INSERT INTO accounts (id, balance) VALUES ($1, $2) RETURNING balance",
    "EXECUTE enter (50, 1.5)",
    "DELETE FROM accounts WHERE id = 50",
    // Columns with other names, in one text.
    "ALTER TABLE accounts RENAME COLUMN note TO remark; INSERT INTO accounts (id, owner, remark) VALUES (60, 'N', 'y')",
    "DELETE FROM accounts WHERE remark = 'y' AND owner = 'N'; ALTER TABLE accounts RENAME remark TO note",
    // Sums of nothing.
    "SELECT coalesce(sum(balance), 0) FROM accounts WHERE id > 100",
    "SELECT coalesce(sum(balance), 0) AS total, count(*) FROM accounts",
    "SELECT owner, COALESCE(SUM(balance), -3) FROM accounts GROUP BY owner ORDER BY min(id)",
    "SELECT coalesce(sum(a.balance), 0::int) FROM accounts a",
    "SELECT coalesce(sum(a.balance), 7::integer) FROM accounts a WHERE balance IS NULL",
    // Locks that the parser does not know, numbers stored as texts, a zone behind a day.
    "SELECT owner FROM accounts WHERE id = 1 FOR NO KEY UPDATE",
    "SELECT owner FROM accounts WHERE id = 1 FOR KEY SHARE",
    "INSERT INTO accounts (id, owner) VALUES (40, 5), (41, 12.50), (42, -1e3) RETURNING owner",
    "DELETE FROM accounts WHERE id >= 40",
    "ALTER TABLE accounts RENAME COLUMN note TO remark",
    "ALTER TABLE accounts RENAME COLUMN remark TO note",
    "ALTER TABLE accounts SET (fillfactor = 90)",
    // Chosen values.
    "UPDATE accounts SET balance = CASE WHEN lower(note) = 'a' THEN 6 ELSE balance END WHERE id IN (1, 2)",
    "SELECT id, balance FROM accounts WHERE balance = 6 OR id = 2 ORDER BY id",
];

#[tokio::test]
async fn what_applications_write_is_answered_as_in_plaintext() {
    let server = PrivatePostgres::start().unwrap();
    let direct = connect(&server.uri("postgres")).await;
    direct.batch_execute("CREATE DATABASE plain").await.unwrap();
    let proxy = Dev::start(&server, "postgres", SCHEMA);
    let (plain, encrypted) = (connect(&server.uri("plain")).await, connect(&proxy.uri("postgres")).await);
    for client in [&plain, &encrypted] {
        client.batch_execute(CREATE).await.unwrap();
    }
    let mut wrong = Vec::new();
    for statement in STATEMENTS {
        let expected = answered(&plain, statement).await;
        let found = answered(&encrypted, statement).await;
        if found != expected {
            wrong.push(format!("{statement}\n  is       {found:?}\n  expected {expected:?}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// PostgreSQL writes a statement that fails in its log, with its constants.
#[tokio::test]
async fn a_constant_beside_a_column_that_is_misspelt_is_in_no_log() {
    let server = PrivatePostgres::start().unwrap();
    let proxy = Dev::start(&server, "postgres", SCHEMA);
    let client = connect(&proxy.uri("postgres")).await;
    client.batch_execute(CREATE).await.unwrap();
    client.batch_execute("CREATE TABLE plain (id int, note text)").await.unwrap();
    let statements = [
        "SHOW TRANSACTION ISOLATION LEVEL; SELECT id FROM accounts WHERE onwer = 'secret'",
        "BEGIN ISOLATION LEVEL SERIALIZABLE; UPDATE accounts SET onwer = 'secret'",
        "SELECT a.id FROM accounts a JOIN plain p ON p.id = a.id WHERE onwer = 'secret'",
        "SELECT a.id FROM accounts a JOIN plain p ON p.id = a.id WHERE a.onwer = 'secret'",
        "SELECT a.id FROM accounts a JOIN plain p ON p.id = a.id WHERE p.ownr = 'secret'",
        "SELECT a.id FROM accounts a JOIN LATERAL (SELECT a.id AS k) l ON true WHERE l.ownr = 'secret'",
        "UPDATE accounts a SET balance = 1 FROM plain WHERE onwer = 'secret'",
        "SELECT id FROM accounts WHERE EXISTS (SELECT 1 FROM plain WHERE onwer = 'secret')",
        "SELECT id FROM accounts, (SELECT 1 AS k) s WHERE onwer = 'secret'",
        "SELECT id FROM accounts ORDER BY onwer = 'secret'",
        "SELECT count(*) FROM accounts GROUP BY onwer = 'secret'",
        "SELECT id FROM accounts ORDER BY (SELECT 1 WHERE onwer = 'secret')",
        "ALTER TABLE accounts ADD COLUMN zz int; UPDATE accounts SET onwer = 'secret'",
        "CREATE INDEX ON plain (id); SELECT 1 FROM accounts WHERE onwer = 'secret'",
        "CREATE TEMP TABLE other (id int); UPDATE accounts SET onwer = 'secret'",
    ];
    for statement in statements {
        assert_eq!(answered(&client, statement).await.unwrap_err(), "42703", "{statement}");
        client.batch_execute("ROLLBACK").await.unwrap();
    }
    let log = std::fs::read_to_string(server.log()).unwrap();
    assert!(!log.contains("secret"), "{log}");
    // A function of rows is no column that is misspelt.
    client
        .batch_execute("CREATE FUNCTION shouted(plain) RETURNS text LANGUAGE sql AS 'SELECT upper($1.note)'")
        .await
        .unwrap();
    client.batch_execute("INSERT INTO plain VALUES (1, 'x')").await.unwrap();
    for (statement, rows) in [
        ("SELECT a.id FROM accounts a JOIN plain p ON p.id = a.id WHERE p.shouted = 'X'", "1 rows"),
        (
            "SELECT a.id FROM accounts a JOIN plain p ON p.id = a.id WHERE p.to_json IS NULL OR a.owner = 'none'",
            "0 rows",
        ),
    ] {
        let found = answered(&client, statement).await.unwrap();
        assert!(found.last().unwrap().starts_with(rows), "{statement}: {found:?}");
    }
}

/// What is made at the database itself is looked for before it is said not to be there.
#[tokio::test]
async fn a_column_that_was_added_beside_the_proxy_is_found() {
    let server = PrivatePostgres::start().unwrap();
    let proxy = Dev::start(&server, "postgres", SCHEMA);
    let client = connect(&proxy.uri("postgres")).await;
    client.batch_execute(CREATE).await.unwrap();
    let direct = connect(&server.uri("postgres")).await;
    direct.batch_execute("ALTER TABLE accounts ADD COLUMN more text").await.unwrap();
    for statement in [
        "UPDATE accounts SET more = 'x' WHERE owner = 'Ann'",
        "SELECT id FROM accounts WHERE more = 'x' AND owner = 'Ann' ORDER BY id",
    ] {
        let found = answered(&client, statement).await.unwrap();
        assert!(found.last().unwrap().starts_with("2 rows"), "{statement}: {found:?}");
    }
    assert_eq!(answered(&client, "UPDATE accounts SET mroe = 'x'").await.unwrap_err(), "42703");
}

/// What is prepared holds the defaults as they were: it is planned again once they are others.
#[tokio::test]
async fn a_prepared_statement_does_not_store_a_default_that_is_no_more() {
    let server = PrivatePostgres::start().unwrap();
    let proxy = Dev::start(&server, "postgres", SCHEMA);
    let (client, other) = (connect(&proxy.uri("postgres")).await, connect(&proxy.uri("postgres")).await);
    client.batch_execute(CREATE).await.unwrap();
    client.batch_execute("ALTER TABLE accounts ALTER owner SET DEFAULT 'Yan'").await.unwrap();
    let insert = client.prepare("INSERT INTO accounts (id) VALUES ($1)").await.unwrap();
    client.execute(&insert, &[&20]).await.unwrap();
    other
        .batch_execute("CREATE TABLE others (id int); ALTER TABLE payments ADD COLUMN more text")
        .await
        .unwrap();
    client.execute(&insert, &[&21]).await.unwrap();
    other.batch_execute("ALTER TABLE accounts ALTER owner SET DEFAULT 'Zoe'").await.unwrap();
    client.execute(&insert, &[&22]).await.unwrap();
    client.execute(&insert, &[&23]).await.unwrap();
    let owners = answered(&client, "SELECT owner FROM accounts WHERE id >= 20 ORDER BY id").await.unwrap();
    assert_eq!(owners, ["owner", "Yan", "Yan", "Zoe", "Zoe", "4 rows"]);
}
