//! The host of boolean search that a command line names.

use super::SearchHostArguments;
use crate::configuration::{ConfigurationError, Search};

impl SearchHostArguments {
    /// The host, if one is named.
    ///
    /// # Errors
    /// [`ConfigurationError`] if how it is spoken to is not said, or this build has none.
    pub(super) fn host(&self) -> Result<Option<Search>, ConfigurationError> {
        let attested = (self.search_certificates.clone(), self.search_policy.clone());
        let Some(host) = self.search.as_deref() else { return Ok(None) };
        Search::at(host, attested, self.search_plain_channel).map(Some)
    }
}
