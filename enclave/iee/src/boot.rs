//! The start: checkpoint, log, and whether they are the newest.

use crate::checkpoint::Head;
use crate::fault::Fault;
use crate::journal::Change;
use crate::server::{Iee, Waiting};
use arras_protocol::iee::{Outgoing, StateName};

/// How far the start has come.
pub(crate) enum Boot {
    Unlaunched,
    /// The counter is being read.
    Counter,
    /// The head is being loaded.
    Head {
        counter: u64,
    },
    Piece {
        counter: u64,
        head: Head,
        piece: u32,
    },
    /// The next record of the log is being loaded; the last one that changes something, which may not be finished.
    Log {
        counter: u64,
        last: Option<Change>,
    },
    Over,
}

impl Boot {
    pub(crate) fn is_over(&self) -> bool {
        matches!(self, Self::Over)
    }
}

impl Iee {
    pub(crate) fn begin_boot(&mut self, administrator: String) -> Result<(), Fault> {
        if !matches!(self.boot, Boot::Unlaunched) {
            return Err(Fault::OutOfTurn);
        }
        self.boot = Boot::Counter;
        self.lane.launched_by = administrator;
        self.ask(Waiting::Boot, Outgoing::ReadCounter);
        Ok(())
    }

    fn load(&mut self, name: StateName) {
        self.ask(Waiting::Boot, |ask| Outgoing::Load { ask, name });
    }

    pub(crate) fn counter_read(&mut self, counter: u64) -> Result<(), Fault> {
        if !matches!(self.boot, Boot::Counter) {
            return Err(Fault::Unasked);
        }
        self.boot = Boot::Head { counter };
        self.load(StateName::Head);
        Ok(())
    }

    pub(crate) fn loaded(&mut self, state: Option<&[u8]>) -> Result<(), Fault> {
        match std::mem::replace(&mut self.boot, Boot::Over) {
            Boot::Unlaunched | Boot::Counter | Boot::Over => return Err(Fault::Unasked),
            Boot::Head { counter } => match state {
                None => self.next_record(counter, None),
                Some(sealed) => {
                    let head = self.sealer.open_head(sealed)?;
                    self.next_piece(counter, head, 0);
                }
            },
            Boot::Piece { counter, head, piece } => {
                let sealed = state.ok_or(Fault::StateSetBack)?;
                self.sealer.restore(&self.root, &mut self.state, (&head.id, piece), sealed)?;
                self.next_piece(counter, head, piece + 1);
            }
            Boot::Log { counter, last } => match state {
                Some(sealed) => {
                    match self.journal.open(sealed)? {
                        // It says nothing of whether the change before it was finished.
                        start @ Change::Start { .. } => {
                            self.state.apply(&self.root, &start);
                            self.next_record(counter, last);
                        }
                        change => {
                            self.replay(last)?;
                            self.next_record(counter, Some(change));
                        }
                    }
                }
                None => self.log_ended(counter, last)?,
            },
        }
        Ok(())
    }

    fn next_piece(&mut self, counter: u64, head: Head, piece: u32) {
        if piece == head.pieces {
            self.journal.resume(head.generation, head.link);
            return self.next_record(counter, None);
        }
        let name = StateName::Checkpoint { generation: head.generation, piece };
        self.boot = Boot::Piece { counter, head, piece };
        self.load(name);
    }

    fn next_record(&mut self, counter: u64, last: Option<Change>) {
        let name = StateName::Log(self.journal.number() + 1);
        self.boot = Boot::Log { counter, last };
        self.load(name);
    }

    /// Carries out a change that was finished when the next one was logged.
    fn replay(&mut self, change: Option<Change>) -> Result<(), Fault> {
        match change {
            Some(Change::Update(update)) => {
                let collection =
                    self.state.collection_mut(update.collection).map_err(|_| Fault::StateAltered)?;
                let staged = collection.stage(&update, &mut self.prg).map_err(|_| Fault::StateAltered)?;
                collection.publish(&update, &staged);
            }
            Some(change) => self.state.apply(&self.root, &change),
            None => {}
        }
        Ok(())
    }

    /// The log must go as far as the counter, and can go further by the one record that was written last.
    fn log_ended(&mut self, counter: u64, last: Option<Change>) -> Result<(), Fault> {
        let number = self.journal.number();
        if number < counter {
            return Err(Fault::StateSetBack);
        }
        if number > counter + 1 {
            return Err(Fault::CounterSetBack);
        }
        match last {
            // Its entries may be missing: they are stored again, the same to the byte, once the counter says that this record is
            // there for good.
            Some(Change::Update(update)) => self.lane.unfinished = Some(update),
            last => self.replay(last)?,
        }
        self.count_state();
        let administrator = std::mem::take(&mut self.lane.launched_by);
        let known = &self.state.policy.administrator;
        if !known.is_empty() && *known != administrator {
            return Err(Fault::Administrator);
        }
        self.log(None, Change::Start { administrator }, 0);
        Ok(())
    }

    fn count_state(&mut self) {
        let bytes = self.state.bytes() + self.state.collections.len() * 64 * 1024;
        self.budget.take(bytes);
        self.budget.keep(bytes);
    }
}
