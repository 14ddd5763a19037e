//! Rates of attacks.

use super::{Axis, BarPanel, BarRow, Line, LinePanel, PlotError, bar_chart, line_chart};
use crate::attacks::{AttackEnding, AttackResult, AttackRunResult, Score};

/// What is drawn of a score.
type Rate = fn(&Score) -> f64;

/// Measures and the names of their panels.
const RATES: [(&str, Rate); 3] = [
    ("exactly recovered, %", |score| score.exact * 100.0),
    ("recovered within 1% of the span, %", |score| score.close * 100.0),
    ("mean error, % of the span", |score| score.error * 100.0),
];

/// Rates beside the baseline's by attack and protocol; lines over the number of queries if that is what the attacks
/// are about.
///
/// # Errors
/// [`PlotError`].
pub fn of_attacks(result: &AttackRunResult) -> Result<String, PlotError> {
    let finished: Vec<&AttackResult> =
        result.attacks.iter().filter(|attack| attack.ending == AttackEnding::Finished).collect();
    if finished.is_empty() {
        return Err(PlotError("no attack to draw".to_owned()));
    }
    let title = format!("Attacks, {} records ({})", result.request.records, result.request.dataset.name());
    if finished.iter().all(|attack| !attack.curve.is_empty()) {
        return line_chart(&title, &curves(&finished), 2);
    }
    let row = |attack: &&AttackResult, of: Rate| {
        let shown = |score: &Score| Some(of(score)).filter(|value| *value > 0.0);
        BarRow {
            label: format!("{}, {}", attack.attack, attack.protocol),
            values: vec![shown(&attack.resolved()), shown(&attack.baseline)],
        }
    };
    let panels: Vec<BarPanel> = RATES
        .iter()
        .map(|(name, of)| BarPanel {
            title: (*name).to_owned(),
            rows: finished.iter().map(|attack| row(attack, *of)).collect(),
        })
        .collect();
    bar_chart(&title, &["attack".to_owned(), "best guess without the server".to_owned()], &panels, 1)
}

fn curves(finished: &[&AttackResult]) -> Vec<LinePanel> {
    let line = |attack: &&AttackResult, of: Rate| Line {
        label: format!("{}, {}", attack.attack, attack.protocol),
        points: attack.curve.iter().map(|point| (point.queries as f64, of(&point.score))).collect(),
    };
    RATES
        .iter()
        .map(|(name, of)| LinePanel {
            title: (*name).to_owned(),
            x_title: "queries".to_owned(),
            y_axis: Axis::Linear,
            lines: finished.iter().map(|attack| line(attack, *of)).collect(),
        })
        .collect()
}
