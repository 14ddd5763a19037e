//! Columns that were made under another keyring, or under another id: no statement on them goes to the database.

use crate::dev::{Beside, Dev};
use crate::extended::connect;
use crate::proxy::outputs;
use arras_lab::private_postgres::PrivatePostgres;
use tokio_postgres::Client;

const SCHEMA: &str = r#"
[tables."public.p"]
a = { id = "91b6c0d2ee4f7a35", type = "text", operations = ["unique"] }
n = { id = "5f0c9d3e21b7a846", type = "integer", operations = ["equality"] }
"#;

const CREATE: &str = "CREATE TABLE p (id int, a text UNIQUE, n int)";

/// What one does with a table, none of which another keyring may do.
const STATEMENTS: [&str; 10] = [
    "INSERT INTO p VALUES (2, 'x', 5)",
    "SELECT * FROM p WHERE a = 'x'",
    "SELECT count(*) FROM p WHERE n = 5",
    "DELETE FROM p WHERE n = 5",
    "UPDATE p SET a = 'y' WHERE id = 1",
    "INSERT INTO p VALUES (3, 'x', 6) ON CONFLICT (a) DO NOTHING",
    "WITH q AS (SELECT id FROM p) SELECT count(*) FROM q",
    "COPY p TO STDOUT",
    "TRUNCATE p",
    "TRUNCATE TABLE ONLY public.p RESTART IDENTITY",
];

async fn refused(client: &Client, statement: &str) {
    let simple = client.simple_query(statement).await.expect_err(statement);
    let prepared = client.query(statement, &[]).await.expect_err(statement);
    for error in [simple, prepared] {
        let said = error.as_db_error().unwrap_or_else(|| panic!("{statement}: {error:?}"));
        assert_eq!(said.code().code(), "42P16", "{statement}: {said:?}");
        assert!(said.message().contains("public.p.a") && said.message().contains("keyring"), "{said:?}");
        assert!(said.hint().is_some_and(|hint| hint.contains("id")), "{said:?}");
    }
}

async fn count(client: &Client, condition: &str) -> i64 {
    let text = format!("SELECT count(*) FROM p WHERE {condition}");
    client.query_one(&text, &[]).await.unwrap_or_else(|error| panic!("{text}: {error:?}")).get(0)
}

fn says_why(said: &str) -> bool {
    ["public.p.a", "keyring", "id"].iter().all(|part| said.contains(part))
}

#[tokio::test]
async fn nothing_is_read_or_written_under_another_keyring() {
    let server = PrivatePostgres::start().unwrap();
    let (first, mut second) =
        (Dev::start(&server, "postgres", SCHEMA), Dev::start(&server, "postgres", SCHEMA));
    let before = connect(&second.uri("postgres")).await;
    before.batch_execute("SELECT count(*) FROM pg_catalog.pg_class").await.unwrap();
    let client = connect(&first.uri("postgres")).await;
    client.batch_execute(CREATE).await.unwrap();
    // Also where there is no row yet.
    let between = connect(&second.uri("postgres")).await;
    refused(&between, STATEMENTS[0]).await;
    client.batch_execute("INSERT INTO p VALUES (1, 'x', 5)").await.unwrap();
    let after = connect(&second.uri("postgres")).await;
    for other in [&before, &between, &after] {
        for statement in STATEMENTS {
            refused(other, statement).await;
        }
    }
    // What is not encrypted is nobody's.
    after.batch_execute("CREATE TABLE plain (id int); INSERT INTO plain VALUES (1)").await.unwrap();
    assert_eq!((count(&client, "true").await, count(&client, "a = 'x' AND n = 5").await), (1, 1));
    let (well, said) = second.doctor(&server, "postgres", false);
    assert!(!well && says_why(&said), "{said}");
    let (well, said) = first.doctor(&server, "postgres", true);
    assert!(well, "{said}");
    let said = second.refused_start(&server, "postgres");
    assert!(says_why(&said), "{said}");
}

#[tokio::test]
async fn an_id_that_was_edited_is_refused_and_the_old_one_works_again() {
    let server = PrivatePostgres::start().unwrap();
    let mut proxy = Dev::start(&server, "postgres", SCHEMA);
    let client = connect(&proxy.uri("postgres")).await;
    client.batch_execute(CREATE).await.unwrap();
    let file = proxy.directory().join("schema.toml");
    let edited = SCHEMA.replace("91b6c0d2ee4f7a35", "91b6c0d2ee4f7a36");
    for rows in [0, 1] {
        std::fs::write(&file, &edited).unwrap();
        let said = proxy.refused_start(&server, "postgres");
        assert!(says_why(&said) && !said.contains("public.p.n"), "{said}");
        let (well, said) = proxy.doctor(&server, "postgres", false);
        assert!(!well && says_why(&said), "{said}");
        std::fs::write(&file, SCHEMA).unwrap();
        proxy.killed_and_restarted(&server, "postgres");
        let client = connect(&proxy.uri("postgres")).await;
        assert_eq!(count(&client, "a = 'x'").await, rows);
        client.batch_execute("INSERT INTO p VALUES (1, 'x', 5) ON CONFLICT (a) DO NOTHING").await.unwrap();
    }
    // Ids that changed places, and another type.
    let swapped = edited
        .replace("5f0c9d3e21b7a846", "91b6c0d2ee4f7a35")
        .replace("91b6c0d2ee4f7a36", "5f0c9d3e21b7a846");
    let typed = SCHEMA.replace("\"integer\"", "\"bigint\"");
    for (schema, column) in [(swapped, "public.p.a"), (typed, "public.p.n")] {
        std::fs::write(&file, schema).unwrap();
        let said = proxy.refused_start(&server, "postgres");
        assert!(said.contains(column), "{said}");
    }
    // What decides no ciphertext may change.
    std::fs::write(&file, SCHEMA.replace("\"text\"", "\"varchar(40)\"")).unwrap();
    proxy.killed_and_restarted(&server, "postgres");
}

#[tokio::test]
async fn proxies_of_one_keyring_start_together_and_share_their_columns() {
    let server = PrivatePostgres::start().unwrap();
    let first = Dev::start(&server, "postgres", SCHEMA);
    let client = connect(&first.uri("postgres")).await;
    client.batch_execute(CREATE).await.unwrap();
    client.batch_execute("INSERT INTO p VALUES (1, 'x', 5)").await.unwrap();
    // As an older version left it.
    connect(&server.uri("postgres")).await.batch_execute("DELETE FROM arras.column_check").await.unwrap();
    let start = |number: usize| first.beside_named(&server, "postgres", &format!("beside-{number}"));
    let others: Vec<Beside> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..4).map(|number| scope.spawn(move || start(number))).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    for other in &others {
        let other = connect(&other.uri("postgres")).await;
        assert_eq!(count(&other, "a = 'x' AND n = 5").await, 1);
        let error = other.batch_execute("INSERT INTO p VALUES (2, 'x', 6)").await.unwrap_err();
        assert_eq!(error.code().map(|code| code.code()), Some("23505"));
    }
    // A table that one of them makes is the others', at once.
    client.batch_execute("DROP TABLE p").await.unwrap();
    let other = connect(&others[0].uri("postgres")).await;
    other.batch_execute(CREATE).await.unwrap();
    let other = connect(&others[1].uri("postgres")).await;
    other.batch_execute("INSERT INTO p VALUES (1, 'x', 5)").await.unwrap();
    assert_eq!(count(&connect(&first.uri("postgres")).await, "a = 'x'").await, 1);
    let (well, said) = first.doctor(&server, "postgres", true);
    assert!(well, "{said}");
}

#[tokio::test]
async fn a_check_follows_its_column_and_goes_with_it() {
    let server = PrivatePostgres::start().unwrap();
    let mut first = Dev::start(&server, "postgres", SCHEMA);
    let client = connect(&first.uri("postgres")).await;
    let direct = connect(&server.uri("postgres")).await;
    client.batch_execute(CREATE).await.unwrap();
    client.batch_execute("INSERT INTO p VALUES (1, 'x', 5)").await.unwrap();
    // Table, schema and column are called otherwise.
    first.kill();
    let renamed = "ALTER TABLE p RENAME TO q; CREATE SCHEMA s; ALTER TABLE q SET SCHEMA s; \
                   ALTER TABLE s.q RENAME a TO b; ALTER TABLE s.q RENAME \"a$eq\" TO \"b$eq\"";
    direct.batch_execute(renamed).await.unwrap();
    let file = first.directory().join("schema.toml");
    let schema = SCHEMA.replace("public.p", "s.q").replace("\na =", "\nb =");
    std::fs::write(&file, &schema).unwrap();
    first.killed_and_restarted(&server, "postgres");
    let client = connect(&first.uri("postgres")).await;
    let found = client.query_one("SELECT count(*) FROM s.q WHERE b = 'x' AND n = 5", &[]).await.unwrap();
    assert_eq!(found.get::<_, i64>(0), 1);
    std::fs::write(&file, schema.replace("5f0c9d3e21b7a846", "5f0c9d3e21b7a847")).unwrap();
    let said = first.refused_start(&server, "postgres");
    assert!(said.contains("s.q.n"), "{said}");
    // Dropped and made again, also under other ids; with one that was rolled back before.
    direct.batch_execute("DROP TABLE s.q").await.unwrap();
    std::fs::write(&file, SCHEMA.replace("91b6c0d2ee4f7a35", "91b6c0d2ee4f7a36")).unwrap();
    first.killed_and_restarted(&server, "postgres");
    let client = connect(&first.uri("postgres")).await;
    client.batch_execute(&format!("BEGIN; {CREATE}; ROLLBACK")).await.unwrap();
    std::fs::write(&file, SCHEMA).unwrap();
    first.killed_and_restarted(&server, "postgres");
    let client = connect(&first.uri("postgres")).await;
    client.batch_execute("CREATE TABLE IF NOT EXISTS p (id int, a text UNIQUE)").await.unwrap();
    client.batch_execute("CREATE TABLE IF NOT EXISTS p (id int, a text UNIQUE)").await.unwrap();
    client.batch_execute("ALTER TABLE p ADD COLUMN IF NOT EXISTS n int").await.unwrap();
    client.batch_execute("INSERT INTO p VALUES (1, 'x', 5)").await.unwrap();
    client.batch_execute("ALTER TABLE p DROP COLUMN n").await.unwrap();
    client.batch_execute("ALTER TABLE p ADD COLUMN n int DEFAULT 7").await.unwrap();
    let client = connect(&first.uri("postgres")).await;
    assert_eq!(count(&client, "a = 'x' AND n = 7").await, 1);
    std::fs::write(&file, SCHEMA.replace("5f0c9d3e21b7a846", "5f0c9d3e21b7a847")).unwrap();
    let said = first.refused_start(&server, "postgres");
    assert!(said.contains("public.p.n") && !said.contains("public.p.a"), "{said}");
    std::fs::write(&file, SCHEMA).unwrap();
    first.killed_and_restarted(&server, "postgres");
    let kept = "SELECT count(*) FROM arras.column_check";
    assert_eq!(direct.query_one(kept, &[]).await.unwrap().get::<_, i64>(0), 2);
}

/// Also in a savepoint, whose rows of the catalogue have a number of their own; but not of a column that was there.
#[tokio::test]
async fn a_check_is_kept_of_a_column_that_a_savepoint_makes() {
    let server = PrivatePostgres::start().unwrap();
    let first = Dev::start(&server, "postgres", SCHEMA);
    let client = connect(&first.uri("postgres")).await;
    let direct = connect(&server.uri("postgres")).await;
    let kept = async |client: &Client| {
        let asked = "SELECT count(*) FROM arras.column_checks()";
        client.query_one(asked, &[]).await.unwrap().get::<_, i64>(0)
    };
    let add = "ALTER TABLE p ADD COLUMN IF NOT EXISTS n int";
    client.batch_execute("CREATE TABLE p (id int, a text UNIQUE)").await.unwrap();
    client.batch_execute(&format!("BEGIN; SAVEPOINT one; SAVEPOINT two; {add}; RELEASE two")).await.unwrap();
    assert_eq!(kept(&client).await, 2);
    client.batch_execute("ROLLBACK TO one").await.unwrap();
    assert_eq!(kept(&client).await, 1);
    client.batch_execute(&format!("{add}; COMMIT")).await.unwrap();
    assert_eq!(kept(&client).await, 2);
    direct.batch_execute("DELETE FROM arras.column_check WHERE attribute = 'n'").await.unwrap();
    client.batch_execute(&format!("BEGIN; SAVEPOINT one; {add}")).await.unwrap();
    assert_eq!(kept(&client).await, 1);
    client.batch_execute("ROLLBACK").await.unwrap();
}

/// What is kept of columns that are gone goes when a check is kept.
#[tokio::test]
async fn checks_of_dropped_columns_do_not_pile_up() {
    let server = PrivatePostgres::start().unwrap();
    let first = Dev::start(&server, "postgres", SCHEMA);
    let client = connect(&first.uri("postgres")).await;
    let direct = connect(&server.uri("postgres")).await;
    let kept = "SELECT count(*) FROM arras.column_check";
    for _ in 0..3 {
        client.batch_execute(CREATE).await.unwrap();
        client.batch_execute("ALTER TABLE p DROP COLUMN n").await.unwrap();
        client.batch_execute("ALTER TABLE p ADD COLUMN n int").await.unwrap();
        assert_eq!(direct.query_one(kept, &[]).await.unwrap().get::<_, i64>(0), 2);
        client.batch_execute("DROP TABLE p").await.unwrap();
    }
    // A drop that is rolled back takes nothing.
    client.batch_execute(CREATE).await.unwrap();
    let dropped = "BEGIN; ALTER TABLE p DROP COLUMN n; ALTER TABLE p ADD COLUMN n int; ROLLBACK";
    client.batch_execute(dropped).await.unwrap();
    assert_eq!(direct.query_one(kept, &[]).await.unwrap().get::<_, i64>(0), 2);
}

/// Tables alone, as they are dumped and put into another database: there is no check of them, but their values are.
#[tokio::test]
async fn rows_without_a_check_are_taken_by_who_can_open_them() {
    let server = PrivatePostgres::start().unwrap();
    let mut first = Dev::start(&server, "postgres", SCHEMA);
    let client = connect(&first.uri("postgres")).await;
    client.batch_execute(CREATE).await.unwrap();
    client.batch_execute("INSERT INTO p VALUES (1, 'x', 5), (2, NULL, 6)").await.unwrap();
    client.batch_execute("CREATE DATABASE other").await.unwrap();
    let mut second = Dev::start(&server, "other", SCHEMA);
    let before = connect(&second.uri("other")).await;
    before.batch_execute("SELECT count(*) FROM pg_catalog.pg_class").await.unwrap();
    let dump = server.socket_folder().join("dump.sql");
    let mut run = server.command("pg_dump");
    run.args(["-t", "p", "-f", dump.to_str().unwrap(), &server.uri("postgres")]);
    let (ended, said, errors) = outputs(run);
    assert!(ended, "{said} {errors}");
    let mut run = server.command("psql");
    run.args(["-X", "-q", "-v", "ON_ERROR_STOP=1", "-f", dump.to_str().unwrap(), &server.uri("other")]);
    let (ended, said, errors) = outputs(run);
    assert!(ended, "{said} {errors}");
    // A proxy that runs and one that starts.
    for other in [&before, &connect(&second.uri("other")).await] {
        for statement in STATEMENTS {
            refused(other, statement).await;
        }
    }
    let (well, said) = second.doctor(&server, "other", false);
    assert!(!well && says_why(&said), "{said}");
    let said = second.refused_start(&server, "other");
    assert!(says_why(&said), "{said}");
    std::fs::remove_dir_all(first.directory().join("data/postgres-heads")).unwrap();
    first.killed_and_restarted(&server, "other");
    let client = connect(&first.uri("other")).await;
    assert_eq!(count(&client, "a = 'x' AND n = 5").await, 1);
    // From then on it is the one's, with rows or without.
    client.batch_execute("DELETE FROM p").await.unwrap();
    let said = second.refused_start(&server, "other");
    assert!(says_why(&said), "{said}");
    let (well, said) = first.doctor(&server, "other", true);
    assert!(well, "{said}");
}

/// Keeping a check runs nothing of the caller's with rights that the caller does not have: not what a view of hers computes.
#[tokio::test]
async fn to_keep_a_check_gives_nobody_rights() {
    let server = PrivatePostgres::start().unwrap();
    let _proxy = Dev::start(&server, "postgres", SCHEMA);
    let direct = connect(&server.uri("postgres")).await;
    let prepared = "CREATE ROLE mallory LOGIN; GRANT CREATE, USAGE ON SCHEMA public TO mallory; CREATE TABLE ran (who text); \
        GRANT INSERT ON ran TO PUBLIC";
    direct.batch_execute(prepared).await.unwrap();
    let mallory = connect(&server.uri("postgres").replace("//postgres@", "//mallory@")).await;
    let trap = "CREATE FUNCTION public.trap() RETURNS bytea LANGUAGE plpgsql AS \
        $$ BEGIN INSERT INTO public.ran VALUES (current_user); RETURN NULL; END $$; \
        CREATE VIEW public.trapped AS SELECT public.trap() AS c";
    mallory.batch_execute(trap).await.unwrap();
    // In a transaction of its own: the view is not new.
    let kept = "SELECT arras.check_column('public.trapped', 'c', false, '\\x00', NULL, NULL)";
    mallory.batch_execute(kept).await.unwrap();
    let ran = direct.query_one("SELECT count(*) FROM ran", &[]).await.unwrap().get::<_, i64>(0);
    assert_eq!(ran, 0);
}
