//! The derivation tree.
//!
//! ```text
//! root (one a version, random, in the keyring)
//! |-- ProxyStoreSeal                      AEAD of every record in the proxy's own store
//! |-- ProxyRunning                        what a running proxy proves that it has this keyring with
//! |-- ProxyStoreSlotNames                 PRF: names of the records in the proxy's own store
//! |-- SearchJournalSeal                   AEAD of what `arras search` records of the files it has indexed
//! |-- Collection(id)                      one a collection; id is the collection's random 8 bytes
//! |   |-- CollectionRowId                 deterministic AEAD of the canonical `_id`; its tag is the row id
//! |   |-- CollectionHeaderSeal            AEAD of a document's header
//! |   `-- CollectionValuesSeal            AEAD of the values of a document's fields
//! |-- Column(id)                          one a column of a SQL table; id is the 8 bytes that the schema file gives it
//! |   |-- ColumnSeal                      AEAD of the column's values
//! |   |-- ColumnEquality                  deterministic tag of a value: the term that equal values share
//! |   |-- ColumnCheck                     PRF: what the database keeps, by which another key or id is noticed
//! |   |-- ColumnResultSeal                AEAD of values that a statement gives for its own results, beside the column's
//! |   `-- what an index of the column's order has below, by its scheme
//! `-- Index(id)                           one an index; id is the index's random 8 bytes
//!     |-- UniqueLabel                     eq_unique: deterministic tag of a value
//!     |-- ArxEqCounterSlots               arx_eq: PRF, value -> name of its counter in the proxy's store
//!     |-- ArxEqValueRoots                 arx_eq: PRF, value -> root of its token tree
//!     |-- ArxRangeSeal                    arx_range: AEAD of node records and buckets
//!     |-- ArxRangeSeparator               arx_range: PRF that picks the separators
//!     |-- ArxRangePriority                arx_range: PRF, separator -> treap priority
//!     |-- ArxRangeTie                     arx_range: PRF, row id -> tie-break
//!     |-- ArxRangeLabel                   arx_range: PRF, circuit nonce -> its input labels
//!     |-- ArxRangeDelta                   arx_range: PRF, epoch -> the garbling offset of that epoch
//!     |-- BcloTape                          BCLO: PRG seeds of the recursion's nodes
//!     |-- BPlusRecord                       bplus: PRF, ciphertext -> name of its record in the proxy's store
//!     |-- BPlusSeal                         bplus: deterministic AEAD of an entry's value and row
//!     |-- BPlusTie                          bplus: PRF, value -> what orders the entries of that value
//!     |-- ClozHash                          CLOZ: PRF of the pairing hash
//!     |-- ClozPrefix                        CLOZ: PRF of prefixes
//!     |-- ClozSeal                          CLOZ: symmetric encryption of the plaintext beside the hashes
//!     |-- ClwwPrefix                        CLWW: PRF of prefixes
//!     |-- KerschbaumTuenoSeal               Kerschbaum-Tueno: symmetric encryption of elements
//!     |-- LewiWuBlock                       Lewi-Wu: PRF of prefixes and blocks (k1)
//!     |-- LewiWuPermutation                 Lewi-Wu: PRF, prefix to the block's permutation (k2)
//!     |-- LogarithmicBrcKeyword             Logarithmic-BRC: PRF, range node to its tokens
//!     |-- LogarithmicBrcSeal                Logarithmic-BRC: symmetric encryption of blocks
//!     |-- MopeRows                            mOPE: PRF, ciphertext -> key of the entries under it
//!     |-- MopeSeal                            mOPE: encryption of values, deterministic or, in stOPE, randomised
//!     |-- MopeTags                            mOPE: MAC of the tree's nodes and of its head
//!     |-- PathOramSeal                      Path ORAM: AEAD of buckets
//!     |-- PopeSeal                          POPE: symmetric encryption of elements
//!     `-- PopeTie                           POPE: PRF, row -> what hides the number of an element's operation
//! ```
//! An index is of one kind for life and its id is never used again, so kinds could share a key; they do not.
//! Names below are part of the stored format: changing one loses the data under it.

use crate::key::Key;

/// What a key is for: one step down the tree drawn above. The comment of each variant names the key it is
/// taken from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose<'a> {
    /// From `Index`.
    ArxEqCounterSlots,
    /// From `Index`.
    ArxEqValueRoots,
    /// From `Index`.
    ArxRangeDelta,
    /// From `Index`.
    ArxRangeLabel,
    /// From `Index`.
    ArxRangePriority,
    /// From `Index`.
    ArxRangeSeal,
    /// From `Index`.
    ArxRangeSeparator,
    /// From `Index`.
    ArxRangeTie,
    /// From a root, with the collection's id.
    Collection(&'a [u8; 8]),
    /// From `Collection`.
    CollectionHeaderSeal,
    /// From `Collection`. All 32 bytes are used (AES-SIV takes two AES-128 keys).
    CollectionRowId,
    /// From `Collection`.
    CollectionValuesSeal,
    /// From a root, with the column's id.
    Column(&'a [u8; 8]),
    /// From `Column`. All 32 bytes are used.
    ColumnCheck,
    /// From `Column`. All 32 bytes are used (AES-SIV takes two AES-128 keys).
    ColumnEquality,
    /// From `Column`.
    ColumnResultSeal,
    /// From `Column`.
    ColumnSeal,
    /// From a root, with the index's id.
    Index(&'a [u8; 8]),
    /// From a root.
    ProxyRunning,
    /// From a root.
    ProxyStoreSeal,
    /// From a root.
    ProxyStoreSlotNames,
    /// From `Index`.
    BcloTape,
    /// From `Index`.
    BPlusRecord,
    /// From `Index`.
    BPlusSeal,
    /// From `Index`.
    BPlusTie,
    /// From `Index`.
    ClozHash,
    /// From `Index`.
    ClozPrefix,
    /// From `Index`.
    ClozSeal,
    /// From `Index`.
    ClwwPrefix,
    /// From `Index`.
    KerschbaumTuenoSeal,
    /// From `Index`.
    LewiWuBlock,
    /// From `Index`.
    LewiWuPermutation,
    /// From `Index`.
    LogarithmicBrcKeyword,
    /// From `Index`.
    LogarithmicBrcSeal,
    /// From `Index`. All 32 bytes are used.
    MopeRows,
    /// From `Index`. All 32 bytes are used.
    MopeSeal,
    /// From `Index`. All 32 bytes are used.
    MopeTags,
    /// From `Index`.
    PathOramSeal,
    /// From `Index`.
    PopeSeal,
    /// From `Index`.
    PopeTie,
    /// From a root.
    SearchJournalSeal,
    /// From `Index`.
    UniqueLabel,
}

impl<'a> Purpose<'a> {
    /// The step's name and, for steps that fan out, which one.
    fn path(&self) -> (&'static str, &'a [u8]) {
        match *self {
            Self::ArxEqCounterSlots => ("arx_eq counter slots", b""),
            Self::ArxEqValueRoots => ("arx_eq value roots", b""),
            Self::ArxRangeDelta => ("arx_range delta", b""),
            Self::ArxRangeLabel => ("arx_range label", b""),
            Self::ArxRangePriority => ("arx_range priority", b""),
            Self::ArxRangeSeal => ("arx_range seal", b""),
            Self::ArxRangeSeparator => ("arx_range separator", b""),
            Self::ArxRangeTie => ("arx_range tie", b""),
            Self::Collection(id) => ("collection", id),
            Self::CollectionHeaderSeal => ("collection header seal", b""),
            Self::CollectionRowId => ("collection row id", b""),
            Self::CollectionValuesSeal => ("collection values seal", b""),
            Self::Column(id) => ("column", id),
            Self::ColumnCheck => ("column check", b""),
            Self::ColumnEquality => ("column equality", b""),
            Self::ColumnResultSeal => ("column result seal", b""),
            Self::ColumnSeal => ("column seal", b""),
            Self::Index(id) => ("index", id),
            Self::ProxyRunning => ("proxy running", b""),
            Self::ProxyStoreSeal => ("proxy store seal", b""),
            Self::ProxyStoreSlotNames => ("proxy store slot names", b""),
            Self::BcloTape => ("bclo tape", b""),
            Self::BPlusRecord => ("bplus record", b""),
            Self::BPlusSeal => ("bplus seal", b""),
            Self::BPlusTie => ("bplus tie", b""),
            Self::ClozHash => ("cloz hash", b""),
            Self::ClozPrefix => ("cloz prefix", b""),
            Self::ClozSeal => ("cloz seal", b""),
            Self::ClwwPrefix => ("clww prefix", b""),
            Self::KerschbaumTuenoSeal => ("kerschbaum_tueno seal", b""),
            Self::LewiWuBlock => ("lewi_wu block", b""),
            Self::LewiWuPermutation => ("lewi_wu permutation", b""),
            Self::LogarithmicBrcKeyword => ("logarithmic_brc keyword", b""),
            Self::LogarithmicBrcSeal => ("logarithmic_brc seal", b""),
            Self::MopeRows => ("mope rows", b""),
            Self::MopeSeal => ("mope seal", b""),
            Self::MopeTags => ("mope tags", b""),
            Self::PathOramSeal => ("path_oram seal", b""),
            Self::PopeSeal => ("pope seal", b""),
            Self::PopeTie => ("pope tie", b""),
            Self::SearchJournalSeal => ("search journal seal", b""),
            Self::UniqueLabel => ("eq_unique label", b""),
        }
    }
}

impl Key {
    /// The key one step further down the tree.
    #[must_use]
    pub fn child(&self, purpose: Purpose<'_>) -> Self {
        let (name, which) = purpose.path();
        self.derive(&[name.as_bytes(), which])
    }
}
