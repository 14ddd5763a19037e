//! Rates of attacks.

use super::{Axis, BarPanel, BarRow, Line, LinePanel, PlotError, Scale, bar_chart, line_chart};
use crate::attacks::{AttackEnding, AttackResult, AttackRunResult, CurvePoint, MARK, Score, UpTo};
use std::collections::BTreeSet;

/// What is drawn of a score.
type Rate = fn(&Score) -> Option<f64>;

/// Measures and the names of their panels.
const RATES: [(&str, Rate); 3] = [
    ("exactly recovered, %", |score| Some(score.exact * 100.0)),
    ("recovered within 1% of the span, %", |score| score.close.map(|close| close * 100.0)),
    ("mean error, % of the span", |score| Some(score.error * 100.0)),
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
    let open = finished.iter().filter_map(|attack| attack.up_to);
    let open: Vec<&str> = open.map(UpTo::describe).collect::<BTreeSet<_>>().into_iter().collect();
    let mark = if open.is_empty() { String::new() } else { format!("; {MARK} {}", open.join(" or ")) };
    let title =
        format!("Attacks, {} records ({}){mark}", result.request.records, result.request.dataset.name());
    if finished.iter().all(|attack| !attack.curve.is_empty()) {
        return line_chart(&title, &curves(&finished), 2);
    }
    let row = |attack: &&AttackResult, of: Rate| BarRow {
        label: label(attack),
        values: vec![of(&attack.score), of(&attack.baseline)],
    };
    let panels: Vec<BarPanel> = drawn(&finished)
        .map(|(name, of)| BarPanel {
            title: (*name).to_owned(),
            scale: Scale::Percent,
            rows: finished.iter().map(|attack| row(attack, *of)).collect(),
        })
        .collect();
    bar_chart(&title, &["attack".to_owned(), "best constant guess".to_owned()], &panels, 1)
}

fn label(attack: &AttackResult) -> String {
    format!("{}, {}", attack.marked(), attack.protocol)
}

/// The measures that there are.
fn drawn(finished: &[&AttackResult]) -> impl Iterator<Item = &'static (&'static str, Rate)> {
    RATES.iter().filter(|(_, of)| finished.iter().any(|attack| of(&attack.score).is_some()))
}

fn curves(finished: &[&AttackResult]) -> Vec<LinePanel> {
    let line = |attack: &&AttackResult, of: Rate| {
        let point = |point: &CurvePoint| Some((point.queries as f64, of(&point.score)?));
        Line { label: label(attack), points: attack.curve.iter().filter_map(point).collect() }
    };
    drawn(finished)
        .map(|(name, of)| LinePanel {
            title: (*name).to_owned(),
            x_title: "queries".to_owned(),
            y_axis: Axis::Percent,
            lines: finished.iter().map(|attack| line(attack, *of)).collect(),
        })
        .collect()
}
