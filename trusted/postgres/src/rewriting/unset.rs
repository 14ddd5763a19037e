//! Why labels could not be set anew: once in the log, and in the errors of those who ask for their tables.

use arras_protocol::ChannelError;
use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

/// So many are named in the log at a time: what is wrong with the rest is counted.
const NAMED: usize = 32;

/// A place whose labels could not be set anew.
#[derive(Debug)]
pub(super) struct Failed {
    /// Schema, table and attribute.
    pub(super) place: [String; 3],
    pub(super) error: ChannelError,
}

/// Why labels could not be set anew, by their places: of the last attempt.
#[derive(Default)]
pub(super) struct Unset(Mutex<BTreeMap<[String; 3], String>>);

impl Unset {
    /// They are these. What PostgreSQL said may be an application's trigger's, of rows that not everybody may see: it is in the log alone.
    pub(super) fn are(&self, failed: &[Failed]) {
        let reasons = failed.iter().filter_map(|one| match &one.error {
            ChannelError::Halted(reason) => Some((one.place.clone(), reason.clone())),
            _ => None,
        });
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = reasons.collect();
    }

    /// What is well by now, or gone, has none.
    pub(super) fn keep(&self, is_found: impl Fn(&[String; 3]) -> bool) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).retain(|place, _| is_found(place));
    }

    pub(super) fn all(&self) -> BTreeMap<[String; 3], String> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// What the log was told, and need not be again.
#[derive(Default)]
pub(super) struct Told {
    of_looks: String,
    of_places: BTreeMap<[String; 3], String>,
}

impl Told {
    /// A look succeeded.
    pub(super) fn looked(&mut self) {
        self.of_looks.clear();
    }

    /// A look failed.
    pub(super) fn not_looked(&mut self, error: &ChannelError) {
        let said = error.to_string();
        if said != self.of_looks {
            tracing::warn!(%error, "tables that came past the proxy could not be looked for; tried again");
            self.of_looks = said;
        }
    }

    /// An attempt came to these.
    pub(super) fn not_set(&mut self, failed: &[Failed]) {
        let news = self.news(failed);
        for Failed { place, error } in news.iter().take(NAMED) {
            let place = place.join(".");
            tracing::warn!(%place, %error, "labels of a table that came past the proxy could not be set anew; tried again");
        }
        if let Some(more) = news.len().checked_sub(NAMED).filter(|more| *more > 0) {
            tracing::warn!(
                more,
                "labels of more tables that came past the proxy could not be set anew; tried again"
            );
        }
    }

    /// Those of them that were not told, or otherwise. The rest is forgotten: if it comes again it is told again.
    fn news<'a>(&mut self, failed: &'a [Failed]) -> Vec<&'a Failed> {
        let said = failed.iter().map(|one| (one.place.clone(), one.error.to_string())).collect();
        let before = std::mem::replace(&mut self.of_places, said);
        failed.iter().filter(|one| before.get(&one.place) != self.of_places.get(&one.place)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn failed(table: &str, why: &str) -> Failed {
        let place = ["public", table, "n$ord"].map(str::to_owned);
        Failed { place, error: ChannelError::Halted(why.to_owned()) }
    }

    #[test]
    fn each_place_is_told_once_until_it_is_another_reason() {
        let mut told = Told::default();
        let mut news = |failed: &[Failed]| -> Vec<String> {
            told.news(failed).iter().map(|one| one.place[1].clone()).collect()
        };
        assert_eq!(news(&[failed("a", "row 1"), failed("b", "row 1")]), ["a", "b"]);
        assert!(news(&[failed("a", "row 1"), failed("b", "row 1")]).is_empty());
        assert_eq!(news(&[failed("a", "row 1"), failed("b", "row 2")]), ["b"]);
        assert!(news(&[failed("b", "row 2")]).is_empty());
        assert_eq!(news(&[failed("a", "row 1")]), ["a"], "it was well in between");
    }

    #[test]
    fn what_postgresql_said_is_told_to_nobody_else() {
        let unset = Unset::default();
        let lost = Failed { error: ChannelError::Lost("l".into()), ..failed("b", "") };
        unset.are(&[failed("a", "row 1"), lost]);
        let reasons: Vec<String> = unset.all().into_values().collect();
        assert_eq!(reasons, ["row 1"]);
        unset.keep(|place| place[1] == "a");
        assert_eq!(unset.all().len(), 1);
        unset.keep(|place| place[1] == "b");
        assert!(unset.all().is_empty(), "the table is gone, or well");
    }
}
