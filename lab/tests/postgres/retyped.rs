//! Columns that are not encrypted and get another type while sessions are open: what these run then is answered as by plain PostgreSQL.

use crate::extended::connect;
use crate::pair::Pair;
use bytes::{Bytes, BytesMut};
use futures_util::{SinkExt, TryStreamExt};
use tokio_postgres::types::{Format, IsNull, ToSql, Type, to_sql_checked};
use tokio_postgres::{Client, Error, SimpleQueryMessage, Statement};

const SCHEMA: &str = "[tables.\"public.x\"]\n\
    c = { id = \"7a1b2c3d4e5f6c21\", type = \"integer\", operations = [\"equality\", \"order\", \"sum\"] }\n\
    [tables.\"public.y\"]\n\
    c = { id = \"7a1b2c3d4e5f6c22\", type = \"integer\", operations = [\"equality\", \"order\"], order = \"fh_ope\" }\n";

const CREATE: &str = "CREATE TABLE x (id int PRIMARY KEY, note text, c int); CREATE TABLE y (id int, note text, c int); \
    INSERT INTO x VALUES (1, '10', 100), (2, '20', 200), (3, NULL, NULL)";

/// Each is run before a type is changed and behind it.
const STATEMENTS: [&str; 14] = [
    "SELECT id, note, c FROM x ORDER BY id",
    "SELECT c + 1, note FROM x WHERE note = '10' AND c = 100",
    "UPDATE x SET c = c + 1 WHERE note = '20'",
    "UPDATE x SET c = c + 1, note = '30' WHERE id = 3 RETURNING *",
    "UPDATE x SET c = coalesce(c, 0) + 1 RETURNING note, c",
    "INSERT INTO y SELECT id, note, c FROM x",
    "INSERT INTO y (note, c) SELECT note, c FROM x RETURNING *",
    "INSERT INTO x VALUES (1, '11', 7) ON CONFLICT (id) DO UPDATE SET c = x.c + EXCLUDED.c, note = EXCLUDED.note RETURNING *",
    "UPDATE y SET c = 5 WHERE note = '10' RETURNING note, c",
    "EXECUTE named (3, '10')",
    "EXECUTE shown",
    "EXECUTE stored ('12', 5)",
    "COPY x (note, c) TO STDOUT",
    "SELECT note, sum(c) FROM x GROUP BY note ORDER BY note",
];
const PREPARE: &str = "PREPARE named AS SELECT c FROM x WHERE c > $1 AND note = $2; PREPARE shown AS SELECT note, c FROM x; \
    PREPARE stored AS INSERT INTO y (note, c) VALUES ($1, $2)";

/// Statements with parameters, prepared before a type is changed, and what they are given.
const BOUND: [(&str, &[&str]); 12] = [
    ("SELECT id, c FROM x WHERE note = $1 AND c < $2", &["20", "300"]),
    ("SELECT id, c FROM x WHERE c < $1", &["300"]),
    ("SELECT count(*) FROM x WHERE c IN ($1, $2) AND id = $3", &["100", "200", "1"]),
    ("UPDATE x SET c = c + $1, note = $2 WHERE id = $3", &["1", "40", "2"]),
    ("UPDATE x SET c = $1 WHERE id = $2", &["1", "2"]),
    ("UPDATE x SET c = $1, note = $2 WHERE id = $3 RETURNING c", &["1", "40", "2"]),
    ("INSERT INTO y (id, note, c) VALUES ($1, $2, $3)", &["1", "40", "2"]),
    ("INSERT INTO y VALUES ($1, $2, $3)", &["1", "40", "2"]),
    ("INSERT INTO y (id, c) VALUES ($1, $2) RETURNING c", &["1", "2"]),
    ("INSERT INTO y (id, note, c) SELECT id, $1, c + 1 FROM x WHERE c > $2", &["77", "2"]),
    ("INSERT INTO y (id, c) SELECT id, c FROM x WHERE c > $1 RETURNING c", &["2"]),
    ("UPDATE y SET c = $1 WHERE note = $2 RETURNING id", &["2", "40"]),
];

const CHANGES: [&str; 6] = [
    "SELECT",
    "ALTER TABLE x ALTER COLUMN note TYPE varchar(20)",
    "ALTER TABLE y ALTER COLUMN note TYPE int USING note::int",
    "ALTER TABLE x ALTER COLUMN note TYPE int USING note::int; ALTER TABLE y ALTER COLUMN note TYPE int USING note::int",
    "ALTER TABLE x ALTER COLUMN id TYPE bigint",
    "ALTER TABLE y ALTER COLUMN id TYPE text",
];

/// Rows as text, or the SQLSTATE.
type Outcome = Result<Vec<Vec<Option<String>>>, String>;

fn code(error: Error) -> String {
    error.as_db_error().map_or(format!("{error:?}"), |said| said.code().code().to_owned())
}

async fn said(client: &Client, statement: &str) -> Outcome {
    if statement.starts_with("COPY ") {
        let stream = client.copy_out(statement).await.map_err(code)?;
        let parts: Vec<Bytes> = stream.try_collect().await.map_err(code)?;
        return Ok(vec![vec![Some(String::from_utf8(parts.concat()).unwrap())]]);
    }
    let messages = client.simple_query(statement).await.map_err(code)?;
    let row = |message| match message {
        SimpleQueryMessage::Row(row) => {
            Some((0..row.len()).map(|at| row.get(at).map(str::to_owned)).collect())
        }
        _ => None,
    };
    Ok(messages.into_iter().filter_map(row).collect())
}

async fn copied(client: &Client) -> Outcome {
    let sink = client.copy_in("COPY y (id, note, c) FROM STDIN").await.map_err(code)?;
    let mut sink = std::pin::pin!(sink);
    sink.send(Bytes::from_static(b"50\t60\t70\n51\t61\t71\n")).await.map_err(code)?;
    Ok(vec![vec![Some(sink.finish().await.map_err(code)?.to_string())]])
}

/// A value as text, of whatever type it is asked for, and what came as it came.
#[derive(Debug)]
struct Written(&'static str);

impl ToSql for Written {
    fn to_sql(
        &self,
        _: &Type,
        out: &mut BytesMut,
    ) -> Result<IsNull, Box<dyn std::error::Error + Sync + Send>> {
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

/// A connection, and what is prepared in it by the protocol.
struct Connection {
    client: Client,
    prepared: Vec<(&'static str, Statement, Vec<Written>)>,
}

impl Connection {
    async fn begin(uri: &str) -> Self {
        let client = connect(uri).await;
        client.batch_execute(&format!("DROP TABLE IF EXISTS x, y; {CREATE}; {PREPARE}")).await.unwrap();
        let is_bound = |text: &&&str| !text.starts_with("EXECUTE") && !text.starts_with("COPY");
        let texts = STATEMENTS.iter().filter(is_bound).map(|text| (*text, &[][..]));
        let mut prepared = Vec::new();
        for (text, values) in texts.chain(BOUND) {
            let statement = client.prepare(text).await.unwrap();
            prepared.push((text, statement, values.iter().map(|value| Written(value)).collect()));
        }
        Self { client, prepared }
    }

    /// What a statement that was prepared before comes to; rows as many as there are, which are in binary.
    async fn bound(&self, prepared: &Statement, values: &[Written]) -> Outcome {
        let values: Vec<&(dyn ToSql + Sync)> = values.iter().map(|value| value as _).collect();
        Ok(self
            .client
            .query(prepared, &values)
            .await
            .map_err(code)?
            .iter()
            .map(|row| vec![None; row.len()])
            .collect())
    }

    /// Each statement, and what it comes to.
    async fn outcomes(&self) -> Vec<(String, Outcome)> {
        let mut outcomes = Vec::new();
        for statement in STATEMENTS {
            let mut outcome = said(&self.client, statement).await;
            if let (Ok(rows), false) = (&mut outcome, statement.contains("ORDER BY")) {
                rows.sort();
            }
            outcomes.push((statement.to_owned(), outcome));
        }
        outcomes.push(("COPY".to_owned(), copied(&self.client).await));
        for (text, prepared, values) in &self.prepared {
            outcomes.push((format!("prepared: {text}"), self.bound(prepared, values).await));
        }
        outcomes
    }
}

#[tokio::test]
async fn a_plain_column_of_another_type_is_met_as_in_plaintext() {
    let Pair { server, proxy, .. } = Pair::start(SCHEMA, "").await;
    let mut different = Vec::new();
    for change in CHANGES {
        let mut sides = Vec::new();
        for uri in [server.uri("plain"), proxy.uri("encrypted")] {
            let connection = Connection::begin(&uri).await;
            let before = connection.outcomes().await;
            connect(&uri).await.batch_execute(change).await.unwrap();
            sides.push([before, connection.outcomes().await]);
        }
        let [expected, found] = sides.try_into().unwrap();
        for (expected, found) in expected.into_iter().flatten().zip(found.into_iter().flatten()) {
            if expected != found {
                different.push(format!("{change}: {expected:?}, and not {:?}", found.1));
            }
        }
    }
    assert!(different.is_empty(), "{}", different.join("\n"));
}
