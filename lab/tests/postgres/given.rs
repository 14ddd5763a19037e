//! What a value is when it comes to a column: cast as it is written, then of its parameter's type, then of the column's. `EXECUTE`,
//! what is computed, lists, defaults.

use crate::dev::Dev;
use crate::extended::connect;
use arras_lab::private_postgres::PrivatePostgres;
use bytes::BytesMut;
use std::error::Error;
use tokio_postgres::types::{Format, IsNull, ToSql, Type, to_sql_checked};
use tokio_postgres::{Client, SimpleQueryMessage};

const ORDERS: [&str; 7] = ["", "mope", "stope", "fh_ope", "bclo", "clww", "lewi_wu"];
const COLUMNS: [(&str, &str, &str); 7] = [
    ("whole", "integer", ""),
    ("price", "numeric(6,2)", ""),
    ("code", "varchar(3)", ", max_bytes = 6"),
    ("ts", "timestamp", ""),
    ("dbl", "double precision", ""),
    ("owner", "text", ", max_bytes = 6"),
    ("day", "date", ""),
];
const ROWS: &str = "INSERT INTO t VALUES (1, 1, 5.55, 'abc', '2024-01-01 00:00', 0.1, 'Ann', '2024-01-01'), \
    (2, 2, 5.56, 'xyz', '2024-01-01 10:00', 0.10000000149011612, '7', '2024-01-02'), (3, 3, 6.00, 'ab', '2024-01-02 00:00', 2, '007', 'infinity'), \
    (4, NULL, NULL, NULL, NULL, NULL, NULL, NULL), (5, 2147483647, 0.40, '', '2023-12-31 23:59', 2.5, '', '2023-12-31')";

/// Statements of one transaction each, which is rolled back.
const CASES: &[&[&str]] = &[
    // What EXECUTE gives is cast, and of the type that was declared.
    &["PREPARE p AS SELECT id FROM t WHERE price = $1 ORDER BY id", "EXECUTE p (5.555::numeric(6,2))"],
    &["PREPARE p AS SELECT id FROM t WHERE price = $1 ORDER BY id", "EXECUTE p (5.555)"],
    &[
        "PREPARE p AS SELECT id FROM t WHERE price = $1 ORDER BY id",
        "EXECUTE p ('5.560'::numeric(6,2)::numeric)",
    ],
    &["PREPARE p AS SELECT id FROM t WHERE price = $1 ORDER BY id", "EXECUTE p (-(-5.56::numeric(6,2)))"],
    &[
        "PREPARE p (numeric) AS SELECT id FROM t WHERE price = $1 ORDER BY id",
        "EXECUTE p (5.555::numeric(6,2))",
    ],
    &["PREPARE p (numeric(6,2)) AS SELECT id FROM t WHERE price = $1 ORDER BY id", "EXECUTE p (5.555)"],
    &[
        "PREPARE p AS SELECT id FROM t WHERE price IN ($1, $2) ORDER BY id",
        "EXECUTE p (5.555::numeric(6,2), 6.001::numeric(6,1))",
    ],
    &["PREPARE p AS SELECT id FROM t WHERE price > $1 ORDER BY id", "EXECUTE p (5.555)"],
    &["PREPARE p AS SELECT id FROM t WHERE price >= $1::numeric(6,2) ORDER BY id", "EXECUTE p (5.555)"],
    &[
        "PREPARE p (float8) AS SELECT id FROM t WHERE price = $1::numeric(6,2) ORDER BY id",
        "EXECUTE p ('5.555')",
    ],
    &["PREPARE p AS SELECT id FROM t WHERE code = $1 ORDER BY id", "EXECUTE p ('xyzw'::varchar(3))"],
    &["PREPARE p AS SELECT id FROM t WHERE code = $1 ORDER BY id", "EXECUTE p ('xyzw')"],
    &["PREPARE p AS SELECT id FROM t WHERE code = $1::varchar(3) ORDER BY id", "EXECUTE p ('xyzw')"],
    &[
        "PREPARE p AS INSERT INTO t (id, code) VALUES (10, $1)",
        "EXECUTE p ('xyzw'::varchar(3))",
        "SELECT code FROM t WHERE id = 10",
    ],
    &["PREPARE p AS INSERT INTO t (id, code) VALUES (10, $1)", "EXECUTE p ('xyzw')"],
    &["PREPARE p (date) AS SELECT id FROM t WHERE ts = $1 ORDER BY id", "EXECUTE p ('2024-01-01 10:00:00')"],
    &["PREPARE p (date) AS SELECT id FROM t WHERE ts >= $1 ORDER BY id", "EXECUTE p ('2024-01-01 10:00:00')"],
    &[
        "PREPARE p (date) AS SELECT id FROM t WHERE ts < $1 ORDER BY id",
        "EXECUTE p ('2024-01-01 10:00:00'::timestamp)",
    ],
    &[
        "PREPARE p (date) AS INSERT INTO t (id, ts) VALUES (10, $1)",
        "EXECUTE p ('2024-01-01 10:00:00')",
        "SELECT ts FROM t WHERE id = 10",
    ],
    &[
        "PREPARE p (timestamp) AS SELECT id FROM t WHERE day < $1 ORDER BY id",
        "EXECUTE p ('2024-01-01 10:00:00')",
    ],
    &["PREPARE p (timestamp) AS SELECT id FROM t WHERE day = $1 ORDER BY id", "EXECUTE p ('2024-01-01')"],
    &[
        "PREPARE p (timestamp) AS INSERT INTO t (id, day) VALUES (10, $1)",
        "EXECUTE p ('2024-01-01 10:00:00')",
        "SELECT day FROM t WHERE id = 10",
    ],
    &["PREPARE p (real) AS SELECT id FROM t WHERE dbl = $1 ORDER BY id", "EXECUTE p (0.1)"],
    &["PREPARE p (real) AS SELECT id FROM t WHERE dbl > $1 ORDER BY id", "EXECUTE p ('0.1')"],
    &["PREPARE p (real) AS SELECT id FROM t WHERE price = $1 ORDER BY id", "EXECUTE p (5.56)"],
    &["PREPARE p (real) AS SELECT id FROM t WHERE price = $1 ORDER BY id", "EXECUTE p (6)"],
    &["PREPARE p (real) AS SELECT id FROM t WHERE price >= $1 ORDER BY id", "EXECUTE p (5.56)"],
    &["PREPARE p (real) AS SELECT id FROM t WHERE price > $1 ORDER BY id", "EXECUTE p (5.55)"],
    &["PREPARE p (float8) AS SELECT id FROM t WHERE price = $1 ORDER BY id", "EXECUTE p (5.56)"],
    &["PREPARE p (float8) AS SELECT id FROM t WHERE price > $1 ORDER BY id", "EXECUTE p (5.56)"],
    &[
        "PREPARE p (float8) AS SELECT id FROM t WHERE price >= $1 ORDER BY id",
        "EXECUTE p (5.5600000000000005)",
    ],
    &["PREPARE p (float8) AS SELECT id FROM t WHERE price <= $1 ORDER BY id", "EXECUTE p ('1e300')"],
    &[
        "PREPARE p (real) AS UPDATE t SET dbl = $1 WHERE id = 1",
        "EXECUTE p (0.1)",
        "SELECT dbl FROM t WHERE id = 1",
    ],
    &[
        "PREPARE p (real) AS INSERT INTO t (id, price) VALUES (10, $1)",
        "EXECUTE p (5.555)",
        "SELECT price FROM t WHERE id = 10",
    ],
    &["PREPARE p (int) AS SELECT id FROM t WHERE price = $1 ORDER BY id", "EXECUTE p ('5.56')"],
    &["PREPARE p (int) AS SELECT id FROM t WHERE price = $1 ORDER BY id", "EXECUTE p (5.56)"],
    &["PREPARE p (int) AS UPDATE t SET price = $1 WHERE id = 1", "EXECUTE p ('2.6')"],
    &[
        "PREPARE p (int) AS INSERT INTO t (id, price) VALUES (10, $1)",
        "EXECUTE p (2.6)",
        "SELECT price FROM t WHERE id = 10",
    ],
    &[
        "PREPARE p (int) AS INSERT INTO t (id, owner) VALUES (10, $1)",
        "EXECUTE p ('007')",
        "SELECT owner FROM t WHERE id = 10",
    ],
    &[
        "PREPARE p (numeric) AS INSERT INTO t (id, owner) VALUES (10, $1)",
        "EXECUTE p ('1.50'::numeric(6,1))",
        "SELECT owner FROM t WHERE id = 10",
    ],
    &[
        "PREPARE p (boolean) AS INSERT INTO t (id, owner) VALUES (10, $1)",
        "EXECUTE p (true)",
        "SELECT owner FROM t WHERE id = 10",
    ],
    &["PREPARE p AS SELECT id FROM t WHERE owner = $1 ORDER BY id", "EXECUTE p (7)"],
    &["PREPARE p AS SELECT id FROM t WHERE owner = $1 ORDER BY id", "EXECUTE p ('007'::int)"],
    &[
        "PREPARE p AS INSERT INTO t (id, owner) VALUES (10, $1)",
        "EXECUTE p (1.50)",
        "SELECT owner FROM t WHERE id = 10",
    ],
    &["PREPARE p (smallint) AS SELECT id FROM t WHERE whole = $1 ORDER BY id", "EXECUTE p ('70000')"],
    &["PREPARE p (smallint) AS SELECT id FROM t WHERE whole = $1 ORDER BY id", "EXECUTE p (70000)"],
    &["PREPARE p (int) AS SELECT id FROM t WHERE whole = $1 ORDER BY id", "EXECUTE p (5000000000)"],
    &["PREPARE p (int) AS SELECT id FROM t WHERE whole = $1 ORDER BY id", "EXECUTE p ('5000000000')"],
    &["PREPARE p (bigint) AS SELECT id FROM t WHERE whole < $1 ORDER BY id", "EXECUTE p (5000000000)"],
    &["PREPARE p (bigint) AS INSERT INTO t (id, whole) VALUES (10, $1)", "EXECUTE p (5000000000)"],
    &["PREPARE p (numeric) AS SELECT id FROM t WHERE whole < $1 ORDER BY id", "EXECUTE p ('2.6')"],
    &[
        "PREPARE p (numeric) AS INSERT INTO t (id, whole) VALUES (10, $1)",
        "EXECUTE p ('2.6')",
        "SELECT whole FROM t WHERE id = 10",
    ],
    &[
        "PREPARE p (numeric) AS UPDATE t SET whole = $1 WHERE id = 1",
        "EXECUTE p ('2.6')",
        "SELECT whole FROM t WHERE id = 1",
    ],
    &[
        "PREPARE p (float8) AS UPDATE t SET whole = $1 WHERE id = 1",
        "EXECUTE p (2.5)",
        "SELECT whole FROM t WHERE id = 1",
    ],
    &[
        "PREPARE p (float8) AS INSERT INTO t (id, whole) VALUES (10, $1)",
        "EXECUTE p ('3.5')",
        "SELECT whole FROM t WHERE id = 10",
    ],
    &["PREPARE p (int) AS SELECT id FROM t WHERE dbl = $1 ORDER BY id", "EXECUTE p (2.5::float8)"],
    &["PREPARE p (numeric) AS SELECT id FROM t WHERE dbl = $1 ORDER BY id", "EXECUTE p (0.1)"],
    &["PREPARE p AS SELECT id FROM t WHERE whole = $1 ORDER BY id", "EXECUTE p (2.5)"],
    &["PREPARE p AS SELECT id FROM t WHERE whole = $1 ORDER BY id", "EXECUTE p ('2'::smallint)"],
    &[
        "PREPARE p AS SELECT id FROM t WHERE whole = $1 ORDER BY id",
        "EXECUTE p (NULL)",
        "EXECUTE p (NULL::int)",
    ],
    &["PREPARE p AS SELECT id FROM t WHERE whole = $1 OR price = $1 ORDER BY id", "EXECUTE p (5.56)"],
    &["PREPARE p (int) AS SELECT id FROM t WHERE whole = $1 ORDER BY id", "EXECUTE p (true)"],
    &["PREPARE p (int) AS SELECT id FROM t WHERE whole = $1 ORDER BY id", "EXECUTE p ('2'::text)"],
    &["PREPARE p (date) AS SELECT id FROM t WHERE day = $1 ORDER BY id", "EXECUTE p (5)"],
    // Constants.
    &["SELECT id FROM t WHERE whole = 2.5::int"],
    &["SELECT id FROM t WHERE whole = 2.5::float8::int"],
    &["SELECT id FROM t WHERE whole = -2.5::int OR whole = -(-1.5::int)"],
    &["SELECT id FROM t WHERE whole = 5000000000::int"],
    &["SELECT id FROM t WHERE whole < 70000::smallint"],
    &["SELECT id FROM t WHERE whole < '5000000000'::bigint ORDER BY id"],
    &["SELECT id FROM t WHERE price = 5.6::int"],
    &["SELECT id FROM t WHERE price = '5.6'::int"],
    &[
        "INSERT INTO t (id, whole) VALUES (10, 2.5::int), (11, '1e1'::numeric::int), (12, 0.5::float8::int) RETURNING whole",
    ],
    &["INSERT INTO t (id, whole) VALUES (10, '2.5'::int)"],
    &["INSERT INTO t (id, dbl) VALUES (10, -0::float8), (11, '-0'::float8), (12, -0.0) RETURNING dbl"],
    &["UPDATE t SET whole = 2.5::int WHERE id = 1 RETURNING whole"],
    &["SELECT id FROM t WHERE code = 'xyzw'::varchar(3)::text"],
    &[
        "SELECT id FROM t WHERE code = 'xyzw'::varchar(3)::varchar(2)",
        "SELECT id FROM t WHERE code = 'abc'::varchar(2)",
    ],
    &["SELECT id FROM t WHERE code IN ('abc'::varchar(2), 'xyzw'::text::varchar(3)) ORDER BY id"],
    &["SELECT id FROM t WHERE code = 'abcd'::varchar(4)"],
    &[
        "SELECT id FROM t WHERE price = 5.555::numeric(6,2)::numeric",
        "SELECT id FROM t WHERE price = 5.96::numeric(6,1)",
    ],
    &[
        "SELECT id FROM t WHERE price > 5.5549::numeric(6,3) ORDER BY id",
        "SELECT id FROM t WHERE price = 12345::numeric(3,1)",
    ],
    &["SELECT id FROM t WHERE price BETWEEN 5.46::numeric(6,1) AND 5.555::numeric(9,2) ORDER BY id"],
    &[
        "INSERT INTO t (id, price, code) VALUES (10, 5.96::numeric(6,1), 'abc'::varchar(2)) RETURNING price, code",
    ],
    &["INSERT INTO t (id, price, code) VALUES (10, 5.5555::numeric(6,3), 'abcd'::varchar(5))"],
    &[
        "UPDATE t SET price = 5.5549::numeric(6,3), owner = 'abcd'::varchar(3) WHERE id = 1 RETURNING price, owner",
    ],
    &[
        "SELECT id FROM t WHERE owner = 'Annie'::varchar(3)",
        "SELECT id FROM t WHERE owner = 'Annie'::varchar(3)::varchar",
    ],
    &["SELECT id FROM t WHERE day = '2024-01-01 10:00' OR day = '2024-01-02 24:00:00+05' ORDER BY id"],
    &["INSERT INTO t (id, owner) VALUES (10, 2.50::numeric(6,1)::text), (11, true::text) RETURNING owner"],
    // What is computed.
    &["UPDATE t SET price = price * 1.005::numeric(6,2) WHERE id = 1 RETURNING price"],
    &["UPDATE t SET price = 100 * 0.004::numeric(6,2) WHERE id = 1 RETURNING price"],
    &["UPDATE t SET price = price + 0.004::numeric(6,2) + 0.004::numeric(6,2) WHERE id = 1 RETURNING price"],
    &["UPDATE t SET price = price + 2.5::int WHERE id = 1 RETURNING price"],
    &["UPDATE t SET price = price * '2.5'::int WHERE id = 1"],
    &["UPDATE t SET price = price - -2.5::numeric(6,0) WHERE id = 1 RETURNING price"],
    &["UPDATE t SET dbl = dbl + 0.1::real WHERE id = 1 RETURNING dbl"],
    &["UPDATE t SET dbl = dbl + '0.1'::real::float8 WHERE id = 1 RETURNING dbl"],
    &["UPDATE t SET whole = whole + 0.5::float8::int WHERE id = 1 RETURNING whole"],
    &["UPDATE t SET whole = whole * 2.5::float8 WHERE id = 1 RETURNING whole"],
    &["UPDATE t SET code = '' || 'abcd'::varchar(3) WHERE id = 1 RETURNING code"],
    &["UPDATE t SET owner = owner || 'abcd'::varchar(3)::text WHERE id = 1 RETURNING owner"],
    &["UPDATE t SET owner = owner || 1.55::numeric(6,1) WHERE id = 5 RETURNING owner"],
    &["UPDATE t SET price = coalesce(price, 0.004::numeric(6,2)) + 1 WHERE id = 4 RETURNING price"],
    // An inner cast says first what it cannot do.
    &["INSERT INTO t (id, owner) VALUES (10, '5'::integer::text) RETURNING owner"],
    &["INSERT INTO t (id, price) VALUES (10, 'abc'::integer::numeric)"],
    &["INSERT INTO t (id, price) VALUES (10, '1e10'::numeric(6,2)::numeric)"],
    &["INSERT INTO t (id, whole) VALUES (10, 99999::smallint::integer)"],
    &["PREPARE p AS INSERT INTO t (id, whole) VALUES (10, $1)", "EXECUTE p (70000::smallint::integer)"],
    &["PREPARE p (real) AS INSERT INTO t (id, dbl) VALUES (10, $1)", "EXECUTE p ('1e400')"],
    &["PREPARE p (date) AS INSERT INTO t (id, ts) VALUES (10, $1)", "EXECUTE p ('294277-01-02')"],
    &[
        "PREPARE p (timestamptz) AS SELECT id FROM t WHERE day < $1 ORDER BY id",
        "EXECUTE p ('2024-01-01 10:00+00')",
    ],
    // Lists and defaults.
    &[
        "INSERT INTO t (id, code) SELECT v.id, v.c::varchar(3) FROM (VALUES (10, 'xyzw')) v(id, c)",
        "SELECT code FROM t WHERE id = 10",
    ],
    &[
        "INSERT INTO t (id, code) SELECT v.id, v.c::varchar(2) FROM (VALUES (10, 'xyzw'::varchar(3))) v(id, c)",
        "SELECT code FROM t WHERE id = 10",
    ],
    &[
        "INSERT INTO t (id, price) SELECT v.id, CAST(v.c AS numeric(6,1)) FROM (VALUES (10, '5.96'), (11, NULL)) v(id, c)",
        "SELECT price FROM t WHERE id = 10",
    ],
    &[
        "INSERT INTO t (id, whole) SELECT v.id, v.c::int FROM (VALUES (10, 2.5)) v(id, c)",
        "SELECT whole FROM t WHERE id = 10",
    ],
    &["INSERT INTO t (id, whole) SELECT v.id, v.c::int FROM (VALUES (10, '2.5')) v(id, c)"],
    &[
        "INSERT INTO t (id, code) SELECT a, b::varchar(3) FROM unnest('{10,11}'::int[], '{xyzw,NULL}'::text[]) u(a, b)",
        "SELECT code FROM t WHERE id > 9 ORDER BY id",
    ],
    &[
        "INSERT INTO t (id, price) SELECT a, b::numeric(6,1) FROM unnest('{10}'::int[], '{5.96}'::numeric(6,3)[]) u(a, b)",
        "SELECT price FROM t WHERE id = 10",
    ],
    &[
        "ALTER TABLE t ALTER code SET DEFAULT 'wxyz'::varchar(3); INSERT INTO t (id) VALUES (10)",
        "SELECT code FROM t WHERE id = 10",
    ],
    &[
        "ALTER TABLE t ALTER code SET DEFAULT 'wxyz'::varchar(3)",
        "INSERT INTO t (id) VALUES (10)",
        "SELECT code FROM t WHERE id = 10",
    ],
    &[
        "ALTER TABLE t ALTER price SET DEFAULT 5.96::numeric(6,1); INSERT INTO t (id) VALUES (10)",
        "SELECT price FROM t WHERE id = 10",
    ],
    &[
        "ALTER TABLE t ALTER whole SET DEFAULT 2.5::int; INSERT INTO t (id) VALUES (10)",
        "SELECT whole FROM t WHERE id = 10",
    ],
];

/// Statements and what is bound to their parameter as text, whose type is left open or is a type's; rolled back.
const BOUND: &[(&str, Type, &str)] = &[
    ("SELECT id FROM t WHERE price = $1::numeric(6,2)", Type::UNKNOWN, "5.555"),
    ("SELECT id FROM t WHERE price = $1::numeric(6,1)", Type::UNKNOWN, "5.96"),
    ("SELECT id FROM t WHERE price = $1::numeric(6,2)", Type::FLOAT8, "5.555"),
    ("SELECT id FROM t WHERE price = $1::numeric(6,2)", Type::TEXT, "5.555"),
    ("SELECT id FROM t WHERE price = $1::int", Type::UNKNOWN, "5.56"),
    ("SELECT id FROM t WHERE price = $1::int", Type::NUMERIC, "5.56"),
    ("SELECT id FROM t WHERE whole = $1::int", Type::NUMERIC, "2.5"),
    ("SELECT id FROM t WHERE whole = $1::int", Type::FLOAT8, "2.5"),
    ("SELECT id FROM t WHERE code = $1::varchar(3)::text", Type::UNKNOWN, "xyzw"),
    ("SELECT id FROM t WHERE code = $1::varchar(2)", Type::UNKNOWN, "abc"),
    ("SELECT id FROM t WHERE dbl = $1", Type::FLOAT4, "0.1"),
    ("SELECT id FROM t WHERE price = $1", Type::FLOAT4, "5.56"),
    ("SELECT id FROM t WHERE price = $1", Type::FLOAT8, "5.56"),
    ("SELECT id FROM t WHERE ts = $1", Type::DATE, "2024-01-01 10:00"),
    ("SELECT id FROM t WHERE price = $1", Type::INT4, "5.56"),
    ("SELECT id FROM t WHERE day = $1", Type::TIMESTAMPTZ, "2024-01-01 10:00:00+00"),
    ("SELECT id FROM t WHERE day < $1 ORDER BY id", Type::TIMESTAMPTZ, "2024-01-01 10:00:00+00"),
    ("SELECT id FROM t WHERE day >= $1 ORDER BY id", Type::TIMESTAMPTZ, "2024-01-01 10:00:00"),
    ("SELECT id FROM t WHERE day = $1", Type::TIMESTAMPTZ, "2024-01-01 02:00:00+02"),
    ("INSERT INTO t (id, day) VALUES (10, $1) RETURNING day", Type::TIMESTAMPTZ, "2024-01-01"),
    ("INSERT INTO t (id, day) VALUES (10, $1)", Type::INT4, "5"),
    ("INSERT INTO t (id, dbl) VALUES (10, $1) RETURNING dbl", Type::FLOAT4, "0.1"),
    ("INSERT INTO t (id, ts) VALUES (10, $1) RETURNING ts", Type::DATE, "2024-01-01 10:00"),
    ("INSERT INTO t (id, whole) VALUES (10, $1) RETURNING whole", Type::NUMERIC, "2.5"),
    ("INSERT INTO t (id, whole) VALUES (10, $1) RETURNING whole", Type::FLOAT8, "2.5"),
    ("INSERT INTO t (id, owner) VALUES (10, $1) RETURNING owner", Type::INT4, "007"),
    ("INSERT INTO t (id, code) VALUES (10, $1::varchar(3)) RETURNING code", Type::UNKNOWN, "xyzw"),
    (
        "INSERT INTO t (id, code) SELECT v.id, v.c::varchar(3) FROM (VALUES (10, $1)) v(id, c) RETURNING code",
        Type::UNKNOWN,
        "xyzw",
    ),
    (
        "INSERT INTO t (id, price) SELECT v.id, v.c::numeric(6,1) FROM (VALUES (10, $1)) v(id, c) RETURNING price",
        Type::UNKNOWN,
        "5.96",
    ),
    (
        "INSERT INTO t (id, code) SELECT 10, b::varchar(3) FROM unnest($1::text[]) b RETURNING code",
        Type::UNKNOWN,
        "{xyzw}",
    ),
    (
        "INSERT INTO t (id, price) SELECT 10, b::numeric(6,1) FROM unnest($1::numeric[]) b RETURNING price",
        Type::UNKNOWN,
        "{5.96}",
    ),
    ("SELECT id FROM t WHERE price = ANY($1::numeric(6,1)[])", Type::UNKNOWN, "{5.96}"),
    ("UPDATE t SET price = price * $1::numeric(6,2) WHERE id = 1 RETURNING price", Type::UNKNOWN, "1.005"),
    ("UPDATE t SET price = price * $1::int WHERE id = 1 RETURNING price", Type::UNKNOWN, "2.5"),
    ("UPDATE t SET price = price * $1::int WHERE id = 1 RETURNING price", Type::NUMERIC, "2.5"),
    ("UPDATE t SET dbl = dbl + $1::real WHERE id = 1 RETURNING dbl", Type::UNKNOWN, "0.1"),
    ("UPDATE t SET dbl = dbl + $1 WHERE id = 1 RETURNING dbl", Type::FLOAT4, "0.1"),
    ("UPDATE t SET whole = whole * $1 WHERE id = 2 RETURNING whole", Type::NUMERIC, "1.25"),
    ("UPDATE t SET whole = whole * $1 WHERE id = 2 RETURNING whole", Type::FLOAT8, "1.25"),
    ("UPDATE t SET code = '' || $1::varchar(3) WHERE id = 1 RETURNING code", Type::UNKNOWN, "abcd"),
];

fn schema(order: &str) -> String {
    let operations = if order.is_empty() {
        "operations = [\"equality\"]".to_owned()
    } else {
        format!("operations = [\"order\"], order = \"{order}\"")
    };
    let column = |(place, (name, kind, more)): (usize, &(&str, &str, &str))| {
        format!("{name} = {{ id = \"8a1b2c3d4e5f6e{place:02}\", type = \"{kind}\", {operations}{more} }}\n")
    };
    let columns: String = COLUMNS.iter().enumerate().map(column).collect();
    format!("[tables.\"public.t\"]\n{columns}")
}

/// What an order does not do in any case: tell apart what is no number of its keys, prepare what is written row by row, look into an
/// array, or compare by order what has equality alone.
fn is_declined(order: &str, text: &str) -> bool {
    let by_order = [" < ", " <= ", " > ", " >= ", "BETWEEN"].iter().any(|operator| text.contains(operator));
    match order {
        "" => text.contains("WHERE") && by_order && !text.contains("INSERT"),
        "fh_ope" => text.contains("AS UPDATE") || text.contains("ANY("),
        _ => text.contains("ANY("),
    }
}

async fn answered(client: &Client, texts: &[&str]) -> Vec<String> {
    let mut found = Vec::new();
    client.batch_execute("BEGIN").await.unwrap();
    for text in texts {
        match client.simple_query(text).await {
            Err(error) => {
                found.push(error.code().map_or_else(|| error.to_string(), |code| code.code().to_owned()));
                break;
            }
            Ok(messages) => found.extend(messages.iter().filter_map(|message| match message {
                SimpleQueryMessage::Row(row) => {
                    let value = |place| row.get(place).unwrap_or("NULL");
                    Some((0..row.len()).map(value).collect::<Vec<_>>().join("|"))
                }
                _ => None,
            })),
        }
    }
    client.batch_execute("ROLLBACK; DEALLOCATE ALL").await.unwrap();
    found
}

/// A value in its text format, of whatever type.
#[derive(Debug)]
struct Written<'a>(&'a str);

impl ToSql for Written<'_> {
    fn to_sql(&self, _: &Type, out: &mut BytesMut) -> Result<IsNull, Box<dyn Error + Sync + Send>> {
        out.extend_from_slice(self.0.as_bytes());
        Ok(IsNull::No)
    }

    fn accepts(_: &Type) -> bool {
        true
    }

    fn encode_format(&self, _: &Type) -> Format {
        Format::Text
    }

    to_sql_checked!();
}

/// What comes in binary is compared as such.
#[derive(Debug, PartialEq)]
struct Raw(Vec<u8>);

impl<'a> tokio_postgres::types::FromSql<'a> for Raw {
    fn from_sql(_: &Type, raw: &'a [u8]) -> Result<Self, Box<dyn Error + Sync + Send>> {
        Ok(Self(raw.to_vec()))
    }

    fn accepts(_: &Type) -> bool {
        true
    }
}

async fn bound(client: &Client, (text, kind, value): &(&str, Type, &str)) -> Result<Vec<Raw>, String> {
    client.batch_execute("BEGIN").await.unwrap();
    let types: &[Type] = if *kind == Type::UNKNOWN { &[] } else { std::slice::from_ref(kind) };
    let rows = match client.prepare_typed(text, types).await {
        Ok(statement) => client.query(&statement, &[&Written(value)]).await,
        Err(error) => Err(error),
    };
    client.batch_execute("ROLLBACK").await.unwrap();
    let rows =
        rows.map_err(|error| error.code().map_or_else(|| error.to_string(), |code| code.code().to_owned()))?;
    Ok(rows.iter().map(|row| row.get(0)).collect())
}

#[tokio::test]
async fn a_value_is_cast_as_it_is_written_then_as_its_parameter_then_as_its_column() {
    let server = PrivatePostgres::start().unwrap();
    let direct = connect(&server.uri("postgres")).await;
    direct.batch_execute("CREATE DATABASE plain").await.unwrap();
    let kinds: Vec<String> = COLUMNS.iter().map(|(name, kind, _)| format!("{name} {kind}")).collect();
    let create = format!("CREATE TABLE t (id int, {})", kinds.join(", "));
    let plain = connect(&server.uri("plain")).await;
    plain.batch_execute(&format!("{create}; {ROWS}")).await.unwrap();
    let mut wrong = Vec::new();
    for order in ORDERS {
        let database = format!("by_{order}");
        direct.batch_execute(&format!("CREATE DATABASE {database}")).await.unwrap();
        let proxy = Dev::start(&server, &database, &schema(order));
        let encrypted = connect(&proxy.uri(&database)).await;
        encrypted.batch_execute(&format!("{create}; {ROWS}")).await.unwrap();
        for texts in CASES.iter().filter(|texts| !texts.iter().any(|text| is_declined(order, text))) {
            let (expected, found) = (answered(&plain, texts).await, answered(&encrypted, texts).await);
            if found != expected {
                wrong.push(format!("{order}: {texts:?}\n  is       {found:?}\n  expected {expected:?}"));
            }
        }
        for case in BOUND.iter().filter(|case| !is_declined(order, case.0)) {
            let (expected, found) = (bound(&plain, case).await, bound(&encrypted, case).await);
            if found != expected {
                wrong.push(format!("{order}: {case:?}\n  is       {found:?}\n  expected {expected:?}"));
            }
        }
        let (well, said) = proxy.doctor(&server, &database, true);
        assert!(well, "{order}: {said}");
    }
    assert!(wrong.is_empty(), "{} are wrong:\n{}", wrong.len(), wrong.join("\n"));
}
