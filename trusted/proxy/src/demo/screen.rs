//! What the demonstration shows.

use super::Outcome;
use super::data::Person;
use super::operations::Operation;
use super::system::System;
use super::transcript::{Observation, Observations};
use arras_protocol::Protocol;
use arras_protocol::{arx_eq, arx_range, documents, unique, write};
use bson::{Bson, Document};
use indicatif::{HumanBytes, HumanCount, ProgressBar, ProgressStyle};
use std::io::IsTerminal;
use std::time::Duration;

/// Width of the labels on the left.
const LABEL: usize = 16;
/// Characters of a line's text.
const TEXT: usize = 100;
/// Bytes of ciphertext shown.
const SAMPLE: usize = 24;

/// The terminal, or a file: colours in the first only.
pub(crate) struct Screen {
    colours: bool,
}

/// How a piece of text stands out.
#[derive(Clone, Copy)]
pub(crate) enum Tone {
    Bold,
    Dim,
    Good,
    Bad,
    Cipher,
}

#[allow(clippy::print_stdout, reason = "what the command is for")]
fn say(line: &str) {
    println!("{line}");
}

impl Screen {
    pub(crate) fn new() -> Self {
        Self { colours: std::io::stdout().is_terminal() && std::env::var_os("NO_COLOR").is_none() }
    }

    pub(crate) fn paint(&self, tone: Tone, text: &str) -> String {
        let code = match tone {
            Tone::Bold => "1",
            Tone::Dim => "2",
            Tone::Good => "1;32",
            Tone::Bad => "1;31",
            Tone::Cipher => "33",
        };
        if self.colours { format!("\x1b[{code}m{text}\x1b[0m") } else { text.to_owned() }
    }

    /// A line as it is.
    pub(crate) fn say(&self, line: &str) {
        say(line);
    }

    /// A label and its text, wrapped under itself.
    pub(crate) fn row(&self, label: &str, tone: Option<Tone>, text: &str) {
        for (number, line) in wrapped(text).iter().enumerate() {
            let label = if number == 0 { label } else { "" };
            let line = tone.map_or_else(|| line.clone(), |tone| self.paint(tone, line));
            say(&format!("     {} {line}", self.paint(Tone::Dim, &format!("{label:<LABEL$}"))));
        }
    }

    pub(crate) fn title(&self, documents: usize) {
        let title =
            format!("Arras: MongoDB queries on ciphertext, {} real documents", HumanCount(documents as u64));
        say(&format!("\n  {}", self.paint(Tone::Bold, &title)));
        say(
            "  RAND Health Insurance Experiment (public domain): ages, incomes, illnesses, expenses of people.\n",
        );
    }

    pub(crate) fn processes(&self, system: &System) {
        let (key, none) = (self.paint(Tone::Good, "holds the keys"), self.paint(Tone::Bad, "holds none"));
        say(&format!(
            "  this program --MongoDB--> arras proxy ({key}, process {}) --TLS 1.3--> arras-server ({none})\n",
            system.proxy()
        ));
    }

    pub(crate) fn progress(&self, documents: usize) -> ProgressBar {
        let style =
            ProgressStyle::with_template("  loading {wide_bar} {human_pos}/{human_len}  {per_sec}  {eta}");
        let bar = ProgressBar::new(documents as u64);
        bar.with_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()))
    }

    pub(crate) fn loaded(&self, documents: usize, took: Duration, seen: &Observations, sizes: &(u64, u64)) {
        let (received, _) = bytes(seen);
        let rate = documents as f64 / took.as_secs_f64();
        say(&format!(
            "  Loaded {} documents with 4 indexes in {:.1} s ({} a second).",
            HumanCount(documents as u64),
            took.as_secs_f64(),
            HumanCount(rate as u64)
        ));
        say(&format!(
            "  The server received {}, and keeps {} on disk; the proxy keeps {} (counters, catalog).\n",
            HumanBytes(received),
            HumanBytes(sizes.0),
            HumanBytes(sizes.1)
        ));
    }

    pub(crate) fn stored_document(&self, person: &Person, seen: &Observations) {
        say(&format!(
            "  {}",
            self.paint(Tone::Bold, "What the application stored, and what the server stores")
        ));
        self.row("plaintext", None, &person.document().to_string());
        let is_write = |observation: &&Observation| observation.protocol == write::Write::ID.0;
        if let Some(write) = seen.iter().rfind(is_write) {
            self.row("server's bytes", Some(Tone::Cipher), &sample(&write.request, SAMPLE * 6));
        }
        say("");
    }

    pub(crate) fn operation(&self, number: usize, operation: &Operation, outcome: &Outcome) {
        say(&format!("  {number:>2}. {}", self.paint(Tone::Bold, operation.kind)));
        self.row("query", None, operation.text);
        let verdict = if outcome.agrees() {
            self.paint(Tone::Good, "= plaintext")
        } else {
            self.paint(Tone::Bad, &format!("differs from plaintext: {}", outcome.expected.describe()))
        };
        let latency = format!("{:.1} ms", outcome.latency.as_secs_f64() * 1e3);
        let answer = format!("{}  {verdict}  {latency}", outcome.answer.describe());
        say(&format!("     {} {answer}", self.paint(Tone::Dim, &format!("{:<LABEL$}", "answer"))));
        self.plan(&outcome.explained);
        self.server_saw(&outcome.seen);
        say("");
    }

    fn plan(&self, explained: &Document) {
        let Ok(plan) = explained.get_document("arras") else {
            return;
        };
        let indexes: Vec<String> = strings_of(plan.get("indexes"), "index");
        let index = if indexes.is_empty() { String::new() } else { format!("{}: ", indexes.join(" and ")) };
        self.row("plan", None, &format!("{index}{}", strings(plan.get("steps")).join("; ")));
        if let Ok(advice) = plan.get_str("advice") {
            self.row("advice", None, advice);
        }
        let search =
            plan.get_document("leakage").map(|leakage| strings(leakage.get("search"))).unwrap_or_default();
        let leaks = if search.is_empty() { "nothing about the query".to_owned() } else { search.join("; ") };
        self.row("leaks", None, &leaks);
    }

    fn server_saw(&self, seen: &Observations) {
        for (protocol, name) in protocols() {
            let calls: Vec<&Observation> = seen.iter().filter(|call| call.protocol == protocol).collect();
            let Some(first) = calls.first() else { continue };
            let (received, answered) = calls.iter().fold((0, 0), |(received, answered), call| {
                (received + call.request_bytes as u64, answered + call.response_bytes as u64)
            });
            let microseconds: u64 = calls.iter().map(|call| call.microseconds).sum();
            let text = format!(
                "{name}: {} in {}, out {}, {:.1} ms",
                if calls.len() == 1 { "1 call,".into() } else { format!("{} calls,", calls.len()) },
                HumanBytes(received),
                HumanBytes(answered),
                microseconds as f64 / 1e3
            );
            self.row("server saw", None, &text);
            self.row("", Some(Tone::Cipher), &format!("-> {}", sample(&first.request, SAMPLE)));
            if first.response_bytes > SAMPLE / 2 {
                self.row("", Some(Tone::Cipher), &format!("<- {}", sample(&first.response, SAMPLE)));
            }
        }
    }

    pub(crate) fn summary(&self, agreed: usize, operations: usize, system: &System) {
        let tone = if agreed == operations { Tone::Good } else { Tone::Bad };
        let verdict = format!("{agreed} of {operations} answers are the plaintext's.");
        say(&format!("  {}", self.paint(tone, &verdict)));
        say("  The server never held a key: what it saw above is all it saw, and all that is on its disk.");
        if let Some(directory) = system.kept() {
            say(&format!("  Its store and its whole transcript are in {}.", directory.display()));
        }
        say("");
    }
}

fn protocols() -> [(u8, &'static str); 5] {
    [
        (arx_eq::ArxEq::ID.0, "equality search (ArxEq)"),
        (arx_range::ArxRange::ID.0, "range search (ArxRange)"),
        (unique::Unique::ID.0, "unique look-up"),
        (documents::Documents::ID.0, "sealed documents"),
        (write::Write::ID.0, "writes and repaired circuits"),
    ]
}

fn bytes(seen: &Observations) -> (u64, u64) {
    let received = seen.iter().map(|call| call.request_bytes as u64).sum();
    (received, seen.iter().map(|call| call.response_bytes as u64).sum())
}

/// The end of a message's recorded bytes, in groups: beginnings are lengths and names.
fn sample(hexadecimal: &str, bytes: usize) -> String {
    let start = hexadecimal.len().saturating_sub(bytes * 2);
    let shown = hexadecimal.get(start..).unwrap_or_default();
    let groups: Vec<&str> =
        shown.as_bytes().chunks(8).filter_map(|group| std::str::from_utf8(group).ok()).collect();
    groups.join(" ")
}

fn strings(value: Option<&Bson>) -> Vec<String> {
    let items = value.and_then(Bson::as_array).map(Vec::as_slice).unwrap_or_default();
    items.iter().filter_map(|item| item.as_str().map(str::to_owned)).collect()
}

fn strings_of(value: Option<&Bson>, field: &str) -> Vec<String> {
    let items = value.and_then(Bson::as_array).map(Vec::as_slice).unwrap_or_default();
    let text = |item: &Bson| item.as_document().and_then(|item| item.get_str(field).ok()).map(str::to_owned);
    items.iter().filter_map(text).collect()
}

/// Text in lines of about [`TEXT`] characters, broken at spaces.
fn wrapped(text: &str) -> Vec<String> {
    let mut lines = vec![String::new()];
    for word in text.split(' ') {
        let line = lines.last_mut().map_or(0, |line| line.chars().count());
        if line > 0 && line + 1 + word.chars().count() > TEXT {
            lines.push(String::new());
        }
        if let Some(line) = lines.last_mut() {
            if !line.is_empty() {
                line.push(' ');
            }
            line.push_str(word);
        }
    }
    lines
}
