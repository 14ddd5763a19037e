//! How a query would run and what it would leak, in words. Holds no value of the query.

use bson::{Document, doc};
use std::fmt;

/// An estimate of what a plan costs.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Cost {
    /// Round trips before the last result is there.
    pub rounds: u64,
    /// Bytes sent before the results.
    pub sent_bytes: u64,
    /// Bytes received.
    pub received_bytes: u64,
    /// Bytes sent after the results, to repair what the search used up.
    pub repair_bytes: u64,
    /// Documents fetched.
    pub documents: u64,
}

impl Cost {
    /// One number to compare by: bytes moved, a round trip counting as many as half a millisecond at 1 Gbit/s.
    #[must_use]
    pub fn weight(&self) -> u64 {
        let round_bytes = 64 * 1024;
        self.rounds
            .saturating_mul(round_bytes)
            .saturating_add(self.sent_bytes)
            .saturating_add(self.received_bytes)
            .saturating_add(self.repair_bytes)
    }

    /// Of both, side by side.
    #[must_use]
    pub fn plus(self, other: Self) -> Self {
        Self {
            // Branches of a union run side by side.
            rounds: self.rounds.max(other.rounds),
            sent_bytes: self.sent_bytes.saturating_add(other.sent_bytes),
            received_bytes: self.received_bytes.saturating_add(other.received_bytes),
            repair_bytes: self.repair_bytes.saturating_add(other.repair_bytes),
            documents: self.documents.saturating_add(other.documents),
        }
    }
}

/// How a query would run.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Explanation {
    /// The indexes it uses, as the application named them and what they are.
    pub indexes: Vec<IndexUse>,
    /// The steps to the documents.
    pub steps: Vec<String>,
    /// How the results come into order.
    pub order: String,
    /// What the proxy checks on each decrypted document, over and above checking everything again.
    pub rechecked: Vec<String>,
    /// Why an index that is used may name documents that do not match, or answers no count and no order alone.
    pub inexact: Vec<String>,
    /// The whole collection is read.
    pub scan: bool,
    /// A count of everything: it is on record.
    pub on_record: bool,
    /// The index that would help.
    pub advice: Option<String>,
    /// An estimate.
    pub cost: Cost,
    /// What one copy of the server's store shows.
    pub snapshot_leakage: Vec<String>,
    /// What this search adds for one who watches the server.
    pub search_leakage: Vec<String>,
    /// What inserts and removals show because of the indexes used.
    pub update_leakage: Vec<String>,
    /// Published attacks that apply.
    pub attacks: Vec<String>,
}

/// An index a query uses.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct IndexUse {
    /// Name of the application's index it was made for.
    pub name: String,
    /// What it is, in the paper's notation.
    pub index: String,
}

impl Explanation {
    /// As a BSON document.
    #[must_use]
    pub fn to_document(&self) -> Document {
        let number = |value: u64| i64::try_from(value).unwrap_or(i64::MAX);
        let indexes: Vec<Document> =
            self.indexes.iter().map(|used| doc! { "name": &used.name, "index": &used.index }).collect();
        let mut document = doc! {
            "indexes": indexes,
            "steps": &self.steps,
            "order": &self.order,
            "recheckedByProxy": &self.rechecked,
            "inexact": &self.inexact,
            "collectionScan": self.scan,
        };
        if let Some(advice) = &self.advice {
            document.insert("advice", advice);
        }
        document.insert(
            "estimatedCost",
            doc! {
                "roundTrips": number(self.cost.rounds),
                "sentBytes": number(self.cost.sent_bytes),
                "receivedBytes": number(self.cost.received_bytes),
                "repairBytes": number(self.cost.repair_bytes),
                "documents": number(self.cost.documents),
            },
        );
        document.insert(
            "leakage",
            doc! {
                "snapshot": &self.snapshot_leakage,
                "search": &self.search_leakage,
                "update": &self.update_leakage,
                "attacks": &self.attacks,
            },
        );
        document
    }
}

impl Explanation {
    /// Its lines: what each is about, and what it says.
    #[must_use]
    pub fn lines(&self) -> Vec<(&'static str, String)> {
        let list = |items: &[String]| {
            if items.is_empty() { "nothing".to_owned() } else { items.join("; ") }
        };
        let uses: Vec<String> = self.indexes.iter().map(|used| used.index.clone()).collect();
        let mut lines = vec![("indexes", if uses.is_empty() { "none".to_owned() } else { uses.join(", ") })];
        lines.extend(self.steps.iter().map(|step| ("step", step.clone())));
        lines.push(("order", self.order.clone()));
        lines.push(("re-check", list(&self.rechecked)));
        lines.extend(self.inexact.iter().map(|why| ("inexact", why.clone())));
        lines.push(("cost", format!("about {}", self.cost)));
        lines.push(("snapshot", list(&self.snapshot_leakage)));
        lines.push(("search", list(&self.search_leakage)));
        lines.push(("update", list(&self.update_leakage)));
        lines.push(("attacks", list(&self.attacks)));
        lines.extend(self.advice.iter().map(|advice| ("advice", advice.clone())));
        lines
    }
}

impl fmt::Display for Explanation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.lines().iter().try_for_each(|(label, line)| writeln!(f, "{label:<9} {line}"))
    }
}

impl fmt::Display for Cost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let moved = format!("{} sent, {} received", size(self.sent_bytes), size(self.received_bytes));
        let rounds = counted(self.rounds, "round trip");
        let (repair, documents) = (size(self.repair_bytes), counted(self.documents, "document"));
        write!(f, "{rounds}, {moved}, {repair} repair, {documents}")
    }
}

fn size(bytes: u64) -> String {
    match bytes {
        0..10_000 => format!("{bytes} B"),
        10_000..10_000_000 => format!("{} kB", bytes.div_ceil(1000)),
        _ => format!("{} MB", bytes.div_ceil(1_000_000)),
    }
}

/// A number of things in words.
#[must_use]
pub fn counted(count: u64, noun: &str) -> String {
    if count == 1 { format!("1 {noun}") } else { format!("{count} {noun}s") }
}
