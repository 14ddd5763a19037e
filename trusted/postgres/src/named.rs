//! What a session has named in SQL and reads encrypted columns by: statements of `PREPARE`, cursors of `DECLARE`.

use crate::column_type::ColumnType;
use crate::error::SqlError;
use crate::plan::{Outputs, Rewritten};
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
}

impl Named {
    pub(crate) fn is_empty(&self) -> bool {
        self.prepared.is_empty() && self.cursors.is_empty() && !self.has_parsed
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
                self.prepared.remove(name);
                self.parsed.remove(name);
            }
            Naming::Deallocated(None) => {
                self.prepared.clear();
                self.parsed.clear();
            }
            Naming::Closed(Some(name)) => {
                self.cursors.remove(name);
                self.held.remove(name);
            }
            Naming::Closed(None) => {
                self.cursors.clear();
                self.held.clear();
            }
            Naming::Discarded => *self = Self::default(),
        }
    }
}
