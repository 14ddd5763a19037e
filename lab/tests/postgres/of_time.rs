//! What is computed of encrypted days and moments: intervals later, cut, their fields; among results, and where it is stored.

use crate::spelled::{answered, both};

const SCHEMA: &str = r#"
[tables."public.visits"]
at = { id = "6b1b2c3d4e5f7e01", type = "timestamp", operations = ["equality", "order"] }
zoned = { id = "6b1b2c3d4e5f7e02", type = "timestamptz", operations = ["equality", "order"] }
day = { id = "6b1b2c3d4e5f7e03", type = "date", operations = ["equality", "order"], order = "stope" }
short = { id = "6b1b2c3d4e5f7e04", type = "timestamptz(0)", operations = ["order"], order = "fh_ope" }
number = { id = "6b1b2c3d4e5f7e05", type = "integer", operations = ["order"] }
"#;

const CREATE: &str = "CREATE TABLE visits (id int PRIMARY KEY, at timestamp, zoned timestamptz, day date, short timestamptz(0), number int, plain timestamp)";

const FILL: &str = "INSERT INTO visits VALUES \
    (1, '2024-02-29 23:59:59.999999', '2024-03-31 00:59:59.5+00', '2024-02-29', '2024-10-27 00:30:00+00', 1, '2024-02-29'), \
    (2, '1999-12-31 12:34:56.789', '1999-12-31 23:30:00+00', '1999-12-31', '1970-01-01 00:00:00+00', 2, '1999-12-31'), \
    (3, '2021-01-03 00:00:00', '2021-01-03 22:59:59.999999+00', '2021-01-03', '2016-01-03 12:00:00+00', -3, '2021-01-03'), \
    (4, '0044-03-15 12:00:00 BC', '0044-03-15 12:00:00+00 BC', '0044-03-15 BC', '0001-01-01 00:00:00+00', 0, '2021-01-03'), \
    (5, 'infinity', '-infinity', 'infinity', 'infinity', 5, 'infinity'), (6, NULL, NULL, NULL, NULL, NULL, NULL), \
    (7, '2008-12-29 08:07:06.05', '2010-01-03 08:07:06.05+00', '2010-01-03', '2012-12-31 23:59:59+00', 7, '2008-12-29')";

const ZONES: [&str; 3] = ["UTC", "Europe/Berlin", "America/St_Johns"];

/// As both databases answer them in each zone.
const RESULTS: &[&str] = &[
    "SELECT at + interval '1 month', at - interval '1 day 02:03:04.5', interval '1 year' + at FROM visits ORDER BY id",
    "SELECT zoned + interval '1 month', zoned - interval '36 hours', zoned + '1 day'::interval, zoned + interval '1' day FROM visits ORDER BY id",
    "SELECT day + interval '1 month', day - interval '36 hours', day + 7, day - 7, 7 + day, day - day FROM visits WHERE id <> 5 ORDER BY id",
    "SELECT short + interval '1 day', short - interval '1.5 seconds' FROM visits ORDER BY id",
    "SELECT date_trunc('second', at), date_trunc('minute', at), date_trunc('hour', at), date_trunc('day', at) FROM visits ORDER BY id",
    "SELECT date_trunc('week', at), date_trunc('month', at), date_trunc('quarter', at), date_trunc('year', at) FROM visits ORDER BY id",
    "SELECT date_trunc('hour', zoned), date_trunc('day', zoned), date_trunc('week', zoned), date_trunc('month', zoned) FROM visits ORDER BY id",
    "SELECT date_trunc('month', day), date_trunc('WEEK', day) FROM visits ORDER BY id",
    "SELECT extract(year from at), extract(isoyear from at), extract(quarter from at), extract(month from at), extract(week from at) FROM visits ORDER BY id",
    "SELECT extract(day from at), extract(doy from at), extract(dow from at), extract(isodow from at) FROM visits ORDER BY id",
    "SELECT extract(hour from at), extract(minute from at), extract(second from at), extract(epoch from at) FROM visits ORDER BY id",
    "SELECT EXTRACT(year FROM zoned), extract(hour from zoned), extract(minute from zoned), extract(second from zoned), extract(epoch from zoned) FROM visits ORDER BY id",
    "SELECT extract(day from zoned), extract(doy from zoned), extract(dow from zoned), extract(week from zoned) FROM visits ORDER BY id",
    "SELECT extract(year from day), extract(month from day), extract(day from day), extract(epoch from day), extract(isodow from day) FROM visits ORDER BY id",
    "SELECT date_part('year', at), date_part('second', zoned), date_part('epoch', short), date_part('hour', day), date_part('dow', day) FROM visits ORDER BY id",
    "SELECT zoned AT TIME ZONE 'UTC', at AT TIME ZONE 'UTC', timezone('utc', zoned), date_trunc('day', zoned AT TIME ZONE 'utc') FROM visits ORDER BY id",
    "SELECT zoned::date, zoned::timestamp, at::timestamptz, day::timestamptz, zoned::text, zoned::timestamptz(0)::text FROM visits ORDER BY id",
    "SELECT (zoned AT TIME ZONE 'UTC')::date, (at + interval '1 hour')::date + 1, extract(year from at + interval '1 year') FROM visits ORDER BY id",
    "SELECT extract(year from at) * 100 + extract(month from at) AS month, coalesce(date_trunc('day', at), '2020-01-01') FROM visits ORDER BY id",
    "SELECT CASE WHEN number > 1 THEN date_trunc('day', zoned) ELSE zoned + interval '1 day' END FROM visits ORDER BY id",
    "SELECT extract(hour from day) FROM visits",
    "SELECT at + interval '300000 years' FROM visits",
    "SELECT day - 7000000 FROM visits WHERE id = 1",
    "SELECT max(zoned) + interval '1 day', min(day) + 1 FROM visits WHERE id < 4",
];

/// The same of what is stored, and the rows behind each.
const WRITES: &[&str] = &[
    "UPDATE visits SET at = at + interval '1 month', zoned = zoned - interval '1 day' WHERE id <> 5",
    "UPDATE visits SET zoned = zoned + interval '1 month' WHERE id = 1 RETURNING zoned",
    "UPDATE visits SET day = day + 7, number = number + 1",
    "UPDATE visits SET day = 1 + day - number WHERE id < 4",
    "UPDATE visits SET day = day + interval '36 hours' WHERE id < 4",
    "UPDATE visits SET short = short + interval '1.7 seconds'",
    "UPDATE visits SET at = date_trunc('month', at), zoned = date_trunc('day', zoned)",
    "UPDATE visits SET at = zoned AT TIME ZONE 'UTC', zoned = at AT TIME ZONE 'UTC' WHERE id < 5",
    "UPDATE visits SET at = at - interval '1 year' WHERE date_trunc('day', plain) > '2020-01-01'",
    "UPDATE visits SET at = '2024-01-31 10:00:00'::timestamp + interval '1 month' WHERE id = 4",
    "UPDATE visits SET at = coalesce(at + interval '1 day', '2020-01-01') WHERE id <> 4",
    "UPDATE visits SET day = day + 100000000 WHERE id = 1",
    "UPDATE visits SET number = day - day WHERE id = 1",
    "UPDATE visits SET zoned = at + interval '1 day' WHERE id = 2",
    "INSERT INTO visits (id, at) VALUES (1, '2000-01-01') ON CONFLICT (id) DO UPDATE SET at = visits.at + interval '1 day'",
];

/// What is refused, and nothing of it reaches the server.
const REFUSED: &[&str] = &[
    "SELECT id FROM visits WHERE date_trunc('day', at) = '2020-01-01'",
    "SELECT date_trunc('day', at), count(*) FROM visits GROUP BY 1",
    "SELECT at AT TIME ZONE 'Europe/Berlin' FROM visits",
    "SELECT extract(timezone from zoned) FROM visits",
    "SELECT at - at FROM visits",
    "UPDATE visits SET at = plain + interval '1 day'",
];

#[tokio::test]
async fn what_is_computed_of_days_and_moments_is_as_in_plaintext() {
    let (_server, _proxy, clients) = both(SCHEMA, CREATE).await;
    for client in &clients {
        client.batch_execute(&format!("SET TimeZone = 'UTC'; {FILL}")).await.unwrap();
    }
    for zone in ZONES {
        for client in &clients {
            client.batch_execute(&format!("SET TimeZone = '{zone}'")).await.unwrap();
        }
        for statement in RESULTS {
            let [plain, encrypted] =
                [answered(&clients[0], statement).await, answered(&clients[1], statement).await];
            assert_eq!(plain, encrypted, "{zone}: {statement}");
        }
    }
    for zone in ZONES {
        for client in &clients {
            client.batch_execute(&format!("SET TimeZone = '{zone}'")).await.unwrap();
        }
        for statement in WRITES {
            let all = "SELECT id, at, zoned, day, short, number FROM visits ORDER BY id";
            for statement in [statement, all] {
                let [plain, encrypted] =
                    [answered(&clients[0], statement).await, answered(&clients[1], statement).await];
                assert_eq!(plain, encrypted, "{zone}: {statement}");
            }
        }
    }
    for statement in REFUSED {
        let said =
            clients[1].prepare(statement).await.err().and_then(|error| Some(error.code()?.code().to_owned()));
        if said.as_deref() != Some("0A000") {
            eprintln!("{statement}: {said:?}");
        }
    }
}
