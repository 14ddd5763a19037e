//! Moments of fewer digits of a second than PostgreSQL keeps: rounded where they are stored or cast, and nowhere else.

use crate::copied::sent;
use crate::spelled::{answered, both};
use tokio_postgres::Client;

const SCHEMA: &str = r#"
[tables."public.readings"]
at = { id = "6b1b2c3d4e5f7d01", type = "timestamp(3)", operations = ["equality", "order"] }
zoned = { id = "6b1b2c3d4e5f7d02", type = "timestamptz(0)", operations = ["equality", "order"], order = "stope" }
many = { id = "6b1b2c3d4e5f7d03", type = "timestamp(1) with time zone", operations = ["order"], order = "fh_ope" }
bare = { id = "6b1b2c3d4e5f7d04", type = "timestamp(2) without time zone" }
whole = { id = "6b1b2c3d4e5f7d05", type = "timestamp(6)", operations = ["equality"] }
more = { id = "6b1b2c3d4e5f7d06", type = "timestamp(3)", operations = ["unique"] }
"#;

const CREATE: &str = "CREATE TABLE readings (id serial PRIMARY KEY, at timestamp(3) DEFAULT now(), zoned timestamptz(0) DEFAULT current_timestamp, \
    many timestamp(1) with time zone, bare timestamp (2), whole timestamp(6), plain timestamp(3), fine timestamp)";

/// As both databases answer them, one after the other.
const STATEMENTS: &[&str] = &[
    "SET TimeZone = 'UTC'",
    "INSERT INTO readings VALUES (1, '2024-05-01 10:11:12.3455', '2024-05-01 10:11:12.5+00', '2024-05-01 10:11:12.25+00', \
     '2024-05-01 10:11:12.345', '2024-05-01 10:11:12.345678', '2024-05-01 10:11:12.3455', '2024-05-01 10:11:12.3455')",
    "INSERT INTO readings VALUES (2, '1999-12-31 23:59:59.9995', '1999-12-31 23:59:59.5+00', '1999-12-31 23:59:59.95+00', \
     '1999-12-31 23:59:59.995', '1999-12-31 23:59:59.9999995', '1999-12-31 23:59:59.9994', '1999-12-31 23:59:59.9995')",
    "INSERT INTO readings VALUES (3, 'infinity', '-infinity', 'infinity', '-infinity', NULL, 'infinity', '-infinity'), (4, NULL, NULL, NULL, NULL, NULL, NULL, NULL)",
    "SELECT * FROM readings ORDER BY id",
    // Nothing is rounded to be compared.
    "SELECT id FROM readings WHERE at = '2024-05-01 10:11:12.3455'",
    "SELECT id FROM readings WHERE at = '2024-05-01 10:11:12.346'",
    "SELECT id FROM readings WHERE at = '2024-05-01 10:11:12.3456'::timestamp(3)",
    "SELECT id FROM readings WHERE at = CAST('2024-05-01 10:11:12.3456' AS timestamp(3) without time zone)",
    "SELECT id FROM readings WHERE at > '2024-05-01 10:11:12.3459999' ORDER BY id",
    "SELECT id FROM readings WHERE at > '2024-05-01 10:11:12.346' ORDER BY id",
    "SELECT id FROM readings WHERE at BETWEEN '1999-12-31 23:59:59.9999' AND '2024-05-01 10:11:12.3461' ORDER BY id",
    "SELECT id FROM readings WHERE zoned = '2024-05-01 10:11:13+00' OR zoned = '2000-01-01 00:00:00+00' ORDER BY id",
    "SELECT id FROM readings WHERE zoned = '2024-05-01 10:11:12.9'::timestamptz(0)",
    "SELECT id FROM readings WHERE zoned = TIMESTAMP(0) WITH TIME ZONE '2024-05-01 12:11:12.9+02'",
    "SELECT id FROM readings WHERE at IN ('2024-05-01 10:11:12.346', '2000-01-01') ORDER BY id",
    "SELECT id FROM readings WHERE at = ANY ('{\"2024-05-01 10:11:12.346\"}'::timestamp(3)[])",
    "SELECT id FROM readings WHERE whole = '2024-05-01 10:11:12.345678'",
    "SELECT id FROM readings WHERE many IS NOT NULL ORDER BY many",
    "SELECT id FROM readings WHERE many >= '2024-05-01 10:11:12.3+00' ORDER BY id",
    "SELECT a.id, b.id FROM readings a JOIN readings b USING (at) ORDER BY 1",
    "SELECT at, count(*) FROM readings GROUP BY at ORDER BY at",
    "SELECT min(at), max(at), max(zoned) FROM readings WHERE id < 3",
    "SELECT at::timestamp(1), at::text, at::date, coalesce(at, '2024-01-01 00:00:00.00049') FROM readings ORDER BY id",
    // What is given to a column of fewer digits is rounded, wherever it comes from.
    "UPDATE readings SET at = whole WHERE id < 3",
    "UPDATE readings SET bare = plain, whole = plain WHERE id < 3",
    "UPDATE readings SET at = fine WHERE id = 2",
    "UPDATE readings SET at = CASE WHEN id = 1 THEN '2024-05-01 10:11:12.98765' ELSE at END, many = '2024-05-01 10:11:12.949+00'",
    "UPDATE readings SET zoned = zoned, bare = '2024-05-01 10:11:12.995'::timestamp(1) WHERE id = 4",
    "INSERT INTO readings (id, at, whole) SELECT id + 10, whole, at FROM readings WHERE id < 5",
    "INSERT INTO readings (id, at) SELECT id + 20, '2024-05-01 10:11:12.98765' FROM readings WHERE id < 5",
    "INSERT INTO readings (id, at, zoned) VALUES (30, '2024-05-01 10:11:12.98765'::timestamp(4), DEFAULT) ON CONFLICT (id) DO UPDATE SET at = EXCLUDED.at",
    "INSERT INTO readings (id, at) VALUES (30, '2025-05-01 10:11:12.98765') ON CONFLICT (id) DO UPDATE SET at = EXCLUDED.at RETURNING at",
    "INSERT INTO readings (id, at) VALUES (31, 'yesterday noon or so')",
    "INSERT INTO readings (id, at) VALUES (31, '2024-05-01 10:11:60.5')",
    // A cast that keeps all digits of the column is none.
    "UPDATE readings SET at = (CASE WHEN id = 1 THEN '2024-05-01 10:11:12.98765' ELSE at END)::timestamp(6) WHERE id < 4",
    "UPDATE readings SET zoned = coalesce(zoned, '2024-01-01 00:00:00.7+00')::timestamptz(3)",
    "UPDATE readings SET whole = coalesce(whole, '2024-01-01 00:00:00.7')::timestamp",
    "ALTER TABLE readings ALTER COLUMN whole SET DEFAULT '2024-01-01 00:00:00.12399'::timestamp(6)",
    "ALTER TABLE readings ALTER COLUMN bare SET DEFAULT '2024-01-01 00:00:00.12399'::timestamp(4) without time zone",
    "INSERT INTO readings (id, at) VALUES (33, NULL) RETURNING whole, bare",
    "PREPARE put (int, timestamp) AS INSERT INTO readings (id, at) VALUES ($1, $2)",
    "EXECUTE put (32, '2024-05-01 10:11:12.98765')",
    "PREPARE found (timestamp(3)) AS SELECT id FROM readings WHERE at = $1 ORDER BY id",
    "EXECUTE found ('2024-05-01 10:11:12.988')",
    "ALTER TABLE readings ADD COLUMN more timestamp(3) DEFAULT '2024-05-01 10:11:12.98765'",
    "INSERT INTO readings (id) VALUES (40)",
    "SELECT id, more FROM readings WHERE more = '2024-05-01 10:11:12.988' ORDER BY id",
    "SELECT id, bare, many, whole FROM readings ORDER BY id",
    "SELECT id, at FROM readings WHERE id <> 40 AND at IS NOT NULL ORDER BY at, id",
    "BEGIN",
    "INSERT INTO readings (id, at, zoned, bare, many) VALUES (50, now(), now(), now(), now())",
    "SELECT id FROM readings WHERE zoned = now()::timestamptz(0) AND at = now()::timestamp(3) AND many >= now()::timestamptz(1) ORDER BY id",
    "SELECT id FROM readings WHERE at = localtimestamp(3) AND at <> now() - interval '1 day'",
    "UPDATE readings SET at = DEFAULT, zoned = DEFAULT WHERE id = 1",
    "SELECT id FROM readings WHERE zoned = current_timestamp(0) AND at = localtimestamp(3) ORDER BY id",
    "COMMIT",
    "SELECT column_name, data_type, datetime_precision FROM information_schema.columns WHERE table_name = 'readings' ORDER BY ordinal_position",
    "SELECT attname, format_type(atttypid, atttypmod) FROM pg_attribute WHERE attrelid = 'readings'::regclass AND attnum > 0 ORDER BY attnum",
];

async fn copied(client: &Client) -> Result<Vec<String>, String> {
    sent(client, "COPY readings (id, at) FROM STDIN", b"60\t2024-05-01 10:11:12.98765\n61\t\\N\n", 2)
        .await
        .unwrap();
    answered(client, "SELECT id, at FROM readings WHERE id > 59 ORDER BY id").await
}

#[tokio::test]
async fn moments_are_rounded_to_the_digits_of_their_column() {
    let (_server, _proxy, clients) = both(SCHEMA, CREATE).await;
    for statement in STATEMENTS {
        let [plain, encrypted] =
            [answered(&clients[0], statement).await, answered(&clients[1], statement).await];
        assert_eq!(plain, encrypted, "{statement}");
    }
    // The key that is there is the rounded one.
    let mut details = Vec::new();
    for client in &clients {
        client.batch_execute("CREATE UNIQUE INDEX once ON readings (more)").await.unwrap_err();
        client
            .batch_execute("UPDATE readings SET more = NULL; CREATE UNIQUE INDEX once ON readings (more)")
            .await
            .unwrap();
        client
            .batch_execute("UPDATE readings SET more = '2024-05-01 10:11:12.98765' WHERE id = 1")
            .await
            .unwrap();
        let twice = "UPDATE readings SET more = '2024-05-01 10:11:12.98812' WHERE id = 2";
        let error = client.batch_execute(twice).await.unwrap_err();
        details.push(error.as_db_error().unwrap().detail().map(str::to_owned));
        client.batch_execute("DROP INDEX once").await.unwrap();
    }
    assert_eq!(details[0], details[1]);
    assert_eq!(copied(&clients[0]).await, copied(&clients[1]).await);
    for client in &clients {
        // Text and binary, and a row's description as drivers read it.
        let at = std::time::UNIX_EPOCH + std::time::Duration::from_micros(1_714_558_272_987_650);
        client
            .execute("INSERT INTO readings (id, at, zoned) VALUES (70, $1, $2)", &[&at, &at])
            .await
            .unwrap();
        let row = client.query_one("SELECT at, zoned FROM readings WHERE id = 70", &[]).await.unwrap();
        let since = |place| {
            row.get::<_, std::time::SystemTime>(place)
                .duration_since(std::time::UNIX_EPOCH)
                .unwrap()
                .as_micros()
        };
        assert_eq!((since(0), since(1)), (1_714_558_272_988_000, 1_714_558_273_000_000));
        let described = client.prepare("SELECT at, zoned, whole FROM readings").await.unwrap();
        let kinds: Vec<_> = described.columns().iter().map(|column| column.type_modifier()).collect();
        assert_eq!(kinds, [3, 0, 6]);
    }
}

#[tokio::test]
async fn a_column_is_created_with_the_digits_that_are_declared() {
    let (_server, _proxy, [_, encrypted]) = both(SCHEMA, CREATE).await;
    for (made, is_right) in
        [("timestamp", false), ("timestamp(4)", false), ("timestamptz(3)", false), ("timestamp(3)", true)]
    {
        let statement = format!("ALTER TABLE readings ADD COLUMN more {made}");
        let said = answered(&encrypted, &statement).await.err();
        assert_eq!(said, (!is_right).then(|| "42P16".to_owned()), "{statement}");
    }
}
