//! What goes through the channel: numbered requests, and one reply to each.
//!
//! A client may have [`arras_protocol::iee::CLIENT_REQUESTS_MAX`] requests under way; replies come in whatever order they are ready, under the
//! request's number. The reply to a search comes in pages ([`PAGE_HITS`]), each a message of its own, and the next when the one before was taken.
//!
//! *Lengths.* Updates show how many documents and pairs they have; searches the class of their numbers of keywords and steps;
//! pages how many slots they have, which follows from the padding; everything else has the length of its class, in steps
//! of [`STEP_BYTES`].

#[cfg(feature = "bisen-client")]
pub use super::client::Whole;
use super::query::{Padding, Search};
use super::update::{Fence, Update};
use super::{DocumentName, Salt};
use crate::padding::{pad_in_proportion, unpad};
use arras_protocol::Blob;
use arras_protocol::codec::{self, DecodeError};
use postcard::fixint::le;
use serde::{Deserialize, Serialize, de::DeserializeOwned};
use std::collections::BTreeSet;

/// Messages are filled up to multiples of so many bytes, or of an eighth of their length.
pub const STEP_BYTES: usize = 1024;

/// Most results in one page.
pub const PAGE_HITS: usize = 4096;

/// Most bytes of what clients of a collection agree on.
pub const PROFILE_BYTES_MAX: usize = 4096;

/// What a collection is made with.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Settings {
    /// How many declared fields its documents have.
    pub fields: u8,
    /// To how many results answers are filled up at least.
    pub padding: Padding,
    /// What its clients agree on and the enclave does not read: names of fields, language of analysis.
    pub profile: Blob,
}

/// A group of documents' readers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Group(#[serde(with = "le")] pub u32);

/// Which groups' documents somebody may see, besides those that everybody may.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Groups {
    /// All.
    All,
    /// These.
    Only(BTreeSet<Group>),
}

/// What somebody may do with a collection.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Rights {
    /// Search.
    pub search: bool,
    /// Update and compact.
    pub update: bool,
    /// Rank results, and filter by frequency and length.
    pub rank: bool,
    /// By which fields to filter: bit i is field i.
    pub fields: u8,
    /// Which documents.
    pub groups: Groups,
}

/// What a client asks.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Request {
    /// Makes a collection: the administrator's. [`Reply::Opened`]. One that is there is opened if its settings are these.
    Create {
        /// As its clients call it.
        name: String,
        /// What it is made with.
        settings: Settings,
    },
    /// Opens the one of this name: [`Reply::Opened`].
    Open(String),
    /// Changes one: [`Reply::Updated`] when it is durable and visible.
    Update(Update),
    /// Searches one: [`Reply::Found`], as often as there are pages.
    Search(Search),
    /// Writes what is left of keywords' entries anew where additions were deleted or their documents retired: [`Reply::Compacted`] after one
    /// round. Again, from where it came to, until that is `None`.
    Compact {
        /// The collection's number.
        collection: u32,
        /// Where to begin.
        from: Option<u64>,
        /// Where it stands among the collection's changes, if it reads anything; one that reads nothing is none.
        fence: Fence,
    },
    /// Says what somebody may do: the administrator's. [`Reply::Done`]. Replaces what was said before.
    Grant {
        /// The name in its certificate.
        identity: String,
        /// The collection's name.
        collection: String,
        /// What it may do there.
        rights: Rights,
    },
    /// Takes all rights from whom certificates name so, in every collection: the administrator's. [`Reply::Done`]. Its connections end.
    Revoke(String),
    /// Takes no more connections with the certificate of this serial number (as DER has its content), and ends those that there are: the
    /// administrator's. [`Reply::Done`]. For good.
    RevokeCertificate(Blob),
}

/// An open collection.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Opened {
    /// Its number, for requests.
    pub collection: u32,
    /// For the hashes of its keywords.
    pub salt: Salt,
    /// What it was made with.
    pub settings: Settings,
    /// How many documents are published.
    #[serde(with = "le")]
    pub documents: u64,
    /// How many entries are stored.
    #[serde(with = "le")]
    pub entries: u64,
    /// How many of them are of documents that are there: a compaction would leave about so many.
    #[serde(with = "le")]
    pub live_entries: u64,
    /// Its revision: a number that grows with every change.
    #[serde(with = "le")]
    pub revision: u128,
}

/// A document that was found.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Hit {
    /// Which.
    pub name: DocumentName,
    /// Its score, of a ranked search; 0 otherwise.
    pub score: f32,
}

/// Some results of a search. Its length follows from the number of slots alone.
#[derive(Clone, PartialEq, Serialize, Deserialize)]
pub struct Page {
    #[serde(with = "le")]
    pub(super) matches: u32,
    #[serde(with = "le")]
    pub(super) real: u32,
    /// Those that are real, and others.
    pub(super) slots: Vec<Hit>,
    pub(super) is_last: bool,
}

impl Page {
    /// A page of so many slots, at least as many as there are hits; whether it is the last.
    #[must_use]
    pub fn new(mut hits: Vec<Hit>, slots: usize, matches: u32, is_last: bool) -> Self {
        let real = hits.len();
        hits.resize(slots.max(real), Hit::default());
        Self { matches, real: real as u32, slots: hits, is_last }
    }
}

/// What the enclave answers.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum Reply {
    /// To [`Request::Create`] and [`Request::Open`].
    Opened(Opened),
    /// To [`Request::Update`]: the collection is at its fence's revision.
    Updated,
    /// To [`Request::Search`]: a page, and behind it the others or a refusal.
    Found(Page),
    /// To [`Request::Compact`]: where to go on; entries read, and entries removed for good.
    Compacted {
        /// Where the next round begins, if there is one.
        next: Option<u64>,
        /// Entries that the round read; if there were any, the collection is at the fence's revision.
        read: u64,
        /// How many fewer there are.
        saved: u64,
    },
    /// To the others.
    Done,
    /// Not done.
    Refused(Refused),
}

/// Why a request was not carried out.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Refused {
    /// The client has no right to it, or the collection is not there: the two look alike.
    NotAllowed,
    /// The search cannot be evaluated, or is out of bounds.
    Formula,
    /// An update that names a document which is not there, or twice: which slot.
    Document(u32),
    /// A name, a profile, an update or a list is too long, a setting is out of bounds, or there is no room for one more collection, document,
    /// right, revoked certificate or round of compaction.
    Bound,
    /// The collection is there with other settings.
    OtherSettings,
    /// The change's fence supposes another revision than the collection is at: this one.
    Stale(u128),
    /// The enclave's memory does not hold what the request needs, whatever else is under way.
    Memory {
        /// What it needs.
        needed: u64,
        /// What there is at most.
        budget: u64,
    },
    /// The enclave's memory does not hold the counters of so many keywords, and no more than so many records of them may be kept beside
    /// it.
    Keywords(u64),
    /// Too much is under way: to be asked again later.
    Busy,
    /// The storage answered with something that the enclave did not store there, or not: an attack, or a loss of data.
    Storage(Tampering),
}

/// How a storage was caught.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Tampering {
    /// An entry that was stored is not there.
    Missing,
    /// An entry was altered, or is another label's, or an older one.
    Altered,
    /// More or fewer entries than were asked for.
    Length,
}

/// A request under its number.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ask {
    /// Chosen by the client, different from those of its other requests under way.
    pub number: u64,
    /// The request.
    pub request: Request,
}

/// A reply under its request's number.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Answer {
    /// The request's.
    pub number: u64,
    /// The reply.
    pub reply: Reply,
}

/// A message as it goes into the channel: filled up to its class of lengths.
#[must_use]
pub fn encode<T: Serialize>(message: &T) -> Vec<u8> {
    let room = codec::encoded_bytes(message) * 9 / 8 + STEP_BYTES;
    pad_in_proportion(codec::encode_in(message, room), STEP_BYTES)
}

/// A message as it came out of the channel. What is in it may be out of bounds.
///
/// # Errors
/// [`DecodeError`] if it is none.
pub fn decode<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, DecodeError> {
    let content = unpad(bytes).map_err(|_| DecodeError("padded message"))?;
    // Only a formula's steps take more than twice their bytes: as many as there may be, have room beside.
    codec::decode_within(content, 2 * content.len() + 256 * STEP_BYTES)
}

impl Settings {
    /// Whether a collection can be made with them.
    #[must_use]
    pub fn is_bounded(&self) -> bool {
        self.profile.len() <= PROFILE_BYTES_MAX && self.padding.is_bounded()
    }
}
