//! What is wanted of figures at the sizes that they are meant for.

use serde::Serialize;
use std::fmt;

/// A bound.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Wanted {
    /// So much or more.
    AtLeast(f64),
    /// So much or less.
    AtMost(f64),
    /// Both included.
    Between(f64, f64),
}

impl Wanted {
    /// Is a value within it? What is no number is not.
    #[must_use]
    pub fn holds(self, value: f64) -> bool {
        match self {
            Self::AtLeast(least) => value >= least,
            Self::AtMost(most) => value <= most,
            Self::Between(least, most) => (least..=most).contains(&value),
        }
    }
}

impl fmt::Display for Wanted {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::AtLeast(least) => write!(out, "{least} or more"),
            Self::AtMost(most) => write!(out, "{most} or less"),
            Self::Between(least, most) => write!(out, "{least} to {most}"),
        }
    }
}

/// Figure, by how its name begins; what; at what, if not at every size.
const WANTED: [(&str, &str, Option<&str>, Wanted); 20] = [
    ("8", "mOPE, random", Some("1000000"), Wanted::AtLeast(1e5)),
    ("8", "cost of verification, random", Some("1000000"), Wanted::AtMost(1.5)),
    ("8", "cost of verification, sequential", Some("1000000"), Wanted::AtMost(1.5)),
    ("8", "mOPE beside pyope, random", None, Wanted::AtLeast(100.0)),
    ("8", "mOPE beside our BCLO, sequential", Some("1000"), Wanted::AtLeast(1.0)),
    ("9", "mOPE", Some("100000"), Wanted::AtLeast(1.5e6)),
    ("9", "cost of verification", Some("100000"), Wanted::AtMost(1.3)),
    ("9", "mOPE beside that", Some("100000"), Wanted::AtLeast(8.0)),
    ("12", "our tree, random, mean", Some("1000000"), Wanted::AtMost(0.3)),
    ("12", "our tree, sequential, mean", Some("1000000"), Wanted::AtMost(0.3)),
    ("12", "a 4-way tree of paths, random, mean", Some("1000000"), Wanted::Between(2.0, 4.0)),
    ("storage", "bytes of the tree", Some("1000000"), Wanted::AtMost(40.0)),
    ("storage", "bytes of the tree, verified", Some("1000000"), Wanted::AtMost(40.0)),
    ("storage", "rounds to find a place, warm", Some("1000000"), Wanted::AtMost(1.0)),
    ("storage", "rounds to find a place, warm, verified", Some("1000000"), Wanted::AtMost(1.0)),
    ("storage", "rounds to find a place, cold", Some("1000000"), Wanted::AtMost(4.0)),
    ("storage", "rounds to find a place, cold, verified", Some("1000000"), Wanted::AtMost(4.0)),
    ("13", "sequential INSERTs, our tree, time of updates", None, Wanted::AtMost(5.0)),
    ("13", "TPC-C's INSERTs and UPDATEs, our tree, time of updates", None, Wanted::AtMost(3.0)),
    ("pauses", "a change of labels holds the column, all of them at most", None, Wanted::AtMost(1000.0)),
];

/// What is wanted of a figure.
pub(super) fn of(figure: &str, what: &str, at: &str) -> Option<Wanted> {
    let found = WANTED.iter().find(|(begin, named, size, _)| {
        figure.starts_with(begin) && *named == what && size.is_none_or(|size| size == at)
    });
    found.map(|(.., wanted)| *wanted)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bounds_are_met_at_their_ends_and_by_no_other_than_numbers() {
        let (least, most) = (Wanted::AtLeast(2.0), Wanted::AtMost(2.0));
        assert!(least.holds(2.0) && most.holds(2.0) && !least.holds(1.9) && !most.holds(2.1));
        assert!(
            !least.holds(f64::NAN) && !most.holds(f64::NAN) && !Wanted::Between(0.0, 1.0).holds(f64::NAN)
        );
        assert_eq!(of("9, batches", "mOPE", "100000"), Some(Wanted::AtLeast(1.5e6)));
        assert_eq!(of("9, batches", "mOPE", "1000"), None);
    }
}
