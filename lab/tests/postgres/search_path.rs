//! Which table a name means: the declared one, whatever the server's search path says, or a table that stands before it there.

use crate::dev::Dev;
use crate::encrypted::rows;
use crate::extended::connect;
use crate::pair::Pair;
use arras_lab::private_postgres::PrivatePostgres;

const SCHEMA: &str = "[tables.\"public.accounts\"]\n\
    owner = { id = \"7a1b2c3d4e5f6f21\", type = \"text\", operations = [\"equality\"] }\n\
    balance = { id = \"7a1b2c3d4e5f6f22\", type = \"integer\", operations = [\"equality\", \"order\"] }\n\
    memo = { id = \"7a1b2c3d4e5f6f23\", type = \"bytea\" }\n";

const CREATE: &str = "CREATE TABLE accounts (id int PRIMARY KEY, owner text, balance int, memo bytea)";

/// What stands before the declared table in a search path: what is sealed for a column without terms would fit into it.
const NAMESAKE: &str = "(id int PRIMARY KEY, owner text, balance int, memo bytea)";

/// Statements of an application, in their order.
const STATEMENTS: [&str; 9] = [
    "INSERT INTO accounts (id, owner, balance, memo) VALUES (1, 'Ann', 5, '\\x01'), (2, 'Bob', 6, '\\x02')",
    "INSERT INTO accounts (id, balance) VALUES (1, 7) ON CONFLICT (id) DO UPDATE SET balance = accounts.balance + EXCLUDED.balance",
    "UPDATE accounts SET balance = balance + 1 WHERE owner = 'Bob'",
    "UPDATE accounts SET id = 3 WHERE id = 2",
    "INSERT INTO accounts (id, memo) SELECT id + 10, memo FROM accounts WHERE id = 1",
    "DELETE FROM accounts WHERE id = 11",
    "SELECT id, owner, balance, memo FROM accounts ORDER BY id",
    "SELECT count(*) FROM accounts",
    "SELECT a.id FROM accounts a JOIN accounts b USING (owner) ORDER BY 1",
];

/// Runs them: the same comes of it as without whatever stands before the declared table.
async fn run(pair: &Pair, around: &str) {
    for statement in STATEMENTS {
        pair.same(statement).await;
    }
    let direct = pair.direct().await;
    let elsewhere = "SELECT count(*) FROM other.accounts";
    let found: i64 = direct.query_one(elsewhere, &[]).await.unwrap().get(0);
    assert_eq!(found, 0, "{around}: nothing is sealed into a namesake");
    let last = pair.encrypted.query("TABLE accounts", &[]).await.unwrap();
    assert_eq!(last.len(), 2, "{around}");
    pair.same("DELETE FROM accounts").await;
}

#[tokio::test]
async fn a_search_path_has_no_say_in_what_a_declared_name_means() {
    let pair = Pair::start(SCHEMA, CREATE).await;
    let direct = pair.direct().await;
    direct
        .batch_execute(&format!("CREATE SCHEMA other; CREATE TABLE other.accounts {NAMESAKE}"))
        .await
        .unwrap();
    run(&pair, "as it is").await;
    pair.encrypted.batch_execute("SET search_path = other, public").await.unwrap();
    run(&pair, "SET").await;
    pair.encrypted.batch_execute("RESET search_path; BEGIN; SET LOCAL search_path = other; SAVEPOINT s; SET LOCAL search_path = public; ROLLBACK TO s").await.unwrap();
    pair.plain.batch_execute("BEGIN").await.unwrap();
    run(&pair, "SET LOCAL, undone").await;
    for client in [&pair.encrypted, &pair.plain] {
        client.batch_execute("COMMIT").await.unwrap();
    }
    // A function of the server's sets it.
    pair.encrypted.batch_execute("SELECT set_config('search_path', 'other', false)").await.unwrap();
    run(&pair, "set_config").await;
    // Nor in which table is changed, emptied or dropped.
    direct.batch_execute("INSERT INTO other.accounts (id) VALUES (1)").await.unwrap();
    for client in [&pair.plain, &pair.encrypted] {
        client.batch_execute("INSERT INTO accounts (id, balance) VALUES (1, 1), (2, 2)").await.unwrap();
        let changed = "ALTER TABLE accounts DROP COLUMN balance; ALTER TABLE accounts ADD COLUMN note text, ADD balance int";
        client.batch_execute(changed).await.unwrap();
        client
            .batch_execute("BEGIN; LOCK accounts; INSERT INTO accounts (id, balance) VALUES (3, 3); COMMIT")
            .await
            .unwrap();
    }
    pair.same("SELECT id, balance, note FROM accounts ORDER BY id").await;
    for statement in ["TRUNCATE accounts", "DROP TABLE IF EXISTS accounts"] {
        pair.encrypted.batch_execute(statement).await.unwrap();
        let left = "SELECT count(*) FROM other.accounts, pg_attribute WHERE attrelid = 'other.accounts'::regclass AND attnum > 0";
        assert_eq!(direct.query_one(left, &[]).await.unwrap().get::<_, i64>(0), 4, "{statement}");
    }
    let gone = direct.query_one("SELECT to_regclass('public.accounts') IS NULL", &[]).await.unwrap();
    assert!(gone.get::<_, bool>(0));
}

#[tokio::test]
async fn a_role_s_search_path_and_a_temporary_table_have_none_either() {
    let mut pair = Pair::start(SCHEMA, CREATE).await;
    let direct = pair.direct().await;
    direct
        .batch_execute(&format!("CREATE SCHEMA other; CREATE TABLE other.accounts {NAMESAKE}"))
        .await
        .unwrap();
    direct.batch_execute("ALTER ROLE postgres SET search_path = other, public").await.unwrap();
    pair.encrypted = connect(&pair.proxy.uri("encrypted")).await;
    run(&pair, "ALTER ROLE").await;
    direct.batch_execute("ALTER ROLE postgres RESET search_path").await.unwrap();
    direct.batch_execute(&format!(
        "CREATE FUNCTION hide() RETURNS void LANGUAGE plpgsql AS 'BEGIN EXECUTE ''CREATE TEMP TABLE accounts {NAMESAKE}''; END'"
    )).await.unwrap();
    pair.encrypted = connect(&pair.proxy.uri("encrypted")).await;
    let prepared =
        pair.encrypted.prepare("INSERT INTO accounts (id, balance) VALUES ($1, $2)").await.unwrap();
    rows(&pair.encrypted, "SELECT hide()").await;
    pair.encrypted.execute(&prepared, &[&40, &4]).await.unwrap();
    let temporary = pair.encrypted.query_one("SELECT count(*) FROM pg_temp.accounts", &[]).await.unwrap();
    assert_eq!(temporary.get::<_, i64>(0), 0, "prepared before");
    pair.plain.batch_execute("INSERT INTO accounts (id, balance) VALUES (40, 4)").await.unwrap();
    pair.same("DELETE FROM accounts WHERE id = 40").await;
    run(&pair, "a temporary table").await;
    let temporary = pair.encrypted.query_one("SELECT count(*) FROM pg_temp.accounts", &[]).await.unwrap();
    assert_eq!(temporary.get::<_, i64>(0), 0);
}

/// What a client is told is what PostgreSQL says of the text that it sent.
#[tokio::test]
async fn a_client_is_not_told_of_the_schema() {
    let pair = Pair::start(SCHEMA, CREATE).await;
    pair.same("INSERT INTO accounts VALUES (1, 'Ann', 5, NULL)").await;
    for wrong in [
        "INSERT INTO accounts (id, owner) VALUES (1, 'Eve')",
        "SELECT nothing FROM accounts WHERE owner = 'x'",
        "SELECT accounts.nothing FROM accounts",
        "SELECT other.id FROM accounts WHERE balance > 3",
        "SELECT id FROM accounts WHERE balance > 3 GROUP BY owner",
        "UPDATE accounts SET nothing = 1 WHERE owner = 'Ann'",
        "INSERT INTO accounts (id, id) VALUES (1, 2)",
        "DELETE FROM accounts WHERE id = 'one' AND owner = 'Ann'",
        "SELECT id + ARRAY[1] FROM accounts WHERE owner = 'Ann'",
    ] {
        let mut told = Vec::new();
        for client in [&pair.plain, &pair.encrypted] {
            let error = client.simple_query(wrong).await.expect_err(wrong);
            let error = error.as_db_error().unwrap().clone();
            told.push((
                error.code().code().to_owned(),
                error.message().to_owned(),
                format!("{:?}", error.position()),
            ));
        }
        assert_eq!(told[0], told[1], "{wrong}");
    }
    pair.same("EXPLAIN (COSTS OFF) SELECT id FROM accounts").await;
    pair.same("SELECT tableoid::regclass, accounts.id FROM accounts").await;
}

/// With a schema of the declared table's own.
#[tokio::test]
async fn a_table_of_another_schema_is_meant_by_its_bare_name() {
    let server = PrivatePostgres::start().unwrap();
    let proxy = Dev::start(&server, "postgres", &SCHEMA.replace("public.accounts", "Odd schema.accounts"));
    let client = connect(&proxy.uri("postgres")).await;
    client
        .batch_execute("CREATE SCHEMA \"Odd schema\"; CREATE TABLE \"Odd schema\".accounts (id int, owner text, balance int, memo bytea)")
        .await
        .unwrap();
    client.batch_execute("INSERT INTO accounts VALUES (1, 'Ann', 5, NULL)").await.unwrap();
    assert_eq!(
        rows(&client, "SELECT owner FROM accounts WHERE balance < 6").await,
        [[Some("Ann".to_owned())]]
    );
}
