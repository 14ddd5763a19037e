//! The keys of columns as one session uses them: what its statements give for their own results is sealed to it and to them.

use crate::catalog::{Encryption, Origin, StatementDigest};
use crate::codec::Zone;
use crate::error::{SqlError, sqlstate};
use arras_service::ServiceError;
use arras_service::columns::{ColumnKeys, Columns};
use rand::Rng;
use std::sync::Arc;

/// What moments that are defaults are sealed for: shorter than every statement's.
const DEFAULT: &[u8] = b"default";

/// What tells one session's values from another's that its statements give for their own results. No secret.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ConnectionId([u8; 16]);

impl ConnectionId {
    /// One that no session has had.
    #[must_use]
    pub fn draw() -> Self {
        let mut id = [0; 16];
        rand::rng().fill_bytes(&mut id);
        Self(id)
    }

    fn context(self, statement: StatementDigest) -> [u8; 48] {
        let mut context = [0; 48];
        let (session, of_statement) = context.split_at_mut(16);
        session.copy_from_slice(&self.0);
        of_statement.copy_from_slice(&statement.bytes());
        context
    }
}

/// What of a session its values hang on as they are opened: what they are sealed to, and how they are shown.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Viewer {
    /// What its values for results are sealed to.
    pub id: ConnectionId,
    /// Its time zone.
    pub(crate) zone: Zone,
}

/// The keys of columns, and the session whose statements use them.
#[derive(Clone, Copy)]
pub struct ConnectionKeys<'a> {
    columns: &'a dyn Columns,
    session: Viewer,
}

impl<'a> ConnectionKeys<'a> {
    /// The keys as a session uses them.
    #[must_use]
    pub fn new(columns: &'a dyn Columns, session: Viewer) -> Self {
        Self { columns, session }
    }

    /// The session's time zone.
    pub(super) fn zone(&self) -> Zone {
        self.session.zone
    }

    /// The keys of the column of an id; `of` is the one that messages name.
    fn keys(&self, id: [u8; 8], of: &Encryption) -> Result<Arc<dyn ColumnKeys>, SqlError> {
        let missing = || {
            SqlError::new(sqlstate::INTERNAL_ERROR, format!("the proxy has no keys of column {}", of.label))
        };
        self.columns.keys(id).ok_or_else(missing)
    }

    /// The equality term of a canonical value.
    pub(super) fn equality(&self, of: &Encryption, canonical: &[u8]) -> Result<Vec<u8>, SqlError> {
        Ok(self.keys(of.equality.unwrap_or(of.id), of)?.equality(canonical).to_vec())
    }

    /// Seals a value: as one of the column, or for the results of the statement that gives it.
    pub(super) fn seal(&self, of: &Encryption, canonical: &[u8]) -> Result<Vec<u8>, SqlError> {
        let keys = self.keys(of.id, of)?;
        Ok(match of.origin {
            Origin::Stored => keys.seal(canonical),
            Origin::Given(statement) | Origin::Chosen(statement) => {
                keys.seal_for(&self.session.id.context(statement), canonical)
            }
        })
    }

    /// Seals the moment that is the column's default.
    pub(super) fn seal_default(&self, of: &Encryption, moment: &[u8]) -> Result<Vec<u8>, SqlError> {
        Ok(self.keys(of.id, of)?.seal_for(DEFAULT, moment))
    }

    /// Opens what [`Self::seal_default`] made; none if it was not sealed for that.
    pub(super) fn open_default(&self, of: &Encryption, sealed: &[u8]) -> Option<Vec<u8>> {
        self.keys(of.id, of).ok()?.open_for(DEFAULT, sealed).ok()
    }

    /// Opens a value of the column, or one that the statement gave, as its origin may be.
    pub(super) fn open(
        &self,
        of: &Encryption,
        sealed: &[u8],
    ) -> Result<Result<Vec<u8>, ServiceError>, SqlError> {
        let keys = self.keys(of.id, of)?;
        let given = |statement| keys.open_for(&self.session.id.context(statement), sealed);
        Ok(match of.origin {
            Origin::Stored => keys.open(sealed),
            Origin::Given(statement) => given(statement),
            Origin::Chosen(statement) => keys.open(sealed).or_else(|_| given(statement)),
        })
    }
}
