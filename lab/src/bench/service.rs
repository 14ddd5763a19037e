//! Rates of single writes and point reads of the whole system: real processes, TLS between them, durable commits.
//!
//! Each installation (this build's, and another build's if one is named) has a server and a proxy with data of its own,
//! and beside them the plaintext store serves the same front end from memory. The loads run in turns over all of them,
//! in many short rounds, so that what else the machine does meets all alike; the median of the rounds is what is printed, and that of
//! their ratios.

pub use super::installation::ServiceError;
use super::installation::{Installation, PATIENCE, Process};
use super::turns::{self, median};
use crate::wire_client::{ClientError, WireClient};
use bson::{Document, doc};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

/// Fields of a document, as YCSB has them.
const FIELDS: usize = 10;
/// Bytes of each.
const FIELD_BYTES: usize = 100;
/// Documents that are read, updated and scanned.
const LOADED: u64 = 20_000;
/// Documents of a scan.
const SCANNED: i64 = 50;
const DATABASE: &str = "bench";
const LOADED_COLLECTION: &str = "loaded";

/// What is asked for.
#[derive(Clone, Debug)]
pub struct ServiceBench {
    /// Executables of this build: `arras`, `arras-server`, `plain_mongo`.
    pub directory: PathBuf,
    /// Executables of another build to compare with: `arras`, `arras-server`.
    pub before: Option<PathBuf>,
    /// How long each load runs in each round.
    pub time: Duration,
    /// How often.
    pub rounds: usize,
}

/// What clients do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Load {
    /// One new document of 1 KB after the other.
    Inserts,
    /// A document by `_id`, or one field of it set, at even odds.
    ReadsAndUpdates,
    /// A document by `_id`.
    PointReads,
    /// Fifty documents from an `_id` on, in its order (YCSB's workload E).
    Scans,
}

/// A rate.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Rate {
    /// `before`, `arras` or `plaintext`.
    pub system: String,
    /// What its clients did.
    pub load: Load,
    /// How many there were.
    pub clients: usize,
    /// Operations a second of all of them together: the median of the rounds.
    pub per_second: f64,
    /// The same, of each round.
    pub each: Vec<f64>,
}

/// What clients connect to.
enum Front {
    Encrypted(Installation),
    Plaintext(Process),
}

/// A front end under load, and the processes behind it.
struct System {
    name: &'static str,
    front: Front,
    /// Collections that inserts have been made into.
    inserted: u64,
}

impl System {
    /// Sets up and starts a proxy and a server.
    fn encrypted(name: &'static str, executables: &Path) -> Result<Self, ServiceError> {
        Ok(Self { name, front: Front::Encrypted(Installation::start(executables)?), inserted: 0 })
    }

    /// Starts the plaintext store behind the same front end.
    fn plaintext(executables: &Path) -> Result<Self, ServiceError> {
        let mut command = Command::new(executables.join("plain_mongo"));
        command.args(["--listen", "127.0.0.1:0"]);
        Ok(Self { name: "plaintext", front: Front::Plaintext(Process::start(command)?), inserted: 0 })
    }

    fn client(&self) -> Result<WireClient, ServiceError> {
        let address = match &self.front {
            Front::Encrypted(installation) => installation.address(),
            Front::Plaintext(process) => &process.address,
        };
        Ok(WireClient::connect(address, PATIENCE)?)
    }

    fn load(&self) -> Result<(), ServiceError> {
        let mut client = self.client()?;
        for first in (0..LOADED).step_by(1000) {
            let documents: Vec<Document> =
                (first..LOADED.min(first + 1000)).map(|number| document(number as i64)).collect();
            client.command(&insertion(LOADED_COLLECTION, documents))?;
        }
        let order = doc! { "key": { "_id": 1 }, "name": "_id_" };
        client.command(&doc! { "createIndexes": LOADED_COLLECTION, "indexes": [order], "$db": DATABASE })?;
        Ok(())
    }

    /// Runs a load; operations a second.
    fn run(&mut self, load: Load, clients: usize, time: Duration) -> Result<f64, ServiceError> {
        self.inserted += 1;
        let inserts = format!("inserts{}", self.inserted);
        let mut connected = (0..clients).map(|_| self.client()).collect::<Result<Vec<_>, _>>()?;
        if load == Load::Inserts {
            // Making the collection is not what is measured.
            connected[0].command(&insertion(&inserts, vec![document(-1)]))?;
        }
        let (stop, done) = (AtomicBool::new(false), AtomicU64::new(0));
        let (next, began) = (AtomicU64::new(0), Instant::now());
        thread::scope(|scope| {
            let workers: Vec<_> = connected
                .into_iter()
                .zip(1_u64..)
                .map(|(mut client, seed)| {
                    let (inserts, stop, done, next) = (&inserts, &stop, &done, &next);
                    scope.spawn(move || {
                        let mut dice = Dice(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15));
                        while !stop.load(Ordering::Relaxed) {
                            let number = next.fetch_add(1, Ordering::Relaxed);
                            client.command(&operation(load, number, inserts, &mut dice))?;
                            done.fetch_add(1, Ordering::Relaxed);
                        }
                        Ok(())
                    })
                })
                .collect();
            thread::sleep(time);
            stop.store(true, Ordering::Relaxed);
            workers.into_iter().try_for_each(|worker| {
                worker.join().unwrap_or_else(|_| Err(ClientError::Wire("a client panicked".into())))
            })
        })?;
        Ok(done.load(Ordering::Relaxed) as f64 / began.elapsed().as_secs_f64())
    }
}

/// Numbers without a pattern (SplitMix64), the same in every run.
struct Dice(u64);

impl Dice {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ (mixed >> 31)
    }
}

fn field(number: i64, position: usize) -> String {
    format!("{number:020}-{position:02}").repeat(FIELD_BYTES / 20 + 1)[..FIELD_BYTES].to_owned()
}

fn document(number: i64) -> Document {
    let mut document = doc! { "_id": number };
    document.extend((0..FIELDS).map(|position| (format!("field{position}"), field(number, position).into())));
    document
}

fn insertion(collection: &str, documents: Vec<Document>) -> Document {
    doc! { "insert": collection, "documents": documents, "$db": DATABASE }
}

fn operation(load: Load, number: u64, inserts: &str, dice: &mut Dice) -> Document {
    let id = (dice.next() % LOADED) as i64;
    let read = || doc! { "find": LOADED_COLLECTION, "filter": { "_id": id }, "limit": 1, "$db": DATABASE };
    match load {
        Load::Inserts => insertion(inserts, vec![document(number as i64)]),
        Load::PointReads => read(),
        Load::Scans => {
            let from = doc! { "_id": { "$gte": id.min(LOADED as i64 - SCANNED) } };
            let sort = doc! { "_id": 1 };
            doc! { "find": LOADED_COLLECTION, "filter": from, "sort": sort, "limit": SCANNED, "$db": DATABASE }
        }
        Load::ReadsAndUpdates if dice.next().is_multiple_of(2) => read(),
        Load::ReadsAndUpdates => {
            let position = (dice.next() % FIELDS as u64) as usize;
            let set = doc! { format!("field{position}"): field(number as i64, position) };
            let update = doc! { "q": { "_id": id }, "u": { "$set": set } };
            doc! { "update": LOADED_COLLECTION, "updates": [update], "$db": DATABASE }
        }
    }
}

/// What is measured of each system, and with how many clients.
const LOADS: [(Load, usize); 5] = [
    (Load::Inserts, 1),
    (Load::Inserts, 16),
    (Load::ReadsAndUpdates, 8),
    (Load::PointReads, 8),
    (Load::Scans, 1),
];

/// Measures, telling `tell` how long it will take, what comes next, and each rate as soon as it is there.
///
/// # Errors
/// [`ServiceError`].
pub fn run(bench: &ServiceBench, tell: &dyn Fn(&str)) -> Result<Vec<Rate>, ServiceError> {
    let number = 2 + usize::from(bench.before.is_some());
    let runs = bench.rounds * LOADS.len() * number;
    let seconds = bench.time.as_secs_f64() * runs as f64;
    tell(&format!("{runs} runs of {} ms: at least {seconds:.0} s", bench.time.as_millis()));
    let mut systems =
        vec![System::encrypted("arras", &bench.directory)?, System::plaintext(&bench.directory)?];
    if let Some(before) = &bench.before {
        systems.insert(0, System::encrypted("before", before)?);
    }
    systems.iter().try_for_each(System::load)?;
    let mut rates: BTreeMap<(usize, usize), Vec<f64>> = BTreeMap::new();
    for round in 1..=bench.rounds {
        for (position, (load, clients)) in LOADS.into_iter().enumerate() {
            for (number, system) in systems.iter_mut().enumerate() {
                let what = format!(
                    "round {round} of {}: {load:?}, {clients} clients, {}",
                    bench.rounds, system.name
                );
                tell(&what);
                let rate = system.run(load, clients, bench.time)?;
                tell(&format!("{what}: {rate:.0} a second"));
                rates.entry((position, number)).or_default().push(rate);
            }
        }
    }
    Ok(rates
        .into_iter()
        .map(|((position, number), each)| {
            let (load, clients) = LOADS[position];
            let system = systems[number].name.to_owned();
            Rate { system, load, clients, per_second: median(each.clone()), each }
        })
        .collect())
}

/// The rate of `system` under a load; none if it was not measured.
fn rate<'r>(rates: &'r [Rate], system: &str, load: Load, clients: usize) -> Option<&'r Rate> {
    rates.iter().find(|rate| (rate.system.as_str(), rate.load, rate.clients) == (system, load, clients))
}

/// What the rates are to be judged by: each a name, a ratio, and what it is to be at least, if anything.
#[must_use]
pub fn ratios(rates: &[Rate]) -> Vec<(&'static str, f64, Option<f64>)> {
    use Load::{Inserts, PointReads, ReadsAndUpdates, Scans};
    let ratio = |over: (&str, Load, usize), under: (&str, Load, usize)| {
        let (over, under) = (rate(rates, over.0, over.1, over.2)?, rate(rates, under.0, under.1, under.2)?);
        Some(turns::ratio(&over.each, &under.each))
    };
    [
        ("inserts, 16 clients against one", ratio(("arras", Inserts, 16), ("arras", Inserts, 1)), Some(5.0)),
        ("inserts, 16 clients against before", ratio(("arras", Inserts, 16), ("before", Inserts, 16)), None),
        ("inserts, one client against before", ratio(("arras", Inserts, 1), ("before", Inserts, 1)), None),
        (
            "reads and updates, 8 clients against before",
            ratio(("arras", ReadsAndUpdates, 8), ("before", ReadsAndUpdates, 8)),
            None,
        ),
        (
            "point reads, 8 clients against plaintext",
            ratio(("arras", PointReads, 8), ("plaintext", PointReads, 8)),
            Some(0.55),
        ),
        (
            "point reads before, 8 clients against plaintext",
            ratio(("before", PointReads, 8), ("plaintext", PointReads, 8)),
            None,
        ),
        (
            "scans of 50, one client against 3 ms each",
            rate(rates, "arras", Scans, 1).map(|rate| rate.per_second * 0.003),
            Some(1.0),
        ),
        ("scans, one client against before", ratio(("arras", Scans, 1), ("before", Scans, 1)), None),
    ]
    .into_iter()
    .filter_map(|(name, ratio, target)| Some((name, ratio?, target)))
    .collect()
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn documents_are_of_a_kilobyte_and_different() {
        let bytes = bson::serialize_to_vec(&document(7)).unwrap().len();
        assert!((1000..1300).contains(&bytes), "{bytes} bytes");
        assert_ne!(document(7), document(8));
    }

    #[test]
    fn ratios_are_of_what_was_measured() {
        let rate = |system: &str, clients, per_second| Rate {
            system: system.to_owned(),
            load: Load::Inserts,
            clients,
            per_second,
            each: vec![per_second; 3],
        };
        let rates = [rate("arras", 1, 100.0), rate("arras", 16, 600.0), rate("before", 1, 50.0)];
        let expected = [
            ("inserts, 16 clients against one", 6.0, Some(5.0)),
            ("inserts, one client against before", 2.0, None),
        ];
        assert_eq!(ratios(&rates), expected);
    }
}
