//! Names that a declared table or column has, and that mean something else where a statement has them: each is answered as by plain PostgreSQL.

use crate::dev::Dev;
use crate::extended::connect;
use crate::pair::Pair;
use arras_lab::private_postgres::PrivatePostgres;
use tokio_postgres::{Client, SimpleQueryMessage};

const SCHEMA: &str = "[tables.\"public.accounts\"]\n\
    owner = { id = \"7a1b2c3d4e5f6d21\", type = \"text\", operations = [\"equality\"] }\n\
    balance = { id = \"7a1b2c3d4e5f6d22\", type = \"integer\", operations = [\"equality\", \"order\"] }\n";

const STATEMENTS: [&str; 74] = [
    "CREATE TABLE accounts (id int PRIMARY KEY, owner text, balance int)",
    "INSERT INTO accounts VALUES (1, 'Alice', 10), (2, 'Bob', 20)",
    "CREATE TABLE misc (id int PRIMARY KEY, accounts int, owner text, balance int, note text)",
    "INSERT INTO misc VALUES (1, 5, 'x', 7, 'n'), (2, 6, 'y', 8, 'm')",
    // Common table expressions that hide it.
    "WITH accounts AS (SELECT 1 AS id, 'me' AS owner) SELECT * FROM accounts",
    "WITH accounts (id, balance) AS (VALUES (1, 2), (3, 4)) SELECT sum(balance), max(id) FROM accounts",
    "WITH accounts AS (SELECT id, note AS owner FROM misc) SELECT lower(owner), owner LIKE 'n%' FROM accounts ORDER BY 1",
    "WITH RECURSIVE accounts AS (SELECT 1 AS n UNION ALL SELECT n + 1 FROM accounts WHERE n < 3) SELECT n * n FROM accounts",
    "WITH accounts AS (SELECT id, note FROM misc) SELECT a.note FROM accounts a JOIN misc ON a.id = misc.id WHERE a.note ~ 'n'",
    "WITH accounts AS (DELETE FROM misc WHERE id = 99 RETURNING id) SELECT count(*) FROM accounts",
    "WITH accounts AS (SELECT 2 AS id) UPDATE misc SET note = 'z' FROM accounts WHERE accounts.id = misc.id",
    "SELECT (WITH accounts AS (SELECT 7 AS id) SELECT id % 2 FROM accounts), count(*) FROM accounts",
    "CREATE VIEW hidden AS WITH accounts AS (SELECT 1 AS id) SELECT id FROM accounts",
    "CREATE TABLE made AS WITH accounts AS (SELECT 1 AS id) SELECT id FROM accounts",
    // Aliases.
    "SELECT accounts.id, accounts.owner || '!' FROM misc accounts WHERE accounts.owner LIKE 'x%'",
    "SELECT upper(accounts.note) FROM misc AS accounts ORDER BY lower(accounts.note)",
    "UPDATE misc accounts SET owner = upper(owner) WHERE accounts.id = 1 RETURNING accounts.owner",
    "DELETE FROM misc AS accounts WHERE accounts.id = 77",
    "SELECT id AS accounts, note AS owner FROM misc ORDER BY accounts",
    "SELECT note AS owner FROM misc ORDER BY owner",
    "SELECT id AS balance FROM accounts ORDER BY balance",
    "SELECT length(note) AS balance, count(*) FROM misc GROUP BY balance ORDER BY 1",
    "SELECT s.balance + 1 FROM (SELECT id AS balance FROM accounts) s ORDER BY s.balance % 2, 1",
    "SELECT o.owner || 'x' FROM (SELECT note AS owner FROM misc) o ORDER BY 1",
    "SELECT accounts FROM (SELECT 1 AS accounts) s",
    "SELECT max(balance) AS owner FROM misc",
    "SELECT owner || note, balance % 3 FROM misc ORDER BY owner LIKE 'x', balance",
    "SELECT m.owner || a.id FROM accounts a JOIN misc m ON a.id = m.id ORDER BY lower(m.owner)",
    "CREATE VIEW aliased AS SELECT accounts.id FROM misc AS accounts",
    "CREATE VIEW labelled AS SELECT id AS accounts FROM misc",
    "CREATE VIEW of_column AS SELECT accounts FROM misc",
    "CREATE VIEW of_columns AS SELECT owner, balance FROM misc",
    "SELECT accounts + 1 FROM of_column ORDER BY 1",
    "CREATE MATERIALIZED VIEW kept AS SELECT accounts FROM misc",
    "CREATE TABLE copied AS SELECT accounts, owner FROM misc",
    "SELECT accounts INTO taken FROM misc",
    // Columns, constraints, indexes and others that are called so.
    "CREATE INDEX ON misc (accounts)",
    "CREATE INDEX by_it ON misc ((accounts + 1))",
    "CREATE INDEX accounts_of_misc ON misc (lower(owner))",
    "ALTER TABLE misc RENAME COLUMN accounts TO renamed",
    "ALTER TABLE misc RENAME COLUMN renamed TO accounts",
    "ALTER TABLE misc ADD CONSTRAINT accounts CHECK (accounts > 0)",
    "ALTER TABLE misc ADD COLUMN twice int GENERATED ALWAYS AS (accounts * 2) STORED",
    "ALTER TABLE misc ALTER COLUMN owner TYPE varchar(20), ALTER COLUMN accounts SET DEFAULT 3",
    "COMMENT ON COLUMN misc.accounts IS 'how many'",
    "CREATE SEQUENCE accounts_seq",
    "CREATE SCHEMA accounts",
    "CREATE TABLE accounts.misc (id int, owner text)",
    "INSERT INTO accounts.misc VALUES (1, 'in another schema')",
    "SELECT upper(owner) FROM accounts.misc",
    "CREATE VIEW accounts.shown AS SELECT upper(owner) AS owner FROM accounts.misc",
    "DROP SCHEMA accounts CASCADE",
    // A table of another schema.
    "CREATE SCHEMA other",
    "CREATE TABLE other.accounts (id int PRIMARY KEY, owner text CHECK (length(owner) > 1), balance int)",
    "INSERT INTO other.accounts (id, owner, balance) VALUES (1, 'Carol', 3)",
    "INSERT INTO other.accounts VALUES (2, 'Dan', 4) ON CONFLICT (id) DO UPDATE SET owner = upper(EXCLUDED.owner)",
    "UPDATE other.accounts SET owner = lower(owner), balance = balance % 2 WHERE owner LIKE 'C%'",
    "SELECT upper(owner), balance FROM other.accounts ORDER BY lower(owner)",
    "SELECT upper(accounts.owner) FROM other.accounts ORDER BY 1",
    "SELECT upper(o.owner), a.owner FROM other.accounts o JOIN public.accounts a ON a.id = o.id",
    "CREATE INDEX ON other.accounts (lower(owner))",
    "ALTER TABLE other.accounts ADD COLUMN more int DEFAULT 1 + 1",
    "ALTER TABLE other.accounts ADD CHECK (balance >= 0)",
    "CREATE VIEW other.shown AS SELECT upper(owner) AS owner FROM other.accounts",
    "SELECT * FROM other.shown ORDER BY 1",
    "CREATE MATERIALIZED VIEW other.kept AS SELECT * FROM other.accounts",
    "CREATE TABLE other.more AS SELECT * FROM other.accounts",
    "CREATE TRIGGER t BEFORE UPDATE ON other.accounts FOR EACH ROW EXECUTE FUNCTION suppress_redundant_updates_trigger()",
    "DELETE FROM other.accounts WHERE owner ~ 'zzz'",
    "COPY other.accounts (id, owner) TO STDOUT",
    "LOCK TABLE other.accounts",
    "TRUNCATE other.accounts",
    "CREATE VIEW other.accounts_of AS SELECT 1",
    "CREATE VIEW other.balances AS SELECT balance FROM other.accounts",
];

/// Rows as text, or the SQLSTATE.
type Outcome = Result<Vec<Vec<Option<String>>>, String>;

async fn said(client: &Client, statement: &str) -> Outcome {
    let code = |error: tokio_postgres::Error| {
        error
            .as_db_error()
            .map_or(format!("{error:?}"), |said| format!("{} {}", said.code().code(), said.message()))
    };
    if statement.starts_with("COPY ") {
        return client.copy_out(statement).await.map(|_| Vec::new()).map_err(code);
    }
    let messages = client.simple_query(statement).await.map_err(code)?;
    let row = |message| match message {
        SimpleQueryMessage::Row(row) => {
            Some((0..row.len()).map(|at| row.get(at).map(str::to_owned)).collect())
        }
        _ => None,
    };
    Ok(messages.into_iter().filter_map(row).collect())
}

#[tokio::test]
async fn a_name_that_means_something_else_is_no_declared_one() {
    let Pair { server: _server, proxy: _proxy, plain, encrypted } = Pair::start(SCHEMA, "").await;
    let mut different = Vec::new();
    for statement in STATEMENTS {
        let (expected, found) = (said(&plain, statement).await, said(&encrypted, statement).await);
        if expected != found {
            different.push(format!("{statement}\n   {expected:?}\n   {found:?}"));
        }
    }
    assert!(different.is_empty(), "{}", different.join("\n"));
}

/// A table that is called as a declared one is prepared on, and then the declared one is made, and meant.
const PREPARED: [&str; 15] = [
    "CREATE SCHEMA other; CREATE TABLE other.accounts (id int, owner text, balance int); SET search_path = other, public",
    "PREPARE stored AS INSERT INTO accounts (id, owner) VALUES (1, 'secret one')",
    "PREPARE given (int, text) AS INSERT INTO accounts (id, owner) VALUES ($1, $2)",
    "PREPARE changed AS UPDATE accounts SET owner = 'secret two' WHERE id = 1",
    "PREPARE found AS SELECT id FROM accounts WHERE owner = 'secret two'",
    "EXECUTE stored",
    "EXECUTE found",
    "CREATE TABLE public.accounts (id int, owner text, balance int); SET search_path = public",
    "EXECUTE stored",
    "EXECUTE given (2, 'secret three')",
    "EXECUTE changed",
    "EXECUTE found",
    "SELECT * FROM accounts ORDER BY id",
    "SELECT * FROM other.accounts ORDER BY id",
    "DROP TABLE accounts; DROP TABLE other.accounts; EXECUTE stored",
];

#[tokio::test]
async fn a_statement_prepared_on_a_namesake_is_planned_again_when_its_name_means_the_declared_table() {
    let Pair { server, proxy: _proxy, plain, encrypted } = Pair::start(SCHEMA, "").await;
    let mut of_protocol = Vec::new();
    for statement in PREPARED {
        assert_eq!(said(&encrypted, statement).await, said(&plain, statement).await, "{statement}");
        if statement.starts_with("CREATE SCHEMA") {
            for client in [&encrypted, &plain] {
                let stored =
                    client.prepare("INSERT INTO accounts (id, owner) VALUES (7, 'secret four')").await;
                of_protocol.push(stored.unwrap());
            }
        }
        if statement.starts_with("CREATE TABLE") {
            for (client, stored) in [&encrypted, &plain].into_iter().zip(&of_protocol) {
                client.execute(stored, &[]).await.unwrap();
            }
        }
        if statement == "SELECT * FROM accounts ORDER BY id" {
            let direct = connect(&server.uri("encrypted")).await;
            let bare =
                "SELECT count(*) FROM public.accounts WHERE owner IS NOT NULL AND \"owner$eq\" IS NULL";
            assert_eq!(direct.query_one(bare, &[]).await.unwrap().get::<_, i64>(0), 0);
        }
    }
}

#[tokio::test]
async fn a_plain_table_does_not_become_a_declared_one() {
    let server = PrivatePostgres::start().unwrap();
    let proxy = Dev::start(&server, "postgres", SCHEMA);
    let client = connect(&proxy.uri("postgres")).await;
    client
        .batch_execute("CREATE SCHEMA other; CREATE TABLE other.accounts (id int, owner text)")
        .await
        .unwrap();
    client.batch_execute("CREATE TABLE other.ledger (id int, owner text)").await.unwrap();
    for statement in [
        "ALTER TABLE other.accounts SET SCHEMA public; INSERT INTO accounts VALUES (1, 'secret')",
        "ALTER TABLE IF EXISTS other.accounts SET SCHEMA \"public\"",
        "ALTER TABLE other.ledger RENAME TO accounts",
    ] {
        let error = client.batch_execute(statement).await.expect_err(statement);
        let code = error.as_db_error().unwrap().code().code();
        assert!(["0A000", "42601"].contains(&code), "{statement}: {error:?}");
    }
    client.batch_execute("CREATE SCHEMA third; ALTER TABLE other.accounts SET SCHEMA third").await.unwrap();
    client
        .batch_execute(
            "ALTER TABLE third.accounts SET SCHEMA other; INSERT INTO other.accounts VALUES (1, 'shown')",
        )
        .await
        .unwrap();
    assert!(client.query("SELECT FROM public.accounts", &[]).await.is_err(), "none was made");
}
