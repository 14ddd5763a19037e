//! Views that read encrypted columns, made at the database itself, and `MERGE`: refused, and no constant is in the log.

use crate::extended::connect;
use crate::spelled::{answered, both, refused};

const SCHEMA: &str = r#"
[tables."public.people"]
name = { id = "7a1b2c3d4e5f7d01", type = "text", operations = ["equality", "order"], max_bytes = 40 }
salary = { id = "7a1b2c3d4e5f7d02", type = "integer", operations = ["equality", "order"] }
"#;

const CREATE: &str = "CREATE TABLE people (id int PRIMARY KEY, name text, salary int, city text, photo bytea); \
    INSERT INTO people VALUES (1, 'Ann', 5, 'Bonn', '\\x01')";

/// Views, and what they are of.
const VIEWS: &str = "CREATE SCHEMA other; CREATE VIEW of_name AS SELECT id, name FROM people; \
    CREATE VIEW of_all AS SELECT * FROM people; \
    CREATE VIEW of_rows AS SELECT row_to_json(p) AS row FROM people p; \
    CREATE VIEW of_rows_too AS SELECT p.id, p::text AS row FROM people p; \
    CREATE VIEW of_order AS SELECT id, \"salary$ord\" + 0 AS place FROM people; \
    CREATE VIEW of_lengths AS SELECT id, length(name) FROM people; \
    CREATE VIEW other.of_view AS SELECT v.id FROM of_order v; \
    CREATE MATERIALIZED VIEW kept AS SELECT salary FROM people; \
    CREATE VIEW of_plain AS SELECT id, city, photo FROM people WHERE id > 0; \
    CREATE VIEW of_count AS SELECT count(*) AS people FROM people; \
    CREATE VIEW other.people AS SELECT id, name FROM public.people; \
    CREATE VIEW of_of_plain AS SELECT city FROM of_plain";

const REFUSED: &[&str] = &[
    "SELECT * FROM of_name",
    "SELECT * FROM of_name WHERE name = 'secret'",
    "SELECT * FROM public.of_all WHERE salary = 987654",
    "SELECT * FROM of_rows WHERE row->>'name' = 'secret'",
    "SELECT * FROM of_rows_too WHERE row LIKE '%secret%'",
    "SELECT id FROM of_order WHERE place < 987654",
    "SELECT id FROM of_lengths WHERE length = 987654",
    "SELECT id FROM other.of_view WHERE id = 987654",
    "SELECT * FROM kept WHERE salary = 987654",
    "TABLE kept",
    "SELECT id FROM other.people WHERE name = 'secret'",
    "SELECT p.id FROM people p JOIN of_name v ON v.name = 'secret'",
    "INSERT INTO of_name VALUES (2, 'secret')",
    "UPDATE of_name SET name = 'secret'",
    "DELETE FROM of_name WHERE name = 'secret'",
    "CREATE VIEW more AS SELECT * FROM of_name WHERE name = 'secret'",
    "CREATE VIEW more AS SELECT id FROM people WHERE name = 'secret'",
    "CREATE TABLE more AS SELECT * FROM of_name WHERE name = 'secret'",
    "ALTER VIEW of_name ALTER COLUMN name SET DEFAULT 'secret'",
    "MERGE INTO people p USING (VALUES (1, 'secret')) s (id, name) ON p.id = s.id WHEN MATCHED THEN UPDATE SET name = s.name",
    "MERGE INTO people p USING (SELECT 1) s ON p.name = 'secret' WHEN MATCHED THEN DELETE",
    "MERGE INTO of_name p USING (SELECT 1) s ON p.name = 'secret' WHEN MATCHED THEN DELETE",
    "EXPLAIN MERGE INTO people p USING (SELECT 1) s ON p.name = 'secret' WHEN MATCHED THEN DELETE",
];

#[tokio::test]
async fn views_of_encrypted_columns_and_merges_are_refused() {
    let (server, proxy, [plain, first]) = both(SCHEMA, CREATE).await;
    refused(&server, &first, &["CREATE VIEW v AS SELECT id FROM people WHERE name = 'secret'"], &["secret"])
        .await;
    let direct = connect(&server.uri("postgres")).await;
    direct.batch_execute(VIEWS).await.unwrap();
    let client = connect(&proxy.uri("postgres")).await;
    // Of what a view is made at the database while a session is open this session hears with the next change of a table.
    first.batch_execute("CREATE TABLE apart (id int)").await.unwrap();
    for client in [&first, &client] {
        refused(&server, client, REFUSED, &["secret", "987654"]).await;
    }
    // What a view reads in plaintext is as it was.
    plain.batch_execute(&VIEWS.replace("\"salary$ord\"", "salary")).await.unwrap();
    for statement in [
        "SELECT id, city FROM of_plain WHERE city = 'Bonn'",
        "SELECT * FROM of_count",
        "SELECT * FROM of_of_plain WHERE city <> 'x'",
        "UPDATE of_plain SET city = 'Rome' WHERE id = 1",
        "SELECT p.id FROM people p JOIN of_plain o ON o.id = p.id WHERE p.name = 'Ann' AND o.city = 'Rome'",
        "UPDATE people SET name = 'Bea' WHERE id = 1 RETURNING name",
        "SELECT id, name FROM people WHERE name = 'Bea'",
        "REFRESH MATERIALIZED VIEW kept",
        "DROP MATERIALIZED VIEW kept",
        "DROP VIEW of_name, of_all",
        "CREATE TABLE of_name (id int, name text)",
        "INSERT INTO of_name VALUES (1, 'y')",
        "SELECT * FROM of_name WHERE name = 'y'",
    ] {
        assert_eq!(answered(&client, statement).await, answered(&plain, statement).await, "{statement}");
    }
}

/// Names of views that are something else where these statements have them.
const NAMESAKES: &[&str] = &[
    "CREATE TABLE places (id int, city text, stats int DEFAULT 987654)",
    "CREATE INDEX places_city ON places (city) WHERE stats > 987654",
    "ALTER TABLE people ADD COLUMN stats text DEFAULT 'here'",
    "ALTER TABLE people ADD CONSTRAINT stats CHECK (stats <> 'x')",
    "CREATE INDEX stats_of_people ON people (city, stats) WHERE stats IS NOT NULL",
    "ALTER TABLE people ALTER stats SET NOT NULL, ALTER stats SET DEFAULT 'there'",
    "INSERT INTO people (id, name) VALUES (3, 'Cid') RETURNING stats, city",
    "COMMENT ON COLUMN people.stats IS 'said'",
    "ALTER TABLE people RENAME COLUMN stats TO statistics",
    "ALTER TABLE people DROP COLUMN statistics",
    "CREATE TABLE rooms (city int PRIMARY KEY, person int REFERENCES people (id))",
    "CREATE TABLE halls (city int, FOREIGN KEY (city) REFERENCES people)",
    "ALTER TABLE halls ADD COLUMN stats int REFERENCES people (id) ON DELETE SET NULL, ADD FOREIGN KEY (stats) REFERENCES rooms",
    "CREATE TRIGGER city BEFORE UPDATE ON places FOR EACH ROW EXECUTE FUNCTION suppress_redundant_updates_trigger()",
    "SELECT city, stats FROM places WHERE stats = 987654",
    "CREATE SCHEMA stats",
    "DROP SCHEMA stats",
    "DROP TABLE places, halls, rooms",
];

#[tokio::test]
async fn a_column_called_as_a_view_is_none() {
    let (server, proxy, [plain, _]) = both(SCHEMA, CREATE).await;
    let views = "CREATE VIEW city AS SELECT id, name FROM people; CREATE VIEW stats AS SELECT * FROM people";
    for uri in [server.uri("postgres"), server.uri("plain")] {
        connect(&uri).await.batch_execute(views).await.unwrap();
    }
    let client = connect(&proxy.uri("postgres")).await;
    for statement in NAMESAKES {
        assert_eq!(answered(&client, statement).await, answered(&plain, statement).await, "{statement}");
    }
    let refusals = [
        "CREATE VIEW more AS SELECT city FROM people WHERE name IN (SELECT name FROM city WHERE name = 'secret')",
        "CREATE TABLE more AS SELECT name FROM city WHERE name = 'secret'",
        "ALTER TABLE stats ALTER COLUMN name SET DEFAULT 'secret'",
        "ALTER VIEW city ALTER COLUMN name SET DEFAULT 'secret'",
        "CREATE RULE r AS ON INSERT TO city DO INSTEAD INSERT INTO places VALUES (1, 'secret')",
        "CREATE RULE r AS ON INSERT TO places DO INSTEAD UPDATE city SET name = 'secret'",
    ];
    refused(&server, &client, &refusals, &["secret"]).await;
}

/// In a transaction of one snapshot nothing is asked before a lock: what others commit while it waits is seen.
#[tokio::test]
async fn a_lock_takes_no_snapshot() {
    let (server, _proxy, [_, client]) = both(SCHEMA, CREATE).await;
    let (holder, watcher) = (connect(&server.uri("postgres")).await, connect(&server.uri("postgres")).await);
    client.batch_execute("SELECT id FROM people").await.unwrap();
    // The session does not know it.
    holder.batch_execute("CREATE TABLE apart (id int)").await.unwrap();
    holder.batch_execute("BEGIN; LOCK TABLE apart").await.unwrap();
    client.batch_execute("BEGIN ISOLATION LEVEL REPEATABLE READ").await.unwrap();
    let commit = async {
        let waits = "SELECT 1 FROM pg_locks WHERE NOT granted";
        while watcher.query(waits, &[]).await.unwrap().is_empty() {
            tokio::time::sleep(std::time::Duration::from_millis(10)).await;
        }
        holder.batch_execute("INSERT INTO apart VALUES (7); COMMIT").await.unwrap();
    };
    let (locked, ()) = tokio::join!(client.batch_execute("LOCK TABLE apart IN SHARE MODE"), commit);
    locked.unwrap();
    assert_eq!(answered(&client, "SELECT id FROM apart").await.unwrap()[1], "7");
    client.batch_execute("COMMIT; BEGIN").await.unwrap();
    holder.batch_execute("CREATE TABLE another (id int)").await.unwrap();
    client.batch_execute("LOCK TABLE another;").await.unwrap();
    client.batch_execute("SET TRANSACTION ISOLATION LEVEL SERIALIZABLE").await.unwrap();
    client.batch_execute("COMMIT").await.unwrap();
}

/// Names like those of the system's views are users' own, and a table of another schema may have the name.
#[tokio::test]
async fn a_view_called_as_something_that_is_known_is_asked_about() {
    let (server, _proxy, [_, client]) = both(SCHEMA, CREATE).await;
    client.batch_execute("SELECT id FROM people; SELECT 1 FROM pg_class, pg_tables LIMIT 1").await.unwrap();
    let direct = connect(&server.uri("postgres")).await;
    direct.batch_execute("CREATE VIEW pg_people AS SELECT id, name FROM people").await.unwrap();
    refused(&server, &client, &["INSERT INTO pg_people VALUES (9, 'secret')"], &["secret"]).await;
    client.batch_execute("CREATE SCHEMA other; CREATE TABLE other.known (id int)").await.unwrap();
    client.batch_execute("SELECT id FROM other.known; SELECT id FROM people").await.unwrap();
    direct.batch_execute("CREATE VIEW public.known AS SELECT id, name FROM people").await.unwrap();
    refused(&server, &client, &["INSERT INTO public.known VALUES (9, 'secret')"], &["secret"]).await;
}

#[tokio::test]
async fn views_that_are_made_while_a_session_is_open_are_known_to_it() {
    let (server, _proxy, [_, client]) = both(SCHEMA, CREATE).await;
    let direct = connect(&server.uri("postgres")).await;
    let function = "CREATE FUNCTION make() RETURNS void LANGUAGE plpgsql AS $$ BEGIN EXECUTE 'CREATE VIEW of_mine AS SELECT id, name FROM people'; END $$";
    direct.batch_execute(function).await.unwrap();
    answered(&client, "SELECT count(*) FROM people").await.unwrap();
    // By others at the database, and by one's own function.
    direct
        .batch_execute(
            "CREATE VIEW of_others AS SELECT * FROM people; CREATE VIEW fair AS SELECT id, city FROM people",
        )
        .await
        .unwrap();
    answered(&client, "SELECT make()").await.unwrap();
    let refusals =
        ["SELECT * FROM of_mine WHERE name = 'secret'", "SELECT * FROM of_others WHERE name = 'secret'"];
    refused(&server, &client, &refusals, &["secret"]).await;
    let more = [
        ("first", "TABLE first"),
        ("second", "INSERT INTO second VALUES (9, 'secret')"),
        ("third", "UPDATE third SET name = 'secret'"),
        ("fourth", "DELETE FROM ONLY public.fourth WHERE name = 'secret'"),
        ("fifth", "SELECT p.id FROM generate_series(1, 2) p (id), fifth WHERE name = 'secret'"),
        (
            "sixth",
            "WITH w AS (SELECT 1) SELECT * FROM w JOIN LATERAL (SELECT * FROM \"sixth\") s ON name = 'secret'",
        ),
        ("seventh", "COPY seventh TO STDOUT"),
        ("eighth", "DELETE FROM others USING eighth WHERE name = 'secret'"),
        ("ninth", "EXPLAIN SELECT (SELECT max(name) FROM ninth WHERE name > 'secret')"),
    ];
    direct.batch_execute("CREATE TABLE others (id int)").await.unwrap();
    for (view, statement) in more {
        direct.batch_execute(&format!("CREATE VIEW {view} AS SELECT id, name FROM people")).await.unwrap();
        refused(&server, &client, &[statement], &["secret"]).await;
    }
    // What reads plain columns goes on, and what is not there is PostgreSQL's error.
    let found = answered(&client, "SELECT city FROM fair").await.unwrap();
    assert_eq!(found, ["city", "Bonn", "1 rows"]);
    for (statement, code) in [("SELECT * FROM nothing", "42P01"), ("INSERT INTO nothing VALUES (1)", "42P01")]
    {
        assert_eq!(answered(&client, statement).await, Err(code.into()), "{statement}");
    }
}

/// Columns of which one has a default, which the server keeps sealed.
const OF_DEFAULTS: &str = "CREATE TABLE people (id int PRIMARY KEY, name text, salary int DEFAULT 5, city text); \
    INSERT INTO people (id) VALUES (1)";

#[tokio::test]
async fn rows_do_not_go_through_a_view_where_an_encrypted_column_has_a_default() {
    let (server, _proxy, [_, client]) = both(SCHEMA, OF_DEFAULTS).await;
    let direct = connect(&server.uri("postgres")).await;
    client
        .batch_execute("CREATE VIEW over AS SELECT id, city FROM people; CREATE SCHEMA other")
        .await
        .unwrap();
    client.batch_execute("CREATE VIEW other.above AS SELECT * FROM over WHERE id > 0").await.unwrap();
    client.batch_execute("CREATE VIEW \"into\" AS SELECT id FROM people").await.unwrap();
    for statement in [
        "INSERT INTO over VALUES (2, 'x')",
        "INSERT INTO public.over (id) VALUES (2) ON CONFLICT DO NOTHING",
        "INSERT INTO \"over\" AS o SELECT 2, 'x'",
        "INSERT INTO \"into\" VALUES (2)",
        "INSERT INTO other.above DEFAULT VALUES",
        "INSERT INTO postgres.other.above VALUES (2)",
        "WITH made AS (INSERT INTO over VALUES (2, 'x') RETURNING id) SELECT * FROM made",
        "PREPARE stored AS INSERT INTO over VALUES (2, 'x')",
        "EXPLAIN ANALYZE INSERT INTO over VALUES (2, 'x')",
        "MERGE INTO other.above USING (SELECT 2 AS id) s ON false WHEN NOT MATCHED THEN INSERT (id) VALUES (s.id)",
        "COPY over FROM STDIN",
        "COPY public.over (id, city) FROM STDIN",
    ] {
        let error = client.batch_execute(statement).await.expect_err(statement);
        let error = error.as_db_error().unwrap();
        assert!(error.message().contains("gets the default of people.salary"), "{statement}: {error:?}");
    }
    let id = client.prepare("INSERT INTO over VALUES ($1, 'x')").await.expect_err("bound");
    assert_eq!(id.as_db_error().unwrap().code().code(), "0A000");
    client
        .batch_execute("UPDATE over SET city = upper('x') || id WHERE id ~~ '1'")
        .await
        .expect_err("the server's");
    for statement in [
        "UPDATE over SET city = upper('x') || id WHERE city IS NULL",
        "SELECT upper(city) FROM over WHERE city LIKE 'X%'",
        "DELETE FROM other.above WHERE id = 7",
        "INSERT INTO people (id, city) SELECT id + 1, city FROM over",
        "DROP VIEW \"into\"; ALTER VIEW over RENAME TO beyond; ALTER VIEW beyond RENAME TO over",
    ] {
        client.batch_execute(statement).await.unwrap_or_else(|error| panic!("{statement}: {error:?}"));
    }
    let found = client.query("SELECT id FROM people WHERE salary = 5 ORDER BY id", &[]).await.unwrap();
    assert_eq!(found.iter().map(|row| row.get(0)).collect::<Vec<i32>>(), [1, 2]);
    let bare = "SELECT count(*) FROM people WHERE salary IS NOT NULL AND \"salary$ord\" IS NULL";
    assert_eq!(direct.query_one(bare, &[]).await.unwrap().get::<_, i64>(0), 0);
    client.batch_execute("ALTER TABLE people ALTER salary DROP DEFAULT").await.unwrap();
    client.batch_execute("INSERT INTO over VALUES (3, 'y')").await.unwrap();
    client.batch_execute("ALTER TABLE people ALTER salary SET DEFAULT 6").await.unwrap();
    client.batch_execute("INSERT INTO over VALUES (4, 'y')").await.expect_err("it has a default again");
}

#[tokio::test]
async fn a_view_that_could_not_be_read_is_not_made() {
    let (_server, _proxy, [plain, client]) = both(SCHEMA, CREATE).await;
    for statement in [
        "CREATE VIEW v AS SELECT count(*) FROM (SELECT * FROM people) s",
        "CREATE VIEW v AS SELECT id FROM (TABLE people) s",
        "CREATE VIEW v AS WITH s AS (SELECT p.* FROM people p) SELECT id FROM s",
        "CREATE MATERIALIZED VIEW v AS SELECT EXISTS (SELECT * FROM people) AS any",
        "CREATE VIEW v AS SELECT p.id FROM people p JOIN people q USING (name)",
    ] {
        let error = client.batch_execute(statement).await.expect_err(statement);
        let error = error.as_db_error().unwrap();
        assert!(error.message().contains("is encrypted: a view cannot read it"), "{statement}: {error:?}");
    }
    for (statement, made) in [
        (
            "CREATE TEMPORARY TABLE made AS SELECT count(*) FROM (SELECT * FROM people) s",
            "SELECT * FROM made",
        ),
        ("CREATE VIEW counted AS SELECT count(*) FROM people", "SELECT * FROM counted"),
    ] {
        for database in [&plain, &client] {
            database.batch_execute(statement).await.unwrap();
        }
        assert_eq!(answered(&plain, made).await, answered(&client, made).await);
    }
}
