//! `order = "clww"`.

use super::Pair;
use crate::encrypted::rows;

const SCHEMA: &str = r#"
[tables."public.readings"]
level = { id = "5f0c9d3e21b7a812", type = "integer", operations = ["order", "sum"], order = "clww" }
large = { id = "5f0c9d3e21b7a813", type = "bigint", operations = ["equality", "order"], order = "clww" }
price = { id = "5f0c9d3e21b7a814", type = "numeric(12,2)", operations = ["order"], order = "clww" }
ratio = { id = "5f0c9d3e21b7a815", type = "double precision", operations = ["order"], order = "clww" }
day = { id = "5f0c9d3e21b7a817", type = "date", operations = ["order"], order = "clww" }
"#;

const CREATE: &str = "CREATE TABLE readings (id int PRIMARY KEY, level int, large bigint, price numeric(12,2), ratio double precision, day date)";

const ROWS: &str = "INSERT INTO readings VALUES \
    (1, -2147483648, -9223372036854775808, -9999999999.99, '-Infinity', '-infinity'), (2, -1, -1, -0.01, -1e300, '1999-12-31'), \
    (3, 0, 0, 0, -0.0, '2000-01-01'), (4, 1, 1, 0.01, 5e-324, '2000-01-02'), (5, 7, 7, 7.50, 7.5, '2020-02-29'), \
    (6, 7, 7, 7.5, 7.5, '2020-02-29'), (7, 2147483647, 9223372036854775807, 9999999999.99, 'NaN', 'infinity'), \
    (8, NULL, NULL, NULL, NULL, NULL)";

/// Columns, and constants that they are compared with.
const COMPARED: [(&str, &[&str]); 5] = [
    ("level", &["0", "7", "8", "3000000000", "-3000000000", "NULL"]),
    ("large", &["1", "9223372036854775807", "-42"]),
    ("price", &["7.50", "-0.01", "123456789012345678901", "-10000000000"]),
    ("ratio", &["0", "7.5", "'NaN'", "1e-10"]),
    ("day", &["'2000-01-01'", "'infinity'", "'2010-07-01'"]),
];

#[tokio::test]
async fn columns_compared_by_clww_answer_as_plain_ones_do() {
    let pair = Pair::start(SCHEMA, CREATE).await;
    pair.same(ROWS).await;
    let mut found = 0;
    for (column, constants) in COMPARED {
        for constant in constants {
            for operator in ["<", "<=", ">", ">=", "=", "<>", "IS DISTINCT FROM"] {
                found += pair
                    .same(&format!(
                        "SELECT id FROM readings WHERE {column} {operator} {constant} ORDER BY id"
                    ))
                    .await;
            }
            found +=
                pair.same(&format!("SELECT id FROM readings WHERE {constant} <= {column} ORDER BY id")).await;
            for between in ["BETWEEN", "NOT BETWEEN"] {
                let other = constants[1];
                pair.same(&format!(
                    "SELECT id FROM readings WHERE {column} {between} {constant} AND {other} ORDER BY id"
                ))
                .await;
                pair.same(&format!(
                    "SELECT id FROM readings WHERE NOT ({column} {between} NULL AND {other}) ORDER BY id"
                ))
                .await;
            }
        }
        for statement in [
            format!("SELECT min({column}), max({column}) AS most FROM readings"),
            format!("SELECT id % 2, max({column}) FILTER (WHERE id < 7) FROM readings GROUP BY 1 ORDER BY 1"),
            format!("SELECT min({column}) FROM readings WHERE id > 7"),
            format!("SELECT count(DISTINCT {column}) FROM readings"),
            format!(
                "SELECT id FROM readings WHERE {column} IN (SELECT {column} FROM readings WHERE id = 5) ORDER BY id"
            ),
            format!(
                "SELECT a.id, b.id FROM readings a JOIN readings b ON a.{column} < b.{column} ORDER BY 1, 2"
            ),
            format!(
                "SELECT a.id, b.id FROM readings a JOIN readings b ON a.{column} = b.{column} ORDER BY 1, 2"
            ),
            format!(
                "WITH w AS (SELECT id, {column} FROM readings) SELECT id FROM w WHERE {column} >= {} ORDER BY id",
                constants[0]
            ),
        ] {
            found += pair.same(&statement).await;
        }
        for set in [
            format!("SELECT count(*) FROM readings GROUP BY {column}"),
            format!("SELECT DISTINCT {column} FROM readings"),
        ] {
            let [mut one, mut other] = [rows(&pair.plain, &set).await, rows(&pair.encrypted, &set).await];
            one.sort();
            other.sort();
            assert_eq!(one, other, "{set}");
        }
    }
    assert!(found > 250, "{found} rows were compared");
}

#[tokio::test]
async fn rows_are_changed_by_comparisons_and_the_doctor_knows_ciphertexts_by_their_values() {
    let pair = Pair::start(SCHEMA, CREATE).await;
    pair.same(ROWS).await;
    pair.same("UPDATE readings SET level = level + 5 WHERE level BETWEEN -5 AND 100 RETURNING id, level")
        .await;
    pair.same("DELETE FROM readings WHERE level >= 2147483647 RETURNING id").await;
    let (well, said) = pair.proxy.doctor(&pair.server, "encrypted", true);
    assert!(well && said.contains("rows open and agree with their terms"), "{said}");
    let direct = pair.direct().await;
    direct
        .batch_execute("UPDATE readings a SET \"level$ord\" = b.\"level$ord\" FROM readings b WHERE a.id = 2 AND b.id = 4")
        .await
        .unwrap();
    let (well, said) = pair.proxy.doctor(&pair.server, "encrypted", true);
    assert!(
        !well && said.contains("readings.level") && said.contains("the term of order is not that"),
        "{said}"
    );
}

#[tokio::test]
async fn what_clww_does_not_sort_is_refused_with_column_place_and_fix() {
    let pair = Pair::start(SCHEMA, CREATE).await;
    pair.same(ROWS).await;
    for statement in [
        "SELECT id FROM readings ORDER BY level",
        "SELECT rank() OVER (ORDER BY level) FROM readings",
        "SELECT id FROM readings GROUP BY id HAVING max(level) > 3",
        "SELECT id FROM readings ORDER BY level LIMIT 1 FOR UPDATE",
    ] {
        let (code, said, place) = pair.refused(statement).await;
        assert_eq!(code, "0A000", "{said}");
        let at = u32::try_from(statement.find("level").unwrap() + 1).unwrap();
        assert_eq!(place, Some(at), "{statement}");
        assert!(said.contains("readings.level") && said.contains("order = \"mope\""), "{said}");
    }
    // A unique key needs equality; an index finds equal values alone.
    pair.same("CREATE INDEX ON readings (level)").await;
    let (code, said, _) = pair.refused("CREATE UNIQUE INDEX ON readings (level)").await;
    assert!(code == "0A000" && said.contains("\"equality\""), "{said}");
    let plan = pair
        .explained("SELECT id FROM readings WHERE \"level$ord\" = '\\x00000000000000000000000000000000'")
        .await;
    assert!(plan.contains("Index Scan"), "{plan}");
    let direct = pair.direct().await;
    let terms = "SELECT count(*) FROM pg_attribute a WHERE a.attrelid = 'readings'::regclass \
                 AND format_type(a.atttypid, a.atttypmod) = 'arras.clww'";
    assert_eq!(direct.query_one(terms, &[]).await.unwrap().get::<_, i64>(0), 5);
    let indexed =
        "SELECT count(*) FROM pg_indexes WHERE tablename = 'readings' AND indexname LIKE 'arras%order'";
    assert_eq!(
        direct.query_one(indexed, &[]).await.unwrap().get::<_, i64>(0),
        4,
        "not where there is an equality term"
    );
}
