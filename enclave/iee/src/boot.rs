//! The start: checkpoint, log, and whether they are the newest.

use crate::fault::Fault;
use crate::journal::Change;
use crate::server::{Core, Enclave};
use arras_protocol::iee::{Outgoing, StateName};
use arras_schemes::bisen::message::Request;
use arras_schemes::bisen::update::Update;

impl Enclave {
    pub(crate) async fn boot(&self) -> Result<(), Fault> {
        let counter = self.counter(Outgoing::ReadCounter).await;
        self.core().journal.counter = counter;
        self.load_checkpoint().await?;
        let last = self.load_log().await?;
        let is_ahead = self.core().journal.is_ahead()?;
        if is_ahead {
            self.raise().await?;
        }
        // The log and the counter are where the other is: this run says that it begins.
        let (start, unfinished) = self.core().begin(last)?;
        self.log(&start).await?;
        if let Some(update) = unfinished {
            self.store(&update).await?;
        }
        self.core().ready();
        Ok(())
    }

    async fn load_checkpoint(&self) -> Result<(), Fault> {
        let Some(sealed) = self.load(StateName::Head).await else { return Ok(()) };
        let head = self.core().pieces.open_head(sealed.as_slice())?;
        for piece in 0..head.loaded {
            let sealed = self.load(head.name(piece)).await.ok_or(Fault::StateSetBack)?;
            let core = &mut *self.core();
            core.pieces.restore(&core.root, &mut core.state, (&head.id, piece), sealed.as_slice())?;
        }
        let core = &mut *self.core();
        core.state.spilled = head.if_spilled();
        core.fill.set_known(core.state.keywords(), core.state.spilled);
        core.journal.resume(head.place);
        Ok(())
    }

    /// Carries out what the log says, but for the last change, which may not be finished.
    async fn load_log(&self) -> Result<Option<Change>, Fault> {
        let mut last = None;
        loop {
            let name = StateName::Log(self.core().journal.place.number + 1);
            let Some(sealed) = self.load(name).await else { return Ok(last) };
            let core = &mut *self.core();
            let change = core.journal.open(sealed.as_slice())?;
            // Counters were spilled behind the checkpoint that the host gave.
            if change.generation().is_some_and(|said| said != core.state.generation) {
                return Err(Fault::StateSetBack);
            }
            match change {
                // It says nothing of whether the change before it was finished.
                start @ Change::Start { .. } => core.state.apply(&core.root, &start),
                change => core.replay(last.replace(change))?,
            }
        }
    }
}

impl Core {
    /// Carries out a change that was finished when the next one was logged.
    fn replay(&mut self, change: Option<Change>) -> Result<(), Fault> {
        self.fill.since += change.as_ref().map_or(0, Change::keywords);
        let Some(change) = change else { return Ok(()) };
        let Some(update) = change.update() else {
            self.state.apply(&self.root, &change);
            return Ok(());
        };
        let collection = self.state.kept(update.collection)?;
        let staged = collection.stage(update, &mut self.prg).map_err(|_| Fault::StateAltered)?;
        collection.publish(update, &staged);
        Ok(())
    }

    /// This run's first record; and an update whose entries may be missing: they are stored again, the same to the byte, once nobody else
    /// can go on from here.
    fn begin(&mut self, last: Option<Change>) -> Result<(Change, Option<Update>), Fault> {
        let (mut growth, mut unfinished) = (0, None);
        match last {
            Some(Change::Asked(Request::Update(update))) => {
                let collection = self.state.kept(update.collection)?;
                growth = collection.admit(&update).map_err(|_| Fault::StateAltered)?;
                self.fill.since += update.pairs.len();
                unfinished = Some(update);
            }
            last => self.replay(last)?,
        }
        self.budget.kept = self.state.bytes() + growth;
        let (administrator, authority) = self.launched_by.clone().ok_or(Fault::OutOfTurn)?;
        if !self.state.policy.is_for(&administrator, &authority) {
            return Err(Fault::Administrator);
        }
        // With less memory than before, counters are spilled before the first update.
        self.fill.since += 1;
        let generation = self.state.generation;
        Ok((Change::Start { administrator, authority, generation }, unfinished))
    }
}
