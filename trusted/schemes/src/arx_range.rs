//! Keyed half of ArxRange: range index of garbled circuits chained down a history-independent treap (Arx,
//! VLDB'19, §4 and §6), with buckets.
//!
//! *Shape.* An entry stands at `key || tie`, the tie being 4 bytes of a PRF of its row, so equal keys stand apart.
//! A place is a *separator* iff `PRF(place) mod B = 0`. Separators are the nodes of a treap whose priorities are a
//! PRF too; entries between two separators form a bucket, one sealed blob. All of it is a function of the set
//! of entries alone: history shows neither in the shape nor in who is a top node (`directory`).
//!
//! *Circuits are soft state, valid in one generation* (`epoch`). A process that starts cannot know which circuits
//! were opened before: it, or the server, may have crashed between an opening and the repair. So every tree begins
//! *unready*: at its first use it is loaded, its buckets are found here, and all its circuits are made anew. A
//! tree between top nodes has a few dozen nodes, so this costs what a few repairs cost, once. A tree becomes
//! unready again whenever the outcome of a walk or of a repair is unknown, or the server finds a circuit stale;
//! this needs no bookkeeping, because a tree is marked unready before its labels leave, and ready only by the
//! acknowledgement of its repair.
//!
//! *Circuits are made when they are needed.* A change of one or two places walks its trees, and what it opened is
//! made anew. A change of more loads the trees; those it gives another shape become unready and stay so, through any
//! number of further changes, until a search comes to them. So while a collection is filled no circuit is made, and
//! none is stored for a tree that nobody searches: in an index that is never searched they would be most of what the
//! server holds. Circuits left over from before are not deleted: they serve nothing, and are overwritten by the next.
//! Which trees are unready is no news to the server that runs: they are those in which it saw a node written, or no
//! search since this process began. A snapshot of it shows which trees no search has come to since they were filled
//! (they have no circuits), in units of whole trees; and, by what is left over, which separators of a tree came since its
//! last search.
//!
//! *Buckets are rewritten now and then.* A change that inserts many entries into an index without aggregates adds them
//! beside their buckets (`adding`), each a small sealed record, and reads and rewrites a bucket only where its records
//! come to half of `B`, where it is split, or where nothing is known of it since this process began. Whoever reads the
//! bucket reads its records too; any later change of it rewrites it with them. The server that runs sees the bucket of
//! each entry either way; a snapshot shows how many came since the bucket was rewritten.
//!
//! *No circuit is opened twice.* Labels leave for a root's circuit under a nonce only this process knows to be
//! unused. Everything below is reached through links that this process tagged (`locate`), so this holds
//! against a server that lies, not only against one that crashes.
//!
//! *Locks.* Searches share the index, changes have it alone. A tree is locked from the opening of its circuits
//! until they are repaired, so searches in different trees run side by side.
//!
//! *Parameters.* [`ArxRangeParameters`]. *Leakage.* [`arras_protocol::leakage::arx_range::ARX_RANGE`]; `sums` adds that of a
//! search without results.
//!
//! *Cost.* Search: one round trip, O(log n) circuits opened and remade. Insert, remove: the same, and the write;
//! one change in `B` also rewrites the path.
//!
//! *Deviations* from the paper. Buckets (`B` = 1 is the paper's index). Transitions of one row a bit. Circuits of a
//! whole tree are remade after a crash, not one. Aggregates are kept for each bucket and subtree, not for the
//! children of a node in a covering set, whose sum the paper leaves ambiguous. Changes of many entries load the trees
//! they touch instead of walking them: it opens nothing and shows the same. Circuits of trees they change are made at
//! the next search.

mod adding;
mod aggregate;
mod contract;
mod directory;
mod emit;
mod entry;
mod epoch;
mod estimate;
mod garbling;
mod inspect;
mod load;
mod locate;
mod relevel;
mod search;
mod secrets;
mod stage;
mod standalone;
mod sums;
mod treap;

pub use entry::RangeEntry;
pub use epoch::Epochs;
pub use garbling::Repair;
pub use search::{Continuation, RangeFound};
pub use stage::Staged;
pub use standalone::Standalone;
pub use sums::RangeSums;

use crate::error::IndexError;
use aggregate::Aggregate;
use arras_keys::Key;
use arras_primitives::aead::NONCE_BYTES;
use arras_primitives::prg::Prg;
use arras_protocol::arx_range::{ArxRange as Protocol, Change, Request, Response};
use arras_protocol::limits::KEY_BYTES_MAX;
use arras_protocol::write::Step;
use arras_protocol::{Channel, IndexId, NodeId};
use directory::{Directory, Levels};
use epoch::Generation;
use rand::CryptoRng;
use secrets::{Kind, Secrets, TIE_BYTES};
use std::sync::{Arc, Mutex, PoisonError, RwLock as Lock};
use tokio::sync::{OwnedRwLockReadGuard, OwnedRwLockWriteGuard, RwLock};

/// What an index is made with. All but `top_nodes` are fixed for its life.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ArxRangeParameters {
    /// Bytes of a key, without the tie-break: 1 to 60.
    pub key_bytes: usize,
    /// B: one place in so many is a separator. 1 is the paper's index.
    pub bucket_factor: u64,
    /// c: most separators held by the client. 0 for none.
    pub top_nodes: usize,
    /// Number of summed fields.
    pub sums: usize,
    /// True if ranges are to be counted without reading them; implied by `sums`.
    pub aggregates: bool,
}

impl ArxRangeParameters {
    /// Bytes that circuits compare.
    fn place_bytes(&self) -> usize {
        self.key_bytes + TIE_BYTES
    }

    /// True if aggregates are kept.
    fn aggregated(&self) -> bool {
        self.aggregates || self.sums > 0
    }

    /// # Errors
    /// [`IndexError::Caller`] if circuits cannot compare keys of this width.
    fn check(&self) -> Result<(), IndexError> {
        let fits = self.key_bytes > 0 && self.place_bytes() <= KEY_BYTES_MAX;
        if fits { Ok(()) } else { Err(IndexError::Caller("range keys have 1 to 60 bytes")) }
    }
}

/// An index held alone ([`ArxRange::suspend`]). Once this is dropped, the index is loaded anew before its next use.
#[must_use = "the index is suspended until this is dropped"]
pub struct Suspended(#[expect(dead_code, reason = "held for its drop")] OwnedRwLockWriteGuard<Directory>);

impl std::fmt::Debug for Suspended {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Suspended")
    }
}

/// An index held alone, for a change of it ([`ArxRange::hold`]). A write of several indexes holds them all, in an
/// order that all its like keep, before it stages their changes side by side.
pub struct Held(OwnedRwLockWriteGuard<Directory>);

impl std::fmt::Debug for Held {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Held")
    }
}

/// The client half of one index.
pub struct ArxRange<C> {
    channel: Arc<C>,
    secrets: Secrets,
    epochs: Arc<Epochs>,
    generation: Lock<Arc<Generation>>,
    directory: Arc<RwLock<Directory>>,
    random: Mutex<Prg>,
}

impl<C> std::fmt::Debug for ArxRange<C> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "ArxRange({:?})", self.secrets.index)
    }
}

impl<C> ArxRange<C> {
    /// The steps that make an empty index.
    ///
    /// Sealed like all later ones: a record that was never rewritten looks like any other.
    #[must_use]
    pub fn create(
        index: IndexId,
        keys: &Key,
        parameters: ArxRangeParameters,
        rng: &mut impl CryptoRng,
    ) -> Vec<Step> {
        let secrets = Secrets::new(index, keys, parameters);
        let zero = Aggregate::zero(&parameters);
        let head = emit::head_record(&parameters, &Levels::new(), &zero, &zero);
        let mut nonces = [[0; NONCE_BYTES]; 2];
        nonces.iter_mut().for_each(|nonce| rng.fill_bytes(nonce));
        let [bucket_nonce, head_nonce] = nonces;
        vec![Step::ArxRange(Change::CreateIndex {
            index,
            key_bytes: u8::try_from(parameters.place_bytes()).unwrap_or(u8::MAX),
            head_bucket: secrets.seal(
                Kind::Bucket,
                NodeId::HEAD,
                &bucket_nonce,
                &entry::encode_bucket(&parameters, &[]),
            ),
            head_sealed: secrets.seal(Kind::Head, NodeId::HEAD, &head_nonce, &head),
        })]
    }

    /// Which index.
    #[must_use]
    pub fn index(&self) -> IndexId {
        self.secrets.index
    }

    /// What it was made with.
    #[must_use]
    pub fn parameters(&self) -> &ArxRangeParameters {
        &self.secrets.parameters
    }

    /// Begins a new generation: every tree is unready. To be called when the epoch was raised, and when the server
    /// is found to have started anew. Operations under way end in their own generation.
    pub async fn new_epoch(&self) {
        let salt = self.random_bytes();
        let mut generation = self.generation.write().unwrap_or_else(PoisonError::into_inner);
        let number = generation.number + 1;
        *generation = Arc::new(Generation::new(&self.secrets, self.epochs.epoch(), salt, number));
    }

    /// Waits to have the index alone, and holds it so. For a write of steps that were computed earlier (one whose
    /// outcome is unknown, sent again): what is known here of the index is of before it, or of after.
    pub async fn suspend(&self) -> Suspended {
        let mut directory = Arc::clone(&self.directory).write_owned().await;
        directory.valid = false;
        directory.forget_trees();
        Suspended(directory)
    }

    /// Waits to have the index alone, for [`Self::stage_held`].
    pub async fn hold(&self) -> Held {
        Held(Arc::clone(&self.directory).write_owned().await)
    }

    fn generation(&self) -> Arc<Generation> {
        Arc::clone(&self.generation.read().unwrap_or_else(PoisonError::into_inner))
    }

    fn random_bytes<const N: usize>(&self) -> [u8; N] {
        let mut bytes = [0; N];
        self.random.lock().unwrap_or_else(PoisonError::into_inner).fill(&mut bytes);
        bytes
    }

    fn check_value(&self, value: &[u8]) -> Result<(), IndexError> {
        let fits = value.len() == self.parameters().key_bytes;
        if fits { Ok(()) } else { Err(IndexError::Caller("a value of another width than the index's keys")) }
    }
}

impl<C: Channel<Protocol>> ArxRange<C> {
    /// Opens an index: loads its directory. `epochs` is shared by all indexes of a process, and its epoch must be
    /// one in which no process garbled before; randomness comes from `rng`.
    ///
    /// # Errors
    /// [`IndexError`] if the server cannot be reached or has not what [`Self::create`] made under this key and
    /// with these parameters.
    pub async fn open(
        channel: Arc<C>,
        index: IndexId,
        keys: &Key,
        parameters: ArxRangeParameters,
        epochs: Arc<Epochs>,
        rng: &mut impl CryptoRng,
    ) -> Result<Arc<Self>, IndexError> {
        parameters.check()?;
        let secrets = Secrets::new(index, keys, parameters);
        let (mut seed, mut salt) = ([0; 16], [0; 16]);
        rng.fill_bytes(&mut seed);
        rng.fill_bytes(&mut salt);
        let generation = Generation::new(&secrets, epochs.epoch(), salt, 0);
        let zero = Aggregate::zero(&parameters);
        let directory = Directory {
            valid: false,
            version: 0,
            levels: Levels::new(),
            threshold: 0,
            head: directory::Gap::new(None, zero.clone(), zero),
            tops: Vec::new(),
            added: adding::Added::default(),
        };
        let opened = Arc::new(Self {
            channel,
            secrets,
            epochs,
            generation: Lock::new(Arc::new(generation)),
            directory: Arc::new(RwLock::new(directory)),
            random: Mutex::new(Prg::new(&seed)),
        });
        drop(opened.lock_alone().await?);
        Ok(opened)
    }

    async fn ask(&self, request: Request) -> Result<Response, IndexError> {
        Ok(self.channel.call(request).await?)
    }

    /// The directory, shared.
    async fn lock_shared(&self) -> Result<OwnedRwLockReadGuard<Directory>, IndexError> {
        loop {
            let directory = Arc::clone(&self.directory).read_owned().await;
            if directory.valid {
                return Ok(directory);
            }
            drop(directory);
            drop(self.lock_alone().await?);
        }
    }

    /// The directory, alone; loaded anew if the outcome of a change is unknown.
    async fn lock_alone(&self) -> Result<OwnedRwLockWriteGuard<Directory>, IndexError> {
        self.loaded(self.hold().await).await
    }

    /// The directory as it is held, loaded anew if the outcome of a change is unknown.
    async fn loaded(
        &self,
        Held(mut directory): Held,
    ) -> Result<OwnedRwLockWriteGuard<Directory>, IndexError> {
        if !directory.valid {
            *directory = self.load_directory(&directory).await?;
        }
        Ok(directory)
    }
}

#[cfg(test)]
mod tests;
