//! Many terminals at once.

use super::{Kind, Outcome, Random, Scale, Terminal, TpccError};
use std::collections::BTreeMap;
use std::future::Future;
use std::time::{Duration, Instant};
use tokio_postgres::Client;

/// Who runs transactions.
#[derive(Clone, Copy, Debug)]
pub struct Run {
    /// Of the tables.
    pub scale: Scale,
    /// Connections.
    pub terminals: u32,
    /// Of all random choices.
    pub seed: u64,
}

/// When terminals begin no further transaction.
#[derive(Clone, Copy, Debug)]
pub enum Until {
    /// Each terminal has run so many.
    Transactions(u64),
    /// So much time has gone.
    Elapsed(Duration),
}

/// What was done.
#[derive(Clone, Debug, Default)]
pub struct Done {
    /// Transactions that were committed, by kind.
    pub committed: BTreeMap<&'static str, u64>,
    /// How long those took together, by kind.
    pub took: BTreeMap<&'static str, Duration>,
    /// New-Orders rolled back because of an unused item.
    pub rolled_back: u64,
    /// Transactions that met another one and were run again.
    pub conflicts: u64,
    /// From the first to the last.
    pub elapsed: Duration,
}

impl Done {
    /// Committed transactions a second, of all kinds.
    #[must_use]
    pub fn throughput(&self) -> f64 {
        self.committed.values().sum::<u64>() as f64 / self.elapsed.as_secs_f64().max(f64::MIN_POSITIVE)
    }

    /// Milliseconds of a transaction of each kind, in the mean.
    #[must_use]
    pub fn mean_ms(&self) -> BTreeMap<&'static str, f64> {
        let of = |(kind, took): (&&'static str, &Duration)| {
            let count = self.committed.get(kind).copied().unwrap_or(0).max(1);
            (*kind, took.as_secs_f64() * 1000.0 / count as f64)
        };
        self.took.iter().map(of).collect()
    }

    fn add(&mut self, other: Self) {
        for (kind, count) in other.committed {
            *self.committed.entry(kind).or_default() += count;
        }
        for (kind, took) in other.took {
            *self.took.entry(kind).or_default() += took;
        }
        self.rolled_back += other.rolled_back;
        self.conflicts += other.conflicts;
    }
}

/// Name of a transaction in reports.
#[must_use]
pub const fn name(kind: Kind) -> &'static str {
    match kind {
        Kind::NewOrder => "New-Order",
        Kind::Payment => "Payment",
        Kind::OrderStatus => "Order-Status",
        Kind::Delivery => "Delivery",
        Kind::StockLevel => "Stock-Level",
    }
}

/// Terminals, each on a connection of its own, which run the mix as often as they are asked to.
pub struct Terminals(Vec<Terminal>);

impl Terminals {
    /// Connects them, and prepares their statements.
    ///
    /// # Errors
    /// The first [`TpccError`].
    pub async fn connect<F>(run: Run, connect: impl Fn() -> F) -> Result<Self, TpccError>
    where
        F: Future<Output = Result<Client, TpccError>>,
    {
        let mut terminals = Vec::new();
        for number in 0..run.terminals {
            let warehouse = i32::try_from(number).unwrap_or(0) % run.scale.warehouses + 1;
            let random = Random::new(run.seed ^ u64::from(number + 1) << 32, run.seed);
            terminals.push(Terminal::new(connect().await?, run.scale, warehouse, random).await?);
        }
        Ok(Self(terminals))
    }

    /// Runs the mix on all of them.
    ///
    /// # Errors
    /// The first [`TpccError`] of a terminal; the others stop after their transaction, and none runs any more.
    pub async fn run(&mut self, until: Until) -> Result<Done, TpccError> {
        let started = Instant::now();
        let tasks: Vec<_> =
            self.0.drain(..).map(|terminal| tokio::spawn(one(terminal, until, started))).collect();
        let (mut done, mut terminals) = (Done::default(), Vec::new());
        for task in tasks {
            match task.await {
                Ok(part) => {
                    let (terminal, part) = part?;
                    terminals.push(terminal);
                    done.add(part);
                }
                Err(panicked) => std::panic::resume_unwind(panicked.into_panic()),
            }
        }
        (self.0, done.elapsed) = (terminals, started.elapsed());
        Ok(done)
    }
}

async fn one(mut terminal: Terminal, until: Until, started: Instant) -> Result<(Terminal, Done), TpccError> {
    let (mut done, conflicts) = (Done::default(), terminal.conflicts);
    let mut count = 0;
    loop {
        let is_over = match until {
            Until::Transactions(transactions) => count >= transactions,
            Until::Elapsed(limit) => started.elapsed() >= limit,
        };
        if is_over {
            done.conflicts = terminal.conflicts - conflicts;
            return Ok((terminal, done));
        }
        count += 1;
        let began = Instant::now();
        match terminal.run().await? {
            (kind, Outcome::Committed) => {
                *done.committed.entry(name(kind)).or_default() += 1;
                *done.took.entry(name(kind)).or_default() += began.elapsed();
            }
            (_, Outcome::RolledBack) => done.rolled_back += 1,
        }
    }
}
