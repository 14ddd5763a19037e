//! Leakage of BISEN (Ferreira et al., IEEE TDSC): boolean search by an isolated execution environment.
//!
//! What a host or a storage learns of the index, and of what the enclave reads and writes there; what the isolation itself leaves open
//! (a processor's side channels) is not in it.
//!
//! *Copy.* How many entries there are, all of one length, under pseudorandom labels: of keywords, documents, additions and deletions
//! nothing.
//!
//! *Search.* Which entries its keywords have, in a random order over all of them: their number, and which earlier searches,
//! updates and compactions touched the same ones. So two searches with a keyword in common are seen to have one, and how
//! many entries it has. Which documents match stays inside; the padding policy decides what the answer's length shows.
//!
//! Where counters are spilled, that a search reads all of them; not which it wants.
//!
//! *Update.* How many pairs and documents a call has. Forward private: labels are fresh, whatever was searched before. Backward
//! private with the pattern of updates: a search shows when the entries of its keywords were written, not which of them add,
//! delete, or belong to documents that are gone.

use super::{Leakage, Pattern};

/// BISEN.
pub const BISEN: Leakage = Leakage {
    protocol: "bisen",
    snapshot: &[Pattern::Size],
    search: &[Pattern::Volume, Pattern::AccessPattern, Pattern::SearchPattern, Pattern::WriteHistory],
    update: &[Pattern::Size],
    attacks: &[super::KEYWORD_COUNTS],
};
