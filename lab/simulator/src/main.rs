//! `cargo xtask simulate`: runs of the simulator, from a seed on.
#![forbid(unsafe_code)]

use arras_engine::mutations::Mutation;
use arras_simulator::indexes::all_orders;
use arras_simulator::plan::Plan;
use arras_simulator::shorten::shorten;
use arras_simulator::{Outcome, run};
use clap::Parser;
use std::io::{self, Write};
use std::process::ExitCode;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// Within so many runs each seeded defect must be found.
const MUTATION_RUNS: u64 = 5000;

/// Runs engine, server and applications in one thread, each run from one seed, with all that can go wrong between them.
#[derive(Debug, Parser)]
#[command(name = "arras-simulator", bin_name = "cargo xtask simulate")]
struct Arguments {
    /// The first seed. A fresh one if none is given.
    #[arg(long)]
    seed: Option<u64>,
    /// How many seeds, one after the other.
    #[arg(long, default_value_t = 1000)]
    runs: u64,
    /// Ends after so many seconds, whatever `--runs` says.
    #[arg(long)]
    seconds: Option<u64>,
    /// The protocol that keeps orders, where it is not to be the seed's choice.
    #[arg(long, value_parser = order)]
    order: Option<&'static str>,
    /// Each protocol keeps orders in its turn, also those that seeds do not choose.
    #[arg(long, conflicts_with = "order")]
    every_order: bool,
    /// Prints what happens in each run, and its sum.
    #[arg(long)]
    trace: bool,
    /// Switches a defect of the engine on: it is to be found.
    #[arg(long, value_parser = mutation)]
    mutation: Option<Mutation>,
    /// Switches each defect on in turn: each must be found within so many runs as CI has time for.
    #[arg(long)]
    mutations: bool,
    /// Goes on after a run that fails.
    #[arg(long)]
    all: bool,
}

fn mutation(name: &str) -> Result<Mutation, String> {
    let found = Mutation::ALL.into_iter().find(|mutation| format!("{mutation:?}") == name);
    found.ok_or_else(|| format!("there are: {:?}", Mutation::ALL))
}

fn order(name: &str) -> Result<&'static str, String> {
    let found = all_orders().into_iter().find(|order| *order == name);
    found.ok_or_else(|| format!("there are: {}", all_orders().join(", ")))
}

/// What keeps orders in the run of a seed, if that is not the seed's choice.
fn forced_order(arguments: &Arguments, seed: u64) -> Option<&'static str> {
    let in_turn = || {
        let orders = all_orders();
        let turn = seed.checked_rem(orders.len() as u64)?;
        orders.get(usize::try_from(turn).ok()?).copied()
    };
    arguments.order.or_else(|| arguments.every_order.then(in_turn).flatten())
}

fn plan(arguments: &Arguments, seed: u64) -> Plan {
    let plan = Plan::new(seed);
    match forced_order(arguments, seed) {
        Some(order) => plan.with_order(order),
        None => plan,
    }
}

fn fresh_seed() -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(now.as_micros()).unwrap_or_default()
}

/// Says how a run failed, and the shortest that does.
fn report(out: &mut impl Write, plan: &Plan, arguments: &Arguments, why: &str) -> io::Result<()> {
    let mutation = arguments.mutation;
    writeln!(out, "seed {} fails: {why}", plan.seed)?;
    let shortest = shorten(plan, mutation);
    let Outcome { wrong, lines, .. } = run(&shortest, mutation, true);
    writeln!(out, "the shortest of its runs that fails: {}", wrong.unwrap_or_default())?;
    writeln!(out, "{shortest:#?}\n{lines}")?;
    let order =
        forced_order(arguments, plan.seed).map(|order| format!(" --order {order}")).unwrap_or_default();
    writeln!(out, "again: cargo xtask simulate --seed {} --runs 1{order}", plan.seed)
}

fn simulate(arguments: &Arguments, out: &mut impl Write) -> io::Result<u64> {
    let first = arguments.seed.unwrap_or_else(fresh_seed);
    writeln!(out, "from seed {first} on")?;
    out.flush()?;
    let began = Instant::now();
    let most = arguments.seconds.map(Duration::from_secs);
    let (mut runs, mut failed) = (0, 0);
    for seed in (first..).take(usize::try_from(arguments.runs).unwrap_or(usize::MAX)) {
        // Each order has one run at least, however long.
        let owed = arguments.every_order && runs < all_orders().len() as u64;
        if !owed && most.is_some_and(|most| began.elapsed() >= most) {
            break;
        }
        let plan = plan(arguments, seed);
        let outcome = run(&plan, arguments.mutation, arguments.trace);
        runs += 1;
        if arguments.trace {
            writeln!(out, "{}seed {seed}: sum {:016x}", outcome.lines, outcome.sum)?;
        }
        if let Some(why) = outcome.wrong {
            failed += 1;
            if arguments.all {
                writeln!(out, "seed {seed} fails: {why}")?;
            } else {
                report(out, &plan, arguments, &why)?;
                break;
            }
        }
        if runs % 1000 == 0 {
            writeln!(out, "{runs} runs, {failed} failed, {} s", began.elapsed().as_secs())?;
            out.flush()?;
        }
    }
    let seconds = began.elapsed().as_secs_f64();
    let rate = f64::from(u32::try_from(runs).unwrap_or(u32::MAX)) / seconds.max(0.001);
    writeln!(out, "{runs} runs, {failed} failed; {rate:.0} a second")?;
    Ok(failed)
}

/// How many of the defects were not found.
fn find_all(arguments: &Arguments, out: &mut impl Write) -> io::Result<u64> {
    let first = arguments.seed.unwrap_or_else(fresh_seed);
    writeln!(out, "from seed {first} on")?;
    let mut missed = 0;
    for mutation in Mutation::ALL {
        let found = (first..first.saturating_add(MUTATION_RUNS))
            .find_map(|seed| Some((seed, run(&plan(arguments, seed), Some(mutation), false).wrong?)));
        match found {
            Some((seed, why)) => {
                let why: String = why.chars().take(160).collect();
                writeln!(out, "{mutation:?}: after {} runs: {why}", seed - first + 1)?;
            }
            None => {
                missed += 1;
                writeln!(out, "{mutation:?}: NOT FOUND in {MUTATION_RUNS} runs")?;
            }
        }
    }
    writeln!(out, "{} of {} defects found", Mutation::ALL.len() as u64 - missed, Mutation::ALL.len())?;
    Ok(missed)
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let out = &mut io::stdout().lock();
    match if arguments.mutations { find_all(&arguments, out) } else { simulate(&arguments, out) } {
        Ok(0) => ExitCode::SUCCESS,
        Ok(_) => ExitCode::FAILURE,
        Err(_) => ExitCode::from(2),
    }
}
