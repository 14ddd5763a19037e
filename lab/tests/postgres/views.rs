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
