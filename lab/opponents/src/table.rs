//! Timing of two operations in turns, and the table.

use std::time::Instant;

/// Turns that each operation gets. The least is taken: other work on the machine only adds.
const TURNS: usize = 500;

/// A turn takes about this long: less than the scheduler lets another process run, so that many are undisturbed.
const TURN_NS: u128 = 300_000;

/// Prints a row as soon as it is measured.
pub struct Table(());

/// What is aimed at.
pub enum Target {
    /// At most so many nanoseconds for ours.
    Ns(f64),
    /// At least so many times faster than the opponent.
    Faster(f64),
}

impl Table {
    /// Prints the heading.
    pub fn new() -> Self {
        println!("{:<44} {:>12} {:>14} {:>8}  target", "operation", "ours ns", "opponent ns", "ratio");
        Self(())
    }

    /// Measures an operation of ours and, in turns with it, an opponent's. `each` operations are done by one call.
    pub fn row(
        &mut self,
        operation: &str,
        targets: &[Target],
        each: usize,
        mut ours: impl FnMut(),
        opponent: Option<(&str, &mut dyn FnMut())>,
    ) {
        let mut nanoseconds = [f64::INFINITY; 2];
        let calls = calibrate(&mut ours);
        let (name, mut opponent) = opponent.map_or(("", None), |(name, work)| (name, Some(work)));
        let opponent_calls = opponent.as_mut().map_or(0, |work| calibrate(work));
        for _ in 0..TURNS {
            nanoseconds[0] = nanoseconds[0].min(time(calls, &mut ours) / each as f64);
            if let Some(work) = &mut opponent {
                nanoseconds[1] = nanoseconds[1].min(time(opponent_calls, work) / each as f64);
            }
        }
        let ratio = nanoseconds[1] / nanoseconds[0];
        let verdicts: Vec<String> = targets
            .iter()
            .map(|target| match target {
                Target::Ns(most) => format!("{most} ns {}", verdict(nanoseconds[0] <= *most)),
                Target::Faster(least) => format!("{least}x {}", verdict(ratio >= *least)),
            })
            .collect();
        let (theirs, ratio) = if opponent_calls == 0 {
            (String::from("-"), String::from("-"))
        } else {
            (format!("{:.2}", nanoseconds[1]), format!("{ratio:.2}"))
        };
        println!(
            "{operation:<44} {:>12.2} {theirs:>14} {ratio:>8}  {} {name}",
            nanoseconds[0],
            verdicts.join(", ")
        );
    }
}

fn verdict(met: bool) -> &'static str {
    if met { "(met)" } else { "(MISSED)" }
}

/// Calls that take about a turn.
fn calibrate(mut work: impl FnMut()) -> usize {
    let mut calls = 1;
    loop {
        let start = Instant::now();
        (0..calls).for_each(|_| work());
        let taken = start.elapsed().as_nanos();
        if taken * 4 >= TURN_NS {
            return (calls as u128 * TURN_NS / taken.max(1)).max(1) as usize;
        }
        calls *= 2;
    }
}

fn time(calls: usize, mut work: impl FnMut()) -> f64 {
    let start = Instant::now();
    (0..calls).for_each(|_| work());
    start.elapsed().as_nanos() as f64 / calls as f64
}
