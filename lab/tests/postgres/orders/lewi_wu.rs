//! `order = "lewi_wu"`.

use super::Pair;

const SCHEMA: &str = r#"
[tables."public.readings"]
level = { id = "5f0c9d3e21b7a822", type = "integer", operations = ["order", "sum"], order = "lewi_wu" }
large = { id = "5f0c9d3e21b7a823", type = "bigint", operations = ["equality", "order"], order = "lewi_wu" }
price = { id = "5f0c9d3e21b7a824", type = "numeric(12,2)", operations = ["order"], order = "lewi_wu" }
day = { id = "5f0c9d3e21b7a827", type = "date", operations = ["order"], order = "lewi_wu" }
"#;

const CREATE: &str =
    "CREATE TABLE readings (id int PRIMARY KEY, level int, large bigint, price numeric(12,2), day date)";

const ROWS: &str = "INSERT INTO readings VALUES \
    (1, -2147483648, -9223372036854775808, -9999999999.99, '-infinity'), (2, -1, -1, -0.01, '1999-12-31'), \
    (3, 0, 0, 0, '2000-01-01'), (4, 1, 1, 0.01, '2000-01-02'), (5, 7, 7, 7.50, '2020-02-29'), (6, 7, 7, 7.5, '2020-02-29'), \
    (7, 2147483647, 9223372036854775807, 9999999999.99, 'infinity'), (8, NULL, NULL, NULL, NULL)";

/// Columns, and constants that they are compared with.
const COMPARED: [(&str, &[&str]); 4] = [
    ("level", &["0", "7", "8", "3000000000", "NULL"]),
    ("large", &["1", "9223372036854775807", "-42"]),
    ("price", &["7.50", "-0.01", "123456789012345678901"]),
    ("day", &["'2000-01-01'", "'infinity'", "'2010-07-01'"]),
];

#[tokio::test]
async fn columns_compared_by_lewi_wu_answer_as_plain_ones_do() {
    let pair = Pair::start(SCHEMA, CREATE).await;
    pair.same(ROWS).await;
    let mut found = 0;
    for (column, constants) in COMPARED {
        for constant in constants {
            for operator in ["<", "<=", ">", ">=", "=", "<>"] {
                found += pair
                    .same(&format!(
                        "SELECT id FROM readings WHERE {column} {operator} {constant} ORDER BY id"
                    ))
                    .await;
            }
            found +=
                pair.same(&format!("SELECT id FROM readings WHERE {constant} < {column} ORDER BY id")).await;
            for between in ["BETWEEN", "NOT BETWEEN"] {
                pair.same(&format!(
                    "SELECT id FROM readings WHERE {column} {between} {constant} AND {} ORDER BY id",
                    constants[1]
                ))
                .await;
            }
        }
    }
    assert!(found > 250, "{found} rows were compared");
    for statement in [
        "UPDATE readings SET level = level + 5 WHERE level BETWEEN -5 AND 100 RETURNING id, level",
        "INSERT INTO readings (id, level) VALUES (1, 5) ON CONFLICT (id) DO UPDATE SET level = EXCLUDED.level",
        "INSERT INTO readings (id, level, day) SELECT * FROM unnest('{900,901}'::int[], '{4,NULL}'::int[], \
         '{2000-01-01,2001-01-01}'::date[])",
        "INSERT INTO readings (id, level) SELECT id + 50, level FROM readings WHERE level > 3 ORDER BY id",
        "UPDATE readings SET level = CASE WHEN id < 4 THEN level ELSE NULL END WHERE id IN (3, 4)",
        "DELETE FROM readings WHERE level >= 2000000000 RETURNING id",
        "SELECT large, count(*) FROM readings WHERE large > 0 GROUP BY large HAVING count(*) > 1",
        "SELECT large, count(*) FROM readings GROUP BY large HAVING large > 0 AND count(*) FILTER (WHERE large < 1000) > 1",
        "SELECT sum(level) FROM readings WHERE level < 100",
        "SELECT id, level, large, price, day FROM readings ORDER BY id",
    ] {
        pair.same(statement).await;
    }
    for client in [&pair.plain, &pair.encrypted] {
        let select = client
            .prepare("SELECT id FROM readings WHERE level > $1 AND large BETWEEN $2 AND $3")
            .await
            .unwrap();
        let rows = client.query(&select, &[&6, &0_i64, &8_i64]).await.unwrap();
        assert_eq!(rows.len(), 2);
    }
    let (well, said) = pair.proxy.doctor(&pair.server, "encrypted", true);
    assert!(well && said.contains("rows open and agree with their terms"), "{said}");
    let direct = pair.direct().await;
    direct
        .batch_execute("UPDATE readings a SET \"level$ord\" = b.\"level$ord\" FROM readings b WHERE a.id = 2 AND b.id = 1")
        .await
        .unwrap();
    let (well, said) = pair.proxy.doctor(&pair.server, "encrypted", true);
    assert!(
        !well && said.contains("readings.level") && said.contains("the term of order is not that"),
        "{said}"
    );
}

#[tokio::test]
async fn stored_ciphertexts_of_lewi_wu_are_all_different_and_have_no_index() {
    let pair = Pair::start(SCHEMA, CREATE).await;
    pair.same("INSERT INTO readings (id, level) SELECT id, level FROM (VALUES (1, 7), (2, 7), (3, 7)) AS v (id, level)").await;
    let direct = pair.direct().await;
    let count = |text: &'static str| {
        let direct = &direct;
        async move { direct.query_one(text, &[]).await.unwrap().get::<_, i64>(0) }
    };
    assert_eq!(count("SELECT count(DISTINCT \"level$ord\") FROM readings").await, 3);
    assert_eq!(count("SELECT count(*) FROM readings WHERE octet_length(\"level$ord\") = 80").await, 3);
    assert_eq!(
        count(
            "SELECT count(*) FROM pg_indexes WHERE tablename = 'readings' AND indexname LIKE 'arras%order'"
        )
        .await,
        0
    );
    for (statement, part) in [
        ("SELECT id FROM readings ORDER BY level", "order = \"mope\""),
        ("SELECT max(level) FROM readings", "order = \"mope\""),
        ("SELECT count(*) FROM readings GROUP BY level", "\"equality\""),
    ] {
        let (code, said, place) = pair.refused(statement).await;
        assert!(
            code == "0A000" && said.contains("readings.level") && said.contains(part),
            "{statement}: {said}"
        );
        assert_eq!(place, Some(u32::try_from(statement.find("level").unwrap() + 1).unwrap()), "{statement}");
    }
    pair.same("SELECT id FROM readings WHERE level IN (1, 7) AND level NOT IN (2, 8) ORDER BY id").await;
    // A ciphertext of another width is an error, not an answer.
    let wrong = "SELECT arras.lewi_wu_compare(\"level$ord\", '\\x00') FROM readings";
    assert!(direct.simple_query(wrong).await.is_err());
}
