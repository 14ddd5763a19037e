//! What goes through the channel: numbered requests, and one reply to each.
//!
//! A client may have [`arras_protocol::iee::CLIENT_REQUESTS_MAX`] requests under way; replies come in whatever order they are ready, under the
//! request's number. Every reply is bounded ([`PAGE_HITS`]): who wants more asks again.
//!
//! *Lengths.* Updates show how many documents and pairs they have; searches the class of their numbers of keywords and steps;
//! pages how many slots they have, which follows from the padding; everything else has the length of its class, in steps
//! of [`STEP_BYTES`].

use super::query::{Padding, Search};
use super::update::{Fence, Update};
use super::{COLLECTION_NAME_BYTES_MAX, DocumentName, Salt, Unreadable};
use crate::padding::{pad_in_proportion, unpad};
use arras_protocol::Blob;
use arras_protocol::codec;
use arras_protocol::iee::{CLIENT_BYTES_MAX, IDENTITY_BYTES_MAX};
use serde::{Deserialize, Serialize};

/// Messages are filled up to multiples of so many bytes, or of an eighth of their length.
pub const STEP_BYTES: usize = 1024;

/// Most results in one page.
pub const PAGE_HITS: usize = 4096;

/// Most bytes of what clients of a collection agree on.
pub const PROFILE_BYTES_MAX: usize = 4096;

/// Most groups that one right names.
pub const GROUPS_MAX: usize = 256;

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

/// Which groups' documents somebody may see, besides those that everybody may.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Groups {
    /// All.
    All,
    /// These.
    Only(Vec<u32>),
}

impl Groups {
    /// Bytes that the list of them takes.
    #[must_use]
    pub fn bytes(&self) -> usize {
        match self {
            Self::All => 0,
            Self::Only(groups) => size_of_val(groups.as_slice()),
        }
    }
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
    /// Searches one: [`Reply::Found`].
    Search(Search),
    /// The next page of a search, by the cursor in the page before: [`Reply::Found`].
    More(u64),
    /// No further pages are wanted, by the cursor in the page before: [`Reply::Done`].
    Close(u64),
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
    pub documents: u64,
    /// How many entries are stored.
    pub entries: u64,
    /// How many of them are of documents that are there: a compaction would leave about so many.
    pub live_entries: u64,
    /// Its revision: a number that grows with every change.
    pub revision: u128,
}

impl Opened {
    /// Is it time for a compaction? A third of what is stored, and more than a few entries, are of no use: so each entry that is
    /// written anew is paid for by one that came.
    #[must_use]
    pub fn is_to_be_compacted(&self) -> bool {
        let stale = self.entries.saturating_sub(self.live_entries);
        stale > STALE_MIN && stale > self.entries / 3
    }
}

/// Entries of no use that are worth no compaction.
const STALE_MIN: u64 = 1024;

/// A document that was found.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Hit {
    /// Which.
    pub name: DocumentName,
    /// Its score, of a ranked search; 0 otherwise.
    pub score: f32,
}

/// Longest serial number of a certificate, in bytes (RFC 5280, 4.1.2.2; one more for a sign).
pub const SERIAL_BYTES_MAX: usize = 21;

/// Bytes of a result.
pub(super) const HIT_BYTES: usize = 16 + 4;

/// Bytes before the results: how many are real, how many documents match in all, the cursor.
pub(super) const HEADER_BYTES: usize = 4 + 4 + 8;

/// Some results of a search. Its length follows from the number of slots alone.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Page(pub(super) Blob);

impl std::fmt::Debug for Page {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Page({} bytes)", self.0.len())
    }
}

impl Page {
    /// A page of so many slots, at least as many as there are hits.
    #[must_use]
    pub fn new(hits: impl ExactSizeIterator<Item = Hit>, slots: usize, matches: u32, cursor: u64) -> Self {
        let slots = slots.max(hits.len());
        let mut bytes = Vec::with_capacity(HEADER_BYTES + slots * HIT_BYTES);
        bytes.extend_from_slice(&u32::try_from(hits.len()).unwrap_or(u32::MAX).to_le_bytes());
        bytes.extend_from_slice(&matches.to_le_bytes());
        bytes.extend_from_slice(&cursor.to_le_bytes());
        for hit in hits {
            bytes.extend_from_slice(&hit.name.0);
            bytes.extend_from_slice(&hit.score.to_le_bytes());
        }
        bytes.resize(HEADER_BYTES + slots * HIT_BYTES, 0);
        Self(Blob(bytes))
    }
}

/// What the enclave answers.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Reply {
    /// To [`Request::Create`] and [`Request::Open`].
    Opened(Opened),
    /// To [`Request::Update`]: the collection is at its fence's revision.
    Updated,
    /// To [`Request::Search`] and [`Request::More`].
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
    /// A filter names a field that the collection does not have.
    Field(u8),
    /// An update that cannot be read or is out of bounds.
    Update,
    /// An update that names a document which is not there, or twice: which slot.
    Document(u32),
    /// A name, a profile or a list is too long, or a setting is out of bounds.
    Bound(Setting),
    /// The collection is there with other settings.
    OtherSettings,
    /// The change's fence supposes another revision than the collection is at: this one.
    Stale(u128),
    /// The cursor is not there: read to its end, closed, or given up for another search's memory.
    Cursor,
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

/// What is too long or out of bounds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Setting {
    /// A collection's name.
    Name,
    /// What its clients agree on.
    Profile,
    /// How many fields it has.
    Fields,
    /// The padding.
    Padding,
    /// An identity.
    Identity,
    /// A list of groups.
    Groups,
    /// A certificate's serial number.
    Serial,
    /// How many collections, grants or revoked certificates there are.
    Number,
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
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Answer {
    /// The request's.
    pub number: u64,
    /// The reply.
    pub reply: Reply,
}

pub(super) fn encode<T: Serialize>(message: &T) -> Vec<u8> {
    pad_in_proportion(
        codec::encode_in(message, codec::encoded_bytes(message) * 9 / 8 + STEP_BYTES),
        STEP_BYTES,
    )
}

pub(super) fn decode<T: serde::de::DeserializeOwned>(bytes: &[u8]) -> Result<T, Unreadable> {
    if bytes.len() > CLIENT_BYTES_MAX {
        return Err(Unreadable::TooLong("bytes"));
    }
    codec::decode(unpad(bytes).map_err(|_| Unreadable::Malformed)?).map_err(|_| Unreadable::Malformed)
}

impl Ask {
    /// As it came out of the channel. What is bounded in it is within its bounds, except for the formula, which [`Search::depth`]
    /// is for, and the update's content ([`Update::check`]).
    ///
    /// # Errors
    /// [`Unreadable`] if it is not a request.
    pub fn decode(bytes: &[u8]) -> Result<Self, Unreadable> {
        decode(bytes)
    }
}

impl Answer {
    /// As it goes into the channel.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        encode(self)
    }
}

impl Request {
    /// Whether names, settings and lists are within their bounds.
    ///
    /// # Errors
    /// [`Refused::Bound`] if not.
    pub fn check_bounds(&self) -> Result<(), Refused> {
        let bound = |fits: bool, what| if fits { Ok(()) } else { Err(Refused::Bound(what)) };
        let named = |name: &str| bound((1..=COLLECTION_NAME_BYTES_MAX).contains(&name.len()), Setting::Name);
        let identified =
            |name: &str| bound((1..=IDENTITY_BYTES_MAX).contains(&name.len()), Setting::Identity);
        match self {
            Self::Create { name, settings } => {
                named(name)?;
                bound(settings.profile.len() <= PROFILE_BYTES_MAX, Setting::Profile)?;
                bound(usize::from(settings.fields) <= super::FIELDS_MAX, Setting::Fields)?;
                bound(settings.padding.is_bounded(), Setting::Padding)
            }
            Self::Open(name) => named(name),
            Self::Grant { identity, collection, rights } => {
                identified(identity)?;
                named(collection)?;
                match &rights.groups {
                    Groups::All => Ok(()),
                    Groups::Only(groups) => bound(groups.len() <= GROUPS_MAX, Setting::Groups),
                }
            }
            Self::Revoke(identity) => identified(identity),
            Self::RevokeCertificate(serial) => {
                bound((1..=SERIAL_BYTES_MAX).contains(&serial.len()), Setting::Serial)
            }
            Self::Update(_) | Self::Search(_) | Self::Compact { .. } => Ok(()),
            Self::More(_) | Self::Close(_) => Ok(()),
        }
    }
}
