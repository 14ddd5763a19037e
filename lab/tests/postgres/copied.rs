//! `COPY` in binary, in and out: the same bytes as of plain PostgreSQL, however the stream is cut, and its errors.

use crate::pair::Pair;
use bytes::Bytes;
use futures_util::{SinkExt, TryStreamExt};
use tokio_postgres::{Client, SimpleQueryMessage};

const TYPES: [&str; 16] = [
    "smallint",
    "integer",
    "bigint",
    "real",
    "double precision",
    "numeric(12,2)",
    "numeric",
    "text",
    "varchar(9)",
    "date",
    "timestamp",
    "timestamptz",
    "uuid",
    "boolean",
    "bytea",
    "jsonb",
];

const ROWS: [&str; 3] = [
    "-7, -2147483648, 9223372036854775807, 0.1, '-Infinity', -0.05, 1e30, 'it''s', 'straße', '2020-02-29', '1999-12-31 23:59:59.999999', \
     '2000-01-01 00:00:00Z', 'a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11', true, '\\xff00', '{\"a\": 1}'",
    "0, 0, 0, 'NaN', 1e-300, 9999999999.99, 'NaN', '', '', 'infinity', '0001-01-01', '-infinity', \
     '00000000-0000-0000-0000-000000000000', false, '', 'null'",
    "NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL",
];

/// Of each type a column with all that is kept of it, of two tables.
fn schema() -> String {
    let mut text = String::new();
    for (table, first) in [("x", 1_u64), ("y", 101)] {
        text += &format!("[tables.\"public.{table}\"]\n");
        for (place, kind) in TYPES.iter().enumerate() {
            let operations = match *kind {
                "jsonb" => "[]",
                "numeric" | "text" | "varchar(9)" | "bytea" => "[\"equality\"]",
                "integer" => "[\"equality\", \"order\", \"sum\"]",
                _ => "[\"equality\", \"order\"]",
            };
            let id = first + place as u64;
            text += &format!(
                "c{place} = {{ id = \"{id:016x}\", type = \"{kind}\", operations = {operations} }}\n"
            );
        }
    }
    text
}

/// A plain key and a plain text around the others.
fn create(table: &str) -> String {
    let columns: String =
        TYPES.iter().enumerate().map(|(place, kind)| format!("c{place} {kind}, ")).collect();
    format!("CREATE TABLE {table} (id int PRIMARY KEY, {columns}note text NOT NULL DEFAULT 'n')")
}

pub(crate) async fn out(client: &Client, statement: &str) -> Result<Vec<u8>, String> {
    let parts: Vec<Bytes> =
        client.copy_out(statement).await.map_err(said)?.try_collect().await.map_err(said)?;
    Ok(parts.concat())
}

/// SQLSTATE, message, and where it was.
fn said(error: tokio_postgres::Error) -> String {
    let error = error.as_db_error().unwrap_or_else(|| panic!("{error:?}"));
    format!("{} {} {:?}", error.code().code(), error.message(), error.where_())
}

/// Sends a stream in pieces of so many bytes.
pub(crate) async fn sent(
    client: &Client,
    statement: &str,
    stream: &[u8],
    piece: usize,
) -> Result<u64, String> {
    let mut sink = std::pin::pin!(client.copy_in(statement).await.map_err(said)?);
    for piece in stream.chunks(piece) {
        sink.send(Bytes::copy_from_slice(piece)).await.map_err(said)?;
    }
    sink.finish().await.map_err(said)
}

async fn rows(client: &Client, statement: &str) -> Vec<Vec<Option<String>>> {
    let messages = client.simple_query(statement).await.unwrap();
    let row = |message| match message {
        SimpleQueryMessage::Row(row) => {
            Some((0..row.len()).map(|at| row.get(at).map(str::to_owned)).collect())
        }
        _ => None,
    };
    messages.into_iter().filter_map(row).collect()
}

#[tokio::test]
async fn rows_in_binary_are_those_of_plaintext_in_both_directions() {
    let Pair { server, proxy, plain, encrypted } = Pair::start(&schema(), "").await;
    for client in [&plain, &encrypted] {
        client
            .batch_execute(&format!("SET timezone = 'UTC'; {}; {}", create("x"), create("y")))
            .await
            .unwrap();
        for (id, row) in ROWS.iter().enumerate() {
            client.batch_execute(&format!("INSERT INTO x VALUES ({id}, {row})")).await.unwrap();
        }
    }
    for statement in [
        "COPY x TO STDOUT (FORMAT binary)",
        "COPY x (c7, id) TO STDOUT WITH BINARY",
        "COPY (SELECT id, c1, note, c5 FROM x WHERE c1 < 5 ORDER BY id) TO STDOUT (FORMAT binary)",
        "COPY (SELECT sum(c1), count(*), max(c9) FROM x) TO STDOUT (FORMAT binary)",
        "COPY (SELECT id, c1 FROM x WHERE id > 100) TO STDOUT (FORMAT binary)",
        "COPY x TO STDOUT (FORMAT binary, DELIMITER ',')",
    ] {
        let expected = out(&plain, statement).await.map_err(|said| said[..5].to_owned());
        let found = out(&encrypted, statement).await.map_err(|said| said[..5].to_owned());
        assert_eq!(found, expected, "{statement}");
    }
    let stream = out(&plain, "COPY x TO STDOUT (FORMAT binary)").await.unwrap();
    for piece in [1, 7, 100_000] {
        for client in [&plain, &encrypted] {
            client.batch_execute("TRUNCATE y").await.unwrap();
            assert_eq!(
                sent(client, "COPY y FROM STDIN (FORMAT binary)", &stream, piece).await,
                Ok(3),
                "{piece}"
            );
        }
        let all = "SELECT * FROM y ORDER BY id";
        assert_eq!(rows(&encrypted, all).await, rows(&plain, all).await, "{piece}");
        let found = "SELECT id FROM y WHERE c1 < 5 AND c7 IN ('it''s', '') ORDER BY c2, id";
        assert_eq!(rows(&encrypted, found).await, rows(&plain, found).await, "{piece}");
    }
    let (well, doctor) = proxy.doctor(&server, "encrypted", true);
    assert!(well, "{doctor}");
}

/// A stream of rows of one `integer` and a text.
fn stream(rows: &[&[Option<&[u8]>]]) -> Vec<u8> {
    let mut stream = b"PGCOPY\n\xff\r\n\0\0\0\0\0\0\0\0\0".to_vec();
    for row in rows {
        stream.extend(i16::try_from(row.len()).unwrap().to_be_bytes());
        for field in *row {
            let length = field.map_or(-1, |field| i32::try_from(field.len()).unwrap());
            stream.extend(length.to_be_bytes());
            stream.extend(field.unwrap_or_default());
        }
    }
    stream
}

#[tokio::test]
async fn a_stream_that_is_none_is_refused_as_in_plaintext() {
    let Pair { server: _server, proxy: _proxy, plain, encrypted } = Pair::start(&schema(), "").await;
    for client in [&plain, &encrypted] {
        client.batch_execute(&create("x")).await.unwrap();
    }
    let row: &[Option<&[u8]>] = &[Some(&[0, 0, 0, 1]), Some(&[0, 0, 0, 5]), Some(b"a text"), Some(b"note")];
    let good = stream(&[row]);
    let ended = [&good[..], &[0xff, 0xff]].concat();
    let flagged = |flags: u32| [&good[..11], &flags.to_be_bytes(), &good[15..]].concat();
    let long: &[Option<&[u8]>] =
        &[Some(&[0, 0, 0, 3]), Some(&[0, 0, 0, 5]), Some(b"a text of many letters"), None];
    let streams = [
        good.clone(),
        ended.clone(),
        [&ended[..], &[0xff, 0xff]].concat(),
        Vec::new(),
        good[..9].to_vec(),
        good[..11].to_vec(),
        good[..13].to_vec(),
        good[..17].to_vec(),
        [&good[..15], &[0xff, 0xff, 0xff, 0xff]].concat(),
        [&good[..15], &[0, 0, 0, 8, 1, 2, 3]].concat(),
        [&good[..15], &[0, 0, 0, 3, 1, 2, 3], &good[19..]].concat(),
        stream(&[&[row[0], row[1], Some(b"caf\xe9 noir"), row[3]]]),
        stream(&[&[row[0], row[1], Some(b"\xf0\x9f\x98"), row[3]]]),
        stream(&[row, &[row[0]; 5]]),
        [&good[..], &[0, 4, 0, 0]].concat(),
        [&good[..19], &[0xff, 0xfe]].concat(),
        good[..good.len() - 3].to_vec(),
        b"1\t5\ta text\tnote\n".to_vec(),
        flagged(1 << 16),
        flagged(1 << 20),
        flagged(1),
        stream(&[&row[..3]]),
        [&good[..19], &[0, 4, 0xff, 0xff, 0xff, 0xfe]].concat(),
        stream(&[&[None, row[1], row[2], row[3]]]),
        stream(&[&[row[0], row[1], row[2], None]]),
        stream(&[row, row]),
        stream(&[long]),
        stream(&[&[Some(&[0, 0, 0, 4]), None, None, Some(b"bad \0 text")]]),
    ];
    let mut different = Vec::new();
    for (number, stream) in streams.iter().enumerate() {
        let mut found = Vec::new();
        for client in [&plain, &encrypted] {
            client.batch_execute("TRUNCATE x").await.unwrap();
            let came = sent(client, "COPY x (id, c1, c8, note) FROM STDIN (FORMAT binary)", stream, 5).await;
            found.push((came, rows(client, "SELECT id, c1, c8, note FROM x ORDER BY id").await));
        }
        if found[1] != found[0] {
            different.push(format!("stream {number}: {:?}, and not {:?}", found[1], found[0]));
        }
    }
    assert!(different.is_empty(), "{}", different.join("\n"));
}
