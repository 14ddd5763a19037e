//! Changes, one after the other: each is logged, the counter raised, its entries stored, and only then is it visible and answered.

use crate::budget::Reserved;
use crate::journal::{Change, round_keywords};
use crate::server::{Client, Core, Enclave};
use crate::state::{COLLECTION_BYTES, COLLECTIONS_MAX};
use crate::tasks::in_flights;
use arras_protocol::Blob;
use arras_protocol::codec::encoded_bytes;
use arras_protocol::iee::{Fault, Outgoing, StateName};
use arras_schemes::bisen::COLLECTION_NAME_BYTES_MAX;
use arras_schemes::bisen::message::{Refused, Reply, Request};
use arras_schemes::bisen::update::Update;

/// Bytes of the log, at least, after which the state is written whole.
const CHECKPOINT_MIN: usize = 16 << 20;

/// Bytes beside its message that an update takes, a pair: stem, place, block, tag, order, put, and the record.
const STAGED_BYTES: usize = 16 + 16 + 16 + 16 + 4 + 48 + 48;

/// A change that waits for its turn.
pub(crate) struct Job {
    pub(crate) client: Client,
    request: Request,
    reserved: Reserved,
}

/// Why a change is not carried out.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Stopped {
    #[error("refused")]
    Refused(Refused),
    #[error(transparent)]
    Fault(#[from] Fault),
}

impl From<Refused> for Stopped {
    fn from(refused: Refused) -> Self {
        Self::Refused(refused)
    }
}

impl Core {
    pub(crate) fn queue(&mut self, client: Client, request: Request) -> Result<(), Refused> {
        let bytes = match &request {
            Request::Update(update) => update.pairs.len() * STAGED_BYTES + update.documents.len() * 128,
            Request::Compact { .. } | Request::Open(_) | Request::Search(_) | Request::More(_) => 0,
            // A list takes some times its bytes.
            change @ (Request::Create { .. }
            | Request::Grant { .. }
            | Request::Revoke(_)
            | Request::RevokeCertificate(_)) => 16 * 1024 + 4 * encoded_bytes(change),
        };
        let reserved = self.make_room(bytes, &self.share(client))?;
        self.jobs.push_back(Job { client, request, reserved });
        Ok(())
    }

    /// What comes next: a job, or a checkpoint before it.
    fn next(&mut self) -> Option<Option<Job>> {
        // The first of the next client, as turns go.
        let turn =
            |(at, job): &(usize, &Job)| (job.reserved.place() <= self.last_job, job.reserved.place(), *at);
        let at = self.jobs.iter().enumerate().min_by_key(turn).map_or(0, |(at, _)| at);
        // Keywords by which tables may grow.
        let more = match self.jobs.get(at).map(|job| &job.request) {
            Some(Request::Update(update)) => update.pairs.len(),
            Some(Request::Compact { .. }) if self.state.spilled.is_some() => {
                round_keywords(self.fill.round() as usize)
            }
            _ => 0,
        };
        let is_long = self.journal.since_checkpoint >= CHECKPOINT_MIN.max(self.journal.checkpoint_bytes);
        if is_long || self.fill.is_full(more) {
            return Some(None);
        }
        let job = self.jobs.remove(at)?;
        self.last_job = job.reserved.place();
        Some(Some(job))
    }

    /// Whether a change can be carried out, before anything is logged of it; a reply if there is nothing to do.
    fn admit(&mut self, request: &Request) -> Result<Option<Reply>, Refused> {
        match request {
            Request::Update(update) => {
                let collection = self.state.collection(update.collection)?;
                if collection.revision_with(update.fence)? == collection.about.revision {
                    return Ok(Some(Reply::Updated));
                }
                self.fill.hold(update.pairs.len())?;
                let growth = collection.admit(update)?;
                self.make_room_for_data(growth, 0)?;
                self.fill.since += update.pairs.len();
            }
            Request::Create { name, settings } => {
                if let Some(number) = self.state.named(name) {
                    let same = self.state.collection(number)?.about.settings == *settings;
                    return if same {
                        self.state.open(name, true).map(Some)
                    } else {
                        Err(Refused::OtherSettings)
                    };
                }
                let fits = name.len() <= COLLECTION_NAME_BYTES_MAX && settings.is_bounded();
                if !fits || self.state.collections.len() >= COLLECTIONS_MAX {
                    return Err(Refused::Bound);
                }
            }
            change @ (Request::Grant { .. } | Request::Revoke(_) | Request::RevokeCertificate(_)) => {
                self.state.policy.has_room(change)?;
            }
            Request::Compact { .. } | Request::Open(_) | Request::Search(_) | Request::More(_) => {
                return Err(Refused::NotAllowed);
            }
        }
        Ok(None)
    }

    /// What follows from a change that is there for good.
    fn changed(&mut self, request: Request) -> Result<Reply, Refused> {
        match request {
            Request::Create { name, .. } => {
                self.budget.kept += COLLECTION_BYTES;
                return self.state.open(&name, true);
            }
            Request::Grant { identity, .. } => self.give_up_results_of(&identity),
            Request::Revoke(identity) => self.dismiss(|client| client.name == identity),
            Request::RevokeCertificate(serial) => self.dismiss(|client| client.serial == serial.0),
            Request::Update(_) => return Ok(Reply::Updated),
            Request::Compact { .. } | Request::Open(_) | Request::Search(_) | Request::More(_) => {}
        }
        Ok(Reply::Done)
    }
}

impl Enclave {
    /// The start, and then changes for as long as the enclave runs.
    pub(crate) async fn change_all(self) -> Result<(), Fault> {
        let is_shown =
            |core: &mut Core| core.identity.as_ref().is_none_or(|identity| identity.config.is_some());
        self.until(|core| is_shown(core).then_some(())).await;
        self.boot().await?;
        loop {
            let Some(job) = self.until(Core::next).await else {
                self.checkpoint().await?;
                continue;
            };
            let changed = self.change(job.client, job.request).await;
            drop(job.reserved);
            let reply = match changed {
                Ok(reply) => reply,
                Err(Stopped::Refused(refused)) => Reply::Refused(refused),
                Err(Stopped::Fault(fault)) => return Err(fault),
            };
            self.core().answer(job.client, reply);
        }
    }

    async fn change(&self, client: Client, request: Request) -> Result<Reply, Stopped> {
        // Its rights may have changed since it asked.
        self.core().permit(client, &request)?;
        if let Request::Compact { collection, from, fence } = request {
            return self.compact(collection, from.unwrap_or(0), fence).await;
        }
        if let Some(reply) = self.core().admit(&request)? {
            return Ok(reply);
        }
        let change = Change::Asked(request);
        self.log(&change).await?;
        if let Some(update) = change.update() {
            self.store(update).await?;
        }
        let Change::Asked(request) = change else { return Ok(Reply::Done) };
        Ok(self.core().changed(request)?)
    }

    /// Logs a change, and carries it out if it is no update. Nobody can take it back any more.
    pub(crate) async fn log(&self, change: &Change) -> Result<(), Fault> {
        let (number, sealed) = {
            let core = &mut *self.core();
            let sealed = core.journal.seal(change, &mut core.prg);
            (core.journal.place.number, sealed)
        };
        self.save(StateName::Log(number), sealed).await;
        self.raise().await?;
        let core = &mut *self.core();
        core.state.apply(&core.root, change);
        Ok(())
    }

    /// Raises the counter to the last record, if it has the value that this run left.
    pub(crate) async fn raise(&self) -> Result<(), Fault> {
        let (from, to) = {
            let core = self.core();
            (core.journal.counter, core.journal.place.value())
        };
        let before = self.counter(|ask| Outgoing::RaiseCounter { ask, from, to }).await;
        if before != from {
            return Err(Fault::Forked);
        }
        self.core().journal.counter = to;
        Ok(())
    }

    /// Stores the entries of an update, whose record is there for good; from then on searches see it.
    pub(crate) async fn store(&self, update: &Update) -> Result<(), Fault> {
        // It was admitted before it was logged.
        let mut staged = {
            let core = &mut *self.core();
            let collection = core.state.kept(update.collection)?;
            collection.stage(update, &mut core.prg).map_err(|_| Fault::StateAltered)?
        };
        self.put(std::mem::take(&mut staged.puts)).await;
        let core = &mut *self.core();
        core.state.kept(update.collection)?.publish(update, &staged);
        // Its pairs were counted as new keywords.
        core.budget.kept = core.state.bytes();
        Ok(())
    }

    pub(crate) async fn put(&self, puts: Vec<Vec<u8>>) {
        let mut puts = puts.into_iter();
        let put = |entries| ((), self.have_done(|ask| Outgoing::Put { ask, entries: Blob(entries) }));
        let _: Result<(), Fault> = in_flights(|| puts.next().map(put), |(), ()| Ok(())).await;
    }
}
