//! The log: what changes the state, sealed and chained, a record a change; how far the monotonic counter has followed; and the start, which
//! looks whether checkpoint and log are the newest.
//!
//! A record is sealed before the counter is raised, so there can be several candidates for one number: of a run that was cut short, or of
//! a second enclave on the same state. The counter tells them apart: its value is how many runs there were, and in its lower
//! 40 bits the number of the last record. A run begins with a record that raises both, from the value that the run has found. So of the runs that
//! begin at one value one goes on, and where it begins, nothing that another one had sealed stands at the counter's value any more.

use crate::policy::Owner;
use crate::record::Records;
use crate::server::{Core, Enclave};
use arras_keys::Key;
use arras_primitives::aead::{Aead, NONCE_BYTES, OVERHEAD_BYTES};
use arras_primitives::prg::Prg;
use arras_protocol::codec;
use arras_protocol::iee::{Fault, Outgoing, StateName};
use arras_schemes::bisen::message::Request;
use arras_schemes::bisen::update::Update;
use arras_schemes::padding::{pad_in_proportion, unpad};
use postcard::fixint::le;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

/// Lengths of records are multiples of so many bytes, or of an eighth of themselves.
const STEP_BYTES: usize = 1024;

/// Keywords in one record of a compaction, so that it is no longer than the host takes.
pub(crate) const COUNTED_MAX: usize = 1 << 16;

/// As how many keywords those of a round count: no finer than what is stated of it.
pub(crate) fn round_keywords(keywords: usize) -> usize {
    keywords.next_multiple_of(COUNTED_MAX / 8)
}

/// Records of the log, as they are sealed.
const LOG: &str = "log";

/// Bits of the counter's value that are the number of the last record.
const NUMBER_BITS: u32 = 40;

/// The format of what is sealed: changed whenever it means something else.
const FORMAT: &str = " 5";

/// Formats of earlier builds.
const EARLIER: [&str; 4] = ["", " 2", " 3", " 4"];

/// What is sealed where: of which kind it is, and its place among those.
pub(crate) type Where<'a> = (&'a str, &'a [u8]);

fn associated((kind, place): Where<'_>, format: &str) -> Vec<u8> {
    [format!("arras bisen {kind}{format}").as_bytes(), place].concat()
}

/// Seals what is kept under one purpose.
pub(crate) struct Sealer {
    aead: Aead,
    /// Lengths are multiples of so many bytes, or of an eighth of themselves.
    step: usize,
}

impl Sealer {
    pub(crate) fn new(root: &Key, purpose: &[u8], step: usize) -> Self {
        Self { aead: Aead::new(root.derive(&[b"bisen", purpose]).expose()), step }
    }

    pub(crate) fn seal<T: Serialize>(&self, content: &T, place: Where<'_>, prg: &mut Prg) -> Vec<u8> {
        let mut nonce = [0; NONCE_BYTES];
        prg.fill(&mut nonce);
        let padded = pad_in_proportion(codec::encode(content), self.step);
        self.aead.seal(&nonce, &associated(place, FORMAT), &padded)
    }

    /// [`Fault::StateAltered`] if it was not sealed here for this place, [`Fault::StateEarlier`] if it was in an earlier format.
    pub(crate) fn open<T: DeserializeOwned>(&self, place: Where<'_>, sealed: &[u8]) -> Result<T, Fault> {
        let opened = |format: &str| self.aead.open(&associated(place, format), sealed);
        let Ok(padded) = opened(FORMAT) else {
            let is_earlier = EARLIER.iter().any(|format| opened(format).is_ok());
            return Err(if is_earlier { Fault::StateEarlier } else { Fault::StateAltered });
        };
        let content = unpad(&padded).map_err(|_| Fault::StateAltered)?;
        codec::decode(content).map_err(|_| Fault::StateAltered)
    }
}

/// A change of the state.
#[derive(Serialize, Deserialize)]
pub(crate) enum Change {
    /// A run began, for this administrator and authority: what a former run left unfinished behind this is void.
    Start { owner: Owner, generation: u32 },
    /// What a client asked: an update, a collection, rights.
    Asked(Request),
    /// An epoch number is used up: by a round of compaction, or when counters were spilled. Behind this, no checkpoint of an earlier generation
    /// stands.
    Epoch { generation: u32 },
    /// These keywords' entries are now so many, of this epoch.
    Compacted {
        collection: u32,
        /// The collection's revision with it.
        #[serde(with = "le")]
        revision: u128,
        /// How many entries fewer they have together.
        #[serde(with = "le")]
        saved: u64,
        keywords: Records,
    },
}

impl Change {
    /// The generation that a record says its state is of.
    pub(crate) fn generation(&self) -> Option<u32> {
        match self {
            Self::Start { generation, .. } | Self::Epoch { generation } => Some(*generation),
            Self::Asked(_) | Self::Compacted { .. } => None,
        }
    }

    /// The update that it is, if it is one.
    pub(crate) fn update(&self) -> Option<&Update> {
        if let Self::Asked(Request::Update(update)) = self { Some(update) } else { None }
    }

    /// Keywords by which the tables may have grown with it.
    pub(crate) fn keywords(&self) -> usize {
        match self {
            Self::Compacted { keywords, .. } => round_keywords(keywords.len()),
            other => other.update().map_or(0, |update| update.pairs.len()),
        }
    }
}

/// Where a log has come to.
#[derive(Clone, Copy, Serialize, Deserialize)]
pub(crate) struct Place {
    /// Of the last record.
    pub(crate) number: u64,
    runs: u64,
    /// Its last bytes, its tag among them: as many as earlier builds had of it, whose logs are known from their first record on.
    end: [u8; OVERHEAD_BYTES],
}

impl Place {
    /// What the counter says when it has followed.
    pub(crate) fn value(&self) -> u64 {
        self.runs << NUMBER_BITS | self.number
    }

    /// What the next record is bound to.
    fn next(&self) -> Vec<u8> {
        [&(self.number + 1).to_be_bytes()[..], &self.end].concat()
    }
}

/// The log.
pub(crate) struct Journal {
    sealer: Sealer,
    pub(crate) place: Place,
    /// The counter's value before the last record.
    before: u64,
    /// The counter's value, as far as is known.
    pub(crate) counter: u64,
    /// Bytes of records since the last checkpoint.
    pub(crate) since_checkpoint: usize,
    /// Bytes of the last checkpoint that this run wrote.
    pub(crate) checkpoint_bytes: usize,
}

impl Journal {
    /// An empty log.
    pub(crate) fn new(root: &Key) -> Self {
        let place = Place { number: 0, runs: 0, end: [0; OVERHEAD_BYTES] };
        let sealer = Sealer::new(root, b"log", STEP_BYTES);
        Self { sealer, place, before: 0, counter: 0, since_checkpoint: 0, checkpoint_bytes: 0 }
    }

    /// Goes on behind a checkpoint.
    pub(crate) fn resume(&mut self, place: Place) {
        (self.place, self.before) = (place, place.value());
    }

    /// Whether the whole log is one ahead of the counter as it was read, and not even with it: the last record was saved, and a crash came
    /// before the counter was raised to it.
    pub(crate) fn is_ahead(&self) -> Result<bool, Fault> {
        if [self.place.value(), self.before].contains(&self.counter) {
            return Ok(self.counter != self.place.value());
        }
        let counted = self.counter & ((1 << NUMBER_BITS) - 1);
        Err(if self.place.number > counted { Fault::CounterSetBack } else { Fault::StateSetBack })
    }

    /// Seals the next record.
    pub(crate) fn seal(&mut self, change: &Change, prg: &mut Prg) -> Vec<u8> {
        let sealed = self.sealer.seal(change, (LOG, &self.place.next()), prg);
        self.advance(change, &sealed);
        sealed
    }

    /// Opens the next record.
    pub(crate) fn open(&mut self, sealed: &[u8]) -> Result<Change, Fault> {
        let change = self.sealer.open((LOG, &self.place.next()), sealed)?;
        self.advance(&change, sealed);
        Ok(change)
    }

    fn advance(&mut self, change: &Change, sealed: &[u8]) {
        self.before = self.place.value();
        self.place.number += 1;
        self.place.runs += u64::from(matches!(change, Change::Start { .. }));
        self.place.end = sealed.last_chunk().copied().unwrap_or_default();
        self.since_checkpoint += sealed.len();
    }
}

impl Enclave {
    pub(crate) async fn boot(&self) -> Result<(), Fault> {
        let counter = self.counter(Outgoing::ReadCounter).await;
        self.core().journal.counter = counter;
        self.load_checkpoint().await?;
        let puts = self.load_log().await?;
        let is_ahead = self.core().journal.is_ahead()?;
        if is_ahead {
            self.raise().await?;
        }
        // The log and the counter are where the other is: this run says that it begins, and nobody else goes on from here.
        let start = self.core().begin()?;
        self.log(&start).await?;
        self.put(puts).await;
        let core = &mut *self.core();
        core.is_ready = true;
        core.tasks.say(Outgoing::Ready);
        Ok(())
    }

    async fn load_checkpoint(&self) -> Result<(), Fault> {
        let Some(sealed) = self.load(StateName::Head).await else { return Ok(()) };
        let head = self.core().open_head(sealed.as_slice())?;
        for piece in 0..head.loaded {
            let sealed = self.load(head.name(piece)).await;
            self.core().restore(&head, piece, sealed)?;
        }
        let core = &mut *self.core();
        core.state.spilled = head.if_spilled();
        core.fill.set_known(core.state.keywords(), core.state.spilled);
        core.journal.resume(head.place);
        Ok(())
    }

    /// Carries out what the log says. What the last change stores may not all be there: it is to be stored again, the same to the byte.
    async fn load_log(&self) -> Result<Vec<Vec<u8>>, Fault> {
        let mut puts = Vec::new();
        loop {
            let name = StateName::Log(self.core().journal.place.number + 1);
            let Some(sealed) = self.load(name).await else { return Ok(puts) };
            let core = &mut *self.core();
            let change = core.journal.open(sealed.as_slice())?;
            // Counters were spilled behind the checkpoint that the host gave.
            if change.generation().is_some_and(|said| said != core.state.generation) {
                return Err(Fault::StateSetBack);
            }
            core.fill.since += change.keywords();
            if let Some(update) = change.update() {
                let collection = core.state.kept(update.collection)?;
                let mut staged = collection.stage(update, &mut core.prg).map_err(|_| Fault::StateAltered)?;
                puts = std::mem::take(&mut staged.puts);
                collection.publish(update, &staged);
                continue;
            }
            // A start says nothing of whether the change before it was finished.
            if !matches!(change, Change::Start { .. }) {
                puts.clear();
            }
            core.state.apply(&core.root, &change);
        }
    }
}

impl Core {
    /// This run's first record.
    fn begin(&mut self) -> Result<Change, Fault> {
        self.budget.kept = self.state.bytes();
        let owner = self.launched_by.clone().ok_or(Fault::OutOfTurn)?;
        if !self.state.policy.is_for(&owner) {
            return Err(Fault::Administrator);
        }
        // With less memory than before, counters are spilled before the first update.
        self.fill.since += 1;
        Ok(Change::Start { owner, generation: self.state.generation })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_an_earlier_build_sealed_is_known_for_it_and_not_opened() {
        let sealer = Sealer::new(&Key::take_from(&mut [9; 32]), b"log", STEP_BYTES);
        let mut prg = Prg::new(&[1; 16]);
        let opened = |sealed: &[u8]| sealer.open::<u32>((LOG, b"place"), sealed);
        let sealed = sealer.seal(&7_u32, (LOG, b"place"), &mut prg);
        assert_eq!(opened(&sealed), Ok(7));
        for format in ["arras bisen log", "arras bisen log 2", "arras bisen log 3", "arras bisen log 4"] {
            let earlier =
                sealer.aead.seal(&[2; NONCE_BYTES], &[format.as_bytes(), b"place"].concat(), &[7, 0x80]);
            assert_eq!(opened(&earlier), Err(Fault::StateEarlier), "{format}");
        }
        for (kind, place) in [(LOG, &b"another"[..]), ("head", b"place")] {
            let other = sealer.seal(&7_u32, (kind, place), &mut prg);
            assert_eq!(opened(&other), Err(Fault::StateAltered), "{kind}");
        }
    }
    /// A state that was never long enough for a checkpoint is a log alone.
    #[test]
    fn a_log_that_an_earlier_build_began_is_known_for_it() {
        let root = Key::take_from(&mut [9; 32]);
        let begun = |format: &str| {
            // Bound to its number, and to the nonce and tag of a record that there is not.
            let place = [format.as_bytes(), &1_u64.to_be_bytes(), &[0; 28]].concat();
            Journal::new(&root).sealer.aead.seal(&[2; NONCE_BYTES], &place, &[7, 0x80])
        };
        for format in ["arras bisen log", "arras bisen log 2", "arras bisen log 3"] {
            let opened = Journal::new(&root).open(&begun(format));
            assert_eq!(opened.err(), Some(Fault::StateEarlier), "{format}");
        }
    }
}
