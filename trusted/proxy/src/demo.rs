//! `arras demo`: the main job on real data, over the wire, with what the server saw of each query.

mod data;
mod operations;
pub(crate) mod postgres;
mod screen;
mod system;
mod transcript;

use crate::cli::{DemoArguments, Failure};
use crate::wire_client::{ClientError, WireClient};
use data::Person;
use operations::{Expected, Operation};
use screen::Screen;
use std::time::{Duration, Instant};
use system::System;
use transcript::Seen;

/// Documents of one insert command.
const BATCH: usize = 500;

impl From<ClientError> for Failure {
    fn from(error: ClientError) -> Self {
        Self::Check(match error {
            ClientError::Io(error) => format!("talking to the proxy: {error}"),
            ClientError::Wire(what) => format!("the proxy's reply is not MongoDB's protocol: {what}"),
            ClientError::Refused(reply) => {
                let why = reply.get_str("errmsg").map_or_else(|_| reply.to_string(), str::to_owned);
                format!("the proxy refused a command: {why}")
            }
        })
    }
}

/// Runs the demonstration; an error if any answer differs from the plaintext's.
///
/// # Errors
/// [`Failure`]: the system does not start, or answers wrongly.
pub fn run(arguments: &DemoArguments) -> Result<(), Failure> {
    crate::cli::prepare_server()?;
    let mut people = data::load()?;
    people.truncate(arguments.rows.unwrap_or(people.len()).max(1));
    let screen = Screen::new();
    screen.title(people.len());
    let mut system = System::start(arguments.keep.clone())?;
    screen.processes(&system);
    let mut client = WireClient::connect(&system.address, None)?;
    let mut seen = Seen::open(&system.transcript)?;

    let loading = load(&screen, &mut client, &people)?;
    // The last circuits of the load are made behind its last reply.
    std::thread::sleep(Duration::from_millis(500));
    let stored = seen.since()?;
    screen.loaded(people.len(), loading, &stored, &system.sizes());
    screen.stored_document(&people[0], &stored);

    let mut agreed = 0;
    let operations = operations::all();
    for (number, operation) in operations.iter().enumerate() {
        let outcome = perform(&mut client, &mut seen, operation, &mut people)?;
        agreed += usize::from(outcome.agrees());
        screen.operation(number + 1, operation, &outcome);
    }
    screen.summary(agreed, operations.len(), &system);
    system.stop();
    if agreed == operations.len() {
        Ok(())
    } else {
        let wrong = operations.len() - agreed;
        Err(Failure::Check(format!("{wrong} of {} answers differ from the plaintext's", operations.len())))
    }
}

/// What an operation brought.
pub(crate) struct Outcome {
    answer: Expected,
    expected: Expected,
    latency: Duration,
    explained: bson::Document,
    seen: transcript::Observations,
}

impl Outcome {
    fn agrees(&self) -> bool {
        self.answer == self.expected
    }
}

/// Creates the indexes, then inserts over the wire.
fn load(screen: &Screen, client: &mut WireClient, people: &[Person]) -> Result<Duration, Failure> {
    let began = Instant::now();
    client.command(&operations::create_indexes())?;
    let progress = screen.progress(people.len());
    for batch in people.chunks(BATCH) {
        client.command(&operations::insert(batch))?;
        progress.inc(batch.len() as u64);
    }
    progress.finish_and_clear();
    Ok(began.elapsed())
}

fn perform(
    client: &mut WireClient,
    seen: &mut Seen,
    operation: &Operation,
    people: &mut Vec<Person>,
) -> Result<Outcome, Failure> {
    let explained = match &operation.explain {
        Some(command) => client.command(command)?,
        None => bson::Document::new(),
    };
    // What explaining asked of the server is not the query's.
    seen.since()?;
    let began = Instant::now();
    let answer = (operation.run)(client)?;
    let latency = began.elapsed();
    // Repairs follow the results; the server's view of the query includes them.
    std::thread::sleep(Duration::from_millis(60));
    let observed = seen.since()?;
    let expected = (operation.expect)(people);
    Ok(Outcome { answer, expected, latency, explained, seen: observed })
}
