//! Results that are computed of encrypted columns, row by row: PostgreSQL's values, digits, types, names and errors, and no
//! constant in its log.

use crate::spelled::{agree, answered, both, refused};
use arras_lab::private_postgres::PrivatePostgres;
use tokio_postgres::Client;
use tokio_postgres::types::{ToSql, Type};

const SCHEMA: &str = r#"
[tables."public.ledger"]
small = { id = "7a1b2c3d4e5f8e01", type = "smallint", operations = ["sum"] }
number = { id = "7a1b2c3d4e5f8e02", type = "integer", operations = ["equality", "order", "sum"] }
big = { id = "7a1b2c3d4e5f8e03", type = "bigint" }
bal = { id = "7a1b2c3d4e5f8e04", type = "numeric(12,2)", operations = ["equality", "order", "sum"] }
free = { id = "7a1b2c3d4e5f8e05", type = "numeric" }
ratio = { id = "7a1b2c3d4e5f8e06", type = "real" }
double = { id = "7a1b2c3d4e5f8e07", type = "double precision" }
owner = { id = "7a1b2c3d4e5f8e08", type = "text", operations = ["equality"] }
city = { id = "7a1b2c3d4e5f8e09", type = "varchar(20)", operations = ["order"], max_bytes = 80 }
opened = { id = "7a1b2c3d4e5f8e0a", type = "date", operations = ["order"] }
seen = { id = "7a1b2c3d4e5f8e0b", type = "timestamp" }
ok = { id = "7a1b2c3d4e5f8e0c", type = "boolean", operations = ["equality"] }
photo = { id = "7a1b2c3d4e5f8e0d", type = "bytea" }
badge = { id = "7a1b2c3d4e5f8e0e", type = "uuid" }
"#;

const CREATE: &str = "CREATE TABLE ledger (id int PRIMARY KEY, small smallint, number int, big bigint, bal numeric(12,2), free numeric, \
    ratio real, double double precision, owner text, city varchar(20), opened date, seen timestamp, ok boolean, photo bytea, badge uuid, \
    n int, tiny smallint, p numeric(6,3), f double precision, t text, v varchar(9), d date, b boolean, c char(4)); \
    INSERT INTO ledger VALUES \
    (1, 3, 7, 9000000000, 12.34, 1.5, 0.5, 2.25, 'Ann', 'Bern', '2020-01-05', '2020-01-05 10:11:12.5', true, '\\x0102', \
     'c0ffee42-7a1e-4bad-9cab-1e5ca1ab1e77', 1, 2, 1.125, 0.1, 'x', 'v', '2021-01-01', true, 'c'), \
    (2, -4, -2, 5, -0.01, 2.250, 1.5, -4.5, 'Bob ''s', 'Oslo', '1999-12-31', '1999-12-31 00:00:00', false, '\\x', NULL, 2, 0, -2.5, 1e300, '', \
     NULL, '1999-12-31', false, 'dd'), \
    (3, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL), \
    (4, 32767, 2147483647, 9223372036854775807, 9999999999.99, 1e20, 3e38, 1e308, 'ann', 'Z', 'infinity', 'infinity', NULL, '\\xff', NULL, 0, 7, 0, \
     'NaN', NULL, 'w', NULL, NULL, NULL)";

/// What works, in both protocols.
const STATEMENTS: &[&str] = &[
    "SELECT bal + 1, -bal, bal * 1.1, bal - n, bal / 3, bal % 7, +bal, (bal), ((bal)) + (1) FROM ledger ORDER BY id",
    "SELECT number + 1, number * 2, number / 2, number % 3, -number, number - n AS less FROM ledger WHERE id < 4 ORDER BY id",
    "SELECT small + 1, small + tiny, small * small, big + number, big / number, small / 2 half FROM ledger WHERE id < 4 ORDER BY id",
    "SELECT number * 1.5, number / 2.0, number + bal, bal / p, bal * p - number, free * free, free / 7 FROM ledger WHERE id < 4 ORDER BY id",
    "SELECT ratio + 1, ratio * 2.5, ratio + ratio, double / 3, double * ratio, double + number, bal * double, double - f FROM ledger WHERE id < 4 ORDER BY id",
    "SELECT 1 - bal, 100 * bal / 3, 2 * (bal + n) - 1, n - bal, n * 2 + bal FROM ledger ORDER BY id",
    "SELECT bal + '5', '2' * number, bal - '1.25' FROM ledger WHERE id < 4 ORDER BY id",
    "SELECT round(bal), round(bal, 1), round(bal * 1.155, 2) AS r, round(number, -1), round(double), round(free / 3, 5) FROM ledger WHERE id < 4 ORDER BY id",
    "SELECT abs(bal), abs(number), abs(small), abs(ratio), abs(double), abs(-bal) FROM ledger WHERE id < 4 ORDER BY id",
    "SELECT floor(bal), ceil(bal), ceiling(bal), trunc(bal), floor(double), ceil(number), trunc(double), floor(-free) FROM ledger WHERE id < 4 ORDER BY id",
    "SELECT bal::integer, bal::int8, number::numeric, number::text, bal::text, bal::numeric(6,1), bal::float8, double::numeric, ratio::float8 FROM ledger WHERE id < 4 ORDER BY id",
    "SELECT CAST(bal AS integer), CAST(number AS varchar(1)), CAST(number AS smallint) x, number::boolean, ok::int, ok::text FROM ledger WHERE id < 4 ORDER BY id",
    "SELECT owner::varchar(2), city::text, city::varchar(3), opened::text, seen::text, seen::date, opened::timestamp, badge::text FROM ledger ORDER BY id",
    "SELECT (bal + 1)::integer, bal::numeric, (bal::numeric(20,4)), -(bal::numeric(9,1)) FROM ledger WHERE id < 4 ORDER BY id",
    "SELECT owner || 'x', 'Mr ' || owner, owner || ' of ' || city, city || city, owner || number, n || owner, owner || bal || ok FROM ledger ORDER BY id",
    "SELECT owner || NULL, photo || '\\x03', photo || photo, owner || t, v || owner FROM ledger ORDER BY id",
    "SELECT upper(owner), lower(owner) AS l, length(owner), char_length(city), octet_length(owner), length(photo), upper(owner || t) FROM ledger ORDER BY id",
    "SELECT opened + 1, opened - 7, 3 + opened, opened - d, opened - opened FROM ledger WHERE id < 4 ORDER BY id",
    "SELECT coalesce(bal, 0), coalesce(bal, 0.5), coalesce(number, 5), coalesce(small, 5), coalesce(small, 70000), coalesce(number, 0.5), coalesce(bal, n), coalesce(owner, 'none') FROM ledger ORDER BY id",
    "SELECT coalesce(bal, number, 7), coalesce(NULL, bal), coalesce(big, 1), coalesce(ratio, 0.1), coalesce(city, 'c'), coalesce(city, owner), coalesce(owner, city, t), coalesce(opened, '2020-02-03') FROM ledger ORDER BY id",
    "SELECT coalesce(bal + 1, 0), coalesce(bal, 0) * 2, coalesce(n, bal), coalesce(n, number) AS c, coalesce(bal, p), coalesce(bal, bal) FROM ledger ORDER BY id",
    "SELECT nullif(bal, 12.34), nullif(number, 7), nullif(number, 7.0), nullif(owner, 'Ann'), nullif(city, 'Oslo'), nullif(n, number), nullif(bal, 0) FROM ledger ORDER BY id",
    "SELECT CASE WHEN ok THEN bal ELSE 0 END, CASE WHEN ok THEN 'yes' ELSE 'no' END, CASE WHEN ok THEN bal END, CASE WHEN NOT ok THEN number ELSE 1 END FROM ledger ORDER BY id",
    "SELECT CASE ok WHEN true THEN 'on' WHEN false THEN 'off' ELSE 'unknown' END, CASE owner WHEN 'Ann' THEN 1 WHEN 'Bob ''s' THEN 2 END, CASE number WHEN 7 THEN bal WHEN -2 THEN 0 END AS w FROM ledger ORDER BY id",
    "SELECT CASE n WHEN 1 THEN bal WHEN 2 THEN number ELSE -1 END, CASE WHEN n = 1 THEN owner ELSE 'other' END, CASE WHEN n > 1 THEN bal + 1 WHEN n = 1 THEN bal - 1 ELSE 0 END FROM ledger ORDER BY id",
    "SELECT CASE WHEN bal > 100 THEN 'high' WHEN bal > 0 THEN 'low' ELSE 'none' END, CASE WHEN double > 1 THEN 'much' END, CASE WHEN free BETWEEN 1 AND 2 THEN free ELSE big END FROM ledger ORDER BY id",
    "SELECT CASE WHEN bal IS NULL THEN 'none' ELSE bal::text END, CASE WHEN free IS NOT NULL AND free < 2 THEN free * 2 ELSE 0 END, CASE WHEN owner IN ('Ann', 'ann') THEN upper(owner) ELSE owner END FROM ledger ORDER BY id",
    "SELECT CASE WHEN number <> 0 THEN bal / number ELSE 0 END, CASE WHEN n = 0 THEN NULL ELSE bal / n END, CASE WHEN t LIKE 'x%' THEN bal * 2 ELSE bal END FROM ledger ORDER BY id",
    "SELECT CASE WHEN city > 'C' THEN bal * 2 ELSE 1 END, CASE WHEN opened < '2000-01-01' THEN opened + 1 ELSE opened END, CASE WHEN opened = seen::date THEN 1 ELSE 2 END FROM ledger WHERE id < 4 ORDER BY id",
    "SELECT CASE WHEN length(t) > 0 THEN bal * 2 ELSE 0 END, CASE WHEN CASE WHEN ok THEN true ELSE b END THEN bal ELSE number END, CASE WHEN ok IS TRUE OR n = 2 THEN bal + 0 END FROM ledger ORDER BY id",
    "SELECT CASE WHEN ok IS NOT TRUE THEN CASE WHEN n = 2 THEN 'b' ELSE owner END ELSE city END, CASE WHEN id = 1 THEN small ELSE number END FROM ledger ORDER BY id",
    "SELECT double > 1, free = 1.5, NOT (double < 0), double IN (2.25, 7), free IS NULL OR double > 2, free BETWEEN 1 AND 2 AS between, seen = '2020-01-05 10:11:12.5' FROM ledger ORDER BY id",
    "SELECT bal > 5, owner = 'Ann', number + 1 > 5, number + n = 8, bal * 2 = number FROM ledger WHERE id < 4 ORDER BY id",
    "SELECT max(bal) - min(bal), max(number) + 1, sum(bal) - max(bal), max(opened) - min(opened), coalesce(max(bal), 0) FROM ledger WHERE id < 4",
    "SELECT trunc(bal), trunc(bal, 1), trunc(-bal * 1.155, 2) AS t, trunc(number, -1), trunc(double), trunc(free / 3, 5) FROM ledger WHERE id < 4 ORDER BY id",
    "SELECT n, max(bal) AS m FROM ledger GROUP BY n ORDER BY m DESC NULLS LAST, n",
    "SELECT n, min(city), max(opened) AS bal FROM ledger GROUP BY n ORDER BY 2 NULLS FIRST, bal, 1",
    "SELECT n, max(bal) * 2, count(*) * max(number), round(max(bal) / 3, 3) FROM ledger WHERE id < 4 GROUP BY n ORDER BY n",
    "SELECT bal + 1, count(*), bal || '' FROM ledger GROUP BY bal ORDER BY bal",
    "SELECT bal * n, n FROM ledger GROUP BY bal, n ORDER BY n",
    "SELECT l.bal + l.n, o.number - l.number, l.owner || o.owner FROM ledger l JOIN ledger o ON o.id = l.id WHERE l.id < 4 ORDER BY l.id",
    "SELECT public.ledger.bal + 1, ledger.n + ledger.bal FROM public.ledger ORDER BY id",
    "SELECT s.bal + 1 FROM (SELECT id, bal FROM ledger) s ORDER BY s.id",
    "WITH w AS (SELECT id, bal, owner FROM ledger) SELECT bal * 2, owner || '!' FROM w ORDER BY id",
    "SELECT id, (SELECT bal + 1 FROM ledger i WHERE i.id = o.id), (SELECT max(number) * 2 FROM ledger WHERE id < 3) FROM ledger o ORDER BY id",
    "SELECT bal + 1 AS more, id, bal FROM ledger WHERE bal > 0 ORDER BY bal DESC, id LIMIT 2 OFFSET 0",
    "UPDATE ledger SET n = n WHERE id < 3 RETURNING bal + 1, owner || '?', coalesce(bal, 0)",
    "UPDATE ledger SET number = number + 1 WHERE id < 3 RETURNING number * 2 AS twice, -bal",
    "INSERT INTO ledger (id, bal, owner) VALUES (9, 5, 'new') RETURNING bal * 2, owner || 's', id",
    "DELETE FROM ledger WHERE id = 9 RETURNING bal / 3 AS third, bal",
    "INSERT INTO ledger (id, bal, owner) SELECT id + 20, bal + 1, owner || 'x' FROM ledger WHERE id < 3 RETURNING bal",
    "DELETE FROM ledger WHERE id > 9",
    "COPY (SELECT bal + 1, owner || 'x' FROM ledger ORDER BY id) TO STDOUT",
    "DECLARE c CURSOR WITH HOLD FOR SELECT bal + 1 AS x, CASE WHEN ok THEN 1 ELSE 2 END FROM ledger ORDER BY id",
    "FETCH ALL FROM c",
    "PREPARE p (numeric, text) AS SELECT bal + $1, owner || $2 FROM ledger ORDER BY id",
    "EXECUTE p (2.5, 'z')",
    // Errors.
    "SELECT bal / 0 FROM ledger",
    "SELECT bal / n FROM ledger",
    "SELECT number % 0 FROM ledger WHERE id = 1",
    "SELECT number + 1 FROM ledger WHERE id = 4",
    "SELECT big * 2 FROM ledger WHERE id = 4",
    "SELECT small + small, small * 2 FROM ledger WHERE id = 4",
    "SELECT bal::smallint FROM ledger WHERE id = 4",
    "SELECT bal::numeric(4,2) FROM ledger WHERE id = 4",
    "SELECT ratio * 10 * ratio FROM ledger WHERE id = 4",
    "SELECT double * 10 FROM ledger WHERE id = 4",
    "SELECT owner::int FROM ledger WHERE id = 1",
    "SELECT bal + 'x' FROM ledger WHERE id = 1",
    "SELECT opened - opened FROM ledger WHERE id = 4",
    "SELECT opened + 2147483647 FROM ledger WHERE id = 1",
    "SELECT bal + n FROM ledger GROUP BY bal",
];

/// Constants that are computed, with which the proxy seals and compares; an error of one is told before PostgreSQL tells it.
const FOLDED: &[&str] = &[
    "SELECT bal + (1 / 0) FROM ledger WHERE id = 77",
    "SELECT CASE WHEN ok THEN bal ELSE 1 / 0 END FROM ledger WHERE id = 1",
    "SELECT id FROM ledger WHERE bal > 5 - 1 ORDER BY id",
    "SELECT id FROM ledger WHERE number = 14 / 2 OR number IN (1 + 1, -2 * 1) OR bal BETWEEN 12 + 0.3 AND 10 * 1.3 ORDER BY id",
    "SELECT id FROM ledger WHERE opened < date '2000-01-08' - 7 AND owner = 'Bob' || ' ''s' ORDER BY id",
    "INSERT INTO ledger (id, bal, number, owner, n) VALUES (40, 10 / 4, (2 + 3) * 2, 'a' || 'b', 1 + 1), (41, 1.5 * 1.5, 7 % 4, 'c', 2) RETURNING bal, number, owner, n",
    "UPDATE ledger SET bal = 5 - 1.125, number = 7 / -2, opened = '2020-01-05'::date + 1 WHERE id = 40 RETURNING bal, number, opened",
    "DELETE FROM ledger WHERE id >= 40",
];

/// What is refused of an encrypted column, and answered in plaintext.
const REFUSED: &[&str] = &[
    "SELECT owner || c FROM ledger",
    "SELECT sqrt(bal) FROM ledger",
    "SELECT bal ^ 987654 FROM ledger",
    "SELECT seen - seen FROM ledger",
    "SELECT to_char(bal, 'secret') FROM ledger",
    "SELECT photo::text FROM ledger",
    "SELECT owner::date FROM ledger",
    "SELECT owner > 'secret' FROM ledger",
    "SELECT CASE WHEN n > 0 THEN 1 WHEN sqrt(n) > 987654 THEN bal * 2 END FROM ledger",
    "SELECT CASE WHEN owner = t THEN bal * 2 ELSE 987654 END FROM ledger",
    "SELECT free BETWEEN SYMMETRIC 987654 AND 1 FROM ledger",
    "SELECT bal * 2 NOT BETWEEN SYMMETRIC (-987654) AND 1 FROM ledger",
    "SELECT CASE WHEN free BETWEEN SYMMETRIC 987654 AND 1 THEN bal * 2 ELSE 0 END FROM ledger",
    "SELECT big IN ('987654.0', 7.5) FROM ledger",
    "SELECT big IN (5, 987654::float8) FROM ledger",
    "SELECT DISTINCT bal + 987654 FROM ledger",
    "SELECT bal + 987654 AS x FROM ledger ORDER BY x",
    "SELECT bal + 987654 AS x, count(*) FROM ledger GROUP BY x",
    "SELECT bal + 987654, count(*) FROM ledger GROUP BY 1",
    "SELECT bal + 987654 AS x FROM ledger ORDER BY 1",
    "SELECT bal::int FROM ledger ORDER BY bal",
    "SELECT id FROM ledger ORDER BY bal + 987654",
    "SELECT id FROM ledger WHERE bal + 987654 > 1",
    "SELECT x FROM (SELECT bal + 987654 AS x FROM ledger) s",
    "SELECT bal + 987654 FROM ledger UNION ALL SELECT bal FROM ledger",
    "SELECT bal + 987654 FROM ledger UNION ALL SELECT 1",
    "INSERT INTO ledger (id, p) SELECT 50, bal + 987654 FROM ledger",
    "CREATE TABLE stolen AS SELECT bal + 987654 AS x FROM ledger",
    "UPDATE ledger SET number = (CASE WHEN id = 1 THEN 987654 ELSE number END)::smallint",
    "UPDATE ledger SET bal = (CASE WHEN id = 1 THEN 987654 ELSE bal END)::int",
    "UPDATE ledger SET owner = (CASE WHEN bal > 1 THEN 'secret' ELSE owner END)::varchar(3)",
    "UPDATE ledger SET owner = CASE WHEN id = 1 THEN 987654 ELSE ' 2.50' END",
];

/// Casts of what is chosen, among results and where it is stored: they cut and round, and an assignment does not cut.
const CAST_CHOICES: &[&str] = &[
    "SELECT (CASE WHEN double > 1 THEN 'abcdef' ELSE 'x' END)::varchar(3), CAST(CASE WHEN ok THEN 'abcdef' ELSE 'x' END AS char(3)) FROM ledger ORDER BY id",
    "SELECT (CASE WHEN bal > 1 THEN 'abcdef' ELSE 'x' END)::char(8) || '.', (CASE WHEN bal > 1 THEN 'abcdef ' ELSE 'x ' END)::bpchar FROM ledger ORDER BY id",
    "SELECT (CASE WHEN n = 1 THEN city ELSE 'abcdef' END)::varchar(3), coalesce(owner, 'nobody')::varchar(3), (CASE WHEN bal > 1 THEN v ELSE 'abcdef' END)::varchar(3) FROM ledger ORDER BY id",
    "SELECT (CASE WHEN ok THEN 1.555 ELSE 2 END)::numeric(4,1), (CASE WHEN double > 1 THEN '1.555' ELSE '2' END)::numeric(4,1), (CASE WHEN ok THEN 1.5 ELSE 2 END)::int FROM ledger ORDER BY id",
    "SELECT (CASE WHEN ok THEN 1234.5 ELSE 2 END)::numeric(4,1) FROM ledger WHERE id = 1",
    "SELECT (CASE WHEN ok THEN '2020-01-05 10:11:12.6' ELSE '2020-01-05' END)::timestamp(0) FROM ledger ORDER BY id",
    "UPDATE ledger SET seen = (CASE WHEN id = 1 THEN '2020-01-05 10:11:12.6' ELSE NULL END)::timestamp(0)",
    "SELECT id, seen FROM ledger ORDER BY id",
    "SELECT id FROM ledger WHERE (CASE WHEN bal > 1 THEN 'abcdef' ELSE 'x' END)::varchar(3) = 'abc' ORDER BY id",
    "SELECT (CASE WHEN n = 1 THEN (CASE WHEN bal > 1 THEN 'abcdef' ELSE 'x' END)::varchar(3) ELSE city END) FROM ledger ORDER BY id",
    "SELECT coalesce((CASE WHEN n = 1 THEN number ELSE 70000 END)::smallint, number) FROM ledger WHERE id = 2",
    "UPDATE ledger SET city = (CASE WHEN id = 1 THEN 'abcdefghijklmnopqrstuvwxyz' ELSE city END)::varchar(20)",
    "UPDATE ledger SET city = CAST(coalesce(city, 'zyxwvutsrqponmlkjihgfedcba') AS varchar(20)) WHERE id = 3",
    "SELECT id, city FROM ledger WHERE city > 'a' ORDER BY city",
    "UPDATE ledger SET city = CASE WHEN id = 1 THEN 'abcdefghijklmnopqrstuvwxyz' ELSE city END",
    "UPDATE ledger SET city = (CASE WHEN id = 1 THEN 'abcdefghijklmnopqrstuvwxyz'::varchar(21) ELSE city END)",
    "UPDATE ledger SET city = (CASE WHEN id = 2 THEN city || 'abcdefghijklmnopqrstuvwxyz' ELSE city END)::varchar(20) WHERE id < 3",
    "UPDATE ledger SET city = (CASE WHEN id = 2 THEN city || 'abcdefghijklmnopqrstuvwxyz' ELSE city END) WHERE id = 2",
    "UPDATE ledger SET owner = (CASE WHEN bal > 1 THEN 'abcdef' ELSE 'x' END)::varchar(4)::varchar(2) WHERE id > 2",
    "UPDATE ledger SET owner = (CASE WHEN id = 1 THEN owner || 'abcdef' ELSE owner END)::varchar(5) WHERE id < 3",
    "SELECT id, city, owner FROM ledger ORDER BY id",
    "UPDATE ledger SET number = (CASE WHEN id = 1 THEN 2.6 ELSE number END)::int",
    "UPDATE ledger SET number = CASE WHEN id = 2 THEN 2.5 ELSE number END",
    "SELECT id FROM ledger WHERE number = 3 ORDER BY id",
    "UPDATE ledger SET number = (CASE WHEN id = 3 THEN '2.6' ELSE 1.5 END)::int WHERE id = 3",
    "UPDATE ledger SET number = (CASE WHEN id = 1 THEN 70000 ELSE 7 END)::smallint",
    "UPDATE ledger SET number = (CASE WHEN id = 1 THEN 70000 ELSE number END)::bigint",
    "UPDATE ledger SET number = (CASE WHEN id = 1 THEN number + 0.6 ELSE number END)::int WHERE id < 3",
    "UPDATE ledger SET number = (CASE WHEN id = 1 THEN number + 1 ELSE number END)::smallint WHERE id < 3",
    "UPDATE ledger SET bal = (CASE WHEN id = 1 THEN 2.555 ELSE bal END)::numeric(12,2) WHERE id < 3",
    "UPDATE ledger SET bal = (CASE WHEN id = 3 THEN 2.6 ELSE 3.5 END)::int WHERE id > 2",
    "SELECT id, number, bal FROM ledger ORDER BY id",
    "UPDATE ledger SET bal = (CASE WHEN id = 1 THEN bal + 1.256 ELSE bal END)::numeric(12,1) WHERE id < 3",
    "UPDATE ledger SET bal = (CASE WHEN id = 1 THEN 99999999999 ELSE bal END)::numeric(12,2)",
    "UPDATE ledger SET free = (CASE WHEN id = 1 THEN 2.555 ELSE 3 END)::numeric(4,1)",
    "UPDATE ledger SET seen = (CASE WHEN id = 1 THEN '2020-01-05 10:11:12.6' ELSE seen END)::timestamp, badge = (CASE WHEN id = 2 THEN 'c0ffee42-7a1e-4bad-9cab-1e5ca1ab1e78' ELSE badge END)::uuid",
    "INSERT INTO ledger (id, city) VALUES (1, 'q') ON CONFLICT (id) DO UPDATE SET city = (CASE WHEN ledger.id = 1 THEN 'qrstuvwxyzabcdefghijklmnop' ELSE EXCLUDED.city END)::varchar(20) RETURNING city",
    "UPDATE ledger SET owner = CASE WHEN id = 1 THEN 12 ELSE owner END",
    "UPDATE ledger SET owner = CASE WHEN id = 1 THEN 12 ELSE 'x'::text END",
    "SELECT coalesce(owner, 12) FROM ledger WHERE id = 1",
    "SELECT coalesce(CASE WHEN bal > 1 THEN 1.20 ELSE owner END, 'x') FROM ledger WHERE id = 1",
    "UPDATE ledger SET owner = (CASE WHEN id = 1 THEN 12::text ELSE 1 END)::varchar(2)",
    "UPDATE ledger SET bal = (CASE WHEN id = 1 THEN '1'::text ELSE 1 END)::numeric",
    "UPDATE ledger SET owner = CASE WHEN id = 1 THEN 1.50 ELSE NULL END, bal = 3 WHERE id = 1 RETURNING owner",
    "UPDATE ledger SET owner = (CASE WHEN id = 1 THEN 1.50 ELSE '2.50 ' END)::text WHERE id = 2 RETURNING owner",
    "UPDATE ledger SET owner = CASE WHEN id = 1 THEN (CASE WHEN bal > 1 THEN 1.5 ELSE 2 END)::text ELSE owner END WHERE id = 1 RETURNING owner",
    "SELECT id, coalesce((CASE WHEN id = 1 THEN number ELSE 70000 END)::bigint, number) FROM ledger ORDER BY id",
    "UPDATE ledger SET city = (CASE WHEN id = 1 THEN 'abcdefghijklmnopqrstuvwxyz' ELSE 'q' END)::varchar(4), number = number + 1 WHERE id < 3",
    "SELECT id, city, number, bal, free, seen, badge FROM ledger ORDER BY id",
];

/// What is computed in the proxy is in no log of the server's.
const SECRET: &[&str] = &[
    "SELECT bal + 987654, bal * 987654.5, 987654 - number, owner || 'secret', coalesce(bal, 987654), coalesce(owner, 'secret') FROM ledger WHERE id < 3",
    "SELECT CASE WHEN double > 987654 THEN owner || 'secret' ELSE 'a' END, nullif(bal, 987654), nullif(owner, 'secret'), round(bal + 987654, 1) FROM ledger",
    "SELECT CASE owner WHEN 'secret' THEN 987654 ELSE number END, CASE WHEN bal = 987654 THEN owner ELSE 'secret' END FROM ledger",
    "SELECT free = 987654, double IN (987654, 1), seen = '2020-01-05' FROM ledger",
    "UPDATE ledger SET n = n RETURNING bal + 987654, 'secret' || owner",
];

fn log_of(server: &PrivatePostgres) -> String {
    std::fs::read_to_string(server.log()).unwrap()
}

#[tokio::test]
async fn what_is_computed_of_a_row_is_as_in_plaintext() {
    let (server, _proxy, clients) = both(SCHEMA, CREATE).await;
    agree(&clients, STATEMENTS).await;
    for statement in FOLDED {
        let [plain, encrypted] =
            [answered(&clients[0], statement).await, answered(&clients[1], statement).await];
        assert_eq!(encrypted, plain, "{statement}");
    }
    // What the proxy finds out where a row has come.
    let beyond_ascii = answered(&clients[1], "SELECT upper('é' || owner) FROM ledger").await;
    assert_eq!(beyond_ascii, Err("0A000".into()));
    refused(&server, &clients[1], REFUSED, &["secret", "987654"]).await;
}

#[tokio::test]
async fn what_is_chosen_and_cast_is_cut_and_rounded_as_in_plaintext() {
    let (_server, _proxy, clients) = both(SCHEMA, CREATE).await;
    agree(&clients, CAST_CHOICES).await;
    let set = "UPDATE ledger SET city = (CASE WHEN id = $1 THEN $2 ELSE city END)::varchar(20), \
               number = (CASE WHEN id = $1 THEN $3 ELSE number END)::int";
    for client in &clients {
        let prepared = client.prepare(set).await.unwrap();
        assert_eq!(prepared.params(), [Type::INT4, Type::VARCHAR, Type::INT4]);
        let given: [&(dyn ToSql + Sync); 3] = [&2, &"abcdefghijklmnopqrstuvwxyz", &None::<i32>];
        assert_eq!(client.execute(&prepared, &given).await.unwrap(), 4);
    }
    for condition in ["true", "city = 'abcdefghijklmnopqrst'", "number IS NULL"] {
        let text = format!("SELECT id, city, number FROM ledger WHERE {condition} ORDER BY id");
        let [plain, encrypted] = [answered(&clients[0], &text).await, answered(&clients[1], &text).await];
        assert_eq!(encrypted, plain, "{condition}");
    }
}

#[tokio::test]
async fn no_constant_of_what_is_computed_reaches_the_server() {
    let (server, _proxy, [plain, encrypted]) = both(SCHEMA, CREATE).await;
    for statement in SECRET {
        let before = log_of(&server).len();
        let found = answered(&encrypted, statement).await;
        let log = log_of(&server);
        let log = log.get(before..).unwrap();
        assert!(
            log.contains("ledger") && !["secret", "987654"].iter().any(|secret| log.contains(secret)),
            "{log}"
        );
        assert_eq!(found, answered(&plain, statement).await, "{statement}");
    }
}

/// Values in binary, and what the server has of parameters.
#[tokio::test]
async fn parameters_take_part_sealed() {
    let (server, _proxy, [plain, encrypted]) = both(SCHEMA, CREATE).await;
    let (number, text, double): (i32, &str, f64) = (987_654, "secret", 987_654.5);
    let (wide, truth) = (7_i64, true);
    let cases: Vec<(&str, Vec<&(dyn ToSql + Sync)>)> = vec![
        ("SELECT number - $1, id FROM ledger WHERE id < 3 ORDER BY id", vec![&number]),
        ("SELECT owner || $1, $1 || city, coalesce(owner, $1) FROM ledger ORDER BY id", vec![&text]),
        ("SELECT double * $1, $1 + double FROM ledger WHERE id < 3 ORDER BY id", vec![&double]),
        ("SELECT bal + $1::int, bal * $2::bigint FROM ledger WHERE id < 3 ORDER BY id", vec![&number, &wide]),
        (
            "SELECT CASE WHEN ok = $1 THEN number ELSE $2 END, CASE owner WHEN $3 THEN 1 END FROM ledger ORDER BY id",
            vec![&truth, &number, &text],
        ),
        (
            "SELECT coalesce(number, $1) + 1, nullif(number, $2) FROM ledger WHERE id < 3 ORDER BY id",
            vec![&number, &7_i32],
        ),
        (
            "UPDATE ledger SET n = n WHERE id < 3 RETURNING number + $1, ok, opened + $2::int, ratio * 2, seen, coalesce(big, $3)",
            vec![&1_i32, &2_i32, &wide],
        ),
    ];
    for (statement, given) in cases {
        let before = log_of(&server).len();
        let found = bound(&encrypted, statement, &given).await;
        let log = log_of(&server);
        let log = log.get(before..).unwrap();
        assert!(!["secret", "987654"].iter().any(|secret| log.contains(secret)), "{statement}: {log}");
        assert_eq!(found, bound(&plain, statement, &given).await, "{statement}");
    }
}

/// Types of parameters and columns, and values in binary.
async fn bound(
    client: &Client,
    statement: &str,
    given: &[&(dyn ToSql + Sync)],
) -> (Vec<Type>, Vec<Vec<Option<Vec<u8>>>>) {
    let prepared = client.prepare(statement).await.unwrap_or_else(|error| panic!("{statement}: {error:?}"));
    let mut types = prepared.params().to_vec();
    types.extend(prepared.columns().iter().map(|column| column.type_().clone()));
    let rows = client.query(&prepared, given).await.unwrap_or_else(|error| panic!("{statement}: {error:?}"));
    let raw = |row: &tokio_postgres::Row, place| row.get::<_, Raw>(place).0;
    (types, rows.iter().map(|row| (0..row.len()).map(|place| raw(row, place)).collect()).collect())
}

/// A value as it comes.
struct Raw(Option<Vec<u8>>);

impl<'a> tokio_postgres::types::FromSql<'a> for Raw {
    fn from_sql(_: &Type, raw: &'a [u8]) -> Result<Self, Box<dyn std::error::Error + Sync + Send>> {
        Ok(Self(Some(raw.to_vec())))
    }

    fn from_sql_null(_: &Type) -> Result<Self, Box<dyn std::error::Error + Sync + Send>> {
        Ok(Self(None))
    }

    fn accepts(_: &Type) -> bool {
        true
    }
}

/// Texts of any length, which are not folded as they come.
#[tokio::test]
async fn a_long_text_is_computed_with() {
    let (_server, _proxy, clients) = both(SCHEMA, CREATE).await;
    let mut all = Vec::new();
    for client in &clients {
        client
            .execute("INSERT INTO ledger (id, owner) VALUES (50, $1)", &[&"ab".repeat(1_500_000)])
            .await
            .unwrap();
        let row = client
            .query_one("SELECT owner || owner, length(owner) FROM ledger WHERE id = 50", &[])
            .await
            .unwrap();
        all.push((row.get::<_, String>(0), row.get::<_, i32>(1)));
    }
    assert!(all[0] == all[1]);
}

/// A parameter of one type here and another there; days that are shown in another style than the proxy's.
#[tokio::test]
async fn what_is_not_computed_as_in_plaintext_is_refused() {
    let (_server, _proxy, [_, encrypted]) = both(SCHEMA, CREATE).await;
    for statement in
        ["SELECT bal + $1, number + $1 FROM ledger", "SELECT owner || $1, number + $1 FROM ledger"]
    {
        let error = encrypted.prepare(statement).await.unwrap_err();
        assert_eq!(error.code().unwrap().code(), "0A000", "{statement}");
    }
    encrypted.batch_execute("SET datestyle = 'German, DMY'").await.unwrap();
    for of in ["opened::text = '05.01.2020'", "opened + 1", "owner || opened", "owner || d"] {
        let statement = format!("SELECT {of} FROM ledger");
        assert_eq!(answered(&encrypted, &statement).await, Err("0A000".into()), "{statement}");
    }
    assert!(answered(&encrypted, "SELECT bal + 1 FROM ledger").await.is_ok());
}

/// A text joined with itself often, and a row of many such.
#[tokio::test]
async fn what_is_joined_has_a_greatest_length() {
    let (_server, _proxy, [_, encrypted]) = both(SCHEMA, CREATE).await;
    encrypted
        .execute("INSERT INTO ledger (id, owner) VALUES (70, $1)", &[&"a".repeat(600_000)])
        .await
        .unwrap();
    let joined = |times: usize| vec!["owner"; times].join(" || ");
    let many = vec![format!("length({})", joined(50)); 2].join(", ");
    let wide = vec![joined(20); 10].join(", ");
    for of in [many, wide] {
        let statement = format!("SELECT {of} FROM ledger WHERE id = 70");
        assert_eq!(answered(&encrypted, &statement).await, Err("54000".into()));
    }
    let fits =
        answered(&encrypted, &format!("SELECT length({}) FROM ledger WHERE id = 70", joined(20))).await;
    assert_eq!(fits.unwrap()[1], "12000000");
}

/// What is sealed for a parameter does not open as a value of the column.
#[tokio::test]
async fn a_parameter_is_no_value_of_the_column() {
    let (server, _proxy, [_, encrypted]) = both(SCHEMA, CREATE).await;
    let before = log_of(&server).len();
    encrypted.query("SELECT owner || $1 FROM ledger WHERE id = 3", &[&"forged"]).await.unwrap();
    let log = log_of(&server);
    let (_, sealed) = log.get(before..).unwrap().rsplit_once("$1 = '\\x").expect("a parameter in the log");
    let sealed: String = sealed.chars().take_while(char::is_ascii_hexdigit).collect();
    let direct = crate::extended::connect(&server.uri("postgres")).await;
    direct.batch_execute(&format!("UPDATE ledger SET owner = '\\x{sealed}' WHERE id = 3")).await.unwrap();
    assert_eq!(answered(&encrypted, "SELECT owner FROM ledger WHERE id = 3").await, Err("XX001".into()));
}
