//! The prepared statements and portals of a session that were rewritten, as the messages sent so far leave them.
//!
//! A message is taken for granted when it is sent: the next ones, sent ahead, name what it makes. If it fails, what it did
//! here is undone.

use super::reading::{Portal, Statement};
use crate::named::{Named, Naming, Prepared};
use crate::text::NAME_BYTES;
use std::borrow::Cow;
use std::collections::HashMap;
use std::sync::Arc;

/// A name, as the client spells it.
type Name = Box<[u8]>;

/// What a message did to names, and what was there before.
pub(super) enum Undo {
    /// A statement of `PREPARE` was closed by the protocol.
    Prepared(String, Arc<Prepared>),
    Statement(Name, Option<(u64, Arc<Statement>)>),
    Portal(Name, Option<(u64, Arc<Portal>)>),
}

/// Statements and portals that were rewritten; of others nothing is known.
#[derive(Default)]
pub(super) struct Names {
    /// With the number of the message that made it.
    statements: HashMap<Name, (u64, Arc<Statement>)>,
    /// With the number of the message that made it.
    portals: HashMap<Name, (u64, Arc<Portal>)>,
    /// What is named in SQL, by the statements that are complete.
    pub(super) named: Named,
}

impl Names {
    pub(super) fn statement(&self, name: &[u8]) -> Option<&Arc<Statement>> {
        self.statements.get(cut(name)).map(|(_, statement)| statement)
    }

    pub(super) fn portal(&self, name: &[u8]) -> Option<&Arc<Portal>> {
        self.portals.get(name).map(|(_, portal)| portal)
    }

    /// What a text may name in SQL: portals of the protocol, too, are fetched from as cursors are, and its statements are executed
    /// and deallocated.
    pub(super) fn in_text(&self, text: &str) -> Cow<'_, Named> {
        if self.portals.is_empty() && self.statements.is_empty() || !crate::rewrite::may_name(text) {
            return Cow::Borrowed(&self.named);
        }
        let mut named = self.named.clone();
        named.has_parsed = !self.statements.is_empty();
        let folded = text.to_lowercase();
        for (name, (_, statement)) in &self.statements {
            let name = std::str::from_utf8(name).ok().filter(|name| !name.is_empty());
            // In quotes, a quote is written twice.
            let named_in = |name: &&str| folded.contains(&name.to_lowercase().replace('"', "\"\""));
            if let Some(name) = name.filter(named_in) {
                named.parsed.insert(name.to_owned(), Arc::new(parsed(statement)));
            }
        }
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
    pub(super) fn prepare(&mut self, name: &[u8], statement: Option<(u64, Arc<Statement>)>) -> Option<Undo> {
        self.named.is_back(name);
        let (made, name) = (statement.is_some(), cut(name));
        let before = match statement {
            Some(statement) => self.statements.insert(name.into(), statement),
            None => self.statements.remove(name),
        };
        (made || before.is_some()).then(|| Undo::Statement(name.into(), before))
    }

    /// A statement of message `number` that did this to names is complete. What was sent behind it stays.
    pub(super) fn apply(&mut self, naming: &Naming, number: u64) {
        match naming {
            Naming::Deallocated(Some(name)) => {
                let made = self.statements.get(name.as_bytes()).map(|(made, _)| *made);
                if made.is_some_and(|made| made < number) {
                    self.statements.remove(name.as_bytes());
                }
                if made.is_some() {
                    self.named.went(name.as_bytes());
                }
            }
            // The unnamed one stays.
            Naming::Deallocated(None) | Naming::Discarded => {
                let named = &mut self.named;
                self.statements.retain(|name, (made, _)| {
                    let stays = name.is_empty() || *made > number;
                    if !stays {
                        named.went(name);
                    }
                    stays
                });
            }
            Naming::Prepared(..) | Naming::Replaced(_) | Naming::Declared(..) | Naming::Closed(_) => {}
        }
        self.named.apply(naming);
    }

    /// A statement is closed, however it was prepared.
    pub(super) fn close(&mut self, name: &[u8]) -> Option<Undo> {
        let was_gone = self.named.gone.has(name);
        let undo = self.prepare(name, None).or_else(|| {
            let name = std::str::from_utf8(cut(name)).ok()?;
            let (name, before) = self.named.prepared.remove_entry(name)?;
            Some(Undo::Prepared(name, before))
        });
        if was_gone || undo.is_some() {
            self.named.went(name);
        }
        undo
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
            Undo::Prepared(name, before) => {
                self.named.prepared.entry(name).or_insert(before);
            }
            Undo::Statement(name, before) => {
                for other in later {
                    if let Undo::Statement(same, its) = other
                        && *same == name
                    {
                        *its = before;
                        return;
                    }
                }
                if before.is_none() {
                    self.named.went(&name);
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
        self.named.transaction_ended();
    }
}

/// A name as PostgreSQL compares it.
pub(super) fn cut(name: &[u8]) -> &[u8] {
    name.get(..NAME_BYTES).unwrap_or(name)
}

/// A statement of the protocol, as SQL names it.
fn parsed(statement: &Statement) -> Prepared {
    let Statement { rewritten, program, before: _, after, types, .. } = statement;
    let is_program = program.is_some() || !after.is_empty();
    let parameters = rewritten.parameters.len().max(types.len());
    Prepared {
        text: statement.texts.client.clone(),
        rewritten: rewritten.clone(),
        parameters,
        declared: types.iter().map(|oid| crate::codec::type_of(*oid)).collect(),
        bytes: 0,
        is_program,
    }
}
