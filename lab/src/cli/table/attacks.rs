//! What attacks found, as tables.

use super::{render, short};
use crate::attacks::{AttackEnding, AttackResult, AttackRunResult, MARK, Score, TOLERANCE};
use crate::plots;
use std::fmt::Write;

fn percent(share: f64) -> String {
    plots::percent(share * 100.0)
}

/// The measures, and those of the baseline behind them.
fn measures(score: Score, baseline: Score, close: bool) -> Vec<String> {
    let pair = |of: f64, base: f64| format!("{} ({})", percent(of), percent(base));
    let mut cells = vec![pair(score.exact, baseline.exact)];
    if close {
        let either = |close: Option<f64>| close.unwrap_or_default();
        cells.push(pair(either(score.close), either(baseline.close)));
    }
    cells.push(format!("{} ({})", percent(score.error), percent(baseline.error)));
    cells
}

fn row(attack: &AttackResult, close: bool) -> Vec<String> {
    let cost = |of: fn(&crate::attacks::QueryCost) -> Option<f64>| {
        attack.cost.as_ref().and_then(of).map_or_else(|| "-".to_owned(), short)
    };
    let mut cells = vec![attack.marked(), attack.protocol.clone()];
    cells.extend(measures(attack.score, attack.baseline, close));
    cells.extend([
        attack.queries.to_string(),
        cost(|cost| Some(cost.bytes)),
        cost(|cost| Some(cost.messages)),
        cost(|cost| cost.page_io),
    ]);
    cells
}

/// What the score of an attack leaves open, and what the guesses are worth with it guessed too.
fn left_open(attack: &AttackResult) -> Option<String> {
    let (up_to, plain) = (attack.up_to?, attack.as_guessed?);
    let close = plain.close.map(|close| format!(", within {}% {}", TOLERANCE * 100.0, percent(close)));
    Some(format!(
        "{} against {}: {}; as guessed: exact {}{}, error {}",
        attack.marked(),
        attack.protocol,
        up_to.describe(),
        percent(plain.exact),
        close.unwrap_or_default(),
        percent(plain.error)
    ))
}

/// A table of rates and costs, then what each attacker has.
pub(in crate::cli) fn of_attacks(result: &AttackRunResult) -> String {
    let request = &result.request;
    let split = request.group.as_ref().map(|group| format!(", split by {group}")).unwrap_or_default();
    let mut text = format!(
        "{} records ({}{split}), seed {}; {}% of them have a value that the auxiliary data hold, too\n\
         Rates in percent of the records; in parentheses the best constant guess for each measure.\n\n",
        request.records,
        request.dataset.name(),
        request.seed,
        percent(result.shared)
    );
    let finished = || result.attacks.iter().filter(|attack| attack.ending == AttackEnding::Finished);
    let close = finished().any(|attack| attack.score.close.is_some());
    let within = format!("within {}%", TOLERANCE * 100.0);
    let headings = ["attack", "protocol", "exact", &within, "error, % of span"];
    let costs = ["queries", "bytes", "messages", "page I/O"];
    let shown = headings.into_iter().filter(|heading| close || *heading != within).chain(costs);
    let rows: Vec<Vec<String>> = finished().map(|attack| row(attack, close)).collect();
    text.push_str(&render(&shown.collect::<Vec<_>>(), &rows));
    text.push_str("\nBytes, messages and page I/O are those of a query.");
    if !close {
        let _ = write!(text, " Within {}% of so small a span is exact.", TOLERANCE * 100.0);
    }
    text.push('\n');
    if finished().any(|attack| attack.up_to.is_some()) {
        let _ = writeln!(
            text,
            "\n{MARK} up to what the attacker cannot tell, as papers on reconstruction score:"
        );
        for line in finished().filter_map(left_open) {
            let _ = writeln!(text, "  {line}");
        }
    }
    let mut said: Vec<(&str, &str)> = Vec::new();
    for attack in finished() {
        if !said.contains(&(&attack.attack, &attack.knowledge)) {
            said.push((&attack.attack, &attack.knowledge));
            // Writing to a string does not fail.
            let _ = writeln!(
                text,
                "\n{} ({})\n  attacker: {}\n  assumes: {}\n  leakage: {}",
                attack.attack,
                attack.citation,
                attack.knowledge,
                attack.assumes.join("; "),
                attack.leakage.join("; ")
            );
        }
    }
    for attack in &result.attacks {
        let (what, against) = (&attack.attack, &attack.protocol);
        let _ = match &attack.ending {
            AttackEnding::Finished => Ok(()),
            AttackEnding::Skipped(why) => writeln!(text, "\n{what} against {against}: not attempted: {why}"),
            AttackEnding::Stopped => writeln!(text, "\n{what} against {against}: stopped"),
            AttackEnding::Failed(why) => writeln!(text, "\n{what} against {against}: failed: {why}"),
        };
    }
    text
}
