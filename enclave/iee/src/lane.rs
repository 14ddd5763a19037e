//! Changes, one after the other: each is logged, the counter raised, its entries stored, and only then is it visible and answered.

use crate::budget::Reserved;
use crate::journal::{Change, LOG, round_keywords};
use crate::policy::Owner;
use crate::server::{Client, Core, Enclave};
use crate::state::{COLLECTION_BYTES, COLLECTIONS_MAX};
use crate::tasks::{in_flights, next_turn};
use arras_protocol::Blob;
use arras_protocol::iee::{Fault, Outgoing, StateName};
use arras_schemes::bisen::COLLECTION_NAME_BYTES_MAX;
use arras_schemes::bisen::message::{Refused, Reply, Request};
use arras_schemes::bisen::update::Update;

/// Bytes of the log, at least, after which the state is written whole.
const CHECKPOINT_MIN: usize = 16 << 20;

/// A change that waits for its turn.
pub(crate) struct Job {
    pub(crate) client: Client,
    pub(crate) request: Request,
    pub(crate) reserved: Reserved,
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
    /// Whether the state is to be written whole, before a change or at the start.
    fn is_due(&self, request: Option<&Request>) -> bool {
        // Keywords by which tables may grow.
        let more = match request {
            Some(Request::Update(update)) => update.pairs.len(),
            Some(Request::Compact { .. }) if !self.state.spilled.spilled().is_empty() => {
                round_keywords(self.fill.round())
            }
            _ => 0,
        };
        let is_long = self.journal.since_checkpoint >= CHECKPOINT_MIN.max(self.journal.checkpoint_bytes);
        is_long || self.fill.is_full(more)
    }

    /// Whether a change can be carried out, before anything is logged of it, and room for data that come with it; a reply if there is nothing
    /// to do.
    fn admit(&mut self, request: &Request) -> Result<(Option<Reply>, Reserved), Refused> {
        let growth = match request {
            Request::Update(update) => {
                let collection = self.state.collection(update.collection)?;
                if collection.revision_with(update.fence)? == collection.about.revision {
                    return Ok((Some(Reply::Updated), Reserved::default()));
                }
                self.fill.hold(update.pairs.len())?;
                collection.admit(update)?
            }
            Request::Create { name, settings } => {
                if let Some(number) = self.state.named(name) {
                    let same = self.state.collection(number)?.about.settings == *settings;
                    let reply =
                        if same { self.state.open(name, true)? } else { return Err(Refused::OtherSettings) };
                    return Ok((Some(reply), Reserved::default()));
                }
                let fits = name.len() <= COLLECTION_NAME_BYTES_MAX && settings.is_bounded();
                if !fits || self.state.collections.len() >= COLLECTIONS_MAX {
                    return Err(Refused::Bound);
                }
                COLLECTION_BYTES
            }
            change @ (Request::Grant { .. } | Request::Revoke(_) | Request::RevokeCertificate(_)) => {
                self.state.policy.has_room(change)?;
                0
            }
            Request::Compact { .. } | Request::Open(_) | Request::Search(_) => {
                return Err(Refused::NotAllowed);
            }
        };
        Ok((None, self.make_room_for_data(growth, 0)?))
    }

    /// What follows from a change that is there for good.
    fn changed(&mut self, request: Request) -> Result<Reply, Refused> {
        match request {
            Request::Create { name, .. } => return self.state.open(&name, true),
            Request::Revoke(identity) => self.dismiss(|client| client.name == identity),
            Request::RevokeCertificate(serial) => self.dismiss(|client| client.serial == serial.0),
            Request::Update(_) => return Ok(Reply::Updated),
            Request::Grant { .. } | Request::Compact { .. } | Request::Open(_) | Request::Search(_) => {}
        }
        Ok(Reply::Done)
    }
}

impl Enclave {
    /// The start, and then changes for as long as the enclave runs.
    pub(crate) async fn change_all(self, owner: Owner) -> Result<(), Fault> {
        self.until(|core| core.identity.iter().all(|of| of.config.is_some()).then_some(())).await;
        self.boot(owner).await?;
        if self.core().is_due(None) {
            self.checkpoint().await?;
        }
        loop {
            let next = |core: &mut Core| next_turn(&mut core.jobs, &mut core.last_job);
            let Job { client, request, reserved } = self.until(next).await;
            let done = self.change(client, request).await;
            drop(reserved);
            self.finish(client, done)?;
        }
    }

    async fn change(&self, client: Client, request: Request) -> Result<Reply, Stopped> {
        if self.core().is_due(Some(&request)) {
            self.checkpoint().await?;
        }
        // Its rights may have changed since it asked.
        self.core().permit(client, &request)?;
        if let Request::Compact { collection, from, fence } = request {
            return self.compact(collection, from.unwrap_or(0), fence).await;
        }
        let (reply, _growth) = self.core().admit(&request)?;
        if let Some(reply) = reply {
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
            let (place, record) = (core.journal.place.next(), (core.state.generation, change));
            let sealed = core.seal(&record, (LOG, &place));
            core.journal.advance(change, &sealed);
            core.fill.since += change.keywords();
            (core.journal.place.number, sealed)
        };
        self.save(StateName::Log(number), sealed).await;
        self.raise().await?;
        let core = &mut *self.core();
        core.state.apply(&core.root, change)
    }

    /// Raises the counter to the last record, if it has the value that this run left.
    pub(crate) async fn raise(&self) -> Result<(), Fault> {
        let from = self.core().journal.counter;
        let to = self.core().journal.place.value();
        let before = self.counter(|ask| Outgoing::RaiseCounter { ask, from, to }).await?;
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
        self.core().state.kept(update.collection)?.publish(update, &staged);
        Ok(())
    }

    pub(crate) async fn put(&self, puts: Vec<Vec<u8>>) {
        let mut puts = puts.into_iter();
        let put = |entries| ((), self.ask(|ask| Outgoing::Put { ask, entries: Blob(entries) }));
        let _: Result<(), Fault> = in_flights(|| puts.next().map(put), |(), _| Ok(())).await;
    }
}
