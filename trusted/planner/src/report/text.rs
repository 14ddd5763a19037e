//! The report as text for a terminal.

use super::{CollectionReport, PatternReport};
use arras_service::explanation::Explanation;
use std::collections::BTreeMap;

/// Columns of the text.
const COLUMNS: usize = 100;
/// Columns of what stands before the text of a line.
const LABEL: usize = 10;

/// How a collection's patterns run.
#[derive(Default)]
struct Tally {
    indexed: usize,
    scans: usize,
    refused: usize,
}

impl Tally {
    fn of<'p>(patterns: impl Iterator<Item = &'p PatternReport>) -> Self {
        let mut tally = Self::default();
        for pattern in patterns {
            match &pattern.outcome {
                Ok(explanation) if explanation.scan => tally.scans += 1,
                Ok(_) => tally.indexed += 1,
                Err(_) => tally.refused += 1,
            }
        }
        tally
    }

    fn words(&self) -> String {
        let all = self.indexed + self.scans + self.refused;
        format!(
            "{}: {} by an index, {} by reading everything, {} refused",
            counted(all, "query pattern"),
            self.indexed,
            self.scans,
            self.refused
        )
    }
}

fn counted(count: usize, noun: &str) -> String {
    if count == 1 { format!("1 {noun}") } else { format!("{count} {noun}s") }
}

/// Everything about a schema: a summary, each collection, and the published attacks by number.
#[must_use]
pub fn text(reports: &[CollectionReport]) -> String {
    let mut writer = Writer::default();
    let tally = Tally::of(reports.iter().flat_map(|report| &report.patterns));
    writer.plain(0, &format!("{}, {}", counted(reports.len(), "collection"), tally.words()));
    for report in reports {
        writer.text.push('\n');
        writer.collection(report);
    }
    writer.attacks();
    writer.text
}

/// Builds the text; attacks are listed once, at its end.
#[derive(Default)]
pub(crate) struct Writer {
    text: String,
    attacks: BTreeMap<String, usize>,
}

impl Writer {
    pub(crate) fn blank(&mut self) {
        self.text.push('\n');
    }

    pub(crate) fn finish(self) -> String {
        self.text
    }

    pub(crate) fn plain(&mut self, indent: usize, line: &str) {
        let indent = " ".repeat(indent);
        let further = format!("{indent}  ");
        let options = textwrap::Options::new(COLUMNS).initial_indent(&indent).subsequent_indent(&further);
        self.wrapped(line, options);
    }

    pub(crate) fn labelled(&mut self, indent: usize, label: &str, line: &str) {
        let indent = " ".repeat(indent);
        let first = format!("{indent}{label:<LABEL$}");
        let further = format!("{indent}{:LABEL$}", "");
        let options = textwrap::Options::new(COLUMNS).initial_indent(&first).subsequent_indent(&further);
        self.wrapped(line, options);
    }

    fn wrapped(&mut self, line: &str, options: textwrap::Options<'_>) {
        let options = options.break_words(false).word_splitter(textwrap::WordSplitter::NoHyphenation);
        for line in textwrap::wrap(line, options) {
            self.text.push_str(&line);
            self.text.push('\n');
        }
    }

    fn collection(&mut self, report: &CollectionReport) {
        let list = |items: Vec<String>| if items.is_empty() { "none".to_owned() } else { items.join(", ") };
        self.plain(0, &report.namespace);
        self.plain(2, &Tally::of(report.patterns.iter()).words());
        self.labelled(2, "planned", &list(report.planned.iter().map(ToString::to_string).collect()));
        let encrypted = report.builds.iter().map(|index| format!("{index:#}"));
        let text = report.text.iter().map(|text| format!("{text} at the enclave of boolean search"));
        self.labelled(2, "builds", &list(encrypted.chain(text).collect()));
        for note in &report.notes {
            self.labelled(2, "note", note);
        }
        for pattern in &report.patterns {
            self.text.push('\n');
            self.pattern(pattern);
        }
    }

    fn pattern(&mut self, pattern: &PatternReport) {
        if pattern.name == pattern.clause {
            self.plain(2, &pattern.name);
        } else {
            self.plain(2, &format!("{} ({})", pattern.name, pattern.clause));
        }
        match &pattern.outcome {
            Ok(explanation) => self.explanation(explanation),
            Err(error) => self.labelled(4, "refused", &error.to_string()),
        }
    }

    fn explanation(&mut self, explanation: &Explanation) {
        let numbers: Vec<String> = explanation
            .attacks
            .iter()
            .map(|attack| {
                let next = self.attacks.len() + 1;
                format!("[{}]", self.attacks.entry(attack.clone()).or_insert(next))
            })
            .collect();
        for (label, line) in explanation.lines() {
            match label {
                "attacks" if !numbers.is_empty() => self.labelled(4, label, &numbers.join(" ")),
                _ => self.labelled(4, label, &line),
            }
        }
    }

    fn attacks(&mut self) {
        if self.attacks.is_empty() {
            return;
        }
        self.text.push_str("\npublished attacks, and what they need\n");
        let mut attacks: Vec<(usize, String)> =
            self.attacks.iter().map(|(attack, number)| (*number, attack.clone())).collect();
        attacks.sort();
        for (number, attack) in attacks {
            self.labelled(2, &format!("[{number}]"), &attack);
        }
    }
}
