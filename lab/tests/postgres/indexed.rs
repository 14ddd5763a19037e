//! Indexes and constraints of encrypted columns have the names that plain PostgreSQL gives them.

use crate::extended::connect;
use crate::pair::Pair;
use tokio_postgres::Client;

const LONG: &str = "a_column_with_a_name_that_is_as_long_as_one_may_be_here_now";

fn schema() -> String {
    format!(
        "[tables.\"public.accounts\"]\n\
         owner = {{ id = \"7a1b2c3d4e5f6e21\", type = \"text\", operations = [\"unique\"] }}\n\
         balance = {{ id = \"7a1b2c3d4e5f6e22\", type = \"integer\", operations = [\"equality\", \"order\"] }}\n\
         {LONG} = {{ id = \"7a1b2c3d4e5f6e23\", type = \"text\", operations = [\"unique\"] }}\n\
         [tables.\"public.of_accounts\"]\n\
         owner = {{ id = \"7a1b2c3d4e5f6e24\", type = \"text\", join = \"accounts.owner\", operations = [\"unique\"] }}\n\
         [tables.\"public.Odd 'name\"]\n\
         balance = {{ id = \"7a1b2c3d4e5f6e25\", type = \"integer\", operations = [\"equality\", \"order\"] }}\n"
    )
}

/// SQLSTATE of one that fails.
async fn said(client: &Client, statement: &str) -> Result<(), String> {
    client
        .batch_execute(statement)
        .await
        .map_err(|error| error.as_db_error().unwrap().code().code().to_owned())
}

/// The names of indexes and constraints, the proxy's own aside.
async fn names(database: &Client) -> Vec<String> {
    let text = "SELECT c.relname::text || ' of ' || i.indrelid::regclass::text FROM pg_index i JOIN pg_class c ON c.oid = indexrelid \
                WHERE c.relnamespace = 'public'::regnamespace AND c.relname NOT LIKE 'arras\\_%' \
                UNION ALL SELECT conname::text || ', a constraint' FROM pg_constraint WHERE connamespace = 'public'::regnamespace ORDER BY 1";
    database.query(text, &[]).await.unwrap().iter().map(|row| row.get(0)).collect()
}

#[tokio::test]
async fn names_are_those_of_plaintext() {
    let Pair { server, proxy: _proxy, plain, encrypted } = Pair::start(&schema(), "").await;
    let direct = connect(&server.uri("encrypted")).await;
    let long = format!("CREATE INDEX ON accounts ({LONG}, id)");
    let create = format!(
        "CREATE TABLE accounts (id int PRIMARY KEY, owner text UNIQUE, balance int, {LONG} text UNIQUE)"
    );
    let unique = format!("ALTER TABLE accounts ADD UNIQUE (owner, {LONG})");
    for statement in [
        create.as_str(),
        "CREATE TABLE of_accounts (id int, owner text REFERENCES accounts (owner), UNIQUE (owner))",
        "CREATE TABLE \"Odd 'name\" (id int, balance int)",
        "CREATE INDEX ON accounts (balance)",
        "CREATE INDEX ON Accounts (balance)",
        "CREATE INDEX ON public.accounts (balance, owner, id)",
        "CREATE UNIQUE INDEX ON accounts (owner)",
        "CREATE INDEX ON accounts (owner) INCLUDE (id)",
        "CREATE INDEX ON accounts (id, balance DESC)",
        "CREATE INDEX ON \"Odd 'name\" (balance)",
        "CREATE INDEX ON accounts USING hash (owner)",
        "CREATE INDEX ON accounts (id, (id + 1), balance)",
        "CREATE INDEX ON accounts (abs(id), balance)",
        long.as_str(),
        long.as_str(),
        unique.as_str(),
        "BEGIN; SAVEPOINT s; CREATE INDEX ON accounts (balance); ROLLBACK TO s; CREATE INDEX ON accounts (balance, id); COMMIT",
        "BEGIN; SAVEPOINT s; CREATE INDEX by_hand ON accounts (id); RELEASE s; CREATE INDEX ON accounts (balance); COMMIT",
        "BEGIN; SAVEPOINT s; ALTER INDEX by_hand RENAME TO by_another; RELEASE s; CREATE INDEX ON accounts (owner); COMMIT",
        "CREATE INDEX ON accounts ((balance))",
        "DROP INDEX accounts_balance_idx",
        "CREATE INDEX IF NOT EXISTS accounts_balance_idx1 ON accounts (balance)",
        "ALTER INDEX accounts_balance_idx1 RENAME TO other",
        "CREATE INDEX ON accounts (balance)",
        "DROP INDEX accounts_balance_idx5",
    ] {
        assert_eq!(said(&encrypted, statement).await, said(&plain, statement).await, "{statement}");
        assert_eq!(names(&direct).await, names(&plain).await, "{statement}");
    }
    // By the extended protocol, of which it is one statement.
    for client in [&plain, &encrypted] {
        client.execute("CREATE INDEX ON accounts (owner, balance)", &[]).await.unwrap();
    }
    assert_eq!(names(&direct).await, names(&plain).await);
}
