//! The comparison as text for a terminal.

use super::{Comparison, Recovery, recovery};
use crate::kinds::{Candidate, OrderChoice};
use crate::report::Writer;
use arras_protocol::leakage::Pattern;

/// Everything, field by field.
#[must_use]
pub fn text(comparisons: &[Comparison]) -> String {
    let mut writer = Writer::default();
    if comparisons.is_empty() {
        writer.plain(0, "no pattern ranges over a field or orders its first results by one");
    }
    for comparison in comparisons {
        of_one(&mut writer, comparison);
    }
    writer.finish()
}

fn of_one(writer: &mut Writer, comparison: &Comparison) {
    let Comparison { namespace, need, adversary, statistics, .. } = comparison;
    let kind = need.kind.map_or(String::new(), |kind| format!(", {}", kind.name()));
    writer.plain(
        0,
        &format!("{namespace}: order of {}{kind}, of index ({})", comparison.field(), need.fields.join(", ")),
    );
    let taken = comparison.taken.map_or("none", |taken| taken.name());
    let how = match comparison.order {
        OrderChoice::Auto => "auto takes".to_owned(),
        OrderChoice::Protocol(_) => "the schema names".to_owned(),
    };
    writer.labelled(2, "order", &format!("{how} {taken}, against a {} adversary", adversary.name()));
    let (count, bytes) = (statistics.document_count, statistics.document_bytes);
    writer.labelled(2, "note", &format!("costs are estimates for {count} documents of {bytes} B"));
    writer.labelled(2, "note", &format!("recovery is what the strongest attack of the lab that a {} adversary can carry out found of 1,000 records: values exactly; to within 1 % of their span", adversary.name()));
    for candidate in &comparison.candidates {
        writer.blank();
        of_candidate(writer, comparison, candidate);
    }
    writer.blank();
}

fn of_candidate(writer: &mut Writer, comparison: &Comparison, candidate: &Candidate) {
    let mark = if comparison.is_taken(candidate) { " (taken)" } else { "" };
    writer.plain(2, &format!("{}{mark}: {}", candidate.protocol.name(), candidate.protocol.kind().title));
    if let Some(why) = &candidate.obstacle {
        writer.labelled(4, "not here", why);
    }
    let words = |patterns: &[Pattern]| {
        let words: Vec<&str> = patterns.iter().map(|pattern| pattern.describe()).collect();
        if words.is_empty() { "nothing".to_owned() } else { words.join("; ") }
    };
    writer.labelled(4, "snapshot", &words(candidate.leakage.snapshot));
    writer.labelled(4, "search", &words(candidate.leakage.search));
    writer.labelled(4, "update", &words(candidate.leakage.update));
    for cost in &candidate.searches {
        writer.labelled(4, "query", &format!("about {cost}"));
    }
    writer.labelled(4, "insertion", &format!("about {}", candidate.insertion));
    for data in recovery::data_sets() {
        let found = recovery::of(candidate.protocol.name(), comparison.adversary);
        let best = found.filter(|recovery| recovery.data == data).max_by(|left, right| {
            let key = |recovery: &Recovery| (recovery.close.unwrap_or(recovery.exact), recovery.exact);
            let ((left_close, left_exact), (right_close, right_exact)) = (key(left), key(right));
            left_close.total_cmp(&right_close).then(left_exact.total_cmp(&right_exact))
        });
        if let Some(best) = best {
            writer.labelled(4, "recovery", &in_words(best));
        }
    }
    if recovery::of(candidate.protocol.name(), comparison.adversary).next().is_none() {
        writer.labelled(
            4,
            "recovery",
            "not measured: no attack of the lab that this adversary can carry out has been",
        );
    }
}

fn in_words(recovery: &Recovery) -> String {
    let percent = |share: f64| format!("{:.1} %", share * 100.0);
    let close = |share: Option<f64>| share.map_or(String::new(), |share| format!("; {}", percent(share)));
    let up_to = recovery.up_to.as_ref().map_or(String::new(), |symmetry| format!(", up to {symmetry}"));
    format!(
        "{}: {}{} by {}{up_to}; a guess {}{}",
        recovery.data,
        percent(recovery.exact),
        close(recovery.close),
        recovery.attack,
        percent(recovery.guess_exact),
        close(recovery.guess_close)
    )
}
