//! Mutable order-preserving encoding (mOPE) and its same-time secure form (stOPE): the keyed half (Popa, Li and Zeldovich,
//! S&P 2013). On the same tree, the frequency-hiding form of Kerschbaum (CCS 2015; [`Kind::FrequencyHiding`]).
//!
//! The keyless side keeps, of each column, a tree whose keys are ciphertexts of the distinct values, and a table from
//! ciphertexts to *labels*, the encodings ([`arras_protocol::mope`]). The half here walks the tree, decrypts what it meets, and
//! works out what an insertion or a deletion comes to; whoever keeps the tree compares versions and applies it.
//!
//! *Beyond the paper* (its sections II to IV). Nodes of 64 to 128 entries are sent whole, and inner nodes stay in memory here,
//! so a value is found in one round. Labels are not paths but stand beside the keys (`labels`): splitting nodes changes none. A
//! query constant that is not stored is looked up and not inserted ([`Tree::places`]). A batch shares one walk, level by level,
//! and a bulk load is a batch into an empty tree.
//!
//! *stOPE* (section V). Leaves count occurrences; with its last a value's key goes from the tree, its ancestors and the table, and
//! the same value coming back is encrypted under a fresh nonce.
//!
//! *Frequency-hiding*. Each occurrence of a value is a key, under a nonce of its own, at a random place among those of equal values; it
//! goes with the row that has it. Kerschbaum's tree is the client's; here it is the keeper's, and what he has the client search in
//! memory is a walk.
//!
//! *Malicious keeper* (section VII). Where [`Settings::verified`], each inner node has the tags of its children and the head has
//! the root's. The paper's hash tree has hashes; as only holders of the key verify, ours has tags of a MAC under a key, which
//! take a sixth of the time and half the room. A node is verified before it is used, and the tags of what is written are computed
//! from what was verified. A head is authentic under the key, so that several holders of a key may write. What is of an older
//! version than was acknowledged, or another state at the same version, is an error. Not found out: two keepers' worth of
//! histories shown to two holders of a key that never speak to each other.
//!
//! *At the same time* any number of callers share a [`Tree`]. Those that enter values in mOPE at the same time share changes; else
//! writers take turns, from [`Tree::stage`] until what that returned is
//! finished or dropped; readers wait for nobody.
//!
//! *Leakage.* mOPE: order and equality of all values that were ever inserted, and for a look-up, between which of them it fell.
//! stOPE: for each two values that were present at the same time, their order; orders that follow from those, through a third
//! value; the number of occurrences. Frequency-hiding: an order of all occurrences that are there, in which equal ones are at random places
//! drawn here, and the order in which they came and went; not which are equal. All: the sizes of batches, and which of several
//! writers wrote.

mod cache;
mod cipher;
mod edit;
mod fh_ope;
pub mod index;
mod inner;
mod labels;
#[cfg(any(test, feature = "lab"))]
pub mod memory;
mod node;
#[cfg(any(test, feature = "lab"))]
pub mod path_encoded;
mod places;
mod rebuild;
mod room;
mod stage;
pub mod store;
mod sweep;
mod tags;
mod tend;
#[cfg(test)]
mod tests;
mod together;
mod work;

pub use cipher::{Form, VALUE_BYTES_MAX};
pub use places::Place;
pub use stage::StagedChange;

use crate::error::IndexError;
use crate::random::Randomness;
use arras_keys::Key;
use arras_protocol::Blob;
use arras_protocol::mope::{Head, Label, TreeStore, Tried};
use cache::SharedCache;
use cipher::Cipher;
use node::Layout;
use std::sync::Arc;
use std::time::Duration;
use tags::Tags;
use together::Waiting;
use tokio::sync::OwnedMutexGuard;

/// How often an operation starts again because others changed the tree meanwhile.
const TRIES_MAX: usize = 64;
const NEVER_AT_ITS_VERSION: IndexError =
    IndexError::Peer("an order-preserving tree is never at the version that it says it is at");

/// Which scheme a column has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Each occurrence of a value is a key of its own at a random place among those of equal values;
    /// it leaves by [`Tree::remove_stored`].
    FrequencyHiding,
    /// Values stay in the tree, under deterministic ciphertexts.
    Mope,
    /// A value leaves the tree with its last occurrence.
    Stope,
}

/// What a column's tree is, for life.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settings {
    /// What its values are.
    pub form: Form,
    /// Which scheme it has.
    pub kind: Kind,
    /// True: nodes carry tags, and whatever the keeper returns is verified.
    pub verified: bool,
}

/// A value that is in the tree.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stored {
    /// Its ciphertext.
    pub ciphertext: Blob,
    /// Its label, as of the version at which it was read.
    pub label: Label,
}

/// The client half of one column.
pub struct Tree<S> {
    store: S,
    cipher: Cipher,
    layout: Layout,
    /// None: unverified.
    tags: Option<Tags>,
    kind: Kind,
    randomness: Randomness,
    shared: Arc<SharedCache>,
    /// Held by the change that is staged.
    turn: Arc<tokio::sync::Mutex<()>>,
    waiting: Waiting,
}

impl<S> std::fmt::Debug for Tree<S> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Tree({:?}{})", self.kind, if self.tags.is_some() { ", verified" } else { "" })
    }
}

/// Why a walk came to no end.
enum Miss {
    /// The tree is at another version by now.
    Moved,
    /// No change of the size allowed makes room.
    Crowded(room::Crowd),
    Failed(IndexError),
}

impl<E: Into<IndexError>> From<E> for Miss {
    fn from(error: E) -> Self {
        Self::Failed(error.into())
    }
}

impl<S: TreeStore> Tree<S> {
    /// Opens a column's tree under the key of its index. `acknowledged` is what [`Self::acknowledged`] said last, where that was
    /// kept: a keeper that shows an older state is found out. Nonces, places among equal values and salts of heads come from
    /// `randomness`.
    ///
    /// # Errors
    /// [`IndexError::Caller`] if no column can have such values.
    pub fn open(
        store: S,
        key: &Key,
        settings: Settings,
        acknowledged: Option<Head>,
        randomness: Randomness,
    ) -> Result<Self, IndexError> {
        let nonces = match settings.kind {
            Kind::Mope => None,
            Kind::Stope | Kind::FrequencyHiding => Some(randomness.clone()),
        };
        let cipher = Cipher::new(key, settings.form, nonces)?;
        let layout = Layout {
            ciphertext_bytes: cipher.ciphertext_bytes(),
            plain_bytes: cipher.plain_bytes(),
            counts: settings.kind == Kind::Stope,
            tags: settings.verified,
            entries_max: node::ENTRIES_MAX,
        };
        Ok(Self {
            store,
            cipher,
            layout,
            tags: settings.verified.then(|| Tags::new(key)),
            kind: settings.kind,
            randomness,
            shared: Arc::new(SharedCache::new(acknowledged)),
            turn: Arc::default(),
            waiting: Waiting::default(),
        })
    }

    /// Where the tree is kept.
    pub fn store(&self) -> &S {
        &self.store
    }

    /// The value that a ciphertext of this column is of: for who is told of a ciphertext by the keeper.
    ///
    /// # Errors
    /// [`IndexError::Open`] if it is not of this column.
    pub fn value(&self, ciphertext: &Blob) -> Result<Vec<u8>, IndexError> {
        Ok(self.cipher.value(ciphertext.as_slice())?)
    }

    /// The ciphertext that a value has wherever it is stored, and whether it is stored or not; none but in mOPE: elsewhere
    /// each entry of it has another.
    ///
    /// # Errors
    /// [`IndexError::Caller`] if it is no value of the column.
    pub fn ciphertext(&self, value: &[u8]) -> Result<Option<Blob>, IndexError> {
        if self.kind != Kind::Mope {
            return Ok(None);
        }
        let plain = self.cipher.plains(&[value])?;
        let mut sealed = Vec::with_capacity(self.cipher.ciphertext_bytes());
        self.cipher.seal_each(std::iter::once(plain.as_slice()), &mut sealed);
        Ok(Some(Blob(sealed)))
    }

    /// Which scheme it has.
    #[must_use]
    pub fn kind(&self) -> Kind {
        self.kind
    }

    /// True if whatever the keeper returns is verified.
    #[must_use]
    pub fn is_verified(&self) -> bool {
        self.tags.is_some()
    }

    /// The newest state that is known to be this column's; none if nothing was asked yet.
    #[must_use]
    pub fn acknowledged(&self) -> Option<Head> {
        self.shared.cache().head
    }

    /// Enters values that are not there yet, counts those that are once more (stOPE) or enters them once more
    /// (frequency-hiding), and tells what they are stored as. Applied at once.
    ///
    /// # Errors
    /// [`IndexError`]. With [`IndexError::Channel`] it may be unknown whether the values entered; in mOPE the same may be asked
    /// again.
    pub async fn encode<V: AsRef<[u8]>>(&self, values: &[V]) -> Result<Vec<Stored>, IndexError> {
        self.enter(values).await
    }

    /// Takes one occurrence of each value away, and the value with its last one (stOPE; in mOPE values stay, and keys of
    /// occurrences leave by their ciphertexts: there this does nothing). Applied at once.
    ///
    /// # Errors
    /// [`IndexError`]; [`IndexError::Caller`] if a value is not there as often.
    pub async fn remove<V: AsRef<[u8]>>(&self, values: &[V]) -> Result<(), IndexError> {
        self.change(&self.in_turn().await, &[], values).await.map(|_| ())
    }

    /// The same, unless others have to be waited for longer than `wait`: then nothing was done, and the answer is false.
    ///
    /// # Errors
    /// As [`Self::remove`].
    pub async fn remove_within<V: AsRef<[u8]>>(
        &self,
        values: &[V],
        wait: Duration,
    ) -> Result<bool, IndexError> {
        let _turn = self.in_turn().await;
        for _ in 0..TRIES_MAX {
            match self.apply_within(self.stage_in_turn(&[], values).await?, wait).await? {
                Tried::Applied => return Ok(true),
                Tried::Busy => return Ok(false),
                Tried::OtherVersion => {}
            }
        }
        Err(NEVER_AT_ITS_VERSION)
    }

    /// Stages and applies in the writer's turn, again if another client was first.
    async fn change<V: AsRef<[u8]>>(
        &self,
        _turn: &OwnedMutexGuard<()>,
        insert: &[V],
        remove: &[V],
    ) -> Result<Vec<Stored>, IndexError> {
        for _ in 0..TRIES_MAX {
            if let Some(stored) = self.apply(self.stage_in_turn(insert, remove).await?).await? {
                return Ok(stored);
            }
        }
        Err(NEVER_AT_ITS_VERSION)
    }

    /// Applies what is staged, if others need not be waited for longer.
    async fn apply_within(&self, mut staged: StagedChange, wait: Duration) -> Result<Tried, IndexError> {
        let Some(change) = staged.take() else {
            drop(staged.finish());
            return Ok(Tried::Applied);
        };
        let head = change.head;
        let tried = self.store.commit_within(change, wait).await;
        match &tried {
            Ok(Tried::Applied) => drop(staged.finish()),
            Ok(Tried::OtherVersion) if self.is_verified() => self.shared.refuse(head),
            Ok(Tried::Busy | Tried::OtherVersion) | Err(_) => self.shared.doubt(),
        }
        Ok(tried?)
    }

    /// Applies what is staged: what its values are stored as, none if another client was first.
    async fn apply(&self, mut staged: StagedChange) -> Result<Option<Vec<Stored>>, IndexError> {
        let Some(change) = staged.take() else { return Ok(Some(staged.finish())) };
        let head = change.head;
        match self.store.commit(change).await {
            Ok(true) => return Ok(Some(staged.finish())),
            // Without a salt the same change of another writer leads to the same head.
            Ok(false) if self.is_verified() => self.shared.refuse(head),
            Ok(false) => self.shared.doubt(),
            Err(error) => {
                self.shared.doubt();
                return Err(error.into());
            }
        }
        Ok(None)
    }
}
