//! `arras postgres demo`: a PostgreSQL of its own, real data in it, and what it saw of each statement.

mod seen;
mod statements;
mod system;

use super::data::{self, Person};
use super::screen::{Screen, Tone};
use crate::cli::{Failure, PostgresDemoArguments};
use arras_postgres::Schema;
use arras_postgres::report::{ColumnReport, report};
use arras_protocol::leakage::Pattern;
use seen::Log;
use statements::{Does, Rows, Statement};
use std::time::{Duration, Instant};
use system::System;
use tokio_postgres::{Client, NoTls, SimpleQueryMessage};

/// Rows of one insert statement.
const BATCH: usize = 250;

/// What is declared: the schema file that the demonstration's proxy reads.
pub(crate) const SCHEMA: &str = include_str!("postgres/schema.toml");

impl From<tokio_postgres::Error> for Failure {
    fn from(error: tokio_postgres::Error) -> Self {
        let said = error.as_db_error().map_or_else(|| error.to_string(), |said| said.message().to_owned());
        Self::Check(format!("a statement failed: {said}"))
    }
}

/// Runs the demonstration; an error if any answer differs from the plaintext's.
///
/// # Errors
/// [`Failure`]: PostgreSQL is not installed, the system does not start, or answers wrongly.
pub(crate) fn run(arguments: &PostgresDemoArguments) -> Result<(), Failure> {
    let mut people = data::load()?;
    people.truncate(arguments.rows.unwrap_or(people.len()).max(1));
    let screen = Screen::new();
    screen.sql_title(people.len());
    let mut system = System::start()?;
    screen.sql_processes(&system);
    let schema = Schema::parse(SCHEMA, "schema.toml").map_err(|error| Failure::Check(error.to_string()))?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let score = runtime.block_on(tour(&screen, &system, &mut people, &report(&schema)))?;
    screen.sql_summary(&score);
    system.stop();
    match score.wrong() {
        0 => Ok(()),
        wrong => Err(Failure::Check(format!("{wrong} statements did not end as they were to"))),
    }
}

/// How the statements ended.
#[derive(Default)]
struct Score {
    /// Answers as the plaintext's, of how many.
    agreed: [usize; 2],
    /// Statements that the schema does not allow that were refused, of how many.
    refused: [usize; 2],
}

impl Score {
    fn count(&mut self, statement: &Statement, is_right: bool) {
        let [right, all] = if statement.does == Does::Refused { &mut self.refused } else { &mut self.agreed };
        *right += usize::from(is_right);
        *all += 1;
    }

    /// Statements that did not end as they were to.
    fn wrong(&self) -> usize {
        [self.agreed, self.refused].iter().map(|[right, all]| all - right).sum()
    }
}

/// Loads and asks.
async fn tour(
    screen: &Screen,
    system: &System,
    people: &mut Vec<Person>,
    columns: &[ColumnReport],
) -> Result<Score, Failure> {
    let client = connect(&system.proxied).await?;
    let direct = connect(&system.direct).await?;
    let took = load(screen, &client, people).await?;
    let bytes = rows(
        &direct,
        "SELECT pg_total_relation_size('people'), (SELECT sum(pg_total_relation_size(c.oid)) \
        FROM pg_class c WHERE c.relnamespace = 'arras'::regnamespace AND c.relkind = 'r')",
    )
    .await?;
    screen.sql_loaded(people.len(), took, &bytes);
    screen.sql_row(
        &rows(&client, "SELECT * FROM people WHERE id = 1").await?,
        &named_row(&direct, "SELECT * FROM people WHERE id = 1").await?,
    );
    let mut log = Log::open(&system.log())?;
    let statements = statements::all();
    let mut score = Score::default();
    for (number, statement) in statements.iter().enumerate() {
        let plan = planned(&client, statement).await?;
        log.of_statement(&client).await?;
        let began = Instant::now();
        let answer = ask(&client, statement).await?;
        let latency = began.elapsed();
        let seen = log.of_statement(&client).await?;
        let expected = (statement.expect)(people);
        let outcome = Outcome { answer, expected, latency, plan, seen };
        score.count(statement, outcome.agrees(statement));
        screen.sql_statement(number + 1, statement, &outcome, columns);
    }
    Ok(score)
}

/// What a statement brought.
pub(crate) struct Outcome {
    pub(crate) answer: Rows,
    pub(crate) expected: Rows,
    pub(crate) latency: Duration,
    /// How PostgreSQL means to run what it is sent, a line each; nothing of what it is not sent.
    pub(crate) plan: Vec<String>,
    /// What PostgreSQL's own log has of it.
    pub(crate) seen: Vec<String>,
}

impl Outcome {
    pub(crate) fn agrees(&self, statement: &Statement) -> bool {
        let (mut answer, mut expected) = (self.answer.clone(), self.expected.clone());
        if !statement.is_ordered {
            answer.sort();
            expected.sort();
        }
        answer == expected
    }
}

async fn connect(uri: &str) -> Result<Client, Failure> {
    let (client, connection) = tokio_postgres::connect(uri, NoTls).await?;
    tokio::spawn(connection);
    Ok(client)
}

/// Makes the table, then inserts many rows a statement.
async fn load(screen: &Screen, client: &Client, people: &[Person]) -> Result<Duration, Failure> {
    let began = Instant::now();
    client.batch_execute(statements::CREATE).await?;
    let progress = screen.progress(people.len());
    for batch in people.chunks(BATCH) {
        client.batch_execute(&statements::insert(batch)).await?;
        progress.inc(batch.len() as u64);
    }
    progress.finish_and_clear();
    Ok(began.elapsed())
}

/// Asks as an application does; the count of a change, or SQLSTATE and message of a refusal, as one row.
async fn ask(client: &Client, statement: &Statement) -> Result<Rows, Failure> {
    let messages = match client.simple_query(statement.text).await {
        Ok(messages) => messages,
        Err(error) => {
            let Some(said) = error.as_db_error() else { return Err(error.into()) };
            return Ok(vec![vec![Some(said.code().code().to_owned())]]);
        }
    };
    let returns = messages.iter().any(|message| matches!(message, SimpleQueryMessage::RowDescription(_)));
    Ok(messages.iter().filter_map(|message| row(message, returns)).collect())
}

/// What EXPLAIN says through the proxy, as to any client.
async fn planned(client: &Client, statement: &Statement) -> Result<Vec<String>, Failure> {
    let messages = match client.simple_query(&format!("EXPLAIN (COSTS OFF) {}", statement.text)).await {
        Ok(messages) => messages,
        Err(error) if error.as_db_error().is_some() => return Ok(Vec::new()),
        Err(error) => return Err(error.into()),
    };
    let lines = messages.iter().filter_map(|message| row(message, true)).flatten().flatten();
    Ok(lines.collect())
}

fn row(message: &SimpleQueryMessage, returns: bool) -> Option<Vec<Option<String>>> {
    match message {
        SimpleQueryMessage::Row(row) => {
            Some((0..row.len()).map(|at| row.get(at).map(str::to_owned)).collect())
        }
        SimpleQueryMessage::CommandComplete(count) if !returns => Some(vec![Some(count.to_string())]),
        _ => None,
    }
}

async fn rows(client: &Client, text: &str) -> Result<Rows, Failure> {
    let messages = client.simple_query(text).await?;
    Ok(messages.iter().filter_map(|message| row(message, true)).collect())
}

/// The one row of a query, with the names of its columns.
async fn named_row(client: &Client, text: &str) -> Result<Vec<(String, Option<String>)>, Failure> {
    for message in client.simple_query(text).await? {
        if let SimpleQueryMessage::Row(row) = message {
            let named = row.columns().iter().zip(0..);
            return Ok(named
                .map(|(column, at)| (column.name().to_owned(), row.get(at).map(str::to_owned)))
                .collect());
        }
    }
    Ok(Vec::new())
}

impl Screen {
    fn sql_title(&self, rows: usize) {
        self.say(&format!(
            "\n  {}",
            self.paint(Tone::Bold, &format!("Arras: SQL on ciphertext, {rows} real rows"))
        ));
        self.say("  RAND Health Insurance Experiment (public domain): ages, incomes, illnesses, expenses of people.\n");
    }

    fn sql_processes(&self, system: &System) {
        let (key, none) = (self.paint(Tone::Good, "holds the keys"), self.paint(Tone::Bad, "holds none"));
        self.say(&format!(
            "  this program --PostgreSQL--> arras proxy ({key}, process {}) --> PostgreSQL {} ({none}, port {})\n",
            system.proxy(),
            system.version(),
            system.port()
        ));
    }

    fn sql_loaded(&self, people: usize, took: Duration, bytes: &Rows) {
        let size = |at: usize| {
            let text = bytes.first().and_then(|row| row.get(at)).cloned().flatten();
            indicatif::HumanBytes(text.and_then(|text| text.parse().ok()).unwrap_or_default()).to_string()
        };
        let rate = people as f64 / took.as_secs_f64();
        self.say(&format!("  Loaded {people} rows in {:.1} s ({rate:.0} a second).", took.as_secs_f64()));
        self.say(&format!(
            "  PostgreSQL keeps {} of rows and indexes, and {} of trees of order.\n",
            size(0),
            size(1)
        ));
    }

    fn sql_row(&self, plain: &Rows, stored: &[(String, Option<String>)]) {
        self.say(&format!(
            "  {}",
            self.paint(Tone::Bold, "What the application stored, and what PostgreSQL stores")
        ));
        let plain: Vec<&str> =
            plain.iter().flatten().map(|value| value.as_deref().unwrap_or("NULL")).collect();
        self.row("plaintext", None, &plain.join(", "));
        for (name, value) in stored {
            let value = value.as_deref().unwrap_or("NULL");
            let shown: String = value.chars().take(72).collect();
            let rest = if shown.len() < value.len() { "..." } else { "" };
            self.row(name, Some(Tone::Cipher), &format!("{shown}{rest}"));
        }
        self.say("");
    }

    fn sql_statement(
        &self,
        number: usize,
        statement: &Statement,
        outcome: &Outcome,
        columns: &[ColumnReport],
    ) {
        self.say(&format!("  {number:>2}. {}", self.paint(Tone::Bold, statement.kind)));
        self.row("statement", None, statement.text);
        let is_refused = statement.does == Does::Refused;
        let verdict = if outcome.agrees(statement) {
            self.paint(Tone::Good, if is_refused { "refused by the proxy" } else { "= plaintext" })
        } else {
            self.paint(Tone::Bad, &format!("differs from plaintext: {}", described(&outcome.expected)))
        };
        let latency = format!("{:.1} ms", outcome.latency.as_secs_f64() * 1e3);
        self.row("answer", None, &format!("{}  {verdict}  {latency}", described(&outcome.answer)));
        if outcome.plan.is_empty() && !is_refused {
            self.row(
                "plan",
                None,
                "the proxy reads the rows, computes their new values, and writes them one by one",
            );
        }
        for line in &outcome.plan {
            self.row("plan", None, &shortened(line));
        }
        let note = "was refused by the proxy";
        for seen in outcome.seen.iter().filter(|seen| !seen.contains(note)) {
            self.row("PostgreSQL saw", Some(Tone::Cipher), &shortened(seen));
        }
        let terms = columns.iter().flat_map(|column| &column.terms);
        let used = terms.filter(|term| {
            term.name.contains('$') && outcome.seen.iter().any(|seen| seen.contains(&term.name))
        });
        for term in used {
            let described = |patterns: &[Pattern]| {
                patterns.iter().map(|pattern| pattern.describe()).collect::<Vec<_>>().join("; ")
            };
            self.row("leaks", None, &format!("{}: {}", term.name, described(term.leakage.search)));
            if statement.does == Does::Change {
                let change = format!("{}, by the change: {}", term.name, described(term.leakage.update));
                self.row("leaks", None, &change);
            }
        }
        self.say("");
    }

    fn sql_summary(&self, score: &Score) {
        let tone = if score.wrong() == 0 { Tone::Good } else { Tone::Bad };
        let Score { agreed: [agreed, answers], refused: [refused, unallowed] } = score;
        let verdict = format!(
            "{agreed} of {answers} answers are the plaintext's; {refused} of {unallowed} statements that the schema does not allow were refused."
        );
        self.say(&format!("  {}", self.paint(tone, &verdict)));
        self.say("  PostgreSQL never held a key. Its log is what it saw; `arras plan --schema` says what a schema shows.");
        self.say("");
    }
}

/// Rows in a line.
fn described(rows: &Rows) -> String {
    let row = |row: &Vec<Option<String>>| {
        row.iter().map(|value| value.as_deref().unwrap_or("NULL")).collect::<Vec<_>>().join(", ")
    };
    let shown: Vec<String> = rows.iter().take(5).map(row).collect();
    let rest = if rows.len() > 5 { format!(" and {} more rows", rows.len() - 5) } else { String::new() };
    format!("{}{rest}", shown.join(" | "))
}

/// A statement with its long constants cut.
fn shortened(statement: &str) -> String {
    let mut out = String::new();
    for (at, part) in statement.split("\\x").enumerate() {
        if at == 0 {
            out.push_str(part);
            continue;
        }
        let digits = part.find(|c: char| !c.is_ascii_hexdigit()).unwrap_or(part.len());
        let (hex, rest) = part.split_at(digits);
        out.push_str("\\x");
        out.push_str(hex.get(..16).unwrap_or(hex));
        if hex.len() > 16 {
            out.push('~');
        }
        out.push_str(rest);
    }
    out.chars().take(600).collect()
}
