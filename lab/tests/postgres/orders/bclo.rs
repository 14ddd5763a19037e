//! `order = "bclo"`.

use super::Pair;
use crate::dev::Dev;
use crate::extended::connect;
use arras_lab::private_postgres::PrivatePostgres;

const SCHEMA: &str = r#"
[tables."public.readings"]
small = { id = "5f0c9d3e21b7a801", type = "smallint", operations = ["order", "sum"], order = "bclo" }
level = { id = "5f0c9d3e21b7a802", type = "integer", operations = ["order", "sum"], order = "bclo" }
large = { id = "5f0c9d3e21b7a803", type = "bigint", operations = ["equality", "order"], order = "bclo" }
price = { id = "5f0c9d3e21b7a804", type = "numeric(12,2)", operations = ["order"], order = "bclo" }
ratio = { id = "5f0c9d3e21b7a805", type = "double precision", operations = ["order"], order = "bclo" }
rate = { id = "5f0c9d3e21b7a806", type = "real", operations = ["order"], order = "bclo" }
day = { id = "5f0c9d3e21b7a807", type = "date", operations = ["order"], order = "bclo" }
at = { id = "5f0c9d3e21b7a808", type = "timestamptz", operations = ["order"], order = "bclo" }
code = { id = "5f0c9d3e21b7a809", type = "varchar(6)", operations = ["order"], order = "bclo", max_bytes = 6 }
flag = { id = "5f0c9d3e21b7a80a", type = "boolean", operations = ["order"], order = "bclo" }
"#;

const CREATE: &str = "CREATE TABLE readings (id int PRIMARY KEY, small smallint, level int, large bigint, price numeric(12,2), \
                      ratio double precision, rate real, day date, at timestamptz, code varchar(6) COLLATE \"C\", flag boolean)";

const ROWS: &str = "INSERT INTO readings VALUES \
    (1, -32768, -2147483648, -9223372036854775808, -9999999999.99, '-Infinity', -1.5, '-infinity', '1900-01-01 00:00+00', '', false), \
    (2, -1, -1, -1, -0.01, -1e300, -0.0, '1999-12-31', '1999-12-31 23:59:59.999999+00', 'A', true), \
    (3, 0, 0, 0, 0, -0.0, 0, '2000-01-01', '2000-01-01 00:00+00', 'a', false), \
    (4, 1, 1, 1, 0.01, 5e-324, 0.1, '2000-01-02', '2000-01-01 00:00:00.000001+00', 'aa', NULL), \
    (5, 7, 7, 7, 7.50, 7.5, 7.5, '2020-02-29', '2020-02-29 12:00+00', 'ab', true), \
    (6, 7, 7, 7, 7.5, 7.5, 7.5, '2020-02-29', '2020-02-29 12:00+00', 'ab', true), \
    (7, 32767, 2147483647, 9223372036854775807, 9999999999.99, 'NaN', 'Infinity', 'infinity', '2100-01-01 00:00+00', 'zz9', true), \
    (8, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL)";

/// Columns, and constants that they are compared with: stored, between what is stored, and beyond the type.
const COMPARED: [(&str, &[&str]); 9] = [
    ("small", &["-1", "3", "32767", "100000", "-9000000000"]),
    ("level", &["0", "7", "8", "3000000000", "-3000000000"]),
    ("large", &["1", "9223372036854775807", "-42"]),
    ("price", &["7.50", "7.5", "-0.01", "9999999999.99", "123456789012345678901", "-10000000000"]),
    ("ratio", &["0", "7.5", "'Infinity'", "'NaN'", "1e-10"]),
    ("rate", &["'7.5'", "'-0'", "'Infinity'"]),
    ("day", &["'2000-01-01'", "'infinity'", "'2010-07-01'"]),
    ("at", &["'2000-01-01 00:00+00'", "'2020-02-29 12:00+00'", "'1950-01-01 00:00+00'"]),
    ("code", &["'a'", "''", "'b'", "'zz9 and much more'"]),
];

#[tokio::test]
async fn columns_ordered_by_bclo_answer_as_plain_ones_do() {
    let pair = Pair::start(SCHEMA, CREATE).await;
    pair.same(ROWS).await;
    let mut found = 0;
    for (column, constants) in COMPARED {
        for constant in constants {
            for operator in ["<", "<=", ">", ">=", "=", "<>"] {
                let statement =
                    format!("SELECT id FROM readings WHERE {column} {operator} {constant} ORDER BY id");
                found += pair.same(&statement).await;
            }
            let low = constants[0];
            for not in ["", "NOT "] {
                pair.same(&format!(
                    "SELECT id FROM readings WHERE {column} {not}BETWEEN {low} AND {constant} ORDER BY id"
                ))
                .await;
            }
        }
        for statement in [
            format!("SELECT {column} FROM readings ORDER BY {column}, id"),
            format!(
                "SELECT {column}, id FROM readings ORDER BY {column} DESC NULLS LAST, id LIMIT 3 OFFSET 1"
            ),
            format!("SELECT min({column}), max({column}) FROM readings"),
            format!("SELECT id, rank() OVER (ORDER BY {column}) FROM readings ORDER BY id"),
            format!(
                "SELECT id, lag({column}) OVER (PARTITION BY {column} ORDER BY id) FROM readings ORDER BY id"
            ),
            format!("SELECT count(*) FROM readings GROUP BY {column} ORDER BY {column}"),
            format!("SELECT DISTINCT {column} FROM readings ORDER BY {column}"),
            format!("SELECT count(DISTINCT {column}) FROM readings"),
            format!(
                "SELECT a.id, b.id FROM readings a JOIN readings b ON a.{column} < b.{column} ORDER BY 1, 2"
            ),
            format!(
                "SELECT a.id, b.id FROM readings a JOIN readings b ON a.{column} = b.{column} ORDER BY 1, 2"
            ),
            format!(
                "SELECT id FROM readings WHERE {column} = (SELECT max({column}) FROM readings) ORDER BY id"
            ),
            format!("SELECT id FROM readings WHERE {column} IS NULL"),
        ] {
            found += pair.same(&statement).await;
        }
    }
    assert!(found > 400, "{found} rows were compared");
}

#[tokio::test]
async fn rows_are_written_in_every_way_and_terms_stay_those_of_the_values() {
    let mut pair = Pair::start(SCHEMA, CREATE).await;
    pair.same(ROWS).await;
    for statement in [
        "UPDATE readings SET level = level + 5, large = large - 1 WHERE level BETWEEN -5 AND 100 RETURNING id, level, large",
        "UPDATE readings SET day = '2021-05-05', flag = NULL WHERE price > 7",
        "UPDATE readings SET level = CASE WHEN id < 4 THEN level ELSE NULL END WHERE id IN (3, 4)",
        "UPDATE readings SET level = coalesce(level, 3) WHERE level IS NULL",
        "INSERT INTO readings (id, level, price) SELECT id + 100, level, price FROM readings WHERE level >= 3 ORDER BY id",
        "INSERT INTO readings (id, level) VALUES (1, 5) ON CONFLICT (id) DO UPDATE SET level = EXCLUDED.level",
        "INSERT INTO readings (id, level, day) SELECT * FROM unnest('{900,901}'::int[], '{4,NULL}'::int[], \
         '{2000-01-01,2001-01-01}'::date[])",
        "INSERT INTO readings (id, level, day) VALUES (910, NULL, NULL), (911, DEFAULT, '1999-01-01')",
        "DELETE FROM readings WHERE level > 2000 RETURNING id",
        "ALTER TABLE readings ADD COLUMN note int",
    ] {
        pair.same(statement).await;
    }
    for client in [&pair.plain, &pair.encrypted] {
        let insert =
            client.prepare("INSERT INTO readings (id, level, ratio) VALUES ($1, $2, $3)").await.unwrap();
        client.execute(&insert, &[&950, &Some(-77), &0.5]).await.unwrap();
        client.execute(&insert, &[&951, &None::<i32>, &f64::NAN]).await.unwrap();
        let select = client
            .prepare("SELECT id FROM readings WHERE level < $1 AND ratio >= $2 ORDER BY level")
            .await
            .unwrap();
        let found = client.query(&select, &[&0, &0.25]).await.unwrap();
        assert_eq!(found.iter().map(|row| row.get::<_, i32>(0)).collect::<Vec<_>>(), [950]);
    }
    pair.same("SELECT id, small, level, large, price, ratio, day, code, flag, note FROM readings ORDER BY level, id").await;
    let (well, said) = pair.proxy.doctor(&pair.server, "encrypted", true);
    assert!(well && said.contains("rows open and agree with their terms"), "{said}");
    // The same ciphertexts after a restart: they are a function of the keys.
    pair.proxy.killed_and_restarted(&pair.server, "encrypted");
    pair.encrypted = connect(&pair.proxy.uri("encrypted")).await;
    pair.same("SELECT id FROM readings WHERE level >= 5 ORDER BY level, id").await;
}

#[tokio::test]
async fn terms_are_ciphertexts_of_one_length_in_an_index_and_no_tree_is_kept() {
    let pair = Pair::start(SCHEMA, CREATE).await;
    pair.same(ROWS).await;
    let direct = pair.direct().await;
    let terms = "SELECT a.attname::text, format_type(a.atttypid, a.atttypmod) FROM pg_attribute a \
                 WHERE a.attrelid = 'readings'::regclass AND a.attname LIKE '%$ord' ORDER BY a.attnum";
    let terms = direct.query(terms, &[]).await.unwrap();
    assert_eq!(terms.len(), 10);
    assert!(terms.iter().all(|row| row.get::<_, &str>(1) == "arras.bclo"), "{terms:?}");
    for (column, bytes) in [("small", 16), ("price", 16), ("code", 16), ("day", 8), ("rate", 8), ("flag", 8)]
    {
        let lengths = format!(
            "SELECT DISTINCT octet_length(\"{column}$ord\") FROM readings WHERE {column} IS NOT NULL"
        );
        let lengths = direct.query(&lengths, &[]).await.unwrap();
        assert_eq!(lengths.iter().map(|row| row.get::<_, i32>(0)).collect::<Vec<_>>(), [bytes], "{column}");
    }
    let kept = direct.query_one("SELECT count(*) FROM arras.mope_column", &[]).await.unwrap();
    assert_eq!(kept.get::<_, i64>(0), 0, "no column has a tree");
    let plan = pair
        .explained("SELECT id FROM readings WHERE \"level$ord\" > '\\x80000000000000000000000000000000' ORDER BY \"level$ord\"")
        .await;
    assert!(
        plan.contains("Index Scan using \"arras_5f0c9d3e21b7a802_order\"")
            || plan.contains("Index Scan using arras_5f0c9d3e21b7a802_order"),
        "{plan}"
    );
    assert!(!plan.contains("Sort"), "{plan}");
}

#[tokio::test]
async fn what_is_no_ciphertext_of_the_value_is_found_and_another_scheme_is_refused() {
    let server = PrivatePostgres::start().unwrap();
    let declared = |order: &str| {
        format!(
            "[tables.t]\nlevel = {{ id = \"5f0c9d3e21b7a802\", type = \"integer\", operations = [\"equality\", \"order\"], order = \"{order}\" }}\n"
        )
    };
    let proxy = Dev::start(&server, "postgres", &declared("bclo"));
    // Where there is a table under another keyring it would not start.
    let other = Dev::start(&server, "postgres", &declared("mope"));
    let client = connect(&proxy.uri("postgres")).await;
    client
        .batch_execute(
            "CREATE TABLE t (id int PRIMARY KEY, level int); INSERT INTO t VALUES (1, 5), (2, 6), (3, NULL)",
        )
        .await
        .unwrap();
    let direct = connect(&server.uri("postgres")).await;
    let (well, said) = proxy.doctor(&server, "postgres", true);
    assert!(well, "{said}");
    for (damage, word) in [
        (
            "UPDATE t a SET \"level$ord\" = b.\"level$ord\" FROM t b WHERE a.id = 1 AND b.id = 2",
            "id = 1: the term of order is not that",
        ),
        ("UPDATE t SET \"level$ord\" = NULL WHERE id = 1", "id = 1: the term of order is not that"),
        (
            "UPDATE t a SET \"level$ord\" = b.\"level$ord\" FROM t b WHERE a.id = 3 AND b.id = 2",
            "id = 3: a term is there and no sealed value",
        ),
    ] {
        direct
            .batch_execute(&format!(
                "CREATE TABLE kept AS SELECT id, \"level$ord\"::bytea AS term FROM t; {damage}"
            ))
            .await
            .unwrap();
        let (well, said) = proxy.doctor(&server, "postgres", true);
        assert!(!well && said.contains(word), "{damage}: {said}");
        let back = "UPDATE t SET \"level$ord\" = k.term FROM kept k WHERE k.id = t.id; DROP TABLE kept";
        direct.batch_execute(back).await.unwrap();
    }
    // A table says by which scheme its terms were made.
    let too_short = direct.batch_execute("UPDATE t SET \"level$ord\" = '\\x00'").await.unwrap_err();
    assert_eq!(too_short.code().unwrap().code(), "23514");
    let client = connect(&other.uri("postgres")).await;
    let refused = client.simple_query("SELECT level FROM t").await.unwrap_err();
    let refused = refused.as_db_error().unwrap();
    assert_eq!(refused.code().code(), "42P16");
    assert!(refused.message().contains("\"level$ord\" is arras.bclo"), "{refused:?}");
}
