//! What a request may hold. An enclave takes what fits its memory and the host's messages; clients agree on less, and say so before they ask.

use crate::bisen::message::{Groups, Request, Settings};
use crate::bisen::update::Update;
use crate::bisen::{COLLECTION_NAME_BYTES_MAX, FIELDS_MAX};
use arras_protocol::iee::IDENTITY_BYTES_MAX;

/// Most pairs in one call.
pub const PAIRS_MAX: usize = 32_768;

/// Most documents in one call.
pub const DOCUMENTS_MAX: usize = 2048;

/// Most filters in a search.
pub const FILTERS_MAX: usize = 16;

/// Most operands that wait at once while a formula is evaluated: how deep it may be nested.
pub const DEPTH_MAX: usize = 32;

/// Most groups that one right names.
const GROUPS_MAX: usize = 256;

/// Longest serial number of a certificate, in bytes (RFC 5280, 4.1.2.2; one more for a sign).
const SERIAL_BYTES_MAX: usize = 21;

impl Request {
    /// Whether names, settings and lists are within their bounds. Of a search [`Search::check`](crate::bisen::query::Search::check) says it.
    #[must_use]
    pub fn is_bounded(&self) -> bool {
        let is_name = |name: &str| (1..=COLLECTION_NAME_BYTES_MAX).contains(&name.len());
        let is_identity = |name: &str| (1..=IDENTITY_BYTES_MAX).contains(&name.len());
        let has_fields = |settings: &Settings| usize::from(settings.fields) <= FIELDS_MAX;
        let are_few = |groups: &Groups| !matches!(groups, Groups::Only(groups) if groups.len() > GROUPS_MAX);
        match self {
            Self::Create { name, settings } => is_name(name) && has_fields(settings) && settings.is_bounded(),
            Self::Open(name) => is_name(name),
            Self::Grant { identity, collection, rights } => {
                is_identity(identity) && is_name(collection) && are_few(&rights.groups)
            }
            Self::Revoke(identity) => is_identity(identity),
            Self::RevokeCertificate(serial) => (1..=SERIAL_BYTES_MAX).contains(&serial.len()),
            Self::Update(update) => update.is_bounded(),
            Self::Search(_) | Self::Compact { .. } => true,
        }
    }
}

impl Update {
    /// Whether it is within bounds: for what came from elsewhere.
    #[must_use]
    pub fn is_bounded(&self) -> bool {
        let documents = self.documents.len();
        documents <= DOCUMENTS_MAX
            && self.pairs.len() <= PAIRS_MAX
            && self.pairs.iter().all(|pair| (pair.slot as usize) < documents)
    }
}
