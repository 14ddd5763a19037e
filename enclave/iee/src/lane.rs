//! Changes, one after the other: each is logged, the counter raised, its entries stored, and only then is it visible and answered.

use crate::boot::Boot;
use crate::checkpoint::{Next, Writer};
use crate::collection::Staged;
use crate::compact::{Round, bytes_for, choose};
use crate::fault::Fault;
use crate::fetch::Fetch;
use crate::journal::{COUNTED_MAX, Change, round_keywords};
use crate::server::{Client, Iee, Waiting};
use crate::spill::{Gathered, mark};
use crate::state::{COLLECTION_BYTES, COLLECTIONS_MAX};
use arras_primitives::Block;
use arras_protocol::Blob;
use arras_protocol::iee::{AskId, ConnectionId, Outgoing, StateName};
use arras_schemes::bisen::Salt;
use arras_schemes::bisen::message::{Refused, Reply, Request, Setting};
use arras_schemes::bisen::update::Update;
use std::collections::VecDeque;

/// Bytes of the log, at least, after which the state is written whole.
const CHECKPOINT_MIN: usize = 16 << 20;

/// Bytes beside its message that an update takes, a pair: place, block, tag, order, put, and the record; and what its counting takes.
const STAGED_BYTES: usize = 16 + 16 + 16 + 4 + 48 + 48 + 64;

/// A request that waits for its turn.
struct Job {
    client: Client,
    request: Request,
    reserved: usize,
}

/// Whom a change is for, and what is counted for it. Nobody's is what the start does.
#[derive(Clone, Copy, Default)]
pub(crate) struct Cause {
    client: Option<Client>,
    reserved: usize,
}

/// What a logged change is part of.
enum Part {
    Whole(Cause),
    Round(Box<Round>),
}

/// What is under way.
#[derive(Default)]
enum Work {
    #[default]
    Nothing,
    /// The record is being saved, then the counter raised; then the change is carried out.
    Logging {
        change: Change,
        part: Part,
    },
    /// Entries of an update are being stored.
    Storing {
        update: Update,
        staged: Staged,
        cause: Cause,
    },
    /// A round's keywords are being read, as far as they are spilled.
    Gathering(Cause),
    /// Entries of a round are being fetched; then what is left is stored.
    Fetching(Box<Round>),
    Rewriting(Box<Round>),
    /// Pieces are being saved, and those of the last checkpoint copied.
    Checkpoint(Writer),
    /// All of it is there; it counts from when nobody reads what is spilled in the last one.
    Settling(Writer),
    /// The log before it is being forgotten; whether it has begun a generation.
    Forgetting(bool),
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
    /// What the host has not stored yet of what is under way.
    awaited: usize,
    removals: VecDeque<Removal>,
    /// An update whose record was there at the start, and whose entries may be missing.
    pub(crate) unfinished: Option<Update>,
    /// The administrator that the launch named, and the hash of the authority.
    pub(crate) launched_by: (String, [u8; 32]),
    /// Bytes of the last checkpoint.
    checkpoint_bytes: usize,
}

impl Lane {
    /// Whether a checkpoint is whole, and does not count yet.
    pub(crate) fn is_settling(&self) -> bool {
        matches!(self.work, Work::Settling(_))
    }

    /// Lets go of what a client has waiting; bytes that were counted for it.
    pub(crate) fn forget(&mut self, connection: ConnectionId) -> usize {
        let mut freed = 0;
        self.queue.retain(|job| {
            let is_gone = job.client.connection == connection;
            freed += if is_gone { job.reserved } else { 0 };
            !is_gone
        });
        freed
    }
}

impl Iee {
    pub(crate) fn queue(&mut self, client: Client, request: Request) -> Result<Option<Reply>, Refused> {
        let reserved = match &request {
            Request::Update(update) => update.pair_count() * STAGED_BYTES + update.document_count() * 128,
            Request::Compact { .. } => 0,
            _ => 16 * 1024,
        };
        self.make_room(reserved)?;
        self.lane.queue.push_back(Job { client, request, reserved });
        self.next_job();
        Ok(None)
    }

    /// Begins what waits, if nothing is under way.
    pub(crate) fn next_job(&mut self) {
        while matches!(self.lane.work, Work::Nothing) {
            let full = CHECKPOINT_MIN.max(self.lane.checkpoint_bytes);
            let more = self.lane.queue.front().map_or(0, |job| self.keywords_for(&job.request));
            let is_full = self.fill.is_full(more);
            if self.journal.since_checkpoint >= full || is_full {
                return self.checkpoint(is_full);
            }
            let Some(Job { client, request, reserved }) = self.lane.queue.pop_front() else { return };
            let cause = Cause { client: Some(client), reserved };
            // Its rights may have changed since.
            let begun = self.permit(client, &request).and_then(|()| self.begin(request, cause));
            self.begun(begun, cause);
        }
    }

    /// Answers what is done, or refused, before anything is logged of it.
    fn begun(&mut self, begun: Result<Option<Reply>, Refused>, cause: Cause) {
        if let Some(reply) = begun.unwrap_or_else(|refused| Some(Reply::Refused(refused))) {
            self.end(cause, reply);
        }
    }

    /// Keywords by which tables may grow for a request.
    fn keywords_for(&self, request: &Request) -> usize {
        match request {
            Request::Update(update) => update.pair_count(),
            Request::Compact { .. } if self.state.spilled.is_some() => {
                round_keywords(self.fill.round() as usize)
            }
            _ => 0,
        }
    }

    /// Begins a checkpoint, which may spill counters; `is_full` is whether it comes because tables might not hold what is next.
    fn checkpoint(&mut self, is_full: bool) {
        self.journal.since_checkpoint = 0;
        self.fill.set_known(self.state.keywords(), self.state.spilled);
        let again = is_full && self.state.spilled.is_some();
        let stay = self.fill.stay(again).filter(|_| self.state.epochs < u32::MAX);
        if let Some(stay) = stay {
            mark(&mut self.state, stay);
        }
        let generation = if stay.is_some() { self.state.epochs + 1 } else { self.state.generation };
        let writer = Writer::begin(self.journal.place, &self.state, generation, &mut self.prg);
        self.write(writer);
    }

    /// Lets go of what a change took, and answers.
    fn end(&mut self, cause: Cause, reply: Reply) {
        self.budget.release(cause.reserved);
        if let Some(client) = cause.client {
            self.answer(client, reply);
        }
    }

    fn begin(&mut self, request: Request, cause: Cause) -> Result<Option<Reply>, Refused> {
        let change = match request {
            Request::Update(update) => {
                self.fill.hold(update.pair_count())?;
                let growth = self.state.collection(update.collection)?.admit(&update)?;
                self.make_room_for_data(growth, 0)?;
                self.fill.since += update.pair_count();
                Change::Update(update)
            }
            Request::Create { name, settings } => {
                if let Some(number) = self.state.named(&name) {
                    let collection = self.state.collection(number)?;
                    let opened = Reply::Opened(collection.opened(number));
                    let same = collection.settings == settings;
                    return if same { Ok(Some(opened)) } else { Err(Refused::OtherSettings) };
                }
                if self.state.collections.len() >= COLLECTIONS_MAX {
                    return Err(Refused::Bound(Setting::Number));
                }
                let mut salt = [0; 16];
                self.prg.fill(&mut salt);
                Change::Create { name, settings, salt: Salt(salt) }
            }
            Request::Grant { identity, collection, rights } => {
                self.state.policy.has_room(&rights)?;
                Change::Grant { identity, collection, rights }
            }
            Request::Revoke { identity } => Change::Revoke { identity },
            Request::RevokeCertificate { serial } => {
                self.state.policy.may_revoke()?;
                Change::RevokeCertificate { serial }
            }
            Request::Compact { collection, from } => {
                return self.begin_round(collection, from.unwrap_or(0), cause);
            }
            Request::Open { .. } | Request::Search(_) | Request::More { .. } | Request::Close { .. } => {
                return Err(Refused::NotAllowed);
            }
        };
        self.log_part(change, Part::Whole(cause));
        Ok(None)
    }

    /// Makes room for data, and for what is there beside it for a while.
    fn make_room_for_data(&mut self, growth: usize, beside: usize) -> Result<(), Refused> {
        let budget = self.budget.free_for_data();
        if growth > budget {
            return Err(Refused::Memory { needed: growth as u64, budget: budget as u64 });
        }
        self.make_room(growth + beside)?;
        self.budget.keep(growth);
        Ok(())
    }

    fn begin_round(&mut self, collection: u32, from: u64, cause: Cause) -> Result<Option<Reply>, Refused> {
        self.state.collection(collection)?;
        let gathered = Gathered::new(collection, from, self.fill.round());
        if self.state.spilled.is_none() {
            return self.begin_gathered(gathered, cause);
        }
        self.fill.hold(round_keywords(self.fill.round() as usize))?;
        let reserved = gathered.bytes();
        self.make_room(reserved)?;
        self.lane.work = Work::Gathering(Cause { reserved, ..cause });
        self.readings.round = Some(gathered);
        self.read_next();
        Ok(None)
    }

    /// What is spilled of a round's keywords is there.
    pub(crate) fn gathered(&mut self, gathered: Gathered) {
        let Work::Gathering(cause) = std::mem::take(&mut self.lane.work) else { return };
        // The round's own bytes come in its place.
        self.budget.release(cause.reserved);
        let cause = Cause { reserved: 0, ..cause };
        let begun = self.begin_gathered(gathered, cause);
        self.begun(begun, cause);
        self.next_job();
    }

    fn begin_gathered(&mut self, gathered: Gathered, cause: Cause) -> Result<Option<Reply>, Refused> {
        let number = gathered.collection();
        if let Some(needed) = gathered.beyond() {
            return Err(Refused::Memory { needed: needed as u64, budget: gathered.bytes() as u64 });
        }
        let collection = self.state.collection(number)?;
        let (keywords, next) = choose(collection, gathered);
        if keywords.is_empty() {
            return Ok(Some(Reply::Compacted { next, read: 0, saved: 0 }));
        }
        let stems = keywords.iter().map(|keyword| keyword.stem);
        let new: Vec<Block> = stems.filter(|stem| collection.table.get(stem).is_none()).collect();
        let growth = collection.table.growth_for(&new);
        let table_bytes = collection.table.bytes() + growth;
        // No label may come a second time.
        if self.state.epochs == u32::MAX {
            return Err(Refused::Bound(Setting::Number));
        }
        let reserved = bytes_for(&keywords);
        self.make_room_for_data(growth, reserved)?;
        self.fill.since += round_keywords(keywords.len());
        let cause = Cause { reserved, ..cause };
        let round = Round::new(number, keywords, next, table_bytes, cause);
        self.log_part(Change::Epoch, Part::Round(Box::new(round)));
        Ok(None)
    }

    /// Logs what a start does.
    pub(crate) fn log(&mut self, change: Change) {
        self.log_part(change, Part::Whole(Cause::default()));
    }

    fn log_part(&mut self, change: Change, part: Part) {
        let state = Blob(self.journal.seal(&change, &mut self.prg));
        let name = StateName::Log(self.journal.place.number);
        self.lane.work = Work::Logging { change, part };
        self.store(|ask| Outgoing::Save { ask, name, state });
    }

    /// Has the host store something of what is under way.
    fn store(&mut self, question: impl FnOnce(AskId) -> Outgoing) {
        self.lane.awaited += 1;
        self.ask(Waiting::Stored, question);
    }

    fn put(&mut self, entries: Vec<Vec<u8>>) {
        for entries in entries {
            self.store(|ask| Outgoing::Put { ask, entries: Blob(entries) });
        }
    }

    pub(crate) fn raise(&mut self) {
        let (from, to) = (self.journal.counter, self.journal.value());
        self.ask(Waiting::Raised, |ask| Outgoing::RaiseCounter { ask, from, to });
    }

    /// The host has stored something of what is under way.
    pub(crate) fn stored(&mut self) -> Result<(), Fault> {
        self.lane.awaited = self.lane.awaited.checked_sub(1).ok_or(Fault::Unasked)?;
        if self.lane.awaited > 0 {
            return Ok(());
        }
        match std::mem::take(&mut self.lane.work) {
            Work::Nothing | Work::Fetching(_) | Work::Gathering(_) | Work::Settling(_) => {
                return Err(Fault::Unasked);
            }
            work @ Work::Logging { .. } => {
                self.lane.work = work;
                self.raise();
            }
            Work::Storing { update, staged, cause } => self.publish(&update, &staged, cause)?,
            Work::Rewriting(round) => self.log_counts(round),
            Work::Checkpoint(writer) => self.write(writer),
            Work::Forgetting(true) => self.log(Change::Generation(self.state.generation)),
            Work::Forgetting(false) => self.next_job(),
        }
        Ok(())
    }

    /// The counter had the value that this run left, and is at the last record's now: nobody can take the record back.
    pub(crate) fn raised(&mut self) -> Result<(), Fault> {
        self.journal.counter = self.journal.value();
        if let Boot::Behind(last) = &mut self.boot {
            let last = last.take();
            return self.log_ended(last);
        }
        match std::mem::take(&mut self.lane.work) {
            Work::Logging { change: Change::Update(update), part: Part::Whole(cause) } => {
                self.put_update(update, cause)
            }
            Work::Logging { change, part } => {
                self.state.apply(&self.root, &change);
                match part {
                    Part::Whole(cause) => self.changed(&change, cause),
                    Part::Round(round) => {
                        self.go_on(round);
                        Ok(())
                    }
                }
            }
            _ => Err(Fault::Unasked),
        }
    }

    fn changed(&mut self, change: &Change, cause: Cause) -> Result<(), Fault> {
        let reply = match change {
            Change::Create { name, .. } => {
                self.budget.take(COLLECTION_BYTES);
                let number = self.state.named(name).unwrap_or_default();
                let opened = self.state.collection(number).map(|collection| collection.opened(number));
                opened.map_or_else(Reply::Refused, Reply::Opened)
            }
            Change::Grant { identity, .. } => {
                self.give_up_results_of(identity);
                Reply::Done
            }
            Change::Revoke { identity } => {
                self.dismiss(|client| client.name == *identity);
                Reply::Done
            }
            Change::RevokeCertificate { serial } => {
                self.dismiss(|client| client.serial == serial.as_slice());
                Reply::Done
            }
            Change::Start { .. } => {
                return match self.lane.unfinished.take() {
                    Some(update) => self.put_update(update, cause),
                    None => {
                        self.ready()?;
                        self.next_job();
                        Ok(())
                    }
                };
            }
            Change::Update(_) | Change::Epoch | Change::Generation(_) | Change::Compacted { .. } => {
                Reply::Done
            }
        };
        self.end(cause, reply);
        self.next_job();
        Ok(())
    }

    /// Stores the entries of an update; its record is there for good.
    fn put_update(&mut self, update: Update, cause: Cause) -> Result<(), Fault> {
        // It was admitted before it was logged.
        let collection = self.state.collection_mut(update.collection).map_err(|_| Fault::StateAltered)?;
        let mut staged = collection.stage(&update, &mut self.prg).map_err(|_| Fault::StateAltered)?;
        let puts = std::mem::take(&mut staged.puts);
        if puts.is_empty() {
            return self.publish(&update, &staged, cause);
        }
        self.lane.work = Work::Storing { update, staged, cause };
        self.put(puts);
        Ok(())
    }

    fn publish(&mut self, update: &Update, staged: &Staged, cause: Cause) -> Result<(), Fault> {
        let collection = self.state.collection_mut(update.collection).map_err(|_| Fault::StateAltered)?;
        collection.publish(update, staged);
        self.end(cause, Reply::Updated);
        if cause.client.is_none() {
            // What a former run had not finished.
            self.ready()?;
        }
        self.next_job();
        Ok(())
    }

    /// Behind a record of a round: it has its epoch, or some of its counts are there for good.
    fn go_on(&mut self, mut round: Box<Round>) {
        if round.epoch.is_some() {
            return self.log_counts(round);
        }
        round.epoch = Some(self.state.epochs);
        self.fetch(&mut round.fetch, round.collection, Waiting::Round);
        self.lane.work = Work::Fetching(round);
    }

    pub(crate) fn round_entries(&mut self, ask: AskId, entries: &[u8]) -> Result<(), Fault> {
        let mut round = match std::mem::take(&mut self.lane.work) {
            Work::Fetching(round) => round,
            // An answer to a round that was given up.
            other => {
                self.lane.work = other;
                return Ok(());
            }
        };
        let collection = self.state.collection(round.collection).map_err(|_| Fault::Unasked)?;
        if let Err(tampering) = round.fetch.arrive(&collection.keys, ask, entries) {
            let unused = round.table_bytes.saturating_sub(collection.table.bytes());
            self.budget.drop_data(unused);
            self.end(round.cause, Reply::Refused(Refused::Storage(tampering)));
            self.next_job();
            return Ok(());
        }
        if !round.fetch.is_done() {
            self.fetch(&mut round.fetch, round.collection, Waiting::Round);
            self.lane.work = Work::Fetching(round);
            return Ok(());
        }
        let puts = round.rewrite(collection, &mut self.prg);
        if puts.is_empty() {
            self.log_counts(round);
        } else {
            self.lane.work = Work::Rewriting(round);
            self.put(puts);
        }
        Ok(())
    }

    /// Logs what keywords have now, a record after the other; behind the last, the old entries go when nobody wants them.
    fn log_counts(&mut self, mut round: Box<Round>) {
        let (collection, epoch) = (round.collection, round.epoch.unwrap_or_default());
        let rest = round.counts.split_off(round.counts.len().min(COUNTED_MAX));
        let keywords = std::mem::replace(&mut round.counts, rest);
        if !keywords.is_empty() {
            let (keywords, spilled): (Vec<_>, Vec<u32>) = keywords.into_iter().unzip();
            let spilled = spilled.into_iter().map(u64::from).sum::<u64>().to_le_bytes();
            let change = Change::Compacted { collection, epoch, spilled, keywords };
            return self.log_part(change, Part::Round(round));
        }
        let Round { next, read, saved, cause, fetch, table_bytes, .. } = *round;
        // Keywords came into the table one by one, which takes no more than all at once.
        let now =
            self.state.collection(collection).map_or(table_bytes, |collection| collection.table.bytes());
        self.budget.drop_data(table_bytes.saturating_sub(now));
        let (fetch, barrier, reserved) = (fetch.again(), self.next_search, cause.reserved);
        self.lane.removals.push_back(Removal { collection, fetch, barrier, reserved });
        self.end(Cause { reserved: 0, ..cause }, Reply::Compacted { next, read, saved });
        self.remove_next();
        self.next_job();
    }

    /// Removes what is no longer needed, if no search may want it.
    pub(crate) fn remove_next(&mut self) {
        let oldest = self.searches.first_key_value().map_or(u64::MAX, |(oldest, _)| *oldest);
        if self.lane.removals.front().is_none_or(|removal| removal.barrier > oldest) {
            return;
        }
        let Some(mut removal) = self.lane.removals.pop_front() else { return };
        self.fetch(&mut removal.fetch, removal.collection, Waiting::Removed);
        self.lane.removals.push_front(removal);
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

    /// Saves the next piece of a checkpoint, or has one of the last checkpoint loaded.
    fn write(&mut self, mut writer: Writer) {
        let next = writer.next(&self.pieces, &self.state, &mut self.prg);
        self.lane.work = Work::Checkpoint(writer);
        match next {
            Next::Save(name, state) => self.store(|ask| Outgoing::Save { ask, name, state: Blob(state) }),
            Next::Load(name) => self.ask(Waiting::Copied, |ask| Outgoing::Load { ask, name }),
            Next::Nothing => {
                if let Work::Checkpoint(writer) = std::mem::take(&mut self.lane.work) {
                    self.lane.work = Work::Settling(writer);
                }
                self.settle();
            }
        }
    }

    /// A piece of what is spilled in the last checkpoint.
    pub(crate) fn copied(&mut self, sealed: Option<&[u8]>) -> Result<(), Fault> {
        let Work::Checkpoint(mut writer) = std::mem::take(&mut self.lane.work) else {
            return Err(Fault::Unasked);
        };
        writer.copy(&self.pieces, &self.state, sealed)?;
        self.write(writer);
        Ok(())
    }

    /// From now on a checkpoint that is whole counts, if there is one and nobody reads what is spilled in the last; then the log before it,
    /// and the last one, can go.
    pub(crate) fn settle(&mut self) {
        if !self.lane.is_settling() || self.readings.is_under_way() {
            return;
        }
        let Work::Settling(writer) = std::mem::take(&mut self.lane.work) else { return };
        let is_new = writer.generation != self.state.generation;
        self.state.spilled = writer.head.spilled();
        if is_new {
            let before = self.state.bytes();
            self.state.begin_generation(writer.generation);
            self.budget.drop_data(before.saturating_sub(self.state.bytes()));
        }
        self.fill.set_known(self.state.keywords(), self.state.spilled);
        self.lane.checkpoint_bytes = writer.bytes;
        self.lane.work = Work::Forgetting(is_new);
        let until = writer.head.place.number;
        self.store(|ask| Outgoing::Forget { ask, until });
        self.read_next();
    }
}
