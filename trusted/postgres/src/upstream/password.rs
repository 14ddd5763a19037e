//! What the proxy logs in with at the database: no key of any data, but nobody else's business.

use std::sync::Arc;
use zeroize::Zeroizing;

/// The password of a database's user; wiped with its last holder, never shown.
pub struct LoginPassword(Zeroizing<String>);

impl LoginPassword {
    /// Takes it from where it was read.
    #[must_use]
    pub fn new(text: String) -> Arc<Self> {
        Arc::new(Self(Zeroizing::new(text)))
    }

    /// For the messages of a log-in.
    pub(super) fn expose(&self) -> &str {
        &self.0
    }
}
