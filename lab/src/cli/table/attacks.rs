//! What attacks found, as tables.

use super::{render, short};
use crate::attacks::{AttackEnding, AttackResult, AttackRunResult, Score, TOLERANCE};
use std::fmt::Write;

fn percent(share: f64) -> String {
    format!("{:.1}", share * 100.0)
}

/// Three measures, and those of the baseline behind them.
fn measures(score: Score, baseline: Score) -> Vec<String> {
    let pair = |of: f64, base: f64| format!("{} ({})", percent(of), percent(base));
    vec![
        pair(score.exact, baseline.exact),
        pair(score.close, baseline.close),
        format!("{} ({})", short(score.error * 100.0), short(baseline.error * 100.0)),
    ]
}

fn row(attack: &AttackResult) -> Vec<String> {
    let cost = |of: fn(&crate::attacks::QueryCost) -> Option<f64>| {
        attack.cost.as_ref().and_then(of).map_or_else(|| "-".to_owned(), short)
    };
    let symmetry = match attack.score_up_to_symmetry {
        Some(score) => percent(score.exact),
        None => "-".to_owned(),
    };
    let mut cells = vec![attack.attack.clone(), attack.protocol.clone()];
    cells.extend(measures(attack.score, attack.baseline));
    cells.extend([
        symmetry,
        attack.queries.to_string(),
        cost(|cost| Some(cost.bytes)),
        cost(|cost| Some(cost.messages)),
        cost(|cost| cost.page_io),
    ]);
    cells
}

/// A table of rates and costs, then what each attacker has.
pub(in crate::cli) fn of_attacks(result: &AttackRunResult) -> String {
    let request = &result.request;
    let mut text = format!(
        "{} records ({}), seed {}\nRates in percent of the records; in parentheses what the best guess without the server gets.\n\n",
        request.records,
        request.dataset.name(),
        request.seed
    );
    let close = format!("within {}%", TOLERANCE * 100.0);
    let headings = [
        "attack",
        "protocol",
        "exact",
        &close,
        "error, % of span",
        "exact*",
        "queries",
        "bytes",
        "messages",
        "page I/O",
    ];
    let finished = || result.attacks.iter().filter(|attack| attack.ending == AttackEnding::Finished);
    text.push_str(&render(&headings, &finished().map(row).collect::<Vec<_>>()));
    text.push_str(
        "\nexact*: with what the attacker cannot see (direction, rotation) told to it. Bytes, messages and page I/O \
         are those of a query.\n",
    );
    let mut said: Vec<(&str, &str)> = Vec::new();
    for attack in finished() {
        if !said.contains(&(&attack.attack, &attack.knowledge)) {
            said.push((&attack.attack, &attack.knowledge));
            // Writing to a string does not fail.
            let _ = writeln!(
                text,
                "\n{} ({})\n  attacker: {}\n  leakage: {}",
                attack.attack,
                attack.citation,
                attack.knowledge,
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
