//! Random choices (`CASE`, `coalesce`) with casts around them and within, that are stored in encrypted columns of each type or are
//! results: the rows are those of plaintext, or there is an error; no result where PostgreSQL says that a row's value is none.

mod generated;

use crate::differential::{Choices, put_binary};
use crate::pair::Pair;
use bytes::{BufMut, BytesMut};
use generated::{Given, Statement};
use std::collections::BTreeMap;
use tokio_postgres::types::{Format, IsNull, ToSql, Type, to_sql_checked};
use tokio_postgres::{Client, Error, SimpleQueryMessage};

impl ToSql for Given {
    fn to_sql(
        &self,
        ty: &Type,
        out: &mut BytesMut,
    ) -> Result<IsNull, Box<dyn std::error::Error + Sync + Send>> {
        let Some(text) = &self.text else { return Ok(IsNull::Yes) };
        match self.is_binary(ty) {
            true => put_binary(text, ty, out)?,
            false => out.put_slice(text.as_bytes()),
        }
        Ok(IsNull::No)
    }

    fn accepts(_: &Type) -> bool {
        true
    }

    fn encode_format(&self, ty: &Type) -> Format {
        if self.is_binary(ty) { Format::Binary } else { Format::Text }
    }

    to_sql_checked!();
}

impl Given {
    fn is_binary(&self, ty: &Type) -> bool {
        let Some(text) = &self.text else { return false };
        self.binary
            && match *ty {
                Type::INT2 => text.parse::<i16>().is_ok(),
                Type::INT4 => text.parse::<i32>().is_ok(),
                Type::INT8 => text.parse::<i64>().is_ok(),
                Type::FLOAT8 => text.parse::<f64>().is_ok(),
                Type::BOOL => text == "true" || text == "false",
                Type::TEXT | Type::VARCHAR => true,
                _ => false,
            }
    }
}

/// Rows as text, or the SQLSTATE and the message.
type Reply = Result<Vec<Vec<Option<String>>>, (String, String)>;

fn failed(error: &Error) -> (String, String) {
    match error.as_db_error() {
        Some(said) => (said.code().code().to_owned(), said.message().to_owned()),
        None => panic!("{error:?}"),
    }
}

async fn rows(client: &Client, text: &str) -> Reply {
    let messages = client.simple_query(text).await.map_err(|error| failed(&error))?;
    Ok(messages
        .into_iter()
        .filter_map(|message| match message {
            SimpleQueryMessage::Row(row) => {
                Some((0..row.len()).map(|at| row.get(at).map(str::to_owned)).collect())
            }
            _ => None,
        })
        .collect())
}

async fn run(client: &Client, statement: &Statement) -> Reply {
    if statement.given.is_empty() {
        return rows(client, &statement.text).await;
    }
    let prepared =
        client.prepare_typed(&statement.text, &statement.types).await.map_err(|error| failed(&error))?;
    let given: Vec<_> = statement.given.iter().map(|given| given as &(dyn ToSql + Sync)).collect();
    let found = client.query(&prepared, &given).await.map_err(|error| failed(&error))?;
    Ok(vec![vec![Some(found.len().to_string())]])
}

/// All that is in the table, and what is found by its terms.
async fn left(plain: &Client, client: &Client, statement: &Statement) -> Vec<Reply> {
    let mut found = vec![rows(client, "SELECT * FROM t ORDER BY id").await];
    for column in &statement.targets {
        let name = column.name;
        if column.has("order") {
            // Rows of equal values stand in any order.
            found.push(rows(client, &format!("SELECT {name} FROM t ORDER BY {name}")).await);
        }
        if column.has("equality") {
            let text = format!("SELECT DISTINCT {name}::text FROM t WHERE {name} IS NOT NULL ORDER BY 1");
            for value in rows(plain, &text).await.unwrap() {
                let value = value[0].as_ref().unwrap().replace('\'', "''");
                let text = format!("SELECT id FROM t WHERE {name} = '{value}' ORDER BY id");
                found.push(rows(client, &text).await);
            }
        }
    }
    found
}

/// What differs of two replies, cell by cell.
fn difference(expected: &Reply, found: &Reply) -> String {
    let (Ok(one), Ok(other)) = (expected, found) else { return format!("{found:?}, expected {expected:?}") };
    if one.len() != other.len() {
        return format!("{} rows, expected {}", other.len(), one.len());
    }
    let cells = one.iter().flatten().zip(other.iter().flatten());
    let differing =
        cells.filter(|(one, other)| one != other).map(|(one, other)| format!("{other:?}, expected {one:?}"));
    differing.take(6).collect::<Vec<_>>().join("; ")
}

/// What the proxy says of a constant before it is known whether a row meets it.
const OF_A_CONSTANT: [&str; 6] = ["22001", "22003", "22007", "22008", "22P02", "42804"];

/// What PostgreSQL says of types before a row is read, and a proxy that finds every value in its column's type does not.
const OF_TYPES: [&str; 4] = ["22007", "22P02", "42804", "42846"];

/// Does PostgreSQL plan a statement no more than run it: is a constant of it none, whether or not a row meets it?
async fn is_of_the_plan(pair: &Pair, statement: &Statement) -> bool {
    pair.plain.batch_execute("ROLLBACK; BEGIN").await.unwrap();
    !statement.given.is_empty() || rows(&pair.plain, &format!("EXPLAIN {}", statement.text)).await.is_err()
}

/// The SQLSTATE that a statement came to through the proxy, and what is wrong with it.
async fn compared(pair: &Pair, statement: &Statement) -> (String, Option<String>) {
    for client in [&pair.plain, &pair.encrypted] {
        client.batch_execute("BEGIN").await.unwrap();
    }
    let expected = run(&pair.plain, statement).await;
    let found = run(&pair.encrypted, statement).await;
    let code = found.as_ref().err().map_or("00000", |(code, _)| code).to_owned();
    let wrong = match (&expected, &found) {
        (_, Err((code, _))) if code == "0A000" => None,
        (Err(_), Err((code, _))) | (Ok(_), Err((code, _))) if OF_A_CONSTANT.contains(&code.as_str()) => None,
        (Err((one, _)), Err((other, _))) if one == other => None,
        (Err((code, _)), Ok(_)) if OF_TYPES.contains(&code.as_str()) => None,
        (Ok(_), Ok(_)) if expected == found => {
            let expected = left(&pair.plain, &pair.plain, statement).await;
            let found = left(&pair.plain, &pair.encrypted, statement).await;
            let differs = expected.iter().zip(&found).find(|(one, other)| one != other);
            differs.map(|(one, other)| format!("leaves {}", difference(one, other)))
        }
        (Err(_), Ok(_)) if is_of_the_plan(pair, statement).await => None,
        _ => Some(difference(&expected, &found)),
    };
    for client in [&pair.plain, &pair.encrypted] {
        client.batch_execute("ROLLBACK").await.unwrap();
    }
    (code, wrong)
}

#[tokio::test(flavor = "multi_thread")]
async fn choices_and_their_casts_are_as_in_plaintext() {
    let number = |name: &str, default: u64| std::env::var(name).map_or(default, |text| text.parse().unwrap());
    let (seed, count) =
        (number("ARRAS_TEST_SEED", 1), usize::try_from(number("ARRAS_TEST_COUNT", 1000)).unwrap());
    eprintln!("ARRAS_TEST_SEED={seed}");
    let pair = Pair::start(&generated::schema(), &generated::create()).await;
    if seed % 2 == 1 {
        for client in [&pair.plain, &pair.encrypted] {
            client.batch_execute("SET timezone = 'UTC'").await.unwrap();
        }
    }
    let mut choices = Choices::new(seed);
    let (mut wrong, mut codes) = (Vec::new(), BTreeMap::<String, usize>::new());
    for at in 0..count {
        let statement = Statement::draw(&mut choices);
        let (code, found) = compared(&pair, &statement).await;
        *codes.entry(code).or_default() += 1;
        wrong.extend(found.map(|found| format!("{at}: {statement:?}\n   {found}")));
    }
    eprintln!("{codes:?}");
    assert!(wrong.is_empty(), "seed {seed}: {} of {count}\n{}", wrong.len(), wrong.join("\n"));
    let done = codes.get("00000").copied().unwrap_or_default();
    assert!(done > count / 6, "{done} of {count} came to a result");
}
