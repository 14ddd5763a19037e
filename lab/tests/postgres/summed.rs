//! Results that are computed of sums of encrypted columns: PostgreSQL's values, digits, types, names and errors.

use crate::spelled::{agree, both, refused};

const SCHEMA: &str = r#"
[tables."public.sales"]
small = { id = "7a1b2c3d4e5f7e01", type = "smallint", operations = ["sum"] }
number = { id = "7a1b2c3d4e5f7e02", type = "integer", operations = ["equality", "order", "sum"] }
big = { id = "7a1b2c3d4e5f7e03", type = "bigint", operations = ["sum"] }
price = { id = "7a1b2c3d4e5f7e04", type = "numeric(10,2)", operations = ["sum"] }
free = { id = "7a1b2c3d4e5f7e05", type = "numeric", operations = ["sum"] }
ratio = { id = "7a1b2c3d4e5f7e06", type = "real", operations = ["sum"] }
double = { id = "7a1b2c3d4e5f7e07", type = "double precision", operations = ["sum"] }
name = { id = "7a1b2c3d4e5f7e08", type = "text", operations = ["equality"] }
"#;

const CREATE: &str = "CREATE TABLE sales (id int PRIMARY KEY, kind text, small smallint, number int, big bigint, price numeric(10,2), \
    free numeric, ratio real, double double precision, name text, plain int); \
    INSERT INTO sales VALUES (1, 'a', 3, 7, 9000000000, 12.34, 1.5, 0.5, 2.25, 'x', 1), (2, 'a', 4, -2, 5, 0.01, 2.250, 1.5, 4, 'y', 2), \
    (3, 'b', NULL, NULL, NULL, NULL, NULL, NULL, NULL, 'x', 3), (4, 'c', 2, 5, 9223372036854775807, 99999999.99, 1e20, 3, 0, NULL, NULL), \
    (5, 'c', 1, 5, 1, -7.77, -3, 2, 1, 'z', 5)";

const STATEMENTS: &[&str] = &[
    "SELECT sum(number) * 2 FROM sales",
    "SELECT kind, sum(number) * 2 AS twice, sum(small) + 1, -sum(big), sum(price) * 1.5, 2 * sum(free) FROM sales GROUP BY kind ORDER BY kind",
    "SELECT kind, sum(number) / count(*), sum(big) / count(*), sum(price) / count(*), sum(free) / count(number) FROM sales GROUP BY kind ORDER BY kind",
    "SELECT sum(number) / count(*) FROM sales WHERE id < 0",
    "SELECT sum(number) / nullif(count(*), 0), sum(price) / nullif(count(price), 0) FROM sales WHERE id < 0",
    "SELECT sum(number) / nullif(count(*), 0) AS mean FROM sales",
    "SELECT kind, round(avg(number), 2), round(avg(price), 2) AS mean, round(avg(free)), round(avg(big), -3), round(sum(number), 1) FROM sales GROUP BY kind ORDER BY kind",
    "SELECT kind, round(sum(number)), round(sum(double)), round(avg(double)), round(sum(ratio)), round(avg(ratio)) FROM sales GROUP BY kind ORDER BY kind",
    "SELECT sum(number) - sum(small), sum(price) - sum(free), sum(big) - sum(number) FROM sales",
    "SELECT kind, sum(number) - sum(small), avg(price) - avg(free), sum(number) - avg(number) FROM sales GROUP BY kind ORDER BY kind",
    "SELECT kind, sum(price) / sum(number), sum(number) / sum(price), sum(free) / sum(price), sum(number) / sum(small), sum(number) % sum(small), sum(price) % 7 FROM sales GROUP BY kind ORDER BY kind DESC",
    "SELECT sum(number) / 3, sum(number) % 4, -sum(number) / 4, -sum(number) % 4, sum(number) / -4 FROM sales",
    "SELECT sum(price) / 3, sum(price) / 7.000, sum(free) / 1e10, 1 / sum(price), 100.0 * sum(number) / count(*), sum(price) / 0.03 FROM sales WHERE id < 4",
    "SELECT sum(number) * 100 / count(*), (sum(number) + 1) * (count(*) - 1), ((sum(number))), (sum(number)) + (1) FROM sales",
    "SELECT sum(ratio) * 2, sum(ratio) / 3, sum(ratio) + sum(ratio), sum(ratio) * 0.1, sum(ratio) - sum(number), avg(ratio) * 2 FROM sales",
    "SELECT sum(double) * 2, sum(double) / 3, avg(double) / 7, sum(double) + sum(ratio), sum(double) * 1.1, sum(double) - sum(price), sum(double) / count(*) FROM sales",
    "SELECT sum(double) * 1e308 * 10 FROM sales",
    "SELECT sum(double) / 0 FROM sales",
    "SELECT sum(number) / 0 FROM sales",
    "SELECT sum(number) % 0 FROM sales",
    "SELECT sum(price) / 0 FROM sales",
    "SELECT sum(number) / (count(*) - 5) FROM sales",
    "SELECT sum(number) * 9223372036854775807 FROM sales",
    "SELECT sum(number) * 9223372036854775808 FROM sales",
    "SELECT sum(big) * 2 FROM sales",
    "SELECT coalesce(sum(number), 0) - coalesce(sum(small), 0), coalesce(sum(price), 0) * 2, coalesce(sum(number) * 2, 0) FROM sales WHERE id = 3",
    "SELECT coalesce(sum(number), 0) - coalesce(sum(small), 0), coalesce(sum(price), 0) * 2, coalesce(sum(number) * 2, -1.50) FROM sales",
    "SELECT coalesce(avg(number), 0), coalesce(avg(price), 0.0), coalesce(sum(double), 0), coalesce(sum(ratio), 0), coalesce(sum(number), 0.5), coalesce(avg(ratio), 7) FROM sales WHERE id = 3",
    "SELECT coalesce(avg(number), 0), coalesce(avg(price), 0.0), coalesce(sum(double), 0), coalesce(sum(ratio), 0), coalesce(sum(number), 0.5) FROM sales",
    "SELECT coalesce(round(avg(price), 2), 0) AS price, round(coalesce(avg(number), 0), 3) FROM sales WHERE id = 3",
    "SELECT sum(number)::numeric / count(*), sum(number)::float / count(*), avg(number)::int, avg(price)::numeric(12,1), CAST(sum(price) AS bigint), sum(price)::real, avg(number)::double precision FROM sales",
    "SELECT (sum(number) * 2)::smallint, sum(double)::numeric, sum(number)::numeric(6,3) FROM sales",
    "SELECT sum(price)::smallint FROM sales",
    "SELECT round(sum(price)::numeric / 7, 4) AS share, sum(number) total FROM sales",
    "SELECT sum(number) * 2 total, count(*) FROM sales",
    "SELECT -(sum(number)::numeric(9,1)), coalesce(sum(number)::numeric(9,1), sum(small)::numeric(9,1)) FROM sales",
    "SELECT trunc(avg(number), 2), trunc(avg(price), 1) AS cut, trunc(avg(big), -3), trunc(sum(price), 5), trunc(-sum(price), 1), trunc(avg(number), -2147483648) FROM sales",
    "SELECT round(avg(number), 2500), round(avg(number), 2147483647), round(sum(number), -2147483648) FROM sales",
    "SELECT round(sum(number) * 1e2499, -2500), sum(number) * 1e-16380 * 1e-5 * 1e16380 FROM sales",
    "SELECT sum(free) * 1e70000 * 1e70000 FROM sales",
    "SELECT sum(number) * 1e131070 FROM sales WHERE id = 1",
    "SELECT sum(number) * 1e131071 * 10 FROM sales WHERE id = 1",
    "SELECT sum(number) FILTER (WHERE kind = 'a') * 2, sum(number) FILTER (WHERE name = 'x') - count(*) FILTER (WHERE plain > 2), sum(DISTINCT plain) FROM sales",
    "SELECT count(DISTINCT name) * sum(number), count(name) + sum(small) FROM sales",
    "SELECT name, sum(number) * 2 FROM sales GROUP BY name HAVING count(*) > 0 ORDER BY min(id)",
    "SELECT kind AS k, sum(number) * 2 AS s FROM sales GROUP BY k ORDER BY k LIMIT 2 OFFSET 1",
    "SELECT id, sum(number) OVER (ORDER BY id) * 2, sum(number) OVER (ORDER BY id) - sum(small) OVER () FROM sales ORDER BY id",
    "SELECT (SELECT sum(number) * 2 FROM sales), id FROM sales ORDER BY id LIMIT 1",
    "SELECT s.kind, sum(s.number) - count(*) FROM sales s JOIN sales t ON t.id = s.id GROUP BY s.kind ORDER BY 1",
    "SELECT sum(number) + 1, avg(price) - 1 FROM sales WHERE false",
    "DECLARE c CURSOR WITH HOLD FOR SELECT kind, sum(number) - sum(small) FROM sales GROUP BY kind ORDER BY kind",
    "FETCH ALL FROM c",
    "SELECT sum(number) + plain FROM sales GROUP BY plain ORDER BY plain",
    "SELECT abs(sum(number) * 2) FROM sales",
    "SELECT sum(number) || 'x' FROM sales",
    "SELECT sum(number)::text FROM sales",
    "SELECT sum(number) * 2 > 3 FROM sales",
    "CREATE TABLE totals (kind text, total int)",
];

const REFUSED: &[&str] = &[
    "SELECT sum(number) * 2 AS s FROM sales ORDER BY s",
    "SELECT kind, sum(number) * 2 FROM sales GROUP BY kind ORDER BY 2",
    "SELECT kind FROM sales GROUP BY kind ORDER BY sum(number) * 2",
    "SELECT kind FROM sales GROUP BY kind HAVING sum(number) * 2 > 5",
    "SELECT * FROM (SELECT sum(number) * 2 AS s FROM sales) x",
    "SELECT DISTINCT sum(number) * 2 FROM sales GROUP BY kind",
    "SELECT round(sum(double), 2) FROM sales",
    "SELECT sum(number + 1) FROM sales",
    "SELECT sum(name) * 2 FROM sales",
    "SELECT sum(number) * 2 UNION ALL SELECT 1 FROM sales",
    "INSERT INTO totals SELECT kind, sum(number) * 2 FROM sales GROUP BY kind",
    "CREATE TABLE kept AS SELECT sum(number) * 2 AS total FROM sales",
];

#[tokio::test]
async fn what_is_computed_of_sums_is_as_in_plaintext() {
    let (server, _proxy, clients) = both(SCHEMA, CREATE).await;
    agree(&clients, STATEMENTS).await;
    refused(&server, &clients[1], REFUSED, &[]).await;
}

/// Results in binary, and where a group's values are more than a message is held whole for.
#[tokio::test]
async fn what_is_computed_of_many_values_is_read_as_it_comes() {
    let (_server, _proxy, clients) = both(SCHEMA, CREATE).await;
    let more = "INSERT INTO sales (id, kind, number, price) VALUES ($1, 'many', $2, 1.25)";
    let mut all = Vec::new();
    for client in &clients {
        client.batch_execute("BEGIN").await.unwrap();
        let insert = client.prepare(more).await.unwrap();
        for id in 10..3000 {
            client.execute(&insert, &[&id, &(id % 17)]).await.unwrap();
        }
        client.batch_execute("COMMIT").await.unwrap();
        let asked = "SELECT sum(number) * 2 - count(*), sum(number)::float8 / count(*), (sum(price) - sum(number))::bigint \
                     FROM sales WHERE kind = 'many'";
        let row = client.query_one(asked, &[]).await.unwrap();
        all.push((row.get::<_, i64>(0), row.get::<_, f64>(1).to_bits(), row.get::<_, i64>(2)));
    }
    assert_eq!(all[0], all[1]);
}
