//! The prepared statements and portals of a session that were rewritten, as the messages sent so far leave them.
//!
//! A message is taken for granted when it is sent: the next ones, sent ahead, name what it makes. If it fails, what it did
//! here is undone.

use super::reading::{Portal, Statement};
use crate::named::Named;
use std::borrow::Cow;
use std::collections::HashMap;
use std::sync::Arc;

/// A name, as the client spells it.
type Name = Box<[u8]>;

/// What a message did to names, and what was there before.
pub(super) enum Undo {
    Statement(Name, Option<Arc<Statement>>),
    Portal(Name, Option<(u64, Arc<Portal>)>),
}

/// Statements and portals that were rewritten; of others nothing is known.
#[derive(Default)]
pub(super) struct Names {
    statements: HashMap<Name, Arc<Statement>>,
    /// With the number of the message that made it.
    portals: HashMap<Name, (u64, Arc<Portal>)>,
    /// What is named in SQL, by the statements that are complete.
    pub(super) named: Named,
}

impl Names {
    pub(super) fn statement(&self, name: &[u8]) -> Option<&Arc<Statement>> {
        self.statements.get(name)
    }

    pub(super) fn portal(&self, name: &[u8]) -> Option<&Arc<Portal>> {
        self.portals.get(name).map(|(_, portal)| portal)
    }

    /// What a text may name in SQL: portals of the protocol, too, are fetched from as cursors are.
    pub(super) fn in_text(&self, text: &str) -> Cow<'_, Named> {
        if self.portals.is_empty() || !crate::rewrite::may_name(text) {
            return Cow::Borrowed(&self.named);
        }
        let mut named = self.named.clone();
        for (name, (_, portal)) in &self.portals {
            let name = std::str::from_utf8(name).ok().filter(|name| !name.is_empty());
            if let (Some(name), None) = (name, &portal.statement.program) {
                let outputs = || Arc::new(portal.statement.rewritten.outputs.clone());
                named.cursors.entry(name.to_owned()).or_insert_with(outputs);
            }
        }
        Cow::Owned(named)
    }

    /// A statement is prepared, or closed, under a name; a rewritten one or another.
    pub(super) fn prepare(&mut self, name: &[u8], statement: Option<Arc<Statement>>) -> Option<Undo> {
        let made = statement.is_some();
        let before = match statement {
            Some(statement) => self.statements.insert(name.into(), statement),
            None => self.statements.remove(name),
        };
        (made || before.is_some()).then(|| Undo::Statement(name.into(), before))
    }

    /// A portal is made, or closed, under a name; of a rewritten statement or another.
    pub(super) fn bind(&mut self, name: &[u8], portal: Option<(u64, Arc<Portal>)>) -> Option<Undo> {
        let made = portal.is_some();
        let before = match portal {
            Some(portal) => self.portals.insert(name.into(), portal),
            None => self.portals.remove(name),
        };
        (made || before.is_some()).then(|| Undo::Portal(name.into(), before))
    }

    /// A message failed, or was passed over. `later` are those sent after it, in their order: where one of them did the same
    /// name, it is that one's "before" that changes.
    pub(super) fn undo<'a>(&mut self, undo: Undo, later: impl Iterator<Item = &'a mut Undo>) {
        match undo {
            Undo::Statement(name, before) => {
                for other in later {
                    if let Undo::Statement(same, its) = other
                        && *same == name
                    {
                        *its = before;
                        return;
                    }
                }
                match before {
                    Some(statement) => self.statements.insert(name, statement),
                    None => self.statements.remove(&name),
                };
            }
            Undo::Portal(name, before) => {
                for other in later {
                    if let Undo::Portal(same, its) = other
                        && *same == name
                    {
                        *its = before;
                        return;
                    }
                }
                match before {
                    Some(portal) => self.portals.insert(name, portal),
                    None => self.portals.remove(&name),
                };
            }
        }
    }

    /// A transaction has ended: the portals made before message `number` are gone.
    pub(super) fn transaction_ended(&mut self, number: u64) {
        self.portals.retain(|_, (made, _)| *made > number);
    }
}
