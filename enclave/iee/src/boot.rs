//! The start: checkpoint, log, and whether they are the newest.

use crate::checkpoint::Head;
use crate::fault::Fault;
use crate::journal::{Change, Standing};
use crate::server::{Iee, Waiting};
use arras_protocol::iee::{Outgoing, StateName};

/// How far the start has come.
pub(crate) enum Boot {
    Unlaunched,
    /// The counter is being read.
    Counter,
    /// The head is being loaded.
    Head,
    Piece {
        head: Head,
        piece: u32,
    },
    /// The next record of the log is being loaded; the last one that changes something, which may not be finished.
    Log(Option<Change>),
    /// The counter is being raised to the last record.
    Behind(Option<Change>),
    /// The run's own record is being logged, and the last update's entries stored again.
    Starting,
    Over,
}

impl Iee {
    pub(crate) fn begin_boot(&mut self) {
        self.boot = Boot::Counter;
        self.ask(Waiting::Boot, Outgoing::ReadCounter);
    }

    fn load(&mut self, boot: Boot, name: StateName) {
        self.boot = boot;
        self.ask(Waiting::Boot, |ask| Outgoing::Load { ask, name });
    }

    pub(crate) fn counter_read(&mut self, counter: u64) -> Result<(), Fault> {
        if !matches!(self.boot, Boot::Counter) {
            return Err(Fault::Unasked);
        }
        self.journal.counter = counter;
        self.load(Boot::Head, StateName::Head);
        Ok(())
    }

    pub(crate) fn loaded(&mut self, state: Option<&[u8]>) -> Result<(), Fault> {
        match (std::mem::replace(&mut self.boot, Boot::Starting), state) {
            (Boot::Head, None) => self.next_record(None),
            (Boot::Head, Some(sealed)) => {
                let head = self.pieces.open_head(sealed)?;
                self.next_piece(head, 0);
            }
            (Boot::Piece { head, piece }, state) => {
                let sealed = state.ok_or(Fault::StateSetBack)?;
                self.pieces.restore(&self.root, &mut self.state, (&head.id, piece), sealed)?;
                self.next_piece(head, piece + 1);
            }
            (Boot::Log(last), Some(sealed)) => match self.journal.open(sealed)? {
                // Counters were spilled behind the checkpoint that the host gave.
                change if change.generation().is_some_and(|said| said != self.state.generation) => {
                    return Err(Fault::StateSetBack);
                }
                // It says nothing of whether the change before it was finished.
                start @ Change::Start { .. } => {
                    self.state.apply(&self.root, &start);
                    self.next_record(last);
                }
                change => {
                    self.replay(last)?;
                    self.next_record(Some(change));
                }
            },
            (Boot::Log(last), None) => match self.journal.compare()? {
                Standing::Even => self.log_ended(last)?,
                Standing::OneAhead => {
                    self.boot = Boot::Behind(last);
                    self.raise();
                }
            },
            _ => return Err(Fault::Unasked),
        }
        Ok(())
    }

    fn next_piece(&mut self, head: Head, piece: u32) {
        if piece == head.loaded {
            self.state.spilled = head.spilled();
            self.fill.set_known(self.state.keywords(), self.state.spilled);
            self.journal.resume(head.place);
            return self.next_record(None);
        }
        let name = StateName::Checkpoint { generation: head.place.number, piece };
        self.load(Boot::Piece { head, piece }, name);
    }

    fn next_record(&mut self, last: Option<Change>) {
        self.load(Boot::Log(last), StateName::Log(self.journal.place.number + 1));
    }

    /// Carries out a change that was finished when the next one was logged.
    fn replay(&mut self, change: Option<Change>) -> Result<(), Fault> {
        self.fill.since += change.as_ref().map_or(0, Change::keywords);
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

    /// The log and the counter are where the other is: this run says that it begins.
    pub(crate) fn log_ended(&mut self, last: Option<Change>) -> Result<(), Fault> {
        let mut growth = 0;
        match last {
            // Its entries may be missing: they are stored again, the same to the byte, once nobody else can go on from here.
            Some(Change::Update(update)) => {
                let collection = self.state.collection(update.collection).map_err(|_| Fault::StateAltered)?;
                growth = collection.admit(&update).map_err(|_| Fault::StateAltered)?;
                self.fill.since += update.pair_count();
                self.lane.unfinished = Some(update);
            }
            last => self.replay(last)?,
        }
        self.budget.take(self.state.bytes() + growth);
        let (administrator, authority) = std::mem::take(&mut self.lane.launched_by);
        if !self.state.policy.is_for(&administrator, &authority) {
            return Err(Fault::Administrator);
        }
        self.boot = Boot::Starting;
        // With less memory than before, counters are spilled before the first update.
        self.fill.since += 1;
        let generation = self.state.generation;
        self.log(Change::Start { administrator, authority, generation });
        Ok(())
    }
}
