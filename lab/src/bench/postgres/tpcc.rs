//! TPC-C with its sensitive columns encrypted against plaintext: rates, what a transaction of each kind takes, and processor time,
//! which is the same on a machine that does something else besides.

use super::{
    Figure, PostgresBench, PostgresBenchError, Proxy, TERMINALS, Target, connect, figure, make_databases,
    median, ratio, rewriting,
};
use crate::bench::processor::{taken, taken_by_postgres};
use crate::private_postgres::PrivatePostgres;
use crate::tpcc::driver::{Done, Run, Terminals, Until};
use crate::tpcc::schema::{AS_IN_PLAINTEXT, SENSITIVE};
use crate::tpcc::{Scale, TpccError, load};
use nix::unistd::Pid;
use std::time::Instant;

/// A tenth of the specification's warehouse.
const SCALE: Scale = Scale { warehouses: 2, items: 10_000, customers: 300, orders: 300 };

/// One of the two that are compared.
struct Side<'a> {
    server: &'a PrivatePostgres,
    proxy: Proxy,
    terminals: Terminals,
    /// Transactions a second, of each round.
    rates: Vec<f64>,
    /// Milliseconds of processor time a transaction, of each round: the proxy's, PostgreSQL's.
    processor: [Vec<f64>; 2],
    /// Milliseconds that went by in rounds.
    passed: f64,
}

impl<'a> Side<'a> {
    /// Starts a proxy, fills the tables, and connects the terminals.
    async fn start(
        bench: &PostgresBench,
        server: &'a PrivatePostgres,
        (database, schema): (&'static str, &str),
        tell: &dyn Fn(&str),
    ) -> Result<Self, PostgresBenchError> {
        let proxy = Proxy::start(&bench.directory, server, database, schema)?;
        let began = Instant::now();
        load(&connect(&proxy.uri()).await?, SCALE, 1).await?;
        tell(&format!("{database}: loaded in {:.1} s", began.elapsed().as_secs_f64()));
        // As autovacuum does within minutes. Without statistics both sides look for a customer's number by the index of last names,
        // and read all of a district: 115 pages in plaintext, 301 encrypted, in place of three.
        connect(&server.uri(database)).await?.batch_execute("ANALYZE").await?;
        let uri = proxy.uri();
        let terminals = Terminals::connect(Run { scale: SCALE, terminals: TERMINALS, seed: 1 }, || async {
            connect(&uri).await.map_err(|source| TpccError::Database { doing: "connecting", source })
        });
        let terminals = terminals.await?;
        let (rates, processor) = (Vec::new(), [Vec::new(), Vec::new()]);
        Ok(Self { server, proxy, terminals, rates, processor, passed: 0.0 })
    }

    /// Seconds of processor time until now: the proxy's, PostgreSQL's.
    fn processor_time(&self) -> std::io::Result<[f64; 2]> {
        let proxy = taken(Pid::from_raw(self.proxy.process.id().cast_signed()))?;
        Ok([proxy, taken_by_postgres(&self.server.data())?])
    }

    /// Runs the mix until the measurement may begin: what a session does the first times, and PostgreSQL plans, is not of the steady
    /// state (TPC-C, clause 5.5).
    async fn ramp_up(
        &mut self,
        bench: &PostgresBench,
        tell: &dyn Fn(&str),
    ) -> Result<(), PostgresBenchError> {
        let done = self.terminals.run(Until::Elapsed(bench.time)).await?;
        tell(&format!("{}, ramp-up", said(self.proxy.database, &done)));
        Ok(())
    }

    /// Runs the mix once.
    async fn round(&mut self, bench: &PostgresBench, tell: &dyn Fn(&str)) -> Result<(), PostgresBenchError> {
        let before = self.processor_time()?;
        let done = self.terminals.run(Until::Elapsed(bench.time)).await?;
        let transactions = done.committed.values().sum::<u64>().max(1) as f64;
        let after = self.processor_time()?;
        for ((list, after), before) in self.processor.iter_mut().zip(after).zip(before) {
            list.push((after - before) * 1000.0 / transactions);
        }
        self.rates.push(done.throughput());
        self.passed += done.elapsed.as_secs_f64() * 1000.0;
        tell(&said(self.proxy.database, &done));
        Ok(())
    }

    /// The medians of processor time a transaction, in milliseconds: the proxy's, PostgreSQL's.
    fn processor_ms(&self) -> [f64; 2] {
        self.processor.clone().map(median)
    }
}

/// What is told of a round.
fn said(database: &str, done: &Done) -> String {
    let kinds: Vec<String> =
        done.mean_ms().into_iter().map(|(kind, mean)| format!("{kind} {mean:.2} ms")).collect();
    let (rate, again) = (done.throughput(), done.conflicts);
    format!("{database}: {rate:.0} transactions a second, {again} again; {}", kinds.join(", "))
}

/// Runs both in turns.
pub(super) async fn measured(
    bench: &PostgresBench,
    server: &PrivatePostgres,
    tell: &dyn Fn(&str),
) -> Result<Vec<Figure>, PostgresBenchError> {
    make_databases(server, &["tpcc_plain", "tpcc_encrypted"]).await?;
    let mut plain = Side::start(bench, server, ("tpcc_plain", ""), tell).await?;
    let mut encrypted = Side::start(bench, server, ("tpcc_encrypted", SENSITIVE), tell).await?;
    connect(&server.uri(encrypted.proxy.database)).await?.batch_execute(AS_IN_PLAINTEXT).await?;
    for side in [&mut plain, &mut encrypted] {
        side.ramp_up(bench, tell).await?;
    }
    let before = rewriting(server, encrypted.proxy.database).await?;
    for _ in 0..bench.turns() {
        for side in [&mut plain, &mut encrypted] {
            side.round(bench, tell).await?;
        }
    }
    let spent = rewriting(server, encrypted.proxy.database).await? - before;
    Ok(figures(&plain, &encrypted, spent))
}

/// What both came to; `spent` milliseconds went into rewriting encodings.
fn figures(plain: &Side<'_>, encrypted: &Side<'_>, spent: f64) -> Vec<Figure> {
    let [plain_rate, encrypted_rate] = [plain, encrypted].map(|side| median(side.rates.clone()));
    let ([plain_proxy, plain_postgres], [proxy, postgres]) = (plain.processor_ms(), encrypted.processor_ms());
    let of_both = (proxy + postgres) / (plain_proxy + plain_postgres);
    vec![
        figure("TPC-C, plaintext through the proxy", "transactions/s", plain_rate, Target::None),
        figure("TPC-C, encrypted", "transactions/s", encrypted_rate, Target::None),
        figure(
            "TPC-C, encrypted against plaintext, both through the proxy",
            "ratio",
            ratio(&encrypted.rates, &plain.rates),
            Target::AtLeast(0.75),
        ),
        figure("TPC-C, plaintext, the proxy's processor time a transaction", "ms", plain_proxy, Target::None),
        figure("TPC-C, encrypted, the proxy's processor time a transaction", "ms", proxy, Target::None),
        figure(
            "TPC-C, plaintext, PostgreSQL's processor time a transaction",
            "ms",
            plain_postgres,
            Target::None,
        ),
        figure("TPC-C, encrypted, PostgreSQL's processor time a transaction", "ms", postgres, Target::None),
        figure("TPC-C, processor time of both, encrypted against plaintext", "ratio", of_both, Target::None),
        figure(
            "TPC-C, of the time for rewriting encodings",
            "%",
            100.0 * spent / encrypted.passed,
            Target::AtMost(3.0),
        ),
    ]
}
