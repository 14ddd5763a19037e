//! Names that the protocol and SQL have in common: what one prepared, the other runs and closes. PHP, libpq's `PQexecPrepared` and
//! drivers that send `DEALLOCATE` do that.

use crate::encrypted::{rows, texts};
use crate::extended::connect;
use crate::proxy::{Keys, Proxy};
use arras_lab::private_postgres::PrivatePostgres;
use bytes::BytesMut;
use postgres_protocol::IsNull;
use postgres_protocol::message::frontend;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use tokio_postgres::Client;

const SCHEMA: &str = r#"
[tables."public.people"]
name = { id = "91b6c0d2ee4f7a35", type = "text", operations = ["equality"] }
memo = { id = "3e1f5b6c7d809a2b", type = "text" }
"#;

/// Rows that the server can read.
const PLAIN: &str =
    "SELECT 1 FROM people WHERE position('secret'::bytea IN memo) + position('Canary'::bytea IN name) > 0";

/// A connection whose messages are written one by one.
pub(crate) struct Raw(TcpStream, Option<(SocketAddr, i32, i32)>);

impl Raw {
    pub(crate) fn connect(address: SocketAddr) -> Self {
        let mut raw = Self(TcpStream::connect(address).unwrap(), None);
        let mut out = BytesMut::new();
        frontend::startup_message([("user", "postgres"), ("database", "postgres")], &mut out).unwrap();
        let came = raw.ask(&out);
        let (_, key) = came.iter().find(|(kind, _)| *kind == b'K').unwrap();
        let number = |at: usize| i32::from_be_bytes(key[at..at + 4].try_into().unwrap());
        raw.1 = Some((address, number(0), number(4)));
        raw
    }

    /// What cancels the session's statement, and waits until the request has been taken.
    pub(crate) fn canceller(&self) -> impl Fn() + Clone + use<> {
        let (address, process, secret) = self.1.unwrap();
        move || {
            let mut out = BytesMut::new();
            frontend::cancel_request(process, secret, &mut out);
            let mut stream = TcpStream::connect(address).unwrap();
            stream.write_all(&out).unwrap();
            assert_eq!(stream.read_to_end(&mut Vec::new()).unwrap(), 0);
        }
    }

    /// Sends messages, and reads until the database waits: what came, by kind.
    pub(crate) fn ask(&mut self, out: &[u8]) -> Vec<(u8, Vec<u8>)> {
        self.until(out, |(kind, _)| *kind == b'Z')
    }

    /// Sends messages, and reads until one comes that is the last.
    pub(crate) fn until(
        &mut self,
        out: &[u8],
        is_last: impl Fn(&(u8, Vec<u8>)) -> bool,
    ) -> Vec<(u8, Vec<u8>)> {
        self.0.write_all(out).unwrap();
        let mut came = Vec::new();
        loop {
            let mut head = [0; 5];
            self.0.read_exact(&mut head).unwrap();
            let length = u32::from_be_bytes(head[1..].try_into().unwrap()) as usize;
            let mut body = vec![0; length - 4];
            self.0.read_exact(&mut body).unwrap();
            came.push((head[0], body));
            if came.last().is_some_and(&is_last) {
                return came;
            }
        }
    }

    pub(crate) fn query(&mut self, text: &str) -> Vec<(u8, Vec<u8>)> {
        let mut out = BytesMut::new();
        frontend::query(text, &mut out).unwrap();
        self.ask(&out)
    }

    /// Binds what is prepared under a name, describes and executes it.
    pub(crate) fn run(&mut self, before: &[u8], name: &str, values: &[&str]) -> Vec<(u8, Vec<u8>)> {
        let mut out = BytesMut::from(before);
        frontend::describe(b'S', name, &mut out).unwrap();
        let text = |value: &&str, out: &mut BytesMut| {
            out.extend_from_slice(value.as_bytes());
            Ok(IsNull::No)
        };
        frontend::bind("", name, [], values, text, [], &mut out).map_err(|_| ()).unwrap();
        frontend::execute("", 0, &mut out).unwrap();
        frontend::sync(&mut out);
        self.ask(&out)
    }
}

async fn opened() -> (PrivatePostgres, Proxy, Client) {
    let server = PrivatePostgres::start().unwrap();
    let proxy = Proxy::encrypting(&server, SCHEMA, &Keys::default());
    let client = connect(&proxy.uri("postgres")).await;
    client.batch_execute("CREATE TABLE people (id int PRIMARY KEY, name text, memo text)").await.unwrap();
    (server, proxy, client)
}

fn shows(came: &[(u8, Vec<u8>)], text: &str) -> bool {
    let has = |body: &Vec<u8>| body.windows(text.len()).any(|part| part == text.as_bytes());
    came.iter().any(|(kind, body)| *kind == b'D' && has(body))
}

pub(crate) fn failed(came: &[(u8, Vec<u8>)]) -> Option<String> {
    let error = came.iter().find(|(kind, _)| *kind == b'E')?;
    Some(String::from_utf8_lossy(&error.1).into_owned())
}

#[tokio::test]
async fn what_sql_prepared_the_protocol_binds_and_the_server_sees_no_plaintext() {
    let (server, proxy, client) = opened().await;
    let mut raw = Raw::connect(proxy.address);
    assert_eq!(failed(&raw.query("PREPARE p AS INSERT INTO people VALUES ($1, $2, $3)")), None);
    let came = raw.run(&[], "p", &["1", "Canary", "secret"]);
    assert_eq!(failed(&came), None);
    // The client is told of its own types: integer, text, text.
    let told = came.iter().find(|(kind, _)| *kind == b't').unwrap();
    assert_eq!(
        told.1,
        [&3_u16.to_be_bytes()[..], &23_u32.to_be_bytes(), &25_u32.to_be_bytes(), &25_u32.to_be_bytes()]
            .concat()
    );
    assert_eq!(rows(&client, "SELECT name, memo FROM people").await, texts(&[&["Canary", "secret"]]));
    let direct = connect(&server.uri("postgres")).await;
    assert!(direct.query(PLAIN, &[]).await.unwrap().is_empty());
    // Sent ahead, before it is known that it was prepared.
    let mut ahead = BytesMut::new();
    frontend::query("PREPARE q (text, int) AS SELECT memo FROM people WHERE name = $1", &mut ahead).unwrap();
    let came = raw.ask(&ahead);
    assert_eq!(failed(&came), None);
    let came = raw.run(&[], "q", &["Canary", "7"]);
    assert!(shows(&came, "secret"), "{came:?}");
    // The other way round.
    let mut parsed = BytesMut::new();
    frontend::parse("s", "INSERT INTO people VALUES ($1, $2, $3)", [], &mut parsed).unwrap();
    frontend::parse("Mixed", "SELECT memo FROM people WHERE name = $1", [], &mut parsed).unwrap();
    frontend::parse("u", "UPDATE people SET name = name || $1", [], &mut parsed).unwrap();
    frontend::sync(&mut parsed);
    assert_eq!(failed(&raw.ask(&parsed)), None);
    assert_eq!(failed(&raw.query("EXECUTE s (2, 'Bob', 'hidden')")), None);
    assert!(shows(&raw.query("EXECUTE \"Mixed\" ('Bob')"), "hidden"));
    assert!(failed(&raw.query("EXECUTE u ('x')")).unwrap().contains("0A000"));
    let sealed = "SELECT 1 FROM people WHERE position('hidden'::bytea IN memo) > 0";
    assert!(direct.query(sealed, &[]).await.unwrap().is_empty());
    assert_eq!(rows(&client, "SELECT memo FROM people WHERE name = 'Bob'").await, texts(&[&["hidden"]]));
}

#[tokio::test]
async fn names_that_are_closed_unnamed_long_or_quoted_are_the_server_s_own() {
    let (server, proxy, client) = opened().await;
    let direct = connect(&server.uri("postgres")).await;
    let mut raw = Raw::connect(proxy.address);
    assert_eq!(failed(&raw.query("PREPARE p AS INSERT INTO people VALUES ($1, $2, $3)")), None);
    assert_eq!(failed(&raw.run(&[], "p", &["1", "Canary", "secret"])), None);
    // What is closed by the protocol is forgotten, and its name another statement's.
    let mut closed = BytesMut::new();
    frontend::close(b'S', "p", &mut closed).unwrap();
    frontend::parse("p", "SELECT id FROM people WHERE id = $1", [], &mut closed).unwrap();
    let came = raw.run(&closed, "p", &["1"]);
    assert!(failed(&came).is_none() && shows(&came, "1"), "{came:?}");
    // The unnamed statement outlives DEALLOCATE ALL, run by the protocol.
    let mut all = BytesMut::new();
    frontend::parse("d", "DEALLOCATE ALL", [], &mut all).unwrap();
    frontend::parse("", "INSERT INTO people VALUES ($1, $2, $3)", [], &mut all).unwrap();
    let came = raw.run(&all, "d", &[]);
    assert_eq!(failed(&came), None);
    assert_eq!(failed(&raw.run(&[], "", &["3", "Canary", "secret"])), None);
    // A name is compared as far as PostgreSQL does.
    let long = "n".repeat(70);
    assert_eq!(
        failed(&raw.query(&format!("PREPARE {long} AS INSERT INTO people VALUES ($1, $2, $3)"))),
        None
    );
    assert_eq!(failed(&raw.run(&[], &long, &["4", "Canary", "secret"])), None);
    let mut parsed = BytesMut::new();
    let other = "m".repeat(80);
    frontend::parse(&other, "INSERT INTO people VALUES ($1, $2, $3)", [], &mut parsed).unwrap();
    frontend::parse("a\"b", "INSERT INTO people VALUES ($1, $2, $3)", [], &mut parsed).unwrap();
    frontend::sync(&mut parsed);
    assert_eq!(failed(&raw.ask(&parsed)), None);
    assert_eq!(failed(&raw.query(&format!("EXECUTE {other} (5, 'Canary', 'secret')"))), None);
    assert_eq!(failed(&raw.query("EXECUTE \"a\"\"b\" (6, 'Canary', 'secret')")), None);
    assert_eq!(rows(&client, "SELECT id FROM people WHERE name = 'Canary' ORDER BY id").await.len(), 5);
    assert!(direct.query(PLAIN, &[]).await.unwrap().is_empty());
}

/// Tokens and syntax of a text take hundreds of times its bytes: one that is too long is refused before it is read, whatever it hides
/// behind quotes, and a constant of any length is one part.
#[tokio::test(flavor = "multi_thread")]
async fn a_statement_of_too_many_parts_is_refused_before_it_is_read() {
    let (_server, proxy, _client) = opened().await;
    let mut raw = Raw::connect(proxy.address);
    let many = "(1, 'a'), ".repeat(600_000);
    for hidden in ["", "/* ' */ ", "(0, E'\\''), "] {
        let text = format!("INSERT INTO people (id, name) VALUES {hidden}{many}(2, 'b')");
        let refused = failed(&raw.query(&text)).expect("it would take gigabytes");
        assert!(refused.contains("54000") && refused.contains("COPY"), "{refused}");
    }
    let long = "a, ".repeat(1_000_000);
    let text = format!("INSERT INTO people (id, memo) VALUES (1, '{long}')");
    assert_eq!(failed(&raw.query(&text)), None, "one constant");
    let text = format!("SELECT name FROM people WHERE id IN ({}3)", "2, ".repeat(3000));
    assert_eq!(failed(&raw.query(&text)), None, "what is counted and has room");
}

/// A driver that prepares under a new name each time and closes in SQL: nothing is kept of what is closed.
#[tokio::test]
async fn statements_that_are_deallocated_in_sql_and_cursors_of_ended_transactions_take_no_memory() {
    // In front of it is the least memory that a proxy has.
    let (_server, proxy, _client) = opened().await;
    let mut raw = Raw::connect(proxy.address);
    // 128 MiB, by four times a text of half of one and more.
    let long = "x".repeat(500_000);
    for number in 0..100 {
        let mut out = BytesMut::new();
        let name = format!("pdo_stmt_{number:08x}");
        frontend::parse(&name, &format!("SELECT memo, '{long}' FROM people WHERE name = $1"), [], &mut out)
            .unwrap();
        frontend::sync(&mut out);
        assert_eq!(failed(&raw.ask(&out)), None, "{number}");
        let closing = match number % 3 {
            0 => format!("DEALLOCATE {name}"),
            1 => "DEALLOCATE ALL".to_owned(),
            _ => format!("DEALLOCATE PREPARE \"{name}\""),
        };
        assert_eq!(failed(&raw.query(&closing)), None, "{number}");
    }
    for number in 0..5000 {
        let text = format!("BEGIN; DECLARE c_{number} CURSOR FOR SELECT name FROM people; COMMIT");
        assert_eq!(failed(&raw.query(&text)), None, "{number}");
    }
}

/// However many take what others leave, one after the other.
#[tokio::test]
async fn sessions_that_keep_what_they_can_leave_room_to_who_keeps_little() {
    // The room is of the least memory that a proxy has: 24 MiB for what has a name, of which it takes four times a text and more.
    let (_server, proxy, _client) = opened().await;
    let filler = "x".repeat(200_000);
    let prepare = |raw: &mut Raw, name: &str, filler: &str| {
        let mut out = BytesMut::new();
        let text = format!("SELECT memo, '{filler}' FROM people WHERE name = $1");
        frontend::parse(name, &text, [], &mut out).unwrap();
        frontend::sync(&mut out);
        failed(&raw.ask(&out))
    };
    let mut greedy = Vec::new();
    for _ in 0..5 {
        let mut raw = Raw::connect(proxy.address);
        let refused = (0..1000).find_map(|number| prepare(&mut raw, &format!("s{number}"), &filler));
        assert!(refused.expect("it has its part").contains("53200"));
        greedy.push(raw);
    }
    // What fits into a session's buffers, as ever, and then what does not.
    let mut raw = Raw::connect(proxy.address);
    assert_eq!(prepare(&mut raw, "short", ""), None);
    assert_eq!(prepare(&mut raw, "longer", &filler), None);
    // Who had most was told why.
    let mut said = Vec::new();
    greedy[0].0.read_to_end(&mut said).unwrap();
    let said = String::from_utf8_lossy(&said);
    assert!(said.contains("FATAL") && said.contains("53200") && said.contains("than any other"), "{said}");
}
