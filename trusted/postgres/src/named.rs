//! What a session has named in SQL and reads encrypted columns by: statements of `PREPARE`, cursors of `DECLARE`.

mod gone;

use crate::column_type::ColumnType;
use crate::error::SqlError;
use crate::plan::{Action, Outputs, Planned, Rewritten};
use gone::Gone;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// Bytes of prepared statements that a session may have, about.
const PREPARED_BYTES_MAX: usize = 4 * 1024 * 1024;
/// Names that a session may have.
const NAMES_MAX: usize = 4096;

/// A statement of `PREPARE`, or of the protocol's `Parse`.
#[derive(Debug, PartialEq)]
pub struct Prepared {
    /// The client's text.
    pub(crate) text: String,
    /// What `EXECUTE` runs: its values are computed each time.
    pub(crate) rewritten: Rewritten,
    /// How many parameters it has.
    pub(crate) parameters: usize,
    /// The types that its parameters are declared with, if they are columns' types.
    pub(crate) declared: Vec<Option<ColumnType>>,
    /// About what it takes.
    pub(crate) bytes: usize,
    /// The proxy reads and writes rows for it: it is no one statement that `EXECUTE` could run.
    pub(crate) is_program: bool,
}

/// PostgreSQL's error for a prepared statement whose plan cannot go on, upon which drivers prepare it again.
pub(crate) fn cached_plan(detail: &str) -> SqlError {
    SqlError::new("0A000", "cached plan must not change result type")
        .detail(detail)
        .hint("Prepare the statement again.")
}

/// What a statement did to names, once it is complete.
#[derive(Clone, Debug, PartialEq)]
pub enum Naming {
    /// It prepared a statement.
    Prepared(String, Arc<Prepared>),
    /// It declared a cursor, whose rows are such; does it outlive its transaction?
    Declared(String, Arc<Outputs>, bool),
    /// The prepared statement of a name, or all of them, is not one of an encrypted table any more.
    Deallocated(Option<String>),
    /// The same of a name that is another statement's now.
    Replaced(String),
    /// The same of a cursor.
    Closed(Option<String>),
    /// Everything is gone.
    Discarded,
}

/// Names of one session. Names of other statements are not in it.
#[derive(Clone, Debug, Default)]
pub(crate) struct Named {
    pub(crate) prepared: BTreeMap<String, Arc<Prepared>>,
    pub(crate) cursors: BTreeMap<String, Arc<Outputs>>,
    /// Cursors that outlive their transaction.
    held: BTreeSet<String>,
    /// Those of the protocol that a text names, and whether there are any at all.
    pub(crate) parsed: BTreeMap<String, Arc<Prepared>>,
    pub(crate) has_parsed: bool,
    /// What was named, and is no more.
    pub(crate) gone: Arc<Gone>,
}

impl Named {
    pub(crate) fn is_empty(&self) -> bool {
        self.prepared.is_empty() && self.cursors.is_empty() && !self.has_parsed && self.gone.is_empty()
    }

    /// The prepared statement of a name, however it was prepared.
    pub(crate) fn prepared(&self, name: &str) -> Option<&Arc<Prepared>> {
        self.prepared.get(name).or_else(|| self.parsed.get(name))
    }

    /// A transaction has ended: cursors that do not outlive it are gone.
    pub(crate) fn transaction_ended(&mut self) {
        let held = &self.held;
        self.cursors.retain(|name, _| held.contains(name));
    }

    /// Whether there is room for another name.
    ///
    /// # Errors
    /// 54000: there is none.
    pub(crate) fn check_room(&self, bytes: usize) -> Result<(), SqlError> {
        let taken: usize = self.prepared.values().map(|prepared| prepared.bytes).sum();
        let names = self.prepared.len() + self.cursors.len();
        if names < NAMES_MAX && taken + bytes <= PREPARED_BYTES_MAX {
            return Ok(());
        }
        let message = "the session has named too many statements and cursors that read encrypted columns";
        Err(SqlError::new("54000", message).hint("DEALLOCATE or CLOSE some."))
    }

    /// A statement is complete.
    pub(crate) fn apply(&mut self, naming: &Naming) {
        match naming {
            Naming::Prepared(name, prepared) => {
                self.prepared.insert(name.clone(), Arc::clone(prepared));
            }
            Naming::Declared(name, outputs, outlives) => {
                self.cursors.insert(name.clone(), Arc::clone(outputs));
                if *outlives {
                    self.held.insert(name.clone());
                } else {
                    self.held.remove(name);
                }
            }
            Naming::Deallocated(Some(name)) => {
                if self.forget(name) {
                    self.went(name.as_bytes());
                }
            }
            Naming::Deallocated(None) => self.forget_all(),
            Naming::Replaced(name) => {
                self.forget(name);
                self.is_back(name.as_bytes());
            }
            Naming::Closed(Some(name)) => {
                self.cursors.remove(name);
                self.held.remove(name);
            }
            Naming::Closed(None) => {
                self.cursors.clear();
                self.held.clear();
            }
            Naming::Discarded => {
                self.forget_all();
                *self = Self { gone: Arc::clone(&self.gone), ..Self::default() };
            }
        }
    }

    fn forget(&mut self, name: &str) -> bool {
        let parsed = self.parsed.remove(name);
        self.prepared.remove(name).is_some() || parsed.is_some()
    }

    fn forget_all(&mut self) {
        let (prepared, parsed) = (std::mem::take(&mut self.prepared), std::mem::take(&mut self.parsed));
        prepared.keys().chain(parsed.keys()).for_each(|name| self.went(name.as_bytes()));
    }

    /// A name is no statement's of encrypted columns any more, or was to be one's and is not.
    pub(crate) fn went(&mut self, name: &[u8]) {
        Arc::make_mut(&mut self.gone).note(name);
    }

    /// A name is a statement's that reads nothing encrypted.
    pub(crate) fn is_back(&mut self, name: &[u8]) {
        if self.gone.has(name) {
            Arc::make_mut(&mut self.gone).is_back(name);
        }
    }

    /// Notes what a statement prepares under a name, if it is planned so and does.
    pub(crate) fn note_prepared(&mut self, planned: &Planned) {
        let Some(name) = &planned.prepares else { return };
        match (&planned.action, &planned.naming) {
            (Action::Unchanged, None) => self.is_back(name.as_bytes()),
            // It may fail; while it is there, it is found first.
            (Action::Refused(_), _) | (_, Some(Naming::Prepared(..))) => self.went(name.as_bytes()),
            _ => {}
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::Named;
    use crate::plan::Action;
    use crate::rewrite::plan_in;

    #[test]
    fn what_was_not_prepared_is_not_executed() {
        let catalog = crate::rewrite::tests::catalog();
        let mut named = Named::default();
        let mut is_refused_behind = |text: &str| {
            let is_refused = |named: &Named, text: &str| {
                let planned = plan_in(text, &catalog, (named, false)).unwrap();
                planned
                    .iter()
                    .any(|one| matches!(&one.action, Action::Refused(error) if error.sqlstate == "26000"))
            };
            assert!(!is_refused(&named, text), "{text}");
            for one in plan_in(text, &catalog, (&named, false)).unwrap() {
                named.note_prepared(&one);
                one.naming.iter().for_each(|naming| named.apply(naming));
            }
            let runs = is_refused(&named, "SELECT 1; execute p ('secret')");
            assert_eq!(runs, is_refused(&named, "EXPLAIN EXECUTE p('secret')"), "{text}");
            runs
        };
        assert!(!is_refused_behind("PREPARE p AS SELECT id FROM notes WHERE id = $1"));
        assert!(is_refused_behind("PREPARE p AS SELECT id FROM accounts WHERE memo = $1"));
        assert!(is_refused_behind("PREPARE other AS SELECT id FROM notes WHERE id = $1"));
        assert!(!is_refused_behind("PREPARE p AS SELECT id FROM notes; EXECUTE p"));
    }

    #[test]
    fn what_is_no_more_is_not_executed() {
        let catalog = crate::rewrite::tests::catalog();
        let mut named = Named::default();
        for gone in ["DEALLOCATE p", "DEALLOCATE ALL", "DISCARD ALL"] {
            for text in ["PREPARE p AS SELECT id FROM accounts WHERE owner = $1", gone] {
                for one in plan_in(text, &catalog, (&named, false)).unwrap() {
                    one.naming.iter().for_each(|naming| named.apply(naming));
                }
            }
            let planned = plan_in("EXECUTE p ('secret')", &catalog, (&named, false)).unwrap();
            assert!(
                matches!(&planned[0].action, Action::Refused(error) if error.sqlstate == "26000"),
                "{gone}"
            );
        }
    }
}
