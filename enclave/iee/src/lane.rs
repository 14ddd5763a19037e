//! Changes, one after the other: each is logged, the counter raised, its entries stored, and only then is it visible and answered.

use crate::checkpoint::Writer;
use crate::collection::Staged;
use crate::compact::{Round, bytes_for, choose};
use crate::fault::Fault;
use crate::fetch::Fetch;
use crate::journal::Change;
use crate::server::{Client, Iee, Waiting};
use crate::state::COLLECTIONS_MAX;
use arras_protocol::Blob;
use arras_protocol::iee::{AskId, Outgoing, StateName};
use arras_schemes::bisen::Salt;
use arras_schemes::bisen::message::{Refused, Reply, Request, Setting};
use arras_schemes::bisen::update::Update;
use std::collections::VecDeque;

/// Bytes of the log, at least, after which the state is written whole.
const CHECKPOINT_MIN: usize = 16 << 20;

/// Bytes beside its message that an update takes while it is staged, a pair: place, block, tag, order, put, and the record.
const STAGED_BYTES: usize = 16 + 16 + 16 + 4 + 48 + 48;

/// Something to be done.
enum Task {
    Update(Update),
    Control(Change),
    Compact { collection: u32, from: u64 },
}

struct Job {
    client: Client,
    task: Task,
    reserved: usize,
}

/// What is under way.
#[derive(Default)]
enum Work {
    #[default]
    Nothing,
    /// The record is being saved, then the counter raised; then the change is carried out.
    Logging {
        client: Option<Client>,
        change: Change,
        reserved: usize,
    },
    /// Entries of an update are being stored.
    Storing {
        client: Option<Client>,
        update: Update,
        staged: Staged,
        left: usize,
        reserved: usize,
    },
    /// A round's epoch is being logged, its entries fetched, what is left stored, its end logged.
    Compacting {
        client: Client,
        round: Round,
        stage: RoundStage,
    },
    Checkpoint {
        writer: Writer,
        left: usize,
        stage: CheckpointStage,
    },
}

enum RoundStage {
    Beginning,
    Fetching,
    Storing { left: usize },
    Ending,
}

#[derive(PartialEq, Eq)]
enum CheckpointStage {
    Pieces,
    Head,
    Forgetting,
}

/// Entries that are of no more use, once the searches that may want them have ended.
struct Removal {
    collection: u32,
    fetch: Fetch,
    /// The first search that does not want them.
    barrier: u64,
    reserved: usize,
}

/// The lane.
#[derive(Default)]
pub(crate) struct Lane {
    queue: VecDeque<Job>,
    work: Work,
    removals: VecDeque<Removal>,
    /// An update whose record was there at the start, and whose entries may be missing.
    pub(crate) unfinished: Option<Update>,
    /// The administrator that the launch named.
    pub(crate) launched_by: String,
    /// Bytes of the last checkpoint.
    checkpoint_bytes: usize,
}

impl Lane {
    /// Bytes that come back when what is under way has ended.
    pub(crate) fn reserved(&self) -> usize {
        let queued: usize = self.queue.iter().map(|job| job.reserved).sum();
        let removed: usize = self.removals.iter().map(|removal| removal.reserved).sum();
        let at_work = match &self.work {
            Work::Nothing | Work::Checkpoint { .. } => 0,
            Work::Logging { reserved, .. } | Work::Storing { reserved, .. } => *reserved,
            Work::Compacting { round, .. } => round.reserved,
        };
        queued + removed + at_work
    }
}

impl Iee {
    pub(crate) fn queue_update(&mut self, client: Client, update: Update) -> Result<Option<Reply>, Refused> {
        let reserved = update.pair_count() * (STAGED_BYTES + 64) + update.document_count() * 128;
        self.queue(client, Task::Update(update), reserved)
    }

    pub(crate) fn queue_compaction(
        &mut self,
        client: Client,
        collection: u32,
        from: u64,
    ) -> Result<Option<Reply>, Refused> {
        self.queue(client, Task::Compact { collection, from }, 0)
    }

    pub(crate) fn queue_control(
        &mut self,
        client: Client,
        request: Request,
    ) -> Result<Option<Reply>, Refused> {
        let change = match request {
            Request::Create { name, settings } => {
                let mut salt = [0; 16];
                self.prg.fill(&mut salt);
                Change::Create { name, settings, salt: Salt(salt) }
            }
            Request::Grant { identity, collection, rights } => Change::Grant { identity, collection, rights },
            Request::Revoke { identity } => Change::Revoke { identity },
            Request::Open { .. }
            | Request::Update(_)
            | Request::Search(_)
            | Request::More { .. }
            | Request::Close { .. }
            | Request::Compact { .. } => return Err(Refused::NotAllowed),
        };
        self.queue(client, Task::Control(change), 16 * 1024)
    }

    fn queue(&mut self, client: Client, task: Task, reserved: usize) -> Result<Option<Reply>, Refused> {
        self.make_room(reserved)?;
        self.lane.queue.push_back(Job { client, task, reserved });
        self.next_job();
        Ok(None)
    }

    /// Begins what waits, if nothing is under way.
    pub(crate) fn next_job(&mut self) {
        while matches!(self.lane.work, Work::Nothing) {
            if self.journal.since_checkpoint >= CHECKPOINT_MIN.max(self.lane.checkpoint_bytes) {
                return self.begin_checkpoint();
            }
            let Some(Job { client, task, reserved }) = self.lane.queue.pop_front() else { return };
            let begun = match task {
                Task::Update(update) => self.begin_update(client, update, reserved),
                Task::Control(change) => self.begin_control(client, change, reserved),
                Task::Compact { collection, from } => self.begin_round(client, collection, from),
            };
            match begun {
                Ok(None) => {}
                Ok(Some(reply)) => {
                    self.budget.release(reserved);
                    self.answer(client, reply);
                }
                Err(refused) => {
                    self.budget.release(reserved);
                    self.answer(client, Reply::Refused(refused));
                }
            }
        }
    }

    fn begin_update(
        &mut self,
        client: Client,
        update: Update,
        reserved: usize,
    ) -> Result<Option<Reply>, Refused> {
        let growth = self.state.collection(update.collection)?.admit(&update)?;
        let budget = self.budget.free_for_data();
        if growth > budget {
            return Err(Refused::Memory { needed: growth as u64, budget: budget as u64 });
        }
        self.make_room(growth)?;
        self.budget.keep(growth);
        self.log(Some(client), Change::Update(update), reserved);
        Ok(None)
    }

    fn begin_control(
        &mut self,
        client: Client,
        change: Change,
        reserved: usize,
    ) -> Result<Option<Reply>, Refused> {
        match &change {
            Change::Create { name, settings, .. } => {
                if let Some(number) = self.state.named(name) {
                    let collection = self.state.collection(number)?;
                    let same = collection.settings == *settings;
                    let opened = Reply::Opened(collection.opened(number));
                    return if same { Ok(Some(opened)) } else { Err(Refused::OtherSettings) };
                }
                if self.state.collections.len() >= COLLECTIONS_MAX {
                    return Err(Refused::Bound(Setting::Number));
                }
            }
            Change::Grant { .. } => self.state.policy.has_room()?,
            Change::Start { .. }
            | Change::Update(_)
            | Change::Revoke { .. }
            | Change::Epoch
            | Change::Compacted { .. } => {}
        }
        self.log(Some(client), change, reserved);
        Ok(None)
    }

    fn begin_round(&mut self, client: Client, collection: u32, from: u64) -> Result<Option<Reply>, Refused> {
        let (slots, next) = choose(self.state.collection(collection)?, from);
        if slots.is_empty() {
            return Ok(Some(Reply::Compacted { next, read: 0, saved: 0 }));
        }
        let reserved = bytes_for(&slots);
        self.make_room(reserved)?;
        let fetch = Fetch::new(slots.into_iter(), true);
        let read = fetch.entries() as u64;
        let round = Round { collection, fetch, next, epoch: 0, counts: Vec::new(), read, reserved };
        self.save_record(&Change::Epoch);
        self.lane.work = Work::Compacting { client, round, stage: RoundStage::Beginning };
        Ok(None)
    }

    /// Logs a change, which is carried out when that is done.
    pub(crate) fn log(&mut self, client: Option<Client>, change: Change, reserved: usize) {
        self.save_record(&change);
        self.lane.work = Work::Logging { client, change, reserved };
    }

    fn save_record(&mut self, change: &Change) {
        let state = Blob(self.journal.seal(change, &mut self.prg));
        let name = StateName::Log(self.journal.number());
        self.ask(Waiting::Stored, |ask| Outgoing::Save { ask, name, state });
    }

    fn raise(&mut self) {
        let to = self.journal.number();
        self.ask(Waiting::Raised(to), |ask| Outgoing::RaiseCounter { ask, to });
    }

    /// The host has stored something of what is under way.
    pub(crate) fn stored(&mut self) -> Result<(), Fault> {
        match std::mem::take(&mut self.lane.work) {
            Work::Nothing => return Err(Fault::Unasked),
            work @ Work::Logging { .. } => {
                self.lane.work = work;
                self.raise();
            }
            Work::Storing { client, update, staged, left, reserved } => {
                if left > 1 {
                    self.lane.work = Work::Storing { client, update, staged, left: left - 1, reserved };
                } else {
                    self.publish(client, &update, &staged, reserved)?;
                }
            }
            Work::Compacting { client, round, stage } => {
                match &stage {
                    RoundStage::Beginning | RoundStage::Ending => self.raise(),
                    RoundStage::Storing { left } if *left > 1 => {
                        let stage = RoundStage::Storing { left: left - 1 };
                        self.lane.work = Work::Compacting { client, round, stage };
                        return Ok(());
                    }
                    RoundStage::Storing { .. } => {
                        self.end_round(client, round);
                        return Ok(());
                    }
                    RoundStage::Fetching => return Err(Fault::Unasked),
                }
                self.lane.work = Work::Compacting { client, round, stage };
            }
            Work::Checkpoint { writer, left, stage } => self.checkpoint_stored(writer, left, &stage),
        }
        Ok(())
    }

    /// The counter is at the record's number: nobody can take the record back.
    pub(crate) fn raised(&mut self) -> Result<(), Fault> {
        match std::mem::take(&mut self.lane.work) {
            Work::Logging { client, change: Change::Update(update), reserved } => {
                return self.store(client, update, reserved);
            }
            Work::Logging { client, change, reserved } => {
                self.state.apply(&self.root, &change);
                self.budget.release(reserved);
                self.control_done(client, &change)?;
                self.next_job();
            }
            Work::Compacting { client, mut round, stage: RoundStage::Beginning } => {
                self.state.apply(&self.root, &Change::Epoch);
                round.epoch = self.state.epochs;
                self.lane.work = Work::Compacting { client, round, stage: RoundStage::Fetching };
                self.pump_round();
            }
            Work::Compacting { client, round, stage: RoundStage::Ending } => self.round_done(client, round),
            Work::Nothing | Work::Storing { .. } | Work::Compacting { .. } | Work::Checkpoint { .. } => {
                return Err(Fault::Unasked);
            }
        }
        Ok(())
    }

    fn control_done(&mut self, client: Option<Client>, change: &Change) -> Result<(), Fault> {
        let reply = match change {
            Change::Create { name, .. } => {
                let number = self.state.named(name).unwrap_or_default();
                let opened = self.state.collection(number).map(|collection| collection.opened(number));
                self.budget.take(64 * 1024);
                opened.map_or_else(Reply::Refused, Reply::Opened)
            }
            Change::Revoke { identity } => {
                self.dismiss(identity);
                Reply::Done
            }
            Change::Start { .. } => {
                return match self.lane.unfinished.take() {
                    Some(update) => self.store(None, update, 0),
                    None => self.ready(),
                };
            }
            Change::Grant { .. } | Change::Update(_) | Change::Epoch | Change::Compacted { .. } => {
                Reply::Done
            }
        };
        if let Some(client) = client {
            self.answer(client, reply);
        }
        Ok(())
    }

    /// Stores the entries of an update; its record is there for good.
    fn store(&mut self, client: Option<Client>, update: Update, reserved: usize) -> Result<(), Fault> {
        // It was admitted before it was logged.
        let collection = self.state.collection_mut(update.collection).map_err(|_| Fault::StateAltered)?;
        let mut staged = collection.stage(&update, &mut self.prg).map_err(|_| Fault::StateAltered)?;
        let puts = std::mem::take(&mut staged.puts);
        let left = puts.len();
        if left == 0 {
            return self.publish(client, &update, &staged, reserved);
        }
        for entries in puts {
            self.ask(Waiting::Stored, |ask| Outgoing::Put { ask, entries: Blob(entries) });
        }
        self.lane.work = Work::Storing { client, update, staged, left, reserved };
        Ok(())
    }

    fn publish(
        &mut self,
        client: Option<Client>,
        update: &Update,
        staged: &Staged,
        reserved: usize,
    ) -> Result<(), Fault> {
        if let Ok(collection) = self.state.collection_mut(update.collection) {
            collection.publish(update, staged);
        }
        self.budget.release(reserved);
        match client {
            Some(client) => self.answer(client, Reply::Updated),
            // What a former run had not finished.
            None => self.ready()?,
        }
        self.next_job();
        Ok(())
    }

    fn pump_round(&mut self) {
        let first = self.next_ask().0;
        let Work::Compacting { round, .. } = &mut self.lane.work else { return };
        let Ok(collection) = self.state.collection(round.collection) else { return };
        let mut questions = Vec::new();
        while let Some(labels) =
            round.fetch.next(&collection.keys, AskId(first + questions.len() as u64), &mut self.prg)
        {
            questions.push(labels);
        }
        for labels in questions {
            self.ask(Waiting::Round, |ask| Outgoing::Get { ask, labels: Blob(labels) });
        }
    }

    pub(crate) fn round_entries(&mut self, ask: AskId, entries: &[u8]) -> Result<(), Fault> {
        let (client, mut round) = match std::mem::take(&mut self.lane.work) {
            Work::Compacting { client, round, stage: RoundStage::Fetching } => (client, round),
            // An answer to a round that was given up.
            other => {
                self.lane.work = other;
                return Ok(());
            }
        };
        let Ok(collection) = self.state.collection(round.collection) else { return Err(Fault::Unasked) };
        if let Err(tampering) = round.fetch.arrive(&collection.keys, ask, entries) {
            self.budget.release(round.reserved);
            self.answer(client, Reply::Refused(Refused::Storage(tampering)));
            self.next_job();
            return Ok(());
        }
        if !round.fetch.is_done() {
            self.lane.work = Work::Compacting { client, round, stage: RoundStage::Fetching };
            self.pump_round();
            return Ok(());
        }
        let puts = round.rewrite(collection, &mut self.prg);
        let left = puts.len();
        for entries in puts {
            self.ask(Waiting::Stored, |ask| Outgoing::Put { ask, entries: Blob(entries) });
        }
        if left == 0 {
            self.end_round(client, round);
        } else {
            self.lane.work = Work::Compacting { client, round, stage: RoundStage::Storing { left } };
        }
        Ok(())
    }

    fn end_round(&mut self, client: Client, round: Round) {
        let Round { collection, epoch, counts, .. } = &round;
        let keywords = counts.clone();
        self.save_record(&Change::Compacted { collection: *collection, epoch: *epoch, keywords });
        self.lane.work = Work::Compacting { client, round, stage: RoundStage::Ending };
    }

    /// The new entries count; the old ones go when nobody wants them.
    fn round_done(&mut self, client: Client, mut round: Round) {
        let saved = round.saved();
        let keywords = std::mem::take(&mut round.counts);
        let Round { collection, epoch, next, read, reserved, fetch, .. } = round;
        self.state.apply(&self.root, &Change::Compacted { collection, epoch, keywords });
        let fetch = fetch.again();
        self.lane.removals.push_back(Removal { collection, fetch, barrier: self.next_search, reserved });
        self.answer(client, Reply::Compacted { next, read, saved });
        self.remove_next();
        self.next_job();
    }

    /// Removes what is no longer needed, if no search may want it.
    pub(crate) fn remove_next(&mut self) {
        let Some(removal) = self.lane.removals.front() else { return };
        if self.searches.first_key_value().is_some_and(|(oldest, _)| *oldest < removal.barrier) {
            return;
        }
        let Some(collection) = self.state.collections.get(removal.collection as usize) else { return };
        let ask = self.next_ask();
        let Some(removal) = self.lane.removals.front_mut() else { return };
        let Some(labels) = removal.fetch.next(&collection.keys, ask, &mut self.prg) else { return };
        self.ask(Waiting::Removed, |ask| Outgoing::Remove { ask, labels: Blob(labels) });
    }

    pub(crate) fn removed(&mut self, ask: AskId) {
        if let Some(removal) = self.lane.removals.front_mut() {
            removal.fetch.removed(ask);
            if removal.fetch.is_done() {
                let freed = removal.reserved;
                self.lane.removals.pop_front();
                self.budget.release(freed);
            }
        }
        self.remove_next();
    }

    fn begin_checkpoint(&mut self) {
        let writer = Writer::begin(self.journal.number(), *self.journal.link(), &mut self.prg);
        self.journal.since_checkpoint = 0;
        self.checkpoint_stored(writer, 1, &CheckpointStage::Pieces);
    }

    fn checkpoint_stored(&mut self, mut writer: Writer, left: usize, stage: &CheckpointStage) {
        let mut left = left - 1;
        let mut stage = match stage {
            CheckpointStage::Pieces => CheckpointStage::Pieces,
            CheckpointStage::Head => CheckpointStage::Forgetting,
            CheckpointStage::Forgetting => return self.next_job(),
        };
        let generation = writer.generation;
        while stage == CheckpointStage::Pieces && left < 2 {
            let Some((piece, state)) = writer.next(&self.sealer, &self.state, &mut self.prg) else { break };
            let (name, state) = (StateName::Checkpoint { generation, piece }, Blob(state));
            self.ask(Waiting::Stored, |ask| Outgoing::Save { ask, name, state });
            left += 1;
        }
        if left == 0 && stage == CheckpointStage::Pieces {
            let state = Blob(writer.head(&self.sealer, &mut self.prg));
            self.ask(Waiting::Stored, |ask| Outgoing::Save { ask, name: StateName::Head, state });
            (left, stage) = (1, CheckpointStage::Head);
            self.lane.checkpoint_bytes = writer.bytes;
        } else if stage == CheckpointStage::Forgetting {
            self.ask(Waiting::Stored, |ask| Outgoing::Forget { ask, until: generation });
            left = 1;
        }
        self.lane.work = Work::Checkpoint { writer, left, stage };
    }
}
