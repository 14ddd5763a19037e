//! The log: what changes the state, sealed and chained, a record a change; how far the monotonic counter has followed; and the start, which
//! looks whether checkpoint and log are the newest.
//!
//! A record is sealed before the counter is raised, so there can be several candidates for one number: of a run that was cut short, or of
//! a second enclave on the same state. The counter tells them apart: its value is how many runs there were, and in its lower
//! 40 bits the number of the last record. A run begins with a record that raises both, from the value that the run has found. So of the runs that
//! begin at one value one goes on, and where it begins, nothing that another one had sealed stands at the counter's value any more.

use crate::checkpoint::{HEAD, Head};
use crate::collection::About;
use crate::documents::Version;
use crate::policy::{Owner, Policy};
use crate::server::Enclave;
use crate::table::Records;
use arras_keys::Key;
use arras_primitives::aead::{Aead, NONCE_BYTES};
use arras_primitives::prg::Prg;
use arras_protocol::codec;
use arras_protocol::iee::{Fault, Outgoing, StateName};
use arras_schemes::bisen::message::Request;
use arras_schemes::bisen::update::Update;
use arras_schemes::padding::{pad_in_proportion, unpad};
use postcard::fixint::le;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// Lengths of what is sealed are multiples of so many bytes, or of an eighth of themselves.
const STEP_BYTES: usize = 4096;

/// Most keywords in a record of a compaction, so that it is no longer than the host takes.
pub(crate) const COUNTED_MAX: usize = 3 << 15;

/// As how many keywords those of a round count: no finer than what is stated of it.
pub(crate) fn round_keywords(keywords: usize) -> usize {
    keywords.next_multiple_of(8192)
}

/// Records of the log, as they are sealed.
pub(crate) const LOG: &[u8] = b"log";

/// Bits of the counter's value that are the number of the last record.
const NUMBER_BITS: u32 = 40;

/// The format of what is sealed, which begins with it: changed whenever that means something else.
const FORMAT: &[u8] = b"arras bisen 6\n";

/// What is sealed where: of which kind it is, and its place among those.
pub(crate) type Where<'a> = (&'a [u8], &'a [u8]);

/// Seals what is kept.
pub(crate) struct Sealer(Aead);

impl Sealer {
    pub(crate) fn new(root: &Key) -> Self {
        Self(Aead::new(root.derive(&[b"bisen", b"state"]).expose()))
    }

    pub(crate) fn seal<T: Serialize>(&self, content: &T, (kind, place): Where<'_>, prg: &mut Prg) -> Vec<u8> {
        let mut nonce = [0; NONCE_BYTES];
        prg.fill(&mut nonce);
        let padded = pad_in_proportion(codec::encode(content), STEP_BYTES);
        [FORMAT, &self.0.seal(&nonce, &[FORMAT, kind, place].concat(), &padded)].concat()
    }

    /// [`Fault::StateAltered`] if it was not sealed here for this place, [`Fault::StateEarlier`] if it is in no format of this build.
    pub(crate) fn open<T: DeserializeOwned>(&self, at: Where<'_>, sealed: &[u8]) -> Result<T, Fault> {
        let sealed = sealed.strip_prefix(FORMAT).ok_or(Fault::StateEarlier)?;
        let padded = self.0.open(&[FORMAT, at.0, at.1].concat(), sealed);
        let padded = padded.map_err(|_| Fault::StateAltered)?;
        let content = unpad(&padded).map_err(|_| Fault::StateAltered)?;
        codec::decode(content).map_err(|_| Fault::StateAltered)
    }
}

/// A change of the state: a record of the log, or a piece of a checkpoint.
#[derive(Serialize, Deserialize)]
pub(crate) enum Change {
    /// A run began, for this administrator and authority: what a former run left unfinished behind this is void.
    Start(Owner),
    /// What a client asked: an update, a collection, rights.
    Asked(Request),
    /// The first piece of a checkpoint: everything that is small.
    Rest { collections: Vec<About>, policy: Policy, epochs: u32, generation: u32 },
    /// A piece of a checkpoint: of what is in tables, or of what is spilled, as the head says.
    Keywords(Records),
    /// A piece of a checkpoint: versions of a collection's documents.
    Versions(u32, Vec<Version>),
    /// An epoch number is used up: by a round of compaction, or when counters were spilled.
    Epoch,
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
#[derive(Clone, Copy, Default, Serialize, Deserialize)]
pub(crate) struct Place {
    /// Of the last record.
    pub(crate) number: u64,
    runs: u64,
    /// Its last bytes: its tag.
    end: [u8; 16],
}

impl Place {
    /// What the counter says when it has followed.
    pub(crate) fn value(&self) -> u64 {
        self.runs << NUMBER_BITS | self.number
    }

    /// What the next record is bound to.
    pub(crate) fn next(&self) -> Vec<u8> {
        [&(self.number + 1).to_be_bytes()[..], &self.end].concat()
    }
}

/// The log.
#[derive(Default)]
pub(crate) struct Journal {
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
    /// Whether the whole log is one ahead of the counter as it was read, and not even with it: the last record was saved, and a crash came
    /// before the counter was raised to it.
    pub(crate) fn is_ahead(&self) -> Result<bool, Fault> {
        if [self.place.value(), self.before].contains(&self.counter) {
            return Ok(self.counter != self.place.value());
        }
        let counted = self.counter & ((1 << NUMBER_BITS) - 1);
        Err(if self.place.number > counted { Fault::CounterSetBack } else { Fault::StateSetBack })
    }

    /// Goes on behind the next record.
    pub(crate) fn advance(&mut self, change: &Change, sealed: &[u8]) {
        self.before = self.place.value();
        self.place.number += 1;
        self.place.runs += u64::from(matches!(change, Change::Start(_)));
        self.place.end = sealed.last_chunk().copied().unwrap_or_default();
        self.since_checkpoint += sealed.len();
    }
}

impl Enclave {
    pub(crate) async fn boot(&self, owner: Owner) -> Result<(), Fault> {
        let counter = self.counter(Outgoing::ReadCounter).await?;
        self.core().journal.counter = counter;
        self.load_checkpoint().await?;
        let puts = self.load_log().await?;
        if self.core().journal.is_ahead()? {
            self.raise().await?;
        }
        // The log and the counter are where the other is: this run says that it begins, and nobody else goes on from here.
        let first = self.core().state.policy.owner.clone();
        if !first.0.is_empty() && first != owner {
            return Err(Fault::Administrator);
        }
        // With less memory than before, counters are spilled before the first update.
        self.core().fill.since += 1;
        self.log(&Change::Start(owner)).await?;
        self.put(puts).await;
        let core = &mut *self.core();
        core.is_ready = true;
        core.tasks.out.push(Outgoing::Ready);
        Ok(())
    }

    async fn load_checkpoint(&self) -> Result<(), Fault> {
        let Some(sealed) = self.load(StateName::Head).await else { return Ok(()) };
        let head: Head = self.core().sealer.open(HEAD, sealed.as_slice())?;
        for piece in 0..head.loaded {
            let sealed = self.load(head.name(piece)).await;
            let core = &mut *self.core();
            let piece = core.open_piece(&head, piece, sealed)?;
            core.state.apply(&core.root, &piece)?;
        }
        let core = &mut *self.core();
        (core.journal.place, core.journal.before) = (head.place, head.place.value());
        core.fill.set_known(core.state.keywords(), &head);
        core.state.spilled = Arc::new(head);
        Ok(())
    }

    /// Carries out what the log says. What the last change stores may not all be there: it is to be stored again, the same to the byte.
    async fn load_log(&self) -> Result<Vec<Vec<u8>>, Fault> {
        let mut puts = Vec::new();
        loop {
            let name = StateName::Log(self.core().journal.place.number + 1);
            let Some(sealed) = self.load(name).await else { return Ok(puts) };
            let core = &mut *self.core();
            let place = core.journal.place.next();
            let (generation, change): (u32, Change) = core.sealer.open((LOG, &place), sealed.as_slice())?;
            // Counters were spilled behind the checkpoint that the host gave.
            if generation != core.state.generation {
                return Err(Fault::StateSetBack);
            }
            core.journal.advance(&change, sealed.as_slice());
            core.fill.since += change.keywords();
            if let Some(update) = change.update() {
                let collection = core.state.kept(update.collection)?;
                let mut staged = collection.stage(update, &mut core.prg).map_err(|_| Fault::StateAltered)?;
                puts = std::mem::take(&mut staged.puts);
                collection.publish(update, &staged);
                continue;
            }
            // A start says nothing of whether the change before it was finished.
            if !matches!(change, Change::Start(_)) {
                puts.clear();
            }
            core.state.apply(&core.root, &change)?;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_another_build_sealed_is_known_for_it_and_what_is_elsewhere_does_not_open() {
        let sealer = Sealer::new(&Key::take_from(&mut [9; 32]));
        let mut prg = Prg::new(&[1; 16]);
        let opened = |sealed: &[u8]| sealer.open::<u32>((LOG, b"place"), sealed);
        let sealed = sealer.seal(&7_u32, (LOG, b"place"), &mut prg);
        assert_eq!(opened(&sealed), Ok(7));
        for format in [&b""[..], b"arras bisen 5\n"] {
            let other = [format, sealed.strip_prefix(FORMAT).unwrap_or_default()].concat();
            assert_eq!(opened(&other), Err(Fault::StateEarlier));
        }
        for (kind, place) in [(LOG, &b"another"[..]), (b"head", b"place")] {
            let other = sealer.seal(&7_u32, (kind, place), &mut prg);
            assert_eq!(opened(&other), Err(Fault::StateAltered), "{kind:?}");
        }
    }
}
