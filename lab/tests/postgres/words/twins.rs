//! Two databases of different texts that agree in how often their words are found: PostgreSQL is sent the same messages, but for bytes
//! that are random, and holds values of the same lengths.

use super::CREATE;
use super::host::Host;
use crate::dev::Dev;
use crate::differential::Choices;
use crate::encrypted::rows;
use crate::extended::connect;
use crate::twins::relay::Relay;
use arras_lab::private_postgres::PrivatePostgres;

const SCHEMA: &str = r#"
[tables."public.articles"]
body = { id = "7a1b2c3d4e5f6d01", type = "text", operations = ["text"], max_bytes = 200 }
title = { id = "7a1b2c3d4e5f6d02", type = "varchar(60)", operations = ["text"], language = "simple", max_bytes = 60 }
"#;

/// The word of a number, differently in each world.
fn word(other: bool, of: usize) -> String {
    if other { format!("qqx{of}x") } else { format!("zebra{of}") }
}

fn text(other: bool, choices: &mut Choices) -> String {
    let words: Vec<String> = (0..1 + choices.below(4)).map(|_| word(other, choices.below(12))).collect();
    words.join(" ")
}

fn statement(other: bool, choices: &mut Choices, id: &mut usize) -> String {
    let mut drawn = || word(other, choices.below(12));
    let (one, two, three) = (drawn(), drawn(), drawn());
    match choices.below(9) {
        0..=2 => {
            *id += 1;
            let (body, title) = (text(other, choices), text(other, choices));
            format!("INSERT INTO articles VALUES ({id}, '{body}', '{title}'), ({id} + 1000, '{body}', NULL)")
        }
        3 => format!("UPDATE articles SET body = '{}' WHERE body @@ '{one}'", text(other, choices)),
        4 => format!(
            "SELECT id FROM articles WHERE body @@ to_tsquery('{one} & !{two}') OR title @@ '{three}'"
        ),
        5 => format!("SELECT id FROM articles WHERE body @@ phraseto_tsquery('{one} {two}') ORDER BY id"),
        6 => format!("DELETE FROM articles WHERE body @@ plainto_tsquery('{one} {two} {three}')"),
        7 => format!(
            "SELECT id, body @@ to_tsquery('{one}') FROM articles WHERE title @@ to_tsquery('{two} |')"
        ),
        _ => format!(
            "SELECT count(*) FROM articles WHERE body @@ websearch_to_tsquery('{one} or \"{two} {three}\"')"
        ),
    }
}

/// Kinds and lengths of the messages of one direction; the first has no kind where a client begins.
fn frames(bytes: &[u8], mut at: usize) -> Vec<(u8, usize)> {
    let mut found = Vec::new();
    while let Some(head) = bytes.get(at..at + 5) {
        let length = usize::try_from(u32::from_be_bytes(head[1..].try_into().unwrap())).unwrap();
        found.push((head[0], length));
        at += 1 + length;
    }
    found
}

/// What PostgreSQL saw of the application's session, and the lengths of what it holds.
async fn observed(other: bool, seed: u64) -> (Vec<(u8, usize)>, Vec<Vec<Option<String>>>) {
    let (host, server) = (Host::start(), PrivatePostgres::start().unwrap());
    let relay = Relay::start(server.port());
    let upstream = format!("postgres://postgres@{}/postgres", relay.address);
    let proxy = Dev::searching(&upstream, (SCHEMA, "warn"), Some(host.told()));
    let client = connect(&proxy.uri("postgres")).await;
    client.batch_execute(CREATE).await.unwrap();
    let (mut choices, mut id, mut done) = (Choices::new(seed), 0, 0);
    for _ in 0..120 {
        let text = statement(other, &mut choices, &mut id);
        done += usize::from(client.simple_query(&text).await.is_ok());
    }
    assert!(done > 80, "{done} statements came to a result");
    let searches = b"body$text\" = ANY";
    let is_session = |sent: &[u8]| sent.windows(searches.len()).any(|part| part == searches);
    let recorded = relay.recorded();
    let mut sessions = recorded.iter().filter(|one| is_session(&one.sent));
    let session = sessions.next().unwrap();
    assert!(sessions.next().is_none(), "the application has one");
    let word = if other { "qqx" } else { "zebra" };
    let sends = |sent: &[u8]| sent.windows(word.len()).any(|part| part == word.as_bytes());
    assert!(recorded.iter().all(|one| !sends(&one.sent)), "a word goes to PostgreSQL");
    let startup = usize::try_from(u32::from_be_bytes(session.sent[..4].try_into().unwrap())).unwrap();
    let sent = frames(&session.sent, startup);
    let direct = connect(&server.uri("postgres")).await;
    let held = "SELECT id, length(body), length(\"body$text\"), length(title), length(\"title$text\") FROM articles ORDER BY id";
    (sent, rows(&direct, held).await)
}

#[tokio::test(flavor = "multi_thread")]
async fn what_postgresql_is_sent_for_words_does_not_depend_on_them() {
    let seed = std::env::var("ARRAS_TEST_SEED").map_or(1, |seed| seed.parse().unwrap());
    let ((one, held), (other, held_other)) = (observed(false, seed).await, observed(true, seed).await);
    let differs = one.iter().zip(&other).position(|(one, other)| one != other);
    assert!(
        differs.is_none() && one.len() == other.len(),
        "message {differs:?}: {} {}",
        one.len(),
        other.len()
    );
    assert!(one.len() > 100 && held.len() > 20, "{} messages, {} rows", one.len(), held.len());
    assert_eq!(held, held_other);
    // Another history shows.
    assert_ne!(observed(false, seed + 1).await.0, one);
}
