//! Columns beside values of a finer type than theirs: an integer beside 1.5, a day beside an hour, a decimal beside more digits.

use crate::dev::Dev;
use crate::extended::connect;
use arras_lab::private_postgres::PrivatePostgres;
use tokio_postgres::Client;
use tokio_postgres::types::{ToSql, Type};

const ORDERS: [&str; 6] = ["mope", "stope", "fh_ope", "bclo", "clww", "lewi_wu"];
const COLUMNS: [(&str, &str, &[&str]); 5] = [
    (
        "small",
        "smallint",
        &["1.5", "-0.5", "2.0", "40000", "-1e9", "1e-3", "'NaN'::numeric", "1.5::float8", "2::real"],
    ),
    (
        "whole",
        "integer",
        &[
            "1.5",
            "-0.5",
            "2.0",
            "5000000000",
            "-99999999999999999999",
            "9223372036854775807.5",
            "2.000000000000001::float8",
        ],
    ),
    ("big", "bigint", &["1.5", "-7.25::numeric", "2.0", "9223372036854775807.0", "0.99999999999999999999"]),
    (
        "price",
        "numeric(6,2)",
        &[
            "1.505",
            "-0.001",
            "2.000",
            "10000000",
            "-1e40",
            "1e-12",
            "1.505::numeric(6,2)",
            "2.004::numeric(6,2)",
        ],
    ),
    (
        "day",
        "date",
        &["'2020-02-29 12:00'::timestamp", "timestamp '2020-02-29 00:00'", "'infinity'::timestamp"],
    ),
];
const OPERATORS: [&str; 6] = ["<", "<=", ">", ">=", "=", "<>"];
const ROWS: &str = "INSERT INTO t VALUES (1, 1, 1, 1, 1.50, '2020-02-28'), (2, 2, 2, 2, 2.00, '2020-02-29'), (3, -1, -1, -8, -0.01, '2020-03-01'), \
    (4, 0, 0, 9223372036854775807, 0.00, '-infinity'), (5, 1, 1, 1, 1.51, 'infinity'), (6, NULL, NULL, NULL, NULL, NULL), \
    (7, 32767, 2147483647, -9223372036854775808, 9999.99, '2020-02-29'), (8, -32768, -2147483648, 2, -9999.99, '2020-02-28')";

fn schema(order: &str) -> String {
    let column = |(place, (name, kind, _)): (usize, &(&str, &str, &[&str]))| {
        format!(
            "{name} = {{ id = \"8a1b2c3d4e5f6c{place:02}\", type = \"{kind}\", operations = [\"order\"], order = \"{order}\" }}\n"
        )
    };
    let columns: String = COLUMNS.iter().enumerate().map(column).collect();
    format!("[tables.\"public.t\"]\n{columns}")
}

async fn ids(
    client: &Client,
    condition: &str,
    parameters: &[(&(dyn ToSql + Sync), Type)],
) -> Result<Vec<i32>, String> {
    let rows =
        client.query_typed(&format!("SELECT id FROM t WHERE {condition} ORDER BY id"), parameters).await;
    let rows =
        rows.map_err(|error| error.code().map_or_else(|| error.to_string(), |code| code.code().to_owned()))?;
    Ok(rows.iter().map(|row| row.get(0)).collect())
}

fn conditions() -> Vec<String> {
    let mut list = Vec::new();
    for (column, _, constants) in COLUMNS {
        for constant in constants {
            list.extend(OPERATORS.iter().map(|operator| format!("{column} {operator} {constant}")));
            list.extend(OPERATORS.iter().map(|operator| format!("NOT {constant} {operator} {column}")));
            list.push(format!("{column} NOT BETWEEN {constant} AND {constant}"));
            list.push(format!("{column} IN ({constant}, {})", constants[0]));
            list.push(format!("{column} NOT IN ({constant})"));
        }
    }
    list
}

/// `bigint` is as wide as the keys that ciphertexts are made of: what is between two of its values, or beyond, has no key.
fn is_beyond_ciphertexts(order: &str, condition: &str, answer: &Result<Vec<i32>, String>) -> bool {
    let of_ciphertexts = matches!(order, "bclo" | "clww" | "lewi_wu");
    of_ciphertexts && condition.contains("big") && answer.as_ref().is_err_and(|code| code == "22003")
}

#[tokio::test]
async fn a_column_is_compared_with_values_between_its_own() {
    let server = PrivatePostgres::start().unwrap();
    let direct = connect(&server.uri("postgres")).await;
    direct.batch_execute("CREATE DATABASE plain").await.unwrap();
    let kinds: Vec<String> = COLUMNS.iter().map(|(name, kind, _)| format!("{name} {kind}")).collect();
    let create = format!("CREATE TABLE t (id int, {})", kinds.join(", "));
    let plain = connect(&server.uri("plain")).await;
    plain.batch_execute(&format!("{create}; {ROWS}")).await.unwrap();
    let (half, moment) =
        (1.5_f64, chrono::NaiveDate::from_ymd_opt(2020, 2, 29).unwrap().and_hms_opt(12, 0, 0).unwrap());
    let mut wrong = Vec::new();
    for order in ORDERS {
        direct.batch_execute(&format!("CREATE DATABASE {order}")).await.unwrap();
        let proxy = Dev::start(&server, order, &schema(order));
        let encrypted = connect(&proxy.uri(order)).await;
        encrypted.batch_execute(&format!("{create}; {ROWS}")).await.unwrap();
        for condition in conditions() {
            let (expected, found) =
                (ids(&plain, &condition, &[]).await, ids(&encrypted, &condition, &[]).await);
            if found != expected && !is_beyond_ciphertexts(order, &condition, &found) {
                wrong.push(format!("{order}: {condition}\n  is       {found:?}\n  expected {expected:?}"));
            }
        }
        for operator in OPERATORS {
            let bound: [(&str, (&(dyn ToSql + Sync), Type)); 3] = [
                ("small", (&half, Type::FLOAT8)),
                ("whole", (&half, Type::FLOAT8)),
                ("day", (&moment, Type::TIMESTAMP)),
            ];
            for (column, parameter) in bound {
                let condition = format!("{column} {operator} $1");
                let expected = ids(&plain, &condition, std::slice::from_ref(&parameter)).await;
                let found = ids(&encrypted, &condition, &[parameter]).await;
                if found != expected {
                    wrong
                        .push(format!("{order}: {condition}\n  is       {found:?}\n  expected {expected:?}"));
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{} are wrong:\n{}", wrong.len(), wrong.join("\n"));
}

/// What is rounded or cut when it is stored is found as what it is then.
#[tokio::test]
async fn what_is_stored_otherwise_than_it_was_sent_is_equal_to_what_is_stored() {
    const SCHEMA: &str = r#"
[tables."public.t"]
price = { id = "8a1b2c3d4e5f6d01", type = "numeric(6,2)", operations = ["equality", "unique"] }
code = { id = "8a1b2c3d4e5f6d02", type = "varchar(3)", operations = ["equality"] }
long = { id = "8a1b2c3d4e5f6d03", type = "numeric(60,2)", operations = ["equality"] }
"#;
    let server = PrivatePostgres::start().unwrap();
    let direct = connect(&server.uri("postgres")).await;
    direct.batch_execute("CREATE DATABASE plain").await.unwrap();
    let proxy = Dev::start(&server, "postgres", SCHEMA);
    let (plain, encrypted) = (connect(&server.uri("plain")).await, connect(&proxy.uri("postgres")).await);
    let create = "CREATE TABLE t (id int, price numeric(6,2) UNIQUE, code varchar(3), long numeric(60,2))";
    let write = [
        create,
        "INSERT INTO t VALUES (1, 1.005, 'abc   ', 1e40), (2, '2.004', 'x', -1e50)",
        "INSERT INTO t (id, price) SELECT * FROM unnest('{3,4}'::int[], '{3.005,4.1}'::numeric[])",
        "UPDATE t SET price = 5.555 WHERE id = 4",
        "INSERT INTO t (id, price) VALUES (5, 1.01)",
        "INSERT INTO t (id, price) VALUES (6, 5.5549)",
        "INSERT INTO t (id, code) VALUES (7, 'xyzw'::varchar(3))",
        "INSERT INTO t (id, code) SELECT * FROM unnest('{8}'::int[], '{uvwx}'::varchar(3)[])",
        "PREPARE p (int) AS UPDATE t SET long = $1 WHERE id = 6; EXECUTE p (9.4)",
    ];
    for text in write {
        let code =
            |done: Result<(), tokio_postgres::Error>| done.err().and_then(|error| error.code().cloned());
        let (expected, found) = (plain.batch_execute(text).await, encrypted.batch_execute(text).await);
        assert_eq!(code(found), code(expected), "{text}");
    }
    for condition in [
        "price = 1.01",
        "price = 1.005",
        "price = 2.00",
        "price IN (3.01, 5.56)",
        "price = ANY('{1.01,2.004,3.010}')",
        "price <> 5.555",
        "code = 'abc'",
        "code = 'abc   '",
        "long = 1e40 OR long = '-100000000000000000000000000000000000000000000000000.00'",
        "long <> 1e40",
        // What is cast to the column's own type is rounded and cut as well.
        "price = 2.004::numeric(6,2)",
        "price = CAST(2.004 AS numeric(6,2))",
        "price IN (2.004::numeric(6,2), 5.5549::decimal(6,2))",
        "price = ANY('{2.004}'::numeric(6,2)[])",
        "price <> 2.004::numeric(6,2)",
        "code = 'abcd'::varchar(3)",
        "code = ANY('{abcd,xy}'::varchar(3)[])",
        "code = 'xy'::varchar(3)",
        "code = 'xyz'",
        "long = 9",
        "code = 'uvw'",
    ] {
        assert_eq!(ids(&encrypted, condition, &[]).await, ids(&plain, condition, &[]).await, "{condition}");
    }
    let (well, said) = proxy.doctor(&server, "postgres", true);
    assert!(well, "{said}");
}
